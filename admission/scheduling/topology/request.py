"""How close to each other the pods of a pod set must be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """Slices of a pod set, each of which is in one domain.

    Attributes:
        level: label of the level of these domains.
        size: pods of a slice.
    """

    level: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """How close to each other the pods of a pod set must be.

    Attributes:
        required: label of the level of which one domain gets all pods; empty for none.
        preferred: the same, where wider levels do if there is no such domain.
        unconstrained: whether any domains do.
        layers: slices, and slices inside of them, the widest first.
        group: pod sets with the same name here are placed together; empty for none.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    layers: tuple[Layer, ...] = ()
    group: str = ""

    @property
    def takes_least_free(self) -> bool:
        """Return whether the domains with the least room are filled first."""
        return not self.required and not self.preferred

    @property
    def is_explicit(self) -> bool:
        """Return whether anything is asked about the topology."""
        return bool(self.required or self.preferred or self.unconstrained or self.layers)

    @property
    def slice_size(self) -> int:
        """Return the pods of a slice of the widest layer; 1 without slices."""
        return self.layers[0].size if self.layers else 1

    def level(self, levels: tuple[str, ...]) -> str:
        """Return the level that is searched first; empty where nothing is asked.

        Args:
            levels: of the topology, the widest first.
        """
        if self.required or self.preferred:
            return self.required or self.preferred
        if self.layers:
            return levels[0]
        return levels[-1] if self.unconstrained else ""

    @property
    def first_level(self) -> str:
        """Return the first level that is named; empty for none."""
        return next(iter(self.levels()), "")

    def levels(self) -> tuple[str, ...]:
        """Return all levels that are named."""
        named = (self.required, self.preferred, *(layer.level for layer in self.layers))
        return tuple(level for level in named if level)

    def missing_level(self, levels: tuple[str, ...]) -> str:
        """Return the first level that is named and that a topology has not; empty for none.

        A topology can lose levels while workloads that name them are admitted.

        Args:
            levels: of the topology.
        """
        return next((level for level in self.levels() if level not in levels), "")


ANYWHERE = TopologyRequest(unconstrained=True)
"""What a pod set without a request asks for in a queue with topologies only."""
