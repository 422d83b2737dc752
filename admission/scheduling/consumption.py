"""Past usage of LocalQueues, which orders them inside one ClusterQueue (admission fair sharing).

Consumption is kept per resource in units of 1e-9 of a core, byte or device; amounts decay by
half in each half life.

Source: kueue pkg/util/admissionfairsharing, KEP 4136.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from admission.base import quantity
from admission.base.names import ResourceName
from admission.scheduling.model import DEFAULT_WEIGHT, AdmissionFairSharing

NANO: Final = 10**9
_MILLI_IN_NANO: Final = 10**6

Nanos = Mapping[ResourceName, int]
"""Amounts per resource in units of 1e-9; a missing key is 0."""

Rank = tuple[bool, Fraction]
"""Orders LocalQueues: those without weight last, then by usage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The past usage of a LocalQueue.

    Attributes:
        consumed: decayed usage.
        updated_us: when it was last brought up to date.
    """

    consumed: Nanos = field(default_factory=dict)
    updated_us: int = 0

    @property
    def has_usage(self) -> bool:
        """Return whether any usage is left."""
        return any(self.consumed.values())


def _alpha(elapsed_us: int, half_life_us: int) -> Fraction:
    """The weight of the newest sample: ``1 - 0.5 ** (elapsed / half life)``; 0 without one."""
    if half_life_us == 0:
        return Fraction(0)
    return 1 - Fraction(0.5 ** (elapsed_us / half_life_us))


def to_nanos(amounts: Mapping[ResourceName, int]) -> dict[ResourceName, int]:
    """Return canonical amounts in units of 1e-9."""
    return {
        r: value * (_MILLI_IN_NANO if r == quantity.CPU else NANO) for r, value in amounts.items()
    }


def sampled(
    sample: Consumption, running: Nanos, now_us: int, config: AdmissionFairSharing
) -> Consumption:
    """Return the consumption brought up to date, given what runs since the last time."""
    if config.half_life_us == 0:
        return Consumption(updated_us=now_us)
    alpha = _alpha(max(0, now_us - sample.updated_us), config.half_life_us)
    mixed = {
        r: _floor(sample.consumed.get(r, 0) * (1 - alpha) + running.get(r, 0) * alpha)
        for r in {**sample.consumed, **running}
    }
    return Consumption(consumed=mixed, updated_us=now_us)


def penalty(requests: Nanos, config: AdmissionFairSharing) -> dict[ResourceName, int]:
    """Return what a LocalQueue is charged at once for a reservation."""
    alpha = _alpha(config.sampling_us, config.half_life_us)
    return {r: _floor(value * alpha) for r, value in requests.items()}


def added(left: Nanos, right: Nanos) -> dict[ResourceName, int]:
    """Return the sum of two consumptions."""
    return {r: left.get(r, 0) + right.get(r, 0) for r in {**left, **right}}


def rank(consumed: Nanos, weight: int, config: AdmissionFairSharing) -> Rank:
    """Return the rank of a LocalQueue of that weight (in units of 1e-9); lower goes first."""
    if weight <= 0:
        return True, Fraction(0)
    total = sum(value * config.weights.get(r, DEFAULT_WEIGHT) for r, value in consumed.items())
    return False, Fraction(total, NANO * weight)


def _floor(value: Fraction) -> int:
    return value.numerator // value.denominator
