"""What one pod requests: containers to amounts.

Amounts come in as nano units (exact integers of 1e-9) and leave as canonical integers.

Source: k8s.io/component-helpers resource (PodRequests), kueue pkg/workload/resources.go and
pkg/resources/requests.go, KEP 2937 (transformations).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from admission.base import amount, quantity
from admission.base.names import ResourceName

NANO: Final = 10**9
_CPU_UNIT: Final = 10**6  # one milli-CPU in nano units

Nanos = Mapping[str, int]
"""Amounts per resource in units of 1e-9; a missing key is no request, which is not 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Requests and limits of one container, or of a pod as a whole."""

    requests: Nanos = field(default_factory=dict)
    limits: Nanos = field(default_factory=dict)
    restartable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The parts of a pod that decide what it requests.

    Attributes:
        init_containers: in order; a restartable one is a sidecar.
        pod_level: requests for the pod as a whole, which win where set; None when there are none.
    """

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Nanos = field(default_factory=dict)
    pod_level: Container | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """How a requested resource is counted as others.

    Attributes:
        outputs: amount of each output for one unit of the input, in units of 1e-9; may be
            negative.
        keep: whether the input is counted, too.
        multiply_by: a resource whose request multiplies the outputs; empty for none.
    """

    outputs: Nanos = field(default_factory=dict)
    keep: bool = True
    multiply_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Settings that change what is counted.

    Attributes:
        excluded_prefixes: resources whose names start so are not counted.
        transformations: by input resource.
        device_classes: the resource as which the devices of a DeviceClass are counted.
    """

    excluded_prefixes: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)
    device_classes: Mapping[str, str] = field(default_factory=dict)


NO_RULES: Final = Rules()


def with_limits_as_requests(pod: Pod) -> Pod:
    """The pod with every missing request set to its limit."""
    return Pod(
        containers=tuple(_default(one) for one in pod.containers),
        init_containers=tuple(_default(one) for one in pod.init_containers),
        overhead=pod.overhead,
        pod_level=None if pod.pod_level is None else _default(pod.pod_level),
    )


def _default(container: Container) -> Container:
    if not container.limits:
        return container
    requests = {**container.limits, **container.requests}
    return Container(requests=requests, limits=container.limits, restartable=container.restartable)


def of_pod(pod: Pod) -> dict[str, int]:
    """What the scheduler reserves for one pod, in nano units.

    Containers and sidecars together, or the largest moment of the init phase if that is more;
    pod-level requests instead, where set; overhead on top.
    """
    total = _sum(one.requests for one in pod.containers)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for one in pod.init_containers:
        if one.restartable:
            sidecars = _sum((sidecars, one.requests))
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, _sum((sidecars, one.requests)))
    total = _sum((total, sidecars))
    _raise_to(total, peak)
    if pod.pod_level is not None:
        total |= {r: v for r, v in pod.pod_level.requests.items() if _is_pod_level(r)}
    return _sum((total, pod.overhead))


def counted(requests: Nanos, rules: Rules = NO_RULES) -> dict[ResourceName, int]:
    """What quota is charged for one pod, in canonical units, negatives floored to 0."""
    kept = {r: v for r, v in requests.items() if not r.startswith(rules.excluded_prefixes)}
    if not rules.excluded_prefixes:
        kept = dict(requests)
    exact = _transformed(kept, rules.transformations)
    return {ResourceName(r): max(0, _canonical(r, value)) for r, value in exact.items()}


def _transformed(
    requests: Nanos, transformations: Mapping[str, Transformation]
) -> Mapping[str, int | Fraction]:
    if transformations.keys().isdisjoint(requests):
        return requests
    retained: dict[str, Fraction] = {}
    generated: dict[str, Fraction] = {}
    for resource, value in requests.items():
        rule = transformations.get(resource)
        if rule is None or rule.keep:
            retained[resource] = Fraction(value)
        if rule is not None:
            factor = Fraction(value * requests.get(rule.multiply_by, NANO), NANO)
            for output, per_unit in rule.outputs.items():
                generated[output] = generated.get(output, Fraction(0)) + factor * per_unit / NANO
    for output, made in generated.items():
        retained[output] = retained.get(output, Fraction(0)) + max(made, Fraction(0))
    return retained


def _canonical(resource: str, nano: int | Fraction) -> int:
    """Rounded up to the canonical unit."""
    unit = _CPU_UNIT if resource == quantity.CPU else NANO
    return amount.clamp(-int(-nano // unit))


def _is_pod_level(resource: str) -> bool:
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _sum(parts: Iterable[Nanos]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, value in part.items():
            total[resource] = total.get(resource, 0) + value
    return total


def _raise_to(total: dict[str, int], least: Nanos) -> None:
    for resource, value in least.items():
        total[resource] = max(total.get(resource, 0), value)
