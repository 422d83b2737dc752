"""The embedded store over HTTP, in the API server's own paths.

Lets separate processes, and other programs that speak the API, share one store. Serves objects,
lists, watches, patches and subresources, and as much discovery as kubectl asks for; no
authentication: for loopback only. Whatever form of a list is accepted, the answer is the list.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from typing_extensions import override

from admission.base import patches
from admission.base.patches import Patch, PatchType
from admission.kube import errors
from admission.kube.api import Api, Document, EventType, WatchEvent
from admission.kube.resources import Resource
from admission.sandbox.embedded import discovery as embedded_discovery

_PATH: Final = re.compile(
    r"(?:/api/(?P<core>v1)|/apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_MAX_BODY: Final = 16 * 1024 * 1024
_WATCH_SECONDS: Final = 300.0

Answers = Mapping[Resource, Callable[[Document], Document]]


class StoreServer:
    """Serves one store on a loopback port; started by the constructor."""

    def __init__(
        self,
        store: Api,
        resources: Iterable[Resource],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        answers: Answers = MappingProxyType({}),
    ) -> None:
        """Binds and serves.

        Args:
            store: what to serve.
            resources: which kinds.
            host: address to bind.
            port: 0 takes a free one.
            answers: what answers a creation of a kind of which nothing is stored.

        Raises:
            OSError: the address cannot be bound.
        """
        stored = tuple(resources)
        table = {
            (resource.group, resource.version, resource.plural): resource
            for resource in (*stored, *answers)
        }

        class Handler(_ApiHandler):
            api = store
            kinds = table
            answered = answers
            discovery = embedded_discovery.documents(stored)

        self._server = _Server((host, port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="store", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; open watches end with their connections."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Answers each request in a thread of its own."""

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that broke off; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _RequestPath(msgspec.Struct, frozen=True):
    resource: Resource
    namespace: str
    name: str
    subresource: str


