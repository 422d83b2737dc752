"""``kubectl gpu usage``: how much GPU-time was used, by whom, and since when that is complete."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn

import click
import yaml
from typing_extensions import override

from admission.answers import namespace_usage, owning, preemptions, quota_use
from admission.answers import usage as usages
from admission.answers.namespace_usage import NamespaceUsage
from admission.answers.preemptions import Party, Preemptions, ToldPreemption
from admission.answers.usage import Usage, UsageRow
from admission.base import clock, durations, names
from admission.base.errors import InvalidValueError
from admission.base.json_answers import ErrorCode
from admission.cli import asking, clusters, named, output, tables
from admission.cli.kubectl import EXITS
from admission.cli.tables import TableColumn
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import usage_record
from admission.objects.usage_record import DAY, Period, Record, RecordedOwner, Runs
from admission.reasons import sentences

_DAYS: Final = re.compile(r"([0-9]+)d")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NAMED_DAYS: Final = {"today": 0, "yesterday": 1}
"""Days, and how many lie between their begin and that of today."""
_OWNER: Final = "owner"
_OTHERS: Final = "(others)"
_OLD_SECONDS: Final = 600
_GIB: Final = 2**30
_NAMED_HOLES: Final = 3


class _Since(click.ParamType[int]):
    name = "time"

    @override
    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the moment, in seconds since 1970."""
        if isinstance(value, int):
            return value
        now = int(output.clock().now().timestamp())
        today = Period.DAY.start_of(now)
        days = _DAYS.fullmatch(value)
        if value in _NAMED_DAYS:
            return today - _NAMED_DAYS[value] * DAY
        if _DATE.match(value):
            moment = self._moment(value, param, ctx)
            if moment >= now:
                self.fail(f"{value!r}: must be in the past", param, ctx)
            return moment
        try:
            microseconds = int(days[1]) * DAY * 10**6 if days else durations.parse(value)
        except InvalidValueError as error:
            hint = "whole days such as 7d, today, yesterday, or a date such as 2026-03-01"
            self.fail(f"{error}, {hint}", param, ctx)
        if microseconds <= 0:
            self.fail(f"{value!r}: must be above 0s", param, ctx)
        return now - microseconds // 10**6

    def _moment(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the moment of a date, or of a time with its zone."""
        try:
            is_day = _DATE.fullmatch(value) is not None
            day = datetime.fromisoformat(value).replace(tzinfo=UTC)
            moment = day if is_day else clock.from_wire(value)
        except ValueError:
            self.fail(
                f"{value!r}: must be a date such as 2026-03-01, or a time such as "
                "2026-03-01 08:00Z",
                param,
                ctx,
            )
        return int(moment.timestamp())


@click.command(
    epilog=f"""\b
Examples:
  kubectl gpu usage
  kubectl gpu usage --since today
  kubectl gpu usage --since 24h --by queue --by flavor
  kubectl gpu usage --since 30d --by user -n research
  kubectl gpu usage --by owner                  # GPU-hours of each Deployment, Job and so on
  kubectl gpu usage --preempted --since today   # what was preempted, and for whom
  kubectl gpu usage --since 7d -o json

{EXITS}"""
)
@click.option(
    "--since",
    type=_Since(),
    default="7d",
    show_default=True,
    help="From when on: 36h or 7d ago, today or yesterday (its midnight, UTC), a date such as "
    "2026-03-01, or a time. A record that began earlier counts as a whole.",
)
@click.option(
    "--by",
    "dimensions",
    multiple=True,
    type=click.Choice([*usages.FIELDS, _OWNER]),
    help="By what to add up; may be repeated. owner: by Deployment, Job or other owner, with run "
    "times, also of what still runs; it goes with namespace only. Default: namespace.",
)
@click.option(
    "--preempted",
    is_flag=True,
    help="Show instead what was preempted, when, for whom and why, as Workloads and events tell.",
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
    preempted: bool,
    namespace: str | None,
    system_namespace: str,
    limit: int,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    """Show how much GPU-time was used, by whom.

    Quota counts from its reservation until its release. The answer says since when it is complete,
    and names the times in which something may be missing. Records of all teams are ConfigMaps in
    the namespace of gpu-admission. If you may not list them, it reads those of your namespace from
    the visibility API, and where that is not installed, it adds up the Workloads of your namespace
    that are still there. --by owner reads Workloads and pods, too, for what still runs.
    With --preempted it shows the Workloads and events that you may read.
    """
    if preempted:
        if dimensions:
            raise click.UsageError("--preempted adds nothing up; leave --by out")
        _show_preempted(since, namespace or "", limit, kubeconfig, context, form)
        return
    _refuse_parts_of_owners(dimensions)
    fields = (
        tuple(usages.FIELDS)
        if form == output.WIDE
        else tuple(dimension for dimension in dimensions if dimension != _OWNER)
    )
    now = int(output.clock().now().timestamp())
    only, has_runs = namespace or "", _OWNER in dimensions
    read = _ReadUsage(since, now, fields, has_runs)
    records: tuple[Record, ...] = ()
    with asking.asked(kubeconfig, context, None) as target:
        try:
            records, unreadable = usages.read(target.api, system_namespace)
        except errors.ForbiddenError:
            only = only or target.namespace
            usage_ = _of_member(target.api, only, read, system_namespace)
        else:
            usage_ = _of_records(target.api, only, target.namespace, read, records, unreadable)
        if usage_ is None:
            _fail_unrecorded(target.api, system_namespace, records, since)
    if form == "json":
        output.print_json(usages.document(usage_))
        return
    asking.say(_lines(usage_, now, since, limit, tables.width(), only, has_runs=has_runs))


class _ReadUsage(NamedTuple):
    """What is asked for, wherever it is read.

    Attributes:
        since: from when on, seconds since 1970.
        now: seconds since 1970.
        fields: by what is summed; empty for the namespace.
        has_runs: whether owners are shown, with what still runs.
    """

    since: int
    now: int
    fields: tuple[str, ...]
    has_runs: bool


def _of_records(
    api: Api,
    namespace: str,
    own_namespace: str,
    read: _ReadUsage,
    records: tuple[Record, ...],
    unreadable: tuple[str, ...],
) -> Usage | None:
    """Return what records say; None where nothing is of that time."""
    running = None
    if read.has_runs:
        running, missing = usages.running(api, namespace, own_namespace, read.now)
        unreadable += missing
    return usages.summed(
        records,
        read.since,
        dimensions=read.fields or ("namespace",),
        namespace=namespace,
        unreadable=unreadable,
        running=running,
    )


def _of_member(api: Api, namespace: str, read: _ReadUsage, system_namespace: str) -> Usage | None:
    """Return what who may not read the records of all teams sees of a namespace."""
    try:
        records, unreadable = usages.read(api, namespace, resources.USAGE_RECORDS)
    except errors.ApiError as error:
        step = _records_advice(error, namespace)
    else:
        usage_ = _of_records(api, namespace, namespace, read, records, unreadable)
        if usage_ is not None:
            return usage_
        step = f"there is no record of that time: {_MADE}"
    counted = namespace_usage.of_workloads(api, namespace, read.since, read.now)
    if counted is None:
        _fail_forbidden(namespace, system_namespace, step)
    return _of_workloads(counted, read, step)


def _records_advice(error: errors.ApiError, namespace: str) -> str:
    """Return why the records of a namespace are not shown, and what its members can do."""
    if isinstance(error, errors.NotFoundError):
        return (
            "complete hours come from the visibility API, which is not installed; ask an "
            "administrator for it: gpu-admission install --visibility"
        )
    if isinstance(error, errors.ForbiddenError):
        return (
            f"the records of namespace {namespace} are complete, and you may not read them; ask "
            f"an administrator for it: kubectl create rolebinding gpu-usage -n {namespace} "
            f"--clusterrole {names.USAGE_VIEWER_ROLE} --user NAME"
        )
    return f"complete hours come from the visibility API; try again, it answered: {error.message}"


def _fail_unrecorded(
    api: Api, system_namespace: str, records: Sequence[Record], since: int
) -> NoReturn:
    """Fail with the time of which records exist, and with what keeps others from being made."""
    why = _why_unrecorded(api, system_namespace)
    if not records:
        output.fail(f"no usage is recorded: namespace {system_namespace} has no records", why)
    first = usage_record.text_of(records[0].begin)
    last = usage_record.text_of(max(record.until for record in records))
    output.fail(
        f"no usage is recorded since {usage_record.text_of(since)}: the records of namespace "
        f"{system_namespace} are from {first} to {last}",
        f"{why}; all of them: --since {first}",
    )


_MADE: Final = (
    "a controller makes the first record a minute after it has started, and goes on once a "
    "minute; if there is none later, its log says why: usage not recorded"
)


def _why_unrecorded(api: Api, system_namespace: str) -> str:
    """Return which setting switches the records off, as far as it may be read; else what does."""
    try:
        view = api.get(resources.CONFIG_MAPS, names.CONFIG_MAP, system_namespace)
        documents = list(yaml.safe_load_all((view.get("data") or {}).get("config.yaml", "")))
    except (errors.ApiError, yaml.YAMLError):
        documents = []
    # As it is written: the commands are installed without what reads configurations.
    is_off = any(
        (document.get("journal") or {}).get("enabled") is False
        for document in documents
        if isinstance(document, dict) and isinstance(document.get("journal") or {}, dict)
    )
    name = f"{system_namespace}/{names.CONFIG_MAP}"
    return (
        f"nothing is recorded: journal.enabled is false in ConfigMap {name}" if is_off else _MADE
    )


def _of_workloads(counted: NamespaceUsage, read: _ReadUsage, step: str) -> Usage | None:
    """Return what the Workloads of a namespace say, with what would show all; None of no time."""
    usage_ = usages.summed(
        [counted.record],
        read.since,
        dimensions=read.fields or ("namespace",),
        unreadable=(*counted.missing, step),
        running=counted.running if read.has_runs else None,
    )
    return None if usage_ is None else replace(usage_, is_recorded=False)


def _fail_forbidden(namespace: str, system_namespace: str, step: str) -> NoReturn:
    output.fail(
        "you may not read who used how much GPU-time: the records of all teams are "
        f"ConfigMaps of namespace {system_namespace}, and you may not list Workloads of "
        f"namespace {namespace}",
        f"{step}; what you may ask: kubectl gpu usage --preempted "
        f"-n {namespace}; kubectl gpu who -n {namespace}",
        code=ErrorCode.FORBIDDEN,
    )


def _refuse_parts_of_owners(dimensions: tuple[str, ...]) -> None:
    """Refuse what is not recorded of an owner.

    Raises:
        UsageError: by an owner and by something else than its namespace is to be summed.
    """
    unrecorded = [name for name in dimensions if name not in {_OWNER, "namespace"}]
    if _OWNER in dimensions and unrecorded:
        raise click.UsageError(
            f"--by owner cannot be combined with --by {unrecorded[0]}: records do not tell the "
            f"{' and '.join(unrecorded)} of an owner; ask for each by itself"
        )


def _show_preempted(
    since: int,
    namespace: str,
    limit: int,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    moment = datetime.fromtimestamp(since, UTC)
    with asking.asked(kubeconfig, context, namespace) as target:
        preempted = preemptions.of(target.api, namespace, target.namespace, moment)
    if not preempted.preemptions:
        asking.instead_of_nothing(
            preempted.missing, target, kind="Workload", command="usage --preempted", nothing=""
        )
    if form == "json":
        output.print_json(preemptions.document(preempted, moment))
        return
    asking.say(_preempted_lines(preempted, since, limit, tables.width(), namespace))


_PREEMPTED_COLUMNS: Final = [
    TableColumn("WHEN"),
    TableColumn("PREEMPTED"),
    TableColumn("USER", goes=3),
    TableColumn("GPUS", right=True),
    TableColumn("QUEUE", goes=2),
    TableColumn("FOR"),
    TableColumn("ITS USER", goes=4),
    TableColumn("ITS QUEUE", goes=1),
    TableColumn("WHY"),
    TableColumn("NOW"),
]
_OF_DELETED: Final = "of deleted workloads only the last hour is known"
_HOW_FAR: Final = (
    "note: of each Workload that exists its last preemption is shown; of earlier ones, and of "
    "what is gone, those whose events the API server still has, by default of the last hour"
)


def _preempted_lines(
    preempted: Preemptions, since: int, limit: int, width: int, only: str
) -> Iterator[str]:
    rows = [_preempted_row(preemption) for preemption in preempted.preemptions]
    where = f" in namespace {only}" if only else " that you may read" if preempted.missing else ""
    period = f"since {usage_record.text_of(since)}{where}"
    if rows:
        noun = tables.counted(len(rows), "preemption")
        yield from tables.sentence(f"{noun} {period}: {_gpus_lost(preempted)}", width, "  ")
        yield from tables.table(_PREEMPTED_COLUMNS, rows[:limit] if limit else rows, width)
    else:
        text = f"Nothing preempted is known {period} ({_OF_DELETED})"
        yield from tables.sentence(text, width, "  ")
    if limit and len(rows) > limit:
        text = f"and {len(rows) - limit:,} more; all of them: --limit 0"
        yield from tables.sentence(text, width, "  ")
    yield from tables.sentence(_HOW_FAR, width, "  ")
    yield from asking.not_shown(preempted.missing, width, only)


def _gpus_lost(preempted: Preemptions) -> str:
    """Return what all victims asked for, and of how many that is not known."""
    sums: dict[str, int] = {}
    unknown = 0
    for preemption in preempted.preemptions:
        unknown += preemption.gpus is None
        for resource, n in (preemption.gpus or {}).items():
            sums[resource] = sums.get(resource, 0) + n
    amounts = [
        f"{quota_use.amount_text(resource, sums[resource])} {resource}"
        for resource in sorted(sums, key=quota_use.order_of)
    ]
    if unknown:
        amounts.append(f"not known of {unknown:,}")
    return ", ".join(amounts) or "no GPUs"


def _preempted_row(preemption: ToldPreemption) -> list[str]:
    victim, preemptor = preemption.victim, preemption.preemptor
    return [
        preemption.at[:19] + "Z",
        _party(victim),
        _user(victim),
        _gpus(preemption.gpus),
        victim.cluster_queue or tables.UNKNOWN,
        _party(preemptor),
        _user(preemptor),
        preemptor.cluster_queue or tables.UNKNOWN,
        sentences.preempted_by(preemption.why),
        str(preemption.afterwards),
    ]


def _party(party: Party) -> str:
    if not party.workload:
        return tables.UNKNOWN
    return owning.shown(party.namespace, party.owner, party.workload)


def _user(party: Party) -> str:
    return tables.UNKNOWN if party.requester == owning.UNKNOWN else party.requester


def _gpus(gpus: Mapping[str, int] | None) -> str:
    if gpus is None:
        return tables.UNKNOWN
    parts = (
        f"{quota_use.amount_text(resource, gpus[resource])}"
        + ("" if resource == names.GPU_RESOURCE else f" {resource.rpartition('/')[2]}")
        for resource in sorted(gpus, key=quota_use.order_of)
    )
    return ", ".join(parts) or "0"


def _lines(
    usage_: Usage, now: int, since: int, limit: int, width: int, only: str, *, has_runs: bool
) -> Iterator[str]:
    for text in _verdict(usage_, now, since, only):
        yield from tables.sentence(text, width, "  ")
    if has_runs and usage_.record.owners_from != usage_.record.begin:
        yield from tables.sentence(_how_far_owners_count(usage_), width, "  ")
    yield from asking.not_shown(usage_.unreadable, width, only)
    rows = _owner_rows(usage_) if has_runs else [_row(usage_, r) for r in usage_.rows]
    if not rows:
        return
    yield ""
    yield from tables.table(
        _OWNER_COLUMNS if has_runs else _columns(usage_), rows[:limit] if limit else rows, width
    )
    if limit and len(rows) > limit:
        yield from tables.sentence(
            f"and {len(rows) - limit:,} more; all of them: --limit 0", width, "  "
        )


def _verdict(usage_: Usage, now: int, since: int, only: str) -> Iterator[str]:
    record, totals = usage_.record, dict[str, int]()
    until, begin = usage_record.text_of(record.until), usage_record.text_of(record.begin)
    for row in usage_.rows:
        totals[row.resource] = totals.get(row.resource, 0) + row.seconds
    sums = "; ".join(f"{_hours(resource, n)} {resource}" for resource, n in totals.items())
    if not usage_.is_recorded:
        yield (
            f"hours: {sums or 'none'}, from {begin} until {until}, of the Workloads of namespace "
            f"{only} that are still there"
        )
        yield (
            "not complete: what Workloads held that were deleted, and before they were "
            "preempted or requeued, is not counted; Workloads of pods go with their pods"
        )
        return
    where = f" of namespace {only}" if only else ""
    yield f"hours: {sums or 'none'}{where}, from {begin} until {until}"
    if not record.holes:
        yield f"complete since {begin}"
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
    if record.begin > since:
        yield f"note: nothing is recorded before {usage_record.text_of(record.begin)}"
    elif record.begin < since:
        yield (
            f"note: you asked from {usage_record.text_of(since)} on; the record that contains "
            f"that time is counted as a whole, from {usage_record.text_of(record.begin)} on"
        )
    if now - record.until > _OLD_SECONDS:
        yield "note: nothing was recorded since then; does a controller lead? gpu-admission doctor"


def _how_far_owners_count(usage_: Usage) -> str:
    """Return since when hours are recorded by owner, which began later than the others."""
    since = usage_.record.owners_from
    if since is None:
        return (
            "note: hours of owners are not known: this version recorded nothing of that time yet"
        )
    moment = usage_record.text_of(since)
    return f"note: hours of owners count from {moment} on; run times from earlier"


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
    share = "<1%" if row.seconds and not percent else f"{percent}%"
    values = row.values if any(row.values) else (_OTHERS, *row.values[1:])
    return [
        *(value or "-" for value in values),
        row.resource,
        _hours(row.resource, row.seconds),
        share,
    ]


_OWNER_COLUMNS: Final = [
    TableColumn("NAMESPACE"),
    TableColumn("OWNER"),
    TableColumn("HOURS", right=True),
    TableColumn("RUNS", right=True),
    TableColumn("MEAN", right=True),
    TableColumn("LONGEST", right=True),
    TableColumn("RUNNING", right=True),
    TableColumn("FOR", right=True),
]
_NO_RUNS: Final = Runs(0, 0, 0)


def _owner_rows(usage_: Usage) -> list[list[str]]:
    """Return a row for each owner: its hours, and how often it ran; the largest first."""
    ended = dict(usage_.runs)
    running = usage_.running or {}
    amounts: dict[RecordedOwner, dict[str, int]] = {}
    for account, seconds in usage_.owners:
        owner = RecordedOwner(account.namespace, account.kind, account.name)
        amounts.setdefault(owner, {})[account.resource] = seconds
    ran = {
        owner: ended.get(owner, _NO_RUNS).seconds + running.get(owner, _NO_RUNS).seconds
        for owner in (*amounts, *ended, *running)
    }
    devices = {
        owner: sum(n for name, n in by_resource.items() if name != names.GPU_MEMORY)
        for owner, by_resource in amounts.items()
    }
    return [
        [
            owner.namespace or "-",
            f"{owner.kind} {owner.name or _OTHERS}",
            _owner_hours(usage_, amounts.get(owner, {})),
            *_ended(ended.get(owner, _NO_RUNS)),
            *_running(None if usage_.running is None else running.get(owner, _NO_RUNS)),
        ]
        for owner in sorted(ran, key=lambda owner: (-devices.get(owner, 0), -ran[owner], owner))
    ]


def _owner_hours(usage_: Usage, amounts: Mapping[str, int]) -> str:
    """Return the hours of an owner by resource; unknown where owners were not counted yet."""
    if not amounts:
        is_whole = usage_.is_recorded and usage_.record.owners_from == usage_.record.begin
        return _hours(names.GPU_RESOURCE, 0) if is_whole else tables.UNKNOWN
    return ", ".join(
        _hours(resource, seconds)
        + ("" if resource == names.GPU_RESOURCE else f" {resource.rpartition('/')[2]}")
        for resource, seconds in amounts.items()
    )


def _ended(runs: Runs) -> tuple[str, str, str]:
    """Return how many runs have ended, and how long they took."""
    if not runs.number:
        return "0", "-", "-"
    mean = durations.to_wire(runs.seconds // runs.number * 10**6)
    return f"{runs.number:,}", mean, durations.to_wire(runs.longest * 10**6)


def _running(runs: Runs | None) -> tuple[str, str]:
    """Return how many runs go on, and for how long the longest; None where that is not known."""
    if runs is None:
        return tables.UNKNOWN, tables.UNKNOWN
    if not runs.number:
        return "-", "-"
    return f"{runs.number:,}", durations.to_wire(runs.longest * 10**6)


def _hours(resource: str, seconds: int) -> str:
    """Return hours of a resource, to a tenth, below it to a hundredth; GPU memory in Gi."""
    unit, suffix = (_GIB, " Gi") if resource == names.GPU_MEMORY else (1, "")
    if 0 < seconds * 10 < 3600 * unit:
        hundredths = (seconds * 100 + 1800 * unit) // (3600 * unit)
        return f"0.{hundredths:02}{suffix}" if hundredths else f"<0.01{suffix}"
    tenths = (seconds * 10 + 1800 * unit) // (3600 * unit)
    return f"{tenths // 10:,}.{tenths % 10}{suffix}"
