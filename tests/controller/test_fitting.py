"""A pod that asks for more GPUs than any node has is told so."""

from typing import Any

import pytest

from admission.answers import cluster, waiting, why
from admission.answers.cluster import Wanted
from admission.base import names, patches
from admission.base.names import WorkloadKey
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.reasons.next_steps import Code
from admission.serve.dashboard import waiting_rows
from tests.builders.queues import (
    make_cluster_queue,
    make_flavor,
    make_group,
    make_local_queue,
)
from tests.controller.test_capacity import add, bind, make_world, node
from tests.controller.test_one_currency import GPU
from tests.controller.world import World

NO_NODE = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
AUTOSCALED = {"karpenter.sh/nodepool": "gpus"}
TOO_BIG = "Too big: a pod asks 16 a100, the largest node has 8"


def world(*nodes: dict[str, Any], quota: int = 32, placement: str = "") -> World:
    queues = make_cluster_queue(quota=quota), make_local_queue()
    return make_world(*nodes, *queues, placement=placement)


def says(made: World, pod: str) -> tuple[str, str]:
    """Reason and message of what the pod says of its admission."""
    made.pass_time(32)
    found = made.condition(pod)
    assert found is not None
    return found.reason, found.message


def cannot_schedule(made: World, pod: str) -> why.Answer:
    """Return what `why` says once the scheduler has found no node for an admitted pod."""
    said = {"type": "PodScheduled", "status": "False", "message": NO_NODE}
    change = patches.merge({"status": {"phase": "Pending", "conditions": [said]}})
    made.store.patch(resources.PODS, pod, change, "ml", subresource="status")
    made.settle()
    made.pass_time(60)
    return why.explain(made.store, "ml", pod)


class Standby(World):
    """A controller that follows all and decides nothing."""

    leads = False


def dashboards(made: World, workload: str) -> set[str]:
    """What the dashboards of the leader and of a controller that stands by say of a Workload."""
    standby = Standby(store=made.store, clock=made.clock)
    standby.settle()
    key = WorkloadKey("ml", workload)
    texts = set()
    for controller in (made, standby):
        present = controller.core.present
        (wait,), (view,) = present.waits((key,)), present.workloads((key,))
        texts.add(waiting_rows.said(wait, view)[0])
    return texts


def test_what_waits_for_quota_and_fits_no_node_is_too_big() -> None:
    made = world(node("n0", gpu=8), node("n1", gpu=4), quota=16)
    add(made, "first", gpus=8)
    add(made, "big", gpus=16)

    assert says(made, "big") == (Code.EXCEEDS_LARGEST_NODE, f"{TOO_BIG}.")
    (note,) = [note for name, _, note in made.events.recorded if name == "big"]
    assert note == f"{TOO_BIG}."
    found = why.explain(made.store, "ml", "big")
    assert (found.reason, found.message) == (Code.EXCEEDS_LARGEST_NODE, f"{TOO_BIG}.")
    assert found.advice.startswith("create it again and ask for at most 8 in one pod")


def test_what_fits_no_node_is_too_big_in_the_queues_that_init_makes() -> None:
    """They have GPUs of several flavors, and cpu of one that selects all nodes."""
    groups = [
        make_group({"a100": {GPU: 24}, "h100": {GPU: 8}}),
        make_group({"any": {"cpu": 64, "memory": "64Gi"}}),
    ]
    queue = make_cluster_queue(resourceGroups=groups)
    nodes = [node(f"n{n}", gpu=8) for n in range(3)]
    nodes.append(node("h", labels={names.GPU_PRODUCT_LABEL: "h100"}, gpu=8))
    for document in nodes:
        document["status"]["allocatable"] |= {"cpu": "32", "memory": "64Gi"}
    flavors = (
        make_flavor("h100", product="h100"),
        make_flavor("any", node_labels={}, tolerations=[]),
    )
    made = make_world(*nodes, *flavors, queue, make_local_queue(), placement="Enforce")
    for name, gpus in (("first", 8), ("second", 8), ("big", 12)):
        made.add_pod(name, gpus=gpus, queue="team-a", requests={"cpu": "1", "memory": "1Gi"})
        made.settle()
    said = says(made, "big")
    beyond = "Too big: a pod asks 12 GPUs, the largest node has 8 (a100 8, h100 8)."
    assert said == (Code.EXCEEDS_LARGEST_NODE, beyond)
    found = why.explain(made.store, "ml", "big")
    assert (found.reason, found.message) == said


