"""Groups of pods: their pods as last seen, and what is written about them.

Source: kueue pkg/controller/jobs/pod.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, Final

import msgspec
from typing_extensions import override

from admission.base import clock as clocks
from admission.base import conditions, events, names
from admission.base.conditions import Text
from admission.base.events import Event
from admission.base.names import LocalQueueKey, WorkloadKey
from admission.controller import awaited
from admission.controller.devices.claims import Claims
from admission.controller.seeing.informers import Informer, key_of
from admission.controller.seeing.object_cache import NamedCache, ObjectCache, version
from admission.controller.watched_owners import owner_requests, pods_in_doubt
from admission.controller.watched_owners.index import OwnerIndex, Subject
from admission.controller.watched_owners.owner_writes import Decide, OwnerContext, Owners
from admission.controller.watched_owners.pod_endings import PodEndings
from admission.controller.watched_owners.serving_groups import ServingGroups
from admission.controller.workloads import checks, evictions
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    Verb,
    WritePurpose,
)
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import condition_list, gangs, views
from admission.objects.gangs import Gang, GangKind
from admission.objects.workload import Workload
from admission.owners import lifecycle, pod_group
from admission.owners import pod as pod_owner
from admission.owners.framework import Integration, Owner
from admission.owners.lifecycle import Next, Step
from admission.owners.pod_group import Departed, PodGroup, PodGroupOwner
from admission.owners.serving import ServingKind
from admission.owners.workload import MissingPriorityClassError
from admission.reasons import added_conditions, kueue, sentences
from admission.scheduling.decisions import Wait

_GATHERING: Final = timedelta(seconds=1)
"""After the creation of its last pod, until a group says which pods it lacks."""
_GATHERING_UNCOUNTED: Final = timedelta(seconds=5)
"""After the creation of the last pod of a controller, which does not say how many come."""
_KEPT: Final = timedelta(hours=1)
"""After an eviction, for how long the Workload of a group is kept of which no pod is there."""


@dataclass(slots=True)
class _MadeOfGroup:
    """What was made of the pods of a group, until one of them changes.

    Attributes:
        group: the group as it was last put together.
        owner: what was made of it and its Workload; None where it may be another as time passes.
    """

    group: PodGroup
    owner: PodGroupOwner | None = None


class GroupIndex(OwnerIndex[Any, views.PodDocument]):
    """The pods of groups, by group.

    Attributes:
        clock: source of time.
    """

    def __init__(
        self,
        integration: Integration[Any, views.PodDocument],
        workloads: WorkloadIndex,
        look_at: Callable[[Iterable[WorkloadKey]], None],
        forget: Callable[[WorkloadKey], None],
        endings: PodEndings,
        copied: Iterable[str],
        serving: ServingGroups,
        gives_up: Callable[[Workload], bool],
        *,
        awaits_gates: bool,
    ) -> None:
        """Prepare an empty index.

        Args:
            integration: the kind.
            workloads: all Workloads.
            look_at: is told which Workloads to look at again.
            forget: is told that a group is gone.
            endings: knows whether a pod that is being deleted may still run.
            copied: keys of labels that a Workload takes over.
            serving: owners whose pods are groups.
            gives_up: whether nothing will come in the place of pods that are gone.
            awaits_gates: whether groups wait until other controllers took their gates off.
        """
        super().__init__(integration, workloads, look_at, forget)
        self._gives_up = gives_up
        self._awaits_gates = awaits_gates
        self._endings = endings
        self._copied = tuple(copied)
        self._serving = serving
        self._pods: ObjectCache[WorkloadKey, views.Pod] = ObjectCache()
        """The pods of groups, by the keys that they would have as single pods."""
        self._of_group = self._pods.index(lambda _, pod: (pod_group.KIND.key_of(pod),))
        self._made: dict[WorkloadKey, _MadeOfGroup] = {}
        """What was last made of groups; one that has changed since is missing."""
        self._documents: dict[WorkloadKey, dict[str, views.PodDocument]] = {}
        """A pod of each role, whole, by group and role, until there is a Workload."""
        self._departed: dict[WorkloadKey, dict[str, Departed]] = {}
        """Pods that have ended and are gone, by group and uid."""
        self._gangs: dict[WorkloadKey, Gang] = {}
        """PodGroups by the Workload that their pods have, or would have."""

    @override
    def named(self) -> NamedCache:
        return self._pods, self._pods.unique(lambda _, pod: key_of(pod))

    @override
    def get(self, key: WorkloadKey) -> PodGroup | None:
        entry = self._made_of(key)
        return None if entry is None else entry.group

    def _made_of(self, key: WorkloadKey) -> _MadeOfGroup | None:
        """Return what is made of a group; None where it has no pod."""
        entry = self._made.get(key)
        if entry is not None or key not in self._of_group:
            return entry
        pods = (self._pods.get(pod_key) for pod_key in self._of_group.keys(key))
        pods_present = [pod for pod in pods if pod is not None]
        gang = self._gangs.get(key) or pod_group.gathered(pods_present)
        entry = self._made[key] = _MadeOfGroup(pod_group.read(pods_present, gang))
        return entry

    def set_gang(self, key: WorkloadKey, gang: Gang | None) -> None:
        """Take what a PodGroup says now; None for one that is gone."""
        if gang is None:
            self._gangs.pop(key, None)
        else:
            self._gangs[key] = gang
        self._made.pop(key, None)
        self._look_at((key,))

    def forget_views(self, keys: Iterable[WorkloadKey]) -> None:
        """Forget what was made of groups whose owner has changed."""
        for key in keys:
            entry = self._made.get(key)
            if entry is not None:
                entry.owner = None

    def pod(self, key: WorkloadKey) -> views.Pod | None:
        """Return a pod by the key that it would have as a single pod."""
        return self._pods.get(key)

    @override
    def may_have(self, key: WorkloadKey, controller: views.OwnerReference | None) -> bool:
        workload = self._workloads.get(key)
        return key in self._of_group or (workload is not None and workload.is_of_group())

    @override
    def subject(self, key: WorkloadKey) -> Subject | None:
        entry, workload = self._made_of(key), self._workloads.get(key)
        if entry is not None:
            group = entry.group
        elif workload is not None and pod_group.is_owned_by_pods(workload):
            group = pod_group.empty(workload)
        else:
            return None
        last = None if entry is None else entry.owner
        if last is not None and last.workload is workload:
            return Subject(key, last, workload)
        serving, is_left = self._serving.of(key, group.members, workload)
        if serving is not None:
            group = pod_group.of_owner(group, serving)
        owner = PodGroupOwner(
            group,
            workload,
            departed=self._departed.get(key),
            is_ending=self._endings.is_ending,
            copied=self._copied,
            serving=serving,
            is_left=bool(group.members) and is_left,
            gives_up=self._gives_up,
            awaits_gates=self._awaits_gates,
        )
        if entry is not None:
            is_ending = any(pod.metadata.deletion_timestamp for pod in group.members)
            entry.owner = None if is_ending or not group.members else owner
        return Subject(key, owner, workload)

    @override
    def may_name(self, named: WorkloadKey) -> bool:
        return named in self._of_group or named in self._documents

    @override
    def naming(self, named: WorkloadKey) -> tuple[WorkloadKey, ...]:
        if self._workloads.get(named) is None:
            self._departed.pop(named, None)
        else:
            self._documents.pop(named, None)
        return (named,) if named in self._of_group else ()

    @override
    def of_namespace(self, namespace: str) -> tuple[WorkloadKey, ...]:
        return tuple(key for key in self._of_group.groups() if key.namespace == namespace)

    @override
    def on_update(self, document: views.Object) -> views.Pod | None:
        pod_key = pod_owner.KIND.key_of(document)
        before = self._pods.get(pod_key)
        if before is not None and version(document) <= version(before):
            return None
        if not isinstance(document, views.PodDocument | views.Pod):
            return None
        pod = pod_owner.read(document)
        if not self._pods.put(pod_key, pod):
            return None
        key = pod_group.KIND.key_of(pod)
        key_before = key if before is None else pod_group.KIND.key_of(before)
        if key_before != key:
            self._lose(key_before)
        self._made.pop(key, None)
        if isinstance(document, views.PodDocument):
            self._keep(key, pod, document)
        self._look_at((key,))
        return pod

    def _keep(self, key: WorkloadKey, pod: views.Pod, document: views.PodDocument) -> None:
        """Keep a pod whole from which a pod set may be made: the first that comes of each role."""
        if self._workloads.get(key) is not None or pod_owner.is_terminal(pod):
            return
        kept = self.document_for(key, pod)
        if kept is None or kept.metadata.uid == pod.metadata.uid:
            self._documents.setdefault(key, {})[pod_group.role_of(pod)] = document

    @override
    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        pod_key = pod_owner.KIND.key_of(gone)
        pod_before = self._pods.get(pod_key)
        newest = (
            pod_before if pod_before is not None and version(pod_before) > version(gone) else gone
        )
        is_known = self._pods.remove(pod_key, gone.metadata.uid, None if for_good else newest)
        if pod_before is None or not is_known:
            return
        key = pod_group.KIND.key_of(pod_before)
        departed = pod_group.departed(pod_before)
        if departed is not None and self._workloads.get(key) is not None:
            self._departed.setdefault(key, {})[pod_before.metadata.uid] = departed
        self._lose(key)

    def _lose(self, key: WorkloadKey) -> None:
        """Take that a group has a pod less."""
        self._made.pop(key, None)
        if key not in self._of_group:
            self._documents.pop(key, None)
            self._forget(key)
        self._workloads.doubt_absence(key)
        self._look_at((key,))

    def document_for(self, key: WorkloadKey, pod: views.Pod) -> views.PodDocument | None:
        """Return a pod whole that can stand for the role of this one, or None."""
        key_of_document = self._documents.get(key, {}).get(pod_group.role_of(pod))
        if key_of_document is None or key_of_document.metadata.uid == pod.metadata.uid:
            return key_of_document
        pod_with_document = self._pods.get(pod_owner.KIND.key_of(key_of_document))
        return (
            key_of_document
            if pod_with_document is not None
            and pod_with_document.metadata.uid == key_of_document.metadata.uid
            else None
        )

    def keep(self, key: WorkloadKey, document: views.PodDocument) -> None:
        """Take a pod that was read whole, also one that has ended and stands for its role."""
        role = pod_group.role_of(pod_owner.read(document))
        self._documents.setdefault(key, {})[role] = document

    @override
    def drop_document(self, key: WorkloadKey) -> None:
        self._documents.pop(key, None)


class PodGroups(Owners[Any, views.PodDocument]):
    """Groups of pods.

    Attributes:
        members: the pods by group; the same as ``index``.
        serving: owners whose pods are groups.
        on_pod_delete: takes the news that a pod is gone.
    """

    members: GroupIndex
    on_pod_delete: Callable[[views.Object], None]

    def __init__(
        self,
        context: OwnerContext,
        *,
        endings: PodEndings,
        claims: Claims,
        serving: Iterable[ServingKind],
        keeps: timedelta,
        awaits_gates: bool,
    ) -> None:
        """Prepare an empty index.

        Args:
            context: what owners of every kind work with.
            endings: knows whether a pod that is being deleted may still run.
            claims: tells what pods ask for by claim.
            serving: kinds of owners that serve.
            keeps: how long the quota of their pods is kept while none is there.
            awaits_gates: whether groups wait until other controllers took their gates off.
        """
        self._endings = endings
        self._keeps = keeps
        self._awaits_gates = awaits_gates
        self.serving = ServingGroups(serving, self._on_serving, context.draft)
        super().__init__(INTEGRATION, context)
        self._claims = claims
        self._told_of: dict[str, Event] = {}
        """The last event on a PodGroup or Queue, by UID."""
        self._queues: dict[str, gangs.GangPodGroup] = {}
        """Queues of Volcano by name."""
        self._marked: set[str] = set()
        """UIDs of pods on which the server refused to have the reason of their deletion."""
        self._deleting: set[str] = set()
        """UIDs of pods whose deletion was accepted."""
        self.informers = {
            **self.serving.informers,
            **{
                resource: Informer(
                    gangs.KIND, partial(self._see_gang, kind), partial(self._lose_gang, kind)
                )
                for resource, kind in resources_of_gangs().items()
            },
            resources.VOLCANO_QUEUES: Informer(
                resources.VOLCANO_QUEUES.kind,
                self._see_queue,
                self._lose_queue,
            ),
        }
        self._empty_since: dict[WorkloadKey, datetime] = {}
        """When groups were first seen without a pod, of owners that want pods."""

    def _on_serving(self, keys: Iterable[WorkloadKey]) -> None:
        listed = tuple(keys)
        self.members.forget_views(listed)
        self._look_at(listed)

    @override
    def _make_index(self, look_at: Callable[[Iterable[WorkloadKey]], None]) -> GroupIndex:
        copied = self._configuration.settings.integrations.label_keys_to_copy
        self.members = GroupIndex(
            self.integration, self._workloads, look_at, self._forget, self._endings, copied,
            self.serving, self._gives_up, awaits_gates=self._awaits_gates,
        )  # fmt: skip
        return self.members

    def _replaced_until(self, workload: Workload) -> datetime | None:
        """Return until when missing pods of a group may be replaced; None if none is missing."""
        lacks = workload.status.condition(conditions.WAITING_FOR_REPLACEMENT_PODS)
        if lacks is None or lacks.status != "True" or workload.is_pending():
            return None
        return clocks.from_wire(lacks.last_transition_time) + self._keeps

    def _gives_up(self, workload: Workload) -> bool:
        due = self._replaced_until(workload)
        return due is not None and due <= self._clock.now()

    # ------------------------------------------------------------------------------- seeing

    def _see_gang(self, kind: GangKind, group: gangs.GangPodGroup) -> None:
        """Take a PodGroup; of one that cannot be read nothing is known."""
        key = _gang_key(kind, group)
        try:
            self.members.set_gang(key, gangs.read(kind, group))
        except msgspec.ValidationError:
            self.members.set_gang(key, None)
            raise

    def _lose_gang(self, kind: GangKind, gone: views.Object) -> None:
        self.members.set_gang(_gang_key(kind, gone), None)
        self._told_of.pop(gone.metadata.uid, None)

    def _see_queue(self, group: gangs.GangPodGroup) -> None:
        self._queues[group.metadata.name] = group

    def _lose_queue(self, gone: views.Object) -> None:
        self._queues.pop(gone.metadata.name, None)
        self._told_of.pop(gone.metadata.uid, None)

    def workload_of(self, pod_key: WorkloadKey) -> WorkloadKey:
        """Return the key of the Workload of a pod.

        Args:
            pod_key: the key that a Workload of the pod alone would have.
        """
        pod = self.members.pod(pod_key)
        return pod_key if pod is None else pod_group.KIND.key_of(pod)

    def has(self, key: WorkloadKey) -> bool:
        """Return whether pods of a group are there."""
        return self.members.get(key) is not None

    def on_pod_update(self, document: views.Object) -> views.Pod | None:
        """Take a pod of a group; None for an old sight."""
        return self.members.on_update(document)

    def lost_pod(self, gone: views.Object, *, for_good: bool) -> None:
        """Take the news that a pod is gone, or its label is."""
        self.members.on_delete(gone, for_good=for_good)
        self._marked.discard(gone.metadata.uid)
        self._deleting.discard(gone.metadata.uid)

    @override
    def _is_left_alone(self, subject: Subject) -> bool:
        """Return whether pods run that nobody has admitted, where pods are not managed.

        Those that we gated would wait for ever.
        """
        return self._runs_unmanaged(subject)

    @override
    def of_namespace(self, namespace: str) -> tuple[WorkloadKey, ...]:
        return ()

    # ------------------------------------------------------------------------------ writing

    @override
    def next_request(self, subject: Subject, decide: Decide) -> ApiRequest | None:
        key, owner = subject.key, subject.owner
        if not isinstance(owner, PodGroupOwner):
            return super().next_request(subject, decide)
        if self._is_left_alone(subject):
            return None
        for pod in owner.ending():
            self._draft.look_again_at(self._endings.free_at(pod))
        due = None if subject.workload is None else self._replaced_until(subject.workload)
        if due is not None and due > self._clock.now():
            self._draft.look_again_at(due)
        leaving = self._leaving(subject, owner)
        is_single = owner.view.gang is not None and owner.view.gang.is_single
        doubtful = None if is_single else self._settle_doubtful(key, owner)
        if doubtful is not None:
            return doubtful  # only here it is known which queue its PodGroup names
        if leaving is not None and (is_single or not pods_in_doubt.is_in_doubt(leaving)):
            changes = pod_owner.leave_podgroup(
                leaving, pod_group.said(owner.view.gang), is_beyond=owner.is_of_podgroup()
            )
            return self._on_pod(key, leaving, WritePurpose.ADOPT_POD, changes, whole=True)
        return super().next_request(subject, decide) or self._tell_next(subject, owner)

    def _settle_doubtful(self, key: WorkloadKey, owner: PodGroupOwner) -> ApiRequest | None:
        """Return the write that gives a pod in doubt its queue, or lets it go."""
        now, named = self._clock.now(), pod_owner.gang_of(owner.view.metadata)
        gang = owner.view.gang
        if named is not None and gang is None:
            return None  # only its PodGroup may say which queue
        for pod in owner.gated():
            queue = "" if owner.serving is None else owner.serving.queue
            if queue and pod.metadata.label(names.QUEUE_LABEL) != queue:
                changes = pod_owner.put_in_queue(pod, queue)
                return self._on_pod(key, pod, WritePurpose.ADOPT_POD, changes)
            if not pods_in_doubt.is_in_doubt(pod):
                continue
            queue = "" if gang is None else self._queue_of(key.namespace, gang)
            if named is not None and gang is not None:
                self._tell_of_queue(named.kind, gang, queue)
            due = pods_in_doubt.decided_at(pod, now)
            settled = pods_in_doubt.complete(
                pod, self._configuration, self._claims.sought(pod), due=now >= due, queue=queue
            )
            if settled is not None:
                return self._on_pod(key, pod, *settled)
            if now < due:
                self._draft.look_again_at(due)
        return None

    def _leaving(self, subject: Subject, owner: PodGroupOwner) -> views.Pod | None:
        """Return a pod that becomes a single one, or None."""
        gang, workload = owner.view.gang, subject.workload
        if workload is not None:
            return owner.leaves(workload)
        is_single = gang is not None and gang.is_single
        return next(owner.gated(), None) if is_single else None

    def _queue_of(self, namespace: str, gang: Gang) -> str:
        """Return the LocalQueue that a PodGroup names, or that has the name of its queue."""
        labelled = gang.metadata.label(names.QUEUE_LABEL)
        if labelled:
            return labelled
        queue_exists = LocalQueueKey(namespace, gang.queue) in self._configuration.local_queues
        return gang.queue if queue_exists else ""

    def _tell_of_queue(self, kind: GangKind, gang: Gang, used: str) -> None:
        """Record an event on a PodGroup whose queue is ignored, or on a Queue whose limit is."""
        default = LocalQueueKey(gang.metadata.namespace, names.DEFAULT_LOCAL_QUEUE)
        if used:
            queue = self._queues.get(gang.queue) if kind is gangs.VOLCANO else None
            if queue is not None and queue.spec.get("capability"):
                regarding = api_requests.reference(resources.VOLCANO_QUEUES, queue.metadata)
                self._tell_once(regarding, events.capability_unsupported())
        elif gang.queue and gang.queue != names.DEFAULT_LOCAL_QUEUE:
            is_there = default in self._configuration.local_queues
            instead = names.DEFAULT_LOCAL_QUEUE if is_there else ""
            resource = next(
                resource_
                for resource_, gang_kind in resources_of_gangs().items()
                if gang_kind is kind
            )
            regarding = api_requests.reference(resource, gang.metadata)
            self._tell_once(regarding, events.queue_unsupported(gang.queue, instead))

    def _tell_once(self, regarding: Mapping[str, Any], event: Event) -> None:
        uid = regarding["uid"]
        if self._told_of.get(uid) != event:
            self._draft.note(self._told_of.__setitem__, uid, event)
            self._draft.record(regarding, event)

    @override
    def _next_step(self, subject: Subject) -> Next:
        workload, owner = subject.workload, subject.owner
        if workload is None or not isinstance(owner, PodGroupOwner) or owner.view.members:
            if subject.key in self._empty_since:
                self._draft.note(self._empty_since.pop, subject.key, None)
            return super()._next_step(subject)
        if owner.serving is not None and not owner.serving.is_wanted:
            return lifecycle.without_owner(self._kind, workload)
        kept_until = _kept_until(workload)
        if kept_until is None and owner.serving is not None:
            now = self._clock.now()
            kept_until = self._empty_since.get(subject.key, now) + self._keeps
            self._draft.note(self._empty_since.setdefault, subject.key, now)
        if kept_until is None or kept_until <= self._clock.now():
            return lifecycle.without_owner(self._kind, workload)
        self._draft.look_again_at(kept_until)
        return super()._next_step(subject)

    @override
    def _make(
        self, key: WorkloadKey, owner: Owner, workload: Workload | None = None
    ) -> dict[str, Any] | ApiRequest | None:
        if not isinstance(owner, PodGroupOwner) or self._gathers(owner):
            return None
        documents = {}
        for role, pod in owner.roles().items():
            document = self.members.document_for(key, pod)
            if document is None:
                return api_requests.read(
                    key, WritePurpose.READ_OWNER, self.resource, pod.metadata, views.PodDocument
                )
            documents[role] = document
        try:
            return owner.build(documents, self._classes(workload))
        except MissingPriorityClassError as missing:
            self._draft.wait_for(awaited.priority_class(missing.name))
            return None

    def _gathers(self, owner: PodGroupOwner) -> bool:
        """Return whether more pods of a PodGroup may come in the same breath, or lack a queue.

        It says the least number only, and all that are there at first are admitted together.
        """
        if owner.view.gang is None:
            return False
        now = self._clock.now()
        last = max(pod.metadata.creation_timestamp or "" for pod in owner.view.members)
        named = pod_owner.gang_of(owner.view.metadata)
        is_counted = named is not None and not named.kind.is_controller
        pause = _GATHERING if is_counted else _GATHERING_UNCOUNTED
        due = clocks.from_wire(last) + pause if last else now
        if now < due:
            self._draft.look_again_at(due)
        return now < due or any(map(pods_in_doubt.is_in_doubt, owner.gated()))

    @override
    def _lacks_class(self, key: WorkloadKey, owner: views.Object, name: str) -> None:
        """The condition says so."""
        self._draft.wait_for(awaited.priority_class(name))

    @override
    def _about_workload(
        self, subject: Subject, step: Next, workload: Workload
    ) -> ApiRequest | None:
        owner, now = subject.owner, self._clock.now()
        if not isinstance(owner, PodGroupOwner):
            return super()._about_workload(subject, step, workload)
        match step.step:
            case Step.RECORD_PODS:
                metadata = owner.unrecorded(workload) or {}
                uids = {reference.uid for reference in workload.metadata.owner_references or ()}
                added = sum(
                    reference["uid"] not in uids
                    for reference in metadata.get("ownerReferences", ())
                )
                announced = (events.owner_references_added(added),) if added else ()
                return api_requests.patch_workload(
                    workload, WritePurpose.RECORD_PODS, {"metadata": metadata}, events=announced
                )
            case Step.AWAIT_REPLACEMENTS:
                text, is_lacking = owner.waiting(workload) or (kueue.REPLACEMENT_NEEDED, True)
                condition = condition_list.make(
                    conditions.WAITING_FOR_REPLACEMENT_PODS,
                    text,
                    status=is_lacking,
                    now=now,
                    generation=workload.metadata.generation,
                )
                changes = {"conditions": condition_list.merged(workload, condition)}
                return api_requests.set_workload_status(
                    workload, WritePurpose.AWAIT_REPLACEMENTS, changes
                )
            case Step.CHARGE:
                return self._charge_running(owner, workload, owner.released_by_role())
            case Step.WITHDRAW:
                status = evictions.withdraw(workload, added_conditions.GROUP_SHORT, now)
                return api_requests.set_workload_status(
                    workload, WritePurpose.CLEAR_RESERVATION, status
                )
            case _:
                return super()._about_workload(subject, step, workload)

    @override
    def _about_owner(
        self, key: WorkloadKey, step: Next, owner: Owner, workload: Workload | None
    ) -> ApiRequest | None:
        if not isinstance(owner, PodGroupOwner):
            return None
        match step.step:
            case Step.STOP if any(self._stoppable(owner)):
                question = None if workload is not None else self._ask_absence(key, owner)
                return question or self._stop_or_wait(key, step, owner, workload)
            case Step.REMOVE_EXCESS:
                pod = owner.excess(workload)
                if pod is None or pod.metadata.uid in self._deleting:
                    return None
                return self._delete_pod(key, pod, events.excess_pod_deleted())
            case Step.START:
                return super()._about_owner(key, step, owner, workload)
            case _:
                return None

    def _stoppable(self, owner: PodGroupOwner) -> Iterable[views.Pod]:
        return (pod for pod in owner.to_stop() if pod.metadata.uid not in self._deleting)

    @override
    def _stop(
        self, key: WorkloadKey, owner: Owner, step: Next, workload: Workload | None
    ) -> ApiRequest | None:
        """Write the reason on each running pod, and then delete it."""
        if not isinstance(owner, PodGroupOwner):
            return None
        text, now = Text(step.reason, step.message), self._clock.now()
        pods = list(self._stoppable(owner))
        for pod in pods:
            changes = pod_owner.termination(pod, text, now)
            if changes is not None and pod.metadata.uid not in self._marked:
                return self._on_pod(
                    key, pod, WritePurpose.MARK_OWNER, changes, subresource="status"
                )
        if not pods:
            return None
        return self._delete_pod(key, pods[0], self.notices.stopped(step, pods[0], workload))

    def _on_pod(
        self,
        key: WorkloadKey,
        pod: views.Pod,
        operation: WritePurpose,
        changes: Any,
        *,
        whole: bool = False,
        **more_changes: Any,
    ) -> ApiRequest:
        into = self.integration.document if whole else self.integration.answer
        return owner_requests.patch(
            key, self.resource, pod, operation, changes, into=into, **more_changes
        )

    def _delete_pod(self, key: WorkloadKey, pod: views.Pod, event: Event) -> ApiRequest:
        return owner_requests.delete(key, self.resource, pod, self.integration.answer, event)

    # ----------------------------------------------------------------------------- settling

    @override
    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        subject, request = self.members.subject(key), outcome.request
        owner = None if subject is None else subject.owner
        if subject is None or not isinstance(owner, PodGroupOwner):
            return
        if request.resource is self.resource:
            self._settle_pod(key, outcome)  # the events on pods are told by those of single pods
        elif outcome.result is Result.DONE and request.operation is WritePurpose.RECORD_PODS:
            if subject.workload is not None:
                self._events.done_to_workload(subject.workload, request)
        elif outcome.result is Result.DONE and not _is_of_another(owner, subject.workload):
            self._events.done(next(iter(owner.view.members), None), request)
            if request.operation is WritePurpose.DELETE_WORKLOAD:
                self._deleted[key] = request.uid

    def _settle_pod(self, key: WorkloadKey, outcome: RequestResult) -> None:
        request, answer = outcome.request, outcome.object
        if request.operation is WritePurpose.READ_OWNER and isinstance(answer, views.PodDocument):
            self.members.keep(key, answer)
        elif request.operation is WritePurpose.MARK_OWNER and outcome.result is Result.REFUSED:
            self._marked.add(request.uid)
        elif request.verb is Verb.DELETE and outcome.result is Result.DONE:
            self._deleting.add(request.uid)
        is_other = isinstance(answer, views.Object) and answer.metadata.uid != request.uid
        if is_other or outcome.result is Result.GONE:
            metadata = views.ObjectMeta(
                namespace=request.namespace, name=request.name, uid=request.uid
            )
            self.on_pod_delete(views.Object(metadata=metadata))

    # --------------------------------------------------------------------------- what pods say

    def explain(self, key: WorkloadKey, wait: Wait, place: str = "") -> ApiRequest | None:
        """Return the next write that says on a pod of a group why it waits, or None for none."""
        subject = self.members.subject(key)
        owner = None if subject is None else subject.owner
        if not isinstance(owner, PodGroupOwner):
            return None
        if subject is not None and self._lacks_pods(owner, subject.workload):
            return None  # the pods say that, see `_tell_next`
        return self._tell_first(key, owner.gated(), self.notices.explain(wait, place=place))

    def _lacks_pods(self, owner: PodGroupOwner, workload: Workload | None) -> bool:
        """Return whether the Workload of a group waits, and pods are not there."""
        return workload is not None and workload.is_pending() and bool(owner.lacks(workload))

    def tell_refused(self, key: WorkloadKey) -> ApiRequest | None:
        """Return the write that says on a pod that its group has the name of another Workload."""
        subject = self.members.subject(key)
        owner = None if subject is None else subject.owner
        if subject is None or not isinstance(owner, PodGroupOwner):
            return None
        if not _is_of_another(owner, subject.workload):
            return None
        return self._tell_missing(key, owner, self._next_step(subject))

    def _tell_next(self, subject: Subject, owner: PodGroupOwner) -> ApiRequest | None:
        """Return the next write of the state of a group on one of its pods."""
        key, workload = subject.key, subject.workload
        step = self._next_step(subject)
        if workload is None or step.step is Step.AWAIT_PODS:
            return self._tell_missing(key, owner, step)
        if workload.status.is_true(conditions.FINISHED):
            return self._tell_first(key, owner.gated(), added_conditions.group_is_over(key.name))
        if self._lacks_pods(owner, workload):
            lacking = owner.lacks(workload)
            total = sum(pod_set.count for pod_set in workload.spec.pod_sets or ())
            text = added_conditions.group_lacks(key.name, lacking, total)
            return self._tell_first(key, owner.gated(), text)
        open_checks = checks.waits(workload)
        if open_checks is not None:
            return self._tell_first(key, owner.gated(), open_checks)
        admission = workload.status.admission
        if admission is None or not workload.status.is_true(conditions.ADMITTED):
            return None
        for pod in owner.gated():
            if not owner.suits(pod, workload):
                text = added_conditions.group_has_other_roles(pod_group.role_of(pod))
                request = self._tell(key, pod, text, admitted=False)
                if request is not None:
                    return request
        request = self._tell_full(key, owner, workload)
        if request is not None:
            return request
        told_text = sentences.admitted(admission.cluster_queue)
        for pod in owner.to_stop():
            admitted = pod_owner.admitted_condition(pod)
            if admitted is not None and admitted.status != "True":
                return self._tell(key, pod, told_text, admitted=True)
        return None

    def _tell_full(
        self, key: WorkloadKey, owner: PodGroupOwner, workload: Workload
    ) -> ApiRequest | None:
        """Return the next write that says on a pod that its admitted group has no room for it."""
        gated = [pod for pod in owner.gated() if owner.suits(pod, workload)]
        if not gated or owner.may_start(workload) or self._are_gathering(gated):
            return None
        total = sum(pod_set.count for pod_set in workload.spec.pod_sets or ())
        text = added_conditions.group_is_full(key.name, owner.admitted(workload), total)
        if owner.serving is not None and owner.has_grown(workload):
            name = owner.serving.owner.metadata.name
            text = added_conditions.serving_owner_has_grown(
                owner.serving.of.kind.name, name, total
            )
        return self._tell_first(key, gated, text)

    def _are_gathering(self, pods: Iterable[views.Pod]) -> bool:
        """Return whether pods came so recently that nothing is said of them; looks again then."""
        now = self._clock.now()
        last = max(pod.metadata.creation_timestamp or "" for pod in pods)
        due = clocks.from_wire(last) + _GATHERING if last else now
        if now < due:
            self._draft.look_again_at(due)
        return now < due

    def _tell_missing(
        self, key: WorkloadKey, owner: PodGroupOwner, step: Next
    ) -> ApiRequest | None:
        """Write on the pods why their group has no Workload, once no further pod arrives."""
        gated = list(owner.gated())
        if not gated:
            return None
        text = Text(step.reason, step.message)
        hints = (pods_in_doubt.hint_for(pod, self._configuration) for pod in gated)
        hint = next((hint_ for hint_ in hints if hint_ is not None), None)
        if step.step is not Step.AWAIT_PODS:
            if hint is None:
                return None
            text = hint
            labels = (pod.metadata.label(names.PRIORITY_CLASS_LABEL) for pod in gated)
            self._draft.wait_for(*map(awaited.priority_class, filter(None, labels)))
        if self._are_gathering(gated):
            return None
        first = gated[0]
        self._events.lacks_pods(key, first, text)
        is_about_others = text.reason == conditions.GROUP_INCOMPLETE
        text_for_others = (
            added_conditions.group_waits_as(first.metadata.name) if is_about_others else text
        )
        request = self._tell(key, first, text, admitted=False)
        return request or self._tell_first(key, gated[1:], text_for_others)

    def _tell_first(
        self, key: WorkloadKey, pods: Iterable[views.Pod], text: Text
    ) -> ApiRequest | None:
        """Return the write that says something on the first pod that does not say it yet."""
        told_pods = (self._tell(key, pod, text, admitted=False) for pod in pods)
        return next((request for request in told_pods if request is not None), None)

    def _tell(
        self, key: WorkloadKey, pod: views.Pod, text: Text, *, admitted: bool
    ) -> ApiRequest | None:
        changes = pod_owner.tell(pod, text, self._clock.now(), admitted=admitted)
        if changes is None:
            return None
        return self._on_pod(key, pod, WritePurpose.EXPLAIN_POD, changes, subresource="status")


@cache
def resources_of_gangs() -> Mapping[Resource, GangKind]:
    """Return the API resource of each kind of PodGroups."""
    return {
        Resource(kind.group, kind.version, gangs.PLURAL, gangs.KIND): kind for kind in gangs.KINDS
    }


def _gang_key(kind: GangKind, group: views.Object) -> WorkloadKey:
    name = pod_owner.gang_name(gangs.Reference(kind, group.metadata.name))
    return WorkloadKey(group.metadata.namespace, name)


def _is_of_another(owner: PodGroupOwner, workload: Workload | None) -> bool:
    return workload is not None and owner.refusal(workload) is not None


def _kept_until(workload: Workload) -> datetime | None:
    """Return until when the Workload of a group without pods is kept; None for now.

    One that was evicted keeps its place in the queue for the pods that take the place of those
    that were stopped.
    """
    evicted = workload.status.condition(conditions.EVICTED)
    if evicted is None or evicted.status != "True":
        return None
    is_over = workload.status.is_true(conditions.FINISHED)
    return None if is_over else clocks.from_wire(evicted.last_transition_time) + _KEPT


INTEGRATION: Final[Integration[Any, views.PodDocument]] = Integration(
    kind=pod_group.KIND,
    document=views.PodDocument,
    answer=views.Pod,
    view=pod_owner.read,
    owner=pod_owner.PodOwner,
    build=pod_owner.build,
    adopt=pod_owner.adopt,
)
