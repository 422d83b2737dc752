"""What a Workload asks for in each flavor of its queue, beside what there is.

`why` and `queue` say the same of a Workload, as both ask here.
"""

from collections.abc import Mapping
from typing import Final

from admission.base import conditions
from admission.base.causes import Shortage
from admission.base.conditions import Text
from admission.base.errors import InvalidValueError
from admission.base.names import ClusterQueueName, FlavorResource, PodSetName, ResourceName
from admission.objects import values
from admission.objects import workload as workloads
from admission.objects.workload import Workload
from admission.reasons import reading, sentences
from admission.reasons.next_steps import Code
from admission.scheduling import quota
from admission.scheduling.hierarchy import CohortNode, QueueNode

_FROM_NUMBERS: Final = frozenset({Code.WAITING_FOR_QUOTA, Code.EXCEEDS_MAX_QUOTA})


def verdict(text: Text, shortages: list[Shortage], queue: str, *, place: str = "") -> Text:
    """Return why a Workload waits with the numbers of now, where it is quota that it waits for.

    Args:
        text: what its condition says.
        shortages: what its pod sets ask for; see `of_workload`.
        queue: the ClusterQueue.
        place: its place in the queue, in words; empty if it is not to be told.
    """
    lacking = [shortage for shortage in shortages if shortage.missing]
    if text.reason not in _FROM_NUMBERS or not lacking:
        return text
    return sentences.of_shortages(lacking, queue, place=place)


def of_workload(node: QueueNode, workload: Workload) -> list[Shortage]:
    """Return what the pod sets of a Workload ask for in each flavor, and what there is.

    Flavors whose nodes do not take the pods are left out: what is free there is not for them.
    """
    condition = workload.status.condition(conditions.QUOTA_RESERVED)
    refusing = reading.refusing_flavors("" if condition is None else condition.message)
    return [
        _shortage(node, pod_set, FlavorResource(flavor.name, ResourceName(resource)), amount)
        for pod_set, amounts in asked(workload).items()
        for group in node.spec.resource_groups
        for flavor in group.flavors
        if flavor.name not in refusing.get(pod_set, frozenset())
        for resource, amount in sorted(amounts.items())
        if resource in group.covered_resources
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
    return {
        pod_set.name: {
            resource: each * pod_set.effective_count for resource, each in pod_set.requests.items()
        }
        for pod_set in value.pod_sets
    }


def _shortage(node: QueueNode, pod_set: str, fr: FlavorResource, amount: int) -> Shortage:
    return Shortage(
        pod_set=PodSetName(pod_set),
        resource=fr.resource,
        flavor=fr.flavor,
        requested=amount,
        available=max(0, quota.available(node, fr)),
        limit=quota.potential(node, fr),
        nominal=quota.nominal(node, fr),
        withheld=quota.withheld(node, fr),
        holders=_holders(node, fr),
    )


def _holders(node: QueueNode, fr: FlavorResource) -> tuple[tuple[ClusterQueueName, int], ...]:
    root = node.root()
    leaves = root.leaves() if isinstance(root, CohortNode) else (node,)
    using = ((leaf.name, leaf.usage.get(fr, 0)) for leaf in leaves)
    positive = (pair for pair in using if pair[1] > 0)
    return tuple(sorted(positive, key=lambda pair: (-pair[1], pair[0])))
