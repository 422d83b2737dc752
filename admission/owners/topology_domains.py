"""Domains of a topology: what owners ask for, and which node each of their pods gets.

Pods are numbered by their rank, as the topology request of the Workload says. The first domain
gets the first ranks. Pods without a rank get what is left, the oldest first (ADR 0271).

Source: kueue pkg/controller/jobframework/tas.go and pkg/controller/tas/topology_ungater.go.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.base import names, structs, syntax
from admission.objects import views
from admission.objects.workload import Workload
from admission.scheduling.model import PodDomains

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label of the pods of an Indexed Job."""

_LAYERS: Final = structs.decoder(list[dict[str, Any]])


def topology_request(
    annotations: Mapping[str, str] | None,
    index_label: str = "",
    replica_label: str = "",
    replicas: int = 0,
) -> dict[str, Any] | None:
    """Return the topology request of a pod set; None where it says nothing.

    Args:
        annotations: of its pod template; a review has accepted them.
        index_label: label by which its pods are numbered; empty for none.
        replica_label: label by which their replicas are numbered, if each numbers its pods anew.
        replicas: how many replicas there are.
    """
    present = annotations or {}
    request: dict[str, Any] = {}
    for key, member in _TEXTS.items():
        if present.get(key):
            request[member] = present[key]
    if syntax.parse_boolean(present.get(names.UNCONSTRAINED_TOPOLOGY, "")) is True:
        request["unconstrained"] = True
    size = syntax.whole_number(present.get(names.PODSET_SLICE_SIZE, ""))
    if size:
        request["podSetSliceSize"] = size
    if names.PODSET_SLICE_CONSTRAINTS in present:
        request["podsetSliceRequiredTopologyConstraints"] = _layers(
            present[names.PODSET_SLICE_CONSTRAINTS]
        )
    if index_label:
        request["podIndexLabel"] = index_label
    if replica_label and replicas:
        request["subGroupIndexLabel"] = replica_label
        request["subGroupCount"] = replicas
    return request or None


_TEXTS: Final[Mapping[str, str]] = {
    names.REQUIRED_TOPOLOGY: "required",
    names.PREFERRED_TOPOLOGY: "preferred",
    names.SLICE_REQUIRED_TOPOLOGY: "podSetSliceRequiredTopology",
    names.PODSET_GROUP_NAME: "podSetGroupName",
}


def _layers(text: str) -> list[dict[str, Any]]:
    try:
        return _LAYERS.decode(text)
    except structs.UNREADABLE:
        return []


