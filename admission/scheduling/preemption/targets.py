"""Which method chooses victims: classical preemption or fair sharing; see `candidates`."""

from collections import Counter
from dataclasses import replace
from typing import Final, NamedTuple

from admission.base.conditions import PreemptionReason
from admission.base.names import ClusterQueueName, FlavorResource
from admission.scheduling import quota
from admission.scheduling.model import PreemptionPolicy
from admission.scheduling.preemption import classical, fair
from admission.scheduling.preemption.candidates import Need, Preemptor, Target
from admission.scheduling.snapshot import Snapshot

MOST_NODES: Final = 32
"""Nodes on which victims are looked for one by one."""


def choose(snapshot: Snapshot, preemptor: Preemptor, need: Need) -> tuple[Target, ...]:
    """Return victims that make room for a workload, in the order of choice; none if no way."""
    policies = preemptor.queue.spec.preemption
    if (
        policies.within_cluster_queue == PreemptionPolicy.NEVER
        and policies.reclaim_within_cohort == PreemptionPolicy.NEVER
    ):
        return ()
    victims = _search(snapshot, preemptor, need)
    is_one_pod = len(need.wants) == 1 and need.wants[0].count == 1
    if not victims or not is_one_pod or need.wants[0].request is not None:
        return victims
    if len(victims) == 1 and not any(_cost(snapshot, need, victims).not_borrowed):
        return victims
    return _on_one_node(snapshot, preemptor, need, victims)


def _search(snapshot: Snapshot, preemptor: Preemptor, need: Need) -> tuple[Target, ...]:
    sharing = snapshot.config.fair_sharing
    if sharing is None:
        return classical.targets(snapshot, preemptor, need)
    return fair.targets(snapshot, preemptor, need, sharing.strategies)


def _on_one_node(
    snapshot: Snapshot, preemptor: Preemptor, need: Need, victims: tuple[Target, ...]
) -> tuple[Target, ...]:
    """Return the victims of the node where one pod costs least, see `_Cost`.

    Nodes with most free are looked at. Where they are equal, the order of Kueue decides. What
    leaves anyway gives its quota back wherever it runs, and costs nothing: a node does not tell of
    its pods that are being deleted, and has those that are charged by themselves under their
    Workload.
    """
    ledger = snapshot.places.ledger
    leaving = frozenset(
        key
        for queue in preemptor.queue.root().leaves()
        for key, workload in queue.workloads.items()
        if workload.evicted
    )
    best, victims_of_best = _cost(snapshot, need, victims), victims
    for node in ledger.rooms(need.wants[0].shape).emptiest(MOST_NODES):
        among = leaving.union(ledger.workloads_on(node))
        if not among:
            continue
        targets_found = _search(snapshot, preemptor, replace(need, among=among))
        if not targets_found:
            continue
        cost = _cost(snapshot, need, targets_found)
        if cost < best:
            best, victims_of_best = cost, targets_found
    return victims_of_best


class _Cost(NamedTuple):
    """What is lost by taking victims; compared in the order of the fields.

    What is evicted already is lost in any case.

    Attributes:
        not_borrowed: how much of the quota of other queues is taken beyond what they borrow, by
            flavor and resource, devices first.
        victims: how many there are.
        priorities: of the victims, the highest first.
    """

    not_borrowed: tuple[int, ...]
    victims: int
    priorities: tuple[int, ...]


def _cost(snapshot: Snapshot, need: Need, targets: tuple[Target, ...]) -> _Cost:
    """Return what is lost by taking victims for one pod that are still in the snapshot."""
    victims = [target for target in targets if not target.workload.evicted]
    taken: dict[ClusterQueueName, Counter[FlavorResource]] = {}
    for target in victims:
        if target.reason != PreemptionReason.IN_CLUSTER_QUEUE:
            usage_taken = taken.setdefault(target.workload.cluster_queue, Counter())
            usage_taken.update(target.workload.usage)
    queues = [(snapshot.queue(name), usage) for name, usage in taken.items()]
    devices = need.wants[0].shape.needs.devices
    return _Cost(
        not_borrowed=tuple(
            sum(
                max(0, usage[fr] - max(0, queue.usage.get(fr, 0) - quota.nominal(queue, fr)))
                for queue, usage in queues
            )
            for fr in sorted(need.short, key=lambda fr: (fr.resource not in devices, fr))
        ),
        victims=len(victims),
        priorities=tuple(sorted((target.workload.priority for target in victims), reverse=True)),
    )
