"""Run times of queues on a real API server: what a user with the role edit may make of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import conditions, names
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import RestError
from tests.integration.installed import KUEUE, Installed, installed
from tests.integration.teams import Team, add_editor

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with Cluster.start() as cluster:
        cluster.start_whole()
        with installed(cluster, tmp_path_factory.mktemp("times")) as it:
            yield it


def test_no_label_or_annotation_makes_a_pod_run_for_longer_than_its_queue_lets_it(
    system: Installed,
) -> None:
    editor = add_editor(system)
    team = Team(system, editor)
    queue = f"{KUEUE}/clusterqueues/{team.name}"
    local = f"{KUEUE}/namespaces/{team.name}/localqueues/default"
    with pytest.raises(RestError, match=r"maximum-run-time.*must be a duration"):
        system.api.patch(local, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: "soon"}}})
    system.api.patch(queue, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: "4s"}}})
    system.api.patch(local, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: "1h"}}})

    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "labels": {names.MAX_EXEC_TIME_LABEL: "3600"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "train",
                    "resources": {"limits": {names.GPU_RESOURCE: 1}},
                }
            ],
        },
    }
    limits = {"annotations": {names.MAXIMUM_RUN_TIME: "1h"}}
    with pytest.raises(RestError, match="is read on queues only"):
        editor.post(team.pods, {**pod, "metadata": {**pod["metadata"], **limits}})
    editor.post(team.pods, pod)
    system.wait_released(team.name, "train")

    def told() -> str:
        found = system.api.get(team.workloads)["items"]
        said = [one for w in found for one in w.get("status", {}).get("conditions", [])]
        return next((c["message"] for c in said if c["type"] == conditions.RUN_TIME_LIMITED), "")

    message = waiting.until(told, what="the Workload says how long it may run")
    assert f"for 4s in all: {names.MAXIMUM_RUN_TIME} of ClusterQueue {team.name}" in message
    with pytest.raises(RestError):
        editor.patch(queue, {"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: None}}})
    waiting.until(lambda: "train" not in team.listed(), what="the pod is stopped")