def test_what_waits_and_fits_a_node_is_not() -> None:
    made = world(node("n0", gpu=8), quota=8)
    add(made, "first", gpus=8)
    add(made, "second", gpus=8)

    assert says(made, "second")[0] == Code.WAITING_FOR_QUOTA


def test_a_larger_node_that_comes_takes_it_back() -> None:
    made = world(node("n0", gpu=8), quota=16)
    add(made, "first", gpus=8)
    add(made, "big", gpus=16)
    assert says(made, "big")[0] == Code.EXCEEDS_LARGEST_NODE

    made.store.create(resources.NODES, node("n1", gpu=16))
    made.settle()
    made.pass_time(6)

    assert says(made, "big")[0] == Code.WAITING_FOR_QUOTA


def test_a_node_that_comes_later_and_is_too_small_is_told() -> None:
    made = world(quota=16)
    add(made, "first", gpus=8)
    add(made, "big", gpus=16)
    assert says(made, "big")[0] == Code.WAITING_FOR_QUOTA

    made.store.create(resources.NODES, node("n0", gpu=8))
    made.settle()
    made.pass_time(6)

    assert says(made, "big") == (Code.EXCEEDS_LARGEST_NODE, f"{TOO_BIG}.")


def test_nothing_is_said_while_a_flavor_has_no_nodes_that_are_known() -> None:
    made = make_world(
        node("n0", gpu=8),
        make_flavor("h100", product="NVIDIA-H100-80GB-HBM3"),
        make_cluster_queue(quota=16, flavors=("a100", "h100")),
        make_local_queue(),
    )
    add(made, "first", "second", gpus=8)
    add(made, "third", "fourth", gpus=8)
    add(made, "big", gpus=16)

    assert says(made, "big")[0] == Code.WAITING_FOR_QUOTA


def test_sick_gpus_of_a_node_count_as_its_size() -> None:
    made = world(node("n0", gpu=16, labels={"gpu-health": "unhealthy"}), quota=16)
    add(made, "first", gpus=8)
    add(made, "big", gpus=16)

    assert says(made, "big")[0] != Code.EXCEEDS_LARGEST_NODE


def test_an_admitted_pod_that_fits_no_node_is_too_big_and_keeps_its_quota() -> None:
    made = world(node("n0", gpu=8), placement="Tell")
    add(made, "big", gpus=16)
    assert made.admitted() == {"big"}, "nodes decide nothing"

    found = cannot_schedule(made, "big")

    assert found.reason == Code.EXCEEDS_LARGEST_NODE
    assert found.message == f"{TOO_BIG}; it holds its quota until it is deleted."
    assert made.admitted() == {"big"}


@pytest.mark.parametrize("how", ["none yet", "scaled", "Tell"])
def test_a_pod_that_an_autoscaler_is_asked_for_is_told_to_wait(how: str) -> None:
    labels = {"karpenter.sh/nodepool": "gpus"} if how == "scaled" else {}
    nodes = [] if how == "none yet" else [node("n0", gpu=2, labels=labels)]
    made = world(*nodes, placement="Tell" if how == "Tell" else "")
    add(made, "small", gpus=2)
    if nodes:
        bind(made, "small", "n0")
    add(made, "wide", gpus=2)

    found = cannot_schedule(made, "wide")

    awaited = f"no node of a100 has room yet, an autoscaler may add one; {NO_NODE}"
    assert found.message == f"Admitted, but 0 of 1 pods are scheduled: {awaited}"
    (note,) = [note for name, _, note in made.events.recorded if name == "wide"]
    assert "Wait: an autoscaler is asked for a node" in note
    assert "elete it" not in f"{note} {found.message} {found.advice}"


