"""Weighted dominant resource share, compared exactly.

Source: kueue pkg/cache/scheduler/fair_sharing.go; KEP 1714.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from admission.base import amount
from admission.base.names import ResourceName
from admission.engine import quota
from admission.engine.hierarchy import Node

WEIGHT_UNIT: Final = 10**9
SCALE: Final = 1000
"""A share is given in thousandths of what could be lent."""


@dataclass(frozen=True, slots=True)
class Share:
    """A node's share: borrowed / lendable of its dominant resource, over its weight.

    Attributes:
        borrowed: amount borrowed of the dominant resource; 0 when nothing is.
        lendable: what the parent could lend of it; positive.
        weight: in units of 1e-9. A borrower of weight 0 is above every other weight.
        resource: the dominant resource; empty when nothing is borrowed.
    """

    borrowed: int = 0
    lendable: int = 1
    weight: int = WEIGHT_UNIT
    resource: str = ""

    @property
    def is_zero(self) -> bool:
        """Whether nothing is borrowed."""
        return self.borrowed == 0

    @property
    def endless(self) -> bool:
        """Whether the node borrows without any right to."""
        return self.weight == 0 and self.borrowed > 0

    def value(self) -> Fraction | None:
        """The share in thousandths; None for an endless one."""
        if self.endless:
            return None
        if self.is_zero:
            return Fraction(0)
        return Fraction(self.borrowed * SCALE * WEIGHT_UNIT, self.lendable * self.weight)

    def rounded_up(self) -> int:
        """The share as status shows it; the largest 64-bit integer for an endless one."""
        value = self.value()
        return amount.MAX_INT64 if value is None else -(-value.numerator // value.denominator)

    def compare(self, other: "Share") -> int:
        """Negative if this share is below the other, 0 if they are equal, else positive."""
        if self.endless or other.endless:
            if self.endless != other.endless:
                return 1 if self.endless else -1
            return self.borrowed * other.lendable - other.borrowed * self.lendable
        mine = self.borrowed * other.lendable * other.weight
        return mine - other.borrowed * self.lendable * self.weight


NOTHING: Final = Share()


def of(node: Node) -> Share:
    """The share of a node at its present usage; nothing for a root."""
    if node.parent is None:
        return NOTHING
    borrowed: dict[ResourceName, int] = {}
    for fr, used in node.usage.items():
        own = node.subtree.get(fr)
        if own is not None and used > own:
            borrowed[fr.resource] = borrowed.get(fr.resource, 0) + used - own
    if not borrowed:
        return NOTHING
    lendable = lendable_of(node.parent)
    return _dominant(borrowed, lendable, node.weight)


def _dominant(
    borrowed: dict[ResourceName, int], lendable: dict[ResourceName, int], weight: int
) -> Share:
    best = NOTHING
    for resource in sorted(borrowed) if len(borrowed) > 1 else borrowed:
        base = lendable.get(resource, 0)
        taken = borrowed[resource]
        if base > 0 and taken * best.lendable > best.borrowed * base:
            best = Share(taken, base, weight, resource)
    return best


def lendable_of(cohort: Node) -> dict[ResourceName, int]:
    """What a cohort could hand out per resource, over all flavors, were nothing in use."""
    if not cohort.lendable:
        found: dict[ResourceName, int] = {}
        for fr in cohort.root().subtree:
            most = quota.potential(cohort, fr)
            found[fr.resource] = amount.add(found.get(fr.resource, 0), most)
        cohort.lendable = found
    return cohort.lendable
