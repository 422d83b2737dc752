"""Marks of list types, map types and CEL rules.

A mark stands in the ``Annotated`` of a field and adds keywords to the field's schema.
"""

from dataclasses import dataclass
from typing import Any

LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"
INT_OR_STRING = "x-kubernetes-int-or-string"


@dataclass(frozen=True, slots=True)
class CelRule:
    """A CEL rule: ``expression`` must be true, else the object is refused with ``message``.

    An expression that names ``oldSelf`` is a transition rule: it runs only where the value
    exists before and after the write.
    """

    expression: str
    message: str

    def to_wire(self) -> dict[str, str]:
        """The rule as ``x-kubernetes-validations`` lists it."""
        return {"message": self.message, "rule": self.expression}


IMMUTABLE = CelRule("self == oldSelf", "field is immutable")


@dataclass(frozen=True, slots=True, eq=False)
class Keywords:
    """Schema keywords that are added to whatever the annotated type gives."""

    values: dict[str, Any]


def keywords(**values: str | int | bool) -> Keywords:
    """Plain keywords such as ``format`` or ``maxItems``."""
    return Keywords(dict(values))


def list_map(*keys: str, at_least: int | None = None, at_most: int | None = None) -> Keywords:
    """A list whose items are told apart by ``keys``; server-side apply merges per item."""
    return Keywords({**_size(at_least, at_most), LIST_TYPE: "map", LIST_MAP_KEYS: list(keys)})


def list_set(*, at_most: int | None = None) -> Keywords:
    """A list of distinct values."""
    return Keywords({**_size(None, at_most), LIST_TYPE: "set"})


def list_atomic(*, at_least: int | None = None, at_most: int | None = None) -> Keywords:
    """A list that server-side apply replaces as a whole."""
    return Keywords({**_size(at_least, at_most), LIST_TYPE: "atomic"})


def map_atomic(*, at_most: int | None = None) -> Keywords:
    """An object or map that server-side apply replaces as a whole."""
    size = {} if at_most is None else {"maxProperties": at_most}
    return Keywords({**size, MAP_TYPE: "atomic"})


def rules(*members: CelRule) -> Keywords:
    """CEL rules on a field, beside those of its type."""
    return Keywords({VALIDATIONS: [rule.to_wire() for rule in members]})


def _size(at_least: int | None, at_most: int | None) -> dict[str, int]:
    bounds = {"minItems": at_least, "maxItems": at_most}
    return {key: bound for key, bound in bounds.items() if bound is not None}
