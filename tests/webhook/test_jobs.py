"""Reviews of Jobs over HTTP: what is answered, and what is no review of a Job."""

import json
from typing import Any

import jsonpatch
import pytest
from flask.testing import FlaskClient

from admission.base import names
from tests.builders.jobs import make_job
from tests.webhook import reviews

MUTATE, VALIDATE = "/mutate-batch-v1-job", "/validate-batch-v1-job"
PROTECT = "/protect-batch-v1-job"
KIND = {"group": "batch", "version": "v1", "kind": "Job"}


@pytest.fixture
def client() -> FlaskClient:
    return reviews.make_app().test_client()


def review(job: dict[str, Any], **request: Any) -> dict[str, Any]:
    return reviews.make_review(job, **{"kind": KIND, **request})


def test_a_gpu_job_is_answered_with_a_patch_that_suspends_it(client: FlaskClient) -> None:
    job = make_job(gpus=1)
    answer = reviews.post(client, MUTATE, review(job))
    after = jsonpatch.apply_patch(job, reviews.patch_of(answer))
    assert after["spec"]["suspend"] is True
    assert after["metadata"]["labels"] == {names.QUEUE_LABEL: "default"}


@pytest.mark.parametrize(
    ("job", "request_"),
    [
        (make_job(gpus=0), {}),
        (make_job(gpus=1), {"operation": "UPDATE"}),
        (make_job(gpus=1), {"subResource": "status"}),
    ],
    ids=["no GPU", "update", "status"],
)
def test_what_needs_no_change_is_allowed(
    client: FlaskClient, job: dict[str, Any], request_: dict[str, Any]
) -> None:
    response = reviews.post(client, MUTATE, review(job, **request_))["response"]
    assert response == {"uid": reviews.UID, "allowed": True}


def test_a_broken_rule_is_denied_with_its_field(client: FlaskClient) -> None:
    job = make_job(annotations={names.JOB_MIN_PARALLELISM: "5"})
    response = reviews.post(client, VALIDATE, review(job))["response"]
    assert response["status"]["code"] == 403
    assert "should be between 0 and 1" in response["status"]["message"]


def test_an_update_is_judged_against_the_stored_job(client: FlaskClient) -> None:
    old, new = (make_job(labels={names.QUEUE_LABEL: queue}) for queue in ("a", "b"))
    update = review(new, operation="UPDATE", oldObject=old)
    response = reviews.post(client, VALIDATE, update)["response"]
    assert "field is immutable" in response["status"]["message"]


@pytest.mark.parametrize(("operation", "allowed"), [("UPDATE", False), ("CREATE", True)])
def test_only_a_change_is_judged_by_what_editors_may_do(
    client: FlaskClient, operation: str, *, allowed: bool
) -> None:
    old, new = make_job(), make_job(annotations={names.OUTSIDE_QUOTA: "true"})
    change = review(new, operation=operation, oldObject=old)
    response = reviews.post(client, PROTECT, change)["response"]
    assert response["allowed"] is allowed
    assert allowed or "only administrators may set it" in response["status"]["message"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (json.dumps(reviews.make_review({})).encode(), "expected batch/v1 Job"),
        (b"{", "cannot be read"),
        (json.dumps(review({"spec": {"parallelism": "two"}})).encode(), "cannot be read"),
    ],
    ids=["a pod", "no JSON", "a wrong type"],
)
@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
def test_what_is_no_review_of_a_job_is_refused_with_400(
    client: FlaskClient, path: str, body: bytes, expected: str
) -> None:
    response = reviews.post(client, path, body)["response"]
    assert response["status"]["code"] == 400
    assert expected in response["status"]["message"]
