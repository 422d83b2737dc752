"""Engine values as sentences for people: what a waiting pod lacks, and who holds it."""

from typing import Final

from admission.base import amount, conditions, quantity
from admission.scheduling import decisions

_MOST_HOLDERS: Final = 3


def waiting(wait: decisions.Wait) -> str:
    """Return why a pod waits: the message of the decision, then the numbers behind it."""
    shortages = [_shortage(shortage) for shortage in wait.shortages]
    return conditions.pod_waiting(wait.message, wait.cluster_queue, shortages)


def _shortage(shortage: decisions.Shortage) -> str:
    resource = shortage.resource
    withheld = shortage.withheld
    return conditions.pod_shortage(
        resource,
        shortage.flavor,
        asked=quantity.in_words(resource, shortage.requested),
        free=_show(resource, shortage.available),
        limit=_show(resource, shortage.limit),
        withheld=_show(resource, withheld) if withheld else "",
        holders=[
            (queue, _show(resource, used))
            for queue, used in shortage.holders[:_MOST_HOLDERS]
            if used > 0
        ],
    )


def _show(resource: str, value: int) -> str:
    return (
        conditions.ANY_AMOUNT
        if value == amount.UNLIMITED
        else quantity.from_canonical(resource, value)
    )
