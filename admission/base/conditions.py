"""Every condition that this program writes: its type, its reasons and its texts.

Which of them applies is decided elsewhere. Types, reasons and texts that Kueue has too are
Kueue's: clients and people search for them.
"""

from typing import Final, NamedTuple

from admission.base import names


class Text(NamedTuple):
    """Reason (CamelCase) and message (for people) of a condition."""

    reason: str
    message: str


# --------------------------------------------------------------------------- types of Workloads

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
PODS_READY: Final = "PodsReady"
DEACTIVATION_TARGET: Final = "DeactivationTarget"

# ------------------------------------------------------------------- types of queues and cohorts

ACTIVE: Final = "Active"

# -------------------------------------------------------------------------------- types of pods

POD_ADMITTED: Final = f"{names.OWN_DOMAIN}/Admitted"
TERMINATION_TARGET: Final = "TerminationTarget"


# -------------------------------------------------------------- pods: why one is not admitted


def pod_admitted(cluster_queue: str) -> Text:
    """Return what a pod says that waited and is admitted now."""
    return Text("Admitted", f"Admitted by ClusterQueue {cluster_queue}")


def claim_unknown(problem: str) -> Text:
    """Return what a pod says whose claims cannot be resolved."""
    return Text("ResourceClaimUnknown", problem)


def groups_unsupported() -> Text:
    """Return what a pod of a pod group says."""
    return Text(
        "PodGroupsUnsupported",
        f"pod groups ({names.POD_GROUP_NAME}) are not admitted by this version; "
        "create the pods without the group, or as a Workload",
    )


def queue_required_in_namespace(namespace: str) -> Text:
    """Return what a pod without a queue says in a namespace that enforces queues."""
    return _queue_required(f"namespace {namespace}", names.ENFORCE_LABEL)


def queue_required_in_cluster() -> Text:
    """Return what a pod without a queue says in a cluster that enforces queues."""
    return _queue_required("this cluster", "manageJobsWithoutQueueName")


def _queue_required(who: str, by: str) -> Text:
    return Text(
        "QueueRequired",
        f"{who} admits GPU pods through a queue only ({by}); create a LocalQueue named "
        f"{names.DEFAULT_LOCAL_QUEUE}, or give the pod the label {names.QUEUE_LABEL}",
    )


# ----------------------------------------------------------- pods and Jobs: what is not there

PRIORITY_CLASS_NOT_FOUND: Final = "WorkloadPriorityClassNotFound"
PREBUILT_NOT_FOUND: Final = "PrebuiltWorkloadNotFound"


def priority_class_not_found(kind: str, name: str) -> Text:
    """Return what an owner says that names a class that does not exist."""
    return Text(PRIORITY_CLASS_NOT_FOUND, f'{kind} "{name}" not found')


def pod_priority_class_not_found(name: str) -> Text:
    """Return what a gated pod says that names a class that does not exist."""
    reason, message = priority_class_not_found("WorkloadPriorityClass", name)
    hint = f"create it, or recreate the pod without the label {names.PRIORITY_CLASS_LABEL}"
    return Text(reason, f"{message}; {hint}")


def prebuilt_not_found(key: str) -> Text:
    """Return what an owner says that names a Workload that does not exist."""
    return Text(PREBUILT_NOT_FOUND, f'Prebuilt workload "{key}" not found')


def prebuilt_is_deleted(key: str) -> Text:
    """Return what an owner says that names a Workload that somebody deletes."""
    reason, message = prebuilt_not_found(key)
    return Text(reason, f"{message}: it is being deleted")


def prebuilt_is_controlled(key: str, kind: str, name: str) -> Text:
    """Return what an owner says that names the Workload of another object."""
    reason, message = prebuilt_not_found(key)
    return Text(reason, f"{message}: it is controlled by {kind} {name}")


# ------------------------------------------------- pods and Jobs: why one is deleted or suspended

WORKLOAD_DELETED: Final = Text("WorkloadDeleted", "Workload is deleted")
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


# -------------------------------------------------------------------------- Workloads: Finished

OWNER_NOT_FOUND: Final = Text("OwnerNotFound", "The workload's owner no longer exists")
OUT_OF_SYNC: Final = Text("OutOfSync", "The prebuilt workload is out of sync with its user job")
FAILED_TO_START: Final = "FailedToStart"


def owner_finished(message: str, *, succeeded: bool) -> Text:
    """Return what the Workload of an owner says that has ended with a message."""
    return Text("Succeeded" if succeeded else "Failed", message)
