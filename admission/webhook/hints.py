"""Warnings that kubectl prints: what will keep the pod waiting, and what to do about it.

They come from a cache that may be a moment old, so none of them decides anything.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.gpu import resources
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_group import ResourceGroup
from admission.objects.reviewed_pod import Pod
from admission.webhook import requests
from admission.webhook.queueing import Placement, Standing
from admission.webhook.review_context import Context, Knowledge, QueueFacts, Rules

_ACTIVE: Final = "Active"
_NAMES_SHOWN: Final = 5


def unheld(pod: Pod, placement: Placement) -> tuple[str, ...]:
    """Warnings about a pod that is let through without a queue."""
    if placement.standing is not Standing.UNMANAGED or not pod.spec.node_name:
        return ()
    taken = ", ".join(placement.wants)
    return (f"pod names node {pod.spec.node_name}: its {taken} is taken outside every queue",)


def owned(old: Pod | None, new: Pod, rules: Rules) -> tuple[str, ...]:
    """Warning about a pod that is marked as managed though its owner is held as a whole.

    Source: kueue pkg/controller/jobs/pod/pod_webhook.go (warningForPodManagedLabel).

    Args:
        old: as stored so far; None when it is being created.
        new: as it would be stored.
        rules: what the installation chose.
    """
    is_marked = new.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE
    is_held_for_parent = names.POD_SUSPENDING_PARENT in (new.metadata.annotations or {})
    if not is_marked or (old is not None and is_held_for_parent):
        return ()
    if rules.kinds.of_controller(new.metadata) is None:
        return ()
    mark = f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}"
    return (
        f"pod owner is managed by kueue, label '{mark}' might lead to unexpected behaviour",
    )  # fmt: skip


def held(
    pod: Pod, placement: Placement, context: Context, knowledge: Knowledge
) -> tuple[str, ...]:
    """Warnings about a pod that waits in a queue; none while the cache is not filled.

    Args:
        pod: as it will be stored.
        placement: its queue.
        context: its namespace.
        knowledge: what was last seen of the cluster.
    """
    queue, texts = about_queue(placement, context, knowledge)
    return texts if queue is None else (*texts, *about_pod(pod, queue, knowledge))


def about_queue(
    placement: Placement, context: Context, knowledge: Knowledge
) -> tuple[ClusterQueue | None, tuple[str, ...]]:
    """The ClusterQueue of a queue, if it can be reached, and why it admits nothing."""
    if not placement.queue or not knowledge.synced:
        return None, ()
    local_queue = knowledge.local_queue(context.namespace, placement.queue)
    if local_queue is None:
        return None, (_missing_local_queue(placement.queue, context, knowledge),)
    shown = f'LocalQueue "{context.namespace}/{placement.queue}"'
    if local_queue.spec.stop_policy != "None":
        return None, (f"{shown} is stopped: the pod waits until it is started again",)
    name = local_queue.spec.cluster_queue
    queue = knowledge.cluster_queue(name)
    if queue is None:
        rule = "which does not exist: the pod waits until it is created"
        return None, (f'{shown} points to ClusterQueue "{name}", {rule}',)
    return queue, (
        *_not_served(queue, context, knowledge),
        *_about_cluster_queue(queue, knowledge),
    )


def about_pod(
    pod: Pod, queue: ClusterQueue, knowledge: Knowledge, count: int = 1
) -> Iterator[str]:
    """Yield a warning for what the queue has no quota for, or can never give enough of.

    Args:
        pod: as it will be stored.
        queue: where it waits.
        knowledge: what was last seen of the cluster.
        count: how many such pods must be admitted together.
    """
    wanted = _wanted(pod)
    for resource in sorted(wanted):
        # Of GPU names ``gpu.rewrite`` has spoken.
        if not _is_covered(resource, queue) and not resources.is_device(resource):
            name = f'ClusterQueue "{queue.metadata.name}"'
            yield f"{name} has no quota for {resource}: remove the request or add the resource"
    facts = knowledge.queue_facts(queue)
    for group in queue.spec.resource_groups or ():
        asked = {r: count * wanted[r] for r in sorted(group.covered_resources) if r in wanted}
        if asked and not _fits_own_quota(asked, group, facts):
            yield from _too_big(asked, count, queue.metadata.name, group, knowledge)


def _missing_local_queue(queue: str, context: Context, knowledge: Knowledge) -> str:
    found = knowledge.local_queue_names(context.namespace)
    more = ", ..." if len(found) > _NAMES_SHOWN else ""
    others = f"namespace has {', '.join(found[:_NAMES_SHOWN])}{more}" if found else "there is none"
    return (
        f'LocalQueue "{context.namespace}/{queue}" does not exist ({others}): the pod waits'
        " until it is created"
    )


def _not_served(queue: ClusterQueue, context: Context, knowledge: Knowledge) -> Iterator[str]:
    namespace = knowledge.namespace(context.namespace)
    if namespace is None or knowledge.queue_facts(queue).serves(namespace.metadata.labels or {}):
        return
    yield (
        f'ClusterQueue "{queue.metadata.name}" does not serve namespace {context.namespace}:'
        " label the namespace as its namespaceSelector says, or change the selector"
    )


def _about_cluster_queue(queue: ClusterQueue, knowledge: Knowledge) -> Iterator[str]:
    name = f'ClusterQueue "{queue.metadata.name}"'
    facts = knowledge.queue_facts(queue)
    if facts.missing:
        listed = ", ".join(facts.missing)
        yield f"{name} refers to missing ResourceFlavor {listed}: nothing is admitted until then"
    elif queue.spec.stop_policy != "None":
        yield f"{name} is stopped: the pod waits until it is started again"
    else:
        yield from _inactive(name, queue)


def _inactive(name: str, queue: ClusterQueue) -> Iterator[str]:
    for condition in queue.status.conditions or ():
        if condition.type == _ACTIVE and condition.status == "False":
            yield f"{name} admits nothing: {condition.message}"


def _wanted(pod: Pod) -> Mapping[str, int]:
    """Return what the pod asks for."""
    try:
        return requests.total(pod)
    except InvalidValueError:
        return {}  # the API server refuses it


def _is_covered(resource: str, queue: ClusterQueue) -> bool:
    return any(resource in group.covered_resources for group in queue.spec.resource_groups or ())


# ----------------------------------------------------------------------------------------- too big


def _fits_own_quota(asked: Mapping[str, int], group: ResourceGroup, facts: QueueFacts) -> bool:
    """Return whether one flavor holds it without borrowing: then nothing of a cohort matters."""
    own = (facts.nominal[quotas.name] for quotas in group.flavors)
    return any(all(value <= one.get(r, 0) for r, value in asked.items()) for one in own)


def _too_big(
    asked: Mapping[str, int],
    count: int,
    queue: str,
    group: ResourceGroup,
    knowledge: Knowledge,
) -> Iterator[str]:
    """What no flavor of a group could ever hold, borrowing included; a pod set gets one flavor."""
    bounds: dict[str, dict[str, int]] = {}
    for quotas in group.flavors:
        most = {r: knowledge.most(queue, quotas.name, r) for r in asked}
        bounds[quotas.name] = {r: v for r, v in most.items() if v is not None}
    if not bounds or any(all(v <= b.get(r, v) for r, v in asked.items()) for b in bounds.values()):
        return
    never = [r for r, v in asked.items() if all(v > b.get(r, v) for b in bounds.values())]
    for resource in never:
        yield _sentence(resource, asked[resource], count, queue, bounds)
    if not never:
        shown = " with ".join(f"{_shown(r, v)} {r}" for r, v in asked.items())
        yield (
            f"Too big: asks {shown}, ClusterQueue {queue} has no flavor that can reach all of it"
            f" ({', '.join(bounds)}). Ask for less, or have the quota raised"
        )


def _sentence(
    resource: str, value: int, count: int, queue: str, bounds: Mapping[str, Mapping[str, int]]
) -> str:
    most = {flavor: bound[resource] for flavor, bound in bounds.items()}
    flavors = ", ".join(f"{flavor} {_shown(resource, v)}" for flavor, v in most.items() if v)
    listed = f" ({flavors})" if len(most) > 1 and flavors else ""
    in_one = " in one flavor" if len(most) > 1 else ""
    pods = f" ({count} pods of {_shown(resource, value // count)})" if count > 1 else ""
    best = max(most.values())
    if best == 0:
        step = "Have quota for it added"
    elif count > 1 and (few := best // (value // count)) > 0:
        step = f"Run at most {few} such pods at a time, or have the quota raised"
    else:
        step = f"Ask for at most {_shown(resource, best)}, or have the quota raised"
    return (
        f"Too big: asks {_shown(resource, value)} {resource}{pods}, ClusterQueue {queue} can reach"
        f" {_shown(resource, best)}{in_one}{listed}. {step}"
    )


def _shown(resource: str, value: int) -> str:
    return quantity.in_words(resource, value)
