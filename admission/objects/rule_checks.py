"""Rules of Kueue's kinds: what a rule is, and those that several kinds share.

A rule is one row of a table, with the words in which it is reported. A row with a message of ours
is a `Rule`; one whose words come from Kubernetes (label keys, conditions) is a `Syntax`. Tables
are run in their order. The tables stand in the modules of the kinds.

Source: k8s.io/apimachinery pkg/apis/meta/v1/validation, pkg/api/validation/objectmeta.go,
pkg/api/validate/content, pkg/api/equality and pkg/api/resource (v0.36).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from admission.base import fielderrors, quantity, syntax
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import OMITTED, ErrorType, FieldError, FieldPath, Value
from admission.objects import views

Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class RuleBreach:
    """A place that breaks a rule.

    Attributes:
        path: the field.
        value: what stands there.
        words: what the message's placeholders stand for.
    """

    path: FieldPath
    value: Value = OMITTED
    words: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule(Generic[Subject]):
    """One row.

    Attributes:
        id: kind and number of the rule in docs/reference/rules.md: ``ClusterQueue 4``. A word may
            follow where several rows make up one rule.
        type: kind of the error.
        message: detail of the error; ``{...}`` are filled by the finding.
        find: every place of the subject that breaks the rule.
    """

    id: str
    type: ErrorType
    message: str
    find: Callable[[Subject], Iterable[RuleBreach]]

    def errors(self, subject: Subject) -> list[FieldError]:
        """The errors of a subject."""
        return [
            FieldError(
                self.type, problem.path, problem.value, self.message.format(**problem.words)
            )
            for problem in self.find(subject)
        ]


@dataclass(frozen=True, slots=True)
class Syntax(Generic[Subject]):
    """One row whose words are not ours.

    Attributes:
        id: see `Rule`.
        check: the errors of a subject.
    """

    id: str
    check: Callable[[Subject], Iterable[FieldError]]

    def errors(self, subject: Subject) -> list[FieldError]:
        """The errors of a subject."""
        return list(self.check(subject))


Row = Rule[Subject] | Syntax[Subject]


def errors(table: Iterable[Row[Subject]], subject: Subject) -> list[FieldError]:
    """The errors of all rows, in the order of the table."""
    return [error for row in table for error in row.errors(subject)]


def text(field_errors: Iterable[FieldError]) -> str:
    """One text for all errors in their order: that of a single one, else ``[first, second]``.

    Equal texts are told once. Source: k8s.io/apimachinery pkg/util/errors (aggregate).
    """
    texts = list(dict.fromkeys(error.text() for error in field_errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


# ----------------------------------------------- labels, annotations, selectors, conditions

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


def labels(path: FieldPath, mapping: Mapping[str, str] | None) -> Iterator[FieldError]:
    """Errors of keys and values; they stand at the path of the map, not of the key."""
    for key, value in (mapping or {}).items():
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


def annotations(path: FieldPath, mapping: Mapping[str, str] | None) -> Iterator[FieldError]:
    """Errors of keys, whose case does not matter, and of the size of all together."""
    size = 0
    for key, value in (mapping or {}).items():
        size += len(key.encode()) + len(value.encode())
        if _is_label(key.lower()):
            continue
        for error in syntax.label_key(path, key.lower()):
            yield fielderrors.invalid(path, key, error.detail)
    if size > ANNOTATIONS_MAX:
        yield fielderrors.too_long(path, ANNOTATIONS_MAX)


def selector(path: FieldPath, label_selector: views.LabelSelector | None) -> Iterator[FieldError]:
    """Errors of a label selector; none has none."""
    if label_selector is None:
        return
    yield from labels(path.child("matchLabels"), label_selector.match_labels)
    for index, requirement in enumerate(label_selector.match_expressions or ()):
        yield from _requirement(path.child("matchExpressions").index(index), requirement)


def _requirement(
    path: FieldPath, requirement: views.LabelSelectorRequirement
) -> Iterator[FieldError]:
    values = requirement.values or ()
    match requirement.operator:
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
    yield from syntax.label_key(path.child("key"), requirement.key)
    for index, value in enumerate(values):
        yield from label_value(path.child("values").index(index), value)


def toleration_keys(
    path: FieldPath, tolerations: Iterable[views.Toleration] | None
) -> Iterator[FieldError]:
    """Errors of the keys of tolerations; an empty key tolerates all."""
    for index, toleration in enumerate(tolerations or ()):
        if toleration.key:
            yield from syntax.label_key(path.index(index).child("key"), toleration.key)


def conditions(path: FieldPath, conditions_: Iterable[views.Condition]) -> Iterator[FieldError]:
    """Errors of conditions; a type may stand once."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions_):
        if condition.type in seen:
            yield fielderrors.duplicate(path.index(index).child("type"), condition.type)
        seen.add(condition.type)
        if not _is_condition(condition):
            yield from _condition(path.index(index), condition)


def _is_condition(condition: views.Condition) -> bool:
    """Return whether `_condition` would find nothing; makes no paths."""
    return (
        condition.status in _STATUSES
        and condition.observed_generation >= 0
        and bool(condition.last_transition_time)
        and len(condition.message) * _UTF8_MAX <= MESSAGE_MAX
        and len(condition.reason) <= REASON_MAX
        and _REASON_RE.fullmatch(condition.reason) is not None
        and _is_label(condition.type)
    )


