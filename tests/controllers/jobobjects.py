"""Jobs as tests write them."""

from collections.abc import Mapping
from typing import Any

from admission.base import names
from admission.kube.api import Document


def job(
    name: str = "train",
    pods: int = 2,
    *,
    completions: int | None = None,
    gpus: int = 1,
    queue: str = "team-a",
    suspend: bool = True,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
) -> Document:
    """A Job of pods that all run at once, as the API server stores it."""
    amounts = {names.GPU_RESOURCE: str(gpus)}
    container = {
        "name": "main",
        "image": "train",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "labels": {names.QUEUE_LABEL: queue, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "parallelism": pods,
            "completions": pods if completions is None else completions,
            "suspend": suspend,
            "template": {
                "metadata": {"labels": {"job-name": name}},
                "spec": {"containers": [container], "restartPolicy": "Never", **(pod or {})},
            },
        },
    }
