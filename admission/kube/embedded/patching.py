"""Applies patches to documents."""

from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from admission.kube import errors
from admission.kube.api import Document
from admission.kube.embedded import refusals
from admission.kube.patches import Patch, PatchType


def check(patch: Patch) -> None:
    """Refuses server-side apply.

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
    """The patched document; the given one may be changed in place.

    Raises:
        ApiError: the patch is malformed or does not apply.
    """
    body = _decode(patch.body)
    if patch.type is PatchType.JSON:
        return _json(document, body)
    if not isinstance(body, dict):
        raise refusals.bad_request("error decoding patch: a merge patch must be a JSON object")
    merged: Document = merge(document, body)
    return merged


def merge(target: Any, change: Any) -> Any:
    """RFC 7386: null deletes, objects merge, everything else replaces."""
    if not isinstance(change, dict):
        return change
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


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
