"""Workloads as last seen, by key, and the results of reads of those that are missing."""

from collections.abc import Iterator, Mapping
from typing import Any

from admission.base.names import LocalQueueKey, WorkKey, WorkloadKey
from admission.controller.seeing.object_cache import ObjectCache
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest
from admission.objects.workload import Workload, claim_names
from admission.owners import slices
from admission.owners.workload import name_for


class WorkloadIndex:
    """All Workloads, whoever owns them.

    Nothing that runs is stopped because a Workload was not seen: whether it exists is asked, and
    then whether its kind does, as at an uninstallation they all vanish with it.
    """

    def __init__(self) -> None:
        self._seen: ObjectCache[WorkloadKey, Workload] = ObjectCache()
        self._by_key: Mapping[Any, Workload] = self._seen.by_key
        self._in = self._seen.index(lambda key, _: (key.namespace,))
        self._of_local_queue = self._seen.index(_local_queue)
        self._reserving_in = self._seen.index(_cluster_queue)
        self._in_flavor = self._seen.index(_flavors)
        self._of_class = self._seen.index(_priority_class)
        self._of_runtime_class = self._seen.index(_runtime_classes)
        self._of_pod_priority = self._seen.index(_pod_priorities)
        self._of_volume_claim = self._seen.index(_volume_claims)
        self._not_found: set[WorkloadKey] = set()
        self._absent: set[WorkloadKey] = set()
        self._granted: set[WorkloadKey] = set()
        self._first: dict[WorkloadKey, WorkloadKey] = {}
        """Of each slice that replaces another one: the key of its owner's first Workload."""
        self._slices: dict[WorkloadKey, dict[WorkloadKey, None]] = {}
        """The same, by that key."""

    @property
    def by_key(self) -> Mapping[Any, Workload]:
        """Return all Workloads by key, to read; it follows every change."""
        return self._by_key

    def get(self, key: WorkKey) -> Workload | None:
        """Return the Workload as last seen; None also for a key that is of no Workload."""
        return self._by_key.get(key)

    def __iter__(self) -> Iterator[WorkloadKey]:
        """All keys, in the order in which they were first seen; changes meanwhile do no harm."""
        return iter(self._seen)

    def in_namespace(self, namespace: str) -> tuple[WorkloadKey, ...]:
        """Return the Workloads of a namespace."""
        return self._in.keys(namespace)

    def of_local_queue(self, queue: LocalQueueKey) -> tuple[WorkloadKey, ...]:
        """Return the Workloads that name a LocalQueue."""
        return self._of_local_queue.keys(queue)

    def reserving_in(self, cluster_queue: str) -> tuple[WorkloadKey, ...]:
        """Return the Workloads with an admission to a ClusterQueue."""
        return self._reserving_in.keys(cluster_queue)

    def in_flavor(self, flavor: str) -> tuple[WorkloadKey, ...]:
        """Return the Workloads whose admission names a flavor."""
        return self._in_flavor.keys(flavor)

    def of_class(self, name: str) -> tuple[WorkloadKey, ...]:
        """Return the Workloads that name a priority class, of whatever kind."""
        return self._of_class.keys(name)

    def of_runtime_class(self, name: str) -> tuple[WorkloadKey, ...]:
        """Return the Workloads of which pods name a RuntimeClass."""
        return self._of_runtime_class.keys(name)

    def of_pod_priority(self, name: str) -> tuple[WorkloadKey, ...]:
        """Return the Workloads of which pods name a PriorityClass; none where it is empty."""
        return self._of_pod_priority.keys(name)

    def of_volume_claim(self, claim: tuple[str, str]) -> tuple[WorkloadKey, ...]:
        """Return the Workloads of which pods use a PersistentVolumeClaim."""
        return self._of_volume_claim.keys(claim)

    def on_update(self, workload: Workload) -> WorkloadKey | None:
        """Take a version of a Workload; return None if it was an old one.

        A slice that its owner has left stays one of that owner: the pods name the first one still.
        """
        key = workload.key()
        before = self._by_key.get(key)
        if not self._seen.put(key, workload):
            return None
        self.doubt_absence(key)
        first = _first_of(workload)
        if workload.metadata.controller() is None and before is not None:
            is_same = before.metadata.uid == workload.metadata.uid
            first = self._first.get(key) if is_same else None
        self._note_slice(key, first)
        return key

    def on_delete(self, key: WorkloadKey, uid: str) -> bool:
        """Handle the deletion of a Workload; return false if it was not here."""
        is_gone = self._seen.remove(key, uid)
        if is_gone:
            self._granted.discard(key)
            self._note_slice(key, None)
        return is_gone

    def _note_slice(self, key: WorkloadKey, first: WorkloadKey | None) -> None:
        before = self._first.pop(key, None)
        if before is not None and before != first:
            del self._slices[before][key]
            if not self._slices[before]:
                del self._slices[before]
        if first is not None:
            self._first[key] = first
            self._slices.setdefault(first, {})[key] = None

    def first(self, key: WorkloadKey) -> WorkloadKey:
        """Return the key that the first Workload of an owner has; its own for one without slices.

        Pods name that one, whichever slice they were released with.
        """
        return self._first.get(key, key)

    def slices(self, first: WorkloadKey) -> tuple[Workload, ...]:
        """Return the Workload of a key and those that replaced it, in order; see `slices`."""
        keys = self._slices.get(first)
        first_workload = self._seen.get(first)
        if keys is None:
            return () if first_workload is None else (first_workload,)
        slices_found = [workload for workload in map(self._seen.get, keys) if workload is not None]
        return slices.in_order(
            [*slices_found, *(() if first_workload is None else (first_workload,))]
        )

    def current(self, first: WorkloadKey) -> WorkloadKey:
        """Return the key of the current slice of an owner, by the key of its first one."""
        if first not in self._slices:
            return first
        current_slice = slices.current(self.slices(first))
        return first if current_slice is None else current_slice.key()

    def note_granted(self, key: WorkloadKey) -> None:
        """Note that this process has written a reservation for a Workload."""
        if self._seen.get(key) is not None:
            self._granted.add(key)

    def was_granted(self, key: WorkloadKey) -> bool:
        """Return whether this process wrote the reservation of a Workload, and no other did."""
        return key in self._granted

    def ask_absence(self, key: WorkloadKey, name: str = "") -> ApiRequest | None:
        """Return the object to read before a running owner without a Workload is stopped.

        None when it is certain that the Workload is gone though its kind is there. ``name`` is
        that of a Workload of another name than the key's, which the owner names.
        """
        if key in self._absent:
            return None
        if key in self._not_found:
            return api_requests.find_kind(key)
        return api_requests.find_workload(key, name)

    def note_not_found(self, key: WorkloadKey) -> None:
        """Note that a read found no Workload; whether the kind exists is to be asked next."""
        self._not_found.add(key)

    def note_kind(self, key: WorkloadKey, *, exists: bool) -> None:
        """Note whether a read found that the kind exists; without it nothing is certain."""
        if exists:
            self._absent.add(key)
        else:
            self._not_found.discard(key)

    def doubt_absence(self, key: WorkloadKey) -> None:
        """Note that the Workload of a key, or that its owner names, may be there, or be again."""
        self._absent.discard(key)
        self._not_found.discard(key)


