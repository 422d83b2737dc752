"""What a review of an owner that is held as a whole decides, whatever its kind.

An owner with a queue is created suspended, and its pod templates ask for GPUs in the names of its
queue, because pods of a started owner are not reviewed for that again. What differs between kinds
is in ``owners.review``.
Source: kueue pkg/controller/jobframework (defaults.go, validation.go).
Differs: an owner without GPUs never goes to the default queue, and one with a template that names
a queue leaves it to its pods (ADR 0040).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from admission.base import fielderrors, names, patches
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import limit_range, views
from admission.objects.limit_range import ParsedLimitRange
from admission.objects.reviewed_pod import ReviewedPod, ReviewedPodSpec
from admission.owners.review import Reviewed, Template
from admission.webhook import (
    admission_warnings,
    earlier_admission,
    key_warnings,
    limiting,
    making,
    metadata_rules,
    owner_admissions,
    pod_review,
    queueing,
    requester,
    requests,
    rewriting,
    topology,
    unserved,
)
from admission.webhook.pod_review import ReviewOutcome
from admission.webhook.queueing import ManagementState, QueueingResult
from admission.webhook.review_context import Context, Lister, Rules
from admission.webhook.rewriting import Rewritten

_ADMITTED_PATH: Final = FieldPath.of("metadata", "annotations").key(names.WORKLOAD_ANNOTATION)
_OUTSIDE_PATH: Final = FieldPath.of("metadata", "annotations").key(names.OUTSIDE_QUOTA)
_METADATA: Final = "/metadata/"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A pod template as its queue wants it, or why it cannot be."""

    template: Template
    pod: ReviewedPod
    operations: tuple[Operation, ...] = ()
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def mutate(owner: Reviewed, context: Context, rules: Rules, lister: Lister) -> ReviewOutcome:
    """Prepare an owner that is being created: queue, suspension, GPU resource names.

    Doing it twice equals doing it once, so the API server may ask again.
    """
    outcome = _mutate(owner, context, rules, lister)
    if outcome.errors:
        return outcome
    patch = PatchBuilder()
    if names.UNREVIEWED in (owner.metadata.annotations or {}):
        # that it was suspended for want of a review stays right (ADR 0084)
        patch.remove(patches.pointer("metadata", "annotations", names.UNREVIEWED))
    dropped: tuple[Operation, ...] = ()
    if outcome.standing is not ManagementState.OF_JOB:
        _, dropped = earlier_admission.metadata_without_marks(owner.metadata)
    operations = (*patch.operations(), *dropped, *outcome.operations)
    return replace(outcome, operations=operations)


_KNOWINGLY: Final = (names.INJECTED, names.OUTSIDE_QUOTA)
"""Annotations with which an owner is started: by the controller, and by an administrator."""


def keep_waiting(
    old: Reviewed, new: Reviewed, context: Context, rules: Rules, lister: Lister
) -> ReviewOutcome:
    """Undo the start of an owner that waits for quota (ADR 0114).

    A manifest that says that it runs, and is applied again, does not mean that it should start
    without quota. Who suspends one that is admitted is told that it starts again. What the
    controller does is not sent here.
    """
    queue = new.metadata.label(names.QUEUE_LABEL)
    is_its_own = is_child(new, rules) or is_made_for_owner(new, context, rules, lister)
    is_meant = any(
        new.metadata.annotation(key) != old.metadata.annotation(key) for key in _KNOWINGLY
    ) or bool(new.metadata.annotation(names.OUTSIDE_QUOTA))
    if _is_suspended_in_vain(old, new):
        is_partial = bool(old.metadata.annotation(names.JOB_MIN_PARALLELISM))
        warning = admission_warnings.started_again(new.kind.name, is_partial=is_partial)
        return ReviewOutcome(standing=ManagementState.FREE, warnings=(warning,))
    starts = old.is_held() and not new.is_held()
    if not starts or not queue or queue != old.metadata.label(names.QUEUE_LABEL):
        return ReviewOutcome(standing=ManagementState.FREE)
    if is_its_own or is_meant:
        return ReviewOutcome(standing=ManagementState.FREE)
    return ReviewOutcome(
        standing=ManagementState.QUEUED,
        operations=tuple(new.hold()),
        warnings=(admission_warnings.kept_waiting(new.kind.name, queue),),
    )


