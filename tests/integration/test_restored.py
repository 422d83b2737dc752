"""An etcd that went back to an earlier state, and CRDs that went and came, on a real API server.

The versions of objects start again from an earlier number after a restore: watches from a later
one are silent, and what was seen looks newer than what is there.
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane import waiting
from tests.controlplane.rest import Json, RestError
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Saved:
    """A team that has used its quota up when etcd was saved, and has gone on since.

    Attributes:
        team: its namespace; ``first`` holds all quota in the saved state, and is gone since.
    """

    def __init__(self, system: Installed, folder: Path) -> None:
        self.system = system
        self.folder = folder / "saved"
        self.team = system.add_team(2)
        system.create_pod(self.team, "first", gpus=2)
        system.wait_released(self.team, "first")
        system.cluster.save_etcd(self.folder)
        wait_served(system)
        system.delete_pod(self.team, "first")
        for number in range(3):
            system.create_pod(self.team, f"later-{number}", gpus=2)
            system.wait_released(self.team, f"later-{number}")
            system.delete_pod(self.team, f"later-{number}")
        waiting.until(self._is_seen_to_be_empty, what="the API server's cache sees the deletions")

    def _is_seen_to_be_empty(self) -> bool:
        """Return whether what the API server remembers has no pods of the team any more."""
        path = f"/api/v1/namespaces/{self.team}/pods?resourceVersion=0"
        return not self.system.api.get(path)["items"]

    def check(self) -> None:
        """Whether new pods get what quota the saved state leaves, and nothing else."""
        self.system.create_pod(self.team, "second", gpus=2)
        waiting.until(
            lambda: self.system.condition(self.team, "second"),
            what="the new pod says why it waits",
        )
        other = self.system.add_team(1)
        self.system.create_pod(other, "probe", gpus=1)
        self.system.wait_released(other, "probe")
        assert not self.system.is_gated(self.team, "first")
        assert self.system.is_gated(self.team, "second"), "the first pod has the quota again"
        self.system.delete_pod(self.team, "first")
        self.system.wait_released(self.team, "second")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Installed]:
    with snapshot.started(tmp_path) as it:
        yield it


def wait_served(system: Installed) -> None:
    """Waits until the API server answers reads and takes reviewed writes again."""
    waiting.until(lambda: system.cluster.api.answers("/readyz"), what="API server ready")
    system.wait_reviewed()


def test_pods_are_released_after_etcd_was_restored(system: Installed, tmp_path: Path) -> None:
    saved = Saved(system, tmp_path)
    system.cluster.restore_etcd(saved.folder)
    wait_served(system)
    saved.check()
    assert system.is_ready()


def test_pods_are_released_once_an_api_server_that_ran_through_a_restore_is_restarted(
    system: Installed, tmp_path: Path
) -> None:
    """Until then it lists what it remembers, as Kubernetes says in its guide to restores."""
    saved = Saved(system, tmp_path)
    system.cluster.restore_etcd(saved.folder, apiserver=False)
    waiting.until(
        lambda: system.pod(saved.team, "first"), what="the API server reads the restored etcd"
    )
    listed = system.api.get(f"/api/v1/namespaces/{saved.team}/pods")["items"]
    assert listed == [], "the API server lists what it remembers"
    system.cluster.restart_apiserver()
    wait_served(system)
    saved.check()


# ---------------------------------------------------------------------- CRDs that went and came


def take_away(system: Installed, *plurals: str) -> None:
    """Deletes CRDs, and what nobody would take finalizers off."""
    for plural in plurals:
        system.api.delete(f"{CRDS}/{plural}.kueue.x-k8s.io")
    for plural in plurals:
        waiting.until(partial(_is_gone, system, plural), what=f"CRD {plural} gone")


def _is_gone(system: Installed, plural: str) -> bool:
    try:
        system.api.get(f"{CRDS}/{plural}.kueue.x-k8s.io")
    except RestError as error:
        return error.status == 404
    for item in _items(system, plural):
        metadata = item["metadata"]
        space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        path = f"{KUEUE}{space}/{plural}/{metadata['name']}"
        with contextlib.suppress(RestError):  # gone just now, or changed: looked at again
            system.api.patch(path, {"metadata": {"finalizers": None}})
    return False


def _items(system: Installed, plural: str) -> list[Json]:
    try:
        return list(system.api.get(f"{KUEUE}/{plural}")["items"])
    except RestError:
        return []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.started(tmp_path_factory.mktemp("crds")) as it:
        yield it


QUEUES = ("clusterqueues", "localqueues", "resourceflavors")
NOT_SERVED = 503, f"not listed yet: {', '.join(QUEUES)}\n"


def test_queues_are_used_again_after_their_crds_were_deleted_and_applied(
    shared: Installed,
) -> None:
    team = shared.add_team(2)
    shared.create_pod(team, "first", gpus=2)
    shared.wait_released(team, "first")
    shared.delete_pod(team, "first")
    take_away(shared, *QUEUES)
    waiting.until(lambda: shared.page(shared.metrics_url, "/readyz") == NOT_SERVED, what="told")

    shared.install()
    shared.wait_reviewed()
    shared.add_flavor(team)
    shared.add_cluster_queue(team, quota=2, flavors=(team,))
    shared.add_local_queue(team, team)
    shared.wait_for_queue(team)
    shared.create_pod(team, "second", gpus=2)
    shared.wait_released(team, "second")
    waiting.until(shared.is_ready, what="ready")


def test_nothing_is_decided_while_the_kind_of_a_quota_is_gone(shared: Installed) -> None:
    """The quota of a cohort that is not served is not known, whatever it was."""
    team = shared.add_team(2)
    take_away(shared, "cohorts")
    waiting.until(lambda: not shared.is_ready(), what="not ready")
    shared.create_pod(team, "first")
    other = shared.create_pod(team, "other", gpus=None)
    assert other["metadata"]["uid"]
    assert shared.is_gated(team, "first")
    shared.install()
    shared.wait_released(team, "first")


def test_waiting_pods_are_released_after_the_crd_of_workloads_was_deleted_and_applied(
    shared: Installed,
) -> None:
    team = shared.add_team(1)
    shared.create_pod(team, "first")
    shared.create_pod(team, "second")
    shared.wait_released(team, "first")
    shared.wait_condition(team, "second")
    take_away(shared, "workloads")
    shared.delete_pod(team, "first")
    shared.install()
    shared.wait_released(team, "second")
