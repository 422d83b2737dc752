"""Durations as Go writes them (``1h30m``, ``500ms``) to whole microseconds and back.

Source: Go package time, ParseDuration and Duration.String; metav1.Duration uses both.
"""

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

from admission.base.errors import InvalidValueError

_LONGEST: Final = 128
RULE: Final = "must be a duration such as 500ms, 15s or 1h30m"
_UNITS: Final = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "\N{MICRO SIGN}s": Fraction(1),
    "\N{GREEK SMALL LETTER MU}s": Fraction(1),
    "ms": Fraction(1000),
    "s": Fraction(10**6),
    "m": Fraction(60 * 10**6),
    "h": Fraction(3600 * 10**6),
}
_PART: Final = r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>ns|us|[\u00b5\u03bc]s|ms|s|m|h)"
_PARTS: Final = re.compile(_PART)
_WHOLE: Final = re.compile(rf"[+-]?(?:0|(?:{re.sub(r'[?]P<[a-z]+>', '?:', _PART)})+)")


def parse(text: str) -> int:
    """Return the duration in microseconds; what is finer is cut off towards zero.

    Raises:
        InvalidValueError: the text is no duration.
    """
    if len(text) > _LONGEST:  # an int has few digits
        raise InvalidValueError(text, f"must have at most {_LONGEST} characters")
    if _WHOLE.fullmatch(text) is None:
        raise InvalidValueError(text, RULE)
    total = sum(
        (_exact(part["number"]) * _UNITS[part["unit"]] for part in _PARTS.finditer(text)),
        start=Fraction(0),
    )
    return -int(total) if text.startswith("-") else int(total)


def to_wire(microseconds: int) -> str:
    """Return the text of a duration in as few parts as possible: ``1h30m``, ``15s``, ``500ms``."""
    if microseconds == 0:
        return "0s"
    parts, rest = [], abs(microseconds)
    for unit in ("h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, int(_UNITS[unit]))
        parts += [f"{count}{unit}"] if count else []
    return ("-" if microseconds < 0 else "") + "".join(parts)


def narrowed(seconds: int | None, *narrowing: int | None) -> int:
    """Return what is given, as far as nobody says less; 0 where nothing is given."""
    return min(limit for limit in (seconds or 0, *narrowing) if limit is not None)


def age(passed: timedelta) -> str:
    """Return how long ago something was, as kubectl shows it: ``90s``, ``12m``, ``3h``, ``2d``."""
    seconds = max(0, int(passed.total_seconds()))
    for unit, size, until in (("s", 1, 120), ("m", 60, 120 * 60), ("h", 3600, 48 * 3600)):
        if seconds < until:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"


def within(left: timedelta) -> str:
    """Return the time left before something, rounded up: ``1m``, ``90m``, ``3h``, ``2d``."""
    seconds = max(1, -(-left // timedelta(seconds=1)))
    for unit, size, until in (("m", 60, 120 * 60), ("h", 3600, 48 * 3600)):
        if seconds <= until:
            return f"{-(-seconds // size)}{unit}"
    return f"{-(-seconds // 86400)}d"


def _exact(number: str) -> Fraction:
    return Fraction(f"0{number}" if number.startswith(".") else number.removesuffix("."))
