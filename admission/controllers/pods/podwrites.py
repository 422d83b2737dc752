"""The writes about pods and their Workloads: one for each step, and those that tell why."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from admission.api import views
from admission.base import conditions, events, names
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.controllers.pods import adoption, podconditions
from admission.controllers.pods.podindex import PodIndex
from admission.controllers.queues.configuration import Configuration
from admission.controllers.workloads import evictions, keeping, statuses
from admission.controllers.writing import writes
from admission.controllers.writing.writes import Purpose, Write
from admission.engine.decisions import Wait
from admission.objects import facts
from admission.owners import injection, prebuilt
from admission.owners import pod as pod_owner
from admission.owners.lifecycle import Next, Step
from admission.owners.workload import template_spec
from admission.translate import words


def write_for(
    step: Next,
    key: WorkloadKey,
    pods: PodIndex,
    configuration: Configuration,
    now: datetime,
) -> Write | None:
    """The write that carries out a step; None where there is nothing to write yet.

    A pod whose assignment contradicts it is not released: its Workload ends as FailedToStart.
    """
    pod, workload = pods.pod_of(key), pods.workloads.get(key)
    write: Write | None = None
    match step.step:
        case Step.CREATE_WORKLOAD | Step.ADOPT_WORKLOAD | Step.AWAIT_WORKLOAD if pod is not None:
            write = _create(key, pod, pods, configuration, now)
        case Step.STOP if pod is not None and not pods.is_stopped(pod):
            unsure = workload is None and pods.named_by(pod) is None
            write = _ask_absence(key, pod, pods) if unsure else None
            write = write or _stop(key, pod, step, pods, now)
        case Step.DELETE_WORKLOAD if workload is not None:
            write = writes.delete_workload(workload)
        case Step.FINISH if workload is not None:
            status = statuses.finish(workload, step.reason, step.message, now)
            write = writes.set_workload_status(workload, Purpose.FINISH_WORKLOAD, status)
        case Step.CLEAR_RESERVATION if workload is not None:
            stays = pod is not None and pod_owner.is_gated(pod)
            status = evictions.clear(workload, now, stays=stays)
            write = writes.set_workload_status(workload, Purpose.CLEAR_RESERVATION, status)
        case Step.FOLLOW if pod is not None and workload is not None:
            write = keeping.follow_owner(
                pod, workload, configuration.priority_classes, Purpose.FOLLOW_POD
            )
        case Step.START if pod is not None and workload is not None:
            write = _release(key, pod, workload, configuration.flavors, now)
        case _:
            pass
    return write


def _stop(key: WorkloadKey, pod: views.Pod, step: Next, pods: PodIndex, now: datetime) -> Write:
    """Return the write that deletes a pod, or the one before it that says why on the pod."""
    patch = podconditions.termination(pod, step.reason, step.message, now)
    if patch is None or pods.is_unmarkable(pod):
        return writes.delete_pod(key, pod, events.stopped(step.message))
    return writes.patch_pod(key, pod, Purpose.MARK_POD, patch, subresource="status")


def _ask_absence(key: WorkloadKey, pod: views.Pod, pods: PodIndex) -> Write | None:
    """What to read before a pod is stopped that has no Workload."""
    named = pod_owner.KIND.prebuilt_key(pod)
    return pods.workloads.ask_absence(key, named.name if named else "")


def _create(
    key: WorkloadKey,
    pod: views.Pod,
    pods: PodIndex,
    configuration: Configuration,
    now: datetime,
) -> Write | None:
    if adoption.hint_for(pod, configuration) is not None or adoption.is_in_doubt(pod):
        return None
    spec = pods.spec_of(key)
    if spec is None:
        return writes.read_pod(key, pod)
    if pod_owner.KIND.prebuilt_key(pod) is not None:
        found = pods.named_by(pod)
        if found is None or not prebuilt.may_adopt(found, pod):
            return None
        return _adopt(key, pod, spec, found, pods.named_document(key), now)
    return writes.create_workload(
        key,
        pod_owner.build(
            pod, spec, configuration.priority_classes, configuration.workloads.copied_labels
        ),
    )


def _adopt(
    key: WorkloadKey,
    pod: views.Pod,
    spec: Mapping[str, Any],
    found: views.Workload,
    document: Mapping[str, Any] | None,
    now: datetime,
) -> Write:
    """Return the next write to take the Workload that the pod names, or to end it if it differs.

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
        status = statuses.finish(found, *conditions.OUT_OF_SYNC, now)
        write = writes.set_workload_status(found, Purpose.FINISH_WORKLOAD, status)
    else:
        changes = prebuilt.adoption(document, pod_owner.KIND.reference(pod.metadata), {})
        write = writes.patch_workload(found, Purpose.ADOPT_WORKLOAD, changes)
    return replace(write, lane=key)


def _release(
    key: WorkloadKey,
    pod: views.Pod,
    workload: views.Workload,
    flavors: Mapping[str, views.ResourceFlavor],
    now: datetime,
) -> Write | None:
    try:
        given = injection.injection(workload, names.DEFAULT_PODSET, flavors)
        return writes.patch_pod(key, pod, Purpose.RELEASE_POD, pod_owner.release(pod, given))
    except KeyError:
        return None  # the flavor was deleted after the decision; its return wakes the pod
    except injection.InjectionConflictError as conflict:
        status = statuses.finish(workload, conditions.FAILED_TO_START, str(conflict), now)
        return writes.set_workload_status(workload, Purpose.FINISH_WORKLOAD, status)


def explain(key: WorkloadKey, wait: Wait, pods: PodIndex, now: datetime) -> Write | None:
    """The next write that tells why a Workload waits: on itself first, then on its pod."""
    pod, workload = pods.pod_of(key), pods.workloads.get(key)
    if workload is None or not facts.is_pending(workload):
        return None
    status = statuses.explain(workload, wait, now)
    if status is not None:
        return writes.set_workload_status(workload, Purpose.EXPLAIN_WORKLOAD, status)
    if pod is None or not pod_owner.is_gated(pod):
        return None
    return explain_pod(key, pod, Text(wait.reason, words.waiting(wait)), now)


def explain_pod(key: WorkloadKey, pod: views.Pod, text: Text, now: datetime) -> Write | None:
    """Puts a reason on a pod that is not admitted."""
    patch = podconditions.patch(
        pod, admitted=False, reason=text.reason, message=text.message, now=now
    )
    if patch is None:
        return None
    return writes.patch_pod(key, pod, Purpose.EXPLAIN_POD, patch, subresource="status")


def acknowledge(key: WorkloadKey, pods: PodIndex, now: datetime) -> Write | None:
    """Turns the pod's waiting condition True once it is released; only where there was one."""
    pod, workload = pods.pod_of(key), pods.workloads.get(key)
    if pod is None or workload is None or pod_owner.is_gated(pod):
        return None
    found = podconditions.current(pod)
    admitted = workload.status.is_true(conditions.ADMITTED) and workload.status.admission
    if found is None or found.status == "True" or not admitted or pod_owner.is_terminal(pod):
        return None
    text = conditions.pod_admitted(admitted.cluster_queue)
    patch = podconditions.patch(
        pod, admitted=True, reason=text.reason, message=text.message, now=now
    )
    if patch is None:
        return None
    return writes.patch_pod(key, pod, Purpose.EXPLAIN_POD, patch, subresource="status")
