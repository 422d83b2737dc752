"""What the API server's own LimitRanger would refuse, the review refuses for the same reasons."""

import re
from typing import Any

import pytest

from admission.base import names
from tests.builders.queues import make_flavor
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration.installed import KUEUE, Installed
from tests.integration.limit_cases import GPU, SLICE

pytestmark = pytest.mark.controlplane

_REASON = re.compile(r"(?:minimum|maximum) [^,\]]+?, but (?:limit|request) is \d+")

CASES: dict[str, tuple[list[dict[str, Any]], int]] = {
    "above a container's maximum": ([{"type": "Container", "max": {GPU: "2"}}], 3),
    "below a container's minimum": (
        [{"type": "Container", "min": {GPU: "2"}, "max": {GPU: "4"}}], 1,
    ),
    "above a pod's maximum": ([{"type": "Pod", "max": {GPU: "2"}}], 4),
    "above both maxima": (
        [{"type": "Pod", "max": {GPU: "2"}}, {"type": "Container", "max": {GPU: "1"}}], 3,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


def limit(system: Installed, namespace: str, items: list[dict[str, Any]]) -> None:
    system.api.post(
        f"/api/v1/namespaces/{namespace}/limitranges",
        {"metadata": {"name": "gpus"}, "spec": {"limits": items}},
    )


def refusal(system: Installed, namespace: str, gpus: int) -> str:
    with pytest.raises(RestError) as refused:
        system.create_pod(namespace, "train", gpus=gpus)
    assert refused.value.status == 403
    return refused.value.body


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_the_reasons_are_the_api_servers(system: Installed, case: str) -> None:
    items, gpus = CASES[case]
    plain = system.cluster.create_namespace("plain")
    limit(system, plain, items)
    expected = set(
        _REASON.findall(waiting.until(lambda: refusal(system, plain, gpus), what="limited"))
    )
    team = system.add_team(quota=8)
    limit(system, team, items)

    def ours() -> str | None:
        body = refusal(system, team, gpus)
        return body if "admission webhook" in body else None

    found = waiting.until(ours, what="the webhook knows the LimitRange")
    assert expected
    assert set(_REASON.findall(found)) == expected
    assert system.api.get(f"{KUEUE}/namespaces/{team}/workloads")["items"] == []


def add_slices(system: Installed) -> str:
    """A namespace; a whole GPU asked for in its queue, which is still to come, is a slice."""
    team = system.cluster.create_namespace("sliced")
    marks = {names.FLAVOR_PRODUCT: "A100-80GB", names.MIG_PROFILE: "1g.10gb"}
    flavor = make_flavor(team, annotations=marks, node_labels={"pool": team}, tolerations=[])
    system.api.post(f"{KUEUE}/resourceflavors", flavor)
    system.add_cluster_queue(team, quotas={team: {SLICE: 7}})
    return team


def test_a_rewrite_is_not_undone_by_a_default(system: Installed) -> None:
    team = add_slices(system)
    limit(system, team, [{"type": "Container", "default": {GPU: "1"}, "max": {GPU: "4"}}])
    system.add_local_queue(team, team)
    system.wait_for_queue(team)

    def created() -> Any:
        """The pod; None while the webhook does not know the LimitRange and asks to try again."""
        try:
            return system.create_pod(team, "train", gpus=2)
        except RestError as refused:
            if "create the pod again" not in refused.body:
                raise
            return None

    (container,) = waiting.until(created, what="accepted")["spec"]["containers"]

    assert container["resources"] == {
        kind: {GPU: "0", SLICE: "2"} for kind in ("limits", "requests")
    }
    assert f"maximum {GPU} usage per Container is 4, but limit is 5" in refusal(system, team, 5)


def test_a_quota_that_a_rewrite_would_escape_is_honoured(system: Installed) -> None:
    team = add_slices(system)
    key = f"requests.{GPU}"
    path = f"/api/v1/namespaces/{team}/resourcequotas"
    system.api.post(path, {"metadata": {"name": "gpus"}, "spec": {"hard": {key: "4"}}})
    counted = {"hard": {key: "4"}, "used": {key: "3"}}
    system.api.patch(f"{path}/gpus/status", {"status": counted})
    system.add_local_queue(team, team)
    system.wait_for_queue(team)

    def refused() -> str:
        try:
            system.create_pod(team, "large", gpus=2)
        except RestError as error:
            return error.body
        system.delete_pod(team, "large")
        return ""

    told = waiting.until(refused, what="the webhook knows the quota")
    assert f"exceeded quota: requested: {key}=2, used: {key}=3, limited: {key}=4" in told
    _, warnings = system.api.post_warned(
        f"/api/v1/namespaces/{team}/pods",
        {
            "metadata": {"name": "small"},
            "spec": {
                "containers": [{"name": "main", "image": "x", "resources": {"limits": {GPU: "1"}}}]
            },
        },
    )
    assert any(f"limits {key} to 4" in text for text in warnings)
