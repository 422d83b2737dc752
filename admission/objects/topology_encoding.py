"""Topology assignments: domains one by one (v1beta1) and packed into slices (v1beta2).

What unpacking gives is fixed by Kueue; how to pack is free. Here a run of domains becomes one
slice: per level the common value, or the common beginning and end and what lies between.

Source: kueue apis/kueue/v1beta1 conversion of TopologyAssignment.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from admission.base.errors import InvalidValueError

Document = dict[str, Any]

MAX_DOMAINS: Final = 100_000
"""Most domains in one slice: the limit of ``roots`` and of ``podCounts.individual``."""


def pack(levels: int, domains: Sequence[Document]) -> list[Document]:
    """Slices for v1beta1 domains (``values`` and ``count``), in their order.

    Raises:
        InvalidValueError: a domain has not one value per level.
    """
    for domain in domains:
        if len(domain["values"]) != levels:
            rule = f"must have one value for each of the {levels} levels"
            raise InvalidValueError(str(domain["values"]), rule)
    starts = range(0, len(domains), MAX_DOMAINS)
    return [_slice(domains[start : start + MAX_DOMAINS]) for start in starts]


def unpack(slices: Sequence[Document]) -> list[Document]:
    """The v1beta1 domains of v1beta2 slices, in their order."""
    return [domain for run in slices for domain in _domains(run)]


def _slice(run: Sequence[Document]) -> Document:
    columns = zip(*(domain["values"] for domain in run), strict=True)
    return {
        "domainCount": len(run),
        "valuesPerLevel": [_pack_values(column) for column in columns],
        "podCounts": _pack_counts([domain["count"] for domain in run]),
    }


def _pack_counts(counts: list[int]) -> Document:
    return {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts}


def _pack_values(values: Sequence[str]) -> Document:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common_start(values)
    suffix = _common_start([value[len(prefix) :][::-1] for value in values])[::-1]
    roots = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    parts = {"prefix": prefix, "suffix": suffix}
    return {"individual": {**{k: part for k, part in parts.items() if part}, "roots": roots}}


def _common_start(values: Sequence[str]) -> str:
    """The longest beginning of all values: that of the first and the last in sorted order."""
    first, last = min(values), max(values)
    differ = (index for index, letter in enumerate(first) if last[index : index + 1] != letter)
    return first[: next(differ, len(first))]


def _domains(run: Document) -> Iterator[Document]:
    size = run["domainCount"]
    columns = [_unpack_values(level, size) for level in run["valuesPerLevel"]]
    counts = run["podCounts"].get("individual") or [run["podCounts"]["universal"]] * size
    for index in range(size):
        yield {"values": [column[index] for column in columns], "count": counts[index]}


def _unpack_values(level: Document, size: int) -> Sequence[str]:
    individual = level.get("individual")
    if individual is None:
        return [level["universal"]] * size
    prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
    return [f"{prefix}{root}{suffix}" for root in individual["roots"]]
