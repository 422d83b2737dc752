"""ResourceFlavor: one kind of hardware, told apart by the labels of its nodes."""

from typing import Annotated, ClassVar

from admission.api import common, markers
from admission.api.markers import Rule
from admission.api.model import Model, Root
from admission.api.scalars import Subdomain


class ResourceFlavorSpec(Model):
    """Which nodes belong to the flavor."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)",
            "at least one nodeLabel is required when topology is set",
        ),
        Rule(
            "!has(oldSelf.topologyName)"
            " || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
            "topologyName is immutable when topologyName is set",
        ),
    )

    node_labels: Annotated[dict[str, str], markers.map_atomic(at_most=8)] | None = None
    """Labels that all nodes of the flavor carry. Pods that get the flavor select these nodes."""

    node_taints: (
        Annotated[list[common.Taint], markers.list_atomic(at_most=8), common.NODE_TAINT_RULES]
        | None
    ) = None
    """Taints of the flavor's nodes. Only workloads that tolerate them may use the flavor."""

    tolerations: common.Tolerations | None = None
    """Tolerations that pods get together with the flavor."""

    topology_name: Subdomain | None = None
    """The Topology by which pods are placed on the flavor's nodes."""


class ResourceFlavor(Root):
    """One kind of hardware that quota is counted in."""

    spec: ResourceFlavorSpec | None = None
    """Which nodes belong to the flavor."""
