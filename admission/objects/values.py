"""Parts that several kinds have, as values of scheduling; a text that is wrong names its field."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from admission.base import clock, quantity
from admission.base.errors import InvalidValueError
from admission.base.selectors import Requirement, requirements_of
from admission.objects import views
from admission.scheduling import model
from admission.scheduling.node_labels import Affinity

_Choice = TypeVar("_Choice", bound=StrEnum)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
"""Of expressions about labels of nodes."""


def tolerations(tolerations_: Iterable[views.Toleration]) -> tuple[model.Toleration, ...]:
    """Tolerations of a flavor or pod."""
    return tuple(
        model.Toleration(
            key=toleration.key,
            operator=toleration.operator,
            value=toleration.value,
            effect=toleration.effect,
            is_for_a_time=toleration.toleration_seconds is not None,
        )
        for toleration in tolerations_
    )


def taints(taints_: Iterable[views.Taint]) -> tuple[model.Taint, ...]:
    """Taints of a flavor or node."""
    return tuple(
        model.Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints_
    )


def selector(view: views.LabelSelector | None) -> model.Selector | None:
    """A label selector; None stays None and matches nothing."""
    if view is None:
        return None
    return model.Selector(
        requirements_of(view.match_labels or {}, requirements(view.match_expressions or ()))
    )


def requirements(
    requirements_: Iterable[views.LabelSelectorRequirement],
) -> tuple[Requirement, ...]:
    """Expressions of a label or node selector."""
    return tuple(
        Requirement(requirement.key, requirement.operator, tuple(requirement.values or ()))
        for requirement in requirements_
    )


def required_affinity(affinity: views.Affinity | None, field: str) -> Affinity | None:
    """Required node affinity; None where there is none. Fields of nodes are not looked at.

    Raises:
        InvalidValueError: an operator is none; the rule names the field.
    """
    node = None if affinity is None else affinity.node_affinity
    if node is None or node.required is None:
        return None
    terms = tuple(
        requirements(term.match_expressions or ()) for term in node.required.node_selector_terms
    )
    for requirement in itertools.chain.from_iterable(terms):
        if requirement.operator not in _OPERATORS:
            rule = f"{field}: not a valid selector operator"
            raise InvalidValueError(requirement.operator, rule)
    return terms


def amount_of(resource: str, value: str | int, field: str) -> int:
    """A quantity in the canonical unit of its resource.

    Raises:
        InvalidValueError: it is no quantity; the rule names the field.
    """
    try:
        return quantity.to_canonical(resource, str(value))
    except InvalidValueError as error:
        raise InvalidValueError(error.value, f"{field}: {error.rule}") from error


def amount_or_zero(resource: str, value: str | int) -> int:
    """Return a quantity in the canonical unit of its resource; 0 if it is no quantity.

    It is for what drivers and node agents write: an error there must not hide their other GPUs.
    """
    try:
        return quantity.to_canonical(resource, str(value))
    except InvalidValueError:
        return 0


def choice(kind: type[_Choice], text: str, field: str) -> _Choice:
    """Return the value that a text names.

    Raises:
        InvalidValueError: it names none; the rule names the field.
    """
    try:
        return kind(text)
    except ValueError:
        choices = ", ".join(kind)
        raise InvalidValueError(text, f"{field}: must be one of {choices}") from None


def stop_policy(text: str) -> model.StopPolicy:
    """Return the stop policy of a queue; an empty text is None."""
    return choice(model.StopPolicy, text or "None", "spec.stopPolicy")


def microseconds(text: str | None, field: str) -> int | None:
    """Return microseconds since the epoch of an RFC 3339 text; None for a missing one.

    Raises:
        InvalidValueError: the text is no time; the rule names the field.
    """
    if not text:
        return None
    try:
        return (clock.from_wire(text) - _EPOCH) // _MICROSECOND
    except ValueError as error:
        raise InvalidValueError(text, f"{field}: must be an RFC 3339 time") from error
