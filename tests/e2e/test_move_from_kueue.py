"""Kueue's place is taken, given back, and taken for good, where all of it runs in the cluster.

The pods of both are made and replaced by the cluster's own controllers, and run as processes. In
those of Kueue runs a stand-in; ``make interop`` has the real manager.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from admission.admin import kueue_move
from admission.base import names
from admission.cli import tables
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.e2e import addressed, charted, kueue
from tests.e2e.charted import CONFIGURATIONS, REGISTRY, SYSTEM, Charted, Reviews
from tests.e2e.kueue import DEPLOYMENT, Kueue
from tests.e2e.kueue_process import NAMESPACE
from tests.integration.installed import KUEUE, run_command

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly]

TEAM: Final = "research"
QUOTA: Final = 5
PODS: Final = f"/api/v1/namespaces/{TEAM}/pods"
IMAGE: Final = f"{REGISTRY}:1.0.0"
CONFIG: Final = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    # How long the way back waits for our controller to notice.
    "leaderElection": {"leaseDuration": "10s", "renewDeadline": "7s", "retryPeriod": "1s"},
}


def test_kueues_place_is_taken_inside_the_cluster_and_given_back_and_taken_for_good(
    tmp_path: Path,
) -> None:
    with (
        charted.charted() as system,
        kueue.running(system, TEAM, tmp_path / "kueue-certs") as other,
    ):
        move = Move(system, other, tmp_path)
        move.prepare()
        move.plan()
        move.there("meanwhile")
        move.back("again")
        move.there("once-more")
        move.finish()


class Move:
    """The cluster, and what is done to it, step by step."""

    def __init__(self, system: Charted, other: Kueue, folder: Path) -> None:
        self.system = system
        self.api = system.api
        self.kueue = other
        self.folder = folder
        self.config = folder / "kueue.yaml"
        self.config.write_text(yaml.safe_dump(CONFIG))
        self.kept: dict[str, Any] = {}

    # ---------------------------------------------------------------------------------- the steps

    def prepare(self) -> None:
        """Kueue has two pods run, and has one wait that does not fit."""
        self.system.cluster.add_gpu_node("gpu-0", labels={names.GPU_PRODUCT_LABEL: "a100"})
        api = self.api
        api.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        api.post(f"{KUEUE}/resourceflavors", make_flavor("a100"))
        quotas = {"a100": {names.GPU_RESOURCE: QUOTA}}
        api.post(f"{KUEUE}/clusterqueues", make_cluster_queue(TEAM, quotas=quotas))
        api.post(f"{KUEUE}/namespaces/{TEAM}/localqueues", make_local_queue("default", TEAM, TEAM))
        self.create("first", 1)
        self.create("second", 1)
        for name in ("first", "second"):
            self.system.wait_running(TEAM, name)
        self.create("waits", QUOTA)

    def plan(self) -> None:
        """The plan says what there is, and changes nothing."""
        before = self.state()
        told = self.migrate()
        assert "\nKueue's place can be taken: everything" in told, told
        assert (
            f"Deployment {NAMESPACE}/{kueue.NAME}, {tables.counted(kueue.REPLICAS, 'replica')}"
            in told
        )
        assert "1 wait behind the gate and go on waiting, 3 have Kueue's finalizer" in told
        assert self.state() == before

    def there(self, name: str) -> None:
        """Our pods take the place of Kueue's, and a pod that is created meanwhile is admitted."""
        with self.unharmed():
            told = self.migrate("--apply", "--image", IMAGE, meanwhile=self.creates(name))
        assert "done: gpu-admission decides" in told
        assert self.kueue.kubelet.pods() == []
        assert self.kueue.configurations() == {}
        assert self.kueue.holder() == kueue_move.HOLDER
        self.system.wait_leader()
        self.system.wait_running(TEAM, name)
        assert self.with_finalizer() == []
        assert charted.is_gated(self.system.pod(TEAM, "waits"))
        looked = json.loads(self.system.run("doctor", "-o", "json").stdout)
        assert (looked["findings"], looked["notLooked"]) == ([], [])

    def back(self, name: str) -> None:
        """Kueue's pods decide again, and nothing of ours is left."""
        with self.unharmed():
            told = self.migrate("--undo", meanwhile=self.creates(name))
        assert "done: Kueue decides again" in told
        self.kueue.wait_leader()
        self.system.wait_running(TEAM, name)
        assert self.state() == self.kept
        assert charted.is_gated(self.system.pod(TEAM, "waits"))

    def finish(self) -> None:
        """Afterwards there is no way back, and what is left of Kueue may go."""
        for _ in range(2):
            told = self.migrate("--finish")
            assert "\ndone: there is no way back any more" in told
            assert f"kubectl delete namespace {NAMESPACE}" in told
        done = self.run("--undo")
        assert done.returncode == 1
        assert "the move from Kueue was finished at" in done.stderr
        assert "so there is no way back" in done.stderr
        for arguments in ((), ("--apply",)):
            assert "there is nothing left to do" in self.migrate(*arguments)
        self.api.delete(f"/api/v1/namespaces/{NAMESPACE}")
        gone = partial(self.api.lacks, f"/api/v1/namespaces/{NAMESPACE}")
        waiting.until(gone, what="Kueue's namespace gone")
        for name in ("first", "second", "meanwhile", "again", "once-more"):
            self.end(name)
        self.system.wait_running(TEAM, "waits")

    # ------------------------------------------------------------------------------ what is done

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return run_command(*self.command(*arguments), program=(), folder=self.folder)

    def command(self, *arguments: str) -> list[str]:
        """Return the command, with the options of an installation."""
        return [
            sys.executable, addressed.__file__, str(self.system.port),
            "migrate", "kueue", "--kubeconfig", str(self.system.cluster.admin_kubeconfig),
            "--config", str(self.config), "--mode", "warn", *arguments,
        ]  # fmt: skip

    def migrate(self, *arguments: str, meanwhile: Callable[[str], None] = lambda _: None) -> str:
        """Run the command to a good end, and tell each line to ``meanwhile``."""
        told = []
        with subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told.append(line)
                if "waiting until webhook and controller are ready" in line:
                    self.system.move_addresses()
                meanwhile(line)
        text = "".join(told)
        assert process.returncode == 0, text
        return text

    def creates(self, name: str) -> Callable[[str], None]:
        """Return what creates a pod while nobody decides."""

        def on(line: str) -> None:
            if line.startswith(("stop: ", "start: ")) and self.api.lacks(f"{PODS}/{name}"):
                self.create(name, 1)

        return on

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """In the block every new pod is reviewed, and what runs goes on."""
        self.kept = self.kept or self.state()
        running = self.running()
        with Reviews(self.system, TEAM, threads=2) as reviews:
            yield
        assert [one.refusal for one in reviews.failed if not one.is_late] == []
        assert running.items() <= self.running().items()

    def create(self, name: str, gpus: int) -> None:
        """Create a pod as a user does."""
        queue = {names.QUEUE_LABEL: "default"}
        self.api.post(
            PODS, make_pod(name, labels=queue, gpus=gpus, terminationGracePeriodSeconds=0)
        )

    def end(self, name: str) -> None:
        """Delete a pod."""
        self.api.delete(f"{PODS}/{name}")

    # --------------------------------------------------------------------------- what is looked at

    def state(self) -> dict[str, Any]:
        """What a move changes, and the way back gives back."""
        return {
            "kueue": self.kueue.configurations(),
            "conversions": self.kueue.conversions(),
            "replicas": self.api.get(DEPLOYMENT)["spec"]["replicas"],
            "webhooks": {
                one["metadata"]["name"]
                for path in CONFIGURATIONS
                for one in self.api.get(path)["items"]
            },
            "system": self.api.lacks(f"/api/v1/namespaces/{SYSTEM}") or self.is_ending(SYSTEM),
        }

    def is_ending(self, namespace: str) -> bool:
        """Whether a namespace is being deleted."""
        return "deletionTimestamp" in self.api.get(f"/api/v1/namespaces/{namespace}")["metadata"]

    def pods(self) -> list[Json]:
        """All pods of the team."""
        found: list[Json] = self.api.get(PODS)["items"]
        return found

    def running(self) -> dict[str, str]:
        """The UIDs of those that run."""
        return {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in self.pods()
            if one["status"].get("phase") == "Running"
            and "deletionTimestamp" not in one["metadata"]
        }

    def with_finalizer(self) -> list[str]:
        """Pods that Kueue's finalizer holds."""
        return [
            one["metadata"]["name"]
            for one in self.pods()
            if names.KUEUE_POD_FINALIZER in one["metadata"].get("finalizers", ())
        ]
