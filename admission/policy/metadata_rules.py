"""Rules of Kueue's labels and annotations on pods.

Source: contract of the pod webhook, kueue pkg/controller/jobs/pod/pod_webhook.go and
pkg/controller/jobframework/validation.go. "Suspended" = terminal, or with the admission gate.
"""

from typing import Final

from admission.base import names
from admission.policy import fielderrors, gates, syntax, topology
from admission.policy.documents import Pod
from admission.policy.fielderrors import FieldError, FieldPath

LABELS: Final = FieldPath.of("metadata", "labels")
ANNOTATIONS: Final = FieldPath.of("metadata", "annotations")
QUEUE_PATH: Final = LABELS.key(names.QUEUE_LABEL)

_MAX_EXEC_TIME_PATH: Final = LABELS.key(names.MAX_EXEC_TIME_LABEL)
_PRIORITY_CLASS_PATH: Final = LABELS.key(names.PRIORITY_CLASS_LABEL)
_TOTAL_COUNT_PATH: Final = ANNOTATIONS.key(names.POD_GROUP_TOTAL_COUNT)
_ELASTIC_PATH: Final = ANNOTATIONS.key(names.ELASTIC_JOB)

_IMMUTABLE: Final = "field is immutable"
_TERMINAL: Final = ("Succeeded", "Failed")


def create_errors(pod: Pod) -> list[FieldError]:
    """Broken rules of a new pod."""
    return [
        *_queue_name(pod),
        *_prebuilt_syntax(pod),
        *_max_exec_time(pod),
        *_elastic_on_create(pod),
        *_common(pod),
    ]


def update_errors(old: Pod, new: Pod, *, has_default_queue: bool) -> list[FieldError]:
    """Broken rules of a changed pod.

    Args:
        old: as stored.
        new: as it would be stored.
        has_default_queue: whether the namespace has a LocalQueue named ``default``.
    """
    suspended = is_suspended(new)
    errors = [
        *(_prebuilt_syntax(new) if suspended else _unchanged_prebuilt(old, new)),
        *_unchanged_elastic(old, new),
        *_priority_class_change(old, new, suspended=suspended),
        *_group_change(old, new),
        *gates.update_errors(
            old.metadata.annotation(names.ADMISSION_GATED_BY),
            new.metadata.annotation(names.ADMISSION_GATED_BY),
        ),
        *_common(new),
    ]
    if not (suspended and is_suspended(old)):
        errors += _unchanged_label(old, new, names.MAX_EXEC_TIME_LABEL)
    if not suspended:
        errors += _unchanged_label(old, new, names.QUEUE_LABEL)
    was, queue = (pod.metadata.label(names.QUEUE_LABEL) for pod in (old, new))
    if was and not queue and has_default_queue:
        rule = "queue-name must not be empty in namespace with default queue"
        errors.append(fielderrors.invalid(QUEUE_PATH, "", rule))
    return errors


def is_suspended(pod: Pod) -> bool:
    """Whether the pod does not run: terminal, or held by the admission gate."""
    return pod.status.phase in _TERMINAL or pod.has_gate(names.ADMISSION_GATE)


def group_name(pod: Pod) -> tuple[FieldPath, str]:
    """Name of the pod group and where it stands: the annotation wins over the label."""
    return _annotation_or_label(pod, names.POD_GROUP_NAME)


def _common(pod: Pod) -> list[FieldError]:
    annotations = pod.metadata.annotations or {}
    return [
        *gates.errors(annotations.get(names.ADMISSION_GATED_BY, "")),
        *_managed(pod),
        *_group(pod),
        *topology.errors(annotations),
        *_prebuilt_equals_group(pod),
    ]


def _annotation_or_label(pod: Pod, key: str) -> tuple[FieldPath, str]:
    annotation = pod.metadata.annotation(key)
    if annotation:
        return ANNOTATIONS.key(key), annotation
    return LABELS.key(key), pod.metadata.label(key)


def _queue_name(pod: Pod) -> list[FieldError]:
    labels = pod.metadata.labels or {}
    if names.QUEUE_LABEL not in labels:
        return []
    return syntax.subdomain(QUEUE_PATH, labels[names.QUEUE_LABEL])


def _prebuilt_syntax(pod: Pod) -> list[FieldError]:
    path, name = _annotation_or_label(pod, names.PREBUILT_WORKLOAD)
    present = name or names.PREBUILT_WORKLOAD in (pod.metadata.labels or {})
    return syntax.subdomain(path, name) if present else []


def _unchanged_prebuilt(old: Pod, new: Pod) -> list[FieldError]:
    _, before = _annotation_or_label(old, names.PREBUILT_WORKLOAD)
    path, after = _annotation_or_label(new, names.PREBUILT_WORKLOAD)
    return [] if before == after else [fielderrors.invalid(path, after, _IMMUTABLE)]


