"""Requests and answers of the webhook, through the Flask client."""

import json
from typing import Any

import jsonpatch
import pytest

from admission.webhook import pod_review
from admission.webhook.metrics import WebhookMetrics
from tests.builders.pods import make_pod
from tests.webhook import reviews
from tests.webhook.reviews import MUTATE, UID, VALIDATE, make_app, make_review, post


@pytest.fixture
def client():
    return make_app().test_client()


def refused(code: int, reason: str, message: str, uid: str = "") -> dict[str, Any]:
    status = {"code": code, "reason": reason, "message": message}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": False, "status": status},
    }


def test_a_gpu_pod_is_answered_with_a_patch_that_applies(client):
    pod = make_pod(gpus=1)
    answer = post(client, MUTATE, make_review(pod))
    assert answer["response"]["uid"] == UID
    assert answer["response"]["allowed"] is True
    after = jsonpatch.apply_patch(pod, reviews.patch_of(answer))
    assert after["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert after["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    after_review = post(client, VALIDATE, make_review(after))
    assert after_review["response"] == {"uid": UID, "allowed": True}


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
def test_a_pod_that_is_not_ours_is_allowed_as_it_is(client, path):
    assert post(client, path, make_review(make_pod(requests={"cpu": "1"}))) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": UID, "allowed": True},
    }


def test_a_broken_rule_is_denied_with_its_field():
    client = make_app().test_client()
    pod = make_pod(labels={"kueue.x-k8s.io/managed": "no"})
    assert post(client, VALIDATE, make_review(pod)) == refused(
        403,
        "Forbidden",
        "metadata.labels[kueue.x-k8s.io/managed]: Forbidden: managed label value can only be"
        " 'true'",
        UID,
    )


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        ("DELETE", {"object": None, "oldObject": make_pod(gpus=1)}),
        ("UPDATE", {"oldObject": make_pod(gpus=1)}),
        ("CONNECT", {}),
        ("CREATE", {"subResource": "eviction"}),
    ],
)
def test_only_creation_is_mutated(client, operation, changes):
    review = make_review(make_pod(gpus=1), operation=operation)
    review["request"].update(changes)
    assert post(client, MUTATE, review)["response"] == {"uid": UID, "allowed": True}


def test_an_update_is_judged_against_the_stored_pod(client):
    old = make_pod(labels={"kueue.x-k8s.io/queue-name": "default"})
    new = make_pod(labels={"kueue.x-k8s.io/queue-name": "other"})
    answer = post(client, VALIDATE, make_review(new, operation="UPDATE", oldObject=old))
    assert answer["response"]["status"]["message"] == (
        'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "other": field is immutable'
    )


