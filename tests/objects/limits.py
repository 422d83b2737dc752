"""Limits, defaults, list types and printer columns of Kueue's schemas, as cases.

A case puts a value that breaks one limit into one field of an object in which every field has a
value, see `tests.objects.whole`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from admission.base import quantity
from admission.objects import fields

Document = dict[str, Any]

MISSING: Final = object()
"""Stands for a field that is taken out."""

_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]")


@dataclass(frozen=True, slots=True)
class Limit:
    """One way to break one field.

    Attributes:
        keyword: of the schema.
        name: of the limit.
        broken: makes a broken value of a good one.
        error: type of the error and, for most types, the value.
        rule: how the message ends.
        where: what stands behind the field's path in the path of the error.
        is_nowhere: whether the error stands at the object or its status, and ends with the field.
    """

    keyword: str
    name: str
    broken: Callable[[Any], Any]
    error: str
    rule: str = ""
    where: str = ""
    is_nowhere: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A limit of a field of a kind."""

    kind: str
    path: str
    limit: Limit

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.path} {self.limit.name}"

    @property
    def is_status(self) -> bool:
        """Whether the field belongs to the status."""
        return self.path.startswith("status.")

    def is_told_by(self, errors: Collection[str], words: Callable[[str], str] = str) -> bool:
        """Whether the errors are those by which the limit is told, and no others.

        Args:
            errors: as `words`.
            words: leaves out of a text what the version under test says otherwise.
        """
        limit = self.limit
        if limit.is_nowhere:
            in_status = self.path.removeprefix("status.")
            told = {
                f"<nil>: {limit.error}{limit.rule}{self.path}",
                f"status: {limit.error}{limit.rule}{in_status}",
            }
            # What does not fit 64 bits is besides no integer to the server.
            told |= {error for error in errors if error.endswith('int64: "float64"')}
            return not set(errors) - told and any(limit.rule in error for error in errors)
        begin = words(f"{self.path}{limit.where}: {limit.error}")
        return [e.startswith(begin) and e.endswith(limit.rule) for e in errors] == [True]

    def document(self, whole: Document) -> Document:
        """The object with the field broken; the argument stays as it is."""
        found: Document = json.loads(json.dumps(whole))  # copies what stands in it twice
        *above, last = _STEP.findall(self.path)
        parent: Any = found
        for step in above:
            parent = parent[_key(step)]
        value = self.limit.broken(parent.get(last) if isinstance(parent, dict) else parent[0])
        if value is MISSING:
            del parent[last]
        else:
            parent[_key(last)] = value
        return found


def _key(step: str) -> str | int:
    return int(step[1:-1]) if step.startswith("[") else step


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _invalid(keyword: str, name: str, value: Any, rule: str) -> Limit:
    return Limit(keyword, name, lambda _: value, f"Invalid value: {_shown(value)}: ", rule)


def one_of(*choices: str) -> Limit:
    supported = ", ".join(map(_shown, choices))
    rule = f"supported values: {supported}"
    return Limit("enum", "is one of", lambda _: "x", 'Unsupported value: "x": ', rule)


def longest(most: int) -> Limit:
    rule = f"may not be more than {most} bytes"
    return Limit(
        "maxLength", f"at most {most} long", lambda _: "a" * (most + 1), "Too long: ", rule
    )


def shape(pattern: str, value: str = "A_") -> Limit:
    return _invalid("pattern", "has its shape", value, f"should match '{pattern}'")


def filled(pattern: str = "") -> Limit:
    """Not the empty text: by a pattern, or by a least length where there is none."""
    rule = f"should match '{pattern}'" if pattern else "should be at least 1 chars long"
    return _invalid("pattern" if pattern else "minLength", "is not empty", "", rule)


def least(number: int) -> Limit:
    rule = f"should be greater than or equal to {number}"
    return _invalid("minimum", f"at least {number}", number - 1, rule)


def integer(bits: int) -> Limit:
    rule = f"must be of type integer with format int{bits} in "
    value = 2 ** (bits - 1)
    return Limit(
        "format", f"fits {bits} bits", lambda _: value, 'Invalid value: "": Checked value ', rule,
        is_nowhere=True,
    )  # fmt: skip


def text(kind: str = "string") -> Limit:
    rule = f'must be of type {kind}: "integer"'
    return Limit("type", f"is a {kind}", lambda _: 5, 'Invalid value: "integer": ', rule)


