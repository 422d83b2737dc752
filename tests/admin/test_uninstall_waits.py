"""What `uninstall` waits for, and what it does when it waits long."""

from typing import Any

import pytest

from admission.admin import installation, outside_quota
from admission.base import names, patches
from admission.config.derived import Settings
from admission.kube import apply, errors, resources
from admission.kube.resources import Resource
from admission.objects import broken_glass, crds
from admission.owners import integrations
from admission.sandbox.store import Store
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_flavor
from tests.clocks import FakeClock

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_HELD = "cohorts.kueue.x-k8s.io"


class Cluster:
    """An API server that missed its moment to end one of the kinds."""

    def __init__(self, *, looks_again: bool) -> None:
        self.clock = FakeClock()
        self.looks_again = looks_again
        self.store = Store(crds=crds.documents())
        for document in crds.documents():
            metadata = dict(document["metadata"])
            if metadata["name"] == _HELD:
                metadata["finalizers"] = [_CLEANUP]
            self.store.create(resources.CRDS, {**document, "metadata": metadata})

    def wait(self, seconds: float) -> None:
        """Lets time pass; who has changed is looked at."""
        self.clock.advance(seconds)
        metadata = self.store.get(resources.CRDS, _HELD)["metadata"]
        if self.looks_again and names.AWAITED_AT in metadata.get("annotations", {}):
            gone = patches.merge({"metadata": {"finalizers": None}})
            self.store.patch(resources.CRDS, _HELD, gone)

    def uninstall(self, *, keep_crds: bool = False) -> None:
        everything = installation.uninstall(
            self.store, Settings(), self.clock, self.wait, release_pods=False, keep_crds=keep_crds
        )
        for _ in everything:
            pass


def test_a_kind_that_stays_is_changed_so_that_its_end_is_looked_at_again() -> None:
    cluster = Cluster(looks_again=True)
    cluster.uninstall()
    assert cluster.store.list(resources.CRDS).items == ()
    assert cluster.clock.monotonic() < 6


def test_a_kind_that_stays_for_good_is_named() -> None:
    cluster = Cluster(looks_again=False)
    with pytest.raises(
        installation.InstallationError, match=f"{_HELD} is not in the expected state"
    ):
        cluster.uninstall()


@pytest.fixture
def _no_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store takes no server-side apply, by which kept CRDs are served without conversion."""
    monkeypatch.setattr(apply, "apply_all", lambda *_: ())


@pytest.mark.usefixtures("_no_apply")
@pytest.mark.parametrize("keep_crds", [True, False])
def test_recorded_gpu_time_stays_with_the_queues(keep_crds: bool) -> None:
    cluster = Cluster(looks_again=True)
    space = names.SYSTEM_NAMESPACE
    cluster.store.create(resources.NAMESPACES, {"metadata": {"name": space}})
    for name, labels in (("usage-day", {names.USAGE_LABEL: "day"}), (broken_glass.RECORD, {})):
        metadata = {"name": name, "namespace": space, "labels": labels}
        cluster.store.create(resources.CONFIG_MAPS, {"metadata": metadata}, space)
    cluster.uninstall(keep_crds=keep_crds)
    left = [one["metadata"]["name"] for one in cluster.store.list(resources.CONFIG_MAPS).items]
    assert left == (["usage-day"] if keep_crds else [])


@pytest.mark.usefixtures("_no_apply")
def test_without_records_the_namespace_goes_although_the_queues_stay() -> None:
    cluster = Cluster(looks_again=True)
    metadata = {"name": names.SYSTEM_NAMESPACE}
    cluster.store.create(resources.NAMESPACES, {"metadata": metadata})
    cluster.uninstall(keep_crds=True)
    left = {one["metadata"]["name"] for one in cluster.store.list(resources.NAMESPACES).items}
    assert names.SYSTEM_NAMESPACE not in left


def holder(cluster: Cluster) -> str:
    lease = cluster.store.get(resources.LEASES, names.LEASE_NAME, names.SYSTEM_NAMESPACE)
    return str(lease["spec"]["holderIdentity"])


def test_the_lease_is_released_before_the_namespace_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the namespace stays, a later installation restores what was saved, and leads."""
    cluster = Cluster(looks_again=True)
    metadata = {"name": names.SYSTEM_NAMESPACE}
    cluster.store.create(resources.NAMESPACES, {"metadata": metadata})
    delete, holders = cluster.store.delete, []

    def deleting(resource: Resource, name: str, *more: Any, **options: Any) -> Any:
        if resource is resources.NAMESPACES:
            holders.append(holder(cluster))
        return delete(resource, name, *more, **options)

    monkeypatch.setattr(cluster.store, "delete", deleting)
    cluster.uninstall()
    assert holders == [""]


def test_an_uninstallation_that_fails_keeps_the_lease() -> None:
    cluster = Cluster(looks_again=False)
    metadata = {"name": names.SYSTEM_NAMESPACE}
    cluster.store.create(resources.NAMESPACES, {"metadata": metadata})
    with pytest.raises(installation.InstallationError):
        cluster.uninstall()
    assert holder(cluster) == installation.UNINSTALLER


def test_pods_and_jobs_with_the_topology_gate_are_counted_and_let_run() -> None:
    cluster = Cluster(looks_again=True)
    gate = [{"name": names.TOPOLOGY_GATE}]
    labels = {names.PODSET_LABEL: "main"}
    cluster.store.create(
        resources.NAMESPACES,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}},
    )
    cluster.store.create(
        resources.PODS,
        make_pod("waits", namespace="ml", labels=labels, gates=[names.TOPOLOGY_GATE]),
    )
    cluster.store.create(
        resources.PODS,
        make_pod(
            "foreign",
            namespace="ml",
            labels=labels,
            gates=[names.TOPOLOGY_GATE],
            annotations={names.FOREIGN_TOPOLOGY_GATE: "true"},
        ),
    )
    for name, is_suspended in (("runs", False), ("stopped", True)):
        job = make_job(name, namespace="ml")
        job["spec"]["suspend"] = is_suspended
        template = job["spec"]["template"]
        template.setdefault("metadata", {})["labels"] = labels
        template["spec"]["schedulingGates"] = gate
        cluster.store.create(resources.JOBS, job)

    inventory = installation.inventory(cluster.store, Settings())

    assert (len(inventory.waiting), inventory.gating) == (1, 1)
    assert installation.gated_pods(cluster.store) == ("ml/waits",)
    releaser = outside_quota.Releaser(
        cluster.store, integrations.DEFAULT, cluster.clock, cluster.wait
    )
    assert [applied.name for applied in releaser.pods()] == ["waits"]
    assert installation.gated_pods(cluster.store) == ()


def test_a_flavor_that_stays_keeps_nothing_that_the_controller_wrote() -> None:
    cluster = Cluster(looks_again=True)
    marks = {names.LARGEST_NODE: "nvidia.com/gpu=8", "example.com/mine": "yes"}
    flavor = make_flavor("a100", annotations=marks)
    flavor["metadata"]["finalizers"] = ["example.com/mine", names.RESOURCE_IN_USE]
    cluster.store.create(resources.RESOURCE_FLAVORS, flavor)
    with pytest.raises(errors.ApiError, match="server-side apply"):  # of the CRDs, which is later
        cluster.uninstall(keep_crds=True)
    metadata = cluster.store.get(resources.RESOURCE_FLAVORS, "a100")["metadata"]
    assert metadata["annotations"] == {"example.com/mine": "yes"}
    assert metadata["finalizers"] == ["example.com/mine"]
