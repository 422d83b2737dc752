"""The colours by which ClusterQueues are told apart: those with most have one each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

COLOURED: Final = 8
"""ClusterQueues with a colour of their own; the style sheet has as many."""
OTHERS: Final = "qx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shade:
    """A ClusterQueue, or all that have no colour of their own.

    Attributes:
        name: of the ClusterQueue; empty for the others.
        shade: class of the style sheet.
        amount: what it has.
        count: how many ClusterQueues it stands for.
    """

    name: str
    shade: str
    amount: int
    count: int = 1


def of(amounts: Mapping[str, int]) -> tuple[Shade, ...]:
    """Return the ClusterQueues with most, largest first, and the sum of the others, if any."""
    ranked = sorted((name for name, n in amounts.items() if n), key=lambda q: (-amounts[q], q))
    shades_ = [
        Shade(name=name, shade=f"q{number}", amount=amounts[name])
        for number, name in enumerate(ranked[:COLOURED])
    ]
    rest = ranked[COLOURED:]
    if rest:
        total = sum(amounts[name] for name in rest)
        shades_.append(Shade(name="", shade=OTHERS, amount=total, count=len(rest)))
    return tuple(shades_)


def by_name(shades_: Iterable[Shade]) -> dict[str, str]:
    """Return the class of each ClusterQueue that has a colour of its own."""
    return {shade.name: shade.shade for shade in shades_ if shade.name}
