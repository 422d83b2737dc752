"""Which reservations must go so that what is reserved fits the quota again.

Two leaders that overlapped may each have given away the same quota. Only what has not started
may be taken back; what runs keeps what it holds, as after an admin lowered a quota.
"""

from collections.abc import Callable

from admission.base.names import WorkloadKey
from admission.scheduling import quota
from admission.scheduling.hierarchy import Forest, QueueNode
from admission.scheduling.reserving import ReservingWorkload


def to_take_back(
    forest: Forest, may_take: Callable[[WorkloadKey], bool]
) -> tuple[WorkloadKey, ...]:
    """Newest reservations first, queue by queue in order of their names.

    The forest is as before when this returns.

    Args:
        forest: quota trees with usage, up to date.
        may_take: whether a workload has not started yet.
    """
    taken: list[tuple[QueueNode, ReservingWorkload]] = []
    for name in sorted(forest.queues):
        node = forest.queues[name]
        candidates = sorted(
            (one for one in node.workloads.values() if may_take(one.key)),
            key=lambda one: (one.reserved_us, one.uid),
        )
        while candidates and _is_over(node):
            workload = candidates.pop()
            if _helps(node, workload):
                quota.release(node, workload.key)
                taken.append((node, workload))
    for node, workload in reversed(taken):
        quota.hold(node, workload)
    return tuple(workload.key for _, workload in taken)


def _is_over(node: QueueNode) -> bool:
    return any(quota.available(node, pair) < 0 for pair in node.usage)


def _helps(node: QueueNode, workload: ReservingWorkload) -> bool:
    return any(quota.available(node, pair) < 0 for pair, used in workload.usage.items() if used)
