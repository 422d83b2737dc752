"""What must hold after every fault, judged from the API alone and by arithmetic of its own.

Safety may never be broken, not for a moment: no more quota is given than there is, no pod runs
without it. The rest must come true within seconds once the faults are over.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from admission.base import conditions, names, quantity
from admission.base.clock import SystemClock
from tests.controlplane import waiting
from tests.controlplane.rest import Rest

Json = dict[str, Any]
Pair = tuple[str, str]
"""Flavor and resource."""

_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_COHORT_DEPTH: Final = 50


@dataclass(frozen=True, kw_only=True)
class World:
    """All objects of a cluster that matter, as read at about the same time.

    Pods are read before Workloads: whatever released a pod in it is seen on its Workload.
    """

    cluster_queues: Mapping[str, Json]
    cohorts: Mapping[str, Json]
    local_queues: Mapping[Pair, Json]
    workloads: tuple[Json, ...]
    pods: tuple[Json, ...]
    now: datetime
    nodes: tuple[Json, ...] = ()
    bound: tuple[Json, ...] = ()
    """All pods on nodes, whoever made them."""
    flavors: Mapping[str, Json] = field(default_factory=dict)

    def holding(self) -> Iterator[Json]:
        """Workloads that count: quota reserved, not finished."""
        for workload in self.workloads:
            if has(workload, "QuotaReserved") and not has(workload, "Finished"):
                yield workload

    def of_pod(self, pod: Json) -> list[Json]:
        """The Workloads that a pod controls."""
        uid = pod["metadata"]["uid"]
        return [one for one in self.workloads if owner_uid(one) == uid]


def read(api: Rest) -> World:
    """Reads everything."""

    def items(path: str) -> list[Json]:
        return list(api.get(path)["items"])

    def by_name(plural: str) -> dict[str, Json]:
        return {one["metadata"]["name"]: one for one in items(f"{_KUEUE}/{plural}")}

    selector = f"labelSelector={names.MANAGED_LABEL}%3D{names.MANAGED_VALUE}"
    pods = tuple(items(f"/api/v1/pods?{selector}"))
    return World(
        cluster_queues=by_name("clusterqueues"),
        cohorts=by_name("cohorts"),
        local_queues={_key(one): one for one in items(f"{_KUEUE}/localqueues")},
        workloads=tuple(items(f"{_KUEUE}/workloads")),
        pods=pods,
        now=SystemClock().now(),
        nodes=tuple(items("/api/v1/nodes")),
        bound=tuple(items("/api/v1/pods?fieldSelector=spec.nodeName%21%3D")),
        flavors=by_name("resourceflavors"),
    )


def await_all(api: Rest) -> World:
    """Returns once everything holds.

    Raises:
        AssertionError: safety was broken, if only for a moment.
        TimeoutError: something does not come true; names what.
    """
    last: list[str] = []

    def look() -> World | None:
        world = read(api)
        assert not (broken := unsafe(world)), broken
        last[:] = unsettled(world)
        return None if last else world

    try:
        return waiting.until(look, what="all invariants")
    except TimeoutError as late:
        late.add_note("\n".join(last))
        raise


# ------------------------------------------------------------------------------------- safety


def unsafe(world: World) -> list[str]:
    """What is wrong although it may never be."""
    return [*_over_quota(world), *_released_without_quota(world), *_several_workloads(world)]


def overrun(world: World) -> list[str]:
    """Whether what has started needs more than there is.

    Unlike `unsafe` this bears a reservation that comes too late, from a leader that is none any
    more: it is taken back before its pod starts.
    """
    gated = {pod["metadata"]["uid"] for pod in world.pods if is_gated(pod)}
    started = tuple(one for one in world.workloads if owner_uid(one) not in gated)
    rest = replace(world, workloads=started)
    return [*_over_quota(rest), *_released_without_quota(rest)]


def over_quota(queues: Iterable[Json], workloads: Iterable[Json]) -> list[str]:
    """What is above a limit of queues that stand alone."""
    world = World(
        cluster_queues={one["metadata"]["name"]: one for one in queues},
        cohorts={},
        local_queues={},
        workloads=tuple(workloads),
        pods=(),
        now=SystemClock().now(),
    )
    return list(_over_quota(world))


def _over_surge_quota(world: World) -> Iterator[str]:
    """Compares what surges use with the annotation; it is no part of any other quota."""
    usage = usage_by_queue(world, surges=True)
    for name, queue in world.cluster_queues.items():
        annotations = queue["metadata"].get("annotations") or {}
        allowed: Counter[Pair] = Counter()
        for entry in filter(None, annotations.get(names.SURGE_QUOTA, "").split(",")):
            place, amount = entry.split("=")
            flavor, resource = place.strip().split("/", 1)
            allowed[flavor, resource] += quantity.to_canonical(resource, amount)
        for pair, used in usage[name].items():
            if used > allowed[pair]:
                yield f"ClusterQueue {name}: {used} of {pair} surges, {allowed[pair]} allowed"


def _over_quota(world: World) -> Iterator[str]:
    yield from _over_surge_quota(world)
    usage = usage_by_queue(world)
    for name, queue in world.cluster_queues.items():
        for pair, limit in _limits(queue).items():
            used = usage[name][pair]
            if limit.most is not None and used > limit.most:
                yield f"ClusterQueue {name}: {used} of {pair} used, {limit.most} allowed"
    for root in {_root(world, name) for name in world.cluster_queues} - {""}:
        yield from _over_cohort(world, root, usage)


def _over_cohort(world: World, root: str, usage: Mapping[str, Counter[Pair]]) -> Iterator[str]:
    """Compares a whole tree: what its members took from it with what they lent to it."""
    taken: Counter[Pair] = Counter()
    given: Counter[Pair] = Counter()
    for name, queue in world.cluster_queues.items():
        if _root(world, name) == root:
            for pair, limit in _limits(queue).items():
                taken[pair] += max(0, usage[name][pair] - limit.kept)
                given[pair] += limit.nominal - limit.kept
    for name, cohort in world.cohorts.items():
        if _top(world, name) == root:
            for pair, limit in _limits(cohort).items():
                given[pair] += limit.nominal
    for pair, amount in taken.items():
        if amount > given[pair]:
            yield f"cohort {root}: {amount} of {pair} taken, {given[pair]} there"


def _released_without_quota(world: World) -> Iterator[str]:
    for pod in world.pods:
        if is_gated(pod) or is_over(pod) or "deletionTimestamp" in pod["metadata"]:
            continue
        workloads = world.of_pod(pod)
        if workloads and not any(_was_admitted(one) for one in workloads):
            yield f"pod {_text(pod)} was released though its Workload was never admitted"


def _several_workloads(world: World) -> Iterator[str]:
    owners = Counter(owner_uid(one) for one in world.workloads if owner_uid(one))
    for uid, count in owners.items():
        if count > 1:
            yield f"pod {uid} has {count} Workloads"


# --------------------------------------------------------------------------------- settledness


def unsettled(world: World) -> list[str]:
    """What must come true soon."""
    return [
        *_orphans(world),
        *(problem for pod in world.pods for problem in _unsettled_pod(world, pod)),
        *_wrong_statuses(world),
        *_idle_quota(world),
    ]


def _orphans(world: World) -> Iterator[str]:
    uids = {pod["metadata"]["uid"] for pod in world.pods}
    for workload in world.workloads:
        if owner_uid(workload) and owner_uid(workload) not in uids:
            yield f"Workload {_text(workload)} has no pod"


def _unsettled_pod(world: World, pod: Json) -> Iterator[str]:
    if "deletionTimestamp" in pod["metadata"]:
        return
    workloads = world.of_pod(pod)
    if is_over(pod):
        if any(not has(one, "Finished") for one in workloads):
            yield f"pod {_text(pod)} has ended, its Workload has not"
        return
    if not workloads:
        yield f"pod {_text(pod)} has no Workload"
        return
    admitted = has(workloads[0], "Admitted")
    said = condition(pod, conditions.POD_ADMITTED)
    if is_gated(pod) and admitted:
        yield f"pod {_text(pod)} is gated though its Workload is admitted"
    elif not is_gated(pod) and (not admitted or has(workloads[0], "Evicted")):
        yield f"pod {_text(pod)} runs though its Workload is not admitted or evicted"
    elif is_gated(pod) and not (said.get("status") == "False" and said.get("message")):
        yield f"pod {_text(pod)} does not say why it waits"
    elif not is_gated(pod) and said.get("status", "True") != "True":
        yield f"pod {_text(pod)} runs and says that it waits"


def _wrong_statuses(world: World) -> Iterator[str]:
    """The ClusterQueue's own account differs from what the Workloads say: a double count."""
    usage = usage_by_queue(world)
    pending = Counter(_queue_of(world, one) for one in world.workloads if _is_pending(one))
    for name, queue in world.cluster_queues.items():
        status = queue.get("status", {})
        shown: Counter[Pair] = Counter()
        for flavor in status.get("flavorsUsage") or ():
            for one in flavor["resources"]:
                amount = quantity.to_canonical(one["name"], str(one.get("total", "0")))
                shown[flavor["name"], one["name"]] += amount
        if +shown != +usage[name]:
            yield f"ClusterQueue {name} shows {dict(shown)}, held are {dict(usage[name])}"
        if status.get("pendingWorkloads", 0) != pending[name]:
            shown_pending = status.get("pendingWorkloads", 0)
            yield f"ClusterQueue {name} shows {shown_pending} pending, there are {pending[name]}"


