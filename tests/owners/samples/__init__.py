"""A manifest of each kind that is a row, as its users write it, and what is read from it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from admission.objects import owner_rows
from admission.objects.owner_rows import Row
from tests.repo import tree

_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True)
class Sample:
    """A manifest, and what is read from it.

    Attributes:
        row: its kind.
        manifest: the object.
        pod_sets: pods by the name of the pod set, in their order.
        running: a status with which all its pods are ready.
        stopped: a status with which none of them runs.
        reclaimable: pods that never run again, while they run.
        ended: a status with which it has succeeded; None for a kind that never ends.
    """

    row: Row
    manifest: dict[str, Any]
    pod_sets: dict[str, int]
    running: dict[str, Any]
    stopped: dict[str, Any]
    reclaimable: dict[str, int]
    ended: dict[str, Any] | None

    @property
    def message(self) -> str:
        """What the status with which it has succeeded says of that."""
        assert self.ended is not None
        conditions = self.ended.get("conditions") or [{"message": ""}]
        return str(self.ended.get("message") or conditions[0]["message"])


def none_running(status: Any) -> Any:
    """A status that says that no pod runs, made from one that says that they do."""
    if isinstance(status, dict):
        return {key: none_running(one) if key != "active" else 0 for key, one in status.items()}
    if isinstance(status, list):
        return [none_running(one) for one in status]
    return "suspended" if status == "ready" else status


def of(row: Row) -> Sample:
    """The sample of a row."""
    path = _FOLDER / f"{row.kind.lower()}.yaml"
    manifest, read = yaml.safe_load_all(path.read_text())
    return Sample(
        row=row,
        manifest=manifest,
        pod_sets=read["podSets"],
        running=read["running"],
        stopped=read.get("stopped") or none_running(read["running"]),
        reclaimable=read.get("reclaimable", {}),
        ended=read.get("ended"),
    )


RUN: Final[dict[str, Any]] = {
    "apiVersion": "example.com/v1",
    "kind": "TrainingRun",
    "suspend": "spec.control.paused",
    "podSets": [
        {"at": "spec.leader", "name": "leader"},
        {"at": "spec.groups[*]", "nameAt": "name", "counts": [{"path": "replicas"}]},
    ],
    "controllers": ["system:serviceaccount:training:operator"],
    "succeeded": {"condition": "Complete"},
    "failed": {"condition": "Failed"},
    "active": [{"path": "status.groups[*].active"}],
    "ready": {"path": "status.phase", "value": "Running"},
}
"""A kind that a configuration file adds; its sample is among the others."""


def ready() -> list[dict[str, Any]]:
    """The kinds that docs/reference/owners.md describes for a configuration file.

    Its example is left out.
    """
    page = (tree.ROOT / "docs" / "reference" / "owners.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    kinds = [
        kind
        for text in blocks
        for document in yaml.safe_load_all(text)
        for kind in document.get("owners", ())
    ]
    return [kind for kind in kinds if kind["kind"] != RUN["kind"]]


ADDED: Final = (RUN, *ready())
"""Kinds that a configuration file adds."""

ALL: Final = tuple(of(one) for one in owner_rows.ROWS)
