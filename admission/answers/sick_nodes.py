"""Which GPUs of flavors are sick, on which nodes and since when, as the Nodes themselves tell it.

It is as of now: conditions of queues tell it as of the last change that mattered to them. GPUs of
a node that is only cordoned are not sick: nobody has to repair them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from admission.answers import cluster, quota_use
from admission.answers.quota_use import NodeGpus
from admission.base import conditions
from admission.base.causes import Shortage
from admission.base.errors import InvalidValueError
from admission.gpu import capacity
from admission.gpu import resources as gpu_resources
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import resource_flavor, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.reasons import placing, reading
from admission.reasons.placing import SickDevices
from admission.scheduling import model


def notes(
    api: Api,
    resources_of: Mapping[str, AbstractSet[str]],
    flavors: Sequence[ResourceFlavor] = (),
) -> tuple[str, ...]:
    """Return which GPUs of flavors are sick, a sentence each.

    Nothing is returned where none is, or where who asks may not read flavors or nodes.

    Args:
        api: is asked with the rights of the caller.
        resources_of: what is asked for, by flavor.
        flavors: those that were read; empty to read them.

    Raises:
        KubeError: the API server did not answer.
    """
    requested = {
        flavor: devices
        for flavor, names in sorted(resources_of.items())
        if (devices := {name for name in names if quota_use.is_gpu(name)})
    }
    if not requested:
        return ()
    values = dict(_values(flavors or cluster.read_flavors(api), requested))
    if not values:
        return ()
    parts = quota_use.capacities(cluster.read_nodes(api))
    return tuple(
        sentence
        for flavor, value in sorted(values.items())
        for sentence in _of_flavor(flavor, quota_use.selected(parts, value), requested[flavor])
    )


def of_running(api: Api, nodes: Iterable[str], requested: Iterable[str]) -> tuple[str, ...]:
    """Return which nodes of running pods have sick GPUs, a sentence each.

    Nothing is returned of nodes that may not be read, nor of more than the first few.

    Args:
        api: is asked with the rights of the caller.
        nodes: names of the nodes.
        requested: resources that the pods ask for.
    """
    devices = {name for name in requested if quota_use.is_gpu(name)}
    is_any = any(gpu_resources.is_virtual(name) for name in devices)
    views_read = []
    for node in sorted(nodes)[:_MOST_NODES] if devices else ():
        try:
            views_read.append(api.get(resources.NODES, node, into=views.Node))
        except errors.ApiError:
            continue
    return tuple(
        placing.runs_beside_sick(
            name, SickDevices(part.name, count, part.reasons, part.sick_since)
        )
        for part in _unwell(quota_use.capacities(views_read))
        for name, count in sorted(part.sick.items())
        if count and gpu_resources.is_device(name) and (is_any or name in devices)
    )


_MOST_NODES: Final = 8


def of_waiting(
    api: Api,
    queue: ClusterQueue,
    shorts: Sequence[Shortage],
    flavors: Sequence[ResourceFlavor],
    *,
    waits_for_node: bool,
) -> tuple[str, ...]:
    """Return which GPUs of the flavors for which something waits are sick or missing.

    The nodes are read where they matter: where it waits for one, or the queue says that GPUs of
    these flavors are sick. What the queue says is told where the nodes do not tell it.

    Args:
        api: is asked with the rights of the caller.
        queue: its ClusterQueue.
        shorts: what it asks for in each flavor.
        flavors: those that were read; empty for none.
        waits_for_node: whether it waits for a node, and not for quota.

    Raises:
        KubeError: the API server did not answer.
    """
    condition = next(
        (
            condition
            for condition in queue.status.conditions or ()
            if condition.type == conditions.CAPACITY_SUFFICIENT
        ),
        None,
    )
    message = "" if condition is None else condition.message
    stated = reading.sick_flavors(message)
    resources_of: dict[str, set[str]] = {}
    for short in shorts:
        if waits_for_node or short.flavor in stated:
            resources_of.setdefault(short.flavor, set()).add(short.resource)
    on_nodes = notes(api, resources_of, flavors)
    lacking = {pair.flavor for pair in reading.existing_quota(message)}
    if on_nodes or condition is None or condition.status != "False":
        return on_nodes
    is_concerned = not lacking.isdisjoint(short.flavor for short in shorts)
    return (f"GPUs cannot be used or are missing: {message}",) if is_concerned else ()


def _values(
    flavors: Iterable[ResourceFlavor], requested: Mapping[str, AbstractSet[str]]
) -> Iterator[tuple[str, model.ResourceFlavor]]:
    for flavor in flavors:
        if flavor.metadata.name in requested:
            try:
                yield flavor.metadata.name, resource_flavor.scheduling_value(flavor)
            except InvalidValueError:
                continue  # the conditions of its queues say so


def _of_flavor(
    flavor: str, parts: tuple[NodeGpus, ...], requested: AbstractSet[str]
) -> Iterator[str]:
    """Yield what is sick of the devices that are asked for; GPU memory is that of any device."""
    is_any = any(gpu_resources.is_virtual(name) for name in requested)
    unwell = tuple(_unwell(parts))
    devices = {
        name
        for part in unwell
        for name, count in part.sick.items()
        if count and gpu_resources.is_device(name) and (is_any or name in requested)
    }
    for name in sorted(devices):
        total = sum(part.healthy.get(name, 0) + part.sick.get(name, 0) for part in parts)
        yield placing.sick(
            name,
            flavor,
            total,
            quota_use.sick_on(unwell, name),
        )


def _unwell(parts: Iterable[NodeGpus]) -> Iterator[NodeGpus]:
    """Yield the nodes but those of which nothing counts only as they are cordoned."""
    return (part for part in parts if part.reasons != (capacity.CORDONED,))
