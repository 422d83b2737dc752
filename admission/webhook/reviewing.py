"""One review from bytes to bytes: decode, decide, encode, count. Knows nothing of HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from admission.base.clock import Clock
from admission.obs import logs
from admission.policy import fielderrors, pods
from admission.policy.documents import Pod
from admission.policy.knowledge import Context, Knowledge, Rules
from admission.policy.pods import Outcome
from admission.policy.queueing import Standing
from admission.webhook import decoding, responses
from admission.webhook.decoding import MalformedError, Request
from admission.webhook.metrics import WebhookMetrics

MUTATE_PATH: Final = "/mutate--v1-pod"
VALIDATE_PATH: Final = "/validate--v1-pod"

INTERNAL_ERROR: Final = 500
_log = logs.get("webhook")

Decide = Callable[[Request], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """Answers reviews; safe to use from several threads.

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
        """The answer to the bytes posted to MUTATE_PATH or VALIDATE_PATH; never raises."""
        start = self.clock.monotonic()
        try:
            request = decoding.decode(body, content_type, max_bytes=self.max_body_bytes)
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
        decide = self._mutate if path == MUTATE_PATH else self._validate
        try:
            return self._encoded(request, decide(request))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller needs an answer
            _log.exception("review_failed", path=path, **decoding.describe(request))
            message = f"internal error of gpu-admission: {type(error).__name__}: {error}"
            return responses.errored(request.uid, INTERNAL_ERROR, message), "failed"

    def _encoded(self, request: Request, outcome: Outcome) -> tuple[bytes, str]:
        if request.operation == "CREATE":
            self.metrics.placed(outcome.standing.value)
        if outcome.errors:
            message = fielderrors.aggregate(outcome.errors)
            _log.info("review_denied", message=message, **decoding.describe(request))
            return responses.denied(request.uid, message, outcome.warnings), "denied"
        answer = responses.patched(request.uid, outcome.operations, outcome.warnings)
        return answer, "patched" if outcome.operations else "allowed"

    def _mutate(self, request: Request) -> Outcome:
        if request.operation != "CREATE" or request.sub_resource or request.object is None:
            return Outcome(standing=Standing.FREE)
        return pods.mutate(request.object, self._context(request), self.rules, self.knowledge)

    def _validate(self, request: Request) -> Outcome:
        if request.sub_resource or request.object is None:
            return Outcome(standing=Standing.FREE)
        old: Pod | None = request.old_object if request.operation == "UPDATE" else None
        context = self._context(request)
        return pods.validate(old, request.object, context, self.rules, self.knowledge)

    def _context(self, request: Request) -> Context:
        now_us = int(self.clock.now().timestamp()) * 1_000_000
        user = request.user_info.username
        return Context(namespace=request.namespace, now_us=now_us, user=user)
