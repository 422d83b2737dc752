"""The guide names every check, what it holds to, and what has to be read for it."""

import inspect

from admission.admin.doctor import checks
from tests.repo import tree

GUIDE = tree.ROOT / "docs" / "guides" / "doctor.md"


def _row(check: checks.DoctorCheck) -> str:
    rule = (inspect.getdoc(check.find) or "").partition("\n")[0].removesuffix(".")
    kinds = dict.fromkeys(one.kind for one in check.needs)
    return f"| `{check.name}` | {rule} | {', '.join(kinds) or '-'} |"


def test_the_table_of_the_guide_is_that_of_the_checks() -> None:
    rows = [_row(one) for one in checks.CHECKS]
    told = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    assert told == rows, "\n".join(rows)
