"""Which kinds the controller follows, and as what."""

from collections.abc import Mapping
from typing import Final

from admission.api import devices, koordinator, views
from admission.base import names
from admission.controllers.devices import claims
from admission.controllers.jobs import childjobs, jobs
from admission.kube import resources
from admission.kube.resources import Resource

WATCHED: Final[Mapping[Resource, type[views.Object]]] = {
    resources.NAMESPACES: views.Namespace,
    resources.RESOURCE_FLAVORS: views.ResourceFlavor,
    resources.COHORTS: views.Cohort,
    resources.CLUSTER_QUEUES: views.ClusterQueue,
    resources.LOCAL_QUEUES: views.LocalQueue,
    resources.LIMIT_RANGES: views.LimitRange,
    resources.WORKLOAD_PRIORITY_CLASSES: views.WorkloadPriorityClass,
    resources.ADMISSION_CHECKS: views.AdmissionCheck,
    resources.TOPOLOGIES: views.Topology,
    resources.WORKLOADS: views.Workload,
    resources.PODS: views.PodDocument,
    resources.NODES: views.Node,
    **jobs.WATCHED,
}
"""What the core must be told about, and as what."""

OPTIONAL: Final[Mapping[Resource, type[views.Object]]] = {
    resources.DEVICES: koordinator.Device,
    resources.RUNTIME_CLASSES: views.RuntimeClass,
    **claims.WATCHED,
    resources.RESOURCE_SLICES: devices.ResourceSlice,
}
"""What it wants to be told about where that is served."""

AWAITED: Final = (*WATCHED, resources.RUNTIME_CLASSES, *claims.WATCHED)
"""What must be listed, or said not to be served, before anything is decided."""

SELECTORS: Final[Mapping[Resource, str]] = {
    resources.PODS: f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}",
    resources.JOBS: jobs.SELECTOR,
    resources.CHILD_JOBS: childjobs.SELECTOR,
}
"""Label selectors of what is not watched whole."""
