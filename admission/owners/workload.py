"""The Workload of an owner of any kind: its name, and what it takes over from its owner.

Source: kueue pkg/controller/jobframework/workload_names.go and reconciler.go
(UpdateAdmissionGatedBy, UpdateWorkloadPriority, QueueNameChange).
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from admission.base import conditions, events, names
from admission.base.events import Event
from admission.objects import views
from admission.objects.workload import Workload

_MAX_NAME: Final = 253
_HASH_LENGTH: Final = 5
_INT32_MAX: Final = 2**31 - 1
_REMEMBERED: Final = 4096
"""Names that are not computed again: that of an owner is asked for many times in a row."""


@dataclass(frozen=True, slots=True)
class MissingPriorityClassError(Exception):
    """The owner names a class that does not exist."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClasses:
    """Where the priority of a Workload may come from.

    Attributes:
        workload: values of the WorkloadPriorityClasses by name.
        pod: the PriorityClasses by name.
        kept: class and priority, as a Workload's spec has them, of an owner that names a
            WorkloadPriorityClass that does not exist; None where that is an error.
    """

    workload: Mapping[str, int]
    pod: Mapping[str, views.PriorityClass]
    kept: Mapping[str, Any] | None = None


@lru_cache(maxsize=_REMEMBERED)
def name_for(kind: str, group: str, name: str, uid: str, revision: str = "") -> str:
    """Return ``<kind>-<name>-<hash>``, at most 253 characters.

    The hash makes the name of an owner that was made anew another one; so does its revision where
    that is given.
    """
    parts = (kind, group, name, uid, *((revision,) if revision else ()))
    digest = hashlib.sha1(  # noqa: S324 - Kueue's naming rule, no security depends on it
        "\n".join(parts).encode()
    ).hexdigest()[:_HASH_LENGTH]
    prefix = f"{kind.lower()}-{name}"[: _MAX_NAME - _HASH_LENGTH - 1]
    return f"{prefix}-{digest}"


