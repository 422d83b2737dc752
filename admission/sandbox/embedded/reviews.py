"""The interface for admission webhooks: who reviews a write, and what the answer does.

Source: k8s.io/apiserver pkg/admission/plugin/webhook, admission.k8s.io/v1.
"""

import base64
import binascii
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from admission.base import patches
from admission.base.patches import Patch
from admission.kube import errors
from admission.kube.api import Document
from admission.kube.resources import Resource
from admission.sandbox.embedded import patching

_REVIEW: Final = "admission.k8s.io/v1"


class WriteOperation(Enum):
    """What a write does; the value is the wire text."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


Call: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Sends an AdmissionReview with a request and returns the one with the response."""

Match: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Whether an AdmissionRequest is sent at all: matchConditions without CEL."""


def _always(_request: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookCaller:
    """One webhook.

    Attributes:
        name: the name that messages show.
        resource: the resource whose writes it reviews, without subresources.
        operations: the operations that it reviews.
        mutating: may change the object; else it only allows or denies.
        call: asks it. An exception counts as a failed call and refuses the write.
        match: whether a request concerns it.
    """

    name: str
    resource: Resource
    operations: frozenset[WriteOperation] = frozenset(
        {WriteOperation.CREATE, WriteOperation.UPDATE}
    )
    mutating: bool
    call: Call
    match: Match = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write under review; ``object`` is None for a deletion, ``old`` for a creation."""

    resource: Resource
    operation: WriteOperation
    namespace: str
    name: str
    user: str
    old: Document | None
    dry_run: bool = False

    def request(self, obj: Document | None) -> dict[str, Any]:
        """Return the AdmissionRequest for the object as it is now."""
        kind = {
            "group": self.resource.group,
            "version": self.resource.version,
            "kind": self.resource.kind,
        }
        resource = {**kind, "resource": self.resource.plural}
        del resource["kind"]
        return {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation.value,
            "userInfo": {"username": self.user, "groups": ["system:authenticated"]},
            "object": obj,
            "oldObject": self.old,
            "dryRun": self.dry_run,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": _OPTIONS[self.operation]},
        }


_OPTIONS: Final = {
    WriteOperation.CREATE: "CreateOptions",
    WriteOperation.UPDATE: "UpdateOptions",
    WriteOperation.DELETE: "DeleteOptions",
}


def run(
    reviewers: Iterable[WebhookCaller],
    write: Write,
    obj: Document | None,
    *,
    mutating: bool,
    warn: Callable[[str], None],
) -> Document | None:
    """Ask every reviewer of one phase in order; return the object as they leave it.

    Raises:
        ApiError: one denied (its own status code, 403 by default) or could not be asked (500).
    """
    for reviewer in reviewers:
        if reviewer.mutating is not mutating or reviewer.resource != write.resource:
            continue
        request = write.request(obj)
        if write.operation in reviewer.operations and reviewer.match(request):
            obj = _one(reviewer, request, obj, warn)
    return obj


def _one(
    reviewer: WebhookCaller,
    request: dict[str, Any],
    obj: Document | None,
    warn: Callable[[str], None],
) -> Document | None:
    response = _ask(reviewer, request)
    for warning in response.get("warnings") or ():
        warn(warning)
    if not response.get("allowed"):
        raise _denial(reviewer, response.get("status") or {})
    if not response.get("patch") or obj is None:
        return obj
    if not reviewer.mutating:
        raise _failed(reviewer, "a validating webhook must not return a patch")
    try:
        body = base64.b64decode(response["patch"], validate=True)
    except binascii.Error as error:
        raise _failed(reviewer, f"the patch is not base64: {error}") from error
    return patching.apply(Patch(patches.PatchType.JSON, body), obj)


def _ask(reviewer: WebhookCaller, request: dict[str, Any]) -> Mapping[str, Any]:
    review = {"apiVersion": _REVIEW, "kind": "AdmissionReview", "request": request}
    try:
        answer = reviewer.call(review)
    except Exception as error:
        raise _failed(reviewer, str(error)) from error
    response = answer.get("response") or {}
    if response.get("uid") != request["uid"]:
        raise _failed(reviewer, f"expected response.uid {request['uid']!r}")
    part: Mapping[str, Any] = response
    return part


def _denial(reviewer: WebhookCaller, status: Mapping[str, Any]) -> errors.ApiError:
    code = status.get("code") or 403
    text = status.get("message") or status.get("reason") or ""
    why = f"denied the request: {text}" if text else "denied the request without explanation"
    return errors.make(
        code if code >= 400 else 403,  # noqa: PLR2004  # anything below is no refusal
        f'admission webhook "{reviewer.name}" {why}',
        reason=status.get("reason", ""),
    )


def _failed(reviewer: WebhookCaller, why: str) -> errors.ApiError:
    return errors.make(
        500, f'Internal error occurred: failed calling webhook "{reviewer.name}": {why}'
    )
