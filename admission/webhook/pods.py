"""Reviews of pods."""

from typing import Final

from typing_extensions import override

from admission.base import structs
from admission.objects.reviewed_pod import Pod
from admission.webhook import pod_review
from admission.webhook.decoding import GroupVersionKind, Questions, Request, Review
from admission.webhook.pod_review import Outcome
from admission.webhook.queueing import Standing
from admission.webhook.reviewing import Reviewer

KIND: Final = GroupVersionKind("", "v1", "Pod")
QUESTIONS: Final = Questions(KIND, structs.decoder(Review[Pod]))


class PodReviewer(Reviewer[Pod]):
    """Answers reviews of pods."""

    @override
    def decide(self, path: str, request: Request[Pod]) -> Outcome:
        outcome = self._mutate(request) if path == self.mutate_path else self._validate(request)
        if request.operation == "CREATE":
            self.metrics.placed(outcome.standing.value)
        return outcome

    def _mutate(self, request: Request[Pod]) -> Outcome:
        if request.operation != "CREATE" or request.sub_resource or request.object is None:
            return Outcome(standing=Standing.FREE)
        return pod_review.mutate(request.object, self.context(request), self.rules, self.knowledge)

    def _validate(self, request: Request[Pod]) -> Outcome:
        if request.sub_resource or request.object is None:
            return Outcome(standing=Standing.FREE)
        old = request.old_object if request.operation == "UPDATE" else None
        context = self.context(request)
        return pod_review.validate(old, request.object, context, self.rules, self.knowledge)
