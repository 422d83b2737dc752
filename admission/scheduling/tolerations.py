"""Whether a toleration covers a taint. Source: k8s.io/api core/v1 toleration.go."""

from collections.abc import Iterable
from typing import Final

from admission.scheduling.model import Taint, Toleration

BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that keep pods from a node."""


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps pods away and that no toleration covers, or None."""
    listed = tuple(tolerations)
    for taint in taints:
        if taint.effect in BLOCKING and not any(
            tolerates(toleration, taint) for toleration in listed
        ):
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
