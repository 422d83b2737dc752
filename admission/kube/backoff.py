"""How long to wait after failures that follow each other."""

import random
from typing import Final

FIRST_SECONDS: Final = 0.8
LONGEST_SECONDS: Final = 10.0
_HEALTHY_SECONDS: Final = 60.0
_JITTER: Final = 0.5


class Backoff:
    """Exponential waits with jitter, from the start again after a healthy minute.

    Source: the figures are those of client-go's reflector, but for the longest wait, which is 30 s
    there: pods wait for what these watches bring, and there are few of them.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        first_seconds: float = FIRST_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._rng = rng
        self._first = first_seconds
        self._longest = longest_seconds
        self._next = first_seconds
        self._last_failure: float | None = None

    def reset(self) -> None:
        """Begins with the first wait again."""
        self._next = self._first

    def failed(self, now: float, retry_after: float | None = None) -> float:
        """Seconds to wait after a failure at ``now`` (monotonic seconds).

        What the server asked for, where it did, with jitter on top, so that many clients do not
        come back at once; such waits do not grow.
        """
        if self._last_failure is not None and now - self._last_failure > _HEALTHY_SECONDS:
            self._next = self._first
        if retry_after is None:
            wait = self._next
            self._next = min(self._longest, self._next * 2)
        else:
            wait = max(self._first, retry_after)
        wait *= 1 + _JITTER * self._rng.random()
        # The wait itself is no healthy time.
        self._last_failure = now + wait
        return wait