def most(count: int, keyword: str = "maxItems") -> Limit:
    def broken(items: Any) -> Any:
        if isinstance(items, dict):
            return {f"k{number}": "" for number in range(count + 1)}
        return [_another(items[0], number) for number in range(count + 1)]

    rule = f"must have at most {count} items"
    return Limit(keyword, f"at most {count} items", broken, f"Too many: {count + 1}: ", rule)


def _another(item: Any, number: int) -> Any:
    """An item that may stand beside the others in a list-map or set."""
    if isinstance(item, dict):
        keys = {"name", "type", "reason"} & item.keys()
        return {**item, **dict.fromkeys(keys, f"n{number}")}
    return f"n{number}" if isinstance(item, str) else item


NOT_EMPTY: Final = Limit(
    "minItems", "has an item", lambda _: [], "Invalid value: 0: ", "should have at least 1 items"
)
REQUIRED: Final = Limit("required", "is required", lambda _: MISSING, "Required value")
TIME: Final = Limit(
    "format",
    "is a time",
    lambda _: "today",
    'Invalid value: "today": ',
    'must be of type date-time: "today"',
)
AMOUNT: Final = shape(quantity.PATTERN, "1x")
TWICE: Final = Limit(
    "x-kubernetes-list-type", "each once", lambda items: [items[0], items[0]], "Duplicate value: ",
    where="[1]",
)  # fmt: skip


SUBDOMAIN: Final = (
    shape(fields.SUBDOMAIN_PATTERN), filled(fields.SUBDOMAIN_PATTERN), longest(253),
)  # fmt: skip
LABEL: Final = (shape(fields.LABEL_PATTERN), filled(fields.LABEL_PATTERN), longest(63))
CHECK: Final = (filled(), longest(316))
STOP: Final = one_of("None", "Hold", "HoldAndDrain")
COUNT: Final = (least(0), integer(32))
POSITIVE: Final = (least(1), integer(32))


def _limits(kind: str, *rows: tuple[str, Limit | Iterable[Limit]]) -> list[Broken]:
    return [
        Broken(kind, path, limit)
        for path, found in rows
        for limit in ([found] if isinstance(found, Limit) else found)
    ]


def _conditions(kind: str) -> list[Broken]:
    first = "status.conditions[0]"
    return _limits(
        kind,
        ("status.conditions", (most(16), TWICE)),
        (f"{first}.type", (REQUIRED, shape(fields.QUALIFIED_NAME_PATTERN, "@"), longest(316))),
        (f"{first}.status", (REQUIRED, one_of("True", "False", "Unknown"))),
        (f"{first}.reason", (REQUIRED, filled(), longest(1024),
                             shape(fields.REASON_PATTERN, "no words"))),
        (f"{first}.message", (REQUIRED, longest(32768))),
        (f"{first}.lastTransitionTime", (REQUIRED, TIME)),
        (f"{first}.observedGeneration", (least(0), integer(64))),
    )  # fmt: skip


def _groups(kind: str) -> list[Broken]:
    group = "spec.resourceGroups[0]"
    flavor, quota = f"{group}.flavors[0]", f"{group}.flavors[0].resources[0]"
    return _limits(
        kind,
        ("spec.resourceGroups", most(16)),
        (f"{group}.coveredResources", (REQUIRED, NOT_EMPTY, most(64))),
        (f"{group}.flavors", (REQUIRED, NOT_EMPTY, most(64), TWICE)),
        (f"{flavor}.name", (REQUIRED, *SUBDOMAIN)),
        (f"{flavor}.resources", (REQUIRED, NOT_EMPTY, most(64), TWICE)),
        (f"{quota}.name", REQUIRED),
        (f"{quota}.nominalQuota", (REQUIRED, AMOUNT)),
        (f"{quota}.borrowingLimit", AMOUNT),
        (f"{quota}.lendingLimit", AMOUNT),
        ("spec.fairSharing.weight", AMOUNT),
        ("status.fairSharing.weightedShare", (REQUIRED, integer(64))),
    )


def _usage(kind: str, *amounts: str, more: tuple[str, ...] = ()) -> list[Broken]:
    return [
        broken
        for field in ("status.flavorsReservation", "status.flavorsUsage", *more)
        for broken in _limits(
            kind,
            (field, (most(64), TWICE)),
            (f"{field}[0].name", (REQUIRED, *SUBDOMAIN)),
            (f"{field}[0].resources", (REQUIRED, most(64), TWICE)),
            (f"{field}[0].resources[0].name", REQUIRED),
            *((f"{field}[0].resources[0].{amount}", AMOUNT) for amount in amounts),
        )
    ]


