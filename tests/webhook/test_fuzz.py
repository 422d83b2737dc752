"""Whatever is posted, the answer is one of its kind: a review that says yes or no, a conversion.

`make fuzz` draws other examples each time, and more of them.
"""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.config.derived import Settings
from admission.objects import conversion
from admission.webhook import convert, kinds, reviewing, server
from admission.webhook.decoding import MalformedError
from admission.webhook.lister import ClusterLister
from admission.webhook.metrics import WebhookMetrics
from admission.webhook.reviewing import PodReviewer
from tests.builders.pods import make_pod
from tests.clocks import FakeClock
from tests.objects.test_conversion import FULL_OLD
from tests.webhook import reviews
from tests.webhook.reviews import make_review

METRICS = WebhookMetrics()
REVIEWER = PodReviewer(
    reviewing.POD_QUESTIONS,
    lister=reviews.make_knowledge("default"),
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
    review = put(review, place, value)
    answered(path, json.dumps(review).encode())
    for failed in (reviews.MUTATE, reviews.VALIDATE):
        labels = {"path": failed, "outcome": "failed"}
        name = "gpu_admission_webhook_reviews_total"
        assert METRICS.registry.get_sample_value(name, labels) is None


def put(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a document with a value at a place."""
    found = copy.deepcopy(document)
    parent = found
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = value
    return found


KINDS = kinds.KindReviewer(lister=ClusterLister(), metrics=METRICS, clock=FakeClock())
CONVERTER = convert.Converter(metrics=METRICS, clock=FakeClock())
OBJECTS = [
    {"apiVersion": conversion.OLD, "metadata": {"name": "a", "namespace": "b"}, **one}
    for one in FULL_OLD
]
CHANGED = st.sampled_from(
    [(document, place) for document in OBJECTS for place in places(document)]
).flatmap(lambda one: JSON.map(lambda value: put(one[0], one[1], value)))
"""An object of the older version with any value anywhere."""


@given(old=CHANGED, back=st.booleans())
def test_a_conversion_of_an_object_with_any_value_anywhere_is_answered(
    old: dict[str, Any], *, back: bool
) -> None:
    target = conversion.NEW
    if back:
        old = {**old, "apiVersion": conversion.NEW}
        target = conversion.OLD
    request = {"uid": "u-1", "desiredAPIVersion": target, "objects": [old]}
    review = {"apiVersion": conversion.API_VERSION, "kind": "ConversionReview", "request": request}
    try:
        answer = json.loads(CONVERTER.convert(json.dumps(review).encode(), "application/json"))
    except MalformedError:
        return
    result = answer["response"]["result"]
    assert result["status"] in {"Success", "Failure"}
    if result["status"] == "Success":
        (converted,) = answer["response"]["convertedObjects"]
        assert converted["apiVersion"] == target
        assert converted["metadata"] == old["metadata"]
    else:
        assert result["message"]


@given(body=st.binary(max_size=64))
def test_any_bytes_are_no_conversion(body: bytes) -> None:
    with pytest.raises(MalformedError) as refused:
        CONVERTER.convert(body, "application/json")
    assert CONVERTER.refuse(refused.value)


@given(changed=CHANGED, path=st.sampled_from(kinds.PATHS),
       operation=st.sampled_from(["CREATE", "UPDATE"]))  # fmt: skip
def test_a_review_of_a_kind_of_kueue_with_any_value_anywhere_is_answered(
    changed: dict[str, Any], path: str, operation: str
) -> None:
    of_kueue = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Workload")
    told = {"group": "batch", "version": "v1", "kind": "Job"}
    if path != kinds.KEYS_PATH:
        (kind,) = [one for one in of_kueue if path.endswith(f"-{one.lower()}")]
        told = {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": kind}
    review = make_review(changed, operation=operation, oldObject=changed)
    review["request"]["kind"] = told
    answer = json.loads(KINDS.review(path, json.dumps(review).encode(), "application/json"))
    assert isinstance(answer["response"]["allowed"], bool)
    labels = {"path": path, "outcome": "failed"}
    assert METRICS.registry.get_sample_value("gpu_admission_webhook_reviews_total", labels) is None
