"""A pod's way is one trace, wherever its spans come from, and nobody waits for them."""

import http.server
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typing_extensions import override

from admission.base import logs, names
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.config.gpu_configuration import Tracing
from admission.kube import resources
from admission.objects import crds
from admission.run import tracing
from admission.run.controller import ControllerThread
from admission.run.leading import Alone
from admission.run.tracing import Span, Traces, TracingError
from admission.sandbox.store import Store
from tests.builders import pods
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue, reviewed
from tests.controlplane import waiting
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.webhook import reviews

UID = "6f1c1c52-3d5e-4a5f-9f0e-2f6d8b8f8f01"
ADMITTED = {
    "event": "workload admitted",
    "namespace": "ml",
    "workload": "pod-train",
    "timestamp": "2026-01-01T00:00:05.250000Z",
}
RELEASED = {
    "event": "pod released",
    "namespace": "ml",
    "workload": "pod-train",
    "pod": "train",
    "pod_uid": UID,
    "created": "2026-01-01T00:00:00Z",
    "reserved": "2026-01-01T00:00:05Z",
    "local_queue": "team-a",
    "cluster_queue": "research",
    "quota": {"t4": {"cpu": "1"}, "a100": {"nvidia.com/gpu": "1"}},
    "timestamp": "2026-01-01T00:00:05.400000Z",
}
SECOND = 1_000_000_000


