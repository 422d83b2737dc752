"""Judge from outside whether quota was kept: from pods, nodes, claims, Jobs and queues alone.

The rule: no release raises the devices of bound or released, not-ended pods of a cohort above the
quota in force at that moment, in any flavor or in their sum. This module imports nothing of the
program, keeps its own record of what exists, and uses no Workload or condition of the program for
that rule. It knows the ClusterQueue of a pod from its namespace, or from the LocalQueue that the
pod or its Job names, and the flavor from the labels of its node, or from its node selector until
it has one. What a claim costs is what was allocated, or what it asks for until then.

More rules, each with a part of the report: nothing is released in a queue that was stopped
(`halted`), before its admission checks are ready (`unchecked`), or above a cap (`overcap`), no Job
takes the Workload of a group of pods (`taken`), and nothing that is preempted is stopped before
its notice has ended (`hurried`). Checks, evictions and owners are read from Workloads.

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
        window begins before its start. An elastic Job is granted more pods when it runs them
        within the quota, and fewer once it wants fewer. A PyTorchJob is judged as a Job that runs
        all of its pods in parallel. A Job that runs when a store is put back was decided at an
        unknown second. A pod that takes the place of a member of a group is decided when the
        group is, as long as another member runs on and the group has no more pods than it wants.
        A pod that the Job controller makes as its cache is behind counts for nothing for
        `_DOUBLED_SECONDS`, because nobody can know of it before. It may make one after its Job is
        gone or is being deleted: the garbage collector deletes that. It may make one beyond what
        its Job runs in parallel, as the answer to an earlier create was lost: it deletes one of
        them when its cache has both.

The caller's seconds need not be those of a clock: it may let them stand still while servers or
controllers are stopped, because nothing is decided or written then.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tests.chaos import amounts
from tests.chaos.amounts import ANY, GPU, Amounts, Place

Json = dict[str, Any]
Ref = tuple[str, str]
"""Namespace and name."""

GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
GROUP_FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"
GPU_CLASSES: Final[Mapping[str, str]] = {"gpu.nvidia.com": ""}
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
PREBUILT: Final = "kueue.x-k8s.io/prebuilt-workload-name"
MAX_PER_USER: Final = "gpu-admission.dev/max-per-user"
MAX_IN_USE: Final = "gpu-admission.dev/max-in-use"
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
NOTICE: Final = "gpu-admission.dev/preemption-notice"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_COHORT_DEPTH: Final = 20
_SURGE_SECONDS: Final = 20.0
"""After the end of a rollout, until none of its pods uses surge quota any more."""
_JOBS: Final = frozenset({"Job", "PyTorchJob"})
_SLICE: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
_RUNS_SINCE: Final = "gpu-admission.dev/runs-since"
EXERCISED: Final = (
    *("preemptions", "replaced members", "elastic steps", "orphans charged"),
    *("choices of a flavor", "slices", "claims allocated", "checked releases", "notices kept"),
    *("starts in a capped queue", "stops of a queue"),
)
"""What a storm is to bring about besides releases."""
_PLACED_SECONDS: Final = 10.0
"""After a release, until a pod has a node where no node has changed."""
_DOUBLED_SECONDS: Final = 15.0
"""Until the Job controller has deleted a pod that it made twice."""
_JOB_CONTROLLER: Final = "kube-controller-manager"
_ROUNDED_SECONDS: Final = 1.5
"""By which times of objects, which are whole seconds, may be wrong."""


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
    place: Place
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
            f"release of pod {self.pod} raised {'/'.join(self.place)} of cohort {self.cohort}"
            f" from {self.before} to {self.held}, quota in force is {self.quota} (resourceVersion"
            f" {self.version}, second {self.at:.1f}); held by\n    {holders}"
        )


@dataclass(slots=True, kw_only=True)
class _Pod:
    uid: str
    ref: Ref
    devices: Counter[str]
    """What it asks for by name, by resource."""
    queue: str
    """Name of the LocalQueue that it names; empty for none."""
    selector: Mapping[str, str]
    """Labels of the nodes that it may run on."""
    prebuilt: str
    """Name of the Workload that it says is its own."""
    is_single: bool
    """Whether nobody controls it."""
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
    is_made_by_controller: bool
    """Whether the Job controller has written it."""
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
    labels: Mapping[str, str]
    is_out_of_service: bool
    lost_since: float | None


@dataclass(slots=True)
class _Job:
    kind: str
    ref: Ref
    is_suspended: bool
    is_over: bool
    is_being_deleted: bool
    queue: str
    """Name of the LocalQueue that it names; empty for none."""
    selector: Mapping[str, str]
    """Labels of the nodes that its pods may run on."""
    pods: int
    """How many it runs in parallel."""
    devices: Counter[str]
    """Of all of them."""
    started: float
    """Second at which it was last started."""
    entitled: int
    """How many pods it ran in parallel then."""
    is_elastic: bool
    """Whether it may run more pods later."""
    prebuilt: str
    """Name of the Workload that it names; empty for none."""
    grants: dict[int, float] = field(default_factory=dict)
    """When an elastic Job first ran that many pods in parallel within the quota."""

    def keep_grants(self, before: "_Job") -> None:
        """Keep what was granted before, but for no more pods than it wants now."""
        least = [at for count, at in sorted(before.grants.items()) if count >= self.pods]
        self.grants = {count: at for count, at in before.grants.items() if count < self.pods}
        if least:
            self.grants[self.pods] = min(least)


@dataclass
class Checker:
    """Takes events in the order in which the API server stored the objects.

    Attributes:
        queues: ClusterQueue of each namespace, for pods that name no LocalQueue.
        classes: DeviceClasses of GPUs, with their extended resource name or an empty one.
        window: seconds for which quota counts as in force after it was lowered.
        lost_node_seconds: how long a node must have been not ready.
        scarce: ClusterQueues with less room on nodes than quota: what waits there although it has
            quota is for `tests.chaos.rooms` to judge.
        violations: what was found so far.
        stopped: running pods whose deletion began, and running Jobs and PyTorchJobs that were
            suspended, while no
            Workload of theirs was evicted: a text by the uid of a pod, and by uid and
            resourceVersion of a suspended Job (``uid@version``).
        hurried: what was stopped although its notice had not ended, named likewise.
        halted: releases in a ClusterQueue that was stopped, by uid of the pod.
        unchecked: releases before the admission checks of a Workload were ready.
        overcap: releases above a cap of a user or LocalQueue.
        taken: Workloads of a group of pods that a Job controls, by namespace and name.
        raises: releases that were judged.
        surges: those of them that surge quota allowed.
        exercised: how often something happened that rules of the program are about.
    """

    queues: Mapping[str, str]
    classes: Mapping[str, str] = field(default_factory=lambda: GPU_CLASSES)
    window: float = 5.0
    lost_node_seconds: float = 300.0
    scarce: frozenset[str] = frozenset()
    violations: list[Violation] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    hurried: dict[str, str] = field(default_factory=dict)
    halted: dict[str, str] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)
    overcap: dict[str, str] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    raises: int = 0
    surges: int = 0
    exercised: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EXERCISED, 0))

    _pods: dict[str, _Pod] = field(default_factory=dict)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _devices: dict[Ref, int] = field(default_factory=dict)
    """GPUs of each claim."""
    _flavors: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of the nodes of each ResourceFlavor."""
    _local_queues: dict[Ref, Json] = field(default_factory=dict)
    _named: dict[str, str] = field(default_factory=dict)
    """LocalQueue that a pod named when it was released, by uid; empty for none."""
    _halted_since: dict[str, float] = field(default_factory=dict)
    """When each ClusterQueue was stopped that is."""
    _ready: set[str | Ref] = field(default_factory=set)
    """Uids of owners and names of Workloads whose admission checks have all been ready."""
    _preempted_at: dict[str, float] = field(default_factory=dict)
    """When the Workloads of owners were preempted that are, in seconds since 1970."""
    _inactive: set[str] = field(default_factory=set)
    """Uids of owners whose Workload is deactivated."""
    _template_devices: dict[Ref, int] = field(default_factory=dict)
    _cluster_queues: dict[str, Json] = field(default_factory=dict)
    _cohorts: dict[str, Json] = field(default_factory=dict)
    _quotas: list[tuple[float, dict[str, Amounts]]] = field(default_factory=list)
    """Quota by cohort, from a second on."""
    _job_of: dict[str, str] = field(default_factory=dict)
    """The Job that made each pod, also where it has left the pod since."""
    _surged: dict[str, float] = field(default_factory=dict)
    """When pods of two revisions of a Deployment were held in a ClusterQueue last."""
    _revived: dict[str, float] = field(default_factory=dict)
    """When pods held GPUs again because their node was back, by uid."""
    _evicted: set[str] = field(default_factory=set)
    """Uids of owners whose Workload is evicted."""
    _admitted_at: dict[str, float] = field(default_factory=dict)
    """Since when the Workload of each owner is admitted, by its uid."""
    _in_part: set[Ref] = field(default_factory=set)
    """Workloads that were admitted with fewer pods than they ask for."""
    _priorities: dict[str, int] = field(default_factory=dict)
    """Priority of the Workload of each owner, by its uid."""
    _told: set[tuple[str, str]] = field(default_factory=set)
    """What was counted as exercised."""
    _members: set[str] = field(default_factory=set)
    """Uids of pods that were seen in a group."""
    _late: set[str] = field(default_factory=set)
    """Uids of pods that were made after their Job was gone or being deleted."""
    _doubled: dict[str, Violation] = field(default_factory=dict)
    """What pods would violate that the Job controller has made as its cache was behind, by uid."""
    _lost_members: set[str] = field(default_factory=set)
    """Names of groups of which a pod is gone."""
    _groups_decided: dict[Ref, float] = field(default_factory=dict)
    """When a pod of a group was released while no other one ran."""
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
        self._settle_doubled(event.at)
        match event.kind:
            case "pods":
                self._take_pod(event)
            case "nodes":
                self._take_node(event)
            case "jobs" | "pytorchjobs":
                self._take_job(event)
            case "resourceclaims":
                self._take_claim(event)
            case "resourceclaimtemplates":
                self._take_template(event)
            case "clusterqueues":
                self._take_quota(self._cluster_queues, event)
            case "cohorts":
                self._take_quota(self._cohorts, event)
            case "workloads":
                self._take_workload(event)
            case "localqueues":
                self._take_local_queue(event)
            case "resourceflavors":
                self._take_flavor(event)
            case _:
                raise ValueError(f"nobody asked for {event.kind}")

    # ------------------------------------------------------------------------------- the rule

    def _take_pod(self, event: Event) -> None:
        if event.type == "RESET":
            self._pods.clear()
            return
        found = _read_pod(event.object, self.classes)
        before = self._pods.get(found.uid)
        if before is None and event.type == "ADDED" and self._is_late(found):
            self._late.add(found.uid)
        if event.type == "DELETED":
            self._pods.pop(found.uid, None)
            self._lost_members.add(found.group[0])
            return
        is_new_release = found.is_released and not (before is not None and before.is_released)
        if found.is_released:
            self._released.setdefault(found.uid, event.at)
            self._named.setdefault(found.uid, self._names(found))
        cohort = self._cohort_of(found)
        judged = is_new_release and bool(cohort) and event.type != "LISTED"
        held = self.held(cohort) if judged else Counter()
        self._pods[found.uid] = found
        if found.job:
            self._job_of[found.uid] = found.job
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

    def _judge(self, event: Event, pod: _Pod, cohort: str, before: Amounts) -> None:
        """Compare what a cohort holds after a release with its quota."""
        earlier, later = amounts.with_sums(before), amounts.with_sums(self.held(cohort))
        raised = sorted(
            (place for place in later if later[place] > earlier[place]),
            key=lambda place: (place[0] == ANY, place),
        )
        if not raised:
            return
        since = self._decided(pod, event.at) - self.window
        if pod.uid not in self._late:
            self.raises += 1
            self._note_places(pod, raised)
            self._judge_queue(event, pod, since)
        held = amounts.with_sums(
            self._cost(
                one
                for one in self._holders(cohort)
                if self._revived.get(one.uid, since) <= since
                and (one is pod or one.uid not in self._late | self._doubled.keys())
            )
        )
        self._note_surges(event.at)
        surge = amounts.with_sums(self._surge_quota(cohort, event.at))
        is_surge = False
        for place in raised:
            if not place[0]:
                continue  # only the sum is known
            quota = self._quota_in_force(cohort, place, since)
            is_surge |= held[place] > quota
            if held[place] <= quota + surge[place]:
                continue
            violation = Violation(
                pod="/".join(pod.ref),
                cohort=cohort,
                place=place,
                held=held[place],
                before=earlier[place],
                quota=quota + surge[place],
                version=event.object["metadata"]["resourceVersion"],
                at=event.at,
                holders=tuple(sorted(map(self._describe, self._holders(cohort)))),
            )
            if pod.uid in self._late or self._is_surplus(pod):
                self._doubled[pod.uid] = violation
            else:
                self.violations.append(violation)
            return
        self.surges += is_surge
        job = self._jobs.get(pod.job)
        if job is not None and job.is_elastic:
            job.grants.setdefault(self._running(pod.job), event.at)

    def _is_late(self, pod: _Pod) -> bool:
        """Return whether the Job of a pod is gone or being deleted."""
        job = self._jobs.get(pod.job)
        return bool(pod.job) and (job is None or job.is_being_deleted)

    def _is_surplus(self, pod: _Pod) -> bool:
        """Return whether the Job controller made a pod beyond what its Job runs in parallel."""
        job = self._jobs.get(pod.job)
        if job is None or job.kind != "Job" or not pod.is_made_by_controller:
            return False
        pods = [one for one in self._pods.values() if one.job == pod.job and self._holds(one)]
        return sum(one.ends_by is None for one in pods) > job.pods

    def _settle_doubled(self, now: float) -> None:
        """Forget pods made too many that are no surplus any more; report those that stay."""
        for uid, violation in list(self._doubled.items()):
            pod = self._pods.get(uid)
            is_there = pod is not None and self._holds(pod)
            is_beyond = uid in self._late or (pod is not None and self._is_surplus(pod))
            stays = is_there and is_beyond
            if stays and now - violation.at <= _DOUBLED_SECONDS:
                continue
            del self._doubled[uid]
            if stays:
                self._late.discard(uid)
                self.violations.append(violation)

    def _running(self, job: str) -> int:
        """Return how many pods of a Job hold devices."""
        return sum(1 for one in self._pods.values() if one.job == job and self._holds(one))

    def _note_places(self, pod: _Pod, raised: Iterable[Place]) -> None:
        """Count what a release says about flavors and resources."""
        queue = self._cluster_queues[self._queue_of(pod)]
        if any(len(_flavors(queue, resource)) > 1 for _, resource in raised):
            self._exercise("choices of a flavor", pod.uid)
        if any(resource != GPU for _, resource in raised):
            self._exercise("slices", pod.uid)

    def _judge_queue(self, event: Event, pod: _Pod, since: float) -> None:
        """Judge a release by what its queue says besides quota.

        Args:
            event: that showed the release.
            pod: that was released.
            since: second from which on what the queue said may have been what was decided by.
        """
        name = self._queue_of(pod)
        queue = self._cluster_queues[name]
        said = (
            f"pod {'/'.join(pod.ref)} was released in ClusterQueue {name} (second {event.at:.1f})"
        )
        halted = self._halted_since.get(name)
        admitted = self._admitted_at.get(pod.uid, event.at)  # what is admitted goes on
        since = min(since, admitted - self.window)
        if halted is not None and halted <= since and not (pod.group[0] or pod.prebuilt):
            self.halted[pod.uid] = f"{said}, which has been stopped since second {halted:.1f}"
        strategy = queue["spec"].get("admissionChecksStrategy") or {}
        if strategy.get("admissionChecks"):
            namespace = pod.ref[0]
            users = {pod.uid, pod.job, (namespace, pod.group[0]), (namespace, pod.prebuilt)}
            if users & self._ready:
                self._exercise("checked releases", pod.uid)
            else:
                self.unchecked[pod.uid] = f"{said} before its admission checks were ready"
        for whose, cap, pods in self._caps_of(pod):
            if not pod.is_single:
                continue
            self._exercise("starts in a capped queue", pod.uid)
            held = amounts.by_resource(
                self._cost(one for one in pods if self._revived.get(one.uid, since) <= since)
            )
            for resource, most in cap.items():
                if held[resource] > most:
                    self.overcap[pod.uid] = (
                        f"{said}: {held[resource]} {resource} of at most {most} {whose}"
                    )

    def _caps_of(self, pod: _Pod) -> Iterator[tuple[str, Counter[str], list[_Pod]]]:
        """Yield each cap of the queues of a pod: whose it is, by resource, the single pods in it.

        All single pods of a namespace have the same user. Pods of owners may exceed caps, as it
        may be unknown who created these.
        """
        name, label = self._queue_of(pod), self._names(pod) or "default"
        local = self._local_queues.get((pod.ref[0], label))
        single = [
            one
            for one in self._pods.values()
            if one.is_single and self._queue_of(one) == name and self._holds(one)
        ]
        if cap := amounts.caps(self._cluster_queues[name], MAX_PER_USER):
            yield f"for a user in ClusterQueue {name}", cap, single
        if local is not None and (cap := amounts.caps(local, MAX_IN_USE)):
            inside = [one for one in single if (self._names(one) or "default") == label]
            yield f"for LocalQueue {pod.ref[0]}/{label}", cap, inside

    def _decided(self, pod: _Pod, at: float) -> float:
        """Return the second at which the release of a pod was decided at the earliest."""
        if pod.group[0]:
            return self._group_decided(pod, at)
        job = self._jobs.get(pod.job)
        if job is None or job.is_suspended:
            return at
        running = self._running(pod.job)
        entitled = min(job.entitled, job.pods) if job.is_elastic else job.entitled
        granted = [since for count, since in job.grants.items() if count >= running]
        return min([*granted, job.started if running <= entitled else at])

    def _group_decided(self, pod: _Pod, at: float) -> float:
        """Return when the group of a pod that is released was decided."""
        name, total = pod.group
        group = (pod.ref[0], name)
        members = [
            member
            for member in self._pods.values()
            if (member.ref[0], member.group[0]) == group and self._holds(member)
        ]
        goes_on = any(member.uid != pod.uid and member.ends_by is None for member in members)
        if not goes_on or len(members) > total or group not in self._groups_decided:
            self._groups_decided[group] = at
        return self._groups_decided[group]

    def _quota_in_force(self, cohort: str, place: Place, since: float) -> int:
        most = 0
        for at, quotas in reversed(self._quotas):
            if cohort in quotas:
                most = max(most, amounts.with_sums(quotas[cohort])[place])
            if at <= since:
                break
        return most

    def _note_surges(self, at: float) -> None:
        """Note in which ClusterQueues pods of two revisions of a Deployment are held."""
        revisions: dict[Ref, set[str]] = defaultdict(set)
        for pod in self._pods.values():
            if pod.replica_set and self._holds(pod):
                deployment = pod.replica_set.rpartition("-")[0]
                revisions[self._queue_of(pod), deployment].add(pod.replica_set)
        for (queue, _), found in revisions.items():
            if len(found) > 1 and queue:
                self._surged[queue] = at

    def _surge_quota(self, cohort: str, at: float) -> Amounts:
        """Return how much surge quota the pods of a cohort may use: only those of rollouts do.

        Which of them surge is for the program to say, and it takes a while until none does.
        """
        pods: dict[str, list[_Pod]] = defaultdict(list)
        for pod in self._holders(cohort):
            if pod.replica_set:
                pods[self._queue_of(pod)].append(pod)
        total: Amounts = Counter()
        for name, found in pods.items():
            if at - self._surged.get(name, -_SURGE_SECONDS) < _SURGE_SECONDS:
                total += amounts.surge_quota(self._cluster_queues[name]) & self._cost(found)
        return total

    def held(self, cohort: str) -> Amounts:
        """Return what the pods of a cohort hold now; a shared claim counts once."""
        return self._cost(self._holders(cohort))

    def _holders(self, cohort: str) -> list[_Pod]:
        return [
            pod
            for pod in self._pods.values()
            if self._cohort_of(pod) == cohort and self._holds(pod)
        ]

    def _users(self, queue: str) -> list[_Pod]:
        """Return the pods that hold devices in a ClusterQueue."""
        return [
            pod for pod in self._pods.values() if self._queue_of(pod) == queue and self._holds(pod)
        ]

    def _holds(self, pod: _Pod) -> bool:
        return pod.is_held(self._nodes, self._wall, self.lost_node_seconds)

    def _cost(self, pods: Iterable[_Pod]) -> Amounts:
        total: Amounts = Counter()
        shared: dict[tuple[str, ...], tuple[str, int]] = {}
        for pod in pods:
            for resource, amount in pod.devices.items():
                total[self._flavor(pod, resource), resource] += amount
            for which, amount in self._claimed(pod):
                shared[which] = (self._flavor(pod, GPU), amount)
        for flavor, amount in shared.values():
            total[flavor, GPU] += amount
        return +total

    def _flavor(self, pod: _Pod, resource: str) -> str:
        """Return the flavor in which a pod holds a resource; empty where it is not known."""
        queue = self._cluster_queues.get(self._queue_of(pod))
        choices = self._choices(queue, resource, pod.selector, pod.node) if queue else []
        return choices[0] if len(choices) == 1 else ""

    def _choices(
        self, queue: Json, resource: str, selector: Mapping[str, str], node: str = ""
    ) -> list[str]:
        """Return the flavors of a ClusterQueue in which something may hold a resource."""
        covering = _flavors(queue, resource)
        if len(covering) <= 1:
            return covering
        wanted = {name: self._flavors.get(name, {}) for name in covering}
        if node in self._nodes:
            labels = self._nodes[node].labels
            return [name for name, one in wanted.items() if one.items() <= labels.items()]
        named = [name for name, one in wanted.items() if one.items() <= selector.items()]
        return named or [
            name
            for name, one in wanted.items()
            if all(selector.get(key, value) == value for key, value in one.items())
        ]

    def _claimed(self, pod: _Pod) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield what tells each claim of a pod from others, with its number of devices."""
        namespace = pod.ref[0]
        for entry, claim in pod.claims:
            if claim and (namespace, claim) in self._devices:
                yield (namespace, claim), self._devices[namespace, claim]
            elif template := pod.templates.get(entry):
                yield (pod.uid, entry), self._template_devices.get((namespace, template), 0)

    def _describe(self, pod: _Pod) -> str:
        own = amounts.text(self._cost([pod]))
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
            labels=event.object["metadata"].get("labels") or {},
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
            is_being_deleted="deletionTimestamp" in event.object["metadata"],
            queue=_marks(event.object).get(QUEUE_NAME, ""),
            selector=runs[0][1]["spec"].get("nodeSelector") or {},
            pods=sum(count for count, _ in runs),
            devices=self._of_templates(runs),
            started=0.0 if event.type == "LISTED" else event.at,
            entitled=sum(count for count, _ in runs),
            is_elastic=_marks(event.object).get(ELASTIC) == "true",
            prebuilt=_marks(event.object).get(PREBUILT, ""),
        )
        if before is not None and not before.is_suspended and not found.is_suspended:
            found.started, found.entitled = before.started, before.entitled
            found.keep_grants(before)
        self._jobs[uid] = found
        if before is not None and found.is_suspended and not before.is_suspended:
            running = [one for one in self._pods.values() if one.job == uid and self._holds(one)]
            # Whoever lets it run other pods than were admitted has it stopped.
            is_changed = found.pods != before.entitled
            key = f"{uid}@{event.object['metadata']['resourceVersion']}"
            if running:
                said = f"{kind} {'/'.join(found.ref)} was suspended"
                self._note_hurry(uid, key, self._queue_of(running[0]), event, said)
            if running and uid not in self._evicted and not is_changed:
                self.stopped[key] = (
                    f"{kind} {'/'.join(found.ref)} was suspended with {len(running)} pods running "
                    f"(second {event.at:.1f})"
                )

    def _of_templates(self, runs: Iterable[tuple[int, Json]]) -> Counter[str]:
        """Return what all pods of templates ask for by name."""
        found: Counter[str] = Counter()
        for count, template in runs:
            for resource, amount in amounts.asked(template["spec"], self.classes).items():
                found[resource] += count * amount
        return found

    def _note_hurry(self, owner: str, key: str, queue: str, event: Event, said: str) -> None:
        """Compare when something that was preempted is stopped with the notice of its queue.

        A queue that is stopped, and a Workload that is deactivated, end a notice.
        """
        evicted = self._preempted_at.get(owner)
        found = self._cluster_queues.get(queue)
        text = (found["metadata"].get("annotations") or {}).get(NOTICE, "") if found else ""
        if evicted is None or not text or owner in self._inactive or queue in self._halted_since:
            return
        runs_on = event.wall - evicted
        if runs_on < float(text.removesuffix("s")) - _ROUNDED_SECONDS:
            self.hurried[key] = f"{said} {runs_on:.1f} s after it was preempted, notice {text}"
        else:
            self._exercise("notices kept", key)

    def _note_stop(self, pod: _Pod, event: Event) -> None:
        """Note that the deletion of a running pod begins."""
        if not pod.node or not self._holds(pod):
            return
        said = f"pod {'/'.join(pod.ref)} was stopped"
        self._note_hurry(pod.uid, pod.uid, self._queue_of(pod), event, said)
        if pod.uid in self._evicted:
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
            self._in_part.clear()
            self._admitted_at.clear()
            return
        self._note_part(event)
        owners = {one["uid"] for one in event.object["metadata"].get("ownerReferences") or ()}
        conditions = event.object.get("status", {}).get("conditions") or ()
        is_active = event.object["spec"].get("active", True)
        uid = event.object["metadata"].get("uid", "")
        self._priorities |= dict.fromkeys(owners, event.object["spec"].get("priority") or 0)
        if _SLICE in (event.object["metadata"].get("annotations") or {}):
            self._exercise("elastic steps", uid)
        is_admitted = event.type != "DELETED" and any(
            one["type"] == "Admitted" and one["status"] == "True" for one in conditions
        )
        for owner in owners:
            if is_admitted:
                self._admitted_at.setdefault(owner, event.at)
            else:
                self._admitted_at.pop(owner, None)
        for one in conditions:
            if one["type"] == "Preempted" and one["status"] == "True":
                self._exercise("preemptions", f"{uid} {one['lastTransitionTime']}")
        checks = event.object.get("status", {}).get("admissionChecks") or ()
        if checks and all(one["state"] == "Ready" for one in checks):
            self._ready |= {*owners, _ref(event.object)}
        self._note_preempted(owners, event)
        self._note_taken(event)
        if not is_active or any(
            one["type"] == "Evicted" and one["status"] == "True" for one in conditions
        ):
            self._evicted |= owners
        elif event.type != "DELETED":
            self._evicted -= owners

    def _note_taken(self, event: Event) -> None:
        """Note a Workload that pods own together, and that a Job controls."""
        metadata = event.object["metadata"]
        owners = metadata.get("ownerReferences") or ()
        jobs = [
            one["name"] for one in owners if one.get("kind") == "Job" and one.get("controller")
        ]
        pods = sorted(one["name"] for one in owners if one.get("kind") == "Pod")
        if jobs and pods:
            workload = "/".join(_ref(event.object))
            said = (
                f"Workload {workload} is of pods {', '.join(pods)}, and Job {jobs[0]} has taken it"
            )
            self.taken[workload] = said

    def _note_part(self, event: Event) -> None:
        """Note whether a Workload holds quota for fewer pods than it asks for."""
        admission = event.object.get("status", {}).get("admission") or {}
        admitted = [one.get("count", 0) for one in admission.get("podSetAssignments") or ()]
        asked = [one.get("count", 1) for one in event.object["spec"].get("podSets") or ()]
        is_in_part = bool(admitted) and sum(admitted) < sum(asked) and event.type != "DELETED"
        (self._in_part.add if is_in_part else self._in_part.discard)(_ref(event.object))

    def _note_preempted(self, owners: Iterable[str], event: Event) -> None:
        """Note whether the Workload of owners is preempted, and whether it is deactivated."""
        is_gone = event.type == "DELETED"
        is_active = is_gone or event.object["spec"].get("active", True)
        preempted = [
            one
            for one in event.object.get("status", {}).get("conditions") or ()
            if (one["type"], one["status"], one.get("reason")) == ("Evicted", "True", "Preempted")
        ]
        for owner in owners:
            (self._inactive.discard if is_active else self._inactive.add)(owner)
            self._preempted_at.pop(owner, None)
            if preempted and not is_gone:
                self._preempted_at[owner] = _seconds(preempted[0]["lastTransitionTime"])

    def _take_claim(self, event: Event) -> None:
        """Take what a claim asks for, or what it was given."""
        if event.type == "RESET":
            self._devices.clear()
        elif event.type != "DELETED":  # pods that hold it still do
            given = amounts.allocated(event.object)
            if given:
                self._exercise("claims allocated", event.object["metadata"]["uid"])
            wanted = amounts.claimed(event.object["spec"], self.classes)
            self._devices[_ref(event.object)] = wanted if given is None else given

    def _take_template(self, event: Event) -> None:
        if event.type == "RESET":
            self._template_devices.clear()
        elif event.type != "DELETED":
            wanted = amounts.claimed(event.object["spec"]["spec"], self.classes)
            self._template_devices[_ref(event.object)] = wanted

    def _take_local_queue(self, event: Event) -> None:
        if event.type == "RESET":
            self._local_queues.clear()
        elif event.type == "DELETED":
            self._local_queues.pop(_ref(event.object), None)
        else:
            self._local_queues[_ref(event.object)] = event.object

    def _take_flavor(self, event: Event) -> None:
        if event.type == "RESET":
            self._flavors.clear()
        elif event.type != "DELETED":
            labels = event.object["spec"].get("nodeLabels") or {}
            self._flavors[event.object["metadata"]["name"]] = labels

    def _take_quota(self, record: dict[str, Json], event: Event) -> None:
        if event.type == "RESET":
            record.clear()
        elif event.type == "DELETED":
            record.pop(event.object["metadata"]["name"], None)
        else:
            record[event.object["metadata"]["name"]] = event.object
        if event.kind == "clusterqueues":
            self._note_halted(event.at)
        quotas = self.quotas()
        if event.type != "RESET" and (not self._quotas or self._quotas[-1][1] != quotas):
            self._quotas.append((event.at, quotas))

    def _note_halted(self, at: float) -> None:
        """Note since when each ClusterQueue is stopped."""
        stopped = {name for name in self._cluster_queues if self._is_stopped(name)}
        self._halted_since = {name: self._halted_since.get(name, at) for name in sorted(stopped)}
        for name in stopped:
            self._exercise("stops of a queue", f"{name} {self._halted_since[name]}")

    def quotas(self) -> dict[str, Amounts]:
        """Return the sum of nominal quota of each cohort now."""
        found: dict[str, Amounts] = defaultdict(Counter)
        for name, queue in self._cluster_queues.items():
            found[self._root(name)] += amounts.nominal(queue)
        for name, cohort in self._cohorts.items():
            found[self._top(name)] += amounts.nominal(cohort)
        return dict(found)

    def _names(self, pod: _Pod) -> str:
        """Return the LocalQueue that a pod or its Job names, or named when it was released."""
        if pod.uid in self._named:
            return self._named[pod.uid]
        job = self._jobs.get(pod.job)
        return pod.queue or (job.queue if job is not None else "")

    def _queue_of(self, pod: _Pod) -> str:
        """Return the ClusterQueue of a pod; empty where it has none."""
        return self._cluster_queue(pod.ref[0], self._names(pod))

    def _has_queue(self, namespace: str, name: str) -> bool:
        """Return whether what names a LocalQueue, or none, has one that it may wait in."""
        return not name or (namespace, name) in self._local_queues

    def _cluster_queue(self, namespace: str, name: str) -> str:
        """Return the ClusterQueue of what names a LocalQueue in a namespace."""
        local = self._local_queues.get((namespace, name))
        if local is None or namespace not in self.queues:
            return self.queues.get(namespace, "")
        return str(local["spec"]["clusterQueue"])

    def _cohort_of(self, pod: _Pod) -> str:
        """Return the cohort of a pod; empty where it has no queue."""
        queue = self._queue_of(pod)
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
        """Return where ClusterQueues are charged for what no pod holds, with a text."""
        return {
            place: f"{said}: {self._described(name)}"
            for place, name, said, charged, held in self._charges()
            if charged > held
        }

    def uncharged(self) -> dict[str, str]:
        """Return where ClusterQueues are not charged for all that their pods hold, with a text."""
        return {
            place: f"{said}: {self._described(name)}"
            for place, name, said, charged, held in self._charges()
            if charged < held
        }

    def _described(self, queue: str) -> str:
        return "; ".join(self._describe(one) for one in self._users(queue)) or "no pods"

    def _charges(self) -> Iterator[tuple[str, str, str, int, int]]:
        """Yield for each place of each ClusterQueue what its status says and what its pods hold.

        The text that names the place comes first, then the name of the ClusterQueue and a text
        that says both amounts.
        """
        for name, queue in sorted(self._cluster_queues.items()):
            charged, held = amounts.charged(queue), self._cost(self._users(name))
            for place in sorted({*charged, *held}):
                what = f"ClusterQueue {name} is charged {charged[place]} {'/'.join(place)}"
                text = f"{what}, its pods hold {held[place]}"
                yield f"{name} {'/'.join(place)}", name, text, charged[place], held[place]

    def _together(self, pod: _Pod) -> list[_Pod]:
        """Return the pods that wait and are to start with one; none while its group lacks pods.

        A group with fast admission asks for all its pods once one is there; one that lacks is like
        the first.
        """
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
        lacking = [pod] * (total - len(there))
        waiting = [one for one in there if not one.is_released]
        return [*waiting, *lacking] if is_whole and waiting else []

    def half(self) -> dict[str, str]:
        """Return the groups of which some pods run while others wait, with a text.

        The group of a StatefulSet may: if its Workload and a pod were lost at once, and others had
        got the quota of that pod, it was admitted again with the pods that ran. Its other pods
        wait, and say that the set is to be scaled to 0 and back.
        """
        waiting: set[Ref] = set()
        running: set[Ref] = set()
        for pod in self._pods.values():
            name, _ = pod.group
            is_in_part = pod.is_fast and (pod.ref[0], name) in self._in_part
            is_there = not pod.is_gone and pod.ends_by is None and not pod.has_ended
            if name and is_there and not is_in_part:
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
            name = self._queue_of(pod)
            is_over = pod.is_gone or pod.ends_by is not None or pod.has_ended
            if pod.is_released or is_over or pod.claims or name not in self._cluster_queues:
                continue
            if not self._has_queue(pod.ref[0], self._names(pod)):
                continue
            priority, wanted = self._priorities.get(pod.uid), self._together(pod)
            if priority is None or not wanted or self._is_stopped(name) or name in self.scarce:
                continue
            kept = [
                one
                for one in self._users(name)
                if one.ends_by is not None or self._priority(one, priority) >= priority
            ]
            quota = amounts.nominal(self._cluster_queues[name])
            if self._fits(pod, wanted, kept, quota) and not self._is_capped(pod, wanted):
                found[pod.uid] = (
                    f"pod {'/'.join(pod.ref)} with priority {priority} waits: pods with this "
                    f"priority or a higher one hold {amounts.text(self._cost(kept))} of "
                    f"{amounts.text(quota)} of {name}"
                )
        return found

    def _fits(
        self, pod: _Pod, wanted: Iterable[_Pod], holders: Iterable[_Pod], quota: Amounts
    ) -> bool:
        """Return whether pods of the queue of one fit beside holders into a quota."""
        queue, holders = self._cluster_queues[self._queue_of(pod)], list(holders)
        held = self._cost(holders)
        need = amounts.by_resource(self._cost([*holders, *wanted]))
        need.subtract(amounts.by_resource(held))
        choices = {one: self._choices(queue, one, pod.selector) for one in need}
        return amounts.fits(need, _without(quota, held), choices)

    def _is_capped(self, pod: _Pod, wanted: Iterable[_Pod]) -> bool:
        """Return whether a cap may keep pods waiting, whoever holds what counts for it."""
        name, label = self._queue_of(pod), self._names(pod) or "default"
        need = amounts.by_resource(self._cost(wanted))
        users = self._users(name)
        inside = [
            one
            for one in users
            if (one.ref[0], self._names(one) or "default") == (pod.ref[0], label)
        ]
        local = self._local_queues.get((pod.ref[0], label))
        found = [(amounts.caps(self._cluster_queues[name], MAX_PER_USER), users)]
        if local is not None:
            found.append((amounts.caps(local, MAX_IN_USE), inside))
        return any(
            amounts.by_resource(self._cost(pods))[resource] + need[resource] > most
            for cap, pods in found
            for resource, most in cap.items()
        )

    def _priority(self, pod: _Pod, unknown: int) -> int:
        """Return the priority of the Workload of a pod that holds GPUs.

        A pod that its Job has left keeps that of the Job, whether it has a Workload or not.
        """
        job = pod.job or self._job_of.get(pod.uid, "")
        return self._priorities.get(pod.uid, self._priorities.get(job, unknown))

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
        found = {}
        for pod in self._pods.values():
            cohort = self._cohort_of(pod)
            is_over = pod.is_gone or pod.ends_by is not None or pod.has_ended
            claims_exist = all(
                pod.templates.get(entry) or (pod.ref[0], claim) in self._devices
                for entry, claim in pod.claims
            )
            if pod.is_released or is_over or not cohort or not claims_exist:
                continue
            if not self._has_queue(pod.ref[0], self._names(pod)):
                continue
            if pod.prebuilt and pod.uid not in self._priorities:
                continue  # the Workload that it names is not there, or another's
            wanted, name = self._together(pod), self._queue_of(pod)
            if not wanted or self._is_stopped(name) or name in self.scarce:
                continue
            holders = self._holders(cohort)
            if self._fits(pod, wanted, holders, quotas[cohort]) and not self._is_capped(
                pod, wanted
            ):
                free = _without(quotas[cohort], self.held(cohort))
                need = amounts.by_resource(self._cost(wanted))
                found[pod.uid] = (
                    f"pod {'/'.join(pod.ref)} waits for {dict(need)}, "
                    f"free in {cohort}: {amounts.text(free)}"
                )
        for uid, job in self._jobs.items():
            name = self._cluster_queue(job.ref[0], job.queue)
            queue = self._cluster_queues.get(name)
            if not self._has_queue(job.ref[0], job.queue):
                continue
            if queue is None or not job.is_suspended or job.is_over or self._is_stopped(name):
                continue
            if not job.pods or name in self.scarce:
                continue  # it has no pod that could wait, or nodes decide
            if job.prebuilt and uid not in self._priorities:
                continue  # the Workload that it names is not there, or another's
            cohort = self._root(name)
            free = _without(quotas[cohort], self.held(cohort))
            choices = {one: self._choices(queue, one, job.selector) for one in job.devices}
            if amounts.fits(job.devices, free, choices) and not self._is_job_capped(job, name):
                found[uid] = (
                    f"{job.kind} {'/'.join(job.ref)} waits for {dict(job.devices)}, "
                    f"free in {cohort}: {amounts.text(free)}"
                )
        return found

    def _is_job_capped(self, job: _Job, name: str) -> bool:
        """Return whether there are caps that may keep a Job waiting."""
        local = self._local_queues.get((job.ref[0], job.queue or "default"))
        return bool(amounts.caps(self._cluster_queues[name], MAX_PER_USER)) or (
            local is not None and bool(amounts.caps(local, MAX_IN_USE))
        )


def _without(quota: Amounts, held: Amounts) -> Amounts:
    """Return what is left of a quota; below zero where more is held."""
    found = Counter(quota)
    found.subtract(held)
    return found


def _flavors(queue: Json, resource: str) -> list[str]:
    """Return the flavors of a ClusterQueue that have quota for a resource."""
    return [
        flavor["name"]
        for group in queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        if any(one["name"] == resource for one in flavor["resources"])
    ]


def _marks(document: Json) -> Json:
    """Return labels and annotations; an annotation wins."""
    metadata = document["metadata"]
    return {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}


def _read_pod(document: Json, classes: Mapping[str, str]) -> _Pod:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status", {})
    made = {one["name"]: one.get("resourceClaimName", "") for one in _claim_statuses(status)}
    entries = spec.get("resourceClaims") or ()
    owners = metadata.get("ownerReferences") or ()
    deleted = metadata.get("deletionTimestamp")
    marks = _marks(document)
    return _Pod(
        uid=metadata["uid"],
        ref=_ref(document),
        devices=amounts.asked(spec, classes),
        queue=marks.get(QUEUE_NAME, ""),
        selector=spec.get("nodeSelector") or {},
        prebuilt=marks.get(PREBUILT, ""),
        is_single=not any(one.get("controller") for one in owners),
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
        is_made_by_controller=any(
            entry.get("manager") == _JOB_CONTROLLER and not entry.get("subresource")
            for entry in metadata.get("managedFields") or ()
        ),
        ends_by=_seconds(deleted) if deleted else None,
    )


def _claim_statuses(status: Json) -> Iterable[Json]:
    found: Iterable[Json] = status.get("resourceClaimStatuses") or ()
    return found


def _ref(document: Json) -> Ref:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
