"""Which running workload would make room on nodes for another one if it ended by itself.

It is looked for where victims are: on the nodes with most free, in the order of victims. But
policies do not matter, as nobody is stopped.
"""

from collections.abc import Callable, Sequence
from typing import Final

from admission.base.names import ChargeKey
from admission.scheduling.places.enforcement import PodPlaces
from admission.scheduling.places.model import Want
from admission.scheduling.preemption.targets import MOST_NODES
from admission.scheduling.reserving import ReservingWorkload

_MOST_TRIED: Final = 64
"""Workloads of which it is tried out whether their end makes room."""


def find(
    places: PodPlaces,
    wants: Sequence[Want],
    held_by: Callable[[ChargeKey], ReservingWorkload | None],
) -> ChargeKey | None:
    """Return the cheapest workload whose end makes room for all pods; None if none is seen.

    Args:
        places: nodes, and what is on them.
        wants: the pods.
        held_by: returns what a workload holds; None for one without quota.
    """
    ledger = places.ledger
    on_nodes: dict[ChargeKey, ReservingWorkload] = {}
    for want in wants:
        for node in ledger.rooms(want.shape).emptiest(MOST_NODES):
            for key in ledger.workloads_on(node):
                holder = held_by(key)
                if holder is not None and not holder.evicted:
                    on_nodes[key] = holder
    for holder in sorted(on_nodes.values(), key=_cheapest_first)[:_MOST_TRIED]:
        ledger.lift(holder.key)
        try:
            if places.find(wants) is not None:
                return holder.key
        finally:
            ledger.put_back(holder.key)
    return None


def _cheapest_first(holder: ReservingWorkload) -> tuple[int, int, str, ChargeKey]:
    """Lower priority, newer reservation, UID: the order of victims of one ClusterQueue."""
    return holder.priority, -holder.reserved_us, holder.uid, holder.key
