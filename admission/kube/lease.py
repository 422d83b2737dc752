"""Leader election by a Lease: which process may write quota decisions, and until when.

The leader's own deadline is on the monotonic clock, counted from before the write that renewed
the Lease, so it ends before anybody else may take the Lease, also when this process was paused.

Source: the Lease's fields and the taking-over rule are those of client-go's
tools/leaderelection, so that both kinds of candidates respect each other.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from admission.base import clock as clocks
from admission.base import logs, names, patches
from admission.base.clock import Clock
from admission.base.errors import InvalidValueError
from admission.kube import errors, resources
from admission.kube.api import Api

_JITTER: Final = 0.2
_UNANSWERED_SECONDS: Final = 0.5
"""Longest time between attempts, without jitter, while the API server does not answer."""
_SHORTEST_WAIT_SECONDS: Final = 0.01
"""Annotation of a Lease that was released by a leader without an open request: the number of
``leaseTransitions`` that it led under. It says nothing about any later term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of an election, in seconds.

    Attributes:
        lease: how long a Lease holds after its last renewal, by the observer's clock.
        renew: how long the leader counts on it; ends this much after the renewal was begun.
        retry: between attempts to renew or to take the Lease.
    """

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease:
            rule = "must be retry < renew < lease, all above 0"
            raise InvalidValueError(f"{self.retry}, {self.renew}, {self.lease}", rule)


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class Election:
    """A candidate for the Lease; call `run` in a thread, or `attempt` for each step.

    Attributes:
        identity: of this candidate, unique among all.
        begins_at_once: no request of an earlier leader can be under way: there was no Lease when
            this candidate first looked, and it made it; or the leader before released it and said
            that all its requests were answered.
    """

    def __init__(
        self,
        api: Api,
        identity: str,
        clock: Clock,
        *,
        name: str = names.LEASE_NAME,
        namespace: str = names.SYSTEM_NAMESPACE,
        timing: Timing | None = None,
        rng: random.Random | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Prepares a candidate.

        Args:
            api: its requests must end within ``timing.renew`` (`Client`'s ``timeout_seconds``).
            identity: of this candidate, unique among all, as ``host_uuid``.
            clock: wall time for what is written, monotonic time for every deadline.
            name: of the Lease.
            namespace: of the Lease.
            timing: see there.
            rng: spreads attempts.
            pause: waits that many seconds; by default until `stop` or `wake` at the latest.
        """
        self.identity: Final = identity
        self.begins_at_once = False
        self._api = api
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._timing = timing or Timing()
        self._rng = rng or random.Random()  # noqa: S311  # spreads load, keeps no secret
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._pause = pause or self._rest
        self._is_unanswered = False
        self._answered_since = float("-inf")
        self._has_term = self._is_taken = False
        self._leader_until = float("-inf")
        self._seen: _Lease | None = None
        self._seen_at = float("-inf")
        self._log = logs.get("lease").bind(identity=identity)

    def is_leader(self) -> bool:
        """Return whether this candidate leads at this moment."""
        return self._clock.monotonic() < self._leader_until

    def is_leader_until(self) -> float:
        """Return the monotonic time when leadership ends unless renewed; -inf if it never began.

        A write that must not happen after it needs its own time-out inside.
        """
        return self._leader_until

    def text(self) -> str:
        """Return who holds the Lease as last seen, and for how long, for people."""
        place, now = f"{self._namespace}/{self._name}", self._clock.monotonic()
        left = self._leader_until - now
        if left > 0:
            return f"{place}, held by this process ({self.identity}) for {left:.1f} s more"
        if self._seen is None:
            return f"{place}, not read yet"
        holder = self._seen.spec.holder_identity or "nobody"
        seen = max(0.0, now - self._seen_at)
        return f"{place}, held by {holder}, seen to change {seen:.1f} s ago"

    def attempt(self) -> bool:
        """Take or renew the Lease once, if that may be; return whether we lead after it."""
        started = self._clock.monotonic()
        try:
            self._attempt(started)
        except (errors.ConflictError, errors.AlreadyExistsError):
            self._answered()
            self._log.info("another candidate was faster")
        except errors.TransportError as error:
            log = self._log.debug if self._is_unanswered else self._log.warning
            log("lease attempt failed", error=str(error))
            self._is_unanswered = True
        except errors.KubeError as error:
            self._answered()
            self._log.warning("lease attempt failed", error=str(error))
        return self.is_leader()

    def _answered(self) -> None:
        if self._is_unanswered:
            self._is_unanswered = False
            self._answered_since = self._clock.monotonic()

    def run(self, on_started: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Wait for leadership, call ``on_started``, and keep it until `stop` or its loss.

        Returns after a loss (``on_lost`` was called, the caller should end the process) or after
        `stop`; then it is the caller who calls `release`. ``on_started`` must return soon.

        Leadership whose time is over is not lost while nobody answers: no write goes out, and if
        the Lease is still ours afterwards, nobody else has led.
        """
        while not self._stopping.is_set() and not self.attempt():
            self._wait()
        if self._stopping.is_set():
            return
        self._has_term = True
        self._log.info("leading")
        on_started()
        is_held = False
        while not self._stopping.is_set():
            self._wait()
            if self._stopping.is_set():
                return
            leads = self.attempt()
            if not leads and self._is_lost():
                self._log.error("leadership lost")
                on_lost()
                return
            if leads is is_held:
                is_held = not leads
                self._tell_held(is_held)

    def _tell_held(self, is_held: bool) -> None:
        if is_held:
            self._log.warning("nothing is written until the lease is renewed")
        else:
            self._log.info("leading again")

    def _is_lost(self) -> bool:
        """Return whether a leader whose time is over must end."""
        if self._is_taken:
            return True
        grace = self._answered_since + self._timing.renew
        return not self._is_unanswered and self._clock.monotonic() >= grace

    def wake(self) -> None:
        """Have a candidate look at the Lease now, because it has changed; a leader changes it."""
        if not self._has_term:
            self._woken.set()

    def stop(self) -> None:
        """Make `run` return at once."""
        self._stopping.set()
        self._woken.set()

    def release(self, *, is_drained: bool) -> None:
        """Give the Lease back, so that the next leader need not wait for its end.

        Call it when `run` has returned.

        Args:
            is_drained: whether all requests that this leader, or one before it, ever sent are
                answered, so that the next one may begin at once.
        """
        if not self.is_leader() or self._seen is None:
            return
        self._leader_until = float("-inf")
        spec = msgspec.structs.replace(
            self._seen.spec, holder_identity="", lease_duration_seconds=1
        )
        term = str(spec.lease_transitions) if is_drained else None
        try:
            self._write(spec, self._seen.metadata.resource_version, {names.RELEASED_TERM: term})
        except errors.KubeError as error:
            self._log.warning("lease not released", error=str(error))
        else:
            self._log.info("lease released", drained=is_drained)

    # -------------------------------------------------------------------------------- attempts

    def _attempt(self, started: float) -> None:
        try:
            lease = self._api.get(resources.LEASES, self._name, self._namespace, into=_Lease)
        except errors.NotFoundError:
            self._answered()
            self._lead_anew(started)
            return
        self._answered()
        self._observe(lease)
        if not self._may_take(lease.spec):
            self._give_up()
            return
        spec = self._renewed(lease.spec)
        is_new = lease.spec.holder_identity != self.identity
        self._lead(started, self._write(spec, lease.metadata.resource_version))
        if is_new:
            self.begins_at_once = _is_drained(lease)

    def _give_up(self) -> None:
        self._leader_until = float("-inf")
        self._is_taken = self._has_term

    def _lead_anew(self, started: float) -> None:
        """Makes the Lease; one that was deleted still holds for as long as it would have."""
        seen = self._seen
        is_late = self._has_term and not self.is_leader()  # somebody may have led meanwhile
        if seen is not None and (is_late or not self._may_take(seen.spec)):
            self._give_up()
            return
        self._lead(started, self._create())
        self.begins_at_once = seen is None

    def _observe(self, lease: _Lease) -> None:
        """Counts a Lease from when *we* saw it change: the clocks of candidates may differ."""
        if self._seen is None or lease != self._seen:
            self._seen, self._seen_at = lease, self._clock.monotonic()

    def _may_take(self, spec: _Spec) -> bool:
        if spec.holder_identity == self.identity:
            return True
        if self._has_term:
            return False  # another one has led since
        return not spec.holder_identity or self._clock.monotonic() >= self._ends_at(spec)

    def _ends_at(self, spec: _Spec) -> float:
        """Return when a Lease that is not renewed may be taken.

        A leader that could not reach the API server either is given time to renew first.
        """
        duration = max(float(spec.lease_duration_seconds), self._timing.lease)
        return max(self._seen_at + duration, self._answered_since + 2 * self._timing.retry)

    def _renewed(self, spec: _Spec) -> _Spec:
        now = clocks.to_wire_micro(self._clock.now())
        if spec.holder_identity == self.identity:
            return msgspec.structs.replace(spec, renew_time=now)
        return self._fresh(now, spec.lease_transitions + 1)

    def _fresh(self, now: str, transitions: int) -> _Spec:
        return _Spec(
            holder_identity=self.identity,
            lease_duration_seconds=round(self._timing.lease),
            acquire_time=now,
            renew_time=now,
            lease_transitions=transitions,
        )

    def _create(self) -> _Lease:
        spec = self._fresh(clocks.to_wire_micro(self._clock.now()), 0)
        document = {
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": msgspec.to_builtins(spec),
        }
        return self._api.create(resources.LEASES, document, self._namespace, into=_Lease)

    def _write(
        self, spec: _Spec, resource_version: str, annotations: dict[str, str | None] | None = None
    ) -> _Lease:
        changes = {"annotations": annotations} if annotations else {}
        change = patches.merge(
            {
                "metadata": {"resourceVersion": resource_version, **changes},
                "spec": msgspec.to_builtins(spec),
            }
        )
        return self._api.patch(resources.LEASES, self._name, change, self._namespace, into=_Lease)

    def _lead(self, started: float, written: _Lease) -> None:
        """Counts from before the request: the Lease cannot have been renewed later than that."""
        self._seen, self._seen_at = written, self._clock.monotonic()
        self._leader_until = started + self._timing.renew

    def _wait(self) -> None:
        """Waits until the next attempt: also the end of another's Lease is one."""
        rest = self._timing.retry
        may_not_write = self._has_term and not self.is_leader()
        if self._is_unanswered or may_not_write:
            rest = min(rest, _UNANSWERED_SECONDS)
        rest *= 1 + _JITTER * self._rng.random()
        if not self._has_term and self._seen is not None and not self._is_unanswered:
            left = self._ends_at(self._seen.spec) - self._clock.monotonic()
            if left > 0:
                rest = min(rest, max(left, _SHORTEST_WAIT_SECONDS))
        self._pause(rest)

    def _rest(self, seconds: float) -> None:
        self._woken.wait(seconds)
        if not self._stopping.is_set():
            self._woken.clear()


def _is_drained(lease: _Lease) -> bool:
    """Return whether the last leader released the Lease after all its requests were answered."""
    term = (lease.metadata.annotations or {}).get(names.RELEASED_TERM)
    return not lease.spec.holder_identity and term == str(lease.spec.lease_transitions)
