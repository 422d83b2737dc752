"""Rules of a Workload's status, whatever was there before.

A creation drops the status, so in effect they judge updates. Source: kueue
pkg/webhooks/workload_webhook.go, feature gates at their defaults.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from admission.base import quantity, structs
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.policy.kinds import metadata, quantities, reviews
from admission.policy.kinds.documents import Assignment, PodSetUpdate
from admission.policy.kinds.reviews import Review
from admission.policy.kinds.rules import Finding, Row, Rule, Syntax

STATUS: Final = FieldPath.of("status")
ADMISSION: Final = STATUS.child("admission")
RECLAIMABLE: Final = STATUS.child("reclaimablePods")
CHECKS: Final = STATUS.child("admissionChecks")

_AS_UPDATE: Final = structs.converter(PodSetUpdate)
_ASSIGNMENTS: Final = ADMISSION.child("podSetAssignments")


def _reserved_without_admission(review: Review) -> Iterable[Finding]:
    if not review.is_reserved or reviews.has_admission(review.new):
        return
    if review.old is None or not review.was_reserved or reviews.has_admission(review.old):
        yield Finding(ADMISSION)


def _assigned(review: Review) -> Iterator[tuple[int, Assignment]]:
    return enumerate(review.assignments() if review.is_reserved else ())


def _unknown_assignments(review: Review) -> Iterable[Finding]:
    for index, one in _assigned(review):
        if review.pod_set(one.name) is None:
            yield Finding(_ASSIGNMENTS.index(index).child("name"), one.name)


def _broken_usage(review: Review) -> Iterable[Finding]:
    for index, one in _assigned(review):
        count = one.count or 0
        if count <= 0:
            continue
        for resource, amount in (one.resource_usage or {}).items():
            if _canonical(resource, amount) % count:
                place = _ASSIGNMENTS.index(index).child("resourceUsage").key(resource)
                yield Finding(place, quantities.text(amount), {"count": count})


def _canonical(resource: str, amount: str | int) -> int:
    try:
        return quantity.to_canonical(resource, str(amount))
    except InvalidValueError:
        return 0


def _conditions(review: Review) -> Iterator[FieldError]:
    return metadata.conditions(STATUS.child("conditions"), review.new.status.conditions or ())


def _unknown_reclaimable(review: Review) -> Iterable[Finding]:
    for one in review.new.status.reclaimable_pods or ():
        if review.pod_set(one.name) is None:
            path = RECLAIMABLE.key(one.name).child("name")
            yield Finding(path, one.name, _supported(p.name for p in review.pod_sets))


def _too_many_reclaimable(review: Review) -> Iterable[Finding]:
    kept = _kept(review)
    for one in review.new.status.reclaimable_pods or ():
        pod_set = review.pod_set(one.name)
        if pod_set is None or one.count <= pod_set.count or (one.name, one.count) in kept:
            continue
        path = RECLAIMABLE.key(one.name).child("count")
        yield Finding(path, one.count, {"count": pod_set.count})


def _kept(review: Review) -> frozenset[tuple[str, int]]:
    """Return what an elastic Workload had reclaimed before it was made smaller may stay."""
    if review.old is None or not review.is_elastic:
        return frozenset()
    return frozenset((one.name, one.count) for one in review.old.status.reclaimable_pods or ())


def _updates(review: Review) -> Iterator[tuple[FieldPath, PodSetUpdate]]:
    for index, check in enumerate(review.new.status.admission_checks or ()):
        for place, found in enumerate(check.pod_set_updates or ()):
            path = CHECKS.index(index).child("podSetUpdates").index(place)
            yield path, _AS_UPDATE(found)


def _unknown_updates(review: Review) -> Iterable[Finding]:
    for path, one in _updates(review):
        if review.pod_set(one.name) is None:
            supported = _supported(sorted({p.name for p in review.pod_sets}))
            yield Finding(path.child("name"), one.name, supported)


def _update_tolerations(review: Review) -> Iterator[FieldError]:
    for path, one in _updates(review):
        yield from metadata.toleration_keys(path.child("tolerations"), one.tolerations)


def _update_metadata(review: Review) -> Iterator[FieldError]:
    for path, one in _updates(review):
        yield from metadata.annotations(path.child("annotations"), one.annotations)
        yield from metadata.labels(path.child("nodeSelector"), one.node_selector)
        yield from metadata.labels(path.child("labels"), one.labels)


def _supported(choices: Iterable[str]) -> dict[str, object]:
    return {"supported": ", ".join(f'"{choice}"' for choice in choices)}


RULES: Final[tuple[Row[Review], ...]] = (
    Rule(
        "Workload 10", ErrorType.REQUIRED,
        "must be set while the QuotaReserved condition is true", _reserved_without_admission,
    ),
    Rule("Workload 11", ErrorType.NOT_FOUND, "", _unknown_assignments),
    # Differs: Kueue prints the address of the count where its value should stand.
    Rule("Workload 12", ErrorType.INVALID, "is not a multiple of {count}", _broken_usage),
    Syntax("Workload 13", _conditions),
    Rule(
        "Workload 14", ErrorType.NOT_SUPPORTED, "supported values: {supported}",
        _unknown_reclaimable,
    ),
    Rule(
        "Workload 15", ErrorType.INVALID, "should be less or equal to {count}",
        _too_many_reclaimable,
    ),
    Rule(
        "Workload 16", ErrorType.NOT_SUPPORTED, "supported values: {supported}", _unknown_updates
    ),
    Syntax("Workload 17", _update_tolerations),
    Syntax("Workload 18", _update_metadata),
)  # fmt: skip
