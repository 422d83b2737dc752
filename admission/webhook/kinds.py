"""Reviews of Kueue's kinds: which path is about which kind, and the way from bytes to bytes.

On one path more, owners of every kind are looked at that are sent for their own keys alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from admission.base import logs, names, patches, structs
from admission.base.clock import Clock
from admission.base.fielderrors import FieldError
from admission.base.patches import Operation, PatchBuilder
from admission.objects import (
    cluster_queue,
    cohort,
    local_queue,
    resource_flavor,
    rule_checks,
    views,
    workload_validation,
)
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.webhook import decoding, key_warnings, queue_warnings, responses
from admission.webhook.decoding import GroupVersionKind, MalformedError, UserInfo
from admission.webhook.metrics import WebhookMetrics
from admission.webhook.review_context import Lister

VERSION: Final = "v1beta2"
"""What rules are written for; the API server converts the objects of other versions."""

_NULL: Final = msgspec.Raw(b"null")
_FINALIZERS: Final = patches.pointer("metadata", "finalizers")
INTERNAL_ERROR: Final = 500
_log = logs.get("webhook")

Object = TypeVar("Object", bound=views.Object)
Defaults = Callable[[tuple[str, ...] | None], tuple[Operation, ...]]


@dataclass(frozen=True, slots=True)
class KindRules(Generic[Object]):
    """How objects of a kind are read and judged.

    Attributes:
        decoder: reads an object.
        errors: broken rules of the object as it is (None on creation) and as it would be.
        warnings: what is allowed and hardly meant, likewise, by what was last seen of the cluster.
    """

    decoder: msgspec.json.Decoder[Object]
    errors: Callable[[Object | None, Object], list[FieldError]]
    warnings: Callable[[Object | None, Object, Lister], Iterable[str]] = lambda *_: ()


VALIDATED: Final[Mapping[str, KindRules[Any]]] = {
    "ClusterQueue": KindRules(
        structs.decoder(ClusterQueue), cluster_queue.errors, queue_warnings.of_cluster_queue
    ),
    "LocalQueue": KindRules(
        structs.decoder(LocalQueue), local_queue.errors, queue_warnings.of_local_queue
    ),
    "Cohort": KindRules(structs.decoder(Cohort), cohort.errors, queue_warnings.of_cohort),
    "ResourceFlavor": KindRules(
        structs.decoder(ResourceFlavor), resource_flavor.errors, queue_warnings.of_flavor
    ),
    "Workload": KindRules(
        structs.decoder(workload_validation.ReviewedWorkload), workload_validation.errors
    ),
}
"""Kinds with rules."""

# The controller takes it off again, see `admission.controller.queues.object_metadata`. A
# Workload gets nothing: its one default, no partial admission, belongs to a feature gate that is
# on. The other kinds have none. Source: kueue pkg/webhooks.


def _finalizer(present: tuple[str, ...] | None) -> tuple[Operation, ...]:
    """The patch that adds ``kueue.x-k8s.io/resource-in-use``; empty if it is set."""
    patch = PatchBuilder()
    if names.RESOURCE_IN_USE not in (present or ()):
        patch.append(_FINALIZERS, present, [names.RESOURCE_IN_USE])
    return patch.operations()


def _nothing(present: tuple[str, ...] | None) -> tuple[Operation, ...]:
    """No change."""
    del present
    return ()


DEFAULTED: Final[Mapping[str, Defaults]] = {
    "ClusterQueue": _finalizer,
    "ResourceFlavor": _finalizer,
    "Workload": _nothing,
}
"""Kinds with defaults beyond those of their schema."""


def named(kind: str) -> GroupVersionKind:
    """Return the version of a kind that rules are written for."""
    return GroupVersionKind(names.KUEUE_GROUP, VERSION, kind)


class RawRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The question of a review; objects as sent, ``null`` where there is none."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: RawRequest | None = None


_REVIEW: Final = structs.decoder(_Review)
_METADATA: Final = structs.decoder(views.Object)
KEYS_PATH: Final = "/warn-about-keys"
"""Where new owners are sent that name no queue and ask for no GPUs, for warnings alone."""
_ANY_KIND: Final = ""
_PATHS: Final = {
    KEYS_PATH: (_ANY_KIND, False),
    **{named(kind).mutate_path(): (kind, True) for kind in DEFAULTED},
    **{named(kind).validate_path(): (kind, False) for kind in VALIDATED},
}
PATHS: Final = tuple(_PATHS)
"""Every path that a `KindReviewer` answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindReviewer:
    """Answers reviews of Kueue's kinds; what it knows of the cluster decides nothing.

    Attributes:
        lister: what was last seen of the cluster, for warnings.
        metrics: where reviews are counted.
        clock: source of time.
        max_body_bytes: larger bodies are answered with 413.
    """

    lister: Lister
    metrics: WebhookMetrics
    clock: Clock
    max_body_bytes: int = decoding.MAX_BODY_BYTES

    def review(self, path: str, body: bytes, content_type: str) -> bytes:
        """Return the answer to the bytes posted to one of PATHS; never raises."""
        start = self.clock.monotonic()
        kind, is_mutating = _PATHS[path]
        try:
            request = _decode(body, content_type, kind, self.max_body_bytes)
        except MalformedError as error:
            return self.refuse(path, error)
        answer, outcome = self._decided(path, kind, request, is_mutating=is_mutating)
        self.metrics.reviewed(path, outcome, self.clock.monotonic() - start)
        return answer

    def refuse(self, path: str, error: MalformedError) -> bytes:
        """Return the answer to a request that is no review."""
        _log.warning("review_malformed", path=path, code=error.code, error=error.message)
        self.metrics.reviewed(path, "malformed", 0)
        return responses.errored(error.uid, error.code, error.message)

    def _decided(
        self, path: str, kind: str, request: RawRequest, *, is_mutating: bool
    ) -> tuple[bytes, str]:
        try:
            if kind == _ANY_KIND:
                return _warned_about_keys(request)
            if is_mutating:
                return _defaulted(kind, request)
            return self._judged(kind, request)
        except decoding.UNREADABLE as error:
            _log.warning("review_malformed", path=path, error=str(error), **_describe(request))
            message = f"{request.kind.kind} cannot be read: {error}"
            return responses.errored(request.uid, decoding.BAD_REQUEST, message), "malformed"
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller needs an answer
            _log.exception("review_failed", path=path, **_describe(request))
            message = f"internal error of gpu-admission: {type(error).__name__}: {error}"
            return responses.errored(request.uid, INTERNAL_ERROR, message), "failed"

    def _judged(self, kind: str, request: RawRequest) -> tuple[bytes, str]:
        if request.operation not in {"CREATE", "UPDATE"}:
            return responses.allowed(request.uid), "allowed"
        judge = VALIDATED[kind]
        old = judge.decoder.decode(request.old_object) if request.operation == "UPDATE" else None
        new = judge.decoder.decode(request.object)
        errors = judge.errors(old, new)
        if not errors:
            warnings = () if request.sub_resource else judge.warnings(old, new, self.lister)
            return responses.allowed(request.uid, warnings), "allowed"
        message = rule_checks.text(errors)
        _log.info("review_denied", message=message, **_describe(request))
        return responses.denied(request.uid, message), "denied"


