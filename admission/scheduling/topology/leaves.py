"""How many pods the domains of the narrowest level take.

Where that level is the host, a domain is a node, which can also refuse pods by its taints and
labels. Otherwise the labels of the levels and what is free there in sum count.

Source: kueue pkg/cache/scheduler/tas_flavor_snapshot.go and scheduling_simulator_default.go.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from admission.base.causes import NodesExcluded
from admission.base.selectors import Labels
from admission.scheduling.places import predicate
from admission.scheduling.places.model import HOSTNAME, PODS, Amounts, Node, PodShape
from admission.scheduling.places.predicate import NodeRefusal
from admission.scheduling.topology.search import Excluded, LeafRoom
from admission.scheduling.topology.tree import Domain, DomainPath

_NO_LABELS: Final[Labels] = {}


class Leaf(NamedTuple):
    """A domain of the narrowest level.

    Attributes:
        domain: the domain.
        free: what is free there of each resource; what is not listed is not there.
        node: the node that it is; None where it is not a host.
        labels: that all its nodes have, where it is not a host.
    """

    domain: Domain
    free: Amounts
    node: Node | None = None
    labels: Labels = _NO_LABELS


@dataclass(slots=True)
class _Exclusions:
    """Domains that take not even one pod, by reason."""

    total: int = 0
    selector: int = 0
    affinity: int = 0
    elsewhere: int = 0
    taints: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    resources: Counter[str] = field(default_factory=Counter)

    def count(self) -> NodesExcluded:
        """Return the numbers."""
        return NodesExcluded(
            self.total,
            self.selector,
            self.affinity,
            self.elsewhere,
            tuple(sorted(self.taints.items())),
            tuple(sorted(self.resources.items())),
        )


def room(leaf: Leaf, shape: PodShape) -> LeafRoom | None:
    """Return how many pods a domain takes; None where it takes none."""
    if not _is_taken(leaf, shape, _Exclusions()):
        return None
    pods, _ = _fitting(leaf, leaf.free, shape)
    return LeafRoom(pods, pods) if pods else None


def rooms(
    leaves: Iterable[Leaf],
    shape: PodShape,
    leader: PodShape | None = None,
    within: DomainPath = (),
) -> tuple[dict[int, LeafRoom], Excluded]:
    """Return how many pods each domain takes, by its index, and what tells how many take none.

    Args:
        leaves: the domains.
        shape: of the pods, or of the workers.
        leader: shape of the leader that goes with them; only its requests count.
        within: the domain outside of which no pod may be; empty for none.
    """
    takes: dict[int, LeafRoom] = {}
    excluded = _Exclusions()
    for leaf in leaves:
        domain, free = leaf.domain, leaf.free
        excluded.total += 1
        if not _is_taken(leaf, shape, excluded):
            continue
        if domain.path[: len(within)] != within:
            excluded.elsewhere += 1
            continue
        pods, resource = _fitting(leaf, free, shape)
        if not pods:
            excluded.resources[resource] += 1
        beside, is_host = pods, False
        if leader is not None and _fitting(leaf, free, leader)[0]:
            is_host = True
            beside = _fitting(leaf, _less(free, leader), shape)[0]
        if pods or is_host:
            takes[domain.index] = LeafRoom(pods, beside, is_host)
    return takes, excluded.count


def _is_taken(leaf: Leaf, shape: PodShape, excluded: _Exclusions) -> bool:
    """Whether a domain takes pods of a shape; else it is counted why not."""
    if leaf.node is None:
        refused = predicate.mismatch_of_all(leaf.labels, shape)
    else:
        taint = predicate.repelling(leaf.node.taints, shape.tolerations)
        if taint is not None:
            excluded.taints[taint.key, taint.value, taint.effect] += 1
            return False
        refused = predicate.mismatch(leaf.node, shape)
    if refused is NodeRefusal.LABELS:
        excluded.selector += 1
    elif refused is not None:
        excluded.affinity += 1
    return refused is None


def _fitting(leaf: Leaf, free: Amounts, shape: PodShape) -> tuple[int, str]:
    """How many pods fit, and the resource of which there is least, the first of equal ones.

    Of pods that must be on different hosts, a host takes one.
    """
    fitting, short = max(0, free.get(PODS, 0)), PODS
    for resource, amount in shape.needs.requests:
        count = max(0, free.get(resource, 0) // amount)
        fitting, short = min((fitting, short), (count, resource))
    is_apart = leaf.node is not None and HOSTNAME in shape.needs.apart
    return min(fitting, 1) if is_apart else fitting, short


def _less(free: Amounts, shape: PodShape) -> Amounts:
    """What is free beside one pod of a shape."""
    left = dict(free)
    left[PODS] = left.get(PODS, 0) - 1
    for resource, amount in shape.needs.requests:
        left[resource] = left.get(resource, 0) - amount
    return left
