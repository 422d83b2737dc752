"""The condition of a ClusterQueue about what it says that has no effect or cannot be read."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from admission.base import conditions
from admission.controller.queues.configuration import Configuration
from admission.objects import caps, condition_list, views
from admission.objects.cluster_queue import ClusterQueue

_MOST_FLAVORS: Final = 5


class Support:
    """The fields that Kueue serves and this program does not (ADR 0091)."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return ``SpecSupported=False`` with the fields; None where all of them have an effect.

        A cap that cannot be read comes first, as nothing is admitted until it is mended.
        """
        problem, found = caps.problem(queue.metadata), list(self._without_effect(queue))
        if not problem and not found:
            return None
        return condition_list.make(
            conditions.SPEC_SUPPORTED,
            conditions.cap_unreadable(problem)
            if problem
            else conditions.fields_without_effect(found),
            status=False,
            now=now,
            generation=queue.metadata.generation,
        )

    def _without_effect(self, queue: ClusterQueue) -> Iterator[str]:
        if queue.spec.concurrent_admission_policy is not None:
            yield conditions.CONCURRENT_ADMISSION
        flavors = [
            quotas.name
            for group in queue.spec.resource_groups or ()
            for quotas in group.flavors
            if (known := self._configuration.flavors.get(quotas.name)) is not None
            and known.spec.topology_name
        ]
        if flavors:
            more = ["..."] if len(flavors) > _MOST_FLAVORS else []
            yield conditions.topology_without_effect([*flavors[:_MOST_FLAVORS], *more])
