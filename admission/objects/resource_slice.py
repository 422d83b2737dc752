"""ResourceSlice: what is read of it, and the GPUs of a node that follow from it.

Source: kubernetes resource.k8s.io v1 and v1beta2, and v1beta1, which has the fields of ``basic``
below the device; NVIDIA k8s-dra-driver-gpu (attribute names).
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.gpu import mig_profile_names as profiles
from admission.gpu.published import Counters, Published, PublishedDevice
from admission.objects import values
from admission.objects.views import Object, View


class Attribute(View, frozen=True, kw_only=True):
    """Value of a device's attribute; text is all that is read."""

    string: str | None = None


class QuantityText(View, frozen=True, kw_only=True):
    """A quantity as text."""

    value: str | int = 0


class CounterConsumption(View, frozen=True, kw_only=True):
    """What a device takes of the counters of a set."""

    counter_set: str = ""
    counters: dict[str, QuantityText] | None = None


class DeviceTaint(View, frozen=True, kw_only=True):
    """Why a device is not to be used; the effect None only informs."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceFacts(View, frozen=True, kw_only=True):
    """What a driver says of a device."""

    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, QuantityText] | None = None
    consumes_counters: tuple[CounterConsumption, ...] | None = None
    taints: tuple[DeviceTaint, ...] | None = None


class SliceDevice(DeviceFacts, frozen=True, kw_only=True):
    """A device; in v1beta1 its facts stand below ``basic``."""

    name: str = ""
    basic: DeviceFacts | None = None


class CounterSet(View, frozen=True, kw_only=True):
    """What devices share that cannot all be used at once."""

    name: str = ""
    counters: dict[str, QuantityText] | None = None


class Pool(View, frozen=True, kw_only=True):
    """Which slices belong together; only those of the highest generation hold."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(View, frozen=True, kw_only=True):
    """Devices of a node, or a part of them."""

    driver: str = ""
    node_name: str | None = None
    pool: Pool = Pool()
    devices: tuple[SliceDevice, ...] | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(Object, frozen=True, kw_only=True):
    """resource.k8s.io ResourceSlice."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


_WHOLE, _SLICE = "gpu", "mig"
_FORBIDDING: Final = ("NoSchedule", "NoExecute")
_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceContent:
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


def part(view: ResourceSlice) -> SliceContent | None:
    """Return the GPUs of a ResourceSlice, or None if another driver wrote it."""
    spec = view.spec
    if spec.driver != names.DRA_DRIVER:
        return None
    gpus = [gpu for device in spec.devices or () if (gpu := _device(device)) is not None]
    content = Published(
        devices=tuple(sorted(gpus, key=lambda gpu: gpu.name)),
        budgets=_counters(
            (counter_set.name, counter_set.counters) for counter_set in spec.shared_counters or ()
        ),
    )
    return SliceContent(
        pool=spec.pool.name,
        generation=spec.pool.generation,
        parts=spec.pool.resource_slice_count,
        content=content,
    )


def published(parts: Iterable[SliceContent]) -> Published | None:
    """The GPUs of a node; None while a slice of them is missing."""
    pools: dict[str, list[SliceContent]] = {}
    for part_ in parts:
        pools.setdefault(part_.pool, []).append(part_)
    contents: list[Published] = []
    for pool in sorted(pools):
        newest = max(part_.generation for part_ in pools[pool])
        current = [part_ for part_ in pools[pool] if part_.generation == newest]
        if len(current) < current[0].parts:
            return None
        contents += [part_.content for part_ in current]
    if len(contents) == 1:
        return contents[0]
    gpus = (device for content in contents for device in content.devices)
    return Published(
        devices=tuple(sorted(gpus, key=lambda gpu: gpu.name)),
        budgets=tuple(sorted(pair for content in contents for pair in content.budgets)),
    )


def _device(view: SliceDevice) -> PublishedDevice | None:
    """A GPU or a slice of one; None for other devices, such as the same GPU for passthrough."""
    facts = view.basic or view
    attributes = {
        name.rpartition("/")[2]: attribute.string or ""
        for name, attribute in (facts.attributes or {}).items()
    }
    kind, profile = attributes.get("type", ""), attributes.get("profile", "")
    if kind not in {_WHOLE, _SLICE} or (kind == _SLICE and not _is_profile(profile)):
        return None
    taints = [
        f"taint {taint.key}={taint.value}"
        for taint in facts.taints or ()
        if taint.effect in _FORBIDDING
    ]
    capacity = {name.rpartition("/")[2]: value for name, value in (facts.capacity or {}).items()}
    return PublishedDevice(
        name=view.name,
        profile=profile if kind == _SLICE else "",
        product=attributes.get("productName", ""),
        memory_bytes=values.amount_or_zero("", capacity[_MEMORY].value)
        if _MEMORY in capacity
        else 0,
        takes=_counters(
            (counter_set.counter_set, counter_set.counters)
            for counter_set in facts.consumes_counters or ()
        ),
        sick=taints[0] if taints else "",
    )


def _counters(sets: Iterable[tuple[str, Mapping[str, QuantityText] | None]]) -> Counters:
    """Amounts above 0, sorted; texts are shared, as all GPUs have the same counters."""
    return tuple(
        sorted(
            ((sys.intern(name), sys.intern(counter)), amount)
            for name, counters in sets
            for counter, text in (counters or {}).items()
            if (amount := values.amount_or_zero("", text.value))
        )
    )


def _is_profile(text: str) -> bool:
    try:
        profiles.parse(text)
    except InvalidValueError:
        return False
    return True