def test_an_admitted_pod_for_which_no_node_has_enough_free_says_so() -> None:
    made = world(node("n0", gpu=4), node("n1", gpu=4), placement="Off")
    add(made, "a", "b", gpus=3)
    bind(made, "a", "n0")
    bind(made, "b", "n1")
    add(made, "wide", gpus=2)
    assert made.admitted() == {"a", "b", "wide"}

    found = cannot_schedule(made, "wide")

    assert found.reason == Code.PODS_NOT_RUNNING
    assert found.message == (
        "Admitted, but 0 of 1 pods are scheduled: a pod asks 2 a100, and no node has as many free;"
        f" {NO_NODE}"
    )


def test_gpus_are_told_of_the_flavor_that_gives_them_and_not_of_that_of_the_cpu() -> None:
    queue = make_cluster_queue(quota=8)
    queue["spec"]["resourceGroups"].append(make_group({"any-node": {"cpu": "64"}}))
    any_node = make_flavor("any-node", node_labels={})
    made = make_world(
        node("n0", gpu=2), node("n1", gpu=2), any_node, queue, make_local_queue(), placement="Tell"
    )
    for name, where in (("a", "n0"), ("b", "n1")):
        made.add_pod(name, gpus=1, queue="team-a", requests={"cpu": "1"})
        made.settle()
        bind(made, name, where)
    made.add_pod("wide", gpus=2, queue="team-a", requests={"cpu": "1"})
    made.settle()
    assert "wide" in made.admitted()

    found = cannot_schedule(made, "wide")

    assert "any-node" not in found.message


def test_the_scheduler_is_quoted_alone_while_a_node_has_enough_free() -> None:
    made = world(node("n0", gpu=4))
    add(made, "tainted", gpus=2)

    found = cannot_schedule(made, "tainted")

    assert found.message == f"Admitted, but 0 of 1 pods are scheduled: {NO_NODE}"


HOSTNAME = "kubernetes.io/hostname"


def preferences(made: World, pod: str) -> list[dict[str, Any]]:
    """The preferred node affinity of a pod, as stored."""
    spec = made.store.get(resources.PODS, pod, "ml", into=dict)["spec"]
    affinity: dict[str, Any] = spec.get("affinity", {}).get("nodeAffinity", {})
    return list(affinity.get("preferredDuringSchedulingIgnoredDuringExecution", []))


def test_a_released_pod_prefers_the_node_it_was_admitted_for_beside_its_own_wishes() -> None:
    hosts = [node(name, gpu=4, labels={HOSTNAME: name}) for name in ("n0", "n1")]
    made = world(*hosts)
    add(made, "small", gpus=2)
    own = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}}
    made.add_pod("large", gpus=4, spec={"affinity": wish})
    made.settle()

    (chosen,) = preferences(made, "small")
    (first,) = chosen["preference"]["matchExpressions"][0]["values"]
    before, added = preferences(made, "large")

    assert before == own
    assert added["preference"]["matchExpressions"] == [
        {"key": HOSTNAME, "operator": "In", "values": [{"n0": "n1", "n1": "n0"}[first]]}
    ]


def test_a_pod_of_a_flavor_without_nodes_prefers_none() -> None:
    made = world()
    add(made, "pod")

    assert made.admitted() == {"pod"}
    assert preferences(made, "pod") == []


