"""Laws of spare nodes: nobody is forgotten, nobody is stopped in vain, and no spare is taken."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    PodSetName,
    ResourceName,
    WorkloadKey,
)
from admission.scheduling import model
from admission.scheduling.decisions import CycleResult
from admission.scheduling.model import PodNeeds
from admission.scheduling.places.model import CORDONED, HOSTNAME, BoundPod, Node
from admission.scheduling.topology.request import TopologyRequest
from tests.builders.scheduling import LOWER, NOW_US, SECOND_US, cluster_queue, group, waiting
from tests.scheduling.worlds import World, admitted, evicted, world

GPU, RACK = ResourceName("nvidia.com/gpu"), "rack"
MAIN = PodSetName("main")
QUEUES = ("q", "p")
"""One queue for each flavor: the flavor of the second keeps no spares on the same nodes."""
NAMES = tuple(f"n{index}" for index in range(6))
JOBS = tuple(f"w{index}" for index in range(6))
QUIET = 2
"""Cycles without any decision, after which nothing happens any more unless something comes."""
MOST_CYCLES = 24
"""Far more than the workloads need."""

Event = tuple[str, int, int, int]
_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ("node", "node", "cordon", "gone", "job", "job", "job", "end", "bind", "pods gone",
             "daemon", "spares")
        ),
        st.integers(0, 5), st.integers(0, 3), st.integers(0, 3),
    ),
    min_size=4,
    max_size=24,
)  # fmt: skip


def _flavor(name: str, spares: int) -> model.ResourceFlavor:
    return model.ResourceFlavor(
        name=FlavorName(name),
        node_labels={"pool": "a"},
        topology="default",
        spare_nodes=model.SpareNodes(RACK, spares) if spares else None,
    )


def _node(index: int, rack: int, gpus: int) -> Node:
    labels = {HOSTNAME: NAMES[index], RACK: f"r{rack}", "pool": "a"}
    return Node(name=NAMES[index], labels=labels, amounts={GPU: gpus, "pods": 110})


def _job(
    name: str, count: int, gpus: int, *, created: int, priority: int = 0, queue: str = "q"
) -> model.Workload:
    main = model.PodSet(
        name=MAIN,
        count=count,
        requests={GPU: gpus},
        needs=PodNeeds(requests=((GPU, gpus),), devices=(GPU,)),
        topology=TopologyRequest(required=RACK),
    )
    return waiting(name, queue, sets=(main,), created=created, priority=priority)


def _made(spares: int) -> World:
    queues = [
        cluster_queue(queue, groups=[group({flavor: {GPU: (99,)}})], within=LOWER)
        for queue, flavor in zip(QUEUES, "ab", strict=True)
    ]
    made = world(_flavor("a", spares), _flavor("b", 0), *queues, flavors=())
    made.state.set_topology("default", (RACK, HOSTNAME), NOW_US)
    return made


@dataclass
class _Site:
    """A scheduler and what it has decided.

    Attributes:
        runs: names of the workloads that were admitted and run.
        bound: UIDs of pods that are on nodes, by workload.
    """

    made: World = field(default_factory=lambda: _made(1))
    runs: dict[str, None] = field(default_factory=dict)
    bound: dict[str, list[str]] = field(default_factory=dict)
    created: int = 0

    def wake_all(self) -> None:
        """Have everybody who waits tried again in the next cycle."""
        places = self.made.state.places
        take_helped = places.take_helped

        def take_all() -> tuple[ClusterQueueName, ...]:
            places.take_helped = take_helped  # type: ignore[method-assign]
            take_helped()
            return tuple(map(ClusterQueueName, QUEUES))

        places.take_helped = take_all  # type: ignore[method-assign]

    def settle(self) -> None:
        """Run cycles until nothing happens any more; victims end at once."""
        quiet = 0
        for _ in range(MOST_CYCLES):
            result = self.made.cycle()
            self.note(result)
            quiet = 0 if result.admitted or result.evicted else quiet + 1
            if quiet == QUIET + len(JOBS):
                return
        raise AssertionError("it never ends")

    def places(self) -> dict[str, object]:
        """The nodes of all that run."""
        ledger = self.made.state.places.ledger
        return {name: ledger.places(WorkloadKey("default", name)) for name in sorted(self.runs)}

    def note(self, result: CycleResult) -> None:
        self.runs.update(dict.fromkeys(admitted(result)))
        for name in sorted(evicted(result)):
            self.end(name)

    def end(self, name: str) -> None:
        self.runs.pop(name, None)
        self.made.finish(name)

    def handle(self, event: Event) -> None:
        kind, which, first, second = event
        state, places = self.made.state, self.made.state.places
        now_us = NOW_US + self.made.clock * SECOND_US
        name = JOBS[which]
        key = WorkloadKey("default", name)
        match kind:
            case "node":
                places.set_node(_node(which, first % 2, second))
            case "cordon":
                places.set_node(replace(_node(which, first % 2, second), taints=(CORDONED,)))
            case "gone":
                places.drop_node(NAMES[which])
                for running in sorted(self.runs):
                    lost = [NAMES[which]]
                    state.replace_hosts(WorkloadKey("default", running), lost, now_us)
            case "job":
                if name not in self.runs and name not in self.bound:
                    self.created += 1
                    queue = QUEUES[which % 3 == 0]
                    state.set_workload(
                        _job(
                            name, 1 + first % 3, 1 + second % 2, created=self.created,
                            priority=second, queue=queue,
                        ),
                        now_us,
                    )  # fmt: skip
            case "end":
                self.end(name)
            case "bind":
                for place in places.ledger.places(key) if name in self.runs else ():
                    uid = f"{name}-{place.node}"
                    self.bound.setdefault(name, []).append(uid)
                    requests = {GPU: 1, "pods": 1}
                    places.set_pod(uid, BoundPod(place.node, requests, key, MAIN))
            case "pods gone":
                for uid in self.bound.pop(name, ()) if name not in self.runs else ():
                    places.drop_pod(uid)
            case "daemon":
                if first:
                    places.set_pod("daemon", BoundPod(NAMES[which], {GPU: 1, "pods": 1}))
                else:
                    places.drop_pod("daemon")
            case _:
                state.set_resource_flavor(_flavor("a", first), now_us)


@given(_EVENTS)
def test_the_same_are_admitted_as_if_everybody_were_tried_again_at_each_event(
    events: list[Event],
) -> None:
    site, eager = _Site(), _Site()
    for event in events:
        site.handle(event)
        eager.handle(event)
        eager.wake_all()
        site.settle()
        eager.settle()

        assert site.places() == eager.places()


_RACKS = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=2)


def _spares(made: World, racks: list[list[str]], count: int, gone: Iterable[str]) -> set[str]:
    """The last idle nodes of each rack, once some workloads are gone."""
    keys = {WorkloadKey("default", name) for name in gone}
    spares: set[str] = set()
    for names in racks:
        idle = [
            name for name in sorted(names)
            if not {*made.state.places.ledger.workloads_on(name)} - keys
        ]  # fmt: skip
        spares.update(idle[-count:])
    return spares


@given(
    _RACKS,
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(0, 9)), max_size=6),
    st.integers(1, 2),
    st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.booleans(),
)
def test_whoever_stops_others_is_admitted_beside_the_spares(
    racks: list[list[int]],
    jobs: list[tuple[int, int, int]],
    spares: int,
    asked: tuple[int, int],
    is_edited: bool,
) -> None:
    """It is so also where the spares of the flavor are in use before, as after a lost node."""
    made = _made(0 if is_edited else spares)
    names: list[list[str]] = []
    for rack, sizes in enumerate(racks):
        names.append([f"r{rack}-n{index}" for index in range(len(sizes))])
        for name, gpus in zip(names[-1], sizes, strict=True):
            labels = {HOSTNAME: name, RACK: f"r{rack}", "pool": "a"}
            made.state.places.set_node(
                Node(name=name, labels=labels, amounts={GPU: gpus, "pods": 110})
            )
    for index, (count, gpus, priority) in enumerate(jobs):
        made.add(_job(f"w{index}", count, gpus, created=index, priority=priority))
        if not admitted(made.cycle()):
            made.finish(f"w{index}")
    made.state.set_resource_flavor(_flavor("a", spares), NOW_US)
    made.add(_job("job", *asked, created=99, priority=5))

    result = made.cycle()
    victims = sorted(evicted(result))
    kept = _spares(made, names, spares, {"job", *victims})
    made.finish(*victims)
    if victims:
        result = made.cycle()
        assert admitted(result) == ["job"]

    for admit in result.admitted:
        told = admit.pod_sets[0].domains
        assert told is not None
        assert not kept & {values[-1] for values, _ in told.counts}
