"""Reviews of Kueue's kinds and conversions over HTTP: exact answers, also to what is neither."""

import base64
import json
from typing import Any

import msgspec
import pytest
from flask import Flask
from prometheus_client import CollectorRegistry

from admission.base import names
from admission.config.derived import Settings
from admission.webhook import convert, kinds, server
from admission.webhook.lister import ClusterLister
from admission.webhook.metrics import WebhookMetrics
from tests.clocks import FakeClock
from tests.objects.case import Document, identified, queue

CREATE = kinds.named("ClusterQueue").mutate_path()
JUDGE = kinds.named("ClusterQueue").validate_path()


@pytest.fixture
def app() -> Flask:
    metrics = WebhookMetrics(CollectorRegistry())
    return server.create_app(ClusterLister(), Settings(), metrics, FakeClock())


def review(kind: str = "ClusterQueue", operation: str = "CREATE", **request: Any) -> Document:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": names.KUEUE_GROUP, "version": "v1beta2", "kind": kind},
            "operation": operation,
            **request,
        },
    }


def answer(app: Flask, path: str, body: Document) -> Document:
    got = app.test_client().post(path, json=body)
    assert got.status_code == 200
    response: Document = got.get_json()["response"]
    assert response.pop("uid") == "u-1"
    return response


def test_paths_are_those_of_kueue() -> None:
    prefixes = ("/mutate-kueue-x-k8s-io-v1beta2-", "/validate-kueue-x-k8s-io-v1beta2-")
    assert sorted(kinds.PATHS) == sorted(
        [f"{prefixes[0]}{kind}" for kind in ("clusterqueue", "resourceflavor", "workload")]
        + [f"{prefixes[1]}{kind}" for kind in ("clusterqueue", "cohort", "localqueue",
                                               "resourceflavor", "workload")]
        + ["/warn-about-keys"]
    )  # fmt: skip


def test_a_new_queue_gets_the_finalizer(app: Flask) -> None:
    got = answer(app, CREATE, review(object=identified("ClusterQueue", queue())))
    assert (got["allowed"], got["patchType"]) == (True, "JSONPatch")
    assert json.loads(base64.b64decode(got["patch"])) == [
        {"op": "add", "path": "/metadata/finalizers", "value": [names.RESOURCE_IN_USE]}
    ]


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort"])
def test_an_amount_of_quota_in_a_unit_that_nobody_means_is_warned_about(
    app: Flask, kind: str
) -> None:
    quotas = [
        {"name": names.GPU_RESOURCE, "nominalQuota": "16Gi"},
        {"name": "memory", "nominalQuota": "64"},
    ]
    covered = [names.GPU_RESOURCE, "memory"]
    group = {"coveredResources": covered, "flavors": [{"name": "a100", "resources": quotas}]}
    selector: Document = {"namespaceSelector": {}} if kind == "ClusterQueue" else {}
    body = review(kind, object=identified(kind, queue(group, **selector)))
    got = answer(app, kinds.named(kind).validate_path(), body)
    assert got["allowed"], got
    first, second = got["warnings"]
    where = "Check the unit: nominalQuota of flavor a100: "
    assert first.startswith(f"{where}16Gi nvidia.com/gpu is 17,179,869,184")
    assert second.startswith(f"{where}64 memory is less than 1Mi")


