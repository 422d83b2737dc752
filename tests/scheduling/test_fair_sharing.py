"""Worked examples of fair sharing, amounts in cores."""

import math
from dataclasses import dataclass
from typing import Any

import pytest

from admission.base.amount import MAX_INT64
from admission.reasons import kueue
from admission.scheduling import fairshare
from admission.scheduling.fairshare import Share
from admission.scheduling.model import Config, FairSharing, FairStrategy
from tests.builders.scheduling import (
    ANY,
    LOWER,
    cluster_queue,
    cohort,
    group,
    holding,
    pod_set,
    waiting,
)
from tests.scheduling.worlds import World, admitted, evicted, waits, world

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
        cluster_queue("amber", 4, cohort="q", weight=amber),
        cluster_queue("beryl", 4, cohort="q", weight=beryl),
        cluster_queue("pool", 8, cohort="q"),
        holding("a", "amber", 4),
        holding("b", "beryl", 8),
        waiting("a1", "amber", 4),
        waiting("b1", "beryl", 2, priority=50),
    )


@pytest.mark.parametrize(
    ("weights", "winner", "loser"),
    [((1, 1), "a1", "b1"), ((0.5, 2), "b1", "a1")],
    ids=["the lower share wins whatever the priority", "weights divide the share"],
)
def test_who_is_processed_first(weights, winner, loser):
    result = fair(*pair(*weights)).cycle()

    assert admitted(result) == [winner]
    assert kueue.message(waits(result)[loser].why).startswith("Workload no longer fits")


def test_a_workload_that_borrows_nothing_it_asks_for_goes_first():
    groups = [group({"std": {"cpu": (4,)}}), group({"acc": {"nvidia.com/gpu": (2,)}})]
    made = fair(
        *(cluster_queue(name, cohort="q", groups=groups) for name in ("amber", "beryl")),
        cluster_queue("pool", cohort="q", groups=[group({"std": {"cpu": (8,)}})]),
        holding("a", "amber", 7),
        waiting("a1", "amber", sets=[pod_set(nvidia_com__gpu=2)]),
        waiting("b1", "beryl", priority=9, sets=[pod_set(nvidia_com__gpu=3)]),
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
    cluster_queue("amber", 2, cohort="q", reclaim=ANY),
    cluster_queue("beryl", 2, cohort="q"),
    cluster_queue("pool", 8, cohort="q"),
)
THREE_OF_FOUR = tuple(holding(f"b{n}", "beryl", 4, reserved=-100 + n) for n in range(3))

