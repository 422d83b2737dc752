"""Warnings that kubectl prints when something is created: what will keep it waiting, what to do.

They are the same for pods and every kind of owner. They come from a cache that may be a moment
old, so none of them decides anything. Each says the verdict first, then the next step, in at most
`LONGEST` characters.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from admission.answers import spelling
from admission.base import causes, conditions, names, quantity
from admission.base.amount import UNLIMITED
from admission.base.causes import CapPlace, Shortage
from admission.base.conditions import Text, WaitReason
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError
from admission.base.names import FlavorName, PodSetName, ResourceName
from admission.gpu import resources, topology_labels, unlikely_amounts
from admission.objects import caps, reviewed_pod, views
from admission.objects.cluster_queue import BorrowWithinCohort, ClusterQueue, PreemptionSpec
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_group import ResourceGroupSpec
from admission.objects.reviewed_pod import ReviewedPod
from admission.reasons import next_steps, sentences
from admission.reasons.next_steps import Code
from admission.scheduling import model, node_labels
from admission.webhook import key_warnings, requests
from admission.webhook.queueing import ManagementState, QueueingResult
from admission.webhook.review_context import Context, Lister, QueueFacts, Rules

LONGEST: Final = key_warnings.LONGEST
_OF_CLASS: Final = " It starts only if this is the extendedResourceName of a DeviceClass of GPUs."
_STARTED_AGAIN: Final = "it goes on when the queue is started again"
_UNCOVERED_STEP: Final = "remove the request, or have the resource added"
_NAMES_SHOWN: Final = 5
_NEVER: Final = str(model.PreemptionPolicy.NEVER)
_STEPS: Final = ((1, 10), (10, 99), (100, 0))
"""To what numbers are rounded, and up to which; 0 for all."""
_LABEL: Final = f"the label {names.QUEUE_LABEL}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedPods:
    """Equal pods of what is being created.

    Attributes:
        pod: as it will be stored.
        written: as the user wrote it.
        name: of the pod set; empty where there is only one.
        count: how many of them must be admitted together.
        charged: how many of these have quota already.
    """

    pod: ReviewedPod
    written: ReviewedPod
    name: str = ""
    count: int = 1
    charged: int = 0

    @property
    def who(self) -> str:
        """Return who asks, as the subject of a sentence that follows a colon."""
        return f"pod set {self.name} asks" if self.name else "asks"

    @property
    def named(self) -> str:
        """Return of which pod set a next step is, before a colon; empty for the only one."""
        return f"pod set {self.name}: " if self.name else ""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A reason why it waits or never starts, as its condition will say it, with a next step.

    Attributes:
        text: the reason.
        step: what to do about it.
        short: what is said of the reason beside a long step; empty where that is cut.
    """

    text: Text
    step: str
    short: str = ""

    @property
    def warning(self) -> str:
        """Return the sentence and the step, within the length of a warning."""
        step = f"{self.step[:1].upper()}{self.step[1:]}"
        sentence, room = self.text.message, LONGEST - len(step) - 1
        if len(sentence) > room:
            sentence = sentences.without_last_clauses(self.short or sentence, room)
        return f"{sentence} {step}"


def queued(
    metadata: views.ObjectMeta,
    parts: Sequence[CreatedPods],
    placement: QueueingResult,
    context: Context,
    lister: Lister,
) -> tuple[str, ...]:
    """Return warnings about what waits in a queue; few while the cache is not filled.

    Args:
        metadata: of the pod or owner, as the user wrote it.
        parts: its pods.
        placement: its queue.
        context: its namespace.
        lister: what was last seen of the cluster.
    """
    rewritten = [
        text
        for part in parts
        for text in (*_rewritten(part), *_doubted(part), *_several_instances(part))
    ]
    written = (metadata, *(part.written.metadata for part in parts))
    rewritten += key_warnings.without_effect(written)
    queue, about = about_queue(placement, context, lister)
    about = (*_missing_priority_class(metadata, lister), *about)
    if queue is None:
        return (*rewritten, *about)
    local_queue = lister.local_queue(context.namespace, placement.queue)
    local_metadata = None if local_queue is None else local_queue.metadata
    rewritten += key_warnings.beyond_queue(written, queue.metadata, local_metadata)
    forecast = _forecast(metadata, parts, queue, local_queue, lister, is_told=bool(about))
    return (*rewritten, *about, *forecast)


def asked_anew(
    metadata: views.ObjectMeta,
    parts: Sequence[CreatedPods],
    placement: QueueingResult,
    context: Context,
    lister: Lister,
) -> tuple[str, ...]:
    """Return warnings about an update that asks a queue for other or more pods than before.

    Args:
        metadata: of the owner.
        parts: pods that it asks for, as `queued` has them.
        placement: its queue.
        context: its namespace.
        lister: what was last seen of the cluster.
    """
    queue, about = about_queue(placement, context, lister)
    if queue is None or about:
        return tuple(about)
    local_queue = lister.local_queue(context.namespace, placement.queue)
    return tuple(_forecast(metadata, parts, queue, local_queue, lister, is_told=False))


