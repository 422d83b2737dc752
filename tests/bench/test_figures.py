"""The bench's own arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import figures

TIMES = st.lists(st.floats(0, 1e6), min_size=1)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7], 50, 7),
        ([7], 99, 7),
        ([1, 2, 3, 4], 50, 2),
        ([4, 3, 2, 1], 75, 3),
        (range(1, 101), 99, 99),
        (range(1, 1001), 99, 990),
        (range(1, 101), 100, 100),
        ([1, 2], 0, 1),
    ],
)
def test_a_percentile_is_a_value_of_nearest_rank(values, percent, expected):
    assert figures.percentile(values, percent) == expected


@given(TIMES, st.integers(1, 100))
def test_at_least_so_many_percent_do_not_exceed_the_percentile(values, percent):
    found = figures.percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def test_a_percentile_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        figures.percentile([], 50)


def test_times_are_shown_in_milliseconds():
    shown = figures.milliseconds([0.001, 0.002, 0.1234567])
    assert shown == {"p50_ms": 2.0, "p99_ms": 123.457, "max_ms": 123.457}


def test_each_figure_is_the_median_of_its_own():
    runs: list[figures.Figures] = [
        {"rate": 10, "cpu": {"webhook": 3.0}, "name": "x"},
        {"rate": 30, "cpu": {"webhook": 1.0}, "name": "x"},
        {"rate": 20, "cpu": {"webhook": 2.0}, "name": "x"},
    ]
    assert figures.median(runs) == {"rate": 20, "cpu": {"webhook": 2.0}, "name": "x"}


def test_a_median_between_two_figures_has_no_more_places_than_it_needs():
    assert figures.median([{"seconds": 0.1}, {"seconds": 0.2}]) == {"seconds": 0.15}


def test_a_figure_that_a_run_lacks_counts_as_nothing_there():
    runs: list[figures.Figures] = [{"writes": {"POST pods": 4.0}}, {"writes": {}}, {"writes": {}}]
    assert figures.median(runs) == {"writes": {"POST pods": 0}}


def test_shares_come_largest_first():
    assert list(figures.per({"a": 1, "c": 30, "b": 30}, 10).items()) == [
        ("b", 3.0),
        ("c", 3.0),
        ("a", 0.1),
    ]
