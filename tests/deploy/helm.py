"""Helm itself, compiled from its Go module once per version, for the chart."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.interop.modules import Module

HELM: Final = Module(
    path="helm.sh/helm/v3",
    version="v3.21.4",
    sum="h1:T/GcIEXU/gNjJnkITlIZ3e9xqkZjhFTmISuStTZ6+Qg=",
)
_KUBERNETES: Final = "1.36.0"


@cache
def program() -> Path:
    """Path of helm, which takes two minutes to compile where it is not there."""
    return HELM.program("./cmd/helm")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs helm to its end."""
    return subprocess.run(
        [str(program()), *arguments], capture_output=True, text=True, timeout=300, check=False
    )


def template(chart: Path, *arguments: str, namespace: str = "gpu-admission-system") -> str:
    """What a chart comes to."""
    done = run(
        "template", "release", str(chart), "-n", namespace, "--kube-version", _KUBERNETES,
        *arguments,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
