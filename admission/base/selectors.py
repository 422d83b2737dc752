"""Label selectors, compiled once to a predicate over labels.

Source: k8s.io/apimachinery pkg/apis/meta/v1/helpers.go and pkg/labels. ``NotIn`` matches a
missing key. A selector that is absent (None) matches nothing, an empty one everything; the
caller says which it has.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from admission.base.errors import InvalidValueError

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a selector.

    Attributes:
        key: the label key.
        operator: In, NotIn, Exists, DoesNotExist; for nodes also Gt and Lt.
        values: operands, empty for Exists and DoesNotExist.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels satisfy this expression."""
        return _compile_requirement(self)(labels)

    def document(self) -> dict[str, Any]:
        """Return the expression as a LabelSelector holds it."""
        values = {"values": list(self.values)} if self.values else {}
        return {"key": self.key, "operator": self.operator, **values}


def compile_requirements(requirements: Iterable[Requirement]) -> Predicate:
    """Return a predicate that is true where every requirement holds; of none, always true.

    Raises:
        InvalidValueError: an operator is unknown.
    """
    compiled = tuple(_compile_requirement(requirement) for requirement in requirements)
    return lambda labels: all(test(labels) for test in compiled)


def requirements_of(
    match_labels: Labels, expressions: Iterable[Requirement] = ()
) -> tuple[Requirement, ...]:
    """Return the requirements of a LabelSelector, matchLabels first, keys sorted."""
    equal = (Requirement(key, "In", (match_labels[key],)) for key in sorted(match_labels))
    return (*equal, *expressions)


def _compile_requirement(requirement: Requirement) -> Predicate:
    key, values = requirement.key, frozenset(requirement.values)
    match requirement.operator:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "Gt" | "Lt":
            return _compare(key, requirement.operator, requirement.values)
        case operator:
            raise InvalidValueError(operator, "not a valid selector operator")


def _compare(key: str, operator: str, values: tuple[str, ...]) -> Predicate:
    """Integer comparison of a node label; a label or operand that is no integer never matches."""
    bound = _integer(values[0]) if len(values) == 1 else None

    def test(labels: Labels) -> bool:
        number = _integer(labels.get(key, ""))
        if bound is None or number is None:
            return False
        return number > bound if operator == "Gt" else number < bound

    return test


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
