"""Pages over real sockets: slow clients hold no thread, and metrics are for those who may."""

import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from admission.kube import errors
from admission.kube.api import Document
from admission.kube.resources import Resource
from admission.run.metrics_access import MetricsAccess
from admission.run.pages import BoundedServer, Wsgi
from admission.serve import probes
from tests.clocks import FakeClock
from tests.controlplane import waiting
from tests.controlplane.waiting import PATIENCE_SECONDS

MOST = 3


@contextmanager
def serving(app: Wsgi, clock: FakeClock | None = None) -> Iterator[BoundedServer]:
    server = BoundedServer(
        ("127.0.0.1", 0), app, most_at_once=MOST, silence_seconds=PATIENCE_SECONDS, clock=clock
    )
    server.serve("test")
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def healthy() -> Wsgi:
    return probes.create_app(alive=lambda: "", ready=lambda: "")


def test_a_verbose_readiness_tells_details_before_the_verdict() -> None:
    problem = ""
    app = probes.create_app(
        alive=lambda: "", ready=lambda: problem, details=lambda: ["leader: yes", "watch pods: x"]
    )
    client = app.test_client()
    assert client.get("/readyz").text == "ok\n"
    assert client.get("/readyz?verbose").text == "leader: yes\nwatch pods: x\nok\n"
    problem = "not listed yet: pods"
    answer = client.get("/readyz?verbose")
    assert (answer.status_code, answer.text.splitlines()[-1]) == (503, problem)


def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def silent(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)


def test_a_probe_is_answered_while_silent_clients_hold_every_connection():
    before = threading.active_count()
    with serving(healthy()) as server:
        port = server.server_port
        held = [silent(port) for _ in range(4 * MOST)]
        assert get(port, "/healthz") == (200, "ok\n")
        waiting.until(
            lambda: threading.active_count() - before <= MOST + 2, what="the end of their threads"
        )
        assert held[0].recv(1) == b""
        for one in held:
            one.close()


def test_a_connection_ends_in_time_however_slowly_its_client_sends():
    clock = FakeClock()
    with serving(healthy(), clock) as server:
        slow = silent(server.server_port)
        slow.sendall(b"GET /healthz HTTP/1.0\r\nX: ")
        waiting.until(lambda: server.open_connections, what="the connection accepted")
        clock.advance(16)
        assert slow.recv(1) == b""
        slow.close()


class Authority:
    """An API server that knows two tokens, of which one may read metrics."""

    def __init__(self) -> None:
        self.is_away = False

    def create(self, resource: Resource, obj: Mapping[str, Any], /) -> Document:
        if self.is_away:
            raise errors.TransportError("no answer")
        spec = obj["spec"]
        if resource.plural == "tokenreviews":
            known = spec["token"] in {"reader", "stranger"}
            return {"status": {"authenticated": known, "user": {"username": spec["token"]}}}
        assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        return {"status": {"allowed": spec["user"] == "reader"}}


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({"Authorization": "Bearer reader"}, 200, "# HELP"),
        ({"Authorization": "Bearer stranger"}, 403,
         'forbidden: User "stranger" cannot get path "/metrics"'),
        ({"Authorization": "Bearer forged"}, 401, "Unauthorized: send the token of an account"),
        ({}, 401, "Unauthorized: send the token of an account that may get /metrics"),
    ],
    ids=["who may", "who may not", "a forged token", "no token"],
)  # fmt: skip
def test_metrics_are_for_those_whom_the_api_server_allows(
    headers: dict[str, str], status: int, text: str
):
    with serving(MetricsAccess(healthy(), Authority(), FakeClock())) as server:
        port = server.server_port
        found = get(port, "/metrics", **headers)
        assert found[0] == status
        assert text in found[1]


def test_probes_stay_free_and_metrics_wait_for_the_api_server():
    authority = Authority()
    authority.is_away = True
    with serving(MetricsAccess(healthy(), authority, FakeClock())) as server:
        port = server.server_port
        assert get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/readyz") == (200, "ok\n")
        assert get(port, "/metrics", Authorization="Bearer reader") == (
            503, "the API server did not say whether you may read metrics: try again\n"
        )  # fmt: skip