def _idle_quota(world: World) -> Iterator[str]:
    """A Workload waits though quota and nodes have room: something leaked or was lost."""
    usage = usage_by_queue(world)
    if any(not is_gated(pod) and not pod["spec"].get("nodeName") for pod in world.pods):
        return  # where these will be is not known yet
    for workload in world.workloads:
        name = _queue_of(world, workload)
        queue = world.cluster_queues.get(name)
        if queue is None or not _is_pending(workload) or queue["spec"].get("cohortName"):
            continue
        limits = _limits(queue)
        for flavor in sorted({flavor for flavor, _ in limits}):
            wanted = _requests(workload, {r for f, r in limits if f == flavor})
            if (
                wanted
                and all(
                    usage[name][flavor, resource] + amount <= limits[flavor, resource].nominal
                    for resource, amount in wanted.items()
                )
                and _have_room(world, workload, flavor)
            ):
                yield f"Workload {_text(workload)} waits though {flavor} has room for {wanted}"


def _have_room(world: World, workload: Json, flavor: str) -> bool:
    """Return whether nodes have devices for the pods of each pod set by itself.

    A flavor without nodes has room: nobody knows what will come.
    """
    labels = world.flavors.get(flavor, {}).get("spec", {}).get("nodeLabels", {})
    nodes = [
        node
        for node in world.nodes
        if all(node["metadata"]["labels"].get(key) == value for key, value in labels.items())
    ]
    free: dict[str, Counter[str]] = {}
    for node in nodes:
        amounts = node["status"].get("allocatable", {})
        free[node["metadata"]["name"]] = Counter(
            {r: int(n) for r, n in amounts.items() if "/" in r and str(n).isdecimal()}
        )
    for pod in world.bound:
        if pod["spec"]["nodeName"] in free and not is_over(pod):
            free[pod["spec"]["nodeName"]].subtract(_devices(pod["spec"]))
    return not nodes or all(
        sum(_copies(there, _devices(one["template"]["spec"])) for there in free.values())
        >= one["count"]
        for one in workload["spec"]["podSets"]
    )


