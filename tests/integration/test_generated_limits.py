"""Generated pods and LimitRanges: our review and the API server's own plugin say the same."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from admission.objects import limit_range, views
from tests.builders.queues import cluster_queue_view, flavor_view, local_queue_view
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import RestError
from tests.integration.limit_cases import GPU, SLICE, Cases
from tests.webhook.builders import apply, make_cluster, mutate

pytestmark = pytest.mark.controlplane

SPACES, PODS_EACH = 120, 6
_SEPARATOR = re.compile(r", (?=minimum |maximum |\S+ max limit to request)")
_FORBIDDEN = 'pods "p" is forbidden: '


@dataclass(frozen=True)
class Space:
    """A namespace, its stored LimitRanges, and pods to try in it."""

    name: str
    ranges: tuple[views.LimitRange, ...]
    pods: tuple[dict[str, Any], ...]


@pytest.fixture(scope="module")
def spaces(cluster: Cluster) -> list[Space]:
    """Namespaces with generated LimitRanges that the API server's plugin knows by now."""
    cases = Cases(seed=20)
    marker = cluster.create_namespace("marker")
    limits = f"/api/v1/namespaces/{marker}/limitranges"
    items = [{"type": "Container", "max": {"cpu": "1"}}]
    cluster.api.post(limits, {"metadata": {"name": "cpu"}, "spec": {"limits": items}})
    waiting.until(lambda: verdict(cluster, marker, cpu("2"))[0] == 403, what="limited")
    made: list[Space] = []
    while len(made) < SPACES:
        space = make_space(cluster, cases)
        if space is not None:
            made.append(space)
    raised = [{"type": "Container", "max": {"cpu": "3"}}]
    cluster.api.patch(f"{limits}/cpu", {"spec": {"limits": raised}})
    # The plugin sees LimitRanges in the order in which they were written.
    waiting.until(lambda: verdict(cluster, marker, cpu("2"))[0] == 201, what="all are known")
    return made


def cpu(amount: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": amount}}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container]}}


def make_space(cluster: Cluster, cases: Cases) -> Space | None:
    """None where the API server refuses a LimitRange; our checks must refuse it, too."""
    name = cluster.create_namespace("generated")
    stored = []
    for index, items in enumerate(cases.ranges()):
        document = {"metadata": {"name": f"r{index}"}, "spec": {"limits": items}}
        (written,) = limit_range.read([msgspec.convert(document, views.LimitRange)])
        findings = limit_range.invalid(written)
        try:
            answer = cluster.api.post(f"/api/v1/namespaces/{name}/limitranges", document)
        except RestError as refused:
            if refused.status != 422 or not findings:
                raise
            return None
        assert not findings, (items, findings)
        stored.append(msgspec.convert(answer, views.LimitRange))
    pods = tuple(cases.pod() for _ in range(PODS_EACH))
    return Space(name, tuple(stored), pods)


def verdict(cluster: Cluster, namespace: str, pod: dict[str, Any]) -> tuple[int, Any]:
    """Status, and the created pod or the refusal."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    try:
        return 201, cluster.api.post(path, pod)
    except RestError as refused:
        return refused.status, refused.body


def reasons_of(body: str) -> set[str]:
    message = msgspec.json.decode(body)["message"].removeprefix(_FORBIDDEN)
    return set(_SEPARATOR.split(message.removeprefix("[").removesuffix("]")))


def ours(space: Space, pod: dict[str, Any], **more: Any) -> tuple[dict[str, set[str]], Any]:
    """Reasons of our review by LimitRange, and its outcome."""
    known = make_cluster(limits=space.ranges, **more)
    known.local_queues = {(space.name, "default"): local_queue_view(namespace=space.name)}
    outcome = mutate(pod, known, namespace=space.name)
    found: dict[str, set[str]] = {}
    for error in outcome.errors:
        name, separator, reason = error.detail.removeprefix("LimitRange ").partition(": ")
        if separator and error.detail.startswith("LimitRange "):
            found.setdefault(name, set()).add(reason)
    return found, outcome


def test_generated_pods_meet_the_api_servers_verdict_and_reasons(
    cluster: Cluster, spaces: list[Space]
) -> None:
    allowed = refused = 0
    for space in spaces:
        for pod in space.pods:
            status, body = verdict(cluster, space.name, without_queue(pod))
            found, outcome = ours(space, pod)
            if status == 422:  # broken before LimitRanges are looked at
                continue
            said = (space.ranges, pod, body, outcome.errors)
            if status == 201:
                assert outcome.errors == (), said
                allowed += 1
            else:
                # The plugin stops at the first LimitRange that fails; any may be the first.
                assert status == 403, said
                assert reasons_of(body) in found.values(), said
                refused += 1
    assert allowed + refused >= 500
    assert min(allowed, refused) >= 100


def test_generated_pods_pass_the_api_server_once_they_are_rewritten(
    cluster: Cluster, spaces: list[Space]
) -> None:
    queue = {
        "cluster_queues": {"gpus": cluster_queue_view({"s": {SLICE: "100"}})},
        "flavors": {"s": flavor_view("s", "A100-80GB", mig_profile="1g.10gb")},
    }
    passed = 0
    for space in spaces:
        for pod in space.pods:
            status, filled = verdict(cluster, space.name, without_queue(pod))
            if status != 201 or not asks(filled, GPU):
                continue
            reviewed = {**filled, "metadata": {**filled["metadata"], **pod["metadata"]}}
            _, outcome = ours(space, reviewed, **queue)
            if outcome.errors:
                continue
            status, stored = verdict(cluster, space.name, without_queue(apply(outcome, reviewed)))
            assert status == 201, (space.ranges, pod, stored)
            assert not asks(stored, GPU)
            assert asks(stored, SLICE)
            passed += 1
    assert passed >= 80


def without_queue(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as nobody's business: these namespaces have no LocalQueue."""
    own = ("labels", "annotations", "uid")
    metadata = {key: value for key, value in pod["metadata"].items() if key not in own}
    return {**pod, "metadata": metadata}


def asks(pod: dict[str, Any], resource: str) -> bool:
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    amounts = (c["resources"].get("limits", {}).get(resource, "0") for c in containers)
    return any(amount != "0" for amount in amounts)
