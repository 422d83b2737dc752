"""Status of ClusterQueues, LocalQueues and Cohorts as documents, and when each is written.

Source: kueue pkg/controller/core (clusterqueue_controller.go, localqueue_controller.go,
cohort_controller.go).
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from admission.base import clock, conditions, names, quantity
from admission.base.conditions import Text
from admission.base.names import FlavorResource
from admission.controller.devices.capacity import is_gpu
from admission.gpu import resources
from admission.objects import condition_list, queue_status, values, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.reasons import added_conditions
from admission.scheduling.consumption import Consumption
from admission.scheduling.fairshare import Share
from admission.scheduling.status import CohortReport, QueueReport
from admission.scheduling.without_node import WithoutNode

_MOST_FLAVORS: Final = 64
"""What the schema of the status allows; a spec may list more."""
_SECOND_US: Final = 1_000_000

_OWN: Final = (
    conditions.CAPACITY_SUFFICIENT,
    conditions.COSTS_EXACT,
    conditions.FLAVORS_CONSISTENT,
    conditions.SPEC_SUPPORTED,
    conditions.RELEASING,
    conditions.SURGE_QUOTA_IN_USE,
)
"""Conditions of ours; one that nothing is to be said about is taken away."""


def cluster_queue(
    view: ClusterQueue,
    status: QueueReport,
    now: datetime,
    about_gpus: Iterable[views.Condition] = (),
) -> dict[str, Any]:
    """Return the status of a ClusterQueue; ``borrowed`` stands beside each total.

    Args:
        view: the ClusterQueue.
        status: the status in the state.
        now: time of conditions that change.
        about_gpus: conditions of ours about its GPUs and its spec, as far as there are any.
    """
    return {
        **_common(view, view.status, status, now, about_gpus),
        "flavorsReservation": _flavors(status.reservation, status.borrowed_reservation) or None,
        "flavorsUsage": _flavors(status.usage, status.borrowed_usage) or None,
        "fairSharing": _share(status.weighted_share),
        "gpus": gpus(view, status.reservation),
        "withoutNode": _without_node(gpus_without_node(status)) or None,
    }


def gpus_without_node(status: QueueReport) -> dict[FlavorResource, WithoutNode]:
    """Return the GPUs that pods without a node hold.

    Other resources are left out: the scheduler has room for them sooner or later.
    """
    amounts = status.without_node
    return {pair: amount for pair, amount in amounts.items() if is_gpu(pair.resource)}


def gpus(view: ClusterQueue, reserved: Mapping[FlavorResource, int]) -> str | None:
    """Return what is reserved of each GPU resource, of its nominal quota in all flavors.

    A column of ``kubectl get`` has one path, which gives one value: sums and pairs are not within
    its reach. None where the queue has no quota of GPUs and none of them is reserved.

    Args:
        view: the ClusterQueue.
        reserved: by flavor and resource.
    """
    used, nominal = dict[str, int](), dict[str, int]()
    for pair, value in reserved.items():
        used[pair.resource] = used.get(pair.resource, 0) + value
    for group in view.spec.resource_groups or ():
        for flavor in group.flavors or ():
            for quota in flavor.resources or ():
                value = values.amount_or_zero(quota.name, quota.nominal_quota)
                nominal[quota.name] = nominal.get(quota.name, 0) + value
    shown = sorted(
        (
            name
            for name in {*used, *nominal}
            if resources.is_device(name) or resources.is_virtual(name)
        ),
        key=lambda name: (name != names.GPU_RESOURCE, name),
    )
    parts = (
        " of ".join(
            quantity.from_canonical(name, amounts.get(name, 0)) for amounts in (used, nominal)
        )
        + ("" if name == names.GPU_RESOURCE else f" {name.rpartition('/')[2]}")
        for name in shown
    )
    return ", ".join(parts) or None


def local_queue(
    view: LocalQueue,
    status: QueueReport,
    now: datetime,
    consumption: Consumption | None = None,
    interval_us: int = 0,
) -> dict[str, Any]:
    """Return the status of a LocalQueue.

    Past usage is brought up to date where the status is written anyway, and for its own sake
    once in an interval. While the queue is not active, it stays as it was last told.

    Args:
        view: the LocalQueue.
        status: the status in the state.
        now: time of conditions that change.
        consumption: past usage; None without admission fair sharing.
        interval_us: least time between two writes for the sake of past usage, in microseconds.
    """
    document = {
        **_common(view, view.status, status, now),
        "flavorsReservation": _flavors(status.reservation, None) or None,
        "flavorsUsage": _flavors(status.usage, None) or None,
        "nominalQuota": _flavors(status.nominal, None) or None,
        "clusterQueueMaxPerUser": {
            name: quantity.from_canonical(name, value)
            for name, value in sorted(status.max_per_user.items())
        }
        or None,
    }
    if consumption is None:
        return document | {"fairSharing": None}
    if not status.active or not consumption.updated_us:
        return document
    shown = _readable_consumption(view)
    if changed(document, view.status) is None and not _is_due(shown, consumption, interval_us):
        return document
    if shown is not None and not consumption.has_usage and shown.consumed == consumption.consumed:
        return document  # nothing was used, and that is what the status says
    return document | {"fairSharing": _past_usage(consumption)}


def _readable_consumption(view: LocalQueue) -> Consumption | None:
    try:
        return consumption_of(view)
    except ValueError:
        return None  # it is written anew


def cohort(status: CohortReport | None) -> dict[str, Any]:
    """Return the status of a Cohort: its share, with fair sharing."""
    return {"fairSharing": _share(None if status is None else status.weighted_share)}


def unreadable(before: QueueReport | None, problem: str) -> QueueReport:
    """Return the status of a queue whose spec cannot be read; it admits nothing.

    Args:
        before: status by the last spec that could; None when there was none.
        problem: what is wrong with it; empty where that is not known.
    """
    reason, message = added_conditions.spec_unreadable(problem)
    if before is None:
        return QueueReport(active=False, reason=reason, message=message)
    return replace(before, active=False, reason=reason, message=message)


def changed(document: Mapping[str, Any], view: views.View) -> dict[str, Any] | None:
    """Return the whole status once the document's members are written; None removes a member.

    Returns None where that is what it is already.
    """
    members: dict[str, Any] = msgspec.to_builtins(view)
    conditions_now = getattr(view, "conditions", None)
    if conditions_now is not None:
        members["conditions"] = condition_list.to_wire(conditions_now)
    share = members.get("fairSharing")
    if share is not None and share.get("admissionFairSharingStatus", "") is None:
        del share["admissionFairSharingStatus"]
    is_same = all(members.get(key) == value for key, value in document.items())
    return None if is_same else members | dict(document)


def consumption_of(view: LocalQueue) -> Consumption | None:
    """Return the past usage in a status, in units of 1e-9; None where it has none.

    Raises:
        ValueError: a quantity or the time cannot be read.
    """
    share = view.status.fair_sharing
    sharing_status = share.admission_fair_sharing_status if share is not None else None
    if sharing_status is None or not sharing_status.last_update:
        return None
    moment = clock.from_wire(sharing_status.last_update)
    return Consumption(
        consumed={
            names.ResourceName(name): max(0, quantity.parse_nano(str(value)))
            for name, value in (sharing_status.consumed_resources or {}).items()
        },
        updated_us=int(moment.timestamp()) * _SECOND_US,
    )


def _common(
    view: views.Object,
    current: queue_status.QueueStatus,
    status: QueueReport,
    now: datetime,
    about_gpus: Iterable[views.Condition] = (),
) -> dict[str, Any]:
    changes = [_active(view, status, now), *about_gpus]
    types = {change.type for change in changes}
    kept = [
        condition
        for condition in current.conditions or ()
        if condition.type not in _OWN or condition.type in types
    ]
    return {
        "conditions": condition_list.to_wire(condition_list.merge(kept, *changes)),
        "pendingWorkloads": status.pending,
        "reservingWorkloads": status.reserving,
        "admittedWorkloads": status.admitted,
    }


def _active(view: views.Object, status: QueueReport, now: datetime) -> views.Condition:
    return condition_list.make(
        conditions.ACTIVE,
        Text(status.reason, status.message),
        status=status.active,
        now=now,
        generation=view.metadata.generation,
    )


def _share(weighted: Share | None) -> dict[str, Any] | None:
    return None if weighted is None else {"weightedShare": weighted.rounded_up()}


def _past_usage(consumption: Consumption) -> dict[str, Any]:
    moment = datetime.fromtimestamp(consumption.updated_us // _SECOND_US, UTC)
    return {
        "weightedShare": 0,
        "admissionFairSharingStatus": {
            "consumedResources": {
                name: quantity.format_nano(value)
                for name, value in sorted(consumption.consumed.items())
            },
            "lastUpdate": clock.to_wire(moment),
        },
    }


def _is_due(shown: Consumption | None, consumption: Consumption, interval_us: int) -> bool:
    return shown is None or consumption.updated_us - shown.updated_us >= interval_us


def _flavors(
    totals: Mapping[FlavorResource, int], borrowed: Mapping[FlavorResource, int] | None
) -> list[dict[str, Any]]:
    """Totals by flavor in their order, resources of a flavor sorted by name."""
    by_flavor: dict[names.FlavorName, list[FlavorResource]] = {}
    for pair in totals:
        by_flavor.setdefault(pair.flavor, []).append(pair)
    shown = _shown(by_flavor, totals)
    return [
        {
            "name": flavor,
            "resources": [_resource(pair, totals, borrowed) for pair in sorted(pairs)],
        }
        for flavor, pairs in by_flavor.items()
        if flavor in shown
    ]


def _without_node(amounts: Mapping[FlavorResource, WithoutNode]) -> list[dict[str, Any]]:
    by_flavor: dict[names.FlavorName, list[dict[str, str]]] = {}
    for pair, part in sorted(amounts.items()):
        by_flavor.setdefault(pair.flavor, []).append(
            {
                "name": pair.resource,
                "total": quantity.from_canonical(pair.resource, part.amount),
                "since": clock.to_wire(datetime.fromtimestamp(part.since_us // _SECOND_US, UTC)),
            }
        )
    flavors = [{"name": name, "resources": listed} for name, listed in by_flavor.items()]
    return flavors[:_MOST_FLAVORS]


def _shown(
    by_flavor: Mapping[names.FlavorName, list[FlavorResource]],
    totals: Mapping[FlavorResource, int],
) -> Container[names.FlavorName]:
    """As many flavors as the schema allows; those in use before those that are not."""
    if len(by_flavor) <= _MOST_FLAVORS:
        return by_flavor
    by_use = sorted(
        by_flavor, key=lambda name: not any(totals[resource] for resource in by_flavor[name])
    )
    return frozenset(by_use[:_MOST_FLAVORS])


def _resource(
    pair: FlavorResource,
    totals: Mapping[FlavorResource, int],
    borrowed: Mapping[FlavorResource, int] | None,
) -> dict[str, str]:
    shown = {
        "name": pair.resource,
        "total": quantity.from_canonical(pair.resource, totals[pair]),
    }
    if borrowed is not None:
        shown["borrowed"] = quantity.from_canonical(pair.resource, borrowed.get(pair, 0))
    return shown
