"""Caps of users and LocalQueues: annotations such as ``nvidia.com/gpu=8, cpu=64`` (ADR 0164)."""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Final

from admission.base import fielderrors, names, quantity, syntax
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.names import ResourceName
from admission.objects import rule_checks, views
from admission.objects.rule_checks import Check

_ANNOTATIONS: Final = FieldPath.of("metadata", "annotations")
_FORM: Final = "must be RESOURCE=QUANTITY such as nvidia.com/gpu=8, or several separated by commas"
_LONGEST: Final = 4096
_SHOWN: Final = 40


def read(metadata: views.ObjectMeta, key: str) -> dict[ResourceName, int]:
    """Return the caps of an annotation of a queue, canonical units; nothing where there is none.

    Raises:
        InvalidValueError: it breaks a rule; nobody is to hold more than what was meant.
    """
    text = metadata.annotation(key)
    for entry, rule in _broken(text):
        raise InvalidValueError(entry, f"metadata.annotations[{key}]: {rule}")
    return {ResourceName(name): value for name, value in map(_entry, _entries(text))}


def readable(metadata: views.ObjectMeta, key: str) -> dict[ResourceName, int]:
    """Return the caps of an annotation of a queue; nothing where it cannot be read."""
    try:
        return read(metadata, key)
    except InvalidValueError:
        return {}


def problem(metadata: views.ObjectMeta) -> str:
    """Return the first problem of the caps of a queue; empty if there is none."""
    try:
        for key in (names.MAX_PER_USER, names.MAX_IN_USE):
            read(metadata, key)
    except InvalidValueError as error:
        return str(error)
    return ""


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",")] if text else []


def _entry(entry: str) -> tuple[str, int]:
    """Return resource and amount.

    Raises:
        InvalidValueError: it is no such entry.
    """
    resource, _, value = entry.partition("=")
    if not resource or not value:
        raise InvalidValueError(entry, _FORM)
    for error in syntax.label_key(_ANNOTATIONS, resource):
        raise InvalidValueError(entry, error.detail)
    amount = quantity.to_canonical(resource, value)
    if amount < 0:
        raise InvalidValueError(entry, "must not be negative")
    return resource, amount


def _broken(text: str) -> Iterator[tuple[str, str]]:
    """Yield each entry that breaks a rule, and the rule."""
    if len(text) > _LONGEST:  # a review has little time, and an int few digits
        yield f"{text[:_SHOWN]}...", f"must have at most {_LONGEST} characters"
        return
    seen: set[str] = set()
    for entry in _entries(text):
        try:
            resource, _ = _entry(entry)
        except InvalidValueError as error:
            yield entry, error.rule
            continue
        if resource in seen:
            yield entry, f"{resource} must be listed only once"
        seen.add(resource)


# ------------------------------------------------------------------------------- validation


def _each(path: FieldPath, value: str) -> Iterator[FieldError]:
    if not value:
        yield fielderrors.invalid(path, value, _FORM)
    for entry, rule in _broken(value):
        yield fielderrors.invalid(path, entry, rule)


def _not_here(rule: str, path: FieldPath, value: str) -> Iterator[FieldError]:
    del value
    yield fielderrors.forbidden(path, rule)


_OF_CLUSTER_QUEUES: Final[Mapping[str, Check]] = {
    names.MAX_PER_USER: _each,
    names.MAX_IN_USE: partial(
        _not_here,
        "has an effect on LocalQueues only; nominalQuota and borrowingLimit limit a ClusterQueue",
    ),
}
OF_OTHERS: Final[Mapping[str, Check]] = {
    names.MAX_PER_USER: partial(_not_here, "has an effect on ClusterQueues and LocalQueues only"),
    names.MAX_IN_USE: partial(_not_here, "has an effect on LocalQueues only"),
}
"""Annotations of a Cohort, each with its rule."""

_OF_LOCAL_QUEUES: Final[Mapping[str, Check]] = {
    names.MAX_PER_USER: _each,
    names.MAX_IN_USE: _each,
}


def local_queue_errors(old: views.Object | None, new: views.Object) -> list[FieldError]:
    """Errors of the caps of a LocalQueue; ``old`` is None on creation."""
    return rule_checks.annotation_errors(_OF_LOCAL_QUEUES, old, new)


def cluster_queue_errors(
    old: views.Object | None, new: views.Object, covered: Collection[str]
) -> list[FieldError]:
    """Errors of the caps of a ClusterQueue.

    Args:
        old: as it is; None on creation.
        new: as it would be.
        covered: resources that it has quota of.
    """
    found_errors = rule_checks.annotation_errors(_OF_CLUSTER_QUEUES, old, new)
    text = new.metadata.annotation(names.MAX_PER_USER)
    if found_errors or (old is not None and old.metadata.annotation(names.MAX_PER_USER) == text):
        return found_errors  # a resource that the spec lists no more is held by nobody
    path = _ANNOTATIONS.key(names.MAX_PER_USER)
    return [
        fielderrors.invalid(path, entry, f"spec.resourceGroups has no quota for {resource}")
        for entry in _entries(text)
        if (resource := _entry(entry)[0]) not in covered
    ]
