"""Has what is to be done about one Workload done: decides, derives its plan, carries it out."""

from typing import Final

from admission.base import logs
from admission.base.names import PodCharge, WorkKey, WorkloadKey
from admission.controller.plan_executor import PlanExecutor
from admission.controller.plans import ReconcilePlan
from admission.controller.quarantine import Quarantine
from admission.controller.reconciler import Reconciler, SubjectOf
from admission.controller.scheduler import Scheduler
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import flow_control
from admission.controller.writing.flow_control import FlowControl
from admission.controller.writing.work_queue import WorkQueue

_DECISIONS_A_TURN: Final = 3
"""Times that a plan is derived again after what was decided for it."""


class Reconciling:
    """Advances Workloads one by one.

    Attributes:
        reconciler: derives plans.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        plans: PlanExecutor,
        *,
        subject: SubjectOf,
        workloads: WorkloadIndex,
        quarantine: Quarantine,
        running: RunningPods,
        scheduling: Scheduler,
        flow: FlowControl,
        queue: WorkQueue,
    ) -> None:
        """Prepare for any Workload.

        Args:
            reconciler: derives plans.
            plans: carries them out.
            subject: see `SubjectOf`.
            workloads: all that can be read.
            quarantine: those that cannot.
            running: pods that run without a Workload.
            scheduling: decides about quota.
            flow: knows about what a request is open.
            queue: takes what is to be advanced, too.
        """
        self.reconciler = reconciler
        self._plans = plans
        self._subject = subject
        self._workloads = workloads
        self._quarantine = quarantine
        self._running = running
        self._scheduling = scheduling
        self._flow = flow
        self._queue = queue
        self._log = logs.get("core")

    def advance(self, key: WorkKey) -> None:
        """Do what is to be done about a Workload or pod, unless a request about it is open."""
        current = self._workloads.current(key) if isinstance(key, WorkloadKey) else key
        if current != key:
            self._queue.add(current)  # pods name the first slice of their owner
        if self._flow.is_busy(key) or key in self._quarantine:
            return
        try:
            plan = self._plan(key)
            self._plans.carry_out(key, plan)
        except Exception:  # noqa: BLE001  # one odd Workload must not stop all others
            self._log.exception("workload skipped", namespace=key.namespace, name=key.title())
            self._flow.rest(key, flow_control.ODD_SECONDS)
            return
        if plan.request is not None:
            return
        self._flow.pause(key)
        if self._workloads.get(key) is None and self._subject(key) is None:
            self._flow.forget(key)

    def _plan(self, key: WorkKey) -> ReconcilePlan:
        """Return the plan for a Workload; what has to be decided for it is decided at once.

        So no decision is left without its request, and none of an earlier turn counts.
        """
        if isinstance(key, PodCharge):
            self._running.on_turn(key)
        if isinstance(key, WorkloadKey):
            self._scheduling.on_turn(key)
        plan = self.reconciler.reconcile(key)
        for _ in range(_DECISIONS_A_TURN):
            if not plan.decisions:
                break
            for decide, arguments in plan.decisions:
                decide(*arguments)
            plan = self.reconciler.reconcile(key)
        return plan
