"""Jobs that a Job controls: they run while the Workload of an ancestor with a queue is admitted.

The review suspends a Job without a queue that names a Job as its controller, and labels it. An
owner reference is only a claim: here it is compared with the Job that exists. Without such an
ancestor the Job is let go. Source: kueue pkg/controller/jobframework/reconciler.go
(FindAncestorJobManagedByKueue, shouldSuspendChildJob). Differs: a child with a queue of its own
goes through that queue, and what was suspended here is started again (ADR 0040).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from admission.base import conditions, events, names, patches
from admission.base.events import Event, Events
from admission.base.names import WorkloadKey
from admission.controller.plans import PlanDraft
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.seeing.object_cache import ObjectCache
from admission.controller.watched_owners import owner_events, owner_requests
from admission.controller.watched_owners.index import OwnerIndex
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.kube import resources
from admission.objects import batch, views
from admission.objects.workload import Workload
from admission.owners import batch_job, prebuilt

SELECTOR: Final = f"{names.HELD_WITH_PARENT},!{names.QUEUE_LABEL}"
_HELD: Final = "true"
"""Value of the label while the Job is suspended for its ancestor, not for its author."""
_FREE: Final = "false"
_MOST_LEVELS: Final = 10


class ChildJobs:
    """Labelled Jobs, by the key that a Workload of theirs would have."""

    def __init__(
        self,
        index: OwnerIndex[batch.Job, batch.JobDocument],
        workloads: WorkloadIndex,
        configuration: WatchedConfiguration,
        events: Events,
        look_at: Callable[[Iterable[WorkloadKey]], None],
        draft: PlanDraft,
    ) -> None:
        """Prepare an empty index.

        Args:
            index: Jobs with a queue.
            workloads: all Workloads.
            configuration: tells which namespaces are managed.
            events: takes events about the Jobs.
            look_at: is told which Jobs to look at again.
            draft: of the plan that is being derived.
        """
        self._draft = draft
        self._index = index
        self._workloads = workloads
        self._configuration = configuration
        self._events = events
        self._look_at = look_at
        self._jobs: ObjectCache[WorkloadKey, batch.Job] = ObjectCache()
        self._by_owner: dict[str, set[WorkloadKey]] = {}
        self._asked: set[WorkloadKey] = set()

    # ------------------------------------------------------------------------------- seeing

    def on_update(self, document: batch.JobDocument) -> None:
        """Take a sight of a Job; one without the label, or with a queue, is not looked after."""
        metadata = document.metadata
        if not metadata.label(names.HELD_WITH_PARENT) or metadata.label(names.QUEUE_LABEL):
            self.on_delete(document)
            return
        key = batch_job.KIND.key_of(document)
        if not self._jobs.put(key, document.view()):
            return
        owner = metadata.controller()
        if owner is not None:
            self._by_owner.setdefault(owner.uid, set()).add(key)
        self._look_at((key, *self.below(metadata.uid)))

    def on_delete(self, view: views.Object) -> None:
        """Handle a Job that is gone or lost its label; a later version with the label may come."""
        key, uid = batch_job.KIND.key_of(view), view.metadata.uid
        job = self._jobs.get(key)
        if job is None or not self._jobs.remove(key, uid, view):
            return
        self._asked.discard(key)
        owner = job.metadata.controller()
        if owner is not None and owner.uid in self._by_owner:
            self._by_owner[owner.uid].discard(key)
            if not self._by_owner[owner.uid]:
                del self._by_owner[owner.uid]
        self._look_at(self.below(uid))

    def has(self, key: WorkloadKey) -> bool:
        """Return whether a key is that of a Job that is watched here."""
        return self._jobs.get(key) is not None

    def below(self, uid: str) -> tuple[WorkloadKey, ...]:
        """Return the keys of all Jobs that a Job controls, and of those that they control."""
        keys: dict[WorkloadKey, None] = {}
        owners = [uid]
        while owners and self._by_owner:
            for key in sorted(self._by_owner.get(owners.pop(), ())):
                job = self._jobs.get(key)
                if key not in keys and job is not None:
                    keys[key] = None
                    owners.append(job.metadata.uid)
        return tuple(keys)

    # ------------------------------------------------------------------------------ writing

    def next_request(self, key: WorkloadKey) -> ApiRequest | None:
        """Return the next write about a Job, or None if there is nothing to do."""
        job = self._jobs.get(key)
        if job is None or batch_job.JobOwner(job).finished() is not None:
            return None
        ancestor = self._ancestor(job)
        if ancestor is None or not self._configuration.manages(key.namespace):
            owner = _controller(job)
            if owner is None or key in self._asked:
                return self._let_go(key, job)
            return _read_parent(key, owner)
        self._draft.note(self._asked.discard, key)
        return self._with_ancestor(key, job, self._workload_of(ancestor))

    def _with_ancestor(
        self, key: WorkloadKey, job: batch.Job, workload: Workload | None
    ) -> ApiRequest | None:
        """Hold a Job that runs without its ancestor's admission, or start one that was held."""
        is_suspended = batch_job.is_suspended(job)
        is_held = is_suspended and job.metadata.label(names.HELD_WITH_PARENT) == _HELD
        if workload is None or not _is_running(workload):
            suspended = (events.suspended_child(),)
            hold = _patch(
                key, job, WritePurpose.HOLD_CHILD, _HELD, suspend=True, announced=suspended
            )
            return None if is_suspended else hold
        announced = tuple(owner_events.started(workload))
        start = _patch(
            key, job, WritePurpose.START_CHILD, _FREE, suspend=False, announced=announced
        )
        return start if is_held else None

    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take what came of a write; call before the answer is seen."""
        job, request = self._jobs.get(key), outcome.request
        if job is None:
            return
        if request.operation is WritePurpose.FIND_PARENT:
            if outcome.result in {Result.DONE, Result.GONE}:  # else nothing is known of it
                self._asked.add(key)
            if isinstance(outcome.object, batch.JobDocument):
                self.on_update(outcome.object)  # it may be a child itself
        elif outcome.result is Result.GONE:
            self.on_delete(job)
        elif outcome.result is Result.DONE:
            regarding = api_requests.reference(resources.JOBS, job.metadata)
            for event in request.events:
                self._events.event(regarding, event)

    def _let_go(self, key: WorkloadKey, job: batch.Job) -> ApiRequest:
        is_held_with_parent = job.metadata.label(names.HELD_WITH_PARENT) == _HELD
        suspend = False if is_held_with_parent and batch_job.is_suspended(job) else None
        return _patch(key, job, WritePurpose.LET_CHILD_GO, None, suspend=suspend)

    def _ancestor(self, job: batch.Job) -> batch.Job | None:
        """Return the topmost Job with a queue above a Job."""
        ancestor, seen = None, {job.metadata.uid}
        for _ in range(_MOST_LEVELS):
            owner = _controller(job)
            parent = None if owner is None else self._find(job.metadata.namespace, owner)
            if parent is None or parent.metadata.uid in seen:
                break
            seen.add(parent.metadata.uid)
            if parent.metadata.label(names.QUEUE_LABEL):
                ancestor = parent
            job = parent
        return ancestor

    def _find(self, namespace: str, owner: views.OwnerReference) -> batch.Job | None:
        """Return the very Job that an owner reference means; its key does not tell uids apart."""
        metadata = views.ObjectMeta(namespace=namespace, name=owner.name, uid=owner.uid)
        key = batch_job.KIND.key_of(views.Object(metadata=metadata))
        job = self._index.get(key) or self._jobs.get(key)
        return job if job is not None and job.metadata.uid == owner.uid else None

    def _workload_of(self, job: batch.Job) -> Workload | None:
        if batch_job.KIND.prebuilt_key(job) is None:
            return self._workloads.get(batch_job.KIND.key_of(job))
        named = self._index.named_by(job)
        return named if named is not None and prebuilt.is_adopted(named, job) else None


def _is_running(workload: Workload) -> bool:
    status = workload.status
    return status.is_true(conditions.ADMITTED) and not status.is_true(conditions.FINISHED)


def _controller(job: batch.Job) -> views.OwnerReference | None:
    """Return the reference to the Job that controls a Job; None where no Job does."""
    owner = job.metadata.controller()
    is_job = owner is not None and (owner.api_version, owner.kind) == (
        batch_job.KIND.api_version,
        batch_job.KIND.name,
    )
    return owner if is_job else None


def _read_parent(key: WorkloadKey, owner: views.OwnerReference) -> ApiRequest:
    sought = views.ObjectMeta(namespace=key.namespace, name=owner.name, uid=owner.uid)
    return api_requests.read(
        key, WritePurpose.FIND_PARENT, resources.JOBS, sought, batch.JobDocument
    )


def _patch(
    key: WorkloadKey,
    job: batch.Job,
    operation: WritePurpose,
    label: str | None,
    *,
    suspend: bool | None,
    announced: tuple[Event, ...] = (),
) -> ApiRequest:
    """Change the label, and whether the Job is suspended unless that is None."""
    metadata = {
        "resourceVersion": job.metadata.resource_version,
        "uid": job.metadata.uid,
        "labels": {names.HELD_WITH_PARENT: label},
    }
    changes: dict[str, Any] = {"metadata": metadata}
    if suspend is not None:
        changes["spec"] = {"suspend": suspend}
    return owner_requests.patch(
        key, resources.CHILD_JOBS, job, operation, patches.merge(changes),
        into=batch.JobDocument, events=announced,
    )  # fmt: skip
