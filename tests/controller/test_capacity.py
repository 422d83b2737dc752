"""Promised against real: nodes, sick GPUs, pods of others, and the guard."""

import re
from typing import Any

import pytest
from prometheus_client import REGISTRY

from admission.answers import why
from admission.base import conditions, names, patches
from admission.base.names import FlavorName, FlavorResource, ResourceName
from admission.controller import core
from admission.kube import resources
from admission.kube.reflector import Upserted
from admission.objects import koordinator, views
from tests.builders.cluster import make_namespace, make_node
from tests.builders.pods import make_pod
from tests.builders.queues import (
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_group,
    make_local_queue,
)
from tests.controller.test_one_currency import GPU, MEMORY, MIG, flavor, queue
from tests.controller.world import World

GUARD = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
A100 = "NVIDIA-A100-SXM4-80GB"


def node(name: str, *, labels: dict[str, str] | None = None, **units: int) -> dict[str, Any]:
    """A Ready node; units by short name."""
    known = {"gpu": GPU, "mig": MIG}
    amounts = {known[key]: value for key, value in units.items()}
    return make_node(name, {names.GPU_PRODUCT_LABEL: A100, **(labels or {})}, amounts)


def guarded(document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"]["annotations"] = GUARD
    return document


def make_world(*documents: dict[str, Any], placement: str = "") -> World:
    """A world with a flavor; ``placement`` says what its nodes decide, if not the default."""
    made = World()
    flavor = make_flavor("a100", product=A100)
    if placement:
        flavor["metadata"].setdefault("annotations", {})[names.PLACEMENT] = placement
    made.add(make_namespace(), flavor, *documents)
    made.settle()
    return made


def set_node(made: World, name: str, **status: Any) -> None:
    change = patches.merge({"status": status})
    made.store.patch(resources.NODES, name, change, subresource="status")
    made.settle()


def allocatable(made: World, name: str, gpus: int) -> None:
    set_node(made, name, allocatable={GPU: str(gpus)})


def add(made: World, *pods: str, gpus: int = 1, queue: str = "team-a") -> None:
    for pod in pods:
        made.add_pod(pod, gpus=gpus, queue=queue)
        made.settle()


def bind(made: World, pod: str, node_name: str) -> None:
    made.store.patch(resources.PODS, pod, patches.merge({"spec": {"nodeName": node_name}}), "ml")
    made.settle()


def condition(made: World, name: str = "gpus") -> tuple[str, str]:
    """Status and text of the condition about capacity; empty where there is none."""
    made.pass_time(2)
    found = made.status_of(name).get("conditions", [])
    kind = conditions.CAPACITY_SUFFICIENT
    return next(((c["status"], c["message"]) for c in found if c["type"] == kind), ("", ""))


def guarded_world(quota: int = 8, placement: str = "", **units: int) -> World:
    return make_world(
        node("n0", gpu=units.get("gpu", 8)),
        guarded(make_cluster_queue(quota=quota)),
        make_local_queue(),
        placement=placement,
    )


# ---------------------------------------------------------------------------------- promised


def test_a_queue_that_promises_more_than_exists_says_so_with_numbers():
    made = make_world(
        node("n0", gpu=4), make_cluster_queue(quota=6), make_local_queue(), placement="Tell"
    )
    status, message = condition(made)
    assert status == "False"
    assert "nvidia.com/gpu in flavor a100: quota promises 6, 4 exist (4 healthy)" in message
    add(made, "p0", "p1", "p2", "p3", "p4", "p5")
    assert len(made.admitted()) == 6, "without the guard a promise is a promise"
    made.store.create(resources.NODES, node("n1", gpu=2))
    made.settle()
    assert condition(made)[0] == "True"
    assert condition(made)[1].startswith("All GPUs that the nominal quota promises exist")


def cordon(made: World, name: str, *, is_open: bool = False) -> None:
    change = patches.merge({"spec": {"unschedulable": None if is_open else True}})
    made.store.patch(resources.NODES, name, change)
    made.settle()


def test_a_cordoned_node_is_told_at_once_also_where_its_pods_still_hold_what_is_promised():
    made = make_world(
        node("n0", gpu=4), node("n1", gpu=1), make_cluster_queue(quota=5), make_local_queue()
    )
    add(made, "p0")
    bind(made, "p0", "n1")
    assert "held" not in condition(made)[1]
    cordon(made, "n1")
    status, message = condition(made)
    assert status == "True", "it counts until the pod ends"
    said = (
        "exist; nvidia.com/gpu in flavor a100: 1 held by running pods on sick GPUs or on nodes "
        "that take no new pods, and no longer count when these pods end"
    )
    assert said in message
    made.pass_time(5)
    assert "n1: cordoned" in condition(made)[1]
    made.store.delete(resources.PODS, "p0", "ml")
    made.settle()
    assert condition(made)[0] == "False"
    cordon(made, "n1", is_open=True)
    status, message = condition(made)
    assert (status, "held" in message) == ("True", False)


def test_nothing_is_said_where_no_node_has_gpus_or_no_quota_is_for_gpus():
    assert condition(make_world(make_cluster_queue(quota=6))) == ("", "")


def test_memory_and_slices_are_held_against_what_devices_are_worth():
    made = make_world(node("n0", gpu=1, mig=7), queue("gpus", "a100", memory="160Gi", slices=14))
    assert condition(made)[0] == "False"
    assert "gpu-memory in flavor a100: quota promises 160Gi, 150Gi exist" in condition(made)[1]
    assert "gpu-slices" not in condition(made)[1]


def test_queues_are_promised_capacity_by_name():
    made = make_world(
        node("n0", gpu=10),
        make_cluster_queue("alpha", quota=8),
        make_cluster_queue("beta", quota=8),
    )
    assert condition(made, "alpha")[0] == "True"
    assert condition(made, "beta")[0] == "False"
    assert (
        "2 exist, 6 promised to other queues first (10 healthy, 8 promised to other queues)"
        in (condition(made, "beta")[1])
    )


def test_quota_of_teams_is_served_before_that_of_their_cohort():
    pool = make_cohort("all", resourceGroups=[make_group({"a100": {GPU: 6}})])
    made = make_world(
        node("n0", gpu=4),
        guarded(make_cluster_queue("team", quota=4, cohortName="all")),
        pool,
        make_local_queue("team-a", "team"),
    )
    assert condition(made, "team")[0] == "True"
    add(made, *"abcde")
    assert made.admitted() == set("abcd")


def same_nodes(*nodes: dict[str, Any], first: int = 4, second: int = 4) -> World:
    """A guarded queue with quota in the flavors a100 and all, which select the same nodes."""
    made = World()
    quotas = {"a100": {GPU: first}, "all": {GPU: second}}
    queue_of_both = guarded(make_cluster_queue(quotas=quotas))
    everything = make_flavor("all", product=A100)
    flavor = make_flavor("a100", product=A100)
    made.add(make_namespace(), flavor, everything, queue_of_both, make_local_queue(), *nodes)
    made.settle()
    return made


def test_nodes_that_two_flavors_select_are_counted_once_and_the_queue_says_so():
    made = same_nodes(node("n0", gpu=4))
    add(made, "p0", "p1", "p2", "p3", "p4")
    assert len(made.admitted()) == 4
    status, message = condition(made)
    assert status == "False"
    assert (
        "nvidia.com/gpu in flavor all: quota promises 4, 0 exist, 4 promised to other queues and "
        "flavors first (4 healthy, 4 promised to other queues and flavors); flavor a100 selects "
        "the same nodes" in message
    )
    made.store.create(resources.NODES, node("n1", gpu=4))
    made.settle()
    assert len(made.admitted()) == 5
    assert condition(made)[0] == "True"


def test_a_flavor_gets_first_the_nodes_that_no_other_flavor_selects():
    made = World()
    label = {"pool": "own"}
    wide = make_flavor("a-wide", product=A100)
    narrow = make_flavor("b-narrow", product=A100)
    narrow["spec"]["nodeLabels"] |= label
    quotas = {"a-wide": {GPU: 4}, "b-narrow": {GPU: 4}}
    queue_of_both = guarded(make_cluster_queue(quotas=quotas))
    made.add(make_namespace(), wide, narrow, queue_of_both, make_local_queue())
    made.add(node("n0", gpu=4), node("n1", gpu=4, labels=label))
    made.settle()
    add(made, *(f"p{number}" for number in range(8)))
    assert len(made.admitted()) == 8
    assert condition(made)[0] == "True"


def test_nodes_are_counted_once_from_when_two_flavors_select_them():
    made = World()
    flavors = [make_flavor("x"), make_flavor("y")]
    flavors[0]["spec"]["nodeLabels"] = {"pool": "a"}
    flavors[1]["spec"]["nodeLabels"] = {"rack": "b"}
    quotas = {"x": {GPU: 4}, "y": {GPU: 4}}
    queue_of_both = guarded(make_cluster_queue(quotas=quotas))
    made.add(make_namespace(), *flavors, queue_of_both, make_local_queue())
    made.add(
        node("n0", gpu=4, labels={"pool": "a"}),
        node("n1", gpu=4, labels={"rack": "b"}),
    )
    made.settle()
    assert condition(made)[0] == "True"
    for name, labels in (("n0", {"rack": "b"}), ("n1", {"rack": None})):
        change = patches.merge({"metadata": {"labels": labels}})
        made.store.patch(resources.NODES, name, change)
    made.settle()
    assert condition(made)[0] == "False"


# ------------------------------------------------------------------------------------- guard


def test_the_guard_admits_only_what_exists_and_a_new_node_lets_more_in():
    made = guarded_world(quota=8, gpu=4)
    add(made, *"abcdef")
    assert made.admitted() == set("abcd")
    made.store.create(resources.NODES, node("n1", gpu=1))
    made.settle()
    assert len(made.admitted()) == 5


def test_a_sick_gpu_shrinks_what_the_next_pod_gets_and_running_pods_keep_theirs():
    made = guarded_world()
    add(made, *"abcdefgh")
    for pod in "abcdefgh":
        bind(made, pod, "n0")
    allocatable(made, "n0", 7)
    assert made.admitted() == set("abcdefgh")
    made.delete_pod("a")
    made.settle()
    add(made, "next")
    assert not made.is_gated("b")
    assert made.is_gated("next")
    made.pass_time(3)
    told = made.condition("next")
    assert told is not None
    assert "0 free of 7; 1 more promised, but sick or missing; 1st in queue gpus." in told.message
    allocatable(made, "n0", 8)
    assert not made.is_gated("next")


@pytest.mark.parametrize("is_held", [False, True])
def test_sick_gpus_that_are_counted_in_memory_are_sick_and_not_missing(is_held: bool) -> None:
    made = make_world(
        node("n0", gpu=2),
        guarded(make_cluster_queue(quotas={"a100": {names.GPU_MEMORY: "160Gi"}})),
        make_local_queue(),
    )
    if is_held:
        add(made, "first")
        bind(made, "first", "n0")
    unwell = patches.merge({"metadata": {"labels": {"gpu-health": "unhealthy"}}})
    made.store.patch(resources.NODES, "n0", unwell)
    made.settle()
    _, message = condition(made)
    parts = (
        "80Gi exist (0 healthy, 80Gi held by running pods on sick GPUs or on nodes that take no "
        "new pods, 80Gi sick and held by nobody)"
        if is_held
        else "0 exist (0 healthy, 160Gi sick)"
    )
    assert f"in flavor a100: quota promises 160Gi, {parts}" in message
    (stock,) = made.core.present.stock()
    assert stock.sick[names.GPU_MEMORY] == 160 * 2**30, "the dashboard shows it"


def test_what_is_promised_to_another_queue_first_is_neither_sick_nor_missing():
    """Both queues promise the same healthy GPUs; the one without guard comes first."""
    made = guarded_world(quota=8, gpu=8)
    made.store.create(resources.CLUSTER_QUEUES, make_cluster_queue("big", quota=8))
    made.settle()
    add(made, "a")
    made.pass_time(3)
    told = made.condition("a")
    assert told is not None
    assert told.reason == "CapacityPromised"
    assert "0 free of 0; 8 more promised, but they are promised to big first" in told.message
    assert "sick" not in told.message
    made.store.delete(resources.CLUSTER_QUEUES, "big")
    made.settle()
    assert not made.is_gated("a")


def three_teams(*quotas: int) -> World:
    """Guarded queues of one Cohort beside 16 GPUs of which two become sick."""
    teams = ("maps", "speech", "vision")
    made = make_world(
        node("n0", gpu=8),
        node("n1", gpu=8),
        *(
            guarded(make_cluster_queue(team, quota=quota, cohortName="all"))
            for team, quota in zip(teams, quotas, strict=True)
        ),
        *(make_local_queue(f"team-{team}", team) for team in teams),
    )
    allocatable(made, "n1", 6)
    return made


def granted(made: World) -> dict[str, int]:
    """The nominal quota that counts, by queue."""
    pair = FlavorResource(FlavorName("a100"), ResourceName(GPU))
    queues = made.state.forest.queues
    return {str(name): queue.quotas[pair].nominal for name, queue in sorted(queues.items())}


def test_what_is_sick_is_taken_from_all_queues_in_proportion_to_their_quota() -> None:
    made = three_teams(6, 6, 4)
    assert granted(made) == {"maps": 6, "speech": 5, "vision": 3}
    assert (
        "quota promises 4, 3 exist (14 healthy, 2 sick, 11 promised to other queues)"
        in (condition(made, "vision")[1])
    )
    allocatable(made, "n1", 8)
    assert granted(made) == {"maps": 6, "speech": 6, "vision": 4}


def test_what_is_promised_beyond_all_gpus_is_taken_first_from_the_last_by_name() -> None:
    assert granted(three_teams(8, 8, 4)) == {"maps": 7, "speech": 7, "vision": 0}


@pytest.mark.parametrize(
    ("quotas", "reason", "said"),
    [
        ((6, 6, 4), "CapacityMissing", "1 more promised, but sick or missing"),
        ((8, 8, 4), "CapacityPromised", "they are promised to maps, speech first"),
        (
            (6, 6, 6), "CapacityMissing",
            "3 more promised: 2 of them to maps, speech first, the rest is sick or missing",
        ),
    ],
    ids=["nothing is promised twice", "all of it is", "a part of it is"],
)  # fmt: skip
def test_only_what_is_promised_beyond_all_gpus_is_promised_to_others_first(
    quotas: tuple[int, int, int], reason: str, said: str
) -> None:
    made = three_teams(*quotas)
    for team, exists in granted(made).items():
        if team != "vision":
            add(made, *(f"{team}-{n}" for n in range(exists)), queue=f"team-{team}")
    made.add_pod("last", gpus=4, queue="team-vision")
    made.settle()
    made.pass_time(3)
    told = made.condition("last")
    assert told is not None
    assert said in told.message
    assert told.reason == reason
    answer = why.explain(made.store, "ml", "last")
    assert answer.reason == reason
    assert said in answer.message


@pytest.mark.parametrize(
    ("first", "cause"),
    [(8, "borrowed nothing: GPUs of its quota are sick or missing"), (10, "")],
    ids=["within its nominal quota", "it borrowed"],
)
def test_who_is_stopped_is_told_that_its_quota_was_held_to_gpus_that_are_well(
    first: int, cause: str
) -> None:
    teams = {"maps": first, "speech": 16 - first}
    reclaiming: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "Any"}}
    made = make_world(
        node("n0", gpu=8), node("n1", gpu=8),
        *(
            guarded(make_cluster_queue(team, quota=8, cohortName="all", **reclaiming))
            for team in teams
        ),
        *(make_local_queue(f"team-{team}", team) for team in teams),
        placement="Tell",
    )  # fmt: skip
    add(made, *(f"maps-{n}" for n in range(first)), queue="team-maps")
    add(made, "speech-0", queue="team-speech", gpus=4)
    allocatable(made, "n1", 4)
    add(made, "speech-1", queue="team-speech", gpus=2)
    made.pass_time(3)
    told = [note for _, reason, note in made.events.recorded if "reclamation" in note]
    assert told
    assert all(("borrowed nothing" in message) == bool(cause) for message in told)
    assert all(cause in message for message in told)


