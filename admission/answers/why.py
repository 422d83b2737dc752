"""Why a pod, its owner, a Workload, a LocalQueue or a ClusterQueue is in its present state.

`explain` returns plain data, `document` the same as JSON; docs/reference/commands.md documents it.
What is said comes from the catalogue (`admission.reasons`): of what waits it is what the
controller wrote on it; of what has no such condition it is what the Workload says and the queues
have.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from admission.answers import (
    borrowing,
    broken_glass_time,
    cluster,
    estimates,
    flavor_labels,
    offered,
    quota_use,
    shortages,
    sick_nodes,
    subjects,
    waiting,
    without_queues,
)
from admission.answers.cluster import Wanted
from admission.answers.subjects import ExplainedObject
from admission.answers.without_queues import FlavorRequest, LastEvent
from admission.base import amount as amounts
from admission.base import causes, clock, conditions, events, names, quantity, structs
from admission.base.causes import MemberCounts, Shortage
from admission.base.conditions import Text, WaitReason
from admission.base.names import FlavorResource, WorkloadKey
from admission.gpu import resources as resources_of_gpus
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.objects import queue_status, values, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner
from admission.reasons import kueue, next_steps, placing, reading, sentences
from admission.reasons.next_steps import Code
from admission.scheduling.hierarchy import CohortNode, QueueNode

_AS_LOCAL_QUEUE: Final = structs.converter(LocalQueue)
_AS_OBJECT: Final = structs.converter(views.Object)
_AS_WORKLOAD: Final = structs.converter(Workload)
_FEW: Final = 500
"""So many Workloads of a queue are read to find a place, where the controller does not say it."""


_NOTHING_SAID: Final = Text("", "")


class State(StrEnum):
    """The state of an object with respect to quota."""

    NOT_MANAGED = "not managed"
    NO_WORKLOAD = "without Workload"
    WAITING = "waiting"
    RESERVED = "quota reserved"
    ADMITTED = "admitted"
    EVICTED = "evicted"
    FINISHED = "finished"
    ACTIVE = "active"
    INACTIVE = "inactive"
    ENDING = "being deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """One resource in one flavor; canonical units.

    Attributes:
        asks: what is asked for; None where that is another amount in each flavor.
        free: what the ClusterQueue could take now, borrowed or not; None where it is not known.
        reach: the most that it could ever take; None likewise.
        nominal: its own quota; None likewise.
        holders: ClusterQueues that use it, with how much, largest first; None likewise.
    """

    flavor: str
    resource: str
    asks: int | None
    free: int | None = None
    reach: int | None = None
    nominal: int | None = None
    holders: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPart:
    """A pod of an owner whose pods are admitted one by one, or a Workload that holds a queue.

    Attributes:
        name: as ``pod/train-0``, or with its namespace.
        state: where it is.
        reason: code of the catalogue; empty for none.
        message: what it says; empty for nothing.
    """

    name: str
    state: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known about one object.

    Attributes:
        kind: of the object, such as ``Pod``.
        namespace: of the object; empty for none.
        name: of the object.
        state: where it is.
        reason: code of the catalogue.
        message: the verdict, one sentence.
        advice: what to do next; empty for nothing.
        since: RFC 3339 time of the last change of state; empty if unknown.
        queue: its LocalQueue; empty where it has none.
        cluster_queue: where it was admitted, or where it waits; empty if unknown.
        workload: name of its Workload; empty where there is none.
        flavors: assigned flavors by resource: several where pods or pod sets differ.
        nodes: how many pods are on each node, of a pod or of an owner; sorted.
        place: in the ClusterQueue, from 1; None where it is not known or it does not wait.
        is_about: whether the place was said some time ago, or rounded.
        waiting: how many wait in the ClusterQueue; None where that is not known.
        numbers: what it asks for, and what there is.
        parts: pods of the owner that are admitted one by one; Workloads that hold a ClusterQueue.
        notes: what else matters, a sentence each.
        said: reason and message of the condition of the Workload or queue, as Kueue words it.
        missing: what could not be read, a sentence each.
        is_alone: whether it is a pod that nothing controls.
    """

    kind: str
    namespace: str
    name: str
    state: State
    reason: str = ""
    message: str = ""
    advice: str = ""
    since: str = ""
    queue: str = ""
    cluster_queue: str = ""
    workload: str = ""
    flavors: Mapping[str, tuple[str, ...]]
    nodes: Mapping[str, int] = field(default_factory=dict)
    place: int | None = None
    is_about: bool = False
    waiting: int | None = None
    numbers: tuple[Numbers, ...] = ()
    parts: tuple[ExplainedPart, ...] = ()
    notes: tuple[str, ...] = ()
    said: Text = _NOTHING_SAID
    missing: tuple[str, ...] = ()
    is_alone: bool = False


def explain(api: Api, namespace: str, typed: str) -> Answer:
    """Return where ``[NAMESPACE/][KIND/]NAME`` stands; see `subjects.find`.

    Raises:
        SubjectError: nothing, or more than one object, is meant.
        KubeError: the API server refused or did not answer.
    """
    subject = subjects.find(api, namespace, typed)
    answer = _with_borrowed(api, _with_sick(api, _explained(api, namespace, subject)))
    annotations = subject.document["metadata"].get("annotations") or {}
    since = annotations.get(names.OUTSIDE_QUOTA)
    if not since:
        return answer
    note = f"an administrator let it run outside of quota at {since}"
    if _is_suspended(subject.document):
        note += "; it was stopped since, and waits for quota as others do"
    elif answer.state in _CHARGED:
        note += ", and its queue is charged"
    return replace(answer, notes=(*answer.notes, note))


_CHARGED: Final = frozenset({State.RESERVED, State.ADMITTED})


def _is_suspended(document: Document) -> bool:
    """Return whether an owner is held as a whole, by whichever field its kind has for that."""
    spec = document.get("spec") or {}
    policy = spec.get("runPolicy") or {}
    return spec.get("suspend") is True or policy.get("suspend") is True


def _with_sick(api: Api, answer: Answer) -> Answer:
    """Return the answer about admitted pods with the sick GPUs of their nodes.

    Where pods have no node these are the GPUs of their flavors.
    """
    if answer.state is not State.ADMITTED:
        return answer
    notes = sick_nodes.of_running(api, answer.nodes, answer.flavors)
    answer = replace(answer, notes=(*answer.notes, *notes))
    if answer.reason != Code.PODS_NOT_RUNNING:
        return answer
    resources_of: dict[str, set[str]] = {}
    for resource, flavors in answer.flavors.items():
        for flavor in flavors:
            resources_of.setdefault(flavor, set()).add(resource)
    return replace(answer, notes=(*answer.notes, *sick_nodes.notes(api, resources_of)))


def _with_borrowed(api: Api, answer: Answer) -> Answer:
    """Return the answer about what is admitted with how much its namespace has borrowed."""
    if answer.state is not State.ADMITTED or not answer.queue:
        return answer
    try:
        listed = api.list(resources.LOCAL_QUEUES, answer.namespace, into=LocalQueue).items
    except errors.ApiError:
        return answer
    behind = (queue for queue in listed if queue.spec.cluster_queue == answer.cluster_queue)
    flavors = set(_flavor_names(answer.flavors)) or None
    notes = borrowing.notes(borrowing.of_local_queues(behind), flavors)
    return replace(answer, notes=(*answer.notes, *notes))


def _explained(api: Api, namespace: str, subject: ExplainedObject) -> Answer:
    if subject.resource == resources.CLUSTER_QUEUES:
        return _of_cluster_queue(api, namespace, subject)
    if subject.resource == resources.LOCAL_QUEUES:
        return _of_local_queue(api, subject)
    if subject.resource == resources.WORKLOADS:
        answer = _of_workload(api, subject, subject.document, {})
        return _on_nodes(api, subject, answer, subject.document)
    if subject.resource == resources.PODS:
        return _of_pod(api, subject)
    return _with_disruptions(api, subject, _of_owner(api, subject))


# -------------------------------------------------------------------------------------- pods


def _of_pod(api: Api, subject: ExplainedObject, *, in_full: bool = True) -> Answer:
    """Return where a pod stands, and whether it was created without a review."""
    answer = _of_reviewed_pod(api, subject, in_full=in_full)
    reviewed = _condition(subject.document, conditions.POD_REVIEWED)
    if reviewed.get("status") != "False":
        return answer
    note = f"not reviewed: {reviewed.get('message', '')}"
    return replace(answer, notes=(*answer.notes, note))


