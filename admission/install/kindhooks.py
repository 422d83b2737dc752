"""Which writes of Kueue's kinds the API server sends for review.

They are rare and made by admins, so a failed webhook fails the write, and nothing else: no pod
and no other kind waits for it. The controller writes a Workload several times for each pod; in
the cluster, under its own account, none of that is sent here.

Differs: ``mworkload.kb.io`` is served and not registered. With feature gates at their defaults
it changes nothing, and would cost every new Workload a round trip.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from admission.base import names
from admission.webhook import kinds

Document = dict[str, Any]
Webhook = Callable[[str, str], Document]

MUTATED: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": ("clusterqueues",),
    "ResourceFlavor": ("resourceflavors",),
}
"""Resources by kind; only their creation is sent."""

VALIDATED: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": ("clusterqueues",),
    "Cohort": ("cohorts",),
    "ResourceFlavor": ("resourceflavors",),
    "Workload": ("workloads", "workloads/status"),
}
"""Resources by kind."""


def mutating(make: Webhook, condition: Document) -> list[Document]:
    """Kueue's mutating webhooks of its own kinds.

    Args:
        make: builds a webhook that is sent nothing yet, from its name and path.
        condition: match condition that leaves out the controller's writes.
    """
    return [
        {
            **make(_name("m", kind), kinds.named(kind).mutate_path()),
            "rules": [_rule(plurals, ["CREATE"])],
            "matchConditions": [condition],
            "reinvocationPolicy": "Never",
        }
        for kind, plurals in MUTATED.items()
    ]


def validating(make: Webhook, condition: Document) -> list[Document]:
    """Kueue's validating webhooks of its own kinds; arguments as for `mutating`."""
    return [
        {
            **make(_name("v", kind), kinds.named(kind).validate_path()),
            "rules": [_rule(plurals, ["CREATE", "UPDATE"])],
            "matchConditions": [condition],
        }
        for kind, plurals in VALIDATED.items()
    ]


def _name(prefix: str, kind: str) -> str:
    return f"{prefix}{kind.lower()}.kb.io"


def _rule(plurals: tuple[str, ...], operations: list[str]) -> Document:
    return {
        "apiGroups": [names.KUEUE_GROUP],
        "apiVersions": [kinds.VERSION],
        "operations": operations,
        "resources": list(plurals),
        "scope": "*",
    }
