"""Whether an installation shares evenly what queues do not use, and how that is turned on."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from admission.admin import installation, manifests
from admission.base import names, patches
from admission.config import reading
from admission.config.derived import Settings
from admission.config.kueue_configuration import FairSharingSettings
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.kube.apply import Applied, Effect

HTTPS: Final = "https://"
"""How the URL of a webhook begins."""
_APPLY: Final = "Apply"


class SharingState(Enum):
    """Whether fair sharing is on."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSharing:
    """How an installation shares quota that others do not use.

    Attributes:
        state: whether evenly.
        keeper: who applies the configuration, if it is neither ``install`` nor nobody: the name
            of a field manager, or the URL of a webhook outside of the cluster.
    """

    state: SharingState
    keeper: str = ""


def look(api: Api, namespace: str) -> QuotaSharing:
    """Return what the configuration of the installation says; off where there is none.

    Args:
        api: the cluster.
        namespace: of the installation.
    """
    try:
        document = _config_map(api, namespace)
        if document is None:
            place = installation.webhook_place(api)
            return QuotaSharing(
                state=SharingState.OFF, keeper=place if place.startswith(HTTPS) else ""
            )
        fair = manifests.configured(document).kueue.fair_sharing
    except (errors.ForbiddenError, reading.ConfigurationError):
        return QuotaSharing(state=SharingState.UNKNOWN)
    return QuotaSharing(
        state=SharingState.OFF if fair is None else SharingState.ON, keeper=_keeper(document)
    )


def _config_map(api: Api, namespace: str) -> dict[str, Any] | None:
    try:
        return api.get(resources.CONFIG_MAPS, manifests.CONFIG_MAP, namespace)
    except errors.NotFoundError:
        return None


def _keeper(document: dict[str, Any]) -> str:
    """Return the field manager that applies a ConfigMap; empty where `install` did."""
    entries = document["metadata"].get("managedFields") or ()
    applied = [entry["manager"] for entry in entries if "f:data" in (entry.get("fieldsV1") or {})]
    ours = any(
        entry["manager"] == names.FIELD_MANAGER and entry.get("operation") == _APPLY
        for entry in entries
    )
    return "" if ours or not applied else str(applied[0])


def turn_on(api: Api, namespace: str) -> Iterator[Applied]:
    """Turn fair sharing on in an installation in the cluster; its pods start again.

    Raises:
        ConfigurationError: the configuration cannot be read.
        KubeError: the API server refused.
    """
    before = installation.configured(api, namespace)
    if before is None:
        return
    kueue = before.kueue.model_copy(update={"fair_sharing": FairSharingSettings()})
    settings = before.model_copy(update={"kueue": kueue})
    document = manifests.config_map(settings)
    patch = patches.merge({"data": document["data"]})
    api.patch(resources.CONFIG_MAPS, manifests.CONFIG_MAP, patch, namespace)
    yield _configured(resources.CONFIG_MAPS.kind, manifests.CONFIG_MAP, namespace)
    yield from _restarted(api, settings)


def _restarted(api: Api, settings: Settings) -> Iterator[Applied]:
    """Give the Deployments the hash of another configuration, so that their pods are replaced."""
    annotations = {names.CONFIG_HASH: manifests.config_hash(settings)}
    patch = patches.merge({"spec": {"template": {"metadata": {"annotations": annotations}}}})
    for name in (manifests.WEBHOOK, manifests.CONTROLLER):
        try:
            api.patch(resources.DEPLOYMENTS, name, patch, settings.namespace)
        except errors.NotFoundError:
            continue
        yield _configured(resources.DEPLOYMENTS.kind, name, settings.namespace)


def _configured(kind: str, name: str, namespace: str) -> Applied:
    return Applied(kind=kind, name=name, namespace=namespace, effect=Effect.CONFIGURED)
