"""Which resource names mean GPUs, and what each says.

Source: k8s-device-plugin api/config/v1 (``.shared``), internal/rm/rm.go (``mig-``); Kubernetes
KEP-5004 (implicit names of DRA device classes).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.gpu import mig_profile_names as profiles
from admission.gpu.mig_profile_names import ProfileName

DEFAULT_MANAGED: Final = (
    names.GPU_RESOURCE,
    names.GPU_SHARED_RESOURCE,
    names.MIG_RESOURCE_PREFIX + "*",
    *names.IMPLICIT_GPU_CLASSES,
)
VIRTUAL: Final = frozenset({names.GPU_MEMORY, names.GPU_SLICES})
"""Resources that exist in quota only; no node offers them."""

IMPLICIT_CLASS_PREFIX: Final = names.IMPLICIT_CLASS_PREFIX
"""Kubernetes' own resource name of a DRA DeviceClass; the API checks nothing about it."""
_NATIVE: Final = "kubernetes.io/"
"""In names of resources that are Kubernetes' own."""


class UnitKind(Enum):
    """What one unit of a resource is."""

    GPU = "gpu"
    MIG = "mig"
    DEVICE_CLASS = "device-class"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU resource name, understood.

    Attributes:
        resource: the name as it was written.
        kind: whole GPU (or what a node offers as such), MIG instance, or DRA device class.
        profile: the MIG profile; None for other kinds.
        shared: whether the name ends in ``.shared``: one unit is a share of a device.
        device_class: name of the DeviceClass; empty for other kinds.
    """

    resource: str
    kind: UnitKind
    profile: ProfileName | None = None
    shared: bool = False
    device_class: str = ""


@lru_cache(maxsize=4096)
def parse(resource: str) -> Device | None:
    """Return the device that a resource name stands for; None if it names no GPU.

    Raises:
        InvalidValueError: a ``nvidia.com/mig-`` name that is no usable profile. It is never
            treated as free of cost.
    """
    if resource == names.GPU_RESOURCE:
        return Device(resource=resource, kind=UnitKind.GPU)
    if resource == names.GPU_SHARED_RESOURCE:
        return Device(resource=resource, kind=UnitKind.GPU, shared=True)
    if resource.startswith(IMPLICIT_CLASS_PREFIX):
        device_class = resource.removeprefix(IMPLICIT_CLASS_PREFIX)
        return Device(resource=resource, kind=UnitKind.DEVICE_CLASS, device_class=device_class)
    if resource.startswith(names.MIG_RESOURCE_PREFIX):
        return _parse_mig(resource)
    return None


def shared_name(resource: str) -> str:
    """Return the name under which a sharing node offers the resource when it renames."""
    return resource if resource.endswith(profiles.SHARED_SUFFIX) else resource + ".shared"


def plain_name(resource: str) -> str:
    """Return the name without ``.shared``."""
    return resource.removesuffix(profiles.SHARED_SUFFIX)


def is_device(resource: str) -> bool:
    """Return whether a name is one of the device plugin's GPU or MIG names, well-formed or not."""
    return resource in {names.GPU_RESOURCE, names.GPU_SHARED_RESOURCE} or resource.startswith(
        names.MIG_RESOURCE_PREFIX
    )


def is_of_class(resource: str) -> bool:
    """Return whether a DeviceClass can answer a resource name, so that the class decides its cost.

    These are the implicit names of classes, and all extended resources (``extendedResourceName``)
    but the device plugin's, which are counted as they are.

    Source: kubernetes pkg/apis/core/v1/helper/helpers.go (IsExtendedResourceName); KEP-5004.
    """
    if resource.startswith(IMPLICIT_CLASS_PREFIX):
        return True
    return "/" in resource and _NATIVE not in resource and not is_device(resource)


def is_virtual(resource: str) -> bool:
    """Return whether the resource is counted in quota only (GPU memory, GPU slices)."""
    return resource in VIRTUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedResources:
    """The resource names that make a pod ours.

    Attributes:
        exact: full names.
        prefixes: beginnings; written with a trailing ``*`` in settings.
    """

    exact: frozenset[str]
    prefixes: tuple[str, ...]

    def matches(self, resource: str) -> bool:
        """Return whether a resource name is managed."""
        return resource in self.exact or resource.startswith(self.prefixes)

    def amounts(self, resources: Mapping[str, int]) -> dict[str, int]:
        """Return the managed part of a resource list, without zero amounts, sorted by name."""
        return {
            name: resources[name]
            for name in sorted(resources)
            if resources[name] and self.matches(name)
        }


def managed(patterns: Iterable[str] = DEFAULT_MANAGED) -> ManagedResources:
    """Compile patterns: full names, or prefixes that end in ``*``.

    Raises:
        InvalidValueError: a pattern is empty, matches everything, or has a star inside.
    """
    exact: set[str] = set()
    prefixes: set[str] = set()
    for pattern in patterns:
        stem = pattern.removesuffix("*")
        if not stem or "*" in stem:
            raise InvalidValueError(pattern, "must be a resource name or a prefix ending in *")
        (prefixes if pattern.endswith("*") else exact).add(stem)
    return ManagedResources(exact=frozenset(exact), prefixes=tuple(sorted(prefixes)))


def _parse_mig(resource: str) -> Device:
    shared = resource.endswith(profiles.SHARED_SUFFIX)
    profile = profiles.parse(plain_name(resource))
    refusal = profiles.refuse_compute_instance(profile)
    if refusal:
        raise InvalidValueError(resource, refusal)
    return Device(resource=resource, kind=UnitKind.MIG, profile=profile, shared=shared)
