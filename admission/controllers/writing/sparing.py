"""Events that may be left out: a few a second are written, so that they never are the load."""

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from admission.base import metrics
from admission.base.clock import Clock
from admission.base.events import Event, Events

_EACH_MS: Final = 200
_AT_ONCE: Final = 50


class SparingEvents(Events):
    """Passes on 50 events at once and five a second; further ones are left out, and counted."""

    def __init__(self, events: Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._spent_until_ms = 0

    @override
    def event(self, regarding: Mapping[str, Any], event: Event) -> None:
        """Records one event, or leaves it out."""
        now_ms = int(self._clock.monotonic() * 1000)
        spent_until_ms = max(self._spent_until_ms, now_ms) + _EACH_MS
        if spent_until_ms - now_ms > _AT_ONCE * _EACH_MS:
            metrics.EVENTS_LEFT_OUT.inc()
            return
        self._spent_until_ms = spent_until_ms
        self._events.event(regarding, event)
