"""Prometheus and its tool, compiled from their module: ``python -m tests.observability.programs``.

Without the service discovery of clouds, which no test needs, they take half the time.
"""

import os
import sys
from pathlib import Path
from typing import Final

from tests.interop.modules import Module, ModuleError, say

PROMETHEUS: Final = Module(
    path="github.com/prometheus/prometheus",
    version="v0.316.0",
    sum="h1:f1GRFerhTMKQma+awCoC9T820ecWeGSdF+xAlMHzZzM=",
    tags="remove_all_sd",
)
NAMES: Final = ("promtool", "prometheus")


def built(name: str) -> Path | None:
    """Return the path of a program; None where it is not compiled yet."""
    path = PROMETHEUS.place(f"./cmd/{name}")
    return path if os.access(path, os.X_OK) else None


def main() -> int:
    """Compile what is missing."""
    try:
        for name in NAMES:
            PROMETHEUS.program(f"./cmd/{name}")
    except ModuleError as failure:
        say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
