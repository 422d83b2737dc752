"""A real API server serves both versions of every kind, each through the other."""

import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import refusals, waiting
from tests.controlplane.rest import Json, RestError
from tests.gpu import seeds
from tests.integration import snapshot
from tests.integration.installed import run_command
from tests.integration.reviewed import KINDS, Reviewed, collection
from tests.objects.case import Document, condition, group, identified, pod_set, template

pytestmark = pytest.mark.controlplane

OLD, NEW = "v1beta1", "v1beta2"
MAIN = {"name": "main", "count": 2, "template": template({"requests": {"cpu": "1"}})}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    with snapshot.reviewed(tmp_path_factory.mktemp("converted")) as it:
        yield it


def test_both_versions_of_every_kind_are_served(system: Reviewed) -> None:
    for version in (OLD, NEW):
        found = system.api.get(f"/apis/kueue.x-k8s.io/{version}")["resources"]
        assert {r["kind"] for r in found if "/" not in r["name"]} == set(KINDS)


def test_the_newer_version_is_preferred(system: Reviewed) -> None:
    def both() -> Json | None:
        """The group; the aggregator learns of each version by itself."""
        group = system.api.get("/apis/kueue.x-k8s.io")
        return group if {one["version"] for one in group["versions"]} == {OLD, NEW} else None

    found = waiting.until(both, what="both versions in the group")
    assert found["preferredVersion"]["version"] == NEW


def parts(found: Json) -> Json:
    return {key: found.get(key, {}) for key in ("spec", "status")}


def topology(**domains: Any) -> Document:
    assignment = {"levels": ["rack", "kubernetes.io/hostname"], **domains}
    held = {"name": "main", "count": 2, "topologyAssignment": assignment}
    return {
        "conditions": [condition("QuotaReserved")],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [held]},
    }


FUNGIBILITY = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
QUEUE = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "preemption": {
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
        "borrowWithinCohort": {"policy": "Never"},
    },
}
USAGE = [{"name": "f", "resources": [{"name": "cpu", "total": "3"}]}]
SHARED = {"spec": {"parentName": "root", "resourceGroups": [group()]}}

# kind; spec and status as written in one version; as read in the other
FORWARD: list[tuple[str, Document, Document]] = [
    (
        "ClusterQueue",
        {"spec": {
            "cohort": "all", "admissionChecks": ["a", "b"], "resourceGroups": [group()],
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        }},
        {"spec": {
            **QUEUE, "cohortName": "all", "resourceGroups": [group()],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]},
            "flavorFungibility": {
                "whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch",
            },
        }},
    ),
    ("Cohort", SHARED, SHARED),
    (
        "LocalQueue",
        {"spec": {"clusterQueue": "cq"}, "status": {"flavorUsage": USAGE}},
        {"spec": {"clusterQueue": "cq", "stopPolicy": "None"}, "status": {"flavorsUsage": USAGE}},
    ),
    (
        "Workload",
        {
            "spec": {
                "podSets": [MAIN], "priority": 5, "priorityClassName": "high",
                "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
            },
            "status": {
                **topology(domains=[
                    {"values": ["r1", "node-1"], "count": 1},
                    {"values": ["r1", "node-2"], "count": 1},
                ]),
                "accumulatedPastExexcutionTimeSeconds": 7,
            },
        },
        {
            "spec": {
                "active": True, "podSets": [MAIN], "priority": 5, "priorityClassRef": {
                    "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high",
                },
            },
            "status": {
                **topology(slices=[{
                    "domainCount": 2,
                    "valuesPerLevel": [
                        {"universal": "r1"},
                        {"individual": {"prefix": "node-", "roots": ["1", "2"]}},
                    ],
                    "podCounts": {"universal": 1},
                }]),
                "accumulatedPastExecutionTimeSeconds": 7,
            },
        },
    ),
    ("ResourceFlavor", {"spec": {"nodeLabels": {"a": "b"}}}, {"spec": {"nodeLabels": {"a": "b"}}}),
    (
        "AdmissionCheck", {"spec": {"controllerName": "acme.io/c"}},
        {"spec": {"controllerName": "acme.io/c"}},
    ),
]  # fmt: skip

