"""Every event that this program writes: its type, reason and text.

Who reports an event, and about which object, is elsewhere; `Events` takes it. Reasons and texts
that Kueue has too are Kueue's. Source: kueue pkg/controller/jobframework/reconciler.go,
pkg/controller/core/workload_controller.go, pkg/scheduler/scheduler.go and
pkg/scheduler/preemption/preemption.go.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from admission.base import names
from admission.base.conditions import WORKLOAD_NAME_CONFLICT, MemberCounts, Text

_POD: Final = "Pod"

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Event(NamedTuple):
    """What an event says.

    Attributes:
        type: ``Normal`` or ``Warning``.
        reason: CamelCase word.
        note: a sentence.
        cause: events about one object that share type, reason and cause are one series, under
            the first note; if empty, those with the same note are.
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
    """Return the event on an object that breaks a rule, though the API server stored it."""
    return Event(WARNING, "NotUnderstood", f"Left out: {problem}")


def warning(reason: str, message: str) -> Event:
    """Return the event that says what a condition says."""
    return Event(WARNING, reason, message)


def waits(reason: str, message: str) -> Event:
    """Return the event that says why something waits; those with one reason are one series."""
    return Event(WARNING, reason, message, cause=reason)


# ------------------------------------------------------------------------------- on pods, Jobs

ADMISSION_CHECKS: Final = "UpdatedAdmissionCheck"


def created_workload(key: str) -> Event:
    """Return the event on the owner for which a Workload was made."""
    return Event(NORMAL, "CreatedWorkload", f"Created Workload: {key}")


def updated_pod_sets(key: str) -> Event:
    """Return the event on the owner whose Workload asks for what its owner asks for now."""
    note = f"Updated not matching Workload for suspended job: {key}"
    return Event(NORMAL, "UpdatedWorkload", note)


def updated_priority_class(key: str) -> Event:
    """Return the event on the owner whose Workload takes over another WorkloadPriorityClass."""
    return Event(NORMAL, "UpdatedWorkload", f"Updated workload priority class: {key}")


def updated_gates(gates: str) -> Event:
    """Return the event on the owner whose Workload takes over which admission gates are left."""
    return Event(NORMAL, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gates}"')


def deleted_workload(key: str) -> Event:
    """Return the event on the owner whose Workload held quota for something else, or a second."""
    return Event(NORMAL, "DeletedWorkload", f"Deleted not matching Workload: {key}")


def finished_workload(key: str) -> Event:
    """Return the event on the owner whose Workload has ended."""
    return Event(NORMAL, "FinishedWorkload", f"Workload '{key}' is declared finished")


def started(cluster_queue: str) -> Event:
    """Return the event on the owner that the admission of its Workload has started."""
    return Event(NORMAL, "Started", f"Admitted by clusterQueue {cluster_queue}")


def charged_running(cluster_queue: str) -> Event:
    """Return the event on the owner that got another Workload while its pods run."""
    note = (
        f"Its pods go on running and are charged to ClusterQueue {cluster_queue} again, even above"
        " its quota: the Workload by which they were admitted is gone"
    )
    return Event(NORMAL, "Charged", note)


def ledger_drift(amount: str, *, is_more: bool, mends: bool) -> Event:
    """Return the event on the ClusterQueue that is charged otherwise than it should be.

    Args:
        amount: by how much, with resource and flavor.
        is_more: whether more is charged than is held; else less.
        mends: whether the controller reads everything again now.
    """
    what = (
        f"{amount} {'are charged that nothing holds' if is_more else 'are held and not charged'}"
    )
    then = (
        "The controller reads everything again"
        if mends
        else "Reading everything again did not mend it: restart the controller and report this"
    )
    return Event(WARNING, "LedgerDrift", f"{what}. {then}")


def stopped(message: str) -> Event:
    """Return the event on the owner that was deleted or suspended."""
    return Event(NORMAL, "Stopped", message)


def excess_pod_deleted() -> Event:
    """Return the event on a pod of a group that has enough pods without it."""
    return Event(NORMAL, "ExcessPodDeleted", "Excess pod deleted")


def queue_unsupported(queue: str, instead: str) -> Event:
    """Return the event on a PodGroup whose queue is no LocalQueue.

    Args:
        queue: as the PodGroup names it.
        instead: the LocalQueue that is used; empty for none.
    """
    where = (
        f"its pods wait in LocalQueue {instead}"
        if instead
        else f"its pods have no quota here; name one by the label {names.QUEUE_LABEL}"
    )
    note = f'Queue "{queue}" is no LocalQueue of this namespace: {where}'
    return Event(WARNING, "QueueNotSupported", note)


def capability_unsupported() -> Event:
    """Return the event on a Volcano Queue of which a PodGroup's pods wait in a LocalQueue."""
    note = (
        "Its capability limits no pods that wait in a LocalQueue: have the quota of the"
        " ClusterQueue say it"
    )
    return Event(WARNING, "CapabilityNotSupported", note)


WORKLOAD_NOT_MADE: Final = "ErrWorkloadCompose"


def owner_references_added(count: int) -> Event:
    """Return the event on the Workload of a group that more pods belong to."""
    return Event(NORMAL, "OwnerReferencesAdded", f"Added {count} owner reference(s)")


def workload_not_made(why: Text) -> Event:
    """Return the event on the first pod of a group that has no Workload."""
    if why.reason == WORKLOAD_NAME_CONFLICT:
        return Event(WARNING, *why)
    return Event(WARNING, WORKLOAD_NOT_MADE, why.message)


