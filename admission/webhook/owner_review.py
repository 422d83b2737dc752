"""What a review of an owner that is held as a whole decides, whatever its kind.

An owner with a queue is created suspended, and its pod templates ask for GPUs in the names of its
queue, because pods of a started owner are not reviewed for that again. What differs between kinds
is in ``owners.review``.
Source: kueue pkg/controller/jobframework (defaults.go, validation.go).
Differs: an owner without GPUs never goes to the default queue, and one with a template that names
a queue leaves it to its pods (ADR 0040).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from admission.base import fielderrors, names, patches
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import limit_range, views
from admission.objects.limit_range import LimitRange
from admission.objects.reviewed_pod import Pod, PodSpec
from admission.owners.review import Reviewed, Template
from admission.webhook import (
    earlier_admission,
    hints,
    limiting,
    making,
    metadata_rules,
    owner_admissions,
    pod_review,
    queueing,
    requesting,
    requests,
    rewriting,
    topology,
    unserved,
)
from admission.webhook.pod_review import Outcome
from admission.webhook.queueing import Placement, Standing
from admission.webhook.review_context import Context, Knowledge, Rules
from admission.webhook.rewriting import Rewritten

_ADMITTED_PATH: Final = FieldPath.of("metadata", "annotations").key(names.WORKLOAD_ANNOTATION)
_OUTSIDE_PATH: Final = FieldPath.of("metadata", "annotations").key(names.OUTSIDE_QUOTA)
_METADATA: Final = "/metadata/"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A pod template as its queue wants it, or why it cannot be."""

    template: Template
    pod: Pod
    operations: tuple[Operation, ...] = ()
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def mutate(owner: Reviewed, context: Context, rules: Rules, knowledge: Knowledge) -> Outcome:
    """Prepare an owner that is being created: queue, suspension, GPU resource names.

    Doing it twice equals doing it once, so the API server may ask again.
    """
    outcome = _mutate(owner, context, rules, knowledge)
    if outcome.errors:
        return outcome
    patch = PatchBuilder()
    if names.UNREVIEWED in (owner.metadata.annotations or {}):
        # that it was suspended for want of a review stays right (ADR 0195)
        patch.remove(patches.pointer("metadata", "annotations", names.UNREVIEWED))
    dropped: tuple[Operation, ...] = ()
    if outcome.standing is not Standing.OF_JOB:
        _, dropped = earlier_admission.metadata_without_marks(owner.metadata)
    operations = (*patch.operations(), *dropped, *outcome.operations)
    return replace(outcome, operations=operations)


_KNOWINGLY: Final = (names.INJECTED, names.OUTSIDE_QUOTA)
"""Annotations with which an owner is started: by the controller, and by an administrator."""


def keep_waiting(
    old: Reviewed, new: Reviewed, context: Context, rules: Rules, knowledge: Knowledge
) -> Outcome:
    """Undo the start of an owner that waits for quota (ADR 0230).

    A manifest that says that it runs, and is applied again, does not mean that it should start
    without quota.
    """
    queue = new.metadata.label(names.QUEUE_LABEL)
    is_its_own = is_child(new, rules) or is_made_for_owner(new, context, rules, knowledge)
    is_meant = any(
        new.metadata.annotation(key) != old.metadata.annotation(key) for key in _KNOWINGLY
    ) or bool(new.metadata.annotation(names.OUTSIDE_QUOTA))
    starts = old.is_held() and not new.is_held()
    if not starts or not queue or queue != old.metadata.label(names.QUEUE_LABEL):
        return Outcome(standing=Standing.FREE)
    if is_its_own or is_meant:
        return Outcome(standing=Standing.FREE)
    return Outcome(
        standing=Standing.QUEUED,
        operations=tuple(new.hold()),
        warnings=(hints.kept_waiting(new.kind.name, queue),),
    )


def _mutate(owner: Reviewed, context: Context, rules: Rules, knowledge: Knowledge) -> Outcome:
    if is_made_for_owner(owner, context, rules, knowledge):
        return Outcome(standing=Standing.OF_JOB, operations=_of_parent(owner))
    try:
        templates = owner.templates()
    except msgspec.ValidationError as broken:
        return unreadable(broken)
    cleaned: list[Template] = []
    taken_out: list[Operation] = []
    for one in templates:
        pod, operations = earlier_admission.pod_without_injected(owner.metadata, one.name, one.pod)
        cleaned.append(msgspec.structs.replace(one, pod=pod) if operations else one)
        taken_out += at_template(one, operations)
    outcome = _mutate_templates(owner, cleaned, context, rules, knowledge)
    return replace(outcome, operations=(*taken_out, *outcome.operations))


