"""Pods and a small cluster to review them in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jsonpatch

from admission.base.namespaces import ManagedNamespaces
from admission.gpu import catalogue, resources
from admission.objects import reviewed_pod, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_quota import NamespaceQuota
from admission.objects.reviewed_pod import ReviewedPod
from admission.owners.review import HeldKind, Mark
from admission.webhook import lister, pod_review
from admission.webhook.lister import Reach
from admission.webhook.pod_review import ReviewOutcome
from admission.webhook.review_context import Context, QueueFacts, Rules
from tests.builders.cluster import namespace_view
from tests.builders.queues import local_queue_view

NOW_US = 1_790_000_000_000_000
OLD = "2026-01-01T00:00:00Z"

RULES = Rules(
    managed=resources.managed(),
    namespaces=ManagedNamespaces(),
    toleration_key="nvidia.com/gpu",
    catalogue=catalogue.load(),
)

QUEUE_REQUIRED = replace(RULES, namespaces=ManagedNamespaces(queue_required=True))
"""What asks for GPUs is held until it has a queue."""


@dataclass(kw_only=True)
class Cluster:
    """Knowledge that a test states; empty unless said."""

    synced: bool = True
    namespaces: Mapping[str, views.Namespace] = field(default_factory=dict)
    local_queues: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    priority_classes: frozenset[str] = frozenset()
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Of these classes; 0 for those that are not among them."""
    limits: tuple[views.LimitRange, ...] = ()
    quotas: tuple[NamespaceQuota, ...] = ()
    owners: Mapping[str, frozenset[Mark]] = field(default_factory=dict)
    """What of owners was admitted, by UID."""

    def namespace(self, name: str) -> views.Namespace | None:
        return self.namespaces.get(name)

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        return self.local_queues.get((namespace, name))

    def local_queue_names(self, namespace: str) -> tuple[str, ...]:
        return tuple(sorted(name for space, name in self.local_queues if space == namespace))

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        return self.cluster_queues.get(name)

    def all_cluster_queues(self) -> tuple[ClusterQueue, ...]:
        return tuple(self.cluster_queues[name] for name in sorted(self.cluster_queues))

    def all_cohorts(self) -> tuple[Cohort, ...]:
        return tuple(self.cohorts[name] for name in sorted(self.cohorts))

    def resource_flavor_names(self) -> tuple[str, ...]:
        return tuple(sorted(self.flavors))

    def queue_facts(self, queue: ClusterQueue) -> QueueFacts:
        return lister.describe(queue, self)

    def most(self, queue: str, flavor: str, resource: str) -> int | None:
        return self._reach().most(queue, flavor, resource)

    def free(self, queue: str, flavor: str, resource: str) -> int | None:
        return self._reach().free(queue, flavor, resource)

    def reclaimed(self, queue: str, flavor: str, resource: str) -> int | None:
        return self._reach().reclaimed(queue, flavor, resource)

    def unused(self, queue: str, flavor: str, resource: str) -> int | None:
        return self._reach().unused(queue, flavor, resource)

    def _reach(self) -> Reach:
        found = Reach()
        for one in self.cluster_queues.values():
            found.set_queue(one)
        for cohort in self.cohorts.values():
            found.set_cohort(cohort)
        return found

    def resource_flavor(self, name: str) -> ResourceFlavor | None:
        return self.flavors.get(name)

    def workload_priority_class(self, name: str) -> WorkloadPriorityClass | None:
        if name not in self.priority_classes:
            return None
        value = self.priorities.get(name, 0)
        return WorkloadPriorityClass(metadata=views.ObjectMeta(name=name), value=value)

    def workload_priority_class_names(self) -> tuple[str, ...]:
        return tuple(sorted(self.priority_classes))

    def admissions(
        self,
        held: HeldKind,
        namespace: str,
        owner: views.OwnerReference,
        marks: frozenset[Mark],
    ) -> frozenset[Mark] | None:
        return self.owners.get(owner.uid)

    def limit_ranges(self, namespace: str) -> tuple[views.LimitRange, ...]:
        return tuple(item for item in self.limits if item.metadata.namespace == namespace)

    def resource_quotas(self, namespace: str) -> tuple[NamespaceQuota, ...]:
        return tuple(item for item in self.quotas if item.metadata.namespace == namespace)


def make_cluster(*queues: str, enforce: bool = False, created: str = OLD, **more: Any) -> Cluster:
    """A cluster with namespace team-a and LocalQueues of these names in it."""
    labels = {"gpu-admission.dev/enforce": "true"} if enforce else {}
    return Cluster(
        namespaces={"team-a": namespace_view(labels=labels, created=created)},
        local_queues={("team-a", name): local_queue_view(name) for name in queues},
        **more,
    )


def read(document: Mapping[str, Any]) -> ReviewedPod:
    return reviewed_pod.from_dict(document)


def mutate(
    document: Mapping[str, Any],
    cluster: Cluster,
    *,
    namespace: str = "team-a",
    rules: Rules = RULES,
) -> ReviewOutcome:
    context = Context(namespace=namespace, now_us=NOW_US)
    return pod_review.mutate(read(document), context, rules, cluster)


def validate(
    document: Mapping[str, Any],
    cluster: Cluster,
    *,
    old: Mapping[str, Any] | None = None,
    namespace: str = "team-a",
) -> list[str]:
    """Texts of the errors that a validating review finds."""
    context = Context(namespace=namespace, now_us=NOW_US)
    before = None if old is None else read(old)
    outcome = pod_review.validate(before, read(document), context, RULES, cluster)
    return [error.text() for error in outcome.errors]


def apply(outcome: ReviewOutcome, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the outcome's operations applied by a JSON Patch library."""
    result: dict[str, Any] = jsonpatch.apply_patch(dict(document), list(outcome.operations))
    return result
