"""A Kubernetes quantity with the form it was written in, so that it prints as Kubernetes would.

``admission.base.quantity`` turns text into amounts of quota; here the text matters too, because
the API server's LimitRange messages quote it in canonical form.

Source: k8s.io/apimachinery v0.36 pkg/api/resource/quantity.go (CanonicalizeBytes, Add).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from admission.base import quantity

NANO: Final = 10**9
_MICRO: Final = 10**6
_THOUSAND: Final = 1000
_KIBI: Final = 1024
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {
    -9: "n",
    -6: "u",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
    18: "E",
}


class Form(Enum):
    """How a quantity is printed."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """An exact amount.

    Attributes:
        nano: in units of 1e-9.
        form: how it prints.
    """

    nano: int
    form: Form = Form.DECIMAL

    @property
    def value(self) -> int:
        """Return whole units, rounded up."""
        return -(-self.nano // NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded up."""
        return -(-self.nano // _MICRO)

    @property
    def text(self) -> str:
        """Canonical form: the largest suffix that leaves no fraction."""
        if self.form is Form.BINARY and self.nano % NANO == 0 and abs(self.value) >= _KIBI:
            return _binary(self.value)
        if self.nano == 0:
            return "0"
        return _decimal(self.nano, exponent=self.form is Form.EXPONENT)

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the sum; it keeps the form of the first part that is not 0."""
        form = self.form if self.nano else other.form
        return Quantity(nano=self.nano + other.nano, form=form)

    def __gt__(self, other: "Quantity") -> bool:
        """Return whether the amount is larger."""
        return self.nano > other.nano


ResourceList = Mapping[str, Quantity]


def parse(text: str | int) -> Quantity:
    """Read a quantity.

    Raises:
        InvalidValueError: the text is no quantity.
    """
    written = str(text).strip()
    nano = quantity.parse_nano(written)
    if written.endswith("i"):
        return Quantity(nano=nano, form=Form.BINARY)
    if "e" in written or "E" in written[:-1]:
        return Quantity(nano=nano, form=Form.EXPONENT)
    return Quantity(nano=nano)


def parse_list(amounts: Mapping[str, str | int] | None) -> dict[str, Quantity]:
    """Read a resource list; None is empty.

    Raises:
        InvalidValueError: a value is no quantity.
    """
    return {name: parse(text) for name, text in (amounts or {}).items()}


def _binary(value: int) -> str:
    power = 0
    while value % _KIBI == 0 and power < len(_BINARY) - 1:
        value //= _KIBI
        power += 1
    return f"{value}{_BINARY[power]}"


def _decimal(nano: int, *, exponent: bool) -> str:
    power = -9
    while nano % _THOUSAND == 0 and (exponent or power < max(_DECIMAL)):
        nano //= _THOUSAND
        power += 3
    if exponent and power:
        return f"{nano}e{power}"
    return f"{nano}{_DECIMAL[power]}"
