"""Owners of every kind: whose a Workload is, and who is told of it.

The owner reference of a Workload names the kind. Without one the name of the key does: all but
the names of groups begin with the kind.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from admission.base.names import WorkKey, WorkloadKey
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.owner_writes import Owners
from admission.controller.watched_owners.pod_groups import PodGroups
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing.api_requests import ApiRequest, RequestResult
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload

AnyOwners = Owners[Any, Any]


class OwnersOfEveryKind:
    """The owners of each kind that is served."""

    def __init__(
        self, owners: Sequence[AnyOwners], groups: PodGroups, workloads: WorkloadIndex
    ) -> None:
        """Prepare for the owners of each kind.

        Args:
            owners: of each kind but groups.
            groups: of pods.
            workloads: all Workloads.
        """
        self._groups = groups
        self._all: tuple[AnyOwners, ...] = (*owners, groups)
        self._workloads = workloads
        self._by_kind: dict[tuple[str, str], AnyOwners] = {}
        self._by_prefix: dict[str, tuple[AnyOwners, ...]] = {}
        """By what the names of their Workloads begin with, and groups: those may have any name."""
        self._by_resource: dict[Resource, AnyOwners] = {}
        for listed in owners:
            kind = listed.integration.kind
            prefix = kind.name.lower()
            self._by_kind[kind.api_version, kind.name] = listed
            alike = self._by_prefix.get(prefix, (groups,))[:-1]
            self._by_prefix[prefix] = (*alike, listed, groups)
            self._by_resource[listed.resource] = listed

    def __iter__(self) -> Iterator[AnyOwners]:
        return iter(self._all)

    def controller_of(self, key: WorkloadKey) -> views.OwnerReference | None:
        """Return the controller of a Workload; None where there is none."""
        workload = self._workloads.get(key)
        return None if workload is None else workload.metadata.controller()

    def subject(self, key: WorkKey) -> tuple[AnyOwners, Subject] | None:
        """Return whose business a Workload key is and what there is; None for nobody's."""
        if not isinstance(key, WorkloadKey):
            return None
        controller = self.controller_of(key)
        named = None
        if controller is not None:
            named = self._by_kind.get((controller.api_version, controller.kind))
        if named is not None:
            subject = named.index.subject(key)
            if subject is not None:
                return named, subject
        for owners in self._of_name(key):
            if owners is named or not owners.index.may_have(key, controller):
                continue
            subject = owners.index.subject(key)
            if subject is not None:
                return owners, subject
        return None

    def _of_name(self, key: WorkloadKey) -> tuple[AnyOwners, ...]:
        """Return the owners whose Workload may have a name; groups last."""
        return self._by_prefix.get(key.name.partition("-")[0], (self._groups,))

    def naming(self, workload: Workload) -> list[WorkloadKey]:
        """Return the keys of owners to look at when a Workload came or changed, besides its own.

        An owner of any kind may name a Workload that has no reference to it yet.
        """
        key, controller = workload.key(), workload.metadata.controller()
        return [
            named
            for owners in self._all
            if owners.may_name(key, controller)
            for named in owners.naming(workload)
        ]

    def naming_gone(self, workload: views.Object) -> list[WorkloadKey]:
        """Return the keys of owners to look at when a Workload is gone; each forgets of it."""
        return [key for owners in self._all for key in owners.naming(workload)]

    def of_namespace(self, namespace: str) -> list[WorkloadKey]:
        """Return the keys to look at when it may have changed whether a namespace is managed."""
        return [key for owners in self._all for key in owners.of_namespace(namespace)]

    def done_to_pod(self, request: ApiRequest) -> None:
        """Tell of a write about a pod that took effect, and that no Workload asked for."""
        owners = self._by_resource.get(request.resource)
        if owners is not None:
            owners.tell(request)

    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take what came of a write about an owner or its Workload; call before it is seen."""
        request, controller = outcome.request, self.controller_of(key)
        candidates = [*self._of_name(key), self._by_resource.get(request.resource)]
        if controller is not None:
            candidates.append(self._by_kind.get((controller.api_version, controller.kind)))
        for owners in dict.fromkeys(candidates):
            if owners is not None and owners.may_take(key, controller, request):
                owners.complete(key, outcome)
