"""batch/v1 Jobs and their Workloads: what was seen of them, and the write that comes next.

Only Jobs with a queue label are watched. Holds no quota: reservations come from the scheduling
loop as decisions to be written.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from admission.api import batch, views
from admission.base import names
from admission.base.clock import Clock
from admission.base.names import WorkloadKey
from admission.controllers.jobs import (
    joblifecycle,
    jobnotes,
    jobtemplates,
    jobworkload,
    prebuiltjobs,
)
from admission.controllers.jobs.joblifecycle import Next, Step
from admission.controllers.pods import release
from admission.controllers.pods.podindex import PodWorkloads
from admission.controllers.pods.podworkload import MissingPriorityClassError
from admission.controllers.queues.configuration import Configuration
from admission.controllers.seeing.mirrors import Mirror
from admission.controllers.seeing.observed import version
from admission.controllers.workloads import (
    conditions,
    evictions,
    facts,
    owners,
    prebuilt,
    statuses,
)
from admission.controllers.writing import writes
from admission.controllers.writing.events import Events
from admission.controllers.writing.writes import Outcome, Purpose, Result, Verb, Write
from admission.kube import patches, resources
from admission.kube.resources import Resource

Decide = Callable[[WorkloadKey, views.Workload], Write | None]
"""The write of an open decision or of the upkeep of a Workload, if there is one."""

SELECTOR: Final = names.QUEUE_LABEL
"""Jobs without the queue label are nobody's business here."""
WATCHED: Final[Mapping[Resource, type[views.Object]]] = {
    resources.JOBS: batch.JobDocument,
    resources.PRIORITY_CLASSES: views.PriorityClass,
}
"""What Jobs need to be told about, and as what."""

_NEVER: Final = frozenset({"kube-system", names.SYSTEM_NAMESPACE})
_REMEMBERED: Final = 10_000
"""Jobs that are gone, kept in mind so that a late answer does not bring them back."""
_NO_CLASS: Final = "WorkloadPriorityClassNotFound"
_DELETED: Final = "DeletedWorkload"
_OF_NAMED: Final = frozenset({Step.ADOPT_WORKLOAD, Step.AWAIT_WORKLOAD, Step.FOLLOW_JOB})


