"""What a Workload asks for in each flavor of its queue, beside what there is.

`why` and `queue` say the same of a Workload, as both ask here.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from admission.base import conditions, names
from admission.base.causes import LargestNode, Shortage
from admission.base.conditions import Text
from admission.base.errors import InvalidValueError
from admission.base.names import ResourceName
from admission.gpu import catalogue, resources
from admission.gpu.catalogue import Catalogue
from admission.objects import caps, gpu_transformation, pods, values
from admission.objects import workload as workloads
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import PodSet, Workload
from admission.reasons import reading, sentences
from admission.reasons.next_steps import Code
from admission.scheduling import shortages
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.shortages import FlavorAmounts

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


def exceeds_nodes(
    text: Text,
    workload: Workload,
    amounts: Iterable[Shortage],
    flavors: Iterable[ResourceFlavor],
) -> Text:
    """Return that a pod asks for more than any node has, where that is the smaller limit.

    It is looked for where a Workload asks for more than its queue can ever have.

    Args:
        text: why it waits.
        workload: it.
        amounts: what its pod sets ask for; see `of_workload`.
        flavors: those that may be read, which say how large their nodes are.

    Returns:
        The text itself where quota is the smaller limit, or a flavor says nothing of its nodes.
    """
    if text.reason != Code.EXCEEDS_MAX_QUOTA:
        return text
    largest = {
        flavor.metadata.name: caps.readable(flavor.metadata, names.LARGEST_NODE)
        for flavor in flavors
    }
    listed = tuple(amounts)
    for pod_set in workload.spec.pod_sets or ():
        for resource, asks in sorted(_devices(pod_set).items()):
            of_resource = [
                shortage
                for shortage in listed
                if (shortage.pod_set, shortage.resource) == (pod_set.name, resource)
            ]
            limits = {
                (str(shortage.flavor), resource): shortage.limit
                for shortage in of_resource
                if shortage.limit
            }
            nodes = [
                LargestNode(resource, flavor, asks, has)
                for flavor, _ in limits
                if (has := largest.get(flavor, {}).get(ResourceName(resource))) is not None
                and has < asks
            ]
            is_each = len(nodes) == len(limits)
            if is_each and shortages.are_nodes_smaller(nodes, limits, pod_set.count):
                return sentences.exceeds_largest_node(nodes)
    return text


def _devices(pod_set: PodSet) -> Mapping[str, int]:
    """Return the devices that a pod asks for, by name; of what cannot be read none."""
    try:
        return pods.gpus_of(pod_set.template.spec)
    except InvalidValueError:
        return {}


def of_workload(
    node: QueueNode,
    workload: Workload,
    queue: ClusterQueue | None = None,
    flavors: Iterable[ResourceFlavor] = (),
) -> list[Shortage]:
    """Return what the pod sets of a Workload ask for in each flavor, and what there is.

    Flavors whose nodes do not take the pods are left out.

    Args:
        node: the ClusterQueue in which it waits.
        workload: it.
        queue: the same ClusterQueue as it was read.
        flavors: those that may be read: a GPU has another amount of GPU memory in each.
    """
    requests = asked(workload)
    if queue is None or not counts_gpus(queue):
        return of_fitting_flavors(shortages.of_requests(node, requests), workload)
    counted, in_flavors = _asked_in_flavors(workload, requests, queue, flavors)
    return of_fitting_flavors(shortages.of_requests(node, counted, in_flavors), workload)


def counts_gpus(queue: ClusterQueue) -> bool:
    """Return whether a ClusterQueue counts GPUs as GPU memory or slices, which flavors decide."""
    return any(
        resources.is_virtual(resource)
        for group in queue.spec.resource_groups or ()
        for resource in group.covered_resources
    )


def _asked_in_flavors(
    workload: Workload,
    requests: Mapping[str, Mapping[str, int]],
    queue: ClusterQueue,
    flavors: Iterable[ResourceFlavor],
) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, FlavorAmounts]]:
    """Return what pod sets ask for, and how much in flavors where that is another amount.

    The controller says the largest amount only. The others are computed here as it does; where
    none of them is that amount it knows other GPU products, and they do not count.
    """
    by_name = {flavor.metadata.name: flavor for flavor in flavors}
    prices = gpu_transformation.pricing(queue, by_name, _products())
    try:
        value = gpu_transformation.priced(workloads.scheduling_value(workload), prices)
    except InvalidValueError:
        return requests, {}
    computed, in_flavors = shortages.totals(value), shortages.totals_in_flavors(value)
    if not workload.status.resource_requests:
        return computed, in_flavors
    return requests, {
        pod_set: of_flavors
        for pod_set, of_flavors in in_flavors.items()
        if all(
            amount in {computed[pod_set].get(resource), *_in_any(of_flavors, resource)}
            for resource, amount in requests.get(pod_set, {}).items()
            if resources.is_virtual(resource)
        )
    }


def _in_any(of_flavors: FlavorAmounts, resource: str) -> Iterable[int]:
    return (amounts.get(ResourceName(resource), 0) for amounts in of_flavors.values())


@cache
def _products() -> Catalogue:
    return catalogue.load()


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