def _local_queue(key: WorkloadKey, workload: Workload) -> tuple[LocalQueueKey]:
    return (LocalQueueKey(key.namespace, workload.spec.queue_name),)


def _cluster_queue(_: WorkloadKey, workload: Workload) -> tuple[str, ...]:
    admission = workload.status.admission
    return () if admission is None else (admission.cluster_queue,)


def _flavors(_: WorkloadKey, workload: Workload) -> Iterator[str]:
    admission = workload.status.admission
    for assignment in (admission.pod_set_assignments if admission else None) or ():
        yield from (assignment.flavors or {}).values()


def _priority_class(_: WorkloadKey, workload: Workload) -> tuple[str, ...]:
    reference = workload.spec.priority_class_ref
    return () if reference is None else (reference.name,)


def _runtime_classes(_: WorkloadKey, workload: Workload) -> Iterator[str]:
    for pod_set in workload.spec.pod_sets or ():
        if pod_set.template.spec.runtime_class_name:
            yield pod_set.template.spec.runtime_class_name


def _pod_priorities(_: WorkloadKey, workload: Workload) -> Iterator[str]:
    for pod_set in workload.spec.pod_sets or ():
        yield pod_set.template.spec.priority_class_name


def _volume_claims(key: WorkloadKey, workload: Workload) -> Iterator[tuple[str, str]]:
    for pod_set in workload.spec.pod_sets or ():
        for name in claim_names(pod_set.template.spec):
            yield key.namespace, name


def _first_of(workload: Workload) -> WorkloadKey | None:
    """Return the key of the first Workload of the owner of a slice; None of all others."""
    controller = workload.metadata.controller()
    if controller is None or workload.replaces() is None:
        return None
    group = controller.api_version.rpartition("/")[0]
    first = WorkloadKey(
        workload.metadata.namespace,
        name_for(controller.kind, group, controller.name, controller.uid),
    )
    return None if first == workload.key() else first