def _of_reviewed_pod(api: Api, subject: ExplainedObject, *, in_full: bool) -> Answer:
    pod = subject.document
    named = pod["metadata"].get("annotations", {}).get(names.WORKLOAD_ANNOTATION)
    labels = pod["metadata"].get("labels", {})
    our_condition = _condition(pod, conditions.POD_ADMITTED)
    if not named and labels.get(names.MANAGED_LABEL) != names.MANAGED_VALUE:
        is_queued = bool(labels.get(names.QUEUE_LABEL))
        late = "it was created while its namespace was excluded or the webhook was not installed"
        answer = _answer(subject, State.NOT_MANAGED, _not_managed(api, subject, in_full=in_full))
        outside = broken_glass_time.notes(api, pod)
        return replace(answer, notes=outside or ((late,) if is_queued else ()))
    workload = _workload_of_pod(api, subject, named)
    if workload is None:
        return _without_workload(api, subject, our_condition)
    answer = _of_workload(api, subject, workload, our_condition, in_full=in_full)
    if in_full and answer.reason == Code.PODS_NOT_RUNNING:
        with suppress(errors.ForbiddenError):
            answer = _as_pods_say(answer, workload, _started_pods(api, answer))
    node = _node(pod)
    return replace(answer, nodes={node: 1}) if node else answer


def _has_run(api: Api, subject: ExplainedObject) -> bool:
    """Return whether pods of an owner run or have ended; of a Job, pods that wait are active."""
    status = subject.document.get("status") or {}
    counts = ("ready", "succeeded", "failed", "readyReplicas", "numberReady")
    if any(status.get(count) for count in counts):
        return True
    if not status.get("active"):
        return False
    selector = (subject.document.get("spec", {}).get("selector") or {}).get("matchLabels") or {}
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    try:
        pods = api.list(resources.PODS, subject.namespace, label_selector=labels).items
    except errors.ForbiddenError:
        return True  # as far as is known
    uid = subject.document["metadata"]["uid"]
    return any(_node(pod) for pod in pods if _controller(pod) == uid)


def _not_managed(api: Api, subject: ExplainedObject, *, in_full: bool = True) -> Text:
    """Return that no quota is kept for a pod or owner, or that it asks for what there is not.

    Args:
        api: is asked with the rights of the caller.
        subject: the pod or owner.
        in_full: whether nodes and queues are looked at, if it does not run.
    """
    requested = _requested_names(subject)
    misspelled = sentences.resources_misspelled(requested)
    if misspelled is not None:
        return misspelled
    if not in_full or _node(subject.document):
        return sentences.not_managed()
    return offered.lacking(api, subject.namespace, requested) or sentences.not_managed()


def _requested_names(subject: ExplainedObject) -> AbstractSet[str]:
    """Return the resources that a pod, or any pod template of an owner, asks for."""
    return {
        resource
        for container in _containers(subject.document.get("spec"))
        for amounts in ("requests", "limits")
        for resource in (container.get("resources") or {}).get(amounts) or ()
    }


def _containers(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the containers anywhere in a part of a document: each kind has its templates."""
    if isinstance(part, list):
        for member in part:
            yield from _containers(member)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in {"containers", "initContainers"} and isinstance(value, list):
                yield from (member for member in value if isinstance(member, dict))
            else:
                yield from _containers(value)


def _waits_for_queue(subject: ExplainedObject) -> bool:
    """Return whether an owner without a queue is suspended and asks for GPUs."""
    is_suspended = (subject.document.get("spec") or {}).get("suspend") is True
    return is_suspended and any(map(resources_of_gpus.is_device, _requested_names(subject)))


def _workload_of_pod(api: Api, subject: ExplainedObject, named: str | None) -> Document | None:
    """The Workload that a released pod names, or that its group has; else the pod's own."""
    named = named or pod_owner.group_name(_AS_OBJECT(subject.document))
    return _named(api, subject, named) if named else _made_for(api, subject)


def _named(api: Api, subject: ExplainedObject, name: str) -> Document | None:
    try:
        return api.get(resources.WORKLOADS, name, subject.namespace)
    except errors.NotFoundError:
        return None


def _made_for(api: Api, subject: ExplainedObject) -> Document | None:
    """Return the Workload that was made for an object; of several, the newest that goes on."""
    uid = subject.document["metadata"]["uid"]
    selector = f"{names.JOB_UID_LABEL}={uid}"
    candidates = api.list(resources.WORKLOADS, subject.namespace, label_selector=selector).items
    in_order = sorted(
        candidates,
        key=lambda workload: (
            _condition(workload, conditions.FINISHED).get("status") != "True",
            workload["metadata"].get("creationTimestamp", ""),
            workload["metadata"]["name"],
        ),
    )
    return in_order[-1] if in_order else None


def _without_workload(
    api: Api, subject: ExplainedObject, our_condition: Mapping[str, Any]
) -> Answer:
    """Return why there is no Workload: what our condition says, else what is missing."""
    if our_condition.get("status") == "False":
        text = sentences.text(
            reading.of_condition(our_condition.get("reason", ""), our_condition.get("message", ""))
        )
    else:
        text = _why_not_made(api, subject)
    answer = _answer(subject, State.NO_WORKLOAD, text, local=_queue_label(subject.document))
    answer = replace(answer, since=our_condition.get("lastTransitionTime", ""))
    if text.reason != Code.PRIORITY_CLASS_NOT_FOUND or not _class_label(subject.document):
        return answer
    return _with_priority_classes(api, answer)


def _why_not_made(api: Api, subject: ExplainedObject) -> Text:
    """Return why the controller makes no Workload for something that has no condition of ours.

    Its label is compared with the classes that exist. Who may not read those, and what else is
    missing, is told by the last event, which is gone after an hour.
    """
    label = _class_label(subject.document)
    try:
        if label:
            api.get(resources.WORKLOAD_PRIORITY_CLASSES, label)
    except errors.NotFoundError:
        return sentences.priority_class_not_found("WorkloadPriorityClass", label)
    except errors.ForbiddenError:
        label = ""
    uid = subject.document["metadata"]["uid"]
    event = without_queues.last_event(api, subject.namespace, uid, _WITHOUT_WORKLOAD)
    exists = kueue.priority_class_not_found("WorkloadPriorityClass", label).message
    if event is None or (label and event.message.startswith(exists)):
        return sentences.no_workload()
    if event.reason == Code.PRIORITY_CLASS_NOT_FOUND:
        return Text(event.reason, sentences.sentence(f"Waits: {event.message}"))
    return sentences.stated(event.reason, event.message)


_WITHOUT_WORKLOAD: Final = frozenset(
    {conditions.PRIORITY_CLASS_NOT_FOUND, conditions.PREBUILT_NOT_FOUND}
)
"""Reasons of events about what has no Workload because something does not exist."""


def _with_class_without_effect(
    api: Api, answer: Answer, subject: ExplainedObject, workload: Document
) -> Answer:
    """Return the answer with a note where the label names a class that does not exist."""
    label = _class_label(subject.document)
    reference = workload.get("spec", {}).get("priorityClassRef") or {}
    has_it = reference.get("group") == names.KUEUE_GROUP and reference.get("name") == label
    if not label or has_it:
        return answer
    try:
        api.get(resources.WORKLOAD_PRIORITY_CLASSES, label)
    except errors.NotFoundError:
        note = sentences.class_without_effect(label).message.rstrip(".")
        return _with_priority_classes(api, replace(answer, notes=(*answer.notes, note)))
    except errors.ForbiddenError:
        pass
    return answer


def _with_priority_classes(api: Api, answer: Answer) -> Answer:
    """Return the answer with the names of the WorkloadPriorityClasses, if they may be listed."""
    kind = resources.WORKLOAD_PRIORITY_CLASSES
    try:
        classes = api.list(kind, limit=_FEW).items
    except errors.ForbiddenError:
        role = f"{cluster.SHOWN_BY}{names.VIEWER_ROLES[kind.kind]}"
        missing = f"The classes that exist are not shown: you may not list {kind.kind}es{role}"
        return replace(answer, missing=(*answer.missing, missing))
    listed = ", ".join(sorted(each["metadata"]["name"] for each in classes))
    note = f"{kind.kind}es that exist: {listed or 'none'}"
    return replace(answer, notes=(*answer.notes, note))


# ------------------------------------------------------------------------------------- owners

_SERVING_LABELS: Final = {
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name",
    "Job": "volcano.sh/job-name",
}
"""Labels that tell the pods of owners without a selector in their spec."""


def _of_owner(api: Api, subject: ExplainedObject) -> Answer:
    view = _AS_OBJECT(subject.document)
    our_condition = _condition(subject.document, conditions.POD_ADMITTED)
    selector = _pods_of(subject)
    if selector is not None:
        pods, missing = _own(api, subject, selector)
        answer = _of_pods(api, subject, pods)
        return replace(answer, missing=(*answer.missing, *missing))
    prebuilt = view.metadata.annotation(names.PREBUILT_WORKLOAD) or view.metadata.label(
        names.PREBUILT_WORKLOAD
    )
    workload = _named(api, subject, prebuilt) if prebuilt else _made_for(api, subject)
    if workload is not None:
        answer = _of_workload(api, subject, workload, our_condition)
        return _on_nodes(api, subject, answer, workload)
    ended = _ended(subject.document)
    if ended is not None:
        return _answer(subject, State.FINISHED, ended)
    if not _queue_label(subject.document) and not our_condition:
        pods = _held_by_themselves(api, subject)
        if pods:
            return _of_pods(api, subject, pods)
        if _waits_for_queue(subject):
            return _answer(subject, State.NO_WORKLOAD, sentences.suspended_without_queue())
        in_full = not _has_run(api, subject)
        return _answer(subject, State.NOT_MANAGED, _not_managed(api, subject, in_full=in_full))
    return _without_workload(api, subject, our_condition)


def _with_disruptions(api: Api, subject: ExplainedObject, answer: Answer) -> Answer:
    """Return the answer about a failed Job with how many of its failures were disruptions."""
    failed_condition = _true(subject.document, "Failed")
    if subject.resource != resources.JOBS or failed_condition.get("reason") not in _BY_BACKOFF:
        return answer
    spec, status = subject.document.get("spec", {}), subject.document.get("status", {})
    if _ignores_disruptions(spec):
        return answer
    uid, codes = subject.document["metadata"]["uid"], frozenset({events.POD_DISRUPTED})
    disruptions = without_queues.events_of(api, answer.namespace, uid, codes)
    count = min(sum(event.count for event in disruptions), status.get("failed") or 0)
    if not count:
        return answer
    last = disruptions[-1]
    note = sentences.failed_by_disruptions(
        count, status["failed"], spec.get("backoffLimit"), events.of_one_pod(last.message), last.at
    )
    return replace(answer, notes=(*answer.notes, note), advice=next_steps.IGNORE_DISRUPTIONS)


_BY_BACKOFF: Final = frozenset(
    {"BackoffLimitExceeded", "FailedIndexes", "MaxFailedIndexesExceeded"}
)
"""Reasons with which a Job fails that has too many failed pods."""


def _ignores_disruptions(spec: Mapping[str, Any]) -> bool:
    """Return whether a Job does not count pods as failed that were disrupted."""
    return any(
        rule.get("action") == "Ignore"
        and any(
            pattern.get("type") == conditions.DISRUPTION_TARGET
            for pattern in rule.get("onPodConditions") or ()
        )
        for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ()
    )


def _held_by_themselves(api: Api, subject: ExplainedObject) -> list[Document]:
    """Return the pods of an owner without a queue that are in a queue, or wait for one."""
    try:
        selector = f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}"
        pods = api.list(resources.PODS, subject.namespace, label_selector=selector).items
    except errors.ForbiddenError:
        return []
    uid = subject.document["metadata"]["uid"]
    return [pod for pod in pods if _controller(pod) == uid]


