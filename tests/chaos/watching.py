"""Watches many kinds and tells what happened in the order in which it was stored.

All objects of a cluster are in one etcd, whose revisions number every write of every kind. So the
events of all watches can be merged by ``resourceVersion``. An event is told a few seconds after
it arrived, so that every watch has brought what is older.
"""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final

from tests.chaos.checker import Event
from tests.controlplane import features

Json = dict[str, Any]

_CLAIMS: Final = {
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
}
KINDS: Final = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "jobs": "/apis/batch/v1/jobs",
    "pytorchjobs": "/apis/kubeflow.org/v1/pytorchjobs",
    **(_CLAIMS if features.SERVES_CLAIMS else {}),
    "clusterqueues": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "cohorts": "/apis/kueue.x-k8s.io/v1beta2/cohorts",
    "localqueues": "/apis/kueue.x-k8s.io/v1beta2/localqueues",
    "resourceflavors": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "workloads": "/apis/kueue.x-k8s.io/v1beta2/workloads",
}
"""Every kind that `tests.chaos.checker.Checker` reads, all of it: no selector is used."""

_LAG_SECONDS: Final = 3.0
_RETRY_SECONDS: Final = 0.3
_SERVER_SECONDS: Final = 45
_SOCKET_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Times:
    """What time it is.

    Attributes:
        steady: seconds of a clock that never jumps.
        calm: seconds by which the checker measures windows.
        wall: seconds since 1970.
    """

    steady: Callable[[], float]
    calm: Callable[[], float]
    wall: Callable[[], float]


@dataclass(order=True, slots=True)
class _Arrived:
    epoch: int
    is_later: bool
    version: int
    number: int
    steady: float = field(compare=False)
    event: Event = field(compare=False)


class Feed:
    """All watches, each in a thread."""

    def __init__(self, port: int, context: ssl.SSLContext, token: str, times: Times) -> None:
        """Prepare it.

        Args:
            port: of the API server on 127.0.0.1.
            context: that trusts the API server.
            token: of an account that may read everything.
            times: clocks.
        """
        self._port = port
        self._context = context
        self._token = token
        self._times = times
        self._lock = threading.Lock()
        self._arrived: list[_Arrived] = []
        self._number = 0
        self._epoch = 0
        self._stopping = threading.Event()
        self._running = threading.Event()
        self._watches = [_Watch(self, kind, path) for kind, path in KINDS.items()]

    def start(self) -> None:
        """Start watching."""
        self._running.set()
        for watch in self._watches:
            watch.thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        self._running.set()
        self._break()
        for watch in self._watches:
            watch.thread.join(_SOCKET_SECONDS)

    def pause(self) -> None:
        """Watch nothing until `resume`: the store is about to be put back."""
        self._running.clear()
        self._break()

    def resume(self) -> None:
        """Begin anew with what the store has now; its revisions may be lower than before."""
        with self._lock:
            self._epoch += 1
            for watch in self._watches:
                watch.is_synced = False
        self._running.set()

    def _break(self) -> None:
        for watch in self._watches:
            watch.break_off()

    @property
    def behind(self) -> list[str]:
        """The kinds whose watch is not connected."""
        with self._lock:
            return [watch.kind for watch in self._watches if not watch.is_synced]

    @property
    def faults(self) -> list[str]:
        """Bugs in watches, each of which ended one."""
        return [watch.fault for watch in self._watches if watch.fault]

    def take(self, *, everything: bool = False) -> list[Event]:
        """Return the next events in order, each once.

        Args:
            everything: those too that something older may still come before.
        """
        with self._lock:
            if not everything and not all(watch.is_synced for watch in self._watches):
                return []
            self._arrived.sort()
            ripe = len(self._arrived)
            if not everything:
                latest = self._times.steady() - _LAG_SECONDS
                ripe = next(
                    (i for i, one in enumerate(self._arrived) if one.steady > latest), ripe
                )
            taken, self._arrived = self._arrived[:ripe], self._arrived[ripe:]
        return [one.event for one in taken]

    # What the watches call

    def tell(
        self, kind: str, type_: str, found: Json, epoch: int, version: int | None = None
    ) -> None:
        """Take what a watch saw.

        Args:
            kind: of the object.
            type_: of the event.
            found: the object.
            epoch: in which the watch saw it.
            version: where it belongs in the order, if not where its own resourceVersion says.
        """
        if version is None:
            version = int(found["metadata"]["resourceVersion"])
        event = Event(
            kind=kind, type=type_, object=found, at=self._times.calm(), wall=self._times.wall()
        )
        with self._lock:
            self._number += 1
            self._arrived.append(
                _Arrived(
                    epoch,
                    type_ not in {"RESET", "LISTED"},
                    0 if type_ == "RESET" else version,
                    self._number,
                    self._times.steady(),
                    event,
                )
            )

    def wait_running(self) -> int | None:
        """Return the epoch once watching is wanted; None once it is over."""
        self._running.wait()
        with self._lock:
            return None if self._stopping.is_set() else self._epoch

    def is_current(self, epoch: int) -> bool:
        """Whether what is read belongs to this epoch still."""
        return self._running.is_set() and not self._stopping.is_set() and epoch == self._epoch

    def synced(self, watch: "_Watch", *, is_synced: bool) -> None:
        """Note that a watch is connected, or not."""
        with self._lock:
            watch.is_synced = is_synced

    def rest(self) -> None:
        """Wait before the next attempt."""
        self._stopping.wait(_RETRY_SECONDS)

    def connect(self) -> HTTPSConnection:
        """Return a connection that is not open yet."""
        return HTTPSConnection(
            "127.0.0.1", self._port, timeout=_SOCKET_SECONDS, context=self._context
        )

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}


