"""Quota of Indexed Jobs: what an index that will not run again gives back."""

from collections.abc import Mapping

import pytest

from admission.base import patches
from admission.kube import resources
from tests.builders.jobs import queued_job
from tests.controller.world import World, ready_world

START = "2026-01-01T00:00:00Z"


def indexed(world: World, pods: int, completions: int | None = None) -> None:
    """An Indexed Job that was admitted."""
    document = queued_job(pods=pods, completions=completions)
    document["spec"] |= {"completionMode": "Indexed", "backoffLimitPerIndex": 1}
    world.add(document)
    world.settle()
    report(world, {"active": pods})


def report(world: World, status: Mapping[str, object]) -> None:
    """Says what the Job controller would."""
    patch = patches.merge({"status": {"startTime": START, **status}})
    world.store.patch(resources.JOBS, "train", patch, "ml", subresource="status")
    world.settle()


def reclaimed(world: World) -> int:
    found = world.workloads()["train"].status.reclaimable_pods or ()
    return sum(one.count for one in found)


def test_an_index_that_failed_for_good_gives_its_quota_back() -> None:
    world = ready_world(quota=3)
    indexed(world, 3)
    report(world, {"active": 2, "failed": 1})
    assert reclaimed(world) == 0
    report(
        world,
        {"active": 1, "failed": 2, "succeeded": 1, "completedIndexes": "0", "failedIndexes": "1"},
    )
    assert reclaimed(world) == 2
    world.pass_time(2)
    (usage,) = world.status_of("gpus")["flavorsUsage"]
    assert usage["resources"][0]["total"] == "1"


@pytest.mark.parametrize(
    ("completed", "failed", "expected"),
    [
        ("0,2-4", "", 4),
        ("0-2", "2-3", 4),
        ("0-1", "1,1", 2),
        ("0,8-11", "", 1),
        ("3-1", "", 0),
        ("0,x,5-", "-", 1),
        ("", "4", 1),
        (f"0-{'9' * 5000}", "4", 1),
    ],
    ids=[
        "ranges",
        "overlap",
        "twice",
        "beyond",
        "descending",
        "unreadable",
        "failed-only",
        "huge",
    ],
)
def test_indexes_are_counted_once_and_only_those_that_are_asked_for(
    completed: str, failed: str, expected: int
) -> None:
    world = ready_world(quota=8)
    indexed(world, 8)
    report(
        world,
        {"active": 1, "succeeded": 7, "completedIndexes": completed, "failedIndexes": failed},
    )
    assert reclaimed(world) == expected


def test_indexes_that_ended_are_not_reclaimed_while_others_are_to_follow() -> None:
    world = ready_world(quota=2)
    indexed(world, 2, completions=6)
    report(world, {"active": 2, "succeeded": 3, "completedIndexes": "0-2", "failedIndexes": "3"})
    assert reclaimed(world) == 0
    report(world, {"active": 1, "succeeded": 4, "completedIndexes": "0-2,5", "failedIndexes": "3"})
    assert reclaimed(world) == 1


def test_a_job_of_one_pod_at_a_time_reclaims_nothing() -> None:
    world = ready_world(quota=1)
    world.add(queued_job(pods=1))
    world.settle()
    report(world, {"succeeded": 1})
    assert reclaimed(world) == 0
