"""What was preempted, when, and for whom: as Workloads and events still tell it.

A Workload that exists tells its last preemption, however long ago it was. Earlier ones, and those
of Workloads that are gone (single pods take theirs along), are told by events only, which an API
server keeps for an hour unless it is configured otherwise.

`of` returns plain data, `document` the same as JSON; docs/reference/commands.md documents it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from admission.answers import cluster, owning, quota_use, without_queues
from admission.answers.cluster import Objects
from admission.base import clock, conditions, events
from admission.base.causes import Preempted
from admission.base.conditions import EvictionReason, PreemptionReason
from admission.base.errors import InvalidValueError
from admission.base.names import WorkloadKey
from admission.kube import errors
from admission.kube.api import PAGE, Api, Document
from admission.objects import workload as workloads
from admission.objects.workload import Workload
from admission.owners import workload as owner_workloads
from admission.reasons import reading

_REASONS: Final = (events.PREEMPTED, events.PREEMPTED_WORKLOAD, events.STOPPED)


class Afterwards(StrEnum):
    """What has become of something since it was preempted."""

    STOPPING = "stopping"
    WAITS = "waits"
    RUNS = "runs again"
    ENDED = "ended"
    GONE = "gone"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """A Workload that was preempted, or for which one was.

    Attributes:
        namespace: of it; empty where that is not known.
        workload: its name; likewise.
        owner: what it was made for, as ``Job train``; empty where that is not known.
        requester: who created that; `owning.UNKNOWN` where that is not known.
        cluster_queue: whose quota it had or got; empty where that is not known.
    """

    namespace: str = ""
    workload: str = ""
    owner: str = ""
    requester: str = owning.UNKNOWN
    cluster_queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldPreemption:
    """One preemption.

    Attributes:
        at: when it was told, RFC 3339.
        victim: what was preempted.
        preemptor: for whom.
        why: why it was chosen.
        gpus: what it asked for, by resource; None where that is not known.
        afterwards: what has become of it.
    """

    at: str
    victim: Party
    preemptor: Party
    why: Preempted
    gpus: Mapping[str, int] | None
    afterwards: Afterwards

    @property
    def cause(self) -> PreemptionReason:
        """Return the reason of the condition Preempted."""
        return self.why.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptions:
    """What was preempted since a moment.

    Attributes:
        preemptions: the latest first.
        missing: what could not be read, a sentence each.
    """

    preemptions: tuple[ToldPreemption, ...]
    missing: tuple[str, ...] = ()


def of(api: Api, namespace: str, own_namespace: str, since: datetime) -> Preemptions:
    """Return what was preempted, as far as it is still told.

    Args:
        api: is asked with the rights of the caller.
        namespace: the only one whose Workloads are of interest; empty for all.
        own_namespace: what is read where not all namespaces may be.
        since: earlier ones are left out.

    Raises:
        KubeError: the API server did not answer.
    """
    where = namespace or own_namespace
    objects = cluster.read_holders(api, where)
    told_events, missing = _events(api, where)
    workloads_known = _KnownWorkloads(objects, told_events)
    is_whole = not cluster.is_unread(objects.missing, "Workload")
    by_events = list(_told_by_events(told_events))
    pairs = {(trace.uid, trace.why.uid) for trace in by_events}
    by_workloads = _told_by_workloads(objects.workloads)
    told_once = (trace for trace in by_workloads if (trace.uid, trace.why.uid) not in pairs)
    every = [
        workloads_known.preemption(trace, is_whole=is_whole) for trace in (*by_events, *told_once)
    ]
    chosen = (
        each
        for each in every
        if clock.from_wire(each.at) >= since and namespace in {"", each.victim.namespace}
    )
    return Preemptions(
        preemptions=tuple(
            sorted(
                chosen,
                key=lambda each: (each.at, each.victim.namespace, each.victim.workload),
                reverse=True,
            )
        ),
        missing=(*_of_workloads(objects.missing), *missing),
    )


def _of_workloads(missing: Iterable[str]) -> Iterator[str]:
    """Yield what could not be read of Workloads; pods do not matter here."""
    yield from (note for note in missing if not note.startswith("Pods "))


@dataclass(frozen=True, slots=True)
class _Trace:
    """One preemption as a condition or an event tells it."""

    at: str
    key: WorkloadKey
    uid: str
    why: Preempted


def _told_by_workloads(views: Iterable[Workload]) -> Iterator[_Trace]:
    """Yield the last preemption of each Workload that tells one.

    Once it was admitted again, Requeued still tells when it gave its quota back.
    """
    for view in views:
        for kind in (conditions.EVICTED, conditions.REQUEUED):
            condition = view.status.condition(kind)
            if condition is None or condition.reason != EvictionReason.PREEMPTED:
                continue
            why = reading.preemption(condition.message)
            if why is not None and condition.last_transition_time:
                yield _Trace(condition.last_transition_time, view.key(), view.metadata.uid, why)
                break


def _told_by_events(listed: Iterable["_PreemptionEvent"]) -> Iterator[_Trace]:
    for event in listed:
        why = reading.preemption(event.message) if event.reason == events.PREEMPTED else None
        if why is not None and event.kind == "Workload" and event.at:
            yield _Trace(event.at, event.key, event.uid, why)


class _KnownWorkloads:
    """What is known of Workloads, those that are gone included."""

    def __init__(self, objects: Objects, listed: Iterable["_PreemptionEvent"]) -> None:
        self._views = {view.metadata.uid: view for view in objects.workloads}
        self._preemptors: dict[str, WorkloadKey] = {}
        self._owners: dict[WorkloadKey, str] = {}
        for event in listed:
            if event.reason == events.PREEMPTED_WORKLOAD:
                self._preemptors[event.uid] = event.key
            elif event.reason == events.STOPPED:
                name = owner_workloads.name_for(event.kind, event.group, event.key.name, event.uid)
                key = WorkloadKey(event.key.namespace, name)
                self._owners[key] = f"{event.kind} {event.key.name}"

    def preemption(self, trace: _Trace, *, is_whole: bool) -> ToldPreemption:
        """Return a preemption with all that is known of both.

        Args:
            trace: as it was told.
            is_whole: whether a Workload that was not read is gone.
        """
        view = self._views.get(trace.uid)
        queue = trace.why.preemptee_path.rpartition("/")[2]
        return ToldPreemption(
            at=trace.at,
            victim=self._party(trace.uid, trace.key, queue),
            preemptor=self._party(
                trace.why.uid,
                self._preemptors.get(trace.why.uid),
                trace.why.preemptor_path.rpartition("/")[2],
            ),
            why=trace.why,
            gpus=None if view is None else _gpus(view),
            afterwards=_afterwards(view) if view is not None or is_whole else Afterwards.UNKNOWN,
        )

    def _party(self, uid: str, key: WorkloadKey | None, queue: str) -> Party:
        view = self._views.get(uid)
        if view is not None:
            return Party(
                namespace=view.metadata.namespace,
                workload=view.metadata.name,
                owner=owning.owner_of(view),
                requester=owning.requester_of(view.metadata),
                cluster_queue=queue,
            )
        if key is None:
            return Party(cluster_queue=queue)
        return Party(
            namespace=key.namespace,
            workload=key.name,
            owner=self._owners.get(key, ""),
            cluster_queue=queue,
        )


def _gpus(view: Workload) -> dict[str, int] | None:
    try:
        value = workloads.scheduling_value(view)
    except InvalidValueError:
        return None
    asks = quota_use.asks(view, value)
    return {resource: n for resource, n in asks.items() if n and quota_use.is_gpu(resource)}


def _afterwards(view: Workload | None) -> Afterwards:
    if view is None:
        return Afterwards.GONE
    if view.status.is_true(conditions.FINISHED):
        return Afterwards.ENDED
    if view.status.is_true(conditions.EVICTED):
        return Afterwards.STOPPING if view.status.admission is not None else Afterwards.WAITS
    return Afterwards.RUNS if view.status.is_true(conditions.ADMITTED) else Afterwards.WAITS


# -------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class _PreemptionEvent:
    """What an event says, and of what."""

    reason: str
    message: str
    at: str
    key: WorkloadKey
    uid: str
    kind: str
    group: str = field(default="")


def _events(api: Api, namespace: str) -> tuple[list[_PreemptionEvent], tuple[str, ...]]:
    """Return the events about preemptions, and which could not be read."""
    for place in ("", namespace):
        for resource, regarding, note in without_queues.EVENTS:
            try:
                listed = [
                    _read(document, document.get(regarding) or {}, note)
                    for reason in _REASONS
                    for document in _pages(api, resource, place, reason)
                ]
            except errors.ApiError:
                continue  # they may not be listed, or are not served in this form
            outside = f"Events are not shown outside namespace {place}: you may not list them"
            return listed, (outside,) if place else ()
    unread = f"you may not list them, nor those of namespace {namespace}"
    return [], (f"Events are not shown: {unread}",)


def _pages(api: Api, resource: Any, namespace: str, reason: str) -> Iterator[Document]:
    token = ""
    while True:
        page = api.list(
            resource, namespace, field_selector=f"reason={reason}", limit=PAGE, continue_=token
        )
        yield from page.items
        token = page.continue_
        if not token:
            return


def _read(document: Document, regarding: Mapping[str, str], note: str) -> _PreemptionEvent:
    group, _, _ = regarding.get("apiVersion", "").rpartition("/")
    return _PreemptionEvent(
        reason=document.get("reason", ""),
        message=document.get(note) or "",
        at=without_queues.time_of(document),
        key=WorkloadKey(regarding.get("namespace", ""), regarding.get("name", "")),
        uid=regarding.get("uid", ""),
        kind=regarding.get("kind", ""),
        group=group,
    )


# ------------------------------------------------------------------------------------- as JSON


def document(preemptions: Preemptions, since: datetime) -> dict[str, Any]:
    """Return the answer as JSON."""
    return {
        "apiVersion": quota_use.API_VERSION,
        "kind": "Preemptions",
        "from": clock.to_wire(since),
        "preemptions": [
            {
                "at": each.at,
                **_party_document(each.victim),
                "gpus": None if each.gpus is None else quota_use.amounts_document(each.gpus),
                "state": None if each.afterwards is Afterwards.UNKNOWN else str(each.afterwards),
                "reason": str(each.cause),
                "cut": None if each.why.cut is None else str(each.why.cut),
                "preemptor": _party_document(each.preemptor),
            }
            for each in preemptions.preemptions
        ],
        "missing": list(preemptions.missing),
    }


def _party_document(party: Party) -> dict[str, str]:
    return {
        "namespace": party.namespace,
        "workload": party.workload,
        "owner": party.owner,
        "requester": party.requester,
        "clusterQueue": party.cluster_queue,
    }
