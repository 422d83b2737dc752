"""The review adds one toleration, of the key that the installation chose, and takes none away."""

import dataclasses
from typing import Any

import pytest

from admission.webhook import pod_review
from admission.webhook.review_context import Context
from tests.builders.pods import make_pod
from tests.webhook.builders import NOW_US, RULES, apply, make_cluster, read


def tolerations(key: str, **pod: Any) -> list[dict[str, Any]]:
    """The tolerations of a pod after a review by an installation with this key."""
    rules = dataclasses.replace(RULES, toleration_key=key)
    document = make_pod(**pod)
    context = Context(namespace="team-a", now_us=NOW_US)
    outcome = pod_review.mutate(read(document), context, rules, make_cluster("default", "train"))
    assert outcome.errors == ()
    found: list[dict[str, Any]] = apply(outcome, document)["spec"].get("tolerations", [])
    return found


SLICES = {"nvidia.com/mig-1g.10gb": "1"}
OWN = [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute"}]


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "sku", "workload"])
@pytest.mark.parametrize("pod", [{"gpus": 1}, {"limits": SLICES, "requests": SLICES}], ids=str)
def test_req_20_every_gpu_pod_tolerates_the_chosen_key_whatever_its_value(key, pod):
    added = {"key": key, "operator": "Exists", "effect": "NoSchedule"}
    assert tolerations(key, **pod) == [added]
    assert tolerations(key, tolerations=OWN, **pod) == [*OWN, added]


def test_req_20_an_empty_key_adds_none():
    assert tolerations("", gpus=1) == []
    assert tolerations("", gpus=1, tolerations=OWN) == OWN


@pytest.mark.parametrize("operator", ["Equal", ""])
def test_req_20_a_toleration_of_one_value_is_not_enough(operator):
    one = {"key": "nvidia.com/gpu", "operator": operator, "value": "true", "effect": "NoSchedule"}
    assert len(tolerations("nvidia.com/gpu", gpus=1, tolerations=[one])) == 2


def test_req_20_a_pod_of_a_queue_that_wants_no_gpu_gets_none():
    assert tolerations("nvidia.com/gpu", labels={"kueue.x-k8s.io/queue-name": "train"}) == []