def _mutate_templates(
    owner: Reviewed,
    templates: Sequence[Template],
    context: Context,
    rules: Rules,
    knowledge: Knowledge,
) -> Outcome:
    """Prepare an owner with pod templates that no earlier admission has changed."""
    if not templates:
        named = owner.metadata.label(names.QUEUE_LABEL)
        is_left_out = queueing.is_left_out(context.namespace, rules, knowledge)
        spread = owner.spread(named) if named and not is_left_out else ()
        return Outcome(standing=Standing.FREE, operations=tuple(spread))
    asked = [requests.managed_names(one.pod, rules.managed) for one in templates]
    wants = tuple(sorted({name for wanted in asked for name in wanted}))
    placement = _place(owner, templates, wants, context, rules, knowledge)
    if placement.standing is Standing.REFUSED:
        error = _refusal(placement, context, knowledge)
        return Outcome(standing=placement.standing, errors=(error,))
    if not placement.queue:
        return _without_queue(owner, templates, placement, context, rules, knowledge)
    prepared = [
        _prepare(one, wanted, placement, context, rules, knowledge)
        for one, wanted in zip(templates, asked, strict=True)
    ]
    failed = [one for one in prepared if one.errors]
    if failed:
        errors = fielderrors.in_order(
            in_template(one.template, error) for one in failed for error in one.errors
        )
        warnings = _warnings(failed, len(templates))
        return Outcome(standing=placement.standing, errors=errors, warnings=tuple(warnings))
    patch = PatchBuilder()
    wanted = labels(owner.metadata, placement, knowledge)
    patch.merge("/metadata/labels", owner.metadata.labels, wanted)
    requester = requesting.stamp(owner.metadata, context, rules)
    patch.merge("/metadata/annotations", owner.metadata.annotations, requester)
    parts = [
        hints.Part(
            pod=one.pod,
            written=one.template.pod,
            name=one.template.name if len(prepared) > 1 else "",
            count=one.template.fewest,
        )
        for one in prepared
    ]
    return Outcome(
        standing=placement.standing,
        operations=(
            *unadmitted(templates),
            *patch.operations(),
            *owner.hold(),
            *owner.spread(placement.queue),
            *(operation for one in prepared for operation in one.operations),
        ),
        warnings=(
            *_warnings(prepared, len(templates)),
            *hints.queued(parts, placement, context, knowledge),
        ),
    )


def validate(
    old: Reviewed | None, new: Reviewed, context: Context, rules: Rules, knowledge: Knowledge
) -> Outcome:
    """Judge an owner as it would be stored.

    Args:
        old: as stored so far, of the same kind; None when it is being created.
        new: as it would be stored, after every mutation.
        context: what the review says besides the objects.
        rules: what the installation chose.
        knowledge: what was last seen of the cluster.
    """
    if is_made_for_owner(new, context, rules, knowledge):
        return Outcome(standing=Standing.OF_JOB)
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
    for one in templates:
        found = topology.errors(one.pod.metadata.annotations or {})
        if is_queued:
            found += unserved.errors(one.pod)
            warnings += without_effect(one, len(templates))
        errors += [in_template(one, error) for error in found]
    if is_queued:
        errors += requesting.created(new.metadata, context, rules)
    if old is not None:
        errors += requesting.changed(old.metadata, new.metadata)
        has_default = queueing.has_default_queue(context.namespace, knowledge)
        errors += metadata_rules.update_errors(
            as_pod(old.metadata, is_held=old.is_held()),
            as_pod(new.metadata, is_held=new.is_held()),
            has_default_queue=has_default,
        )
    return Outcome(standing=Standing.FREE, errors=fielderrors.in_order(errors), warnings=warnings)


def is_child(owner: Reviewed, rules: Rules) -> bool:
    """Return whether it says that an owner of its own kind controls it, which we hold it with.

    Whether that one exists and has a queue, the controller finds out.
    """
    held = rules.kinds.of_controller(owner.metadata)
    return held is not None and held.holds_children and held.kind == owner.kind


