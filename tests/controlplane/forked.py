"""Commands of the product, forked from a warm process: what tests start most of them with.

`start` and `run` are used as ``subprocess.Popen`` and ``subprocess.run`` are. A command of another
program, or of another version of this one, is executed as usual; so is everything where
`EXECUTE_ALL` is set. The fork server is started at the first use, lives as long as the process
that started it, and takes everything that it forked with it.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

PROGRAM: Final = (sys.executable, "-m", "admission")
"""How the product is started by its users."""

EXECUTE_ALL: Final = "GPU_ADMISSION_TESTS_EXECUTE_ALL"
"""Variable of the environment with which nothing is forked: for measurements."""

OF_TESTS: Final = ("tests.chaos.launcher", "tests.webhook.served")
"""Programs of tests that run parts of the product."""

_MODULES: Final = frozenset({"admission", *OF_TESTS})
_ROOT: Final = Path(__file__).parents[2]
_lock: Final = threading.Lock()


class Process:
    """A forked process; has the members of ``subprocess.Popen`` that tests use.

    Attributes:
        args: the command.
        pid: its process id.
        returncode: its exit code, negative for a signal; None until `poll` or `wait` saw its end.
    """

    def __init__(
        self,
        server: str,
        command: Sequence[str],
        descriptors: Sequence[int],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Path | str = "",
    ) -> None:
        self.args = list(command)
        self.returncode: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(server)
        request = {
            "module": command[2],
            "arguments": list(command[3:]),
            "folder": str(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
            "clock": str(clock),
        }
        socket.send_fds(self._socket, [json.dumps(request).encode()], list(descriptors))
        self.pid: int = self._packet()["pid"]

    def _packet(self) -> dict[str, int]:
        packet = self._socket.recv(4096)
        if not packet:
            raise ConnectionError("the fork server is gone")
        value: dict[str, int] = json.loads(packet)
        return value

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; the exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        if self.returncode is None:
            self._socket.settimeout(timeout)
            try:
                self.returncode = self._packet()["code"]
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


class Shim:
    """What the supervisor knows of ``subprocess``, forked from the same server.

    Attributes:
        TimeoutExpired: as in ``subprocess``.
    """

    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self, server: str, clock: str) -> None:
        self._server = server
        self._clock = clock

    def Popen(self, command: Sequence[str]) -> Process:  # noqa: N802 - named as in subprocess
        """Forks a command with the standard streams and the clock of this process."""
        return Process(self._server, command, (0, 1, 2), clock=self._clock)


class _ForkServer:
    """The fork server of this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        folder = tempfile.mkdtemp(prefix="gpu-admission-fork-")
        self.path = f"{folder}/socket"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.controlplane.forkserver", self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise ChildProcessError("the fork server did not start")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


_servers: Final[list[_ForkServer]] = []


def _server() -> str:
    """Path of the socket of this process's fork server, which is started where there is none."""
    with _lock:
        if not _servers or _servers[0].owner != os.getpid():
            _servers[:] = [_ForkServer()]
        return _servers[0].path


def close() -> None:
    """Ends the fork server of this process, if there is one, and what it forked."""
    while _servers:
        _servers.pop().close()


def is_forked(command: Sequence[str], environment: Mapping[str, str] | None = None) -> bool:
    """Whether `start` forks a command; one with modules of its own is executed."""
    return (
        tuple(command[:2]) == PROGRAM[:2]
        and command[2] in _MODULES
        and EXECUTE_ALL not in os.environ
        and "PYTHONPATH" not in (environment or {})
    )


def start(
    command: Sequence[str],
    *,
    stdout: IO[Any] | int | None = None,
    stderr: IO[Any] | int | None = None,
    stdin: IO[Any] | int | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    clock: Path | None = None,
) -> "Process | subprocess.Popen[bytes]":
    """Starts a command; pipes are not made.

    Args:
        command: what is run.
        stdout: an open file; None for this process's own.
        stderr: likewise; ``subprocess.STDOUT`` for the same as ``stdout``.
        stdin: likewise; None for nothing to read.
        cwd: its working directory.
        env: its environment; None for this process's own.
        clock: file of a `MovedClock` that it goes by; only what is forked can.
    """
    if not is_forked(command, env):
        assert clock is None, f"{command} cannot go by another clock"
        return subprocess.Popen(
            command, stdout=stdout, stderr=stderr, cwd=cwd, start_new_session=True,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            env={"PYTHONPATH": str(_ROOT), **(os.environ if env is None else env)},
        )  # fmt: skip
    with Path(os.devnull).open("rb") as nothing:
        output = _number(stdout, 1)
        descriptors = (
            _number(nothing if stdin is None else stdin, 0),
            output,
            output if stderr == subprocess.STDOUT else _number(stderr, 2),
        )
        return Process(
            _server(), command, descriptors, folder=cwd, environment=env, clock=clock or ""
        )


def _number(file: IO[Any] | int | None, default: int) -> int:
    if file is None:
        return default
    return file if isinstance(file, int) else file.fileno()


def run(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    typed: str = "",
    timeout: float = 600,
    clock: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, and collects what it prints.

    Args:
        command: what is run.
        cwd: its working directory.
        env: its environment; None for this process's own.
        typed: what it reads from standard input.
        timeout: seconds after which it hangs.
        clock: as for `start`.

    Raises:
        subprocess.TimeoutExpired: it hangs; it was ended.
    """
    with (
        tempfile.TemporaryFile() as read,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        read.write(typed.encode())
        read.seek(0)
        process = start(
            command, stdin=read, stdout=output, stderr=errors, cwd=cwd, env=env, clock=clock
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(
            list(command), code, output.read().decode(), errors.read().decode()
        )
