"""The GPUs of a node as cards: what each is cut into, to scale, and who holds which part.

A device plugin tells how many devices of which name a node has and how many a pod was given, not
which of them sits on which card. So the cards are drawn as they may be.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.base import names
from admission.gpu import nodes, resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.inventory import GpuNode
from admission.gpu.nodes import Layout
from admission.gpu.products import Product
from admission.serve.dashboard import bars

PAGE: Final = 40
"""Nodes of a page."""
MOST_CARDS: Final = 16
"""Cards of a node that are drawn; a server has no more."""
_MOST_PARTS: Final = 8
_FREE: Final = "free"
_HELD: Final = "held"
_OUTSIDE: Final = "outside"

Namer = Callable[[str, str], str]
"""Gives the name of a pod, by namespace and name; empty for one that the caller may not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A whole GPU, an instance of one, or a share.

    Attributes:
        label: what it is.
        start: first of the units of its card, counted from 1.
        span: units that it takes.
        state: ``free``, ``held`` or ``outside``: held by a pod that no queue was charged for.
        sick: whether it does not count.
        holder: who holds it; empty if nobody, or if the caller may not know.
    """

    label: str
    start: int
    span: int
    state: str = _FREE
    sick: bool = False
    holder: str = ""

    @property
    def text(self) -> str:
        """The text for people who do not see the map."""
        state_text = {_FREE: "free", _HELD: "held", _OUTSIDE: "held outside of quota"}[self.state]
        by_holder = f" by {self.holder}" if self.holder else ""
        return f"{self.label}: {state_text}{by_holder}{', sick' if self.sick else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU.

    Attributes:
        units: into how many it is divided where it is drawn, 1 to 8.
        parts: of it, by start.
    """

    units: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMap:
    """A node.

    Attributes:
        name: of the node.
        product: of its GPUs, as far as it is known.
        cards: its GPUs, as they may be cut.
        more: cards that are not drawn.
        reasons: why GPUs do not count.
        free: devices that nobody holds and that are healthy.
        total: all devices.
        is_cut: whether where the parts sit is not known.
    """

    name: str
    product: str
    cards: tuple[Card, ...]
    more: int
    reasons: tuple[str, ...]
    free: int
    total: int
    is_cut: bool


def of(node: GpuNode, catalogue: Catalogue, name_of: Namer) -> NodeMap:
    """Return the map of a node.

    Args:
        node: as it is now.
        catalogue: of products.
        name_of: names pods.
    """
    shape = nodes.layout(node.facts, catalogue)
    whole, cut = [], []
    for resource, amount in sorted(_devices(node).items()):
        parts = _states(node, resource, amount, name_of)
        profile = shape.profile if resource.startswith(names.GPU_RESOURCE) else ""
        profile = profile or nodes.profile_of(resource)
        if profile:
            cut += [replace(part, label=profile) for part in parts]
        else:
            whole += _grouped(parts, shape.divisor(resource))
    cards = [*whole, *_packed(cut, shape)]
    every = [part for card in cards for part in card.parts]
    label = node.facts.labels.get(names.GPU_PRODUCT_LABEL, "")
    return NodeMap(
        name=node.facts.name,
        product=label or (shape.product.name if shape.product else ""),
        cards=tuple(cards[:MOST_CARDS]),
        more=max(0, len(cards) - MOST_CARDS),
        reasons=node.part.reasons,
        free=sum(part.state == _FREE and not part.sick for part in every),
        total=len(every),
        is_cut=len(cut) > 1,
    )


def _devices(node: GpuNode) -> dict[str, int]:
    """Return all devices by name, those that do not count too."""
    if node.facts.published is not None:
        return dict(node.facts.published.most(with_sick=True))
    offered = (node.facts.capacity, node.facts.allocatable)
    return {
        name: largest
        for name in {
            name
            for devices_offered in offered
            for name in devices_offered
            if resources.is_device(name)
        }
        if (largest := max(devices_offered.get(name, 0) for devices_offered in offered))
    }


def _states(node: GpuNode, resource: str, amount: int, name_of: Namer) -> list[Part]:
    """Return a part for each device: those that are held first, those that are sick last."""
    healthy = node.part.units.get(resource, 0)
    states = list(_held(node, resource, name_of))[:amount]
    states += [(_FREE, "")] * (amount - len(states))
    label = bars.short(resource)
    return [
        Part(label=label, start=1, span=1, state=state, sick=number >= healthy, holder=holder)
        for number, (state, holder) in enumerate(states)
    ]


def _held(node: GpuNode, resource: str, name_of: Namer) -> Iterator[tuple[str, str]]:
    for pod in node.pods:
        state = _OUTSIDE if pod.outside else _HELD
        for _ in range(pod.amounts.get(resource, 0)):
            yield state, name_of(pod.namespace, pod.name)
    for _ in range(node.others.get(resource, 0)):
        yield _OUTSIDE, ""


def _grouped(parts: Sequence[Part], shares: int) -> list[Card]:
    """Return cards of as many parts as a GPU has shares; of more than eight only how many."""
    cards = []
    for first in range(0, len(parts), max(1, shares)):
        group = parts[first : first + max(1, shares)]
        if len(group) > _MOST_PARTS:
            taken = sum(part.state != _FREE for part in group)
            label = f"{group[0].label}: {taken} of {len(group)} shares held"
            state = _HELD if taken else _FREE
            group = [Part(label=label, start=1, span=1, state=state, sick=group[0].sick)]
        placed = tuple(replace(part, start=number + 1) for number, part in enumerate(group))
        cards.append(Card(units=len(placed), parts=placed))
    return cards


def _packed(parts: Sequence[Part], shape: Layout) -> list[Card]:
    """Return cards on which instances sit where they may; the largest are placed first."""
    product = shape.product
    placeable = [
        part for part in parts if product is not None and product.find(part.label) is not None
    ]
    rest = [part for part in parts if part not in placeable]
    cards: list[tuple[list[Part], set[int]]] = []
    for part in sorted(placeable, key=lambda part: (-_size(product, part.label), part.label)):
        _place(part, product, cards)
    drawn = [
        Card(units=product.axis, parts=tuple(sorted(card_parts, key=lambda part: part.start)))
        for card_parts, _ in cards
        if product is not None
    ]
    for first in range(0, len(rest), _MOST_PARTS):
        group = rest[first : first + _MOST_PARTS]
        placed = tuple(replace(part, start=number + 1) for number, part in enumerate(group))
        drawn.append(Card(units=len(placed), parts=placed))
    return drawn


def _size(product: Product | None, label: str) -> int:
    profile_found = None if product is None else product.find(label)
    return 0 if profile_found is None else profile_found.size


def _place(part: Part, product: Product | None, cards: list[tuple[list[Part], set[int]]]) -> None:
    profile = None if product is None else product.find(part.label)
    assert profile is not None
    for card_parts, taken in (*cards, ([], set())):
        for start in profile.starts:
            units = set(range(start, start + profile.size))
            if not units & taken:
                if not card_parts:
                    cards.append((card_parts, taken))
                card_parts.append(replace(part, start=start + 1, span=profile.size))
                taken.update(units)
                return
