"""The commands after which a ClusterQueue selects a namespace."""

from typing import Any

import msgspec
import pytest

from admission.answers import namespace_selectors
from admission.objects.cluster_queue import ClusterQueue
from tests.builders.queues import make_cluster_queue

NAME = "kubernetes.io/metadata.name"
PATCH = "kubectl patch clusterqueue research --type=json -p "
PLACE = "/spec/namespaceSelector/matchExpressions"
LABELS = {NAME: "vision", "team": "eyes"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def step(selector: dict[str, Any]) -> str:
    document = make_cluster_queue("research", namespaceSelector=selector)
    queue = msgspec.convert(document, ClusterQueue)
    return namespace_selectors.next_step(queue, "vision", LABELS)


@pytest.mark.parametrize(
    ("selector", "command"),
    [
        (
            {"matchExpressions": [expression("team", "Exists"), expression(NAME, "In", "a")]},
            f'{PATCH}\'[{{"op":"add","path":"{PLACE}/1/values/-","value":"vision"}}]\'',
        ),
        (
            {"matchExpressions": [expression(NAME, "NotIn", "a", "vision")]},
            f'{PATCH}\'[{{"op":"remove","path":"{PLACE}/0/values/1"}}]\'',
        ),
        (
            {"matchLabels": {NAME: "a"}},
            (
                f'{PATCH}\'[{{"op":"remove","path":"/spec/namespaceSelector/matchLabels/'
                f'kubernetes.io~1metadata.name"}},{{"op":"add","path":"{PLACE}","value":'
                f'[{{"key":"{NAME}","operator":"In","values":["a","vision"]}}]}}]\''
            ),
        ),
        (
            {"matchLabels": {"gpu": "yes"}, "matchExpressions": [expression("zone", "Exists")]},
            "kubectl label namespace vision gpu=yes && kubectl label namespace vision zone=",
        ),
    ],
    ids=["name-in", "name-not-in", "name-label", "labels"],
)
def test_the_step_changes_the_queue_where_the_namespace_has_the_label(
    selector: dict[str, Any], command: str
) -> None:
    assert step(selector) == command


@pytest.mark.parametrize(
    "requirement", [expression(NAME, "NotIn", "vision"), expression(NAME, "DoesNotExist")]
)
def test_a_selector_that_excludes_the_namespace_alone_is_changed_by_hand(
    requirement: dict[str, Any],
) -> None:
    assert step({"matchExpressions": [requirement]}) == (
        "kubectl edit clusterqueue research; change spec.namespaceSelector so that it selects"
        " vision ({}: all)"
    )
