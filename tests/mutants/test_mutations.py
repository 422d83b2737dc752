"""Which changes are made to a module, and that each of them is Python."""

import ast
import textwrap

import pytest

from tests.mutants.mutations import mutations
from tests.repo import tree


def after(source: str) -> set[str]:
    """Return each changed line of a source, without its indent."""
    return {one.after for one in mutations(textwrap.dedent(source))}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a > b", {"a >= b", "a <= b"}),
        ("a <= b", {"a < b", "a > b"}),
        ("a == b", {"a != b"}),
        ("a is not b", {"a is b"}),
        ("a not in b", {"a in b"}),
        ("a < b < c", {"a <= b < c", "a >= b < c", "a < b <= c", "a < b >= c"}),
        ("a and b and c", {"a or b and c", "a and b or c"}),
        ("not a", {"a"}),
        ("x = 7", {"x = 8", "x = 6"}),
        ("x = True", {"x = False"}),
        ("a + b", {"a - b"}),
        ("a // b", {"a * b"}),
        ("a += b", {"a -= b"}),
        ("max(a, b)", {"pass", "min(a, b)", "(a)", "(b)"}),
        ("any(a)", {"pass", "all(a)"}),
        ("x = a if b else c", {"x = a if not (b) else c"}),
        ("x = [a for a in b if c]", {"x = [a for a in b if not (c)]"}),
        ("(a)  > (b)", {"(a)  >= (b)", "(a)  <= (b)"}),
        ('"ä" in a and b', {'"ä" not in a and b', '"ä" in a or b'}),
        ("do(a)", {"pass"}),
    ],
)
def test_an_expression_becomes(source: str, expected: set[str]) -> None:
    assert after(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""', "x: int", "assert a > b", "raise ValueError(a > b)", "import a",
        'f"{a > b}"', '"a" + b', "_log.info(a > b)", "self._log.warning(1)", "@a(1)\nclass B: ...",
        "def f(a: int | None) -> int | None: ...", "return None",
    ],
)  # fmt: skip
def test_what_decides_nothing_stays(source: str) -> None:
    whole = f"def f():\n    {source}" if source == "return None" else source
    assert after(whole) == set()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bool", {"return True", "return False"}),
        ("int", {"return 0"}),
        ("str", {'return ""'}),
        ("tuple[str, ...]", {"return ()"}),
        ("list[str]", {"return []"}),
        ("dict[str, int]", {"return {}"}),
        ("str | None", {"return None"}),
    ],
)
def test_what_is_returned_becomes_a_value_of_the_same_type(kind: str, expected: set[str]) -> None:
    assert after(f"def f() -> {kind}:\n    return a") == expected


def test_a_loop_that_ends_goes_on_and_the_other_way_round() -> None:
    source = "for a in b:\n    if c:\n        break\n    continue"
    assert after(source) == {"if not (c):", "continue", "break"}


def test_the_guard_of_a_case_is_turned_round() -> None:
    assert after("match a:\n    case _ if b:\n        c = d") == {"case _ if not (b):"}


def test_a_change_is_made_at_its_place_and_nowhere_else() -> None:
    source = "a > b\na > b\n"
    made = [one.applied(source) for one in mutations(source)]
    assert made == ["a <= b\na > b\n", "a >= b\na > b\n", "a > b\na <= b\n", "a > b\na >= b\n"]
    assert [one.line for one in mutations(source)] == [1, 1, 2, 2]


def test_a_change_of_several_lines_shows_them_without_their_indent() -> None:
    (one,) = mutations("if a:\n    do(\n        b,\n    )\n")[1:]
    assert (one.before, one.after) == ("do(\nb,\n)", "pass")


def test_every_change_of_a_module_is_python_and_another_one() -> None:
    source = (tree.ROOT / "admission" / "scheduling" / "quota.py").read_text()
    made = [one.applied(source) for one in mutations(source)]
    assert len(made) > 50
    assert len(set(made)) == len(made)
    assert source not in made
    for text in made:
        ast.parse(text)