def test_all_devices_gone_at_once_is_believed_after_the_grace_only():
    made = guarded_world(quota=2, gpu=2)
    allocatable(made, "n0", 0)
    add(made, "during")
    assert not made.is_gated("during")
    made.pass_time(61)
    add(made, "later")
    assert made.is_gated("later")
    assert "quota promises 2, 0 exist" in condition(made)[1]
    allocatable(made, "n0", 2)
    assert not made.is_gated("later")


@pytest.mark.parametrize(
    ("labels", "spec", "conditions"),
    [
        ({}, {"unschedulable": True}, []),
        ({"gpu-health": "unhealthy"}, {}, []),
        ({names.GPU_PRODUCT_LABEL: "NVIDIA-A100-SXM4-80GB-MIG-INVALID"}, {}, []),
        ({"nvidia.com/mig.config.state": "rebooting"}, {}, []),
        ({}, {}, [{"type": "Ready", "status": "Unknown"}]),
        ({}, {}, [{"type": "AcceleratedHardwareReady", "status": "False"}]),
        ({}, {}, [{"type": "XIDErrors", "status": "True"}]),
    ],
)
def test_req_11_a_node_that_cannot_be_used_is_no_capacity(labels, spec, conditions):
    made = make_world(
        node("n0", gpu=1, labels={"pool": "a"}),
        node("n1", gpu=1, labels={"pool": "a"}),
        guarded(make_cluster_queue(quota=2)),
        make_local_queue(),
    )
    pool = patches.merge({"spec": {"nodeLabels": {"pool": "a", names.GPU_PRODUCT_LABEL: None}}})
    made.store.patch(resources.RESOURCE_FLAVORS, "a100", pool)
    ready = [{"type": "Ready", "status": "True"}] if not conditions else []
    change = {"metadata": {"labels": labels}, "spec": spec}
    made.store.patch(resources.NODES, "n1", patches.merge(change))
    set_node(made, "n1", conditions=[*ready, *conditions] or None)
    add(made, "first", "second")
    assert made.admitted() == {"first"}


