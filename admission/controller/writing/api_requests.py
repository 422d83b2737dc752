"""Requests to the API server as values, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from admission.base import names, patches
from admission.base.events import Event
from admission.kube import errors
from admission.kube.resources import CRDS, WORKLOADS, Resource
from admission.objects import views
from admission.objects.workload import Workload


class QueueKey(NamedTuple):
    """Identity of a ClusterQueue (empty namespace) or LocalQueue.

    It begins with a kind, and so with a capital letter: it equals none that begins with a
    namespace.
    """

    kind: str
    namespace: str
    name: str


RequestKey = names.WorkKey | QueueKey
"""Writes of one lane are never in flight together."""


class WritePurpose(Enum):
    """Why a write is made; the value is its label in logs and metrics."""

    ADOPT_POD = "adopt_pod"
    JOIN_GROUP = "join_group"
    START_PART = "start_part"
    """Make a pod one of the group of its owner."""
    LET_GO = "let_go"
    CREATE_WORKLOAD = "create_workload"
    READ_WORKLOAD = "read_workload"
    ADOPT_WORKLOAD = "adopt_workload"
    FIND_WORKLOAD = "find_workload"
    FIND_KIND = "find_kind"
    FIND_WRITER = "find_writer"
    CONFIRM_POD = "confirm_pod"
    """Ask whether a pod is gone that is not shown any more."""
    LABEL_POD = "label_pod"
    """Give a pod back the labels by which it is watched."""
    FIND_HOLDER = "find_holder"
    """Read a pod that holds GPUs by ResourceClaim and is not watched."""
    CHARGE_HOLDER = "charge_holder"
    """Have such a pod charged, as a pod that runs is."""
    STOP_HOLDER = "stop_holder"
    """Say on such a pod why it is deleted, and delete it."""
    CHARGE_ORPHAN = "charge_orphan"
    """Give a pod that its owner has left what makes it have a Workload of its own."""
    RELEASE_POD = "release_pod"
    """Take the gate off a pod of an owner that was let go as a whole and may grow."""
    CHARGE_RUNNING = "charge_running"
    """Give a Workload the quota that its running pods hold already."""
    READ_OWNER = "read_owner"
    RESERVE_QUOTA = "reserve_quota"
    REPLACE_HOSTS = "replace_hosts"
    """Assign other hosts to pods in place of lost ones."""
    END_STRAY = "end_stray"
    """Delete a pod that was told a host which is lost, before it could start there."""
    EVICT = "evict"
    CLEAR_RESERVATION = "clear_reservation"
    KEEP_UP = "keep_up"
    PREPARE_OWNER = "prepare_owner"
    START_OWNER = "start_owner"
    MARK_OWNER = "mark_owner"
    """Say on an owner why it is about to be deleted, or that no review saw it."""
    STOP_OWNER = "stop_owner"
    ANNOUNCE_STOP = "announce_stop"
    """Say on a pod when it is stopped."""
    FINISH_WORKLOAD = "finish_workload"
    DELETE_WORKLOAD = "delete_workload"
    DELETE_OWNER = "delete_owner"
    EXPLAIN_WORKLOAD = "explain_workload"
    EXPLAIN_POD = "explain_pod"
    QUEUE_STATUS = "queue_status"
    KEEP_METADATA = "keep_metadata"
    """Put the finalizers of a queue or flavor right, and what a flavor says of its nodes."""
    RESET_OWNER = "reset_owner"
    RESTORE_OWNER = "restore_owner"
    FOLLOW_OWNER = "follow_owner"
    RECLAIM_PODS = "reclaim_pods"
    RECORD_PODS = "record_pods"
    """Have the Workload of a group name its pods, and remember those that have ended."""
    AWAIT_REPLACEMENTS = "await_replacements"
    """Have the Workload of a group say whether it lacks pods."""
    FIND_PARENT = "find_parent"
    HOLD_CHILD = "hold_child"
    START_CHILD = "start_child"
    LET_CHILD_GO = "let_child_go"
    LET_WORKLOAD_GO = "let_workload_go"


REPORTS: Final = frozenset(
    {WritePurpose.EXPLAIN_WORKLOAD, WritePurpose.EXPLAIN_POD, WritePurpose.QUEUE_STATUS}
)
"""Purposes that change nothing but what people read; they give way to all others."""


class Verb(Enum):
    """The method of a request. READ changes nothing, but waits for its turn in the queue."""

    READ = auto()
    CREATE = auto()
    REPLACE = auto()
    PATCH = auto()
    DELETE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request.

    Attributes:
        key: the Workload, pod or queue whose requests are sent one at a time.
        operation: why.
        verb: how.
        resource: kind of the object.
        namespace: its namespace; empty for cluster-scoped kinds.
        name: its name.
        document: for CREATE, the object; for REPLACE, what stands in its place, and its version
            as the precondition.
        patch: for PATCH, the change; it carries its own precondition.
        subresource: for REPLACE and PATCH, empty or ``status``.
        uid: UID of the object, if it is known; for DELETE a precondition.
        version: for DELETE, another precondition; empty for any version.
        propagation: for DELETE, what happens to dependents; empty for the kind's default.
        into: type that the answer, or the object as read after a conflict, is decoded to.
        events: what is told on the object, or on its owner, once it took effect.
    """

    key: RequestKey
    operation: WritePurpose
    verb: Verb
    resource: Resource
    namespace: str = ""
    name: str
    document: dict[str, Any] | None = None
    patch: patches.Patch | None = None
    subresource: str = ""
    uid: str = ""
    version: str = ""
    propagation: str = ""
    into: type[Any] = dict
    events: tuple[Event, ...] = ()

    @property
    def regarding(self) -> dict[str, str]:
        """The reference to the object that events carry."""
        metadata = views.ObjectMeta(namespace=self.namespace, name=self.name, uid=self.uid)
        return reference(self.resource, metadata)

    @property
    def made_for(self) -> int | None:
        """The version of the object without which a change has no effect; None for any."""
        version = (self.document or {}).get("metadata", {}).get("resourceVersion", "")
        if self.patch is not None:
            version = patches.version_of(self.patch)
        if self.verb is Verb.DELETE:
            version = self.version
        return int(version) if version.isdecimal() else None


