"""Short ways to say what a pod asks for and what a queue offers."""

from collections.abc import Mapping

from admission.gpu import catalogue as catalogues
from admission.gpu import rewrite as rewriting
from admission.gpu.request_annotations import GpuAnnotations
from admission.gpu.rewrite import (
    ContainerRequest,
    FlavorCapabilities,
    LimitedNames,
    PodRequest,
    QueueOffer,
    Refusal,
    Rewrite,
)

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
MEMORY = "gpu-admission.dev/gpu-memory"
SLICES = "gpu-admission.dev/gpu-slices"
GIB = 2**30
CATALOGUE = catalogues.load()
UNDECIDED = {"1g.10gb+me": 3, "1g.20gb": 6, "2g.20gb": 6, "3g.40gb": 2, "4g.40gb": 7}
"""Instances of which a search does not find out whether 8 GPUs H100-80GB of a node hold them."""


def mig(profile: str) -> str:
    """The resource of a profile in the device plugin's spelling."""
    return "nvidia.com/mig-" + profile.replace("+", ".")


def make_container(
    name: str = "main",
    amounts: Mapping[str, int] | None = None,
    *,
    profile: str = "",
    gib: int = 0,
    init: bool = False,
    sidecar: bool = False,
) -> ContainerRequest:
    amounts = {GPU: 1} if amounts is None else amounts
    return ContainerRequest(
        name=name,
        is_init=init or sidecar,
        is_sidecar=sidecar,
        requests=amounts,
        limits=amounts,
        wish=GpuAnnotations(profile=profile, memory_bytes=gib * GIB),
    )


def make_flavor(name: str, product: str, *covered: str, **kwargs) -> FlavorCapabilities:
    return FlavorCapabilities(name=name, product=product, resources=frozenset(covered), **kwargs)


def run(
    *containers: ContainerRequest,
    flavors: tuple[FlavorCapabilities, ...],
    limited: LimitedNames | None = None,
    gang: bool = False,
) -> Rewrite | Refusal | None:
    pod = PodRequest(containers=containers, is_gang=gang)
    return rewriting.rewrite(pod, QueueOffer(name="q", flavors=flavors), CATALOGUE, limited)


def amounts(result: Rewrite | Refusal | None) -> dict[str, dict[str, int]]:
    """New amounts by container; fails on a refusal."""
    assert isinstance(result, Rewrite), result
    return {container.name: dict(container.amounts) for container in result.containers}


def refused(result: Rewrite | Refusal | None) -> str:
    """The denial's text; fails on anything else."""
    assert isinstance(result, Refusal), result
    return result.message
