"""batch/v1 Jobs and their Workloads: the write that comes next for each.

Holds no quota: reservations come from the scheduling loop as decisions to be written.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from admission.api import batch, views
from admission.base import conditions, events, names
from admission.base.clock import Clock
from admission.base.events import Event, Events
from admission.base.names import WorkloadKey
from admission.controllers.jobs import jobevents, jobwrites
from admission.controllers.jobs.childjobs import ChildJobs
from admission.controllers.jobs.jobevents import JobEvents
from admission.controllers.jobs.jobindex import JobIndex, Subject
from admission.controllers.queues.configuration import Configuration
from admission.controllers.seeing.mirrors import Mirror
from admission.controllers.workloads import evictions, keeping, statuses
from admission.controllers.workloads.workloadindex import WorkloadIndex
from admission.controllers.writing import writes
from admission.controllers.writing.writes import Outcome, Purpose, Result, Write
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import facts
from admission.owners import batch_job, injection, lifecycle, prebuilt
from admission.owners.lifecycle import Next, Step
from admission.owners.workload import (
    MissingPriorityClassError,
    PriorityClasses,
    may_change_class,
)

Decide = Callable[[WorkloadKey, views.Workload], Write | None]
"""The write of an open decision or of the upkeep of a Workload, if there is one."""

SELECTOR: Final = names.QUEUE_LABEL
"""Jobs without the queue label are nobody's business here."""
WATCHED: Final[Mapping[Resource, type[views.Object]]] = {
    resources.JOBS: batch.JobDocument,
    resources.CHILD_JOBS: batch.JobDocument,
    resources.PRIORITY_CLASSES: views.PriorityClass,
}
"""What Jobs need to be told about, and as what."""

_OF_NAMED: Final = frozenset({Step.ADOPT_WORKLOAD, Step.AWAIT_WORKLOAD, Step.FOLLOW})


