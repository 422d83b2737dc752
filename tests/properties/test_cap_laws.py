"""Caps of users and LocalQueues hold in every world, whatever happens in it."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.base.names import ClusterQueueName, LocalQueueKey, ResourceName, WorkloadKey
from admission.scheduling import caps, model
from admission.scheduling.caps import Holdings, Scope
from admission.scheduling.decisions import Wait
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.state import SchedulerState
from tests.properties.engine_worlds import QUEUES, RESOURCES, Cast, at, casts
from tests.properties.test_engine_laws import load, observe

STEPS = 8
USERS = ("ann", "bob", "")
SIDE_DOORS = {LocalQueueKey("default", f"{name}-too"): name for name in QUEUES}
"""A second LocalQueue of each ClusterQueue."""

Amounts = dict[ResourceName, int]
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 8))


@dataclass(frozen=True)
class Event:
    """What happens before a cycle.

    Attributes:
        kind: ``finish``, ``cap queue``, ``cap local`` or nothing.
        place: of whom, by its number.
        per_user: the new cap of each user.
        in_use: of the LocalQueue.
    """

    kind: str
    place: int
    per_user: Amounts
    in_use: Amounts


events = st.builds(
    Event,
    st.sampled_from(["finish", "cap queue", "cap local", ""]),
    st.integers(0, 40),
    amounts,
    amounts,
)


@st.composite
def capped(draw: st.DrawFn) -> Cast:
    """Queues with caps; workloads of users, in two LocalQueues of each ClusterQueue."""
    cast = draw(casts())
    queues = [replace(one, max_per_user=draw(amounts)) for one in cast.queues]
    workloads = []
    for one in cast.workloads:
        name = one.queue.name
        key = one.queue._replace(name=draw(st.sampled_from([name, f"{name}-too"])))
        workloads.append(replace(one, requester=draw(st.sampled_from(USERS)), queue=key))
    return replace(cast, queues=queues, workloads=workloads)


def apply(state: SchedulerState, cast: Cast, event: Event, second: int) -> None:
    """Tell the State what happens."""
    if event.kind == "finish":
        one = cast.workloads[event.place % len(cast.workloads)]
        state.drop_workload(one.key, at(second))
    elif event.kind == "cap queue":
        spec = state.forest.queues[QUEUES[event.place % len(QUEUES)]].spec
        state.set_cluster_queue(replace(spec, max_per_user=event.per_user), at(second))
    elif event.kind == "cap local":
        state.set_local_queue(capped_door(event), at(second))


def note(locals_: dict[LocalQueueKey, model.LocalQueue], event: Event) -> None:
    """Remember the caps that an event gives a LocalQueue."""
    if event.kind == "cap local":
        queue = capped_door(event)
        locals_[queue.key] = queue


def capped_door(event: Event) -> model.LocalQueue:
    key, name = sorted(SIDE_DOORS.items())[event.place % len(SIDE_DOORS)]
    return local_queue(key, name, max_per_user=event.per_user, max_in_use=event.in_use)


def local_queue(key: LocalQueueKey, name: ClusterQueueName, **limits: Amounts) -> model.LocalQueue:
    return model.LocalQueue(key=key, cluster_queue=name, **limits)  # type: ignore[arg-type]


def opened(cast: Cast) -> tuple[SchedulerState, dict[LocalQueueKey, model.LocalQueue]]:
    """Return a State of the cast, and the LocalQueues that have caps."""
    state = load(cast)
    for key, name in SIDE_DOORS.items():
        state.set_local_queue(local_queue(key, name))
    return state, {}


def counted(node: QueueNode) -> Holdings:
    """Return the holdings of a ClusterQueue as they are counted from scratch."""
    found: Holdings = {}
    for one in node.workloads.values():
        caps.count(found, one, 1)
    return found


@given(capped(), st.lists(events, min_size=STEPS, max_size=STEPS))
@settings(deadline=None, max_examples=200)
def test_a_cap_is_never_exceeded_by_an_admission(cast, happens):
    state, locals_ = opened(cast)
    for second, event in enumerate(happens):
        apply(state, cast, event, second)
        note(locals_, event)

        result = state.run_cycle(at(second))

        for admit in result.admitted:
            workload, node = (
                state.workload(admit.workload),
                state.forest.queues[admit.cluster_queue],
            )
            assert workload is not None
            local = locals_.get(workload.queue)
            limits = (
                (Scope(None, workload.user), node.spec.max_per_user),
                (Scope(workload.queue, workload.user), local.max_per_user if local else {}),
                (Scope(workload.queue, None), local.max_in_use if local else {}),
            )
            asks = {r for one in admit.pod_sets for r, value in one.usage.items() if value}
            for scope, most in limits:
                held = node.holdings.get(scope, {})
                assert all(held.get(r, 0) <= value for r, value in most.items() if r in asks)
        observe(state, result, second)
        for node in state.forest.queues.values():
            assert node.holdings == counted(node)


@given(capped(), st.lists(events, max_size=STEPS))
@settings(deadline=None, max_examples=100)
def test_with_everybody_gone_nothing_is_counted(cast, happens):
    state, _ = opened(cast)
    for second, event in enumerate(happens):
        apply(state, cast, event, second)
        state.run_cycle(at(second))

    for one in cast.workloads:
        state.drop_workload(one.key, at(STEPS))

    assert all(node.holdings == {} for node in state.forest.queues.values())


@given(capped(), st.lists(events, max_size=STEPS))
@settings(deadline=None, max_examples=100)
def test_nobody_is_left_waiting_for_a_cap_that_has_room(cast, happens):
    """A State that tries everybody anew gives nothing to who was last told to wait for a cap."""
    state, locals_ = opened(cast)
    told: dict[WorkloadKey, Wait] = {}
    for second, event in enumerate([*happens, *[Event("", 0, {}, {})] * 40]):
        apply(state, cast, event, second)
        note(locals_, event)
        result = state.run_cycle(at(second))
        observe(state, result, second)
        told |= {one.workload: one for one in (*result.waiting, *result.bypassed)}
    stored = [found for one in cast.workloads if (found := state.workload(one.key)) is not None]
    queues = [state.forest.queues[one.name].spec for one in cast.queues]

    anew = load(replace(cast, queues=queues, workloads=stored))
    for key, name in SIDE_DOORS.items():
        anew.set_local_queue(locals_.get(key) or local_queue(key, name))

    for second in range(10):
        result = anew.run_cycle(at(100 + second))
        assert not [one for one in result.admitted if told[one.workload].reason == "CapReached"]
        if result.evicted or result.admitted:
            break
