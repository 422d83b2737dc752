"""Lists and watches one kind of objects, and retries after every failure.

What is seen goes to a sink, in order, from one thread. An object that cannot be decoded is
reported and left out; it never stops the rest.

An etcd that is restored from a backup counts versions again from an earlier number. A watch from
the old number would bring nothing for as long as it takes to reach it, so the version of a list is
asked for after each connection that broke.

Source: the behaviour is that of client-go's tools/cache/reflector.go.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias

from admission.base import logs
from admission.base.clock import Clock
from admission.kube import errors
from admission.kube.api import Api, EventType, Page, T, Undecodable, WatchEvent, WatchStream
from admission.kube.connectivity import Connectivity
from admission.kube.resources import Resource

FIRST_SECONDS: Final = 0.8
LONGEST_SECONDS: Final = 10.0
_HEALTHY_SECONDS: Final = 60.0
_JITTER: Final = 0.5


class Backoff:
    """Exponential waits with jitter, from the start again after a healthy minute.

    Source: the figures are those of client-go's reflector, but for the longest wait, which is 30 s
    there: pods wait for what these watches bring, and there are few of them.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        first_seconds: float = FIRST_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._rng = rng
        self._first = first_seconds
        self._longest = longest_seconds
        self._next = first_seconds
        self._last_failure: float | None = None

    def reset(self) -> None:
        """Begin with the first wait again."""
        self._next = self._first

    def failed(self, now: float, retry_after: float | None = None) -> float:
        """Return the seconds to wait after a failure at ``now`` (monotonic seconds).

        What the server asked for, where it did, with jitter on top, so that many clients do not
        come back at once; such waits do not grow.
        """
        if self._last_failure is not None and now - self._last_failure > _HEALTHY_SECONDS:
            self._next = self._first
        if retry_after is None:
            wait = self._next
            self._next = min(self._longest, self._next * 2)
        else:
            wait = max(self._first, retry_after)
        wait *= 1 + _JITTER * self._rng.random()
        # The wait itself is no healthy time.
        self._last_failure = now + wait
        return wait


_PAGE: Final = 500
_WATCH_SECONDS: Final = (300.0, 600.0)
_SHORT_SECONDS: Final = 1.0
_UNANSWERED_SECONDS: Final = (0.1, 0.8)
"""First and longest wait, without jitter, while the API server does not answer: to be refused a
connection costs next to nothing, and pods wait for its return."""


_ABSENT_SECONDS: Final = 2.0
"""Longest wait, without jitter, while the kind is not served: its CRD may be applied again."""
_UNSERVED_TOLD: Final = 20
"""A kind that is not served is told after this many attempts (about 20 s), once for all kinds."""


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """All objects of the kind, after a list; an object that is not in it is gone.

    Attributes:
        items: the objects.
        undecodable: objects that exist but could not be read; these are not gone.
        version: resourceVersion of the list; what is newer may be missing from it. Empty when
            there is no such list, as of a kind that is not served.
    """

    items: tuple[T, ...]
    undecodable: tuple[Undecodable, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Arrived(Generic[T]):
    """A page of the first list, told while the others are read; `Replaced` brings it once more.

    The objects are the same ones then. Whoever leaves a page out loses nothing but time.
    """

    items: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object is new or changed."""

    object: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """An object is gone; its last state."""

    object: T


Change: TypeAlias = Replaced[T] | Upserted[T] | Deleted[T]
Sink: TypeAlias = Callable[[Replaced[T] | Upserted[T] | Deleted[T]], None]
PageSink: TypeAlias = Callable[[Arrived[T]], None]


def _ignore(*_: object) -> None:
    """Only the log tells."""


@dataclass(frozen=True, slots=True)
class _Followed(Generic[T]):
    """Which objects are followed, and how.

    Attributes:
        into: type that objects are decoded to.
        namespace: only this one; empty for all.
        label_selector: only objects that match.
        field_selector: only objects that match.
        page_size: objects per page of a list.
        watch_seconds: least and longest life of one watch.
    """

    into: type[T]
    namespace: str
    label_selector: str
    field_selector: str
    page_size: int
    watch_seconds: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Listeners(Generic[T]):
    """Who is told what; see `Reflector`."""

    sink: Sink[T]
    on_undecodable: Callable[[Undecodable], None]
    on_reverted: Callable[[], None]
    on_unserved: Callable[[], None]


class _Waits:
    """How long a reflector waits after what failed.

    Attributes:
        failures: how often anything failed.
        last_failure: monotonic time of the last one; of the start before.
        unserved: requests in a row that were not answered, or by a server that starts.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        connectivity: "Connectivity",
        pause: Callable[[float], object] | None,
        stopping: threading.Event,
    ) -> None:
        self.failures = 0
        self.last_failure = clock.monotonic()
        self.unserved = 0
        self._clock = clock
        self._connectivity = connectivity
        self._returns = connectivity.returns
        self._pause = pause
        self._stopping = stopping
        self._is_asked_to_wait = False
        self._backoff = Backoff(rng)
        first, longest = _UNANSWERED_SECONDS
        self._unanswered = Backoff(rng, first_seconds=first, longest_seconds=longest)
        self._absent = Backoff(rng, longest_seconds=_ABSENT_SECONDS)

    def rest(self, seconds: float) -> None:
        """Wait; unless the server has asked for it, until the server answers at most."""
        if self._pause is not None:
            self._pause(seconds)
        elif self._is_asked_to_wait:
            self._stopping.wait(seconds)
        else:
            self._connectivity.wait(seconds, self._stopping)

    def answered(self) -> None:
        """Take that the server has answered."""
        self.unserved = 0

    def failed(self, retry_after: float | None) -> float:
        """Return the seconds to wait after a failure, at least as many as the server asks for."""
        self._count(is_asked_to_wait=retry_after is not None)
        if self._returns != self._connectivity.returns:
            self._returns = self._connectivity.returns
            self._backoff.reset()
        return self._backoff.failed(self.last_failure, retry_after)

    def not_served(self) -> float:
        """Return the seconds to wait after a request without answer, or of a server that starts.

        A server that starts asks to wait for longer than it takes.
        """
        self._count(is_asked_to_wait=False)
        self.unserved += 1
        return self._unanswered.failed(self.last_failure)

    def not_there(self) -> float:
        """Return the seconds to wait where the server does not know the kind."""
        self._count(is_asked_to_wait=False)
        return self._absent.failed(self.last_failure)

    def _count(self, *, is_asked_to_wait: bool) -> None:
        self.failures += 1
        self.last_failure = self._clock.monotonic()
        self._is_asked_to_wait = is_asked_to_wait


