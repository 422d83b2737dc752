"""Limits how many running pods and Jobs are stopped in a short time.

Whatever makes the controller want to stop much of what runs at once, a mistake of people or of
this program, there is time to look and to prevent it (ADR 0096).
"""

from datetime import datetime
from itertools import islice
from typing import Final

from admission.base import clock as clocks
from admission.base import conditions, logs, metrics, names
from admission.base.clock import Clock
from admission.base.conditions import Text
from admission.base.errors import InvalidValueError
from admission.base.events import Event
from admission.base.names import WorkKey
from admission.controller.plans import PlanDraft
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.objects import condition_list, views
from admission.objects.workload import Workload
from admission.reasons import added_conditions, kueue

_MINUTE_US: Final = 60_000_000


class Brake:
    """Decides which stops may be written now, and which are held back.

    A stop is allowed every ``60 s / per_minute``; what is not used adds up to as many as
    ``per_minute``. Nothing is allowed when this process begins to lead: one that ends again and
    again stops nothing. Those that wait go in the order in which they came.
    """

    def __init__(self, clock: Clock, draft: PlanDraft, per_minute: int, namespace: str) -> None:
        """Allows nothing until `lead`.

        Args:
            clock: source of time.
            draft: of the plan that is being derived.
            per_minute: stops allowed in a minute; 0 for any number.
            namespace: namespace of the installation; its annotation allows stops.
        """
        self._clock = clock
        self._draft = draft
        self._most = per_minute
        self._namespace = namespace
        self._step_us = _MINUTE_US // per_minute if per_minute else 0
        self._empty_us = self._now_us()
        self._allowed_until: datetime | None = None
        self._held: dict[WorkKey, None] = {}
        self._granted: dict[WorkKey, str] = {}
        self._log = logs.get("brake")

    def lead(self) -> None:
        """Start as the leader that has allowed nothing yet."""
        self._empty_us = self._now_us()

    def on_namespace_update(self, view: views.Object) -> None:
        """Take a namespace; that of the installation says until when all stops are allowed."""
        if view.metadata.name != self._namespace:
            return
        text = view.metadata.annotation(names.STOPS_ALLOWED_UNTIL)
        try:
            self._allowed_until = clocks.from_wire(text) if text else None
        except (InvalidValueError, ValueError) as error:
            self._allowed_until = None
            self._log.error("annotation cannot be read", name=view.metadata.name, error=str(error))

    def holds(self, key: WorkKey, owner: views.Object, workload: Workload | None) -> bool:
        """Return whether an owner may not be stopped now; it is looked at again when it may.

        Args:
            key: of its Workload.
            owner: what is to be stopped.
            workload: its Workload; None where there is none.
        """
        if not self._most or not has_worked(owner) or _is_ordered(workload):
            self._draft.note(self._let, key)
            return False
        if self._granted.get(key) == owner.metadata.uid:
            return False
        if self._is_open():
            self._draft.note(self._grant, key, owner.metadata.uid)
            return False
        free = self._free()
        is_last = key not in self._held and len(self._held) < free
        if not is_last and key not in islice(self._held, free):
            self._draft.note(self._hold, key)
            return True
        self._draft.note(self._pay)
        self._draft.note(self._grant, key, owner.metadata.uid)
        return False

    def _hold(self, key: WorkKey) -> None:
        """Take that an owner is held back, behind those that are already."""
        self._held.setdefault(key)
        metrics.STOPS_HELD_BACK.set(len(self._held))

    def _pay(self) -> None:
        """Take that one of the stops is used that are allowed now."""
        full_us = self._now_us() - self._most * self._step_us
        self._empty_us = max(self._empty_us, full_us) + self._step_us

    def _grant(self, key: WorkKey, uid: str) -> None:
        """Take that an owner may be stopped."""
        self._granted[key] = uid
        self._let(key)

    def forget(self, key: WorkKey) -> None:
        """Take that the owner of a key is not to be stopped, or is gone."""
        self._granted.pop(key, None)
        self._let(key)

    def pop_due(self) -> tuple[WorkKey, ...]:
        """Return the owners that were held back and may be stopped now, longest held first."""
        if not self._held:
            return ()
        return tuple(self._held if self._is_open() else islice(self._held, self._free()))

    def next_due_in(self) -> float | None:
        """Return the seconds until one more stop is allowed; None while none is held back."""
        if not self._held:
            return None
        return (self._step_us - (self._now_us() - self._empty_us) % self._step_us) / 1e6

    def text(self, why: Text) -> str:
        """Return the text about an owner whose stop is held back."""
        return added_conditions.stop_held_back(why, self._most).message

    def mark(self, workload: Workload, why: Text, announced: Event) -> ApiRequest | None:
        """Return the write that says on a Workload that its owner is not stopped yet."""
        text = added_conditions.stop_held_back(why, self._most)
        changes = condition_list.said(workload, conditions.STOP_HELD_BACK, text, self._clock.now())
        if changes is None:
            return None
        return api_requests.set_workload_status(
            workload, WritePurpose.KEEP_UP, changes, (announced,)
        )

    def unmark(self, workload: Workload) -> ApiRequest | None:
        """Return the write that takes that back, once nothing is held back any more."""
        changes = condition_list.unsaid(workload, conditions.STOP_HELD_BACK)
        if changes is None:
            return None
        return api_requests.set_workload_status(workload, WritePurpose.KEEP_UP, changes)

    def _let(self, key: WorkKey) -> None:
        if key in self._held:
            del self._held[key]
            metrics.STOPS_HELD_BACK.set(len(self._held))

    def _is_open(self) -> bool:
        """Return whether an administrator lets everything go now."""
        return self._allowed_until is not None and self._clock.now() < self._allowed_until

    def _free(self) -> int:
        """Return how many stops are allowed now."""
        return min(self._most, (self._now_us() - self._empty_us) // self._step_us)

    def _now_us(self) -> int:
        return int(self._clock.monotonic() * 1e6)


def has_worked(owner: views.Object) -> bool:
    """Return whether a stop may lose work: a pod that is not bound has done none."""
    if not isinstance(owner, views.Pod):
        return True
    return bool(owner.spec.node_name) or owner.status.phase == "Running"


def _is_ordered(workload: Workload | None) -> bool:
    """Return whether a stop is what a decision or a person asks for."""
    evicted = None if workload is None else workload.status.condition(conditions.EVICTED)
    if evicted is None or evicted.status != "True":
        return False
    return evicted.reason in kueue.ORDERED_EVICTIONS
