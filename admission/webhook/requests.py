"""What a pod asks for, and what Kubernetes demands of such requests.

Source: kubernetes pkg/apis/core/validation/validation.go (resource requirements, with the texts).
"""

from collections.abc import Iterable
from typing import Final

from admission.base import fielderrors, names, pod_resources, quantity
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError, FieldPath
from admission.gpu import resources, rewrite
from admission.gpu.resources import ManagedResources
from admission.objects import pods, reviewed_pod
from admission.objects.reviewed_pod import Quantities, ReviewedContainer, ReviewedPod

MAX_CONTAINERS: Final = 4096
"""Containers, and init containers, of one pod that is reviewed for quota.

etcd takes 1.5 MiB for an object: 4,096 containers of 384 bytes. Kubernetes 1.36 stores up to
14,667 that have nothing but a GPU, a short name and an image of one letter; a request body of
3 MiB, which is reviewed before it is stored, has room for 40,000.
"""

_NANO: Final = 10**9
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_INTEGER: Final = (
    "must be an integer; for a part of a GPU set the annotation"
    f" {names.GPU_MEMORY} or {names.MIG_PROFILE}"
)


def managed_names(pod: ReviewedPod, managed: ManagedResources) -> tuple[str, ...]:
    """Return managed resources the pod asks for, sorted; an amount of zero asks for nothing."""
    names_found = {
        name
        for _, _, container in pod.located_containers()
        for stated in (container.requests, container.limits)
        for name, text in stated.items()
        if managed.matches(name) and not _is_zero(text)
    }
    return tuple(sorted(names_found))


def of_classes(pod: ReviewedPod) -> tuple[str, ...]:
    """Return resources the pod asks for that a DeviceClass can answer, sorted."""
    names_found = {
        name
        for _, _, container in pod.located_containers()
        for stated in (container.requests, container.limits)
        for name, text in stated.items()
        if resources.is_of_class(name) and not _is_zero(text)
    }
    return tuple(sorted(names_found))


def amounts(pod: ReviewedPod, managed: ManagedResources) -> dict[str, int]:
    """Return how much of each managed resource a pod asks for; nothing for what is no quantity."""
    try:
        total_amounts = total(pod)
    except InvalidValueError:
        return {}  # the API server refuses it
    return {
        name: total_amounts[name]
        for name in managed_names(pod, managed)
        if total_amounts.get(name)
    }


def too_many(pod: ReviewedPod) -> list[FieldError]:
    """Return an error for each list of containers that has more than `MAX_CONTAINERS`."""
    lists = {"containers": pod.spec.containers, "initContainers": pod.spec.init_containers or ()}
    return [
        fielderrors.too_many(FieldPath.of("spec", member), len(items), MAX_CONTAINERS)
        for member, items in lists.items()
        if len(items) > MAX_CONTAINERS
    ]


def errors(pod: ReviewedPod, managed: ManagedResources) -> list[FieldError]:
    """Return the rules of GPU requests that the pod breaks, in the API server's own words."""
    errors_: list[FieldError] = []
    for member, index, container in pod.located_containers():
        path = reviewed_pod.container_path(member, index).child("resources")
        errors_ += _container_errors(container, path, managed)
    return errors_


def total(pod: ReviewedPod) -> dict[str, int]:
    """Return what the scheduler will reserve for a pod, in canonical units, without zero amounts.

    Raises:
        InvalidValueError: a value is no quantity.
    """
    read = pods.read(pod.spec, "spec", lambda amounts_, _: _canonical(amounts_ or {}))
    amounts_ = pod_resources.requests(pod_resources.with_default_requests(read))
    return {name: value for name, value in amounts_.items() if value}


def _canonical(amounts: Quantities) -> dict[str, int]:
    return {name: quantity.to_canonical(name, str(text)) for name, text in amounts.items()}


def _container_errors(
    container: ReviewedContainer, path: FieldPath, managed: ManagedResources
) -> Iterable[FieldError]:
    for member, stated in (("limits", container.limits), ("requests", container.requests)):
        for name, value in stated.items():
            # The API server copies limits into requests: nobody wrote it twice.
            is_copied = member == "requests" and container.limits.get(name) == value
            if managed.matches(name) and not is_copied:
                yield from _value_errors(path.child(member).key(name), name, str(value))
    for name, value in container.requests.items():
        if managed.matches(name):
            yield from _pair_errors(path, name, str(value), container.limits)


def _value_errors(path: FieldPath, name: str, text: str) -> Iterable[FieldError]:
    try:
        nano = quantity.parse_nano(text)
    except InvalidValueError as error:
        yield fielderrors.invalid(path, text, error.rule)
        return
    if nano < 0:
        yield fielderrors.invalid(path, text, _NOT_NEGATIVE)
    if nano % _NANO:
        yield fielderrors.invalid(path, text, _INTEGER)
    try:
        resources.parse(name)
    except InvalidValueError as error:
        yield fielderrors.invalid(path, name, error.rule)


def _pair_errors(
    path: FieldPath, name: str, text: str, limits: Quantities
) -> Iterable[FieldError]:
    if name not in limits:
        yield fielderrors.required(path.child("limits"), rewrite.limit_needed(name))
        return
    limit = str(limits[name])
    if _differ(text, limit):
        rule = f"must be equal to {name} limit of {limit}"
        yield fielderrors.invalid(path.child("requests"), text, rule)


def _differ(left: str, right: str) -> bool:
    try:
        return quantity.parse_nano(left) != quantity.parse_nano(right)
    except InvalidValueError:
        return False  # reported for the value itself


def _is_zero(text: str | int) -> bool:
    try:
        return quantity.parse_nano(str(text)) == 0
    except InvalidValueError:
        return False
