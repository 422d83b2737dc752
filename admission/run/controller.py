"""The controller process: reflectors, the core's thread, writers and pages, wired together."""

import gc
import math
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admission.base import logs, metrics
from admission.base.clock import Clock
from admission.config.addresses import LOOPBACK, Address
from admission.config.derived import Settings
from admission.controller import core
from admission.controller.assembly import cores
from admission.controller.assembly.basis import Installation
from admission.controller.audit import Auditor
from admission.controller.core import Core, Message
from admission.controller.journal import Counting, UsageJournal
from admission.controller.queries import Answer, Query, Reader
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.writing.writer import Sender, WriterPool
from admission.kube.api import Api
from admission.kube.events import EventRecorder
from admission.owners import integrations
from admission.run.certificates import Rotation
from admission.run.contexts import ContextCache
from admission.run.coresource import CoreSource
from admission.run.decision_file import DecisionFile
from admission.run.glass_watch import GlassWatch
from admission.run.leading import Leadership
from admission.run.metrics_access import MetricsAccess
from admission.run.pages import PageServer, Wsgi
from admission.run.queuemarks import QueueMarks
from admission.run.tracing import Traces
from admission.run.watches import ReflectorSet
from admission.scheduling.state import SchedulerState
from admission.serve import probes
from certs.files import CertificateFiles

_BATCH: Final = 512
"""Messages taken before the core decides again; bounds how long a decision waits."""
_YOUNG_OBJECTS: Final = 20_000
"""New objects between two runs of the garbage collector."""
_LISTED_OBJECTS: Final = 500_000
"""The same until everything was listed: what is listed stays, so a walk over it finds nothing."""
_STOP_SECONDS: Final = 5.0
PAUSED: Final = "admission is paused by the administrator"
_RESUME: Final = "start again without --pause-admission, and without admission: Paused in the file"
_ANY_VIEW: Final = 0
"""Number of the view of messages that any core takes."""
_COMPONENT: Final = "gpu-admission"


@dataclass(slots=True)
class _View:
    """Whatever depends on one state of the API server, from its lists on.

    Attributes:
        core: decides.
        watches: tell it what there is.
        auditor: compares what it counts with what there is.
        marks: labels namespaces that have a LocalQueue.
        journal: records for how long quota was held.
        writers: send what it asks for.
        sender: sends for the writers.
        ending: set when all of it is over.
    """

    core: Core
    watches: ReflectorSet
    auditor: Auditor
    marks: QueueMarks
    journal: UsageJournal
    writers: WriterPool
    sender: Sender
    ending: threading.Event


@dataclass(frozen=True, slots=True)
class _Reverted:
    """What the view knows that tells this is not what there is.

    Attributes:
        why: the API server is in an earlier state, or an audit found a difference.
    """

    why: str = "the API server went back to an earlier state"


