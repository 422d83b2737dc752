"""The conditions that the controller writes on pods: why one waits, and why one is deleted.

Only the one condition is patched, so that conditions of others are never touched.
"""

from datetime import datetime
from typing import Any

from admission.api import views
from admission.base import clock, conditions, patches
from admission.objects import condition_list


def current(pod: views.Pod) -> views.PodCondition | None:
    """Our condition on the pod, if any."""
    return _find(pod, conditions.POD_ADMITTED)


def _find(pod: views.Pod, kind: str) -> views.PodCondition | None:
    return next((one for one in pod.status.conditions or () if one.type == kind), None)


def patch(
    pod: views.Pod, *, admitted: bool, reason: str, message: str, now: datetime
) -> patches.Patch | None:
    """JSON patch of ``pods/status`` for exactly this version; None where nothing would change."""
    status = "True" if admitted else "False"
    text = condition_list.cut(message)
    found = current(pod)
    if found is not None and (found.status, found.reason, found.message) == (status, reason, text):
        return None
    condition = {
        "type": conditions.POD_ADMITTED,
        "status": status,
        "reason": reason,
        "message": text,
        "lastTransitionTime": (
            found.last_transition_time
            if found is not None and found.status == status
            else clock.to_wire(now)
        ),
    }
    metadata = pod.metadata
    return patches.json_patch(
        [
            patches.test(patches.pointer("metadata", "uid"), metadata.uid),
            patches.test(
                patches.pointer("metadata", "resourceVersion"), metadata.resource_version
            ),
            _operation(pod, condition),
        ]
    )


def termination(pod: views.Pod, reason: str, message: str, now: datetime) -> patches.Patch | None:
    """Return the patch of ``pods/status`` that says why the pod is deleted, or None if it is said.

    The patch holds for any version of the pod, as its kubelet may write at any time. Source:
    kueue pkg/controller/jobs/pod/pod_controller.go (Stop).
    """
    text = condition_list.cut(message)
    found = _find(pod, conditions.TERMINATION_TARGET)
    if found is not None and (found.status, found.reason, found.message) == ("True", reason, text):
        return None
    condition = {
        "type": conditions.TERMINATION_TARGET,
        "status": "True",
        "reason": reason,
        "message": text,
        "lastTransitionTime": clock.to_wire(now),
    }
    return patches.strategic(
        {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
    )


def _operation(pod: views.Pod, condition: dict[str, Any]) -> dict[str, Any]:
    path = patches.pointer("status", "conditions")
    present = pod.status.conditions
    if not present:
        return {"op": "add", "path": path, "value": [condition]}
    for index, existing in enumerate(present):
        if existing.type == condition["type"]:
            return {"op": "replace", "path": f"{path}/{index}", "value": condition}
    return {"op": "add", "path": f"{path}/-", "value": condition}
