"""Nodes on which nothing runs any more, though pods are still bound to them.

Source: kubernetes pkg/controller/podgc/gc_controller.go (pods of a node that is gone or carries
the out-of-service taint are deleted by force); the third rule is ours (ADR 0116).
"""

from datetime import datetime, timedelta
from typing import Final

from admission.base import clock
from admission.objects import views

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_READY: Final = "Ready"
_LONG_AGO: Final = datetime.fromisoformat("0001-01-01T00:00:00+00:00")


class LostNodes:
    """The times since which nodes are not ready. Nodes must be listed before a lookup."""

    def __init__(self) -> None:
        self._nodes: dict[str, datetime | None] = {}
        self._changed: set[str] = set()

    def on_update(self, node: views.Node) -> bool:
        """Take a node as it is now; return whether that says something new."""
        since = _not_ready_since(node)
        name = node.metadata.name
        if name in self._nodes and self._nodes[name] == since:
            return False
        self._nodes[name] = since
        self._changed.add(name)
        return True

    def on_delete(self, name: str) -> None:
        """Take the news that a node is gone."""
        if name in self._nodes:
            del self._nodes[name]
            self._changed.add(name)

    def take_changed(self) -> set[str]:
        """Return the nodes of which something else is known than at the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def is_gone(self, name: str) -> bool:
        """Return whether a node does not exist, or is out of service."""
        return name not in self._nodes or self._nodes[name] == _LONG_AGO

    def is_lost(self, name: str) -> bool:
        """Return whether a node does not exist, is out of service or is not ready."""
        return self._nodes.get(name, _LONG_AGO) is not None

    def frees_at(self, name: str, ends: datetime, after: timedelta) -> datetime | None:
        """Return the time from which a pod that is being deleted counts as ended; None for never.

        Args:
            name: the node that the pod is bound to.
            ends: when the pod's grace period ends.
            after: how long a node has to be not ready.
        """
        if name not in self._nodes:
            return _LONG_AGO
        since = self._nodes[name]
        if since is None:
            return None
        return since if since == _LONG_AGO else max(since, ends) + after


def _not_ready_since(node: views.Node) -> datetime | None:
    """Return since when a node is not ready, long ago if it is out of service, None if ready."""
    if any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints or ()):
        return _LONG_AGO
    for condition in node.status.conditions or ():
        if condition.type == _READY and condition.status != "True":
            return (
                clock.from_wire(condition.last_transition_time)
                if condition.last_transition_time
                else None
            )
    return None
