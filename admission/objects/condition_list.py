"""The conditions of a stored object: what changes when one is set.

Source: k8s.io/apimachinery pkg/api/meta/conditions.go (SetStatusCondition); message limit of
metav1.Condition.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from admission.base import clock, conditions
from admission.base.conditions import Text
from admission.objects import views
from admission.objects.workload import Workload
from admission.reasons import kueue

MAX_MESSAGE_BYTES: Final = 32768
_CUT: Final = " ..."


def cut(message: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """The message within a byte limit; a longer one ends with `` ...``."""
    encoded = message.encode()
    if len(encoded) <= limit:
        return message
    return encoded[: limit - len(_CUT)].decode(errors="ignore") + _CUT


def make(
    kind: str, text: Text, *, status: bool, now: datetime, generation: int = 0
) -> views.Condition:
    """A condition as of now."""
    return views.Condition(
        type=kind,
        status="True" if status else "False",
        reason=text.reason,
        message=cut(text.message),
        last_transition_time=clock.to_wire(now),
        observed_generation=generation,
    )


def merge(
    existing: Iterable[views.Condition] | None, *changes: views.Condition
) -> tuple[views.Condition, ...]:
    """Existing conditions with the changes set, in their order, new types last.

    ``last_transition_time`` moves only where the status does.
    """
    result = {condition.type: condition for condition in existing or ()}
    for change in changes:
        old = result.get(change.type)
        keeps_time = old is not None and old.status == change.status and old.last_transition_time
        result[change.type] = (
            _at(change, old.last_transition_time) if old is not None and keeps_time else change
        )
    return tuple(result.values())


def same_but_for_time(left: views.Condition | None, right: views.Condition) -> bool:
    """Return whether setting ``right`` over ``left`` would change nothing."""
    return left is not None and _at(left, "") == _at(right, "")


def to_wire(conditions: Iterable[views.Condition]) -> list[dict[str, Any]]:
    """Conditions as they are written."""
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": condition.last_transition_time,
            "observedGeneration": condition.observed_generation,
        }
        for condition in conditions
    ]


def merged(
    workload: Workload, *changes: views.Condition, without: str = ""
) -> list[dict[str, Any]]:
    """All conditions of a Workload with the changes set, as they are written.

    Args:
        workload: the Workload that has the conditions.
        changes: set over them.
        without: type of a condition that is taken out.
    """
    kept = [
        condition for condition in workload.status.conditions or () if condition.type != without
    ]
    return to_wire(merge(kept, *changes))


def said(workload: Workload, kind: str, text: Text, now: datetime) -> dict[str, Any] | None:
    """Return the status with which a Workload says something by a condition; None if it does."""
    condition = make(kind, text, status=True, now=now, generation=workload.metadata.generation)
    present = workload.status.condition(kind)
    texts = condition.status, condition.reason, condition.message
    if present is not None and (present.status, present.reason, present.message) == texts:
        return None
    return {"conditions": merged(workload, condition)}


def unsaid(workload: Workload, kind: str) -> dict[str, Any] | None:
    """Return the status with which a Workload says it no more; None if it does not."""
    if workload.status.condition(kind) is None:
        return None
    return {"conditions": merged(workload, without=kind)}


def not_reserved(text: Text, now: datetime, generation: int) -> views.Condition:
    """QuotaReserved=False."""
    return make(conditions.QUOTA_RESERVED, text, status=False, now=now, generation=generation)


def not_admitted(now: datetime, generation: int) -> views.Condition:
    """Admitted=False of a Workload without quota."""
    text = kueue.NO_RESERVATION
    return make(conditions.ADMITTED, text, status=False, now=now, generation=generation)


def _at(condition: views.Condition, moment: str) -> views.Condition:
    return views.Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition_time=moment,
        observed_generation=condition.observed_generation,
    )
