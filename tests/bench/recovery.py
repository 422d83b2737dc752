"""(recovery) How long nobody is admitted after a failure, with the settings as shipped.

An API server that was away; a leader that was asked to end, and one that was killed, each with a
standby beside it.
"""

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from admission.app import rbac
from admission.base import names
from admission.base.clock import SystemClock
from admission.settings import Settings
from tests.bench.figures import Figures
from tests.chaos.system import LAUNCHER, ControllerProcess, System
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import free_port
from tests.controlplane.rest import RestError

_AWAY_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 90.0
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases"
_NOT_DECISIONS: Final = ("/leases", "/events")


class Recovery:
    """Measures the part on a cluster of its own.

    Args:
        system: the installation; its webhook runs.
        say: tells of progress.
    """

    def __init__(self, system: System, say: Callable[[str], None]) -> None:
        self._system = system
        self._say = say
        self._clock = SystemClock()
        self._team = ""
        self._pods = 0

    def run(self, runs: int) -> Figures:
        """The times of all runs, in seconds."""
        parts = {
            "API server back until a release": self._api_server_away,
            "SIGTERM until the successor writes": self._leader_asked_to_end,
            "SIGKILL until the successor writes": self._leader_killed,
        }
        with self._controller():
            self._team = self._system.add_team(10_000)
        found: Figures = {}
        for name, measure in parts.items():
            seconds = [round(measure(), 2) for _ in range(runs)]
            self._say(f"(recovery) {name}: {seconds}")
            found[name] = {"runs": seconds, "max_seconds": max(seconds)}
        return found

    def _api_server_away(self) -> float:
        """From the API server's readiness until a pod that is created then is released."""
        cluster = self._system.cluster
        with self._controller():
            self._await_released(self._create())
            cluster.stop_apiserver()
            threading.Event().wait(_AWAY_SECONDS)
            starting = threading.Thread(target=cluster.start_apiserver)
            starting.start()
            waiting.until(lambda: self._system.api.answers("/readyz"), what="the API server")
            returned = self._clock.monotonic()
            self._await_released(self._create())
            ended = self._clock.monotonic()
            starting.join()
        return ended - returned

    def _leader_asked_to_end(self) -> float:
        return self._handed_over(lambda leader: leader.ask_to_end())

    def _leader_killed(self) -> float:
        return self._handed_over(lambda leader: leader.kill())

    def _handed_over(self, end: Callable[[ControllerProcess], None]) -> float:
        """From the end of a leader until its standby writes for a pod that is created then."""
        system = self._system
        with suppress(RestError):
            system.api.delete(f"{_LEASES}/{names.LEASE_NAME}")
        with (
            system.controller("first", Settings(), election=True) as leader,
            system.controller("second", Settings(), election=True) as standby,
        ):
            leader.start()
            self._await_released(self._create())
            standby.start()
            began = self._clock.monotonic()
            end(leader)
            name = self._create()
            self._await_released(name)
            writes = [
                seen.at
                for seen in standby.proxy.writes
                if not any(part in seen.path for part in _NOT_DECISIONS)
            ]
        return min(writes) - began

    @contextmanager
    def _controller(self) -> Iterator[None]:
        """A controller with an election, straight at the API server."""
        cluster, port = self._system.cluster, free_port()
        with suppress(RestError):
            self._system.api.delete(f"{_LEASES}/{names.LEASE_NAME}")
        account = cluster.account_kubeconfig(names.SYSTEM_NAMESPACE, rbac.CONTROLLER_ACCOUNT)
        settings = Settings().model_dump_json()
        command = [*LAUNCHER, str(account), str(port), settings, "elect"]
        with (self._system.folder / "direct.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            waiting.until(lambda: self._system.probe(url, "/readyz") == 200, what="controller")
            yield
        finally:
            process.terminate()
            process.wait(30)

    def _create(self) -> str:
        """Creates a pod as soon as the API server takes it; its name."""
        self._pods += 1
        name = f"pod-{self._pods}"

        def created() -> bool:
            with suppress(OSError, RestError):
                self._system.create_pod(self._team, name)
                return True
            path = f"/api/v1/namespaces/{self._team}/pods/{name}"
            with suppress(OSError):
                return self._system.api.answers(path)
            return False

        waiting.until(created, what=f"pod {name} created")
        return name

    def _await_released(self, name: str) -> None:
        def released() -> bool:
            with suppress(OSError, RestError):
                return not self._system.is_gated(self._team, name)
            return False

        waiting.until(released, what=f"{name} released", within_seconds=_PATIENCE_SECONDS)


def measure(runs: int, say: Callable[[str], None]) -> Figures:
    """Starts what is needed, and measures."""
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as folder:
        system = System(cluster, Path(folder))
        system.install()
        try:
            system.start_webhook()
            return Recovery(system, say).run(runs)
        finally:
            system.stop()
