"""The real API server: requests as the interface names them, over HTTP."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, Self
from urllib.parse import quote, urlencode

import msgspec
from typing_extensions import override

from admission.base import patches, structs
from admission.base.clock import Clock, SystemClock
from admission.base.patches import Patch, PatchType
from admission.kube import credentials, decoding, errors
from admission.kube.api import (
    DOCUMENT,
    Api,
    EventType,
    Page,
    T,
    WatchEvent,
    WatchStream,
)
from admission.kube.impersonation import Identity
from admission.kube.resources import Resource
from admission.kube.transport import LineStream, Response, Transport

_CONNECTIONS: Final = 32
_REQUEST_SECONDS: Final = 10.0
_WATCH_SLACK_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 90.0
"""A server sends a bookmark about every minute; a watch that says less has lost its connection.

Source: k8s.io/apiserver pkg/storage/cacher/cacher.go (defaultBookmarkFrequency).
"""
_RETRIES: Final = 3
_SHORTEST_WAIT: Final = 0.05
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_CREATED_BELOW: Final = 300
_READ: Final = "GET"


def _ignore(warning: str) -> None:
    """Drops a warning."""


class Client(Api):
    """A client of one API server; every method may be called from any thread.

    A call takes at most ``timeout_seconds``, waits that the server asks for included. Answers 429
    are retried within that, 503 with ``Retry-After`` only for reads; nothing else is sent twice.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeout_seconds: float = _REQUEST_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        warn: Callable[[str], None] = _ignore,
    ) -> None:
        """Wraps a transport.

        Args:
            transport: where the requests go.
            timeout_seconds: longest time of one call; watches have their own.
            silence_seconds: longest time that a watch with bookmarks may say nothing.
            clock: measures it.
            sleep: waits between attempts.
            warn: gets each warning of the server, as kubectl would print it.
        """
        self._transport = transport
        self._timeout_seconds = timeout_seconds
        self._silence_seconds = silence_seconds
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._warn = warn
        self._is_dry = False

    @classmethod
    def connect(
        cls,
        kubeconfig: str | None = None,
        *,
        context: str | None = None,
        identity: Identity | None = None,
        user_agent: str = patches.DEFAULT_FIELD_MANAGER,
        connections: int = _CONNECTIONS,
        timeout_seconds: float = _REQUEST_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        warn: Callable[[str], None] = _ignore,
    ) -> Self:
        """Return a client with the credentials that `admission.kube.credentials.load` finds.

        Nothing is sent yet.

        Raises:
            ConfigurationError: there are none, or they cannot be used.
        """
        endpoint = credentials.load(
            kubeconfig, context=context, identity=identity, connections=connections
        )
        transport = Transport(endpoint, user_agent)
        return cls(
            transport,
            timeout_seconds=timeout_seconds,
            silence_seconds=silence_seconds,
            warn=warn,
        )

    def close(self) -> None:
        """Close idle connections."""
        self._transport.close()

    @override
    def dry_run(self) -> Self:
        other = copy.copy(self)
        other._is_dry = True  # noqa: SLF001  # a copy of ourselves
        return other

    @override
    def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T] = DOCUMENT
    ) -> T:
        return decoding.one(self._call(_READ, _path(resource, namespace, name)).body, into)

    def text(self, path: str) -> str:
        """Return the text at a path without objects, such as ``/metrics`` or a pod's log.

        Raises:
            KubeError: see the other methods.
        """
        return self._call(_READ, path).body.decode(errors="replace")

    @override
    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        into: type[T] = DOCUMENT,
    ) -> Page[T]:
        path = _path(
            resource,
            namespace,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit or "",
            **{"continue": continue_},
        )
        return decoding.page(self._call(_READ, path).body, resource, into)

    @override
    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        into: type[T] = DOCUMENT,
    ) -> T:
        namespace = namespace or (obj.get("metadata") or {}).get("namespace", "")
        path = _path(resource, namespace, fieldManager=field_manager)
        return decoding.one(self._call("POST", path, _body(resource, obj)).body, into)

    @override
    def replace(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        into: type[T] = DOCUMENT,
    ) -> T:
        metadata = obj["metadata"]
        path = _path(
            resource,
            metadata.get("namespace", ""),
            metadata["name"],
            subresource,
            fieldManager=field_manager,
        )
        return decoding.one(self._call("PUT", path, _body(resource, obj)).body, into)

    @override
    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        force: bool = False,
        into: type[T] = DOCUMENT,
    ) -> T:
        path = _path(
            resource,
            namespace,
            name,
            subresource,
            fieldManager=field_manager,
            force="true" if force and patch.type is PatchType.APPLY else "",
        )
        return decoding.one(self._call("PATCH", path, patch.body, patch.type.value).body, into)

    @override
    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in conditions.items() if value}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions or None,
            "gracePeriodSeconds": grace_period_seconds,
            "propagationPolicy": propagation,
            "dryRun": ["All"] if self._is_dry else None,
        }
        body = msgspec.json.encode({k: v for k, v in options.items() if v is not None})
        self._call("DELETE", _path(resource, namespace, name), body)

    @override
    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: float,
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        into: type[T] = DOCUMENT,
    ) -> WatchStream[T]:
        path = _path(
            resource,
            namespace,
            watch="true",
            resourceVersion=resource_version,
            timeoutSeconds=max(1, round(timeout_seconds)),
            labelSelector=label_selector,
            fieldSelector=field_selector,
            allowWatchBookmarks="true" if bookmarks else "",
        )
        silence = timeout_seconds + _WATCH_SLACK_SECONDS
        if bookmarks:
            silence = min(silence, self._silence_seconds)
        return _Events(self._transport.stream(path, silence_seconds=silence), into)

    @staticmethod
    def _counted(answer: Response) -> Response:
        """Return the answer; one that turns the request away is counted."""
        if answer.status == _TOO_MANY:
            from admission.base import metrics  # noqa: PLC0415 - questions need no metrics

            metrics.REQUESTS_THROTTLED.inc()
        return answer

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Response:
        # A deletion says so in its body: an API server that gets one ignores the query.
        if self._is_dry and method not in {_READ, "DELETE"}:
            path += f"{'&' if '?' in path else '?'}dryRun=All"
        deadline = self._clock.monotonic() + self._timeout_seconds
        answer = self._counted(self._send(deadline, method, path, body, content_type))
        for _ in range(_RETRIES):
            wait = _wait(answer, method)
            if wait is None or wait >= deadline - self._clock.monotonic():
                break
            self._sleep(wait)
            answer = self._counted(self._send(deadline, method, path, body, content_type))
        if answer.status >= _CREATED_BELOW:
            raise errors.from_body(
                answer.status,
                answer.body,
                retry_after=answer.retry_after,
                write=method != _READ,
            )
        for warning in _warnings(answer.headers):
            self._warn(warning)
        return answer

    def _send(
        self, deadline: float, method: str, path: str, body: bytes | None, content_type: str
    ) -> Response:
        return self._transport.send(
            method,
            path,
            body=body,
            content_type=content_type,
            timeout_seconds=max(_SHORTEST_WAIT, deadline - self._clock.monotonic()),
        )


