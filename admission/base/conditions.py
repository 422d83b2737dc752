"""Every condition that this program writes: its type, its reasons and its texts.

Which of them applies is decided elsewhere. Types, reasons and texts that Kueue has too are
Kueue's: clients and people search for them. Source: kueue apis/kueue/v1beta2 (types, reasons),
pkg/scheduler, pkg/workload, pkg/cache/scheduler and pkg/controller (texts).
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from admission.base import names


class Text(NamedTuple):
    """Reason (CamelCase) and message (for people) of a condition."""

    reason: str
    message: str


# ------------------------------------------------------------------------------------- types

# of Workloads
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
PODS_READY: Final = "PodsReady"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"
RUN_TIME_LIMITED: Final = f"{names.OWN_DOMAIN}/RunTimeLimited"
USES_SURGE_QUOTA: Final = f"{names.OWN_DOMAIN}/UsesSurgeQuota"
PREEMPTION_NOTICE: Final = f"{names.OWN_DOMAIN}/PreemptionNotice"
STOP_HELD_BACK: Final = f"{names.OWN_DOMAIN}/StopHeldBack"
START_REFUSED: Final = f"{names.OWN_DOMAIN}/StartRefused"

# of ClusterQueues and LocalQueues
ACTIVE: Final = "Active"
CAPACITY_SUFFICIENT: Final = f"{names.OWN_DOMAIN}/CapacitySufficient"
RELEASING: Final = f"{names.OWN_DOMAIN}/Releasing"
SURGE_QUOTA_IN_USE: Final = f"{names.OWN_DOMAIN}/SurgeQuotaInUse"
FLAVORS_CONSISTENT: Final = f"{names.OWN_DOMAIN}/FlavorsConsistent"
COSTS_EXACT: Final = f"{names.OWN_DOMAIN}/CostsExact"
SPEC_SUPPORTED: Final = f"{names.OWN_DOMAIN}/SpecSupported"

# of pods
POD_ADMITTED: Final = f"{names.OWN_DOMAIN}/Admitted"
POD_REVIEWED: Final = f"{names.OWN_DOMAIN}/Reviewed"
TERMINATION_TARGET: Final = "TerminationTarget"


# ------------------------------------------------------------------ Workloads: QuotaReserved=True


def quota_reserved(cluster_queue: str) -> Text:
    """Return the reason and message of a Workload that holds quota."""
    return Text("QuotaReserved", f"Quota reserved in ClusterQueue {cluster_queue}")


def over(message: str) -> Text:
    """Return the reason and message of Evicted and Preempted once a Workload has quota again.

    Args:
        message: message of the condition until now.
    """
    return Text("QuotaReserved", f"Previously: {message}")


# ----------------------------------------------------------------- Workloads: QuotaReserved=False


class WaitReason(StrEnum):
    """Reasons of the condition QuotaReserved=False; all but the last three are Kueue's."""

    WAITING_FOR_QUOTA = "WaitingForQuota"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"
    DEACTIVATED = "Deactivated"
    ADMISSION_GATED = "AdmissionGated"
    ADMISSION_PAUSED = "AdmissionPaused"
    CAP_REACHED = "CapReached"
    EXCEEDS_CAP = "ExceedsCap"


ON_HOLD: Final = "OnHold"
"""Reason that another program sets to keep the Workload out of the queue."""

NOT_JUDGED: Final = Text(
    WaitReason.PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue"
)
FAILED_CHECKS: Final = Text(
    WaitReason.PENDING_EVALUATION, "The workload has failed admission checks"
)
GATES_CLEARED: Final = Text(
    WaitReason.PENDING_EVALUATION, "AdmissionGatedBy cleared, waiting for quota reservation"
)
RESERVED_TWICE: Final = Text(
    WaitReason.PENDING_EVALUATION,
    "Quota was reserved twice while the leader changed; this one had not started",
)
DEACTIVATED: Final = Text(WaitReason.DEACTIVATED, "The workload is deactivated")
WRONG_NAMESPACE: Final = Text(
    WaitReason.MISCONFIGURED, "workload namespace doesn't match ClusterQueue selector"
)
NOT_ALL_READY: Final = Text(
    WaitReason.WAITING_FOR_PODS_READY,
    "waiting for all admitted workloads to be in PodsReady condition",
)
PAUSED: Final = Text(
    WaitReason.ADMISSION_PAUSED,
    "Admission is paused by the administrator: no workload gets quota. This one keeps its place in"
    " the queue and is considered when admission is resumed",
)


class CapPlace(NamedTuple):
    """The Workloads that a cap limits.

    Attributes:
        cluster_queue: the ClusterQueue whose quota they use.
        local_queue: the LocalQueue that they are in; empty for all of the ClusterQueue.
        user: the user who asked for them; empty for all users.
        namespace: their namespace, if their user is unknown; else empty.
    """

    cluster_queue: str
    local_queue: str
    user: str
    namespace: str

    @property
    def queue(self) -> str:
        """Return the queue that has the annotation."""
        return self.local_queue or self.cluster_queue

    @property
    def annotation(self) -> str:
        """Return the key of the annotation, without the domain."""
        key = names.MAX_PER_USER if self.user else names.MAX_IN_USE
        return key.partition("/")[2]


def cap_reached(place: CapPlace, resource: str, *, asked: str, most: str, held: str) -> Text:
    """Return why a Workload waits that would exceed a cap now; amounts are for people."""
    amounts = f"{held} of at most {most} {resource}"
    cap = f"queue {place.queue} ({place.annotation})"
    if not place.user:
        verdict = f"{cap} holds {amounts}"
    elif place.namespace:
        who = f"work of unknown users in namespace {place.namespace}"
        verdict = f"{who} holds {amounts} in {cap}"
    else:
        verdict = f"you ({place.user}) hold {amounts} in {cap}"
    return Text(WaitReason.CAP_REACHED, f"Waits: {verdict}; asks {asked} more")