BACKWARD: list[tuple[str, Document, Document]] = [
    (
        "ClusterQueue",
        {"spec": {
            "cohortName": "all", "resourceGroups": [group()],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}]},
            "concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}},
        }},
        {"spec": {
            **QUEUE, "cohort": "all", "resourceGroups": [group()],
            "flavorFungibility": FUNGIBILITY,
            "admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}]},
        }},
    ),
    (
        "LocalQueue",
        {"spec": {"clusterQueue": "cq"}, "status": {"flavorsUsage": USAGE}},
        {"spec": {"clusterQueue": "cq", "stopPolicy": "None"}, "status": {"flavorUsage": USAGE}},
    ),
    (
        "Workload",
        {
            "spec": {
                "podSets": [pod_set(count=2)], "priority": 5, "preemptionGates": [{"name": "a"}],
                "priorityClassRef": {
                    "group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high",
                },
            },
            "status": {
                **topology(slices=[{
                    "domainCount": 2,
                    "valuesPerLevel": [
                        {"universal": "r1"},
                        {"individual": {"prefix": "n", "suffix": ".x", "roots": ["1", "2"]}},
                    ],
                    "podCounts": {"individual": [1, 2]},
                }]),
                "accumulatedPastExecutionTimeSeconds": 7,
            },
        },
        {
            "spec": {
                "active": True, "podSets": [pod_set(count=2)], "priority": 5,
                "priorityClassName": "high",
                "priorityClassSource": "scheduling.k8s.io/priorityclass",
            },
            "status": {
                **topology(domains=[
                    {"values": ["r1", "n1.x"], "count": 1},
                    {"values": ["r1", "n2.x"], "count": 2},
                ]),
                "accumulatedPastExexcutionTimeSeconds": 7,
            },
        },
    ),
]  # fmt: skip


def written(system: Reviewed, kind: str, version: str, document: Document, read: str) -> Json:
    """The object as read in one version, after it was written in another."""
    api, path = system.api, f"{collection(kind, version)}/x"
    whole = identified(kind, {k: v for k, v in document.items() if k != "status"}, version)
    api.post(collection(kind, version), whole)
    try:
        if "status" in document:
            api.patch(f"{path}/status", {"status": document["status"]})
        return parts(api.get(f"{collection(kind, read)}/x"))
    finally:
        api.patch(path, {"metadata": {"finalizers": None}})
        api.delete(path)


@pytest.mark.parametrize(("kind", "old", "new"), FORWARD, ids=[row[0] for row in FORWARD])
def test_what_is_written_in_the_older_version_is_read_in_the_newer(
    system: Reviewed, kind: str, old: Document, new: Document
) -> None:
    assert written(system, kind, OLD, old, NEW) == {"status": {}, **new}


@pytest.mark.parametrize(("kind", "new", "old"), BACKWARD, ids=[row[0] for row in BACKWARD])
def test_what_is_written_in_the_newer_version_is_read_in_the_older(
    system: Reviewed, kind: str, new: Document, old: Document
) -> None:
    assert written(system, kind, NEW, new, OLD) == {"status": {}, **old}


def test_a_list_is_converted_as_a_whole(system: Reviewed) -> None:
    path = collection("LocalQueue")
    for number in range(20):
        document = {"metadata": {"name": f"q{number:02}"}, "spec": {"clusterQueue": "cq"}}
        system.api.post(path, identified("LocalQueue", document))
    items = system.api.get(collection("LocalQueue", OLD))["items"]
    assert [one["metadata"]["name"] for one in items] == [f"q{n:02}" for n in range(20)]
    assert {one["apiVersion"] for one in items} == {f"kueue.x-k8s.io/{OLD}"}
    system.api.delete(path)


def test_both_versions_may_write_one_object(system: Reviewed) -> None:
    """Also what the API server keeps of who wrote which field is converted."""
    old, new = (f"{collection('ClusterQueue', version)}/x" for version in (OLD, NEW))
    apply = "application/apply-patch+yaml"
    first = identified("ClusterQueue", {"spec": {"cohort": "a"}}, OLD)
    system.api.patch(f"{old}?fieldManager=old", first, apply)
    second = identified("ClusterQueue", {"spec": {"stopPolicy": "Hold"}})
    system.api.patch(f"{new}?fieldManager=new&force=true", second, apply)
    third = identified("ClusterQueue", {"spec": {"cohort": "b"}}, OLD)
    found = system.api.patch(f"{old}?fieldManager=old", third, apply)
    assert (found["spec"]["cohort"], found["spec"]["stopPolicy"]) == ("b", "Hold")
    assert system.api.get(new)["spec"]["cohortName"] == "b"
    system.api.patch(new, {"metadata": {"finalizers": None}})
    system.api.delete(new)


