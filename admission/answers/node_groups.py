"""What nodes have free, added up by the value of one of their labels: a rack, a block, a zone.

`read` lists what is needed with the rights of who asks; `of` adds it up. Amounts are devices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from admission.answers import quota_use
from admission.answers.cluster import not_listed
from admission.base import json_answers
from admission.base.errors import InvalidValueError
from admission.gpu import resources as devices
from admission.gpu import topology_labels
from admission.kube import errors, resources
from admission.kube.api import Api, every, every_served
from admission.objects import bound_pod, views
from admission.objects.bound_pod import BoundPodDocument
from admission.objects.topology import Topology

NONE: Final = "(none)"
"""Stands for the value of nodes without the label."""
_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObjects:
    """What was read.

    Attributes:
        nodes: all nodes.
        topologies: by which levels are in each other.
        pods: all bound pods that have not ended; None where not all may be listed.
        missing: what could not be read, a sentence each.
    """

    nodes: tuple[views.Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    pods: tuple[BoundPodDocument, ...] | None = None
    missing: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class DomainAmount:
    """One resource on the nodes of a domain.

    Attributes:
        real: devices that can be used.
        sick: devices that exist and cannot be used.
        used: what bound pods request; None where not all pods may be read.
        free: what is left of `real`, node by node; None likewise.
        largest: most that is free on one node; None likewise.
        node: the first node by name with as much; empty where nothing is free.
    """

    real: int = 0
    sick: int = 0
    used: int | None = None
    free: int | None = None
    largest: int | None = None
    node: str = ""


@dataclass(slots=True, kw_only=True)
class NodeDomain:
    """Nodes with the same value of a level, and of all levels above it.

    Attributes:
        values: of the levels, the widest first; `NONE` for a label that is missing.
        nodes: how many nodes have devices, by resource.
        amounts: by resource.
    """

    values: tuple[str, ...]
    nodes: Counter[str] = field(default_factory=Counter)
    amounts: dict[str, DomainAmount] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the values as one text."""
        return _SEPARATOR.join(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedNodes:
    """The nodes with devices, by domain.

    Attributes:
        levels: labels, the widest first; the last one is what was asked for.
        domains: sorted by their values, those without a label last.
        missing: what could not be read.
    """

    levels: tuple[str, ...]
    domains: tuple[NodeDomain, ...]
    missing: tuple[str, ...] = ()

    def resources(self) -> list[str]:
        """Return the resources of all domains, whole GPUs first."""
        names = {name for domain in self.domains for name in domain.amounts}
        return sorted(names, key=quota_use.order_of)


def read(api: Api) -> NodeObjects:
    """Read nodes, Topologies and bound pods, as far as the caller may.

    Raises:
        KubeError: the API server did not answer.
    """
    missing: list[str] = []
    try:
        nodes = tuple(every(api, resources.NODES, into=views.Node))
    except errors.ForbiddenError:
        return NodeObjects(missing=(not_listed(resources.NODES),))
    try:
        topologies = tuple(every_served(api, resources.TOPOLOGIES, into=Topology))
    except errors.ForbiddenError:
        topologies = ()
        missing.append(not_listed(resources.TOPOLOGIES))
    pods: tuple[BoundPodDocument, ...] | None = None
    try:
        pods = tuple(
            every(api, resources.PODS, field_selector=bound_pod.FIELDS, into=BoundPodDocument)
        )
    except errors.ForbiddenError:
        missing.append("What is used and free is not shown: you may not list all Pods")
    return NodeObjects(nodes=nodes, topologies=topologies, pods=pods, missing=tuple(missing))


def labels(objects: NodeObjects) -> list[str]:
    """Return the labels by which the nodes can be grouped, wide ones first."""
    of_topologies = (
        level.node_label for topology in objects.topologies for level in topology.spec.levels
    )
    candidates = dict.fromkeys((*topology_labels.LEVELS, *of_topologies))
    of_nodes = _labels_of_nodes(objects)
    return [key for key in candidates if key in of_nodes]


def _labels_of_nodes(objects: NodeObjects) -> set[str]:
    return {key for node in objects.nodes for key in node.metadata.labels or {}}


def level_named(objects: NodeObjects, text: str) -> str:
    """Return the label that a text names, whole or by its last part; empty for none or several.

    A usual label goes before others with the same last part.
    """
    of_nodes = _labels_of_nodes(objects)
    if text in of_nodes:
        return text
    ending = f"/{text}"
    usual = [key for key in labels(objects) if key.endswith((ending, f"-{text}"))]
    candidates = usual or sorted(key for key in of_nodes if key.endswith(ending))
    return candidates[0] if len(candidates) == 1 else ""


def of(objects: NodeObjects, level: str) -> GroupedNodes:
    """Add up nodes by a level.

    Where a Topology has the level, nodes belong together that have the same values of all levels
    above it, too, as Kueue's domains do. Of several Topologies the first by name counts.
    """
    chain = _levels(objects.topologies, level)
    used = _used(objects.pods)
    domains: dict[tuple[str, ...], NodeDomain] = {}
    for node in quota_use.capacities(objects.nodes):
        amounts = {
            name: (node.healthy.get(name, 0), node.sick.get(name, 0))
            for name in sorted({*node.healthy, *node.sick})
            if devices.is_device(name)
        }
        if not any(real or sick for real, sick in amounts.values()):
            continue
        values = tuple(node.labels.get(label) or NONE for label in chain)
        domain = domains.setdefault(values, NodeDomain(values=values))
        used_here = None if used is None else used.get(node.name, {})
        for name, (real, sick) in amounts.items():
            domain.nodes[name] += 1
            total = domain.amounts.setdefault(name, DomainAmount())
            total.real += real
            total.sick += sick
            if used_here is not None:
                _add_use(total, node.name, real, used_here.get(name, 0))
    ordered = sorted(domains.values(), key=_with_missing_last)
    return GroupedNodes(levels=chain, domains=tuple(ordered), missing=objects.missing)


def _with_missing_last(domain: NodeDomain) -> tuple[tuple[bool, str], ...]:
    return tuple((value == NONE, value) for value in domain.values)


def _add_use(total: DomainAmount, node: str, real: int, used: int) -> None:
    free = max(0, real - used)
    total.used = (total.used or 0) + used
    total.free = (total.free or 0) + free
    if free > (total.largest or 0):
        total.node = node
    total.largest = max(total.largest or 0, free)


def _levels(topologies: Iterable[Topology], level: str) -> tuple[str, ...]:
    for topology in sorted(topologies, key=lambda topology_: topology_.metadata.name):
        chain = [level_.node_label for level_ in topology.spec.levels]
        if level in chain:
            return tuple(chain[: chain.index(level) + 1])
    return (level,)


def _used(pods: Sequence[BoundPodDocument] | None) -> Mapping[str, Mapping[str, int]] | None:
    """Return what bound pods request, by node and resource."""
    if pods is None:
        return None
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        try:
            value = bound_pod.value(pod)
        except InvalidValueError:
            continue  # nothing that an API server stores
        if value is not None:
            used.setdefault(value.node, Counter()).update(value.requests)
    return used


def document(grouped: GroupedNodes) -> dict[str, Any]:
    """Return the answer as JSON: quantities as texts, None for what is unknown."""
    return {
        "apiVersion": json_answers.API_VERSION,
        "kind": "NodeGroups",
        "levels": list(grouped.levels),
        "domains": [
            {
                "values": [None if value == NONE else value for value in domain.values],
                "resources": [
                    {
                        "resource": name,
                        "nodes": domain.nodes[name],
                        "real": quota_use.amount_text(name, amount.real),
                        "sick": quota_use.amount_text(name, amount.sick),
                        "used": quota_use.amount_text(name, amount.used),
                        "free": quota_use.amount_text(name, amount.free),
                        "largestHole": quota_use.amount_text(name, amount.largest),
                        "node": amount.node or None,
                    }
                    for name, amount in sorted(
                        domain.amounts.items(), key=lambda item: quota_use.order_of(item[0])
                    )
                ],
            }
            for domain in grouped.domains
        ],
        "missing": list(grouped.missing),
    }
