"""Defaults and bounds of a namespace's LimitRanges, and a pod's own limits.

Amounts are in units of 1e-9, as in ``requests``.

Source: kueue pkg/util/limitrange and pkg/workload/resources.go (AdjustResources,
ValidateResources, ValidateLimitRange).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from admission.engine import requests
from admission.engine.requests import Container, Nanos, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What LimitRange items of one type say; a missing resource is not bounded."""

    maximum: Nanos = field(default_factory=dict)
    minimum: Nanos = field(default_factory=dict)
    limit: Nanos = field(default_factory=dict)
    request: Nanos = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the containers and of the pods of a namespace."""

    container: Bounds = Bounds()
    pod: Bounds = Bounds()


NO_LIMITS: Final = Limits()


def merge(found: Iterable[Bounds]) -> Bounds:
    """Several items as one: the tightest bounds, and of defaults the first."""
    maximum: dict[str, int] = {}
    minimum: dict[str, int] = {}
    limit: dict[str, int] = {}
    request: dict[str, int] = {}
    for one in found:
        maximum |= {r: min(v, maximum.get(r, v)) for r, v in one.maximum.items()}
        minimum |= {r: max(v, minimum.get(r, v)) for r, v in one.minimum.items()}
        limit = {**one.limit, **limit}
        request = {**one.request, **request}
    return Bounds(maximum=maximum, minimum=minimum, limit=limit, request=request)


def adjusted(pod: Pod, limits: Limits = NO_LIMITS) -> Pod:
    """The pod with defaults of its namespace, then missing requests taken from limits."""
    if limits is not NO_LIMITS:
        pod = replace(
            pod,
            containers=tuple(_defaulted(one, limits.container) for one in pod.containers),
            init_containers=tuple(
                _defaulted(one, limits.container) for one in pod.init_containers
            ),
            pod_level=None if pod.pod_level is None else _defaulted(pod.pod_level, limits.pod),
        )
    return requests.with_limits_as_requests(pod)


def _defaulted(one: Container, bounds: Bounds) -> Container:
    return replace(
        one,
        requests={**bounds.request, **one.requests},
        limits={**bounds.limit, **one.limits},
    )


def violations(pod: Pod, path: str) -> tuple[str, ...]:
    """Requests above their limits, one text per container; none when all is well.

    Args:
        pod: after all adjustments.
        path: field path of the pod spec, such as ``spec.podSets[0].template.spec``.
    """
    rule = "requests must not exceed its limits"
    return tuple(
        _invalid(place, names, rule)
        for place, one in _places(pod, path, pod_level=True)
        if (names := _above(one.requests, one.limits))
    )


def out_of_bounds(pod: Pod, limits: Limits, path: str) -> tuple[str, ...]:
    """Requests outside the bounds of the namespace; arguments as in ``violations``."""
    if limits is NO_LIMITS:
        return ()
    found: list[str] = []
    for place, one in _places(pod, path, pod_level=False):
        largest, smallest = _either(max, one), _either(min, one)
        found += _bounded(place, largest, smallest, limits.container)
    total = requests.of_pod(pod)
    return (*found, *_bounded(path, total, total, limits.pod))


def _bounded(place: str, largest: Nanos, smallest: Nanos, bounds: Bounds) -> Iterator[str]:
    if names := _above(largest, bounds.maximum):
        yield _invalid(place, names, "requests must not be above the limitRange max")
    if names := _above(bounds.minimum, smallest):
        yield _invalid(place, names, "requests must not be below the limitRange min")


def _either(choose: Callable[[int, int], int], one: Container) -> dict[str, int]:
    """Of request and limit the larger or smaller, where there are both."""
    both = {**one.limits, **one.requests}
    return {r: choose(v, one.limits.get(r, v)) for r, v in both.items()}


def _places(pod: Pod, path: str, *, pod_level: bool) -> Iterator[tuple[str, Container]]:
    for index, one in enumerate(pod.init_containers):
        yield f"{path}.initContainers[{index}]", one
    for index, one in enumerate(pod.containers):
        yield f"{path}.containers[{index}]", one
    if pod_level and pod.pod_level is not None:
        yield f"{path}.resources", pod.pod_level


def _above(values: Nanos, bounds: Nanos) -> list[str]:
    """Names of the resources on both sides whose value is above the bound."""
    return sorted(name for name, value in values.items() if value > bounds.get(name, value))


def _invalid(place: str, names: list[str], rule: str) -> str:
    shown = ",".join(f'"{name}"' for name in names)
    return f"{place}: Invalid value: [{shown}]: {rule}"
