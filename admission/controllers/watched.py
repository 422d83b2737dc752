"""Which kinds the controller follows, and as what."""

from collections.abc import Mapping
from typing import Final

from admission.controllers.devices import claims
from admission.controllers.owners import child_jobs, running_pods
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import batch, koordinator, resource_slice, views
from admission.objects.admission_check import AdmissionCheck
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.topology import Topology
from admission.objects.workload import Workload
from admission.owners.framework import Kind
from admission.owners.integrations import INTEGRATIONS


def _resource(kind: Kind) -> Resource:
    found = resources.of_kind(kind.api_version, kind.name)
    if found is None:
        raise LookupError(f"{kind.api_version} {kind.name} is not in kube.resources")
    return found


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
    resources.CHILD_JOBS: batch.JobDocument,
    resources.RELEASED_PODS: views.Pod,
    **{_resource(one.kind): one.document for one in INTEGRATIONS},
}
"""What the core must be told about, and as what."""

OPTIONAL: Final[Mapping[Resource, type[views.Object]]] = {
    resources.DEVICES: koordinator.Device,
    resources.RUNTIME_CLASSES: views.RuntimeClass,
    **claims.WATCHED,
    resources.RESOURCE_SLICES: resource_slice.ResourceSlice,
}
"""What it wants to be told about where that is served."""

AWAITED: Final = (*WATCHED, resources.RUNTIME_CLASSES, *claims.WATCHED)
"""What must be listed, or said not to be served, before anything is decided."""

SELECTORS: Final[Mapping[Resource, str]] = {
    resources.CHILD_JOBS: child_jobs.SELECTOR,
    resources.RELEASED_PODS: running_pods.SELECTOR,
    **{_resource(one.kind): one.kind.selector for one in INTEGRATIONS},
}
"""Label selectors of what is not watched whole."""
