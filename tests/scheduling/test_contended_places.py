"""Who is admitted beside pods that have places and no node yet: they may go to other nodes."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.causes import NoFlavor, PodsComing
from admission.base.names import WorkloadKey
from admission.scheduling import model
from admission.scheduling.places import contention
from admission.scheduling.places.contention import Arrivals, is_contended
from admission.scheduling.places.model import HOSTNAME, PodShape
from tests.builders.scheduling import NOW_US
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node
from tests.scheduling.test_place_search import needs
from tests.scheduling.worlds import admitted, waits

MODEST = WorkloadKey("default", "modest")
HOSTS = ("n0", "n1", "n2")


def fragmented() -> Cluster:
    """Three nodes of 4 GPUs; a workload has 3 of each, and `small` has come for the rest."""
    made = cluster(*(node(name, 4) for name in HOSTS))
    made.world.add(asking("large", 3, 3))
    assert admitted(made.cycle()) == ["large"]
    made.world.add(asking("small", 1, 3))
    assert admitted(made.world.cycle()) == ["small"]
    made.finish("large")
    made.world.add(asking("next", 3, 3))
    return made


def bind(made: Cluster, *hosts: str) -> None:
    for index, host in enumerate(hosts):
        made.pod(f"small-{index}", host, {GPU: 1}, "small")


def test_nobody_is_admitted_to_places_that_pods_on_their_way_may_take() -> None:
    made = fragmented()

    wait = waits(made.world.cycle())["next"]

    assert isinstance(wait.why, PodsComing)


def test_it_is_admitted_once_these_have_come_to_their_places() -> None:
    made = fragmented()
    made.world.cycle()
    bind(made, *HOSTS)

    assert admitted(made.world.cycle()) == ["next"]


def test_it_waits_for_a_node_once_these_have_come_to_its_places() -> None:
    made = fragmented()
    made.world.cycle()
    bind(made, "n0", "n0", "n0")

    assert isinstance(waits(made.world.cycle())["next"].why, NoFlavor)


def test_pods_that_do_not_come_hold_up_nobody_for_longer_than_ten_seconds() -> None:
    made = fragmented()
    for _ in range(9):
        assert admitted(made.world.cycle()) == []

    assert admitted(made.world.cycle()) == ["next"]


def test_nobody_is_admitted_who_may_take_the_places_of_pods_on_their_way() -> None:
    """The small pods have places on all nodes, and may all go to the one with a large place."""
    made = cluster(*(node(name, 4) for name in HOSTS))
    made.pod("other-1", "n1", {GPU: 3})
    made.pod("other-2", "n2", {GPU: 3})
    made.world.add(asking("large", 3))
    assert admitted(made.world.cycle()) == ["large"]
    made.world.add(asking("small", 1, 3))

    assert isinstance(waits(made.world.cycle())["small"].why, PodsComing)
    made.pod("large-0", "n0", {GPU: 3}, "large")
    assert admitted(made.world.cycle()) == ["small"]


def test_entries_of_one_cycle_do_not_take_each_others_places() -> None:
    made = cluster(*(node(name, 4) for name in HOSTS), quota={"a": 64})
    for name in HOSTS[1:]:
        made.pod(f"other-{name}", name, {GPU: 3})
    made.world.add(asking("large", 3, created=1), asking("small", 1, 3, created=2))

    first, second = made.world.cycle(), made.world.cycle()

    assert (admitted(first), admitted(second)) == (["large"], [])


@pytest.mark.parametrize(("room", "is_there"), [(8, False), (5, True)])
def test_where_a_node_has_room_for_all_of_them_nobody_waits(room: int, is_there: bool) -> None:
    shape = PodShape(needs({GPU: 1}))
    new = Arrivals(shape, {"n0": 1, "n1": 2}, frozenset({"n0", "n1"}), is_bound_to_places=False)
    other = Arrivals(shape, {"n0": 3}, frozenset({"n0"}), is_bound_to_places=False)
    free = {"n0": {GPU: room - 3, "pods": 110}, "n1": {GPU: 8, "pods": 110}}

    assert is_contended([new], [other], free) is is_there


def test_pods_that_were_told_their_node_take_no_other_places() -> None:
    shape = PodShape(needs({GPU: 1}))
    told = Arrivals(shape, {"n0": 1, "n1": 2}, frozenset({"n0", "n1"}), is_bound_to_places=True)
    other = Arrivals(shape, {"n0": 3}, frozenset({"n0"}), is_bound_to_places=False)

    assert not is_contended([told], [other], {"n0": {GPU: 1, "pods": 110}})


def test_an_admission_looks_only_at_pods_that_come_to_the_nodes_of_its_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []
    arrivals = contention.arrivals

    def counted(*pods: Any) -> tuple[Arrivals, ...]:
        looked_at.append(1)
        return arrivals(*pods)

    monkeypatch.setattr(contention, "arrivals", counted)
    counts = []
    for size in (4, 16):
        hosts = [f"n{index:02}" for index in range(size)]
        made = cluster(*(node(name, 4) for name in hosts), quota={"a": 8 * size})
        for name in hosts:
            made.world.add(asking(name, 4, selector={HOSTNAME: name}))
        for _ in hosts:
            made.world.cycle()
        looked_at.clear()
        made.pod("other", hosts[0], {GPU: 4})
        made.world.finish(hosts[0], hosts[1])
        made.world.add(asking("next", 4))
        made.world.cycle()
        counts.append(len(looked_at))

    assert counts[0] == counts[1]


def told_to_leave(pods_bound: int) -> Cluster:
    """A workload of two pods on their way is preempted when so many of them are bound."""
    made = cluster(node("n0", 4))
    made.world.add(asking("modest", 2, 2))
    (admit,) = made.world.cycle().admitted
    for index in range(pods_bound):
        made.pod(f"modest-{index}", "n0", {GPU: 2}, "modest")
    reservation = model.Reservation(
        cluster_queue=admit.cluster_queue,
        pod_sets=admit.pod_sets,
        reserved_us=NOW_US,
        admitted=True,
        admitted_us=NOW_US,
    )
    eviction = model.Eviction(reason="Preempted", since_us=NOW_US)
    made.world.add(replace(asking("modest", 2, 2), reservation=reservation, eviction=eviction))
    return made


@pytest.mark.parametrize("pods_bound", [0, 1, 2])
def test_pods_on_their_way_keep_their_places_while_they_are_told_to_leave(pods_bound: int) -> None:
    made = told_to_leave(pods_bound)

    assert made.places.ledger.free("n0")[GPU] == 0


def test_no_pod_follows_one_that_was_told_to_leave() -> None:
    made = told_to_leave(1)
    made.pod("modest-0", "n0", {GPU: 2}, "modest", is_ending=True)
    made.world.cycle()

    assert made.places.ledger.free("n0")[GPU] == 0
    assert sum(place.count for place in made.places.ledger.places(MODEST)) == 1


def test_the_places_of_who_left_are_free_once_its_quota_is() -> None:
    made = told_to_leave(0)
    made.world.add(asking("modest", 2, 2, eviction=model.Eviction(reason="Preempted")))
    made.world.state.has_work(NOW_US)

    assert made.places.ledger.free("n0")[GPU] == 4
