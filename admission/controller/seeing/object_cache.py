"""A cache in which neither an older event nor a late answer replaces a newer version.

An object reaches the controller twice: by the watch, and as the answer to its own write. The two
arrive in any order. ``resourceVersion`` orders the versions of one object; a deleted object stays
deleted for its uid; one that left a watch by label may come again with a later version.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from typing_extensions import override

from admission.base.tables import Index, Table, UniqueIndex
from admission.objects import views

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=views.Object)
Group = TypeVar("Group", bound=Hashable)

_TOMBSTONES: Final = 10_000


class ObjectCache(Generic[Key, Value]):
    """Objects of one kind by key."""

    def __init__(self) -> None:
        self._objects: Table[Key, Value] = Table()
        self._by_key = self._objects.by_key
        self._deleted: OrderedDict[str, float] = OrderedDict()

    @property
    def by_key(self) -> Mapping[Key, Value]:
        """Return all objects by key, to read; it follows every change."""
        return self._by_key

    def index(self, groups_of: Callable[[Key, Value], Iterable[Group]]) -> Index[Group, Key]:
        """Declare an index, before there is any object; see `Table.index`."""
        return self._objects.index(groups_of)

    def unique(self, group_of: Callable[[Key, Value], Group]) -> UniqueIndex[Group, Key]:
        """Declare an index, before there is any object; see `Table.unique`."""
        return self._objects.unique(group_of)

    def get(self, key: Key) -> Value | None:
        """Return the object as last seen."""
        return self._by_key.get(key)

    def put(self, key: Key, value: Value) -> bool:
        """Store a version; return false if a newer one is known, also of another of its key."""
        if version(value) <= self._deleted.get(value.metadata.uid, -1):
            return False
        before = self._by_key.get(key)
        same_object = before is not None and before.metadata.uid == value.metadata.uid
        if before is not None and version(value) < version(before):
            return False
        if before is not None and same_object and version(value) == version(before):
            return False
        self._objects.put(key, value)
        return True

    def reread(self, key: Key, value: Value) -> None:
        """Store another reading of the version that is known."""
        self._objects.put(key, value)

    def remove(self, key: Key, uid: str, last: views.Object | None = None) -> bool:
        """Remove the object with that uid; return false if it was not here.

        Args:
            key: the object's key.
            uid: its uid.
            last: its newest version that is not looked after, where a later one may be again:
                watches by label lose an object that is still there. None: it is gone for good.
        """
        gone = math.inf if last is None else version(last)
        self._deleted[uid] = max(self._deleted.pop(uid, -1), gone)
        while len(self._deleted) > _TOMBSTONES:
            self._deleted.popitem(last=False)
        before = self._objects.get(key)
        if before is None or before.metadata.uid != uid:
            return False
        self._objects.pop(key)
        return True

    def __iter__(self) -> Iterator[Key]:
        """All keys, in the order in which they were first seen; changes meanwhile do no harm."""
        return iter(tuple(self._objects))

    def __len__(self) -> int:
        return len(self._objects)


NamedCache: TypeAlias = tuple[ObjectCache[Any, Any], UniqueIndex[tuple[str, str], Any]]
"""A cache, and its declared index by namespace and name."""


class NamedObjects(Mapping[tuple[str, str], views.Object]):
    """Objects of some caches by namespace and name, to read; no name is in two of them."""

    def __init__(self, *caches: NamedCache) -> None:
        """Look into caches.

        Args:
            caches: each with its declared index by namespace and name.
        """
        self._caches = caches

    @override
    def __getitem__(self, name: tuple[str, str]) -> views.Object:
        for cache, named in self._caches:
            value = cache.get(named.get(name))
            if value is not None:
                return cast("views.Object", value)
        raise KeyError(name)

    @override
    def __iter__(self) -> Iterator[tuple[str, str]]:
        return chain.from_iterable(named.groups() for _, named in self._caches)

    @override
    def __len__(self) -> int:
        return sum(len(named) for _, named in self._caches)


def version(value: views.Object) -> int:
    """Return the resourceVersion as a number.

    Kubernetes promises comparable resourceVersions for one resource since 1.35 and etcd-backed
    servers have always had them; a text that is no number counts as newest, so it is never lost.
    """
    text = value.metadata.resource_version
    return int(text) if text.isdecimal() else 2**63
