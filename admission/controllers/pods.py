"""Pods and their Workloads: what was seen of them, and the write that comes next for each.

Holds no quota: reservations come from the scheduling loop as decisions to be written.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from admission.api import views
from admission.base import names
from admission.base.names import WorkloadKey
from admission.controllers import (
    adoption,
    conditions,
    evictions,
    lifecycle,
    podconditions,
    podfollowing,
    podworkload,
    prebuilt,
    prebuiltpods,
    release,
    statuses,
    writes,
)
from admission.controllers.adoption import Hint
from admission.controllers.configuration import Configuration
from admission.controllers.lifecycle import Step
from admission.controllers.observed import Observed
from admission.controllers.writes import Purpose, Write
from admission.engine.decisions import Wait
from admission.translate import words

PodKey = tuple[str, str]

NOT_RELEASABLE: Final = "FailedToStart"


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
        key = lifecycle.key(workload)
        if not self.workloads.put(key, workload):
            return None
        self._specs.pop(key, None)
        self._absent.discard(key)
        self._missing.discard(key)
        own = lifecycle.pod_key(workload)
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
        own = None if workload is None else lifecycle.pod_key(workload)
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


def write_for(
    step: lifecycle.Next,
    key: WorkloadKey,
    pods: PodWorkloads,
    configuration: Configuration,
    now: datetime,
) -> Write | None:
    """The write that carries out a step; None where there is nothing to write yet.

    A pod whose assignment contradicts it is not released: its Workload ends as FailedToStart.
    """
    pod, workload = pods.pod_of(key), pods.workloads.get(key)
    write: Write | None = None
    match step.step:
        case Step.CREATE_WORKLOAD if pod is not None:
            write = _create(key, pod, pods, configuration, now)
        case Step.STOP_POD if pod is not None and not pods.is_stopped(key):
            named = podworkload.prebuilt_key(pod)
            unsure = workload is None and pods.named_by(pod) is None
            asked = pods.ask_absence(key, named.name if named else "") if unsure else None
            write = asked or writes.delete_pod(key, pod, step.message)
        case Step.DELETE_WORKLOAD if workload is not None:
            write = writes.delete_workload(workload)
        case Step.FINISH if workload is not None:
            status = statuses.finish(workload, step.reason, step.message, now)
            write = writes.patch_workload_status(workload, Purpose.FINISH_WORKLOAD, status)
        case Step.CLEAR_RESERVATION if workload is not None:
            status = evictions.clear(workload, now)
            write = writes.patch_workload_status(workload, Purpose.CLEAR_RESERVATION, status)
        case Step.FOLLOW_POD if pod is not None and workload is not None:
            write = podfollowing.write_for(pod, workload, configuration.priority_classes)
        case Step.RELEASE if pod is not None and workload is not None:
            write = _release(key, pod, workload, configuration.flavors, now)
        case _:
            pass
    return write


def _create(
    key: WorkloadKey,
    pod: views.Pod,
    pods: PodWorkloads,
    configuration: Configuration,
    now: datetime,
) -> Write | None:
    if adoption.hint_for(pod, configuration) is not None or adoption.is_in_doubt(pod):
        return None
    spec = pods.spec_of(key)
    if spec is None:
        return writes.read_pod(key, pod)
    if podworkload.prebuilt_key(pod) is not None:
        found = pods.named_by(pod)
        if found is None or not prebuilt.may_adopt(found, pod):
            return None
        return prebuiltpods.adopt(key, pod, spec, found, pods.named_document(key), now)
    return writes.create_workload(
        key,
        podworkload.build(
            pod, spec, configuration.priority_classes, configuration.workloads.copied_labels
        ),
    )


def _release(
    key: WorkloadKey,
    pod: views.Pod,
    workload: views.Workload,
    flavors: Mapping[str, views.ResourceFlavor],
    now: datetime,
) -> Write | None:
    try:
        given = release.injection(workload, names.DEFAULT_PODSET, flavors)
        return writes.patch_pod(key, pod, Purpose.RELEASE_POD, release.patch(pod, given))
    except KeyError:
        return None  # the flavor was deleted after the decision; its return wakes the pod
    except release.InjectionConflictError as conflict:
        status = statuses.finish(workload, NOT_RELEASABLE, str(conflict), now)
        return writes.patch_workload_status(workload, Purpose.FINISH_WORKLOAD, status)


def explain(key: WorkloadKey, wait: Wait, pods: PodWorkloads, now: datetime) -> Write | None:
    """The next write that tells why a Workload waits: on itself first, then on its pod."""
    pod, workload = pods.pod_of(key), pods.workloads.get(key)
    if workload is None or not lifecycle.is_pending(workload):
        return None
    status = statuses.explain(workload, wait, now)
    if status is not None:
        return writes.patch_workload_status(workload, Purpose.EXPLAIN_WORKLOAD, status)
    if pod is None or not podworkload.is_gated(pod):
        return None
    return explain_pod(key, pod, Hint(wait.reason, words.waiting(wait)), now)


def explain_pod(key: WorkloadKey, pod: views.Pod, hint: Hint, now: datetime) -> Write | None:
    """Puts a reason on a pod that is not admitted."""
    patch = podconditions.patch(
        pod, admitted=False, reason=hint.reason, message=hint.message, now=now
    )
    if patch is None:
        return None
    return writes.patch_pod(key, pod, Purpose.EXPLAIN_POD, patch, subresource="status")


def acknowledge(key: WorkloadKey, pods: PodWorkloads, now: datetime) -> Write | None:
    """Turns the pod's waiting condition True once it is released; only where there was one."""
    pod, workload = pods.pod_of(key), pods.workloads.get(key)
    if pod is None or workload is None or podworkload.is_gated(pod):
        return None
    found = podconditions.current(pod)
    admitted = workload.status.is_true(conditions.ADMITTED) and workload.status.admission
    if found is None or found.status == "True" or not admitted or podworkload.is_terminal(pod):
        return None
    message = f"Admitted by ClusterQueue {admitted.cluster_queue}"
    patch = podconditions.patch(pod, admitted=True, reason="Admitted", message=message, now=now)
    if patch is None:
        return None
    return writes.patch_pod(key, pod, Purpose.EXPLAIN_POD, patch, subresource="status")
