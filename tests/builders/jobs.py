"""Jobs."""

from collections.abc import Mapping
from typing import Any

from admission.base import names
from tests.builders.metadata import Document, make_metadata
from tests.builders.pods import make_pod, template_of


def make_job(
    name: str = "train",
    pods: int = 2,
    *,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    completions: int | None = None,
    gpus: int = 0,
    pod: Mapping[str, Any] | None = None,
    suspend: bool = False,
    **spec: Any,
) -> Document:
    """Return a Job whose pods all run at once, as a user creates it.

    Args:
        name: its name.
        pods: how many pods run at once.
        namespace: its namespace; empty where the request says it.
        labels: its labels.
        annotations: its annotations.
        metadata: more members of its metadata.
        completions: how many pods have to succeed; as many as run at once if None.
        gpus: what each pod asks for.
        pod: more about its pods, as in `make_pod`.
        suspend: whether it is suspended.
        **spec: more members of its spec.
    """
    template = template_of(make_pod("", **{"gpus": gpus, "restartPolicy": "Never", **(pod or {})}))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **make_metadata(name, namespace, labels=labels, annotations=annotations),
            **(metadata or {}),
        },
        "spec": {
            "parallelism": pods,
            "completions": pods if completions is None else completions,
            "suspend": suspend,
            "template": template,
            **spec,
        },
    }


def queued_job(
    name: str = "train",
    pods: int = 2,
    *,
    queue: str = "team-a",
    labels: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
    gpus: int = 1,
    suspend: bool = True,
    **job: Any,
) -> Document:
    """Return a Job of LocalQueue `queue` as the webhook leaves it; `job` as in `make_job`."""
    return make_job(
        name,
        pods,
        namespace="ml",
        labels={names.QUEUE_LABEL: queue, **(labels or {})},
        pod={"labels": {"job-name": name}, **(pod or {})},
        gpus=gpus,
        suspend=suspend,
        **job,
    )
