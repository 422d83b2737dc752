"""Workloads as last seen, by key, and what reads said of those that are not here."""

from collections.abc import Iterator

from admission.base.names import WorkloadKey
from admission.controller.seeing.object_cache import Observed
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest
from admission.objects.workload import Workload


class WorkloadIndex:
    """All Workloads, whoever owns them.

    Nothing that runs is stopped because a Workload was not seen: whether it exists is asked, and
    then whether its kind does, as at an uninstallation they all vanish with it.
    """

    def __init__(self) -> None:
        self._seen: Observed[WorkloadKey, Workload] = Observed()
        self._not_found: set[WorkloadKey] = set()
        self._absent: set[WorkloadKey] = set()

    def get(self, key: WorkloadKey) -> Workload | None:
        """The Workload as last seen."""
        return self._seen.get(key)

    def __iter__(self) -> Iterator[WorkloadKey]:
        """All keys, in the order in which they were first seen; changes meanwhile do no harm."""
        return iter(self._seen)

    def on_update(self, workload: Workload) -> WorkloadKey | None:
        """Takes a sight of a Workload; None if it was an old one."""
        key = workload.key()
        if not self._seen.put(key, workload):
            return None
        self.doubt_absence(key)
        return key

    def on_delete(self, key: WorkloadKey, uid: str) -> bool:
        """The Workload is gone; false if it was not here."""
        return self._seen.remove(key, uid)

    def ask_absence(self, key: WorkloadKey, name: str = "") -> ApiRequest | None:
        """Return what to read before something that runs is stopped for want of its Workload.

        None when it is certain that the Workload is gone though its kind is there. ``name`` is
        that of a Workload of another name than the key's, which the owner names.
        """
        if key in self._absent:
            return None
        if key in self._not_found:
            return api_requests.find_kind(key)
        return api_requests.find_workload(key, name)

    def note_not_found(self, key: WorkloadKey) -> None:
        """A read found no Workload; whether the kind still exists is to be asked next."""
        self._not_found.add(key)

    def note_kind(self, key: WorkloadKey, *, exists: bool) -> None:
        """A read said whether the kind exists; without it nothing is certain."""
        if exists:
            self._absent.add(key)
        else:
            self._not_found.discard(key)

    def doubt_absence(self, key: WorkloadKey) -> None:
        """The Workload of a key, or the one that its owner names, is there, or may be again."""
        self._absent.discard(key)
        self._not_found.discard(key)
