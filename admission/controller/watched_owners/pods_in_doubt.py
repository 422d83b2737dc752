"""Gated pods that have no Workload: those in doubt, and those for which none can be made.

The webhook gates a GPU pod when it cannot know yet whether its namespace has a queue. It gates a
pod with claims or extended resources where GPUs go through a queue, as it knows no claims and no
DeviceClasses: a gate can be taken off later, but not put on. Such a pod carries our label and no
queue. It is given to the namespace's default queue, or let go: at once if it asks for other
devices only, else a second after its creation.
"""

from datetime import datetime, timedelta
from typing import Final

from admission.base import clock, names
from admission.base.conditions import Text
from admission.base.names import LocalQueueKey
from admission.base.patches import Patch
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.writing.api_requests import WritePurpose
from admission.objects import resource_claim, views
from admission.objects.resource_claim import Sought
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner
from admission.owners import prebuilt
from admission.reasons import added_conditions

NOTHING_SOUGHT: Final = Sought(counted=False)
_GRACE: Final = timedelta(seconds=1)


def is_in_doubt(pod: views.Pod) -> bool:
    """Return whether the webhook gated the pod without knowing its queue."""
    return not pod.metadata.label(names.QUEUE_LABEL)


def decided_at(pod: views.Pod, now: datetime) -> datetime:
    """Return when a pod in doubt is released or gets its queue.

    A queue that is created in the same breath as the pod is seen by then.
    """
    created = pod.metadata.creation_timestamp
    return clock.from_wire(created) + _GRACE if created else now


def complete(
    pod: views.Pod,
    configuration: WatchedConfiguration,
    sought: Sought,
    *,
    due: bool,
    queue: str = "",
) -> tuple[WritePurpose, Patch] | None:
    """Return the change that gives a pod in doubt its queue, or lets it go; None to wait.

    Args:
        pod: the pod.
        configuration: queues and namespaces.
        sought: whether it asks for anything that is counted.
        due: whether a queue that is not there now is not waited for.
        queue: the LocalQueue that its PodGroup names; empty for none.
    """
    namespace = pod.metadata.namespace
    if sought.problem:
        return None
    if resource_claim.concerned(pod.spec) and not sought.counted:
        return WritePurpose.LET_GO, pod_owner.let_go(pod)
    managed = not configuration.leaves_out(namespace)
    if managed and queue:
        return WritePurpose.ADOPT_POD, pod_owner.put_in_queue(pod, queue)
    default = LocalQueueKey(namespace, names.DEFAULT_LOCAL_QUEUE)
    if managed and default in configuration.local_queues:
        change = pod_owner.put_in_queue(pod, names.DEFAULT_LOCAL_QUEUE)
        return WritePurpose.ADOPT_POD, change
    required = configuration.managed.queue_required or configuration.enforces(namespace)
    if not due or (managed and required):
        return None
    return WritePurpose.LET_GO, pod_owner.let_go(pod)


def hint_for(
    pod: views.Pod, configuration: WatchedConfiguration, sought: Sought = NOTHING_SOUGHT
) -> Text | None:
    """Return why no Workload can be made for a gated pod; None when one can."""
    if is_in_doubt(pod) and sought.problem:
        return added_conditions.claim_unknown(sought.problem)
    namespace = pod.metadata.namespace
    if is_in_doubt(pod) and configuration.enforces(namespace):
        return added_conditions.queue_required_in_namespace(namespace)
    if is_in_doubt(pod) and configuration.managed.queue_required:
        return added_conditions.queue_required_in_cluster()
    label = pod.metadata.label(names.PRIORITY_CLASS_LABEL)
    if label and label not in configuration.priority_classes:
        return added_conditions.pod_priority_class_not_found(label, configuration.priority_classes)
    return None


def hint_for_named(
    pod: views.Pod, workload: Workload | None, running: views.Pod | None
) -> Text | None:
    """Return why the Workload that a gated pod names is not its own; None where it names none.

    Args:
        pod: the pod.
        workload: what is there under that name.
        running: a pod that runs with it.
    """
    named = pod_owner.KIND.prebuilt_key(pod)
    name = "" if running is None else running.metadata.name
    return None if named is None else prebuilt.missing(named, workload, pod, name)
