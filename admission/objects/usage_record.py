"""The record of an hour or a day: for how long whose work held how many GPUs.

A record is a ConfigMap in the namespace of the program. Times are whole seconds since 1970;
amounts are whole units of a resource, times seconds. See docs/adr/0190-gpu-time-is-recorded.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

import msgspec

from admission.base import clock, names, structs
from admission.base.errors import InvalidValueError

HOUR: Final = 3600
DAY: Final = 24 * HOUR
USAGE_BYTES: Final = 384 * 1024
RUNS_BYTES: Final = 128 * 1024
OWNERS_BYTES: Final = 128 * 1024
"""Together less than an object may have; etcd takes 1.5 MiB, a ConfigMap 1 MiB."""
_HOLES: Final = 50
_DATA: Final = "record.json"
_RULE: Final = "must be a usage record of gpu-admission, format 1"
_PARTS: Final = 10**9
_PREFIX: Final = "gpu-usage-"
_NAME_FORMATS: Final = {"hour": "%Y-%m-%d-%H", "day": "%Y-%m-%d"}


class Period(StrEnum):
    """What a record is of; the value is that of the label ``gpu-admission.dev/usage``."""

    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        """Return the length."""
        return HOUR if self is Period.HOUR else DAY

    def start_of(self, moment: int) -> int:
        """Return when the period of a moment begins."""
        return moment - moment % self.seconds


class Account(NamedTuple):
    """Whose time is counted; with an empty namespace, that of all who have no row of their own."""

    namespace: str
    cluster_queue: str
    local_queue: str
    user: str
    flavor: str
    resource: str


class RecordedOwner(NamedTuple):
    """What a Workload was made for; without a name, all of the kind that have no row."""

    namespace: str
    kind: str
    name: str


class OwnerAccount(NamedTuple):
    """Of which owner time is counted; without a name, that of all of the kind without a row."""

    namespace: str
    kind: str
    name: str
    resource: str


class Runs(NamedTuple):
    """How long an owner held quota, each time from the reservation to the release."""

    number: int
    seconds: int
    longest: int


Hole = tuple[int, int]
"""From when until when something may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a part of an hour or a day.

    Attributes:
        begin: from when on it counts.
        until: until when.
        usage: amount times seconds.
        runs: of owners that released their quota meanwhile.
        owners: amount times seconds, by owner.
        owners_from: from when on `owners` counts; None for not at all, as in older records.
        holes: parts of it in which something may be missing; sorted, without overlap.
        is_partial: whether rows that had no room may be of it and are left out: their sums are
            those of all namespaces.
    """

    begin: int
    until: int
    usage: Mapping[Account, int] = field(default_factory=dict)
    runs: Mapping[RecordedOwner, Runs] = field(default_factory=dict)
    owners: Mapping[OwnerAccount, int] = field(default_factory=dict)
    owners_from: int | None = None
    holes: tuple[Hole, ...] = ()
    is_partial: bool = False


class _RecordWire(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    format: Literal[1]
    begin: str
    until: str
    holes: tuple[tuple[str, str], ...] = ()
    usage: tuple[tuple[str, str, str, str, str, str, str], ...] = ()
    runs: tuple[tuple[str, str, str, int, int, int], ...] = ()
    owners: tuple[tuple[str, str, str, str, str], ...] = ()
    owners_from: str = ""
    partial: bool | msgspec.UnsetType = msgspec.UNSET


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = structs.decoder(_RecordWire)


def merged(records: Iterable[Record]) -> Record:
    """Return the sum of records that follow one another; what lies between them is a hole.

    Raises:
        ValueError: there is none.
    """
    ordered = sorted(records, key=lambda record: (record.begin, record.until))
    usage: dict[Account, int] = {}
    runs: dict[RecordedOwner, Runs] = {}
    owners: dict[OwnerAccount, int] = {}
    holes: list[Hole] = []
    if not ordered:
        raise ValueError("no record to merge")
    until = ordered[0].begin
    for record in ordered:
        for account, amount in record.usage.items():
            usage[account] = usage.get(account, 0) + amount
        for owner, runs_ in record.runs.items():
            runs[owner] = _more(runs.get(owner), runs_)
        for owner_account, amount in record.owners.items():
            owners[owner_account] = owners.get(owner_account, 0) + amount
        if record.begin > until:
            holes.append((until, record.begin))
        holes += record.holes
        until = max(until, record.until)
    return Record(
        begin=ordered[0].begin,
        until=until,
        usage=usage,
        runs=runs,
        owners=owners,
        owners_from=_owners_from(ordered),
        holes=joined(holes),
        is_partial=any(record.is_partial for record in ordered),
    )


def of_namespace(record: Record, namespace: str) -> Record:
    """Return the rows of one namespace; what others used is not in it, nor sums of them."""
    rows: tuple[Account | RecordedOwner | OwnerAccount, ...] = (
        *record.usage,
        *record.runs,
        *record.owners,
    )
    return replace(
        record,
        usage={row: n for row, n in record.usage.items() if row.namespace == namespace},
        runs={row: runs for row, runs in record.runs.items() if row.namespace == namespace},
        owners={row: n for row, n in record.owners.items() if row.namespace == namespace},
        is_partial=record.is_partial or not all(row.namespace for row in rows),
    )


def _owners_from(ordered: Sequence[Record]) -> int | None:
    """Return since when every record counts by owner; None where the last one does not."""
    late = [
        record.until if record.owners_from is None else record.owners_from
        for record in ordered
        if record.owners_from != record.begin
    ]
    since = max(late, default=ordered[0].begin)
    return since if ordered[-1].owners_from is not None else None


def joined(holes: Iterable[Hole]) -> tuple[Hole, ...]:
    """Return holes in order, those that touch as one; of too many, the closest become one."""
    holes_joined: list[Hole] = []
    for begin, end in sorted(hole for hole in holes if hole[0] < hole[1]):
        if holes_joined and begin <= holes_joined[-1][1]:
            holes_joined[-1] = (holes_joined[-1][0], max(holes_joined[-1][1], end))
        else:
            holes_joined.append((begin, end))
    while len(holes_joined) > _HOLES:
        at = min(
            range(1, len(holes_joined)),
            key=lambda i: (holes_joined[i][0] - holes_joined[i - 1][1], i),
        )
        holes_joined[at - 1 : at + 1] = [(holes_joined[at - 1][0], holes_joined[at][1])]
    return tuple(holes_joined)


def bounded(
    record: Record,
    usage_bytes: int = USAGE_BYTES,
    runs_bytes: int = RUNS_BYTES,
    owners_bytes: int = OWNERS_BYTES,
) -> Record:
    """Return a record that fits into an object: the smallest rows are added up, none is lost."""
    return replace(
        record,
        usage=_bounded_usage(record.usage, usage_bytes),
        runs=_bounded_runs(record.runs, runs_bytes),
        owners=_bounded_owners(record.owners, owners_bytes),
    )


def _bounded_usage(usage: Mapping[Account, int], limit: int) -> Mapping[Account, int]:
    sizes = {account: _size(*account, amount) for account, amount in usage.items()}
    if sum(sizes.values()) <= limit:
        return usage
    totals: dict[str, int] = {}
    for account, amount in usage.items():
        totals[account.resource] = totals.get(account.resource, 0) + amount
    rests = {_rest(account) for account in usage}
    has_flavors = sum(_size(*account, totals[account.resource]) for account in rests) <= limit // 2
    if not has_flavors:
        rests = {account._replace(flavor="") for account in rests}
    room = limit - sum(_size(*account, totals[account.resource]) for account in rests)
    bounded: dict[Account, int] = {}
    order = sorted(
        usage,
        key=lambda account: (-(usage[account] * _PARTS // totals[account.resource]), account),
    )
    for account in order:
        row = account
        if not account.namespace or sizes[account] > room:
            row = _rest(account) if has_flavors else _rest(account)._replace(flavor="")
        else:
            room -= sizes[account]
        bounded[row] = bounded.get(row, 0) + usage[account]
    return bounded


def _rest(account: Account) -> Account:
    return Account("", "", "", "", account.flavor, account.resource)


def _bounded_runs(runs: Mapping[RecordedOwner, Runs], limit: int) -> Mapping[RecordedOwner, Runs]:
    """Add up by namespace and kind, and where that is still too much, by kind."""
    for has_namespace in (True, False):
        if sum(_size(*owner, *runs_of_owner) for owner, runs_of_owner in runs.items()) <= limit:
            break
        room, kept = limit // 2, dict[RecordedOwner, Runs]()
        for owner in sorted(runs, key=lambda owner_: (-runs[owner_].seconds, owner_)):
            size = _size(*owner, *runs[owner])
            row = RecordedOwner(owner.namespace if has_namespace else "", owner.kind, "")
            if owner.name and size <= room:
                row, room = owner, room - size
            kept[row] = _more(kept.get(row), runs[owner])
        runs = kept
    return runs


def _bounded_owners(owners: Mapping[OwnerAccount, int], limit: int) -> Mapping[OwnerAccount, int]:
    """Add up by namespace and kind, and where that is still too much, by kind."""
    for has_namespace in (True, False):
        if sum(_size(*account, amount) for account, amount in owners.items()) <= limit:
            break
        room, kept = limit // 2, dict[OwnerAccount, int]()
        totals: dict[str, int] = {}
        for account, amount in owners.items():
            totals[account.resource] = totals.get(account.resource, 0) + amount
        for account in _largest_first(owners, totals):
            size = _size(*account, totals[account.resource])
            row = account._replace(namespace=account.namespace if has_namespace else "", name="")
            if account.name and size <= room:
                row, room = account, room - size
            kept[row] = kept.get(row, 0) + owners[account]
        owners = kept
    return owners


def _largest_first(
    owners: Mapping[OwnerAccount, int], totals: Mapping[str, int]
) -> list[OwnerAccount]:
    """Return the accounts by their part of all that is counted of their resource."""
    return sorted(
        owners,
        key=lambda account: (
            -(owners[account] * _PARTS // (totals[account.resource] or 1)),
            account,
        ),
    )


def _more(before: Runs | None, added: Runs) -> Runs:
    if before is None:
        return added
    return Runs(
        before.number + added.number,
        before.seconds + added.seconds,
        max(before.longest, added.longest),
    )


def _size(*parts: str | int) -> int:
    """Return how many bytes of JSON a row takes, and some more."""
    return len(_ENCODER.encode(parts)) + 3


# ------------------------------------------------------------------------------------- objects


def name_of(period: Period, moment: int) -> str:
    """Return the name of the object that records a moment."""
    begin = datetime.fromtimestamp(period.start_of(moment), UTC)
    return f"{_PREFIX}{begin.strftime(_NAME_FORMATS[period.value])}"


def document(
    record: Record, period: Period, namespace: str, resource_version: str = ""
) -> dict[str, Any]:
    """Return the object of a record; with a version, as it is to replace that one."""
    wire = _RecordWire(
        format=1,
        begin=text_of(record.begin),
        until=text_of(record.until),
        holes=tuple((text_of(begin), text_of(end)) for begin, end in record.holes),
        usage=tuple((*account, str(record.usage[account])) for account in sorted(record.usage)),
        runs=tuple((*owner, *record.runs[owner]) for owner in sorted(record.runs)),
        owners=tuple((*account, str(record.owners[account])) for account in sorted(record.owners)),
        owners_from="" if record.owners_from is None else text_of(record.owners_from),
        partial=record.is_partial or msgspec.UNSET,
    )
    metadata: dict[str, Any] = {
        "name": name_of(period, record.begin),
        "namespace": namespace,
        "labels": {names.USAGE_LABEL: period.value},
    }
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {_DATA: _ENCODER.encode(wire).decode()},
    }


def read(document_: Mapping[str, Any]) -> Record:
    """Return the record of an object.

    Raises:
        InvalidValueError: it holds none.
    """
    name = str((document_.get("metadata") or {}).get("name", ""))
    try:
        wire = _DECODER.decode((document_.get("data") or {}).get(_DATA, ""))
        return Record(
            begin=_second(wire.begin),
            until=_second(wire.until),
            holes=joined((_second(begin), _second(end)) for begin, end in wire.holes),
            usage={Account(*row[:-1]): int(row[-1]) for row in wire.usage},
            runs={RecordedOwner(*row[:3]): Runs(*row[3:]) for row in wire.runs},
            owners={OwnerAccount(*row[:-1]): int(row[-1]) for row in wire.owners},
            owners_from=_second(wire.owners_from) if wire.owners_from else None,
            is_partial=wire.partial is True,
        )
    except ValueError as error:
        raise InvalidValueError(name, f"{_RULE}: {error}") from error


def period_of(document_: Mapping[str, Any]) -> Period | None:
    """Return what an object is the record of, by its label; None for another object."""
    label = ((document_.get("metadata") or {}).get("labels") or {}).get(names.USAGE_LABEL)
    return Period(label) if label in set(Period) else None


def text_of(second: int) -> str:
    """Return a time as RFC 3339 has it."""
    return clock.to_wire(datetime.fromtimestamp(second, UTC))


def _second(text: str) -> int:
    return int(clock.from_wire(text).timestamp())
