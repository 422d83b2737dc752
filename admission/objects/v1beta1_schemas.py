"""Schemas of v1beta1: what differs from v1beta2, kind by kind.

`admission.objects.conversion` converts the objects.

Source: kueue apis/kueue/v1beta1.
"""

import copy
from collections.abc import Callable
from typing import Annotated, Final

from admission.base.names import POD_CLASS_SOURCE, WORKLOAD_CLASS_SOURCE
from admission.objects import markers, schema, workload_rules
from admission.objects.admission_check import AdmissionCheck
from admission.objects.cluster_queue import ClusterQueue, no_borrowing_limit_without
from admission.objects.cohort import Cohort
from admission.objects.fields import (
    POSITIVE,
    SUBDOMAIN,
    Int32,
    Int64,
    Timestamp,
    api_default,
    one_of,
    text,
)
from admission.objects.local_queue import AdmissionFairSharingStatus, LocalQueue
from admission.objects.markers import CelRule
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import FlavorTaint, ResourceFlavor
from admission.objects.schema import Schema
from admission.objects.topology import LEVEL_RULES, Topology
from admission.objects.viewbase import Object, View
from admission.objects.workload import Workload
from admission.objects.workload_rules import NEVER_HELD, WAS_RESERVED, WHILE, has

_Change = Callable[[Schema], None]


def of_kind(kind: type[Object]) -> Schema:
    """Return the structural schema of whole v1beta1 objects of a kind."""
    schema_ = copy.deepcopy(schema.of_kind(kind))
    for change in _CHANGES[kind]:
        change(schema_)
    return schema_


# ---------------------------------------------------------------------------------- changes


def _at(node: Schema, path: str) -> Schema:
    """Return the schema at a path such as ``spec.levels[].nodeLabel``; all of it if empty."""
    for step in filter(None, path.split(".")):
        node = node["properties"][step.removesuffix("[]")]
        node = node["items"] if step.endswith("[]") else node
    return node


def _keywords(path: str, *gone: str, **now: object) -> _Change:
    """Take keywords off a field or object, and give it others."""

    def change(root: Schema) -> None:
        node = _at(root, path)
        for key in gone:
            del node[key]
        node.update(now)
        ordered = schema.ordered(node)
        node.clear()
        node.update(ordered)

    return change


def _rules(path: str, *rules: CelRule) -> _Change:
    """Give a field or object other CEL rules."""
    return _keywords(path, **markers.rules(*rules).values)


def _remove(path: str, member: str) -> _Change:
    """Take a member off an object."""

    def change(root: Schema) -> None:
        del _at(root, path)["properties"][member]

    return change


def _rename(path: str, old: str, new: str) -> _Change:
    """Give a member of an object its v1beta1 name."""

    def change(root: Schema) -> None:
        node = _at(root, path)
        properties: Schema = node["properties"]
        node["properties"] = {(new if key == old else key): properties[key] for key in properties}

    return change


def _add(path: str, struct: type[View], after: str) -> _Change:
    """Give an object the members of a struct, behind one that it has."""

    def change(root: Schema) -> None:
        node = _at(root, path)
        members = list(node["properties"].items())
        place = list(node["properties"]).index(after) + 1
        members[place:place] = schema.of_struct(struct)["properties"].items()
        node["properties"] = dict(members)

    return change


# ---------------------------------------------------------------------------------- fields


class _FairSharingStatus(View, frozen=True, kw_only=True):
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """Past usage; only with admission fair sharing."""


class _AdmissionCheckSpec(View, frozen=True, kw_only=True):
    retry_delay_minutes: Annotated[Int64, api_default(15)] = 15
    """No longer read."""


class _TopologyInfo(View, frozen=True, kw_only=True):
    """The topology of a flavor."""

    name: Annotated[str, SUBDOMAIN]
    """The Topology."""

    levels: Annotated[tuple[str, ...], markers.list_atomic(at_least=1, at_most=16)]
    """Labels of its levels."""


class _LocalQueueFlavorStatus(View, frozen=True, kw_only=True):
    """A flavor that the queue's workloads can get."""

    name: Annotated[str, SUBDOMAIN]
    """The flavor."""

    resources: Annotated[tuple[str, ...], markers.list_set(at_most=64)] | None = None
    """Its resources."""

    node_labels: Annotated[dict[str, str], markers.map_atomic(at_most=8)] | None = None
    """Labels of its nodes."""

    node_taints: Annotated[tuple[FlavorTaint, ...], markers.list_atomic(at_most=8)] | None = None
    """Taints of its nodes."""

    topology: _TopologyInfo | None = None
    """Its topology."""


