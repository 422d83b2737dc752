"""The webhook over real TLS: reviews, renewal of certificates, large bodies, stopping."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
from typing_extensions import override

from admission.base.clock import SystemClock
from admission.run import serving
from admission.run.contexts import ContextCache
from admission.webhook import convert
from certs import authority, files
from certs.files import CertificateFiles
from tests.builders.pods import make_pod
from tests.controlplane import forked, waiting
from tests.controlplane.credentials import Credentials
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.webhook import reviews, served

WORKERS = ["inline", "gthread"]
STRANGER = "127.0.0.2"
"""An address from which no request comes."""


@dataclass
class Webhook:
    """A running webhook process."""

    process: "forked.Process | subprocess.Popen[bytes]"
    directory: Path
    port: int
    output: IO[str]
    worker: str = ""

    def connect(
        self, host: str = "localhost", source: str = "127.0.0.1"
    ) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        return http.client.HTTPSConnection(
            host,
            self.port,
            context=context,
            timeout=PATIENCE_SECONDS,
            source_address=(source, 0),
        )


@contextmanager
def running(directory: Path, worker: str, *more: str) -> Iterator[Webhook]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "tests.webhook.served",
        str(directory),
        str(port),
        worker,
        *more,
    ]
    reading, writing = os.pipe()
    output = os.fdopen(reading, encoding="utf-8")
    process = forked.start(command, stdout=writing)
    os.close(writing)
    webhook = Webhook(process=process, directory=directory, port=port, output=output)
    try:
        ready, webhook.worker = webhook.output.readline().split()
        assert ready == "ready"
        yield webhook
    finally:
        process.kill()
        process.wait()
        output.close()


@pytest.fixture(scope="module", params=WORKERS)
def webhook(request, tmp_path_factory):
    with running(tmp_path_factory.mktemp("certs"), request.param) as started:
        yield started


@pytest.fixture
def inline_webhook(tmp_path):
    with running(tmp_path, "inline") as started:
        yield started


@pytest.fixture(params=WORKERS)
def own_webhook(request, tmp_path):
    with running(tmp_path, request.param) as started:
        yield started


def post(connection: http.client.HTTPSConnection, path: str, body: bytes) -> dict[str, Any]:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200
    document: dict[str, Any] = json.loads(answer.read())
    return document


def advance(connection: http.client.HTTPSConnection, seconds: float) -> None:
    """Move the clock of the server on; it has done so when this returns."""
    assert post(connection, "/advance", str(seconds).encode()) == {}


def review_of(**pod: Any) -> bytes:
    return json.dumps(reviews.make_review(make_pod(**pod))).encode()


def test_reviews_are_answered_on_one_verified_connection(webhook):
    connection = webhook.connect()
    for _ in range(3):
        answer = post(connection, reviews.MUTATE, review_of(gpus=1))
        assert answer["response"]["patchType"] == "JSONPatch"
        sock = connection.sock
        answer = post(connection, reviews.VALIDATE, review_of())
        assert answer["response"]["allowed"] is True
        assert connection.sock is sock
    connection.close()


def test_a_client_that_trusts_another_authority_is_refused(webhook):
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection("localhost", webhook.port, timeout=PATIENCE_SECONDS).connect()


def test_old_tls_is_refused(webhook):
    context = ssl.create_default_context(cafile=str(webhook.directory / "ca.crt"))
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", webhook.port), PATIENCE_SECONDS) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("size", [1024 * 1024, 8 * 1024 * 1024], ids=["a little", "much"])
def test_a_body_over_the_limit_gets_a_review_that_says_so(webhook, size):
    connection = webhook.connect()
    body = review_of(labels={"a": "x" * size})
    response = post(connection, reviews.MUTATE, body)["response"]
    assert (response["uid"], response["allowed"]) == (reviews.UID, False)
    assert (response["status"]["code"], response["status"]["message"]) == (
        413, f"request body is larger than {served.MAX_BODY_BYTES} bytes"
    )  # fmt: skip
    connection.close()
    connection = webhook.connect()
    assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
    connection.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"NONSENSE\r\n\r\n",
        b"POST /mutate--v1-pod HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["no HTTP", "negative length"],
)
def test_what_is_no_http_hurts_nobody_else(webhook, request_bytes):
    context = ssl.create_default_context(cafile=str(webhook.directory / "ca.crt"))
    with (
        socket.create_connection(("127.0.0.1", webhook.port), PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(request_bytes)
        assert b" 400 " in secure.recv(1024)
    connection = webhook.connect()
    assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
    connection.close()


def serial(webhook: Webhook, host: str = "localhost") -> str:
    connection = webhook.connect(host)
    connection.connect()
    assert isinstance(connection.sock, ssl.SSLSocket)
    certificate = connection.sock.getpeercert()
    connection.close()
    assert certificate is not None
    return str(certificate["serialNumber"])


def test_a_silent_connection_of_an_address_that_sent_no_request_is_closed(inline_webhook):
    used = inline_webhook.connect()
    silent = inline_webhook.connect(source=STRANGER)
    silent.connect()
    post(used, reviews.MUTATE, review_of())  # a turn of the loop: the handshakes are over
    sock = used.sock
    advance(used, served.FIRST_REQUEST_SECONDS)
    waiting.until(lambda: is_closed(silent.sock), what="the silent connection closed")
    assert post(used, reviews.MUTATE, review_of())["response"]["allowed"] is True
    assert used.sock is sock
    silent.close()
    used.close()


def test_an_address_that_was_answered_keeps_an_unused_connection_as_long_as_a_used_one(
    inline_webhook,
):
    used, unused, silent = (inline_webhook.connect() for _ in range(3))
    stranger = inline_webhook.connect(source=STRANGER)
    for connection in (unused, silent, stranger):
        connection.connect()
    post(used, reviews.MUTATE, review_of())  # a turn of the loop: the handshakes are over
    sock = unused.sock
    advance(used, served.FIRST_REQUEST_SECONDS)
    waiting.until(lambda: is_closed(stranger.sock), what="the connection of a stranger closed")
    assert post(unused, reviews.MUTATE, review_of())["response"]["allowed"] is True
    assert unused.sock is sock
    assert not is_closed(silent.sock)
    advance(used, serving.KEEPALIVE_SECONDS)
    waiting.until(lambda: is_closed(silent.sock), what="the silent connection closed")
    for connection in (used, unused, silent, stranger):
        connection.close()


def test_a_connection_over_the_limit_takes_the_place_of_the_one_idle_for_longest(inline_webhook):
    opened = [inline_webhook.connect() for _ in range(served.MAX_CONNECTIONS)]
    for connection in opened:
        assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
    assert post(opened[0], reviews.MUTATE, review_of())["response"]["allowed"] is True
    surplus = inline_webhook.connect()
    assert post(surplus, reviews.MUTATE, review_of())["response"]["allowed"] is True
    assert opened[1].sock.recv(1) == b""
    opened[1].close()
    for connection in (opened[0], *opened[2:], surplus):
        assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
        connection.close()


def test_silent_clients_do_not_push_out_connections_that_were_used(inline_webhook):
    used = [inline_webhook.connect() for _ in range(3)]
    for connection in used:
        assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
    with contextlib.ExitStack() as silent:
        for _ in range(2 * served.MAX_CONNECTIONS):
            address = ("127.0.0.1", inline_webhook.port)
            silent.enter_context(socket.create_connection(address, PATIENCE_SECONDS))
            # A turn of the loop for each: of a burst none is counted when the next one comes.
            post(used[0], reviews.MUTATE, review_of())
        for connection in used:
            assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
        surplus = inline_webhook.connect()
        assert post(surplus, reviews.MUTATE, review_of())["response"]["allowed"] is True
    for connection in (*used, surplus):
        connection.close()


def test_a_connection_over_the_limit_is_closed_where_none_is_idle(inline_webhook):
    busy = [inline_webhook.connect() for _ in range(served.MAX_CONNECTIONS)]
    for connection in busy:
        assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
        begin(connection, convert.PATH, b"{", 1000)
    surplus = inline_webhook.connect()
    with pytest.raises(OSError):  # noqa: PT011 - reset or closed, as the timing has it
        post(surplus, reviews.MUTATE, review_of())
    for connection in busy:
        connection.close()
    until_served(inline_webhook)


def test_half_sent_requests_do_not_push_out_connections_that_were_used(inline_webhook):
    used = [inline_webhook.connect() for _ in range(3)]
    for connection in used:
        assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
    half_sent = []
    for _ in range(2 * served.MAX_CONNECTIONS):
        half_sent.append(begun(inline_webhook, reviews.MUTATE, b"{", 1000))
        # A turn of the loop for each: of a burst none is counted when the next one comes.
        assert post(used[0], reviews.MUTATE, review_of())["response"]["allowed"] is True
    new = [inline_webhook.connect() for _ in range(2)]
    for connection in (*used, *new):
        assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
    for connection in (*used, *new, *half_sent):
        connection.close()


@pytest.mark.parametrize("is_proven", [False, True], ids=["half-sent", "after a review"])
def test_a_client_with_few_connections_is_served_while_another_holds_all(
    inline_webhook, is_proven
):
    under_way = [
        begun(inline_webhook, reviews.MUTATE, review_of(gpus=1)[:10], len(review_of(gpus=1)))
        for _ in range(3)
    ]
    held = []
    for _ in range(2 * served.MAX_CONNECTIONS):
        one = inline_webhook.connect(source="127.0.0.2")
        with contextlib.suppress(OSError):  # it may be closed for the next one at once
            if is_proven:
                post(one, reviews.MUTATE, review_of())
            begin(one, reviews.MUTATE, b"{", 1000)
        held.append(one)
    few = [inline_webhook.connect() for _ in range(3)]
    for connection in few:
        assert post(connection, reviews.MUTATE, review_of())["response"]["allowed"] is True
    for connection in under_way:
        connection.send(review_of(gpus=1)[10:])
        assert json.loads(connection.getresponse().read())["response"]["allowed"] is True
    for connection in (*under_way, *few, *held):
        connection.close()


def test_a_client_with_many_connections_keeps_those_in_use_when_another_one_comes(inline_webhook):
    busy = [begun(inline_webhook, reviews.MUTATE, b"{", 1000) for _ in range(5)]
    idle = [inline_webhook.connect() for _ in range(served.MAX_CONNECTIONS - len(busy))]
    for connection in idle:
        post(connection, reviews.MUTATE, review_of())
    other = inline_webhook.connect(source="127.0.0.2")
    assert post(other, reviews.MUTATE, review_of())["response"]["allowed"] is True
    assert is_closed(idle[0].sock)
    assert not any(is_closed(connection.sock) for connection in busy)
    for connection in (*busy, *idle, other):
        connection.close()


def test_sockets_that_never_shake_hands_count_too(tmp_path):
    with running(tmp_path, "inline") as webhook, contextlib.ExitStack() as silent:
        sockets = [
            silent.enter_context(
                socket.create_connection(("127.0.0.1", webhook.port), PATIENCE_SECONDS)
            )
            for _ in range(served.MAX_CONNECTIONS)
        ]

        def first_is_closed() -> bool:
            until_served(webhook)
            return is_closed(sockets[0])

        waiting.until(first_is_closed, what="the oldest silent connection closed")


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.5)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_clients_must_show_a_certificate_of_the_authority_that_is_asked_for(tmp_path):
    ours, others = Credentials(folder(tmp_path, "ours")), Credentials(folder(tmp_path, "others"))
    with running(folder(tmp_path, "own"), "inline", str(ours.proxy_ca_file)) as webhook:
        assert shown(webhook, ours.proxy_certificate, ours.proxy_key) is True
        for pair in ((), (others.proxy_certificate, others.proxy_key)):
            with pytest.raises(OSError):  # noqa: PT011 - an alert, or closed, as the timing has it
                shown(webhook, *pair)
        ours.proxy_ca_file.write_bytes(others.proxy_ca_file.read_bytes())
        assert shown(webhook, others.proxy_certificate, others.proxy_key) is True
        with pytest.raises(OSError):  # noqa: PT011 - an alert, or closed, as the timing has it
            shown(webhook, ours.proxy_certificate, ours.proxy_key)


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def shown(webhook: Webhook, *pair: Path) -> bool:
    """Whether a review is allowed for a client that shows the certificate, or none."""
    context = ssl.create_default_context(cafile=str(webhook.directory / "ca.crt"))
    if pair:
        context.load_cert_chain(pair[0], pair[1])
    connection = http.client.HTTPSConnection(
        "localhost", webhook.port, context=context, timeout=PATIENCE_SECONDS
    )
    try:
        return bool(post(connection, reviews.MUTATE, review_of())["response"]["allowed"])
    finally:
        connection.close()


def until_served(webhook: Webhook) -> None:
    """Ask until the webhook has noticed that others are gone."""

    def is_served() -> bool:
        connection = webhook.connect()
        try:
            return bool(post(connection, reviews.MUTATE, review_of())["response"]["allowed"])
        except OSError:
            return False
        finally:
            connection.close()

    waiting.until(is_served, what="a review answered")


def begun(webhook: Webhook, path: str, body: bytes, declared: int) -> http.client.HTTPSConnection:
    """A request of which only the first bytes of the body are sent; the server reads them."""
    connection = webhook.connect()
    begin(connection, path, body, declared)
    return connection


def begin(connection: http.client.HTTPSConnection, path: str, body: bytes, declared: int) -> None:
    """Send only the first bytes of a request's body on a connection; the server reads them."""
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(declared))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    go_on = b"HTTP/1.1 100 Continue\r\n\r\n"  # the server has begun to wait for the body
    assert b"".join(connection.sock.recv(1) for _ in go_on) == go_on
    connection.send(body)


