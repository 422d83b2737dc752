"""Which pods run on nodes of other flavors than their Workload has."""

import msgspec

from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    PodSetName,
    ResourceName,
    WorkloadKey,
)
from admission.controller.watched_owners import node_flavors
from admission.controller.watched_owners.node_flavors import PodOnNode
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload
from admission.scheduling.decisions import Admit
from admission.scheduling.model import PodSetAssignment
from tests.builders.queues import make_flavor
from tests.builders.workloads import make_workload

GPU = ResourceName("nvidia.com/gpu")
FLAVORS = {
    name: msgspec.convert(make_flavor(name, node_labels={"pool": name}), ResourceFlavor)
    for name in ("first", "second", "third")
}
WORKLOAD = msgspec.convert(
    make_workload(
        status={
            "admission": {
                "clusterQueue": "gpus",
                "podSetAssignments": [
                    {
                        "name": "main",
                        "count": 4,
                        "flavors": {GPU: "first"},
                        "resourceUsage": {GPU: "8"},
                    }
                ],
            }
        }
    ),
    Workload,
)


def on(node: str, pool: str, selected: str = "") -> PodOnNode:
    labels = {"kubernetes.io/hostname": node, "pool": pool}
    return PodOnNode("main", {"pool": selected} if selected else {}, labels)


def elsewhere(*pods: PodOnNode) -> tuple[list[tuple[str, int, int]], list[dict[str, str]]]:
    """Flavor, count and GPUs of the pods in other flavors, and for which labels was asked."""
    asked_for: list[dict[str, str]] = []

    def charge_on(labels: dict[str, str]) -> Admit:
        asked_for.append(labels)
        name = labels.get("pool", "first")
        flavor = FlavorName(name if name in FLAVORS else "first")
        assigned = PodSetAssignment(
            name=PodSetName("main"), count=4, flavors={GPU: flavor}, usage={GPU: 8}
        )
        queue = ClusterQueueName("gpus")
        return Admit(workload=WorkloadKey("ml", "w"), cluster_queue=queue, pod_sets=(assigned,))

    parts = node_flavors.elsewhere(WORKLOAD, pods, FLAVORS, charge_on)
    told = [(str(part.flavors[GPU]), part.count, part.usage[GPU]) for part in parts]
    return told, asked_for


def test_pods_are_told_by_the_flavor_of_their_nodes_and_each_flavor_is_asked_for_once() -> None:
    told, asked_for = elsewhere(
        on("n1", "first"), on("n2", "third"), on("n3", "second"), on("n4", "third")
    )
    assert told == [("second", 1, 2), ("third", 2, 4)]
    assert asked_for == [{"pool": "third"}, {"pool": "second"}]


def test_a_pod_on_a_node_of_no_flavor_stays_in_that_of_its_workload() -> None:
    assert elsewhere(on("n1", "other")) == ([], [{"pool": "other"}])


def test_a_pod_that_selects_a_label_of_its_flavor_is_in_it_whatever_became_of_the_node() -> None:
    assert elsewhere(on("n1", "second", selected="first")) == ([], [])
