"""How old a status was, from when Workloads were made and what it said when."""

import pytest

from tests.bench.ages import ages


@pytest.mark.parametrize(
    ("made", "shown", "expected"),
    [
        ([1.0], [(1.4, 1)], [0.4, 0]),
        ([1.0, 1.2, 1.3], [(2.0, 3)], [1.0, 0]),
        ([1.0, 2.0], [(1.5, 1), (2.25, 2)], [0.5, 0.25, 0]),
        ([1.0, 2.0], [(2.5, 1), (2.75, 2)], [1.5, 0.75, 0]),
        ([1.0], [], [9.0]),
        ([2.0], [(1.0, 1)], [0, 0]),
        ([], [(1.0, 0)], [0, 0]),
    ],
    ids=[
        "one change", "coalesced: the oldest counts", "each told in turn",
        "a text that was late when it came", "never told", "told before the answer came",
        "nothing to tell",
    ],
)  # fmt: skip
def test_a_text_is_as_old_as_the_first_change_that_it_lacks(made, shown, expected):
    assert ages(made, shown, 0, 10) == pytest.approx(expected)


def test_only_texts_that_were_replaced_in_the_time_asked_for_are_told():
    made, shown = [1.0, 5.0, 8.0], [(2.0, 1), (5.5, 2), (8.25, 3)]
    assert ages(made, shown, 4, 7) == pytest.approx([0.5, 0])


def test_the_text_at_the_end_of_the_time_counts_with_its_age_then():
    assert ages([1.0, 5.0], [(2.0, 1)], 4, 7) == pytest.approx([2.0])