def test_pods_on_a_cordoned_node_do_not_take_from_the_others():
    made = make_world(
        node("n0", gpu=2),
        node("n1", gpu=2),
        guarded(make_cluster_queue(quota=4)),
        make_local_queue(),
    )
    add(made, "a", "b")
    for pod in "ab":
        bind(made, pod, "n0")
    made.store.patch(resources.NODES, "n0", patches.merge({"spec": {"unschedulable": True}}))
    made.settle()
    add(made, "c", "d", "e")
    assert made.admitted() == set("abcd")


def test_the_guard_of_one_queue_covers_what_it_may_borrow():
    made = make_world(
        node("n0", gpu=4),
        guarded(make_cluster_queue("gpus", quota=2, cohortName="all")),
        make_cluster_queue("lender", quota=8, cohortName="all"),
        make_local_queue(),
        make_local_queue("team-b", "lender"),
    )
    add(made, *"abcdef")
    assert made.admitted() == set("abcd")


def test_the_guard_follows_a_cohort_into_the_tree_of_another_parent():
    made = make_world(
        node("n0", gpu=4),
        make_cohort("top"),
        make_cohort("team"),
        guarded(make_cluster_queue("safe", quota=0, cohortName="top")),
        make_cluster_queue("gpus", quota=6, cohortName="team"),
        make_local_queue(),
        placement="Tell",
    )
    move_cohort(made, "team", "top")
    add(made, *"abcdef")
    assert made.admitted() == set("abcd")
    move_cohort(made, "team", None)
    assert made.admitted() == set("abcdef"), "a promise without the guard is a promise"


