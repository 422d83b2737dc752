"""Writes down why Workloads wait, whenever there is nothing better to write."""

from dataclasses import replace

from admission.base import conditions
from admission.base.clock import Clock
from admission.base.names import ClusterQueueName, WorkloadKey
from admission.controller.explaining import OF_BLOCKERS, Explainer
from admission.controller.watched_owners.pods import Pods
from admission.controller.workloads import statuses
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest, Operation
from admission.controller.writing.flow_control import FlowControl
from admission.scheduling.decisions import Wait
from admission.scheduling.state import State


class PendingConditions:
    """Reasons that are known without a cycle, and reasons that are due to be written."""

    def __init__(
        self,
        state: State,
        workloads: WorkloadIndex,
        pods: Pods,
        explainer: Explainer,
        flow: FlowControl,
        clock: Clock,
    ) -> None:
        """Prepares it with nothing to write.

        Args:
            state: knows what keeps a Workload from competing.
            workloads: all Workloads.
            pods: have a condition that says why they wait.
            explainer: says which reason is due.
            flow: sends conditions when there is room for them.
            clock: the present.
        """
        self._state = state
        self._workloads = workloads
        self._pods = pods
        self._explainer = explainer
        self._flow = flow
        self._clock = clock
        self._due: dict[WorkloadKey, None] = {}
        self._is_held_back = False

    def note(self, key: WorkloadKey) -> None:
        """Notes why a Workload waits, as far as that is known without a cycle."""
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

    def send(self) -> None:
        """Sends what is due; what may not be sent yet stays due.

        There is a pause between texts unless nothing but texts and statuses is written.
        """
        now = self._clock.monotonic()
        while (due := self._explainer.take_due(now)) is not None:
            self._due[due.workload] = None
        said = []
        self._is_held_back = False
        for key in self._due:
            if not self._flow.may_report():
                break
            if not self._flow.may_report_condition():
                self._is_held_back = True
                break
            if self._flow.is_busy(key):
                continue
            wait = self._latest(key)
            request = wait and self._explain(key, wait)
            if request:
                self._flow.report_condition(request)
            else:
                said.append(key)
        for key in said:
            del self._due[key]

    def next_due(self) -> float | None:
        """Monotonic time when the next text may be due."""
        due = self._explainer.next_due()
        if not self._is_held_back:
            return due
        return self._flow.condition_at if due is None else min(due, self._flow.condition_at)

    def _explain(self, key: WorkloadKey, wait: Wait) -> ApiRequest | None:
        """Return the next write that tells why a Workload waits: on itself, then on its pod."""
        workload = self._workloads.get(key)
        if workload is None or not workload.is_pending():
            return None
        status = statuses.explain(workload, wait, self._clock.now())
        if status is not None:
            return api_requests.set_workload_status(workload, Operation.EXPLAIN_WORKLOAD, status)
        return self._pods.explain(key, wait)

    def _latest(self, key: WorkloadKey) -> Wait | None:
        """The latest reason; of one that is parked with an equal one, what was said of that."""
        wait = self._explainer.latest(key)
        if wait is None or wait.reason in OF_BLOCKERS:
            return wait
        bypassed = self._state.bypassed(key)
        if bypassed is not None:
            return bypassed
        return self._as_said(key, wait) if wait.message == conditions.NOT_JUDGED.message else wait

    def _as_said(self, key: WorkloadKey, wait: Wait) -> Wait:
        """That nobody has judged yet, in the words that tell why it is so, where there are any.

        Whoever took the quota back said why, and the Workload may wait long to be tried again.
        Source: kueue pkg/controller/core/workload_controller.go.
        """
        workload = self._workloads.get(key)
        said = workload.status.condition(conditions.QUOTA_RESERVED) if workload else None
        if said is None or said.reason != wait.reason:
            return wait
        return replace(wait, message=said.message)


def _unjudged(key: WorkloadKey) -> Wait:
    return Wait(
        workload=key,
        cluster_queue=ClusterQueueName(""),
        reason=conditions.NOT_JUDGED.reason,
        message=conditions.NOT_JUDGED.message,
    )
