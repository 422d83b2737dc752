"""Saturating amounts with one value above all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import amount
from admission.base.amount import MAX_INT64, MIN_INT64, UNLIMITED

amounts = st.integers(MIN_INT64, MAX_INT64)
finite = st.integers(-(2**61), 2**61)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (amount.add(UNLIMITED, -5), UNLIMITED),
        (amount.add(MAX_INT64 - 1, 5), UNLIMITED),
        (amount.add(MIN_INT64, -5), MIN_INT64),
        (amount.subtract(UNLIMITED, 5), UNLIMITED),
        (amount.subtract(UNLIMITED, UNLIMITED), 0),
        (amount.subtract(5, UNLIMITED), MIN_INT64),
        (amount.subtract(MIN_INT64, 5), MIN_INT64),
        (amount.multiply(2**62, 3), UNLIMITED),
        (amount.scale_down(10, 3, 2), 6),
        (amount.scale_down(10, 0, 2), 0),
        (amount.clamp(2**70), UNLIMITED),
    ],
)
def test_the_edges(got, expected):
    assert got == expected


@given(amounts, amounts)
def test_sums_stay_in_range_and_commute(left, right):
    assert MIN_INT64 <= amount.add(left, right) <= MAX_INT64
    assert amount.add(left, right) == amount.add(right, left)


@given(finite, finite)
def test_finite_amounts_add_and_subtract_as_integers(left, right):
    assert amount.add(left, right) == left + right
    assert amount.subtract(left, right) == left - right


@given(amounts, amounts, amounts)
def test_nothing_finite_is_above_unlimited(left, right, value):
    assert amount.add(left, right) <= UNLIMITED
    assert amount.subtract(UNLIMITED, value) in {UNLIMITED, 0}
