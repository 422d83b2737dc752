"""Indexes of a batch/v1 Job as its status lists them: ``1,3-5``.

Source: kubernetes batch/v1 (JobStatus.completedIndexes, failedIndexes); kueue
pkg/controller/jobs/job/job_controller.go (terminalIndexesCount).
"""

from collections.abc import Iterable
from typing import Final

_MOST_DIGITS: Final = 10
"""A Job has fewer than 2^31 completions."""


def count(texts: Iterable[str], below: int) -> int:
    """How many indexes under a limit are listed in at least one of the texts.

    What cannot be read is left out: it frees no quota.
    """
    spans = sorted(span for text in texts for part in text.split(",") if (span := _span(part)))
    total, free = 0, 0
    for first, last in spans:
        start, end = max(first, free), min(last, below - 1)
        total += max(0, end - start + 1)
        free = max(free, end + 1)
    return total


def _span(text: str) -> tuple[int, int] | None:
    """First and last index of ``3`` or ``3-5``; None for anything else."""
    first, dash, last = text.partition("-")
    numbers = (first, last if dash else first)
    if not all(_is_number(one) for one in numbers):
        return None
    return int(first), int(numbers[1])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
