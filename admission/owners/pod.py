"""Pods as owners: a single pod is held by our scheduling gate until its Workload is admitted.

Source: kueue pkg/controller/jobs/pod. Differs: no finalizer on a Workload that a pod owns (ADR
0002).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from admission.api import views
from admission.base import conditions, names, patches
from admission.base.conditions import Text
from admission.owners import injection
from admission.owners.framework import Kind, Owner
from admission.owners.injection import Injection
from admission.owners.workload import (
    annotations,
    document,
    labelled_priority,
    max_execution_seconds,
    pod_priority,
    template_spec,
    time_limit,
)

KIND: Final = Kind(api_version="v1", name="Pod", holds_workload=False, is_deleted_to_stop=True)
_READY: Final = "Ready"


@dataclass(frozen=True, slots=True)
class PodOwner(Owner):
    """A single pod."""

    view: views.Pod

    @property
    @override
    def kind(self) -> Kind:
        return KIND

    @override
    def is_held(self) -> bool:
        return is_gated(self.view)

    @override
    def is_active(self) -> bool:
        return False  # a gated pod has no containers

    @override
    def is_ready(self) -> bool:
        return is_ready(self.view)

    @override
    def finished(self) -> Text | None:
        if self.view.metadata.deletion_timestamp:
            return conditions.OWNER_NOT_FOUND
        if not is_terminal(self.view):
            return None
        status = self.view.status
        return conditions.owner_finished(status.message, succeeded=status.phase == "Succeeded")

    @override
    def missing_workload(self) -> Text:
        if self.view.metadata.annotation(names.WORKLOAD_ANNOTATION) == KIND.key_of(self.view).name:
            return conditions.WORKLOAD_DELETED  # the pod was admitted by it
        return conditions.WORKLOAD_MISSING

    @override
    def start(self, of: views.Workload, given: Injection) -> patches.Patch:
        return release(self.view, given)

    @override
    def stands_for(self, of: views.Workload) -> bool:
        asked = [(one.name, one.count, one.min_count) for one in of.spec.pod_sets or ()]
        limit = of.spec.maximum_execution_time_seconds
        seconds = max_execution_seconds(self.view.metadata)
        return asked == [(names.DEFAULT_PODSET, 1, None)] and limit == seconds


def group_name(pod: views.Pod) -> str:
    """Return the name of the pod group, empty for a single pod.

    The annotation wins over the label.
    """
    metadata = pod.metadata
    return metadata.annotation(names.POD_GROUP_NAME) or metadata.label(names.POD_GROUP_NAME)


def is_gated(pod: views.Pod) -> bool:
    """Return whether our scheduling gate holds the pod."""
    return any(gate.name == names.ADMISSION_GATE for gate in pod.spec.scheduling_gates or ())


def is_terminal(pod: views.Pod) -> bool:
    """Return whether all containers have ended for good."""
    return pod.status.phase in {"Succeeded", "Failed"}


def is_ready(pod: views.Pod) -> bool:
    """Return whether all containers of the pod are ready."""
    return any(one.type == _READY and one.status == "True" for one in pod.status.conditions or ())


def build(
    pod: views.Pod,
    spec: Mapping[str, Any],
    priority_classes: Mapping[str, int],
    copied: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the document of the pod's Workload.

    Args:
        pod: the pod.
        spec: its whole spec as stored, which becomes the template of the one pod set.
        priority_classes: values of the WorkloadPriorityClasses by name.
        copied: keys of labels that the Workload takes over.

    Raises:
        MissingPriorityClassError: the pod names a class that is not among them.
    """
    metadata = pod.metadata
    template = {"spec": template_spec(spec)}
    asked = {
        "queueName": metadata.label(names.QUEUE_LABEL),
        "podSets": [{"name": names.DEFAULT_PODSET, "count": 1, "template": template}],
        **_priority(pod, priority_classes),
        **time_limit(metadata),
    }
    made = document(KIND.key_of(pod), metadata, KIND.reference(metadata), copied, asked)
    taken_over = annotations(metadata)
    if taken_over:
        made["metadata"]["annotations"] = taken_over
    return made


def _priority(pod: views.Pod, classes: Mapping[str, int]) -> dict[str, Any]:
    """Return priority and its source: WorkloadPriorityClass, else PriorityClass, else none."""
    labelled = labelled_priority(pod.metadata, classes)
    if labelled:
        return labelled
    value = pod.spec.priority or 0
    name = pod.spec.priority_class_name
    return pod_priority(name, value) if name else {"priority": value}


def release(pod: views.Pod, given: Injection) -> patches.Patch:
    """Return the merge patch that releases exactly this version of the pod.

    Raises:
        InjectionConflictError: the pod contradicts the injection.
    """
    added, changes = injection.into_template(given, pod.metadata, pod.spec)
    return patches.merge(
        {
            "metadata": {**_precondition(pod), **added},
            "spec": {"schedulingGates": _foreign_gates(pod), **changes},
        }
    )


def let_go(pod: views.Pod) -> patches.Patch:
    """Return the merge patch that takes our gate and label off: the pod is not ours."""
    return patches.merge(
        {
            "metadata": {**_precondition(pod), "labels": {names.MANAGED_LABEL: None}},
            "spec": {"schedulingGates": _foreign_gates(pod)},
        }
    )


def adopt(pod: views.Pod, queue: str) -> patches.Patch:
    """Return the merge patch that gives exactly this version of the pod a queue."""
    return patches.merge(
        {"metadata": {**_precondition(pod), "labels": {names.QUEUE_LABEL: queue}}}
    )


def _precondition(pod: views.Pod) -> dict[str, str]:
    return {"resourceVersion": pod.metadata.resource_version, "uid": pod.metadata.uid}


def _foreign_gates(pod: views.Pod) -> list[dict[str, str]]:
    """Return the gates that stay: all of others.

    Kueue puts its topology gate on every pod, so a pod that was taken over from it loses both. A
    pod that was created with that gate under this program keeps it (ADR 0091).
    """
    ours = {names.ADMISSION_GATE}
    if not pod.metadata.annotation(names.FOREIGN_TOPOLOGY_GATE):
        ours.add(names.TOPOLOGY_GATE)
    gates = pod.spec.scheduling_gates or ()
    return [{"name": gate.name} for gate in gates if gate.name not in ours]
