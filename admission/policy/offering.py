"""What a ClusterQueue can give at most, and the GPUs its flavors are made of."""

from collections.abc import Iterator
from typing import NamedTuple

from admission.base import amount, quantity, selectors
from admission.base.errors import InvalidValueError
from admission.base.selectors import Predicate
from admission.gpu.capabilities import QueueOffer
from admission.objects import resource_flavor, values
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import FlavorQuotas
from admission.policy.knowledge import Knowledge, QueueFacts


def describe(queue: ClusterQueue, knowledge: Knowledge) -> QueueFacts:
    """Return what follows from a queue and the flavors that exist now."""
    offers, bounds, own, missing = [], {}, {}, []
    for quotas in flavors(queue):
        own[quotas.name] = {
            quota.name: _canonical(quota.name, quota.nominal_quota) for quota in quotas.resources
        }
        bounds[quotas.name] = ceilings(quotas, has_cohort=bool(queue.spec.cohort_name))
        flavor = knowledge.resource_flavor(quotas.name)
        if flavor is None:
            missing.append(quotas.name)
        else:
            covered = (quota.name for quota in quotas.resources)
            offers.append(resource_flavor.capabilities(flavor, covered, bounds[quotas.name]))
    offer = QueueOffer(name=queue.metadata.name, flavors=tuple(offers))
    return QueueFacts(
        offer=offer,
        ceilings=bounds,
        nominal=own,
        missing=tuple(missing),
        serves=_serves(queue),
    )


def flavors(queue: ClusterQueue) -> Iterator[FlavorQuotas]:
    """All flavors of the queue, group by group, in the order in which each group tries them."""
    for group in queue.spec.resource_groups or ():
        yield from group.flavors


class FactsCache:
    """Facts about queues, computed again when the queue or one of its flavors is another object.

    Safe to use from several threads: an entry is replaced as a whole.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def facts(self, queue: ClusterQueue, knowledge: Knowledge) -> QueueFacts:
        """Return what ``describe`` says now."""
        name = queue.metadata.name
        entry = self._entries.get(name)
        if entry is None or not entry.holds(queue, knowledge):
            seen = tuple(knowledge.resource_flavor(quotas.name) for quotas in flavors(queue))
            entry = _Entry(queue, seen, describe(queue, knowledge))
            self._entries[name] = entry
        return entry.facts

    def forget(self, name: str) -> None:
        """Drops what is kept of a queue that is gone."""
        self._entries.pop(name, None)


class _Entry(NamedTuple):
    queue: ClusterQueue
    flavors: tuple[ResourceFlavor | None, ...]
    facts: QueueFacts

    def holds(self, queue: ClusterQueue, knowledge: Knowledge) -> bool:
        """Return whether the entry was made of these very objects."""
        return self.queue is queue and all(
            knowledge.resource_flavor(quotas.name) is flavor
            for quotas, flavor in zip(flavors(queue), self.flavors, strict=True)
        )


def ceilings(quotas: FlavorQuotas, *, has_cohort: bool) -> dict[str, int]:
    """The most that one Workload may ever get in a flavor, by resource; missing = not bounded.

    Without a cohort that is the nominal quota; in a cohort the borrowing limit comes on top, and
    without one only the cohort bounds it, which the webhook does not know.
    """
    bounds = {}
    for quota in quotas.resources:
        nominal = _canonical(quota.name, quota.nominal_quota)
        if not has_cohort:
            bounds[quota.name] = nominal
        elif quota.borrowing_limit is not None:
            bounds[quota.name] = amount.add(nominal, _canonical(quota.name, quota.borrowing_limit))
    return {name: bound for name, bound in bounds.items() if bound != amount.UNLIMITED}


def _serves(queue: ClusterQueue) -> Predicate:
    """A queue without a namespace selector serves no namespace; an unreadable one neither."""
    try:
        selector = values.selector(queue.spec.namespace_selector)
        if selector is not None:
            return selectors.compile_requirements(selector.requirements)
    except InvalidValueError:
        pass  # the API server stores no such operator
    return lambda _labels: False


def _canonical(resource: str, value: str | int) -> int:
    try:
        return quantity.to_canonical(resource, str(value))
    except InvalidValueError:
        return amount.UNLIMITED  # never stored by an API server; then nothing is known of it
