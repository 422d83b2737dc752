"""The colours by which ClusterQueues are told apart: those with most on a page have one each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

COLOURED: Final = 8
"""ClusterQueues with a colour of their own; the style sheet has as many."""
OTHERS: Final = "qx"
_COLOURS: Final = tuple(f"q{number}" for number in range(COLOURED))


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


def ranking(gpu_time: Mapping[str, int], nominal: Mapping[str, int]) -> list[str]:
    """Return the ClusterQueues in the order in which they get colours, the same for all pages.

    Args:
        gpu_time: what each used of GPUs lately.
        nominal: quota of GPUs of each ClusterQueue that exists.
    """
    return sorted(nominal, key=lambda name: (-gpu_time.get(name, 0), -nominal[name], name))


def of(amounts: Mapping[str, int], ranked: Sequence[str]) -> tuple[Shade, ...]:
    """Return the ClusterQueues with a colour, largest first, and the sum of the others, if any.

    A ClusterQueue that is among the first of all has the same colour on each page. Colours that
    are left on this page go to those with most.

    Args:
        amounts: what each has on this page.
        ranked: all of them, see `ranking`.
    """
    largest = sorted((name for name, n in amounts.items() if n), key=lambda q: (-amounts[q], q))
    same = dict(zip(ranked, _COLOURS, strict=False))
    colours = {name: same[name] for name in largest if name in same}
    left = [colour for colour in _COLOURS if colour not in colours.values()]
    colours |= zip((name for name in largest if name not in colours), left, strict=False)
    shades_ = [
        Shade(name=name, shade=colours[name], amount=amounts[name])
        for name in largest
        if name in colours
    ]
    rest = [name for name in largest if name not in colours]
    if rest:
        total = sum(amounts[name] for name in rest)
        shades_.append(Shade(name="", shade=OTHERS, amount=total, count=len(rest)))
    return tuple(shades_)


def by_name(shades_: Iterable[Shade]) -> dict[str, str]:
    """Return the class of each ClusterQueue that has a colour of its own."""
    return {shade.name: shade.shade for shade in shades_ if shade.name}
