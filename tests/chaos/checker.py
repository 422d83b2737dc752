"""Judge from outside whether quota was kept: from pods, nodes, claims, Jobs and queues alone.

The rule: no release raises the GPUs of bound or released, not-ended pods of a cohort above the
quota in force at that moment. This module imports nothing of the program, keeps its own record of
what exists, and uses no label, annotation, Workload or condition of the program for that rule. It
knows the ClusterQueue of a pod from its namespace: whoever sets the cluster up gives each
namespace one queue.

Words:
    released: a pod without scheduling gates, or with a node.
    held: released, and the pod can still use its GPUs; see `_Pod.is_held`. A pod that holds them
        again because its node is back is not held against what was decided before.
    raise: a release after which the cohort holds more than before. A pod that shares a claim that
        is held already raises nothing.
    quota in force: the largest sum of nominal quota that was in force within `window` seconds
        before the release, and the surge quota of each ClusterQueue in which pods of two revisions
        of a Deployment were held a short while ago, up to what its pods hold. The window covers
        that a decision is made on watched objects, and takes time to be written. A pod of a Job is
        decided when the Job is started: for as many pods as the Job ran in parallel then, the
        window begins before its start. A PyTorchJob is judged as a Job that runs all of its pods
        in parallel.

The caller's seconds need not be those of a clock: it may let them stand still while servers or
controllers are stopped, because nothing is decided or written then.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

Json = dict[str, Any]
Ref = tuple[str, str]
"""Namespace and name."""

GPU: Final = "nvidia.com/gpu"
GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
SURGE_QUOTA: Final = "gpu-admission.dev/surge-quota"
GROUP_FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"
GPU_CLASSES: Final = frozenset({"gpu.nvidia.com"})
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_COHORT_DEPTH: Final = 20
_SURGE_SECONDS: Final = 20.0
"""After the end of a rollout, until none of its pods uses surge quota any more."""
_JOBS: Final = frozenset({"Job", "PyTorchJob"})
_SLICE: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
_RUNS_SINCE: Final = "gpu-admission.dev/runs-since"
EXERCISED: Final = ("preemptions", "replaced members", "elastic steps", "orphans charged")
"""What a storm is to bring about besides releases."""
_PLACED_SECONDS: Final = 10.0
"""After a release, until a pod has a node where no node has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a watch said.

    Attributes:
        kind: plural of the kind, as ``pods``.
        type: ADDED, MODIFIED or DELETED; LISTED for what was there when watching began, which
            nothing is judged by; RESET where everything of this kind is forgotten.
        object: as sent; empty for RESET.
        at: seconds by which windows are measured.
        wall: seconds since 1970 by a clock, with which timestamps of objects are compared.
    """

    kind: str
    type: str
    object: Json
    at: float
    wall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A release that the quota in force did not allow."""

    pod: str
    cohort: str
    held: int
    before: int
    quota: int
    version: str
    at: float
    holders: tuple[str, ...]

    def text(self) -> str:
        """What happened, with all pods that hold GPUs of the cohort."""
        holders = "\n    ".join(self.holders)
        return (
            f"release of pod {self.pod} raised the GPUs of cohort {self.cohort} from {self.before}"
            f" to {self.held}, quota in force is {self.quota} (resourceVersion {self.version}, "
            f"second {self.at:.1f}); held by\n    {holders}"
        )


@dataclass(slots=True, kw_only=True)
class _Pod:
    uid: str
    ref: Ref
    gpus: int
    claims: tuple[tuple[str, str], ...]
    """Name in the pod and name of each ResourceClaim; the latter is empty until it is known."""
    templates: Mapping[str, str]
    """Name of the ResourceClaimTemplate by the name in the pod."""
    job: str
    """Uid of the Job or PyTorchJob that controls it."""
    replica_set: str
    """Name of the ReplicaSet that controls it; empty for none."""
    group: tuple[str, int]
    """Name of its group, and of how many pods the group is; empty for a single pod."""
    is_fast: bool
    """Whether its group may start before all of its pods are there."""
    node: str
    phase: str
    is_released: bool
    is_gone: bool
    ends_by: float | None
    """End of its grace period where it is being deleted, in seconds since 1970."""

    @property
    def has_ended(self) -> bool:
        """Whether its containers have ended, or never run."""
        return self.phase in {"Succeeded", "Failed"}

    def is_held(self, nodes: Mapping[str, "_Node"], wall: float, lost_node_seconds: float) -> bool:
        """Return whether it can still use its GPUs.

        It cannot when it has ended, when its object is gone or nothing but finalizers keeps it,
        when it is being deleted and has no node, when its node object is gone or out of service,
        or when it is being deleted and its node has not been ready for some time.
        """
        if not self.is_released or self.is_gone or self.has_ended:
            return False
        if not self.node:
            return self.ends_by is None
        node = nodes.get(self.node)
        if node is None or node.is_out_of_service:
            return False
        if self.ends_by is None or node.lost_since is None:
            return True
        return wall < max(self.ends_by, node.lost_since) + lost_node_seconds


