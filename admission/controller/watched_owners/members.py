"""Pods of owners that were admitted as a whole: how many are there, scheduled and ready."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from admission.base import clock, names
from admission.base.causes import MemberCounts
from admission.base.clock import Clock
from admission.base.names import WorkloadKey
from admission.base.tables import Table
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner

_SCHEDULED: Final = "PodScheduled"
_GATED: Final = "SchedulingGated"
"""It stays after the last gate was taken off, until the scheduler has looked at the pod."""


_PAUSE: Final = timedelta(seconds=30)
"""Between two changes of the pods of a Workload that belong to different series."""
_REMEMBERED: Final = timedelta(seconds=60)
"""For how long after the last pod went it is known when; longer than any quiet time."""


class _Member(NamedTuple):
    """What a pod says of itself.

    Attributes:
        of: the Workload that it was admitted with.
        node: where it is bound; empty for nowhere.
        is_ready: whether it is ready, or has succeeded.
        is_over: whether it has failed, or is being deleted.
        why: why the scheduler finds no node for it.
    """

    of: WorkloadKey
    node: str
    is_ready: bool
    is_over: bool
    why: str


class _Changes:
    """When pods of one Workload changed; changes without a pause are one series.

    Attributes:
        changed_at: when one came, changed or went last.
        changing_since: when the series began.
    """

    __slots__ = ("changed_at", "changing_since")

    def __init__(self, now: datetime) -> None:
        """Begin a series."""
        self.changed_at = now
        self.changing_since = now

    def changed(self, now: datetime) -> None:
        """Take that a pod has come, gone or changed."""
        if now - self.changed_at > _PAUSE:
            self.changing_since = now
        self.changed_at = now


class _MemberStore(Table[str, _Member]):
    """What pods say of themselves, by UID.

    Attributes:
        of_workload: by the Workload that they were admitted with.
        states: how many of a Workload are not over, by whether each has a node and is ready.
        nodes: those of a Workload by node.
        reasons: those of a Workload by why no node was found.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_workload = self.index(lambda _, member: (member.of,))
        self.states = self.tally(
            lambda _, member: (
                None if member.is_over else (member.of, (bool(member.node), member.is_ready))
            )
        )
        self.nodes = self.tally(
            lambda _, member: (
                None if member.is_over or not member.node else (member.of, member.node)
            )
        )
        self.reasons = self.tally(
            lambda _, member: None if member.is_over or not member.why else (member.of, member.why)
        )


