"""GPU requests as the queue's flavors offer them: the only call into ``gpu.rewrite``."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from admission.base import fielderrors, names, patches, quantity
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import PatchBuilder
from admission.gpu import request_annotations, resources
from admission.gpu import rewrite as gpu_rewrite
from admission.gpu.capabilities import FlavorCapabilities, QueueOffer
from admission.gpu.choosing import RefusalReason
from admission.gpu.rewrite import (
    ContainerRequest,
    ContainerRewrite,
    GpuAnnotations,
    LimitedNames,
    PodRequest,
    Refusal,
    Rewrite,
)
from admission.objects import limit_range, reviewed_pod, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.limit_range import ParsedLimitRange
from admission.objects.reviewed_pod import Quantities, ReviewedContainer, ReviewedPod
from admission.webhook import metadata_rules, originals
from admission.webhook.review_context import Context, Lister, Rules

_ANNOTATIONS: Final = FieldPath.of("metadata", "annotations")
_WISHES: Final = (names.MIG_PROFILE, names.GPU_MEMORY)
_ALWAYS: Final = "Always"
_REMEMBERED_CONTAINERS: Final = 32
"""Answers about pods with more containers are not kept: few are equal, and each is large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A pod whose GPU requests fit its queue.

    Attributes:
        pod: with the new requests; the reviewed pod itself where nothing changes.
        changed: member of the spec, position, and the container as it was; for the patch.
        flavor: the flavor that offers the requested GPU resource names; None if none is known.
        others: the other flavors of the queue, in its order.
        annotations: to set beside the change.
        warnings: for the person who made the request.
        errors: why no flavor of the queue can hold the request.
    """

    pod: ReviewedPod
    changed: tuple[tuple[str, int, ReviewedContainer], ...] = ()
    flavor: FlavorCapabilities | None = None
    others: tuple[FlavorCapabilities, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


def rewrite(
    pod: ReviewedPod,
    queue: str,
    context: Context,
    rules: Rules,
    lister: Lister,
    ranges: Sequence[ParsedLimitRange] = (),
) -> Rewritten:
    """Return the pod with its GPU requests in the names of the flavor that is to hold it.

    What a pod asked for first is kept in the annotation ``original-resources``: JSON, by
    container, with requests and limits. A pod without wishes whose queue is not known yet is left
    as it is; one with wishes is refused, because they cannot be granted after creation.

    Args:
        pod: as reviewed.
        queue: name of its LocalQueue.
        context: what the review says besides the objects.
        rules: what the installation chose.
        lister: what was last seen of the cluster.
        ranges: the namespace's LimitRanges, as stored.
    """
    read = request_annotations.read(
        _wish_annotations(pod), [c.name for _, _, c in pod.located_containers()]
    )
    if read.problems:
        return Rewritten(pod=pod, errors=tuple(_problem(text) for text in read.problems))
    limited = limit_range.limited_names(ranges)
    settled, errors = _without_returned(pod, limited)
    if errors:
        return Rewritten(pod=pod, errors=errors)
    request = _pod_request(settled, read.by_container)
    wished = any(container.wish for container in request.containers)
    if not wished and not any(c.requests or c.limits for c in request.containers):
        return Rewritten(pod=pod)
    cluster_queue = _cluster_queue(queue, context, lister)
    if cluster_queue is None:
        errors = (_unknown_queue(queue, context),) if wished else ()
        return _result(pod, settled, errors=errors)
    facts = lister.queue_facts(cluster_queue)
    lowest = limit_range.default_memory(limit_range.virtual_limits(ranges))
    request = _with_default(request, lowest)

    def compute() -> Rewrite | Refusal | None:
        return gpu_rewrite.rewrite(request, facts.offer, rules.catalogue, limited)

    is_common = len(request.containers) <= _REMEMBERED_CONTAINERS
    result = facts.rewrites.get(_key(request, limited), compute) if is_common else compute()
    if isinstance(result, Refusal):
        return Rewritten(pod=pod, errors=tuple(_refused(reason) for reason in result.reasons))
    return _applied(pod, settled, result, facts.offer)


def add_operations(patch: PatchBuilder, rewritten: Rewritten) -> None:
    """Add what turns the requests of the reviewed pod into the rewritten ones."""
    for member, index, before in rewritten.changed:
        after = _container(rewritten.pod, member, index)
        path = patches.pointer("spec", member, index, "resources")
        if before.resources is None:
            patch.put(path, {"requests": dict(after.requests), "limits": dict(after.limits)})
            continue
        patch.become(f"{path}/limits", before.resources.limits, after.limits)
        patch.become(f"{path}/requests", before.resources.requests, after.requests)


def _wish_annotations(pod: ReviewedPod) -> dict[str, str]:
    annotations = pod.metadata.annotations or {}
    return {key: value for key, value in annotations.items() if key.startswith(_WISHES)}


def _pod_request(
    pod: ReviewedPod, annotations: Mapping[str, request_annotations.GpuAnnotations]
) -> PodRequest:
    containers = tuple(
        ContainerRequest(
            name=container.name,
            is_init=member == "initContainers",
            is_sidecar=member == "initContainers" and container.restart_policy == _ALWAYS,
            requests=_gpu_amounts(container.requests),
            limits=_gpu_amounts(container.limits),
            wish=annotations[container.name],
        )
        for member, _, container in pod.located_containers()
    )
    _, group = metadata_rules.group_name(pod)
    is_gang = bool(group) or pod.gang() is not None
    return PodRequest(containers=containers, is_gang=is_gang)


def _key(request: PodRequest, limited: LimitedNames) -> Hashable:
    """All that an answer depends on besides the queue, in a form that can be looked up."""
    containers = tuple(
        (
            c.name,
            c.is_init,
            c.is_sidecar,
            c.wish,
            tuple(c.requests.items()),
            tuple(c.limits.items()),
        )
        for c in request.containers
    )
    return containers, request.is_gang, limited.named, tuple(limited.floors.items())


def _gpu_amounts(stated: Quantities) -> dict[str, int]:
    """GPU requests in units; they were checked before, so each is a whole number."""
    return {
        name: quantity.to_canonical(name, str(value))
        for name, value in stated.items()
        if resources.is_device(name)
    }


def _cluster_queue(queue: str, context: Context, lister: Lister) -> ClusterQueue | None:
    local_queue = lister.local_queue(context.namespace, queue)
    return lister.cluster_queue(local_queue.spec.cluster_queue) if local_queue else None


def _without_returned(
    pod: ReviewedPod, limited: LimitedNames
) -> tuple[ReviewedPod, tuple[FieldError, ...]]:
    """The pod without names that a rewrite took away and that were filled in again since.

    They stay at 0 where a LimitRange fills them in. Where none is known that does, the pod is
    refused: a LimitRange that is not known yet could else be slipped past.
    """
    errors, changes = [], {}
    records = originals.read(pod)
    for member, index, container in pod.located_containers():
        if container.name not in records:
            continue
        back = originals.returned(container, records[container.name])
        if not limited.named.issuperset(back):
            errors.append(_returned(reviewed_pod.container_path(member, index), back))
        elif back:
            zero = dict.fromkeys(back, "0")
            changes[container.name] = views.ResourceRequirements(
                requests={**container.requests, **zero}, limits={**container.limits, **zero}
            )
    return with_resources(pod, changes), tuple(errors)


def _with_default(request: PodRequest, memory_bytes: int) -> PodRequest:
    """The namespace's least memory as the wish of containers that wish for nothing themselves."""
    if not memory_bytes:
        return request
    default = GpuAnnotations(memory_bytes=memory_bytes, is_default=True)
    containers = tuple(
        replace(c, wish=default) if not c.wish and c.limits.get(names.GPU_RESOURCE) else c
        for c in request.containers
    )
    return replace(request, containers=containers)


