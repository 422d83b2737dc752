"""``gpu-admission migrate resourcequota``: at every moment a limit holds, and back again."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from admission.base import conditions, names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.controlplane import nodes, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, RestError
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane

TEAM = "speech"
LIMIT = 4
PODS = f"/api/v1/namespaces/{TEAM}/pods"
QUOTA = f"/api/v1/namespaces/{TEAM}/resourcequotas/gpus"
LOCAL_QUEUE = f"{KUEUE}/namespaces/{TEAM}/localqueues/default"
KEY = f"requests.{names.GPU_RESOURCE}"
HARD = {KEY: str(LIMIT), "pods": "50"}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A team with a ResourceQuota whose pods run, on nodes with more GPUs than that."""
    with Cluster.start() as cluster:
        cluster.start_whole()
        for index in range(2):
            cluster.add_gpu_node(f"gpu-{index}", taints=[nodes.GPU_TAINT])
        it = Installed(cluster, tmp_path_factory.mktemp("quota"))
        it.api.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        it.api.post(
            QUOTA.rpartition("/")[0], {"metadata": {"name": "gpus"}, "spec": {"hard": HARD}}
        )
        waiting.until(partial(is_counted, it), what="the ResourceQuota counts")
        it.api.post(PODS, pod("alone", 1))
        job = make_job("train", 2, gpus=1, completions=40, pod=LASTING)
        it.api.post(f"/apis/batch/v1/namespaces/{TEAM}/jobs", job)
        waiting.until(lambda: running(it) == 3, what="three pods run")
        yield it
        it.stop()


TOLERATION = {"key": names.GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
LASTING: dict[str, Any] = {
    "annotations": {nodes.RUN_FOR: "1h"},
    "tolerations": [TOLERATION],
}


def pod(name: str, gpus: int) -> Json:
    return make_pod(name, gpus=gpus, tolerations=[TOLERATION])


def is_counted(system: Installed) -> bool:
    return KEY in system.api.get(QUOTA).get("status", {}).get("hard", {})


def held(system: Installed) -> int:
    """GPUs of pods that are not gated and have not ended."""
    return sum(
        int(container["resources"].get("limits", {}).get(names.GPU_RESOURCE, 0))
        for one in system.api.get(PODS)["items"]
        if one["status"].get("phase") not in {"Succeeded", "Failed"}
        and not one["spec"].get("schedulingGates")
        for container in one["spec"]["containers"]
    )


def running(system: Installed) -> int:
    return sum(one["status"].get("phase") == "Running" for one in system.api.get(PODS)["items"])


def migrate(system: Installed, *more: str) -> subprocess.CompletedProcess[str]:
    return run_command("migrate", "resourcequota", "--kubeconfig", system.kubeconfig, *more)


@contextmanager
def greedy(system: Installed) -> Iterator[list[int]]:
    """Creates pods all the while, and deletes what says that it waits; the most GPUs held."""
    most, over = [0], threading.Event()

    def ask() -> None:
        count = 0
        while not over.wait(0.05):
            count += 1
            with suppress(OSError, RestError):  # refused by the ResourceQuota
                system.api.post(PODS, pod(f"greedy-{count}", 1))
            most[0] = max(most[0], held(system))
            for one in system.api.get(PODS)["items"]:
                if one["spec"].get("schedulingGates") and is_told_to_wait(one):
                    system.delete_pod(TEAM, one["metadata"]["name"])

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()
        for waits in system.api.get(PODS)["items"]:
            if waits["spec"].get("schedulingGates"):
                system.delete_pod(TEAM, waits["metadata"]["name"])


def is_told_to_wait(pod: Json) -> bool:
    """Whether a pod says that it waits: quota that is free would have been its own by then."""
    told = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == conditions.POD_ADMITTED and c["status"] == "False" for c in told)


def uids(system: Installed) -> dict[str, str]:
    """The pods that were there before."""
    return {
        one["metadata"]["name"]: one["metadata"]["uid"]
        for one in system.api.get(PODS)["items"]
        if not one["metadata"]["name"].startswith("greedy")
    }


def used(system: Installed) -> str:
    found = system.api.get(f"{KUEUE}/clusterqueues/{TEAM}").get("status", {})
    totals = {
        one["name"]: one["total"]
        for flavor in found.get("flavorsUsage", ())
        for one in flavor["resources"]
    }
    return str(totals.get(names.GPU_RESOURCE, "0"))


def is_refused_by_quota(system: Installed) -> bool:
    """Creates a pod that is one too many; whether it was the ResourceQuota that refused it.

    For a moment the API server still applies the policy of a LocalQueue that is gone.
    """
    with pytest.raises(RestError) as refused:
        system.api.post(PODS, pod("over", 1))
    return "exceeded quota" in str(refused.value)


def test_without_an_installation_nothing_is_touched(system: Installed) -> None:
    refused = migrate(system, "--apply")
    assert refused.returncode == 1
    assert "run gpu-admission install" in refused.stderr
    assert system.api.get(QUOTA)["spec"]["hard"] == HARD


