"""Exact packing of one pod's instances over the GPUs of a node.

Works on vectors only: what is wanted, and for each GPU the set of vectors it can take (closed
under leaving some out). The search is over the Pareto-best parts per GPU with equal GPUs
treated as one class, so its worst case grows with the distinct occupancies of the node.
"""

from collections.abc import Sequence
from functools import lru_cache

Vector = tuple[int, ...]
Options = frozenset[Vector]


def pack(
    want: Vector, bins: Sequence[Options], weights: tuple[Vector, ...] = ()
) -> tuple[Vector, ...] | None:
    """One part per bin, summing to ``want``; None if there is none.

    Bins are filled from the roomiest on, so a pod's instances sit on few GPUs.

    Args:
        want: instances per profile.
        bins: what each bin can take.
        weights: weights per profile; for each, the bins' best sums bound what fits (a quick no).
    """
    ones = tuple([1] * len(want))
    bounds = (ones, *weights)
    order = sorted(range(len(bins)), key=lambda i: (-_capacity(bins[i], ones), i))
    parts = _search(want, tuple(bins[i] for i in order), bounds, None, set())
    if parts is None:
        return None
    found = dict(zip(order, parts, strict=False))
    empty = tuple([0] * len(want))
    return tuple(found.get(i, empty) for i in range(len(bins)))


def _search(
    want: Vector,
    bins: tuple[Options, ...],
    bounds: tuple[Vector, ...],
    last: Vector | None,
    dead: set[tuple[Vector, int, Vector | None]],
) -> tuple[Vector, ...] | None:
    """Depth first; ``dead`` remembers (rest, bins left, last part) that cannot succeed.

    ``last`` is what the bin before took if it is equal to the next one: parts of equal bins are
    only tried in falling order.
    """
    if not any(want):
        return ()
    if not bins or (want, len(bins), last) in dead or not _may_fit(want, bins, bounds):
        return None
    first, rest_bins = bins[0], bins[1:]
    is_same = bool(rest_bins) and rest_bins[0] == first
    for part in _best_parts(first, want):
        if last is not None and _rank(part) > _rank(last):
            continue
        rest = tuple(w - p for w, p in zip(want, part, strict=True))
        tail = _search(rest, rest_bins, bounds, part if is_same else None, dead)
        if tail is not None:
            return (part, *tail)
    dead.add((want, len(bins), last))
    return None


def _rank(part: Vector) -> tuple[int, Vector]:
    return sum(part), part


def _may_fit(want: Vector, bins: tuple[Options, ...], bounds: tuple[Vector, ...]) -> bool:
    """A necessary condition: each profile alone, and every weighted sum, fit."""
    most = [_most(options) for options in bins]
    if any(w > sum(m[i] for m in most) for i, w in enumerate(want)):
        return False
    return all(
        _weight(want, weights) <= sum(_capacity(options, weights) for options in bins)
        for weights in bounds
    )


@lru_cache(maxsize=4096)
def _best_parts(options: Options, want: Vector) -> tuple[Vector, ...]:
    """Parts of ``want`` that the bin takes and to which nothing wanted can be added."""
    fitting = {p for p in options if all(a <= b for a, b in zip(p, want, strict=True))}
    best = [p for p in fitting if not _extensible(p, fitting)]
    return tuple(sorted(best, key=_rank, reverse=True))


def _extensible(part: Vector, fitting: set[Vector]) -> bool:
    return any((*part[:i], count + 1, *part[i + 1 :]) in fitting for i, count in enumerate(part))


@lru_cache(maxsize=4096)
def _most(options: Options) -> Vector:
    """Largest count of each profile alone."""
    return tuple(max(column) for column in zip(*options, strict=True))


@lru_cache(maxsize=4096)
def _capacity(options: Options, weights: Vector) -> int:
    """Largest weighted sum that the bin can take."""
    return max(_weight(part, weights) for part in options)


def _weight(part: Vector, weights: Vector) -> int:
    return sum(p * w for p, w in zip(part, weights, strict=True))
