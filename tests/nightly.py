"""Runs every test in another order, once alone and twice beside busy loops: tier 2.

``make test-nightly`` writes what came of it to ``tests/nightly.json``, which goes into the next
commit; ``python -m tests.nightly --last`` prints that, and says loudly if it is old.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from xml.etree import ElementTree as ET

from admission.base.clock import SystemClock, to_wire
from tests import tiers

OLD_COMMITS: Final = 60
_WHOLE: Final = (0, 1)
"""Exit codes of pytest where all tests ran; of other ones it broke off."""

_BUSY: Final = "while True: pass"
_BESIDE: Final = (False, True, True)
"""Of each run, whether busy loops take the cores beside it."""


def last(record: dict[str, Any] | None, commits: int | None) -> list[str]:
    """Return what to say of the last nightly run.

    Args:
        record: what it wrote; None if there was none.
        commits: how many came after it; None if that is unknown.
    """
    if record is None:
        return ["!! WARNING: there was no nightly run yet: make test-nightly"]
    lines = [f"last nightly run: {record['date']}, commit {record['commit'][:8]}"]
    for run in record["runs"]:
        lines.append(
            f"  {'beside busy loops' if run['is_beside_busy_loops'] else 'alone'}: "
            f"{run['passed']} passed, {run['failed']} failed, {run['skipped']} skipped "
            f"in {run['seconds']} s{'' if run['is_whole'] else ', broke off'}"
        )
        lines += [f"    failed: {test}" for test in run["failures"]]
    missing = len(_BESIDE) - len(record["runs"])
    if missing:
        lines.append(f"!! WARNING: {missing} of its {len(_BESIDE)} runs did not take place")
    if commits is None:
        lines.append("!! WARNING: its commit is not in this history")
    elif commits > OLD_COMMITS:
        lines.append(f"!! WARNING: {commits} commits came after it: make test-nightly")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all tests, or say how the last run went; return 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    parser.add_argument("--last", action="store_true", help="say how the last run went")
    parser.add_argument("--workers", default="auto")
    parser.add_argument("--seed", type=int, default=1, help="of the order of files")
    parser.add_argument("tests", nargs="*", help="only these; the result is not written")
    options = parser.parse_args(arguments)
    if options.last:
        record = None
        if tiers.LAST_NIGHTLY.exists():
            record = json.loads(tiers.LAST_NIGHTLY.read_text())
        commits = None if record is None else tiers.commits_since(record["commit"])
        print(*last(record, commits), sep="\n")
        return 0
    runs: list[dict[str, Any]] = []
    record = {"date": to_wire(SystemClock().now()), "commit": tiers.head(), "runs": runs}
    for number, is_beside in enumerate(_BESIDE):
        runs.append(_run(options.workers, options.seed + number, is_beside, options.tests))
        # After each run: hours of work may be cut off.
        if not options.tests:
            tiers.LAST_NIGHTLY.write_text(json.dumps(record, indent=1) + "\n")
    print(*last(record, 0), sep="\n")
    return int(any(run["failed"] or not run["passed"] or not run["is_whole"] for run in runs))


def _run(workers: str, seed: int, is_beside: bool, tests: Sequence[str]) -> dict[str, Any]:
    results = tiers.ROOT / "build" / "nightly.xml"
    results.parent.mkdir(exist_ok=True)
    results.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-n", workers, "--dist", "loadfile",
        "--no-loadscope-reorder", "--nightly", "--shuffle", str(seed), f"--junitxml={results}",
        *tests,
    ]  # fmt: skip
    with _busy_loops(is_beside):
        code = subprocess.run(command, cwd=tiers.ROOT, check=False).returncode
    suite = ET.Element("testsuite")
    if results.exists():
        (suite,) = ET.parse(results).getroot().iter("testsuite")
    total, failed, skipped = (
        int(suite.get("tests", 0)),
        int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
        int(suite.get("skipped", 0)),
    )
    return {
        "seed": seed,
        "is_beside_busy_loops": is_beside,
        "passed": total - failed - skipped,
        "failed": failed,
        "skipped": skipped,
        "is_whole": code in _WHOLE,
        "failures": sorted(_failures(suite)),
        "seconds": round(float(suite.get("time", 0))),
    }


def _failures(suite: ET.Element) -> set[str]:
    """Tests that failed, as files and names."""
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    }


@contextmanager
def _busy_loops(are_wanted: bool) -> Iterator[None]:
    """Keeps every core busy inside the block."""
    count = (os.cpu_count() or 1) if are_wanted else 0
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main())