class Jobs:
    """Index of Jobs by Workload key, and what is to be written about them."""

    def __init__(
        self,
        index: PodWorkloads,
        configuration: Configuration,
        events: Events,
        clock: Clock,
        look_at: Callable[[Iterable[WorkloadKey]], None],
    ) -> None:
        """Prepares the mirrors.

        Args:
            index: where all Workloads are.
            configuration: flavors and classes as last seen.
            events: takes events about Jobs.
            clock: source of time.
            look_at: is told which Workloads to look at again.
        """
        self._index = index
        self._configuration = configuration
        self._events = events
        self._clock = clock
        self._look_at = look_at
        self._jobs: dict[WorkloadKey, batch.Job] = {}
        self._lost: OrderedDict[str, int] = OrderedDict()
        self._documents: dict[WorkloadKey, batch.JobDocument] = {}
        self._classes: dict[str, views.PriorityClass] = {}
        self._stuck: set[WorkloadKey] = set()
        self._missed: dict[WorkloadKey, str] = {}
        self._following: dict[WorkloadKey, tuple[str, ...]] = {}
        self._checks: dict[WorkloadKey, str] = {}
        self._stopping: dict[WorkloadKey, str] = {}
        self._deleted: dict[WorkloadKey, str] = {}
        self._naming = prebuilt.Named()
        self._named: dict[WorkloadKey, dict[str, Any]] = {}
        self._awaited: dict[WorkloadKey, str] = {}
        self.mirrors: Mapping[Resource, Mirror[Any]] = {
            resources.JOBS: Mirror("Job", self._see, self._lose),
            resources.PRIORITY_CLASSES: Mirror("PriorityClass", self._see_class, self._lose_class),
        }

    # ------------------------------------------------------------------------------- seeing

    def owns(self, key: WorkloadKey, workload: views.Workload | None) -> bool:
        """Whether the Workload, present or not, is a Job's."""
        if self._job_of(key) is not None:
            return True
        if workload is None:
            return False
        return self._is_left(workload) or self._job_beside(workload) is not None

    def _is_left(self, workload: views.Workload) -> bool:
        """Whether it is the Workload of a Job that is not here."""
        return jobworkload.is_owned(workload) and jobworkload.owner_key(workload) not in self._jobs

    def _job_of(self, key: WorkloadKey) -> batch.Job | None:
        """The Job that a Workload key is looked at for.

        A Job that names its Workload has two: that of the Workload once it has adopted it, and
        the one that a Workload of ours would have.
        """
        job, workload = self._jobs.get(key), self._index.workloads.get(key)
        if job is not None or workload is None:
            return job
        own = jobworkload.owner_key(workload)
        owner = None if own is None else self._jobs.get(own)
        return owner if owner and prebuilt.is_adopted(workload, owner) else None

    def naming(self, view: views.Object) -> tuple[WorkloadKey, ...]:
        """Keys to look at of the Jobs that name a Workload, which is here now or gone."""
        named = WorkloadKey(view.metadata.namespace, view.metadata.name)
        if self._index.workloads.get(named) is None:
            self._deleted.pop(named, None)
        found = self._naming.owners(named)
        for key in found:
            self._index.doubt_absence(key)
        return found

    def _job_beside(self, workload: views.Workload) -> batch.Job | None:
        """The Job here whose second Workload it is; None for every other Workload.

        Somebody made it in the Job's name. It stands for no pods, and would hold quota for them.
        """
        key = jobworkload.owner_key(workload)
        job = None if key is None else self._jobs.get(key)
        return job if job is not None and jobworkload.is_beside(workload, job) else None

    def metadata_of(self, key: WorkloadKey) -> views.ObjectMeta | None:
        """Metadata of the Job of a Workload key, if there is one."""
        job = self._job_of(key)
        return None if job is None else job.metadata

    def __contains__(self, key: WorkloadKey) -> bool:
        """Whether a Job of that Workload is here."""
        return self._job_of(key) is not None

    def are_ready(self, key: WorkloadKey) -> bool | None:
        """Whether all pods of a Job are ready or have succeeded; None while it is to start."""
        job, workload = self._job_of(key), self._index.workloads.get(key)
        if job is None or workload is None:
            return None
        if jobworkload.is_suspended(job) and workload.status.is_true(conditions.ADMITTED):
            return None
        return jobworkload.is_ready(job)

    def is_not_started(self, key: WorkloadKey) -> bool:
        """Whether a Job is here that has no pods and may have none."""
        job = self._job_of(key)
        return job is not None and jobworkload.is_suspended(job) and not jobworkload.is_active(job)

    def take_stuck(self) -> set[WorkloadKey]:
        """Jobs that named a class that did not exist; they are looked at again."""
        stuck, self._stuck = self._stuck, set()
        return stuck

    def _see(self, document: batch.JobDocument) -> None:
        metadata = document.metadata
        if metadata.namespace in _NEVER:
            return
        if not metadata.label(names.QUEUE_LABEL):
            self._lose(document)
            return
        key = jobworkload.key_of(document)
        known = self._jobs.get(key)
        newest = self._lost.get(metadata.uid, -1) if known is None else version(known)
        if version(document) <= newest:
            return
        named = jobworkload.prebuilt_key(document)
        if known is not None and jobworkload.prebuilt_key(known) != named:
            self._forget_name(key, known)
        self._jobs[key] = document.view(jobworkload.digest(document.template))
        self._naming.add(named, key)
        if named is not None:
            self._look_at((named,))
        lane = key if named is None or self._job_of(named) is None else named
        if self._index.workloads.get(lane) is None:
            self._documents[key] = document
        else:
            self._documents.pop(key, None)
        self._look_at((key,))

    def _forget_name(self, key: WorkloadKey, job: batch.Job) -> None:
        """The Job is gone, or may name another Workload."""
        named = jobworkload.prebuilt_key(job)
        if named is None:
            return
        self._naming.remove(named, key)
        for remembered in (self._following, self._checks, self._stopping, self._deleted):
            remembered.pop(named, None)
        self._look_at((named, *self._naming.owners(named)))

    def _lose(self, view: views.Object) -> None:
        """The Job is gone, or its label is; a later version with a label may come again.

        An answer that is older than the news is not one.
        """
        key = jobworkload.key_of(view)
        known, uid = self._jobs.pop(key, None), view.metadata.uid
        newest = max(
            self._lost.pop(uid, -1), version(view), -1 if known is None else version(known)
        )
        self._lost[uid] = newest
        while len(self._lost) > _REMEMBERED:
            self._lost.popitem(last=False)
        if known is not None:
            self._forget_name(key, known)
        for remembered in (
            self._documents, self._missed, self._following, self._checks, self._stopping,
            self._deleted, self._named, self._awaited,
        ):  # fmt: skip
            remembered.pop(key, None)
        self._stuck.discard(key)
        self._look_at((key,))

    def _see_class(self, view: views.PriorityClass) -> None:
        self._classes[view.metadata.name] = view
        self._look_at(self.take_stuck())

    def _lose_class(self, view: views.Object) -> None:
        self._classes.pop(view.metadata.name, None)

    # ------------------------------------------------------------------------------ writing

    def next_write(self, key: WorkloadKey, decide: Decide) -> Write | None:
        """The next write of a Job and its Workload, if there is one."""
        job, workload = self._job_of(key), self._index.workloads.get(key)
        if workload is not None and self._job_beside(workload) is not None:
            is_deleted = self._deleted.get(key) == workload.metadata.uid
            return _remove(workload, is_deleted=is_deleted)
        step = self._next_step(key, job, workload)
        if job is not None and workload is not None:
            self._tell_checks(key, job, workload)
        if workload is not None and step.step not in joblifecycle.ENDS:
            decided = decide(key, workload) or self._change_class(key, job, workload)
            if decided is not None:
                return decided
        named = None if job is None else jobworkload.prebuilt_key(job)
        if job is not None and named is not None and step.step in _OF_NAMED:
            return self._about_named(key, named, step, job)
        if job is not None and step.step in {Step.CREATE_WORKLOAD, Step.FOLLOW_JOB}:
            return self._compose(key, job, workload)
        if workload is not None:
            self._documents.pop(key, None)
            write = self._about_workload(key, step, job, workload)
            if write is not None:
                return write
        return None if job is None else self._about_job(key, step, job, workload)

    def _next_step(
        self, key: WorkloadKey, job: batch.Job | None, workload: views.Workload | None
    ) -> Next:
        named = None if job is None else jobworkload.prebuilt_key(job)
        if job is None or named is None:
            return joblifecycle.next_step(job, workload)
        if workload is None:
            return prebuiltjobs.before_adoption(job, self._index.workloads.get(named))
        if key != named:
            return prebuiltjobs.instead(job, workload)
        return prebuiltjobs.next_step(job, workload)

    def _about_named(
        self, key: WorkloadKey, named: WorkloadKey, step: Next, job: batch.Job
    ) -> Write | None:
        """What becomes of the Workload that a Job names."""
        workload = self._index.workloads.get(named)
        if step.step is Step.FOLLOW_JOB and workload is not None:
            label = job.metadata.label(names.PRIORITY_CLASS_LABEL)
            classes = self._configuration.priority_classes
            if owners.may_change_class(job, workload) and label not in classes:
                self._miss(key, job, label)
            self._following[key] = tuple(owners.notes(job, workload))
            return owners.write_for(job, workload, classes, Purpose.FOLLOW_JOB)
        if step.step is Step.ADOPT_WORKLOAD and workload is not None:
            return self._adopt(key, job, workload)
        note = prebuilt.missing(named, workload)
        if self._awaited.get(key) != note:
            self._events.event(_reference(job), "Warning", prebuilt.NOT_FOUND, note)
        self._awaited[key] = note
        return None

    def _adopt(self, key: WorkloadKey, job: batch.Job, workload: views.Workload) -> Write:
        """Takes the Workload that the Job names; both are read whole before."""
        document, found = self._documents.get(key), self._named.get(key)
        if document is None or version(document) < version(job):
            return _job_write(key, job, Purpose.READ_JOB, None)
        metadata = workload.metadata
        wanted = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        if found is None or not wanted.items() <= found["metadata"].items():
            return writes.read_workload(key, workload)
        changes = prebuiltjobs.adoption(job, document, found)
        write = writes.patch_workload(workload, Purpose.ADOPT_WORKLOAD, changes)
        return replace(write, lane=key)

    def settle(self, key: WorkloadKey, outcome: Outcome) -> None:
        """Takes what came of a write about a Job or its Workload; call before it is seen."""
        write = outcome.write
        job, workload = self._job_of(key), self._index.workloads.get(key)
        beside = None if workload is None else self._job_beside(workload)
        if beside is not None and workload is not None:
            if write.purpose is Purpose.DELETE_WORKLOAD and outcome.result is Result.DONE:
                note = jobnotes.deleted(workload)
                self._deleted[key] = write.uid
                self._events.event(_reference(beside), "Normal", _DELETED, note)
            return
        if write.purpose is Purpose.READ_JOB and isinstance(outcome.object, batch.JobDocument):
            self._keep(key, outcome.object)
        if write.purpose is Purpose.READ_WORKLOAD and isinstance(outcome.object, dict):
            self._named[key] = outcome.object
        if write.purpose is Purpose.ADOPT_WORKLOAD:
            self._named.pop(key, None)  # it has changed, by this write or another
            self._awaited.pop(key, None)
        if job is not None and _is_gone(job, outcome):
            self._lose(job)
        if job is not None and outcome.result is Result.DONE:
            if write.purpose is Purpose.DELETE_WORKLOAD:
                self._deleted[key] = write.uid  # it stays until its finalizer is off
            self._tell(key, job, write.purpose)

    def _keep(self, key: WorkloadKey, document: batch.JobDocument) -> None:
        """Keeps a Job whole until its Workload is made from it; never an older version."""
        job = self._jobs.get(key)
        is_same = job is not None and document.metadata.uid == job.metadata.uid
        if job is not None and is_same and version(document) >= version(job):
            self._documents[key] = document

    def _compose(
        self, key: WorkloadKey, job: batch.Job, workload: views.Workload | None
    ) -> Write | None:
        """Makes the Workload from the Job, or makes it follow the Job."""
        document = self._documents.get(key)
        if document is None or version(document) < version(job):
            return _job_write(key, job, Purpose.READ_JOB, None)
        classes = jobworkload.PriorityClasses(
            workload=self._configuration.priority_classes, pod=self._classes
        )
        try:
            if workload is None:
                copied = self._configuration.workloads.copied_labels
                return writes.create_workload(key, jobworkload.build(document, classes, copied))
            followed = _follow(workload, document, jobworkload.spec(document, classes))
        except MissingPriorityClassError as missing:
            self._miss(key, job, missing.name)
            return None
        self._following[key] = tuple(jobnotes.followed(job, workload))
        return followed

    def _change_class(
        self, key: WorkloadKey, job: batch.Job | None, workload: views.Workload
    ) -> Write | None:
        """A Workload that holds quota takes over another WorkloadPriorityClass."""
        if job is None or facts.is_pending(workload):
            return None  # without quota it follows the Job in everything
        if not owners.may_change_class(job, workload):
            return None
        name = job.metadata.label(names.PRIORITY_CLASS_LABEL)
        value = self._configuration.priority_classes.get(name)
        if value is None:
            self._miss(key, job, name)
            return None
        self._following[key] = (owners.class_changed(workload),)
        spec = {"priorityClassRef": {"name": name}, "priority": value}
        return writes.patch_workload_spec(workload, Purpose.FOLLOW_JOB, spec)

    def _miss(self, key: WorkloadKey, job: batch.Job, name: str) -> None:
        """Says once that a class does not exist; the Job is looked at when one is made."""
        if self._missed.get(key) != name:
            note = jobnotes.missing_class(job, name)
            self._events.event(_reference(job), "Warning", _NO_CLASS, note)
        self._missed[key] = name
        self._stuck.add(key)

    def _about_workload(
        self, key: WorkloadKey, step: Next, job: batch.Job | None, workload: views.Workload
    ) -> Write | None:
        now = self._clock.now()
        match step.step:
            case Step.DELETE_WORKLOAD if self._deleted.get(key) != workload.metadata.uid:
                return writes.delete_workload(workload)
            case Step.LET_WORKLOAD_GO:
                return _let_go(workload)
            case Step.FINISH:
                status = statuses.finish(workload, step.reason, step.message, now)
                return writes.patch_workload_status(workload, Purpose.FINISH_WORKLOAD, status)
            case Step.CLEAR_RESERVATION:
                status = evictions.clear(workload, now)
                return writes.patch_workload_status(workload, Purpose.CLEAR_RESERVATION, status)
            case Step.RECLAIM if job is not None:
                count = jobworkload.reclaimable(job, workload)
                pods = [{"name": jobworkload.POD_SET, "count": count}]
                status = {"reclaimablePods": pods}
                return writes.patch_workload_status(workload, Purpose.RECLAIM_PODS, status)
            case _:
                return None

    def _about_job(
        self, key: WorkloadKey, step: Next, job: batch.Job, workload: views.Workload | None
    ) -> Write | None:
        match step.step:
            case Step.START if workload is not None:
                return self._start(key, job, workload)
            case Step.STOP:
                asked = None if workload is not None else self._ask_absence(key, job)
                if asked is not None:
                    return asked
                self._stopping[key] = step.message
                return _job_write(key, job, Purpose.STOP_JOB, jobtemplates.stop(job))
            case Step.RESET:
                return _job_write(key, job, Purpose.RESET_JOB, jobtemplates.reset(job), "status")
            case Step.RESTORE:
                patch = jobtemplates.restore(job, workload)
                return _job_write(key, job, Purpose.RESTORE_JOB, patch)
            case _:
                return None

    def _ask_absence(self, key: WorkloadKey, job: batch.Job) -> Write | None:
        """What to read before a Job is stopped that has no Workload."""
        named = jobworkload.prebuilt_key(job)
        if named is None:
            return self._index.ask_absence(key)
        if self._index.workloads.get(named) is not None:
            return None  # it is there, but another's
        return self._index.ask_absence(key, named.name)

    def _start(self, key: WorkloadKey, job: batch.Job, workload: views.Workload) -> Write | None:
        """Starts the Job; one that contradicts its assignment ends as FailedToStart."""
        try:
            given = release.injection(workload, jobworkload.POD_SET, self._configuration.flavors)
            patch = jobtemplates.start(job, workload, given)
        except KeyError:
            return None  # the flavor was deleted after the decision; its return wakes the Job
        except release.InjectionConflictError as conflict:
            now: datetime = self._clock.now()
            status = statuses.finish(workload, release.FAILED_TO_START, str(conflict), now)
            return writes.patch_workload_status(workload, Purpose.FINISH_WORKLOAD, status)
        return _job_write(key, job, Purpose.START_JOB, patch)

    def _tell(self, key: WorkloadKey, job: batch.Job, purpose: Purpose) -> None:
        workload = self._index.workloads.get(key)
        admission = workload.status.admission if workload is not None else None
        reason: str
        notes: tuple[str, ...]
        match purpose:
            case Purpose.CREATE_WORKLOAD:
                reason, notes = "CreatedWorkload", (f"Created Workload: {key.text()}",)
            case Purpose.FOLLOW_JOB:
                reason, notes = "UpdatedWorkload", self._following.pop(key, ())
            case Purpose.DELETE_WORKLOAD if workload is not None and not _is_over(workload):
                reason, notes = _DELETED, (jobnotes.deleted(workload),)
            case Purpose.START_JOB if admission is not None:
                reason, notes = "Started", (f"Admitted by clusterQueue {admission.cluster_queue}",)
            case Purpose.STOP_JOB:
                reason, notes = "Stopped", (self._stopping.pop(key, ""),)
            case Purpose.FINISH_WORKLOAD:
                notes = (f"Workload '{key.text()}' is declared finished",)
                reason = "FinishedWorkload"
            case _:
                return
        for note in notes:
            self._events.event(_reference(job), "Normal", reason, note)

    def _tell_checks(self, key: WorkloadKey, job: batch.Job, workload: views.Workload) -> None:
        """Says what its checks wait for, each time that they say something else."""
        note = jobnotes.open_checks(job, workload)
        if note and self._checks.get(key) != note:
            self._events.event(_reference(job), "Normal", "UpdatedAdmissionCheck", note)
        self._checks[key] = note
        if not note:
            del self._checks[key]


