"""Reviews of owners that are held as a whole, of any kind."""

from typing_extensions import override

from admission.base import structs
from admission.owners.review import HeldKind, Reviewed
from admission.webhook import owner_review
from admission.webhook.decoding import GroupVersionKind, Questions, Request, Review
from admission.webhook.pod_review import Outcome
from admission.webhook.queueing import Standing
from admission.webhook.reviewing import Reviewer


def named(held: HeldKind) -> GroupVersionKind:
    """The kind as reviews name it."""
    return GroupVersionKind(held.kind.group, held.kind.version, held.kind.name)


def questions(held: HeldKind) -> Questions[Reviewed]:
    """Return the reader of reviews about owners of a kind."""
    # The type is known at run time only, which a checker cannot follow.
    return Questions(named(held), structs.decoder(Review[held.document]))  # type: ignore[name-defined]


class OwnerReviewer(Reviewer[Reviewed]):
    """Answers reviews of owners of one kind."""

    @override
    def decide(self, path: str, request: Request[Reviewed]) -> Outcome:
        owner, operation = request.object, request.operation
        if owner is None or request.sub_resource or operation not in {"CREATE", "UPDATE"}:
            return Outcome(standing=Standing.FREE)
        context = self.context(request)
        if path == self.validate_path:
            old = request.old_object if operation == "UPDATE" else None
            return owner_review.validate(old, owner, context, self.rules, self.knowledge)
        if path == self.protect_path:
            old = request.old_object
            if old is None or operation != "UPDATE":
                return Outcome(standing=Standing.FREE)
            return owner_review.protect(old, owner, context, self.rules)
        if operation != "CREATE":
            return Outcome(standing=Standing.FREE)
        return owner_review.mutate(owner, context, self.rules, self.knowledge)
