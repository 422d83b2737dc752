"""The condition on a waiting pod that tells its owner why.

Written by a JSON patch on one element, so that conditions of others are never touched.
"""

from datetime import datetime
from typing import Any

from admission.api import views
from admission.base import clock, names
from admission.controllers.workloads import conditions
from admission.kube import patches


def current(pod: views.Pod) -> views.PodCondition | None:
    """Our condition on the pod, if any."""
    wanted = names.POD_ADMITTED_CONDITION
    return next((c for c in pod.status.conditions or () if c.type == wanted), None)


def patch(
    pod: views.Pod, *, admitted: bool, reason: str, message: str, now: datetime
) -> patches.Patch | None:
    """JSON patch of ``pods/status`` for exactly this version; None where nothing would change."""
    status = "True" if admitted else "False"
    text = conditions.cut(message)
    found = current(pod)
    if found is not None and (found.status, found.reason, found.message) == (status, reason, text):
        return None
    condition = {
        "type": names.POD_ADMITTED_CONDITION,
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


def _operation(pod: views.Pod, condition: dict[str, Any]) -> dict[str, Any]:
    path = patches.pointer("status", "conditions")
    present = pod.status.conditions
    if not present:
        return {"op": "add", "path": path, "value": [condition]}
    for index, existing in enumerate(present):
        if existing.type == condition["type"]:
            return {"op": "replace", "path": f"{path}/{index}", "value": condition}
    return {"op": "add", "path": f"{path}/-", "value": condition}