def _forecast(
    metadata: views.ObjectMeta,
    parts: Sequence[CreatedPods],
    queue: ClusterQueue,
    local_queue: LocalQueue | None,
    lister: Lister,
    *,
    is_told: bool,
) -> Iterator[str]:
    """Yield why pods never start in a queue, else whether they may wait, or take quota back.

    Args:
        metadata: of the pod or owner.
        parts: its pods.
        queue: the ClusterQueue.
        local_queue: the LocalQueue; None for none.
        lister: what was last seen of the cluster.
        is_told: whether it is told already why they wait.
    """
    never = [verdict for part in parts for verdict in _about_part(part, queue, lister)]
    if not any(verdict.text.reason == Code.EXCEEDS_MAX_QUOTA for verdict in never):
        never += _over_caps(parts, local_queue, queue)
    classes = [text for part in parts for text in _of_classes(part, queue)]
    yield from (verdict.warning for verdict in never)
    yield from classes
    if local_queue is not None and not (is_told or never or classes):
        line = f"{local_queue.metadata.namespace}/{local_queue.metadata.name}"
        yield from _behind(metadata, parts, queue, line, lister)


def relabelled(
    old: views.ObjectMeta, new: views.ObjectMeta, context: Context, lister: Lister
) -> tuple[str, ...]:
    """Return warnings about an update that names another queue or class, which will not do.

    Args:
        old: metadata of the pod or owner as stored.
        new: metadata as they would be stored.
        context: its namespace.
        lister: what was last seen of the cluster.
    """
    queue, label = new.label(names.QUEUE_LABEL), new.label(names.PRIORITY_CLASS_LABEL)
    before = old.label(names.PRIORITY_CLASS_LABEL)
    texts: list[str] = []
    if not queue:
        return ()
    if not old.label(names.QUEUE_LABEL) or _is_class_missing(before, lister):
        if label != before or not old.label(names.QUEUE_LABEL):
            texts += _missing_priority_class(new, lister)  # it has no priority yet
    elif label != before and _is_class_missing(label, lister):
        classes = sentences.near_first(label, lister.workload_priority_class_names())
        use = f"use one of {_listed(classes)}, or" if classes else "the cluster has none:"
        step = f"{use} have it created"
        texts.append(_Verdict(sentences.class_without_effect(label), step).warning)
    if queue != old.label(names.QUEUE_LABEL):
        placement = QueueingResult(standing=ManagementState.QUEUED, queue=queue)
        texts += about_queue(placement, context, lister)[1]
    return tuple(texts)


def of_new_pods(old: views.ObjectMeta, new: views.ObjectMeta, lister: Lister) -> tuple[str, ...]:
    """Return the warning about an update whose class does not exist, and reaches new pods.

    Args:
        old: metadata of an owner that serves, as stored.
        new: metadata as they would be stored.
        lister: what was last seen of the cluster.
    """
    key = names.PRIORITY_CLASS_LABEL
    is_other = new.label(key) != old.label(key)
    return tuple(_missing_priority_class(new, lister)) if is_other else ()


def without_queue(
    metadata: views.ObjectMeta, wants: Iterable[str], context: Context, lister: Lister
) -> tuple[str, ...]:
    """Return a warning about what takes managed resources outside every queue.

    What a controller makes is not warned about: nobody would read it.

    Args:
        metadata: of the pod or owner.
        wants: managed resources that it takes.
        context: its namespace.
        lister: what was last seen of the cluster.
    """
    taken = ", ".join(wants)
    if not taken or not lister.synced or metadata.controller() is not None:
        return ()
    queues = lister.local_queue_names(context.namespace)
    if queues:
        step = f"Set {_LABEL} to one of {_listed(queues)}"
        return (f"No queue: it takes {taken} outside every queue. {step}",)
    where = f"namespace {context.namespace} has none"
    step = "Ask an administrator for a LocalQueue"
    return (f"No queue: {where}, so it takes {taken} outside every queue. {step}",)


def no_such_queue(named: str, queue: str) -> str:
    """Return the warning about an owner that goes through another queue than it names."""
    return _cut(
        f"Goes through LocalQueue {queue}: its namespace has no LocalQueue {named}. For another"
        f" one, set {_LABEL}"
    )


def held_until_queued(kind: str, context: Context, lister: Lister) -> str:
    """Return the warning about a pod or owner that waits until it has a queue."""
    queues = lister.local_queue_names(context.namespace)
    if queues:
        step = f"Set {_LABEL} to one of {_listed(queues)}"
        return f"No queue: the {kind} waits until it has one. {step}"
    return (
        f"No queue: namespace {context.namespace} has none, and the {kind} waits until it has one."
        f" Ask an administrator for a LocalQueue, then set {_LABEL}"
    )


