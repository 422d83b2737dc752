"""The Workload of a batch/v1 Job: what it asks for, its name and its document.

Source: kueue pkg/controller/jobs/job/job_controller.go.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.api import batch, views
from admission.base import names
from admission.controllers.jobs import completedindexes
from admission.controllers.pods import podworkload
from admission.controllers.pods.podworkload import MissingPriorityClassError
from admission.controllers.workloads import facts, prebuilt, workloadnames

API_VERSION: Final = "batch/v1"
KIND: Final = "Job"
POD_SET: Final = names.DEFAULT_PODSET

SET_BY_JOB_CONTROLLER: Final = frozenset(
    {
        "job-name",
        "controller-uid",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
    }
)
"""Labels of the pod template that belong to one Job, not to what it asks for."""

_GROUP: Final = "batch"
_INDEXED: Final = "Indexed"
_SCHEDULING: Final = ("nodeSelector", "tolerations")
_TRUE: Final = frozenset(["1", "t", "T", "true", "TRUE", "True"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClasses:
    """Where the priority of a Workload may come from.

    Attributes:
        workload: values of the WorkloadPriorityClasses by name.
        pod: the PriorityClasses by name.
    """

    workload: Mapping[str, int]
    pod: Mapping[str, views.PriorityClass]


def key_of(job: views.Object) -> names.WorkloadKey:
    """Identity of the Job's Workload."""
    return workloadnames.key_for(KIND, _GROUP, job)


def owner_key(workload: views.Workload) -> names.WorkloadKey | None:
    """Identity that we give to the Workload of the Job that controls it; None without a Job."""
    by = workload.metadata.controller()
    if by is None or (by.api_version, by.kind) != (API_VERSION, KIND):
        return None
    name = workloadnames.name_for(KIND, _GROUP, by.name, by.uid)
    return names.WorkloadKey(workload.metadata.namespace, name)


def is_owned(workload: views.Workload) -> bool:
    """Whether the Workload is the one that we make for the Job that controls it, or adopted."""
    key = owner_key(workload)
    if key is None:
        return False
    return key.name == workload.metadata.name or prebuilt.is_marked(workload)


def prebuilt_key(job: views.Object) -> names.WorkloadKey | None:
    """Identity of the Workload that the Job names for its own; None where we make it."""
    named = prebuilt.key_of(job)
    return None if named == key_of(job) else named


def is_beside(workload: views.Workload, job: batch.Job) -> bool:
    """Whether the Workload is a second one of the Job that controls it."""
    return facts.key(workload) not in {key_of(job), prebuilt_key(job)}


# ------------------------------------------------------------------------------ what a Job says


def is_suspended(job: batch.Job) -> bool:
    """Whether the Job is to have no pods."""
    return job.spec.suspend is True


def is_active(job: batch.Job) -> bool:
    """Whether pods of the Job run, as the Job controller counts them."""
    return job.status.active > 0


def is_ready(job: batch.Job) -> bool:
    """Whether as many pods are ready, or have succeeded, as run at a time."""
    status = job.status
    uncounted = status.uncounted_terminated_pods
    ended = len((uncounted.succeeded if uncounted else None) or ())
    return status.succeeded + ended + status.ready >= count(job)


def outcome(job: batch.Job) -> views.PodCondition | None:
    """The condition with which the Job has ended: ``Complete`` or ``Failed``; else None."""
    for condition in job.status.conditions or ():
        if condition.type in {"Complete", "Failed"} and condition.status == "True":
            return condition
    return None


def parallelism(job: batch.Job) -> int:
    """How many pods may run at a time."""
    return 1 if job.spec.parallelism is None else job.spec.parallelism


def count(job: batch.Job) -> int:
    """How many pods run at a time at most."""
    completions = job.spec.completions
    return parallelism(job) if completions is None else min(parallelism(job), completions)


def min_count(job: batch.Job) -> int | None:
    """With how many pods the Job may start when there is no quota for all of them."""
    text = job.metadata.annotation(names.JOB_MIN_PARALLELISM)
    return int(text) if text.isdecimal() and int(text) > 0 else None


def syncs_completions(job: batch.Job) -> bool:
    """Whether completions follow the parallelism that was admitted."""
    return job.metadata.annotation(names.JOB_SYNC_COMPLETIONS) in _TRUE


def is_injected(job: batch.Job) -> bool:
    """Whether the pod template carries what an admission gave it."""
    return bool(job.spec.template.metadata.annotation(names.WORKLOAD_ANNOTATION))


