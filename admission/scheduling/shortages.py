"""What pod sets ask for in each flavor of a ClusterQueue, beside what there is."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from admission.base.causes import BorrowingLimit, LargestNode, Shortage
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    PodSetName,
    ResourceName,
)
from admission.scheduling import podsets, quota
from admission.scheduling.hierarchy import CohortNode, QueueNode, QuotaNode
from admission.scheduling.model import Workload

FlavorAmounts = Mapping[FlavorName, Mapping[ResourceName, int]]
"""Amounts in flavors where they differ from those in others; canonical units."""

_SAME_IN_ALL: Final[Mapping[str, FlavorAmounts]] = MappingProxyType({})


def of_requests(
    node: QueueNode,
    requests: Mapping[str, Mapping[str, int]],
    in_flavors: Mapping[str, FlavorAmounts] = _SAME_IN_ALL,
) -> list[Shortage]:
    """Return each amount that is asked for in each flavor, also what is there.

    Args:
        node: the ClusterQueue.
        requests: total of each pod set by resource, canonical units.
        in_flavors: totals of each pod set in flavors where they are others.
    """
    amounts = [*_amounts(node, requests, in_flavors)]
    totals_ = _totals(amounts)
    return [_shortage(node, pod_set, fr, amount, totals_[fr]) for pod_set, fr, amount in amounts]


def lacking(
    node: QueueNode,
    requests: Mapping[str, Mapping[str, int]],
    in_flavors: Mapping[str, FlavorAmounts] = _SAME_IN_ALL,
) -> list[Shortage]:
    """Return each amount that is asked for in a flavor and is not free there.

    The arguments are those of `of_requests`.
    """
    amounts = [*_amounts(node, requests, in_flavors)]
    totals_ = _totals(amounts)
    return [
        _shortage(node, pod_set, fr, amount, totals_[fr])
        for pod_set, fr, amount in amounts
        if amount > quota.available(node, fr)
    ]


def totals(workload: Workload) -> dict[str, Mapping[str, int]]:
    """Return what each pod set of a workload asks for in all, by resource.

    It is the largest amount, where it costs another amount in each flavor.
    """
    return {
        demand.pod_set.name: {str(resource): n for resource, n in demand.requests.items()}
        for demand in podsets.demands(workload)
    }


def totals_in_flavors(workload: Workload) -> dict[str, FlavorAmounts]:
    """Return what each pod set of a workload asks for in all in flavors where that differs."""
    return {
        demand.pod_set.name: {
            flavor: {resource: demand.in_flavor(flavor, resource) for resource in demand.requests}
            for flavor in sorted(demand.priced_flavors())
        }
        for demand in podsets.demands(workload)
    }


def are_nodes_smaller(
    nodes: Iterable[LargestNode], limits: Mapping[tuple[str, str], int], count: int
) -> bool:
    """Return whether nodes limit each of some pods more than the quota that all can ever get.

    Flavors of which there can be no quota do not count.

    Args:
        nodes: the largest of each flavor, all too small for one of the pods.
        limits: the most that all pods can get, by flavor and resource.
        count: of the pods.
    """
    reached = [
        limit // max(1, count) >= node.has
        for node in nodes
        if (limit := limits.get((node.flavor, node.resource), 0))
    ]
    return bool(reached) and all(reached)


def _amounts(
    node: QueueNode,
    requests: Mapping[str, Mapping[str, int]],
    in_flavors: Mapping[str, FlavorAmounts],
) -> Iterator[tuple[str, FlavorResource, int]]:
    for pod_set, amounts in requests.items():
        by_flavor = in_flavors.get(pod_set, {})
        for group in node.spec.resource_groups:
            for flavor in group.flavors:
                in_flavor = by_flavor.get(flavor.name, {})
                for resource, largest in sorted(amounts.items()):
                    if resource in group.covered_resources:
                        fr = FlavorResource(flavor.name, ResourceName(resource))
                        yield pod_set, fr, in_flavor.get(fr.resource, largest)


def _totals(amounts: Iterable[tuple[str, FlavorResource, int]]) -> Mapping[FlavorResource, int]:
    """Return what all pod sets would take of each flavor if all of them got it."""
    totals_: dict[FlavorResource, int] = {}
    for _, fr, amount in amounts:
        totals_[fr] = totals_.get(fr, 0) + amount
    return totals_


def _shortage(
    node: QueueNode, pod_set: str, fr: FlavorResource, amount: int, total: int
) -> Shortage:
    limiting = quota.limiting(node, fr, total)
    return Shortage(
        pod_set=PodSetName(pod_set),
        resource=fr.resource,
        flavor=fr.flavor,
        requested=amount,
        available=max(0, quota.available(node, fr)),
        limit=quota.potential(node, fr),
        nominal=quota.nominal(node, fr),
        withheld=quota.withheld(node, fr),
        elsewhere=quota.elsewhere(node, fr),
        holders=_holders(node.root() if limiting is None else limiting, fr),
        borrowing_limit=None if limiting is None else _borrowing_limit(limiting, fr),
        reclaimable=quota.reclaimable(node, fr, quota.borrowed_by(node.root().leaves(), fr)),
    )


def _borrowing_limit(limiting: QuotaNode, fr: FlavorResource) -> BorrowingLimit:
    limit = limiting.quotas[fr].borrowing_limit
    assert limit is not None
    assert isinstance(limiting, CohortNode | QueueNode)
    return BorrowingLimit(limiting.name, isinstance(limiting, CohortNode), limit)


def _holders(below: QuotaNode, fr: FlavorResource) -> tuple[tuple[ClusterQueueName, int], ...]:
    using = ((leaf.name, leaf.usage.get(fr, 0)) for leaf in below.leaves())
    positive = (pair for pair in using if pair[1] > 0)
    return tuple(sorted(positive, key=lambda pair: (-pair[1], pair[0])))
