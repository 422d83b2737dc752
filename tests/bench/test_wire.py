"""The requests of the load, and how its answers are read."""

import pytest
from typing_extensions import override

from tests.bench import wire


def test_a_request_says_how_long_its_body_is():
    sent = wire.request("POST", "/x", {"Accept": "application/json"}, b"{}")
    assert sent == (
        b"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("head", "length"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n", 12),
        (b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length:7\r\nC: d\r\n", 7),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", None),
    ],
)
def test_the_length_of_a_body(head, length):
    assert wire.status_of(head) == 200
    assert wire.length_of(head) == length


class Scripted(wire.Connection):
    """Receives what was written down, a few bytes at a time."""

    def __init__(self, text: bytes) -> None:
        self._rest = b""
        self._text = text

    @override
    def _more(self) -> None:
        if not self._text:
            raise ConnectionError("the server closed the connection")
        self._rest, self._text = self._rest + self._text[:3], self._text[3:]


def test_chunks_are_put_together_wherever_they_were_cut():
    connection = Scripted(b"4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\nnext")
    assert b"".join(connection._chunks()) == b"abcdefg"
    assert connection._exactly(4) == b"next"


def test_an_answer_that_breaks_off_is_an_error():
    with pytest.raises(ConnectionError):
        list(Scripted(b"4\r\nab")._chunks())
