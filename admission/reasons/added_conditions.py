"""Reasons and messages of conditions that Kueue does not have.

They stand on Workloads, ClusterQueues, pods and owners. Why something waits is said by `people`.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from admission.base import names
from admission.base.conditions import (
    FAILED_TO_START,
    GROUP_FULL,
    GROUP_INCOMPLETE,
    GROUP_INVALID,
    PODS_ENDING,
    WORKLOAD_NAME_CONFLICT,
    EvictionReason,
    Text,
)
from admission.reasons import kueue, sentences
from admission.reasons.next_steps import Code

# ------------------------------------------------------- Workloads: Evicted, Preempted, Requeued

CLAIMS_CHANGED: Final = Text(
    EvictionReason.CLAIMS_CHANGED,
    "Its ResourceClaims or ResourceClaimTemplates were deleted or replaced after its quota was "
    "reserved, and ask for more than was reserved",
)
ON_ANOTHER_FLAVOR: Final = Text(
    "PendingEvaluation",
    "An administrator let it run, on a node of another flavor: it is charged to that flavor",
)
PODS_RUN_AGAIN: Final = Text(
    EvictionReason.PODS_RUN_AGAIN,
    "Pods of it that had succeeded were made anew, and the ClusterQueue has no room for them: "
    "their quota was given back",
)
CLAIMS_WITHOUT_QUEUE: Final = Text(
    "GPUsWithoutQueue",
    "Its ResourceClaims were given GPUs that no queue admitted, and its namespace enforces queues",
)


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


# ----------------------------------------------------- Workloads: PreemptionNotice, StopHeldBack


def preemption_notice(subject: str, time: str, needs: str, preemptor: str) -> Text:
    """Return the notice for a preempted owner or pod that continues to run for a while.

    Args:
        subject: what is stopped, such as ``pod``.
        time: when it is stopped.
        needs: subject and verb for what the preemptor needs: `NEEDS_GPUS` or `NEEDS_QUOTA`.
        preemptor: name of the preemptor; see `ranked`.
    """
    return Text(
        "Preempted",
        f"This {subject} is stopped at {time}: its {needs} needed by {preemptor}. Save your work",
    )


NEEDS_GPUS: Final = "GPUs are"
NEEDS_QUOTA: Final = "quota is"
ANOTHER_WORKLOAD: Final = "another workload"


def stopped_for(needs: str, preemptor: str, *, comes_back: bool, namespace: str) -> str:
    """Return what is said on an owner or pod that is stopped because it is preempted.

    Args:
        needs: as for `preemption_notice`.
        preemptor: as for `preemption_notice`.
        comes_back: whether the owner starts again by itself; a pod without an owner does not.
        namespace: of the owner.
    """
    return (
        f"Stopped: its {needs} needed by {preemptor}. {_afterwards(comes_back)}. Who holds quota:"
        f" kubectl gpu who -n {namespace}"
    )


def stopped(why: Text, *, comes_back: bool) -> str:
    """Return what is said on an owner or pod that is stopped for another reason than preemption.

    Args:
        why: reason and message as a pod says them in its condition.
        comes_back: as for `stopped_for`.
    """
    if why == kueue.NAMED_WORKLOAD_MISSING:
        return "Stopped: the Workload that it names does not exist, so it has no quota"
    verdict = _STOPS.get(why)
    return why.message if verdict is None else f"{verdict}. {_afterwards(comes_back)}"


_STOPS: Final[Mapping[Text, str]] = MappingProxyType(
    {
        kueue.STOPPED_NOT_ADMITTED: "Stopped: it ran without quota",
        kueue.OTHER_COUNT: "Stopped: it asks for another number of pods than was admitted",
    }
)


def _afterwards(comes_back: bool) -> str:
    if comes_back:
        return "It starts again by itself when it gets quota"
    return "It does not come back by itself: create it again"


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
        f"beyond {per_minute} a minute are held back; an administrator has them carried out with: "
        "gpu-admission stops allow",
    )


# --------------------------------------------------------------------- Workloads: RunTimeLimited


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


# --------------------------------------------------------------------------- Workloads: Finished


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


NO_DOMAIN_ANEW: Final = Text(
    EvictionReason.NODE_FAILURES,
    "Its Workload was made anew while its pods waited for their domain of the topology, and no"
    " domain has room for them now",
)
RUNS_AGAIN: Final = Text(
    "RunsAgain",
    "Had ended and runs again, without quota: it is suspended, and waits for quota anew",
)


# --------------------------------------------------------------------------- LocalQueues: Active


def spec_unreadable(problem: str) -> Text:
    """Return why a queue whose spec breaks a rule admits nothing; Kueue has no reason for it."""
    return Text("Unknown", f"The spec cannot be read: {problem or 'it was not accepted'}")


# ---------------------------------------------------- ClusterQueues: GPUs, fields without effect


def waits_for_owner(kind: str, name: str) -> Text:
    """Return why a gated pod of an owner with a queue has no Workload of its own."""
    message = (
        f"Waits for {kind} {name}, which is admitted as a whole and was started by somebody else."
        f" The {kind} is suspended until its Workload is admitted"
    )
    return Text("WaitsForJob", message)


def not_reviewed(annotations: Sequence[str]) -> Text:
    """Return what a pod says that the API server held, as nobody reviewed it.

    Args:
        annotations: annotations of it that ask for what only a review can do.
    """
    advice = "Delete the pod and create it again to get that"
    lost = f". {', '.join(annotations)}: without effect. {advice}" if annotations else ""
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
    listed = (
        f"{used} of {total} {name} in flavor {where}" for name, where, used, total in amounts
    )
    return Text("Surge", f"Pods of rolling updates use {', '.join(listed)} of the surge quota")


def releasing(pods: Sequence[str], count: int) -> Text:
    """Return the condition of a ClusterQueue while stopped or deleted pods still hold quota.

    Args:
        pods: namespace, name and node of the first few pods.
        count: number of such pods.
    """
    rest = f" and {count - len(pods)} more" if count > len(pods) else ""
    subject = "1 pod still holds" if count == 1 else f"{count} pods still hold"
    message = (
        f"{subject} quota that should be free: {', '.join(pods)}{rest}. It is free once they have"
        " ended; why they have not: kubectl get pod"
    )
    return Text(PODS_ENDING, message)


_KEPT: Final = "held by running pods on sick GPUs or on nodes that take no new pods"


def capacity_sufficient(sentences: Iterable[str]) -> Text:
    """Return the condition of a ClusterQueue whose quota does not exceed the GPUs that exist.

    Args:
        sentences: further sentences about its GPUs.
    """
    parts = ("All GPUs that the nominal quota promises exist", *sentences)
    return Text("CapacitySufficient", "; ".join(parts))


def held_where_nothing_starts(resource: str, flavor: str, amount: str) -> str:
    """Return how many of the GPUs that exist are there only until pods on them end.

    Args:
        resource: resource of the quota.
        flavor: flavor of the quota.
        amount: amount for people.
    """
    return (
        f"{resource} in flavor {flavor}: {amount} {_KEPT}, and no longer count when these pods end"
    )


def quota_exceeds_capacity(shortages: Iterable[str], sentences: Iterable[str]) -> Text:
    """Return the condition of a ClusterQueue whose quota exceeds the GPUs that exist.

    Args:
        shortages: one sentence for each resource and flavor; see `shortage`.
        sentences: further sentences about its GPUs.
    """
    return Text("QuotaExceedsCapacity", "; ".join((*shortages, *sentences)))


def shortage(
    resource: str,
    flavor: str,
    *,
    promised: str,
    exist: str,
    healthy: str,
    kept: str,
    sick: str,
    outside: str,
    other_holders: str,
    elsewhere: str = "",
    overlaps: Sequence[str] = (),
) -> str:
    """Return how many GPUs a quota promises and how many exist; amounts are for people.

    What exists is what is healthy and what is kept, less what others hold or were promised.

    Args:
        resource: resource of the quota.
        flavor: flavor of the quota.
        promised: nominal quota.
        exist: amount of it that exists.
        healthy: healthy amount.
        kept: amount that admitted pods hold where nothing new starts; empty for none.
        sick: amount that is not healthy and that no admitted pod holds, likewise.
        outside: healthy amount that pods without a queue hold, likewise.
        other_holders: amount that is promised to others, likewise.
        elsewhere: what of the rest others are promised before, also when all GPUs are well,
            likewise.
        overlaps: other flavors that select nodes of this one.
    """
    others_ = f"other queues{' and flavors' if overlaps else ''}"
    before = f", {elsewhere} promised to {others_} first" if elsewhere else ""
    parts = [
        f"{value} {state}"
        for value, state in (
            (healthy, "healthy"),
            (kept, _KEPT),
            (sick, "sick and held by nobody" if kept else "sick"),
            (outside, "held by pods without a queue"),
            (other_holders, f"promised to {others_}"),
        )
        if value
    ]
    return (
        f"{resource} in flavor {flavor}: quota promises {promised}, {exist} exist{before} "
        f"({', '.join(parts)}){_same_nodes(overlaps)}"
    )


def _same_nodes(flavors: Sequence[str]) -> str:
    if not flavors:
        return ""
    verb = "selects" if len(flavors) == 1 else "select"
    noun = "flavor" if len(flavors) == 1 else "flavors"
    return f"; {noun} {', '.join(flavors)} {verb} the same nodes"


AND_MORE_NODES: Final = "and more nodes"


def overlapping(flavor: str, rivals: Sequence[str]) -> str:
    """Return that flavors select the same nodes.

    Args:
        flavor: a flavor of the ClusterQueue.
        rivals: flavors that select nodes of it, too.
    """
    return (
        f"flavor {flavor} selects nodes that {' and '.join(rivals)} selects too, so a pod of one"
        " takes what the quota of the other promises"
    )


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
        f"Without effect: {'; '.join(fields)}. Remove what has no effect from the ClusterQueue",
    )


CONCURRENT_ADMISSION: Final = "spec.concurrentAdmissionPolicy (flavors are tried in their order)"


# ----------------------------------------------------------------- pods: why one is not admitted


def claim_unknown(problem: str) -> Text:
    """Return why a pod whose ResourceClaims cannot be resolved waits."""
    return Text("ResourceClaimUnknown", problem)


def queue_required_in_namespace(namespace: str) -> Text:
    """Return why a pod without a queue waits in a namespace that enforces queues."""
    cause = f"its label {names.ENFORCE_LABEL}, or the mode of the installation"
    return _queue_required(f"namespace {namespace}", cause)


def queue_required_in_cluster() -> Text:
    """Return why a pod without a queue waits in a cluster that enforces queues."""
    return _queue_required("this cluster", "manageJobsWithoutQueueName")


def _queue_required(place: str, cause: str) -> Text:
    return Text(
        "QueueRequired",
        f"{place} admits GPU pods through a queue only ({cause}); give the pod the label "
        f"{names.QUEUE_LABEL}, or ask an administrator for a LocalQueue named "
        f"{names.DEFAULT_LOCAL_QUEUE}",
    )


# -------------------------------------------------- pods and Jobs: what they name does not exist


def pod_priority_class_not_found(name: str, classes: Iterable[str]) -> Text:
    """Return why a gated pod that names a priority class waits: the class does not exist.

    Args:
        name: of the class.
        classes: names of the WorkloadPriorityClasses that exist.
    """
    step = sentences.other_priority_class(name, classes, "recreate the pod")
    return sentences.priority_class_not_found("WorkloadPriorityClass", name, step)


def owner_priority_class_not_found(name: str, classes: Iterable[str]) -> Text:
    """Return why an owner that names a priority class gets no Workload: it does not exist.

    The arguments are those of `pod_priority_class_not_found`.
    """
    reason, message = kueue.priority_class_not_found("WorkloadPriorityClass", name)
    return Text(reason, f"{message}; {sentences.priority_classes(name, classes)}")


def prebuilt_is_deleted(key: str) -> Text:
    """Return why an owner that names a Workload waits: the Workload is being deleted."""
    reason, message = kueue.prebuilt_not_found(key)
    return Text(reason, f"{message}: it is being deleted")


def prebuilt_is_controlled(key: str, kind: str, name: str) -> Text:
    """Return why an owner that names a Workload waits: it belongs to another object."""
    reason, message = kueue.prebuilt_not_found(key)
    return Text(reason, f"{message}: it is controlled by {kind} {name}")


def prebuilt_is_of_pods(key: str, pod: str = "") -> Text:
    """Return why an owner that names a Workload waits: pods use it.

    Args:
        key: identity of the Workload.
        pod: name of one of them that runs; empty for those of a group.
    """
    reason, message = kueue.prebuilt_not_found(key)
    return Text(reason, f"{message}: it is used by {f'Pod {pod}' if pod else 'a group of pods'}")


# ------------------------------------------------ pods and Jobs: why one is deleted or suspended

STARTED_OTHERWISE: Final = Text(
    "StartedBySomebodyElse",
    "Somebody else started it just as it was admitted, so its pods lack the node selectors and"
    " tolerations of its flavors. It keeps its quota and is started again at once. Leave it to the"
    " controller to start it",
)


# -------------------------------------------------------------------------------- groups of pods

GROUP_SHORT: Final = Text(
    "PendingEvaluation", "A pod of the group was deleted before the group started"
)
GROUP_RUNS_WITHOUT_WORKLOAD: Final = Text(
    "PodGroupRunning",
    "the Workload of the group was deleted while other pods of the group run; the group is "
    "admitted again once they have ended",
)


def group_incomplete(name: str, present: int, total: int) -> Text:
    """Return the condition of the first pod of a group that lacks pods.

    Args:
        name: name of the group.
        present: number of its pods that exist and have not failed.
        total: number of pods that the group needs.
    """
    return Text(
        GROUP_INCOMPLETE,
        f"{present} of {total} pods of group {name} are there; they are admitted together",
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


def gated_by_others(gates: Sequence[str]) -> Text:
    """Return why a pod waits: other controllers hold it, too.

    Args:
        gates: names of their scheduling gates.
    """
    listed = ", ".join(gates)
    if len(gates) == 1:
        holder, gate_text = "another controller", f"gate {listed} is"
    else:
        holder, gate_text = "other controllers", f"gates {listed} are"
    message = f"Held by {holder}: it waits for quota once its scheduling {gate_text} gone"
    return Text(Code.GATED_BY_OTHERS, message)


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


def gang_incomplete(resource: str, name: str, present: int, minimum: int) -> Text:
    """Return the condition of the first pod of a PodGroup that lacks pods.

    Args:
        resource: resource of the PodGroup, with its API group.
        name: name of the PodGroup.
        present: number of its pods that exist and have not failed.
        minimum: number of pods that must start together.
    """
    return Text(
        GROUP_INCOMPLETE,
        f"{present} of at least {minimum} pods of {resource} {name} are there; they are admitted "
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


def groups_differ(pod: str, other: str) -> Text:
    """Return why the pods of two groups wait: their Workloads would have the same name."""
    return Text(
        GROUP_INVALID,
        f"pods '{pod}' and '{other}' belong to different groups whose Workloads would have the "
        f"same name: change the annotation {names.POD_GROUP_NAME}",
    )


def group_waits_as(first: str) -> Text:
    """Return the condition of the other pods of a group that has no Workload yet.

    Args:
        first: the pod whose condition says what the group waits for.
    """
    return Text(GROUP_INCOMPLETE, f"waits for its group; pod {first} says what for")


def group_requests_differ(pod: str, other: str, role: str) -> Text:
    """Return why a group waits: two of its pods have the same role but different requests."""
    return Text(
        GROUP_INVALID,
        f"pods '{pod}' and '{other}' have the same role {role} and different requests: leave the "
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
    owner = f"{kind} {name}" if name else f"a {kind}, but names none"
    return Text("WaitsForOwner", f"Waits for {owner}; the pod is admitted as one of its pods")


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
