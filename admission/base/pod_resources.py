"""What a pod requests, computed from its containers as Kubernetes computes it.

The scheduler, the ResourceQuota plugin, the LimitRanger plugin and the API server's defaults all
look at the same parts of a pod: containers, sidecars, init containers, pod-level resources and
overhead. This module is the only place that combines them. It works on any kind of amount that
can be added and compared: integers for quota, ``Quantity`` values where the text matters too.

Source: k8s.io/component-helpers resource/helpers.go (PodRequests, PodLimits,
AggregateContainerRequests), kubernetes pkg/apis/core/v1/defaults.go (SetDefaults_Pod,
defaultPodRequests, defaultHugePagePodLimits), KEP-753 (sidecars), KEP-2837 (pod-level resources).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, TypeVar


class Amount(Protocol):
    """An amount of a resource."""

    def __add__(self, other: Any, /) -> Any:
        """Return the sum."""
        ...

    def __gt__(self, other: Any, /) -> bool:
        """Return whether the amount is larger."""
        ...


class Role(Protocol):
    """When a container runs."""

    @property
    def is_init(self) -> bool:
        """Return whether it is an init container; sidecars are init containers."""
        ...

    @property
    def is_sidecar(self) -> bool:
        """Return whether it is an init container with ``restartPolicy: Always``."""
        ...


A = TypeVar("A", bound=Amount)

SIDECAR_RESTART_POLICY: Final = "Always"
_HUGEPAGES: Final = "hugepages-"
_OVERCOMMITTABLE: Final = frozenset({"cpu", "memory"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Container(Generic[A]):
    """The resources of one container, or of a pod as a whole.

    Attributes:
        name: name of the container; empty for the pod as a whole.
        is_init: whether the container is an init container; sidecars are init containers.
        is_sidecar: whether the container is an init container with ``restartPolicy: Always``.
        requests: amounts by resource; a missing key is no request, which is not a request of 0.
        limits: amounts by resource.
    """

    name: str = ""
    is_init: bool = False
    is_sidecar: bool = False
    requests: Mapping[str, A] = field(default_factory=dict)
    limits: Mapping[str, A] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod(Generic[A]):
    """The parts of a pod that decide what it requests.

    Attributes:
        containers: init containers in their order, and containers in theirs. Ephemeral
            containers cannot request resources.
        pod_level: ``spec.resources``; None where the pod has none.
        overhead: ``spec.overhead``.
    """

    containers: tuple[Container[A], ...] = ()
    pod_level: Container[A] | None = None
    overhead: Mapping[str, A] = field(default_factory=dict)


def is_pod_level(resource: str) -> bool:
    """Return whether ``spec.resources`` of a pod decides the pod's request of a resource.

    The scheduler and ResourceQuota agree on this list. Source: IsSupportedPodLevelResource.
    """
    return resource in _OVERCOMMITTABLE or resource.startswith(_HUGEPAGES)


def is_pod_level_for_limit_range(resource: str) -> bool:
    """Return whether LimitRanger takes the pod's amount of a resource from ``spec.resources``.

    LimitRanger has a list of its own, without huge pages. Source: kubernetes v1.36
    plugin/pkg/admission/limitranger/admission.go (supportedPodLevelResources).
    """
    return resource in _OVERCOMMITTABLE


def requests(pod: Pod[A]) -> dict[str, A]:
    """Return what the scheduler reserves for a pod: requests by resource, with overhead."""
    total = without_overhead(pod, lambda container: container.requests)
    return _sum(total, pod.overhead) if pod.overhead else total


def without_overhead(
    pod: Pod[A],
    amounts: Callable[[Container[A]], Mapping[str, A]],
    decides: Callable[[str], bool] = is_pod_level,
) -> dict[str, A]:
    """Return the requests, or the limits, of a pod without overhead.

    Args:
        pod: the pod.
        amounts: what to take from a container: its requests or its limits.
        decides: tells the resources whose pod-level amount replaces that of the containers.
    """
    total = aggregate((container, amounts(container)) for container in pod.containers)
    if pod.pod_level is not None:
        total |= {r: v for r, v in amounts(pod.pod_level).items() if decides(r)}
    return total


def aggregate(parts: Iterable[tuple[Role, Mapping[str, A]]]) -> dict[str, A]:
    """Return the amounts that the containers of a pod need at the same time.

    That is the sum over containers and sidecars, or the largest moment of the init phase if that
    is more: each init container runs beside the sidecars that started before it.

    Args:
        parts: each container with its amounts; init containers in their order.

    Returns:
        Amounts by resource, sorted. A resource is missing only if every container misses it.
    """
    running: dict[str, A] = {}
    sidecars: dict[str, A] = {}
    peak: dict[str, A] = {}
    for container, amounts in parts:
        if not container.is_init:
            _add(running, amounts)
        elif container.is_sidecar:
            # Sidecars only add up, so the peak of a resource that is not named here holds.
            _add(sidecars, amounts)
            _raise(peak, {name: sidecars[name] for name in amounts})
        else:
            _raise(peak, {n: v + sidecars[n] if n in sidecars else v for n, v in amounts.items()})
    _add(running, sidecars)
    _raise(running, peak)
    return {name: running[name] for name in sorted(running)}


def with_default_requests(pod: Pod[A]) -> Pod[A]:
    """Return the pod with the requests that the API server adds when it decodes a pod.

    A container's missing request becomes its limit. A missing pod-level request of cpu or memory
    becomes what the containers request; where they request nothing, and for huge pages, it
    becomes the pod-level limit. The API server does this for pods, never for pod templates, so a
    template has to be defaulted to know what its pods will request.
    """
    containers = tuple(_requests_from_limits(container) for container in pod.containers)
    pod = replace(pod, containers=containers)
    if pod.pod_level is None:
        return pod
    level = _with_default_hugepages(pod, pod.pod_level)
    if not level.limits:
        return replace(pod, pod_level=level)
    missing = {r: v for r, v in level.limits.items() if is_pod_level(r)}
    requested = aggregate((container, container.requests) for container in containers)
    missing |= {r: v for r, v in requested.items() if r in _OVERCOMMITTABLE}
    return replace(pod, pod_level=replace(level, requests={**missing, **level.requests}))


def _requests_from_limits(container: Container[A]) -> Container[A]:
    if container.limits.keys() <= container.requests.keys():
        return container
    return replace(container, requests={**container.limits, **container.requests})


def _with_default_hugepages(pod: Pod[A], level: Container[A]) -> Container[A]:
    """Return pod-level resources with the containers' limits of huge pages, where none are set."""
    if not level.requests and not level.limits:
        return level
    defaults = {
        resource: amount
        for resource, amount in aggregate(
            (container, container.limits) for container in pod.containers
        ).items()
        if resource.startswith(_HUGEPAGES) and resource not in level.requests
    }
    return replace(level, limits={**defaults, **level.limits}) if defaults else level


def _add(into: dict[str, A], amounts: Mapping[str, A]) -> None:
    for resource, amount in amounts.items():
        into[resource] = into[resource] + amount if resource in into else amount


def _sum(left: Mapping[str, A], right: Mapping[str, A]) -> dict[str, A]:
    total = dict(left)
    _add(total, right)
    return total


def _raise(into: dict[str, A], amounts: Mapping[str, A]) -> None:
    for resource, amount in amounts.items():
        if resource not in into or amount > into[resource]:
            into[resource] = amount
