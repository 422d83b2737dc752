"""What a review may look up besides the pod: queues, flavors, namespaces, limits.

Nearly all of it comes from memory and may be a moment old. Only of an owner that is not known
there the API server is asked, within a bound (ADR 0134).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from admission.base.memo import Memo
from admission.base.namespaces import ManagedNamespaces
from admission.base.selectors import Predicate
from admission.gpu.capabilities import QueueOffer
from admission.gpu.catalogue import Catalogue
from admission.gpu.resources import ManagedResources
from admission.gpu.rewrite import Refusal, Rewrite
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_quota import NamespaceQuota
from admission.owners import integrations
from admission.owners.integrations import Kinds
from admission.owners.review import HeldKind, Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """Facts derived from a ClusterQueue and its flavors, which are cached between reviews.

    Attributes:
        offer: its existing flavors in the order in which it tries them, as GPU requests see them.
        ceilings: by flavor and resource, the most that one Workload may ever get; missing = not
            bounded by what the queue itself says.
        nominal: by flavor and resource, the queue's own quota.
        missing: names of flavors that do not exist.
        serves: whether namespaces with such labels may use the queue.
        rewrites: what ``gpu.rewrite`` said for this offer, by request.
    """

    offer: QueueOffer
    ceilings: Mapping[str, Mapping[str, int]]
    nominal: Mapping[str, Mapping[str, int]]
    missing: tuple[str, ...]
    serves: Predicate
    rewrites: Memo[Rewrite | Refusal | None] = field(default_factory=Memo, compare=False)


class Lister(Protocol):
    """Read access to what was last seen of the cluster."""

    @property
    def synced(self) -> bool:
        """Return whether every kind was listed at least once.

        Before that, absence proves nothing.
        """
        ...

    def namespace(self, name: str) -> views.Namespace | None:
        """Return the namespace; None if it was never seen."""
        ...

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """Return the LocalQueue; None if it does not exist or was not seen yet."""
        ...

    def local_queue_names(self, namespace: str) -> tuple[str, ...]:
        """Return the names of the namespace's LocalQueues, sorted."""
        ...

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """Return the ClusterQueue."""
        ...

    def all_cluster_queues(self) -> tuple[ClusterQueue, ...]:
        """Return every ClusterQueue, sorted by name."""
        ...

    def all_cohorts(self) -> tuple[Cohort, ...]:
        """Return every Cohort that exists as an object, sorted by name."""
        ...

    def queue_facts(self, queue: ClusterQueue) -> QueueFacts:
        """Return what follows from the queue and the flavors of this moment."""
        ...

    def most(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return the most that a ClusterQueue could take of a flavor, borrowing included.

        Return None where it is not known.
        """
        ...

    def free(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what a ClusterQueue could take of a flavor now, borrowing included.

        Return None where it is not known.
        """
        ...

    def reclaimed(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what a ClusterQueue could take of a flavor once others gave its quota back.

        Return None where it is not known.
        """
        ...

    def unused(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what is left of a ClusterQueue's own quota of a flavor, lent or not.

        Return None where it is not known.
        """
        ...

    def resource_flavor(self, name: str) -> ResourceFlavor | None:
        """Return the ResourceFlavor."""
        ...

    def resource_flavor_names(self) -> tuple[str, ...]:
        """Return the names of the ResourceFlavors, sorted."""
        ...

    def workload_priority_class(self, name: str) -> WorkloadPriorityClass | None:
        """Return the WorkloadPriorityClass."""
        ...

    def workload_priority_class_names(self) -> tuple[str, ...]:
        """Return the names of the WorkloadPriorityClasses, sorted."""
        ...

    def admissions(
        self,
        kind: HeldKind,
        namespace: str,
        owner: views.OwnerReference,
        marks: frozenset[Mark],
    ) -> frozenset[Mark] | None:
        """Return what of an owner was admitted; None if it is not known to exist.

        Args:
            kind: the kind of the owner.
            namespace: of the owner.
            owner: names it.
            marks: those that are sought: the answer may be old where it has all of them.
        """
        ...

    def limit_ranges(self, namespace: str) -> tuple[views.LimitRange, ...]:
        """Return the namespace's LimitRanges, sorted by name."""
        ...

    def resource_quotas(self, namespace: str) -> tuple[NamespaceQuota, ...]:
        """Return the namespace's core ResourceQuotas, sorted by name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of the installation that reviews use.

    Attributes:
        managed: resource names that make a pod ours.
        namespaces: the namespaces in which pods and Jobs are managed.
        toleration_key: taint key that GPU pods are made to tolerate; empty = none.
        catalogue: GPU products and their MIG profiles.
        kinds: of owners that are served.
    """

    managed: ManagedResources
    namespaces: ManagedNamespaces
    toleration_key: str
    catalogue: Catalogue
    kinds: Kinds = integrations.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a review contains besides the objects.

    Attributes:
        namespace: where the pod is or will be; the object itself may not say it yet.
        now_us: microseconds since the epoch.
        user: name of who made the request.
    """

    namespace: str
    now_us: int
    user: str = ""
