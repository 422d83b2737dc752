"""Counts the steps that our code takes: bytecode instructions, which no machine changes."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import admission

_ROOT: Final = str(Path(admission.__file__).parent)

Tracer = Callable[[FrameType, str, Any], Any]


class Steps:
    """Instructions of `admission` that ran inside `counting`, by the code they belong to."""

    def __init__(self) -> None:
        self._codes: Counter[CodeType] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count everything that this thread runs."""

        def on_event(frame: FrameType, event: str, _: Any) -> Tracer | None:
            if event == "call":
                if not frame.f_code.co_filename.startswith(_ROOT):
                    return None
                frame.f_trace_opcodes, frame.f_trace_lines = True, False
            elif event == "opcode":
                self._codes[frame.f_code] += 1
            return on_event

        before = sys.gettrace()
        sys.settrace(on_event)
        try:
            yield
        finally:
            sys.settrace(before)

    @property
    def total(self) -> int:
        """Return how many there were."""
        return self._codes.total()

    def by_function(self) -> Counter[str]:
        """Return how many each function took, by its qualified name."""
        found: Counter[str] = Counter()
        for code, count in self._codes.items():
            found[code.co_qualname] += count
        return found
