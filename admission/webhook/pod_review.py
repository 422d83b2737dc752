"""What a review of a pod decides: how it is changed, and whether it may exist."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from admission.base import fielderrors, names, patches
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import admitted_devices, limit_range, reviewed_pod, role_hash, views
from admission.objects.reviewed_pod import Pod, PodSpec
from admission.webhook import (
    earlier_admission,
    hints,
    limiting,
    metadata_rules,
    queueing,
    requesting,
    requests,
    rewriting,
    unserved,
)
from admission.webhook.queueing import Placement, Standing
from admission.webhook.review_context import Context, Knowledge, Rules
from admission.webhook.rewriting import Rewritten

DEFAULT_PRIORITY_CLASS: Final = "default"

_DERIVED: Final = (names.POD_GROUP_OBJECT, names.FOREIGN_TOPOLOGY_GATE)
"""Annotations that a review derives from the pod anew, whatever a copy says."""
_EFFECT: Final = "NoSchedule"
_GATES_PATH: Final = FieldPath.of("spec", "schedulingGates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Answer to one review.

    Attributes:
        standing: how the pod stands to quota, for metrics.
        operations: JSON Patch that turns the reviewed pod into the wanted one; empty if denied.
        errors: broken rules; any denies the request.
        warnings: texts for the person who made the request.
    """

    standing: Standing
    operations: tuple[Operation, ...] = ()
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def mutate(pod: Pod, context: Context, rules: Rules, knowledge: Knowledge) -> Outcome:
    """Prepare a pod that is being created: queue, gate, GPU resource names.

    Doing it twice equals doing it once, so the API server may ask again.

    Source: kueue pkg/controller/jobs/pod/pod_webhook.go (Default). Differs: no finalizer, no
    topology gate, no look at owners.
    """
    written, undone = pod, tuple[Operation, ...]()
    if names.UNREVIEWED in (pod.metadata.annotations or {}):
        written, undone = _as_written(pod)
    if queueing.is_looked_at(written, context, rules, knowledge):
        written, dropped = earlier_admission.pod_without_marks(written)
        undone = (*undone, *dropped)
    outcome = _mutate(written, context, rules, knowledge)
    if outcome.errors or not undone:
        return outcome
    return replace(outcome, operations=(*undone, *outcome.operations))


