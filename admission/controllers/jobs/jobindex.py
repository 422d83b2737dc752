"""batch/v1 Jobs as last seen, by Workload key. Only Jobs with a queue label are watched."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from admission.api import batch, views
from admission.base import conditions, names
from admission.base.names import WorkloadKey
from admission.controllers.seeing.observed import version
from admission.controllers.workloads.workloadindex import WorkloadIndex
from admission.owners import batch_job, prebuilt

_REMEMBERED: Final = 10_000
"""Jobs that are gone, kept in mind so that a late answer does not bring them back."""


@dataclass(slots=True)
class _Entry:
    """A Job, and what was read whole for it.

    Attributes:
        job: as last seen.
        document: the Job, until its Workload is made from it.
        named: the Workload that the Job names, until it is adopted.
    """

    job: batch.Job
    document: batch.JobDocument | None = None
    named: dict[str, Any] | None = None


class Subject(NamedTuple):
    """What there is under a Workload key that is the business of a Job.

    Attributes:
        key: the key.
        job: the Job that the key is looked at for; None where it is gone.
        workload: the Workload of that key; None where there is none.
        beside: the Job whose second Workload it is; None for every other Workload. Somebody made
            it in the Job's name. It stands for no pods, and would hold quota for them.
    """

    key: WorkloadKey
    job: batch.Job | None
    workload: views.Workload | None
    beside: batch.Job | None = None


class JobIndex:
    """Jobs by the key that a Workload of ours has, or would have."""

    def __init__(
        self,
        workloads: WorkloadIndex,
        look_at: Callable[[Iterable[WorkloadKey]], None],
        forget: Callable[[WorkloadKey], None],
    ) -> None:
        """Prepares an empty index.

        Args:
            workloads: all Workloads.
            look_at: is told which Workloads to look at again.
            forget: is told that the Job of a key is gone.
        """
        self._workloads = workloads
        self._look_at = look_at
        self._forget = forget
        self._entries: dict[WorkloadKey, _Entry] = {}
        self._lost: OrderedDict[str, int] = OrderedDict()
        self._naming = prebuilt.Named()

    def subject(self, key: WorkloadKey) -> Subject | None:
        """What there is under a key; None where it is no business of a Job.

        A Job that names its Workload has two keys: that of the Workload once it has adopted it,
        and the one that a Workload of ours would have.
        """
        entry, workload = self._entries.get(key), self._workloads.get(key)
        job = None if entry is None else entry.job
        own = None if workload is None else batch_job.KIND.owner_key(workload)
        if workload is None or own is None:
            return None if job is None else Subject(key, job, workload)
        owner = self._entries.get(own)
        if owner is None:
            is_its = job is not None or batch_job.KIND.owns(workload)
            return Subject(key, job, workload) if is_its else None
        if batch_job.is_beside(workload, owner.job):
            return Subject(key, job, workload, owner.job)
        if job is None and not prebuilt.is_adopted(workload, owner.job):
            return None
        return Subject(key, job or owner.job, workload)

    def job_of(self, key: WorkloadKey) -> batch.Job | None:
        """The Job that a Workload key is looked at for."""
        subject = self.subject(key)
        return None if subject is None else subject.job

    def job(self, key: WorkloadKey) -> batch.Job | None:
        """Return the Job whose Workload of ours has, or would have, a key."""
        entry = self._entries.get(key)
        return None if entry is None else entry.job

    def named_by(self, job: batch.Job) -> views.Workload | None:
        """What there is under the name of a Workload that a Job gives."""
        named = batch_job.KIND.prebuilt_key(job)
        return None if named is None else self._workloads.get(named)

    def naming(self, named: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Keys to look at of the Jobs that name a Workload, which is here now or gone."""
        found = self._naming.owners(named)
        for key in found:
            self._workloads.doubt_absence(key)
        return found

    def are_ready(self, key: WorkloadKey) -> bool | None:
        """Whether all pods of a Job are ready or have succeeded; None while it is to start."""
        subject = self.subject(key)
        if subject is None or subject.job is None or subject.workload is None:
            return None
        is_admitted = subject.workload.status.is_true(conditions.ADMITTED)
        if batch_job.is_suspended(subject.job) and is_admitted:
            return None
        return batch_job.is_ready(subject.job)

    def is_not_started(self, key: WorkloadKey) -> bool:
        """Whether a Job is here that has no pods and may have none."""
        job = self.job_of(key)
        return job is not None and batch_job.is_suspended(job) and not batch_job.is_active(job)

    def of_namespace(self, namespace: str) -> tuple[WorkloadKey, ...]:
        """Keys of the Jobs of a namespace."""
        return tuple(key for key in self._entries if key.namespace == namespace)

    # ------------------------------------------------------------------------------- seeing

    def see(self, document: batch.JobDocument) -> None:
        """Takes a sight of a Job; one without our label is not ours, or no more."""
        metadata = document.metadata
        if not metadata.label(names.QUEUE_LABEL):
            self.lose(document)
            return
        key = batch_job.KIND.key_of(document)
        entry = self._entries.get(key)
        newest = self._lost.get(metadata.uid, -1) if entry is None else version(entry.job)
        if version(document) <= newest:
            return
        named = batch_job.KIND.prebuilt_key(document)
        if entry is not None and batch_job.KIND.prebuilt_key(entry.job) != named:
            self._forget_name(key, entry.job)
        view = document.view(batch_job.digest(document.template))
        if entry is None:
            entry = self._entries[key] = _Entry(view)
        entry.job = view
        self._naming.add(named, key)
        if named is not None:
            self._look_at((named,))
        entry.document = None if self._has_workload(key, view) else document
        self._look_at((key,))

    def lose(self, view: views.Object) -> None:
        """The Job is gone, or its label is; a later version with a label may come again.

        An answer that is older than the news is not one.
        """
        key, uid = batch_job.KIND.key_of(view), view.metadata.uid
        entry = self._entries.pop(key, None)
        known = -1 if entry is None else version(entry.job)
        newest = max(self._lost.pop(uid, -1), version(view), known)
        self._lost[uid] = newest
        while len(self._lost) > _REMEMBERED:
            self._lost.popitem(last=False)
        if entry is not None:
            self._forget_name(key, entry.job)
        self._forget(key)
        self._look_at((key,))

    def _has_workload(self, key: WorkloadKey, job: batch.Job) -> bool:
        named = self.named_by(job)
        if named is not None and prebuilt.is_adopted(named, job):
            return True
        return self._workloads.get(key) is not None

    def _forget_name(self, key: WorkloadKey, job: batch.Job) -> None:
        """The Job is gone, or may name another Workload."""
        named = batch_job.KIND.prebuilt_key(job)
        if named is None:
            return
        self._naming.remove(named, key)
        self._forget(named)
        self._look_at((named, *self._naming.owners(named)))

    # ------------------------------------------------------------------- what was read whole

    def document_of(self, key: WorkloadKey) -> batch.JobDocument | None:
        """A Job whole, as it was last seen; None where it is to be read."""
        entry = self._entries.get(key)
        if entry is None or entry.document is None:
            return None
        return entry.document if version(entry.document) >= version(entry.job) else None

    def keep_document(self, key: WorkloadKey, document: batch.JobDocument) -> None:
        """Keeps a Job whole until its Workload is made from it; never an older version."""
        entry = self._entries.get(key)
        if entry is None or document.metadata.uid != entry.job.metadata.uid:
            return
        if version(document) >= version(entry.job):
            entry.document = document

    def drop_document(self, key: WorkloadKey) -> None:
        """Its Workload is made."""
        if key in self._entries:
            self._entries[key].document = None

    def named_document(self, key: WorkloadKey) -> dict[str, Any] | None:
        """Whole the Workload that the Job of a key names, as far as it was read."""
        entry = self._entries.get(key)
        return None if entry is None else entry.named

    def keep_named(self, key: WorkloadKey, document: dict[str, Any] | None) -> None:
        """Takes whole the Workload that the Job of a key names; None when it has changed."""
        if key in self._entries:
            self._entries[key].named = document
