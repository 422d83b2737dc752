"""Rules of Kueue's labels and annotations on pods: ``Pod 1`` to ``Pod 21`` of the page of rules.

The page is docs/reference/rules.md. Source: kueue pkg/controller/jobs/pod/pod_webhook.go and
pkg/controller/jobframework/validation.go. "Suspended" = terminal, or with the admission gate.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from admission.base import fielderrors, names, syntax
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.objects import admission_gates, gangs, rule_checks, run_times, views
from admission.objects.reviewed_pod import ReviewedPod
from admission.objects.rule_checks import Row, Rule, RuleBreach, Syntax
from admission.webhook import topology

LABELS: Final = FieldPath.of("metadata", "labels")
ANNOTATIONS: Final = FieldPath.of("metadata", "annotations")
QUEUE_PATH: Final = LABELS.key(names.QUEUE_LABEL)

_MAX_EXEC_TIME_PATH: Final = LABELS.key(names.MAX_EXEC_TIME_LABEL)
_PRIORITY_CLASS_PATH: Final = LABELS.key(names.PRIORITY_CLASS_LABEL)
_MANAGED_PATH: Final = LABELS.key(names.MANAGED_LABEL)
_TOTAL_COUNT_PATH: Final = ANNOTATIONS.key(names.POD_GROUP_TOTAL_COUNT)
_ELASTIC_PATH: Final = ANNOTATIONS.key(names.ELASTIC_JOB)
_RETRIABLE_PATH: Final = ANNOTATIONS.key(names.RETRIABLE_IN_GROUP)

_IMMUTABLE: Final = "field is immutable"
_BOTH: Final = (
    f"both the '{names.POD_GROUP_TOTAL_COUNT}' annotation and the '{names.POD_GROUP_NAME}'"
    " {where} should be set"
)
_TERMINAL: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUpdate:
    """An update of a pod.

    Attributes:
        old: as stored.
        new: as it would be stored.
        has_default_queue: whether the namespace has a LocalQueue named ``default``.
    """

    old: ReviewedPod
    new: ReviewedPod
    has_default_queue: bool

    def labels(self, key: str) -> tuple[str, str]:
        """Return the label before and after; empty where it is absent."""
        return self.old.metadata.label(key), self.new.metadata.label(key)

    def annotations(self, key: str) -> tuple[str, str]:
        """Return the annotation before and after; empty where it is absent."""
        return self.old.metadata.annotation(key), self.new.metadata.annotation(key)


def is_suspended(pod: ReviewedPod) -> bool:
    """Return whether the pod does not run: terminal, or held by the admission gate."""
    return pod.status.phase in _TERMINAL or pod.has_gate(names.ADMISSION_GATE)


def group_name(pod: ReviewedPod) -> tuple[FieldPath, str]:
    """Name of the pod group and its field: the annotation wins over the label."""
    return _annotation_or_label(pod, names.POD_GROUP_NAME)


def _annotation_or_label(pod: ReviewedPod, key: str) -> tuple[FieldPath, str]:
    annotation = pod.metadata.annotation(key)
    if annotation:
        return ANNOTATIONS.key(key), annotation
    return LABELS.key(key), pod.metadata.label(key)


# ------------------------------------------------------------------------------------ a new pod


def _queue_name(pod: ReviewedPod) -> Iterable[FieldError]:
    labels = pod.metadata.labels or {}
    if names.QUEUE_LABEL not in labels:
        return []
    return syntax.subdomain(QUEUE_PATH, labels[names.QUEUE_LABEL])


def _prebuilt_name(pod: ReviewedPod) -> Iterable[FieldError]:
    path, name = _annotation_or_label(pod, names.PREBUILT_WORKLOAD)
    present = name or names.PREBUILT_WORKLOAD in (pod.metadata.labels or {})
    return syntax.subdomain(path, name) if present else []


def _seconds(pod: ReviewedPod) -> tuple[str, int | str] | None:
    """The label's text, and its number or what is wrong with it; None where it is absent."""
    text = (pod.metadata.labels or {}).get(names.MAX_EXEC_TIME_LABEL)
    return None if text is None else (text, syntax.parse_integer(text))


