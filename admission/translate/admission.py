"""Admissions as they are written to Workloads."""

from typing import Any

from admission.base import quantity
from admission.scheduling.decisions import Admit, PodSetAssignment


def to_wire(admit: Admit) -> dict[str, Any]:
    """``status.admission`` of a Workload."""
    return {
        "clusterQueue": admit.cluster_queue,
        "podSetAssignments": [_pod_set(one) for one in admit.pod_sets],
    }


def _pod_set(one: PodSetAssignment) -> dict[str, Any]:
    document: dict[str, Any] = {"name": one.name}
    if one.flavors:
        document["flavors"] = dict(one.flavors)
        document["resourceUsage"] = {
            resource: quantity.from_canonical(resource, value)
            for resource, value in one.usage.items()
        }
    return document | {"count": one.count}