def _applied(
    pod: ReviewedPod, settled: ReviewedPod, result: Rewrite | None, offer: QueueOffer
) -> Rewritten:
    if result is None:
        return _result(pod, settled)
    result_ = _result(
        pod,
        _renamed(settled, result),
        annotations=result.annotations,
        warnings=result.warnings,
    )
    return replace(
        result_,
        flavor=next((flavor for flavor in offer.flavors if flavor.name == result.flavor), None),
        others=tuple(flavor for flavor in offer.flavors if flavor.name != result.flavor),
    )


def _renamed(pod: ReviewedPod, result: Rewrite) -> ReviewedPod:
    located = {c.name: c for _, _, c in pod.located_containers()}
    return with_resources(
        pod, {change.name: _changed(located[change.name], change) for change in result.containers}
    )


def with_resources(
    pod: ReviewedPod, stated: Mapping[str, views.ResourceRequirements]
) -> ReviewedPod:
    """Return the pod with other resources in some containers; their names are unique in a pod."""
    if not stated:
        return pod

    def changed(containers: tuple[ReviewedContainer, ...]) -> tuple[ReviewedContainer, ...]:
        return tuple(
            msgspec.structs.replace(c, resources=stated[c.name]) if c.name in stated else c
            for c in containers
        )

    spec = msgspec.structs.replace(
        pod.spec,
        containers=changed(pod.spec.containers),
        init_containers=changed(pod.spec.init_containers or ()) or pod.spec.init_containers,
    )
    return msgspec.structs.replace(pod, spec=spec)