def is_made_for_owner(
    owner: Reviewed, context: Context, rules: Rules, knowledge: Knowledge
) -> bool:
    """Return whether the controller of an owner that is held as a whole makes it, or changes it.

    It is held and started by that controller, and counted with that owner. Anybody can name an
    owner: so who makes the request decides, and whether that owner is there.
    """
    held = rules.kinds.of_controller(owner.metadata)
    if held is None or held.holds_children:
        return False
    marks = owner_admissions.of_templates(owner)
    return making.is_by_controller(owner.metadata, marks, context, rules, knowledge)


def _of_parent(owner: Reviewed) -> tuple[Operation, ...]:
    """Return the operations that take one out of a queue which is held, or admitted, as a part.

    Its parent's template may have named a queue; it would ask for its own quota there.
    """
    labels = owner.metadata.labels or {}
    is_part = owner.is_held() or any(one.mark for one in owner.templates())
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
    knowledge: Knowledge,
) -> Placement:
    """Return where an owner that is being created belongs."""
    queue = owner.metadata.label(names.QUEUE_LABEL)
    if queueing.is_left_out(context.namespace, rules, knowledge):
        queue = ""
    elif not queue and _leaves_it_to_us(templates, wants):
        if queueing.has_default_queue(context.namespace, knowledge):
            queue = names.DEFAULT_LOCAL_QUEUE
        elif wants and queueing.is_enforced(context.namespace, rules, knowledge):
            return Placement(standing=Standing.REFUSED, wants=wants)
        elif rules.namespaces.queue_required:
            return Placement(standing=Standing.IN_DOUBT, wants=wants)
    standing = Standing.QUEUED if queue else Standing.FREE
    return Placement(standing=standing, queue=queue, wants=wants)


def _without_queue(
    owner: Reviewed,
    templates: Sequence[Template],
    placement: Placement,
    context: Context,
    rules: Rules,
    knowledge: Knowledge,
) -> Outcome:
    """One that is left alone, or suspended for its parent or until somebody gives it a queue."""
    if placement.standing is Standing.IN_DOUBT:
        return Outcome(
            standing=placement.standing,
            operations=(*unadmitted(templates), *owner.hold()),
            warnings=(hints.held_until_queued(owner.kind.name, context, knowledge),),
        )
    operations = [*unadmitted(templates)]
    if is_child(owner, rules) and not queueing.is_left_out(context.namespace, rules, knowledge):
        was_held = owner.metadata.label(names.HELD_WITH_PARENT) == "true"
        label = {names.HELD_WITH_PARENT: "true" if was_held or not owner.is_held() else "false"}
        patch = PatchBuilder()
        patch.merge("/metadata/labels", owner.metadata.labels, label)
        operations += (*patch.operations(), *owner.hold())
        return Outcome(standing=placement.standing, operations=tuple(operations))
    wants = placement.wants if _leaves_it_to_us(templates, placement.wants) else ()
    is_left_out = queueing.is_left_out(context.namespace, rules, knowledge)
    return Outcome(
        standing=placement.standing,
        operations=tuple(operations),
        warnings=()
        if is_left_out
        else hints.without_queue(owner.metadata, wants, context, knowledge),
    )


def _leaves_it_to_us(templates: Iterable[Template], wants: tuple[str, ...]) -> bool:
    """Return whether the pods ask for devices by name and name no queue of their own.

    Pods that ask by claim alone are looked at one by one: only then it is known for what.
    """
    named = any(one.pod.metadata.label(names.QUEUE_LABEL) for one in templates)
    return bool(wants) and not named


def labels(
    metadata: views.ObjectMeta, placement: Placement, knowledge: Knowledge
) -> dict[str, str]:
    """Return the labels of an owner that is being created in a queue."""
    found = {names.QUEUE_LABEL: placement.queue}
    is_default = knowledge.workload_priority_class(pod_review.DEFAULT_PRIORITY_CLASS) is not None
    if is_default and not metadata.label(names.PRIORITY_CLASS_LABEL):
        found[names.PRIORITY_CLASS_LABEL] = pod_review.DEFAULT_PRIORITY_CLASS
    return found


