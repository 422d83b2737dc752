"""Pods and a small cluster to review them in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jsonpatch

from admission.api import views
from admission.api.namespacequotas import NamespaceQuota
from admission.base.namespaces import ManagedNamespaces
from admission.gpu import catalogue, resources
from admission.objects import reviewed_pod
from admission.objects.reviewed_pod import Pod
from admission.policy import offering, pods
from admission.policy.knowledge import Context, QueueFacts, Rules
from admission.policy.pods import Outcome
from admission.policy.reach import Reach

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
    local_queues: Mapping[tuple[str, str], views.LocalQueue] = field(default_factory=dict)
    cluster_queues: Mapping[str, views.ClusterQueue] = field(default_factory=dict)
    cohorts: Mapping[str, views.Cohort] = field(default_factory=dict)
    flavors: Mapping[str, views.ResourceFlavor] = field(default_factory=dict)
    priority_classes: frozenset[str] = frozenset()
    limits: tuple[views.LimitRange, ...] = ()
    quotas: tuple[NamespaceQuota, ...] = ()

    def namespace(self, name: str) -> views.Namespace | None:
        return self.namespaces.get(name)

    def local_queue(self, namespace: str, name: str) -> views.LocalQueue | None:
        return self.local_queues.get((namespace, name))

    def local_queue_names(self, namespace: str) -> tuple[str, ...]:
        return tuple(sorted(name for space, name in self.local_queues if space == namespace))

    def cluster_queue(self, name: str) -> views.ClusterQueue | None:
        return self.cluster_queues.get(name)

    def queue_facts(self, queue: views.ClusterQueue) -> QueueFacts:
        return offering.describe(queue, self)

    def most(self, queue: str, flavor: str, resource: str) -> int | None:
        found = Reach()
        for one in self.cluster_queues.values():
            found.set_queue(one)
        for cohort in self.cohorts.values():
            found.set_cohort(cohort)
        return found.most(queue, flavor, resource)

    def resource_flavor(self, name: str) -> views.ResourceFlavor | None:
        return self.flavors.get(name)

    def workload_priority_class(self, name: str) -> views.WorkloadPriorityClass | None:
        if name not in self.priority_classes:
            return None
        return views.WorkloadPriorityClass(metadata=views.ObjectMeta(name=name))

    def limit_ranges(self, namespace: str) -> tuple[views.LimitRange, ...]:
        return tuple(item for item in self.limits if item.metadata.namespace == namespace)

    def resource_quotas(self, namespace: str) -> tuple[NamespaceQuota, ...]:
        return tuple(item for item in self.quotas if item.metadata.namespace == namespace)


def make_namespace(name: str = "team-a", created: str = OLD, **labels: str) -> views.Namespace:
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    metadata = views.ObjectMeta(name=name, creation_timestamp=created, labels=named)
    return views.Namespace(metadata=metadata)


def make_local_queue(
    name: str = "default",
    cluster_queue: str = "gpus",
    namespace: str = "team-a",
    stop: str = "None",
) -> views.LocalQueue:
    return views.LocalQueue(
        metadata=views.ObjectMeta(name=name, namespace=namespace),
        spec=views.LocalQueueSpec(cluster_queue=cluster_queue, stop_policy=stop),
    )


def make_cluster(*queues: str, enforce: bool = False, created: str = OLD, **more: Any) -> Cluster:
    """A cluster with namespace team-a and LocalQueues of these names in it."""
    labels = {"gpu-admission.dev/enforce": "true"} if enforce else {}
    metadata = views.ObjectMeta(name="team-a", creation_timestamp=created, labels=labels)
    local_queues = {("team-a", name): make_local_queue(name) for name in queues}
    return Cluster(
        namespaces={"team-a": views.Namespace(metadata=metadata)},
        local_queues=local_queues,
        **more,
    )


def make_flavor(
    name: str, product: str = "", labels: Mapping[str, str] | None = None, **annotations: str
) -> views.ResourceFlavor:
    """A flavor; keywords are annotations of ours (``mig_profile``)."""
    own = {f"gpu-admission.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    if product:
        own["gpu-admission.dev/product"] = product
    spec = views.ResourceFlavorSpec(node_labels=dict(labels or {}))
    return views.ResourceFlavor(metadata=views.ObjectMeta(name=name, annotations=own), spec=spec)


def make_cluster_queue(
    quotas: Mapping[str, Mapping[str, str]], name: str = "gpus", cohort: str = "", **spec: Any
) -> views.ClusterQueue:
    """A queue with one group: quota by flavor and resource; ``8+2`` = nominal and borrowing."""
    flavors = tuple(
        views.FlavorQuotas(
            name=flavor, resources=tuple(_quota(item) for item in resources_.items())
        )
        for flavor, resources_ in quotas.items()
    )
    covered = tuple(next(iter(quotas.values()), ()))
    group = views.ResourceGroup(covered_resources=covered, flavors=flavors)
    status = spec.pop("status", views.QueueStatus())
    spec.setdefault("namespace_selector", views.LabelSelector())
    return views.ClusterQueue(
        metadata=views.ObjectMeta(name=name),
        spec=views.ClusterQueueSpec(resource_groups=(group,), cohort_name=cohort, **spec),
        status=status,
    )


def _quota(item: tuple[str, str]) -> views.ResourceQuota:
    name, text = item
    nominal, plus, borrowing = text.partition("+")
    return views.ResourceQuota(
        name=name, nominal_quota=nominal, borrowing_limit=borrowing if plus else None
    )


def read(document: Mapping[str, Any]) -> Pod:
    return reviewed_pod.from_dict(document)


def mutate(
    document: Mapping[str, Any],
    cluster: Cluster,
    *,
    namespace: str = "team-a",
    rules: Rules = RULES,
) -> Outcome:
    context = Context(namespace=namespace, now_us=NOW_US)
    return pods.mutate(read(document), context, rules, cluster)


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
    outcome = pods.validate(before, read(document), context, RULES, cluster)
    return [error.text() for error in outcome.errors]


def apply(outcome: Outcome, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the outcome's operations applied by a JSON Patch library."""
    result: dict[str, Any] = jsonpatch.apply_patch(dict(document), list(outcome.operations))
    return result
