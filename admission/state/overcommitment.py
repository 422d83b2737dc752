"""Which reservations must go so that what is reserved fits the quota again.

Two leaders that overlapped may each have given away the same quota. Only what has not started
may be taken back; what runs keeps what it holds, as after an admin lowered a quota.
"""

from collections.abc import Callable

from admission.base.names import WorkloadKey
from admission.engine import quota
from admission.engine.hierarchy import Forest, QueueNode
from admission.engine.holding import Holding


def to_take_back(
    forest: Forest, may_take: Callable[[WorkloadKey], bool]
) -> tuple[WorkloadKey, ...]:
    """Newest reservations first, queue by queue in order of their names.

    The forest is as before when this returns.

    Args:
        forest: quota trees with usage, up to date.
        may_take: whether a workload has not started yet.
    """
    taken: list[tuple[QueueNode, Holding]] = []
    for name in sorted(forest.queues):
        node = forest.queues[name]
        candidates = sorted(
            (one for one in node.holdings.values() if may_take(one.key)),
            key=lambda one: (one.reserved_us, one.uid),
        )
        while candidates and _is_over(node):
            holding = candidates.pop()
            if _helps(node, holding):
                quota.release(node, holding.key)
                taken.append((node, holding))
    for node, holding in reversed(taken):
        quota.hold(node, holding)
    return tuple(holding.key for _, holding in taken)


def _is_over(node: QueueNode) -> bool:
    return any(quota.available(node, pair) < 0 for pair in node.usage)


def _helps(node: QueueNode, holding: Holding) -> bool:
    return any(quota.available(node, pair) < 0 for pair, used in holding.usage.items() if used)
