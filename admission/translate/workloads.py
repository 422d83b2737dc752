"""Views of Workloads to values of `scheduling`."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

import msgspec

from admission.base import conditions, names, pod_resources
from admission.base.errors import InvalidValueError
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.base.pod_resources import Pod
from admission.base.selectors import Requirement
from admission.objects import facts, limit_range, pods, views
from admission.objects.limit_range import NO_LIMITS, Summary
from admission.objects.workload import (
    PodSet,
    PodSetAssignment,
    ReclaimablePod,
    Workload,
    WorkloadStatus,
)
from admission.scheduling import model, transformation
from admission.translate import claims, queues, times
from admission.translate.claims import NO_DEVICES, Claimed, Devices

_FAILED: Final = ("Retry", "Rejected")
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What besides a Workload decides what it is charged for.

    Attributes:
        rules: settings that change what is counted.
        limits: of its namespace.
        overheads: of each RuntimeClass that exists, in units of 1e-9.
        devices: claims and DeviceClasses that exist.
    """

    rules: transformation.Rules = transformation.NO_RULES
    limits: Summary = NO_LIMITS
    overheads: Mapping[str, pods.Nanos] = field(default_factory=dict)
    devices: Devices = NO_DEVICES


PLAIN: Final = Surroundings()


def workload(
    view: Workload, around: Surroundings = PLAIN, known: model.Workload | None = None
) -> model.Workload:
    """A Workload.

    Args:
        view: as the API server sent it.
        around: settings and objects that change what it is charged for.
        known: an earlier version, translated in the same surroundings. While the generation is
            the same, so is the spec, and what it asks for is taken from there.

    Raises:
        InvalidValueError: a quantity, time or selector cannot be read; the rule names the field.
    """
    meta, spec, status = view.metadata, view.spec, view.status
    asked = _asked(view, around) if known is None or _is_newer(meta, known) else _said(known)
    requeue = status.requeue_state
    requeued = status.condition(conditions.REQUEUED)
    return model.Workload(
        key=WorkloadKey(meta.namespace, meta.name),
        uid=Uid(meta.uid),
        queue=LocalQueueKey(meta.namespace, spec.queue_name),
        priority=spec.priority or 0,
        created_us=times.parse(meta.creation_timestamp, "metadata.creationTimestamp") or 0,
        pod_sets=_reclaimed(asked.pod_sets, status.reclaimable_pods or ()),
        active=spec.active is not False,
        finished=status.is_true(conditions.FINISHED),
        held=_is_held(view),
        on_hold=_is_on_hold(view.status),
        gates=meta.annotation(names.ADMISSION_GATED_BY),
        reservation=_reservation(status),
        eviction=_eviction(status),
        requeued=requeued is None or requeued.status != "False",
        requeue_at_us=times.parse(
            None if requeue is None else requeue.requeue_at, "status.requeueState.requeueAt"
        ),
        job_uid=meta.label(names.JOB_UID_LABEL),
        failed_checks=any(one.state in _FAILED for one in status.admission_checks or ()),
        invalid=asked.invalid,
        pods_ready=status.is_true(conditions.PODS_READY),
        generation=meta.generation,
    )


