"""The visibility API as an application: requests of API servers, and of users with a token."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import flask
import msgspec
from werkzeug.exceptions import HTTPException

from admission.base import logs
from admission.base.clock import Clock
from admission.base.names import LocalQueueKey
from admission.kube import resources
from admission.kube.errors import KubeError
from admission.serve import discovery, lists, statuses
from admission.serve.access import Access, RequestTarget
from admission.serve.callers import Caller, FrontProxy, Reviews, Tokens
from admission.serve.lists import PendingSource
from admission.serve.statuses import RefusedError
from admission.serve.usage_records import UsageRecords

PEER: Final = "gpu_admission.peer"
"""WSGI key: common name of the verified client certificate; None without one."""
HEADERS: Final = "gpu_admission.headers"
"""WSGI key: headers as they came. WSGI's own would take ``X_Remote_User`` for ``X-Remote-User``
and join several groups with commas, which may be part of a group's name."""

_TURN_SECONDS: Final = 10.0
_JSON: Final = "application/json"
_VERSION: Final = f"<any({', '.join(lists.VERSIONS)}):version>"
_ROOT: Final = f"/apis/{discovery.GROUP}"
_VERBS: Final = {
    "GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
    "DELETE": "delete",
}  # fmt: skip
_METHODS: Final = tuple(_VERBS)
_CLUSTER_QUEUES: Final = "clusterqueues"
_LOCAL_QUEUES: Final = "localqueues"
_USAGE_RECORDS: Final = resources.USAGE_RECORDS.plural
_VERBS_OF_LISTS: Final = {**_VERBS, "GET": "list", "HEAD": "list", "DELETE": "deletecollection"}


