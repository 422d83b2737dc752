"""What the status of a ClusterQueue says of surge quota that is in use."""

from datetime import datetime

from admission.base import conditions, quantity
from admission.base.names import ClusterQueueName
from admission.objects import condition_list, views
from admission.objects.cluster_queue import ClusterQueue
from admission.reasons import added_conditions
from admission.scheduling.state import SchedulerState


class SurgeCondition:
    """The condition about surge quota."""

    def __init__(self, state: SchedulerState) -> None:
        """Read from the state of quota.

        Args:
            state: queues and quota.
        """
        self._state = state

    def condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return the condition about surge quota of a ClusterQueue that is in use, or None."""
        surge = self._state.surge_amounts(ClusterQueueName(queue.metadata.name))
        if not surge:
            return None
        amounts = [
            (fr.resource, fr.flavor, *(quantity.in_words(fr.resource, value) for value in values))
            for fr, values in surge.items()
        ]
        return condition_list.make(
            conditions.SURGE_QUOTA_IN_USE,
            added_conditions.surge_quota_in_use(amounts),
            status=True,
            now=now,
            generation=queue.metadata.generation,
        )
