"""Preemption without fair sharing: own queue, reclaim, and borrowing over the hierarchy.

Source: kueue pkg/scheduler/preemption/classical.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from admission.base.conditions import PreemptionReason
from admission.base.names import FlavorResource
from admission.scheduling import hierarchy, quota
from admission.scheduling.hierarchy import CohortNode, QueueNode, QuotaNode
from admission.scheduling.model import PreemptionPolicy
from admission.scheduling.preemption import candidates
from admission.scheduling.preemption.candidates import Need, Preemptor, Target
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible victim.

    Attributes:
        common: lowest cohort above both it and the preemptor; None in the preemptor's queue.
        keeps_nominal: may only be taken when the preemptor does not borrow afterwards.
    """

    workload: ReservingWorkload
    reason: PreemptionReason
    common: CohortNode | None = None
    keeps_nominal: bool = False


@dataclass(slots=True)
class _Classes:
    """Candidates by what lets the preemptor take them.

    Attributes:
        hierarchy: the preemptor's side is within its quota, so it takes back what it lent.
        priority: the preemptor's side would borrow, too.
        own: candidates in its own queue.
    """

    hierarchy: list[_Candidate] = field(default_factory=list)
    priority: list[_Candidate] = field(default_factory=list)
    own: list[_Candidate] = field(default_factory=list)


def targets(snapshot: Snapshot, preemptor: Preemptor, need: Need) -> tuple[Target, ...]:
    """Return victims that make room, in the order of their choice; none if there is no way.

    Those within their minimum run time are tried after all others, if these do not suffice.
    """
    classes = _collect(snapshot, preemptor, need)
    ordered = _in_order(snapshot, preemptor, classes)
    if not ordered:
        return ()
    past = [
        candidate
        for candidate in ordered
        if not candidates.is_within_minimum(snapshot, candidate.workload)
    ]
    within = [
        candidate
        for candidate in ordered
        if candidates.is_within_minimum(snapshot, candidate.workload)
    ]
    for tried in (past, past + within) if within else (past,):
        for borrowing in _attempts(preemptor, need, classes):
            targets_found = _search(snapshot, preemptor, need, tried, borrowing=borrowing)
            if targets_found:
                return targets_found
    return ()


def _attempts(preemptor: Preemptor, need: Need, classes: _Classes) -> tuple[bool, ...]:
    """Return whether victims are sought with the preemptor borrowing afterwards, in this order."""
    queue = preemptor.queue
    may_borrow = queue.spec.preemption.borrow_within_cohort != PreemptionPolicy.NEVER
    if not (classes.hierarchy or classes.priority):
        return (True,)
    below = all(queue.usage.get(fr, 0) < quota.nominal(queue, fr) for fr in need.short)
    if not may_borrow and not below:
        return (True,)
    if not may_borrow and not classes.hierarchy:
        return (False, True)
    return (True, False)


def _search(
    snapshot: Snapshot,
    preemptor: Preemptor,
    need: Need,
    ordered: list[_Candidate],
    *,
    borrowing: bool,
) -> tuple[Target, ...]:
    """Removes candidates one by one until the preemptor fits, then drops needless ones."""
    removed: list[Target] = []
    for candidate in ordered:
        if borrowing and candidate.keeps_nominal:
            continue
        if candidate.common is not None and not _still_borrows(snapshot, candidate, need):
            continue
        snapshot.remove(candidate.workload)
        removed.append(Target(candidate.workload, candidate.reason))
        if candidates.fits(snapshot, preemptor.queue, need, borrowing=borrowing):
            return candidates.minimise(snapshot, preemptor, need, removed, borrowing=borrowing)
    for target in removed:
        snapshot.restore(target.workload)
    return ()