def kept_waiting(kind: str, queue: str) -> str:
    """Return the warning about an update that says that a waiting owner runs."""
    return (
        f"The {kind} stays suspended: only LocalQueue {queue} starts it, and not once it was"
        f" stopped for good. See: kubectl gpu why {kind.lower()}/NAME"
    )


def started_again(kind: str, *, is_partial: bool) -> str:
    """Return that suspending an admitted owner gives nothing back.

    Args:
        kind: of the owner.
        is_partial: whether it may run with fewer pods; their number is then fixed while it runs.
    """
    pause = ", or set spec.parallelism to 0" if kind == "Job" and not is_partial else ""
    return (
        f"The {kind} is admitted, so it is started again soon and its pods begin anew: quota"
        f" decides who is suspended. To give its quota back, delete it{pause}"
    )


def stopped_by_update(kind: str) -> str:
    """Return that the pods of an admitted owner end, as it asks for others than before."""
    elastic = (
        f". A Job created with {names.ELASTIC_JOB} is resized while it runs"
        if kind == "Job"
        else ""
    )
    return (
        f"Its pods end now: the {kind} asks for other pods than it was admitted with. It waits for"
        f" quota again, and begins anew{elastic}"
    )


def marks_kept(kept: Sequence[str]) -> str:
    """Return the warning about an update of a pod whose marks stay as they are."""
    keys = " and ".join(names.OUR_PREFIXES)
    return _cut(
        f"Kept as before: {', '.join(kept)}. The quota of the pod is counted by them, and only the"
        f" controller changes them; have your tool ignore keys that begin with {keys}"
    )


def refused(error: FieldError) -> str:
    """Return the warning about an owner whose pods will be refused when they are created."""
    return _cut(f"Its pods will be refused: {error.text()}")


def unheld(
    pod: ReviewedPod, placement: QueueingResult, context: Context, lister: Lister
) -> tuple[str, ...]:
    """Return warnings about a pod that is let through without a queue."""
    if placement.standing is not ManagementState.UNMANAGED:
        return ()
    if not pod.spec.node_name:
        return without_queue(pod.metadata, placement.wants, context, lister)
    taken = ", ".join(placement.wants)
    step = f"Leave nodeName out, and set nodeSelector {topology_labels.HOSTNAME}"
    text = (
        f"No queue: the pod names node {sentences.name(pod.spec.node_name)}, so it takes {taken}"
        " outside every queue."
    )
    return (f"{sentences.clipped(text, LONGEST - len(step) - 1)} {step}",)


