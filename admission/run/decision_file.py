"""The log lines about decisions, also in a file, where a volume is configured for them.

The thread that logs only puts a line into a queue of limited length; a thread of its own writes.
What does not find room is left out, and the next line says how many were.
"""

import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from admission.base import logs
from admission.config.gpu_configuration import Decisions

COMPONENT: Final = "decisions"
_QUEUED: Final = 10_000
_STOP_SECONDS: Final = 2.0


class DecisionFile:
    """Writes decisions to a file, and begins another one when it is too large."""

    def __init__(self, path: Path, max_bytes: int, files: int, *, room: int = _QUEUED) -> None:
        """Write nothing yet.

        Args:
            path: of the file.
            max_bytes: size above which another one is begun.
            files: how many are kept.
            room: lines that may wait to be written.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._lines: queue.Queue[bytes | None] = queue.Queue(room)
        self._left_out = 0
        self._has_failed = False
        self._log = logs.get("controller")
        self._thread = threading.Thread(target=self._run, name="decisions", daemon=True)

    @classmethod
    def of(cls, settings: Decisions) -> Self | None:
        """Return what is configured; None for no file."""
        if not settings.file:
            return None
        return cls(Path(settings.file), settings.max_bytes, settings.files)

    def start(self) -> None:
        """Begin to take and to write lines."""
        logs.pass_on(COMPONENT, self.take)
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, and end; wait no longer than 2 s."""
        logs.end_passing_on(COMPONENT, self.take)
        try:
            self._lines.put(None, timeout=_STOP_SECONDS)
        except queue.Full:
            return
        self._thread.join(_STOP_SECONDS)

    def take(self, line: Mapping[str, Any]) -> None:
        """Take a line; never blocks. Called by one thread: that which decides."""
        fields = {"left_out_before": self._left_out} if self._left_out else {}
        try:
            self._lines.put_nowait(f"{logs.to_json({**line, **fields})}\n".encode())
        except queue.Full:
            self._left_out += 1
        else:
            self._left_out = 0

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except OSError as error:
                if not self._has_failed:
                    self._log.error(
                        "decisions not written", path=str(self._path), error=str(error)
                    )
                self._has_failed = True
            else:
                self._has_failed = False

    def _write(self, line: bytes) -> None:
        size = self._path.stat().st_size if self._path.exists() else 0
        if size and size + len(line) > self._max_bytes:
            self._rotate()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        with os.fdopen(descriptor, "wb") as file:
            file.write(line)

    def _rotate(self) -> None:
        """Give each file the next number; the oldest one goes."""
        for number in range(self._files - 1, 0, -1):
            newer = self._numbered(number - 1)
            if newer.exists():
                newer.replace(self._numbered(number))
        self._path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
