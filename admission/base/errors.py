"""The base classes of the program's exceptions.

AdmissionError
  ├── InvalidValueError   a text or object breaks a rule; names the field
  └── InternalError       should never happen; the caller may not trust the result
Each boundary adds its own small tree (see ``admission.kube.errors``).
"""

from typing import Final

from admission.base.json_answers import ErrorCode

_SHOWN: Final = 200
"""Characters of a value that its error shows."""


class AdmissionError(Exception):
    """Base of every exception that this program raises on purpose.

    Attributes:
        advice: what to do about it; empty where nothing is known.
        error_code: by which programs tell it apart from others; None where it has none of its own.
    """

    advice: str = ""
    error_code: ErrorCode | None = None


class InvalidValueError(AdmissionError, ValueError):
    """A value breaks a rule.

    Attributes:
        value: the offending value, as text.
        rule: what it should have been.
    """

    def __init__(self, value: str, rule: str) -> None:
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        super().__init__(f"{shown!r}: {rule}")
        self.value = value
        self.rule = rule


class InternalError(AdmissionError):
    """An invariant of the program itself is broken; a bug, never a user's mistake."""