def _mutate(owner: Reviewed, context: Context, rules: Rules, lister: Lister) -> ReviewOutcome:
    if is_made_for_owner(owner, context, rules, lister):
        return ReviewOutcome(standing=ManagementState.OF_JOB, operations=_of_parent(owner))
    try:
        templates = owner.templates()
    except msgspec.ValidationError as broken:
        return unreadable(broken)
    cleaned: list[Template] = []
    taken_out: list[Operation] = []
    for template in templates:
        pod, operations = earlier_admission.pod_without_injected(
            owner.metadata, template.name, template.pod
        )
        cleaned.append(msgspec.structs.replace(template, pod=pod) if operations else template)
        taken_out += at_template(template, operations)
    outcome = _mutate_templates(owner, cleaned, context, rules, lister)
    return replace(outcome, operations=(*taken_out, *outcome.operations))


def _mutate_templates(
    owner: Reviewed,
    templates: Sequence[Template],
    context: Context,
    rules: Rules,
    lister: Lister,
) -> ReviewOutcome:
    """Prepare an owner with pod templates that no earlier admission has changed."""
    if not templates:
        named = owner.metadata.label(names.QUEUE_LABEL)
        is_left_out = queueing.is_left_out(context.namespace, rules, lister)
        spread = owner.spread(named) if named and not is_left_out else ()
        return ReviewOutcome(standing=ManagementState.FREE, operations=tuple(spread))
    names_asked = [requests.managed_names(template.pod, rules.managed) for template in templates]
    wants = tuple(sorted({name for names_wanted in names_asked for name in names_wanted}))
    placement = _place(owner, templates, wants, context, rules, lister)
    if placement.standing is ManagementState.REFUSED:
        error = _refusal(placement, context, lister)
        return ReviewOutcome(standing=placement.standing, errors=(error,))
    if not placement.queue:
        return _without_queue(owner, templates, placement, context, rules, lister)
    prepared = [
        _prepare(template, names_wanted, placement, context, rules, lister)
        for template, names_wanted in zip(templates, names_asked, strict=True)
    ]
    failed = [part for part in prepared if part.errors]
    if failed:
        errors = fielderrors.in_order(
            in_template(part.template, error) for part in failed for error in part.errors
        )
        warnings = _warnings(failed, len(templates))
        return ReviewOutcome(standing=placement.standing, errors=errors, warnings=tuple(warnings))
    patch = PatchBuilder()
    labels_wanted = labels(owner.metadata, placement, lister)
    patch.merge("/metadata/labels", owner.metadata.labels, labels_wanted)
    marks = requester.stamp(owner.metadata, context, rules)
    patch.merge("/metadata/annotations", owner.metadata.annotations, marks)
    parts = [
        admission_warnings.CreatedPods(
            pod=part.pod,
            written=part.template.pod,
            name=part.template.name if len(prepared) > 1 else "",
            count=part.template.fewest,
        )
        for part in prepared
    ]
    return ReviewOutcome(
        standing=placement.standing,
        operations=(
            *unadmitted(templates),
            *patch.operations(),
            *owner.hold(),
            *owner.spread(placement.queue),
            *(operation for part in prepared for operation in part.operations),
        ),
        warnings=(
            *_warnings(prepared, len(templates)),
            *admission_warnings.queued(owner.metadata, parts, placement, context, lister),
        ),
    )


