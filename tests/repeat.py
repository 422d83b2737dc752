"""Runs the tests that failed in the last run five times more: ``make test-again``.

A test that waits for other programs may fail where the machine does something else; one that runs
in its own process fails again, or is wrong. So the first kind is repeated, and has to pass each
time. What failed is written into ``tests/repeated.json``, which goes into the next commit; a test
that stands there twice is mended before it may be repeated again. What a storm finds need not
appear a second time and is never repeated, nor is a run that broke off.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.base.clock import SystemClock, to_wire
from tests import tiers

TIMES: Final = 5
LEDGER: Final = tiers.ROOT / "tests" / "repeated.json"
_CACHE: Final = tiers.ROOT / ".pytest_cache" / "v" / tiers.OUTCOME
_MAX_FILES: Final = 5
_MAX_ENTRIES: Final = 2
_NEVER: Final = "tests/chaos/test_storm.py::"


def refusal(outcome: Mapping[str, Any], ledger: Sequence[Mapping[str, str]] = ()) -> str:
    """Return why the failures of a run are not repeated; empty where they are.

    Args:
        outcome: what `tiers.Recorder` remembers of the run.
        ledger: what failed and was repeated before.
    """
    failures: Mapping[str, Mapping[str, Any]] = outcome.get("failures", {})
    if outcome.get("is_broken", True):
        return "the run broke off, or not all tests could be read"
    if not failures:
        return "no test is known to have failed: the run itself did"
    if in_process := sorted(t for t, failure in failures.items() if not failure["controlplane"]):
        return f"these run in one process, so time is no excuse: {', '.join(in_process)}"
    files = {test.partition("::")[0] for test in failures}
    if len(files) > _MAX_FILES:
        return f"tests of {len(files)} files failed, more than the {_MAX_FILES} that are repeated"
    if any(test.startswith(_NEVER) for test in failures):
        return "what a storm finds is not repeated"
    counts = Counter(entry["test"] for entry in ledger)
    if often := sorted(test for test in failures if counts[test] >= _MAX_ENTRIES):
        return f"in {LEDGER.name} {_MAX_ENTRIES} times already, to be mended: {', '.join(often)}"
    return ""


def to_repeat(failures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what is run again: a test, or its file where the file left something behind."""
    return sorted(
        {
            test.partition("::")[0] if tiers.LEFT_BEHIND in failure["failure"] else test
            for test, failure in failures.items()
        }
    )


def main() -> int:
    """Repeat what failed; return 0 if all of it passed each time."""
    outcome = json.loads(_CACHE.read_text()) if _CACHE.exists() else {}
    ledger = json.loads(LEDGER.read_text()) if LEDGER.exists() else []
    why = refusal(outcome, ledger)
    if why:
        print(f"not repeated: {why}", file=sys.stderr)
        return 1
    failures = outcome["failures"]
    _record(ledger, failures)
    tests = to_repeat(failures)
    print(f"These are run {TIMES} times more, and noted in {LEDGER}:")
    print(*(f"  {test}" for test in tests), sep="\n", flush=True)
    for _ in range(TIMES):
        command = [sys.executable, "-m", "pytest", "-n0", "--nightly", *tests]
        # Exit code 5, no test was run, is a failure too.
        code = subprocess.run(command, cwd=tiers.ROOT, check=False).returncode
        if code:
            return code
    return 0


def _record(ledger: list[dict[str, str]], failures: Mapping[str, Mapping[str, Any]]) -> None:
    about = {"date": to_wire(SystemClock().now()), "commit": tiers.head()}
    ledger += [
        {"test": test, **about, "failure": str(failure["failure"]).strip().rpartition("\n")[2]}
        for test, failure in sorted(failures.items())
    ]
    LEDGER.write_text(json.dumps(ledger, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
