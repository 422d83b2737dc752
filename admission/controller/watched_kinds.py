"""Which of the watched kinds were listed, and who takes what is watched."""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

from admission.controller import watched
from admission.controller.seeing.informers import Change, Informer
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners.integrations import Kinds

_IS_SYNCED: Final = attrgetter("synced")


class WatchedKinds:
    """The informer of each kind, and whether all was listed that decisions need.

    Attributes:
        informers: by resource.
        is_reverted: the API server is in an earlier state than what is known.
        selected: resources of which a selected part is watched.
    """

    def __init__(
        self,
        informers: Mapping[Resource, Informer[Any]],
        kinds: Kinds,
        tell_left_out: Callable[[Resource, views.Object, str], None],
    ) -> None:
        """Prepare for lists of all kinds.

        Args:
            informers: by resource.
            kinds: of owners that are served.
            tell_left_out: is told of an object that is ignored, and of the problem.
        """
        self.informers = informers
        self.is_reverted = False
        self.selected = watched.selectors(kinds).keys()
        self._rows = tuple(watched.rows(kinds))
        self._needed = {resource: informers[resource] for resource in watched.awaited(kinds)}
        """The kinds that must be listed, or known not to be served, before any decision."""
        self._unserved: set[Resource] = set()
        """Kinds that were listed, and are not served any more, or were not a while ago."""
        for resource, informer in informers.items():
            informer.on_left_out = partial(tell_left_out, resource)
            informer.on_reverted = self._revert

    def _revert(self) -> None:
        self.is_reverted = True

    @property
    def synced(self) -> bool:
        """Return whether every kind was listed that decisions need; nothing is decided before."""
        return not self.is_reverted and all(map(_IS_SYNCED, self._needed.values()))

    def is_synced(self, resource: Resource) -> bool:
        """Return whether a kind was listed."""
        return self.informers[resource].synced

    def know_surroundings(self) -> bool:
        """Return whether everything was listed that Workloads and pods are judged by."""
        return all(self.informers[resource].synced for resource in watched.SURROUNDINGS)

    def are_only_unserved_lacking(self) -> bool:
        """Return whether only kinds are not listed that are not served any more."""
        lacking = [resource for resource, informer in self._needed.items() if not informer.synced]
        return not self.is_reverted and self._unserved.issuperset(lacking)

    def unready(self) -> str:
        """Return what of the lists that decisions need was not taken yet; from any thread."""
        waiting = []
        for resource, informer in self._needed.items():
            if not informer.synced:
                taken, listed = informer.taken, informer.listed
                waiting.append(
                    f"{resource.plural}{f' ({taken:,} of {listed:,})' if listed else ''}"
                )
        return f"not taken in yet: {', '.join(sorted(waiting))}" if waiting else ""

    def apply(self, resource: Resource, change: Change[Any]) -> None:
        """Take a change of a kind."""
        self.informers[resource].apply(change)

    def on_update(self, resource: Resource, view: views.Object) -> None:
        """Take an object from the answer to a request; this may come before the watch."""
        self.informers[resource].on_update(view)

    def unserved(self, resource: Resource) -> None:
        """Take that a kind is not served any more."""
        self.informers[resource].forget_sync()
        self._unserved.add(resource)

    def list_again(self) -> None:
        """Count every kind as not listed that a leader writes; to optional kinds none writes."""
        for resource in (*watched.WATCHED, *self._rows):
            self.informers[resource].forget_sync()
