"""Tables and sentences that are no wider than the terminal, and ages as kubectl shows them."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from admission.base import clock, durations
from admission.cli import output

_GAP: Final = 2
_LEAST: Final = 12
_CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        head: its heading.
        right: whether it is aligned to the right.
        whole: whether its texts are never cut, though they are aligned to the left.
        goes: where the table is too wide, columns are left out, the highest number first; 0 for
            one that always stays.
    """

    head: str
    right: bool = False
    whole: bool = False
    goes: int = 0


def width() -> int:
    """Return how wide the terminal is; 0 where nothing limits a line: a pipe, or `-o wide`."""
    if output.is_wide():
        return 0
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return 0


def table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the lines of a table.

    Where it is too wide, texts of columns that are aligned to the left are cut; where that is not
    enough, columns are left out, which the last line tells.

    Args:
        columns: of the table.
        rows: texts, one for each column.
        width: width in characters; 0 for any.
    """
    kept = list(range(len(columns)))
    while True:
        widths = _widths(columns, rows, kept, width)
        leaves = [index for index in kept if columns[index].goes]
        if not width or not leaves or _total(widths) <= width:
            break
        kept.remove(max(leaves, key=lambda index: columns[index].goes))
    heads = [column.head for column in columns]
    lines = [_line(columns, row, kept, widths) for row in (heads, *rows)]
    gone = [columns[index].head.lower() for index in range(len(columns)) if index not in kept]
    if gone:
        lines += sentence(f"not shown for lack of room: {', '.join(gone)}", width)
    return [line[:width] if width else line for line in lines]


UNKNOWN: Final = "?"


def without_unknown(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]
) -> tuple[list[TableColumn], list[list[str]]]:
    """Return columns and rows without the columns of which nothing is known in any row."""
    kept = [
        index
        for index in range(len(columns))
        if not rows or any(row[index] != UNKNOWN for row in rows)
    ]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def with_texts(lines: Sequence[str], texts: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines of a table, each row with a text below it where there is one.

    Args:
        lines: as `table` returns them.
        texts: one for each row.
        width: width in characters; 0 for any.
    """
    yield lines[0]
    for line, text in zip(lines[1:], texts, strict=False):
        yield line
        if text:
            yield from sentence(f"    {text}", width, "    ")
    yield from lines[1 + len(texts) :]


def _widths(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], kept: list[int], width: int
) -> list[int]:
    widths = [max(len(columns[i].head), *(len(row[i]) for row in rows), 0) for i in kept]
    flexible = [
        at
        for at, index in enumerate(kept)
        if not columns[index].right and not columns[index].whole
    ]
    while width and _total(widths) > width:
        widest = max(flexible, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= max(_LEAST, len(columns[kept[widest]].head)):
            break
        widths[widest] -= 1
    return widths


def _total(widths: list[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _line(
    columns: Sequence[TableColumn], row: Sequence[str], kept: list[int], widths: list[int]
) -> str:
    cells = []
    for index, size in zip(kept, widths, strict=True):
        text = row[index] if len(row[index]) <= size else row[index][: size - 1] + _CUT
        cells.append(text.rjust(size) if columns[index].right else text.ljust(size))
    return (" " * _GAP).join(cells).rstrip()


def sentence(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines; those after the first are indented, and names stay whole.

    Commands in it are for the cluster that the present one was told to use.

    Args:
        text: of words.
        width: width in characters; 0 for any.
        indent: before each line but the first.
    """
    from admission.cli import clusters  # noqa: PLC0415 - it imports modules that import this one

    text = clusters.repeated(text)
    if not width:
        return [text]
    size = max(width, 2 * _LEAST)
    return textwrap.wrap(text, size, subsequent_indent=indent, break_on_hyphens=False)


def age(since: str, now: datetime) -> str:
    """Return how long ago a time of the API server is, as kubectl shows it; empty for no time."""
    try:
        return durations.age(now - clock.from_wire(since)) if since else ""
    except ValueError:
        return ""


def listed(items: Iterable[str], limit: int = 3) -> str:
    """Return names in a sentence: the first few, and how many more there are."""
    every = list(items)
    shown = ", ".join(every[:limit])
    return f"{shown} and {len(every) - limit} more" if len(every) > limit else shown


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``0 Workloads``, ``1 Workload``, ``1,200 Workloads``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
