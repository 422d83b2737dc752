"""Whose end would make room for who waits for a node: the cheapest, by a unique order."""

from admission.base.names import WorkloadKey
from admission.scheduling.model import Workload
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, no_places, node


def relief(made: Cluster, name: str) -> str:
    """The name of the workload whose end makes room for one that waits; empty for none."""
    (wait,) = (one for one in made.cycle().waiting if one.workload.name == name)
    key = made.world.state.relief(WorkloadKey("default", name), no_places(wait))
    return "" if key is None else key.name


def running(made: Cluster, *workloads: Workload) -> None:
    """Workloads that are admitted and bound, one after the other."""
    for one in workloads:
        made.world.add(one)
        assert made.cycle().admitted


def test_the_lowest_priority_of_those_that_make_room_is_named():
    made = cluster(node("n1", 4), node("n2", 4))
    running(
        made,
        asking("low", 1, selector={"kubernetes.io/hostname": "n2"}),
        asking("middle", 2, priority=5, selector={"kubernetes.io/hostname": "n1"}),
        asking("high", 3, priority=9, selector={"kubernetes.io/hostname": "n2"}),
    )
    made.world.add(asking("large", 4))

    assert relief(made, "large") == "middle", "the end of the low one leaves one free of four"


def test_of_equals_the_newer_one_is_named():
    made = cluster(node("n1", 4), node("n2", 4))
    running(made, asking("old", 2, selector={"kubernetes.io/hostname": "n1"}))
    running(made, asking("new", 2, selector={"kubernetes.io/hostname": "n2"}))
    made.world.add(asking("large", 4))

    assert relief(made, "large") == "new"


def test_nobody_is_named_where_no_single_end_makes_room():
    made = cluster(node("n1", 4))
    running(made, asking("one", 2), asking("other", 1))
    made.world.add(asking("large", 4))

    assert relief(made, "large") == ""


def test_nothing_is_changed_by_the_search():
    made = cluster(node("n1", 4))
    running(made, asking("one", 2))
    made.world.add(asking("large", 4))
    before = dict(made.places.ledger.free("n1"))

    assert relief(made, "large") == "one"

    assert dict(made.places.ledger.free("n1")) == before
    assert before[GPU] == 2
