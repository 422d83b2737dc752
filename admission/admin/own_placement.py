"""Whether a node takes the pods of webhook and controller, and what they have to tolerate."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from admission.scheduling import tolerations
from admission.scheduling.model import Taint, Toleration

_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
_PASSING: Final = "node.kubernetes.io/"
"""The beginning of taints that come and go with the state of a node."""


@dataclass(frozen=True, slots=True)
class ProgramPlacement:
    """Where the pods can be.

    Attributes:
        is_open: whether a node takes them, or no node is known.
        tolerations: with which most nodes would; empty where all taints go by themselves.
    """

    is_open: bool
    tolerations: tuple[Toleration, ...] = ()

    def documents(self) -> list[dict[str, Any]]:
        """Return the tolerations as a pod spec has them."""
        return [
            {name: value for name, value in asdict(toleration).items() if value}
            for toleration in self.tolerations
        ]


def find(nodes: Iterable[Iterable[Taint]], tolerated: Sequence[Toleration]) -> ProgramPlacement:
    """Return where pods can be.

    Args:
        nodes: the taints of each node.
        tolerated: what the pods tolerate now.
    """
    blocking = [
        tuple(taint for taint in taints if _keeps_away(taint, tolerated)) for taints in nodes
    ]
    if not blocking or not all(blocking):
        return ProgramPlacement(is_open=True)
    lasting = Counter(
        tuple(
            sorted(
                (taint.key, taint.value, taint.effect)
                for taint in taints
                if not taint.key.startswith(_PASSING)
            )
        )
        for taints in blocking
    )
    del lasting[()]
    if not lasting:
        return ProgramPlacement(is_open=False)
    taints, _ = min(lasting.items(), key=lambda entry: (-entry[1], entry[0]))
    needed = (
        Toleration(key=key, operator="Equal" if value else "Exists", value=value, effect=effect)
        for key, value, effect in taints
    )
    return ProgramPlacement(is_open=False, tolerations=(*tolerated, *needed))


def _keeps_away(taint: Taint, tolerated: Iterable[Toleration]) -> bool:
    is_tolerated = any(tolerations.tolerates(toleration, taint) for toleration in tolerated)
    return taint.effect in _KEEPS_AWAY and not is_tolerated
