"""Reasons and messages of conditions as Kueue writes them.

Clients and people search for them, so they are equal byte by byte where Kueue has them too.
Source: kueue pkg/scheduler, pkg/workload, pkg/cache/scheduler and pkg/controller (texts).
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from admission.base import causes, names, quantity
from admission.base.causes import QueueBlocker, Refusal, RefusedPodSet, Why
from admission.base.conditions import (
    DEACTIVATED_BY_PROGRAM,
    GROUP_INVALID,
    PREBUILT_NOT_FOUND,
    PRIORITY_CLASS_NOT_FOUND,
    SLICE_REPLACED,
    EvictionReason,
    PodsReadyReason,
    PreemptionReason,
    Text,
)
from admission.reasons import domains, placing

# ----------------------------------------------------------------- Workloads: QuotaReserved=False

_OVERLAPS: Final = "Workload has overlapping preemption targets with another workload"
_PAUSED: Final = (
    "Admission is paused by the administrator: no workload gets quota. This one keeps its place in"
    " the queue and is considered when admission is resumed"
)
NOT_TRIED: Final = "Workload is pending evaluation in the scheduling queue"
FAILED_CHECKS: Final = "The workload has failed admission checks"
GATES_CLEARED: Final = "AdmissionGatedBy cleared, waiting for quota reservation"
RESERVED_TWICE: Final = (
    "Quota was reserved twice while the leader changed; this one had not started"
)
DEACTIVATED: Final = "The workload is deactivated"
NAMESPACE_NOT_SERVED: Final = "workload namespace doesn't match ClusterQueue selector"
SET_ASIDE: Final = (
    "The workload is set aside: an error of gpu-admission ended the decision about it. It is tried"
    " again every minute"
)
PODS_OF_OTHERS_NOT_READY: Final = "waiting for all admitted workloads to be in PodsReady condition"
PODS_COMING: Final = (
    "Pods that were admitted before may start on the nodes for this workload. It is tried again"
    " once they have nodes"
)
NO_LONGER_FITS: Final = "Workload no longer fits after processing another workload"
DEFERRED: Final = f"{_OVERLAPS}, but will fit after these preemptions complete"


def text(reason: Why, ending: causes.EndingPods | None = None) -> Text:
    """Return the reason and message of a condition that tells why a Workload has no quota.

    Args:
        reason: why it has none.
        ending: pods that end and hold what it waits for; None for none. Kueue says nothing of
            them, as they hold no quota there.
    """
    words = message(reason)
    return Text(str(reason.reason), words if ending is None else f"{words}. {pods_end(ending)}")


def pods_end(ending: causes.EndingPods) -> str:
    """Return the end of the message of a Workload that waits for pods that are ending."""
    amount = quantity.from_canonical(ending.resource, ending.amount)
    until = f" until {ending.until}" if ending.until else ""
    return (
        f"Pending the end of {ending.pods} pod(s) with {amount} {ending.resource} of flavor"
        f" {ending.flavor}{until}"
    )


def message(reason: Why) -> str:
    """Return the message of a condition that tells why a Workload has no quota."""
    match reason:
        case causes.NoFlavor():
            return _no_flavors(reason.pod_sets)
        case causes.PendingPreemption():
            head = _no_flavors(reason.pod_sets)
            return f"{head}. Pending the preemption of {reason.count} workload(s)"
        case causes.Deferred():
            return DEFERRED
        case causes.Overtaken():
            return _OVERLAPS if reason.takes_victims else NO_LONGER_FITS
        case causes.PodsComing():
            return PODS_COMING
        case causes.CapReached() | causes.ExceedsCap():
            return refusal(reason)
        case causes.NotTried():
            return NOT_TRIED
        case causes.GatesCleared():
            return GATES_CLEARED
        case causes.ReservedTwice():
            return RESERVED_TWICE
        case causes.FailedChecks():
            return FAILED_CHECKS
        case causes.SetAside():
            return SET_ASIDE
        case causes.PodsOfOthersNotReady():
            return PODS_OF_OTHERS_NOT_READY
        case causes.Paused():
            return _PAUSED
        case causes.Deactivated():
            return f"{DEACTIVATED} due to {reason.cause}" if reason.cause else DEACTIVATED
        case causes.Gated():
            return f"Admission is gated by: {reason.gates}"
        case causes.QueueMissing():
            return f"{reason.kind} {reason.name} doesn't exist"
        case causes.QueueInactive():
            return f"{reason.kind} {reason.name} is inactive"
        case causes.QueueGone():
            return f"{reason.kind} {reason.name} is terminating or missing"
        case causes.QueueStopped():
            return f"{reason.kind} {reason.name} is stopped"
        case causes.NamespaceMissing():
            name = reason.namespace
            return f'workload namespace "{name}" does not exist: Namespace "{name}" not found'
        case causes.NamespaceNotServed():
            return NAMESPACE_NOT_SERVED
        case causes.Misconfigured():
            return reason.problem
        case causes.Preempted():
            return _preempted(reason)
        case causes.EvictedBefore():
            return reason.stated
        case causes.Stated():
            return reason.message
        case _:
            assert_never(reason)


def _no_flavors(pod_sets: Iterable[RefusedPodSet]) -> str:
    return "; ".join(
        f"couldn't assign flavors to pod set {name}: {', '.join(sorted(map(refusal, refusals)))}"
        for name, refusals in pod_sets
    )


def refusal(reason: Refusal) -> str:
    """Return why a flavor is not given, as a part of a message."""
    match reason:
        case causes.NotCovered():
            return f"resource {reason.resource} unavailable in ClusterQueue"
        case causes.FlavorMissing():
            return f"flavor {reason.flavor} not found"
        case causes.NotNominated():
            return (
                f"skipping flavor {reason.flavor} as it is not found in the nomination mapping for"
                f" resource {reason.resource}"
            )
        case causes.UntoleratedTaint():
            taint = f"{reason.key} {reason.value} {reason.effect}"
            return f"untolerated taint {{{taint} <nil>}} in flavor {reason.flavor}"
        case causes.OtherNodes():
            return f"flavor {reason.flavor} doesn't match node affinity"
        case causes.Contradicts():
            return (
                f"flavor {reason.flavor} selects other nodes than flavor {reason.other}, which is"
                f" given with it: label {reason.key} is {reason.value} and {reason.other_value}"
            )
        case causes.NoTopology():
            return f'Flavor "{reason.flavor}" does not support TopologyAwareScheduling'
        case causes.NoTopologyGiven():
            return (
                "no TAS flavor assigned: the pods ask for a topology, and for no resource for"
                " which the queue has one"
            )
        case causes.TopologyOnly():
            return f'Flavor "{reason.flavor}" supports only TopologyAwareScheduling'
        case causes.LevelMissing():
            return f'Flavor "{reason.flavor}" does not contain the requested level'
        case causes.Unsuited():
            return reason.problem
        case causes.QuotaInUse():
            missing = quantity.in_words(reason.resource, reason.missing)
            return (
                f"insufficient unused quota for {reason.resource} in flavor {reason.flavor}, "
                f"{missing} more needed"
            )
        case causes.QuotaTooSmall():
            before, request, limit = (
                quantity.in_words(reason.resource, value)
                for value in (reason.before, reason.request, reason.limit)
            )
            return (
                f"insufficient quota for {reason.resource} in flavor {reason.flavor}, previously"
                f" considered podsets requests ({before}) + current podset request ({request}) >"
                f" maximum capacity ({limit})"
            )
        case causes.CapReached() | causes.ExceedsCap():
            return capped(reason)
        case causes.NoPlace():
            return placing.shortage(reason)
        case (
            causes.DomainsTooSmall()
            | causes.NoDomains()
            | causes.NoLevelAsked()
            | causes.LevelNotInTopology()
            | causes.SlicesAboveLevel()
            | causes.LayerNotBelow()
            | causes.LayerNotDividing()
            | causes.SlicesNotWhole()
            | causes.GroupWithoutLeader()
            | causes.StaleDomain()
        ):
            return domains.refusal(reason)
        case _:
            assert_never(reason)


def capped(reason: causes.Capped) -> str:
    """Return which cap a request exceeds; Kueue has none."""
    place, resource = reason.place, reason.resource
    cap = f"queue {place.queue} ({place.annotation})"
    request, limit = (quantity.in_words(resource, v) for v in (reason.asked, reason.most))
    if isinstance(reason, causes.ExceedsCap):
        subject = "a user may" if place.user else "all its work may"
        return f"Too big: asks {request} {resource}, {subject} hold at most {limit} in {cap}"
    amounts = f"{quantity.in_words(resource, reason.held)} of at most {limit} {resource}"
    if not place.user:
        verdict = f"{cap} holds {amounts}"
    elif place.namespace:
        subject = f"work of unknown users in namespace {place.namespace}"
        verdict = f"{subject} holds {amounts} in {cap}"
    else:
        verdict = f"you ({place.user}) hold {amounts} in {cap}"
    return f"Waits: {verdict}; asks {request} more"


# ------------------------------------------------------- Workloads: Evicted, Preempted, Requeued

PREEMPTED_FOR: Final[Mapping[PreemptionReason, str]] = MappingProxyType(
    {
        PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
        PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
        PreemptionReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
        PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: (
            "reclamation within the cohort while borrowing"
        ),
    }
)


def _preempted(reason: causes.Preempted) -> str:
    return (
        f"Preempted to accommodate a workload (UID: {reason.uid or 'UNKNOWN'}, "
        f"JobUID: {reason.job_uid or 'UNKNOWN'}) due to {PREEMPTED_FOR[reason.cause]}; "
        f"preemptor path: {reason.preemptor_path}; preemptee path: {reason.preemptee_path}"
        f"{CUT_FOR[reason.cut] if reason.cut else ''}"
    )


CUT_FOR: Final[Mapping[causes.QuotaCut, str]] = MappingProxyType(
    {
        causes.QuotaCut.SICK: (
            "; its queue borrowed nothing: GPUs of its quota are sick or missing"
        ),
        causes.QuotaCut.PROMISED: (
            "; its queue borrowed nothing: GPUs of its quota are promised to other queues first"
        ),
    }
)
"""What is told beside Kueue's message where the capacity guard cut the quota of the queue."""


