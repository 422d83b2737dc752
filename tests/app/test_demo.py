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
    assert "NVIDIA_VISIBLE_DEVICES=all shows GPUs to a container without request" in done.stdout
    assert "1 more was refused at creation" in done.stdout
    budget = done.stdout.partition("One budget of GPU memory and slices")[2]
    assert "lab/tune-0: 1 nvidia.com/gpu on lab-a100: 80Gi, 7 slices" in budget
    assert "lab/tune-1: 1 nvidia.com/gpu on lab-h100: 94Gi, 7 slices" in budget
    assert "on lab-a100: 10Gi, 1 slice" in budget
    assert "(94Gi more promised, do not exist)" in done.stdout
