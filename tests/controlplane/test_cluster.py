"""The shared cluster: who may do what, and what a restart keeps."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import processes, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import StartError
from tests.controlplane.rest import Json, RestError

REPOSITORY = Path(__file__).parents[2]


def who_is(kubeconfig: Path, cluster: Cluster) -> Json:
    """Whom the API server takes the bearer of a kubeconfig for."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info: Json = cluster.client(kubeconfig).post(path, review)["status"]["userInfo"]
    return info


def test_the_version_is_the_one_in_go_mod(cluster):
    assert cluster.api.get("/version")["gitVersion"] == "v1.36.3"


def test_a_user_has_the_name_and_groups_of_the_kubeconfig(cluster):
    info = who_is(cluster.kubeconfig("ann", ["team-a", "admins"]), cluster)
    assert info["username"] == "ann"
    assert info["groups"] == ["team-a", "admins", "system:authenticated"]


def test_a_service_account_is_known_by_its_token(cluster):
    namespace = cluster.create_namespace()
    account = {"metadata": {"name": "robot"}}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    info = who_is(cluster.account_kubeconfig(namespace, "robot"), cluster)
    assert info["username"] == f"system:serviceaccount:{namespace}:robot"


def test_rbac_refuses_a_user_without_a_role(cluster):
    with pytest.raises(RestError) as refusal:
        cluster.client(cluster.kubeconfig("nobody")).get("/api/v1/namespaces")
    assert refusal.value.status == 403


def test_namespaces_of_two_tests_differ(cluster):
    assert cluster.create_namespace() != cluster.create_namespace()


def test_a_restart_keeps_address_and_data_and_stop_leaves_nothing(
    fresh_cluster: Callable[[], Cluster],
):
    cluster = fresh_cluster()
    namespace = cluster.create_namespace()
    before = cluster.pid("kube-apiserver")
    cluster.restart_apiserver()
    assert cluster.pid("kube-apiserver") != before
    assert cluster.api.get(f"/api/v1/namespaces/{namespace}")["status"]["phase"] == "Active"
    pids = [cluster.pid(name) for name in cluster.logs]
    cluster.stop()
    assert [pid for pid in pids if is_alive(pid)] == []
    assert not cluster.folder.exists()


@pytest.mark.controlplane
def test_a_cluster_that_does_not_start_shows_the_log_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "base_folder", lambda: tmp_path)
    with pytest.raises(StartError, match=r"(?s)kube-apiserver: ended with 1.*unknown flag"):
        Cluster.start(api_flags=["--no-such-flag"])
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_paused_program_goes_on_where_it_stopped(fresh_cluster: Callable[[], Cluster]):
    cluster = fresh_cluster()
    with cluster.paused("etcd"):
        stat = Path(f"/proc/{cluster.pid('etcd')}/stat")
        waiting.until(
            lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", what="etcd stopped"
        )
    assert cluster.api.get("/api/v1/namespaces/default")["kind"] == "Namespace"


@pytest.mark.controlplane
def test_nothing_survives_a_killed_owner():
    script = (
        "from tests.controlplane.cluster import Cluster\n"
        "import sys\n"
        "c = Cluster.start()\n"
        "print(c.folder, *(c.pid(n) for n in c.logs), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        folder, *pids = owner.stdout.readline().split()
        assert len(pids) == 2
        owner.kill()
    waiting.until(
        lambda: not any(is_alive(int(pid)) for pid in pids) and not Path(folder).exists(),
        what="end of the processes of a killed owner",
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
