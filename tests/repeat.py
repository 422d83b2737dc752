"""Runs the tests that failed in the last run once more, one after another: ``make test-again``.

Tests of a whole cluster wait for other programs, and a busy machine can be too slow for one of
them. A test that fails because of an error fails again. Failures in many files are not a matter of
time (in one file they may be: a cluster that its tests share), and what a storm finds need not
appear a second time: neither is repeated.
"""

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

_CACHE: Final = Path(".pytest_cache/v/cache/lastfailed")
_MAX_FILES: Final = 5
_NEVER: Final = (
    "tests/chaos/test_storm.py::"
    "test_a_minute_of_storm_keeps_quota_and_stops_nobody_without_a_decision"
)


def refusal(failed: Collection[str]) -> str:
    """Return why tests are not repeated; empty where they are."""
    if not failed:
        return "no test is known to have failed: the run itself did"
    files = {test.partition("::")[0] for test in failed}
    if len(files) > _MAX_FILES:
        return f"tests of {len(files)} files failed, more than the {_MAX_FILES} that are repeated"
    if _NEVER in failed:
        return "what a storm finds is not repeated"
    return ""


def main() -> int:
    """Repeat what failed; return the exit code of that, or 1 where nothing is repeated."""
    failed = sorted(json.loads(_CACHE.read_text())) if _CACHE.exists() else []
    why = refusal(failed)
    if why:
        print(f"not repeated: {why}", file=sys.stderr)
        return 1
    print("These tests failed and are run once more:", *failed, sep="\n  ", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-n0", *failed], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
