"""What a Workload asks for in each flavor of its queue, beside what there is.

`why` and `queue` say the same of a Workload, as both ask here.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from admission.base import conditions
from admission.base.causes import Shortage
from admission.base.conditions import Text
from admission.base.errors import InvalidValueError
from admission.objects import values
from admission.objects import workload as workloads
from admission.objects.workload import Workload
from admission.reasons import reading, sentences
from admission.reasons.next_steps import Code
from admission.scheduling import shortages
from admission.scheduling.hierarchy import QueueNode

_FROM_NUMBERS: Final = frozenset({Code.WAITING_FOR_QUOTA, Code.EXCEEDS_MAX_QUOTA})


def verdict(text: Text, amounts: Iterable[Shortage], queue: str, *, place: str = "") -> Text:
    """Return why a Workload waits with the numbers of now, where it is quota that it waits for.

    What has not been tried yet is told whether it is next.

    Args:
        text: what its condition says.
        amounts: what its pod sets ask for; see `of_workload`.
        queue: the ClusterQueue.
        place: its place in the queue, in words; empty if it is not to be told.
    """
    if text == sentences.not_judged():
        return sentences.not_judged(place, queue)
    lacking = [shortage for shortage in amounts if shortage.missing]
    if text.reason not in _FROM_NUMBERS or not lacking:
        return text
    return sentences.of_shortages(lacking, queue, place=place)


def of_workload(node: QueueNode, workload: Workload) -> list[Shortage]:
    """Return what the pod sets of a Workload ask for in each flavor, and what there is.

    Flavors whose nodes do not take the pods are left out.
    """
    return of_fitting_flavors(shortages.of_requests(node, asked(workload)), workload)


def of_fitting_flavors(amounts: Iterable[Shortage], workload: Workload) -> list[Shortage]:
    """Return the amounts without flavors whose nodes do not take the pods of a Workload.

    What is free there is not for them.
    """
    condition = workload.status.condition(conditions.QUOTA_RESERVED)
    refusing = reading.refusing_flavors("" if condition is None else condition.message)
    return [
        shortage
        for shortage in amounts
        if shortage.flavor not in refusing.get(shortage.pod_set, frozenset())
    ]


def asked(workload: Workload) -> dict[str, Mapping[str, int]]:
    """Return what each pod set asks for: as the controller says it, else as its template does."""
    requests = workload.status.resource_requests
    if requests:
        return {
            requests.get("name", ""): {
                resource: values.amount_or_zero(resource, text)
                for resource, text in (requests.get("resources") or {}).items()
            }
            for requests in requests
        }
    try:
        value = workloads.scheduling_value(workload)
    except InvalidValueError:
        return {}
    return shortages.totals(value)
