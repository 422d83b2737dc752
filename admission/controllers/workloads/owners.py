"""What a Workload takes over from its owner when labels and annotations of the owner change.

A pod's Workload, and one that a Job names, take over no more than that; the Workload that we
make for a Job follows it in everything while it has no quota.

Source: kueue pkg/controller/jobframework/reconciler.go (UpdateAdmissionGatedBy,
UpdateWorkloadPriority, QueueNameChange); notes are Kueue's.
"""

from collections.abc import Mapping
from typing import Any

from admission.api import views
from admission.base import names
from admission.controllers.workloads import conditions, facts
from admission.controllers.writing import writes
from admission.controllers.writing.writes import Purpose, Write


def differs(owner: views.Object, workload: views.Workload) -> bool:
    """Whether a Workload is to take over a queue, class or gates from its owner."""
    return may_change_class(owner, workload) or (
        facts.is_pending(workload)
        and (names_other_queue(owner, workload) or has_other_gates(owner, workload))
    )


def names_other_queue(owner: views.Object, workload: views.Workload) -> bool:
    """Whether an owner names another LocalQueue than its Workload."""
    label = owner.metadata.label(names.QUEUE_LABEL)
    return bool(label) and label != workload.spec.queue_name


def has_other_gates(owner: views.Object, workload: views.Workload) -> bool:
    """Whether other admission gates are left on an owner than on its Workload."""
    gates = [one.metadata.annotation(names.ADMISSION_GATED_BY) for one in (owner, workload)]
    return gates[0] != gates[1]


def may_change_class(owner: views.Object, workload: views.Workload) -> bool:
    """Whether a Workload is to take over the WorkloadPriorityClass that its owner names now.

    One that took its priority from a PriorityClass keeps it. With quota, only another
    WorkloadPriorityClass may follow: the schema keeps all else as it was reserved.
    """
    reference, status = workload.spec.priority_class_ref, workload.status
    label = owner.metadata.label(names.PRIORITY_CLASS_LABEL)
    if not label or workload.metadata.deletion_timestamp or status.is_true(conditions.FINISHED):
        return False
    if reference is None:
        return facts.is_pending(workload)
    is_leaving = status.is_true(conditions.EVICTED) and not facts.is_pending(workload)
    ours = reference.group == names.KUEUE_GROUP
    return ours and reference.name != label and not is_leaving


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
    notes: list[str] = []
    label = owner.metadata.label(names.PRIORITY_CLASS_LABEL)
    if may_change_class(owner, workload) and label in classes:
        reference = {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": label}
        spec = {"priorityClassRef": reference, "priority": classes[label]}
        notes.append(class_changed(workload))
    if facts.is_pending(workload) and names_other_queue(owner, workload):
        spec["queueName"] = owner.metadata.label(names.QUEUE_LABEL)
    if spec:
        changes["spec"] = spec
    if facts.is_pending(workload) and has_other_gates(owner, workload):
        gates = {names.ADMISSION_GATED_BY: gates_of(owner) or None}
        changes["metadata"] = {"annotations": gates}
        notes.append(gates_changed(owner))
    if not changes:
        return None
    return writes.patch_workload(workload, purpose, changes, notes=tuple(notes))


def class_changed(workload: views.Workload) -> str:
    """The Workload takes over another WorkloadPriorityClass."""
    return f"Updated workload priority class: {facts.key(workload).text()}"


def gates_changed(owner: views.Object) -> str:
    """The Workload takes over which admission gates are left."""
    return f'Updated workload AdmissionGatedBy to "{gates_of(owner)}"'


def gates_of(owner: views.Object) -> str:
    """Names of admission gates, as annotated."""
    return owner.metadata.annotation(names.ADMISSION_GATED_BY)