def _on_nodes(api: Api, subject: ExplainedObject, answer: Answer, workload: Document) -> Answer:
    """Return the answer with what the pods say that an admitted Workload has started."""
    if answer.state is not State.ADMITTED:
        return answer
    try:
        pods = _started_pods(api, answer)
    except errors.ForbiddenError:
        missing = f"Its nodes are not shown: you may not list pods of {answer.namespace}"
        return replace(answer, missing=(*answer.missing, missing))
    nodes = Counter(_node(pod) for pod in pods if _is_alive(pod) and _node(pod))
    answer = replace(answer, nodes=dict(sorted(nodes.items())))
    answer = _as_left(api, subject, answer, workload, pods)
    return _as_pods_say(answer, workload, pods)


def _as_left(
    api: Api,
    subject: ExplainedObject,
    answer: Answer,
    workload: Document,
    pods: Iterable[Document],
) -> Answer:
    """Return that an owner whose pods ran has none any more, where its controller makes new ones.

    Its Workload says only that there are none, and only once that has lasted for a while.

    Args:
        api: is asked with the rights of the caller.
        subject: what is asked about.
        answer: as the conditions of the Workload tell it.
        workload: that is admitted.
        pods: that it has started.
    """
    view, pods = _AS_WORKLOAD(workload), tuple(pods)
    owner = view.metadata.controller()
    has_any = any(_is_alive(pod) or _phase(pod) == "Succeeded" for pod in pods)
    if answer.reason not in {Code.ADMITTED, Code.PODS_NOT_RUNNING} or owner is None or has_any:
        return answer
    if view.replaces() is not None or not _pods_held(workload)[0]:
        return answer
    codes = frozenset({events.POD_DISRUPTED})
    event = without_queues.last_event(api, answer.namespace, owner.uid, codes)
    if event is not None and answer.since:
        is_earlier = clock.from_wire(event.at) < clock.from_wire(answer.since)
        event = None if is_earlier else event  # it was about pods of an earlier admission
    has_run = bool(pods) or event is not None
    if not has_run and answer.reason == Code.ADMITTED:
        failed = subject.document.get("status", {}).get("failed")
        has_run = bool(failed or _true(workload, conditions.PODS_READY))
    if not has_run:
        return answer
    text = sentences.pods_left(
        why="" if event is None else events.of_one_pod(event.message),
        at="" if event is None else event.at,
        is_ending=any(_phase(pod) != "Failed" for pod in pods),
        pause_seconds=_job_pause_seconds(subject),
    )
    return _saying(answer, text)


def _job_pause_seconds(subject: ExplainedObject) -> int | None:
    """Return for how long a Job makes no new pod after one failed, at most; None for others.

    Source: kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy.
    """
    if subject.resource != resources.JOBS:
        return None
    failed = subject.document.get("status", {}).get("failed") or 1
    return int(min(_FIRST_PAUSE_SECONDS * 2 ** min(failed - 1, 10), _LONGEST_PAUSE_SECONDS))


_FIRST_PAUSE_SECONDS: Final = 10
_LONGEST_PAUSE_SECONDS: Final = 600


def _started_pods(api: Api, answer: Answer) -> list[Document]:
    """Return the pods that the Workload of an answer has started.

    Raises:
        ForbiddenError: the caller may not list pods.
    """
    pods = api.list(resources.PODS, answer.namespace, label_selector=cluster.RELEASED).items
    return [pod for pod in pods if _workload_named(pod) == answer.workload]


def _as_pods_say(answer: Answer, workload: Document, pods: Iterable[Document]) -> Answer:
    """Return the answer with the counts of now: the condition tells them up to a minute late.

    What it says stays where it has the same counts, since it knows more of the nodes; and where
    no pod names the Workload, as with a slice, whose pods name the first one.

    Args:
        answer: as the conditions of the Workload tell it.
        workload: that is admitted.
        pods: that it has started.
    """
    pods = [pod for pod in pods if _is_alive(pod) or _phase(pod) == "Succeeded"]
    view = _AS_WORKLOAD(workload)
    if answer.reason != Code.PODS_NOT_RUNNING or not pods or view.replaces() is not None:
        return answer
    counts = _counts_of(_admitted_pods(workload), pods)
    if not counts.is_stuck and reading.says_lost_node(answer.message):
        return answer
    if not counts.is_stuck and counts.ready >= counts.asked:
        text = _runs(workload, answer.cluster_queue, answer.flavors)
        return _saying(answer, text)
    counted = sentences.members_not_running(counts._replace(why="")).message.rstrip(".")
    has_same_counts = answer.message.startswith(counted)
    says_why = len(answer.message.rstrip(".")) > len(counted)
    if has_same_counts and (says_why or not counts.why):
        return answer
    return _saying(answer, sentences.members_not_running(counts))


def _phase(pod: Document) -> str:
    phase: str = pod.get("status", {}).get("phase") or ""
    return phase


def _workload_named(pod: Document) -> str:
    """Return the Workload that has started a pod; empty for none."""
    name: str = pod["metadata"].get("annotations", {}).get(names.WORKLOAD_ANNOTATION, "")
    return name


def _pods_of(subject: ExplainedObject) -> str | None:
    """Return what selects the pods of an owner whose pods are admitted, or None for another."""
    resource = subject.resource
    if not subjects.serves(resource):
        return None
    labels = subject.document.get("spec", {}).get("selector", {}).get("matchLabels")
    if labels:
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    label = _SERVING_LABELS.get(resource.kind, "app.kubernetes.io/instance")
    return f"{label}={subject.name}"


def _own(
    api: Api, subject: ExplainedObject, selector: str
) -> tuple[Sequence[Document], tuple[str, ...]]:
    """Return the pods of an owner, and what could not be read.

    Others may have the same labels: the selector finds candidates, the controller decides. Who
    may not list ReplicaSets gets all candidates of a Deployment.
    """
    pods = api.list(resources.PODS, subject.namespace, label_selector=selector).items
    if subject.resource.group != resources.DEPLOYMENTS.group:
        return pods, ()  # a label names the owner
    makers = {subject.document["metadata"]["uid"]}
    if subject.resource == resources.DEPLOYMENTS:
        try:
            sets = api.list(resources.REPLICA_SETS, subject.namespace, label_selector=selector)
        except errors.ForbiddenError:
            return pods, (_ALL_OF_LABELS,)
        makers |= {pod["metadata"]["uid"] for pod in sets.items if _controller(pod) in makers}
    return [pod for pod in pods if _controller(pod) in makers], ()


