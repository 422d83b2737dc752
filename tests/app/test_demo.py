"""The demo ends by itself, in time, with every pod but the impossible one served."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_demo_serves_every_pod_but_the_one_that_never_fits() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "admission", "demo"],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "10 of 11 pods were admitted" in done.stdout
    assert "2 were rewritten to MIG slices" in done.stdout
    assert "research/too-big waits: ExceedsMaxQuota" in done.stdout
    assert "its GPU is sick" in done.stdout
