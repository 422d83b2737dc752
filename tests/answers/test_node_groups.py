"""Nodes added up by a level: what exists, what pods use, and the most that one node has free."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from admission.answers import node_groups
from admission.answers.node_groups import NodeObjects
from admission.base import names, patches
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import crds
from admission.sandbox.store import Store
from tests.builders.cluster import make_namespace, make_node
from tests.builders.metadata import make_kueue, make_metadata
from tests.builders.pods import make_pod
from tests.cli.served import Served, served

GPU = names.GPU_RESOURCE
BLOCK, RACK = "topology.kubernetes.io/block", "topology.kubernetes.io/rack"
CRDS = crds.documents()


class Racks(Served):
    """A store with three nodes in two racks of two blocks, and one node in none."""

    command: ClassVar[tuple[str, ...]] = ("top",)


def node(name: str, gpus: int, labels: Mapping[str, str]) -> dict[str, Any]:
    return make_node(
        name, {names.GPU_PRODUCT_LABEL: "NVIDIA-A100-SXM4-80GB", **labels}, {GPU: gpus}
    )


def bound(name: str, node_name: str, gpus: int) -> dict[str, Any]:
    return make_pod(name, namespace="ml", gpus=gpus, nodeName=node_name)


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[Racks]:
    store = Store(crds=CRDS)
    store.create(resources.NAMESPACES, make_namespace())
    for name, block, rack in (("n0", "b0", "r0"), ("n1", "b0", "r0"), ("n2", "b1", "r0")):
        store.create(resources.NODES, node(name, 8, {BLOCK: block, RACK: rack}))
    store.create(resources.NODES, node("n3", 4, {}))
    cordoned = node("n4", 8, {BLOCK: "b1", RACK: "r0"})
    cordoned["spec"] = {"unschedulable": True}
    store.create(resources.NODES, cordoned)
    for pod in (bound("p0", "n0", 6), bound("p1", "n1", 3), bound("ended", "n2", 8)):
        store.create(resources.PODS, pod, "ml")
    ended = patches.merge({"status": {"phase": "Succeeded"}})
    store.patch(resources.PODS, "ended", ended, "ml", subresource="status")
    with served(store, (*resources.BUILT_IN, resources.TOPOLOGIES), tmp_path) as kubeconfig:
        yield Racks(store, kubeconfig)


def add_topology(store: Api) -> None:
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK)]
    store.create(
        resources.TOPOLOGIES,
        make_kueue("Topology", make_metadata("racks"), spec={"levels": levels}),
    )


def test_free_is_counted_node_by_node(racks: Racks) -> None:
    assert racks.lines("--by", "rack") == [
        "nvidia.com/gpu: 19 free of 28 in 2 domains, most in r0: 15",
        "RACK    NODES  REAL  SICK  USED  FREE  LARGEST HOLE  ON",
        "r0          4    24     8     9    15             8  n2",
        "(none)      1     4     -     -     4             4  n3",
    ]


def test_a_rack_of_the_same_name_in_another_block_is_another_domain(racks: Racks) -> None:
    add_topology(racks.store)
    told = racks.told("--by", RACK)
    assert told["levels"] == [BLOCK, RACK]
    amounts = {
        tuple(domain["values"]): (one["free"], one["largestHole"], one["node"])
        for domain in told["domains"]
        for one in domain["resources"]
    }
    assert amounts == {
        (None, None): ("4", "4", "n3"),
        ("b0", "r0"): ("7", "5", "n1"),
        ("b1", "r0"): ("8", "8", "n2"),
    }


def test_what_is_free_is_unknown_to_who_may_not_list_pods(
    racks: Racks, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = Store.list

    def refuse(self: Store, resource: Any, *arguments: Any, **more: Any) -> Any:
        if resource == resources.PODS:
            raise errors.make(403, "pods is forbidden")
        return listing(self, resource, *arguments, **more)

    monkeypatch.setattr(Store, "list", refuse)
    first, _, *rows, note = racks.lines("--by", "rack")
    assert first == "nvidia.com/gpu: 28 can be used in 2 domains"
    assert rows[0].split() == ["r0", "4", "24", "8", "?", "?", "?", "-"]
    assert note == "note: not all is shown: your user may not list all pods"


def test_a_level_that_no_node_has_is_answered_with_those_that_nodes_have(racks: Racks) -> None:
    result = racks.ask("--by", "row")
    assert result.exit_code == 1
    assert "no label 'row'" in result.stderr
    assert f"group them by: {BLOCK}, {RACK}" in result.stderr


def test_a_queue_and_a_level_exclude_each_other(racks: Racks) -> None:
    assert racks.ask("research", "--by", "rack").exit_code == 2


@pytest.mark.parametrize(
    ("typed", "level"),
    [("rack", RACK), (RACK, RACK), ("gpu.product", names.GPU_PRODUCT_LABEL), ("x", "")],
)
def test_a_level_is_named_whole_or_by_its_last_part(racks: Racks, typed: str, level: str) -> None:
    objects = node_groups.read(racks.store)
    assert node_groups.level_named(objects, typed) == level


def test_a_last_part_of_two_labels_names_none(racks: Racks) -> None:
    racks.store.create(
        resources.NODES, node("n5", 8, {"example.com/rack": "r9", "example.org/rack": "r9"})
    )
    objects = node_groups.read(racks.store)
    assert node_groups.level_named(objects, "rack") == RACK, "a usual label goes first"
    others = NodeObjects(nodes=tuple(n for n in objects.nodes if n.metadata.name == "n5"))
    assert node_groups.level_named(others, "rack") == ""
