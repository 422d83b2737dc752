"""What Kueue serves and this program does not: requests that are refused, or warned about.

A request is refused where it could never be kept: the pod would wait for ever, or run in a place
that its owner ruled out. It is warned about where it may be left out without harm. Only what is in
a queue is looked at (ADR 0091).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from admission.base import fielderrors, names
from admission.base.fielderrors import FieldError
from admission.objects.reviewed_pod import ReviewedPod
from admission.webhook import topology

REFUSED_TOPOLOGY: Final = (
    names.REQUIRED_TOPOLOGY, names.SLICE_REQUIRED_TOPOLOGY, names.PODSET_SLICE_CONSTRAINTS,
)  # fmt: skip
"""Annotations without which the pods must not run."""

WARNED_TOPOLOGY: Final = tuple(key for key in topology.KEYS if key not in REFUSED_TOPOLOGY)

_REFUSED: Final = frozenset(REFUSED_TOPOLOGY)
_WARNED: Final = frozenset(WARNED_TOPOLOGY)

_NO_TOPOLOGY: Final = (
    "topology-aware scheduling is not supported where the number of pods may change, so this"
    " requirement would not be kept: leave it out, or state it as spec.affinity.podAffinity"
)


def errors(pod: ReviewedPod) -> list[FieldError]:
    """Return requests of a pod template of a new owner that cannot be kept."""
    return list(_required_topology(pod)) if _is_elastic(pod) else []


def warnings(pod: ReviewedPod) -> tuple[str, ...]:
    """Return requests of a pod template of a new owner that have no effect."""
    annotations = pod.metadata.annotations or {}
    if not _is_elastic(pod):
        return tuple(foreign_gate(pod))
    if not _REFUSED.isdisjoint(annotations):
        return ()  # the error says so
    topologies = [] if _WARNED.isdisjoint(annotations) else _topologies(annotations)
    return (*topologies, *foreign_gate(pod))


def _is_elastic(pod: ReviewedPod) -> bool:
    """Return whether a pod is one of an owner that may grow: it is told no domain."""
    return pod.has_gate(names.ELASTIC_JOB_GATE)


def _topologies(annotations: Mapping[str, str]) -> Iterator[str]:
    for key in WARNED_TOPOLOGY:
        if key in annotations:
            yield (
                f"metadata.annotations[{key}] has no effect: topology-aware scheduling is not"
                " supported where the number of pods may change; quota is granted without it,"
                " and kube-scheduler places the pod"
            )


def _required_topology(pod: ReviewedPod) -> Iterator[FieldError]:
    annotations = pod.metadata.annotations or {}
    if _REFUSED.isdisjoint(annotations):
        return
    for key in REFUSED_TOPOLOGY:
        if key in annotations:
            yield fielderrors.forbidden(topology.PATH.key(key), _NO_TOPOLOGY)


def foreign_gate(pod: ReviewedPod) -> Iterator[str]:
    """Yield a warning about the topology gate with which a pod was created."""
    if pod.has_gate(names.TOPOLOGY_GATE):
        yield (
            f"the pod waits until another controller removes its gate {names.TOPOLOGY_GATE}:"
            " gpu-admission does not remove it"
        )
