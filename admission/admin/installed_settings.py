"""The settings of the installation in the cluster, and what other settings change of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.admin import installation, manifests
from admission.config import reading
from admission.config.derived import Settings
from admission.kube.api import Api

_KINDS: Final = frozenset({"apiVersion", "kind"})
_NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSettings:
    """What webhook and controller in the cluster are configured with.

    Attributes:
        namespace: of the installation.
        settings: those in force; None where nothing of ours is configured in the cluster, or
            where they cannot be read.
        problem: why they cannot be read; empty where they can.
    """

    namespace: str
    settings: Settings | None = None
    problem: str = ""


def of(api: Api, namespace: str) -> InstalledSettings:
    """Return the settings of the installation in the cluster.

    Args:
        api: the cluster.
        namespace: where to look if no webhook configuration says where the program is.

    Raises:
        KubeError: the API server refused.
    """
    place = installation.webhook_namespace(api) or namespace
    try:
        return InstalledSettings(namespace=place, settings=installation.configured(api, place))
    except reading.ConfigurationError as error:
        return InstalledSettings(namespace=place, problem=str(error))


def changes(before: Settings, after: Settings) -> Iterator[str]:
    """Yield each setting that other settings change in an installation, as ``path: old -> new``.

    Args:
        before: those of the installation.
        after: those that it gets; the addresses of its pods are taken as the ConfigMap has them.
    """
    for old, new in zip(before.documents(), manifests.in_cluster(after).documents(), strict=True):
        yield from _differences(old, new, "")


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in dict.fromkeys((*old, *new)):
        before, after, place = old.get(key), new.get(key), f"{path}{key}"
        if before == after or place in _KINDS:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{place}.")
        else:
            yield f"{place}: {_shown(before)} -> {_shown(after)}"


def _shown(value: Any) -> str:
    if value is None or value == "":
        return _NOTHING
    return value if isinstance(value, str) else json.dumps(value)
