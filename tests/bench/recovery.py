"""(recovery) How long nobody is admitted after a failure, with the settings as shipped.

An API server that was away; a leader that was asked to end, and one that was killed, each with a
standby beside it.
"""

import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from admission.base import names
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from tests.bench.figures import Figures
from tests.chaos.system import ControllerProcess, System
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.rest import RestError

_AWAY_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 90.0
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases"
_NOT_DECISIONS: Final = ("/leases", "/events")


class Recovery:
    """Measures the part on a cluster of its own.

    Args:
        system: the installation; nothing of it runs.
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
        system, found = self._system, {}
        with system.running(*self._command()):
            self._team = system.add_team(10_000)
            found["API server back until a release"] = self._times(self._api_server_away, runs)
        system.start_webhook()
        for name, measure in (
            ("SIGTERM until the successor writes", self._leader_asked_to_end),
            ("SIGKILL until the successor writes", self._leader_killed),
        ):
            found[name] = self._times(measure, runs)
        return found

    def _times(self, measure: Callable[[], float], runs: int) -> Figures:
        seconds = [round(measure(), 2) for _ in range(runs)]
        self._say(f"(recovery) {measure.__name__}: {seconds}")
        return {"max_seconds": max(seconds), "runs": seconds}

    def _command(self) -> tuple[str, ...]:
        """Webhook and controller with an election, both started again when they end."""
        system = self._system
        return (
            *PROGRAM, "run", "--kubeconfig", system.kubeconfig,
            "--bind", f"127.0.0.1:{system.webhook_port}", "--cert-dir", str(system.certificates),
            "--metrics-bind", f"127.0.0.1:{system.metrics_port}",
        )  # fmt: skip

    def _api_server_away(self) -> float:
        """From the API server's readiness until a pod that is created then is released."""
        cluster = self._system.cluster
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
            return Recovery(system, say).run(runs)
        finally:
            system.stop()
