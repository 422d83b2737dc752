"""Judge from outside whether what is admitted has a place: from pods, nodes and Workloads alone.

It looks at one namespace, whose pods run on nodes of one product. The rules:

- When a pod is released, it has room beside the pods that were released and have no node yet. Pods
  whose Workload got its quota before something changed on the nodes, or less than
  `DECIDED_SECONDS` after that, are left out (`nowhere`).
- A released pod has a node within `PLACED_SECONDS`. Where something changed on the nodes since
  `DECIDED_SECONDS` before its Workload got its quota, it has a node once there has been room for
  it for so long (`nowhere`). A pod that selects a host has room only there.
- What others were preempted for gets a node (`in_vain`), unless something changed on the nodes, or
  something of the same priority or a higher one came, after the preemption.
- Where everything is calm, nothing waits that has quota and nodes (`kept_out`).
- Pods of a Job or group that have to be in one domain are in one: those that run, and those that
  were told a host (`scattered`). All pods of a Job or group are of one pod set.
- No pod of a Job is told a host for longer than `STRANDED_SECONDS` that is gone, or that takes no
  pods and on which no other pod of the Job goes on (`stranded`).

Something changes on the nodes when a node comes, goes, or gets other labels, taints or GPUs, when
a pod of another namespace is bound, and when the scheduler binds a pod to another node than those
that the pod prefers: it weighs other things besides.

This module imports nothing of the program. Seconds are those of `tests.chaos.checker`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos import amounts
from tests.chaos.amounts import GPU
from tests.chaos.checker import Event, Json, Ref

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
PLACED_SECONDS: Final = 10.0
"""What the scheduler needs at most, its back-off of 10 s after a try in vain included."""
RESTARTED_SECONDS: Final = 60.0
"""After a store was put back: the scheduler starts anew, and first says of hundreds of pods that
they have gates, 50 a second."""
DECIDED_SECONDS: Final = 5.0
"""From what a decision is made on until it is written."""
PREEMPTED_SECONDS: Final = 20.0
"""From a preemption until the preemptor has a node: victims end within 3 s of grace."""
STRANDED_SECONDS: Final = 15.0
"""Until pods have another host: a controller that takes over from another one may need 8 s."""
_MOST_PODS: Final = 8
"""For more of them not every way to place them is tried."""
EXERCISED: Final = ("placed on nodes", "preemptions for a place", "changes of nodes")
DOMAINS_EXERCISED: Final = ("told a host", "pods in one domain", "hosts lost under pods")
"""Besides, where pods have to be in one domain."""
_ELSEWHERE: Final = "bound elsewhere than preferred"
_HOSTNAME: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
_TOLERATED: Final = frozenset({"nvidia.com/gpu"})
_PREEMPTOR: Final = re.compile(r"Preempted to accommodate a workload \(UID: ([^,)]+)")
"""Kueue's message of the condition Preempted."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a node has for pods of the product.

    Attributes:
        gpus: allocatable; 0 where the node takes no pods.
        closed_by: what keeps pods away: a taint, a cordon, or that it is not ready; empty for
            nothing.
        domain: that it is in; empty for none.
    """

    gpus: int
    closed_by: str
    domain: str

    @property
    def is_open(self) -> bool:
        """Whether it takes pods."""
        return not self.closed_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A pod that runs on the nodes or wants to.

    Attributes:
        uid: of the pod.
        ref: namespace and name.
        job: uid of its controller; empty for none.
        group: name and number of pods of its group; an empty name for none.
        gpus: what it asks for.
        node: empty for none.
        is_released: it has a node or no scheduling gate.
        is_over: it has ended, or is being deleted without a node.
        is_ending: it is being deleted.
        host: name of the node that it selects; empty for any.
        has_level: all of its Job or group have to be in one domain.
        preferred: names of the nodes that it prefers to others.
    """

    uid: str
    ref: Ref
    job: str
    group: tuple[str, int]
    gpus: int
    node: str
    is_released: bool
    is_over: bool
    is_ending: bool
    host: str
    has_level: bool
    preferred: frozenset[str]

    @property
    def unit(self) -> str:
        """What tells its Job or group from others; its own uid for a single pod."""
        return self.job or self.group[0] or self.uid

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended and is not being deleted."""
        return not (self.is_over or self.is_ending)


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who was preempted for whom, and when."""

    victim: Ref
    preemptor: str
    at: float


