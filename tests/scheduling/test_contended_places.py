"""Who is admitted beside pods that have places and no node yet: they may go to other nodes."""

import pytest

from admission.base.causes import NoFlavor, PodsComing
from admission.scheduling.places.contention import Arrivals, is_contended
from admission.scheduling.places.model import PodShape
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node
from tests.scheduling.test_place_search import needs
from tests.scheduling.worlds import admitted, waits

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