def _no_seconds(pod: ReviewedPod) -> Iterable[FieldError]:
    seconds = _seconds(pod)
    if seconds and isinstance(seconds[1], str):
        yield fielderrors.invalid(_MAX_EXEC_TIME_PATH, seconds[0], seconds[1])


def _no_time(pod: ReviewedPod) -> Iterable[RuleBreach]:
    seconds = _seconds(pod)
    if seconds and isinstance(seconds[1], int) and seconds[1] <= 0:
        yield RuleBreach(_MAX_EXEC_TIME_PATH, seconds[1])


def _elastic(pod: ReviewedPod) -> Iterable[RuleBreach]:
    return [RuleBreach(_ELASTIC_PATH)] if _is_elastic(pod) else []


def _is_elastic(pod: ReviewedPod) -> bool:
    return pod.metadata.annotation(names.ELASTIC_JOB) == "true"


def _run_times(pod: ReviewedPod) -> Iterable[FieldError]:
    return run_times.queued_errors(None, pod.metadata)


# ------------------------------------------------------------------------------------- any pod


def _gates(pod: ReviewedPod) -> Iterable[FieldError]:
    return admission_gates.errors(pod.metadata.annotation(names.ADMISSION_GATED_BY))


def _mismarked(pod: ReviewedPod) -> Iterable[RuleBreach]:
    value = (pod.metadata.labels or {}).get(names.MANAGED_LABEL, names.MANAGED_VALUE)
    return [] if value == names.MANAGED_VALUE else [RuleBreach(_MANAGED_PATH)]


def _total(pod: ReviewedPod) -> str | None:
    return (pod.metadata.annotations or {}).get(names.POD_GROUP_TOTAL_COUNT)


def _total_without_group(pod: ReviewedPod) -> Iterable[RuleBreach]:
    path, name = group_name(pod)
    if not name and _total(pod) is not None:
        yield RuleBreach(path, words={"where": "label"})


def _group_name(pod: ReviewedPod) -> Iterable[FieldError]:
    path, name = group_name(pod)
    return syntax.subdomain(path, name) if name else []


def _group_without_total(pod: ReviewedPod) -> Iterable[RuleBreach]:
    _, name = group_name(pod)
    if name and _total(pod) is None:
        in_annotation = pod.metadata.annotation(names.POD_GROUP_NAME)
        where = "annotation" if in_annotation else "label"
        yield RuleBreach(_TOTAL_COUNT_PATH, words={"where": where})


def _no_total(pod: ReviewedPod) -> Iterable[FieldError]:
    text = _total_of_group(pod)
    count = None if text is None else syntax.parse_integer(text)
    if text is not None and isinstance(count, str):
        yield fielderrors.invalid(_TOTAL_COUNT_PATH, text, count)


def _total_of_none(pod: ReviewedPod) -> Iterable[RuleBreach]:
    text = _total_of_group(pod)
    count = None if text is None else syntax.parse_integer(text)
    if text is not None and isinstance(count, int) and count < 1:
        yield RuleBreach(_TOTAL_COUNT_PATH, text, {"text": text})


def _total_of_group(pod: ReviewedPod) -> str | None:
    """The total count of a pod that names a group; None where either is missing."""
    return _total(pod) if group_name(pod)[1] else None


def _topology(pod: ReviewedPod) -> Iterable[FieldError]:
    return topology.errors(pod.metadata.annotations or {})


def _prebuilt_of_another(pod: ReviewedPod) -> Iterable[RuleBreach]:
    path, prebuilt = _annotation_or_label(pod, names.PREBUILT_WORKLOAD)
    _, group = group_name(pod)
    if prebuilt and group and prebuilt != group:
        yield RuleBreach(path, prebuilt)


def _pod_group_name(pod: ReviewedPod) -> Iterable[FieldError]:
    gang = pod.gang()
    if gang is None or gang.kind.has_field:
        return []  # the API server judges its own field
    by_annotation = gang.kind.named_by(views.ObjectMeta(annotations=pod.metadata.annotations))
    keys = gang.kind.annotations if by_annotation else gang.kind.labels
    where = ANNOTATIONS if by_annotation else LABELS
    members = (pod.metadata.annotations if by_annotation else pod.metadata.labels) or {}
    return syntax.subdomain(where.key(next(key for key in keys if members.get(key))), gang.name)


