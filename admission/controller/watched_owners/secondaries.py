"""Objects that the controllers of owners make of them, as last seen; see `Secondary`."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple

from admission.base.names import WorkloadKey
from admission.controller.seeing.object_cache import ObjectCache, version
from admission.objects import views
from admission.owners.framework import Document, Kind, Secondary, View


class OwnerOfSecondary(NamedTuple):
    """The owner that an object names as its controller.

    Attributes:
        key: the key that its Workload has, or would have; it may be that of another owner.
        uid: of the owner.
    """

    key: WorkloadKey
    uid: str


class Secondaries(Generic[View, Document]):
    """What is kept of the objects that are made of owners of one kind, by their own UID."""

    def __init__(self, declared: Secondary[View, Document], kind: Kind) -> None:
        """Prepare an empty store.

        Args:
            declared: the objects.
            kind: of their owners.
        """
        self._declared = declared
        self._kind = kind
        self._objects: ObjectCache[str, views.Object] = ObjectCache()
        self._by_owner = self._objects.index(self._owners_of)
        self._gone: set[str] = set()
        """UIDs of objects that count though they are gone, until another is made."""

    def _owners_of(self, _: str, secondary: views.Object) -> tuple[str, ...]:
        """Return the UID of the owner of an object."""
        owner = secondary.metadata.controller()
        return (owner.uid,) if owner is not None and self._kind.is_of(owner) else ()

    def joined(self, owner: View | Document) -> Document:
        """Return an owner with what its objects tell."""
        secondaries = self._of(owner.metadata.uid)
        return self._declared.joined(owner, tuple(secondaries))

    def _of(self, owner_uid: str) -> list[views.Object]:
        """Return what is kept of the objects of an owner, in the order of their names."""
        uids = self._by_owner.keys(owner_uid)
        secondaries = (self._objects.get(uid) for uid in uids)
        return sorted(filter(None, secondaries), key=lambda secondary: secondary.metadata.name)

    def on_update(self, document: Any) -> tuple[OwnerOfSecondary, ...]:
        """Take an object, and return the owners to read again.

        Raises:
            msgspec.ValidationError: it is not one of its kind.
        """
        uid = document.metadata.uid
        before = self._objects.get(uid)
        latest = self._latest(document) or before
        if latest is not None and version(document) <= version(latest):
            return ()
        if not self._objects.put(uid, self._declared.read(document, latest)):
            return ()
        self._gone.discard(uid)
        if latest is not None and latest.metadata.uid != uid:
            self._forget(latest)
        return self._owners(before, document)

    def _latest(self, document: views.Object) -> views.Object | None:
        """Return what an object takes the place of, where each takes that of the one before it."""
        owner = document.metadata.controller()
        if owner is None or not self._declared.is_replaced:
            return None
        return next(iter(self._of(owner.uid)), None)

    def on_delete(
        self, gone: views.Object, has: Callable[[OwnerOfSecondary], bool]
    ) -> tuple[OwnerOfSecondary, ...]:
        """Take that an object is gone, and return the owners to read again.

        Args:
            gone: what is remembered of it.
            has: returns whether an owner is there.
        """
        secondary = self._objects.get(gone.metadata.uid)
        if secondary is None:
            return ()
        owners = self._owners(secondary)
        if self._declared.is_replaced and any(map(has, owners)):
            self._gone.add(gone.metadata.uid)
            return ()
        self._forget(secondary)
        return owners

    def forget_owner(self, uid: str) -> None:
        """Take that an owner is gone, and forget those of its objects that are gone, too."""
        for secondary in self._of(uid):
            if secondary.metadata.uid in self._gone:
                self._forget(secondary)

    def _forget(self, secondary: views.Object) -> None:
        """Forget an object; the watch is by a label, so a later version may be seen again."""
        uid = secondary.metadata.uid
        self._objects.remove(uid, uid, secondary)
        self._gone.discard(uid)

    def _owners(self, *secondaries: views.Object | None) -> tuple[OwnerOfSecondary, ...]:
        """Return the owners of objects, each once."""
        owners: dict[OwnerOfSecondary, None] = {}
        for secondary in secondaries:
            owner = None if secondary is None else secondary.metadata.controller()
            if secondary is not None and owner is not None and self._kind.is_of(owner):
                namespace = secondary.metadata.namespace
                metadata = views.ObjectMeta(namespace=namespace, name=owner.name, uid=owner.uid)
                key = self._kind.key_of(views.Object(metadata=metadata))
                owners[OwnerOfSecondary(key, owner.uid)] = None
        return tuple(owners)
