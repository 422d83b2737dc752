"""What is charged and what is on nodes, computed a second time from the API, and compared.

Shares with the accounting only what a pod requests and what that costs in a ClusterQueue. It knows
no cache, index or sum of the core: it lists Workloads, bound pods, queues and flavors, and finds
the Workload of a pod by the uid of its owner, not by labels (ADR 0116).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.base import conditions, events, logs, metrics, names, pod_resources, quantity
from admission.base.errors import InvalidValueError
from admission.base.events import Events
from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    KeptCharge,
    OwnerCharge,
    PodCharge,
    ResourceName,
    WorkloadKey,
)
from admission.base.namespaces import MANAGED, ManagedNamespaces
from admission.base.periodic_thread import PeriodicThread
from admission.controller.queries import Counted, Reader
from admission.controller.writing import api_requests
from admission.gpu.catalogue import Catalogue
from admission.kube import resources
from admission.kube.api import Api, every
from admission.kube.errors import KubeError
from admission.objects import bound_pod, gpu_transformation, pods, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import ResourceGroupSpec
from admission.objects.workload import PodTemplate, Workload
from admission.owners import integrations
from admission.owners.integrations import Kinds
from admission.scheduling import transformation
from admission.scheduling.transformation import TransformationRules

Pair = tuple[ClusterQueueName, FlavorResource]
Amounts = Mapping[Pair, int]
AskCore = Callable[[Callable[[Reader], Counted]], Counted]

_BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_LOOKS: Final = 3
_PAUSE_SECONDS: Final = 10.0
"""Between two looks: a write that is under way, or a watch that is behind, is over by then."""
_REPAIR_SECONDS: Final = 3600.0
"""Between two repairs: a difference that remains after reading everything again needs people."""
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_NOTHING: Final[Amounts] = {}
_OF_QUOTA: Final = "charged quota differs from held quota"
_OF_NODES: Final = "what is counted on nodes differs from what pods request there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The objects that the API server lists.

    Attributes:
        workloads: all Workloads.
        pods: bound pods that have not ended.
        nodes: nodes by name.
        queues: ClusterQueues by name.
        flavors: flavors by name.
        unmanaged: names of namespaces whose pods are not charged on their own.
    """

    workloads: tuple[Workload, ...]
    pods: tuple[views.Pod, ...]
    nodes: Mapping[str, views.Node]
    queues: Mapping[str, ClusterQueue]
    flavors: Mapping[str, ResourceFlavor]
    unmanaged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is to be charged.

    Attributes:
        amounts: amounts by the Workload whose pods are charged, or by the pod if it names none.
        doubtful: those of which that cannot be told from what was listed.
        of_pods: under what each bound pod is counted, by the key of its charge.
    """

    amounts: dict[ChargeKey, dict[Pair, int]] = field(default_factory=dict)
    doubtful: set[ChargeKey] = field(default_factory=set)
    of_pods: dict[PodCharge, ChargeKey] = field(default_factory=dict)


# ------------------------------------------------------------------------------- what is charged


def expected(
    listed: Listed,
    catalogue: Catalogue,
    rules: TransformationRules,
    *,
    release_on_deletion: bool = False,
    kinds: Kinds = integrations.DEFAULT,
) -> Expected:
    """Return the charges that follow from the objects of the API server.

    Args:
        listed: what it shows.
        catalogue: of GPU products.
        rules: settings that change what is counted.
        release_on_deletion: whether a pod that is being deleted holds no quota.
        kinds: of owners that are served.
    """
    result = Expected()
    by_owner: dict[str, Workload] = {}
    for workload in listed.workloads:
        _add_reservation(result, workload, kinds)
        owner = workload.metadata.controller()
        # An elastic owner has several, of which those that were replaced hold nothing.
        if owner is not None and (owner.uid not in by_owner or _is_charged(workload, kinds)):
            by_owner[owner.uid] = workload
    running: dict[tuple[ChargeKey, str], list[views.Pod]] = {}
    workloads: dict[ChargeKey, Workload] = {
        _key(workload): workload for workload in listed.workloads
    }
    for pod in listed.pods:
        if pod.metadata.namespace in listed.unmanaged:
            continue
        owning = _workload_of(pod, by_owner)
        if owning is None and not pod.metadata.label(names.PODSET_LABEL):
            continue  # no queue has admitted it
        key = _key(owning) if owning is not None else _named(pod)
        result.of_pods[_pod_key(pod)] = key
        is_held = _is_held(pod, listed.nodes, release_on_deletion=release_on_deletion)
        if is_held is None:
            result.doubtful.add(key)
        if is_held:
            running.setdefault((key, pod.metadata.label(names.PODSET_LABEL)), []).append(pod)
    for (key, pod_set), held_pods in running.items():
        workload = workloads.get(key, Workload())
        beyond = len(held_pods) - _charged_pods(workload, pod_set, kinds)
        if beyond > 0:
            _add_pods(result, key, held_pods, beyond, listed, catalogue, rules)
        else:
            _add_beyond(result, workload, pod_set, held_pods, listed, rules)
    return result


def _add_reservation(result: Expected, workload: Workload, kinds: Kinds) -> None:
    key = _key(workload)
    if any(pod_set.template.spec.resource_claims for pod_set in workload.spec.pod_sets or ()):
        result.doubtful.add(key)  # what claims ask for, and who shares them, is not listed here
        return
    admission = workload.status.admission
    if admission is None or not _is_charged(workload, kinds):
        return
    queue = ClusterQueueName(admission.cluster_queue)
    left_of = _left(workload)
    for assigned in admission.pod_set_assignments or ():
        count = assigned.count or 0
        left = min(left_of.get(assigned.name, count), count)
        for resource, flavor in (assigned.flavors or {}).items():
            text = str((assigned.resource_usage or {}).get(resource, 0))
            try:
                total = quantity.to_canonical(resource, text)
            except InvalidValueError:
                result.doubtful.add(key)
                continue
            used = total if left == count else total // max(count, 1) * left
            _add(result, key, queue, flavor, resource, used)


def _is_charged(workload: Workload, kinds: Kinds) -> bool:
    status = workload.status
    holds = status.is_true(conditions.QUOTA_RESERVED) and not status.is_true(conditions.FINISHED)
    return holds and (workload.spec.active is not False or kinds.owns(workload))


def _left(workload: Workload) -> dict[str, int]:
    """Return how many pods of each pod set still need quota, by its name."""
    reclaimed = {
        reclaimable.name: reclaimable.count
        for reclaimable in workload.status.reclaimable_pods or ()
    }
    return {
        pod_set.name: max(0, pod_set.count - reclaimed.get(pod_set.name, 0))
        for pod_set in workload.spec.pod_sets or ()
    }


def _charged_pods(workload: Workload, pod_set: str, kinds: Kinds) -> int:
    """Return the number of pods of a pod set for which a Workload is charged."""
    admission = workload.status.admission
    if admission is None or not _is_charged(workload, kinds):
        return 0
    left = _left(workload)
    return sum(
        min(left.get(assignment.name, assignment.count or 0), assignment.count or 0)
        for assignment in admission.pod_set_assignments or ()
        if not pod_set or assignment.name == pod_set
    )


def _add_pods(
    result: Expected,
    key: ChargeKey,
    held_pods: list[views.Pod],
    beyond: int,
    listed: Listed,
    catalogue: Catalogue,
    rules: TransformationRules,
) -> None:
    """Add pods that run beyond those for which their Workload is charged."""
    requests_of_pods = [tuple(sorted(_requests(pod, rules).items())) for pod in held_pods]
    queue = listed.queues.get(held_pods[0].metadata.label(names.CLUSTER_QUEUE_NAME_LABEL))
    if (
        queue is None
        or len(set(requests_of_pods)) > 1
        or any(pod.spec.resource_claims for pod in held_pods)
    ):
        result.doubtful.add(key)  # which of them are charged on their own is not told by anybody
        return
    pricing = gpu_transformation.pricing(queue, listed.flavors, catalogue)
    amounts = dict(requests_of_pods[0])
    bill = None if pricing is None else pricing.bill(amounts)
    requests = amounts if bill is None else bill.requests
    for group in queue.spec.resource_groups or ():
        covered = [
            ResourceName(r) for r in group.covered_resources if requests.get(ResourceName(r))
        ]
        flavor = _flavor(held_pods[0], group, listed) if covered else ""
        for resource in covered:
            each = requests[resource]
            if bill is not None and bill.quote is not None:
                in_flavor = bill.quote.by_flavor.get(FlavorName(flavor), {})
                each = in_flavor.get(resource, each)
            _add(
                result, key, ClusterQueueName(queue.metadata.name), flavor, resource, each * beyond
            )


def _add_beyond(
    result: Expected,
    workload: Workload,
    pod_set: str,
    held_pods: list[views.Pod],
    listed: Listed,
    rules: TransformationRules,
) -> None:
    """Add what pods ask for beyond their part of the reservation that covers them.

    More devices are refused by a review, and are not charged.
    """
    admission, pod_sets = workload.status.admission, workload.spec.pod_sets or ()
    template = next((pod_set_.template for pod_set_ in pod_sets if pod_set_.name == pod_set), None)
    assigned = next(
        (
            assignment
            for assignment in (admission.pod_set_assignments if admission else None) or ()
            if assignment.name == pod_set and assignment.count
        ),
        None,
    )
    if admission is None or template is None or assigned is None:
        return
    covered = dict(_requests(template, rules))
    for resource, total in (assigned.resource_usage or {}).items():
        amount = quantity.to_canonical(resource, str(total))
        covered[ResourceName(resource)] = amount // max(assigned.count or 0, 1)
    queue = listed.queues.get(held_pods[0].metadata.label(names.CLUSTER_QUEUE_NAME_LABEL))
    for pod in held_pods:
        for group in () if queue is None else queue.spec.resource_groups or ():
            for resource in map(ResourceName, group.covered_resources):
                remainder = _requests(pod, rules).get(resource, 0) - covered.get(resource, 0)
                if remainder > 0 and "/" not in resource and queue is not None:
                    name, flavor = queue.metadata.name, _flavor(pod, group, listed)
                    _add(
                        result, _key(workload), ClusterQueueName(name), flavor, resource, remainder
                    )


def _requests(pod: views.Pod | PodTemplate, rules: TransformationRules) -> dict[ResourceName, int]:
    read = pods.read(pod.spec, "spec", pods.nanos)
    return transformation.counted(pod_resources.requests(read), rules)


def _flavor(pod: views.Pod, group: ResourceGroupSpec, listed: Listed) -> str:
    """Return the flavor of a resource group on which a pod runs."""
    node = listed.nodes.get(pod.spec.node_name)
    selected = pod.spec.node_selector or {}
    labels = {**((node.metadata.labels or {}) if node else {}), **selected}
    offered = [quotas.name for quotas in group.flavors]
    for present in (selected, labels):
        for name in offered:
            flavor = listed.flavors.get(name)
            node_labels = {} if flavor is None else flavor.spec.node_labels or {}
            if node_labels and all(present.get(k) == v for k, v in node_labels.items()):
                return name
    plain = (n for n in offered if n in listed.flavors and not listed.flavors[n].spec.node_labels)
    return next(plain, offered[0] if offered else "")


def _add(
    result: Expected,
    key: ChargeKey,
    queue: ClusterQueueName,
    flavor: str,
    resource: str,
    amount: int,
) -> None:
    pair = (queue, FlavorResource(FlavorName(flavor), ResourceName(resource)))
    amounts = result.amounts.setdefault(key, {})
    amounts[pair] = amounts.get(pair, 0) + amount


# ------------------------------------------------------------------------------------- what runs


def _workload_of(pod: views.Pod, by_owner: Mapping[str, Workload]) -> Workload | None:
    """Return the Workload that a pod, or its controller, controls."""
    owner_key = by_owner.get(pod.metadata.uid)
    controller = pod.metadata.controller()
    if owner_key is not None or controller is None:
        return owner_key
    is_made = bool(pod.metadata.label(names.PODSET_LABEL))  # else it goes through a queue itself
    return by_owner.get(controller.uid) if is_made else None


def _named(pod: views.Pod) -> ChargeKey:
    name = pod.metadata.annotation(names.WORKLOAD_ANNOTATION)
    return WorkloadKey(pod.metadata.namespace, name) if name else _pod_key(pod)


def _is_held(
    pod: views.Pod, nodes: Mapping[str, views.Node], *, release_on_deletion: bool
) -> bool | None:
    """Return whether a bound pod may use what it got; None where only time tells."""
    node = nodes.get(pod.spec.node_name)
    if node is None or any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints or ()):
        return False
    if not pod.metadata.deletion_timestamp:
        return True
    if release_on_deletion:
        return False
    ready = (condition for condition in node.status.conditions or () if condition.type == "Ready")
    return None if any(condition.status != "True" for condition in ready) else True


def _key(view: views.Object) -> WorkloadKey:
    return WorkloadKey(view.metadata.namespace, view.metadata.name)


def _pod_key(pod: views.Pod) -> PodCharge:
    """Return the key under which the core charges a pod on its own."""
    return PodCharge(pod.metadata.namespace, pod.metadata.name)


# ------------------------------------------------------------------------------------ comparing


def differences(
    should: Expected, before: Counted, after: Counted
) -> dict[ChargeKey, dict[Pair, int]]:
    """Return the amounts that are charged for each Workload by mistake.

    Left out is what changed while the API server was listed, and what is under way.

    Args:
        should: what is to be charged.
        before: what the core counted before the lists.
        after: what it counted after them.
    """
    drifts: dict[ChargeKey, dict[Pair, int]] = {}
    moving = set(should.doubtful)
    for key in before.workloads.keys() | after.workloads.keys():
        group = should.of_pods.get(key, key) if isinstance(key, PodCharge) else key
        workload = after.workloads.get(key)
        unlisted = isinstance(key, PodCharge) and key not in should.of_pods
        if isinstance(key, KeptCharge):
            moving.add(key)
        if isinstance(key, OwnerCharge):  # for pods that are not there yet
            moving |= {key, WorkloadKey(key.namespace, key.name)}
        if before.workloads.get(key) != workload or unlisted or key in after.unsettled:
            moving.add(group)
        elif workload is not None:
            amounts = drifts.setdefault(group, {})
            for fr, value in workload.usage.items():
                pair = (workload.cluster_queue, fr)
                amounts[pair] = amounts.get(pair, 0) + value
    moving |= before.unsettled | after.unsettled
    result: dict[ChargeKey, dict[Pair, int]] = {}
    for group in drifts.keys() | should.amounts.keys():
        if group in moving:
            continue
        charged, due = drifts.get(group, _NOTHING), should.amounts.get(group, _NOTHING)
        drift = {pair: charged.get(pair, 0) - due.get(pair, 0) for pair in {*charged, *due}}
        drift = {pair: value for pair, value in drift.items() if value}
        if drift:
            result[group] = drift
    return result


def in_sums(counted: Counted) -> dict[Pair, int]:
    """Return the amounts by which the sums in the quota trees exceed the single charges."""
    drift: dict[Pair, int] = {
        (queue, fr): value for queue, sums in counted.sums.items() for fr, value in sums.items()
    }
    for workload in counted.workloads.values():
        if workload.cluster_queue in counted.sums:
            for fr, value in workload.usage.items():
                pair = (workload.cluster_queue, fr)
                drift[pair] = drift.get(pair, 0) - value
    return drift


def on_nodes(listed: Listed) -> dict[str, dict[str, int]]:
    """Return what bound pods that have not ended request on each node, by resource."""
    by_node: dict[str, dict[str, int]] = {}
    for pod in listed.pods:
        on_node = by_node.setdefault(pod.spec.node_name, {})
        for resource, amount in bound_pod.requests_of(pod.spec).items():
            on_node[resource] = on_node.get(resource, 0) + amount
    return by_node


def node_differences(
    should: Mapping[str, Mapping[str, int]], before: Counted, after: Counted
) -> dict[str, dict[str, int]]:
    """Return the amounts that are counted on each node beyond what pods request there.

    Left out are nodes on which something changed while the API server was listed.

    Args:
        should: what pods request on each node.
        before: what the core counted before the lists.
        after: what it counted after them.
    """
    result: dict[str, dict[str, int]] = {}
    for name in should.keys() | after.on_nodes.keys():
        counted = after.on_nodes.get(name, {})
        if before.on_nodes.get(name, {}) != counted:
            continue
        due = should.get(name, {})
        drift = {r: counted.get(r, 0) - due.get(r, 0) for r in counted.keys() | due.keys()}
        drift = {resource: value for resource, value in drift.items() if value}
        if drift:
            result[name] = drift
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One comparison.

    Attributes:
        in_sums: see `in_sums`.
        workloads: see `differences`.
        nodes: see `node_differences`.
        listed: what was compared.
    """

    in_sums: dict[Pair, int]
    workloads: dict[ChargeKey, dict[Pair, int]]
    nodes: dict[str, dict[str, int]]
    listed: Listed