def move_cohort(made: World, name: str, parent: str | None) -> None:
    change = patches.merge({"spec": {"parentName": parent}})
    made.store.patch(resources.COHORTS, name, change)
    made.settle()


def test_promises_of_other_trees_come_before_the_guarded_ones():
    made = make_world(
        node("n0", gpu=4),
        guarded(make_cluster_queue("alpha", quota=4)),
        make_cluster_queue("omega", quota=3),
        make_local_queue("team-a", "alpha"),
        make_local_queue("team-b", "omega"),
    )
    add(made, "a", "b")
    add(made, "x", "y", "z", queue="team-b")
    assert made.admitted() == {"a", "x", "y", "z"}


def test_taking_the_guard_off_admits_what_was_promised():
    made = guarded_world(quota=4, gpu=2, placement="Tell")
    add(made, *"abcd")
    assert made.admitted() == set("ab")
    off = patches.merge({"metadata": {"annotations": {names.CAPACITY_GUARD: None}}})
    made.store.patch(resources.CLUSTER_QUEUES, "gpus", off)
    made.settle()
    assert made.admitted() == set("abcd")


def test_a_restart_finds_the_same_capacity():
    made = guarded_world(quota=8, gpu=2)
    add(made, *"abc")
    again = made.restarted()
    again.settle()
    add(again, "d")
    assert again.admitted() == set("ab")


