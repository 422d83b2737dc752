"""Random small worlds for the laws of the engine."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from admission.base.names import ClusterQueueName, CohortName, FlavorName, ResourceName
from admission.scheduling import model
from tests.builders.scheduling import NOW_US, SECOND_US, waiting

RESOURCES = (ResourceName("cpu"), ResourceName("gpu"))
FLAVORS = (FlavorName("f1"), FlavorName("f2"))
COHORTS = tuple(CohortName(name) for name in ("root", "left", "right"))
QUEUES = tuple(ClusterQueueName(name) for name in ("a", "b", "c", "d"))

amounts = st.integers(0, 8)
limits = st.none() | amounts
policies = st.sampled_from(list(model.PreemptionPolicy))
strategies = st.sampled_from(list(model.FairStrategy))


@st.composite
def quotas(draw: st.DrawFn, *, limited: bool) -> model.ResourceQuota:
    nominal = draw(amounts)
    return model.ResourceQuota(
        nominal=nominal,
        borrowing_limit=draw(limits) if limited else None,
        lending_limit=draw(st.none() | st.integers(0, nominal)) if limited else None,
    )


@st.composite
def groups(draw: st.DrawFn, *, limited: bool) -> tuple[model.ResourceGroup, ...]:
    flavors = draw(st.lists(st.sampled_from(FLAVORS), min_size=1, unique=True))
    return (
        model.ResourceGroup(
            covered_resources=RESOURCES,
            flavors=tuple(
                model.FlavorQuotas(
                    name=name, resources={r: draw(quotas(limited=limited)) for r in RESOURCES}
                )
                for name in flavors
            ),
        ),
    )


@st.composite
def queues(draw: st.DrawFn, name: ClusterQueueName) -> model.ClusterQueue:
    cohort = draw(st.none() | st.sampled_from(COHORTS))
    others = st.sampled_from([p for p in model.PreemptionPolicy if "Newer" not in p])
    lower = st.sampled_from([model.PreemptionPolicy.NEVER, model.PreemptionPolicy.LOWER_PRIORITY])
    return model.ClusterQueue(
        name=name,
        cohort=cohort,
        resource_groups=draw(groups(limited=cohort is not None)),
        queueing_strategy=draw(st.sampled_from(list(model.QueueingStrategy))),
        fungibility=model.FlavorFungibility(
            when_can_borrow=draw(st.sampled_from(list(model.SearchPolicy))),
            when_can_preempt=draw(st.sampled_from(list(model.SearchPolicy))),
        ),
        preemption=model.Preemption(
            within_cluster_queue=draw(
                st.sampled_from([p for p in model.PreemptionPolicy if p != "Any"])
            ),
            reclaim_within_cohort=draw(others),
            borrow_within_cohort=draw(lower),
        ),
        fair_weight=draw(st.sampled_from([0, 5 * 10**8, 10**9, 3 * 10**9])),
        namespace_selector=model.Selector(),
    )


@st.composite
def cohorts(draw: st.DrawFn) -> list[model.Cohort]:
    found = []
    for name in draw(st.lists(st.sampled_from(COHORTS), unique=True)):
        parent = draw(st.none() | st.just(COHORTS[0])) if name != COHORTS[0] else None
        found.append(
            model.Cohort(
                name=name, parent=parent, resource_groups=draw(groups(limited=parent is not None))
            )
        )
    return found


@st.composite
def workloads(draw: st.DrawFn, name: str) -> model.Workload:
    pod_set = model.PodSet(
        name=draw(st.just("main").map(lambda text: text)),  # type: ignore[arg-type]
        count=draw(st.integers(1, 3)),
        requests={r: draw(st.integers(0, 4)) for r in RESOURCES},
    )
    if draw(st.booleans()):
        pod_set = replace(pod_set, min_count=draw(st.integers(1, pod_set.count)))
    return waiting(
        name,
        draw(st.sampled_from(QUEUES)),
        priority=draw(st.integers(0, 2)),
        created=draw(st.integers(-5, 0)),
        sets=[pod_set],
    )


@dataclass(frozen=True)
class Cast:
    """Objects of a world."""

    config: model.Config
    cohorts: list[model.Cohort]
    queues: list[model.ClusterQueue]
    workloads: list[model.Workload]


@st.composite
def casts(draw: st.DrawFn, *, most: int = 12) -> Cast:
    fair = draw(st.booleans())
    sharing = model.FairSharing(
        strategies=draw(
            st.sampled_from(
                [
                    tuple(model.FairStrategy),
                    (model.FairStrategy.LESS_THAN_INITIAL_SHARE,),
                    (model.FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,),
                ]
            )
        )
    )
    count = draw(st.integers(1, most))
    return Cast(
        config=model.Config(fair_sharing=sharing if fair else None),
        cohorts=draw(cohorts()),
        queues=[draw(queues(name)) for name in QUEUES],
        workloads=[draw(workloads(f"w{index:02}")) for index in range(count)],
    )


def at(second: int) -> int:
    """A time of the world in microseconds."""
    return NOW_US + second * SECOND_US
