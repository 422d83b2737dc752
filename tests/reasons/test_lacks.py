"""What people read of a shortage: in which order, and whether the quota exists at all."""

from typing import Any

import pytest

from admission.base.causes import BorrowingLimit, Shortage, UnnamedHolders
from admission.base.names import ClusterQueueName, FlavorName, PodSetName, ResourceName
from admission.reasons import sentences

GPU = "nvidia.com/gpu"


def short(resource: str, flavor: str = "std", requested: int = 9, **numbers: Any) -> Shortage:
    values = {"available": 1, "limit": 8, "nominal": 4, **numbers}
    return Shortage(
        pod_set=PodSetName("main"),
        resource=ResourceName(resource),
        flavor=FlavorName(flavor),
        requested=requested,
        **values,
    )


def test_devices_come_first_and_of_them_the_flavor_that_reaches_furthest() -> None:
    found = sentences.lacks(
        [
            short("cpu", limit=10**9),
            short(GPU, "b", limit=8),
            short(GPU, "small", limit=2),
            short("example.com/fpga"),
            short(GPU, "a", limit=8),
            short("memory"),
        ]
    )
    assert [(one.resource, one.flavor) for one in found] == [
        ("example.com/fpga", "std"),
        (GPU, "a"),
        (GPU, "b"),
        (GPU, "small"),
        ("cpu", "std"),
        ("memory", "std"),
    ]


def test_of_two_pod_sets_that_lack_the_same_the_larger_request_is_told() -> None:
    for asked in ([3, 5], [5, 3]):
        (lack,) = sentences.lacks([short(GPU, requested=one) for one in asked])
        assert lack.asks == "5"


def test_a_smaller_request_that_would_take_back_borrowed_quota_is_told() -> None:
    shortage = short(GPU, "a100", 16, available=1, limit=24, reclaimable=9)
    text = sentences.of_shortages([shortage], "research", place="1st")
    assert text.message == (
        "Waits: needs 16 a100, 1 free of 24; 1st in queue research; a request for at most 10 a100"
        " would stop work of others that borrows."
    )


def test_a_smaller_request_is_not_told_where_it_would_wait_as_well() -> None:
    gpus = short(GPU, "a100", 16, available=1, limit=24, reclaimable=9)
    enough = short(GPU, "a100", 8, available=1, limit=24, reclaimable=9)
    cpu = short("cpu", "a100", 4)
    for shortages in ([gpus, cpu], [enough]):
        assert "borrows" not in sentences.of_shortages(shortages, "research").message


def test_a_queue_that_uses_more_than_its_quota_is_in_no_cohort() -> None:
    holders = ((ClusterQueueName("research"), 20),)
    shortage = short(GPU, "a100", 4, available=0, limit=10, holders=holders)
    text = sentences.of_shortages([shortage], "research")
    assert text.message.endswith("; held by research (20).")


def test_holders_of_more_than_the_queue_can_reach_are_told_as_those_of_the_cohort() -> None:
    for limit, where in ((17, ""), (12, " in its Cohort")):
        shortage = short(GPU, "a100", 4, available=0, limit=limit, holders=HOLDERS)
        text = sentences.of_shortages([shortage], "research")
        assert text.message == (
            f"Waits: needs 4 a100, 0 free of {limit}; held{where} by serving (9), research (8)."
        )


def test_holders_that_are_not_named_are_counted_with_what_all_of_them_use() -> None:
    """A cycle keeps the largest few; what the others use counts as well."""
    holders = tuple((ClusterQueueName(f"q{number}"), 9 - number) for number in range(5))
    shortage = short(
        GPU, "a100", 4, available=0, limit=40, holders=holders, unnamed=UnnamedHolders(7, 12)
    )
    text = sentences.of_shortages([shortage], "research")
    assert text.message == (
        "Waits: needs 4 a100, 0 free of 40; held in its Cohort by q0 (9), q1 (8), q2 (7) and 9 "
        "more (23)."
    )


HOLDERS = ((ClusterQueueName("serving"), 9), (ClusterQueueName("research"), 8))


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (None, "held in its Cohort by serving (9), research (8)"),
        (("research", False, 2), "queue research may borrow 2 a100 at most; held by research (8)"),
        (("research", False, 0), "queue research may borrow no a100; held by research (8)"),
        (("ml", True, 2), "Cohort ml may borrow 2 a100 at most; held by research (8)"),
    ],
    ids=["others hold it", "of the queue", "none", "of the cohort"],
)
def test_a_borrowing_limit_that_alone_stands_in_the_way_is_told(
    limit: tuple[str, bool, int] | None, expected: str
) -> None:
    more = {"borrowing_limit": None if limit is None else BorrowingLimit(*limit)}
    holders = HOLDERS if limit is None else HOLDERS[1:]
    shortage = short(GPU, "a100", 4, available=2, limit=10, holders=holders, **more)
    text = sentences.of_shortages([shortage], "research", place="3rd")
    at = "3rd in queue research"
    assert text.message == f"Waits: needs 4 a100, 2 free of 10; {at}; {expected}."


def test_a_borrowing_limit_is_not_told_where_something_else_is_short_too() -> None:
    limit = BorrowingLimit("research", is_of_cohort=False, amount=2)
    gpus = short(GPU, "a100", 4, available=2, limit=10, holders=HOLDERS, borrowing_limit=limit)
    text = sentences.of_shortages([gpus, short("cpu", "a100", 4)], "research")
    assert "may borrow" not in text.message


@pytest.mark.parametrize(
    ("requested", "available", "limit", "withheld", "expected"),
    [
        (3, 2, 8, 0, False),
        (3, 2, 8, 1, True),
        (4, 2, 8, 1, False),
        (2, 2, 8, 1, False),
        (5, 8, 4, 1, True),
        (1, -3, 8, 1, True),
    ],
    ids=[
        "all quota exists", "what is withheld would do", "it would not do",
        "there is room: a cap holds it back", "of its limit, too", "there is less than no room",
    ],
)  # fmt: skip
def test_a_shortage_says_whether_it_is_for_want_of_hardware(
    requested: int, available: int, limit: int, withheld: int, expected: bool
) -> None:
    shortage = short(GPU, requested=requested, available=available, limit=limit, withheld=withheld)
    (lack,) = sentences.lacks([shortage])
    assert lack.exists_not is expected


@pytest.mark.parametrize(("requested", "expected"), [(10, False), (11, True)])
def test_what_is_above_the_limit_with_all_that_is_withheld_never_fits(
    requested: int, expected: bool
) -> None:
    (lack,) = sentences.lacks([short(GPU, requested=requested, limit=8, withheld=2)])
    assert lack.never is expected