def _other_pod_group(pod: ReviewedPod) -> Iterable[RuleBreach]:
    mark = pod.metadata.annotation(names.POD_GROUP_OBJECT)
    named = pod.gang() or gangs.of_controller(pod.metadata)
    if mark and (named is None or mark != named.text()):
        yield RuleBreach(ANNOTATIONS.key(names.POD_GROUP_OBJECT), mark)


def _beyond_pod_group(pod: ReviewedPod) -> Iterable[RuleBreach]:
    mark = pod.metadata.annotation(names.BEYOND_POD_GROUP)
    return [RuleBreach(ANNOTATIONS.key(names.BEYOND_POD_GROUP), mark)] if mark else []


# ----------------------------------------------------------------------------------- an update


def _changed_prebuilt_name(change: PodUpdate) -> Iterable[FieldError]:
    return _prebuilt_name(change.new) if is_suspended(change.new) else []


def _other_prebuilt(change: PodUpdate) -> Iterable[RuleBreach]:
    _, before = _annotation_or_label(change.old, names.PREBUILT_WORKLOAD)
    path, after = _annotation_or_label(change.new, names.PREBUILT_WORKLOAD)
    if before != after and not is_suspended(change.new):
        yield RuleBreach(path, after)


def _other_time(change: PodUpdate) -> Iterable[RuleBreach]:
    before, after = change.labels(names.MAX_EXEC_TIME_LABEL)
    if before != after and not (is_suspended(change.new) and is_suspended(change.old)):
        yield RuleBreach(_MAX_EXEC_TIME_PATH, after)


def _other_queue(change: PodUpdate) -> Iterable[RuleBreach]:
    before, after = change.labels(names.QUEUE_LABEL)
    is_first = not before and _is_charged_first(change)
    if before != after and not is_suspended(change.new) and not is_first:
        yield RuleBreach(QUEUE_PATH, after)


def _is_charged_first(change: PodUpdate) -> bool:
    """Return whether a pod that runs gets the mark by which it is charged to a queue.

    Policies in the API server say who may write the mark: cluster administrators (ADR 0177).
    """
    old, new = change.old.metadata, change.new.metadata
    key = names.WORKLOAD_ANNOTATION
    return bool(new.annotation(key)) and not old.annotation(key)


def _no_queue(change: PodUpdate) -> Iterable[RuleBreach]:
    before, after = change.labels(names.QUEUE_LABEL)
    if before and not after and change.has_default_queue:
        yield RuleBreach(QUEUE_PATH, "")


def _first_class(change: PodUpdate) -> Iterable[RuleBreach]:
    before, after = change.labels(names.PRIORITY_CLASS_LABEL)
    if after and not before and not is_suspended(change.new):
        yield RuleBreach(_PRIORITY_CLASS_PATH, after)


def _no_class(change: PodUpdate) -> Iterable[RuleBreach]:
    before, after = change.labels(names.PRIORITY_CLASS_LABEL)
    if before and not after:
        yield RuleBreach(_PRIORITY_CLASS_PATH, after)


def _turned_elastic(change: PodUpdate) -> Iterable[RuleBreach]:
    if _is_elastic(change.old) != _is_elastic(change.new):
        yield RuleBreach(_ELASTIC_PATH, change.new.metadata.annotation(names.ELASTIC_JOB))


def _other_gates(change: PodUpdate) -> Iterable[FieldError]:
    return admission_gates.update_errors(*change.annotations(names.ADMISSION_GATED_BY))


def _made_retriable(change: PodUpdate) -> Iterable[RuleBreach]:
    before, after = change.annotations(names.RETRIABLE_IN_GROUP)
    if group_name(change.new)[1] and before == "false" != after:
        yield RuleBreach(_RETRIABLE_PATH)


def _other_group(change: PodUpdate) -> Iterable[RuleBreach]:
    _, before = group_name(change.old)
    path, after = group_name(change.new)
    if before and before != after:
        yield RuleBreach(path, after)


def _other_run_times(change: PodUpdate) -> Iterable[FieldError]:
    return run_times.queued_errors(change.old.metadata, change.new.metadata)


