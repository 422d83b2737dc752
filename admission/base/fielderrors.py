"""Errors that name a field, in the words and the order in which API servers report them.

Source: k8s.io/apimachinery pkg/util/validation/field (path.go, errors.go) and
pkg/util/errors (aggregate).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Self

from admission.base import patches

_Step = tuple[int, int, str]  # index steps sort before named ones, by number


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The path of a value in an object: ``metadata.labels[kueue.x-k8s.io/queue-name]``."""

    text: str = ""
    order: tuple[_Step, ...] = ()

    @classmethod
    def of(cls, *names: str) -> Self:
        """Return the path that descends through the named children."""
        return cls(".".join(names), tuple((1, 0, name) for name in names))

    def child(self, name: str) -> "FieldPath":
        """Return the member of an object."""
        text = f"{self.text}.{name}" if self.text else name
        return FieldPath(text, (*self.order, (1, 0, name)))

    def index(self, position: int) -> "FieldPath":
        """Return the item of a list, from 0."""
        return FieldPath(f"{self.text}[{position}]", (*self.order, (0, position, "")))

    def key(self, name: str) -> "FieldPath":
        """Return the value of a map; the key is not quoted."""
        return FieldPath(f"{self.text}[{name}]", (*self.order, (1, 0, name)))

    def within(self, outer: "FieldPath") -> "FieldPath":
        """Return the same path, in an object that is a member of another."""
        return FieldPath(f"{outer.text}.{self.text}", (*outer.order, *self.order))

    def pointer(self) -> str:
        """Return the path as a JSON pointer: ``/metadata/labels/kueue.x-k8s.io~1queue-name``."""
        return _pointer(self.order)


@lru_cache(maxsize=256)
def _pointer(order: tuple[_Step, ...]) -> str:
    """The JSON pointer of a path; kept, as each review of an owner asks for the same few."""
    return patches.pointer(*(name if is_named else at for is_named, at, name in order))


class ErrorType(Enum):
    """Kind of a field error; the value is what a client reads."""

    INVALID = "Invalid value"
    REQUIRED = "Required value"
    FORBIDDEN = "Forbidden"
    NOT_SUPPORTED = "Unsupported value"
    NOT_FOUND = "Not found"
    DUPLICATE = "Duplicate value"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"


_WITHOUT_VALUE: Final = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG}


class Omission(Enum):
    """A marker for a value that is not shown although its type would show one."""

    OMITTED = "omitted"


OMITTED: Final = Omission.OMITTED

Value = Omission | str | int | bool | float | None | list[object] | dict[str, object]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule.

    Attributes:
        type: kind of the error.
        path: the field.
        value: what stands there; shown unless the type leaves it out.
        detail: the rule, may be empty.
    """

    type: ErrorType
    path: FieldPath
    value: Value = None
    detail: str = ""

    def text(self) -> str:
        """Return ``path: Type: value: detail``; value and detail only where there are any."""
        hidden = self.type in _WITHOUT_VALUE or self.value is OMITTED
        shown = "" if hidden else f": {_render(self.value)}"
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.path.text}: {self.type.value}{shown}{detail}"


def invalid(path: FieldPath, value: Value, detail: str) -> FieldError:
    """Return the error that the value breaks a rule."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def required(path: FieldPath, detail: str = "") -> FieldError:
    """Return the error that a value is missing."""
    return FieldError(ErrorType.REQUIRED, path, None, detail)


def forbidden(path: FieldPath, detail: str) -> FieldError:
    """Return the error that the field may not be set, or not like this, in this object."""
    return FieldError(ErrorType.FORBIDDEN, path, None, detail)


def not_supported(path: FieldPath, value: Value, supported: Iterable[str]) -> FieldError:
    """Return the error that the value is none of an enumeration."""
    choices = ", ".join(_render(choice) for choice in supported)
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {choices}")


def not_found(path: FieldPath, value: Value, detail: str = "") -> FieldError:
    """Return the error that the value names something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, path, value, detail)


def duplicate(path: FieldPath, value: Value) -> FieldError:
    """Return the error about a duplicate value."""
    return FieldError(ErrorType.DUPLICATE, path, value)


def too_long(path: FieldPath, limit: int) -> FieldError:
    """Return the error that the text has more than ``limit`` bytes."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(ErrorType.TOO_LONG, path, None, f"may not be more than {limit} {unit}")


def too_many(path: FieldPath, count: int, limit: int) -> FieldError:
    """Return the error that the list has more than ``limit`` items."""
    return FieldError(ErrorType.TOO_MANY, path, count, f"must have at most {limit} items")


def in_order(errors: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """Return the distinct errors sorted by field path, then by text."""
    distinct = {error.text(): error for error in errors}
    return tuple(
        error
        for _, error in sorted(distinct.items(), key=lambda item: (item[1].path.order, item[0]))
    )


def aggregate(errors: Iterable[FieldError]) -> str:
    """Return one text for all errors: that of a single error, else ``[first, second]``."""
    texts = [error.text() for error in in_order(errors)]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _render(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
