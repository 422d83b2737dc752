"""Runs a command of the program under cProfile: ``profiled.py OUTPUT ARGUMENTS...``.

Each thread is profiled by its own CPU time; profiles of threads of one kind are added up. At the
end one file ``OUTPUT.PID.KIND`` per kind is written, for `pstats`.
"""

import atexit
import cProfile
import os
import pstats
import re
import sys
import threading
import time
from typing import Any, Final

_NUMBER: Final = re.compile(r"[-_ ]?\(?[\d_]+\)?.*$")


class Profiler:
    """The profiles of all threads of this process."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._profiles: list[tuple[str, cProfile.Profile]] = []
        self._lock = threading.Lock()

    def install(self) -> None:
        """Profiles this thread and every one that starts later."""
        original = threading.Thread.run

        def run(thread: threading.Thread) -> None:
            self._start(_kind(thread.name)).runcall(original, thread)

        threading.Thread.run = run  # type: ignore[assignment,method-assign]
        self._start("main").enable()
        atexit.register(self._write)
        os.register_at_fork(after_in_child=self._forked)

    def _start(self, kind: str) -> cProfile.Profile:
        profile = cProfile.Profile(time.thread_time)
        with self._lock:
            self._profiles.append((kind, profile))
        return profile

    def _forked(self) -> None:
        """Only the main thread lives on, and its profile with it."""
        self._lock = threading.Lock()
        del self._profiles[1:]

    def _write(self) -> None:
        by_kind: dict[str, pstats.Stats] = {}
        for kind, profile in list(self._profiles):
            source: Any = _Snapshot(profile)
            if not source.stats:
                continue
            if kind in by_kind:
                by_kind[kind].add(source)
            else:
                by_kind[kind] = pstats.Stats(source)
        for kind, stats in by_kind.items():
            stats.dump_stats(f"{self._output}.{os.getpid()}.{kind}")


class _Snapshot:
    """What a profile has so far, also while its thread runs."""

    def __init__(self, profile: cProfile.Profile) -> None:
        profile.snapshot_stats()
        self.stats: dict[Any, Any] = profile.stats

    def create_stats(self) -> None:
        """`pstats.Stats` asks for this; the stats are there already."""


def _kind(name: str) -> str:
    return _NUMBER.sub("", name) or "thread"


def main() -> None:
    """The command line."""
    output, *arguments = sys.argv[1:]
    Profiler(output).install()
    from admission.cli.main import main as program  # noqa: PLC0415 -- imports are profiled too

    sys.argv = ["gpu-admission", *arguments]
    program()


if __name__ == "__main__":
    main()