# ------------------------------------------------------------------------- pods of others


def other_pod(name: str, **labels: str) -> dict[str, Any]:
    return make_pod(name, labels=labels, gpus=1, nodeName="n0")


def test_pods_without_a_queue_hold_what_they_hold():
    made = guarded_world(quota=4, gpu=4)
    for pod in ("wild-0", "wild-1", "wild-2"):
        made.store.create(resources.PODS, other_pod(pod), "ml")
    made.set_phase("wild-2", "Succeeded")
    made.settle()
    add(made, *"abc")
    assert {"a", "b"} < made.admitted()
    assert made.is_gated("c")
    assert "4 healthy, 2 held by pods without a queue" in condition(made)[1]


def test_what_others_hold_is_known_as_soon_as_they_are_bound_and_gone():
    made = guarded_world(quota=4, gpu=4)
    assert condition(made)[0] == "True"
    made.store.create(resources.PODS, other_pod("wild"), "ml")
    made.settle()
    assert "4 healthy, 1 held by pods without a queue" in condition(made)[1]
    made.delete_pod("wild")
    made.settle()
    assert condition(made)[0] == "True"


def test_nothing_is_decided_before_it_is_known_what_others_hold():
    made = World()
    made.add(make_namespace(), make_flavor("a100", product=A100), node("n0", gpu=2))
    made.add(guarded(make_cluster_queue(quota=2)), make_local_queue())
    made.unlisted.add(resources.BOUND_PODS)
    add(made, "a")
    assert made.is_gated("a")
    assert condition(made) == ("", "")
    made.unlisted.clear()
    made.observe()
    made.settle()
    assert not made.is_gated("a")
    assert condition(made)[0] == "True"


def test_a_pod_with_the_label_of_a_pod_set_that_is_not_charged_is_counted_once():
    made = guarded_world(quota=4, gpu=4)
    made.store.create(resources.PODS, other_pod("job", **{names.PODSET_LABEL: "main"}), "ml")
    made.settle()
    assert "4 healthy, 1 held by pods without a queue" in condition(made)[1]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({names.PODSET_LABEL: "main"}, False),
        ({names.PODSET_LABEL: "main", names.CLUSTER_QUEUE_NAME_LABEL: "gpus"}, True),
    ],
)
def test_a_pod_hides_behind_the_label_of_a_pod_set_only_if_a_queue_is_charged_for_it(
    labels: dict[str, str], expected: bool
) -> None:
    made = guarded_world(quota=2, gpu=2)
    made.store.create(resources.PODS, other_pod("forged", **labels), "ml")
    made.settle()
    made.pass_time(10)
    assert (condition(made)[0] == "True") is expected


# ------------------------------------------------------------------------------- Koordinator


def device(name: str, *healthy: bool) -> koordinator.KoordinatorDevice:
    infos = tuple(
        koordinator.DeviceInfo(
            type="gpu",
            id=f"GPU-{minor}",
            minor=minor,
            health=one,
            conditions=(views.Condition(type="Healthy", status="False", reason="Xid79"),),
        )
        for minor, one in enumerate(healthy)
    )
    spec = koordinator.DeviceSpec(devices=infos)
    return koordinator.KoordinatorDevice(metadata=views.ObjectMeta(name=name, uid=name), spec=spec)


@pytest.mark.parametrize("first", ["device", "node"])
def test_a_device_that_the_agent_calls_sick_does_not_count(first: str):
    made = make_world(guarded(make_cluster_queue(quota=4)), make_local_queue())
    seen = core.WatchMessage(resources.DEVICES, Upserted(device("n0", True, True, False, True)))
    if first == "device":
        made.core.receive(seen)
    made.store.create(resources.NODES, node("n0", gpu=4))
    made.settle()
    made.core.receive(seen)
    add(made, *"abcd")
    assert made.admitted() == set("abc")
    assert "3 healthy, 1 sick" in condition(made)[1]


def told_of_devices(made: World) -> list[tuple[str, str, str]]:
    """Events on nodes about their devices."""
    return [event for event in made.events.recorded if event[1].startswith("Devices")]


def test_a_node_is_told_how_many_of_its_devices_are_sick_and_when_they_are_well_again() -> None:
    made = make_world(node("n0", gpu=8), node("n1", gpu=8), make_cluster_queue(quota=16))
    assert told_of_devices(made) == []
    why = "(the node offers fewer than it has)"
    sick = (
        f"1 of 8 nvidia.com/gpu of this node is sick {why}: nothing new starts on it until it is"
        " well. What runs here: kubectl gpu who n0"
    )
    sicker = (
        f"3 of 8 nvidia.com/gpu of this node are sick {why}: nothing new starts on them until they"
        " are well. What runs here: kubectl gpu who n0"
    )
    for gpus in (7, 7, 5, 8):
        allocatable(made, "n0", gpus)
    assert told_of_devices(made) == [
        ("n0", "DevicesSick", sick),
        ("n0", "DevicesSick", sicker),
        ("n0", "DevicesWell", "All 8 nvidia.com/gpu of this node are well again"),
    ]