def _refusal(placement: Placement, context: Context, knowledge: Knowledge) -> FieldError:
    advice = queueing.advice(context, knowledge)
    where = queueing.enforcer(context.namespace, knowledge)
    rule = f"its pods ask for {', '.join(placement.wants)}, so in {where} it must name {advice}"
    return fielderrors.required(metadata_rules.QUEUE_PATH, rule)


def unadmitted(templates: Iterable[Template]) -> Iterator[Operation]:
    """Yield the operations that take off what an earlier admission left on new templates."""
    beside: dict[str, None] = {}
    for one in templates:
        if one.beside is not None:
            beside[one.beside.at.pointer()] = None
        _, operations = earlier_admission.metadata_without_marks(one.pod.metadata)
        yield from at_template(one, operations)
    for pointer in beside:
        yield {"op": "remove", "path": pointer}


def _prepare(
    template: Template,
    wants: tuple[str, ...],
    placement: Placement,
    context: Context,
    rules: Rules,
    knowledge: Knowledge,
) -> _Prepared:
    """The template, which asks for the managed resources ``wants``, as its queue wants it."""
    pod = template.pod
    errors = tuple(requests.too_many(pod) or requests.errors(pod, rules.managed))
    if errors:
        return _Prepared(template, pod, errors=errors)
    ranges = limit_range.read(knowledge.limit_ranges(context.namespace))
    rewritten = rewriting.rewrite(pod, placement.queue, context, rules, knowledge, ranges)
    if rewritten.errors:
        return _Prepared(template, pod, errors=rewritten.errors)
    verdict = limiting.judge(
        _filled(pod, ranges),
        replace(rewritten, pod=_filled(rewritten.pod, ranges)),
        ranges,
        knowledge.resource_quotas(context.namespace),
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
        {name for _, _, one in rewritten.pod.located_containers() for name in one.limits}
    )
    if not rewritten.changed:
        return _Prepared(template, rewritten.pod, warnings=(*rewritten.warnings, *warnings))
    rule = f"the queue has these GPUs under other names: request {', '.join(names_given)}"
    error = fielderrors.forbidden(FieldPath.of(template.asks_at), rule)
    return _Prepared(template, template.pod, errors=(error,))


def _warnings(prepared: Iterable[_Prepared], count: int) -> Iterator[str]:
    """Warnings about the templates; ``count`` is how many the owner has."""
    for one in prepared:
        yield from _named(one.template, one.warnings, count)


def _named(template: Template, texts: Iterable[str], count: int) -> Iterable[str]:
    """The texts with the name of the pod set, where there are several."""
    return (f"pod set {template.name}: {text}" for text in texts) if count > 1 else texts


def _filled(template: Pod, ranges: Sequence[LimitRange]) -> Pod:
    """The pod as LimitRanger will make it: a template gets no defaults before its pods do."""
    if not ranges:
        return template
    filled, _ = limit_range.fill_all(limiting.as_limit_ranger_sees(template), ranges)
    stated = {
        one.name: views.ResourceRequirements(
            requests={name: amount.text for name, amount in one.requests.items()},
            limits={name: amount.text for name, amount in one.limits.items()},
        )
        for one in filled.containers
    }
    return rewriting.with_resources(template, stated)


def at_template(template: Template, operations: Sequence[Operation]) -> Iterator[Operation]:
    """Yield operations on a pod, at its place in the owner."""
    pointer = template.path.pointer()
    if not template.has_metadata and any(one["path"].startswith(_METADATA) for one in operations):
        yield {"op": "add", "path": f"{pointer}/metadata", "value": {}}
    for operation in operations:
        yield {**operation, "path": f"{pointer}{operation['path']}"}


def in_template(template: Template, error: FieldError) -> FieldError:
    """Return an error of a pod, at its place in the owner."""
    path = error.path
    if template.asks_at and path.text.startswith("spec."):
        path = FieldPath.of(template.asks_at)  # nobody has written that pod
    return replace(error, path=path.within(template.path))


def unreadable(error: msgspec.ValidationError) -> Outcome:
    """Return the answer for an object that the schema of its kind would refuse, too."""
    broken = fielderrors.invalid(FieldPath.of("spec"), fielderrors.OMITTED, str(error))
    return Outcome(standing=Standing.FREE, errors=(broken,))


