"""Merge and JSON patches, and the status subresource."""

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import views
from tests.builders.pods import make_pod
from tests.contract import objects


def test_a_merge_patch_sets_merges_and_deletes(api: Api, namespace: str):
    document = objects.limit_range("a", keep="1", drop="2")
    made = api.create(resources.LIMIT_RANGES, document, namespace)
    change = {
        "metadata": {
            "labels": {"drop": None, "new": "3"},
            "resourceVersion": made["metadata"]["resourceVersion"],
        }
    }
    changed = api.patch(resources.LIMIT_RANGES, "a", patches.merge(change), namespace)
    assert changed["metadata"]["labels"] == {"keep": "1", "new": "3"}
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]


def test_the_last_label_leaves_no_empty_map(api: Api, namespace: str):
    api.create(resources.LIMIT_RANGES, objects.limit_range("a", only="1"), namespace)
    change = patches.merge({"metadata": {"labels": {"only": None}}})
    changed = api.patch(resources.LIMIT_RANGES, "a", change, namespace)
    assert "labels" not in changed["metadata"]


def test_a_json_patch_works_with_its_preconditions(api: Api, namespace: str):
    made = api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    metadata = made["metadata"]
    operations = [
        patches.test("/metadata/uid", metadata["uid"]),
        patches.test("/metadata/resourceVersion", metadata["resourceVersion"]),
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": patches.pointer("metadata", "labels", "a/b"), "value": "c"},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]
    changed = api.patch(resources.PODS, "a", patches.json_patch(operations), namespace)
    assert changed["metadata"]["labels"] == {"a/b": "c"}
    assert "schedulingGates" not in changed["spec"]
    with pytest.raises(errors.InvalidError):
        api.patch(resources.PODS, "a", patches.json_patch(operations), namespace)


def test_a_strategic_patch_sets_one_condition_of_a_pod_and_leaves_the_others(
    api: Api, namespace: str
):
    made = api.create(resources.PODS, make_pod("a"), namespace)
    for kind, status in (("Ready", "True"), ("Doomed", "False"), ("Doomed", "True")):
        condition = {"type": kind, "status": status, "reason": "Test"}
        uid = {"uid": made["metadata"]["uid"]}
        change = patches.strategic({"metadata": uid, "status": {"conditions": [condition]}})
        api.patch(resources.PODS, "a", change, namespace, subresource="status")
    stored = api.get(resources.PODS, "a", namespace)
    said = {one["type"]: one["status"] for one in stored["status"]["conditions"]}
    assert {kind: said[kind] for kind in ("Ready", "Doomed")} == {
        "Ready": "True",
        "Doomed": "True",
    }
    other = patches.strategic({"metadata": {"uid": "other"}, "status": {"phase": "Failed"}})
    with pytest.raises(errors.InvalidError):
        api.patch(resources.PODS, "a", other, namespace, subresource="status")


def test_a_patch_that_changes_nothing_is_no_new_version(api: Api, namespace: str):
    made = api.create(resources.PODS, make_pod("a"), namespace, into=views.Pod)
    change = patches.merge({"metadata": {"labels": {"absent": None}}})
    same = api.patch(resources.PODS, "a", change, namespace, into=views.Pod)
    assert same.metadata.resource_version == made.metadata.resource_version


def test_a_status_survives_writes_of_the_object(api: Api, namespace: str):
    document = objects.local_queue() | {"status": {"pendingWorkloads": 1}}
    made = api.create(resources.LOCAL_QUEUES, document, namespace)
    assert "pendingWorkloads" not in made.get("status", {})

    status = patches.merge({"status": {"pendingWorkloads": 2}})
    api.patch(resources.LOCAL_QUEUES, "a", status, namespace, subresource="status")
    spec = patches.merge({"spec": {"stopPolicy": "Hold"}, "status": {"pendingWorkloads": 3}})
    changed = api.patch(resources.LOCAL_QUEUES, "a", spec, namespace)
    assert changed["spec"]["stopPolicy"] == "Hold"
    assert changed["status"]["pendingWorkloads"] == 2


def test_a_status_write_of_a_custom_object_touches_nothing_else(api: Api, namespace: str):
    api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    change = patches.merge(
        {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"stopPolicy": "Hold"},
            "status": {"conditions": [objects.condition("Stopped")]},
        }
    )
    changed = api.patch(resources.LOCAL_QUEUES, "a", change, namespace, subresource="status")
    assert "labels" not in changed["metadata"]
    assert changed["spec"].get("stopPolicy") == "None"
    assert changed["status"]["conditions"][0]["reason"] == "Stopped"


def test_a_status_write_of_a_pod_leaves_its_spec(api: Api, namespace: str):
    api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    change = patches.merge({"spec": {"schedulingGates": None}, "status": {"phase": "Failed"}})
    changed = api.patch(resources.PODS, "a", change, namespace, subresource="status")
    assert changed["spec"]["schedulingGates"] == [{"name": objects.GATE}]
    assert changed["status"]["phase"] == "Failed"


def test_a_status_replace_keeps_the_spec(api: Api, namespace: str):
    made = api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    made["spec"]["stopPolicy"] = "Hold"
    made["status"] = {"pendingWorkloads": 7}
    changed = api.replace(resources.LOCAL_QUEUES, made, subresource="status")
    assert changed["spec"]["stopPolicy"] == "None"
    assert changed["status"]["pendingWorkloads"] == 7
    with pytest.raises(errors.ConflictError):
        api.replace(resources.LOCAL_QUEUES, made, subresource="status")


def test_a_status_replace_needs_nothing_but_the_status(api: Api, namespace: str):
    document = objects.workload(labels={"a": "b"}, finalizers=["example.com/kept"])
    made = api.create(resources.WORKLOADS, document, namespace)
    identity = {key: made["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
    status = {"conditions": [objects.condition("Waiting")]}
    changed = api.replace(
        resources.WORKLOADS, {"metadata": identity, "status": status}, subresource="status"
    )
    assert changed["spec"] == made["spec"]
    kept = ("labels", "finalizers", "uid", "generation", "creationTimestamp")
    assert {k: changed["metadata"][k] for k in kept} == {k: made["metadata"][k] for k in kept}
    assert changed["status"]["conditions"][0]["reason"] == "Waiting"


def test_a_status_replace_takes_away_what_it_does_not_have(api: Api, namespace: str):
    made = api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    made["status"] = {"pendingWorkloads": 7, "admittedWorkloads": 1}
    made = api.replace(resources.LOCAL_QUEUES, made, subresource="status")
    made["status"] = {"pendingWorkloads": 8}
    changed = api.replace(resources.LOCAL_QUEUES, made, subresource="status")
    assert changed["status"] == {"pendingWorkloads": 8}


def test_a_kind_without_status_has_no_status_subresource(api: Api, namespace: str):
    api.create(resources.RESOURCE_FLAVORS, objects.flavor(namespace))
    with pytest.raises(errors.NotFoundError):
        api.patch(resources.RESOURCE_FLAVORS, namespace, patches.merge({}), subresource="status")
