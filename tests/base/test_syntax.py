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