JSON_ERROR = "request body cannot be read: "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", refused(400, "BadRequest", "request body is empty, expected an AdmissionReview")),
        (b"{", refused(400, "BadRequest", JSON_ERROR + "Input data was truncated")),
        (b"[]", refused(400, "BadRequest", JSON_ERROR + "Expected `object`, got `array`")),
        (b"null", refused(400, "BadRequest", JSON_ERROR + "Expected `object`, got `null`")),
        (
            b"{}",
            refused(
                400,
                "BadRequest",
                "body is no version without a kind, expected admission.k8s.io/v1 AdmissionReview",
            ),
        ),
        (
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
            refused(400, "BadRequest", "review has no request"),
        ),
        (
            {**make_review(None), "apiVersion": "admission.k8s.io/v1beta1"},
            refused(
                400,
                "BadRequest",
                "body is admission.k8s.io/v1beta1 AdmissionReview,"
                " expected admission.k8s.io/v1 AdmissionReview",
                UID,
            ),
        ),
        (
            {**make_review(None), "kind": "Pod"},
            refused(
                400,
                "BadRequest",
                "body is admission.k8s.io/v1 Pod, expected admission.k8s.io/v1 AdmissionReview",
                UID,
            ),
        ),
        (make_review(None, uid=""), refused(400, "BadRequest", "request has no uid")),
        (
            make_review({}, kind={"group": "batch", "version": "v1", "kind": "Job"}),
            refused(
                400, "BadRequest", "request is about batch/v1 Job, expected core/v1 Pod", UID
            ),
        ),
        (
            make_review({"spec": {"containers": [{"name": 3}]}}),
            refused(
                400,
                "BadRequest",
                JSON_ERROR
                + "Expected `str`, got `int` - at `$.request.object.spec.containers[0].name`",
                UID,
            ),
        ),
    ],
    ids=[
        "empty", "cut off", "a list", "null", "an empty object", "no request", "another version",
        "another kind of body", "no uid", "another kind of object", "a pod with a wrong type",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
def test_what_is_no_review_of_a_pod_is_refused_with_400(client, path, body, expected):
    assert post(client, path, body) == expected


def test_invalid_utf_8_is_refused(client):
    body = json.dumps(make_review(make_pod())).encode().replace(b"jane", b"ja\xff\xff")
    status = post(client, MUTATE, body)["response"]["status"]
    assert (status["code"], status["reason"]) == (400, "BadRequest")


def test_nesting_without_end_is_refused(client):
    depth = 200_000
    affinity = b'{"a":' * depth + b"1" + b"}" * depth
    body = json.dumps(make_review(make_pod(affinity="@"))).encode().replace(b'"@"', affinity)
    assert post(client, MUTATE, body)["response"]["status"]["code"] == 400


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/yaml; charset=utf-8"])
def test_another_content_type_is_refused(client, content_type):
    answer = post(client, MUTATE, make_review(make_pod()), content_type=content_type)
    shown = content_type.partition(";")[0] or "missing"
    message = f"content type is {shown}, expected application/json"
    assert answer == refused(415, "UnsupportedMediaType", message)


def test_parameters_of_the_content_type_do_not_matter(client):
    review = make_review(make_pod())
    answer = post(client, MUTATE, review, content_type="Application/JSON; charset=utf-8")
    assert answer["response"]["allowed"] is True


def test_a_body_over_the_limit_is_refused_with_413():
    client = make_app(max_body_bytes=1024).test_client()
    answer = post(client, MUTATE, make_review(make_pod(labels={"a": "x" * 1024})))
    assert answer == refused(
        413, "RequestEntityTooLarge", "request body is larger than 1024 bytes", uid=UID
    )


def test_a_bug_is_answered_with_500_in_the_review_and_counted(monkeypatch):
    def fail(*_arguments):
        raise ZeroDivisionError("by hand")

    metrics = WebhookMetrics()
    client = make_app(metrics=metrics).test_client()
    monkeypatch.setattr(pod_review, "mutate", fail)
    answer = post(client, MUTATE, make_review(make_pod()))
    message = "internal error of gpu-admission: ZeroDivisionError: by hand"
    assert answer == refused(500, "InternalError", message, UID)
    labels = {"path": MUTATE, "outcome": "failed"}
    name = "gpu_admission_webhook_reviews_total"
    assert metrics.registry.get_sample_value(name, labels) == 1


def test_reviews_are_counted_by_outcome_and_pods_by_standing(client):
    post(client, MUTATE, make_review(make_pod(gpus=1)))
    post(client, MUTATE, make_review(make_pod()))
    post(client, MUTATE, b"{")
    text = client.get("/metrics").text
    for line in (
        'reviews_total{outcome="patched",path="/mutate--v1-pod"} 1.0',
        'reviews_total{outcome="allowed",path="/mutate--v1-pod"} 1.0',
        'reviews_total{outcome="malformed",path="/mutate--v1-pod"} 1.0',
        'pods_total{standing="queued"} 1.0',
        'pods_total{standing="free"} 1.0',
        'review_duration_seconds_bucket{le="0.001",path="/mutate--v1-pod"} 3.0',
        "ready 1.0",
    ):
        assert f"gpu_admission_webhook_{line}" in text


def test_what_is_no_review_is_counted_as_one_that_took_no_time():
    metrics = WebhookMetrics()
    post(make_app(metrics=metrics).test_client(), MUTATE, b"{")
    name = "gpu_admission_webhook_review_duration_seconds"
    values = (
        metrics.registry.get_sample_value(f"{name}_{part}", {"path": MUTATE})
        for part in ("count", "sum")
    )
    assert tuple(values) == (1, 0)


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), (MUTATE, 405)])
def test_other_routes_and_methods_are_refused(client, path, status):
    assert client.get(path).status_code == status