class _Watch:
    """The watch of one kind; lists again after every interruption and tells the difference."""

    def __init__(self, feed: Feed, kind: str, path: str) -> None:
        self._feed = feed
        self.kind = kind
        self._path = path
        self._known: dict[str, Json] = {}
        self._listed_in = -1
        self._version = ""
        self._socket: socket.socket | None = None
        self.is_synced = False
        self.fault = ""
        self.thread = threading.Thread(target=self._run, name=f"watch-{kind}", daemon=True)

    def break_off(self) -> None:
        """End what is being read."""
        if (found := self._socket) is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        while (epoch := self._feed.wait_running()) is not None:
            try:
                if epoch != self._listed_in or not self._version:
                    self._list(epoch)
                self._watch(epoch)
            except (OSError, HTTPException, ValueError):
                self._version = ""
                self._feed.synced(self, is_synced=False)
                self._feed.rest()
            except Exception as bug:
                self.fault = f"watch of {self.kind}: {bug!r}"
                self._feed.synced(self, is_synced=False)
                raise

    @contextmanager
    def _asked(self, query: str) -> Iterator[HTTPResponse]:
        """Ask within a connection of its own, which `break_off` can end."""
        connection = self._feed.connect()
        try:
            connection.connect()
            self._socket = connection.sock  # an answer takes it away from the connection
            connection.request("GET", f"{self._path}{query}", headers=self._feed.headers)
            yield connection.getresponse()
        finally:
            self._socket = None
            connection.close()

    def _list(self, epoch: int) -> None:
        with self._asked("") as answer:
            content = answer.read()
        is_served = answer.status != HTTPStatus.NOT_FOUND
        if is_served and answer.status != HTTPStatus.OK:
            raise ConnectionError(f"{self._path}: {answer.status}")
        # Of a kind that is not served nothing is left.
        body = json.loads(content) if is_served else {"items": []}
        items: list[Json] = body["items"]
        if not self._feed.is_current(epoch):
            raise ConnectionError("interrupted")
        known, self._known = self._known, {one["metadata"]["uid"]: one for one in items}
        if epoch != self._listed_in:
            self._feed.tell(self.kind, "RESET", {}, epoch, 0)
            for one in items:
                self._feed.tell(self.kind, "LISTED", one, epoch)
        else:
            for uid, one in known.items():
                if uid not in self._known:
                    self._feed.tell(self.kind, "DELETED", one, epoch)
            for uid, one in self._known.items():
                version = one["metadata"]["resourceVersion"]
                if uid not in known:
                    self._feed.tell(self.kind, "ADDED", one, epoch)
                elif known[uid]["metadata"]["resourceVersion"] != version:
                    self._feed.tell(self.kind, "MODIFIED", one, epoch)
        self._listed_in = epoch
        if not is_served:
            self._feed.synced(self, is_synced=True)
            self._feed.rest()
            self._version = ""
            return
        self._version = str(body["metadata"]["resourceVersion"])

    def _watch(self, epoch: int) -> None:
        if not self._version:
            return
        query = (
            f"?watch=true&allowWatchBookmarks=true&timeoutSeconds={_SERVER_SECONDS}"
            f"&resourceVersion={self._version}"
        )
        with self._asked(query) as answer:
            if answer.status != HTTPStatus.OK:
                raise ConnectionError(f"{self._path}: {answer.status}")
            self._feed.synced(self, is_synced=True)
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR" or not self._feed.is_current(epoch):
                    raise ConnectionError(f"{self._path}: {event['type']}")
                found = event["object"]
                self._version = found["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                uid = found["metadata"]["uid"]
                if event["type"] == "DELETED":
                    self._known.pop(uid, None)
                else:
                    self._known[uid] = found
                self._feed.tell(self.kind, event["type"], found, epoch)
