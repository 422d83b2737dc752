"""Worked examples of classical preemption, amounts in cores."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.scheduling.worlds import (
    ANY,
    LOWER,
    NEWER,
    cohort,
    cq,
    evicted,
    held,
    waits,
    want,
    world,
)

IN_QUEUE = "InClusterQueue"
RECLAIM = "InCohortReclamation"
BORROWING = "InCohortReclaimWhileBorrowing"

NORTH_SOUTH = (
    cohort("north", 6, parent="root"),
    cohort("south", parent="root"),
    cq("n1", 0, cohort="north", reclaim=ANY),
    cq("n2", 0, cohort="north"),
    cq("s1", 4, cohort="south"),
    held("n2w", "n2", 2, p=1),
    held("s1w", "s1", 8, p=9),
)
THREE = (
    cq("amber", 4, cohort="q", reclaim=LOWER, borrow=LOWER, threshold=10),
    cq("beryl", 4, cohort="q"),
    cq("coral", 4, cohort="q"),
)


@dataclass(frozen=True)
class Example:
    """A world with one new workload, and what becomes of others."""

    name: str
    objects: tuple[Any, ...]
    victims: dict[str, str]
    reason: str = "WaitingForPreemptedWorkloads"
    ends: str = ""


EXAMPLES = (
    Example(
        "larger than nominal cannot preempt, not even at home",
        (
            cq("amber", 4, cohort="q", within=LOWER),
            cq("beryl", 4, cohort="q"),
            held("own", "amber", 5),
            held("b", "beryl", 2),
            want("new", "amber", 5, p=9),
        ),
        {},
        "WaitingForQuota",
        "4 more needed",
    ),
    Example(
        "victims that turn out needless are filled back",
        (
            cq("solo", 10, within=LOWER),
            held("a", "solo", 3, p=1, r=-10),
            held("b", "solo", 4, p=1, r=-50),
            held("c", "solo", 3, p=2, r=-5),
            want("new", "solo", 4, p=5),
        ),
        {"b": IN_QUEUE},
    ),
    Example(
        "reclaim takes lower priorities only",
        (
            cq("amber", 6, cohort="q", reclaim=LOWER),
            cq("beryl", 4, cohort="q"),
            held("b-hi", "beryl", 5, p=7),
            held("b-lo", "beryl", 4, p=3),
            want("new", "amber", 5, p=5),
        ),
        {"b-lo": RECLAIM},
    ),
    Example(
        "reclaim from anybody starts with the lowest priority",
        (
            cq("amber", 6, cohort="q", reclaim=ANY),
            cq("beryl", 4, cohort="q"),
            held("b-hi", "beryl", 5, p=7),
            held("b-lo", "beryl", 4, p=3),
            want("new", "amber", 5, p=5),
        ),
        {"b-lo": RECLAIM},
    ),
    Example(
        "above nominal nothing is reclaimed",
        (
            cq("amber", 6, cohort="q", reclaim=ANY),
            cq("beryl", 4, cohort="q"),
            held("b-hi", "beryl", 5, p=7),
            held("b-lo", "beryl", 4, p=3),
            want("new", "amber", 8, p=5),
        ),
        {},
        "WaitingForQuota",
        "7 more needed",
    ),
    Example(
        "others pay before the own queue while it stays within nominal",
        (
            cq("amber", 6, cohort="q", within=LOWER, reclaim=LOWER),
            cq("beryl", 2, cohort="q"),
            held("own-low", "amber", 3),
            held("other-mid", "beryl", 5, p=5),
            want("new", "amber", 3, p=9),
        ),
        {"other-mid": RECLAIM},
    ),
    Example(
        "the own queue pays when it would exceed nominal",
        (
            cq("amber", 6, cohort="q", within=LOWER, reclaim=ANY),
            cq("beryl", 4, cohort="q"),
            held("own", "amber", 4),
            held("oth", "beryl", 6),
            want("new", "amber", 3, p=9),
        ),
        {"own": IN_QUEUE},
    ),
    Example(
        "borrowing takes only up to the threshold, and only from borrowers",
        (
            *THREE,
            held("b-mid", "beryl", 3, p=50),
            held("b-low", "beryl", 3, p=10),
            held("c-low", "coral", 4),
            want("new", "amber", 5, p=100),
        ),
        {"b-low": BORROWING},
    ),
    Example(
        "a borrower finds nobody below the threshold",
        (*THREE, held("b-mid", "beryl", 6, p=50), held("c", "coral", 4),
         want("new", "amber", 5, p=100)),
        {},
        "WaitingForQuota",
    ),
    Example(
        "the threshold guards against borrowers only",
        (*THREE, held("b-mid", "beryl", 6, p=50), held("c", "coral", 4),
         want("new", "amber", 4, p=100)),
        {"b-mid": RECLAIM},
    ),
    Example(
        "a subtree within its quota takes back from outside first",
        (*NORTH_SOUTH, want("new", "n1", 4, p=5)),
        {"s1w": RECLAIM},
    ),
    Example(
        "a subtree over its quota reclaims nothing",
        (*NORTH_SOUTH, want("new", "n1", 5, p=5)),
        {},
        "WaitingForQuota",
        "5 more needed",
    ),
    Example(
        "of equal priorities only the newer goes",
        (
            cq("solo", 4, within=NEWER),
            held("old", "solo", 2, p=3, t=-100),
            held("young", "solo", 2, p=3, t=-10),
            want("new", "solo", 2, p=3, t=-50),
        ),
        {"young": IN_QUEUE},
    ),
    Example(
        "a workload that already leaves is enough",
        (
            cq("solo", 4, within=LOWER),
            held("ev", "solo", 2, p=4, evicted=True),
            held("low", "solo", 2),
            want("new", "solo", 2, p=5),
        ),
        {},
        ends="Pending the preemption of 1 workload(s)",
    ),
    Example(
        "nobody is taken from an inactive queue",
        (
            cq("amber", 6, cohort="q", reclaim=ANY),
            cq("beryl", 0, cohort="q", terminating=True),
            held("b", "beryl", 6),
            want("new", "amber", 5, p=5),
        ),
        {},
        "WaitingForQuota",
    ),
)  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name)
def test_victims(example):
    result = world(*example.objects).cycle()

    found = waits(result)["new"]

    assert evicted(result) == example.victims
    assert found.reason == example.reason
    assert found.message.endswith(example.ends)


def test_a_victim_is_told_who_came_for_it_and_why():
    made = world(
        cohort("quarry"),
        cq("amber", 6, cohort="quarry", reclaim=ANY),
        cq("beryl", 4, cohort="quarry"),
        held("b", "beryl", 9),
        want("new", "amber", 5, job_uid="job-1"),
    )

    (victim,) = made.cycle().evicted

    assert victim.reason == "Preempted"
    assert victim.message == (
        "Preempted to accommodate a workload (UID: new, JobUID: job-1) due to reclamation within "
        "the cohort; preemptor path: /quarry/amber; preemptee path: /quarry/beryl"
    )


def test_the_preemptor_keeps_the_front_while_its_victims_leave():
    made = world(
        cq("solo", 4, within=LOWER), held("low", "solo", 4), want("first", "solo", 4, p=5)
    )
    assert evicted(made.cycle()) == {"low": IN_QUEUE}

    made.add(want("later", "solo", 5, p=9))

    assert made.active("solo") == ["first", "later"]


def test_a_strict_queue_needs_no_sticky_preemptor():
    made = world(
        cq("solo", 4, within=LOWER, strict=True),
        held("low", "solo", 4),
        want("first", "solo", 4, p=5),
    )
    made.cycle()

    made.add(want("later", "solo", 5, p=9))

    assert made.active("solo") == ["later", "first"]
