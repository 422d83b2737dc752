"""Why a waiting workload is not even tried.

Source: kueue pkg/controller/core/workload_controller.go, for the condition QuotaReserved=False.
"""

from collections.abc import Mapping

from admission.base import causes
from admission.base.causes import Why
from admission.base.names import ClusterQueueName
from admission.scheduling.decisions import Wait
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.model import LocalQueue, StopPolicy, Workload


def find(
    workload: Workload,
    local: LocalQueue | None,
    node: QueueNode | None,
    labels: Mapping[str, str] | None,
    *,
    unready: bool = False,
    paused: bool = False,
) -> Wait | None:
    """Return the first blocker; None when the workload competes.

    Args:
        workload: a workload without quota.
        local: its LocalQueue; None when there is none.
        node: the ClusterQueue of that; None when there is none.
        labels: of its namespace; None when there is none.
        unready: whether nothing is admitted until the pods of others are ready.
        paused: whether the administrator has paused admission.
    """
    blocker = _first(workload, local, node, labels)
    if blocker is None and paused and workload.wants_quota:
        blocker = causes.Paused()
    if blocker is None and unready and workload.wants_quota:
        blocker = causes.PodsOfOthersNotReady()
    if blocker is None:
        return None
    name = ClusterQueueName("") if local is None else local.cluster_queue
    return Wait(workload=workload.workload_key, cluster_queue=name, why=blocker)


def _first(
    workload: Workload,
    local: LocalQueue | None,
    node: QueueNode | None,
    labels: Mapping[str, str] | None,
) -> Why | None:
    if not workload.active:
        return causes.Deactivated()
    if workload.on_hold:
        return None
    blocker = _of_queues(workload, local, node)
    if blocker is not None or node is None:
        return blocker
    blocker = _misconfigured(workload, node, labels)
    if blocker is None and workload.gates:
        return causes.Gated(workload.gates)
    return blocker


def _of_queues(workload: Workload, local: LocalQueue | None, node: QueueNode | None) -> Why | None:
    if local is None:
        return causes.QueueMissing(causes.LOCAL_QUEUE, workload.queue.name)
    if local.stop_policy != StopPolicy.NONE:
        return causes.QueueInactive(causes.LOCAL_QUEUE, local.key.name)
    if node is None:
        return causes.QueueMissing(causes.CLUSTER_QUEUE, local.cluster_queue)
    if not node.active:
        return causes.QueueInactive(causes.CLUSTER_QUEUE, node.name)
    return None


def _misconfigured(
    workload: Workload, node: QueueNode, labels: Mapping[str, str] | None
) -> Why | None:
    if labels is None:
        return causes.NamespaceMissing(workload.key.namespace)
    selector = node.spec.namespace_selector
    if selector is None or not selector(labels):
        return causes.NamespaceNotServed()
    return causes.Misconfigured(workload.invalid) if workload.invalid else None
