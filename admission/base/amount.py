"""Amounts of quota: saturating 64-bit integers with one value above all of them, UNLIMITED.

An amount is an ``int`` in the canonical unit of its resource (cpu: milli-CPU, everything else:
base units, so bytes or devices). Plain ``+`` and ``-`` on amounts are wrong as soon as quota can
be unlimited; quota code uses the functions of this module.

Source: kueue pkg/resources/amount.go. U + x = U; U - x = U; x - U = -2^63; U - U = 0.
"""

from typing import Final

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)

UNLIMITED: Final = MAX_INT64
"""More than any finite amount; what is cut to 64 bits counts as unlimited, too."""


def clamp(value: int) -> int:
    """Clamp to the 64-bit range; the upper end is UNLIMITED."""
    if value > MAX_INT64:
        return UNLIMITED
    return max(value, MIN_INT64)


def add(left: int, right: int) -> int:
    """Return the sum; UNLIMITED if either side is, saturating otherwise."""
    if UNLIMITED in {left, right}:
        return UNLIMITED
    return clamp(left + right)


def subtract(left: int, right: int) -> int:
    """Return the difference; may be negative. ``UNLIMITED - UNLIMITED`` is 0."""
    if left == UNLIMITED:
        return 0 if right == UNLIMITED else UNLIMITED
    if right == UNLIMITED:
        return MIN_INT64
    return clamp(left - right)


def multiply(value: int, count: int) -> int:
    """Return the product with a whole, non-negative count; saturating."""
    return clamp(value * count)


def scale_down(total: int, count: int, new_count: int) -> int:
    """Return the share of ``new_count`` pods in ``total``, which was computed for ``count`` pods.

    Integer division comes first, as in Kueue: ``floor(total / count) * new_count``. A ``count`` of
    0 gives 0.
    """
    if count == 0:
        return 0
    return multiply(total // count, new_count)
