"""Objects from one version of the API to the other, as pure functions on JSON documents.

The way down to v1beta1 drops what v1beta1 cannot say, and the way up drops what is no longer
read; everything that is not named here is copied as it is.

Source: kueue apis/kueue/v1beta1, conversion functions of each kind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from admission.base import names
from admission.base.errors import InvalidValueError

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
            topology["slices"] = pack_topology(len(topology["levels"]), domains)


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
            topology["domains"] = unpack_topology(topology.pop("slices") or ())


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


# -------------------------------------------------------------------- topology assignments


MAX_DOMAINS: Final = 100_000
"""Most domains in one slice: the limit of ``roots`` and of ``podCounts.individual``."""


def pack_topology(levels: int, domains: Sequence[Document]) -> list[Document]:
    """Slices for v1beta1 domains (``values`` and ``count``), in their order.

    Raises:
        InvalidValueError: a domain has not one value per level.
    """
    for domain in domains:
        if len(domain["values"]) != levels:
            rule = f"must have one value for each of the {levels} levels"
            raise InvalidValueError(str(domain["values"]), rule)
    starts = range(0, len(domains), MAX_DOMAINS)
    return [_slice(domains[start : start + MAX_DOMAINS]) for start in starts]


def unpack_topology(slices: Sequence[Document]) -> list[Document]:
    """The v1beta1 domains of v1beta2 slices, in their order."""
    return [domain for run in slices for domain in _domains(run)]


def _slice(run: Sequence[Document]) -> Document:
    columns = zip(*(domain["values"] for domain in run), strict=True)
    return {
        "domainCount": len(run),
        "valuesPerLevel": [_pack_values(column) for column in columns],
        "podCounts": _pack_counts([domain["count"] for domain in run]),
    }


def _pack_counts(counts: list[int]) -> Document:
    return {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts}


def _pack_values(values: Sequence[str]) -> Document:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common_start(values)
    suffix = _common_start([value[len(prefix) :][::-1] for value in values])[::-1]
    roots = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    parts = {"prefix": prefix, "suffix": suffix}
    return {"individual": {**{k: part for k, part in parts.items() if part}, "roots": roots}}


def _common_start(values: Sequence[str]) -> str:
    """The longest beginning of all values: that of the first and the last in sorted order."""
    first, last = min(values), max(values)
    differ = (index for index, letter in enumerate(first) if last[index : index + 1] != letter)
    return first[: next(differ, len(first))]


def _domains(run: Document) -> Iterator[Document]:
    size = run["domainCount"]
    columns = [_unpack_values(level, size) for level in run["valuesPerLevel"]]
    counts = run["podCounts"].get("individual") or [run["podCounts"]["universal"]] * size
    for index in range(size):
        yield {"values": [column[index] for column in columns], "count": counts[index]}


def _unpack_values(level: Document, size: int) -> Sequence[str]:
    individual = level.get("individual")
    if individual is None:
        return [level["universal"]] * size
    prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
    return [f"{prefix}{root}{suffix}" for root in individual["roots"]]


# ------------------------------------------------------------------------ ConversionReview
# Source: apiextensions.k8s.io/v1 ConversionReview. All objects are converted or none is.

API_VERSION: Final = "apiextensions.k8s.io/v1"


def answer(review: Mapping[str, Any]) -> dict[str, Any]:
    """The review with its response; a failure names the object and the rule.

    Args:
        review: the decoded body.

    Raises:
        InvalidValueError: the body is no ConversionReview; there is no uid to answer to.
    """
    request = review.get("request")
    if review.get("kind") != "ConversionReview" or not isinstance(request, Mapping):
        raise InvalidValueError(
            str(review.get("kind")), "must be a ConversionReview with a request"
        )
    return {
        "apiVersion": API_VERSION,
        "kind": "ConversionReview",
        "response": {"uid": request.get("uid", ""), **_outcome(request)},
    }


def _outcome(request: Mapping[str, Any]) -> dict[str, Any]:
    desired = str(request.get("desiredAPIVersion", ""))
    converted = []
    for document in request.get("objects") or ():
        try:
            converted.append(convert(document, desired))
        except InvalidValueError as error:
            return _failure(document, str(error))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            # A stored object may break a rule that came later: that is an answer, not a crash.
            return _failure(document, f"a field is missing or has the wrong type: {error}")
    return {"convertedObjects": converted, "result": {"status": "Success"}}


def _failure(document: Any, message: str) -> dict[str, Any]:
    return {"result": {"status": "Failure", "message": f"{_name(document)}: {message}"}}


def _name(document: Any) -> str:
    if not isinstance(document, Mapping):
        return "an object that is not a JSON object"
    metadata = document.get("metadata") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    return f"{document.get('kind', '')} {f'{namespace}/' if namespace else ''}{name}"
