"""Nomination: the flavors that one head would get if it were the only one in the cycle.

Source: kueue pkg/scheduler/scheduler.go (nominate, getAssignments, recompute).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from admission.base import causes
from admission.base.causes import Why
from admission.base.names import FlavorName, FlavorResource, PodSetName, ResourceName
from admission.scheduling import caps, podsets
from admission.scheduling.assignment import Assignment, LastAssignment
from admission.scheduling.decisions import Mode, Requeue, Wait
from admission.scheduling.flavors import Assigner, Pins
from admission.scheduling.heads import Head, HeadResult
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.places.enforcement import asks_devices
from admission.scheduling.places.model import Want
from admission.scheduling.podsets import Demand
from admission.scheduling.preemption.candidates import Need, Preemptor, Target
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class NominatedHead:
    """A head with its assignment.

    Attributes:
        borrowing: of the assignment.
        mode: of the assignment; DEFERRED_FIT when it fits after victims of others are gone.
        targets: victims that would make room.
        refusal: set when the head is not fit to be nominated at all.
        recomputed: the assignment was made again during processing.
        wants: its pods that nodes must have room for.
        takes_kept: whether it takes places that are kept for whom it outranks.
    """

    head: Head
    queue: QueueNode
    assignment: Assignment
    mode: Mode
    borrowing: int = 0
    targets: tuple[Target, ...] = ()
    refusal: HeadResult | None = None
    recomputed: bool = False
    wants: tuple[Want, ...] = ()
    takes_kept: bool = False


def nominate(snapshot: Snapshot, head: Head) -> NominatedHead:
    """Return the best assignment of a head in the snapshot as it is.

    1. Refuse what may not be admitted at all.
    2. Assign flavors to the full workload, with victims where needed.
    3. Failing that, to as many of its pods as possible.
    4. Failing that, do both once more with the places that are kept for whom it outranks.
    """
    queue = snapshot.queue(head.cluster_queue)
    refusal = _refuse(queue, head)
    if refusal is not None:
        empty = Assignment()
        return NominatedHead(
            head=head, queue=queue, assignment=empty, mode=Mode.NO_FIT, refusal=refusal
        )
    memory = valid_memory(snapshot, queue, head)
    with snapshot.deciding(head, takes_kept=False):
        nominee = _assign(snapshot, head, queue, memory=memory)
    if not head.outranked or _gets_quota(nominee):
        return nominee
    with snapshot.deciding(head, takes_kept=True):
        taking = _assign(snapshot, head, queue, memory=memory)
    return replace(taking, takes_kept=True) if _gets_quota(taking) else nominee


def renominate(
    snapshot: Snapshot, nominee: NominatedHead, claimed: Sequence[Target]
) -> NominatedHead:
    """Return the assignment again, in the same flavors, once the claimed victims are gone.

    A fit then is a deferred one: the victims are not gone yet.
    """
    pins = _pins(nominee.assignment)
    with snapshot.without(target.workload for target in claimed):
        again = _assign(snapshot, nominee.head, nominee.queue, pins=pins)
    mode = Mode.DEFERRED_FIT if again.mode == Mode.FIT else again.mode
    return replace(again, mode=mode, recomputed=True)


def in_place_of(snapshot: Snapshot, head: Head, holder: ReservingWorkload) -> NominatedHead | None:
    """Return what a head gets where a workload goes: no more than it holds, in its flavors.

    None if that does not suit the head, or does not fit the quota.
    """
    queue = snapshot.queue(head.cluster_queue)
    if _refuse(queue, head) is not None:
        return None
    flavors = {fr.resource: fr.flavor for fr in holder.usage}
    pins = {
        (demand.pod_set.name, resource): flavor
        for demand in head.demands
        for resource, flavor in flavors.items()
    }
    with snapshot.without([holder]):
        nominee = _try(snapshot, head, queue, head.demands, pins=pins)
    fits = nominee.mode == Mode.FIT and all(
        value <= holder.usage.get(fr, 0) for fr, value in nominee.assignment.usage.items()
    )
    return nominee if fits else None


def _assign(
    snapshot: Snapshot,
    head: Head,
    queue: QueueNode,
    *,
    memory: LastAssignment | None = None,
    pins: Pins | None = None,
) -> NominatedHead:
    """The full workload if it fits or has victims, else as many of its pods as possible."""
    full = _try(snapshot, head, queue, head.demands, memory=memory, pins=pins)
    if _gets_quota(full):
        return full
    return _partial(snapshot, head, queue, memory=memory, pins=pins) or full


def _gets_quota(nominee: NominatedHead) -> bool:
    """Return whether it fits, or will as soon as its victims are gone."""
    return nominee.mode == Mode.FIT or bool(nominee.targets)


def _pins(assignment: Assignment) -> Pins:
    pins: dict[tuple[PodSetName, ResourceName], FlavorName] = {}
    for pod_set in assignment.pod_sets:
        for resource, choice in pod_set.choices.items():
            pins[pod_set.demand.pod_set.name, resource] = choice.flavor
    return pins


def _try(
    snapshot: Snapshot,
    head: Head,
    queue: QueueNode,
    demanded: Sequence[Demand],
    *,
    memory: LastAssignment | None = None,
    pins: Pins | None = None,
) -> NominatedHead:
    """Flavors for the demands and, where they do not fit, victims."""
    preemptor = preemptor_of(head, queue)
    has_devices = asks_devices(head.workload)
    assigner = Assigner(
        snapshot, preemptor, memory, pins, head.caps, has_devices=has_devices
    )  # fmt: skip
    assignment = assigner.assign(demanded)
    mode = assignment.mode
    wants = () if mode == Mode.NO_FIT else _wants(snapshot, assignment, has_devices=has_devices)
    short = assignment.short
    is_crowded = mode == Mode.FIT and not snapshot.places.fits(wants)
    if is_crowded:
        mode, short = Mode.PREEMPT, _of_devices(assignment, wants)
        refusals = snapshot.places.never(wants) or snapshot.places.why(wants)
        assignment.refuse_for_nodes(refusals)
    victims: tuple[Target, ...] = ()
    if mode == Mode.PREEMPT:
        need = Need(requests=assignment.requests(), short=short, wants=wants)
        victims = assigner.victims(need)
        if is_crowded and not victims and not _may_fit_later(snapshot, wants):
            mode = Mode.NO_FIT
        elif (
            wants and not victims and not is_crowded and assigner.victims(replace(need, wants=()))
        ):
            # Victims would give the quota, but no node would take the pods: it waits for both.
            refusals = snapshot.places.never(wants) or snapshot.places.why(wants)
            assignment.refuse_for_nodes(refusals)
    return NominatedHead(
        head=head,
        queue=queue,
        assignment=assignment,
        mode=mode,
        borrowing=assignment.borrowing,
        targets=victims,
        wants=wants,
    )


def _wants(snapshot: Snapshot, assignment: Assignment, *, has_devices: bool) -> tuple[Want, ...]:
    """Return what all pods need of nodes in the flavors that they were assigned."""
    places = snapshot.places
    wants = (
        places.want(
            pod_set.demand.pod_set,
            pod_set.demand.count,
            (choice.flavor for choice in pod_set.choices.values()),
            has_devices=has_devices,
        )
        for pod_set in assignment.pod_sets
        if places and pod_set.demand.count
    )
    return tuple(want for want in wants if want is not None)


def _may_fit_later(snapshot: Snapshot, wants: Sequence[Want]) -> bool:
    """Return whether pods wait for a domain that workloads fill, as for quota that is in use."""
    in_domains = [want for want in wants if want.request is not None]
    topologies = snapshot.places.topologies
    return (
        bool(in_domains)
        and bool(topologies.refused(in_domains))
        and not topologies.never(in_domains)
    )


def _of_devices(assignment: Assignment, wants: Sequence[Want]) -> frozenset[FlavorResource]:
    """Return the flavors and devices that pods ask for; without devices all that they ask for."""
    devices = {name for want in wants for name in want.shape.needs.devices}
    requests = assignment.requests()
    return frozenset(fr for fr in requests if fr.resource in devices) or frozenset(requests)


def preemptor_of(head: Head, queue: QueueNode) -> Preemptor:
    """Return the head as a preemptor."""
    workload = head.workload
    return Preemptor(
        key=workload.key,
        uid=workload.uid,
        queue=queue,
        local_queue=workload.queue,
        priority=workload.priority,
        queue_us=head.queue_us,
        spared=head.spared,
        takes_none=workload.never_preempts,
    )


def _partial(
    snapshot: Snapshot,
    head: Head,
    queue: QueueNode,
    *,
    memory: LastAssignment | None,
    pins: Pins | None,
) -> NominatedHead | None:
    """The assignment with the fewest pods left out that fits or has victims, by bisection."""
    steps = podsets.partial_steps(head.demands)
    if steps == 0:
        return None
    low, high = 0, steps + 1
    best: NominatedHead | None = None
    while low < high:
        step = (low + high) // 2
        demanded = podsets.reduced(head.demands, step)
        nominee = _try(snapshot, head, queue, demanded, memory=memory, pins=pins)
        if _gets_quota(nominee):
            best, high = nominee, step
        else:
            low = step + 1
    return best


def valid_memory(snapshot: Snapshot, queue: QueueNode, head: Head) -> LastAssignment | None:
    """Return the head's scan memory, unless quota changed since an older cycle."""
    memory = head.memory
    if memory is None:
        return None
    if snapshot.cycle - memory.cycle > 1 and queue.generation > memory.generation:
        return None
    return memory


def _refuse(queue: QueueNode, head: Head) -> HeadResult | None:
    """Return why a head is not nominated, first reason first."""
    if head.workload.failed_checks:
        return _refusal(head, causes.FailedChecks())
    if not queue.active:
        return _refusal(head, causes.QueueInactive(causes.CLUSTER_QUEUE, queue.name))
    if not head.namespace_exists:
        return _refusal(head, causes.NamespaceMissing(head.key.namespace))
    if not head.namespace_matches:
        return _refusal(head, causes.NamespaceNotServed(), Requeue.NAMESPACE_MISMATCH)
    if head.misconfigured:
        return _refusal(head, causes.Misconfigured(head.misconfigured))
    over = caps.broken_in_every_flavor(head.caps, head.demands, queue.group_of)
    if over is not None:
        return replace(_refusal(head, over, Requeue.CAPPED), memory=None)
    return None


def _refusal(head: Head, reason: Why, requeue: Requeue = Requeue.GENERIC) -> HeadResult:
    decision = Wait(workload=head.key, cluster_queue=head.cluster_queue, why=reason)
    return HeadResult(head=head, decision=decision, requeue=requeue, memory=head.memory)
