"""What people are told where pods cannot be on nodes now."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from admission.base import quantity
from admission.base.causes import NoPlace


def shortage(no_place: NoPlace) -> str:
    """Return why pods cannot be on nodes now, without a full stop.

    ``needs 8 nvidia.com/gpu on one node of a100; 12 are free, at most 3 on one node (node-4);
    would fit if ml/train-3 ended``
    """
    where = " and ".join(no_place.told_flavors)
    resource, count = no_place.resource, no_place.count
    amount = f"{quantity.in_words(resource, no_place.asks)} {resource}"
    if no_place.hole is None:
        taints = f" ({', '.join(no_place.taints)})" if no_place.taints else ""
        refusals = ", ".join(
            f"{nodes} {_REFUSED[reason][nodes != 1]}{taints if reason == 'taint' else ''}"
            for reason, nodes in no_place.refusals
        )
        head = f"no node of {where} can take a pod with {amount}"
        if no_place.largest is not None:
            largest = quantity.in_words(resource, no_place.largest)
            return f"{head}: {refusals}, the largest has {largest}"
        return f"{head}: {refusals or 'none has the labels that it selects'}"
    same = _same(no_place)
    if no_place.is_joint:
        room = f"the nodes of {where} have room for each pod set"
        return f"{room}, but not for all of them at once{same}"
    needs = (
        f"needs {amount} on one node of {where}"
        if count == 1
        else f"needs room on nodes of {where}{same} for {count} pods with {amount} each,"
        f" {_fit(no_place.fitting)}"
    )
    relief = f"; would fit if {no_place.relief} ended" if no_place.relief else ""
    if no_place.at_most is not None:
        relief = f"; at most {_fit(no_place.at_most)} once the nodes are empty"
    if not no_place.free:
        return f"{needs}; nothing of it is free there{relief}"
    free, highest = (
        quantity.in_words(resource, value) for value in (no_place.free, no_place.hole.amount)
    )
    verb = "is" if no_place.free == 1 else "are"
    hole = f"at most {highest} on one node ({no_place.hole.node})"
    return f"{needs}; {free} {verb} free, {hole}{relief}"


def too_many(no_place: NoPlace) -> str:
    """Return that nodes never take all pods, as a clause.

    ``2 pods with 5 nvidia.com/gpu each on nodes of a100 with the same rack; at most 1 fits once
    the nodes are empty``
    """
    assert no_place.at_most is not None
    amount = f"{quantity.in_words(no_place.resource, no_place.asks)} {no_place.resource}"
    where = " and ".join(no_place.told_flavors)
    return (
        f"{no_place.count} pods with {amount} each on nodes of {where}{_same(no_place)};"
        f" at most {_fit(no_place.at_most)} once the nodes are empty"
    )


def _same(no_place: NoPlace) -> str:
    return f" with the same {' and '.join(no_place.together)}" if no_place.together else ""


def _fit(count: int) -> str:
    return f"{count} {'fits' if count == 1 else 'fit'}"


def without_node(resource: str, flavor: str, amount: int, queue: str, since: str) -> str:
    """Return that pods without a node hold quota, without a full stop.

    ``4 nvidia.com/gpu in flavor a100 are held by pods of ClusterQueue ml that are on no node;
    the oldest was admitted at 2026-01-02T03:04:05Z``
    """
    amount_text = quantity.in_words(resource, amount)
    return (
        f"{amount_text} {resource} in flavor {flavor} {'is' if amount == 1 else 'are'} held by"
        f" pods of ClusterQueue {queue} that are on no node; the oldest was admitted at {since}"
    )


class SickDevices(NamedTuple):
    """Devices of a node that cannot be used.

    Attributes:
        node: name of the node.
        amount: how many.
        reasons: why; empty where it is not told.
        since: RFC 3339 time since when; empty where that is not known.
    """

    node: str
    amount: int
    reasons: Sequence[str]
    since: str


def sick(resource: str, flavor: str, total: int, devices: Iterable[SickDevices]) -> str:
    """Return which devices of a flavor cannot be used and what to do, without a full stop.

    ``1 of 8 nvidia.com/gpu of flavor a100 is sick: 1 on n1 (condition XIDErrors=True since
    2026-01-02T03:04:05Z); nothing new starts on it until it is well; what the node says:
    kubectl describe node n1``

    Args:
        resource: name of the devices.
        flavor: the flavor.
        total: how many its nodes have, the sick ones included.
        devices: those that are sick, at least one.
    """
    in_order = sorted(devices, key=lambda part: (-part.amount, part.node))
    named, rest = in_order[:_SICK_NODES], in_order[_SICK_NODES:]
    parts = [f"{part.amount} on {part.node} ({why_sick(part)})" for part in named]
    if rest:
        nodes = f"{len(rest)} more node{'s' if len(rest) > 1 else ''}"
        parts.append(f"{sum(part.amount for part in rest)} on {nodes}")
    count = sum(part.amount for part in in_order)
    verb, them, they_are = ("is", "it", "it is") if count == 1 else ("are", "them", "they are")
    return (
        f"{count} of {total} {resource} of flavor {flavor} {verb} sick: {', '.join(parts)}; "
        f"nothing new starts on {them} until {they_are} well; what the node says: "
        f"kubectl describe node {in_order[0].node}"
    )


def runs_beside_sick(resource: str, devices: SickDevices) -> str:
    """Return that pods run on a node with devices that are sick and what to do, no full stop.

    ``1 nvidia.com/gpu of n1, where it runs, is sick (condition XIDErrors=True): it is not stopped
    for that; check that it goes on, else start it again, and have the node repaired: kubectl
    describe node n1``

    Args:
        resource: name of the devices.
        devices: what is sick there.
    """
    verb = "is" if devices.amount == 1 else "are"
    return (
        f"{devices.amount} {resource} of {devices.node}, where it runs, {verb} sick "
        f"({why_sick(devices)}): it is not stopped for that; check that it goes on, else start "
        f"it again, and have the node repaired: kubectl describe node {devices.node}"
    )


_SICK_NODES: Final = 3
"""So many nodes with sick devices are named, those with most."""


def why_sick(part: SickDevices) -> str:
    """Return why devices of a node are sick, and since when where the node says it."""
    since = f" since {part.since}" if part.since else ""
    return f"{', '.join(part.reasons) or 'the node offers fewer than it has'}{since}"


_REFUSED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "affinity": (
            "has other labels than its affinity asks for",
            "have other labels than its affinity asks for",
        ),
        "cordoned": ("is cordoned by an administrator", "are cordoned by an administrator"),
        "resource": ("does not have the resource", "do not have the resource"),
        "sick": ("has too few devices that are well", "have too few devices that are well"),
        "size": ("is too small", "are too small"),
        "taint": (
            "has a taint that it does not tolerate",
            "have a taint that it does not tolerate",
        ),
        "volume": (
            "cannot reach a volume that it uses",
            "cannot reach a volume that it uses",
        ),
    }
)
"""Why nodes can never take a pod, of one node and of several."""
