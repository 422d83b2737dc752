"""Types and marks of the fields of Kueue's kinds.

A field of a struct says what its schema is:

* its type, its docstring and the marks in its ``Annotated`` become keywords of the schema;
* it is required if it has no default, or bears `REQUIRED`: then the default is for objects that
  nobody has validated yet;
* the API server fills in a value only where `api_default` says so.

Decoding enforces types and nothing else: an object with a value of a newer version can be read.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from admission.base import quantity
from admission.objects import markers
from admission.objects.markers import Keywords, keywords

SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
KIND_PATTERN: Final = r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"
QUALIFIED_NAME_PATTERN: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
REASON_PATTERN: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


@dataclass(frozen=True, slots=True)
class Required:
    """The schema requires the field, although decoding does not."""


REQUIRED: Final = Required()


@dataclass(frozen=True, slots=True)
class Unread:
    """Only the schema has the field: the program never reads it.

    It stands in a ``ClassVar``, so that decoding skips it.
    """


UNREAD: Final = Unread()


@dataclass(frozen=True, slots=True)
class Shape:
    """The schema knows more of the field than decoding, which takes it as it is.

    Attributes:
        hint: the type that the schema is made from, or a function that returns the schema.
    """

    hint: Any


def api_default(value: str | int | dict[str, Any]) -> Keywords:
    """Return the mark of a field that the API server fills in."""
    return Keywords({"default": value})


def one_of(*values: str) -> Keywords:
    """Return the mark of a text that is one of some words."""
    return Keywords({"enum": list(values)})


def text(
    pattern: str = "", *, at_least: int | None = None, at_most: int | None = None
) -> Keywords:
    """Return the mark of a text with a pattern or limits of its length."""
    schema_: dict[str, Any] = {"minLength": at_least, "maxLength": at_most, "pattern": pattern}
    return Keywords({key: value for key, value in schema_.items() if value})


SUBDOMAIN: Final = text(SUBDOMAIN_PATTERN, at_most=253)
"""A DNS subdomain: the name of an object. The empty text is refused."""

LABEL: Final = text(LABEL_PATTERN, at_most=63)
"""A DNS label."""

KIND: Final = text(KIND_PATTERN, at_most=63)
"""The name of a kind."""

QUALIFIED_NAME: Final = text(QUALIFIED_NAME_PATTERN, at_least=1, at_most=316)
"""The key of a label."""

CONDITION_TYPE: Final = text(QUALIFIED_NAME_PATTERN, at_most=316)
REASON: Final = text(REASON_PATTERN, at_least=1, at_most=1024)
MESSAGE: Final = text(at_most=32768)

COUNT: Final = keywords(minimum=0)
POSITIVE: Final = keywords(minimum=1)

NOT_EMPTY: Final = keywords(minLength=1)
"""For a text whose other limits allow the empty one."""

Int32 = Annotated[int, keywords(format="int32")]
Int64 = Annotated[int, keywords(format="int64")]

Timestamp = Annotated[str, keywords(format="date-time")]
"""RFC 3339."""

Quantity = Annotated[
    str | int,
    Keywords(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": quantity.PATTERN,
            markers.INT_OR_STRING: True,
        }
    ),
]
"""A Kubernetes quantity, as text or whole number."""

StopPolicy = Annotated[str, one_of("None", "Hold", "HoldAndDrain"), api_default("None")]
