"""Syntax of names and numbers, with the texts in which Kubernetes and Go report violations.

Source: k8s.io/apimachinery pkg/util/validation (validation.go), pkg/api/validate/content
(kube.go), Go strconv (atoi.go, atob.go).
"""

import re
from typing import Final

from admission.base import fielderrors
from admission.base.fielderrors import FieldError, FieldPath

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_QUALIFIED_RE = re.compile(_QUALIFIED)
_HTTP_PATH_RE = re.compile(_HTTP_PATH)
_INTEGER_RE = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]+)", re.ASCII)
_MOST_DIGITS: Final = 19
"""Digits of the largest number of 64 bits."""

_TRUE: Final = frozenset(["1", "t", "T", "true", "TRUE", "True"])
_FALSE: Final = frozenset(["0", "f", "F", "false", "FALSE", "False"])

SUBDOMAIN_MAX: Final = 253
NAME_MAX: Final = 63

_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    f" for validation is '{_SUBDOMAIN}')"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    f" validation is '{_QUALIFIED}')"
)


def subdomain_errors(text: str) -> list[str]:
    """Return the broken rules of a DNS-1123 subdomain; empty if it is one."""
    errors = []
    if len(text.encode()) > SUBDOMAIN_MAX:
        errors.append(f"must be no more than {SUBDOMAIN_MAX} characters")
    if not _SUBDOMAIN_RE.fullmatch(text):
        errors.append(_SUBDOMAIN_RULE)
    return errors


def subdomain(path: FieldPath, text: str) -> list[FieldError]:
    """Return one error with all broken rules of a DNS-1123 subdomain, as Kueue reports them."""
    errors = subdomain_errors(text)
    return [fielderrors.invalid(path, text, ",".join(errors))] if errors else []


def label_key(path: FieldPath, text: str) -> list[FieldError]:
    """Return the errors of a label key: a qualified name with an optional DNS prefix."""
    return [fielderrors.invalid(path, text, error) for error in _label_key_errors(text)]


def domain_prefixed_path(path: FieldPath, text: str) -> list[FieldError]:
    """Return the errors of a ``domain/path`` such as ``acme.io/foo``."""
    if not text:
        return [fielderrors.required(path)]
    host, _, rest = text.partition("/")
    if not host or not rest:
        rule = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [fielderrors.invalid(path, text, rule)]
    errors = [fielderrors.invalid(path, host, error) for error in subdomain_errors(host)]
    if not _HTTP_PATH_RE.fullmatch(rest):
        rule = f"Invalid path (regex used for validation is '{_HTTP_PATH}')"
        errors.append(fielderrors.invalid(path, rest, rule))
    return errors


def parse_integer(text: str, *, bits: int = 64) -> int | str:
    """Return the integer, or the words in which Go's ``strconv.Atoi`` refuses the text."""
    match = _INTEGER_RE.fullmatch(text)
    if match is None:
        return f'strconv.Atoi: parsing "{text}": invalid syntax'
    is_long = len(match["digits"]) > _MOST_DIGITS  # no int, not even one that is too large
    value = None if is_long else int(match["sign"] + match["digits"])
    if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        return f'strconv.Atoi: parsing "{text}": value out of range'
    return value


def whole_number(text: str) -> int | None:
    """Return the number from 0 on that a text of decimal digits is; None for any other text.

    None also for a number of more than 64 bits, which nothing that is counted has.
    """
    if not text.isascii() or not text.isdecimal():
        return None
    value = parse_integer(text)
    return value if isinstance(value, int) else None


def parse_boolean(text: str) -> bool | str:
    """Return the boolean, or the words in which Go's ``strconv.ParseBool`` refuses the text."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return f'strconv.ParseBool: parsing "{text}": invalid syntax'


def _label_key_errors(text: str) -> list[str]:
    prefix, slash, name = text.partition("/")
    if not slash:
        return _name_part_errors(text)
    if "/" in name:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_QUALIFIED_RULE} {optional}"]
    if not prefix:
        return ["prefix part must be non-empty", *_name_part_errors(name)]
    errors = [f"prefix part {error}" for error in subdomain_errors(prefix)]
    return errors + _name_part_errors(name)


def _name_part_errors(name: str) -> list[str]:
    errors = []
    if not name:
        errors.append("name part must be non-empty")
    elif len(name.encode()) > NAME_MAX:
        errors.append(f"name part must be no more than {NAME_MAX} bytes")
    if not _QUALIFIED_RE.fullmatch(name):
        errors.append(f"name part {_QUALIFIED_RULE}")
    return errors
