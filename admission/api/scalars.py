"""Texts and numbers of the API, with their limits."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, WithJsonSchema

from admission.api import markers
from admission.base import quantity

SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
KIND_PATTERN: Final = r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"
QUALIFIED_NAME_PATTERN: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
REASON_PATTERN: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"

Subdomain = Annotated[str, StringConstraints(pattern=SUBDOMAIN_PATTERN, max_length=253)]
"""A DNS subdomain: the name of an object. The empty text is refused."""

Label = Annotated[str, StringConstraints(pattern=LABEL_PATTERN, max_length=63)]
"""A DNS label."""

QualifiedName = Annotated[
    str, StringConstraints(pattern=QUALIFIED_NAME_PATTERN, min_length=1, max_length=316)
]
"""The key of a label."""

CheckReference = Annotated[str, StringConstraints(min_length=1, max_length=316)]
"""The name of an AdmissionCheck, without a pattern."""

Message = Annotated[str, StringConstraints(max_length=32768)]
"""Text for people."""

Int32 = Annotated[int, markers.keywords(format="int32")]
Int64 = Annotated[int, markers.keywords(format="int64")]
Count = Annotated[Int32, Field(ge=0)]
Positive = Annotated[Int32, Field(ge=1)]

Timestamp = Annotated[str, markers.keywords(format="date-time")]
"""RFC 3339."""

Quantity = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": quantity.PATTERN,
            markers.INT_OR_STRING: True,
        }
    ),
]
"""A Kubernetes quantity, as text or whole number."""

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
