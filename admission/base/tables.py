"""Values by key, and which of them belong together in some other way.

A table is told of each value once. What is looked up otherwise than by key is declared as an index
when the table is made, so that a lookup costs what it finds and not what there is.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Group = TypeVar("Group", bound=Hashable)
Part = TypeVar("Part", bound=Hashable)


class Index(Generic[Group, Key]):
    """The keys of a table by group; the table keeps it up to date."""

    def __init__(self, groups_of: Callable[[Key, Any], Iterable[Group]]) -> None:
        self.groups_of = groups_of
        self._members: dict[Group, dict[Key, None]] = {}

    def keys(self, group: Group) -> tuple[Key, ...]:
        """Return the keys of a group, in the order in which they came to it."""
        return tuple(self._members.get(group, ()))

    def count(self, group: Group) -> int:
        """Return the number of keys of a group."""
        return len(self._members.get(group, ()))

    def groups(self) -> Iterable[Group]:
        """Return the groups that have a member."""
        return self._members

    def __contains__(self, group: object) -> bool:
        """Return whether a group has any member."""
        return group in self._members

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._members)

    def add(self, key: Key, groups: Iterable[Group]) -> None:
        """Take a key that belonged to no group."""
        by_group = self._members
        for group in groups:
            members = by_group.get(group)
            if members is None:
                by_group[group] = {key: None}
            else:
                members[key] = None

    def move(self, key: Key, before: Iterable[Group], after: Iterable[Group]) -> None:
        """Take the groups to which a key belongs instead of those before."""
        for group in before:
            members = self._members[group]
            members.pop(key, None)
            if not members:
                del self._members[group]
        self.add(key, after)


class Tally(Generic[Group, Part]):
    """How many values of a table there are, by group and part; the table keeps it up to date."""

    def __init__(self, place_of: Callable[[Any, Any], tuple[Group, Part] | None]) -> None:
        self.place_of = place_of
        self._counts: dict[Group, dict[Part, int]] = {}

    def of(self, group: Group) -> Mapping[Part, int]:
        """Return how many values there are of each part of a group, to read; none of zero."""
        return self._counts.get(group, _NO_COUNTS)

    def groups(self) -> Iterable[Group]:
        """Return the groups of which there is a value."""
        return self._counts

    def __contains__(self, group: object) -> bool:
        """Return whether there is a value of a group."""
        return group in self._counts

    def add(self, place: tuple[Group, Part] | None, sign: int) -> None:
        """Count a value (1), or do not count it any more (-1)."""
        if place is None:
            return
        group, part = place
        counts = self._counts.get(group)
        if counts is None:
            self._counts[group] = {part: sign}
            return
        left = counts.get(part, 0) + sign
        if left:
            counts[part] = left
            return
        del counts[part]
        if not counts:
            del self._counts[group]


_NO_COUNTS: Final[Mapping[Any, int]] = MappingProxyType({})


class UniqueIndex(Generic[Group, Key]):
    """The key of a table by a group that has one at most; the table keeps it up to date.

    Where two keys are of a group nevertheless, the later one counts.
    """

    def __init__(self, group_of: Callable[[Any, Any], Group]) -> None:
        self.group_of = group_of
        self._keys: dict[Group, Key] = {}

    def get(self, group: Group) -> Key | None:
        """Return the key of a group; None for none."""
        return self._keys.get(group)

    def groups(self) -> Iterable[Group]:
        """Return the groups that have a key."""
        return self._keys

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._keys)

    def add(self, key: Key, group: Group) -> None:
        """Take the group of a key."""
        self._keys[group] = key

    def remove(self, key: Key, group: Group) -> None:
        """Take that a key is of a group no more."""
        if self._keys.get(group) == key:
            del self._keys[group]


class Table(Generic[Key, Value]):
    """Values by key, in the order in which the keys came."""

    def __init__(self) -> None:
        self._values: dict[Key, Value] = {}
        self._indexes: list[Index[Any, Key]] = []
        self._tallies: list[Tally[Any, Any]] = []
        self._unique: list[UniqueIndex[Any, Key]] = []

    def index(self, groups_of: Callable[[Key, Value], Iterable[Group]]) -> Index[Group, Key]:
        """Declare an index, before there is any value.

        Args:
            groups_of: returns the groups of a value; it depends on key and value only.
        """
        assert not self._values, "an index is declared before there are values"
        index: Index[Group, Key] = Index(groups_of)
        self._indexes.append(index)
        return index

    def unique(self, group_of: Callable[[Key, Value], Group]) -> UniqueIndex[Group, Key]:
        """Declare an index by what no two values share, before there is any value.

        Args:
            group_of: returns the group of a value; it depends on key and value only.
        """
        assert not self._values, "an index is declared before there are values"
        index: UniqueIndex[Group, Key] = UniqueIndex(group_of)
        self._unique.append(index)
        return index

    def tally(
        self, place_of: Callable[[Key, Value], tuple[Group, Part] | None]
    ) -> Tally[Group, Part]:
        """Declare a tally, before there is any value.

        Args:
            place_of: returns group and part of a value, or None where it is not counted; it
                depends on key and value only.
        """
        assert not self._values, "a tally is declared before there are values"
        tally: Tally[Group, Part] = Tally(place_of)
        self._tallies.append(tally)
        return tally

    def put(self, key: Key, value: Value) -> Value | None:
        """Store a value; return the one before, or None."""
        before = self._values.get(key)
        self._values[key] = value
        if before is None:
            for index in self._indexes:
                index.add(key, index.groups_of(key, value))
            for tally in self._tallies:
                tally.add(tally.place_of(key, value), 1)
            for unique in self._unique:
                unique.add(key, unique.group_of(key, value))
            return None
        for unique in self._unique:
            group, group_now = unique.group_of(key, before), unique.group_of(key, value)
            if group != group_now:
                unique.remove(key, group)
                unique.add(key, group_now)
        for tally in self._tallies:
            was, now = tally.place_of(key, before), tally.place_of(key, value)
            if was != now:
                tally.add(was, -1)
                tally.add(now, 1)
        for index in self._indexes:
            left, joined = index.groups_of(key, before), index.groups_of(key, value)
            if left == joined:
                continue
            left, joined = tuple(dict.fromkeys(left)), tuple(dict.fromkeys(joined))
            if left != joined:
                stays = set(left).intersection(joined)
                index.move(
                    key,
                    [group for group in left if group not in stays],
                    [group for group in joined if group not in stays],
                )
        return before

    def pop(self, key: Key) -> Value | None:
        """Remove a value; return it, or None where there is none."""
        before = self._values.pop(key, None)
        if before is not None:
            for index in self._indexes:
                index.move(key, dict.fromkeys(index.groups_of(key, before)), ())
            for tally in self._tallies:
                tally.add(tally.place_of(key, before), -1)
            for unique in self._unique:
                unique.remove(key, unique.group_of(key, before))
        return before

    @property
    def by_key(self) -> Mapping[Key, Value]:
        """Return all values by key, to read; it follows every change."""
        return self._values

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, or None."""
        return self._values.get(key)

    def __getitem__(self, key: Key) -> Value:
        """Return the value of a key that has one."""
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        """Return whether a key has a value."""
        return key in self._values

    def __iter__(self) -> Iterator[Key]:
        """All keys."""
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
