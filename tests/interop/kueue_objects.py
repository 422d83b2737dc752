"""What Kueue's real manager stores, as a file: ``make interop ARGS="--only Kueue --record"``.

The file holds one thing of each kind that a move takes over, in each state: pods, groups and Jobs
that run, wait and have ended, a Job that was evicted, and the queues with their status.
"""

import tempfile
from pathlib import Path
from typing import Any, Final

from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.controlplane.rest import Json
from tests.integration.installed import KUEUE
from tests.interop.from_kueue import QUOTA, TEAM, World, world
from tests.interop.kueuectl import MODULE
from tests.interop.lab import FINISH
from tests.interop.modules import say
from tests.upgrade import stored
from tests.upgrade.stored import Stored

FILE: Final = Path(__file__).parent / "recorded" / f"kueue-{MODULE.version}.jsonl.gz"
LARGE: Final = QUOTA - 2
"""GPUs of what waits: it fits once everything else has ended, and one at a time."""
RUNS: Final = ("runs", "pair-0", "pair-1")
WAITS: Final = ("waits", "pair-waits-0", "pair-waits-1")
QUEUED: Final = {names.QUEUE_LABEL: "default"}
PODS: Final = f"/api/v1/namespaces/{TEAM}/pods"
JOBS: Final = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
WORKLOADS: Final = f"{KUEUE}/namespaces/{TEAM}/workloads"
_KINDS: Final = (
    Stored("v1", "namespaces", "namespaces"),
    Stored("v1", "nodes", "minions"),
    stored.JOBS,
    stored.PODS,
    *stored.KUEUE,
)


def record() -> int:
    """Have Kueue's manager fill a cluster, and write what is stored; how many objects."""
    with tempfile.TemporaryDirectory() as name, world(Path(name)) as it:
        fill(it)
        found = {
            key: document
            for key, document in stored.read(it.api, _KINDS).items()
            if _is_of_scene(document)
        }
    stored.save(FILE, found)
    say(f"{len(found)} objects written to {FILE.name}")
    return len(found)


def fill(it: World) -> None:
    """Create the work, and wait until each is in its state."""
    pods(it, "ended", 1)
    it.until(lambda: phase(it.api, "ended") == "Running", "a pod runs")
    it.api.patch(f"{PODS}/ended", {"metadata": {"annotations": {FINISH: ""}}})
    it.api.post(JOBS, make_job("evicted", 2, labels=QUEUED, gpus=1))
    it.until(lambda: says(it, "job-evicted", "Admitted"), "a Job is admitted")
    (name,) = workloads_of(it, "job-evicted")
    it.api.patch(f"{WORKLOADS}/{name}", {"spec": {"active": False}})
    it.until(lambda: says(it, "job-evicted", "Evicted"), "it is evicted")
    it.until(lambda: it.api.get(f"{JOBS}/evicted")["spec"]["suspend"], "it is suspended")
    pods(it, "runs", 1)
    group(it, "pair", 1)
    it.api.post(JOBS, make_job("job-runs", 2, labels=QUEUED, gpus=1))
    it.until(lambda: it.held() == 5, "what fits runs")
    it.until(lambda: all(phase(it.api, one) == "Running" for one in RUNS), "the pods that fit run")
    pods(it, "waits", LARGE)
    group(it, "pair-waits", LARGE // 2)
    it.api.post(JOBS, make_job("job-waits", 2, labels=QUEUED, gpus=LARGE // 2))
    it.until(lambda: counted(it, "pendingWorkloads") == 3, "what does not fit waits")
    it.until(lambda: counted(it, "admittedWorkloads") == 3, "what fits is counted")
    it.until(lambda: says(it, "pod-ended", "Finished"), "the ended pod is finished")


def pods(it: World, name: str, gpus: int) -> None:
    """Create a pod."""
    it.api.post(PODS, make_pod(name, labels=QUEUED, gpus=gpus, restartPolicy="Never"))


def group(it: World, name: str, gpus: int) -> None:
    """Create a group of two pods."""
    labels = {**QUEUED, names.POD_GROUP_NAME: name}
    annotations = {names.POD_GROUP_TOTAL_COUNT: "2"}
    for part in range(2):
        it.api.post(
            PODS,
            make_pod(
                f"{name}-{part}",
                labels=labels,
                annotations=annotations,
                gpus=gpus,
                restartPolicy="Never",
            ),
        )


def phase(api: Any, name: str) -> str:
    """The phase of a pod."""
    return str(api.get(f"{PODS}/{name}")["status"].get("phase"))


def workloads_of(it: World, prefix: str) -> list[str]:
    """Names of Workloads that begin so."""
    return [
        one["metadata"]["name"]
        for one in it.api.get(WORKLOADS)["items"]
        if one["metadata"]["name"].startswith(prefix)
    ]


def says(it: World, prefix: str, type_: str) -> bool:
    """Whether a Workload has a condition that is true."""
    return any(
        stored.condition(one, type_).get("status") == "True"
        for one in it.api.get(WORKLOADS)["items"]
        if one["metadata"]["name"].startswith(prefix)
    )


def counted(it: World, member: str) -> int:
    """A number in the status of the ClusterQueue."""
    found: Json = it.api.get(f"{KUEUE}/clusterqueues/{TEAM}").get("status", {})
    return int(found.get(member) or 0)


def _is_of_scene(document: Json) -> bool:
    metadata = document["metadata"]
    is_namespace = document["kind"] == "Namespace"
    where = metadata["name"] if is_namespace else metadata.get("namespace", TEAM)
    return bool(where == TEAM)
