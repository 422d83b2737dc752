"""Workloads, their pod sets, conditions and admissions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from admission.base import names
from admission.objects import views
from admission.objects.workload import Workload
from admission.objects.workload import Workload as WorkloadObject
from admission.owners import pod as pod_owner
from admission.owners.workload import PriorityClasses
from tests.builders.metadata import Document, make_kueue, make_metadata, store
from tests.builders.pods import make_pod, template_of


def make_pod_set(
    name: str = "main",
    count: int = 1,
    *,
    gpus: int = 0,
    pod: Mapping[str, Any] | None = None,
    **more: Any,
) -> Document:
    """Return a pod set of `count` pods that ask for `gpus` each; `pod` as in `make_pod`."""
    template = template_of(make_pod("", **{"gpus": gpus, "restartPolicy": "Never", **(pod or {})}))
    return {"name": name, "count": count, "template": template, **more}


def make_workload(
    name: str = "train",
    *pod_sets: Document,
    namespace: str = "ml",
    queue: str = "team-a",
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Document:
    """Return a Workload without an owner.

    Args:
        name: its name.
        *pod_sets: its pod sets; one of one pod with one GPU if none is given.
        namespace: its namespace; empty where the request says it.
        queue: its LocalQueue.
        metadata: more members of its metadata.
        status: its status.
        **spec: more members of its spec.
    """
    sets = list(pod_sets or (make_pod_set(gpus=1),))
    return make_kueue(
        "Workload",
        {**make_metadata(name, namespace), **(metadata or {})},
        spec={"queueName": queue, "podSets": sets, **spec},
        **({"status": status} if status else {}),
    )


def workload_view(name: str = "train", *pod_sets: Document, **workload: Any) -> WorkloadObject:
    """Return what the program decodes a Workload of `make_workload` to."""
    return msgspec.convert(make_workload(name, *pod_sets, **workload), WorkloadObject)


def workload_of_pod(
    pod: views.Pod,
    *conditions: Document,
    admission: Document | None = None,
    version: str = "1",
    deleting: bool = False,
) -> Workload:
    """Return the Workload that the program makes of a pod, with conditions."""
    whole = views.PodDocument(metadata=pod.metadata, spec=msgspec.to_builtins(pod.spec))
    document = pod_owner.build(pod, whole, PriorityClasses(workload={}, pod={}))
    store(document, uid=f"wl-{pod.metadata.uid}", version=version, deleting=deleting)
    document["status"] = {"conditions": list(conditions), "admission": admission}
    return msgspec.convert(document, Workload)


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
