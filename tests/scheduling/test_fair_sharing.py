"""Worked examples of fair sharing, amounts in cores."""

import math
from dataclasses import dataclass
from typing import Any

import pytest

from admission.base.amount import MAX_INT64
from admission.scheduling import fairshare
from admission.scheduling.fairshare import Share
from admission.scheduling.model import Config, FairSharing, FairStrategy
from tests.scheduling.worlds import (
    ANY,
    LOWER,
    World,
    admitted,
    cohort,
    cq,
    evicted,
    group,
    held,
    pods,
    waits,
    want,
    world,
)

FINAL = FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE
INITIAL = FairStrategy.LESS_THAN_INITIAL_SHARE
FAIRNESS = "InCohortFairSharing"
RECLAIM = "InCohortReclamation"


def fair(*objects: Any, strategies: tuple[FairStrategy, ...] = (FINAL, INITIAL)) -> World:
    flavors = ("std", "acc", "f1", "f2")
    config = Config(fair_sharing=FairSharing(strategies=strategies))
    return world(*objects, flavors=flavors, config=config)


def pair(amber: float, beryl: float) -> tuple[Any, ...]:
    return (
        cq("amber", 4, cohort="q", weight=amber),
        cq("beryl", 4, cohort="q", weight=beryl),
        cq("pool", 8, cohort="q"),
        held("a", "amber", 4),
        held("b", "beryl", 8),
        want("a1", "amber", 4),
        want("b1", "beryl", 2, p=50),
    )


@pytest.mark.parametrize(
    ("weights", "winner", "loser"),
    [((1, 1), "a1", "b1"), ((0.5, 2), "b1", "a1")],
    ids=["the lower share wins whatever the priority", "weights divide the share"],
)
def test_who_is_processed_first(weights, winner, loser):
    result = fair(*pair(*weights)).cycle()

    assert admitted(result) == [winner]
    assert waits(result)[loser].message.startswith("Workload no longer fits")


def test_a_workload_that_borrows_nothing_it_asks_for_goes_first():
    groups = [group({"std": {"cpu": (4,)}}), group({"acc": {"nvidia.com/gpu": (2,)}})]
    made = fair(
        *(cq(name, cohort="q", groups=groups) for name in ("amber", "beryl")),
        cq("pool", cohort="q", groups=[group({"std": {"cpu": (8,)}})]),
        held("a", "amber", 7),
        want("a1", "amber", sets=[pods(nvidia_com__gpu=2)]),
        want("b1", "beryl", p=9, sets=[pods(nvidia_com__gpu=3)]),
    )

    assert admitted(made.cycle()) == ["a1"]


@dataclass(frozen=True)
class Example:
    """A fair world with one new workload of amber, and whom it robs."""

    name: str
    objects: tuple[Any, ...]
    victims: dict[str, str]
    strategies: tuple[FairStrategy, ...] = (FINAL, INITIAL)


POOL = (
    cq("amber", 2, cohort="q", reclaim=ANY),
    cq("beryl", 2, cohort="q"),
    cq("pool", 8, cohort="q"),
)
THREE_OF_FOUR = tuple(held(f"b{n}", "beryl", 4, r=-100 + n) for n in range(3))

EXAMPLES = (
    Example(
        "the newest goes if the robbed side stays at or above the robber",
        (*POOL, *THREE_OF_FOUR, want("new", "amber", 4)),
        {"b2": FAIRNESS},
    ),
    Example(
        "one large workload goes if its side was above the robber before",
        (*POOL, held("b", "beryl", 12), want("new", "amber", 6)),
        {"b": FAIRNESS},
    ),
    Example(
        "without the second strategy the large workload stays",
        (*POOL, held("b", "beryl", 12), want("new", "amber", 6)),
        {},
        (FINAL,),
    ),
    Example(
        "the second strategy may stand alone",
        (*POOL, held("b", "beryl", 12), want("new", "amber", 6)),
        {"b": FAIRNESS},
        (INITIAL,),
    ),
    Example(
        "balanced queues leave each other alone whatever the priority",
        (
            *POOL,
            held("a", "amber", 6),
            held("b0", "beryl", 3),
            held("b1", "beryl", 3),
            want("new", "amber", 1, p=100),
        ),
        {},
    ),
    Example(
        "within nominal no share is asked for",
        (
            cq("amber", 5, cohort="q", reclaim=LOWER),
            cq("beryl", 5, cohort="q"),
            held("old", "beryl", 5, r=-50),
            held("young", "beryl", 5, r=-10),
            want("new", "amber", 5, p=3),
        ),
        {"young": RECLAIM},
    ),
    Example(
        "sides are compared just below their common cohort",
        (
            cohort("left", parent="root"),
            cohort("right", parent="root"),
            cq("l1", 1, cohort="left", reclaim=ANY),
            cq("l2", 1, cohort="left"),
            cq("r1", 2, cohort="right"),
            cq("bank", 6, cohort="root"),
            held("l2w", "l2", 3),
            held("r1a", "r1", 4, r=-10),
            held("r1b", "r1", 3, r=-50),
            want("new", "l1", 3),
        ),
        {"r1a": FAIRNESS},
    ),
    Example(
        "an owner takes its quota back from a borrower whose share is 0",
        (
            cq("amber", 2, None, 0, cohort="q", reclaim=ANY),
            cq("beryl", 0, cohort="q"),
            held("b", "beryl", 2),
            want("new", "amber", 1),
        ),
        {"b": RECLAIM},
    ),
    Example(
        "of equal shares the second strategy takes the candidate that comes first",
        (
            cohort("q", 7),
            cq("amber", 0, cohort="q", reclaim=ANY),
            cq("beryl", 0, cohort="q"),
            cq("coral", 0, cohort="q"),
            cq("pool", 5, cohort="q"),
            held("b", "beryl", 3, r=-10),
            held("small", "beryl", 1, r=-60),
            held("c", "coral", 3, p=-1, r=-50),
            held("full", "pool", 5),
            want("new", "amber", 2),
        ),
        {"c": FAIRNESS},
    ),
    Example(
        "the own queue pays by its own policy",
        (
            cq("amber", 2, cohort="q", within=LOWER, reclaim=ANY),
            cq("beryl", 2, cohort="q"),
            held("a", "amber", 4),
            want("new", "amber", 2, p=5),
        ),
        {"a": "InClusterQueue"},
    ),
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name)
def test_whom_a_workload_robs(example):
    made = fair(*example.objects, strategies=example.strategies)

    assert evicted(made.cycle()) == example.victims


