"""Rules of what an update of a Workload may change.

Source: kueue pkg/webhooks/workload_webhook.go, feature gates at their defaults. The CEL of the
schema guards the rest: queue, priority class and execution time.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from admission.base import names
from admission.base.fielderrors import ErrorType, FieldError
from admission.policy import admission_gates
from admission.policy.kinds import equality, reviews
from admission.policy.kinds.documents import CheckState, ReclaimablePod, Workload
from admission.policy.kinds.reviews import Review
from admission.policy.kinds.rules import Finding, Row, Rule, Syntax
from admission.policy.kinds.workloadspecs import POD_SETS
from admission.policy.kinds.workloadstatuses import ADMISSION, CHECKS, RECLAIMABLE, STATUS

IMMUTABLE: Final = "field is immutable"
READY: Final = "Ready"

_FREE: Final = ("topologyAssignment", "delayedTopologyRequest")


def _pod_sets(review: Review) -> tuple[list[Any], list[Any]] | None:
    """Pod sets before and after where they may not change and are not the same bytes."""
    if review.old is None or not review.was_reserved:
        return None
    before, after = review.old.spec.pod_sets, review.new.spec.pod_sets
    if bytes(before) == bytes(after):
        return None
    return reviews.document(before) or [], reviews.document(after) or []


def _other_number(review: Review) -> Iterable[Finding]:
    found = _pod_sets(review)
    if found and len(found[0]) != len(found[1]):
        yield Finding(POD_SETS, found[1])


def _changed_pod_sets(review: Review) -> Iterable[Finding]:
    found = _pod_sets(review)
    if not found or len(found[0]) != len(found[1]):
        return
    for index, (before, after) in enumerate(zip(*found, strict=True)):
        if not equality.same(before, _at_least(before, after)):
            # Copied: the position stands behind a dot, not in brackets.
            yield Finding(POD_SETS.child(str(index)), after)


def _at_least(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The pod set with the count it had, if it only has fewer pods now: that is allowed."""
    had = before.get("count", 1)
    return {**after, "count": had} if after.get("count", 1) < had else after


def _reclaimed(workload: Workload) -> dict[str, ReclaimablePod]:
    return {one.name: one for one in workload.status.reclaimable_pods or ()}


def _held(review: Review) -> Mapping[str, ReclaimablePod]:
    """Return what was reclaimed before and must stay, because quota is held all along."""
    if review.old is None or not (review.was_reserved and review.is_reserved):
        return {}
    before = _reclaimed(review.old)
    return {name: one for name, one in before.items() if not review.is_shrinking(name)}


def _less_reclaimed(review: Review) -> Iterable[Finding]:
    before = _held(review)
    for name, one in _reclaimed(review.new).items() if before else ():
        if name in before and one.count < before[name].count:
            yield Finding(
                RECLAIMABLE.key(name).child("count"), one.count, {"count": before[name].count}
            )


def _no_longer_reclaimed(review: Review) -> Iterable[Finding]:
    before = _held(review)
    if before:
        for name in sorted(before.keys() - _reclaimed(review.new).keys()):
            yield Finding(RECLAIMABLE.key(name))


def _changed_admission(review: Review) -> Iterable[Finding]:
    if review.old is None:
        return
    before, after = review.old.status.admission, review.new.status.admission
    if bytes(before) == bytes(after):
        return
    was, will = reviews.document(before), reviews.document(after)
    if was is None or will is None:
        return
    if not equality.same(_without_topology(was), _without_topology(will)):
        yield Finding(ADMISSION, will)


def _without_topology(admission: dict[str, Any]) -> dict[str, Any]:
    """The admission without what may change while it lasts."""
    kept = [
        {key: value for key, value in one.items() if key not in _FREE}
        for one in admission.get("podSetAssignments") or ()
    ]
    return {**admission, "podSetAssignments": kept}


def _changed_updates(review: Review) -> Iterable[Finding]:
    if review.old is None:
        return
    after = {one.name: one for one in _ready(review.new)}
    for index, before in enumerate(review.old.status.admission_checks or ()):
        now = after.get(before.name)
        if now is None or before.state != READY:
            continue
        if not equality.same(before.pod_set_updates, now.pod_set_updates):
            path = CHECKS.index(index).child("podSetUpdates")
            shown: list[object] = [*(now.pod_set_updates or ())]
            yield Finding(path, shown)


def _ready(workload: Workload) -> Iterator[CheckState]:
    return (one for one in workload.status.admission_checks or () if one.state == READY)


def _unnominated_cluster(review: Review) -> Iterable[Finding]:
    name = review.new.status.cluster_name
    if review.old is None or name is None or review.old.status.cluster_name is not None:
        return
    if names.SLICE_REPLACEMENT in (review.new.metadata.annotations or {}):
        return
    if name not in (review.old.status.nominated_cluster_names or ()):
        yield Finding(STATUS.child("clusterName"), name)


def _gates(review: Review) -> Iterable[FieldError]:
    if review.old is None:
        return []
    before, after = (
        one.metadata.annotation(names.ADMISSION_GATED_BY) for one in (review.old, review.new)
    )
    return admission_gates.update_errors(before, after)


_INVALID: Final = ErrorType.INVALID

RULES: Final[tuple[Row[Review], ...]] = (
    Rule("Workload 21", _INVALID, IMMUTABLE, _other_number),
    Rule("Workload 22", _INVALID, IMMUTABLE, _changed_pod_sets),
    Rule("Workload 23", _INVALID, "cannot be less than {count}", _less_reclaimed),
    Rule("Workload 24", ErrorType.REQUIRED, "cannot be removed", _no_longer_reclaimed),
    Rule("Workload 25", _INVALID, IMMUTABLE, _changed_admission),
    Rule("Workload 26", _INVALID, IMMUTABLE, _changed_updates),
    Rule(
        "Workload 27", _INVALID,
        "when setting clusterName it must be one of the nominatedClusterNames",
        _unnominated_cluster,
    ),
    Syntax("Workload 28", _gates),  # the rules of `admission.policy.admission_gates`
)  # fmt: skip