def _devices(spec: Json) -> Counter[str]:
    """Extended resources of a pod, by the limits of its containers."""
    devices: Counter[str] = Counter()
    for container in spec["containers"]:
        limits = container.get("resources", {}).get("limits", {})
        devices.update({r: int(n) for r, n in limits.items() if "/" in r})
    return devices


def _copies(there: Mapping[str, int], devices: Mapping[str, int]) -> int:
    return min((max(0, there.get(r, 0)) // n for r, n in devices.items() if n), default=1000)


# ------------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Limit:
    nominal: int
    most: int | None
    """What the queue may use itself; None: as much as its cohort has."""
    kept: int
    """What it never lends."""


def _limits(owner: Json) -> dict[Pair, _Limit]:
    in_cohort = bool(owner["spec"].get("cohortName"))
    found: dict[Pair, _Limit] = {}
    for group in owner["spec"].get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for one in flavor["resources"]:
                amounts = {
                    key: quantity.to_canonical(one["name"], str(one[key]))
                    for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                    if one.get(key) is not None
                }
                nominal = amounts["nominalQuota"]
                borrowing = amounts.get("borrowingLimit", None if in_cohort else 0)
                found[flavor["name"], one["name"]] = _Limit(
                    nominal=nominal,
                    most=None if borrowing is None else nominal + borrowing,
                    kept=nominal - amounts.get("lendingLimit", nominal),
                )
    return found


def usage_by_queue(world: World, *, surges: bool = False) -> dict[str, Counter[Pair]]:
    """What Workloads hold, by ClusterQueue, in canonical integers.

    Args:
        world: all objects.
        surges: of surge quota instead of all other quota.
    """
    usage: dict[str, Counter[Pair]] = defaultdict(Counter)
    for workload in world.holding():
        if has(workload, conditions.USES_SURGE_QUOTA) != surges:
            continue
        admission = workload["status"]["admission"]
        for assignment in admission["podSetAssignments"]:
            for resource, amount in (assignment.get("resourceUsage") or {}).items():
                pair = (assignment["flavors"][resource], resource)
                canonical = quantity.to_canonical(resource, str(amount))
                usage[admission["clusterQueue"]][pair] += canonical
    return usage


def _requests(workload: Json, covered: Iterable[str]) -> Counter[str]:
    """What a Workload wants of some resources, by its containers' limits and requests."""
    wanted: Counter[str] = Counter()
    for pod_set in workload["spec"]["podSets"]:
        for container in pod_set["template"]["spec"]["containers"]:
            resources = container.get("resources", {})
            amounts = {**resources.get("limits", {}), **resources.get("requests", {})}
            for resource in set(covered) & set(amounts):
                amount = quantity.to_canonical(resource, str(amounts[resource]))
                wanted[resource] += amount * pod_set["count"]
    return wanted


def _queue_of(world: World, workload: Json) -> str:
    """The ClusterQueue that a Workload waits in; empty if there is none."""
    key = (workload["metadata"]["namespace"], workload["spec"].get("queueName", ""))
    queue = world.local_queues.get(key)
    return str(queue["spec"]["clusterQueue"]) if queue else ""


def _is_pending(workload: Json) -> bool:
    if has(workload, "Finished") or not workload["spec"].get("active", True):
        return False
    return not has(workload, "QuotaReserved")


def _was_admitted(workload: Json) -> bool:
    """Whether it has quota, or had it and is on the way out."""
    return any(has(workload, kind) for kind in ("Admitted", "Evicted", "Finished"))


def _root(world: World, cluster_queue: str) -> str:
    name = world.cluster_queues[cluster_queue]["spec"].get("cohortName", "")
    return _top(world, name)


def _top(world: World, cohort: str) -> str:
    for _ in range(_COHORT_DEPTH):
        parent = world.cohorts.get(cohort, {}).get("spec", {}).get("parentName", "")
        if not parent:
            break
        cohort = parent
    return cohort


def condition(thing: Json, kind: str) -> Json:
    """A condition, or an empty one."""
    found: list[Json] = thing.get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == kind), {})


def has(thing: Json, kind: str) -> bool:
    """Whether a condition is True."""
    return bool(condition(thing, kind).get("status") == "True")


def is_gated(pod: Json) -> bool:
    """Whether our gate holds a pod."""
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate["name"] == names.ADMISSION_GATE for gate in gates)


def is_over(pod: Json) -> bool:
    """Whether a pod has ended."""
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def owner_uid(workload: Json) -> str:
    """Uid of the pod that controls a Workload; empty if none does."""
    owners = workload["metadata"].get("ownerReferences") or ()
    return next((str(o["uid"]) for o in owners if o.get("controller") and o["kind"] == "Pod"), "")


def _key(thing: Json) -> Pair:
    return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


def _text(thing: Json) -> str:
    return "/".join(_key(thing))
