"""Which node each pod of a pod set gets, and what owners ask for."""

from typing import Any

import pytest
from typing_extensions import override

from admission.base import names
from admission.objects import views
from admission.owners import topology_domains
from admission.scheduling.model import PodDomains
from tests.builders.pods import pod_view

HOST = "kubernetes.io/hostname"
PLACEMENT = topology_domains.placement(PodDomains((HOST,), ((("n1",), 2), (("n2",), 1))))


def pod(name: str, rank: int | None = None, node: str = "", **fields: Any) -> views.Pod:
    labels = {} if rank is None else {topology_domains.COMPLETION_INDEX: str(rank)}
    spec = {"nodeSelector": {HOST: node}} if node else {}
    return pod_view(name, labels=labels, spec=spec, **fields)


def telling(waiting: list[views.Pod], placed: list[views.Pod]) -> topology_domains.Telling:
    """What is to be told once all of the pods are seen."""
    made = topology_domains.Telling(PLACEMENT)
    for one in placed:
        made.see(one, waits=False)
    for one in waiting:
        made.see(one, waits=True)
    return made


def told(waiting: list[views.Pod], placed: list[views.Pod]) -> dict[str, str]:
    """The node of each pod, one released after another."""
    nodes, state = {}, telling(waiting, placed)
    while (chosen := state.next_pod()) is not None:
        one, selector = chosen
        nodes[one.metadata.name] = selector[HOST]
        spec = {"nodeSelector": dict(selector)}
        released = pod_view(one.metadata.name, labels=one.metadata.labels or {}, spec=spec)
        state.see(released, waits=False)
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

    first = telling([picky, pod("c", 2)], []).next_pod()
    last = telling([picky], [pod("c", 2, "n2")]).next_pod()

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
    assert topology_domains.topology_request(annotations) == asked


def test_the_labels_of_ranks_are_named_beside_what_is_asked() -> None:
    asked = topology_domains.topology_request(
        {names.REQUIRED_TOPOLOGY: "rack"}, topology_domains.COMPLETION_INDEX
    )
    of_replicas = topology_domains.topology_request(
        {}, topology_domains.COMPLETION_INDEX, "example.com/job", 2
    )

    assert asked == {"required": "rack", "podIndexLabel": topology_domains.COMPLETION_INDEX}
    assert of_replicas == {
        "podIndexLabel": topology_domains.COMPLETION_INDEX,
        "subGroupIndexLabel": "example.com/job",
        "subGroupCount": 2,
    }


def test_a_pod_of_a_group_gets_the_domain_of_its_rank_or_what_is_left() -> None:
    placed = [{HOST: "n1"}, {HOST: "n1"}]

    assert PLACEMENT.for_pod(pod("c", 2), placed) == {HOST: "n2"}
    assert PLACEMENT.for_pod(pod("again", 1), placed) == {HOST: "n2"}
    assert PLACEMENT.for_pod(pod("x"), []) == {HOST: "n1"}
    assert PLACEMENT.for_pod(pod("more"), [*placed, {HOST: "n2"}]) == {}


def test_the_index_in_a_group_is_a_rank() -> None:
    member = pod_view("m", labels={names.POD_GROUP_POD_INDEX_LABEL: "2"})

    assert topology_domains.BY_DEFAULT.rank(member) == 2


def numbered(**labels: str) -> views.Pod:
    return pod_view("p", labels={key.replace("_", "/"): text for key, text in labels.items()})


def test_each_replica_numbers_its_pods_anew() -> None:
    by = topology_domains.Numbering(labels=("a/i",), replica="a/job", per_replica=3)

    assert by.rank(numbered(a_i="2", a_job="1")) == 5
    assert by.rank(numbered(a_i="3", a_job="1")) is None
    assert by.rank(numbered(a_i="2")) is None


def test_workers_are_numbered_after_their_leader() -> None:
    after = topology_domains.Numbering(labels=("a/i",), first=1)
    offset = pod_view("p", labels={"a/i": "2"}, annotations={names.POD_INDEX_OFFSET: "2"})

    assert after.rank(numbered(a_i="1")) == 0
    assert after.rank(numbered(a_i="0")) is None
    assert after.rank(offset) == 0


def test_a_pod_made_anew_is_told_the_domain_that_takes_the_place_of_a_lost_one() -> None:
    """A pod on a lost node holds a domain that is none any more."""
    placed = [pod("a", 0, "n1"), pod("b", 1, "n1"), pod("gone", 2, "lost")]

    assert told([pod("again", 2)], placed) == {"again": "n2"}


def test_to_tell_each_of_many_pods_looks_at_few_others() -> None:
    """Pods come one by one, and each is told its domain before the next one comes."""
    looked_at = 0

    class Counting(topology_domains.Numbering):
        @override
        def rank(self, pod: views.Pod) -> int | None:
            nonlocal looked_at
            looked_at += 1
            return super().rank(pod)

    domains = PodDomains((HOST,), tuple(((f"n{i:03}",), 2) for i in range(100)))
    state = topology_domains.Telling(topology_domains.placement(domains, Counting()))
    for number in range(200):
        state.see(pod(f"p{number:03}", number), waits=True)
        chosen = state.next_pod()
        assert chosen is not None
        state.see(pod(f"p{number:03}", number, chosen[1][HOST]), waits=False)

    assert looked_at < 200 * 5
