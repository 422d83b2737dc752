"""The clock that is passed to whatever needs the time, so that tests can set it."""

import time
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Source of time: wall time for what is written, monotonic time for what is measured."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary start; never goes back."""
        return time.monotonic()


def to_wire(moment: datetime) -> str:
    """Return RFC 3339 with whole seconds, as metav1.Time writes it (``2026-01-02T03:04:05Z``)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_wire_micro(moment: datetime) -> str:
    """Return RFC 3339 with six fraction digits, as metav1.MicroTime demands."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_wire(text: str) -> datetime:
    """Read an RFC 3339 time.

    Raises:
        ValueError: the text is no RFC 3339 time with a zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r}: a time needs a zone")
    return moment.astimezone(UTC)
