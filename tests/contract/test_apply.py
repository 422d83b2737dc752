"""Server-side apply: a real server tells what it changed, the embedded store refuses."""

import pytest

from admission.base import patches
from admission.base.errors import InvalidValueError
from admission.kube import apply, errors, resources
from admission.kube.apply import Effect
from tests.contract import objects
from tests.contract.conftest import Server

Document = objects.Document


def config(namespace: str, **data: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": namespace},
        "data": data,
    }


on_real_servers = pytest.mark.parametrize(
    "server", [pytest.param("apiserver", marks=pytest.mark.controlplane)], indirect=True
)
on_embedded_stores = pytest.mark.parametrize("server", ["store", "served"], indirect=True)


@on_embedded_stores
def test_the_embedded_store_refuses_to_apply(server: Server, namespace: str):
    with pytest.raises(errors.ApiError, match="does not support server-side apply") as refused:
        apply.apply(server.api, config(namespace))
    assert refused.value.status == 415


@on_real_servers
def test_apply_tells_what_became_of_a_document(server: Server, namespace: str):
    api = server.api
    assert apply.apply(api, config(namespace, x="1")) is Effect.CREATED
    assert apply.apply(api, config(namespace, x="1")) is Effect.UNCHANGED
    assert apply.apply(api, config(namespace, y="2")) is Effect.CONFIGURED
    assert api.get(resources.CONFIG_MAPS, "a", namespace)["data"] == {"y": "2"}


@on_real_servers
def test_apply_leaves_what_others_own(server: Server, namespace: str):
    api = server.api
    apply.apply(api, config(namespace, x="1"))
    others = patches.merge({"data": {"z": "3"}})
    api.patch(resources.CONFIG_MAPS, "a", others, namespace, field_manager="other")
    apply.apply(api, config(namespace, x="2"))
    assert api.get(resources.CONFIG_MAPS, "a", namespace)["data"] == {"x": "2", "z": "3"}


@on_real_servers
def test_a_field_of_another_is_taken_by_force_only(server: Server, namespace: str):
    api = server.api
    apply.apply(api, config(namespace, x="1"), field_manager="other")
    with pytest.raises(errors.ConflictError, match='conflict with "other"'):
        apply.apply(api, config(namespace, x="2"), force=False)
    assert apply.apply(api, config(namespace, x="2")) is Effect.CONFIGURED


def test_delete_tells_whether_there_was_anything(server: Server, namespace: str):
    document = config(namespace)
    server.api.create(resources.CONFIG_MAPS, document)
    told = list(apply.delete_all(server.api, [document, document]))
    assert [item.effect for item in told] == [Effect.DELETED, Effect.ABSENT]
    assert (told[0].kind, told[0].namespace, told[0].name) == ("ConfigMap", namespace, "a")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"apiVersion": "example.com/v1", "kind": "Thing"}, "example.com/v1 Thing"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, "needs a name"),
    ],
)
def test_a_document_that_cannot_be_applied_is_named(
    server: Server, document: Document, message: str
):
    with pytest.raises(InvalidValueError, match=message):
        apply.apply(server.api, document)
