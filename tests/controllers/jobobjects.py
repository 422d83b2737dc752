"""Jobs, and queues for them, as tests write them."""

from collections.abc import Mapping
from typing import Any

from admission.base import names, patches
from admission.kube import resources
from admission.kube.api import Document
from tests.controllers.world import World, cluster_queue, local_queue


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


def add_checked_queue(world: World) -> None:
    """A LocalQueue ``checked`` whose ClusterQueue asks for the check ``budget``."""
    strategy = {"admissionChecks": [{"name": "budget"}]}
    world.add(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": "budget"},
            "spec": {"controllerName": "example.com/budget"},
        },
        cluster_queue("checked", admissionChecksStrategy=strategy),
        local_queue("checked", "checked"),
    )
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "",
              "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    status = patches.merge({"status": {"conditions": [active]}})
    world.store.patch(resources.ADMISSION_CHECKS, "budget", status, subresource="status")