def deactivated_due_to(target: Text) -> Text:
    """Return why a Workload that this program deactivated is evicted.

    Args:
        target: reason and message of the condition DeactivationTarget.
    """
    deactivated = message(causes.Deactivated(target.message))
    return Text(f"{DEACTIVATED_BY_PROGRAM}{target.reason}", deactivated)


def check_retries(summary: str) -> Text:
    """Return why a Workload is evicted whose admission check is in the state Retry."""
    return Text(EvictionReason.ADMISSION_CHECK, f"Evicted due to {summary}")


def queue_drained(kind: str) -> Text:
    """Return why a Workload is evicted whose queue is stopped and drained."""
    return Text(f"{kind}Stopped", f"The {kind} is stopped")


ORDERED_EVICTIONS: Final = frozenset(
    {
        EvictionReason.PREEMPTED,
        EvictionReason.DEACTIVATED,
        *(queue_drained(kind).reason for kind in (causes.CLUSTER_QUEUE, causes.LOCAL_QUEUE)),
    }
)
"""Reasons of evictions that somebody ordered for this Workload or its queue."""


def pods_ready_timeout(workload: str) -> Text:
    """Return why a Workload is evicted whose pods were not ready in time."""
    message = f"Exceeded the PodsReady timeout {workload}"
    return Text(EvictionReason.PODS_READY_TIMEOUT, message)


