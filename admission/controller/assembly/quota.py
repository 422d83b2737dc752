"""Composes what is known of devices and queues, and the scheduler."""

from dataclasses import dataclass

from admission.controller.assembly.basis import Basis, Installation
from admission.controller.devices.capacity import CapacityByFlavor
from admission.controller.devices.capacity_guard import CapacityGuard
from admission.controller.devices.claims import Claims
from admission.controller.devices.fitting import Fitting
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.devices.node_places import NodePlaces
from admission.controller.devices.resource_adjustments import ResourceAdjustments
from admission.controller.quarantine import Quarantine
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.queues.gpu_transformations import GpuTransformations
from admission.controller.scheduler import Scheduler
from admission.gpu import resources as gpu_resources
from admission.gpu.health import HealthPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaParts:
    """Parts that say how much quota there is, and what Workloads are charged.

    Attributes:
        node_places: where pods stand.
        inventory: GPUs that exist.
        fitting: says which pods no node can take.
        configuration: queues, flavors and classes as last seen.
        prices: of GPUs, by queue.
        claims: ResourceClaims of Workloads.
        charges: what besides itself decides what a Workload is charged for.
        scheduling: decides about quota.
        quarantine: Workloads that cannot be read.
    """

    node_places: NodePlaces
    inventory: NodeInventory
    fitting: Fitting
    configuration: WatchedConfiguration
    prices: GpuTransformations
    claims: Claims
    charges: ResourceAdjustments
    scheduling: Scheduler
    quarantine: Quarantine


def make(installation: Installation, basis: Basis) -> QuotaParts:
    """Return the parts that say how much quota there is.

    Args:
        installation: what the core is built for.
        basis: parts that every other part uses.
    """
    state, clock, settings = installation.state, installation.clock, installation.settings
    turns, flow = basis.turns, basis.flow
    capacities = CapacityByFlavor(basis.products, installation.health or HealthPolicy())
    guard = CapacityGuard(state, capacities)

    def free_changed() -> None:
        turns.call()
        flow.hurry_cycle()

    node_places = NodePlaces(state.places, free_changed)
    inventory = NodeInventory(
        capacities, guard, clock, node_places, installation.events, on_news=turns.call
    )
    configuration = WatchedConfiguration(
        state, guard, basis.routes.on_change, settings.kueue, installation.namespaces,
        settings.gpu.toleration_key,
    )  # fmt: skip
    prices = GpuTransformations(configuration, basis.products)
    managed = gpu_resources.managed(settings.gpu.managed_resources)
    claims = Claims(installation.rules.device_classes, managed, inventory)
    charges = ResourceAdjustments(installation.rules, claims)
    scheduling = Scheduler(
        state, clock, basis.explainer, installation.accounting, prices, charges,
        flow=flow, events=installation.events, kinds=basis.kinds,
    )  # fmt: skip
    return QuotaParts(
        node_places=node_places,
        inventory=inventory,
        fitting=Fitting(inventory, state.places, configuration),
        configuration=configuration,
        prices=prices,
        claims=claims,
        charges=charges,
        scheduling=scheduling,
        quarantine=Quarantine(scheduling, basis.workloads, installation.events),
    )
