"""What all answers of commands in JSON have in common."""

from enum import StrEnum
from typing import Final

from admission.base import names

API_VERSION: Final = f"{names.OWN_DOMAIN}/v1"
"""Version of the form of every answer."""


class ErrorCode(StrEnum):
    """The code by which programs tell errors of commands apart: see docs/reference/commands.md."""

    NOT_FOUND = "NotFound"
    AMBIGUOUS = "Ambiguous"
    UNKNOWN_KIND = "UnknownKind"
    FORBIDDEN = "Forbidden"
    UNAUTHORIZED = "Unauthorized"
    UNREACHABLE = "Unreachable"
    INVALID_KUBECONFIG = "InvalidKubeconfig"
    OVERLOADED = "Overloaded"
    SERVER_FAILED = "ServerFailed"
    OTHER = "Failed"