def _decode(body: bytes, content_type: str, kind: str, max_bytes: int) -> RawRequest:
    review = decoding.read(_REVIEW, body, content_type, max_bytes=max_bytes)
    decoding.check_envelope(review.api_version, review.kind, review.request)
    request = review.request
    assert request is not None
    if kind != _ANY_KIND and request.kind != named(kind):
        kind_text = f"{request.kind.group}/{request.kind.version} {request.kind.kind}"
        rule = f"request is about {kind_text}, expected {names.KUEUE_GROUP}/{VERSION} {kind}"
        raise MalformedError(decoding.BAD_REQUEST, rule, request.uid)
    return request


def _warned_about_keys(request: RawRequest) -> tuple[bytes, str]:
    metadata = _METADATA.decode(request.object).metadata
    warnings = key_warnings.outside_queues(metadata)
    return responses.allowed(request.uid, warnings), "allowed"


def _defaulted(kind: str, request: RawRequest) -> tuple[bytes, str]:
    if request.operation != "CREATE" or request.sub_resource:
        return responses.allowed(request.uid), "allowed"
    # The schema judges the object only after this review, so nothing else of it is read here.
    metadata = _METADATA.decode(request.object).metadata
    operations = DEFAULTED[kind](metadata.finalizers)
    answer = responses.patched(request.uid, operations)
    return answer, "patched" if operations else "allowed"


def _describe(request: RawRequest) -> dict[str, Any]:
    return {
        "request_uid": request.uid,
        "operation": request.operation,
        "kind": request.kind.kind,
        "namespace": request.namespace,
        "name": request.name,
        "subresource": request.sub_resource,
        "user": request.user_info.username,
    }