class ControllerThread:
    """One controller in this process.

    Where the API server went back to an earlier state (an etcd that was restored from a backup),
    all that is known is dropped, as at the end of a process: decisions, requests that were not
    sent, and answers to those that were (ADR 0089).
    """

    def __init__(
        self,
        api: Api,
        settings: Settings,
        clock: Clock,
        leadership: Leadership,
        certificates: Path | None = None,
    ) -> None:
        """Starts nothing yet.

        Args:
            api: its API server.
            settings: what the installation chose.
            clock: source of time.
            leadership: says when to begin.
            certificates: directory of the webhook's certificates; None where there is none.
        """
        self._log = logs.get("controller")
        self._api = api
        self._clock = clock
        self._leadership = leadership
        self._paused = settings.gpu.paused
        self._settings = settings
        self._inbox: queue.SimpleQueue[tuple[int, Message | _Reverted] | None] = (
            queue.SimpleQueue()
        )
        self._stopping = threading.Event()
        self._request_seconds = settings.gpu.controller.request_timeout.total_seconds()
        self._events = EventRecorder(api, _COMPONENT, clock)
        self._decisions = DecisionFile.of(settings.gpu.journal.decisions)
        self._traces = Traces.of(settings.gpu.tracing, "gpu-admission-controller")
        self._views = 0
        self._leads = False
        self._unknown_at = -math.inf
        self._changing = threading.Lock()
        self._view = self._make_view()
        self._rotation = Rotation(
            api, settings, clock, self._events, leadership.may_write, certificates
        )
        self._glass = GlassWatch(api, settings.namespace)
        self._thread = threading.Thread(target=self._run, name="core", daemon=True)
        self._pages: list[PageServer] = []
        metrics.set_build_info()

    def _make_view(self) -> _View:
        """Prepares a view in which nothing is known yet; what came of another is not taken."""
        self._views += 1
        number, settings, ending = self._views, self._settings, threading.Event()

        def put(message: Message | _Reverted) -> None:
            self._inbox.put((number, message))

        def may_write() -> bool:
            return self._leadership.may_write() and watches.is_certain()

        def on_update(message: Message) -> None:
            marks.on_update(message)
            put(message)

        marks = QueueMarks(self._api, may_write)
        kinds = integrations.kinds_of(settings)
        watches = ReflectorSet(self._api, on_update, self._clock, lambda: put(_Reverted()), kinds)
        sender = Sender(self._api, self._clock, ending, may_write)
        writers = WriterPool(sender, put, threads=settings.gpu.controller.writers)
        decides = cores.make(
            Installation(
                state=SchedulerState(settings.scheduling()),
                writer=writers,
                events=self._events,
                clock=self._clock,
                settings=settings,
                accounting=KueueMetrics("standalone" if self._leadership.at_once else "follower"),
                products=settings.gpu.catalogue(),
                health=settings.gpu.health.policy,
                namespaces=settings.managed_namespaces,
                system_namespace=settings.namespace,
                rules=settings.transformations(),
            )
        ).core
        auditor = Auditor(
            self._api,
            lambda question: self.ask(question, self._request_seconds),
            lambda why: put(_Reverted(why)),
            self._events,
            settings.gpu.catalogue(),
            settings.transformations(),
            is_current=lambda: may_write() and decides.synced,
            wait=ending.wait,
            monotonic=self._clock.monotonic,
            interval_seconds=settings.gpu.controller.audit_interval.total_seconds(),
            release_on_deletion=settings.gpu.releases_on_deletion,
            kinds=kinds,
            namespaces=settings.managed_namespaces,
        )

        def ask_counting(question: Callable[[Counting], Answer]) -> Answer:
            return self.ask(lambda _: question(decides.counting), self._request_seconds)

        journal = UsageJournal(
            self._api, ask_counting, settings.namespace, settings.gpu.journal, self._clock,
            lambda: self._leads and may_write(),
        )  # fmt: skip
        return _View(decides, watches, auditor, marks, journal, writers, sender, ending)

    def _begin_view(self) -> None:
        """Begins to list and follow, on the thread of the core or before it is started."""
        view = self._view
        view.writers.start()
        if self._leads:
            view.core.receive(core.LeaderStarted())
        view.watches.start()
        if self._leads:
            view.auditor.start()
        view.marks.start()
        view.journal.start()

    def _change_view(self, why: str) -> None:
        """Drops the cache and all writes that are not sent, and lists everything again."""
        self._log.warning("listing everything again", why=why)
        with self._changing:
            if self._stopping.is_set():
                return
            old = self._view
            old.ending.set()
            old.watches.stop()
            old.auditor.stop()
            old.marks.stop()
            old.journal.stop()
            # Whoever leads next must outwait what was sent and is not answered.
            self._unknown_at = self._clock.monotonic()
            metrics.forget_objects()
            self._view = self._make_view()
            self._begin_view()
        old.writers.stop(0)

    def start(self) -> None:
        """Start all threads; decides nothing before it leads, but knows everything by then."""
        metrics.PAUSED.set(self._paused)
        metrics.LEADER.set_function(self._decides)
        if self._paused:
            self._log.warning(PAUSED, resume=_RESUME)
        self._events.start()
        self._glass.start()
        if self._decisions is not None:
            self._decisions.start()
        if self._traces is not None:
            self._traces.start()
            self._traces.follow_decisions()
        if self._leadership.at_once:
            self._leads = True
            self._rotation.start()
        self._begin_view()
        self._thread.start()
        if not self._leadership.at_once:
            self._leadership.start(self._lead)

    def _lead(self) -> None:
        """Lists everything again, so that no write of an earlier leader is missed, and decides."""
        with self._changing:
            self._leads = True
            self._view.watches.restart(core.LeaderStarted())
            self._view.auditor.start()
        self._rotation.start()

    def _decides(self) -> bool:
        """Return whether this process decides now, and may write what it decides."""
        return self._leads and not self._stopping.is_set() and self._leadership.may_write()

    def ask(self, question: Callable[[Reader], Answer], within_seconds: float) -> Answer:
        """Have the core answer a question between two messages; from any other thread.

        Raises:
            TimeoutError: it did not get to it in time; it will not any more.
        """
        query = Query(question)
        self._inbox.put((_ANY_VIEW, query))
        try:
            return query.answer.result(within_seconds)
        finally:
            query.answer.cancel()

    def serve_pages(self, address: Address, certificates: CertificateFiles | None = None) -> int:
        """Serve health, readiness and metrics; return the port.

        With certificates the pages have TLS, and the API server says who may read metrics.

        On an address that only this machine reaches, also who waits: there nobody asks who asks.
        """
        lists = CoreSource(self.ask) if address.host in LOOPBACK else None
        note = PAUSED if self._paused else ""
        app: Wsgi = probes.create_app(
            alive=self.problem, ready=self.unready, note=note, details=self.details, lists=lists
        )
        context = None
        if certificates is not None:
            app = MetricsAccess(app, self._api, self._clock)
            context = ContextCache(certificates).current
        self._pages.append(PageServer(app, address.host, address.port, context))
        return self._pages[-1].port

    def problem(self) -> str:
        """Return why the process should be restarted; empty when it need not be."""
        if self._stopping.is_set():
            return ""
        if self._leadership.lost:
            return "leadership lost"
        return (
            self._view.watches.stuck() if self._thread.is_alive() else "the core thread has ended"
        )

    def unready(self) -> str:
        """Return what is not known, not up to date, or has expired; empty when all is well."""
        view = self._view
        return view.watches.unready() or view.core.unready() or self._rotation.unready()

    def details(self) -> Iterator[str]:
        """Yield whether it leads, what the Lease says, and the age of each watch."""
        yield f"leader: {'yes' if self._decides() else 'no'}"
        yield f"lease: {self._leadership.lease()}"
        yield from self._view.watches.ages()

    def stop(self) -> None:
        """Stop; writes that were sent are finished, others are left to the next start."""
        self._stopping.set()
        self._rotation.stop()
        self._glass.stop()
        with self._changing:
            view = self._view
            view.ending.set()
            view.watches.stop()
            view.auditor.stop()
            view.marks.stop()
            view.journal.stop()
        self._inbox.put(None)
        self._thread.join(_STOP_SECONDS)
        has_ended = view.writers.stop(_STOP_SECONDS)
        self._leadership.stop(is_drained=has_ended and self._is_certain())
        self._events.stop()
        if self._decisions is not None:
            self._decisions.stop()
        if self._traces is not None:
            self._traces.stop()
        for server in self._pages:
            server.stop()

    def _is_certain(self) -> bool:
        """Return whether the API server can have no request without an answer any more."""
        now = self._clock.monotonic()
        unknown_at = max(self._unknown_at, self._view.sender.unknown_at)
        return now >= unknown_at + self._request_seconds

    def _run(self) -> None:
        gc.set_threshold(_LISTED_OBJECTS)
        timeout: float | None = None
        settled: Core | None = None
        while not self._stopping.is_set():
            self._receive(timeout)
            if self._view.core.is_reverted:
                self._change_view(_Reverted().why)
            began = self._clock.monotonic()
            decides = self._view.core
            timeout = decides.step()
            self._gather(began)
            if settled is not decides and decides.synced:
                settled = decides
                settle_memory()

    def _gather(self, began: float) -> None:
        """Leaves what arrives in the inbox until the next turn may begin."""
        if rest := self._view.core.gathering_seconds:
            self._stopping.wait(max(0.0, began + rest - self._clock.monotonic()))

    def _receive(self, timeout: float | None) -> None:
        """Waits for a message, then takes what has arrived with it."""
        metrics.INBOX_MESSAGES.set(self._inbox.qsize())
        try:
            message = self._inbox.get(timeout=timeout)
            for _ in range(_BATCH):
                self._take(message)
                message = self._inbox.get_nowait()
            self._take(message)
        except queue.Empty:
            return

    def _take(self, taken: tuple[int, Message | _Reverted] | None) -> None:
        """Takes a message, unless it tells of an earlier view."""
        if taken is None or taken[0] not in (_ANY_VIEW, self._views):
            return
        if isinstance(taken[1], _Reverted):
            self._change_view(taken[1].why)
        else:
            self._view.core.receive(taken[1])


def settle_memory() -> None:
    """Take what was listed out of the garbage collector's sight.

    It lives as long as the process; walking it again and again would stop all threads for longer
    than a scheduling cycle takes.
    """
    gc.unfreeze()  # of what was known before
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
