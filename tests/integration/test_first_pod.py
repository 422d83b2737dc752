"""One GPU pod goes all the way through on a real API server, and everything around it holds."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration import queued, snapshot
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.started(tmp_path_factory.mktemp("installed")) as it:
        yield it


def test_installing_twice_changes_nothing_the_second_time(system: Installed) -> None:
    assert {change["effect"] for change in system.install()} == {"unchanged"}


def test_a_pod_is_gated_admitted_and_released_with_selector_and_tolerations(
    system: Installed,
) -> None:
    team = system.add_team(quota=4)
    created = system.create_pod(team, "train", gpus=2)

    assert created["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert created["metadata"]["labels"][names.MANAGED_LABEL] == "true"
    released = system.wait_released(team, "train")
    assert released["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "A100"}
    tolerated = [t for t in released["spec"]["tolerations"] if t["key"] == "nvidia.com/gpu"]
    assert tolerated == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "finalizers" not in released["metadata"]


def test_a_second_pod_over_quota_waits_and_says_why(system: Installed) -> None:
    team = system.add_team(quota=4)
    system.create_pod(team, "first", gpus=3)
    system.wait_released(team, "first")
    system.create_pod(team, "second", gpus=2)
    condition = system.wait_condition(team, "second", "WaitingForQuota")

    assert condition["status"] == "False"
    assert condition["message"].startswith("Waits: needs ")
    assert system.is_gated(team, "second")


def test_deleting_the_first_admits_the_second(system: Installed) -> None:
    team = system.add_team(quota=4)
    system.create_pod(team, "first", gpus=4)
    system.wait_released(team, "first")
    system.create_pod(team, "second", gpus=4)
    system.wait_condition(team, "second")
    system.delete_pod(team, "first")

    system.wait_released(team, "second")


def test_borrowing_inside_a_cohort(system: Installed) -> None:
    team = system.cluster.create_namespace("team")
    system.add_flavor(team)
    system.add_cluster_queue(team, quota=2, flavors=(team,), cohortName=team)
    system.add_cluster_queue(f"{team}-other", quota=4, flavors=(team,), cohortName=team)
    system.add_local_queue(team, team)
    system.wait_for_queue(team)
    system.create_pod(team, "train", gpus=5)
    system.wait_released(team, "train")

    def borrowed() -> str | None:
        usage = queued.status_of(system, "clusterqueues", team).get("flavorsUsage")
        amount: str = usage[0]["resources"][0]["borrowed"] if usage else "0"
        return amount if amount != "0" else None

    assert waiting.until(borrowed, what="borrowed in the status") == "3"


def test_a_pod_that_wants_no_gpu_is_never_touched(system: Installed) -> None:
    team = system.add_team(quota=4)
    created = system.create_pod(team, "web", gpus=None)

    assert "schedulingGates" not in created["spec"]
    assert names.MANAGED_LABEL not in created["metadata"].get("labels", {})


def test_a_missing_local_queue_is_named_on_the_pod_and_its_arrival_repairs_it(
    system: Installed,
) -> None:
    team = system.add_team(quota=4)
    system.create_pod(team, "train", labels={names.QUEUE_LABEL: "late"})
    system.wait_condition(team, "train", text="Waits: LocalQueue late does not exist")

    system.add_local_queue(team, team, "late")
    system.wait_released(team, "train")


def test_a_waiting_pod_follows_its_gates_and_its_queue(system: Installed) -> None:
    team, other = system.add_team(quota=0), system.add_team(quota=1)
    system.add_local_queue(team, other, "other")
    system.wait_for_queue(team, "other")
    gates = {"annotations": {names.ADMISSION_GATED_BY: "acme.io/check"}}
    system.create_pod(team, "train", metadata=gates)
    system.wait_condition(team, "train", "AdmissionGated")

    path = f"/api/v1/namespaces/{team}/pods/train"
    system.api.patch(path, {"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}})
    system.wait_condition(team, "train", "ExceedsMaxQuota")
    system.api.patch(path, {"metadata": {"labels": {names.QUEUE_LABEL: "other"}}})
    system.wait_released(team, "train")


def test_a_missing_cluster_queue_is_named_and_its_arrival_repairs_it(system: Installed) -> None:
    team = system.cluster.create_namespace("team")
    system.add_flavor(team)
    system.add_local_queue(team, team)
    system.create_pod(team, "train", labels={names.QUEUE_LABEL: "default"})
    said = f"Waits: its LocalQueue names ClusterQueue {team}, which does not exist"
    waiting.until(
        lambda: (system.condition(team, "train") or {}).get("message", "").startswith(said),
        what="the ClusterQueue named, once the LocalQueue is seen",
    )

    system.add_cluster_queue(team, quota=1, flavors=(team,))
    system.wait_released(team, "train")


def test_a_missing_flavor_is_named_and_its_arrival_repairs_it(system: Installed) -> None:
    team = system.cluster.create_namespace("team")
    system.add_cluster_queue(team, quota=1, flavors=(team,))
    system.add_local_queue(team, team)
    system.create_pod(team, "train", labels={names.QUEUE_LABEL: "default"})
    waiting.until(
        lambda: (system.condition(team, "train") or {}).get("reason") == "ClusterQueueInactive",
        what="the pod waits for its ClusterQueue, once both queues are seen",
    )

    system.add_flavor(team)
    system.wait_released(team, "train")


def test_a_request_that_no_flavor_can_ever_hold_says_so(system: Installed) -> None:
    team = system.add_team(quota=4)
    system.create_pod(team, "huge", gpus=5)

    condition = system.wait_condition(team, "huge", "ExceedsMaxQuota")
    assert condition["status"] == "False"


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"limits": {names.GPU_RESOURCE: "-1"}}, "greater than or equal to 0"),
        ({"limits": {names.GPU_RESOURCE: "500m"}}, "must be an integer"),
        ({"requests": {names.GPU_RESOURCE: "1"}}, "Limit must be set"),
        (
            {"requests": {names.GPU_RESOURCE: "1"}, "limits": {names.GPU_RESOURCE: "2"}},
            "must be equal to nvidia.com/gpu limit",
        ),
    ],
    ids=["negative", "fractional", "request without limit", "request below limit"],
)
def test_a_malformed_gpu_request_is_refused_with_a_reason(
    system: Installed, resources: dict[str, dict[str, str]], said: str
) -> None:
    team = system.add_team(quota=4)
    container = {"name": "main", "image": "train", "resources": resources}

    with pytest.raises(RestError) as refused:
        system.create_pod(team, "bad", containers=[container])

    assert said in refused.value.body


def test_both_serve_health_readiness_and_metrics(system: Installed) -> None:
    for url in (system.webhook_url, system.metrics_url):
        assert system.probe(url, "/healthz") == 200
        assert system.probe(url, "/readyz") == 200
        assert "gpu_admission_" in system.page(url, "/metrics")[1]


def test_why_says_where_a_pod_stands(system: Installed) -> None:
    team = system.add_team(quota=1)
    system.create_pod(team, "first")
    system.wait_released(team, "first")
    asked = run_kubectl("why", "first", "-n", team, "--kubeconfig", system.kubeconfig)

    assert "admitted" in asked
    assert team in asked


def run_kubectl(*arguments: str) -> str:
    program = "from admission.cli.kubectl import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, timeout=waiting.PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def add_team_of_everything(system: Installed) -> str:
    """A team whose queue refers to all that is held by a finalizer while it is referred to."""
    name = system.cluster.create_namespace("team")
    levels = {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
    queued.create(system, "topologies", "Topology", name, levels)
    system.cluster.add_gpu_node(name, labels={"pool": name})
    spec = {"nodeLabels": {"pool": name}, "topologyName": name}
    queued.create(system, "resourceflavors", "ResourceFlavor", name, spec)
    other = queued.asking_for(f"{name}-other")["admissionChecksStrategy"]
    queued.add_check(system, f"{name}-other")
    system.add_flavor(f"{name}-other")
    system.add_cluster_queue(
        f"{name}-other", quota=1, flavors=(f"{name}-other",), admissionChecksStrategy=other
    )
    system.add_cluster_queue(name, quota=1, flavors=(name,))
    system.add_local_queue(name, name)
    system.wait_for_queue(name)
    return name


def test_uninstalling_under_a_running_controller_stops_no_pod(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with snapshot.started(tmp_path_factory.mktemp("uninstalled")) as it:
        team = add_team_of_everything(it)
        it.create_pod(team, "train")
        it.wait_released(team, "train")
        removed = run_command("uninstall", "--yes", "--kubeconfig", it.kubeconfig)
        assert removed.returncode == 0, removed.stderr

        def workload_was_missed() -> bool:
            status, text = it.page(it.metrics_url, "/readyz")
            return status == 503 and "workloads" in text

        waiting.until(workload_was_missed, what="the controller misses the Workload")
        assert "deletionTimestamp" not in it.pod(team, "train")["metadata"]


def test_with_everything_stopped_other_pods_are_created_and_uninstall_leaves_a_working_cluster(
    system: Installed,
) -> None:
    team = add_team_of_everything(system)
    assert system.stop() == 0
    system.create_pod(team, "web", gpus=None)
    with pytest.raises(RestError) as refused:
        system.create_pod(team, "train")
    assert refused.value.status == 500

    removed = run_command(
        "uninstall", "--yes", "--kubeconfig", system.kubeconfig, "--release-pods"
    )
    assert removed.returncode == 0, removed.stderr

    def created() -> Any:
        """The pod; None while the API server still asks for a review."""
        try:
            return system.create_pod(team, "train")
        except RestError as error:
            if "failed calling webhook" not in error.body:
                raise
            return None

    pod = waiting.until(created, what="no webhook is called")
    assert "schedulingGates" not in pod["spec"]
    waiting.until(lambda: not system.api.answers(f"{KUEUE}/clusterqueues"), what="no kinds")
