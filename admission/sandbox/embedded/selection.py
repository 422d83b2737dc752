"""Label and field selectors in their text form.

Source: k8s.io/apimachinery pkg/labels/selector.go and pkg/fields; which fields a kind can be
selected by: k8s.io/kubernetes pkg/registry/core/pod/strategy.go.
"""

import re
from collections.abc import Callable
from typing import Final

from admission.base import selectors
from admission.base.selectors import Requirement
from admission.sandbox.embedded import refusals
from admission.sandbox.embedded.journal import Stored

Wanted = Callable[[Stored], bool]

_TERM: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<key0>[^\s,()=!]+)"
    r"|(?P<key1>[^\s,()=!]+)\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<key2>[^\s,()=!]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s,()=!]*)"
    r"|(?P<key3>[^\s,()=!]+))\s*(?:,|$)"
)
_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")


def parse(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a label selector; of an empty text none.

    Raises:
        BadRequestError: the text is no selector.
    """
    clauses, position = [], 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise refusals.bad_request(f"unable to parse requirement: {text[position:]!r}")
        clauses.append(_requirement(match))
        position = match.end()
    return tuple(clauses)


def wanted(label_selector: str, field_selector: str, fields: tuple[str, ...]) -> Wanted:
    """Return a test of both selectors; ``fields`` are the kind's paths besides name and namespace.

    Raises:
        BadRequestError: a selector cannot be read or asks for a field that is not served.
    """
    labels = selectors.compile_requirements(parse(label_selector))
    by_field = _fields(field_selector, fields)
    if not by_field:
        return lambda stored: labels(stored.labels)
    return lambda stored: (
        labels(stored.labels)
        and all((_value(stored, path) == value) is equal for path, equal, value in by_field)
    )


def _requirement(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["key0"], "DoesNotExist")
    if match["set"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(match["key1"], "In" if match["set"] == "in" else "NotIn", values)
    if match["op"]:
        operator = "NotIn" if match["op"] == "!=" else "In"
        return Requirement(match["key2"], operator, (match["value"],))
    return Requirement(match["key3"], "Exists")


def _fields(text: str, served: tuple[str, ...]) -> tuple[tuple[str, bool, str], ...]:
    fields = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        path, operator, value = re.split(r"(!=|==|=)", term, maxsplit=1) if "=" in term else (
            term, "", "")  # fmt: skip
        if not operator:
            raise refusals.bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        if path not in _METADATA_FIELDS and path not in served:
            raise refusals.bad_request(f"field label not supported: {path}")
        fields.append((path, operator != "!=", value))
    return tuple(fields)


def _value(stored: Stored, path: str) -> str:
    if path == "metadata.name":
        return stored.key.name
    if path == "metadata.namespace":
        return stored.key.namespace
    value: object = stored.document()
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)
