"""Amounts in a unit that nobody means: half a device, 16Gi devices, 64 bytes of memory."""

from typing import Final

from admission.base import quantity
from admission.base.errors import InvalidValueError
from admission.gpu import resources

_NANO: Final = 10**9
_MEBI: Final = 1 << 20


def doubt(resource: str, written: str | int) -> str:
    """Return why an amount is hardly meant, and what to write; empty for what is usual.

    Args:
        resource: what the amount is of.
        written: the amount, as the user wrote it.
    """
    text = str(written).strip()
    try:
        nano = quantity.parse_nano(text)
    except InvalidValueError:
        return ""  # whoever reads the amount says so
    if nano <= 0:
        return ""
    if quantity.is_bytes(resource):
        if nano >= _MEBI * _NANO:
            return ""
        number = text.rstrip("m") or text
        return (
            f"{text} {resource} is less than 1Mi: without a unit it counts bytes. "
            f"Write {number}Gi or {number}Mi"
            if number.isdigit()
            else f"{text} {resource} is less than 1Mi. Write Gi or Mi"
        )
    if text.endswith("i"):
        whole = quantity.to_canonical(quantity.CPU if resource == quantity.CPU else "", text)
        shown = f"{whole // 1000:,}" if resource == quantity.CPU else f"{whole:,}"
        return f"{text} {resource} is {shown}: Ki, Mi and Gi are for bytes. Write a plain number"
    if _is_counted(resource) and nano % _NANO:
        counted = quantity.to_canonical(resource, text)
        return f"{text} {resource} is a fraction and counts as {counted}. Write a whole number"
    return ""


def _is_counted(resource: str) -> bool:
    """Return whether a resource consists of things, which nobody can have a part of."""
    return (
        resources.is_device(resource)
        or resources.is_of_class(resource)
        or resources.is_virtual(resource)
        or resource == "pods"
    )