def test_a_misspelled_key_of_an_owner_of_any_kind_is_warned_about(app: Flask) -> None:
    written = {"metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue_name": "team"}}}
    body = review(object=written)
    body["request"]["kind"] = {"group": "batch", "version": "v1", "kind": "Job"}
    response = answer(app, kinds.KEYS_PATH, body)
    assert response["allowed"]
    assert response["warnings"] == [
        (
            "Without effect: label kueue.x-k8s.io/queue_name is not known; did you mean"
            " kueue.x-k8s.io/queue-name?"
        )
    ]
    made = {"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "u", "controller": True}
    body["request"]["object"]["metadata"]["ownerReferences"] = [made]
    assert "warnings" not in answer(app, kinds.KEYS_PATH, body)


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_an_update_is_not_defaulted(app: Flask, operation: str) -> None:
    document = identified("ClusterQueue", queue())
    body = review(operation=operation, object=document, oldObject=document)
    assert answer(app, CREATE, body) == {"allowed": True}


def test_a_new_workload_is_left_as_it_is(app: Flask) -> None:
    body = review("Workload", object=identified("Workload", {"spec": {}}))
    assert answer(app, kinds.named("Workload").mutate_path(), body) == {"allowed": True}


def test_a_broken_rule_is_403_in_its_words(app: Flask) -> None:
    broken = identified("ClusterQueue", queue(fairSharing={"weight": -1}))
    assert answer(app, JUDGE, review(object=broken)) == {
        "allowed": False,
        "status": {
            "code": 403,
            "reason": "Forbidden",
            "message": 'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
        },
    }


def test_a_deletion_is_not_judged(app: Flask) -> None:
    body = review(operation="DELETE", oldObject=identified("ClusterQueue", queue()))
    assert answer(app, JUDGE, body) == {"allowed": True}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(review("Cohort", object={}), "expected kueue.x-k8s.io/v1beta2 ClusterQueue",
                     id="another kind"),
        pytest.param(review(object={"spec": 7}), "ClusterQueue cannot be read", id="no object"),
        pytest.param(review(), "ClusterQueue cannot be read", id="no object at all"),
        pytest.param(review(object={}, operation="UPDATE"), "ClusterQueue cannot be read",
                     id="an update without the old object"),
        pytest.param({**review(), "kind": "Pod"}, "expected admission.k8s.io/v1 AdmissionReview",
                     id="no review"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_400(app: Flask, body: Document, words: str) -> None:
    got = answer(app, JUDGE, body)
    assert (got["allowed"], got["status"]["code"]) == (False, 400)
    assert words in got["status"]["message"]


@pytest.mark.parametrize("path", kinds.PATHS)
def test_a_body_that_is_too_large_is_413(app: Flask, path: str) -> None:
    got = app.test_client().post(path, data=b" " * (8 * 1024 * 1024))
    assert got.get_json()["response"]["status"]["code"] == 413


def test_a_bug_is_500_and_counted(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_old: object, _new: object) -> Any:
        raise ZeroDivisionError("by zero")

    rules = kinds.VALIDATED["ClusterQueue"]
    monkeypatch.setitem(kinds.VALIDATED, "ClusterQueue", kinds.KindRules(rules.decoder, fail))
    got = answer(app, JUDGE, review(object=identified("ClusterQueue", queue())))
    assert got["status"] == {
        "code": 500,
        "reason": "InternalError",
        "message": "internal error of gpu-admission: ZeroDivisionError: by zero",
    }
    shown = app.test_client().get("/metrics").text
    assert f'reviews_total{{outcome="failed",path="{JUDGE}"}} 1.0' in shown


# ----------------------------------------------------------------------------------- conversion


def conversion(*objects: Any, to: str = "v1beta2") -> Document:
    version = f"{names.KUEUE_GROUP}/{to}"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u-1", "desiredAPIVersion": version, "objects": list(objects)},
    }


def old_queue(**spec: Any) -> Document:
    return identified("ClusterQueue", {"spec": spec}, "v1beta1")


def test_objects_are_converted_in_their_order(app: Flask) -> None:
    got = answer(app, convert.PATH, conversion(old_queue(cohort="a"), old_queue(cohort="b")))
    assert got["result"] == {"status": "Success"}
    cohorts = [one["spec"]["cohortName"] for one in got["convertedObjects"]]
    assert cohorts == ["a", "b"]


def test_an_empty_review_is_answered(app: Flask) -> None:
    want = {"convertedObjects": [], "result": {"status": "Success"}}
    assert answer(app, convert.PATH, conversion()) == want


@pytest.mark.parametrize(
    "broken", [7, None, {"kind": "ClusterQueue"}, {**old_queue(), "apiVersion": "example.com/v1"}]
)
def test_one_object_that_cannot_be_converted_fails_all(app: Flask, broken: Any) -> None:
    got = answer(app, convert.PATH, conversion(old_queue(cohort="a"), broken))
    assert set(got) == {"result"}
    assert got["result"]["status"] == "Failure"
    assert got["result"]["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"{", 400, id="no JSON"),
        pytest.param(b"", 400, id="nothing"),
        pytest.param(msgspec.json.encode(review()), 400, id="an AdmissionReview"),
        pytest.param(b'{"kind":"ConversionReview"}', 400, id="no request"),
        pytest.param(b"[" * 100_000, 400, id="nested without end"),
    ],
)
def test_what_is_no_conversion_is_refused_by_status(app: Flask, body: bytes, status: int) -> None:
    got = app.test_client().post(convert.PATH, data=body, content_type="application/json")
    assert (got.status_code, got.content_type) == (status, "text/plain; charset=utf-8")
    assert got.text.strip()


def test_a_list_may_be_larger_than_a_review(app: Flask) -> None:
    filler = "x" * (1024 * 1024)
    wide = [old_queue(cohort="a") | {"status": {"note": filler}} for _ in range(9)]
    got = answer(app, convert.PATH, conversion(*wide))
    assert len(got["convertedObjects"]) == 9
