"""Custom resources: defaults, pruning, limits."""

import re

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api
from tests.contract import objects


def test_defaults_are_filled_in_and_unknown_fields_dropped(api: Api, namespace: str):
    document = {"metadata": {"name": namespace}, "spec": {"unheardOf": 1}}
    made = api.create(resources.CLUSTER_QUEUES, document)
    assert "unheardOf" not in made["spec"]
    assert made["spec"]["queueingStrategy"] == "BestEffortFIFO"
    assert made["spec"]["stopPolicy"] == "None"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"queueingStrategy": "Random"},
            (
                'spec.queueingStrategy: Unsupported value: "Random": supported values: '
                '"StrictFIFO", "BestEffortFIFO"'
            ),
        ),
        (
            {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]},
            (
                "spec.resourceGroups[0].flavors: Invalid value: 0: "
                "spec.resourceGroups[0].flavors in body should have at least 1 items"
            ),
        ),
        (
            {"resourceGroups": [{"coveredResources": ["cpu"]}]},
            "spec.resourceGroups[0].flavors: Required value",
        ),
        (
            {"cohortName": 3},
            (
                'spec.cohortName: Invalid value: "integer": spec.cohortName in body must be '
                'of type string: "integer"'
            ),
        ),
    ],
    ids=["enum", "too few", "required", "type"],
)
def test_a_spec_outside_of_the_schema_is_refused(
    api: Api, namespace: str, spec: objects.Document, message: str
):
    document = {"metadata": {"name": namespace}, "spec": spec}
    with pytest.raises(errors.InvalidError, match=re.escape(message)) as refused:
        api.create(resources.CLUSTER_QUEUES, document)
    start = f'ClusterQueue.kueue.x-k8s.io "{namespace}" is invalid: '
    assert str(refused.value).startswith(start)


def test_a_status_outside_of_the_schema_is_refused(api: Api, namespace: str):
    api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    change = patches.merge({"status": {"conditions": [{"type": "Active"}]}})
    with pytest.raises(errors.InvalidError, match=r"status\.conditions\[0\]\.\w+: Required value"):
        api.patch(resources.LOCAL_QUEUES, "a", change, namespace, subresource="status")


def test_a_patch_may_not_break_the_schema(api: Api, namespace: str):
    api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    change = patches.merge({"spec": {"stopPolicy": "Sometimes"}})
    with pytest.raises(errors.InvalidError, match="Unsupported value"):
        api.patch(resources.LOCAL_QUEUES, "a", change, namespace)


def test_a_document_of_another_kind_is_refused(api: Api, namespace: str):
    document = objects.local_queue() | {"apiVersion": "v1", "kind": "Pod"}
    with pytest.raises(errors.BadRequestError):
        api.create(resources.LOCAL_QUEUES, document, namespace)
