"""The recorded domains of one workload (family T02) against those that this engine chooses.

Such a case has no steps. It has the nodes of one topology, what is on them, and one workload whose
flavors are settled. ``expect`` says where Kueue places its pods, or its words why it does not;
``expectIfEmpty`` the same if no admitted workload held anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from admission.base import quantity
from admission.base.names import FlavorName, PodSetName
from admission.objects import pod_needs, values, views
from admission.reasons import domains as texts
from admission.scheduling.model import Taint
from admission.scheduling.places.model import HOSTNAME, PODS, Node, PodShape, Want
from admission.scheduling.topology import replacement
from admission.scheduling.topology.leaves import Leaf
from admission.scheduling.topology.plan import FreeLeaves, plan
from admission.scheduling.topology.request import ANYWHERE, Layer, TopologyRequest
from admission.scheduling.topology.search import DomainCount
from admission.scheduling.topology.tree import DomainPath, DomainTree
from tests.parity.compare import Difference

Document = dict[str, Any]
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def differences(case: Mapping[str, Any], *, messages: bool) -> Iterator[Difference]:
    """Yield where pods go elsewhere than recorded, or are refused in other words."""
    for field, is_empty in (("expect", False), ("expectIfEmpty", True)):
        if field not in case:
            continue
        answer = _Case(case, is_empty=is_empty).answer()
        for name in sorted({*case[field], *answer}):
            expected, got = (
                _shown(one.get(name), messages=messages) for one in (case[field], answer)
            )
            if expected != got:
                yield Difference(case["id"], -1, f"{field}.{name}", expected, got)


def _shown(answer: Mapping[str, Any] | None, *, messages: bool) -> object:
    if answer is None or "domains" not in answer:
        return answer if messages or answer is None else "refused"
    domains = [[list(path), count] for path, count in answer["domains"]]
    return {"levels": list(answer["levels"]), "domains": domains}


class _Case:
    """The nodes of a case, with what is free in each domain of each flavor."""

    def __init__(self, case: Mapping[str, Any], *, is_empty: bool) -> None:
        self._case = case
        self._levels = tuple(case["topology"]["levels"])
        self._has_hosts = self._levels[-1] == HOSTNAME
        self._flavors = {one["name"]: one for one in case["flavors"]}
        self._nodes = {one["name"]: _node(one) for one in case["nodes"] if _is_usable(one)}
        self._free = {name: self._flavor_leaves(one) for name, one in self._flavors.items()}
        self._hosts = {
            name: {path[-1]: path for path in free.tree.leaves}
            for name, free in self._free.items()
        }
        workload = case["workload"]
        holders = () if is_empty else case.get("admitted", ())
        for holder in (*holders, *([workload] if "unhealthyNode" in workload else [])):
            for pod_set in holder["podSets"]:
                self._hold(pod_set)

    def _flavor_leaves(self, flavor: Document) -> FreeLeaves:
        labels = flavor["nodeLabels"].items()
        selected = [
            node
            for node in self._nodes.values()
            if labels <= node.labels.items() and all(key in node.labels for key in self._levels)
        ]
        paths = {node.name: tuple(node.labels[key] for key in self._levels) for node in selected}
        tree = DomainTree(self._levels, paths.values())
        there: dict[DomainPath, dict[str, int]] = {path: {} for path in tree.leaves}
        for node in selected:
            _add(there[paths[node.name]], node.amounts, 1)
        for pod in self._case.get("pods", ()):
            if pod["node"] in paths and pod.get("phase") not in _ENDED:
                _add(there[paths[pod["node"]]], {**_amounts(pod["requests"]), PODS: 1}, -1)
        hosts = {paths[node.name]: node for node in selected} if self._has_hosts else {}
        return FreeLeaves(
            tree, [Leaf(tree.leaves[path], free, hosts.get(path)) for path, free in there.items()]
        )

    def _hold(self, pod_set: Document) -> None:
        """Count a pod set on its domains; hosts are the same in all flavors, other domains not."""
        shape = _shape(pod_set, {})
        names = self._free if self._has_hosts else (pod_set["flavor"],)
        for name in names:
            counts = self._paths(name, pod_set["domains"])
            self._free[name].take(counts, shape)

    def _paths(self, flavor: str, domains: Iterable[Any]) -> list[DomainCount]:
        """The domains that a flavor has, with their full paths."""
        tree = self._free[flavor].tree
        hosts = self._hosts[flavor]
        full = (
            (hosts.get(found[0]) if self._has_hosts else tuple(found), count)
            for found, count in domains
        )
        return [
            DomainCount(path, n) for path, n in full if path is not None and path in tree.leaves
        ]

    def answer(self) -> Document:
        """Return where the pods go, by pod set, or why they do not."""
        workload = self._case["workload"]
        if "unhealthyNode" in workload:
            return self._replaced(workload)
        answer: Document = {}
        pod_sets = workload["podSets"]
        for name in sorted({one["flavor"] for one in pod_sets}):
            wants = [
                Want(
                    PodSetName(one["name"]), _shape(one, self._flavors[name]), one["count"],
                    (FlavorName(name),), _request(one),
                )
                for one in pod_sets
                if one["flavor"] == name
            ]  # fmt: skip
            made = plan(self._free[name], self._case["topology"]["name"], wants)
            answer |= {one: {"reason": texts.refusal(why)} for one, why in made.refused.items()}
            answer |= {one: self._document(counts) for one, counts in made.placed.items()}
            shapes = {want.pod_set: want.shape for want in wants}
            for other in self._free if self._has_hosts else ():
                if other != name:
                    for one, counts in made.placed.items():
                        held = [c for c in counts if c.path in self._free[other].tree.leaves]
                        self._free[other].take(held, shapes[one])
        return answer

    def _replaced(self, workload: Document) -> Document:
        answer: Document = {}
        lost = workload["unhealthyNode"]
        for one in workload["podSets"]:
            if all(values[-1] != lost for values, _ in one["domains"]):
                continue
            name = one["flavor"]
            free, hosts = self._free[name], self._hosts[name]
            shape = _shape(one, self._flavors[name])
            placed = [(host, hosts.get(host), count) for (host,), count in one["domains"]]
            made = replacement.replaced(
                free.tree, self._case["topology"]["name"], _request(one), placed, lost,
                partial(free.rooms, shape, None),
            )  # fmt: skip
            if not isinstance(made, tuple):
                return answer | {one["name"]: {"reason": texts.refusal(made)}}
            counts, anew = made
            answer[one["name"]] = self._document(counts)
            for other in self._free:
                held = [c for c in anew if c.path in self._free[other].tree.leaves]
                self._free[other].take(held, shape)
        return answer

    def _document(self, counts: Iterable[DomainCount]) -> Document:
        shown = 1 if self._has_hosts else len(self._levels)
        return {
            "levels": self._levels[-shown:],
            "domains": [(path[-shown:], count) for path, count in counts],
        }


def _is_usable(node: Document) -> bool:
    return node.get("ready", True) and not node.get("unschedulable", False)


def _node(node: Document) -> Node:
    taints = tuple(
        Taint(key=one["key"], value=one.get("value", ""), effect=one["effect"])
        for one in node.get("taints", ())
    )
    labels = {HOSTNAME: node["name"], **node["labels"]}
    return Node(
        name=node["name"], labels=labels, taints=taints, amounts=_amounts(node["allocatable"])
    )


def _amounts(found: Mapping[str, str]) -> dict[str, int]:
    return {name: quantity.to_canonical(name, value) for name, value in found.items()}


def _add(there: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        there[name] = there.get(name, 0) + sign * amount


def _shape(pod_set: Document, flavor: Document) -> PodShape:
    affinity = {"nodeAffinity": pod_set["nodeAffinity"]} if "nodeAffinity" in pod_set else None
    document = {"containers": [], "affinity": affinity} if affinity else {"containers": []}
    spec = msgspec.convert(document, views.PodSpec)
    needs = pod_needs.of_template(spec, {}, _amounts(pod_set["requests"]), None)
    tolerations = [*pod_set.get("tolerations", ()), *flavor.get("tolerations", ())]
    return PodShape(
        needs,
        tuple(sorted(pod_set.get("nodeSelector", {}).items())),
        values.tolerations(msgspec.convert(one, views.Toleration) for one in tolerations),
    )


def _request(pod_set: Document) -> TopologyRequest:
    found = pod_set.get("topologyRequest")
    if found is None:
        return ANYWHERE
    layers = tuple(
        Layer(one["topology"], one["size"])
        for one in found.get("podsetSliceRequiredTopologyConstraints", ())
    )
    if "podSetSliceRequiredTopology" in found:
        layers = (Layer(found["podSetSliceRequiredTopology"], found["podSetSliceSize"]),)
    return TopologyRequest(
        required=found.get("required", ""),
        preferred=found.get("preferred", ""),
        unconstrained=found.get("unconstrained", False),
        layers=layers,
        group=found.get("podSetGroupName", ""),
    )
