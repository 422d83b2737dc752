"""A real API server takes the CRDs, and refuses with Kueue's messages what Kueue refuses."""

import copy
import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from admission.objects import crds, kinds, structural
from tests.controlplane import features
from tests.controlplane.cluster import Cluster
from tests.controlplane.refusals import field_errors, words
from tests.controlplane.rest import RestError
from tests.integration import barekinds
from tests.integration.barekinds import CRDS, GROUP
from tests.objects import schemas

pytestmark = pytest.mark.controlplane

PLURALS = {kind.name: kind.plural for kind in kinds.KINDS}
NAMESPACED = {kind.name for kind in kinds.KINDS if kind.namespaced}

Document = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with barekinds.started() as found:
        yield found


def collection(kind: str, version: str = "v1beta2") -> str:
    scope = "/namespaces/default" if kind in NAMESPACED else ""
    return f"{GROUP}/{version}{scope}/{PLURALS[kind]}"


def whole(kind: str, document: Document, version: str = "v1beta2") -> Document:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "x"},
        **copy.deepcopy(document),
    }


def create(cluster: Cluster, kind: str, document: Document, version: str = "v1beta2") -> Document:
    """What the server would store."""
    path = f"{collection(kind, version)}?dryRun=All"
    return cluster.api.post(path, whole(kind, document, version))


def refusal(cluster: Cluster, kind: str, document: Document) -> set[str]:
    with pytest.raises(RestError) as caught:
        create(cluster, kind, document)
    return field_errors(caught.value)


def after_change(
    cluster: Cluster, kind: str, old: Document, new: Document, part: str = ""
) -> set[str]:
    """The field errors of a PUT of the object or of its status; nothing if it is taken."""
    path = f"{collection(kind)}/x"
    cluster.api.post(collection(kind), whole(kind, old))
    try:
        if "status" in old:
            cluster.api.patch(f"{path}/status", {"status": old["status"]})
        stored = cluster.api.get(path)
        changed = {key: stored[key] for key in ("apiVersion", "kind", "metadata")} | new
        cluster.api.text("PUT", f"{path}{part}", changed)
    except RestError as refused:
        return field_errors(refused)
    else:
        return set()
    finally:
        cluster.api.delete(path)


# ------------------------------------------------------------------------------- what is refused

EFFECTS = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
HOSTNAME = {"nodeLabel": "kubernetes.io/hostname"}
RACK = {"nodeLabel": "example.com/rack"}


def toleration(**fields: Any) -> Document:
    return {"spec": {"tolerations": [fields]}}


def group(covered: tuple[str, ...] = ("cpu",), **quota: Any) -> Document:
    resources = [{"name": "cpu", "nominalQuota": 1, **quota}]
    return {
        "coveredResources": list(covered),
        "flavors": [{"name": "f", "resources": resources}],
    }


def pod_set(**fields: Any) -> Document:
    return {"template": {"spec": {"containers": [{"name": "c"}]}}, **fields}


def workload(*pod_sets: Document, **spec: Any) -> Document:
    return {"spec": {"podSets": list(pod_sets) or [pod_set()], **spec}}


def check(controller: str) -> Document:
    return {"spec": {"controllerName": controller}}


def levels(*members: Document) -> Document:
    return {"spec": {"levels": list(members)}}


KUEUE_CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "a"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "a"}
HOSTNAME_LAST = (
    "levels are mutable only when kubernetes.io/hostname is the lowest level both before and"
    " after the change"
)

