"""The webhook's certificate inside the cluster: a Secret that is made, renewed, or left alone."""

import base64
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from admission.app import manifests
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.kube import apply, errors, resources
from admission.kube.api import Api
from admission.kube.apply import Applied, Effect
from admission.settings import Settings
from certs import files

_AUTHORITY: Final = "ca.crt"
_AUTHORITY_KEY: Final = "ca.key"
_KEYS: Final = (_AUTHORITY, _AUTHORITY_KEY, "tls.crt", "tls.key")


class SecretError(AdmissionError):
    """The Secret cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensured:
    """The Secret as it is now.

    Attributes:
        authority: PEM text of the CA that clients trust.
        applied: what became of the Secret.
    """

    authority: bytes
    applied: Applied


def ensure(api: Api, settings: Settings, clock: Clock) -> Ensured:
    """Makes the Secret where there is none, and renews a certificate of ours that is due.

    A Secret without the authority's key belongs to somebody else, such as cert-manager, and is
    only read.

    Raises:
        SecretError: somebody else's Secret holds no CA.
        KubeError: the API server refused.
    """
    found = _read(api, settings)
    if found is not None and _AUTHORITY_KEY not in found:
        if not found.get(_AUTHORITY):
            raise SecretError(
                f"Secret {manifests.TLS_SECRET} in {settings.namespace} holds no {_AUTHORITY}: "
                "wait until its issuer has filled it, or delete it to have one made"
            )
        return Ensured(authority=found[_AUTHORITY], applied=_applied(settings, Effect.UNCHANGED))
    wanted = _renewed(found or {}, settings, clock)
    effect = Effect.UNCHANGED
    if wanted != found:
        effect = apply.apply(api, document(settings, wanted))
    return Ensured(authority=wanted[_AUTHORITY], applied=_applied(settings, effect))


def document(settings: Settings, content: dict[str, bytes]) -> dict[str, Any]:
    """The Secret; without content, what is enough to delete it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": manifests.TLS_SECRET, "namespace": settings.namespace},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in content.items()},
    }


def _renewed(found: dict[str, bytes], settings: Settings, clock: Clock) -> dict[str, bytes]:
    """The content as it should be, by way of a directory that only we can read."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for key in _KEYS:
            if key in found:
                (directory / key).write_bytes(found[key])
        files.ensure(directory, manifests.service_hosts(settings), clock.now())
        return {key: (directory / key).read_bytes() for key in _KEYS}


def _read(api: Api, settings: Settings) -> dict[str, bytes] | None:
    try:
        found = api.get(resources.SECRETS, manifests.TLS_SECRET, settings.namespace)
    except errors.NotFoundError:
        return None
    return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}


def _applied(settings: Settings, effect: Effect) -> Applied:
    return Applied(
        kind="Secret", namespace=settings.namespace, name=manifests.TLS_SECRET, effect=effect
    )