_ALL_OF_LABELS: Final = (
    "All pods with the labels of the Deployment are counted, also those of others: you may not "
    "list ReplicaSets"
)


def _controller(document: Document) -> str:
    """Return the UID of what controls an object; empty for nothing."""
    controller = _AS_OBJECT(document).metadata.controller()
    return controller.uid if controller is not None else ""


def _of_pods(api: Api, subject: ExplainedObject, pods: Sequence[Document]) -> Answer:
    """Return where an owner stands whose pods are admitted, each by itself or in groups."""
    answers = [
        _of_pod(api, ExplainedObject(resource=resources.PODS, document=pod), in_full=False)
        for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"])[:_FEW]
    ]
    parts = tuple(
        ExplainedPart(
            name=f"pod/{pod_answer.name}",
            state=pod_answer.state,
            reason=pod_answer.reason,
            message=pod_answer.message,
        )
        for pod_answer in answers
    )
    if not answers:
        return _answer(subject, State.NO_WORKLOAD, sentences.no_pods(), local=_queue_label(
            subject.document))  # fmt: skip
    nodes = dict(
        sorted(Counter(node for pod_answer in answers for node in pod_answer.nodes).items())
    )
    waits = [pod_answer for pod_answer in answers if pod_answer.state not in _FINE]
    if not waits:
        first = next(
            (pod_answer for pod_answer in answers if pod_answer.reason not in _RUNNING),
            answers[0],
        )
        text = Text(first.reason, first.message)
        if first.reason == Code.NOT_MANAGED:
            text = _not_managed(api, subject, in_full=not any(map(_node, pods)))
        if first.reason == Code.PODS_NOT_RUNNING:
            text = sentences.members_not_running(_counts(subject, pods, answers))
        flavors = _by_resource(
            (resource, name)
            for pod_answer in answers
            if pod_answer.state is State.ADMITTED
            for resource, listed in pod_answer.flavors.items()
            for name in listed
        )
        queues = {pod_answer.cluster_queue for pod_answer in answers}
        if first.reason == Code.ADMITTED and queues == {first.cluster_queue}:
            text = sentences.admitted(first.cluster_queue, sorted(_flavor_names(flavors)))
        answer = _answer(subject, first.state, text,
                         local=first.queue, cluster_queue=first.cluster_queue)  # fmt: skip
        return replace(answer, parts=parts, nodes=nodes, flavors=flavors)
    worst, words = _first_in_line(api, waits)
    document = next(pod for pod in pods if pod["metadata"]["name"] == worst.name)
    first_waiting = _of_pod(api, ExplainedObject(resource=resources.PODS, document=document))
    message, told_place = first_waiting.message, reading.told_place(first_waiting.message)
    if told_place is not None and words:
        message = message.replace(f"{told_place.words} in queue", f"{words} in queue", 1)
    text = sentences.of_pods(Text(first_waiting.reason, message), len(waits), len(answers))
    return replace(
        first_waiting,
        kind=subject.resource.kind,
        name=subject.name,
        message=text.message,
        nodes=nodes,
        parts=parts,
    )


def _first_in_line(api: Api, waits: Sequence[Answer]) -> tuple[Answer, str]:
    """Return which of some pods that wait is the first in the queue, and the places of all.

    Their conditions say the places where nobody serves them; where no condition says one, it is
    the first pod by name.

    Args:
        api: is asked with the rights of the caller.
        waits: where each of the pods stands, at least one.

    Returns:
        The first, and the places in words, such as ``1st to 7th``; empty where none is known.
    """
    first = waits[0]
    told_places = {
        pod_answer.name: place
        for pod_answer in waits
        if (place := reading.told_place(pod_answer.message)) is not None
    }
    if not told_places:
        return first, ""
    exact = _exact_places(api, first)
    numbers = {
        pod_answer.name: exact[key]
        for pod_answer in waits
        if (key := WorkloadKey(pod_answer.namespace, pod_answer.workload)) in exact
    }
    is_about = not numbers and any(place.is_about for place in told_places.values())
    numbers = numbers or {name: place.number for name, place in told_places.items()}
    first = min(
        (pod_answer for pod_answer in waits if pod_answer.name in numbers),
        key=lambda pod_answer: numbers[pod_answer.name],
    )
    return first, sentences.places(numbers.values(), is_about=is_about)


def _exact_places(api: Api, answer: Answer) -> Mapping[WorkloadKey, int]:
    """Return the places in the queue of an answer, as the controller serves them now.

    It is empty where it does not, or not to the caller.
    """
    order = waiting.told(api, answer.cluster_queue)
    if order is not None:
        return {key: place for key, place in order if place is not None}
    return without_queues.places(api, answer.namespace, answer.queue).by_workload


_FINE: Final = frozenset({State.ADMITTED, State.FINISHED, State.NOT_MANAGED})
_RUNNING: Final = frozenset({Code.ADMITTED, Code.CHARGED_RUNNING, Code.FINISHED, Code.NOT_MANAGED})
"""Reasons of pods that need no step."""


def _counts(
    subject: ExplainedObject, pods: Sequence[Document], answers: Sequence[Answer]
) -> MemberCounts:
    """Return how many pods of an owner there are, and what keeps the others.

    Args:
        subject: the owner.
        pods: of it.
        answers: where each of them stands.
    """
    alive = [pod for pod in pods if _is_alive(pod)]
    replicas = subject.document.get("spec", {}).get("replicas")
    on_lost = {pod.name for pod in answers if reading.says_lost_node(pod.message)}
    requested = max(len(alive), replicas if isinstance(replicas, int) else 0)
    return _counts_of(requested, alive, on_lost)


def _counts_of(
    requested: int, pods: Sequence[Document], on_lost: Container[str] = ()
) -> MemberCounts:
    """Return how many pods are there, and what keeps the others.

    Args:
        requested: how many there should be.
        pods: that are there and have not failed.
        on_lost: names of those on a node that is not ready.
    """
    reasons = Counter(
        _condition(pod, "PodScheduled").get("message", "") for pod in pods if not _node(pod)
    )
    del reasons[""]
    lost = {_node(pod) for pod in pods if pod["metadata"]["name"] in on_lost} - {""}
    return MemberCounts(
        asked=requested,
        created=len(pods),
        scheduled=sum(bool(_node(pod)) for pod in pods),
        ready=sum(
            _phase(pod) == "Succeeded"
            or (bool(_true(pod, "Ready")) and pod["metadata"]["name"] not in on_lost)
            for pod in pods
        ),
        why=min(reasons, key=lambda text: (-reasons[text], text), default=""),
        lost_nodes=tuple(sorted(lost)),
    )


def _is_alive(pod: Document) -> bool:
    has_ended = _phase(pod) in {"Succeeded", "Failed"}
    return not has_ended and not pod["metadata"].get("deletionTimestamp")


def _node(pod: Document) -> str:
    name: str = pod.get("spec", {}).get("nodeName") or ""
    return name


def _ended(document: Document) -> Text | None:
    """Return how an owner has ended that says so by a condition; else None."""
    for kind in ("Complete", "Completed", "Succeeded", "Failed"):
        condition = _condition(document, kind)
        if condition.get("status") == "True":
            return sentences.finished(condition.get("message") or kind)
    return None


# ----------------------------------------------------------------------------------- Workloads


def _of_workload(
    api: Api,
    subject: ExplainedObject,
    workload: Document,
    our_condition: Mapping[str, Any],
    *,
    in_full: bool = True,
) -> Answer:
    """Return where a Workload stands.

    Args:
        api: is asked for the queues, with the rights of the caller.
        subject: what is asked about.
        workload: its Workload.
        our_condition: that on the pod or owner; empty for none.
        in_full: whether numbers and place are wanted.
    """
    state, condition = _state(workload)
    admission = workload.get("status", {}).get("admission") or {}
    local = workload.get("spec", {}).get("queueName", "")
    queue = (
        admission.get("clusterQueue")
        or _told_queue(our_condition)
        or _cluster_queue(api, subject.namespace, local)
    )
    flavors = _by_resource(
        pair
        for assignment in admission.get("podSetAssignments", [])
        for pair in sorted(assignment.get("flavors", {}).items())
    )
    is_leaving = bool(subject.document["metadata"].get("deletionTimestamp"))
    text = _text(workload, state, condition, our_condition, queue, flavors, is_leaving=is_leaving)
    answer = _answer(
        subject, state, text, local=local, cluster_queue=queue,
        workload=workload["metadata"]["name"],
    )  # fmt: skip
    answer = replace(
        answer,
        since=condition.get("lastTransitionTime", ""),
        flavors=flavors,
        said=Text(condition.get("reason", ""), condition.get("message", "")),
    )
    if state is State.EVICTED and not is_leaving and text.reason != Code.EVICTED:
        lost = sentences.text(reading.of_condition(answer.said.reason, answer.said.message))
        if lost.reason == Code.EVICTED:
            answer = replace(answer, notes=(lost.message.rstrip("."),))
    is_waiting = not admission and state in {State.WAITING, State.EVICTED}
    if in_full and state is not State.FINISHED:
        answer = _with_class_without_effect(api, answer, subject, workload)
    limit = workload.get("spec", {}).get("maximumExecutionTimeSeconds")
    if limit and (state is State.ADMITTED or text.reason == Code.DEACTIVATED):
        note = f"it may run for {limit}s in all: label {names.MAX_EXEC_TIME_LABEL}"
        answer = replace(answer, notes=(*answer.notes, note))
    if in_full and state is State.EVICTED:
        answer = _with_preemptor(api, answer)
    if not in_full or not is_waiting or not queue:
        return answer
    answer = _with_numbers(api, answer, subject, workload, our_condition)
    ending = reading.ending(_why_without_quota(workload).message)
    text = sentences.with_ending(Text(answer.reason, answer.message), ending)
    answer = replace(answer, message=text.message)
    if answer.reason != Code.NO_MATCHING_FLAVOR:
        return answer
    step = flavor_labels.next_step(api, _AS_WORKLOAD(workload), _why_without_quota(workload))
    return replace(answer, advice=step or answer.advice)


