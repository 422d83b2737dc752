"""Which rows of the tables of rules a review breaks."""

from collections.abc import Callable
from typing import Any

import pytest

from admission.objects import rule_checks


def broken(monkeypatch: pytest.MonkeyPatch, judge: Callable[[], object]) -> set[str]:
    """The ids of the rows that find an error while ``judge`` runs, in whatever table."""
    found: set[str] = set()
    errors = rule_checks.errors

    def recording(table: Any, subject: Any) -> Any:
        found.update(row.id for row in table if row.errors(subject))
        return errors(table, subject)

    with monkeypatch.context() as patched:
        patched.setattr(rule_checks, "errors", recording)
        judge()
    return found
