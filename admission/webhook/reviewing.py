"""One review from bytes to bytes: decode, decide, encode, count. Knows nothing of HTTP.

What is decided about a kind is told by a subclass, which asks `pod_review`, `owner_review` or
`serving_review`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic

from typing_extensions import override

from admission.base import fielderrors, logs, names, structs
from admission.base.clock import Clock
from admission.objects.reviewed_pod import ReviewedPod
from admission.owners import serving
from admission.owners.review import HeldKind, Reviewed
from admission.owners.serving import Serving, ServingKind
from admission.webhook import decoding, owner_review, pod_review, responses, serving_review
from admission.webhook.decoding import (
    GroupVersionKind,
    MalformedError,
    Object,
    Questions,
    Request,
    Review,
)
from admission.webhook.metrics import WebhookMetrics
from admission.webhook.pod_review import ReviewOutcome
from admission.webhook.queueing import ManagementState
from admission.webhook.review_context import Context, Lister, Rules

INTERNAL_ERROR: Final = 500
_log = logs.get("webhook")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A review of a pod under creation that was answered.

    Attributes:
        step: mutate or validate.
        request_uid: of the review.
        uid: of the pod; empty before the API server has given it one.
        namespace: of the pod.
        name: of the pod, or what it begins with.
        queue: LocalQueue that the pod names; empty if none.
        outcome: as it is counted.
        ended: when it was answered.
        seconds: how long that took.
    """

    step: str
    request_uid: str
    uid: str
    namespace: str
    name: str
    queue: str
    outcome: str
    ended: datetime
    seconds: float


OnAnswered = Callable[[Answered], None]


class Reviewer(ABC, Generic[Object]):
    """Answers reviews of one kind; safe to use from several threads.

    Attributes:
        questions: reads reviews of the kind.
        mutate_path: path of requests to mutate a new object.
        validate_path: path of requests to validate an object.
        protect_path: path of requests to check that a change starts no further pods.
        lister: what was last seen of the cluster.
        rules: what the installation chose.
        metrics: where reviews are counted.
        clock: source of time.
        max_body_bytes: larger bodies are answered with 413.
        on_answered: is told of reviews of pods under creation; must not block. None: nobody is.
    """

    def __init__(
        self,
        questions: Questions[Object],
        *,
        lister: Lister,
        rules: Rules,
        metrics: WebhookMetrics,
        clock: Clock,
        max_body_bytes: int = decoding.MAX_BODY_BYTES,
        on_answered: OnAnswered | None = None,
    ) -> None:
        self.questions = questions
        self.mutate_path = questions.kind.mutate_path()
        self.validate_path = questions.kind.validate_path()
        self.protect_path = questions.kind.protect_path()
        self.lister = lister
        self.rules = rules
        self.metrics = metrics
        self.clock = clock
        self.max_body_bytes = max_body_bytes
        self.on_answered = on_answered

    @property
    def paths(self) -> tuple[str, ...]:
        """The HTTP paths on which objects of the kind are reviewed."""
        return self.mutate_path, self.validate_path, self.protect_path

    @abstractmethod
    def decide(self, path: str, request: Request[Object]) -> ReviewOutcome:
        """Return the outcome of a review; what it raises is answered as an internal error."""

    def review(self, path: str, body: bytes, content_type: str) -> bytes:
        """Return the answer to the bytes posted to one of the kind's paths; never raises."""
        start = self.clock.monotonic()
        try:
            request = self.questions.read(body, content_type, max_bytes=self.max_body_bytes)
        except MalformedError as error:
            return self.refuse(path, error)
        answer, outcome = self._decided(path, request)
        seconds = self.clock.monotonic() - start
        self.metrics.reviewed(path, outcome, seconds)
        if self.on_answered is not None and request.kind == POD_KIND:
            self._tell(self.on_answered, path, request, outcome, seconds)
        return answer

    def _tell(
        self,
        on_answered: OnAnswered,
        path: str,
        request: Request[Object],
        outcome: str,
        seconds: float,
    ) -> None:
        pod = request.object
        if pod is None or request.operation != "CREATE" or request.sub_resource or request.dry_run:
            return
        metadata = pod.metadata
        answered = Answered(
            step="mutate" if path == self.mutate_path else "validate",
            request_uid=request.uid,
            uid=metadata.uid,
            namespace=request.namespace,
            name=request.name or metadata.name or f"{metadata.generate_name}*",
            queue=metadata.label(names.QUEUE_LABEL),
            outcome=outcome,
            ended=self.clock.now(),
            seconds=seconds,
        )
        on_answered(answered)

    def refuse(self, path: str, error: MalformedError) -> bytes:
        """Return the answer to a request that is no review."""
        _log.warning("review_malformed", path=path, code=error.code, error=error.message)
        self.metrics.reviewed(path, "malformed", 0)
        return responses.errored(error.uid, error.code, error.message)

    def context(self, request: Request[Object]) -> Context:
        """Return what a decision may know of the request."""
        now_us = int(self.clock.now().timestamp()) * 1_000_000
        user = request.user_info.username
        return Context(namespace=request.namespace, now_us=now_us, user=user)

    def _decided(self, path: str, request: Request[Object]) -> tuple[bytes, str]:
        try:
            return _encoded(request, self.decide(path, request))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller needs an answer
            _log.exception("review_failed", path=path, **decoding.describe(request))
            message = f"internal error of gpu-admission: {type(error).__name__}: {error}"
            return responses.errored(request.uid, INTERNAL_ERROR, message), "failed"


