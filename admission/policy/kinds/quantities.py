"""Quantities as they are compared and shown in messages.

Source: k8s.io/apimachinery pkg/api/resource (quantity.go, Quantity.String): the shortest form in
the notation in which the quantity was written.
"""

import re
from functools import lru_cache
from typing import Final

from admission.base import quantity
from admission.base.errors import InvalidValueError

Quantity = str | int

_NANO: Final = 10**9
_DECIMAL: Final = (
    (18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"),
    (0, ""), (-3, "m"), (-6, "u"), (-9, "n"),
)  # fmt: skip
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI: Final = 1024
_EXPONENT: Final = re.compile(r".*[0-9.][eE][+-]?[0-9]+")


def nano(value: Quantity | None) -> int:
    """The value in units of 1e-9; 0 for none, and for a text that the schema should have refused.

    Texts of quantities are few and repeat, and their parsing is remembered.
    """
    if value is None:
        return 0
    try:
        return quantity.parse_nano(str(value))
    except InvalidValueError:
        return 0


def is_negative(value: Quantity | None) -> bool:
    """Return whether the value is below zero."""
    return nano(value) < 0


@lru_cache(maxsize=1024)
def text(value: Quantity) -> str:
    """Canonical text: ``0.5`` is ``500m``, ``4096Gi`` is ``4Ti``; no quantity stays as it is."""
    written = str(value)
    try:
        amount = quantity.parse_nano(written)
    except InvalidValueError:
        return written
    if amount == 0:
        return "0"
    if written.endswith("i") and amount % _NANO == 0 and abs(amount) >= _KIBI * _NANO:
        return _binary(amount // _NANO)
    return _decimal(amount, exponents=_EXPONENT.fullmatch(written) is not None)


def _binary(whole: int) -> str:
    power = 0
    while whole % _KIBI == 0 and power < len(_BINARY) - 1:
        whole //= _KIBI
        power += 1
    return f"{whole}{_BINARY[power]}"


def _decimal(amount: int, *, exponents: bool) -> str:
    power, suffix = next((p, s) for p, s in _DECIMAL if amount % 10 ** (p + 9) == 0)
    mantissa = amount // 10 ** (power + 9)
    return f"{mantissa}e{power}" if exponents and power else f"{mantissa}{suffix}"
