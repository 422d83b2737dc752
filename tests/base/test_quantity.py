"""Quantities: exact in, canonical out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import quantity
from admission.base.amount import UNLIMITED
from admission.base.errors import InvalidValueError


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("cpu", "1", 1000),
        ("cpu", "1500m", 1500),
        ("cpu", "0.0001", 1),
        ("cpu", "1u", 1),
        ("cpu", "1E", UNLIMITED),
        ("memory", "1500m", 2),
        ("memory", "1Ki", 1024),
        ("memory", "1.5Gi", 3 << 29),
        ("memory", "1e3", 1000),
        ("memory", "1E3", 1000),
        ("memory", "12e-1", 2),
        ("nvidia.com/gpu", "3k", 3000),
        ("memory", "8Ei", UNLIMITED),
        ("memory", "-1500m", -2),
        ("memory", "+5", 5),
        ("memory", ".5", 1),
        ("memory", "5.", 5),
        ("memory", "1e999999999", UNLIMITED),
        ("memory", "1e-999999999", 1),
    ],
)
def test_text_to_amount(resource, text, expected):
    assert quantity.to_canonical(resource, text) == expected


@pytest.mark.parametrize("text", ["", ".", "1 Gi", "1gi", "Ki", "1Kib", "--1", "1e", "٣"])
def test_what_is_no_quantity(text):
    with pytest.raises(InvalidValueError, match=re.escape(repr(text))):
        quantity.to_canonical("memory", text)


@pytest.mark.parametrize("text", ["9" * 5000, "1e" + "9" * 5000, "0." + "1" * 5000])
def test_a_quantity_longer_than_anybody_writes_is_refused_and_shown_in_short(text):
    with pytest.raises(InvalidValueError, match="must have at most 128 characters") as refused:
        quantity.to_canonical("memory", text)
    assert len(str(refused.value)) < 300


def test_the_longest_quantity_is_clamped():
    assert quantity.to_canonical("memory", "9" * 128) == UNLIMITED


@pytest.mark.parametrize(
    ("resource", "value", "expected"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 3_000_000, "3k"),
        ("memory", 1536 << 20, "1536Mi"),
        ("ephemeral-storage", 1_200_000_000, "1171875Ki"),
        ("memory", 10**9, "1G"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("example.com/gpu", 3000, "3k"),
        ("memory", 0, "0"),
        ("cpu", UNLIMITED, "9223372036854775807m"),
        ("memory", UNLIMITED, "9223372036854775807"),
    ],
)
def test_amount_to_text(resource, value, expected):
    assert quantity.from_canonical(resource, value) == expected


def test_an_amount_without_limit_is_said_in_words():
    assert quantity.in_words("cpu", UNLIMITED) == "an unlimited amount"
    assert quantity.in_words("cpu", 1500) == "1500m"


@given(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.integers(0, 2**62) | st.just(UNLIMITED),
)
def test_what_is_written_reads_back(resource, value):
    assert re.fullmatch(quantity.PATTERN, quantity.from_canonical(resource, value))
    assert quantity.to_canonical(resource, quantity.from_canonical(resource, value)) == value


@given(st.integers(-(10**15), 10**15), st.sampled_from(["n", "u", "m", "", "k", "Ki", "G", "Gi"]))
def test_parsing_is_exact(number, suffix):
    factors = {"n": 1, "u": 10**3, "m": 10**6, "": 10**9, "k": 10**12, "Ki": 1024 * 10**9}
    factors |= {"G": 10**18, "Gi": (1 << 30) * 10**9}

    assert quantity.parse_nano(f"{number}{suffix}") == number * factors[suffix]


@given(st.text(max_size=12))
def test_the_crd_pattern_accepts_whatever_is_read(text):
    try:
        quantity.parse_nano(text)
    except InvalidValueError:
        return
    assert re.match(quantity.PATTERN, text)