class _LocalQueueStatus(View, frozen=True, kw_only=True):
    flavors: (
        Annotated[tuple[_LocalQueueFlavorStatus, ...], markers.list_map("name", at_most=64)] | None
    ) = None
    """Flavors that the queue's workloads can get; no longer written."""


_CheckName = Annotated[str, text(at_most=316)]


class _ClusterQueueSpec(View, frozen=True, kw_only=True):
    admission_checks: tuple[_CheckName, ...] | None = None
    """Checks for all flavors; if there are any, ``admissionChecksStrategy`` is not read."""


class _PendingWorkload(View, frozen=True, kw_only=True):
    """A workload that waits."""

    name: str
    """Its name."""

    namespace: str
    """Its namespace."""


class _PendingWorkloadsStatus(View, frozen=True, kw_only=True):
    """The head of the queue; no longer written."""

    cluster_queue_pending_workload: (
        Annotated[tuple[_PendingWorkload, ...], markers.list_atomic()] | None
    ) = None
    """The workloads that waited."""

    last_change_time: Timestamp
    """When the list last changed."""


class _ClusterQueueStatus(View, frozen=True, kw_only=True):
    pending_workloads_status: _PendingWorkloadsStatus | None = None
    """The head of the queue; no longer written."""


class _WorkloadSpec(View, frozen=True, kw_only=True):
    priority_class_name: Annotated[str, SUBDOMAIN] = ""
    """Name of the class that the priority comes from."""

    priority_class_source: Annotated[
        str, one_of(WORKLOAD_CLASS_SOURCE, POD_CLASS_SOURCE, ""), api_default("")
    ] = ""
    """Kind of that class; empty where there is none."""


class _TopologyDomainAssignment(View, frozen=True, kw_only=True):
    """One domain and its pods."""

    values: Annotated[tuple[str, ...], markers.list_atomic(at_least=1, at_most=16)]
    """Name of the domain, one value per level."""

    count: Annotated[Int32, POSITIVE]
    """Pods on the domain."""


class _TopologyAssignment(View, frozen=True, kw_only=True):
    domains: tuple[_TopologyDomainAssignment, ...]
    """The domains."""


def _missing(field: str) -> str:
    """Return CEL: the field is absent on at least one side."""
    return f"!{has('self', field)} || !{has('oldSelf', field)}"


_NAME: Final = "priorityClassName"
_SOURCE: Final = "priorityClassSource"
_WORKLOAD_RULES: Final = (
    workload_rules.SAME_NUMBER_OF_POD_SETS,
    CelRule(
        f"{NEVER_HELD} || {_missing(_SOURCE)}"
        f" || self.spec.{_SOURCE} == oldSelf.spec.{_SOURCE} || !{WAS_RESERVED}",
        f"{_SOURCE} {WHILE}",
    ),
    CelRule(
        f"{NEVER_HELD} || {_missing(_SOURCE)} || {_missing(_NAME)}"
        f" || self.spec.{_SOURCE} == '{WORKLOAD_CLASS_SOURCE}'"
        f" || self.spec.{_NAME} == oldSelf.spec.{_NAME} || !{WAS_RESERVED}",
        f"{_NAME} {WHILE} and {_SOURCE} is not equal to {WORKLOAD_CLASS_SOURCE}",
    ),
    workload_rules.SAME_QUEUE,
    workload_rules.SAME_EXECUTION_TIME,
)
"""What may not change on a Workload that holds quota: rules W1, W6 and W7 of
docs/reference/rules.md, and two for the priority class.
"""

_ASSIGNMENTS: Final = "status.admission.podSetAssignments[]"
_NO_LIMIT: Final = _keywords("status.conditions", "maxItems")
_FAIR_SHARING: Final = _add("status.fairSharing", _FairSharingStatus, after="weightedShare")
_RESOURCES: Final = _keywords("spec.resourceGroups[].coveredResources", markers.LIST_TYPE)

