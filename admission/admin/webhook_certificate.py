"""The webhook's certificate inside the cluster, at installation: made, renewed, or left alone.

Later the leader renews it, see `admission.run.certificates`.
"""

import base64
from dataclasses import dataclass
from typing import Any

from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.config.derived import Settings
from admission.installed import serving_certificate
from admission.kube import apply, errors, resources
from admission.kube.api import Api
from admission.kube.apply import Applied, Effect
from certs import rotation


class SecretError(AdmissionError):
    """The Secret cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensured:
    """The Secret as it is now.

    Attributes:
        authority: PEM text of the CAs that clients trust.
        applied: what became of the Secret.
    """

    authority: bytes
    applied: Applied


def ensure(api: Api, settings: Settings, clock: Clock) -> Ensured:
    """Create the Secret where there is none, and renew a certificate of ours that is due.

    A Secret without the authority's key belongs to somebody else, such as cert-manager, and is
    only read.

    Raises:
        SecretError: somebody else's Secret holds no CA.
        KubeError: the API server refused.
    """
    secret, version = _read(api, settings) or ({}, "")
    if rotation.is_foreign(secret):
        if not secret.get(rotation.AUTHORITIES):
            raise SecretError(
                f"Secret {serving_certificate.SECRET} in {settings.namespace} holds no "
                f"{rotation.AUTHORITIES}: wait until its issuer has filled it, or delete the "
                "Secret to have a new one created"
            )
        applied = _applied(settings, Effect.UNCHANGED)
        return Ensured(authority=secret[rotation.AUTHORITIES], applied=applied)
    stored = rotation.read(secret)
    renewed = rotation.renew(
        stored,
        serving_certificate.service_hosts(settings),
        clock.now(),
        serving_certificate.lifetimes(settings.gpu.certificates),
    )
    effect = Effect.UNCHANGED
    if renewed != stored:
        renewed_secret = document(settings, rotation.write(renewed))
        if version:  # the leader may renew it, too
            renewed_secret["metadata"]["resourceVersion"] = version
        effect = apply.apply(api, renewed_secret)
    return Ensured(authority=renewed.bundle(), applied=_applied(settings, effect))


def document(settings: Settings, content: dict[str, bytes]) -> dict[str, Any]:
    """Return the Secret; without content, what is enough to delete it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": serving_certificate.SECRET, "namespace": settings.namespace},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in content.items()},
    }


def _read(api: Api, settings: Settings) -> tuple[dict[str, bytes], str] | None:
    """Content and resourceVersion; None where there is no Secret."""
    try:
        secret = api.get(resources.SECRETS, serving_certificate.SECRET, settings.namespace)
    except errors.NotFoundError:
        return None
    data = (secret.get("data") or {}).items()
    content = {key: base64.b64decode(value) for key, value in data}
    return content, secret["metadata"]["resourceVersion"]


def _applied(settings: Settings, effect: Effect) -> Applied:
    return Applied(
        kind="Secret", namespace=settings.namespace, name=serving_certificate.SECRET, effect=effect
    )
