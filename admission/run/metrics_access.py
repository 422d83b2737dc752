"""Metrics for users whom the API server allows to read them.

As Kueue's: a bearer token, whose owner a TokenReview names, and a SubjectAccessReview on the path
``/metrics``. Source: sigs.k8s.io/controller-runtime pkg/metrics/filters.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from admission.base import logs
from admission.base.clock import Clock
from admission.kube.errors import KubeError
from admission.run.pages import Wsgi
from admission.serve.access import Access, RequestTarget
from admission.serve.callers import Reviews, Tokens
from admission.serve.statuses import RefusedError

PATH: Final = "/metrics"

_UNKNOWN: Final = "send the token of an account that may get /metrics: Authorization: Bearer TOKEN"
_NO_ANSWER: Final = "the API server did not say whether you may read metrics: try again"
_log = logs.get("metrics")


class MetricsAccess:
    """A WSGI application in front of another: it refuses the metrics to those who may not."""

    def __init__(self, app: Wsgi, api: Reviews, clock: Clock) -> None:
        """Wraps the application; every path but that of the metrics stays free."""
        self._app = app
        self._tokens = Tokens(api, clock)
        self._access = Access(api, clock)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answers a request."""
        if environ.get("PATH_INFO", "").rstrip("/") != PATH:
            return self._app(environ, start)
        authorization = environ.get("HTTP_AUTHORIZATION")
        try:
            caller = self._tokens.caller(
                [("authorization", authorization)] if authorization else []
            )
            if caller is None:
                headers = [("WWW-Authenticate", "Bearer")]
                return _refused(start, "401 Unauthorized", f"Unauthorized: {_UNKNOWN}", headers)
            self._access.check(caller, RequestTarget(verb="get", path=PATH))
        except RefusedError as refused:
            return _refused(start, "403 Forbidden", str(refused))
        except KubeError as error:
            _log.warning("access to metrics not decided", error=str(error))
            return _refused(start, "503 Service Unavailable", _NO_ANSWER)
        return self._app(environ, start)


def _refused(
    start: Callable[..., Any], status: str, text: str, headers: Iterable[tuple[str, str]] = ()
) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    length = ("Content-Length", str(len(body)))
    start(status, [("Content-Type", "text/plain; charset=utf-8"), length, *headers])
    return [body]