def _is_over(workload: views.Workload) -> bool:
    return workload.status.is_true(conditions.FINISHED)


def _follow(workload: views.Workload, document: batch.JobDocument, spec: dict[str, Any]) -> Write:
    """Makes a Workload without quota ask for what its Job asks for."""
    absent = ("priorityClassRef", "maximumExecutionTimeSeconds")
    metadata = {
        **_precondition(workload),
        "annotations": {
            names.TEMPLATE_DIGEST: jobworkload.digest(document.template),
            names.ADMISSION_GATED_BY: document.metadata.annotation(names.ADMISSION_GATED_BY)
            or None,
        },
    }
    changes = {"metadata": metadata, "spec": {**dict.fromkeys(absent), **spec}}
    return _workload_write(workload, Purpose.FOLLOW_JOB, changes)


def _is_gone(job: batch.Job, outcome: Outcome) -> bool:
    """Whether an answer tells that the Job is not there, or another one under its name."""
    found = outcome.object
    replaced = isinstance(found, batch.JobDocument) and found.metadata.uid != job.metadata.uid
    absent = outcome.write.resource is resources.JOBS and outcome.result is Result.GONE
    return absent or replaced


def _remove(workload: views.Workload, *, is_deleted: bool) -> Write | None:
    """Deletes a Workload once, and lets it go where our finalizer is on it."""
    if not workload.metadata.deletion_timestamp:
        return None if is_deleted else writes.delete_workload(workload)
    held = names.RESOURCE_IN_USE in (workload.metadata.finalizers or ())
    return _let_go(workload) if held else None


