"""Rules of this project's own annotations on Kueue's kinds: a typing error must not pass unseen.

What stood there before is left alone, so that an object from before these rules can be edited.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from admission.base import fielderrors, names
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError, FieldPath
from admission.gpu import capabilities
from admission.gpu import names as profile_names
from admission.objects import resource_flavor, views

_METADATA: Final = FieldPath.of("metadata")
_ON_A_CLUSTER_QUEUE: Final = "is read on ClusterQueues only: it holds for their whole cohort tree"
_NO_LABEL: Final = "is read as an annotation, not as a label"

_Check = Callable[[FieldPath, str], Iterator[FieldError]]


def _one_of(*choices: str) -> _Check:
    def check(path: FieldPath, value: str) -> Iterator[FieldError]:
        if value not in choices:
            yield fielderrors.not_supported(path, value, choices)

    return check


def _elsewhere(path: FieldPath, value: str) -> Iterator[FieldError]:
    del value
    yield fielderrors.forbidden(path, _ON_A_CLUSTER_QUEUE)


def _count(path: FieldPath, value: str) -> Iterator[FieldError]:
    if not resource_flavor.is_count(value):
        yield fielderrors.invalid(path, value, "must be a whole number from 1")


def _profile(path: FieldPath, value: str) -> Iterator[FieldError]:
    try:
        problem = profile_names.refuse_compute_instance(profile_names.parse(value))
    except InvalidValueError as error:
        problem = error.rule
    if problem:
        yield fielderrors.invalid(path, value, problem)


CLUSTER_QUEUE: Final[Mapping[str, _Check]] = {
    names.CAPACITY_GUARD: _one_of(names.CAPACITY_GUARD_ENFORCE, names.CAPACITY_GUARD_OFF),
}
"""Annotations of a ClusterQueue, each with its rule."""

COHORT: Final[Mapping[str, _Check]] = {names.CAPACITY_GUARD: _elsewhere}
"""Annotations of a Cohort."""

RESOURCE_FLAVOR: Final[Mapping[str, _Check]] = {
    names.MIG_PROFILE: _profile,
    names.FLAVOR_SHARING: _one_of(*capabilities.SHARING_NAMES),
    names.FLAVOR_REPLICAS: _count,
    names.FAIL_ABOVE_ONE: _one_of("true", "false"),
}
"""Annotations of a ResourceFlavor."""


def errors(
    checks: Mapping[str, _Check], old: views.Object | None, new: views.Object
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
    found: list[FieldError] = []
    for key, check in checks.items():
        if key in annotations and annotations[key] != before.get(key):
            found += check(_METADATA.child("annotations").key(key), annotations[key])
        if key in labels and key not in labelled:
            found.append(fielderrors.forbidden(_METADATA.child("labels").key(key), _NO_LABEL))
    return found
