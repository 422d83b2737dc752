"""The processes of one cluster: started in sessions of their own, ended by id, never left behind.

A cluster owns a folder below `base_folder`. Its processes end with the cluster; when the owner
dies first, a guard process ends them; when the guard dies too, the next run does, by the ids in
the folder.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from typing import IO, Final

from tests.controlplane import forked, waiting

_GUARD: Final = Path(__file__).parent / "reaper.py"
_OWNED: Final = "owned.lock"
_TAIL_LINES: Final = 15
_PORTS: Final = range(20000, 32000)
"""Below the range of outgoing connections: nobody takes a port while its server restarts."""

_GO_RUNTIME: Final = {"GOGC": "400", "GOMEMLIMIT": "700MiB"}
"""How programs written in Go collect garbage: rarely, up to a size of the heap. A quarter of what
an API server computes is saved, for 200 MiB more memory."""


class StartError(Exception):
    """A process ended, or did not answer, before it was ready; the message ends with its log."""


def base_folder() -> Path:
    """The folder of all clusters of this user on this machine."""
    return Path(tempfile.gettempdir()) / f"gpu-admission-controlplane-{os.getuid()}"


def free_port() -> int:
    """A loopback port on which nothing listens now."""
    chooser = SystemRandom()
    while True:
        port = chooser.choice(_PORTS)
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Household:
    """A folder, and the processes that live as long as it does.

    Attributes:
        folder: holds data, logs (``<name>.log``) and ids (``<name>.pid``); removed by `close`.
        daemons: its programs in the order in which they were made.
    """

    def __init__(self) -> None:
        base = base_folder()
        base.mkdir(mode=0o700, exist_ok=True)
        with _locked(base / "sweep.lock"):
            _sweep(base)
            self.folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=base))
            lock = _take(self.folder / _OWNED)
        assert lock is not None, "nobody else knows this folder"
        # The guard keeps the lock: it is free only when owner and guard are both gone.
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(self.folder)],
            stdin=subprocess.PIPE,
            pass_fds=[lock.fileno()],
            start_new_session=True,
            text=True,
        )
        lock.close()
        self.daemons: list[Daemon] = []

    def watch_over(self, name: str, pid: int) -> None:
        """Makes sure that a process does not outlive the owner."""
        (self.folder / f"{name}.pid").write_text(f"{pid}\n")
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{pid}\n")
        self._guard.stdin.flush()

    def close(self) -> None:
        """Ends the programs, the guard, and with it the folder."""
        for daemon in reversed(self.daemons):
            daemon.stop()
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        self._guard.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # where the guard was killed


class Daemon:
    """One long-running program of a household; may be started again after it was stopped.

    Attributes:
        name: how files and messages call it.
        command: program and arguments.
        log: file with its output; a restart appends.
    """

    def __init__(self, household: Household, name: str, command: list[str]) -> None:
        self.name = name
        self.command = command
        self.log = household.folder / f"{name}.log"
        self._household = household
        self._process: forked.Process | subprocess.Popen[bytes] | None = None
        household.daemons.append(self)

    @property
    def pid(self) -> int:
        """Id of the running process."""
        if self._process is None:
            raise StartError(f"{self.name} was not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Starts the program; `wait_until` tells when it serves."""
        assert not self.is_running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = forked.start(
                self.command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**_runtime(), **os.environ, **(environment or {})},
                cwd=self._household.folder,
            )
        self._household.watch_over(self.name, self._process.pid)

    def wait_until(
        self, ready: Callable[[], bool], *, within_seconds: float = waiting.PATIENCE_SECONDS
    ) -> None:
        """Returns once ``ready`` says so.

        Raises:
            StartError: the process ended, or the time is over.
        """

        def look() -> bool:
            assert self._process is not None
            code = self._process.poll()
            if code is not None:
                raise StartError(f"{self.name}: ended with {code}\n{self.tail()}")
            return ready()

        try:
            waiting.until(look, within_seconds=within_seconds, what=f"{self.name} ready")
        except TimeoutError as late:
            raise StartError(f"{late}\n{self.tail()}") from None

    def tail(self) -> str:
        """The last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"{self.log}:", *lines[-_TAIL_LINES:]])

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal if the process runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, *, grace_seconds: float = 0) -> None:
        """Ends the process: at once, or by SIGTERM with some time to end by itself."""
        if self._process is None:
            return
        if grace_seconds:
            self._process.terminate()
            try:
                self._process.wait(timeout=grace_seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
        else:
            self._process.kill()
        self._process.wait()


def _runtime() -> Mapping[str, str]:
    """Settings of the Go runtime; its own ones for measurements, which compare with others."""
    return {} if forked.EXECUTE_ALL in os.environ else _GO_RUNTIME


def _sweep(base: Path) -> None:
    """Removes clusters whose owner and guard are both gone, and ends their processes."""
    for folder in base.glob("cluster-*"):
        lock = _take(folder / _OWNED)
        if lock is None:
            continue
        with lock:
            for file in folder.glob("*.pid"):
                _end_stale(int(file.read_text() or 0), folder)
            shutil.rmtree(folder, ignore_errors=True)


def _end_stale(pid: int, folder: Path) -> None:
    """Ends a process only if its command line still names the folder: ids are used again."""
    try:
        if os.fsencode(folder) in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    except (OSError, ProcessLookupError):
        return


def _take(path: Path) -> IO[str] | None:
    """The locked file, or None where somebody else holds it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