class Kept:
    """Keeps what it is to send."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.may_send = threading.Event()
        self.may_send.set()
        self.is_closed = False

    def send(self, spans: Sequence[Span]) -> None:
        assert self.may_send.wait(PATIENCE_SECONDS)
        self.spans += spans

    def close(self) -> None:
        self.is_closed = True


def spans_of(*lines: dict[str, Any]) -> dict[str, Span]:
    """The spans that follow from lines about decisions, by name."""
    kept = Kept()
    traces = Traces(kept, gather_seconds=0)
    for line in lines:
        traces.take(line)
    traces.start()
    traces.stop()
    return {one.name: one for one in kept.spans}


def seconds(span: Span) -> float:
    return (span.end_ns - span.start_ns) / SECOND


def test_a_pod_waits_until_its_reservation_is_written_and_is_released_after_that() -> None:
    spans = spans_of(ADMITTED, RELEASED)
    assert {name: seconds(one) for name, one in spans.items()} == {
        "pod": 5.4, "wait": 5.25, "release": 0.15,
    }  # fmt: skip
    assert spans["wait"].end_ns == spans["release"].start_ns
    assert spans["wait"].start_ns == 1_767_225_600 * SECOND


def test_the_trace_of_a_pod_is_its_uid_and_its_spans_are_below_one() -> None:
    spans = spans_of(RELEASED)
    assert {f"{one.trace_id:032x}" for one in spans.values()} == {UID.replace("-", "")}
    assert spans["pod"].parent_id is None
    assert {spans["wait"].parent_id, spans["release"].parent_id} == {spans["pod"].span_id}
    assert len({one.span_id for one in spans.values()}) == 3


def test_a_span_says_pod_queues_and_flavors() -> None:
    assert spans_of(RELEASED)["wait"].attributes == {
        "k8s.namespace.name": "ml",
        "k8s.pod.name": "train",
        "k8s.pod.uid": UID,
        "gpu_admission.workload": "pod-train",
        "gpu_admission.local_queue": "team-a",
        "gpu_admission.cluster_queue": "research",
        "gpu_admission.flavor": "a100,t4",
    }


def test_after_a_restart_the_time_of_the_reservation_is_that_of_the_condition() -> None:
    assert seconds(spans_of(RELEASED)["wait"]) == 5


def test_an_earlier_reservation_that_was_given_back_is_forgotten() -> None:
    early = {**ADMITTED, "timestamp": "2026-01-01T00:00:01Z"}
    given_back = {**ADMITTED, "event": "quota released"}
    assert seconds(spans_of(early, given_back, ADMITTED, RELEASED)["wait"]) == 5.25


def test_no_span_ends_before_it_starts_where_clocks_differ() -> None:
    spans = spans_of({**RELEASED, "created": "2026-01-01T00:00:09Z"})
    assert [seconds(one) for one in spans.values()] == [0, 0, 0]


def test_a_time_that_another_program_wrote_and_that_is_none_harms_nothing() -> None:
    assert spans_of({**RELEASED, "reserved": "yesterday"}) == {}


def test_lines_of_the_log_become_spans() -> None:
    kept = Kept()
    traces = Traces(kept, gather_seconds=0)
    logs.configure()
    traces.start()
    traces.follow_decisions()
    told = {key: one for key, one in RELEASED.items() if key not in {"event", "timestamp"}}
    logs.get(tracing.COMPONENT).info("pod released", **told)
    traces.stop()
    logs.get(tracing.COMPONENT).info("pod released", **told)
    assert [one.name for one in kept.spans] == ["pod", "wait", "release"]
    assert kept.is_closed


def test_a_controller_with_an_endpoint_sends_the_way_of_a_pod_that_it_releases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept()
    monkeypatch.setattr(tracing, "_otlp", lambda *_: kept)
    logs.configure()
    server = Store(crds=crds.documents(), clock=SystemClock())
    made = pods.queued_pod("train", gpus=1)
    for document in (
        make_namespace(),
        make_flavor(),
        make_cluster_queue(quota=1),
        make_local_queue(),
        made,
    ):
        found = resources.of_kind(document["apiVersion"], document["kind"])
        assert found is not None
        server.create(found, reviewed(document), document["metadata"].get("namespace", ""))
    settings = Settings.model_validate({"gpu": {"tracing": {"endpoint": "http://otel:4318"}}})
    controller = ControllerThread(server, settings, SystemClock(), Alone())
    controller.start()
    try:
        waiting.until(lambda: kept.spans, what="spans")
    finally:
        controller.stop()
    stored = server.get(resources.PODS, "train", made["metadata"]["namespace"])
    assert [one.name for one in kept.spans] == ["pod", "wait", "release"]
    assert {one.trace_id for one in kept.spans} == {tracing.trace_id(stored["metadata"]["uid"])}
    assert kept.spans[0].attributes["gpu_admission.cluster_queue"] == "gpus"
    assert kept.is_closed


def test_whoever_decides_never_waits_and_what_finds_no_room_is_told(
    logged_to: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    logged_to("info")
    kept = Kept()
    kept.may_send.clear()
    traces = Traces(kept, room=3, gather_seconds=0)
    for _ in range(3):
        traces.take(RELEASED)
    traces.start()
    kept.may_send.set()
    traces.stop()
    assert len(kept.spans) == 3
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["spans"]) == ("spans left out", 6)


def spans_of_review(path: str, **request: Any) -> list[Span]:
    """The spans of one review."""
    kept = Kept()
    traces = Traces(kept, gather_seconds=0)
    client = reviews.make_app(on_answered=traces.reviewed).test_client()
    review = reviews.make_review(request.pop("pod"), **request)
    reviews.post(client, path, review)
    traces.start()
    traces.stop()
    return kept.spans


def pod(**metadata: Any) -> dict[str, Any]:
    made = pods.make_pod(labels={names.QUEUE_LABEL: "default"})
    made["metadata"] |= metadata
    return made


def test_the_review_of_a_pod_that_has_its_uid_is_below_the_span_of_the_controller() -> None:
    (span,) = spans_of_review("/validate--v1-pod", pod=pod(uid=UID))
    of_controller = spans_of(RELEASED)["pod"]
    assert span.name == "review"
    assert (span.trace_id, span.parent_id) == (of_controller.trace_id, of_controller.span_id)
    assert span.attributes["gpu_admission.review"] == "validate"
    assert span.attributes["gpu_admission.local_queue"] == "default"


def test_the_review_before_the_uid_has_a_trace_of_its_own_with_the_same_names() -> None:
    (span,) = spans_of_review("/mutate--v1-pod", pod=pod(name="train"))
    assert (span.name, span.parent_id) == ("mutating review", None)
    assert span.attributes["gpu_admission.review"] == "mutate"
    assert span.attributes["k8s.pod.name"] == "train"


@pytest.mark.parametrize("request_", [{"dryRun": True}, {"operation": "UPDATE"}], ids=str)
def test_only_what_creates_a_pod_has_a_span(request_: dict[str, Any]) -> None:
    made = pod(uid=UID)
    old = {"oldObject": made} if "operation" in request_ else {}
    assert spans_of_review("/validate--v1-pod", pod=made, **request_, **old) == []


def test_an_uid_that_is_none_has_a_trace_nevertheless() -> None:
    assert tracing.trace_id("other") == tracing.trace_id("other") != 0
    assert tracing.trace_id("other") < 2**128


def test_without_an_endpoint_there_are_no_traces() -> None:
    assert Traces.of(Tracing(), "test") is None


def test_an_endpoint_without_the_package_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(sys.modules):
        if name.startswith("opentelemetry."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(
        TracingError, match=r"tracing.endpoint is 'http://collector:4318'"
    ) as found:
        Traces.of(Tracing(endpoint="http://collector:4318"), "test")
    assert "gpu-admission[otel]" in found.value.advice


@pytest.mark.parametrize(
    "url", ["collector:4318", "http://me:secret@collector", "ftp://collector"]
)
def test_an_endpoint_is_a_url_without_credentials(url: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        Tracing(endpoint=url)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A URL that takes spans, and what it was sent."""
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        @override
        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies
        server.shutdown()
        thread.join()


def test_a_collector_gets_the_spans(collector: tuple[str, list[bytes]]) -> None:
    url, bodies = collector
    traces = Traces.of(Tracing(endpoint=url), "test")
    assert traces is not None
    traces.start()
    traces.take(RELEASED)
    waiting.until(lambda: bool(bodies), what="spans")
    traces.stop()
    found = [
        span
        for body in bodies
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]
    assert [one.name for one in found] == ["pod", "wait", "release"]
    assert {one.trace_id.hex() for one in found} == {UID.replace("-", "")}
    assert found[1].parent_span_id == found[0].span_id
