"""What a proposed ClusterQueue or Cohort changes of the nominal quota in the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.base import quantity
from admission.base.names import FlavorResource
from admission.kube.api import Document

QUOTA_KINDS: Final = frozenset({"ClusterQueue", "Cohort"})
"""Kinds that have nominal quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredQuota:
    """Nominal quota that becomes less.

    Attributes:
        flavor: the flavor.
        resource: the resource.
        before: amount in the cluster, in canonical units.
        after: amount that is proposed.
        in_use: what Workloads hold of it now; None where the object does not say.
    """

    flavor: str
    resource: str
    before: int
    after: int
    in_use: int | None

    def text(self) -> str:
        """Return the change and what is in use, for people."""
        before, after = (self._words(amount) for amount in (self.before, self.after))
        used = "" if self.in_use is None else f" ({self._words(self.in_use)} in use)"
        return f"{self.resource} of {self.flavor} {before} -> {after}{used}"

    def _words(self, amount: int) -> str:
        return quantity.in_words(self.resource, amount)


def rises(proposed: Document, present: Document | None) -> bool:
    """Return whether any quota of an object becomes more; of one that is created, all of it.

    What rises is applied after what only falls: the sum of a cohort never is above both the old
    and the new one, so nothing is admitted that neither of them allows.
    """
    if proposed["kind"] not in QUOTA_KINDS:
        return False
    before = _nominal(present or {})
    return any(amount > before.get(pair, 0) for pair, amount in _nominal(proposed).items())


def lowered(proposed: Document, present: Document) -> tuple[LoweredQuota, ...]:
    """Return the quota of an object that becomes less, in the order of the object in the cluster.

    A flavor or resource that is no longer covered is lowered to 0.
    """
    if proposed["kind"] not in QUOTA_KINDS:
        return ()
    after, used = _nominal(proposed), _in_use(present)
    return tuple(
        LoweredQuota(
            flavor=pair.flavor,
            resource=pair.resource,
            before=amount,
            after=after.get(pair, 0),
            in_use=used.get(pair),
        )
        for pair, amount in _nominal(present).items()
        if after.get(pair, 0) < amount
    )


def _nominal(document: Document) -> dict[FlavorResource, int]:
    return {
        FlavorResource(flavor["name"], resource["name"]): _amount(
            resource["name"], resource["nominalQuota"]
        )
        for group in (document.get("spec") or {}).get("resourceGroups") or ()
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


def _in_use(document: Document) -> Mapping[FlavorResource, int]:
    return {
        FlavorResource(flavor["name"], resource["name"]): _amount(
            resource["name"], resource.get("total") or 0
        )
        for flavor in (document.get("status") or {}).get("flavorsUsage") or ()
        for resource in flavor.get("resources") or ()
    }


def _amount(resource: str, value: Any) -> int:
    return quantity.to_canonical(resource, str(value))
