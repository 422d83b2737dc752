"""Requests and answers byte by byte, and connections that are used again."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from typing_extensions import override

from admission.base.clock import SystemClock
from admission.kube.exchange import BrokenAnswerError, Connection, ConnectionPool

REQUEST = b"GET /x HTTP/1.1\r\nHost: here\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def talking_to(*pieces: bytes, hang_up: bool = True) -> Iterator[Connection]:
    """A connection whose other end says these pieces, each as a packet of its own."""
    ours, theirs = socket.socketpair()
    connection = Connection(ours, SystemClock())

    def talk() -> None:
        theirs.recv(65536)
        for piece in pieces:
            theirs.sendall(piece)
        if hang_up:
            theirs.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield connection
    finally:
        connection.close()
        thread.join()
        theirs.close()


@pytest.mark.parametrize(
    ("answer", "body", "reusable"),
    [
        (OK + b"Content-Length: 4\r\n\r\nbody", b"body", True),
        (OK + b"content-length:0\r\n\r\n", b"", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\nA;x=y\r\n and more.\r\n0\r\n\r\n",
         b"body and more.", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nTrailer: x\r\n\r\n", b"b", True),
        (OK + b"Connection: close\r\nContent-Length: 1\r\n\r\nb", b"b", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nb", b"b", False),
        (OK + b"\r\nall there is", b"all there is", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nb", b"b", True),
    ],
    ids=[
        "length", "empty", "chunks", "trailers", "closing", "older version", "without length",
        "no content", "after an interim answer",
    ],
)  # fmt: skip
@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_an_answer_is_read_to_its_end_however_it_is_cut(
    answer: bytes, body: bytes, reusable: bool, cut: int
) -> None:
    pieces = [answer[at : at + cut] for at in range(0, len(answer), cut)]
    with talking_to(*pieces) as connection:
        reply = connection.exchange(REQUEST, 10)
    assert (reply.body, reply.reusable) == (body, reusable)


def test_headers_are_named_in_lower_case_and_repeated_ones_joined() -> None:
    answer = OK + b"Warning: a\r\nX-A:  b \r\nwarning: c\r\nContent-Length: 0\r\n\r\n"
    with talking_to(answer) as connection:
        reply = connection.exchange(REQUEST, 10)
    assert reply.headers == {"warning": "a, c", "x-a": "b", "content-length": "0"}


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 yes\r\n\r\n",
        OK + b"Content-Length: many\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nlong\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nbad",
        b"HTTP/1.1 200 " + b"x" * 200_000,
    ],
    ids=["protocol", "status", "length", "size of a chunk", "end of a chunk", "endless head"],
)
def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    with talking_to(answer) as connection, pytest.raises(BrokenAnswerError):
        connection.exchange(REQUEST, 10)


def test_an_answer_that_breaks_off_is_an_error() -> None:
    answer = OK + b"Content-Length: 4\r\n\r\nbo"
    with talking_to(answer) as connection, pytest.raises(ConnectionResetError):
        connection.exchange(REQUEST, 10)


def test_an_answer_that_comes_drop_by_drop_does_not_outlast_the_time() -> None:
    class Impatient(SystemClock):
        """Each look is a second later."""

        @override
        def monotonic(self) -> float:
            self.seconds = getattr(self, "seconds", 0.0) + 1
            return self.seconds

    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(OK + b"Content-Length: 100\r\n\r\nx")
        with pytest.raises(TimeoutError):
            Connection(ours, Impatient()).exchange(REQUEST, 1.5)


class Pairs:
    """Connections and their other ends, all closed at the end of a test."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def make(self) -> tuple[Connection, socket.socket]:
        ours, theirs = socket.socketpair()
        self._open.enter_context(ours)
        self._open.enter_context(theirs)
        return Connection(ours, SystemClock()), theirs

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    made = Pairs()
    yield made
    made.close()


def test_the_connection_that_was_used_last_is_used_next(pairs: Pairs) -> None:
    pool = ConnectionPool(2)
    made = [pairs.make() for _ in range(2)]
    for connection, _ in made:
        pool.put(connection)
    assert pool.take(pytest.fail) is made[1][0]
    assert pool.take(pytest.fail) is made[0][0]


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_a_connection_that_the_server_has_given_up_is_not_used_again(
    pairs: Pairs, last_words: bytes
) -> None:
    pool = ConnectionPool(2)
    connection, theirs = pairs.make()
    pool.put(connection)
    theirs.sendall(last_words)
    theirs.close()
    fresh, _ = pairs.make()
    assert pool.take(lambda: fresh) is fresh


def test_no_more_connections_wait_than_there_is_room_for(pairs: Pairs) -> None:
    pool = ConnectionPool(1)
    (kept, _), (closed, theirs) = pairs.make(), pairs.make()
    pool.put(kept)
    pool.put(closed)
    assert theirs.recv(1) == b""
    assert pool.take(pytest.fail) is kept


def test_an_empty_pool_makes_a_connection(pairs: Pairs) -> None:
    fresh, _ = pairs.make()
    assert ConnectionPool(1).take(lambda: fresh) is fresh