def _condition(path: FieldPath, condition: views.Condition) -> Iterator[FieldError]:
    yield from syntax.label_key(path.child("type"), condition.type)
    if condition.status not in _STATUSES:
        yield fielderrors.not_supported(path.child("status"), condition.status, _STATUSES)
    if condition.observed_generation < 0:
        rule = "must be greater than or equal to zero"
        yield fielderrors.invalid(
            path.child("observedGeneration"), condition.observed_generation, rule
        )
    if not condition.last_transition_time:
        yield fielderrors.required(path.child("lastTransitionTime"))
    if not condition.reason:
        yield fielderrors.required(path.child("reason"))
    elif not _REASON_RE.fullmatch(condition.reason):
        yield fielderrors.invalid(path.child("reason"), condition.reason, _REASON_RULE)
    if len(condition.reason.encode()) > REASON_MAX:
        yield fielderrors.too_long(path.child("reason"), REASON_MAX)
    if len(condition.message.encode()) > MESSAGE_MAX:
        yield fielderrors.too_long(path.child("message"), MESSAGE_MAX)


# ------------------------------------------------------------ annotations of this project
# A typing error must not pass unseen. What stood there before is left alone, so that an object
# from before these rules can be edited.

_METADATA: Final = FieldPath.of("metadata")
_NO_LABEL: Final = "is read as an annotation, not as a label"

Check = Callable[[FieldPath, str], Iterator[FieldError]]
"""The rule of one annotation: its path and value."""


def word(*choices: str) -> Check:
    """Return the rule of an annotation that is one of some words."""

    def check(path: FieldPath, value: str) -> Iterator[FieldError]:
        if value not in choices:
            yield fielderrors.not_supported(path, value, choices)

    return check


def annotation_errors(
    checks: Mapping[str, Check], old: views.Object | None, new: views.Object
) -> list[FieldError]:
    """Errors of an object's annotations, in the order of the rules.

    Args:
        checks: the rules of its kind.
        old: the object as it is; None on creation.
        new: as it would be.
    """
    before = (old.metadata.annotations if old else None) or {}
    labelled = (old.metadata.labels if old else None) or {}
    annotations, labels = new.metadata.annotations or {}, new.metadata.labels or {}
    field_errors: list[FieldError] = []
    for key, check in checks.items():
        if key in annotations and annotations[key] != before.get(key):
            field_errors += check(_METADATA.child("annotations").key(key), annotations[key])
        if key in labels and key not in labelled:
            field_errors.append(
                fielderrors.forbidden(_METADATA.child("labels").key(key), _NO_LABEL)
            )
    return field_errors


# ------------------------------------------------------------------------------ quantities
# As they are compared and shown in messages: the shortest form in the notation in which the
# quantity was written (Quantity.String).

Quantity = str | int

_NANO: Final = 10**9
_DECIMAL: Final = (
    (18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"),
    (0, ""), (-3, "m"), (-6, "u"), (-9, "n"),
)  # fmt: skip
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI: Final = 1024
_EXPONENT: Final = re.compile(r".*[0-9.][eE][+-]?[0-9]+")


def nano(value: Quantity | None) -> int:
    """The value in units of 1e-9; 0 for none, and for a text that the schema should have refused.

    Texts of quantities are few and repeat, and their parsing is remembered.
    """
    if value is None:
        return 0
    try:
        return quantity.parse_nano(str(value))
    except InvalidValueError:
        return 0


def is_negative(value: Quantity | None) -> bool:
    """Return whether the value is below zero."""
    return nano(value) < 0


@lru_cache(maxsize=1024)
def quantity_text(value: Quantity) -> str:
    """Canonical text: ``0.5`` is ``500m``, ``4096Gi`` is ``4Ti``; no quantity stays as it is."""
    written = str(value)
    try:
        amount = quantity.parse_nano(written)
    except InvalidValueError:
        return written
    if amount == 0:
        return "0"
    if written.endswith("i") and amount % _NANO == 0 and abs(amount) >= _KIBI * _NANO:
        return _binary(amount // _NANO)
    return _decimal(amount, exponents=_EXPONENT.fullmatch(written) is not None)


def _binary(whole: int) -> str:
    power = 0
    while whole % _KIBI == 0 and power < len(_BINARY) - 1:
        whole //= _KIBI
        power += 1
    return f"{whole}{_BINARY[power]}"


def _decimal(amount: int, *, exponents: bool) -> str:
    power, suffix = next((p, s) for p, s in _DECIMAL if amount % 10 ** (p + 9) == 0)
    mantissa = amount // 10 ** (power + 9)
    return f"{mantissa}e{power}" if exponents and power else f"{mantissa}{suffix}"


# -------------------------------------------------------------------------------- equality
# Whether two parts of an object mean the same, as the API server's clients see it (Semantic):
# nothing, null, an empty collection and an object with nothing in it are equal, and so are two
# writings of one quantity.

_QUANTITIES: Final = frozenset({"requests", "limits", "overhead", "resourceUsage", "capacity"})
"""Members whose values are quantities by resource name."""


def same(left: Any, right: Any) -> bool:
    """Return whether the two documents are equal."""
    return left == right or _same(left, right)


def _same(left: Any, right: Any) -> bool:
    if _is_empty(left) and _is_empty(right):
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_same_member(key, left.get(key), right.get(key)) for key in left | right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            same(item, other) for item, other in zip(left, right, strict=True)
        )
    return bool(left == right)


def _same_member(key: str, left: Any, right: Any) -> bool:
    if same(left, right):
        return True
    if key not in _QUANTITIES or not isinstance(left, dict) or not isinstance(right, dict):
        return False
    return left.keys() == right.keys() and all(_same_amount(left[k], right[k]) for k in left)


def _same_amount(left: Any, right: Any) -> bool:
    return nano(left) == nano(right)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return value is None or value == []
