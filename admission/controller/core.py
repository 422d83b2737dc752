"""The controller's one thread of decisions: messages in, writes out.

Watch events and write outcomes arrive on one queue. Each turn of the loop takes what has arrived,
runs at most one scheduling cycle, and sends for every Workload at most one write, the next one
that its present state asks for. A test can turn the loop by hand: `receive`, then `step`.
"""

from dataclasses import dataclass
from typing import Any, Final

from admission.base import metrics
from admission.base.clock import Clock
from admission.controller.effects import EffectRecorder
from admission.controller.journal import Counting
from admission.controller.present_state import PresentState
from admission.controller.quarantine import Unreadable
from admission.controller.queries import Query
from admission.controller.reconciling import Reconciling
from admission.controller.reports import Reports
from admission.controller.request_results import RequestResults
from admission.controller.routes import WorkloadRoutes
from admission.controller.scheduler import Scheduler
from admission.controller.seeing.informers import Change
from admission.controller.surroundings import Surroundings
from admission.controller.taking_over import TakingOver
from admission.controller.turns import Turns
from admission.controller.watched_kinds import WatchedKinds
from admission.controller.watched_owners.brake import Brake
from admission.controller.watched_owners.rollouts import Rollouts
from admission.controller.writing.api_requests import RequestResult
from admission.controller.writing.flow_control import FlowControl
from admission.controller.writing.work_queue import WorkQueue
from admission.kube import resources
from admission.kube.reflector import Arrived, Upserted
from admission.kube.resources import Resource

_JUDGED_WHEN_SEEN: Final = frozenset({resources.WORKLOADS, resources.BOUND_PODS, resources.NODES})
"""Kinds whose handlers say themselves whether a new version calls for a turn."""
_LOOKED_AT_A_TURN: Final = 500
"""Workloads whose next request is derived in one turn; a leader that begins looks at all."""


@dataclass(frozen=True, slots=True)
class WatchMessage:
    """A message: a watch saw a change."""

    resource: Resource
    change: Change[Any]


@dataclass(frozen=True, slots=True)
class Unserved:
    """A kind is not served any more; what is known of it is old until it is listed again."""

    resource: Resource


class LeaderStarted:
    """This process leads from now on; what is listed after this message is up to date."""


Message = WatchMessage | Unserved | Unreadable | RequestResult | LeaderStarted | Query[Any]


