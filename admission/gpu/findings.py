"""What a check of an object found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something wrong or dangerous in an object or a pod.

    Attributes:
        rule: short identity, such as ``T10`` or ``duplicate``.
        field: path in the object.
        text: what happens, and what to write instead.
    """

    rule: str
    field: str
    text: str