@dataclass
class RoomJudge:
    """Takes the events that `tests.chaos.checker` takes.

    Attributes:
        namespace: whose pods are judged.
        queue: its ClusterQueue, which has no cohort and one flavor.
        product: of the nodes.
        level: label of nodes that says their domain, which pods may require; empty for none.
        nowhere: released pods that no node took in time, by uid.
        in_vain: preemptions whose preemptor got no node in time, by uid of the preemptor.
        scattered: Jobs and groups whose pods have to be in one domain and are in several.
        stranded: pods that were told a host that takes none, by uid.
        exercised: how often something happened that the rules are about.
    """

    namespace: str
    queue: str
    product: str
    level: str = ""
    nowhere: dict[str, str] = field(default_factory=dict)
    in_vain: dict[str, str] = field(default_factory=dict)
    scattered: dict[str, str] = field(default_factory=dict)
    stranded: dict[str, str] = field(default_factory=dict)
    exercised: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EXERCISED, 0))

    _rooms: dict[str, Room] = field(default_factory=dict)
    _guests: dict[str, Guest] = field(default_factory=dict)
    """Pods of the namespace, and pods of others that are bound, by uid.

    A store that was put back may show these before their nodes.
    """
    _released: dict[str, float] = field(default_factory=dict)
    _reserved: dict[str, float] = field(default_factory=dict)
    """When Workloads got the quota that they have, by uids of owners and names of Workloads."""
    _bound: set[str] = field(default_factory=set)
    """Uids of pods that were bound, and of their controllers and groups."""
    _workloads: dict[str, Json] = field(default_factory=dict)
    """Workloads of the namespace by uid."""
    _preemptions: dict[str, Preemption] = field(default_factory=dict)
    """By uid of the preempted Workload; the last one each."""
    _came: list[tuple[float, int]] = field(default_factory=list)
    """When Workloads came, or waited again, and with which priority."""
    _domains: dict[str, str] = field(default_factory=dict)
    """Domain of each node, also of those that are gone."""
    _away: dict[str, float] = field(default_factory=dict)
    """Since when pods have been told a host that takes none, by uid."""
    _room_since: dict[str, float] = field(default_factory=dict)
    """Since when there has been room for pods that wait for a node, by uid."""
    _told: set[str] = field(default_factory=set)
    """What was counted as exercised."""
    _quota: int = 0
    _is_stopped: bool = False
    _changed: float = 0.0
    """When something changed on the nodes last."""
    _restarted: float = -RESTARTED_SECONDS
    """When the store was put back last."""

    def __post_init__(self) -> None:
        if self.level:
            self.exercised |= dict.fromkeys(DOMAINS_EXERCISED, 0)

    def take(self, event: Event) -> None:
        """Take one event, and judge what should have happened until now."""
        match event.kind:
            case "nodes":
                self._take_node(event)
            case "pods":
                self._take_pod(event)
            case "workloads":
                self._take_workload(event)
            case "clusterqueues":
                self._take_queue(event)
            case _:
                pass
        self._judge(event.at)

    # ------------------------------------------------------------------------------ the record

    def _take_node(self, event: Event) -> None:
        if event.type == "RESET":
            self._rooms.clear()
            self._changed = event.at
            return
        name = event.object["metadata"]["name"]
        before = self._rooms.pop(name, None)
        labels = event.object["metadata"].get("labels") or {}
        room = None
        if event.type != "DELETED" and labels.get(PRODUCT_LABEL) == self.product:
            room = self._rooms[name] = _read_room(event.object, self.level)
            self._domains[name] = room.domain
        if room != before:
            self._changed = event.at
            self.exercised["changes of nodes"] += 1
            is_lost = before is not None and before.is_open and not (room and room.is_open)
            if self.level and is_lost and any(pod.host == name for pod in self._told_pods()):
                self.exercised["hosts lost under pods"] += 1

    def _take_pod(self, event: Event) -> None:
        if event.type == "RESET":
            self._guests.clear()
            self._released.clear()
            self._changed = self._restarted = event.at
            return
        pod = _read_guest(event.object)
        before = self._guests.get(pod.uid)
        is_ours = pod.ref[0] == self.namespace
        if event.type == "DELETED" or not (is_ours or pod.node):
            self._guests.pop(pod.uid, None)
            return
        self._guests[pod.uid] = pod
        if not is_ours:
            if pod.node in self._rooms and (before is None or before.node != pod.node):
                self._changed = event.at
            return
        if pod.is_released and pod.uid not in self._released:
            is_listed = event.type == "LISTED"
            self._released[pod.uid] = self._changed if is_listed else event.at
            if event.type != "LISTED":
                self._judge_release(pod, event.at)
        if self.level:
            self._judge_domains(pod, event.at)
        is_bound_now = bool(pod.node and before is not None and not before.node)
        if is_bound_now and pod.preferred and pod.node not in pod.preferred:
            self._changed = event.at
            self.exercised[_ELSEWHERE] = self.exercised.get(_ELSEWHERE, 0) + 1
        if pod.node and pod.uid not in self._bound:
            self._bound |= {pod.uid, pod.job, pod.group[0]} - {""}
            self.exercised["placed on nodes"] += 1

    def _take_workload(self, event: Event) -> None:
        if event.type == "RESET":
            self._workloads.clear()
            self._reserved.clear()
            self._changed = event.at
            return
        metadata = event.object["metadata"]
        if metadata["namespace"] != self.namespace:
            return
        uid = metadata["uid"]
        before = self._workloads.pop(uid, None)
        owners = [owner["uid"] for owner in metadata.get("ownerReferences") or ()]
        for key in (metadata["name"], *owners):
            if event.type == "DELETED" or not _reserves(event.object):
                self._reserved.pop(key, None)
            else:
                self._reserved.setdefault(key, event.at)
        if event.type == "DELETED":
            return
        self._workloads[uid] = event.object
        if before is None or (_reserves(before) and not _reserves(event.object)):
            self._came.append((event.at, _priority(event.object)))
        condition = _condition(event.object, "Preempted")
        earlier = None if before is None else _condition(before, "Preempted")
        if condition is None or condition == earlier:
            return
        if preemptor := _PREEMPTOR.match(condition.get("message", "")):
            victim = (metadata["namespace"], metadata["name"])
            self._preemptions[uid] = Preemption(victim, preemptor[1], event.at)
            self.exercised["preemptions for a place"] += 1

    def _take_queue(self, event: Event) -> None:
        if event.type == "RESET" or event.object["metadata"]["name"] != self.queue:
            return
        self._quota = sum(amounts.nominal(event.object).values())
        is_stopped = str(event.object["spec"].get("stopPolicy", "None")) != "None"
        if is_stopped != self._is_stopped:
            self._changed = event.at  # nothing is admitted meanwhile
        self._is_stopped = is_stopped

    # ------------------------------------------------------------------------------- the rules

    def _judge_release(self, pod: Guest, now: float) -> None:
        pods = [
            guest
            for guest in self._guests.values()
            if self._waits_for_a_node(guest)
            and self._released[guest.uid] > self._changed
            and self._is_decided_on_these_nodes(guest, now)  # else its room may have gone since
        ]
        is_judged = pod in pods and len(pods) <= _MOST_PODS
        if is_judged and not can_place(pods, self._free()):
            needs = " + ".join(
                f"{pod.gpus} on {pod.host}" if pod.host else f"{pod.gpus}" for pod in pods
            )
            self.nowhere[pod.uid] = (
                f"pod {_text(pod.ref)} of {pod.gpus} GPUs was released at second {now:.1f}; the"
                f" released pods without a node need {needs} GPUs;"
                f" {self._rooms_text()}; nodes changed last at second {self._changed:.1f}"
            )

    def _is_decided_on_these_nodes(self, pod: Guest, now: float) -> bool:
        """Return whether nothing changed on the nodes when a pod got its quota, or after that."""
        decided = min(self._reserved.get(key, now) for key in (pod.uid, pod.job, pod.group[0]))
        return decided - self._changed > DECIDED_SECONDS

    def _judge_domains(self, pod: Guest, now: float) -> None:
        """Judge whether all of a Job or group is in the domain of a pod that was told a host."""
        if not (pod.has_level and pod.goes_on and (pod.node or pod.host) and pod.is_released):
            return
        pods = [guest for guest in self._told_pods() if guest.unit == pod.unit]
        domains = {self._domains.get(guest.node or guest.host, "?") for guest in pods}
        self._exercise("told a host", pod.uid)
        if len(pods) > 1:
            self._exercise("pods in one domain", pod.unit)
        if len(domains) > 1:
            places = ", ".join(
                f"{_text(guest.ref)} on {guest.node or guest.host}" for guest in pods
            )
            text = f"{places} have to be in one domain and are in {', '.join(sorted(domains))}"
            self.scattered.setdefault(pod.unit, f"{text}, second {now:.1f}")

    def _told_pods(self) -> list[Guest]:
        """Return the pods that go on and have a node, or were told a host."""
        return [
            guest
            for guest in self._guests.values()
            if guest.ref[0] == self.namespace
            and guest.is_released
            and guest.goes_on
            and (guest.node or guest.host)
        ]

    def _exercise(self, what: str, which: str) -> None:
        """Count something once."""
        if f"{what} {which}" not in self._told:
            self._told.add(f"{what} {which}")
            self.exercised[what] += 1

    def _judge(self, now: float) -> None:
        if now - self._restarted <= RESTARTED_SECONDS:
            return
        waiting = [pod for pod in self._guests.values() if self._waits_for_a_node(pod)]
        free = self._free() if waiting else {}
        self._room_since = {
            pod.uid: self._room_since.get(pod.uid, now)
            for pod in waiting
            if can_place([pod], free)
        }
        for pod in waiting:
            since = self._released[pod.uid]
            if since <= self._changed or not self._is_decided_on_these_nodes(pod, now):
                since = max(self._changed, self._room_since.get(pod.uid, now))
            if now - since > PLACED_SECONDS and pod.uid not in self.nowhere:
                self.nowhere[pod.uid] = (
                    f"pod {_text(pod.ref)} of {pod.gpus} GPUs was released at second"
                    f" {self._released[pod.uid]:.1f} and has no node at second {now:.1f}; nodes"
                    f" changed last at second {self._changed:.1f}; {self._rooms_text()}"
                )
        self._judge_hosts(now)
        for uid, preemption in list(self._preemptions.items()):
            if now - max(preemption.at, self._changed) <= PREEMPTED_SECONDS:
                continue
            del self._preemptions[uid]
            if preemption.at > self._changed and (text := self._vain_text(preemption, now)):
                self.in_vain.setdefault(preemption.preemptor, text)

    def _judge_hosts(self, now: float) -> None:
        """Find the pods of Jobs that wait for a host that takes none."""
        away = {
            pod.uid: pod
            for pod in self._guests.values()
            if pod.job and pod.host and self._waits_for_a_node(pod) and self._is_lost(pod)
        }
        self._away = {uid: self._away.get(uid, now) for uid in away}
        for uid, pod in away.items():
            if now - self._away[uid] > STRANDED_SECONDS and uid not in self.stranded:
                self.stranded[uid] = (
                    f"pod {_text(pod.ref)} has been told {pod.host} for"
                    f" {now - self._away[uid]:.1f} s, which takes no pods; second {now:.1f};"
                    f" {self._rooms_text()}"
                )

    def _is_lost(self, pod: Guest) -> bool:
        """Return whether the host of a pod is gone, or closed without others of its Job."""
        room = self._rooms.get(pod.host)
        if room is None:
            return True
        return not room.is_open and not any(
            (guest.unit, guest.node) == (pod.unit, pod.host) for guest in self._told_pods()
        )

    def _waits_for_a_node(self, pod: Guest) -> bool:
        is_ours = pod.ref[0] == self.namespace
        return is_ours and pod.is_released and not (pod.node or pod.is_over or pod.is_ending)

    def _vain_text(self, preemption: Preemption, now: float) -> str:
        """Return how something was preempted in vain; empty where it was not."""
        workload = self._workloads.get(preemption.preemptor)
        if workload is None or not workload["spec"].get("active", True) or self._is_stopped:
            return ""
        priority = _priority(workload)
        if any(at >= preemption.at and above >= priority for at, above in self._came):
            return ""
        metadata = workload["metadata"]
        owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
        if self._bound & {*owners, metadata["name"]} or not self._has_pods(owners):
            return ""
        return (
            f"Workload {_text(preemption.victim)} was preempted at second {preemption.at:.1f} for"
            f" {metadata['namespace']}/{metadata['name']}, which has no node at second {now:.1f};"
            f" {self._rooms_text()}"
        )

    def _has_pods(self, owners: Iterable[str]) -> bool:
        """Return whether a pod of owners waits, or the pod that is the owner."""
        wanted = set(owners)
        return any(
            wanted & {pod.uid, pod.job} and not (pod.is_over or pod.is_ending)
            for pod in self._guests.values()
        )

    def kept_out(self) -> dict[str, str]:
        """Return what waits although there are quota and nodes for it, with a text."""
        if self._is_stopped:
            return {}
        left = self._quota - sum(
            pod.gpus
            for pod in self._guests.values()
            if pod.ref[0] == self.namespace and pod.is_released and not pod.is_over
        )
        return {
            pods[0].uid: f"{', '.join(_text(pod.ref) for pod in pods)} wait for"
            f" {' + '.join(str(pod.gpus) for pod in pods)} GPUs; {left} of the quota are left;"
            f" {self._rooms_text()}"
            for pods in self._waiting()
            if sum(pod.gpus for pod in pods) <= left and self._have_room(pods)
        }

    def _have_room(self, pods: Sequence[Guest]) -> bool:
        """Return whether pods that start together have nodes, in one domain where they have to."""
        free = self._free()
        if not pods[0].has_level:
            return can_place(pods, free)
        told = [guest for guest in self._told_pods() if guest.unit == pods[0].unit]
        domains = {self._domains.get(guest.node or guest.host, "") for guest in told}
        return any(
            can_place(
                pods, {name: gpus for name, gpus in free.items() if self._domains[name] == d}
            )
            for d in domains or set(self._domains.values())
        )

    def _waiting(self) -> Iterator[Sequence[Guest]]:
        """Yield the pods that are to start together and have a gate: single ones and groups."""
        groups: dict[str, list[Guest]] = defaultdict(list)
        for pod in self._guests.values():
            if pod.ref[0] != self.namespace or pod.is_over or pod.is_ending:
                continue
            if pod.group[0]:
                groups[pod.group[0]].append(pod)
            elif not pod.is_released:
                yield [pod]
        for pods in groups.values():
            gated = [pod for pod in pods if not pod.is_released]
            if gated and len(pods) >= pods[0].group[1]:
                yield gated

    def _free(self) -> dict[str, int]:
        """Return the GPUs of each open node that no pod holds, less those of pods on their way."""
        held: Counter[str] = Counter()
        for pod in self._guests.values():
            if pod.node and not pod.is_over:
                held[pod.node] += pod.gpus
        return {
            name: room.gpus - held[name]
            for name, room in sorted(self._rooms.items())
            if room.is_open
        }

    def _rooms_text(self) -> str:
        free = self._free()
        return "; ".join(
            f"{name}: {free[name]} of {room.gpus} free"
            if name in free
            else f"{name}: closed by {room.closed_by}"
            for name, room in sorted(self._rooms.items())
        )


