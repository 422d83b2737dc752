"""Label selectors as predicates."""

import pytest

from admission.base.errors import InvalidValueError
from admission.base.selectors import Requirement, compile_requirements, requirements_of

LABELS = {"team": "a", "size": "8", "empty": ""}


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("team", "In", ("a", "b")), True),
        (Requirement("team", "In", ("b",)), False),
        (Requirement("none", "In", ("a",)), False),
        (Requirement("team", "NotIn", ("a",)), False),
        (Requirement("none", "NotIn", ("a",)), True),
        (Requirement("empty", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("team", "DoesNotExist"), False),
        (Requirement("size", "Gt", ("7",)), True),
        (Requirement("size", "Gt", ("8",)), False),
        (Requirement("size", "Lt", ("9",)), True),
        (Requirement("team", "Lt", ("9",)), False),
        (Requirement("none", "Gt", ("7",)), False),
        (Requirement("size", "Gt", ("x",)), False),
        (Requirement("size", "Gt", ("1", "2")), False),
    ],
)
def test_one_expression(requirement, expected):
    assert requirement.matches(LABELS) is expected


def test_all_expressions_must_hold():
    found = requirements_of({"team": "a"}, [Requirement("size", "Exists")])

    assert compile_requirements(found)(LABELS)
    assert not compile_requirements(found)({"team": "a"})


def test_no_expression_matches_everything():
    assert compile_requirements(())({})


def test_an_unknown_operator_is_named():
    with pytest.raises(InvalidValueError, match="'Like': not a valid selector operator"):
        compile_requirements([Requirement("a", "Like", ("b",))])