def test_the_plan_changes_nothing(system: Installed) -> None:
    system.install_as_new()
    system.start()
    shown = migrate(system)
    assert shown.returncode == 0, shown.stderr
    for line in (
        f"  1. LocalQueue default of ClusterQueue {TEAM}: at most nvidia.com/gpu=4",
        "  2. 3 running pods are charged to it, and run on",
        "  3. ResourceQuota gpus no longer limits requests.nvidia.com/gpu=4",
    ):
        assert line in shown.stdout.splitlines()
    document = json.loads(migrate(system, "-o", "json").stdout)
    assert document["charged"] == {TEAM: 3}
    (quota,) = document["resourceQuotas"]
    assert (quota["removed"], quota["kept"]) == ({KEY: "4"}, ["pods"])
    assert system.api.get(QUOTA)["spec"]["hard"] == HARD
    assert system.api.lacks(LOCAL_QUEUE)


def test_the_queue_takes_over_and_never_more_is_held(system: Installed) -> None:
    before = uids(system)
    with greedy(system) as most:
        done = migrate(system, "--apply")
        waiting.until(lambda: most[0] >= LIMIT, what="all quota is held")
    assert done.returncode == 0, done.stderr
    assert most == [LIMIT]
    assert before.items() <= uids(system).items()
    quota = system.api.get(QUOTA)
    assert quota["spec"]["hard"] == {"pods": "50"}
    assert json.loads(quota["metadata"]["annotations"][names.QUOTA_BEFORE]) == {KEY: "4"}
    waiting.until(lambda: used(system) == "4", what="all that runs is charged")
    assert held(system) == LIMIT


def test_the_number_of_the_resource_quota_is_the_most_until_it_may_borrow(
    system: Installed,
) -> None:
    system.api.post(PODS, pod("fifth", 1))
    said = system.wait_condition(TEAM, "fifth")
    assert said["status"] == "False"
    system.api.patch(LOCAL_QUEUE, {"metadata": {"annotations": {names.MAX_IN_USE: None}}})
    system.wait_released(TEAM, "fifth")
    system.delete_pod(TEAM, "fifth")
    cap = {names.MAX_IN_USE: f"{names.GPU_RESOURCE}={LIMIT}"}
    system.api.patch(LOCAL_QUEUE, {"metadata": {"annotations": cap}})
    waiting.until(lambda: used(system) == "4", what="the fifth has ended")


def test_a_pod_of_a_job_that_ran_before_is_followed_by_one_that_has_quota(
    system: Installed,
) -> None:
    label = "batch.kubernetes.io/job-name"
    (first, *_) = (
        one for one in system.api.get(PODS)["items"] if label in one["metadata"].get("labels", {})
    )
    path = f"{PODS}/{first['metadata']['name']}/status"
    system.api.patch(path, {"status": {"phase": "Succeeded"}})

    def next_runs() -> bool:
        found = system.api.get(PODS)["items"]
        return any(
            one["metadata"].get("labels", {}).get(names.CLUSTER_QUEUE_NAME_LABEL) == TEAM
            and one["metadata"]["creationTimestamp"] > first["metadata"]["creationTimestamp"]
            and label in one["metadata"]["labels"]
            and one["status"].get("phase") == "Running"
            for one in found
        )

    waiting.until(next_runs, what="the next pod of the Job runs")
    assert held(system) <= LIMIT


def test_a_second_run_changes_nothing(system: Installed) -> None:
    again = migrate(system, "--apply")
    assert again.returncode == 1
    assert "no ResourceQuota limits GPUs" in again.stderr


def test_the_way_back_waits_for_who_waits_and_never_more_is_held(system: Installed) -> None:
    system.api.post(PODS, pod("waits", 4))
    system.wait_condition(TEAM, "waits")
    stopped = migrate(system, "--undo")
    assert stopped.returncode == 1
    assert f"1 workload waits in the queues of {TEAM}" in stopped.stderr
    assert system.api.get(QUOTA)["spec"]["hard"] == HARD
    assert not system.api.lacks(LOCAL_QUEUE)

    system.delete_pod(TEAM, "waits")
    before = uids(system)
    done = migrate(system, "--undo")
    assert done.returncode == 0, done.stderr
    assert system.api.lacks(LOCAL_QUEUE)
    assert names.QUOTA_BEFORE not in system.api.get(QUOTA)["metadata"].get("annotations", {})
    assert uids(system) == before
    waiting.until(lambda: running(system) == LIMIT, what="all that ran runs")
    waiting.until(lambda: is_refused_by_quota(system), what="the ResourceQuota refuses a pod")


def test_apply_and_undo_together_are_refused() -> None:
    refused = run_command(
        "migrate", "resourcequota", "--kubeconfig", str(Path("none")), "--apply", "--undo"
    )
    assert refused.returncode == 2
