"""What goes with its owner or its namespace; on a real cluster the controller-manager's work."""

from collections.abc import Callable, Iterator

import pytest

from admission.kube import errors, resources
from admission.kube.api import Api
from admission.kube.resources import Resource
from admission.objects import crds
from admission.sandbox.store import Store
from tests.builders.pods import make_pod
from tests.contract import conftest, objects
from tests.controlplane import waiting

"""The garbage collector looks for new kinds every 30 s."""


@pytest.fixture(
    scope="module",
    params=["store", pytest.param("controller-manager", marks=pytest.mark.controlplane)],
)
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    if request.param == "store":
        yield Store(crds=crds.documents())
        return
    client = conftest.connect(request.getfixturevalue("whole_cluster"))
    yield client
    client.close()


def is_gone(api: Api, resource: Resource, name: str, namespace: str = "") -> Callable[[], bool]:
    def gone() -> bool:
        try:
            api.get(resource, name, namespace)
        except errors.NotFoundError:
            return True
        return False

    return gone


def eventually(look: Callable[[], bool], what: str) -> None:
    waiting.until(look, what=what)


def owned(api: Api, namespace: str, owners: list[objects.Document]) -> None:
    references = [reference for owner in owners for reference in objects.owned_by(owner)]
    document = objects.workload("owned", ownerReferences=references)
    api.create(resources.WORKLOADS, document, namespace)


def collector_knows(api: Api, namespace: str) -> None:
    """Waits until the collector has seen every Workload that there is now.

    It follows each kind by a watch of its own: a pod's end that it sees before the pod's Workload
    finds nothing to make an orphan of. Workloads it sees in order, so one that is born without
    its owner goes only after the others are known.
    """
    ghost = api.create(resources.PODS, make_pod("ghost", gates=[objects.GATE]), namespace)
    api.delete(resources.PODS, "ghost", namespace)
    witness = objects.workload("witness", ownerReferences=objects.owned_by(ghost))
    api.create(resources.WORKLOADS, witness, namespace)
    eventually(is_gone(api, resources.WORKLOADS, "witness", namespace), "the collector to look")


def test_a_workload_goes_with_its_pod(api: Api, namespace: str):
    pod = api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    owned(api, namespace, [pod])
    api.delete(resources.PODS, "a", namespace)
    eventually(is_gone(api, resources.WORKLOADS, "owned", namespace), "collected")


def test_a_second_owner_keeps_it(api: Api, namespace: str):
    pods = [
        api.create(resources.PODS, make_pod(name, gates=[objects.GATE]), namespace)
        for name in "ab"
    ]
    owned(api, namespace, pods)
    api.delete(resources.PODS, "a", namespace)

    def owners() -> list[str]:
        metadata = api.get(resources.WORKLOADS, "owned", namespace)["metadata"]
        return [reference["name"] for reference in metadata["ownerReferences"]]

    eventually(lambda: owners() == ["b"], "the reference to go")
    api.delete(resources.PODS, "b", namespace)
    eventually(is_gone(api, resources.WORKLOADS, "owned", namespace), "collected")


def test_what_is_born_without_its_owner_goes(api: Api, namespace: str):
    pod = api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    api.delete(resources.PODS, "a", namespace)
    owned(api, namespace, [pod])
    eventually(is_gone(api, resources.WORKLOADS, "owned", namespace), "collected")


def test_an_orphan_stays_without_reference(api: Api, namespace: str):
    pod = api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    owned(api, namespace, [pod])
    collector_knows(api, namespace)
    api.delete(resources.PODS, "a", namespace, propagation="Orphan")
    eventually(is_gone(api, resources.PODS, "a", namespace), "deleted")
    metadata = api.get(resources.WORKLOADS, "owned", namespace)["metadata"]
    assert "ownerReferences" not in metadata


def test_a_namespace_takes_its_objects_along(api: Api, namespace: str):
    api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    api.delete(resources.NAMESPACES, namespace)
    eventually(is_gone(api, resources.NAMESPACES, namespace), "the namespace to go")
    assert api.list(resources.PODS, namespace).items == ()
    assert api.list(resources.LOCAL_QUEUES, namespace).items == ()
