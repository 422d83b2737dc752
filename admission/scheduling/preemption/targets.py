"""Which method chooses victims: classical preemption or fair sharing; see `candidates`."""

from dataclasses import replace
from typing import Final

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
    if len(victims) > 1 and is_one_pod and need.wants[0].request is None:
        return _on_one_node(snapshot, preemptor, need, victims)
    return victims


def _search(snapshot: Snapshot, preemptor: Preemptor, need: Need) -> tuple[Target, ...]:
    sharing = snapshot.config.fair_sharing
    if sharing is None:
        return classical.targets(snapshot, preemptor, need)
    return fair.targets(snapshot, preemptor, need, sharing.strategies)


def _on_one_node(
    snapshot: Snapshot, preemptor: Preemptor, need: Need, victims: tuple[Target, ...]
) -> tuple[Target, ...]:
    """Return the victims of the node where fewest are needed for one pod, then the cheapest.

    Nodes with most free are looked at. Where they are equal, the order of Kueue decides.
    """
    ledger = snapshot.places.ledger
    best, victims_of_best = _cost(victims), victims
    for node in ledger.rooms(need.wants[0].shape).emptiest(MOST_NODES):
        among = frozenset(ledger.workloads_on(node))
        if not among:
            continue
        targets_found = _search(snapshot, preemptor, replace(need, among=among))
        if targets_found and _cost(targets_found) < best:
            best, victims_of_best = _cost(targets_found), targets_found
    return victims_of_best


def _cost(victims: tuple[Target, ...]) -> tuple[int, list[int]]:
    """Return how many there are, and their priorities, the highest first."""
    priorities = sorted((target.workload.priority for target in victims), reverse=True)
    return len(victims), priorities
