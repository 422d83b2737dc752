"""The part that only pods need: pods in doubt, and the condition that says what they wait for.

Source: kueue pkg/controller/jobs/pod.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from typing_extensions import override

from admission.base import conditions, events, names
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.controller import awaited
from admission.controller.devices.claims import Claims
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.seeing.object_cache import NamedObjects, version
from admission.controller.watched_owners import orphans, owner_requests, pods_in_doubt
from admission.controller.watched_owners.held import HeldOwners
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.owner_writes import Decide, OwnerContext, Owners
from admission.controller.watched_owners.pod_endings import PodEndings
from admission.controller.watched_owners.pod_groups import PodGroups
from admission.controller.watched_owners.predecessors import Predecessors
from admission.controller.watched_owners.rollouts import Rollouts
from admission.controller.watched_owners.spark_applications import SparkApplications
from admission.controller.watched_owners.unreviewed import Unreviewed
from admission.controller.workloads import checks, evictions
from admission.controller.workloads.refusals import Refusals
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.objects import gangs, resource_claim, views
from admission.objects.workload import Workload
from admission.owners import deployment, injection, pod_group, spark_application
from admission.owners import pod as pod_owner
from admission.owners.framework import Owner
from admission.owners.lifecycle import Next
from admission.owners.pod import PodOwner
from admission.reasons import added_conditions, sentences
from admission.scheduling.decisions import Wait


class Pods(Owners[views.Pod, views.PodDocument]):
    """Single pods. Takes all changes of watched pods, and passes those of groups on.

    Attributes:
        groups: the pods of groups.
        predecessors: Workloads of single pods in whose place others come.
    """

    def __init__(
        self,
        context: OwnerContext,
        held_kinds: Sequence[HeldOwners[Any, Any]],
        inventory: NodeInventory,
        claims: Claims,
        endings: PodEndings,
        groups: PodGroups,
        rollouts: Rollouts,
        refusals: Refusals,
        *,
        awaits_gates: bool,
    ) -> None:
        """Prepare an empty index.

        Args:
            context: what owners of every kind work with.
            held_kinds: owners that are held as a whole.
            inventory: is told which GPUs the pods hold.
            claims: tells what pods ask for by claim.
            endings: knows whether a pod that is being deleted may still run.
            groups: is told of the pods of groups.
            rollouts: is told of the pods of Deployments.
            refusals: know which pods the API server does not let start.
            awaits_gates: whether a pod waits until other controllers took their gates off.
        """
        self.predecessors = Predecessors(context.clock, self._is_leaving)
        integration = replace(pod_owner.INTEGRATION, owner=self._owner)
        self.groups = groups
        super().__init__(integration, context)
        self._held = held_kinds
        self._applications = next(
            (owners for owners in held_kinds if isinstance(owners, SparkApplications)), None
        )
        self._endings = endings
        groups.on_pod_delete = partial(self.on_delete, for_good=True)
        self._inventory = inventory
        self._claims = claims
        self._rollouts = rollouts
        self._refusals = refusals
        self._awaits_gates = awaits_gates
        self._unreviewed = Unreviewed(self._is_of_held_kind)
        self._beyond: dict[WorkloadKey, dict[WorkloadKey, None]] = {}
        """Pods that were admitted beyond a PodGroup, by its Workload."""
        self._earlier: dict[WorkloadKey, views.OwnerReference] = {}
        """Controllers of gated pods that no admission has made."""

    @override
    def on_update(self, document: views.Object) -> None:
        pod_key = self._kind.key_of(document)
        alone, member = self.index.get(pod_key), self.groups.members.pod(pod_key)
        has_workload = alone or member
        if has_workload is not None and version(document) <= version(has_workload):
            return  # what it says of a group may have changed since: the later version stays
        is_ours = self._kind.includes(document.metadata)
        is_incomplete = is_ours and self._unreviewed.on_update(pod_key, document)
        is_incomplete = is_incomplete and pod_key not in self._unmarkable
        is_of_group = is_ours and not is_incomplete and bool(pod_owner.group_name(document))
        if is_of_group and alone is not None:
            self.index.on_delete(document)  # it has joined a group
        if is_ours and not is_of_group and member is not None:
            self.groups.lost_pod(document, for_good=False)  # it has left a group
        pod = (
            self.groups.on_pod_update(document) if is_of_group else self.index.on_update(document)
        )
        if pod is not None:
            self._note_beyond(pod)
            self._note_earlier(pod, is_there=not is_of_group)
            kind = pod_group.KIND if is_of_group else self._kind
            self._endings.on_update(pod, kind.key_of(pod))
            self._inventory.on_pod_update(pod)
            self._running.on_update(pod)
            self._rollouts.on_update(pod, ended=self._has_ended(pod))
        elif not is_ours:
            self._lose_label(document)

    def _note_earlier(self, pod: views.Pod, *, is_there: bool) -> None:
        """Tell owners that are held as a whole of a gated pod that no admission has made."""
        key, controller = self._kind.key_of(pod), None
        if is_there and pod_owner.is_gated(pod) and not pod.metadata.label(names.PODSET_LABEL):
            controller = pod.metadata.controller()
        told_before = self._earlier.get(key)
        if told_before == controller:
            return  # so it is with nearly every pod that is seen
        if controller is not None:
            self._earlier[key] = controller
        else:
            del self._earlier[key]
        for owners in self._held:
            if told_before is not None and (
                controller is None or told_before.uid != controller.uid
            ):
                owners.on_earlier_pod(key, told_before, waits=False)
            if controller is not None:
                owners.on_earlier_pod(key, controller, waits=True)

    def _is_of_held_kind(self, controller: views.OwnerReference) -> bool:
        return any(owners.integration.kind.is_of(controller) for owners in self._held)

    def _note_beyond(self, pod: views.Pod) -> None:
        group = pod_owner.beyond(pod)
        if group is not None:
            self._beyond.setdefault(group, {})[self._kind.key_of(pod)] = None
        else:
            self._forget_beyond(pod)

    def _forget_beyond(self, pod: views.Pod) -> None:
        """Forget a pod beyond a PodGroup that is gone, or a member again."""
        for key in (names.BEYOND_POD_GROUP, names.POD_GROUP_OBJECT):
            reference = gangs.marked(pod.metadata, key)
            if reference is None:
                continue
            group = WorkloadKey(pod.metadata.namespace, pod_owner.gang_name(reference))
            pods = self._beyond.get(group, {})
            pods.pop(self._kind.key_of(pod), None)
            if not pods:
                self._beyond.pop(group, None)

    @override
    def may_name(self, named: WorkloadKey, controller: views.OwnerReference | None) -> bool:
        return named in self._beyond or super().may_name(named, controller)

    @override
    def naming(self, workload: views.Object) -> tuple[WorkloadKey, ...]:
        key = WorkloadKey(workload.metadata.namespace, workload.metadata.name)
        return (*super().naming(workload), *self._beyond.get(key, ()))

    def _is_leaving(self, key: WorkloadKey) -> bool:
        """Return whether the pod of a Workload is gone or being deleted."""
        pod = self.index.get(key)
        return pod is None or bool(pod.metadata.deletion_timestamp)

    @override
    def _forget(self, key: WorkloadKey) -> None:
        super()._forget(key)
        self._unreviewed.forget(key)
        self.predecessors.forget_pod(key)

    @override
    def _make(
        self, key: WorkloadKey, owner: Owner, workload: Workload | None = None
    ) -> dict[str, Any] | ApiRequest | None:
        """Return the document of a Workload; it takes over what its predecessor remembers."""
        request = super()._make(key, owner, workload)
        controller = owner.view.metadata.controller()
        if isinstance(request, dict) and controller is not None:
            inherited = self.predecessors.inherited(key, controller.uid)
            if inherited:
                request["metadata"]["annotations"][names.PREEMPTED_BY] = inherited
                self._draft.note(self.predecessors.promise, key, controller.uid)
        return request

    def _has_ended(self, pod: views.Pod) -> bool:
        is_stopped = bool(pod.metadata.deletion_timestamp) and not self._endings.is_ending(pod)
        return pod_owner.is_terminal(pod) or is_stopped

    def _lose_label(self, document: views.Object) -> None:
        if self.groups.members.pod(self._kind.key_of(document)) is not None:
            self.groups.lost_pod(document, for_good=False)
        if self._running.on_delete(document):
            self._inventory.on_pod_delete(document.metadata.uid)

    @override
    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        if self._running.on_delete(gone, for_good=for_good):
            self._inventory.on_pod_delete(gone.metadata.uid)
        pod_key = self._kind.key_of(gone)
        pod_before = self.index.get(pod_key)
        if pod_before is not None:
            super().on_delete(gone, for_good=for_good)
        else:
            pod_before = self.groups.members.pod(pod_key)
            self.groups.lost_pod(gone, for_good=for_good)
        if pod_before is not None and pod_before.metadata.uid == gone.metadata.uid:
            self._endings.on_delete(pod_before)
            self._forget_beyond(pod_before)
            self._note_earlier(pod_before, is_there=False)
            self._rollouts.on_delete(gone.metadata.uid)

    @override
    def _is_left_alone(self, subject: Subject) -> bool:
        """Return whether a pod runs that nobody has admitted, where pods are not managed.

        One that we gated would wait for ever.
        """
        return self._runs_unmanaged(subject)

    @override
    def of_namespace(self, namespace: str) -> tuple[WorkloadKey, ...]:
        return ()

    def deployment_of(self, key: WorkloadKey) -> str:
        """Return the name of the Deployment whose pod has a Workload; empty for none."""
        pod = self.index.get(key)
        return "" if pod is None else deployment.of_pod(pod)

    @override
    def _stored(self) -> NamedObjects:
        return NamedObjects(self.index.named(), self.groups.members.named())

    # ------------------------------------------------------------------- pods being deleted

    def _owner(self, pod: views.Pod) -> PodOwner:
        return PodOwner(pod, ending=self._endings.is_ending(pod))

    @override
    def next_request(self, subject: Subject, decide: Decide) -> ApiRequest | None:
        pod = None if subject.owner is None else self.index.get(self._own_key(subject.owner))
        if pod is None or subject.owner is None:
            return super().next_request(subject, decide)
        completes = self._complete(subject.key, subject.owner, pod)
        if completes is not None:
            return completes
        stopped = self._stopped_group(pod)
        if stopped is not None and pod_owner.is_gated(pod):
            changes = pod_owner.return_to_podgroup(pod)
            return self._patch(subject.key, subject.owner, WritePurpose.JOIN_GROUP, changes)
        if stopped is not None:
            decide = partial(
                self._decide_or_evict, decide, added_conditions.gang_stopped(stopped.name)
            )
        request = super().next_request(subject, decide)
        refusal = self._refusals.of(subject.key)
        if refusal and request is not None and request.operation is WritePurpose.START_OWNER:
            text = added_conditions.start_refused(refusal)
            return self._tell(subject.key, pod, text, admitted=False) or request
        is_held_back = self._endings.is_awaited(pod)
        if request is None and is_held_back and self._endings.is_ending(pod):
            self._draft.look_again_at(self._endings.free_at(pod))
        if (
            request is not None
            and is_held_back
            and request.operation is WritePurpose.FINISH_WORKLOAD
        ):
            return replace(request, events=(events.freed_from_lost_node(pod.spec.node_name),))
        return request or self._acknowledge(subject) or self._tell_checks(subject.key, pod)

    def _complete(self, key: WorkloadKey, owner: Owner, pod: views.Pod) -> ApiRequest | None:
        """Return what is to be written on a pod that no review saw, or None for nothing."""
        if not pod_owner.is_unreviewed(pod) or not pod_owner.is_gated(pod):
            return None
        pod_key = self._own_key(owner)
        changes = self._unreviewed.missing(pod_key, pod)
        if changes is not None:
            return self._patch(key, owner, WritePurpose.ADOPT_POD, changes)
        text = self._unreviewed.text(pod)
        if text is None or pod_key in self._unmarkable:
            return None
        request = pod_owner.say_unreviewed(pod, text, self._clock.now())
        announced = (events.warning(*text),)
        return self._patch(key, owner, WritePurpose.MARK_OWNER, request, "status", announced)

    def _stopped_group(self, pod: views.Pod) -> WorkloadKey | None:
        """Return the Workload of a PodGroup that does not run, of a pod beyond it; else None."""
        group = pod_owner.beyond(pod)
        workload = None if group is None else self._workloads.get(group)
        if workload is None or not pod_group.is_stopped(workload):
            return None
        return group if self.notices.end(workload) is None else None

    def _decide_or_evict(
        self, decide: Decide, text: Text, key: WorkloadKey, workload: Workload
    ) -> ApiRequest | None:
        """Return the admission of a Workload that holds quota, else its eviction."""
        request = decide(key, workload)
        is_leaving = bool(workload.metadata.deletion_timestamp)
        if request is not None or is_leaving or not pod_group.goes_on(workload):
            return request
        changes = evictions.evict(workload, text, self._clock.now())
        return api_requests.set_workload_status(
            workload, WritePurpose.EVICT, changes, (events.evicted(*text),)
        )

    @override
    def _runs_since(self, owner: Owner) -> datetime:
        return orphans.runs_since(owner.view.metadata, self._clock.now())

    def _own_key(self, owner: Owner) -> WorkloadKey:
        return self._kind.key_of(owner.view)

    @override
    def _lacks_workload(self, key: WorkloadKey, owner: Owner, why: Text) -> None:
        """The condition says so."""

    @override
    def _lacks_class(self, key: WorkloadKey, owner: views.Object, name: str) -> None:
        """The condition says so."""
        self._draft.wait_for(awaited.priority_class(name))

    @override
    def _without_workload(self, key: WorkloadKey, owner: Owner, step: Next) -> ApiRequest | None:
        """Make or adopt the Workload of a gated pod; else give the pod a queue, or say why not."""
        pod = self.index.get(key)
        if pod is None:
            return None
        if self._applications is not None and spark_application.is_pod(pod):
            return self._of_application(key, owner, pod, self._applications)
        controller = pod.metadata.controller()
        if controller is not None and any(
            owners.is_held(key.namespace, controller) for owners in self._held
        ):
            # its owner was let go by somebody else: it is suspended again, and the pod goes
            return self._tell(
                key,
                pod,
                added_conditions.waits_for_owner(controller.kind, controller.name),
                admitted=False,
            )
        if self.groups.serving.includes(pod):
            group_owner = self.groups.serving.find(pod)
            if isinstance(group_owner, Text):
                return self._tell(key, pod, group_owner, admitted=False)
            return self._patch(key, owner, WritePurpose.JOIN_GROUP, group_owner.join(pod))
        now, configuration = self._clock.now(), self._configuration
        is_in_doubt = pods_in_doubt.is_in_doubt(pod)
        gates = pod_owner.gates_of_others(pod) if self._awaits_gates else ()
        if gates and pod_owner.is_gated(pod) and not is_in_doubt:
            return self._tell(key, pod, added_conditions.gated_by_others(gates), admitted=False)
        if not is_in_doubt and pods_in_doubt.hint_for(pod, configuration) is None:
            request = super()._without_workload(key, owner, step)
            if request is not None:
                return request
        sought = self._claims.sought(pod)
        if is_in_doubt:
            due = pods_in_doubt.decided_at(pod, now)
            settled = pods_in_doubt.complete(pod, configuration, sought, due=now >= due)
            if settled is not None:
                return self._patch(key, owner, *settled)
            if now < due:
                self._draft.look_again_at(due)
                return None
        hint = pods_in_doubt.hint_for(pod, configuration, sought)
        beside = self._pod_of_named(key, owner)
        hint = hint or pods_in_doubt.hint_for_named(pod, self.index.named_by(pod), beside)
        if hint is None:
            return None
        self._draft.wait_for(*_awaited(pod))
        return self._tell(key, pod, hint, admitted=False)

    def _of_application(
        self, key: WorkloadKey, owner: Owner, pod: views.Pod, applications: SparkApplications
    ) -> ApiRequest | None:
        """Start a pod of an admitted SparkApplication, or say what it waits for."""
        try:
            problem = applications.find(key, pod, self.index.get)
            if not isinstance(problem, Text):
                patch = pod_owner.release_into(pod, problem)
                return self._patch(key, owner, WritePurpose.START_PART, patch)
        except injection.InjectionConflictError as conflict:
            problem = Text(conditions.FAILED_TO_START, str(conflict))
        return self._tell(key, pod, problem, admitted=False)

    # ---------------------------------------------------------------------------- conditions

    def explain(self, key: WorkloadKey, wait: Wait, place: str = "") -> ApiRequest | None:
        """Return the write that says on the pod of a Workload why it waits, or None for none.

        Args:
            key: of the Workload.
            wait: why it waits.
            place: in its queue, for people; empty where it is not known.
        """
        subject = self.index.subject(key)
        if subject is None:
            return self.groups.explain(key, wait, place)
        pod = None if subject.owner is None else self.index.get(self._own_key(subject.owner))
        if pod is None or not pod_owner.is_gated(pod):
            return None
        return self._tell(key, pod, self.waiting_text(pod, wait, place), admitted=False)

    def waiting_text(self, pod: views.Pod, wait: Wait, place: str) -> Text:
        """Return why a pod waits, as `explain` writes it."""
        lacks_free = any(
            shortage.available < shortage.requested <= shortage.limit
            for shortage in wait.shortages
        )
        deployment = self._rollouts.held_by_previous(pod) if lacks_free else ""
        return self.notices.explain(wait, place=place, deployment=deployment)

    def _tell_checks(self, key: WorkloadKey, pod: views.Pod) -> ApiRequest | None:
        """Return the write that says on a pod that admission checks have not let it pass."""
        workload = self._workloads.get(key)
        text = None if workload is None else checks.waits(workload)
        if text is None or not pod_owner.is_gated(pod):
            return None
        return self._tell(key, pod, text, admitted=False)

    def _acknowledge(self, subject: Subject) -> ApiRequest | None:
        """Turn the condition True once the pod is released; only where there was one."""
        key, workload = subject.key, subject.workload
        if subject.owner is None or workload is None or subject.owner.is_held():
            return None
        pod = self.index.get(self._own_key(subject.owner))
        admitted = workload.status.is_true(conditions.ADMITTED) and workload.status.admission
        if pod is None or not admitted or pod_owner.is_terminal(pod):
            return None
        condition = pod_owner.admitted_condition(pod)
        if condition is None or condition.status == "True":
            return None
        text = sentences.admitted(admitted.cluster_queue)
        return self._tell(key, pod, text, admitted=True)

    def _tell(
        self, key: WorkloadKey, pod: views.Pod, text: Text, *, admitted: bool
    ) -> ApiRequest | None:
        changes = pod_owner.tell(pod, text, self._clock.now(), admitted=admitted)
        if changes is None:
            return None
        is_made = self._workloads.get(key) is not None
        into = self.integration.answer if is_made else self.integration.document
        return owner_requests.patch(
            key,
            self.resource,
            pod,
            WritePurpose.EXPLAIN_POD,
            changes,
            into=into,
            subresource="status",
        )


def _awaited(pod: views.Pod) -> Iterator[awaited.Awaited]:
    """Return what may come besides a queue that lets a Workload be made for a gated pod."""
    name = pod.metadata.label(names.PRIORITY_CLASS_LABEL)
    if name:
        yield awaited.priority_class(name)
    if resource_claim.concerned(pod.spec):
        yield awaited.CLAIMS