def test_a_node_that_is_sick_when_it_is_seen_first_is_told_why() -> None:
    label = {"gpu-health": "unhealthy"}
    made = make_world(node("n0", gpu=1, labels=label), make_cluster_queue(quota=1))
    ((_, _, note),) = told_of_devices(made)
    assert note.startswith(
        "1 of 1 nvidia.com/gpu of this node is sick (label gpu-health=unhealthy): "
    )
    well = patches.merge({"metadata": {"labels": {"gpu-health": None}}})
    made.store.patch(resources.NODES, "n0", well)
    made.settle()
    expected = ("n0", "DevicesWell", "The nvidia.com/gpu of this node is well again")
    assert told_of_devices(made)[1:] == [expected]


@pytest.mark.parametrize("how", ["cordoned", "not Ready"])
def test_devices_of_a_node_that_is_only_out_of_use_are_not_told_as_sick(how: str) -> None:
    made = make_world(node("n0", gpu=8), make_cluster_queue(quota=8))
    before = made.store.get(resources.NODES, "n0")["status"]["conditions"]
    for is_open in (False, True):
        if how == "cordoned":
            cordon(made, "n0", is_open=is_open)
        else:
            lost = [{"type": "Ready", "status": "Unknown"}]
            set_node(made, "n0", conditions=before if is_open else lost)
        made.pass_time(60)
        assert told_of_devices(made) == []


def test_what_is_sick_before_a_cordon_is_told_as_well_after_it_only() -> None:
    made = make_world(node("n0", gpu=8), make_cluster_queue(quota=8))
    allocatable(made, "n0", 7)
    cordon(made, "n0")
    allocatable(made, "n0", 8)
    assert [reason for _, reason, _ in told_of_devices(made)] == ["DevicesSick"]
    cordon(made, "n0", is_open=True)
    assert [reason for _, reason, _ in told_of_devices(made)] == ["DevicesSick", "DevicesWell"]


def test_free_gpus_in_pieces_are_told_in_words():
    made = make_world(
        node("n0", gpu=2), node("n1", gpu=3), make_cluster_queue(quota=9), make_local_queue()
    )
    add(made, "a")
    bind(made, "a", "n1")
    made.pass_time(6)
    add(made, "b")
    assert condition(made)[1].endswith("a100: 4 free, largest hole 2 (n0)")


def test_req_30_pieces_are_told_where_all_gpus_exist_and_whenever_they_change():
    made = make_world(
        node("n0", gpu=2), node("n1", gpu=3), make_cluster_queue(quota=5), make_local_queue()
    )
    made.pass_time(6)
    said = "All GPUs that the nominal quota promises exist; nvidia.com/gpu in flavor a100: "
    assert condition(made) == ("True", f"{said}5 free, largest hole 3 (n1)")
    add(made, "a")
    bind(made, "a", "n1")
    made.pass_time(6)
    assert condition(made) == ("True", f"{said}4 free, largest hole 2 (n0)")
    made.store.delete(resources.NODES, "n0")
    made.pass_time(6)
    assert condition(made)[0] == "False", "three of five exist, two of them free on one node"
    assert "largest hole" not in condition(made)[1]