def document(
    key: names.WorkloadKey,
    owner: views.ObjectMeta,
    reference: Mapping[str, Any],
    copied: Iterable[str],
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the document of an owner's Workload, without annotations and finalizers.

    Args:
        key: identity of the Workload.
        owner: metadata of the owner.
        reference: reference to the owner, as the controller of the Workload.
        copied: keys of labels that the Workload takes over.
        spec: of the Workload.
    """
    present = owner.labels or {}
    taken_over = {label: present[label] for label in copied if label in present}
    return {
        "apiVersion": f"{names.KUEUE_GROUP}/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {**taken_over, names.JOB_UID_LABEL: owner.uid},
            "ownerReferences": [reference],
        },
        "spec": spec,
    }


_TAKEN_OVER: Final = (names.MINIMUM_RUN_TIME, names.PREEMPTION_NOTICE, names.REQUESTER)


def annotations(owner: views.ObjectMeta) -> dict[str, str]:
    """Return the annotations that a Workload takes over from its owner when it is made.

    Source: kueue pkg/util/admissioncheck/admissioncheck.go (FilterProvReqAnnotations).
    """
    present = owner.annotations or {}
    annotations_ = {k: v for k, v in present.items() if k.startswith(names.PROVISIONING_PREFIX)}
    annotations_ |= {key: present[key] for key in _TAKEN_OVER if key in present}
    gated_by = owner.annotation(names.ADMISSION_GATED_BY)
    return {**annotations_, names.ADMISSION_GATED_BY: gated_by} if gated_by else annotations_


def labelled_priority(owner: views.ObjectMeta, classes: PriorityClasses) -> dict[str, Any]:
    """Return priority and class from the label of an owner; empty without the label.

    Args:
        owner: metadata of the owner.
        classes: that it may name.

    Raises:
        MissingPriorityClassError: the label names a class that does not exist, and none is kept.
    """
    label = owner.label(names.PRIORITY_CLASS_LABEL)
    if not label:
        return {}
    if label not in classes.workload:
        if classes.kept is None:
            raise MissingPriorityClassError(label)
        return dict(classes.kept)
    return _of_workload_class(label, classes.workload[label])


def pod_priority(name: str, value: int) -> dict[str, Any]:
    """Return priority and class of a Workload whose pods have a PriorityClass."""
    reference = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
    return {"priorityClassRef": reference, "priority": value}


def pod_class_priority(name: str, classes: PriorityClasses) -> dict[str, Any]:
    """Return priority and class of a Workload whose pods name a PriorityClass, or none.

    Args:
        name: of the class; empty for the global default with the lowest value.
        classes: that they may name.

    Raises:
        MissingPriorityClassError: the class is not among them.
    """
    defaults = [
        (priority_class.value, key)
        for key, priority_class in classes.pod.items()
        if priority_class.global_default
    ]
    name = name or (min(defaults)[1] if defaults else "")
    if not name:
        return {"priority": 0}
    if name not in classes.pod:
        raise MissingPriorityClassError(name)
    return pod_priority(name, classes.pod[name].value)


def kept_priority(workload: Workload) -> dict[str, Any]:
    """Return class and priority of a Workload, as its spec has them."""
    reference, priority = workload.spec.priority_class_ref, workload.spec.priority or 0
    if reference is None:
        return {"priority": priority}
    fields = {"group": reference.group, "kind": reference.kind, "name": reference.name}
    return {"priorityClassRef": fields, "priority": priority}


def _of_workload_class(name: str, value: int) -> dict[str, Any]:
    reference = {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": name}
    return {"priorityClassRef": reference, "priority": value}


def time_limit(owner: views.ObjectMeta) -> dict[str, int]:
    """Return the member of a Workload's spec that limits the owner's running time, if it does."""
    seconds = max_execution_seconds(owner)
    return {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}


def max_execution_seconds(owner: views.ObjectMeta) -> int | None:
    """Return the limit on the running time from the label of an owner.

    None where the webhook would have refused the label, or int32 ends.
    """
    label = owner.label(names.MAX_EXEC_TIME_LABEL)
    if not label.isdecimal():
        return None
    seconds = int(label)
    return seconds if 0 < seconds <= _INT32_MAX else None


def template_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod's spec with repeated environment variables collapsed; the last one wins.

    A pod may repeat a variable; the Workload's schema keys them by name.
    """
    result = dict(spec)
    for field in ("containers", "initContainers"):
        if result.get(field):
            result[field] = [_without_repeats(container) for container in result[field]]
    return result


def _without_repeats(container: Mapping[str, Any]) -> dict[str, Any]:
    env = container.get("env")
    if not env:
        return dict(container)
    last = {variable["name"]: variable for variable in env}
    return {**container, "env": list(last.values())}


# ------------------------------------------------------- when labels and annotations change


def differs(owner: views.Object, workload: Workload) -> bool:
    """Return whether a Workload is to take over a queue, class or gates from its owner."""
    return may_change_class(owner, workload) or differs_beside_class(owner, workload)


def differs_beside_class(owner: views.Object, workload: Workload) -> bool:
    """Return whether a Workload is to take over a queue or gates from its owner."""
    return workload.is_pending() and (
        names_other_queue(owner, workload) or has_other_gates(owner, workload)
    )


def names_other_queue(owner: views.Object, workload: Workload) -> bool:
    """Return whether an owner names another LocalQueue than its Workload."""
    label = owner.metadata.label(names.QUEUE_LABEL)
    return bool(label) and label != workload.spec.queue_name


def has_other_gates(owner: views.Object, workload: Workload) -> bool:
    """Return whether other admission gates are left on an owner than on its Workload."""
    gates = [
        metadata_holder.metadata.annotation(names.ADMISSION_GATED_BY)
        for metadata_holder in (owner, workload)
    ]
    return gates[0] != gates[1]


def names_other_class(owner: views.Object, workload: Workload) -> bool:
    """Return whether a Workload has another WorkloadPriorityClass than its owner names."""
    reference = workload.spec.priority_class_ref
    ours = reference is not None and reference.group == names.KUEUE_GROUP
    named = reference.name if reference is not None and ours else ""
    return named != owner.metadata.label(names.PRIORITY_CLASS_LABEL)


def may_change_class(owner: views.Object, workload: Workload) -> bool:
    """Return whether a Workload is to take over the WorkloadPriorityClass of its owner.

    One that took its priority from a PriorityClass keeps it. With quota, only another
    WorkloadPriorityClass may follow: the schema keeps all else as it was reserved.
    """
    reference, status = workload.spec.priority_class_ref, workload.status
    label = owner.metadata.label(names.PRIORITY_CLASS_LABEL)
    if not label or workload.metadata.deletion_timestamp or status.is_true(conditions.FINISHED):
        return False
    if reference is None:
        return workload.is_pending()
    is_leaving = status.is_true(conditions.EVICTED) and not workload.is_pending()
    ours = reference.group == names.KUEUE_GROUP
    return ours and reference.name != label and not is_leaving


def changes_for(
    owner: views.Object, workload: Workload, classes: Mapping[str, int]
) -> tuple[dict[str, Any], tuple[Event, ...]]:
    """Return what a Workload takes over from its owner now, and what events say about it.

    Args:
        owner: the owner.
        workload: its Workload, which has not ended.
        classes: values of the WorkloadPriorityClasses by name; one that is missing is waited for.
    """
    changes: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    events_told: list[Event] = []
    label = owner.metadata.label(names.PRIORITY_CLASS_LABEL)
    if may_change_class(owner, workload) and label in classes:
        spec = _of_workload_class(label, classes[label])
        events_told.append(class_changed(workload))
    if workload.is_pending() and names_other_queue(owner, workload):
        spec["queueName"] = owner.metadata.label(names.QUEUE_LABEL)
    if spec:
        changes["spec"] = spec
    if workload.is_pending() and has_other_gates(owner, workload):
        gates = {names.ADMISSION_GATED_BY: gates_of(owner) or None}
        changes["metadata"] = {"annotations": gates}
        events_told.append(gates_changed(owner))
    return changes, tuple(events_told)


def class_changed(workload: Workload) -> Event:
    """Return the event: the Workload takes over another WorkloadPriorityClass."""
    return events.updated_priority_class(workload.key().text())


def gates_changed(owner: views.Object) -> Event:
    """Return the event: the Workload takes over which admission gates are left."""
    return events.updated_gates(gates_of(owner))


def gates_of(owner: views.Object) -> str:
    """Return the names of an owner's admission gates, as annotated."""
    return owner.metadata.annotation(names.ADMISSION_GATED_BY)
