"""How fair sharing of an installation is found, and turned on."""

from typing import Any

import pytest
from typing_extensions import override

from admission.admin import fair_sharing, manifests
from admission.admin.fair_sharing import QuotaSharing, SharingState
from admission.base import patches
from admission.config.derived import Settings
from admission.kube import apply, resources
from admission.kube.resources import Resource
from admission.sandbox.store import Store

SETTINGS = Settings()
SPACE = SETTINGS.namespace


class Managed(Store):
    """An API server that says which field manager wrote the data of ConfigMaps."""

    def __init__(self, manager: str, operation: str) -> None:
        super().__init__()
        fields: dict[str, Any] = {"f:data": {"f:config.yaml": {}}}
        self._entry = {"manager": manager, "operation": operation, "fieldsV1": fields}

    @override
    def get(self, resource: Resource, *args: Any, **how: Any) -> Any:
        found = super().get(resource, *args, **how)
        if resource == resources.CONFIG_MAPS:
            found["metadata"]["managedFields"] = [self._entry]
        return found


def installed(store: Store | None = None) -> Store:
    store = store or Store()
    documents = [
        manifests.namespace(SETTINGS),
        manifests.config_map(SETTINGS),
        *manifests.webhook(SETTINGS, "image:1"),
        *manifests.controller(SETTINGS, "image:1"),
    ]
    for document in documents:
        resource, _, namespace = apply.locate(document)
        store.create(resource, document, namespace)
    return store


def hashes(store: Store) -> set[str]:
    names = (manifests.WEBHOOK, manifests.CONTROLLER)
    found = (store.get(resources.DEPLOYMENTS, name, SPACE) for name in names)
    key = "gpu-admission.dev/config-hash"
    return {one["spec"]["template"]["metadata"]["annotations"][key] for one in found}


def test_turned_on_it_is_what_install_would_have_written() -> None:
    store = installed()
    assert fair_sharing.look(store, SPACE) == QuotaSharing(state=SharingState.OFF)
    before = hashes(store)
    changed = [(one.kind, one.name) for one in fair_sharing.turn_on(store, SPACE)]
    assert changed == [
        ("ConfigMap", manifests.CONFIG_MAP),
        ("Deployment", manifests.WEBHOOK),
        ("Deployment", manifests.CONTROLLER),
    ]
    assert fair_sharing.look(store, SPACE) == QuotaSharing(state=SharingState.ON)
    settings = manifests.configured(store.get(resources.CONFIG_MAPS, manifests.CONFIG_MAP, SPACE))
    assert hashes(store) == {manifests.config_hash(settings)}
    assert hashes(store) != before


@pytest.mark.parametrize(
    ("manager", "operation", "keeper"),
    [("helm", "Update", "helm"), ("argocd", "Apply", "argocd"), ("gpu-admission", "Apply", "")],
)
def test_who_else_applies_the_configuration_is_named(
    manager: str, operation: str, keeper: str
) -> None:
    store = installed(Managed(manager, operation))
    assert fair_sharing.look(store, SPACE) == QuotaSharing(state=SharingState.OFF, keeper=keeper)


def test_a_configuration_that_cannot_be_read_is_not_known() -> None:
    store = installed()
    broken = patches.merge({"data": {"config.yaml": "kind: nothing"}})
    store.patch(resources.CONFIG_MAPS, manifests.CONFIG_MAP, broken, SPACE)
    assert fair_sharing.look(store, SPACE) == QuotaSharing(state=SharingState.UNKNOWN)