def create_app(
    source: PendingSource,
    records: UsageRecords,
    api: Reviews,
    clock: Clock,
    front_proxy: Callable[[], FrontProxy | None],
) -> flask.Flask:
    """Return the API as a WSGI application behind TLS, which fills in `PEER` and `HEADERS`.

    Args:
        source: of lists.
        records: of GPU-time.
        api: decides who a token's owner is, and who may what.
        clock: clock for the time that answers are cached.
        front_proxy: how it makes itself known when it passes requests on; None: it does not.
    """
    app = flask.Flask("gpu-admission-visibility", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    gate = _CallerGate(front_proxy, Tokens(api, clock), Access(api, clock))
    app.before_request(gate.check)
    app.register_error_handler(RefusedError, _refused)
    app.register_error_handler(HTTPException, _failed)
    _add_discovery(app)

    tail = discovery.SUBRESOURCE
    of_all = f"{_ROOT}/{_VERSION}/{_CLUSTER_QUEUES}/<name>/{tail}"
    of_one = f"{_ROOT}/{_VERSION}/namespaces/<namespace>/{_LOCAL_QUEUES}/<name>/{tail}"

    shown = _Shown(source)

    @app.route(of_all, endpoint=_CLUSTER_QUEUES, methods=_METHODS)
    def of_cluster_queue(version: str, name: str) -> flask.Response:
        return shown.of_cluster_queue(name, version)

    @app.route(of_one, endpoint=_LOCAL_QUEUES, methods=_METHODS)
    def of_local_queue(version: str, namespace: str, name: str) -> flask.Response:
        return shown.of_local_queue(LocalQueueKey(namespace, name), version)

    reading = _Turns("too many records are asked for")

    @app.route(
        f"{_ROOT}/{_VERSION}/namespaces/<namespace>/{_USAGE_RECORDS}",
        endpoint=_USAGE_RECORDS,
        methods=_METHODS,
    )
    def usage_records(version: str, namespace: str) -> flask.Response:
        limit, token = _window().limit, flask.request.args.get("continue", "")
        with reading.turn():
            return _answer(records.page(namespace, version, limit, token))

    return app


def add_lists(app: flask.Flask, source: PendingSource) -> None:
    """Add the same lists to our own pages, ``/api/...``, for everybody who can reach them."""
    version = lists.VERSIONS[0]
    app.register_error_handler(RefusedError, _refused)
    shown = _Shown(source)

    @app.get(f"/api/{_CLUSTER_QUEUES}/<name>/{discovery.SUBRESOURCE}")
    def own_of_cluster_queue(name: str) -> flask.Response:
        return shown.of_cluster_queue(name, version)

    @app.get(f"/api/namespaces/<namespace>/{_LOCAL_QUEUES}/<name>/{discovery.SUBRESOURCE}")
    def own_of_local_queue(namespace: str, name: str) -> flask.Response:
        return shown.of_local_queue(LocalQueueKey(namespace, name), version)


class _Turns:
    """Lets one answer be made at a time, so that many who ask leave the core its share."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal
        self._making = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn.

        Raises:
            RefusedError: it did not come.
        """
        if not self._making.acquire(timeout=_TURN_SECONDS):
            raise statuses.not_ready(self._refusal)
        try:
            yield
        finally:
            self._making.release()


class _Shown:
    """Answers with lists."""

    def __init__(self, source: PendingSource) -> None:
        self._source = source
        self._turns = _Turns("too many lists are asked for")

    def of_cluster_queue(self, name: str, version: str) -> flask.Response:
        """The list of a ClusterQueue, as the request's parameters say."""
        window_ = _window()
        with self._turns.turn():
            return _answer(lists.of_cluster_queue(self._source, name, window_, version))

    def of_local_queue(self, key: LocalQueueKey, version: str) -> flask.Response:
        """The list of a LocalQueue, as the request's parameters say."""
        window_ = _window()
        with self._turns.turn():
            return _answer(lists.of_local_queue(self._source, key, window_, version))


class _CallerGate:
    """Lets pass who is known and may; before anything else is looked at."""

    def __init__(
        self, front_proxy: Callable[[], FrontProxy | None], tokens: Tokens, access: Access
    ) -> None:
        self._front_proxy = front_proxy
        self._tokens = tokens
        self._access = access
        self._log = logs.get("visibility")

    def check(self) -> None:
        request = flask.request
        try:
            caller = self._caller(request.environ)
            if caller is None:
                raise statuses.unauthorized()
            self._access.check(caller, _target(request))
        except KubeError as error:
            self._log.warning("caller not checked", error=str(error))
            raise statuses.internal("the API server did not say who may ask") from error
        if request.method not in {"GET", "HEAD"}:
            raise statuses.unknown_method()

    def _caller(self, environ: dict[str, Any]) -> Caller | None:
        headers = environ.get(HEADERS, ())
        proxy = self._front_proxy()
        caller = proxy and proxy.caller(environ.get(PEER), headers)
        return caller or self._tokens.caller(headers)


def _target(request: flask.Request) -> RequestTarget:
    """Return what is asked for: a list, or for everything else just the path."""
    arguments = request.view_args or {}
    if request.endpoint == _USAGE_RECORDS:
        return RequestTarget(
            verb=_VERBS_OF_LISTS[request.method],
            version=arguments["version"],
            plural=request.endpoint,
            namespace=arguments["namespace"],
        )
    if request.endpoint not in {_CLUSTER_QUEUES, _LOCAL_QUEUES}:
        return RequestTarget(verb=request.method.lower(), path=request.path)
    return RequestTarget(
        verb=_VERBS[request.method],
        version=arguments["version"],
        plural=request.endpoint,
        subresource=discovery.SUBRESOURCE,
        namespace=arguments.get("namespace", ""),
        name=arguments["name"],
    )


def _add_discovery(app: flask.Flask) -> None:
    @app.get("/apis")
    def groups() -> flask.Response:
        if discovery.accepts_aggregated(flask.request.headers.get("Accept", "")):
            return _answer(discovery.aggregated(), content_type=discovery.AGGREGATED)
        return _answer(discovery.groups())

    app.add_url_rule(_ROOT, "group", lambda: _answer(discovery.group()))
    app.add_url_rule("/openapi/v2", "openapi-v2", lambda: _answer(discovery.openapi_v2()))
    app.add_url_rule("/openapi/v3", "openapi-v3", lambda: _answer(discovery.openapi_v3()))

    @app.get(f"{_ROOT}/{_VERSION}")
    def resources(version: str) -> flask.Response:
        return _answer(discovery.resources(version))

    @app.get(f"/openapi/v3{_ROOT}/{_VERSION}")
    def openapi_of(version: str) -> flask.Response:
        return _answer(discovery.openapi_v3_of(version))


def _refused(error: RefusedError) -> flask.Response:
    answer = _answer(error.document(), error.code)
    if error.retry_after:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


def _failed(error: HTTPException) -> flask.Response:
    match error.code:
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return _refused(statuses.unknown_method())
        case HTTPStatus.INTERNAL_SERVER_ERROR:
            return _refused(statuses.internal("see the log of gpu-admission's controller"))
        case _:
            return _refused(statuses.unknown_path())


def _window() -> lists.Window:
    arguments = flask.request.args
    return lists.window(arguments.get("offset"), arguments.get("limit"))


def _answer(
    document: dict[str, Any], code: HTTPStatus = HTTPStatus.OK, content_type: str = _JSON
) -> flask.Response:
    return flask.Response(msgspec.json.encode(document), int(code), content_type=content_type)
