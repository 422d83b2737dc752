"""Which tests run when, in which order, and what a run leaves for the next one.

Tier 1 (``make test``) leaves out what is marked ``nightly``, and of cases marked ``sampled`` it
runs a share. All of them run with ``--nightly``, and where the code that they are about changed
since the last nightly run. `tests.distribution` says in which order files run.
"""

import fcntl
import json
import math
import random
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, Any, Final

import pytest

from tests import distribution
from tests.controlplane import plugin
from tests.controlplane.processes import base_folder
from tests.distribution import file_of

ROOT: Final = Path(__file__).parents[1]
DURATIONS: Final = ROOT / "tests" / "durations.json"
LAST_NIGHTLY: Final = ROOT / "tests" / "nightly.json"
OUTCOME: Final = "gpu-admission/outcome"
"""Where pytest's cache has what `Recorder` saw of the last run."""

LEFT_BEHIND: Final = "left behind:"
SAMPLED_CODE: Final = (
    "admission/owners/lifecycle.py",
    "admission/controller/writing/",
    "admission/kube/lease.py",
    "admission/kube/reflector.py",
)
"""What cases of crashes and lost answers are about."""

_SHORT_SECONDS: Final = 1.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run everything")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files in another order")
    parser.addoption(
        "--record-durations", action="store_true", help=f"write {DURATIONS.relative_to(ROOT)}"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "recorder")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        _leave_out(config, items)
    files: dict[str, bool] = {}
    for item in items:
        is_controlplane = item.get_closest_marker("controlplane") is not None
        files[file_of(item.nodeid)] = is_controlplane or files.get(file_of(item.nodeid), False)
    seconds = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    places: dict[str, tuple[float, bool, str]] = distribution.order(files, seconds)
    seed = config.getoption("--shuffle")
    if seed is not None:
        places = {file: (random.Random(f"{seed} {file}").random(), False, file) for file in files}
    items.sort(key=lambda item: places[file_of(item.nodeid)])
    # Workers find the same; the process that hands out tests reads no tests.
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker == "gw0" and config.cache is not None:
        config.cache.set(distribution.SHARES, distribution.shared(items, plugin.KEPT))


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what tier 1 does not run."""
    is_sampled = any(item.get_closest_marker("sampled") for item in items)
    samples = is_sampled and not touches_sampled_code(changed_since_nightly())
    left_out = [
        item
        for item in items
        if item.get_closest_marker("nightly") is not None
        or (samples and not is_in_sample(item.nodeid, item.get_closest_marker("sampled")))
    ]
    if left_out:
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)


def is_in_sample(test: str, marker: pytest.Mark | None) -> bool:
    """Whether tier 1 runs a case; ``sampled(one_in=N)`` has it run about one of N."""
    return marker is None or zlib.crc32(test.encode()) % int(marker.kwargs["one_in"]) == 0


def touches_sampled_code(changed: Collection[str]) -> bool:
    """Whether one of these files is what the sampled cases are about."""
    return any(path.startswith(SAMPLED_CODE) for path in changed)


def changed_since_nightly() -> list[str]:
    """Files that differ from the commit of the last nightly run; of HEAD where it is unknown."""
    commit = "HEAD"
    if LAST_NIGHTLY.exists():
        commit = json.loads(LAST_NIGHTLY.read_text())["commit"]
    done = _git("diff", "--name-only", commit, "--")
    return list(SAMPLED_CODE) if done.returncode else done.stdout.splitlines()


class Recorder:
    """What the process that hands out tests sees of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failures: dict[str, dict[str, Any]] = {}
        self._run: set[str] = set()
        self._is_broken = False
        self._lock: IO[str] | None = None

    def pytest_sessionstart(self) -> None:
        """Lets one whole run at a time take the machine."""
        is_whole_run = self._config.args_source is pytest.Config.ArgsSource.TESTPATHS
        if not is_whole_run or self._config.option.collectonly:
            return
        base_folder().mkdir(mode=0o700, exist_ok=True)
        self._lock = (base_folder() / "run.lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another run of all tests is under way on this machine; waiting for its end")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration
        self._run.add(report.nodeid)
        if report.failed:
            self._failures[report.nodeid] = {
                "controlplane": "controlplane" in report.keywords,
                "when": report.when,
                "failure": report.longreprtext[-2000:],
            }

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._is_broken |= report.failed

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        outcome = {
            "exit_code": int(exitstatus),
            "is_broken": self._is_broken or int(exitstatus) > 1,
            "run": len(self._run),
            "failures": self._failures,
        }
        if hasattr(session.config, "cache") and session.config.cache is not None:
            session.config.cache.set(OUTCOME, outcome)
        if session.config.getoption("--record-durations"):
            slow = {f: rounded(s) for f, s in self._seconds.items() if s >= _SHORT_SECONDS}
            DURATIONS.write_text(json.dumps(slow, indent=1, sort_keys=True) + "\n")


def rounded(seconds: float) -> int:
    """The nearest power of two: a file is written anew only where a test became another one."""
    return int(2 ** round(math.log2(max(seconds, 1.0))))


def commits_since(commit: str) -> int | None:
    """How many commits came after one; None where git does not know it."""
    done = _git("rev-list", "--count", f"{commit}..HEAD")
    return int(done.stdout) if done.returncode == 0 else None


def head() -> str:
    """The commit that is checked out; empty outside a checkout."""
    return _git("rev-parse", "HEAD").stdout.strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = ("git", *arguments)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
