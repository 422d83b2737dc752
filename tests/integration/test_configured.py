"""What Kueue's Configuration says holds for the running program, on a real API server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.base import names, namespaces
from admission.gpu import bypass_rules
from tests.builders.jobs import make_job
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.moved_clock import MovedClock
from tests.controlplane.processes import free_port
from tests.controlplane.rest import Json, RestError
from tests.integration import applied, queued, snapshot
from tests.integration.applied import Workloads, condition
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

READY_BY = "kueue-job-controller-PodsReady"
FINISHED_BY = "kueue-job-controller-Finished"
HOUR = 3600


class Configured(Installed):
    """The program, run with nothing but a kubeconfig and a file."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self.health_url = f"http://127.0.0.1:{free_port()}"
        self.file = folder / "config.yaml"

    @contextmanager
    def configured(self, **fields: Any) -> Iterator[None]:
        """Runs with more fields of the document."""
        document = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "webhook": {
                "host": "127.0.0.1",
                "port": self.webhook_port,
                "certDir": str(self.certificates),
            },
            "metrics": {"bindAddress": f"127.0.0.1:{self.metrics_port}"},
            "health": {"healthProbeBindAddress": self.health_url.removeprefix("http://")},
            "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
            **fields,
        }
        self.file.write_text(yaml.safe_dump(document))
        command = ("run", "--kubeconfig", self.kubeconfig, "--config", str(self.file))
        with self.running(*PROGRAM, *command):
            yield


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    with snapshot.prepared(tmp_path_factory.mktemp("configured"), Configured) as made:
        yield made


def make_team(system: Installed, quota: int = 4) -> Workloads:
    return Workloads(system, system.add_team(quota))


def workload_of(workloads: Workloads, owner: str) -> str:
    """Name of the Workload that an object owns."""

    def look() -> str:
        return next(
            (
                one["metadata"]["name"]
                for one in workloads.api.get(workloads.path)["items"]
                if one["metadata"].get("ownerReferences", [{}])[0].get("name") == owner
            ),
            "",
        )

    return waiting.until(look, what=f"the Workload of {owner}")


def make_ready(system: Installed, team: str, name: str) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    path = f"/api/v1/namespaces/{team}/pods/{name}/status"
    system.api.patch(path, {"status": status})


def test_it_serves_where_the_file_says_leads_and_names_what_it_ignores(
    system: Configured,
) -> None:
    with system.configured(
        clientConnection={"qps": 300},
        integrations={"frameworks": ["pod"], "labelKeysToCopy": ["team"]},
    ):
        assert system.probe(system.health_url, "/readyz") == 200
        assert system.probe(system.health_url, "/healthz") == 200
        assert system.probe(system.metrics_url, "/metrics") == 200
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases"
        path = f"{lease}/{names.LEASE_NAME}"

        def held() -> Json | None:
            """The Lease once it is taken, which may be after everything is ready."""
            found = queued.get_or_none(system, path)
            return found if found and found["spec"].get("holderIdentity") else None

        assert waiting.until(held, what="a leader")["spec"]["leaseDurationSeconds"] == 15
        workloads = make_team(system)
        system.create_pod(workloads.namespace, "train", labels={"team": "red"})
        system.wait_released(workloads.namespace, "train")
        made = workloads.get(workload_of(workloads, "train"))
        assert made["metadata"]["labels"]["team"] == "red"
    log = system.log.read_text()
    for path in ("clientConnection.qps", "leaderElection.resourceName"):
        assert path in log
    for path in ("labelKeysToCopy", "integrations.frameworks"):
        assert path not in log


@pytest.fixture
def clock(system: Configured) -> Iterator[MovedClock]:
    """What the processes go by that a test starts."""
    system.clock = MovedClock(system.folder / "clock")
    yield system.clock
    system.clock = None


def test_pods_that_are_not_ready_in_time_are_evicted(
    system: Configured, clock: MovedClock
) -> None:
    waits = {
        "timeout": "1h",
        "recoveryTimeout": "1h",
        "requeuingStrategy": {"backoffBaseSeconds": HOUR, "backoffLimitCount": 1},
    }
    retention = {"workloads": {"afterFinished": "1h", "afterDeactivatedByKueue": "1h"}}
    # A leader could not renew its Lease while an hour passes at once.
    with system.configured(
        waitForPodsReady=waits,
        objectRetentionPolicies=retention,
        leaderElection={"leaderElect": False},
    ):
        workloads = make_team(system)
        late_pod_is_deleted(system, workloads, clock)
        ready_pod_stays_until_it_fails(system, workloads, clock)
        others_say_whether_their_pods_are_ready(workloads, clock)
        job_is_deactivated_and_deleted_in_the_end(system, workloads, clock)
        finished_workload_is_deleted(workloads, clock)


