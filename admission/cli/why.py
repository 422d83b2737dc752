"""``kubectl gpu why``: where something stands, and what to do about it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import click

from admission.answers import estimates, quota_use
from admission.answers import why as visibility_why
from admission.answers.why import Answer, Numbers, State
from admission.cli import asking, clusters, named, output, tables
from admission.cli.kubectl import EXITS
from admission.cli.tables import TableColumn
from admission.reasons import sentences

_PARTS_SHOWN: Final = 20
_NODES_SHOWN: Final = 5
_QUOTA: Final = (
    TableColumn("FLAVOR"),
    TableColumn("RESOURCE", goes=3),
    TableColumn("ASKS", right=True),
    TableColumn("FREE", right=True),
    TableColumn("REACH", right=True, goes=1),
    TableColumn("OWN", right=True, goes=2),
    TableColumn("HELD BY", goes=4),
)
_PARTS: Final = (TableColumn("NAME"), TableColumn("STATE"), TableColumn("WHY", goes=1))


@click.command(
    epilog=f"""\b
Examples:
  kubectl gpu why train-0 -n research           # a pod, or whatever else has the name
  kubectl gpu why research/train-0              # the same
  kubectl gpu why job/train
  kubectl gpu why deployment/chat -n serving
  kubectl gpu why workload/job-train-1f2e3 -o wide
  kubectl gpu why clusterqueue/research         # why it admits nothing, or what holds it
  kubectl gpu why localqueue/default            # whether it admits, what it holds, who waits
  kubectl gpu why train-0 -o json

{EXITS}"""
)
@click.argument("subject", metavar="[NAMESPACE/][KIND/]NAME", shell_complete=named.subjects)
@click.option(
    "-n", "--namespace", shell_complete=named.namespaces,
    help="Where it is. Default: that of the context.",
)  # fmt: skip
@output.kubeconfig_option
@clusters.context_option
@output.form_option(
    output.WIDE, help_text="Form of the answer; wide has Kueue's own message, too."
)
def why(
    subject: str, namespace: str | None, kubeconfig: str | None, context: str | None, form: str
) -> None:
    """Say where something stands: admitted and on what, or waiting, why, and what to do.

    KIND is pod, an owner such as job or deployment, workload, localqueue or clusterqueue, as
    kubectl takes it: singular, plural, short, or with its API group. A name alone is that of a
    pod or, if there is none, of whatever else has the name. A word before the name that is no kind
    is a namespace.
    """
    with asking.asked(kubeconfig, context, namespace) as target:
        answer = visibility_why.explain(target.api, target.namespace, subject)
    message, advice = map(clusters.repeated, (answer.message, answer.advice))
    answer = replace(answer, message=message, advice=advice)
    if form == "json":
        output.print_json(visibility_why.document(answer))
        return
    asking.say(_lines(answer, tables.width(), is_wide=form == output.WIDE))


def _lines(answer: Answer, width: int, *, is_wide: bool) -> Iterator[str]:
    yield from tables.sentence(answer.message, width)
    rows = _rows(answer) | (_wide(answer) if is_wide else {})
    size = max(map(len, rows))
    for head, text in rows.items():
        yield from tables.sentence(f"  {head:<{size}}  {text}", width, " " * (size + 4))
    if answer.numbers:
        yield ""
        rows_of_quota = [_quota_row(numbers) for numbers in _shortest_first(answer)]
        yield from tables.table(*tables.without_unknown(_QUOTA, rows_of_quota), width)
    if answer.parts:
        yield ""
        shown = answer.parts[:_PARTS_SHOWN]
        yield from tables.table(
            _PARTS, [(part.name, part.state, part.message) for part in shown], width
        )
        if len(shown) < len(answer.parts):
            yield f"and {len(answer.parts) - len(shown):,} more; all of them: -o json"
    if answer.numbers or answer.parts:
        yield ""
    for note in answer.notes:
        if note != estimates.NOT_READ:  # what is missing says why
            yield from tables.sentence(f"note: {note}", width, "  ")
    unknown = "when it starts" if estimates.NOT_READ in answer.notes else ""
    yield from asking.not_shown(answer.missing, width, unknown=unknown)
    if answer.advice:
        yield from tables.sentence(f"next: {answer.advice}", width, "  ")


def _shortest_first(answer: Answer) -> list[Numbers]:
    """Return the numbers of each flavor and resource: those that lack first, then GPUs."""

    def key(numbers: Numbers) -> tuple[bool, bool, str]:
        asks, free = numbers.asks, numbers.free
        is_enough = free is not None and asks is not None and asks <= free
        return (is_enough, *quota_use.order_of(numbers.resource))

    return sorted(answer.numbers, key=key)


def _rows(answer: Answer) -> dict[str, str]:
    """Return what is known, by heading."""
    subject = "/".join(filter(None, (answer.namespace, answer.name)))
    age = tables.age(answer.since, output.clock().now())
    flavors = ", ".join(
        f"{resource} on {' and '.join(names)}" for resource, names in answer.flavors.items()
    )
    rows = {
        answer.kind.lower(): subject,
        "state": f"{answer.state} for {age}" if age else str(answer.state),
        "queue": _queue(answer),
        "flavors": flavors,
        "nodes": _nodes(answer),
        "workload": answer.workload,
    }
    return {head: text for head, text in rows.items() if text}


def _nodes(answer: Answer) -> str:
    """Return on which nodes it is, and how many of its pods are there."""
    nodes, count = tables.listed(answer.nodes, _NODES_SHOWN), sum(answer.nodes.values())
    return f"{count:,} pods on {nodes}" if count > 1 else nodes


def _queue(answer: Answer) -> str:
    names = " -> ".join(name for name in (answer.queue, answer.cluster_queue) if name)
    if answer.state in {State.ACTIVE, State.INACTIVE, State.ENDING}:
        verb = "waits" if answer.waiting == 1 else "wait"
        waits = f"{tables.counted(answer.waiting, 'Workload')} {verb}" if answer.waiting else ""
        return ", ".join(filter(None, [names if answer.queue else "", waits]))
    if answer.place is None:
        return names
    total = f" of {answer.waiting:,}" if answer.waiting else ""
    return f"{names}, {visibility_why.place_text(answer)}{total}"


def _wide(answer: Answer) -> dict[str, str]:
    message = ": ".join(filter(None, answer.said))
    rows = {"reason": answer.reason, "kueue": message}
    return {head: text for head, text in rows.items() if text}


def _quota_row(numbers: Numbers) -> tuple[str, ...]:
    amounts = (numbers.asks, numbers.free, numbers.reach, numbers.nominal)
    holders = sentences.holders_in_words(numbers.resource, numbers.holders or ())
    return (
        numbers.flavor,
        numbers.resource,
        *(_amount(numbers.resource, value) for value in amounts),
        sentences.holders_listed(*holders) or ("?" if numbers.holders is None else "-"),
    )


def _amount(resource: str, value: int | None) -> str:
    return "?" if value is None else quota_use.amount_text(resource, value) or "any"
