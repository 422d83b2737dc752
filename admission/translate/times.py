"""Times of the API to microseconds and back."""

from datetime import UTC, datetime, timedelta
from typing import Final

from admission.base import clock
from admission.base.errors import InvalidValueError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch of an aware time."""
    return (moment - _EPOCH) // _MICROSECOND


def from_us(value: int) -> datetime:
    """The aware time of a number of microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=value)


def parse(text: str | None, field: str) -> int | None:
    """Microseconds since the epoch of an RFC 3339 text; None for a missing one.

    Raises:
        InvalidValueError: the text is no time; the rule names the field.
    """
    if not text:
        return None
    try:
        return to_us(clock.from_wire(text))
    except ValueError as error:
        raise InvalidValueError(text, f"{field}: must be an RFC 3339 time") from error
