"""The condition of a ClusterQueue about what it says that has no effect or cannot be read."""

from collections.abc import Iterator
from datetime import datetime
from itertools import combinations, islice, product
from typing import Final

from admission.base import conditions
from admission.controller.queues.configuration import Configuration
from admission.objects import caps, condition_list, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.reasons import ours

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
            ours.cap_unreadable(problem) if problem else ours.fields_without_effect(found),
            status=False,
            now=now,
            generation=queue.metadata.generation,
        )

    def flavors_condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return ``FlavorsConsistent=False`` if no node serves two resource groups together.

        None where each pair of groups has two flavors that may be given together.
        """
        found = list(islice(self._apart(queue), _MOST_FLAVORS))
        if not found:
            return None
        return condition_list.make(
            conditions.FLAVORS_CONSISTENT,
            ours.flavors_without_nodes(found),
            status=False,
            now=now,
            generation=queue.metadata.generation,
        )

    def _apart(self, queue: ClusterQueue) -> Iterator[str]:
        """Yield two flavors of each pair of resource groups all of whose flavors contradict."""
        known = self._configuration.flavors
        groups = [
            [known[one.name] for one in group.flavors if one.name in known]
            for group in queue.spec.resource_groups or ()
        ]
        for one, other in combinations(groups, 2):
            found = [_contradiction(*pair) for pair in product(one, other)]
            if found and all(found):
                yield found[0]

    def _without_effect(self, queue: ClusterQueue) -> Iterator[str]:
        if queue.spec.concurrent_admission_policy is not None:
            yield ours.CONCURRENT_ADMISSION


def _contradiction(one: ResourceFlavor, other: ResourceFlavor) -> str:
    """Return the first label that two flavors give different values, for people; or empty."""
    given, wanted = one.spec.node_labels or {}, other.spec.node_labels or {}
    for key, value in sorted(wanted.items()):
        if given.get(key, value) != value:
            names = one.metadata.name, other.metadata.name
            return f"{names[0]} and {names[1]} (label {key}: {given[key]} and {value})"
    return ""
