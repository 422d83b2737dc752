"""The bare loop that the system is measured against: the same writes, and nothing else.

For each gated pod: create the Workload, write its status, take the gate off; when the pod is gone,
delete the Workload. No quota, no queue, no state. One thread, an event loop, HTTP without a
library: what it reaches is what those writes allow on this machine.

Prints ``ready`` once it watches; ends with its standard input.
"""

import asyncio
import base64
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
import yaml
from typing_extensions import override

from admission.base import names
from admission.base.clock import SystemClock, to_wire

_CONNECTIONS: Final = 16
"""More do not make it faster: the API server is busy with these."""
_TRUE: Final = (("QuotaReserved", "QuotaReserved"), ("Admitted", "Admitted"))


class _Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: _Pod


class _List(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


class _Server(NamedTuple):
    """Where the API server is, and who asks."""

    host: str
    port: int
    context: ssl.SSLContext
    token: str


class _Connection(asyncio.Protocol):
    """One connection; requests go one after the other, and an answer is read as it arrives."""

    def __init__(self, server: _Server, take: Callable[[bytes], None] | None = None) -> None:
        """Prepare a connection.

        Args:
            server: where, and who asks.
            take: takes the lines of an answer that has no end.
        """
        tail = f" HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n"
        self._tail = tail.encode()
        self._take = take
        self._data = self._rest = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(
        cls, server: _Server, take: Callable[[bytes], None] | None = None
    ) -> "_Connection":
        _, made = await asyncio.get_running_loop().create_connection(
            lambda: cls(server, take), server.host, server.port, ssl=server.context
        )
        return made

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))

    def send(
        self, method: str, path: str, body: bytes = b"", form: bytes = b"application/json"
    ) -> "asyncio.Future[bytes]":
        """The body of the answer; of one without end only that it has begun to fail.

        Raises:
            RuntimeError: the server refused.
        """
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"%s %s%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
            % (method.encode(), path.encode(), self._tail, form, len(body), body)
        )
        return self._answer

    @override
    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        end = self._data.find(b"\r\n\r\n")
        if self._take is not None and self._is_streaming(end):
            self._stream()
        elif end >= 0:
            self._read(end + 4)

    def _is_streaming(self, end: int) -> bool:
        """Take the head off an answer that has no end, once it is there."""
        if self._data.startswith(b"HTTP/") and end >= 0 and b"chunked" in self._data[:end]:
            self._data = self._data[end + 4 :]
            return True
        return not self._data.startswith(b"HTTP/")

    def _stream(self) -> None:
        assert self._take is not None
        data, at = self._data, 0
        while (line := data.find(b"\r\n", at)) >= 0:
            size = int(data[at:line], 16)
            end = line + 2 + size
            if len(data) < end + 2:
                break
            *lines, self._rest = (self._rest + data[line + 2 : end]).split(b"\n")
            for one in lines:
                self._take(one)
            at = end + 2
        self._data = data[at:]

    def _read(self, begin: int) -> None:
        """Take an answer if it is there whole."""
        data = self._data
        at = data.find(b"Content-Length: ", 0, begin)
        if at >= 0:
            length = int(data[at + 16 : data.index(b"\r\n", at)])
            if len(data) < begin + length:
                return
            body = data[begin : begin + length]
        elif data.endswith(b"\r\n0\r\n\r\n"):
            body = _unchunked(data[begin:])
        else:
            return
        self._data = b""
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            return
        if data[9:10] == b"2":
            answer.set_result(body)
        else:
            answer.set_exception(RuntimeError(data.decode()))


def _unchunked(data: bytes) -> bytes:
    parts, at = [], 0
    while size := int(data[at : (line := data.index(b"\r\n", at))], 16):
        parts.append(data[line + 2 : line + 2 + size])
        at = line + 4 + size
    return b"".join(parts)


