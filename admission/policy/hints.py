"""Warnings that kubectl prints: what will keep the pod waiting, and what to do about it.

They come from a cache that may be a moment old, so none of them decides anything.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from admission.api import views
from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.gpu import resources
from admission.policy import requests
from admission.policy.documents import Pod
from admission.policy.knowledge import Context, Knowledge, QueueFacts
from admission.policy.queueing import Placement, Standing

_ACTIVE: Final = "Active"
_NAMES_SHOWN: Final = 5


def unheld(pod: Pod, placement: Placement) -> tuple[str, ...]:
    """Warnings about a pod that is let through without a queue."""
    if placement.standing is not Standing.UNMANAGED or not pod.spec.node_name:
        return ()
    taken = ", ".join(placement.wants)
    return (f"pod names node {pod.spec.node_name}: its {taken} is taken outside every queue",)


def owned(old: Pod | None, new: Pod) -> tuple[str, ...]:
    """Warning about a pod that is marked as managed though a Job has it, which is held as a whole.

    Source: kueue pkg/controller/jobs/pod/pod_webhook.go (warningForPodManagedLabel).

    Args:
        old: as stored so far; None when it is being created.
        new: as it would be stored.
    """
    is_marked = new.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE
    is_held_for_parent = names.POD_SUSPENDING_PARENT in (new.metadata.annotations or {})
    if not new.is_of_job or not is_marked or (old is not None and is_held_for_parent):
        return ()
    mark = f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}"
    return (
        f"pod owner is managed by kueue, label '{mark}' might lead to unexpected behaviour",
    )  # fmt: skip


def held(
    pod: Pod, placement: Placement, context: Context, knowledge: Knowledge
) -> tuple[str, ...]:
    """Warnings about a pod that waits in a queue; none while the cache is not filled."""
    if not placement.queue or not knowledge.synced:
        return ()
    local_queue = knowledge.local_queue(context.namespace, placement.queue)
    if local_queue is None:
        return (_missing_local_queue(placement.queue, context, knowledge),)
    shown = f'LocalQueue "{context.namespace}/{placement.queue}"'
    if local_queue.spec.stop_policy != "None":
        return (f"{shown} is stopped: the pod waits until it is started again",)
    name = local_queue.spec.cluster_queue
    queue = knowledge.cluster_queue(name)
    if queue is None:
        rule = "which does not exist: the pod waits until it is created"
        return (f'{shown} points to ClusterQueue "{name}", {rule}',)
    return (
        *_not_served(queue, context, knowledge),
        *_about_cluster_queue(pod, queue, knowledge),
    )


def _missing_local_queue(queue: str, context: Context, knowledge: Knowledge) -> str:
    found = knowledge.local_queue_names(context.namespace)
    more = ", ..." if len(found) > _NAMES_SHOWN else ""
    others = f"namespace has {', '.join(found[:_NAMES_SHOWN])}{more}" if found else "there is none"
    return (
        f'LocalQueue "{context.namespace}/{queue}" does not exist ({others}): the pod waits'
        " until it is created"
    )


def _not_served(
    queue: views.ClusterQueue, context: Context, knowledge: Knowledge
) -> Iterator[str]:
    namespace = knowledge.namespace(context.namespace)
    if namespace is None or knowledge.queue_facts(queue).serves(namespace.metadata.labels or {}):
        return
    yield (
        f'ClusterQueue "{queue.metadata.name}" does not serve namespace {context.namespace}:'
        " label the namespace as its namespaceSelector says, or change the selector"
    )


def _about_cluster_queue(
    pod: Pod, queue: views.ClusterQueue, knowledge: Knowledge
) -> Iterator[str]:
    name = f'ClusterQueue "{queue.metadata.name}"'
    facts = knowledge.queue_facts(queue)
    if facts.missing:
        listed = ", ".join(facts.missing)
        yield f"{name} refers to missing ResourceFlavor {listed}: nothing is admitted until then"
    elif queue.spec.stop_policy != "None":
        yield f"{name} is stopped: the pod waits until it is started again"
    else:
        yield from _inactive(name, queue)
    wanted = _wanted(pod)
    for resource in sorted(wanted):
        if not _is_covered(resource, queue):
            yield f"{name} has no quota for {resource}: remove the request or add the resource"
    yield from _never_fits(name, wanted, queue, facts)


def _inactive(name: str, queue: views.ClusterQueue) -> Iterator[str]:
    for condition in queue.status.conditions or ():
        if condition.type == _ACTIVE and condition.status == "False":
            yield f"{name} admits nothing: {condition.message}"


def _wanted(pod: Pod) -> Mapping[str, int]:
    """What the pod asks for, but the GPU names, of which ``gpu.rewrite`` has spoken."""
    try:
        total = requests.total(pod)
    except InvalidValueError:
        return {}  # the API server refuses it
    return {name: value for name, value in total.items() if not resources.is_device(name)}


def _is_covered(resource: str, queue: views.ClusterQueue) -> bool:
    return any(resource in group.covered_resources for group in queue.spec.resource_groups or ())


def _never_fits(
    name: str, wanted: Mapping[str, int], queue: views.ClusterQueue, facts: QueueFacts
) -> Iterator[str]:
    """One sentence per resource group of which no flavor can ever hold what is asked of it."""
    for group in queue.spec.resource_groups or ():
        asked = {r: wanted[r] for r in sorted(group.covered_resources) if r in wanted}
        bounds = [facts.ceilings[quotas.name] for quotas in group.flavors]
        if not bounds or any(all(v <= b.get(r, v) for r, v in asked.items()) for b in bounds):
            continue
        shown = ", ".join(f"{quantity.from_canonical(r, v)} of {r}" for r, v in asked.items())
        tried = ", ".join(quotas.name for quotas in group.flavors)
        yield f"{name} can never give {shown} in one flavor (it has {tried}): ask for less"
