"""Owners whose pods are groups, as last seen: StatefulSets and LeaderWorkerSets in a queue."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from admission.base import conditions, names
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners.owners import resource_of
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners import pod as pod_owner
from admission.owners import serving_group
from admission.owners.serving import ServingKind
from admission.owners.serving_group import Document, ServingGroup

_Ident = tuple[str, str, str]
"""What a pod calls the kind of its parent, namespace and name of an owner."""


class ServingGroups:
    """The groups of these owners.

    Attributes:
        informers: who takes what is watched, by resource.
    """

    def __init__(
        self,
        kinds: Iterable[ServingKind],
        look_at: Callable[[Iterable[WorkloadKey]], None],
    ) -> None:
        """Prepare an empty index.

        Args:
            kinds: of owners that serve.
            look_at: is told which Workloads, and pods that wait for their owner, to look at again.
        """
        self._kinds = {one.parent: one for one in kinds if one.makes_groups}
        self._look_at = look_at
        self._owners: dict[_Ident, Document] = {}
        self._groups: dict[WorkloadKey, ServingGroup] = {}
        self._keys: dict[_Ident, tuple[WorkloadKey, ...]] = {}
        self._waiting: dict[_Ident, set[WorkloadKey]] = {}
        """Pods that wait until their owner is seen."""
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource_of(one.kind): Informer(
                one.kind.name, partial(self._on_update, one), partial(self._on_delete, one)
            )
            for one in self._kinds.values()
        }

    def of(self, key: WorkloadKey) -> ServingGroup | None:
        """Return the group whose Workload has a key, if its owner is to have it."""
        return self._groups.get(key)

    def includes(self, pod: views.Pod) -> bool:
        """Return whether a pod says that it is of such an owner."""
        return pod.metadata.annotation(names.POD_SUSPENDING_PARENT) in self._kinds

    def find(self, pod: views.Pod) -> ServingGroup | Text:
        """Return the group of a pod, or what it waits for.

        Args:
            pod: one of those that are included.
        """
        of = self._kinds[pod.metadata.annotation(names.POD_SUSPENDING_PARENT)]
        name = serving_group.owner_of(of, pod)
        ident = (of.parent, pod.metadata.namespace, name)
        owner = self._owners.get(ident)
        found = None if owner is None else serving_group.of_pod(of, owner, pod)
        if found is not None:
            return found
        self._waiting.setdefault(ident, set()).add(pod_owner.KIND.key_of(pod))
        return conditions.waits_for_serving_owner(of.kind.name, name)

    def _on_update(self, of: ServingKind, found: Document) -> None:
        ident = (of.parent, found.metadata.namespace, found.metadata.name)
        self._owners[ident] = found
        self._set_groups(ident, {one.key: one for one in serving_group.groups(of, found)})

    def _on_delete(self, of: ServingKind, gone: views.Object) -> None:
        ident = (of.parent, gone.metadata.namespace, gone.metadata.name)
        known = self._owners.get(ident)
        if known is not None and known.metadata.uid == gone.metadata.uid:
            del self._owners[ident]
            self._set_groups(ident, {})

    def _set_groups(self, ident: _Ident, groups: dict[WorkloadKey, ServingGroup]) -> None:
        before = self._keys.pop(ident, ())
        for key in before:
            self._groups.pop(key, None)
        self._groups |= groups
        if groups:
            self._keys[ident] = tuple(groups)
        self._look_at({*before, *groups, *self._waiting.pop(ident, ())})
