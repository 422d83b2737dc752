"""Engine values as sentences for people: what a waiting pod lacks, and who holds it."""

from typing import Final

from admission.base import amount, quantity
from admission.engine import decisions

_MOST_HOLDERS: Final = 3
_NEVER: Final = "ExceedsMaxQuota"


def waiting(wait: decisions.Wait) -> str:
    """Why a pod waits: the engine's message, then the numbers behind it.

    ``couldn't assign ... 2 more needed. ClusterQueue team-a: nvidia.com/gpu in flavor a100: asks
    4, 2 free now, at most 8; held by team-b (6), team-a (2).``
    """
    numbers = "; ".join(_shortage(shortage) for shortage in wait.shortages)
    if not numbers:
        return wait.message
    return f"{wait.message.rstrip('.')}. ClusterQueue {wait.cluster_queue}: {numbers}."


def _shortage(shortage: decisions.Shortage) -> str:
    resource = shortage.resource
    asked = quantity.in_words(resource, shortage.requested)
    text = (
        f"{resource} in flavor {shortage.flavor}: asks {asked}, "
        f"{_show(resource, shortage.available)} free now, "
        f"at most {_show(resource, shortage.limit)}"
    )
    if shortage.withheld:
        text += f" ({_show(resource, shortage.withheld)} more promised, do not exist)"
    held = [
        f"{queue} ({_show(resource, used)})"
        for queue, used in shortage.holders[:_MOST_HOLDERS]
        if used > 0
    ]
    return f"{text}; held by {', '.join(held)}" if held else text


def _show(resource: str, value: int) -> str:
    return "any amount" if value == amount.UNLIMITED else quantity.from_canonical(resource, value)