STOP_HELD_BACK: Final = "StopHeldBack"


def stop_held_back(message: str) -> Event:
    """Return the event on an owner that is to be stopped and still runs."""
    return Event(WARNING, STOP_HELD_BACK, message)


def preemption_notice(message: str) -> Event:
    """Return the event on an owner or a pod that is preempted and runs on for a while."""
    return Event(WARNING, "PreemptionNotice", message)


def start_refused(message: str) -> Event:
    """Return the event on the Workload whose owner the API server does not let start."""
    return Event(WARNING, "StartRefused", message)


def cannot_run(
    kind: str,
    held: Mapping[str, str],
    queue: str,
    counts: MemberCounts,
    minutes: float | None,
) -> Event:
    """Return the event on what holds quota and cannot run.

    Args:
        kind: of the owner of the Workload; empty where the event is on the Workload.
        held: amounts by resource.
        queue: its LocalQueue.
        counts: of its pods.
        minutes: after its admission, when it is evicted; None for never.
    """
    amounts = ", ".join(f"{amount} {name}" for name, amount in held.items())
    problem = f"only {counts.missing}"
    if counts.created < counts.asked and kind:
        problem = f"{problem}; its other events may say why"
    elif kind == _POD and counts.lost_nodes:
        problem = f"its node {counts.lost_nodes[0]} is not ready"
    elif kind == _POD:
        problem = f"has no node: {counts.why}" if counts.why else "has no node"
    step = "Delete it, or ask for fewer pods, to give the quota back"
    if kind == _POD and counts.lost_nodes:
        step = "Delete it to give the quota back, or wait for the node"
    elif kind == _POD:
        step = "Delete it to give the quota back; what it asks of a node cannot be changed"
    elif minutes is not None:
        step = f"{step}; it is evicted if it does not run within {minutes:g} minutes"
    holder = {_POD: "pod", "": "workload"}.get(kind, kind)
    note = f"This {holder} holds {amounts} of queue {queue}, but {problem.rstrip('.')}. {step}"
    return Event(WARNING, "CannotRun", note, cause="cannot run")


def freed_from_lost_node(node: str) -> Event:
    """Return the event on the pod whose quota is free though nobody saw it end."""
    note = (
        f"Its quota is free: node {node} is lost (gone, out of service, or not ready for long), "
        "and the pod is being deleted"
    )
    return Event(WARNING, "FreedFromLostNode", note)


def suspended_child() -> Event:
    """Return the event on the Job that is suspended until the Job above it is admitted."""
    return Event(NORMAL, "Suspended", "Kueue managed child job suspended")


def admission_checks(text: str) -> Event:
    """Return the event on the owner that waits for admission checks."""
    return Event(NORMAL, ADMISSION_CHECKS, text)


# --------------------------------------------------------------------------------- on Workloads


def quota_reserved(cluster_queue: str, waited: float) -> Event:
    """Return the event on a Workload that has quota after so many seconds in the queue."""
    queued = f"wait time since queued was {waited:.0f}s"
    note = f"Quota reserved in ClusterQueue {cluster_queue}, {queued}"
    return Event(NORMAL, "QuotaReserved", note)


def admitted(cluster_queue: str, waited: float) -> Event:
    """Return the event on a Workload that is admitted so many seconds after its reservation."""
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
    """Return the event on a Workload that a rejected admission check deactivates."""
    return Event(WARNING, "AdmissionCheckRejected", f"Deactivated due to {summary}")


def execution_time_exceeded(time: str, said_by: str) -> Event:
    """Return the event on a Workload that ran for its maximum time.

    Args:
        time: how long it ran.
        said_by: which queue limits it; empty where the Workload says so itself.
    """
    note = f"The maximum execution time ({time}) exceeded{said_by and f': {said_by}'}"
    return Event(WARNING, "MaximumExecutionTimeExceeded", note)


def evicted(reason: str, message: str) -> Event:
    """Return the event on a Workload whose condition Evicted got this reason and message."""
    return Event(NORMAL, f"EvictedDueTo{reason}", message)


def preempted(message: str, priorities: tuple[int, int]) -> Event:
    """Return the event on a victim.

    Args:
        message: of the condition Preempted.
        priorities: of the preemptor and of the victim.
    """
    return Event(NORMAL, "Preempted", f"{message}{_ranks(*priorities)}")


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
    reason = "PreemptedWorkload"
    return Event(NORMAL, reason, f"{whom}{_ranks(*priorities)}", cause=reason)


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
        problem: why.
        holds: whether it holds quota.
    """
    kept = "The quota it holds stays held." if holds else "It is left alone."
    note = f"The Workload cannot be read: {problem}. {kept} Correct it or delete it."
    return Event(WARNING, "Unreadable", note)


# -------------------------------------------------------------------- on webhook configurations


def certificate_expiring(end: str, problem: str, *, is_over: bool) -> Event:
    """Return the event that says that the serving certificate was not renewed in time.

    Args:
        end: of the certificate, as a time on the wire.
        problem: why it was not renewed.
        is_over: whether that moment has passed.
    """
    verb = "has expired" if is_over else "expires"
    note = (
        f"The webhook's certificate {verb} at {end}; after that no GPU pod can be created. "
        f"It was not renewed: {problem}"
    )
    return Event(WARNING, "CertificateExpiring", note)
