"""Webhooks of others that change pods after ours, also the write that releases a pod."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import waiting
from tests.integration.another_webhook import ON_UPDATE, another_webhook
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane

EXPECTED_ERRORS = ("write refused",)

PREFERS: dict[str, Any] = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {
                    "matchExpressions": [{"key": "baseline", "operator": "In", "values": ["true"]}]
                },
            }
        ]
    }
}


@pytest.fixture(scope="module")
def system(
    installation: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    with another_webhook(installation.api, tmp_path_factory.mktemp("another")):
        yield installation


@pytest.mark.parametrize(
    "added",
    [
        {"/spec/affinity": PREFERS},
        {"/metadata/labels/cost-centre": "4711"},
        {"/metadata/annotations/example.com~1seen": "yes"},
    ],
    ids=["affinity", "label", "annotation"],
)
def test_a_pod_starts_with_what_kubernetes_lets_others_add_to_its_release(
    system: Installed, added: dict[str, Any]
) -> None:
    team = system.add_team(1)
    system.create_pod(team, "train", annotations={ON_UPDATE: json.dumps(added)})
    system.wait_released(team, "train")


def test_a_release_that_another_webhook_spoils_says_in_full_why(system: Installed) -> None:
    team = system.add_team(2)
    env = {"/spec/containers/0/env": [{"name": "OTEL", "value": "grpc"}]}
    system.create_pod(team, "spoilt", annotations={ON_UPDATE: json.dumps(env)})
    said = system.wait_condition(team, "spoilt", "StartRefused")
    assert "pod updates may not change fields other than" in said["message"]
    assert "OTEL" in said["message"]
    system.create_pod(team, "other")
    system.wait_released(team, "other")
    waiting.until(lambda: system.is_gated(team, "spoilt"), what="it waits")
