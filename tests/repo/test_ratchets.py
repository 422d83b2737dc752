"""No figure of the code is worse than it was: see `ratchets`."""

import ast

import pytest

from tests.repo import ratchets


def test_no_figure_is_worse_than_recorded() -> None:
    assert ratchets.worse(ratchets.figures(), ratchets.recorded()) == []


def test_a_figure_that_grows_or_was_never_recorded_is_named() -> None:
    today, reached = {"a": 2.0, "b": 1.0, "c": 0.0, "d": 1.0}, {"a": 1.0, "b": 1.0}
    assert ratchets.worse(today, reached) == ["a: 2, was 1", "d: 1, was 0"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('found.message.startswith("Too big")', True),
        ('wait.message == "no room"', True),
        ('re.compile(r"flavor (\\S+) not found")', True),
        ('re.compile(r"[a-z]+")', False),
        ("wait.message == other.message", False),
        ('name.startswith("a b")', False),
    ],
)
def test_a_look_into_a_text_is_told_from_others(code: str, expected: bool) -> None:
    node = ast.parse(code, mode="eval").body
    assert ratchets._reads_text(node) is expected
