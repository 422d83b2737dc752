"""Counters in the Prometheus text format, and the API server's writes among them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

Labels: TypeAlias = Mapping[str, str]
Samples: TypeAlias = dict[tuple[tuple[str, str], ...], float]
"""Value by sorted labels."""

WRITES: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
REQUESTS: Final = "apiserver_request_total"

_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_OWN_HOUSEKEEPING: Final = "leases"
"""Written by the API server for itself, and by whoever is elected, as time goes by."""


def samples(text: str, name: str) -> Samples:
    """All samples of one metric."""
    found: Samples = {}
    for line in text.splitlines():
        if not line.startswith(name) or line[len(name) : len(name) + 1] not in {"{", " "}:
            continue
        labels, _, value = line[len(name) :].rpartition(" ")
        found[tuple(sorted(_LABEL.findall(labels)))] = float(value)
    return found


def growth(before: Samples, after: Samples) -> Samples:
    """What was counted in between; a series that did not move is left out."""
    return {
        labels: value - before.get(labels, 0)
        for labels, value in after.items()
        if value != before.get(labels, 0)
    }


def total(counted: Samples, kind: Callable[[Labels], str | None]) -> Counter[str]:
    """Sums by what ``kind`` makes of the labels; None leaves a series out."""
    sums: Counter[str] = Counter()
    for labels, value in counted.items():
        name = kind(dict(labels))
        if name is not None:
            sums[name] += round(value)
    return sums


def write_kind(labels: Labels) -> str | None:
    """``VERB resource/subresource``, and the code of a failure; None for what is no write."""
    if labels["verb"] not in WRITES or labels.get("dry_run"):
        return None
    if labels["resource"] == _OWN_HOUSEKEEPING:
        return None
    parts = [labels["resource"], labels.get("subresource", "")]
    kind = f"{labels['verb']} {'/'.join(part for part in parts if part)}"
    return kind if labels["code"].startswith("2") else f"{kind} ({labels['code']})"


def writes(before: str, after: str, own: Mapping[str, int]) -> Counter[str]:
    """Writes by kind between two readings of the API server's metrics, the caller's own taken off.

    Args:
        before: metrics as text.
        after: later ones.
        own: the caller's successful writes, named as `write_kind` does.
    """
    counted = growth(samples(before, REQUESTS), samples(after, REQUESTS))
    others = total(counted, write_kind)
    others.subtract(own)
    return Counter({kind: count for kind, count in others.items() if count})


def purposes(before: str, after: str) -> Iterator[tuple[str, int, float]]:
    """Purpose and result, count and seconds of the controller's writes between two readings."""
    name = "gpu_admission_write_duration_seconds"
    counts = growth(samples(before, f"{name}_count"), samples(after, f"{name}_count"))
    seconds = growth(samples(before, f"{name}_sum"), samples(after, f"{name}_sum"))
    for labels, count in sorted(counts.items()):
        named = dict(labels)
        yield f"{named['purpose']}/{named['result']}", round(count), seconds.get(labels, 0.0)


def quantiles(
    before: str, after: str, name: str, percents: Sequence[int]
) -> tuple[int, dict[int, float]]:
    """Count of a histogram between two readings, and upper bounds of quantiles, over all series.

    A quantile is the least bound of a bucket that holds it: as exact as the buckets are.
    """
    counts = growth(samples(before, f"{name}_bucket"), samples(after, f"{name}_bucket"))
    by_bound: Counter[float] = Counter()
    for labels, count in counts.items():
        by_bound[float(dict(labels)["le"])] += round(count)
    if not by_bound:
        return 0, {}
    every = max(by_bound.values())
    return every, {
        percent: min(bound for bound, count in by_bound.items() if 100 * count >= percent * every)
        for percent in percents
    }
