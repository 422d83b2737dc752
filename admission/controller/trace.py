"""One log line for each decision that changes an object; see docs/reference/logs.md.

Lines about a Workload follow from how it changed, whoever wrote that. Lines about a pod or a Job
follow from writes that took effect.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.base import conditions, logs, names, quantity
from admission.base.conditions import EvictionReason, WaitReason
from admission.base.errors import InvalidValueError
from admission.base.names import WorkloadKey
from admission.controller.writing.api_requests import ApiRequest, RequestResult, WritePurpose
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import Admission, Workload
from admission.owners import pod as pod_owner
from admission.scheduling import decisions

_OWNERS: Final = {"Pod": "pod", "Job": "job"}
_WRITTEN: Final[Mapping[WritePurpose, tuple[str, str]]] = {
    WritePurpose.ADOPT_POD: ("pod adopted", "pod"),
    WritePurpose.LET_GO: ("pod let go", "pod"),
    WritePurpose.DELETE_OWNER: ("owner deleted", "owner"),
}
"""Message of the line about a write, and the field that names what was written."""
_OF_OWNERS: Final[Mapping[WritePurpose, str]] = {
    WritePurpose.START_OWNER: "started",
    WritePurpose.STOP_OWNER: "stopped",
}
"""What is said of an owner, after its kind."""


class Trace:
    """Writes the lines."""

    def __init__(self) -> None:
        self._log = logs.get("decisions")

    def changed(
        self,
        old: Workload | None,
        new: Workload,
        preemption: decisions.Evict | None = None,
    ) -> None:
        """Log what is different from the last sight of a Workload; nothing of the first one.

        Args:
            old: as last seen.
            new: as it is now.
            preemption: the last decision to evict it for another Workload.
        """
        if old is None or old.metadata.uid != new.metadata.uid:
            return
        before, after = old.status, new.status
        if old.spec.active is not False and new.spec.active is False:
            self._tell("workload deactivated", new, conditions.DEACTIVATION_TARGET)
        if before.conditions == after.conditions:
            return
        if _became_true(old, new, conditions.EVICTED):
            self._tell_eviction(old, new, preemption)
        if _became_true(old, new, conditions.ADMITTED):
            self._tell("workload admitted", new, conditions.ADMITTED, holding=new)
        elif _became_true(old, new, conditions.QUOTA_RESERVED):
            self._tell("quota reserved", new, conditions.QUOTA_RESERVED, holding=new)
        elif _became_true(new, old, conditions.QUOTA_RESERVED):
            self._tell("quota released", new, conditions.QUOTA_RESERVED, holding=old)
        elif _waits_otherwise(old, new):
            self._tell("workload held", new, conditions.QUOTA_RESERVED)
        if _became_true(old, new, conditions.FINISHED):
            self._tell("workload finished", new, conditions.FINISHED, holding=new)

    def written(self, key: WorkloadKey, outcome: RequestResult, workload: Workload | None) -> None:
        """Log a write that took effect.

        Args:
            key: key of the Workload.
            outcome: of the write.
            workload: as last seen; None where there is none.
        """
        request = outcome.request
        if request.operation is WritePurpose.EXPLAIN_POD and workload is None:
            self._tell_held_pod(outcome.object)
        elif request.operation is WritePurpose.ADOPT_WORKLOAD:
            self._log.info("workload adopted", **_names(outcome.object))
        elif request.operation in _WRITTEN or request.operation in _OF_OWNERS:
            message, field = _line(request)
            fields: dict[str, Any] = {"namespace": request.namespace, "workload": key.name}
            if workload is not None:
                fields = {**_names(workload), **_holding(workload)}
            fields[field] = request.name
            if _is_release(request):
                fields |= _times(outcome.object, workload)
            if request.operation is WritePurpose.ADOPT_POD:
                fields["local_queue"] = outcome.object.metadata.label(names.QUEUE_LABEL)
            if request.events:
                fields["message"] = "; ".join(event.note for event in request.events)
            self._log.info(message, **fields)

    def _tell_eviction(
        self, old: Workload, new: Workload, preemption: decisions.Evict | None
    ) -> None:
        evicted = new.status.condition(conditions.EVICTED)
        preemptor: dict[str, str] = {}
        is_preempted = evicted is not None and evicted.reason == EvictionReason.PREEMPTED
        if preemption is not None and is_preempted:
            preemptor = {
                "preempted_by": preemption.preemptor.text(),
                "preempted_by_cluster_queue": preemption.preemptor_cluster_queue,
                "preemption_reason": preemption.preemption_reason.value,
            }
        self._tell("workload evicted", new, conditions.EVICTED, holding=old, **preemptor)

    def _tell(
        self,
        message: str,
        workload: Workload,
        kind: str,
        holding: Workload | None = None,
        **more_fields: str,
    ) -> None:
        """Writes a line with what a condition says, and with quota that is or was held."""
        fields: dict[str, Any] = _names(workload)
        if holding is not None:
            fields |= _holding(holding)
        condition = workload.status.condition(kind)
        if condition is not None:
            fields |= {"reason": condition.reason, "message": condition.message}
        self._log.info(message, **fields, **more_fields)

    def _tell_held_pod(self, pod: views.Pod) -> None:
        admitted = pod_owner.admitted_condition(pod)
        if admitted is not None and admitted.status != "True":
            self._log.info(
                "pod held",
                namespace=pod.metadata.namespace,
                pod=pod.metadata.name,
                reason=admitted.reason,
                message=admitted.message,
            )


def _line(request: ApiRequest) -> tuple[str, str]:
    """Return the message of the line about a write, and the field that names what was written."""
    if request.operation in _WRITTEN:
        return _WRITTEN[request.operation]
    kind = request.resource.kind
    field = _OWNERS.get(kind, kind.lower())
    if _is_release(request):
        return "pod released", field  # its gate is gone; the scheduler starts it
    return f"{field} {_OF_OWNERS[request.operation]}", field


def _is_release(request: ApiRequest) -> bool:
    return request.resource is resources.PODS and request.operation is WritePurpose.START_OWNER


def _times(pod: views.Pod | None, workload: Workload | None) -> dict[str, Any]:
    """Return the UID of a pod, when it was created, and when its quota was reserved."""
    if pod is None:
        return {}
    fields = {"pod_uid": pod.metadata.uid, "created": pod.metadata.creation_timestamp}
    reserved = None if workload is None else workload.status.condition(conditions.QUOTA_RESERVED)
    return fields if reserved is None else {**fields, "reserved": reserved.last_transition_time}


def _names(workload: Workload) -> dict[str, Any]:
    """Return the log fields that name a Workload, its owner and its LocalQueue."""
    metadata = workload.metadata
    fields = {"namespace": metadata.namespace, "workload": metadata.name}
    owner = metadata.controller()
    if owner is not None:
        field = _OWNERS.get(owner.kind)
        fields |= {field: owner.name} if field else {"owner": f"{owner.kind}/{owner.name}"}
    return fields | {"local_queue": workload.spec.queue_name}


def _holding(workload: Workload) -> dict[str, Any]:
    """The ClusterQueue and the quota, as amounts by flavor and resource."""
    admission = workload.status.admission
    if admission is None:
        return {}
    quota: dict[str, dict[str, str]] = {}
    for flavor, resource, text in _assigned(admission):
        amounts = quota.setdefault(flavor, {})
        amount_known = amounts.get(resource)
        amounts[resource] = text if amount_known is None else _sum(resource, amount_known, text)
    return {"cluster_queue": admission.cluster_queue, "quota": quota}


def _assigned(admission: Admission) -> Iterator[tuple[str, str, str]]:
    """Flavor, resource and amount of all pod sets."""
    for assignment in admission.pod_set_assignments or ():
        flavors = assignment.flavors or {}
        for resource, amount in (assignment.resource_usage or {}).items():
            yield flavors.get(resource, ""), resource, str(amount)


def _sum(resource: str, *texts: str) -> str:
    """Return the sum; texts that another program wrote and nobody can add up stay as they are."""
    try:
        total = sum(quantity.to_canonical(resource, text) for text in texts)
    except InvalidValueError:
        return " + ".join(texts)
    return quantity.from_canonical(resource, total)


def _became_true(old: Workload, new: Workload, kind: str) -> bool:
    return new.status.is_true(kind) and not old.status.is_true(kind)


def _waits_otherwise(old: Workload, new: Workload) -> bool:
    """Return whether the Workload waits for another reason than before."""
    now = new.status.condition(conditions.QUOTA_RESERVED)
    if now is None or not new.is_pending() or now.reason == WaitReason.PENDING_EVALUATION:
        return False
    before = old.status.condition(conditions.QUOTA_RESERVED)
    return before is None or before.reason != now.reason
