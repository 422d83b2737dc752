"""What GPUs a node has, read from its labels and allocatable amounts.

Source: k8s-device-plugin internal/lm (GPU feature discovery labels); GPU operator
(``nvidia.com/mig.config.state``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.gpu import capabilities, published, resources
from admission.gpu import catalogue as catalogues
from admission.gpu.catalogue import Catalogue
from admission.gpu.health import DeviceReading
from admission.gpu.products import Product
from admission.gpu.published import Published

_CONFIG_DONE: Final = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node as the API server reports it, GPU names only.

    Attributes:
        name: of the node.
        labels: of the node.
        allocatable: units by GPU resource.
        capacity: alike; units that are not allocatable are unhealthy or reserved.
        machine: what it has of cpu and memory, in canonical units.
        ready: whether its Ready condition is True.
        unschedulable: whether it is cordoned.
        conditions: (type, status) of all conditions.
        devices: a node agent's list of its GPUs; None if there is none.
        published: what a DRA driver says; None if there is none. It stands for the amounts, as no
            node offers the same GPUs by a device plugin, too.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    machine: Mapping[str, int] = field(default_factory=dict)
    ready: bool = True
    unschedulable: bool = False
    conditions: tuple[tuple[str, str], ...] = ()
    devices: tuple[DeviceReading, ...] | None = None
    published: Published | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a node offers its GPUs.

    Attributes:
        product: of its GPUs; None where labels name none, or several models are mixed.
        strategy: ``none``, ``single`` or ``mixed``.
        profile: under ``single``, the profile that one ``nvidia.com/gpu`` is; else empty.
        sharing: ``time-slicing``, ``mps`` or empty.
        replicas: shares per device, by plain resource name; missing = 1.
        ambiguous: why the product cannot be trusted; empty = it can.
        invalid: why nothing of the node counts; empty = it counts.
    """

    product: Product | None = None
    strategy: str = "none"
    profile: str = ""
    sharing: str = ""
    replicas: Mapping[str, int] = field(default_factory=dict)
    ambiguous: str = ""
    invalid: str = ""

    def divisor(self, resource: str) -> int:
        """Return the shares per device of a resource name as nodes offer it."""
        return self.replicas.get(resources.plain_name(resource), 1)


def layout(node: NodeFacts, catalogue: Catalogue) -> Layout:
    """Read a node's labels, and compare its agent's device list with them."""
    labels = node.labels
    reading = catalogues.read_label(labels.get(names.GPU_PRODUCT_LABEL, ""))
    product = _product(node, catalogue)
    ambiguous = _mixed_models(node)
    replicas = _replicas(labels)
    return Layout(
        product=None if ambiguous else product,
        strategy=labels.get(names.MIG_STRATEGY_LABEL, "single" if reading.profile else "none"),
        profile=_canonical(product, reading.profile),
        sharing=_sharing(labels, replicas),
        replicas=replicas,
        ambiguous=ambiguous,
        invalid=_invalid(labels, is_invalid=reading.invalid),
    )


def devices_of(node: NodeFacts) -> dict[str, int]:
    """Return GPU units by name in the order of names; zero amounts are left out.

    Published units that exclude each other are each counted in full.
    """
    if node.published is not None:
        return node.published.most()
    return {
        name: node.allocatable[name]
        for name in sorted(node.allocatable)
        if node.allocatable[name] and resources.is_device(name)
    }


def profile_of(resource: str) -> str:
    """Return the canonical profile of a MIG resource; empty for other or unreadable names."""
    try:
        device = resources.parse(resource)
    except InvalidValueError:
        return ""
    return device.profile.text if device is not None and device.profile is not None else ""


def _canonical(product: Product | None, profile: str) -> str:
    profile_of_product = product.find(profile) if product is not None and profile else None
    return profile_of_product.name if profile_of_product is not None else profile


def _invalid(labels: Mapping[str, str], *, is_invalid: bool) -> str:
    """A layout that offers nothing, or is being changed; 0 replicas are normal under MIG."""
    if is_invalid:
        return f"label {names.GPU_PRODUCT_LABEL} says {labels[names.GPU_PRODUCT_LABEL]}"
    state = labels.get(names.MIG_CONFIG_STATE_LABEL, _CONFIG_DONE)
    if state != _CONFIG_DONE:
        return f"label {names.MIG_CONFIG_STATE_LABEL} is {state}"
    if labels.get(names.GPU_RESOURCE + ".count") == "0":
        return f"label {names.GPU_RESOURCE}.count is 0"
    return ""


def _replicas(labels: Mapping[str, str]) -> dict[str, int]:
    """Shares per device by plain resource name, from ``<resource>.replicas`` labels."""
    replicas = {}
    for key, value in labels.items():
        resource = key.removesuffix(".replicas")
        if resource != key and resources.is_device(resource) and value.isdecimal():
            replicas[resource] = max(int(value), 1)
    gke = labels.get(names.GKE_REPLICAS_LABEL, "")
    if gke.isdecimal() and names.GPU_RESOURCE not in replicas:
        replicas[names.GPU_RESOURCE] = max(int(gke), 1)
    return replicas


def _sharing(labels: Mapping[str, str], replicas: Mapping[str, int]) -> str:
    strategies = [labels.get(names.GKE_SHARING_LABEL, "")]
    strategies += [
        value
        for key, value in sorted(labels.items())
        if key.endswith(".sharing-strategy")
        and replicas.get(key.removesuffix(".sharing-strategy"))
    ]
    return next((name for text in strategies if (name := capabilities.normal_sharing(text))), "")


def _product(node: NodeFacts, catalogue: Catalogue) -> Product | None:
    """As the driver names it, which knows the GPUs themselves, else as the labels do."""
    named = node.published.products() if node.published is not None else ()
    product = published.product_of(named[0], catalogue) if len(named) == 1 else None
    return product or catalogue.product_of_labels(node.labels)


def _mixed_models(node: NodeFacts) -> str:
    """Return why the product label cannot be trusted: the agent lists GPUs of different kinds."""
    if node.published is not None:
        kinds = len(node.published.products())
    else:
        kinds = len({(device.model, device.memory_bytes) for device in node.devices or ()})
    if kinds <= 1:
        return ""
    return f"node {node.name} has GPUs of {kinds} kinds; its product label names only one"
