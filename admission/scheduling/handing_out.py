"""How what exists is handed out to those whose quota promises it.

Source: docs/adr/0030-the-capacity-guard.md.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from admission.base import amount
from admission.base.causes import NOT_ELSEWHERE, Elsewhere

Nodes = tuple[str, ...]
"""Nodes by the flavors that select them, sorted."""


class Promise(NamedTuple):
    """Quota of one resource in one flavor.

    Attributes:
        owner: name of the ClusterQueue or Cohort.
        flavor: the flavor.
        value: how much is promised.
        rank: who has a lower one is served before.
    """

    owner: str
    flavor: str
    value: int
    rank: int = 0


class ResourceStock(NamedTuple):
    """What nodes have of one resource.

    Attributes:
        usable: what can be used, or is in use by admitted work.
        whole: that, with what is sick or held outside of queues.
    """

    usable: int
    whole: int


class PromiseShare(NamedTuple):
    """What exists of a promise.

    Attributes:
        value: how much.
        elsewhere: what of the rest is promised to others before, also when all GPUs are well.
    """

    value: int
    elsewhere: Elsewhere = NOT_ELSEWHERE


class _GivenPart(NamedTuple):
    """What the promise at a place is given of some nodes, when all of them are well."""

    place: int
    rank: int
    value: int


def shared_out(
    promises: Sequence[Promise], nodes: Mapping[Nodes, ResourceStock]
) -> list[PromiseShare]:
    """Return the share of each promise.

    All that nodes have when they are well is handed out in the order of the promises, so what is
    promised beyond it has no GPUs behind it. What can be used is then handed out rank by rank, so
    what is sick or held outside of queues is taken from the highest rank first. Within a rank it
    is taken from each in proportion to what it was given, and what is left on other nodes
    replaces it: also nodes that promises of a higher rank were given.

    Args:
        promises: in the order in which they are served, by rank first; all of one resource.
        nodes: what there is. A flavor is given first what fewest other flavors select.
    """
    nodes_of: dict[str, list[Nodes]] = {}
    for flavors in sorted(nodes, key=lambda flavors: (len(flavors), flavors)):
        for flavor in flavors:
            nodes_of.setdefault(flavor, []).append(flavors)
    parts: dict[Nodes, list[_GivenPart]] = {flavors: [] for flavors in nodes}
    before: dict[Nodes, dict[str, int]] = {flavors: {} for flavors in nodes}
    left = {flavors: stock.whole for flavors, stock in nodes.items()}
    elsewhere: list[Elsewhere] = []
    for index, promise in enumerate(promises):
        missing, taken_before = promise.value, NOT_ELSEWHERE
        for flavors in nodes_of.get(promise.flavor, ()):
            taken = min(missing, left[flavors])
            missing -= taken
            left[flavors] -= taken
            if missing:
                taken_before = _added(taken_before, before[flavors])
            if taken:
                owners = before[flavors]
                owners[promise.owner] = owners.get(promise.owner, 0) + taken
                parts[flavors].append(_GivenPart(index, promise.rank, taken))
        elsewhere.append(taken_before._replace(amount=min(taken_before.amount, missing)))
    values = [0] * len(promises)
    usable = {flavors: stock.usable for flavors, stock in nodes.items()}
    for rank, group in groupby(range(len(promises)), key=lambda index: promises[index].rank):
        for flavors, given_parts in parts.items():
            of_rank = [part for part in given_parts if part.rank == rank]
            kept = in_proportion(usable[flavors], [part.value for part in of_rank])
            usable[flavors] -= sum(kept)
            for part, value in zip(of_rank, kept, strict=True):
                values[part.place] += value
        for index in group:
            for flavors in nodes_of.get(promises[index].flavor, ()):
                taken = min(promises[index].value - values[index], usable[flavors])
                values[index] += taken
                usable[flavors] -= taken
    return [PromiseShare(value, owed) for value, owed in zip(values, elsewhere, strict=True)]


_GIB: Final = 2**30


def in_proportion(total: int, values: Sequence[int]) -> list[int]:
    """Return how much each of some values keeps if together they may be no more than a total.

    What rounding leaves goes to the first, one unit each. Bytes are dealt out in whole Gi if all
    of them are, as far as the total is.

    Args:
        total: not negative.
        values: not negative.
    """
    whole = sum(values)
    if total >= whole:
        return list(values)
    unit = _GIB if all(value % _GIB == 0 for value in values) else 1
    kept = [total * value // whole // unit * unit for value in values]
    rest = total - sum(kept)
    for index, value in enumerate(values):
        taken = min(unit, rest, value - kept[index])
        kept[index] += taken
        rest -= taken
    return kept


def _added(sofar: Elsewhere, added: Mapping[str, int]) -> Elsewhere:
    """Return what is promised to others with what was handed out of some more nodes."""
    return Elsewhere(
        amount.add(sofar.amount, sum(added.values())), tuple(sorted({*sofar.owners, *added}))
    )
