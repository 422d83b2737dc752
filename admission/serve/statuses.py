"""Refusals as Kubernetes words them: a ``Status`` object with the HTTP status of its code.

Source: k8s.io/apimachinery pkg/api/errors.
"""

from http import HTTPStatus
from typing import Any

from admission.base import names
from admission.base.errors import AdmissionError


class RefusedError(AdmissionError):
    """A request that is refused.

    Attributes:
        code: HTTP status.
        reason: CamelCase reason of the Status.
        details: of the Status; empty for none.
        retry_after: seconds after which to ask again; 0 for not at all.
    """

    def __init__(
        self,
        code: HTTPStatus,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after

    def document(self) -> dict[str, Any]:
        """Return the Status."""
        details = dict(self.details)
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": int(self.code),
        }


def unauthorized() -> RefusedError:
    """Return the answer to a request without credentials."""
    return RefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


def forbidden(message: str, details: dict[str, Any]) -> RefusedError:
    """Return the error that the API server says that the user may not."""
    return RefusedError(HTTPStatus.FORBIDDEN, "Forbidden", message, details)


def unknown_queue(kind: str, name: str) -> RefusedError:
    """Return the refusal that there is no such queue, or that it is stopped.

    Args:
        kind: ``clusterqueue`` or ``localqueue``.
        name: of the queue.
    """
    group = names.VISIBILITY_GROUP
    return RefusedError(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{kind}.{group} "{name}" not found',
        {"name": name, "group": group, "kind": kind},
    )


def unknown_path() -> RefusedError:
    """Return the error that nothing is served there."""
    message = "the server could not find the requested resource"
    return RefusedError(HTTPStatus.NOT_FOUND, "NotFound", message)


def unknown_method() -> RefusedError:
    """Return the error that lists can only be read."""
    message = "the server does not allow this method on the requested resource"
    return RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", message)


def bad_request(message: str) -> RefusedError:
    """Return the error that a parameter cannot be read."""
    return RefusedError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def internal(message: str) -> RefusedError:
    """Return the error that something here, or at the API server, does not work."""
    text = f"Internal error occurred: {message}"
    return RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", text)


def not_ready(message: str) -> RefusedError:
    """Return the error that the controller cannot say it at this moment."""
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", message, retry_after=1
    )
