"""A week of GPU-time by ClusterQueue, as columns of a small picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from admission.gpu import resources
from admission.objects.usage_record import DAY, HOUR, Record
from admission.serve.dashboard import shades
from admission.serve.dashboard.shades import Shade

DAYS: Final = 7
_FEW_TENTHS: Final = 1_000
"""Of an hour: below, amounts are told to a tenth."""
HEIGHT: Final = 100
"""Of the highest column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one ClusterQueue used on a day.

    Attributes:
        shade: class of the style sheet.
        top: where it begins, from above.
        height: of it.
    """

    shade: str
    top: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A day.

    Attributes:
        day: as ``Mon 24``.
        parts: from the bottom, the last of the legend first.
        text: the same in words.
        is_known: whether there are records of it.
        is_complete: whether nothing is missing in them.
    """

    day: str
    parts: tuple[Part, ...]
    text: str
    is_known: bool
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A ClusterQueue of the legend.

    Attributes:
        name: of it; empty for all that have no shade of their own.
        shade: class of the style sheet.
        count: how many ClusterQueues it stands for.
        hours: GPU-hours of the week, in words.
    """

    name: str
    shade: str
    count: int
    hours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A week.

    Attributes:
        columns: days, the present one last.
        legend: ClusterQueues with their GPU-hours of the week, as they lie in a column from above.
        total: GPU-hours of the week, in words.
        highest: GPU-hours of the highest column, in words.
        highest_day: the day of that column.
    """

    columns: tuple[Column, ...]
    legend: tuple[Entry, ...]
    total: str
    highest: str
    highest_day: str

    @property
    def has_gaps(self) -> bool:
        """Return whether there is no record of a day."""
        return not all(column.is_known for column in self.columns)

    @property
    def has_holes(self) -> bool:
        """Return whether something is missing in the records of a day."""
        return any(column.is_known and not column.is_complete for column in self.columns)


def of(records: Sequence[Record], resource: str, ranked: Sequence[str], now: datetime) -> Trend:
    """Return the week that ends now; amounts are GPU-hours.

    Args:
        records: of GPU-time.
        resource: whose time is shown.
        ranked: ClusterQueues, see `shades.ranking`.
        now: the end.
    """
    days = _days(now)
    by_day = {day: _of_day(records, day, lambda name: name == resource) for day in days}
    sums: dict[str, int] = {}
    for amounts_of_day in by_day.values():
        for queue, seconds in amounts_of_day.items():
            sums[queue] = sums.get(queue, 0) + seconds
    legend = shades.of(sums, ranked)
    sums_of_days = {day: sum(amounts_of_day.values()) for day, amounts_of_day in by_day.items()}
    highest_day = max(days, key=lambda day: sums_of_days[day])
    highest = sums_of_days[highest_day]
    return Trend(
        columns=tuple(_column(records, day, by_day[day], legend, highest) for day in days),
        legend=tuple(
            Entry(
                name=shade.name, shade=shade.shade, count=shade.count, hours=_hours(shade.amount)
            )
            for shade in legend
        ),
        total=_hours(sum(sums.values())),
        highest=_hours(highest),
        highest_day=_label(highest_day),
    )


def gpu_time(records: Sequence[Record], now: datetime) -> dict[str, int]:
    """Return the GPU-seconds of the week that ends now, all devices together, by ClusterQueue."""
    sums: dict[str, int] = {}
    for day in _days(now):
        for queue, seconds in _of_day(records, day, resources.is_device).items():
            sums[queue] = sums.get(queue, 0) + seconds
    return sums


def _days(now: datetime) -> list[int]:
    """Return when the days of the week that ends now begin."""
    today = int(now.timestamp()) // DAY * DAY
    return [today - DAY * back for back in range(DAYS - 1, -1, -1)]


def _label(day: int) -> str:
    return datetime.fromtimestamp(day, UTC).strftime("%a %d")


def _of_day(
    records: Sequence[Record], day: int, is_shown: Callable[[str], bool]
) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for record in records:
        if day <= record.begin < day + DAY:
            for account, seconds in record.usage.items():
                if is_shown(account.resource):
                    queue = account.cluster_queue or "(others)"
                    amounts[queue] = amounts.get(queue, 0) + seconds
    return amounts


def _column(
    records: Sequence[Record],
    day: int,
    sums: dict[str, int],
    legend: Sequence[Shade],
    highest: int,
) -> Column:
    of_day = [record for record in records if day <= record.begin < day + DAY]
    coloured = shades.by_name(legend)
    amounts = {shade: sums.get(name, 0) for name, shade in coloured.items()}
    amounts[shades.OTHERS] = sum(n for name, n in sums.items() if name not in coloured)
    parts, filled = [], 0
    for shade, seconds in reversed(amounts.items()):
        before = filled * HEIGHT // max(1, highest)
        filled += seconds
        height = filled * HEIGHT // max(1, highest) - before
        if height:
            parts.append(Part(shade=shade, top=HEIGHT - before - height, height=height))
    label = _label(day)
    named = [f"{name} {_hours(sums[name])}" for name in coloured if sums.get(name)]
    total_text = f"{_hours(filled)} GPU-hours" if of_day else "no record"
    return Column(
        day=label,
        parts=tuple(parts),
        text=f"{label}: {total_text}" + (f" ({', '.join(named)})" if named else ""),
        is_known=bool(of_day),
        is_complete=bool(of_day) and not any(record.holes for record in of_day),
    )


def _hours(seconds: int) -> str:
    """Return hours, rounded: to a tenth as long as there are few."""
    tenths = (seconds * 10 + HOUR // 2) // HOUR
    if 0 < tenths < _FEW_TENTHS and tenths % 10:
        return f"{tenths // 10}.{tenths % 10}"
    return f"{(seconds + HOUR // 2) // HOUR:,}" if tenths or not seconds else "<0.1"
