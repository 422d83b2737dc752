"""Which events owners get about their Workloads, and when.

Source: kueue pkg/controller/jobframework/reconciler.go.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from admission.base import conditions, events, names
from admission.base.conditions import Text
from admission.base.events import Event, Events
from admission.base.names import WorkloadKey
from admission.controller.plans import PlanDraft
from admission.controller.workloads import checks
from admission.controller.workloads.checks import CheckStateName
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner
from admission.owners.framework import Owner
from admission.owners.workload import (
    class_changed,
    gates_changed,
    has_other_gates,
    names_other_class,
)
from admission.reasons import added_conditions, kueue

_LASTING: Final = (
    conditions.PRIORITY_CLASS_NOT_FOUND,
    conditions.PREBUILT_NOT_FOUND,
    events.ADMISSION_CHECKS,
    events.WORKLOAD_NOT_MADE,
    events.STOP_HELD_BACK,
    events.START_HELD_BACK,
)
"""Reasons of events that are recorded each time that their text changes."""


class OwnerEvents:
    """Reports an action once, and a lasting state each time that its text changes."""

    def __init__(self, events: Events, resource: Resource, draft: PlanDraft) -> None:
        """Prepare.

        Args:
            events: takes events about actions.
            resource: of the owners.
            draft: takes events about lasting states, of the plan that is being derived.
        """
        self._events = events
        self._resource = resource
        self._draft = draft
        self._said: dict[tuple[WorkloadKey, str], Event] = {}

    def done(self, owner: views.Object | None, request: ApiRequest) -> None:
        """Tell that a write took effect: on the owner, which may be gone by now."""
        if request.resource is self._resource:
            regarding = request.regarding
        elif owner is not None:
            regarding = api_requests.reference(self._resource, owner.metadata)
        else:
            return
        for event in request.events:
            self._events.event(regarding, event)

    def done_to_workload(self, workload: Workload, request: ApiRequest) -> None:
        """Record the event of a write about a Workload that took effect."""
        for event in request.events:
            self._events.event(api_requests.workload_reference(workload), event)

    def lacks_class(
        self, key: WorkloadKey, owner: views.Object, name: str, classes: Iterable[str]
    ) -> None:
        """Tell that the owner, or its pod template, names a class that does not exist.

        Args:
            key: of its Workload.
            owner: the owner.
            name: of the class.
            classes: names of the WorkloadPriorityClasses that exist.
        """
        is_label = owner.metadata.label(names.PRIORITY_CLASS_LABEL) == name
        text = (
            added_conditions.owner_priority_class_not_found(name, classes)
            if is_label
            else kueue.priority_class_not_found("PriorityClass", name)
        )
        self._tell_change(key, owner, text.reason, events.warning(*text))

    def lacks_workload(self, key: WorkloadKey, owner: views.Object, why: Text) -> None:
        """Tell that the Workload is not there that an owner names."""
        self._tell_change(key, owner, conditions.PREBUILT_NOT_FOUND, events.warning(*why))

    def has_workload(self, key: WorkloadKey) -> None:
        """Take that the Workload is there that an owner names."""
        self._remember(key, conditions.PREBUILT_NOT_FOUND, None)

    def lacks_pods(self, key: WorkloadKey, owner: views.Object, why: Text) -> None:
        """Tell why there is no Workload for the pods of an owner."""
        event = events.workload_not_made(why)
        self._tell_change(key, owner, events.WORKLOAD_NOT_MADE, event)

    def checked(self, key: WorkloadKey, owner: Owner, workload: Workload) -> None:
        """Record the event about its admission checks, if they wait."""
        text = _open_checks(owner, workload)
        event = events.admission_checks(text) if text else None
        self._tell_change(key, owner.view, events.ADMISSION_CHECKS, event)

    def held_back(self, key: WorkloadKey, owner: views.Object, event: Event | None) -> None:
        """Tell that an owner without Workload is not stopped yet; None when it is."""
        self._tell_change(key, owner, events.STOP_HELD_BACK, event)

    def start_held_back(
        self, key: WorkloadKey, owner: views.Object, pod: views.Pod | None
    ) -> None:
        """Tell that an owner is not started beside a pod that still runs; None when it is."""
        event = None
        if pod is not None:
            event = events.start_held_back(pod.metadata.name, pod.spec.node_name)
        self._tell_change(key, owner, events.START_HELD_BACK, event)

    def forget(self, key: WorkloadKey) -> None:
        """Forget the owner of a key, which is gone."""
        for reason in _LASTING:
            self._said.pop((key, reason), None)

    def _tell_change(
        self, key: WorkloadKey, owner: views.Object, reason: str, event: Event | None
    ) -> None:
        told_before = self._said.get((key, reason))
        if event == told_before:
            return
        self._draft.note(self._remember, key, reason, event)
        if event is not None:
            self._draft.record(api_requests.reference(self._resource, owner.metadata), event)

    def _remember(self, key: WorkloadKey, reason: str, event: Event | None) -> None:
        """Take what was told last; None for nothing."""
        if event is None:
            self._said.pop((key, reason), None)
        else:
            self._said[key, reason] = event


def followed(owner: Owner, workload: Workload, *, lacks_class: bool) -> Iterator[Event]:
    """Return the events about what a Workload without quota is about to take over from its owner.

    A change of the queue, or of the limit on the running time, is told by nothing.

    Args:
        owner: the owner.
        workload: its Workload.
        lacks_class: whether the class that the owner names does not exist.
    """
    resizes = owner.resizes()
    if resizes is not None and resizes.has_other_pods(workload):
        yield events.updated_pod_sets(workload.key().text())
    if names_other_class(owner.view, workload) and not lacks_class:
        yield class_changed(workload)
    if has_other_gates(owner.view, workload):
        yield gates_changed(owner.view)


def started(workload: Workload) -> Iterator[Event]:
    """Return the event about an owner that its Workload's admission has started."""
    if workload.status.admission is not None:
        yield events.started(workload.status.admission.cluster_queue)


def says_it_waits(owner: views.Object) -> bool:
    """Return whether an owner waits for all that people can see there.

    A pod has a condition that says so, unless it is released at once (ADR 0067).
    """
    return not isinstance(owner, views.Pod) or pod_owner.admitted_condition(owner) is not None


def _open_checks(owner: Owner, workload: Workload) -> str:
    """Return the messages of the checks that a held owner with quota waits for; may be empty."""
    status = workload.status
    waits = status.is_true(conditions.QUOTA_RESERVED) and not any(
        status.is_true(kind)
        for kind in (conditions.ADMITTED, conditions.EVICTED, conditions.FINISHED)
    )
    if not waits or not owner.is_held():
        return ""
    return "; ".join(
        f"{check.name}: {check.message}"
        for check in checks.in_state(workload, CheckStateName.PENDING)
        if check.message
    )
