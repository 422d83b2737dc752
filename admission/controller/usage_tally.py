"""For how long who held what, and how far that was recorded. Pure: times are arguments.

A tally knows since when it has seen everything (`covers_from`) and up to when all was recorded
(`counted_to`). What another process has recorded is not counted again: whoever takes over sets
`counted_to` to what the newest record says, and what lies before `covers_from` is a hole.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from admission.base.names import ChargeKey
from admission.objects.usage_record import Account, OwnerAccount, Record, RecordedOwner, Runs

MOST_CLOSED: Final = 20_000
"""Spans that have ended and are kept; a standby keeps as many, as it does not know what counts."""

_POD: Final = ("Pod", "")
"""Kind and name of the row of pods that hold quota without a Workload."""


class RecordedHolding(NamedTuple):
    """What one Workload or pod holds.

    Attributes:
        uid: whose; another object of the same name holds for itself.
        since: when it was reserved; 0 where nobody knows.
        owner: what it was made for; None where its run time is not counted.
        amounts: by account, sorted; without zeros.
    """

    uid: str
    since: int
    owner: RecordedOwner | None
    amounts: tuple[tuple[Account, int], ...]


class HoldingSpan(NamedTuple):
    """A time in which one holder held the same.

    Attributes:
        holding: what was held.
        began: when the holder began to hold anything.
        begin: when it began to hold just this.
        end: when it ended; None for not yet.
        is_last: whether the holder held nothing afterwards.
    """

    holding: RecordedHolding
    began: int
    begin: int
    end: int | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUsage:
    """What is to be recorded of a time.

    Attributes:
        begin: everything before was recorded.
        until: when it ends.
        covers_from: since when everything was seen.
        spans: what was held, maybe before and after that time, too.
    """

    begin: int
    until: int
    covers_from: int
    spans: tuple[HoldingSpan, ...]


class UsageTally:
    """Who holds what now, and what was held and is not recorded yet.

    Attributes:
        covers_from: since when everything was seen; None before anything was listed.
        counted_to: up to when all is recorded; 0 where nobody has said.
    """

    def __init__(self) -> None:
        self.covers_from: int | None = None
        self.counted_to = 0
        self._taken_to = 0
        self._open: dict[ChargeKey, HoldingSpan] = {}
        self._closed: deque[HoldingSpan] = deque()
        self._ended: dict[str, HoldingSpan] = {}
        """The last of the closed spans of each holder, by UID."""

    def begin(self, holdings: Mapping[ChargeKey, RecordedHolding], now: int) -> None:
        """Take everything that is held when all was listed for the first time."""
        self.covers_from = now
        for key, holding in holdings.items():
            begin = min(holding.since or now, now)
            self._open[key] = HoldingSpan(holding, begin, begin)

    def update(self, key: ChargeKey, holding: RecordedHolding | None, now: int) -> None:
        """Take what a holder holds now; None for nothing."""
        holding_before = self._open.pop(key, None)
        if holding_before is None:
            if holding is not None:
                self._open[key] = self._started(holding, now)
            return
        if holding_before.holding == holding:
            self._open[key] = holding_before
            return
        end = max(holding_before.begin, now)
        if holding is None:
            self._close(holding_before, end, is_last=True)
            return
        was = holding_before.holding
        if (was.uid, was.since) == (holding.uid, holding.since):
            self._close(holding_before, end, is_last=False)
            self._open[key] = HoldingSpan(holding, holding_before.began, end)
            return
        between = min(max(holding_before.begin, holding.since, self._taken_to), end)
        self._close(holding_before, between if holding.since else end, is_last=True)
        self._open[key] = self._started(holding, now)

    def add_ended(self, holding: RecordedHolding, end: int) -> None:
        """Take what was held, and had ended before anything was listed."""
        self._closed.append(HoldingSpan(holding, holding.since, holding.since, end, is_last=True))

    def take(self, until: int) -> TakenUsage:
        """Return what is to be recorded up to a moment; it is kept until `counted` is told."""
        assert self.covers_from is not None
        self._taken_to = until
        return TakenUsage(
            begin=self.counted_to,
            until=until,
            covers_from=self.covers_from,
            spans=(*self._closed, *self._open.values()),
        )

    def counted(self, until: int) -> None:
        """Note that everything up to a moment is in a record, by whomever."""
        self.counted_to = self._taken_to = until
        self._closed = deque(span for span in self._closed if span.end is None or span.end > until)
        self._ended = {span.holding.uid: span for span in self._closed if span.is_last}

    def _started(self, holding: RecordedHolding, now: int) -> HoldingSpan:
        """Return the span of a holder that is new.

        It begins when the quota was reserved. It begins now where that time may be counted
        already, or where the same reservation was held before, and was not for a while.
        """
        begin, before = min(holding.since, now), self._ended.get(holding.uid)
        if begin < max(self._taken_to, 1):
            begin = now
        elif before is not None and before.end is not None:
            is_same = before.holding.since == holding.since
            begin = now if is_same else max(begin, before.end)
        return HoldingSpan(holding, begin, begin)

    def _close(self, span: HoldingSpan, end: int, *, is_last: bool) -> None:
        closed = span._replace(end=end, is_last=is_last)
        self._closed.append(closed)
        if is_last:
            self._ended[span.holding.uid] = closed
        if len(self._closed) > MOST_CLOSED:
            lost = self._closed.popleft()
            assert lost.end is not None
            assert self.covers_from is not None
            self.covers_from = max(self.covers_from, lost.end)
            if self._ended.get(lost.holding.uid) is lost:
                del self._ended[lost.holding.uid]


def record(taken: TakenUsage) -> Record:
    """Return the record of what was taken."""
    usage: dict[Account, int] = {}
    runs: dict[RecordedOwner, Runs] = {}
    owners: dict[OwnerAccount, int] = {}
    for span in taken.spans:
        end = taken.until if span.end is None else min(span.end, taken.until)
        seconds = end - max(span.begin, taken.begin)
        _add(usage, span.holding, seconds)
        _add_to_owner(owners, span.holding, seconds)
        if span.end is not None and span.is_last and taken.begin < span.end <= taken.until:
            _add_run(runs, span.holding.owner, span.end - span.began)
    hole = (taken.begin, min(taken.covers_from, taken.until))
    return Record(
        begin=taken.begin,
        until=taken.until,
        usage=usage,
        runs=runs,
        owners=owners,
        owners_from=taken.begin,
        holes=(hole,) if hole[0] < hole[1] else (),
    )


def _add(usage: dict[Account, int], holding: RecordedHolding, seconds: int) -> None:
    if seconds > 0:
        for account, amount in holding.amounts:
            usage[account] = usage.get(account, 0) + amount * seconds


def _add_to_owner(owners: dict[OwnerAccount, int], holding: RecordedHolding, seconds: int) -> None:
    """Count for the owner; pods without a Workload count together, as no row names a pod."""
    if seconds <= 0:
        return
    for account, amount in holding.amounts:
        kind, name = _POD if holding.owner is None else holding.owner[1:]
        row = OwnerAccount(account.namespace, kind, name, account.resource)
        owners[row] = owners.get(row, 0) + amount * seconds


def _add_run(runs: dict[RecordedOwner, Runs], owner: RecordedOwner | None, seconds: int) -> None:
    if owner is None:
        return
    runs_before = runs.get(owner, Runs(0, 0, 0))
    runs[owner] = Runs(
        runs_before.number + 1, runs_before.seconds + seconds, max(runs_before.longest, seconds)
    )
