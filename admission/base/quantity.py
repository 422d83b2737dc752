"""Kubernetes quantities, exactly: text to integers and back, without floats.

Source: k8s.io/apimachinery pkg/api/resource (quantity.go, suffix.go) and kueue
pkg/resources/requests.go for the canonical units.
"""

import re
from functools import lru_cache
from typing import Final, Literal

from admission.base import amount, names
from admission.base.errors import InvalidValueError

PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern that CRDs carry for a quantity (``x-kubernetes-int-or-string``)."""

_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NANO: Final = 9
_LONGEST: Final = 128
"""Characters of a quantity. The API server writes its own with fewer; an int has few digits."""
_MAX_EXPONENT: Final = 64  # beyond this every non-zero number saturates or rounds up to one nano

CPU: Final = "cpu"
_BYTE_RESOURCES: Final = ("memory", "ephemeral-storage", names.GPU_MEMORY)
_HUGEPAGES: Final = "hugepages-"

Style = Literal["decimal", "binary"]


@lru_cache(maxsize=65536)
def parse_nano(text: str) -> int:
    """Return the value in units of 1e-9, exact; what is below a nano is rounded away from zero.

    Raises:
        InvalidValueError: the text is no quantity.
    """
    if len(text) > _LONGEST:
        raise InvalidValueError(text, f"must have at most {_LONGEST} characters")
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise InvalidValueError(text, "must be a Kubernetes quantity such as 1, 500m or 2Gi")
    whole, part = match["whole"], match["part"] or ""
    if not whole and not part:
        raise InvalidValueError(text, "must be a Kubernetes quantity such as 1, 500m or 2Gi")
    digits = int(whole + part or "0")
    exponent = _NANO - len(part)
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        digits <<= 10 * _BINARY[suffix]
    elif suffix in _DECIMAL:
        exponent += _DECIMAL[suffix]
    elif suffix:
        exponent += max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(suffix[1:])))
    nano = digits * _power(exponent) if exponent >= 0 else -(-digits // _power(-exponent))
    return -nano if match["sign"] == "-" else nano


def parse_scaled(text: str, scale: int) -> int:
    """Return the value in units of ``10**scale`` (0: whole, -3: milli), rounded away from zero.

    Not clamped to 64 bits. Source: Quantity.ScaledValue rounds up.

    Raises:
        InvalidValueError: the text is no quantity.
    """
    nano = parse_nano(text)
    magnitude = -(-abs(nano) // _power(scale + _NANO))
    return -magnitude if nano < 0 else magnitude


def to_canonical(resource: str, text: str) -> int:
    """Return the amount in the resource's canonical unit: cpu in milli, everything else whole.

    Fractions are rounded up, and values beyond 64 bits are clamped, so ``1E`` of cpu is
    ``amount.UNLIMITED``.

    Raises:
        InvalidValueError: the text is no quantity.
    """
    return amount.clamp(parse_scaled(text, -3 if resource == CPU else 0))


def is_bytes(resource: str) -> bool:
    """Return whether the resource is printed with binary suffixes."""
    return resource in _BYTE_RESOURCES or resource.startswith(_HUGEPAGES)


def from_canonical(resource: str, value: int) -> str:
    """Return the quantity of an amount as Kueue writes it: ``1500m``, ``1536Mi``, ``3k``.

    UNLIMITED is the largest number of 64 bits, so that an API server takes it; see `in_words`.

    Source: kueue pkg/resources/requests.go (ResourceQuantityString).
    """
    if resource == CPU:
        return format_milli(value)
    if is_bytes(resource) and value % 1024 == 0:
        return _with_suffix(value, 1024, _BINARY)
    return format_integer(value)


def in_words(resource: str, value: int) -> str:
    """Return an amount as messages show it.

    Differs: Kueue writes ``<unlimited>``.
    """
    if value == amount.UNLIMITED:
        return "an unlimited amount"
    return from_canonical(resource, value)


def format_integer(value: int) -> str:
    """Return the canonical decimal form of a whole number: 3000 is ``3k``."""
    return _with_suffix(value, 1000, {s: e // 3 for s, e in _DECIMAL.items() if e > 0})


def format_milli(value: int) -> str:
    """Return the canonical decimal form of thousandths: 1500 is ``1500m``, 2000 is ``2``."""
    if value % 1000:
        return f"{value}m"
    return format_integer(value // 1000)


def format_nano(value: int) -> str:
    """Return the canonical decimal form of units of 1e-9: 1500000000 is ``1500m``."""
    for suffix, digits in (("", _NANO), ("m", 6), ("u", 3)):
        if value % _power(digits) == 0:
            whole = value // _power(digits)
            return format_integer(whole) if not suffix else f"{whole}{suffix}"
    return f"{value}n"


def _power(exponent: int) -> int:
    """Ten to a non-negative power, as an integer."""
    return int(10**exponent)


def _with_suffix(value: int, base: int, suffixes: dict[str, int]) -> str:
    best, shown = "", value
    for suffix, power in suffixes.items():
        step = base**power
        if value and value % step == 0:
            best, shown = suffix, value // step
    return f"{shown}{best}"
