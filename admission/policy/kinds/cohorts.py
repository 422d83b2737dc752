"""Rules of Cohorts. Source: kueue pkg/webhooks/cohort_webhook.go."""

from collections.abc import Iterable, Iterator
from typing import Final

from admission.base.fielderrors import FieldError
from admission.objects.cohort import Cohort
from admission.policy.kinds import marks, quotas, rules
from admission.policy.kinds.rules import Row, Syntax


def _weight(cohort: Cohort) -> Iterable[FieldError]:
    return rules.errors(quotas.WEIGHTS, cohort.spec.fair_sharing)


def _quotas(cohort: Cohort) -> Iterator[FieldError]:
    spec = cohort.spec
    return quotas.errors(
        spec.resource_groups, quotas.COHORT_QUOTAS, has_parent=bool(spec.parent_name)
    )


RULES: Final[tuple[Row[Cohort], ...]] = (
    Syntax("Cohort 11", _weight),  # the rows of `quotas.WEIGHTS`
    Syntax("Cohort 1-7", _quotas),  # the rows of `quotas`
)


def errors(old: Cohort | None, new: Cohort) -> list[FieldError]:
    """Errors of a Cohort; ``old`` is None on creation."""
    return rules.errors(RULES, new) + marks.errors(marks.COHORT, old, new)
