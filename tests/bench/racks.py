"""The nodes of Kueue's performance test of topologies: one block of 10 racks of 64 hosts.

Source: kueue test/performance/scheduler/configs/tas/generator.yaml, as of commit cc13fff80cdc.
"""

from typing import Any, Final

from tests.controlplane.cluster import Cluster

RACK: Final = "cloud.provider.com/topology-rack"
_BLOCK: Final = "cloud.provider.com/topology-block"
_HOST: Final = "kubernetes.io/hostname"
_GROUP: Final = "tas-node-group"
_TOPOLOGY: Final = "default-topology"
_RACKS, _HOSTS = 10, 64
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"


def create(cluster: Cluster, flavor: str) -> None:
    """Create the nodes, their Topology and a flavor that places pods by it."""
    levels = [{"nodeLabel": label} for label in (_BLOCK, RACK, _HOST)]
    cluster.api.post(f"{_KUEUE}/topologies", _object("Topology", _TOPOLOGY, {"levels": levels}))
    for rack in range(_RACKS):
        for host in range(_HOSTS):
            _create_node(cluster, f"rack-{rack}", f"host-{rack}-{host}")
    spec = {"nodeLabels": {_GROUP: "tas"}, "topologyName": _TOPOLOGY}
    cluster.api.post(f"{_KUEUE}/resourceflavors", _object("ResourceFlavor", flavor, spec))


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _create_node(cluster: Cluster, rack: str, name: str) -> None:
    amounts = {"cpu": "96", "memory": "256Gi", "pods": "110"}
    labels = {_BLOCK: "block-0", RACK: rack, _HOST: name, _GROUP: "tas"}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }
    cluster.api.post("/api/v1/nodes", node)
    cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
