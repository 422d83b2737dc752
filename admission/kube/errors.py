"""What can go wrong with a request to an API server, real or embedded.

The tree is our own so that no library's exception leaks out of this package:

AdmissionError
  └── KubeError
        ├── ApiError               the server answered: no
        │     ├── BadRequestError       400  the request itself is malformed
        │     ├── UnauthorizedError     401  who are you
        │     ├── ForbiddenError        403  RBAC, or an admission denied it
        │     ├── NotFoundError         404
        │     ├── AlreadyExistsError    409  AlreadyExists
        │     ├── ConflictError         409  a precondition failed; read again, then retry
        │     ├── GoneError             410  the resourceVersion or token is too old; list again
        │     ├── InvalidError          422  the object breaks a rule of its kind
        │     ├── TooManyRequestsError  429  wait ``retry_after`` seconds
        │     └── ServerError           5xx
        ├── DecodeError            the answer's object does not fit the type that was asked for
        ├── ConfigurationError     no server or no credentials to begin with
        └── TransportError         no usable answer
"""

import re
from http import HTTPStatus
from typing import Any, Final

import msgspec

from admission.base import structs
from admission.base.errors import AdmissionError

MESSAGE_LIMIT: Final = 2000
"""Longest message that is kept, in characters; a proxy's error page is cut here."""
_CALL: Final = re.compile(r'failed calling webhook "([^"]+)"')


class KubeError(AdmissionError):
    """A request failed.

    Attributes:
        outcome_unknown: the request was a write and may have taken effect; only a read tells.
    """

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class TransportError(KubeError):
    """No usable answer: refused, reset, timed out, or not the protocol."""


class KubeConfigurationError(KubeError):
    """The kubeconfig or the service account cannot be used."""


class DecodeError(KubeError):
    """The server did as asked, but its answer does not fit the type that was asked for."""


class ApiError(KubeError):
    """The server refused.

    Attributes:
        status: HTTP status code.
        reason: machine-readable reason, as ``Conflict``; empty where the server gave none.
        message: the server's text, at most MESSAGE_LIMIT characters.
        retry_after: seconds the server asks to wait; None where it did not ask.
        details: ``details`` of the Status object (name, kind, causes).
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        *,
        details: dict[str, Any] | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message[:MESSAGE_LIMIT], outcome_unknown=outcome_unknown)
        self.status = status
        self.reason = reason
        self.message = message[:MESSAGE_LIMIT]
        self.retry_after = retry_after
        self.details = details or {}

    def to_status(self) -> dict[str, Any]:
        """Return the error as a metav1.Status document."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.status,
        }


class BadRequestError(ApiError):
    """The request is malformed or asks for what is not supported."""


class UnauthorizedError(ApiError):
    """The credentials are missing, wrong or expired."""


class ForbiddenError(ApiError):
    """RBAC or an admission plugin or webhook refused."""


class NotFoundError(ApiError):
    """No such object, namespace or resource."""


class AlreadyExistsError(ApiError):
    """An object of that name exists."""


class ConflictError(ApiError):
    """A precondition (resourceVersion, uid) failed, or a field belongs to another manager."""


class GoneError(ApiError):
    """The resourceVersion or continue token is too old."""


class InvalidError(ApiError):
    """The object breaks a rule of its kind; ``details.causes`` names the fields."""


class TooManyRequestsError(ApiError):
    """The server is shedding load."""


class ServerError(ApiError):
    """The server, or a webhook that it asked, failed."""


def is_unavailable(error: KubeError) -> bool:
    """Return whether there is nobody yet who could answer.

    A server starts, or a proxy has none.
    """
    return isinstance(error, ServerError) and error.status == HTTPStatus.SERVICE_UNAVAILABLE


def is_failed_test(error: KubeError | None) -> bool:
    """Return whether a JSON patch was refused because the object is not as it was seen.

    The API server says "the server rejected our request due to an error in our request" then,
    and names no object, as it does of one that breaks a rule of its kind.
    """
    return isinstance(error, InvalidError) and not error.details.get("kind")


def is_namespace_ending(error: KubeError | None) -> bool:
    """Return whether nothing can be made in a namespace, as it is being deleted.

    Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle (NamespaceTerminatingCause).
    """
    causes = error.details.get("causes") or () if isinstance(error, ForbiddenError) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def failed_webhook(message: str) -> str:
    """Return the webhook that the API server could not call; empty where it names none.

    Args:
        message: of the API server.
    """
    call = _CALL.search(message)
    return call[1] if call else ""


_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_UNKNOWN_OUTCOME: Final = frozenset({500, 502, 504})


class _Status(msgspec.Struct, rename="camel"):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


def make(
    status: int,
    message: str,
    *,
    reason: str = "",
    retry_after: float | None = None,
    details: dict[str, Any] | None = None,
    write: bool = False,
) -> ApiError:
    """Return the error of a status code, as the class that callers catch.

    Args:
        status: HTTP status code.
        message: the server's text.
        reason: the server's reason; where empty, the usual one of the code.
        retry_after: seconds the server asks to wait.
        details: the Status object's details.
        write: the request was a write, so that 500, 502 and 504 leave its outcome unknown.
    """
    reason = reason or _REASONS.get(status, "")
    fallback = ServerError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ApiError
    kind = AlreadyExistsError if reason == "AlreadyExists" else _BY_STATUS.get(status, fallback)
    unknown = write and status in _UNKNOWN_OUTCOME
    return kind(status, reason, message, retry_after, details=details, outcome_unknown=unknown)


def from_body(
    status: int, body: bytes, *, retry_after: float | None = None, write: bool = False
) -> ApiError:
    """Return the error of an answer.

    Only a Status object is quoted: another body may be a proxy's page or hold secrets.

    Args:
        status: HTTP status code; 0 takes the code of the Status object (error events of a watch).
        body: the answer's body.
        retry_after: from the ``Retry-After`` header; else ``details.retryAfterSeconds`` counts.
        write: see `make`.
    """
    decoded = _decode_status(body)
    if decoded is None:
        return make(status or 500, f"HTTP {status} without a Status object", write=write,
                    retry_after=retry_after)  # fmt: skip
    details = decoded.details or {}
    if retry_after is None and isinstance(details.get("retryAfterSeconds"), int):
        retry_after = float(details["retryAfterSeconds"])
    return make(
        status or decoded.code or 500,
        decoded.message or f"HTTP {status}",
        reason=decoded.reason,
        retry_after=retry_after,
        details=details,
        write=write,
    )


_STATUS: Final = structs.decoder(_Status)


def _decode_status(body: bytes) -> _Status | None:
    try:
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None
