"""Break glass on a real API server: pods run without quota, and nothing stops them for it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from admission.base import names
from tests.builders.jobs import queued_job
from tests.builders.pods import make_pod
from tests.controlplane import features, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, RestError
from tests.guides import pages
from tests.guides.pages import File
from tests.integration import applied
from tests.integration.installed import Installed, run_command
from tests.integration.test_owners import allow

pytestmark = pytest.mark.controlplane


@pytest.fixture(params=["refuse", pytest.param("hold", marks=features.needs_mutating_policies)])
def system(
    fresh_cluster: Callable[[], Cluster], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Installed]:
    """Installed with the default mode."""
    it = Installed(fresh_cluster(), tmp_path)
    it.install_as_new("--while-webhook-down", request.param)
    try:
        it.start()
        yield it
    finally:
        it.stop()


def doctor(system: Installed, check: str) -> list[tuple[str, str]]:
    """Severity and next step of what a check of the doctor finds."""
    done = run_command("doctor", "-o", "json", "--kubeconfig", system.kubeconfig)
    return [
        (finding["severity"], finding["mend"])
        for finding in json.loads(done.stdout)["findings"]
        if finding["check"] == check
    ]


def break_glass(system: Installed, *arguments: str) -> "subprocess.CompletedProcess[str]":
    done = run_command("break-glass", *arguments, "--kubeconfig", system.kubeconfig)
    assert done.returncode == 0, done.stderr
    return done


def job_of(team: str, name: str) -> Json:
    """A Job with one GPU in the default queue of a team."""
    job = queued_job(name, pods=1, gpus=1)
    job["metadata"] = {"name": name, "namespace": team, "labels": {names.QUEUE_LABEL: "default"}}
    return job


def is_created_ungated(system: Installed, team: str) -> bool:
    """Whether a new GPU pod would be created without a gate."""
    path = f"/api/v1/namespaces/{team}/pods?dryRun=All"
    try:
        made = system.api.post(path, make_pod("probe", limits={names.GPU_RESOURCE: "1"}))
    except RestError:
        return False
    return not made["spec"].get("schedulingGates")


def test_what_waits_runs_is_charged_and_goes_on(system: Installed) -> None:
    team = system.add_team(1)
    jobs = f"/apis/batch/v1/namespaces/{team}/jobs"
    system.create_pod(team, "first")
    system.wait_released(team, "first")
    system.create_pod(team, "second")
    system.api.post(jobs, job_of(team, "train"))
    system.wait_condition(team, "second")
    system.stop()
    assert not is_created_ungated(system, team)

    tried = break_glass(system, "on", "--dry-run")
    assert "This lets 1 pod and 1 Job run (2 nvidia.com/gpu) and takes away" in tried.stderr
    assert system.is_gated(team, "second"), "a dry run lets none run"
    assert not is_created_ungated(system, team), "a dry run takes nothing away"

    break_glass(system, "on")
    waiting.until(lambda: is_created_ungated(system, team), what="new pods pass")
    assert not system.is_gated(team, "second")
    assert system.api.get(f"{jobs}/train")["spec"]["suspend"] is False
    system.create_pod(team, "meanwhile")
    let_run, created = (
        [each["name"] for each in told[part]]
        for told in [json.loads(break_glass(system, "status", "-o", "json").stdout)]
        for part in ("let_run", "created_meanwhile")
    )
    assert let_run == ["train", "second"]
    assert created == ["meanwhile"]
    (is_on, is_outside) = doctor(system, "break-glass")
    assert is_on == (
        "error",
        "once webhook and controller run again: gpu-admission break-glass off",
    )
    assert is_outside[0] == "warning"
    assert not doctor(system, "webhook-configurations")

    off = break_glass(system, "off").stdout
    assert "of these 1 (1 nvidia.com/gpu) go on outside of quota until they end" in off
    assert "the glass is whole" in break_glass(system, "status").stdout
    system.start()
    waiting.until(lambda: not is_created_ungated(system, team), what="new pods wait again")
    applied.wait_reserved(system, team, 3)
    assert not system.pod(team, "second")["metadata"].get("deletionTimestamp")
    assert system.api.get(f"{jobs}/train")["spec"]["suspend"] is False
    system.create_pod(team, "third")
    system.wait_condition(team, "third")
    assert system.is_gated(team, "third")


def test_a_running_controller_holds_new_jobs_of_a_queue_to_its_quota_until_they_are_let_run(
    system: Installed,
) -> None:
    team = system.add_team(1)
    jobs = f"/apis/batch/v1/namespaces/{team}/jobs"
    system.create_pod(team, "first")
    system.wait_released(team, "first")
    assert "still holds new Jobs" in break_glass(system, "on", "--new-only").stdout
    waiting.until(lambda: is_created_ungated(system, team), what="new pods pass")
    system.api.post(jobs, job_of(team, "train"))

    def is_suspended() -> bool:
        return bool(system.api.get(f"{jobs}/train")["spec"].get("suspend"))

    waiting.until(is_suspended, what="the Job waits for quota")
    break_glass(system, "on")
    assert not is_suspended()
    applied.wait_reserved(system, team, 2)
    assert not is_suspended()


def on_call(system: Installed) -> str:
    """The kubeconfig of somebody with the role that the guide gives to who is on call."""
    (role,) = [
        step.text
        for step in pages.steps(pages.FOLDER / "break-glass.md")
        if isinstance(step, File) and step.name == "on-call.yaml"
    ]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for document in yaml.safe_load_all(role):
        system.api.post(f"{rbac}/{document['kind'].lower()}s", document)
    kubeconfig = system.cluster.kubeconfig("ann", ["on-call"])
    client = system.cluster.client(kubeconfig)
    waiting.until(lambda: client.answers("/api/v1/pods"), what="the role is in effect")
    return str(kubeconfig)


def test_who_is_on_call_lets_one_pod_and_one_job_run(system: Installed) -> None:
    team = system.add_team(1)
    kubeconfig = on_call(system)
    system.create_pod(team, "first")
    system.wait_released(team, "first")  # pods of one second have no order that a test can know
    for name in ("second", "third"):
        system.create_pod(team, name)
    system.api.post(f"/apis/batch/v1/namespaces/{team}/jobs", job_of(team, "train"))
    for name in ("second", "third"):
        system.wait_condition(team, name)
    for chosen in (("pod", "third"), ("jobs", "train")):
        release = ("break-glass", "release", *chosen, "-n", team, "--kubeconfig", kubeconfig)
        tried = run_command(*release, "--dry-run")
        assert tried.returncode == 0, tried.stderr
        assert "dry run: nothing was changed" in tried.stderr
        waits = system.api.get(f"/apis/batch/v1/namespaces/{team}/jobs/train")
        assert system.is_gated(team, "third") is (chosen[0] == "pod"), "a dry run lets none run"
        assert waits["spec"]["suspend"]
        assert names.OUTSIDE_QUOTA not in waits["metadata"].get("annotations", {})
        done = run_command(*release)
        assert done.returncode == 0, done.stderr
        *lines, total = done.stdout.splitlines()
        would_be = [*(f"{line} (dry run)" for line in lines), f"would be {total}"]
        assert tried.stdout.splitlines() == would_be
    assert not system.is_gated(team, "third")
    assert system.is_gated(team, "second")
    applied.wait_reserved(system, team, 3)


def test_who_may_only_edit_cannot_write_the_mark(system: Installed) -> None:
    editor = allow(system.cluster, "editor", "", "batch")
    system.cluster.wait_for_roles()
    team = system.add_team(1)
    pods, jobs = f"/api/v1/namespaces/{team}/pods", f"/apis/batch/v1/namespaces/{team}/jobs"
    mark = {names.OUTSIDE_QUOTA: "2026-01-01T00:00:00Z"}
    system.create_pod(team, "runs")
    system.wait_released(team, "runs")
    system.create_pod(team, "waits")
    editor.post(jobs, job_of(team, "train"))
    for path in (f"{pods}/runs", f"{pods}/waits", f"{jobs}/train"):
        editor.patch(path, {"metadata": {"annotations": {"note": "x"}}})
        with pytest.raises(RestError) as refused:
            editor.patch(path, {"metadata": {"annotations": mark}})
        assert "ValidatingAdmissionPolicy" in refused.value.body, path  # not for want of a role

    limits = {names.GPU_RESOURCE: "1"}
    copied = editor.post(pods, make_pod("copied", limits=limits, annotations=mark))
    assert names.OUTSIDE_QUOTA not in copied["metadata"]["annotations"]
    assert copied["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    job = job_of(team, "copy")
    job["metadata"]["annotations"] = mark
    made = editor.post(jobs, job)
    assert names.OUTSIDE_QUOTA not in made["metadata"].get("annotations", {})
    assert made["spec"]["suspend"] is True