class Auditor:
    """Compares at intervals, in a thread of its own, and makes the core list again if needed.

    Attributes:
        node_drift: what the last audit found counted on nodes beyond what pods request there.
    """

    def __init__(
        self,
        api: Api,
        ask: AskCore,
        repair: Callable[[str], object],
        events: Events,
        catalogue: Catalogue,
        rules: TransformationRules,
        *,
        is_current: Callable[[], bool],
        wait: Callable[[float], bool],
        monotonic: Callable[[], float],
        interval_seconds: float,
        release_on_deletion: bool,
        kinds: Kinds = integrations.DEFAULT,
        namespaces: ManagedNamespaces = MANAGED,
    ) -> None:
        """Prepare the thread; `start` begins.

        Args:
            api: the API server.
            ask: has the core answer.
            repair: drops all that the core knows, and has it list anew; is told why.
            events: takes events about ClusterQueues.
            catalogue: of GPU products.
            rules: settings that change what is counted.
            is_current: whether this process leads, and what it knows can be up to date.
            wait: waits for some seconds; true if the process is to stop.
            monotonic: time that never goes back.
            interval_seconds: between two audits.
            release_on_deletion: see `expected`.
            kinds: of owners that are served.
            namespaces: those that are managed.
        """
        self._api = api
        self._ask = ask
        self._repair = repair
        self._events = events
        self._catalogue = catalogue
        self._rules = rules
        self._is_current = is_current
        self._wait = wait
        self._monotonic = monotonic
        self._interval = interval_seconds
        self._release_on_deletion = release_on_deletion
        self._kinds, self._namespaces = kinds, namespaces
        self._repaired_at: float | None = None
        self.node_drift: Mapping[str, Mapping[str, int]] = {}
        self._log = logs.get("audit")
        self._rounds = PeriodicThread("audit", self._round, self._failed)

    def start(self) -> None:
        """Begin after the first interval."""
        self._rounds.start()

    def stop(self) -> None:
        """End it; do not wait for a request that is under way."""
        self._rounds.stop()

    def _round(self) -> float | None:
        if self._wait(self._interval):
            return None
        try:
            self.audit()
        except (KubeError, TimeoutError) as error:
            self._log.info("quota was not audited", error=str(error))
        return 0.0

    def _failed(self, error: Exception) -> float:
        self._log.error("quota was not audited", exc_info=error)
        return self._interval

    def audit(self) -> dict[Pair, int]:
        """Return the amounts by which charged quota exceeds held quota, and have them corrected.

        What differs is looked at again, three times in all: only what differs each time by the
        same amount counts. Nothing does where the process is to stop before that is known.

        Raises:
            KubeError: the API server could not be listed.
            TimeoutError: the core did not answer in time, or is not up to date.
        """
        look = self._look()
        lasting, nodes = look.workloads, look.nodes
        for _ in range(_LOOKS - 1):
            if not (lasting or nodes):
                break
            if self._wait(_PAUSE_SECONDS):
                return {}
            look = self._look()
            lasting = {k: drift for k, drift in look.workloads.items() if lasting.get(k) == drift}
            nodes = {name: drift for name, drift in look.nodes.items() if nodes.get(name) == drift}
        drift, queues = look.in_sums, look.listed.queues
        for drifts in lasting.values():
            for pair, value in drifts.items():
                drift[pair] = drift.get(pair, 0) + value
        self._publish(drift, queues, nodes)
        drift_shown = {pair: value for pair, value in sorted(drift.items()) if value}
        now = self._monotonic()
        mends = self._repaired_at is None or now - self._repaired_at >= _REPAIR_SECONDS
        if drift_shown:
            keys = sorted(f"{key.namespace}/{key.title()}" for key in lasting)
            self._tell(drift_shown, keys, queues, mends=mends)
        if nodes:
            self._tell_nodes(nodes, look.listed.nodes, mends=mends)
        self.node_drift = nodes
        if mends and (drift_shown or nodes):
            self._repaired_at = now
            self._repair(_OF_QUOTA if drift_shown else _OF_NODES)
        return drift_shown

    def _look(self) -> _Look:
        before = self._ask(lambda core: core.counted())
        listed = self._list()
        after = self._ask(lambda core: core.counted())
        if not self._is_current():
            raise TimeoutError("this process does not lead, or its watches are behind")
        should = expected(
            listed,
            self._catalogue,
            self._rules,
            release_on_deletion=self._release_on_deletion,
            kinds=self._kinds,
        )
        return _Look(
            in_sums=in_sums(after),
            workloads=differences(should, before, after),
            nodes=node_differences(on_nodes(listed), before, after),
            listed=listed,
        )

    def _list(self) -> Listed:
        api = self._api
        queues = every(api, resources.CLUSTER_QUEUES, into=ClusterQueue)
        flavors = every(api, resources.RESOURCE_FLAVORS, into=ResourceFlavor)
        nodes = every(api, resources.NODES, into=views.Node)
        namespaces = every(api, resources.NAMESPACES, into=views.Namespace)
        return Listed(
            workloads=tuple(every(api, resources.WORKLOADS, into=Workload)),
            pods=tuple(every(api, resources.PODS, field_selector=_BOUND, into=views.Pod)),
            nodes={node.metadata.name: node for node in nodes},
            queues={queue.metadata.name: queue for queue in queues},
            flavors={flavor.metadata.name: flavor for flavor in flavors},
            unmanaged=frozenset(
                namespace.metadata.name
                for namespace in namespaces
                if self._namespaces.leave_out(
                    namespace.metadata.name, namespace.metadata.labels or {}
                )
            ),
        )

    def _publish(
        self, drift: Amounts, queues: Iterable[str], nodes: Mapping[str, Mapping[str, int]]
    ) -> None:
        metrics.NODE_LEDGER_DRIFT.clear()
        for name, drift_of_node in nodes.items():
            for resource, value in drift_of_node.items():
                metrics.NODE_LEDGER_DRIFT.labels(name, resource).set(value)
        metrics.LEDGER_DRIFT.clear()
        for (queue, fr), value in drift.items():
            if queue in queues:
                metrics.LEDGER_DRIFT.labels(queue, fr.flavor, fr.resource).set(value)

    def _tell(
        self,
        drift: Mapping[Pair, int],
        workloads: list[str],
        queues: Mapping[str, ClusterQueue],
        *,
        mends: bool,
    ) -> None:
        for (queue, fr), value in drift.items():
            text = quantity.from_canonical(fr.resource, abs(value))
            subject = f"{text} {fr.resource} of flavor {fr.flavor}"
            self._log.error(
                _OF_QUOTA, cluster_queue=queue, amount=value,
                flavor=fr.flavor, resource=fr.resource, workloads=workloads[:5],
            )  # fmt: skip
            view = queues.get(queue)
            if view is not None:
                regarding = api_requests.reference(resources.CLUSTER_QUEUES, view.metadata)
                event = events.ledger_drift(subject, is_more=value > 0, mends=mends)
                self._events.event(regarding, event)

    def _tell_nodes(
        self,
        drift: Mapping[str, Mapping[str, int]],
        nodes: Mapping[str, views.Node],
        *,
        mends: bool,
    ) -> None:
        for name, amounts in sorted(drift.items()):
            view = nodes.get(name)
            for resource, value in sorted(amounts.items()):
                self._log.error(_OF_NODES, node=name, amount=value, resource=resource)
                if view is not None:
                    text = quantity.from_canonical(ResourceName(resource), abs(value))
                    regarding = api_requests.reference(resources.NODES, view.metadata)
                    event = events.node_ledger_drift(
                        f"{text} {resource}", is_more=value > 0, mends=mends
                    )
                    self._events.event(regarding, event)
