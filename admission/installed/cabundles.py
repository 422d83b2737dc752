"""The objects that tell API servers whose certificates to trust, and the caBundle in each."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.base import names, patches
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.kube.resources import Resource
from admission.objects import kinds

MUTATING_NAME: Final = "gpu-admission-mutating-webhook-configuration"
VALIDATING_NAME: Final = "gpu-admission-validating-webhook-configuration"
NAMES: Final[Mapping[Resource, tuple[str, ...]]] = {
    resources.MUTATING_WEBHOOKS: (MUTATING_NAME,),
    resources.VALIDATING_WEBHOOKS: (VALIDATING_NAME,),
    resources.CRDS: tuple(
        f"{kind.plural}.{names.KUEUE_GROUP}" for kind in kinds.KINDS if kind.converted
    ),
    resources.API_SERVICES: tuple(
        f"{version}.{names.VISIBILITY_GROUP}" for version in names.VISIBILITY_VERSIONS
    ),
}
"""Names of the objects of an installation, by kind; not each is in every installation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusting:
    """One of the objects.

    Attributes:
        resource: its kind.
        name: its name.
        version: its resourceVersion.
        bundles: PEM text of each caBundle in it, by its JSON pointer.
    """

    resource: Resource
    name: str
    version: str
    bundles: Mapping[str, bytes]


def trusting(api: Api) -> Iterator[Trusting]:
    """Read the objects whose caBundle is ours to write.

    Left out is what is not there, and what cert-manager injects into.

    Raises:
        KubeError: the API server cannot be asked.
    """
    for resource, listed in NAMES.items():
        for name in listed:
            try:
                configuration = api.get(resource, name)
            except errors.NotFoundError:
                continue
            metadata = configuration["metadata"]
            if any(key.startswith(names.INJECTED_CA) for key in metadata.get("annotations") or {}):
                continue
            bundles = dict(bundles_of(resource, configuration))
            if bundles:
                version = metadata["resourceVersion"]
                yield Trusting(resource=resource, name=name, version=version, bundles=bundles)


def client_configs(configuration: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return where the webhooks of a CRD or webhook configuration are asked, by their name.

    Each is a JSON pointer and what stands there. The conversion of a CRD has an empty name.
    """
    conversion = (configuration.get("spec") or {}).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        pointer = patches.pointer("spec", "conversion", "webhook", "clientConfig")
        return {"": (pointer, conversion["webhook"]["clientConfig"])}
    return {
        webhook["name"]: (
            patches.pointer("webhooks", index, "clientConfig"),
            webhook["clientConfig"],
        )
        for index, webhook in enumerate(configuration.get("webhooks") or ())
    }


def bundles_of(resource: Resource, document: Document) -> Iterator[tuple[str, bytes]]:
    """Yield JSON pointer and PEM text of each caBundle of an object; the text may be empty."""
    spec = document.get("spec") or {}
    if resource is resources.CRDS:
        conversion = spec.get("conversion") or {}
        if conversion.get("strategy") == "Webhook":
            pointer = patches.pointer("spec", "conversion", "webhook", "clientConfig", "caBundle")
            yield pointer, _bundle(conversion["webhook"]["clientConfig"])
    elif resource is resources.API_SERVICES:
        if spec.get("service"):
            yield patches.pointer("spec", "caBundle"), _bundle(spec)
    else:
        for index, webhook in enumerate(document.get("webhooks") or ()):
            pointer = patches.pointer("webhooks", index, "clientConfig", "caBundle")
            yield pointer, _bundle(webhook["clientConfig"])


def _bundle(config: Mapping[str, Any]) -> bytes:
    return base64.b64decode(config.get("caBundle") or "")