def _still_borrows(snapshot: Snapshot, candidate: _Candidate, need: Need) -> bool:
    """Return whether everything below the common cohort is still over its quota."""
    node: QuotaNode | None = snapshot.queue(candidate.workload.cluster_queue)
    while node is not None and node is not candidate.common:
        if not hierarchy.over_nominal(node, need.short):
            return False
        node = node.parent
    return True


def _in_order(snapshot: Snapshot, preemptor: Preemptor, classes: _Classes) -> list[_Candidate]:
    """Evicted ones first, and within that by class."""
    lists = [
        _sorted(snapshot, preemptor, candidates_)
        for candidates_ in (classes.hierarchy, classes.priority, classes.own)
    ]
    evicted = [c for listed in lists for c in listed if c.workload.evicted]
    return evicted + [c for listed in lists for c in listed if not c.workload.evicted]


def _sorted(
    snapshot: Snapshot, preemptor: Preemptor, candidates_: list[_Candidate]
) -> list[_Candidate]:
    by_key = {candidate.workload.key: candidate for candidate in candidates_}
    workloads = (candidate.workload for candidate in candidates_)
    return [
        by_key[workload.key] for workload in candidates.in_order(snapshot, preemptor, workloads)
    ]


def _collect(snapshot: Snapshot, preemptor: Preemptor, need: Need) -> _Classes:
    """Candidates of the own queue, and of ever larger subtrees around it."""
    classes = _Classes()
    of_own_queue = candidates.of_queue(snapshot, preemptor, need, preemptor.queue)
    classes.own.extend(_Candidate(h, PreemptionReason.IN_CLUSTER_QUEUE) for h in of_own_queue)
    if preemptor.queue.spec.preemption.reclaim_within_cohort == PreemptionPolicy.NEVER:
        return classes
    entitled, rest = _fits_quota(preemptor.queue, need.requests)
    below: QuotaNode = preemptor.queue
    for cohort in preemptor.queue.ancestors():
        into = classes.hierarchy if entitled else classes.priority
        for queue in _borrowing_queues(cohort, below, need):
            for workload in candidates.of_queue(snapshot, preemptor, need, queue):
                into.append(_outside(preemptor, workload, cohort, entitled=entitled))
        within, rest = _fits_quota(cohort, rest)
        entitled = entitled or within
        below = cohort
    return classes


def _outside(
    preemptor: Preemptor, workload: ReservingWorkload, common: CohortNode, *, entitled: bool
) -> _Candidate:
    """A candidate of another queue."""
    policies = preemptor.queue.spec.preemption
    if entitled:
        return _Candidate(workload, PreemptionReason.IN_COHORT_RECLAMATION, common)
    threshold = policies.max_priority_threshold
    protected = (
        policies.borrow_within_cohort == PreemptionPolicy.NEVER
        or workload.priority >= preemptor.priority
        or (threshold is not None and workload.priority > threshold)
    )
    if protected:
        reason = PreemptionReason.IN_COHORT_RECLAMATION
        return _Candidate(workload, reason, common, keeps_nominal=True)
    return _Candidate(workload, PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING, common)


def _borrowing_queues(cohort: CohortNode, walked: QuotaNode, need: Need) -> Iterator[QueueNode]:
    """Queues below a cohort that use more than their quota, outside the part already walked."""
    for queue in cohort.queues.values():
        if queue is not walked and hierarchy.over_nominal(queue, need.short):
            yield queue
    for child in cohort.cohorts.values():
        if child is not walked and hierarchy.over_nominal(child, need.short):
            yield from _borrowing_queues(child, walked, need)


def _fits_quota(
    node: QuotaNode, requests: Mapping[FlavorResource, int]
) -> tuple[bool, dict[FlavorResource, int]]:
    """Return whether a subtree holds the requests in its quota, and what it passes upwards."""
    within = all(
        node.usage.get(fr, 0) + value <= node.subtree.get(fr, 0) for fr, value in requests.items()
    )
    rest = {fr: max(0, value - quota.local_available(node, fr)) for fr, value in requests.items()}
    return within, rest
