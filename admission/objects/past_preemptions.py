"""Who preempted a Workload how often, as it is written on the Workload.

The status of a Workload has it from its first preemption on, among the evictions that are counted
there. One that came in the place of another one has an annotation with the past of that; the
annotation is written when the Workload is made, and counts until the status tells.

Only the controller writes either: the roles `edit` and `admin` may read Workloads, and not change
them, and the status of Workloads is in no role for people.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from admission.base import names, structs
from admission.objects.viewbase import ObjectMeta
from admission.scheduling.model import NEVER_PREEMPTED, PastPreemptions

Counted = tuple[str, str, int]
"""Reason, underlying cause and count of evictions."""


class _Inherited(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation of a Workload that came in the place of another one.

    Attributes:
        of: UID of that.
        by: who preempted it and how often, the latest last; the empty name stands for all others.
    """

    of: str
    by: tuple[tuple[str, int], ...] = ()


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = structs.decoder(_Inherited)


def read(metadata: ObjectMeta, evictions: Iterable[Counted]) -> PastPreemptions:
    """Return the past preemptions of a Workload.

    Args:
        metadata: of the Workload.
        evictions: the evictions that its status counts.
    """
    counts = [(cause, count) for reason, cause, count in evictions if reason == names.PREEMPTED_BY]
    if counts:
        return _past(counts)
    inherited = _inherited(metadata)
    return NEVER_PREEMPTED if inherited is None else _past(inherited.by)


def predecessor(metadata: ObjectMeta) -> str:
    """Return the UID of the Workload whose past another one has taken over, or nothing."""
    inherited = _inherited(metadata)
    return "" if inherited is None else inherited.of


def document(past: PastPreemptions) -> list[dict[str, Any]]:
    """Return past preemptions as members of ``status.schedulingStats.evictions``."""
    return [
        {"reason": names.PREEMPTED_BY, "underlyingCause": cause, "count": count}
        for cause, count in _pairs(past)
    ]


def annotation(preempted: str, past: PastPreemptions) -> str:
    """Return the annotation of a Workload that comes in the place of another one.

    Args:
        preempted: UID of that.
        past: past preemptions of that Workload.
    """
    return _ENCODER.encode(_Inherited(preempted, tuple(_pairs(past)))).decode()


def _pairs(past: PastPreemptions) -> list[tuple[str, int]]:
    return [*([("", past.others)] if past.others else ()), *past.counts]


def _past(pairs: Iterable[tuple[str, int]]) -> PastPreemptions:
    by_cause = dict(pairs)
    other_count = by_cause.pop("", 0)
    return PastPreemptions(tuple(by_cause.items()), other_count)


def _inherited(metadata: ObjectMeta) -> _Inherited | None:
    text = metadata.annotation(names.PREEMPTED_BY)
    if not text:
        return None
    try:
        return _DECODER.decode(text)
    except structs.UNREADABLE:
        return None
