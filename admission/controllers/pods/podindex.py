"""Pods and Workloads as last seen, by Workload key. Holds no quota."""

from collections.abc import Mapping
from typing import Any

from admission.api import views
from admission.base.names import WorkloadKey
from admission.controllers.pods import podlifecycle, podworkload
from admission.controllers.seeing.observed import Observed
from admission.controllers.workloads import conditions, facts, prebuilt
from admission.controllers.writing import writes
from admission.controllers.writing.writes import Write

PodKey = tuple[str, str]


class PodWorkloads:
    """Index of pods and Workloads by Workload key."""

    def __init__(self) -> None:
        self.pods: Observed[PodKey, views.Pod] = Observed()
        self.workloads: Observed[WorkloadKey, views.Workload] = Observed()
        self._pod_keys: dict[WorkloadKey, PodKey] = {}
        self._specs: dict[WorkloadKey, Mapping[str, Any]] = {}
        self._missing: set[WorkloadKey] = set()
        self._absent: set[WorkloadKey] = set()
        self._stopped: set[WorkloadKey] = set()
        self._naming = prebuilt.Named()
        self._named: dict[WorkloadKey, Mapping[str, Any]] = {}

    def see_pod(self, pod: views.Pod, spec: Mapping[str, Any] | None) -> WorkloadKey | None:
        """Takes a sight of a pod; returns the key to look at, None if it was an old sight.

        Args:
            pod: the pod.
            spec: its whole spec, where the sight has it; kept until its Workload exists.
        """
        metadata = pod.metadata
        known = self.pods.get((metadata.namespace, metadata.name))
        if not self.pods.put((metadata.namespace, metadata.name), pod):
            return None
        key = podworkload.key_of(pod)
        if known is not None and podworkload.key_of(known) == key:
            self._naming.remove(podworkload.prebuilt_key(known), key)
        self._pod_keys[key] = (metadata.namespace, metadata.name)
        self._naming.add(podworkload.prebuilt_key(pod), key)
        found = self.named_by(pod)
        has_own = self.workloads.get(key) is not None
        has_one = has_own or (found is not None and prebuilt.is_adopted(found, pod))
        if spec is not None and podworkload.is_gated(pod) and not has_one:
            self._specs[key] = spec
        return key

    def lose_pod(self, pod: views.Pod) -> WorkloadKey:
        """The pod is gone."""
        key = podworkload.key_of(pod)
        self.pods.remove((pod.metadata.namespace, pod.metadata.name), pod.metadata.uid)
        self._pod_keys.pop(key, None)
        self._specs.pop(key, None)
        self._named.pop(key, None)
        self._absent.discard(key)
        self._missing.discard(key)
        named = podworkload.prebuilt_key(pod)
        self._stopped -= {key, named}
        self._naming.remove(named, key)
        return key

    def named_by(self, pod: views.Pod | None) -> views.Workload | None:
        """What there is under the name of a Workload that a pod gives."""
        named = None if pod is None else podworkload.prebuilt_key(pod)
        return None if named is None else self.workloads.get(named)

    def naming(self, key: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Keys to look at of the pods that name a Workload, which is here now or gone."""
        found = self._naming.owners(key)
        for own in found:
            self.doubt_absence(own)
        return found

    def see_workload(self, workload: views.Workload) -> WorkloadKey | None:
        """Takes a sight of a Workload; None if it was an old one."""
        key = facts.key(workload)
        if not self.workloads.put(key, workload):
            return None
        self._specs.pop(key, None)
        self._absent.discard(key)
        self._missing.discard(key)
        own = podlifecycle.pod_key(workload)
        if own is not None and prebuilt.is_marked(workload):
            self._specs.pop(own, None)
            self._named.pop(own, None)
        return key

    def lose_workload(self, key: WorkloadKey, uid: str) -> bool:
        """The Workload is gone; false if it was not here."""
        return self.workloads.remove(key, uid)

    def note_missing(self, key: WorkloadKey, *, missing: bool) -> None:
        """A read found no Workload; whether the kind still exists is to be asked next."""
        (self._missing.add if missing else self._missing.discard)(key)

    def ask_absence(self, key: WorkloadKey, name: str = "") -> Write | None:
        """What to read before something that runs is stopped for want of its Workload.

        None when it is certain that the Workload is gone though its kind is there. ``name`` is
        that of a Workload of another name than the key's, which the owner names.
        """
        if key in self._absent:
            return None
        return writes.find_kind(key) if key in self._missing else writes.find_workload(key, name)

    def doubt_absence(self, key: WorkloadKey) -> None:
        """The Workload that the owner of that key names is there; should it go, ask again."""
        self._absent.discard(key)
        self._missing.discard(key)

    def confirm_absent(self, key: WorkloadKey) -> None:
        """A read said that the Workload does not exist."""
        self._absent.add(key)

    def confirm_stopped(self, key: WorkloadKey) -> None:
        """The pod's deletion was accepted; it is not asked for again."""
        self._stopped.add(key)

    def is_stopped(self, key: WorkloadKey) -> bool:
        """Whether the pod's deletion was accepted; it may still run for its grace period."""
        return key in self._stopped

    def keep_spec(self, key: WorkloadKey, document: Mapping[str, Any]) -> None:
        """Takes the whole spec of a pod whose Workload does not exist yet."""
        pod = self.pod_of(key)
        if pod is not None and document["metadata"].get("uid") == pod.metadata.uid:
            self._specs[key] = document["spec"]

    def keep_named(self, key: WorkloadKey, document: Mapping[str, Any]) -> None:
        """Takes whole the Workload that the pod of a key names."""
        if key in self._pod_keys:
            self._named[key] = document

    def named_document(self, key: WorkloadKey) -> Mapping[str, Any] | None:
        """Whole the Workload that the pod of a key names, as far as it was read."""
        return self._named.get(key)

    def pod_of(self, key: WorkloadKey) -> views.Pod | None:
        """The pod of a Workload key; a pod of the same name but another uid is not it.

        A pod that names its Workload has two keys: that of the Workload once it has adopted it,
        and the one that a Workload of ours would have.
        """
        pod_key = self._pod_keys.get(key)
        pod = self.pods.get(pod_key) if pod_key else None
        if pod is not None and podworkload.key_of(pod) == key:
            return pod
        workload = self.workloads.get(key)
        own = None if workload is None else podlifecycle.pod_key(workload)
        if workload is None or own is None or own == key:
            return None
        owner = self.pod_of(own)
        return owner if owner and prebuilt.is_adopted(workload, owner) else None

    def are_ready(self, key: WorkloadKey) -> bool | None:
        """Whether the pod of a Workload is ready; None without one, or while it is to start."""
        pod, workload = self.pod_of(key), self.workloads.get(key)
        if pod is None or workload is None:
            return None
        if podworkload.is_gated(pod) and workload.status.is_true(conditions.ADMITTED):
            return None
        return podworkload.is_ready(pod)

    def is_unknown(self, key: WorkloadKey) -> bool:
        """Whether there is neither a Workload nor a pod of that key."""
        return key not in self._pod_keys and self.workloads.get(key) is None

    def spec_of(self, key: WorkloadKey) -> Mapping[str, Any] | None:
        """Whole spec of a pod whose Workload does not exist yet."""
        return self._specs.get(key)
