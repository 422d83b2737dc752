"""Patches of Jobs: started with what an admission gives the pod template, stopped, restored.

Every patch changes exactly the version of the Job that was decided on. Source: kueue
pkg/controller/jobs/job/job_controller.go (RunWithPodSetsInfo, RestorePodSetsInfo) and
pkg/podset/podset.go.
"""

from collections.abc import Mapping
from typing import Any, Final

from admission.api import batch, views
from admission.base import names
from admission.controllers.jobs import jobworkload
from admission.controllers.pods import release
from admission.controllers.pods.release import Injection
from admission.kube import patches

_OUR_LABELS: Final = (
    names.PODSET_LABEL,
    names.LOCAL_QUEUE_NAME_LABEL,
    names.CLUSTER_QUEUE_NAME_LABEL,
)


def start(job: batch.Job, workload: views.Workload, given: Injection) -> patches.Patch:
    """Lets the Job run, with the count that was admitted.

    Raises:
        InjectionConflictError: the template contradicts the injection.
    """
    metadata, spec = job.spec.template.metadata, job.spec.template.spec
    template: dict[str, Any] = {
        "metadata": {
            "labels": release.additions("labels", given.labels, metadata.labels),
            "annotations": release.additions(
                "annotations", given.annotations, metadata.annotations
            ),
        }
    }
    pod: dict[str, Any] = {}
    selector = release.additions("nodeSelector", given.node_selector, spec.node_selector)
    if selector:
        pod["nodeSelector"] = selector
    present = spec.tolerations or ()
    missing = [toleration for toleration in given.tolerations if toleration not in present]
    if missing:
        pod["tolerations"] = [release.toleration_to_wire(t) for t in (*present, *missing)]
    if pod:
        template["spec"] = pod
    counts = _counts(job, jobworkload.admitted_count(workload))
    return _patch(job, {"spec": {"suspend": False, **counts, "template": template}})


def stop(job: batch.Job) -> patches.Patch:
    """Suspends the Job; its controller deletes the pods that run."""
    return _patch(job, {"spec": {"suspend": True}})


def reset(job: batch.Job) -> patches.Patch:
    """Forgets, in the status, when the suspended Job started."""
    return _patch(job, {"status": {"startTime": None}})


def restore(job: batch.Job, workload: views.Workload | None) -> patches.Patch:
    """Makes the template of a suspended Job what it was before it was started.

    Without its Workload nobody knows what it was: then only the keys that tell of an admission
    go, and the selectors and tolerations of its flavors stay.
    """
    asked = jobworkload.pod_set(workload) if workload is not None else None
    metadata = job.spec.template.metadata
    if asked is None:
        labels = dict.fromkeys(key for key in _OUR_LABELS if key in (metadata.labels or {}))
        ours = {"labels": labels, "annotations": {names.WORKLOAD_ANNOTATION: None}}
        return _patch(job, {"spec": {"template": {"metadata": ours}}})
    was = asked.template
    own = {
        key: value
        for key, value in (metadata.labels or {}).items()
        if key not in jobworkload.SET_BY_JOB_CONTROLLER
    }
    changes = {
        "labels": _back(own, was.metadata.labels),
        "annotations": _back(metadata.annotations, was.metadata.annotations),
    }
    spec = {
        "nodeSelector": _back(job.spec.template.spec.node_selector, was.spec.node_selector),
        "tolerations": [release.toleration_to_wire(t) for t in was.spec.tolerations or ()] or None,
    }
    counts = _counts(job, asked.count)
    return _patch(job, {"spec": {**counts, "template": {"metadata": changes, "spec": spec}}})


def _counts(job: batch.Job, pods: int | None) -> dict[str, int]:
    """Parallelism of a Job that may run with fewer pods than it asks for."""
    if pods is None or jobworkload.min_count(job) is None:
        return {}
    counts = {"parallelism": pods} if pods != jobworkload.count(job) else {}
    if jobworkload.syncs_completions(job) and pods != job.spec.completions:
        counts["completions"] = pods
    return counts


def _back(
    found: Mapping[str, str] | None, wanted: Mapping[str, str] | None
) -> dict[str, str | None]:
    """Members of a merge patch that turn what is found into what is wanted."""
    before, after = found or {}, wanted or {}
    gone: dict[str, str | None] = dict.fromkeys(key for key in before if key not in after)
    return gone | {key: value for key, value in after.items() if before.get(key) != value}


def _patch(job: batch.Job, changes: dict[str, Any]) -> patches.Patch:
    metadata = job.metadata
    precondition = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
    return patches.merge({"metadata": precondition, **changes})
