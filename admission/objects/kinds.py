"""The kinds of the group: names, versions, printer columns, subresources.

Source: kueue config/components/crd.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from admission.base import conditions
from admission.objects import schema, v1beta1_schemas
from admission.objects.admission_check import AdmissionCheck
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.schema import Schema
from admission.objects.topology import Topology
from admission.objects.workload import Workload

STORED: Final = "v1beta2"
DEPRECATED: Final = "v1beta1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
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
        schema: makes the structural schema of the objects.
        selectable: JSON paths that field selectors may use.
    """

    name: str
    schema: Callable[[], Schema]
    columns: tuple[PrinterColumn, ...] = ()
    selectable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueKind:
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


def _pending(admitted_priority: int) -> tuple[PrinterColumn, ...]:
    return (
        PrinterColumn(name="Pending Workloads", path=".status.pendingWorkloads", type="integer"),
        PrinterColumn(
            name="Admitted Workloads",
            path=".status.admittedWorkloads",
            type="integer",
            priority=admitted_priority,
        ),
    )


def _of_condition(name: str, kind: str, part: str, priority: int = 1) -> PrinterColumn:
    """A column that Kueue does not have."""
    path = f".status.conditions[?(@.type=='{kind}')].{part}"
    return PrinterColumn(name=name, path=path, priority=priority)


def _cluster_queue_columns(cohort: str) -> tuple[PrinterColumn, ...]:
    return (
        PrinterColumn(name="Cohort", path=f".spec.{cohort}"),
        PrinterColumn(name="Strategy", path=".spec.queueingStrategy", priority=1),
        *_pending(1),
        PrinterColumn(name="GPUs", path=".status.gpus"),
        _of_condition("Active", conditions.ACTIVE, "status", priority=0),
    )


_LOCAL_QUEUE_COLUMNS = (
    PrinterColumn(name="ClusterQueue", path=".spec.clusterQueue"),
    *_pending(0),
    _of_condition("Active", conditions.ACTIVE, "status"),
)
_WORKLOAD_COLUMNS = (
    PrinterColumn(name="Queue", path=".spec.queueName"),
    PrinterColumn(name="Reserved in", path=".status.admission.clusterQueue"),
    PrinterColumn(name="Admitted", path=".status.conditions[?(@.type=='Admitted')].status"),
    PrinterColumn(name="Finished", path=".status.conditions[?(@.type=='Finished')].status"),
    PrinterColumn(name="Age", path=".metadata.creationTimestamp", type="date"),
    _of_condition("Reason", conditions.QUOTA_RESERVED, "reason"),
)
_PRIORITY_CLASS_COLUMNS = (PrinterColumn(name="Value", path=".value", type="integer"),)

KINDS: Final = (
    KueueKind(
        name="AdmissionCheck",
        plural="admissionchecks",
        short_names=("ac",),
        has_status=True,
        versions=(
            Version(name=DEPRECATED, schema=partial(v1beta1_schemas.of_kind, AdmissionCheck)),
            Version(name=STORED, schema=partial(schema.of_kind, AdmissionCheck)),
        ),
    ),
    KueueKind(
        name="ClusterQueue",
        plural="clusterqueues",
        short_names=("cq",),
        has_status=True,
        converted=True,
        versions=(
            Version(
                name=DEPRECATED,
                schema=partial(v1beta1_schemas.of_kind, ClusterQueue),
                columns=_cluster_queue_columns("cohort"),
            ),
            Version(
                name=STORED,
                schema=partial(schema.of_kind, ClusterQueue),
                columns=_cluster_queue_columns("cohortName"),
            ),
        ),
    ),
    KueueKind(
        name="Cohort",
        plural="cohorts",
        short_names=("co",),
        has_status=True,
        converted=True,
        versions=(
            Version(name=DEPRECATED, schema=partial(v1beta1_schemas.of_kind, Cohort)),
            Version(name=STORED, schema=partial(schema.of_kind, Cohort)),
        ),
    ),
    KueueKind(
        name="LocalQueue",
        plural="localqueues",
        short_names=("queue", "queues", "lq"),
        namespaced=True,
        has_status=True,
        converted=True,
        versions=(
            Version(
                name=DEPRECATED,
                schema=partial(v1beta1_schemas.of_kind, LocalQueue),
                columns=_LOCAL_QUEUE_COLUMNS,
            ),
            Version(
                name=STORED,
                schema=partial(schema.of_kind, LocalQueue),
                columns=_LOCAL_QUEUE_COLUMNS,
            ),
        ),
    ),
    KueueKind(
        name="ResourceFlavor",
        plural="resourceflavors",
        short_names=("flavor", "flavors", "rf"),
        versions=(
            Version(name=DEPRECATED, schema=partial(v1beta1_schemas.of_kind, ResourceFlavor)),
            Version(name=STORED, schema=partial(schema.of_kind, ResourceFlavor)),
        ),
    ),
    KueueKind(
        name="Topology",
        plural="topologies",
        short_names=("topo",),
        versions=(
            Version(name=DEPRECATED, schema=partial(v1beta1_schemas.of_kind, Topology)),
            Version(name=STORED, schema=partial(schema.of_kind, Topology)),
        ),
    ),
    KueueKind(
        name="WorkloadPriorityClass",
        plural="workloadpriorityclasses",
        short_names=("wpc",),
        versions=(
            Version(
                name=DEPRECATED,
                schema=partial(v1beta1_schemas.of_kind, WorkloadPriorityClass),
                columns=_PRIORITY_CLASS_COLUMNS,
            ),
            Version(
                name=STORED,
                schema=partial(schema.of_kind, WorkloadPriorityClass),
                columns=_PRIORITY_CLASS_COLUMNS,
            ),
        ),
    ),
    KueueKind(
        name="Workload",
        plural="workloads",
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
        has_status=True,
        converted=True,
        versions=(
            Version(
                name=DEPRECATED,
                schema=partial(v1beta1_schemas.of_kind, Workload),
                columns=_WORKLOAD_COLUMNS,
            ),
            Version(
                name=STORED,
                schema=partial(schema.of_kind, Workload),
                columns=_WORKLOAD_COLUMNS,
                selectable=(".status.admission.clusterQueue",),
            ),
        ),
    ),
)
"""Every kind, by plural name."""
