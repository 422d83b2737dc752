"""What only people read: statuses of queues, conditions of what waits, events of what left."""

from admission.base.events import Events
from admission.controller.pending_conditions import PendingConditionWriter
from admission.controller.queues.queue_status_writer import QueueStatuses
from admission.controller.watched_owners.disruptions import Disruptions
from admission.controller.writing.flow_control import FlowControl


class Reports:
    """Sends statuses and conditions by turns, so that neither waits.

    There is room for few at once, and either may be as many as there is room for.
    """

    def __init__(
        self,
        statuses: QueueStatuses,
        pending_conditions: PendingConditionWriter,
        flow: FlowControl,
        disruptions: Disruptions,
        events: Events,
    ) -> None:
        """Begin with statuses.

        Args:
            statuses: of queues.
            pending_conditions: of Workloads.
            flow: says whether there is room.
            disruptions: of pods that run.
            events: takes events about them.
        """
        self._statuses = statuses
        self._pending_conditions = pending_conditions
        self._flow = flow
        self._conditions_first = False
        self._disruptions = disruptions
        self._events = events

    def send(self) -> None:
        """Send as many as there is room for."""
        self._disruptions.tell(self._events)
        self._statuses.collect()
        if self._conditions_first:
            self._pending_conditions.send()
        if self._flow.may_report():
            self._statuses.send(self._flow.room_at)
        if not self._conditions_first:
            self._pending_conditions.send()
        self._conditions_first = not self._conditions_first

    def send_statuses(self, now: float) -> float | None:
        """Send statuses and nothing else; return in how many seconds to call again, or None."""
        self._statuses.collect()
        self._statuses.send(now)
        due = self._statuses.next_due(now)
        return None if due is None else max(0.0, due - now)

    def next_due_in(self, now: float) -> float | None:
        """Return in how many seconds something can be sent, or None."""
        if not self._flow.may_report():
            return None
        absolute = (
            self._pending_conditions.next_due(),
            self._statuses.next_due(self._flow.room_at),
        )
        moments = [max(0.0, moment - now) for moment in absolute if moment is not None]
        return min(moments, default=None)
