"""From the bytes of a request to an AdmissionReview, or to the reason why it is none.

MalformedError   the request is no review that can be decided; carries the answer's status code
"""

import re
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from admission.base import structs
from admission.base.errors import AdmissionError
from admission.objects import views

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
        uid: UID of the request; empty if it could not be read.
        message: what is wrong, and what was expected.
    """

    def __init__(self, code: int, message: str, uid: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.uid = uid


Decoded = TypeVar("Decoded")


class Described(Protocol):
    """An object under review."""

    @property
    def metadata(self) -> views.ObjectMeta:
        """Return its metadata."""
        ...


Object = TypeVar("Object", bound=Described)


class Identified(Protocol):
    """A request that can be answered."""

    @property
    def uid(self) -> str:
        """The uid, which is repeated in the answer."""
        ...


class GroupVersionKind(msgspec.Struct, frozen=True):
    """Which type an object in the review has."""

    group: str = ""
    version: str = ""
    kind: str = ""

    def mutate_path(self) -> str:
        """Return where the API server sends new objects first."""
        return self._path("mutate")

    def validate_path(self) -> str:
        """Return where the API server sends what it is about to store."""
        return self._path("validate")

    def protect_path(self) -> str:
        """Return the path for changes by users who are not trusted with quota."""
        return self._path("protect")

    def _path(self, verb: str) -> str:
        return f"/{verb}-{self.group.replace('.', '-')}-{self.version}-{self.kind.lower()}"


class UserInfo(msgspec.Struct, frozen=True):
    """Who made the request."""

    username: str = ""
    groups: tuple[str, ...] = ()


class Request(msgspec.Struct, Generic[Object], frozen=True, rename="camel"):
    """The question of a review about an object of one kind.

    Attributes:
        uid: repeated in the answer.
        kind: type of the objects.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        namespace: where the object is; set even where the object leaves it out.
        user_info: who made the request.
        object: as it would be; None on DELETE.
        old_object: as stored; None on CREATE.
        dry_run: nothing will be stored.
    """

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    object: Object | None = None
    old_object: Object | None = None
    dry_run: bool | None = None


class Review(msgspec.Struct, Generic[Object], frozen=True, rename="camel"):
    """An AdmissionReview as posted."""

    api_version: str = ""
    kind: str = ""
    request: Request[Object] | None = None


class _ObjectIdentity(msgspec.Struct, frozen=True):
    uid: str = ""


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _ObjectIdentity = _ObjectIdentity()


UNREADABLE: Final = structs.UNREADABLE
_ENVELOPE: Final = structs.decoder(_Envelope)


_UID_WITHIN: Final = 4096
"""Bytes of a body in which its uid is looked for where it cannot be read whole."""
_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"(?P<colon>\s*:)?|[{}\[\],]')
_REQUEST_DEPTH: Final = 2


class Questions(Generic[Object]):
    """Reads reviews about one kind.

    Attributes:
        kind: the kind.
    """

    def __init__(
        self, kind: GroupVersionKind, decoder: msgspec.json.Decoder[Review[Object]]
    ) -> None:
        self.kind = kind
        self._decoder = decoder

    def read(self, body: bytes, content_type: str, *, max_bytes: int) -> Request[Object]:
        """Return the question of a review.

        Args:
            body: as received, at least what fits the limit.
            content_type: header of the request; parameters such as a charset are ignored.
            max_bytes: limit on the body.

        Raises:
            MalformedError: the body is too large, no JSON, no AdmissionReview v1, or about
                another kind.
        """
        review = read(self._decoder, body, content_type, max_bytes=max_bytes)
        check_envelope(review.api_version, review.kind, review.request)
        request = review.request
        assert request is not None
        if request.kind != self.kind:
            rule = f"request is about {_words(request.kind)}, expected {_words(self.kind)}"
            raise MalformedError(BAD_REQUEST, rule, request.uid)
        return request


def read(
    decoder: msgspec.json.Decoder[Decoded], body: bytes, content_type: str, *, max_bytes: int
) -> Decoded:
    """Return the body as what the decoder makes of it.

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
    """Check that it is an AdmissionReview v1 that can be answered.

    Raises:
        MalformedError: it is not.
    """
    uid = request.uid if request else ""
    if (api_version, kind) != (API_VERSION, KIND):
        kind_text = f"{api_version or 'no version'} {kind or 'without a kind'}"
        raise MalformedError(
            BAD_REQUEST, f"body is {kind_text}, expected {API_VERSION} {KIND}", uid
        )
    if request is None:
        raise MalformedError(BAD_REQUEST, "review has no request")
    if not request.uid:
        raise MalformedError(BAD_REQUEST, "request has no uid")


def too_large(max_bytes: int, prefix: bytes = b"") -> MalformedError:
    """Return the error for a body over the limit, of which the first bytes are known."""
    rule = f"request body is larger than {max_bytes} bytes"
    return MalformedError(TOO_LARGE, rule, uid_in(prefix))


def uid_in(prefix: bytes) -> str:
    """Return the uid of a review of which only the first bytes are known; empty without one.

    API servers write it as the first field of the request, after kind and apiVersion.
    """
    depth, key, is_request = 0, "", False
    for match in _PART.finditer(prefix.decode(errors="replace")):
        part = match.group()
        if part in "{[":
            depth += 1
            is_request = is_request or (depth == _REQUEST_DEPTH and key == "request")
            key = ""
        elif part in "}]":
            depth -= 1
            if is_request and depth < _REQUEST_DEPTH:
                return ""
        elif part == ",":
            key = ""
        elif part[0] == '"' and match["colon"] is None:
            if is_request and depth == _REQUEST_DEPTH and key == "uid":
                return _text(part)
        elif part[0] == '"':
            key = _text(part.rstrip(": \t\r\n"))
    return ""


def _text(quoted: str) -> str:
    try:
        return str(msgspec.json.decode(quoted))
    except UNREADABLE:
        return ""


def describe(request: Request[Object]) -> dict[str, Any]:
    """Return fields that identify a review in a log line."""
    object_ = request.object or request.old_object
    metadata = object_.metadata if object_ is not None else views.ObjectMeta()
    return {
        "request_uid": request.uid,
        "operation": request.operation,
        "namespace": request.namespace,
        request.kind.kind.lower(): request.name or metadata.name or f"{metadata.generate_name}*",
        "user": request.user_info.username,
        "dry_run": bool(request.dry_run),
    }


def _words(kind: GroupVersionKind) -> str:
    return f"{kind.group or 'core'}/{kind.version} {kind.kind}"


def _uid_of(body: bytes) -> str:
    try:
        return _ENVELOPE.decode(body).request.uid
    except UNREADABLE:
        return uid_in(body[:_UID_WITHIN])
