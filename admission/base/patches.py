"""Patches as values: the document and how the server is to read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

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
    """A merge patch (RFC 7386): None deletes a member, a list replaces the whole list.

    With ``metadata.resourceVersion`` (or ``uid``) in it, the patch is refused with ConflictError
    when the object is another.
    """
    return Patch(PatchType.MERGE, _ENCODER.encode(document))


def json_patch(operations: Sequence[Mapping[str, Any]]) -> Patch:
    """A JSON patch (RFC 6902): all operations or none; a failed ``test`` gives InvalidError."""
    return Patch(PatchType.JSON, _ENCODER.encode(operations))


def strategic(document: Mapping[str, Any]) -> Patch:
    """A strategic merge patch of a built-in kind: lists such as conditions merge by their key.

    It needs no ``resourceVersion`` to leave what others wrote alone; ``metadata.uid`` in it makes
    the server refuse it with InvalidError when the object is another.
    """
    return Patch(PatchType.STRATEGIC, _ENCODER.encode(document))


def apply(document: Mapping[str, Any]) -> Patch:
    """Server-side apply of the fields that we own; names its apiVersion and kind."""
    return Patch(PatchType.APPLY, _ENCODER.encode(document))


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901) to nested members, each escaped.

    ``pointer("metadata", "annotations", "a/b")`` is ``/metadata/annotations/a~1b``.
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def test(path: str, value: object) -> dict[str, Any]:
    """A JSON patch operation that makes the whole patch fail unless the value is equal."""
    return {"op": "test", "path": path, "value": value}


def remove_finalizer(metadata_finalizers: Sequence[str], finalizer: str) -> dict[str, Any]:
    """Merge-patch document that takes one finalizer off; combine it with a resourceVersion."""
    kept = [name for name in metadata_finalizers if name != finalizer]
    return {"metadata": {"finalizers": kept}}


DEFAULT_FIELD_MANAGER: Final = names.FIELD_MANAGER
