"""Reads and writes what etcd has stored, beside the API server."""

import base64
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

_FIRST_KEY: Final = "/registry/"
_AFTER_LAST_KEY: Final = "/registry0"
_BATCH: Final = 100
"""Changes in one transaction; etcd takes 128."""


class _Connection(HTTPConnection):
    """A connection to a socket file."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._file = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._file))


class EtcdClient:
    """Requests to the etcd of a cluster.

    Attributes:
        socket_file: where it listens.
    """

    def __init__(self, socket_file: Path) -> None:
        self.socket_file = socket_file

    def is_serving(self) -> bool:
        """Whether it answers now."""
        try:
            self.values("/")
        except OSError:
            return False
        return True

    def values(self, key: str, before: str = "") -> Iterator[tuple[str, bytes]]:
        """The value of a key, or all keys from it on and before another one with their values."""
        body = {"key": _encoded(key)}
        if before:
            body["range_end"] = _encoded(before)
        with closing(_Connection(self.socket_file)) as connection:
            pairs = _ask(connection, "range", body).get("kvs", ())
        return ((base64.b64decode(p["key"]).decode(), base64.b64decode(p["value"])) for p in pairs)

    def put(self, values: Mapping[str, bytes]) -> None:
        """Stores a value for each key, a hundred at a time."""
        puts = (
            {"requestPut": {"key": _encoded(key), "value": base64.b64encode(value).decode()}}
            for key, value in values.items()
        )
        with closing(_Connection(self.socket_file)) as connection:
            while batch := list(islice(puts, _BATCH)):
                _ask(connection, "txn", {"success": batch})

    def delete(self, key: str) -> None:
        """Deletes a key, if it is there."""
        with closing(_Connection(self.socket_file)) as connection:
            _ask(connection, "deleterange", {"key": _encoded(key)})

    def replace(self, texts: Mapping[str, str]) -> None:
        """Replaces texts in every value of the API server.

        Values may have a binary form that states lengths, so a text and what stands in its place
        are of the same length.
        """
        assert all(len(old) == len(new) for old, new in texts.items()), texts
        changed = {}
        for key, value in self.values(_FIRST_KEY, _AFTER_LAST_KEY):
            replaced = value
            for old, new in texts.items():
                replaced = replaced.replace(old.encode(), new.encode())
            if replaced != value:
                changed[key] = replaced
        self.put(changed)


def _ask(connection: _Connection, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
    connection.request("POST", f"/v3/kv/{what}", json.dumps(body))
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, content
    document: dict[str, Any] = json.loads(content)
    return document


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
