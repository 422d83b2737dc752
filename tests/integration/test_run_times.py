"""Run times of queues on a real API server: what a user with the role edit may make of them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from admission.base import conditions, names
from tests.controlplane import waiting
from tests.controlplane.moved_clock import MovedClock
from tests.controlplane.rest import Rest, RestError
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed
from tests.integration.teams import Team, add_editor

EVENTS = "/apis/events.k8s.io/v1"
pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> MovedClock:
    return MovedClock(tmp_path_factory.mktemp("clock") / "clock")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, clock: MovedClock) -> Iterator[Installed]:
    folder: Path = tmp_path_factory.mktemp("run-times")
    with snapshot.prepared(folder, Installed, whole=True) as it:
        it.clock = clock
        it.start()
        yield it


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    return add_editor(system)


def pod_of(name: str, **labels: str) -> dict[str, Any]:
    limits = {"limits": {names.GPU_RESOURCE: 1}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "train", "resources": limits}],
        },
    }


def test_no_label_or_annotation_makes_a_pod_run_for_longer_than_its_queue_lets_it(
    system: Installed, editor: Rest, clock: MovedClock
) -> None:
    team = Team(system, editor)
    queue = f"{KUEUE}/clusterqueues/{team.name}"
    local = f"{KUEUE}/namespaces/{team.name}/localqueues/default"
    with pytest.raises(RestError, match=r"maximum-run-time.*must be a duration"):
        system.api.patch(local, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: "soon"}}})
    system.api.patch(queue, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: "1h"}}})
    system.api.patch(local, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: "9h"}}})

    pod = pod_of("train", **{names.MAX_EXEC_TIME_LABEL: "32400"})
    limits = {"annotations": {names.MAXIMUM_RUN_TIME: "9h"}}
    with pytest.raises(RestError, match="has an effect on queues only"):
        editor.post(team.pods, {**pod, "metadata": {**pod["metadata"], **limits}})
    editor.post(team.pods, pod)
    system.wait_released(team.name, "train")

    def told() -> str:
        found = system.api.get(team.workloads)["items"]
        said = [one for w in found for one in w.get("status", {}).get("conditions", [])]
        return next((c["message"] for c in said if c["type"] == conditions.RUN_TIME_LIMITED), "")

    message = waiting.until(told, what="the Workload says how long it may run")
    assert f"for 1h in all: {names.MAXIMUM_RUN_TIME} of ClusterQueue {team.name}" in message
    with pytest.raises(RestError):
        editor.patch(queue, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: None}}})
    assert "train" in team.listed()
    clock.advance(3600)
    waiting.until(lambda: "train" not in team.listed(), what="the pod is stopped")


def test_a_preempted_pod_is_told_when_it_is_stopped_and_runs_until_then(
    system: Installed, editor: Rest, clock: MovedClock
) -> None:
    preemption = {"withinClusterQueue": "LowerPriority"}
    team = Team(system, editor, quota=1, preemption=preemption)
    system.cluster.add_gpu_node("notice", labels={names.GPU_PRODUCT_LABEL: "A100"})
    system.add_classes(urgent=100)
    marks = {"metadata": {"annotations": {names.PREEMPTION_NOTICE: "soon"}}}
    with pytest.raises(RestError, match=r"preemption-notice.*must be a duration"):
        system.api.patch(f"{KUEUE}/namespaces/{team.name}/localqueues/default", marks)
    marks = {"metadata": {"annotations": {names.PREEMPTION_NOTICE: "1h"}}}
    system.api.patch(f"{KUEUE}/clusterqueues/{team.name}", marks)
    victim = pod_of("train")
    victim["metadata"]["finalizers"] = ["example.com/kept"]  # to be read when it was stopped
    editor.post(team.pods, victim)
    team.wait_running("train")
    marks = {"metadata": {"annotations": {names.STOPS_AT: "2036-01-01T00:00:00Z"}}}
    with pytest.raises(RestError, match="Only the controller"):
        editor.patch(f"{team.pods}/train", marks)

    editor.post(team.pods, pod_of("urgent", **{names.PRIORITY_CLASS_LABEL: "urgent"}))
    waiting.until(
        lambda: names.STOPS_AT in team.listed()["train"]["metadata"].get("annotations", {}),
        what="it is told when it is stopped",
    )
    annotations = team.listed()["train"]["metadata"]["annotations"]
    end = datetime.fromisoformat(annotations[names.STOPS_AT])
    is_today = end.date() == (end - timedelta(hours=1)).date()  # the notice is an hour
    shown = f"{end:%H:%M:%S}" if is_today else f"{end:%Y-%m-%d %H:%M:%S}"
    text = (
        f"This pod is stopped at {shown} UTC: its GPUs are needed by {team.name}/urgent"
        " (priority 100). Save your work"
    )

    def told() -> list[str]:
        found = system.api.get(f"{EVENTS}/namespaces/{team.name}/events")["items"]
        notices = [one for one in found if one["reason"] == "PreemptionNotice"]
        return [one["note"] for one in notices if one["regarding"]["name"] == "train"]

    waiting.until(lambda: told() == [text], what="an event on the pod says so")
    assert team.running("train")
    clock.advance(3600)
    waiting.until(
        lambda: "deletionTimestamp" in team.listed()["train"]["metadata"], what="it is stopped"
    )
    pod = team.listed()["train"]
    found = system.api.get(team.workloads)["items"]
    (workload,) = (one for one in found if "-train-" in one["metadata"]["name"])
    said = {one["type"]: one for one in workload["status"]["conditions"]}
    evicted = datetime.fromisoformat(said[conditions.EVICTED]["lastTransitionTime"])
    (target,) = (
        one for one in pod["status"]["conditions"] if one["type"] == conditions.TERMINATION_TARGET
    )
    assert end == evicted + timedelta(hours=1)
    assert datetime.fromisoformat(target["lastTransitionTime"]) >= end
    assert team.gated() == {"urgent"}
    editor.patch(f"{team.pods}/train", {"metadata": {"finalizers": None}})
    team.wait_running("urgent")
