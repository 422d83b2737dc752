"""Warnings that kubectl prints when a queue, Cohort or flavor is created or changed.

They come from a cache that may be a moment old, so none of them decides anything. An update that
changes neither spec nor annotations is not warned about.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from admission.answers import namespace_selectors, queue_problems
from admission.answers.queue_problems import Holder, QueueProblem
from admission.objects import resource_group, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.reasons import sentences
from admission.webhook.key_warnings import LONGEST
from admission.webhook.review_context import Lister

_LEAST_PROBLEM: Final = 60
"""Characters that are left for a problem, however long its step is."""


def of_cluster_queue(
    old: ClusterQueue | None, new: ClusterQueue, lister: Lister
) -> tuple[str, ...]:
    """Return warnings about a ClusterQueue; few while the cache is not filled.

    Args:
        old: as it is; None on creation.
        new: as it would be.
        lister: what was last seen of the cluster.
    """
    is_changed = old is None or old.spec != new.spec
    doubts = resource_group.doubts(new.spec.resource_groups or ()) if is_changed else ()
    return (*doubts, *_changed(old, new, _about_cluster_queue(new, lister), is_changed))


def of_cohort(old: Cohort | None, new: Cohort, lister: Lister) -> tuple[str, ...]:
    """Return warnings about a Cohort; the arguments are those of `of_cluster_queue`."""
    is_changed = old is None or old.spec != new.spec
    doubts = resource_group.doubts(new.spec.resource_groups or ()) if is_changed else ()
    return (*doubts, *_changed(old, new, _about_cohort(new, lister), is_changed))


def of_local_queue(old: LocalQueue | None, new: LocalQueue, lister: Lister) -> tuple[str, ...]:
    """Return warnings about a LocalQueue; the arguments are those of `of_cluster_queue`."""
    is_changed = old is None or old.spec != new.spec
    return _changed(old, new, _about_local_queue(new, lister), is_changed)


def of_flavor(old: ResourceFlavor | None, new: ResourceFlavor, lister: Lister) -> tuple[str, ...]:
    """Return warnings about a ResourceFlavor; the arguments are those of `of_cluster_queue`."""
    del lister
    problems = queue_problems.annotations_without_effect("ResourceFlavor", new.metadata)
    return _changed(old, new, problems, old is None)


def _changed(
    old: views.Object | None,
    new: views.Object,
    problems: Iterable[QueueProblem],
    is_changed: bool,
) -> tuple[str, ...]:
    """Return warnings about problems where an object was changed."""
    before = {} if old is None else old.metadata.annotations or {}
    if not is_changed and before == (new.metadata.annotations or {}):
        return ()
    return tuple(map(_warning, problems))


def _warning(problem: QueueProblem) -> str:
    """Return the problem, then what to do about it, within the length of a warning.

    The problem is cut before the step, which may be a command.
    """
    text, step = (f"{part[:1].upper()}{part[1:]}" for part in (problem.text, problem.mend))
    step = sentences.clipped(step, LONGEST - _LEAST_PROBLEM)
    end = "" if text.endswith("?") else "."
    return f"{sentences.clipped(text, LONGEST - len(step) - 2)}{end} {step}"


def _about_cluster_queue(queue: ClusterQueue, lister: Lister) -> Iterator[QueueProblem]:
    yield from queue_problems.annotations_without_effect("ClusterQueue", queue.metadata)
    yield from queue_problems.caps_without_effect(queue.metadata, queue)
    yield from queue_problems.selects_nothing(queue)
    yield from _about_resources(queue, lister)
    if not lister.synced:
        return
    yield from queue_problems.missing_flavors(queue, lister.resource_flavor_names())
    yield from _about_parent(queue, lister)


def _about_cohort(cohort: Cohort, lister: Lister) -> Iterator[QueueProblem]:
    yield from queue_problems.annotations_without_effect("Cohort", cohort.metadata)
    yield from _about_resources(cohort, lister)
    if lister.synced:
        yield from queue_problems.missing_flavors(cohort, lister.resource_flavor_names())
        yield from _about_parent(cohort, lister)


def _about_local_queue(queue: LocalQueue, lister: Lister) -> Iterator[QueueProblem]:
    yield from queue_problems.annotations_without_effect("LocalQueue", queue.metadata)
    if not lister.synced:
        return
    cluster_queue = lister.cluster_queue(queue.spec.cluster_queue)
    if cluster_queue is None:
        cluster_queues = [each.metadata.name for each in lister.all_cluster_queues()]
        yield from queue_problems.missing_cluster_queue(queue, cluster_queues)
    else:
        yield from queue_problems.caps_without_effect(queue.metadata, cluster_queue)
        namespace = lister.namespace(queue.metadata.namespace)
        if namespace is not None:
            labels = namespace.metadata.labels or {}
            yield from namespace_selectors.not_selected(cluster_queue, labels)


def _about_resources(holder: Holder, lister: Lister) -> Iterator[QueueProblem]:
    yield from queue_problems.misspelled(holder)
    if lister.synced:
        in_use = queue_problems.resources_of_others(holder, _holders(lister))
        yield from queue_problems.resembling_resource(holder, in_use)


def _about_parent(holder: Holder, lister: Lister) -> Iterator[QueueProblem]:
    parents = {cohort.metadata.name: cohort.spec.parent_name for cohort in lister.all_cohorts()}
    yield from queue_problems.cycle(holder, parents)
    yield from queue_problems.resembling_cohort(holder, _holders(lister))


def _holders(lister: Lister) -> tuple[Holder, ...]:
    return (*lister.all_cluster_queues(), *lister.all_cohorts())
