"""What only batch/v1 Jobs have: Jobs that they control."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from typing_extensions import override

from admission.base.clock import Clock
from admission.base.events import Events
from admission.base.names import WorkloadKey
from admission.controllers.owners.child_jobs import ChildJobs
from admission.controllers.owners.index import Subject
from admission.controllers.owners.owners import Decide, Owners
from admission.controllers.owners.running_pods import RunningPods
from admission.controllers.queues.configuration import Configuration
from admission.controllers.seeing.informers import Informer
from admission.controllers.workloads.workloadindex import WorkloadIndex
from admission.controllers.writing.work_queue import WorkQueue
from admission.controllers.writing.writes import Outcome, Write
from admission.kube import resources
from admission.objects import batch, views
from admission.owners import batch_job
from admission.owners.batch_job import JobOwner

_CONFIRMS: Final = timedelta(seconds=10)
"""So long the Job controller may take to say that it has seen a Job stopped."""


class Jobs(Owners[batch.Job, batch.JobDocument]):
    """Jobs with a queue.

    Attributes:
        children: Jobs without a queue that Jobs control.
    """

    def __init__(
        self,
        workloads: WorkloadIndex,
        configuration: Configuration,
        events: Events,
        clock: Clock,
        look_at: Callable[[Iterable[WorkloadKey]], None],
        running: RunningPods,
        queue: WorkQueue,
    ) -> None:
        """Prepare an empty index; see `Owners`.

        Args:
            workloads: all Workloads.
            configuration: queues, flavors and classes as last seen.
            events: takes events about the Jobs.
            clock: source of time.
            look_at: is told which Workloads to look at again.
            running: is told of Jobs that run, too.
            queue: says when to look at a Workload again.
        """
        integration = replace(batch_job.INTEGRATION, owner=self._owner)
        super().__init__(integration, workloads, configuration, events, clock, look_at, running)
        self._queue = queue
        self._stopped_at: dict[str, datetime] = {}
        """When Jobs were first seen stopped whose controller may not have seen it, by UID."""
        self.children = ChildJobs(self.index, workloads, configuration, events, look_at)
        children = Informer("Job", self.children.see, self.children.lose)
        self.informers = {**self.informers, resources.CHILD_JOBS: children}

    @override
    def see(self, found: views.Object) -> None:
        super().see(found)
        job = self.index.get(batch_job.KIND.key_of(found))
        if job is not None and job.metadata.uid == found.metadata.uid:
            self._running.see_owner(batch_job.KIND.key_of(job), batch_job.let_go(job))
        self._look_at(self.children.below(found.metadata.uid))

    @override
    def lose(self, gone: views.Object, *, for_good: bool = False) -> None:
        super().lose(gone, for_good=for_good)
        self._running.see_owner(batch_job.KIND.key_of(gone), None)
        self._stopped_at.pop(gone.metadata.uid, None)
        self._look_at(self.children.below(gone.metadata.uid))

    def is_held(self, namespace: str, owner: views.OwnerReference) -> bool:
        """Return whether a Job is there that has a queue: its pods wait for it."""
        metadata = views.ObjectMeta(namespace=namespace, name=owner.name, uid=owner.uid)
        key = batch_job.KIND.key_of(views.Object(metadata=metadata))
        found = self.index.get(key)
        is_managed = self._configuration.manages(namespace)
        return found is not None and found.metadata.uid == owner.uid and is_managed

    def _owner(self, job: batch.Job) -> JobOwner:
        """Return a Job as an owner; it counts as running until its controller knows it stopped.

        A start that is taken back at once may never be seen by the Job controller, so that it says
        nothing: then the time decides.
        """
        uid = job.metadata.uid
        if not batch_job.is_suspended(job) or batch_job.is_stopped(job):
            self._stopped_at.pop(uid, None)
            return JobOwner(job)
        now = self._clock.now()
        due = self._stopped_at.setdefault(uid, now) + _CONFIRMS
        return JobOwner(job, may_start_pods=now < due)

    @override
    def next_write(self, subject: Subject, decide: Decide) -> Write | None:
        write, owner = super().next_write(subject, decide), subject.owner
        if write is None and isinstance(owner, JobOwner) and owner.may_start_pods:
            now = self._clock.now()
            since = self._stopped_at.get(owner.view.metadata.uid, now)
            self._queue.add_at(subject.key, since + _CONFIRMS, now)
        return write

    @override
    def naming(self, workload: views.Object) -> tuple[WorkloadKey, ...]:
        owner = workload.metadata.controller()
        below = () if owner is None else self.children.below(owner.uid)
        return (*super().naming(workload), *below)

    @override
    def settle(self, key: WorkloadKey, outcome: Outcome) -> None:
        self.children.settle(key, outcome)
        super().settle(key, outcome)
