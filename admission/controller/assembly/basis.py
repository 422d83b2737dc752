"""What a core is built for, and the parts that every other part uses."""

from dataclasses import dataclass

from admission.base import names
from admission.base.clock import Clock
from admission.base.events import Events
from admission.base.namespaces import MANAGED, ManagedNamespaces
from admission.config.derived import Settings
from admission.controller.condition_schedule import ConditionSchedule
from admission.controller.plan_executor import PlanExecutor
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.routes import ConfigurationRoutes
from admission.controller.turns import Turns
from admission.controller.watched_owners.brake import Brake
from admission.controller.workloads.authorship import ForeignReservations
from admission.controller.workloads.following import PrioritySync
from admission.controller.workloads.refusals import Refusals
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing.flow_control import FlowControl
from admission.controller.writing.work_queue import WorkQueue
from admission.controller.writing.writer import Writer
from admission.gpu import catalogue
from admission.gpu.catalogue import Catalogue
from admission.gpu.health import HealthPolicy
from admission.owners import integrations
from admission.owners.integrations import Kinds
from admission.scheduling.state import SchedulerState
from admission.scheduling.transformation import NO_RULES, TransformationRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What a core is built for.

    Attributes:
        state: queues and quota.
        writer: sends requests.
        events: takes events.
        clock: the present.
        settings: what the installation chose.
        accounting: metrics of Workloads.
        rules: how resources are counted.
        products: GPU products; None for those that are built in.
        health: which GPUs count as healthy; None for the default.
        namespaces: those that are managed.
        system_namespace: of the installation.
    """

    state: SchedulerState
    writer: Writer
    events: Events
    clock: Clock
    settings: Settings
    accounting: KueueMetrics
    rules: TransformationRules = NO_RULES
    products: Catalogue | None = None
    health: HealthPolicy | None = None
    namespaces: ManagedNamespaces = MANAGED
    system_namespace: str = names.SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Parts that depend on nothing that is watched.

    Attributes:
        kinds: of owners that are served.
        products: GPU products.
        turns: say when a turn has something to do.
        flow: says what may be sent.
        queue: of Workloads to be advanced.
        plans: carries plans out.
        explainer: says when a Workload gets its condition.
        workloads: all Workloads.
        routes: of changes of the configuration; declared once all is made that takes them.
        foreign: reservations that this process did not decide.
        refusals: owners that the API server does not let start.
        following: Workloads whose priority class has changed.
        brake: holds stops back.
    """

    kinds: Kinds
    products: Catalogue
    turns: Turns
    flow: FlowControl
    queue: WorkQueue
    plans: PlanExecutor
    explainer: ConditionSchedule
    workloads: WorkloadIndex
    routes: ConfigurationRoutes
    foreign: ForeignReservations
    refusals: Refusals
    following: PrioritySync
    brake: Brake


def make(installation: Installation) -> Basis:
    """Return the parts that every other part uses.

    Args:
        installation: what the core is built for.
    """
    clock, settings = installation.clock, installation.settings
    config = settings.gpu.controller
    flow, queue = FlowControl(installation.writer, clock, maximum=config.writers), WorkQueue(clock)
    plans = PlanExecutor(queue, flow, installation.events, clock)
    return Basis(
        kinds=integrations.kinds_of(settings),
        products=installation.products or catalogue.load(),
        turns=Turns(clock),
        flow=flow,
        queue=queue,
        plans=plans,
        explainer=ConditionSchedule(
            after_seconds=config.waiting_after.total_seconds(),
            refresh_seconds=config.waiting_refresh.total_seconds(),
        ),
        workloads=WorkloadIndex(),
        routes=ConfigurationRoutes(),
        foreign=ForeignReservations(),
        refusals=Refusals(),
        following=PrioritySync(plans.draft),
        brake=Brake(
            clock, plans.draft, settings.gpu.max_stops_per_minute, installation.system_namespace
        ),
    )
