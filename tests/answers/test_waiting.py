"""Who waits at which place: the order of the controller, else the one by priority and time."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.answers import cluster, quota_use
from admission.answers import waiting as waiting_lists
from admission.answers.waiting import ToldPosition
from admission.base import conditions, names
from admission.base.causes import NoFlavor, OtherNodes, RefusedPodSet
from admission.base.conditions import WaitReason
from admission.base.names import WorkloadKey
from admission.reasons import kueue
from admission.reasons.next_steps import Code
from tests.answers.clusters import GPU, holding, objects, queue, related, waiting
from tests.builders.metadata import make_condition
from tests.builders.queues import make_cluster_queue

QUEUES = (queue("research", 8, 8, pending=3), queue("prod", 8, 0))
READ = related(
    waiting("late", "research", 2, uid="b"),
    waiting("first", "research", 1, priority=5),
    waiting("soon", "research", 4, uid="a"),
    waiting("elsewhere", "prod", 1),
    holding("holds", "research", 8),
    queues=QUEUES,
)


def test_without_the_controllers_word_it_is_the_order_by_priority_time_and_uid() -> None:
    found = waiting_lists.of(READ, "research")
    assert [(one.place, one.workload) for one in found.waiting] == [
        (1, "first"), (2, "soon"), (3, "late"),
    ]  # fmt: skip
    assert not found.exact
    assert (found.waiting[1].asks, found.waiting[1].message) == ({GPU: 4}, "no room.")


def test_the_order_of_the_controller_goes_first_and_those_that_may_not_be_read_are_counted() -> (
    None
):
    keys = [WorkloadKey("ml", "late"), WorkloadKey("other", "x"), WorkloadKey("ml", "first")]
    order = [ToldPosition(key, place) for place, key in enumerate(keys, 1)]
    found = waiting_lists.of(READ, "research", order)
    assert [(one.place, one.local_place, one.workload) for one in found.waiting] == [
        (1, 1, "late"), (3, 2, "first"),
    ]  # fmt: skip
    assert (found.exact, found.hidden) == (True, 1)


def test_who_never_starts_has_no_place_and_is_not_counted_before_others() -> None:
    def of(items: list[Any]) -> list[tuple[str, int | None, int | None, bool]]:
        order = [waiting_lists.told_position(item) for item in items]
        found = waiting_lists.of(READ, "research", order or None)
        return [(one.workload, one.place, one.local_place, one.never) for one in found.waiting]

    def item(name: str, position: int, place: str = "") -> dict[str, Any]:
        annotations = {"annotations": {names.PLACE: place}} if place else {}
        metadata = {"namespace": "ml", "name": name, **annotations}
        return {"metadata": metadata, "positionInClusterQueue": position}

    told = [item("late", 0, names.NO_PLACE), item("first", 1, "1"), item("soon", 2, "2")]
    assert [one[:2] for one in of(told)] == [("late", None), ("first", 1), ("soon", 2)]
    assert [one[3] for one in of(told)] == [True, False, False]
    as_kueue = [item("late", 0), item("first", 1), item("soon", 2)]
    assert [one[:2] for one in of(as_kueue)] == [("late", 1), ("first", 2), ("soon", 3)]

    refused = NoFlavor(
        WaitReason.NO_MATCHING_FLAVOR, (RefusedPodSet("main", (OtherNodes("a100"),)),)
    )
    document = waiting("never", "research", 1, priority=9)
    said = make_condition(conditions.QUOTA_RESERVED, "False", *kueue.text(refused))
    document["status"] = {"conditions": [said]}
    read = related(document, waiting("soon", "research", 4), queues=QUEUES)
    found = waiting_lists.of(read, "research").waiting
    places = {one.workload: (one.place, one.local_place, one.never) for one in found}
    assert places == {"never": (None, None, True), "soon": (1, 1, False)}

    strict = make_cluster_queue("research", queueingStrategy="StrictFIFO")
    read = related(document, waiting("soon", "research", 4), queues=(strict,))
    found = waiting_lists.of(read, "research").waiting
    places = {one.workload: (one.place, one.local_place, one.never) for one in found}
    assert places == {"never": (1, 1, True), "soon": (2, 2, False)}, "they wait for it"


@pytest.mark.parametrize(
    ("tried", "reason", "never"),
    [
        (("h100",), Code.WAITING_FOR_QUOTA, False),
        (("h100", "a100"), Code.NO_MATCHING_FLAVOR, True),
    ],
)
def test_what_waits_for_a_flavor_that_was_not_tried_last_may_still_start(
    tried: tuple[str, ...], reason: Code, never: bool
) -> None:
    refusals = tuple(OtherNodes(flavor) for flavor in tried)
    refused = NoFlavor(WaitReason.NO_MATCHING_FLAVOR, (RefusedPodSet("main", refusals),))
    said = make_condition(
        conditions.QUOTA_RESERVED,
        "False",
        *kueue.text(refused),
    )
    document = waiting("w", "research", 1)
    document["status"] = {"conditions": [said]}
    read = related(document, queues=(make_cluster_queue("research", flavors=("a100", "h100")),))

    (found,) = waiting_lists.of(read, "research").waiting

    assert (found.reason, found.never) == (reason, never)
    if not never:
        assert found.message == "Waits for quota of a100."


def test_the_document_says_the_same() -> None:
    found = waiting_lists.document([waiting_lists.of(READ, "prod")], {}, ["something"])
    (told,) = found["clusterQueues"]
    assert (found["kind"], found["missing"]) == ("WaitingWorkloads", ["something"])
    (one,) = told["waiting"]
    assert (one["place"], one["asks"], one["requester"]) == (1, {GPU: "1"}, "unknown")


@pytest.mark.parametrize("kind", ["Workload", "LocalQueue"])
def test_who_waits_and_cannot_be_read_is_counted_as_the_queue_says(kind: str) -> None:
    missing = (f"{kind}s are not shown: you may not list them",)
    queues = (queue("research", 8, 8, pending=3),)
    documents = () if kind == "Workload" else (waiting("a", "research", 2),)
    found = objects(*documents, queues=queues, missing=missing)
    if kind == "LocalQueue":
        found = replace(found, local_queues=())
    line = waiting_lists.of(cluster.relate(found), "research")
    assert (line.waiting, line.hidden) == ((), 3)
    (use,) = quota_use.of(cluster.relate(found)).queues
    assert use.pending == quota_use.Waiting(workloads=3, resources=None)


def test_who_waits_in_a_namespace_and_cannot_be_read_is_counted_as_its_queues_say() -> None:
    found = objects(queues=(queue("research", 8, 8),))
    local = msgspec.structs.replace(
        found.local_queues[0], status=msgspec.structs.replace(
            found.local_queues[0].status, pending_workloads=2
        )
    )  # fmt: skip
    found = replace(found, local_queues=(local,))
    line = waiting_lists.Queue(name="research", waiting=(), exact=False)
    for missing, unread in (
        ("Workloads are not shown: you may not list them, nor those of namespace ml", 2),
        ("Workloads are not shown outside namespace ml: you may not list them", 0),
    ):
        read = cluster.relate(replace(found, missing=(missing,)))
        assert waiting_lists.in_namespace(read, line, "ml").unread == unread
        assert waiting_lists.in_local_queue(read, line, "ml", "research").unread == unread