_WITHOUT_NODE: Final = "status.withoutNode[0]"
WITHOUT_NODE: Final = _limits(
    "ClusterQueue",
    ("status.withoutNode", (most(64), TWICE)),
    (f"{_WITHOUT_NODE}.name", (REQUIRED, *SUBDOMAIN)),
    (f"{_WITHOUT_NODE}.resources", (REQUIRED, most(64), TWICE)),
    (f"{_WITHOUT_NODE}.resources[0].name", REQUIRED),
    (f"{_WITHOUT_NODE}.resources[0].total", AMOUNT),
    (f"{_WITHOUT_NODE}.resources[0].since", (REQUIRED, TIME)),
)

_TOLERATED: Final = (
    ("key", text()), ("operator", text()), ("value", text()), ("effect", text()),
    ("tolerationSeconds", integer(64)),
)  # fmt: skip
_COUNTED: Final = tuple(
    (f"status.{name}Workloads", integer(32)) for name in ("pending", "reserving", "admitted")
)

FLAVORS: Final = _limits(
    "ResourceFlavor",
    ("spec.nodeLabels", most(8, "maxProperties")),
    ("spec.nodeLabels.a", text()),
    ("spec.nodeTaints", most(8)),
    ("spec.nodeTaints[0].key", REQUIRED),
    ("spec.nodeTaints[0].effect", REQUIRED),
    ("spec.nodeTaints[0].value", text()),
    ("spec.nodeTaints[0].timeAdded", TIME),
    ("spec.tolerations", most(8)),
    *((f"spec.tolerations[0].{field}", limit) for field, limit in _TOLERATED),
    ("spec.topologyName", SUBDOMAIN),
)

_CHECKS: Final = "spec.admissionChecksStrategy.admissionChecks"
_MIGRATION: Final = "spec.concurrentAdmissionPolicy.migration"

