"""OpenTelemetry spans of one pod's way, where an endpoint for them is configured (ADR 0196).

Everything about a span follows from one review, or from lines of the log about decisions, so the
webhook and the controller share nothing: the trace of a pod is its UID. Whoever reviews or
decides only puts a span into a queue of limited length; a thread of its own sends. What does not
find room is left out, and a line of the log says how many were.
"""

import hashlib
import logging
import queue
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, Self

from typing_extensions import override

from admission.base import clock as clocks
from admission.base import logs
from admission.base.errors import AdmissionError
from admission.config.gpu_configuration import Tracing
from admission.webhook.reviewing import Answered

COMPONENT: Final = "decisions"
_QUEUED: Final = 10_000
_BATCH: Final = 512
_GATHER_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 2.0
_SEND_SECONDS: Final = 10.0
_REMEMBERED: Final = 50_000
"""Workloads whose time of reservation is known more exactly than to the second."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_RESERVED: Final = frozenset({"quota reserved", "workload admitted"})
_OVER: Final = frozenset(
    {"quota released", "workload evicted", "workload deactivated", "workload finished"}
)
_POD: Final = "pod"


class TracingError(AdmissionError):
    """Traces are configured and cannot be sent."""

    advice = (
        "Install gpu-admission with the extra otel (pip install 'gpu-admission[otel]'), "
        "or leave tracing.endpoint empty."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a pod's way.

    Attributes:
        name: which part.
        trace_id: number of the trace, of 128 bits.
        span_id: number of the span, of 64 bits.
        parent_id: number of the span that it is a part of; None for none.
        start_ns: nanoseconds since 1970.
        end_ns: as above, not before the start.
        attributes: what is known of the pod.
    """

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str]