class Result(Enum):
    """What is known after a write."""

    DONE = auto()
    """It took effect; the object is as answered (None after a delete)."""
    CONFLICT = auto()
    """It did not: the object had changed, or exists already. It is as read afterwards."""
    GONE = auto()
    """It did not: the object does not exist."""
    REFUSED = auto()
    """It did not: the server refuses it, and would again. See the error."""
    UNKNOWN = auto()
    """It may have taken effect; the same write is to be sent again, later."""
    DROPPED = auto()
    """It was not sent: the process is stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """The result of a write.

    Attributes:
        request: the write.
        result: what is known.
        object: see `Result`.
        error: the refusal.
        seconds: from the last attempt's request to its answer.
    """

    request: ApiRequest
    result: Result
    object: Any = None
    error: errors.ApiError | None = None
    seconds: float = 0.0


WORKLOAD_VIEW: Final = Workload
"""What answers about Workloads are decoded to."""


def reference(resource: Resource, metadata: views.ObjectMeta) -> dict[str, str]:
    """Return the reference to an object that events carry."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }


def workload_reference(workload: Workload) -> dict[str, str]:
    """Return the reference to a Workload that its events carry."""
    return reference(WORKLOADS, workload.metadata)


def create_workload(
    key: names.WorkloadKey, document: dict[str, Any], events: tuple[Event, ...] = ()
) -> ApiRequest:
    """Return the creation of a Workload; one that exists already is read instead."""
    return ApiRequest(
        key=key,
        operation=WritePurpose.CREATE_WORKLOAD,
        verb=Verb.CREATE,
        resource=WORKLOADS,
        namespace=key.namespace,
        name=key.name,
        document=document,
        into=WORKLOAD_VIEW,
        events=events,
    )


def read(
    key: names.WorkKey,
    operation: WritePurpose,
    resource: Resource,
    metadata: views.ObjectMeta,
    into: type[Any] = dict,
) -> ApiRequest:
    """Return the read of an object."""
    return ApiRequest(
        key=key,
        operation=operation,
        verb=Verb.READ,
        resource=resource,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        into=into,
    )


def find_workload(key: names.WorkloadKey, name: str = "") -> ApiRequest:
    """Return the read that finds out whether a Workload exists, perhaps one of another name."""
    sought = views.ObjectMeta(namespace=key.namespace, name=name or key.name)
    return read(key, WritePurpose.FIND_WORKLOAD, WORKLOADS, sought, WORKLOAD_VIEW)


def read_workload(key: names.WorkloadKey, workload: Workload) -> ApiRequest:
    """Return the read of a whole Workload, to compare it with the owner that names it."""
    return read(key, WritePurpose.READ_WORKLOAD, WORKLOADS, workload.metadata)


def find_writer(workload: Workload) -> ApiRequest:
    """Read a Workload whole, to learn who wrote its admission."""
    key = names.WorkloadKey(workload.metadata.namespace, workload.metadata.name)
    return read(key, WritePurpose.FIND_WRITER, WORKLOADS, workload.metadata)


def find_kind(key: names.WorkloadKey) -> ApiRequest:
    """Return the read whether the kind Workload exists: an uninstallation removes all with it."""
    sought = views.ObjectMeta(name=WORKLOADS.qualified)
    return read(key, WritePurpose.FIND_KIND, CRDS, sought, views.Object)


