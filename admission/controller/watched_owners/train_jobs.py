"""The part that only TrainJobs need: pods as defined by the JobSet that the trainer creates.

See ADR 0149.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple, cast

import msgspec
from typing_extensions import override

from admission.base import clock as clocks
from admission.base import events
from admission.base.clock import Clock
from admission.base.events import Events
from admission.base.names import WorkloadKey
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.seeing.informers import Informer
from admission.controller.seeing.object_cache import version
from admission.controller.watched_owners.held import HeldOwners
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.owner_writes import Decide
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.controller.writing.work_queue import WorkQueue
from admission.kube import resources
from admission.objects import views
from admission.owners import row_owner, train_job
from admission.owners.framework import Integration
from admission.owners.row_owner import RowView
from admission.owners.train_job import TrainJobDocument, TrainJobOwner
from admission.reasons import added_conditions, kueue

_PATIENCE: Final = timedelta(seconds=10)
"""So long the trainer may take to make a JobSet before the TrainJob says that there is none."""


class _Made(NamedTuple):
    """The JobSet of a TrainJob.

    Attributes:
        latest: as last seen.
        plain: the object as last seen before an admission added anything; None if not seen.
        is_there: whether it was not deleted since.
    """

    latest: row_owner.RowDocument
    plain: row_owner.RowDocument | None
    is_there: bool = True


class TrainJobs(HeldOwners[RowView, TrainJobDocument]):
    """TrainJobs with a queue."""

    def __init__(
        self,
        integration: Integration[RowView, TrainJobDocument],
        workloads: WorkloadIndex,
        configuration: WatchedConfiguration,
        events: Events,
        clock: Clock,
        look_at: Callable[[Iterable[WorkloadKey]], None],
        running: RunningPods,
        queue: WorkQueue,
    ) -> None:
        """Prepare an empty index; see `HeldOwners`."""
        self._as_held = integration.view
        self._made: dict[str, _Made] = {}
        """By the UID of the TrainJob."""
        super().__init__(
            replace(integration, view=self._view),
            workloads,
            configuration,
            events,
            clock,
            look_at,
            running,
            queue,
        )
        informer = Informer("JobSet", self._see_made, self._lose_made)
        self.informers = {**self.informers, resources.JOB_SETS_OF_TRAIN_JOBS: informer}

    def _view(self, document: TrainJobDocument | RowView) -> RowView:
        """Return a TrainJob with the JobSet that was made of it as it is.

        After a restore the JobSet has what the last admission gave until the trainer has changed
        it; so long that of before the admission counts.
        """
        if isinstance(document, RowView):
            return document
        job_set = self._made.get(document.metadata.uid)
        if job_set is None:
            return self._as_held(document)
        is_behind = train_job.is_marked(job_set.latest.spec) and not train_job.is_given(document)
        job_set_view = job_set.plain if is_behind else job_set.latest
        spec = None if job_set_view is None else job_set_view.spec
        return self._as_held(msgspec.structs.replace(document, made=spec))

    def _see_made(self, job_set: row_owner.RowDocument) -> None:
        owner = job_set.metadata.controller()
        if owner is None or not self._kind.is_of(owner):
            return
        made_before = self._made.get(owner.uid)
        if made_before is not None and version(job_set) <= version(made_before.latest):
            return
        before = None if made_before is None else made_before.plain
        plain = before if train_job.is_marked(job_set.spec) else job_set
        self._made[owner.uid] = _Made(job_set, plain)
        key = self._key_of(job_set, owner)
        view = self.index.get(key)
        if view is not None and view.metadata.uid == owner.uid:
            read = self._view(cast(TrainJobDocument, view.document))
            self.index.reread(key, read)
            self._tell_running(key, read)

    def _lose_made(self, gone: views.Object) -> None:
        """The trainer makes another one, and until then nothing changes."""
        owner = gone.metadata.controller()
        job_set = None if owner is None else self._made.get(owner.uid)
        if owner is None or job_set is None or job_set.latest.metadata.uid != gone.metadata.uid:
            return
        if self.index.get(self._key_of(gone, owner)) is None:
            del self._made[owner.uid]
        else:
            self._made[owner.uid] = job_set._replace(is_there=False)

    def _key_of(self, job_set: views.Object, owner: views.OwnerReference) -> WorkloadKey:
        """Return the key of the TrainJob that controls a JobSet."""
        namespace = job_set.metadata.namespace
        metadata = views.ObjectMeta(namespace=namespace, name=owner.name, uid=owner.uid)
        return self._kind.key_of(views.Object(metadata=metadata))

    @override
    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        super().on_delete(gone, for_good=for_good)
        job_set = self._made.get(gone.metadata.uid)
        if job_set is not None and not job_set.is_there:
            del self._made[gone.metadata.uid]

    @override
    def next_request(self, subject: Subject, decide: Decide) -> ApiRequest | None:
        key, owner, workload = subject.key, subject.owner, subject.workload
        is_known = owner is None or bool(owner.pod_sets)
        if is_known or subject.beside is not None or self._is_left_alone(subject):
            return super().next_request(subject, decide)
        assert isinstance(owner, TrainJobOwner)
        if workload is not None:
            return decide(key, workload)
        return None if owner.finished() is not None else self._without_job_set(key, owner)

    def _without_job_set(self, key: WorkloadKey, owner: TrainJobOwner) -> ApiRequest | None:
        """Hold a TrainJob until its JobSet can be seen, and say so after a while."""
        if not owner.is_held():
            announced = (events.stopped(kueue.WORKLOAD_MISSING.message),)
            return self._patch(
                key, owner, WritePurpose.STOP_OWNER, owner.suspend(), announced=announced
            )
        if not owner.is_labelling():
            return self._patch(key, owner, WritePurpose.RESTORE_OWNER, owner.restore(None))
        now, created = self._clock.now(), owner.view.metadata.creation_timestamp
        due = now if created is None else clocks.from_wire(created) + _PATIENCE
        if now < due:
            self._queue.add_at(key, due, now)
        else:
            self._events.lacks_pods(key, owner.view, added_conditions.JOB_SET_MISSING)
        return None
