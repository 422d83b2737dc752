"""Verdicts of the API server's own LimitRanger (kubernetes v1.36.3) on generated pods.

``cases.json`` holds, per line, LimitRange items and a pod spec as written, and under ``want``
what the plugin and the validation of that release made of them. ``main.go`` records it: built
with the go.mod of tests/controlplane/kubernetes, it reads ``[{"ranges": [LimitRange], "pod":
Pod}]`` from stdin and writes one verdict per case.
"""

import json
from pathlib import Path
from typing import Any


def load() -> list[dict[str, Any]]:
    """All recorded cases."""
    loaded: list[dict[str, Any]] = json.loads(
        Path(__file__).with_name("cases.json").read_text("utf-8")
    )
    return loaded
