"""Every event that this program writes: its type, reason and text.

Who reports an event, and about which object, is elsewhere; `Events` takes it. Reasons and texts
that Kueue has too are Kueue's, but what an owner is told that is stopped (ADR 0067). Source: kueue
pkg/controller/jobframework/reconciler.go, pkg/controller/core/workload_controller.go,
pkg/scheduler/scheduler.go and pkg/scheduler/preemption/preemption.go.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from admission.base import names
from admission.base.causes import MemberCounts
from admission.base.conditions import WORKLOAD_NAME_CONFLICT, Text

_POD: Final = "Pod"

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Event(NamedTuple):
    """The content of an event.

    Attributes:
        type: ``Normal`` or ``Warning``.
        reason: CamelCase word.
        note: a sentence.
        cause: events about one object with the same type, reason and cause form one series, which
            a new one follows once the note of the first is a minute old and no longer that of
            the last; if the cause is empty, events with the same note form one.
    """

    type: str
    reason: str
    note: str
    cause: str = ""


class Events(Protocol):
    """Takes events to be written to the API server; never blocks."""

    def event(self, regarding: Mapping[str, Any], event: Event) -> None:
        """Record one event.

        Args:
            regarding: reference to the object: apiVersion, kind, name, namespace, uid.
            event: what it says.
        """
        ...


# ------------------------------------------------------------------------------ on any object


def left_out(problem: str) -> Event:
    """Return the event on a stored object that is ignored because it breaks a rule."""
    return Event(WARNING, "NotUnderstood", f"Ignored: {problem}")


def warning(reason: str, message: str) -> Event:
    """Return an event with the reason and message of a condition."""
    return Event(WARNING, reason, message)


def waits(reason: str, message: str) -> Event:
    """Return the event that says why something waits; all with the same reason form one series."""
    return Event(WARNING, reason, message, cause=reason)


# ------------------------------------------------------------------------------- on pods, Jobs

ADMISSION_CHECKS: Final = "UpdatedAdmissionCheck"


def created_workload(key: str) -> Event:
    """Return the event on an owner when its Workload is created."""
    return Event(NORMAL, "CreatedWorkload", f"Created Workload: {key}")


def updated_pod_sets(key: str) -> Event:
    """Return the event on an owner when the pod sets of its Workload are updated to match it."""
    note = f"Updated not matching Workload for suspended job: {key}"
    return Event(NORMAL, "UpdatedWorkload", note)


def updated_priority_class(key: str) -> Event:
    """Return the event on an owner when its Workload gets another WorkloadPriorityClass."""
    return Event(NORMAL, "UpdatedWorkload", f"Updated workload priority class: {key}")


def updated_gates(gates: str) -> Event:
    """Return the event on an owner when the admission gates of its Workload are updated."""
    return Event(NORMAL, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gates}"')


def deleted_workload(key: str) -> Event:
    """Return the event on an owner when a Workload that does not match it is deleted."""
    return Event(NORMAL, "DeletedWorkload", f"Deleted not matching Workload: {key}")


def finished_workload(key: str) -> Event:
    """Return the event on an owner when its Workload has finished."""
    return Event(NORMAL, "FinishedWorkload", f"Workload '{key}' is declared finished")


def started(cluster_queue: str) -> Event:
    """Return the event on an owner when it is started because its Workload was admitted."""
    return Event(NORMAL, "Started", f"Admitted by clusterQueue {cluster_queue}")


def charged_outside(cluster_queue: str) -> Event:
    """Return the event on an owner that an administrator let run and that is charged now."""
    note = (
        "An administrator let it run outside of quota: it is charged to ClusterQueue"
        f" {cluster_queue}, even above its quota"
    )
    return Event(NORMAL, "Charged", note)


def charged_running(cluster_queue: str) -> Event:
    """Return the event on an owner that gets another Workload while its pods run."""
    note = (
        f"Its pods continue to run and are charged to ClusterQueue {cluster_queue} again, even"
        " above its quota: the Workload with which they were admitted is gone"
    )
    return Event(NORMAL, "Charged", note)


def ledger_drift(amount: str, *, is_more: bool, mends: bool) -> Event:
    """Return the event on a ClusterQueue whose charged quota differs from the quota in use.

    Args:
        amount: the difference, with resource and flavor.
        is_more: whether more is charged than is held; else less.
        mends: whether the controller reads everything again now.
    """
    text = f"{amount} {'are charged but not held' if is_more else 'are held but not charged'}"
    return Event(WARNING, "LedgerDrift", f"{text}. {_then(mends=mends)}")


def node_ledger_drift(amount: str, *, is_more: bool, mends: bool) -> Event:
    """Return the event on a node on which pods hold something else than is counted.

    Args:
        amount: the difference, with the resource.
        is_more: whether more is counted than pods hold; else less.
        mends: whether the controller reads everything again now.
    """
    text = f"{amount} {'are counted but not held' if is_more else 'are held but not counted'}"
    return Event(WARNING, "LedgerDrift", f"{text} by pods on this node. {_then(mends=mends)}")


def devices_sick(device: str, amount: int, total: int, why: str, node: str) -> Event:
    """Return the event on a node of which devices cannot be used.

    Args:
        device: name of the resource.
        amount: how many are sick.
        total: how many the node has, the sick ones included.
        why: what is known of it.
        node: its name.
    """
    verb, them, they_are = ("is", "it", "it is") if amount == 1 else ("are", "them", "they are")
    note = (
        f"{amount} of {total} {device} of this node {verb} sick ({why}): nothing new starts on"
        f" {them} until {they_are} well. What runs here: kubectl gpu who {node}"
    )
    return Event(WARNING, "DevicesSick", note, cause=f"{device} sick")


def devices_well(device: str, total: int) -> Event:
    """Return the event on a node of which all devices can be used again.

    Args:
        device: name of the resource.
        total: how many the node has.
    """
    count, verb = ("The", "is") if total == 1 else (f"All {total}", "are")
    note = f"{count} {device} of this node {verb} well again"
    return Event(NORMAL, "DevicesWell", note, cause=f"{device} well")


def _then(*, mends: bool) -> str:
    return (
        "The controller reads everything again"
        if mends
        else "Reading everything again did not help: restart the controller and report this"
    )


_EVICTED_DUE_TO: Final = "EvictedDueTo"
PREEMPTED: Final = "Preempted"
"""On a Workload that was preempted."""
PREEMPTED_WORKLOAD: Final = "PreemptedWorkload"
"""On the Workload for which one was preempted."""
STOPPED: Final = "Stopped"
"""On an owner that was stopped."""
DISRUPTED: Final = "Disrupted"
"""On a pod that leaves its node though no queue stops it."""
POD_DISRUPTED: Final = "PodDisrupted"
"""On what controls such a pod, which may make another one."""
_STOPS: Final = frozenset(
    {
        STOPPED, DISRUPTED, PREEMPTED, "PreemptionNotice", "PodTerminatedByKueue",
        "ExcessPodDeleted", "Deleted",
    }
)  # fmt: skip


def is_stop(reason: str) -> bool:
    """Return whether the reason of an event is one that says why something is, or was, stopped."""
    return reason in _STOPS or reason.startswith(_EVICTED_DUE_TO)


_GOES_ON: Final = frozenset({"Admitted", "Completed", "Started"})


def goes_on(reason: str) -> bool:
    """Return whether the reason of an event says that something runs, or has run to its end."""
    return reason in _GOES_ON


def stopped(message: str) -> Event:
    """Return the event on an owner when it is stopped: deleted or suspended."""
    return Event(NORMAL, STOPPED, message)


_DISRUPTIONS: Final = {
    "EvictionByEvictionAPI": "it was evicted, as kubectl drain does",
    "DeletionByTaintManager": "it does not tolerate a taint that the node got",
    "DeletionByPodGC": "the node is gone",
    "PreemptionByScheduler": "the scheduler gave its room to a pod with a higher priority",
    "TerminationByKubelet": "the node is shut down, or is short of memory or disk",
}
"""Words for the reasons of a pod's condition DisruptionTarget.

