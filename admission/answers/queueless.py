"""What waits and is in no ClusterQueue: it has no queue, or names something that does not exist.

`of` returns plain data, `document` the same as JSON; docs/reference/commands.md documents it.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from admission.answers import owning, quota_use, waiting, without_queues
from admission.answers.cluster import Read
from admission.base import conditions, names, structs
from admission.base.conditions import Text
from admission.base.errors import InvalidValueError
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.objects import pods, views
from admission.reasons import next_steps, reading, sentences
from admission.reasons.next_steps import Code

_MOST: Final = 50
"""So many owners without Workload are explained; each takes some requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queueless:
    """What waits in no ClusterQueue.

    Attributes:
        namespace: where it is.
        workload: name of its Workload; empty where it has none.
        owner: what waits, as ``Job train``; empty for the Workload itself.
        requester: who created it, `owning.UNKNOWN` where nobody saw it.
        local_queue: that it names; empty for none.
        since: when it was created, RFC 3339.
        asks: what it asks for, by resource; None where that is not known.
        message: why it waits, a sentence of the catalogue.
        reason: its code in the catalogue.
    """

    namespace: str
    workload: str
    owner: str
    requester: str
    local_queue: str
    since: str
    asks: Mapping[str, int] | None
    message: str
    reason: str

    @property
    def never(self) -> bool:
        """Return whether it never starts as it is."""
        return self.reason in next_steps.NEVER_STARTS


def of(api: Api, read: Read, namespace: str, own_namespace: str) -> tuple[Queueless, ...]:
    """Return what waits in no ClusterQueue, by namespace and name.

    Workloads are looked for in all that was read, and pods without a queue in all namespaces that
    may be read. What else has no Workload is looked for in one namespace.

    Args:
        api: is asked with the rights of the caller.
        read: queues and Workloads.
        namespace: the only one that is of interest; empty for all.
        own_namespace: where what has no Workload is looked for; empty for nowhere.

    Raises:
        KubeError: the API server did not answer.
    """
    queueless = [
        Queueless(
            namespace=place.namespace,
            workload=place.workload,
            owner=place.owner,
            requester=place.requester,
            local_queue=place.local_queue,
            since=place.since,
            asks=place.asks,
            message=place.message,
            reason=place.reason,
        )
        for place in waiting.everywhere(read)
        if namespace in {"", place.namespace}
        and place.reason == Code.LOCAL_QUEUE_NOT_FOUND
        and not read.cluster_queue_of(place.namespace, place.local_queue)
    ]
    if own_namespace:
        queueless += _without_workload(api, read, own_namespace)
    if not namespace:
        queueless += (each for each in _pods_without_queue(api) if each.namespace != own_namespace)
    return tuple(sorted(queueless, key=lambda each: (each.namespace, each.owner, each.workload)))


def _without_workload(api: Api, read: Read, namespace: str) -> Iterator[Queueless]:
    """Yield what waits in a namespace and has no Workload, with why."""
    made_for = {
        uid
        for workload in read.workloads.values()
        for uid in (
            workload.metadata.label(names.JOB_UID_LABEL),
            *(owner.uid for owner in workload.metadata.owner_references or ()),
        )
    }
    waits = (
        *_pods(api, namespace, _MANAGED),
        *_owners(api, namespace, made_for),
        *_jobs_without_queue(api, namespace),
    )
    for lacking in waits:
        if lacking.uid not in made_for and lacking.text.reason in _REASONS:
            yield _told(lacking)


def _pods_without_queue(api: Api) -> Iterator[Queueless]:
    """Yield the pods of all namespaces that wait for a queue, where all of them may be listed."""
    for lacking in _pods(api, "", f"{_MANAGED},!{names.QUEUE_LABEL}"):
        if lacking.text.reason in _REASONS:
            yield _told(lacking)


class _Lacking(NamedTuple):
    """A pod or owner that may have no Workload, and why."""

    kind: str
    document: Document
    text: Text

    @property
    def uid(self) -> str:
        """Return the UID of the object."""
        uid: str = self.document["metadata"]["uid"]
        return uid


def _told(lacking: _Lacking) -> Queueless:
    metadata = lacking.document["metadata"]
    return Queueless(
        namespace=metadata.get("namespace", ""),
        workload="",
        owner=f"{lacking.kind} {metadata['name']}",
        requester=(metadata.get("annotations") or {}).get(names.REQUESTER) or owning.UNKNOWN,
        local_queue=(metadata.get("labels") or {}).get(names.QUEUE_LABEL, ""),
        since=metadata.get("creationTimestamp", ""),
        asks=_asks(lacking),
        message=lacking.text.message,
        reason=lacking.text.reason,
    )


