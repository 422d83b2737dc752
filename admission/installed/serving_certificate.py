"""The serving certificate of an installation: its Secret, its names, and for how long it holds."""

from typing import Final

from admission.config.derived import Settings
from admission.config.gpu_configuration import Certificates
from certs.rotation import Lifetimes

SECRET: Final = "gpu-admission-webhook-tls"  # noqa: S105 - its name
WEBHOOK_SERVICE: Final = "gpu-admission-webhook"
VISIBILITY_SERVICE: Final = "gpu-admission-visibility"


def service_hosts(settings: Settings) -> list[str]:
    """Return the names under which the Services of webhook and controller are reached."""
    name = f"{WEBHOOK_SERVICE}.{settings.namespace}"
    hosts = [f"{name}.svc", f"{name}.svc.cluster.local", name, WEBHOOK_SERVICE]
    return [*hosts, visibility_host(settings.namespace)]


def visibility_host(namespace: str) -> str:
    """Return the name that the serving certificate must have; API servers check no other."""
    return f"{VISIBILITY_SERVICE}.{namespace}.svc"


def lifetimes(settings: Certificates) -> Lifetimes:
    """Return the lifetimes of the issued certificates."""
    return Lifetimes(
        authority=settings.authority_lifetime,
        serving=settings.serving_lifetime,
    )
