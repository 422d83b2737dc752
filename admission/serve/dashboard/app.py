"""The dashboard as an application: pages, their style and script, and who may see them."""

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import flask
from werkzeug.exceptions import HTTPException

from admission.base import clock as clocks
from admission.base import logs
from admission.base.clock import Clock
from admission.base.names import WorkloadKey
from admission.gpu.catalogue import Catalogue
from admission.kube.errors import KubeError
from admission.serve import statuses
from admission.serve.callers import Reviews
from admission.serve.dashboard import pages, viewers, words
from admission.serve.dashboard.pages import NO_ANSWER, Pages
from admission.serve.dashboard.source import Source
from admission.serve.dashboard.streams import Streams
from admission.serve.dashboard.viewers import Sessions
from admission.serve.statuses import RefusedError

MOST_BYTES: Final = 300_000
"""Of any page."""
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


def create_app(
    source: Source,
    api: Reviews,
    clock: Clock,
    catalogue: Catalogue,
    wait: Callable[[float], bool],
    *,
    namespace: str,
    is_secure: bool,
) -> flask.Flask:
    """Return the dashboard as a WSGI application.

    Args:
        source: of what is shown.
        api: says who callers are, and what they may.
        clock: clock for ages, and for the time that answers are cached.
        catalogue: of GPU products.
        wait: lets some seconds pass; true where the process is about to end.
        namespace: that holds the records of GPU-time.
        is_secure: whether it is served with TLS.
    """
    app = flask.Flask("gpu-admission-dashboard", root_path=_folder())
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters["moment"] = _moment
    app.jinja_env.filters["level"] = words.level
    app.jinja_env.filters["counted"] = words.counted
    app.jinja_env.filters["count"] = "{:,}".format
    app.jinja_env.filters["ago"] = pages.ago
    app.jinja_env.tests["of_workload"] = lambda key: isinstance(key, WorkloadKey)
    app.jinja_env.globals["with_parameters"] = pages.with_parameters
    gate = _Gate(Sessions(api, clock), is_secure=is_secure)
    shown = Pages(source, clock, catalogue, namespace)
    watched = Streams(source.revision, wait)
    app.add_url_rule("/changes", "changes", watched.answer)
    app.before_request(gate.check)
    app.after_request(_secured)
    app.register_error_handler(RefusedError, gate.refused)
    app.register_error_handler(HTTPException, gate.failed)
    app.add_url_rule("/", "overview", shown.overview)
    app.add_url_rule("/quota", "quota", shown.quota)
    app.add_url_rule("/queues/<name>", "queue", shown.queue)
    app.add_url_rule("/gpus", "gpus", shown.nodes)
    app.add_url_rule("/gpus/<name>", "node", shown.node)
    app.add_url_rule("/namespaces", "teams", shown.teams)
    app.add_url_rule("/namespaces/<namespace>", "team", shown.team)
    app.add_url_rule("/namespaces/<namespace>/workloads/<name>", "workload", shown.workload)
    app.add_url_rule("/login", "login", gate.login)
    app.add_url_rule("/login", "sign_in", gate.sign_in, methods=["POST"])
    app.add_url_rule("/logout", "sign_out", gate.sign_out, methods=["POST"])
    return app


class _Gate:
    """Lets callers in and out, and says why a page is not shown."""

    def __init__(self, sessions: Sessions, *, is_secure: bool) -> None:
        self._sessions = sessions
        self._is_secure = is_secure
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
            raise statuses.not_ready(NO_ANSWER) from error
        return None

    def login(self) -> str:
        """Return the page that takes a token."""
        return flask.render_template("login.html", problem="")

    def sign_in(self) -> Any:
        """Puts a token that is good into a cookie."""
        token = flask.request.form.get("token", "").strip()
        if not token.isascii() or any(character.isspace() for character in token):
            token = ""
        problem = ""
        if len(token) > viewers.LONGEST_TOKEN:
            problem = (
                "This token is too long for a cookie. Use a token of a ServiceAccount, or a proxy "
                "that sends yours."
            )
        else:
            try:
                owner = self._sessions.owner(f"Bearer {token}")
            except KubeError as error:
                self._log.warning("caller not checked", error=str(error))
                owner, problem = None, NO_ANSWER
            if owner is None:
                problem = problem or "The API server does not accept this token."
        if problem:
            text = flask.render_template("login.html", problem=problem)
            return flask.Response(text, HTTPStatus.UNAUTHORIZED)
        answer = flask.redirect(flask.url_for("overview"), HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            viewers.COOKIE, token, httponly=True, samesite="Strict", secure=self._is_secure
        )
        return answer

    def sign_out(self) -> Any:
        """Forgets the token."""
        answer = flask.redirect(flask.url_for("login"), HTTPStatus.SEE_OTHER)
        answer.delete_cookie(
            viewers.COOKIE, httponly=True, samesite="Strict", secure=self._is_secure
        )
        return answer

    # -------------------------------------------------------------------------------- errors

    def refused(self, error: RefusedError) -> flask.Response:
        """Return the page that says why there is no other."""
        return self._problem(int(error.code), error.message)

    def failed(self, error: HTTPException) -> flask.Response:
        """Return the page of an address that does not exist, or of a failure."""
        code = error.code or int(HTTPStatus.INTERNAL_SERVER_ERROR)
        is_client_error = code < HTTPStatus.INTERNAL_SERVER_ERROR
        return self._problem(
            code, "There is no such page." if is_client_error else "See the log of the controller."
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
