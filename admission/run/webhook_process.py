"""The webhook's process: reflectors fill its knowledge, gunicorn serves the reviews over TLS."""

from pathlib import Path
from typing import Any

from admission.base import logs
from admission.base.clock import Clock, SystemClock
from admission.config.addresses import Address
from admission.config.derived import Settings
from admission.install import webhook_secret
from admission.kube.api import Api
from admission.kube.connectivity import Connectivity
from admission.kube.reflector import Deleted, Reflector, Replaced, Upserted
from admission.kube.resources import Resource
from admission.run import metrics_access, serving
from admission.run.certificates import ServedCertificate
from admission.run.connection import Target
from admission.run.metrics_access import MetricsAccess
from admission.run.pages import PageServer, Wsgi
from admission.run.tracing import Traces
from admission.run.watches import WATCH_SECONDS
from admission.webhook import convert, server
from admission.webhook import knowledge as webhook_knowledge
from admission.webhook.asgi import Limits
from admission.webhook.knowledge import ClusterKnowledge
from admission.webhook.metrics import WebhookMetrics
from certs import files
from certs.rotation import Lifetimes

_ANY = {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound


def serve(
    target: Target, address: Address, directory: Path, settings: Settings, log_level: str
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        target: API server whose queues, flavors and namespaces the reviews look up.
        address: where to listen.
        directory: certificates; made for the address where the directory holds none.
        settings: what the installation chose.
        log_level: least level of log lines.

    Raises:
        KubeError: the kubeconfig cannot be used.
        TracingError: traces are configured and cannot be sent.
        OSError: the address cannot be bound or the directory not be written.
    """
    lifetimes = webhook_secret.lifetimes(settings.gpu.certificates)
    pair = certificate_files(directory, address.host, SystemClock(), lifetimes)
    api = target.connect(
        connections=len(webhook_knowledge.WATCHED) + 3,
        timeout_seconds=settings.gpu.controller.request_timeout.total_seconds(),
    )
    known = ClusterKnowledge()
    served = ServedCertificate(api, directory, SystemClock())
    traces = Traces.of(settings.gpu.tracing, "gpu-admission-webhook")
    app: Wsgi = server.create_app(
        known,
        settings,
        WebhookMetrics(),
        certificate=served,
        on_answered=None if traces is None else traces.reviewed,
    )
    paths = {convert.PATH: Limits(convert.MAX_BODY_BYTES, convert.BODY_SECONDS)}
    if settings.gpu.webhook.secure_metrics:
        app = MetricsAccess(app, api, SystemClock())
        paths[metrics_access.PATH] = Limits(settings.gpu.webhook.max_body_bytes, waits=True)
    authority = settings.gpu.webhook.client_authority

    def after_fork() -> None:
        logs.configure(log_level)
        if traces is not None:
            traces.start()
        if settings.gpu.webhook.health_address is not None:
            health = settings.gpu.webhook.health_address
            PageServer(server.create_probes(known, served), health.host, health.port)
        connectivity = Connectivity(SystemClock())
        for resource, into in webhook_knowledge.WATCHED.items():
            reflector(api, resource, into, known, connectivity).start()
        served.start()

    serving.serve(
        app=lambda: app,
        host=address.host,
        port=address.port,
        certificates=pair,
        threads=settings.gpu.webhook.threads,
        limits=Limits(settings.gpu.webhook.max_body_bytes),
        paths=paths,
        client_authority=Path(authority) if authority else None,
        after_fork=after_fork,
    )


def certificate_files(
    directory: Path, host: str, clock: Clock, lifetimes: Lifetimes
) -> files.CertificateFiles:
    """Return the certificates of the directory, or new ones for the host where there are none."""
    present = files.CertificateFiles.of(directory)
    if present.certificate.exists() and present.key.exists():
        return present
    hosts = ["localhost", "127.0.0.1"] if host in _ANY else [host]
    return files.ensure(directory, hosts, clock.now(), lifetimes)


def reflector(
    api: Api,
    resource: Resource,
    into: type[Any],
    known: ClusterKnowledge,
    connectivity: Connectivity | None = None,
) -> Reflector[Any]:
    """Return a reflector that keeps one kind of the knowledge current."""

    def sink(change: Replaced[Any] | Upserted[Any] | Deleted[Any]) -> None:
        if isinstance(change, Replaced):
            known.replace(resource, change.items, change.version)
        elif isinstance(change, Upserted):
            known.upsert(resource, change.object)
        else:
            known.delete(resource, change.object)

    return Reflector(
        api,
        resource,
        into,
        sink,
        clock=SystemClock(),
        watch_seconds=WATCH_SECONDS,
        on_unserved=lambda: known.unserved(resource),
        connectivity=connectivity,
    )
