"""From the DeviceClass of a DRA claim to the resource name under which quota counts it.

A request of a claim is counted as the device plugin's name of what it gets: a whole GPU as
``nvidia.com/gpu``, a slice as ``nvidia.com/mig-<profile>``. So the price of a claim, per flavor,
is that of the name, and both ways to ask for the same device draw on one budget.

Source: Kubernetes resource.k8s.io (ResourceClaim device requests); KEP-5004 (implicit and explicit
resource names); kueue keps/2941-DRA (deviceClassMappings).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.gpu import mig_profile_names as profiles
from admission.gpu import resources, selectors

_OF_DRIVER: Final = re.compile(rf"(?<!!=)(?<!!= )(['\"]){re.escape(names.DRA_DRIVER)}\1")
"""The driver of GPUs, anywhere in a selector of a class: the class may hand out GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDeviceClass:
    """A DeviceClass that hands out GPUs, or that the configuration counts as something.

    Attributes:
        name: of the class.
        profile: the MIG profile its selectors name; empty = whole GPUs, or any slice.
        extended_resource: the device plugin's name that it also answers; empty if none.
        answers: the resource name that it also answers, whatever it is; empty if none.
        is_sliced: whether it hands out MIG slices only.
        counted_as: the resource that the configuration maps it to; empty if none.
        unclear: why its selectors do not tell what it hands out; empty if they do.
    """

    name: str
    profile: str = ""
    extended_resource: str = ""
    answers: str = ""
    is_sliced: bool = False
    counted_as: str = ""
    unclear: str = ""


