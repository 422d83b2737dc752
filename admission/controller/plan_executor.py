"""Carries plans out: the one place where a plan has effects."""

from admission.base.clock import Clock
from admission.base.events import Events
from admission.base.names import WorkKey
from admission.controller.awaited import AwaitedObjects
from admission.controller.plans import PlanDraft, ReconcilePlan
from admission.controller.writing.flow_control import FlowControl
from admission.controller.writing.work_queue import WorkQueue


class PlanExecutor:
    """Remembers, records and sends what plans ask for.

    Attributes:
        draft: of the plan that is being derived.
        waiting_for: what the last plans wait for, by the key of the Workload.
    """

    def __init__(self, queue: WorkQueue, flow: FlowControl, events: Events, clock: Clock) -> None:
        """Prepare for no plans.

        Args:
            queue: is told when to reconcile a Workload again.
            flow: takes requests.
            events: takes events.
            clock: the present.
        """
        self.draft = PlanDraft()
        self.waiting_for = AwaitedObjects()
        self._queue = queue
        self._flow = flow
        self._events = events
        self._clock = clock

    def carry_out(self, key: WorkKey, plan: ReconcilePlan) -> None:
        """Have the effects of a plan, in the order: notes, waiting, time, events, request."""
        for remember, arguments in plan.notes:
            remember(*arguments)
        self.waiting_for.set(key, plan.waits_for)
        if plan.again is not None:
            self._queue.add_at(key, plan.again, self._clock.now())
        for regarding, event in plan.events:
            self._events.event(regarding, event)
        if plan.request is not None:
            self._flow.submit(plan.request)
