"""What nodes offer and queues count, beside a request for something else.

A pod that asks for a resource that nothing offers, such as ``nvidia.com/a100``, waits for ever,
in a queue or out of it.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from admission.base import names
from admission.base.conditions import Text
from admission.gpu import resources as resources_of_gpus
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import queue_status, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_claim import DeviceClass
from admission.reasons import sentences


def lacking(api: Api, namespace: str, requested: Iterable[str]) -> Text | None:
    """Return which resources of a request nothing offers; None where none is known to be so.

    Args:
        api: is asked with the rights of the caller.
        namespace: of the request.
        requested: names of resources.

    Raises:
        KubeError: the API server did not answer.
    """
    extended = {
        resource
        for resource in requested
        if resources_of_gpus.is_of_class(resource)
        and not resource.startswith(resources_of_gpus.IMPLICIT_CLASS_PREFIX)
    }
    if not extended:
        return None
    counted, on_nodes = _counted(api, namespace), _on_nodes(api)
    missing = extended - counted - (on_nodes or set())
    if on_nodes is None:
        # Other devices may be on nodes that who asks may not read.
        missing = {name for name in missing if name.partition("/")[0] in _GPU_DOMAINS}
    if not missing:
        return None
    devices = (name for name in counted | (on_nodes or set()) if _is_told(name))
    return sentences.resources_not_offered(missing, devices, knows_nodes=on_nodes is not None)


_GPU_DOMAINS: Final = frozenset({names.GPU_RESOURCE.partition("/")[0]})


def _is_told(resource: str) -> bool:
    """Return whether a resource is one that a pod may ask for in place of another."""
    is_device = resources_of_gpus.is_device(resource) or resources_of_gpus.is_of_class(resource)
    return is_device and not resources_of_gpus.is_virtual(resource)


def _counted(api: Api, namespace: str) -> AbstractSet[str]:
    """Return the resources of all queues that may be read, else of those of the namespace."""
    try:
        queues = api.list(resources.CLUSTER_QUEUES, into=ClusterQueue).items
        return {
            resource
            for queue in queues
            for group in queue.spec.resource_groups or ()
            for resource in group.covered_resources
        }
    except errors.ForbiddenError:
        pass
    try:
        local_queues = api.list(resources.LOCAL_QUEUES, namespace, into=LocalQueue).items
    except errors.ForbiddenError:
        return set()
    return {
        pair.resource
        for queue in local_queues
        for pair in queue_status.reserved(queue.status.flavors_reservation)
    }


def _on_nodes(api: Api) -> AbstractSet[str] | None:
    """Return what nodes and DeviceClasses offer; None where that may not be read."""
    try:
        nodes = api.list(resources.NODES, into=views.Node).items
        classes = _device_classes(api)
    except errors.ForbiddenError:
        return None
    offers = {name for node in nodes for name in node.status.allocatable or {}}
    return offers | {each.spec.extended_resource_name or "" for each in classes}


def _device_classes(api: Api) -> Sequence[DeviceClass]:
    try:
        return api.list(resources.DEVICE_CLASSES, into=DeviceClass).items
    except errors.NotFoundError:
        return ()  # none are served