Source: kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions.
"""


def disrupted(node: str, reason: str, message: str) -> Event:
    """Return the event on a pod that leaves its node.

    Args:
        node: that it leaves.
        reason: of its condition DisruptionTarget.
        message: likewise.
    """
    return Event(WARNING, DISRUPTED, f"It left node {node}: {_why_disrupted(reason, message)}")


def pod_disrupted(node: str, reason: str, message: str) -> Event:
    """Return the event on what controls such a pod; the arguments are those of `disrupted`."""
    why = _why_disrupted(reason, message)
    return Event(WARNING, POD_DISRUPTED, f"A pod left node {node}: {why}")


_OF_JOB: Final = "; of this Job at least "


def pod_of_job_disrupted(disruption: Event, pods: int) -> Event:
    """Return the event on a batch Job that controls such a pod.

    Args:
        disruption: see `pod_disrupted`.
        pods: how many pods of the Job have left so, this one included, as far as they were seen.
    """
    have = "1 pod has" if pods == 1 else f"{pods} pods have"
    note = (
        f"{disruption.note}{_OF_JOB}{have} left so: each counts as a failure against "
        "backoffLimit, unless podFailurePolicy ignores DisruptionTarget"
    )
    return disruption._replace(note=note, cause=disruption.note)


def of_one_pod(note: str) -> str:
    """Return what an event says of one disrupted pod, without what it says of its Job."""
    return note.partition(_OF_JOB)[0]


def _why_disrupted(reason: str, message: str) -> str:
    return _DISRUPTIONS.get(reason) or message or reason or "?"


def stray_pod_deleted(hosts: str) -> Event:
    """Return the event on a pod that cannot start, as it was told a host that is lost."""
    return Event(NORMAL, "PodTerminatedByKueue", f"Pod deleted: its host {hosts} was replaced")


def excess_pod_deleted() -> Event:
    """Return the event on a pod of a group that has enough pods without it."""
    return Event(NORMAL, "ExcessPodDeleted", "Excess pod deleted")


def queue_unsupported(queue: str, instead: str) -> Event:
    """Return the event on a PodGroup whose queue is not a LocalQueue.

    Args:
        queue: as the PodGroup names it.
        instead: the LocalQueue that is used; empty for none.
    """
    where = (
        f"its pods wait in LocalQueue {instead}"
        if instead
        else f"its pods have no queue here; name one with the label {names.QUEUE_LABEL}"
    )
    note = f'Queue "{queue}" is not a LocalQueue of this namespace: {where}'
    return Event(WARNING, "QueueNotSupported", note)


def capability_unsupported() -> Event:
    """Return the event on a Volcano Queue when pods of its PodGroups wait in a LocalQueue."""
    note = (
        "Its capability does not limit pods that wait in a LocalQueue: limit them with the quota"
        " of the ClusterQueue"
    )
    return Event(WARNING, "CapabilityNotSupported", note)


WORKLOAD_NOT_MADE: Final = "ErrWorkloadCompose"


def owner_references_added(count: int) -> Event:
    """Return the event on the Workload of a group when further pods become its owners."""
    return Event(NORMAL, "OwnerReferencesAdded", f"Added {count} owner reference(s)")


def workload_not_made(why: Text) -> Event:
    """Return the event on the first pod of a group for which no Workload can be created."""
    if why.reason == WORKLOAD_NAME_CONFLICT:
        return Event(WARNING, *why)
    return Event(WARNING, WORKLOAD_NOT_MADE, why.message)


STOP_HELD_BACK: Final = "StopHeldBack"


def stop_held_back(message: str) -> Event:
    """Return the event on a running owner whose stop is held back."""
    return Event(WARNING, STOP_HELD_BACK, message)


START_HELD_BACK: Final = "StartHeldBack"


def start_held_back(pod: str, node: str) -> Event:
    """Return the event on an admitted owner that does not start beside a pod that still runs.

    Args:
        pod: name of the pod.
        node: where it runs; empty where it is not known.
    """
    where = f" on node {node}" if node else ""
    return Event(
        WARNING,
        START_HELD_BACK,
        f"Admitted, and starts when Pod {pod} has ended: it still uses this quota{where}",
    )


def preemption_notice(message: str) -> Event:
    """Return the event on a preempted owner or pod that continues to run until its notice ends."""
    return Event(WARNING, "PreemptionNotice", message)


def start_refused(message: str) -> Event:
    """Return the event on a Workload when the API server refuses to start its owner."""
    return Event(WARNING, "StartRefused", message)


_WAIT_FOR_AUTOSCALER: Final = (
    "Wait: an autoscaler is asked for a node; if none comes, ask an administrator whether nodes of"
    " this kind can be added"
)
_WAIT_FOR_NODE: Final = "Wait if a node is to come or to become free, as from an autoscaler"


def cannot_run(
    kind: str,
    shares: Mapping[str, str],
    queue: str,
    counts: MemberCounts,
    missing: str,
    unscheduled: str,
    minutes: float | None,
) -> Event:
    """Return the event on an admitted owner or Workload whose pods cannot run.

    Args:
        kind: kind of the owner; empty if the event is on the Workload.
        shares: quota that it holds, by resource.
        queue: its LocalQueue.
        counts: how many of its pods exist, have a node and are ready.
        missing: the first thing that its pods lack to run.
        unscheduled: why pods have no node; empty where nobody says it.
        minutes: minutes from its admission to its eviction; None if it is not evicted.
    """
    amounts = ", ".join(f"{amount} {name}" for name, amount in shares.items())
    problem = f"only {missing}"
    if counts.created < counts.asked and kind:
        problem = f"{problem}; its other events may say why"
    elif kind == _POD and counts.lost_nodes:
        problem = f"its node {counts.lost_nodes[0]} is not ready"
    elif kind == _POD:
        problem = f"has no node: {unscheduled}" if unscheduled else "has no node"
    step = "Delete it, or ask for fewer pods, to give the quota back"
    if counts.awaits_node and not counts.lost_nodes and counts.created >= counts.asked:
        step = _WAIT_FOR_AUTOSCALER
    elif kind == _POD and counts.lost_nodes:
        step = "Delete it to give the quota back, or wait for the node"
    elif kind == _POD and counts.exceeds_every_node:
        step = "Delete it to give the quota back; what it asks of a node cannot be changed"
    elif kind == _POD:
        step = f"{_WAIT_FOR_NODE}; else delete it to give the quota back"
    elif counts.created >= counts.asked and not counts.lost_nodes:
        step = f"{_WAIT_FOR_NODE}; else delete it, or ask for fewer pods, to give the quota back"
    if kind != _POD and minutes is not None:
        step = f"{step}; it is evicted if it does not run within {minutes:g} minutes"
    holder = {_POD: "pod", "": "workload"}.get(kind, kind)
    note = f"This {holder} holds {amounts} of queue {queue}, but {problem.rstrip('.')}. {step}"
    return Event(WARNING, "CannotRun", note, cause="cannot run")


def freed_from_lost_node(node: str) -> Event:
    """Return the event on a pod whose quota is released because its node is lost."""
    note = (
        f"Its quota is free: node {node} is lost (gone, out of service, or not ready for long), "
        "and the pod is being deleted"
    )
    return Event(WARNING, "FreedFromLostNode", note)


def suspended_child() -> Event:
    """Return the event on a child Job that is suspended until its parent is admitted."""
    return Event(NORMAL, "Suspended", "Kueue managed child job suspended")


def admission_checks(text: str) -> Event:
    """Return the event on an owner that waits for admission checks."""
    return Event(NORMAL, ADMISSION_CHECKS, text)


# --------------------------------------------------------------------------------- on Workloads


def quota_reserved(cluster_queue: str, waited: float) -> Event:
    """Return the event on a Workload that reserved quota after ``waited`` seconds in the queue."""
    queued = f"wait time since queued was {waited:.0f}s"
    note = f"Quota reserved in ClusterQueue {cluster_queue}, {queued}"
    return Event(NORMAL, "QuotaReserved", note)


def admitted(cluster_queue: str, waited: float) -> Event:
    """Return the event on a Workload admitted ``waited`` seconds after its quota reservation."""
    reserved = f"wait time since reservation was {waited:.0f}s"
    note = f"Admitted by ClusterQueue {cluster_queue}, {reserved}"
    return Event(NORMAL, "Admitted", note)


def gated(gates: str) -> Event:
    """Return the event on a Workload that an annotation keeps out of the queue."""
    return Event(NORMAL, "AdmissionGated", f"Workload admission is gated by: {gates}")


def gates_cleared() -> Event:
    """Return the event on a Workload whose admission gates are gone."""
    note = "Admission gate cleared, workload is now admissible"
    return Event(NORMAL, "AdmissionGateCleared", note)


def check_rejected(summary: str) -> Event:
    """Return the event on a Workload that is deactivated due to a rejected admission check."""
    return Event(WARNING, "AdmissionCheckRejected", f"Deactivated due to {summary}")


def execution_time_exceeded(time: str, said_by: str) -> Event:
    """Return the event on a Workload that ran for its maximum time.

    Args:
        time: how long it ran.
        said_by: the queue that sets the limit; empty if the Workload sets it itself.
    """
    note = f"The maximum execution time ({time}) exceeded{said_by and f': {said_by}'}"
    return Event(WARNING, "MaximumExecutionTimeExceeded", note)


def evicted(reason: str, message: str) -> Event:
    """Return the event on an evicted Workload, from the reason and message of Evicted."""
    return Event(NORMAL, f"{_EVICTED_DUE_TO}{reason}", message)


def preempted(message: str, priorities: tuple[int, int]) -> Event:
    """Return the event on a victim.

    Args:
        message: of the condition Preempted.
        priorities: of the preemptor and of the victim.
    """
    return Event(NORMAL, PREEMPTED, f"{message}{_ranks(*priorities)}")


def preempted_workload(
    victim: str, uid: str, cluster_queue: str, priorities: tuple[int, int]
) -> Event:
    """Return the event on the preemptor; all of its victims are one series.

    Kueue's recorder ignores notes when it looks for a series.

    Args:
        victim: namespace and name.
        uid: of the victim.
        cluster_queue: of the victim.
        priorities: of the preemptor and of the victim.
    """
    whom = f"Preempted workload {victim} (UID: {uid}) in ClusterQueue {cluster_queue}"
    note = f"{whom}{_ranks(*priorities)}"
    return Event(NORMAL, PREEMPTED_WORKLOAD, note, cause=PREEMPTED_WORKLOAD)


def _ranks(preemptor: int, preemptee: int) -> str:
    return "".join(
        f"; {role} effective priority: {value} (base: {value}, boost: 0)"
        for role, value in (("preemptor", preemptor), ("preemptee", preemptee))
    )


def deleted_finished() -> Event:
    """Return the event on a Workload that is deleted some time after its end."""
    return Event(NORMAL, "Deleted", "Deleted finished workload due to elapsed retention")


def deleted_owner() -> Event:
    """Return the event on the owner that is deleted some time after it was deactivated."""
    return Event(NORMAL, "Deleted", "Deleted job: deactivation retention period expired")


def unreadable(problem: str, *, holds: bool) -> Event:
    """Return the event on a Workload that cannot be decoded.

    Args:
        problem: why it cannot be decoded.
        holds: whether it holds quota.
    """
    kept = "It keeps its quota." if holds else "It is ignored."
    note = f"The Workload cannot be read: {problem}. {kept} Correct it or delete it."
    return Event(WARNING, "Unreadable", note)


# -------------------------------------------------------------------- on webhook configurations


def certificate_expiring(end: str, problem: str, *, is_over: bool) -> Event:
    """Return the event about a serving certificate that was not renewed in time.

    Args:
        end: when the certificate expires, as a time on the wire.
        problem: why it was not renewed.
        is_over: whether it has expired.
    """
    head = (
        f"The webhook's certificate expired at {end}: no GPU pod can be created"
        if is_over
        else f"The webhook's certificate expires at {end}; after that no GPU pod can be created"
    )
    note = f"{head}. It was not renewed: {problem}"
    return Event(WARNING, "CertificateExpiring", note)