def digest(template: Mapping[str, Any]) -> str:
    """Tells pod templates apart by all that their pods are made from."""
    content = _template(template)
    encoded = msgspec.json.encode(content, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


# ------------------------------------------------------------------------------------ Workload


def pod_set(workload: views.Workload) -> views.PodSet | None:
    """The one pod set of a Job's Workload; None where somebody made it otherwise."""
    found = workload.spec.pod_sets or ()
    return found[0] if len(found) == 1 and found[0].name == POD_SET else None


def admitted_count(workload: views.Workload) -> int | None:
    """Number of pods that the Workload has quota for; None where it is all of them."""
    admission = workload.status.admission
    for assignment in (admission.pod_set_assignments or ()) if admission else ():
        if assignment.name == POD_SET and assignment.count is not None:
            return assignment.count
    return None


def reclaimable(job: batch.Job, workload: views.Workload) -> int:
    """Pods of the Workload's count that will never run again."""
    asked = pod_set(workload)
    if asked is None or parallelism(job) <= 1:
        return 0  # one pod at a time leaves nothing before the Job has ended
    completions = job.spec.completions
    # Without completions the Job is done when one pod has succeeded and the others have ended.
    wanted = parallelism(job) if completions is None else completions
    ended = _ended(job, wanted)
    if ended == 0:
        return 0
    left = max(0, wanted - ended)
    return asked.count - min(asked.count, left)


def _ended(job: batch.Job, wanted: int) -> int:
    """How many of the wanted completions no pod will run for any more.

    Of an Indexed Job also those that have failed for good: their number is in no counter.
    """
    if job.spec.completion_mode != _INDEXED:
        return job.status.succeeded
    texts = (job.status.completed_indexes, job.status.failed_indexes or "")
    return completedindexes.count(texts, wanted)


def build(
    document: batch.JobDocument, classes: PriorityClasses, copied: Iterable[str] = ()
) -> dict[str, Any]:
    """Document of the Job's Workload.

    Args:
        document: the Job.
        classes: where its priority may come from.
        copied: keys of labels that the Workload takes over.

    Raises:
        MissingPriorityClassError: the Job names a class that does not exist.
    """
    job = document.view()
    metadata = job.metadata
    key = key_of(job)
    annotations = {
        **podworkload.annotations(metadata),
        names.TEMPLATE_DIGEST: digest(document.template),
    }
    return {
        "apiVersion": f"{names.KUEUE_GROUP}/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": podworkload.labels(metadata, copied),
            "annotations": annotations,
            "finalizers": [names.RESOURCE_IN_USE],
            "ownerReferences": [owner(metadata)],
        },
        "spec": spec(document, classes),
    }


def spec(document: batch.JobDocument, classes: PriorityClasses) -> dict[str, Any]:
    """Spec of the Job's Workload; members that the Job says nothing about are absent.

    Raises:
        MissingPriorityClassError: the Job names a class that does not exist.
    """
    job = document.view()
    content = _template(document.template)
    template: dict[str, Any] = {"spec": podworkload.template_spec(content["spec"])}
    metadata = {field: content[field] for field in ("labels", "annotations") if field in content}
    if metadata:
        template["metadata"] = metadata
    asked = {"name": POD_SET, "count": count(job), "template": template}
    least = min_count(job)
    if least is not None:
        asked["minCount"] = min(least, count(job))
    result = {
        "queueName": job.metadata.label(names.QUEUE_LABEL),
        "podSets": [asked],
        **_priority(job, classes),
    }
    seconds = max_execution_seconds(job)
    if seconds is not None:
        result["maximumExecutionTimeSeconds"] = seconds
    return result


def max_execution_seconds(job: batch.Job) -> int | None:
    """The Job's limit on its own running time."""
    return podworkload.max_execution_seconds(job.metadata.label(names.MAX_EXEC_TIME_LABEL))


def _template(template: Mapping[str, Any]) -> dict[str, Any]:
    """What the Job asks for with its template: labels, annotations, spec; empty ones left out."""
    metadata = template.get("metadata") or {}
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key not in SET_BY_JOB_CONTROLLER
    }
    pod = {
        field: value
        for field, value in (template.get("spec") or {}).items()
        if value or field not in _SCHEDULING
    }
    content = {"labels": labels, "annotations": metadata.get("annotations"), "spec": pod}
    return {field: value for field, value in content.items() if value or field == "spec"}


def owner(metadata: views.ObjectMeta) -> dict[str, Any]:
    """Reference to a Job as the controller of its Workload."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _priority(job: batch.Job, classes: PriorityClasses) -> dict[str, Any]:
    """Priority and its source: WorkloadPriorityClass, PriorityClass, the default one, or none."""
    label = job.metadata.label(names.PRIORITY_CLASS_LABEL)
    if label:
        if label not in classes.workload:
            raise MissingPriorityClassError(label)
        reference = {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": label}
        return {"priorityClassRef": reference, "priority": classes.workload[label]}
    name = job.spec.template.spec.priority_class_name or _default(classes.pod)
    if not name:
        return {"priority": 0}
    if name not in classes.pod:
        raise MissingPriorityClassError(name)
    reference = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
    return {"priorityClassRef": reference, "priority": classes.pod[name].value}


def _default(classes: Mapping[str, views.PriorityClass]) -> str:
    """Name of the global default with the lowest value; empty where there is none."""
    defaults = [(one.value, name) for name, one in classes.items() if one.global_default]
    return min(defaults)[1] if defaults else ""