@pytest.mark.parametrize(
    "quota", [16, 32, 12], ids=["quota in use", "quota free", "quota that is too small"]
)
def test_workload_and_queue_say_of_nodes_that_are_too_small_what_the_pod_says(quota: int) -> None:
    made = world(node("n0", gpu=8), node("n1", gpu=4), quota=quota)
    add(made, "first", gpus=8)
    add(made, "big", gpus=16)

    assert says(made, "big") == (Code.EXCEEDS_LARGEST_NODE, f"{TOO_BIG}.")
    read = cluster.relate(cluster.read(made.store, Wanted(namespace="ml")))
    (place,) = waiting.of(read, "gpus").waiting
    answer = why.explain(made.store, "ml", f"workload/{place.workload}")
    assert {place.message, answer.message} == {f"{TOO_BIG}."}
    assert dashboards(made, place.workload) == {f"{TOO_BIG}."}
    assert {place.reason, answer.reason} == {Code.EXCEEDS_LARGEST_NODE}
    assert answer.advice == (
        "create it again and ask for at most 8 in one pod, or have a larger node added"
    )
    assert place.never


def test_flavors_of_which_there_can_be_no_quota_do_not_hide_how_large_nodes_are() -> None:
    made = make_world(
        node("n0", gpu=8),
        make_flavor("h100", product="NVIDIA-H100-80GB-HBM3"),
        make_cluster_queue(resourceGroups=[make_group({"a100": {GPU: 12}, "h100": {GPU: 0}})]),
        make_local_queue(),
    )
    add(made, "big", gpus=16)
    assert says(made, "big") == (Code.EXCEEDS_LARGEST_NODE, f"{TOO_BIG}.")
    read = cluster.relate(cluster.read(made.store, Wanted(namespace="ml")))
    (place,) = waiting.of(read, "gpus").waiting
    answer = why.explain(made.store, "ml", f"workload/{place.workload}")
    assert {place.message, answer.message} == {f"{TOO_BIG}."}
    assert dashboards(made, place.workload) == {f"{TOO_BIG}."}


def test_where_quota_is_the_smaller_limit_it_is_told_and_not_the_nodes() -> None:
    made = world(node("n0", gpu=8), quota=4)
    add(made, "big", gpus=16)
    reason, message = says(made, "big")
    assert reason == Code.EXCEEDS_MAX_QUOTA
    read = cluster.relate(cluster.read(made.store, Wanted(namespace="ml")))
    (place,) = waiting.of(read, "gpus").waiting
    answer = why.explain(made.store, "ml", f"workload/{place.workload}")
    told = {message, place.message, answer.message, *dashboards(made, place.workload)}
    assert told == {"Too big: asks 16 a100, gpus can reach 4."}


def test_a_pod_too_big_for_the_nodes_of_one_flavor_waits_for_quota_of_another() -> None:
    made = make_world(
        node("n0", gpu=8),
        node("n1", labels={names.GPU_PRODUCT_LABEL: "NVIDIA-H100-80GB-HBM3"}, gpu=16),
        make_flavor("h100", product="NVIDIA-H100-80GB-HBM3"),
        make_cluster_queue(quota=16, flavors=("a100", "h100")),
        make_local_queue(),
    )
    add(made, "first", gpus=16)
    add(made, "big", gpus=16)
    made.pass_time(32)
    read = cluster.relate(cluster.read(made.store, Wanted(namespace="ml")))
    (place,) = waiting.of(read, "gpus").waiting
    assert not place.never
    assert not place.message.startswith("Too big")


def told_of_nodes(made: World, flavor: str = "a100") -> str | None:
    """What a flavor says of its largest node."""
    metadata = made.store.get(resources.RESOURCE_FLAVORS, flavor)["metadata"]
    text: str | None = (metadata.get("annotations") or {}).get(names.LARGEST_NODE)
    return text


def test_a_flavor_says_how_large_its_largest_node_is_and_follows_it() -> None:
    made = world(node("n0", gpu=4))
    assert told_of_nodes(made) == "nvidia.com/gpu=4"

    made.store.create(resources.NODES, node("n1", gpu=8, mig=7))
    made.settle()
    made.pass_time(6)
    assert told_of_nodes(made) == "nvidia.com/gpu=8, nvidia.com/mig-1g.10gb=7"

    made.store.delete(resources.NODES, "n1")
    made.settle()
    made.pass_time(6)
    assert told_of_nodes(made) == "nvidia.com/gpu=4"

    made.store.delete(resources.NODES, "n0")
    made.settle()
    made.pass_time(6)
    assert told_of_nodes(made) is None