class Reflector(Generic[T]):
    """Keeps a sink informed of the objects of one resource.

    Attributes:
        resource: what is followed.
        has_synced: a whole list went to the sink since the start, and since the kind was last
            said not to be served.
        is_unsure: the connection broke; the server may have left the state that is known.
        newest: latest version that was seen, as a number.
        listing: objects that the last list has brought so far; any thread may look.
        lists: lists that went to the sink.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        into: type[T],
        sink: Sink[T],
        *,
        clock: Clock,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = _PAGE,
        watch_seconds: tuple[float, float] = _WATCH_SECONDS,
        on_undecodable: Callable[[Undecodable], None] = _ignore,
        on_reverted: Callable[[], None] = _ignore,
        on_unserved: Callable[[], None] = _ignore,
        on_page: PageSink[T] | None = None,
        newest: int = 0,
        rng: random.Random | None = None,
        pause: Callable[[float], object] | None = None,
        connectivity: Connectivity | None = None,
    ) -> None:
        """Prepares a reflector; `start` or `run` starts it.

        Args:
            api: where the objects are.
            resource: what to follow.
            into: type that objects are decoded to.
            sink: gets every change, always from the same thread; should be quick. If it raises,
                everything is listed again after a pause.
            clock: measures waits and activity.
            namespace: only this one; empty for all.
            label_selector: only objects that match.
            field_selector: only objects that match.
            page_size: objects per page of a list.
            watch_seconds: least and longest life of one watch.
            on_undecodable: told of each object that was left out, besides the log.
            on_reverted: told that the server went back to an earlier state, before anything of
                it goes to the sink.
            on_unserved: told that the kind is not served any more; a list comes once it is.
            on_page: gets each page of the first list but the last, where nothing was known before.
            newest: latest version that a reflector before this one has seen.
            rng: spreads watches and waits.
            pause: waits that many seconds; by default until `stop` at the latest, or until the
                server answers again.
            connectivity: whether the server answers; shared with others that follow it.
        """
        self.resource: Final = resource
        self.has_synced = False
        self.is_unsure = False
        self.listing = 0
        self.newest = newest
        self.lists = 0
        self._api = api
        self._followed = _Followed(
            into, namespace, label_selector, field_selector, page_size, watch_seconds
        )
        self._listeners = _Listeners(sink, on_undecodable, on_reverted, on_unserved)
        self._clock = clock
        self._on_page = None if newest else on_page
        self._rng = rng or random.Random()  # noqa: S311  # spreads load, keeps no secret
        self._connectivity = connectivity or Connectivity(clock)
        self._is_answered = False
        self._stopping = threading.Event()
        self._waits = _Waits(clock, self._rng, self._connectivity, pause, self._stopping)
        self._version = ""
        self._paged = True
        self._stream: WatchStream[T] | None = None
        self._lock = threading.RLock()  # a sink may call stop()
        self._last_activity = clock.monotonic()
        self._thread: threading.Thread | None = None
        self._log = logs.get("reflector").bind(resource=resource.qualified)

    @property
    def failures(self) -> int:
        """Return how many lists and watches have failed."""
        return self._waits.failures

    @property
    def last_activity(self) -> float:
        """Monotonic time when the server was last heard of: a page, an event, a bookmark.

        A watch lives at most ten minutes, so a value older than a quarter of an hour means that
        this reflector hangs or cannot reach the server.
        """
        return self._last_activity

    @property
    def last_sign(self) -> float:
        """Monotonic time when its thread last did anything; a request that fails is a sign, too.

        One older than a quarter of an hour means that the thread hangs.
        """
        return max(self._last_activity, self._waits.last_failure)

    def start(self) -> None:
        """Start a thread of its own."""
        name = f"reflector-{self.resource.plural}"
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop at once; nothing goes to the sink after this returns, from another thread.

        Does not wait for a request that is under way; see `join`.
        """
        self._stopping.set()
        self._connectivity.wake()
        with self._lock:
            if self._stream is not None:
                self._stream.close()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the thread to end; return whether it did."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return self._thread is None or not self._thread.is_alive()

    def run(self) -> None:
        """List and watch until `stop`."""
        while not self._stopping.is_set():
            wait = self._step()
            if wait and not self._stopping.is_set():
                self._waits.rest(wait)

    def _step(self) -> float:
        """Lists if necessary, then watches once; seconds to wait before the next time."""
        started = self._clock.monotonic()
        self._is_answered = False
        goes_on = bool(self._version)
        try:
            if self._version and self.is_unsure:
                self._compare()
            if not self._version:
                self._list()
            if self._watch() or self._lasted(started):
                return 0.0
            # A server that ends each watch at once would otherwise be asked without end.
            return self._failed(None, "the watch ended at once", is_usual=True)
        except errors.NotFoundError as error:
            return self._not_there(str(error))
        except errors.KubeError as error:
            if isinstance(error, errors.TransportError) or errors.is_unavailable(error):
                self._doubt()
            return self._recovers_in(error, is_new=goes_on or self._lasted(started))
        except Exception as error:  # noqa: BLE001 - a broken sink must not end the thread
            self._version = ""
            self._log.exception("sink failed, everything is listed again")
            return self._failed(None, str(error))

    def _recovers_in(self, error: errors.KubeError, *, is_new: bool) -> float:
        """Seconds to wait after an error.

        Args:
            error: the error of the list or the watch.
            is_new: whether it is not just what came of the last attempt to recover.
        """
        if isinstance(error, errors.GoneError):
            self._version = ""
            if is_new:
                self._log.debug("listing again", error=str(error))
                return 0.0
        if isinstance(error, errors.TransportError) and not self._is_answered:
            self._connectivity.lost(str(error))
            return self._not_served(str(error))
        if errors.is_unavailable(error):
            return self._not_served(str(error))
        retry_after = error.retry_after if isinstance(error, errors.ApiError) else None
        is_usual = isinstance(error, errors.TransportError)
        return self._failed(retry_after, str(error), is_usual=is_usual)

    def _lasted(self, started: float) -> bool:
        return self._clock.monotonic() - started >= _SHORT_SECONDS

    def _failed(self, retry_after: float | None, why: str, *, is_usual: bool = False) -> float:
        """Seconds to wait after a failure.

        Args:
            retry_after: seconds that the server asks to wait.
            why: reason, for the log.
            is_usual: whether it is what becomes of a connection where nothing happens.
        """
        wait = self._waits.failed(retry_after)
        if not self._stopping.is_set():
            log = self._log.debug if is_usual else self._log.warning
            log("watch failed, trying again", error=why, wait_seconds=round(wait, 3))
        return wait

    def _not_served(self, why: str) -> float:
        """Seconds to wait after a request that got no answer, or one of a server that starts."""
        wait = self._waits.not_served()
        if not self._stopping.is_set():
            self._log.debug("not served, trying again", error=why, wait_seconds=round(wait, 3))
            if self._waits.unserved == _UNSERVED_TOLD:
                self._connectivity.not_served(self.resource.qualified, why)
        return wait

    def _not_there(self, why: str) -> float:
        """Seconds to wait after the server said that it does not know the kind."""
        self._version = ""
        self._trust()
        if self.has_synced:
            self.has_synced = False
            self._log.warning("not served any more, listed again once it is", error=why)
            with self._lock:
                if not self._stopping.is_set():
                    self._listeners.on_unserved()
        return self._waits.not_there()

    # ------------------------------------------------------------------------- earlier states

    def _doubt(self) -> None:
        """The connection broke; the server that answers next may be in an earlier state."""
        self.is_unsure = True

    def _trust(self) -> None:
        """What is known is of the state in which the server is, or is not known to be older."""
        self.is_unsure = False

    def _compare(self) -> None:
        """Asks for the version of a list, and forgets ours if the server went back behind it."""
        page = self._page(1, "")
        if self._is_earlier(page.resource_version):
            self._version = ""
        else:
            self._trust()

    def _is_earlier(self, version: str) -> bool:
        """Return whether a list is older than something that was seen before it was asked for."""
        return version.isdecimal() and int(version) < self.newest

    def _see_version(self, version: str) -> None:
        if version.isdecimal():
            self.newest = max(self.newest, int(version))

    def _revert(self, version: str) -> None:
        """Takes the news that the server is in an earlier state, once for each such state."""
        self._log.warning(
            "the server went back to an earlier state", version=version, known=self.newest
        )
        self.newest = 0
        with self._lock:
            if not self._stopping.is_set():
                self._listeners.on_reverted()

    # --------------------------------------------------------------------------------- listing

    def _list(self) -> None:
        try:
            listed = self._pages(self._followed.page_size if self._paged else 0)
        except errors.GoneError:
            # The list took longer than the server remembers: once without pages.
            self._paged = False
            listed = self._pages(0)
        self._paged = True
        if self._is_earlier(listed.version):
            self._revert(listed.version)
        for undecodable in listed.undecodable:
            self._report(undecodable)
        self._emit(listed)
        self.lists += 1
        self.has_synced = True
        self._version = listed.version
        self._see_version(listed.version)
        self._trust()

    def _pages(self, limit: int) -> Replaced[T]:
        items: list[T] = []
        undecodable: list[Undecodable] = []
        token = ""
        on_page, self._on_page = self._on_page, None
        while True:
            page = self._page(limit, token)
            items.extend(page.items)
            self.listing = len(items)
            undecodable.extend(page.undecodable)
            token = page.continue_
            if not token or self._stopping.is_set():
                return Replaced(tuple(items), tuple(undecodable), page.resource_version)
            if on_page is not None:
                with self._lock:
                    if not self._stopping.is_set():
                        on_page(Arrived(page.items))

    def _page(self, limit: int, token: str) -> Page[T]:
        page = self._api.list(
            self.resource,
            self._followed.namespace,
            label_selector=self._followed.label_selector,
            field_selector=self._followed.field_selector,
            limit=limit,
            continue_=token,
            into=self._followed.into,
        )
        self._active()
        return page

    # -------------------------------------------------------------------------------- watching

    def _watch(self) -> bool:
        """Follows one watch to its end; whether it brought anything."""
        if self._stopping.is_set():
            return True
        started, seconds = (
            self._clock.monotonic(),
            self._rng.uniform(*self._followed.watch_seconds),
        )
        stream = self._api.watch(
            self.resource,
            self._followed.namespace,
            resource_version=self._version,
            timeout_seconds=seconds,
            label_selector=self._followed.label_selector,
            field_selector=self._followed.field_selector,
            into=self._followed.into,
        )
        self._active()
        with self._lock:
            self._stream = stream
        try:
            brought = self._follow(stream)
        finally:
            with self._lock:
                self._stream = None
            stream.close()
        if self._clock.monotonic() < started + seconds - _SHORT_SECONDS:
            self._doubt()  # a server that stops ends all watches
        return brought

    def _follow(self, stream: WatchStream[T]) -> bool:
        brought = False
        if self._stopping.is_set():
            return True
        for event in stream:
            self._active()
            brought = True
            self._take(event)
        self._active()
        return brought

    def _take(self, event: WatchEvent[T]) -> None:
        if event.undecodable is not None:
            self._report(event.undecodable)
        elif event.object is not None and event.type is EventType.DELETED:
            self._emit(Deleted(event.object))
        elif event.object is not None:
            self._emit(Upserted(event.object))
        if event.resource_version:
            self._version = event.resource_version
            self._see_version(event.resource_version)

    def _report(self, undecodable: Undecodable) -> None:
        self._log.error(
            "object left out: it cannot be decoded",
            namespace=undecodable.namespace,
            name=undecodable.name,
            error=undecodable.error,
        )
        self._listeners.on_undecodable(undecodable)
        if undecodable.deleted:
            # Whoever knew it must hear that it is gone, which only a list can tell.
            raise errors.make(410, "an object that cannot be decoded was deleted")

    def _emit(self, change: Replaced[T] | Upserted[T] | Deleted[T]) -> None:
        with self._lock:
            if not self._stopping.is_set():
                self._listeners.sink(change)

    def _active(self) -> None:
        """The server has answered."""
        self._last_activity = self._clock.monotonic()
        self._is_answered = True
        self._waits.answered()
        self._connectivity.answered()
        self._connectivity.served(self.resource.qualified)