def exceeds_cap(place: CapPlace, resource: str, *, asked: str, most: str) -> Text:
    """Return why a Workload that asks for more than a cap never starts; amounts are for people."""
    who = "a user may" if place.user else "all its work may"
    cap = f"queue {place.queue} ({place.annotation})"
    message = f"Too big: asks {asked} {resource}, {who} hold at most {most} in {cap}"
    return Text(WaitReason.EXCEEDS_CAP, message)


def evicted_before(message: str) -> Text:
    """Return why a Workload that was just evicted has no quota.

    Args:
        message: of the condition Evicted.
    """
    return Text(WaitReason.PENDING_EVALUATION, message)


def misconfigured(problem: str) -> Text:
    """Return why a Workload that breaks a rule has no quota."""
    return Text(WaitReason.MISCONFIGURED, problem)


def no_namespace(name: str) -> Text:
    """Return why a Workload whose namespace does not exist has no quota."""
    message = f'workload namespace "{name}" does not exist: Namespace "{name}" not found'
    return misconfigured(message)


def no_local_queue(name: str) -> Text:
    """Return why a Workload that names no existing LocalQueue has no quota."""
    return misconfigured(f"LocalQueue {name} doesn't exist")


def no_cluster_queue(name: str) -> Text:
    """Return why a Workload whose LocalQueue names no existing ClusterQueue has no quota."""
    return misconfigured(f"ClusterQueue {name} doesn't exist")


def inactive_local_queue(name: str) -> Text:
    """Return why a Workload of a stopped LocalQueue has no quota."""
    return Text(WaitReason.SUSPENDED, f"LocalQueue {name} is inactive")


def inactive_cluster_queue(name: str) -> Text:
    """Return why a Workload whose ClusterQueue admits nothing has no quota."""
    return Text(WaitReason.SUSPENDED, f"ClusterQueue {name} is inactive")


def queue_gone(kind: str, name: str) -> Text:
    """Return why the reservation was withdrawn: a queue does not exist or is being deleted."""
    return misconfigured(f"{kind} {name} is terminating or missing")


def queue_stopped(kind: str, name: str) -> Text:
    """Return why the reservation was withdrawn: a queue was stopped."""
    return Text(WaitReason.SUSPENDED, f"{kind} {name} is stopped")


def gated(gates: str) -> Text:
    """Return why a Workload with admission gates has no quota."""
    return Text(WaitReason.ADMISSION_GATED, f"Admission is gated by: {gates}")


# Messages of what a scheduling cycle decided; their reason is in the decision.

NO_LONGER_FITS: Final = "Workload no longer fits after processing another workload"
OVERLAPPING_TARGETS: Final = "Workload has overlapping preemption targets with another workload"
DEFERRED: Final = f"{OVERLAPPING_TARGETS}, but will fit after these preemptions complete"


