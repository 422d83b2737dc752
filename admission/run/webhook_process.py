"""The webhook's process: reflectors fill its lister, gunicorn serves the reviews over TLS."""

from functools import partial
from pathlib import Path
from typing import Any

from admission.base import logs, metrics
from admission.base.clock import Clock, SystemClock
from admission.config.addresses import Address
from admission.config.derived import Settings
from admission.installed import serving_certificate
from admission.kube.api import Api
from admission.kube.connectivity import Connectivity
from admission.kube.reflector import Deleted, Reflector, Replaced, Upserted
from admission.kube.resources import Resource
from admission.owners import integrations
from admission.owners.review import HeldKind, Reviewed
from admission.run import metrics_access, serving
from admission.run.certificates import ServedCertificate
from admission.run.connection import ApiServerTarget
from admission.run.metrics_access import MetricsAccess
from admission.run.pages import PageServer, Wsgi
from admission.run.tracing import Traces
from admission.run.watches import WATCH_SECONDS, OptionalWatch
from admission.webhook import convert, owner_admissions, server
from admission.webhook import lister as webhook_lister
from admission.webhook.asgi import Limits
from admission.webhook.lister import ClusterLister
from admission.webhook.metrics import WebhookMetrics
from admission.webhook.owner_admissions import OwnerAdmissions
from certs import files
from certs.rotation import Lifetimes

_ANY = {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound


def serve(
    target: ApiServerTarget, address: Address, directory: Path, settings: Settings, log_level: str
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
    logs.take_in_others()
    lifetimes = serving_certificate.lifetimes(settings.gpu.certificates)
    pair = certificate_files(directory, address.host, SystemClock(), lifetimes)
    checked = integrations.kinds_of(settings).checked
    api = target.connect(
        connections=len(webhook_lister.WATCHED) + len(checked) + 3,
        timeout_seconds=settings.gpu.controller.request_timeout.total_seconds(),
    )
    connection = target.connect(connections=1, timeout_seconds=owner_admissions.ASK_SECONDS)
    owners = OwnerAdmissions(SystemClock(), partial(read_owner, connection))
    lister = ClusterLister(owners)
    served = ServedCertificate(api, directory, SystemClock())
    traces = Traces.of(settings.gpu.tracing, "gpu-admission-webhook")
    app: Wsgi = server.create_app(
        lister,
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

    health = settings.gpu.webhook.health_address

    def after_fork() -> None:
        logs.configure(log_level)
        if traces is not None:
            traces.start()
        if health is not None:
            PageServer(server.create_probes(lister, served), health.host, health.port)
        connectivity = Connectivity(SystemClock())
        for resource, into in webhook_lister.WATCHED.items():
            reflector(api, resource, into, lister, connectivity).start()
        for checked_kind in checked:
            owner_watch(api, checked_kind, owners, connectivity).start()
        served.start()

    logs.get("process").info(
        "started",
        process="webhook",
        version=metrics.version(),
        api_server=target.place(),
        addresses={
            "reviews": [address.text()],
            **({} if health is None else {"health": [health.text()]}),
        },
        namespace=settings.namespace,
    )
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


def read_owner(api: Api, kind: HeldKind, namespace: str, name: str) -> Reviewed | None:
    """Return an owner; None where there is none of this name.

    It is listed by its name: the webhook may list owners, and needs no other right for this.

    Raises:
        KubeError: it cannot be read.
    """
    resource = owner_admissions.resource_of(kind)
    by_name = f"metadata.name={name}"
    page = api.list(resource, namespace, field_selector=by_name, limit=1, into=kind.document)
    return next(iter(page.items), None)


def owner_watch(
    api: Api, kind: HeldKind, owners: OwnerAdmissions, connectivity: Connectivity
) -> OptionalWatch:
    """Return what keeps the owners of a kind current, once it is served."""

    def sink(change: Replaced[Any] | Upserted[Any] | Deleted[Any]) -> None:
        if isinstance(change, Replaced):
            owners.replace(kind, change.items)
        elif isinstance(change, Upserted):
            owners.upsert(kind, change.object)
        else:
            owners.delete(kind, change.object)

    def absent() -> None:
        owners.replace(kind, ())

    follows: Reflector[Any] = Reflector(
        api,
        owner_admissions.resource_of(kind),
        kind.document,
        sink,
        clock=SystemClock(),
        watch_seconds=WATCH_SECONDS,
        on_unserved=absent,
        connectivity=connectivity,
    )
    return OptionalWatch(api, (follows,), absent, SystemClock())


def reflector(
    api: Api,
    resource: Resource,
    into: type[Any],
    lister: ClusterLister,
    connectivity: Connectivity | None = None,
) -> Reflector[Any]:
    """Return a reflector that keeps one kind of the lister current."""

    def sink(change: Replaced[Any] | Upserted[Any] | Deleted[Any]) -> None:
        if isinstance(change, Replaced):
            lister.replace(resource, change.items, change.version)
        elif isinstance(change, Upserted):
            lister.upsert(resource, change.object)
        else:
            lister.delete(resource, change.object)

    return Reflector(
        api,
        resource,
        into,
        sink,
        clock=SystemClock(),
        watch_seconds=WATCH_SECONDS,
        on_unserved=lambda: lister.unserved(resource),
        connectivity=connectivity,
    )
