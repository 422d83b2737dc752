"""Applies patches to documents."""

from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from admission.base.patches import Patch, PatchType
from admission.kube import errors
from admission.kube.api import Document
from admission.sandbox.embedded import refusals


def check(patch: Patch) -> None:
    """Raise if the patch is a server-side apply.

    Raises:
        ApiError: 415.
    """
    if patch.type is PatchType.APPLY:
        raise errors.make(
            415,
            "the embedded store does not support server-side apply; use a merge or JSON patch",
            reason="UnsupportedMediaType",
        )


def apply(patch: Patch, document: Document) -> Document:
    """Return the patched document; the given one may be changed in place.

    Raises:
        ApiError: the patch is malformed or does not apply.
    """
    body = _decode(patch.body)
    if patch.type is PatchType.JSON:
        return _json(document, body)
    if not isinstance(body, dict):
        raise refusals.bad_request("error decoding patch: a merge patch must be a JSON object")
    if patch.type is PatchType.STRATEGIC:
        return _strategic(document, body)
    merged: Document = merge(document, body)
    return merged


def merge(target: Any, change: Any) -> Any:
    """Return the document merged by RFC 7386: null deletes, objects merge, the rest replaces."""
    if not isinstance(change, dict):
        return change
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _strategic(document: Document, change: Document) -> Document:
    """Merges the conditions of a pod by their type, and all else as a merge patch does.

    Raises:
        ApiError: 415, where the patch has another list: its merge key is not known here.
    """
    status = dict(change.get("status") or {})
    conditions = status.pop("conditions", ())
    rest = {**change, "status": status}
    if document.get("kind") != "Pod" or _has_list(rest):
        raise errors.make(
            415,
            "the embedded store merges the conditions of pods only; use a merge or JSON patch",
            reason="UnsupportedMediaType",
        )
    merged: Document = merge(document, rest)
    by_type = {
        condition["type"]: condition
        for condition in (merged.get("status") or {}).get("conditions") or ()
    }
    for condition in conditions:
        by_type[condition["type"]] = merge(by_type.get(condition["type"]), condition)
    if by_type:
        merged["status"]["conditions"] = list(by_type.values())
    return merged


def _has_list(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_list, value.values()))
    return isinstance(value, list)


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise refusals.bad_request(f"error decoding patch: {error}") from error


def _json(document: Document, operations: Any) -> Document:
    if not isinstance(operations, list):
        raise refusals.bad_request("error decoding patch: a JSON patch must be a JSON array")
    try:
        patched: Document = jsonpatch.apply_patch(document, operations, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise refusals.unprocessable() from error
    return patched
