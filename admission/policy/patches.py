"""JSON Patch (RFC 6902) operations, built by hand: diffing two pods costs 300 times as much."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Op = Literal["add", "remove", "replace"]


class Operation(TypedDict, total=False):
    """One operation; ``value`` is absent from a removal."""

    op: Op
    path: str
    value: Any


def pointer(*steps: str | int) -> str:
    """The JSON Pointer that descends through keys and list positions."""
    return "".join(f"/{escape(str(step))}" for step in steps)


def escape(key: str) -> str:
    """A key as one reference token of a pointer."""
    return key.replace("~", "~0").replace("/", "~1")


class PatchBuilder:
    """Collects operations against one document that is not at hand, only described.

    Each method takes what stands at the path now; None says that it is absent or null, and the
    operation then creates it, because adding below an absent parent fails the whole admission. A
    path may be handed over once: a second call would describe what the first has changed.
    """

    def __init__(self) -> None:
        self._operations: list[Operation] = []

    def operations(self) -> tuple[Operation, ...]:
        """The operations in the order in which they apply."""
        return tuple(self._operations)

    def put(self, path: str, value: Any) -> None:
        """Sets the value; its parent exists."""
        self._operations.append({"op": "add", "path": path, "value": value})

    def remove(self, path: str) -> None:
        """Removes a member that exists."""
        self._operations.append({"op": "remove", "path": path})

    def merge(
        self, path: str, present: Mapping[str, Any] | None, wanted: Mapping[str, Any]
    ) -> None:
        """Sets members of an object and leaves its other members; equal ones cost nothing."""
        if present is None:
            if wanted:
                self.put(path, dict(wanted))
            return
        for key, value in wanted.items():
            if key not in present or present[key] != value:
                self.put(f"{path}/{escape(key)}", value)

    def become(
        self, path: str, present: Mapping[str, Any] | None, wanted: Mapping[str, Any]
    ) -> None:
        """Sets members of an object and removes those that are not wanted."""
        for key in present or ():
            if key not in wanted:
                self.remove(f"{path}/{escape(key)}")
        self.merge(path, present, wanted)

    def append(self, path: str, present: Sequence[Any] | None, items: Sequence[Any]) -> None:
        """Adds items behind those of a list."""
        if present is None:
            if items:
                self.put(path, list(items))
            return
        for item in items:
            self.put(f"{path}/-", item)
