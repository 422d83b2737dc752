"""One scheduling cycle: nominate every head, order them, then decide one by one.

Source: kueue pkg/scheduler/scheduler.go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from admission.base import amount
from admission.base.causes import (
    Deferred,
    NoFlavor,
    Overtaken,
    PendingPreemption,
    PodsComing,
    PodsOfOthersNotReady,
    Preempted,
    QuotaCut,
    SetAside,
    Why,
)
from admission.base.conditions import PreemptionReason, WaitReason
from admission.base.names import ChargeKey, FlavorResource, WorkloadKey
from admission.scheduling import explain, nomination, ordering, quota
from admission.scheduling.assignment import BY_NODES, OF_CAPS, LastAssignment
from admission.scheduling.decisions import Admit, Evict, Mode, Recomputation, Requeue, Wait
from admission.scheduling.heads import Head, HeadResult
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.model import PreemptionPolicy, Workload
from admission.scheduling.nomination import NominatedHead, nominate, renominate, valid_memory
from admission.scheduling.places.model import Place, Want
from admission.scheduling.places.search import StepBudget
from admission.scheduling.preemption.candidates import Target
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.snapshot import Snapshot


def run(
    snapshot: Snapshot, heads: Iterable[Head], claimed: Iterable[Target] = ()
) -> tuple[HeadResult, ...]:
    """Decide about all heads; the snapshot is left as it was.

    1. Nominate each head against the untouched snapshot.
    2. Order the nominees.
    3. Process them one by one; what each takes counts for those after it.
    4. Put the snapshot back.

    A head about which an error ends the decision is set aside, with the error.

    Args:
        snapshot: what is decided on.
        heads: the first workload of each queue.
        claimed: victims of displaced workloads, which come before all heads.
    """
    nominees: list[NominatedHead] = []
    verdicts: list[HeadResult] = []
    displacing = {target.workload.key: target for target in claimed}
    cycle = _Cycle(snapshot, dict(displacing), displacing=displacing)
    try:
        for head in heads:
            nominee = _unless_failed(snapshot, head, partial(nominate, snapshot, head))
            if isinstance(nominee, HeadResult):
                verdicts.append(nominee)
            else:
                nominees.append(nominee)
        for nominee in ordering.in_order(snapshot, nominees):
            process = partial(cycle.process, nominee)
            verdicts.append(_unless_failed(snapshot, nominee.head, process))
    finally:
        snapshot.rollback()
    return tuple(verdicts)


_Outcome = TypeVar("_Outcome")


def _unless_failed(
    snapshot: Snapshot, head: Head, decide: Callable[[], _Outcome]
) -> _Outcome | HeadResult:
    """Return what is decided about a head; where an error ends that, that it is set aside.

    What was done about it until then is undone, and all other heads go on.
    """
    try:
        with snapshot.undone_on_error():
            return decide()
    except Exception as error:  # noqa: BLE001  # one odd Workload must not stop all others
        wait = Wait(workload=head.key, cluster_queue=head.cluster_queue, why=SetAside())
        return HeadResult(head=head, decision=wait, requeue=Requeue.SET_ASIDE, error=error)


def in_place_of(
    snapshot: Snapshot, head: Head, holder: ReservingWorkload, *, stays: bool = False
) -> Admit | None:
    """Return the admission of a head to what a workload holds that goes; None if it does not suit.

    The snapshot is left as it was.

    Args:
        snapshot: what is decided on.
        head: the workload that gets it.
        holder: the workload that goes.
        stays: whether the pods of that one are still on their nodes beside those of the head.
    """
    with snapshot.undone_on_error(), snapshot.places.sharing(StepBudget()):
        nominee = nomination.in_place_of(snapshot, head, holder)
        if nominee is None:
            return None
        with snapshot.without(() if stays else (holder,)):
            places = snapshot.places.find(nominee.wants)
    if places is None and _asks_domains(nominee):
        return None
    return _admission(snapshot, nominee, places or ())


@dataclass(slots=True)
class _Cycle:
    """What the entries of one cycle know of each other.

    Attributes:
        claimed: victims of displaced workloads, and of the entries so far.
        replaced: workloads in whose place an entry was admitted; they are nobody's victims.
        displacing: victims of displaced workloads. Nobody has taken their quota instead, so it is
            used until they are gone.
    """

    snapshot: Snapshot
    claimed: dict[ChargeKey, Target] = field(default_factory=dict)
    replaced: set[ChargeKey] = field(default_factory=set)
    displacing: dict[ChargeKey, Target] = field(default_factory=dict)

    def process(self, nominee: NominatedHead) -> HeadResult:
        """Decides about one nominee.

        1. Refused before nomination: say why.
        2. Victims that another entry has claimed: look again, as if those were gone.
        3. Without a fit or victims: wait, and hold back what it will need.
        4. Will fit as soon as claimed victims are gone: hold that back.
        5. No longer fits after the entries before it: try again next cycle.
        6. Victims: claim them and tell them to leave.
        7. Fits: give it the quota, unless another must be ready first, or pods that are on their
           way to nodes may take its places: then hold these back, and try again next cycle.
        """
        if nominee.refusal is not None:
            return nominee.refusal
        claimed = len(self.claimed)
        try:
            with self.snapshot.deciding(nominee.head, takes_kept=nominee.takes_kept):
                return self._process(nominee)
        except BaseException:
            while len(self.claimed) > claimed:
                self.claimed.popitem()
            raise

    def _process(self, nominee: NominatedHead) -> HeadResult:
        if not self._overlaps(nominee):
            return self._decide(nominee)
        nominee = renominate(self.snapshot, nominee, tuple(self.claimed.values()))
        outcome = self._outcome(nominee)
        return replace(self._decide(nominee), recomputed=outcome)

    def _decide(self, nominee: NominatedHead) -> HeadResult:
        match nominee.mode:
            case Mode.NO_FIT:
                verdict = self._no_fit(nominee)
            case Mode.PREEMPT if not nominee.targets:
                verdict = self._no_candidates(nominee)
            case Mode.DEFERRED_FIT:
                verdict = self._deferred(nominee)
            case _ if self._overlaps(nominee):
                verdict = self._skipped(nominee, Overtaken(takes_victims=True))
            case _ if not self._has_quota(nominee):
                verdict = self._skipped(nominee, Overtaken())
            case _ if not self._has_places(nominee):
                verdict = self._skipped(nominee, Overtaken(), by_nodes=True)
            case Mode.PREEMPT:
                verdict = self._preempt(nominee)
            case _ if self.snapshot.config.one_at_a_time and self.snapshot.unready:
                verdict = self._not_yet(nominee)
            case _:
                verdict = self._admit(nominee)
        return verdict

    def _outcome(self, nominee: NominatedHead) -> Recomputation:
        if nominee.mode is Mode.DEFERRED_FIT:
            return Recomputation.DEFERRED_FIT
        preempts = nominee.mode is Mode.PREEMPT and nominee.targets and not self._overlaps(nominee)
        return Recomputation.NEW_TARGETS if preempts else Recomputation.SKIPPED

    def _overlaps(self, nominee: NominatedHead) -> bool:
        """Return whether it would preempt or replace what an entry before it has taken."""
        keys = [target.workload.key for target in nominee.targets]
        is_taken = any(key in self.claimed or key in self.replaced for key in keys)
        return is_taken or nominee.head.replaces in self.claimed

    def _has_quota(self, nominee: NominatedHead) -> bool:
        """Return whether quota is left once the victims of entries and its own are gone."""
        own_victims = {target.workload.key for target in nominee.targets}
        gone = [
            workload
            for workload in self._gone(nominee)
            if workload.key not in self.displacing or workload.key in own_victims
        ]
        with self.snapshot.without(gone):
            return all(
                value <= max(0, quota.available(nominee.queue, fr))
                for fr, value in nominee.assignment.usage.items()
            )

    def _has_places(self, nominee: NominatedHead) -> bool:
        """Return whether nodes have room once all claimed victims and its own are gone.

        Domains are given with the quota, so who needs no victims needs room in them now. Who needs
        some waits for them, and for pods that leave their nodes.
        """
        places, wants = self.snapshot.places, nominee.wants
        if nominee.mode is not Mode.PREEMPT and _asks_domains(nominee):
            return places.fits(wants)
        with self.snapshot.without(self._gone(nominee)):
            if nominee.mode is not Mode.PREEMPT:
                return places.fits(wants)
            with places.ledger.without_leaving():
                return places.fits(wants)

    def _gone(self, nominee: NominatedHead) -> list[ReservingWorkload]:
        return [target.workload for target in (*self.claimed.values(), *nominee.targets)]

    def _no_fit(self, nominee: NominatedHead) -> HeadResult:
        reason = nominee.assignment.reason
        capped = nominee.assignment.capped
        if reason in OF_CAPS and capped is not None:
            return _wait(self.snapshot, nominee, capped, Requeue.CAPPED)
        why = _no_flavor(nominee, reason)
        return self._parked(nominee, _wait(self.snapshot, nominee, why, Requeue.NO_FIT))

    def _no_candidates(self, nominee: NominatedHead) -> HeadResult:
        self.snapshot.hold_back(nominee.queue, held_back(nominee))
        why = _no_flavor(nominee, WaitReason.WAITING_FOR_QUOTA)
        requeue = Requeue.PREEMPTION_NO_CANDIDATES
        return self._parked(nominee, _wait(self.snapshot, nominee, why, requeue))

    def _parked(self, nominee: NominatedHead, result: HeadResult) -> HeadResult:
        """Return that it is parked, or tried once more if it was overtaken in an earlier cycle.

        Differs: Kueue goes on with the next flavor where others took what a head would have got,
        and parks it, also if something was given back since. Only those that are parked are woken
        by that, so the head would wait beside a flavor that is free. Where nodes have no room, it
        is tried once more in any case: it waits for the nodes of the flavors that it looked at.
        """
        memory = valid_memory(self.snapshot, nominee.queue, nominee.head)
        if memory is None or memory.wakes is None:
            return result
        decision = result.decision
        waits_for_nodes = isinstance(decision, Wait) and decision.why.reason is (
            WaitReason.WAITING_FOR_NODE
        )
        if nominee.queue.wakes == memory.wakes and not waits_for_nodes:
            return result
        return replace(result, requeue=Requeue.FAILED_AFTER_NOMINATION, memory=None)

    def _deferred(self, nominee: NominatedHead) -> HeadResult:
        self.snapshot.hold_back(nominee.queue, nominee.assignment.usage)
        return _wait(self.snapshot, nominee, Deferred(), Requeue.PENDING_PREEMPTION)

    def _skipped(
        self, nominee: NominatedHead, why: Overtaken | PodsComing, *, by_nodes: bool = False
    ) -> HeadResult:
        """Return that others took what it would have got; where nodes are the cause it is woken.

        Nothing of quota is given back when pods come or go, so that counts as woken.
        """
        result = _wait(self.snapshot, nominee, why, Requeue.FAILED_AFTER_NOMINATION)
        if by_nodes and result.memory is not None:
            return replace(result, memory=replace(result.memory, wakes=BY_NODES))
        return result

    def _not_yet(self, nominee: NominatedHead) -> HeadResult:
        why = PodsOfOthersNotReady()
        return _wait(self.snapshot, nominee, why, Requeue.FAILED_AFTER_NOMINATION)

    def _preempt(self, nominee: NominatedHead) -> HeadResult:
        self.claimed.update((target.workload.key, target) for target in nominee.targets)
        claimed = (target.workload for target in self.claimed.values())
        with self.snapshot.without(claimed), self.snapshot.places.ledger.without_leaving():
            places = self.snapshot.places.find(nominee.wants)
        self.snapshot.hold_back(nominee.queue, nominee.assignment.usage)
        if places:
            self.snapshot.place(nominee.wants, places)
        return _wait(
            self.snapshot,
            nominee,
            PendingPreemption(nominee.assignment.refused(), len(nominee.targets)),
            Requeue.PENDING_PREEMPTION,
            evictions=evictions(
                self.snapshot, nominee.head.workload, nominee.queue, nominee.targets
            ),
            kept=(nominee.wants, places) if places else None,
        )

    def _admit(self, nominee: NominatedHead) -> HeadResult:
        places = self.snapshot.places.find(nominee.wants)
        if places is None:
            if _asks_domains(nominee):
                return self._skipped(nominee, Overtaken(), by_nodes=True)
            places = ()  # the scheduler or victims of others make room for them
        if self.snapshot.are_contended(nominee.wants, places):
            self.snapshot.hold_back(nominee.queue, nominee.assignment.usage)
            self.snapshot.place(nominee.wants, places)
            return self._skipped(nominee, PodsComing(), by_nodes=True)
        self.snapshot.add(nominee.queue, nominee.assignment.usage)
        self.snapshot.place(nominee.wants, places)
        self.snapshot.unready += 1
        admission = _admission(self.snapshot, nominee, places)
        if nominee.head.replaces is not None:
            self.replaced.add(nominee.head.replaces)
        return HeadResult(head=nominee.head, decision=admission)


def _asks_domains(nominee: NominatedHead) -> bool:
    """Return whether any of its pods are placed in domains of a topology."""
    return any(want.request is not None for want in nominee.wants)


def _admission(
    snapshot: Snapshot, nominee: NominatedHead, places: tuple[Place, ...] = ()
) -> Admit:
    domains = snapshot.places.topologies.domains(nominee.wants, places) if places else {}
    return Admit(
        workload=nominee.head.key,
        cluster_queue=nominee.queue.name,
        pod_sets=nominee.assignment.to_pod_sets(domains),
        borrowing=nominee.borrowing,
        checks=_checks(nominee.queue, nominee.assignment.usage),
        places=places,
    )


def held_back(nominee: NominatedHead) -> dict[FlavorResource, int]:
    """Return what a blocked preemptor withholds from the heads after it in this cycle.

    Nothing if the queue may reclaim from anybody: it can take the quota back later.
    """
    queue = nominee.queue
    if queue.spec.preemption.reclaim_within_cohort == PreemptionPolicy.ANY:
        return {}
    borrowing = nominee.borrowing > 0
    return {
        fr: amount_held
        for fr, value in nominee.assignment.usage.items()
        if (amount_held := _held_back(queue, fr, value, borrowing=borrowing)) > 0
    }


def _held_back(queue: QueueNode, fr: FlavorResource, value: int, *, borrowing: bool) -> int:
    own_quota = queue.quotas.get(fr)
    nominal = 0 if own_quota is None else own_quota.nominal
    used = queue.usage.get(fr, 0)
    if not borrowing:
        return max(0, min(value, nominal - used))
    if own_quota is None or own_quota.borrowing_limit is None:
        return value
    return min(value, nominal + own_quota.borrowing_limit - used)


def _checks(queue: QueueNode, usage: Mapping[FlavorResource, int]) -> tuple[str, ...]:
    """Admission checks that the assigned flavors need."""
    flavors = {fr.flavor for fr in usage}
    rules = queue.spec.admission_checks
    return tuple(
        sorted({r.name for r in rules if not r.on_flavors or not r.on_flavors.isdisjoint(flavors)})
    )


def _cut(queue: QueueNode, target: Target) -> QuotaCut | None:
    """Return why a victim counts as borrowing though its queue uses no more than is promised."""
    if target.reason == PreemptionReason.IN_CLUSTER_QUEUE:
        return None
    beyond = [
        fr for fr in target.workload.usage if queue.usage.get(fr, 0) > quota.nominal(queue, fr)
    ]
    if not beyond or any(
        queue.usage[fr] > amount.add(quota.nominal(queue, fr), quota.withheld(queue, fr))
        for fr in beyond
    ):
        return None
    is_sick = any(quota.withheld(queue, fr) > quota.elsewhere(queue, fr).amount for fr in beyond)
    return QuotaCut.SICK if is_sick else QuotaCut.PROMISED


def evictions(
    snapshot: Snapshot, preemptor: Workload, queue: QueueNode, victims: Iterable[Target]
) -> tuple[Evict, ...]:
    """Return the evictions of those victims that are not being evicted yet.

    Args:
        snapshot: what is decided on.
        preemptor: for which they leave.
        queue: the ClusterQueue of that.
        victims: who leaves.
    """
    return tuple(
        Evict(
            workload=target.workload.key,
            preemptor=preemptor.workload_key,
            why=Preempted(
                target.reason,
                uid=preemptor.uid,
                job_uid=preemptor.job_uid,
                preemptor_path=queue.path(),
                preemptee_path=snapshot.queue(target.workload.cluster_queue).path(),
                cut=_cut(snapshot.queue(target.workload.cluster_queue), target),
            ),
            cluster_queue=target.workload.cluster_queue,
            preemptor_cluster_queue=queue.name,
        )
        for target in victims
        if not target.workload.evicted and isinstance(target.workload.key, WorkloadKey)
    )


_FORGETFUL = (Requeue.PENDING_PREEMPTION, Requeue.CAPPED)


def _no_flavor(nominee: NominatedHead, reason: WaitReason) -> NoFlavor:
    return NoFlavor(reason, nominee.assignment.refused())


def _wait(
    snapshot: Snapshot,
    nominee: NominatedHead,
    why: Why,
    requeue: Requeue,
    *,
    evictions: Sequence[Evict] = (),
    kept: tuple[tuple[Want, ...], tuple[Place, ...]] | None = None,
) -> HeadResult:
    decision = Wait(
        workload=nominee.head.key,
        cluster_queue=nominee.queue.name,
        why=why,
        requests=explain.requests(nominee.head),
        shortages=explain.shortages(snapshot, nominee),
        preempting=tuple(target.workload.key for target in nominee.targets),
    )
    return HeadResult(
        head=nominee.head,
        decision=decision,
        evictions=tuple(evictions),
        requeue=requeue,
        memory=_memory(snapshot, nominee, requeue) if requeue not in _FORGETFUL else None,
        kept=kept,
    )


def _memory(snapshot: Snapshot, nominee: NominatedHead, requeue: Requeue) -> LastAssignment | None:
    """Return where the scans stopped; nothing when none came to a flavor."""
    assignment = nominee.assignment
    if not assignment.tried:
        return None
    generation = nominee.queue.generation
    is_overtaken = requeue is Requeue.FAILED_AFTER_NOMINATION
    wakes = nominee.queue.wakes if is_overtaken else None
    return LastAssignment(assignment.tried, snapshot.cycle, generation, assignment.passed, wakes)
