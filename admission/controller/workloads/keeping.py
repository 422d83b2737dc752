"""Changes that upkeep or an owner asks for, as writes and events."""

from collections.abc import Mapping

from admission.base.events import Event
from admission.controller.workloads.rules import WorkloadChange
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners.workload import changes_for


def request_for(workload: Workload, change: WorkloadChange) -> ApiRequest | None:
    """Return the write of a change; None for the owner of a kind that we do not know."""
    if change.operation is WritePurpose.DELETE_OWNER:
        owner = workload.metadata.controller()
        resource = owner and resources.of_kind(owner.api_version, owner.kind)
        return api_requests.delete_owner(workload, owner, resource) if owner and resource else None
    if change.operation is WritePurpose.DELETE_WORKLOAD:
        return api_requests.delete_workload(workload)
    if change.finalizers is not None:
        return api_requests.set_finalizers(workload, change.operation, change.finalizers)
    if change.spec is not None:
        return api_requests.patch_workload_spec(workload, change.operation, change.spec)
    return api_requests.set_workload_status(workload, change.operation, change.status or {})


def event_of(workload: Workload, change: WorkloadChange) -> tuple[dict[str, str], Event] | None:
    """Return the event of a change, and the object that gets it."""
    if change.event is None:
        return None
    owner = workload.metadata.controller()
    regarding = api_requests.workload_reference(workload)
    is_told = change.tells_owner or change.operation is WritePurpose.DELETE_OWNER
    if is_told and owner is not None:
        regarding = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "namespace": workload.metadata.namespace,
            "name": owner.name,
            "uid": owner.uid,
        }
    return regarding, change.event


def follow_owner(
    owner: views.Object, workload: Workload, classes: Mapping[str, int]
) -> ApiRequest | None:
    """Return the write after which a Workload says what its owner says now, or None for none.

    Args:
        owner: the owner.
        workload: its Workload, which has not ended.
        classes: values of the WorkloadPriorityClasses by name; one that is missing is waited for.
    """
    changes, announced = changes_for(owner, workload, classes)
    if not changes:
        return None
    return api_requests.patch_workload(
        workload, WritePurpose.FOLLOW_OWNER, changes, events=announced
    )
