"""The Workload of a single pod: its name and its document.

Source: kueue pkg/controller/jobs/pod. Differs: no finalizer on a Workload that a pod owns (ADR
0002).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.api import views
from admission.base import names
from admission.controllers.workloads import prebuilt, workloadnames

_INT32_MAX: Final = 2**31 - 1
_READY: Final = "Ready"


@dataclass(frozen=True, slots=True)
class MissingPriorityClassError(Exception):
    """The pod names a WorkloadPriorityClass that does not exist."""

    name: str


def key_of(pod: views.Object) -> names.WorkloadKey:
    """Identity of the pod's Workload."""
    return workloadnames.key_for("Pod", "", pod)


def prebuilt_key(pod: views.Object) -> names.WorkloadKey | None:
    """Identity of the Workload that a single pod names for its own; None where we make it."""
    named = prebuilt.key_of(pod)
    return None if named == key_of(pod) else named


def group_name(pod: views.Pod) -> str:
    """Name of the pod group; empty for a single pod. The annotation wins over the label."""
    metadata = pod.metadata
    return metadata.annotation(names.POD_GROUP_NAME) or metadata.label(names.POD_GROUP_NAME)


def is_gated(pod: views.Pod) -> bool:
    """Whether our scheduling gate holds the pod."""
    return any(gate.name == names.ADMISSION_GATE for gate in pod.spec.scheduling_gates or ())


def is_terminal(pod: views.Pod) -> bool:
    """Whether all containers have ended for good."""
    return pod.status.phase in {"Succeeded", "Failed"}


def is_ready(pod: views.Pod) -> bool:
    """Whether all containers of the pod are ready."""
    return any(one.type == _READY and one.status == "True" for one in pod.status.conditions or ())


def labels(metadata: views.ObjectMeta, copied: Iterable[str]) -> dict[str, str]:
    """Labels of the Workload of a pod or Job: who it is, and those it takes over."""
    present = metadata.labels or {}
    found = {key: present[key] for key in copied if key in present}
    return {**found, names.JOB_UID_LABEL: metadata.uid}


def annotations(metadata: views.ObjectMeta) -> dict[str, str]:
    """Return the annotations that the Workload of a pod or Job takes over when it is made.

    Source: kueue pkg/util/admissioncheck/admissioncheck.go (FilterProvReqAnnotations).
    """
    present = metadata.annotations or {}
    found = {k: v for k, v in present.items() if k.startswith(names.PROVISIONING_PREFIX)}
    gated_by = metadata.annotation(names.ADMISSION_GATED_BY)
    return {**found, names.ADMISSION_GATED_BY: gated_by} if gated_by else found


def build(
    pod: views.Pod,
    spec: Mapping[str, Any],
    priority_classes: Mapping[str, int],
    copied: Iterable[str] = (),
) -> dict[str, Any]:
    """Document of the pod's Workload.

    Args:
        pod: the pod.
        spec: its whole spec as stored, which becomes the template of the one pod set.
        priority_classes: values of the WorkloadPriorityClasses by name.
        copied: keys of labels that the Workload takes over.

    Raises:
        MissingPriorityClassError: the pod names a class that is not among them.
    """
    metadata = pod.metadata
    key = key_of(pod)
    document: dict[str, Any] = {
        "apiVersion": f"{names.KUEUE_GROUP}/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": labels(metadata, copied),
            "ownerReferences": [owner(metadata)],
        },
        "spec": {
            "queueName": metadata.label(names.QUEUE_LABEL),
            "podSets": [
                {
                    "name": names.DEFAULT_PODSET,
                    "count": 1,
                    "template": {"spec": template_spec(spec)},
                }
            ],
            **_priority(pod, priority_classes),
        },
    }
    taken_over = annotations(metadata)
    if taken_over:
        document["metadata"]["annotations"] = taken_over
    seconds = max_execution_seconds(metadata.label(names.MAX_EXEC_TIME_LABEL))
    if seconds is not None:
        document["spec"]["maximumExecutionTimeSeconds"] = seconds
    return document


def owner(metadata: views.ObjectMeta) -> dict[str, Any]:
    """Reference to a pod as the controller of its Workload."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _priority(pod: views.Pod, classes: Mapping[str, int]) -> dict[str, Any]:
    """Priority and its source: WorkloadPriorityClass, else PriorityClass, else none."""
    label = pod.metadata.label(names.PRIORITY_CLASS_LABEL)
    if label:
        if label not in classes:
            raise MissingPriorityClassError(label)
        reference = {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": label}
        return {"priorityClassRef": reference, "priority": classes[label]}
    if pod.spec.priority_class_name:
        reference = {
            "group": "scheduling.k8s.io",
            "kind": "PriorityClass",
            "name": pod.spec.priority_class_name,
        }
        return {"priorityClassRef": reference, "priority": pod.spec.priority or 0}
    return {"priority": pod.spec.priority or 0}


def max_execution_seconds(label: str) -> int | None:
    """Seconds from the label; None where the webhook would have refused it or int32 ends."""
    if not label.isdecimal():
        return None
    seconds = int(label)
    return seconds if 0 < seconds <= _INT32_MAX else None


def template_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The pod's spec with repeated environment variables collapsed, the last one wins.

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
