"""Objects from one version of the API to the other, as pure functions on JSON documents.

The way down to v1beta1 drops what v1beta1 cannot say, and the way up drops what is no longer
read; everything that is not named here is copied as it is.

Source: kueue apis/kueue/v1beta1, conversion functions of each kind.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.objects import topology_encoding

Document = dict[str, Any]

OLD: Final = f"{names.KUEUE_GROUP}/v1beta1"
NEW: Final = f"{names.KUEUE_GROUP}/v1beta2"

_FAIR = "admissionFairSharingStatus"
_SECONDS = ("accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
_SAME_AS_MAY_STOP: Final = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
_SOURCES: Final = {
    names.WORKLOAD_CLASS_SOURCE: {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass"},
    names.POD_CLASS_SOURCE: {"group": "scheduling.k8s.io", "kind": "PriorityClass"},
}


def convert(document: Mapping[str, Any], api_version: str) -> Document:
    """The same object in the version ``api_version`` (``OLD`` or ``NEW``).

    The argument stays as it is; parts that need no change are shared with the result.

    Raises:
        InvalidValueError: unknown version, or a topology assignment with values missing.
    """
    out = dict(document)
    current = out.get("apiVersion", "")
    for version in (current, api_version):
        if version not in {OLD, NEW}:
            raise InvalidValueError(str(version), f"must be {OLD} or {NEW}")
    if current != api_version:
        steps = _UP if api_version == NEW else _DOWN
        steps.get(str(out.get("kind")), _unchanged)(_own(out, "spec"), _own(out, "status"))
        out["apiVersion"] = api_version
    return out


def _unchanged(_spec: Document, _status: Document) -> None:
    """Kinds whose two versions have the same fields."""


def _cluster_queue_up(spec: Document, status: Document) -> None:
    _rename(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks:
        # Differs: v1beta2 tells its rules apart by name, so one that stands twice is one rule.
        rules = [{"name": name} for name in dict.fromkeys(checks)]
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    elif not (spec.get("admissionChecksStrategy") or {}).get("admissionChecks"):
        # Differs: an empty strategy means no checks, and v1beta2 refuses it on the next write.
        spec.pop("admissionChecksStrategy", None)
    fungibility = _own(spec, "flavorFungibility")
    for field, old in _SAME_AS_MAY_STOP.items():
        if fungibility.get(field) == old:
            fungibility[field] = "MayStopSearch"
    status.pop("pendingWorkloadsStatus", None)
    _own(status, "fairSharing").pop(_FAIR, None)


def _cluster_queue_down(spec: Document, _status: Document) -> None:
    _rename(spec, "cohortName", "cohort")
    spec.pop("concurrentAdmissionPolicy", None)


def _cohort_up(_spec: Document, status: Document) -> None:
    _own(status, "fairSharing").pop(_FAIR, None)


def _local_queue_up(_spec: Document, status: Document) -> None:
    _rename(status, "flavorUsage", "flavorsUsage")
    status.pop("flavors", None)


def _local_queue_down(_spec: Document, status: Document) -> None:
    _rename(status, "flavorsUsage", "flavorUsage")


def _workload_up(spec: Document, status: Document) -> None:
    name = spec.pop("priorityClassName", None)
    kind = _SOURCES.get(spec.pop("priorityClassSource", ""))
    if kind and name:
        spec["priorityClassRef"] = {**kind, "name": name}
    _rename(status, *_SECONDS)
    for topology in _topologies(status):
        if "domains" in topology:
            domains = topology.pop("domains") or ()
            topology["slices"] = topology_encoding.pack(len(topology["levels"]), domains)


def _workload_down(spec: Document, status: Document) -> None:
    reference = spec.pop("priorityClassRef", None)
    if spec:
        spec["priorityClassSource"] = ""
    for source, kind in _SOURCES.items():
        if reference and kind.items() <= reference.items():
            spec |= {"priorityClassName": reference["name"], "priorityClassSource": source}
    spec.pop("preemptionGates", None)
    for pod_set in _own_each(spec, "podSets"):
        _own(pod_set, "topologyRequest").pop("podsetSliceRequiredTopologyConstraints", None)
    status.pop("preemptionGates", None)
    _rename(status, *reversed(_SECONDS))
    for topology in _topologies(status):
        if "slices" in topology:
            topology["domains"] = topology_encoding.unpack(topology.pop("slices") or ())


def _topologies(status: Document) -> list[Document]:
    """The topology assignments of a Workload, to be changed in place."""
    assignments = _own_each(_own(status, "admission"), "podSetAssignments")
    return [_own(assignment, "topologyAssignment") for assignment in assignments]


_UP: Final[Mapping[str, Callable[[Document, Document], None]]] = {
    "ClusterQueue": _cluster_queue_up,
    "Cohort": _cohort_up,
    "LocalQueue": _local_queue_up,
    "Workload": _workload_up,
}
_DOWN: Final[Mapping[str, Callable[[Document, Document], None]]] = {
    "ClusterQueue": _cluster_queue_down,
    "LocalQueue": _local_queue_down,
    "Workload": _workload_down,
}


def _own(parent: Document, key: str) -> Document:
    """Puts a copy in the place of a member and returns it; a loose empty one if there is none."""
    member = parent.get(key)
    if not isinstance(member, dict):
        return {}
    parent[key] = copy = dict(member)
    return copy


def _own_each(parent: Document, key: str) -> list[Document]:
    """As ``_own``, for every item of a list."""
    members = parent.get(key)
    if not isinstance(members, list):
        return []
    parent[key] = copies = [dict(member) for member in members]
    return copies


def _rename(document: Document, old: str, new: str) -> None:
    if old in document:
        document[new] = document.pop(old)
