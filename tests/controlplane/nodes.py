"""GPU nodes as GPU feature discovery and the device plugin would show them.

Source: NVIDIA k8s-device-plugin internal/lm (labels) and its resource names: a MIG profile's ``+``
is written ``.`` in a resource name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack

from tests.controlplane.rest import Json

RUN_FOR: Final = "controlplane.test/run-for"
"""Annotation of a Job's pod: how long it runs before it succeeds, as a Go duration."""

GPU_TAINT: Final = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class _Product:
    memory_mib: int
    family: str
    has_mig: bool


_PRODUCTS: Final = {
    "NVIDIA-A100-SXM4-40GB": _Product(40960, "ampere", has_mig=True),
    "NVIDIA-A100-SXM4-80GB": _Product(81920, "ampere", has_mig=True),
    "NVIDIA-H100-80GB-HBM3": _Product(81559, "hopper", has_mig=True),
    "NVIDIA-L4": _Product(23034, "ada-lovelace", has_mig=False),
    "Tesla-T4": _Product(15360, "turing", has_mig=False),
    "Tesla-V100-SXM2-16GB": _Product(16384, "volta", has_mig=False),
}
PRODUCTS: Final = tuple(_PRODUCTS)


class Facts(TypedDict, total=False):
    """What may be said of a GPU node; everything has a default.

    Attributes:
        product: one of `PRODUCTS`.
        gpus: whole GPUs that pods can ask for, 8; those cut into slices are not among them.
        mig: number of slices by profile (``1g.10gb``), in the mixed strategy.
        taints: as in ``spec.taints``; see `GPU_TAINT`.
        labels: more labels, which win over the usual ones.
    """

    product: str
    gpus: int
    mig: Mapping[str, int]
    taints: Sequence[Mapping[str, str]]
    labels: Mapping[str, str]


def make_gpu_node(name: str, **facts: Unpack[Facts]) -> Json:
    """A Node object; its name is also its hostname label."""
    product = facts.get("product", "NVIDIA-A100-SXM4-80GB")
    gpus = facts.get("gpus", 8)
    slices = dict(facts.get("mig", {}))
    devices = {"nvidia.com/gpu": gpus}
    devices |= {f"nvidia.com/mig-{_in_resource(p)}": count for p, count in slices.items()}
    resources = {"cpu": "128", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "1000"}
    resources |= {resource: str(count) for resource, count in devices.items()}
    labels = {**_labels(name, product, gpus, slices), **facts.get("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [dict(taint) for taint in facts.get("taints", ())]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _labels(name: str, product: str, gpus: int, slices: Mapping[str, int]) -> dict[str, str]:
    card = _PRODUCTS[product]
    found = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.family": card.family,
        "nvidia.com/gpu.memory": str(card.memory_mib),
        # In the mixed strategy a GPU that is cut into slices is counted here all the same.
        "nvidia.com/gpu.count": str(gpus + bool(slices)),
        "nvidia.com/gpu.replicas": "1" if gpus else "0",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": str(card.has_mig).lower(),
    }
    if slices:
        found["nvidia.com/mig.strategy"] = "mixed"
    for profile, count in slices.items():
        prefix = f"nvidia.com/mig-{_in_resource(profile)}"
        found[f"{prefix}.product"] = f"{product}-MIG-{_in_resource(profile)}"
        found[f"{prefix}.count"] = str(count)
        found[f"{prefix}.replicas"] = "1"
    return found


def _in_resource(profile: str) -> str:
    return profile.replace("+", ".")
