"""The load on the webhook: reviews over TLS connections that stay open, all from one thread.

A process of its own: reads a `Load` as JSON from standard input, prints a `Report` as JSON. Each
connection asks again once it is answered, or when its turn has come where there is a rate.
"""

import resource
import selectors
import ssl
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from admission.base.clock import SystemClock
from tests.bench import wire

_CHUNK: Final = 65536
_HEAD_END: Final = b"\r\n\r\n"


class Question(msgspec.Struct, frozen=True):
    """One review.

    Attributes:
        path: of the webhook.
        body: the AdmissionReview.
    """

    path: str
    body: msgspec.Raw


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be asked.

    Attributes:
        port: of the webhook on 127.0.0.1.
        ca_file: authority of its certificate.
        connections: kept open side by side.
        warm_up: reviews before those that count.
        reviews: reviews that count.
        questions: asked in turn.
        per_second: asked at most, evenly spread; 0 for as many as are answered.
    """

    port: int
    ca_file: str
    connections: int
    warm_up: int
    reviews: int
    questions: tuple[Question, ...]
    per_second: float = 0.0


class Report(msgspec.Struct, kw_only=True):
    """What came back.

    Attributes:
        seconds: of each review by path, from its turn to the last byte of its answer.
        wall_seconds: all that counted.
        cpu_seconds: of this process, meanwhile.
    """

    seconds: dict[str, list[float]]
    wall_seconds: float
    cpu_seconds: float


@dataclass(slots=True)
class _Caller:
    """One connection; ``asked`` is when its review was due."""

    socket: ssl.SSLSocket
    received: bytes = b""
    path: str = ""
    asked: float = 0.0


@dataclass(slots=True)
class _Generator:
    """Sends and receives on all connections."""

    load: Load
    requests: list[tuple[str, bytes]]
    clock: SystemClock = field(default_factory=SystemClock)
    callers: list[_Caller] = field(default_factory=list)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    sent: int = 0

    def open(self) -> None:
        for _ in range(self.load.connections):
            socket = wire.connect(self.load.port, Path(self.load.ca_file))
            socket.setblocking(False)
            caller = _Caller(socket)
            self.callers.append(caller)
            self.selector.register(socket, selectors.EVENT_READ, caller)

    def ask(self, count: int) -> dict[str, list[float]]:
        """Asks so many reviews; seconds of each by path."""
        taken: dict[str, list[float]] = {}
        started = self.clock.monotonic()
        idle, sent, left = deque(self.callers), 0, count
        while left:
            now = self.clock.monotonic()
            while idle and sent < count and (due := self._due(started, sent, now)) <= now:
                # In turn: the webhook closes a connection that never says anything.
                self._send(idle.popleft(), due)
                sent += 1
            waits = self.load.per_second and idle and sent < count
            pause = max(0.0, self._due(started, sent, now) - now) if waits else None
            for key, _ in self.selector.select(pause):
                if self._is_answered(key.data):
                    caller = key.data
                    took = self.clock.monotonic() - caller.asked
                    taken.setdefault(caller.path, []).append(took)
                    idle.append(caller)
                    left -= 1
        return taken

    def _due(self, started: float, number: int, now: float) -> float:
        rate = self.load.per_second
        return started + number / rate if rate else now

    def _send(self, caller: _Caller, due: float) -> None:
        caller.path, request = self.requests[self.sent % len(self.requests)]
        self.sent += 1
        caller.asked = due
        caller.socket.sendall(request)

    @staticmethod
    def _is_answered(caller: _Caller) -> bool:
        """Reads what there is; whether the answer is whole.

        Raises:
            ConnectionError: the webhook closed the connection or did not answer with 200.
        """
        try:
            received = caller.socket.recv(_CHUNK)
        except ssl.SSLWantReadError:
            return False
        caller.received += received
        head, mark, body = caller.received.partition(_HEAD_END)
        if not received:
            raise ConnectionError("the webhook closed the connection")
        if not mark:
            return False
        length = wire.length_of(head + b"\r\n")
        if wire.status_of(head) != 200 or length is None:
            raise ConnectionError(f"not the answer to a review: {head.decode()}")
        if len(body) < length:
            return False
        if b'"allowed":true' not in body:
            raise ConnectionError(f"the review was refused: {body.decode()}")
        caller.received = b""
        return True


def run(load: Load) -> Report:
    """Opens the connections, warms up, and asks."""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    requests = [
        (question.path, wire.request("POST", question.path, headers, bytes(question.body)))
        for question in load.questions
    ]
    generator = _Generator(load, requests)
    generator.open()
    generator.ask(load.warm_up)
    print("warm", file=sys.stderr, flush=True)
    sys.stdin.buffer.readline()
    before, started = _cpu_seconds(), generator.clock.monotonic()
    seconds = generator.ask(load.reviews)
    wall = generator.clock.monotonic() - started
    return Report(seconds=seconds, wall_seconds=wall, cpu_seconds=_cpu_seconds() - before)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """A line with the load, then a line once counting may begin; the report to standard output."""
    load = msgspec.json.decode(sys.stdin.buffer.readline(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(run(load)))


if __name__ == "__main__":
    main()