def _why_without_quota(workload: Document) -> Text:
    """Return what a Workload says of why it has no quota, also where it was evicted before."""
    reserved = _condition(workload, conditions.QUOTA_RESERVED)
    return Text(reserved.get("reason", ""), reserved.get("message", ""))


def _text(
    workload: Document,
    state: State,
    condition: Mapping[str, Any],
    our_condition: Mapping[str, Any],
    queue: str,
    flavors: Mapping[str, tuple[str, ...]],
    *,
    is_leaving: bool,
) -> Text:
    """Return the verdict, as far as the Workload and our condition on its owner tell it."""
    stated = Text(condition.get("reason", ""), condition.get("message", ""))
    match state:
        case State.FINISHED:
            return sentences.finished(stated.message)
        case State.EVICTED:
            return _of_evicted(workload, stated, our_condition, queue, is_leaving=is_leaving)
        case State.ADMITTED:
            return _of_admitted(workload, our_condition, queue, flavors)
        case State.RESERVED:
            return sentences.waits_for_checks(_open_checks(workload))
        case _:
            return _of_waiting(workload, stated, our_condition, queue)


def _of_waiting(
    workload: Document, stated: Text, our_condition: Mapping[str, Any], queue: str
) -> Text:
    if our_condition.get("status") == "False":
        return sentences.text(
            reading.of_condition(
                our_condition.get("reason", ""), our_condition.get("message", "")
            ),
            queue,
        )
    if _true(workload, conditions.WAITING_FOR_REPLACEMENT_PODS):
        return sentences.group_lacks_pods(workload["metadata"]["name"])
    if not stated.reason:
        return sentences.not_judged()
    levels = _requested_levels(workload)
    return sentences.text(reading.of_condition(stated.reason, stated.message, levels), queue)


def _requested_levels(workload: Document) -> dict[str, reading.RequestedLevel]:
    """Return how close together the pods of each pod set ask to be; only those that ask."""
    requests = {
        pod_set.get("name", ""): pod_set.get("topologyRequest") or {}
        for pod_set in workload.get("spec", {}).get("podSets", ())
    }
    return {
        name: reading.RequestedLevel(
            level,
            is_one=bool(request.get("required")),
            size=request.get("podSetSliceSize") or 1,
        )
        for name, request in requests.items()
        if (level := request.get("required") or request.get("preferred"))
    }


def _of_evicted(
    workload: Document,
    stated: Text,
    our_condition: Mapping[str, Any],
    queue: str,
    *,
    is_leaving: bool,
) -> Text:
    notice = _true(workload, conditions.PREEMPTION_NOTICE)
    if notice and not is_leaving:
        return sentences.preemption_notice(notice.get("message", ""))
    held_back = _true(workload, conditions.STOP_HELD_BACK)
    if held_back:
        return sentences.stop_held_back(held_back.get("message", ""))
    reserved = _condition(workload, conditions.QUOTA_RESERVED)
    reason = reserved.get("reason", WaitReason.PENDING_EVALUATION)
    # Only the eviction says why it was deactivated.
    judged = reason not in {WaitReason.PENDING_EVALUATION, WaitReason.DEACTIVATED}
    if judged and reserved.get("status") == "False":
        again = Text(reserved.get("reason", ""), reserved.get("message", ""))
        return _of_waiting(workload, again, our_condition, queue)
    until = workload.get("status", {}).get("requeueState", {}).get("requeueAt") or ""
    return sentences.evicted(reading.of_condition(*stated), until=until)


def _of_admitted(
    workload: Document,
    our_condition: Mapping[str, Any],
    queue: str,
    flavors: Mapping[str, tuple[str, ...]],
) -> Text:
    refused = _true(workload, conditions.START_REFUSED)
    if refused:
        return sentences.fitted(Text(Code.START_REFUSED, refused.get("message", "")))
    if (
        our_condition.get("status") == "False"
        and our_condition.get("reason") == Code.START_REFUSED
    ):
        return sentences.fitted(Text(Code.START_REFUSED, our_condition.get("message", "")))
    ready = _condition(workload, conditions.PODS_READY)
    not_running = reading.not_running(ready.get("reason", ""), ready.get("message", ""))
    if ready.get("status") == "False" and not_running is not None:
        return sentences.pods_not_running(*not_running)
    return _runs(workload, queue, flavors)


