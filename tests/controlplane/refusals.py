"""Refusals of the API server by a schema or its rules, in the words of Kubernetes 1.36."""

import json
import re
from typing import Final

from tests.controlplane import programs
from tests.controlplane.rest import RestError

NOT_CHECKED: Final = "some validation rules were not checked"
_WITH_KIND: Final = re.compile(r'Invalid value: "(?:object|array|string|integer|boolean)": (?=\S)')
"""Older versions show what kind of value broke a rule, as of a value of a wrong kind."""
_OF_WRONG_KIND: Final = re.compile(r"in body (?:must|should) ")
_TWICE: Final = re.compile(r"Duplicate value: (\{.*\})")


def field_errors(refused: RestError) -> set[str]:
    """Return the field errors of a 422, without the note that CEL did not run."""
    assert refused.status == 422, refused
    details = json.loads(refused.body)["details"]
    lines = {f"{cause['field']}: {cause['message']}" for cause in details["causes"]}
    return {words(line) for line in lines if NOT_CHECKED not in line}


def words(text: str) -> str:
    """Return what an older version says as 1.36 says it; one error."""
    if programs.minor() >= (1, 34):
        return text
    if not _OF_WRONG_KIND.search(text):
        text = _WITH_KIND.sub("Invalid value: ", text, count=1)
    return _TWICE.sub(_as_go, text)


def _as_go(match: re.Match[str]) -> str:
    members = (
        f"{json.dumps(key)}:{json.dumps(value)}" for key, value in json.loads(match[1]).items()
    )
    return f"Duplicate value: map[string]interface {{}}{{{', '.join(members)}}}"
