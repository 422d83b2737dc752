"""Pods that their owner has left: each has a Workload of its own (ADR 0116).

A deletion with ``--cascade=orphan`` leaves pods that nothing controls. Those that run hold what
their owner was admitted with, so they keep its priority, its queue and the time since which it
ran, and can be preempted, drained and timed out as pods that were created singly. Those of an
elastic owner that still wait keep its priority and its queue, and wait for quota as such pods do.
"""

from collections.abc import Container
from datetime import datetime, timedelta
from typing import NamedTuple

from admission.base import clock, conditions, names, patches
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner


class Origin(NamedTuple):
    """What the Workload of pods says of them; it may be gone before they are.

    Attributes:
        requester: who asked for them.
        priority: of the Workload.
        priority_class: the WorkloadPriorityClass that says so; empty for none.
        max_seconds: how long it may run; None for ever.
        since: since when it has been running, less what it ran before that; None where it holds no
            quota.
    """

    requester: str
    priority: int
    priority_class: str
    max_seconds: int | None
    since: datetime | None


def origin(workload: Workload) -> Origin:
    """Return what a Workload says of its pods."""
    spec, status = workload.spec, workload.status
    reference = spec.priority_class_ref
    is_ours = reference is not None and reference.group == names.KUEUE_GROUP
    reserved = status.condition(conditions.QUOTA_RESERVED)
    since = None
    if reserved is not None and reserved.status == "True":
        past = timedelta(seconds=status.accumulated_past_execution_time_seconds or 0)
        since = clock.from_wire(reserved.last_transition_time) - past
    return Origin(
        requester=workload.metadata.annotation(names.REQUESTER),
        priority=spec.priority or 0,
        priority_class=reference.name if reference is not None and is_ours else "",
        max_seconds=spec.maximum_execution_time_seconds,
        since=since,
    )


def is_left(pod: views.Pod) -> bool:
    """Return whether nothing controls a pod that an admitted owner has made."""
    metadata = pod.metadata
    is_made = bool(metadata.label(names.PODSET_LABEL)) and not metadata.label(names.MANAGED_LABEL)
    return is_made and metadata.controller() is None


def charge(
    pod: views.Pod,
    queue: str,
    cluster_queue: str,
    origin: Origin | None,
    classes: Container[str],
) -> patches.Patch:
    """Return the patch after which a pod has a Workload of its own, and goes on.

    Args:
        pod: in exactly this version.
        queue: its LocalQueue.
        cluster_queue: the ClusterQueue that it is charged to.
        origin: what its Workload said; None where that is not known.
        classes: names of the WorkloadPriorityClasses that are there.
    """
    labels, annotations = _kept(origin, classes)
    created = pod.metadata.creation_timestamp or ""
    since = created if origin is None or origin.since is None else clock.to_wire(origin.since)
    annotations[names.RUNS_SINCE] = since
    return pod_owner.charge_to(pod, queue, cluster_queue, labels, annotations)


def put_in_queue(
    pod: views.Pod, queue: str, origin: Origin | None, classes: Container[str]
) -> patches.Patch:
    """Return the patch after which a pod that its gate holds waits with a Workload of its own.

    Args:
        pod: in exactly this version.
        queue: its LocalQueue.
        origin: what its Workload said; None where that is not known.
        classes: names of the WorkloadPriorityClasses that are there.
    """
    labels, annotations = _kept(origin, classes)
    return pod_owner.queue_singly(pod, queue, labels, annotations)


def _kept(origin: Origin | None, classes: Container[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that say of a pod what its Workload said."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if origin is not None and origin.priority_class in classes:
        labels[names.PRIORITY_CLASS_LABEL] = origin.priority_class
    if origin is not None and origin.max_seconds is not None:
        labels[names.MAX_EXEC_TIME_LABEL] = str(origin.max_seconds)
    if origin is not None and origin.requester:
        annotations[names.REQUESTER] = origin.requester
    return labels, annotations


def runs_since(pod: views.ObjectMeta, now: datetime) -> datetime:
    """Return since when a pod that is charged now has been running; now where it does not say."""
    try:
        return min(now, clock.from_wire(pod.annotation(names.RUNS_SINCE)))
    except ValueError:
        return now
