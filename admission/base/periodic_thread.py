"""A function that a thread calls at intervals."""

import threading
from collections.abc import Callable


class PeriodicThread:
    """A thread that runs rounds until it is stopped; a round that fails does not end it."""

    def __init__(
        self, name: str, do: Callable[[], float | None], failed: Callable[[Exception], float]
    ) -> None:
        """Begins with `start`.

        Args:
            name: of the thread.
            do: one round; seconds until the next one, None: there is no other.
            failed: takes what a round raised; seconds until the next one.
        """
        self._do = do
        self._failed = failed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, and do the first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further round; does not wait for one that is under way."""
        self._stopping.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the thread to end; return whether it did."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause: float | None = 0.0
        while pause is not None and not self._stopping.wait(pause):
            pause = self._round()

    def _round(self) -> float | None:
        try:
            return self._do()
        except Exception as error:  # noqa: BLE001  # the thread must live on
            return self._failed(error)
