"""Which queues and classes a Workload depends on, and which Workloads a change concerns."""

from datetime import datetime

from admission.base.causes import MemberCounts
from admission.base.names import LocalQueueKey, WorkloadKey
from admission.config.kueue_configuration import WaitForPodsReady
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.workloads.following import PrioritySync
from admission.controller.workloads.rules import WorkloadContext
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.objects.workload import Workload


def queues(
    workload: Workload, configuration: WatchedConfiguration
) -> tuple[LocalQueue | None, ClusterQueue | None]:
    """Return the queue that a Workload names, and where it holds quota, or would."""
    local = configuration.local_queues.get(_local_queue(workload))
    return local, configuration.cluster_queues.get(_cluster_queue(workload, local))


def around(
    workload: Workload,
    configuration: WatchedConfiguration,
    following: PrioritySync,
    now: datetime,
    *,
    waiting: WaitForPodsReady | None,
    pods_ready: bool | None,
    members: MemberCounts | None,
    members_changed_at: datetime | None,
    members_changing_since: datetime | None,
    refusal: str,
) -> WorkloadContext:
    """Return the objects on which decisions about a Workload depend."""
    local, cluster = queues(workload, configuration)
    return WorkloadContext(
        local_queue=local,
        cluster_queue=cluster,
        priority=following.priority(workload, configuration.priority_classes),
        now=now,
        settings=configuration.settings,
        waiting=waiting,
        pods_ready=pods_ready,
        members=members,
        members_changed_at=members_changed_at,
        members_changing_since=members_changing_since,
        refusal=refusal,
    )


def of(
    resource: Resource,
    changed: views.Object,
    configuration: WatchedConfiguration,
    workloads: WorkloadIndex,
) -> tuple[WorkloadKey, ...]:
    """Return the Workloads that have to be looked at again after a change of an object."""
    name, namespace = changed.metadata.name, changed.metadata.namespace
    if resource is resources.NAMESPACES:
        return workloads.in_namespace(name)
    if resource is resources.LOCAL_QUEUES:
        return workloads.of_local_queue(LocalQueueKey(namespace, name))
    if resource is resources.CLUSTER_QUEUES:
        behind = configuration.behind(name)
        waiting = [key for queue in behind for key in workloads.of_local_queue(queue)]
        return (*workloads.reserving_in(name), *waiting)
    if resource is resources.WORKLOAD_PRIORITY_CLASSES:
        return workloads.of_class(name)
    if resource is resources.RESOURCE_FLAVORS:
        return workloads.in_flavor(name)
    return ()


def _local_queue(workload: Workload) -> LocalQueueKey:
    return LocalQueueKey(workload.metadata.namespace, workload.spec.queue_name)


def _cluster_queue(workload: Workload, local: LocalQueue | None) -> str:
    """Return the ClusterQueue in which a Workload holds quota, else that of its LocalQueue.

    It is empty for nowhere.
    """
    admission = workload.status.admission
    if admission is not None:
        return admission.cluster_queue
    return local.spec.cluster_queue if local is not None else ""
