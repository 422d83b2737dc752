"""Status of ClusterQueues and LocalQueues as documents, and when each is written.

Source: kueue pkg/controller/core/clusterqueue_controller.go and localqueue_controller.go.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from admission.api import views
from admission.base import names, quantity
from admission.base.names import FlavorResource
from admission.controllers import conditions
from admission.controllers.writes import QueueLane
from admission.state.status import QueueStatus

_ABOUT_GPUS: Final = (names.CAPACITY_SUFFICIENT, names.COSTS_EXACT)


def cluster_queue(
    view: views.ClusterQueue,
    status: QueueStatus,
    now: datetime,
    about_gpus: Iterable[views.Condition] = (),
) -> dict[str, Any]:
    """Status of a ClusterQueue; ``borrowed`` stands beside each total.

    Args:
        view: the ClusterQueue.
        status: as the state knows it.
        now: of conditions that change.
        about_gpus: conditions about the GPUs behind its quota, as far as anything is known.
    """
    return {
        **_common(view, view.status, status, now, about_gpus),
        "flavorsReservation": _flavors(status.reservation, status.borrowed_reservation),
        "flavorsUsage": _flavors(status.usage, status.borrowed_usage),
        "reservingWorkloads": status.reserving,
    }


def local_queue(view: views.LocalQueue, status: QueueStatus, now: datetime) -> dict[str, Any]:
    """Status of a LocalQueue."""
    return {
        **_common(view, view.status, status, now),
        "flavorsReservation": _flavors(status.reservation, None),
        "flavorsUsage": _flavors(status.usage, None),
        "reservingWorkloads": status.reserving,
    }


class Throttle:
    """Which statuses are to be written, each at most once in an interval.

    Times are seconds of the monotonic clock.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._dirty: dict[QueueLane, None] = {}
        self._next: dict[QueueLane, float] = {}

    def mark(self, key: QueueLane) -> None:
        """The status may have changed."""
        self._dirty[key] = None

    def forget(self, key: QueueLane) -> None:
        """The object is gone."""
        self._dirty.pop(key, None)
        self._next.pop(key, None)

    def take_due(self, now: float) -> list[QueueLane]:
        """Marked keys whose interval is over; they are unmarked."""
        due = [key for key in self._dirty if self._next.get(key, 0.0) <= now]
        for key in due:
            del self._dirty[key]
            self._next[key] = now + self._interval
        return due

    def next_due(self) -> float | None:
        """When `take_due` has something; None when nothing is marked."""
        return min((self._next.get(key, 0.0) for key in self._dirty), default=None)


def _common(
    view: views.Object,
    found: views.QueueStatus,
    status: QueueStatus,
    now: datetime,
    about_gpus: Iterable[views.Condition] = (),
) -> dict[str, Any]:
    active = conditions.make(
        conditions.ACTIVE,
        status=status.active,
        reason=status.reason,
        message=status.message,
        now=now,
        generation=view.metadata.generation,
    )
    changes = [active, *about_gpus]
    known = {one.type for one in changes}
    kept = [
        one for one in found.conditions or () if one.type not in _ABOUT_GPUS or one.type in known
    ]
    return {
        "conditions": conditions.to_wire(conditions.merge(kept, *changes)),
        "pendingWorkloads": status.pending,
        "admittedWorkloads": status.admitted,
    }


def _flavors(
    totals: Mapping[FlavorResource, int], borrowed: Mapping[FlavorResource, int] | None
) -> list[dict[str, Any]]:
    """Totals by flavor in their order, resources of a flavor sorted by name."""
    by_flavor: dict[names.FlavorName, list[FlavorResource]] = {}
    for pair in totals:
        by_flavor.setdefault(pair.flavor, []).append(pair)
    return [
        {
            "name": flavor,
            "resources": [_resource(pair, totals, borrowed) for pair in sorted(pairs)],
        }
        for flavor, pairs in by_flavor.items()
    ]


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
