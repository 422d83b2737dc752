"""What the Workload of a pod takes over when labels and annotations of the pod change.

Source: kueue pkg/controller/jobframework/reconciler.go (UpdateAdmissionGatedBy,
UpdateWorkloadPriority, QueueNameChange); notes are Kueue's.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from admission.api import views
from admission.base import names
from admission.controllers import lifecycle, ownernotes, writes
from admission.controllers.writes import Purpose, Write


def write_for(
    pod: views.Pod, workload: views.Workload, classes: Mapping[str, int]
) -> Write | None:
    """Makes the Workload say what its pod says now; None where nothing is to be written yet.

    Args:
        pod: the pod.
        workload: its Workload, which has not ended.
        classes: values of the WorkloadPriorityClasses by name; one that is missing is waited for.
    """
    changes: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    label = pod.metadata.label(names.PRIORITY_CLASS_LABEL)
    if lifecycle.may_change_class(pod, workload) and label in classes:
        reference = {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": label}
        spec = {"priorityClassRef": reference, "priority": classes[label]}
    if lifecycle.is_pending(workload) and lifecycle.names_other_queue(pod, workload):
        spec["queueName"] = pod.metadata.label(names.QUEUE_LABEL)
    if spec:
        changes["spec"] = spec
    if lifecycle.is_pending(workload) and lifecycle.has_other_gates(pod, workload):
        gates = {names.ADMISSION_GATED_BY: ownernotes.gates_of(pod) or None}
        changes["metadata"] = {"annotations": gates}
    return writes.patch_workload(workload, Purpose.FOLLOW_POD, changes) if changes else None


def notes(pod: views.Pod, workload: views.Workload) -> Iterator[str]:
    """What is said on a pod of what its Workload takes over; call before that is seen."""
    if lifecycle.may_change_class(pod, workload):
        yield ownernotes.class_changed(workload)
    if lifecycle.has_other_gates(pod, workload):
        yield ownernotes.gates_changed(pod)
