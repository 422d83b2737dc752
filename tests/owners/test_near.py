"""Which node each pod of a pod set gets, and what owners ask for."""

from typing import Any

import pytest

from admission.base import names
from admission.objects import views
from admission.owners import near
from admission.scheduling.model import PodDomains
from tests.builders.pods import pod_view

HOST = "kubernetes.io/hostname"
PLACEMENT = near.placement(PodDomains((HOST,), ((("n1",), 2), (("n2",), 1))))


def pod(name: str, rank: int | None = None, node: str = "", **fields: Any) -> views.Pod:
    labels = {} if rank is None else {near.COMPLETION_INDEX: str(rank)}
    spec = {"nodeSelector": {HOST: node}} if node else {}
    return pod_view(name, labels=labels, spec=spec, **fields)


def told(waiting: list[views.Pod], placed: list[views.Pod]) -> dict[str, str]:
    """The node of each pod, one released after another."""
    nodes = {}
    while (chosen := PLACEMENT.next_pod(waiting, placed)) is not None:
        one, selector = chosen
        nodes[one.metadata.name] = selector[HOST]
        waiting = [other for other in waiting if other is not one]
        placed = [*placed, pod(one.metadata.name, near.rank(one), selector[HOST])]
    return nodes


def test_the_first_ranks_get_the_first_domain() -> None:
    waiting = [pod("c", 2), pod("a", 0), pod("b", 1)]

    assert told(waiting, []) == {"a": "n1", "b": "n1", "c": "n2"}


def test_pods_without_a_rank_fill_one_domain_after_another() -> None:
    assert told([pod("a"), pod("b"), pod("c")], []) == {"a": "n1", "b": "n1", "c": "n2"}


def test_a_pod_made_anew_gets_the_domain_of_its_rank() -> None:
    assert told([pod("again", 2)], [pod("a", 0, "n1"), pod("b", 1, "n1")]) == {"again": "n2"}


def test_a_pod_waits_while_another_one_holds_its_domain() -> None:
    placed = [pod("a", 0, "n1"), pod("b", 1, "n1"), pod("old", 2, "n2")]

    assert told([pod("again", 2)], placed) == {}


def test_a_pod_gets_a_free_domain_where_that_of_its_rank_is_taken() -> None:
    placed = [pod("b", 1, "n1"), pod("late", 7, "n1")]

    assert told([pod("a", 0)], placed) == {"a": "n2"}


def test_a_pod_waits_where_more_pods_are_there_than_domains() -> None:
    placed = [pod("old-a", 0, "n1"), pod("old-b", 1, "n1")]

    assert told([pod("a", 0), pod("b", 1)], placed) == {}


def test_a_pod_that_selects_another_node_is_last() -> None:
    picky = pod("a", 0, "n9")

    first = PLACEMENT.next_pod([picky, pod("c", 2)], [])
    last = PLACEMENT.next_pod([picky], [pod("c", 2, "n2")])

    assert first is not None
    assert first[0].metadata.name == "c"
    assert last == (picky, {HOST: "n1"})


def test_a_rank_beyond_the_count_gets_what_is_left() -> None:
    placed = [pod("a", 0, "n1"), pod("c", 2, "n2")]

    assert told([pod("late", 7)], placed) == {"late": "n1"}


def test_no_more_pods_are_told_a_domain_than_are_assigned_to_it() -> None:
    placed = [pod("a", None, "n1"), pod("b", None, "n1"), pod("c", None, "n2")]

    assert told([pod("more")], placed) == {}


@pytest.mark.parametrize(
    ("annotations", "asked"),
    [
        ({}, None),
        ({"other": "x"}, None),
        ({names.REQUIRED_TOPOLOGY: "rack"}, {"required": "rack"}),
        ({names.PREFERRED_TOPOLOGY: "rack"}, {"preferred": "rack"}),
        ({names.UNCONSTRAINED_TOPOLOGY: "true"}, {"unconstrained": True}),
        ({names.UNCONSTRAINED_TOPOLOGY: "false"}, None),
        (
            {names.SLICE_REQUIRED_TOPOLOGY: "rack", names.PODSET_SLICE_SIZE: "2"},
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
        ),
        (
            {names.PODSET_SLICE_CONSTRAINTS: '[{"topology":"rack","size":2}]'},
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}]},
        ),
    ],
)
def test_annotations_become_a_request(
    annotations: dict[str, str], asked: dict[str, Any] | None
) -> None:
    assert near.topology_request(annotations) == asked


def test_the_label_of_ranks_is_named_only_where_something_is_asked() -> None:
    asked = near.topology_request({names.REQUIRED_TOPOLOGY: "rack"}, near.COMPLETION_INDEX)

    assert asked == {"required": "rack", "podIndexLabel": near.COMPLETION_INDEX}
    assert near.topology_request({}, near.COMPLETION_INDEX) is None


def test_a_pod_of_a_group_gets_the_domain_of_its_rank_or_what_is_left() -> None:
    placed = [pod("a", 0, "n1"), pod("b", 1, "n1")]

    assert PLACEMENT.for_pod(pod("c", 2), placed) == {HOST: "n2"}
    assert PLACEMENT.for_pod(pod("again", 1), placed) == {HOST: "n2"}
    assert PLACEMENT.for_pod(pod("x"), []) == {HOST: "n1"}
    assert PLACEMENT.for_pod(pod("more"), [*placed, pod("c", 2, "n2")]) == {}


def test_the_index_in_a_group_is_a_rank() -> None:
    member = pod_view("m", labels={names.POD_GROUP_POD_INDEX_LABEL: "2"})

    assert near.rank(member) == 2
