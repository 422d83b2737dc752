"""What a whole pod needs of each resource, from its containers.

Source: Kubernetes KEP-753 (sidecars): the larger of the regular containers plus sidecars, and of
each init container plus the sidecars started before it. Ephemeral containers cannot ask.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol


class Role(Protocol):
    """When a container runs."""

    @property
    def is_init(self) -> bool:
        """Whether it stands among the init containers."""
        ...

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container with restartPolicy Always."""
        ...


def aggregate(parts: Iterable[tuple[Role, Mapping[str, int]]]) -> dict[str, int]:
    """Amounts per resource that the pod holds while it runs.

    Args:
        parts: every container with its amounts, init containers in their order.
    """
    running: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for role, amounts in parts:
        # Sidecars only add up, so the peak of a name that is not touched here holds.
        if role.is_sidecar:
            _add(sidecars, amounts)
            _raise(peak, {name: sidecars[name] for name in amounts})
        elif role.is_init:
            _raise(peak, {name: n + sidecars.get(name, 0) for name, n in amounts.items()})
        else:
            _add(running, amounts)
    _add(running, sidecars)
    _raise(peak, running)
    return {name: peak[name] for name in sorted(peak)}


def _add(into: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + amount


def _raise(into: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        into[name] = max(into.get(name, 0), amount)
