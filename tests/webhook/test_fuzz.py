"""Whatever is posted, the answer is an AdmissionReview that says yes or no."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.config.derived import Settings
from admission.webhook import reviewing, server
from admission.webhook.metrics import WebhookMetrics
from admission.webhook.reviewing import PodReviewer
from tests.builders.pods import make_pod
from tests.clocks import FakeClock
from tests.webhook import reviews
from tests.webhook.reviews import make_review

METRICS = WebhookMetrics()
REVIEWER = PodReviewer(
    reviewing.POD_QUESTIONS,
    knowledge=reviews.make_knowledge("default"),
    rules=server.rules_of(Settings()),
    metrics=METRICS,
    clock=FakeClock(),
)
PATHS = st.sampled_from([reviews.MUTATE, reviews.VALIDATE])
POD = make_pod(
    gpus=1,
    labels={"kueue.x-k8s.io/queue-name": "default"},
    annotations={"gpu-admission.dev/mig-profile": "1g.10gb"},
    initContainers=[{"name": "i", "restartPolicy": "Always"}],
    tolerations=[{"key": "a", "operator": "Exists"}],
    nodeSelector={"a": "b"},
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "1", "-1", "1e99Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["", "a", "name", "nvidia.com/gpu"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def answered(path: str, body: bytes) -> bool:
    answer = json.loads(REVIEWER.review(path, body, "application/json"))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    allowed = answer["response"]["allowed"]
    assert isinstance(allowed, bool)
    return allowed


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of every value inside a document, without the document itself."""
    steps = (
        value.items() if isinstance(value, dict)
        else enumerate(value) if isinstance(value, list) else ()
    )  # fmt: skip
    found = [] if not path else [path]
    for step, inner in steps:
        found += places(inner, (*path, step))
    return found


REVIEW = make_review(POD, operation="UPDATE", oldObject=POD)


@given(body=st.binary(max_size=64), path=PATHS)
def test_any_bytes_are_refused(body: bytes, path: str):
    assert not answered(path, body)


@given(place=st.sampled_from(places(REVIEW)), value=JSON, path=PATHS,
       operation=st.sampled_from(["CREATE", "UPDATE"]))  # fmt: skip
def test_a_review_with_any_value_anywhere_is_answered(
    place: tuple[Any, ...], value: Any, path: str, operation: str
):
    review = copy.deepcopy(REVIEW)
    review["request"]["operation"] = operation
    parent: Any = review
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = value
    answered(path, json.dumps(review).encode())
    for failed in (reviews.MUTATE, reviews.VALIDATE):
        labels = {"path": failed, "outcome": "failed"}
        name = "gpu_admission_webhook_reviews_total"
        assert METRICS.registry.get_sample_value(name, labels) is None