def owned(old: ReviewedPod | None, new: ReviewedPod, rules: Rules) -> tuple[str, ...]:
    """Return the warning about a pod marked as managed whose owner is held as a whole.

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


def about_queue(
    placement: QueueingResult, context: Context, lister: Lister
) -> tuple[ClusterQueue | None, tuple[str, ...]]:
    """Return the ClusterQueue of a queue, if it can be reached, and why it admits nothing."""
    if not placement.queue or not lister.synced:
        return None, ()
    local_queue = lister.local_queue(context.namespace, placement.queue)
    if local_queue is None:
        return None, (_missing_local_queue(placement.queue, context, lister),)
    if local_queue.spec.stop_policy != "None":
        stopped = sentences.text(causes.QueueInactive(causes.LOCAL_QUEUE, placement.queue))
        return None, (_Verdict(stopped, _STARTED_AGAIN).warning,)
    name = local_queue.spec.cluster_queue
    queue = lister.cluster_queue(name)
    if queue is None:
        missing = sentences.text(causes.QueueMissing(causes.CLUSTER_QUEUE, name))
        return None, (_Verdict(missing, "have it created").warning,)
    return queue, (
        *_not_served(queue, context, lister),
        *_about_cluster_queue(queue, lister),
    )


def of_templates(
    metadata: views.ObjectMeta,
    templates: Iterable[views.ObjectMeta],
    context: Context,
    lister: Lister,
) -> tuple[str, ...]:
    """Return why the queues admit nothing which the pods of an owner without a queue name.

    Args:
        metadata: of the owner; what a controller makes is not warned about.
        templates: metadata of its templates of pods.
        context: its namespace.
        lister: what was last seen of the cluster.
    """
    if metadata.controller() is not None:
        return ()
    queues = dict.fromkeys(template.label(names.QUEUE_LABEL) for template in templates)
    placements = (QueueingResult(standing=ManagementState.QUEUED, queue=name) for name in queues)
    return tuple(
        text for placement in placements for text in about_queue(placement, context, lister)[1]
    )


def _about_part(part: CreatedPods, queue: ClusterQueue, lister: Lister) -> Iterator[_Verdict]:
    """Yield what the queue has no quota for, or can never give enough of."""
    of_pod = _wanted(part.pod)
    missing = [
        resource for resource in _uncovered(of_pod, queue) if not resources.is_of_class(resource)
    ]
    if missing:
        text = sentences.resources_not_covered(missing, queue.metadata.name)
        yield _Verdict(text, _UNCOVERED_STEP)
    facts = lister.queue_facts(queue)
    for group in queue.spec.resource_groups or ():
        covered = (r for r in sorted(group.covered_resources) if r in of_pod)
        requested = {r: part.count * of_pod[r] for r in covered}
        if not requested:
            continue
        flavors = _selected(part.pod, group, lister)
        if not flavors:
            yield _matches_no_flavor(part, queue, group, lister)
        elif nodes := _beyond_nodes(requested, of_pod, part.count, queue, flavors, lister):
            yield _larger_than_nodes(nodes, part)
        elif not _fits_own_quota(requested, flavors, facts):
            yield from _too_big(requested, part, queue.metadata.name, flavors, lister)


def _selected(pod: ReviewedPod, group: ResourceGroupSpec, lister: Lister) -> tuple[str, ...]:
    """Return the flavors on whose nodes the pod may run, by its node selector and affinity.

    A flavor that was not seen is one of them. Taints are not looked at: the API server adds
    tolerations to the pods of owners.
    """
    affinity = reviewed_pod.required_affinity(pod)
    flavors = []
    for quotas in group.flavors:
        flavor = lister.resource_flavor(quotas.name)
        labels = {} if flavor is None else flavor.spec.node_labels or {}
        if node_labels.are_selected(labels, pod.spec.node_selector or {}, affinity):
            flavors.append(quotas.name)
    return tuple(flavors)


def _beyond_nodes(
    requested: Iterable[str],
    of_pod: Mapping[str, int],
    count: int,
    queue: ClusterQueue,
    flavors: Iterable[str],
    lister: Lister,
) -> tuple[causes.LargestNode, ...]:
    """Return what one pod asks of a resource that no node of the flavors has.

    Of cpu and memory that is known of nodes with GPUs.
    Return nothing where a node may have it, and where the queue gives each of the pods less than a
    node: then the quota is what matters. Flavors of which the queue can have nothing do not count.
    """
    has_devices = any(resources.is_device(resource) for resource in of_pod)
    for resource in requested:
        if not has_devices:
            break
        nodes, enough = [], []
        for flavor in flavors:
            has = _largest_node(flavor, resource, lister)
            if has is not None and has < of_pod[resource]:
                nodes.append(causes.LargestNode(resource, flavor, of_pod[resource], has))
            else:
                enough.append(flavor)
        name = queue.metadata.name
        if not nodes or any(lister.most(name, flavor, resource) != 0 for flavor in enough):
            continue
        if all(
            reach is None or reach // count >= node.has
            for node in nodes
            if (reach := lister.most(name, node.flavor, resource)) != 0
        ):
            return tuple(nodes)
    return ()


def _largest_node(flavor: str, resource: str, lister: Lister) -> int | None:
    """Return the most of a resource that a node of a flavor has, as the controller has said."""
    view = lister.resource_flavor(flavor)
    if view is None:
        return None
    return caps.readable(view.metadata, names.LARGEST_NODE).get(ResourceName(resource))


def _larger_than_nodes(nodes: Sequence[causes.LargestNode], part: CreatedPods) -> _Verdict:
    amount = quantity.from_canonical(nodes[0].resource, max(node.has for node in nodes))
    step = f"{part.named}ask for at most {amount} in one pod"
    return _Verdict(sentences.exceeds_largest_node(nodes), step)


def _matches_no_flavor(
    part: CreatedPods, queue: ClusterQueue, group: ResourceGroupSpec, lister: Lister
) -> _Verdict:
    refusals = tuple(causes.OtherNodes(quotas.name) for quotas in group.flavors)
    why = causes.NoFlavor(
        WaitReason.NO_MATCHING_FLAVOR, (causes.RefusedPodSet(part.name, refusals),)
    )
    step = next_steps.labels_to_select(_contradicted(part.pod, group, lister))
    step = step or "set another nodeSelector or affinity"
    text = sentences.text(why, queue.metadata.name)
    head = sentences.no_matching_flavor((), queue.metadata.name).message
    return _Verdict(text, f"{part.named}{step}", short=head)


def _contradicted(
    pod: ReviewedPod, group: ResourceGroupSpec, lister: Lister
) -> dict[str, dict[str, str]]:
    """Return the labels by which a pod selects other nodes than a flavor has, by flavor."""
    affinity = reviewed_pod.required_affinity(pod)
    labels = {}
    for quotas in group.flavors:
        if (flavor := lister.resource_flavor(quotas.name)) is not None:
            labels[quotas.name] = node_labels.contradicted(
                flavor.spec.node_labels or {}, pod.spec.node_selector or {}, affinity
            )
    return labels


def _uncovered(resources_wanted: Iterable[str], queue: ClusterQueue) -> Iterator[str]:
    """Yield the resources for which the queue has no quota.

    Of names of GPUs `gpu.rewrite` has spoken. Only the controller knows what classes cost.
    """
    for resource in sorted(resources_wanted):
        is_implicit = resource.startswith(resources.IMPLICIT_CLASS_PREFIX)
        is_known = _is_covered(resource, queue) or resources.is_device(resource)
        if not is_known and not is_implicit:
            yield resource


def _of_classes(part: CreatedPods, queue: ClusterQueue) -> Iterator[str]:
    """Yield a warning for each resource that may be of a DeviceClass, and is without quota."""
    for resource in filter(resources.is_of_class, _uncovered(_wanted(part.pod), queue)):
        misspelled = sentences.resources_misspelled([resource])
        if misspelled is not None:
            yield _Verdict(misspelled, next_steps.next_step(misspelled.reason)).warning
            continue
        instead = sentences.gpu_of_products([resource])
        if instead:
            text = f"May never start: queue {queue.metadata.name} has no quota for {resource}."
            yield _Verdict(Text(Code.RESOURCE_MISSPELLED, text), instead).warning
            continue
        yield (
            f"May never start: queue {queue.metadata.name} has no quota for {resource}.{_OF_CLASS}"
            " Remove the request, or have the resource added"
        )


def _missing_local_queue(queue: str, context: Context, lister: Lister) -> str:
    queues = lister.local_queue_names(context.namespace)
    step = "ask an administrator for a LocalQueue: there is none"
    if queues:
        listed = _listed(spelling.nearest_first(queue, queues))
        step = f"set {_LABEL} to one of {listed}, or have it created"
    return _Verdict(sentences.text(causes.QueueMissing(causes.LOCAL_QUEUE, queue)), step).warning


def _missing_priority_class(metadata: views.ObjectMeta, lister: Lister) -> Iterator[str]:
    """Yield that the label names a WorkloadPriorityClass that does not exist."""
    label = metadata.label(names.PRIORITY_CLASS_LABEL)
    if not _is_class_missing(label, lister):
        return
    step = sentences.other_priority_class(label, lister.workload_priority_class_names())
    yield _Verdict(
        sentences.priority_class_not_found("WorkloadPriorityClass", label), step
    ).warning


def _is_class_missing(label: str, lister: Lister) -> bool:
    """Return whether a label names a WorkloadPriorityClass that does not exist."""
    is_looked_for = bool(label) and lister.synced
    return is_looked_for and lister.workload_priority_class(label) is None


def _listed(members: Sequence[str]) -> str:
    return ", ".join(members[:_NAMES_SHOWN]) + (", ..." if len(members) > _NAMES_SHOWN else "")


def _not_served(queue: ClusterQueue, context: Context, lister: Lister) -> Iterator[str]:
    namespace = lister.namespace(context.namespace)
    if namespace is None or lister.queue_facts(queue).serves(namespace.metadata.labels or {}):
        return
    step = (
        f"ask an administrator to have ClusterQueue {queue.metadata.name} select namespace"
        f" {context.namespace}"
    )
    yield _Verdict(sentences.text(causes.NamespaceNotServed()), step).warning


def _about_cluster_queue(queue: ClusterQueue, lister: Lister) -> Iterator[str]:
    inactive = sentences.text(causes.QueueInactive(causes.CLUSTER_QUEUE, queue.metadata.name))
    facts = lister.queue_facts(queue)
    if facts.missing:
        step = f"have ResourceFlavor {_listed(facts.missing)} created"
        yield _Verdict(inactive, step).warning
    elif queue.spec.stop_policy != "None":
        yield _Verdict(inactive, "it is stopped, and goes on when it is started again").warning
    else:
        for condition in queue.status.conditions or ():
            if condition.type == conditions.ACTIVE and condition.status == "False":
                yield _cut(f"{inactive.message} {condition.message}")


def _cut(text: str) -> str:
    """Return a text with what others wrote, short enough."""
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _rewritten(part: CreatedPods) -> Iterator[str]:
    """Yield under which names of GPUs the pods will ask, where the user wrote others."""
    before = {
        container_.name: container_ for _, _, container_ in part.written.located_containers()
    }
    changes: dict[str, None] = {}
    for _, _, container in part.pod.located_containers():
        old, new = (
            {name: value for name, value in container_.limits.items() if resources.is_device(name)}
            for container_ in (before[container.name], container)
        )
        added = [f"{value} {name}" for name, value in new.items() if name not in old]
        if added:
            taken = [f"{value} {name}" for name, value in old.items() if name not in new]
            changes[f"{' and '.join(added)} instead of {' and '.join(taken)}"] = None
    if changes:
        yield _cut(f"Rewritten: {part.who} for {'; '.join(changes)}")


def _doubted(part: CreatedPods) -> Iterator[str]:
    """Yield a warning for each amount that is hardly meant as the user wrote it."""
    for _, _, container in part.written.located_containers():
        amounts = {**(container.requests or {}), **(container.limits or {})}
        for resource, written in sorted(amounts.items()):
            if doubt := unlikely_amounts.doubt(resource, written):
                yield _cut(f"Check the unit: container {container.name}: {doubt}")


def _several_instances(part: CreatedPods) -> Iterator[str]:
    """Yield a warning for each container that asks for several MIG instances.

    Source: NVIDIA MIG user guide, "CUDA device enumeration"; k8s-device-plugin#728.
    """
    for _, _, container in part.pod.located_containers():
        instances = 0
        for name, amount in (container.limits or {}).items():
            if name.startswith(names.MIG_RESOURCE_PREFIX):
                with contextlib.suppress(InvalidValueError):  # the API server refuses it
                    instances += quantity.to_canonical(name, str(amount))
        if instances > 1:
            yield _cut(
                f"Sees one: container {container.name} asks for {instances} MIG instances, and a"
                " CUDA process uses only one. Ask for one larger profile, or start a process for"
                " each"
            )


def _behind(
    metadata: views.ObjectMeta,
    parts: Sequence[CreatedPods],
    queue: ClusterQueue,
    line: str,
    lister: Lister,
) -> Iterator[str]:
    """Yield that it does not fit now, and about how many wait already, where that concerns it.

    A hint: others may go before them or come after, and the status may be a moment old.
    """
    demands = [
        (part.pod, {r: (part.count - part.charged) * v for r, v in _wanted(part.pod).items()})
        for part in parts
    ]
    waiting, name = queue.status.pending_workloads or 0, queue.metadata.name
    has_room = _has_room(demands, queue, lister, lister.free)
    is_capped = _is_capped(queue)
    goes_first = waiting <= 0 or (_goes_past(queue) and not is_capped)
    if has_room and goes_first:
        return
    is_own = not has_room and _has_room(demands, queue, lister, lister.unused)
    is_taken_back = (
        is_own and not is_capped and _has_room(demands, queue, lister, lister.reclaimed)
    )
    if is_taken_back and goes_first:
        yield _takes_back(waiting, line)
        return
    if not has_room and not is_capped:
        priority = _priority(metadata, parts, lister)
        if _may_preempt(priority, queue, lister, is_own=is_own):
            return
    line_text = _others(waiting, "waits", "wait")
    for where in (f" in ClusterQueue {name}", ""):
        little = f"less is free{where} than it asks for"
        is_short = not has_room and not is_taken_back
        parts_of_text = [little] if is_short else []
        if waiting > 0:
            parts_of_text.append(f"{line_text}{'' if is_short else where}")
        text = f"May wait: {', and '.join(parts_of_text)}. See: kubectl gpu queue {line}"
        if len(text) <= LONGEST or not where:
            yield _cut(text)  # the command is worth more than the name that it has, too
            return


def _takes_back(waiting: int, line: str) -> str:
    """Return that something starts within its queue's own quota, which others borrow.

    What waits in the queue lacks more than that, or was created just now and is tried first.

    Args:
        waiting: how many wait in its ClusterQueue already.
        line: namespace and name of its LocalQueue.
    """
    text = "Starts once running work of others is stopped, which borrows from its queue"
    if waiting > 0:
        text += f", unless {_others(waiting, 'that waits takes', 'that wait take')} it first"
    return _cut(f"{text}. See: kubectl gpu queue {line}")


def _others(waiting: int, one_does: str, many_do: str) -> str:
    """Return about how many others wait, with what they do."""
    return f"1 other {one_does}" if waiting == 1 else f"about {_rounded(waiting)} others {many_do}"


def _may_preempt(
    priority: int | None, queue: ClusterQueue, lister: Lister, *, is_own: bool
) -> bool:
    """Return whether something in a queue may run that is preempted for a priority.

    Of what runs only the lowest priority that it may have is known.

    Args:
        priority: of what is created; None if it is not known.
        queue: where it is created.
        lister: what was last seen of the cluster.
        is_own: whether its queue's own quota suffices: only then it takes back what is borrowed.
    """
    preemption = queue.spec.preemption or PreemptionSpec()
    borrow = preemption.borrow_within_cohort or BorrowWithinCohort()
    policies = {preemption.within_cluster_queue, borrow.policy}
    if is_own:
        policies.add(preemption.reclaim_within_cohort)
    if policies == {_NEVER}:
        return False
    values = [
        each.value
        for name in lister.workload_priority_class_names()
        if (each := lister.workload_priority_class(name)) is not None
    ]
    return priority is None or priority > min([0, *values])


def _priority(
    metadata: views.ObjectMeta, parts: Sequence[CreatedPods], lister: Lister
) -> int | None:
    """Return the priority of what is created; None where only the controller knows it."""
    priority_class = lister.workload_priority_class(metadata.label(names.PRIORITY_CLASS_LABEL))
    if priority_class is not None:
        return priority_class.value
    specs = [part.written.spec for part in parts]
    if any(spec.priority is None and spec.priority_class_name for spec in specs):
        return None
    return max((spec.priority or 0 for spec in specs), default=0)


def _rounded(number: int) -> int:
    """Return a number as exact as it will stay for a moment: in tens, and in hundreds."""
    step = next(step for step, limit in _STEPS if number <= limit or not limit)
    return (number + step // 2) // step * step


def _is_capped(queue: ClusterQueue) -> bool:
    """Return whether fewer GPUs exist than the quota, and the queue is held to these."""
    guard = queue.metadata.annotation(names.CAPACITY_GUARD)
    return guard == names.CAPACITY_GUARD_ENFORCE and any(
        condition.type == conditions.CAPACITY_SUFFICIENT and condition.status == "False"
        for condition in queue.status.conditions or ()
    )


def _goes_past(queue: ClusterQueue) -> bool:
    """Return whether those that fit go past those that do not."""
    return queue.spec.queueing_strategy != model.QueueingStrategy.STRICT_FIFO


def _has_room(
    demands: Iterable[tuple[ReviewedPod, Mapping[str, int]]],
    queue: ClusterQueue,
    lister: Lister,
    amount_left: Callable[[str, str, str], int | None],
) -> bool:
    """Return whether all of it fits into what is left, by what the statuses say.

    Args:
        demands: a pod of each pod set, and what all pods of the set ask for.
        queue: where they ask.
        lister: what was last seen of the cluster.
        amount_left: returns what is left for a ClusterQueue of a flavor and a resource; None where
            that is not known, and then it may fit.
    """
    name = queue.metadata.name
    left: dict[tuple[str, str], int] = {}
    for pod, amounts in demands:
        for group in queue.spec.resource_groups or ():
            covered = {r: amounts[r] for r in group.covered_resources if r in amounts}
            for flavor in _selected(pod, group, lister):
                for resource in covered:
                    if (flavor, resource) not in left:
                        free = amount_left(name, flavor, resource)
                        left[flavor, resource] = UNLIMITED if free is None else free
                if all(value <= left[flavor, r] for r, value in covered.items()):
                    for resource, value in covered.items():
                        left[flavor, resource] -= value
                    break
            else:
                if covered:
                    return False
    return True


def may_wait_one_by_one(
    pod: ReviewedPod,
    amounts: Mapping[str, int],
    coming: int,
    in_all: int,
    local_queue: LocalQueue | None,
    queue: ClusterQueue,
    lister: Lister,
) -> bool:
    """Return whether equal pods that are admitted one by one may have to wait.

    Args:
        pod: one of them.
        amounts: what each of them asks for that is counted.
        coming: how many are created.
        in_all: how many there are then.
        local_queue: where they ask.
        queue: its ClusterQueue.
        lister: what was last seen of the cluster.
    """
    if _is_capped(queue) or (queue.status.pending_workloads and not _goes_past(queue)):
        return True
    for metadata, key, _ in _cap_places(local_queue, queue):
        limits = caps.readable(metadata, key)
        if any(in_all * amounts.get(resource, 0) > limit for resource, limit in limits.items()):
            return True
    for group in queue.spec.resource_groups or ():
        covered = {r: amounts[r] for r in group.covered_resources if amounts.get(r)}
        free = [
            {r: lister.reclaimed(queue.metadata.name, flavor, r) or 0 for r in covered}
            for flavor in _selected(pod, group, lister)
        ]
        if covered and _at_once(covered, free, is_one_pod=True) < coming:
            return True
    return False


def _asked(parts: Sequence[CreatedPods]) -> dict[str, int]:
    """Return what all parts together ask for."""
    totals: dict[str, int] = {}
    for part in parts:
        for resource, value in _wanted(part.pod).items():
            totals[resource] = totals.get(resource, 0) + part.count * value
    return totals


def _over_caps(
    parts: Sequence[CreatedPods], local_queue: LocalQueue | None, queue: ClusterQueue
) -> Iterator[_Verdict]:
    """Yield what all parts together ask for beyond a cap; the first cap that is too low."""
    requested = _asked(parts)
    for metadata, key, place in _cap_places(local_queue, queue):
        for resource, limit in sorted(caps.readable(metadata, key).items()):
            if requested.get(resource, 0) > limit and _is_covered(resource, queue):
                exceeded = causes.ExceedsCap(place, resource, requested[resource], limit)
                yield _Verdict(sentences.text(exceeded), "ask for less, or have the cap raised")
                return


def _cap_places(
    local_queue: LocalQueue | None, queue: ClusterQueue
) -> list[tuple[views.ObjectMeta, str, CapPlace]]:
    """Return where caps may stand: the metadata, the key of the annotation, and whom it limits."""
    name, user = queue.metadata.name, names.UNKNOWN_REQUESTER
    places = [(queue.metadata, names.MAX_PER_USER, CapPlace(name, "", user, ""))]
    if local_queue is not None:
        metadata = local_queue.metadata
        places += [
            (metadata, names.MAX_PER_USER, CapPlace(name, metadata.name, user, "")),
            (metadata, names.MAX_IN_USE, CapPlace(name, metadata.name, "", "")),
        ]
    return places


def _wanted(pod: ReviewedPod) -> Mapping[str, int]:
    """Return what the pod asks for."""
    try:
        return requests.total(pod)
    except InvalidValueError:
        return {}  # the API server refuses it


def _is_covered(resource: str, queue: ClusterQueue) -> bool:
    return any(resource in group.covered_resources for group in queue.spec.resource_groups or ())


# ---------------------------------------------------------------------------------------- replicas


def too_many(
    replica: Sequence[CreatedPods],
    replicas: int,
    placement: QueueingResult,
    context: Context,
    lister: Lister,
) -> tuple[str, ...]:
    """Return a warning about an owner of which not all replicas can ever run at once.

    Each of them is admitted by itself. Nothing is said where not even one fits: `queued` does.

    Args:
        replica: the pods of one replica.
        replicas: how many are wanted.
        placement: its queue.
        context: its namespace.
        lister: what was last seen of the cluster.
    """
    queue, about = about_queue(placement, context, lister)
    if queue is None or about or replicas < 2:  # noqa: PLR2004 - one replica is not too many
        return ()
    name = queue.metadata.name
    requested, at_once = _asked(replica), replicas
    for group in queue.spec.resource_groups or ():
        covered = {r: requested[r] for r in group.covered_resources if requested.get(r)}
        flavors = dict.fromkeys(
            flavor for part in replica for flavor in _selected(part.pod, group, lister)
        )
        reach = [{r: lister.most(name, flavor, r) for r in covered} for flavor in flavors]
        if covered:
            at_once = min(at_once, _at_once(covered, reach, is_one_pod=len(replica) == 1))
    if not 0 < at_once < replicas:
        return ()
    return (
        (
            f"Too many: {at_once} of {replicas} replicas can run at once in ClusterQueue {name}."
            " Ask for fewer, or have the quota raised"
        ),
    )


def _at_once(
    requested: Mapping[str, int], reach: Sequence[Mapping[str, int | None]], *, is_one_pod: bool
) -> int:
    """Return how many replicas all flavors of a group together can hold; never too few.

    Args:
        requested: by one replica.
        reach: of each flavor; None for what is not known.
        is_one_pod: whether a replica is one pod, which gets one flavor.
    """
    limits = [
        {r: UNLIMITED if limit is None else limit for r, limit in amounts.items()}
        for amounts in reach
    ]
    if is_one_pod:
        return sum(
            min(amounts[r] // value for r, value in requested.items()) for amounts in limits
        )
    return min(sum(amounts[r] for amounts in limits) // value for r, value in requested.items())


# ----------------------------------------------------------------------------------------- too big


def _fits_own_quota(
    requested: Mapping[str, int], flavors: Iterable[str], facts: QueueFacts
) -> bool:
    """Return whether one flavor holds it without borrowing: then nothing of a cohort matters."""
    quotas_of_flavors = (facts.nominal[flavor] for flavor in flavors)
    return any(
        all(value <= nominal.get(r, 0) for r, value in requested.items())
        for nominal in quotas_of_flavors
    )


def _too_big(
    requested: Mapping[str, int],
    part: CreatedPods,
    queue: str,
    flavors: Iterable[str],
    lister: Lister,
) -> Iterator[_Verdict]:
    """What none of some flavors could ever hold, borrowing included; a pod set gets one flavor."""
    bounds: dict[str, dict[str, int]] = {}
    for flavor in flavors:
        most_by_resource = {r: lister.most(queue, flavor, r) for r in requested}
        bounds[flavor] = {r: v for r, v in most_by_resource.items() if v is not None}
    if any(all(v <= b.get(r, v) for r, v in requested.items()) for b in bounds.values()):
        return
    shortages = [
        Shortage(
            pod_set=PodSetName(part.name),
            resource=ResourceName(resource),
            flavor=FlavorName(flavor),
            requested=value,
            available=bound[resource],
            limit=bound[resource],
            nominal=0,
        )
        for flavor, bound in bounds.items()
        for resource, value in requested.items()
        if value > bound.get(resource, value)
    ]
    never = [r for r, v in requested.items() if all(v > b.get(r, v) for b in bounds.values())]
    step = "ask for less, or have the quota raised"
    if never:
        reach = max(bound[never[0]] for bound in bounds.values())
        step = _step(never[0], requested[never[0]], part, reach)
        shortages = [shortage for shortage in shortages if shortage.resource in never]
    yield _Verdict(sentences.of_shortages(shortages, queue), f"{part.named}{step}")


def _step(resource: str, value: int, part: CreatedPods, reach: int) -> str:
    """Return what to do where no flavor can reach what a part asks for."""
    if reach == 0:
        return "have quota for it added"
    each = value // part.count
    if part.count > 1 and (few := reach // each) > 0:
        amount = f"{part.count} pods of {_shown(resource, each)}"
        return f"run at most {few} of its {amount} at a time, or have the quota raised"
    return f"ask for at most {_shown(resource, reach)}, or have the quota raised"


def _shown(resource: str, value: int) -> str:
    return quantity.in_words(resource, value)
