"""Exact placement of MIG instances: what can be cut from a GPU, and what from what is free.

An instance occupies a fixed range of the product's placement axis and cannot be moved. A set of
instances fits one GPU if and only if every profile belongs to the product, none exceeds its most
instances, starts exist whose ranges do not overlap, and the media engines and compute slices
suffice. Equal occupancies are solved once. No answer is wrong; about the GPUs of a node together
it may be that it is not known, because a search of all ways to share out the instances ends after
a number of steps.

Source: NVIDIA MIG User Guide (supported profiles and placements); NVML
nvmlDeviceCreateGpuInstance refuses overlapping ranges.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from admission.gpu.products import Product, Profile


class Placed(NamedTuple):
    """One instance: canonical profile name and its first unit on the axis."""

    profile: str
    start: int


Occupancy = tuple[Placed, ...]
"""What a GPU already holds, sorted; such tuples are cache keys."""

Vector = tuple[int, ...]
"""Instances per profile, in the order of ``Product.profiles``."""


SEARCH_STEPS: Final = 256
"""Steps after which `pack` ends without an answer; each takes about 0.1 ms.

Of mixtures that fill 8 GPUs, 99 of 100 are decided by then, and 19 of 20 in a tenth of that.
"""


class Fit(Enum):
    """Whether a set of instances fits.

    ``UNKNOWN`` is for sets whose search ended at its bound: they may fit.
    """

    NEVER = "never"
    NOT_NOW = "not-now"
    FITS = "fits"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAnswer:
    """Whether a set of instances fits, and where.

    Attributes:
        fit: never, not in what is free, here, or not known.
        reason: one sentence; empty where it fits.
        placement: per GPU (one for a single GPU), the new instances sorted by start; empty
            unless it fits.
    """

    fit: Fit
    reason: str = ""
    placement: tuple[Occupancy, ...] = ()


def fit_node(
    product: Product, want: Mapping[str, int], gpus: Sequence[Iterable[Placed]]
) -> PlacementAnswer:
    """Return whether the GPUs of one node can hold the instances of one pod.

    Each instance may be on any of the GPUs.

    Raises:
        ValueError: what a GPU holds is not possible on this product.
    """
    unknown = unknown_profiles(product, want)
    if unknown:
        return PlacementAnswer(fit=Fit.NEVER, reason=unknown)
    want_vector = vector(product, want)
    on_empty = _packed_on_empty(product, want_vector, len(gpus))
    where = f"{len(gpus)} {product.name} of one node"
    if on_empty.parts is None and on_empty.is_decided:
        return PlacementAnswer(fit=Fit.NEVER, reason=f"{_show(want)} does not fit on {where}")
    occupancies = [occupancy(product, gpu) for gpu in gpus]
    now = on_empty
    if any(occupancies):
        free = [addable(product, gpu) for gpu in occupancies]
        now = pack(want_vector, free, _weights(product))
    if now.parts is None:
        if not (on_empty.is_decided and now.is_decided):
            reason = f"whether {_show(want)} fits on {where} is not known: too many ways to try"
            return PlacementAnswer(fit=Fit.UNKNOWN, reason=reason)
        reason = f"{_show(want)} fits the empty node, but not what is free on its GPUs"
        return PlacementAnswer(fit=Fit.NOT_NOW, reason=reason)
    placement = tuple(
        _example(product, gpu, part) for gpu, part in zip(occupancies, now.parts, strict=True)
    )
    return PlacementAnswer(fit=Fit.FITS, placement=placement)


@lru_cache(maxsize=4096)
def _packed_on_empty(product: Product, want_vector: Vector, gpus: int) -> "Packing":
    """Return how empty GPUs share out instances; kept, as many pods ask for the same."""
    return pack(want_vector, [addable(product, ())] * gpus, _weights(product))


def why_never(product: Product, want: Mapping[str, int]) -> str:
    """Return why no GPU of the product can ever hold the instances; empty if an empty one can."""
    unknown = unknown_profiles(product, want)
    if unknown:
        return unknown
    for name, count in sorted(want.items()):
        profile = product.find(name)
        if profile is not None and count > profile.max_instances:
            return (
                f"{count} x {name} do not fit on one {product.name}:"
                f" it holds at most {profile.max_instances}"
            )
    if vector(product, want) in addable(product, ()):
        return ""
    return f"{_show(want)} does not fit on one {product.name}: {_shortage(product, want)}"


def unknown_profiles(product: Product, want: Iterable[str]) -> str:
    """Return which profiles the product lacks, and those it has; empty if none is lacking."""
    missing = [name for name in sorted(want) if product.find(name) is None]
    if not missing:
        return ""
    if not product.has_mig:
        return f"{product.name} has no MIG, hence no {', '.join(missing)}"
    profiles = ", ".join(product.profiles)
    return f"{product.name} has no profile {', '.join(missing)}; it has {profiles}"


def vector(product: Product, want: Mapping[str, int]) -> Vector:
    """Return counts in the order of the product's profiles; aliases count as their profile.

    Every name must be known (see ``unknown_profiles``).
    """
    counts = dict.fromkeys(product.profiles, 0)
    for name, count in want.items():
        counts[product.profile_aliases.get(name, name)] += count
    return tuple(counts.values())


def occupancy(product: Product, placed: Iterable[Placed]) -> Occupancy:
    """Return the canonical form of what a GPU holds: aliases resolved, sorted by start.

    Raises:
        ValueError: a profile or start is not of this product, or ranges overlap.
    """
    return _checked(product, tuple(placed))


@lru_cache(maxsize=4096)
def addable(product: Product, occupied: Occupancy) -> frozenset[Vector]:
    """Return every set of instances that can be added to the GPU; closed under leaving some out.

    Args:
        product: the GPU model.
        occupied: canonical occupancy, see ``occupancy``.
    """
    profiles = tuple(product.profiles.values())
    base = _load(product, occupied)
    masks = {tuple([0] * len(profiles)): frozenset({_mask(product, occupied)})}
    for index, profile in enumerate(profiles):
        layer = masks
        while layer:
            layer = _grown(product, base, layer, index, profile)
            masks = masks | layer
    return frozenset(masks)


def maximal(vectors: Iterable[Vector]) -> frozenset[Vector]:
    """Return the sets to which nothing can be added."""
    known_vectors = frozenset(vectors)
    return frozenset(
        v
        for v in known_vectors
        if not any(successor in known_vectors for successor in _successors(v))
    )


def compute_slices(product: Product, counts: Vector) -> int:
    """Compute slices that instances take together."""
    pairs = zip(product.profiles.values(), counts, strict=True)
    return sum(profile.compute_slices * count for profile, count in pairs)


def names_of(product: Product, counts: Vector) -> dict[str, int]:
    """Return the counts by profile name, without zeros."""
    return {name: n for name, n in zip(product.profiles, counts, strict=True) if n}


def _successors(counts: Vector) -> Iterator[Vector]:
    for index, count in enumerate(counts):
        yield (*counts[:index], count + 1, *counts[index + 1 :])


class _Load(NamedTuple):
    """What instances already take: count per profile, engines, compute slices."""

    counts: Vector
    engines: Mapping[str, int]
    slices: int


def _load(product: Product, occupied: Occupancy) -> _Load:
    counts = dict.fromkeys(product.profiles, 0)
    for placed in occupied:
        counts[placed.profile] += 1
    used = tuple(counts.values())
    return _Load(used, _engines(product, used), compute_slices(product, used))


def _engines(product: Product, counts: Vector) -> dict[str, int]:
    used: dict[str, int] = {}
    for profile, count in zip(product.profiles.values(), counts, strict=True):
        for engine, amount in profile.engines.items():
            used[engine] = used.get(engine, 0) + amount * count
    return used


def _grown(
    product: Product,
    base: _Load,
    layer: Mapping[Vector, frozenset[int]],
    index: int,
    profile: Profile,
) -> dict[Vector, frozenset[int]]:
    """The sets with one more instance of the profile, each with the axes it may leave.

    Each set of the layer grows to another one: they differ elsewhere, or in this profile.
    """
    places = [_bits(profile, start) for start in profile.starts]
    grown = {}
    for counts, masks in layer.items():
        counts_grown = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
        if not _within_limits(product, base, counts_grown, index, profile):
            continue
        taken = frozenset(mask | bits for mask in masks for bits in places if not mask & bits)
        if taken:
            grown[counts_grown] = taken
    return grown


def _within_limits(
    product: Product, base: _Load, counts: Vector, index: int, profile: Profile
) -> bool:
    if base.counts[index] + counts[index] > profile.max_instances:
        return False
    if base.slices + compute_slices(product, counts) > product.compute_slices:
        return False
    engines = _engines(product, counts)
    return all(
        base.engines.get(engine, 0) + engines.get(engine, 0) <= total
        for engine, total in product.engines.items()
    )


@lru_cache(maxsize=4096)
def _checked(product: Product, placed: Occupancy) -> Occupancy:
    mask = 0
    canonical = []
    for name, start in placed:
        profile = product.find(name)
        if profile is None or start not in profile.starts:
            raise ValueError(f"{name} at {start} is no placement of {product.name}")
        bits = _bits(profile, start)
        if mask & bits:
            raise ValueError(f"{name} at {start} overlaps another instance on {product.name}")
        mask |= bits
        canonical.append(Placed(profile.name, start))
    return tuple(sorted(canonical, key=lambda p: (p.start, p.profile)))


@lru_cache(maxsize=4096)
def _example(product: Product, occupied: Occupancy, want_vector: Vector) -> Occupancy:
    """One placement: large and picky profiles first, high starts first, to keep start 0 free."""
    items = [
        profile
        for profile, count in zip(product.profiles.values(), want_vector, strict=True)
        for _ in range(count)
    ]
    items.sort(key=lambda p: (-p.size, len(p.starts), p.name))
    positions = _place(items, _mask(product, occupied))
    if positions is None:
        raise AssertionError(f"{want_vector} was said to fit {product.name}")
    return tuple(sorted(positions, key=lambda p: (p.start, p.profile)))


def _place(items: Sequence[Profile], mask: int) -> list[Placed] | None:
    if not items:
        return []
    first, rest = items[0], items[1:]
    for start in reversed(first.starts):
        bits = _bits(first, start)
        if mask & bits:
            continue
        tail = _place(rest, mask | bits)
        if tail is not None:
            return [Placed(first.name, start), *tail]
    return None


@lru_cache(maxsize=256)
def _weights(product: Product) -> tuple[Vector, ...]:
    """Placement units, compute slices and each engine per profile: bounds for packing."""
    profiles = product.profiles.values()
    engines = (tuple(p.engines.get(engine, 0) for p in profiles) for engine in product.engines)
    return (
        tuple(p.size for p in profiles),
        tuple(p.compute_slices for p in profiles),
        *(weights for weights in engines if any(weights)),
    )


def _bits(profile: Profile, start: int) -> int:
    return ((1 << profile.size) - 1) << start


def _mask(product: Product, occupied: Occupancy) -> int:
    mask = 0
    for placed in occupied:
        mask |= _bits(product.profiles[placed.profile], placed.start)
    return mask


def _shortage(product: Product, want: Mapping[str, int]) -> str:
    """Return what is short: compute slices, memory slices, media engines, or legal starts."""
    counts = vector(product, want)
    slices = compute_slices(product, counts)
    if slices > product.compute_slices:
        return f"{slices} compute slices of {product.compute_slices}"
    pairs = zip(product.profiles.values(), counts, strict=True)
    units = sum(profile.size * count for profile, count in pairs)
    if units > product.axis:
        return f"the instances take {units} of {product.axis} placement units"
    for engine, used in sorted(_engines(product, counts).items()):
        if used > product.engines.get(engine, used):
            return f"{used} {engine} engines of {product.engines[engine]}"
    return "no legal starts leave room for all of them"


def _show(want: Mapping[str, int]) -> str:
    return " + ".join(f"{count} x {name}" for name, count in sorted(want.items()) if count)


# ------------------------------------------------- parts of several GPUs that sum to a wish


Options = frozenset[Vector]
"""What a bin can take; with each set also those that leave some of it out."""


class Packing(NamedTuple):
    """What became of a search for parts of several bins that add up to a wish.

    Attributes:
        parts: one for each bin; None where none were found.
        is_decided: whether there are no others to be found where none were.
    """

    parts: tuple[Vector, ...] | None
    is_decided: bool = True


def pack(
    want: Vector,
    bins: Sequence[Options],
    weights: tuple[Vector, ...] = (),
    *,
    steps: int = SEARCH_STEPS,
) -> Packing:
    """Return one part for each bin, which add up to ``want``.

    Bins are filled from the roomiest on, so a pod's instances sit on few GPUs.

    Args:
        want: instances per profile.
        bins: what each bin can take.
        weights: weights per profile; for each, the bins' best sums bound what fits (a quick no).
            What weighs most is placed first.
        steps: after so many the search ends without an answer.
    """
    ones = tuple([1] * len(want))
    first = {options: index for index, options in reversed(list(enumerate(bins)))}
    # equal bins follow each other
    order = sorted(range(len(bins)), key=lambda i: (-_capacity(bins[i], ones), first[bins[i]], i))
    search = _PartSearch(tuple(bins[i] for i in order), len(want), weights, steps)
    parts = search.run(want)
    if parts is None:
        return Packing(None, is_decided=search.steps_left >= 0)
    parts_by_order = dict(zip(order, parts, strict=False))
    empty = tuple([0] * len(want))
    return Packing(tuple(parts_by_order.get(i, empty) for i in range(len(bins))))


class _PartSearch:
    """A depth-first search for parts, bin by bin.

    What is left to be placed in the same bins is looked at once, whichever way led to it. Of bins
    that are all equal, the next one takes an instance of what weighs most of the rest: one of them
    must, and no matter which.

    Attributes:
        steps_left: further calls that may look at something; negative once one could not.
    """

    def __init__(
        self, bins: tuple[Options, ...], profiles: int, weights: tuple[Vector, ...], steps: int
    ) -> None:
        """Prepare the bounds of the bins from each one to the last.

        Args:
            bins: equal ones follow each other.
            profiles: length of a vector.
            weights: see `pack`.
            steps: most calls.
        """
        ones = tuple([1] * profiles)
        self.steps_left = steps
        self._bins = bins
        self._weights = (ones, *weights)
        self._worth = tuple(map(sum, zip(*(weights or (ones,)), strict=True)))
        self._dead: set[tuple[Vector, int]] = set()
        """What is left, and from which bin on, where no parts are."""
        counts, sums = tuple([0] * profiles), tuple([0] * len(self._weights))
        bounds = [(counts, sums)]
        for options in reversed(bins):
            counts = _sum(counts, _most(options))
            sums = _sum(sums, tuple(_capacity(options, each) for each in self._weights))
            bounds.append((counts, sums))
        self._bounds = bounds[::-1]
        self._alike_from = bins.index(bins[-1]) if bins else 0

    def run(self, want: Vector, index: int = 0) -> tuple[Vector, ...] | None:
        """Return parts of the bins from an index on; None where none were found."""
        if not any(want):
            return ()
        self.steps_left -= 1
        if self.steps_left < 0 or (want, index) in self._dead or not self._may_fit(want, index):
            return None
        options = self._bins[index]
        needed = self._heaviest(want, options) if index >= self._alike_from else None
        for part in _best_parts(options, want, self._worth, needed):
            rest = tuple(w - p for w, p in zip(want, part, strict=True))
            tail = self.run(rest, index + 1)
            if tail is not None:
                return (part, *tail)
            if self.steps_left < 0:
                return None
        self._dead.add((want, index))
        return None

    def _may_fit(self, want: Vector, index: int) -> bool:
        """A necessary condition: each profile alone, and every weighted sum, fit."""
        counts, sums = self._bounds[index]
        if any(w > m for w, m in zip(want, counts, strict=True)):
            return False
        pairs = zip(self._weights, sums, strict=True)
        return all(_weight(want, weights) <= total for weights, total in pairs)

    def _heaviest(self, want: Vector, options: Options) -> int:
        """Return the wanted profile that weighs most; of equal ones, of which the fewest fit."""
        largest = _most(options)
        profiles = (index for index, count in enumerate(want) if count)
        return max(profiles, key=lambda index: (self._worth[index], -largest[index]))


@lru_cache(maxsize=4096)
def _best_parts(
    options: Options, want: Vector, worth: Vector, needed: int | None
) -> tuple[Vector, ...]:
    """Parts of ``want`` that the bin takes and to which nothing wanted can be added.

    What weighs most comes first, and of that the fewest instances.

    Args:
        options: of the bin.
        want: instances per profile.
        worth: weight per profile.
        needed: a profile that each part has; None for none.
    """
    fitting = {tuple(map(min, largest, want)) for largest in _largest(options)}
    best = [p for p in fitting if (needed is None or p[needed]) and not _is_less(p, fitting)]
    return tuple(sorted(best, key=lambda p: (_weight(p, worth), -sum(p), p), reverse=True))


def _is_less(part: Vector, parts: Iterable[Vector]) -> bool:
    """Return whether something can be added so that another one of the parts results."""
    return any(
        part != other and all(a <= b for a, b in zip(part, other, strict=True)) for other in parts
    )


@lru_cache(maxsize=4096)
def _largest(options: Options) -> frozenset[Vector]:
    """The sets to which nothing can be added, of all that the bin takes."""
    return maximal(options)


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


def _sum(left: Vector, right: Vector) -> Vector:
    return tuple(a + b for a, b in zip(left, right, strict=True))
