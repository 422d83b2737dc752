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

    def on_update(self, undecodable: Undecodable) -> None:
        """Take a Workload that cannot be decoded; report it once per version."""
        key = WorkloadKey(undecodable.namespace, undecodable.name)
        version_known = self._versions.get(key)
        if not undecodable.name or undecodable.deleted or self._workloads.get(key) is not None:
            return
        self._versions[key] = undecodable.resource_version
        workload = _held(undecodable)
        if workload is not None:
            self._scheduling.hold(workload, stays=True)
        if version_known == undecodable.resource_version:
            return
        holds = workload is not None and workload.status.admission is not None
        unreadable = events.unreadable(str(undecodable.error), holds=holds)
        self._events.event(_reference(key, workload), unreadable)

    def release(self, key: WorkloadKey) -> None:
        """Release a Workload that could be read."""
        self._versions.pop(key, None)

    def listed(self, change: Change[Any]) -> tuple[WorkloadKey, ...]:
        """Take a change after it was applied; return those that are gone for sure."""
        if not isinstance(change, Replaced):
            return ()
        unreadable = {
            WorkloadKey(undecodable.namespace, undecodable.name)
            for undecodable in change.undecodable
        }
        gone = tuple(key for key in self._versions if key not in unreadable)
        for key in gone:
            self.release(key)
            self._scheduling.on_delete(key)
        return gone


def _held(undecodable: Undecodable) -> Workload | None:
    """Return the parts of a Workload that can be read.

    Return None if that does not even tell whether it holds quota.
    """
    try:
        return decoding.one(undecodable.raw, HeldWorkload).workload()
    except errors.DecodeError:
        return None


def _reference(key: WorkloadKey, workload: Workload | None) -> dict[str, str]:
    metadata = views.ObjectMeta(namespace=key.namespace, name=key.name)
    return api_requests.workload_reference(workload or Workload(metadata=metadata))
