"""Domains of a topology: what owners ask for, and which node each of their pods gets.

Pods are numbered by their rank: the completion index of a Job, or the index in a pod group. The
first domain gets the first ranks. Pods without a rank get what is left, the oldest first (ADR
0271).

Source: kueue pkg/controller/jobframework/tas.go and pkg/controller/tas/topology_ungater.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.base import names, structs, syntax
from admission.objects import views
from admission.scheduling.model import PodDomains

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label of the pods of an Indexed Job."""

_LAYERS: Final = structs.decoder(list[dict[str, Any]])


def topology_request(
    annotations: Mapping[str, str] | None, index_label: str = ""
) -> dict[str, Any] | None:
    """Return the topology request of a pod set; None where its pods ask for nothing.

    Args:
        annotations: of its pod template; a review has accepted them.
        index_label: label by which its pods are numbered; empty for none.
    """
    present = annotations or {}
    asked: dict[str, Any] = {}
    for key, member in _TEXTS.items():
        if present.get(key):
            asked[member] = present[key]
    if syntax.parse_boolean(present.get(names.UNCONSTRAINED_TOPOLOGY, "")) is True:
        asked["unconstrained"] = True
    size = syntax.whole_number(present.get(names.PODSET_SLICE_SIZE, ""))
    if size:
        asked["podSetSliceSize"] = size
    if names.PODSET_SLICE_CONSTRAINTS in present:
        asked["podsetSliceRequiredTopologyConstraints"] = _layers(
            present[names.PODSET_SLICE_CONSTRAINTS]
        )
    if asked and index_label:
        asked["podIndexLabel"] = index_label
    return asked or None


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
class Placement:
    """Where the pods of a pod set go, one entry for each of them.

    Attributes:
        keys: the node selector of each rank.
        room: how many pods each of them takes.
    """

    keys: tuple[_Key, ...]
    room: Mapping[_Key, int]

    def next_pod(
        self, waiting: Sequence[views.Pod], placed: Iterable[views.Pod]
    ) -> tuple[views.Pod, Mapping[str, str]] | None:
        """Return a pod that waits for its node, with the node selector of that; None for none.

        The node is that of its rank where that has room, as long as the pods have different ranks.
        Else it is the first one with room. A node that the pod itself excludes is returned where
        there is nothing else: the pod can never start there.

        Args:
            waiting: pods without a node, the oldest first.
            placed: pods of the pod set that have one and have not ended.
        """
        there = tuple(placed)
        left = self._left(there)
        if all(count <= 0 for count in left.values()):
            return None
        ranks = {rank(pod) for pod in waiting}
        is_ranked = None not in ranks and len(ranks) == len(waiting)
        misfit: tuple[views.Pod, Mapping[str, str]] | None = None
        for pod in waiting:
            number = rank(pod)
            if is_ranked and number is not None and number < len(self.keys):
                key = self.keys[number]
                if left[key] > 0:
                    if not contradicts(pod, dict(key)):
                        return pod, dict(key)
                    misfit = misfit or (pod, dict(key))
        is_within = is_ranked and all((number or 0) < len(self.keys) for number in ranks)
        if is_within and len(waiting) + len(there) > len(self.keys):
            return misfit  # more pods than domains: some of them are about to end
        for pod in waiting:
            for key, count in left.items():
                if count > 0:
                    if not contradicts(pod, dict(key)):
                        return pod, dict(key)
                    misfit = misfit or (pod, dict(key))
        return misfit

    def for_pod(self, pod: views.Pod, placed: Iterable[views.Pod]) -> Mapping[str, str]:
        """Return the node selector of a pod that starts now, as its group has room for it.

        It is that of its rank, else of the first domain that has room. Empty where none has any.

        Args:
            pod: the pod.
            placed: pods of the pod set that have a domain and have not ended.
        """
        left, number = self._left(placed), rank(pod)
        if number is not None and number < len(self.keys) and left[self.keys[number]] > 0:
            return dict(self.keys[number])
        return next((dict(key) for key, count in left.items() if count > 0), {})

    def _left(self, placed: Iterable[views.Pod]) -> dict[_Key, int]:
        """How many more pods each domain takes, in the order of the ranks."""
        left = dict(self.room)
        levels = tuple(level for level, _ in self.keys[0]) if self.keys else ()
        for pod in placed:
            selector = pod.spec.node_selector or {}
            key = tuple((level, selector.get(level, "")) for level in levels)
            if key in left:
                left[key] -= 1
        return left


def placement(domains: PodDomains) -> Placement:
    """Return where pods go that are in domains."""
    counts = [
        (tuple(sorted(zip(domains.levels, values, strict=True))), count)
        for values, count in domains.counts
    ]
    return Placement(tuple(key for key, count in counts for _ in range(count)), dict(counts))


def rank(pod: views.Pod) -> int | None:
    """Return the number of a pod among its pod set; None where it has none."""
    label = pod.metadata.label
    text = label(COMPLETION_INDEX) or label(names.POD_GROUP_POD_INDEX_LABEL)
    return int(text) if text.isascii() and text.isdecimal() else None


def contradicts(pod: views.Pod, selector: Mapping[str, str]) -> bool:
    """Return whether a pod selects other nodes itself."""
    present = pod.spec.node_selector or {}
    return any(present.get(key, value) != value for key, value in selector.items())
