"""Where the controllers' events go."""

from collections.abc import Mapping
from typing import Any, Protocol


class Events(Protocol):
    """Takes events to be written to the API server; never blocks."""

    def event(
        self,
        regarding: Mapping[str, Any],
        type_: str,
        reason: str,
        note: str,
        *,
        cause: str = "",
    ) -> None:
        """Record one event.

        Args:
            regarding: reference to the object.
            type_: ``Normal`` or ``Warning``.
            reason: CamelCase word.
            note: a sentence.
            cause: events that share it are one series, under the first note; empty: repeats of
                the same note are.
        """
        ...