def no_replacement(hosts: Iterable[str]) -> Text:
    """Return why a Workload is evicted of which no host replaces the lost ones."""
    message = (
        "Workload was evicted as there was no replacement for unhealthy node(s): "
        f"{','.join(hosts)}"
    )
    return Text(EvictionReason.NODE_FAILURES, message)


REACTIVATED: Final = Text("Reactivated", "The workload was reactivated")
BACKOFF_FINISHED: Final = Text("BackoffFinished", "The workload backoff was finished")


def queue_restarted(kind: str) -> Text:
    """Return why a Workload whose queue was drained may be tried again."""
    return Text(f"{kind}Restarted", f"The {kind} was restarted after being stopped")


# ----------------------------------------------------------------------- Workloads: PodsReady

PODS_READY: Final[Mapping[PodsReadyReason, str]] = MappingProxyType(
    {
        PodsReadyReason.WAIT_FOR_START: "Not all pods are ready or succeeded",
        PodsReadyReason.WAIT_FOR_RECOVERY: "At least one pod has failed, waiting for recovery",
        PodsReadyReason.STARTED: "All pods reached readiness and the workload is running",
        PodsReadyReason.RECOVERED: "All pods reached readiness and the workload is running",
    }
)


def pods_ready(reason: PodsReadyReason, missing: str = "") -> Text:
    """Return the reason and message of PodsReady.

    Args:
        reason: reason of the condition.
        missing: what its pods lack to run, as a clause; empty to say nothing of it, as Kueue does.
    """
    counts = f": {missing}" if missing else ""
    return Text(reason, f"{PODS_READY[reason]}{counts}")


# ----------------------------------------------------------------------- ClusterQueues: Active

CAN_ADMIT: Final = Text("Ready", "Can admit new workloads")


