"""What is measured: a cluster, the installed system in it, and processes to put load on it."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from admission.admin import rbac
from admission.base import names
from tests.bench import metrics, processes
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.rest import RestError
from tests.integration.installed import Installed

QUEUES: Final = ("queue-0", "queue-1", "queue-2", "queue-3")
QUOTA: Final = 100
"""GPUs of each queue."""

_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_SETTLED_SECONDS: Final = 0.5
_ACCOUNTS: Final = {"webhook": rbac.WEBHOOK_ACCOUNT, "controller": rbac.CONTROLLER_ACCOUNT}
_STOP_SECONDS: Final = 30
_TAIL_LINES: Final = 12


class Stage:
    """A cluster and what runs in it.

    Attributes:
        cluster: etcd and kube-apiserver.
        installed: how the system is reached.
        namespace: where the load goes; has a LocalQueue for each of `QUEUES`.
    """

    def __init__(
        self, cluster: Cluster, folder: Path, profile: Path | None, *options: str
    ) -> None:
        """Installs the system.

        Args:
            cluster: where.
            folder: for certificates and logs.
            profile: directory for profiles; None for none.
            options: of the command ``install``.
        """
        self.cluster = cluster
        self.installed = Installed(cluster, folder)
        self._profile = profile
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.installed.install(*options)
        cluster.wait_for_roles()
        self.namespace = cluster.create_namespace("bench")
        self.remove_webhooks()
        self._add_queues()

    def _add_queues(self) -> None:
        self.installed.add_flavor("bench")
        for name in QUEUES:
            self.installed.add_cluster_queue(name, quota=QUOTA, flavors=("bench",))
            self.installed.add_local_queue(self.namespace, name, name)

    # The system

    @contextmanager
    def system(self) -> Iterator[None]:
        """Webhook and controller run, and reviews reach them, inside the block."""
        self._start("webhook", *self._webhook_arguments())
        self._start_controller()
        try:
            waiting.until(self.installed.is_ready, what="webhook and controller ready")
            for name in QUEUES:
                self.installed.wait_for_queue(self.namespace, name)
            self.installed.install()
            waiting.until(lambda: "schedulingGates" in self.tried()["spec"], what="pods gated")
            yield
        except RuntimeError as failure:
            raise RuntimeError(f"{failure}\n{self._what_was_said()}") from failure
        finally:
            self._stop_all()
            self.remove_webhooks()

    def _what_was_said(self) -> str:
        """How the processes are, and the last lines of their logs."""
        lines = []
        for name, process in self._running.items():
            code = process.poll()
            lines.append(f"{name}: {'running' if code is None else f'ended with {code}'}")
            lines += (self._folder / f"{name}.log").read_text().splitlines()[-_TAIL_LINES:]
        return "\n".join(lines)

    @contextmanager
    def controller_alone(self, *arguments: str) -> Iterator[None]:
        """The controller runs, with more arguments, and nothing is reviewed inside the block."""
        self._start_controller(*arguments)
        url = self.installed.metrics_url
        try:
            waiting.until(lambda: self.installed.probe(url, "/readyz") == 200, what="controller")
            yield
        except RuntimeError as failure:
            raise RuntimeError(f"{failure}\n{self._what_was_said()}") from failure
        finally:
            self._stop_all()

    def _start_controller(self, *arguments: str) -> None:
        address = f"127.0.0.1:{self.installed.metrics_port}"
        self._start("controller", "--metrics-bind", address, *arguments)

    @contextmanager
    def webhook_alone(self) -> Iterator[None]:
        """The webhook runs and is not registered inside the block."""
        self._start("webhook", *self._webhook_arguments())
        url = self.installed.webhook_url
        try:
            waiting.until(lambda: self.installed.probe(url, "/readyz") == 200, what="webhook")
            yield
        finally:
            self._stop_all()

    def _webhook_arguments(self) -> tuple[str, ...]:
        address = f"127.0.0.1:{self.installed.webhook_port}"
        return ("--bind", address, "--cert-dir", str(self.installed.certificates))

    def remove_webhooks(self) -> None:
        """Takes the webhook configurations away and waits until the API server has noticed."""
        for kind in _KINDS:
            path = f"{_CONFIGURATIONS}/{kind}"
            for found in self.cluster.api.get(path)["items"]:
                self.cluster.api.delete(f"{path}/{found['metadata']['name']}")
        waiting.until(self._is_ungated, what="pods are no longer reviewed")

    def _is_ungated(self) -> bool:
        try:
            return "schedulingGates" not in self.tried()["spec"]
        except RestError:  # the webhook is gone, its configuration not yet
            return False

    def tried(self) -> dict[str, Any]:
        """A pod of the load as it would be stored now."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All"
        return self.cluster.api.post(path, {**POD, "metadata": {"name": "try", **POD["metadata"]}})

    # Processes

    def _start(self, name: str, *arguments: str) -> None:
        command = [*PROGRAM, name]
        if self._profile is not None:
            output = str(self._profile / name)
            command = [sys.executable, "-m", "tests.bench.profiled", output, name]
        # Under its own account: the API server does not ask us about our own writes.
        kubeconfig = self.cluster.account_kubeconfig(names.SYSTEM_NAMESPACE, _ACCOUNTS[name])
        common = ("--kubeconfig", str(kubeconfig), "--log-level", "warning")
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, *arguments, *common], stdout=log, stderr=log
            )

    @contextmanager
    def yardstick(self) -> Iterator[None]:
        """The bare loop runs inside the block, in the place of the system."""
        command = [sys.executable, "-m", "tests.bench.yardstick", self.installed.kubeconfig]
        loop = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert loop.stdin is not None
        assert loop.stdout is not None
        self._running["yardstick"] = loop
        try:
            assert loop.stdout.readline() == b"ready\n", "the yardstick did not start"
            yield
        finally:
            loop.stdin.close()
            loop.wait(_STOP_SECONDS)
            loop.stdout.close()
            del self._running["yardstick"]

    def _stop_all(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(_STOP_SECONDS)
        self._running.clear()

    def pids(self) -> Mapping[str, tuple[int, ...]]:
        """Processes of each program that runs now, the control plane's too."""
        ours = {name: tuple(processes.tree(p.pid)) for name, p in self._running.items()}
        plane = {name: (self.cluster.pid(name),) for name in ("kube-apiserver", "etcd")}
        return {**ours, **plane}

    # Readings

    def controller_metrics(self) -> str:
        """The controller's metrics; nothing where none runs."""
        if "controller" not in self._running:
            return ""
        return self.installed.page(self.installed.metrics_url, "/metrics")[1]

    def settle(self) -> str:
        """Waits until nobody writes any more; the API server's metrics then."""
        return settled(self.cluster)


def settled(cluster: Cluster) -> str:
    """Waits until nobody writes any more; the API server's metrics then."""
    pause, last = threading.Event(), cluster.api.text("GET", "/metrics")
    while True:
        pause.wait(_SETTLED_SECONDS)
        now = cluster.api.text("GET", "/metrics")
        if not metrics.writes(last, now, {}):
            return now
        last = now


POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {names.QUEUE_LABEL: QUEUES[0]}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "train",
                "resources": {"limits": {names.GPU_RESOURCE: "1"}},
            }
        ],
    },
}
"""A pod of the load, before anybody has changed it."""


def helper(module: str, settings: bytes) -> Any:
    """Runs a process of the load to its end; what it printed.

    Raises:
        RuntimeError: it failed; the message is what it said.
    """
    command = [sys.executable, "-m", module]
    done = subprocess.run(command, input=settings, capture_output=True, check=False)
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError(f"{module}: {done.stderr.decode()}")
    return json.loads(done.stdout)