@dataclass(frozen=True, slots=True)
class _Node:
    is_out_of_service: bool
    lost_since: float | None


@dataclass(slots=True)
class _Job:
    kind: str
    ref: Ref
    is_suspended: bool
    is_over: bool
    pods: int
    """How many it runs in parallel."""
    gpus: int
    """Of all of them."""
    started: float
    """Second at which it was last started."""
    entitled: int
    """How many pods it ran in parallel then."""


@dataclass
class Checker:
    """Takes events in the order in which the API server stored the objects.

    Attributes:
        queues: ClusterQueue of each namespace.
        window: seconds for which quota counts as in force after it was lowered.
        lost_node_seconds: how long a node must have been not ready.
        violations: what was found so far.
        stopped: running pods whose deletion began, and running Jobs and PyTorchJobs that were
            suspended, while no
            Workload of theirs was evicted: a text by the uid of a pod, and by uid and
            resourceVersion of a suspended Job (``uid@version``).
        raises: releases that were judged.
        surges: those of them that surge quota allowed.
        exercised: how often something happened that rules of the program are about.
    """

    queues: Mapping[str, str]
    window: float = 5.0
    lost_node_seconds: float = 300.0
    violations: list[Violation] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    raises: int = 0
    surges: int = 0
    exercised: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EXERCISED, 0))

    _pods: dict[str, _Pod] = field(default_factory=dict)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _devices: dict[Ref, int] = field(default_factory=dict)
    _template_devices: dict[Ref, int] = field(default_factory=dict)
    _cluster_queues: dict[str, Json] = field(default_factory=dict)
    _cohorts: dict[str, Json] = field(default_factory=dict)
    _quotas: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    """Quota by cohort, from a second on."""
    _surged: dict[str, float] = field(default_factory=dict)
    """When pods of two revisions of a Deployment were held in a ClusterQueue last."""
    _revived: dict[str, float] = field(default_factory=dict)
    """When pods held GPUs again because their node was back, by uid."""
    _evicted: set[str] = field(default_factory=set)
    """Uids of owners whose Workload is evicted."""
    _priorities: dict[str, int] = field(default_factory=dict)
    """Priority of the Workload of each owner, by its uid."""
    _told: set[tuple[str, str]] = field(default_factory=set)
    """What was counted as exercised."""
    _members: set[str] = field(default_factory=set)
    """Uids of pods that were seen in a group."""
    _lost_members: set[str] = field(default_factory=set)
    """Names of groups of which a pod is gone."""
    _nodes_changed: float = 0.0
    """When a node was last added, deleted or tainted."""
    _released: dict[str, float] = field(default_factory=dict)
    """When pods were seen released first, by uid."""
    _wall: float = 0.0
    _at: float = 0.0

    def take(self, event: Event) -> None:
        """Take one event, and judge it."""
        self._wall = max(self._wall, event.wall)
        self._at = max(self._at, event.at)
        match event.kind:
            case "pods":
                self._take_pod(event)
            case "nodes":
                self._take_node(event)
            case "jobs" | "pytorchjobs":
                self._take_job(event)
            case "resourceclaims":
                self._take_devices(self._devices, event, ("spec",))
            case "resourceclaimtemplates":
                self._take_devices(self._template_devices, event, ("spec", "spec"))
            case "clusterqueues":
                self._take_quota(self._cluster_queues, event)
            case "cohorts":
                self._take_quota(self._cohorts, event)
            case "workloads":
                self._take_workload(event)
            case _:
                raise ValueError(f"nobody asked for {event.kind}")

    # ------------------------------------------------------------------------------- the rule

    def _take_pod(self, event: Event) -> None:
        if event.type == "RESET":
            self._pods.clear()
            return
        found = _read_pod(event.object)
        before = self._pods.get(found.uid)
        if event.type == "DELETED":
            self._pods.pop(found.uid, None)
            self._lost_members.add(found.group[0])
            return
        cohort = self._cohort_of(found.ref[0])
        is_new_release = found.is_released and not (before is not None and before.is_released)
        if found.is_released:
            self._released.setdefault(found.uid, event.at)
        judged = is_new_release and bool(cohort) and event.type != "LISTED"
        held = self.held(cohort) if judged else 0
        self._pods[found.uid] = found
        self._note_exercised(found, event)
        if found.replica_set:
            self._note_surges(event.at)
        if judged:
            self._judge(event, found, cohort, held)
        if before is not None and before.ends_by is None and found.ends_by is not None:
            self._note_stop(before, event)

    def _note_exercised(self, pod: _Pod, event: Event) -> None:
        """Count a pod that takes the place of a member, or that its owner has left."""
        if _RUNS_SINCE in (event.object["metadata"].get("annotations") or {}):
            self._exercise("orphans charged", pod.uid)
        name, _ = pod.group
        if name and pod.uid not in self._members:
            self._members.add(pod.uid)
            if name in self._lost_members:
                self._exercise("replaced members", pod.uid)

    def _exercise(self, what: str, which: str) -> None:
        """Count something once."""
        if (what, which) not in self._told:
            self._told.add((what, which))
            self.exercised[what] += 1

    def _judge(self, event: Event, pod: _Pod, cohort: str, before: int) -> None:
        """Compare what a cohort holds after a release with its quota."""
        if self.held(cohort) <= before:
            return
        self.raises += 1
        since = self._decided(pod, event.at) - self.window
        held = self._cost(
            one for one in self._holders(cohort) if self._revived.get(one.uid, since) <= since
        )
        quota = self._quota_in_force(cohort, since)
        self._note_surges(event.at)
        is_above = held > quota
        quota += self._surge_quota(cohort, event.at)
        self.surges += is_above and held <= quota
        if held > quota:
            self.violations.append(
                Violation(
                    pod="/".join(pod.ref),
                    cohort=cohort,
                    held=held,
                    before=before,
                    quota=quota,
                    version=event.object["metadata"]["resourceVersion"],
                    at=event.at,
                    holders=tuple(sorted(map(self._describe, self._holders(cohort)))),
                )
            )

    def _decided(self, pod: _Pod, at: float) -> float:
        """Return the second at which the release of a pod was decided at the earliest."""
        job = self._jobs.get(pod.job)
        if job is None or job.is_suspended:
            return at
        running = sum(1 for one in self._pods.values() if one.job == pod.job and self._holds(one))
        return job.started if running <= job.entitled else at

    def _quota_in_force(self, cohort: str, since: float) -> int:
        most = 0
        for at, quotas in reversed(self._quotas):
            most = max(most, quotas.get(cohort, 0))
            if at <= since:
                break
        return most

    def _note_surges(self, at: float) -> None:
        """Note in which ClusterQueues pods of two revisions of a Deployment are held."""
        revisions: dict[Ref, set[str]] = defaultdict(set)
        for pod in self._pods.values():
            if pod.replica_set and self._holds(pod):
                deployment = pod.replica_set.rpartition("-")[0]
                revisions[pod.ref[0], deployment].add(pod.replica_set)
        for (namespace, _), found in revisions.items():
            if len(found) > 1 and namespace in self.queues:
                self._surged[self.queues[namespace]] = at

    def _surge_quota(self, cohort: str, at: float) -> int:
        """Return how much surge quota the pods of a cohort may use: only those of rollouts do.

        Which of them surge is for the program to say, and it takes a while until none does.
        """
        held: dict[str, int] = defaultdict(int)
        for pod in self._holders(cohort):
            if pod.replica_set:
                held[self.queues[pod.ref[0]]] += pod.gpus
        return sum(
            min(surge_quota(self._cluster_queues[name]), gpus)
            for name, gpus in held.items()
            if at - self._surged.get(name, -_SURGE_SECONDS) < _SURGE_SECONDS
        )

    def held(self, cohort: str) -> int:
        """Return how many GPUs the pods of a cohort hold now; a shared claim counts once."""
        return self._cost(self._holders(cohort))

    def _holders(self, cohort: str) -> list[_Pod]:
        return [
            pod
            for pod in self._pods.values()
            if self._cohort_of(pod.ref[0]) == cohort and self._holds(pod)
        ]

    def _holds(self, pod: _Pod) -> bool:
        return pod.is_held(self._nodes, self._wall, self.lost_node_seconds)

    def _cost(self, pods: Iterable[_Pod]) -> int:
        total = 0
        claimed: dict[tuple[str, ...], int] = {}
        for pod in pods:
            total += pod.gpus
            claimed.update(self._claimed(pod))
        return total + sum(claimed.values())

    def _claimed(self, pod: _Pod) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield what tells each claim of a pod from others, with its number of devices."""
        namespace = pod.ref[0]
        for entry, claim in pod.claims:
            if claim and (namespace, claim) in self._devices:
                yield (namespace, claim), self._devices[namespace, claim]
            elif template := pod.templates.get(entry):
                yield (pod.uid, entry), self._template_devices.get((namespace, template), 0)

    def _describe(self, pod: _Pod) -> str:
        own = pod.gpus + sum(count for _, count in self._claimed(pod))
        parts = [f"{'/'.join(pod.ref)} {own} {pod.phase} on {pod.node or 'no node'}"]
        if pod.ends_by is not None:
            parts.append(f"being deleted, {pod.ends_by - self._wall:.0f} s of grace left")
        if pod.job in self._jobs:
            job = self._jobs[pod.job]
            parts.append(f"of {job.kind} {job.ref[1]}")
        elif pod.job:
            parts.append("of a Job that is gone")
        return ", ".join([*parts, f"uid {pod.uid}"])

    # ------------------------------------------------------------------------------- the record

    def _take_node(self, event: Event) -> None:
        """Take a node, and note which pods hold GPUs again as it is back."""
        before = {uid for uid, one in self._pods.items() if self._holds(one)}
        self._record_node(event)
        if event.type in {"RESET", "LISTED"}:
            return
        after = {uid for uid, one in self._pods.items() if self._holds(one)}
        self._revived |= dict.fromkeys(after - before, event.at)

    def _record_node(self, event: Event) -> None:
        if event.type == "RESET":
            self._nodes.clear()
            return
        name = event.object["metadata"]["name"]
        before = self._nodes.get(name)
        if event.type == "DELETED":
            self._nodes.pop(name, None)
            self._nodes_changed = event.at
            return
        taints = event.object["spec"].get("taints") or ()
        ready = [
            one
            for one in event.object.get("status", {}).get("conditions") or ()
            if one["type"] == "Ready" and one["status"] != "True"
        ]
        self._nodes[name] = _Node(
            is_out_of_service=any(one["key"] == OUT_OF_SERVICE for one in taints),
            lost_since=_seconds(ready[0]["lastTransitionTime"]) if ready else None,
        )
        if self._nodes[name] != before:
            self._nodes_changed = event.at

    def _take_job(self, event: Event) -> None:
        kind = "Job" if event.kind == "jobs" else "PyTorchJob"
        if event.type == "RESET":
            self._jobs = {uid: one for uid, one in self._jobs.items() if one.kind != kind}
            return
        uid = event.object["metadata"]["uid"]
        if event.type == "DELETED":
            self._jobs.pop(uid, None)
            return
        before = self._jobs.get(uid)
        spec = event.object["spec"]
        conditions = event.object.get("status", {}).get("conditions") or ()
        runs = (
            [(spec.get("parallelism", 1), spec["template"])]
            if kind == "Job"
            else [
                (one.get("replicas", 1), one["template"])
                for one in spec["pytorchReplicaSpecs"].values()
            ]
        )
        found = _Job(
            kind=kind,
            ref=_ref(event.object),
            is_suspended=bool({**spec, **(spec.get("runPolicy") or {})}.get("suspend")),
            is_over=any(
                one["type"] in {"Complete", "Succeeded", "Failed"} and one["status"] == "True"
                for one in conditions
            ),
            pods=sum(count for count, _ in runs),
            gpus=sum(count * _gpus(template["spec"]) for count, template in runs),
            started=event.at,
            entitled=sum(count for count, _ in runs),
        )
        if before is not None and not before.is_suspended and not found.is_suspended:
            found.started, found.entitled = before.started, before.entitled
        self._jobs[uid] = found
        if before is not None and found.is_suspended and not before.is_suspended:
            running = [one for one in self._pods.values() if one.job == uid and self._holds(one)]
            # Whoever lets it run other pods than were admitted has it stopped.
            is_changed = found.pods != before.entitled
            if running and uid not in self._evicted and not is_changed:
                self.stopped[f"{uid}@{event.object['metadata']['resourceVersion']}"] = (
                    f"{kind} {'/'.join(found.ref)} was suspended with {len(running)} pods running "
                    f"(second {event.at:.1f})"
                )

    def _note_stop(self, pod: _Pod, event: Event) -> None:
        """Note that the deletion of a running pod begins."""
        if not pod.node or not self._holds(pod) or pod.uid in self._evicted:
            return
        why = [
            f"{one.get('reason')}: {one.get('message')}"
            for one in event.object["status"].get("conditions") or ()
            if one["type"] == "TerminationTarget"
        ]
        if any(reason.startswith("WorkloadEvictedDueTo") for reason in why):
            return
        self.stopped[pod.uid] = (
            f"pod {'/'.join(pod.ref)} was stopped (second {event.at:.1f}) {'; '.join(why)}"
        )

    def _take_workload(self, event: Event) -> None:
        """Take what is read of Workloads: whether somebody decided to stop their owner."""
        if event.type == "RESET":
            return
        owners = {one["uid"] for one in event.object["metadata"].get("ownerReferences") or ()}
        conditions = event.object.get("status", {}).get("conditions") or ()
        is_active = event.object["spec"].get("active", True)
        uid = event.object["metadata"].get("uid", "")
        self._priorities |= dict.fromkeys(owners, event.object["spec"].get("priority") or 0)
        if _SLICE in (event.object["metadata"].get("annotations") or {}):
            self._exercise("elastic steps", uid)
        for one in conditions:
            if one["type"] == "Preempted" and one["status"] == "True":
                self._exercise("preemptions", f"{uid} {one['lastTransitionTime']}")
        if not is_active or any(
            one["type"] == "Evicted" and one["status"] == "True" for one in conditions
        ):
            self._evicted |= owners
        elif event.type != "DELETED":
            self._evicted -= owners

    def _take_devices(self, record: dict[Ref, int], event: Event, path: Iterable[str]) -> None:
        if event.type == "RESET":
            record.clear()
            return
        if event.type == "DELETED":
            return  # pods that hold it still do
        spec = event.object
        for step in path:
            spec = spec[step]
        record[_ref(event.object)] = sum(
            one["exactly"].get("count", 1)
            for one in spec.get("devices", {}).get("requests") or ()
            if one.get("exactly", {}).get("deviceClassName") in GPU_CLASSES
            and not one["exactly"].get("adminAccess")
        )

    def _take_quota(self, record: dict[str, Json], event: Event) -> None:
        if event.type == "RESET":
            record.clear()
        elif event.type == "DELETED":
            record.pop(event.object["metadata"]["name"], None)
        else:
            record[event.object["metadata"]["name"]] = event.object
        quotas = self.quotas()
        if event.type != "RESET" and (not self._quotas or self._quotas[-1][1] != quotas):
            self._quotas.append((event.at, quotas))

    def quotas(self) -> dict[str, int]:
        """Return the sum of nominal quota of each cohort now."""
        found: dict[str, int] = defaultdict(int)
        for name, queue in self._cluster_queues.items():
            found[self._root(name)] += _nominal(queue)
        for name, cohort in self._cohorts.items():
            found[self._top(name)] += _nominal(cohort)
        return dict(found)

    def _cohort_of(self, namespace: str) -> str:
        """Return the cohort of the pods of a namespace; empty where they have no queue."""
        queue = self.queues.get(namespace)
        return self._root(queue) if queue in self._cluster_queues else ""

    def _root(self, queue: str) -> str:
        """Return the top of a ClusterQueue's tree; its own name where it has no cohort."""
        cohort = self._cluster_queues[queue]["spec"].get("cohortName")
        return self._top(cohort) if cohort else f"ClusterQueue {queue}"

    def _top(self, cohort: str) -> str:
        for _ in range(_COHORT_DEPTH):
            parent = self._cohorts.get(cohort, {}).get("spec", {}).get("parentName")
            if not parent:
                break
            cohort = parent
        return cohort

    # ------------------------------------------------------------ once everything has settled

    def leaked(self) -> dict[str, str]:
        """Return which ClusterQueues are charged for GPUs that no pod holds, with a text."""
        return {
            name: f"ClusterQueue {name} is charged {charged} GPUs, its pods hold {held}"
            for name, charged, held in self._charges()
            if charged > held
        }

    def uncharged(self) -> dict[str, str]:
        """Return which ClusterQueues are not charged for all GPUs of their pods, with a text."""
        return {
            name: f"ClusterQueue {name} is charged {charged} GPUs, its pods hold {held}: "
            + "; ".join(
                self._describe(one)
                for one in self._pods.values()
                if self.queues.get(one.ref[0]) == name and self._holds(one)
            )
            for name, charged, held in self._charges()
            if charged < held
        }

    def _charges(self) -> Iterator[tuple[str, int, int]]:
        """Yield each ClusterQueue with what its status says and what its pods hold."""
        for name, queue in sorted(self._cluster_queues.items()):
            charged = sum(
                int(resource["total"])
                for flavor in queue.get("status", {}).get("flavorsReservation") or ()
                for resource in flavor["resources"]
                if resource["name"] == GPU
            )
            pods = [
                one
                for one in self._pods.values()
                if self.queues.get(one.ref[0]) == name and self._holds(one)
            ]
            yield name, charged, self._cost(pods)

    def _together(self, pod: _Pod) -> list[_Pod]:
        """Return the pods that wait and are to start with one; none while its group lacks pods."""
        name, total = pod.group
        if not name:
            return [pod]
        there = [
            one
            for one in self._pods.values()
            if (one.ref[0], one.group[0]) == (pod.ref[0], name)
            and not one.is_gone
            and one.ends_by is None
            and one.phase != "Failed"
        ]
        is_whole = len(there) >= total or pod.is_fast
        return [one for one in there if not one.is_released] if is_whole else []

    def half(self) -> dict[str, str]:
        """Return the groups of which some pods run while others wait, with a text."""
        waiting: set[Ref] = set()
        running: set[Ref] = set()
        for pod in self._pods.values():
            name, _ = pod.group
            if name and not pod.is_gone and pod.ends_by is None and not pod.has_ended:
                (running if pod.is_released else waiting).add((pod.ref[0], name))
        return {
            "/".join(group): f"group {'/'.join(group)} runs in part, the rest of it waits"
            for group in sorted(waiting & running)
        }

    def outranked(self) -> dict[str, str]:
        """Return what waits for quota that pods with a lower priority hold, with a text.

        Only where all queues let a Workload preempt those with a lower priority in its
        ClusterQueue, and take back what others have borrowed of its nominal quota.
        """
        found = {}
        for pod in self._pods.values():
            queue = self.queues.get(pod.ref[0], "")
            is_over = pod.is_gone or pod.ends_by is not None or pod.has_ended
            if pod.is_released or is_over or pod.claims or queue not in self._cluster_queues:
                continue
            priority, wanted = self._priorities.get(pod.uid), self._together(pod)
            if priority is None or not wanted or self._is_stopped(queue):
                continue
            kept = [
                one
                for one in self._pods.values()
                if self.queues.get(one.ref[0]) == queue
                and self._holds(one)
                and (one.ends_by is not None or self._priority(one, priority) >= priority)
            ]
            quota = _nominal(self._cluster_queues[queue])
            if self._cost([*kept, *wanted]) <= quota:
                found[pod.uid] = (
                    f"pod {'/'.join(pod.ref)} with priority {priority} waits: pods with this "
                    f"priority or a higher one hold {self._cost(kept)} of {quota} GPUs of {queue}"
                )
        return found

    def _priority(self, pod: _Pod, unknown: int) -> int:
        """Return the priority of the Workload of a pod that holds GPUs."""
        return self._priorities.get(pod.uid, self._priorities.get(pod.job, unknown))

    def _is_stopped(self, queue: str) -> bool:
        return str(self._cluster_queues[queue]["spec"].get("stopPolicy", "None")) != "None"

    def unplaced(self) -> dict[str, str]:
        """Return the released pods that no node takes though no node has changed, with a text."""
        is_calm = self._at - self._nodes_changed > _PLACED_SECONDS
        return {
            pod.uid: f"pod {'/'.join(pod.ref)} was released and is on no node"
            for pod in self._pods.values()
            if is_calm
            and pod.is_released
            and not pod.node
            and not pod.claims
            and not (pod.is_gone or pod.has_ended)
            and pod.ends_by is None
            and self._at - self._released.get(pod.uid, self._at) > _PLACED_SECONDS
        }

    def stuck(self) -> dict[str, str]:
        """Return what waits although its cohort has room for it, with a text."""
        quotas = self.quotas()
        free = {cohort: quota - self.held(cohort) for cohort, quota in quotas.items()}
        found = {}
        for pod in self._pods.values():
            cohort = self._cohort_of(pod.ref[0])
            is_over = pod.is_gone or pod.ends_by is not None or pod.has_ended
            claims_exist = all(
                pod.templates.get(entry) or (pod.ref[0], claim) in self._devices
                for entry, claim in pod.claims
            )
            if pod.is_released or is_over or not cohort or not claims_exist:
                continue
            if self._is_stopped(self.queues[pod.ref[0]]):
                continue
            wanted = self._together(pod)
            need = self._cost([*self._holders(cohort), *wanted]) - self.held(cohort)
            if not wanted:
                continue
            if need <= free[cohort]:
                found[pod.uid] = (
                    f"pod {'/'.join(pod.ref)} waits for {need} GPUs, "
                    f"{free[cohort]} are free in {cohort}"
                )
        for uid, job in self._jobs.items():
            cohort = self._cohort_of(job.ref[0])
            need = job.gpus
            if cohort and job.is_suspended and not job.is_over and need <= free[cohort]:
                found[uid] = (
                    f"{job.kind} {'/'.join(job.ref)} waits for {need} GPUs, "
                    f"{free[cohort]} are free in {cohort}"
                )
        return found


