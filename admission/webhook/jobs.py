"""Reviews of batch/v1 Jobs."""

from typing import Final

from typing_extensions import override

from admission.base import structs
from admission.policy import jobs
from admission.policy.jobs import Job
from admission.policy.pods import Outcome
from admission.policy.queueing import Standing
from admission.webhook.decoding import GroupVersionKind, Questions, Request, Review
from admission.webhook.reviewing import Reviewer

MUTATE_PATH: Final = "/mutate-batch-v1-job"
VALIDATE_PATH: Final = "/validate-batch-v1-job"
PATHS: Final = (MUTATE_PATH, VALIDATE_PATH)

_KIND: Final = GroupVersionKind("batch", "v1", "Job")


class JobReviewer(Reviewer[Job]):
    """Answers reviews of Jobs."""

    questions = Questions(_KIND, structs.decoder(Review[Job]))

    @override
    def decide(self, path: str, request: Request[Job]) -> Outcome:
        job, operation = request.object, request.operation
        if job is None or request.sub_resource or operation not in {"CREATE", "UPDATE"}:
            return Outcome(standing=Standing.FREE)
        context = self.context(request)
        if path == VALIDATE_PATH:
            old = request.old_object if operation == "UPDATE" else None
            return jobs.validate(old, job, context, self.knowledge)
        if operation != "CREATE":
            return Outcome(standing=Standing.FREE)
        return jobs.mutate(job, context, self.rules, self.knowledge)