def _result(
    pod: ReviewedPod,
    final: ReviewedPod,
    *,
    annotations: Mapping[str, str] | None = None,
    warnings: tuple[str, ...] = (),
    errors: tuple[FieldError, ...] = (),
) -> Rewritten:
    """Return what became of the reviewed pod."""
    after = {(member, index): c for member, index, c in final.located_containers()}
    changed = tuple(
        (member, index, before)
        for member, index, before in pod.located_containers()
        if before != after[member, index]
    )
    original = originals.write(pod, (container for _, _, container in changed))
    return Rewritten(
        pod=final,
        changed=changed,
        annotations={**(annotations or {}), **original},
        warnings=warnings,
        errors=errors,
    )


def _changed(container: ReviewedContainer, change: ContainerRewrite) -> views.ResourceRequirements:
    amounts = {name: str(value) for name, value in change.amounts.items()}

    def renamed(stated: Quantities) -> dict[str, str | int]:
        kept = {name: value for name, value in stated.items() if name not in change.removed}
        return {**kept, **amounts}

    return views.ResourceRequirements(
        requests=renamed(container.requests), limits=renamed(container.limits)
    )


def _container(pod: ReviewedPod, member: str, index: int) -> ReviewedContainer:
    containers = pod.spec.containers if member == "containers" else pod.spec.init_containers
    return (containers or ())[index]


def _refused(reason: RefusalReason) -> FieldError:
    flavor = f"flavor {reason.flavor}: " if reason.flavor else ""
    return fielderrors.invalid(
        FieldPath.of(reason.field), fielderrors.OMITTED, f"{flavor}{reason.text}"
    )


def _returned(path: FieldPath, back: Iterable[str]) -> FieldError:
    listed = ", ".join(back)
    rule = (
        f"{listed} was rewritten, but a new LimitRange or another webhook added it again; create"
        " the pod again, or set that default to 0"
    )
    return fielderrors.forbidden(path.child("resources"), rule)


def _problem(text: str) -> FieldError:
    path, _, rule = text.partition(": ")
    return fielderrors.invalid(FieldPath.of(path), fielderrors.OMITTED, rule)


def _unknown_queue(queue: str, context: Context) -> FieldError:
    rule = (
        f"a GPU profile or memory can be chosen only while the pod is created, and LocalQueue"
        f' "{context.namespace}/{queue}" or its ClusterQueue does not exist yet: create the'
        " queue, then the pod"
    )
    return fielderrors.forbidden(_ANNOTATIONS, rule)