class Core:
    """The loop: takes messages, and turns; owned by one thread.

    Attributes:
        counting: counts for how long quota is held.
        present: answers queries.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        turns: Turns,
        kinds: WatchedKinds,
        routes: WorkloadRoutes,
        results: RequestResults,
        surroundings: Surroundings,
        taking_over: TakingOver,
        scheduling: Scheduler,
        reconciling: Reconciling,
        reports: Reports,
        effects: EffectRecorder,
        present: PresentState,
        counting: Counting,
        flow: FlowControl,
        queue: WorkQueue,
        brake: Brake,
        rollouts: Rollouts,
    ) -> None:
        """Lead not yet.

        Args:
            clock: the present.
            turns: say when a turn has something to do.
            kinds: take what is watched.
            routes: take what is seen of Workloads besides.
            results: take what became of requests.
            surroundings: take into account what has changed around Workloads.
            taking_over: takes back what a former leader gave away.
            scheduling: runs cycles.
            reconciling: advances Workloads.
            reports: what only people read.
            effects: reports what took effect.
            present: answers queries.
            counting: counts for how long quota is held.
            flow: says what may be sent.
            queue: of Workloads to be advanced.
            brake: holds stops back.
            rollouts: of Deployments.
        """
        self._clock = clock
        self._turns = turns
        self._kinds = kinds
        self._routes = routes
        self._results = results
        self._surroundings = surroundings
        self._taking_over = taking_over
        self._scheduling = scheduling
        self._reconciling = reconciling
        self._reports = reports
        self._effects = effects
        self.present = present
        self.counting = counting
        self._flow = flow
        self._queue = queue
        self._brake = brake
        self._rollouts = rollouts
        self._is_leading = False

    @property
    def is_reverted(self) -> bool:
        """Return whether the API server is in an earlier state than what is known.

        Nothing is decided any more then, and another core must begin from new lists.
        """
        return self._kinds.is_reverted

    @property
    def synced(self) -> bool:
        """Return whether every kind was listed that decisions need; nothing is decided before."""
        return self._kinds.synced

    def unready(self) -> str:
        """Return what of the lists that decisions need was not taken yet; from any thread."""
        return self._kinds.unready()

    @property
    def gathering_seconds(self) -> float:
        """Least time between the starts of two turns, so that messages gather; mostly 0."""
        return self._flow.gathering_seconds(self._scheduling.open_decisions)

    def _lead(self) -> None:
        """Decides from now on, once every kind was listed again.

        What was watched before is kept, but it may lack the last writes of an earlier leader.
        """
        self._kinds.list_again()
        self._taking_over.lead()
        self._is_leading = True
        self._effects.lead()
        self._brake.lead()

    def receive(self, message: Message) -> None:
        """Take one message; a version of a Workload that is alike for us calls for no turn."""
        is_of_node = isinstance(message, WatchMessage) and message.resource is resources.NODES
        self._turns.messages += not (is_of_node or isinstance(message, Query))
        self._turns.is_called |= not (
            isinstance(message, WatchMessage)
            and message.resource in _JUDGED_WHEN_SEEN
            and isinstance(message.change, Upserted)
        )
        match message:
            case WatchMessage(change=Arrived()) if (
                self.synced or not self._kinds.know_surroundings()
            ):
                pass  # it comes again
            case WatchMessage(resource=resource, change=change):
                self._results.show(resource, change)
                self._kinds.apply(resource, change)
                if resource is resources.WORKLOADS:
                    self._routes.on_change(change)
            case Unserved(resource=resource):
                self._kinds.unserved(resource)
            case Unreadable():
                self._routes.on_unreadable(message)
            case RequestResult():
                self._results.complete(message)
            case Query():
                message.run(self.present)
            case LeaderStarted():
                self._lead()
        self.counting.update(lambda: self.synced)

    def step(self) -> float | None:
        """Do what is to be done now.

        Returns:
            Seconds after which to call again even without a message; None: not before one.
        """
        if not self._is_leading:
            return None
        if not self.synced:
            return self._let_kinds_go()
        if not self._turns.begin():
            return self._turns.due_in()
        self._surroundings.settle()
        self._taking_over.settle()
        self._results.settle()
        self._queue.add_due()
        self._queue.add_all(self._brake.pop_due())
        self._queue.add_decided(self._rollouts.settle())
        self._queue.add_decided(self._scheduling.run())
        for _ in range(_LOOKED_AT_A_TURN):
            key = self._queue.pop(self._flow.may_decide) if self._flow.may_send() else None
            if key is None:
                break
            self._reconciling.advance(key)
        self._flow.end_turn(self._scheduling.open_decisions)
        self.counting.update(lambda: True)
        self._reports.send()
        metrics.WRITES_IN_FLIGHT.set(self._flow.sending)
        metrics.WRITES_UNKNOWN.set(self._flow.unknown)
        due_in = self._next_due_in()
        self._turns.end(due_in)
        return due_in

    def _let_kinds_go(self) -> float | None:
        """Take finalizers off what is deleted with its kind; nothing else while a kind is gone.

        A CRD that is being deleted waits for them.
        """
        if not self._kinds.are_only_unserved_lacking():
            return None
        self._results.settle()
        moments = (
            self._reports.send_statuses(self._clock.monotonic()),
            self._flow.next_due_in(),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def _next_due_in(self) -> float | None:
        if self._flow.may_send() and self._queue.has_next(self._flow.may_decide):
            return 0.0
        moments = (
            self._surroundings.next_due_in(), self._flow.next_due_in(),
            self._scheduling.next_due_in(), self._queue.next_due_in(), self._brake.next_due_in(),
            self._rollouts.next_due_in(), self._reports.next_due_in(self._clock.monotonic()),
        )  # fmt: skip
        return min((moment for moment in moments if moment is not None), default=None)
