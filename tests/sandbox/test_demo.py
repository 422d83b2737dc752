"""The demo ends by itself, in time, with every pod but the impossible one served."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from admission.answers import usage as usages
from admission.base import names
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.kube import resources
from admission.objects import usage_record
from admission.objects.usage_record import Period, Record
from admission.run.connection import ApiServerTarget
from admission.sandbox.demo import display_state, scenario, stage
from admission.sandbox.demo.display_state import DisplayState
from admission.sandbox.demo.kubelet import Kubelet
from admission.sandbox.store import Store
from admission.sandbox.system import Sandbox
from tests.builders.cluster import make_node
from tests.builders.pods import make_pod
from tests.controller.world import ready_world
from tests.controlplane import waiting


@pytest.mark.slow
def test_the_demo_serves_every_pod_but_the_one_that_never_fits() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "admission", "demo"],
        capture_output=True, text=True, timeout=2 * waiting.PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "10 of 11 pods were admitted" in told
    assert "2 were rewritten to MIG slices" in told
    assert "research/too-big: Too big: a pod asks 64 GPUs, the largest node has 8" in told
    assert "its GPU is sick" in told
    assert "NVIDIA_VISIBLE_DEVICES=all shows GPUs to a container without request" in told
    assert "1 more was refused at creation" in told
    assert max(map(len, done.stdout.splitlines())) <= 100
    budget = told.partition("One budget of GPU memory and slices")[2]
    assert "lab/tune-0: 1 nvidia.com/gpu on lab-a100: 80Gi, 7 slices" in budget
    assert "lab/tune-1: 1 nvidia.com/gpu on lab-h100: 94Gi, 7 slices" in budget
    assert "on lab-a100: 10Gi, 1 slice" in budget
    assert "94Gi more promised, but sick or missing" in told


def test_the_sandbox_has_a_place_for_the_records_of_gpu_time() -> None:
    record = usage_record.document(Record(begin=0, until=60), Period.HOUR, Settings().namespace)
    with Sandbox(SystemClock()) as sandbox:
        sandbox.store.create(resources.CONFIG_MAPS, record)
        assert usages.read(sandbox.store, Settings().namespace)[0]


def test_the_link_of_the_demo_opens_the_dashboard_for_nobody_else() -> None:
    with Sandbox(SystemClock()) as sandbox:
        address, _, token = sandbox.dashboard_url.partition("/login#token=")
        for sent, expected in ((token, 200), ("guessed", 401)):
            asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {sent}"})
            try:
                with urllib.request.urlopen(asked, timeout=waiting.PATIENCE_SECONDS) as answer:
                    status = answer.status
            except urllib.error.HTTPError as refused:
                status = refused.code
                refused.close()
            assert status == expected


def test_what_the_demo_runs_is_on_a_node_that_has_room_for_it() -> None:
    store = ready_world().store
    for name, gpus, labels in (("small", 2, {}), ("large", 4, {}), ("wide", 8, {"kind": "b"})):
        node = make_node(name, labels=labels)
        node["status"] = {"allocatable": {names.GPU_RESOURCE: str(gpus)}}
        store.create(resources.NODES, node)
        store.replace(resources.NODES, node | {"status": node["status"]}, subresource="status")
    asked: tuple[tuple[str, int, dict[str, str]], ...] = (
        ("first", 3, {}),
        ("second", 2, {}),
        ("third", 1, {}),
        ("fourth", 1, {"kind": "b"}),
    )
    for name, gpus, selector in asked:
        pod = make_pod(name, namespace="ml", gpus=gpus, nodeSelector=selector)
        store.create(resources.PODS, pod, "ml")
    kubelet = Kubelet(store, {("ml", "first"): 1.0})
    kubelet.tick(0.0)
    assert nodes_of(store) == {
        "first": "large", "second": "small", "third": "large", "fourth": "wide",
    }  # fmt: skip
    kubelet.tick(1.0)  # the first has ended
    store.create(resources.PODS, make_pod("fifth", namespace="ml", gpus=3), "ml")
    kubelet.tick(2.0)
    assert nodes_of(store)["fifth"] == "large"


def test_a_gpu_of_a_demo_that_is_kept_is_sick_for_most_of_a_round() -> None:
    longer = 10
    sick, well = (event.due_seconds(longer) for event in scenario.EVENTS)
    (pod,) = [pod for pod in scenario.PODS if pod.name == scenario.WAITS_FOR_SICK]
    assert sick < pod.at_seconds
    assert well - sick > 60
    assert [event.due_seconds(1) for event in scenario.EVENTS] == [
        event.at_seconds for event in scenario.EVENTS
    ]


def nodes_of(store: Store) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
        for pod in store.list(resources.PODS).items
    }


def test_a_kept_demo_shows_the_pods_of_whoever_tries_it_out_and_leaves_them_alone() -> None:
    store = ready_world().store
    kept = Kubelet(store, {("ml", "first"): 1.0})
    for name, annotations in (("mine", {}), ("first", {names.DEMO_ORDER: "0"})):
        pod = make_pod(name, namespace="ml", gpus=1, annotations=annotations)
        store.create(resources.PODS, pod, "ml")
    assert [one.pod for one in display_state.look(store)] == ["ml/first", "ml/mine"]
    for now in (0.0, 1.0, 2.0):  # that of somebody else runs until it is deleted
        Kubelet(store, {("ml", "first"): 1.0}).tick(now)
        kept.tick(now)
    assert [one.state for one in display_state.look(store)] == [
        DisplayState.DONE,
        DisplayState.RUNNING,
    ]
    stage.clear(store)
    assert [one.pod for one in display_state.look(store)] == ["ml/mine"]


def run(command: str) -> subprocess.CompletedProcess[str]:
    """Types a command that was printed."""
    return subprocess.run(
        shlex.split(command), capture_output=True, text=True, check=False,
        timeout=waiting.PATIENCE_SECONDS,
    )  # fmt: skip


@pytest.mark.slow
def test_a_demo_that_is_kept_goes_on_with_new_pods() -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "admission", "demo", "--keep"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert demo.stdout is not None
        lines = iter(demo.stdout)
        next(line for line in lines if line.rstrip().endswith("terminal:"))
        command = next(lines)
        asked = waiting.until(
            lambda: answer if (answer := run(command)).returncode == 0 else None,
            what="the printed command answers",
        )
        assert re.match(r"nvidia\.com/gpu: \d+ of \d+ used", asked.stdout)
        why = next(lines)
        waiting.until(
            lambda: "Waits: needs 4 a100, 0 free of 8" in run(why).stdout,
            what="the second command says why the pod waits",
        )
        why_sick = next(lines)
        waiting.until(
            lambda: "more promised, but sick or missing" in run(why_sick).stdout,
            what="the third command says that a GPU is sick",
        )
        on_node = "1 of 1 nvidia.com/gpu of flavor lab-h100 is sick: 1 on lab-1 (condition XIDErr"
        assert f"{on_node}ors=True since 20" in " ".join(run(why_sick).stdout.split())
        assert "on lab-1 (condition XIDErrors=True since 20" in " ".join(
            run(command).stdout.split()
        )
        kubeconfig = next(line.split()[1] for line in lines if line.startswith("  kubeconfig "))
        api = ApiServerTarget(kubeconfig).connect(
            connections=1, timeout_seconds=waiting.PATIENCE_SECONDS
        )
        with contextlib.closing(api):
            waiting.until(
                lambda: any(
                    pod.get("status", {}).get("phase") == "Running"
                    for pod in api.list(resources.PODS).items
                ),
                what="a pod runs after the demo has told its end",
            )
    finally:
        demo.terminate()
        demo.communicate(timeout=waiting.PATIENCE_SECONDS)


def running() -> dict[int, int]:
    """Processes that have not ended, each with its parent, by /proc."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(") ")[2].split()
            if fields[0] != "Z":
                parents[int(stat.parent.name)] = int(fields[1])
    return parents


def descendants(parent: int) -> set[int]:
    """Processes below another."""
    parents = running()
    found = {parent}
    while more := {one for one, above in parents.items() if above in found} - found:
        found |= more
    return found - {parent}


@pytest.mark.slow
def test_sigterm_of_the_demo_leaves_no_process_behind() -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "admission", "demo", "--keep"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    started: set[int] = set()
    try:
        # run, webhook and controller; gunicorn's own process comes later
        started = waiting.until(
            lambda: found if len(found := descendants(demo.pid)) >= 3 else None,
            what="the processes of the demo",
        )  # fmt: skip
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(waiting.PATIENCE_SECONDS) == 128 + signal.SIGTERM
        # Whoever takes the demo's place as a parent may still have to collect them.
        waiting.until(lambda: not started & set(running()), what="the end of the processes")
    finally:
        started |= descendants(demo.pid)
        demo.kill()
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
