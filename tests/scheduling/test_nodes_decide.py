"""Who is admitted where pods need room on nodes: decisions of the engine with nodes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admission.base import conditions
from admission.base.causes import NoFlavor, NoPlace, Overtaken
from admission.base.conditions import WaitReason
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    LocalQueueKey,
    PodCharge,
    PodSetName,
    ResourceName,
    WorkloadKey,
)
from admission.base.selectors import Requirement
from admission.reasons import kueue, placing, reading, sentences
from admission.scheduling import model
from admission.scheduling.decisions import CycleResult, Wait
from admission.scheduling.model import Enforcement, NodeTerm, PodNeeds, Spread
from admission.scheduling.places.model import BoundPod, Node
from admission.scheduling.preemption import candidates
from tests.builders.scheduling import ANY, LOWER, NOW_US, SECOND_US, cluster_queue, group, waiting
from tests.controller.steps import Steps
from tests.scheduling.worlds import World, admitted, evicted, waits, world

GPU = ResourceName("nvidia.com/gpu")
A, B = FlavorName("a"), FlavorName("b")


class Cluster:
    """A world with nodes, and a scheduler that binds pods to the places they were admitted for."""

    def __init__(self, made: World, nodes: Mapping[str, Node]) -> None:
        self.world = made
        for node in nodes.values():
            self.places.set_node(node)

    @property
    def places(self) -> Any:
        return self.world.state.places

    def cycle(self) -> CycleResult:
        """One cycle; what it admits is bound where it was admitted for."""
        result = self.world.cycle()
        for admit in result.admitted:
            self.bind(admit.workload.name, *admit.places)
        return result

    def bind(self, name: str, *places: Any) -> None:
        workload: Any = self.world.state.workload(WorkloadKey("default", name))
        needs = {one.name: dict(one.needs.requests) for one in workload.pod_sets}
        for place in places:
            for index in range(place.count):
                self.pod(
                    f"{name}-{place.pod_set}-{place.node}-{index}",
                    place.node,
                    needs[place.pod_set],
                    name,
                    place.pod_set,
                )

    def pod(
        self,
        uid: str,
        node: str,
        requests: Mapping[str, int],
        workload: str = "",
        pod_set: str = "main",
        *,
        is_ending: bool = False,
    ) -> None:
        key = WorkloadKey("default", workload) if workload else None
        pod = BoundPod(
            node, {**requests, "pods": 1}, key, pod_set, is_leaving=is_ending, is_ending=is_ending
        )
        self.places.set_pod(uid, pod)

    def finish(self, *names: str) -> None:
        """Workloads that end, with their pods."""
        for name in names:
            for uid in tuple(self.places.ledger._pods):
                if self.places.ledger._pods[uid].workload == ("default", name):
                    self.places.drop_pod(uid)
            self.world.finish(name)


def no_places(wait: Wait) -> tuple[NoPlace, ...]:
    assert isinstance(wait.why, NoFlavor)
    return wait.why.no_places


def node(name: str, gpus: int, flavor: str = "a", **fields: Any) -> Node:
    amounts = {GPU: gpus, "pods": 110} if gpus else {"pods": 110}
    labels = {"flavor": flavor, "kubernetes.io/hostname": name, **fields.pop("labels", {})}
    return Node(name=name, labels=labels, amounts=amounts, **fields)


def asking(
    name: str, gpus: int, count: int = 1, *, queue: str = "q", **fields: Any
) -> model.Workload:
    """A workload of equal pods that ask for GPUs."""
    needs = PodNeeds(requests=((GPU, gpus),), devices=(GPU,), **fields.pop("needs", {}))
    selector = fields.pop("selector", {})
    pods = model.PodSet(
        name=PodSetName("main"), count=count, requests={GPU: gpus}, needs=needs,
        node_selector=selector,
    )  # fmt: skip
    return waiting(name, queue, sets=(pods,), **fields)


def jointly(name: str, *sizes: tuple[int, int]) -> model.Workload:
    """A workload whose pod sets must all be in one rack: GPUs of a pod, and pods, of each."""
    needs = {"together": ("rack",), "jointly": ("rack",)}
    pod_sets = [
        replace(
            asking(name, gpus, count, needs=needs).pod_sets[0], name=PodSetName(f"set-{index}")
        )
        for index, (gpus, count) in enumerate(sizes)
    ]
    return waiting(name, "q", sets=tuple(pod_sets))


def cluster(
    *nodes: Node,
    quota: Mapping[str, int] | None = None,
    placement: Enforcement | None = None,
    workloads: tuple[model.Workload, ...] = (),
    **fields: Any,
) -> Cluster:
    quotas = quota or {"a": 64}
    queue = cluster_queue(
        "q", groups=[group({name: {GPU: (n,)} for name, n in quotas.items()})], **fields
    )
    flavors = [
        model.ResourceFlavor(
            name=FlavorName(name), node_labels={"flavor": name}, placement=placement
        )
        for name in quotas
    ]
    made = world(*flavors, queue, *workloads, flavors=())
    return Cluster(made, {one.name: one for one in nodes})


def test_a_pod_waits_while_no_node_has_a_hole_for_it_though_enough_is_free():
    made = cluster(node("n1", 4), node("n2", 4))
    made.world.add(asking("small-1", 2), asking("small-2", 2, selector={"flavor": "a"}))
    made.pod("other-1", "n1", {GPU: 2})
    made.pod("other-2", "n2", {GPU: 2})
    made.world.add(replace(asking("large", 4), priority=9))

    result = made.cycle()

    wait = waits(result)["large"]
    assert wait.reason == "WaitingForNode"
    (no_place,) = no_places(wait)
    assert no_place.free == 4
    assert no_place.hole == ("n1", 2)
    assert admitted(made.cycle()) == ["small-1"]


def test_who_waits_for_a_node_is_tried_again_when_a_pod_there_ends_and_not_before():
    made = cluster(node("n1", 4), node("n2", 4))
    made.pod("other-1", "n1", {GPU: 2})
    made.pod("other-2", "n2", {GPU: 2})
    made.world.add(asking("large", 4))
    assert admitted(made.cycle()) == []
    assert not made.world.state.has_work(NOW_US + 60 * SECOND_US)
    made.places.set_node(made.places.ledger.nodes["n1"])  # a heartbeat
    assert not made.world.state.has_work(NOW_US + 60 * SECOND_US)

    made.places.drop_pod("other-2")

    result = made.cycle()
    assert admitted(result) == ["large"]
    assert [(place.node, place.count) for place in result.admitted[0].places] == [("n2", 1)]


def test_no_running_work_dies_for_a_pod_that_fits_nowhere_afterwards():
    made = cluster(node("n1", 8), node("n2", 8), within=LOWER)
    for index, name in enumerate(("n1", "n1", "n1", "n2", "n2", "n2")):
        made.world.add(asking(f"low-{index}", 2, selector={"kubernetes.io/hostname": name}))
    for _ in range(6):
        made.cycle()
    made.pod("foreign-1", "n1", {GPU: 2})
    made.pod("foreign-2", "n2", {GPU: 2})

    made.world.add(replace(asking("high", 8), priority=9))
    result = made.cycle()

    assert evicted(result) == {}
    assert waits(result)["high"].reason == "WaitingForNode"


def test_victims_are_those_of_the_node_where_fewest_have_to_leave():
    made = cluster(node("n1", 8), node("n2", 8), within=LOWER)
    for index, (name, size) in enumerate([("n1", 2), ("n1", 2), ("n1", 2), ("n2", 4), ("n2", 2)]):
        made.world.add(asking(f"low-{index}", size, selector={"kubernetes.io/hostname": name}))
    for _ in range(5):
        made.cycle()

    made.world.add(replace(asking("high", 8), priority=9))
    result = made.cycle()

    assert sorted(evicted(result)) == ["low-3", "low-4"]
    made.finish("low-3", "low-4")
    result = made.cycle()
    assert [(place.node, place.count) for place in result.admitted[0].places] == [("n2", 1)]


@pytest.mark.parametrize("latest", ["whole", "borrows-2"])
def test_what_is_borrowed_is_taken_back_before_the_quota_of_others_though_more_have_to_leave(
    latest: str,
):
    made = cluster(node("n1", 8), node("n2", 8), quota={"a": 8}, cohort="all", reclaim=ANY)
    made.world.state.set_cluster_queue(
        cluster_queue("other", cohort="all", groups=[group({"a": {GPU: (8,)}})]), NOW_US
    )
    key = LocalQueueKey("default", "other")
    made.world.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName("other")), NOW_US
    )
    sizes = {
        "own": (2, "q", "n2"), "whole": (8, "other", "n1"),
        "borrows-4": (4, "other", "n2"), "borrows-2": (2, "other", "n2"),
    }  # fmt: skip
    for name in sorted(sizes, key=lambda name: name == latest):
        gpus, queue, host = sizes[name]
        selector = {"kubernetes.io/hostname": host}
        made.world.add(asking(name, gpus, queue=queue, selector=selector))
        assert admitted(made.cycle()) == [name]

    made.world.add(asking("reclaims", 6))

    assert sorted(evicted(made.cycle())) == ["borrows-2", "borrows-4"]


def test_the_place_of_a_preemptor_is_kept_until_its_victims_have_left():
    made = cluster(node("n1", 8), node("n2", 8), quota={"a": 64}, within=LOWER)
    made.world.state.set_cluster_queue(
        cluster_queue("other", groups=[group({"a": {GPU: (64,)}})]), NOW_US
    )
    key = LocalQueueKey("default", "other")
    made.world.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName("other")), NOW_US
    )
    made.pod("foreign", "n2", {GPU: 8})
    for index in range(4):
        made.world.add(asking(f"low-{index}", 2))
    for _ in range(4):
        made.cycle()
    made.world.add(replace(asking("high", 8), priority=9))
    assert sorted(evicted(made.cycle())) == ["low-0", "low-1", "low-2", "low-3"]

    made.finish("low-0")  # the others are ending
    made.world.add(asking("small", 1, queue="other"))
    result = made.cycle()

    assert admitted(result) == []
    assert waits(result)["small"].reason == "WaitingForNode"
    made.finish("low-1", "low-2", "low-3")
    assert admitted(made.cycle()) == ["high"]


def test_victims_do_not_come_back_before_their_preemptor_while_their_pods_end():
    """They have given their quota back, so that they wait again, and their pods end one by one."""
    made = cluster(node("n1", 8), quota={"a": 64}, within=LOWER)
    for index in range(4):
        made.world.add(asking(f"low-{index}", 2))
    for _ in range(4):
        made.cycle()
    made.world.add(replace(asking("high", 8), priority=9))
    assert sorted(evicted(made.cycle())) == ["low-0", "low-1", "low-2", "low-3"]
    for index in range(4):
        made.world.state.drop_workload(WorkloadKey("default", f"low-{index}"), NOW_US)
        made.world.add(asking(f"low-{index}", 2))
    assert admitted(made.cycle()) == []

    for index in range(3):
        made.places.drop_pod(f"low-{index}-main-n1-0")
        for _ in range(4):
            assert admitted(made.cycle()) == []

    made.places.drop_pod("low-3-main-n1-0")
    assert admitted(made.cycle()) == ["high"]


def unbound(*nodes: Node, priority: int = 1, **fields: Any) -> Cluster:
    """A pod with a place on `n0` that has not come to it yet, and a victim on each other node."""
    made = cluster(node("n0", 4), *nodes, within=LOWER)
    made.world.add(asking("unbound", 4, priority=priority, **fields))
    assert admitted(made.world.cycle()) == ["unbound"]
    for other in nodes:
        made.world.add(asking(f"low-{other.name}", 4, priority=1))
        assert admitted(made.cycle()) == [f"low-{other.name}"]
    return made


def test_the_room_of_a_victim_goes_first_to_a_pod_that_lost_its_place():
    made = unbound(node("n1", 4))
    made.pod("foreign", "n0", {GPU: 2})
    made.world.add(asking("high", 4, priority=9))

    assert sorted(evicted(made.cycle())) == ["low-n1", "unbound"]


def test_nobody_is_stopped_for_a_place_that_a_pod_without_one_takes():
    made = unbound(node("n1", 4), priority=9, never_preempts=True)
    made.pod("foreign", "n0", {GPU: 2})
    made.world.add(asking("high", 4, priority=5))

    assert evicted(made.cycle()) == {}


def test_what_is_kept_for_a_preemptor_is_given_up_where_a_pod_that_lost_its_place_takes_it():
    made = unbound(node("n1", 4))
    made.world.add(asking("high", 4, priority=9))
    (victim,) = evicted(made.cycle())
    assert victim == "low-n1"
    made.pod("foreign", "n0", {GPU: 2})
    made.finish("low-n1")

    result = made.cycle()

    assert admitted(result) == []
    assert list(evicted(result)) == ["unbound"]


def test_what_is_kept_for_a_preemptor_is_kept_beside_a_pod_that_lost_its_place():
    made = unbound(node("n1", 8))
    made.pod("foreign", "n1", {GPU: 4})
    made.world.add(asking("high", 4, priority=9))
    assert list(evicted(made.cycle())) == ["low-n1"]
    made.pod("low-n1-main-n1-0", "n1", {GPU: 4}, "low-n1", is_ending=True)
    made.pod("other", "n0", {GPU: 2})
    made.places.drop_pod("foreign")

    made.places.ledger.settle()

    assert made.places.ledger.is_kept(WorkloadKey("default", "high"))
    assert admitted(made.cycle()) == []
    made.finish("low-n1")
    assert admitted(made.cycle()) == ["high"]


@pytest.mark.parametrize("how", ["stopped", "gone", "moved"])
def test_places_are_given_up_of_who_is_not_decided_any_more(how):
    made = cluster(node("n1", 8), within=LOWER)
    made.world.state.set_cluster_queue(
        cluster_queue("other", groups=[group({"a": {GPU: (64,)}})]), NOW_US
    )
    key = LocalQueueKey("default", "other")
    made.world.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName("other")), NOW_US
    )
    made.world.add(asking("low", 8))
    made.cycle()
    high = replace(asking("high", 8), priority=9)
    made.world.add(high)
    assert evicted(made.cycle()) == {"low": "InClusterQueue"}
    state = made.world.state
    if how == "stopped":
        queue = state.forest.queues[ClusterQueueName("q")].spec
        state.set_cluster_queue(replace(queue, stop_policy=model.StopPolicy.HOLD), NOW_US)
    elif how == "gone":
        state.drop_cluster_queue(ClusterQueueName("q"), NOW_US)
    else:
        moved = replace(high, queue=key, pod_sets=(replace(high.pod_sets[0], needs=None),))
        state.set_workload(replace(moved, held=True), NOW_US)
    made.finish("low")
    made.world.add(asking("small", 1, queue="other"))

    made.world.clock += 61
    admitted_names = admitted(made.cycle())

    assert admitted_names == ["small"]


def test_a_flavor_whose_nodes_have_no_hole_is_passed_over_for_one_that_has():
    made = cluster(node("n1", 4), node("n2", 4), node("n3", 8, "b"), quota={"a": 8, "b": 8})
    made.pod("other-1", "n1", {GPU: 2})
    made.pod("other-2", "n2", {GPU: 2})
    made.world.add(asking("large", 4))

    result = made.cycle()

    assert result.admitted[0].pod_sets[0].flavors[GPU] == B


@pytest.mark.parametrize(
    ("needs", "fields"),
    [
        ({}, {"selector": {"kubernetes.io/hostname": "n2"}}),
        (
            {"terms": (NodeTerm((Requirement("memory", "Gt", ("40000",)),)),)},
            {},
        ),
        (
            {"terms": (NodeTerm((), (Requirement("metadata.name", "In", ("n2",)),)),)},
            {},
        ),
    ],
    ids=["hostname", "affinity on a label", "matchFields"],
)
def test_a_flavor_of_which_no_node_can_ever_take_the_pod_is_passed_over(needs, fields):
    made = cluster(
        node("n1", 8, labels={"memory": "40000"}),
        node("n2", 8, "b", labels={"memory": "80000"}),
        quota={"a": 8, "b": 8},
    )
    made.world.add(asking("w", 1, needs=needs, **fields))

    result = made.cycle()

    assert result.admitted[0].pod_sets[0].flavors[GPU] == B


def test_a_flavor_without_nodes_is_not_passed_over():
    made = cluster(node("n1", 8, "b"), quota={"a": 8, "b": 8})
    made.world.add(asking("w", 1))

    result = made.cycle()

    assert result.admitted[0].pod_sets[0].flavors[GPU] == A
    assert result.admitted[0].places == ()


@pytest.mark.parametrize(
    ("key", "why"),
    [("karpenter.sh/disrupted", "taint"), ("node.kubernetes.io/unschedulable", "cordoned")],
)
def test_a_taint_that_comes_later_takes_the_node_away_from_who_waits(key: str, why: str):
    made = cluster(node("n1", 8))
    tainted = replace(
        made.places.ledger.nodes["n1"], taints=(model.Taint(key=key, effect="NoSchedule"),)
    )
    made.places.set_node(tainted)
    made.world.add(asking("w", 1))
    (no_place,) = no_places(waits(made.cycle())["w"])
    assert no_place.refusals == ((why, 1),)

    made.places.set_node(replace(tainted, taints=()))

    assert admitted(made.cycle()) == ["w"]


def test_two_flavors_of_the_same_nodes_count_a_node_once():
    nodes = [node("n1", 4, labels={"flavor": "a", "other": "b"})]
    made = cluster(*nodes, quota={"a": 8})
    flavor = model.ResourceFlavor(name=B, node_labels={"other": "b"})
    made.world.state.set_resource_flavor(flavor, NOW_US)
    made.world.state.set_cluster_queue(
        cluster_queue("other", groups=[group({"b": {GPU: (8,)}})]), NOW_US
    )
    key = LocalQueueKey("default", "other")
    made.world.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName("other")), NOW_US
    )
    made.world.add(asking("w", 3), asking("v", 2, queue="other"))

    result = made.cycle()

    assert len(admitted(result)) == 1
    assert len(waits(result)) == 1


def test_two_heads_of_one_cycle_do_not_get_the_same_hole():
    made = cluster(node("n1", 4))
    for name in ("q1", "q2"):
        made.world.state.set_cluster_queue(
            cluster_queue(name, groups=[group({"a": {GPU: (4,)}})]), NOW_US
        )
        key = LocalQueueKey("default", name)
        made.world.state.set_local_queue(
            model.LocalQueue(key=key, cluster_queue=ClusterQueueName(name)), NOW_US
        )
    made.world.add(asking("w1", 3, queue="q1"), asking("w2", 3, queue="q2"))

    result = made.cycle()

    assert admitted(result) == ["w1"]
    assert waits(result)["w2"].why == Overtaken()


@pytest.mark.parametrize(("hosts", "is_admitted"), [(3, False), (4, True)])
def test_a_gang_whose_pods_must_be_on_different_hosts_needs_as_many(hosts, is_admitted):
    made = cluster(*[node(f"n{index}", 8) for index in range(hosts)])
    made.world.add(asking("gang", 1, 4, needs={"apart": ("kubernetes.io/hostname",)}))

    result = made.cycle()

    assert (admitted(result) == ["gang"]) is is_admitted


@pytest.mark.parametrize(("largest", "is_admitted"), [(1, False), (2, True)])
def test_a_gang_whose_pods_must_be_together_needs_one_rack_with_room(largest, is_admitted):
    racks = {"n1": ("r1", 2), "n2": ("r1", 1), "n3": ("r2", 2), "n4": ("r2", largest)}
    made = cluster(
        *[node(name, gpus, labels={"rack": rack}) for name, (rack, gpus) in racks.items()],
        node("no-rack", 8),
    )
    made.world.add(asking("gang", 1, 4, needs={"together": ("rack",)}))

    result = made.cycle()

    if is_admitted:
        places = {(place.node, place.count) for place in result.admitted[0].places}
        assert places == {("n3", 2), ("n4", 2)}
    else:
        (no_place,) = no_places(waits(result)["gang"])
        assert placing.shortage(no_place) == (
            "needs room on nodes of a with the same rack for 4 pods with 1 nvidia.com/gpu each,"
            " 3 fit; 6 are free, at most 2 on one node (n1); at most 3 fit once the nodes are"
            " empty"
        )


@pytest.mark.parametrize(
    ("first", "second", "rack"),
    [((2, 2), (3, 0), "r1"), ((2, 1), (3, 1), "r2"), ((2, 1), (3, 0), "")],
)
def test_pod_sets_that_must_be_together_with_each_other_get_one_rack(
    first: tuple[int, ...], second: tuple[int, ...], rack: str
):
    racks = {"r1": first, "r2": second}
    made = cluster(
        *[
            node(f"{name}-{index}", gpus, labels={"rack": name})
            for name, sizes in racks.items()
            for index, gpus in enumerate(sizes)
        ]
    )
    made.world.add(jointly("gang", (2, 1), (1, 2)))

    result = made.cycle()

    chosen = {place.node[:2] for admit in result.admitted for place in admit.places}
    assert chosen == ({rack} if rack else set())


def test_the_pods_of_the_other_pod_set_follow_the_first_to_its_rack():
    racks = {"n1": ("r1", 2), "n2": ("r1", 2), "n3": ("r2", 1), "n4": ("r2", 2)}
    made = cluster(
        *[node(name, gpus, labels={"rack": label}) for name, (label, gpus) in racks.items()]
    )
    made.world.add(jointly("gang", (1, 1), (2, 1)))
    places = made.world.cycle().admitted[0].places
    assert {place.node for place in places} == {"n3", "n4"}

    made.pod("first", "n1", {GPU: 1}, "gang", "set-0")
    made.world.cycle()

    (left,) = made.places.ledger.places(WorkloadKey("default", "gang"))
    assert (left.pod_set, racks[left.node][0]) == ("set-1", "r1")


def test_the_pods_of_a_gang_that_is_together_follow_the_first_to_its_rack():
    racks = {"n1": ("r1", 2), "n2": ("r1", 2), "n3": ("r2", 1), "n4": ("r2", 1)}
    made = cluster(
        *[node(name, gpus, labels={"rack": label}) for name, (label, gpus) in racks.items()]
    )
    made.world.add(asking("gang", 1, 2, needs={"together": ("rack",)}))
    places = made.world.cycle().admitted[0].places
    assert {place.node for place in places} == {"n3", "n4"}

    made.pod("first", "n1", {GPU: 1}, "gang")
    made.world.cycle()

    (left,) = made.places.ledger.places(WorkloadKey("default", "gang"))
    assert racks[left.node][0] == "r1"


def test_a_gang_that_must_be_together_and_apart_needs_one_block_of_racks():
    racks = {"n1": ("r1", "b1", 2), "n2": ("r2", "b2", 1)}
    made = cluster(
        *[
            node(name, gpus, labels={"rack": rack, "block": block})
            for name, (rack, block, gpus) in racks.items()
        ]
    )
    made.world.add(asking("gang", 1, 2, needs={"together": ("block",), "apart": ("rack",)}))

    assert admitted(made.cycle()) == []


def test_a_pod_that_follows_stays_with_the_others_of_its_gang():
    racks = {"n1": ("r1", 2), "n2": ("r1", 2), "n3": ("r2", 1), "n4": ("r2", 1)}
    made = cluster(
        *[node(name, gpus, labels={"rack": rack}) for name, (rack, gpus) in racks.items()]
    )
    made.world.add(asking("gang", 1, 2, needs={"together": ("rack",)}))
    places = made.cycle().admitted[0].places
    assert {place.node for place in places} <= {"n3", "n4"}
    made.places.drop_pod("gang-main-n3-0")
    made.pod("other", "n3", {GPU: 1})
    made.cycle()

    assert made.places.ledger.places(WorkloadKey("default", "gang")) == ()


HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("gpus", "count", "needs", "at_most"),
    [
        (5, 2, {"together": (HOST,)}, 1),
        (4, 2, {"together": (HOST,)}, None),
        (1, 3, {"apart": (HOST,)}, 2),
        (1, 2, {"apart": (HOST,)}, None),
        (8, 4, {}, 2),
        (8, 2, {}, None),
        (1, 17, {"spread": (Spread(HOST, 1),)}, 16),
        (1, 5, {"apart": ("rack",)}, 1),
    ],
)
def test_pods_that_never_fit_on_the_nodes_are_told_so_and_not_to_wait(
    gpus: int, count: int, needs: dict[str, Any], at_most: int | None
):
    made = cluster(*[node(f"n{index}", 8, labels={"rack": "r"}) for index in range(2)])
    made.world.add(asking("before", 8, 2))
    made.cycle()
    made.world.add(asking("w", gpus, count, needs=needs))

    why = waits(made.cycle())["w"].why

    assert isinstance(why, NoFlavor)
    assert [no_place.at_most for no_place in why.no_places] == [at_most]
    text = sentences.waits_for_node(why, "q")
    assert text.message.startswith("Waits for a node" if at_most is None else "Too big: ")


@pytest.mark.parametrize(
    "other",
    [
        node("n2", 7, sick={GPU: 1}),
        node("n2", 8, taints=(model.Taint(key="maintenance", effect="NoSchedule"),)),
    ],
    ids=["a device is sick", "a node is tainted"],
)
def test_pods_that_may_fit_once_a_node_is_well_again_wait(other: Node):
    made = cluster(node("n1", 8), other)
    made.world.add(asking("w", 8, 2))

    assert no_places(waits(made.cycle())["w"])[0].at_most is None


@pytest.mark.parametrize(("gpus", "count"), [(4, 3), (9, 1)], ids=["too many", "too large"])
def test_pods_wait_where_an_autoscaler_brings_nodes_though_those_that_are_there_decide(
    gpus: int, count: int
):
    made = cluster(node("n1", 8, is_scaled=True), placement=Enforcement.ENFORCE)
    made.world.add(asking("w", gpus, count))

    (no_place,) = no_places(waits(made.cycle())["w"])

    assert (no_place.at_most, no_place.largest) == (None, None)


def test_a_larger_node_ends_the_verdict_that_pods_never_fit():
    made = cluster(node("n1", 8))
    made.world.add(asking("w", 8, 2))
    assert no_places(waits(made.cycle())["w"])[0].at_most == 1

    made.places.set_node(node("n2", 8))

    assert admitted(made.cycle()) == ["w"]


@pytest.mark.parametrize(("free", "is_admitted"), [((2, 0), False), ((2, 1), True)])
def test_a_spread_over_hosts_needs_room_on_each_of_them(free, is_admitted):
    made = cluster(*[node(f"n{index}", 2) for index in range(2)])
    for index, amount in enumerate(free):
        if amount < 2:
            made.pod(f"other-{index}", f"n{index}", {GPU: 2 - amount})
    made.world.add(asking("w", 1, 3, needs={"spread": (Spread("kubernetes.io/hostname", 1),)}))

    assert (admitted(made.cycle()) == ["w"]) is is_admitted


def test_what_was_admitted_keeps_its_place_until_its_pods_are_bound():
    made = cluster(node("n1", 4))
    made.world.add(asking("w1", 3))
    first = made.world.cycle()  # nothing is bound yet
    assert admitted(first) == ["w1"]
    made.world.add(asking("w2", 2))

    assert admitted(made.cycle()) == []

    made.bind("w1", *first.admitted[0].places)
    assert admitted(made.cycle()) == []
    made.finish("w1")
    assert admitted(made.cycle()) == ["w2"]


def test_who_is_admitted_again_while_its_former_pods_end_has_places_for_all_of_its_pods():
    """Its former pods are counted as some of its pods while they are there."""
    made = cluster(node("n1", 5))
    for uid in ("former-1", "former-2"):
        made.pod(uid, "n1", {GPU: 1}, "w1")
    made.world.add(asking("w1", 1, count=3))
    assert admitted(made.world.cycle()) == ["w1"]
    for uid in ("former-1", "former-2"):
        made.places.drop_pod(uid)

    made.world.add(asking("w2", 1, count=3))

    assert admitted(made.cycle()) == []


def test_nobody_gets_the_places_of_who_is_admitted_again_while_its_former_pods_end():
    """Its former pods are on their nodes, and do not stand for those that come."""
    made = cluster(node("n1", 2), node("n2", 2))
    for uid in ("former-1", "former-2"):
        made.pod(uid, "n1", {GPU: 1}, "again", is_ending=True)
    made.world.add(asking("again", 1, 2))
    made.world.add(asking("other", 1, 2))
    assert admitted(made.world.cycle()) == ["again"]
    assert admitted(made.world.cycle()) == []
    for uid in ("former-1", "former-2"):
        made.places.drop_pod(uid)
    assert admitted(made.cycle()) == ["other"]


def test_a_pod_that_follows_one_that_ends_has_a_place_beside_it_or_the_same():
    made = cluster(node("n1", 1), node("n2", 1))
    made.world.add(asking("served", 1))
    there = made.cycle().admitted[0].places[0].node
    made.pod(f"served-main-{there}-0", there, {GPU: 1}, "served", is_ending=True)
    made.world.add(asking("other", 1))
    assert admitted(made.cycle()) == []
    made.places.drop_pod(f"served-main-{there}-0")
    assert admitted(made.cycle()) == ["other"]


def test_who_is_admitted_again_after_an_eviction_has_its_places_before_that_is_written():
    made = cluster(node("n1", 2))
    former = model.Eviction(reason="Preempted", since_us=NOW_US - SECOND_US)
    made.world.add(asking("again", 2, eviction=former))
    made.world.add(asking("other", 1, created=1))

    assert admitted(made.world.cycle()) == ["again"]
    assert admitted(made.world.cycle()) == []


def test_who_is_admitted_again_after_an_eviction_can_be_preempted_before_that_is_written():
    made = cluster(node("n1", 2), quota={"a": 2}, within=LOWER)
    former = model.Eviction(reason="Preempted", since_us=NOW_US - SECOND_US)
    made.world.add(asking("again", 2, eviction=former))
    assert admitted(made.world.cycle()) == ["again"]
    made.world.add(asking("high", 2, priority=1))

    assert list(evicted(made.world.cycle())) == ["again"]


def test_a_pod_that_is_bound_elsewhere_frees_the_place_that_was_promised():
    made = cluster(node("n1", 4), node("n2", 4))
    made.world.add(asking("w1", 3))
    first = made.world.cycle()
    (place,) = first.admitted[0].places
    elsewhere = "n2" if place.node == "n1" else "n1"

    made.bind("w1", replace(place, node=elsewhere))

    made.world.add(asking("w2", 4))
    result = made.cycle()
    assert [one.node for one in result.admitted[0].places] == [place.node]


def test_a_restarted_controller_promises_places_again():
    made = cluster(node("n1", 4))
    made.world.add(asking("w1", 3))
    admit = made.world.cycle().admitted[0]
    held = model.Reservation(cluster_queue=admit.cluster_queue, pod_sets=admit.pod_sets)
    again = cluster(
        node("n1", 4),
        workloads=(replace(asking("w1", 3), reservation=held), asking("w2", 2)),
    )

    assert admitted(again.cycle()) == []


def test_nodes_that_an_autoscaler_brings_decide_nothing():
    made = cluster(node("n1", 4, is_scaled=True))
    made.pod("other", "n1", {GPU: 4})
    made.world.add(asking("w", 4))

    assert admitted(made.cycle()) == ["w"]


def test_an_annotation_of_the_flavor_decides_over_what_nodes_suggest():
    made = cluster(node("n1", 4, is_scaled=True), placement=Enforcement.ENFORCE)
    made.pod("other", "n1", {GPU: 4})
    made.world.add(asking("w", 4))

    assert admitted(made.cycle()) == []


def test_pods_without_devices_are_not_held_for_nodes_by_default():
    made = cluster(node("n1", 4))
    needs = PodNeeds(requests=(("cpu", 64_000),))
    pods = model.PodSet(name=PodSetName("main"), requests={GPU: 0}, needs=needs)
    made.world.add(waiting("w", "q", sets=(pods,)))

    assert admitted(made.cycle()) == ["w"]


@pytest.mark.parametrize(("priority", "is_admitted"), [(5, True), (0, False), (None, False)])
def test_what_the_scheduler_makes_room_for_by_preempting_is_left_to_it(priority, is_admitted):
    made = cluster(node("n1", 8))
    pod = BoundPod("n1", {GPU: 8, "pods": 1}, priority=0)
    made.places.set_pod("victim", pod)
    made.world.add(asking("urgent", 8, needs={"priority": priority}))

    result = made.cycle()

    assert (admitted(result) == ["urgent"]) is is_admitted


def test_pod_sets_that_fit_alone_and_not_in_one_rack_wait_though_lower_pods_run():
    racks = {"n1": ("r1", 2), "n2": ("r2", 3)}
    made = cluster(
        *[node(name, gpus, labels={"rack": label}) for name, (label, gpus) in racks.items()]
    )
    made.pod("low", "n1", {})
    gang = jointly("gang", (2, 1), (1, 2))
    made.world.add(replace(gang, pod_sets=tuple(map(_urgent, gang.pod_sets))))

    assert admitted(made.cycle()) == []


def test_pod_sets_that_fit_alone_and_not_at_once_wait_though_lower_pods_run():
    made = cluster(node("n1", 3), node("n2", 1))
    made.pod("low", "n2", {})
    sizes = [
        replace(_urgent(asking("two", 2).pod_sets[0]), name=PodSetName(name)) for name in "ab"
    ]
    made.world.add(waiting("two", "q", sets=tuple(sizes)))

    assert admitted(made.cycle()) == []


def test_the_scheduler_makes_room_for_the_pod_set_that_lacks_it():
    made = cluster(node("n1", 2), node("n2", 2))
    made.pod("low", "n2", {GPU: 2})
    sizes = [
        replace(_urgent(asking("two", 2).pod_sets[0]), name=PodSetName(name)) for name in "ab"
    ]
    made.world.add(waiting("two", "q", sets=tuple(sizes)))

    assert admitted(made.cycle()) == ["two"]


def _urgent(pod_set: model.PodSet) -> model.PodSet:
    assert pod_set.needs is not None
    return replace(pod_set, needs=replace(pod_set.needs, priority=1000))


def test_pod_sets_that_must_be_together_are_promised_a_rack_that_takes_all_of_them():
    racks = {"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r1", 1)}
    racks |= {f"m{index}": ("r2", 3) for index in range(4)}
    made = cluster(
        *[node(name, gpus, labels={"rack": label}) for name, (label, gpus) in racks.items()]
    )
    made.world.add(jointly("gang", (1, 1), (4, 2)))
    places = made.world.cycle().admitted[0].places
    key = WorkloadKey("default", "gang")
    ledger = made.places.ledger
    wants = ledger._promises[key].wants
    assert {racks[place.node][0] for place in places} == {"r1"}
    ledger.release(key)
    ledger.promise(key, wants)

    ledger.settle()

    assert {racks[place.node][0] for place in ledger.places(key)} == {"r1"}
    assert sum(place.count for place in ledger.places(key)) == 3


@pytest.mark.parametrize("largest", [10, 9])
def test_what_fits_in_no_rack_of_many_is_found_out_in_few_steps(largest: int):
    racks = [node(f"n{index}", 8, labels={"rack": f"r{index // 16}"}) for index in range(400)]
    made = cluster(*racks, quota={"a": 100_000})
    made.world.add(jointly("gang", (8, largest), (5, 10)))

    steps = Steps()
    with steps.counting():
        result = made.world.cycle()

    assert set(waits(result)) == {"gang"}
    assert steps.total < 6_000_000


CPU = ResourceName("cpu")


def two_groups(
    *nodes: Node,
    gpus: int = 24,
    beside: ResourceName = CPU,
    beside_quota: int = 64,
    **placements: Enforcement,
) -> Cluster:
    """A queue of GPUs in a flavor, and of cpu in one whose nodes are all nodes."""
    quotas = [group({"any": {beside: (beside_quota,)}}), group({"a": {GPU: (gpus,)}})]
    queue = cluster_queue("q", groups=quotas)
    flavors = (
        model.ResourceFlavor(name=FlavorName("any"), placement=placements.get("any")),
        model.ResourceFlavor(name=A, node_labels={"flavor": "a"}, placement=placements.get("a")),
    )
    return Cluster(world(*flavors, queue), {one.name: one for one in nodes})


def with_cpu(name: str, gpus: int, count: int = 1, beside: ResourceName = CPU) -> model.Workload:
    """A workload of pods that ask for cpu, or another resource, and GPUs."""
    (pods,) = asking(name, gpus, count).pod_sets
    assert pods.needs is not None
    needs = replace(pods.needs, requests=((beside, 1), (GPU, gpus)))
    pods = replace(pods, requests={beside: 1, GPU: gpus}, needs=needs)
    return waiting(name, "q", sets=(pods,))


def machine(name: str, gpus: int) -> Node:
    """A node with cpu, and GPUs if it has any."""
    plain = node(name, gpus, flavor="a" if gpus else "none")
    return replace(plain, amounts={**plain.amounts, CPU: 32, ResourceName("memory"): 32})


def why(cluster: Cluster, workload: model.Workload) -> Wait:
    """Why a workload waits that comes now."""
    cluster.world.state.set_workload(workload, NOW_US)
    return waits(cluster.cycle())[workload.key.name]


def test_more_than_the_quota_of_another_resource_group_is_too_big_whatever_nodes_have():
    cluster = two_groups(machine("gpu", 8), machine("plain", 0))
    wait = why(cluster, with_cpu("big", 64))
    assert wait.reason == WaitReason.EXCEEDS_MAX_QUOTA
    assert isinstance(wait.why, NoFlavor)
    assert sentences.waiting(wait.why, "q", shortages=wait.shortages).message.startswith("Too big")


def test_quota_in_use_in_another_resource_group_is_waited_for_before_room_on_nodes():
    cluster = two_groups(machine("gpu", 8), machine("other", 8), gpus=8)
    cluster.world.state.set_workload(with_cpu("first", 8), NOW_US)
    assert admitted(cluster.cycle()) == ["first"]
    cluster.pod("foreign", "other", {GPU: 8})
    wait = why(cluster, with_cpu("second", 8))
    assert wait.reason == WaitReason.WAITING_FOR_QUOTA
    cluster.world.finish("first")
    assert waits(cluster.cycle())["second"].reason == WaitReason.WAITING_FOR_NODE
    cluster.finish("first")
    assert admitted(cluster.cycle()) == ["second"]


@pytest.mark.parametrize("beside", ["cpu", "zinc"], ids=["GPUs are last", "GPUs are first"])
def test_a_pod_larger_than_every_node_is_too_big_whatever_quota_of_another_group_is_in_use(
    beside: str,
) -> None:
    other = ResourceName(beside)
    nodes = [replace(machine(f"n{n}", 8), amounts={GPU: 8, other: 999}) for n in range(2)]
    cluster = two_groups(*nodes, gpus=64, beside=other)
    first = with_cpu("first", 8, beside=other)
    (pods,) = first.pod_sets
    taking = replace(pods, requests={other: 64, GPU: 8})
    cluster.world.state.set_workload(replace(first, pod_sets=(taking,)), NOW_US)
    assert admitted(cluster.cycle()) == ["first"]
    wait = why(cluster, with_cpu("big", 12, beside=other))
    assert isinstance(wait.why, NoFlavor)
    message = sentences.waiting(wait.why, "q", shortages=wait.shortages).message
    assert message == "Too big: a pod asks 12 a, the largest node has 8."
    read = reading.of_condition(wait.reason, kueue.message(wait.why))
    assert isinstance(read, NoFlavor)
    assert sentences.waiting(read, "q").message == message


@pytest.mark.parametrize(
    ("sizes", "asks", "said"),
    [
        ([(8, 64)], (1, 65), "a pod asks 65 zinc of a, the largest node has 64."),
        ([(8, 64), (4, 99)], (8, 70), "a pod asks 70 zinc of a, the largest node has 64."),
        ([(8, 64), (4, 99)], (9, 100), "a pod asks 9 a, the largest node has 8."),
        ([(8, 64), (4, 99)], (4, 100), "a pod asks 100 zinc of a, the largest node has 99."),
    ],
    ids=["of one node", "of the nodes with enough GPUs", "GPUs first", "of all nodes"],
)
def test_a_pod_is_too_big_by_what_no_node_has_enough_of(
    sizes: list[tuple[int, int]], asks: tuple[int, int], said: str
) -> None:
    other = ResourceName("zinc")
    nodes = [
        replace(machine(f"n{n}", gpus), amounts={GPU: gpus, other: amount})
        for n, (gpus, amount) in enumerate(sizes)
    ]
    big = with_cpu("big", asks[0], beside=other)
    (pods,) = big.pod_sets
    requests = {GPU: asks[0], other: asks[1]}
    assert pods.needs is not None
    needs = replace(pods.needs, requests=tuple(sorted(requests.items())))
    big = replace(big, pod_sets=(replace(pods, requests=requests, needs=needs),))
    wait = why(two_groups(*nodes, gpus=64, beside=other, beside_quota=1000), big)
    assert isinstance(wait.why, NoFlavor)
    message = sentences.waiting(wait.why, "q", shortages=wait.shortages).message
    assert message == f"Too big: {said}"
    read = reading.of_condition(wait.reason, kueue.message(wait.why))
    assert isinstance(read, NoFlavor)
    assert sentences.waiting(read, "q").message == message


def test_a_pod_is_not_too_big_while_a_flavor_of_another_group_has_larger_nodes() -> None:
    """Of the flavors of the other group only the one with small nodes was tried last."""
    other = ResourceName("memory")
    quotas = [group({"small": {other: (4,)}, "large": {other: (4,)}}), group({"a": {GPU: (64,)}})]
    flavors = [
        model.ResourceFlavor(name=FlavorName(name), node_labels={"zone": name})
        for name in ("small", "large")
    ]
    nodes = {
        name: replace(
            machine(name, gpus), labels={**machine(name, gpus).labels, "zone": name},
            amounts={GPU: gpus, other: 999},
        )
        for name, gpus in (("small", 8), ("large", 16))
    }  # fmt: skip
    cluster = Cluster(
        world(
            *flavors,
            model.ResourceFlavor(name=A, node_labels={"flavor": "a"}),
            cluster_queue("q", groups=quotas),
        ),
        nodes,
    )
    for name, zone in (("first", "small"), ("second", "large")):
        holder = with_cpu(name, 1, beside=other)
        (pods,) = holder.pod_sets
        pods = replace(pods, requests={other: 4, GPU: 1}, node_selector={"zone": zone})
        cluster.world.state.set_workload(replace(holder, pod_sets=(pods,)), NOW_US)
        assert admitted(cluster.cycle()) == [name]
    wait = why(cluster, with_cpu("big", 12, beside=other))
    assert isinstance(wait.why, NoFlavor)
    message = sentences.waiting(wait.why, "q", shortages=wait.shortages).message
    assert not message.startswith("Too big")
    cluster.world.finish("second")
    cluster.finish("second")
    assert admitted(cluster.cycle()) == ["big"]


def test_nodes_are_those_that_the_flavors_of_all_resource_groups_select():
    cluster = two_groups(machine("gpu", 8), machine("plain", 0))
    (no_place,) = no_places(why(cluster, with_cpu("wide", 16)))
    assert (no_place.flavors, no_place.told_flavors) == (("a", "any"), ("a",))
    assert no_place.largest == 8
    assert no_place.refusals == (("size", 1),)


def test_who_finds_no_room_in_two_resource_groups_is_tried_again_once_a_node_has_room():
    cluster = two_groups(machine("gpu", 8))
    cluster.pod("foreign", "gpu", {GPU: 8})
    (no_place,) = no_places(why(cluster, with_cpu("next", 8)))
    assert placing.shortage(no_place).startswith("needs 8 nvidia.com/gpu on one node of a;")
    cluster.places.drop_pod("foreign")
    assert admitted(cluster.cycle()) == ["next"]


@pytest.mark.parametrize("beside", ["cpu", "memory"], ids=["GPUs first", "memory first"])
@pytest.mark.parametrize("count", [1, 2])
def test_who_gets_quota_back_that_is_in_another_resource_group_makes_room_on_nodes(
    beside: str, count: int
) -> None:
    """Borrowers that ask for GPUs alone are preempted for pods that ask for more besides."""
    other = ResourceName(beside)
    quotas = [group({"any": {other: (64,)}}), group({"a": {GPU: (8,)}})]
    cluster = Cluster(
        world(
            model.ResourceFlavor(name=FlavorName("any")),
            model.ResourceFlavor(name=A, node_labels={"flavor": "a"}),
            cluster_queue("q", groups=quotas, cohort="c", reclaim=ANY),
            cluster_queue("borrower", groups=quotas, cohort="c", reclaim=ANY),
        ),
        {name: machine(name, 8) for name in ("n1", "n2")},
    )
    for name in ("first", "second"):
        cluster.world.state.set_workload(asking(name, 8, queue="borrower"), NOW_US)
        assert admitted(cluster.cycle()) == [name]
    (pods,) = asking("owner", 8 // count, count).pod_sets
    assert pods.needs is not None
    needs = replace(pods.needs, requests=((other, 1), *pods.needs.requests))
    pods = replace(pods, requests={other: 1, **pods.requests}, needs=needs)
    cluster.world.state.set_workload(waiting("owner", "q", sets=(pods,)), NOW_US)
    result = cluster.cycle()
    (victim,) = evicted(result)
    cluster.finish(victim)
    assert admitted(cluster.cycle()) == ["owner"]


@pytest.mark.parametrize(
    ("placements", "is_admitted"),
    [
        ({}, False),
        ({"any": Enforcement.OFF}, False),
        ({"any": Enforcement.TELL, "a": Enforcement.ENFORCE}, False),
        ({"a": Enforcement.OFF}, True),
        ({"any": Enforcement.ENFORCE, "a": Enforcement.TELL}, True),
    ],
)
def test_the_flavor_that_tells_the_nodes_decides_for_those_that_select_more(
    placements: dict[str, Any], is_admitted: bool
) -> None:
    cluster = two_groups(machine("gpu", 8), **placements)
    cluster.pod("foreign", "gpu", {GPU: 8})
    cluster.world.state.set_workload(with_cpu("next", 8), NOW_US)
    assert (admitted(cluster.cycle()) == ["next"]) is is_admitted


def test_an_autoscaler_of_other_nodes_does_not_decide_for_those_of_the_gpus():
    cluster = two_groups(machine("gpu", 8), node("cpu", 0, flavor="none", is_scaled=True))
    cluster.pod("foreign", "gpu", {GPU: 8})
    cluster.world.state.set_workload(with_cpu("next", 8), NOW_US)
    assert not admitted(cluster.cycle())


KEPT = model.Taint(key="dedicated", value="h100", effect="NoSchedule")
KEPT_TOLERATED = model.Toleration(key="dedicated", operator="Exists")


def tainted_groups(
    *nodes: Node, beside: ResourceName = CPU, tolerations: tuple[model.Toleration, ...] = ()
) -> Cluster:
    """A queue of GPUs in a flavor with tolerations, and of cpu in one without any."""
    quotas = [group({"any": {beside: (64,)}}), group({"a": {GPU: (24,)}})]
    flavors = (
        model.ResourceFlavor(name=FlavorName("any")),
        model.ResourceFlavor(name=A, node_labels={"flavor": "a"}, tolerations=tolerations),
    )
    made = world(*flavors, cluster_queue("q", groups=quotas))
    return Cluster(made, {one.name: one for one in nodes})


def kept(name: str, gpus: int = 8) -> Node:
    """A node that only pods of the flavor of its GPUs tolerate."""
    return replace(machine(name, gpus), taints=(KEPT,))


def selecting(workload: model.Workload) -> model.Workload:
    (pods,) = workload.pod_sets
    return replace(workload, pod_sets=(replace(pods, node_selector={"flavor": "a"}),))


BESIDE = pytest.mark.parametrize("beside", ["cpu", "memory"], ids=["GPUs first", "memory first"])


@BESIDE
@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("selects", [True, False], ids=["selects the nodes", "selects nothing"])
def test_a_taint_that_any_flavor_of_a_pod_tolerates_keeps_it_from_no_node(
    beside: str, gpus: int, selects: bool
) -> None:
    """Its admission adds the tolerations of all its flavors."""
    other = ResourceName(beside)
    nodes = kept("gpu"), machine("plain", 0)
    made = tainted_groups(*nodes, beside=other, tolerations=(KEPT_TOLERATED,))
    workload = with_cpu("w", gpus, beside=other)
    made.world.state.set_workload(selecting(workload) if selects else workload, NOW_US)
    assert admitted(made.cycle()) == ["w"]


@BESIDE
@pytest.mark.parametrize("gpus", [1, 8])
def test_a_taint_that_no_flavor_of_a_pod_tolerates_is_named_with_the_flavor(
    beside: str, gpus: int
) -> None:
    other = ResourceName(beside)
    made = tainted_groups(kept("gpu"), machine("plain", 0), beside=other)
    wait = why(made, with_cpu("w", gpus, beside=other))
    assert wait.reason == WaitReason.WAITING_FOR_NODE
    (no_place,) = no_places(wait)
    assert no_place.told_flavors == ("a",)
    assert placing.shortage(no_place) == (
        f"no node of a can take a pod with {gpus} nvidia.com/gpu: 1 has a taint that it does not "
        "tolerate (dedicated=h100:NoSchedule)"
    )


@BESIDE
def test_who_is_larger_than_every_node_is_tried_again_with_a_node_that_its_flavors_tolerate(
    beside: str,
) -> None:
    other = ResourceName(beside)
    made = tainted_groups(machine("small", 4), beside=other, tolerations=(KEPT_TOLERATED,))
    made.world.state.set_workload(with_cpu("w", 8, beside=other), NOW_US)
    assert not admitted(made.cycle())
    made.places.set_node(kept("large"))
    assert admitted(made.cycle()) == ["w"]


def test_a_pod_alone_is_never_told_that_there_is_room_but_not_for_all_at_once():
    made = cluster(node("n1", 8))
    want = made.places.want(asking("w", 8).pod_sets[0], 1, (A,), has_devices=True)
    ((_, no_place),) = made.places.why((want,))
    assert not no_place.is_joint
    assert "at once" not in placing.shortage(no_place)


def test_room_in_any_of_the_flavors_is_waited_for():
    made = cluster(node("n1", 4), node("n3", 4, "b"), quota={"a": 8, "b": 8})
    for name in ("n1", "n3"):
        made.pod(f"foreign-{name}", name, {GPU: 4})
    made.world.add(asking("next", 4))
    assert [each.flavors for each in no_places(waits(made.cycle())["next"])] == [("a",), ("b",)]
    made.places.drop_pod("foreign-n3")
    assert admitted(made.cycle()) == ["next"]


MEMORY = ResourceName("memory")
"""It is visited before GPUs, and cpu after them."""


def in_zones(*groups: model.ResourceGroup, **fields: Any) -> Cluster:
    """A queue with flavors of two zones with a node each, of which that of zone a is full."""
    flavors = [
        model.ResourceFlavor(name=FlavorName(name), node_labels=labels)
        for name, labels in (
            ("za", {"zone": "a"}), ("zb", {"zone": "b"}), ("a", {"flavor": "a"}),
            ("ga", {"zone": "a"}), ("gb", {"zone": "b"}), ("any", {}),
        )
    ]  # fmt: skip
    nodes = [
        replace(machine(f"n-{zone}", 8), labels={"flavor": "a", "zone": zone}) for zone in "ab"
    ]
    queue = cluster_queue("q", groups=groups, **fields)
    config = model.Config(consistent_flavors=True)
    made = Cluster(world(*flavors, queue, config=config), {each.name: each for each in nodes})
    made.pod("foreign", "n-a", {GPU: 8})
    return made


def needing(name: str, *resources: ResourceName, **fields: Any) -> model.Workload:
    """A workload of a pod that asks for 8 GPUs and 1 of each other resource."""
    (pods,) = asking(name, 8).pod_sets
    assert pods.needs is not None
    requests = {**dict.fromkeys(resources, 1), GPU: 8}
    needs = replace(pods.needs, requests=tuple(sorted(requests.items())))
    return waiting(name, "q", sets=(replace(pods, requests=requests, needs=needs),), **fields)


@pytest.mark.parametrize("beside", [CPU, MEMORY], ids=["GPUs first", "memory first"])
def test_a_flavor_of_another_resource_group_is_left_where_its_nodes_are_full(beside: ResourceName):
    zones = group({"za": {beside: (64,)}, "zb": {beside: (64,)}})
    made = in_zones(zones, group({"a": {GPU: (16,)}}))
    made.world.add(needing("next", beside))
    (admit,) = made.cycle().admitted
    assert admit.pod_sets[0].flavors[beside] == "zb"


def test_a_way_around_full_nodes_is_taken_that_needs_a_preemption_elsewhere():
    """GPUs of zone a contradict memory of zone b; of zone b they need cpu that another one has."""
    made = in_zones(
        group({"za": {MEMORY: (64,)}, "zb": {MEMORY: (64,)}}),
        group({"ga": {GPU: (8,)}, "gb": {GPU: (8,)}}),
        group({"any": {CPU: (1,)}}),
        within=LOWER,
    )
    low = model.PodSet(
        name=PodSetName("main"), count=1, requests={CPU: 1000},
        needs=PodNeeds(requests=((CPU, 1000),)),
    )  # fmt: skip
    made.world.add(waiting("low", "q", sets=(low,)))
    assert admitted(made.cycle()) == ["low"]
    made.world.add(needing("high", MEMORY, CPU, priority=1))
    assert list(evicted(made.cycle())) == ["low"]


def test_a_resource_without_quota_is_told_where_nodes_are_full_too():
    made = in_zones(group({"ga": {GPU: (8,)}}))
    made.world.add(needing("next", CPU))
    assert waits(made.cycle())["next"].reason == WaitReason.NO_MATCHING_FLAVOR


def borrowed(*nodes: str, **fields: Any) -> Cluster:
    """On each node runs a workload of its name that borrows the quota of ``q`` by ``other``."""
    made = cluster(
        *(node(name, 4) for name in nodes),
        quota={"a": 4 * len(nodes)},
        cohort="all",
        reclaim=ANY,
        **fields,
    )
    made.world.state.set_cluster_queue(
        cluster_queue("other", cohort="all", groups=[group({"a": {GPU: (0,)}})]), NOW_US
    )
    key = LocalQueueKey("default", "other")
    made.world.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName("other")), NOW_US
    )
    for name in nodes:
        selector = {"kubernetes.io/hostname": name}
        made.world.add(asking(name, 4, queue="other", selector=selector))
        made.cycle()
    return made


def ends(made: Cluster, name: str, *, is_followed: bool = True) -> str:
    """The pod of a workload is being deleted, and its quota is free."""
    pods: Mapping[str, BoundPod] = made.places.ledger._pods.by_key
    ((uid, pod),) = [(uid, pod) for uid, pod in pods.items() if pod.workload == ("default", name)]
    made.places.set_pod(uid, replace(pod, is_leaving=True, is_ending=is_followed))
    made.world.finish(name)
    return uid


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize("is_its_victim", [True, False])
def test_nobody_is_stopped_while_a_pod_ends_whose_room_is_enough(
    is_its_victim: bool, is_followed: bool
):
    made = borrowed("n1", "n2")
    victim = "n1"
    if is_its_victim:
        made.world.add(asking("reclaims", 4))
        (victim,) = evicted(made.cycle())
    uid = ends(made, victim, is_followed=is_followed)
    if not is_its_victim:
        made.world.add(asking("reclaims", 4))

    for _ in range(3):
        result = made.cycle()
        assert (evicted(result), admitted(result)) == ({}, [])

    made.places.drop_pod(uid)
    assert admitted(made.cycle()) == ["reclaims"]


def test_fewer_are_stopped_where_pods_end_on_other_nodes():
    made = borrowed("n1", "n2", "n3")
    ends(made, "n2")
    made.world.add(asking("reclaims", 4, 2))

    assert len(evicted(made.cycle())) == 1


def charged_alone(made: Cluster, name: str) -> None:
    """The pod of a workload ends, and is charged by itself: its Workload is gone."""
    workload: Any = made.world.state.workload(WorkloadKey("default", name))
    ends(made, name)
    eviction = model.Eviction(reason=conditions.PODS_ENDING, since_us=NOW_US)
    charged = replace(workload, key=PodCharge("default", name), eviction=eviction)
    made.world.state.set_workload(charged, NOW_US)


def told_to_leave(made: Cluster, name: str) -> None:
    """The eviction of a workload is written; its pod runs."""
    workload: Any = made.world.state.workload(WorkloadKey("default", name))
    eviction = model.Eviction(reason="Preempted", since_us=NOW_US)
    made.world.add(replace(workload, eviction=eviction))


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("state", ["told to leave", "its pod ends", "its pod is charged alone"])
@pytest.mark.parametrize("where", ["n1", "n3"])
def test_what_leaves_anyway_gives_its_quota_whichever_node_victims_are_sought_on(
    where: str, state: str, fair: bool
):
    """On ``n1`` one more has to leave then, and on ``n2`` two."""
    made = cluster(node("n1", 2), node("n2", 2), node("n3", 1), quota={"a": 4}, within=LOWER)
    if fair:
        sharing = model.FairSharing()
        made.world.state.config = replace(made.world.state.config, fair_sharing=sharing)
    for name, host in {"leaves": where, "one": "n1", "lower-1": "n2", "lower-2": "n2"}.items():
        selector = {"kubernetes.io/hostname": host}
        made.world.add(asking(name, 1, selector=selector, priority=int(name == "one")))
        assert admitted(made.cycle()) == [name]
    match state:
        case "told to leave":
            told_to_leave(made, "leaves")
        case "its pod ends":
            told_to_leave(made, "leaves")
            uid = "leaves-main-" + where + "-0"
            pod = made.places.ledger._pods[uid]
            made.places.set_pod(uid, replace(pod, is_leaving=True, is_ending=True))
        case _:
            charged_alone(made, "leaves")

    made.world.add(asking("high", 2, priority=9))

    assert list(evicted(made.cycle())) == ["one"]


def test_a_pod_that_ends_on_a_node_which_takes_none_leaves_no_room():
    made = borrowed("n1", "n2")
    ends(made, "n1")
    cordoned = model.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    made.places.set_node(replace(made.places.ledger.nodes["n1"], taints=(cordoned,)))
    made.world.add(asking("reclaims", 4))

    assert list(evicted(made.cycle())) == ["n2"]


def test_an_error_while_victims_are_sought_leaves_what_is_free_as_it_was(monkeypatch: Any):
    made = borrowed("n1", "n2")
    workload: Any = made.world.state.workload(WorkloadKey("default", "n1"))
    eviction = model.Eviction(reason="Preempted", since_us=NOW_US)
    made.world.add(replace(workload, eviction=eviction))
    ((uid, pod),) = [
        (uid, pod)
        for uid, pod in made.places.ledger._pods.by_key.items()
        if pod.workload == ("default", "n1")
    ]
    made.places.set_pod(uid, replace(pod, is_leaving=True))
    made.world.add(asking("reclaims", 4, 2))
    free = {name: dict(made.places.ledger.free(name)) for name in ("n1", "n2")}
    fits = candidates.fits

    def failing(snapshot: Any, *args: Any, **fields: Any) -> bool:
        if snapshot.removed:
            raise ValueError("odd")
        return fits(snapshot, *args, **fields)

    monkeypatch.setattr(candidates, "fits", failing)
    result = made.cycle()

    assert [key.name for key, _ in result.failed] == ["reclaims"]
    assert {name: dict(made.places.ledger.free(name)) for name in ("n1", "n2")} == free


def test_who_took_victims_in_a_flavor_waits_there_until_their_pods_have_left():
    """Their quota is free as they end one by one, and the room of one node is not yet."""
    made = cluster(
        node("n1", 4),
        node("n2", 4, "b"),
        quota={"a": 4, "b": 4},
        within=LOWER,
        scan=("MayStopSearch", "MayStopSearch"),
    )
    made.world.add(asking("lower", 1, 4, selector={"flavor": "a"}))
    assert admitted(made.cycle()) == ["lower"]
    made.world.add(asking("high", 4, priority=9))
    assert list(evicted(made.cycle())) == ["lower"]
    made.world.finish("lower")
    for uid, pod in tuple(made.places.ledger._pods.by_key.items()):
        made.places.set_pod(uid, replace(pod, is_leaving=True))

    assert admitted(made.cycle()) == []

    for uid in tuple(made.places.ledger._pods):
        made.places.drop_pod(uid)
    result = made.cycle()
    assert admitted(result) == ["high"]
    (entry,) = result.admitted
    assert {place.node for place in entry.places} == {"n1"}
