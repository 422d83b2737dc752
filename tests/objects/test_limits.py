"""The schemas have the limits of Kueue's schemas, all of them and no others."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from admission.objects import structural
from tests.objects import limits, schemas, whole
from tests.objects.limits import Broken
from tests.objects.test_conversion_of_every_field import META

LIMITS = (
    "enum", "maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minimum",
    "pattern", "format",
)  # fmt: skip
Place = tuple[str, str, str]
"""Kind, path, and keyword of a limit."""


@pytest.mark.parametrize("case", limits.ALL, ids=str)
def test_a_broken_limit_is_told(case: Broken) -> None:
    document = case.document({"metadata": {"name": "x"}, **whole.NEW[case.kind]})
    errors = structural.errors(schemas.stored()[case.kind], document)
    assert case.is_told_by(errors), errors


def stated(kind: str, schema: dict[str, Any], path: str) -> Iterator[Place]:
    """The limits of a schema but those of pod templates."""
    for keyword in LIMITS:
        if keyword in schema and not (keyword == "maxLength" and "enum" in schema):
            yield kind, path, keyword
    if schema.get("x-kubernetes-list-type") in {"map", "set"}:
        yield kind, path, "x-kubernetes-list-type"
    for name in schema.get("required", ()):
        yield kind, f"{path}.{name}", "required"
    for name, child in schema.get("properties", {}).items():
        if name != "template" and (path or name not in META):
            yield from stated(kind, child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from stated(kind, schema[key], f"{path}[]")


def place(case: Broken) -> Place:
    limit = case.limit
    is_of_item = limit.keyword != "x-kubernetes-list-type"
    path = re.sub(r"\[\d+\]", "[]", case.path + (limit.where if is_of_item else ""))
    by_key = (
        "flavors",
        "resourceUsage",
        "resources",
        "consumedResources",
        "clusterQueueMaxPerUser",
    )
    for keyed in by_key:
        path = path.replace(f"{keyed}.cpu", f"{keyed}[]")
    return case.kind, f".{path}", limit.keyword


def test_every_limit_of_a_schema_has_its_case_and_every_case_its_limit() -> None:
    known = {one for kind, found in schemas.stored().items() for one in stated(kind, found, "")}
    cases = {place(case) for case in limits.ALL if case.limit.keyword != "type"}
    template = {one for one in cases if ".template." in one[1]}
    assert known == cases - template


LISTS = {
    "AdmissionCheck": {".status.conditions": ["type"]},
    "ClusterQueue": {
        ".spec.resourceGroups": "atomic",
        ".spec.resourceGroups[].coveredResources": "atomic",
        ".spec.resourceGroups[].flavors": ["name"],
        ".spec.resourceGroups[].flavors[].resources": ["name"],
        ".spec.namespaceSelector.matchExpressions": "atomic",
        ".spec.namespaceSelector.matchExpressions[].values": "atomic",
        ".spec.admissionChecksStrategy.admissionChecks": ["name"],
        ".spec.admissionChecksStrategy.admissionChecks[].onFlavors": "set",
        ".status.conditions": ["type"],
        ".status.flavorsReservation": ["name"],
        ".status.flavorsReservation[].resources": ["name"],
        ".status.flavorsUsage": ["name"],
        ".status.flavorsUsage[].resources": ["name"],
        ".status.withoutNode": ["name"],
        ".status.withoutNode[].resources": ["name"],
    },
    "Cohort": {
        ".spec.resourceGroups": "atomic",
        ".spec.resourceGroups[].coveredResources": "atomic",
        ".spec.resourceGroups[].flavors": ["name"],
        ".spec.resourceGroups[].flavors[].resources": ["name"],
    },
    "LocalQueue": {
        ".status.conditions": ["type"],
        ".status.flavorsReservation": ["name"],
        ".status.flavorsReservation[].resources": ["name"],
        ".status.flavorsUsage": ["name"],
        ".status.flavorsUsage[].resources": ["name"],
        ".status.nominalQuota": ["name"],
        ".status.nominalQuota[].resources": ["name"],
    },
    "ResourceFlavor": {".spec.nodeTaints": "atomic", ".spec.tolerations": "atomic"},
    "Topology": {".spec.levels": "atomic"},
    "Workload": {
        ".spec.podSets": ["name"],
        ".spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints": "atomic",
        ".spec.preemptionGates": ["name"],
        ".status.conditions": ["type"],
        ".status.admission.podSetAssignments": ["name"],
        ".status.admission.podSetAssignments[].topologyAssignment.levels": "atomic",
        ".status.admission.podSetAssignments[].topologyAssignment.slices": "atomic",
        ".status.admission.podSetAssignments[].topologyAssignment.slices[].valuesPerLevel":
            "atomic",
        ".status.admission.podSetAssignments[].topologyAssignment.slices[].valuesPerLevel[]"
        ".individual.roots": "atomic",
        ".status.admission.podSetAssignments[].topologyAssignment.slices[].podCounts.individual":
            "atomic",
        ".status.reclaimablePods": ["name"],
        ".status.admissionChecks": ["name"],
        ".status.admissionChecks[].podSetUpdates": "atomic",
        ".status.admissionChecks[].podSetUpdates[].tolerations": "atomic",
        ".status.resourceRequests": ["name"],
        ".status.schedulingStats.evictions": ["reason", "underlyingCause"],
        ".status.nominatedClusterNames": "atomic",
        ".status.unhealthyNodes": ["name"],
        ".status.preemptionGates": ["name"],
    },
    "WorkloadPriorityClass": {},
}  # fmt: skip
"""The lists of each kind: atomic, set, or the keys of its items."""


@pytest.mark.parametrize("kind", sorted(LISTS))
def test_every_list_says_how_it_is_merged(kind: str) -> None:
    assert dict(lists(schemas.stored()[kind], "")) == LISTS[kind]


def lists(schema: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    if schema.get("type") == "array":
        keys = schema.get("x-kubernetes-list-map-keys")
        yield path, keys or schema["x-kubernetes-list-type"]
    for name, child in schema.get("properties", {}).items():
        if name != "template" and (path or name not in META):
            yield from lists(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from lists(schema[key], f"{path}[]")


MAPS = {
    "ClusterQueue": {".spec.namespaceSelector"},
    "ResourceFlavor": {".spec.nodeLabels"},
}
"""Objects and maps that are replaced as a whole."""


@pytest.mark.parametrize("kind", sorted(LISTS))
def test_every_map_says_how_it_is_merged(kind: str) -> None:
    assert set(atomic_maps(schemas.stored()[kind], "")) == MAPS.get(kind, set())


def atomic_maps(schema: dict[str, Any], path: str) -> Iterator[str]:
    if "x-kubernetes-map-type" in schema:
        assert schema["x-kubernetes-map-type"] == "atomic"
        yield path
    for name, child in schema.get("properties", {}).items():
        if name != "template":
            yield from atomic_maps(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from atomic_maps(schema[key], f"{path}[]")
