"""Watches of the embedded store."""

import threading
from collections import deque
from typing import Generic

from typing_extensions import override

from admission.base.clock import Clock
from admission.kube import decoding
from admission.kube.api import EventType, T, WatchEvent, WatchStream
from admission.kube.resources import Resource
from admission.sandbox.embedded import refusals
from admission.sandbox.embedded.journal import ObjectJournal, Stored
from admission.sandbox.embedded.selection import Wanted


class Stream(WatchStream[T], Generic[T]):
    """Events of one resource after a version, until the deadline; a bookmark comes last."""

    def __init__(
        self,
        journal: ObjectJournal,
        clock: Clock,
        resource: Resource,
        *,
        version: int,
        initial: tuple[Stored, ...],
        selection: Wanted,
        timeout_seconds: float,
        bookmarks: bool,
        into: type[T],
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._resource = resource
        self._version = version
        self._wanted = selection
        self._deadline = clock.monotonic() + timeout_seconds
        self._bookmarks = bookmarks
        self._into = into
        self._finished = False
        self._closed = threading.Event()
        self._ready: deque[WatchEvent[T]] = deque(
            decoding.event(EventType.ADDED, stored.raw, into)
            for stored in initial
            if selection(stored)
        )

    @override
    def __next__(self) -> WatchEvent[T]:
        while not self._ready and not self._finished and not self._closed.is_set():
            self._fill()
        if self._closed.is_set() or not self._ready:
            raise StopIteration
        return self._ready.popleft()

    @override
    def close(self) -> None:
        """End the iteration at once."""
        self._closed.set()
        self._journal.wake(self._resource)

    def _fill(self) -> None:
        left = max(0.0, self._deadline - self._clock.monotonic())
        current = self._journal.version
        changes = self._journal.changes_after(
            self._resource, self._version, left, self._closed.is_set
        )
        if changes is None:
            self._finished = True
            floor = self._journal.floor(self._resource)
            raise refusals.expired(f"too old resource version: {self._version} ({floor})")
        for change in changes:
            self._version = change.version
            seen = change.seen(self._wanted)
            if seen is not None:
                kind, stored = seen
                self._ready.append(decoding.event(kind, stored.raw, self._into))
        if not changes and self._clock.monotonic() >= self._deadline:
            self._finish(max(current, self._version))

    def _finish(self, version: int) -> None:
        """Everything up to ``version`` was seen: it was read before the changes were."""
        if self._bookmarks:
            bookmark: WatchEvent[T] = WatchEvent(
                type=EventType.BOOKMARK, resource_version=str(version)
            )
            self._ready.append(bookmark)
        self._finished = True
