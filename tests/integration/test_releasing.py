"""Attacks on quota with pods that are being deleted and run on, on a real API server.

Nobody plays the kubelet here: a pod that is bound runs until the test says that it has ended. What
is held is judged from the pods that the API server shows.
"""

import pytest

from tests.controlplane import waiting
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

YEARS = 10 * 365 * 24 * 3600
TAINT = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


class Node:
    """A node on which a pod of a team runs that has all of its quota, while another one waits."""

    def __init__(self, system: Installed) -> None:
        self.api = system.api
        self.system = system
        self.team = system.add_team(2)
        self.pods = f"/api/v1/namespaces/{self.team}/pods"
        self.node = f"/api/v1/nodes/{self.team}"
        self.api.post(
            "/api/v1/nodes",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.team}},
        )
        system.create_pod(self.team, "first", gpus=2)
        system.wait_released(self.team, "first")
        target = {"apiVersion": "v1", "kind": "Node", "name": self.team}
        self.api.post(
            f"{self.pods}/first/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "first"},
                "target": target,
            },
        )
        self.phase("Running")
        system.create_pod(self.team, "second", gpus=2)
        system.wait_condition(self.team, "second")

    def phase(self, phase: str) -> None:
        self.api.patch(f"{self.pods}/first/status", {"status": {"phase": phase}})

    def delete(self, grace: int) -> None:
        self.api.delete(f"{self.pods}/first?gracePeriodSeconds={grace}")

    def workload(self) -> Json:
        found = self.api.get(f"{KUEUE}/namespaces/{self.team}/workloads")["items"]
        (one,) = (w for w in found if w["metadata"]["ownerReferences"][0]["name"] == "first")
        return dict(one)

    def keeps_waiting(self) -> bool:
        """Whether the second pod still waits after the controller has decided anew.

        A third pod that fits a queue of its own is released after everything before it was seen.
        """
        other = self.system.add_team(1)
        self.system.create_pod(other, "probe", gpus=1)
        self.system.wait_released(other, "probe")
        return self.system.is_gated(self.team, "second")


@pytest.fixture
def node(system: Installed) -> Node:
    return Node(system)


def test_a_long_grace_period_gives_no_quota_away(system: Installed, node: Node) -> None:
    node.delete(YEARS)
    assert node.keeps_waiting()
    pod = system.pod(node.team, "first")
    assert pod["metadata"]["deletionTimestamp"]
    assert pod["metadata"]["deletionGracePeriodSeconds"] == YEARS
    node.phase("Failed")

    system.wait_released(node.team, "second")


def test_a_deactivated_workload_holds_its_quota_until_its_pod_has_ended(
    system: Installed, node: Node
) -> None:
    name = node.workload()["metadata"]["name"]
    path = f"{KUEUE}/namespaces/{node.team}/workloads/{name}"
    node.api.patch(path, {"spec": {"active": False}})
    waiting.until(
        lambda: "deletionTimestamp" in system.pod(node.team, "first")["metadata"],
        what="the pod is deleted",
    )
    assert node.keeps_waiting()
    node.phase("Succeeded")

    system.wait_released(node.team, "second")


def test_a_pod_on_a_node_that_is_gone_holds_no_quota(system: Installed, node: Node) -> None:
    node.delete(YEARS)
    assert node.keeps_waiting()
    node.api.delete(node.node)

    system.wait_released(node.team, "second")


def test_a_pod_on_a_node_out_of_service_holds_no_quota(system: Installed, node: Node) -> None:
    node.delete(YEARS)
    node.api.patch(node.node, {"spec": {"taints": [TAINT]}})

    system.wait_released(node.team, "second")


def test_the_object_of_a_pod_that_was_deleted_by_force_holds_no_quota(
    system: Installed, node: Node
) -> None:
    node.delete(0)

    system.wait_released(node.team, "second")
