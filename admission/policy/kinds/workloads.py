"""All rules of Workloads, for creations and for updates of the object and of its status.

Errors are told sorted by field path, as everywhere where an answer collects several of them.
"""

from typing import Final

from admission.base import fielderrors
from admission.base.fielderrors import FieldError
from admission.policy.kinds import rules, workloadchanges, workloadspecs, workloadstatuses
from admission.policy.kinds.documents import Workload
from admission.policy.kinds.reviews import Review
from admission.policy.kinds.rules import Row

RULES: Final[tuple[Row[Review], ...]] = (
    *workloadspecs.RULES,
    *workloadstatuses.RULES,
    *workloadchanges.RULES,
)


def errors(old: Workload | None, new: Workload) -> list[FieldError]:
    """Errors of a Workload; ``old`` is None on creation.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    found = rules.errors(RULES, Review(old, new))
    return list(fielderrors.in_order(found))
