"""Pods as stored or under review: what they ask for, and which GPUs they occupy."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from admission.base import pod_resources, quantity
from admission.base.errors import InvalidValueError
from admission.base.memo import Memo
from admission.base.pod_resources import A, Container, Pod
from admission.gpu import resources
from admission.objects import views
from admission.scheduling import transformation

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Of a pod that a node runs from a file, and the API server only shows."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_DIFFERENT: Final = 1024
_GPUS: Final = Memo[Mapping[str, int]](_DIFFERENT)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")

Amounts = Mapping[str, str | int]
Nanos = Mapping[str, int]
"""Amounts per resource in units of 1e-9; a missing key is no request, which is not 0."""

Parse = Callable[[Amounts | None, str], Mapping[str, A]]
"""Reads a resource list; the text is the path of its field."""


class ContainerView(Protocol):
    """What is read of a container, whichever struct holds it."""

    @property
    def name(self) -> str:
        """Name of the container."""
        ...

    @property
    def restart_policy(self) -> str | None:
        """Restart policy; ``Always`` makes a sidecar of an init container."""
        ...

    @property
    def resources(self) -> views.ResourceRequirements | None:
        """Requests and limits."""
        ...


class PodSpecView(Protocol):
    """What is read of a pod spec, whichever struct holds it."""

    @property
    def containers(self) -> Iterable[ContainerView]:
        """Containers."""
        ...

    @property
    def init_containers(self) -> Iterable[ContainerView] | None:
        """Init containers and sidecars, in their order."""
        ...

    @property
    def resources(self) -> views.ResourceRequirements | None:
        """Resources of the pod as a whole."""
        ...

    @property
    def overhead(self) -> Amounts | None:
        """Return the overhead of the pod."""
        ...


def read(
    spec: PodSpecView,
    path: str,
    parse: Parse[A],
    instead: Mapping[str, views.ResourceRequirements] | None = None,
) -> Pod[A]:
    """Return the resources in a pod spec.

    Args:
        spec: the spec.
        path: field path of the spec, for errors.
        parse: reads a resource list.
        instead: resources by container name that replace those of the spec.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """

    def amounts(
        requirements: views.ResourceRequirements | None, where: str
    ) -> tuple[Mapping[str, A], Mapping[str, A]]:
        if requirements is None:
            return {}, {}
        return (
            parse(requirements.requests, f"{where}.resources.requests"),
            parse(requirements.limits, f"{where}.resources.limits"),
        )

    def containers(listed: Iterable[ContainerView], field: str) -> Iterator[Container[A]]:
        is_init = field == "initContainers"
        for index, view_ in enumerate(listed):
            stated = (instead or {}).get(view_.name, view_.resources)
            requests, limits = amounts(stated, f"{path}.{field}[{index}]")
            yield Container(
                name=view_.name,
                is_init=is_init,
                is_sidecar=is_init
                and view_.restart_policy == pod_resources.SIDECAR_RESTART_POLICY,
                requests=requests,
                limits=limits,
            )

    requests, limits = amounts(spec.resources, path)

    return Pod(
        containers=(
            *containers(spec.init_containers or (), "initContainers"),
            *containers(spec.containers, "containers"),
        ),
        pod_level=None if spec.resources is None else Container(requests=requests, limits=limits),
        overhead=parse(spec.overhead, f"{path}.overhead"),
    )


def nanos(quantities: Amounts | None, path: str) -> dict[str, int]:
    """Return the amounts of a resource list in units of 1e-9.

    Raises:
        InvalidValueError: one cannot be read; the rule names the field.
    """
    amounts: dict[str, int] = {}
    for resource, value in (quantities or {}).items():
        try:
            amounts[resource] = quantity.parse_nano(str(value))
        except InvalidValueError as error:
            raise InvalidValueError(error.value, f"{path}[{resource}]: {error.rule}") from error
    return amounts


def overhead(runtime_class: views.RuntimeClass) -> dict[str, int]:
    """Return the overhead of pods of a RuntimeClass, in units of 1e-9.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    fixed = None if runtime_class.overhead is None else runtime_class.overhead.pod_fixed
    return nanos(fixed, "overhead.podFixed")


def held_gpus(pod: views.Pod) -> Mapping[str, int]:
    """GPU resources that a pod occupies on its node; empty where it is not bound or has ended.

    Raises:
        InvalidValueError: a quantity cannot be read.
    """
    if not pod.spec.node_name or has_ended(pod):
        return {}
    return gpus_of(pod.spec)


def has_ended(pod: views.Pod) -> bool:
    """Return whether all containers of a pod have stopped for good."""
    return pod.status.phase in _ENDED


def gpus_of(spec: views.PodSpec) -> Mapping[str, int]:
    """GPU resources that the pods of a spec occupy, each; computed once for equal requests.

    Raises:
        InvalidValueError: a quantity cannot be read.
    """
    fields = spec.containers, spec.init_containers, spec.resources, spec.overhead
    return _GPUS.get(_ENCODER.encode(fields), lambda: _gpus_of(spec))


def _gpus_of(spec: views.PodSpec) -> Mapping[str, int]:
    containers = (*spec.containers, *(spec.init_containers or ()))
    if not any(_names_gpu(container.resources) for container in containers):
        return {}
    pod = pod_resources.with_default_requests(read(spec, "spec", nanos))
    return {
        sys.intern(str(name)): amount
        for name, amount in transformation.counted(pod_resources.requests(pod)).items()
        if amount and resources.is_device(name)
    }


def _names_gpu(requirements: views.ResourceRequirements) -> bool:
    return any(
        resources.is_device(name)
        for listed in (requirements.requests, requirements.limits)
        for name in listed or ()
    )
