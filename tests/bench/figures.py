"""From measured values to the figures that are shown: percentiles, medians of runs."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Figures: TypeAlias = dict[str, Any]
"""Names to numbers, or to further figures."""


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that at least ``percent`` % of the values do not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile needs at least one value")
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, int(rank) - 1)]


def milliseconds(seconds: Sequence[float]) -> Figures:
    """Median, 99th percentile and largest of some times, in milliseconds."""
    return {
        "p50_ms": round(1e3 * percentile(seconds, 50), 3),
        "p99_ms": round(1e3 * percentile(seconds, 99), 3),
        "max_ms": round(1e3 * max(seconds), 3),
    }


def median(runs: Sequence[Figures]) -> Figures:
    """Each figure's median over the runs; one that a run lacks counts there as 0.

    Texts and truths must be equal in all runs; they are taken from the first.
    """
    merged: Figures = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        found = [run[name] for run in runs if name in run]
        if isinstance(found[0], Mapping):
            merged[name] = median([run.get(name, {}) for run in runs])
        elif isinstance(found[0], str | bool):
            merged[name] = found[0]
        else:
            middle = statistics.median([*found, *[0] * (len(runs) - len(found))])
            merged[name] = round(middle, 4)  # figures have three places, and two of them a middle
    return merged


def per(total: Mapping[str, float], count: int) -> dict[str, float]:
    """Each total divided by a count, small ones kept readable, largest first."""
    shares = {name: round(value / count, 3) for name, value in total.items()}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
