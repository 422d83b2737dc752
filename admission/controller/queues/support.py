"""The condition of a ClusterQueue about what it says that has no effect or cannot be read."""

from collections.abc import Iterator
from datetime import datetime
from itertools import combinations, islice, product
from typing import Final

from admission.base import conditions
from admission.controller.queues.configuration import WatchedConfiguration
from admission.objects import caps, condition_list, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.reasons import added_conditions

_MOST_FLAVORS: Final = 5


class Support:
    """The fields that Kueue serves and this program does not (ADR 0091)."""

    def __init__(self, configuration: WatchedConfiguration) -> None:
        self._configuration = configuration

    def condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return ``SpecSupported=False`` with the fields; None where all of them have an effect.

        A cap that cannot be read comes first, as nothing is admitted until it is mended.
        """
        problem, texts = caps.problem(queue.metadata), list(self._without_effect(queue))
        if not problem and not texts:
            return None
        return condition_list.make(
            conditions.SPEC_SUPPORTED,
            added_conditions.cap_unreadable(problem)
            if problem
            else added_conditions.fields_without_effect(texts),
            status=False,
            now=now,
            generation=queue.metadata.generation,
        )

    def flavors_condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return ``FlavorsConsistent=False`` if no node serves two resource groups together.

        None where each pair of groups has two flavors that may be given together.
        """
        flavors_apart = list(islice(self._apart(queue), _MOST_FLAVORS))
        if not flavors_apart:
            return None
        return condition_list.make(
            conditions.FLAVORS_CONSISTENT,
            added_conditions.flavors_without_nodes(flavors_apart),
            status=False,
            now=now,
            generation=queue.metadata.generation,
        )

    def _apart(self, queue: ClusterQueue) -> Iterator[str]:
        """Yield two flavors of each pair of resource groups all of whose flavors contradict."""
        flavors = self._configuration.flavors
        groups = [
            [flavors[quotas.name] for quotas in group.flavors if quotas.name in flavors]
            for group in queue.spec.resource_groups or ()
        ]
        for group, other in combinations(groups, 2):
            contradictions = [_contradiction(*pair) for pair in product(group, other)]
            if contradictions and all(contradictions):
                yield contradictions[0]

    def _without_effect(self, queue: ClusterQueue) -> Iterator[str]:
        if queue.spec.concurrent_admission_policy is not None:
            yield added_conditions.CONCURRENT_ADMISSION


def _contradiction(first: ResourceFlavor, other: ResourceFlavor) -> str:
    """Return the first label that two flavors give different values, for people; or empty."""
    first_labels, other_labels = first.spec.node_labels or {}, other.spec.node_labels or {}
    for key, value in sorted(other_labels.items()):
        if first_labels.get(key, value) != value:
            names = first.metadata.name, other.metadata.name
            return f"{names[0]} and {names[1]} (label {key}: {first_labels[key]} and {value})"
    return ""
