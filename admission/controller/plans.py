"""What is to be done about one Workload, as a value, and what notes it while it is derived."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from admission.base.events import Event
from admission.controller.awaited import IN_NAMESPACE, Awaited
from admission.controller.writing.api_requests import ApiRequest


class Note(NamedTuple):
    """What is to be remembered when a plan is carried out.

    Attributes:
        remember: takes it.
        arguments: what it is called with.
    """

    remember: Callable[..., object]
    arguments: tuple[object, ...]


class RecordedEvent(NamedTuple):
    """An event that a plan records.

    Attributes:
        regarding: reference to the object that it is about.
        event: its reason and text.
    """

    regarding: Mapping[str, Any]
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePlan:
    """What is to be done about a Workload now.

    Attributes:
        request: the next request, or None if nothing is to be written.
        events: what is recorded as the request is sent.
        again: when to reconcile the Workload again even if nothing changes, or None.
        waits_for: objects without which nothing can be done; it is reconciled when one changes.
        notes: what else is remembered.
        decisions: what has to be decided before there is a plan; the rest does not hold then.
    """

    request: ApiRequest | None = None
    events: tuple[RecordedEvent, ...] = ()
    again: datetime | None = None
    waits_for: frozenset[Awaited] = frozenset()
    notes: tuple[Note, ...] = ()
    decisions: tuple[Note, ...] = ()


class PlanDraft:
    """Takes what is found out while a plan is derived, and changes nothing of it.

    Whoever derives a part of a plan writes here what is to happen besides the request. The
    reconciler makes the plan of it.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._again: datetime | None = None
        self._waits_for: set[Awaited] = set()
        self._events: list[RecordedEvent] = []
        self._notes: list[Note] = []
        self._decisions: list[Note] = []

    def look_again_at(self, moment: datetime | None) -> None:
        """Have the Workload reconciled at a moment, or earlier; None for no moment."""
        if moment is not None and (self._again is None or moment < self._again):
            self._again = moment

    def wait_for(self, *awaited: Awaited) -> None:
        """Have the Workload reconciled when one of these objects or its namespace changes."""
        self._waits_for.update((IN_NAMESPACE, *awaited))

    def record(self, regarding: Mapping[str, Any], event: Event) -> None:
        """Have an event recorded."""
        self._events.append(RecordedEvent(regarding, event))

    def note(self, remember: Callable[..., object], *arguments: object) -> None:
        """Have something remembered; the order of notes is kept."""
        self._notes.append(Note(remember, arguments))

    def decide(self, decision: Callable[..., object], *arguments: object) -> None:
        """Have something decided about quota, and the plan derived again after it."""
        self._decisions.append(Note(decision, arguments))

    def take(self, request: ApiRequest | None = None) -> ReconcilePlan:
        """Return the plan with a request, and begin a new draft."""
        plan = ReconcilePlan(
            request=request,
            events=tuple(self._events),
            again=self._again,
            waits_for=frozenset(self._waits_for),
            notes=tuple(self._notes),
            decisions=tuple(self._decisions),
        )
        self._clear()
        return plan
