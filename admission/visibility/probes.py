"""The controller's read-only pages: health, readiness, metrics, and who waits."""

from collections.abc import Callable

import flask
import prometheus_client

from admission.visibility import pages as visibility
from admission.visibility.lists import Source

Probe = Callable[[], str]
"""Says what is wrong, in a few words; empty when all is well."""


def create_app(
    *, alive: Probe, ready: Probe, note: str = "", lists: Source | None = None
) -> flask.Flask:
    """Return the pages as a WSGI application.

    Args:
        alive: fails where only a restart helps.
        ready: fails until every watched kind was listed.
        note: what a reader of the readiness page should know besides; empty for nothing.
        lists: of pending workloads, for everybody who can reach the pages; None for nobody.
    """
    app = flask.Flask(__name__)

    @app.get("/healthz")
    def healthz() -> flask.Response:
        return _probed(alive)

    @app.get("/readyz")
    def readyz() -> flask.Response:
        return _probed(ready, note)

    if lists is not None:
        visibility.add_lists(app, lists)

    @app.get("/metrics")
    def metrics() -> flask.Response:
        return flask.Response(
            prometheus_client.generate_latest(),
            content_type=prometheus_client.CONTENT_TYPE_LATEST,
        )

    return app


def _probed(probe: Probe, note: str = "") -> flask.Response:
    problem = probe()
    well = f"ok: {note}" if note else "ok"
    return flask.Response(
        f"{problem or well}\n", status=503 if problem else 200, content_type="text/plain"
    )
