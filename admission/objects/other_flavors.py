"""Which pods of a Workload run in other flavors than it has, as it is written on the Workload.

A pod set has one flavor of each resource in an admission. What an administrator lets run goes to
any node; its pods on nodes of other flavors are charged to these (ADR 0214).

Only the controller writes it: the roles `edit` and `admin` may read Workloads, and not change
them.
"""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from admission.base import names, quantity, structs
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorName, PodSetName, ResourceName
from admission.objects import values
from admission.objects.viewbase import ObjectMeta
from admission.scheduling.model import PodSetAssignment


class _PodsInFlavors(msgspec.Struct, frozen=True, rename="camel"):
    """Pods of one pod set in the same flavors.

    Attributes:
        name: of the pod set.
        count: how many.
        flavors: the flavor of each resource.
        resource_usage: of all of them together.
    """

    name: str
    count: Annotated[int, msgspec.Meta(ge=1)]
    flavors: dict[str, str]
    resource_usage: dict[str, str]


class _InOtherFlavors(msgspec.Struct, frozen=True):
    """The annotation of a Workload.

    Attributes:
        since: when the quota was reserved that they are a part of.
        pods: those in other flavors.
    """

    since: str
    pods: tuple[_PodsInFlavors, ...]


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODER: Final = structs.decoder(_InOtherFlavors)


def read(metadata: ObjectMeta, since: str) -> tuple[PodSetAssignment, ...]:
    """Return the pods that run in other flavors; none where that cannot be read.

    Args:
        metadata: of the Workload.
        since: when its quota was reserved. What was written for an earlier reservation is over.
    """
    text = metadata.annotation(names.IN_OTHER_FLAVORS)
    if not text or not metadata.annotation(names.MADE_FOR_RUNNING):
        return ()
    try:
        written = _DECODER.decode(text)
        if written.since != since:
            return ()
        return tuple(map(_assignment, written.pods))
    except (*structs.UNREADABLE, InvalidValueError):
        return ()


def annotations(since: str, pods: Iterable[PodSetAssignment]) -> dict[str, str | None]:
    """Return the annotations of a Workload of which pods run in other flavors.

    Args:
        since: when its quota was reserved.
        pods: those in other flavors, by pod set and flavors; none where all are in its own.
    """
    written = tuple(map(_pods_in_flavors, pods))
    if not written:
        return {names.IN_OTHER_FLAVORS: None}
    text = _ENCODER.encode(_InOtherFlavors(since, written)).decode()
    return {names.IN_OTHER_FLAVORS: text, names.MADE_FOR_RUNNING: "true"}


def _assignment(written: _PodsInFlavors) -> PodSetAssignment:
    field = f"metadata.annotations[{names.IN_OTHER_FLAVORS}]"
    return PodSetAssignment(
        name=PodSetName(written.name),
        count=written.count,
        flavors={ResourceName(r): FlavorName(name) for r, name in written.flavors.items()},
        usage={
            ResourceName(r): values.amount_of(r, text, field)
            for r, text in written.resource_usage.items()
        },
    )


def _pods_in_flavors(pods: PodSetAssignment) -> _PodsInFlavors:
    return _PodsInFlavors(
        name=pods.name,
        count=pods.count,
        flavors={str(r): str(name) for r, name in pods.flavors.items()},
        resource_usage={r: quantity.from_canonical(r, n) for r, n in pods.usage.items()},
    )
