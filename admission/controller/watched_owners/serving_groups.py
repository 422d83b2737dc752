"""Owners whose pods are groups, as last seen: StatefulSets and LeaderWorkerSets in a queue."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from admission.base import names
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.controller.plans import PlanDraft
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners.owner_writes import resource_of
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner
from admission.owners import serving_group
from admission.owners.serving import STATEFUL_SET, ServingKind
from admission.owners.serving_group import ServingDocument, ServingGroup
from admission.reasons import added_conditions

_Ident = tuple[str, str, str]
"""What a pod calls the kind of its parent, namespace and name of an owner."""
_Found = tuple[_Ident | None, ServingGroup | None]
"""The owner that pods or a Workload name, and their group where that is known."""
_NOTHING: Final[_Found] = (None, None)
_MOST_REPLICAS: Final = 5000
"""Replicas of an owner among which that of a Workload without pods is looked for."""


class ServingGroups:
    """The groups of these owners.

    Attributes:
        informers: who takes what is watched, by resource.
    """

    def __init__(
        self,
        kinds: Iterable[ServingKind],
        look_at: Callable[[Iterable[WorkloadKey]], None],
        draft: PlanDraft,
    ) -> None:
        """Prepare an empty index.

        Args:
            kinds: of owners that serve.
            look_at: is told which Workloads, and pods that wait for their owner, to look at again.
            draft: of the plan that is being derived.
        """
        self._draft = draft
        self._kinds = {kind.parent: kind for kind in kinds if kind.makes_groups}
        self._look_at = look_at
        self._owners: dict[_Ident, ServingDocument] = {}
        self._groups: dict[WorkloadKey, ServingGroup] = {}
        """Groups that were asked for: there may be very many replicas of which nothing exists."""
        self._keys: dict[_Ident, set[WorkloadKey]] = {}
        """Their keys, and those of which the owner is not known, by owner."""
        self._waiting: dict[_Ident, set[WorkloadKey]] = {}
        """Pods that wait until their owner is seen."""
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource_of(kind.kind): Informer(
                kind.kind.name, partial(self._on_update, kind), partial(self._on_delete, kind)
            )
            for kind in self._kinds.values()
        }

    def of(
        self, key: WorkloadKey, pods: Iterable[views.Pod], workload: Workload | None
    ) -> tuple[ServingGroup | None, bool]:
        """Return the group whose Workload has a key, and whether its owner has left it.

        The group is None if its owner is not to have it, or is not there. It is left if the
        owner is gone, as far as all owners of the kind are known: no other pods come into it. An
        owner that was made anew under the same name has another group, also if it adopts them.

        Args:
            key: the key.
            pods: the pods of the group.
            workload: the Workload.
        """
        group = self._groups.get(key)
        if group is None:
            ident, group = self._of_pods(pods) or self._of_workload(key, workload) or _NOTHING
            if ident is not None:
                self._keys.setdefault(ident, set()).add(key)  # it is looked at with its owner
            if group is None or group.key != key:
                return None, ident is not None and self._is_gone(ident, group)
            self._groups[key] = group
        return (group if group.of is STATEFUL_SET or group.is_wanted else None), False

    def _is_gone(self, ident: _Ident, group: ServingGroup | None) -> bool:
        """Return whether an owner is not there, or is another one, which has another group.

        While an API server starts, it says of kinds that it does not serve them.
        """
        informer = self.informers[resource_of(self._kinds[ident[0]].kind)]
        is_known = informer.synced and informer.is_served
        return is_known and (ident not in self._owners or group is not None)

    def _of_pods(self, pods: Iterable[views.Pod]) -> _Found | None:
        pod = next(filter(self.includes, pods), None)
        if pod is None:
            return None
        kind, ident = self._named_by(pod)
        owner = self._owners.get(ident)
        return ident, None if owner is None else serving_group.of_pod(kind, owner, pod)

    def _of_workload(self, key: WorkloadKey, workload: Workload | None) -> _Found | None:
        references = () if workload is None else workload.metadata.owner_references or ()
        for reference in references:
            for kind in self._kinds.values():
                if not kind.kind.is_of(reference):
                    continue
                ident = (kind.parent, key.namespace, reference.name)
                owner = self._owners.get(ident)
                if owner is None or owner.metadata.uid != reference.uid:
                    return ident, None
                groups = islice(serving_group.groups(kind, owner), _MOST_REPLICAS)
                return ident, next((group for group in groups if group.key == key), None)
        return None

    def _named_by(self, pod: views.Pod) -> tuple[ServingKind, _Ident]:
        kind = self._kinds[pod.metadata.annotation(names.POD_SUSPENDING_PARENT)]
        return kind, (kind.parent, pod.metadata.namespace, serving_group.owner_of(kind, pod))

    def includes(self, pod: views.Pod) -> bool:
        """Return whether a pod says that it is of such an owner."""
        return pod.metadata.annotation(names.POD_SUSPENDING_PARENT) in self._kinds

    def find(self, pod: views.Pod) -> ServingGroup | Text:
        """Return the group of a pod, or what it waits for.

        Args:
            pod: one of those that are included.
        """
        kind, ident = self._named_by(pod)
        owner = self._owners.get(ident)
        group = None if owner is None else serving_group.of_pod(kind, owner, pod)
        if group is not None:
            return group
        self._draft.note(self._note_waiting, ident, pod_owner.KIND.key_of(pod))
        return added_conditions.waits_for_serving_owner(kind.kind.name, ident[2])

    def _note_waiting(self, ident: _Ident, key: WorkloadKey) -> None:
        """Take that a pod waits for its owner."""
        self._waiting.setdefault(ident, set()).add(key)

    def _on_update(self, kind: ServingKind, document: ServingDocument) -> None:
        self._set((kind.parent, document.metadata.namespace, document.metadata.name), document)

    def _on_delete(self, kind: ServingKind, gone: views.Object) -> None:
        ident = (kind.parent, gone.metadata.namespace, gone.metadata.name)
        owner = self._owners.get(ident)
        if owner is not None and owner.metadata.uid == gone.metadata.uid:
            self._set(ident, None)

    def _set(self, ident: _Ident, owner: ServingDocument | None) -> None:
        """Take the current state of an owner; its groups are computed again."""
        if owner is None:
            self._owners.pop(ident, None)
        else:
            self._owners[ident] = owner
        keys = self._keys.pop(ident, set())
        for key in keys:
            self._groups.pop(key, None)
        self._look_at({*keys, *self._waiting.pop(ident, ())})
