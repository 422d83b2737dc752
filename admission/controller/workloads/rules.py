"""What a rule of upkeep looks at besides the Workload, and what it may ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from admission.base import conditions, events
from admission.base.causes import MemberCounts
from admission.base.conditions import Text
from admission.base.events import Event
from admission.config.kueue_configuration import Configuration, WaitForPodsReady
from admission.controller.writing.api_requests import WritePurpose
from admission.objects import condition_list
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.objects.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadContext:
    """The context that decides about a Workload, besides the Workload itself.

    Attributes:
        local_queue: the queue it names; None where there is none.
        cluster_queue: ClusterQueue of its quota, else that of its LocalQueue; None likewise.
        priority: value of its WorkloadPriorityClass that it has to take over; None for none.
        now: the present.
        settings: Kueue's document, which says what is done with Workloads besides.
        waiting: how long its pods may take to become ready; None for ever.
        pods_ready: whether all of its pods are ready; None where somebody else tells.
        members: how many of its pods are there; None where nothing is said of them.
        members_changed_at: when one of them last came, changed or went; None where not known.
        members_changing_since: since when they change without a pause, or did so last.
        refusal: why the API server does not let its owner start; empty where it does.
    """

    local_queue: LocalQueue | None
    cluster_queue: ClusterQueue | None
    priority: int | None
    now: datetime
    settings: Configuration
    waiting: WaitForPodsReady | None
    pods_ready: bool | None
    members: MemberCounts | None
    members_changed_at: datetime | None
    members_changing_since: datetime | None
    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChange:
    """What is to be written; one of status, spec and finalizers, or a deletion.

    Attributes:
        operation: why; DELETE_WORKLOAD and DELETE_OWNER have nothing else.
        status: members of the status.
        spec: members of the spec.
        finalizers: the Workload's finalizers from now on.
        event: an event on the Workload, or on the owner it deletes.
        tells_owner: whether the event is on the owner, though it is not deleted.
    """

    operation: WritePurpose = WritePurpose.KEEP_UP
    status: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None
    finalizers: tuple[str, ...] | None = None
    event: Event | None = None
    tells_owner: bool = False


Rule = Callable[[Workload, WorkloadContext], WorkloadChange | None]


def is_active(workload: Workload) -> bool:
    """Return whether nobody has deactivated it."""
    return workload.spec.active is not False


def is_settled(workload: Workload) -> bool:
    """Return whether it holds quota and is not being evicted."""
    return (
        workload.status.is_true(conditions.QUOTA_RESERVED)
        and is_active(workload)
        and not workload.status.is_true(conditions.EVICTED)
    )


def target(
    workload: Workload,
    text: Text,
    now: datetime,
    event: Event | None = None,
) -> WorkloadChange:
    """Return the change that deactivates a Workload."""
    condition = condition_list.make(
        conditions.DEACTIVATION_TARGET,
        text,
        status=True,
        now=now,
        generation=workload.metadata.generation,
    )
    return WorkloadChange(
        status={"conditions": condition_list.merged(workload, condition)}, event=event
    )


def eviction(workload: Workload, status: dict[str, Any], text: Text) -> WorkloadChange:
    """Return an eviction; one of a Workload without quota is no news."""
    reserved = workload.status.is_true(conditions.QUOTA_RESERVED)
    event = events.evicted(*text) if reserved else None
    return WorkloadChange(operation=WritePurpose.EVICT, status=status, event=event)
