"""Flavors of pods that run already: what they are charged for, whatever the quota.

A pod that was released has the node labels of its flavors in its node selector. So the flavor of
each resource is the first of its group whose node labels the pod selects, or its node has.
"""

from collections.abc import Mapping
from dataclasses import replace

from admission.base.names import FlavorName, ResourceName
from admission.scheduling import podsets
from admission.scheduling.model import (
    ClusterQueue,
    PodSet,
    PodSetAssignment,
    Reservation,
    ResourceFlavor,
    ResourceGroup,
    Workload,
)
from admission.scheduling.podsets import PODS, Demand


def charged(
    workload: Workload,
    queue: ClusterQueue,
    flavors: Mapping[FlavorName, ResourceFlavor],
    node_labels: Mapping[str, str],
    now_us: int,
) -> Workload:
    """Return a Workload with a reservation for pods that run.

    Args:
        workload: what the pods ask for, as the ClusterQueue counts it.
        queue: the ClusterQueue. A resource that it does not cover is not charged.
        flavors: those that exist.
        node_labels: labels of the node on which the pods run, as far as they are known.
        now_us: since when it is charged.
    """
    covered = {r for group in queue.resource_groups for r in group.covered_resources}
    demanded = podsets.demands(workload)
    if PODS in covered:
        demanded = tuple(demand.with_pods() for demand in demanded)
    assigned = tuple(_assigned(demand, queue, flavors, node_labels) for demand in demanded)
    reservation = Reservation(
        cluster_queue=queue.name, pod_sets=assigned, reserved_us=now_us, admitted_us=now_us
    )
    return replace(workload, reservation=reservation)


def _assigned(
    demand: Demand,
    queue: ClusterQueue,
    flavors: Mapping[FlavorName, ResourceFlavor],
    node_labels: Mapping[str, str],
) -> PodSetAssignment:
    flavors_given: dict[ResourceName, FlavorName] = {}
    for group in queue.resource_groups:
        resources_asked = [r for r in group.covered_resources if demand.requests.get(r, 0) > 0]
        flavor = _flavor(demand.pod_set, group, flavors, node_labels) if resources_asked else None
        if flavor is not None:
            flavors_given.update(dict.fromkeys(resources_asked, flavor))
    resources = sorted(flavors_given)
    return PodSetAssignment(
        name=demand.pod_set.name,
        count=demand.count,
        flavors={resource: flavors_given[resource] for resource in resources},
        usage={
            resource: demand.in_flavor(flavors_given[resource], resource) for resource in resources
        },
    )


def _flavor(
    pod_set: PodSet,
    group: ResourceGroup,
    flavors: Mapping[FlavorName, ResourceFlavor],
    node_labels: Mapping[str, str],
) -> FlavorName | None:
    """Return the flavor of a resource group on which pods run; the first where none is named."""
    names = [quotas.name for quotas in group.flavors]
    for labels in (pod_set.node_selector, {**node_labels, **pod_set.node_selector}):
        for name in names:
            node_labels_wanted = flavors[name].node_labels if name in flavors else {}
            if node_labels_wanted and node_labels_wanted.items() <= labels.items():
                return name
    plain = (name for name in names if name in flavors and not flavors[name].node_labels)
    return next(plain, names[0] if names else None)
