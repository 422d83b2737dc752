"""The controller's read-only pages: health, readiness, metrics, and who waits."""

from collections.abc import Callable, Iterable

import flask
import prometheus_client

from admission.serve import visibility
from admission.serve.lists import PendingSource

Probe = Callable[[], str]
"""Says what is wrong, in a few words; empty when all is well."""


Details = Callable[[], Iterable[str]]
"""Says what a reader of the readiness page may want to know, a fact a line."""


def create_app(
    *,
    alive: Probe,
    ready: Probe,
    note: str = "",
    details: Details = tuple,
    lists: PendingSource | None = None,
) -> flask.Flask:
    """Return the pages as a WSGI application.

    Args:
        alive: fails where only a restart helps.
        ready: fails until every watched kind was listed.
        note: what a reader of the readiness page should know besides; empty for nothing.
        details: of the readiness page, for who asks for ``?verbose``.
        lists: of pending workloads, for everybody who can reach the pages; None for nobody.
    """
    app = flask.Flask(__name__)

    @app.get("/healthz")
    def healthz() -> flask.Response:
        return _probed(alive)

    @app.get("/readyz")
    def readyz() -> flask.Response:
        details_shown = details() if "verbose" in flask.request.args else ()
        return _probed(ready, note, details_shown)

    if lists is not None:
        visibility.add_lists(app, lists)

    @app.get("/metrics")
    def metrics() -> flask.Response:
        return flask.Response(
            prometheus_client.generate_latest(),
            content_type=prometheus_client.CONTENT_TYPE_LATEST,
        )

    return app


def _probed(probe: Probe, note: str = "", details: Iterable[str] = ()) -> flask.Response:
    problem = probe()
    well = f"ok: {note}" if note else "ok"
    return flask.Response(
        "".join(f"{line}\n" for line in (*details, problem or well)),
        status=503 if problem else 200,
        content_type="text/plain",
    )
