"""What the Workload of a pod takes over when labels and annotations of the pod change.

A Workload that a Job names takes over no more than that, either.

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
    owner: views.Object,
    workload: views.Workload,
    classes: Mapping[str, int],
    purpose: Purpose = Purpose.FOLLOW_POD,
) -> Write | None:
    """Makes the Workload say what its owner says now; None where nothing is to be written yet.

    Args:
        owner: the pod or Job.
        workload: its Workload, which has not ended.
        classes: values of the WorkloadPriorityClasses by name; one that is missing is waited for.
        purpose: of the write.
    """
    changes: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    label = owner.metadata.label(names.PRIORITY_CLASS_LABEL)
    if lifecycle.may_change_class(owner, workload) and label in classes:
        reference = {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": label}
        spec = {"priorityClassRef": reference, "priority": classes[label]}
    if lifecycle.is_pending(workload) and lifecycle.names_other_queue(owner, workload):
        spec["queueName"] = owner.metadata.label(names.QUEUE_LABEL)
    if spec:
        changes["spec"] = spec
    if lifecycle.is_pending(workload) and lifecycle.has_other_gates(owner, workload):
        gates = {names.ADMISSION_GATED_BY: ownernotes.gates_of(owner) or None}
        changes["metadata"] = {"annotations": gates}
    return writes.patch_workload(workload, purpose, changes) if changes else None


def notes(owner: views.Object, workload: views.Workload) -> Iterator[str]:
    """What is said on an owner of what its Workload takes over; call before that is seen."""
    if lifecycle.may_change_class(owner, workload):
        yield ownernotes.class_changed(workload)
    if lifecycle.has_other_gates(owner, workload):
        yield ownernotes.gates_changed(owner)
