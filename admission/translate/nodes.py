"""Nodes, node agents' device lists and pods to facts about GPUs.

Source: kubernetes core/v1 Node; koordinator apis/scheduling/v1alpha1 device_types.go.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Final

from admission.base import names, pod_resources, quantity
from admission.base.errors import InvalidValueError
from admission.gpu import resources
from admission.gpu.health import DeviceReading
from admission.gpu.nodes import NodeFacts
from admission.gpu.published import Published
from admission.objects import koordinator, pods, views
from admission.scheduling import transformation
from admission.translate.claims import ObjectKey

_GPU: Final = "gpu"
_HEALTHY: Final = "Healthy"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def has_gpus(facts: NodeFacts) -> bool:
    """Return whether a node offers GPUs, or has some that nobody can use now."""
    found = facts.published
    return bool(facts.allocatable or facts.capacity or (found is not None and found.devices))


def node_facts(
    view: views.Node,
    devices: tuple[DeviceReading, ...] | None = None,
    published: Published | None = None,
) -> NodeFacts:
    """Return what a Node says about its GPUs.

    Texts are shared between nodes: thousands of them say the same.
    """
    conditions = tuple(
        (sys.intern(one.type), sys.intern(one.status)) for one in view.status.conditions or ()
    )
    labels = view.metadata.labels or {}
    return NodeFacts(
        name=view.metadata.name,
        labels={sys.intern(key): sys.intern(value) for key, value in labels.items()},
        allocatable=_gpus(view.status.allocatable),
        capacity=_gpus(view.status.capacity),
        ready=("Ready", "True") in conditions,
        unschedulable=view.spec.unschedulable,
        conditions=conditions,
        devices=devices,
        published=published,
    )


def readings(view: koordinator.Device) -> tuple[DeviceReading, ...]:
    """The GPUs that a node agent lists."""
    model = view.metadata.label(names.KOORDINATOR_MODEL_LABEL)
    return tuple(
        DeviceReading(
            id=one.id,
            minor=one.minor or 0,
            healthy=one.health,
            reason=_reason(one.conditions or ()),
            memory_bytes=_whole(
                names.KOORDINATOR_MEMORY, (one.resources or {}).get(names.KOORDINATOR_MEMORY, 0)
            ),
            model=(one.labels or {}).get(names.KOORDINATOR_MODEL_LABEL, model),
        )
        for one in view.spec.devices or ()
        if one.type == _GPU
    )


def held_gpus(pod: views.Pod) -> dict[str, int]:
    """GPU resources that a pod occupies on its node; empty where it is not bound or has ended.

    Raises:
        InvalidValueError: a quantity cannot be read.
    """
    if not pod.spec.node_name or has_ended(pod):
        return {}
    return gpus_of(pod.spec)


def claims_of(pod: views.Pod) -> frozenset[ObjectKey]:
    """ResourceClaims of a pod: those it names, and those that were made for it."""
    made = (*(pod.status.resource_claim_statuses or ()), pod.status.extended_resource_claim_status)
    found = {one.resource_claim_name for one in (*(pod.spec.resource_claims or ()), *made) if one}
    return frozenset((pod.metadata.namespace, name) for name in found if name)


def has_ended(pod: views.Pod) -> bool:
    """Return whether all containers of a pod have stopped for good."""
    return pod.status.phase in _ENDED


def gpus_of(spec: views.PodSpec) -> dict[str, int]:
    """GPU resources that the pods of a spec occupy, each.

    Raises:
        InvalidValueError: a quantity cannot be read.
    """
    containers = (*spec.containers, *(spec.init_containers or ()))
    if not any(_names_gpu(one.resources) for one in containers):
        return {}
    pod = pod_resources.with_default_requests(pods.read(spec, "spec", pods.nanos))
    return {
        sys.intern(str(name)): amount
        for name, amount in transformation.counted(pod_resources.requests(pod)).items()
        if amount and resources.is_device(name)
    }


def _names_gpu(found: views.ResourceRequirements) -> bool:
    return any(
        resources.is_device(name)
        for listed in (found.requests, found.limits)
        for name in listed or ()
    )


def _gpus(amounts: Mapping[str, str | int] | None) -> dict[str, int]:
    return {
        sys.intern(name): _whole(name, value)
        for name, value in (amounts or {}).items()
        if resources.is_device(name)
    }


def _whole(resource: str, value: str | int) -> int:
    """The amount; 0 of what cannot be read, as an agent's error must not hide its other GPUs."""
    try:
        return quantity.to_canonical(resource, str(value))
    except InvalidValueError:
        return 0


def _reason(conditions: Iterable[views.Condition]) -> str:
    for one in conditions:
        if one.type == _HEALTHY and one.status != "True":
            return one.reason
    return ""
