"""All watches of the controller: starts, lists again, stops and checks their health.

A watch that does not end is the failure that nobody sees: the core goes on with what it knew.
Two times tell it apart from an API server that is away, where a restart would not help.

An API server that went back to an earlier state ends the use of all of it: versions mean something
else then, and nothing that was seen may be compared with what is listed (ADR 0089).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from admission.base import logs, metrics
from admission.base.clock import Clock
from admission.base.periodic_thread import PeriodicThread
from admission.controller import core, watched
from admission.controller.core import Message
from admission.controller.quarantine import Unreadable
from admission.kube import errors, resources
from admission.kube.api import Api, Undecodable
from admission.kube.connectivity import Connectivity
from admission.kube.reflector import Reflector, Replaced
from admission.kube.resources import Resource
from admission.owners import integrations
from admission.owners.integrations import Kinds

_ASK_AGAIN_SECONDS: Final = 60.0
_TRY_AGAIN_SECONDS: Final = 2.0
_FORBIDDEN_SECONDS: Final = 10.0
"""For how long an API server that knows the rights of an account forbids what it forbids."""


class OptionalWatch:
    """Starts a reflector once its kind is served; asks quietly until then.

    Attributes:
        reflector: follows the kind once it is served.
        is_absent: the server said that the kind is not to be had, and has not said otherwise.
    """

    def __init__(
        self,
        api: Api,
        reflectors: Sequence[Reflector[Any]],
        absent: Callable[[], None],
        clock: Clock,
        has_rights: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepares it; `start` starts it.

        Args:
            api: the API server that may serve the kind.
            reflectors: follow it, each in one version; the first that is served is started.
            absent: told once when the kind is not served, or may not be read.
            clock: measures for how long it may not be read.
            has_rights: whether the API server lets this account read what it has to. An API
                server that has just been started forbids everything until it has read the roles.
        """
        self._api = api
        self._versions = tuple(reflectors)
        self.reflector = self._versions[0]
        self.is_absent = False
        self._absent = absent
        self._clock = clock
        self._has_rights = has_rights
        self._forbidden_since: float | None = None
        name = f"optional-{self.reflector.resource.plural}"
        self._rounds = PeriodicThread(name, self._round, self._failed)
        self._log = logs.get("optional").bind(resource=self.reflector.resource.qualified)

    @property
    def is_settled(self) -> bool:
        """Return whether it is known what there is of the kind."""
        return self.is_absent or self.reflector.has_synced

    def start(self) -> None:
        """Ask in a thread of its own, and follow in the same."""
        self._rounds.start()

    def stop(self) -> None:
        """Stop at once."""
        self._rounds.stop()
        for version in self._versions:
            version.stop()

    def ask(self) -> float | None:
        """Ask whether the kind can be listed; return seconds to the next try, None if it can."""
        refusals = []
        is_forbidden = False
        for version in self._versions:
            try:
                self._api.list(version.resource, limit=1)
            except (errors.NotFoundError, errors.ForbiddenError) as error:
                refusals.append(str(error))
                is_forbidden = is_forbidden or isinstance(error, errors.ForbiddenError)
            except errors.KubeError:
                return _TRY_AGAIN_SECONDS
            else:
                self.reflector = version
                self._forbidden_since = None
                return None
        if is_forbidden and not self.is_absent and not self._is_forbidden_for_long():
            return _TRY_AGAIN_SECONDS
        self._forbidden_since = None
        if not self.is_absent:
            self._log.info("kind not watched", error="; ".join(refusals))
            self._absent()
        self.is_absent = True
        return _ASK_AGAIN_SECONDS

    def _is_forbidden_for_long(self) -> bool:
        """Return whether it is forbidden for long since the account has its rights."""
        now = self._clock.monotonic()
        if self._forbidden_since is None or not self._has_rights():
            self._forbidden_since = now
        return now - self._forbidden_since >= _FORBIDDEN_SECONDS

    def _round(self) -> float | None:
        pause = self.ask()
        if pause is None:
            self.is_absent = False
            self.reflector.run()
        return pause

    def _failed(self, error: Exception) -> float:
        self._log.error("asking for the kind failed", exc_info=error)
        return _ASK_AGAIN_SECONDS


WATCH_SECONDS: Final = (60.0, 120.0)
"""Life of one watch: a server that falls silent without closing is noticed after that."""
SILENT_SECONDS: Final = 300.0
"""Longer than two watches and their retries take together."""


