"""When this process may decide and write: by a Lease among several, or at once when alone."""

import os
import socket
import threading
import uuid
from collections.abc import Callable
from typing import Protocol

from admission.base import logs, names
from admission.base.clock import Clock
from admission.config.derived import Settings
from admission.kube import resources
from admission.kube.api import Api
from admission.kube.lease import Election, Timing
from admission.kube.reflector import Reflector
from admission.objects import views


class Leadership(Protocol):
    """Leadership of this process: when it begins, whether a write may be sent, when it ends."""

    @property
    def at_once(self) -> bool:
        """Return whether it leads from the start, and ``start`` is not to be called."""
        ...

    def start(self, begin: Callable[[], None]) -> None:
        """Call ``begin`` once, from another thread, when this process leads."""
        ...

    def may_write(self) -> bool:
        """Return whether a request sent now would end while this process leads."""
        ...

    @property
    def lost(self) -> bool:
        """Return whether it led and does no more; the process must end."""
        ...

    def lease(self) -> str:
        """Return what the Lease says, for people."""
        ...

    def stop(self, *, is_drained: bool) -> None:
        """Give leadership back; nothing may be written any more.

        Args:
            is_drained: whether every request that was sent is answered.
        """
        ...


class Alone:
    """No election: leads from the start."""

    at_once = True
    lost = False

    def start(self, begin: Callable[[], None]) -> None:
        """Do nothing: there is nothing to wait for."""

    def may_write(self) -> bool:
        """Return true, always."""
        return True

    def lease(self) -> str:
        """Return that there is none."""
        return "none: this process leads without election"

    def stop(self, *, is_drained: bool) -> None:
        """Do nothing: there is nothing to give back."""


class Elected:
    """Leads while it holds the Lease.

    Begins only after an earlier leader's last request has ended for certain: that one stopped
    sending a request's time-out before its own deadline, and its server may take that long again.
    Who made the Lease had nobody before it, and begins at once; so does who takes it over from one
    that has released it with all its requests answered (ADR 0054).
    """

    at_once = False

    def __init__(self, api: Api, settings: Settings, clock: Clock) -> None:
        times = settings.kueue.leader_election
        self._clock = clock
        self._timeout = settings.gpu.controller.request_timeout.total_seconds()
        self._stopping = threading.Event()
        self.lost = False
        self._election = Election(
            api,
            f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}",
            clock,
            namespace=settings.namespace,
            timing=Timing(
                lease=times.lease_duration.total_seconds(),
                renew=times.renew_deadline.total_seconds(),
                retry=times.retry_period.total_seconds(),
            ),
        )
        self._has_begun = False
        self._thread: threading.Thread | None = None
        self._lease = Reflector(
            api,
            resources.LEASES,
            views.Object,
            lambda _: self._election.wake(),
            clock=clock,
            namespace=settings.namespace,
            field_selector=f"metadata.name={names.LEASE_NAME}",
        )
        self._log = logs.get("leading")

    def start(self, begin: Callable[[], None]) -> None:
        """Run for the Lease in a thread of its own."""

        def started() -> None:
            threading.Thread(
                target=self._or_lose, args=(lambda: self._begin(begin),), daemon=True
            ).start()

        def run() -> None:
            self._lease.start()
            self._election.run(started, self._lose)

        self._thread = threading.Thread(
            target=self._or_lose, args=(run,), name="lease", daemon=True
        )
        self._thread.start()

    def may_write(self) -> bool:
        """Return whether the Lease outlasts a request that is sent now."""
        return self._clock.monotonic() + self._timeout < self._election.is_leader_until()

    def lease(self) -> str:
        """Return who holds the Lease, and for how long this process does."""
        return self._election.text()

    def stop(self, *, is_drained: bool) -> None:
        """Give the Lease back.

        One that has not begun yet may have had a leader before it with a request under way.
        """
        self._stopping.set()
        self._lease.stop()
        self._election.stop()
        if self._thread is not None:
            self._thread.join(self._timeout)
            if not self._thread.is_alive() and not self.lost:
                self._election.release(is_drained=is_drained and self._has_begun)

    def _begin(self, begin: Callable[[], None]) -> None:
        self._lease.stop()
        wait = 0.0 if self._election.begins_at_once else self._timeout
        if not self._stopping.wait(wait):
            self._has_begun = True
            begin()

    def _or_lose(self, do: Callable[[], None]) -> None:
        """A thread that broke would leave a leader that never begins, or never renews."""
        try:
            do()
        except Exception:  # noqa: BLE001 - the process must end, whatever it was
            self._log.exception("leadership broke down")
            self._lose()

    def _lose(self) -> None:
        self.lost = True