BUILT_IN: Final = {
    names.GPU_CLASS: GpuDeviceClass(name=names.GPU_CLASS),
    names.MIG_CLASS: GpuDeviceClass(name=names.MIG_CLASS, is_sliced=True),
    names.VFIO_CLASS: GpuDeviceClass(name=names.VFIO_CLASS),
}
"""The classes that NVIDIA's driver installs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDeviceRequest:
    """One request of a claim.

    Attributes:
        device_class: name of the class.
        count: devices.
        selectors: CEL expressions of the request itself.
        admin_access: whether it only watches devices that others hold: costs nothing.
    """

    device_class: str
    count: int = 1
    selectors: tuple[str, ...] = ()
    admin_access: bool = False


def device_class(
    name: str, expressions: Iterable[str], extended_resource: str, counted_as: str = ""
) -> GpuDeviceClass | None:
    """Return a DeviceClass as its object says; None if it says nothing of GPUs.

    Args:
        name: of the class.
        expressions: its selectors, in CEL.
        extended_resource: the resource name that it answers; empty if none.
        counted_as: the resource that the configuration maps it to; empty if none.
    """
    if counted_as:
        return GpuDeviceClass(name=name, answers=extended_resource, counted_as=counted_as)
    built_in, expressions = BUILT_IN.get(name), tuple(expressions)
    answers = extended_resource if resources.is_device(extended_resource) else ""
    of_driver = any(_OF_DRIVER.search(text) for text in expressions)
    if built_in is None and not answers and not of_driver:
        return None
    profile = unclear = ""
    try:
        profile = profile_of(expressions) or _profile_in(answers)
    except InvalidValueError as error:
        unclear = str(error)
    is_mig = selectors.demanded(expressions, "type") == {"mig"}
    return GpuDeviceClass(
        name=name,
        profile=profile,
        extended_resource=answers,
        answers=extended_resource,
        is_sliced=is_mig or (built_in is not None and built_in.is_sliced),
        unclear=unclear,
    )


def known_classes(
    seen: Iterable[GpuDeviceClass], mappings: Mapping[str, str]
) -> Mapping[str, GpuDeviceClass]:
    """Return the counted classes by name: NVIDIA's own, those seen, and those mapped.

    Args:
        seen: classes that exist.
        mappings: resources by the name of the class that is counted as such; they win.
    """
    classes = dict(BUILT_IN) | {device_class_.name: device_class_ for device_class_ in seen}
    for name, resource in mappings.items():
        if name not in classes or classes[name].counted_as != resource:
            classes[name] = GpuDeviceClass(name=name, counted_as=resource)
    return classes


def resource_of(request: GpuDeviceRequest, classes: Mapping[str, GpuDeviceClass]) -> str:
    """Return the resource that quota counts the devices of a request as.

    The class decides what a device costs. Selectors of the request can be written by any user, so
    they make nothing cheaper: they only say which slice is meant where the class hands out
    nothing but slices.

    Raises:
        InvalidValueError: an unknown class, selectors that do not tell the MIG profile, or a
            profile whose name cannot be read.
    """
    device_class = classes.get(request.device_class)
    if device_class is None:
        raise InvalidValueError(
            f"DeviceClass {request.device_class}",
            "is not known to hand out GPUs, so it is not counted: list it in the configuration"
            " under resources.deviceClassMappings",
        )
    if device_class.counted_as:
        return device_class.counted_as
    if device_class.unclear and not device_class.is_sliced:
        raise InvalidValueError(f"DeviceClass {device_class.name}", device_class.unclear)
    if device_class.profile:
        _refuse_others(request, device_class.profile)
        return profiles.parse(device_class.profile).resource
    if device_class.is_sliced:
        profile = profile_of(request.selectors)
        if not profile:
            rule = "a MIG request needs a selector for device.attributes.profile to be counted"
            raise InvalidValueError(request.device_class, rule)
        return profiles.parse(profile).resource
    return device_class.extended_resource or names.GPU_RESOURCE


def _refuse_others(request: GpuDeviceRequest, profile: str) -> None:
    """Refuses a request that demands another MIG profile than that of its class."""
    for text in sorted(selectors.demanded(request.selectors, "profile")):
        if profiles.parse(text) != profiles.parse(profile):
            rule = f"demands a MIG device {text}, but its class hands out {profile}"
            raise InvalidValueError(request.device_class, rule)


def amounts(
    requests: Iterable[GpuDeviceRequest], classes: Mapping[str, GpuDeviceClass]
) -> dict[str, int]:
    """Return the devices that a claim uses, by resource; admin access uses none.

    Raises:
        InvalidValueError: as ``resource_of``.
    """
    total: dict[str, int] = {}
    for request in requests:
        if not request.admin_access:
            resource = resource_of(request, classes)
            total[resource] = total.get(resource, 0) + request.count
    return total


def counted_name(resource: str, classes: Mapping[str, GpuDeviceClass]) -> str:
    """Return the name as which quota counts a container's resource: its DeviceClass decides.

    A plugin's name that a class answers, too, stays: it costs the same either way. So does a name
    that no counted class answers.

    Raises:
        InvalidValueError: as ``resource_of``; or classes answer the name that cost differently.
    """
    if not resources.is_of_class(resource):
        return resource
    if resource.startswith(resources.IMPLICIT_CLASS_PREFIX):
        name = resource.removeprefix(resources.IMPLICIT_CLASS_PREFIX)
        return resource_of(GpuDeviceRequest(device_class=name), classes)
    answering = answered_by(resource, classes)
    costs = {resource_of(GpuDeviceRequest(device_class=name), classes) for name in answering}
    if len(costs) > 1:
        rule = (
            f"is answered by the DeviceClasses {', '.join(answering)}, which cost differently:"
            " which one it gets is not known in advance"
        )
        raise InvalidValueError(resource, rule)
    return next(iter(costs), resource)


def answered_by(resource: str, classes: Mapping[str, GpuDeviceClass]) -> tuple[str, ...]:
    """Return the counted classes that answer an extended resource, sorted by name."""
    return tuple(
        sorted(
            name for name, device_class_ in classes.items() if device_class_.answers == resource
        )
    )


def profile_of(expressions: Iterable[str]) -> str:
    """Return the MIG profile that selectors, which must all hold, demand; empty if none is named.

    Raises:
        InvalidValueError: they name a profile, but do not demand one for certain.
    """
    texts = tuple(expressions)
    demanded = selectors.demanded(texts, "profile")
    if len(demanded) == 1:
        return next(iter(demanded))
    naming = next((text for text in texts if "profile" in text), "")
    if not naming:
        return ""
    rule = (
        "a selector for a MIG profile must be one comparison such as"
        f" device.attributes['{names.DRA_DRIVER}'].profile == '1g.10gb', with && only"
    )
    raise InvalidValueError(naming, rule)


def _profile_in(resource: str) -> str:
    """The profile in a device plugin's name; empty if it names none."""
    device = resources.parse(resource) if resource else None
    return device.profile.text if device is not None and device.profile is not None else ""
