"""How much GPU-time was used, and by whom: the sums of the usage records.

`read` takes records from the API server, `summed` adds them up, `document` returns JSON;
docs/reference/commands.md documents it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.answers import quota_use
from admission.base import names
from admission.kube import resources
from admission.kube.api import PAGE, Api, Document
from admission.objects import usage_record
from admission.objects.usage_record import Account, Hole, Period, Record, RecordedOwner, Runs

FIELDS: Final = {
    "namespace": "namespace",
    "queue": "clusterQueue",
    "localqueue": "localQueue",
    "user": "user",
    "flavor": "flavor",
}
"""By what time can be summed, with the member of the JSON document."""
_ATTRIBUTES: Final = {
    "namespace": "namespace",
    "queue": "cluster_queue",
    "localqueue": "local_queue",
    "user": "user",
    "flavor": "flavor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """A sum.

    Attributes:
        values: of the fields by which is summed; all empty for what has no row of its own.
        resource: the resource.
        seconds: amount times seconds.
    """

    values: tuple[str, ...]
    resource: str
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the records of a time say.

    Attributes:
        record: their sum; its holes include times of which there is no record.
        by: the fields by which is summed.
        rows: sorted by resource, GPUs first, then the largest first.
        runs: run times of owners, the longest sum first.
        unreadable: records that are left out, a sentence each.
    """

    record: Record
    by: tuple[str, ...]
    rows: tuple[UsageRow, ...]
    runs: tuple[tuple[RecordedOwner, Runs], ...]
    unreadable: tuple[str, ...] = ()

    @property
    def complete_since(self) -> int:
        """Return since when nothing is missing."""
        return self.record.holes[-1][1] if self.record.holes else self.record.begin


def read(api: Api, namespace: str) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Return the records in a namespace in order of time, and what could not be read.

    Where there is the record of a day, those of its hours are left out.

    Raises:
        KubeError: the API server did not answer, or refused.
    """
    days: dict[int, Record] = {}
    hours: list[Record] = []
    unreadable: list[str] = []
    for page in _pages(api, namespace):
        period = usage_record.period_of(page)
        if period is None:
            continue
        try:
            record = usage_record.read(page)
        except ValueError as error:
            unreadable.append(f"a record is left out: {error}")
            continue
        if period is Period.DAY:
            days[Period.DAY.start_of(record.begin)] = record
        else:
            hours.append(record)
    left = [hour for hour in hours if Period.DAY.start_of(hour.begin) not in days]
    every = sorted((*days.values(), *left), key=lambda record: record.begin)
    return tuple(every), tuple(unreadable)


def _pages(api: Api, namespace: str) -> Iterable[Document]:
    token = ""
    while True:
        page = api.list(
            resources.CONFIG_MAPS, namespace, label_selector=names.USAGE_LABEL, limit=PAGE,
            continue_=token,
        )  # fmt: skip
        yield from page.items
        token = page.continue_
        if not token:
            return


def summed(
    records: Sequence[Record],
    since: int,
    *,
    dimensions: Sequence[str] = ("namespace",),
    namespace: str = "",
    unreadable: Iterable[str] = (),
) -> Usage | None:
    """Return what records say of the time from a moment on; None where they say nothing.

    Records are taken as a whole: the first one may begin before that moment, by a day at most.

    Args:
        records: in order of time.
        since: the moment.
        dimensions: fields of `FIELDS` by which is summed.
        namespace: the only one that is of interest; empty for all.
        unreadable: what could not be read.
    """
    chosen = [record for record in records if record.until > since]
    if not chosen:
        return None
    whole = usage_record.merged(chosen)
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for account, amount in whole.usage.items():
        if namespace and account.namespace != namespace:
            continue
        key = tuple(_value(account, dimension) for dimension in dimensions), account.resource
        sums[key] = sums.get(key, 0) + amount
    rows = [UsageRow(values=key[0], resource=key[1], seconds=n) for key, n in sums.items()]
    runs = [run for run in whole.runs.items() if not namespace or run[0].namespace == namespace]
    return Usage(
        record=whole,
        by=tuple(dimensions),
        rows=tuple(
            sorted(
                rows,
                key=lambda row: (quota_use.order_of(row.resource), -row.seconds, row.values),
            )
        ),
        runs=tuple(sorted(runs, key=lambda run: (-run[1].seconds, run[0]))),
        unreadable=tuple(unreadable),
    )


def _value(account: Account, dimension: str) -> str:
    return str(getattr(account, _ATTRIBUTES[dimension]))


def document(usage: Usage) -> dict[str, Any]:
    """Return the answer as JSON."""
    return {
        "apiVersion": quota_use.API_VERSION,
        "kind": "GpuUsage",
        "from": usage_record.text_of(usage.record.begin),
        "until": usage_record.text_of(usage.record.until),
        "completeSince": usage_record.text_of(usage.complete_since),
        "holes": [_hole(hole) for hole in usage.record.holes],
        "usage": [
            {
                **{
                    FIELDS[dimension]: value
                    for dimension, value in zip(usage.by, row.values, strict=True)
                },
                "resource": row.resource,
                "seconds": str(row.seconds),
            }
            for row in usage.rows
        ],
        "runs": [
            {
                "namespace": owner.namespace,
                "kind": owner.kind,
                "name": owner.name,
                "count": runs.number,
                "seconds": runs.seconds,
                "longestSeconds": runs.longest,
            }
            for owner, runs in usage.runs
        ],
        "missing": list(usage.unreadable),
    }


def _hole(hole: Hole) -> Mapping[str, str]:
    return {"from": usage_record.text_of(hole[0]), "until": usage_record.text_of(hole[1])}
