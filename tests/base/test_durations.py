"""Durations are read as Go reads them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import durations
from admission.base.errors import InvalidValueError

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("15s", 15 * SECOND),
        ("1m30s", 90 * SECOND),
        ("168h", 168 * 3600 * SECOND),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("3.s", 3 * SECOND),
        ("500ms", SECOND // 2),
        ("7us", 7),
        ("7\N{MICRO SIGN}s", 7),
        ("7\N{GREEK SMALL LETTER MU}s", 7),
        ("1999ns", 1),
        ("-2s", -2 * SECOND),
        ("+2s", 2 * SECOND),
        ("30m1h", 5400 * SECOND),
    ],
)
def test_a_duration_has_so_many_microseconds(text, microseconds):
    assert durations.parse(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "15", "s", "1 s", "1d", "1S", "--1s", ".s", "1e3s", "1s,", "15s\n"]
)
def test_what_go_refuses_is_refused(text):
    with pytest.raises(InvalidValueError, match="duration such as"):
        durations.parse(text)


@pytest.mark.parametrize("text", ["9" * 5000 + "h", "0." + "1" * 5000 + "s", "1s" * 100])
def test_a_duration_longer_than_anybody_writes_is_refused(text):
    with pytest.raises(InvalidValueError, match="must have at most 128 characters"):
        durations.parse(text)


@given(st.integers(-(10**15), 10**15))
def test_what_is_written_is_read_as_the_same(microseconds):
    assert durations.parse(durations.to_wire(microseconds)) == microseconds


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0, "0s"), (5_400 * SECOND, "1h30m"), (15 * SECOND, "15s"), (1_500_000, "1s500ms")],
)
def test_a_duration_is_written_in_few_parts(microseconds, text):
    assert durations.to_wire(microseconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1m"), (1, "1m"), (60, "1m"), (60.5, "2m"), (7_200, "120m"), (7_201, "3h"),
        (172_800, "48h"), (172_801, "3d"),
    ],
)  # fmt: skip
def test_time_that_is_left_is_rounded_up(seconds, text):
    assert durations.within(timedelta(seconds=seconds)) == text