_AS_SPEC: Final = structs.converter(views.PodSpec)
_PODS_OF: Final[Mapping[str, Callable[[Document], tuple[Document, int]]]] = {
    resources.PODS.kind: lambda spec: (spec, 1),
    resources.JOBS.kind: lambda spec: (spec["template"]["spec"], spec.get("parallelism", 1)),
}
"""The spec of the pods of a kind, and how many there are."""


def _asks(lacking: _Lacking) -> Mapping[str, int] | None:
    """Return the GPUs that a pod or Job asks for; None of other kinds, and where claims say it."""
    if lacking.kind not in _PODS_OF:
        return None
    template, count = _PODS_OF[lacking.kind](lacking.document["spec"])
    if template.get("resourceClaims"):
        return None
    try:
        gpus = pods.gpus_of(_AS_SPEC(template))
    except (InvalidValueError, msgspec.ValidationError):
        return None
    return {resource: amount * count for resource, amount in gpus.items()}


_MANAGED: Final = f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}"
_REASONS: Final = frozenset(
    {
        Code.QUEUE_REQUIRED, Code.PRIORITY_CLASS_NOT_FOUND, Code.REFERENCE_NOT_FOUND,
        Code.LOCAL_QUEUE_NOT_FOUND,
    }
)  # fmt: skip


def _pods(api: Api, namespace: str, selector: str) -> Iterator[_Lacking]:
    """Yield the pods that say what they wait for, as far as they may be listed."""
    try:
        listed = api.list(resources.PODS, namespace, label_selector=selector).items
    except errors.ForbiddenError:
        return
    for pod in listed:
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if (condition["type"], condition["status"]) == (conditions.POD_ADMITTED, "False"):
                why_it_waits = reading.of_condition(
                    condition.get("reason", ""), condition.get("message", "")
                )
                yield _Lacking(resources.PODS.kind, pod, sentences.text(why_it_waits))


def _owners(api: Api, namespace: str, made_for: AbstractSet[str]) -> Iterator[_Lacking]:
    """Yield Jobs in a queue, and owners of which an event says that they name no class.

    Args:
        api: is asked with the rights of the caller.
        namespace: of them.
        made_for: UIDs of what has a Workload, and is left out.
    """
    owners = {owner.uid: owner for owner in without_queues.without_class(api, namespace)}
    with suppress(errors.ForbiddenError):
        jobs = api.list(resources.JOBS, namespace, label_selector=names.QUEUE_LABEL).items
        for job in jobs:
            metadata = job["metadata"]
            if (job.get("spec") or {}).get("suspend"):
                kind, name = resources.JOBS.kind, metadata["name"]
                owners[metadata["uid"]] = without_queues.Regarded(kind, name, metadata["uid"])
            else:
                owners.pop(metadata["uid"], None)
    from admission.answers import subjects, why  # noqa: PLC0415 - they import every kind of owner

    lacking = [owner for uid, owner in owners.items() if uid not in made_for]
    for owner in lacking[:_MOST]:
        try:
            subject = subjects.find(api, namespace, f"{owner.kind}/{owner.name}")
            answer = why.explain(api, namespace, f"{owner.kind}/{owner.name}")
        except (subjects.SubjectError, errors.NotFoundError, errors.ForbiddenError):
            continue  # it is gone, or may not be read
        text = Text(answer.reason, answer.message)
        yield _Lacking(answer.kind, subject.document, text)


def _jobs_without_queue(api: Api, namespace: str) -> Iterator[_Lacking]:
    """Yield the suspended Jobs that ask for GPUs and have no queue, nor an owner that has one.

    Jobs that ask by claims are left out: what they ask for is not known.
    """
    try:
        jobs = api.list(resources.JOBS, namespace, label_selector=f"!{names.QUEUE_LABEL}").items
    except errors.ForbiddenError:
        return
    for job in jobs:
        owners = {owner["kind"] for owner in job["metadata"].get("ownerReferences", ())}
        if not (job.get("spec") or {}).get("suspend") or owners - {_CRON_JOB}:
            continue
        ended = {
            condition["type"]
            for condition in (job.get("status") or {}).get("conditions") or ()
            if condition["status"] == "True"
        }
        lacking = _Lacking(resources.JOBS.kind, job, sentences.suspended_without_queue())
        if ended.isdisjoint(_ENDS) and any((_asks(lacking) or {}).values()):
            yield lacking


_ENDS: Final = frozenset({"Complete", "Failed"})


_CRON_JOB: Final = "CronJob"
"""An owner that has no queue of its own."""


def document(queueless: tuple[Queueless, ...]) -> list[dict[str, Any]]:
    """Return what waits in no ClusterQueue as JSON."""
    return [
        {
            "namespace": each.namespace,
            "workload": each.workload,
            "owner": each.owner,
            "requester": each.requester,
            "localQueue": each.local_queue,
            "since": each.since,
            "asks": None if each.asks is None else quota_use.amounts_document(each.asks),
            "message": each.message,
            "reason": each.reason,
            "neverStarts": each.never,
        }
        for each in queueless
    ]
