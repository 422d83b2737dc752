"""What a namespace has borrowed, as far as its LocalQueues tell it.

Who may not read ClusterQueues knows what the own LocalQueues hold, and the nominal quota behind
them. What is beyond it is borrowed; others with the same ClusterQueue may have borrowed more.
"""

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from admission.answers import quota_use
from admission.base import names, quantity
from admission.base.names import FlavorResource
from admission.objects import queue_status
from admission.objects.local_queue import LocalQueue


class LocalHolding(NamedTuple):
    """What a LocalQueue holds of one resource in one flavor; canonical units.

    Attributes:
        cluster_queue: behind it.
        pair: flavor and resource.
        used: what it holds.
        nominal: nominal quota of the ClusterQueue; None where that is not told.
    """

    cluster_queue: str
    pair: FlavorResource
    used: int
    nominal: int | None


def of_local_queues(local_queues: Iterable[LocalQueue]) -> Iterator[LocalHolding]:
    """Yield what LocalQueues hold, as their status says."""
    for queue in local_queues:
        nominal = queue_status.nominal(queue.status.nominal_quota)
        for pair, used in queue_status.reserved(queue.status.flavors_reservation).items():
            quota = None if nominal is None else nominal.get(pair, 0)
            yield LocalHolding(queue.spec.cluster_queue, pair, used, quota)


def notes(uses: Iterable[LocalHolding], flavors: Container[str] | None = None) -> Iterator[str]:
    """Yield how much of the GPUs in use is borrowed, a sentence for each flavor of a ClusterQueue.

    ``at least 10 of the 18 a100 in use in queue speech are borrowed: work that holds
    them may be stopped``

    Args:
        uses: what the LocalQueues of a namespace hold.
        flavors: those that matter; None for all.
    """
    used: dict[tuple[str, FlavorResource], int] = {}
    quotas: dict[tuple[str, FlavorResource], int] = {}
    for use in uses:
        if use.nominal is None or not quota_use.is_gpu(use.pair.resource):
            continue
        key = use.cluster_queue, use.pair
        used[key] = used.get(key, 0) + use.used
        quotas[key] = use.nominal
    for (queue, pair), amount in used.items():
        borrowed = max(0, amount - quotas[queue, pair])
        if not borrowed or (flavors is not None and pair.flavor not in flavors):
            continue
        shown, total_shown = (
            quantity.from_canonical(pair.resource, value) for value in (borrowed, amount)
        )
        is_gpu = pair.resource == names.GPU_RESOURCE
        unit = pair.flavor if is_gpu else f"{pair.resource} of flavor {pair.flavor}"
        yield (
            f"at least {shown} of the {total_shown} {unit} in use in queue {queue} are borrowed: "
            "work that holds them may be stopped"
        )
