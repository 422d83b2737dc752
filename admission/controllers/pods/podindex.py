"""Pods as last seen, by the key of their Workload. Holds no quota."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admission.api import views
from admission.base import conditions
from admission.base.names import WorkloadKey
from admission.controllers.seeing.observed import Observed
from admission.controllers.workloads.workloadindex import WorkloadIndex
from admission.objects import facts
from admission.owners import pod as pod_owner
from admission.owners import prebuilt

PodKey = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    """What is known of a pod besides what was seen of it.

    Attributes:
        pod_key: where the pod is.
        spec: its whole spec, until its Workload exists.
        named: the Workload that it names, whole, until it is adopted.
        is_stopped: its deletion was accepted.
        is_unmarkable: the server refused to have the reason of its deletion written on it.
    """

    pod_key: PodKey
    spec: Mapping[str, Any] | None = None
    named: Mapping[str, Any] | None = None
    is_stopped: bool = False
    is_unmarkable: bool = False


class PodIndex:
    """Pods by the key that a Workload of ours has, or would have.

    Attributes:
        workloads: all Workloads.
        pods: all pods by namespace and name.
    """

    def __init__(self, workloads: WorkloadIndex) -> None:
        self.workloads = workloads
        self.pods: Observed[PodKey, views.Pod] = Observed()
        self._entries: dict[WorkloadKey, _Entry] = {}
        self._naming = prebuilt.Named()

    def pod_of(self, key: WorkloadKey) -> views.Pod | None:
        """The pod of a Workload key; a pod of the same name but another uid is not it.

        A pod that names its Workload has two keys: that of the Workload once it has adopted it,
        and the one that a Workload of ours would have.
        """
        entry = self._entries.get(key)
        pod = self.pods.get(entry.pod_key) if entry else None
        if pod is not None and pod_owner.KIND.key_of(pod) == key:
            return pod
        workload = self.workloads.get(key)
        own = None if workload is None else pod_owner.KIND.owner_key(workload)
        if workload is None or own is None or own == key:
            return None
        owner = self.pod_of(own)
        return owner if owner and prebuilt.is_adopted(workload, owner) else None

    def named_by(self, pod: views.Pod | None) -> views.Workload | None:
        """What there is under the name of a Workload that a pod gives."""
        named = None if pod is None else pod_owner.KIND.prebuilt_key(pod)
        return None if named is None else self.workloads.get(named)

    def naming(self, key: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Keys to look at of the pods that name a Workload, which is here now or gone."""
        found = self._naming.owners(key)
        for own in found:
            self.workloads.doubt_absence(own)
        return found

    def are_ready(self, key: WorkloadKey) -> bool | None:
        """Whether the pod of a Workload is ready; None without one, or while it is to start."""
        pod, workload = self.pod_of(key), self.workloads.get(key)
        if pod is None or workload is None:
            return None
        if pod_owner.is_gated(pod) and workload.status.is_true(conditions.ADMITTED):
            return None
        return pod_owner.is_ready(pod)

    def is_unknown(self, key: WorkloadKey) -> bool:
        """Whether there is neither a Workload nor a pod of that key."""
        return key not in self._entries and self.workloads.get(key) is None

    # ------------------------------------------------------------------------------- seeing

    def see_pod(self, pod: views.Pod, spec: Mapping[str, Any] | None) -> WorkloadKey | None:
        """Takes a sight of a pod; returns the key to look at, None if it was an old sight.

        Args:
            pod: the pod.
            spec: its whole spec, where the sight has it; kept until its Workload exists.
        """
        pod_key = (pod.metadata.namespace, pod.metadata.name)
        known = self.pods.get(pod_key)
        if not self.pods.put(pod_key, pod):
            return None
        key = pod_owner.KIND.key_of(pod)
        if known is not None and pod_owner.KIND.key_of(known) == key:
            self._naming.remove(pod_owner.KIND.prebuilt_key(known), key)
        self._naming.add(pod_owner.KIND.prebuilt_key(pod), key)
        entry = self._entries.setdefault(key, _Entry(pod_key))
        if spec is not None and pod_owner.is_gated(pod) and not self._has_workload(key, pod):
            entry.spec = spec
        return key

    def lose_pod(self, pod: views.Pod) -> WorkloadKey:
        """The pod is gone."""
        key = pod_owner.KIND.key_of(pod)
        self.pods.remove((pod.metadata.namespace, pod.metadata.name), pod.metadata.uid)
        self._entries.pop(key, None)
        self.workloads.doubt_absence(key)
        self._naming.remove(pod_owner.KIND.prebuilt_key(pod), key)
        return key

    def see_workload(self, workload: views.Workload) -> None:
        """A Workload is there: what was kept to make or to adopt it is needed no more."""
        own = pod_owner.KIND.owner_key(workload) if prebuilt.is_marked(workload) else None
        for entry in map(self._entries.get, filter(None, (facts.key(workload), own))):
            if entry is not None:
                entry.spec = entry.named = None

    def _has_workload(self, key: WorkloadKey, pod: views.Pod) -> bool:
        found = self.named_by(pod)
        if found is not None and prebuilt.is_adopted(found, pod):
            return True
        return self.workloads.get(key) is not None

    # --------------------------------------------------------------- what was read or answered

    def spec_of(self, key: WorkloadKey) -> Mapping[str, Any] | None:
        """Whole spec of a pod whose Workload does not exist yet."""
        entry = self._entries.get(key)
        return None if entry is None else entry.spec

    def keep_spec(self, key: WorkloadKey, document: Mapping[str, Any]) -> None:
        """Takes the whole spec of a pod whose Workload does not exist yet."""
        pod, entry = self.pod_of(key), self._entries.get(key)
        is_same = pod is not None and document["metadata"].get("uid") == pod.metadata.uid
        if entry is not None and is_same:
            entry.spec = document["spec"]

    def named_document(self, key: WorkloadKey) -> Mapping[str, Any] | None:
        """Whole the Workload that the pod of a key names, as far as it was read."""
        entry = self._entries.get(key)
        return None if entry is None else entry.named

    def keep_named(self, key: WorkloadKey, document: Mapping[str, Any]) -> None:
        """Takes whole the Workload that the pod of a key names."""
        if key in self._entries:
            self._entries[key].named = document

    def is_stopped(self, pod: views.Pod) -> bool:
        """Whether the pod's deletion was accepted; it may still run for its grace period."""
        entry = self._entries.get(pod_owner.KIND.key_of(pod))
        return entry is not None and entry.is_stopped

    def is_unmarkable(self, pod: views.Pod) -> bool:
        """Return whether the pod has to be deleted without the reason being written on it."""
        entry = self._entries.get(pod_owner.KIND.key_of(pod))
        return entry is not None and entry.is_unmarkable

    def refuse_mark(self, key: WorkloadKey) -> None:
        """Record that the server refused the reason of a deletion; the pod is deleted anyway."""
        pod = self.pod_of(key)
        entry = None if pod is None else self._entries.get(pod_owner.KIND.key_of(pod))
        if entry is not None:
            entry.is_unmarkable = True

    def confirm_stopped(self, pod: views.Pod) -> None:
        """The pod's deletion was accepted; it is not asked for again."""
        entry = self._entries.get(pod_owner.KIND.key_of(pod))
        if entry is not None:
            entry.is_stopped = True
