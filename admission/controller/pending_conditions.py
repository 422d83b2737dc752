"""Writes the conditions that say why Workloads wait, when no other write is due."""

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from enum import IntEnum
from typing import Final, NamedTuple

from admission.base import clock as clocks
from admission.base import conditions, logs
from admission.base.causes import (
    EndingPods,
    EvictedBefore,
    GatesCleared,
    NoFlavor,
    NotTried,
    Preempted,
    SetAside,
    Stated,
)
from admission.base.clock import Clock
from admission.base.conditions import PreemptionReason, WaitReason
from admission.base.names import ClusterQueueName, FlavorResource, ResourceName, WorkloadKey
from admission.controller.condition_schedule import EVENT_SECONDS, OF_BLOCKERS, ConditionSchedule
from admission.controller.devices.capacity import is_gpu
from admission.controller.waiting_events import FindSubject, WaitingEventRecorder
from admission.controller.watched_owners.pods import Pods
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads import statuses
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests, flow_control
from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.controller.writing.flow_control import FlowControl
from admission.objects.workload import Workload
from admission.reasons import kueue, next_steps, sentences
from admission.scheduling.decisions import Wait
from admission.scheduling.explain import SumsByTree
from admission.scheduling.state import SchedulerState

_TOLD_AFTER: Final = timedelta(seconds=EVENT_SECONDS)
_IN_LINE: Final = frozenset(
    {
        WaitReason.WAITING_FOR_QUOTA,
        WaitReason.WAITING_FOR_PREEMPTED,
        WaitReason.PENDING_EVALUATION,
    }
)
"""Reasons that a place in the queue belongs to: what waits so has its turn."""
_ENDS_WITH_PODS: Final = frozenset(
    {
        WaitReason.WAITING_FOR_QUOTA,
        WaitReason.WAITING_FOR_PREEMPTED,
        WaitReason.WAITING_FOR_NODE,
    }
)
"""Reasons that may be over once pods have ended that are ending."""
_HOPELESS: Final = frozenset({WaitReason.EXCEEDS_MAX_QUOTA, WaitReason.EXCEEDS_CAP})
"""Reasons that say by themselves that something never starts as it is."""
_ENDING_SECONDS: Final = 1.0
"""For how long it holds which pods are ending, for those who ask for many Workloads at once."""
_PLACES_A_TURN: Final = 500
"""Places that are compared in one turn."""


class _Rank(IntEnum):
    """What is written first."""

    NEWS = 0
    """Reasons, where people look: on the pod, else on the Workload."""
    WORKLOADS = 1
    """Reasons on the Workloads of pods, which say so already."""
    REFRESHED = 2
    """Numbers and places of what said its reason already."""


class _Saying(NamedTuple):
    """What is being written of a Workload: the same until it is, whatever changes meanwhile."""

    wait: Wait
    place: str


