"""The ConfigMaps that say that break glass is on, and when it was on before.

See docs/adr/0214-what-is-let-run-outside-of-quota.md.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from admission.base import clock as clocks

RECORD: Final = "gpu-admission-break-glass"
"""The ConfigMap that keeps what was taken away; it is there while break glass is on."""

TIMES: Final = "gpu-admission-break-glass-times"
"""The ConfigMap that keeps when break glass was on."""

MOST_TIMES: Final = 20
"""Times that are kept; older ones are forgotten."""

_DATA: Final = "times.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenTime:
    """A time in which new pods passed without quota, by the API server's clock.

    Attributes:
        begin: when it began.
        end: the last moment of it; None while it goes on.
    """

    begin: datetime
    end: datetime | None = None

    def has(self, moment: datetime) -> bool:
        """Return whether a moment is in it."""
        return self.begin <= moment and (self.end is None or moment <= self.end)


def times(config_map: Mapping[str, Any]) -> tuple[BrokenTime, ...]:
    """Return the times that a ConfigMap keeps, the oldest first.

    Raises:
        ValueError: it keeps something else.
    """
    try:
        return tuple(
            BrokenTime(begin=clocks.from_wire(each["from"]), end=clocks.from_wire(each["to"]))
            for each in json.loads((config_map.get("data") or {}).get(_DATA, "[]"))
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{_DATA}: {error}") from error


def times_document(namespace: str, kept: Sequence[BrokenTime]) -> dict[str, Any]:
    """Return the ConfigMap that keeps the last of these times."""
    listed = [
        {"from": clocks.to_wire(each.begin), "to": clocks.to_wire(each.end)}
        for each in kept[-MOST_TIMES:]
        if each.end is not None
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": TIMES, "namespace": namespace},
        "data": {_DATA: json.dumps(listed)},
    }


def time_of(created: str, broken: Iterable[BrokenTime]) -> BrokenTime | None:
    """Return in which of the times something was created; None for none, or without a date."""
    moment = clocks.from_wire(created) if created else None
    return next((each for each in broken if moment is not None and each.has(moment)), None)
