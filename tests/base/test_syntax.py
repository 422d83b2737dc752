"""Texts are read as Go reads them."""

import pytest

from admission.base import syntax


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, True) for text in ("1", "t", "T", "true", "TRUE", "True")),
        *((text, False) for text in ("0", "f", "F", "false", "FALSE", "False")),
        *(
            (text, f'strconv.ParseBool: parsing "{text}": invalid syntax')
            for text in ("", "yes", "tRUE", " true", "2")
        ),
    ],
)
def test_a_boolean_is_what_go_takes_for_one(text: str, expected: bool | str) -> None:
    assert syntax.parse_boolean(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("0" * 5000 + "7", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        *(
            (text, f'strconv.Atoi: parsing "{text}": value out of range')
            for text in (str(2**63), str(-(2**63) - 1), "9" * 5000)
        ),
        *(
            (text, f'strconv.Atoi: parsing "{text}": invalid syntax')
            for text in ("", "+", "7.0", "٣", "1_0", " 1")
        ),
    ],
)
def test_an_integer_is_what_go_takes_for_one(text: str, expected: int | str) -> None:
    assert syntax.parse_integer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("12", 12), *((text, None) for text in ("", "-1", "+1", "٣", "x", "9" * 5000))],
)
def test_a_whole_number_has_decimal_digits_alone(text: str, expected: int | None) -> None:
    assert syntax.whole_number(text) == expected
