"""The status of a Workload at each change of its state.

Every function returns the ``status`` member of a merge patch; lists in it are whole. Source:
kueue pkg/workload/workload.go and pkg/workload/evict.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from admission.base import conditions, quantity
from admission.base.conditions import Text
from admission.base.names import PodSetName
from admission.controller.workloads import checks, evictions
from admission.objects import condition_list, views
from admission.objects.workload import (
    PodSetAssignmentStatus,
    Workload,
    admission_document,
    domains,
    topology_document,
)
from admission.reasons import added_conditions, kueue
from admission.scheduling import decisions
from admission.scheduling.model import PodDomains


def reserve(workload: Workload, admit: decisions.Admit, now: datetime) -> dict[str, Any]:
    """Return a status with quota; without an open admission check it is also admitted."""
    generation = workload.metadata.generation
    is_open = not checks.all_ready(workload, admit.checks)
    reserved = condition_list.make(
        conditions.QUOTA_RESERVED,
        kueue.quota_reserved(admit.cluster_queue),
        status=True,
        now=now,
        generation=generation,
    )
    admitted = condition_list.make(
        conditions.ADMITTED,
        kueue.CHECKS_OPEN if is_open else kueue.IS_ADMITTED,
        status=not is_open,
        now=now,
        generation=generation,
    )
    return {
        "admission": admission_document(admit),
        "resourceRequests": None,
        "conditions": condition_list.merged(
            workload, reserved, admitted, *_over(workload, now), *_surge(workload, admit, now)
        ),
    }


def replace_domains(
    workload: Workload, replaced: Mapping[PodSetName, PodDomains]
) -> dict[str, Any]:
    """Return a status in which pod sets are in other domains, and all else is as it was."""
    admission = workload.status.admission
    assigned = [
        _in_domains(assignment, replaced.get(PodSetName(assignment.name)))
        for assignment in ((admission.pod_set_assignments or ()) if admission else ())
    ]
    return {"admission": {"podSetAssignments": assigned}, "unhealthyNodes": None}


def _in_domains(assignment: PodSetAssignmentStatus, replaced: PodDomains | None) -> dict[str, Any]:
    """Return the document of an assignment with other domains; None for those that it has."""
    before = assignment.topology_assignment
    assigned = replaced or (None if before is None else domains(before))
    members = {
        "name": assignment.name,
        "flavors": assignment.flavors,
        "resourceUsage": assignment.resource_usage,
        "count": assignment.count,
        "topologyAssignment": None if assigned is None else topology_document(assigned),
    }
    return {member: value for member, value in members.items() if value is not None}


def reclaim(counts: Mapping[str, int]) -> dict[str, Any]:
    """Say how many pods of each pod set need no quota any more, by its name."""
    listed = [{"name": name, "count": count} for name, count in counts.items() if count]
    return {"reclaimablePods": listed}


def move_to_quota(workload: Workload, now: datetime) -> dict[str, Any]:
    """Charge surge quota to the ordinary quota of the ClusterQueue from now on."""
    return {"conditions": condition_list.merged(workload, _surges(workload, None, now))}


def _surge(
    workload: Workload, admit: decisions.Admit, now: datetime
) -> tuple[views.Condition, ...]:
    """Whether the quota is surge quota; nothing where that was never so."""
    if admit.surges:
        return (_surges(workload, admit.cluster_queue, now),)
    was = workload.status.is_true(conditions.USES_SURGE_QUOTA)
    return (_surges(workload, None, now),) if was else ()


def _surges(workload: Workload, cluster_queue: str | None, now: datetime) -> views.Condition:
    text = added_conditions.IN_QUOTA
    if cluster_queue is not None:
        text = added_conditions.uses_surge_quota(cluster_queue)
    return condition_list.make(
        conditions.USES_SURGE_QUOTA,
        text,
        status=cluster_queue is not None,
        now=now,
        generation=workload.metadata.generation,
    )


def finish(workload: Workload, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Return the status of a Workload that has ended; its quota is free."""
    return {
        "conditions": condition_list.merged(
            workload,
            condition_list.make(
                conditions.FINISHED,
                Text(reason, message),
                status=True,
                now=now,
                generation=workload.metadata.generation,
            ),
        )
    }


def explain(workload: Workload, wait: decisions.Wait, now: datetime) -> dict[str, Any] | None:
    """Return why the Workload has no quota; None where its conditions say so already."""
    generation = workload.metadata.generation
    reserved = condition_list.not_reserved(kueue.text(wait.why, wait.ending), now, generation)
    if condition_list.same_but_for_time(
        workload.status.condition(conditions.QUOTA_RESERVED), reserved
    ):
        return None
    status: dict[str, Any] = {
        "conditions": condition_list.merged(
            workload, reserved, condition_list.not_admitted(now, generation)
        ),
        **evictions.time_admitted(workload, now),
    }
    if wait.requests:
        status["resourceRequests"] = [
            {"name": pod_set, "resources": _quantities(requests)}
            for pod_set, requests in wait.requests
        ]
    return status


def _over(workload: Workload, now: datetime) -> tuple[views.Condition, ...]:
    """Evicted and Preempted, where True, end with a new reservation."""
    return tuple(
        condition_list.make(
            condition.type,
            kueue.over(condition.message),
            status=False,
            now=now,
            generation=workload.metadata.generation,
        )
        for condition in workload.status.conditions or ()
        if condition.type in {conditions.EVICTED, conditions.PREEMPTED}
        and condition.status == "True"
    )


def _quantities(requests: Mapping[Any, int]) -> dict[str, str]:
    return {name: quantity.from_canonical(name, requests[name]) for name in sorted(requests)}
