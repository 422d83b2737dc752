"""A balancer in front of webhooks, as a Service is: each connection goes to one that is ready."""

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Self

_CHUNK: Final = 64 * 1024


class Balancer:
    """Passes connections on, byte by byte, to ports on 127.0.0.1 in turn.

    Attributes:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._ports: tuple[int, ...] = ()
        self._turn = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def use(self, ports: Iterable[int]) -> None:
        """Passes new connections on to these ports only; those that are open stay."""
        with self._lock:
            self._ports = tuple(ports)

    def _next(self) -> list[int]:
        """The ports, the one whose turn it is first."""
        with self._lock:
            ports, self._turn = self._ports, self._turn + 1
        at = self._turn % len(ports) if ports else 0
        return [*ports[at:], *ports[:at]]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        for port in self._next()[:1]:
            try:
                server = socket.create_connection(("127.0.0.1", port), timeout=5)
            except OSError:
                break
            server.settimeout(None)
            there = threading.Thread(target=_copy, args=(client, server), daemon=True)
            there.start()
            _copy(server, client)
            there.join()
            server.close()
        client.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Passes on what comes until one side ends, and then ends the other."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
