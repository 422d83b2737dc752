"""ResourceFlavors as GPU knowledge sees them: what their annotations and labels say."""

from collections.abc import Iterable, Mapping

from admission.base import names
from admission.gpu.capabilities import FlavorCapabilities
from admission.objects.resource_flavor import ResourceFlavor


def offer(
    flavor: ResourceFlavor, resources: Iterable[str], ceilings: Mapping[str, int]
) -> FlavorCapabilities:
    """A flavor in one queue.

    Args:
        flavor: the flavor.
        resources: what the queue covers with it.
        ceilings: the most that one Workload may ever get, by resource; missing = no limit.
    """
    metadata, labels = flavor.metadata, flavor.spec.node_labels or {}
    product = metadata.annotation(names.FLAVOR_PRODUCT) or labels.get(names.GPU_PRODUCT_LABEL, "")
    return FlavorCapabilities(
        name=metadata.name,
        product=product,
        resources=frozenset(resources),
        profile=metadata.annotation(names.MIG_PROFILE),
        sharing=metadata.annotation(names.FLAVOR_SHARING),
        replicas=_count(metadata.annotation(names.FLAVOR_REPLICAS), 1),
        fail_above_one=_flag(metadata.annotations or {}, names.FAIL_ABOVE_ONE),
        gpus_per_node=_count(labels.get(names.GPU_COUNT_LABEL, ""), 0),
        ceilings=ceilings,
    )


def is_count(text: str) -> bool:
    """Return whether a text is a whole number from 1."""
    return text.isascii() and text.isdigit() and int(text) > 0


def _count(text: str, otherwise: int) -> int:
    return int(text) if is_count(text) else otherwise


def _flag(annotations: Mapping[str, str], key: str) -> bool | None:
    return annotations[key] == "true" if key in annotations else None
