"""ResourceSlices to the GPUs of a node, and ResourceClaims to what they were given.

Source: kubernetes resource.k8s.io (ResourceSlice); NVIDIA k8s-dra-driver-gpu (attribute names).
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.gpu import names as profiles
from admission.gpu.published import Counters, Device, Published
from admission.objects import devices

_WHOLE, _SLICE = "gpu", "mig"
_FORBIDDING: Final = ("NoSchedule", "NoExecute")
_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one slice publishes.

    Attributes:
        pool: name of the pool.
        generation: only the highest one of a pool holds.
        parts: how many of that generation there must be.
        content: the GPUs in it; equal for many nodes.
    """

    pool: str
    generation: int
    parts: int
    content: Published


def part(view: devices.ResourceSlice) -> Part | None:
    """Return what a slice says of GPUs, or None if another driver wrote it."""
    spec = view.spec
    if spec.driver != names.DRA_DRIVER:
        return None
    gpus = [gpu for one in spec.devices or () if (gpu := _device(one)) is not None]
    content = Published(
        devices=tuple(sorted(gpus, key=lambda one: one.name)),
        budgets=_counters((one.name, one.counters) for one in spec.shared_counters or ()),
    )
    return Part(
        pool=spec.pool.name,
        generation=spec.pool.generation,
        parts=spec.pool.resource_slice_count,
        content=content,
    )


def published(found: Iterable[Part]) -> Published | None:
    """The GPUs of a node; None while a slice of them is missing."""
    pools: dict[str, list[Part]] = {}
    for one in found:
        pools.setdefault(one.pool, []).append(one)
    contents: list[Published] = []
    for pool in sorted(pools):
        newest = max(one.generation for one in pools[pool])
        current = [one for one in pools[pool] if one.generation == newest]
        if len(current) < current[0].parts:
            return None
        contents += [one.content for one in current]
    if len(contents) == 1:
        return contents[0]
    gpus = (one for content in contents for one in content.devices)
    return Published(
        devices=tuple(sorted(gpus, key=lambda one: one.name)),
        budgets=tuple(sorted(pair for content in contents for pair in content.budgets)),
    )


def given(claim: devices.ResourceClaim) -> tuple[tuple[str, str], ...]:
    """Pool and name of each GPU that a claim holds; who only watches holds nothing."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results or ()
    return tuple(
        (one.pool, one.device)
        for one in results
        if one.driver == names.DRA_DRIVER and not one.admin_access
    )


def _device(view: devices.SliceDevice) -> Device | None:
    """A GPU or a slice of one; None for other devices, such as the same GPU for passthrough."""
    facts = view.basic or view
    attributes = {
        name.rpartition("/")[2]: one.string or "" for name, one in (facts.attributes or {}).items()
    }
    kind, profile = attributes.get("type", ""), attributes.get("profile", "")
    if kind not in {_WHOLE, _SLICE} or (kind == _SLICE and not _is_profile(profile)):
        return None
    taints = [
        f"taint {one.key}={one.value}" for one in facts.taints or () if one.effect in _FORBIDDING
    ]
    capacity = {name.rpartition("/")[2]: one for name, one in (facts.capacity or {}).items()}
    return Device(
        name=view.name,
        profile=profile if kind == _SLICE else "",
        product=attributes.get("productName", ""),
        memory_bytes=_whole(capacity[_MEMORY]) if _MEMORY in capacity else 0,
        takes=_counters((one.counter_set, one.counters) for one in facts.consumes_counters or ()),
        sick=taints[0] if taints else "",
    )


def _counters(sets: Iterable[tuple[str, Mapping[str, devices.Amount] | None]]) -> Counters:
    """Amounts above 0, sorted; texts are shared, as all GPUs have the same counters."""
    return tuple(
        sorted(
            ((sys.intern(name), sys.intern(counter)), amount)
            for name, counters in sets
            for counter, text in (counters or {}).items()
            if (amount := _whole(text))
        )
    )


def _whole(amount: devices.Amount) -> int:
    try:
        return quantity.to_canonical("", str(amount.value))
    except InvalidValueError:
        return 0


def _is_profile(text: str) -> bool:
    try:
        profiles.parse(text)
    except InvalidValueError:
        return False
    return True