def _as_written(pod: Pod) -> tuple[Pod, tuple[Operation, ...]]:
    """Return a pod as it was before the API server held it for want of a review, and the way back.

    See ADR 0195: the annotation says what a policy has added. With a review it is as without.
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
        at = next(index for index, one in enumerate(gates) if one.name == names.ADMISSION_GATE)
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


def keep(old: Pod, new: Pod) -> Outcome:
    """Undo what an update does to the marks of a pod by whoever does not know of them (ADR 0230).

    What is done to single marks is left to the rules and to the policies of the API server.
    """
    operations, kept = earlier_admission.kept_marks(old, new)
    warnings = (hints.marks_kept(kept),) if kept else ()
    return Outcome(standing=Standing.FREE, operations=operations, warnings=warnings)


def _mutate(pod: Pod, context: Context, rules: Rules, knowledge: Knowledge) -> Outcome:
    placement = queueing.place(pod, context, rules, knowledge)
    if placement.standing is Standing.REFUSED:
        error = _refusal(pod, placement, context, knowledge)
        return Outcome(standing=placement.standing, errors=(error,))
    if not placement.is_held:
        return _unheld(pod, placement, context, rules, knowledge)
    errors = requests.too_many(pod) or requests.errors(pod, rules.managed)
    if errors:
        return Outcome(standing=placement.standing, errors=fielderrors.in_order(errors))
    ranges = limit_range.read(knowledge.limit_ranges(context.namespace))
    rewritten = rewriting.rewrite(pod, placement.queue, context, rules, knowledge, ranges)
    if rewritten.errors:
        return Outcome(standing=placement.standing, errors=fielderrors.in_order(rewritten.errors))
    quotas = knowledge.resource_quotas(context.namespace)
    verdict = limiting.judge(pod, rewritten, ranges, quotas, rules.catalogue)
    if verdict.errors:
        return Outcome(
            standing=placement.standing, errors=verdict.errors, warnings=verdict.warnings
        )
    return Outcome(
        standing=placement.standing,
        operations=_operations(pod, placement, rewritten, context, rules, knowledge),
        warnings=(
            *rewritten.warnings,
            *verdict.warnings,
            *_hints(pod, rewritten, placement, context, knowledge),
        ),
    )


def _hints(
    pod: Pod, rewritten: Rewritten, placement: Placement, context: Context, knowledge: Knowledge
) -> tuple[str, ...]:
    if placement.queue:
        part = hints.Part(pod=rewritten.pod, written=pod)
        return hints.queued((part,), placement, context, knowledge)
    if placement.standing is Standing.IN_DOUBT and queueing.lacks_a_queue(
        pod, placement, context, knowledge
    ):
        return (hints.held_until_queued("pod", context, knowledge),)
    return ()


def validate(
    old: Pod | None, new: Pod, context: Context, rules: Rules, knowledge: Knowledge
) -> Outcome:
    """Judge a pod as it would be stored.

    Args:
        old: as stored so far; None when it is being created.
        new: as it would be stored, after every mutation.
        context: what the review says besides the objects.
        rules: what the installation chose.
        knowledge: what was last seen of the cluster.
    """
    if old is not None and _is_charged_now(old, new):
        return Outcome(standing=Standing.FREE)
    if old is not None:
        has_default = queueing.has_default_queue(context.namespace, knowledge)
        errors = metadata_rules.update_errors(old, new, has_default_queue=has_default)
        errors += requesting.changed(old.metadata, new.metadata)
        return Outcome(
            standing=Standing.FREE,
            errors=fielderrors.in_order(errors),
            warnings=hints.owned(old, new, rules),
        )
    placement = queueing.place(new, context, rules, knowledge)
    errors = metadata_rules.create_errors(new)
    warnings = hints.owned(old, new, rules)
    if placement.standing is Standing.OF_JOB:
        errors += _more_than_admitted(new, rules)
    if placement.is_held:
        errors += requesting.created(new.metadata, context, rules)
        warnings += tuple(unserved.foreign_gate(new))
    if placement.standing is Standing.REFUSED:
        errors.append(_refusal(new, placement, context, knowledge))
    elif placement.is_held and not new.has_gate(names.ADMISSION_GATE):
        errors.append(_gate_missing(placement))
    return Outcome(
        standing=placement.standing,
        errors=fielderrors.in_order(errors),
        warnings=warnings,
    )


def _is_charged_now(old: Pod, new: Pod) -> bool:
    """Return whether a pod that ran without a Workload of its own gets one (ADR 0226).

    A policy lets only those set this label who may write the status of Workloads.
    """
    marks = (one.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE for one in (old, new))
    return tuple(marks) == (False, True) and not new.spec.scheduling_gates


def _unheld(
    pod: Pod, placement: Placement, context: Context, rules: Rules, knowledge: Knowledge
) -> Outcome:
    """A pod that needs no gate; one of an admitted Job may still break a limit."""
    patch = PatchBuilder()
    present = pod.metadata.annotations or {}
    if names.REQUESTER in present:  # its template may say anything
        stamp = requesting.stamp(pod.metadata, context, rules)
        patch.merge("/metadata/annotations", present, stamp)
    if placement.standing is not Standing.OF_JOB:
        warnings = hints.unheld(pod, placement, context, knowledge)
        is_looked_at = queueing.is_looked_at(pod, context, rules, knowledge)
        freed = earlier_admission.never_held(pod) if is_looked_at else ()
        return Outcome(
            standing=placement.standing,
            operations=(*patch.operations(), *freed),
            warnings=warnings,
        )
    errors = requests.too_many(pod) or list(_not_as_admitted(pod))
    if errors:
        return Outcome(standing=Standing.OF_JOB, errors=fielderrors.in_order(errors))
    ranges = limit_range.read(knowledge.limit_ranges(context.namespace))
    quotas = knowledge.resource_quotas(context.namespace)
    verdict = limiting.judge(pod, Rewritten(pod=pod), ranges, quotas, rules.catalogue)
    if names.ADMITTED_REQUESTS in present:  # no review saw its template
        missing = missing_tolerations(pod.spec, placement.wants, rules)
        wire = [toleration_to_wire(item) for item in missing]
        patch.append("/spec/tolerations", pod.spec.tolerations, wire)
    return Outcome(standing=Standing.OF_JOB, operations=patch.operations(), errors=verdict.errors)


def _not_as_admitted(pod: Pod) -> Iterator[FieldError]:
    """Yield why a pod is not one of those that were admitted: it asks for other devices.

    Its template does not stand in its owner, and may have changed after the admission.
    """
    said = pod.metadata.annotation(names.ADMITTED_REQUESTS)
    if said and said != reviewed_pod.devices_digest(pod):
        rule = (
            "asks for other devices than were admitted: suspend the owner of the pod; it starts"
            " again when it is admitted with these"
        )
        yield fielderrors.forbidden(FieldPath.of("spec", "containers"), rule)


def _more_than_admitted(pod: Pod, rules: Rules) -> Iterator[FieldError]:
    """Yield each managed resource of which a pod asks for more than was admitted for it.

    The pod is as it would be stored: a LimitRange that was made after the admission, or another
    webhook, may have added to what its template says. A pod of an owner that was started by an
    earlier version does not say what was admitted.
    """
    said = pod.metadata.annotation(names.ADMITTED_DEVICES)
    if not said:
        return
    at = FieldPath.of("spec", "containers")
    try:
        admitted = admitted_devices.read(said)
    except InvalidValueError as error:
        path = FieldPath.of("metadata", "annotations").key(names.ADMITTED_DEVICES)
        yield fielderrors.invalid(path, said, error.rule)
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
    pod: Pod,
    placement: Placement,
    rewritten: Rewritten,
    context: Context,
    rules: Rules,
    knowledge: Knowledge,
) -> tuple[Operation, ...]:
    patch = PatchBuilder()
    missing = missing_tolerations(pod.spec, placement.wants, rules)
    spec = rewritten.pod.spec
    if missing:
        held = spec.tolerations or ()
        spec = msgspec.structs.replace(spec, tolerations=(*held, *missing))
    annotations = {**rewritten.annotations, **requesting.stamp(pod.metadata, context, rules)}
    if names.ROLE_HASH not in (pod.metadata.annotations or {}):
        annotations[names.ROLE_HASH] = role_hash.of(spec)
    gang = queueing.gang_of(pod, rules)
    if gang is not None:
        annotations[names.POD_GROUP_OBJECT] = gang.text()
    if pod.has_gate(names.TOPOLOGY_GATE):
        annotations[names.FOREIGN_TOPOLOGY_GATE] = "true"
    patch.merge("/metadata/labels", pod.metadata.labels, _labels(pod, placement, rules, knowledge))
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


def _labels(pod: Pod, placement: Placement, rules: Rules, knowledge: Knowledge) -> dict[str, str]:
    labels: dict[str, str] = {}
    if placement.standing is not Standing.SUSPENDED or placement.queue:
        labels[names.MANAGED_LABEL] = names.MANAGED_VALUE
    if placement.queue:
        labels[names.QUEUE_LABEL] = placement.queue
    has_class = bool(pod.metadata.label(names.PRIORITY_CLASS_LABEL))
    is_default = knowledge.workload_priority_class(DEFAULT_PRIORITY_CLASS) is not None
    is_alone = placement.standing is Standing.QUEUED and not rules.kinds.of_controller(
        pod.metadata
    )
    if is_alone and is_default and not has_class:
        labels[names.PRIORITY_CLASS_LABEL] = DEFAULT_PRIORITY_CLASS
    source = (pod.metadata.annotations or {}).get(names.POD_INDEX_SOURCE)
    if source is not None:
        labels[names.POD_GROUP_POD_INDEX_LABEL] = pod.metadata.label(source)
    return labels


def missing_tolerations(
    spec: PodSpec, wants: tuple[str, ...], rules: Rules
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


def _refusal(pod: Pod, placement: Placement, context: Context, knowledge: Knowledge) -> FieldError:
    asked = f"the pod asks for {', '.join(placement.wants)}"
    where = queueing.enforcer(context.namespace, knowledge)
    if pod.spec.node_name:
        rule = f"{asked}, so in {where} it must go through a queue and may not name its node"
        return fielderrors.forbidden(FieldPath.of("spec", "nodeName"), rule)
    advice = queueing.advice(context, knowledge)
    rule = f"{asked}, so in {where} this label must name {advice}"
    return fielderrors.required(metadata_rules.QUEUE_PATH, rule)


def _gate_missing(placement: Placement) -> FieldError:
    """The mutating review was skipped, or another webhook undid it."""
    asked = f" and asks for {', '.join(placement.wants)}" if placement.wants else ""
    queue = f'LocalQueue "{placement.queue}"' if placement.queue else "a queue"
    rule = (
        f"the pod belongs to {queue}{asked}, so it must be created with the gate"
        f" {names.ADMISSION_GATE}; if another webhook added the request, set the label"
        f" {names.QUEUE_LABEL} on the pod itself"
    )
    return fielderrors.required(_GATES_PATH, rule)
