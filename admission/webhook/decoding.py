"""From the bytes of a request to an AdmissionReview, or to the reason why it is none.

MalformedError   the request is no review that can be decided; carries the answer's status code
"""

from typing import Any, Final, Protocol, TypeVar

import msgspec

from admission.base.errors import AdmissionError
from admission.policy.documents import Pod

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
CONTENT_TYPE: Final = "application/json"

MAX_OBJECT_BYTES: Final = 3 * 1024 * 1024
"""The API server's limit on a request body (1.5 MiB in etcd, 3 MiB on the wire)."""

MAX_BODY_BYTES: Final = 2 * MAX_OBJECT_BYTES + 1024 * 1024
"""7 MiB: object and oldObject at their limit, and 1 MiB for userInfo, options and the envelope."""

BAD_REQUEST: Final = 400
TOO_LARGE: Final = 413
UNSUPPORTED_MEDIA_TYPE: Final = 415


class MalformedError(AdmissionError):
    """The request cannot be decided.

    Attributes:
        code: HTTP status for the answer inside the review.
        uid: of the request where it was readable, else empty.
        message: what is wrong, and what was expected.
    """

    def __init__(self, code: int, message: str, uid: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.uid = uid


Decoded = TypeVar("Decoded")


class Identified(Protocol):
    """A request that can be answered."""

    @property
    def uid(self) -> str:
        """Repeated in the answer."""
        ...


class GroupVersionKind(msgspec.Struct, frozen=True):
    """Which type an object in the review has."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who made the request."""

    username: str = ""
    groups: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """The question of a review about a pod.

    Attributes:
        uid: repeated in the answer.
        kind: type of the objects.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        namespace: where the object is; set even where the object leaves it out.
        user_info: who made the request.
        object: the pod as it would be; None on DELETE.
        old_object: the pod as stored; None on CREATE.
        dry_run: nothing will be stored.
    """

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    object: Pod | None = None
    old_object: Pod | None = None
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class _Identity(msgspec.Struct, frozen=True):
    uid: str = ""


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Identity = _Identity()


# Nesting without end exhausts the decoder's stack before it is found to be no review.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_REVIEW: Final = msgspec.json.Decoder(_Review)
_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_POD_KIND: Final = GroupVersionKind(group="", version="v1", kind="Pod")


def decode(body: bytes, content_type: str, *, max_bytes: int = MAX_BODY_BYTES) -> Request:
    """The question of a pod review.

    Args:
        body: as received, at least what fits the limit.
        content_type: header of the request; parameters such as a charset are ignored.
        max_bytes: limit on the body.

    Raises:
        MalformedError: the body is too large, no JSON, no AdmissionReview v1, or not about a pod.
    """
    review = read(_REVIEW, body, content_type, max_bytes=max_bytes)
    check_envelope(review.api_version, review.kind, review.request)
    return _check_pod(review)


def read(
    decoder: msgspec.json.Decoder[Decoded], body: bytes, content_type: str, *, max_bytes: int
) -> Decoded:
    """The body as what the decoder makes of it.

    Raises:
        MalformedError: the body is too large, of another type, empty, or cannot be read.
    """
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != CONTENT_TYPE:
        rule = f"content type is {media_type or 'missing'}, expected {CONTENT_TYPE}"
        raise MalformedError(UNSUPPORTED_MEDIA_TYPE, rule)
    if not body:
        raise MalformedError(BAD_REQUEST, "request body is empty, expected an AdmissionReview")
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        uid = _uid_of(body)
        raise MalformedError(BAD_REQUEST, f"request body cannot be read: {error}", uid) from error


def check_envelope(api_version: str, kind: str, request: Identified | None) -> None:
    """Whether it is an AdmissionReview v1 that can be answered.

    Raises:
        MalformedError: it is not.
    """
    uid = request.uid if request else ""
    if (api_version, kind) != (API_VERSION, KIND):
        found = f"{api_version or 'no version'} {kind or 'without a kind'}"
        raise MalformedError(BAD_REQUEST, f"body is {found}, expected {API_VERSION} {KIND}", uid)
    if request is None:
        raise MalformedError(BAD_REQUEST, "review has no request")
    if not request.uid:
        raise MalformedError(BAD_REQUEST, "request has no uid")


def too_large(max_bytes: int) -> MalformedError:
    """The error for a body over the limit; its uid is not looked for."""
    return MalformedError(TOO_LARGE, f"request body is larger than {max_bytes} bytes")


def describe(request: Request) -> dict[str, Any]:
    """Fields that identify a review in a log line."""
    metadata = (request.object or request.old_object or Pod()).metadata
    return {
        "request_uid": request.uid,
        "operation": request.operation,
        "namespace": request.namespace,
        "pod": request.name or metadata.name or f"{metadata.generate_name}*",
        "user": request.user_info.username,
        "dry_run": bool(request.dry_run),
    }


def _check_pod(review: _Review) -> Request:
    request = review.request
    assert request is not None
    if request.kind != _POD_KIND:
        kind = request.kind
        found = f"{kind.group or 'core'}/{kind.version} {kind.kind}"
        uid = request.uid
        raise MalformedError(BAD_REQUEST, f"request is about {found}, expected core/v1 Pod", uid)
    return request


def _uid_of(body: bytes) -> str:
    try:
        return _ENVELOPE.decode(body).request.uid
    except UNREADABLE:
        return ""
