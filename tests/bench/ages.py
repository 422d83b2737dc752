"""How old a published number is: from when a change was made to when the number tells of it."""

import bisect
from collections.abc import Iterator, Sequence


def ages(
    made: Sequence[float], shown: Sequence[tuple[float, int]], start: float, end: float
) -> list[float]:
    """The greatest age in seconds that each text had before the next one replaced it.

    What is counted only grows, so the oldest change that a text lacks is known.

    Args:
        made: moments of the changes, in order; each adds one.
        shown: moment and count of each text, in order.
        start: texts that were replaced earlier are left out.
        end: the last text is looked at then.
    """
    return [age for moment, age in _replaced(made, shown, end) if start <= moment <= end]


def _replaced(
    made: Sequence[float], shown: Sequence[tuple[float, int]], end: float
) -> Iterator[tuple[float, float]]:
    """When each text ended, and how old it was then; 0 where it lacked nothing."""
    known = 0
    for moment, count in [*shown, (end, known_by(shown, end))]:
        lacking = known < len(made) and made[known] < moment
        yield moment, moment - made[known] if lacking else 0.0
        known = max(known, count)


def known_by(shown: Sequence[tuple[float, int]], moment: float) -> int:
    """The count that was shown last by a moment; 0 before the first text."""
    place = bisect.bisect_right(shown, moment, key=lambda text: text[0])
    return shown[place - 1][1] if place else 0
