"""Writes what is made in deploy/observability: ``make manifests``.

``rules.yaml`` there is the source of all alerts and recording rules; for the Prometheus Operator
they are wrapped into an object. ``boards.yaml`` is the source of the boards.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from admission.base import names
from admission.install import manifests
from tests.observability import boards
from tests.repo import tree

FOLDER: Final = tree.ROOT / "deploy" / "observability"
RULES: Final = FOLDER / "rules.yaml"
_HEAD: Final = "# Made by `make manifests` from rules.yaml; do not edit.\n"


def rules() -> dict[str, Any]:
    """Return the groups of rules as they are written down."""
    found: dict[str, Any] = yaml.safe_load(RULES.read_text("utf-8"))
    return found


def files() -> dict[str, str]:
    """Return the text of every file that is made, by its path in the folder."""
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "gpu-admission",
            "namespace": names.SYSTEM_NAMESPACE,
            "labels": {"app.kubernetes.io/name": "gpu-admission"},
        },
        "spec": rules(),
    }
    _, _, wrapped = manifests.to_yaml([document]).partition("\n")
    return {
        "prometheus-rule.yaml": _HEAD + wrapped,
        **{f"boards/{one.uid}.json": boards.text(one) for one in boards.read()},
    }


def main(folder: Path = FOLDER) -> None:
    """Write them."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
