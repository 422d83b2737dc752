"""Workloads, their pod sets, conditions and admissions."""

from typing import Any

import msgspec

from admission.api import views
from admission.base import names
from admission.owners import pod as pod_owner
from admission.owners.workload import PriorityClasses
from tests.builders.metadata import Document, store


def workload_of_pod(
    pod: views.Pod,
    *conditions: Document,
    admission: Document | None = None,
    version: str = "1",
    deleting: bool = False,
) -> views.Workload:
    """Return the Workload that the program makes of a pod, with conditions."""
    whole = views.PodDocument(metadata=pod.metadata, spec=msgspec.to_builtins(pod.spec))
    document = pod_owner.build(pod, whole, PriorityClasses(workload={}, pod={}))
    store(document, uid=f"wl-{pod.metadata.uid}", version=version, deleting=deleting)
    document["status"] = {"conditions": list(conditions), "admission": admission}
    return msgspec.convert(document, views.Workload)


def make_admission(
    cluster_queue: str = "gpus", flavor: str = "a100", count: int = 1
) -> dict[str, Any]:
    """Return an admission of one pod set with `count` GPUs."""
    return {
        "clusterQueue": cluster_queue,
        "podSetAssignments": [
            {
                "name": "main",
                "flavors": {names.GPU_RESOURCE: flavor},
                "resourceUsage": {names.GPU_RESOURCE: str(count)},
                "count": 1,
            }
        ],
    }
