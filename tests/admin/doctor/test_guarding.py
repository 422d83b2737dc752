"""Whose nominal quota the capacity guard would take: the doctor says what the guard does."""

from typing import Any

import pytest

from admission.admin.doctor import guarding
from admission.base import conditions, names
from admission.base.names import FlavorResource
from admission.kube import resources
from admission.kube.api import Document
from admission.reasons import reading
from tests.admin.doctor.clusters import Broken
from tests.builders.cluster import make_namespace, make_node
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_cohort, make_flavor, make_group
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


def taken_by_the_guard(documents: list[Document]) -> dict[tuple[str, str], int]:
    made = World()
    made.add(make_namespace(), *FLAVORS, *NODES, *map(guarded, documents))
    made.settle()
    made.pass_time(2)
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


@pytest.mark.parametrize("documents", CASES.values(), ids=CASES)
def test_the_doctor_says_of_queues_what_the_guard_takes(documents: list[Document]) -> None:
    broken = Broken()
    broken.nodes[:] = NODES
    broken.objects[resources.RESOURCE_FLAVORS] = FLAVORS
    broken.objects[resources.CLUSTER_QUEUES] = [
        document for document in documents if document["kind"] == "ClusterQueue"
    ]
    broken.objects[resources.COHORTS] = [
        document for document in documents if document["kind"] == "Cohort"
    ]
    lost = guarding.taken(broken.picture(), GPU, ["a", "b"])
    told = {
        (each.holder, each.flavor): each.taken
        for each in lost
        if not each.holder.startswith("Cohort ")
    }
    assert told == taken_by_the_guard(documents)


def test_what_pods_of_no_queue_hold_is_taken_from_quota_too() -> None:
    broken = Broken()
    broken.nodes[:] = NODES[:1]
    broken.objects[resources.RESOURCE_FLAVORS] = FLAVORS
    broken.objects[resources.CLUSTER_QUEUES] = [queue("maps", a=8)]
    broken.pods.append(make_pod("foreign", namespace="team", gpus=3, nodeName="n1"))
    (lost,) = guarding.taken(broken.picture(), GPU, ["a"])
    assert (lost.holder, lost.taken, lost.nominal) == ("maps", 3, 8)