_CHANGES: Final[dict[type[Object], tuple[_Change, ...]]] = {
    AdmissionCheck: (
        _keywords("spec.controllerName", "minLength", "maxLength"),
        *(
            _keywords(f"spec.parameters.{field}", "minLength")
            for field in ("apiGroup", "kind", "name")
        ),
        _add("spec", _AdmissionCheckSpec, after="parameters"),
        _NO_LIMIT,
    ),
    ClusterQueue: (
        _RESOURCES,
        _rename("spec", "cohortName", "cohort"),
        _rules("spec", no_borrowing_limit_without("cohort")),
        _keywords(
            "spec.flavorFungibility.whenCanBorrow",
            description="What to do with a flavor that needs borrowing; Borrow is MayStopSearch.",
            enum=["Borrow", "MayStopSearch", "TryNextFlavor"],
        ),
        _keywords(
            "spec.flavorFungibility.whenCanPreempt",
            description=(
                "What to do with a flavor that needs preemption; Preempt is MayStopSearch."
            ),
            enum=["Preempt", "MayStopSearch", "TryNextFlavor"],
        ),
        _add("spec", _ClusterQueueSpec, after="preemption"),
        _keywords(
            "spec.admissionChecksStrategy.admissionChecks",
            "minItems",
            "maxItems",
            markers.LIST_TYPE,
            markers.LIST_MAP_KEYS,
        ),
        _keywords("spec.admissionChecksStrategy", "required"),
        _keywords("spec.admissionChecksStrategy.admissionChecks[].name", "minLength"),
        _keywords(
            "spec.admissionChecksStrategy.admissionChecks[].onFlavors",
            "maxItems",
            markers.LIST_TYPE,
        ),
        _keywords("spec.admissionScope.admissionMode", "enum"),
        _remove("spec", "concurrentAdmissionPolicy"),
        _NO_LIMIT,
        _add("status", _ClusterQueueStatus, after="admittedWorkloads"),
        _FAIR_SHARING,
    ),
    Cohort: (_RESOURCES, _FAIR_SHARING),
    LocalQueue: (
        _NO_LIMIT,
        _rename("status", "flavorsUsage", "flavorUsage"),
        _add("status", _LocalQueueStatus, after="flavorUsage"),
    ),
    ResourceFlavor: (),
    Topology: (_rules("spec.levels", markers.IMMUTABLE, *LEVEL_RULES),),
    Workload: (
        _rules("", *_WORKLOAD_RULES),
        _rules(
            "spec",
            CelRule(
                "!has(self.priorityClassName) || has(self.priority)",
                "priority should not be nil when priorityClassName is set",
            ),
        ),
        _keywords("spec", required=["podSets"]),
        _keywords("spec.podSets[]", required=["template", "count"]),
        *(
            _keywords(f"spec.podSets[].topologyRequest.{field}", "maxLength")
            for field in (
                "required",
                "preferred",
                "podIndexLabel",
                "subGroupIndexLabel",
                "podSetGroupName",
                "podSetSliceRequiredTopology",
            )
        ),
        _keywords("spec.podSets[].topologyRequest.subGroupCount", "minimum"),
        _remove("spec.podSets[].topologyRequest", "podsetSliceRequiredTopologyConstraints"),
        _add("spec", _WorkloadSpec, after="queueName"),
        _remove("spec", "priorityClassRef"),
        _remove("spec", "preemptionGates"),
        _NO_LIMIT,
        _keywords("status.admission", required=["clusterQueue", "podSetAssignments"]),
        _keywords(_ASSIGNMENTS, required=["name"]),
        _keywords(f"{_ASSIGNMENTS}.topologyAssignment.levels[]", "maxLength"),
        _add(f"{_ASSIGNMENTS}.topologyAssignment", _TopologyAssignment, after="levels"),
        _remove(f"{_ASSIGNMENTS}.topologyAssignment", "slices"),
        _keywords(
            f"{_ASSIGNMENTS}.topologyAssignment",
            markers.VALIDATIONS,
            required=["levels", "domains"],
        ),
        _keywords(f"{_ASSIGNMENTS}.delayedTopologyRequest", "enum", "maxLength"),
        _keywords("status.admissionChecks[].name", "minLength"),
        _keywords("status.admissionChecks[].podSetUpdates[].tolerations", markers.LIST_TYPE),
        _rename(
            "status",
            "accumulatedPastExecutionTimeSeconds",
            "accumulatedPastExexcutionTimeSeconds",
        ),
        _keywords(
            "status.accumulatedPastExexcutionTimeSeconds",
            description=(
                "Seconds spent admitted before the present admission; the spelling is the API's."
            ),
        ),
        _keywords("status.schedulingStats.evictions", "maxItems"),
        _keywords("status.nominatedClusterNames[]", "maxLength"),
        _keywords("status.clusterName", "maxLength"),
        _keywords("status.unhealthyNodes", "maxItems", markers.LIST_TYPE, markers.LIST_MAP_KEYS),
        _keywords("status.unhealthyNodes[].name", "maxLength"),
        _remove("status", "preemptionGates"),
    ),
    WorkloadPriorityClass: (_keywords("description", "maxLength"),),
}