def validate(
    old: Reviewed | None, new: Reviewed, context: Context, rules: Rules, lister: Lister
) -> ReviewOutcome:
    """Judge an owner as it would be stored.

    Args:
        old: as stored so far, of the same kind; None when it is being created.
        new: as it would be stored, after every mutation.
        context: what the review says besides the objects.
        rules: what the installation chose.
        lister: what was last seen of the cluster.
    """
    if is_made_for_owner(new, context, rules, lister):
        return ReviewOutcome(standing=ManagementState.OF_JOB)
    try:
        templates = new.templates()
    except msgspec.ValidationError as broken:
        return unreadable(broken)
    errors = [
        *metadata_rules.create_errors(as_pod(new.metadata, is_held=new.is_held())),
        *new.errors(old),
        *_admission(old, new, templates),
    ]
    warnings: tuple[str, ...] = ()
    is_queued = old is None and bool(new.metadata.label(names.QUEUE_LABEL))
    for template in templates:
        problems = topology.errors(template.pod.metadata.annotations or {})
        if is_queued:
            problems += unserved.errors(template.pod)
            warnings += without_effect(template, len(templates))
        errors += [in_template(template, error) for error in problems]
    errors += _between_pod_sets(old, new, templates)
    if is_queued:
        errors += requester.created(new.metadata, context, rules)
    if old is not None:
        warnings += admission_warnings.relabelled(old.metadata, new.metadata, context, lister)
        before = _templates_before(old)
        warnings += key_warnings.of_update(
            (old.metadata, *(template.pod.metadata for template in before.values())),
            (new.metadata, *(template.pod.metadata for template in templates)),
        )
        if _is_stopped(old, new, before, templates):
            warnings += (admission_warnings.stopped_by_update(new.kind.name),)
        parts = _asked_anew(old, new, before, templates)
        if parts:
            queue = new.metadata.label(names.QUEUE_LABEL)
            placement = QueueingResult(standing=ManagementState.QUEUED, queue=queue)
            about = admission_warnings.asked_anew(new.metadata, parts, placement, context, lister)
            warnings += tuple(text for text in about if text not in warnings)
        errors += requester.changed(old.metadata, new.metadata)
        has_default = queueing.has_default_queue(context.namespace, lister)
        errors += metadata_rules.update_errors(
            as_pod(old.metadata, is_held=old.is_held()),
            as_pod(new.metadata, is_held=new.is_held()),
            has_default_queue=has_default,
        )
    return ReviewOutcome(
        standing=ManagementState.FREE, errors=fielderrors.in_order(errors), warnings=warnings
    )


def _templates_before(old: Reviewed) -> dict[str, Template]:
    """Return the pod templates as stored, by pod set; none where they cannot be read."""
    try:
        return {template.name: template for template in old.templates()}
    except msgspec.ValidationError:
        return {}


def _asked_anew(
    old: Reviewed, new: Reviewed, before: Mapping[str, Template], templates: Sequence[Template]
) -> list[admission_warnings.CreatedPods]:
    """Return the pods of an owner that an update makes ask for quota; none where it asks for none.

    An owner that waits asks for all its pods anew, if they are more than before, others, or in
    another queue. One that runs asks for those that each wait for the controller.
    """
    queue = new.metadata.label(names.QUEUE_LABEL)
    was_in = old.metadata.label(names.QUEUE_LABEL)
    if not queue or not was_in or before.keys() != {template.name for template in templates}:
        return []
    pairs = [(before[template.name], template) for template in templates]
    if new.is_held():
        is_other = queue != was_in or any(
            now.fewest > was.fewest or now.pod.spec != was.pod.spec for was, now in pairs
        )
        charged = {was.name: 0 for was, _ in pairs} if is_other else {}
    else:
        charged = {
            was.name: was.fewest
            for was, now in pairs
            if now.pod.has_gate(names.ELASTIC_JOB_GATE) and now.fewest > was.fewest
        }
    return [
        admission_warnings.CreatedPods(
            pod=template.pod,
            written=template.pod,
            name=template.name if len(templates) > 1 else "",
            count=template.fewest,
            charged=charged[template.name],
        )
        for template in templates
        if template.name in charged and template.fewest
    ]


def _is_stopped(
    old: Reviewed, new: Reviewed, before: Mapping[str, Template], templates: Sequence[Template]
) -> bool:
    """Return whether an update makes the controller stop pods that run as they were admitted.

    An owner that asks for no pods any more has none that wait. Elastic ones shrink.
    """
    was_in, now_in = (each.metadata.label(names.QUEUE_LABEL) for each in (old, new))
    is_admitted = bool(was_in) and any(template.mark for template in before.values())
    if old.is_held() or not is_admitted or now_in != was_in:
        return False
    pairs = [(before[each.name], each) for each in templates if each.name in before]
    if new.is_held():
        return any(was.count and _asks_more(was, now) for was, now in pairs)
    return any(
        0 < now.count < was.count and not now.pod.has_gate(names.ELASTIC_JOB_GATE)
        for was, now in pairs
    )


def _is_suspended_in_vain(old: Reviewed, new: Reviewed) -> bool:
    """Return whether an admitted owner is suspended, with the pods that it was admitted with."""
    if old.is_held() or not new.is_held():
        return False
    try:
        before = {template.name: template for template in old.templates()}
        after = [template for template in new.templates() if template.name in before]
    except msgspec.ValidationError:
        return False  # `validate` says so
    is_admitted = any(template.mark for template in before.values())
    return is_admitted and not any(_asks_more(before[t.name], t) for t in after)


