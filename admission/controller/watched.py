"""The kinds that the controller watches, and the type that each is decoded into."""

from collections.abc import Mapping
from typing import Final

from admission.controller.devices import claims
from admission.controller.watched_owners import child_jobs, owner_writes, pod_groups, running_pods
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import batch, bound_pod, gangs, koordinator, resource_slice, views
from admission.objects.admission_check import AdmissionCheck
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.topology import Topology
from admission.objects.workload import Workload
from admission.owners import batch_job, pod, serving_group
from admission.owners.integrations import Kinds
from admission.owners.serving import ServingKind

_ALWAYS: Final = (batch_job.INTEGRATION, pod.INTEGRATION)

WATCHED: Final[Mapping[Resource, type[views.Object]]] = {
    resources.NAMESPACES: views.Namespace,
    resources.RESOURCE_FLAVORS: ResourceFlavor,
    resources.COHORTS: Cohort,
    resources.CLUSTER_QUEUES: ClusterQueue,
    resources.LOCAL_QUEUES: LocalQueue,
    resources.LIMIT_RANGES: views.LimitRange,
    resources.WORKLOAD_PRIORITY_CLASSES: WorkloadPriorityClass,
    resources.ADMISSION_CHECKS: AdmissionCheck,
    resources.TOPOLOGIES: Topology,
    resources.WORKLOADS: Workload,
    resources.NODES: views.Node,
    resources.PRIORITY_CLASSES: views.PriorityClass,
    resources.PERSISTENT_VOLUMES: views.PersistentVolume,
    resources.CHILD_JOBS: batch.JobDocument,
    resources.RELEASED_PODS: views.Pod,
    resources.BOUND_PODS: bound_pod.BoundPodDocument,
    **{owner_writes.resource_of(kind.kind): kind.document for kind in _ALWAYS},
}
"""Kinds that the core must follow, and the types that they are decoded into."""

SURROUNDINGS: Final = tuple(
    resource
    for resource in WATCHED
    if resource not in {resources.WORKLOADS, resources.PODS, resources.RELEASED_PODS,
                        resources.BOUND_PODS, resources.JOBS, resources.CHILD_JOBS}
)  # fmt: skip
"""What Workloads and pods are judged by. It is listed before any of them is taken: each change of
it would concern all that were taken already."""

IN_PART: Final = frozenset({resources.BOUND_PODS})
"""Watches that read a few fields of objects which other watches read whole. What they show cannot
stand for the answer to a request."""

OPTIONAL: Final[Mapping[Resource, type[views.Object]]] = {
    resources.DEVICES: koordinator.KoordinatorDevice,
    resources.RUNTIME_CLASSES: views.RuntimeClass,
    **claims.WATCHED,
    resources.RESOURCE_SLICES: resource_slice.ResourceSlice,
    **dict.fromkeys(pod_groups.resources_of_gangs(), gangs.GangPodGroup),
    resources.VOLCANO_QUEUES: gangs.GangPodGroup,
}
"""Kinds that it follows if they are served."""


def rows(kinds: Kinds) -> dict[Resource, type[views.Object]]:
    """Return the kinds of owners that a cluster may not serve; a new leader lists them again.

    Args:
        kinds: all that are served by the installation.
    """
    document_types: dict[Resource, type[views.Object]] = {
        **{
            owner_writes.resource_of(integration.kind): integration.document
            for integration in kinds.integrations
        },
        **{
            owner_writes.resource_of(kind.kind): serving_group.ServingDocument
            for kind in _serving(kinds)
        },
        **{secondary.resource: secondary.document for secondary in kinds.secondaries},
    }
    return {resource: into for resource, into in document_types.items() if resource not in WATCHED}


def awaited(kinds: Kinds) -> tuple[Resource, ...]:
    """Return the kinds that must be listed, or known not to be served, before any decision."""
    return (*WATCHED, *rows(kinds), resources.RUNTIME_CLASSES, *claims.WATCHED)


def selectors(kinds: Kinds) -> dict[Resource, str]:
    """Return the label selectors of what is not watched whole."""
    return {
        resources.CHILD_JOBS: child_jobs.SELECTOR,
        resources.RELEASED_PODS: running_pods.SELECTOR,
        **{secondary.resource: secondary.selector for secondary in kinds.secondaries},
        **{
            owner_writes.resource_of(integration.kind): integration.kind.selector
            for integration in kinds.integrations
        },
        **{owner_writes.resource_of(kind.kind): kind.kind.selector for kind in _serving(kinds)},
    }


def field_selectors() -> dict[Resource, str]:
    """Return the field selectors of what is not watched whole."""
    return {resources.BOUND_PODS: bound_pod.FIELDS}


def _serving(kinds: Kinds) -> list[ServingKind]:
    """Return the kinds of owners that serve of which the controller is to know the objects."""
    return [kind for kind in kinds.serving if kind.is_watched]
