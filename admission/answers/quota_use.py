"""How much quota there is and who uses it: by ClusterQueue, Cohort and ResourceFlavor.

`of` returns plain data with amounts in canonical units (cpu in thousandths, memory in bytes,
devices as they are), which tables and pages are made from. `document` is the same as JSON, with
amounts as Kubernetes writes quantities; docs/reference/commands.md documents it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from admission.answers import cluster, queue_caps
from admission.answers.cluster import Read
from admission.answers.queue_caps import QueueCap
from admission.base import amount, conditions, json_answers, names, quantity
from admission.base.names import FlavorName, FlavorResource, ResourceName
from admission.gpu import capacity, catalogue, costs, resources
from admission.gpu.health import HealthPolicy
from admission.objects import nodes, pods, queue_status, resource_flavor, values, views
from admission.objects.local_queue import LocalQueue
from admission.objects.queue_status import StatedWithoutNode, reserved
from admission.objects.workload import Workload
from admission.reasons.placing import SickDevices
from admission.scheduling import model, quota
from admission.scheduling.hierarchy import CohortNode, QueueNode, QuotaNode, members
from admission.scheduling.overview import Overview, QueueOverview
from admission.scheduling.places import predicate

API_VERSION: Final = json_answers.API_VERSION
"""Version of the form of every answer in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One resource in one flavor.

    Attributes:
        flavor: the flavor.
        resource: the resource.
        nominal: own nominal quota; of a Cohort, of everything below it. `amount.UNLIMITED` is
            possible.
        used: reserved by Workloads, admitted or not; of a Cohort, by those below it.
        borrowed: the part of `used` that is taken from the Cohort above.
        lent: the part of the own quota that is not used here and could not be, as others use it.
        releasing: the part of `used` whose Workloads were evicted or whose pods are being deleted;
            None where not all Workloads and pods may be read.
        without_node: the part of `used` of admitted Workloads whose pods are on no node; GPUs
            only.
        in_force: what of `nominal` counts; less where the capacity guard holds it to the GPUs that
            exist. None where that is not known, and of a Cohort.
        surge: the part of `used` that surge quota covers; of ClusterQueues only.
    """

    flavor: str
    resource: str
    nominal: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    releasing: int | None = 0
    without_node: int = 0
    in_force: int | None = None
    surge: int = 0

    @property
    def cut(self) -> int:
        """Return how much of the nominal quota does not count; 0 where that is not known."""
        return 0 if self.in_force is None else max(0, self.nominal - self.in_force)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The pending Workloads of a queue.

    Attributes:
        workloads: how many.
        resources: what they ask for together; None where that may not be read.
    """

    workloads: int = 0
    resources: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUse:
    """A ClusterQueue.

    Attributes:
        name: of it.
        cohort: above it; empty for none.
        active: whether it admits.
        message: why it does not; empty where it does.
        lines: in the order of its spec, then flavors that only its Workloads hold.
        pending: who waits.
        reserving: Workloads that hold quota.
        admitted: those of them that are admitted.
    """

    name: str
    cohort: str
    active: bool
    message: str
    lines: tuple[Line, ...]
    pending: Waiting
    reserving: int
    admitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortUse:
    """A Cohort, also one that is only named by others.

    Attributes:
        name: of it.
        parent: above it; empty for a root.
        lines: sums of everything below, sorted.
        pending: who waits below it.
        own_lines: the quota of its own, sorted; it uses none of it itself. None of an overview.
    """

    name: str
    parent: str
    lines: tuple[Line, ...]
    pending: Waiting
    own_lines: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorLine:
    """One resource of a flavor in the whole cluster.

    Attributes:
        resource: the resource.
        nominal: all nominal quota of it.
        used: reserved by Workloads.
        releasing: see `Line`.
        without_node: see `Line`.
        real: healthy on the nodes of the flavor; None where nodes do not decide, or may not be
            read.
        sick: amount on those nodes that cannot be used; None likewise.
        sick_on: what of that is on which node, and why; sorted by node.
        outside: amount on those nodes that pods hold which no queue admitted; None where nodes do
            not decide, or not all pods may be read.
    """

    resource: str
    nominal: int
    used: int
    releasing: int | None
    without_node: int
    real: int | None
    sick: int | None
    outside: int | None
    sick_on: tuple[SickDevices, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorUse:
    """A ResourceFlavor.

    Attributes:
        name: of it.
        nodes: how many of the nodes that it selects have GPUs of its lines, usable or not; all of
            them where it has none of GPUs. None where nodes may not be read.
        lines: sorted, GPUs first.
    """

    name: str
    nodes: int | None
    lines: tuple[FlavorLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLine:
    """What a LocalQueue has of one resource in one flavor.

    Attributes:
        flavor: the flavor.
        resource: the resource.
        nominal: nominal quota of the ClusterQueue, which its LocalQueues share; None where that
            is not told. `amount.UNLIMITED` is possible.
        used: reserved by its Workloads, admitted or not.
        admitted: the part of `used` whose Workloads are admitted.
    """

    flavor: str
    resource: str
    nominal: int | None = None
    used: int = 0
    admitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalUse:
    """A LocalQueue.

    Attributes:
        namespace: of it.
        name: of it.
        cluster_queue: behind it.
        lines: what is used of it, as its status says.
        pending: who waits.
        admitted: Workloads that are admitted.
        caps: how much a user, or all its work, may hold.
    """

    namespace: str
    name: str
    cluster_queue: str
    lines: tuple[LocalLine, ...]
    pending: Waiting
    admitted: int
    caps: tuple[QueueCap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpus:
    """The GPUs of a node.

    Attributes:
        name: of the node.
        labels: of the node.
        taints: of its spec.
        healthy: units that can be used, by resource, with GPU memory and slices.
        sick: units that exist and cannot be used.
        outside: what pods hold that no queue admitted; None where that is not known.
        physical: whole GPUs in the machine; 0 where that is not known.
        reasons: why units do not count.
        sick_since: RFC 3339 time since when; empty where that is not known.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[model.Taint, ...]
    healthy: Mapping[str, int]
    sick: Mapping[str, int]
    outside: Mapping[str, int] | None
    physical: int
    reasons: tuple[str, ...]
    sick_since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Quota and its use, sorted by name throughout.

    Attributes:
        queues: ClusterQueues.
        cohorts: Cohorts.
        flavors: ResourceFlavors.
        local_queues: LocalQueues.
        outside: what pods hold that no queue admitted, by resource, on all nodes; None where nodes
            or not all pods may be read.
        missing: what could not be read, a sentence each.
        never: what those ask for, by resource, that wait and never start as they are.
    """

    queues: tuple[QueueUse, ...]
    cohorts: tuple[CohortUse, ...]
    flavors: tuple[FlavorUse, ...]
    local_queues: tuple[LocalUse, ...]
    outside: Mapping[str, int] | None = None
    missing: tuple[str, ...] = ()
    never: Mapping[str, int] = field(default_factory=dict)


def of(read: Read) -> Use:
    """Return quota and its use."""
    releasing = _releasing(read) if _knows_pods(read) else None
    waiting = _Waiting(read)
    forest = read.forest
    parts = capacities(read.objects.nodes, _outside(read))
    queues = tuple(
        _queue(read, forest.queues[name], releasing, waiting) for name in sorted(forest.queues)
    )
    return Use(
        queues=queues,
        cohorts=tuple(
            _cohort(forest.cohorts[name], queues, waiting) for name in sorted(forest.cohorts)
        ),
        flavors=_flavors(read, queues, parts),
        local_queues=tuple(
            _local(read, local_queue, waiting) for local_queue in read.objects.local_queues
        ),
        outside=_held_outside(parts),
        missing=read.missing,
    )


def of_overview(overview: Overview) -> Use:
    """Return quota and its use as the controller counts it; LocalQueues and nodes are left out.

    What is lent is not looked for.
    """
    queues = tuple(_of_queue_overview(queue) for queue in overview.queues)
    cohort_quotas = (
        (pair, q.nominal) for cohort in overview.cohorts for pair, q in cohort.quotas.items()
    )
    sums = _flavor_sums((), cohort_quotas, queues)
    return Use(
        queues=queues,
        cohorts=_cohorts_of_overview(overview, queues),
        flavors=tuple(
            _flavor(name, sums[name], None, knows_releasing=True) for name in sorted(sums)
        ),
        local_queues=(),
    )


def _cohorts_of_overview(overview: Overview, queues: Iterable[QueueUse]) -> tuple[CohortUse, ...]:
    """Return the Cohorts with the sums of everything below; on a cycle, each has all of it."""
    above: dict[str, str] = {cohort.name: cohort.parent for cohort in overview.cohorts}
    sums: dict[str, dict[FlavorResource, list[int]]] = {name: {} for name in above}
    waiting: dict[str, list[QueueUse]] = {name: [] for name in above}

    def chain(name: str) -> Iterator[str]:
        passed: set[str] = set()
        while name in above and name not in passed:
            passed.add(name)
            yield name
            name = above[name]

    def add(cohort: str, pair: FlavorResource, nominal: int, *parts: int) -> None:
        for name in chain(cohort):
            amounts = sums[name].setdefault(pair, [0, 0, 0, 0])
            amounts[0] = amount.add(amounts[0], nominal)
            for index, value in enumerate(parts, 1):
                amounts[index] += value

    for cohort in overview.cohorts:
        for pair, cohort_quota in cohort.quotas.items():
            add(cohort.name, pair, cohort_quota.nominal)
    for queue in queues:
        for name in chain(queue.cohort):
            waiting[name].append(queue)
        for line in queue.lines:
            pair = FlavorResource(FlavorName(line.flavor), ResourceName(line.resource))
            parts = line.used, line.releasing or 0, line.without_node
            add(queue.cohort, pair, line.nominal, *parts)
    return tuple(
        CohortUse(
            name=name,
            parent=above[name],
            lines=tuple(
                Line(
                    flavor=pair.flavor,
                    resource=pair.resource,
                    nominal=nominal,
                    used=used,
                    releasing=leaving,
                    without_node=without_node,
                )
                for pair, (nominal, used, leaving, without_node) in sorted(sums[name].items())
            ),
            pending=_waiting_below(waiting[name]),
        )
        for name in sorted(above)
    )


def _waiting_below(queues: Sequence[QueueUse]) -> Waiting:
    requested: dict[str, int] = {}
    for queue in queues:
        for resource, n in (queue.pending.resources or {}).items():
            requested[resource] = requested.get(resource, 0) + n
    return Waiting(workloads=sum(queue.pending.workloads for queue in queues), resources=requested)


def _of_queue_overview(queue: QueueOverview) -> QueueUse:
    pairs = dict.fromkeys(queue.quotas)
    pairs |= dict.fromkeys(sorted(pair for pair, n in queue.used.items() if n))
    lines = []
    for pair in pairs:
        quota = queue.quotas.get(pair)
        promised = 0 if quota is None else amount.add(quota.nominal, quota.withheld)
        surge = queue.surge.get(pair, 0)
        used = queue.used.get(pair, 0) - surge
        lines.append(
            Line(
                flavor=pair.flavor,
                resource=pair.resource,
                nominal=promised,
                used=used + surge,
                borrowed=_borrowed(used, promised, has_parent=bool(queue.cohort)),
                releasing=queue.leaving.get(pair, 0),
                without_node=_without_node(queue, pair),
                in_force=0 if quota is None else quota.nominal,
                surge=surge,
            )
        )
    requested = {str(name): value for name, value in queue.requested.items() if value}
    return QueueUse(
        name=queue.name,
        cohort=queue.cohort,
        active=queue.active,
        message=queue.problem,
        lines=tuple(lines),
        pending=Waiting(workloads=queue.pending, resources=requested),
        reserving=queue.holding,
        admitted=queue.admitted,
    )


def _without_node(queue: QueueOverview, pair: FlavorResource) -> int:
    without = queue.without_node.get(pair)
    return without.amount if without is not None and is_gpu(pair.resource) else 0


def _borrowed(used: int, nominal: int, *, has_parent: bool) -> int:
    return max(0, used - nominal) if has_parent else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """One resource in all flavors and ClusterQueues.

    Attributes:
        resource: the resource.
        nominal: all nominal quota of it.
        used: reserved by Workloads.
        exists: how much can be used on the nodes of all flavors; None where it is not known.
        releasing: see `Line`.
        without_node: see `Line`.
        outside: what pods hold that no queue admitted, on all nodes; None where it is not known.
        asked: what waiting Workloads ask for, as far as that may be read.
        unread: how many Workloads wait of which that may not be read.
    """

    resource: str
    nominal: int
    used: int
    exists: int | None
    releasing: int | None
    without_node: int
    outside: int | None
    asked: int
    unread: int


def total(use: Use, resource: str) -> Total:
    """Return the sums of a resource, as `kubectl gpu top` and the dashboard show them."""
    lines = [x for queue in use.queues for x in queue.lines if x.resource == resource]
    nominal = 0
    for line in _top_lines(use):
        nominal = amount.add(nominal, line.nominal if line.resource == resource else 0)
    real = [
        line.real for flavor in use.flavors for line in flavor.lines if line.resource == resource
    ]
    requested, unread = asked_for((queue.pending for queue in use.queues), resource)
    return Total(
        resource=resource,
        nominal=nominal,
        used=sum(line.used for line in lines),
        exists=sum_of_known(real),
        releasing=sum_of_known(line.releasing for line in lines),
        without_node=sum(line.without_node for line in lines),
        outside=None if use.outside is None else use.outside.get(resource, 0),
        asked=requested,
        unread=unread,
    )


def sum_of_known(amounts: Iterable[int | None]) -> int | None:
    """Return the sum; None where a part of it is not known."""
    every = list(amounts)
    return None if None in every else sum(each or 0 for each in every)


def _top_lines(use: Use) -> Iterator[Line]:
    """Yield the quota of what has nothing above it here; all other quota is part of it."""
    shown = {cohort.name for cohort in use.cohorts}
    for cohort in use.cohorts:
        if cohort.parent not in shown:
            yield from cohort.lines
    for queue in use.queues:
        if queue.cohort not in shown:
            yield from queue.lines


def asked_for(waiting: Iterable[Waiting], resource: str) -> tuple[int, int]:
    """Return what waiting Workloads ask for, and how many wait of which it may not be read."""
    every = list(waiting)
    return (
        sum((each.resources or {}).get(resource, 0) for each in every),
        sum(each.workloads for each in every if each.resources is None),
    )


def resources_of(use: Use) -> list[str]:
    """Return the resources that ClusterQueues and Cohorts have, GPUs first."""
    names_ = {line.resource for queue in use.queues for line in queue.lines}
    names_ |= {line.resource for cohort in use.cohorts for line in cohort.lines}
    names_ |= {line.resource for flavor in use.flavors for line in flavor.lines}
    return sorted(names_, key=order_of)


def _knows_pods(read: Read) -> bool:
    return all(cluster.is_whole(read.objects.missing, kind) for kind in ("Workload", "Pod"))


def is_gpu(resource: str) -> bool:
    """Return whether nodes with GPUs decide how much of a resource exists."""
    return resources.is_device(resource) or resources.is_virtual(resource)


def order_of(resource: str) -> tuple[bool, str]:
    """Return what sorts resources: GPUs first."""
    return not is_gpu(resource), resource


def asks(view: Workload, value: model.Workload | None) -> dict[str, int]:
    """Return what a Workload asks for, by resource.

    The controller says it while the Workload waits; else it is what the pod templates say, before
    resource transformations.
    """
    amounts: dict[str, int] = {}
    for request in view.status.resource_requests or ():
        for resource, text in (request.get("resources") or {}).items():
            amounts[resource] = amounts.get(resource, 0) + values.amount_or_zero(resource, text)
    if amounts or value is None:
        return amounts
    for pod_set in value.pod_sets:
        for resource, each in pod_set.requests.items():
            amounts[resource] = amounts.get(resource, 0) + each * pod_set.effective_count
    return amounts


class _Waiting:
    """Who waits where, and for what."""

    def __init__(self, read: Read) -> None:
        self._resources: dict[str, dict[str, int]] = {}
        self._of_local: dict[tuple[str, str], dict[str, int]] = {}
        self._knows = cluster.knows_waiting(read.objects.missing)
        self._listed = {key.namespace for key in read.values} if not self._knows else None
        for key, value in read.values.items():
            if not value.wants_quota:
                continue
            local = value.queue.namespace, value.queue.name
            queue = read.cluster_queue_of(*local)
            for resource, n in asks(read.workloads[key], value).items():
                for sums in (
                    self._resources.setdefault(queue, {}),
                    self._of_local.setdefault(local, {}),
                ):
                    sums[resource] = sums.get(resource, 0) + n

    def of_queue(self, view_pending: int | None, name: str) -> Waiting:
        resources = self._resources.get(name, {}) if self._knows else None
        return Waiting(workloads=view_pending or 0, resources=resources)

    def of_local(self, view: LocalQueue) -> Waiting:
        key = view.metadata.namespace, view.metadata.name
        pending = view.status.pending_workloads or 0
        is_seen = self._listed is None or key[0] in self._listed or not pending
        resources = self._of_local.get(key, {}) if is_seen else None
        return Waiting(workloads=pending, resources=resources)

    def of_cohort(self, queues: Iterable[QueueUse]) -> Waiting:
        below = tuple(queues)
        if not self._knows:
            return Waiting(workloads=sum(queue.pending.workloads for queue in below))
        sums: dict[str, int] = {}
        for queue in below:
            for resource, n in (queue.pending.resources or {}).items():
                sums[resource] = sums.get(resource, 0) + n
        return Waiting(workloads=sum(queue.pending.workloads for queue in below), resources=sums)


_Pairs = Mapping[str, Mapping[FlavorResource, int]]


def _releasing(read: Read) -> _Pairs:
    """What is about to be free, by ClusterQueue.

    Pods of which no Workload holds the quota any more are charged one by one; those of them that
    are being deleted count as far as the ClusterQueue holds more than its Workloads say.
    """
    releasing: dict[str, dict[FlavorResource, int]] = {}
    beyond = {name: dict(node.usage) for name, node in read.forest.queues.items()}
    for key, workload in read.holding.items():
        left = beyond.get(workload.cluster_queue, {})
        sums = releasing.setdefault(workload.cluster_queue, {})
        leaves = read.is_releasing(key)
        for pair, value in workload.usage.items():
            if not workload.surges:
                left[pair] = left.get(pair, 0) - value
            if leaves:
                sums[pair] = sums.get(pair, 0) + value
    for queue, resource, value in _leaving_alone(read):
        sums, left = releasing.setdefault(queue, {}), beyond.get(names.ClusterQueueName(queue), {})
        rest = value
        for pair in sorted(pair for pair in left if pair.resource == resource):
            taken = min(rest, max(0, left[pair]))
            left[pair] -= taken
            rest -= taken
            sums[pair] = sums.get(pair, 0) + taken
    return releasing


def _leaving_alone(read: Read) -> Iterable[tuple[str, str, int]]:
    for key, pods_of_workload in read.pods_of.items():
        for pod in pods_of_workload if key not in read.holding else ():
            queue = pod.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL)
            if queue and pod.metadata.deletion_timestamp:
                for resource, value in pods.gpus_of(pod.spec).items():
                    yield queue, resource, value


def _queue(read: Read, node: QueueNode, releasing: _Pairs | None, waiting: _Waiting) -> QueueUse:
    view = read.queues[node.name]
    active = next((c for c in view.status.conditions or () if c.type == conditions.ACTIVE), None)
    is_active = active is not None and active.status == "True"
    leaving = None if releasing is None else releasing.get(node.name, {})
    unbound = queue_status.without_node(view.status.without_node)
    pairs = {
        FlavorResource(flavor.name, resource): None
        for group in node.spec.resource_groups
        for flavor in group.flavors
        for resource in flavor.resources
    }
    pairs |= dict.fromkeys(sorted(pair for pair, n in node.usage.items() if n))
    pairs |= dict.fromkeys(sorted(node.surge_usage))
    return QueueUse(
        name=node.name,
        cohort=node.spec.cohort or "",
        active=is_active,
        message="" if is_active else _why_inactive(active),
        lines=tuple(_line(read, node, pair, leaving, unbound) for pair in pairs),
        pending=waiting.of_queue(view.status.pending_workloads, node.name),
        reserving=view.status.reserving_workloads or 0,
        admitted=view.status.admitted_workloads or 0,
    )


def _why_inactive(active: views.Condition | None) -> str:
    return active.message if active is not None else "the controller has not looked at it yet"


def _line(
    read: Read,
    node: QueueNode,
    pair: FlavorResource,
    leaving: Mapping[FlavorResource, int] | None,
    unbound: Mapping[FlavorResource, StatedWithoutNode],
) -> Line:
    nominal, used = quota.nominal(node, pair), node.usage.get(pair, 0)
    surge = node.surge_usage.get(pair, 0)
    without = unbound.get(pair)
    is_known = (node.name, pair) not in read.uncounted
    return Line(
        flavor=pair.flavor,
        resource=pair.resource,
        nominal=nominal,
        used=used + surge,
        borrowed=_borrowed(used, nominal, has_parent=node.parent is not None),
        lent=_lent(node, pair, nominal, used),
        releasing=None if leaving is None else leaving.get(pair, 0),
        without_node=0 if without is None else without.amount,
        in_force=quota.nominal(read.admitting.queues[node.name], pair) if is_known else None,
        surge=surge,
    )


def _lent(node: QuotaNode, pair: FlavorResource, nominal: int, used: int) -> int:
    """The part of the own unused quota that others use."""
    return 0 if node.parent is None else _unavailable(node, pair, nominal, used)


def _unavailable(node: QuotaNode, pair: FlavorResource, nominal: int, used: int = 0) -> int:
    """The part of a quota that is not used by its owner and is not there for anybody else."""
    if nominal == amount.UNLIMITED:
        return 0
    return max(0, nominal - used - max(0, quota.available(node, pair)))


def _cohort(node: CohortNode, queues: tuple[QueueUse, ...], waiting: _Waiting) -> CohortUse:
    within = members(node)
    names_ = {node.name for node in within if isinstance(node, QueueNode)}
    below = [queue for queue in queues if queue.name in names_]
    sums: dict[FlavorResource, list[int]] = {}
    for member in within:
        for pair, own_quota in member.quotas.items() if isinstance(member, CohortNode) else ():
            sums_of_pair = sums.setdefault(pair, [0, 0, 0, 0])
            sums_of_pair[0] = amount.add(sums_of_pair[0], own_quota.nominal)
    for queue in below:
        for line in queue.lines:
            sums_of_pair = sums.setdefault(
                FlavorResource(FlavorName(line.flavor), ResourceName(line.resource)), [0, 0, 0, 0]
            )
            sums_of_pair[0] = amount.add(sums_of_pair[0], line.nominal)
            sums_of_pair[1] += line.used
            sums_of_pair[2] += line.releasing or 0
            sums_of_pair[3] += line.without_node
    is_known = all(line.releasing is not None for queue in below for line in queue.lines)
    return CohortUse(
        name=node.name,
        parent=node.declared.name if node.declared is not None else "",
        lines=tuple(
            _cohort_line(node, pair, nominal, used, releasing if is_known else None, unbound)
            for pair, (nominal, used, releasing, unbound) in sorted(sums.items())
        ),
        own_lines=tuple(
            Line(
                flavor=pair.flavor,
                resource=pair.resource,
                nominal=own_quota.nominal,
                lent=_unavailable(node, pair, own_quota.nominal),
            )
            for pair, own_quota in sorted(node.quotas.items())
            if own_quota.nominal
        ),
        pending=waiting.of_cohort(below),
    )


def _cohort_line(
    node: CohortNode,
    pair: FlavorResource,
    nominal: int,
    used: int,
    releasing: int | None,
    unbound: int,
) -> Line:
    subtree_quota, usage = node.subtree.get(pair, 0), node.usage.get(pair, 0)
    return Line(
        flavor=pair.flavor,
        resource=pair.resource,
        nominal=nominal,
        used=used,
        borrowed=max(0, usage - subtree_quota) if node.parent is not None else 0,
        lent=_lent(node, pair, subtree_quota, usage),
        releasing=releasing,
        without_node=unbound,
    )


def _flavors(
    read: Read, queues: tuple[QueueUse, ...], parts: Sequence[NodeGpus]
) -> tuple[FlavorUse, ...]:
    cohort_quotas = (
        (pair, quotas.nominal)
        for name in sorted(read.forest.cohorts)
        for pair, quotas in read.forest.cohorts[name].quotas.items()
    )
    sums = _flavor_sums(
        (flavor.metadata.name for flavor in read.objects.flavors), cohort_quotas, queues
    )
    is_known = all(line.releasing is not None for queue in queues for line in queue.lines)
    selecting = {
        flavor.metadata.name: resource_flavor.scheduling_value(flavor)
        for flavor in read.objects.flavors
    }
    return tuple(
        _flavor(
            name,
            sums[name],
            selected(parts, selecting[name]) if parts and name in selecting else None,
            knows_releasing=is_known,
        )
        for name in sorted(sums)
    )


def _outside(read: Read) -> dict[str, dict[str, int]] | None:
    """Return the devices that pods hold which no queue admitted, by node."""
    if not _knows_pods(read):
        return None
    by_node: dict[str, dict[str, int]] = {}
    for pod in read.objects.pods:
        if not read.is_admitted(pod):
            sums = by_node.setdefault(pod.spec.node_name, {})
            for resource, n in pods.held_gpus(pod).items():
                sums[resource] = sums.get(resource, 0) + n
    return by_node


def _held_outside(parts: Iterable[NodeGpus]) -> dict[str, int] | None:
    """Return the sums of what pods hold that no queue admitted."""
    sums: dict[str, int] | None = None
    for node in parts:
        if node.outside is None:
            return None
        sums = {} if sums is None else sums
        for resource, n in node.outside.items():
            sums[resource] = sums.get(resource, 0) + n
    return sums


def _flavor_sums(
    flavors: Iterable[str],
    of_cohorts: Iterable[tuple[FlavorResource, int]],
    queues: Iterable[QueueUse],
) -> dict[str, dict[str, list[int]]]:
    """Return nominal quota, use and what is about to be free, by flavor and resource."""
    sums: dict[str, dict[str, list[int]]] = {name: {} for name in flavors}
    for pair, nominal in of_cohorts:
        sums_of_resource = sums.setdefault(pair.flavor, {}).setdefault(pair.resource, [0, 0, 0, 0])
        sums_of_resource[0] = amount.add(sums_of_resource[0], nominal)
    for queue in queues:
        for line in queue.lines:
            sums_of_resource = sums.setdefault(line.flavor, {}).setdefault(
                line.resource, [0, 0, 0, 0]
            )
            sums_of_resource[0] = amount.add(sums_of_resource[0], line.nominal)
            sums_of_resource[1] += line.used
            sums_of_resource[2] += line.releasing or 0
            sums_of_resource[3] += line.without_node
    return sums


def capacities(
    nodes: Iterable[views.Node], outside: Mapping[str, Mapping[str, int]] | None = None
) -> tuple[NodeGpus, ...]:
    """Return what each node has of GPUs, by its labels and what its device plugin offers.

    Args:
        nodes: the nodes.
        outside: devices that pods hold which no queue admitted, by node; None where that is not
            known.
    """
    models, policy = catalogue.load(), HealthPolicy()
    return tuple(_node_gpus(node, models, policy, outside) for node in nodes)


def _node_gpus(
    view: views.Node,
    models: catalogue.Catalogue,
    policy: HealthPolicy,
    outside: Mapping[str, Mapping[str, int]] | None,
) -> NodeGpus:
    facts = nodes.node_facts(view)
    part = capacity.of_node(facts, models, policy)
    worth = {name: value for name, value in costs.virtual(part.worth).items() if value}
    worth_sick = costs.virtual(capacity.worth_of(facts, part.sick, models))
    devices = None if outside is None else outside.get(facts.name, {})
    worth_outside = costs.virtual(capacity.worth_of(facts, devices, models)) if devices else {}
    return NodeGpus(
        name=facts.name,
        labels=facts.labels,
        taints=values.taints(view.spec.taints or ()),
        healthy={**part.units, **worth},
        sick={**part.sick, **{name: value for name, value in worth_sick.items() if value}},
        outside=None
        if devices is None
        else {name: n for name, n in {**devices, **worth_outside}.items() if n},
        physical=part.physical,
        reasons=part.reasons,
        sick_since=nodes.sick_since(view, policy),
    )


def selected(nodes: Iterable[NodeGpus], flavor: model.ResourceFlavor) -> tuple[NodeGpus, ...]:
    """Return the nodes of a flavor that its pods can be on, or could if nothing was wrong there.

    GPUs of a node that is cordoned or not ready are sick.
    """
    tolerations = predicate.tolerated_in(flavor, names.GPU_TAINT_KEY)
    return tuple(
        node
        for node in nodes
        if all(node.labels.get(key) == v for key, v in flavor.node_labels.items())
        and predicate.repelling(_chosen(node.taints), tolerations) is None
    )


def sick_on(of_flavor: Iterable[NodeGpus], resource: str) -> Iterator[SickDevices]:
    """Yield how much of a resource cannot be used, by node."""
    for node in sorted(of_flavor, key=lambda node: node.name):
        if node.sick.get(resource):
            yield SickDevices(node.name, node.sick[resource], node.reasons, node.sick_since)


def _chosen(taints: Iterable[model.Taint]) -> tuple[model.Taint, ...]:
    """Return the taints that somebody gave to a node."""
    return tuple(taint for taint in taints if taint.key not in nodes.STATES)


def _flavor(
    name: str,
    sums: Mapping[str, list[int]],
    of_flavor: tuple[NodeGpus, ...] | None,
    *,
    knows_releasing: bool,
) -> FlavorUse:
    def exists(
        resource: str, amounts_of: Callable[[NodeGpus], Mapping[str, int] | None]
    ) -> int | None:
        if of_flavor is None or not is_gpu(resource):
            return None
        every = (amounts_of(node) for node in of_flavor)
        return sum_of_known(None if each is None else each.get(resource, 0) for each in every)

    gpu_names = {
        name_ for name_, (nominal, used, *_) in sums.items() if is_gpu(name_) and (nominal or used)
    }
    having = [
        node
        for node in of_flavor or ()
        if not gpu_names or any(node.healthy.get(r, 0) + node.sick.get(r, 0) for r in gpu_names)
    ]
    return FlavorUse(
        name=name,
        nodes=None if of_flavor is None else len(having),
        lines=tuple(
            FlavorLine(
                resource=resource,
                nominal=sums[resource][0],
                used=sums[resource][1],
                releasing=sums[resource][2] if knows_releasing else None,
                without_node=sums[resource][3],
                real=exists(resource, lambda node: node.healthy),
                sick=exists(resource, lambda node: node.sick),
                outside=exists(resource, lambda node: node.outside),
                sick_on=tuple(sick_on(of_flavor or (), resource)) if is_gpu(resource) else (),
            )
            for resource in sorted(sums, key=order_of)
        ),
    )


def _local(read: Read, view: LocalQueue, waiting: _Waiting) -> LocalUse:
    admitted = reserved(view.status.flavors_usage)
    nominal = queue_status.nominal(view.status.nominal_quota)
    return LocalUse(
        namespace=view.metadata.namespace,
        name=view.metadata.name,
        cluster_queue=view.spec.cluster_queue,
        lines=tuple(
            LocalLine(
                flavor=pair.flavor,
                resource=pair.resource,
                nominal=None if nominal is None else nominal.get(pair, 0),
                used=n,
                admitted=admitted.get(pair, 0),
            )
            for pair, n in reserved(view.status.flavors_reservation).items()
        ),
        pending=waiting.of_local(view),
        admitted=view.status.admitted_workloads or 0,
        caps=queue_caps.of_local_queue(read, view),
    )


# ------------------------------------------------------------------------------------ as JSON

_OF_LINE: Final = {
    "nominal": "nominal",
    "inForce": "in_force",
    "used": "used",
    "borrowed": "borrowed",
    "lent": "lent",
    "releasing": "releasing",
    "withoutNode": "without_node",
}
"""Members of the JSON of a line, and its attributes."""
_OF_FLAVOR: Final = {
    "nominal": "nominal",
    "used": "used",
    "releasing": "releasing",
    "withoutNode": "without_node",
    "real": "real",
    "sick": "sick",
    "outside": "outside",
}
"""Members of the JSON of a line of a flavor, and its attributes."""


def document(use: Use) -> dict[str, Any]:
    """Return the answer as JSON: quantities as texts, None for what is unlimited or unknown."""
    return {
        "apiVersion": API_VERSION,
        "kind": "QuotaUse",
        "clusterQueues": [
            {
                "name": queue.name,
                "cohort": queue.cohort,
                "active": queue.active,
                "message": queue.message,
                "quota": [_line_document(line) for line in queue.lines],
                "pending": _waiting_document(queue.pending),
                "reservingWorkloads": queue.reserving,
                "admittedWorkloads": queue.admitted,
            }
            for queue in use.queues
        ],
        "cohorts": [
            {
                "name": cohort.name,
                "parent": cohort.parent,
                "quota": [_line_document(line) for line in cohort.lines],
                "ownQuota": [
                    {
                        "flavor": line.flavor,
                        "resource": line.resource,
                        "nominal": amount_text(line.resource, line.nominal),
                        "lent": amount_text(line.resource, line.lent),
                    }
                    for line in cohort.own_lines
                ],
                "pending": _waiting_document(cohort.pending),
            }
            for cohort in use.cohorts
        ],
        "flavors": [
            {
                "name": flavor.name,
                "nodes": flavor.nodes,
                "quota": [
                    {
                        "resource": line.resource,
                        **{
                            part: amount_text(line.resource, getattr(line, attribute))
                            for part, attribute in _OF_FLAVOR.items()
                        },
                        "sickOn": None
                        if line.sick is None
                        else [
                            {
                                "node": on_node.node,
                                "amount": amount_text(line.resource, on_node.amount),
                                "reasons": list(on_node.reasons),
                                "since": on_node.since,
                            }
                            for on_node in line.sick_on
                        ],
                    }
                    for line in flavor.lines
                ],
            }
            for flavor in use.flavors
        ],
        "localQueues": [
            {
                "namespace": local_queue.namespace,
                "name": local_queue.name,
                "clusterQueue": local_queue.cluster_queue,
                "used": [
                    {
                        "flavor": line.flavor,
                        "resource": line.resource,
                        "nominal": amount_text(line.resource, line.nominal),
                        "used": amount_text(line.resource, line.used),
                        "admitted": amount_text(line.resource, line.admitted),
                    }
                    for line in local_queue.lines
                ],
                "pending": _waiting_document(local_queue.pending),
                "admittedWorkloads": local_queue.admitted,
                "caps": [queue_caps.document(cap) for cap in local_queue.caps],
            }
            for local_queue in use.local_queues
        ],
        "outside": None if use.outside is None else amounts_document(use.outside),
        "missing": list(use.missing),
    }


def amount_text(resource: str, value: int | None) -> str | None:
    """Return an amount as a quantity; None where it is unlimited or unknown."""
    if value is None or value == amount.UNLIMITED:
        return None
    return quantity.from_canonical(resource, value)


def gpus_in_words(amounts: Mapping[str, int]) -> str:
    """Return GPUs in words; what they are worth, or other resources, only where there are none."""
    some = {resource: n for resource, n in amounts.items() if n}
    gpus = {resource: n for resource, n in some.items() if is_gpu(resource)}
    devices = {resource: n for resource, n in gpus.items() if not resources.is_virtual(resource)}
    return ", ".join(
        f"{quantity.from_canonical(resource, n)} {resource}"
        for resource, n in sorted((devices or gpus or some).items(), key=lambda item: item[0])
    )


def amounts_document(amounts: Mapping[str, int]) -> dict[str, str | None]:
    """Return amounts by resource as quantities, GPUs first."""
    return {
        resource: amount_text(resource, amounts[resource])
        for resource in sorted(amounts, key=order_of)
    }


def _line_document(line: Line) -> dict[str, Any]:
    return {
        "flavor": line.flavor,
        "resource": line.resource,
        **{
            part: amount_text(line.resource, getattr(line, attribute))
            for part, attribute in _OF_LINE.items()
        },
    }


def _waiting_document(waiting: Waiting) -> dict[str, Any]:
    return {
        "workloads": waiting.workloads,
        "resources": None if waiting.resources is None else amounts_document(waiting.resources),
    }
