"""Whose nominal quota the capacity guard would take: the doctor says what the guard does."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from admission.admin.doctor import devices, guarding
from admission.base import conditions, names, patches
from admission.base.names import FlavorResource
from admission.kube import resources
from admission.kube.api import Document
from admission.reasons import reading
from tests.admin.doctor.clusters import Broken
from tests.builders.cluster import make_namespace, make_node
from tests.builders.pods import make_pod
from tests.builders.queues import (
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_group,
    make_local_queue,
)
from tests.controller.test_capacity import add, allocatable, bind
from tests.controller.world import World

GPU = names.GPU_RESOURCE
FLAVORS = [make_flavor(name, node_labels={name: "x"}) for name in ("a", "b")]
NODES = [
    make_node("n1", {"a": "x"}, {GPU: 8}),
    make_node("n2", {"b": "x"}, {GPU: 8}),
    make_node("n3", {"a": "x", "b": "x"}, {GPU: 8}),
]


def queue(name: str, cohort: str = "", **quota: int) -> Document:
    quotas = {flavor: {GPU: count} for flavor, count in quota.items()}
    made = make_cluster_queue(name, quotas=quotas)
    made["spec"] |= {"cohortName": cohort} if cohort else {}
    return made


def cohort(name: str, **quota: int) -> Document:
    quotas = {flavor: {GPU: count} for flavor, count in quota.items()}
    return make_cohort(name, resourceGroups=[make_group(quotas)])


CASES: dict[str, list[Document]] = {
    "by name": [queue("vision", a=12), queue("maps", a=8), queue("speech", b=12)],
    "nodes of both flavors": [queue("vision", a=4, b=12), queue("maps", a=12, b=4)],
    "a Cohort last": [cohort("all", a=8), queue("vision", "all", a=12)],
    "a Cohort of its own first": [cohort("all", a=8), queue("vision", a=12)],
    "a queue of the other flavor": [queue("vision", a=12), queue("maps", b=16)],
    "enough": [queue("vision", a=8), queue("maps", b=8)],
}


def guarded(document: Document) -> Document:
    mark = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
    is_queue = document["kind"] == "ClusterQueue"
    metadata = {**document["metadata"], **({"annotations": mark} if is_queue else {})}
    return {**document, "metadata": metadata}


CORDON: Any = {
    "unschedulable": True,
    "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
}
"""As Kubernetes does it: the taint follows the field."""
TAINT: Any = {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
TWO = [queue("alpha", a=8), queue("zeta", a=8)]
ON_NODES: dict[str, tuple[list[Document], dict[str, Any], dict[str, int]]] = {
    "cordoned": (TWO, {"n3": CORDON}, {}),
    "cordoned, and pods run there": (TWO, {"n3": CORDON}, {"n3": 6}),
    "cordoned, of both flavors": (
        [queue("alpha", a=8), queue("last", a=8), queue("zeta", b=8)], {"n3": CORDON}, {},
    ),
    "all cordoned": (TWO, {"n1": CORDON, "n3": CORDON}, {"n1": 2}),
    "tainted by others": (TWO, {"n3": TAINT}, {}),
    "tainted by others, and pods run there": (TWO, {"n3": TAINT}, {"n3": 6}),
    "with sick GPUs": (TWO, {"n3": 4}, {}),
    "with sick GPUs that pods hold": (TWO, {"n3": 4}, {"n3": 6}),
}  # fmt: skip
"""Queues, what happens to nodes, or how many of their GPUs stay well, and what pods hold."""


def guarded_world(
    documents: list[Document],
    happens: Mapping[str, Any] = MappingProxyType({}),
    held_on: Mapping[str, int] = MappingProxyType({}),
) -> World:
    made = World()
    made.add(make_namespace(), *FLAVORS, *NODES, *map(guarded, documents))
    if held_on:
        made.add(make_local_queue("team-a", "alpha"))
    made.settle()
    for node, gpus in held_on.items():
        add(made, node, gpus=gpus)
        assert not made.is_gated(node)
        bind(made, node, node)
        made.set_phase(node, "Running")
    for node, change in happens.items():
        if isinstance(change, int):
            allocatable(made, node, change)
        else:
            made.store.patch(resources.NODES, node, patches.merge({"spec": change}))
    made.settle()
    made.pass_time(60)
    return made


def taken_by_the_guard(made: World, documents: list[Document]) -> dict[tuple[str, str], int]:
    lost = {}
    for document in documents:
        name = document["metadata"]["name"]
        if document["kind"] == "ClusterQueue":
            (message,) = (
                condition["message"]
                for condition in made.status_of(name)["conditions"]
                if condition["type"] == conditions.CAPACITY_SUFFICIENT
            )
            quotas: Any = document["spec"]["resourceGroups"][0]["flavors"]
            for flavor in quotas:
                pair = FlavorResource(flavor["name"], names.ResourceName(GPU))
                exists = reading.existing_quota(message).get(pair)
                if exists is not None:
                    nominal = int(flavor["resources"][0]["nominalQuota"])
                    lost[name, flavor["name"]] = nominal - exists.share
    return lost


def said_by_the_doctor(made: World, documents: list[Document]) -> dict[tuple[str, str], int]:
    broken = Broken()
    broken.nodes[:] = made.store.list(resources.NODES).items
    broken.pods[:] = made.store.list(resources.PODS).items
    broken.objects[resources.RESOURCE_FLAVORS] = FLAVORS
    broken.objects[resources.CLUSTER_QUEUES] = [
        document for document in documents if document["kind"] == "ClusterQueue"
    ]
    broken.objects[resources.COHORTS] = [
        document for document in documents if document["kind"] == "Cohort"
    ]
    return {
        (each.holder, each.flavor): each.taken
        for each in guarding.taken(broken.picture(), GPU, ["a", "b"])
        if not each.holder.startswith("Cohort ")
    }


@pytest.mark.parametrize("documents", CASES.values(), ids=CASES)
def test_the_doctor_says_of_queues_what_the_guard_takes(documents: list[Document]) -> None:
    made = guarded_world(documents)
    assert said_by_the_doctor(made, documents) == taken_by_the_guard(made, documents)


@pytest.mark.parametrize(("documents", "happens", "held_on"), ON_NODES.values(), ids=ON_NODES)
def test_the_doctor_counts_nodes_as_the_guard_does(
    documents: list[Document], happens: dict[str, Any], held_on: dict[str, int]
) -> None:
    made = guarded_world(documents, happens, held_on)
    taken = taken_by_the_guard(made, documents)
    assert taken
    assert said_by_the_doctor(made, documents) == taken


def test_of_guarded_queues_the_doctor_says_what_the_controller_says() -> None:
    made = guarded_world(TWO, {"n3": CORDON})
    broken = Broken()
    broken.nodes[:] = made.store.list(resources.NODES).items
    broken.objects[resources.RESOURCE_FLAVORS] = FLAVORS
    broken.objects[resources.CLUSTER_QUEUES] = list(
        made.store.list(resources.CLUSTER_QUEUES).items
    )
    (finding,) = devices.quota(broken.picture())
    assert (finding.kind, finding.names) == ("ClusterQueue", ("alpha", "zeta"))
    assert "alpha 4 of 8, zeta 4 of 8" in finding.what


def test_what_pods_of_no_queue_hold_is_taken_from_quota_too() -> None:
    broken = Broken()
    broken.nodes[:] = NODES[:1]
    broken.objects[resources.RESOURCE_FLAVORS] = FLAVORS
    broken.objects[resources.CLUSTER_QUEUES] = [queue("maps", a=8)]
    broken.pods.append(make_pod("foreign", namespace="team", gpus=3, nodeName="n1"))
    (lost,) = guarding.taken(broken.picture(), GPU, ["a"])
    assert (lost.holder, lost.taken, lost.nominal) == ("maps", 3, 8)
