"""Why a waiting workload is not even tried.

Source: kueue pkg/controller/core/workload_controller.go, for the condition QuotaReserved=False.
"""

from collections.abc import Mapping

from admission.base.names import ClusterQueueName
from admission.engine import messages
from admission.engine.decisions import Reason, Wait
from admission.engine.hierarchy import QueueNode
from admission.engine.model import LocalQueue, StopPolicy, Workload


def find(
    workload: Workload,
    local: LocalQueue | None,
    node: QueueNode | None,
    labels: Mapping[str, str] | None,
    *,
    unready: bool = False,
    paused: bool = False,
) -> Wait | None:
    """The first blocker; None when the workload competes.

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
        found = Reason.ADMISSION_PAUSED, messages.PAUSED
    if found is None and unready and workload.wants_quota:
        found = Reason.WAITING_FOR_PODS_READY, messages.NOT_ALL_READY
    if found is None:
        return None
    name = ClusterQueueName("") if local is None else local.cluster_queue
    return Wait(workload=workload.key, cluster_queue=name, reason=found[0], message=found[1])


def _first(
    workload: Workload,
    local: LocalQueue | None,
    node: QueueNode | None,
    labels: Mapping[str, str] | None,
) -> tuple[Reason, str] | None:
    if not workload.active:
        return Reason.DEACTIVATED, "The workload is deactivated"
    if workload.on_hold:
        return None
    found = _of_queues(workload, local, node)
    if found is not None or node is None:
        return found
    message = _misconfigured(workload, node, labels)
    if message:
        return Reason.MISCONFIGURED, message
    if workload.gates:
        return Reason.ADMISSION_GATED, messages.gated(workload.gates)
    return None


def _of_queues(
    workload: Workload, local: LocalQueue | None, node: QueueNode | None
) -> tuple[Reason, str] | None:
    if local is None:
        return Reason.MISCONFIGURED, f"LocalQueue {workload.queue.name} doesn't exist"
    if local.stop_policy != StopPolicy.NONE:
        return Reason.SUSPENDED, f"LocalQueue {local.key.name} is inactive"
    if node is None:
        return Reason.MISCONFIGURED, f"ClusterQueue {local.cluster_queue} doesn't exist"
    if not node.active:
        return Reason.SUSPENDED, messages.inactive(node.name)
    return None


def _misconfigured(workload: Workload, node: QueueNode, labels: Mapping[str, str] | None) -> str:
    if labels is None:
        return messages.no_namespace(workload.key.namespace)
    selector = node.spec.namespace_selector
    if selector is None or not selector(labels):
        return messages.WRONG_NAMESPACE
    return workload.invalid
