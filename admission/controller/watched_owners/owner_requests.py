"""The writes about owners and their Workloads, as values."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from admission.base import events, names, patches
from admission.base.events import Event
from admission.base.names import WorkKey, WorkloadKey
from admission.base.patches import Patch
from admission.controller.watched_owners import brake
from admission.controller.workloads import statuses
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest, Verb, WritePurpose
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner
from admission.owners.framework import Reclaims
from admission.owners.workload import gates_of
from admission.scheduling.places.model import HOSTNAME


def read(
    key: WorkloadKey, resource: Resource, owner: views.Object, into: type[views.Object]
) -> ApiRequest:
    """Return the read of an owner whole, to make its Workload from."""
    return api_requests.read(key, WritePurpose.READ_OWNER, resource, owner.metadata, into)


def patch(
    key: WorkKey,
    resource: Resource,
    owner: views.Object,
    operation: WritePurpose,
    changes: Patch,
    *,
    into: type[views.Object],
    subresource: str = "",
    events: tuple[Event, ...] = (),
) -> ApiRequest:
    """Return a change of an owner; the patch carries the precondition."""
    return ApiRequest(
        key=key,
        operation=operation,
        verb=Verb.PATCH,
        resource=resource,
        namespace=owner.metadata.namespace,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        patch=changes,
        subresource=subresource,
        into=into,
        events=events,
    )


def delete(
    key: WorkKey,
    resource: Resource,
    owner: views.Object,
    into: type[views.Object],
    event: Event,
) -> ApiRequest:
    """Return the deletion of exactly that owner, with its own grace period; the event says why.

    A pod that is not bound is deleted as it was looked at: once it is bound, a notice may hold.
    """
    return ApiRequest(
        key=key,
        operation=WritePurpose.STOP_OWNER,
        verb=Verb.DELETE,
        resource=resource,
        namespace=owner.metadata.namespace,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        version="" if brake.has_worked(owner) else owner.metadata.resource_version,
        into=into,
        events=(event,),
    )


def follow(
    workload: Workload, owner: views.Object, document: dict[str, Any], events: Iterator[Event]
) -> ApiRequest:
    """Return the write after which a Workload without quota asks for what its owner asks for.

    Args:
        workload: as it is.
        owner: the owner.
        document: the document of the Workload that would be made for the owner now; it has the
            digest of the owner's pod templates as an annotation.
        events: what is told of it.
    """
    absent = ("priorityClassRef", "maximumExecutionTimeSeconds")
    digest = document["metadata"]["annotations"][names.TEMPLATE_DIGEST]
    changes = {
        "metadata": {
            "annotations": {
                names.TEMPLATE_DIGEST: digest,
                names.ADMISSION_GATED_BY: gates_of(owner) or None,
                names.MADE_FOR_RUNNING: None,
            }
        },
        "spec": {**dict.fromkeys(absent), **document["spec"]},
    }
    return api_requests.patch_workload(
        workload, WritePurpose.FOLLOW_OWNER, changes, events=tuple(events)
    )


def follow_nodes(workload: Workload, document: dict[str, Any]) -> ApiRequest:
    """Return the write after which a Workload without quota asks for the nodes of its pods.

    Args:
        workload: as it is.
        document: the document of the Workload that would be made for its owner now.
    """
    changes = {"spec": {"podSets": document["spec"]["podSets"]}}
    return api_requests.patch_workload(workload, WritePurpose.FOLLOW_OWNER, changes)


def resize(workload: Workload, counts: Mapping[str, int]) -> ApiRequest:
    """Return the write after which exactly this version of a Workload asks for so many pods."""
    metadata = workload.metadata
    changes = [
        patches.test(patches.pointer("metadata", "uid"), metadata.uid),
        patches.test(patches.pointer("metadata", "resourceVersion"), metadata.resource_version),
    ]
    for index, pod_set in enumerate(workload.spec.pod_sets or ()):
        path = patches.pointer("spec", "podSets", index, "count")
        changes.append({"op": "add", "path": path, "value": counts[pod_set.name]})
    request = api_requests.patch_workload(workload, WritePurpose.FOLLOW_OWNER, {})
    return replace(request, patch=patches.json_patch(changes))


def release(key: WorkloadKey, pod: views.Pod) -> ApiRequest:
    """Return the write that lets a pod of an elastic owner start."""
    changes = pod_owner.release_elastic(pod)
    return patch(
        key, resources.RELEASED_PODS, pod, WritePurpose.RELEASE_POD, changes, into=views.Pod
    )


def release_to(key: WorkloadKey, pod: views.Pod, selector: Mapping[str, str]) -> ApiRequest:
    """Return the write that lets a pod start in its domain.

    Raises:
        InjectionConflictError: the pod selects other nodes itself.
    """
    changes = pod_owner.release_to(pod, selector)
    return patch(
        key, resources.RELEASED_PODS, pod, WritePurpose.RELEASE_POD, changes, into=views.Pod
    )


def end_stray(key: WorkloadKey, pod: views.Pod) -> ApiRequest:
    """Return the deletion of exactly this version of a pod that can start on no node."""
    selector = pod.spec.node_selector or {}
    announced = events.stray_pod_deleted(selector.get(HOSTNAME, ""))
    request = delete(key, resources.RELEASED_PODS, pod, views.Pod, announced)
    return replace(request, operation=WritePurpose.END_STRAY)


def adopt(key: WorkloadKey, workload: Workload, changes: dict[str, Any]) -> ApiRequest:
    """Return the write with which a Workload becomes that of the owner of a key."""
    return on_lane(
        key, api_requests.patch_workload(workload, WritePurpose.ADOPT_WORKLOAD, changes)
    )


def on_lane(key: WorkloadKey, request: ApiRequest) -> ApiRequest:
    """Return a write about a Workload that waits for the turn of the owner that names it."""
    return replace(request, key=key)


def remove_finalizer(workload: Workload) -> ApiRequest:
    """Return the write that takes our finalizer off."""
    finalizers = [
        finalizer
        for finalizer in workload.metadata.finalizers or ()
        if finalizer != names.RESOURCE_IN_USE
    ]
    return api_requests.set_finalizers(workload, WritePurpose.LET_WORKLOAD_GO, finalizers)


def reclaim(workload: Workload, owner: Reclaims) -> ApiRequest:
    """Return the write that says how many pods of each pod set will never run again."""
    status = statuses.reclaim(owner.reclaimable(workload))
    return api_requests.set_workload_status(workload, WritePurpose.RECLAIM_PODS, status)


def is_read(document: dict[str, Any] | None, workload: Workload) -> bool:
    """Return whether a Workload was read whole in its present version."""
    metadata = workload.metadata
    preconditions = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return document is not None and preconditions.items() <= document["metadata"].items()