class Members:
    """Pods by the Workload that they were admitted with; single pods are not counted."""

    def __init__(
        self,
        clock: Clock,
        is_lost: Callable[[str], bool],
        look_at: Callable[[Iterable[WorkloadKey]], None],
        first: Callable[[WorkloadKey], WorkloadKey] = lambda key: key,
    ) -> None:
        """Prepare an empty index.

        Args:
            clock: source of time.
            is_lost: returns whether a node does not exist, or is not ready.
            look_at: is told of which Workload a pod has come, gone or changed.
            first: returns the key that pods name, from that of a slice.
        """
        self._first = first
        self._clock = clock
        self._is_lost = is_lost
        self._look_at = look_at
        self._pods = _MemberStore()
        self._changes: dict[WorkloadKey, _Changes] = {}
        self._emptied: dict[WorkloadKey, datetime] = {}
        """When the last pod of a Workload went, in the order of time; at least for a minute."""

    def on_update(self, pod: views.Pod) -> None:
        """Take a pod as it is now."""
        uid, member = pod.metadata.uid, _member(pod)
        before = self._pods.get(uid)
        if before is not None and (member is None or member.of != before.of):
            self.on_delete(uid)
        if member is None or before == member:
            return
        if member.of not in self._changes:
            self._changes[member.of] = _Changes(self._clock.now())
            self._emptied.pop(member.of, None)
        self._pods.put(uid, member)
        self._changed(member.of)

    def on_delete(self, uid: str) -> None:
        """Take the news that a pod is gone."""
        member = self._pods.pop(uid)
        if member is None:
            return
        if member.of in self._pods.of_workload:
            self._changed(member.of)
        else:
            del self._changes[member.of]
            self._note_empty(member.of)
            self._look_at((member.of,))

    def _note_empty(self, key: WorkloadKey) -> None:
        """Remember since when a Workload has no pods, for as long as that can matter."""
        now = self._clock.now()
        self._emptied.pop(key, None)
        self._emptied[key] = now
        while now - self._emptied[oldest := next(iter(self._emptied))] > _REMEMBERED:
            del self._emptied[oldest]

    def _changed(self, key: WorkloadKey) -> None:
        self._changes[key].changed(self._clock.now())
        self._look_at((key,))

    def counts_of_pod(self, workload: Workload, pod: views.Pod) -> MemberCounts | None:
        """Return the counts of a single pod that does not run; None if nothing is known.

        It ends, or waits, or the scheduler has said nothing of it yet.
        """
        is_leaving = bool(pod.metadata.deletion_timestamp) or pod_owner.is_terminal(pod)
        member = _as_member(pod, workload.key())
        if is_leaving or pod_owner.is_gated(pod) or not (member.node or member.why):
            return None
        is_lost = bool(member.node) and not member.is_ready and self._is_lost(member.node)
        return MemberCounts(
            asked=1,
            created=1,
            scheduled=int(bool(member.node)),
            ready=int(member.is_ready),
            why=member.why,
            lost_nodes=(member.node,) if is_lost else (),
        )

    def changed_at(self, key: WorkloadKey, pod: views.Pod | None = None) -> datetime | None:
        """Return when a pod of a Workload last came, changed or went; None if it is not known.

        That all went is known for a minute at least.

        Args:
            key: of the Workload.
            pod: the pod, where it is a single one.
        """
        if pod is not None:
            scheduled = (
                condition
                for condition in pod.status.conditions or ()
                if condition.type == _SCHEDULED
            )
            at = next((condition.last_transition_time for condition in scheduled), None)
            return clock.from_wire(at) if at else None
        first = self._first(key)
        changes = self._changes.get(first)
        return self._emptied.get(first) if changes is None else changes.changed_at

    def changing_since(self, key: WorkloadKey) -> datetime | None:
        """Return since when the pods of a Workload change without a pause, or did so last."""
        changes = self._changes.get(self._first(key))
        return None if changes is None else changes.changing_since

    def counts(self, workload: Workload) -> MemberCounts:
        """Return the counts of a Workload's pods, and why the others do not run."""
        requested, key = _asked(workload), self._first(workload.key())
        states = self._pods.states.of(key).items()
        ready = sum(count for (_, is_ready), count in states if is_ready)
        reasons = self._pods.reasons.of(key)
        lost = filter(self._is_lost, self._pods.nodes.of(key)) if ready < requested else ()
        return MemberCounts(
            asked=requested,
            created=sum(count for _, count in states),
            scheduled=sum(count for (has_node, _), count in states if has_node),
            ready=ready,
            why=min(reasons, key=lambda text: (-reasons[text], text), default=""),
            lost_nodes=tuple(sorted(lost)),
        )


def _asked(workload: Workload) -> int:
    """Return the number of pods of a Workload: as admitted, else as requested."""
    admission = workload.status.admission
    assigned = (admission.pod_set_assignments if admission else None) or ()
    counts = {pod_set.name: pod_set.count for pod_set in assigned}
    pod_sets = workload.spec.pod_sets or ()
    return sum(
        min(counts.get(pod_set.name) or pod_set.count, pod_set.count) for pod_set in pod_sets
    )


def _member(pod: views.Pod) -> _Member | None:
    """Return what a pod says of itself; None of a single pod, and of one that nobody admitted.

    A copy of an admitted pod has its annotation, and waits.
    """
    named = pod.metadata.annotation(names.WORKLOAD_ANNOTATION)
    if not named or pod_owner.is_gated(pod) or named == pod_owner.KIND.key_of(pod).name:
        return None
    return _as_member(pod, WorkloadKey(pod.metadata.namespace, named))


def _as_member(pod: views.Pod, key: WorkloadKey) -> _Member:
    """Return what a pod says of itself, as one of a Workload."""
    status = pod.status
    has_succeeded = status.phase == "Succeeded"
    is_over = status.phase == "Failed" or (
        bool(pod.metadata.deletion_timestamp) and not has_succeeded
    )
    why = next(
        (
            condition.message
            for condition in status.conditions or ()
            if (condition.type, condition.status) == (_SCHEDULED, "False")
            and not pod.spec.node_name
            if condition.reason != _GATED or pod.spec.scheduling_gates
        ),
        "",
    )
    return _Member(
        key,
        pod.spec.node_name,
        has_succeeded or pod_owner.is_ready(pod),
        is_over,
        why,
    )
