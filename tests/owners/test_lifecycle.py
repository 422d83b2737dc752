"""The next step of a pod and its Workload follows from what both look like now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest
from typing_extensions import override

from admission.base import conditions, names, patches
from admission.base.conditions import Text
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import lifecycle
from admission.owners import pod as pod_owner
from admission.owners.framework import Grows, Kind, Owner, Prepares, Reclaims, Resizes, Restores
from admission.owners.injection import Injection
from admission.owners.lifecycle import Next, Step
from admission.reasons import kueue
from tests.builders.metadata import make_condition
from tests.builders.pods import pod_view
from tests.builders.workloads import make_admission, workload_of_pod

GATED = pod_view()
RUNNING = pod_view(gated=False, phase="Running")
PENDING = workload_of_pod(GATED)
ADMITTED = workload_of_pod(
    GATED, make_condition("QuotaReserved", "True"), make_condition("Admitted", "True"),
    admission=make_admission(),
)  # fmt: skip
RESERVED = workload_of_pod(
    GATED, make_condition("QuotaReserved", "True"), make_condition("Admitted", "False"),
    admission=make_admission(),
)  # fmt: skip
EVICTED = workload_of_pod(
    GATED, make_condition("QuotaReserved", "True"), make_condition("Admitted", "True"),
    make_condition("Evicted", "True", "Preempted"), admission=make_admission(),
)  # fmt: skip
CLEARED = workload_of_pod(
    GATED, make_condition("QuotaReserved", "False"), make_condition("Evicted", "True", "Preempted")
)
FINISHED = workload_of_pod(GATED, make_condition("Finished", "True"))

CASES = {
    "nothing is done about nothing": (None, None, Step.NOTHING),
    "a gated pod gets a Workload": (GATED, None, Step.CREATE_WORKLOAD),
    "a running pod without a Workload is stopped": (RUNNING, None, Step.STOP),
    "a deleted pod needs no Workload": (pod_view(deleting=True), None, Step.NOTHING),
    "an ended pod needs no Workload": (pod_view(gated=False, phase="Failed"), None, Step.NOTHING),
    "a Workload without its pod is deleted": (None, PENDING, Step.DELETE_WORKLOAD),
    "a Workload that is being deleted is left alone": (
        None, workload_of_pod(GATED, deleting=True), Step.NOTHING,
    ),
    "a released pod whose Workload is being deleted runs on": (
        RUNNING, workload_of_pod(GATED, deleting=True), Step.NOTHING,
    ),
    "a released pod whose Workload is gone gets another": (
        pod_view(
            gated=False, phase="Running",
            annotations={names.WORKLOAD_ANNOTATION: pod_owner.KIND.key_of(RUNNING).name},
        ),
        None, Step.CREATE_WORKLOAD,
    ),
    "a pod that names the Workload of another is stopped": (
        pod_view(gated=False, phase="Running", annotations={names.WORKLOAD_ANNOTATION: "other"}),
        None, Step.STOP,
    ),
    "a gated pod whose Workload is being deleted stays": (
        GATED, workload_of_pod(GATED, deleting=True), Step.NOTHING,
    ),
    "an evicted pod that is going away gives its quota back before its Workload ends": (
        pod_view(gated=False, phase="Running", deleting=True), EVICTED, Step.CLEAR_RESERVATION,
    ),
    "an evicted pod that is gone gives its quota back before its Workload is deleted": (
        None, EVICTED, Step.CLEAR_RESERVATION,
    ),
    "an evicted pod that gave its quota back ends as one without owner": (
        pod_view(gated=False, phase="Running", deleting=True), CLEARED, Step.FINISH,
    ),
    "a pending pod waits": (GATED, PENDING, Step.WAIT),
    "a reserved pod whose checks are open stays gated": (GATED, RESERVED, Step.NOTHING),
    "an admitted pod is released": (GATED, ADMITTED, Step.START),
    "a released pod runs on": (RUNNING, ADMITTED, Step.NOTHING),
    "a pod that runs without quota is stopped": (RUNNING, PENDING, Step.STOP),
    "a pod that ended finishes its Workload": (
        pod_view(gated=False, phase="Succeeded"), ADMITTED, Step.FINISH,
    ),
    "a pod that is going away finishes its Workload": (
        pod_view(gated=False, phase="Running", deleting=True), ADMITTED, Step.FINISH,
    ),
    "a finished Workload is left alone": (RUNNING, FINISHED, Step.NOTHING),
    "an evicted running pod is stopped": (RUNNING, EVICTED, Step.STOP),
    "an evicted gated pod keeps its gate and gives its quota back": (
        GATED, EVICTED, Step.CLEAR_RESERVATION,
    ),
    "an evicted gated pod without quota waits again": (GATED, CLEARED, Step.WAIT),
}  # fmt: skip


def next_step(pod: views.Pod | None, workload: Workload | None) -> Next:
    """The next step of a pod, which may be gone."""
    if pod is None:
        return lifecycle.without_owner(pod_owner.KIND, workload)
    return lifecycle.next_step(pod_owner.PodOwner(pod), workload)


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_next_step(case: str) -> None:
    pod, workload, expected = CASES[case]

    assert next_step(pod, workload).step is expected


STOPS = {
    "evicted": (RUNNING, EVICTED, "WorkloadEvictedDueToPreempted", "m"),
    "not admitted": (RUNNING, PENDING, "NotAdmitted", "Not admitted by cluster queue"),
    "never admitted": (
        RUNNING, None, "NoMatchingWorkload", "Missing Workload; unable to restore pod templates",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STOPS, ids=list(STOPS))
def test_a_stop_carries_the_reason_that_kueue_gives(case: str) -> None:
    pod, workload, reason, message = STOPS[case]
    step = next_step(pod, workload)

    assert (step.step, step.reason, step.message) == (Step.STOP, reason, message)


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
def test_finish_carries_the_pods_outcome(phase: str, reason: str) -> None:
    step = next_step(pod_view(gated=False, phase=phase), ADMITTED)

    assert (step.step, step.reason) == (Step.FINISH, reason)


def test_a_workload_made_by_hand_is_never_deleted_for_want_of_a_pod() -> None:
    document = msgspec.to_builtins(PENDING)
    del document["metadata"]["ownerReferences"]
    by_hand = msgspec.convert(document, type(PENDING))

    assert next_step(None, by_hand) is lifecycle.NOTHING


SETS = Kind(
    api_version="jobset.x-k8s.io/v1alpha2",
    name="JobSet",
    plural="jobsets",
    label=names.QUEUE_LABEL,
    is_deleted_to_stop=False,
    has_condition=False,
)


@dataclass(frozen=True, slots=True)
class Set(Owner, Restores):
    """An owner of a third kind: it is suspended and restored, and can do nothing else."""

    view: views.Object
    held: bool = True
    active: bool = False
    injected: bool = False
    admitted: bool = False
    ready: bool = False
    began: bool = False
    ended: Text | None = None

    @property
    @override
    def kind(self) -> Kind:
        return SETS

    @property
    @override
    def pod_sets(self) -> tuple[str, ...]:
        return ("workers",)

    @override
    def is_held(self) -> bool:
        return self.held

    @override
    def is_active(self) -> bool:
        return self.active

    @override
    def is_ready(self) -> bool:
        return self.ready

    @override
    def finished(self) -> Text | None:
        return self.ended

    @override
    def was_admitted(self) -> bool:
        return self.admitted

    @override
    def missing_workload(self) -> Text:
        return Text("NoMatchingWorkload", "")

    @override
    def start(self, of: Workload, given: Mapping[str, Injection]) -> patches.Patch:
        raise NotImplementedError

    @override
    def stands_for(self, of: Workload) -> bool:
        return True

    @override
    def restores(self) -> Restores:
        return self

    @override
    def is_injected(self) -> bool:
        return self.injected

    @override
    def lacks_injection(self) -> bool:
        return not self.injected and not self.ready

    @override
    def suspend(self) -> patches.Patch:
        raise NotImplementedError

    @override
    def reset(self) -> patches.Patch | None:
        return patches.merge({"status": {"startTime": None}}) if self.began else None

    @override
    def restore(self, of: Workload | None) -> patches.Patch:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sized(Set, Resizes, Reclaims):
    """An owner whose pods may change while it is held, and of which some never run again."""

    other: bool = False
    other_wait: bool = False
    other_count: bool = False
    ended_pods: int = 0
    may_restart: bool = False
    elastic: bool = False

    @override
    def resizes(self) -> Resizes:
        return self

    @override
    def reclaims(self) -> Reclaims:
        return self

    @override
    def has_other_pods(self, of: Workload) -> bool:
        return self.other

    @override
    def has_other_count(self, of: Workload) -> bool:
        return self.other_count

    @override
    def asks_otherwise(self, of: Workload) -> bool:
        return self.other

    @override
    def waits_otherwise(self, of: Workload) -> bool:
        return self.other_wait

    @override
    def reclaimable(self, of: Workload) -> Mapping[str, int]:
        return {} if self.may_restart else {"workers": self.ended_pods}

    @override
    def pods_ended(self, of: Workload) -> Mapping[str, int]:
        return {"workers": self.ended_pods}

    @override
    def grows(self) -> Grows | None:
        return cast(Grows, self) if self.elastic else None


@dataclass(frozen=True, slots=True)
class Prepared(Sized, Prepares):
    """An owner that starts with two writes."""

    unknown: bool = False

    @override
    def prepares(self) -> Prepares:
        return self

    @override
    def is_restored_first(self) -> bool:
        return self.unknown

    @override
    def preparation(self, of: Workload, given: Mapping[str, Injection]) -> patches.Patch | None:
        raise NotImplementedError


def reclaimed(workload: Workload, count: int) -> Workload:
    """Return a Workload that says how many of its pods never run again."""
    document = msgspec.to_builtins(workload)
    document["status"]["reclaimablePods"] = [{"name": "workers", "count": count}]
    return msgspec.convert(document, Workload)


OBJECT = views.Object(metadata=views.ObjectMeta(namespace="ml", name="set", uid="u1"))
HELD = Set(OBJECT)
HELD_FINALIZER = msgspec.structs.replace(
    PENDING,
    metadata=msgspec.structs.replace(PENDING.metadata, finalizers=(names.RESOURCE_IN_USE,)),
)
LEAVING = msgspec.structs.replace(
    HELD_FINALIZER,
    metadata=msgspec.structs.replace(HELD_FINALIZER.metadata, deletion_timestamp="now"),
)
FOR_RUNNING = msgspec.structs.replace(
    PENDING,
    metadata=msgspec.structs.replace(
        PENDING.metadata, annotations={names.MADE_FOR_RUNNING: "true"}
    ),
)
ENDED, SPOILT = (
    workload_of_pod(GATED, make_condition("Finished", "True", reason))
    for reason in ("Succeeded", conditions.FAILED_TO_START)
)
OF_THIRD_KIND = {
    "it gets a Workload": (HELD, None, Step.CREATE_WORKLOAD),
    "it is restored before it gets one": (Set(OBJECT, injected=True), None, Step.RESTORE),
    "it waits for quota": (HELD, PENDING, Step.WAIT),
    "it is started once it is admitted": (HELD, ADMITTED, Step.START),
    "it keeps what it was given before it is started, if it starts with two writes": (
        Prepared(OBJECT, injected=True), ADMITTED, Step.START,
    ),
    "it is restored if it is unknown what its pods ask for": (
        Prepared(OBJECT, injected=True, unknown=True), ADMITTED, Step.RESTORE,
    ),
    "it asks for something else before its start": (
        Prepared(OBJECT, injected=True, other=True), ADMITTED, Step.DELETE_WORKLOAD,
    ),
    "it is restored if it is not admitted any more": (
        Prepared(OBJECT, injected=True), CLEARED, Step.RESTORE,
    ),
    "it runs on": (Set(OBJECT, held=False, injected=True), ADMITTED, Step.NOTHING),
    "it is stopped if somebody else started it as it was admitted": (
        Set(OBJECT, held=False), ADMITTED, Step.STOP,
    ),
    "it runs on if its pods run though somebody else started it": (
        Set(OBJECT, held=False, ready=True), ADMITTED, Step.NOTHING,
    ),
    "it is suspended when it is evicted": (Set(OBJECT, held=False), EVICTED, Step.STOP),
    "its quota stays while its pods run": (Set(OBJECT, active=True), EVICTED, Step.NOTHING),
    "its quota is given back before it is restored": (
        Set(OBJECT, injected=True), EVICTED, Step.CLEAR_RESERVATION,
    ),
    "it is restored when its quota is free": (
        Set(OBJECT, injected=True), CLEARED, Step.RESTORE,
    ),
    "its Workload ends with it": (
        Set(OBJECT, held=False, ended=Text("Succeeded", "")), ADMITTED, Step.FINISH,
    ),
    "it is suspended if it runs again after its Workload has ended with it": (
        Set(OBJECT, held=False), ENDED, Step.STOP,
    ),
    "it asks anew once it is suspended": (HELD, ENDED, Step.DELETE_WORKLOAD),
    "it asks anew once its pods have ended": (Set(OBJECT, active=True), ENDED, Step.NOTHING),
    "it is left alone while it has ended": (
        Set(OBJECT, held=False, ended=Text("Succeeded", "")), ENDED, Step.NOTHING,
    ),
    "it is left alone if its Workload has ended otherwise": (HELD, SPOILT, Step.NOTHING),
    "it runs on while its Workload goes": (
        Set(OBJECT, held=False), LEAVING, Step.REMOVE_FINALIZER,
    ),
    "its Workload goes": (HELD, LEAVING, Step.REMOVE_FINALIZER),
    "it gets another Workload when that is gone": (
        Set(OBJECT, held=False, admitted=True), None, Step.CREATE_WORKLOAD,
    ),
    "that Workload is charged for it": (
        Set(OBJECT, held=False, admitted=True), FOR_RUNNING, Step.CHARGE,
    ),
    "it is stopped if it was never admitted": (Set(OBJECT, held=False), FOR_RUNNING, Step.STOP),
    "it is stopped if the other Workload was evicted": (
        Set(OBJECT, held=False, admitted=True), EVICTED, Step.STOP,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_THIRD_KIND)
def test_an_owner_of_any_kind_is_held_started_stopped_and_restored(case: str) -> None:
    owner, workload, expected = OF_THIRD_KIND[case]

    assert lifecycle.next_step(owner, workload).step is expected


OF_CLASS = msgspec.structs.replace(
    OBJECT,
    metadata=msgspec.structs.replace(OBJECT.metadata, labels={names.PRIORITY_CLASS_LABEL: "high"}),
)
RUNS = Sized(OBJECT, held=False, injected=True)
OF_SIZED = {
    "what it asks for now is asked for in its Workload while that waits": (
        Sized(OBJECT, other=True), PENDING, Step.FOLLOW,
    ),
    "a Workload with quota for other pods is deleted": (
        Sized(OBJECT, other=True), RESERVED, Step.DELETE_WORKLOAD,
    ),
    "a Workload that is admitted for other pods is deleted": (
        Sized(OBJECT, other=True), ADMITTED, Step.DELETE_WORKLOAD,
    ),
    "what it waits with now is written while its Workload waits": (
        Sized(OBJECT, other_wait=True), PENDING, Step.FOLLOW,
    ),
    "what it waits with no longer matters once it is admitted": (
        Sized(OBJECT, other_wait=True), ADMITTED, Step.START,
    ),
    "it waits with the Workload that asks for the same": (Sized(OBJECT), PENDING, Step.WAIT),
    "its start is forgotten before it is started again": (
        Set(OBJECT, began=True), ADMITTED, Step.RESET,
    ),
    "its start is forgotten before it is restored": (
        Set(OBJECT, began=True, injected=True), CLEARED, Step.RESET,
    ),
    "its start is forgotten before it gets a Workload": (
        Set(OBJECT, began=True, injected=True), None, Step.RESET,
    ),
    "its start does not matter while it waits": (Set(OBJECT, began=True), PENDING, Step.WAIT),
    "it is stopped if it runs with another number of pods": (
        Sized(OBJECT, held=False, injected=True, other_count=True), ADMITTED, Step.STOP,
    ),
    "pods that never run again are told while it runs": (
        Sized(OBJECT, held=False, injected=True, ended_pods=2), ADMITTED, Step.RECLAIM,
    ),
    "more of them are told": (
        Sized(OBJECT, held=False, injected=True, ended_pods=2), reclaimed(ADMITTED, 1),
        Step.RECLAIM,
    ),
    "as many of them are not told again": (
        Sized(OBJECT, held=False, injected=True, ended_pods=2), reclaimed(ADMITTED, 2),
        Step.NOTHING,
    ),
    "pods whose quota was given back and that run again are charged again": (
        Sized(OBJECT, held=False, injected=True, ended_pods=1), reclaimed(ADMITTED, 2),
        Step.CHARGE_AGAIN,
    ),
    "they are not while they have ended though they may run again": (
        Sized(OBJECT, held=False, injected=True, ended_pods=2, may_restart=True),
        reclaimed(ADMITTED, 2), Step.NOTHING,
    ),
    "those of an elastic one wait until they are charged": (
        Sized(OBJECT, held=False, injected=True, elastic=True), reclaimed(ADMITTED, 2),
        Step.NOTHING,
    ),
    "fewer of them are told while it waits": (
        Sized(OBJECT), reclaimed(PENDING, 2), Step.RECLAIM,
    ),
    "more of them are told while it waits": (
        Sized(OBJECT, ended_pods=2), PENDING, Step.RECLAIM,
    ),
    "it runs on": (RUNS, ADMITTED, Step.NOTHING),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_SIZED)
def test_an_owner_that_changes_while_it_waits_is_followed_and_not_started_otherwise(
    case: str,
) -> None:
    owner, workload, expected = OF_SIZED[case]

    assert lifecycle.next_step(owner, workload).step is expected


def test_an_owner_that_runs_with_another_number_of_pods_is_told_why_it_is_stopped() -> None:
    owner = Sized(OBJECT, held=False, injected=True, other_count=True)

    step = lifecycle.next_step(owner, ADMITTED)

    assert (step.reason, step.message) == kueue.OTHER_COUNT


@pytest.mark.parametrize(
    ("owner", "rest"),
    [
        (Sized(OF_CLASS), Step.WAIT),
        (Sized(OF_CLASS, ended_pods=2), Step.RECLAIM),
    ],
    ids=["nothing else", "pods that never run again"],
)
def test_an_owner_whose_class_alone_is_another_goes_on_where_that_does_not_exist(
    owner: Sized, rest: Step
) -> None:
    step = lifecycle.next_step(owner, PENDING)
    assert step.step is Step.FOLLOW_CLASS
    assert step.rest is not None
    assert step.rest.step is rest


def test_an_owner_that_asks_otherwise_is_followed_whatever_its_class() -> None:
    assert lifecycle.next_step(Sized(OF_CLASS, other=True), PENDING) == lifecycle.FOLLOW