REFUSED_ON_CREATE = [
    ("ResourceFlavor", {"spec": {"nodeTaints": [{"key": "a", "effect": "x"}]}},
     "spec.nodeTaints", EFFECTS),
    ("ResourceFlavor", toleration(operator="Equal"), "spec.tolerations",
     "operator must be Exists when 'key' is empty, which means 'match all values and all keys'"),
    ("ResourceFlavor", toleration(value="no key, no operator"), "spec.tolerations",
     "operator must be Exists when 'key' is empty, which means 'match all values and all keys'"),
    ("ResourceFlavor", toleration(key="a", tolerationSeconds=1), "spec.tolerations",
     "effect must be 'NoExecute' when 'tolerationSeconds' is set"),
    ("ResourceFlavor", toleration(key="a", operator="Gt"), "spec.tolerations",
     "supported toleration values: 'Equal'(default), 'Exists'"),
    ("ResourceFlavor", toleration(key="a", operator="Exists", value="v"), "spec.tolerations",
     "a value must be empty when 'operator' is 'Exists'"),
    ("ResourceFlavor", toleration(key="a", effect="x"), "spec.tolerations", EFFECTS),
    ("ResourceFlavor", {"spec": {"topologyName": "t"}}, "spec",
     "at least one nodeLabel is required when topology is set"),
    ("ResourceFlavor", {"spec": {"topologyName": "t", "nodeLabels": {}}}, "spec",
     "at least one nodeLabel is required when topology is set"),
    ("ClusterQueue", {"spec": {"resourceGroups": [group(("cpu", "memory"))]}},
     "spec.resourceGroups[0]",
     "flavors must have the same number of resources as the coveredResources"),
    ("Cohort", {"spec": {"resourceGroups": [group(("cpu", "memory"))]}},
     "spec.resourceGroups[0]",
     "flavors must have the same number of resources as the coveredResources"),
    ("ClusterQueue", {"spec": {"resourceGroups": [group(borrowingLimit=0)]}}, "spec",
     "borrowingLimit must be nil when cohort is empty"),
    ("ClusterQueue", {"spec": {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}},
     "spec.preemption", "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"),
    ("ClusterQueue", {"spec": {"flavorFungibility": {"preference": "BorrowingOverPreemption"}}},
     "spec.flavorFungibility",
     "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"),
    ("Topology", levels(RACK, RACK), "spec.levels", "must be unique"),
    ("Topology", levels(HOSTNAME, RACK), "spec.levels",
     "the kubernetes.io/hostname label can only be used at the lowest level of topology"),
    ("Workload", workload(pod_set(count=1, minCount=2)), "spec.podSets[0]",
     "minCount should be positive and less or equal to count"),
    ("Workload", workload(priorityClassRef=POD_CLASS), "spec",
     "priority should not be nil when priorityClassRef is set"),
    ("Workload",
     workload(priority=1, priorityClassRef={**POD_CLASS, "kind": "WorkloadPriorityClass"}),
     "spec.priorityClassRef",
     "only the PriorityClass kind is allowed for the scheduling.k8s.io group"),
    ("Workload",
     workload(priority=1, priorityClassRef={**KUEUE_CLASS, "kind": "PriorityClass"}),
     "spec.priorityClassRef",
     "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "document", "path", "message"), REFUSED_ON_CREATE)
def test_a_rule_refuses_a_new_object(
    cluster: Cluster, kind: str, document: Document, path: str, message: str
) -> None:
    assert refusal(cluster, kind, document) == {words(f"{path}: Invalid value: {message}")}


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("ResourceFlavor", {"spec": {"nodeTaints": [{"key": "a", "effect": "NoExecute"}]}}),
        ("ResourceFlavor", toleration(operator="Exists")),
        ("ResourceFlavor", toleration(key="", value="v")),
        ("ResourceFlavor", toleration(key="a", effect="NoExecute", tolerationSeconds=1)),
        ("ResourceFlavor", {"spec": {"topologyName": "t", "nodeLabels": {"a": ""}}}),
        ("ClusterQueue", {}),
        ("ClusterQueue", {"spec": {
            "cohortName": "a", "resourceGroups": [group(borrowingLimit=0)]}}),
        ("ClusterQueue", {"spec": {"resourceGroups": [group(lendingLimit="1e3")]}}),
        ("ClusterQueue", {"spec": {"preemption": {
            "reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}}}),
        ("ClusterQueue", {"spec": {"flavorFungibility": {
            "preference": "PreemptionOverBorrowing", "whenCanBorrow": "TryNextFlavor"}}}),
        ("Cohort", {"spec": {"resourceGroups": [group(borrowingLimit=1)]}}),
        ("LocalQueue", {"spec": {}}),
        ("Topology", levels(RACK, HOSTNAME)),
        ("Workload", {"spec": {}}),
        ("Workload", workload(pod_set(count=2, minCount=2))),
        ("Workload", workload(priority=0, priorityClassRef=KUEUE_CLASS)),
        ("Workload", workload(*(pod_set(name=f"p{n}") for n in range(18)))),
    ],
)  # fmt: skip
def test_what_the_rules_allow_is_taken(cluster: Cluster, kind: str, document: Document) -> None:
    assert create(cluster, kind, document)["metadata"]["name"] == "x"


def condition(kind: str) -> Document:
    return {
        "type": kind,
        "status": "True",
        "reason": kind,
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


def held(*assignments: str) -> Document:
    """Status of a workload with quota."""
    names = [{"name": name} for name in assignments or ("main",)]
    return {
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
        "admission": {"clusterQueue": "cq", "podSetAssignments": names},
    }


def holding(**spec: Any) -> Document:
    return {**workload(priority=1, **spec), "status": held()}


WHILE = "immutable while workload quota reserved"
POD_CLASS_NAME = (
    "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota"
    " reserved"
)

TOLERATED = {"tolerations": [{"key": "a", "operator": "Exists"}]}
CHANGES = [
    ("ResourceFlavor", {"spec": {"topologyName": "t", "nodeLabels": {"a": ""}}},
     {"spec": {"topologyName": "u", "nodeLabels": {"a": ""}}},
     "spec", "topologyName is immutable when topologyName is set"),
    ("ResourceFlavor", {"spec": {"topologyName": "t", "nodeLabels": {"a": ""}}},
     {"spec": {"nodeLabels": {"a": ""}}},
     "spec", "topologyName is immutable when topologyName is set"),
    ("ResourceFlavor", {"spec": {"nodeLabels": {"a": ""}}},
     {"spec": {"topologyName": "t", "nodeLabels": {"b": ""}}}, "", ""),
    *(("ResourceFlavor", {"spec": {"topologyName": "t", "nodeLabels": {"a": "", "b": ""}}},
       {"spec": {"topologyName": "t", "nodeLabels": labels}},
       "spec", "nodeLabels are immutable when topologyName is set")
      for labels in ({"a": ""}, {"a": "", "b": "c"})),
    *(("ResourceFlavor", {"spec": {"topologyName": "t", "nodeLabels": {"a": ""}, **before}},
       {"spec": {"topologyName": "t", "nodeLabels": {"a": ""}, **after}},
       "spec", "tolerations are immutable when topologyName is set")
      for before, after in ((TOLERATED, {}), ({}, TOLERATED))),
    ("ResourceFlavor", {"spec": {"topologyName": "t", "nodeLabels": {"a": ""}}},
     {"spec": {"topologyName": "t", "nodeLabels": {"a": ""},
               "nodeTaints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}, "", ""),
    ("LocalQueue", {"spec": {"clusterQueue": "a"}}, {"spec": {"clusterQueue": "b"}},
     "spec.clusterQueue", '"b": field is immutable'),
    ("LocalQueue", {"spec": {"clusterQueue": "a"}}, {"spec": {}}, "", ""),
    ("LocalQueue", {"spec": {}}, {"spec": {"clusterQueue": "a"}}, "", ""),
    ("AdmissionCheck", check("a"), check("b"), "spec.controllerName", '"b": field is immutable'),
    ("Topology", levels(RACK), levels(RACK, HOSTNAME), "spec.levels",
     HOSTNAME_LAST),
    ("Topology", levels(HOSTNAME), levels(RACK, HOSTNAME), "", ""),
    ("WorkloadPriorityClass", {"value": 1}, {"value": 2}, "", ""),
    ("Workload", holding(), workload(priority=1, priorityClassRef=KUEUE_CLASS),
     "<nil>", f"priorityClassRef is {WHILE}"),
    ("Workload", holding(priorityClassRef=KUEUE_CLASS), workload(priority=1),
     "<nil>", f"priorityClassRef is {WHILE}"),
    ("Workload", holding(priorityClassRef=POD_CLASS),
     workload(priority=1, priorityClassRef={**POD_CLASS, "name": "b"}),
     "<nil>",
     POD_CLASS_NAME),
    ("Workload", holding(priorityClassRef=KUEUE_CLASS),
     workload(priority=1, priorityClassRef={**KUEUE_CLASS, "name": "b"}), "", ""),
    ("Workload", holding(queueName="a"), workload(queueName="b"),
     "<nil>", f"queueName is {WHILE}"),
    ("Workload", holding(queueName="a"), workload(), "<nil>", f"queueName is {WHILE}"),
    ("Workload", holding(), workload(queueName="a"), "<nil>", f"queueName is {WHILE}"),
    ("Workload", holding(), workload(maximumExecutionTimeSeconds=9),
     "<nil>", f"maximumExecutionTimeSeconds is {WHILE}"),
    ("Workload", holding(), workload(priority=7, active=False), "", ""),
    ("Workload", workload(queueName="a", priority=1, priorityClassRef=POD_CLASS),
     workload(queueName="b", maximumExecutionTimeSeconds=9), "", ""),
    ("Workload", {**workload(queueName="a", priority=1, priorityClassRef=POD_CLASS),
                  "status": {"conditions": [{**condition("QuotaReserved"), "status": "False"}]}},
     workload(priority=1, maximumExecutionTimeSeconds=9), "", ""),
    ("Workload", holding(), {"spec": None},
     "<nil>", "podSetAssignments must have the same number of podSets as the spec"),
    ("Workload", {"status": {**held(), "admission": None}}, workload(), "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "old", "new", "path", "message"), CHANGES)
def test_a_rule_judges_a_change(
    cluster: Cluster, kind: str, old: Document, new: Document, path: str, message: str
) -> None:
    want = {words(f"{path}: Invalid value: {message}")} if message else set()
    assert after_change(cluster, kind, old, new) == want


def test_the_class_of_a_workload_with_quota_keeps_its_group_and_kind(cluster: Cluster) -> None:
    new = workload(priority=1, priorityClassRef=POD_CLASS)
    assert after_change(cluster, "Workload", holding(priorityClassRef=KUEUE_CLASS), new) == {
        f"<nil>: Invalid value: priorityClassRef.group is {WHILE}",
        f"<nil>: Invalid value: priorityClassRef.kind is {WHILE}",
    }


def topology(**changes: Any) -> Document:
    """Status with one slice of two domains."""
    one = {
        "domainCount": 2,
        "valuesPerLevel": [{"individual": {"roots": ["a", "b"]}}],
        "podCounts": {"universal": 1},
        **changes,
    }
    status = held()
    assignment = {"levels": ["rack"], "slices": [one]}
    status["admission"]["podSetAssignments"][0]["topologyAssignment"] = assignment
    return status


ASSIGNMENT = "status.admission.podSetAssignments[0].topologyAssignment"
ONE_PER_LEVEL = (
    "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment"
)
ONE_PER_DOMAIN = (
    "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this"
    " TopologyAssignmentSlice"
)
ONE_OF = "exactly one of the fields in [universal individual] must be set"


def updating(update: Document) -> Document:
    """Status with a check that adds something to the pods."""
    state = {
        "name": "a",
        "state": "Ready",
        "message": "",
        "podSetUpdates": [{"name": "main", **update}],
    }
    return {"admissionChecks": [{**state, "lastTransitionTime": "2026-01-02T03:04:05Z"}]}


STATUSES = [
    ({}, held("main", "other"), "<nil>",
     "podSetAssignments must have the same number of podSets as the spec"),
    ({"clusterName": "a"}, {"clusterName": "b"}, "status", "clusterName is immutable once set"),
    ({"clusterName": "a"}, {}, "", ""),
    ({}, {"clusterName": "a", "nominatedClusterNames": ["a"]}, "status",
     "clusterName and nominatedClusterNames are mutually exclusive"),
    ({}, {"clusterName": "a", "nominatedClusterNames": []}, "", ""),
    ({}, topology(), "", ""),
    ({}, topology(valuesPerLevel=[{"universal": "a"}, {"universal": "b"}]), ASSIGNMENT,
     ONE_PER_LEVEL),
    ({}, topology(podCounts={"individual": [1]}), f"{ASSIGNMENT}.slices[0]",
     "podCounts.individual must have length equal to domainCount"),
    ({}, topology(valuesPerLevel=[{"individual": {"roots": ["a"]}}]), f"{ASSIGNMENT}.slices[0]",
     ONE_PER_DOMAIN),
    ({}, topology(podCounts={}), f"{ASSIGNMENT}.slices[0].podCounts", ONE_OF),
    ({}, topology(valuesPerLevel=[{}]), f"{ASSIGNMENT}.slices[0].valuesPerLevel[0]", ONE_OF),
    *(({}, updating(document["spec"]), "status.admissionChecks[0].podSetUpdates[0].tolerations",
       message)
      for _, document, path, message in REFUSED_ON_CREATE if path == "spec.tolerations"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "path", "message"), STATUSES)
def test_a_rule_judges_a_status(
    cluster: Cluster, old: Document, new: Document, path: str, message: str
) -> None:
    before = {**workload(), "status": old}
    after = {**workload(), "status": new}
    want = {words(f"{path}: Invalid value: {message}")} if message else set()
    assert after_change(cluster, "Workload", before, after, "/status") == want


def rules(kind: str, schema: Document, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Kind, path and message of every CEL rule."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield kind, path, rule["message"]
    for name, child in schema.get("properties", {}).items():
        yield from rules(kind, child, f"{path}.{name}".removeprefix("."))
    if isinstance(schema.get("items"), dict):
        yield from rules(kind, schema["items"], f"{path}[0]")


def test_every_rule_of_every_schema_is_broken_by_a_case() -> None:
    broken = {
        ("Workload", "", f"priorityClassRef.{part} is {WHILE}") for part in ("group", "kind")
    }
    broken |= {(kind, path, message) for kind, _, path, message in REFUSED_ON_CREATE}
    broken |= {(kind, path, message) for kind, _, _, path, message in CHANGES if message}
    broken |= {("Workload", path, message) for _, _, path, message in STATUSES if message}
    plain = {
        (kind, path.replace("<nil>", ""), message.rpartition('": ')[2])
        for kind, path, message in broken
    }
    assert plain == {
        rule for kind, schema in schemas.stored().items() for rule in rules(kind, schema)
    }


# ------------------------------------------------- the embedded store's checks against the server

BROKEN = [
    ("WorkloadPriorityClass", {}),
    ("WorkloadPriorityClass", {"value": "7"}),
    ("WorkloadPriorityClass", {"value": True}),
    ("WorkloadPriorityClass", {"value": 1.5}),
    ("WorkloadPriorityClass", {"value": -(2**31) - 1}),
    ("WorkloadPriorityClass", {"value": 2**63}),
    ("ResourceFlavor", {"spec": {"tolerations": [
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -(2**63) - 1}]}}),
    ("WorkloadPriorityClass", {"value": 1, "description": "é" * 2049}),
    ("ResourceFlavor", {"spec": 7}),
    ("ResourceFlavor", {"spec": {"nodeTaints": [{}]}}),
    ("ResourceFlavor", {"spec": {"nodeTaints": [{"key": "a", "effect": "x", "timeAdded": "y"}]}}),
    ("ResourceFlavor", {"spec": {"nodeTaints": [{"key": "a", "effect": "x", "timeAdded": 5}]}}),
    ("ResourceFlavor", {"spec": {"nodeTaints": [
        {"key": "a", "effect": "x", "timeAdded": "2026-01-01 00:00:00Z"}]}}),
    ("ResourceFlavor", {"spec": {"nodeLabels": {str(n): "" for n in range(9)}}}),
    ("ResourceFlavor", {"spec": {"nodeLabels": {"a.b/c": 5}}}),
    ("ResourceFlavor", {"spec": {"tolerations": [{"key": "a"}] * 9}}),
    ("ClusterQueue", {"spec": {"stopPolicy": "x", "queueingStrategy": 5}}),
    ("ClusterQueue", {"spec": {"resourceGroups": [None]}}),
    ("ClusterQueue", {"spec": {"resourceGroups": [group(("x",) * 65)] * 17}}),
    ("ClusterQueue", {"spec": {"resourceGroups": [group(lendingLimit="1x")]}}),
    ("ClusterQueue", {"spec": {"resourceGroups": [group(nominalQuota=True)]}}),
    ("ClusterQueue", {"spec": {"resourceGroups": [{"coveredResources": ["a", "b"], "flavors": [
        {"name": "f", "resources": [{"name": "a", "nominalQuota": 1}] * 2}]}]}}),
    ("ClusterQueue", {"spec": {"resourceGroups": [{"coveredResources": [], "flavors": []}]}}),
    ("ClusterQueue", {"spec": {"admissionChecksStrategy": {"admissionChecks": [
        {"name": "a", "onFlavors": ["x", "y", "x", "x"]}, {"name": "a"}]}}}),
    ("Cohort", {"spec": {"parentName": "A" * 254, "fairSharing": {"weight": "-x"}}}),
    ("LocalQueue", {"spec": {"clusterQueue": ""}}),
    ("AdmissionCheck", {"spec": {
        "controllerName": "", "parameters": {"apiGroup": "", "kind": "-", "name": "a" * 64}}}),
    ("Topology", {"spec": {"levels": []}}),
    ("Topology", {"spec": {}}),
    ("Workload", workload(*(pod_set(name=f"p{n}") for n in range(19)))),
    ("Workload", workload(pod_set(), pod_set(count=-1), pod_set(name="b", minCount=0))),
    ("Workload", workload(pod_set(name="a\n"), active="x", priority=2**31, queueName="")),
    ("Workload", workload({"name": "a"})),
    ("Workload", workload(pod_set(template={"spec": {}}))),
    ("Workload", workload(pod_set(template={"spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": True, "memory": "x"}}},
        {"name": "c", "ports": [{"containerPort": 1}, {"containerPort": 1}]}]}}))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "document"), BROKEN)
def test_the_stores_checks_say_what_the_server_says(
    cluster: Cluster, kind: str, document: Document
) -> None:
    local = whole(kind, document)
    structural.prune(schemas.stored()[kind], local)
    structural.defaults(schemas.stored()[kind], local)
    told = set(structural.errors(schemas.stored()[kind], local))
    assert told
    if not features.CHECKS_FORMATS:
        told = {error for error in told if " with format int" not in error}
        if not told:
            pytest.skip("this version does not check how many bits an integer has")
    told = {words(error) for error in told}
    assert told == refusal(cluster, kind, document)


TAKEN = [
    ("ClusterQueue", {"spec": {}}),
    ("ClusterQueue", {"spec": {"stopPolicy": None, "preemption": None, "cohortName": None}}),
    ("ClusterQueue", {"spec": {"namespaceSelector": {"x": 1}, "fairSharing": {"weight": None}}}),
    ("Cohort", {"spec": {"fairSharing": {}}, "unknown": {"a": 1}}),
    ("LocalQueue", {"spec": {}}),
    ("AdmissionCheck", {"spec": {"controllerName": "a", "x": [1]}}),
    ("ResourceFlavor", {"spec": {"nodeLabels": {"a": None, "b": ""}}}),
    ("Workload", {"spec": {"priority": 1}, "x": 1}),
    ("Workload", workload(pod_set(template={
        "metadata": {"labels": {"a": "b"}, "uid": "gone", "ownerReferences": []},
        "spec": {
            "containers": [{"name": "c", "ports": [{"containerPort": 1}], "x": 1}],
            "imagePullSecrets": [{}],
            "volumes": [{"name": "v", "configMap": {}}],
        },
    }))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "document"), TAKEN)
def test_the_store_defaults_and_prunes_as_the_server_does(
    cluster: Cluster, kind: str, document: Document
) -> None:
    local = whole(kind, document)
    structural.prune(schemas.stored()[kind], local)
    structural.defaults(schemas.stored()[kind], local)
    stored = create(cluster, kind, document)
    assert {**stored, "metadata": {"name": "x"}} == local


# ------------------------------------------------------------------------ how the kinds are served


def fetch(cluster: Cluster, path: str, accept: str) -> tuple[Document, str]:
    """Body and ``Warning`` header of a GET."""
    headers = {"Authorization": f"Bearer {cluster.admin_token}", "Accept": accept}
    request = urllib.request.Request(f"{cluster.url}{path}", headers=headers)
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    with urllib.request.urlopen(request, context=context) as answer:
        return json.load(answer), answer.headers.get("Warning") or ""


def test_the_older_version_is_served_where_no_webhook_is_needed(cluster: Cluster) -> None:
    served = {r["kind"] for r in cluster.api.get(f"{GROUP}/v1beta1")["resources"]}
    assert served == {"AdmissionCheck", "ResourceFlavor", "Topology", "WorkloadPriorityClass"}


def test_the_older_version_warns(cluster: Cluster) -> None:
    _, warning = fetch(cluster, f"{GROUP}/v1beta1/resourceflavors", "application/json")
    assert warning == '299 - "This version is deprecated. Use v1beta2 instead."'


@pytest.mark.parametrize(
    ("kind", "document", "columns", "row"),
    [
        pytest.param(
            "ClusterQueue",
            {"spec": {"cohortName": "all"}, "status": {"pendingWorkloads": 3}},
            [
                "Name",
                "Cohort",
                "Strategy",
                "Pending Workloads",
                "Admitted Workloads",
                "GPUs",
                "Active",
            ],
            ["x", "all", "BestEffortFIFO", 3, None],
            id="ClusterQueue",
        ),
        pytest.param(
            "LocalQueue",
            {"spec": {"clusterQueue": "cq"}, "status": {"admittedWorkloads": 2}},
            ["Name", "ClusterQueue", "Pending Workloads", "Admitted Workloads", "Active"],
            ["x", "cq", None, 2],
            id="LocalQueue",
        ),
        pytest.param(
            "Workload",
            {**workload(queueName="a"), "status": held()},
            ["Name", "Queue", "Reserved in", "Admitted", "Finished", "Age", "Reason"],
            ["x", "a", "cq", "True", None],
            id="Workload",
        ),
        pytest.param(
            "WorkloadPriorityClass", {"value": 5}, ["Name", "Value"], ["x", 5], id="priority class"
        ),
    ],
)
def test_printer_columns(
    cluster: Cluster, kind: str, document: Document, columns: list[str], row: list[Any]
) -> None:
    path = f"{collection(kind)}/x"
    cluster.api.post(collection(kind), whole(kind, document))
    try:
        if "status" in document:
            cluster.api.patch(f"{path}/status", {"status": document["status"]})
        table, _ = fetch(cluster, path, "application/json;as=Table;v=v1;g=meta.k8s.io")
    finally:
        cluster.api.delete(path)
    assert [column["name"] for column in table["columnDefinitions"]] == columns
    assert table["rows"][0]["cells"][: len(row)] == row


def test_workloads_are_selected_by_their_cluster_queue(cluster: Cluster) -> None:
    cluster.api.post(collection("Workload"), whole("Workload", workload()))
    try:
        cluster.api.patch(f"{collection('Workload')}/x/status", {"status": held()})
        selector = f"{collection('Workload')}?fieldSelector=status.admission.clusterQueue%3D"
        found = {
            queue: len(cluster.api.get(f"{selector}{queue}")["items"]) for queue in ("cq", "other")
        }
    finally:
        cluster.api.delete(f"{collection('Workload')}/x")
    assert found == {"cq": 1, "other": 0}


def test_a_status_sent_on_creation_is_dropped(cluster: Cluster) -> None:
    assert "status" not in create(cluster, "Workload", {**workload(), "status": held()})


def test_both_versions_are_accepted_with_a_conversion_webhook(cluster: Cluster) -> None:
    """Also of the costs of all CEL rules, where v1beta1 has lists without an upper limit."""
    conversion = crds.ConversionConfig(client_config={"url": "https://127.0.0.1:1/convert"})
    for document in crds.documents(conversion):
        name = document["metadata"]["name"]
        query = "fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
        path = f"{CRDS}/{name}?{query}"
        applied = cluster.api.patch(path, document, "application/apply-patch+yaml")
        served = [version["name"] for version in applied["spec"]["versions"]]
        assert served == ["v1beta1", "v1beta2"], name
