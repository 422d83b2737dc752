"""CPU time and memory of processes, from /proc."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12
"""Places in /proc/PID/stat, counted from the field behind the name."""


def tree(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in _children(task):
            yield from tree(child)


def _children(task: Path) -> tuple[int, ...]:
    """Processes that a thread started; none where the thread has ended meanwhile."""
    try:
        return tuple(int(child) for child in (task / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return ()


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that the processes have used so far, in user and system mode."""
    used = (stat_fields(Path(f"/proc/{pid}/stat").read_text()) for pid in pids)
    return sum(int(fields[_USER]) + int(fields[_SYSTEM]) for fields in used) * _TICK


def stat_fields(text: str) -> list[str]:
    """The fields of a stat file behind the name, which may hold blanks and brackets."""
    return text.rpartition(")")[2].split()


def peak_mib(pids: Iterable[int]) -> float:
    """Sum of the largest resident size that each process ever had, in MiB."""
    return round(sum(_peak_kib(Path(f"/proc/{pid}/status").read_text()) for pid in pids) / 1024, 1)


def _peak_kib(status: str) -> int:
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])
