"""A cluster with two ClusterQueues in a Cohort, as objects that were read."""

from collections.abc import Mapping
from typing import Any

import msgspec

from admission.answers import cluster
from admission.answers.cluster import Objects, Read
from admission.base import names
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload
from tests.builders.cluster import make_node
from tests.builders.metadata import Document, make_condition, store
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_admission, make_pod_set, make_workload

GPU = names.GPU_RESOURCE
RECLAIMS = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def queue(name: str, nominal: int, used: int, pending: int = 0, **spec: Any) -> Document:
    """A ClusterQueue of the Cohort ``all`` with its status."""
    borrowed = max(0, used - nominal)
    status = {
        "conditions": [make_condition("Active")],
        "pendingWorkloads": pending,
        "flavorsReservation": [
            {
                "name": "a100",
                "resources": [{"name": GPU, "total": str(used), "borrowed": str(borrowed)}],
            }
        ],
    }
    made = make_cluster_queue(
        name, quota=nominal, status=status, **{"cohortName": "all", "preemption": RECLAIMS, **spec}
    )
    store(made)
    return made


def holding(
    name: str, queue: str, gpus: int, *conditions: Document, at: str = "2026-01-01T00:00:00Z",
    priority: int = 0, deleting: bool = False, annotations: Mapping[str, str] | None = None,
) -> Document:  # fmt: skip
    """A Workload of team ml that is admitted."""
    held = [make_condition("QuotaReserved"), make_condition("Admitted"), *conditions]
    held[0]["lastTransitionTime"] = at
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{name}", "uid": "u"}
    metadata = {"ownerReferences": [owner], "annotations": dict(annotations or {})}
    made = make_workload(
        name, make_pod_set(gpus=gpus), queue=queue, metadata=metadata, priority=priority,
        status={"conditions": held, "admission": make_admission(queue, "a100", gpus)},
    )  # fmt: skip
    store(made, deleting=deleting)
    return made


def waiting(name: str, queue: str, gpus: int, *, priority: int = 0, uid: str = "") -> Document:
    """A Workload of team ml that waits."""
    status = {"conditions": [make_condition("QuotaReserved", "False", "Pending", "no room")]}
    made = make_workload(
        name, make_pod_set(gpus=gpus), queue=queue, priority=priority, status=status
    )
    store(made, uid=uid)
    return made


def pod(name: str, workload: str, gpus: int, node: str = "n1", **more: Any) -> Document:
    """A pod that an admission has started, on a node."""
    deleting = bool(more.pop("deleting", False))
    made = make_pod(
        name, namespace="ml", gpus=gpus, nodeName=node,
        labels={names.PODSET_LABEL: "main", names.CLUSTER_QUEUE_NAME_LABEL: "research"},
        annotations={names.WORKLOAD_ANNOTATION: workload} if workload else {},
        status={"phase": "Running"}, **more,
    )  # fmt: skip
    store(made, deleting=deleting)
    return made


def objects(
    *documents: Document,
    queues: tuple[Document, ...],
    missing: tuple[str, ...] = (),
    nodes: tuple[Document, ...] = (),
) -> Objects:
    """The objects, with a LocalQueue for each ClusterQueue in the namespace ``ml``."""

    def of(kind: str, into: type[Any]) -> tuple[Any, ...]:
        return tuple(msgspec.convert(one, into) for one in documents if one["kind"] == kind)

    return Objects(
        cluster_queues=tuple(msgspec.convert(one, ClusterQueue) for one in queues),
        local_queues=tuple(
            msgspec.convert(
                make_local_queue(one["metadata"]["name"], one["metadata"]["name"]), LocalQueue
            )
            for one in queues
        ),
        flavors=(msgspec.convert(make_flavor("a100"), ResourceFlavor),),
        workloads=of("Workload", Workload),
        pods=of("Pod", views.Pod),
        nodes=tuple(msgspec.convert(one, views.Node) for one in nodes),
        missing=missing,
    )


def related(
    *documents: Document,
    queues: tuple[Document, ...],
    missing: tuple[str, ...] = (),
    nodes: tuple[Document, ...] = (),
) -> Read:
    """The same, put in relation."""
    return cluster.relate(objects(*documents, queues=queues, missing=missing, nodes=nodes))


def gpu_node(name: str, gpus: int) -> Document:
    """A node of the flavor ``a100``."""
    return make_node(name, {names.GPU_PRODUCT_LABEL: "a100"}, {GPU: gpus})