_Key = tuple[tuple[str, str], ...]
"""A node selector, sorted."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """How the pods of a pod set are numbered: by the first of some labels that a pod has.

    Attributes:
        labels: labels with the number of a pod.
        replica: label with the number of its replica, if each numbers its pods anew; empty for
            none.
        per_replica: how many pods a replica has.
        first: number of the first pod, where a pod itself does not say it.
    """

    labels: tuple[str, ...] = (COMPLETION_INDEX, names.POD_GROUP_POD_INDEX_LABEL)
    replica: str = ""
    per_replica: int = 0
    first: int = 0

    def rank(self, pod: views.Pod) -> int | None:
        """Return the number of a pod among its pod set, from 0 on; None where it has none."""
        label = pod.metadata.label
        number = syntax.whole_number(next(filter(None, map(label, self.labels)), ""))
        if number is None:
            return None
        offset = syntax.whole_number(pod.metadata.annotation(names.POD_INDEX_OFFSET))
        number -= self.first if offset is None else offset
        if self.replica:
            replica = syntax.whole_number(label(self.replica))
            if replica is None or number >= self.per_replica:
                return None
            number += replica * self.per_replica
        return None if number < 0 else number


BY_DEFAULT: Final = Numbering()
"""Of pods of which the Workload does not say how they are numbered."""


def numbering(workload: Workload, pod_set: str, count: int) -> Numbering:
    """Return how the pods of a pod set are numbered.

    Pod sets of one group are a leader and its workers: these begin after the leader.

    Args:
        workload: the Workload.
        pod_set: name of the pod set.
        count: how many pods of it were admitted.
    """
    listed = workload.spec.pod_sets or ()
    request = next((entry.topology_request for entry in listed if entry.name == pod_set), None)
    if request is None:
        return BY_DEFAULT
    together = [
        entry
        for entry in listed
        if request.pod_set_group_name
        and entry.topology_request is not None
        and entry.topology_request.pod_set_group_name == request.pod_set_group_name
    ]
    leader = min(together, key=lambda entry: entry.count, default=None)
    groups = request.sub_group_count or 0
    return Numbering(
        labels=(request.pod_index_label,) if request.pod_index_label else BY_DEFAULT.labels,
        replica=request.sub_group_index_label or "" if groups else "",
        per_replica=count // groups if groups else 0,
        first=0 if leader is None or leader.name == pod_set else leader.count,
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pods of a pod set go, one entry for each of them.

    Attributes:
        keys: the node selector of each rank.
        room: how many pods each of them takes.
        numbering: how the pods are numbered.
    """

    keys: tuple[_Key, ...]
    room: Mapping[_Key, int]
    numbering: Numbering = BY_DEFAULT

    def for_pod(self, pod: views.Pod, placed: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
        """Return the node selector of a pod that starts now, as its group has room for it.

        It is that of its rank, else of the first domain that has room. Empty where none has any.

        Args:
            pod: the pod.
            placed: node selectors of the pods of the pod set that have not ended.
        """
        left, number = dict(self.room), self.numbering.rank(pod)
        for selector in placed:
            key = self.key_of(selector)
            if key in left:
                left[key] -= 1
        if number is not None and number < len(self.keys) and left[self.keys[number]] > 0:
            return dict(self.keys[number])
        return next((dict(key) for key, count in left.items() if count > 0), {})

    def key_of(self, selector: Mapping[str, str]) -> _Key:
        """Return the node selector of a pod, as far as it tells a domain."""
        levels = (level for level, _ in self.keys[0]) if self.keys else ()
        return tuple((level, selector.get(level, "")) for level in levels)


def placement(domains: PodDomains, numbered: Numbering = BY_DEFAULT) -> Placement:
    """Return where pods go that are in domains."""
    counts = [
        (tuple(sorted(zip(domains.levels, values, strict=True))), count)
        for values, count in domains.counts
    ]
    keys = tuple(key for key, count in counts for _ in range(count))
    return Placement(keys, dict(counts), numbered)


class Telling:
    """Which pod of a pod set is told which domain next.

    It is kept up to date pod by pod: only pods for which there was no domain are looked at again.
    A pod gets the domain of its rank where that has room, as long as waiting pods have different
    ranks. Else it gets the first one with room, the oldest pod first.
    """

    def __init__(self, where: Placement) -> None:
        """Take where pods go; no pod is there yet."""
        self._where = where
        self._left = dict(where.room)
        self._free = len(where.keys)
        """How many pods the domains take besides those that are there or chosen."""
        self._held: dict[str, _Key] = {}
        """The domains of pods that were told them, by UID."""
        self._strays: dict[str, None] = {}
        """UIDs of those of which the domain is none any more."""
        self._chosen: dict[str, tuple[views.Pod, _Key]] = {}
        """Pods that are to be told a domain, by UID, the next one first."""
        self._ranks: dict[int, str] = {}
        """UIDs of these, by their rank."""
        self._others: dict[str, views.Pod] = {}
        """Pods that wait and have no domain, by UID."""
        self._misfit: tuple[views.Pod, _Key] | None = None
        """One of those, with a domain that has room and that it excludes."""
        self._is_stale = False

    @property
    def placement(self) -> Placement:
        """Return the domains of the pod set."""
        return self._where

    def is_waiting(self) -> bool:
        """Return whether a pod waits."""
        return bool(self._chosen or self._others)

    def strays(self) -> tuple[str, ...]:
        """Return the UIDs of pods that were told a domain which is none any more."""
        return tuple(self._strays)

    def see(self, pod: views.Pod, *, waits: bool) -> None:
        """Take a pod that has not ended, as it is now.

        Args:
            pod: the pod.
            waits: whether it waits to be told its domain.
        """
        uid = pod.metadata.uid
        key = None if waits else self._where.key_of(pod.spec.node_selector or {})
        if waits and uid in self._chosen:
            self._chosen[uid] = (pod, self._chosen[uid][1])
            return
        if waits and uid in self._others:
            self._others[uid] = pod
            return
        if key is not None and self._held.get(uid) == key:
            return
        self.lose(uid)
        if key is None:
            self._others[uid] = pod
            self._is_stale = True
        else:
            self._held[uid] = key
            self._fill(key, 1)
            if key and key not in self._left and all(value for _, value in key):
                self._strays[uid] = None

    def lose(self, uid: str) -> None:
        """Take that a pod has ended, or neither waits nor holds a domain."""
        chosen = self._chosen.pop(uid, None)
        key = self._held.pop(uid, None) if chosen is None else chosen[1]
        gone = self._others.pop(uid, None)
        self._strays.pop(uid, None)
        if chosen is not None:
            rank = self._where.numbering.rank(chosen[0])
            if rank is not None and self._ranks.get(rank) == uid:
                del self._ranks[rank]
        if key is not None:
            self._fill(key, -1)
        if self._misfit is not None and self._misfit[0].metadata.uid == uid:
            self._misfit = None
        if key is not None or gone is not None:
            self._is_stale = bool(self._others)

    def _fill(self, key: _Key, pods: int) -> None:
        """Take so many pods more in a domain; one that is none any more has no room to count."""
        if key in self._left:
            self._left[key] -= pods
            self._free -= pods

    def next_pod(self) -> tuple[views.Pod, Mapping[str, str]] | None:
        """Return a pod that waits for its domain, with the node selector of that; None for none.

        A domain that the pod itself excludes is returned where there is nothing else: the pod can
        never start there.
        """
        if self._is_stale:
            self._choose()
        placement = next(iter(self._chosen.values()), None) or self._misfit
        return None if placement is None else (placement[0], dict(placement[1]))

    def _choose(self) -> None:
        """Give domains to the pods that have none, as far as there is room."""
        self._is_stale, self._misfit = False, None
        waiting = sorted(self._others.values(), key=age)
        rank = self._where.numbering.rank
        ranks = [rank(pod) for pod in waiting]
        is_ranked = (
            None not in ranks
            and len(set(ranks)) == len(ranks)
            and all(number not in self._ranks for number in ranks)
        )
        keys = self._where.keys
        if is_ranked:
            for pod, number in zip(waiting, ranks, strict=True):
                if number is not None and number < len(keys):
                    self._try(pod, keys[number])
        is_within = is_ranked and all((number or 0) < len(keys) for number in ranks)
        if is_within and len(self._others) > self._free:
            return  # more pods than domains: some of them are about to end
        if self._others:
            self._choose_any([pod for pod in waiting if pod.metadata.uid in self._others])

    def _choose_any(self, waiting: Iterable[views.Pod]) -> None:
        """Give pods the first domains with room that they do not exclude."""
        free = deque(key for key, count in self._left.items() if count > 0)
        for pod in waiting:
            while free and self._left[free[0]] <= 0:
                free.popleft()
            next((key for key in free if self._try(pod, key)), None)
        if self._misfit is not None and self._misfit[0].metadata.uid not in self._others:
            self._misfit = None

    def _try(self, pod: views.Pod, key: _Key) -> bool:
        """Give a pod a domain if that has room, and the pod does not exclude it."""
        if self._left[key] <= 0:
            return False
        if contradicts(pod, dict(key)):
            self._misfit = self._misfit or (pod, key)
            return False
        uid, rank = pod.metadata.uid, self._where.numbering.rank(pod)
        del self._others[uid]
        self._chosen[uid] = (pod, key)
        if rank is not None:
            self._ranks[rank] = uid
        self._fill(key, 1)
        return True


def age(pod: views.Pod) -> tuple[str, str]:
    """Return the sort key of pods that get domains: the oldest first, equal ones by name."""
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def contradicts(pod: views.Pod, selector: Mapping[str, str]) -> bool:
    """Return whether a pod selects other nodes itself."""
    present = pod.spec.node_selector or {}
    return any(present.get(key, value) != value for key, value in selector.items())
