"""The kinds of the group: names, versions, printer columns, subresources.

Source: kueue config/components/crd.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from admission.api.model import Root
from admission.api.v1beta1 import cluster_queue as cluster_queue_v1beta1
from admission.api.v1beta1 import cohort as cohort_v1beta1
from admission.api.v1beta1 import local_queue as local_queue_v1beta1
from admission.api.v1beta1 import others as others_v1beta1
from admission.api.v1beta1 import workload as workload_v1beta1
from admission.api.v1beta2.admission_check import AdmissionCheck
from admission.api.v1beta2.cluster_queue import ClusterQueue
from admission.api.v1beta2.cohort import Cohort
from admission.api.v1beta2.local_queue import LocalQueue
from admission.api.v1beta2.priority_class import WorkloadPriorityClass
from admission.api.v1beta2.resource_flavor import ResourceFlavor
from admission.api.v1beta2.topology import Topology
from admission.api.v1beta2.workload import Workload

STORED: Final = "v1beta2"
DEPRECATED: Final = "v1beta1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of ``kubectl get``; ``priority`` 1 shows it in wide output only."""

    name: str
    path: str
    type: Literal["string", "integer", "date"] = "string"
    priority: int = 0

    def to_wire(self) -> dict[str, Any]:
        """The column as ``additionalPrinterColumns`` lists it."""
        priority = {"priority": self.priority} if self.priority else {}
        return {"jsonPath": self.path, "name": self.name, **priority, "type": self.type}


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One form of a kind.

    Attributes:
        name: ``v1beta2`` is stored; ``v1beta1`` is served with a deprecation warning.
        model: what the objects look like.
        selectable: JSON paths that field selectors may use.
    """

    name: str
    model: type[Root]
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of the group.

    Attributes:
        converted: whether the versions differ in more than limits, so that serving v1beta1
            takes a conversion webhook.
    """

    name: str
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool = False
    has_status: bool = False
    converted: bool = False
    versions: tuple[Version, ...]


def _pending(admitted_priority: int) -> tuple[Column, ...]:
    return (
        Column(name="Pending Workloads", path=".status.pendingWorkloads", type="integer"),
        Column(
            name="Admitted Workloads",
            path=".status.admittedWorkloads",
            type="integer",
            priority=admitted_priority,
        ),
    )


def _cluster_queue_columns(cohort: str) -> tuple[Column, ...]:
    return (
        Column(name="Cohort", path=f".spec.{cohort}"),
        Column(name="Strategy", path=".spec.queueingStrategy", priority=1),
        *_pending(1),
    )


_LOCAL_QUEUE_COLUMNS = (Column(name="ClusterQueue", path=".spec.clusterQueue"), *_pending(0))
_WORKLOAD_COLUMNS = (
    Column(name="Queue", path=".spec.queueName"),
    Column(name="Reserved in", path=".status.admission.clusterQueue"),
    Column(name="Admitted", path=".status.conditions[?(@.type=='Admitted')].status"),
    Column(name="Finished", path=".status.conditions[?(@.type=='Finished')].status"),
    Column(name="Age", path=".metadata.creationTimestamp", type="date"),
)
_PRIORITY_CLASS_COLUMNS = (Column(name="Value", path=".value", type="integer"),)

KINDS: Final = (
    Kind(
        name="AdmissionCheck",
        plural="admissionchecks",
        short_names=("ac",),
        has_status=True,
        versions=(
            Version(name=DEPRECATED, model=others_v1beta1.AdmissionCheck),
            Version(name=STORED, model=AdmissionCheck),
        ),
    ),
    Kind(
        name="ClusterQueue",
        plural="clusterqueues",
        short_names=("cq",),
        has_status=True,
        converted=True,
        versions=(
            Version(
                name=DEPRECATED,
                model=cluster_queue_v1beta1.ClusterQueue,
                columns=_cluster_queue_columns("cohort"),
            ),
            Version(name=STORED, model=ClusterQueue, columns=_cluster_queue_columns("cohortName")),
        ),
    ),
    Kind(
        name="Cohort",
        plural="cohorts",
        short_names=("co",),
        has_status=True,
        converted=True,
        versions=(
            Version(name=DEPRECATED, model=cohort_v1beta1.Cohort),
            Version(name=STORED, model=Cohort),
        ),
    ),
    Kind(
        name="LocalQueue",
        plural="localqueues",
        short_names=("queue", "queues", "lq"),
        namespaced=True,
        has_status=True,
        converted=True,
        versions=(
            Version(
                name=DEPRECATED, model=local_queue_v1beta1.LocalQueue, columns=_LOCAL_QUEUE_COLUMNS
            ),
            Version(name=STORED, model=LocalQueue, columns=_LOCAL_QUEUE_COLUMNS),
        ),
    ),
    Kind(
        name="ResourceFlavor",
        plural="resourceflavors",
        short_names=("flavor", "flavors", "rf"),
        versions=(
            Version(name=DEPRECATED, model=ResourceFlavor),
            Version(name=STORED, model=ResourceFlavor),
        ),
    ),
    Kind(
        name="Topology",
        plural="topologies",
        short_names=("topo",),
        versions=(
            Version(name=DEPRECATED, model=others_v1beta1.Topology),
            Version(name=STORED, model=Topology),
        ),
    ),
    Kind(
        name="WorkloadPriorityClass",
        plural="workloadpriorityclasses",
        short_names=("wpc",),
        versions=(
            Version(
                name=DEPRECATED,
                model=others_v1beta1.WorkloadPriorityClass,
                columns=_PRIORITY_CLASS_COLUMNS,
            ),
            Version(name=STORED, model=WorkloadPriorityClass, columns=_PRIORITY_CLASS_COLUMNS),
        ),
    ),
    Kind(
        name="Workload",
        plural="workloads",
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
        has_status=True,
        converted=True,
        versions=(
            Version(name=DEPRECATED, model=workload_v1beta1.Workload, columns=_WORKLOAD_COLUMNS),
            Version(
                name=STORED,
                model=Workload,
                columns=_WORKLOAD_COLUMNS,
                selectable=(".status.admission.clusterQueue",),
            ),
        ),
    ),
)
"""Every kind, by plural name."""
