"""What the API server is told not to do: change an object that is another than the one seen.

A decision is about one version of one object. Between it and its request the object may have
changed, or another one of its name may have taken its place; a request without a precondition
would change that one instead.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from admission.base.patches import Patch, PatchType
from admission.controller.writing.api_requests import ApiRequest, Verb, WritePurpose

OF_ANY_VERSION: Final = frozenset(
    {WritePurpose.MARK_OWNER, WritePurpose.ANNOUNCE_STOP, WritePurpose.STOP_HOLDER}
)
"""Requests that hold for any version of a pod, as its kubelet may write at any time."""


def lacking(request: ApiRequest) -> set[str]:
    """Return the fields of ``metadata`` that a request should be bound to and is not."""
    match request.verb:
        case Verb.READ | Verb.CREATE:
            return set()
        case Verb.DELETE:
            return set() if request.uid else {"uid"}
        case Verb.REPLACE:
            assert request.document is not None
            return {"uid", "resourceVersion"} - _given(request.document["metadata"])
        case Verb.PATCH:
            assert request.patch is not None
            bound = {"uid"} if request.operation in OF_ANY_VERSION else {"uid", "resourceVersion"}
            return bound - bound_to(request.patch)


def bound_to(patch: Patch) -> set[str]:
    """Return which of ``uid`` and ``resourceVersion`` a patch is refused for if it is another."""
    body = json.loads(patch.body)
    if patch.type is not PatchType.JSON:
        return _given(body.get("metadata", {}))
    parent = "/metadata/"
    return {
        operation["path"].removeprefix(parent)
        for operation in body
        if operation["path"].startswith(parent) and operation.get("value")
    }


def _given(metadata: Mapping[str, Any]) -> set[str]:
    return {key for key in ("uid", "resourceVersion") if metadata.get(key)}
