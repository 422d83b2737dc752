"""Workloads that cannot be read whole: what they hold stays held, and nothing else is done.

They are quarantined only as long as no version of them could be read; one that could stays as it
was last read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from admission.base import events
from admission.base.events import Events
from admission.base.names import WorkloadKey
from admission.controller.scheduler import Scheduler
from admission.controller.seeing.informers import Change
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.kube import decoding, errors
from admission.kube.api import Undecodable
from admission.kube.reflector import Replaced
from admission.objects import views
from admission.objects.workload import HeldWorkload, Workload


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A watch saw a Workload that cannot be decoded."""

    found: Undecodable


class Quarantine:
    """The Workloads that cannot be decoded, by key."""

    def __init__(self, scheduling: Scheduler, workloads: WorkloadIndex, events: Events) -> None:
        """Prepares it with nobody inside.

        Args:
            scheduling: is told what they hold.
            workloads: all that could be read.
            events: takes events about them.
        """
        self._scheduling = scheduling
        self._workloads = workloads
        self._events = events
        self._versions: dict[WorkloadKey, str] = {}

    def __contains__(self, key: object) -> bool:
        """Return whether the Workload exists and cannot be read."""
        return key in self._versions

    def __iter__(self) -> Iterator[WorkloadKey]:
        """Return the keys of all."""
        return iter(tuple(self._versions))

    def on_update(self, found: Undecodable) -> None:
        """Take a Workload that cannot be decoded; report it once per version."""
        key = WorkloadKey(found.namespace, found.name)
        known = self._versions.get(key)
        if not found.name or found.deleted or self._workloads.get(key) is not None:
            return
        self._versions[key] = found.resource_version
        held = _held(found)
        if held is not None:
            self._scheduling.hold(held, stays=True)
        if known == found.resource_version:
            return
        holds = held is not None and held.status.admission is not None
        unreadable = events.unreadable(str(found.error), holds=holds)
        self._events.event(_reference(key, held), unreadable)

    def release(self, key: WorkloadKey) -> None:
        """Release a Workload that could be read."""
        self._versions.pop(key, None)

    def listed(self, change: Change[Any]) -> tuple[WorkloadKey, ...]:
        """Take a change after it was applied; return those that are gone for sure."""
        if not isinstance(change, Replaced):
            return ()
        there = {WorkloadKey(one.namespace, one.name) for one in change.undecodable}
        gone = tuple(key for key in self._versions if key not in there)
        for key in gone:
            self.release(key)
            self._scheduling.on_delete(key)
        return gone


def _held(found: Undecodable) -> Workload | None:
    """Return the parts of a Workload that can be read.

    Return None if that does not even tell whether it holds quota.
    """
    try:
        return decoding.one(found.raw, HeldWorkload).workload()
    except errors.DecodeError:
        return None


def _reference(key: WorkloadKey, held: Workload | None) -> dict[str, str]:
    metadata = views.ObjectMeta(namespace=key.namespace, name=key.name)
    return api_requests.workload_reference(held or Workload(metadata=metadata))