class Exporter(Protocol):
    """Sends spans to a collector."""

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans; what cannot be sent is lost, and a line of the log says so."""
        ...

    def close(self) -> None:
        """End an attempt to send that waits."""
        ...


class Traces:
    """Makes spans and has them sent."""

    def __init__(
        self, exporter: Exporter, *, room: int = _QUEUED, gather_seconds: float = _GATHER_SECONDS
    ) -> None:
        """Send nothing yet.

        Args:
            exporter: sends.
            room: spans that may wait to be sent.
            gather_seconds: how long spans are gathered before they are sent together.
        """
        self._exporter = exporter
        self._gather_seconds = gather_seconds
        self._spans: queue.Queue[Span] = queue.Queue(room)
        self._reserved: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._left_out = 0
        self._log = logs.get("tracing")
        self._stopping = threading.Event()
        self._arrived = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracing", daemon=True)

    @classmethod
    def of(cls, settings: Tracing, service: str) -> Self | None:
        """Return what is configured; None for no traces.

        Args:
            settings: where spans are sent.
            service: name under which the collector shows them.

        Raises:
            TracingError: the packages that send spans are not installed.
        """
        return cls(_otlp(settings.endpoint, service)) if settings.endpoint else None

    def start(self) -> None:
        """Begin to send, in this process."""
        self._thread.start()

    def follow_decisions(self) -> None:
        """Make spans of the lines of the log about decisions from now on."""
        logs.pass_on(COMPONENT, self.take)

    def stop(self) -> None:
        """Send what waits, and end; wait no longer than 2 s."""
        logs.end_passing_on(COMPONENT, self.take)
        self._stopping.set()
        self._arrived.set()
        self._thread.join(_STOP_SECONDS)
        self._exporter.close()

    def reviewed(self, answered: Answered) -> None:
        """Take a review of a pod under creation; never blocks.

        The API server gives a pod its UID after the mutating review. That one has a trace of its
        own, with the same attributes.
        """
        name = "mutating review" if answered.step == "mutate" else "review"
        end = _nanoseconds(answered.ended)
        start = end - int(answered.seconds * 1e9)
        attributes = {
            "k8s.namespace.name": answered.namespace,
            "k8s.pod.name": answered.name,
            "gpu_admission.local_queue": answered.queue,
            "gpu_admission.review": answered.step,
            "gpu_admission.outcome": answered.outcome,
        }
        if answered.uid:
            self._put(name, answered.uid, _POD, start, end, attributes)
        else:
            self._put(name, answered.request_uid, None, start, end, attributes)

    def take(self, line: Mapping[str, Any]) -> None:
        """Take a line about a decision; never blocks. Called by one thread: that which decides."""
        try:
            self._take(line)
        except ValueError as error:  # another program may have written a time that is none
            self._log.warning("decision not traced", error=str(error))

    def _take(self, line: Mapping[str, Any]) -> None:
        event, key = line["event"], (line.get("namespace", ""), line.get("workload", ""))
        if event in _RESERVED:
            self._reserved.setdefault(key, _nanoseconds(clocks.from_wire(line["timestamp"])))
            if len(self._reserved) > _REMEMBERED:
                self._reserved.popitem(last=False)
        elif event in _OVER:
            self._reserved.pop(key, None)
        elif event == "pod released" and line.get("pod_uid") and line.get("created"):
            self._released(line, self._reserved.get(key))

    def _released(self, line: Mapping[str, Any], reserved: int | None) -> None:
        uid, end = line["pod_uid"], _nanoseconds(clocks.from_wire(line["timestamp"]))
        created = min(_nanoseconds(clocks.from_wire(line["created"])), end)
        if reserved is None:
            reserved = (
                _nanoseconds(clocks.from_wire(line["reserved"])) if line.get("reserved") else end
            )
        reserved = min(max(reserved, created), end)
        attributes = {
            "k8s.namespace.name": line["namespace"],
            "k8s.pod.name": line["pod"],
            "k8s.pod.uid": uid,
            "gpu_admission.workload": line["workload"],
            "gpu_admission.local_queue": line.get("local_queue") or "",
            "gpu_admission.cluster_queue": line.get("cluster_queue") or "",
            "gpu_admission.flavor": ",".join(sorted(filter(None, line.get("quota") or {}))),
        }
        self._put(_POD, uid, None, created, end, attributes)
        self._put("wait", uid, _POD, created, reserved, attributes)
        self._put("release", uid, _POD, reserved, end, attributes)

    def _put(
        self,
        name: str,
        uid: str,
        parent: str | None,
        start: int,
        end: int,
        attributes: Mapping[str, str],
    ) -> None:
        span = Span(
            name=name,
            trace_id=trace_id(uid),
            span_id=span_id(uid, name),
            parent_id=None if parent is None else span_id(uid, parent),
            start_ns=start,
            end_ns=end,
            attributes=attributes,
        )
        try:
            self._spans.put_nowait(span)
        except queue.Full:
            self._left_out += 1
        self._arrived.set()

    def _run(self) -> None:
        is_last, count_told = False, 0
        while not is_last:
            self._arrived.wait()
            self._stopping.wait(self._gather_seconds)
            is_last = self._stopping.is_set()
            self._arrived.clear()
            while batch := self._waiting():
                self._exporter.send(batch)
            if (left_out := self._left_out) > count_told:
                self._log.warning("spans left out", spans=left_out - count_told)
                count_told = left_out

    def _waiting(self) -> list[Span]:
        """Return spans that wait, as many as are sent at once."""
        spans: list[Span] = []
        try:
            while len(spans) < _BATCH:
                spans.append(self._spans.get_nowait())
        except queue.Empty:
            pass
        return spans


def trace_id(uid: str) -> int:
    """Return the number of the trace of an object: its UID, where that is one."""
    try:
        number = uuid.UUID(uid).int
    except ValueError:
        number = 0
    return number or _hashed(uid, 16)


def span_id(uid: str, name: str) -> int:
    """Return the number of a span of an object, which another process finds too."""
    return _hashed(f"{uid}/{name}", 8)


def _hashed(text: str, size: int) -> int:
    """Return a number of so many bytes; 0 means "no trace" and "no span" to OpenTelemetry."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size]) or 1


def _nanoseconds(when: datetime) -> int:
    return (when - _EPOCH) // _MICROSECOND * 1000


class _Told(logging.Handler):
    """Writes what the packages of OpenTelemetry say as lines of our log."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        logs.get("tracing").warning("spans not sent", error=record.getMessage())


def _otlp(endpoint: str, service: str) -> Exporter:
    """Return what sends spans with OTLP over HTTP.

    Raises:
        TracingError: the packages for that are not installed.
    """
    try:
        # Most installations have none of these.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415
        from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415
    except ImportError as error:
        problem = f"tracing.endpoint is {endpoint!r}, and a package for traces is missing: {error}"
        raise TracingError(problem) from error
    theirs = logging.getLogger("opentelemetry")
    theirs.handlers[:] = [_Told(logging.WARNING)]
    theirs.propagate = False
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_SEND_SECONDS)
    resource = Resource.create({"service.name": service})
    log = logs.get("tracing")

    def context(trace: int, span: int) -> Any:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(trace, span, is_remote=False, trace_flags=flags)

    def readable(span: Span) -> Any:
        return ReadableSpan(
            span.name,
            context=context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else context(span.trace_id, span.parent_id),
            resource=resource,
            attributes=dict(span.attributes),
            start_time=span.start_ns,
            end_time=span.end_ns,
        )

    class Otlp:
        """Sends spans with OTLP."""

        def send(self, spans: Sequence[Span]) -> None:
            try:
                exporter.export([readable(span) for span in spans])
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread goes on
                log.warning("spans not sent", error=f"{type(error).__name__}: {error}")

        def close(self) -> None:
            exporter.shutdown()

    return Otlp()