def is_child(owner: Reviewed, rules: Rules) -> bool:
    """Return whether it says that an owner of its own kind controls it, which we hold it with.

    Whether that one exists and has a queue, the controller finds out.
    """
    kind = rules.kinds.of_controller(owner.metadata)
    return kind is not None and kind.holds_children and kind.kind == owner.kind


def is_made_for_owner(owner: Reviewed, context: Context, rules: Rules, lister: Lister) -> bool:
    """Return whether the controller of an owner that is held as a whole makes it, or changes it.

    It is held and started by that controller, and counted with that owner. Anybody can name an
    owner: so who makes the request decides, and whether that owner is there.
    """
    kind = rules.kinds.of_controller(owner.metadata)
    if kind is None or kind.holds_children:
        return False
    marks = owner_admissions.of_templates(owner)
    return making.is_by_controller(owner.metadata, marks, context, rules, lister)


def _of_parent(owner: Reviewed) -> tuple[Operation, ...]:
    """Return the operations that take one out of a queue which is held, or admitted, as a part.

    Its parent's template may have named a queue; it would ask for its own quota there.
    """
    labels = owner.metadata.labels or {}
    is_part = owner.is_held() or any(template.mark for template in owner.templates())
    if names.QUEUE_LABEL not in labels or not is_part:
        return ()
    patch = PatchBuilder()
    kept = {key: text for key, text in labels.items() if key != names.QUEUE_LABEL}
    patch.become("/metadata/labels", labels, kept)
    return patch.operations()


# ------------------------------------------------------------------------------------- preparing


def _place(
    owner: Reviewed,
    templates: Sequence[Template],
    wants: tuple[str, ...],
    context: Context,
    rules: Rules,
    lister: Lister,
) -> QueueingResult:
    """Return where an owner that is being created belongs."""
    queue = owner.metadata.label(names.QUEUE_LABEL)
    if queueing.is_left_out(context.namespace, rules, lister):
        queue = ""
    elif not queue and _leaves_it_to_us(templates, wants):
        if queueing.has_default_queue(context.namespace, lister):
            queue = names.DEFAULT_LOCAL_QUEUE
        elif wants and queueing.is_enforced(context.namespace, rules, lister):
            return QueueingResult(standing=ManagementState.REFUSED, wants=wants)
        elif rules.namespaces.queue_required:
            return QueueingResult(standing=ManagementState.IN_DOUBT, wants=wants)
    standing = ManagementState.QUEUED if queue else ManagementState.FREE
    return QueueingResult(standing=standing, queue=queue, wants=wants)


def _without_queue(
    owner: Reviewed,
    templates: Sequence[Template],
    placement: QueueingResult,
    context: Context,
    rules: Rules,
    lister: Lister,
) -> ReviewOutcome:
    """One that is left alone, or suspended for its parent or until somebody gives it a queue."""
    on_templates = [template.pod.metadata for template in templates]
    about_keys = key_warnings.outside_queues(owner.metadata, on_templates)
    if placement.standing is ManagementState.IN_DOUBT:
        return ReviewOutcome(
            standing=placement.standing,
            operations=(*unadmitted(templates), *owner.hold()),
            warnings=(
                *about_keys,
                admission_warnings.held_until_queued(owner.kind.name, context, lister),
            ),
        )
    operations = [*unadmitted(templates)]
    if is_child(owner, rules) and not queueing.is_left_out(context.namespace, rules, lister):
        was_held = owner.metadata.label(names.HELD_WITH_PARENT) == "true"
        label = {names.HELD_WITH_PARENT: "true" if was_held or not owner.is_held() else "false"}
        patch = PatchBuilder()
        patch.merge("/metadata/labels", owner.metadata.labels, label)
        operations += (*patch.operations(), *owner.hold())
        return ReviewOutcome(standing=placement.standing, operations=tuple(operations))
    wants = placement.wants if _leaves_it_to_us(templates, placement.wants) else ()
    is_left_out = queueing.is_left_out(context.namespace, rules, lister)
    return ReviewOutcome(
        standing=placement.standing,
        operations=tuple(operations),
        warnings=()
        if is_left_out
        else (
            *about_keys,
            *admission_warnings.of_templates(owner.metadata, on_templates, context, lister),
            *admission_warnings.without_queue(owner.metadata, wants, context, lister),
        ),
    )


