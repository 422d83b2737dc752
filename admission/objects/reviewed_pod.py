"""A pod under review: every field a decision or the patch depends on, and nothing else.

Unlike ``views.Pod`` it tells absent parents from empty ones where a patch needs to know, and
keeps the parts that feed the role hash as they were written.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from admission.base import quantity, structs
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldPath
from admission.objects import gangs, values, views
from admission.objects.gangs import Reference
from admission.objects.views import View
from admission.scheduling.node_labels import Affinity

Quantities = Mapping[str, str | int]


class ReviewedContainer(View, frozen=True, kw_only=True):
    """A container, init container or sidecar; ``resources`` None where the object has none."""

    name: str = ""
    resources: views.ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: tuple[views.ContainerPort, ...] | None = None

    @property
    def requests(self) -> Quantities:
        """Requests as written; empty when absent."""
        return (self.resources.requests if self.resources else None) or {}

    @property
    def limits(self) -> Quantities:
        """Limits as written; empty when absent."""
        return (self.resources.limits if self.resources else None) or {}


class SchedulingGroup(View, frozen=True, kw_only=True):
    """corev1.PodSchedulingGroup."""

    pod_group_name: str = ""


class ReviewedPodSpec(View, frozen=True, kw_only=True):
    """Spec of a pod under review; untyped parts keep the order of their keys."""

    containers: tuple[ReviewedContainer, ...] = ()
    init_containers: tuple[ReviewedContainer, ...] | None = None
    node_selector: dict[str, str] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: tuple[views.Toleration, ...] | None = None
    scheduling_gates: tuple[views.SchedulingGate, ...] | None = None
    node_name: str = ""
    overhead: dict[str, str | int] | None = None
    resources: views.ResourceRequirements | None = None
    priority: int | None = None
    priority_class_name: str = ""
    runtime_class_name: str | None = None
    resource_claims: tuple[Any, ...] | None = None
    topology_spread_constraints: tuple[Any, ...] | None = None
    scheduling_group: SchedulingGroup | None = None


class ReviewedPodStatus(View, frozen=True, kw_only=True):
    """Status of a pod under review."""

    phase: str = ""


class ReviewedPod(View, frozen=True, kw_only=True):
    """v1 Pod under review."""

    metadata: views.ObjectMeta = views.ObjectMeta()
    spec: ReviewedPodSpec = ReviewedPodSpec()
    status: ReviewedPodStatus = ReviewedPodStatus()

    def gang(self) -> Reference | None:
        """Return the PodGroup of another scheduler that it names, or None."""
        group = self.spec.scheduling_group
        return gangs.named(self.metadata, "" if group is None else group.pod_group_name)

    def has_gate(self, name: str) -> bool:
        """Return whether the scheduling gate is there."""
        return any(gate.name == name for gate in self.spec.scheduling_gates or ())

    def located_containers(self) -> Iterator[tuple[str, int, ReviewedContainer]]:
        """Member of the spec, position and container: first init containers, then containers."""
        for index, container in enumerate(self.spec.init_containers or ()):
            yield "initContainers", index, container
        for index, container in enumerate(self.spec.containers):
            yield "containers", index, container


_AS_POD: Final = structs.converter(ReviewedPod)
_MOST_MEMBERS: Final = 500
"""Of an affinity, so that a review takes little time (ADR 0113)."""
_AS_AFFINITY: Final = structs.converter(views.Affinity)


def from_dict(document: Mapping[str, Any]) -> ReviewedPod:
    """Reads a pod that is already decoded.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    return _AS_POD(document)


def required_affinity(pod: ReviewedPod) -> Affinity | None:
    """Return the required node affinity of a pod, as far as a review can look at it.

    Return None where there is none, none that can be read, or one with too many members.
    """
    if pod.spec.affinity is None or not _is_small(pod.spec.affinity):
        return None
    try:
        return values.required_affinity(_AS_AFFINITY(pod.spec.affinity), "spec.affinity")
    except (msgspec.ValidationError, InvalidValueError):
        return None  # the API server refuses it


def _is_small(document: Any) -> bool:
    """Return whether a document has few members in all, at every depth; it looks at no more."""
    left, count = [document], 0
    while left and count <= _MOST_MEMBERS:
        node = left.pop()
        members = node.values() if isinstance(node, dict) else node
        if isinstance(members, Iterable) and not isinstance(members, str):
            count += len(node)
            left += itertools.islice(members, _MOST_MEMBERS)
    return count <= _MOST_MEMBERS


def devices_digest(pod: ReviewedPod) -> str:
    """Return a digest that tells pods apart by the devices that they ask for, by name or claim."""
    requests_ = sorted(
        f"{name}={quantity.to_canonical(name, str(amount))}"
        for _, _, container in pod.located_containers()
        for name, amount in {**container.requests, **container.limits}.items()
        if "/" in name  # extended resources; the others have no domain
    )
    content = msgspec.json.encode(
        [requests_, pod.spec.resource_claims or ()], order="deterministic"
    )
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def container_path(member: str, index: int) -> FieldPath:
    """Path of a container: ``spec.containers[0]``."""
    return FieldPath.of("spec", member).index(index)
