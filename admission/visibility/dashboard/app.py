"""The dashboard as an application: pages, their style and script, and who may see them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Protocol

import flask
from werkzeug.exceptions import HTTPException

from admission.base import clock as clocks
from admission.base import logs
from admission.base.clock import Clock
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.gpu.catalogue import Catalogue
from admission.gpu.inventory import GpuNode
from admission.kube import resources
from admission.kube.errors import KubeError
from admission.scheduling.decisions import Wait
from admission.scheduling.overview import Overview
from admission.scheduling.reserving import ReservingWorkload
from admission.visibility import lists, statuses
from admission.visibility.callers import Reviews
from admission.visibility.dashboard import gpu_map, queue_page, sessions, timeline, tree
from admission.visibility.dashboard.queue_page import Holding, Waiting
from admission.visibility.dashboard.sessions import Sessions, Viewer
from admission.visibility.dashboard.streams import Streams
from admission.visibility.dashboard.tree import PAGE, Tree
from admission.visibility.lists import Place
from admission.visibility.statuses import RefusedError

MOST_BYTES: Final = 300_000
"""Of any page."""
_TURN_SECONDS: Final = 10.0
_DIGITS: Final = 6
_NO_ANSWER: Final = "The API server did not say who you are or what you may see. Try again."
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_OPEN: Final = frozenset({"static", "login", "sign_in", "sign_out"})
"""What is shown to everybody."""


class Source(lists.Source, Protocol):
    """Where pages come from: what the controller knows, at most a second old."""

    def revision(self) -> int:
        """Return a number that grows whenever something may differ from before.

        Raises:
            RefusedError: it cannot be told now.
        """
        ...

    def overview(self) -> Overview:
        """Return the quota of all queues and cohorts, and its use.

        Raises:
            RefusedError: it cannot be told now.
        """
        ...

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        """Return the Workloads that hold quota of a ClusterQueue, in no particular order.

        Raises:
            RefusedError: it cannot be told now.
        """
        ...

    def waits(self, keys: tuple[WorkloadKey, ...]) -> tuple[Wait | None, ...]:
        """Return why Workloads wait; None for one that does not, or was not tried yet.

        Raises:
            RefusedError: it cannot be told now.
        """
        ...

    def gpu_nodes(self, first: int, most: int) -> tuple[int, tuple[GpuNode, ...]]:
        """Return how many nodes with GPUs there are, and some of them in the order of names.

        Raises:
            RefusedError: it cannot be told now.
        """
        ...


def create_app(
    source: Source,
    api: Reviews,
    clock: Clock,
    catalogue: Catalogue,
    wait: Callable[[float], bool],
    *,
    is_secure: bool,
) -> flask.Flask:
    """Return the dashboard as a WSGI application.

    Args:
        source: of what is shown.
        api: says who callers are, and what they may.
        clock: clock for the time that answers are cached.
        catalogue: of GPU products.
        wait: lets some seconds pass; true where the process is about to end.
        is_secure: whether it is served with TLS.
    """
    app = flask.Flask("gpu-admission-dashboard", root_path=_folder())
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters["moment"] = _moment
    pages = _Pages(source, Sessions(api, clock), catalogue, is_secure=is_secure)
    watched = Streams(source.revision, wait)
    app.add_url_rule("/changes", "changes", watched.answer)
    app.before_request(pages.check)
    app.after_request(_secured)
    app.register_error_handler(RefusedError, pages.refused)
    app.register_error_handler(HTTPException, pages.failed)
    app.add_url_rule("/", "overview", pages.overview)
    app.add_url_rule("/queues/<name>", "queue", pages.queue)
    app.add_url_rule("/gpus", "gpus", pages.gpus)
    app.add_url_rule("/namespaces/<namespace>/workloads/<name>", "workload", pages.workload)
    app.add_url_rule("/login", "login", pages.login)
    app.add_url_rule("/login", "sign_in", pages.sign_in, methods=["POST"])
    app.add_url_rule("/logout", "sign_out", pages.sign_out, methods=["POST"])
    return app


class _Pages:
    """Makes pages, one at a time: many who look leave the core its share of the processor."""

    def __init__(
        self, source: Source, known: Sessions, catalogue: Catalogue, *, is_secure: bool
    ) -> None:
        self._source = source
        self._catalogue = catalogue
        self._sessions = known
        self._is_secure = is_secure
        self._making = threading.Lock()
        self._log = logs.get("dashboard")

    # ------------------------------------------------------------------------------- callers

    def check(self) -> Any:
        """Has whoever is not known sign in first."""
        if flask.request.endpoint in _OPEN or flask.request.endpoint is None:
            return None
        try:
            flask.g.viewer = self._sessions.viewer(flask.request)
        except RefusedError:
            if flask.request.headers.get("Authorization"):
                raise
            return flask.redirect(flask.url_for("login"), HTTPStatus.SEE_OTHER)
        except KubeError as error:
            self._log.warning("caller not checked", error=str(error))
            raise statuses.not_ready(_NO_ANSWER) from error
        return None

    def login(self) -> str:
        """Return the page that takes a token."""
        return flask.render_template("login.html", problem="")

    def sign_in(self) -> Any:
        """Puts a token that is good into a cookie."""
        token = flask.request.form.get("token", "").strip()
        if not token.isascii() or any(one.isspace() for one in token):
            token = ""
        problem = ""
        if len(token) > sessions.LONGEST_TOKEN:
            problem = (
                "This token is too long for a cookie. Use a token of a ServiceAccount, or a proxy "
                "that sends yours."
            )
        else:
            try:
                known = self._sessions.owner(f"Bearer {token}")
            except KubeError as error:
                self._log.warning("caller not checked", error=str(error))
                known, problem = None, _NO_ANSWER
            if known is None:
                problem = problem or "The API server does not accept this token."
        if problem:
            text = flask.render_template("login.html", problem=problem)
            return flask.Response(text, HTTPStatus.UNAUTHORIZED)
        answer = flask.redirect(flask.url_for("overview"), HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            sessions.COOKIE, token, httponly=True, samesite="Strict", secure=self._is_secure
        )
        return answer

    def sign_out(self) -> Any:
        """Forgets the token."""
        answer = flask.redirect(flask.url_for("login"), HTTPStatus.SEE_OTHER)
        answer.delete_cookie(
            sessions.COOKIE, httponly=True, samesite="Strict", secure=self._is_secure
        )
        return answer

    # --------------------------------------------------------------------------------- pages

    def overview(self) -> str:
        """Return the tree of cohorts and queues."""
        with self._turn() as viewer:
            viewer.need("list", resources.CLUSTER_QUEUES)
            found = self._source.overview()
            if not viewer.may("list", resources.COHORTS):
                found = Overview(
                    found.queues, tuple(one.without_quotas() for one in found.cohorts)
                )
            rows = list(Tree(found).rows())
            cut = _cut(rows, PAGE)
            cut["rows"] = [make() for make in cut["rows"]]
            return self._page("overview.html", **cut, count=len(found.queues))

    def queue(self, name: str) -> str:
        """Return the page of a ClusterQueue."""
        with self._turn() as viewer:
            viewer.need("get", resources.CLUSTER_QUEUES, name=name)
            queue = next((one for one in self._source.overview().queues if one.name == name), None)
            line = self._source.line(ClusterQueueName(name))
            if queue is None or line is None:
                raise statuses.unknown_queue("clusterqueue", name)
            cut = _cut(list(lists.places(line)), queue_page.PAGE)
            holders = queue_page.in_order(self._source.holders(queue.name))
            return self._page(
                "queue.html",
                queue=queue,
                bars=tree.all_bars(queue),
                awaited=tree.all_awaited(queue),
                waiting=self._waiting(viewer, cut["rows"]),
                holding=[self._holding(viewer, one) for one in holders[: queue_page.PAGE]],
                more=len(holders) > queue_page.PAGE,
                page=cut["page"],
                last=cut["last"],
            )

    def _waiting(self, viewer: Viewer, places: list[Place]) -> list[Waiting]:
        keys = tuple(one.workload for one in places)
        found = zip(places, self._source.workloads(keys), self._source.waits(keys), strict=True)
        return [
            queue_page.waiting(place, workload, wait)
            if viewer.may_list(resources.WORKLOADS, place.workload.namespace)
            else Waiting(place=place.in_cluster_queue + 1, key=None)
            for place, workload, wait in found
        ]

    def _holding(self, viewer: Viewer, one: ReservingWorkload) -> Holding:
        row = queue_page.holding(one)
        kind = resources.PODS if one.is_pod else resources.WORKLOADS
        if viewer.may_list(kind, one.key.namespace):
            return row
        return replace(row, key=None)

    def workload(self, namespace: str, name: str) -> str:
        """Return the page of a Workload."""
        with self._turn() as viewer:
            viewer.need("get", resources.WORKLOADS, namespace, name)
            key = WorkloadKey(namespace, name)
            (found,) = self._source.workloads((key,))
            if found is None:
                raise statuses.unknown_path()
            (wait,) = self._source.waits((key,))
            queue = LocalQueueKey(namespace, found.spec.queue_name)
            line = self._source.line(queue) if wait else None
            places = lists.places(line) if line is not None else ()
            place = next((one.in_cluster_queue + 1 for one in places if one.workload == key), 0)
            admission = found.status.admission
            return self._page(
                "workload.html",
                key=key,
                workload=found,
                cluster_queue=admission.cluster_queue
                if admission is not None
                else (wait.cluster_queue if wait is not None else ""),
                place=place,
                asks=queue_page.asked(wait),
                why="" if wait is None else queue_page.why(wait),
                moments=timeline.of(found),
            )

    def gpus(self) -> str:
        """Return the nodes with GPUs, and who holds these."""
        with self._turn() as viewer:
            viewer.need("list", resources.NODES)
            page = _number()
            count, found = self._source.gpu_nodes((page - 1) * gpu_map.PAGE, gpu_map.PAGE)
            last = max(1, -(-count // gpu_map.PAGE))
            if page > last:
                page = last
                count, found = self._source.gpu_nodes((page - 1) * gpu_map.PAGE, gpu_map.PAGE)

            def name_of(namespace: str, name: str) -> str:
                return f"{namespace}/{name}" if viewer.may_list(resources.PODS, namespace) else ""

            rows = [gpu_map.of(one, self._catalogue, name_of) for one in found]
            return self._page("nodes.html", rows=rows, count=count, page=page, last=last)

    def _page(self, template: str, **values: Any) -> str:
        return flask.render_template(template, viewer=flask.g.viewer.caller.name, **values)

    @contextmanager
    def _turn(self) -> Iterator[Viewer]:
        if not self._making.acquire(timeout=_TURN_SECONDS):
            raise statuses.not_ready("Too many pages are asked for. Try again.")
        try:
            flask.g.revision = self._source.revision()  # first: what changes later is told again
            yield flask.g.viewer
        except KubeError as error:
            self._log.warning("caller not checked", error=str(error))
            raise statuses.not_ready(_NO_ANSWER) from error
        finally:
            self._making.release()

    # -------------------------------------------------------------------------------- errors

    def refused(self, error: RefusedError) -> flask.Response:
        """Return the page that says why there is no other."""
        return self._problem(int(error.code), error.message)

    def failed(self, error: HTTPException) -> flask.Response:
        """Return the page of an address that does not exist, or of a failure."""
        code = error.code or int(HTTPStatus.INTERNAL_SERVER_ERROR)
        known = code < HTTPStatus.INTERNAL_SERVER_ERROR
        return self._problem(
            code, "There is no such page." if known else "See the log of the controller."
        )

    def _problem(self, code: int, text: str) -> flask.Response:
        viewer = getattr(flask.g, "viewer", None)
        page = flask.render_template(
            "problem.html",
            viewer=viewer.caller.name if viewer else "",
            code=code,
            phrase=HTTPStatus(code).phrase,
            text=text,
        )
        return flask.Response(page, code)


def _cut(rows: list[Any], size: int) -> dict[str, Any]:
    """Return the part of a list that a page shows, and which pages there are."""
    last = max(1, -(-len(rows) // size))
    page = min(_number(), last)
    return {"rows": rows[(page - 1) * size : page * size], "page": page, "last": last}


def _number() -> int:
    """Return which page of a list is asked for, counted from 1."""
    asked = flask.request.args.get("page", "1")
    return max(int(asked), 1) if asked.isdecimal() and len(asked) <= _DIGITS else 1


def _moment(microseconds: int) -> str:
    return clocks.to_wire(datetime.fromtimestamp(microseconds // 1_000_000, UTC))


def _secured(answer: flask.Response) -> flask.Response:
    for name, value in _HEADERS.items():
        answer.headers.setdefault(name, value)
    if flask.request.endpoint == "static":
        answer.headers["Cache-Control"] = "no-cache"
    return answer


def _folder() -> str:
    return __file__.rpartition("/")[0]