def share(objects: tuple[Any, ...], node: str) -> float:
    return fairshare.of(fair(*objects).node(node)).value()


BUBBLE = (
    cohort("mid", 2, None, 3, parent="top"),
    cq("k1", 6, None, 4, cohort="mid"),
    cq("k2", 5, cohort="top"),
    held("k", "k1", 7),
)
WEIGHTLESS = (cq("x", 4, cohort="q", weight=0), cq("y", 4, cohort="q"), held("h", "x", 5))
TWO_FLAVORS = (
    cq("amber", cohort="q", weight=2, groups=[
        group({"f1": {"cpu": (2,), "memory": ("4Gi",)}, "f2": {"cpu": (2,), "memory": (0,)}})
    ]),
    cq("beryl", cohort="q", groups=[
        group({"f1": {"cpu": (6,), "memory": ("12Gi",)}, "f2": {"cpu": (6,), "memory": ("8Gi",)}})
    ]),
    held("a", "amber", usage={("f1", "cpu"): 5, ("f1", "memory"): "8Gi"}),
    held("b", "amber", usage={("f2", "cpu"): 3, ("f2", "memory"): "2Gi"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "node", "expected"),
    [
        (BUBBLE, "k1", 1000 / 11),
        (BUBBLE, "mid", 0),
        (BUBBLE, "top", 0),
        (TWO_FLAVORS, "amber", 125),
        (
            (cq("x", 4, cohort="q", weight=0), cq("y", 4, cohort="q"), held("h", "x", 5)),
            "x",
            math.inf,
        ),
        ((cq("x", 4), held("h", "x", 5)), "x", 0),
    ],
)
def test_the_share_of_a_node(objects, node, expected):
    assert share(objects, node) == expected


def test_of_equally_used_resources_the_first_by_name_dominates():
    assert fairshare.of(fair(*TWO_FLAVORS).node("amber")).resource == "cpu"


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        (Share(), Share(True, 1000 / 3)),
        (Share(True, 1000 / 3), Share(True, 1000 / 3, weight=0.5)),
        (Share(True, 1e18), Share(True, 1e-9, weight=0)),
        (Share(True, 1000 / 3, weight=0), Share(True, 500, weight=0)),
    ],
    ids=["none", "weight", "weight 0 is above all", "two of weight 0 by ratio"],
)
def test_shares_are_ordered(lower, higher):
    assert lower.order < higher.order


def test_a_borrower_to_whom_nothing_can_be_lent_has_the_share_of_one_that_borrows_nothing():
    assert Share(True, 0).order == Share().order
    assert Share(True, 0, weight=0).order == Share().order


def test_the_last_bit_decides_between_shares_that_differ_in_weight_only():
    """3 / 1.5 and 2 of 11 are the same number; as doubles the former is above the latter."""
    queues = (
        cq("x", 2, cohort="q", weight=1.5),
        cq("y", 4, cohort="q"),
        cq("pool", 5, cohort="q"),
    )
    made = fair(*queues, held("x1", "x", 5), held("y1", "y", 6))

    over, under = (fairshare.of(made.node(name)) for name in ("x", "y"))

    assert over.order > under.order
    assert (over.rounded_up(), under.rounded_up()) == (182, 182)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Share(), 0),
        (Share(True, 1000 / 3), 334),
        (Share(True, 1000 / 3, weight=0), MAX_INT64),
        (Share(True, 9e21, weight=1e-9), MAX_INT64),
    ],
)
def test_status_shows_the_share_rounded_up(found, shown):
    assert found.rounded_up() == shown