class _ApiHandler(BaseHTTPRequestHandler):
    """One connection. ``do_X`` are the names that the base class calls."""

    api: Api
    kinds: dict[tuple[str, str, str], Resource]
    answered: Answers
    discovery: Mapping[str, dict[str, Any]]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body leave in two writes

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        document = self.discovery.get(parts.path.rstrip("/"))
        query = parse_qs(parts.query)
        if document is not None:
            self._send(200, document)
        elif query.get("watch", [""])[0] in {"1", "true"}:
            self._watch(query)
        else:
            self._answer(lambda target, _: self._read(target, query))

    def do_POST(self) -> None:
        self._answer(self._create, success=201)

    def do_PUT(self) -> None:
        self._answer(
            lambda target, body: self._writable().replace(
                target.resource, msgspec.json.decode(body), subresource=target.subresource
            )
        )

    def do_PATCH(self) -> None:
        self._answer(self._patch)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not news."""

    def _writable(self, options: Mapping[str, Any] | None = None) -> Api:
        """Return where the request writes.

        Options in the body of a deletion stand for its query.
        """
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        dry_run = (options or query).get("dryRun") or ()
        if any(directive != "All" for directive in dry_run):
            raise errors.make(400, f"dryRun: Invalid value: {dry_run}: must be All")
        return self.api.dry_run() if dry_run else self.api

    # -------------------------------------------------------------------------------- verbs

    def _read(self, target: _RequestPath, query: Mapping[str, list[str]]) -> dict[str, Any]:
        if target.name:
            return self.api.get(target.resource, target.name, target.namespace)
        page = self.api.list(
            target.resource,
            target.namespace,
            label_selector=_first(query, "labelSelector"),
            field_selector=_first(query, "fieldSelector"),
            limit=int(_first(query, "limit") or 0),
            continue_=_first(query, "continue"),
        )
        return {
            "apiVersion": target.resource.api_version,
            "kind": f"{target.resource.kind}List",
            "metadata": {"resourceVersion": page.resource_version, "continue": page.continue_},
            "items": page.items,
        }

    def _create(self, target: _RequestPath, body: bytes) -> dict[str, Any]:
        document = msgspec.json.decode(body)
        answer = self.answered.get(target.resource)
        if answer is not None:
            return dict(answer(document))
        return self._writable().create(target.resource, document, target.namespace)

    def _patch(self, target: _RequestPath, body: bytes) -> dict[str, Any]:
        content_type = self.headers.get("Content-Type", "").partition(";")[0]
        return self._writable().patch(
            target.resource,
            target.name,
            Patch(PatchType(content_type), body),
            target.namespace,
            subresource=target.subresource,
            field_manager=patches.DEFAULT_FIELD_MANAGER,
        )

    def _delete(self, target: _RequestPath, body: bytes) -> dict[str, Any]:
        options = msgspec.json.decode(body) if body else {}
        preconditions = options.get("preconditions") or {}
        self._writable(options).delete(
            target.resource,
            target.name,
            target.namespace,
            uid=preconditions.get("uid", ""),
            resource_version=preconditions.get("resourceVersion", ""),
            grace_period_seconds=options.get("gracePeriodSeconds"),
            propagation=options.get("propagationPolicy"),
        )
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _watch(self, query: Mapping[str, list[str]]) -> None:
        try:
            target = self._target()
            events = self.api.watch(
                target.resource,
                target.namespace,
                resource_version=_first(query, "resourceVersion"),
                timeout_seconds=float(_first(query, "timeoutSeconds") or _WATCH_SECONDS),
                label_selector=_first(query, "labelSelector"),
                field_selector=_first(query, "fieldSelector"),
                bookmarks=_first(query, "allowWatchBookmarks") in {"1", "true"},
            )
        except errors.ApiError as error:
            self._send(error.status, error.to_status())
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self._stream(target.resource, events)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _stream(self, resource: Resource, events: Iterator[WatchEvent[Any]]) -> None:
        """Sends events; a refusal after the start becomes the stream's last event."""
        self.wfile.flush()
        try:
            for event in events:
                self._chunk(_event(resource, event))
        except errors.ApiError as error:
            self._chunk({"type": EventType.ERROR.value, "object": error.to_status()})
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, document: Any) -> None:
        line = msgspec.json.encode(document) + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    # ------------------------------------------------------------------------------- frames

    def _answer(self, verb: Any, success: int = 200) -> None:
        try:
            body = self._body()
            document = verb(self._target(), body)
        except errors.ApiError as error:
            self._send(error.status, error.to_status())
        except (ValueError, msgspec.DecodeError) as error:
            self._send(400, errors.make(400, str(error)).to_status())
        else:
            self._send(success, document)

    def _target(self) -> _RequestPath:
        path = urlsplit(self.path).path.rstrip("/")
        match = _PATH.fullmatch(path)
        if match is None:
            raise errors.make(404, "the server could not find the requested resource")
        kind = (match["group"] or "", match["core"] or match["version"], match["plural"])
        resource = self.kinds.get(kind)
        if resource is None:
            raise errors.make(404, "the server could not find the requested resource")
        return _RequestPath(
            resource,
            unquote(match["namespace"] or ""),
            unquote(match["name"] or ""),
            match["subresource"] if match["subresource"] in _SUBRESOURCES else "",
        )

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MAX_BODY:
            raise errors.make(413, f"request body is larger than {_MAX_BODY} bytes")
        return self.rfile.read(length)

    def _send(self, status: int, document: Any) -> None:
        body = msgspec.json.encode(document)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _first(query: Mapping[str, list[str]], key: str) -> str:
    return query.get(key, [""])[0]


def _event(resource: Resource, event: WatchEvent[Any]) -> dict[str, Any]:
    document = event.object
    if event.type is EventType.BOOKMARK:
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"resourceVersion": event.resource_version},
        }
    return {"type": event.type.value, "object": document}