CLUSTER_QUEUES: Final = [
    *_groups("ClusterQueue"),
    *_conditions("ClusterQueue"),
    *WITHOUT_NODE, *_usage("ClusterQueue", "total", "borrowed"),
    *_limits(
        "ClusterQueue",
        ("spec.cohortName", SUBDOMAIN),
        ("spec.queueingStrategy", one_of("StrictFIFO", "BestEffortFIFO")),
        ("spec.namespaceSelector.matchExpressions[0].key", REQUIRED),
        ("spec.namespaceSelector.matchExpressions[0].operator", REQUIRED),
        ("spec.flavorFungibility.whenCanBorrow", one_of("MayStopSearch", "TryNextFlavor")),
        ("spec.flavorFungibility.whenCanPreempt", one_of("MayStopSearch", "TryNextFlavor")),
        ("spec.flavorFungibility.preference",
         one_of("BorrowingOverPreemption", "PreemptionOverBorrowing")),
        ("spec.preemption.reclaimWithinCohort", one_of("Never", "LowerPriority", "Any")),
        ("spec.preemption.withinClusterQueue",
         one_of("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        ("spec.preemption.borrowWithinCohort.policy", one_of("Never", "LowerPriority")),
        ("spec.preemption.borrowWithinCohort.maxPriorityThreshold", integer(32)),
        (_CHECKS, (REQUIRED, NOT_EMPTY, most(64), TWICE)),
        (f"{_CHECKS}[0].name", (REQUIRED, *CHECK)),
        (f"{_CHECKS}[0].onFlavors", (most(64), TWICE)),
        (f"{_CHECKS}[0].onFlavors[0]", SUBDOMAIN),
        ("spec.stopPolicy", STOP),
        ("spec.admissionScope.admissionMode",
         (REQUIRED, one_of("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"))),
        (_MIGRATION, REQUIRED),
        (f"{_MIGRATION}.mode", (REQUIRED, one_of("TryPreferredFlavors", "RetainFirstAdmission"))),
        (f"{_MIGRATION}.constraints.lastAcceptableFlavorName", SUBDOMAIN),
        *_COUNTED,
    ),
]  # fmt: skip

COHORTS: Final = [*_groups("Cohort"), *_limits("Cohort", ("spec.parentName", SUBDOMAIN))]

_PAST: Final = "status.fairSharing.admissionFairSharingStatus"

LOCAL_QUEUES: Final = [
    *_conditions("LocalQueue"),
    *_usage("LocalQueue", "total", more=("status.nominalQuota",)),
    *_limits(
        "LocalQueue",
        ("spec.clusterQueue", SUBDOMAIN),
        ("spec.stopPolicy", STOP),
        ("spec.fairSharing.weight", AMOUNT),
        ("status.fairSharing.weightedShare", (REQUIRED, integer(64))),
        ("status.clusterQueueMaxPerUser.cpu", AMOUNT),
        (f"{_PAST}.consumedResources", REQUIRED),
        (f"{_PAST}.consumedResources.cpu", AMOUNT),
        (f"{_PAST}.lastUpdate", (REQUIRED, TIME)),
        *_COUNTED,
    ),
]

CHECKS: Final = [
    *_conditions("AdmissionCheck"),
    *_limits(
        "AdmissionCheck",
        ("spec.controllerName", (REQUIRED, filled(), longest(253))),
        ("spec.parameters.apiGroup",
         (REQUIRED, shape(fields.SUBDOMAIN_PATTERN), filled(), longest(253))),
        ("spec.parameters.kind", (REQUIRED, shape(fields.KIND_PATTERN), filled(), longest(63))),
        ("spec.parameters.name", (REQUIRED, shape(fields.LABEL_PATTERN), filled(), longest(63))),
    ),
]  # fmt: skip

OTHERS: Final = [
    *_limits(
        "Topology",
        ("spec.levels", (REQUIRED, NOT_EMPTY, most(16))),
        ("spec.levels[0].nodeLabel",
         (REQUIRED, shape(fields.QUALIFIED_NAME_PATTERN, "@"), filled(), longest(316))),
    ),
    *_limits(
        "WorkloadPriorityClass",
        ("value", (REQUIRED, integer(32))),
        ("description", longest(2048)),
    ),
]  # fmt: skip

_SET: Final = "spec.podSets[0]"
_REQUEST: Final = f"{_SET}.topologyRequest"
_LAYERS: Final = f"{_REQUEST}.podsetSliceRequiredTopologyConstraints"
_CLASS: Final = "spec.priorityClassRef"

WORKLOAD_SPECS: Final = _limits(
    "Workload",
    ("spec.podSets", (NOT_EMPTY, most(18), TWICE)),
    (f"{_SET}.name", LABEL),
    (f"{_SET}.template", REQUIRED),
    (f"{_SET}.template.spec.containers", (REQUIRED, TWICE)),
    (f"{_SET}.count", COUNT),
    (f"{_SET}.minCount", POSITIVE),
    (f"{_REQUEST}.required", longest(63)),
    (f"{_REQUEST}.preferred", longest(63)),
    (f"{_REQUEST}.unconstrained", text("boolean")),
    (f"{_REQUEST}.podIndexLabel", longest(317)),
    (f"{_REQUEST}.subGroupIndexLabel", longest(317)),
    (f"{_REQUEST}.subGroupCount", COUNT),
    (f"{_REQUEST}.podSetGroupName", longest(256)),
    (f"{_REQUEST}.podSetSliceRequiredTopology", longest(63)),
    (f"{_REQUEST}.podSetSliceSize", POSITIVE),
    (_LAYERS, most(3)),
    (f"{_LAYERS}[0].topology", (REQUIRED, filled(), longest(63))),
    (f"{_LAYERS}[0].size", (REQUIRED, *POSITIVE)),
    ("spec.queueName", SUBDOMAIN),
    (f"{_CLASS}.group", (REQUIRED, one_of("kueue.x-k8s.io", "scheduling.k8s.io"))),
    (f"{_CLASS}.kind", (REQUIRED, one_of("WorkloadPriorityClass", "PriorityClass"))),
    (f"{_CLASS}.name", (REQUIRED, shape(fields.SUBDOMAIN_PATTERN), filled(), longest(253))),
    ("spec.priority", integer(32)),
    ("spec.active", text("boolean")),
    ("spec.maximumExecutionTimeSeconds", POSITIVE),
    ("spec.preemptionGates", (most(8), TWICE)),
    ("spec.preemptionGates[0].name", (REQUIRED, filled(), longest(63))),
)

_ASSIGNED: Final = "status.admission.podSetAssignments"
_PLACED: Final = f"{_ASSIGNED}[0].topologyAssignment"
_SLICE: Final = f"{_PLACED}.slices[0]"
_VALUES: Final = f"{_SLICE}.valuesPerLevel"
_ROOTS: Final = f"{_VALUES}[1].individual"
_STATE: Final = "status.admissionChecks"
_UPDATE: Final = f"{_STATE}[0].podSetUpdates"
_GATES: Final = "status.preemptionGates"
_EVICTIONS: Final = "status.schedulingStats.evictions"

WORKLOAD_STATUSES: Final = [
    *_conditions("Workload"),
    *_limits(
        "Workload",
        ("status.admission.clusterQueue", SUBDOMAIN),
        (_ASSIGNED, (most(18), TWICE)),
        (f"{_ASSIGNED}[0].name", LABEL),
        (f"{_ASSIGNED}[0].flavors.cpu", SUBDOMAIN),
        (f"{_ASSIGNED}[0].resourceUsage.cpu", AMOUNT),
        (f"{_ASSIGNED}[0].count", COUNT),
        (f"{_ASSIGNED}[0].delayedTopologyRequest", one_of("Pending", "Ready")),
        (f"{_PLACED}.levels", (REQUIRED, NOT_EMPTY, most(16))),
        (f"{_PLACED}.levels[0]", longest(317)),
        (f"{_PLACED}.slices", (REQUIRED, most(1000))),
        (f"{_SLICE}.domainCount", (REQUIRED, *POSITIVE)),
        (_VALUES, (REQUIRED, NOT_EMPTY, most(16))),
        (f"{_VALUES}[0].universal", longest(63)),
        (f"{_ROOTS}.prefix", longest(63)),
        (f"{_ROOTS}.suffix", longest(63)),
        (f"{_ROOTS}.roots", (REQUIRED, NOT_EMPTY, most(100_000))),
        (f"{_ROOTS}.roots[0]", longest(63)),
        (f"{_SLICE}.podCounts", REQUIRED),
        (f"{_SLICE}.podCounts.individual", (NOT_EMPTY, most(100_000))),
        (f"{_SLICE}.podCounts.individual[0]", POSITIVE),
        (f"{_PLACED}.slices[1].podCounts.universal", POSITIVE),
        ("status.requeueState.count", COUNT),
        ("status.requeueState.requeueAt", TIME),
        ("status.reclaimablePods", (most(18), TWICE)),
        ("status.reclaimablePods[0].name", (REQUIRED, *LABEL)),
        ("status.reclaimablePods[0].count", (REQUIRED, *COUNT)),
        (_STATE, (most(8), TWICE)),
        (f"{_STATE}[0].name", (REQUIRED, *CHECK)),
        (f"{_STATE}[0].state", (REQUIRED, one_of("Pending", "Ready", "Retry", "Rejected"))),
        (f"{_STATE}[0].lastTransitionTime", (REQUIRED, TIME)),
        (f"{_STATE}[0].message", (REQUIRED, longest(32768))),
        (f"{_STATE}[0].requeueAfterSeconds", COUNT),
        (f"{_STATE}[0].retryCount", COUNT),
        (_UPDATE, most(18)),
        (f"{_UPDATE}[0].name", (REQUIRED, *LABEL)),
        (f"{_UPDATE}[0].labels.a", text()),
        (f"{_UPDATE}[0].annotations.a", text()),
        (f"{_UPDATE}[0].nodeSelector.a", text()),
        (f"{_UPDATE}[0].tolerations", most(8)),
        *((f"{_UPDATE}[0].tolerations[0].{field}", limit) for field, limit in _TOLERATED),
        ("status.resourceRequests", (most(18), TWICE)),
        ("status.resourceRequests[0].name", (REQUIRED, *LABEL)),
        ("status.resourceRequests[0].resources.cpu", AMOUNT),
        ("status.accumulatedPastExecutionTimeSeconds", integer(32)),
        (_EVICTIONS, (most(256), TWICE)),
        (f"{_EVICTIONS}[0].reason", (REQUIRED, longest(316))),
        (f"{_EVICTIONS}[0].underlyingCause", (REQUIRED, longest(316))),
        (f"{_EVICTIONS}[0].count", (REQUIRED, *COUNT)),
        ("status.nominatedClusterNames", (
            Limit("maxItems", "at most 20 items", lambda _: ["a"] * 21, "Too many: 21: ",
                  "must have at most 20 items"),
            Limit("maxLength", "at most 256 long each", lambda _: ["a" * 257], "Too long: ",
                  "may not be more than 256 bytes", where="[0]"),
        )),
        ("status.clusterName", longest(256)),
        ("status.unhealthyNodes", (most(8), TWICE)),
        ("status.unhealthyNodes[0].name", (REQUIRED, longest(63))),
        (_GATES, (most(8), TWICE)),
        (f"{_GATES}[0].name", (REQUIRED, filled(), longest(63))),
        (f"{_GATES}[0].position", (REQUIRED, one_of("Closed", "Open"))),
        (f"{_GATES}[0].lastTransitionTime", (REQUIRED, TIME)),
    ),
]  # fmt: skip

ALL: Final = [
    *FLAVORS, *CLUSTER_QUEUES, *COHORTS, *LOCAL_QUEUES, *CHECKS, *OTHERS, *WORKLOAD_SPECS,
    *WORKLOAD_STATUSES,
]  # fmt: skip
