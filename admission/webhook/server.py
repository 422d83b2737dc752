"""The Flask application: routes and bodies; what a review decides is elsewhere."""

from collections.abc import Iterable, Mapping
from typing import IO, Any, Final, Protocol

from flask import Flask, Response, request
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from admission.base.clock import Clock, SystemClock
from admission.config.derived import Settings
from admission.gpu import resources
from admission.owners import integrations
from admission.webhook import asgi, convert, decoding, kinds, metrics, reviewing
from admission.webhook.convert import Converter
from admission.webhook.decoding import Questions
from admission.webhook.kinds import KindReviewer
from admission.webhook.lister import WATCHED, ClusterLister
from admission.webhook.metrics import WebhookMetrics
from admission.webhook.review_context import Rules
from admission.webhook.reviewing import (
    OnAnswered,
    OwnerReviewer,
    PodReviewer,
    Reviewer,
    ServingReviewer,
)

MAX_DISCARDED_BYTES: Final = 64 * 1024 * 1024
"""How much of a body that is too large is read before the answer."""

_CHUNK_BYTES: Final = 256 * 1024
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"


class Certificate(Protocol):
    """The certificate that the webhook serves."""

    def unready(self) -> str:
        """Return why the API server refuses it, and what to do; empty if it does not."""
        ...

    def expiries(self) -> Mapping[str, float]:
        """Return when certificates expire, in seconds since 1970, by what they are."""
        ...


def create_app(
    lister: ClusterLister,
    settings: Settings,
    webhook_metrics: WebhookMetrics,
    clock: Clock | None = None,
    certificate: Certificate | None = None,
    on_answered: OnAnswered | None = None,
) -> Flask:
    """Return the webhook as a WSGI application.

    A review is always answered with HTTP 200 and an AdmissionReview: any other status reads to
    the API server as "webhook failed" and hides the message.

    Args:
        lister: filled by the caller's watches.
        settings: what the installation chose.
        webhook_metrics: where reviews are counted and what ``/metrics`` shows.
        clock: source of time; the machine's by default.
        certificate: tells whether the API server accepts what is served; None: nobody knows.
        on_answered: is told of reviews of pods under creation; None: nobody is.
    """
    app = Flask("gpu-admission-webhook", static_folder=None)
    clock = clock or SystemClock()
    rules, max_body_bytes = rules_of(settings), settings.gpu.webhook.max_body_bytes
    reviewers: list[tuple[type[Reviewer[Any]], Questions[Any]]] = [
        (PodReviewer, reviewing.POD_QUESTIONS),
        *((OwnerReviewer, reviewing.owner_questions(kind)) for kind in rules.kinds.held),
        *((ServingReviewer, reviewing.serving_questions(kind)) for kind in rules.kinds.serving),
    ]
    for make, questions in reviewers:
        reviewer = make(
            questions,
            lister=lister,
            rules=rules,
            metrics=webhook_metrics,
            clock=clock,
            max_body_bytes=max_body_bytes,
            on_answered=on_answered,
        )
        _add_reviews(app, reviewer, reviewer.paths)
    of_kinds = KindReviewer(
        lister=lister, metrics=webhook_metrics, clock=clock, max_body_bytes=max_body_bytes
    )
    _add_reviews(app, of_kinds, kinds.PATHS)
    _add_conversion(app, Converter(metrics=webhook_metrics, clock=clock))
    _add_probes(app, lister, certificate)
    _add_metrics(app, lister, webhook_metrics, certificate)
    return app


def rules_of(settings: Settings) -> Rules:
    """Return the part of the settings that reviews need, compiled."""
    return Rules(
        managed=resources.managed(settings.gpu.managed_resources),
        namespaces=settings.managed_namespaces,
        toleration_key=settings.gpu.toleration_key,
        catalogue=settings.gpu.catalogue(),
        kinds=integrations.kinds_of(settings),
    )


