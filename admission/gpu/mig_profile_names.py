"""MIG profile names in every form that Kubernetes users meet.

One profile, many spellings: ``1g.10gb+me`` (nvidia-smi, mig-parted, DRA), ``1g.10gb.me`` (device
plugin), ``1g.10gbme`` (product label with the plus dropped). A name alone has no cost: 1g.10gb is
one memory slice on one card and two on another (see ``admission.gpu.catalogue``).

Source: NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go; k8s-device-plugin internal/rm/rm.go,
internal/lm/resource.go.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from admission.base import names
from admission.base.errors import InvalidValueError

SHARED_SUFFIX: Final = ".shared"

_NAME = re.compile(
    r"(?:(?P<c>[1-9][0-9]{0,2})c\.)?(?P<g>[1-9][0-9]{0,2})g\.(?P<gb>[0-9]{1,6})gb"
    r"(?P<attributes>(?:[+.-]?[A-Za-z][A-Za-z0-9.,]*)?)",
    re.ASCII,
)
_PREFIXES: Final = (names.MIG_RESOURCE_PREFIX, "mig-")
_RULE: Final = "must be a MIG profile such as 1g.10gb, 1g.10gb+me or 1g.24gb-me"
_MIN_COMPUTE_RATIO: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileName:
    """What the name of a MIG profile says.

    Attributes:
        slices: compute slices of the GPU instance (the ``g`` number).
        memory_gb: the number before ``gb``; 0 on parts with unified memory.
        attributes: ``""`` or signed and sorted: ``+me``, ``+me.all``, ``+gfx``, ``-me``.
        compute_slices: slices of the compute instance (the ``c`` number), None where it is the
            whole GPU instance.
    """

    slices: int
    memory_gb: int
    attributes: str = ""
    compute_slices: int | None = None

    @property
    def text(self) -> str:
        """The form of nvidia-smi, mig-parted and DRA: ``1g.10gb+me``."""
        compute = "" if self.compute_slices is None else f"{self.compute_slices}c."
        return f"{compute}{self.slices}g.{self.memory_gb}gb{self.attributes}"

    @property
    def resource(self) -> str:
        """The device plugin's resource: ``nvidia.com/mig-1g.10gb.me``."""
        return names.MIG_RESOURCE_PREFIX + self.text.replace("+", ".").replace(",", ".")

    @property
    def is_compute_instance(self) -> bool:
        """Return whether a part of a GPU instance's compute slices is meant (``1c.3g.40gb``)."""
        return self.compute_slices is not None


@lru_cache(maxsize=4096)
def parse(text: str) -> ProfileName:
    """Read a profile in any form: bare, with ``mig-``, or as a resource without ``.shared``.

    ``7c.7g.80gb`` is the whole instance, hence ``7g.80gb``. A compute instance is recognised;
    who cannot use one asks ``refuse_compute_instance``.

    Raises:
        InvalidValueError: no profile, or a compute instance larger than its GPU instance.
    """
    bare = text.strip()
    for prefix in _PREFIXES:
        if bare.startswith(prefix):
            bare = bare.removeprefix(prefix)
            break
    match = _NAME.fullmatch(bare)
    if match is None:
        raise InvalidValueError(text, _RULE)
    slices = int(match["g"])
    compute = int(match["c"]) if match["c"] else None
    if compute is not None and not _fits_inside(compute, slices):
        raise InvalidValueError(text, f"no compute instance of {compute} slices fits in {slices}g")
    return ProfileName(
        slices=slices,
        memory_gb=int(match["gb"]),
        attributes=_attributes(match["attributes"], text),
        compute_slices=None if compute == slices else compute,
    )


def refuse_compute_instance(profile: ProfileName) -> str:
    """Return why a compute-instance split cannot be requested, and what can; empty if it is none.

    Source: k8s-device-plugin internal/rm/device_map.go registers profiles with c == g only.
    """
    if not profile.is_compute_instance:
        return ""
    whole = ProfileName(
        slices=profile.slices, memory_gb=profile.memory_gb, attributes=profile.attributes
    )
    return (
        f"{profile.text} is a compute instance inside {whole.text}: the NVIDIA device plugin"
        f" offers whole GPU instances only; request {whole.resource}"
    )


def _fits_inside(compute: int, slices: int) -> bool:
    return compute == slices or _MIN_COMPUTE_RATIO * compute <= slices + 1


def _attributes(text: str, whole: str) -> str:
    """Signed, sorted attributes from any spelling: ``+me``, ``.me``, ``me`` and ``-me``."""
    if not text:
        return ""
    sign = "-" if text.startswith("-") else "+"
    parts = text.lstrip("+.-").split(",")
    if not all(parts) or any(part.endswith(".") for part in parts) or ".." in text:
        raise InvalidValueError(whole, _RULE)
    return sign + ",".join(sorted(set(parts)))
