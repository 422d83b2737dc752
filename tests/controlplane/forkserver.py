"""Forks commands of the product from a process that has imported it: a start costs no imports.

Run as a script with one argument, the path of its socket; ``tests.controlplane.forked`` is the
client. Each connection starts one process. The request is one packet: JSON, with the descriptors
of standard input, output and error. Answers are packets of JSON too: ``{"pid": n}``, and
``{"code": n}`` once the process has ended, negative for a signal. A connection that the client
closes ends its process by SIGKILL, and the end of standard input, at which the client is gone,
ends all of them.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

import admission
from tests.controlplane import forked
from tests.controlplane.moved_clock import MovedClock

MAX_PACKET: Final = 1 << 17
_PR_SET_PDEATHSIG: Final = 1
_NOT_IMPORTED: Final = frozenset({"admission.__main__"})


class _Server:
    """The processes that run, and who asked for each."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(64)
        self._connections: dict[int, socket.socket] = {}
        self._pids: dict[socket.socket, int] = {}
        self._wakeup_read, self._wakeup_write = os.pipe()
        os.set_blocking(self._wakeup_write, False)

    def serve(self) -> dict[str, Any] | None:
        """Serves until standard input ends: None. In a process that was forked: its request."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakeup_read, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return None
                if key.fileobj is self._listener:
                    request = self._accept()
                    if request is not None:
                        return request
                elif key.fileobj == self._wakeup_read:
                    os.read(self._wakeup_read, 4096)
                    self._reap()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._close(key.fileobj)

    def _accept(self) -> dict[str, Any] | None:
        """Forks what a new connection asks for; its request, in the new process."""
        connection, _ = self._listener.accept()
        packet, descriptors, _, _ = socket.recv_fds(connection, MAX_PACKET, 3)
        if not packet:
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            return self._become(json.loads(packet), descriptors, connection)
        for descriptor in descriptors:
            os.close(descriptor)
        self._connections[pid] = connection
        self._pids[connection] = pid
        self._selector.register(connection, selectors.EVENT_READ)
        _answer(connection, pid=pid)
        return None

    def _become(
        self, request: dict[str, Any], descriptors: list[int], connection: socket.socket
    ) -> dict[str, Any]:
        """Turns a fork of the server into the process that was asked for."""
        # Without its parent, the server, nobody would end it.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._listener.close()
        os.close(self._wakeup_read)
        os.close(self._wakeup_write)
        for other in (connection, *self._pids):
            other.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        random.seed()
        return request

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            connection = self._connections.pop(pid, None)
            if connection is not None:
                _answer(connection, code=os.waitstatus_to_exitcode(status))
                self._forget(connection)

    def _close(self, connection: socket.socket) -> None:
        """Ends the process of a client that closed its connection."""
        pid = self._pids[connection]
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
        del self._connections[pid]
        self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        del self._pids[connection]
        self._selector.unregister(connection)
        connection.close()


def _answer(connection: socket.socket, **packet: int) -> None:
    try:
        connection.send(json.dumps(packet).encode())
    except OSError:
        return  # the client is gone, which the next look at the connection tells


def _run(request: dict[str, Any], server: str) -> None:
    """Runs a module as ``python -m MODULE ARGUMENTS`` does."""
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    os.chdir(request["folder"])
    # The supervisor's two children are forked, too.
    supervisor = importlib.import_module("admission.run.supervisor")
    supervisor.subprocess = forked.Shim(server, request["clock"])  # type: ignore[attr-defined]
    if request["clock"]:
        MovedClock(Path(request["clock"])).replace_system_clock()
    sys.argv = [request["module"], *request["arguments"]]
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        _leave(end)
        raise
    _leave(SystemExit())


def _leave(end: SystemExit) -> None:
    """Ends this process as the interpreter does, but takes nothing apart.

    Each module and object of the product would be touched, and so copied from the server: eight
    times what a short command takes. Returns where the interpreter has something to tell.
    """
    if not (end.code is None or isinstance(end.code, int)):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it, or it is closed
        return
    os._exit((end.code or 0) & 0xFF)


def main() -> None:
    """Imports the product, and serves."""
    for module in pkgutil.walk_packages(admission.__path__, "admission."):
        if module.name not in _NOT_IMPORTED:
            importlib.import_module(module.name)
    for name in forked.OF_TESTS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    server = _Server(sys.argv[1])
    request = server.serve()
    if request is None:
        shutil.rmtree(Path(server.path).parent, ignore_errors=True)
    else:
        _run(request, server.path)


if __name__ == "__main__":
    main()