def _let_go(workload: views.Workload) -> Write:
    """Takes our finalizer off."""
    others = [one for one in workload.metadata.finalizers or () if one != names.RESOURCE_IN_USE]
    metadata = {**_precondition(workload), "finalizers": others or None}
    return _workload_write(workload, Purpose.LET_WORKLOAD_GO, {"metadata": metadata})


def _workload_write(workload: views.Workload, purpose: Purpose, changes: dict[str, Any]) -> Write:
    metadata = workload.metadata
    return Write(
        lane=WorkloadKey(metadata.namespace, metadata.name),
        purpose=purpose,
        verb=Verb.PATCH,
        resource=resources.WORKLOADS,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        patch=patches.merge(changes),
        into=writes.WORKLOAD_VIEW,
    )


def _job_write(
    key: WorkloadKey,
    job: batch.Job,
    purpose: Purpose,
    patch: patches.Patch | None,
    subresource: str = "",
) -> Write:
    """Changes the Job, or reads it whole where there is no patch."""
    return Write(
        lane=key,
        purpose=purpose,
        verb=Verb.READ if patch is None else Verb.PATCH,
        resource=resources.JOBS,
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        patch=patch,
        subresource=subresource,
        into=batch.JobDocument,
    )


def _precondition(workload: views.Workload) -> dict[str, str]:
    metadata = workload.metadata
    return {"resourceVersion": metadata.resource_version, "uid": metadata.uid}


def _reference(job: batch.Job) -> dict[str, str]:
    """What an event about a Job refers to."""
    metadata = job.metadata
    return {
        "apiVersion": jobworkload.API_VERSION,
        "kind": jobworkload.KIND,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }
