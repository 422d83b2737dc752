"""What Kueue's real manager has stored is taken over: pods, groups, Jobs and queues in each state.

``make interop ARGS="--only Kueue --record"`` writes the file. The cluster is a whole one, so Jobs
and pods are gone on with as in any cluster. Of Kueue there are its objects, and nothing decides.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from admission.base import names
from admission.objects import crds
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json
from tests.integration.beside_kueue import CRDS, Kueue, Served
from tests.interop import kueue_objects, lab
from tests.interop.from_kueue import QUOTA, TEAM
from tests.interop.kueue_objects import JOBS, PODS, RUNS, WAITS, WORKLOADS
from tests.upgrade import stored

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]  # on a busy machine

QUEUE: Final = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{TEAM}"
QUEUES: Final = next(one for one in stored.KUEUE if one.plural == "clusterqueues")
EVICTED: Final = "evicted"


@dataclass(frozen=True)
class Moved:
    """A cluster in which Kueue's place was taken.

    Attributes:
        system: our processes.
        before: what Kueue had stored, by key.
        told: by the plan.
    """

    system: Served
    before: Mapping[str, Json]
    told: str

    def stored(self, kind: stored.Stored) -> dict[str, Json]:
        """The objects of a kind as they are now, by name."""
        return {one["metadata"]["name"]: one for one in self.system.api.get(kind.path)["items"]}


def recorded(kind: stored.Stored, before: Mapping[str, Json]) -> dict[str, Json]:
    """The objects of a kind as Kueue left them, by name."""
    return {one["metadata"]["name"]: one for one in stored.of(before, kind)}


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    before = stored.load(kueue_objects.FILE)
    folder = tmp_path_factory.mktemp("recorded")
    with Cluster.start() as cluster:
        stored.write(cluster, before)
        for document in crds.documents():
            cluster.api.post(CRDS, document)
        for kind in stored.KUEUE:
            waiting.until(partial(cluster.api.answers, kind.path), what=f"{kind.plural} served")
        system = Served(cluster, folder)
        Kueue(system).register()
        cluster.start_whole(lab.stages(folder))
        try:
            told = system.migrate()
            system.migrate("--apply")
            yield Moved(system, before, told)
        finally:
            system.stop()


def test_the_file_holds_work_in_every_state() -> None:
    before = stored.load(kueue_objects.FILE)
    pods = recorded(stored.PODS, before)
    assert all(names.ADMISSION_GATE in gates(pods[name]) for name in WAITS)
    for name in (*RUNS, *WAITS):
        assert names.KUEUE_POD_FINALIZER in pods[name]["metadata"]["finalizers"], name
    jobs = recorded(stored.JOBS, before)
    suspended = {name for name, one in jobs.items() if one["spec"]["suspend"]}
    assert (set(jobs) - suspended, suspended) == ({"job-runs"}, {"job-waits", EVICTED})
    workloads = recorded(stored.WORKLOADS, before)
    for type_ in ("Admitted", "Evicted", "Finished", "QuotaReserved"):
        assert any(is_true(one, type_) for one in workloads.values()), type_
    assert any(not one.get("status", {}).get("admission") for one in workloads.values())
    (queue,) = stored.of(before, QUEUES)
    assert queue["status"]["admittedWorkloads"] == queue["status"]["pendingWorkloads"] == 3


def test_the_plan_counts_what_kueue_has_stored(moved: Moved) -> None:
    assert "\nKueue's place can be taken: everything" in moved.told, moved.told
    assert "Workloads: 3 hold quota and keep it, 4 wait and keep their place, 1 have" in moved.told
    assert f"pods: {len(WAITS)} wait behind the gate" in moved.told


def test_everything_is_there_and_no_decision_was_lost(moved: Moved) -> None:
    for kind in (stored.PODS, stored.JOBS, *stored.KUEUE):
        there = moved.stored(kind)
        for name, one in recorded(kind, moved.before).items():
            assert there[name]["metadata"]["uid"] == one["metadata"]["uid"], name
    workloads = moved.stored(stored.WORKLOADS)
    for name, one in recorded(stored.WORKLOADS, moved.before).items():
        admission = one.get("status", {}).get("admission")
        assert workloads[name].get("status", {}).get("admission") == admission, name
    pods = moved.stored(stored.PODS)
    for name, one in recorded(stored.PODS, moved.before).items():
        assert pods[name]["status"].get("phase") == one["status"].get("phase"), name
        assert gates(pods[name]) == gates(one), name
        kept = pods[name]["metadata"].get("finalizers", ())
        assert names.KUEUE_POD_FINALIZER not in kept, name
    jobs = moved.stored(stored.JOBS)
    for name, one in recorded(stored.JOBS, moved.before).items():
        assert jobs[name]["spec"]["suspend"] == one["spec"]["suspend"], name


def test_the_queue_counts_the_same(moved: Moved) -> None:
    (before,) = stored.of(moved.before, QUEUES)

    def is_the_same() -> bool:
        now = moved.system.api.get(QUEUE).get("status", {})
        return counts(now) == counts(before["status"])

    waiting.until(is_the_same, what=f"the queue says {counts(before['status'])}")


def test_what_waited_runs_when_the_rest_has_ended_and_what_was_evicted_does_not(
    moved: Moved,
) -> None:
    """Last: everything ends."""
    api = moved.system.api

    def has_ended() -> bool:
        found = api.get(PODS)["items"]
        held = sum(gpus(one) for one in found if is_held(one))
        assert held <= QUOTA, f"{held} GPUs are held"
        for one in found:
            annotations = one["metadata"].get("annotations", {})
            if one["status"].get("phase") == "Running" and lab.FINISH not in annotations:
                change = {"metadata": {"annotations": {lab.FINISH: ""}}}
                api.patch(f"{PODS}/{one['metadata']['name']}", change)
        workloads = api.get(WORKLOADS)["items"]
        left = {one["metadata"]["name"] for one in workloads if not is_true(one, "Finished")}
        return len(left) == 1 and next(iter(left)).startswith(f"job-{EVICTED}-")

    waiting.until(has_ended, what="all has ended but what was evicted")
    assert api.get(f"{JOBS}/{EVICTED}")["spec"]["suspend"] is True


def gates(pod: Json) -> list[str]:
    """Names of the gates of a pod."""
    return [one["name"] for one in pod["spec"].get("schedulingGates", ())]


def is_held(pod: Json) -> bool:
    """Whether a pod is released and has not ended."""
    return not gates(pod) and pod["status"].get("phase") not in {"Succeeded", "Failed"}


def gpus(pod: Json) -> int:
    """GPUs that a pod asks for."""
    return sum(
        int(one["resources"].get("limits", {}).get(names.GPU_RESOURCE, 0))
        for one in pod["spec"]["containers"]
    )


def is_true(document: Json, type_: str) -> bool:
    """Whether a condition is true."""
    return bool(stored.condition(document, type_).get("status") == "True")


def counts(status: Json) -> dict[str, Any]:
    """What a ClusterQueue counts."""
    members = (
        "flavorsReservation",
        "flavorsUsage",
        "admittedWorkloads",
        "reservingWorkloads",
        "pendingWorkloads",
    )
    return {key: status.get(key) for key in members}
