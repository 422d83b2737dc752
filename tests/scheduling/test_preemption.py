"""Worked examples of classical preemption, amounts in cores."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.conditions import WaitReason
from admission.reasons import kueue
from tests.builders.scheduling import ANY, LOWER, NEWER, cluster_queue, cohort, holding, waiting
from tests.scheduling.worlds import evicted, waits, world

IN_QUEUE = "InClusterQueue"
RECLAIM = "InCohortReclamation"
BORROWING = "InCohortReclaimWhileBorrowing"

NORTH_SOUTH = (
    cohort("north", 6, parent="root"),
    cohort("south", parent="root"),
    cluster_queue("n1", 0, cohort="north", reclaim=ANY),
    cluster_queue("n2", 0, cohort="north"),
    cluster_queue("s1", 4, cohort="south"),
    holding("n2w", "n2", 2, priority=1),
    holding("s1w", "s1", 8, priority=9),
)
THREE = (
    cluster_queue("amber", 4, cohort="q", reclaim=LOWER, borrow=LOWER, threshold=10),
    cluster_queue("beryl", 4, cohort="q"),
    cluster_queue("coral", 4, cohort="q"),
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
            cluster_queue("amber", 4, cohort="q", within=LOWER),
            cluster_queue("beryl", 4, cohort="q"),
            holding("own", "amber", 5),
            holding("b", "beryl", 2),
            waiting("new", "amber", 5, priority=9),
        ),
        {},
        "WaitingForQuota",
        "4 more needed",
    ),
    Example(
        "victims that turn out needless are filled back",
        (
            cluster_queue("solo", 10, within=LOWER),
            holding("a", "solo", 3, priority=1, reserved=-10),
            holding("b", "solo", 4, priority=1, reserved=-50),
            holding("c", "solo", 3, priority=2, reserved=-5),
            waiting("new", "solo", 4, priority=5),
        ),
        {"b": IN_QUEUE},
    ),
    Example(
        "reclaim takes lower priorities only",
        (
            cluster_queue("amber", 6, cohort="q", reclaim=LOWER),
            cluster_queue("beryl", 4, cohort="q"),
            holding("b-hi", "beryl", 5, priority=7),
            holding("b-lo", "beryl", 4, priority=3),
            waiting("new", "amber", 5, priority=5),
        ),
        {"b-lo": RECLAIM},
    ),
    Example(
        "reclaim from anybody starts with the lowest priority",
        (
            cluster_queue("amber", 6, cohort="q", reclaim=ANY),
            cluster_queue("beryl", 4, cohort="q"),
            holding("b-hi", "beryl", 5, priority=7),
            holding("b-lo", "beryl", 4, priority=3),
            waiting("new", "amber", 5, priority=5),
        ),
        {"b-lo": RECLAIM},
    ),
    Example(
        "above nominal nothing is reclaimed",
        (
            cluster_queue("amber", 6, cohort="q", reclaim=ANY),
            cluster_queue("beryl", 4, cohort="q"),
            holding("b-hi", "beryl", 5, priority=7),
            holding("b-lo", "beryl", 4, priority=3),
            waiting("new", "amber", 8, priority=5),
        ),
        {},
        "WaitingForQuota",
        "7 more needed",
    ),
    Example(
        "others pay before the own queue while it stays within nominal",
        (
            cluster_queue("amber", 6, cohort="q", within=LOWER, reclaim=LOWER),
            cluster_queue("beryl", 2, cohort="q"),
            holding("own-low", "amber", 3),
            holding("other-mid", "beryl", 5, priority=5),
            waiting("new", "amber", 3, priority=9),
        ),
        {"other-mid": RECLAIM},
    ),
    Example(
        "the own queue pays when it would exceed nominal",
        (
            cluster_queue("amber", 6, cohort="q", within=LOWER, reclaim=ANY),
            cluster_queue("beryl", 4, cohort="q"),
            holding("own", "amber", 4),
            holding("oth", "beryl", 6),
            waiting("new", "amber", 3, priority=9),
        ),
        {"own": IN_QUEUE},
    ),
    Example(
        "borrowing takes only up to the threshold, and only from borrowers",
        (
            *THREE,
            holding("b-mid", "beryl", 3, priority=50),
            holding("b-low", "beryl", 3, priority=10),
            holding("c-low", "coral", 4),
            waiting("new", "amber", 5, priority=100),
        ),
        {"b-low": BORROWING},
    ),
    Example(
        "a borrower finds nobody below the threshold",
        (*THREE, holding("b-mid", "beryl", 6, priority=50), holding("c", "coral", 4),
         waiting("new", "amber", 5, priority=100)),
        {},
        "WaitingForQuota",
    ),
    Example(
        "the threshold guards against borrowers only",
        (*THREE, holding("b-mid", "beryl", 6, priority=50), holding("c", "coral", 4),
         waiting("new", "amber", 4, priority=100)),
        {"b-mid": RECLAIM},
    ),
    Example(
        "a subtree within its quota takes back from outside first",
        (*NORTH_SOUTH, waiting("new", "n1", 4, priority=5)),
        {"s1w": RECLAIM},
    ),
    Example(
        "a subtree over its quota reclaims nothing",
        (*NORTH_SOUTH, waiting("new", "n1", 5, priority=5)),
        {},
        "WaitingForQuota",
        "5 more needed",
    ),
    Example(
        "of equal priorities only the newer goes",
        (
            cluster_queue("solo", 4, within=NEWER),
            holding("old", "solo", 2, priority=3, created=-100),
            holding("young", "solo", 2, priority=3, created=-10),
            waiting("new", "solo", 2, priority=3, created=-50),
        ),
        {"young": IN_QUEUE},
    ),
    Example(
        "of equal priorities nobody goes for one of the same age",
        (
            cluster_queue("solo", 4, within=NEWER),
            holding("twin", "solo", 2, priority=3, created=-50),
            holding("old", "solo", 2, priority=3, created=-100),
            waiting("new", "solo", 2, priority=3, created=-50),
        ),
        {},
        "WaitingForQuota",
        "2 more needed",
    ),
    Example(
        "of equal priorities nobody goes where only lower ones may",
        (
            cluster_queue("solo", 4, within=LOWER),
            holding("young", "solo", 4, priority=3, created=-10),
            waiting("new", "solo", 2, priority=3, created=-50),
        ),
        {},
        "WaitingForQuota",
        "2 more needed",
    ),
    Example(
        "a newer one of higher priority stays",
        (
            cluster_queue("solo", 4, within=NEWER),
            holding("young", "solo", 4, priority=4, created=-10),
            waiting("new", "solo", 2, priority=3, created=-50),
        ),
        {},
        "WaitingForQuota",
        "2 more needed",
    ),
    Example(
        "a workload that already leaves is enough",
        (
            cluster_queue("solo", 4, within=LOWER),
            holding("ev", "solo", 2, priority=4, evicted=True),
            holding("low", "solo", 2),
            waiting("new", "solo", 2, priority=5),
        ),
        {},
        ends="Pending the preemption of 1 workload(s)",
    ),
    Example(
        "nobody is taken from an inactive queue",
        (
            cluster_queue("amber", 6, cohort="q", reclaim=ANY),
            cluster_queue("beryl", 0, cohort="q", terminating=True),
            holding("b", "beryl", 6),
            waiting("new", "amber", 5, priority=5),
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
    assert kueue.message(found.why).endswith(example.ends)


def test_a_victim_is_told_who_came_for_it_and_why():
    made = world(
        cohort("quarry"),
        cluster_queue("amber", 6, cohort="quarry", reclaim=ANY),
        cluster_queue("beryl", 4, cohort="quarry"),
        holding("b", "beryl", 9),
        waiting("new", "amber", 5, job_uid="job-1"),
    )

    (victim,) = made.cycle().evicted

    assert victim.why.reason == "Preempted"
    assert kueue.message(victim.why) == (
        "Preempted to accommodate a workload (UID: new, JobUID: job-1) due to reclamation within "
        "the cohort; preemptor path: /quarry/amber; preemptee path: /quarry/beryl"
    )


def test_the_preemptor_keeps_the_front_while_its_victims_leave():
    made = world(
        cluster_queue("solo", 4, within=LOWER),
        holding("low", "solo", 4),
        waiting("first", "solo", 4, priority=5),
    )
    assert evicted(made.cycle()) == {"low": IN_QUEUE}

    made.add(waiting("later", "solo", 5, priority=9))

    assert made.active("solo") == ["first", "later"]


def test_a_strict_queue_needs_no_sticky_preemptor():
    made = world(
        cluster_queue("solo", 4, within=LOWER, strict=True),
        holding("low", "solo", 4),
        waiting("first", "solo", 4, priority=5),
    )
    made.cycle()

    made.add(waiting("later", "solo", 5, priority=9))

    assert made.active("solo") == ["later", "first"]


_NUMBERS = st.integers(0, 6)


@given(
    nominal=st.tuples(_NUMBERS, _NUMBERS, _NUMBERS),
    used=st.tuples(_NUMBERS, st.lists(st.integers(1, 3), max_size=6), st.integers(0, 3)),
    limits=st.tuples(st.none() | _NUMBERS, st.none() | _NUMBERS),
    asks=st.integers(1, 13),
)
def test_the_smaller_request_that_is_told_takes_back_what_others_borrow(
    nominal: tuple[int, int, int],
    used: tuple[int, list[int], int],
    limits: tuple[int | None, int | None],
    asks: int,
) -> None:
    """The first is the most that it may borrow, the second the most that others may lend it."""
    borrowing, lending = limits
    objects: list[Any] = [
        cluster_queue("amber", nominal[0], borrowing, cohort="q", reclaim=ANY),
        cluster_queue("beryl", nominal[1], None, lending, cohort="q"),
        cluster_queue("coral", nominal[2], cohort="q"),
        *([holding("a", "amber", used[0], priority=99)] if used[0] else []),
        *(holding(f"b{n}", "beryl", size) for n, size in enumerate(used[1])),
        *([holding("c", "coral", used[2])] if used[2] else []),
    ]
    wait = waits(world(*objects, waiting("new", "amber", asks)).cycle()).get("new")
    if wait is None or wait.reason != WaitReason.WAITING_FOR_QUOTA:
        return
    (shortage,) = wait.shortages
    if not shortage.reclaimable:
        return
    smaller = (shortage.available + shortage.reclaimable) // 1000
    result = world(*objects, waiting("new", "amber", smaller)).cycle()
    assert waits(result)["new"].reason == "WaitingForPreemptedWorkloads"


@pytest.mark.parametrize(
    ("policy", "held", "more"),
    [(ANY, (0, 8), 4), (LOWER, (0, 8), 0), (ANY, (2, 6), 2), (ANY, (0, 6), 2), (ANY, (4, 4), 0)],
    ids=["all is borrowed", "only lower priorities", "part of it", "part is free", "own use"],
)
def test_how_much_a_queue_would_take_back_is_told_beside_what_is_free(
    policy: Any, held: tuple[int, int], more: int
) -> None:
    objects: tuple[Any, ...] = (
        cluster_queue("amber", 4, cohort="q", reclaim=policy),
        cluster_queue("beryl", 4, cohort="q"),
        *(
            holding(name, name, cores)
            for name, cores in zip(("amber", "beryl"), held, strict=True)
            if cores
        ),
        waiting("new", "amber", 8),
    )
    (shortage,) = waits(world(*objects).cycle())["new"].shortages
    assert (shortage.available, shortage.reclaimable) == (
        (8 - sum(held)) * 1000,
        more * 1000,
    )