def test_rules_hold_for_the_older_version_too(system: Reviewed) -> None:
    quota = {"name": "cpu", "nominalQuota": 1, "lendingLimit": 2}
    flavors = [{"name": "f", "resources": [quota]}]
    spec = {"cohort": "a", "resourceGroups": [group(*flavors)]}
    with pytest.raises(RestError) as caught:
        system.api.post(
            collection("ClusterQueue", OLD), identified("ClusterQueue", {"spec": spec}, OLD)
        )
    assert caught.value.status == 403
    assert json.loads(caught.value.body)["message"] == (
        'admission webhook "vclusterqueue.kb.io" denied the request: spec.resourceGroups[0]'
        '.flavors[0].resources[0].lendingLimit: Invalid value: "2": must be less than or equal to'
        " the nominalQuota"
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_older_version_warns(system: Reviewed, kind: str) -> None:
    cluster = system.cluster
    headers = {"Authorization": f"Bearer {cluster.admin_token}"}
    request = urllib.request.Request(f"{cluster.url}{collection(kind, OLD)}", headers=headers)
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    with urllib.request.urlopen(request, context=context) as answer:
        warning = answer.headers.get("Warning")
    assert warning == '299 - "This version is deprecated. Use v1beta2 instead."'


def test_a_users_manifests_apply_as_they_are_or_say_what_is_wrong(system: Reviewed) -> None:
    system.api.post(
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-training"}},
    )
    flavor, queue, local, workload = seeds.load("kueue")
    apply(system, flavor)
    with pytest.raises(RestError) as caught:
        apply(system, queue)
    assert caught.value.status == 422
    assert refusals.words(json.loads(caught.value.body)["message"]) == (
        'ClusterQueue.kueue.x-k8s.io "gpu-cluster-queue" is invalid: spec: Invalid value:'
        " borrowingLimit must be nil when cohort is empty"
    )
    queue["spec"]["cohort"] = "all"
    for document in (queue, local, workload):
        apply(system, document)
    found = system.api.get(place(workload, NEW))
    assert found["spec"]["podSets"] == workload["spec"]["podSets"]
    assert found["spec"]["priority"] == 100


def apply(system: Reviewed, document: Document) -> None:
    path = place(document, OLD)
    system.api.patch(
        f"{path}?fieldManager=kubectl&fieldValidation=Strict", document,
        "application/apply-patch+yaml",
    )  # fmt: skip


def place(document: Document, version: str) -> str:
    metadata = document["metadata"]
    path = collection(document["kind"], version)
    path = path.replace("/default/", f"/{metadata.get('namespace', '')}/")
    return f"{path}/{metadata['name']}"


def test_without_the_webhook_only_the_older_version_fails(system: Reviewed) -> None:
    path, old = collection("LocalQueue"), f"{collection('LocalQueue', OLD)}/kept"
    document = {"metadata": {"name": "kept"}, "spec": {"clusterQueue": "cq"}}
    system.api.post(path, identified("LocalQueue", document))
    system.stop()
    try:
        assert system.api.get(f"{path}/kept")["spec"]["clusterQueue"] == "cq"
        system.api.patch(f"{path}/kept", {"spec": {"stopPolicy": "Hold"}})
        with pytest.raises(RestError) as caught:
            system.api.get(old)
        assert "conversion webhook" in caught.value.body
    finally:
        system.start()
    assert system.api.get(old)["spec"]["stopPolicy"] == "Hold"


CONVERTED = {"ClusterQueue", "Cohort", "LocalQueue", "Workload"}


def conversions(system: Reviewed) -> float:
    """How often the webhook was asked to convert."""
    _, text = system.page(system.webhook_url, "/metrics")
    name = 'gpu_admission_webhook_review_duration_seconds_count{path="/convert"} '
    return float(next((one for one in text.splitlines() if name in one), "0").split()[-1])


def test_the_older_version_can_be_left_out_and_then_nothing_is_converted(
    system: Reviewed,
) -> None:
    arguments = (
        "install", "--kubeconfig", system.kubeconfig, "--webhook-url", system.webhook_url,
        "--cert-dir", str(system.certificates),
    )  # fmt: skip
    left_out = run_command(*arguments, "--no-older-versions")
    assert left_out.returncode == 0, left_out.stderr
    waiting.until(
        lambda: (
            all(system.api.answers(collection(kind)) for kind in KINDS)
            and not any(system.api.answers(collection(kind, OLD)) for kind in CONVERTED)
        ),
        what="the older version gone",
    )
    left = {OLD: set(KINDS) - CONVERTED, NEW: set(KINDS)}
    waiting.until(
        lambda: system.cluster.kinds("kueue.x-k8s.io") == left,
        what="discovery without the older version",
    )

    def a_write_is_converted() -> bool:
        before = conversions(system)
        document = {"metadata": {"name": "z"}, "spec": {"parentName": "root"}}
        system.api.post(collection("Cohort"), identified("Cohort", document))
        system.api.delete(f"{collection('Cohort')}/z")
        return conversions(system) != before

    # The API server lets go of what it kept for the older version a moment later.
    waiting.until(lambda: not a_write_is_converted(), what="a write that nothing converts")


def test_everything_is_taken_out_without_the_webhook(system: Reviewed) -> None:
    """The last test: the objects of the others, some written in the older version, go too."""
    system.stop()
    done = run_command("uninstall", "--yes", "--kubeconfig", system.kubeconfig)
    assert done.returncode == 0, done.stderr
    waiting.until(
        lambda: not system.api.answers(collection("ClusterQueue")), what="the kinds are gone"
    )
