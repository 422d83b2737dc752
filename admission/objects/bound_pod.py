"""Pods on nodes, as much of them as says what is free there.

Every pod that is bound is watched, so few fields are read, and pods that ask for the same share
what they ask for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from admission.base import names, pod_resources, structs
from admission.gpu import resources
from admission.objects import pods, views
from admission.objects.resource_claim import ObjectKey
from admission.objects.viewbase import Object, View
from admission.scheduling import transformation
from admission.scheduling.places.model import PODS, BoundPod

FIELDS: Final = "spec.nodeName!="
"""Selects the pods that are bound."""

LONGEST_GRACE_SECONDS: Final = 600
"""A pod that is being deleted with a longer grace period does not count as leaving its node."""

_SUCCEEDED: Final = "Succeeded"
_ENDED: Final = frozenset({_SUCCEEDED, "Failed"})
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class BoundContainer(View, frozen=True, kw_only=True):
    """The requests of a container."""

    name: str = ""
    resources: views.ResourceRequirements | None = None
    restart_policy: str | None = None


class BoundSpec(View, frozen=True, kw_only=True):
    """Where a pod is, and what its containers request and claim."""

    node_name: str = ""
    containers: tuple[BoundContainer, ...] = ()
    init_containers: tuple[BoundContainer, ...] | None = None
    resources: views.ResourceRequirements | None = None
    overhead: dict[str, str | int] | None = None
    priority: int | None = None
    resource_claims: tuple[views.PodResourceClaim, ...] | None = None


class BoundStatus(View, frozen=True, kw_only=True):
    """Whether a pod has ended, and the claims that were made for it."""

    phase: str = ""
    resource_claim_statuses: tuple[views.PodClaimStatus, ...] | None = None
    extended_resource_claim_status: views.PodClaimStatus | None = None


class BoundMetadata(views.ObjectMeta, frozen=True, kw_only=True):
    """What every object has, and how long a pod may run after its deletion."""

    deletion_grace_period_seconds: int | None = None


class BoundPodDocument(Object, frozen=True, kw_only=True):
    """v1 Pod."""

    metadata: BoundMetadata = BoundMetadata()
    spec: BoundSpec = BoundSpec()
    status: BoundStatus = BoundStatus()


def value(pod: BoundPodDocument) -> BoundPod | None:
    """Return a pod as the ledger of nodes counts it; None for one that uses nothing any more.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    if not pod.spec.node_name or pod.status.phase in _ENDED:
        return None
    return _bound(pod, _requests(_asked(pod.spec)))


def succeeded(pod: BoundPodDocument) -> BoundPod | None:
    """Return a pod of a Workload that has succeeded, and uses nothing; None for another one."""
    if not pod.spec.node_name or pod.status.phase != _SUCCEEDED:
        return None
    return _bound(pod, {}) if pod.metadata.annotation(names.WORKLOAD_ANNOTATION) else None


def _bound(pod: BoundPodDocument, requests: Mapping[str, int]) -> BoundPod:
    metadata = pod.metadata
    name = metadata.annotation(names.WORKLOAD_ANNOTATION)
    is_deleted = metadata.deletion_timestamp is not None
    # Whoever may delete a pod chooses its grace period. Others would wait a day for its room.
    grace_seconds = metadata.deletion_grace_period_seconds or 0
    is_lingering = is_deleted and grace_seconds > LONGEST_GRACE_SECONDS
    return BoundPod(
        node=pod.spec.node_name,
        requests=requests,
        workload=names.WorkloadKey(metadata.namespace, name) if name else None,
        pod_set=metadata.label(names.PODSET_LABEL),
        priority=pod.spec.priority or 0,
        is_leaving=is_deleted and not is_lingering,
        is_lingering=is_lingering,
        is_ending=is_deleted and is_followed(metadata),
    )


def is_followed(metadata: views.ObjectMeta) -> bool:
    """Return whether another pod may take the place of a pod in the same Workload.

    Nobody makes a single pod again, and the next pod of a ReplicaSet has a Workload of its own.
    """
    if metadata.annotation(names.POD_GROUP_NAME) or metadata.label(names.POD_GROUP_NAME):
        return True
    controller = metadata.controller()
    return controller is not None and controller.kind != "ReplicaSet"


@dataclass(frozen=True, slots=True)
class Outside:
    """What a pod holds that no queue admitted.

    Attributes:
        node: where it is.
        devices: what it requests of each.
        claims: its ResourceClaims.
    """

    node: str
    devices: Mapping[str, int]
    claims: frozenset[ObjectKey]


def outside(pod: BoundPodDocument, counted: BoundPod | None) -> Outside | None:
    """Return what a pod holds that no queue admitted; None where it holds no devices, or is ours.

    Pods with the label of released ones are watched whole, and judged one by one.

    Args:
        pod: the pod.
        counted: see `value`.
    """
    labels = pod.metadata.labels or {}
    is_ours = labels.get(names.MANAGED_LABEL) == names.MANAGED_VALUE
    if counted is None or is_ours or names.PODSET_LABEL in labels:
        return None
    devices = {
        name: amount for name, amount in counted.requests.items() if resources.is_device(name)
    }
    claims = _claims(pod)
    return Outside(pod.spec.node_name, devices, claims) if devices or claims else None


def _claims(pod: BoundPodDocument) -> frozenset[ObjectKey]:
    """Return the ResourceClaims of a pod: those it names, and those that were made for it."""
    claim_statuses = (
        *(pod.status.resource_claim_statuses or ()),
        pod.status.extended_resource_claim_status,
    )
    claim_names = {
        claim.resource_claim_name
        for claim in (*(pod.spec.resource_claims or ()), *claim_statuses)
        if claim
    }
    return frozenset((pod.metadata.namespace, name) for name in claim_names if name)


def _asked(spec: BoundSpec) -> bytes:
    """Return what says how much a pod requests; equal for pods that request the same."""
    return _ENCODER.encode(
        msgspec.structs.replace(spec, node_name="", priority=None, resource_claims=None)
    )


@lru_cache(maxsize=4096)
def _requests(raw: bytes) -> Mapping[str, int]:
    return requests_of(structs.decoder(BoundSpec).decode(raw))


def requests_of(spec: BoundSpec | views.PodSpec) -> dict[str, int]:
    """Return what a pod on a node requests, by resource, with ``pods``.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    pod = pod_resources.with_default_requests(pods.read(spec, "spec", pods.nanos))
    amounts = transformation.counted(pod_resources.requests(pod))
    return {**{str(name): amount for name, amount in amounts.items() if amount}, PODS: 1}
