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


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pods of a pod set go, one entry for each of them.

    Attributes:
        selectors: the node selector of each rank.
    """

    selectors: tuple[Mapping[str, str], ...]

    def next_pod(
        self, waiting: Sequence[views.Pod], placed: Iterable[views.Pod]
    ) -> tuple[views.Pod, Mapping[str, str]] | None:
        """Return a pod that waits for its node, with the node selector of that; None for none.

        Args:
            waiting: pods without a node, the oldest first.
            placed: pods of the pod set that have one and have not ended.
        """
        left = self._left(placed)
        ranks = {rank(pod) for pod in waiting}
        is_ranked = None not in ranks and len(ranks) == len(waiting)
        for pod in waiting:
            number = rank(pod)
            if is_ranked and number is not None and number < len(self.selectors):
                selector = self.selectors[number]
                if left.get(_key(selector), 0) > 0:
                    return pod, selector
        if is_ranked and all((number or 0) < len(self.selectors) for number in ranks):
            return None  # pods before them still hold their domains
        for pod in waiting:
            for selector in self.selectors:
                if left.get(_key(selector), 0) > 0:
                    return pod, selector
        return None

    def for_pod(self, pod: views.Pod, placed: Iterable[views.Pod]) -> Mapping[str, str]:
        """Return the node selector of a pod that starts now, as its group has room for it.

        It is that of its rank, else of the first domain that has room. Empty where none has any.

        Args:
            pod: the pod.
            placed: pods of the pod set that have a domain and have not ended.
        """
        left, number = self._left(placed), rank(pod)
        own = self.selectors[number : number + 1] if number is not None else ()
        for selector in (*own, *self.selectors):
            if left.get(_key(selector), 0) > 0:
                return selector
        return {}

    def _left(self, placed: Iterable[views.Pod]) -> dict[tuple[tuple[str, str], ...], int]:
        """How many more pods each domain takes."""
        left: dict[tuple[tuple[str, str], ...], int] = {}
        for selector in self.selectors:
            left[_key(selector)] = left.get(_key(selector), 0) + 1
        for pod in placed:
            there = pod.spec.node_selector or {}
            for key in left:
                if all(there.get(label) == value for label, value in key):
                    left[key] -= 1
                    break
        return left


def placement(domains: PodDomains) -> Placement:
    """Return where pods go that are in domains."""
    return Placement(
        tuple(
            dict(zip(domains.levels, values, strict=True))
            for values, count in domains.counts
            for _ in range(count)
        )
    )


def rank(pod: views.Pod) -> int | None:
    """Return the number of a pod among its pod set; None where it has none."""
    label = pod.metadata.label
    text = label(COMPLETION_INDEX) or label(names.POD_GROUP_POD_INDEX_LABEL)
    return int(text) if text.isascii() and text.isdecimal() else None


def _key(selector: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(selector.items()))