class PendingConditionWriter:
    """Reasons that are known without a cycle, and reasons that are due to be written.

    What people look at comes first: a pod's own condition before that of its Workload, and news
    before numbers (ADR 0067).
    """

    def __init__(
        self,
        state: SchedulerState,
        workloads: WorkloadIndex,
        pods: Pods,
        explainer: ConditionSchedule,
        flow: FlowControl,
        clock: Clock,
        waiting_events: WaitingEventRecorder,
        subject: FindSubject,
        running: RunningPods,
    ) -> None:
        """Prepares it with nothing to write.

        Args:
            state: knows what keeps a Workload from competing.
            workloads: all Workloads.
            pods: have a condition that says why they wait.
            explainer: says which reason is due.
            flow: sends conditions when there is room for them.
            clock: the present.
            waiting_events: tells why something waits once it has for a while.
            subject: finds the owner of a Workload.
            running: know which pods are ending.
        """
        self._log = logs.get("reasons")
        self._running = running
        self._ending_until = 0.0
        self._ending: dict[str, dict[FlavorResource, EndingPods]] | None = None
        """What pods that are ending hold, by ClusterQueue; None to look anew."""
        self._state = state
        self._workloads = workloads
        self._pods = pods
        self._explainer = explainer
        self._flow = flow
        self._clock = clock
        self._waiting_events = waiting_events
        self._subject = subject
        self._due: dict[_Rank, dict[WorkloadKey, None]] = {rank: {} for rank in _Rank}
        self._saying: dict[WorkloadKey, _Saying] = {}
        self._is_held_back = False
        self._compared: dict[ClusterQueueName, float] = {}
        """When places of a queue were compared last."""
        self._to_compare: list[tuple[float, ClusterQueueName]] = []
        self._comparing: deque[WorkloadKey] = deque()

    def note(self, key: WorkloadKey) -> None:
        """Record why a Workload waits, as far as that is known without a cycle."""
        blocked = self._state.blocker(key, int(self._clock.now().timestamp() * 1_000_000))
        now = self._clock.monotonic()
        if blocked is not None:
            self._explainer.tell(blocked, now)
            return
        latest = self._explainer.latest(key)
        if latest is None or latest.reason in OF_BLOCKERS:
            workload = self._state.workload(key)
            if workload is not None and workload.wants_quota:
                self._explainer.tell(self._state.bypassed(key) or _unjudged(key), now)
        latest = self._explainer.latest(key)
        if latest is not None and isinstance(latest.why, NotTried):
            self._state.set_hopeless(key, is_hopeless=self._is_stated_hopeless(key))

    def _is_stated_hopeless(self, key: WorkloadKey) -> bool:
        """Return whether a Workload says itself that it never starts: another leader judged it."""
        workload = self._workloads.get(key)
        stated = None if workload is None else workload.status.condition(conditions.QUOTA_RESERVED)
        return stated is not None and stated.reason in _HOPELESS

    def _is_hopeless(self, wait: Wait) -> bool:
        """Return whether a Workload never starts, whoever else ends.

        One that is too big only while GPUs are sick or missing does.
        """
        is_promised = any(shortage.withheld for shortage in wait.shortages)
        return self._code(wait) in next_steps.NEVER_STARTS and not is_promised

    def set_resized(self) -> None:
        """Take that nodes have come or gone that differ in size."""
        concerns = self._pods.notices.may_exceed_largest_node
        self._explainer.set_resized(concerns, self._clock.monotonic())

    def send(self) -> None:
        """Send what is due; what may not be sent yet stays due.

        There is a pause between texts unless nothing but texts and statuses is written.
        """
        now = self._clock.monotonic()
        self._compare_places(now)
        while (due := self._explainer.pop_due(now)) is not None:
            self._forget(due.workload)
            self._due[_Rank.NEWS if due.is_news else _Rank.REFRESHED][due.workload] = None
        self._is_held_back = False
        all(self._send(rank, now) for rank in _Rank)
        self._waiting_events.collect(now)
        while not self._due[_Rank.NEWS] and (key := self._waiting_events.take()) is not None:
            try:
                self._tell(key, now)
            except Exception:  # noqa: BLE001  # as above
                self._skip(key)

    def next_due(self) -> float | None:
        """Return the monotonic time when the next text may be due."""
        moments = [self._explainer.next_due()]
        if not self._due[_Rank.NEWS]:
            moments.append(self._waiting_events.next_due())
        if self._is_held_back:
            moments.append(self._flow.condition_at)
        if self._comparing:
            moments.append(self._clock.monotonic())
        elif self._to_compare:
            moments.append(self._to_compare[0][0])
        return min((moment for moment in moments if moment is not None), default=None)

    # ------------------------------------------------------------------------------ writing

    def _send(self, rank: _Rank, now: float) -> bool:
        """Send what is due of one rank; return whether there is room for the next."""
        written, has_room = [], True
        for key in self._due[rank]:
            if not self._flow.may_report():
                has_room = False
                break
            if not self._flow.may_report_condition():
                self._is_held_back, has_room = True, False
                break
            if self._flow.is_busy(key):
                continue
            try:
                request = self._next_request(rank, key, now)
            except Exception:  # noqa: BLE001  # one odd Workload must not stop all others
                self._skip(key)
                continue  # it is due until it has rested
            if request:
                self._flow.report_condition(request)
            else:
                written.append(key)
        for key in written:
            del self._due[rank][key]
            if rank == _Rank.NEWS and key in self._saying and self._says_itself(key):
                self._due[_Rank.WORKLOADS][key] = None
            else:
                self._saying.pop(key, None)
        return has_room

    def _skip(self, key: WorkloadKey) -> None:
        """Set a Workload aside for a while: an error ended the look at why it waits."""
        self._log.exception("workload skipped", namespace=key.namespace, name=key.name)
        self._saying.pop(key, None)
        latest = self._explainer.latest(key)
        if latest is not None:
            wait = Wait(workload=key, cluster_queue=latest.cluster_queue, why=SetAside())
            self._explainer.tell(wait, self._clock.monotonic())
        if not self._flow.is_busy(key):
            self._flow.rest(key, flow_control.ODD_SECONDS)

    def _next_request(self, rank: _Rank, key: WorkloadKey, now: float) -> ApiRequest | None:
        """Return the next write of a rank that tells why a Workload waits; None for none."""
        workload = self._workloads.get(key)
        if workload is None or not workload.is_pending() or self._explainer.latest(key) is None:
            self._saying.pop(key, None)  # it waits no more, or its owner has put it on hold
            return None
        saying = self._saying.get(key) or self._say(workload, now)
        if saying is None:
            return None
        request = None
        if rank != _Rank.WORKLOADS:
            request = self._pods.explain(key, *saying)
        is_next = rank in {_Rank.WORKLOADS, _Rank.REFRESHED} or not self._says_itself(key)
        if request is not None or not is_next:
            return request
        status = statuses.explain(workload, saying.wait, self._clock.now())
        if status is None:
            return None
        return api_requests.set_workload_status(workload, WritePurpose.EXPLAIN_WORKLOAD, status)

    def _say(self, workload: Workload, now: float) -> _Saying | None:
        """Decide what is written of a Workload now."""
        key = workload.key()
        wait = self._latest(key)
        if wait is None:
            return None
        self._recall(workload, wait, now)
        self._state.set_hopeless(key, is_hopeless=self._is_hopeless(wait))
        wait, place = self._placed(self._with_ending(self._with_relief(wait)))
        is_of_nodes = bool(self._pods.notices.small_nodes(wait))
        is_passing = bool(wait.ending or wait.preempting)
        self._explainer.write(key, place, now, is_of_nodes=is_of_nodes, is_passing=is_passing)
        saying = self._saying[key] = _Saying(wait, place)
        return saying

    def _forget(self, key: WorkloadKey) -> None:
        self._saying.pop(key, None)
        for keys in self._due.values():
            keys.pop(key, None)

    def _says_itself(self, key: WorkloadKey) -> bool:
        """Return whether the owner of a Workload has a condition that says why it waits."""
        subject = self._subject(key)
        owner = None if subject is None else subject[1].owner
        return owner is not None and owner.kind.has_condition

    # ------------------------------------------------------------------------------- events

    def _tell(self, key: WorkloadKey, now: float) -> None:
        """Tell why a Workload waits, if it still does."""
        workload, wait = self._workloads.get(key), self._of_now(key)
        if workload is None or wait is None or not workload.is_pending():
            return
        wait, place = self._placed(wait)
        if self._explainer.set_told(key, wait, self._code(wait), now):
            relieved = self._with_ending(self._with_relief(wait))
            self._waiting_events.tell(workload, relieved, place, self._first_place)

    def _recall(self, workload: Workload, wait: Wait, now: float) -> None:
        """Assume that an earlier leader recorded the event of a reason that is this old."""
        stated = workload.status.condition(conditions.QUOTA_RESERVED)
        since = self._explainer.since_unwritten(workload.key())
        if stated is None or stated.reason != wait.reason or since is None:
            return
        began = self._clock.now() - timedelta(seconds=now - since)
        told_at = clocks.from_wire(stated.last_transition_time) + _TOLD_AFTER
        if told_at <= began:
            self._explainer.set_told(workload.key(), wait, self._code(wait), now)

    def _code(self, wait: Wait) -> str:
        """Return the code of a reason in the catalogue."""
        return self._pods.notices.explain(wait).reason

    # ------------------------------------------------------------------------------- places

    def _placed(self, wait: Wait) -> tuple[Wait, str]:
        """Return a reason with the queue in which a Workload waits, and its place there."""
        place = self._state.place(wait.workload) if wait.reason in _IN_LINE else None
        if place is None:
            return wait, ""
        name, number = place
        if not wait.cluster_queue:
            wait = replace(wait, cluster_queue=name)
        return wait, sentences.place(number)

    def _first_place(self, keys: Iterable[WorkloadKey]) -> str:
        """Return the place, in words, of the first of some Workloads; empty where none waits."""
        numbers = [place[1] for key in keys if (place := self._state.place(key)) is not None]
        return sentences.place(min(numbers)) if numbers else ""

    def _compare_places(self, now: float) -> None:
        """Look for places and amounts that are not as they are written, where queues moved.

        A queue is looked through once in a while, however often it moves, and over some turns.
        """
        interval = self._explainer.refresh_seconds
        for name in self._state.take_moved():
            before = self._compared.get(name, -math.inf)
            if before <= now:
                self._compared[name] = at = max(now, before + interval)
                heapq.heappush(self._to_compare, (at, name))
        while self._to_compare and self._to_compare[0][0] <= now:
            _, name = heapq.heappop(self._to_compare)
            self._comparing.extend(self._state.with_places_in(name))
        sums: SumsByTree = {}
        for _ in range(min(_PLACES_A_TURN, len(self._comparing))):
            key = self._comparing.popleft()
            wait = self._explainer.latest(key)
            if wait is None:
                continue
            self._explainer.tell(self._of_now(key, sums) or wait, now)
            self._explainer.drift(key, self._placed(wait)[1], now)

    # ------------------------------------------------------------------------------ reasons

    def judged(self, key: WorkloadKey) -> Wait | None:
        """Return why a Workload waits, as it was decided last; None for one that does not."""
        return self._explainer.latest(key)

    def told(self, key: WorkloadKey) -> Wait | None:
        """Return why a Workload waits, as it is told to people; None for one that does not.

        One that this process has not tried, which may not lead, has what is lacking now: why it
        waits, its Workload says if the leader has tried it.
        """
        wait, reason = self.judged(key), ""
        if wait is None:
            return None
        if isinstance(wait.why, NotTried):
            queue, lacking = self._state.shortages(key)
            wait = replace(wait, cluster_queue=queue or wait.cluster_queue, shortages=lacking)
            workload = self._workloads.get(key)
            stated = workload.status.condition(conditions.QUOTA_RESERVED) if workload else None
            reason = "" if stated is None else stated.reason
        else:
            wait = self._with_ending(self._with_relief(self._state.with_caps_of_now(wait)))
        nodes = self._pods.notices.small_nodes(wait, reason)
        return replace(wait, small_nodes=nodes) if nodes else wait

    def _with_relief(self, wait: Wait) -> Wait:
        """Return a reason with the running work whose end would make room on nodes."""
        reason = wait.why
        if not isinstance(reason, NoFlavor) or not reason.no_places:
            return wait
        for flavors in dict.fromkeys(no_place.flavors for no_place in reason.no_places):
            lacking = [place for place in reason.no_places if place.flavors == flavors]
            key = self._state.relief(wait.workload, lacking)
            workload = None if key is None else self._workloads.get(key)
            if workload is not None:
                owner, metadata = workload.metadata.controller(), workload.metadata
                name = metadata.name if owner is None else owner.name
                reason = reason.with_relief(flavors, f"{metadata.namespace}/{name}")
        return replace(wait, why=reason)

    def _with_ending(self, wait: Wait) -> Wait:
        """Return a reason with the pods that are ending and hold most of what is lacking."""
        node = self._state.forest.queues.get(wait.cluster_queue)
        if node is None or wait.reason not in _ENDS_WITH_PODS:
            return wait
        now = self._clock.monotonic()
        if self._ending is None or now >= self._ending_until:
            self._ending, self._ending_until = self._running.ending(), now + _ENDING_SECONDS
        pairs = set(_lacking(wait))
        sums: dict[FlavorResource, EndingPods] = {}
        root = node.root()
        for name, amounts in self._ending.items():
            holder = self._state.forest.queues.get(ClusterQueueName(name))
            if holder is None or holder.root() is not root:
                continue
            for pair in pairs & amounts.keys():
                added = amounts[pair]
                before = sums.get(pair)
                sums[pair] = added if before is None else before.with_pods(*added[2:])
        largest = max(
            sums.values(),
            key=lambda sum_: (is_gpu(sum_.resource), sum_.amount, sum_.resource, sum_.flavor),
            default=None,
        )
        return wait if largest is None else replace(wait, ending=largest)

    def _latest(self, key: WorkloadKey) -> Wait | None:
        """The latest reason; of one that is parked with an equal one, what was said of that."""
        wait = self._explainer.latest(key)
        if wait is None or wait.reason in OF_BLOCKERS:
            return wait
        bypassed = self._state.bypassed(key)
        if bypassed is not None:
            return bypassed
        if isinstance(wait.why, NotTried):
            return self._as_stated(wait)
        return self._state.with_caps_of_now(wait)

    def _of_now(self, key: WorkloadKey, sums: SumsByTree | None = None) -> Wait | None:
        """Return the latest reason, with what is free now and what is held of a cap now."""
        wait = self._latest(key)
        return None if wait is None else self._state.with_free_of_now(wait, sums)

    def _as_stated(self, wait: Wait) -> Wait:
        """Return that nobody has judged a Workload yet, with what it says of itself until then.

        Whoever took the quota back said why, and the Workload may wait long to be tried again.
        Source: kueue pkg/controller/core/workload_controller.go.
        """
        workload = self._workloads.get(wait.workload)
        stated = workload.status.condition(conditions.QUOTA_RESERVED) if workload else None
        if workload is None or stated is None or stated.reason != wait.reason:
            return wait
        evicted = workload.status.condition(conditions.EVICTED)
        if evicted is not None and evicted.status == "True" and evicted.message == stated.message:
            before = EvictedBefore(evicted.reason, stated.message, self._preemption(workload))
            return replace(wait, why=before)
        plain = (NotTried(), GatesCleared())
        same = next((value for value in plain if kueue.message(value) == stated.message), None)
        return replace(wait, why=same or Stated(stated.reason, stated.message))

    def _preemption(self, workload: Workload) -> Preempted | None:
        """Return for which queue an evicted Workload was preempted; None where it was not."""
        preempted = workload.status.condition(conditions.PREEMPTED)
        is_known = preempted is not None and preempted.reason in frozenset(PreemptionReason)
        if preempted is None or not is_known or preempted.status != "True":
            return None
        queues = {queue for _, queue in self._state.preemptors_of(workload.key())}
        cause = PreemptionReason(preempted.reason)
        return Preempted(cause, preemptor_path=queues.pop() if len(queues) == 1 else "")


def _lacking(wait: Wait) -> Iterator[FlavorResource]:
    """Yield of what there is too little, and is more once others give it back."""
    for short in wait.shortages:
        if short.borrowing_limit is None and short.requested <= short.limit:
            yield FlavorResource(short.flavor, short.resource)
    if isinstance(wait.why, NoFlavor):
        for no_place in wait.why.no_places:
            for flavor in no_place.flavors:
                yield FlavorResource(flavor, ResourceName(no_place.resource))


def _unjudged(key: WorkloadKey) -> Wait:
    return Wait(
        workload=key,
        cluster_queue=ClusterQueueName(""),
        why=NotTried(),
    )
