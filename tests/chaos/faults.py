"""What may happen to a request on its way; each is a function or an object for `Proxy.inject`."""

import json
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tests.chaos.proxy import Exchange
from tests.controlplane import waiting

_REASONS: Final = {
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}

Fault = Callable[[Exchange], None]


def lose_request(exchange: Exchange) -> None:
    """The connection breaks before the API server hears anything."""
    exchange.reset()


def late(seconds: float) -> Fault:
    """The API server hears of a request so late that nobody may wait for the answer any more."""

    def fault(exchange: Exchange) -> None:
        threading.Event().wait(seconds)
        with suppress(OSError):
            exchange.relay()

    return fault


def lose_answer(exchange: Exchange) -> None:
    """The API server does as asked; the connection breaks before its answer arrives."""
    exchange.forward().read()
    exchange.reset()


def refuse(status: int, retry_after: int | None = None) -> Fault:
    """The API server is not asked; the answer is an error, as of load shedding."""

    def fault(exchange: Exchange) -> None:
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"made up: {status}",
            "reason": _REASONS.get(status, ""),
            "code": status,
        }
        headers = {"Content-Type": "application/json"}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        exchange.send(status, headers, json.dumps(body).encode())

    return fault


def claim_failure(exchange: Exchange) -> None:
    """The API server does as asked, but the answer is an internal error."""
    exchange.forward().read()
    refuse(500)(exchange)


def cut_in_the_middle(exchange: Exchange) -> None:
    """Half of the answer arrives, then the connection breaks."""
    answer = exchange.forward()
    body = answer.read()
    exchange.send_part(answer.status, dict(answer.getheaders()), body, len(body) // 2)


class Storm:
    """Some of the requests meet a fault, drawn by chance."""

    def __init__(self, rng: random.Random, share: float) -> None:
        """Prepares it.

        Args:
            rng: draws.
            share: of the requests that meet a fault.
        """
        self._rng = rng
        self._share = share
        self._faults = (lose_request, lose_answer, claim_failure, refuse(429, 1), refuse(500))

    def __call__(self, exchange: Exchange) -> None:
        if self._rng.random() < self._share:
            self._rng.choice(self._faults)(exchange)
        else:
            exchange.relay()


class Hold:
    """Stops a request before or after it reaches the API server; the client gets no answer.

    It stands still until `free`, which `Proxy.heal` calls.

    Attributes:
        reached: set once a request stands still.
    """

    def __init__(self, *, after: bool) -> None:
        """Prepares it.

        Args:
            after: the request reaches the API server, and its answer is held.
        """
        self.reached = threading.Event()
        self._after = after
        self._arrives = False
        self._free = threading.Event()

    def __call__(self, exchange: Exchange) -> None:
        if self._after:
            exchange.forward().read()
        self.reached.set()
        self._free.wait()
        if self._arrives:
            exchange.forward().read()
        exchange.reset()

    def wait(self) -> None:
        """Returns once a request stands still.

        Raises:
            TimeoutError: none came.
        """
        waiting.until(self.reached.is_set, what="a request to be held")

    def free(self, *, arrives: bool = False) -> None:
        """Ends the hold.

        Args:
            arrives: the request reaches the API server now, however late; else it never does.
        """
        self._arrives = arrives
        self._free.set()
