"""Objects, their versions and the history that watches read.

Objects are kept encoded: immutable, copied by nobody, decoded by each reader into the type it
wants.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from admission.kube.api import Document, EventType
from admission.kube.resources import Resource

UNSTORED: Final = 0
"""The version of an object that a dry run made."""


class Key(NamedTuple):
    """Identity of an object within its resource; lists are in this order."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object.

    Attributes:
        key: where it is.
        uid: its identity over time.
        version: resourceVersion as a number.
        labels: for selectors.
        owners: uids of its owners.
        raw: the encoded document.
    """

    key: Key
    uid: str
    version: int
    labels: Mapping[str, str]
    owners: tuple[str, ...]
    raw: bytes

    def document(self) -> Document:
        """Return a fresh copy as a document."""
        document: Document = msgspec.json.decode(self.raw)
        return document


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One step of history; ``before`` is None for a creation, ``after`` is None for a removal.

    A removal has in ``before`` the last state, with the version of the removal itself.
    """

    version: int
    before: Stored | None
    after: Stored | None

    def seen(self, is_wanted: Callable[[Stored], bool]) -> tuple[EventType, Stored] | None:
        """Return the event for a watch with a selector: leaving the selection is a DELETED."""
        was = self.before is not None and is_wanted(self.before)
        if self.after is not None and is_wanted(self.after):
            return (EventType.MODIFIED if was else EventType.ADDED), self.after
        if not was or self.before is None:
            return None
        if self.after is None:
            return EventType.DELETED, self.before
        return EventType.DELETED, encode(self.before.document(), self.after.version)


@dataclass(slots=True)
class _Table:
    objects: dict[Key, Stored] = field(default_factory=dict)
    history: deque[HistoryStep] = field(default_factory=deque)
    floor: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)


class ObjectJournal:
    """All objects of all resources under one lock and one version counter.

    Callers hold ``lock`` around anything that must be one step; every method takes it itself.
    """

    def __init__(self, resources: Mapping[Resource, object], history: int) -> None:
        self.lock: Final = threading.RLock()
        self._limit = history
        self._version = 0
        self._tables = {
            resource: _Table(changed=threading.Condition(self.lock)) for resource in resources
        }
        self._uids: dict[str, tuple[Resource, Key]] = {}
        self._dependents: dict[str, set[tuple[Resource, Key]]] = {}

    @property
    def version(self) -> int:
        """Version of the newest change of any resource."""
        return self._version

    def get(self, resource: Resource, key: Key) -> Stored | None:
        """Return the current version of an object."""
        with self.lock:
            return self._tables[resource].objects.get(key)

    def snapshot(self, resource: Resource, namespace: str) -> tuple[tuple[Stored, ...], int]:
        """Return the objects of a namespace (empty: of all), in order, and their version."""
        with self.lock:
            table = self._tables[resource].objects
            keys = sorted(key for key in table if not namespace or key.namespace == namespace)
            return tuple(table[key] for key in keys), self._version

    def put(self, resource: Resource, document: Document) -> Stored:
        """Store a document as the next version and return it."""
        with self.lock:
            self._version += 1
            after = encode(document, self._version)
            before = self._tables[resource].objects.get(after.key)
            self._tables[resource].objects[after.key] = after
            self._index(resource, before, after)
            self._append(resource, HistoryStep(self._version, before, after))
            return after

    def remove(self, resource: Resource, key: Key) -> Stored:
        """Remove an object; return its last state, under the version of the removal."""
        with self.lock:
            self._version += 1
            last = self._tables[resource].objects.pop(key)
            gone = encode(last.document(), self._version)
            self._index(resource, last, None)
            self._append(resource, HistoryStep(self._version, gone, None))
            return gone

    def owner(self, uid: str) -> tuple[Resource, Key] | None:
        """Return where the object of that uid is; None if there is none."""
        with self.lock:
            return self._uids.get(uid)

    def dependents(self, uid: str) -> tuple[tuple[Resource, Key], ...]:
        """Return the objects that name the uid as an owner, in a fixed order."""
        with self.lock:
            uids = self._dependents.get(uid, ())
            return tuple(sorted(uids, key=lambda item: (item[0].qualified, item[1])))

    def resources(self) -> Iterator[Resource]:
        """Yield every resource that has a table."""
        return iter(self._tables)

    def floor(self, resource: Resource) -> int:
        """Return the newest version after which history may be forgotten; watches start there."""
        return self._tables[resource].floor

    def changes_after(
        self, resource: Resource, version: int, timeout: float, stopped: Callable[[], bool]
    ) -> tuple[HistoryStep, ...] | None:
        """Return changes after a version, waiting up to ``timeout`` seconds for the first.

        Returns None if the version is so old that changes after it were forgotten.
        """
        table = self._tables[resource]
        with self.lock:
            table.changed.wait_for(lambda: stopped() or _newest(table) > version, timeout)
            if version < table.floor:
                return None
            newer: list[HistoryStep] = []
            for change in reversed(table.history):
                if change.version <= version:
                    break
                newer.append(change)
            return tuple(reversed(newer))

    def wake(self, resource: Resource) -> None:
        """Make those who wait in `changes_after` look whether they were stopped."""
        with self.lock:
            self._tables[resource].changed.notify_all()

    def compact(self) -> None:
        """Forget all history, as an API server does after some minutes."""
        with self.lock:
            for table in self._tables.values():
                table.history.clear()
                table.floor = self._version

    def _append(self, resource: Resource, change: HistoryStep) -> None:
        table = self._tables[resource]
        table.history.append(change)
        while len(table.history) > self._limit:
            table.floor = table.history.popleft().version
        table.changed.notify_all()

    def _index(self, resource: Resource, before: Stored | None, after: Stored | None) -> None:
        if before is not None:
            self._uids.pop(before.uid, None)
            for owner in before.owners:
                self._dependents[owner].discard((resource, before.key))
                if not self._dependents[owner]:
                    del self._dependents[owner]
        if after is not None:
            self._uids[after.uid] = (resource, after.key)
            for owner in after.owners:
                self._dependents.setdefault(owner, set()).add((resource, after.key))


def encode(document: Document, version: int) -> Stored:
    """Return a document as stored under a version; `UNSTORED` gives it none."""
    metadata = document["metadata"]
    if version != UNSTORED:
        metadata["resourceVersion"] = str(version)
    owners = metadata.get("ownerReferences") or ()
    return Stored(
        key=Key(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version,
        labels=dict(metadata.get("labels") or {}),
        owners=tuple(sorted({owner["uid"] for owner in owners})),
        raw=msgspec.json.encode(document),
    )


def _newest(table: _Table) -> int:
    return table.history[-1].version if table.history else table.floor