def late_pod_is_deleted(system: Installed, workloads: Workloads, clock: MovedClock) -> None:
    team = workloads.namespace
    system.create_pod(team, "late")
    workloads.wait(workload_of(workloads, "late"), "PodsReady", "False", "WaitForStart")
    path = f"/api/v1/namespaces/{team}/pods/late"
    clock.until(lambda: not system.api.answers(path), step_seconds=HOUR, what="the late pod gone")


def ready_pod_stays_until_it_fails(
    system: Installed, workloads: Workloads, clock: MovedClock
) -> None:
    team = workloads.namespace
    system.create_pod(team, "good")
    name = workload_of(workloads, "good")
    system.wait_released(team, "good")
    make_ready(system, team, "good")
    workloads.wait(name, "PodsReady", "True", "Started")
    clock.advance(HOUR)
    path = f"/api/v1/namespaces/{team}/pods/good"
    broken = {"conditions": [{"type": "Ready", "status": "False"}]}
    system.api.patch(f"{path}/status", {"status": broken})
    workloads.wait(name, "PodsReady", "False")
    assert not workloads.condition(name, "Evicted")
    clock.until(
        lambda: not system.api.answers(path), step_seconds=HOUR, what="the broken pod gone"
    )


def others_say_whether_their_pods_are_ready(workloads: Workloads, clock: MovedClock) -> None:
    """Of a Workload made by hand nobody but its controller says that pods are ready."""
    workloads.create("ready")
    workloads.wait("ready", "Admitted", "True")
    workloads.say("ready", READY_BY, condition("PodsReady", "True", "Started"))
    workloads.create("late")
    workloads.wait("late", "Admitted", "True")  # so what was said of the other is known, too
    clock.advance(HOUR)
    found = workloads.wait("late", "Evicted", "True", "PodsReadyTimeout")
    assert found["message"] == f"Exceeded the PodsReady timeout {workloads.namespace}/late"
    assert not workloads.condition("late", "PodsReady")
    status = workloads.get("late")["status"]
    assert status["requeueState"]["count"] == 1
    assert status["schedulingStats"]["evictions"] == [
        {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}
    ]
    workloads.clear("late")
    clock.advance(2 * HOUR)
    workloads.wait("late", "Requeued", "True", "BackoffFinished")
    workloads.wait("late", "Admitted", "True")
    clock.advance(HOUR)
    found = workloads.wait("late", "Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded")
    assert found["message"] == (
        "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    )
    assert workloads.said("ready", "Admitted") == ("True", "Admitted")
    workloads.delete("ready")


def job_is_deactivated_and_deleted_in_the_end(
    system: Installed, workloads: Workloads, clock: MovedClock
) -> None:
    path = f"/apis/batch/v1/namespaces/{workloads.namespace}/jobs"
    system.api.post(path, make_job("train", 1, gpus=1))
    clock.until(
        lambda: not system.api.answers(f"{path}/train"), step_seconds=HOUR, what="the Job deleted"
    )
    applied.wait_told(system, workloads.namespace, "Job", "Deleted")


def finished_workload_is_deleted(workloads: Workloads, clock: MovedClock) -> None:
    workloads.create("done")
    workloads.wait("done", "Admitted", "True")
    workloads.say("done", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    clock.until(
        lambda: not workloads.exists("done"),
        step_seconds=HOUR,
        what="the finished Workload deleted",
    )


def test_one_at_a_time_means_in_the_whole_cluster(system: Configured) -> None:
    with system.configured(waitForPodsReady={"timeout": "10m", "blockAdmission": True}):
        first, second = make_team(system), make_team(system)
        first.create("train")
        first.wait("train", "Admitted", "True")
        second.create("train")
        found = second.wait("train", "QuotaReserved", "False", "WaitingForPodsReady")
        assert found["message"] == (
            "waiting for all admitted workloads to be in PodsReady condition"
        )
        first.say("train", READY_BY, condition("PodsReady", "True", "Started"))
        second.wait("train", "Admitted", "True")


def test_namespaces_that_the_selector_leaves_out_are_left_alone(system: Configured) -> None:
    workloads_of = system.cluster.create_namespace("lab")
    key = "kubernetes.io/metadata.name"
    selector = {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [workloads_of]}]}
    with system.configured(managedJobsNamespaceSelector=selector):
        team = make_team(system)
        system.add_local_queue(workloads_of, team.namespace)
        system.wait_for_queue(workloads_of)
        free = system.create_pod(workloads_of, "free", labels={names.QUEUE_LABEL: "default"})
        assert "schedulingGates" not in free["spec"]
        held = system.create_pod(team.namespace, "held")
        assert held["spec"]["schedulingGates"]


