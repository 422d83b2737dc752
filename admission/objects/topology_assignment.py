"""Where the pods of a pod set go, packed: runs of domains with common parts of their names."""

from typing import Annotated, ClassVar

from admission.objects import markers
from admission.objects.fields import POSITIVE, Int32, text
from admission.objects.markers import Rule
from admission.objects.viewbase import View

_ONE_OF = Rule(
    "has(self.universal) != has(self.individual)",
    "exactly one of the fields in [universal individual] must be set",
)
_MAX_DOMAINS = 100_000

Value = Annotated[str, text(at_most=63)]


class IndividualValues(View, frozen=True, kw_only=True):
    """Values that differ: ``prefix + roots[i] + suffix``."""

    prefix: Value | None = None
    """Common beginning; absent means empty."""

    suffix: Value | None = None
    """Common end; absent means empty."""

    roots: Annotated[tuple[Value, ...], markers.list_atomic(at_least=1, at_most=_MAX_DOMAINS)]
    """What differs, one per domain."""


class LevelValues(View, frozen=True, kw_only=True):
    """Values of one level for all domains of a slice."""

    rules: ClassVar[tuple[Rule, ...]] = (_ONE_OF,)

    universal: Value | None = None
    """The value that all domains have."""

    individual: IndividualValues | None = None
    """Values that differ."""


class PodCounts(View, frozen=True, kw_only=True):
    """Pods per domain of a slice."""

    rules: ClassVar[tuple[Rule, ...]] = (_ONE_OF,)

    universal: Annotated[Int32, POSITIVE] | None = None
    """The number that all domains have."""

    individual: (
        Annotated[
            tuple[Annotated[Int32, POSITIVE], ...],
            markers.list_atomic(at_least=1, at_most=_MAX_DOMAINS),
        ]
        | None
    ) = None
    """Numbers, one per domain."""


class TopologyAssignmentSlice(View, frozen=True, kw_only=True):
    """A run of domains."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.podCounts.individual)"
            " || size(self.podCounts.individual) == self.domainCount",
            "podCounts.individual must have length equal to domainCount",
        ),
        Rule(
            "self.valuesPerLevel.all(level, !has(level.individual)"
            " || size(level.individual.roots) == self.domainCount)",
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount"
            " of this TopologyAssignmentSlice",
        ),
    )

    domain_count: Annotated[Int32, POSITIVE]
    """Number of domains in the run."""

    values_per_level: Annotated[
        tuple[LevelValues, ...], markers.list_atomic(at_least=1, at_most=16)
    ]
    """Names of the domains, one entry per level."""

    pod_counts: PodCounts
    """Pods per domain."""


class TopologyAssignment(View, frozen=True, kw_only=True):
    """Domains on which the pods are placed, and how many on each."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.slices.all(slice, size(slice.valuesPerLevel) == size(self.levels))",
            "valuesPerLevel must have the same length as the number of levels in this"
            " TopologyAssignment",
        ),
    )

    levels: Annotated[
        tuple[Annotated[str, text(at_most=317)], ...],
        markers.list_atomic(at_least=1, at_most=16),
    ]
    """Labels of the levels, from the widest to the narrowest."""

    slices: Annotated[tuple[TopologyAssignmentSlice, ...], markers.list_atomic(at_most=1000)]
    """The domains, in runs."""
