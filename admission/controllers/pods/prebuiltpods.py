"""Single pods that name their Workload: it is awaited, compared once, and adopted.

Source: kueue pkg/controller/jobframework/reconciler.go. Differs: what the containers ask for is
compared before the Workload is adopted, and not again, as a pod's containers stay as they are.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from admission.api import views
from admission.base.names import WorkloadKey
from admission.controllers.pods import podlifecycle
from admission.controllers.pods.podlifecycle import NOTHING, Next, Step
from admission.controllers.workloads import statuses
from admission.controllers.writing import writes
from admission.controllers.writing.writes import Purpose, Write
from admission.objects import conditions
from admission.owners import pod as pod_owner
from admission.owners import prebuilt
from admission.owners.workload import template_spec

_NO_MATCH: Final = "NoMatchingWorkload"


def next_step(
    pod: views.Pod | None, workload: views.Workload | None, found: views.Workload | None
) -> Next:
    """The next step of a pod and the Workload of one of its keys.

    Args:
        pod: the pod; it may be missing.
        workload: what there is of that key.
        found: what there is under the name that the pod gives.
    """
    if pod is None or pod_owner.KIND.prebuilt_key(pod) is None:
        return podlifecycle.next_step(pod, workload)
    if workload is None:
        return _before_adoption(pod, found)
    if prebuilt.is_adopted(workload, pod):
        return _adopted(pod, workload)
    return NOTHING if workload.metadata.deletion_timestamp else Next(Step.DELETE_WORKLOAD)


def adopt(
    key: WorkloadKey,
    pod: views.Pod,
    spec: Mapping[str, Any],
    found: views.Workload,
    document: Mapping[str, Any] | None,
    now: datetime,
) -> Write:
    """Takes the Workload that the pod names; one that asks for something else ends before.

    Args:
        key: that a Workload of ours would have.
        pod: the pod.
        spec: its whole spec.
        found: the Workload.
        document: the same, whole, if it was read.
        now: the time.
    """
    metadata = found.metadata
    wanted = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    if document is None or not wanted.items() <= document["metadata"].items():
        return writes.read_workload(key, found)
    sets = document["spec"].get("podSets") or [{}]
    asked = (sets[0].get("template") or {}).get("spec") or {}
    started = not pod_owner.is_gated(pod)
    is_over = found.status.is_true(conditions.FINISHED)
    alike = prebuilt.asks_alike(asked, template_spec(spec), started=started)
    if not is_over and not alike:
        status = statuses.finish(found, prebuilt.OUT_OF_SYNC, prebuilt.OUT_OF_SYNC_NOTE, now)
        write = writes.set_workload_status(found, Purpose.FINISH_WORKLOAD, status)
    else:
        changes = prebuilt.adoption(document, pod_owner.KIND.reference(pod.metadata), {})
        write = writes.patch_workload(found, Purpose.ADOPT_WORKLOAD, changes)
    return replace(write, lane=key)


def _before_adoption(pod: views.Pod, found: views.Workload | None) -> Next:
    if found is not None and prebuilt.is_adopted(found, pod):
        return NOTHING
    step = podlifecycle.next_step(pod, None)
    if step.step is not Step.STOP_POD:
        return step
    if found is not None and prebuilt.may_adopt(found, pod):
        return Next(Step.CREATE_WORKLOAD)
    return Next(Step.STOP_POD, _NO_MATCH, prebuilt.MISSING)


def _adopted(pod: views.Pod, workload: views.Workload) -> Next:
    step = podlifecycle.next_step(pod, workload)
    is_over = pod.metadata.deletion_timestamp or pod_owner.is_terminal(pod)
    if is_over or workload.metadata.deletion_timestamp:
        return step
    if workload.status.is_true(conditions.FINISHED):
        gated = pod_owner.is_gated(pod)
        return step if gated else Next(Step.STOP_POD, _NO_MATCH, prebuilt.MISSING)
    if not pod_owner.PodOwner(pod).stands_for(workload):
        return Next(Step.FINISH, prebuilt.OUT_OF_SYNC, prebuilt.OUT_OF_SYNC_NOTE)
    return step
