"""What events about batch/v1 Jobs say.

Source: kueue pkg/controller/jobframework/reconciler.go; notes are Kueue's.
"""

from collections.abc import Iterable

from admission.api import batch, views
from admission.base import names
from admission.controllers import joblifecycle, lifecycle


def class_changed(workload: views.Workload) -> str:
    """The Workload takes over another WorkloadPriorityClass."""
    return f"Updated workload priority class: {lifecycle.key(workload).text()}"


def followed(job: batch.Job, workload: views.Workload) -> Iterable[str]:
    """What a Workload without quota takes over from its Job; call before it does."""
    if joblifecycle.names_other_class(job, workload):
        yield class_changed(workload)


def missing_class(job: batch.Job, name: str) -> str:
    """The Job, or its pod template, names a class that does not exist."""
    is_label = job.metadata.label(names.PRIORITY_CLASS_LABEL) == name
    kind = "WorkloadPriorityClass" if is_label else "PriorityClass"
    return f'{kind} "{name}" not found'
