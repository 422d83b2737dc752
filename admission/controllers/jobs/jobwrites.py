"""The writes about batch/v1 Jobs and their Workloads, as values."""

from dataclasses import replace
from typing import Any

from admission.api import batch, views
from admission.base import names, patches
from admission.base.events import Event
from admission.base.names import WorkloadKey
from admission.controllers.writing import writes
from admission.controllers.writing.writes import Purpose, Verb, Write
from admission.kube import resources
from admission.owners import batch_job
from admission.owners.workload import gates_of


def read(key: WorkloadKey, job: batch.Job) -> Write:
    """Reads a Job whole, to make its Workload from."""
    return writes.read(key, Purpose.READ_JOB, resources.JOBS, job.metadata, batch.JobDocument)


def patch(
    key: WorkloadKey,
    job: batch.Job,
    purpose: Purpose,
    changes: patches.Patch,
    subresource: str = "",
    events: tuple[Event, ...] = (),
) -> Write:
    """Changes a Job; the patch carries the precondition."""
    return Write(
        lane=key,
        purpose=purpose,
        verb=Verb.PATCH,
        resource=resources.JOBS,
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        patch=changes,
        subresource=subresource,
        into=batch.JobDocument,
        events=events,
    )


def of_child(write: Write) -> Write:
    """Return a write about a Job of a Job, whose answer is taken as one about such a Job."""
    return replace(write, resource=resources.CHILD_JOBS)


def follow(
    workload: views.Workload,
    document: batch.JobDocument,
    spec: dict[str, Any],
    events: tuple[Event, ...],
) -> Write:
    """Makes a Workload without quota ask for what its Job asks for."""
    absent = ("priorityClassRef", "maximumExecutionTimeSeconds")
    annotations = {
        names.TEMPLATE_DIGEST: batch_job.digest(document.template),
        names.ADMISSION_GATED_BY: gates_of(document) or None,
    }
    changes = {
        "metadata": {"annotations": annotations},
        "spec": {**dict.fromkeys(absent), **spec},
    }
    return writes.patch_workload(workload, Purpose.FOLLOW_JOB, changes, events=events)


def let_go(workload: views.Workload) -> Write:
    """Takes our finalizer off."""
    others = [one for one in workload.metadata.finalizers or () if one != names.RESOURCE_IN_USE]
    return writes.set_finalizers(workload, Purpose.LET_WORKLOAD_GO, others)


def reclaim(workload: views.Workload, count: int) -> Write:
    """Says how many pods of a Workload will never run again."""
    status = {"reclaimablePods": [{"name": batch_job.POD_SET, "count": count}]}
    return writes.set_workload_status(workload, Purpose.RECLAIM_PODS, status)