TAINTS = {
    "karpenter": {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
    "autoscaler": {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"},
    "virtual": {"key": "virtual-kubelet.io/provider", "value": "azure", "effect": "NoSchedule"},
}


@pytest.mark.parametrize("kind", sorted(TAINTS))
def test_a_node_whose_taint_pods_do_not_tolerate_is_no_capacity(kind: str) -> None:
    made = make_world(
        node("n0", gpu=4), node("virtual", gpu=1000), guarded(make_cluster_queue(quota=8)),
        make_local_queue(),
    )  # fmt: skip
    assert condition(made)[0] == "True"

    taints = patches.merge({"spec": {"taints": [TAINTS[kind]]}})
    made.store.patch(resources.NODES, "virtual", taints)
    made.settle()
    made.pass_time(6)

    status, message = condition(made)
    assert status == "False"
    assert "quota promises 8, 4 exist" in message
    assert f"virtual: taint {TAINTS[kind]['key']}:NoSchedule is not tolerated" in message
    (first, virtual) = made.core.present.stock()
    assert (first.free[GPU], virtual.free.get(GPU, 0)) == (4, 0)
    made.store.patch(resources.NODES, "virtual", patches.merge({"spec": {"taints": None}}))
    made.settle()
    assert condition(made)[0] == "True"


@pytest.mark.parametrize("how", ["tolerations", "nodeTaints"])
def test_a_node_counts_whose_taint_every_pod_of_the_flavor_tolerates(how: str) -> None:
    taint = TAINTS["virtual"]
    made = make_world(node("n0", gpu=8), make_cluster_queue(quota=8), make_local_queue())
    made.store.patch(resources.NODES, "n0", patches.merge({"spec": {"taints": [taint]}}))
    made.settle()
    assert condition(made)[0] == "False"

    given = {"tolerations": [{"key": taint["key"], "operator": "Exists"}], "nodeTaints": [taint]}
    made.store.patch(
        resources.RESOURCE_FLAVORS, "a100", patches.merge({"spec": {how: given[how]}})
    )
    made.settle()

    assert condition(made)[0] == "True"


def test_a_guarded_queue_says_that_gpus_are_missing_where_all_nodes_are_about_to_go() -> None:
    tainted = node("n0", gpu=8)
    tainted["spec"] = {"taints": [TAINTS["karpenter"]]}
    made = make_world(tainted, guarded(make_cluster_queue(quota=8)), make_local_queue())
    add(made, "a")
    made.pass_time(32)

    assert condition(made)[0] == "False"
    told = made.condition("a")
    assert told is not None
    assert (told.reason, made.admitted()) == ("CapacityMissing", set()), told.message


def test_what_runs_on_a_tainted_node_keeps_its_gpus() -> None:
    made = guarded_world(quota=8)
    add(made, "a", gpus=4)
    bind(made, "a", "n0")
    taints = patches.merge({"spec": {"taints": [TAINTS["karpenter"]]}})
    made.store.patch(resources.NODES, "n0", taints)
    made.settle()

    assert "quota promises 8, 4 exist" in condition(made)[1]
    made.delete_pod("a")
    made.settle()
    assert "quota promises 8, 0 exist" in condition(made)[1]


EXIST = re.compile(
    r"in flavor (\S+): quota promises \d+, (\d+) exist"
    r"(?:, \S+ promised to [a-z ]+ first)? \((.+?)\)"
)
LESS = ("held by pods without a queue", "promised to other queues")


def sum_of_parts(text: str) -> int:
    """What exists by the parts of a sentence: those of others are taken off, sick ones not in."""
    total = 0
    for part in text.split(", "):
        number, state = part.split(" ", 1)
        if not state.startswith("sick"):
            total += -int(number) if state.startswith(LESS) else int(number)
    return total


@pytest.mark.parametrize("wild", [0, 3], ids=["", "pods of others"])
@pytest.mark.parametrize("after", ["", "cordoned", "sick", "tainted", "all but one sick"])
def test_the_parts_of_what_exists_add_up(after: str, wild: int) -> None:
    made = make_world(
        node("n0", gpu=8),
        node("n1", gpu=8),
        make_cluster_queue("gpus", quota=12),
        make_cluster_queue("later", quota=12),
        make_local_queue(),
    )
    add(made, "a", gpus=4)
    bind(made, "a", "n0")
    for number in range(wild):
        made.store.create(resources.PODS, other_pod(f"wild-{number}"), "ml")
    if after in {"cordoned", "tainted"}:
        closed = (
            {"unschedulable": True} if after == "cordoned" else {"taints": [TAINTS["virtual"]]}
        )
        made.store.patch(resources.NODES, "n0", patches.merge({"spec": closed}))
    elif after:
        allocatable(made, "n0", 0 if after == "sick" else 1)
    made.settle()
    made.pass_time(60)
    sentences = [
        match for queue in ("gpus", "later") for match in EXIST.findall(condition(made, queue)[1])
    ]
    assert sentences
    for flavor_, exist, parts in sentences:
        assert sum_of_parts(parts) == int(exist), (flavor_, exist, parts)


def test_what_exists_and_what_is_sick_add_up_to_what_the_nodes_have() -> None:
    """One sick GPU, one node that is cordoned while a pod runs there, and one that is lost."""
    made = make_world(
        node("n0", gpu=8), node("n1", gpu=8), node("n2", gpu=8), node("n3", gpu=3),
        make_cluster_queue(quota=27), make_local_queue(),
    )  # fmt: skip
    add(made, "a", gpus=4)
    bind(made, "a", "n1")
    allocatable(made, "n0", 7)
    cordon = {"unschedulable": True, "taints": [taint("unschedulable")]}
    made.store.patch(resources.NODES, "n1", patches.merge({"spec": cordon}))
    lost = {"taints": [taint("unreachable")]}
    made.store.patch(resources.NODES, "n3", patches.merge({"spec": lost}))
    set_node(made, "n3", conditions=[{"type": "Ready", "status": "Unknown"}])
    made.pass_time(70)
    status, message = condition(made)
    assert status == "False"
    assert (
        "quota promises 27, 19 exist (15 healthy, 4 held by running pods on sick GPUs or on nodes "
        "that take no new pods, 8 sick and held by nobody); "
    ) in message
    assert 15 + 4 + 8 == 27
    assert "n1: cordoned; n3: not Ready" in message
    assert "is not tolerated" not in message


def taint(state: str) -> dict[str, str]:
    """The taint of a node in a state."""
    return {"key": f"node.kubernetes.io/{state}", "effect": "NoSchedule"}


def test_the_condition_names_flavors_that_select_the_same_nodes_though_all_gpus_exist() -> None:
    quotas = {one: {GPU: 4} for one in ("a100", "same")}
    made = make_world(
        node("n0", gpu=8), make_flavor("same", product=A100), make_cluster_queue(quotas=quotas),
        make_local_queue(),
    )  # fmt: skip

    status, message = condition(made)

    assert status == "True"
    assert "flavor a100 selects nodes that same selects too" in message


def test_a_flavor_of_cpu_that_selects_all_nodes_promises_none_of_their_gpus() -> None:
    gpus, cpu = make_group({"a100": {GPU: 8}}), make_group({"any": {"cpu": 64}})
    made = make_world(
        node("n0", gpu=8), make_flavor("any", node_labels={}),
        make_cluster_queue(resourceGroups=[gpus, cpu]), make_local_queue(),
    )  # fmt: skip

    status, message = condition(made)

    assert status == "True"
    assert "selects too" not in message


def test_req_30_slices_that_no_profile_can_use_are_told_and_counted():
    half = "nvidia.com/mig-3g.40gb"
    cut = node("n0", labels={"nvidia.com/gpu.count": "2", "nvidia.com/mig.strategy": "mixed"})
    cut["status"] |= {"capacity": {half: "4"}, "allocatable": {half: "4"}}
    made = make_world(cut, queue("gpus", "a100", slices=12), make_local_queue())
    made.pass_time(6)
    text = (
        "gpu-slices in flavor a100: 12 free, largest hole 12 (n0), 2 more that no profile can use"
    )
    assert condition(made)[1].endswith(text)
    assert shown("fragmentation_stranded", names.GPU_SLICES) == {("a100", names.GPU_SLICES): 2.0}
    assert shown("flavor_cards") == {("a100", GPU): 2.0}


def test_req_13_why_gpus_do_not_count_is_told_beside_the_numbers():
    nodes = [node(f"n{index}", gpu=1, labels={"gpu-health": "unhealthy"}) for index in range(5)]
    made = make_world(*nodes, make_cluster_queue(quota=5), make_local_queue())
    made.pass_time(6)
    assert "0 exist (0 healthy, 5 sick); n0: label gpu-health" in condition(made)[1]
    assert "n2: " in condition(made)[1]
    assert condition(made)[1].endswith("; and more nodes")


def test_req_30_gauges_show_flavors_and_go_with_them():
    made = make_world(
        node("n0", gpu=2), node("n1", gpu=3), make_cluster_queue(quota=9), make_local_queue()
    )
    add(made, "a")
    bind(made, "a", "n1")
    allocatable(made, "n1", 2)
    made.pass_time(6)
    assert shown("flavor_capacity") == {("a100", GPU): 4.0}
    assert shown("flavor_sick") == {("a100", GPU): 1.0}
    assert shown("fragmentation_free") == {("a100", GPU): 3.0}
    assert shown("fragmentation_largest_hole") == {("a100", GPU): 2.0}
    for name in ("n0", "n1"):
        made.store.delete(resources.NODES, name)
    made.pass_time(6)
    assert shown("flavor_capacity") == {}


def shown(gauge: str, resource: str = GPU) -> dict[tuple[str, str], float]:
    """Amounts in a gauge of this process, by flavor and resource."""
    return {
        (sample.labels["flavor"], sample.labels["resource"]): sample.value
        for family in REGISTRY.collect()
        if family.name == f"gpu_admission_{gauge}"
        for sample in family.samples
        if sample.labels["flavor"] == "a100" and sample.labels["resource"] == resource
    }


def test_one_currency_is_guarded_too():
    made = make_world(
        flavor("h100", "H100-80GB"),
        node("n0", gpu=1),
        guarded(queue("gpus", "a100", memory="800Gi")),
        make_local_queue(),
    )
    made.add_pod("whole", gpus=1)
    made.settle()
    made.add_pod("slice", gpus=1, resource=MIG)
    made.settle()
    assert made.admitted() == {"whole"}
    assert MEMORY in condition(made)[1]


def test_the_guard_admits_no_slice_where_the_nodes_are_not_cut():
    made = make_world(
        node("n0", gpu=2), guarded(queue("gpus", "a100", memory="800Gi")), make_local_queue()
    )
    made.add_pod("slice", gpus=1, resource=MIG)
    made.settle()
    made.add_pod("whole", gpus=1)
    made.settle()
    assert made.admitted() == {"whole"}
    made.pass_time(3)
    told = made.condition("slice")
    assert told is not None
    assert f"flavor a100 has no {MIG} now, only {GPU}: {names.CAPACITY_GUARD}" in told.message

    made.store.create(resources.NODES, node("n1", mig=7))
    made.settle()
    assert made.admitted() == {"slice", "whole"}


def test_without_the_guard_nodes_that_are_not_there_yet_may_bring_the_slices():
    made = make_world(
        node("n0", gpu=2), guarded(queue("gpus", "a100", memory="800Gi")), make_local_queue()
    )
    made.add_pod("slice", gpus=1, resource=MIG)
    made.settle()
    assert made.is_gated("slice")
    off = patches.merge({"metadata": {"annotations": {names.CAPACITY_GUARD: None}}})
    made.store.patch(resources.CLUSTER_QUEUES, "gpus", off)
    made.settle()
    assert not made.is_gated("slice")


def test_surge_quota_is_promised_too_and_the_guard_gives_it_out_last():
    surge = {names.SURGE_QUOTA: "a100/nvidia.com/gpu=2"}
    document = make_cluster_queue(quota=4, annotations={**surge, **GUARD})
    made = make_world(node("n0", gpu=5), document, make_local_queue())
    assert "quota promises 6, 5 exist" in condition(made)[1]
    (node_of_queue,) = made.state.forest.queues.values()
    assert list(node_of_queue.spec.surge_quota.values()) == [1]
    assert [quota.nominal for quota in node_of_queue.quotas.values()] == [4]