class _Events(WatchStream[T], Generic[T]):
    """Watch events of a stream of lines."""

    def __init__(self, lines: LineStream, into: type[T]) -> None:
        self._lines = lines
        self._into = into

    @override
    def __next__(self) -> WatchEvent[T]:
        line = next(self._lines)
        try:
            wire = decoding.decode(_WIRE, line)
            kind = EventType(wire.type)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            self.close()
            raise errors.TransportError(f"not a watch event: {error}") from error
        if kind is EventType.ERROR:
            self.close()
            raise errors.from_body(0, bytes(wire.object))
        return decoding.event(kind, wire.object, self._into)

    @override
    def close(self) -> None:
        self._lines.close()


class _Wire(msgspec.Struct):
    type: str
    object: msgspec.Raw


_WIRE: Final = structs.decoder(_Wire)


def _path(
    resource: Resource,
    namespace: str,
    name: str = "",
    subresource: str = "",
    **query: str | int,
) -> str:
    parameters = {key: value for key, value in query.items() if value != ""}
    path = quote(resource.path(namespace, name, subresource))
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _body(resource: Resource, obj: Mapping[str, Any]) -> bytes:
    named = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    return msgspec.json.encode(named)


def _wait(answer: Response, method: str) -> float | None:
    """Seconds before the same request may be sent again; None if it may not."""
    if answer.status < _CREATED_BELOW:
        return None
    if answer.status == _TOO_MANY:
        # Load shedding comes before anything was done, so a write is safe to repeat.
        return answer.retry_after if answer.retry_after is not None else 1.0
    if answer.status == _UNAVAILABLE and method == _READ:
        return answer.retry_after
    return None


def _warnings(headers: Mapping[str, str]) -> Iterator[str]:
    """Texts of the ``Warning`` headers: ``299 - "text"``, several joined by a comma."""
    text = headers.get("warning")
    if not text:
        return
    for part in text.split("299 - ")[1:]:
        quoted = part.strip().removesuffix(",").strip()
        yield quoted.removeprefix('"').removesuffix('"').replace('\\"', '"')
