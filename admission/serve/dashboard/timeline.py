"""The life of a Workload as a list of moments, from its own conditions."""

from dataclasses import dataclass

from admission.base import conditions
from admission.objects.workload import Workload

_TITLES = {
    conditions.QUOTA_RESERVED: ("Quota reserved", "Waits for quota"),
    conditions.ADMITTED: ("Admitted", "Not admitted"),
    conditions.PODS_READY: ("All pods ready", "Pods not ready"),
    conditions.EVICTED: ("Told to leave", "Eviction is over"),
    conditions.PREEMPTED: ("Preempted", "Preemption is over"),
    conditions.PREEMPTION_NOTICE: ("Runs on until its notice ends", "Its notice is over"),
    conditions.REQUEUED: ("Back in the queue", "Waits before it is queued again"),
    conditions.FINISHED: ("Finished", "Not finished"),
    conditions.DEACTIVATION_TARGET: ("About to be deactivated", "Not to be deactivated"),
}
_ORDER = {name: number for number, name in enumerate(_TITLES)}


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened.

    Attributes:
        at: when; RFC 3339, empty if unknown.
        title: what.
        reason: CamelCase reason; may be empty.
        text: the same for people; may be empty.
        tone: ``good``, ``waits``, ``bad`` or empty.
    """

    at: str
    title: str
    reason: str = ""
    text: str = ""
    tone: str = ""


def of(workload: Workload) -> tuple[Moment, ...]:
    """Return what is known of a Workload's life, the earliest moment first."""
    moments = [((workload.metadata.creation_timestamp or "", -1), _created(workload))]
    for condition in workload.status.conditions or ():
        is_true = condition.status == "True"
        titles = _TITLES.get(condition.type)
        title = titles[0 if is_true else 1] if titles else f"{condition.type}: {condition.status}"
        at = condition.last_transition_time
        moment = Moment(
            at, title, condition.reason, condition.message, _tone(condition.type, is_true=is_true)
        )
        moments.append(((at, _ORDER.get(condition.type, len(_ORDER))), moment))
    for check in workload.status.admission_checks or ():
        at = check.last_transition_time
        title = f"Admission check {check.name}: {check.state}"
        moments.append(((at, len(_ORDER)), Moment(at, title, "", check.message)))
    return tuple(
        moment for _, moment in sorted(moments, key=lambda pair: (*pair[0], pair[1].title))
    )


def _created(workload: Workload) -> Moment:
    controller = workload.metadata.controller()
    text = f"for {controller.kind} {controller.name}" if controller is not None else ""
    return Moment(workload.metadata.creation_timestamp or "", "Created", "", text)


def _tone(kind: str, *, is_true: bool) -> str:
    if kind in {conditions.QUOTA_RESERVED, conditions.ADMITTED, conditions.PODS_READY}:
        return "good" if is_true else "waits"
    if kind in {conditions.EVICTED, conditions.PREEMPTED, conditions.DEACTIVATION_TARGET}:
        return "bad" if is_true else ""
    return ""
