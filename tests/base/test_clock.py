"""Times on the wire."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from admission.base import clock

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_times_are_written_as_the_api_server_does():
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=2)))

    assert clock.to_wire(elsewhere) == "2026-01-02T03:04:05Z"
    assert clock.to_wire_micro(elsewhere) == "2026-01-02T03:04:05.678901Z"


def test_what_is_written_reads_back():
    assert clock.from_wire(clock.to_wire_micro(MOMENT)) == MOMENT
    assert clock.from_wire("2026-01-02T05:04:05+02:00") == MOMENT.replace(microsecond=0)


@pytest.mark.parametrize("text", ["yesterday", "2026-01-02T03:04:05", ""])
def test_what_is_no_time(text):
    with pytest.raises(ValueError, match=r"zone|isoformat"):
        clock.from_wire(text)


def test_the_machine_clock_is_aware_and_never_goes_back():
    machine = clock.SystemClock()

    assert machine.now().utcoffset() == timedelta(0)
    first = machine.monotonic()
    assert machine.monotonic() >= first