def can_place(pods: Sequence[Guest], free: Mapping[str, int]) -> bool:
    """Return whether pods have nodes at once, by trying every way.

    Args:
        pods: that need a node.
        free: GPUs of each node that takes pods.
    """
    left = dict(free)
    ordered = sorted(pods, key=lambda pod: -pod.gpus)

    def place(at: int) -> bool:
        if at == len(ordered):
            return True
        pod = ordered[at]
        for name in tuple(left):
            if pod.host in {"", name} and left[name] >= pod.gpus:
                left[name] -= pod.gpus
                if place(at + 1):
                    return True
                left[name] += pod.gpus
        return False

    return place(0)


def _read_room(node: Json, level: str) -> Room:
    labels = node["metadata"].get("labels") or {}
    status, spec = node.get("status", {}), node.get("spec", {})
    closed_by = [
        taint["key"]
        for taint in spec.get("taints") or ()
        if taint["effect"] in {"NoSchedule", "NoExecute"} and taint["key"] not in _TOLERATED
    ]
    is_ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    closed_by += ["a cordon"] * bool(spec.get("unschedulable")) + ["no readiness"] * (not is_ready)
    gpus = int((status.get("allocatable") or {}).get(GPU, 0))
    return Room(gpus, " and ".join(closed_by), labels.get(level, ""))


