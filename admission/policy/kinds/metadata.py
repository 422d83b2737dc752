"""Kubernetes' own rules of labels, annotations, selectors, tolerations and conditions.

Source: k8s.io/apimachinery pkg/apis/meta/v1/validation, pkg/api/validation/objectmeta.go and
pkg/api/validate/content (v0.36).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from admission.base import fielderrors, syntax
from admission.base.fielderrors import FieldError, FieldPath
from admission.objects import views
from admission.policy.kinds.documents import Condition

LABEL_VALUE_MAX: Final = 63
ANNOTATIONS_MAX: Final = 256 * 1024
REASON_MAX: Final = 1024
MESSAGE_MAX: Final = 32 * 1024

_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE_RE: Final = re.compile(f"({_NAME})?")
_LABEL_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    f" '12345', regex used for validation is '({_NAME})?')"
)
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RE: Final = re.compile(_REASON)
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of"
    " alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g."
    " 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex"
    f" used for validation is '{_REASON}')"
)
_KEY_MAX: Final = 253 + 1 + 63  # a longer text is no label key
_UTF8_MAX: Final = 4  # bytes of one character
_ROOT: Final = FieldPath()
_STATUSES: Final = ("False", "True", "Unknown")


def labels(path: FieldPath, found: Mapping[str, str] | None) -> Iterator[FieldError]:
    """Errors of keys and values; they stand at the path of the map, not of the key."""
    for key, value in (found or {}).items():
        if not _is_label(key, value):
            yield from syntax.label_key(path, key)
            yield from label_value(path, value)


def _is_label(key: str, value: str = "") -> bool:
    """Return whether both are valid.

    Labels repeat from object to object, and their check is costly.
    """
    is_short = len(key) <= _KEY_MAX and len(value) <= LABEL_VALUE_MAX
    return is_short and _is_known_label(key, value)


@lru_cache(maxsize=4096)
def _is_known_label(key: str, value: str) -> bool:
    return not syntax.label_key(_ROOT, key) and not label_value_errors(value)


def label_value(path: FieldPath, value: str) -> Iterator[FieldError]:
    """Errors of a label value; the empty one is valid."""
    for error in label_value_errors(value):
        yield fielderrors.invalid(path, value, error)


def label_value_errors(value: str) -> list[str]:
    """Broken rules of a label value."""
    errors = []
    if len(value.encode()) > LABEL_VALUE_MAX:
        errors.append(f"must be no more than {LABEL_VALUE_MAX} bytes")
    if not _LABEL_VALUE_RE.fullmatch(value):
        errors.append(_LABEL_VALUE_RULE)
    return errors


def annotations(path: FieldPath, found: Mapping[str, str] | None) -> Iterator[FieldError]:
    """Errors of keys, whose case does not matter, and of the size of all together."""
    size = 0
    for key, value in (found or {}).items():
        size += len(key.encode()) + len(value.encode())
        if _is_label(key.lower()):
            continue
        for error in syntax.label_key(path, key.lower()):
            yield fielderrors.invalid(path, key, error.detail)
    if size > ANNOTATIONS_MAX:
        yield fielderrors.too_long(path, ANNOTATIONS_MAX)


def selector(path: FieldPath, found: views.LabelSelector | None) -> Iterator[FieldError]:
    """Errors of a label selector; none has none."""
    if found is None:
        return
    yield from labels(path.child("matchLabels"), found.match_labels)
    for index, requirement in enumerate(found.match_expressions or ()):
        yield from _requirement(path.child("matchExpressions").index(index), requirement)


def _requirement(path: FieldPath, found: views.LabelSelectorRequirement) -> Iterator[FieldError]:
    values = found.values or ()
    match found.operator:
        case "In" | "NotIn" if not values:
            rule = "must be specified when `operator` is 'In' or 'NotIn'"
            yield fielderrors.required(path.child("values"), rule)
        case "Exists" | "DoesNotExist" if values:
            rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield fielderrors.forbidden(path.child("values"), rule)
        case "In" | "NotIn" | "Exists" | "DoesNotExist":
            pass
        case operator:
            rule = "not a valid selector operator"
            yield fielderrors.invalid(path.child("operator"), operator, rule)
    yield from syntax.label_key(path.child("key"), found.key)
    for index, value in enumerate(values):
        yield from label_value(path.child("values").index(index), value)


def toleration_keys(
    path: FieldPath, found: Iterable[views.Toleration] | None
) -> Iterator[FieldError]:
    """Errors of the keys of tolerations; an empty key tolerates all."""
    for index, one in enumerate(found or ()):
        if one.key:
            yield from syntax.label_key(path.index(index).child("key"), one.key)


def conditions(path: FieldPath, found: Iterable[Condition]) -> Iterator[FieldError]:
    """Errors of conditions; a type may stand once."""
    seen: set[str] = set()
    for index, condition in enumerate(found):
        if condition.type in seen:
            yield fielderrors.duplicate(path.index(index).child("type"), condition.type)
        seen.add(condition.type)
        if not _is_condition(condition):
            yield from _condition(path.index(index), condition)


def _is_condition(found: Condition) -> bool:
    """Return whether `_condition` would find nothing; makes no paths."""
    return (
        found.status in _STATUSES
        and found.observed_generation >= 0
        and bool(found.last_transition_time)
        and len(found.message) * _UTF8_MAX <= MESSAGE_MAX
        and len(found.reason) <= REASON_MAX
        and _REASON_RE.fullmatch(found.reason) is not None
        and _is_label(found.type)
    )


def _condition(path: FieldPath, found: Condition) -> Iterator[FieldError]:
    yield from syntax.label_key(path.child("type"), found.type)
    if found.status not in _STATUSES:
        yield fielderrors.not_supported(path.child("status"), found.status, _STATUSES)
    if found.observed_generation < 0:
        rule = "must be greater than or equal to zero"
        yield fielderrors.invalid(
            path.child("observedGeneration"), found.observed_generation, rule
        )
    if not found.last_transition_time:
        yield fielderrors.required(path.child("lastTransitionTime"))
    if not found.reason:
        yield fielderrors.required(path.child("reason"))
    elif not _REASON_RE.fullmatch(found.reason):
        yield fielderrors.invalid(path.child("reason"), found.reason, _REASON_RULE)
    if len(found.reason.encode()) > REASON_MAX:
        yield fielderrors.too_long(path.child("reason"), REASON_MAX)
    if len(found.message.encode()) > MESSAGE_MAX:
        yield fielderrors.too_long(path.child("message"), MESSAGE_MAX)