def admits_nothing(blockers: Sequence[QueueBlocker]) -> Text:
    """Return why a ClusterQueue admits nothing.

    Args:
        blockers: at least one; the reason is that of the first.
    """
    first, *_ = parts = [blocker(value) for value in blockers]
    if isinstance(blockers[0], causes.QueueEnds):
        return Text(first.reason, "Can't admit new workloads; clusterQueue is terminating")
    listed = ", ".join(part.message for part in parts)
    return Text(first.reason, f"Can't admit new workloads: {listed}.")


def blocker(reason: QueueBlocker) -> Text:
    """Return the reason of a blocker of a ClusterQueue, and its part of the message."""
    match reason:
        case causes.QueueEnds():
            return Text("Terminating", "is terminating")
        case causes.QueueIsStopped():
            return Text("Stopped", "is stopped")
        case causes.FlavorsMissing():
            listed = ",".join(reason.flavors)
            return Text("FlavorNotFound", f"references missing ResourceFlavor(s): {listed}")
        case causes.ChecksMissing() | causes.ChecksInactive():
            state = "missing" if isinstance(reason, causes.ChecksMissing) else "inactive"
            code = "AdmissionCheckNotFound" if state == "missing" else "AdmissionCheckInactive"
            return Text(code, f"references {state} AdmissionCheck(s): {','.join(reason.checks)}")
        case (
            causes.SeveralMultiKueue()
            | causes.MultiKueuePerFlavor()
            | causes.MultiKueueWithProvisioning()
        ):
            return _multi_kueue(reason)
        case causes.TopologiesMissing():
            parts = (
                f'there is no Topology "{topology}" for TAS flavor "{flavor}"'
                for topology, flavor in reason.pairs
            )
            return Text("TopologyNotFound", ", ".join(parts))
        case causes.CohortCycle():
            return Text(
                "CohortCycle",
                f"{cycle(reason.cohorts)}: correct spec.parentName of one of them",
            )
        case _:
            assert_never(reason)


def cycle(cohorts: Sequence[str]) -> str:
    """Return that each of some Cohorts is the parent of the one before it, and which."""
    return f"its Cohorts form a cycle ({' -> '.join((*cohorts, *cohorts[:1]))})"


def _multi_kueue(
    reason: causes.SeveralMultiKueue
    | causes.MultiKueuePerFlavor
    | causes.MultiKueueWithProvisioning,
) -> Text:
    if isinstance(reason, causes.MultiKueueWithProvisioning):
        return Text(
            "MultiKueueWithProvisioningRequest",
            "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found:"
            f" {','.join(reason.remote)}, {','.join(reason.provisioned)}",
        )
    checks = ",".join(reason.checks)
    if isinstance(reason, causes.SeveralMultiKueue):
        return Text(
            "MultipleMultiKueueAdmissionChecks",
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found:"
            f" {checks}",
        )
    return Text(
        "MultiKueueAdmissionCheckAppliedPerFlavor",
        f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {checks}",
    )


# ----------------------------------------------------------------- Workloads: QuotaReserved=True


def quota_reserved(cluster_queue: str) -> Text:
    """Return the reason and message of a Workload that holds quota."""
    return Text("QuotaReserved", f"Quota reserved in ClusterQueue {cluster_queue}")


def over(message: str) -> Text:
    """Return the reason and message of Evicted and Preempted once a Workload has quota again.

    Args:
        message: message of the condition until now.
    """
    return Text("QuotaReserved", f"Previously: {message}")


# --------------------------------------------------------------------------- Workloads: Admitted

