"""Events that say why something waits, on the pod, the Job and every owner (ADR 0067)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from admission.base import events
from admission.base.clock import Clock
from admission.base.conditions import Text
from admission.base.events import Events
from admission.base.names import WorkloadKey
from admission.controller.condition_schedule import ConditionSchedule
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.owner_writes import Owners
from admission.controller.watched_owners.pods import Pods
from admission.controller.watched_owners.rollouts import Rollouts
from admission.controller.writing import api_requests
from admission.controller.writing.flow_control import EventPace
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import deployment
from admission.owners.framework import Owner
from admission.owners.pod_group import PodGroupOwner
from admission.reasons import kueue
from admission.scheduling.decisions import Wait

FindSubject = Callable[[WorkloadKey], tuple[Owners[Any, Any], Subject] | None]
"""Returns whose business a Workload is and what there is; None for nobody's."""
FirstPlace = Callable[[Iterable[WorkloadKey]], str]
"""Returns the place, in words, of the first of some Workloads in its queue; empty for none."""


class WaitingEventRecorder:
    """The objects whose events are due, in the order of writing; a few are written at a time."""

    def __init__(
        self,
        explainer: ConditionSchedule,
        subject: FindSubject,
        pods: Pods,
        rollouts: Rollouts,
        events: Events,
        clock: Clock,
    ) -> None:
        """Begin with nothing to tell.

        Args:
            explainer: says whose event is due.
            subject: finds the owner of a Workload.
            pods: know what a pod says.
            rollouts: know the Deployments of pods.
            events: takes events.
            clock: the present.
        """
        self._explainer = explainer
        self._subject = subject
        self._pods = pods
        self._rollouts = rollouts
        self._events = events
        self._pace = EventPace(clock)
        self._due: dict[WorkloadKey, None] = {}

    def collect(self, now: float) -> None:
        """Take whose events are due."""
        while (key := self._explainer.take_event(now)) is not None:
            self._due[key] = None

    def take(self) -> WorkloadKey | None:
        """Return the next key with a due event, and forget it; None while no more may be sent."""
        if not self._due or not self._pace.has_room():
            return None
        key = next(iter(self._due))
        del self._due[key]
        return key

    def next_due(self) -> float | None:
        """Return the monotonic time from which there may be something to tell."""
        if self._due:
            return self._pace.room_at
        return self._explainer.next_event()

    def tell(self, workload: Workload, wait: Wait, place: str, first_place: FirstPlace) -> None:
        """Tell why a Workload waits on all that people look at.

        Args:
            workload: it.
            wait: why it waits.
            place: where it stands in its queue; empty for nothing.
            first_place: is asked for the place of a Deployment whose pods wait one by one.
        """
        for regarding, text in self._told(workload, wait, place, first_place):
            self._pace.spend()
            self._events.event(regarding, events.waits(*text))

    def _told(
        self, workload: Workload, wait: Wait, place: str, first_place: FirstPlace
    ) -> Iterator[tuple[dict[str, str], Text]]:
        subject = self._subject(workload.key())
        owner = None if subject is None else subject[1].owner
        if subject is None or owner is None or not owner.kind.has_condition:
            yield api_requests.workload_reference(workload), kueue.text(wait.why, wait.ending)
        if subject is None or owner is None:
            return
        text = self._pods.notices.explain(wait, place=place)
        parents: dict[str, dict[str, str]] = {}
        is_alone = isinstance(owner.view, views.Pod) and not isinstance(owner, PodGroupOwner)
        of_parent = place
        if is_alone and place:  # others with the same parent have other places
            of_parent = first_place(self._rollouts.waiting_beside(workload.key()))
        for view in _told_of(owner):
            text_of_view = text
            if isinstance(view, views.Pod):
                text_of_view = self._pods.waiting_text(view, wait, place)
                text = self._pods.waiting_text(view, wait, of_parent)
            yield api_requests.reference(subject[0].resource, view.metadata), text_of_view
            parent = self._parent(view)
            if parent is not None:
                parents[parent["uid"]] = parent
        for parent in parents.values():
            yield parent, text

    def _parent(self, view: views.Object) -> dict[str, str] | None:
        """Return the reference to what controls an owner; of a ReplicaSet, to its Deployment."""
        controller = view.metadata.controller()
        if controller is None:
            return None
        if (
            isinstance(view, views.Pod)
            and (controller.api_version, controller.kind) == deployment.REPLICA_SET
        ):
            above = self._rollouts.deployment_of(view)
            if above is not None:
                return api_requests.reference(resources.DEPLOYMENTS, above.metadata)
        return {
            "apiVersion": controller.api_version,
            "kind": controller.kind,
            "namespace": view.metadata.namespace,
            "name": controller.name,
            "uid": controller.uid,
        }


def _told_of(owner: Owner) -> Iterator[views.Object]:
    """Yield the objects that get the event: the pods of a group, or the owner itself."""
    if isinstance(owner, PodGroupOwner):
        yield from owner.gated()
    else:
        yield owner.view