def set_workload_status(
    workload: Workload,
    operation: WritePurpose,
    changes: dict[str, Any],
    events: tuple[Event, ...] = (),
) -> ApiRequest:
    """Return the status change of exactly the version of the Workload that was decided on.

    Where every member that the status has is given anew, it is replaced, which costs the API
    server less than a patch (ADR 0003).

    Args:
        workload: as it was decided on.
        operation: why.
        changes: members of the status as a merge patch has them.
        events: see `ApiRequest`.
    """
    if not all(_is_given_anew(member, changes) for member in workload.status.members()):
        return patch_workload(workload, operation, {"status": changes}, "status", events)
    document = _with_status(workload.metadata, changes)
    request = _on_workload(workload, operation, Verb.REPLACE)
    return replace(request, document=document, subresource="status", events=events)


def patch_workload_spec(
    workload: Workload, operation: WritePurpose, spec: dict[str, Any]
) -> ApiRequest:
    """Return the spec change of exactly this version of the Workload."""
    return patch_workload(workload, operation, {"spec": spec})


def set_finalizers(
    workload: Workload, operation: WritePurpose, finalizers: Sequence[str]
) -> ApiRequest:
    """Return the change of the finalizers of exactly this version of the Workload."""
    changes = {"metadata": {"finalizers": list(finalizers) or None}}
    return patch_workload(workload, operation, changes)


def patch_workload(
    workload: Workload,
    operation: WritePurpose,
    changes: dict[str, Any],
    subresource: str = "",
    events: tuple[Event, ...] = (),
) -> ApiRequest:
    """Return the change of members of exactly this version of the Workload."""
    patch = _patch_of(workload.metadata, changes)
    request = _on_workload(workload, operation, Verb.PATCH)
    return replace(request, patch=patch, subresource=subresource, events=events)


def delete_owner(
    workload: Workload, owner: views.OwnerReference, resource: Resource
) -> ApiRequest:
    """Return the deletion of exactly the Workload's controller; what it made goes after it."""
    metadata = workload.metadata
    return ApiRequest(
        key=names.WorkloadKey(metadata.namespace, metadata.name),
        operation=WritePurpose.DELETE_OWNER,
        verb=Verb.DELETE,
        resource=resource,
        namespace=metadata.namespace,
        name=owner.name,
        uid=owner.uid,
        propagation="Background",
    )


def delete_workload(workload: Workload, events: tuple[Event, ...] = ()) -> ApiRequest:
    """Return the deletion of exactly that Workload."""
    return replace(
        _on_workload(workload, WritePurpose.DELETE_WORKLOAD, Verb.DELETE), events=events
    )


def replace_queue_status(
    key: QueueKey, resource: Resource, view: views.Object, status: dict[str, Any]
) -> ApiRequest:
    """Return the new status of exactly this version of a ClusterQueue, LocalQueue or Cohort."""
    request = _on(view, key, resource, WritePurpose.QUEUE_STATUS, Verb.REPLACE)
    return replace(request, document=_with_status(view.metadata, status), subresource="status")


def patch_queue(
    key: QueueKey,
    operation: WritePurpose,
    resource: Resource,
    view: views.Object,
    changes: dict[str, Any],
) -> ApiRequest:
    """Return the change of members of exactly this version of a queue, or what it refers to."""
    request = _on(view, key, resource, operation, Verb.PATCH)
    return replace(request, patch=_patch_of(view.metadata, changes))


def _on_workload(workload: Workload, operation: WritePurpose, verb: Verb) -> ApiRequest:
    key = names.WorkloadKey(workload.metadata.namespace, workload.metadata.name)
    return _on(workload, key, WORKLOADS, operation, verb)


def _on(
    view: views.Object, key: RequestKey, resource: Resource, operation: WritePurpose, verb: Verb
) -> ApiRequest:
    """A write about an object that was seen, as yet without content."""
    metadata = view.metadata
    return ApiRequest(
        key=key,
        operation=operation,
        verb=verb,
        resource=resource,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        into=type(view),
    )


def _patch_of(metadata: views.ObjectMeta, changes: Mapping[str, Any]) -> patches.Patch:
    return patches.merge({**changes, "metadata": _exactly(metadata) | changes.get("metadata", {})})


def _exactly(metadata: views.ObjectMeta) -> dict[str, Any]:
    """The precondition that the object is still this version."""
    return {"resourceVersion": metadata.resource_version, "uid": metadata.uid}


def _is_given_anew(member: str, changes: Mapping[str, Any]) -> bool:
    """Return whether a merge patch leaves nothing of a member; of an object it may leave some."""
    return member in changes and not isinstance(changes[member], Mapping)


def _with_status(metadata: views.ObjectMeta, status: Mapping[str, Any]) -> dict[str, Any]:
    """As much of an object as a write of its whole status needs; None stands for no member."""
    identity = {"name": metadata.name, "namespace": metadata.namespace or None}
    return _present({"metadata": identity | _exactly(metadata), "status": status})


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _present(value) if isinstance(value, Mapping) else value
        for key, value in members.items()
        if value is not None
    }
