"""Streams that tell browsers that something changed; what changed, they fetch as a page.

A stream holds a thread and a number, and nothing of what is shown. There are so many at once; a
browser that gets none asks for its page from time to time.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Final

import flask

from admission.serve import statuses

MOST: Final = 32
"""Streams at once."""
MOST_SECONDS: Final = 300.0
"""Life of a stream; then the browser opens the next one."""
_PAUSE_SECONDS: Final = 2.0
_RETRY_MILLISECONDS: Final = 3_000


class Streams:
    """Counts streams, and feeds them."""

    def __init__(self, revision: Callable[[], int], wait: Callable[[float], bool]) -> None:
        """Opens none yet.

        Args:
            revision: a number that differs whenever something may have changed.
            wait: lets some seconds pass; true where the process is about to end.
        """
        self._revision = revision
        self._wait = wait
        self._guard = threading.Lock()
        self._open = 0

    def answer(self) -> flask.Response:
        """Return a stream of server-sent events.

        Raises:
            RefusedError: there are too many.
        """
        with self._guard:
            if self._open >= MOST:
                raise statuses.not_ready("Too many pages are watched.")
            self._open += 1
        response = flask.Response(self._events(), content_type="text/event-stream")
        response.headers["X-Accel-Buffering"] = "no"  # proxies must not collect events
        response.call_on_close(self._closed)
        return response

    def _closed(self) -> None:
        with self._guard:
            self._open -= 1

    def _events(self) -> Iterator[bytes]:
        """Gives the revision and each later one, and else a comment, which finds out who has gone.

        The first lets a browser see what changed after its page was made.
        """
        previous = self._look(0)
        yield f"retry: {_RETRY_MILLISECONDS}\ndata: {previous}\n\n".encode()
        for _ in range(int(MOST_SECONDS / _PAUSE_SECONDS)):
            if self._wait(_PAUSE_SECONDS):
                return
            now = self._look(previous)
            yield b": nothing new\n\n" if now == previous else f"data: {now}\n\n".encode()
            previous = now

    def _look(self, before: int) -> int:
        try:
            return self._revision()
        except statuses.RefusedError:
            return before
