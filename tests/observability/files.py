"""Writes what is made in deploy/observability: ``make manifests``.

``rules.yaml`` there is the source of all alerts and recording rules; for the Prometheus Operator
they are wrapped into an object. ``boards.yaml`` is the source of the boards. The program carries
both for the chart that it writes.
"""

from typing import Any, Final

import yaml

from admission.admin import manifests
from admission.base import names
from tests.observability import boards
from tests.repo import tree

FOLDER: Final = tree.ROOT / "deploy" / "observability"
RULES: Final = FOLDER / "rules.yaml"
OF_CHART: Final = tree.ROOT / "admission/admin/templates/chart/observability"
_HEAD: Final = "# Made by `make manifests` from deploy/observability/rules.yaml; do not edit.\n"


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
    return {"prometheus-rule.yaml": _HEAD + wrapped, **_boards()}


def of_chart() -> dict[str, str]:
    """Return the text of every file that the program carries, by its path there."""
    _, _, text = manifests.to_yaml([rules()]).partition("\n")
    return {"rules.yaml": _HEAD + text, **_boards()}


def _boards() -> dict[str, str]:
    return {f"boards/{board.uid}.json": boards.text(board) for board in boards.read()}


def main() -> None:
    """Write them."""
    for folder, made in ((FOLDER, files()), (OF_CHART, of_chart())):
        for name, text in made.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
