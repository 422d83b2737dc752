"""The servers that the suite runs against.

``store`` is the embedded store in this process, ``served`` the same behind HTTP and the real
client, ``apiserver`` a real kube-apiserver and the real client.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from admission.kube import apply, errors, resources
from admission.kube.api import Api
from admission.kube.client import Client
from admission.objects import crds
from admission.sandbox.rest import StoreServer
from admission.sandbox.store import Store
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: store
contexts: [{{name: store, context: {{cluster: store, user: me}}}}]
clusters: [{{name: store, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {{token: none}}}}]
"""


@dataclass(frozen=True)
class Server:
    """An API server under test."""

    name: str
    api: Api
    forget: Callable[[], None]
    """Forgets history as far as the server can be made to."""
    bookmark_seconds: float
    """Life of a watch at whose end a bookmark comes; a real server needs some seconds for it."""


def nothing() -> None:
    """A real server forgets by itself."""


@pytest.fixture(
    scope="session",
    params=[
        "store",
        "served",
        pytest.param("apiserver", marks=pytest.mark.controlplane(fixture="cluster")),
    ],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    match request.param:
        case "store":
            store = Store(crds=crds.documents())
            yield Server("store", store, store.compact, 0.2)
        case "served":
            store = Store(crds=crds.documents())
            served = StoreServer(store, resources.BUILT_IN + resources.CUSTOM)
            file = tmp_path_factory.mktemp("served") / "kubeconfig"
            file.write_text(KUBECONFIG.format(url=served.url))
            client = Client.connect(str(file))
            yield Server("served", client, store.compact, 1.0)
            client.close()
            served.stop()
        case _:
            client = connect(request.getfixturevalue("cluster"))
            yield Server("apiserver", client, nothing, 7.0)
            client.close()


def connect(cluster: Cluster) -> Client:
    """A client of a cluster that serves the custom resources."""
    client = Client.connect(str(cluster.admin_kubeconfig))
    for document in crds.documents():
        apply.apply(client, document)
    for resource in resources.CUSTOM:
        waiting.until(partial(is_listed, client, resource), what=resource.plural)
    return client


def is_listed(client: Client, resource: resources.Resource) -> bool:
    try:
        client.list(resource, limit=1)
    except errors.ApiError:
        return False
    return True


@pytest.fixture
def api(server: Server) -> Api:
    return server.api


@pytest.fixture
def namespace(api: Api) -> str:
    """A new namespace."""
    document = {"metadata": {"generateName": "contract-"}}
    name: str = api.create(resources.NAMESPACES, document)["metadata"]["name"]
    return name