def _read_pod(document: Json) -> _Pod:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status", {})
    made = {one["name"]: one.get("resourceClaimName", "") for one in _claim_statuses(status)}
    entries = spec.get("resourceClaims") or ()
    owners = metadata.get("ownerReferences") or ()
    deleted = metadata.get("deletionTimestamp")
    marks = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    return _Pod(
        uid=metadata["uid"],
        ref=_ref(document),
        gpus=_gpus(spec),
        claims=tuple(
            (one["name"], one.get("resourceClaimName") or made.get(one["name"]) or "")
            for one in entries
        ),
        templates={
            one["name"]: one["resourceClaimTemplateName"]
            for one in entries
            if one.get("resourceClaimTemplateName")
        },
        group=(
            marks.get(GROUP_NAME, ""),
            int(marks.get(GROUP_TOTAL, "0")),
        ),
        is_fast=marks.get(GROUP_FAST) == "true",
        replica_set=next(
            (o["name"] for o in owners if o.get("controller") and o["kind"] == "ReplicaSet"), ""
        ),
        job=next((o["uid"] for o in owners if o.get("controller") and o["kind"] in _JOBS), ""),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        is_released=not spec.get("schedulingGates") or bool(spec.get("nodeName")),
        # Nothing but finalizers keeps an object whose grace period is nothing.
        is_gone=bool(deleted) and metadata.get("deletionGracePeriodSeconds") == 0,
        ends_by=_seconds(deleted) if deleted else None,
    )


def _claim_statuses(status: Json) -> Iterable[Json]:
    found: Iterable[Json] = status.get("resourceClaimStatuses") or ()
    return found


def _gpus(spec: Json) -> int:
    """Return the GPUs that a pod asks for by name: of all containers, or of a greedy first one."""
    running = sum(map(_asked, spec["containers"]))
    most = 0
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            running += asked
        else:
            most = max(most, asked)
    return max(running, most)


def _asked(container: Json) -> int:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(amounts.get(GPU, 0))


def _nominal(owner: Json) -> int:
    return sum(
        int(resource["nominalQuota"])
        for group in owner["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        if resource["name"] == GPU
    )


def surge_quota(queue: Json) -> int:
    """Return the GPUs of a ClusterQueue that only pods of rolling updates may use."""
    text = (queue["metadata"].get("annotations") or {}).get(SURGE_QUOTA, "")
    places = (entry.split("=") for entry in filter(None, text.split(",")))
    return sum(int(amount) for place, amount in places if place.strip().endswith(f"/{GPU}"))


def _ref(document: Json) -> Ref:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
