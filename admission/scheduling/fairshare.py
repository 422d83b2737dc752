"""Weighted dominant resource share.

Shares are IEEE doubles, computed step by step as Kueue computes them: where two shares are equal
by arithmetic and their weights differ, the last bit decides, there as here (ADR 0058). Everything
else in this package is an integer.

Source: kueue pkg/cache/scheduler/fair_sharing.go; KEP 1714.
"""

import math
from dataclasses import dataclass
from typing import Final

from admission.base import amount
from admission.base.names import ResourceName
from admission.scheduling import quota
from admission.scheduling.hierarchy import QuotaNode
from admission.scheduling.model import DEFAULT_WEIGHT

SCALE: Final = 1000.0
"""A share is given in thousandths of what could be lent."""


Order = tuple[float, float]
"""Sorts shares: 1. by value, 2. infinite ones by their ratio."""


@dataclass(frozen=True, slots=True)
class Share:
    """A node's share: borrowed / lendable of its dominant resource, over its weight.

    Attributes:
        borrows: the node uses more than its quota of some resource. Its share is 0 all the same
            if its parent can lend nothing of it.
        ratio: borrowed / lendable of the dominant resource in thousandths, before the weight.
        weight: a borrower of weight 0 is above every other weight.
        resource: the dominant resource; empty when the ratio is 0.
    """

    borrows: bool = False
    ratio: float = 0.0
    weight: float = 1.0
    resource: str = ""

    def value(self) -> float:
        """Return the weighted share in thousandths; infinity for a share of weight 0."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def order(self) -> Order:
        """Return the sort key of this share."""
        if self.weight == 0 and self.ratio > 0:
            return math.inf, self.ratio
        return (self.ratio / self.weight, 0.0) if self.ratio else (0.0, 0.0)

    def rounded_up(self) -> int:
        """Return the share as status shows it; the largest 64-bit integer for infinity."""
        value = self.value()
        return amount.MAX_INT64 if value == math.inf else amount.clamp(math.ceil(value))


NOTHING: Final = Share()


def of(node: QuotaNode) -> Share:
    """Return the share of a node at its present usage; nothing for a root."""
    if node.parent is None:
        return NOTHING
    borrowed: dict[ResourceName, int] = {}
    for fr, used in node.usage.items():
        own_quota = node.subtree.get(fr)
        if own_quota is not None and used > own_quota:
            borrowed[fr.resource] = borrowed.get(fr.resource, 0) + used - own_quota
    if not borrowed:
        return NOTHING
    lendable = lendable_of(node.parent)
    ratio, dominant = 0.0, ""
    for resource in sorted(borrowed) if len(borrowed) > 1 else borrowed:
        base = lendable.get(resource, 0)
        share = float(amount.clamp(borrowed[resource])) * SCALE / float(base) if base > 0 else 0.0
        if share > ratio:
            ratio, dominant = share, resource
    return Share(True, ratio, node.weight / DEFAULT_WEIGHT, dominant)


def lendable_of(cohort: QuotaNode) -> dict[ResourceName, int]:
    """Return what a cohort could hand out per resource, over all flavors, were nothing in use."""
    if not cohort.lendable:
        lendable: dict[ResourceName, int] = {}
        for fr in cohort.root().subtree:
            potential = quota.potential(cohort, fr)
            lendable[fr.resource] = amount.add(lendable.get(fr.resource, 0), potential)
        cohort.lendable = lendable
    return cohort.lendable