def _encoded(request: Request[Object], outcome: ReviewOutcome) -> tuple[bytes, str]:
    if outcome.errors:
        message = fielderrors.aggregate(outcome.errors)
        _log.info("review_denied", message=message, **decoding.describe(request))
        return responses.denied(request.uid, message, outcome.warnings), "denied"
    answer = responses.patched(request.uid, outcome.operations, outcome.warnings)
    return answer, "patched" if outcome.operations else "allowed"


# ------------------------------------------------------------------------------------ pods


POD_KIND: Final = GroupVersionKind("", "v1", "Pod")
POD_QUESTIONS: Final = Questions(POD_KIND, structs.decoder(Review[ReviewedPod]))


class PodReviewer(Reviewer[ReviewedPod]):
    """Answers reviews of pods."""

    @override
    def decide(self, path: str, request: Request[ReviewedPod]) -> ReviewOutcome:
        outcome = self._mutate(request) if path == self.mutate_path else self._validate(request)
        if request.operation == "CREATE":
            self.metrics.placed(outcome.standing.value)
        return outcome

    def _mutate(self, request: Request[ReviewedPod]) -> ReviewOutcome:
        old = request.old_object
        if request.sub_resource or request.object is None:
            return ReviewOutcome(standing=ManagementState.FREE)
        if request.operation == "UPDATE" and old is not None:
            return pod_review.keep(old, request.object)
        if request.operation != "CREATE":
            return ReviewOutcome(standing=ManagementState.FREE)
        return pod_review.mutate(request.object, self.context(request), self.rules, self.lister)

    def _validate(self, request: Request[ReviewedPod]) -> ReviewOutcome:
        if request.sub_resource or request.object is None:
            return ReviewOutcome(standing=ManagementState.FREE)
        old = request.old_object if request.operation == "UPDATE" else None
        context = self.context(request)
        return pod_review.validate(old, request.object, context, self.rules, self.lister)


# ---------------------------------------------------------------------------------- owners


def owner_kind(kind: HeldKind | ServingKind) -> GroupVersionKind:
    """Return the kind as reviews name it."""
    return GroupVersionKind(kind.kind.group, kind.kind.version, kind.kind.name)


def owner_questions(kind: HeldKind) -> Questions[Reviewed]:
    """Return the reader of reviews about owners of a kind."""
    # The type is known at run time only, which a checker cannot follow.
    return Questions(owner_kind(kind), structs.decoder(Review[kind.document]))  # type: ignore[name-defined]


class OwnerReviewer(Reviewer[Reviewed]):
    """Answers reviews of owners of one kind."""

    @override
    def decide(self, path: str, request: Request[Reviewed]) -> ReviewOutcome:
        owner, operation = request.object, request.operation
        if owner is None or request.sub_resource or operation not in {"CREATE", "UPDATE"}:
            return ReviewOutcome(standing=ManagementState.FREE)
        context = self.context(request)
        if path == self.validate_path:
            old = request.old_object if operation == "UPDATE" else None
            return owner_review.validate(old, owner, context, self.rules, self.lister)
        if path == self.protect_path:
            old = request.old_object
            if old is None or operation != "UPDATE":
                return ReviewOutcome(standing=ManagementState.FREE)
            return owner_review.protect(old, owner, context, self.rules, self.lister)
        if operation == "UPDATE":
            old = request.old_object
            if old is None:
                return ReviewOutcome(standing=ManagementState.FREE)
            return owner_review.keep_waiting(old, owner, context, self.rules, self.lister)
        if operation != "CREATE":
            return ReviewOutcome(standing=ManagementState.FREE)
        return owner_review.mutate(owner, context, self.rules, self.lister)


def serving_questions(kind: ServingKind) -> Questions[Serving]:
    """Return the reader of reviews about owners of a kind that serves."""
    document = serving.document(kind)
    # The type is known at run time only, which a checker cannot follow.
    return Questions(owner_kind(kind), structs.decoder(Review[document]))  # type: ignore[valid-type]


class ServingReviewer(Reviewer[Serving]):
    """Answers reviews of owners of one kind that serves."""

    @override
    def decide(self, path: str, request: Request[Serving]) -> ReviewOutcome:
        owner, operation = request.object, request.operation
        if owner is None or request.sub_resource or operation not in {"CREATE", "UPDATE"}:
            return ReviewOutcome(standing=ManagementState.FREE)
        context = self.context(request)
        old = request.old_object if operation == "UPDATE" else None
        if path == self.mutate_path:
            return serving_review.mutate(old, owner, context, self.rules, self.lister)
        return serving_review.validate(old, owner, context, self.rules, self.lister)
