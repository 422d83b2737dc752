"""Short ways to make the objects that tests need. Amounts are quantity text."""

from typing import Any

import msgspec

from admission.api import views
from admission.base import names

CREATED = "2026-01-01T00:00:00Z"


def make_pod(name: str = "train", **changes: Any) -> views.Pod:
    """A gated GPU pod of queue ``team-a`` in namespace ``ml``."""
    return msgspec.convert(pod_document(name, **changes), views.Pod)


def pod_document(
    name: str = "train",
    *,
    namespace: str = "ml",
    uid: str = "",
    version: str = "1",
    queue: str = "team-a",
    gpus: int = 1,
    resource: str = names.GPU_RESOURCE,
    gated: bool = True,
    phase: str = "Pending",
    deleting: bool = False,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    conditions: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Document of `make_pod`."""
    quantities = {resource: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": version,
            "creationTimestamp": CREATED,
            "labels": {
                names.QUEUE_LABEL: queue,
                names.MANAGED_LABEL: names.MANAGED_VALUE,
                **(labels or {}),
            },
            **({"annotations": annotations} if annotations else {}),
            **({"deletionTimestamp": CREATED} if deleting else {}),
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "train",
                    "resources": {"requests": quantities, "limits": quantities},
                }
            ],
            **({"schedulingGates": [{"name": names.ADMISSION_GATE}]} if gated else {}),
            **(spec or {}),
        },
        "status": {"phase": phase, **({"conditions": conditions} if conditions else {})},
    }


def condition(kind: str, status: str, reason: str = "R", message: str = "m") -> dict[str, Any]:
    """A condition of a Workload."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": CREATED,
    }


def make_workload(
    pod: views.Pod,
    *conditions: dict[str, Any],
    admission: dict[str, Any] | None = None,
    version: str = "1",
    deleting: bool = False,
) -> views.Workload:
    """The Workload of a pod, with conditions."""
    from admission.owners import pod as pod_owner  # noqa: PLC0415 - builders serve lower layers too
    from admission.owners.workload import PriorityClasses  # noqa: PLC0415 - likewise

    whole = views.PodDocument(metadata=pod.metadata, spec=msgspec.to_builtins(pod.spec))
    classes = PriorityClasses(workload={}, pod={})
    document = pod_owner.build(pod, whole, classes)
    document["metadata"] |= {"uid": f"wl-{pod.metadata.uid}", "resourceVersion": version,
                             "creationTimestamp": CREATED}  # fmt: skip
    if deleting:
        document["metadata"]["deletionTimestamp"] = CREATED
    document["status"] = {"conditions": list(conditions), "admission": admission}
    return msgspec.convert(document, views.Workload)


def make_admission(
    cluster_queue: str = "gpus", flavor: str = "a100", count: int = 1
) -> dict[str, Any]:
    """An admission of one pod set."""
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