class ReflectorSet:
    """The reflectors of all kinds that the core follows."""

    def __init__(
        self,
        api: Api,
        put: Callable[[Message], None],
        clock: Clock,
        reverted: Callable[[], None] = lambda: None,
        kinds: Kinds = integrations.DEFAULT,
    ) -> None:
        """Prepares the watches.

        Args:
            api: where the objects are.
            put: takes what is seen, from any thread.
            clock: measures silence.
            reverted: told, from any thread, that the API server is in an earlier state than what
                was seen; once, and before anything of that state is put.
            kinds: of owners that are served.
        """
        self._api = api
        self._put = put
        self._clock = clock
        self._reverted = reverted
        self._is_reverted = False
        self._connectivity = Connectivity(clock)
        self._lock = threading.Lock()
        self._is_stopped = False
        self._needed: list[Reflector[Any]] = []
        self._selectors = watched.selectors(kinds)
        self._fields = watched.field_selectors()
        self._rows = watched.rows(kinds)
        self._owners: list[OptionalWatch] = []
        self._others = [self._optional_watch(*arguments) for arguments in watched.OPTIONAL.items()]

    def start(self) -> None:
        """List and watch everything."""
        self._follow()
        for watch in self._others:
            watch.start()

    def restart(self, first: Message) -> None:
        """List all kinds again that a leader may have written.

        Args:
            first: told before anything of the new lists, and after all that was seen earlier.
        """
        with self._lock:
            if self._is_stopped:
                return
            for reflector in self._needed:
                reflector.stop()
            for watch in self._owners:
                watch.stop()
            self._put(first)
            self._follow()

    def stop(self) -> None:
        """End all watches; nothing is put afterwards, from another thread."""
        with self._lock:
            self._is_stopped = True
            for reflector in self._needed:
                reflector.stop()
            for watch in self._optional:
                watch.stop()

    def is_certain(self) -> bool:
        """Return whether nothing that was seen may be of a state that the API server has left.

        It may be after a connection broke, until a list tells.
        """
        return not (self._is_reverted or any(reflector.is_unsure for reflector in self._needed))

    def unready(self) -> str:
        """Return what is not known, or not known to be up to date; empty when all is well."""
        listed = [(r, r.has_synced) for r in self._needed]
        listed += [(o.reflector, o.is_settled) for o in self._optional]
        waiting = sorted(
            reflector.resource.plural
            + (f" ({reflector.listing:,} so far)" if reflector.listing else "")
            for reflector, is_known in listed
            if not is_known
        )
        if self._is_reverted:
            return "the API server went back to an earlier state: all is listed anew"
        if waiting:
            return f"not listed yet: {', '.join(waiting)}"
        due = self._clock.monotonic() - SILENT_SECONDS
        silent = [r.resource for r in self._needed if r.last_activity < due]
        return f"not heard of for long: {_named(silent)}" if silent else ""

    def ages(self) -> Iterator[str]:
        """Yield for each kind whether it was listed, and when the server was last heard of."""
        now = self._clock.monotonic()
        optional = [(reflector.reflector, reflector.is_absent) for reflector in self._optional]
        followed = [*((reflector, False) for reflector in self._needed), *optional]
        for reflector, is_absent in sorted(followed, key=lambda pair: pair[0].resource.qualified):
            age = f"heard of {max(0.0, now - reflector.last_activity):.1f} s ago"
            state = f"listed, {age}" if reflector.has_synced else f"not listed yet, {age}"
            shown = "not served, or not to be read" if is_absent else state
            yield f"watch {reflector.resource.qualified}: {shown}"

    def stuck(self) -> str:
        """Return which watches hang, so that only a restart helps; empty when none does."""
        due = self._clock.monotonic() - SILENT_SECONDS
        followed = [o.reflector for o in self._optional if o.reflector.has_synced]
        hanging = [r.resource for r in (*self._needed, *followed) if r.last_sign < due]
        return f"watches hang: {_named(hanging)}" if hanging else ""

    def _follow(self) -> None:
        newest = {reflector.resource: reflector.newest for reflector in self._needed}
        self._needed = [
            self._reflector(resource, into, newest=newest.get(resource, 0))
            for resource, into in watched.WATCHED.items()
        ]
        for reflector in self._needed:
            reflector.start()
        newest = {owner.reflector.resource: owner.reflector.newest for owner in self._owners}
        self._owners = [
            self._optional_watch(resource, into, newest=newest.get(resource, 0))
            for resource, into in self._rows.items()
        ]
        for watch in self._owners:
            watch.start()

    @property
    def _optional(self) -> list[OptionalWatch]:
        """What may not be served."""
        return [*self._owners, *self._others]

    def _revert(self) -> None:
        """Takes the news from a reflector, which may hold the lock that `stop` waits for."""
        if not self._is_reverted:
            self._is_reverted = True
            self._reverted()

    def _optional_watch(
        self, resource: Resource, into: type[Any], newest: int = 0
    ) -> OptionalWatch:
        def absent() -> None:
            self._put(core.WatchMessage(resource, Replaced(())))

        versions = resources.versions(resource)
        reflectors = [self._reflector(resource, into, version, newest) for version in versions]
        return OptionalWatch(self._api, reflectors, absent, self._clock, self._has_rights)

    def _has_rights(self) -> bool:
        return all(reflector.has_synced for reflector in self._needed)

    def _reflector(
        self,
        resource: Resource,
        into: type[Any],
        version: Resource | None = None,
        newest: int = 0,
    ) -> Reflector[Any]:
        """Follows a resource, read in another version where one is given."""

        def quarantine(undecodable: Undecodable) -> None:
            metrics.UNDECODABLE_OBJECTS.labels(resource.kind).inc()
            if resource is resources.WORKLOADS:
                self._put(Unreadable(undecodable))

        def unserved() -> None:
            self._put(core.Unserved(resource))

        return Reflector(
            self._api,
            version or resource,
            into,
            lambda change: self._put(core.WatchMessage(resource, change)),
            clock=self._clock,
            label_selector=self._selectors.get(resource, ""),
            field_selector=self._fields.get(resource, ""),
            watch_seconds=WATCH_SECONDS,
            on_undecodable=quarantine,
            on_reverted=self._revert,
            on_unserved=unserved,
            on_page=lambda page: self._put(core.WatchMessage(resource, page)),
            newest=newest,
            connectivity=self._connectivity,
        )


def _named(resource_list: list[Resource]) -> str:
    return ", ".join(sorted(resource.plural for resource in resource_list))