class Jobs:
    """What is to be written about Jobs and their Workloads, and what is told on Jobs.

    Attributes:
        index: Jobs as last seen.
        children: Jobs without a queue that Jobs control.
        mirrors: who takes what is watched, by resource.
    """

    def __init__(
        self,
        workloads: WorkloadIndex,
        configuration: Configuration,
        events: Events,
        clock: Clock,
        look_at: Callable[[Iterable[WorkloadKey]], None],
    ) -> None:
        """Prepares the mirrors.

        Args:
            workloads: all Workloads.
            configuration: flavors and classes as last seen.
            events: takes events about Jobs.
            clock: source of time.
            look_at: is told which Workloads to look at again.
        """
        self._workloads = workloads
        self._configuration = configuration
        self._events = JobEvents(events)
        self._clock = clock
        self._look_at = look_at
        self._classes: dict[str, views.PriorityClass] = {}
        self._stuck: set[WorkloadKey] = set()
        self._deleted: dict[WorkloadKey, str] = {}
        self.index = JobIndex(workloads, look_at, self._forget)
        self.children = ChildJobs(self.index, workloads, configuration, events, look_at)
        self.mirrors: Mapping[Resource, Mirror[Any]] = {
            resources.JOBS: Mirror("Job", self._see, self._lose),
            resources.CHILD_JOBS: Mirror("Job", self.children.see, self.children.lose),
            resources.PRIORITY_CLASSES: Mirror("PriorityClass", self._see_class, self._lose_class),
        }

    # ------------------------------------------------------------------------------- seeing

    def naming(self, view: views.Object) -> tuple[WorkloadKey, ...]:
        """Keys to look at of the Jobs that name a Workload, which is here now or gone.

        And of those below the Job that controls it.
        """
        named = WorkloadKey(view.metadata.namespace, view.metadata.name)
        if self._workloads.get(named) is None:
            self._deleted.pop(named, None)
        owner = view.metadata.controller()
        children = () if owner is None else self.children.below(owner.uid)
        return (*self.index.naming(named), *children)

    def take_stuck(self) -> set[WorkloadKey]:
        """Jobs that named a class that did not exist; they are looked at again."""
        stuck, self._stuck = self._stuck, set()
        return stuck

    def _forget(self, key: WorkloadKey) -> None:
        self._stuck.discard(key)
        self._events.forget(key)

    def _see(self, document: batch.JobDocument) -> None:
        self.index.see(document)
        self._look_at(self.children.below(document.metadata.uid))

    def _lose(self, view: views.Object) -> None:
        self.index.lose(view)
        self._look_at(self.children.below(view.metadata.uid))

    def _see_class(self, view: views.PriorityClass) -> None:
        self._classes[view.metadata.name] = view
        self._look_at(self.take_stuck())

    def _lose_class(self, view: views.Object) -> None:
        self._classes.pop(view.metadata.name, None)

    # ------------------------------------------------------------------------------ writing

    def next_write(self, subject: Subject, decide: Decide) -> Write | None:
        """The next write of a Job and its Workload, if there is one.

        Jobs of namespaces that are not managed are left alone; a Workload stands for itself then.
        """
        job = subject.job or subject.beside
        if job is None or self._configuration.manages(subject.key.namespace):
            return self._follow(subject, decide)
        return None if subject.workload is None else decide(subject.key, subject.workload)

    def _follow(self, subject: Subject, decide: Decide) -> Write | None:
        key, job, workload = subject.key, subject.job, subject.workload
        if subject.beside is not None and workload is not None:
            return self._remove(workload)
        step = self._next_step(subject)
        if job is not None and workload is not None:
            self._events.checked(key, job, workload)
        if workload is not None and step.step not in lifecycle.ENDS:
            decided = decide(key, workload)
            # without quota it follows the Job in everything
            if decided is None and job is not None and not facts.is_pending(workload):
                decided = self._follow_labels(key, job, workload)
            if decided is not None:
                return decided
        named = None if job is None else batch_job.KIND.prebuilt_key(job)
        if job is not None and named is not None and step.step in _OF_NAMED:
            return self._about_named(key, named, step, job)
        if job is not None and step.step in {Step.CREATE_WORKLOAD, Step.FOLLOW}:
            return self._compose(key, job, workload)
        if workload is not None:
            self.index.drop_document(key)
            write = self._about_workload(subject, step, workload)
            if write is not None:
                return write
        return None if job is None else self._about_job(key, step, job, workload)

    def _next_step(self, subject: Subject) -> Next:
        job, workload = subject.job, subject.workload
        if job is None:
            return lifecycle.without_owner(batch_job.KIND, workload)
        return lifecycle.next_step(batch_job.JobOwner(job), workload, self.index.named_by(job))

    def _remove(self, workload: views.Workload) -> Write | None:
        """Deletes a second Workload once, and lets it go where our finalizer is on it."""
        if not workload.metadata.deletion_timestamp:
            return self._delete(workload, (_deleted(workload),))
        held = names.RESOURCE_IN_USE in (workload.metadata.finalizers or ())
        return jobwrites.let_go(workload) if held else None

    def _delete(self, workload: views.Workload, told: tuple[Event, ...]) -> Write | None:
        """Deletes a Workload once; it stays until its finalizer is off."""
        if self._deleted.get(facts.key(workload)) == workload.metadata.uid:
            return None
        return writes.delete_workload(workload, told)

    def _follow_labels(
        self, key: WorkloadKey, job: batch.Job, workload: views.Workload
    ) -> Write | None:
        """A Workload that is not made anew takes over what labels of its Job say now."""
        label = job.metadata.label(names.PRIORITY_CLASS_LABEL)
        classes = self._configuration.priority_classes
        if may_change_class(job, workload) and label not in classes:
            self._miss(key, job, label)
        return keeping.follow_owner(job, workload, classes, Purpose.FOLLOW_JOB)

    def _about_named(
        self, key: WorkloadKey, named: WorkloadKey, step: Next, job: batch.Job
    ) -> Write | None:
        """What becomes of the Workload that a Job names."""
        workload = self.index.named_by(job)
        if step.step is Step.FOLLOW and workload is not None:
            return self._follow_labels(key, job, workload)
        if step.step is Step.ADOPT_WORKLOAD and workload is not None:
            return self._adopt(key, job, workload)
        self._events.lacks_workload(key, job, prebuilt.missing(named, workload))
        return None

    def _adopt(self, key: WorkloadKey, job: batch.Job, workload: views.Workload) -> Write:
        """Takes the Workload that the Job names; both are read whole before."""
        document, found = self.index.document_of(key), self.index.named_document(key)
        if document is None:
            return jobwrites.read(key, job)
        metadata = workload.metadata
        wanted = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        if found is None or not wanted.items() <= found["metadata"].items():
            return writes.read_workload(key, workload)
        changes = batch_job.adoption(job, document, found)
        write = writes.patch_workload(workload, Purpose.ADOPT_WORKLOAD, changes)
        return replace(write, lane=key)

    def _compose(
        self, key: WorkloadKey, job: batch.Job, workload: views.Workload | None
    ) -> Write | None:
        """Makes the Workload from the Job, or makes it follow the Job."""
        document = self.index.document_of(key)
        if document is None:
            return jobwrites.read(key, job)
        classes = PriorityClasses(workload=self._configuration.priority_classes, pod=self._classes)
        try:
            if workload is None:
                copied = self._configuration.workloads.copied_labels
                made = batch_job.build(document, classes, copied)
                return writes.create_workload(key, made, (events.created_workload(key.text()),))
            spec = batch_job.spec(document, classes)
        except MissingPriorityClassError as missing:
            self._miss(key, job, missing.name)
            return None
        return jobwrites.follow(workload, document, spec, tuple(jobevents.followed(job, workload)))

    def _miss(self, key: WorkloadKey, job: batch.Job, name: str) -> None:
        """Says once that a class does not exist; the Job is looked at when one is made."""
        self._events.lacks_class(key, job, name)
        self._stuck.add(key)

    def _about_workload(
        self, subject: Subject, step: Next, workload: views.Workload
    ) -> Write | None:
        now, job = self._clock.now(), subject.job
        match step.step:
            case Step.DELETE_WORKLOAD:
                is_over = workload.status.is_true(conditions.FINISHED)
                return self._delete(workload, () if is_over else (_deleted(workload),))
            case Step.REMOVE_FINALIZER:
                return jobwrites.let_go(workload)
            case Step.FINISH:
                return self._finish(workload, step.reason, step.message)
            case Step.CLEAR_RESERVATION:
                status = evictions.clear(workload, now)
                return writes.set_workload_status(workload, Purpose.CLEAR_RESERVATION, status)
            case Step.RECLAIM if job is not None:
                return jobwrites.reclaim(workload, batch_job.reclaimable(job, workload))
            case _:
                return None

    def _finish(self, workload: views.Workload, reason: str, message: str) -> Write:
        status = statuses.finish(workload, reason, message, self._clock.now())
        told = (events.finished_workload(facts.key(workload).text()),)
        return writes.set_workload_status(workload, Purpose.FINISH_WORKLOAD, status, told)

    def _about_job(
        self, key: WorkloadKey, step: Next, job: batch.Job, workload: views.Workload | None
    ) -> Write | None:
        match step.step:
            case Step.START if workload is not None:
                return self._start(key, job, workload)
            case Step.STOP:
                asked = None if workload is not None else self._ask_absence(key, job)
                stop, told = batch_job.stop(job), (events.stopped(step.message),)
                return asked or jobwrites.patch(key, job, Purpose.STOP_JOB, stop, events=told)
            case Step.RESET:
                reset = batch_job.reset(job)
                return jobwrites.patch(key, job, Purpose.RESET_JOB, reset, "status")
            case Step.RESTORE:
                restore = batch_job.restore(job, workload)
                return jobwrites.patch(key, job, Purpose.RESTORE_JOB, restore)
            case _:
                return None

    def _ask_absence(self, key: WorkloadKey, job: batch.Job) -> Write | None:
        """What to read before a Job is stopped that has no Workload."""
        named = batch_job.KIND.prebuilt_key(job)
        if named is None:
            return self._workloads.ask_absence(key)
        if self.index.named_by(job) is not None:
            return None  # it is there, but another's
        return self._workloads.ask_absence(key, named.name)

    def _start(self, key: WorkloadKey, job: batch.Job, workload: views.Workload) -> Write | None:
        """Starts the Job; one that contradicts its assignment ends as FailedToStart."""
        try:
            given = injection.injection(workload, batch_job.POD_SET, self._configuration.flavors)
            start = batch_job.start(job, workload, given)
        except KeyError:
            return None  # the flavor was deleted after the decision; its return wakes the Job
        except injection.InjectionConflictError as conflict:
            return self._finish(workload, conditions.FAILED_TO_START, str(conflict))
        told = tuple(jobevents.started(workload))
        return jobwrites.patch(key, job, Purpose.START_JOB, start, events=told)

    # ----------------------------------------------------------------------------- settling

    def settle(self, key: WorkloadKey, outcome: Outcome) -> None:
        """Takes what came of a write about a Job or its Workload; call before it is seen."""
        self.children.settle(key, outcome)
        write, subject = outcome.write, self.index.subject(key)
        job = None if subject is None else subject.beside or subject.job
        if subject is None or job is None:
            return
        if outcome.result is Result.DONE:
            if write.purpose is Purpose.DELETE_WORKLOAD:
                self._deleted[key] = write.uid
            self._events.done(job, write)
        if subject.beside is None:
            self._take_answer(key, job, outcome)

    def _take_answer(self, key: WorkloadKey, job: batch.Job, outcome: Outcome) -> None:
        purpose, found = outcome.write.purpose, outcome.object
        if purpose is Purpose.READ_JOB and isinstance(found, batch.JobDocument):
            self.index.keep_document(key, found)
        if purpose is Purpose.READ_WORKLOAD and isinstance(found, dict):
            self.index.keep_named(key, found)
        if purpose is Purpose.ADOPT_WORKLOAD:
            self.index.keep_named(key, None)  # it has changed, by this write or another
            self._events.lacks_workload(key, job, None)
        if _is_gone(job, outcome):
            self.index.lose(job)


def _deleted(workload: views.Workload) -> Event:
    return events.deleted_workload(facts.key(workload).text())


def _is_gone(job: batch.Job, outcome: Outcome) -> bool:
    """Whether an answer tells that the Job is not there, or another one under its name."""
    found = outcome.object
    replaced = isinstance(found, batch.JobDocument) and found.metadata.uid != job.metadata.uid
    absent = outcome.write.resource is resources.JOBS and outcome.result is Result.GONE
    return absent or replaced
