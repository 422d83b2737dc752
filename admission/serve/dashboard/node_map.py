"""The nodes as small cells, grouped: how many of their GPUs each queue holds.

A node's cells are counts. Which GPU of a node a pod has is decided on the node, and is not known.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from admission.base import names
from admission.gpu import resources, topology_labels
from admission.gpu.inventory import GpuNode, NodeStock
from admission.serve.dashboard import words

PAGE: Final = 250
"""Nodes that are drawn on a page; of more only the groups are shown."""
GROUPS: Final = 60
MOST_CELLS: Final = 16
"""Cells of one resource of a node that are drawn one by one."""
PRODUCT: Final = names.GPU_PRODUCT_LABEL
NONE: Final = "(none)"
_LEVELS: Final = (PRODUCT, *topology_labels.LEVELS)
"""Labels by which nodes may be grouped, where nodes have them."""
_FREE, _SICK, _OUTSIDE, _HELD = "free", "sick", "outside", "qx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Neighbouring cells of a node that have the same holder.

    Attributes:
        shade: class of the style sheet.
        count: how many cells are drawn.
        text: the same in words.
    """

    shade: str
    count: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One resource of a node.

    Attributes:
        label: of the resource.
        cells: from left to right.
    """

    label: str
    cells: tuple[Cells, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    """A node.

    Attributes:
        name: of the node.
        strips: its resources, whole GPUs first.
        text: the same in words.
        is_sick: whether some of its GPUs do not count.
    """

    name: str
    strips: tuple[Strip, ...]
    text: str
    is_sick: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Devices of one kind of some nodes; those of several kinds are never added up.

    Attributes:
        unit: what is counted, such as ``GPUs``.
        total: how many exist.
        free: those that are free.
        hole: most that are free on one node.
    """

    unit: str
    total: int
    free: int
    hole: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes with the same value of a label.

    Attributes:
        value: of the label.
        nodes: how many.
        stocks: what they have, whole GPUs first.
        total: devices that exist, for the parts of a bar.
        held: those that are not free and not sick.
        sick: those that do not count.
        drawn: the nodes of the page; empty where only groups are shown.
    """

    value: str
    nodes: int
    stocks: tuple[Stock, ...]
    total: int
    held: int
    sick: int
    drawn: tuple[MapNode, ...] = ()


def levels(stock: Iterable[NodeStock]) -> list[str]:
    """Return the labels by which these nodes can be grouped."""
    keys = {key for node in stock for key in node.labels}
    return [key for key in _LEVELS if key in keys]


def default_level(stock: Sequence[NodeStock], labels: Sequence[str]) -> str:
    """Return the first label whose groups can all be drawn, else the first."""
    for label in labels:
        sizes = Counter(value_of(node, label) for node in stock)
        if max(sizes.values(), default=0) <= PAGE:
            return label
    return labels[0]


def value_of(node: NodeStock, label: str) -> str:
    """Return the group of a node."""
    return node.labels.get(label) or NONE


def matching(stock: Iterable[NodeStock], text: str) -> list[NodeStock]:
    """Return the nodes whose name, or whose value of a label of `levels`, has a text."""
    return [
        node
        for node in stock
        if text in node.name.lower()
        or any(text in node.labels.get(key, "").lower() for key in _LEVELS)
    ]


def groups(
    stock: Sequence[NodeStock], label: str, drawn: Mapping[str, MapNode]
) -> tuple[Group, ...]:
    """Return the groups, by value.

    Args:
        stock: the nodes.
        label: by which they are grouped.
        drawn: nodes to draw, by name.
    """
    members: dict[str, list[NodeStock]] = {}
    for node in stock:
        members.setdefault(value_of(node, label), []).append(node)
    return tuple(
        _group(value, members_of_group, drawn)
        for value, members_of_group in sorted(members.items())
    )


def _group(value: str, nodes: Sequence[NodeStock], drawn: Mapping[str, MapNode]) -> Group:
    healthy = sum(_devices(node.healthy) for node in nodes)
    free = sum(_devices(node.free) for node in nodes)
    sick = sum(_devices(node.sick) for node in nodes)
    return Group(
        value=value,
        nodes=len(nodes),
        stocks=tuple(_stocks(nodes)),
        total=healthy + sick,
        held=healthy - free,
        sick=sick,
        drawn=tuple(drawn[node.name] for node in nodes if node.name in drawn),
    )


def _stocks(nodes: Sequence[NodeStock]) -> Iterator[Stock]:
    """Yield what nodes have of each kind of device."""
    for unit, is_of_kind in (("GPUs", _is_whole), ("slices", _is_part)):
        free = [_devices(node.free, is_of_kind) for node in nodes]
        total = sum(
            _devices(node.healthy, is_of_kind) + _devices(node.sick, is_of_kind) for node in nodes
        )
        if total:
            unit_ = unit.removesuffix("s") if total == 1 else unit
            yield Stock(unit=unit_, total=total, free=sum(free), hole=max(free, default=0))


def _is_part(resource: str) -> bool:
    """Return whether a device is a slice or a share of a GPU."""
    return resource == names.GPU_SHARED_RESOURCE or resource.startswith(names.MIG_RESOURCE_PREFIX)


def _is_whole(resource: str) -> bool:
    return not _is_part(resource)


def _devices(
    amounts: Mapping[str, int], is_of_kind: Callable[[str], bool] = resources.is_device
) -> int:
    return sum(n for name, n in amounts.items() if resources.is_device(name) and is_of_kind(name))


def held_by_queue(nodes: Iterable[GpuNode]) -> dict[str, int]:
    """Return how many devices pods of each ClusterQueue hold on some nodes."""
    counts: dict[str, int] = {}
    for node in nodes:
        for pod in node.pods:
            if pod.queue:
                counts[pod.queue] = counts.get(pod.queue, 0) + _devices(pod.amounts)
    return counts


def draw(node: GpuNode, stock: NodeStock, colours: Mapping[str, str]) -> MapNode:
    """Return a node as it is drawn.

    Args:
        node: with its holders.
        stock: what it has.
        colours: class of each ClusterQueue that has one of its own.
    """
    offered = sorted(
        name
        for name in {*stock.healthy, *stock.sick}
        if resources.is_device(name) and (stock.healthy.get(name, 0) or stock.sick.get(name, 0))
    )
    offered.sort(key=lambda name: name != names.GPU_RESOURCE)
    strips = tuple(_strip(node, stock, name, colours) for name in offered)
    texts = [
        f"{strip.label}: {', '.join(cells.text for cells in strip.cells)}" for strip in strips
    ]
    return MapNode(
        name=stock.name,
        strips=strips,
        text=f"{stock.name}. {'; '.join(texts) or 'no GPUs'}",
        is_sick=any(stock.sick.values()),
    )


def _strip(node: GpuNode, stock: NodeStock, resource: str, colours: Mapping[str, str]) -> Strip:
    holders_counted: dict[tuple[str, str], int] = {}
    for pod in node.pods:
        count = pod.amounts.get(resource, 0)
        if count:
            shade = _OUTSIDE if pod.outside else colours.get(pod.queue, _HELD)
            holder_text = "held outside of quota" if pod.outside else pod.queue or "held"
            holders_counted[shade, holder_text] = (
                holders_counted.get((shade, holder_text), 0) + count
            )
    rest = node.others.get(resource, 0)
    if rest:
        key = _OUTSIDE, "held outside of quota"
        holders_counted[key] = holders_counted.get(key, 0) + rest
    sick, free = stock.sick.get(resource, 0), stock.free.get(resource, 0)
    parts = [(*key, n) for key, n in sorted(holders_counted.items())]
    parts += [(_FREE, "free", free)] if free else []
    parts += [(_SICK, "sick", sick)] if sick else []
    total = max(1, sum(n for _, _, n in parts))
    return Strip(
        label=words.short(resource),
        cells=tuple(
            Cells(shade=shade, count=_cells(n, total), text=f"{n} {holder_text}")
            for shade, holder_text, n in parts
        ),
    )


def _cells(count: int, total: int) -> int:
    if total <= MOST_CELLS:
        return count
    return max(1, count * MOST_CELLS // total)
