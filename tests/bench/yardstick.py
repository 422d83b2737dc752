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
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
import yaml

from admission.base import names
from admission.base.clock import SystemClock, to_wire

_CONNECTIONS: Final = 16
"""More do not make it faster: the API server is busy with these."""
_LIMIT: Final = 1 << 22
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


class _Connection:
    """One connection; requests go one after the other."""

    def __init__(
        self, server: _Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._tail = (
            f" HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n"
        )

    @classmethod
    async def open(cls, server: _Server) -> "_Connection":
        reader, writer = await asyncio.open_connection(
            server.host, server.port, ssl=server.context, limit=_LIMIT
        )
        return cls(server, reader, writer)

    async def send(
        self, method: str, path: str, body: bytes = b"", form: str = "application/json"
    ) -> bytes:
        """The body of the answer.

        Raises:
            RuntimeError: the server refused.
        """
        head = await self._ask(method, path, body, form)
        if b"Transfer-Encoding: chunked" in head:
            text = b"".join([chunk async for chunk in self._chunks()])
        else:
            at = head.index(b"Content-Length: ") + len(b"Content-Length: ")
            text = await self._reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
        if head[9:10] != b"2":
            raise RuntimeError(f"{method} {path}: {head!r} {text!r}")
        return text

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """Lines of an answer that has no end."""
        await self._ask("GET", path, b"", "application/json")
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line

    async def _ask(self, method: str, path: str, body: bytes, form: str) -> bytes:
        fields = f"Content-Type: {form}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(f"{method} {path}{self._tail}{fields}".encode() + body)
        return await self._reader.readuntil(b"\r\n\r\n")

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)


class Loop:
    """Watches pods and writes."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._pods: asyncio.Queue[tuple[bool, _Pod]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._clock = SystemClock()

    async def run(self) -> None:
        """Watches and writes until it is cancelled."""
        watch = await _Connection.open(self._server)
        selector = f"labelSelector={names.MANAGED_LABEL}%3D{names.MANAGED_VALUE}"
        listed = _LIST.decode(await watch.send("GET", f"/api/v1/pods?limit=1&{selector}"))
        version = listed.metadata.resource_version
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(self._work(await _Connection.open(self._server)))
            print("ready", flush=True)
            path = f"/api/v1/pods?watch=1&resourceVersion={version}&{selector}"
            async for line in watch.lines(path):
                self._see(_EVENT.decode(line))

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
            merge = "application/merge-patch+json"
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
