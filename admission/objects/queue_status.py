"""What the statuses of ClusterQueue and LocalQueue share."""

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from admission.base.names import FlavorName, FlavorResource, ResourceName
from admission.objects import markers, values
from admission.objects.fields import REQUIRED, Int32, Int64
from admission.objects.viewbase import Condition, View

Conditions = Annotated[tuple[Condition, ...], markers.list_map("type", at_most=16)]


class FairSharingStatus(View, frozen=True, kw_only=True):
    """Current share."""

    weighted_share: Annotated[Int64, REQUIRED] = 0
    """Largest ratio of borrowed to lendable quota over all resources, times 1000, divided by the
    weight. 0 means within quota; the largest number means weight 0 and borrowing."""


class QueueStatus(View, frozen=True, kw_only=True):
    """Conditions and numbers of Workloads."""

    conditions: Conditions | None = None
    """``Active`` says whether the queue admits, and if not, why."""

    pending_workloads: Int32 | None = None
    """Workloads that wait for quota."""

    reserving_workloads: Int32 | None = None
    """Workloads that hold quota, admitted or not."""

    admitted_workloads: Int32 | None = None
    """Workloads that are admitted and not finished."""


class StatedWithoutNode(NamedTuple):
    """What the status of a ClusterQueue says of quota whose pods are on no node.

    Attributes:
        amount: how much, in the canonical unit.
        since: when the oldest of the Workloads was admitted, RFC 3339.
    """

    amount: int
    since: str


def without_node(entries: Iterable[Any] | None) -> dict[FlavorResource, StatedWithoutNode]:
    """Return what the status of a ClusterQueue says that pods without a node hold.

    What cannot be read counts as 0.
    """
    return {
        FlavorResource(
            FlavorName(flavor["name"]), ResourceName(resource["name"])
        ): StatedWithoutNode(
            values.amount_or_zero(resource["name"], resource.get("total") or "0"),
            resource.get("since") or "",
        )
        for flavor in msgspec.to_builtins(entries or ())
        for resource in flavor.get("resources") or ()
    }


def nominal(entries: Iterable[Any] | None) -> dict[FlavorResource, int] | None:
    """Return what the status of a LocalQueue says is nominal quota; None where it says nothing."""
    return None if entries is None else reserved(entries)


def reserved(entries: Iterable[Any] | None) -> dict[FlavorResource, int]:
    """Return what the status of a ClusterQueue or LocalQueue says is reserved.

    What cannot be read counts as 0.
    """
    return {
        FlavorResource(
            FlavorName(flavor["name"]), ResourceName(resource["name"])
        ): values.amount_or_zero(resource["name"], resource.get("total") or "0")
        for flavor in msgspec.to_builtins(entries or ())
        for resource in flavor.get("resources") or ()
    }
