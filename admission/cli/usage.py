"""``kubectl gpu usage``: how much GPU-time was used, by whom, and since when that is complete."""

import re
from collections.abc import Iterator
from typing import Final

import click
from typing_extensions import override

from admission.answers import usage as usages
from admission.answers.usage import Usage, UsageRow
from admission.base import durations, names
from admission.base.errors import InvalidValueError
from admission.base.json_answers import ErrorCode
from admission.cli import asking, clusters, named, output, tables
from admission.cli.kubectl import EXITS
from admission.cli.tables import TableColumn
from admission.kube import errors
from admission.objects import usage_record
from admission.objects.usage_record import RecordedOwner, Runs

_DAYS: Final = re.compile(r"([0-9]+)d")
_DAY_US: Final = 24 * 3600 * 10**6
_OWNER: Final = "owner"
_OTHERS: Final = "(others)"
_OLD_SECONDS: Final = 600
_GIB: Final = 2**30
_NAMED_HOLES: Final = 3


class _Since(click.ParamType[int]):
    name = "duration"

    @override
    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return seconds."""
        if isinstance(value, int):
            return value
        days = _DAYS.fullmatch(value)
        try:
            microseconds = int(days[1]) * _DAY_US if days else durations.parse(value)
        except InvalidValueError as error:
            self.fail(f"{error}, or whole days such as 7d", param, ctx)
        if microseconds <= 0:
            self.fail(f"{value!r}: must be above 0s", param, ctx)
        return microseconds // 10**6


@click.command(
    epilog=f"""\b
Examples:
  kubectl gpu usage
  kubectl gpu usage --since 24h --by queue --by flavor
  kubectl gpu usage --since 30d --by user -n research
  kubectl gpu usage --by owner
  kubectl gpu usage --since 7d -o json