def _add_reviews(app: Flask, reviewer: Reviewer[Any] | KindReviewer, paths: Iterable[str]) -> None:
    def review() -> Response:
        path = request.path
        try:
            body = _body(reviewer.max_body_bytes)
        except decoding.MalformedError as error:
            return Response(reviewer.refuse(path, error), content_type=_JSON)
        answer = reviewer.review(path, body, request.headers.get("Content-Type", ""))
        return Response(answer, content_type=_JSON)

    for path in paths:
        app.add_url_rule(path, path, review, methods=["POST"])


def _add_conversion(app: Flask, converter: Converter) -> None:
    @app.post(convert.PATH)
    def convert_objects() -> Response:
        try:
            body = _body(converter.max_body_bytes)
            content_type = request.headers.get("Content-Type", "")
            return Response(converter.convert(body, content_type), content_type=_JSON)
        except decoding.MalformedError as error:
            text = converter.refuse(error)
            if error.uid:
                return Response(converter.failed(error), content_type=_JSON)
            return Response(text, status=error.code, content_type=_TEXT)


def _body(max_bytes: int) -> bytes:
    """Return the body of the request, which the server may have read.

    Raises:
        MalformedError: it exceeds a limit, or ended early.
    """
    received: asgi.Received | None = request.environ.get(asgi.RECEIVED)
    if received is not None:
        if received.problem:
            uid = decoding.uid_in(received.body)
            raise decoding.MalformedError(received.code, received.problem, uid)
        return received.body
    request.max_content_length = max_bytes
    try:
        return request.get_data(cache=False)
    except RequestEntityTooLarge:
        stream = request.environ["wsgi.input"]
        prefix = stream.read(asgi.PREFIX_BYTES)
        _discard(stream)
        raise decoding.too_large(max_bytes, prefix) from None
    except ClientDisconnected:
        raise decoding.MalformedError(decoding.BAD_REQUEST, "request body ended early") from None


def _discard(body: IO[bytes]) -> None:
    """Reads what is left of a body: closing before that would reset the connection.

    The sender would then see a broken pipe in place of the answer. There is an end to patience.
    """
    left = MAX_DISCARDED_BYTES
    while left > 0 and (chunk := body.read(min(_CHUNK_BYTES, left))):
        left -= len(chunk)


def _known(lister: ClusterLister) -> str:
    """A line per kind: the number of known objects, and up to which resourceVersion."""
    lines = (
        f"[+]{kind.qualified}: {lister.count(kind)} known, version {lister.version(kind)}\n"
        for kind in sorted(WATCHED, key=lambda kind: kind.qualified)
    )
    return "".join(lines)


def create_probes(lister: ClusterLister, certificate: Certificate | None = None) -> Flask:
    """Return the app of health and readiness alone, without TLS; arguments as of `create_app`."""
    app = Flask("gpu-admission-probes", static_folder=None)
    _add_probes(app, lister, certificate)
    return app


def _add_probes(app: Flask, lister: ClusterLister, certificate: Certificate | None) -> None:
    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", content_type=_TEXT)

    @app.get("/readyz")
    def readyz() -> Response:
        missing = lister.unsynced()
        if missing:
            text = f"not listed yet: {', '.join(missing)}\n"
            return Response(text, status=503, content_type=_TEXT)
        if certificate is not None and (problem := certificate.unready()):
            return Response(f"{problem}\n", status=503, content_type=_TEXT)
        details = _known(lister) if "verbose" in request.args else ""
        return Response(f"{details}ok\n", content_type=_TEXT)


def _add_metrics(
    app: Flask,
    lister: ClusterLister,
    webhook_metrics: WebhookMetrics,
    certificate: Certificate | None,
) -> None:
    @app.get("/metrics")
    def show_metrics() -> Response:
        expiries = {} if certificate is None else certificate.expiries()
        text = webhook_metrics.exposition(ready=lister.synced, expiries=expiries)
        return Response(text, content_type=metrics.CONTENT_TYPE)
