"""Runs two processes as one: starts both, restarts one that ends, and stops both."""

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from admission.base import logs
from admission.run import signals

_POLL_SECONDS: Final = 0.2
_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
_HEALTHY_POLLS: Final = 300
_STOP_SECONDS: Final = 15.0


class _Child:
    """One command that is kept running."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "admission", *arguments]
        self._process = subprocess.Popen(self._command)  # noqa: S603 - our own program
        self._failures = 0
        self._polls = 0
        self._wait = 0
        self._log = logs.get("supervisor")

    def poll(self) -> None:
        """Starts the command again where it has ended and its pause is over."""
        self._polls += 1
        if self._process.poll() is None:
            if self._polls > _HEALTHY_POLLS:
                self._failures = 0
            return
        if self._wait == 0:
            pause = _PAUSES_SECONDS[min(self._failures, len(_PAUSES_SECONDS) - 1)]
            code = self._process.returncode
            self._log.error("process ended", process=self.name, exit_code=code, pause=pause)
            self._failures += 1
            self._wait = round(pause / _POLL_SECONDS)
        self._wait -= 1
        if self._wait == 0:
            self._polls = 0
            self._process = subprocess.Popen(self._command)  # noqa: S603 - our own program

    def terminate(self) -> None:
        """Asks the process to stop."""
        if self._process.poll() is None:
            self._process.terminate()

    def join(self) -> None:
        """Waits for the process; one that does not stop in time is killed."""
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._log.error("process killed", process=self.name)
            self._process.kill()
            self._process.wait()


class Supervisor:
    """Runs subcommands of this program side by side until SIGTERM or SIGINT."""

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self._commands = commands

    def run(self) -> None:
        """Run both processes; return after both have stopped."""
        logs.take_in_others()
        stopping = signals.stop_event()
        children = [_Child(name, arguments) for name, arguments in self._commands.items()]
        try:
            self._watch(children, stopping)
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.join()

    @staticmethod
    def _watch(children: Sequence[_Child], stopping: threading.Event) -> None:
        while not stopping.wait(_POLL_SECONDS):
            for child in children:
                child.poll()
