"""AdmissionReviews as an API server sends them, and a webhook to send them to."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration, WebhookServing
from admission.kube import resources
from admission.webhook import lister, server
from admission.webhook.lister import ClusterLister
from admission.webhook.metrics import WebhookMetrics
from admission.webhook.reviewing import OnAnswered
from tests.builders.cluster import namespace_view
from tests.builders.queues import local_queue_view
from tests.clocks import FakeClock

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
MUTATE = "/mutate--v1-pod"
VALIDATE = "/validate--v1-pod"


def make_review(pod: Mapping[str, Any] | None, **request: Any) -> dict[str, Any]:
    """A review of a pod's creation in namespace team-a; keywords set members of the request."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": "team-a",
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            **request,
        },
    }


def make_knowledge(*queues: str, **labels: str) -> ClusterLister:
    """A filled cache: namespace team-a with the labels, and LocalQueues of these names."""
    cache = ClusterLister()
    for kind in lister.WATCHED:
        cache.replace(kind, ())
    cache.upsert(resources.NAMESPACES, namespace_view(labels=labels))
    for name in queues:
        cache.upsert(resources.LOCAL_QUEUES, local_queue_view(name))
    return cache


def make_app(
    cache: ClusterLister | None = None,
    metrics: WebhookMetrics | None = None,
    *,
    max_body_bytes: int = 7 * 1024 * 1024,
    on_answered: OnAnswered | None = None,
) -> Flask:
    settings = Settings(
        gpu=GpuConfiguration(webhook=WebhookServing(max_body_bytes=max_body_bytes))
    )
    return server.create_app(
        cache or make_knowledge("default"),
        settings,
        metrics or WebhookMetrics(),
        FakeClock(),
        on_answered=on_answered,
    )


def post(client: FlaskClient, path: str, review: Any, **options: Any) -> dict[str, Any]:
    """The answer to a review; checks what every answer has in common."""
    body = review if isinstance(review, bytes) else json.dumps(review).encode()
    options = {"content_type": "application/json", **options}
    answer = client.post(path, data=body, **options)
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    document: dict[str, Any] = json.loads(answer.data)
    return document


def patch_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    assert answer["response"]["patchType"] == "JSONPatch"
    operations: list[dict[str, Any]] = json.loads(base64.b64decode(answer["response"]["patch"]))
    return operations