def _by_resource(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the flavors of each resource of resources and flavors, each once."""
    flavors: dict[str, tuple[str, ...]] = {}
    for resource, flavor in pairs:
        if flavor not in flavors.get(resource, ()):
            flavors[resource] = (*flavors.get(resource, ()), flavor)
    return flavors


def _flavor_names(flavors: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the flavors of all resources, each once."""
    return tuple(dict.fromkeys(name for of_resource in flavors.values() for name in of_resource))


def _runs(workload: Document, queue: str, flavors: Mapping[str, tuple[str, ...]]) -> Text:
    """Return where a Workload was admitted of whose pods nothing bad is known."""
    if names.MADE_FOR_RUNNING in workload["metadata"].get("annotations", {}):
        return sentences.charged_running(queue)
    pods_held, pods_asked = _pods_held(workload)
    listed = _flavor_names(flavors)
    return sentences.admitted(queue, listed, pods_held=pods_held, pods_asked=pods_asked)


def _pods_held(workload: Document) -> tuple[int, int]:
    """Return for how many pods an admitted Workload holds quota, and for how many it asked.

    They differ where fewer were admitted, where pods have ended, and where fewer are wanted now.
    """
    status, pod_sets = workload.get("status", {}), workload.get("spec", {}).get("podSets", ())
    given_back = sum(part.get("count") or 0 for part in status.get("reclaimablePods") or ())
    requested = sum(pod_set.get("count") or 0 for pod_set in pod_sets)
    return max(0, _admitted_pods(workload) - given_back), requested


def _admitted_pods(workload: Document) -> int:
    """Return with how many pods a Workload was admitted, those that have ended included."""
    counts = {
        pod_set.get("name", ""): pod_set.get("count") or 0
        for pod_set in workload.get("spec", {}).get("podSets", ())
    }
    admission = workload.get("status", {}).get("admission") or {}
    assigned = admission.get("podSetAssignments", ())
    admitted = counts | {part["name"]: part["count"] for part in assigned if "count" in part}
    return sum(admitted.values())


def _open_checks(workload: Document) -> list[tuple[str, str]]:
    checks = workload.get("status", {}).get("admissionChecks", [])
    return [
        (check["name"], check.get("message", ""))
        for check in checks
        if check.get("state") != "Ready"
    ]


def _state(workload: Document) -> tuple[State, Mapping[str, Any]]:
    for kind, state in (
        (conditions.FINISHED, State.FINISHED),
        (conditions.EVICTED, State.EVICTED),
        (conditions.ADMITTED, State.ADMITTED),
        (conditions.QUOTA_RESERVED, State.RESERVED),
    ):
        condition = _true(workload, kind)
        if condition:
            return state, condition
    return State.WAITING, _condition(workload, conditions.QUOTA_RESERVED)


def _with_preemptor(api: Api, answer: Answer) -> Answer:
    """Return the answer with a note that names what took the quota, if it may be read."""
    lost = reading.of_condition(answer.said.reason, answer.said.message)
    if not isinstance(lost, causes.Preempted) or not lost.job_uid:
        return answer
    selector = f"{names.JOB_UID_LABEL}={lost.job_uid}"
    listed: Sequence[Document] = ()
    for namespace in ("", answer.namespace):
        with suppress(errors.ApiError):
            listed = api.list(resources.WORKLOADS, namespace, label_selector=selector).items
            break
    for workload in listed:
        if workload["metadata"]["uid"] != lost.uid:
            continue
        metadata = _AS_OBJECT(workload).metadata
        owner = metadata.controller()
        preemptor = f"{owner.kind.lower()}/{owner.name}" if owner else f"workload/{metadata.name}"
        note = f"It was preempted for {preemptor} in namespace {metadata.namespace}"
        return replace(answer, notes=(*answer.notes, note))
    return answer


# -------------------------------------------------------------------------------------- numbers

_OF_QUOTA: Final = frozenset(
    {
        Code.WAITING_FOR_QUOTA,
        Code.HELD_BY_PREVIOUS_REVISION,
        Code.CAPACITY_MISSING,
        Code.CAPACITY_PROMISED,
        Code.EXCEEDS_MAX_QUOTA,
        Code.WAITING_FOR_PREEMPTED,
        Code.PENDING_EVALUATION,
    }
)
"""Reasons beside which the numbers and the place matter."""


def _with_numbers(
    api: Api,
    answer: Answer,
    subject: ExplainedObject,
    workload: Document,
    our_condition: Mapping[str, Any],
) -> Answer:
    """Return the answer with what there is and the place, as far as the caller may read it."""
    is_told = our_condition.get("status") == "False"
    tree_of = answer.cluster_queue if is_told else ""
    lists = Wanted(namespace=answer.namespace, workloads=False, tree_of=tree_of)
    read = cluster.relate(cluster.read(api, lists))
    node = read.admitting.queues.get(names.ClusterQueueName(answer.cluster_queue))
    view = read.queues.get(answer.cluster_queue)
    if node is None or view is None:
        answer = replace(answer, missing=read.missing)
        may_read = cluster.not_listed(resources.CLUSTER_QUEUES) not in read.missing
        if may_read:
            return answer
        if answer.reason not in _OF_QUOTA:
            return _saying(answer, Text(answer.reason, answer.message), sees_queues=False)
        event = None if is_told else _last_event(api, answer, subject, workload)
        return _without_queues(api, answer, workload, event, is_told=is_told)
    requests = shortages.asked(_AS_WORKLOAD(workload)).values()
    unbound = _without_node(node, read, requests)
    if answer.reason in _OF_QUOTA or answer.reason == Code.WAITING_FOR_NODE:
        releasing = _releasing(node, read, requests)
        answer = replace(answer, notes=(*answer.notes, *releasing, *unbound))
    if answer.reason == Code.CLUSTER_QUEUE_INACTIVE:
        return replace(answer, notes=(*answer.notes, *_why_inactive(view.status.conditions)))
    if not is_told:
        text = Text(answer.reason, answer.message)
        reserved = _why_without_quota(workload).message
        answer = _saying(answer, waiting.with_flavors(node, text, reserved))
    if answer.reason not in {*_OF_QUOTA, Code.WAITING_FOR_NODE}:
        return answer
    flavors = cluster.read_flavors(api) if shortages.counts_gpus(view) else ()
    shorts = shortages.of_workload(node, _AS_WORKLOAD(workload), view, flavors)
    is_for_node = answer.reason == Code.WAITING_FOR_NODE
    sick = sick_nodes.of_waiting(api, view, shorts, flavors, waits_for_node=is_for_node)
    answer = replace(answer, notes=(*answer.notes, *sick))
    if answer.reason == Code.WAITING_FOR_NODE:
        return answer
    uncounted = {pair for queue, pair in read.uncounted if queue == answer.cluster_queue}
    numbers = tuple(_numbers(short, uncounted) for short in shorts)
    pending = view.status.pending_workloads or 0
    place, count = _place(api, answer, read, pending, is_told=is_told)
    answer = replace(answer, numbers=numbers, waiting=count)
    answer = _at_place(answer, place, answer.message)
    holder = _holder(node, (short for short in shorts if short.missing), read.forest.queues)
    text = Text(answer.reason, answer.message)
    # Our own condition is as of when it was tried, and knows more of what is not quota alone.
    if not is_told or answer.reason == Code.WAITING_FOR_QUOTA:
        told_place = reading.told_place(text.message) if place is None else None
        words = place_text(answer) if told_place is None else told_place.words
        text = shortages.verdict(text, shorts, answer.cluster_queue, place=words)
    if not is_told and text.reason == Code.EXCEEDS_MAX_QUOTA:
        flavors = flavors or cluster.read_flavors(api)
        text = shortages.exceeds_nodes(text, _AS_WORKLOAD(workload), shorts, flavors)
    return _saying(answer, text, holder=holder)


def _holder(node: QueueNode, lacking: Iterable[Shortage], queues: Container[str]) -> str:
    """Return whom to ask ``who`` about: the ClusterQueue that holds what is lacking, or a Cohort.

    It is its own queue where others could give back all they hold, and that would not be enough.

    Args:
        node: the ClusterQueue in which something waits.
        lacking: what is not free.
        queues: names of all ClusterQueues, which mean the queue where a Cohort has the same name.
    """
    holders = {
        queue
        for short in lacking
        if short.limit - node.usage.get(FlavorResource(short.flavor, short.resource), 0)
        >= short.requested
        for queue, _ in short.holders
    }
    if len(holders) > 1:
        root = node.root()
        assert isinstance(root, CohortNode)
        return f"{root.name} --kind cohort" if root.name in queues else root.name
    return next(iter(holders), node.name)


def _at_place(answer: Answer, place: int | None, sentence: str) -> Answer:
    """Return the answer with a place; where it is not known, with the rough one of a condition."""
    if place is not None:
        return replace(answer, place=place)
    told_place = reading.told_place(sentence)
    return (
        answer if told_place is None else replace(answer, place=told_place.number, is_about=True)
    )


def place_text(answer: Answer) -> str:
    """Return the place in words, such as ``about 40th``; empty where it is not known."""
    if answer.place is None:
        return ""
    return f"{'about ' if answer.is_about else ''}{sentences.exact_place(answer.place)}"


def _last_event(
    api: Api, answer: Answer, subject: ExplainedObject, workload: Document
) -> LastEvent | None:
    """Return what the last event said of what the Workload stands for, since it waits."""
    regarding = subject.document["metadata"]
    if subject.resource == resources.WORKLOADS:
        owners = regarding.get("ownerReferences") or [regarding]
        regarding = owners[0]
    codes = {answer.reason, *_KNOWN_TO_CONTROLLER}
    event = without_queues.last_event(api, answer.namespace, regarding["uid"], codes)
    if event is None or not event.at:
        return None
    began = answer.since or workload["metadata"].get("creationTimestamp", "")
    is_old = bool(began) and clock.from_wire(event.at) < clock.from_wire(began)
    return None if is_old else event


_KNOWN_TO_CONTROLLER: Final = frozenset(
    {
        Code.CAPACITY_MISSING,
        Code.CAPACITY_PROMISED,
        Code.HELD_BY_PREVIOUS_REVISION,
        Code.EXCEEDS_LARGEST_NODE,
    }
)
"""Reasons that the condition of a Workload, in Kueue's words, cannot tell."""


def _without_queues(
    api: Api, answer: Answer, workload: Document, event: LastEvent | None, *, is_told: bool
) -> Answer:
    """Return the answer with what is known of quota and place without reading ClusterQueues.

    What the last event said is the verdict where the Workload still says the same numbers: it
    knows the place and who holds the rest. A note says when that was. Else it tells only the most
    that the queue can reach; it is a note where the Workload says no numbers.

    Args:
        api: is asked with the rights of the caller.
        answer: so far.
        workload: that waits.
        event: what was said last of what it stands for.
        is_told: whether the message is our own condition, which has the numbers.
    """
    queue = without_queues.local_queue(api, answer.namespace, answer.queue)
    requested = shortages.asked(_AS_WORKLOAD(workload))
    stated_by_workload = _why_without_quota(workload).message
    amounts = tuple(without_queues.amounts(requested, stated_by_workload, queue))
    key = WorkloadKey(answer.namespace, answer.workload)
    places = without_queues.places(api, answer.namespace, answer.queue)
    answer = _at_place(answer, places.by_workload.get(key), answer.message if is_told else "")
    notes = [*answer.notes]
    lacks = [_lack(amount, amount.free) for amount in amounts if amount.free is not None]
    alone = (
        sentences.waits_for_quota(lacks, answer.cluster_queue)
        if answer.reason == Code.WAITING_FOR_QUOTA and lacks
        else None
    )
    agrees = event is not None and (
        event.reason == Code.EXCEEDS_LARGEST_NODE
        or (alone is not None and _says_as_much(event, alone))
    )
    stated = answer.message if is_told else event.message if event is not None and agrees else ""
    amounts = tuple(without_queues.as_stated(amounts, stated, is_one_pod_set=len(requested) == 1))
    if event is not None and not agrees:
        amounts = tuple(without_queues.with_reach(amounts, event.message))
        if alone is None:
            notes.append(f"its event said at {event.at[:19]}Z: {event.message}")
        lacks = [_lack(amount, amount.free) for amount in amounts if amount.free is not None]
    if queue is not None:
        notes.append(_use_of(queue))
    if answer.reason not in next_steps.NEVER_STARTS:
        notes.append(estimates.NOT_READ)
    missing = [*answer.missing]
    if places.is_refused:
        missing.append(
            f"The exact place is not shown: you may not read who waits in LocalQueue "
            f"{answer.queue}{cluster.SHOWN_BY}{names.PENDING_VIEWER_ROLE}"
        )
    answer = replace(
        answer,
        numbers=tuple(
            Numbers(flavor=amount.flavor, resource=amount.resource, asks=amount.asks,
                    free=amount.free, reach=amount.reach, nominal=amount.nominal)
            for amount in amounts
        ),
        notes=tuple(notes),
        missing=tuple(missing),
    )  # fmt: skip
    if is_told:
        return _saying(answer, Text(answer.reason, answer.message), sees_queues=False)
    at, queue_name = place_text(answer), answer.cluster_queue
    if answer.reason == Code.PENDING_EVALUATION:
        return _saying(answer, sentences.not_judged(at, queue_name), sees_queues=False)
    if event is not None and agrees:
        return _as_event_said(answer, event)
    if lacks:
        answer = replace(answer, notes=(*answer.notes, sentences.free_when_said()))
    text = Text(answer.reason, answer.message)
    if answer.reason == Code.WAITING_FOR_QUOTA and lacks:
        text = sentences.waits_for_quota(lacks, queue_name, place=at)
    return _saying(answer, text, sees_queues=False)


def _says_as_much(event: LastEvent, alone: Text) -> bool:
    """Return whether an event says what a Workload lacks as its condition says it now.

    Args:
        event: about what waits.
        alone: the sentence without place, reach and holders, which the condition does not know.
    """
    head = alone.message.rstrip(".")
    return event.message.startswith(head) and not event.message[len(head) :][:1].isalnum()


def _as_event_said(answer: Answer, event: LastEvent) -> Answer:
    """Return the answer with the sentence of an event, and the exact place where it is known."""
    message, place = event.message, reading.told_place(event.message)
    if event.reason == Code.EXCEEDS_LARGEST_NODE:
        return _saying(answer, Text(event.reason, message), sees_queues=False)
    parts = "what is free and who holds the rest are"
    if answer.place is None:
        parts = "what is free, its place and who holds the rest are"
    note = f"{parts} as of {event.at[:19]}Z, when its event said so"
    if place is not None and answer.place is not None:
        exact = sentences.exact_place(answer.place)
        message = message.replace(f"{place.words} in queue", f"{exact} in queue", 1)
    elif place is not None:
        answer = replace(answer, place=place.number, is_about=True)
    answer = replace(answer, notes=(*answer.notes, note))
    return _saying(answer, Text(event.reason, message), sees_queues=False)


def _lack(amount: FlavorRequest, free: int) -> sentences.Lack:
    return sentences.Lack(
        resource=amount.resource,
        flavor=amount.flavor,
        asks="" if amount.asks is None else quantity.in_words(amount.resource, amount.asks),
        free=quantity.in_words(amount.resource, free),
        reach="" if amount.reach is None else quantity.in_words(amount.resource, amount.reach),
    )


def _use_of(queue: LocalQueue) -> str:
    """Return what a LocalQueue holds, and how many wait in it."""
    amounts = sentences.listed(without_queues.holds(queue)) or "nothing"
    pending = queue.status.pending_workloads or 0
    waits = "1 Workload waits" if pending == 1 else f"{pending or 'no'} Workloads wait"
    return f"LocalQueue {queue.metadata.name} holds {amounts}; {waits} in it"


def _numbers(short: Shortage, uncounted: AbstractSet[FlavorResource]) -> Numbers:
    """Return the numbers of one resource in one flavor.

    Args:
        short: what is asked for, and what there is.
        uncounted: of what it is not known how much exists, and no more is given.
    """
    is_counted = (short.flavor, short.resource) not in uncounted
    return Numbers(
        flavor=short.flavor,
        resource=short.resource,
        asks=short.requested,
        free=short.available if is_counted else None,
        reach=short.limit if is_counted else None,
        nominal=amounts.add(short.nominal, short.withheld),
        holders=short.holders,
    )


def _place(
    api: Api, answer: Answer, read: cluster.Read, pending: int, *, is_told: bool
) -> tuple[int | None, int | None]:
    """Return the place in the ClusterQueue, and how many wait there.

    Our own condition says a place where one matters. Where nobody serves the order, that is the
    place; it is computed for what has no such condition.

    Args:
        api: is asked with the rights of the caller.
        answer: so far.
        read: queues.
        pending: how many wait, as the status of the ClusterQueue says.
        is_told: whether the message is our own condition.
    """
    key = WorkloadKey(answer.namespace, answer.workload)
    if is_told and reading.told_place(answer.message) is None:
        return None, pending
    order = waiting.told(api, answer.cluster_queue)
    if order is not None:
        in_line = {position.key: position.place for position in order if position.place}
        return in_line.get(key), len(in_line)
    if is_told or pending > _FEW:
        return None, pending
    whole = cluster.relate(cluster.with_workloads(api, read.objects, answer.namespace))
    line = waiting.of(whole, answer.cluster_queue)
    places = {(place.namespace, place.workload): place.place for place in line.waiting}
    is_whole = len(line.waiting) >= pending
    return (places.get((key.namespace, key.name)) if is_whole else None), pending


def _why_inactive(conditions_of_queue: Iterable[Any] | None) -> tuple[str, ...]:
    return tuple(
        sentences.cluster_queue(Text(condition.reason, condition.message)).message
        for condition in conditions_of_queue or ()
        if condition.type == conditions.ACTIVE and condition.status == "False"
    )


def _releasing(
    node: QueueNode, read: cluster.Read, requests: Iterable[Mapping[str, int]]
) -> Iterator[str]:
    """Yield which pods still hold quota that should be free and that a Workload waits for.

    Args:
        node: the ClusterQueue in which it waits.
        read: queues.
        requests: what its pod sets ask for.
    """
    pairs = _requested_pairs(node, requests)
    for leaf, view in _sharing(node, read):
        if any(leaf.usage.get(pair) for pair in pairs):
            for condition in view.status.conditions or ():
                if condition.type == conditions.RELEASING and condition.status == "True":
                    yield condition.message


def _without_node(
    node: QueueNode, read: cluster.Read, requests: Iterable[Mapping[str, int]]
) -> Iterator[str]:
    """Yield what pods without a node hold of what a Workload waits for, by ClusterQueue.

    Args:
        node: the ClusterQueue in which it waits.
        read: queues.
        requests: what its pod sets ask for.
    """
    pairs = _requested_pairs(node, requests)
    for leaf, view in _sharing(node, read):
        yield from _told_without_node(leaf.name, view.status.without_node, pairs)


def _sharing(node: QueueNode, read: cluster.Read) -> Iterator[tuple[QueueNode, ClusterQueue]]:
    """Yield the ClusterQueues that share quota with one, itself as well, by name."""
    for leaf in sorted(node.root().leaves(), key=lambda leaf: leaf.name):
        view = read.queues.get(leaf.name)
        if view is not None:
            yield leaf, view


def _requested_pairs(
    node: QueueNode, requests: Iterable[Mapping[str, int]]
) -> AbstractSet[FlavorResource]:
    """Return the flavors and resources of a ClusterQueue that pod sets may get."""
    resources_ = {resource for amounts in requests for resource in amounts}
    return {pair for pair in node.quotas if pair.resource in resources_}


def _told_without_node(
    name: str, listed: Iterable[Any] | None, pairs: AbstractSet[FlavorResource] | None = None
) -> Iterator[str]:
    """Yield what pods without a node hold of a ClusterQueue, by what its status lists.

    Args:
        name: of the ClusterQueue.
        listed: see `queue_status.without_node`.
        pairs: those to tell; None for all.
    """
    for pair, amount_held in queue_status.without_node(listed).items():
        if pairs is None or pair in pairs:
            yield placing.without_node(
                pair.resource, pair.flavor, amount_held.amount, name, amount_held.since
            )


# ----------------------------------------------------------------- ClusterQueues, LocalQueues

_ALSO: Final = (
    (conditions.CAPACITY_SUFFICIENT, "False"),
    (conditions.RELEASING, "True"),
    (conditions.COSTS_EXACT, "False"),
    (conditions.FLAVORS_CONSISTENT, "False"),
    (conditions.SPEC_SUPPORTED, "False"),
)
"""Conditions of a ClusterQueue that are told besides, and the status that is bad news."""


def _of_cluster_queue(api: Api, namespace: str, subject: ExplainedObject) -> Answer:
    queue = subject.document
    active = _condition(queue, conditions.ACTIVE)
    text = sentences.cluster_queue(Text(active.get("reason", ""), active.get("message", "")))
    state = State.ACTIVE if active.get("status") == "True" else State.INACTIVE
    if not active:
        text, state = sentences.no_workload(), State.NO_WORKLOAD
    answer = _answer(subject, state, text, cluster_queue=subject.name)
    notes = tuple(
        condition.get("message", "")
        for kind, status in _ALSO
        if (condition := _condition(queue, kind)).get("status") == status
    )
    listed = queue.get("status", {}).get("withoutNode")
    answer = replace(
        answer,
        since=active.get("lastTransitionTime", ""),
        said=Text(active.get("reason", ""), active.get("message", "")),
        notes=(*notes, *_told_without_node(subject.name, listed)),
        waiting=queue.get("status", {}).get("pendingWorkloads"),
    )
    if not queue["metadata"].get("deletionTimestamp"):
        return answer
    return _of_ending(api, namespace, answer, queue)


def _of_local_queue(api: Api, subject: ExplainedObject) -> Answer:
    """Return whether a LocalQueue admits, through which ClusterQueue, what it holds, who waits."""
    queue = _AS_LOCAL_QUEUE(subject.document)
    active = _condition(subject.document, conditions.ACTIVE)
    stated = Text(active.get("reason", ""), active.get("message", ""))
    behind = queue.spec.cluster_queue
    text, state = sentences.local_queue(stated, behind), State.INACTIVE
    if not active:
        text, state = sentences.no_workload(), State.NO_WORKLOAD
    elif active.get("status") == "True":
        state = State.ACTIVE
        if _is_unserved(api, subject.namespace, behind):
            text, state = sentences.text(causes.NamespaceNotServed()), State.INACTIVE
    answer = _answer(subject, state, text, local=subject.name, cluster_queue=behind)
    notes = [_use_of(queue)]
    if text.reason == Code.CLUSTER_QUEUE_INACTIVE:
        notes += _why_not_behind(api, behind)
    return replace(
        answer,
        since=active.get("lastTransitionTime", ""),
        said=stated,
        notes=tuple(notes),
        waiting=queue.status.pending_workloads,
    )


def _is_unserved(api: Api, namespace: str, cluster_queue: str) -> bool:
    """Return whether a ClusterQueue does not select a namespace, as far as both may be read."""
    try:
        queue = api.get(resources.CLUSTER_QUEUES, cluster_queue, into=ClusterQueue)
        labels = api.get(resources.NAMESPACES, namespace)["metadata"].get("labels") or {}
    except errors.ApiError:
        return False
    selects = values.selector(queue.spec.namespace_selector)
    return selects is None or not selects(labels)


def _why_not_behind(api: Api, cluster_queue: str) -> tuple[str, ...]:
    """Return why the ClusterQueue behind a LocalQueue admits nothing, if that may be read."""
    try:
        behind = api.get(resources.CLUSTER_QUEUES, cluster_queue, into=ClusterQueue)
    except (errors.NotFoundError, errors.ForbiddenError, errors.DecodeError):
        return ()
    return _why_inactive(behind.status.conditions)


def _of_ending(api: Api, namespace: str, answer: Answer, queue: Document) -> Answer:
    """Return what holds a ClusterQueue that is being deleted."""
    read = cluster.relate(cluster.read(api, Wanted(namespace=namespace)))
    holding = sorted(
        key for key, holder in read.holding.items() if holder.cluster_queue == answer.name
    )
    count = max(queue.get("status", {}).get("reservingWorkloads") or 0, len(holding))
    names_of_holders = [f"{key.namespace}/{key.name}" for key in holding]
    text = sentences.cluster_queue_in_use(count, names_of_holders)
    parts = tuple(
        ExplainedPart(name=name, state=State.ENDING if read.is_releasing(key) else State.ADMITTED)
        for name, key in zip(names_of_holders, holding, strict=True)
    )
    since = queue["metadata"]["deletionTimestamp"]
    answer = replace(answer, state=State.ENDING, parts=parts, since=since, missing=read.missing)
    return _saying(answer, text)


# -------------------------------------------------------------------------------------- helpers


def _answer(
    subject: ExplainedObject,
    state: State,
    text: Text,
    *,
    local: str = "",
    cluster_queue: str = "",
    workload: str = "",
) -> Answer:
    answer = Answer(
        kind=subject.resource.kind,
        namespace=subject.namespace,
        name=subject.name,
        state=state,
        queue=local,
        cluster_queue=cluster_queue,
        workload=workload,
        flavors={},
        is_alone=subject.resource == resources.PODS and not _controller(subject.document),
    )
    return _saying(answer, text)


def _saying(answer: Answer, text: Text, *, holder: str = "", sees_queues: bool = True) -> Answer:
    """Return the answer with a verdict and its next step.

    Args:
        answer: so far.
        text: the verdict.
        holder: who holds the quota for which it waits, if not its ClusterQueue.
        sees_queues: whether who asks may read ClusterQueues.
    """
    place = {
        "queue": holder
        if text.reason == Code.WAITING_FOR_QUOTA and holder
        else answer.cluster_queue,
        "local": answer.queue,
        "namespace": answer.namespace,
        "name": answer.name,
        "workload": answer.workload,
        "less": _smaller_request(answer, text)
        if text.reason == Code.WAITING_FOR_QUOTA
        else reading.largest_node(text.message),
    }
    step = next_steps.next_step(
        text.reason, place, sees_queues=sees_queues, is_alone=answer.is_alone,
        is_first=answer.place == 1, is_without_quota=reading.reaches_nothing(text.message),
    )  # fmt: skip
    return replace(answer, reason=text.reason, message=text.message, advice=step)


def _smaller_request(answer: Answer, text: Text) -> str:
    """Return which smaller request would not wait; empty where it lacks another resource, too."""
    lacking = {
        amount.resource
        for amount in answer.numbers
        if amount.asks is not None and amount.free is not None and amount.free < amount.asks
    }
    return "" if len(lacking) > 1 else reading.smaller_request(text.message)


def _cluster_queue(api: Api, namespace: str, queue: str) -> str:
    """ClusterQueue of a LocalQueue; empty where either is missing, or may not be read."""
    try:
        document = api.get(resources.LOCAL_QUEUES, queue, namespace) if queue else {}
    except (errors.NotFoundError, errors.ForbiddenError):
        return ""
    name: str = document.get("spec", {}).get("clusterQueue", "")
    return name


def _told_queue(our_condition: Mapping[str, Any]) -> str:
    """Return the ClusterQueue that our own condition names; empty where it names none in full."""
    place = (
        reading.told_place(our_condition.get("message", ""))
        if our_condition.get("status") == "False"
        else None
    )
    return "" if place is None or sentences.is_cut(place.cluster_queue) else place.cluster_queue


def _queue_label(document: Document) -> str:
    label: str = document["metadata"].get("labels", {}).get(names.QUEUE_LABEL, "")
    return label


def _class_label(document: Document) -> str:
    label: str = document["metadata"].get("labels", {}).get(names.PRIORITY_CLASS_LABEL, "")
    return label


def _condition(document: Document, kind: str) -> Mapping[str, Any]:
    listed = document.get("status", {}).get("conditions") or []
    return next((condition for condition in listed if condition["type"] == kind), {})


def _true(document: Document, kind: str) -> Mapping[str, Any]:
    condition = _condition(document, kind)
    return condition if condition.get("status") == "True" else {}


# ----------------------------------------------------------------------------------------- JSON


def document(answer: Answer) -> dict[str, Any]:
    """Return the answer as JSON."""
    return {
        "apiVersion": quota_use.API_VERSION,
        "kind": "Reason",
        "subject": {"kind": answer.kind, "namespace": answer.namespace, "name": answer.name},
        "state": answer.state,
        "reason": answer.reason,
        "message": answer.message,
        "next": answer.advice,
        "since": answer.since,
        "localQueue": answer.queue,
        "clusterQueue": answer.cluster_queue,
        "workload": answer.workload,
        "flavors": {resource: ", ".join(each) for resource, each in answer.flavors.items()},
        "nodes": dict(answer.nodes),
        "place": answer.place,
        "placeIsAbout": answer.is_about,
        "waiting": answer.waiting,
        "quota": [_numbers_document(part) for part in answer.numbers],
        "parts": [
            {
                "name": part.name,
                "state": part.state,
                "reason": part.reason,
                "message": part.message,
            }
            for part in answer.parts
        ],
        "notes": list(answer.notes),
        "condition": {"reason": answer.said.reason, "message": answer.said.message},
        "missing": list(answer.missing),
    }


def _numbers_document(numbers: Numbers) -> dict[str, Any]:
    show = quota_use.amount_text
    return {
        "flavor": numbers.flavor,
        "resource": numbers.resource,
        "asks": show(numbers.resource, numbers.asks),
        "free": show(numbers.resource, numbers.free),
        "reach": show(numbers.resource, numbers.reach),
        "nominal": show(numbers.resource, numbers.nominal),
        "heldBy": None
        if numbers.holders is None
        else [
            {"clusterQueue": queue, "amount": show(numbers.resource, used)}
            for queue, used in numbers.holders
        ],
    }
