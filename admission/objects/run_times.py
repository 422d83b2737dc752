"""How long Workloads may run, and what they may count on: annotations with durations.

A ClusterQueue sets bounds, a LocalQueue narrows them, and a Workload moves within them; the one
that gives its holder least counts (ADR 0132). A minimum run time and a notice before preemption
are given by ClusterQueues alone: what others say can only shorten them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

from admission.base import durations, fielderrors, names
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError, FieldPath
from admission.objects import rule_checks, views
from admission.objects.rule_checks import Check

SECOND_US: Final = 1_000_000
MOST_US: Final = 100 * 365 * 24 * 3600 * SECOND_US
_ANNOTATIONS: Final = FieldPath.of("metadata", "annotations")
_TOO_LONG: Final = f"must be at most {durations.to_wire(MOST_US)}"
_TOO_SHORT: Final = "must be at least 1s"
_NEGATIVE: Final = "must not be negative"


@dataclass(frozen=True, slots=True)
class RunTimes:
    """What the annotations of one object say, in microseconds; None for nothing.

    Attributes:
        minimum: while a Workload has been admitted for less, others are preempted before it.
        default: how long a Workload may run that does not say it.
        maximum: the longest that a Workload may run, whatever it says.
        notice: how long a Workload runs on once it is preempted.
    """

    minimum: int | None = None
    default: int | None = None
    maximum: int | None = None
    notice: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Limit:
    """How long a Workload may run.

    Attributes:
        microseconds: time that it may be admitted in total, over all its admissions.
        annotation: annotation that sets the time; empty for the Workload's own spec.
        kind: of the queue that has it.
        queue: its name.
    """

    microseconds: int
    annotation: str = field(default="", compare=False)
    kind: str = ""
    queue: str = field(default="", compare=False)


_NONE: Final = RunTimes()
_NAMES: Final = frozenset(
    {
        names.MINIMUM_RUN_TIME, names.DEFAULT_RUN_TIME, names.MAXIMUM_RUN_TIME,
        names.PREEMPTION_NOTICE,
    }
)  # fmt: skip


def read(metadata: views.ObjectMeta) -> RunTimes:
    """Return the run times in the annotations of a queue.

    Raises:
        InvalidValueError: one cannot be read; the rule names it.
    """
    return RunTimes(
        minimum=_read(metadata, names.MINIMUM_RUN_TIME),
        default=_read(metadata, names.DEFAULT_RUN_TIME),
        maximum=_read(metadata, names.MAXIMUM_RUN_TIME),
        notice=_read(metadata, names.PREEMPTION_NOTICE),
    )


def readable(metadata: views.ObjectMeta) -> RunTimes:
    """Return the run times in the annotations of an object, without those that cannot be read."""
    present = metadata.annotations
    if not present or _NAMES.isdisjoint(present):
        return _NONE
    return RunTimes(
        minimum=_readable(present, names.MINIMUM_RUN_TIME),
        default=_readable(present, names.DEFAULT_RUN_TIME),
        maximum=_readable(present, names.MAXIMUM_RUN_TIME),
        notice=_readable(present, names.PREEMPTION_NOTICE),
    )


def limit(
    seconds: int | None,
    cluster_queue: views.ObjectMeta | None,
    local_queue: views.ObjectMeta | None,
) -> Limit | None:
    """Return how long a Workload may run; None for ever.

    Args:
        seconds: what its spec says; None for nothing.
        cluster_queue: metadata of the ClusterQueue; None where there is none.
        local_queue: metadata of its LocalQueue, likewise.
    """
    queues = [
        (kind, metadata.name, readable(metadata))
        for kind, metadata in (("ClusterQueue", cluster_queue), ("LocalQueue", local_queue))
        if metadata is not None
    ]
    limits = [
        Limit(run_times.maximum, names.MAXIMUM_RUN_TIME, kind, name)
        for kind, name, run_times in queues
        if run_times.maximum is not None
    ]
    if seconds is not None:
        limits.append(Limit(seconds * SECOND_US))
    else:
        limits += [
            Limit(run_times.default, names.DEFAULT_RUN_TIME, kind, name)
            for kind, name, run_times in queues
            if run_times.default is not None
        ]
    return min(limits, default=None)


def notice(
    cluster_queue: views.ObjectMeta | None,
    local_queue: views.ObjectMeta | None,
    workload: views.ObjectMeta,
) -> int:
    """Return for how many microseconds a preempted Workload continues to run.

    Args:
        cluster_queue: metadata of the ClusterQueue, which gives it; None where there is none.
        local_queue: metadata of its LocalQueue, which may shorten it; None likewise.
        workload: its own metadata, likewise.
    """
    notice_given, *narrowing = (
        None if metadata is None else readable(metadata).notice
        for metadata in (cluster_queue, local_queue, workload)
    )
    return durations.narrowed(notice_given, *narrowing)


def _read(metadata: views.ObjectMeta, key: str) -> int | None:
    text = (metadata.annotations or {}).get(key)
    if text is None:
        return None
    rule = _broken(text, key)
    if rule:
        raise InvalidValueError(text, f"metadata.annotations[{key}]: {rule}")
    return durations.parse(text)


def _readable(present: Mapping[str, str], key: str) -> int | None:
    text = present.get(key)
    return None if text is None or _broken(text, key) else _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> int:
    return durations.parse(text)


@lru_cache(maxsize=1024)
def _broken(text: str, key: str) -> str:
    """Return the rule that the text of an annotation breaks; empty if none."""
    try:
        duration = durations.parse(text)
    except InvalidValueError as error:
        return error.rule
    if duration < 0:
        return _NEGATIVE
    if key in {names.DEFAULT_RUN_TIME, names.MAXIMUM_RUN_TIME} and duration < SECOND_US:
        return _TOO_SHORT
    return _TOO_LONG if duration > MOST_US else ""


# ------------------------------------------------------------------------------- validation


def _duration(key: str, path: FieldPath, value: str) -> Iterator[FieldError]:
    rule = _broken(value, key)
    if rule:
        yield fielderrors.invalid(path, value, rule)


def _of_queues(path: FieldPath, value: str) -> Iterator[FieldError]:
    del value
    rule = f"has an effect on queues only; the label {names.MAX_EXEC_TIME_LABEL} limits a workload"
    yield fielderrors.forbidden(path, rule)


OF_QUEUES: Final[Mapping[str, Check]] = {
    key: partial(_duration, key)
    for key in (
        names.MINIMUM_RUN_TIME,
        names.DEFAULT_RUN_TIME,
        names.MAXIMUM_RUN_TIME,
        names.PREEMPTION_NOTICE,
    )
}
"""Annotations of ClusterQueues and LocalQueues, each with its rule."""

OF_QUEUED: Final[Mapping[str, Check]] = {
    names.MINIMUM_RUN_TIME: OF_QUEUES[names.MINIMUM_RUN_TIME],
    names.PREEMPTION_NOTICE: OF_QUEUES[names.PREEMPTION_NOTICE],
    names.DEFAULT_RUN_TIME: _of_queues,
    names.MAXIMUM_RUN_TIME: _of_queues,
}
"""Annotations of Workloads and what they are made for, each with its rule."""


def queue_errors(old: views.Object | None, new: views.Object) -> list[FieldError]:
    """Errors of the annotations of a queue; ``old`` is None on creation."""
    field_errors = rule_checks.annotation_errors(OF_QUEUES, old, new)
    run_times, before = readable(new.metadata), readable(old.metadata) if old else RunTimes()
    is_new = (run_times.default, run_times.maximum) != (before.default, before.maximum)
    if (
        is_new
        and run_times.default
        and run_times.maximum
        and run_times.default > run_times.maximum
    ):
        path = _ANNOTATIONS.key(names.DEFAULT_RUN_TIME)
        value = (new.metadata.annotations or {})[names.DEFAULT_RUN_TIME]
        rule = f"must not be more than {names.MAXIMUM_RUN_TIME}"
        field_errors.append(fielderrors.invalid(path, value, rule))
    return field_errors


def queued_errors(old: views.ObjectMeta | None, new: views.ObjectMeta) -> list[FieldError]:
    """Errors of the annotations of a Workload, or of what it is made for.

    Args:
        old: its metadata as they are; None on creation.
        new: annotations as they would be.
    """
    before = None if old is None else views.Object(metadata=old)
    return rule_checks.annotation_errors(OF_QUEUED, before, views.Object(metadata=new))
