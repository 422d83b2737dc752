"""Where the controllers' events go."""

from collections.abc import Mapping
from typing import Any, Protocol


class Events(Protocol):
    """Takes events to be written to the API server; never blocks."""

    def event(self, regarding: Mapping[str, Any], type_: str, reason: str, note: str) -> None:
        """Records one event."""
        ...
