"""A pod is watched twice: what it holds of quota and of nodes comes free at the same time."""

from collections.abc import Callable

import pytest

from admission.base import names, patches
from admission.controller import core
from admission.kube import resources
from admission.kube.reflector import Upserted
from admission.objects import bound_pod
from tests.builders.cluster import make_node
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_capacity import A100, add, bind, make_world
from tests.controller.test_one_currency import GPU
from tests.controller.world import World

H100 = "NVIDIA-H100-80GB-HBM3"


def occupied_world() -> World:
    """One GPU of each product; a pod runs on the preferred one."""
    made = make_world(
        make_node("n0", {names.GPU_PRODUCT_LABEL: A100}, {GPU: 1}),
        make_node("n1", {names.GPU_PRODUCT_LABEL: H100}, {GPU: 1}),
        make_flavor("h100", product=H100),
        make_cluster_queue(flavors=("a100", "h100"), quota=1),
        make_local_queue(),
    )
    add(made, "first")
    bind(made, "first", "n0")
    assert product(made, "first") == A100
    return made


def product(made: World, pod: str) -> str:
    return (made.pod(pod).spec.node_selector or {}).get(names.GPU_PRODUCT_LABEL, "")


def be_deleted(made: World) -> None:
    change = patches.merge({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    made.store.patch(resources.PODS, "first", change, "ml")
    made.settle()
    made.unlisted.add(resources.BOUND_PODS)
    made.delete_pod("first")


def end(made: World) -> None:
    made.unlisted.add(resources.BOUND_PODS)
    made.set_phase("first", "Succeeded")


@pytest.mark.parametrize("leave", [end, be_deleted], ids=["ended", "deleted"])
def test_room_is_free_as_soon_as_quota_is(leave: Callable[[World], None]) -> None:
    made = occupied_world()
    leave(made)
    made.settle()
    add(made, "second")
    assert product(made, "second") == A100


def test_a_pod_that_is_seen_on_its_node_once_more_after_its_end_takes_no_room() -> None:
    made = occupied_world()
    bound = made.listed(resources.BOUND_PODS, bound_pod.BoundPodDocument)
    end(made)
    made.settle()
    made.core.receive(core.WatchMessage(resources.BOUND_PODS, Upserted(bound.items[0])))
    add(made, "second")
    assert product(made, "second") == A100


def test_a_pod_that_only_lost_its_label_goes_on_taking_room() -> None:
    made = occupied_world()
    made.unlisted.add(resources.BOUND_PODS)
    change = patches.merge({"metadata": {"labels": {names.MANAGED_LABEL: None}}})
    made.store.patch(resources.PODS, "first", change, "ml")
    made.settle()
    add(made, "second")
    assert product(made, "second") == H100


def test_a_preemptor_starts_whichever_watch_tells_first_that_its_victim_is_gone() -> None:
    made = make_world(
        make_node("n0", {names.GPU_PRODUCT_LABEL: A100}, {GPU: 1}),
        make_cluster_queue(quota=1, preemption={"withinClusterQueue": "LowerPriority"}),
        make_local_queue(),
    )
    add(made, "first")
    bind(made, "first", "n0")
    made.unlisted.add(resources.BOUND_PODS)
    made.add_pod("urgent", gpus=1, priority=100)
    made.pass_time(5)
    assert made.admitted() == {"urgent"}