def _leaves_it_to_us(templates: Iterable[Template], wants: tuple[str, ...]) -> bool:
    """Return whether the pods ask for devices by name and name no queue of their own.

    Pods that ask by claim alone are looked at one by one: only then it is known for what.
    """
    named = any(template.pod.metadata.label(names.QUEUE_LABEL) for template in templates)
    return bool(wants) and not named


def labels(
    metadata: views.ObjectMeta, placement: QueueingResult, lister: Lister
) -> dict[str, str]:
    """Return the labels of an owner that is being created in a queue."""
    labels_ = {names.QUEUE_LABEL: placement.queue}
    is_default = lister.workload_priority_class(pod_review.DEFAULT_PRIORITY_CLASS) is not None
    if is_default and not metadata.label(names.PRIORITY_CLASS_LABEL):
        labels_[names.PRIORITY_CLASS_LABEL] = pod_review.DEFAULT_PRIORITY_CLASS
    return labels_


def _refusal(placement: QueueingResult, context: Context, lister: Lister) -> FieldError:
    advice = queueing.advice(context, lister)
    where = queueing.enforcer(context.namespace, lister)
    rule = f"its pods ask for {', '.join(placement.wants)}, so in {where} it must name {advice}"
    return fielderrors.required(metadata_rules.QUEUE_PATH, rule)


def unadmitted(templates: Iterable[Template]) -> Iterator[Operation]:
    """Yield the operations that take off what an earlier admission left on new templates."""
    beside: dict[str, None] = {}
    for template in templates:
        if template.beside is not None:
            beside[template.beside.at.pointer()] = None
        _, operations = earlier_admission.metadata_without_marks(template.pod.metadata)
        yield from at_template(template, operations)
    for pointer in beside:
        yield {"op": "remove", "path": pointer}


def _prepare(
    template: Template,
    wants: tuple[str, ...],
    placement: QueueingResult,
    context: Context,
    rules: Rules,
    lister: Lister,
) -> _Prepared:
    """The template, which asks for the managed resources ``wants``, as its queue wants it."""
    pod = template.pod
    errors = tuple(requests.too_many(pod) or requests.errors(pod, rules.managed))
    if errors:
        return _Prepared(template, pod, errors=errors)
    ranges = limit_range.read(lister.limit_ranges(context.namespace))
    rewritten = rewriting.rewrite(pod, placement.queue, context, rules, lister, ranges)
    if rewritten.errors:
        return _Prepared(template, pod, errors=rewritten.errors)
    verdict = limiting.judge(
        _filled(pod, ranges),
        replace(rewritten, pod=_filled(rewritten.pod, ranges)),
        ranges,
        lister.resource_quotas(context.namespace),
        rules.catalogue,
    )
    if verdict.errors:
        return _Prepared(template, pod, errors=verdict.errors, warnings=verdict.warnings)
    if template.asks_at:
        return _unchanged(template, rewritten, verdict.warnings)
    patch = PatchBuilder()
    metadata, spec = pod.metadata, pod.spec
    patch.merge("/metadata/annotations", metadata.annotations, rewritten.annotations)
    tolerations = pod_review.missing_tolerations(spec, wants, rules)
    wire = [pod_review.toleration_to_wire(item) for item in tolerations]
    patch.append("/spec/tolerations", spec.tolerations, wire)
    rewriting.add_operations(patch, rewritten)
    return _Prepared(
        template,
        rewritten.pod,
        operations=tuple(at_template(template, patch.operations())),
        warnings=(*rewritten.warnings, *verdict.warnings),
    )


def _unchanged(template: Template, rewritten: Rewritten, warnings: tuple[str, ...]) -> _Prepared:
    """A part of a template without changes, or why its queue cannot admit it."""
    names_given = sorted(
        {
            name
            for _, _, container in rewritten.pod.located_containers()
            for name in container.limits
        }
    )
    if not rewritten.changed:
        return _Prepared(template, rewritten.pod, warnings=(*rewritten.warnings, *warnings))
    rule = f"the queue has these GPUs under other names: request {', '.join(names_given)}"
    error = fielderrors.forbidden(FieldPath.of(template.asks_at), rule)
    return _Prepared(template, template.pod, errors=(error,))


def _warnings(prepared: Iterable[_Prepared], count: int) -> Iterator[str]:
    """Warnings about the templates; ``count`` is how many the owner has."""
    for part in prepared:
        yield from _named(part.template, part.warnings, count)


