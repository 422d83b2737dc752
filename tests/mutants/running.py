"""Runs tests on code in which modules have another text, in a process of its own.

The process is a fork, so what all tests import is imported once. The text of a module is given to
the import of that process alone: no file is written, and nothing that the tests start as another
program has the change.
"""

import contextlib
import enum
import importlib.abc
import importlib.machinery
import math
import os
import resource
import select
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from typing_extensions import override

_OPTIONS: Final = (
    "-x",
    "-q",
    "--no-header",
    "--no-controlplane",
    "--hypothesis-profile=mutants",
    "-pno:cacheprovider",
    "-Wignore::pytest.PytestAssertRewriteWarning",  # hypothesis is imported here already
)
_BROKEN: Final = (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)
_LAST_LINES: Final = 30
_PATIENCE: Final = 20


class Outcome(enum.Enum):
    """What became of tests."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    NO_TESTS = "no tests"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of tests.

    Attributes:
        outcome: what became of it.
        seconds: time of the processor that it took.
        output: its last lines.
    """

    outcome: Outcome
    seconds: float
    output: str


def run(tests: Sequence[str], texts: Mapping[str, str], seconds: float) -> Run:
    """Run tests until the first one fails.

    Args:
        tests: files or ids of tests.
        texts: for each module that has another text, by its dotted name, that text.
        seconds: the run is ended after this time of the processor, which a busy machine does not
            shorten; one that waits, after many times as much.
    """
    assert threading.active_count() == 1, "a fork has only the thread that made it"
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
            _be_the_child(tests, texts, output.fileno())
        code, took = _wait(child, _PATIENCE * seconds)
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    return Run(_outcome(code), took, "\n".join(lines[-_LAST_LINES:]))


def _be_the_child(tests: Sequence[str], texts: Mapping[str, str], output: int) -> None:
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        os.setpgid(0, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        settings.register_profile(
            "mutants",
            derandomize=True,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),  # a smaller example tells nothing more
            suppress_health_check=[HealthCheck.too_slow],
        )
        sys.meta_path.insert(0, _Planted(texts))
        code = int(pytest.main([*_OPTIONS, *tests]))
    except BaseException:  # noqa: BLE001 - the child never goes on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, seconds: float) -> tuple[int | None, float]:
    """Return how a child ended and the processor's time that it took, and leave nothing of it.

    Its end is None if it did not end in time.
    """
    descriptor = os.pidfd_open(child)
    try:
        is_ended = bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if is_ended else None, usage.ru_utime + usage.ru_stime


def _outcome(code: int | None) -> Outcome:
    if code is None or code == -signal.SIGXCPU:
        return Outcome.TIMED_OUT
    if code == pytest.ExitCode.OK:
        return Outcome.PASSED
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return Outcome.NO_TESTS
    return Outcome.BROKEN if code in _BROKEN else Outcome.FAILED


class _Planted(importlib.abc.MetaPathFinder):
    """Finds the modules that have another text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._texts:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._texts[fullname])
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    @override
    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)
