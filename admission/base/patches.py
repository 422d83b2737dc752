"""Patches as values: the document and how the server is to read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypedDict

import msgspec

from admission.base import names


class PatchType(Enum):
    """How a patch is read; the value is its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Patch:
    """A change to one object.

    Attributes:
        type: how the body is read.
        body: the encoded JSON document; JSON is YAML, so this suits APPLY too.
    """

    type: PatchType
    body: bytes


_ENCODER: Final = msgspec.json.Encoder()


def merge(document: Mapping[str, Any]) -> Patch:
    """Return a merge patch (RFC 7386): None deletes a member, a list replaces the whole list.

    With ``metadata.resourceVersion`` (or ``uid``) in it, the patch is refused with ConflictError
    when the object is another.
    """
    return Patch(PatchType.MERGE, _ENCODER.encode(document))


def json_patch(operations: Sequence[Mapping[str, Any]]) -> Patch:
    """Return a JSON patch (RFC 6902): all or nothing; a failed ``test`` gives InvalidError."""
    return Patch(PatchType.JSON, _ENCODER.encode(operations))


def strategic(document: Mapping[str, Any]) -> Patch:
    """Return a strategic merge patch of a built-in kind: lists such as conditions merge by key.

    It needs no ``resourceVersion`` to leave what others wrote alone; ``metadata.uid`` in it makes
    the server refuse it with InvalidError when the object is another.
    """
    return Patch(PatchType.STRATEGIC, _ENCODER.encode(document))


def apply(document: Mapping[str, Any]) -> Patch:
    """Return the server-side apply of the fields that we own; names its apiVersion and kind."""
    return Patch(PatchType.APPLY, _ENCODER.encode(document))


def version_of(patch: Patch) -> str:
    """Return the ``resourceVersion`` without which a patch has no effect; empty for any."""
    body = msgspec.json.decode(patch.body)
    if patch.type is not PatchType.JSON:
        return str(body.get("metadata", {}).get("resourceVersion", ""))
    path = pointer("metadata", "resourceVersion")
    return next(
        (str(operation.get("value", "")) for operation in body if operation["path"] == path), ""
    )


def pointer(*parts: str | int) -> str:
    """Return a JSON pointer (RFC 6901) to nested members, each escaped.

    ``pointer("metadata", "annotations", "a/b")`` is ``/metadata/annotations/a~1b``.
    """
    return "".join(f"/{_escape(str(part))}" for part in parts)


def _escape(key: str) -> str:
    """A key as one reference token of a pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def test(path: str, value: object) -> dict[str, Any]:
    """Return a JSON patch operation that fails the whole patch unless the value is equal."""
    return {"op": "test", "path": path, "value": value}


def remove_finalizer(metadata_finalizers: Sequence[str], finalizer: str) -> dict[str, Any]:
    """Return a merge patch that removes one finalizer; combine it with a resourceVersion."""
    kept = [name for name in metadata_finalizers if name != finalizer]
    return {"metadata": {"finalizers": kept}}


DEFAULT_FIELD_MANAGER: Final = names.FIELD_MANAGER

# --------------------------------------------------------------------- JSON Patch, built by hand

Op = Literal["add", "remove", "replace"]


class Operation(TypedDict, total=False):
    """One operation (RFC 6902); ``value`` is absent from a removal."""

    op: Op
    path: str
    value: Any


class PatchBuilder:
    """Collects operations against one document that is not at hand, only described.

    Comparing two pods to find the operations costs 300 times as much.

    Each method takes what stands at the path now; None says that it is absent or null, and the
    operation then creates it, because adding below an absent parent fails the whole admission. A
    path may be handed over once: a second call would describe what the first has changed.
    """

    def __init__(self) -> None:
        self._operations: list[Operation] = []

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations in the order in which they apply."""
        return tuple(self._operations)

    def put(self, path: str, value: Any) -> None:
        """Set the value; its parent exists."""
        self._operations.append({"op": "add", "path": path, "value": value})

    def remove(self, path: str) -> None:
        """Remove a member that exists."""
        self._operations.append({"op": "remove", "path": path})

    def merge(
        self, path: str, present: Mapping[str, Any] | None, desired: Mapping[str, Any]
    ) -> None:
        """Set members of an object and leave its other members; equal ones cost nothing."""
        if present is None:
            if desired:
                self.put(path, dict(desired))
            return
        for key, value in desired.items():
            if key not in present or present[key] != value:
                self.put(f"{path}/{_escape(key)}", value)

    def become(
        self, path: str, present: Mapping[str, Any] | None, desired: Mapping[str, Any]
    ) -> None:
        """Set members of an object and remove those that are not wanted."""
        for key in present or ():
            if key not in desired:
                self.remove(f"{path}/{_escape(key)}")
        self.merge(path, present, desired)

    def append(self, path: str, present: Sequence[Any] | None, items: Sequence[Any]) -> None:
        """Add items behind those of a list."""
        if present is None:
            if items:
                self.put(path, list(items))
            return
        for item in items:
            self.put(f"{path}/-", item)