def test_only_namespaces_with_the_labels_of_the_selector_are_managed(system: Configured) -> None:
    managed, other = (
        system.cluster.create_namespace(name, {names.BYPASS_LABEL: namespaces.DENY, **labels})
        for name, labels in (("managed", {"gpus": "here"}), ("other", {}))
    )
    with system.configured(managedJobsNamespaceSelector={"matchLabels": {"gpus": "here"}}):
        system.add_flavor(managed)
        system.add_cluster_queue(managed, quota=2, flavors=(managed,))
        for namespace in (managed, other):
            system.add_local_queue(namespace, managed)
            system.wait_for_queue(namespace)
        assert system.create_pod(managed, "held")["spec"]["schedulingGates"]
        system.wait_released(managed, "held")
        assert "schedulingGates" not in system.create_pod(other, "free")["spec"]

        for namespace in (other, managed):
            create_job(system, namespace)
        applied.wait_reserved(system, managed, 2)  # of the pod, and of the Job that came last
        jobs = f"/apis/batch/v1/namespaces/{other}/jobs"
        assert system.api.get(f"{jobs}/train")["spec"]["suspend"] is False
        assert system.api.get(f"{KUEUE}/namespaces/{other}/workloads")["items"] == []

        assert is_denied(system, other)  # as long as the cluster is not told of the selector
        system.install("--config", str(system.file))
        waiting.until(lambda: not is_denied(system, other), what="a policy for managed namespaces")
        assert is_denied(system, managed)
    waiting.until(lambda: is_taken(system, other), what="webhooks for managed namespaces")
    assert not is_taken(system, managed)
    system.install()
    waiting.until(lambda: not is_taken(system, other), what="webhooks for all namespaces")


def test_where_jobs_without_queue_are_managed_they_wait_until_they_have_one(
    system: Configured,
) -> None:
    with system.configured(manageJobsWithoutQueueName=True):
        team = system.cluster.create_namespace("team")
        system.add_flavor(team)
        system.add_cluster_queue(team, quota=2, flavors=(team,))
        system.add_local_queue(team, team, "research")
        system.wait_for_queue(team, "research")
        labelled = {"metadata": {"labels": {names.QUEUE_LABEL: "research"}}}

        system.create_pod(team, "train")
        waiting.until(
            lambda: (system.condition(team, "train") or {}).get("reason") == "QueueRequired",
            what="a reason on the pod",
        )
        assert system.is_gated(team, "train")
        system.api.patch(f"/api/v1/namespaces/{team}/pods/train", labelled)
        system.wait_released(team, "train")

        assert create_job(system, team, queue="")["spec"]["suspend"] is True
        job = f"/apis/batch/v1/namespaces/{team}/jobs/train"
        system.api.patch(job, labelled)
        waiting.until(lambda: not system.api.get(job)["spec"]["suspend"], what="the Job's start")

        free = system.create_pod(team, "free", gpus=None)
        assert "schedulingGates" not in free["spec"]


def create_job(system: Configured, namespace: str, queue: str = "default") -> Json:
    """A Job that may run, of one pod with one GPU; the empty queue gives it no label."""
    document = make_job("train", 1, gpus=1, labels={names.QUEUE_LABEL: queue} if queue else {})
    return system.api.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", document)


def is_denied(system: Configured, namespace: str) -> bool:
    """Whether a pod may not see GPUs without asking for any."""
    shown = {"name": bypass_rules.VISIBLE_DEVICES, "value": "all"}
    return try_pod(system, namespace, env=[shown]) in {403, 422}


def is_taken(system: Configured, namespace: str) -> bool:
    """Whether a GPU pod is taken while no webhook answers: nobody is asked about it."""
    return try_pod(system, namespace, resources={"limits": {names.GPU_RESOURCE: "1"}}) == 201


def try_pod(system: Configured, namespace: str, **container: Any) -> int:
    """HTTP status that the creation of a pod would have."""
    pod = {
        "metadata": {"name": "try"},
        "spec": {"containers": [{"name": "main", "image": "train", **container}]},
    }
    try:
        system.api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except RestError as refused:
        return refused.status
    return 201
