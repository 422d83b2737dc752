"""Checks of topologies: do the labels of nodes say what a Topology says of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from admission.admin.doctor.devices import shown
from admission.admin.doctor.findings import DoctorFinding, error, warning
from admission.admin.doctor.picture import Picture
from admission.base import conditions, names, structs
from admission.gpu.topology_labels import HOSTNAME
from admission.kube import resources
from admission.objects import resource_flavor, workload
from admission.objects.topology import Topology
from admission.objects.workload import Workload

_KIND: Final = "Topology"


@dataclass(frozen=True, slots=True)
class _TopologyNodes:
    """A Topology with the nodes of the flavors that name it.

    Attributes:
        name: of the Topology.
        levels: labels, the widest first.
        labels: of the nodes with GPUs, by name of the node.
    """

    name: str
    levels: tuple[str, ...]
    labels: Mapping[str, Mapping[str, str]]

    def domains(self, depth: int) -> dict[tuple[str, ...], list[str]]:
        """Return the nodes by their values of the first levels; those without one are left out."""
        domains: dict[tuple[str, ...], list[str]] = {}
        for node, labels in self.labels.items():
            values = tuple(labels.get(level, "") for level in self.levels[:depth])
            if all(values):
                domains.setdefault(values, []).append(node)
        return domains

    def values(self, level: str) -> dict[str, set[str]]:
        """Return the nodes by their value of one level."""
        nodes: dict[str, set[str]] = {}
        for node, labels in self.labels.items():
            if labels.get(level):
                nodes.setdefault(labels[level], set()).add(node)
        return nodes


def _topologies(picture: Picture) -> Iterator[_TopologyNodes]:
    convert = structs.converter(Topology)
    for document in picture.of(resources.TOPOLOGIES):
        try:
            topology = convert(document)
        except msgspec.ValidationError:
            continue  # the controller tells of it
        name = topology.metadata.name
        nodes = {
            facts.name: facts.labels
            for flavor in picture.flavors.values()
            if resource_flavor.scheduling_value(flavor).topology == name
            for facts, _ in picture.nodes_of(flavor)
        }
        levels = tuple(level.node_label for level in topology.spec.levels)
        yield _TopologyNodes(name, levels, dict(sorted(nodes.items())))


def levels(picture: Picture) -> Iterator[DoctorFinding]:
    """The nodes of flavors with a Topology have the labels of its levels, wide levels first."""
    for topology in _topologies(picture):
        yield from _missing(topology)
        yield from _order(topology)
        yield from _single(topology)
    yield from _spares(picture)


def _missing(topology: _TopologyNodes) -> Iterator[DoctorFinding]:
    for level in topology.levels:
        lacking = [node for node, labels in topology.labels.items() if not labels.get(level)]
        if not lacking:
            continue
        mend = (
            f"label them, for example kubectl label node {lacking[0]} {level}=NAME, or name other "
            f"levels in a new Topology"
        )
        if len(lacking) == len(topology.labels):
            text = f"no node of its flavors has the label {level}, so no pod gets a domain"
            yield error(_KIND, topology.name, text, mend)
        else:
            text = (
                f"{len(lacking)} of {len(topology.labels)} nodes of its flavors have no label "
                f"{level} ({shown(lacking)}): no pod is placed on them"
            )
            yield warning(_KIND, topology.name, text, mend)


def _order(topology: _TopologyNodes) -> Iterator[DoctorFinding]:
    for wide, narrow in zip(topology.levels, topology.levels[1:], strict=False):
        of_wide, of_narrow = topology.values(wide), topology.values(narrow)
        is_turned = len(of_wide) > len(of_narrow) and all(
            any(nodes <= outer for outer in of_narrow.values()) for nodes in of_wide.values()
        )
        if is_turned:
            text = (
                f"level {wide} stands above {narrow}, but is the narrower one: "
                f"{len(of_narrow)} values of {narrow} contain {len(of_wide)} of {wide}"
            )
            mend = f"create a Topology in which {narrow} comes first, and name it in the flavors"
            yield warning(_KIND, topology.name, text, mend)


def _spares(picture: Picture) -> Iterator[DoctorFinding]:
    levels = {topology.name: topology.levels for topology in _topologies(picture)}
    for flavor in picture.flavors.values():
        value = resource_flavor.scheduling_value(flavor)
        spare = value.spare_nodes
        if spare is None or spare.level in levels.get(value.topology, ())[:-1]:
            continue
        problem = (
            f"its annotation {names.SPARE_NODES} names {spare.level}, which is no level above"
            " the lowest one of its Topology: no node is kept"
            if value.topology
            else f"its annotation {names.SPARE_NODES} keeps no node: it has no Topology"
        )
        mend = f"set {names.SPARE_NODES} to LEVEL=COUNT with a level of its Topology, or remove it"
        yield warning("ResourceFlavor", value.name, problem, mend)


def _single(topology: _TopologyNodes) -> Iterator[DoctorFinding]:
    for depth, level in enumerate(topology.levels, 1):
        domains = topology.domains(depth)
        if level != HOSTNAME and len(domains) > 1 and all(len(n) == 1 for n in domains.values()):
            text = (
                f"each of the {len(domains)} domains of level {level} has one node: a Job that "
                "asks for one of them asks for one node"
            )
            mend = (
                f"check the label: kubectl get nodes -L {level}; if it is right, use {HOSTNAME} "
                "in its place"
            )
            yield warning(_KIND, topology.name, text, mend)


def assignments(picture: Picture) -> Iterator[DoctorFinding]:
    """Every domain that a Workload was assigned has a node."""
    labels = {node.metadata.name: node.metadata.labels or {} for node in picture.nodes}
    of_levels: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for view in picture.workloads:
        if view.status.is_true(conditions.FINISHED) or not workload.has_domains(view):
            continue
        lost = sorted(_without_node(view, labels, of_levels))
        if lost:
            name = f"{view.metadata.namespace}/{view.metadata.name}"
            text = f"no node is in {shown(lost)}, where its pods were assigned"
            mend = (
                f"kubectl describe workload {view.metadata.name} -n {view.metadata.namespace}; "
                "give the nodes their labels back, or delete its pods, so that it is assigned anew"
            )
            yield warning("Workload", name, text, mend)


def _without_node(
    view: Workload,
    labels: Mapping[str, Mapping[str, str]],
    of_levels: dict[tuple[str, ...], set[tuple[str, ...]]],
) -> set[str]:
    admission = view.status.admission
    lost: set[str] = set()
    for pod_set in (admission.pod_set_assignments or ()) if admission is not None else ():
        domains = workload.assigned_domains(view, pod_set.name)
        if domains is None:
            continue
        if domains.levels not in of_levels:
            of_levels[domains.levels] = _values(domains.levels, labels)
        lost |= {
            "/".join(values)
            for values, _ in domains.counts
            if values not in of_levels[domains.levels]
        }
    return lost


def _values(
    levels: Sequence[str], labels: Mapping[str, Mapping[str, str]]
) -> set[tuple[str, ...]]:
    return {
        tuple(labels_of_node.get(level, "") for level in levels)
        for labels_of_node in labels.values()
    }