_INVALID: Final = ErrorType.INVALID

ALWAYS: Final[tuple[Row[ReviewedPod], ...]] = (
    Syntax("Pod 12", _gates),  # the rows of `admission_gates.GATES`
    Rule(
        "Pod 13", ErrorType.FORBIDDEN, "managed label value can only be 'true'", _mismarked
    ),
    Rule("Pod 14", ErrorType.REQUIRED, _BOTH, _total_without_group),
    Syntax("Pod 15", _group_name),
    Rule("Pod 16", ErrorType.REQUIRED, _BOTH, _group_without_total),
    Syntax("Pod 17 number", _no_total),
    Rule(
        "Pod 17", _INVALID,
        f"incorrect annotation value '{names.POD_GROUP_TOTAL_COUNT}={{text}}': group total count"
        " should be greater than zero", _total_of_none,
    ),
    Syntax("Pod 18", _topology),  # the rows of `topology`
    Rule(
        "Pod 19", _INVALID, "prebuilt workload and pod group should be equal",
        _prebuilt_of_another,
    ),
)  # fmt: skip
"""Each pod."""

CREATED: Final[tuple[Row[ReviewedPod], ...]] = (
    Syntax("Pod 1", _queue_name),
    Syntax("Pod 2", _prebuilt_name),
    Syntax("Pod 4 number", _no_seconds),
    Rule("Pod 4", _INVALID, "should be greater than 0", _no_time),
    Rule(
        "Pod 10", ErrorType.FORBIDDEN, 'elastic job is not supported for "/v1, Kind=Pod"',
        _elastic,
    ),
    Rule(
        "Pod 22", _INVALID, "is set at creation to the PodGroup that the pod names: leave it out",
        _other_pod_group,
    ),
    Syntax("Pod 23", _pod_group_name),
    Syntax("Pod 24", _run_times),
    Rule(
        "Pod 25", _INVALID,
        "is set when a pod is admitted beyond the others of its PodGroup: leave it out",
        _beyond_pod_group,
    ),
)  # fmt: skip
"""Each new pod, besides."""

CHANGED: Final[tuple[Row[PodUpdate], ...]] = (
    Syntax("Pod 2 changed", _changed_prebuilt_name),
    Rule("Pod 3", _INVALID, _IMMUTABLE, _other_prebuilt),
    Rule("Pod 5", _INVALID, _IMMUTABLE, _other_time),
    Rule("Pod 6", _INVALID, _IMMUTABLE, _other_queue),
    Rule(
        "Pod 7", _INVALID, "queue-name must not be empty in namespace with default queue",
        _no_queue,
    ),
    Rule(
        "Pod 8", _INVALID, "WorkloadPriorityClass cannot be added to a non-suspended workload",
        _first_class,
    ),
    Rule(
        "Pod 9", _INVALID, "WorkloadPriorityClass cannot be removed from a workload", _no_class
    ),
    Rule("Pod 11", _INVALID, _IMMUTABLE, _turned_elastic),
    Syntax("Pod 12 changed", _other_gates),  # the rows of `admission_gates.CHANGES`
    Rule(
        "Pod 20", ErrorType.FORBIDDEN,
        "unretriable pod group can't be converted to retriable", _made_retriable,
    ),
    Rule("Pod 21", _INVALID, _IMMUTABLE, _other_group),
    Syntax("Pod 24 changed", _other_run_times),
)  # fmt: skip
"""Each update of a pod, besides."""


def create_errors(pod: ReviewedPod) -> list[FieldError]:
    """Return the broken rules of a new pod."""
    return [*rule_checks.errors(CREATED, pod), *rule_checks.errors(ALWAYS, pod)]


def update_errors(
    old: ReviewedPod, new: ReviewedPod, *, has_default_queue: bool
) -> list[FieldError]:
    """Return the broken rules of a changed pod.

    Args:
        old: as stored.
        new: as it would be stored.
        has_default_queue: whether the namespace has a LocalQueue named ``default``.
    """
    change = PodUpdate(old=old, new=new, has_default_queue=has_default_queue)
    return [*rule_checks.errors(CHANGED, change), *rule_checks.errors(ALWAYS, new)]
