"""Node labels that say how close nodes are to each other, by who writes them.

Sources: GKE "Plan for topology-aware scheduling", EKS "Amazon EC2 instance topology labels",
CoreWeave "InfiniBand and RoCE labels", NVIDIA Topograph "Node labels and annotations", Crusoe
labels as in Topograph's provider, NVIDIA GPU feature discovery.
"""

from collections.abc import Iterable
from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"
NVLINK: Final = ("accelerator.topograph.run/domain", "nvidia.com/gpu.clique")
"""Labels of domains that NVLink connects; the first one that nodes have is used."""
ZONES: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
FABRICS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-host",
    ),
    (
        "topology.k8s.aws/network-node-layer-1",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-3",
    ),
    ("backend.coreweave.cloud/fabric", "backend.coreweave.cloud/leafgroup"),
    (
        "ib.coreweave.cloud/fabric",
        "ib.coreweave.cloud/superpod",
        "ib.coreweave.cloud/leafgroup",
    ),
    ("fabric.topograph.run/tier-2", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0"),
    (
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/leaf",
    ),
    ("crusoe.ai/ib.partition.id", "crusoe.ai/pod.id"),
    ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
    ("topology.kubernetes.io/block", "topology.kubernetes.io/rack"),
)
"""Levels of a network, from the widest to the narrowest, of which nodes have the labels of one."""
LEVELS: Final = (*ZONES, *(label for fabric in FABRICS for label in fabric), *NVLINK)
"""All labels by which nodes may be grouped, wide ones first."""


def levels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the levels of a Topology for nodes that all have these labels; empty for none.

    The levels of the first network are taken, then NVLink, then hosts. Zones alone are none: they
    say nothing of a network.
    """
    labels_there = frozenset(labels)
    networks = (tuple(label for label in fabric if label in labels_there) for fabric in FABRICS)
    network = next((levels_ for levels_ in networks if levels_), ())
    islands = next(((label,) for label in NVLINK if label in labels_there), ())
    chosen = (*network, *islands)
    return (*chosen, HOSTNAME) if chosen and HOSTNAME in labels_there else chosen
