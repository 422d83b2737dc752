"""Who is in a list, in which order, at which place, and in which form."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.serve import lists
from admission.serve.lists import Window
from admission.serve.statuses import RefusedError
from tests.builders.metadata import CREATED
from tests.serve.builders import Lines, line, waiting

ALL = Window()
CQ = ClusterQueueName("gpus")
TEAM = LocalQueueKey("ml", "team")


def names(document: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in document["items"]]


def places(document: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        (item["positionInClusterQueue"], item["positionInLocalQueue"])
        for item in document["items"]
    ]


MIXED = line(
    waiting("late", at=9),
    waiting("urgent", priority=10, at=5),
    waiting("other-1", queue="other", at=1),
    waiting("early", at=2),
    waiting("other-2", queue="other", at=3),
)
SOURCE = Lines({CQ: MIXED, TEAM: MIXED, LocalQueueKey("ml", "other"): MIXED})


def test_a_cluster_queue_lists_by_priority_then_time_with_both_places():
    document = lists.of_cluster_queue(SOURCE, "gpus", ALL, "v1beta2")
    assert names(document) == ["urgent", "other-1", "early", "other-2", "late"]
    assert places(document) == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)]


def test_a_local_queue_lists_its_own_with_their_places_in_the_cluster_queue():
    document = lists.of_local_queue(SOURCE, TEAM, ALL, "v1beta2")
    assert names(document) == ["urgent", "early", "late"]
    assert places(document) == [(0, 0), (2, 1), (4, 2)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Window(1, 2), [("other-1", (1, 0)), ("early", (2, 1))]),
        (Window(4, 100), [("late", (4, 2))]),
        (Window(5, 1), []),
        (Window(0, 0), []),
    ],
)
def test_places_do_not_depend_on_the_part_that_is_asked_for(wanted, expected):
    document = lists.of_cluster_queue(SOURCE, "gpus", wanted, "v1beta2")
    assert list(zip(names(document), places(document), strict=True)) == expected


def test_an_offset_in_a_local_queue_counts_its_own_workloads():
    document = lists.of_local_queue(SOURCE, TEAM, Window(1, 1), "v1beta2")
    assert (names(document), places(document)) == (["early"], [(2, 1)])


def test_local_queues_of_one_name_in_two_namespaces_are_counted_apart():
    both = line(waiting("a", namespace="ml", at=1), waiting("b", namespace="web", at=2))
    document = lists.of_cluster_queue(Lines({CQ: both}), "gpus", ALL, "v1beta2")
    assert places(document) == [(0, 0), (1, 0)]


def test_the_preemptor_that_waits_for_its_victims_comes_first():
    found = line(waiting("urgent", priority=9), waiting("preemptor"), first="preemptor")
    document = lists.of_cluster_queue(Lines({CQ: found}), "gpus", ALL, "v1beta2")
    assert names(document) == ["preemptor", "urgent"]


def test_past_usage_of_the_local_queue_goes_before_priority():
    members = (waiting("greedy", priority=9), waiting("modest", queue="other"))
    ranks = {TEAM: (False, Fraction(2)), LocalQueueKey("ml", "other"): (False, Fraction(1))}
    found = line(*members, ranks=ranks)
    document = lists.of_cluster_queue(Lines({CQ: found}), "gpus", ALL, "v1beta2")
    assert names(document) == ["modest", "greedy"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_list_has_kueues_form(version):
    source = Lines({CQ: line(waiting("train", priority=7))})
    assert lists.of_cluster_queue(source, "gpus", ALL, version) == {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"visibility.kueue.x-k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {
                    "name": "train",
                    "namespace": "ml",
                    "creationTimestamp": CREATED,
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "pod-uid"}
                    ],
                },
                "priority": 7,
                "localQueueName": "team",
                "positionInClusterQueue": 0,
                "positionInLocalQueue": 0,
            }
        ],
    }


def test_an_empty_queue_has_an_empty_list():
    assert lists.of_cluster_queue(Lines({CQ: line()}), "gpus", ALL, "v1beta2")["items"] == []


def test_a_workload_that_went_meanwhile_is_left_out_and_others_keep_their_places():
    source = Lines({CQ: line(waiting("a", at=1), waiting("b", at=2))})
    source.gone.add(WorkloadKey("ml", "a"))
    document = lists.of_cluster_queue(source, "gpus", ALL, "v1beta2")
    assert (names(document), places(document)) == (["b"], [(1, 1)])


def test_an_unknown_cluster_queue_is_not_found():
    with pytest.raises(RefusedError) as refused:
        lists.of_cluster_queue(SOURCE, "none", ALL, "v1beta2")
    assert refused.value.document() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'clusterqueue.visibility.kueue.x-k8s.io "none" not found',
        "reason": "NotFound",
        "details": {"name": "none", "group": "visibility.kueue.x-k8s.io", "kind": "clusterqueue"},
        "code": 404,
    }


def test_an_unknown_local_queue_is_not_found():
    with pytest.raises(RefusedError, match=r'localqueue\.visibility.* "none" not found'):
        lists.of_local_queue(SOURCE, LocalQueueKey("ml", "none"), ALL, "v1beta2")


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (None, None, (0, 1000)),
        ("3", None, (3, 1000)),
        (None, "0", (0, 1000)),
        ("-5", "-5", (0, 0)),
        (None, "100001", (0, 100_000)),
        ("+7", "20", (7, 20)),
    ],
)
def test_parameters_have_defaults_and_bounds(offset, limit, expected):
    assert lists.window(offset, limit) == expected


@pytest.mark.parametrize("text", ["", "ten", "1.5", "1_0", " 1", "٣"])
def test_a_parameter_that_is_no_number_is_a_bad_request(text):
    with pytest.raises(RefusedError, match="invalid syntax") as refused:
        lists.window(None, text)
    assert refused.value.code == 400
    with pytest.raises(RefusedError, match="value out of range"):
        lists.window(str(2**63), None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.sampled_from("abc"))))
def test_a_local_queues_list_is_its_part_of_the_cluster_queues(found):
    members = [
        waiting(f"w{n}", priority=priority, at=at, queue=queue)
        for n, (priority, at, queue) in enumerate(found)
    ]
    whole = line(*members)
    keys = [LocalQueueKey("ml", queue) for queue in "abc"]
    source = Lines({CQ: whole, **dict.fromkeys(keys, whole)})
    everybody = lists.of_cluster_queue(source, "gpus", ALL, "v1beta2")["items"]
    expected = sorted(members, key=lambda one: (-one.priority, one.created_us, one.uid))
    assert [item["metadata"]["name"] for item in everybody] == [one.uid for one in expected]
    for key in keys:
        own = lists.of_local_queue(source, key, ALL, "v1beta2")["items"]
        assert own == [item for item in everybody if item["localQueueName"] == key.name]
        assert [item["positionInLocalQueue"] for item in own] == list(range(len(own)))
