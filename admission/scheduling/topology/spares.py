"""The spare nodes of a flavor: the last idle ones of each domain, by name (ADR 0274)."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain

from typing_extensions import override

from admission.scheduling.places.ledger import NodeLedger
from admission.scheduling.topology.tree import DomainPath


class FlavorSpares(Collection[str]):
    """The nodes of a flavor that are kept for whoever loses a node, as the ledger is now.

    What is supposed in the ledger counts, so the spares always go with what is free. Only nodes
    that changed since the last `refresh` are looked at.

    Attributes:
        paths: the narrowest domain of each usable node of the flavor.
        noted: the spares of each domain with any at the last `note`; None before the first.
    """

    def __init__(
        self,
        ledger: NodeLedger,
        paths: Mapping[str, DomainPath],
        depth: int,
        count: int,
        noted: dict[DomainPath, tuple[str, ...]] | None = None,
    ) -> None:
        """Look at no node yet.

        Args:
            ledger: tells which nodes are idle.
            paths: the narrowest domain of each usable node of the flavor.
            depth: how many levels the domains have that keep spares.
            count: the most spares of each domain; at least 1.
            noted: the spares of each domain at the last `note`, which the flavor may have had with
                other nodes; None for none. It is followed up here.
        """
        self.paths = paths
        self.noted = noted
        self._ledger = ledger
        self._depth, self._count = depth, count
        self._seen: int | None = None
        self._idle: dict[DomainPath, list[str]] = {}
        """The idle nodes of each domain, sorted."""
        self._spares: dict[DomainPath, tuple[str, ...]] = {}
        self._total = 0
        self._unnoted: dict[DomainPath, None] = dict.fromkeys(noted or ())
        """Domains whose spares may be others than at the last `note`."""

    @override
    def __len__(self) -> int:
        """Return how many spares all domains have together."""
        return self._total

    @override
    def __iter__(self) -> Iterator[str]:
        """Yield the spares of each domain, sorted within it."""
        return chain.from_iterable(self._spares.values())

    @override
    def __contains__(self, name: object) -> bool:
        """Return whether a node is a spare of its domain."""
        path = self.paths.get(name) if isinstance(name, str) else None
        return path is not None and name in self.of(path[: self._depth])

    def domain(self, name: str) -> DomainPath | None:
        """Return the domain that a usable node of the flavor is a spare of, once it is idle."""
        path = self.paths.get(name)
        return None if path is None else path[: self._depth]

    def of(self, domain: DomainPath) -> tuple[str, ...]:
        """Return the spares of a domain, sorted; none of one that is not known."""
        return self._spares.get(domain, ())

    def by_domain(self) -> dict[DomainPath, tuple[str, ...]]:
        """Return the spares of each domain with any, as a copy."""
        return dict(self._spares)

    def refresh(self) -> None:
        """Take which nodes are idle in the ledger now."""
        changed = None if self._seen is None else self._ledger.changed_since(self._seen)
        touched: dict[DomainPath, None] = {}
        for name in dict.fromkeys(self.paths if changed is None else changed):
            domain = self.domain(name)
            if domain is None:
                continue
            idle = self._idle.setdefault(domain, [])
            at = bisect_left(idle, name)
            was_idle = at < len(idle) and idle[at] == name
            if was_idle == self._ledger.is_idle(name):
                continue
            if was_idle:
                del idle[at]
            else:
                idle.insert(at, name)
            touched[domain] = None
        for domain in touched:
            self._set(domain, tuple(self._idle[domain][-self._count :]))
        self._seen = self._ledger.version

    def _set(self, domain: DomainPath, spares: tuple[str, ...]) -> None:
        before = self.of(domain)
        if before == spares:
            return
        self._total += len(spares) - len(before)
        self._unnoted[domain] = None
        if spares:
            self._spares[domain] = spares
        else:
            del self._spares[domain]

    def note(self) -> bool:
        """Remember the spares as they are now, with nothing supposed.

        Returns:
            Whether those of any domain are others than at the last call; not at the first one.
        """
        self.refresh()
        if self.noted is None:
            self.noted = self.by_domain()
            self._unnoted.clear()
            return False
        is_changed = False
        for domain in self._unnoted:
            spares = self.of(domain)
            is_changed = is_changed or self.noted.get(domain, ()) != spares
            if spares:
                self.noted[domain] = spares
            else:
                self.noted.pop(domain, None)
        self._unnoted.clear()
        return is_changed

    def supposing(self, is_idle: Callable[[str], bool]) -> frozenset[str]:
        """Return the spares if other nodes were idle than are now; all nodes are looked at.

        Args:
            is_idle: whether a node is supposed to be idle.
        """
        idle: dict[DomainPath, list[str]] = {}
        for name, path in self.paths.items():
            if is_idle(name):
                idle.setdefault(path[: self._depth], []).append(name)
        return frozenset(
            name for members in idle.values() for name in sorted(members)[-self._count :]
        )