def _named(template: Template, texts: Iterable[str], count: int) -> Iterable[str]:
    """The texts with the name of the pod set, where there are several."""
    return (f"pod set {template.name}: {text}" for text in texts) if count > 1 else texts


def _filled(template: ReviewedPod, ranges: Sequence[ParsedLimitRange]) -> ReviewedPod:
    """The pod as LimitRanger will make it: a template gets no defaults before its pods do."""
    if not ranges:
        return template
    filled, _ = limit_range.fill_all(limiting.as_limit_ranger_sees(template), ranges)
    stated = {
        container.name: views.ResourceRequirements(
            requests={name: amount.text for name, amount in container.requests.items()},
            limits={name: amount.text for name, amount in container.limits.items()},
        )
        for container in filled.containers
    }
    return rewriting.with_resources(template, stated)


def at_template(template: Template, operations: Sequence[Operation]) -> Iterator[Operation]:
    """Yield operations on a pod, at its place in the owner."""
    pointer = template.path.pointer()
    if not template.has_metadata and any(
        operation["path"].startswith(_METADATA) for operation in operations
    ):
        yield {"op": "add", "path": f"{pointer}/metadata", "value": {}}
    for operation in operations:
        yield {**operation, "path": f"{pointer}{operation['path']}"}


def in_template(template: Template, error: FieldError) -> FieldError:
    """Return an error of a pod, at its place in the owner."""
    path = error.path
    if template.asks_at and path.text.startswith("spec."):
        path = FieldPath.of(template.asks_at)  # nobody has written that pod
    return replace(error, path=path.within(template.path))


def unreadable(error: msgspec.ValidationError) -> ReviewOutcome:
    """Return the answer for an object that the schema of its kind would refuse, too."""
    broken = fielderrors.invalid(FieldPath.of("spec"), fielderrors.OMITTED, str(error))
    return ReviewOutcome(standing=ManagementState.FREE, errors=(broken,))


# --------------------------------------------------------------------------------------- judging


def as_pod(owner: views.ObjectMeta, *, is_held: bool) -> ReviewedPod:
    """Return the metadata of an owner as those of a pod that is held back as long as it is."""
    gates = (views.SchedulingGate(name=names.ADMISSION_GATE),) if is_held else ()
    annotations = {
        key: value
        for key, value in (owner.annotations or {}).items()
        if key != names.ELASTIC_JOB and key not in topology.KEYS
    }
    metadata = msgspec.structs.replace(owner, annotations=annotations)
    return ReviewedPod(metadata=metadata, spec=ReviewedPodSpec(scheduling_gates=gates))


def _between_pod_sets(
    old: Reviewed | None, new: Reviewed, templates: Sequence[Template]
) -> Iterator[FieldError]:
    """Yield the broken rules about what pod sets ask of topologies with so many pods.

    Those that the stored owner breaks, too, hinder no change: an earlier version let them pass.
    """
    before = set() if old is None else set(_topology_errors(old, old.templates()))
    yield from (error for error in _topology_errors(new, templates) if error not in before)


def _topology_errors(owner: Reviewed, templates: Iterable[Template]) -> list[FieldError]:
    is_queued = bool(owner.metadata.label(names.QUEUE_LABEL))
    return topology.errors_between(
        topology.AnnotatedPodSet(
            topology.PATH.within(template.path),
            template.pod.metadata.annotations or {},
            template.count,
            is_counted=is_queued and not template.pod.has_gate(names.ELASTIC_JOB_GATE),
        )
        for template in templates
    )


def without_effect(template: Template, count: int) -> tuple[str, ...]:
    """Return warnings about what a template asks for in vain.

    Args:
        template: the template.
        count: of the templates of its owner.
    """
    warnings: list[str] = []
    for text in unserved.warnings(template.pod):
        if text.startswith("metadata"):
            warnings.append(f"{template.path.text}.{text}")
        else:
            warnings += _named(template, (text,), count)
    return tuple(warnings)


