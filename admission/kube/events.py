"""Events as kubectl shows them: written by a worker, never in the way of whoever reports.

Repeats of the same event become one object with a series, as client-go's tools/events does it.
"""

import queue
import random
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
from typing_extensions import override

from admission.base import clock as clocks
from admission.base import logs, patches
from admission.base.clock import Clock
from admission.base.events import Event, Events
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.kube.connectivity import warn

_QUEUED: Final = 1000
_KNOWN: Final = 4096
_SERIES_SECONDS: Final = 360.0
_FLUSH_SECONDS: Final = 60.0
_NOTE_BYTES: Final = 1024
_DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class _Report:
    """What was reported; equal reports are one series, with a new note once a minute at most."""

    namespace: str
    regarding: bytes
    type: str
    reason: str
    cause: str
    note: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Known:
    """An event that exists on the server.

    Attributes:
        name: of the object.
        note: of the object, which cannot change.
        count: how often it was reported, this time included.
        last: monotonic time of the last report.
        written: the count that the server knows.
        written_at: monotonic time of that write.
    """

    name: str
    note: str
    count: int
    last: float
    written: int
    written_at: float


class _Nothing(msgspec.Struct):
    """Answers are of no interest."""


class EventRecorder(Events):
    """Reports events; `event` may be called from any thread and never blocks.

    The first of equal reports is written at once, the second as a series, further ones are
    counted and written at most once a minute. A report that does not find room is dropped.

    Attributes:
        dropped: reports that did not find room.
        failed: events that the server did not take.
    """

    def __init__(
        self,
        api: Api,
        component: str,
        clock: Clock,
        *,
        instance: str = "",
        capacity: int = _QUEUED,
        rng: random.Random | None = None,
    ) -> None:
        """Prepares a recorder; `start` starts its worker.

        Args:
            api: where events go.
            component: name of the reporter (``reportingController``).
            clock: source of timestamps.
            instance: name of this one of several reporters; by default the component's name.
            capacity: reports that may wait.
            rng: makes names unique.
        """
        self.dropped = 0
        self.failed = 0
        self._api = api
        self._component = component
        self._instance = instance or component
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311  # names, no secrets
        self._queue: queue.Queue[_Report | None] = queue.Queue(capacity)
        self._known: OrderedDict[_Report, _Known] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._log = logs.get("events")

    def start(self) -> None:
        """Start the worker."""
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """Write what is waiting, for at most that long, then stop."""
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        self._stopping.set()

    @override
    def event(self, regarding: Mapping[str, Any], event: Event) -> None:
        """Report something that happened to an object; its note is cut at 1 KiB.

        Args:
            regarding: reference to the object: apiVersion, kind, name, namespace, uid.
            event: what it says.
        """
        report = _Report(
            namespace=regarding.get("namespace") or _DEFAULT_NAMESPACE,
            regarding=msgspec.json.encode(regarding, order="deterministic"),
            type=event.type,
            reason=event.reason,
            cause=event.cause or event.note,
            note=_cut(event.note),
        )
        try:
            self._queue.put_nowait(report)
        except queue.Full:
            self.dropped += 1

    # ---------------------------------------------------------------------------------- worker

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                report = self._queue.get(timeout=_FLUSH_SECONDS)
            except queue.Empty:
                self.flush()
                continue
            if report is None:
                break
            self._handle(report)
        self.flush(everything=True)

    def drain(self) -> None:
        """Handle what is waiting, in the caller's thread: for tests and short programs."""
        while True:
            try:
                report = self._queue.get_nowait()
            except queue.Empty:
                return
            if report is not None:
                self._handle(report)

    def _handle(self, report: _Report) -> None:
        """Writes a report, or counts it where that is enough."""
        now = self._clock.monotonic()
        known_report = self._known.pop(report, None)
        try:
            if known_report is None or self._is_over(report, known_report, now):
                if known_report is not None and known_report.count > known_report.written:
                    self._write_series(report, known_report, now)
                name = self._create(report)
                self._known[report] = _Known(name, report.note, 1, now, 1, now)
            else:
                self._known[report] = self._counted(report, known_report, now)
        except errors.KubeError as error:
            self.failed += 1
            warn(self._log, "event lost", error, reason=report.reason)
        except Exception:  # noqa: BLE001  # the thread must live on
            self.failed += 1
            self._log.exception("event lost", reason=report.reason)
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)

    def flush(self, *, everything: bool = False) -> None:
        """Write counts that the server does not know, and forget series that are over."""
        now = self._clock.monotonic()
        for report, known_report in list(self._known.items()):
            if known_report.count > known_report.written and (
                everything or self._is_due(known_report, now)
            ):
                try:
                    self._known[report] = self._write_series(report, known_report, now)
                except errors.KubeError:
                    self.failed += 1
            elif now - known_report.last > _SERIES_SECONDS:
                del self._known[report]

    def _counted(self, report: _Report, report_state: _Known, now: float) -> _Known:
        counted = replace(report_state, count=report_state.count + 1, last=now)
        if counted.written > 1 and not self._is_due(counted, now):
            return counted
        return self._write_series(report, counted, now)

    def _is_over(self, report: _Report, report_state: _Known, now: float) -> bool:
        """Return whether a report begins a series: a late one says what is no longer so."""
        if now - report_state.last > _SERIES_SECONDS:
            return True
        return report.note != report_state.note and self._is_due(report_state, now)

    def _is_due(self, report_state: _Known, now: float) -> bool:
        return now - report_state.written_at >= _FLUSH_SECONDS

    def _create(self, report: _Report) -> str:
        regarding = msgspec.json.decode(report.regarding)
        name = f"{regarding.get('name', 'unknown')}.{self._rng.getrandbits(64):016x}"
        document = {
            "metadata": {"name": name, "namespace": report.namespace},
            "eventTime": clocks.to_wire_micro(self._clock.now()),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "type": report.type,
            "reason": report.reason,
            "action": report.reason,
            "note": report.note,
            "regarding": regarding,
        }
        self._api.create(resources.EVENTS, document, report.namespace, into=_Nothing)
        return name

    def _write_series(self, report: _Report, report_state: _Known, now: float) -> _Known:
        last = clocks.to_wire_micro(self._clock.now())
        series = {"series": {"count": report_state.count, "lastObservedTime": last}}
        patch = patches.merge(series)
        try:
            self._api.patch(
                resources.EVENTS, report_state.name, patch, report.namespace, into=_Nothing
            )
        except errors.NotFoundError:
            # Events live an hour on the server.
            return replace(
                report_state, name=self._create(report), note=report.note, count=1, written=1,
                written_at=now,
            )  # fmt: skip
        return replace(report_state, written=report_state.count, written_at=now)


def _cut(note: str) -> str:
    """At most what the server accepts, without half a character at the end."""
    raw = note.encode()
    return note if len(raw) <= _NOTE_BYTES else raw[:_NOTE_BYTES].decode(errors="ignore")