IS_ADMITTED: Final = Text("Admitted", "The workload is admitted")
CHECKS_OPEN: Final = Text("UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
NO_RESERVATION: Final = Text("NoReservation", "The workload has no reservation")


# ----------------------------------------------------------------- Workloads: DeactivationTarget

REQUEUING_LIMIT_EXCEEDED: Final = Text(
    "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries"
)


def check_rejected(summary: str) -> Text:
    """Return why a Workload that an admission check rejected is deactivated."""
    return Text("AdmissionCheck", summary)


def execution_time_exceeded(said_by: str) -> Text:
    """Return why a Workload that ran for its maximum time is deactivated.

    Args:
        said_by: the queue that sets the limit; empty if the Workload sets it itself.
    """
    message = f"exceeding the maximum execution time{said_by and f': {said_by}'}"
    return Text("MaximumExecutionTimeExceeded", message)


# --------------------------------------------------------------------------- Workloads: Finished

OWNER_NOT_FOUND: Final = Text("OwnerNotFound", "The workload's owner no longer exists")
OUT_OF_SYNC: Final = Text("OutOfSync", "The prebuilt workload is out of sync with its user job")


def slice_replaced(uid: str, job_uid: str) -> Text:
    """Return why a Workload has finished that another Workload of the same owner replaces.

    Args:
        uid: UID of the Workload that replaces it.
        job_uid: UID of the owner.
    """
    return Text(
        SLICE_REPLACED,
        f"Replaced to accommodate a workload (UID: {uid}, JobUID: {job_uid}) due to workload slice"
        " aggregation",
    )


def owner_finished(message: str, *, succeeded: bool) -> Text:
    """Return the condition Finished of a Workload whose owner ended with a message."""
    return Text("Succeeded" if succeeded else "Failed", message)


# --------------------------------------------------------- Workloads: states of admission checks


def check_reset(state: str) -> str:
    """Return the message of an admission check that is reset to Pending from another state."""
    return f"Reset to Pending after eviction. Previously: {state}"


def checks_in_state(checks: Iterable[tuple[str, str]], state: str) -> str:
    """Return ``AdmissionChecks in Retry state: "a" (why); "b"``.

    Args:
        checks: names and messages of the checks in the state.
        state: the state.
    """
    parts = [f'"{name}" ({message})' if message else f'"{name}"' for name, message in checks]
    plural = "s" if len(parts) > 1 else ""
    return f"AdmissionCheck{plural} in {state} state: {'; '.join(parts)}"


# --------------------------------------------------------------------------- LocalQueues: Active

CAN_SUBMIT: Final = Text("Ready", "Can submit new workloads to localQueue")
LOCAL_QUEUE_STOPPED: Final = Text("Stopped", "LocalQueue is stopped")
CLUSTER_QUEUE_MISSING: Final = Text(
    "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
)
CLUSTER_QUEUE_INACTIVE: Final = Text(
    "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
)


# -------------------------------------------------- pods and Jobs: what they name does not exist


def priority_class_not_found(kind: str, name: str) -> Text:
    """Return why an owner that names a priority class waits: the class does not exist."""
    return Text(PRIORITY_CLASS_NOT_FOUND, f'{kind} "{name}" not found')


def prebuilt_not_found(key: str) -> Text:
    """Return why an owner that names a Workload waits: the Workload does not exist."""
    return Text(PREBUILT_NOT_FOUND, f'Prebuilt workload "{key}" not found')


# ------------------------------------------------ pods and Jobs: why one is deleted or suspended

WORKLOAD_MISSING: Final = Text(
    "NoMatchingWorkload", "Missing Workload; unable to restore pod templates"
)
NAMED_WORKLOAD_MISSING: Final = Text("NoMatchingWorkload", "missing workload")
OTHER_COUNT: Final = Text(
    "NoMatchingWorkload",
    "No matching Workload; restoring pod templates according to existent Workload",
)
STOPPED_NOT_ADMITTED: Final = Text("NotAdmitted", "Not admitted by cluster queue")


def stopped_by_eviction(reason: str, message: str) -> Text:
    """Return why an owner is stopped whose Workload is evicted for this reason."""
    return Text(f"WorkloadEvictedDueTo{reason}", message)


# -------------------------------------------------------------------------------- groups of pods

REPLACEMENT_NEEDED: Final = Text("PodsFailed", "Some Failed pods need replacement")
NO_REPLACEMENT_NEEDED: Final = Text("PodsReady", "No pods need replacement")
GROUP_LABELS_DIFFER: Final = Text(
    GROUP_INVALID, "constructing workload: pods have different label values"
)
GROUP_ROLES: Final = Text(GROUP_INVALID, "pod group can't include more than 18 roles")


def group_finished(succeeded: int, total: int) -> Text:
    """Return the condition Finished of the Workload of a group."""
    return Text("Succeeded", f"Pods succeeded: {succeeded}/{total}.")


def group_queues_differ(pod: str, other: str, queue: str, queue_of_others: str) -> Text:
    """Return why a group waits: two of its pods name different queues."""
    return Text(
        GROUP_INVALID,
        f"pods '{pod}' and '{other}' has different queue names: {queue}!={queue_of_others}",
    )


def group_counts_differ(pod: str, other: str, count: str, count_of_others: str) -> Text:
    """Return why a group waits: two of its pods state different sizes of the group."""
    return Text(
        GROUP_INVALID,
        f"pods '{pod}' and '{other}' has different '{names.POD_GROUP_TOTAL_COUNT}' values: "
        f"{count}!={count_of_others}",
    )
