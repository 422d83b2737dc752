"""Webhooks in front of the embedded store."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.sandbox.embedded.reviews import WebhookCaller, WriteOperation
from admission.sandbox.store import ADMIN, Store
from tests.builders.pods import make_pod
from tests.contract import objects

Document = dict[str, Any]


class Webhook:
    """Notes what it is asked and answers as told."""

    def __init__(self, *operations: Document, **response: Any) -> None:
        self.requests: list[Document] = []
        self._response = {"allowed": True, **response}
        if operations:
            self._response["patch"] = base64.b64encode(json.dumps(operations).encode()).decode()
            self._response["patchType"] = "JSONPatch"

    def __call__(self, review: Mapping[str, Any]) -> Document:
        assert (review["apiVersion"], review["kind"]) == (
            "admission.k8s.io/v1",
            "AdmissionReview",
        )
        self.requests.append(review["request"])
        response = {"uid": review["request"]["uid"], **self._response}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def reviewer(call: Any, *, mutating: bool = True, **options: Any) -> WebhookCaller:
    return WebhookCaller(
        name="pods.example.com", resource=resources.PODS, mutating=mutating, call=call, **options
    )


def add(path: str, value: object) -> Document:
    return {"op": "add", "path": path, "value": value}


GATE = add("/spec/schedulingGates", [{"name": objects.GATE}])
UNGATE = patches.json_patch([{"op": "remove", "path": "/spec/schedulingGates"}])


def test_a_new_pod_is_reviewed_with_defaults_but_without_identity():
    webhook = Webhook()
    store = Store(reviewers=[reviewer(webhook)])
    document = make_pod("a", limits={"nvidia.com/gpu": 1})
    document["metadata"] = {"generateName": "run-"}
    store.create(resources.PODS, document, "default")
    (request,) = webhook.requests
    assert (request["operation"], request["namespace"], request["name"]) == (
        "CREATE",
        "default",
        "",
    )
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert request["oldObject"] is None
    assert request["userInfo"]["username"] == ADMIN
    assert request["object"]["metadata"] == {"generateName": "run-", "namespace": "default"}
    wanted = request["object"]["spec"]["containers"][0]["resources"]["requests"]
    assert wanted == {"nvidia.com/gpu": "1"}


def test_reviewers_change_a_pod_one_after_the_other():
    second = Webhook(add("/metadata/labels", {"second": "1"}))
    store = Store(reviewers=[reviewer(Webhook(GATE)), reviewer(second)])
    made = store.create(resources.PODS, make_pod("a"), "default")
    assert made["spec"]["schedulingGates"] == [{"name": objects.GATE}]
    assert made["metadata"]["labels"] == {"second": "1"}
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert second.requests[0]["object"]["spec"]["schedulingGates"] == [{"name": objects.GATE}]


def test_a_validating_reviewer_sees_what_will_be_stored():
    webhook = Webhook()
    store = Store(reviewers=[reviewer(webhook, mutating=False), reviewer(Webhook(GATE))])
    document = make_pod("a")
    document["metadata"] = {"generateName": "run-"}
    made = store.create(resources.PODS, document, "default")
    seen = webhook.requests[0]["object"]
    assert seen["spec"] == made["spec"]
    assert seen["metadata"]["name"] == made["metadata"]["name"]


def test_a_denial_is_passed_on_with_its_code():
    webhook = Webhook(allowed=False, status={"code": 403, "message": "no queue"})
    store = Store(reviewers=[reviewer(webhook)])
    with pytest.raises(errors.ForbiddenError) as refused:
        store.create(resources.PODS, make_pod("a"), "default")
    assert (
        str(refused.value) == 'admission webhook "pods.example.com" denied the request: no queue'
    )
    assert store.list(resources.PODS).items == ()


def failing(_: Mapping[str, Any]) -> Document:
    raise OSError("connection refused")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (failing, "connection refused"),
        (lambda _: {"response": {"uid": "another", "allowed": True}}, "expected response.uid"),
        (lambda _: {}, "expected response.uid"),
        (Webhook(patch="%%%"), "not base64"),
    ],
    ids=["raises", "wrong uid", "no response", "no base64"],
)
def test_a_call_that_fails_refuses_the_write(call: Any, message: str):
    store = Store(reviewers=[reviewer(call)])
    with pytest.raises(errors.ServerError, match="failed calling webhook") as refused:
        store.create(resources.PODS, make_pod("a"), "default")
    assert message in str(refused.value)


def test_what_a_reviewer_made_wrong_is_refused():
    webhook = Webhook(add("/spec/containers", []))
    store = Store(reviewers=[reviewer(webhook)])
    with pytest.raises(errors.InvalidError, match=r"spec\.containers: Required value"):
        store.create(resources.PODS, make_pod("a"), "default")


def test_warnings_reach_whoever_writes():
    told: list[str] = []
    webhook = Webhook(warnings=["the queue is full", "come back later"])
    store = Store(reviewers=[reviewer(webhook)], warn=told.append)
    store.create(resources.PODS, make_pod("a"), "default")
    assert told == ["the queue is full", "come back later"]


def test_an_update_shows_old_and_new():
    webhook = Webhook()
    store = Store(reviewers=[reviewer(webhook, mutating=False)])
    store.create(resources.PODS, make_pod("a", gates=[objects.GATE]), "default")
    store.patch(resources.PODS, "a", UNGATE, "default")
    request = webhook.requests[-1]
    assert (request["operation"], request["name"]) == ("UPDATE", "a")
    assert "schedulingGates" in request["oldObject"]["spec"]
    assert "schedulingGates" not in request["object"]["spec"]


def test_a_status_write_is_not_reviewed():
    webhook = Webhook()
    store = Store(reviewers=[reviewer(webhook)])
    store.create(resources.PODS, make_pod("a"), "default")
    running = patches.merge({"status": {"phase": "Running"}})
    store.patch(resources.PODS, "a", running, "default", subresource="status")
    assert [request["operation"] for request in webhook.requests] == ["CREATE"]


def test_only_the_named_operations_and_matching_requests_are_reviewed():
    deletions, others = Webhook(), Webhook()
    store = Store(
        reviewers=[
            reviewer(deletions, mutating=False, operations=frozenset({WriteOperation.DELETE})),
            reviewer(others, match=lambda request: request["userInfo"]["username"] != "ours"),
        ]
    )
    store.as_user("ours").create(resources.PODS, make_pod("a"), "default")
    assert others.requests == []
    store.delete(resources.PODS, "a", "default")
    (request,) = deletions.requests
    assert (request["operation"], request["object"]) == ("DELETE", None)
    assert request["oldObject"]["metadata"]["name"] == "a"


def test_a_reviewer_may_read_the_store_and_write_to_it():
    store = Store()

    def nosy(review: Mapping[str, Any]) -> Document:
        name = review["request"]["object"]["metadata"]["name"]
        store.create(resources.CONFIG_MAPS, {"metadata": {"name": name}}, "default")
        return {"response": {"uid": review["request"]["uid"], "allowed": True}}

    store.reviewers.append(reviewer(nosy))
    store.create(resources.PODS, make_pod("a"), "default")
    assert store.get(resources.CONFIG_MAPS, "a", "default")


def test_an_object_that_changes_under_review_is_reviewed_again():
    store = Store()
    store.create(resources.PODS, make_pod("a", gates=[objects.GATE]), "default")
    seen: list[Document] = []

    def meddling(review: Mapping[str, Any]) -> Document:
        seen.append(review["request"]["object"])
        if len(seen) == 1:
            status = patches.merge({"status": {"phase": "Failed"}})
            store.patch(resources.PODS, "a", status, "default", subresource="status")
        return {"response": {"uid": review["request"]["uid"], "allowed": True}}

    store.reviewers.append(reviewer(meddling))
    changed = store.patch(
        resources.PODS, "a", patches.merge({"metadata": {"labels": {"x": "y"}}}), "default"
    )
    assert len(seen) == 2
    assert changed["status"]["phase"] == "Failed"
    assert changed["metadata"]["labels"] == {"x": "y"}