def _prebuilt_equals_group(pod: Pod) -> list[FieldError]:
    path, prebuilt = _annotation_or_label(pod, names.PREBUILT_WORKLOAD)
    _, group = group_name(pod)
    if not prebuilt or not group or prebuilt == group:
        return []
    return [fielderrors.invalid(path, prebuilt, "prebuilt workload and pod group should be equal")]


def _max_exec_time(pod: Pod) -> list[FieldError]:
    labels = pod.metadata.labels or {}
    if names.MAX_EXEC_TIME_LABEL not in labels:
        return []
    text = labels[names.MAX_EXEC_TIME_LABEL]
    seconds = syntax.parse_integer(text)
    if isinstance(seconds, str):
        return [fielderrors.invalid(_MAX_EXEC_TIME_PATH, text, seconds)]
    if seconds <= 0:
        return [fielderrors.invalid(_MAX_EXEC_TIME_PATH, seconds, "should be greater than 0")]
    return []


def _elastic_on_create(pod: Pod) -> list[FieldError]:
    if not _is_elastic(pod):
        return []
    rule = 'elastic job is not supported for "/v1, Kind=Pod"'
    return [fielderrors.forbidden(_ELASTIC_PATH, rule)]


def _unchanged_elastic(old: Pod, new: Pod) -> list[FieldError]:
    if _is_elastic(old) == _is_elastic(new):
        return []
    return [
        fielderrors.invalid(_ELASTIC_PATH, new.metadata.annotation(names.ELASTIC_JOB), _IMMUTABLE)
    ]


def _is_elastic(pod: Pod) -> bool:
    return pod.metadata.annotation(names.ELASTIC_JOB) == "true"


def _managed(pod: Pod) -> list[FieldError]:
    labels = pod.metadata.labels or {}
    if labels.get(names.MANAGED_LABEL, names.MANAGED_VALUE) == names.MANAGED_VALUE:
        return []
    path = LABELS.key(names.MANAGED_LABEL)
    return [fielderrors.forbidden(path, "managed label value can only be 'true'")]


def _group(pod: Pod) -> list[FieldError]:
    path, name = group_name(pod)
    annotations = pod.metadata.annotations or {}
    has_total = names.POD_GROUP_TOTAL_COUNT in annotations
    if not name:
        return [fielderrors.required(path, _both_rule("label"))] if has_total else []
    errors = syntax.subdomain(path, name)
    if not has_total:
        in_annotation = annotations.get(names.POD_GROUP_NAME)
        rule = _both_rule("annotation" if in_annotation else "label")
        return [*errors, fielderrors.required(_TOTAL_COUNT_PATH, rule)]
    return [*errors, *_total_count(annotations[names.POD_GROUP_TOTAL_COUNT])]


def _both_rule(where: str) -> str:
    return (
        f"both the '{names.POD_GROUP_TOTAL_COUNT}' annotation and the"
        f" '{names.POD_GROUP_NAME}' {where} should be set"
    )


def _total_count(text: str) -> list[FieldError]:
    count = syntax.parse_integer(text)
    if isinstance(count, str):
        return [fielderrors.invalid(_TOTAL_COUNT_PATH, text, count)]
    if count >= 1:
        return []
    rule = (
        f"incorrect annotation value '{names.POD_GROUP_TOTAL_COUNT}={text}':"
        " group total count should be greater than zero"
    )
    return [fielderrors.invalid(_TOTAL_COUNT_PATH, text, rule)]


def _unchanged_label(old: Pod, new: Pod, key: str) -> list[FieldError]:
    value = new.metadata.label(key)
    if old.metadata.label(key) == value:
        return []
    return [fielderrors.invalid(LABELS.key(key), value, _IMMUTABLE)]


def _priority_class_change(old: Pod, new: Pod, *, suspended: bool) -> list[FieldError]:
    before = old.metadata.label(names.PRIORITY_CLASS_LABEL)
    after = new.metadata.label(names.PRIORITY_CLASS_LABEL)
    if before and not after:
        rule = "WorkloadPriorityClass cannot be removed from a workload"
    elif after and not before and not suspended:
        rule = "WorkloadPriorityClass cannot be added to a non-suspended workload"
    else:
        return []
    return [fielderrors.invalid(_PRIORITY_CLASS_PATH, after, rule)]


def _group_change(old: Pod, new: Pod) -> list[FieldError]:
    _, before = group_name(old)
    path, after = group_name(new)
    errors = []
    if before and before != after:
        errors.append(fielderrors.invalid(path, after, _IMMUTABLE))
    was, retriable = (pod.metadata.annotation(names.RETRIABLE_IN_GROUP) for pod in (old, new))
    if after and was == "false" and retriable != "false":
        rule = "unretriable pod group can't be converted to retriable"
        errors.append(fielderrors.forbidden(ANNOTATIONS.key(names.RETRIABLE_IN_GROUP), rule))
    return errors
