"""Writes and events about owners of one kind and their Workloads.

Source: kueue pkg/controller/jobframework/reconciler.go.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic

from admission.base import conditions, events, names, patches
from admission.base.causes import MemberCounts
from admission.base.clock import Clock
from admission.base.conditions import PodsReadyReason, Text
from admission.base.events import Event, Events
from admission.base.names import (
    MADE_FOR_RUNNING,
    PREEMPTED_BY,
    PRIORITY_CLASS_LABEL,
    WorkloadKey,
)
from admission.controller import awaited
from admission.controller.plans import PlanDraft
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners import owner_events, owner_requests
from admission.controller.watched_owners.brake import Brake
from admission.controller.watched_owners.index import OwnerIndex, Subject
from admission.controller.watched_owners.notices import Notices
from admission.controller.watched_owners.owner_events import OwnerEvents
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads import evictions, keeping, statuses
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
from admission.objects import past_preemptions, views
from admission.objects.workload import Workload
from admission.owners import injection, lifecycle, prebuilt, slices
from admission.owners.framework import Document, Grows, Integration, Kind, Owner, Reclaims, View
from admission.owners.lifecycle import Next, Step
from admission.owners.workload import (
    MissingPriorityClassError,
    PriorityClasses,
    kept_priority,
    may_change_class,
    names_other_class,
)
from admission.reasons import added_conditions, kueue
from admission.scheduling.model import NEVER_PREEMPTED

Decide = Callable[[WorkloadKey, Workload], ApiRequest | None]
"""Returns the write of an open decision, or of the upkeep of a Workload, if there is one."""

_OF_NAMED: Final = frozenset({Step.ADOPT_WORKLOAD, Step.AWAIT_WORKLOAD})


def resource_of(kind: Kind) -> Resource:
    """Return the API resource of a kind of owners."""
    resource = resources.of_kind(kind.api_version, kind.name)
    return resource or Resource(kind.group, kind.version, kind.plural, kind.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerContext:
    """What owners of every kind work with.

    Attributes:
        workloads: all Workloads.
        configuration: queues, flavors and classes as last seen.
        events: takes events about owners.
        clock: source of time.
        look_at: is told which Workloads to look at again.
        running: is told of owners that run and of their pods.
        draft: of the plan that is being derived.
        notices: let what is preempted run on for a while.
        brake: holds stops back where there are too many.
    """

    workloads: WorkloadIndex
    configuration: WatchedConfiguration
    events: Events
    clock: Clock
    look_at: Callable[[Iterable[WorkloadKey]], None]
    running: RunningPods
    draft: PlanDraft
    notices: Notices
    brake: Brake


class Owners(Generic[View, Document]):
    """Owners of one kind.

    Attributes:
        integration: the kind.
        resource: where its objects are.
        index: the owners as last seen.
        informers: who takes what is watched, by resource.
        notices: let what is preempted run on for a while.
        brake: holds stops back where there are too many.
    """

    def __init__(self, integration: Integration[View, Document], context: OwnerContext) -> None:
        """Prepare an empty index.

        Args:
            integration: the kind.
            context: what owners of every kind work with.
        """
        kind = integration.kind
        resource = resource_of(kind)
        self.integration = integration
        self.resource = resource
        self._kind = kind
        self._workloads = context.workloads
        self._configuration = context.configuration
        self._events = OwnerEvents(context.events, resource, context.draft)
        self._draft = context.draft
        self._clock = context.clock
        self._look_at = context.look_at
        self._running = context.running
        self.notices = context.notices
        self.brake = context.brake
        self._stopped: set[WorkloadKey] = set()
        """Owners whose deletion was accepted; they may still run for their grace period."""
        self._unmarkable: set[WorkloadKey] = set()
        """Owners on which the server refused to have the reason of their deletion written."""
        self._deleted: dict[WorkloadKey, str] = {}
        self.index = self._make_index(context.look_at)
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource: Informer(
                resource.kind, self.on_update, self.on_delete, stored=self._stored()
            )
        }

    def _stored(self) -> Mapping[Any, views.Object]:
        """Return what was taken; nothing where the informer remembers that itself."""
        return {}

    def _make_index(
        self, look_at: Callable[[Iterable[WorkloadKey]], None]
    ) -> OwnerIndex[View, Document]:
        return OwnerIndex(self.integration, self._workloads, look_at, self._forget)

    # ------------------------------------------------------------------------------- seeing

    def on_update(self, document: views.Object) -> None:
        """Take a sight of an owner: whole as watched, or as an answer."""
        self.index.on_update(document)

    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        """Take the news that an owner is gone, or its label is; see `OwnerIndex.on_delete`."""
        self.index.on_delete(gone, for_good=for_good)

    def of_namespace(self, namespace: str) -> tuple[WorkloadKey, ...]:
        """Return the keys to look at when it may have changed whether a namespace is managed."""
        return self.index.of_namespace(namespace)

    def may_name(self, named: WorkloadKey, controller: views.OwnerReference | None) -> bool:
        """Return whether `naming` has something to say of a Workload that is there.

        Nearly every Workload concerns one kind of owners at most, and there are many kinds.

        Args:
            named: key of the Workload.
            controller: its controller.
        """
        return (controller is not None and self._kind.is_of(controller)) or self.index.may_name(
            named
        )

    def naming(self, workload: views.Object) -> tuple[WorkloadKey, ...]:
        """Return the keys to look at when a Workload came, changed or went, besides its own."""
        named = WorkloadKey(workload.metadata.namespace, workload.metadata.name)
        if self._workloads.get(named) is None:
            self._deleted.pop(named, None)
        owner_key = self._kind.owner_key(workload) if isinstance(workload, Workload) else None
        beside = () if owner_key is None else self.index.keys_of(owner_key)
        return (*self.index.naming(named), *beside)

    def _forget(self, key: WorkloadKey) -> None:
        for keys in (self._stopped, self._unmarkable):
            keys.discard(key)
        self._stays(key)
        self._deleted.pop(key, None)
        self._events.forget(key)

    # -------------------------------------------------------------------------- what it is now

    def are_ready(self, subject: Subject, members: MemberCounts | None) -> bool | None:
        """Return whether all pods are ready or have succeeded; None while they are to start.

        Args:
            subject: an owner and its Workload.
            members: the pods that are there; None to believe the owner. Some owners say that they
                run as soon as one pod does.
        """
        owner, workload = subject.owner, subject.workload
        if owner is None or workload is None:
            return None
        if owner.is_held() and workload.status.is_true(conditions.ADMITTED):
            return None
        if members is None or not members.created:
            return owner.is_ready()
        ready = workload.status.condition(conditions.PODS_READY)
        has_started = ready is not None and ready.reason != PodsReadyReason.WAIT_FOR_START
        are_there = has_started or members.created >= members.asked
        is_scheduled = members.scheduled >= members.created
        return members.ready >= members.asked or (owner.is_ready() and are_there and is_scheduled)

    # ------------------------------------------------------------------------------ writing

    def next_request(self, subject: Subject, decide: Decide) -> ApiRequest | None:
        """Return the next write about an owner and its Workload, or None for none.

        Args:
            subject: both as last seen.
            decide: see `Decide`.
        """
        key, owner, workload = subject.key, subject.owner, subject.workload
        if self._is_left_alone(subject):
            return None if workload is None else decide(key, workload)
        if subject.beside is not None and workload is not None:
            return self._remove(workload)
        if owner is not None:
            current = self._workloads.current(self._kind.key_of(owner.view))
            is_prebuilt = self._kind.prebuilt_key(owner.view) is not None
            if current != key and not is_prebuilt:
                return self._beside_current(subject, current, decide)
        step = self._next_step(subject)
        if owner is not None and step.rest is not None:
            step = step.rest if self._tell_if_lacking_class(key, owner.view) else lifecycle.FOLLOW
        if step.step is not Step.STOP:
            self._draft.note(self._stays, key)
        if owner is not None and workload is not None and not self._kind.has_condition:
            self._events.checked(key, owner, workload)
        clears = step.step is Step.CLEAR_RESERVATION and self._kind.is_deleted_to_stop
        if workload is not None and step.step not in lifecycle.ENDS and not clears:
            request = decide(key, workload)
            is_resized = owner is not None and owner.resizes() is not None
            # without quota it follows its owner in everything
            if request is None and owner and is_resized and not workload.is_pending():
                request = self._follow_labels(key, owner.view, workload)
            if request is not None:
                return request
        if owner is not None and step.step in {Step.CREATE_WORKLOAD, *_OF_NAMED}:
            return self._without_workload(key, owner, step)
        if owner is not None and step.step is Step.FOLLOW and workload is not None:
            return self._follow(key, owner, workload)
        if workload is not None:
            self._draft.note(self.index.drop_document, key)
            request = self._about_workload(subject, step, workload)
            if request is not None:
                return request
        request = None if owner is None else self._about_owner(key, step, owner, workload)
        if request is None and owner is not None and workload is not None:
            request = (
                self._about_size(key, owner, workload)
                or self._about_domains(key, owner, workload)
                or self._about_node(owner, workload)
            )
        if request is None and workload is not None and step.step is not Step.STOP:
            return self.brake.unmark(workload) or self.notices.unmark(workload)
        return request

    def _stays(self, key: WorkloadKey) -> None:
        """Take that an owner is not to be stopped."""
        self.notices.forget(key)
        self.brake.forget(key)

    # --------------------------------------------------------- owners that change their size

    def _beside_current(
        self, subject: Subject, current: WorkloadKey, decide: Decide
    ) -> ApiRequest | None:
        """Return the next write about a slice that does not stand for its owner now.

        It has ended, or was replaced, or waits to replace the one that stands for it.
        """
        owner, workload = subject.owner, subject.workload
        stands = self._workloads.get(current)
        if owner is None or workload is None or stands is None:
            return None
        if workload.metadata.deletion_timestamp:
            step = lifecycle.remove_finalizer(workload)
            return None if step is lifecycle.NOTHING else owner_requests.remove_finalizer(workload)
        if workload.status.is_true(conditions.FINISHED):
            return decide(subject.key, workload)
        keys = [slice_.key() for slice_ in self._workloads.slices(self._kind.key_of(owner.view))]
        if keys.index(subject.key) < keys.index(current):
            uids = stands.metadata.uid, owner.view.metadata.uid
            return self._finish(workload, kueue.slice_replaced(*uids))
        if workload.replaces() != current or not self._wants_slice(owner, stands):
            return self._delete(workload, is_told=False)
        wants = slices.asked(owner)
        if wants != slices.counts(workload) and workload.is_pending():
            return owner_requests.resize(workload, wants)
        return decide(subject.key, workload) or self._follow_labels(
            subject.key, owner.view, workload
        )

    def _wants_slice(self, owner: Owner, workload: Workload) -> bool:
        return slices.of_running(owner, workload) is slices.Slicing.GROW

    def _about_size(self, key: WorkloadKey, owner: Owner, workload: Workload) -> ApiRequest | None:
        """Return the next write for an owner that runs and may change its size, or None."""
        grows, first = owner.grows(), self._kind.key_of(owner.view)
        if grows is None or owner.is_held():
            return None
        match slices.of_running(owner, workload):
            case slices.Slicing.SHRINK:
                return owner_requests.resize(workload, grows.asked())
            case slices.Slicing.GROW if not self._has_next(first, key):
                return self._grow(key, owner, grows, workload)
            case _:
                pass
        reclaims = owner.reclaims()
        if reclaims is not None and lifecycle.reclaims_less(reclaims, workload):
            return owner_requests.reclaim(workload, reclaims)
        if not workload.status.is_true(conditions.ADMITTED):
            return None
        pod = self._running.to_release(first)
        return None if pod is None else owner_requests.release(key, pod)

    def _about_domains(
        self, key: WorkloadKey, owner: Owner, workload: Workload
    ) -> ApiRequest | None:
        """Return the write that tells a pod its domain that another controller makes, or None.

        One that was told a lost host before it was replaced makes way for another pod.
        """
        is_made = owner.suspends() is not None and owner.grows() is None
        if not is_made or owner.is_held() or not workload.status.is_true(conditions.ADMITTED):
            return None
        chosen = self._running.to_place(self._kind.key_of(owner.view), workload)
        try:
            if chosen is not None:
                return owner_requests.release_to(key, *chosen)
            stray = self._running.stray(self._kind.key_of(owner.view))
            return None if stray is None else owner_requests.end_stray(key, stray)
        except injection.InjectionConflictError as conflict:
            return self._cannot_start(workload, conflict)

    def _about_node(self, owner: Owner, workload: Workload) -> ApiRequest | None:
        """Return the next write until what was let run is charged to the flavor of its node.

        None where it is, or has no node. A reservation cannot change: it is taken back, and made
        anew (`Step.CHARGE`). Meanwhile the pods are charged on their own, and the mark keeps the
        Workload out of the queue, so that nothing else is decided about it.
        """
        is_let_run = bool(owner.view.metadata.annotation(names.OUTSIDE_QUOTA))
        is_charged = workload.status.is_true(conditions.ADMITTED)
        if not is_let_run or not is_charged or owner.is_held():
            return None
        if not self._running.is_charged_elsewhere(workload):
            return None
        if not workload.metadata.annotation(MADE_FOR_RUNNING):
            mark = {"metadata": {"annotations": {MADE_FOR_RUNNING: "true"}}}
            return api_requests.patch_workload(workload, WritePurpose.CHARGE_RUNNING, mark)
        text = added_conditions.ON_ANOTHER_FLAVOR
        status = evictions.withdraw(workload, text, self._clock.now())
        return api_requests.set_workload_status(workload, WritePurpose.CLEAR_RESERVATION, status)

    def _has_next(self, first: WorkloadKey, key: WorkloadKey) -> bool:
        """Return whether a slice waits to replace the one of a key."""
        return any(
            slice_.replaces() == key and not slice_.status.is_true(conditions.FINISHED)
            for slice_ in self._workloads.slices(first)
        )

    def _grow(
        self, key: WorkloadKey, owner: Owner, grows: Grows, workload: Workload
    ) -> ApiRequest:
        """Make the slice that asks for all pods; the present one is read whole before."""
        named = self.index.named_document(self._kind.key_of(owner.view))
        if named is None or not owner_requests.is_read(named, workload):
            return api_requests.read_workload(key, workload)
        document = slices.document(self._kind, owner, grows, named)
        past = workload.past_preemptions()
        if past != NEVER_PREEMPTED:
            text = past_preemptions.annotation(workload.metadata.uid, past)
            document["metadata"]["annotations"][PREEMPTED_BY] = text
        new_key = WorkloadKey(key.namespace, document["metadata"]["name"])
        announced = () if self._kind.has_condition else (events.created_workload(new_key.text()),)
        return owner_requests.on_lane(
            key, api_requests.create_workload(new_key, document, announced)
        )

    def _is_left_alone(self, subject: Subject) -> bool:
        """Return whether an owner is in a namespace that is not managed.

        Its Workload stands for itself then.
        """
        is_here = subject.owner is not None or subject.beside is not None
        return is_here and not self._configuration.manages(subject.key.namespace)

    def _runs_unmanaged(self, subject: Subject) -> bool:
        """Return whether pods run without a Workload in a namespace that is surely not managed.

        Whoever copies a manifest copies our label, too.
        """
        owner, workload = subject.owner, subject.workload
        is_out = self._configuration.leaves_out(subject.key.namespace)
        return is_out and workload is None and owner is not None and not owner.is_held()

    def _next_step(self, subject: Subject) -> Next:
        owner = subject.owner
        if owner is None:
            return lifecycle.without_owner(self._kind, subject.workload)
        return lifecycle.next_step(owner, subject.workload, self.index.named_by(owner.view))

    def _remove(self, workload: Workload) -> ApiRequest | None:
        """Delete a second Workload once, and let it go where our finalizer is on it."""
        if not workload.metadata.deletion_timestamp:
            return self._delete(workload, is_told=True)
        step = lifecycle.remove_finalizer(workload)
        return None if step is lifecycle.NOTHING else owner_requests.remove_finalizer(workload)

    def _delete(self, workload: Workload, *, is_told: bool) -> ApiRequest | None:
        """Delete a Workload once; it stays until its finalizer is off."""
        if self._deleted.get(workload.key()) == workload.metadata.uid:
            return None
        is_told = is_told and not self._kind.has_condition
        announced = (events.deleted_workload(workload.key().text()),) if is_told else ()
        return api_requests.delete_workload(workload, announced)

    # ------------------------------------------------------- owners that have no Workload yet

    def _without_workload(self, key: WorkloadKey, owner: Owner, step: Next) -> ApiRequest | None:
        """Return the next write for an owner whose Workload is to be made or adopted."""
        named = self._kind.prebuilt_key(owner.view)
        if named is None:
            return self._create(key, owner)
        workload = self.index.named_by(owner.view)
        pod = self._pod_of_named(key, owner)
        if step.step is Step.ADOPT_WORKLOAD and workload is not None and pod is None:
            return self._adopt(key, owner, workload)
        name = "" if pod is None else pod.metadata.name
        why = prebuilt.missing(named, workload, owner.view, name)
        self._lacks_workload(key, owner, why)
        return None

    def _pod_of_named(self, key: WorkloadKey, owner: Owner) -> views.Pod | None:
        """Return a pod that runs with the Workload that a held owner names, or None.

        The owner is looked at again when the pod has ended.
        """
        named = self._kind.prebuilt_key(owner.view)
        if named is None or not owner.is_held():
            return None
        return self._running.any_of(named, waits=key)

    def _create(self, key: WorkloadKey, owner: Owner) -> ApiRequest | None:
        question = self._workloads.ask_absence(key) if owner.was_admitted() else None
        request = question or self._make(key, owner)
        if request is None or isinstance(request, ApiRequest):
            return request
        if owner.was_admitted():
            request["metadata"].setdefault("annotations", {})[MADE_FOR_RUNNING] = "true"
            if owner.grows() is not None:
                self._running.count_running(key, request["spec"]["podSets"])
        announced = () if self._kind.has_condition else (events.created_workload(key.text()),)
        return api_requests.create_workload(key, request, announced)

    def _make(
        self, key: WorkloadKey, owner: Owner, workload: Workload | None = None
    ) -> dict[str, Any] | ApiRequest | None:
        """Return the document of a Workload, the read that is needed first, or None to wait.

        Args:
            key: of the owner.
            owner: the owner.
            workload: that it has already, whose class it keeps where it names one that does not
                exist; None for none.
        """
        owner_key = self._kind.key_of(owner.view)
        document, view = self.index.document_of(owner_key), self.index.get(owner_key)
        if document is None or view is None:
            return self._read(key, owner)
        copied = self._configuration.settings.integrations.label_keys_to_copy
        classes = self._classes(workload)
        try:
            return self.integration.build(view, document, classes, copied)
        except MissingPriorityClassError as missing:
            self._lacks_class(key, owner.view, missing.name)
            return None

    def _classes(self, workload: Workload | None) -> PriorityClasses:
        """Return the classes that an owner may name, whose Workload exists or is to be made."""
        return PriorityClasses(
            workload=self._configuration.priority_classes,
            pod=self._configuration.pod_priority_classes,
            kept=None if workload is None else kept_priority(workload),
        )

    def _adopt(self, key: WorkloadKey, owner: Owner, workload: Workload) -> ApiRequest:
        """Take the Workload that the owner names; both are read whole before."""
        document, view = self.index.document_of(key), self.index.get(key)
        if document is None or view is None:
            return self._read(key, owner)
        named = self.index.named_document(key)
        if named is None or not owner_requests.is_read(named, workload):
            return api_requests.read_workload(key, workload)
        changes = self.integration.adopt(view, document, named)
        if changes is not None:
            return owner_requests.adopt(key, workload, changes)
        return owner_requests.on_lane(key, self._finish(workload, kueue.OUT_OF_SYNC))

    def _read(self, key: WorkloadKey, owner: Owner) -> ApiRequest:
        return owner_requests.read(key, self.resource, owner.view, self.integration.document)

    def _lacks_workload(self, key: WorkloadKey, owner: Owner, why: Text) -> None:
        """Tell why an owner has no Workload though it names one."""
        self._events.lacks_workload(key, owner.view, why)

    def _lacks_class(self, key: WorkloadKey, owner: views.Object, name: str) -> None:
        """Tell once that a class does not exist; the owner is looked at when one is made."""
        self._events.lacks_class(key, owner, name, self._configuration.priority_classes)
        self._draft.wait_for(awaited.priority_class(name))

    # ----------------------------------------------------------------- owners with a Workload

    def _follow(self, key: WorkloadKey, owner: Owner, workload: Workload) -> ApiRequest | None:
        """Make a Workload without quota ask for what its owner asks for."""
        is_adopted = prebuilt.is_adopted(workload, owner.view)
        is_placed_otherwise = owner.places_otherwise(workload)
        if is_adopted or (owner.resizes() is None and not is_placed_otherwise):
            return self._follow_labels(key, owner.view, workload)
        lacks_class = names_other_class(owner.view, workload) and self._tell_if_lacking_class(
            key, owner.view
        )
        request = self._make(key, owner, workload)
        if request is None or isinstance(request, ApiRequest):
            return request
        if is_placed_otherwise:
            return owner_requests.follow_nodes(workload, request)
        announced = owner_events.followed(owner, workload, lacks_class=lacks_class)
        return owner_requests.follow(workload, owner.view, request, announced)

    def _follow_labels(
        self, key: WorkloadKey, owner: views.Object, workload: Workload
    ) -> ApiRequest | None:
        """Make a Workload take over what the labels of its owner say now."""
        if may_change_class(owner, workload):
            self._tell_if_lacking_class(key, owner)
        return keeping.follow_owner(owner, workload, self._configuration.priority_classes)

    def _tell_if_lacking_class(self, key: WorkloadKey, owner: views.Object) -> bool:
        """Return whether an owner names a class that does not exist; if so, tell of it."""
        label = owner.metadata.label(PRIORITY_CLASS_LABEL)
        lacks = bool(label) and label not in self._configuration.priority_classes
        if lacks:
            self._lacks_class(key, owner, label)
        return lacks

    def _about_workload(
        self, subject: Subject, step: Next, workload: Workload
    ) -> ApiRequest | None:
        owner = subject.owner
        match step.step:
            case Step.DELETE_WORKLOAD:
                return self._delete(
                    workload, is_told=not workload.status.is_true(conditions.FINISHED)
                )
            case Step.REMOVE_FINALIZER:
                return owner_requests.remove_finalizer(workload)
            case Step.CHARGE if owner is not None:
                return self._charge_running(owner, workload)
            case Step.FINISH:
                return self._finish(workload, Text(step.reason, step.message))
            case Step.CLEAR_RESERVATION:
                is_held = owner is not None and owner.is_held()
                stays = is_held or not self._kind.is_deleted_to_stop
                status = evictions.clear(workload, self._clock.now(), stays=stays)
                reclaims = None if owner is None else owner.reclaims()
                is_stopped_whole = owner is not None and owner.restores() is not None
                if is_stopped_whole and lifecycle.reclaims_otherwise(reclaims, workload):
                    # In the same write: else it may get quota before, and for too few pods.
                    assert reclaims is not None
                    status |= statuses.reclaim(reclaims.reclaimable(workload))
                return api_requests.set_workload_status(
                    workload, WritePurpose.CLEAR_RESERVATION, status
                )
            case Step.RECLAIM:
                reclaims = None if owner is None else owner.reclaims()
                return None if reclaims is None else owner_requests.reclaim(workload, reclaims)
            case Step.CHARGE_AGAIN:
                reclaims = None if owner is None else owner.reclaims()
                if reclaims is not None:
                    self._charge_again(workload, reclaims)
                return None
            case _:
                return None

    def _charge_again(self, workload: Workload, reclaims: Reclaims) -> None:
        """Have it decided whether there is room for pods of a Workload that run again."""
        counts = lifecycle.counts_to_keep(reclaims, workload)
        self._draft.decide(self._running.charge_again, workload, counts)

    def _charge_running(
        self,
        owner: Owner,
        workload: Workload,
        running: Mapping[str, int] | None = None,
    ) -> ApiRequest | None:
        """Give a Workload the quota that its owner's pods hold, even above the ClusterQueue's.

        Args:
            owner: its owner.
            workload: the Workload.
            running: see `running_pods.Ledger.admit_running`.
        """
        charge = self._running.charge_of(workload, running)
        has_queue = bool(self._running.queue_to_charge(workload))
        if charge is None and has_queue:
            self._draft.decide(self._running.decide_charge, workload, running)
            return None
        admit = None if charge is None else charge.admit
        if admit is None:
            # it goes on running, and is charged once its queue exists
            sought = self._running.queues_sought(workload)
            self._draft.wait_for(*map(awaited.cluster_queue, sought))
            return None
        status = statuses.reserve(workload, admit, self._runs_since(owner))
        is_let_run = bool(owner.view.metadata.annotation(names.OUTSIDE_QUOTA))
        announced = (
            events.charged_outside(admit.cluster_queue)
            if is_let_run
            else events.charged_running(admit.cluster_queue),
        )
        return api_requests.set_workload_status(
            workload, WritePurpose.CHARGE_RUNNING, status, announced
        )

    def _runs_since(self, owner: Owner) -> datetime:  # noqa: ARG002  # single pods may say it
        """Return since when an owner is charged that runs already: now."""
        return self._clock.now()

    def _finish(self, workload: Workload, text: Text) -> ApiRequest:
        status = statuses.finish(workload, *text, self._clock.now())
        is_told = not self._kind.has_condition
        announced = (events.finished_workload(workload.key().text()),) if is_told else ()
        return api_requests.set_workload_status(
            workload, WritePurpose.FINISH_WORKLOAD, status, announced
        )

    def _about_owner(
        self, key: WorkloadKey, step: Next, owner: Owner, workload: Workload | None
    ) -> ApiRequest | None:
        restores = owner.restores()
        match step.step:
            case Step.START if workload is not None:
                return self._start(key, owner, workload)
            case Step.STOP if self._kind.key_of(owner.view) not in self._stopped:
                question = None if workload is not None else self._ask_absence(key, owner)
                return question or self._stop_or_wait(key, step, owner, workload)
            case Step.RESET if restores is not None and (changes := restores.reset()) is not None:
                return self._patch(key, owner, WritePurpose.RESET_OWNER, changes, "status")
            case Step.RESTORE if restores is not None:
                return self._patch(
                    key, owner, WritePurpose.RESTORE_OWNER, restores.restore(workload)
                )
            case _:
                return None

    def _patch(
        self,
        key: WorkloadKey,
        owner: Owner,
        operation: WritePurpose,
        changes: patches.Patch,
        subresource: str = "",
        announced: tuple[Event, ...] = (),
    ) -> ApiRequest:
        """Return a change of an owner; the answer is whole while it has no Workload."""
        is_made = self._workloads.get(key) is not None
        into = self.integration.answer if is_made else self.integration.document
        return owner_requests.patch(
            key, self.resource, owner.view, operation, changes,
            into=into, subresource=subresource, events=announced,
        )  # fmt: skip

    def _ask_absence(self, key: WorkloadKey, owner: Owner) -> ApiRequest | None:
        """Return the object to read before an owner without a Workload is stopped."""
        named = self._kind.prebuilt_key(owner.view)
        if named is None:
            return self._workloads.ask_absence(key)
        if self.index.named_by(owner.view) is not None:
            return None  # it is there, but another's
        return self._workloads.ask_absence(key, named.name)

    def _start(self, key: WorkloadKey, owner: Owner, workload: Workload) -> ApiRequest | None:
        """Start an owner; one that contradicts its admission gives its quota back and waits.

        It waits while pods run that use its reservation. Some get what they are admitted with in
        a write before.
        """
        gathers = owner.gathers()
        started = None if gathers is None else {gathers.pod_set_to_start(workload): 1}
        beside = self._running.without_room(workload, started, waits=key)
        self._events.start_held_back(key, owner.view, beside)
        if beside is not None:
            return None
        try:
            flavors = self._configuration.flavors
            injections = injection.injections(workload, owner.pod_sets, flavors)
            if owner.suspends() is not None:  # another controller makes its pods
                injections = injection.with_devices(injections, self._running.devices(workload))
            if self._kind.takes_preferences:
                injections = injection.with_hosts(injections, self._running.hosts(workload.key()))
            prepares = owner.prepares()
            if prepares is not None:
                preparation = prepares.preparation(workload, injections)
                if preparation is not None:
                    return self._patch(key, owner, WritePurpose.PREPARE_OWNER, preparation)
            changes = owner.start(workload, injections)
        except KeyError:
            return None  # the flavor was deleted after the decision; its return wakes the owner
        except injection.InjectionConflictError as conflict:
            return self._cannot_start(workload, conflict)
        begins = owner.view if gathers is None else gathers.to_start(workload)
        announced: tuple[Event, ...] = ()
        if not self._workloads.was_granted(workload.key()) or owner_events.says_it_waits(begins):
            announced = tuple(owner_events.started(workload))
        if gathers is None:
            return self._patch(key, owner, WritePurpose.START_OWNER, changes, announced=announced)
        return owner_requests.patch(
            key, self.resource, gathers.to_start(workload), WritePurpose.START_OWNER, changes,
            into=self.integration.answer, events=announced,
        )  # fmt: skip

    def _cannot_start(
        self, workload: Workload, conflict: injection.InjectionConflictError
    ) -> ApiRequest:
        if conflict.check:
            text = added_conditions.checks_contradict(str(conflict))
        else:
            text = added_conditions.contradicts_admission(
                conflict.key, conflict.wanted, conflict.found
            )
        status = evictions.contradicted(workload, text, self._clock.now())
        announced = (events.evicted(*text),)
        return api_requests.set_workload_status(workload, WritePurpose.EVICT, status, announced)

    def _stop_or_wait(
        self, key: WorkloadKey, step: Next, owner: Owner, workload: Workload | None
    ) -> ApiRequest | None:
        """Stop an owner, or say that it is not stopped yet."""
        end = self.notices.holds(owner, workload)
        if end is not None and workload is not None:
            return self.notices.next_request(key, owner, workload, end)
        if not self.brake.holds(key, owner.view, workload):
            self._events.held_back(key, owner.view, None)
            return self._stop(key, owner, step, workload)
        why = Text(step.reason, step.message)
        announced = events.stop_held_back(self.brake.text(why))
        if workload is not None:
            return self.brake.mark(workload, why, announced)
        self._events.held_back(key, owner.view, announced)
        return None

    def _stop(
        self, key: WorkloadKey, owner: Owner, step: Next, workload: Workload | None
    ) -> ApiRequest | None:
        """Suspend an owner, or say on it why it is deleted, and then delete it."""
        restores, terminates = owner.restores(), owner.terminates()
        if restores is not None:
            announced = (self.notices.stopped(step, owner.view, workload),)
            return self._patch(
                key, owner, WritePurpose.STOP_OWNER, restores.suspend(), announced=announced
            )
        if terminates is None:
            return None
        changes = terminates.termination(Text(step.reason, step.message), self._clock.now())
        if changes is None or self._kind.key_of(owner.view) in self._unmarkable:
            stopped = self.notices.stopped(step, owner.view, workload)
            return owner_requests.delete(
                key, self.resource, owner.view, self.integration.answer, stopped
            )
        return self._patch(key, owner, WritePurpose.MARK_OWNER, changes, "status")

    # ----------------------------------------------------------------------------- settling

    def may_take(
        self, key: WorkloadKey, controller: views.OwnerReference | None, request: ApiRequest
    ) -> bool:
        """Return whether `complete` has something to do with what came of a request.

        Args:
            key: of the request.
            controller: the controller of the Workload of that key; None for none.
            request: the request.
        """
        return request.resource is self.resource or self.index.may_have(key, controller)

    def tell(self, request: ApiRequest) -> None:
        """Tell of a write about an object of the kind that took effect."""
        self._events.done(None, request)

    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take what came of a write about an owner or its Workload; call before it is seen."""
        request, subject = outcome.request, self.index.subject(key)
        written_to = None if subject is None else subject.beside or subject.owner
        owner = None if written_to is None else written_to.view
        if outcome.result is Result.DONE:
            self._events.done(owner, request)
        if subject is None or owner is None:
            return
        is_deleted = (
            outcome.result is Result.DONE and request.operation is WritePurpose.DELETE_WORKLOAD
        )
        if is_deleted and subject.workload and subject.workload.metadata.uid == request.uid:
            self._deleted[key] = request.uid
        if subject.beside is None:
            self._take_answer(key, owner, outcome)

    def _take_answer(self, key: WorkloadKey, owner: views.Object, outcome: RequestResult) -> None:
        request, document, owner_key = outcome.request, outcome.object, self._kind.key_of(owner)
        is_done = outcome.result is Result.DONE
        if request.operation is WritePurpose.READ_OWNER and isinstance(
            document, self.integration.document
        ):
            self.index.keep_document(owner_key, document)
        elif request.operation is WritePurpose.READ_WORKLOAD and isinstance(document, dict):
            self.index.keep_named(owner_key, document)
        elif request.operation is WritePurpose.ADOPT_WORKLOAD:
            self.index.drop_named(key)  # it has changed, by this write or another
            self._events.has_workload(key)
        elif request.operation is WritePurpose.MARK_OWNER and outcome.result is Result.REFUSED:
            self._unmarkable.add(owner_key)
        elif self._is_about(owner, request) and request.verb is Verb.DELETE and is_done:
            self._stopped.add(owner_key)
        if self._is_gone(owner, outcome):
            self.on_delete(owner, for_good=True)

    def _is_about(self, owner: views.Object, request: ApiRequest) -> bool:
        return request.resource is self.resource and request.uid == owner.metadata.uid

    def _is_gone(self, owner: views.Object, outcome: RequestResult) -> bool:
        """Return whether an answer tells that an owner is not there, or another in its place."""
        if not self._is_about(owner, outcome.request):
            return False
        document = outcome.object
        is_other = (
            isinstance(document, views.Object) and document.metadata.uid != owner.metadata.uid
        )
        return is_other or outcome.result is Result.GONE
