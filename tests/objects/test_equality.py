"""Quantities are shown in the canonical form in which the API server's clients show them."""

import pytest

from admission.objects import rule_checks


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (0, "0"), ("0Gi", "0"), (64, "64"), (1000, "1k"), ("1500", "1500"), ("0.5", "500m"),
        ("-1500m", "-1500m"), ("2000m", "2"), ("4096Gi", "4Ti"), ("1023Ki", "1023Ki"),
        ("0.5Gi", "512Mi"), ("1025", "1025"), ("0.5Ki", "512"), ("1e3", "1e3"), ("10e2", "1e3"),
        ("0.001e3", "1"), ("1e-3", "1e-3"), ("1E", "1E"), ("3n", "3n"), ("0.1n", "1n"),
        ("1.5Ki", "1536"), ("-4096Ki", "-4Mi"), ("anything", "anything"),
    ],
)  # fmt: skip
def test_the_canonical_text(written: str | int, shown: str) -> None:
    assert rule_checks.quantity_text(written) == shown


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (None, {}), ([], None), ({"a": None}, {}), ({"a": {"b": []}}, {}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}),
        ([{"limits": {"cpu": 1}}], [{"limits": {"cpu": "1"}}]),
    ],
)  # fmt: skip
def test_equal_in_meaning(left: object, right: object) -> None:
    assert rule_checks.same(left, right)
    assert rule_checks.same(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (None, 0), ([], [None, 1]), ({"a": ""}, {}), ({"a": "1"}, {"a": "1000m"}),
        ({"requests": {"cpu": "1"}}, {"requests": {"memory": "1"}}), ([1], [1, 2]),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}), ({"a": False}, {"a": True}),
    ],
)  # fmt: skip
def test_different_in_meaning(left: object, right: object) -> None:
    assert not rule_checks.same(left, right)
    assert not rule_checks.same(right, left)