def holder(view: Workload, *, stays: bool) -> model.Workload | None:
    """A Workload reduced to what it holds, where it cannot be told what it asks for.

    Return None if it holds nothing. What its reclaimable pods gave back is not taken off.

    Args:
        view: the Workload, or as much of it as can be read.
        stays: whether it cannot be written to, and so not be told to leave.

    Raises:
        InvalidValueError: what it holds cannot be read either; the rule names the field.
    """
    meta, spec, status = view.metadata, view.spec, view.status
    found = model.Workload(
        key=WorkloadKey(meta.namespace, meta.name),
        uid=Uid(meta.uid),
        queue=LocalQueueKey(meta.namespace, spec.queue_name),
        priority=spec.priority or 0,
        created_us=times.parse(meta.creation_timestamp, "metadata.creationTimestamp") or 0,
        active=spec.active is not False,
        finished=status.is_true(conditions.FINISHED),
        reservation=_reservation(status),
        eviction=_eviction(status),
        stays=stays,
    )
    return found if found.counts else None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What follows from a spec and its surroundings alone."""

    pod_sets: tuple[model.PodSet, ...]
    invalid: str


def _asked(view: Workload, around: Surroundings) -> _Asked:
    found = view.spec.pod_sets or ()
    adjusted = [_adjusted(one.template.spec, around, _path(i)) for i, one in enumerate(found)]
    taken = _taken(view, adjusted, around)
    return _Asked(
        tuple(
            _pod_set(one, what, group, _path(index))
            for index, (one, what, group) in enumerate(
                zip(found, taken, _groups(found), strict=True)
            )
        ),
        next((one.problem for one in taken if one.problem), "")
        or _invalid(adjusted, around.limits),
    )


def _said(known: model.Workload) -> _Asked:
    return _Asked(known.pod_sets, known.invalid)


def _is_newer(meta: views.ObjectMeta, known: model.Workload) -> bool:
    """Return whether the spec may be another one.

    Where nobody counts generations it always may.
    """
    return not meta.generation or (meta.uid, meta.generation) != (known.uid, known.generation)


def _reclaimed(
    found: tuple[model.PodSet, ...], given_back: tuple[ReclaimablePod, ...]
) -> tuple[model.PodSet, ...]:
    counts = {one.name: one.count for one in given_back}
    return tuple(
        one
        if one.reclaimable == counts.get(one.name, 0)
        else replace(one, reclaimable=counts.get(one.name, 0))
        for one in found
    )


def _path(index: int) -> str:
    return f"spec.podSets[{index}].template.spec"


def _adjusted(spec: views.PodSpec, around: Surroundings, path: str) -> Pod[int]:
    """Return what a pod requests, with overhead and defaults that others decide."""
    pod = pods.read(spec, path, pods.nanos)
    if spec.runtime_class_name and not pod.overhead:
        pod = replace(pod, overhead=around.overheads.get(spec.runtime_class_name, {}))
    return limit_range.with_defaults(pod, around.limits)


def _taken(view: Workload, adjusted: Iterable[Pod[int]], around: Surroundings) -> list[Claimed]:
    """Return what the pods of each pod set take.

    A ResourceClaim counts in the first that names it.
    """
    found: list[Claimed] = []
    counted: set[str] = set()
    for index, (one, pod) in enumerate(zip(view.spec.pod_sets or (), adjusted, strict=True)):
        amounts = transformation.counted(pod_resources.requests(pod), around.rules)
        spec = one.template.spec
        if not claims.concerned(spec):
            found.append(Claimed(requests=amounts))
            continue
        taken = claims.claimed(
            amounts, spec, view.metadata.namespace, around.devices, _path(index)
        )
        if not taken.problem and (name := claims.outgrown(view, spec, around.devices)):
            rule = (
                f"{name}: the ResourceClaim that was made for it asks for more than its template"
            )
            taken = replace(taken, problem=f"{_path(index)}.resourceClaims: {rule}")
        found.append(replace(taken, shared=tuple(s for s in taken.shared if s.key not in counted)))
        counted |= {one.key for one in taken.shared}
    return found


def _groups(pod_sets: Sequence[PodSet]) -> list[str]:
    """The group of each pod set: its own, else that of those that name the same ResourceClaim.

    The devices of a claim are in one place, so all its pods need the same flavors.
    """
    named = [claims.named(one.template.spec) for one in pod_sets]
    counts = Counter(name for one in named for name in one)
    groups: dict[str, str] = {}
    found = []
    for one, listed in zip(pod_sets, named, strict=True):
        shared = [name for name in listed if counts[name] > 1]
        topology = one.topology_request
        group = "" if topology is None else topology.pod_set_group_name or ""
        if shared and not group:
            group = groups.get(shared[0], f"ResourceClaim {shared[0]}")
        for name in shared:
            groups.setdefault(name, group)
        found.append(group)
    return found


def _invalid(adjusted: list[Pod[int]], bounds: Summary) -> str:
    """Return why the workload may not be admitted whatever the quota; empty when it may."""
    above = [
        text
        for i, pod in enumerate(adjusted)
        for text in limit_range.requests_above_limits(pod, _path(i))
    ]
    if above:
        return f"resources validation failed: {_joined(above)}"
    outside = [
        text
        for i, pod in enumerate(adjusted)
        for text in limit_range.out_of_bounds(pod, bounds, _path(i))
    ]
    if outside:
        return f"resources didn't satisfy LimitRange constraints: {_joined(outside)}"
    return ""


def _joined(found: list[str]) -> str:
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def _is_held(view: Workload) -> bool:
    """Return whether something keeps it out of the queue.

    Gates, its owner, missing replacement pods, or an admission without reservation: that would
    contradict the next one.
    """
    status = view.status
    gates = view.metadata.annotation(names.ADMISSION_GATED_BY)
    stale = status.admission is not None and not status.is_true(conditions.QUOTA_RESERVED)
    missing_pods = status.is_true(conditions.WAITING_FOR_REPLACEMENT_PODS)
    if facts.waits_to_be_charged(view):
        return True  # its pods run: it is given the flavors on which they do
    return bool(gates) or missing_pods or _is_on_hold(status) or stale


def _is_on_hold(status: WorkloadStatus) -> bool:
    found = status.condition(conditions.QUOTA_RESERVED)
    return found is not None and found.status != "True" and found.reason == conditions.ON_HOLD


def _reservation(status: WorkloadStatus) -> model.Reservation | None:
    admission = status.admission
    reserved = status.condition(conditions.QUOTA_RESERVED)
    if admission is None or reserved is None or reserved.status != "True":
        return None
    field = "status.conditions[QuotaReserved].lastTransitionTime"
    return model.Reservation(
        cluster_queue=ClusterQueueName(admission.cluster_queue),
        pod_sets=tuple(_assigned(one) for one in admission.pod_set_assignments or ()),
        reserved_us=times.parse(reserved.last_transition_time, field) or 0,
        admitted=status.is_true(conditions.ADMITTED),
    )


def _assigned(view: PodSetAssignment) -> model.PodSetAssignment:
    field = f"status.admission.podSetAssignments[{view.name}].resourceUsage"
    usage = view.resource_usage or {}
    return model.PodSetAssignment(
        name=PodSetName(view.name),
        count=view.count or 0,
        flavors={ResourceName(r): FlavorName(f) for r, f in (view.flavors or {}).items()},
        usage={ResourceName(r): queues.amount_of(r, v, field) for r, v in usage.items()},
    )


def _eviction(status: WorkloadStatus) -> model.Eviction | None:
    found = status.condition(conditions.EVICTED)
    if found is None or found.status != "True":
        return None
    field = "status.conditions[Evicted].lastTransitionTime"
    since_us = times.parse(found.last_transition_time, field) or 0
    return model.Eviction(reason=found.reason, since_us=since_us)


def _pod_set(view: PodSet, taken: Claimed, group: str, path: str) -> model.PodSet:
    spec = view.template.spec
    return model.PodSet(
        name=PodSetName(view.name),
        count=view.count,
        min_count=view.min_count,
        requests=taken.requests,
        together=taken.shared,
        node_selector=dict(spec.node_selector or {}),
        affinity=_affinity(spec, path),
        tolerations=queues.tolerations(spec.tolerations or ()),
        group=group,
        shape=_shape(spec),
    )


def _affinity(spec: views.PodSpec, path: str) -> tuple[tuple[Requirement, ...], ...] | None:
    """Alternatives of the required node affinity; fields of nodes are not looked at."""
    node = None if spec.affinity is None else spec.affinity.node_affinity
    if node is None or node.required is None:
        return None
    terms = tuple(
        queues.requirements(term.match_expressions or ())
        for term in node.required.node_selector_terms
    )
    for term in terms:
        for one in term:
            if one.operator not in {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}:
                rule = f"{path}.affinity: not a valid selector operator"
                raise InvalidValueError(one.operator, rule)
    return terms


def _shape(spec: views.PodSpec) -> str:
    """Digest of what tells two pods apart for quota; names of containers do not."""
    nameless = msgspec.structs.replace(
        spec,
        containers=_nameless(spec.containers),
        init_containers=_nameless(spec.init_containers or ()),
        scheduling_gates=None,
        node_name="",
    )
    return blake2b(_ENCODER.encode(nameless), digest_size=16).hexdigest()


def _nameless(containers: Iterable[views.Container]) -> tuple[views.Container, ...]:
    return tuple(
        msgspec.structs.replace(
            one, name="", resources=views.ResourceRequirements(requests=one.resources.requests)
        )
        for one in containers
    )
