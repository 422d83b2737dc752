"""Why a pod waits, or where it was admitted: what its conditions and its Workload say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from admission.base import conditions, names, structs
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.objects import views
from admission.owners import pod as pod_owner

_AS_OBJECT: Final = structs.converter(views.Object)


class State(StrEnum):
    """Where a pod is, as far as quota goes."""

    NOT_MANAGED = "not managed"
    NO_WORKLOAD = "without Workload"
    WAITING = "waiting"
    RESERVED = "quota reserved"
    ADMITTED = "admitted"
    EVICTED = "evicted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known about one pod.

    Attributes:
        pod: namespace and name.
        state: where it is.
        queue: its LocalQueue; empty where it has none.
        cluster_queue: where it was admitted, or where it waits; empty if unknown.
        workload: name of its Workload; empty where there is none.
        flavors: assigned flavor by resource.
        reason: CamelCase reason of the state.
        message: the same for people.
        since: RFC 3339 time of the last change of state; empty if unknown.
        advice: what the asker can do; empty for nothing.
    """

    pod: str
    state: State
    queue: str = ""
    cluster_queue: str = ""
    workload: str = ""
    flavors: Mapping[str, str]
    reason: str = ""
    message: str = ""
    since: str = ""
    advice: str = ""


def explain(api: Api, namespace: str, name: str) -> Answer:
    """Reads a pod, its Workload and its queue, and says where it stands.

    Raises:
        NotFoundError: there is no such pod.
        KubeError: the API server refused or did not answer.
    """
    pod = api.get(resources.PODS, name, namespace)
    labels = pod["metadata"].get("labels", {})
    named = pod["metadata"].get("annotations", {}).get(names.WORKLOAD_ANNOTATION)
    if not named and labels.get(names.MANAGED_LABEL) != names.MANAGED_VALUE:
        return Answer(
            pod=f"{namespace}/{name}",
            state=State.NOT_MANAGED,
            flavors={},
            message="no quota is kept for this pod",
            advice=_unmanaged_advice(labels),
        )
    workload = _workload_of(api, pod, named)
    if workload is None:
        return _without_workload(pod, labels.get(names.QUEUE_LABEL, ""))
    queue = workload.get("spec", {}).get("queueName", "")
    answer = _from_workload(pod, workload, _cluster_queue(api, namespace, queue))
    if answer.state is not State.WAITING:
        return answer
    return replace(answer, advice=_releasing(api, answer.cluster_queue))


def _unmanaged_advice(labels: Mapping[str, str]) -> str:
    if labels.get(names.QUEUE_LABEL):
        return "it was created while its namespace was excluded or the webhook was not installed"
    return f"set the label {names.QUEUE_LABEL} at creation, or add a LocalQueue named default"


def _workload_of(api: Api, pod: Document, named: str | None) -> Document | None:
    """The Workload that a released pod names, or that its group has; else the pod's own."""
    named = named or _group(pod)
    if named:
        try:
            return api.get(resources.WORKLOADS, named, pod["metadata"]["namespace"])
        except errors.NotFoundError:
            return None
    selector = f"{names.JOB_UID_LABEL}={pod['metadata']['uid']}"
    namespace = pod["metadata"]["namespace"]
    found = api.list(resources.WORKLOADS, namespace, label_selector=selector).items
    return found[0] if found else None


def _group(pod: Document) -> str:
    """Return the name of the pod's group; empty for a single pod."""
    return pod_owner.group_name(_AS_OBJECT(pod))


def _cluster_queue(api: Api, namespace: str, queue: str) -> str:
    """ClusterQueue of a LocalQueue; empty where either is missing."""
    try:
        found = api.get(resources.LOCAL_QUEUES, queue, namespace) if queue else {}
    except errors.NotFoundError:
        return ""
    name: str = found.get("spec", {}).get("clusterQueue", "")
    return name


def _releasing(api: Api, name: str) -> str:
    """Return which pods hold quota of a ClusterQueue that is about to be free.

    It is empty if none is known.
    """
    try:
        found = api.get(resources.CLUSTER_QUEUES, name) if name else {}
    except (errors.NotFoundError, errors.ForbiddenError):
        return ""  # a user need not be allowed to read ClusterQueues
    condition = _condition(found, conditions.RELEASING)
    message: str = condition.get("message", "")
    return message if condition.get("status") == "True" else ""


def _without_workload(pod: Document, queue: str) -> Answer:
    own = _condition(pod, conditions.POD_ADMITTED)
    return Answer(
        pod=_name(pod),
        state=State.NO_WORKLOAD,
        queue=queue,
        flavors={},
        reason=own.get("reason", ""),
        message=own.get("message", "the controller has not made a Workload for it"),
        since=own.get("lastTransitionTime", ""),
        advice="" if own else "see that the controller runs: its /readyz and its log",
    )


def _from_workload(pod: Document, workload: Document, cluster_queue: str) -> Answer:
    state, condition = _state(workload)
    admission = workload.get("status", {}).get("admission") or {}
    own = _condition(pod, conditions.POD_ADMITTED)
    detail = own if state is State.WAITING and own.get("status") == "False" else condition
    notice = _condition(workload, conditions.PREEMPTION_NOTICE)
    if state is State.EVICTED and notice and not pod["metadata"].get("deletionTimestamp"):
        detail = notice
    return Answer(
        pod=_name(pod),
        state=state,
        queue=workload.get("spec", {}).get("queueName", ""),
        cluster_queue=admission.get("clusterQueue", cluster_queue),
        workload=workload["metadata"]["name"],
        flavors={
            resource: flavor
            for assignment in admission.get("podSetAssignments", [])
            for resource, flavor in sorted(assignment.get("flavors", {}).items())
        },
        reason=detail.get("reason", ""),
        message=_why_it_does_not_run(workload, state) or detail.get("message", ""),
        since=condition.get("lastTransitionTime", ""),
    )


def _why_it_does_not_run(workload: Document, state: State) -> str:
    """Return which pods of an admitted Workload are missing; empty where nothing is said."""
    ready = _condition(workload, conditions.PODS_READY)
    message: str = ready.get("message", "")
    is_told = ready.get("status") == "False" and conditions.says_counts(message)
    return message if state is State.ADMITTED and is_told else ""


def _state(workload: Document) -> tuple[State, Mapping[str, Any]]:
    for kind, state in (
        (conditions.FINISHED, State.FINISHED),
        (conditions.EVICTED, State.EVICTED),
        (conditions.ADMITTED, State.ADMITTED),
        (conditions.QUOTA_RESERVED, State.RESERVED),
    ):
        condition = _condition(workload, kind)
        if condition.get("status") == "True":
            return state, condition
    return State.WAITING, _condition(workload, conditions.QUOTA_RESERVED)


def _condition(document: Document, kind: str) -> Mapping[str, Any]:
    found = document.get("status", {}).get("conditions", [])
    return next((condition for condition in found if condition["type"] == kind), {})


def _name(pod: Document) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
