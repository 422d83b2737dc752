"""Views of LimitRanges and RuntimeClasses to what the engine needs of them."""

from collections.abc import Iterable, Mapping
from typing import Final

from admission.api import views
from admission.base import quantity
from admission.base.errors import InvalidValueError
from admission.engine import limits
from admission.engine.limits import Bounds, Limits

_CONTAINER: Final = "Container"
_POD: Final = "Pod"


def of_namespace(found: Iterable[views.LimitRange]) -> Limits:
    """All LimitRanges of a namespace, merged.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    items = [item for one in found for item in one.spec.limits or ()]
    if not items:
        return limits.NO_LIMITS
    return Limits(
        container=limits.merge(_bounds(item) for item in items if item.type == _CONTAINER),
        pod=limits.merge(_bounds(item) for item in items if item.type == _POD),
    )


def overhead(found: views.RuntimeClass) -> dict[str, int]:
    """What pods of a RuntimeClass take beside their containers, in units of 1e-9.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    fixed = None if found.overhead is None else found.overhead.pod_fixed
    return nanos(fixed, "overhead.podFixed")


def _bounds(item: views.LimitRangeItem) -> Bounds:
    return Bounds(
        maximum=nanos(item.max, "spec.limits.max"),
        minimum=nanos(item.min, "spec.limits.min"),
        limit=nanos(item.default, "spec.limits.default"),
        request=nanos(item.default_request, "spec.limits.defaultRequest"),
    )


def nanos(found: Mapping[str, str | int] | None, path: str) -> dict[str, int]:
    """Quantities in units of 1e-9.

    Raises:
        InvalidValueError: one cannot be read; the rule names the field.
    """
    amounts: dict[str, int] = {}
    for resource, value in (found or {}).items():
        try:
            amounts[resource] = quantity.parse_nano(str(value))
        except InvalidValueError as error:
            raise InvalidValueError(error.value, f"{path}[{resource}]: {error.rule}") from error
    return amounts