def resident_bytes(webhook: Webhook) -> int:
    pages = int(Path(f"/proc/{webhook.worker}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_silent_clients_with_long_bodies_take_no_more_than_the_budget(inline_webhook):
    probe = inline_webhook.connect()
    post(probe, reviews.MUTATE, review_of())
    before = most = resident_bytes(inline_webhook)
    clients = [AllButOneByte(inline_webhook) for _ in range(10)]
    waiting.until(
        lambda: any(client.is_sent.is_set() for client in clients), what="one body on its way"
    )
    while any(client.is_alive() for client in clients):
        advance(probe, served.BODY_SECONDS / 8)
        for _ in range(50):  # turns of the loop, in each of which it reads from every client
            post(probe, reviews.MUTATE, review_of())
        most = max(most, resident_bytes(inline_webhook))
    responses = [client.response for client in clients if client.response is not None]
    assert responses
    assert most - before < 3 * served.BYTES_IN_FLIGHT
    assert {response["uid"] for response in responses} == {reviews.UID}
    messages = {response["result"]["message"].partition(":")[0] for response in responses}
    expected = {
        f"request body did not arrive within {served.BODY_SECONDS:g} s",
        "too many large requests are being answered at once",
    }
    assert messages == expected or (messages < expected and len(responses) < 10)
    probe.close()


class AllButOneByte(threading.Thread):
    """A client that never sends the last byte of a conversion.

    Attributes:
        is_sent: the other bytes are sent.
        response: the answer. None where much else was not sent either when the connection was
            closed: the system drops an answer for which a client that still writes has not looked.
    """

    def __init__(self, webhook: Webhook) -> None:
        super().__init__(daemon=True)
        self.is_sent = threading.Event()
        self.response: dict[str, Any] | None = None
        self._connection = begun(webhook, convert.PATH, b"", served.MAX_CONVERT_BYTES)
        self.start()

    @override
    def run(self) -> None:
        begin = f'{{"kind":"ConversionReview","request":{{"uid":"{reviews.UID}","objects":["'
        with contextlib.suppress(OSError), contextlib.closing(self._connection) as connection:
            connection.send(begin.encode().ljust(served.MAX_CONVERT_BYTES - 1))
            self.is_sent.set()
            self.response = json.loads(connection.getresponse().read())["response"]


def test_a_conversion_over_the_limit_is_answered_with_its_uid(inline_webhook):
    padding = "x" * served.MAX_CONVERT_BYTES
    request = {"uid": reviews.UID, "desiredAPIVersion": "v1", "objects": [padding]}
    connection = inline_webhook.connect()
    body = json.dumps({"kind": "ConversionReview", "request": request}).encode()
    response = post(connection, convert.PATH, body)["response"]
    assert response["uid"] == reviews.UID
    assert response["result"] == {
        "status": "Failure",
        "message": f"request body is larger than {served.MAX_CONVERT_BYTES} bytes",
    }
    connection.close()


def test_a_review_that_does_not_arrive_is_answered_with_its_uid(inline_webhook):
    whole = review_of(gpus=1)
    connection = begun(inline_webhook, reviews.MUTATE, whole[:300], len(whole))
    probe = inline_webhook.connect()
    for _ in range(2):  # in the first turn of its loop the server reads what came
        post(probe, reviews.MUTATE, review_of())
    advance(probe, served.BODY_SECONDS)
    probe.close()
    response = json.loads(connection.getresponse().read())["response"]
    assert (response["uid"], response["allowed"]) == (reviews.UID, False)
    assert response["status"]["code"] == 408
    assert response["status"]["message"] == (
        f"request body did not arrive within {served.BODY_SECONDS:g} s:"
        f" 300 of {len(whole)} bytes came; try again"
    )
    connection.close()


def test_short_reviews_are_answered_while_large_ones_are_in_progress(inline_webhook):
    os.mkfifo(inline_webhook.directory / "release")
    large = inline_webhook.connect()
    large.request("POST", "/slow", b" " * 100_000)
    assert inline_webhook.output.readline() == "slow\n"
    short = inline_webhook.connect()
    for _ in range(10):
        assert post(short, reviews.MUTATE, review_of(gpus=1))["response"]["allowed"] is True
    (inline_webhook.directory / "release").write_text("done")
    assert large.getresponse().read() == b"done"
    large.close()
    short.close()


def test_probes_and_metrics_share_the_port(webhook):
    connection = webhook.connect()
    for path, text in (("/healthz", b"ok"), ("/readyz", b"ok"), ("/metrics", b"reviews_total")):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        assert text in answer.read()
    connection.close()


def renew(directory: Path) -> tuple[CertificateFiles, authority.Pair]:
    """A new pair of the same authority, not written yet."""
    certificates = files.ensure(directory, served.HOSTS, SystemClock().now())
    signer = authority.parse_pair(
        certificates.ca.read_bytes(), (directory / "ca.key").read_bytes()
    )
    return certificates, authority.issue_serving(signer, served.HOSTS, SystemClock().now())


def test_a_renewed_certificate_is_served_to_the_next_connection(own_webhook):
    before = serial(own_webhook)
    kept = own_webhook.connect()
    post(kept, reviews.MUTATE, review_of())
    certificates, pair = renew(own_webhook.directory)
    certificates.key.write_bytes(pair.key_pem())
    assert serial(own_webhook) == before
    certificates.certificate.write_bytes(pair.certificate_pem())
    for host in ("localhost", "127.0.0.1"):  # with a server name in the handshake, and without
        assert int(serial(own_webhook, host), 16) == pair.certificate.serial_number
    assert post(kept, reviews.MUTATE, review_of())["response"]["allowed"] is True
    kept.close()


def test_a_context_is_kept_until_the_files_change(tmp_path):
    certificates, pair = renew(tmp_path)
    contexts = ContextCache(certificates)
    first = contexts.current()
    assert contexts.current() is first
    certificates.key.write_bytes(pair.key_pem())
    assert contexts.current() is first
    certificates.certificate.unlink()
    assert contexts.current() is first
    certificates.certificate.write_bytes(pair.certificate_pem())
    assert contexts.current() is not first


def test_a_first_pair_that_cannot_be_loaded_is_an_error(tmp_path):
    certificates, pair = renew(tmp_path)
    certificates.key.write_bytes(pair.key_pem())
    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        ContextCache(certificates).current()
    certificates.key.unlink()
    with pytest.raises(FileNotFoundError):
        ContextCache(certificates).current()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_what_is_in_flight_finish(own_webhook, number):
    os.mkfifo(own_webhook.directory / "release")
    idle = own_webhook.connect()
    post(idle, reviews.MUTATE, review_of())
    connection = own_webhook.connect()
    connection.request("POST", "/slow", b"")
    assert own_webhook.output.readline() == "slow\n"
    own_webhook.process.send_signal(number)
    (own_webhook.directory / "release").write_text("done")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"done")
    assert own_webhook.process.wait(PATIENCE_SECONDS) == 0
    rest = own_webhook.output.read()
    assert f"ended {own_webhook.worker}\n" in rest  # it was not killed
    assert "connections_dropped" not in rest  # the idle one was closed before
    idle.close()
    connection.close()


class IdleTransport:
    """What a connection writes to, and whether it was closed."""

    def __init__(self, end: socket.socket) -> None:
        self.is_closed = False
        self._end = end

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self._end if name == "socket" else None

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_connection_on_which_a_request_has_arrived_is_not_closed_as_idle(has_arrived):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = serving._Connection.__new__(serving._Connection)
        connection._awaiting_request = True
        connection.transport = IdleTransport(ours)
        if has_arrived:
            theirs.sendall(b"POST")
        connection.close_if_idle()
        assert connection.transport.is_closed is not has_arrived
