"""What a real API server makes of the schemas of both versions, beside the conversion webhook.

Every field of Kueue's schemas is known, every limit is told, defaults are set, and each version
shows what the other wrote, to its last field.
"""

import copy
import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from admission.objects import kinds
from tests.controlplane import features
from tests.controlplane.refusals import field_errors, words
from tests.controlplane.rest import Json, RestError
from tests.integration import snapshot
from tests.integration.reviewed import (
    KINDS,
    Reviewed,
    collection,
    wait_documented,
)
from tests.objects import limits, schemas, whole
from tests.objects.case import Document, identified
from tests.objects.limits import Broken

pytestmark = pytest.mark.controlplane

OLD, NEW = kinds.DEPRECATED, kinds.STORED
SPECIFIED = {kind for kind, document in whole.NEW.items() if "spec" in document}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    with snapshot.reviewed(tmp_path_factory.mktemp("schemas")) as it:
        yield it


def store(system: Reviewed, kind: str, version: str, document: Document, name: str) -> None:
    """Writes an object and its status; a field that the version does not know is an error."""
    path = f"{collection(kind, version)}/{name}"
    strict = "fieldValidation=Strict"
    plain = {key: part for key, part in document.items() if key != "status"}
    plain = {**plain, "metadata": {"name": name}}
    system.api.post(f"{collection(kind, version)}?{strict}", identified(kind, plain, version))
    status = document.get("status")
    if status is None:
        return
    if status.get("clusterName"):
        nominated = {"status": {"nominatedClusterNames": [status["clusterName"]]}}
        system.api.patch(f"{path}/status", nominated)
    stored = system.api.get(path)
    system.api.text("PUT", f"{path}/status?{strict}", {**stored, "status": status})


def remove(system: Reviewed, kind: str, name: str) -> None:
    path = f"{collection(kind)}/{name}"
    system.api.patch(path, {"metadata": {"finalizers": None}})
    system.api.delete(path)


def parts(found: Json) -> Json:
    return {k: v for k, v in found.items() if k not in {"apiVersion", "kind", "metadata"}}


# ------------------------------------------------------------------------ every field, both ways


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    ("version", "other", "shown"),
    [(OLD, NEW, whole.UP), (NEW, OLD, whole.DOWN)],
    ids=["from v1beta1 to v1beta2", "from v1beta2 to v1beta1"],
)
def test_every_field_is_taken_and_shown_in_the_other_version(
    system: Reviewed, kind: str, version: str, other: str, shown: dict[str, Document]
) -> None:
    store(system, kind, version, whole.WRITTEN[version][kind], "both")
    try:
        found = system.api.get(f"{collection(kind, other)}/both")
        again = system.api.get(f"{collection(kind, version)}/both")
    finally:
        remove(system, kind, "both")
    assert parts(found) == shown[kind]
    assert again["apiVersion"] == f"kueue.x-k8s.io/{version}"
    assert parts(again) == (whole.BACK if version == OLD else whole.NEW)[kind]


# ----------------------------------------------------------------------------------- every limit


@pytest.fixture(scope="module")
def stored(system: Reviewed) -> Reviewed:
    """The installation with the whole object of every kind that has a status."""
    for kind, document in whole.NEW.items():
        if "status" in document:
            store(system, kind, NEW, document, "whole")
    return system


