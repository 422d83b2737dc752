"""The next step of one owner and its Workload, from what both look like now.

Level-based: whatever was missed in between, the step depends only on the present. Source: kueue
pkg/controller/jobframework/reconciler.go. Differs: a gated pod stays when its Workload is
evicted or deleted; an owner that was admitted and runs goes on running when its Workload is gone,
and gets another one (ADR 0116); the Workload of an owner that is gone is deleted rather than left
to the garbage collector (ADR 0002); what an admission gave a pod template is taken back after the
quota is free, so a template that cannot be restored holds no quota (ADR 0040); a Workload that has
ended before the owner that names it is as good as none, for whatever reason it has ended.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from admission.base import conditions, names
from admission.base.conditions import Text
from admission.objects.workload import Workload
from admission.owners import prebuilt
from admission.owners.framework import Gathers, Kind, Owner, Reclaims, Resizes, Restores
from admission.owners.workload import differs, differs_beside_class, names_other_class
from admission.reasons import added_conditions, kueue


class Step(Enum):
    """What is to be done next; at most one thing at a time."""

    NOTHING = auto()
    WAIT = auto()
    """Nothing to do but to tell the user why the owner waits."""
    CREATE_WORKLOAD = auto()
    ADOPT_WORKLOAD = auto()
    """Take the Workload that the owner names."""
    AWAIT_WORKLOAD = auto()
    """Nothing to do but to say that the Workload is not there that the owner names."""
    FOLLOW = auto()
    """The Workload does not ask for what its owner asks for: change it."""
    FOLLOW_CLASS = auto()
    """The Workload differs from its owner only in its WorkloadPriorityClass: change that."""
    DELETE_WORKLOAD = auto()
    REMOVE_FINALIZER = auto()
    """Take ours off the Workload; versions before ADR 0002 put it on those of Jobs."""
    CHARGE = auto()
    """Give the Workload the quota that the pods of its owner hold already."""
    FINISH = auto()
    CLEAR_RESERVATION = auto()
    RECLAIM = auto()
    CHARGE_AGAIN = auto()
    """Charge the Workload for pods whose quota was given back and that may run again."""
    START = auto()
    STOP = auto()
    RESET = auto()
    """Forget when the owner started: only then its template may change."""
    RESTORE = auto()
    """Take out of the template what an admission put in."""
    AWAIT_PODS = auto()
    """Nothing to do but to say why there is no Workload for the pods of an owner."""
    REMOVE_EXCESS = auto()
    """Delete a pod that waits and is one too many."""
    RECORD_PODS = auto()
    """Have the Workload name its pods, and remember those that have ended."""
    AWAIT_REPLACEMENTS = auto()
    """Have the Workload say whether it lacks pods; while it does it is not admitted."""
    WITHDRAW = auto()
    """Give back quota that was reserved for pods that are gone before any has started."""


ENDS: Final = frozenset(
    {
        Step.CREATE_WORKLOAD,
        Step.DELETE_WORKLOAD,
        Step.REMOVE_FINALIZER,
        Step.FINISH,
    }
)
"""Steps that no decision and no upkeep may delay."""


@dataclass(frozen=True, slots=True)
class Next:
    """A step.

    Attributes:
        step: what is to be done.
        reason: to write, for FINISH and STOP.
        message: to write with it.
        rest: for FOLLOW_CLASS, the next step where the class does not exist.
    """

    step: Step
    reason: str = ""
    message: str = ""
    rest: "Next | None" = None


NOTHING: Final = Next(Step.NOTHING)
_WAIT: Final = Next(Step.WAIT)
_CLEAR: Final = Next(Step.CLEAR_RESERVATION)
FOLLOW: Final = Next(Step.FOLLOW)
_NOT_ADMITTED: Final = Next(Step.STOP, *kueue.STOPPED_NOT_ADMITTED)
_STARTED_OTHERWISE: Final = Next(Step.STOP, *added_conditions.STARTED_OTHERWISE)
_NO_MATCH: Final = Next(Step.STOP, *kueue.OTHER_COUNT)
_NONE_NAMED: Final = Next(Step.STOP, *kueue.NAMED_WORKLOAD_MISSING)
_OUT_OF_SYNC: Final = Next(Step.FINISH, *kueue.OUT_OF_SYNC)


def next_step(owner: Owner, workload: Workload | None, named: Workload | None = None) -> Next:
    """Return the next step of an owner and the Workload of one of its keys.

    Args:
        owner: the owner.
        workload: what there is of that key.
        named: what there is under the name of a Workload that the owner gives.
    """
    gathers = owner.gathers()
    if gathers is not None:
        return _of_pods(owner, gathers, workload)
    if not owner.pod_sets:
        return _without_pods(workload)
    if owner.kind.prebuilt_key(owner.view) is None:
        return _next_step(owner, workload)
    if workload is None:
        return _before_adoption(owner, named)
    if prebuilt.is_adopted(workload, owner.view):
        return _adopted(owner, workload)
    if not workload.metadata.deletion_timestamp:
        return Next(Step.DELETE_WORKLOAD)  # it was made before the owner named another
    return remove_finalizer(workload)


def _without_pods(workload: Workload | None) -> Next:
    """Return the next step of an owner that asks for no pods of its own: it is left alone."""
    if workload is None:
        return NOTHING
    is_leaving = bool(workload.metadata.deletion_timestamp)
    return remove_finalizer(workload) if is_leaving else Next(Step.DELETE_WORKLOAD)


def without_owner(kind: Kind, workload: Workload | None) -> Next:
    """Return the next step of a Workload whose owner is gone.

    Args:
        kind: of the owner.
        workload: the Workload; one that was not made for an owner of this kind is left alone.
    """
    if workload is None or not kind.owns(workload):
        return NOTHING
    if _has_finalizer(workload):
        return Next(Step.REMOVE_FINALIZER)
    if workload.metadata.deletion_timestamp:
        return NOTHING
    if kind.is_deleted_to_stop and owes_reservation(workload):
        return _CLEAR
    return Next(Step.DELETE_WORKLOAD)


def owes_reservation(workload: Workload) -> bool:
    """Return whether the Workload was evicted and still says that it holds quota."""
    status = workload.status
    return status.is_true(conditions.EVICTED) and status.is_true(conditions.QUOTA_RESERVED)


def _next_step(owner: Owner, workload: Workload | None) -> Next:
    """Return the next step of an owner whose Workload we make."""
    if workload is None:
        return _without_workload(owner)
    if workload.status.is_true(conditions.FINISHED):
        return _with_ended_workload(owner, workload)
    if owner.is_ending():
        return NOTHING  # its quota is held until its pods have ended
    end = owner.finished()
    if end is not None:
        return _of_ended_owner(owner, workload, end)
    if workload.metadata.deletion_timestamp:
        return _of_leaving_workload(owner, workload)
    return _of_live_owner(owner, workload)


def _with_ended_workload(owner: Owner, workload: Workload) -> Next:
    """Return the next step of an owner whose Workload has ended: mostly it has ended, too."""
    if workload.metadata.deletion_timestamp or owner.finished() is not None:
        return remove_finalizer(workload)
    if was_replaced(workload):
        # That which replaced it is gone, and its owner goes on with another one.
        return Next(Step.DELETE_WORKLOAD)
    if owner.restores() is None or not _ended_with_its_owner(workload) or owner.is_ending():
        return remove_finalizer(workload)
    if not owner.is_held():
        return Next(Step.STOP, *added_conditions.RUNS_AGAIN)
    return NOTHING if owner.is_active() else Next(Step.DELETE_WORKLOAD)


def _ended_with_its_owner(workload: Workload) -> bool:
    """Return whether a Workload has ended as its owner had: by itself it does not go on."""
    ended = workload.status.condition(conditions.FINISHED)
    return ended is not None and ended.reason in conditions.ENDED_WITH_OWNER


def was_replaced(workload: Workload) -> bool:
    """Return whether a Workload has ended as another slice of its owner was admitted."""
    ended = workload.status.condition(conditions.FINISHED)
    return ended is not None and ended.reason == conditions.SLICE_REPLACED


def _of_ended_owner(owner: Owner, workload: Workload, end: Text) -> Next:
    if workload.metadata.deletion_timestamp:
        return remove_finalizer(workload)
    is_stopping = owner.kind.is_deleted_to_stop and bool(owner.view.metadata.deletion_timestamp)
    if is_stopping and owes_reservation(workload):
        return _CLEAR
    return Next(Step.FINISH, end.reason, end.message)


def _without_workload(owner: Owner) -> Next:
    if owner.finished() is not None or owner.is_ending():
        return NOTHING
    if owner.was_admitted():
        return Next(Step.CREATE_WORKLOAD)
    if not owner.is_held():
        missing = owner.missing_workload()
        return Next(Step.STOP, missing.reason, missing.message)
    if owner.is_active():
        return NOTHING
    return _restoring(owner.restores()) or Next(Step.CREATE_WORKLOAD)


def _of_leaving_workload(owner: Owner, workload: Workload) -> Next:
    """Somebody deletes the Workload: its owner continues, with another one once this is gone."""
    if not owner.is_held():
        return _stop_of_evicted(workload) or remove_finalizer(workload)
    if owner.is_active():
        return NOTHING
    return _restoring(owner.restores()) or remove_finalizer(workload)


def _of_live_owner(owner: Owner, workload: Workload) -> Next:
    if not owner.is_held():
        return _of_running(owner, workload)
    if owner.is_active():
        return NOTHING
    if owes_reservation(workload):
        return _CLEAR
    return _of_held(owner, workload)


def _of_running(owner: Owner, workload: Workload) -> Next:
    if _runs_outside_quota(owner, workload):
        return _charge_outside(owner, workload)
    stop = _stop_of_evicted(workload)
    if stop is not None:
        return stop
    if not workload.status.is_true(conditions.ADMITTED):
        is_charged_next = workload.waits_to_be_charged() and owner.was_admitted()
        return Next(Step.CHARGE) if is_charged_next else _NOT_ADMITTED
    restores, resizes, reclaims = owner.restores(), owner.resizes(), owner.reclaims()
    if restores is not None and restores.lacks_injection():
        return _STARTED_OTHERWISE
    if resizes is None:
        return _with_labels(owner, workload, NOTHING)
    if resizes.has_other_count(workload):
        return _NO_MATCH
    if reclaims is None:
        return NOTHING
    if owner.grows() is None and counts_to_keep(reclaims, workload) != _reclaimed(workload):
        return Next(Step.CHARGE_AGAIN)
    return Next(Step.RECLAIM) if _has_more_reclaimable(reclaims, workload) else NOTHING


def _runs_outside_quota(owner: Owner, workload: Workload) -> bool:
    """Return whether an administrator has let an owner run that has no quota yet (ADR 0214)."""
    is_marked = bool(owner.view.metadata.annotation(names.OUTSIDE_QUOTA))
    return is_marked and not owner.is_held() and not workload.status.is_true(conditions.ADMITTED)


def _charge_outside(owner: Owner, workload: Workload) -> Next:
    """Return the next step of an owner that runs outside of quota: it is never stopped for that.

    It is charged as soon as its Workload may hold quota.
    """
    is_free = workload.status.admission is None and workload.spec.active is not False
    return Next(Step.CHARGE) if is_free and owner.was_admitted() else NOTHING


def _has_more_reclaimable(reclaims: Reclaims, workload: Workload) -> bool:
    reclaimed = _reclaimed(workload)
    counts = reclaims.reclaimable(workload).items()
    return any(count > reclaimed.get(name, 0) for name, count in counts)


def reclaims_otherwise(reclaims: Reclaims | None, workload: Workload) -> bool:
    """Return whether another number of pods never run again than a Workload says."""
    return reclaims is not None and _reclaimable(reclaims, workload) != _reclaimed(workload)


def counts_to_keep(reclaims: Reclaims, workload: Workload) -> dict[str, int]:
    """Return how many reclaimable pods of each pod set have ended; the others may run again.

    Their controller made them anew: somebody deleted the Job of a replica, or a version before
    ADR 0116 said it gave back what an owner that restarts gets again. Pods of an elastic owner
    need no such question: each that it makes waits until it is charged.
    """
    ended = reclaims.pods_ended(workload)
    kept = {name: min(count, ended.get(name, 0)) for name, count in _reclaimed(workload).items()}
    return {name: count for name, count in kept.items() if count}


def reclaims_less(reclaims: Reclaims, workload: Workload) -> bool:
    """Return whether fewer pods never run again than a Workload says that was made smaller."""
    admission = workload.status.admission
    if admission is None:
        return False
    counts = {
        assignment.name: assignment.count or 0
        for assignment in admission.pod_set_assignments or ()
    }
    is_shrunk = any(
        pod_set.count < counts.get(pod_set.name, 0) for pod_set in workload.spec.pod_sets or ()
    )
    return is_shrunk and reclaims_otherwise(reclaims, workload)


def _stop_of_evicted(workload: Workload) -> Next | None:
    """Return the step that stops a running owner whose Workload is evicted, or None."""
    evicted = workload.status.condition(conditions.EVICTED)
    if evicted is None or evicted.status != "True":
        return None
    return Next(Step.STOP, *kueue.stopped_by_eviction(evicted.reason, evicted.message))


def _of_held(owner: Owner, workload: Workload) -> Next:
    """Return the next step of an owner that has no pods that run, and whose Workload lives."""
    prepares = owner.prepares()
    is_admitted = workload.status.is_true(conditions.ADMITTED) and not workload.is_pending()
    is_prepared = prepares is not None and is_admitted and not prepares.is_restored_first()
    restoring = None if is_prepared else _restoring(owner.restores())
    if restoring is not None:
        return restoring
    resizes = owner.resizes()
    if resizes is not None:
        changed = _of_changed(owner, resizes, workload)
        if changed is not None:
            return changed
    elif owner.places_otherwise(workload):
        return FOLLOW if workload.is_pending() else Next(Step.DELETE_WORKLOAD)
    return _of_matching(owner, workload)


def _of_changed(owner: Owner, resizes: Resizes, workload: Workload) -> Next | None:
    """Return the next step if a Workload does not ask for what its owner asks for now."""
    if not workload.is_pending():
        return Next(Step.DELETE_WORKLOAD) if resizes.asks_otherwise(workload) else None
    if resizes.asks_otherwise(workload) or resizes.waits_otherwise(workload):
        return FOLLOW
    if not names_other_class(owner.view, workload):
        return None
    return Next(Step.FOLLOW_CLASS, rest=_of_matching(owner, workload))


def _of_matching(owner: Owner, workload: Workload) -> Next:
    """Return the next step of a held owner whose Workload stands for it as it is.

    Fewer of its pods may be reclaimable than before, while it holds no quota.
    """
    status = workload.status
    if status.is_true(conditions.ADMITTED) and not workload.is_pending():
        restores = owner.restores()
        is_reset_first = restores is not None and restores.reset() is not None
        return Next(Step.RESET if is_reset_first else Step.START)
    rest = NOTHING
    if workload.is_pending():
        is_otherwise = reclaims_otherwise(owner.reclaims(), workload)
        rest = Next(Step.RECLAIM) if is_otherwise else _WAIT
    return _with_labels(owner, workload, rest) if owner.resizes() is None else rest


def _with_labels(owner: Owner, workload: Workload, rest: Next) -> Next:
    """Return the step after which a Workload says what the labels of its owner say.

    Args:
        owner: the owner.
        workload: its Workload.
        rest: the step where it does.
    """
    if not differs(owner.view, workload):
        return rest
    if differs_beside_class(owner.view, workload):
        return FOLLOW
    return Next(Step.FOLLOW_CLASS, rest=rest)


def _restoring(owner: Restores | None) -> Next | None:
    """Return the step that takes out of a held owner what an admission put in, if it did."""
    if owner is None or not owner.is_injected():
        return None
    return Next(Step.RESTORE if owner.reset() is None else Step.RESET)


def remove_finalizer(workload: Workload) -> Next:
    """Return the step that takes our finalizer off a Workload, if it is on it."""
    return Next(Step.REMOVE_FINALIZER) if _has_finalizer(workload) else NOTHING


def _has_finalizer(workload: Workload) -> bool:
    return names.RESOURCE_IN_USE in (workload.metadata.finalizers or ())


def _reclaimable(owner: Reclaims, workload: Workload) -> dict[str, int]:
    return {name: count for name, count in owner.reclaimable(workload).items() if count}


def _reclaimed(workload: Workload) -> dict[str, int]:
    """Return how many pods of each pod set the Workload says are reclaimable, by its name."""
    return {
        reclaimable.name: reclaimable.count
        for reclaimable in workload.status.reclaimable_pods or ()
        if reclaimable.count
    }


# ------------------------------------------------------------------ owners that consist of pods


def _of_pods(owner: Owner, pods: Gathers, workload: Workload | None) -> Next:
    """Return the next step of an owner that consists of pods."""
    if workload is None:
        return _of_pods_alone(owner, pods)
    refused = pods.refusal(workload)
    if refused is not None:
        return Next(Step.AWAIT_PODS, refused.reason, refused.message)
    is_leaving = bool(workload.metadata.deletion_timestamp)
    if workload.status.is_true(conditions.FINISHED) and not is_leaving:
        is_over = not pods.begins_anew()
        return remove_finalizer(workload) if is_over else Next(Step.DELETE_WORKLOAD)
    if is_leaving:
        return remove_finalizer(workload)
    end = owner.finished()
    if end is not None:
        return Next(Step.FINISH, end.reason, end.message)
    if pods.excess(workload) is not None:
        return Next(Step.REMOVE_EXCESS)
    if pods.unrecorded(workload) is not None:
        return Next(Step.RECORD_PODS)
    if pods.waiting(workload) is not None:
        return Next(Step.AWAIT_REPLACEMENTS)
    return _of_gathered(owner, pods, workload)


def _of_pods_alone(owner: Owner, pods: Gathers) -> Next:
    """Return the next step of an owner that consists of pods and has no Workload."""
    if owner.finished() is not None:
        return NOTHING
    if not owner.is_held() and not owner.was_admitted():
        missing = owner.missing_workload()
        return Next(Step.STOP, missing.reason, missing.message)
    why = pods.missing()
    if why is not None:
        return Next(Step.AWAIT_PODS, why.reason, why.message)
    return Next(Step.CREATE_WORKLOAD if pods.excess(None) is None else Step.REMOVE_EXCESS)


def _of_gathered(owner: Owner, pods: Gathers, workload: Workload) -> Next:
    """Return the next step of an owner whose Workload knows which of its pods are there."""
    if _runs_outside_quota(owner, workload):
        return _charge_outside(owner, workload)
    stop = _stop_of_evicted(workload)
    status = workload.status
    if stop is not None and (not owner.is_held() or owner.is_active()):
        return stop
    if owes_reservation(workload):
        return _CLEAR
    if status.is_true(conditions.QUOTA_RESERVED) and pods.is_short(workload):
        return Next(Step.WITHDRAW)
    if not status.is_true(conditions.ADMITTED) and not owner.is_held():
        is_charged_next = workload.waits_to_be_charged() and owner.was_admitted()
        return Next(Step.CHARGE) if is_charged_next else _NOT_ADMITTED
    if status.is_true(conditions.ADMITTED) and pods.may_start(workload):
        return Next(Step.START)
    if workload.is_pending() and pods.asks_otherwise(workload):
        return Next(Step.DELETE_WORKLOAD)
    return _with_labels(owner, workload, _of_followed(owner, workload))


def _of_followed(owner: Owner, workload: Workload) -> Next:
    """Return the next step of an owner that consists of pods, whose Workload has its labels."""
    reclaims = owner.reclaims()
    if reclaims is not None and _has_more_reclaimable(reclaims, workload):
        return Next(Step.RECLAIM)
    if reclaims is not None and workload.is_pending() and not _reclaimable(reclaims, workload):
        return Next(Step.RECLAIM) if _reclaimed(workload) else _WAIT
    return _WAIT if workload.is_pending() else NOTHING


# ------------------------------------------------------------- owners that name their Workload


def _before_adoption(owner: Owner, named: Workload | None) -> Next:
    """Return the next step of an owner that has not adopted the Workload that it names."""
    if owner.finished() is not None or owner.is_ending():
        return NOTHING
    if named is not None and prebuilt.is_adopted(named, owner.view):
        return NOTHING
    if named is not None and prebuilt.may_adopt(named, owner.view):
        return Next(Step.ADOPT_WORKLOAD)
    return _without_named(owner)


def _without_named(owner: Owner) -> Next:
    step = _without_workload(owner)
    match step.step:
        case Step.CREATE_WORKLOAD:
            return Next(Step.AWAIT_WORKLOAD)
        case Step.STOP:
            return _NONE_NAMED
        case _:
            return step


def _adopted(owner: Owner, workload: Workload) -> Next:
    """Return the next step of an owner and the Workload that it has adopted.

    It is neither deleted nor made to ask for something else: one that does not stand for its
    owner ends.
    """
    step, is_over = _next_step(owner, workload), owner.finished() is not None
    is_leaving = bool(workload.metadata.deletion_timestamp)
    if workload.status.is_true(conditions.FINISHED):
        is_left = is_over or is_leaving
        return step if is_left or step.step is not Step.NOTHING else _with_ended(owner)
    if is_over or is_leaving or owner.is_ending():
        return step
    if not owner.stands_for(workload):
        return _OUT_OF_SYNC
    is_following = step.step in {Step.FOLLOW, Step.FOLLOW_CLASS}
    follows = is_following and differs(owner.view, workload)
    if follows or not (is_following or step.step is Step.DELETE_WORKLOAD):
        return step
    return _of_matching(owner, workload)


def _with_ended(owner: Owner) -> Next:
    """Return why the Workload has ended is told on it, and was on the owner."""
    step = _without_named(owner)
    return NOTHING if step.step is Step.AWAIT_WORKLOAD else step