class Loop:
    """Watches pods and writes."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._pods: asyncio.Queue[tuple[bool, _Pod]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._clock = SystemClock()

    async def run(self) -> None:
        """Watches and writes until it is cancelled."""
        server = self._server
        ended = await _Connection.open(server)
        selector = f"labelSelector={names.MANAGED_LABEL}%3D{names.MANAGED_VALUE}"
        listed = _LIST.decode(await ended.send("GET", f"/api/v1/pods?limit=1&{selector}"))
        version = listed.metadata.resource_version
        watch = await _Connection.open(server, lambda line: self._see(_EVENT.decode(line)))
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(self._work(await _Connection.open(server)))
            print("ready", flush=True)
            await watch.send("GET", f"/api/v1/pods?watch=1&resourceVersion={version}&{selector}")

    def _see(self, event: _Event) -> None:
        pod = event.object
        if event.type == "DELETED":
            self._pods.put_nowait((False, pod))
        elif pod.metadata.uid not in self._seen and b'"schedulingGates"' in bytes(pod.spec):
            self._seen.add(pod.metadata.uid)
            self._pods.put_nowait((True, pod))

    async def _work(self, connection: _Connection) -> None:
        while True:
            came, pod = await self._pods.get()
            namespace, name = pod.metadata.namespace, _workload_name(pod)
            workloads = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"
            if not came:
                await connection.send("DELETE", f"{workloads}/{name}")
                continue
            made = _ANSWER.decode(await connection.send("POST", workloads, _json(_workload(pod))))
            status = _status(pod, made.metadata, to_wire(self._clock.now()))
            merge = b"application/merge-patch+json"
            await connection.send("PATCH", f"{workloads}/{name}/status", _json(status), merge)
            path = f"/api/v1/namespaces/{namespace}/pods/{pod.metadata.name}"
            await connection.send("PATCH", path, _json(_release(pod)), merge)


_EVENT: Final = msgspec.json.Decoder(_Event)
_LIST: Final = msgspec.json.Decoder(_List)
_ANSWER: Final = msgspec.json.Decoder(_Answer)
_json: Final = msgspec.json.Encoder().encode


def _workload_name(pod: _Pod) -> str:
    return f"pod-{pod.metadata.name}-{pod.metadata.uid[:5]}"


def _queue(pod: _Pod) -> str:
    return pod.metadata.labels.get(names.QUEUE_LABEL, "")


def _workload(pod: _Pod) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    pod_set = {"name": names.DEFAULT_PODSET, "count": 1, "template": {"spec": pod.spec}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": _workload_name(pod),
            "namespace": pod.metadata.namespace,
            "labels": {names.JOB_UID_LABEL: pod.metadata.uid},
            "ownerReferences": [owner],
        },
        "spec": {"queueName": _queue(pod), "podSets": [pod_set], "priority": 0},
    }


def _status(pod: _Pod, made: _Meta, now: str) -> dict[str, Any]:
    assignment = {
        "name": names.DEFAULT_PODSET,
        "count": 1,
        "flavors": {names.GPU_RESOURCE: "bench"},
        "resourceUsage": {names.GPU_RESOURCE: "1"},
    }
    conditions = [
        {
            "type": type_,
            "status": "True",
            "reason": reason,
            "message": f"Quota reserved in ClusterQueue {_queue(pod)}",
            "lastTransitionTime": now,
            "observedGeneration": 1,
        }
        for type_, reason in _TRUE
    ]
    return {
        "metadata": {"resourceVersion": made.resource_version, "uid": made.uid},
        "status": {
            "admission": {"clusterQueue": _queue(pod), "podSetAssignments": [assignment]},
            "conditions": conditions,
        },
    }


def _release(pod: _Pod) -> dict[str, Any]:
    labels = {
        names.PODSET_LABEL: names.DEFAULT_PODSET,
        names.LOCAL_QUEUE_NAME_LABEL: _queue(pod),
        names.CLUSTER_QUEUE_NAME_LABEL: _queue(pod),
    }
    return {
        "metadata": {
            "resourceVersion": pod.metadata.resource_version,
            "uid": pod.metadata.uid,
            "labels": labels,
            "annotations": {names.WORKLOAD_ANNOTATION: _workload_name(pod)},
        },
        "spec": {"schedulingGates": [], "nodeSelector": {"nvidia.com/gpu.product": "A100"}},
    }


def _server(kubeconfig: Path) -> _Server:
    """What a kubeconfig with a token says."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    found = urlsplit(cluster["server"])
    assert found.hostname is not None
    assert found.port is not None
    context = ssl.create_default_context(cadata=authority)
    return _Server(found.hostname, found.port, context, user["token"])


async def main(kubeconfig: Path) -> None:
    """Runs until standard input ends."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    loop = asyncio.create_task(Loop(_server(kubeconfig)).run())
    end = asyncio.create_task(ended.wait())
    await asyncio.wait((loop, end), return_when=asyncio.FIRST_COMPLETED)
    if loop.done():
        loop.result()
    loop.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
