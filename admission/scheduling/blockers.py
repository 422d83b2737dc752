"""Why a waiting workload is not even tried.

Source: kueue pkg/controller/core/workload_controller.go, for the condition QuotaReserved=False.
"""

from collections.abc import Mapping

from admission.base import conditions
from admission.base.conditions import Text
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
    found = _first(workload, local, node, labels)
    if found is None and paused and workload.wants_quota:
        found = conditions.PAUSED
    if found is None and unready and workload.wants_quota:
        found = conditions.NOT_ALL_READY
    if found is None:
        return None
    name = ClusterQueueName("") if local is None else local.cluster_queue
    return Wait(
        workload=workload.key, cluster_queue=name, reason=found.reason, message=found.message
    )


def _first(
    workload: Workload,
    local: LocalQueue | None,
    node: QueueNode | None,
    labels: Mapping[str, str] | None,
) -> Text | None:
    if not workload.active:
        return conditions.DEACTIVATED
    if workload.on_hold:
        return None
    found = _of_queues(workload, local, node)
    if found is not None or node is None:
        return found
    found = _misconfigured(workload, node, labels)
    if found is None and workload.gates:
        return conditions.gated(workload.gates)
    return found


def _of_queues(
    workload: Workload, local: LocalQueue | None, node: QueueNode | None
) -> Text | None:
    if local is None:
        return conditions.no_local_queue(workload.queue.name)
    if local.stop_policy != StopPolicy.NONE:
        return conditions.inactive_local_queue(local.key.name)
    if node is None:
        return conditions.no_cluster_queue(local.cluster_queue)
    if not node.active:
        return conditions.inactive_cluster_queue(node.name)
    return None


def _misconfigured(
    workload: Workload, node: QueueNode, labels: Mapping[str, str] | None
) -> Text | None:
    if labels is None:
        return conditions.no_namespace(workload.key.namespace)
    selector = node.spec.namespace_selector
    if selector is None or not selector(labels):
        return conditions.WRONG_NAMESPACE
    return conditions.misconfigured(workload.invalid) if workload.invalid else None
