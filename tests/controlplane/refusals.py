"""Refusals of the API server by a schema or its rules.

Versions before 1.36 name another type of numbers, and those before 1.35 show another value, and
members of lists as Go does. There, texts are compared without these.
"""

import json
import re
from typing import Final

from tests.controlplane import programs
from tests.controlplane.rest import RestError

NOT_CHECKED: Final = "some validation rules were not checked because the object was invalid"
_VALUE: Final = re.compile(r'Invalid value: "[^"]*": ')
_NUMBER: Final = re.compile(r'must be of type (?:int32|int64|integer): "[^"]*"')
_MEMBER: Final = re.compile(r"Duplicate value: (?:map\[string\]interface \{\})?(\{.*\})")


def field_errors(refused: RestError) -> set[str]:
    """Return the field errors of a 422, as `words`, without the note that CEL did not run."""
    assert refused.status == 422, refused
    details = json.loads(refused.body)["details"]
    lines = {f"{cause['field']}: {cause['message']}" for cause in details["causes"]}
    return {words(line) for line in lines if NOT_CHECKED not in line}


def words(text: str) -> str:
    """Return a text without what older versions say otherwise, where one of these runs."""
    if programs.minor() < (1, 36):
        text, numbers = _NUMBER.subn("must be of type integer", text)
        if numbers:
            text = _VALUE.sub("Invalid value: ", text)
    if programs.minor() >= (1, 35):
        return text
    text = _VALUE.sub("Invalid value: ", text)
    return _MEMBER.sub(lambda match: f"Duplicate value: {match[1].replace(', ', ',')}", text)