# --------------------------------------------------------------------------------------- judging


def as_pod(owner: views.ObjectMeta, *, is_held: bool) -> Pod:
    """Return the metadata of an owner as those of a pod that is held back as long as it is."""
    gates = (views.SchedulingGate(name=names.ADMISSION_GATE),) if is_held else ()
    annotations = {
        key: value
        for key, value in (owner.annotations or {}).items()
        if key != names.ELASTIC_JOB and key not in topology.KEYS
    }
    metadata = msgspec.structs.replace(owner, annotations=annotations)
    return Pod(metadata=metadata, spec=PodSpec(scheduling_gates=gates))


def without_effect(template: Template, count: int) -> tuple[str, ...]:
    """Return warnings about what a template asks for in vain.

    Args:
        template: the template.
        count: of the templates of its owner.
    """
    found: list[str] = []
    for text in unserved.warnings(template.pod):
        if text.startswith("metadata"):
            found.append(f"{template.path.text}.{text}")
        else:
            found += _named(template, (text,), count)
    return tuple(found)


def _admission(
    old: Reviewed | None, new: Reviewed, templates: Iterable[Template]
) -> Iterator[FieldError]:
    """Pods with this mark pass without a gate, so only an owner in a queue may give it to them.

    The controller suspends an owner in a queue that runs without having been admitted.
    """
    marked = [one for one in templates if one.mark]
    if not marked or (old is not None and new.metadata.label(names.QUEUE_LABEL)):
        return
    kept: dict[str, str] = {}
    if old is not None and not old.metadata.label(names.QUEUE_LABEL):
        starts = old.is_held() and not new.is_held()
        kept = {} if starts else {one.name: one.mark for one in old.templates()}
    rule = f"is set when the {new.kind.name} is admitted: leave it out"
    for one in marked:
        if kept.get(one.name) != one.mark:
            yield in_template(one, fielderrors.forbidden(_ADMITTED_PATH, rule))


# ------------------------------------------------------------------------------------ protecting


def protect(
    old: Reviewed, new: Reviewed, context: Context, rules: Rules, knowledge: Knowledge
) -> Outcome:
    """Judge a change of an owner by somebody who may not write the status of Workloads.

    Pods of a template with the mark of an admission pass without a gate, and are counted as they
    were when it was given. What would let more of them through is refused (ADR 0134).

    Args:
        old: as stored.
        new: as it would be stored.
        context: what the review says besides the objects.
        rules: what the installation chose.
        knowledge: what was last seen of the cluster.
    """
    if is_made_for_owner(new, context, rules, knowledge):
        return Outcome(standing=Standing.OF_JOB)
    try:
        before = {one.name: one for one in old.templates()}
        after = new.templates()
    except msgspec.ValidationError as broken:
        return unreadable(broken)
    errors = fielderrors.in_order(
        [*_let_run(old, new), *_more_than_admitted(old, new, before, after)]
    ) or fielderrors.in_order(_second_time(old, new, before, after))
    return Outcome(standing=Standing.FREE, errors=errors)


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
    is_admitted = any(one.mark for one in before.values())
    for one in after:
        was = before.get(one.name)
        mark = one.mark
        if mark and (was is None or was.mark != mark):
            rule = "only the controller may set it: it lets pods start. Leave it out"
            yield in_template(one, fielderrors.forbidden(_ADMITTED_PATH, rule))
        elif mark and starts:
            rule = f"the {kind} waits to be admitted again: the controller starts it then"
            yield fielderrors.forbidden(one.path, rule)
        elif is_admitted and runs and (was is None or _asks_more(was, one)):
            rule = (
                f"the {kind} was admitted with other pods. Suspend it in the same update: it"
                " starts again when it is admitted with these"
            )
            yield fielderrors.forbidden(one.path, rule)


def _second_time(
    old: Reviewed, new: Reviewed, before: dict[str, Template], after: Sequence[Template]
) -> Iterator[FieldError]:
    """Yield what would have the pods of an admitted owner run a second time, beside the first.

    Those that each wait for the controller take nothing that was not admitted.
    """
    runs = not old.is_held() and not new.is_held()
    is_admitted = any(one.mark for one in before.values())
    waits = all(one.pod.has_gate(names.ELASTIC_JOB_GATE) for one in after)
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
