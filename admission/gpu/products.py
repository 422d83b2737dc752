"""The values of the GPU catalogue: products, their MIG profiles, and what a device costs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

GIB: Final = 2**30

DEFAULT_SLICES: Final = 7
"""Compute slices of a whole GPU that cannot be partitioned, so that it weighs as much as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one device takes from a budget.

    Attributes:
        slices: compute slices.
        memory_bytes: nominal memory: the ``gb`` of the name times GiB, not usable bytes.
    """

    slices: int
    memory_bytes: int

    def times(self, count: int, replicas: int = 1) -> "Cost":
        """Return the cost of ``count`` devices, or of shares with ``replicas`` shares per device.

        Exact for devices; for shares the total is rounded up, so it is never too little.
        """
        return Cost(
            slices=-(-self.slices * count // replicas),
            memory_bytes=-(-self.memory_bytes * count // replicas),
        )

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum."""
        return Cost(
            slices=self.slices + other.slices,
            memory_bytes=self.memory_bytes + other.memory_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A MIG profile of one product.

    Attributes:
        name: canonical, such as ``1g.10gb+me``.
        compute_slices: of the product's compute slices.
        memory_slices: of the product's memory slices.
        memory_gb: the number in the name.
        max_instances: most instances on one GPU.
        size: units of the product's placement axis that an instance occupies.
        starts: legal first units, ascending.
        engines: media engines that an instance takes; missing = 0.
    """

    name: str
    compute_slices: int
    memory_slices: int
    memory_gb: int
    max_instances: int
    size: int
    starts: tuple[int, ...]
    engines: Mapping[str, int] = field(default_factory=dict)

    @property
    def cost(self) -> Cost:
        """Return the cost of one instance."""
        return Cost(slices=self.compute_slices, memory_bytes=self.memory_gb * GIB)


@dataclass(frozen=True, kw_only=True)
class Product:
    """A GPU model, as far as quota can tell models apart.

    Attributes:
        name: identity in this catalogue, such as ``A100-80GB``.
        memory_gb: nominal memory of the whole GPU.
        compute_slices: compute slices of the whole GPU.
        memory_slices: memory slices of the whole GPU; 0 without MIG.
        axis: length of the placement axis; 0 without MIG.
        engines: media engines of the whole GPU; empty = unknown, then not checked.
        profiles: MIG profiles by canonical name, in the order of the table; empty = no MIG.
        profile_aliases: other names of profiles, canonical name by alias.
        aliases: other names of the product.
        labels: regular expressions that match a whole product label without suffixes.
        pci_ids: PCI device ids without vendor, such as ``0x20B2``.
        estimated: whether the figures were read off a node's labels, not the table.
    """

    name: str
    memory_gb: int
    compute_slices: int = DEFAULT_SLICES
    memory_slices: int = 0
    axis: int = 0
    engines: Mapping[str, int] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    profile_aliases: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    pci_ids: tuple[str, ...] = ()
    estimated: bool = False

    @override
    def __hash__(self) -> int:
        """Of the name; mappings cannot be hashed, and a catalogue has each name once."""
        return hash(self.name)

    @property
    def whole(self) -> Cost:
        """Return the cost of the whole GPU."""
        return Cost(slices=self.compute_slices, memory_bytes=self.memory_gb * GIB)

    @property
    def has_mig(self) -> bool:
        """Return whether the GPU can be partitioned."""
        return bool(self.profiles)

    def find(self, profile: str) -> Profile | None:
        """Return the profile of that canonical name or alias."""
        return self.profiles.get(self.profile_aliases.get(profile, profile))
