"""Reviews of batch/v1 Jobs, from bytes to bytes."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.base.clock import Clock
from admission.obs import logs
from admission.policy import fielderrors, jobs
from admission.policy.jobs import Job
from admission.policy.knowledge import Context, Knowledge, Rules
from admission.policy.pods import Outcome
from admission.policy.queueing import Standing
from admission.webhook import decoding, responses
from admission.webhook.decoding import GroupVersionKind, MalformedError, UserInfo
from admission.webhook.metrics import WebhookMetrics

MUTATE_PATH: Final = "/mutate-batch-v1-job"
VALIDATE_PATH: Final = "/validate-batch-v1-job"
PATHS: Final = (MUTATE_PATH, VALIDATE_PATH)

INTERNAL_ERROR: Final = 500
_KIND: Final = GroupVersionKind("batch", "v1", "Job")
_log = logs.get("webhook")


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """The question of a review about a Job."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    object: Job | None = None
    old_object: Job | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReviewer:
    """Answers reviews of Jobs; safe to use from several threads.

    Attributes:
        knowledge: what was last seen of the cluster.
        rules: what the installation chose.
        metrics: where reviews are counted.
        clock: source of time.
        max_body_bytes: larger bodies are answered with 413.
    """

    knowledge: Knowledge
    rules: Rules
    metrics: WebhookMetrics
    clock: Clock
    max_body_bytes: int = decoding.MAX_BODY_BYTES

    def review(self, path: str, body: bytes, content_type: str) -> bytes:
        """The answer to the bytes posted to one of PATHS; never raises."""
        start = self.clock.monotonic()
        try:
            request = _decode(body, content_type, self.max_body_bytes)
        except MalformedError as error:
            return self.refuse(path, error)
        answer, outcome = self._decided(path, request)
        self.metrics.reviewed(path, outcome, self.clock.monotonic() - start)
        return answer

    def refuse(self, path: str, error: MalformedError) -> bytes:
        """The answer to a request that is no review."""
        _log.warning("review_malformed", path=path, code=error.code, error=error.message)
        self.metrics.reviewed(path, "malformed", 0)
        return responses.errored(error.uid, error.code, error.message)

    def _decided(self, path: str, request: Request) -> tuple[bytes, str]:
        try:
            outcome = self._decide(path, request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller needs an answer
            _log.exception("review_failed", path=path, **_describe(request))
            message = f"internal error of gpu-admission: {type(error).__name__}: {error}"
            return responses.errored(request.uid, INTERNAL_ERROR, message), "failed"
        if outcome.errors:
            message = fielderrors.aggregate(outcome.errors)
            _log.info("review_denied", message=message, **_describe(request))
            return responses.denied(request.uid, message, outcome.warnings), "denied"
        answer = responses.patched(request.uid, outcome.operations, outcome.warnings)
        return answer, "patched" if outcome.operations else "allowed"

    def _decide(self, path: str, request: Request) -> Outcome:
        job, operation = request.object, request.operation
        if job is None or request.sub_resource or operation not in {"CREATE", "UPDATE"}:
            return Outcome(standing=Standing.FREE)
        now_us = int(self.clock.now().timestamp()) * 1_000_000
        user = request.user_info.username
        context = Context(namespace=request.namespace, now_us=now_us, user=user)
        if path == VALIDATE_PATH:
            old = request.old_object if operation == "UPDATE" else None
            return jobs.validate(old, job, context, self.knowledge)
        if operation != "CREATE":
            return Outcome(standing=Standing.FREE)
        return jobs.mutate(job, context, self.rules, self.knowledge)


def _decode(body: bytes, content_type: str, max_bytes: int) -> Request:
    review = decoding.read(_REVIEW, body, content_type, max_bytes=max_bytes)
    decoding.check_envelope(review.api_version, review.kind, review.request)
    request = review.request
    assert request is not None
    if request.kind != _KIND:
        found = f"{request.kind.group or 'core'}/{request.kind.version} {request.kind.kind}"
        rule = f"request is about {found}, expected batch/v1 Job"
        raise MalformedError(decoding.BAD_REQUEST, rule, request.uid)
    return request


def _describe(request: Request) -> dict[str, Any]:
    return {
        "request_uid": request.uid,
        "operation": request.operation,
        "namespace": request.namespace,
        "job": request.name,
        "user": request.user_info.username,
    }