def _read_guest(pod: Json) -> Guest:
    metadata, spec = pod["metadata"], pod["spec"]
    marks: Mapping[str, str] = {
        **(metadata.get("labels") or {}),
        **(metadata.get("annotations") or {}),
    }
    deleted = bool(metadata.get("deletionTimestamp"))
    node = spec.get("nodeName", "")
    has_ended = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return Guest(
        uid=metadata["uid"],
        ref=(metadata["namespace"], metadata["name"]),
        job=next(
            (one["uid"] for one in metadata.get("ownerReferences") or () if one.get("controller")),
            "",
        ),
        group=(
            marks.get("kueue.x-k8s.io/pod-group-name", ""),
            int(marks.get("kueue.x-k8s.io/pod-group-total-count", "0")),
        ),
        gpus=amounts.asked(spec, {})[GPU],
        node=node,
        is_released=bool(node) or not spec.get("schedulingGates"),
        is_over=has_ended or (deleted and not node),
        is_ending=deleted,
        host=(spec.get("nodeSelector") or {}).get(_HOSTNAME, ""),
        has_level=_REQUIRED in marks,
        preferred=frozenset(_preferred(spec)),
    )


def _preferred(spec: Json) -> Iterator[str]:
    """Yield the names of the nodes that a pod prefers."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        for expression in term["preference"].get("matchExpressions") or ():
            if expression["key"] == _HOSTNAME:
                yield from expression["values"]


def _condition(workload: Json, kind: str) -> Json | None:
    """Return a condition of a Workload that is true."""
    conditions: list[Json] = workload.get("status", {}).get("conditions") or []
    matching = [one for one in conditions if (one["type"], one["status"]) == (kind, "True")]
    return matching[0] if matching else None


def _reserves(workload: Json) -> bool:
    return _condition(workload, "QuotaReserved") is not None


def _priority(workload: Json) -> int:
    return int(workload["spec"].get("priority") or 0)


def _text(ref: Ref) -> str:
    return "/".join(ref)