EXAMPLES = (
    Example(
        "the newest goes if the robbed side stays at or above the robber",
        (*POOL, *THREE_OF_FOUR, waiting("new", "amber", 4)),
        {"b2": FAIRNESS},
    ),
    Example(
        "one large workload goes if its side was above the robber before",
        (*POOL, holding("b", "beryl", 12), waiting("new", "amber", 6)),
        {"b": FAIRNESS},
    ),
    Example(
        "without the second strategy the large workload stays",
        (*POOL, holding("b", "beryl", 12), waiting("new", "amber", 6)),
        {},
        (FINAL,),
    ),
    Example(
        "the second strategy may stand alone",
        (*POOL, holding("b", "beryl", 12), waiting("new", "amber", 6)),
        {"b": FAIRNESS},
        (INITIAL,),
    ),
    Example(
        "balanced queues leave each other alone whatever the priority",
        (
            *POOL,
            holding("a", "amber", 6),
            holding("b0", "beryl", 3),
            holding("b1", "beryl", 3),
            waiting("new", "amber", 1, priority=100),
        ),
        {},
    ),
    Example(
        "within nominal no share is asked for",
        (
            cluster_queue("amber", 5, cohort="q", reclaim=LOWER),
            cluster_queue("beryl", 5, cohort="q"),
            holding("old", "beryl", 5, reserved=-50),
            holding("young", "beryl", 5, reserved=-10),
            waiting("new", "amber", 5, priority=3),
        ),
        {"young": RECLAIM},
    ),
    Example(
        "sides are compared just below their common cohort",
        (
            cohort("left", parent="root"),
            cohort("right", parent="root"),
            cluster_queue("l1", 1, cohort="left", reclaim=ANY),
            cluster_queue("l2", 1, cohort="left"),
            cluster_queue("r1", 2, cohort="right"),
            cluster_queue("bank", 6, cohort="root"),
            holding("l2w", "l2", 3),
            holding("r1a", "r1", 4, reserved=-10),
            holding("r1b", "r1", 3, reserved=-50),
            waiting("new", "l1", 3),
        ),
        {"r1a": FAIRNESS},
    ),
    Example(
        "an owner takes its quota back from a borrower whose share is 0",
        (
            cluster_queue("amber", 2, None, 0, cohort="q", reclaim=ANY),
            cluster_queue("beryl", 0, cohort="q"),
            holding("b", "beryl", 2),
            waiting("new", "amber", 1),
        ),
        {"b": RECLAIM},
    ),
    Example(
        "of equal shares the second strategy takes the candidate that comes first",
        (
            cohort("q", 7),
            cluster_queue("amber", 0, cohort="q", reclaim=ANY),
            cluster_queue("beryl", 0, cohort="q"),
            cluster_queue("coral", 0, cohort="q"),
            cluster_queue("pool", 5, cohort="q"),
            holding("b", "beryl", 3, reserved=-10),
            holding("small", "beryl", 1, reserved=-60),
            holding("c", "coral", 3, priority=-1, reserved=-50),
            holding("full", "pool", 5),
            waiting("new", "amber", 2),
        ),
        {"c": FAIRNESS},
    ),
    Example(
        "a cohort with a share between two queues is robbed after the first of them",
        (
            cohort("kids", parent="q"),
            cluster_queue("amber", 4, cohort="q", reclaim=ANY),
            cluster_queue("beryl", 0, cohort="q"),
            cluster_queue("coral", 0, cohort="q"),
            cluster_queue("child", 0, cohort="kids"),
            cluster_queue("pool", 12, cohort="q"),
            holding("b", "beryl", 6),
            holding("c", "coral", 2),
            holding("k", "child", 4),
            holding("full", "pool", 4),
            waiting("new", "amber", 2),
        ),
        {"b": RECLAIM},
    ),
    Example(
        "a cohort with the highest share is robbed before all queues",
        (
            cohort("kids", parent="q"),
            cluster_queue("amber", 4, cohort="q", reclaim=ANY),
            cluster_queue("beryl", 0, cohort="q"),
            cluster_queue("coral", 0, cohort="q"),
            cluster_queue("child", 0, cohort="kids"),
            cluster_queue("pool", 12, cohort="q"),
            holding("b", "beryl", 4),
            holding("c", "coral", 2),
            holding("k", "child", 6),
            holding("full", "pool", 4),
            waiting("new", "amber", 2),
        ),
        {"k": RECLAIM},
    ),
    Example(
        "the own queue pays by its own policy",
        (
            cluster_queue("amber", 2, cohort="q", within=LOWER, reclaim=ANY),
            cluster_queue("beryl", 2, cohort="q"),
            holding("a", "amber", 4),
            waiting("new", "amber", 2, priority=5),
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
    cluster_queue("k1", 6, None, 4, cohort="mid"),
    cluster_queue("k2", 5, cohort="top"),
    holding("k", "k1", 7),
)
WEIGHTLESS = (
    cluster_queue("x", 4, cohort="q", weight=0),
    cluster_queue("y", 4, cohort="q"),
    holding("h", "x", 5),
)
TWO_FLAVORS = (
    cluster_queue("amber", cohort="q", weight=2, groups=[
        group({"f1": {"cpu": (2,), "memory": ("4Gi",)}, "f2": {"cpu": (2,), "memory": (0,)}})
    ]),
    cluster_queue("beryl", cohort="q", groups=[
        group({"f1": {"cpu": (6,), "memory": ("12Gi",)}, "f2": {"cpu": (6,), "memory": ("8Gi",)}})
    ]),
    holding("a", "amber", usage={("f1", "cpu"): 5, ("f1", "memory"): "8Gi"}),
    holding("b", "amber", usage={("f2", "cpu"): 3, ("f2", "memory"): "2Gi"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "node", "expected"),
    [
        (BUBBLE, "k1", 1000 / 11),
        (BUBBLE, "mid", 0),
        (BUBBLE, "top", 0),
        (TWO_FLAVORS, "amber", 125),
        (
            (
                cluster_queue("x", 4, cohort="q", weight=0),
                cluster_queue("y", 4, cohort="q"),
                holding("h", "x", 5),
            ),
            "x",
            math.inf,
        ),
        ((cluster_queue("x", 4), holding("h", "x", 5)), "x", 0),
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
        cluster_queue("x", 2, cohort="q", weight=1.5),
        cluster_queue("y", 4, cohort="q"),
        cluster_queue("pool", 5, cohort="q"),
    )
    made = fair(*queues, holding("x1", "x", 5), holding("y1", "y", 6))

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
