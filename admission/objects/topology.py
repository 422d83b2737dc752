"""Topology: the levels of a data centre, as labels of nodes."""

from typing import Annotated

from admission.objects import markers
from admission.objects.fields import QUALIFIED_NAME, REQUIRED
from admission.objects.markers import CelRule
from admission.objects.viewbase import Object, View

_HOSTNAME = "kubernetes.io/hostname"


class TopologyLevel(View, frozen=True, kw_only=True):
    """One level."""

    node_label: Annotated[str, REQUIRED, QUALIFIED_NAME] = ""
    """Label whose value names the domain that a node belongs to on this level."""


LEVEL_RULES = (
    CelRule(
        "size(self.filter(a, size(self.filter(b, b == a)) > 1)) == 0",
        "must be unique",
    ),
    CelRule(
        f"size(self.filter(level, level.nodeLabel == '{_HOSTNAME}')) == 0"
        f" || self[size(self) - 1].nodeLabel == '{_HOSTNAME}'",
        f"the {_HOSTNAME} label can only be used at the lowest level of topology",
    ),
)
_MUTABLE = CelRule(
    f"self == oldSelf || (self[size(self) - 1].nodeLabel == '{_HOSTNAME}'"
    f" && oldSelf[size(oldSelf) - 1].nodeLabel == '{_HOSTNAME}')",
    f"levels are mutable only when {_HOSTNAME} is the lowest level both before and after the"
    " change",
)


class TopologySpec(View, frozen=True, kw_only=True):
    """The levels."""

    levels: Annotated[
        tuple[TopologyLevel, ...],
        REQUIRED,
        markers.list_atomic(at_least=1, at_most=16),
        markers.rules(_MUTABLE, *LEVEL_RULES),
    ] = ()
    """The levels, from the widest to the narrowest."""


class Topology(Object, frozen=True, kw_only=True):
    """The levels of a data centre, as labels of nodes."""

    spec: TopologySpec = TopologySpec()
    """The levels."""
