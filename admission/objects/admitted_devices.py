"""The annotation of a pod that says how many devices were admitted for it.

It is ``NAME=AMOUNT`` for each extended resource, joined by commas, or ``none``.
"""

from collections.abc import Mapping
from typing import Final

from admission.base.errors import InvalidValueError

_NONE: Final = "none"


def text(amounts: Mapping[str, int]) -> str:
    """Return the value of the annotation for amounts by resource."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts)) or _NONE


def read(value: str) -> dict[str, int]:
    """Return the amounts of a value by resource.

    Raises:
        InvalidValueError: the value has another form.
    """
    amounts: dict[str, int] = {}
    for part in () if value == _NONE else value.split(","):
        name, separator, amount = part.partition("=")
        if not (name and separator and amount.isdecimal()):
            raise InvalidValueError(value, "must be NAME=AMOUNT, joined by commas, or none")
        amounts[name] = int(amount)
    return amounts
