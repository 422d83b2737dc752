"""Limits on GPU memory and GPU slices, as annotations of a LimitRange.

They cannot stand in its spec, where a ``max`` becomes a default of every container. Keys:
``gpu-admission.dev/max-gpu-memory``, ``min-gpu-memory`` and ``default-gpu-memory`` speak of one
container, ``pod-max-gpu-memory`` and ``pod-min-gpu-memory`` of the pod; the same with
``gpu-slices``. Amounts are equivalents: two 3g.40gb are 80Gi.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.gpu.limitobjects import Finding
from admission.gpu.limits import LimitRange
from admission.gpu.products import Cost

_PREFIX: Final = names.OWN_DOMAIN + "/"
_MEMORY: Final = names.GPU_MEMORY.removeprefix(_PREFIX)
_SLICES: Final = names.GPU_SLICES.removeprefix(_PREFIX)
_KINDS: Final = ("min-", "max-", "default-", "pod-min-", "pod-max-")

KEYS: Final = frozenset(_PREFIX + kind + unit for kind in _KINDS for unit in (_MEMORY, _SLICES))
"""Every annotation key that is read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One limit.

    Attributes:
        limit_range: name of the object it stands on.
        key: its annotation key.
        kind: ``min``, ``max``, ``default``, ``pod-min`` or ``pod-max``.
        resource: ``gpu-admission.dev/gpu-memory`` (bytes) or ``.../gpu-slices``.
        amount: in the unit of the resource.
    """

    limit_range: str
    key: str
    kind: str
    resource: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The virtual limits of a namespace.

    Attributes:
        bounds: sorted by LimitRange and key.
        problems: annotations that cannot be read, sorted alike.
        count_absent: whether a container without GPUs counts as using 0, so that a ``min``
            refuses it; by default limits speak of containers that use GPUs only.
    """

    bounds: tuple[Bound, ...] = ()
    problems: tuple[Finding, ...] = ()
    count_absent: bool = False


def read(ranges: Iterable[LimitRange], *, count_absent: bool = False) -> Bounds:
    """The virtual limits that a namespace's LimitRanges carry."""
    bounds: list[Bound] = []
    problems: list[Finding] = []
    for limit_range in sorted(ranges, key=lambda limit_range: limit_range.name):
        for key in sorted(KEYS & limit_range.annotations.keys()):
            try:
                bounds.append(_bound(limit_range.name, key, limit_range.annotations[key]))
            except InvalidValueError as error:
                field = f"metadata.annotations[{key}]"
                text = f"LimitRange {limit_range.name}: {error}"
                problems.append(Finding(rule="virtual-limit", field=field, text=text))
    return Bounds(bounds=tuple(bounds), problems=tuple(problems), count_absent=count_absent)


def default_memory(bounds: Bounds) -> int:
    """Least GPU memory of containers that ask for a GPU and wish for nothing; 0 = no default.

    The first LimitRange by name that has one wins.
    """
    found = (b for b in bounds.bounds if b.kind == "default" and b.resource == names.GPU_MEMORY)
    return next((bound.amount for bound in found), 0)


def check(containers: Mapping[str, Cost], pod: Cost, bounds: Bounds) -> tuple[str, ...]:
    """Every limit that the pod breaks, sorted by container, then in the order of the bounds.

    Args:
        containers: equivalents by container name; 0 for containers without GPUs.
        pod: equivalents of the whole pod.
        bounds: of the pod's namespace.
    """
    reasons = [
        reason
        for name, cost in sorted(containers.items())
        for reason in _broken(cost, bounds, f"container {name}", "")
    ]
    return (*reasons, *_broken(pod, bounds, "pod", "pod-"))


def _bound(limit_range: str, key: str, text: str) -> Bound:
    kind, _, unit = key.removeprefix(_PREFIX).rpartition("-gpu-")
    resource = f"{_PREFIX}gpu-{unit}"
    amount = quantity.to_canonical(resource, text)
    if amount < 0:
        raise InvalidValueError(text, "must not be negative")
    return Bound(limit_range=limit_range, key=key, kind=kind, resource=resource, amount=amount)


def _broken(cost: Cost, bounds: Bounds, who: str, prefix: str) -> Iterator[str]:
    amounts = {names.GPU_MEMORY: cost.memory_bytes, names.GPU_SLICES: cost.slices}
    if not any(amounts.values()) and not bounds.count_absent:
        return
    for bound in bounds.bounds:
        used = amounts[bound.resource]
        if bound.kind == prefix + "max" and used > bound.amount:
            word = "maximum"
        elif bound.kind == prefix + "min" and used < bound.amount:
            word = "minimum"
        else:
            continue
        yield (
            f"{who}: {word} {bound.resource} is {show(bound.resource, bound.amount)}"
            f" (LimitRange {bound.limit_range}, annotation {bound.key}),"
            f" but its GPUs are {show(bound.resource, used)}"
        )


def show(resource: str, amount: int) -> str:
    """An amount as messages show it: ``40Gi`` of memory, ``3`` slices."""
    unit = "memory" if resource == names.GPU_MEMORY else resource
    return quantity.from_canonical(unit, amount)
