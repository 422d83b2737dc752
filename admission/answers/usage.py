"""How much GPU-time was used, and by whom: the sums of the usage records.

`read` takes records from the API server, `summed` adds them up, `document` returns JSON;
docs/reference/commands.md documents it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.answers import cluster, quota_use
from admission.base import names
from admission.kube import resources
from admission.kube.api import PAGE, Api, Document
from admission.kube.resources import Resource
from admission.objects import usage_record
from admission.objects.usage_record import (
    Account,
    Hole,
    OwnerAccount,
    Period,
    Record,
    RecordedOwner,
    Runs,
)
from admission.objects.views import Pod
from admission.objects.workload import Workload
from admission.owners import deployment

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
        runs: run times of owners that have ended, the longest sum first.
        owners: amount times seconds by owner, since `record.owners_from`.
        running: run times until now of owners that hold quota; None where they were not read.
        unreadable: records that are left out, a sentence each.
        is_recorded: whether the records say it; else the Workloads that are still there.
    """

    record: Record
    by: tuple[str, ...]
    rows: tuple[UsageRow, ...]
    runs: tuple[tuple[RecordedOwner, Runs], ...]
    owners: tuple[tuple[OwnerAccount, int], ...]
    running: Mapping[RecordedOwner, Runs] | None = None
    unreadable: tuple[str, ...] = ()
    is_recorded: bool = True

    @property
    def complete_since(self) -> int:
        """Return since when nothing is missing."""
        return self.record.holes[-1][1] if self.record.holes else self.record.begin


_PARTIAL: Final = (
    "the records add the smallest amounts up for all namespaces; those of this namespace are not "
    "counted"
)


def read(
    api: Api, namespace: str, resource: Resource = resources.CONFIG_MAPS
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Return the records in a namespace in order of time, and what could not be read.

    Where there is the record of a day, those of its hours are left out.

    Args:
        api: is asked with the rights of the caller.
        namespace: where they are.
        resource: the records of all namespaces, or `resources.USAGE_RECORDS`.

    Raises:
        KubeError: the API server did not answer, or refused.
    """
    days: dict[int, Record] = {}
    hours: list[Record] = []
    unreadable: list[str] = []
    for page in _pages(api, namespace, resource):
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


def _pages(api: Api, namespace: str, resource: Resource) -> Iterable[Document]:
    token = ""
    while True:
        page = api.list(
            resource, namespace, label_selector=names.USAGE_LABEL, limit=PAGE,
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
    running: Mapping[RecordedOwner, Runs] | None = None,
) -> Usage | None:
    """Return what records say of the time from a moment on; None where they say nothing.

    Records are taken as a whole: the first one may begin before that moment, by a day at most.

    Args:
        records: in order of time.
        since: the moment.
        dimensions: fields of `FIELDS` by which is summed.
        namespace: the only one that is of interest; empty for all.
        unreadable: what could not be read.
        running: what still runs, where it is of interest; see `running`.
    """
    chosen = [record for record in records if record.until > since]
    if not chosen:
        return None
    whole = usage_record.merged(chosen)
    if namespace:
        whole = usage_record.of_namespace(whole, namespace)
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for account, amount in whole.usage.items():
        key = tuple(_value(account, dimension) for dimension in dimensions), account.resource
        sums[key] = sums.get(key, 0) + amount
    rows = [UsageRow(values=key[0], resource=key[1], seconds=n) for key, n in sums.items()]
    return Usage(
        record=whole,
        by=tuple(dimensions),
        rows=tuple(
            sorted(
                rows,
                key=lambda row: (quota_use.order_of(row.resource), -row.seconds, row.values),
            )
        ),
        runs=tuple(sorted(whole.runs.items(), key=lambda run: (-run[1].seconds, run[0]))),
        owners=tuple(
            sorted(
                whole.owners.items(),
                key=lambda row: (quota_use.order_of(row[0].resource), -row[1], row[0]),
            )
        ),
        running=running,
        unreadable=(*unreadable, *((_PARTIAL,) if whole.is_partial else ())),
    )


def running(
    api: Api, namespace: str, own_namespace: str, now: int
) -> tuple[Mapping[RecordedOwner, Runs] | None, tuple[str, ...]]:
    """Return how long owners hold quota of GPUs that hold it now, and what could not be read.

    Pods of a Deployment count together, as in the records. None where no Workload may be read.

    Args:
        api: is asked with the rights of the caller.
        namespace: the only one that is of interest; empty for all.
        own_namespace: what is read where not all namespaces may be.
        now: seconds since 1970.

    Raises:
        KubeError: the API server did not answer.
    """
    objects = cluster.read_holders(api, namespace or own_namespace, is_alone=bool(namespace))
    if cluster.is_unread(objects.missing, "Workload"):
        return None, objects.missing
    read = cluster.relate(objects)
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in objects.pods}
    runs: dict[RecordedOwner, Runs] = {}
    for key, holder in read.holding.items():
        if namespace and key.namespace != namespace:
            continue
        if not any(n and quota_use.is_gpu(pair.resource) for pair, n in holder.usage.items()):
            continue
        owner = owner_of(read.workloads[key], pods)
        seconds = max(0, now - holder.reserved_us // 1_000_000)
        before = runs.get(owner, Runs(0, 0, 0))
        runs[owner] = Runs(
            before.number + 1, before.seconds + seconds, max(before.longest, seconds)
        )
    return runs, read.missing


def owner_of(view: Workload, pods: Mapping[tuple[str, str], Pod]) -> RecordedOwner:
    """Return what a Workload was made for, as the records call it.

    Args:
        view: the Workload.
        pods: by namespace and name; they say which Deployment they are of.
    """
    key, owner = view.key(), view.metadata.controller()
    if owner is None:
        return RecordedOwner(key.namespace, resources.WORKLOADS.kind, key.name)
    pod = pods.get((key.namespace, owner.name)) if owner.kind == resources.PODS.kind else None
    name = "" if pod is None else deployment.of_pod(pod)
    if name:
        return RecordedOwner(key.namespace, resources.DEPLOYMENTS.kind, name)
    return RecordedOwner(key.namespace, owner.kind, owner.name)


def _value(account: Account, dimension: str) -> str:
    return str(getattr(account, _ATTRIBUTES[dimension]))


def document(usage: Usage) -> dict[str, Any]:
    """Return the answer as JSON."""
    return {
        "apiVersion": quota_use.API_VERSION,
        "kind": "GpuUsage",
        "source": "records" if usage.is_recorded else "Workloads",
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
        "runs": [_runs_document(owner, runs) for owner, runs in usage.runs],
        "ownersSince": _text_or_none(usage.record.owners_from),
        "owners": [
            {**owner._asdict(), "seconds": str(seconds)} for owner, seconds in usage.owners
        ],
        "running": None
        if usage.running is None
        else [_runs_document(owner, runs) for owner, runs in sorted(usage.running.items())],
        "missing": list(usage.unreadable),
    }


def _runs_document(owner: RecordedOwner, runs: Runs) -> dict[str, Any]:
    return {
        "namespace": owner.namespace,
        "kind": owner.kind,
        "name": owner.name,
        "count": runs.number,
        "seconds": runs.seconds,
        "longestSeconds": runs.longest,
    }


def _text_or_none(second: int | None) -> str | None:
    return None if second is None else usage_record.text_of(second)


def _hole(hole: Hole) -> Mapping[str, str]:
    return {"from": usage_record.text_of(hole[0]), "until": usage_record.text_of(hole[1])}
