"""Two webhooks and two controllers, replaced one after the other by those of another version."""

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.processes import free_port
from tests.integration.installed import Installed
from tests.upgrade.balancer import Balancer

_START_SECONDS: Final = 240
_DRAIN_SECONDS: Final = 3.0
"""Between the end of new connections and SIGTERM, as ``preStop`` of the Deployment waits."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the program.

    Attributes:
        name: for people.
        program: how it is started.
        folder: where; None for this one.
    """

    name: str
    program: Sequence[str] = PROGRAM
    folder: Path | None = None


class Process:
    """One process of ours, of some version."""

    def __init__(self, command: Sequence[str], folder: Path | None, log: Path, page: str) -> None:
        self.page = page
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=file)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ends it as Kubernetes does."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Rolling(Installed):
    """An installation behind a balancer."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self._balancer = Balancer(self.webhook_port)
        self._webhooks: dict[int, Process] = {}
        self._controllers: list[Process] = []
        self._number = 0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Passes reviews on, inside the block; at its end nothing of ours runs."""
        with self._balancer:
            try:
                yield
            finally:
                for one in (*self._webhooks.values(), *self._controllers):
                    one.kill()

    def use(self, version: Version) -> None:
        """Has commands and processes from now on be of a version."""
        self.program, self.program_folder = version.program, version.folder

    def start_all(self) -> None:
        """Starts two webhooks and two controllers."""
        for _ in range(2):
            self._start_webhook()
            self._start_controller()
        self.wait_reviewed()

    def replace_all(self) -> None:
        """Replaces one webhook after the other, and then the controllers."""
        for port, old in tuple(self._webhooks.items()):
            self._start_webhook()
            del self._webhooks[port]
            self._balancer.use(self._webhooks)
            threading.Event().wait(_DRAIN_SECONDS)
            old.stop()
        for old in tuple(self._controllers):
            self._start_controller()
            self._controllers.remove(old)
            old.stop()

    def _start_webhook(self) -> None:
        port = free_port()
        started = self._started(
            f"https://127.0.0.1:{port}", "webhook", "--bind", f"127.0.0.1:{port}",
            "--cert-dir", str(self.certificates),
        )  # fmt: skip
        self._webhooks[port] = started
        self._balancer.use(self._webhooks)

    def _start_controller(self) -> None:
        port = free_port()
        started = self._started(
            f"http://127.0.0.1:{port}", "controller", "--metrics-bind", f"127.0.0.1:{port}"
        )
        self._controllers.append(started)

    def _started(self, page: str, name: str, *more: str) -> Process:
        self._number += 1
        log = self.folder / f"{name}-{self._number}.log"
        command = [*self.program, name, "--kubeconfig", self.kubeconfig, *more]
        made = Process(command, self.program_folder, log, page)

        def is_ready() -> bool:
            assert not made.has_ended, log.read_text()
            return self.probe(page, "/readyz") == 200

        try:
            waiting.until(is_ready, what=f"{name} ready", within_seconds=_START_SECONDS)
        except BaseException:
            made.kill()
            raise
        return made
