"""Whether pods could run on the nodes of a flavor at all: taints, node selector, affinity.

Source: kueue pkg/scheduler/flavorassigner (checkFlavorForPodSets), k8s.io/component-helpers
scheduling/corev1/nodeaffinity, k8s.io/api core/v1 toleration.go.
"""

from collections.abc import Iterable
from typing import Final

from admission.base import conditions
from admission.base.selectors import Requirement
from admission.scheduling.model import PodSet, ResourceFlavor, Taint, Toleration

_BLOCKING: Final = ("NoSchedule", "NoExecute")


def misfit(pod_set: PodSet, flavor: ResourceFlavor) -> str:
    """Return why pods of the pod set cannot run in the flavor; empty when they can."""
    if flavor.name in pod_set.unsuited:
        return pod_set.unsuited[flavor.name]
    taint = _untolerated(flavor.node_taints, (*pod_set.tolerations, *flavor.tolerations))
    if taint is not None:
        return conditions.untolerated_taint(flavor.name, taint.key, taint.value, taint.effect)
    if not _selected(pod_set, flavor):
        return conditions.other_nodes(flavor.name)
    return ""


def _untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    for taint in taints:
        if taint.effect in _BLOCKING and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration covers a taint; Lt and Gt compare integers."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt":
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Return whether the taint's value is below (Lt) or above (Gt) the toleration's."""
    try:
        bound, value = int(toleration.value), int(taint.value)
    except ValueError:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


def _selected(pod_set: PodSet, flavor: ResourceFlavor) -> bool:
    """Node selector and required affinity, as far as they name labels of the flavor."""
    labels = flavor.node_labels
    for key, value in pod_set.node_selector.items():
        if key in labels and labels[key] != value:
            return False
    if pod_set.affinity is None:
        return True
    terms = [_known(term, flavor) for term in pod_set.affinity]
    if not all(terms):
        return True
    return any(all(one.matches(labels) for one in term) for term in terms) or not terms


def _known(term: Iterable[Requirement], flavor: ResourceFlavor) -> tuple[Requirement, ...]:
    return tuple(one for one in term if one.key in flavor.node_labels)
