"""What DRA drivers publish of each node, and which of it claims hold."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from admission.base import names
from admission.gpu.published import Published
from admission.objects import resource_slice
from admission.objects.resource_claim import ObjectKey
from admission.objects.resource_slice import SliceContent

_MOST_KEPT: Final = 4096
"""Different contents that are kept for the sake of equal ones: most nodes are alike."""


class SliceInventory:
    """ResourceSlices by node, and the devices of ResourceClaims."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, SliceContent]] = {}
        self._kept: dict[Published, Published] = {}
        self._node_of_slice: dict[str, str] = {}
        self._published: dict[str, Published] = {}
        self._node_of_pool: dict[str, str] = {}
        self._given: dict[ObjectKey, tuple[tuple[str, str], ...]] = {}
        self._takers: dict[str, dict[ObjectKey, None]] = {}
        self._outside: dict[ObjectKey, dict[str, None]] = {}
        """UIDs of the pods that no queue admitted, by the claim that they have."""

    def put(self, view: resource_slice.ResourceSlice) -> tuple[str, ...]:
        """Take a slice; return the nodes that have other devices than before."""
        name, part = view.metadata.name, resource_slice.part(view)
        node = (view.spec.node_name or "") if part is not None else ""
        left = self.drop(name) if self._node_of_slice.get(name, node) != node else ()
        if part is None or not node:
            return left
        self._node_of_slice[name] = node
        part = replace(part, content=self._same(part.content))
        self._parts.setdefault(node, {})[name] = part
        return (*left, *self._look_at(node))

    def drop(self, name: str) -> tuple[str, ...]:
        """Remove a slice; return the nodes that have other devices than before."""
        node = self._node_of_slice.pop(name, "")
        if not node:
            return ()
        gone = self._parts[node].pop(name)
        left = {part.pool for part in self._parts[node].values()}
        if not left:
            del self._parts[node]
        if gone.pool not in left and self._node_of_pool.get(gone.pool) == node:
            del self._node_of_pool[gone.pool]
        return self._look_at(node)

    def published(self, node: str) -> Published | None:
        """Return the GPUs of a node; None where no driver publishes any."""
        return self._published.get(node)

    def set_claim(
        self, key: ObjectKey, devices_given: tuple[tuple[str, str], ...]
    ) -> tuple[str, ...]:
        """Take what a claim holds now, by pool and device; return the nodes where that changed."""
        before = self._given.get(key, ())
        if before == devices_given:
            return ()
        for pool, _ in before:
            self._takers.get(pool, {}).pop(key, None)
            if not self._takers.get(pool, True):
                del self._takers[pool]
        for pool, _ in devices_given:
            self._takers.setdefault(pool, {})[key] = None
        if devices_given:
            self._given[key] = devices_given
        else:
            self._given.pop(key, None)
        return self._nodes_of(pool for pool, _ in (*before, *devices_given))

    def counted(self, devices_given: Iterable[tuple[str, str]]) -> dict[str, int]:
        """Return devices, by pool and name, by the resource that each counts as.

        One that is not published, or not any more, counts as a whole GPU.
        """
        total: dict[str, int] = {}
        for pool, device in devices_given:
            published = self._published.get(self._node_of_pool.get(pool, ""))
            resource = "" if published is None else published.resource_of(device)
            resource = resource or names.GPU_RESOURCE
            total[resource] = total.get(resource, 0) + 1
        return total

    def set_outside(
        self, uid: str, before: frozenset[ObjectKey], claims: frozenset[ObjectKey]
    ) -> tuple[str, ...]:
        """Take claims of a pod that no queue admitted; return nodes where that changes anything.

        Args:
            uid: of the pod.
            before: its claims until now.
            claims: those that it has now.
        """
        changed: list[ObjectKey] = []
        for key in sorted(before - claims):
            uids = self._outside[key]
            del uids[uid]
            if not uids:
                del self._outside[key]
                changed.append(key)
        for key in sorted(claims - before):
            if key not in self._outside:
                changed.append(key)
            self._outside.setdefault(key, {})[uid] = None
        return self._nodes_of(pool for key in changed for pool, _ in self._given.get(key, ()))

    def allocated(self, node: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the devices of a node that claims hold: for admitted pods, and for others."""
        ours: set[str] = set()
        outside: set[str] = set()
        for pool in sorted({part.pool for part in self._parts.get(node, {}).values()}):
            for key in self._takers.get(pool, ()):
                into = outside if key in self._outside else ours
                into.update(
                    device for pool_of_device, device in self._given[key] if pool_of_device == pool
                )
        return frozenset(ours), frozenset(outside)

    def _look_at(self, node: str) -> tuple[str, ...]:
        """Reads a node's slices; a part of them alone says nothing."""
        parts = tuple(self._parts.get(node, {}).values())
        self._node_of_pool |= {part.pool: node for part in parts}
        published = resource_slice.published(parts)
        if published is None or published == self._published.get(node, Published()):
            return ()
        if parts:
            self._published[node] = self._same(published)
        else:
            del self._published[node]
        return (node,)

    def _same(self, value: Published) -> Published:
        """An equal value that is kept already, else this one."""
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        return self._kept.setdefault(value, value)

    def _nodes_of(self, pools: Iterable[str]) -> tuple[str, ...]:
        nodes = (self._node_of_pool.get(pool) for pool in pools)
        return tuple(sorted({node for node in nodes if node is not None}))
