"""Tells the engine what nodes have, and which pods are on them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from admission.controller.seeing.informers import Informer
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import bound_pod, nodes, views
from admission.scheduling.places.enforcement import PodPlaces
from admission.scheduling.places.model import Node


def _ignore(uid: str, pod: bound_pod.Outside | None) -> None:
    """Nobody wants to know."""


class NodePlaces:
    """Nodes and bound pods as watched, passed on to the engine.

    Attributes:
        informers: what watches must be told to, by resource.
        on_outside: is told, by UID, what a bound pod holds that no queue admitted; None for
            nothing, or nothing any more.
    """

    def __init__(self, places: PodPlaces, changed: Callable[[], None]) -> None:
        """Has seen nothing yet.

        Args:
            places: takes what is seen.
            changed: is told when somebody may have got room.
        """
        self._places = places
        self._changed = changed
        self.on_outside: Callable[[str, bound_pod.Outside | None], None] = _ignore
        self._nodes: dict[str, Node] = {}
        """Nodes with all of their devices."""
        self._ended: set[str] = set()
        """UIDs of bound pods that have ended, of which their own watch may not tell yet."""
        self.informers: Mapping[Resource, Informer[Any]] = {
            resources.BOUND_PODS: Informer("Pod", self._see_pod, self._lose_pod, slim=True)
        }

    def set_node(self, view: views.Node, usable: Mapping[str, int] | None) -> None:
        """Take a node as it is now; see `set_usable`."""
        self._nodes[view.metadata.name] = nodes.place_node(view)
        self.set_usable(view.metadata.name, usable)

    def set_usable(self, name: str, usable: Mapping[str, int] | None) -> None:
        """Take which devices of a node are well.

        Args:
            name: of the node.
            usable: healthy devices by resource; None for a node of which that is not known.
        """
        node = self._nodes.get(name)
        if node is None:
            return
        if usable is not None:
            sick = {r: n - usable[r] for r, n in node.amounts.items() if n > usable.get(r, n)}
            node = replace(node, amounts={**node.amounts, **usable}, sick=sick)
        self._note(lambda: self._places.set_node(node))

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        if self._nodes.pop(name, None) is not None:
            self._note(lambda: self._places.drop_node(name))

    def end_pod(self, uid: str) -> None:
        """Take the news that a pod has ended for good, or is gone, from another watch than ours.

        Quota and room on nodes come free together then. Otherwise who gets the quota would find
        no room, and would preempt others or take another flavor.
        """
        if self._places.ledger.has_pod(uid):
            self._ended.add(uid)
            self._note(lambda: self._places.drop_pod(uid))

    def _see_pod(self, pod: bound_pod.BoundPodDocument) -> None:
        uid = pod.metadata.uid
        value = None if uid in self._ended else bound_pod.value(pod)
        ended = bound_pod.succeeded(pod) if value is None else None
        if value is not None:
            self._note(lambda: self._places.set_pod(uid, value))
        elif ended is not None:
            self._note(lambda: self._places.end_pod(uid, ended))
        else:
            self._note(lambda: self._places.drop_pod(uid))
        self.on_outside(uid, bound_pod.outside(pod, value))

    def _lose_pod(self, pod: views.Object) -> None:
        self._ended.discard(pod.metadata.uid)
        self.on_outside(pod.metadata.uid, None)
        self._note(lambda: self._places.drop_pod(pod.metadata.uid))

    def _note(self, change: Callable[[], None]) -> None:
        """Tell of a change only where it changes what is free, or what nodes take."""
        before = self._places.ledger.version
        change()
        if self._places.ledger.version != before:
            self._changed()