@pytest.mark.parametrize(
    ("placement", "labels", "told"),
    [
        ("", {}, "nvidia.com/gpu=2"),
        ("", AUTOSCALED, None),
        ("Enforce", AUTOSCALED, "nvidia.com/gpu=2"),
        ("Tell", {}, None),
        ("Off", {}, None),
    ],
)
def test_a_flavor_says_how_large_its_nodes_are_where_they_decide(
    placement: str, labels: dict[str, str], told: str | None
) -> None:
    made = world(node("n0", gpu=2, labels=labels), placement=placement)
    made.pass_time(6)
    assert told_of_nodes(made) == told


@pytest.mark.parametrize("gpus", [0, 8])
def test_a_flavor_takes_back_what_it_says_while_an_autoscaler_adds_nodes(gpus: int) -> None:
    made = world(node("n0", gpu=8))
    assert told_of_nodes(made) == "nvidia.com/gpu=8"

    made.store.create(resources.NODES, node("n1", gpu=gpus, labels=AUTOSCALED))
    made.settle()
    made.pass_time(6)
    assert told_of_nodes(made) is None

    made.store.delete(resources.NODES, "n1")
    made.settle()
    made.pass_time(6)
    assert told_of_nodes(made) == "nvidia.com/gpu=8"


def test_nodes_that_are_cordoned_or_tainted_are_as_large_as_before() -> None:
    tainted = node("n2", gpu=16)
    tainted["spec"] = {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}
    made = world(node("n0", gpu=4), node("n1", gpu=8), tainted)
    assert told_of_nodes(made) == "nvidia.com/gpu=16"
    made.store.delete(resources.NODES, "n2")
    made.store.patch(resources.NODES, "n1", patches.merge({"spec": {"unschedulable": True}}))
    made.settle()
    made.pass_time(6)
    assert told_of_nodes(made) == "nvidia.com/gpu=8"


def test_a_new_leader_says_nothing_before_it_knows_what_nodes_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = world(node("n0", gpu=8))
    made.pass_time(6)
    successor = made.restarted()
    with monkeypatch.context() as unlisted:
        unlisted.setattr(successor.parts.surroundings, "are_nodes_looked_at", lambda: False)
        successor.store.delete(resources.NODES, "n0")
        successor.settle()
        successor.pass_time(20)
        assert told_of_nodes(successor) == "nvidia.com/gpu=8"
        assert WritePurpose.KEEP_METADATA not in {write.operation for write in successor.sent}
    successor.settle()  # a list comes
    assert told_of_nodes(successor) is None


def test_nodes_are_known_once_what_they_publish_was_listed_and_looked_at() -> None:
    made = world(node("n0", gpu=8))
    assert made.parts.surroundings.are_nodes_looked_at()
    made.parts.kinds.informers[resources.RESOURCE_SLICES].forget_sync()
    assert not made.parts.surroundings.are_nodes_looked_at()
    made.settle()
    assert made.parts.surroundings.are_nodes_looked_at()


def test_what_a_flavor_says_of_its_nodes_is_put_right_and_wakes_nobody() -> None:
    made = world(node("n0", gpu=8), quota=8)
    add(made, "first", "second", gpus=8)
    made.pass_time(60)
    before = len(made.sent)
    wrong = patches.merge({"metadata": {"annotations": {names.LARGEST_NODE: "nvidia.com/gpu=99"}}})
    made.store.patch(resources.RESOURCE_FLAVORS, "a100", wrong)
    made.settle()

    assert told_of_nodes(made) == "nvidia.com/gpu=8"
    assert [write.operation for write in made.sent[before:]] == [WritePurpose.KEEP_METADATA]
