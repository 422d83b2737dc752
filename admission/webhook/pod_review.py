"""What a review of a pod decides: how it is changed, and whether it may exist."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from admission.base import fielderrors, names, patches
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.gpu import topology_labels
from admission.objects import admitted_devices, limit_range, reviewed_pod, role_hash, views
from admission.objects.reviewed_pod import ReviewedPod, ReviewedPodSpec
from admission.webhook import (
    admission_warnings,
    earlier_admission,
    key_warnings,
    limiting,
    metadata_rules,
    queueing,
    requester,
    requests,
    rewriting,
    unserved,
)
from admission.webhook.queueing import ManagementState, QueueingResult
from admission.webhook.review_context import Context, Lister, Rules
from admission.webhook.rewriting import Rewritten

DEFAULT_PRIORITY_CLASS: Final = "default"

_DERIVED: Final = (names.POD_GROUP_OBJECT, names.FOREIGN_TOPOLOGY_GATE)
"""Annotations that a review derives from the pod anew, whatever a copy says."""
_EFFECT: Final = "NoSchedule"
_GATES_PATH: Final = FieldPath.of("spec", "schedulingGates")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOutcome:
    """Answer to one review.

    Attributes:
        standing: how the pod stands to quota, for metrics.
        operations: JSON Patch that turns the reviewed pod into the wanted one; empty if denied.
        errors: broken rules; any denies the request.
        warnings: texts for the person who made the request.
    """

    standing: ManagementState
    operations: tuple[Operation, ...] = ()
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def mutate(pod: ReviewedPod, context: Context, rules: Rules, lister: Lister) -> ReviewOutcome:
    """Prepare a pod that is being created: queue, gate, GPU resource names.

    Doing it twice equals doing it once, so the API server may ask again.

    Source: kueue pkg/controller/jobs/pod/pod_webhook.go (Default). Differs: no finalizer, no
    topology gate, no look at owners.
    """
    written, undone = pod, tuple[Operation, ...]()
    if names.UNREVIEWED in (pod.metadata.annotations or {}):
        written, undone = _as_written(pod)
    if queueing.is_looked_at(written, context, rules, lister):
        written, dropped = earlier_admission.pod_without_marks(written)
        undone = (*undone, *dropped)
    outcome = _mutate(written, context, rules, lister)
    if outcome.errors or not undone:
        return outcome
    return replace(outcome, operations=(*undone, *outcome.operations))


def _as_written(pod: ReviewedPod) -> tuple[ReviewedPod, tuple[Operation, ...]]:
    """Return a pod as it was before the API server held it for want of a review, and the way back.

    See ADR 0084: the annotation says what a policy has added. With a review it is as without.
    """
    patch = PatchBuilder()
    metadata, spec = pod.metadata, pod.spec
    annotations = dict(metadata.annotations or {})
    added = annotations.pop(names.UNREVIEWED).split(",")
    patch.remove(patches.pointer("metadata", "annotations", names.UNREVIEWED))
    labels = dict(metadata.labels or {})
    if "label" in added and labels.pop(names.MANAGED_LABEL, None) is not None:
        patch.remove(patches.pointer("metadata", "labels", names.MANAGED_LABEL))
    gates = list(spec.scheduling_gates or ())
    if "gate" in added and pod.has_gate(names.ADMISSION_GATE):
        at = next(index for index, gate in enumerate(gates) if gate.name == names.ADMISSION_GATE)
        del gates[at]
        patch.remove(patches.pointer("spec", "schedulingGates", *((at,) if gates else ())))
    written = msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(
            metadata,
            annotations=annotations,
            labels=None if metadata.labels is None else labels,
        ),
        spec=msgspec.structs.replace(spec, scheduling_gates=tuple(gates) or None),
    )
    return written, patch.operations()


def keep(old: ReviewedPod, new: ReviewedPod) -> ReviewOutcome:
    """Undo what an update does to the marks of a pod by whoever does not know of them (ADR 0114).

    What is done to single marks is left to the rules and to the policies of the API server.
    """
    operations, kept = earlier_admission.kept_marks(old, new)
    warnings = (admission_warnings.marks_kept(kept),) if kept else ()
    return ReviewOutcome(standing=ManagementState.FREE, operations=operations, warnings=warnings)


def _mutate(pod: ReviewedPod, context: Context, rules: Rules, lister: Lister) -> ReviewOutcome:
    placement = queueing.place(pod, context, rules, lister)
    if placement.standing is ManagementState.REFUSED:
        error = _refusal(pod, placement, context, lister)
        return ReviewOutcome(standing=placement.standing, errors=(error,))
    if not placement.is_held:
        return _unheld(pod, placement, context, rules, lister)
    errors = requests.too_many(pod) or requests.errors(pod, rules.managed)
    if errors:
        return ReviewOutcome(standing=placement.standing, errors=fielderrors.in_order(errors))
    ranges = limit_range.read(lister.limit_ranges(context.namespace))
    rewritten = rewriting.rewrite(pod, placement.queue, context, rules, lister, ranges)
    if rewritten.errors:
        return ReviewOutcome(
            standing=placement.standing, errors=fielderrors.in_order(rewritten.errors)
        )
    quotas = lister.resource_quotas(context.namespace)
    verdict = limiting.judge(pod, rewritten, ranges, quotas, rules.catalogue)
    if verdict.errors:
        return ReviewOutcome(
            standing=placement.standing, errors=verdict.errors, warnings=verdict.warnings
        )
    return ReviewOutcome(
        standing=placement.standing,
        operations=_operations(pod, placement, rewritten, context, rules, lister),
        warnings=(
            *rewritten.warnings,
            *verdict.warnings,
            *_admission_warnings(pod, rewritten, placement, context, lister),
        ),
    )


def _admission_warnings(
    pod: ReviewedPod,
    rewritten: Rewritten,
    placement: QueueingResult,
    context: Context,
    lister: Lister,
) -> tuple[str, ...]:
    if placement.queue:
        part = admission_warnings.CreatedPods(pod=rewritten.pod, written=pod)
        return admission_warnings.queued(pod.metadata, (part,), placement, context, lister)
    about_keys = key_warnings.outside_queues(pod.metadata)
    if placement.standing is ManagementState.IN_DOUBT and queueing.lacks_a_queue(
        pod, placement, context, lister
    ):
        return (*about_keys, admission_warnings.held_until_queued("pod", context, lister))
    return about_keys


def validate(
    old: ReviewedPod | None, new: ReviewedPod, context: Context, rules: Rules, lister: Lister
) -> ReviewOutcome:
    """Judge a pod as it would be stored.

    Args:
        old: as stored so far; None when it is being created.
        new: as it would be stored, after every mutation.
        context: what the review says besides the objects.
        rules: what the installation chose.
        lister: what was last seen of the cluster.
    """
    if old is not None and _is_charged_now(old, new):
        return ReviewOutcome(standing=ManagementState.FREE)
    if old is not None:
        has_default = queueing.has_default_queue(context.namespace, lister)
        errors = metadata_rules.update_errors(old, new, has_default_queue=has_default)
        errors += requester.changed(old.metadata, new.metadata)
        warnings = admission_warnings.owned(old, new, rules)
        warnings += admission_warnings.relabelled(old.metadata, new.metadata, context, lister)
        warnings += key_warnings.of_update([old.metadata], [new.metadata])
        return ReviewOutcome(
            standing=ManagementState.FREE,
            errors=fielderrors.in_order(errors),
            warnings=warnings,
        )
    placement = queueing.place(new, context, rules, lister)
    errors = metadata_rules.create_errors(new)
    warnings = admission_warnings.owned(old, new, rules)
    if placement.standing is ManagementState.OF_JOB:
        errors += _more_than_admitted(new, rules)
    if placement.is_held:
        errors += requester.created(new.metadata, context, rules)
        warnings += tuple(unserved.foreign_gate(new))
    if placement.standing is ManagementState.REFUSED:
        errors.append(_refusal(new, placement, context, lister))
    elif placement.is_held and not new.has_gate(names.ADMISSION_GATE):
        errors.append(_gate_missing(placement))
    return ReviewOutcome(
        standing=placement.standing,
        errors=fielderrors.in_order(errors),
        warnings=warnings,
    )


def _is_charged_now(old: ReviewedPod, new: ReviewedPod) -> bool:
    """Return whether a pod that ran without a Workload of its own gets one (ADR 0116).

    A policy lets only those set this label who may write the status of Workloads.
    """
    marks = (pod.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE for pod in (old, new))
    return tuple(marks) == (False, True) and not new.spec.scheduling_gates


def _unheld(
    pod: ReviewedPod, placement: QueueingResult, context: Context, rules: Rules, lister: Lister
) -> ReviewOutcome:
    """A pod that needs no gate; one of an admitted Job may still break a limit."""
    patch = PatchBuilder()
    present = pod.metadata.annotations or {}
    if names.REQUESTER in present:  # its template may say anything
        stamp = requester.stamp(pod.metadata, context, rules)
        patch.merge("/metadata/annotations", present, stamp)
    if placement.standing is not ManagementState.OF_JOB:
        warnings = admission_warnings.unheld(pod, placement, context, lister)
        is_looked_at = queueing.is_looked_at(pod, context, rules, lister)
        if is_looked_at:
            warnings = (*key_warnings.outside_queues(pod.metadata), *warnings)
        freed = earlier_admission.never_held(pod) if is_looked_at else ()
        return ReviewOutcome(
            standing=placement.standing,
            operations=(*patch.operations(), *freed),
            warnings=warnings,
        )
    errors = requests.too_many(pod) or list(_not_as_admitted(pod))
    if errors:
        return ReviewOutcome(standing=ManagementState.OF_JOB, errors=fielderrors.in_order(errors))
    ranges = limit_range.read(lister.limit_ranges(context.namespace))
    quotas = lister.resource_quotas(context.namespace)
    verdict = limiting.judge(pod, Rewritten(pod=pod), ranges, quotas, rules.catalogue)
    if names.ADMITTED_REQUESTS in present:  # no review saw its template
        missing = missing_tolerations(pod.spec, placement.wants, rules)
        wire = [toleration_to_wire(item) for item in missing]
        patch.append("/spec/tolerations", pod.spec.tolerations, wire)
    return ReviewOutcome(
        standing=ManagementState.OF_JOB, operations=patch.operations(), errors=verdict.errors
    )


def _not_as_admitted(pod: ReviewedPod) -> Iterator[FieldError]:
    """Yield why a pod is not one of those that were admitted: it asks for other devices.

    Its template does not stand in its owner, and may have changed after the admission.
    """
    stated = pod.metadata.annotation(names.ADMITTED_REQUESTS)
    if stated and stated != reviewed_pod.devices_digest(pod):
        rule = (
            "asks for other devices than were admitted: suspend the owner of the pod; it starts"
            " again when it is admitted with these"
        )
        yield fielderrors.forbidden(FieldPath.of("spec", "containers"), rule)


def _more_than_admitted(pod: ReviewedPod, rules: Rules) -> Iterator[FieldError]:
    """Yield each managed resource of which a pod asks for more than was admitted for it.

    The pod is as it would be stored: a LimitRange that was made after the admission, or another
    webhook, may have added to what its template says. A pod of an owner that was started by an
    earlier version does not say what was admitted.
    """
    stated = pod.metadata.annotation(names.ADMITTED_DEVICES)
    if not stated:
        return
    at = FieldPath.of("spec", "containers")
    try:
        admitted = admitted_devices.read(stated)
    except InvalidValueError as error:
        path = FieldPath.of("metadata", "annotations").key(names.ADMITTED_DEVICES)
        yield fielderrors.invalid(path, stated, error.rule)
        return
    for name, amount in sorted(requests.amounts(pod, rules.managed).items()):
        if amount > admitted.get(name, 0):
            rule = (
                f"asks for {name}: {amount}, and {admitted.get(name, 0)} was admitted for each pod"
                " of its owner. If another webhook or a LimitRange adds the rest, ask for it in"
                " the pod template of the owner, or have it left out"
            )
            yield fielderrors.forbidden(at, rule)


def _operations(
    pod: ReviewedPod,
    placement: QueueingResult,
    rewritten: Rewritten,
    context: Context,
    rules: Rules,
    lister: Lister,
) -> tuple[Operation, ...]:
    patch = PatchBuilder()
    missing = missing_tolerations(pod.spec, placement.wants, rules)
    spec = rewritten.pod.spec
    if missing:
        current = spec.tolerations or ()
        spec = msgspec.structs.replace(spec, tolerations=(*current, *missing))
    annotations = {**rewritten.annotations, **requester.stamp(pod.metadata, context, rules)}
    if names.ROLE_HASH not in (pod.metadata.annotations or {}):
        annotations[names.ROLE_HASH] = role_hash.of(spec)
    gang = queueing.gang_of(pod, rules)
    if gang is not None:
        annotations[names.POD_GROUP_OBJECT] = gang.text()
    if pod.has_gate(names.TOPOLOGY_GATE):
        annotations[names.FOREIGN_TOPOLOGY_GATE] = "true"
    patch.merge("/metadata/labels", pod.metadata.labels, _labels(pod, placement, rules, lister))
    present = pod.metadata.annotations
    patch.merge("/metadata/annotations", present, annotations)
    for key in _DERIVED:
        if key in (present or {}) and key not in annotations:  # true of what it was copied from
            patch.remove(patches.pointer("metadata", "annotations", key))
    if not pod.has_gate(names.ADMISSION_GATE):
        gates = [{"name": names.ADMISSION_GATE}]
        patch.append("/spec/schedulingGates", pod.spec.scheduling_gates, gates)
    tolerations = [toleration_to_wire(item) for item in missing]
    patch.append("/spec/tolerations", pod.spec.tolerations, tolerations)
    rewriting.add_operations(patch, rewritten)
    return patch.operations()


def _labels(
    pod: ReviewedPod, placement: QueueingResult, rules: Rules, lister: Lister
) -> dict[str, str]:
    labels: dict[str, str] = {}
    if placement.standing is not ManagementState.SUSPENDED or placement.queue:
        labels[names.MANAGED_LABEL] = names.MANAGED_VALUE
    if placement.queue:
        labels[names.QUEUE_LABEL] = placement.queue
    has_class = bool(pod.metadata.label(names.PRIORITY_CLASS_LABEL))
    is_default = lister.workload_priority_class(DEFAULT_PRIORITY_CLASS) is not None
    is_alone = placement.standing is ManagementState.QUEUED and not rules.kinds.of_controller(
        pod.metadata
    )
    if is_alone and is_default and not has_class:
        labels[names.PRIORITY_CLASS_LABEL] = DEFAULT_PRIORITY_CLASS
    source = (pod.metadata.annotations or {}).get(names.POD_INDEX_SOURCE)
    if source is not None:
        labels[names.POD_GROUP_POD_INDEX_LABEL] = pod.metadata.label(source)
    return labels


def missing_tolerations(
    spec: ReviewedPodSpec, wants: tuple[str, ...], rules: Rules
) -> tuple[views.Toleration, ...]:
    """Return the toleration of GPU nodes, in the form of the ExtendedResourceToleration plugin.

    That plugin tolerates the exact resource name only, so a pod that asks for a MIG slice gets
    none for the taint ``nvidia.com/gpu``.

    Args:
        spec: of the pod.
        wants: managed resources that it asks for.
        rules: what the installation chose.
    """
    key = rules.toleration_key
    if not key or not wants:
        return ()
    tolerated = any(
        item.key in {key, ""} and item.operator == "Exists" and item.effect in {"", _EFFECT}
        for item in spec.tolerations or ()
    )
    return () if tolerated else (views.Toleration(key=key, operator="Exists", effect=_EFFECT),)


def toleration_to_wire(item: views.Toleration) -> dict[str, str]:
    """Return one of `missing_tolerations` as JSON has it."""
    return {"key": item.key, "operator": item.operator, "effect": item.effect}


def _refusal(
    pod: ReviewedPod, placement: QueueingResult, context: Context, lister: Lister
) -> FieldError:
    asked_text = f"the pod asks for {', '.join(placement.wants)}"
    where = queueing.enforcer(context.namespace, lister)
    if pod.spec.node_name:
        rule = (
            f"{asked_text}, and with a node name it goes around the scheduler and so around quota;"
            f" in {where} it must go through a queue: leave nodeName out, and set nodeSelector"
            f" {topology_labels.HOSTNAME}: {pod.spec.node_name}"
        )
        return fielderrors.forbidden(FieldPath.of("spec", "nodeName"), rule)
    advice = queueing.advice(context, lister)
    rule = f"{asked_text}, so in {where} this label must name {advice}"
    return fielderrors.required(metadata_rules.QUEUE_PATH, rule)


def _gate_missing(placement: QueueingResult) -> FieldError:
    """The mutating review was skipped, or another webhook undid it."""
    asked_text = f" and asks for {', '.join(placement.wants)}" if placement.wants else ""
    queue = f'LocalQueue "{placement.queue}"' if placement.queue else "a queue"
    rule = (
        f"the pod belongs to {queue}{asked_text}, so it must be created with the gate"
        f" {names.ADMISSION_GATE}; if another webhook added the request, set the label"
        f" {names.QUEUE_LABEL} on the pod itself"
    )
    return fielderrors.required(_GATES_PATH, rule)
