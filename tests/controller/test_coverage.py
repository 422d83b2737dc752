"""The order in which a reservation covers the pods of a pod set, and what a change costs."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.controller.watched_owners.coverage import Coverage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UIDS = st.sampled_from("abcdefgh")
CHANGES = st.one_of(
    st.tuples(st.just("put"), UIDS, st.booleans(), st.booleans()),
    st.tuples(st.just("remove"), UIDS),
    st.tuples(st.just("cover"), st.integers(0, 9)),
)


@given(st.lists(CHANGES))
def test_the_first_pods_are_covered_and_those_that_change_sides_are_told(changes) -> None:
    coverage, covered = Coverage(), 0
    orders: dict[str, Any] = {}
    known: dict[str, bool] = {}
    for kind, *rest in changes:
        if kind == "cover":
            (covered,) = rest
            told = coverage.cover(covered)
            in_order = sorted(orders, key=lambda uid: orders[uid])
            beyond = set(in_order[covered:])
            assert {uid for uid in orders if coverage.is_beyond(uid)} == beyond
            changed = {uid for uid in known if known[uid] != (uid in beyond)}
            assert changed <= set(told)
            known = {uid: uid in beyond for uid in orders}
            continue
        uid, *flags = rest
        if kind == "put":
            orders[uid] = (*flags, uid)
            coverage.put(uid, orders[uid])
        else:
            orders.pop(uid, None)
            coverage.remove(uid)
        known.pop(uid, None)  # who changes a pod looks at it anyway
        assert len(coverage) == len(orders)


def test_a_pod_that_comes_or_goes_has_one_other_change_sides() -> None:
    coverage = Coverage()
    for number in range(100):
        coverage.put(f"{number:03}", (False, False, f"{number:03}"))
    coverage.cover(50)
    coverage.put("0005", (False, False, "0005"))
    assert coverage.cover(50) == ("049",)
    coverage.remove("0005")
    assert coverage.cover(50) == ("049",)
    coverage.put("9", (False, False, "9"))
    assert coverage.cover(50) == ()


def test_pods_are_due_in_the_order_of_their_times() -> None:
    coverage = Coverage()
    for seconds in (30, 10, 20):
        coverage.add_due(f"in {seconds}", NOW + timedelta(seconds=seconds))
    assert not coverage.is_due(NOW)
    assert coverage.take_due(NOW + timedelta(seconds=20)) == ("in 10", "in 20")
    assert coverage.take_due(NOW + timedelta(seconds=20)) == ()
