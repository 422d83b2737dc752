"""``make matrix``: contract, integration tests and a short storm on several Kubernetes versions.

    make matrix                                       # every version of the table
    make matrix ARGS="--version 1.35 --version 1.37"
    make matrix ARGS="--version 1.35 --file tests/integration/test_first_pod.py"
    make matrix ARGS="--version 1.35 --failed --minutes 0"    # what failed in the last run

The table is the folders ``tests/controlplane/kubernetes*``. Each version is compiled once, which
takes a quarter of an hour on two cores, and then stays in the cache. What is run is written to
``tests/matrix.json``: the exact version, and how each part ended.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.controlplane import programs

RESULTS: Final = Path(__file__).with_name("matrix.json")
_ROOT: Final = Path(__file__).parents[1]
_FILES: Final = ("tests/contract", "tests/integration")
_CACHES: Final = ".pytest_cache/matrix"
_PASSED: Final = "passed"
_FAILED: Final = "failed"
_NO_TESTS: Final = 5
"""The exit code of pytest where no test was selected."""


def parts(
    version: str, files: Sequence[str], minutes: int, workers: int = 0, *, failed: bool = False
) -> dict[str, list[str]]:
    """Return the commands that are run for a version, by what they show.

    Args:
        version: of Kubernetes; which tests failed on it is kept apart from other versions.
        files: of tests; none for those of `_FILES`.
        minutes: of the storm; 0 for none.
        workers: how many processes run tests side by side; 0 for the process of pytest itself.
        failed: only the tests that failed on this version before.
    """
    python = sys.executable
    spread = [f"-n{workers}", "--dist", "loadfile", "--no-loadscope-reorder"]
    cache = ["-o", f"cache_dir={_CACHES}/{version}"]
    selection = ["--last-failed", "--last-failed-no-failures", "none"] if failed else []
    commands = {
        name: [
            python, "-m", "pytest", *spread, *cache, *selection, "-q", "-m", "controlplane", name
        ]
        for name in files or _FILES
    }  # fmt: skip
    if minutes:
        storm = ["-m", "tests.chaos.storm", "--seed", "1", "--minutes", str(minutes)]
        commands["storm"] = [python, *storm]
    return commands


def run(version: str, commands: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Compile a version and run the commands on it; how each ended."""
    environment = {**os.environ, programs.VERSION: version}
    build = [sys.executable, "-m", "tests.controlplane.build"]
    if _ended("build", build, environment) == _FAILED:
        return {"build": _FAILED}
    return {name: _ended(name, command, environment) for name, command in commands.items()}


def _ended(name: str, command: Sequence[str], environment: Mapping[str, str]) -> str:
    print(f"== {environment[programs.VERSION]}: {name}", flush=True)
    done = subprocess.run(command, cwd=_ROOT, env=environment, check=False)
    is_without_failed = done.returncode == _NO_TESTS and "--last-failed" in command
    return _PASSED if done.returncode == 0 or is_without_failed else _FAILED


def recorded() -> dict[str, dict[str, str]]:
    """Return how each part ended by version, as it was written last."""
    found: dict[str, dict[str, str]] = json.loads(RESULTS.read_text())
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if a part failed on a version."""
    every = programs.versions()
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--version", action="append", choices=every, help="may be repeated")
    parser.add_argument("--file", action="append", default=[], help="tests in place of all")
    parser.add_argument("--workers", type=int, default=0, help="tests that run side by side")
    parser.add_argument("--failed", action="store_true", help="only tests that failed before")
    parser.add_argument("--minutes", type=int, default=1, help="of the storm; 0 for none")
    chosen = parser.parse_args(arguments)
    results = recorded()
    ended: dict[str, dict[str, str]] = {}
    for version in chosen.version or every:
        commands = parts(
            version, chosen.file, chosen.minutes, chosen.workers, failed=chosen.failed
        )
        ended[version] = run(version, commands)
        known = results.get(version, {})
        same = known if known.get("kubernetes") == every[version] else {}
        results[version] = {**same, "kubernetes": every[version], **ended[version]}
        RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n")
    for version, by_part in ended.items():
        print(version, *(f"{name}: {how}" for name, how in by_part.items()), sep="  ")
    return int(any(_FAILED in by_part.values() for by_part in ended.values()))


if __name__ == "__main__":
    sys.exit(main())
