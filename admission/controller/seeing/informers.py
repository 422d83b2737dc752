"""Keeps the state of one kind in step with its watch."""

from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from admission.base import logs
from admission.base.errors import AdmissionError
from admission.kube.reflector import Arrived, Deleted, Replaced, Upserted
from admission.objects import views

Value = TypeVar("Value", bound=views.Object)

_NOTHING_STORED: Final[Mapping[Any, views.Object]] = MappingProxyType({})

Change: TypeAlias = Arrived[Value] | Replaced[Value] | Upserted[Value] | Deleted[Value]


def _ignore(*_: object) -> None:
    """Only the log tells."""


def key_of(value: views.Object) -> tuple[str, str]:
    """Return namespace and name."""
    return value.metadata.namespace, value.metadata.name


class Informer(Generic[Value]):
    """Passes on changes of one kind object by object; of a relist, only the differences.

    Keeps only the metadata of each, to know what a relist left out, and not even that where
    somebody keeps the objects by namespace and name.

    An object that cannot be taken in (a value that breaks a rule, though the API server stored
    it) is logged, told of and left out; everything else goes on.

    Attributes:
        on_left_out: told of an object that was left out, and why.
        on_reverted: told that a list shows an object in an earlier state than the one known.
        taken: of a list that is being taken, how many objects were; any thread may look.
        listed: how many objects that list has; 0 while there is none.
        is_served: whether the kind was served when it was listed last.
    """

    def __init__(
        self,
        kind: str,
        put: Callable[[Value], None],
        drop: Callable[[views.Object], None],
        *,
        slim: bool = False,
        stored: Mapping[Any, views.Object] = _NOTHING_STORED,
    ) -> None:
        """Prepare an informer that has seen nothing.

        Args:
            kind: name of the kind, for the log.
            put: takes an object that is new or changed.
            drop: takes what is remembered of an object that is gone.
            slim: remember only name and uid, of many objects with much metadata.
            stored: what ``put`` has kept by namespace and name, until ``drop`` is told; what is
                there is not remembered a second time.
        """
        self._kind = kind
        self._put = put
        self._drop = drop
        self._slim = slim
        self._stored = stored
        self._known: dict[tuple[str, str], views.Object] = {}
        """What is not stored, as nobody stores it or it was left out."""
        self._arrived: dict[tuple[str, str], Value] = {}
        """What was taken of a list that is still being read."""
        self._log = logs.get("mirror")
        self.synced = self.is_served = False
        self.taken = self.listed = 0
        self.on_left_out: Callable[[views.Object, str], None] = _ignore
        self.on_reverted: Callable[[], None] = _ignore

    def apply(self, change: Change[Value]) -> None:
        """Take a change."""
        if isinstance(change, Replaced):
            unreadable = {
                (undecodable.namespace, undecodable.name) for undecodable in change.undecodable
            }
            self._replace(change.items, unreadable, change.version)
            self.synced, self.is_served = True, bool(change.version)
        elif isinstance(change, Arrived):
            for value in change.items:
                self._arrived[key_of(value)] = value
                self._set(value)
        elif isinstance(change, Upserted):
            self._set(change.object)
        else:
            self._remove(change.object)

    def forget_sync(self) -> None:
        """Count as not synced until the next whole list."""
        self.synced = False

    def on_update(self, value: Value) -> None:
        """Take an object from the answer to a request, as if it had been watched."""
        self._set(value)

    def _replace(
        self, items: Iterable[Value], unreadable: Container[tuple[str, str]], version: str
    ) -> None:
        """Takes a whole list; what cannot be read stays as it was last seen.

        What was seen as the answer to a request may be newer than a list that arrives after it;
        then its absence says nothing, and the watch from that list on tells of it.
        """
        listed = {key_of(value): value for value in items}
        if any(self._is_reverted(value, version) for value in listed.values()):
            self._log.warning("objects went back to an earlier state", kind=self._kind)
            self.on_reverted()
            return
        gone = [
            value
            for key, value in {**self._stored, **self._known}.items()
            if key not in listed and key not in unreadable and not _is_newer(value, version)
        ]
        for value in gone:
            self._known.pop(key_of(value), None)
            self._drop(_as_of(value, version))
        self.listed = len(listed)
        arrived, self._arrived = self._arrived, {}
        for self.taken, (key, value) in enumerate(listed.items()):
            if arrived.get(key) is not value:
                self._set(value)
        self.taken = self.listed = 0

    def _set(self, value: Value) -> None:
        """Takes a sight of an object; of one that has taken another's place both are told.

        An answer may be older than the object that has its name by now; that one stays.
        """
        key = key_of(value)
        before = self._last_of(key)
        if before is not None and before.metadata.uid != value.metadata.uid:
            if _is_newer(before, value.metadata.resource_version):
                return
            self._drop(self._remembered(before))
        self._known[key] = self._remembered(value)
        try:
            self._put(value)
            if key in self._stored:
                del self._known[key]
        except (AdmissionError, msgspec.ValidationError) as error:
            self._log.error("object left out", **self._words(value), error=str(error))
            self.on_left_out(value, str(error))
        except Exception:  # noqa: BLE001  # one odd object must not stop what serves all others
            self._log.exception("object left out", **self._words(value))
            self.on_left_out(value, "it could not be processed; see the controller's log")

    def _last_of(self, key: tuple[str, str]) -> views.Object | None:
        """Return what is known of an object; None if it is not."""
        left_out = self._known.get(key)
        return self._stored.get(key) if left_out is None else left_out

    def _is_reverted(self, listed: Value, version: str) -> bool:
        """Return whether a list that is not older than what is known shows an older state.

        Only an etcd that was restored does so, also one whose versions go on from a later number.
        """
        before = self._last_of(key_of(listed))
        return (
            before is not None
            and before.metadata.uid == listed.metadata.uid
            and _is_newer(before, listed.metadata.resource_version)
            and not _is_newer(before, version)
        )

    def _words(self, value: Value) -> dict[str, str]:
        metadata = value.metadata
        return {"kind": self._kind, "namespace": metadata.namespace, "name": metadata.name}

    def _remembered(self, value: views.Object) -> views.Object:
        metadata = value.metadata
        if not self._slim:
            return views.Object(metadata=metadata)
        identity = views.ObjectMeta(
            namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
        )
        return views.Object(metadata=identity)

    def _remove(self, value: views.Object) -> None:
        """Takes the news that an object is gone; another one may have its name already.

        Its successor is known before the news comes where it was seen in an answer.
        """
        key = key_of(value)
        before = self._last_of(key)
        if before is not None and before.metadata.uid == value.metadata.uid:
            self._known.pop(key, None)
            self._drop(self._remembered(value))


def _as_of(gone: views.Object, version: str) -> views.Object:
    """Return an object with the version of the list that it is not in any more.

    An answer from before that list does not bring it back.
    """
    return views.Object(metadata=msgspec.structs.replace(gone.metadata, resource_version=version))


def _is_newer(value: views.Object, version: str) -> bool:
    """Return whether an object was seen in a state later than a version of its kind."""
    version_known = value.metadata.resource_version
    return version_known.isdecimal() and version.isdecimal() and int(version_known) > int(version)
