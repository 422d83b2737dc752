"""Pods on nodes, as much of them as says what is free there.

Every pod that is bound is watched, so few fields are read, and pods that ask for the same share
what they ask for.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from admission.base import names, pod_resources, structs
from admission.objects import pods, views
from admission.objects.viewbase import Object, View
from admission.scheduling import transformation
from admission.scheduling.places.model import PODS, BoundPod

FIELDS: Final = "spec.nodeName!="
"""Selects the pods that are bound."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class BoundContainer(View, frozen=True, kw_only=True):
    """The requests of a container."""

    name: str = ""
    resources: views.ResourceRequirements | None = None
    restart_policy: str | None = None


class BoundSpec(View, frozen=True, kw_only=True):
    """Where a pod is, and what its containers request."""

    node_name: str = ""
    containers: tuple[BoundContainer, ...] = ()
    init_containers: tuple[BoundContainer, ...] | None = None
    resources: views.ResourceRequirements | None = None
    overhead: dict[str, str | int] | None = None
    priority: int | None = None


class BoundStatus(View, frozen=True, kw_only=True):
    """Whether a pod has ended."""

    phase: str = ""


class BoundPodDocument(Object, frozen=True, kw_only=True):
    """v1 Pod."""

    spec: BoundSpec = BoundSpec()
    status: BoundStatus = BoundStatus()


def value(pod: BoundPodDocument) -> BoundPod | None:
    """Return a pod as the ledger of nodes counts it; None for one that uses nothing any more.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    if not pod.spec.node_name or pod.status.phase in _ENDED:
        return None
    metadata = pod.metadata
    name = metadata.annotation(names.WORKLOAD_ANNOTATION)
    return BoundPod(
        node=pod.spec.node_name,
        requests=_requests(_asked(pod.spec)),
        workload=(metadata.namespace, name) if name else None,
        pod_set=metadata.label(names.PODSET_LABEL),
        priority=pod.spec.priority or 0,
    )


def _asked(spec: BoundSpec) -> bytes:
    """Return what says how much a pod requests; equal for pods that request the same."""
    return _ENCODER.encode(msgspec.structs.replace(spec, node_name="", priority=None))


@lru_cache(maxsize=4096)
def _requests(asked: bytes) -> Mapping[str, int]:
    spec = structs.decoder(BoundSpec).decode(asked)
    pod = pod_resources.with_default_requests(pods.read(spec, "spec", pods.nanos))
    amounts = transformation.counted(pod_resources.requests(pod))
    return {**{str(name): amount for name, amount in amounts.items() if amount}, PODS: 1}
