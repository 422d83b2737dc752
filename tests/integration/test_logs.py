"""What the log of the running program says of pods, and of an API server that is away."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.integration import snapshot
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane

SECRET = "hunter2hunter2"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Webhook and controller, which log as much as they can."""
    with snapshot.prepared(tmp_path_factory.mktemp("logs"), Installed) as it:
        # Before the start: a pod whose class is not seen yet is told of as held.
        it.add_classes(low=1, high=100)
        it.start("--log-level", "debug")
        yield it


def lines(log: Path) -> list[Json]:
    """Everything that was logged: each line is a JSON object, whoever wrote it."""
    text = log.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def about(system: Installed, pod: str) -> list[Json]:
    """What a person finds who greps for the name of a pod among decisions."""
    found = lines(system.log)
    return [one for one in found if one["component"] == "decisions" and one.get("pod") == pod]


def create(system: Installed, team: str, name: str, priority: str) -> None:
    labels = {names.PRIORITY_CLASS_LABEL: priority}
    system.create_pod(team, name, gpus=3, labels=labels)


def test_a_pod_is_followed_by_its_name_from_admission_to_eviction(system: Installed) -> None:
    team = system.add_team(4, preemption={"withinClusterQueue": "LowerPriority"})
    secret = {"metadata": {"name": "token"}, "stringData": {"token": SECRET}}
    system.api.post(f"/api/v1/namespaces/{team}/secrets", secret)
    create(system, team, "victim", "low")
    system.wait_released(team, "victim")
    create(system, team, "winner", "high")
    system.wait_released(team, "winner")
    waiting.until(
        lambda: "pod released" in {one["event"] for one in about(system, "winner")},
        what="the release of the second pod in the log",
    )

    # Whether its quota is returned before the pod is gone depends on who is faster.
    told = [one for one in about(system, "victim") if one["event"] != "quota released"]
    assert [one["event"] for one in told] == [
        "workload admitted",
        "pod released",
        "workload evicted",
        "pod stopped",
    ]
    admitted, released, evicted, stopped = told
    quota = {team: {names.GPU_RESOURCE: "3"}}
    for one in told:
        assert (one["level"], one["namespace"], one["local_queue"]) == ("info", team, "default")
    for one in (admitted, released, evicted):
        assert (one["cluster_queue"], one["quota"]) == (team, quota)
    assert evicted["reason"] == "Preempted"
    assert evicted["preempted_by"].startswith(f"{team}/pod-winner-")
    assert evicted["preempted_by_cluster_queue"] == team
    assert stopped["message"].startswith(f"Stopped: its GPUs are needed by {team}/winner ")


def test_an_api_server_that_is_away_is_told_once_by_each_process_with_the_cause(
    system: Installed,
) -> None:
    def told(event: str) -> list[Json]:
        return [one for one in lines(system.log) if one["event"] == event]

    system.cluster.stop_apiserver()
    waiting.until(lambda: len(told("API server does not answer")) >= 2, what="both processes tell")
    system.cluster.start_apiserver()
    waiting.until(
        lambda: len(told("API server answers again")) >= 2, what="both tell of the return"
    )
    waiting.until(system.is_ready, what="both are ready")

    causes = {one["error"] for one in told("API server does not answer")}
    assert causes <= {
        f"connection refused by 127.0.0.1:{system.cluster.port}",
        f"connection closed by 127.0.0.1:{system.cluster.port} before its answer ended",
        f"no answer from 127.0.0.1:{system.cluster.port} in time",
    }
    assert any("connection refused" in cause for cause in causes)


def test_each_process_says_at_its_start_what_it_is_and_where(system: Installed) -> None:
    started = {one["process"]: one for one in lines(system.log) if one["event"] == "started"}
    assert set(started) == {"webhook", "controller"}
    for one in started.values():
        assert one["version"].startswith("v")
        assert f"127.0.0.1:{system.cluster.port}" in one["api_server"]
    assert started["webhook"]["addresses"] == {"reviews": [f"127.0.0.1:{system.webhook_port}"]}
    pages = started["controller"]["addresses"]["pages"]
    assert pages == [f"127.0.0.1:{system.metrics_port}"]


def test_the_controller_says_whether_it_leads_and_how_old_each_watch_is(
    system: Installed,
) -> None:
    status, text = system.page(system.metrics_url, "/readyz?verbose")
    told = dict(line.split(": ", 1) for line in text.splitlines()[:-1])
    assert status == 200
    assert text.splitlines()[-1] == "ok"
    assert told["leader"] == "yes"
    assert told["lease"].startswith("none")
    assert re.fullmatch(r"listed, heard of \d+\.\d s ago", told["watch pods"])
    assert "watch workloads.kueue.x-k8s.io" in told


def test_a_long_outage_writes_one_line_when_it_begins_and_one_when_it_ends(
    system: Installed,
) -> None:
    def tried() -> int:
        found = [one for one in lines(system.log) if one["event"] == "not served, trying again"]
        return len([one for one in found if one.get("resource") == "nodes"])

    before, attempts = len(lines(system.log)), tried()
    system.cluster.stop_apiserver()
    # Twice the attempts after which each kind used to tell of itself.
    waiting.until(lambda: tried() > attempts + 45, what="a long outage")
    system.cluster.start_apiserver()
    waiting.until(system.is_ready, what="both are ready")
    waiting.until(
        lambda: (
            [one["event"] for one in lines(system.log)[before:]].count("API server answers again")
            >= 2
        ),
        what="both tell of the return",
    )
    loud = [
        one["event"]
        for one in lines(system.log)[before:]
        if one["level"] != "debug" and one["component"] != "decisions"
    ]
    for event in set(loud):
        assert loud.count(event) <= 2, loud  # one of each process


def test_nothing_secret_is_logged_at_any_level(system: Installed) -> None:
    log = system.log.read_text()
    assert "pod released" in log
    assert SECRET not in log
    assert system.cluster.admin_token not in log
