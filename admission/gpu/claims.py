"""GPUs asked for through DRA claims, in the same currency as device plugin names.

Source: Kubernetes resource.k8s.io (ResourceClaim device requests); KEP-4815 and the NVIDIA
driver's counter sets (``memory-slice-N``); KEP-5004 (implicit and explicit resource names).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.base.errors import InvalidValueError
from admission.gpu import placement, resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.equivalents import NOTHING, dearest
from admission.gpu.placement import Occupancy, Placed
from admission.gpu.products import Cost, Product

GPU_CLASS: Final = "gpu.nvidia.com"
MIG_CLASS: Final = "mig.nvidia.com"
_SLICE_COUNTER: Final = "memory-slice-"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A DeviceClass that hands out GPUs.

    Attributes:
        name: of the class.
        profile: the MIG profile its selector names; empty = whole GPUs, or any slice.
        extended_resource: the device plugin's name that it also answers; empty if none.
    """

    name: str
    profile: str = ""
    extended_resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """One request of a claim.

    Attributes:
        device_class: name of the class.
        count: devices.
        profile: the MIG profile that the request's own selector names; empty if none.
        admin_access: whether it only watches devices that others hold: costs nothing.
    """

    device_class: str
    count: int = 1
    profile: str = ""
    admin_access: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim as a pod refers to it.

    Attributes:
        key: ``namespace/name`` of a ResourceClaim that pods share; empty for one made from a
            template, which every pod gets anew.
        requests: of the claim.
    """

    key: str = ""
    requests: tuple[DeviceRequest, ...] = ()


def device_cost(
    request: DeviceRequest,
    classes: Mapping[str, DeviceClass],
    product: Product | None,
    catalogue: Catalogue,
) -> Cost:
    """What a request costs; 0 for classes that hand out no GPUs, and for admin access.

    Raises:
        InvalidValueError: a MIG class without a profile, an unknown profile, or a whole GPU
            of unknown product.
    """
    known = classes.get(request.device_class)
    if known is None or request.admin_access:
        return NOTHING
    profile = request.profile or known.profile or _profile_of(known)
    if profile:
        if product is None:
            return dearest(catalogue, profile)[0].times(request.count)
        return catalogue.profile(product, profile).cost.times(request.count)
    if known.name == MIG_CLASS:
        rule = "a MIG request needs a selector for device.attributes.profile to be counted"
        raise InvalidValueError(request.device_class, rule)
    if product is None:
        raise InvalidValueError(request.device_class, "the flavor names no known GPU product")
    return product.whole.times(request.count)


def demand(
    pods: Iterable[Iterable[Claim]],
    classes: Mapping[str, DeviceClass],
    product: Product | None,
    catalogue: Catalogue,
) -> Cost:
    """What the claims of several pods cost together: shared claims once, templates per pod.

    Raises:
        InvalidValueError: as ``device_cost``.
    """
    seen: set[str] = set()
    total = NOTHING
    for claims in pods:
        for claim in claims:
            if claim.key in seen:
                continue
            if claim.key:
                seen.add(claim.key)
            for request in claim.requests:
                total = total.plus(device_cost(request, classes, product, catalogue))
    return total


def class_of(resource: str, classes: Mapping[str, DeviceClass]) -> DeviceClass | None:
    """The class behind an implicit name, or behind a plugin's name that a class answers.

    Of several classes the first by name; either way the cost is that of the plugin's name.
    """
    if resource.startswith(resources.IMPLICIT_CLASS_PREFIX):
        return classes.get(resource.removeprefix(resources.IMPLICIT_CLASS_PREFIX))
    answering = (classes[name] for name in sorted(classes))
    return next((known for known in answering if known.extended_resource == resource), None)


def occupancy(product: Product, devices: Iterable[tuple[str, Mapping[str, int]]]) -> Occupancy:
    """What a GPU holds, from the counters that its allocated DRA devices consume.

    Counters are the truth where they exist: they say the slices themselves.

    Args:
        product: the GPU.
        devices: (profile, counters consumed) of each allocated device.

    Raises:
        InvalidValueError: a device consumes no memory slice.
        ValueError: the devices cannot coexist on this product.
    """
    placed = []
    unit = product.axis // product.memory_slices if product.memory_slices else 1
    for profile, counters in devices:
        taken = [
            int(name.removeprefix(_SLICE_COUNTER))
            for name, amount in counters.items()
            if name.startswith(_SLICE_COUNTER) and amount
        ]
        if not taken:
            raise InvalidValueError(profile, "the device consumes no memory-slice counter")
        placed.append(Placed(profile, min(taken) * unit))
    return placement.occupancy(product, placed)


def _profile_of(known: DeviceClass) -> str:
    """The profile in the plugin's name that a class answers."""
    device = resources.parse(known.extended_resource) if known.extended_resource else None
    return device.profile.text if device is not None and device.profile is not None else ""
