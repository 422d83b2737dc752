"""What a review of an owner that serves decides: its queue reaches its pods.

Source: kueue pkg/controller/jobs, deployment, statefulset and leaderworkerset (their webhooks).
Differs: what Workloads were made for may change while there are no replicas; an owner without a
queue goes to the default queue only when it is created and its pods ask for GPUs, so that what
exists is not rolled out anew.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from admission.base import fielderrors, names
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import cluster_queue, limit_range, role_hash
from admission.owners import deployment, serving
from admission.owners.review import Template
from admission.owners.serving import Serving
from admission.webhook import (
    admission_warnings,
    key_warnings,
    making,
    metadata_rules,
    owner_review,
    queueing,
    requester,
    requests,
    rewriting,
    unserved,
)
from admission.webhook.pod_review import ReviewOutcome
from admission.webhook.queueing import ManagementState, QueueingResult
from admission.webhook.review_context import Context, Lister, Rules

_COPIED: Final = (serving.DEPLOYMENT, serving.STATEFUL_SET)
"""Kinds whose policies record the creator in their pod templates."""
_FREE: Final = ReviewOutcome(standing=ManagementState.FREE)
_FIXED: Final = "field is immutable while there are replicas: scale to 0 first"


class _Hints(NamedTuple):
    """Warnings about each pod, and about all replicas together."""

    about_pods: tuple[str, ...] = ()
    about_replicas: tuple[str, ...] = ()


_NO_HINTS: Final = _Hints()


def mutate(
    old: Serving | None, new: Serving, context: Context, rules: Rules, lister: Lister
) -> ReviewOutcome:
    """Put the queue of an owner, and what belongs to it, on its pod templates.

    Doing it twice equals doing it once, so the API server may ask again.

    Args:
        old: as stored so far; None when it is being created.
        new: as it would be stored.
        context: what the review says besides the objects.
        rules: what the installation chose.
        lister: what was last seen of the cluster.
    """
    if _is_of_another(new, context, rules, lister):
        return _FREE
    if queueing.is_left_out(context.namespace, rules, lister):
        return _FREE
    try:
        templates, foreign = new.templates(), new.foreign_queue()
    except msgspec.ValidationError as broken:
        return owner_review.unreadable(broken)
    queue, other_queue = _queue(new), ""
    if not queue and old is None and _wants_a_queue(templates, rules):
        queue = _known_queue((foreign, names.DEFAULT_LOCAL_QUEUE), context, lister)
        other_queue = "" if foreign in {"", queue} else foreign
    if not queue:
        return _without_queue(old, new, templates, context, rules, lister)
    placement = QueueingResult(standing=ManagementState.QUEUED, queue=queue)
    labels = owner_review.labels(new.metadata, placement, lister) if old is None else {}
    marks = _requester_marks(old, new, context, rules)
    patch = PatchBuilder()
    patch.merge("/metadata/labels", new.metadata.labels, labels)
    patch.merge("/metadata/annotations", new.metadata.annotations, marks)
    metadata = msgspec.structs.replace(
        new.metadata, labels={**(new.metadata.labels or {}), **labels}
    )
    queued = msgspec.structs.replace(new, metadata=metadata)
    operations = (
        *(owner_review.unadmitted(templates) if old is None else ()),
        *patch.operations(),
        *new.written(),
        *(operation for template in templates for operation in _reach(queued, template, marks)),
    )
    is_new = old is None or _queue(old) != queue
    is_larger = old is not None and _replicas(new) > _replicas(old)
    is_rolled_out = old is None or _pods(old) != _pods(new)
    parts, refused = (
        _created_pods(new, templates, placement, context, rules, lister)
        if is_new or is_larger or is_rolled_out
        else ([], [])
    )
    hinted = (
        _admission_warnings(new, parts, refused, placement, context, lister)
        if is_new or is_larger
        else _NO_HINTS
    )
    warnings = (*(hinted.about_pods if is_new else ()), *hinted.about_replicas)
    if other_queue:
        warnings = (admission_warnings.no_such_queue(other_queue, queue), *warnings)
    if old is not None and not is_new:
        about_class = admission_warnings.of_new_pods(old.metadata, new.metadata, lister)
        warnings = (*warnings, *about_class)
    if is_rolled_out:
        verdict = "" if old is None else "May wait: "
        added = _replicas(new) - (0 if old is None or is_new else _replicas(old))
        about_rollout = _about_rollout(
            verdict, new, parts, max(0, added), placement, context, rules, lister
        )
        warnings = (*warnings, *about_rollout)
    return ReviewOutcome(standing=ManagementState.QUEUED, operations=operations, warnings=warnings)


def _without_queue(
    old: Serving | None,
    new: Serving,
    templates: tuple[Template, ...],
    context: Context,
    rules: Rules,
    lister: Lister,
) -> ReviewOutcome:
    """An owner that is not changed; its creator is warned about what its pods use or wait for."""
    if old is not None:
        return _FREE
    on_templates = [template.pod.metadata for template in templates]
    about_keys = key_warnings.outside_queues(new.metadata, on_templates)
    if not _wants_a_queue(templates, rules):
        about = admission_warnings.of_templates(new.metadata, on_templates, context, lister)
        return replace(_FREE, warnings=(*about_keys, *about))
    if queueing.is_enforced(context.namespace, rules, lister) or rules.namespaces.queue_required:
        text = admission_warnings.held_until_queued(new.kind.name, context, lister)
        return replace(_FREE, warnings=(*about_keys, text))
    wants = sorted(
        {n for template in templates for n in requests.managed_names(template.pod, rules.managed)}
    )
    warnings = admission_warnings.without_queue(new.metadata, wants, context, lister)
    return replace(_FREE, warnings=(*about_keys, *warnings))


def _created_pods(
    owner: Serving,
    templates: tuple[Template, ...],
    placement: QueueingResult,
    context: Context,
    rules: Rules,
    lister: Lister,
) -> tuple[list[admission_warnings.CreatedPods], list[str]]:
    """Return the pods as their own reviews will leave them, and warnings about refused ones."""
    ranges = limit_range.read(lister.limit_ranges(context.namespace))
    parts, refused = [], []
    for template in templates:
        name = template.name.rpartition(".")[2] if len(templates) > 1 else ""
        errors = tuple(
            requests.too_many(template.pod) or requests.errors(template.pod, rules.managed)
        )
        pod = template.pod
        if not errors:
            rewritten = rewriting.rewrite(
                template.pod, placement.queue, context, rules, lister, ranges
            )
            errors, pod = rewritten.errors, rewritten.pod
        if errors:
            refused.append(
                admission_warnings.refused(owner_review.in_template(template, errors[0]))
            )
        else:
            count = _count(owner, template)
            parts.append(
                admission_warnings.CreatedPods(
                    pod=pod, written=template.pod, name=name, count=count
                )
            )
    return parts, refused


def _admission_warnings(
    owner: Serving,
    parts: list[admission_warnings.CreatedPods],
    refused: list[str],
    placement: QueueingResult,
    context: Context,
    lister: Lister,
) -> _Hints:
    """Return warnings about pods that nobody has created yet: their own reviews tell nobody."""
    many: tuple[str, ...] = ()
    if parts and not refused and owner.of is not serving.STATEFUL_SET:
        many = admission_warnings.too_many(parts, _replicas(owner), placement, context, lister)
    queued = admission_warnings.queued(owner.metadata, parts, placement, context, lister)
    return _Hints((*refused, *queued), many)


def _pods(owner: Serving) -> tuple[Any, Any]:
    """Return what of its spec says how its pods are, and how they are replaced."""
    return owner.spec.get("template"), owner.spec.get("strategy")


def _replicas(owner: Serving) -> int:
    return owner.number(serving.REPLICAS, 1)


def _count(owner: Serving, template: Template) -> int:
    """Return how many pods of a template must be admitted together."""
    if owner.of is serving.STATEFUL_SET:
        return max(1, owner.number(serving.REPLICAS, 1))
    if owner.of is serving.LEADER_WORKER_SET and template.name.endswith("workerTemplate"):
        return max(1, owner.number(serving.GROUP_SIZE, 1) - 1)
    return 1


def _about_rollout(
    verdict: str,
    owner: Serving,
    parts: list[admission_warnings.CreatedPods],
    added: int,
    placement: QueueingResult,
    context: Context,
    rules: Rules,
    lister: Lister,
) -> Iterator[str]:
    """Yield a warning where a rolling update asks for GPUs that the queue will not have left.

    It asks for them before it gives any back. None where the ClusterQueue has surge quota for it,
    or room beside the pods that are to come (`added`).
    """
    surge = deployment.surge(owner.spec) if owner.of.replaces and _replicas(owner) else 0
    queue = admission_warnings.about_queue(placement, context, lister)[0] if surge else None
    if queue is None:
        return
    local_queue = lister.local_queue(context.namespace, placement.queue)
    counts: dict[str, int] = {}
    for fr, value in cluster_queue.surge_quota(queue).items():
        counts[fr.resource] = max(value, counts.get(fr.resource, 0))
    for part in parts:
        each = requests.amounts(part.pod, rules.managed)
        lacking = sorted((n, surge * v) for n, v in each.items() if surge * v > counts.get(n, 0))
        amounts = {name: each[name] for name, _ in lacking}
        coming = surge + added
        if not lacking or not admission_warnings.may_wait_one_by_one(
            part.pod, amounts, coming, _replicas(owner) + surge, local_queue, queue, lister
        ):
            continue
        shortage = ", ".join(f"{value} {name}" for name, value in lacking)
        where = f" in ClusterQueue {queue.metadata.name}"
        article = "a" if verdict else "A"
        head = f"{verdict}{article} rolling update needs {shortage} more (maxSurge)"
        rest = ". To update without: maxSurge: 0, maxUnavailable: 1"
        fits = len(head) + len(where) + len(rest) <= admission_warnings.LONGEST
        yield f"{head}{where if fits else ''}{rest}"


def validate(
    old: Serving | None, new: Serving, context: Context, rules: Rules, lister: Lister
) -> ReviewOutcome:
    """Judge an owner as it would be stored; arguments as of `mutate`."""
    if _is_of_another(new, context, rules, lister):
        return _FREE
    try:
        errors = fielderrors.in_order(_errors(old, new, context, rules))
        templates = new.templates() if _queue(new) else ()
    except msgspec.ValidationError as broken:
        return owner_review.unreadable(broken)
    warnings: tuple[str, ...] = ()
    if old is not None:
        warnings = _about_changed_keys(old, new, templates)
    elif _queue(new):
        warnings = tuple(
            text
            for template in templates
            for text in owner_review.without_effect(template, len(templates))
        )
    return ReviewOutcome(standing=ManagementState.FREE, errors=errors, warnings=warnings)


def _about_changed_keys(
    old: Serving, new: Serving, templates: tuple[Template, ...]
) -> tuple[str, ...]:
    try:
        before = [template.pod.metadata for template in old.templates()]
    except msgspec.ValidationError:
        before = []
    after = [template.pod.metadata for template in templates]
    return key_warnings.of_update((old.metadata, *before), (new.metadata, *after))


def _errors(
    old: Serving | None, new: Serving, context: Context, rules: Rules
) -> Iterator[FieldError]:
    yield from metadata_rules.create_errors(owner_review.as_pod(new.metadata, is_held=True))
    if new.of.makes_groups and _queue(new):
        yield from _of_groups(old, new)
    old_unserved = set() if old is None else set(_unserved(old))
    yield from (error for error in _unserved(new) if error not in old_unserved)
    if old is None:
        yield from requester.created(new.metadata, context, rules) if _queue(new) else ()
        return
    yield from requester.changed(old.metadata, new.metadata)
    is_held = not old.has_ready()
    was, now = (owner_review.as_pod(side.metadata, is_held=is_held) for side in (old, new))
    yield from metadata_rules.update_errors(was, now, has_default_queue=False)
    if is_held and was.metadata.label(names.QUEUE_LABEL) and not _queue(new):
        rule = "field is immutable: pods that come later would be in no queue"
        yield fielderrors.invalid(metadata_rules.QUEUE_PATH, "", rule)
    if old.of is serving.STATEFUL_SET and _queue(new):
        yield from _of_stateful_set(old, new)


def _unserved(owner: Serving) -> Iterator[FieldError]:
    """Yield what the pods of one in a queue ask for in vain: each of them would be refused."""
    for template in owner.templates() if _queue(owner) else ():
        for error in unserved.errors(template.pod):
            yield owner_review.in_template(template, error)


def _of_groups(old: Serving | None, new: Serving) -> Iterator[FieldError]:
    """Yield broken rules of one in a queue whose pods are admitted as groups.

    What its Workload was made for stays as it is as long as there are pods.
    """
    for path, value, rule in new.of.refused:
        if new.text(path) == value:
            yield fielderrors.invalid(FieldPath.of(*path.split(".")), value, rule)
    if old is None or not old.has_replicas():
        return
    for path, default in new.of.fixed:
        if old.number(path, default) != new.number(path, default):
            at = FieldPath.of(*path.split("."))
            yield fielderrors.invalid(at, new.number(path, default), _FIXED)
    before = {template.name: template for template in old.templates()}
    after = {template.name: template for template in new.templates()}
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            yield fielderrors.invalid(FieldPath.of(*name.split(".")), fielderrors.OMITTED, _FIXED)
            continue
        fields = [role_hash.fields(template.pod.spec) for template in (was, now)]
        for key in sorted(fields[0].keys() | fields[1].keys()):
            if fields[0].get(key) != fields[1].get(key):
                at = now.path.child("spec").child(key)
                yield fielderrors.invalid(at, fielderrors.OMITTED, _FIXED)


def _of_stateful_set(old: Serving, new: Serving) -> Iterator[FieldError]:
    """Yield broken rules of the scale of one whose pods are one group."""
    was, replicas = (side.number(serving.REPLICAS, 1) for side in (old, new))
    path = FieldPath.of(*serving.REPLICAS.split("."))
    if was and replicas and was != replicas:
        yield fielderrors.invalid(path, replicas, f"{_FIXED}, and then to the new number")
    elif replicas and not was and old.has_replicas():
        yield fielderrors.forbidden(path, "scaling down is still in progress")


def _queue(owner: Serving) -> str:
    return owner.metadata.label(names.QUEUE_LABEL)


def _is_of_another(owner: Serving, context: Context, rules: Rules, lister: Lister) -> bool:
    """Return whether another owner has it, which sees to its pods itself."""
    if rules.kinds.serving_of(owner.metadata) is not None:
        return True
    return making.is_by_controller(owner.metadata, frozenset(), context, rules, lister)


def _wants_a_queue(templates: tuple[Template, ...], rules: Rules) -> bool:
    """Return whether the pods ask for GPUs and name no queue."""
    named = any(template.pod.metadata.label(names.QUEUE_LABEL) for template in templates)
    return not named and any(
        requests.managed_names(template.pod, rules.managed) for template in templates
    )


def _known_queue(listed: tuple[str, ...], context: Context, lister: Lister) -> str:
    """Return the first that is a LocalQueue of the namespace; empty for none."""
    known_queues = (
        queue for queue in listed if queue and lister.local_queue(context.namespace, queue)
    )
    return next(known_queues, "")


def _requester_marks(
    old: Serving | None, new: Serving, context: Context, rules: Rules
) -> dict[str, str]:
    """Return who created the owner, for it and its pods; it stays whoever changes the owner."""
    if new.of not in _COPIED:
        return {}
    if old is None:
        return requester.stamp(new.metadata, context, rules)
    name = old.metadata.annotation(names.REQUESTER)
    return {names.REQUESTER: name} if name else {}


def _reach(owner: Serving, template: Template, marks: Mapping[str, str]) -> Iterator[Operation]:
    """Yield the operations after which the pods of a template are in the owner's queue."""
    patch, metadata = PatchBuilder(), template.pod.metadata
    patch.merge("/metadata/labels", metadata.labels, owner.labels())
    patch.merge("/metadata/annotations", metadata.annotations, {**owner.annotations(), **marks})
    yield from owner_review.at_template(template, patch.operations())
