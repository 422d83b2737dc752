"""Elastic owners: which Workload slices one asks for when the number of its pods changes.

More pods than its Workload has quota for are asked for by another one, the next slice, which says
of which it takes the place. Fewer pods are written into the Workload as it is. What an owner that
is suspended asks for is its one Workload, as for any owner.
Source: kueue pkg/workloadslicing (EnsureWorkloadSlices), keps/77-dynamically-sized-jobs.
Differs: a next slice that is not needed any more is deleted, and so is one whose predecessor is
told to leave: that one then asks for all pods, in its old place in the queue.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any

from admission.base import conditions, names
from admission.base.names import WorkloadKey
from admission.objects.workload import Workload
from admission.owners.framework import Grows, Kind, Owner
from admission.owners.workload import name_for


class Slicing(Enum):
    """What is to be done about the size of an owner that runs."""

    NOTHING = auto()
    SHRINK = auto()
    """Have its Workload ask for fewer pods."""
    GROW = auto()
    """Make the slice that asks for all its pods."""


def counts(workload: Workload) -> dict[str, int]:
    """Return how many pods a Workload asks for, by the name of the pod set."""
    return {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets or ()}


def asked(owner: Owner) -> dict[str, int]:
    """Return how many pods an owner is to have now; none of one that does not change its size."""
    grows = owner.grows()
    return {} if grows is None else dict(grows.asked())


def of_running(owner: Owner, workload: Workload) -> Slicing:
    """Return what is to be done about the size of an owner that runs.

    Args:
        owner: the owner.
        workload: what it was admitted with.
    """
    wants, had = asked(owner), counts(workload)
    if not _goes_on(owner, workload):
        return Slicing.NOTHING
    if wants.keys() != had.keys() or wants == had:
        return Slicing.NOTHING
    is_less = all(wants[name] <= count for name, count in had.items())
    return Slicing.SHRINK if is_less else Slicing.GROW


def _goes_on(owner: Owner, workload: Workload) -> bool:
    """Return whether an owner runs with a Workload that is not being evicted."""
    status = workload.status
    return (
        not owner.is_held()
        and not owner.is_ending()
        and owner.finished() is None
        and not workload.metadata.deletion_timestamp
        and workload.spec.active is not False
        and status.is_true(conditions.ADMITTED)
        and not status.is_true(conditions.EVICTED)
        and not status.is_true(conditions.FINISHED)
    )


def is_alike(workload: Workload, before: Workload) -> bool:
    """Return whether a slice differs from the one before it in the number of pods alone.

    Another one was not made by the controller: it would be counted for less than its pods take.
    """
    pod_sets, had = workload.spec.pod_sets or (), before.spec.pod_sets or ()
    pods = [(each.name, each.template) for each in pod_sets]
    return (
        pods == [(each.name, each.template) for each in had]
        and workload.spec.queue_name == before.spec.queue_name
        and workload.spec.priority == before.spec.priority
    )


def in_order(slices_: Sequence[Workload]) -> tuple[Workload, ...]:
    """Return the Workloads of one owner, each after the one that it replaces."""
    by_key = {workload.key(): workload for workload in slices_}

    def depth(workload: Workload) -> int:
        seen: set[WorkloadKey] = set()
        at: Workload | None = workload
        while at is not None and at.key() not in seen:
            seen.add(at.key())
            before = at.replaces()
            at = None if before is None else by_key.get(before)
        return len(seen)

    def order(workload: Workload) -> tuple[int, str, str]:
        return depth(workload), workload.metadata.creation_timestamp or "", workload.metadata.name

    return tuple(sorted(slices_, key=order))


def current(slices_: Sequence[Workload]) -> Workload | None:
    """Return the current Workload of an owner, or None if there is none.

    It is the last one that is admitted, else the first one that has not ended, else the last.

    Args:
        slices_: see `in_order`.
    """
    alive = [workload for workload in slices_ if not workload.status.is_true(conditions.FINISHED)]
    admitted = [workload for workload in alive if workload.status.is_true(conditions.ADMITTED)]
    return next(iter((*reversed(admitted), *alive, *reversed(slices_))), None)


def document(kind: Kind, owner: Owner, grows: Grows, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of the next slice, which asks for all pods.

    Args:
        kind: of the owner.
        owner: the owner.
        grows: the same.
        before: the Workload that it is to replace, whole.
    """
    metadata_before, metadata, wants = before["metadata"], owner.view.metadata, grows.asked()
    name = name_for(kind.name, kind.group, metadata.name, metadata.uid, grows.revision())
    annotations = {**(metadata_before.get("annotations") or {})}
    annotations.pop(names.MADE_FOR_RUNNING, None)
    pod_sets = [
        {**pod_set, "count": wants[pod_set["name"]]} for pod_set in before["spec"]["podSets"]
    ]
    return {
        "apiVersion": before["apiVersion"],
        "kind": before["kind"],
        "metadata": {
            "name": name,
            "namespace": metadata_before["namespace"],
            "labels": metadata_before.get("labels") or {},
            "annotations": {
                **annotations,
                names.ELASTIC_JOB: "true",
                names.SLICE_REPLACEMENT: (
                    f"{metadata_before['namespace']}/{metadata_before['name']}"
                ),
            },
            "ownerReferences": metadata_before["ownerReferences"],
        },
        "spec": {**before["spec"], "podSets": pod_sets},
    }