def _admission(
    old: Reviewed | None, new: Reviewed, templates: Iterable[Template]
) -> Iterator[FieldError]:
    """Pods with this mark pass without a gate, so only an owner in a queue may give it to them.

    The controller suspends an owner in a queue that runs without having been admitted.
    """
    marked = [template for template in templates if template.mark]
    if not marked or (old is not None and new.metadata.label(names.QUEUE_LABEL)):
        return
    kept: dict[str, str] = {}
    if old is not None and not old.metadata.label(names.QUEUE_LABEL):
        starts = old.is_held() and not new.is_held()
        kept = {} if starts else {template.name: template.mark for template in old.templates()}
    rule = f"is set when the {new.kind.name} is admitted: leave it out"
    for template in marked:
        if kept.get(template.name) != template.mark:
            yield in_template(template, fielderrors.forbidden(_ADMITTED_PATH, rule))


# ------------------------------------------------------------------------------------ protecting


def protect(
    old: Reviewed, new: Reviewed, context: Context, rules: Rules, lister: Lister
) -> ReviewOutcome:
    """Judge a change of an owner by somebody who may not write the status of Workloads.

    Pods of a template with the mark of an admission pass without a gate, and are counted as they
    were when it was given. What would let more of them through is refused (ADR 0134).

    Args:
        old: as stored.
        new: as it would be stored.
        context: what the review says besides the objects.
        rules: what the installation chose.
        lister: what was last seen of the cluster.
    """
    if is_made_for_owner(new, context, rules, lister):
        return ReviewOutcome(standing=ManagementState.OF_JOB)
    try:
        before = {template.name: template for template in old.templates()}
        after = new.templates()
    except msgspec.ValidationError as broken:
        return unreadable(broken)
    errors = fielderrors.in_order(
        [*_let_run(old, new), *_more_than_admitted(old, new, before, after)]
    ) or fielderrors.in_order(_second_time(old, new, before, after))
    return ReviewOutcome(standing=ManagementState.FREE, errors=errors)


def _let_run(old: Reviewed, new: Reviewed) -> Iterator[FieldError]:
    """Yield why the mark of what runs outside of quota may not be set (ADR 0214)."""
    present = new.metadata.annotation(names.OUTSIDE_QUOTA)
    if present and present != old.metadata.annotation(names.OUTSIDE_QUOTA):
        rule = "only administrators may set it: it lets pods run outside of quota. Leave it out"
        yield fielderrors.forbidden(_OUTSIDE_PATH, rule)


def _more_than_admitted(
    old: Reviewed, new: Reviewed, before: dict[str, Template], after: Sequence[Template]
) -> Iterator[FieldError]:
    kind = new.kind.name
    starts = old.is_held() and not new.is_held()
    runs = not old.is_held() and not new.is_held()
    is_admitted = any(template.mark for template in before.values())
    for template in after:
        was = before.get(template.name)
        mark = template.mark
        if mark and (was is None or was.mark != mark):
            rule = "only the controller may set it: it lets pods start. Leave it out"
            yield in_template(template, fielderrors.forbidden(_ADMITTED_PATH, rule))
        elif mark and starts:
            rule = f"the {kind} waits to be admitted again: the controller starts it then"
            yield fielderrors.forbidden(template.path, rule)
        elif is_admitted and runs and (was is None or _asks_more(was, template)):
            rule = (
                f"the {kind} was admitted with other pods. Suspend it in the same update: it"
                " starts again when it is admitted with these"
            )
            yield fielderrors.forbidden(template.path, rule)


def _second_time(
    old: Reviewed, new: Reviewed, before: dict[str, Template], after: Sequence[Template]
) -> Iterator[FieldError]:
    """Yield what would have the pods of an admitted owner run a second time, beside the first.

    Those that each wait for the controller take nothing that was not admitted.
    """
    runs = not old.is_held() and not new.is_held()
    is_admitted = any(template.mark for template in before.values())
    waits = all(template.pod.has_gate(names.ELASTIC_JOB_GATE) for template in after)
    path = new.remakes(old) if runs and is_admitted and not waits else None
    if path is not None:
        rule = (
            "all its pods would run a second time, beside those that were admitted. Suspend the"
            f" {new.kind.name} in the same update, or create it with the annotation"
            f' {names.ELASTIC_JOB}: "true": then they wait for quota'
        )
        yield fielderrors.forbidden(path, rule)


def _asks_more(was: Template, now: Template) -> bool:
    """Return whether a template makes other pods than before, or more of them.

    More pods that each wait for the controller take nothing that was not admitted.
    """
    waits = now.pod.has_gate(names.ELASTIC_JOB_GATE)
    return was.raw != now.raw or (now.count > was.count and not waits)