def rules(schema: Document) -> Iterator[str]:
    """Messages of the CEL rules of a schema and of everything below it."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for child in schema.get("properties", {}).values():
        yield from rules(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from rules(schema[key])


@pytest.mark.parametrize(
    "case",
    [case for case in limits.ALL if features.CHECKS_FORMATS or case.limit.keyword != "format"],
    ids=str,
)
def test_a_broken_limit_is_told(stored: Reviewed, case: Broken) -> None:
    method, path = "POST", collection(case.kind)
    document = identified(case.kind, whole.NEW[case.kind])
    if case.is_status:
        method, path = "PUT", f"{path}/whole/status"
        document = stored.api.get(path.removesuffix("/status"))
    with pytest.raises(RestError) as caught:
        stored.api.text(method, f"{path}?dryRun=All", case.document(document))
    # Where a value is only too small, rules of CEL are asked, too, and may not like it either.
    messages = tuple(rules(schemas.stored()[case.kind]))
    errors = {error for error in field_errors(caught.value) if not error.endswith(messages)}
    assert case.is_told_by(errors, words), errors


# -------------------------------------------------------------------------------------- defaults

QUEUE = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    "preemption": {
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
        "borrowWithinCohort": {"policy": "Never"},
    },
}
BARE = {"template": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1}]}]}}}
PORTS = [{"containerPort": 1, "protocol": "TCP"}]
FILLED = {
    "name": "main", "count": 1,
    "template": {"spec": {"containers": [{"name": "c", "ports": PORTS}]}},
}  # fmt: skip
CHECK = {"controllerName": "example.com/c"}

DEFAULTS = [
    (NEW, "ClusterQueue", {}, QUEUE),
    (OLD, "ClusterQueue", {}, QUEUE),
    (NEW, "ClusterQueue", {"flavorFungibility": {}, "preemption": {"borrowWithinCohort": {}}},
     QUEUE),
    (NEW, "ClusterQueue", {"fairSharing": {}}, {**QUEUE, "fairSharing": {"weight": 1}}),
    (NEW, "Cohort", {}, {}),
    (NEW, "Cohort", {"fairSharing": {}}, {"fairSharing": {"weight": 1}}),
    (NEW, "LocalQueue", {}, {"stopPolicy": "None"}),
    (NEW, "LocalQueue", {"fairSharing": {}}, {"stopPolicy": "None", "fairSharing": {"weight": 1}}),
    (NEW, "ResourceFlavor", {}, {}),
    (NEW, "AdmissionCheck", CHECK, CHECK),
    # Its v1beta1 has a default more, which the server does not show: nothing converts the kind.
    (OLD, "AdmissionCheck", CHECK, CHECK),
    (NEW, "Workload", {}, {"active": True}),
    (NEW, "Workload", {"podSets": [BARE]}, {"active": True, "podSets": [FILLED]}),
    (OLD, "Workload", {"podSets": [{**BARE, "count": 1}]},
     {"active": True, "podSets": [FILLED], "priorityClassSource": ""}),
]  # fmt: skip


@pytest.mark.parametrize(("version", "kind", "given", "want"), DEFAULTS)
def test_a_spec_gets_its_defaults(
    system: Reviewed, version: str, kind: str, given: Document, want: Document
) -> None:
    path = f"{collection(kind, version)}?dryRun=All"
    assert system.api.post(path, identified(kind, {"spec": given}, version))["spec"] == want


@pytest.mark.parametrize("kind", sorted({"ClusterQueue", "Cohort", "LocalQueue", "Workload"}))
def test_an_absent_spec_stays_absent(system: Reviewed, kind: str) -> None:
    made = system.api.post(f"{collection(kind)}?dryRun=All", identified(kind, {}))
    assert "spec" not in made


@pytest.mark.parametrize("field", ["flavors", "admissionChecks"])
def test_server_side_apply_merges_the_items_of_a_list_by_their_names(
    system: Reviewed, field: str
) -> None:
    """And replaces an atomic list as a whole: the resource groups around the flavors."""
    path = f"{collection('ClusterQueue')}/merged"
    shapes: dict[str, Any] = {
        "flavors": lambda name: {"resourceGroups": [{
            "coveredResources": ["cpu"],
            "flavors": [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]}],
        }]},
        "admissionChecks": lambda name: {
            "admissionChecksStrategy": {"admissionChecks": [{"name": name}]},
        },
    }  # fmt: skip
    for name in ("a", "b"):
        document = {"metadata": {"name": "merged"}, "spec": shapes[field](name)}
        system.api.patch(
            f"{path}?fieldManager={name}&force=true",
            identified("ClusterQueue", document),
            "application/apply-patch+yaml",
        )
    spec = system.api.get(path)["spec"]
    remove(system, "ClusterQueue", "merged")
    if field == "flavors":
        assert [one["name"] for one in spec["resourceGroups"][0]["flavors"]] == ["b"]
    else:
        checks = spec["admissionChecksStrategy"]["admissionChecks"]
        assert [one["name"] for one in checks] == ["a", "b"]


# -------------------------------------------------------------- rules that v1beta1 alone has

KUEUE_SOURCE = "kueue.x-k8s.io/workloadpriorityclass"
POD_SOURCE = "scheduling.k8s.io/priorityclass"
WHILE = "immutable while workload quota reserved"
RESERVED = {
    "conditions": [{**whole.ACTIVE, "type": "QuotaReserved"}],
    "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main"}]},
}


def classed(name: str, source: str) -> Document:
    spec = {
        "podSets": [{**BARE, "name": "main", "count": 1}],
        "priorityClassName": name, "priorityClassSource": source, "priority": 1,
    }  # fmt: skip
    return {"spec": spec, "status": RESERVED}


def unprioritized() -> Document:
    document = copy.deepcopy(classed("a", POD_SOURCE))
    del document["spec"]["priority"]
    return document


def levels(*labels: str) -> Document:
    return {"spec": {"levels": [{"nodeLabel": label} for label in labels]}}


HOST = "kubernetes.io/hostname"
BORROWS: Document = {"spec": {"resourceGroups": [{
    "coveredResources": ["cpu"],
    "flavors": [
        {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1, "borrowingLimit": 1}]}
    ],
}]}}  # fmt: skip

OLDER: list[tuple[str, Document, Document, str, str]] = [
    ("Workload", {}, unprioritized(), "spec",
     "priority should not be nil when priorityClassName is set"),
    ("Workload", classed("a", KUEUE_SOURCE), classed("a", POD_SOURCE), "<nil>",
     f"priorityClassSource is {WHILE}"),
    ("Workload", classed("a", POD_SOURCE), classed("b", POD_SOURCE), "<nil>",
     f"priorityClassName is {WHILE} and priorityClassSource is not equal to {KUEUE_SOURCE}"),
    ("Workload", classed("a", KUEUE_SOURCE), classed("b", KUEUE_SOURCE), "", ""),
    ("Topology", levels("rack", HOST), levels("block", HOST), "spec.levels",
     "field is immutable"),
    ("ClusterQueue", {}, BORROWS, "spec", "borrowingLimit must be nil when cohort is empty"),
]  # fmt: skip


def test_every_rule_that_the_older_version_alone_has_is_among_the_cases() -> None:
    def messages(version: str) -> set[tuple[str, str]]:
        found = schemas.of_version(version).items()
        return {(kind, text) for kind, schema in found for text in rules(schema)}

    assert messages(OLD) - messages(NEW) <= {(kind, text) for kind, _, _, _, text in OLDER}


@pytest.mark.parametrize(("kind", "old", "new", "path", "message"), OLDER)
def test_a_rule_judges_the_older_version(
    system: Reviewed, kind: str, old: Document, new: Document, path: str, message: str
) -> None:
    target = f"{collection(kind, OLD)}/older"
    if old:
        store(system, kind, OLD, old, "older")
    try:
        if old:
            stored = system.api.get(target)
            spec = {**stored["spec"], **new["spec"]}
            system.api.text("PUT", target, {**stored, "spec": spec})
        else:
            document = {k: v for k, v in new.items() if k != "status"}
            system.api.post(f"{collection(kind, OLD)}?dryRun=All", identified(kind, document, OLD))
    except RestError as refused:
        shown = {line.partition(": Invalid value: ") for line in field_errors(refused)}
        assert {(at, text.rpartition(": ")[2]) for at, _, text in shown} == {(path, message)}
    else:
        assert not message
    finally:
        if old:
            remove(system, kind, "older")


# ------------------------------------------------------------------------ how the kinds are served


def table(system: Reviewed, path: str) -> Json:
    headers = {
        "Authorization": f"Bearer {system.cluster.admin_token}",
        "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
    }
    request = urllib.request.Request(f"{system.cluster.url}{path}", headers=headers)
    context = ssl.create_default_context(cafile=str(system.cluster.ca_file))
    with urllib.request.urlopen(request, context=context) as answer:
        found: Json = json.load(answer)
    return found


NAME, AGE = ("Name", "string", 0), ("Age", "date", 0)
PENDING = ("Pending Workloads", "integer", 0)
COLUMNS = {
    "AdmissionCheck": [NAME, AGE],
    "ClusterQueue": [
        NAME, ("Cohort", "string", 0), ("Strategy", "string", 1), PENDING,
        ("Admitted Workloads", "integer", 1), ("GPUs", "string", 0), ("Active", "string", 0),
    ],
    "Cohort": [NAME, AGE],
    "LocalQueue": [
        NAME, ("ClusterQueue", "string", 0), PENDING, ("Admitted Workloads", "integer", 0),
        ("Active", "string", 1),
    ],
    "ResourceFlavor": [NAME, AGE],
    "Topology": [NAME, AGE],
    "Workload": [
        NAME, ("Queue", "string", 0), ("Reserved in", "string", 0), ("Admitted", "string", 0),
        ("Finished", "string", 0), AGE, ("Reason", "string", 1),
    ],
    "WorkloadPriorityClass": [NAME, ("Value", "integer", 0)],
}  # fmt: skip


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("kind", sorted(COLUMNS))
def test_the_columns_of_a_kind(system: Reviewed, kind: str, version: str) -> None:
    found = table(system, collection(kind, version))["columnDefinitions"]
    assert [(one["name"], one["type"], one["priority"]) for one in found] == COLUMNS[kind]


def test_the_cells_of_the_older_version_read_its_own_fields(stored: Reviewed) -> None:
    for version in (OLD, NEW):
        row = table(stored, f"{collection('ClusterQueue', version)}/whole")["rows"][0]
        assert row["cells"] == ["whole", "all", "StrictFIFO", 3, 1, "9 of 16", "True"]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_discovery_shows_names_scope_and_status(system: Reviewed, version: str) -> None:
    found = system.api.get(f"/apis/kueue.x-k8s.io/{version}")["resources"]
    shown = {
        one["name"]: (
            one["kind"], one["singularName"], one.get("shortNames"), one["namespaced"],
            one.get("categories"),
        )
        for one in found
        if "/" not in one["name"]
    }  # fmt: skip
    assert shown == {
        kind.plural: (
            kind.name, kind.name.lower(), list(kind.short_names), kind.namespaced, None,
        )
        for kind in kinds.KINDS
    }  # fmt: skip
    parts = {one["name"] for one in found if "/" in one["name"]}
    assert parts == {f"{kind.plural}/status" for kind in kinds.KINDS if kind.has_status}


def test_only_the_newer_version_selects_workloads_by_their_cluster_queue(
    stored: Reviewed,
) -> None:
    query = "?fieldSelector=status.admission.clusterQueue%3Dcq"
    assert len(stored.api.get(f"{collection('Workload')}{query}")["items"]) == 1
    with pytest.raises(RestError) as caught:
        stored.api.get(f"{collection('Workload', OLD)}{query}")
    assert caught.value.status == 400


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_published_schema_documents_every_kind(system: Reviewed, version: str) -> None:
    wait_documented(system)
    document = system.api.get(f"/openapi/v3/apis/kueue.x-k8s.io/{version}")
    published = document["components"]["schemas"]
    for kind, schema in schemas.of_version(version).items():
        found = published[f"io.x-k8s.kueue.{version}.{kind}"]
        assert found["description"] == schema["description"]
        for name in SPECIFIED & {kind} and {"spec"}:
            wanted = schema["properties"][name]["properties"]
            shown = found["properties"][name]["properties"]
            assert {key: field["description"] for key, field in shown.items()} == {
                key: field["description"] for key, field in wanted.items()
            }
