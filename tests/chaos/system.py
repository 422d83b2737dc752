"""What chaos tests play with: a cluster, a webhook that just works, and controllers to be hurt."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from admission.admin import rbac
from admission.base import names
from admission.config.derived import Settings
from tests.chaos.proxy import Proxy
from tests.controlplane import forked, waiting
from tests.controlplane.forked import PROGRAM
from tests.controlplane.moved_clock import MovedClock
from tests.controlplane.processes import free_port
from tests.integration.installed import KUEUE, Installed

Json = dict[str, Any]

LAUNCHER: Final = (sys.executable, "-m", "tests.chaos.launcher")
QUICK: Final = Settings.model_validate(
    {
        "gpu": {
            "controller": {
                "waitingAfter": "100ms",
                "statusInterval": "100ms",
                "requestTimeout": "2s",
            }
        }
    }
)
"""Settings under which a test need not wait long."""
LOW: Final = {names.PRIORITY_CLASS_LABEL: "low"}
HIGH: Final = {names.PRIORITY_CLASS_LABEL: "high"}


class ControllerProcess:
    """A controller that reaches the API server through a proxy of its own.

    Attributes:
        proxy: between it and the API server.
        log: file with its output; a restart appends.
    """

    def __init__(
        self,
        system: "System",
        name: str,
        settings: Settings,
        *,
        election: bool,
        clock: MovedClock | None,
    ) -> None:
        self.proxy = Proxy(system.cluster.port, system.cluster.folder)
        self.log = system.folder / f"{name}.log"
        self._system = system
        self._election = election
        self._settings = settings
        self._clock = clock
        self._kubeconfig = system.controller_kubeconfig(name, self.proxy.port)
        self._process: forked.Process | subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Starts the process, and waits until it has listed everything."""
        assert not self.is_running
        self._port = free_port()
        command = [
            *LAUNCHER, str(self._kubeconfig), str(self._port),
            self._settings.model_dump_json(), "elect" if self._election else "alone",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = forked.start(
                command, stdout=log, stderr=log, clock=self._clock.path if self._clock else None
            )
        if wait:
            ready = f"controller ready, see {self.log}"
            waiting.until(self.is_ready, what=ready)

    def is_ready(self) -> bool:
        """Whether everything was listed."""
        ended = None if self._process is None else self._process.poll()
        assert ended is None, f"ended with {ended}: {self.tail()}"
        return self._system.probe(f"http://127.0.0.1:{self._port}", "/readyz") == 200

    def metrics(self) -> str:
        """Its metrics page."""
        return self._system.page(f"http://127.0.0.1:{self._port}", "/metrics")[1]

    @property
    def pid(self) -> int:
        """Id of the process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Ends it by SIGKILL, and whatever was held on its way is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.proxy.heal()

    def stop(self) -> int:
        """Ends it as a user does; the exit code."""
        self.ask_to_end()
        return self.wait()

    def ask_to_end(self) -> None:
        """Sends it SIGTERM."""
        assert self._process is not None
        self._process.terminate()

    def wait(self) -> int:
        """Waits for its end; the exit code."""
        process = self._process
        assert process is not None
        waiting.until(lambda: process.poll() is not None, what="the controller ends")
        self._process = None
        return process.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops it by SIGSTOP inside the block."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text()[-4000:]


class System(Installed):
    """An installation whose webhook always works and whose controllers are started by tests."""

    def start_webhook(self) -> None:
        """Starts the webhook alone, straight at the API server."""
        self.cluster.wait_for_roles()  # those of the controllers, which come next
        command = [
            *PROGRAM, "webhook", "--kubeconfig", self.kubeconfig,
            "--bind", f"127.0.0.1:{self.webhook_port}", "--cert-dir", str(self.certificates),
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = forked.start(command, stdout=log, stderr=log)
        waiting.until(
            lambda: self.probe(self.webhook_url, "/readyz") == 200,
            what="webhook ready",
        )
        self.wait_reviewed()

    def add_priorities(self) -> None:
        """Adds the classes that `LOW` and `HIGH` name."""
        self.add_classes(low=1, high=100)

    def controller_kubeconfig(self, name: str, port: int) -> Path:
        """A kubeconfig of the controller's own account, with another port of the server."""
        account = self.cluster.account_kubeconfig(names.SYSTEM_NAMESPACE, rbac.CONTROLLER_ACCOUNT)
        content = yaml.safe_load(account.read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    @contextmanager
    def controller(
        self,
        name: str,
        settings: Settings | None = None,
        *,
        election: bool = False,
        clock: MovedClock | None = None,
    ) -> Iterator[ControllerProcess]:
        """A controller that was not started yet; it is gone after the block.

        Args:
            name: of its log.
            settings: None for the defaults.
            election: whether it leads only while it holds the Lease.
            clock: what it goes by; None for the machine's.
        """
        one = ControllerProcess(self, name, settings or Settings(), election=election, clock=clock)
        with one.proxy:
            try:
                yield one
            finally:
                one.kill()
        assert not one.proxy.unexpected, one.proxy.unexpected

    # ------------------------------------------------------------------------------ objects

    def pods(self, namespace: str) -> list[Json]:
        """The pods of a namespace."""
        return list(self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"])

    def workloads(self, namespace: str) -> list[Json]:
        """The Workloads of a namespace."""
        return list(self.api.get(f"{KUEUE}/namespaces/{namespace}/workloads")["items"])

    def released(self, namespace: str) -> set[str]:
        """Names of the pods without a gate."""
        return {
            pod["metadata"]["name"]
            for pod in self.pods(namespace)
            if not pod["spec"].get("schedulingGates")
        }

    def finish_pod(self, namespace: str, name: str) -> None:
        """Lets a pod succeed."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        self.api.patch(path, {"status": {"phase": "Succeeded"}})

    def empty(self, namespace: str) -> None:
        """Deletes the pods of a namespace."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.api.delete(path, {"gracePeriodSeconds": 0})

    def until_released(self, namespace: str, *pods: str) -> None:
        """Waits until exactly these pods have no gate."""
        try:
            waiting.until(
                lambda: self.released(namespace) == set(pods), what=f"only {pods} released"
            )
        except TimeoutError as late:
            for thing in (*self.pods(namespace), *self.workloads(namespace)):
                gates = thing["spec"].get("schedulingGates")
                late.add_note(f"{thing['metadata']['name']}: {gates} {thing.get('status')}")
            raise
