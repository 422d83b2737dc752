"""The domains of a topology, from the widest level to the narrowest."""

from collections.abc import Iterable
from dataclasses import dataclass, field

DomainPath = tuple[str, ...]
"""The values of the labels of a domain, from the widest level to its own."""


@dataclass(slots=True, eq=False)
class Domain:
    """The nodes that have the same values in the labels of the levels down to one.

    Attributes:
        index: its place in `DomainTree.domains`.
        path: its values.
        children: its domains on the next level, by their path.
    """

    index: int
    path: DomainPath
    parent: "Domain | None" = None
    children: list["Domain"] = field(default_factory=list)

    @property
    def level(self) -> int:
        """Return the index of its level; 0 is the widest."""
        return len(self.path) - 1

    def at(self, level: int) -> "Domain":
        """Return the domain of a level that it is in."""
        domain = self
        while domain.level > level and domain.parent is not None:
            domain = domain.parent
        return domain


class DomainTree:
    """All domains of a topology in which there are nodes.

    Attributes:
        levels: labels of nodes, the widest first.
        domains: every domain after its parent.
        by_level: the domains of each level, by their path.
        leaves: the domains of the narrowest level by path.
    """

    def __init__(self, levels: tuple[str, ...], paths: Iterable[DomainPath]) -> None:
        """Build the tree.

        Args:
            levels: labels of nodes, the widest first.
            paths: of the domains of the narrowest level, in any order; repeated ones are one.
        """
        self.levels = levels
        self.domains: list[Domain] = []
        self.by_level: tuple[list[Domain], ...] = tuple([] for _ in levels)
        self.leaves: dict[DomainPath, Domain] = {}
        above: list[Domain] = []
        for path in sorted(set(paths)):
            while above and above[-1].path != path[: len(above)]:
                above.pop()
            for depth in range(len(above), len(levels)):
                domain = Domain(len(self.domains), path[: depth + 1], above[-1] if above else None)
                if domain.parent is not None:
                    domain.parent.children.append(domain)
                self.domains.append(domain)
                self.by_level[depth].append(domain)
                above.append(domain)
            self.leaves[path] = above[-1]