{EXITS}"""
)
@click.option(
    "--since",
    type=_Since(),
    default="7d",
    show_default=True,
    help="How far back, as 36h or 7d. A record that began earlier counts as a whole.",
)
@click.option(
    "--by",
    "dimensions",
    multiple=True,
    type=click.Choice([*usages.FIELDS, _OWNER]),
    help="By what to add up; may be repeated. owner shows run times. Default: namespace.",
)
@click.option(
    "-n", "--namespace", is_eager=True, shell_complete=named.namespaces,
    help="Show this namespace only.",
)  # fmt: skip
@asking.all_namespaces_option
@click.option(
    "--system-namespace",
    default=names.SYSTEM_NAMESPACE,
    shell_complete=named.namespaces,
    show_default=True,
    help="Namespace of gpu-admission, where the records are.",
)
@asking.limit_option
@output.kubeconfig_option
@clusters.context_option
@output.form_option(
    output.WIDE, help_text="Output format; wide adds up by everything that is recorded."
)
def usage(
    since: int,
    dimensions: tuple[str, ...],
    namespace: str | None,
    system_namespace: str,
    limit: int,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    """Show how much GPU-time was used, by whom.

    Quota counts from its reservation until its release. The answer says since when it is complete,
    and names the times in which something may be missing. You need the right to list ConfigMaps in
    the namespace of gpu-admission.
    """
    fields = (
        tuple(usages.FIELDS)
        if form == output.WIDE
        else tuple(dimension for dimension in dimensions if dimension != _OWNER)
    )
    now = int(output.clock().now().timestamp())
    with asking.asked(kubeconfig, context, None) as target:
        try:
            records, unreadable = usages.read(target.api, system_namespace)
        except errors.ForbiddenError:
            output.fail(
                "you may not read who used how much GPU-time: the records of all teams are "
                f"ConfigMaps of namespace {system_namespace}",
                f"an administrator lets you read them all: kubectl create rolebinding usage -n "
                f"{system_namespace} --role {names.USAGE_READER_ROLE} --user NAME; what a "
                f"namespace holds now: kubectl gpu who -n {namespace or 'NAMESPACE'}",
                code=ErrorCode.FORBIDDEN,
            )
    usage_ = usages.summed(
        records,
        now - since,
        dimensions=fields or ("namespace",),
        namespace=namespace or "",
        unreadable=unreadable,
    )
    if usage_ is None:
        output.fail(
            f"no usage is recorded of that time in namespace {system_namespace}",
            "records are made once a minute while a controller runs, unless journal.enabled is "
            "false in its configuration; a longer time: --since 30d",
        )
    if form == "json":
        output.print_json(usages.document(usage_))
        return
    width = tables.width()
    asking.say(_lines(usage_, now, since, limit, width, has_runs=_OWNER in dimensions))


def _lines(
    usage_: Usage, now: int, since: int, limit: int, width: int, *, has_runs: bool
) -> Iterator[str]:
    for text in _verdict(usage_, now, since):
        yield from tables.sentence(text, width, "  ")
    rows = (
        [_run(run) for run in usage_.runs] if has_runs else [_row(usage_, r) for r in usage_.rows]
    )
    if not rows:
        return
    yield ""
    yield from tables.table(
        _RUN_COLUMNS if has_runs else _columns(usage_), rows[:limit] if limit else rows, width
    )
    if limit and len(rows) > limit:
        yield from tables.sentence(
            f"and {len(rows) - limit:,} more; all of them: --limit 0", width, "  "
        )


def _verdict(usage_: Usage, now: int, since: int) -> Iterator[str]:
    record, totals = usage_.record, dict[str, int]()
    for row in usage_.rows:
        totals[row.resource] = totals.get(row.resource, 0) + row.seconds
    sums = "; ".join(f"{_hours(resource, n)} {resource}" for resource, n in totals.items())
    yield (
        f"hours: {sums or 'none'}, from {usage_record.text_of(record.begin)} "
        f"until {usage_record.text_of(record.until)}"
    )
    if not record.holes:
        yield f"complete since {usage_record.text_of(record.begin)}"
    else:
        shown = ", ".join(
            f"{usage_record.text_of(begin)} to {usage_record.text_of(end)}"
            for begin, end in record.holes[-_NAMED_HOLES:]
        )
        remainder = len(record.holes) - _NAMED_HOLES
        yield (
            f"complete since {usage_record.text_of(usage_.complete_since)}; what began and ended "
            f"while no controller counted may be missing: {shown}"
            + (f" and {remainder} earlier times" if remainder > 0 else "")
        )
    if record.begin > now - since:
        yield f"note: nothing is recorded before {usage_record.text_of(record.begin)}"
    if now - record.until > _OLD_SECONDS:
        yield "note: nothing was recorded since then; does a controller lead? gpu-admission doctor"
    yield from (f"note: {note}" for note in usage_.unreadable)


def _columns(usage_: Usage) -> list[TableColumn]:
    heads = {"queue": "CLUSTERQUEUE"}
    return [
        *(TableColumn(heads.get(dimension, dimension.upper())) for dimension in usage_.by),
        TableColumn("RESOURCE"),
        TableColumn("HOURS", right=True),
        TableColumn("SHARE", right=True),
    ]


def _row(usage_: Usage, row: UsageRow) -> list[str]:
    total = sum(row_.seconds for row_ in usage_.rows if row_.resource == row.resource)
    percent = (row.seconds * 200 + total) // (2 * total) if total else 0
    values = row.values if any(row.values) else (_OTHERS, *row.values[1:])
    return [
        *(value or "-" for value in values),
        row.resource,
        _hours(row.resource, row.seconds),
        f"{percent}%",
    ]


_RUN_COLUMNS: Final = [
    TableColumn("NAMESPACE"),
    TableColumn("OWNER"),
    TableColumn("RUNS", right=True),
    TableColumn("MEAN", right=True),
    TableColumn("LONGEST", right=True),
]


def _run(run: tuple[RecordedOwner, Runs]) -> list[str]:
    owner, runs = run
    return [
        owner.namespace or "-",
        f"{owner.kind} {owner.name or _OTHERS}",
        f"{runs.number:,}",
        durations.to_wire(runs.seconds // runs.number * 10**6),
        durations.to_wire(runs.longest * 10**6),
    ]


def _hours(resource: str, seconds: int) -> str:
    """Return hours of a resource, to a tenth; GPU memory in Gi."""
    unit, suffix = (_GIB, " Gi") if resource == names.GPU_MEMORY else (1, "")
    tenths = (seconds * 10 + 1800 * unit) // (3600 * unit)
    return f"{tenths // 10:,}.{tenths % 10}{suffix}"
