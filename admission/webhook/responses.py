"""Answers to reviews: pure functions from a decision to the bytes of an AdmissionReview."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from admission.base.patches import Operation
from admission.webhook import decoding

WARNING_MAX: Final = 256
"""Characters of one warning that an API server may cut; kubectl shows no more."""

WARNINGS_MAX: Final = 4096
"""Characters of all warnings of a request that an API server passes on."""

_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    500: "InternalError",
}
_ELLIPSIS: Final = "..."
_encoder = msgspec.json.Encoder()


def allowed(uid: str, warnings: Iterable[str] = ()) -> bytes:
    """Return the answer that the request may go on as it is."""
    return _review(uid, {"allowed": True}, warnings)


def patched(uid: str, operations: Sequence[Operation], warnings: Iterable[str] = ()) -> bytes:
    """Return the answer with operations to apply; without any it is ``allowed``."""
    if not operations:
        return allowed(uid, warnings)
    patch = base64.b64encode(_encoder.encode(operations)).decode()
    return _review(uid, {"allowed": True, "patchType": "JSONPatch", "patch": patch}, warnings)


def denied(uid: str, message: str, warnings: Iterable[str] = ()) -> bytes:
    """Return the answer that the request breaks a rule: 403."""
    return errored(uid, 403, message, warnings)


def errored(uid: str, code: int, message: str, warnings: Iterable[str] = ()) -> bytes:
    """Return the refusal of the request with the HTTP status ``code`` for the client."""
    status = {"code": code, "reason": _REASONS.get(code, "Unknown"), "message": message}
    return _review(uid, {"allowed": False, "status": status}, warnings)


def fit_warnings(warnings: Iterable[str]) -> list[str]:
    """Return distinct warnings, each cut to its limit; those beyond the total are left out."""
    kept: list[str] = []
    room = WARNINGS_MAX
    for warning in dict.fromkeys(warnings):
        text = warning
        if len(text) > WARNING_MAX:
            text = text[: WARNING_MAX - len(_ELLIPSIS)] + _ELLIPSIS
        if len(text) > room:
            break
        room -= len(text)
        kept.append(text)
    return kept


def _review(uid: str, response: dict[str, Any], warnings: Iterable[str]) -> bytes:
    fitted = fit_warnings(warnings)
    if fitted:
        response["warnings"] = fitted
    return _encoder.encode(
        {
            "apiVersion": decoding.API_VERSION,
            "kind": decoding.KIND,
            "response": {"uid": uid, **response},
        }
    )