def no_flavors(pod_sets: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return why pod sets get no flavors.

    Args:
        pod_sets: names, each with the messages of all flavors that were looked at.
    """
    return "; ".join(
        f"couldn't assign flavors to pod set {name}: {', '.join(sorted(messages))}"
        for name, messages in pod_sets
    )


def pending_preemption(message: str, count: int) -> str:
    """Return the message of a Workload that waits until its victims have left."""
    return f"{message}. Pending the preemption of {count} workload(s)"


def resource_unavailable(resource: str) -> str:
    """Return why no flavor fits: the ClusterQueue has no quota for a resource."""
    return f"resource {resource} unavailable in ClusterQueue"


def flavor_not_found(flavor: str) -> str:
    """Return why a flavor does not fit: it does not exist."""
    return f"flavor {flavor} not found"


def flavor_not_nominated(flavor: str, resource: str) -> str:
    """Return why a flavor does not fit: the Workload was nominated for other flavors before."""
    return (
        f"skipping flavor {flavor} as it is not found in the nomination mapping for "
        f"resource {resource}"
    )


def untolerated_taint(flavor: str, key: str, value: str, effect: str) -> str:
    """Return why a flavor does not fit: its taint is not tolerated."""
    return f"untolerated taint {{{key} {value} {effect} <nil>}} in flavor {flavor}"


def flavors_contradict(flavor: str, other: str, key: str, value: str, other_value: str) -> str:
    """Return why two flavors are not given together: they select no common node."""
    return (
        f"flavor {flavor} selects other nodes than flavor {other}, which is given with it: label"
        f" {key} is {value} and {other_value}"
    )


def other_nodes(flavor: str) -> str:
    """Return why a flavor does not fit: the pods select other nodes."""
    return f"flavor {flavor} doesn't match node affinity"


def insufficient_unused_quota(resource: str, flavor: str, more: str) -> str:
    """Return why a flavor does not fit: too much of its quota is in use.

    Args:
        resource: the resource that is short.
        flavor: the flavor.
        more: how much is missing, for people.
    """
    return f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"


def insufficient_quota(resource: str, flavor: str, before: str, request: str, limit: str) -> str:
    """Return why a flavor never fits: its quota is too small.

    Args:
        resource: the resource that is short.
        flavor: the flavor.
        before: amount for earlier pod sets of the Workload, for people.
        request: amount that this pod set asks for, likewise.
        limit: the most that the ClusterQueue could ever use, likewise.
    """
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets "
        f"requests ({before}) + current podset request ({request}) > maximum capacity ({limit})"
    )


# --------------------------------------------------------------------------- Workloads: Admitted

IS_ADMITTED: Final = Text("Admitted", "The workload is admitted")
CHECKS_OPEN: Final = Text("UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
NO_RESERVATION: Final = Text("NoReservation", "The workload has no reservation")


# ------------------------------------------------------ Workloads: Evicted, Preempted, Requeued


class EvictionReason(StrEnum):
    """Reasons of the condition Evicted that other code compares."""

    PREEMPTED = "Preempted"
    ADMISSION_CHECK = "AdmissionCheck"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    NODE_FAILURES = "NodeFailures"
    CLAIMS_CHANGED = "ResourceClaimsChanged"
    SURGE_ENDED = "SurgeEnded"
    POD_GROUP_STOPPED = "PodGroupStopped"
    FAILED_TO_START = "FailedToStart"
    DEACTIVATED = "Deactivated"


_DUE_TO: Final = "DueTo"
DEACTIVATED_BY_PROGRAM: Final = f"{EvictionReason.DEACTIVATED}{_DUE_TO}"
"""Beginning of the reason of Evicted of a Workload that this program deactivated."""


def deactivated_due_to(target: Text) -> Text:
    """Return why a Workload that this program deactivated is evicted.

    Args:
        target: reason and message of the condition DeactivationTarget.
    """
    message = f"{DEACTIVATED.message} due to {target.message}"
    return Text(f"{DEACTIVATED_BY_PROGRAM}{target.reason}", message)


def eviction_cause(reason: str) -> tuple[str, str]:
    """Return the reason of Evicted without its cause, and the cause, which may be empty."""
    base, _, cause = reason.partition(_DUE_TO)
    return base, cause


def check_retries(summary: str) -> Text:
    """Return why a Workload is evicted whose admission check is in the state Retry."""
    return Text(EvictionReason.ADMISSION_CHECK, f"Evicted due to {summary}")


CLAIMS_CHANGED: Final = Text(
    EvictionReason.CLAIMS_CHANGED,
    "Its ResourceClaims or ResourceClaimTemplates were deleted or replaced after its quota was "
    "reserved, and ask for more than was reserved",
)


CLAIMS_WITHOUT_QUEUE: Final = Text(
    "GPUsWithoutQueue",
    "Its ResourceClaims were given GPUs that no queue admitted, and its namespace enforces queues",
)


def queue_drained(kind: str) -> Text:
    """Return why a Workload is evicted whose queue is stopped and drained."""
    return Text(f"{kind}Stopped", f"The {kind} is stopped")


def pods_ready_timeout(workload: str) -> Text:
    """Return why a Workload is evicted whose pods were not ready in time."""
    message = f"Exceeded the PodsReady timeout {workload}"
    return Text(EvictionReason.PODS_READY_TIMEOUT, message)


def start_refused(error: str) -> Text:
    """Return why an admitted Workload or pod is not started: the API server refuses it."""
    cause = " ".join(error.split())  # it may have lines, and tabs
    return Text("StartRefused", f"Admitted, but the API server refuses to start it: {cause}")


def refused_for_long(minutes: float, error: str) -> Text:
    """Return why a Workload is evicted that the API server refused to start.

    Args:
        minutes: how long the refusals lasted.
        error: the last error of the API server.
    """
    waited = f"{minutes:g} minutes" if minutes != 1 else "1 minute"
    message = f"The API server has refused to start it for {waited}: {error}"
    return Text(EvictionReason.PODS_READY_TIMEOUT, message)


def not_started_in_time(minutes: float, counts: "MemberCounts") -> Text:
    """Return why a Workload is evicted whose pods did not all start in time.

    Args:
        minutes: how long they had.
        counts: how many of its pods exist, have a node and are ready.
    """
    waited = f"{minutes:g} minutes" if minutes != 1 else "1 minute"
    message = f"Not all pods were ready within {waited}: {counts.text}"
    return Text(EvictionReason.PODS_READY_TIMEOUT, message)


ORDERED_EVICTIONS: Final = frozenset(
    {
        EvictionReason.PREEMPTED,
        EvictionReason.DEACTIVATED,
        *(queue_drained(kind).reason for kind in ("ClusterQueue", "LocalQueue")),
    }
)
"""Reasons of evictions that somebody ordered for this Workload or its queue."""


class PreemptionReason(StrEnum):
    """Why a victim was chosen; reasons of the condition Preempted."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


_PREEMPTED_FOR: Final = {
    PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    PreemptionReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: (
        "reclamation within the cohort while borrowing"
    ),
}


def preempted(
    reason: PreemptionReason, *, uid: str, job_uid: str, preemptor: str, preemptee: str
) -> str:
    """Return the message of Evicted and of Preempted of a victim.

    Args:
        reason: why the victim was chosen.
        uid: UID of the preemptor, the Workload that gets the quota.
        job_uid: UID of the preemptor's owner.
        preemptor: path of the preemptor's ClusterQueue in the tree of cohorts.
        preemptee: path of the victim's ClusterQueue.
    """
    return (
        f"Preempted to accommodate a workload (UID: {uid or 'UNKNOWN'}, "
        f"JobUID: {job_uid or 'UNKNOWN'}) due to {_PREEMPTED_FOR[reason]}; "
        f"preemptor path: {preemptor}; preemptee path: {preemptee}"
    )


_PREEMPTOR: Final = re.compile(r"\(UID: ([^,]+), JobUID: ")


def preemptor_uid(message: str) -> str:
    """Return the UID of the preemptor of a victim; empty if the message names none.

    Args:
        message: message of the victim's condition Evicted or Preempted; see `preempted`.
    """
    found = _PREEMPTOR.search(message)
    return found[1] if found else ""


REACTIVATED: Final = Text("Reactivated", "The workload was reactivated")
BACKOFF_FINISHED: Final = Text("BackoffFinished", "The workload backoff was finished")


def queue_restarted(kind: str) -> Text:
    """Return why a Workload whose queue was drained may be tried again."""
    return Text(f"{kind}Restarted", f"The {kind} was restarted after being stopped")


# -------------------------------------------------- Workloads: PreemptionNotice, StopHeldBack


def preemption_notice(what: str, time: str, needs: str, preemptor: str) -> Text:
    """Return the notice for a preempted owner or pod that continues to run for a while.

    Args:
        what: what is stopped, such as ``pod``.
        time: when it is stopped.
        needs: subject and verb for what the preemptor needs: `NEEDS_GPUS` or `NEEDS_QUOTA`.
        preemptor: name of the preemptor; see `ranked`.
    """
    return Text(
        "Preempted",
        f"This {what} is stopped at {time}: its {needs} needed by {preemptor}. Save your work",
    )


NEEDS_GPUS: Final = "GPUs are"
NEEDS_QUOTA: Final = "quota is"
ANOTHER_WORKLOAD: Final = "another workload"


def ranked(name: str, priority: int) -> str:
    """Return the name of a preemptor with its priority.

    Args:
        name: its namespace and name.
        priority: priority of its Workload.
    """
    return f"{name} (priority {priority})"


_LOST_QUOTA: Final = "it has lost its quota"


def stop_held_back(why: Text, per_minute: int) -> Text:
    """Return why an owner that is to be stopped still runs.

    Args:
        why: why it is to be stopped.
        per_minute: number of stops that are allowed in a minute.
    """
    message = why.message.rstrip(".") or _LOST_QUOTA
    return Text(
        "TooManyStops",
        f"It still runs and is to be stopped: {message}. Stops "
        f"beyond {per_minute} a minute are held back; an administrator lets them go with: "
        "gpu-admission stops allow",
    )


# ---------------------------------------------------------------- Workloads: DeactivationTarget

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


# ------------------------------------------------------------------- Workloads: RunTimeLimited


def said_by(annotation: str, kind: str, queue: str) -> str:
    """Return the words for the annotation of a queue that limits the run time of a Workload."""
    return f"{annotation} of {kind} {queue}"


def run_time_limited(annotation: str, kind: str, queue: str, time: str) -> Text:
    """Return the condition of an admitted Workload whose run time a queue limits.

    Args:
        annotation: annotation of the queue that sets the limit.
        kind: kind of the queue.
        queue: name of the queue.
        time: how long the Workload may run.
    """
    is_cap = annotation == names.MAXIMUM_RUN_TIME
    reason = "MaximumRunTime" if is_cap else "DefaultRunTime"
    message = (
        f"It is deactivated once it has been admitted for {time} in all:"
        f" {said_by(annotation, kind, queue)}. The label {names.MAX_EXEC_TIME_LABEL} sets"
        f" {'a shorter' if is_cap else 'another'} time"
    )
    return Text(reason, message)


# ----------------------------------------------------------------------- Workloads: PodsReady


class PodsReadyReason(StrEnum):
    """Reasons of the condition PodsReady."""

    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    STARTED = "Started"
    RECOVERED = "Recovered"


_PODS_READY: Final = {
    PodsReadyReason.WAIT_FOR_START: "Not all pods are ready or succeeded",
    PodsReadyReason.WAIT_FOR_RECOVERY: "At least one pod has failed, waiting for recovery",
    PodsReadyReason.STARTED: "All pods reached readiness and the workload is running",
    PodsReadyReason.RECOVERED: "All pods reached readiness and the workload is running",
}


LARGEST_NODE: Final = ", the largest node has "
"""How a sentence says that a pod asks for more than any node has."""


class MemberCounts(NamedTuple):
    """How many pods of a Workload there are.

    Attributes:
        asked: pods that it was admitted with.
        created: pods that exist and have not failed.
        scheduled: pods that are bound to a node.
        ready: pods that are ready or have succeeded.
        why: the scheduler's message about pods that are not bound; empty if there is none.
        lost_nodes: nodes that are not ready and have pods of it.
    """

    asked: int
    created: int
    scheduled: int
    ready: int
    why: str = ""
    lost_nodes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return what the Workload lacks to run, and where to look."""
        hint = "; the events of its owner may say why" if self.created < self.asked else ""
        return f"{self.missing}{hint}"

    @property
    def missing(self) -> str:
        """Return the first thing that the Workload lacks to run."""
        if self.created < self.asked:
            return f"{self.created} of {self.asked} pods are created"
        if self.scheduled < self.asked:
            why = f": {self.why}" if self.why else ""
            return f"{self.scheduled} of {self.asked} pods are scheduled{why}"
        if self.lost_nodes:
            return f"{self.ready} of {self.asked} pods are ready: {_not_ready(self.lost_nodes)}"
        return f"{self.ready} of {self.asked} pods are ready"

    @property
    def exceeds_every_node(self) -> bool:
        """Return whether a pod asks for more than the largest node of its flavor has."""
        return LARGEST_NODE in self.why

    @property
    def is_explained(self) -> bool:
        """Return whether the scheduler or a node says why a pod does not run."""
        return bool(self.why or self.lost_nodes)

    @property
    def is_stuck(self) -> bool:
        """Return whether a pod is missing, or has no node, or is on one that is not ready."""
        return self.scheduled < self.asked or bool(self.lost_nodes)


_NODES_NAMED: Final = 3
_NOT_READY: Final = re.compile(r"pods are ready: node.* not ready")


def _not_ready(nodes: Sequence[str]) -> str:
    """Return which nodes are not ready."""
    more = len(nodes) - _NODES_NAMED
    named = ", ".join(nodes[:_NODES_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"node {named} is not ready" if len(nodes) == 1 else f"nodes {named} are not ready"


def says_lost_node(message: str) -> bool:
    """Return whether a message with counts says that a node is not ready."""
    return _NOT_READY.search(message) is not None


def pods_ready(reason: PodsReadyReason, counts: MemberCounts | None = None) -> Text:
    """Return the reason and message of PodsReady.

    Args:
        reason: reason of the condition.
        counts: counts of its pods, if the message shall contain them.
    """
    more = "" if counts is None else f": {counts.text}"
    return Text(reason, f"{_PODS_READY[reason]}{more}")


def says_counts(message: str) -> bool:
    """Return whether a message of PodsReady contains the counts of pods."""
    return any(message.startswith(f"{text}: ") for text in _PODS_READY.values())


# ------------------------------------------------------------------------ Workloads: Finished

OWNER_NOT_FOUND: Final = Text("OwnerNotFound", "The workload's owner no longer exists")
OUT_OF_SYNC: Final = Text("OutOfSync", "The prebuilt workload is out of sync with its user job")
FAILED_TO_START: Final = EvictionReason.FAILED_TO_START.value


def contradicts_admission(key: str, admitted_value: str, pod_value: str) -> Text:
    """Return why a Workload gives its quota back: its pods contradict what it was admitted with.

    Args:
        key: a label of nodes, or a label or annotation.
        admitted_value: its value in the admission.
        pod_value: its value in the pods.
    """
    return Text(
        FAILED_TO_START,
        f"Could not start: its pods ask for {key}={pod_value}, and it was admitted with"
        f" {admitted_value}. Its quota is free; make pods and flavor agree, and it is tried again",
    )


def checks_contradict(conflict: str) -> Text:
    """Return why a Workload gives its quota back: its checks contradict a flavor or each other.

    Args:
        conflict: which one wants what, as Kueue says it.
    """
    return Text(
        FAILED_TO_START,
        f"Could not start: {conflict}. Its quota is free; make the checks agree, and it is tried"
        " again",
    )


SLICE_REPLACED: Final = "WorkloadSliceReplaced"


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


ENDED_WITH_OWNER: Final = ("Succeeded", "Failed")
"""Reasons of `owner_finished`."""

RUNS_AGAIN: Final = Text(
    "RunsAgain",
    "Had ended and runs again, without quota: it is suspended, and waits for quota anew",
)


# ----------------------------------------------------------- Workloads: states of admission checks


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


# ----------------------------------------------------------------------- ClusterQueues: Active

CAN_ADMIT: Final = Text("Ready", "Can admit new workloads")

# Why a ClusterQueue admits nothing: reason, and part of the message. Several may apply.
QUEUE_TERMINATING: Final = Text("Terminating", "is terminating")
QUEUE_STOPPED: Final = Text("Stopped", "is stopped")


def admits_nothing(blockers: Sequence[Text]) -> Text:
    """Return why a ClusterQueue admits nothing.

    Args:
        blockers: at least one; the reason is that of the first.
    """
    first = blockers[0]
    if first == QUEUE_TERMINATING:
        return Text(first.reason, "Can't admit new workloads; clusterQueue is terminating")
    parts = ", ".join(part for _, part in blockers)
    return Text(first.reason, f"Can't admit new workloads: {parts}.")


def flavors_not_found(flavors: Iterable[str]) -> Text:
    """Return what blocks a ClusterQueue whose flavors do not exist."""
    return Text("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(flavors)}")


def cohort_cycle(cohorts: Iterable[str]) -> Text:
    """Return what blocks a ClusterQueue below Cohorts each of which is above itself."""
    first, *rest = cohorts
    path = " -> ".join((first, *rest, first))
    return Text(
        "CohortCycle", f"its Cohorts form a cycle ({path}): correct spec.parentName of one of them"
    )


def checks_not_found(checks: Iterable[str]) -> Text:
    """Return what blocks a ClusterQueue whose admission checks do not exist."""
    message = f"references missing AdmissionCheck(s): {','.join(checks)}"
    return Text("AdmissionCheckNotFound", message)


def checks_inactive(checks: Iterable[str]) -> Text:
    """Return what blocks a ClusterQueue whose admission checks are not active."""
    message = f"references inactive AdmissionCheck(s): {','.join(checks)}"
    return Text("AdmissionCheckInactive", message)


def several_multi_kueue(checks: Iterable[str]) -> Text:
    """Return what blocks a ClusterQueue with two admission checks of MultiKueue."""
    found = ",".join(checks)
    return Text(
        "MultipleMultiKueueAdmissionChecks",
        f"Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {found}",
    )


def multi_kueue_per_flavor(checks: Iterable[str]) -> Text:
    """Return what blocks a ClusterQueue with MultiKueue for some flavors only."""
    message = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(checks)}"
    return Text("MultiKueueAdmissionCheckAppliedPerFlavor", message)


def multi_kueue_with_provisioning(remote: Iterable[str], provisioned: Iterable[str]) -> Text:
    """Return what blocks a ClusterQueue with MultiKueue and ProvisioningRequests.

    Args:
        remote: admission checks of MultiKueue.
        provisioned: those of ProvisioningRequests.
    """
    return Text(
        "MultiKueueWithProvisioningRequest",
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
        f"found: {','.join(remote)}, {','.join(provisioned)}",
    )


def topologies_not_found(missing: Iterable[tuple[str, str]]) -> Text:
    """Return what blocks a ClusterQueue whose flavors name Topologies that do not exist.

    Args:
        missing: Topology and flavor.
    """
    parts = (
        f'there is no Topology "{topology}" for TAS flavor "{flavor}"'
        for topology, flavor in missing
    )
    return Text("TopologyNotFound", ", ".join(parts))


# ------------------------------------------------------------------------- LocalQueues: Active

CAN_SUBMIT: Final = Text("Ready", "Can submit new workloads to localQueue")
LOCAL_QUEUE_STOPPED: Final = Text("Stopped", "LocalQueue is stopped")
CLUSTER_QUEUE_MISSING: Final = Text(
    "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
)
CLUSTER_QUEUE_INACTIVE: Final = Text(
    "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
)


def spec_unreadable(problem: str) -> Text:
    """Return why a queue whose spec breaks a rule admits nothing; Kueue has no reason for it."""
    return Text("Unknown", f"The spec cannot be read: {problem or 'it was not accepted'}")


# ----------------------------------------------------- ClusterQueues: GPUs, fields without effect


PODS_ENDING: Final = "PodsEnding"
"""Reason for quota that is not free yet because stopped pods have not ended."""


def waits_for_owner(kind: str, name: str) -> Text:
    """Return why a gated pod of an owner with a queue has no Workload of its own."""
    message = (
        f"Waits for {kind} {name}, which is admitted as a whole and was started by somebody else."
        f" The {kind} is suspended until its Workload is admitted"
    )
    return Text("WaitsForJob", message)


def not_reviewed(asked: Sequence[str]) -> Text:
    """Return what a pod says that the API server held, as nobody reviewed it.

    Args:
        asked: annotations of it that ask for what only a review can do.
    """
    advice = "Delete the pod and create it again to get that"
    lost = f". {', '.join(asked)}: without effect. {advice}" if asked else ""
    return Text(
        "NotReviewed",
        "The webhook did not answer when the pod was created, so the API server held it. Its"
        " requests are as they were written, no toleration was added, and who created it is not"
        f" known{lost}",
    )


def uses_surge_quota(cluster_queue: str) -> Text:
    """Return the condition of a Workload that is charged to surge quota."""
    return Text(
        "Surge",
        f"Charged to the surge quota of ClusterQueue {cluster_queue} until an earlier pod of its"
        " Deployment has ended",
    )


IN_QUOTA: Final = Text("InQuota", "Charged to the quota of the ClusterQueue")
SURGE_ENDED: Final = Text(
    EvictionReason.SURGE_ENDED,
    "Its Deployment does not surge any more, and the ClusterQueue has no quota for this pod",
)


def surge_quota_in_use(amounts: Iterable[tuple[str, ...]]) -> Text:
    """Return the condition of a ClusterQueue while pods use its surge quota.

    Args:
        amounts: name, flavor, used and total amount of each resource.
    """
    listed = (f"{used} of {most} {name} in flavor {where}" for name, where, used, most in amounts)
    return Text("Surge", f"Pods of rolling updates use {', '.join(listed)} of the surge quota")


def releasing(pods: Sequence[str], count: int) -> Text:
    """Return the condition of a ClusterQueue while stopped or deleted pods still hold quota.

    Args:
        pods: namespace, name and node of the first few pods.
        count: number of such pods.
    """
    more = f" and {count - len(pods)} more" if count > len(pods) else ""
    subject = "1 pod still holds" if count == 1 else f"{count} pods still hold"
    message = (
        f"{subject} quota that should be free: {', '.join(pods)}{more}. It is free once they have"
        " ended; kubectl get pod shows why they have not"
    )
    return Text(PODS_ENDING, message)


def capacity_sufficient(more: Iterable[str]) -> Text:
    """Return the condition of a ClusterQueue whose quota does not exceed the GPUs that exist.

    Args:
        more: further sentences about its GPUs.
    """
    parts = ("All GPUs that the nominal quota promises exist", *more)
    return Text("CapacitySufficient", "; ".join(parts))


def quota_exceeds_capacity(shortages: Iterable[str], more: Iterable[str]) -> Text:
    """Return the condition of a ClusterQueue whose quota exceeds the GPUs that exist.

    Args:
        shortages: one sentence for each resource and flavor; see `shortage`.
        more: further sentences about its GPUs.
    """
    return Text("QuotaExceedsCapacity", "; ".join((*shortages, *more)))


def shortage(
    resource: str,
    flavor: str,
    *,
    promised: str,
    exist: str,
    healthy: str,
    sick: str,
    outside: str,
    others: str,
    overlaps: Sequence[str] = (),
) -> str:
    """Return how many GPUs a quota promises and how many exist; amounts are for people.

    Args:
        resource: resource of the quota.
        flavor: flavor of the quota.
        promised: nominal quota.
        exist: amount of it that exists.
        healthy: healthy amount.
        sick: amount that is not healthy; empty for none.
        outside: amount that pods without a queue hold, likewise.
        others: amount that is promised to queues before this one, likewise.
        overlaps: other flavors that select nodes of this one.
    """
    before = f"promised to queues{' and flavors' if overlaps else ''} before this one"
    parts = [
        f"{value} {what}"
        for value, what in (
            (healthy, "healthy"),
            (sick, "sick"),
            (outside, "held by pods without a queue"),
            (others, before),
        )
        if value
    ]
    return (
        f"{resource} in flavor {flavor}: quota promises {promised}, {exist} exist "
        f"({', '.join(parts)}){_same_nodes(overlaps)}"
    )


def _same_nodes(flavors: Sequence[str]) -> str:
    if not flavors:
        return ""
    verb = "selects" if len(flavors) == 1 else "select"
    noun = "flavor" if len(flavors) == 1 else "flavors"
    return f"; {noun} {', '.join(flavors)} {verb} the same nodes"


_SHORT_FLAVOR: Final = re.compile(r"\S+ in flavor (\S+): quota promises ")


def short_flavors(message: str) -> frozenset[str]:
    """Return the flavors of which a ClusterQueue says that it promises more than exists."""
    return frozenset(_SHORT_FLAVOR.findall(message))


AND_MORE_NODES: Final = "and more nodes"


def fragmented(resource: str, flavor: str, text: str) -> str:
    """Return the sentence about how the free GPUs of a flavor are spread over nodes.

    Args:
        resource: resource of the quota.
        flavor: flavor of the quota.
        text: how they are spread.
    """
    return f"{resource} in flavor {flavor}: {text}"


COSTS_ARE_EXACT: Final = Text("CostsExact", "The products of all flavors are known")


def costs_assumed(doubts: Iterable[str]) -> Text:
    """Return the condition of a ClusterQueue with flavors whose GPU product is unknown."""
    return Text("CostsAssumed", "; ".join(doubts))


def flavors_without_nodes(pairs: Iterable[str]) -> Text:
    """Return the condition of a ClusterQueue with resource groups that no node serves together.

    Args:
        pairs: flavors of two groups, each with the label by which they differ.
    """
    return Text(
        "FlavorsContradict",
        "What asks for resources of both groups is never admitted, as no node is in a flavor of"
        f" each: {'; '.join(pairs)}. Put the resources into one group, or give the flavors node"
        " labels that one node can have",
    )


def cap_unreadable(problem: str) -> Text:
    """Return why a ClusterQueue with an invalid cap admits nothing."""
    return Text("CapUnreadable", f"Nothing is admitted until this cap is corrected: {problem}")


def fields_without_effect(fields: Iterable[str]) -> Text:
    """Return the condition of a ClusterQueue with fields that only Kueue supports.

    Args:
        fields: each field, with what happens instead.
    """
    return Text(
        "FieldsWithoutEffect",
        f"Without effect: {'; '.join(fields)}. See docs/limits-of-support.md",
    )


CONCURRENT_ADMISSION: Final = "spec.concurrentAdmissionPolicy (flavors are tried in their order)"


def topology_without_effect(flavors: Iterable[str]) -> str:
    """Return what happens instead of placement by topology.

    Args:
        flavors: names of the flavors with a Topology.
    """
    return (
        f"spec.topologyName of ResourceFlavor {', '.join(flavors)} "
        "(quota is granted without regard to racks or blocks)"
    )


# -------------------------------------------------------------- pods: why one is not admitted


def claim_unknown(problem: str) -> Text:
    """Return why a pod whose ResourceClaims cannot be resolved waits."""
    return Text("ResourceClaimUnknown", problem)


def queue_required_in_namespace(namespace: str) -> Text:
    """Return why a pod without a queue waits in a namespace that enforces queues."""
    by = f"its label {names.ENFORCE_LABEL}, or the mode of the installation"
    return _queue_required(f"namespace {namespace}", by)


def queue_required_in_cluster() -> Text:
    """Return why a pod without a queue waits in a cluster that enforces queues."""
    return _queue_required("this cluster", "manageJobsWithoutQueueName")


def _queue_required(who: str, by: str) -> Text:
    return Text(
        "QueueRequired",
        f"{who} admits GPU pods through a queue only ({by}); create a LocalQueue named "
        f"{names.DEFAULT_LOCAL_QUEUE}, or give the pod the label {names.QUEUE_LABEL}",
    )


# ------------------------------------------- pods and Jobs: what they name does not exist

PRIORITY_CLASS_NOT_FOUND: Final = "WorkloadPriorityClassNotFound"
PREBUILT_NOT_FOUND: Final = "PrebuiltWorkloadNotFound"


def priority_class_not_found(kind: str, name: str) -> Text:
    """Return why an owner that names a priority class waits: the class does not exist."""
    return Text(PRIORITY_CLASS_NOT_FOUND, f'{kind} "{name}" not found')


def pod_priority_class_not_found(name: str) -> Text:
    """Return why a gated pod that names a priority class waits: the class does not exist."""
    reason, message = priority_class_not_found("WorkloadPriorityClass", name)
    hint = f"create it, or recreate the pod without the label {names.PRIORITY_CLASS_LABEL}"
    return Text(reason, f"{message}; {hint}")


def prebuilt_not_found(key: str) -> Text:
    """Return why an owner that names a Workload waits: the Workload does not exist."""
    return Text(PREBUILT_NOT_FOUND, f'Prebuilt workload "{key}" not found')


def prebuilt_is_deleted(key: str) -> Text:
    """Return why an owner that names a Workload waits: the Workload is being deleted."""
    reason, message = prebuilt_not_found(key)
    return Text(reason, f"{message}: it is being deleted")


def prebuilt_is_controlled(key: str, kind: str, name: str) -> Text:
    """Return why an owner that names a Workload waits: it belongs to another object."""
    reason, message = prebuilt_not_found(key)
    return Text(reason, f"{message}: it is controlled by {kind} {name}")


def prebuilt_is_of_pods(key: str, pod: str = "") -> Text:
    """Return why an owner that names a Workload waits: pods use it.

    Args:
        key: identity of the Workload.
        pod: name of one of them that runs; empty for those of a group.
    """
    reason, message = prebuilt_not_found(key)
    return Text(reason, f"{message}: it is used by {f'Pod {pod}' if pod else 'a group of pods'}")


# ------------------------------------------------- pods and Jobs: why one is deleted or suspended

WORKLOAD_MISSING: Final = Text(
    "NoMatchingWorkload", "Missing Workload; unable to restore pod templates"
)
NAMED_WORKLOAD_MISSING: Final = Text("NoMatchingWorkload", "missing workload")
OTHER_COUNT: Final = Text(
    "NoMatchingWorkload",
    "No matching Workload; restoring pod templates according to existent Workload",
)
STOPPED_NOT_ADMITTED: Final = Text("NotAdmitted", "Not admitted by cluster queue")
STARTED_OTHERWISE: Final = Text(
    "StartedBySomebodyElse",
    "Somebody else started it just as it was admitted, so its pods lack the node selectors and"
    " tolerations of its flavors. It keeps its quota and is started again at once. Leave it to the"
    " controller to start it",
)


def stopped_by_eviction(reason: str, message: str) -> Text:
    """Return why an owner is stopped whose Workload is evicted for this reason."""
    return Text(f"WorkloadEvictedDueTo{reason}", message)


# ------------------------------------------------------------------------------- groups of pods

GROUP_INCOMPLETE: Final = "PodGroupIncomplete"
GROUP_INVALID: Final = "PodGroupInvalid"
WORKLOAD_NAME_CONFLICT: Final = "WorkloadNameConflict"

REPLACEMENT_NEEDED: Final = Text("PodsFailed", "Some Failed pods need replacement")
NO_REPLACEMENT_NEEDED: Final = Text("PodsReady", "No pods need replacement")
GROUP_LABELS_DIFFER: Final = Text(
    GROUP_INVALID, "constructing workload: pods have different label values"
)
GROUP_ROLES: Final = Text(GROUP_INVALID, "pod group can't include more than 18 roles")
GROUP_SHORT: Final = Text(
    "PendingEvaluation", "A pod of the group was deleted before the group started"
)
GROUP_FULL: Final = "PodGroupFull"

GROUP_RUNS_WITHOUT_WORKLOAD: Final = Text(
    "PodGroupRunning",
    "the Workload of the group was deleted while other pods of the group run; the group is "
    "admitted again once they have ended",
)


def group_finished(succeeded: int, total: int) -> Text:
    """Return the condition Finished of the Workload of a group."""
    return Text("Succeeded", f"Pods succeeded: {succeeded}/{total}.")


def group_incomplete(name: str, there: int, total: int) -> Text:
    """Return the condition of the first pod of a group that lacks pods.

    Args:
        name: name of the group.
        there: number of its pods that exist and have not failed.
        total: number of pods that the group needs.
    """
    return Text(
        GROUP_INCOMPLETE,
        f"{there} of {total} pods of group {name} are there; they are admitted together",
    )


def waits_for_application(name: str) -> Text:
    """Return why a gated pod of a SparkApplication waits: the application is not admitted."""
    return Text("WaitsForSparkApplication", f"Waits until SparkApplication {name} is admitted")


def application_is_full(role: str, count: int) -> Text:
    """Return why a gated pod waits: its SparkApplication was admitted with fewer pods."""
    return Text(
        "SparkApplicationIsFull",
        f"The SparkApplication was admitted with {count} pods of role {role}, which all exist",
    )


OTHER_DEVICES: Final = Text(
    "AsksForOtherDevices",
    "Asks for other devices than the SparkApplication was admitted with: request GPUs with"
    " spec.driver.gpu and spec.executor.gpu",
)


JOB_SET_MISSING: Final = Text(
    "JobSetNotFound",
    "Kubeflow Trainer has not created its JobSet yet, which defines its pods: check that its"
    " runtime exists and that the trainer (2.2 or later) runs",
)


def gang_missing(resource: str, name: str) -> Text:
    """Return why pods wait: their PodGroup does not exist.

    Args:
        resource: resource of the PodGroup, with its API group.
        name: name of the PodGroup.
    """
    return Text(
        "PodGroupNotFound",
        f"{resource} {name} does not exist: create it, as it says how many pods start together",
    )


def gang_incomplete(resource: str, name: str, there: int, minimum: int) -> Text:
    """Return the condition of the first pod of a PodGroup that lacks pods.

    Args:
        resource: resource of the PodGroup, with its API group.
        name: name of the PodGroup.
        there: number of its pods that exist and have not failed.
        minimum: number of pods that must start together.
    """
    return Text(
        GROUP_INCOMPLETE,
        f"{there} of at least {minimum} pods of {resource} {name} are there; they are admitted "
        f"together. Pods without GPUs count if they have the label {names.QUEUE_LABEL}",
    )


def gang_stopped(workload: str) -> Text:
    """Return why the Workload of a pod beyond the minimum of its PodGroup is evicted.

    Args:
        workload: the Workload of the PodGroup.
    """
    return Text(
        EvictionReason.POD_GROUP_STOPPED,
        f"Workload {workload} of this pod's PodGroup was stopped, and the pod is of no use on its "
        "own",
    )


def groups_differ(one: str, other: str) -> Text:
    """Return why the pods of two groups wait: their Workloads would have the same name."""
    return Text(
        GROUP_INVALID,
        f"pods '{one}' and '{other}' belong to different groups whose Workloads would have the "
        f"same name: change the annotation {names.POD_GROUP_NAME}",
    )


def group_waits_as(first: str) -> Text:
    """Return the condition of the other pods of a group that has no Workload yet.

    Args:
        first: the pod whose condition says what the group waits for.
    """
    return Text(GROUP_INCOMPLETE, f"waits for its group; pod {first} says what for")


def group_queues_differ(one: str, other: str, queue: str, others: str) -> Text:
    """Return why a group waits: two of its pods name different queues."""
    return Text(
        GROUP_INVALID,
        f"pods '{one}' and '{other}' has different queue names: {queue}!={others}",
    )


def group_counts_differ(one: str, other: str, count: str, others: str) -> Text:
    """Return why a group waits: two of its pods state different sizes of the group."""
    return Text(
        GROUP_INVALID,
        f"pods '{one}' and '{other}' has different '{names.POD_GROUP_TOTAL_COUNT}' values: "
        f"{count}!={others}",
    )


def group_requests_differ(one: str, other: str, role: str) -> Text:
    """Return why a group waits: two of its pods have the same role but different requests."""
    return Text(
        GROUP_INVALID,
        f"pods '{one}' and '{other}' have the same role {role} and different requests: leave the "
        f"annotation {names.ROLE_HASH} out, or give them different ones",
    )


def group_role(pod: str, role: str) -> Text:
    """Return why a group waits: one of its pods has an invalid role."""
    return Text(
        GROUP_INVALID,
        f"pod '{pod}' has the annotation {names.ROLE_HASH}={role}, which must be a DNS label: "
        "leave it out",
    )


def waits_for_serving_owner(kind: str, name: str) -> Text:
    """Return why a pod waits: its serving owner does not exist.

    Args:
        kind: kind of the owner.
        name: name of the owner; empty if the pod names none.
    """
    who = f"{kind} {name}" if name else f"a {kind}, but names none"
    return Text("WaitsForOwner", f"Waits for {who}; the pod is admitted as one of its pods")


def serving_owner_has_grown(kind: str, name: str, admitted: int) -> Text:
    """Return why pods wait: their owner was admitted with fewer pods."""
    return Text(
        "ScaledWhileAdmitted",
        f"{kind} {name} was admitted with {admitted} pods; scale it to 0, and then to the new"
        " number",
    )


def group_is_full(name: str, admitted: int, total: int) -> Text:
    """Return why a pod of an admitted group waits: all pods that were admitted are there."""
    if admitted < total:
        return Text(
            GROUP_FULL,
            f"group {name} was admitted with {admitted} of {total} pods: there was no quota for"
            " more when its Workload was made again; scale it to 0 and back to"
            f" {total} to ask for all",
        )
    return Text(
        GROUP_FULL,
        f"the {admitted} pods with which group {name} was admitted are there; this pod starts when"
        " one of them has ended",
    )


def group_lacks(name: str, missing: int, total: int) -> Text:
    """Return why a group waits: failed or deleted pods have not been replaced."""
    return Text(
        GROUP_INCOMPLETE,
        f"{missing} of {total} pods of group {name} failed or were deleted; the group is admitted "
        "when others have taken their place",
    )


def group_index(pod: str, index: str, total: int) -> Text:
    """Return why a group waits: one of its pods has an invalid index."""
    return Text(
        GROUP_INVALID,
        f"pod '{pod}' has the label {names.POD_GROUP_POD_INDEX_LABEL}={index}, which must be a "
        f"whole number from 0 to {total - 1}",
    )


def group_name_taken(name: str) -> Text:
    """Return why a group waits: another Workload has its name."""
    return Text(
        WORKLOAD_NAME_CONFLICT,
        f'A Workload named "{name}" already exists but is not a pod group workload; this pod '
        "group cannot be admitted",
    )


def group_is_over(name: str) -> Text:
    """Return why a pod waits: its group has ended."""
    return Text("PodGroupFinished", f"group {name} has ended; use another name for a new one")


def group_has_other_roles(role: str) -> Text:
    """Return why a pod waits: it fits no pod set of its group."""
    return Text(
        GROUP_INVALID,
        f"the group was admitted with no pods like this one: none of role {role}, or with smaller "
        "requests; delete this pod",
    )
