"""The part that only SparkApplications need: gated pods, started within the admission.

See ADR 0149.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from typing_extensions import override

from admission.base import conditions
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.controller.watched_owners.held import HeldOwners
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.owner_writes import Decide, OwnerContext
from admission.controller.writing.api_requests import ApiRequest
from admission.objects import views
from admission.objects.workload import PodSet, Workload
from admission.owners import injection, spark_application
from admission.owners import pod as pod_owner
from admission.owners.framework import Integration
from admission.owners.injection import Injection
from admission.owners.row_owner import RowView
from admission.owners.spark_application import SparkDocument
from admission.reasons import added_conditions

_SEEN_WITHIN: Final = timedelta(seconds=30)
"""After this time a pod that was started and is not seen to run counts as gone."""

_Ident = tuple[str, str]
"""Namespace and name of an application."""


class _Started(NamedTuple):
    """A pod that was let start, and may not be seen to run yet."""

    role: str
    at: datetime
    selector: Mapping[str, str]


class SparkApplications(HeldOwners[RowView, SparkDocument]):
    """SparkApplications with a queue, and the pods that wait for them."""

    def __init__(
        self, integration: Integration[RowView, SparkDocument], context: OwnerContext
    ) -> None:
        """Prepare an empty index; see `HeldOwners`."""
        super().__init__(integration, context)
        self._keys: dict[_Ident, WorkloadKey] = {}
        """Keys of their Workloads."""
        self._waiting: dict[_Ident, dict[WorkloadKey, None]] = {}
        """Pods that wait, by the key that a Workload of theirs would have."""
        self._started: dict[_Ident, dict[str, _Started]] = {}
        """Pods that were let start, by UID."""

    # ------------------------------------------------------------------------------- seeing

    @override
    def on_update(self, document: views.Object) -> None:
        super().on_update(document)
        key = self._kind.key_of(document)
        if self.index.get(key) is not None:
            ident = document.metadata.namespace, document.metadata.name
            self._keys[ident] = key
            self._look_at(tuple(self._waiting.get(ident, ())))

    @override
    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        super().on_delete(gone, for_good=for_good)
        ident = gone.metadata.namespace, gone.metadata.name
        if self._keys.get(ident) == self._kind.key_of(gone):
            del self._keys[ident]
            self._started.pop(ident, None)
            self._look_at(tuple(self._waiting.get(ident, ())))

    @override
    def next_request(self, subject: Subject, decide: Decide) -> ApiRequest | None:
        """Look at the pods that wait, too: the Workload or a pod of it has changed."""
        if subject.owner is not None:
            metadata = subject.owner.view.metadata
            pods = tuple(self._waiting.get((metadata.namespace, metadata.name), ()))
            if pods:
                self._draft.note(self._look_at, pods)
        return super().next_request(subject, decide)

    # --------------------------------------------------------------------------------- pods

    def find(
        self,
        key: WorkloadKey,
        pod: views.Pod,
        pod_of: Callable[[WorkloadKey], views.Pod | None],
    ) -> Injection | Text:
        """Return the admission that starts a gated pod, or the reason that it waits.

        Args:
            key: the key that a Workload of the pod would have.
            pod: the pod.
            pod_of: returns a pod by that key.

        Raises:
            InjectionConflictError: the pod contradicts what it is given.
        """
        ident = pod.metadata.namespace, spark_application.application_of(pod)
        role = spark_application.role_of(pod)
        self._draft.note(self._note_waiting, ident, key, pod.metadata.uid, pod_of)
        workload = self._admitted(ident)
        pod_set = None
        if workload is not None:
            pod_sets = workload.spec.pod_sets or ()
            pod_set = next((pod_set_ for pod_set_ in pod_sets if pod_set_.name == role), None)
        if workload is None or pod_set is None:
            return added_conditions.waits_for_application(ident[1])
        if spark_application.has_other_devices(pod, pod_set):
            return added_conditions.OTHER_DEVICES
        started = self._released(ident, pod)
        count_started = sum(1 for started_pod in started.values() if started_pod.role == role)
        room = pod_set.count - self._running.count(workload.key(), role) - count_started
        keys = {**self._waiting.get(ident, {}), key: None}
        waiting = self._gated(pod_set, keys, started, pod_of)
        if pod.metadata.uid not in waiting[: max(room, 0)]:
            return added_conditions.application_is_full(role, pod_set.count)
        flavors = self._configuration.flavors
        try:
            injection_ = injection.injection(workload, role, flavors)
        except KeyError:
            return added_conditions.waits_for_application(ident[1])  # its flavor was deleted
        selectors = [entry.selector for entry in started.values() if entry.role == role]
        selector = self._running.domain(workload, role, pod, selectors)
        started_pod = _Started(role, self._clock.now(), selector)
        self._draft.note(self._note_started, ident, pod.metadata.uid, started_pod)
        return injection.with_selector(injection_, selector)

    def _admitted(self, ident: _Ident) -> Workload | None:
        """Return the Workload of an application that was started with it."""
        key = self._keys.get(ident)
        view = None if key is None else self.index.get(key)
        workload = None if key is None else self._workloads.get(key)
        if view is None or workload is None or self._as_owner(view).is_held():
            return None
        status = workload.status
        is_over = any(map(status.is_true, (conditions.EVICTED, conditions.FINISHED)))
        return workload if status.is_true(conditions.ADMITTED) and not is_over else None

    def _note_waiting(
        self,
        ident: _Ident,
        key: WorkloadKey,
        uid: str,
        pod_of: Callable[[WorkloadKey], views.Pod | None],
    ) -> None:
        """Take that a pod waits, and forget those that do not any more."""
        waiting = self._waiting.setdefault(ident, {})
        waiting[key] = None
        for key_of_pod in tuple(waiting):
            pod = pod_of(key_of_pod)
            if pod is None or not pod_owner.is_gated(pod):
                del waiting[key_of_pod]
        started = self._started.get(ident, {})
        started.pop(uid, None)  # it still waits
        oldest = self._clock.now() - _SEEN_WITHIN
        for uid_of_pod, started_pod in tuple(started.items()):
            if self._running.has(uid_of_pod) or started_pod.at < oldest:
                del started[uid_of_pod]

    def _note_started(self, ident: _Ident, uid: str, started_pod: _Started) -> None:
        """Take that a pod is let start."""
        self._started.setdefault(ident, {})[uid] = started_pod

    def _released(self, ident: _Ident, pod: views.Pod) -> Mapping[str, _Started]:
        """Return the pods that were just released, by UID, without one that still waits."""
        oldest = self._clock.now() - _SEEN_WITHIN
        return {
            uid: started_pod
            for uid, started_pod in self._started.get(ident, {}).items()
            if uid != pod.metadata.uid and not self._running.has(uid) and started_pod.at >= oldest
        }

    def _gated(
        self,
        pod_set: PodSet,
        keys: Iterable[WorkloadKey],
        started: Mapping[str, _Started],
        pod_of: Callable[[WorkloadKey], views.Pod | None],
    ) -> list[str]:
        """Return the UIDs of the pods that wait and may start, in their order."""
        gated: list[tuple[str, str]] = []
        for pod in filter(None, map(pod_of, keys)):
            is_its = pod_owner.is_gated(pod) and spark_application.role_of(pod) == pod_set.name
            if (
                is_its
                and not spark_application.has_other_devices(pod, pod_set)
                and pod.metadata.uid not in started
            ):
                gated.append((pod.metadata.creation_timestamp or "", pod.metadata.uid))
        return [uid for _, uid in sorted(gated)]
