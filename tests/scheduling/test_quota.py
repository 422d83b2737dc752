"""Worked examples of quota arithmetic, amounts in cores."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.amount import UNLIMITED
from admission.base.names import WorkloadKey
from admission.reasons import kueue, sentences
from admission.scheduling import quota, shortages
from tests.builders.scheduling import (
    NOW_US,
    STD_CPU,
    cluster_queue,
    cohort,
    group,
    holding,
    waiting,
)
from tests.scheduling import worlds
from tests.scheduling.worlds import admitted, world

HIERARCHY = (
    cohort("org", 5),
    cohort("east", 0, 3, parent="org"),
    cohort("west", parent="org"),
    cluster_queue("e1", 4, cohort="east"),
    cluster_queue("e2", 2, None, 1, cohort="east"),
    cluster_queue("w1", 10, cohort="west"),
    holding("w", "w1", 14),
)
GUARANTEED = (
    cohort("mid", 2, None, 3, parent="top"),
    cluster_queue("k1", 6, None, 4, cohort="mid"),
    cluster_queue("k2", 5, cohort="top"),
    holding("k", "k1", 7),
)


def over_maximum(request: int, capacity: int) -> str:
    return (
        "insufficient quota for cpu in flavor std, previously considered podsets requests (0) + "
        f"current podset request ({request}) > maximum capacity ({capacity})"
    )


def cores(milli: int) -> float:
    return milli if milli == UNLIMITED else milli / 1000


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            (
                cluster_queue("amber", 6, cohort="q"),
                cluster_queue("beryl", 10, cohort="q"),
                holding("b", "beryl", 3),
            ),
            {"amber": (13, 16), "beryl": (13, 16)},
            id="borrowing takes what others do not use",
        ),
        pytest.param(
            (cluster_queue("amber", 6, 4, cohort="q"), cluster_queue("beryl", 10, cohort="q")),
            {"amber": (10, 10), "beryl": (16, 16)},
            id="a borrowing limit caps what can ever be had",
        ),
        pytest.param(
            (
                cluster_queue("amber", 6, cohort="q"),
                cluster_queue("beryl", 10, None, 4, cohort="q"),
                holding("b", "beryl", 8),
            ),
            {"amber": (8, 10), "beryl": (8, 16)},
            id="a lending limit keeps the rest at home",
        ),
        pytest.param(
            HIERARCHY,
            {"e1": (6, 8), "e2": (7, 9), "w1": (6, 20)},
            id="a cohort's borrowing limit caps its whole subtree",
        ),
        pytest.param(
            GUARANTEED,
            {"k1": (6, 13), "k2": (6, 8)},
            id="usage bubbles only past what is never lent",
        ),
        pytest.param(
            (
                cluster_queue("amber", "1E", cohort="q"),
                cluster_queue("beryl", 5, cohort="q"),
                cluster_queue("coral", 5, 3, cohort="q"),
            ),
            {"amber": (UNLIMITED,) * 2, "beryl": (UNLIMITED,) * 2, "coral": (8, 8)},
            id="unlimited quota is lent without end",
        ),
        pytest.param(
            (
                cluster_queue("amber", 6, 4, cohort="q"),
                cluster_queue("beryl", 10, cohort="q"),
                holding("a", "amber", 8),
            ),
            {"amber": (2, 10), "beryl": (8, 16)},
            id="what is borrowed already counts towards a borrowing limit",
        ),
        pytest.param(
            (
                cluster_queue("amber", 6, 4, 2, cohort="q"),
                cluster_queue("beryl", 10, cohort="q"),
                holding("a", "amber", 7),
            ),
            {"amber": (3, 10), "beryl": (9, 12)},
            id="what is never lent counts towards a borrowing limit, too",
        ),
        pytest.param(
            (
                cohort("mid", 4, 3, parent="top"),
                cluster_queue("m1", 0, cohort="mid"),
                cluster_queue("m2", 0, cohort="mid"),
                cluster_queue("t1", 10, cohort="top"),
                holding("a", "m1", 5),
            ),
            {"m1": (2, 7), "m2": (2, 7), "t1": (9, 14)},
            id="what a subtree has borrowed counts towards the limit of its cohort",
        ),
        pytest.param(
            (cluster_queue("solo", 4), holding("s", "solo", 6)),
            {"solo": (0, 4)},
            id="over-admission leaves nothing, not less",
        ),
    ],
)
def test_available_and_potential(objects, expected):
    made = world(*objects)

    got = {
        name: (
            cores(max(0, quota.available(made.node(name), STD_CPU))),
            cores(quota.potential(made.node(name), STD_CPU)),
        )
        for name in expected
    }

    assert got == expected


@pytest.mark.parametrize(
    ("objects", "node", "subtree", "guaranteed", "usage"),
    [
        (HIERARCHY, "east", 5, 0, 0),
        (HIERARCHY, "west", 10, 0, 14),
        (HIERARCHY, "org", 20, 0, 14),
        (GUARANTEED, "k1", 6, 2, 7),
        (GUARANTEED, "mid", 6, 3, 5),
        (GUARANTEED, "top", 8, 0, 2),
    ],
)
def test_subtree_quota_guaranteed_part_and_usage(objects, node, subtree, guaranteed, usage):
    found = world(*objects).node(node)

    got = [found.subtree, found.guaranteed, found.usage]

    assert [cores(one.get(STD_CPU, 0)) for one in got] == [subtree, guaranteed, usage]


@pytest.mark.parametrize("others", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("order", [("k", "o"), ("o", "k")], ids=" before ".join)
def test_what_is_released_leaves_the_usage_of_others_on_every_level(others, order):
    made = world(*GUARANTEED, holding("o", "k1", others), holding("p", "k2", 1))

    for name in order:
        quota.release(made.node("k1"), WorkloadKey("default", name))
        left = {"k": others, "o": 7}[name] if name == order[0] else 0
        past_guarantee = max(0, left - 2)
        past_both = max(0, past_guarantee - 3)
        nodes = {name: made.node(name).usage.get(STD_CPU, 0) for name in ("k1", "mid", "top")}
        assert {name: cores(used) for name, used in nodes.items()} == {
            "k1": left,
            "mid": past_guarantee,
            "top": past_both + 1,
        }


@pytest.mark.parametrize(
    ("objects", "queue", "cpu", "ends"),
    [
        (
            (
                cluster_queue("amber", 6, cohort="q"),
                cluster_queue("beryl", 10, cohort="q"),
                holding("b", "beryl", 3),
            ),
            "amber",
            14,
            "insufficient unused quota for cpu in flavor std, 1 more needed",
        ),
        (
            (cluster_queue("amber", 6, 4, cohort="q"), cluster_queue("beryl", 10, cohort="q")),
            "amber",
            11,
            over_maximum(11, 10),
        ),
        (HIERARCHY, "e1", 7, "insufficient unused quota for cpu in flavor std, 1 more needed"),
        (GUARANTEED, "k2", 8, "insufficient unused quota for cpu in flavor std, 2 more needed"),
        (
            (cluster_queue("amber", "1E", cohort="q"), cluster_queue("coral", 5, 3, cohort="q")),
            "coral",
            9,
            over_maximum(9, 8),
        ),
    ],
)
def test_what_is_missing_is_said_to_the_unit(objects, queue, cpu, ends):
    result = world(*objects, waiting("new", queue, cpu)).cycle()

    message = kueue.message(worlds.waits(result)["new"].why)

    assert message == f"couldn't assign flavors to pod set main: {ends}"


def test_a_borrowed_admission_says_from_how_high():
    objects = (
        cluster_queue("amber", 6, cohort="q"),
        cluster_queue("beryl", 10, cohort="q"),
        holding("b", "beryl", 3),
    )

    result = world(*objects, waiting("new", "amber", 12)).cycle()

    assert [(one.workload.name, one.borrowing) for one in result.admitted] == [("new", 1)]


def test_an_inactive_queue_still_lends():
    stale = cluster_queue("stale", cohort="q", groups=[
        group({"std": {"cpu": (5,)}, "missing": {"cpu": (0,)}})
    ])  # fmt: skip

    made = world(cluster_queue("amber", 2, cohort="q"), stale, waiting("new", "amber", 6))

    assert worlds.admitted(made.cycle()) == ["new"]
    assert made.state.cluster_queue_status(stale.name).reason == "FlavorNotFound"


def test_a_million_cores_come_from_an_unlimited_lender():
    made = world(
        cluster_queue("amber", "1E", cohort="q"),
        cluster_queue("beryl", 5, cohort="q"),
        waiting("new", "beryl", 1000000),
    )

    assert worlds.admitted(made.cycle()) == ["new"]


def test_a_cohort_cycle_stops_its_queues_until_it_is_broken():
    made = world(
        cohort("a", parent="b"),
        cohort("b", parent="a"),
        cluster_queue("x", 4, cohort="a"),
        waiting("new", "x", 1),
    )
    assert not made.cycle().admitted

    made.state.set_cohort(cohort("b"), NOW_US)

    assert worlds.admitted(made.cycle()) == ["new"]


def test_an_implicit_cohort_goes_with_its_last_child():
    made = world(cluster_queue("x", 4, cohort="a"))
    assert list(made.state.forest.cohorts) == ["a"]

    made.state.set_cluster_queue(cluster_queue("x", 4))

    assert list(made.state.forest.cohorts) == []


def test_moving_a_queue_with_usage_keeps_both_trees_right():
    made = world(
        cluster_queue("x", 4, cohort="a"),
        cluster_queue("y", 4, cohort="a"),
        cluster_queue("z", 4, cohort="b"),
        holding("h", "x", 6),
    )
    assert made.node("a").usage == {STD_CPU: 6000}

    made.state.set_cluster_queue(cluster_queue("x", 4, cohort="b"))

    assert made.node("a").usage == {}
    assert made.node("b").usage == {STD_CPU: 6000}
    assert made.node("b").subtree == {STD_CPU: 8000}


_LIMITS = st.one_of(st.none(), st.integers(0, 6))
_AMOUNTS = st.integers(0, 8)


@given(
    limits=st.tuples(_LIMITS, _LIMITS, _LIMITS),
    lent=st.tuples(_LIMITS, _LIMITS),
    nominal=st.tuples(*[_AMOUNTS] * 5),
    held=st.tuples(*[_AMOUNTS] * 3),
    value=st.integers(1, 30),
)
def test_a_borrowing_limit_is_named_where_without_it_alone_the_value_is_available(
    limits: tuple[int | None, ...],
    lent: tuple[int | None, ...],
    nominal: tuple[int, ...],
    held: tuple[int, ...],
    value: int,
) -> None:
    def available(without: str = "") -> tuple[int, Any]:
        kept = {name: None if name == without else limit for name, limit in own.items()}
        state = world(
            cohort("top", nominal[0]),
            cohort("mid", nominal[1], kept["mid"], lent[0], parent="top"),
            cohort("low", nominal[2], kept["low"], parent="mid"),
            cluster_queue("a", nominal[3], kept["a"], lent[1], cohort="low"),
            cluster_queue("b", nominal[4], cohort="mid"),
            cluster_queue("c", 0, cohort="low"),
            *(holding(name, name, used) for name, used in zip("abc", held, strict=True) if used),
        )
        node = state.node("a")
        return quota.available(node, STD_CPU), quota.limiting(node, STD_CPU, value * 1000)

    own = dict(zip(("a", "low", "mid"), limits, strict=True))
    free, limiting = available()
    alone = {name for name in own if available(name)[0] >= value * 1000}
    if free >= value * 1000:
        assert limiting is None
    else:
        assert ({limiting.name} if limiting else set()) == alone


BORROWERS = (
    cohort("top", 0),
    cohort("mid", 0, 4, parent="top"),
    cluster_queue("a", 4, cohort="mid"),
    cluster_queue("b", 4, cohort="mid"),
    cluster_queue("other", 20, cohort="top"),
    holding("a1", "a", 4),
    holding("b1", "b", 6),
    holding("other1", "other", 5),
)
BORROWER = (
    cluster_queue("a", 4, 2, cohort="top"),
    cluster_queue("b", 10, cohort="top"),
    holding("a1", "a", 4),
    holding("b1", "b", 6),
)


@pytest.mark.parametrize(
    ("objects", "requests", "expected"),
    [
        (BORROWERS, [3], "Cohort mid may borrow 4 cpu of std at most; held by b (6), a (4)."),
        (BORROWER, [3], "queue a may borrow 2 cpu of std at most; held by a (4)."),
        (BORROWER, [2, 1], None),
        (BORROWER, [3, 3], "held in its Cohort by b (6), a (4)."),
    ],
    ids=["of a cohort", "of the queue", "each fits", "two that are too much together"],
)
def test_a_sentence_names_the_limit_that_stands_in_the_way_and_who_holds_below_it(
    objects, requests: list[int], expected: str | None
) -> None:
    node = world(*objects).node("a")
    asked = {f"set-{n}": {"cpu": cores_ * 1000} for n, cores_ in enumerate(requests)}
    lacking = shortages.lacking(node, asked)
    if expected is None:
        assert lacking == []
    else:
        assert sentences.of_shortages(lacking, "a").message.endswith(f"; {expected}")


def test_what_a_queue_has_borrowed_counts_after_it_gave_up_the_flavor():
    """Source of the case: kueue issue 2678."""
    made = world(
        cluster_queue("x", 2, cohort="q"), cluster_queue("y", 4, cohort="q"), holding("h", "x", 5)
    )
    made.state.set_cluster_queue(
        cluster_queue("x", cohort="q", groups=(group({"other": {"cpu": (2,)}}),))
    )
    assert made.node("q").usage[STD_CPU] == 5000
    made.add(waiting("new", "y", 2))
    assert not admitted(made.cycle())

    made.finish("h")
    assert admitted(made.cycle()) == ["new"]
