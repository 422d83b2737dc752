"""Who stopped what, and whether it was decided: the audit log and the logs of the controllers.

The checker takes decisions from the Workloads that it watches. A Workload that is evicted, and is
gone or no longer owned by its pods before its watch is connected again, is seen by nobody; the
logs tell of it.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from admission.base import names
from tests.controlplane.rest import Json

_IS_EVICTED = {"workload evicted": True, "workload admitted": False}


@dataclass(frozen=True, slots=True)
class Stop:
    """Something that the controller stopped.

    Attributes:
        key: as in `Checker.stopped`.
        at: when, as the audit log writes it.
        workload: namespace and name of the Workload that a pod names; empty for a Job.
    """

    key: str
    at: str
    workload: tuple[str, str] = ("", "")


def by_controller(audit: Iterable[str]) -> Iterator[Stop]:
    """Yield the pods that the controller deleted, and the Jobs and PyTorchJobs it suspended."""
    workloads: dict[str, tuple[str, str]] = {}
    for event in _records(audit):
        answer, at = event.get("responseObject") or {}, event["requestReceivedTimestamp"]
        metadata = answer.get("metadata") or {}
        uid, workload = metadata.get("uid", ""), _workload(metadata)
        if workload[1]:
            workloads[uid] = workload
        if event["verb"] == "delete":  # a deletion that is over at once is answered without it
            options = event.get("requestObject") or {}
            for key in {uid, (options.get("preconditions") or {}).get("uid", "")}:
                yield Stop(key, at, workloads.get(key, ("", "")))
        elif event["objectRef"]["resource"] in {"jobs", "pytorchjobs"}:
            spec = answer.get("spec") or {}
            if {**spec, **(spec.get("runPolicy") or {})}.get("suspend"):
                yield Stop(f"{uid}@{metadata['resourceVersion']}", at)


def undecided(stopped: Mapping[str, str], audit: Iterable[str], logs: Iterable[str]) -> list[str]:
    """Return what the controller stopped without a decision.

    Args:
        stopped: `Checker.stopped`: what was stopped without a decision that the checker saw.
        audit: lines of the audit log.
        logs: lines of the logs of all controllers.
    """
    stops = {stop.key: stop for stop in by_controller(audit)}
    decisions = _Decisions()
    for record in _records(logs):
        decisions.take(record)
    return [
        text
        for key, text in stopped.items()
        if key in stops and not decisions.include(stops[key], text)
    ]


@dataclass(slots=True)
class _Decisions:
    _starts: set[str] = field(default_factory=set)
    """How texts of `Checker.stopped` begin about what was evicted."""
    _changes: dict[tuple[str, str], list[tuple[str, bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """When a Workload was admitted or evicted, and whether it was evicted."""

    def take(self, record: Json) -> None:
        is_evicted = _IS_EVICTED.get(record.get("event", ""))
        if is_evicted is None:
            return
        workload = record["namespace"], record.get("workload", "")
        self._changes[workload].append((record["timestamp"], is_evicted))
        if is_evicted:
            kind, _, name = record.get("owner", "").partition("/")
            owners = [("pod", record.get("pod")), ("Job", record.get("job")), (kind, name)]
            self._starts |= {f"{kind} {workload[0]}/{name} was " for kind, name in owners if name}

    def include(self, stop: Stop, text: str) -> bool:
        changes = sorted(self._changes.get(stop.workload, ()))
        before = bisect_right(changes, (stop.at, True))
        is_evicted = before > 0 and changes[before - 1][1]
        return is_evicted or text.startswith(tuple(self._starts))


def _workload(metadata: Json) -> tuple[str, str]:
    annotations = metadata.get("annotations") or {}
    return metadata.get("namespace", ""), annotations.get(names.WORKLOAD_ANNOTATION, "")


def _records(lines: Iterable[str]) -> Iterator[Json]:
    for line in lines:
        with suppress(ValueError):  # the last line may be half written
            yield json.loads(line)
