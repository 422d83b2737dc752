"""Checks of queues: does what they name exist, and can anybody use them."""

from collections.abc import Iterator

from admission.kube import resources
from admission.objects import values
from admission.objects.cluster_queue import ClusterQueue
from admission.run.doctor import picture as pictures
from admission.run.doctor.findings import Finding, error, warning
from admission.run.doctor.picture import Picture


def flavors(picture: Picture) -> Iterator[Finding]:
    """Every flavor that a ClusterQueue names exists."""
    for queue in picture.cluster_queues:
        missing = _missing(picture, queue)
        if missing:
            text = f"it admits nothing: there is no ResourceFlavor {', '.join(missing)}"
            mend = "create the ResourceFlavor, or remove it from spec.resourceGroups"
            yield error("ClusterQueue", queue.metadata.name, text, mend)


def _missing(picture: Picture, queue: ClusterQueue) -> tuple[str, ...]:
    named = (flavor.name for group in queue.spec.resource_groups or () for flavor in group.flavors)
    return tuple(name for name in dict.fromkeys(named) if name not in picture.flavors)


def inactive(picture: Picture) -> Iterator[Finding]:
    """Every ClusterQueue admits."""
    for queue in picture.cluster_queues:
        name, policy = queue.metadata.name, queue.spec.stop_policy
        if policy not in {"", "None"}:
            mend = f"kubectl patch clusterqueue {name} --type=merge -p '{_GO}'"
            text = f"it admits nothing: its stopPolicy is {policy}"
            yield warning("ClusterQueue", name, text, mend)
            continue
        active = next((one for one in queue.status.conditions or () if one.type == "Active"), None)
        if active is not None and active.status == "False" and not _missing(picture, queue):
            text = f"it admits nothing: {active.message}"
            yield error("ClusterQueue", name, text, f"kubectl describe clusterqueue {name}")
    for local in picture.local_queues:
        place = f"{local.metadata.namespace}/{local.metadata.name}"
        if local.spec.stop_policy not in {"", "None"}:
            mend = (
                f"kubectl patch localqueue {local.metadata.name} -n {local.metadata.namespace} "
                f"--type=merge -p '{_GO}'"
            )
            text = f"it admits nothing: its stopPolicy is {local.spec.stop_policy}"
            yield warning("LocalQueue", place, text, mend)


_GO = '{"spec":{"stopPolicy":"None"}}'


def local_queues(picture: Picture) -> Iterator[Finding]:
    """Every LocalQueue names a ClusterQueue that exists and selects its namespace."""
    queues = {one.metadata.name: one for one in picture.cluster_queues}
    labels = {
        one["metadata"]["name"]: pictures.labels_of(one)
        for one in picture.of(resources.NAMESPACES)
    }
    for local in picture.local_queues:
        place = f"{local.metadata.namespace}/{local.metadata.name}"
        queue = queues.get(local.spec.cluster_queue)
        if queue is None:
            text = f"its pods wait forever: there is no ClusterQueue {local.spec.cluster_queue}"
            mend = "create the ClusterQueue, or delete the LocalQueue: clusterQueue cannot change"
            yield error("LocalQueue", place, text, mend)
            continue
        selector = values.selector(queue.spec.namespace_selector)
        namespace = labels.get(local.metadata.namespace)
        if namespace is not None and (selector is None or not selector(namespace)):
            text = (
                f"its pods wait forever: the namespaceSelector of ClusterQueue "
                f"{queue.metadata.name} does not select the namespace"
            )
            mend = (
                f"widen spec.namespaceSelector ({{}}: all), or label the namespace: kubectl "
                f"get clusterqueue {queue.metadata.name} -o jsonpath='{{.spec.namespaceSelector}}'"
            )
            yield error("LocalQueue", place, text, mend)
