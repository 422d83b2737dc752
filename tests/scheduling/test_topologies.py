"""Who is admitted to which domains of a topology: decisions of the engine with levels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import causes
from admission.base.causes import Overtaken
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    WorkloadKey,
)
from admission.base.selectors import Requirement
from admission.controller.devices import fitting
from admission.reasons import domains as topology_words
from admission.reasons import kueue, reading
from admission.scheduling import model
from admission.scheduling.decisions import CycleResult, Wait
from admission.scheduling.model import NodeTerm, PodDomains, PodNeeds, Spread
from admission.scheduling.places.model import CORDONED, HOSTNAME, BoundPod, Node
from admission.scheduling.topology.request import Layer, TopologyRequest
from tests.builders.scheduling import (
    ANY,
    LOWER,
    NOW_US,
    SECOND_US,
    cluster_queue,
    group,
    waiting,
)
from tests.scheduling.worlds import World, admitted, evicted, waits, world

GPU = ResourceName("nvidia.com/gpu")
CPU = ResourceName("cpu")
RACK, BLOCK = "rack", "block"
LEVELS = (BLOCK, RACK, HOSTNAME)
ONE_RACK = TopologyRequest(required=RACK)
ANYWHERE = TopologyRequest(unconstrained=True)


def nodes(**racks: Mapping[str, int]) -> list[Node]:
    """Nodes with their GPUs, by rack; all are in one block."""
    return [
        node(name, rack, gpus) for rack, members in racks.items() for name, gpus in members.items()
    ]


def node(name: str, rack: str, gpus: int, pool: str = "a") -> Node:
    labels = {HOSTNAME: name, RACK: rack, BLOCK: "b", "pool": pool}
    return Node(name=name, labels=labels, amounts={GPU: gpus, "pods": 110})


def asking(
    name: str, count: int, request: TopologyRequest | None, gpus: int = 1, **fields: Any
) -> model.Workload:
    needs = PodNeeds(requests=((GPU, gpus),), devices=(GPU,))
    main = model.PodSet(
        name=PodSetName("main"), count=count, requests={GPU: gpus}, needs=needs, topology=request
    )
    return waiting(name, "q", sets=(main,), **fields)


def cluster(
    *found: Node,
    flavors: Mapping[str, str] | None = None,
    spare: model.SpareNodes | None = None,
    quota: int = 64,
    levels: tuple[str, ...] = LEVELS,
    workloads: tuple[model.Workload, ...] = (),
    **fields: Any,
) -> World:
    """A world with one queue; `flavors` are names of flavors and of their topologies."""
    topologies = {"a": "default"} if flavors is None else flavors
    quotas: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
        name: {GPU: (quota,)} for name in topologies
    }
    queue = cluster_queue("q", groups=[group(quotas)], **fields)
    values = [
        model.ResourceFlavor(
            name=FlavorName(name),
            node_labels={"pool": name},
            topology=topology,
            spare_nodes=spare,
        )
        for name, topology in topologies.items()
    ]
    made = world(*values, queue, *workloads, flavors=())
    made.state.set_topology("default", levels, NOW_US)
    for one in found:
        made.state.places.set_node(one)
    return made


def domains(result: CycleResult, name: str = "job", pod_set: str = "main") -> dict[str, int]:
    """Hosts, or the values of other domains, and their pods."""
    (admit,) = (one for one in result.admitted if one.workload.name == name)
    (assigned,) = (one for one in admit.pod_sets if one.name == pod_set)
    assert assigned.domains is not None
    return {"/".join(values): count for values, count in assigned.domains.counts}


def message(wait: Wait) -> str:
    return kueue.message(wait.why)


def test_pods_get_hosts_of_one_rack():
    made = cluster(*nodes(r1={"n1": 2, "n2": 1}, r2={"n3": 2, "n4": 2}))
    made.add(asking("job", 4, ONE_RACK))

    assert domains(made.cycle()) == {"n3": 2, "n4": 2}


def test_who_fits_in_no_rack_waits_with_the_words_of_kueue():
    made = cluster(*nodes(r1={"n1": 2}, r2={"n3": 2, "n4": 1}))
    made.add(asking("job", 4, ONE_RACK))

    wait = waits(made.cycle())["job"]

    assert wait.reason == "TopologyPlacementFailed"
    assert message(wait) == (
        "couldn't assign flavors to pod set main:"
        ' topology "default" allows to fit only 3 out of 4 pod(s)'
    )


def test_places_count_what_pods_ask_for_and_not_what_quota_counts():
    """Quota may count a resource as another one, or not at all."""
    needs = PodNeeds(requests=((GPU, 2),), devices=(GPU,))
    main = model.PodSet(
        name=PodSetName("main"), count=2, requests={GPU: 30}, needs=needs, topology=ONE_RACK
    )
    made = cluster(*nodes(r1={"n1": 2, "n2": 1}, r2={"n3": 2, "n4": 2}))
    made.add(
        waiting("job", "q", sets=(main,)),
        waiting("second", "q", sets=(replace(main, requests={GPU: 1}),), created=1),
    )

    assert domains(made.cycle()) == {"n3": 1, "n4": 1}
    wait = waits(made.cycle())["second"]
    assert 'topology "default" allows to fit only 1 out of 2 pod(s)' in message(wait)


def test_entries_of_one_cycle_and_admitted_workloads_are_beside_each_other():
    made = cluster(*nodes(r1={"n1": 2, "n2": 2}, r2={"n3": 2, "n4": 2}))
    made.add(asking("first", 3, ONE_RACK), asking("job", 3, ONE_RACK, created=1))
    first, second = made.cycle(), made.cycle()
    made.add(asking("third", 2, ONE_RACK))

    assert domains(first, "first") == {"n1": 2, "n2": 1}
    assert domains(second) == {"n3": 2, "n4": 1}
    assert message(waits(made.cycle())["third"]).endswith(
        'topology "default" allows to fit only 1 out of 2 pod(s).'
        ' Total nodes: 4; excluded: resource "nvidia.com/gpu": 2'
    )


def test_who_waits_for_a_domain_is_tried_again_when_one_is_free():
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(asking("first", 2, ONE_RACK))
    made.cycle()
    made.add(asking("job", 2, ONE_RACK))
    wait = waits(made.cycle())["job"]
    made.finish("first")

    assert wait.reason == "WaitingForQuota"
    assert domains(made.cycle()) == {"n1": 2}


def test_who_waits_for_a_domain_is_tried_again_when_a_node_comes():
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(asking("job", 3, ONE_RACK))
    assert waits(made.cycle())["job"].reason == "TopologyPlacementFailed"

    made.state.places.set_node(node("n2", "r1", 1))

    assert domains(made.cycle()) == {"n1": 2, "n2": 1}


def test_pods_of_others_and_nodes_that_are_away_do_not_count():
    made = cluster(*nodes(r1={"n1": 4, "n2": 4}, r2={"n3": 2}))
    made.state.places.set_pod("daemon", BoundPod("n1", {GPU: 3, "pods": 1}))
    made.state.places.set_node(replace(node("n2", "r1", 4), taints=(CORDONED,)))
    made.add(asking("job", 2, ONE_RACK))

    assert domains(made.cycle()) == {"n3": 2}


def test_without_a_domain_in_one_flavor_the_next_one_is_given():
    made = cluster(
        *nodes(r1={"n1": 1}), node("n9", "r9", 4, "b"), flavors={"a": "default", "b": "default"}
    )
    made.add(asking("job", 2, ONE_RACK))

    assert domains(made.cycle()) == {"n9": 2}


def test_victims_make_room_in_one_domain():
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}), within=LOWER)
    for name in ("low-1", "low-2", "low-3", "low-4"):
        made.add(asking(name, 1, ANYWHERE, created=int(name[-1])))
        made.cycle()
    made.add(asking("job", 2, ONE_RACK, priority=9, created=9))

    result = made.cycle()

    victims = evicted(result)
    held = {
        name: {
            place.node for place in made.state.places.ledger.places(WorkloadKey("default", name))
        }
        for name in victims
    }
    assert len(victims) == 2
    assert len({frozenset(found) for found in held.values()}) == 1


def test_nobody_is_preempted_who_could_not_make_a_domain_free():
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}), within=LOWER)
    made.add(asking("low", 1, ANYWHERE))
    made.cycle()
    made.add(asking("job", 3, ONE_RACK, priority=9))

    result = made.cycle()

    assert not evicted(result)
    assert waits(result)["job"].reason == "TopologyPlacementFailed"


def test_room_that_victims_of_others_still_hold_is_given_to_nobody():
    made = cluster(*nodes(r1={"n1": 4}), within=LOWER)
    made.state.set_cluster_queue(
        cluster_queue("other", groups=[group({"a": {GPU: (64,)}})]), NOW_US
    )
    key = LocalQueueKey("default", "other")
    made.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName("other")), NOW_US
    )
    made.add(asking("low", 3, ONE_RACK))
    made.cycle()
    small = replace(asking("small", 1, ONE_RACK), queue=key)
    made.add(asking("high", 3, ONE_RACK, priority=9), small)

    result = made.cycle()

    assert evicted(result) == {"low": "InClusterQueue"}
    assert waits(result)["small"].why == Overtaken()
    made.finish("low")
    assert domains(made.cycle(), "high") == {"n1": 3}
    assert domains(made.cycle(), "small") == {"n1": 1}


def take_over(made: World, new: model.Workload, *, surges: bool = False) -> dict[str, int] | None:
    """Domains of a workload that takes over what `old` holds; None where it cannot."""
    made.add(asking("old", 2, ONE_RACK))
    made.cycle()
    made.add(new)
    admit = made.state.take_over(
        new.workload_key, WorkloadKey("default", "old"), NOW_US + SECOND_US, surges=surges
    )
    return None if admit is None else domains(CycleResult(admitted=(admit,)), "new")


def test_who_takes_over_the_quota_of_a_predecessor_gets_domains():
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 1}))

    assert take_over(made, asking("new", 2, ONE_RACK)) == {"n1": 2}


def test_who_starts_beside_its_predecessor_gets_other_room():
    surge = {FlavorResource(FlavorName("a"), GPU): 2}
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}), quota=2, surge_quota=surge)

    assert take_over(made, asking("new", 2, ONE_RACK), surges=True) == {"n2": 2}


def test_nobody_starts_beside_its_predecessor_without_a_domain():
    surge = {FlavorResource(FlavorName("a"), GPU): 2}
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 1}), quota=2, surge_quota=surge)

    assert take_over(made, asking("new", 2, ONE_RACK), surges=True) is None


def test_a_domain_that_is_too_small_has_another_flavor_of_another_resource_tried():
    """The flavors of all resource groups select the nodes together."""
    memory = ResourceName("memory")
    labels = {"m1": {"zone": "1"}, "m2": {"zone": "2"}, "a": {"pool": "a"}}
    flavors = [
        model.ResourceFlavor(name=FlavorName(name), node_labels=selected, topology="default")
        for name, selected in labels.items()
    ]
    groups = [
        group({"m1": {memory: (64,)}, "m2": {memory: (64,)}}),
        group({"a": {GPU: (64,)}}),
    ]
    made = world(*flavors, cluster_queue("q", groups=groups), flavors=())
    made.state.set_topology("default", LEVELS, NOW_US)
    for name, gpus, pool, zone in (("n1", 1, "a", "1"), ("n2", 2, "a", "2"), ("n3", 2, "b", "1")):
        found = node(name, f"rack-of-{name}", gpus, pool)
        amounts = {**found.amounts, memory: 64}
        made.state.places.set_node(
            replace(found, labels={**found.labels, "zone": zone}, amounts=amounts)
        )
    requests = {GPU: 2, memory: 1}
    needs = PodNeeds(requests=tuple(sorted(requests.items())), devices=(GPU,))
    main = model.PodSet(
        name=PodSetName("main"), count=1, requests=requests, needs=needs, topology=ONE_RACK
    )
    made.add(waiting("job", "q", sets=(main,)))

    assert domains(made.cycle()) == {"n2": 1}


def test_a_flavor_without_a_topology_is_not_given_to_who_asks_for_one():
    made = cluster(*nodes(r1={"n1": 4}), flavors={"a": ""})
    made.add(asking("job", 1, ONE_RACK))

    wait = waits(made.cycle())["job"]

    assert wait.reason == "NoMatchingFlavor"
    assert message(wait).endswith('Flavor "a" does not support TopologyAwareScheduling')
    assert isinstance(wait.why, causes.NoFlavor)
    assert wait.why.refusals == (causes.NoTopology("a", RACK, is_one=True),)


def test_a_flavor_with_a_topology_is_not_given_to_who_asks_for_none():
    made = cluster(*nodes(r1={"n1": 4}), flavors={"a": "default", "b": ""})
    made.add(asking("job", 1, None), asking("near", 1, TopologyRequest(required="row")))

    first, second = made.cycle(), made.cycle()

    (admit,) = (one for one in first.admitted if one.workload.name == "job")
    assert set(admit.pod_sets[0].flavors.values()) == {"b"}
    assert 'Flavor "a" does not contain the requested level' in message(waits(second)["near"])


def test_in_a_queue_with_topologies_only_everybody_gets_hosts():
    made = cluster(*nodes(r1={"n1": 1, "n2": 2}))
    made.add(asking("job", 2, None))

    assert domains(made.cycle()) == {"n2": 2}


@pytest.mark.parametrize("is_last", [False, True], ids=["ended before", "ended after"])
def test_the_last_pod_of_a_workload_keeps_its_place_in_the_domain_that_is_left(is_last: bool):
    made = cluster(*nodes(r1={"n1": 2, "n2": 2}))
    made.add(asking("job", 4, ONE_RACK))
    assert domains(made.cycle()) == {"n1": 2, "n2": 2}
    key = WorkloadKey("default", "job")
    bound = [BoundPod(name, {GPU: 1}, key, "main") for name in ("n1", "n1", "n2")]

    def end_pods() -> None:
        for index, pod in enumerate(bound):
            made.state.places.end_pod(f"pod-{index}", replace(pod, requests={}))

    for index, pod in enumerate(bound):
        made.state.places.set_pod(f"pod-{index}", pod)
    if not is_last:
        end_pods()
    workload = made.state.workload(key)
    assert workload is not None
    (main,) = workload.pod_sets
    given_back = replace(workload, pod_sets=(replace(main, reclaimable=len(bound)),))
    made.state.set_workload(given_back, NOW_US)
    if is_last:
        end_pods()

    made.add(asking("next", 3, ONE_RACK))
    assert domains(made.cycle(), "next") == {"n1": 2, "n2": 1}


def test_a_topology_whose_narrowest_level_is_no_host_gives_all_levels():
    made = cluster(*nodes(r1={"n1": 1, "n2": 1}, r2={"n3": 1}), levels=(BLOCK, RACK))
    made.add(asking("job", 2, ONE_RACK))

    assert domains(made.cycle()) == {"b/r1": 2}


def test_a_leader_is_in_the_rack_of_its_workers():
    needs = PodNeeds(requests=((GPU, 1),), devices=(GPU,))
    request = replace(ONE_RACK, group="g")
    sets = [
        model.PodSet(
            name=PodSetName(name), count=count, requests={GPU: 1}, needs=needs,
            topology=request, group="g",
        )
        for name, count in (("leader", 1), ("workers", 2))
    ]  # fmt: skip
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 1, "n3": 2}))
    made.add(waiting("job", "q", sets=sets))

    result = made.cycle()

    assert domains(result, pod_set="leader").keys() <= {"n2", "n3"}
    assert sum(domains(result, pod_set="workers").values()) == 2


def leader_of(*workers: str, **fields: Any) -> model.Workload:
    """A leader without devices, in the group of its workers, which have one each."""
    request = replace(ONE_RACK, group="g")
    leader = model.PodSet(
        name=PodSetName("leader"), count=1, requests={}, topology=request, group="g",
        needs=PodNeeds(requests=((CPU, 1),)),
    )  # fmt: skip
    needs = PodNeeds(requests=((GPU, 1),), devices=(GPU,))
    sets = [
        model.PodSet(
            name=PodSetName(name), count=2, requests={GPU: 1}, needs=needs, topology=request,
            group="g",
        )
        for name in workers
    ]  # fmt: skip
    return waiting("job", "q", sets=(leader, *sets), **fields)


def with_cpu(found: list[Node], **cpu: int) -> list[Node]:
    return [replace(one, amounts={**one.amounts, CPU: cpu[one.name]}) for one in found]


def test_a_leader_without_devices_is_in_the_rack_of_its_workers():
    found = nodes(r1={"n1": 2, "n2": 0}, r2={"n3": 2, "n4": 0}, r3={"n5": 0})
    made = cluster(*with_cpu(found, n1=0, n2=0, n3=0, n4=1, n5=9))
    made.add(leader_of("workers"))

    result = made.cycle()

    assert domains(result, pod_set="leader") == {"n4": 1}
    assert domains(result, pod_set="workers") == {"n3": 2}
    (admit,) = result.admitted
    assert [(one.flavors, one.usage) for one in admit.pod_sets] == [
        ({GPU: "a"}, {GPU: 0}), ({GPU: "a"}, {GPU: 2}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "request_", [ONE_RACK, TopologyRequest(preferred=RACK), ANYWHERE], ids=str
)
def test_who_asks_for_domains_and_for_no_resource_of_a_topology_is_refused(
    request_: TopologyRequest,
):
    main = model.PodSet(
        name=PodSetName("main"), count=1, requests={}, topology=request_,
        needs=PodNeeds(requests=((CPU, 1),)),
    )  # fmt: skip
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(waiting("job", "q", sets=(main,)))

    wait = waits(made.cycle())["job"]

    assert wait.reason == "NoMatchingFlavor"
    assert reading.tried_flavors(message(wait)) == frozenset()
    assert fitting._tried(wait) == frozenset()
    assert message(wait) == (
        "couldn't assign flavors to pod set main: no TAS flavor assigned: the pods ask for a"
        " topology, and for no resource for which the queue has one"
    )


def test_who_asks_for_no_domains_and_no_devices_is_admitted_without():
    main = model.PodSet(
        name=PodSetName("main"), count=1, requests={}, needs=PodNeeds(requests=((CPU, 1),))
    )
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(waiting("job", "q", sets=(main,)))

    assert admitted(made.cycle()) == ["job"]


@pytest.mark.parametrize("priority", [0, 9], ids=["waits", "finds no victims"])
def test_why_a_group_waits_is_told_once_for_each_pod_set(priority: int):
    made = cluster(*with_cpu(nodes(r1={"n1": 2, "n2": 0}), n1=0, n2=1), within=LOWER)
    made.add(asking("first", 1, ANYWHERE, priority=9))
    made.cycle()
    made.add(leader_of("workers", priority=priority, created=1))

    told = message(waits(made.cycle())["job"])

    assert [text.count("allows to fit only 1 out of 2") for text in told.split("pod set ")] == [
        0, 1, 1,
    ]  # fmt: skip


def test_a_leader_without_devices_is_beside_its_workers_once_victims_are_gone():
    found = nodes(r1={"n1": 2, "n2": 0})
    made = cluster(*with_cpu(found, n1=0, n2=1), quota=2, within=LOWER)
    made.add(asking("low", 2, ANYWHERE))
    made.cycle()
    made.add(leader_of("workers", priority=9, created=1))
    assert evicted(made.cycle()) == {"low": "InClusterQueue"}
    made.finish("low")

    result = made.cycle()

    assert domains(result, pod_set="leader") == {"n2": 1}
    assert domains(result, pod_set="workers") == {"n1": 2}


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((1, 1, 1), "1 and 1 and 1"), ((2, 3), "2 and 3")],
    ids=["three pod sets", "without a leader"],
)
def test_pod_sets_that_are_no_leader_and_workers_are_refused_as_a_group(
    counts: tuple[int, ...], shown: str
):
    """No review looks at a Workload that somebody writes; rules ``topology 18`` and 19."""
    needs = PodNeeds(requests=((GPU, 1),), devices=(GPU,))
    request = replace(ONE_RACK, group="g")
    sets = [
        model.PodSet(
            name=PodSetName(f"set-{at}"), count=count, requests={GPU: 1}, needs=needs,
            topology=request, group="g",
        )
        for at, count in enumerate(counts)
    ]  # fmt: skip
    made = cluster(*nodes(r1={"n1": 8}))
    made.add(waiting("job", "q", sets=sets))

    wait = waits(made.cycle())["job"]

    assert wait.reason == "TopologyPlacementFailed"
    refusal = (
        f'the pod sets of group "g" have {shown} pods: a group is a leader, which is one pod, and'
        " one pod set of workers"
    )
    assert refusal in message(wait)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["", "g", "h"])), min_size=1))
def test_all_pods_of_every_pod_set_that_is_admitted_have_domains(
    asked: list[tuple[int, str]],
) -> None:
    needs = PodNeeds(requests=((GPU, 1),), devices=(GPU,))
    sets = [
        model.PodSet(
            name=PodSetName(f"set-{at}"), count=count, requests={GPU: 1}, needs=needs,
            topology=replace(ONE_RACK, group=name), group=name,
        )
        for at, (count, name) in enumerate(asked[:4])
    ]  # fmt: skip
    made = cluster(*nodes(r1={"n1": 4, "n2": 3}, r2={"n3": 2, "n4": 4}))
    made.add(waiting("job", "q", sets=sets))

    result = made.cycle()

    for member in sets if result.admitted else ():
        assert sum(domains(result, pod_set=member.name).values()) == member.count


def test_slices_stay_in_their_rack():
    made = cluster(*nodes(r1={"n1": 3}, r2={"n2": 2, "n3": 1}))
    made.add(asking("job", 4, TopologyRequest(required=BLOCK, layers=(Layer(RACK, 2),))))

    counts = domains(made.cycle())

    assert counts["n1"] == 2
    assert counts.get("n2", 0) + counts.get("n3", 0) == 2


@pytest.mark.parametrize(("count", "size"), [(1, 2), (5, 2)], ids=["too few", "a remainder"])
def test_pods_that_fill_no_whole_slices_are_refused(count: int, size: int):
    made = cluster(*nodes(r1={"n1": 8}))
    layers = (Layer(RACK, size),)
    made.add(asking("job", count, TopologyRequest(required=BLOCK, layers=layers)))

    wait = waits(made.cycle())["job"]

    assert wait.reason == "TopologyPlacementFailed"
    assert message(wait).endswith(
        f"the pod set has {count} pod(s), which fill no whole number of slices of {size} pod(s):"
        " choose a size that divides the count"
    )


@pytest.mark.parametrize(("ended", "left"), [(1, 4), (2, 2), (3, 2)])
def test_pods_that_ended_leave_whole_slices(ended: int, left: int):
    """A workload that was evicted after some of its pods had ended starts again."""
    made = cluster(*nodes(r1={"n1": 2, "n2": 2}))
    job = asking("job", 4, TopologyRequest(layers=(Layer(HOSTNAME, 2),)))
    (main,) = job.pod_sets
    made.add(replace(job, pod_sets=(replace(main, reclaimable=ended),)))

    assert sum(domains(made.cycle()).values()) == left


def test_partial_admission_gives_whole_slices():
    made = cluster(*nodes(r1={"n1": 7}))
    whole = asking("job", 8, TopologyRequest(required=BLOCK, layers=(Layer(RACK, 2),)))
    main = replace(whole.pod_sets[0], min_count=3)
    made.add(replace(whole, pod_sets=(main,)))

    assert domains(made.cycle()) == {"n1": 6}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"volumes": ((NodeTerm((Requirement("disk", "In", ("d",)),)),),)}, {"n2": 2}),
        ({"spread": (Spread("disk", 1),)}, {"n2": 2}),
        ({"apart": (HOSTNAME,)}, {"n1": 1, "n2": 1}),
    ],
    ids=["volume", "spread", "apart"],
)
def test_a_host_refuses_what_it_refuses_without_a_topology(
    needs: dict[str, Any], expected: dict[str, int]
):
    second = node("n2", "r1", 3)
    second = replace(second, labels={**second.labels, "disk": "d"})
    made = cluster(node("n1", "r1", 2), second)
    job = asking("job", 2, ONE_RACK)
    (main,) = job.pod_sets
    assert main.needs is not None
    main = replace(main, needs=replace(main.needs, **needs))
    made.add(replace(job, pod_sets=(main,)))

    assert domains(made.cycle()) == expected


@pytest.mark.parametrize("request_", [None, ANYWHERE, TopologyRequest(preferred=BLOCK)])
def test_pods_that_must_be_together_get_one_domain_of_that_level(request_: TopologyRequest | None):
    made = cluster(*nodes(r1={"n1": 2, "n2": 1}, r2={"n3": 2, "n4": 2}))
    for name in ("first", "job"):
        job = asking(name, 4, request_)
        (main,) = job.pod_sets
        assert main.needs is not None
        main = replace(main, needs=replace(main.needs, together=(BLOCK, RACK)))
        made.add(replace(job, pod_sets=(main,)))

    assert domains(made.cycle(), "first") == {"n3": 2, "n4": 2}
    assert "3 out of 4 pod(s)" in message(waits(made.cycle())["job"])


@pytest.mark.parametrize(
    ("free", "expected"),
    [(1, {"n3", "n4"}), (2, {"n1", "n2"}), (0, set())],
    ids=["fits one rack", "fits the fuller rack", "fits no rack"],
)
def test_pod_sets_that_must_be_together_with_each_other_get_one_domain(
    free: int, expected: set[str]
):
    made = cluster(*nodes(r1={"n1": 2, "n2": free}, r2={"n3": 4 if free else 1, "n4": 1}))
    job = asking("job", 2, None)
    (main,) = job.pod_sets
    assert main.needs is not None
    needs = replace(main.needs, together=(BLOCK, RACK), jointly=(BLOCK, RACK))
    main = replace(main, needs=needs)
    made.add(
        replace(
            job,
            pod_sets=tuple(
                replace(main, name=PodSetName(name), count=count)
                for name, count in (("a", 1), ("b", 2), ("c", 1))
            ),
        )
    )

    result = made.cycle()

    if not expected:
        assert not result.admitted
        return
    hosts = {place.node for place in result.admitted[0].places}
    assert hosts <= expected


def jointly(name: str, *counts: int) -> model.Workload:
    """A workload whose pod sets must all be in one rack."""
    job = asking(name, 1, None)
    (main,) = job.pod_sets
    assert main.needs is not None
    main = replace(main, needs=replace(main.needs, together=(RACK,), jointly=(RACK,)))
    pod_sets = [
        replace(main, name=PodSetName(chr(ord("a") + index)), count=count)
        for index, count in enumerate(counts)
    ]
    return replace(job, pod_sets=tuple(pod_sets))


def test_a_lost_host_is_replaced_in_the_rack_of_the_other_pod_sets():
    made = cluster(*nodes(r1={"n1": 1, "n2": 1}, r2={"n4": 4}))
    made.state.places.set_node(node("n4", "r2", 1))
    made.add(jointly("job", 1, 1))
    result = made.cycle()
    assert domains(result, pod_set="a") == {"n1": 1}
    made.state.places.set_node(node("n4", "r2", 4))
    made.state.places.drop_node("n1")

    assert made.state.replace_hosts(JOB, ["n1"], NOW_US) is False

    made.state.places.set_node(node("n3", "r1", 1))
    assert made.state.replace_hosts(JOB, ["n1"], NOW_US) is True
    assert made.state.domains(JOB)[PodSetName("a")].counts == ((("n3",), 1),)


ONE_SPARE = model.SpareNodes(RACK, 1)


@pytest.mark.parametrize(("pods", "is_admitted"), [(3, True), (4, False)])
def test_a_workload_leaves_the_spare_nodes_of_its_rack(pods: int, is_admitted: bool):
    rack = {f"n{index}": 1 for index in range(4)}
    made = cluster(*nodes(r1=rack, r2={"n9": 1}), spare=ONE_SPARE)
    made.add(asking("job", pods, ONE_RACK))

    result = made.cycle()

    if is_admitted:
        assert domains(result) == {"n0": 1, "n1": 1, "n2": 1}
    else:
        (refusal,) = waits(result)["job"].why.refusals  # type: ignore[union-attr]
        assert isinstance(refusal, causes.DomainsTooSmall)
        assert topology_words.shortage(refusal) == (
            "needs 4 pods in one rack of topology default; at most 3 fit into one; not counting 2"
            " spare nodes"
        )


def test_each_rack_keeps_its_spare_nodes_whoever_comes():
    made = cluster(*nodes(r1={"n1": 1, "n2": 1, "n3": 1}, r2={"n4": 1, "n5": 1}), spare=ONE_SPARE)
    hosts: set[str] = set()
    for index in range(4):
        made.add(asking(f"job-{index}", 1, ONE_RACK))
        result = made.cycle()
        if admitted(result):
            hosts |= domains(result, f"job-{index}").keys()

    assert hosts == {"n1", "n2", "n4"}


def test_whoever_loses_a_node_gets_a_spare_one():
    made = cluster(*nodes(r1={"n1": 1, "n2": 1, "n3": 1}), spare=ONE_SPARE)
    made.add(asking("job", 2, ONE_RACK))
    assert domains(made.cycle()) == {"n1": 1, "n2": 1}
    made.state.places.drop_node("n1")

    assert made.state.replace_hosts(JOB, ["n1"], NOW_US) is True

    assert made.state.domains(JOB)[PodSetName("main")].counts == ((("n2",), 1), (("n3",), 1))


def test_victims_leave_room_beside_the_spare_nodes():
    rack = {f"n{index}": 1 for index in range(4)}
    made = cluster(*nodes(r1=rack), spare=ONE_SPARE, within=LOWER)
    for index in range(3):
        made.add(asking(f"low-{index}", 1, ONE_RACK))
        made.cycle()
    made.add(asking("large", 4, ONE_RACK, priority=20))
    assert not evicted(made.cycle())
    made.add(asking("job", 3, ONE_RACK, priority=10))

    assert sorted(evicted(made.cycle())) == ["low-0", "low-1", "low-2"]


@pytest.mark.parametrize("level", [HOSTNAME, "other"])
def test_spare_nodes_of_no_wider_level_are_no_matter(level: str):
    made = cluster(*nodes(r1={"n1": 1, "n2": 1}), spare=model.SpareNodes(level, 1))
    made.add(asking("job", 2, ONE_RACK))

    assert admitted(made.cycle()) == ["job"]


@pytest.mark.parametrize("pods", [1, 2])
def test_a_label_that_is_no_level_is_told_where_its_values_differ(pods: int):
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}), levels=(BLOCK, HOSTNAME))
    job = asking("job", pods, None)
    (main,) = job.pod_sets
    assert main.needs is not None
    main = replace(main, needs=replace(main.needs, together=(RACK,)))
    made.add(replace(job, pod_sets=(main,)))

    result = made.cycle()

    if pods == 1:
        assert domains(result) == {"n1": 1}
    else:
        assert "no requested topology level: rack" in message(waits(result)["job"])


def test_a_label_that_is_no_level_is_left_out_where_all_nodes_have_one_value():
    made = cluster(*nodes(r1={"n1": 2, "n2": 1}), levels=(BLOCK, HOSTNAME))
    made.add(jointly("job", 2, 1))

    result = made.cycle()

    assert domains(result, pod_set="a") == {"n1": 2}


def test_pod_sets_that_must_be_together_are_not_admitted_to_flavors_of_two_topologies():
    made = cluster(
        node("n1", "r1", 1),
        node("m1", "r1", 1, pool="b"),
        flavors={"a": "default", "b": "default"},
    )
    made.add(jointly("job", 1, 1))

    assert not made.cycle().admitted


@pytest.mark.parametrize("is_selector", [True, False], ids=["selector", "affinity"])
def test_a_domain_has_the_labels_that_pods_ask_for(is_selector: bool):
    made = cluster(*nodes(r1={"n1": 1}, r2={"n2": 2}), levels=(BLOCK, RACK))
    job = asking("job", 1, ONE_RACK)
    (main,) = job.pod_sets
    needs = main.needs
    assert needs is not None
    if is_selector:
        main = replace(main, node_selector={RACK: "r2", "disk": "d"})
    else:
        terms = (NodeTerm((Requirement(RACK, "NotIn", ("r1",)), Requirement("disk", "Exists"))),)
        main = replace(main, needs=replace(needs, terms=terms))
    made.add(replace(job, pod_sets=(main,)))

    assert domains(made.cycle()) == {"b/r2": 1}


def test_domains_of_a_reservation_are_held_after_a_restart():
    held = PodDomains((HOSTNAME,), ((("n1",), 2),))
    assigned = model.PodSetAssignment(
        name=PodSetName("main"), count=2, flavors={GPU: FlavorName("a")}, usage={GPU: 2},
        domains=held,
    )  # fmt: skip
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 1}))
    queue = next(iter(made.state.forest.queues))
    reservation = model.Reservation(cluster_queue=queue, pod_sets=(assigned,))
    made.add(replace(asking("old", 2, ONE_RACK), reservation=reservation))
    made.add(asking("job", 1, ONE_RACK))

    assert domains(made.cycle()) == {"n2": 1}


def test_a_flavor_deleted_while_its_pod_set_also_has_a_topology_flavor():
    cpu = ResourceName("cpu")
    assigned = model.PodSetAssignment(
        name=PodSetName("main"), count=1, flavors={GPU: FlavorName("a"), cpu: FlavorName("b")},
        usage={GPU: 1, cpu: 1}, domains=PodDomains((HOSTNAME,), ((("n1",), 1),)),
    )  # fmt: skip
    made = cluster(*nodes(r1={"n1": 1}), flavors={"a": "default", "b": ""})
    queue = next(iter(made.state.forest.queues))
    reservation = model.Reservation(cluster_queue=queue, pod_sets=(assigned,))
    old = replace(asking("old", 1, ONE_RACK), reservation=reservation)
    made.add(old)
    made.state.drop_resource_flavor(FlavorName("b"))

    made.add(replace(old, priority=1))
    made.cycle()

    assert made.state.holds(old.key)


def test_a_pod_that_ended_keeps_its_host_until_the_workload_ends():
    made = cluster(*nodes(r1={"n1": 1}, r2={"n2": 1}))
    made.add(asking("first", 1, ONE_RACK))
    made.cycle()
    ledger = made.state.places.ledger
    made.state.places.set_pod(
        "p", BoundPod("n1", {GPU: 1, "pods": 1}, WorkloadKey("default", "first"), "main")
    )
    assert ledger.places(WorkloadKey("default", "first")) == ()

    made.state.places.drop_pod("p")

    (place,) = ledger.places(WorkloadKey("default", "first"))
    assert (place.node, place.count) == ("n1", 1)


def test_a_node_that_is_gone_moves_no_promise():
    made = cluster(*nodes(r1={"n1": 1}, r2={"n2": 1}))
    made.add(asking("first", 1, ONE_RACK))
    made.cycle()

    made.state.places.drop_node("n1")
    made.add(asking("job", 1, ONE_RACK))

    assert admitted(made.cycle()) == ["job"]


def reserved(name: str, count: int, hosts: Mapping[str, int], world_: World) -> model.Workload:
    """A workload that has quota and domains, as it is read after a restart."""
    held = PodDomains((HOSTNAME,), tuple(((host,), pods) for host, pods in hosts.items()))
    assigned = model.PodSetAssignment(
        name=PodSetName("main"), count=count, flavors={GPU: FlavorName("a")}, usage={GPU: count},
        domains=held,
    )  # fmt: skip
    queue = next(iter(world_.state.forest.queues))
    reservation = model.Reservation(cluster_queue=queue, pod_sets=(assigned,))
    return replace(asking(name, count, ONE_RACK), reservation=reservation)


def promised(made: World, name: str) -> dict[str, int]:
    key = WorkloadKey("default", name)
    return {place.node: place.count for place in made.state.places.ledger.places(key)}


def test_a_node_that_was_cordoned_for_a_moment_is_not_given_to_others():
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(asking("first", 2, ONE_RACK))
    made.cycle()
    made.state.places.set_node(replace(node("n1", "r1", 2), taints=(CORDONED,)))
    made.add(reserved("first", 2, {"n1": 2}, made))
    assert promised(made, "first") == {"n1": 2}
    made.state.places.set_node(node("n1", "r1", 2))

    made.add(asking("job", 1, ONE_RACK))

    assert not admitted(made.cycle())


def test_a_node_that_comes_back_is_promised_to_whom_it_was_assigned():
    made = cluster(*nodes(r2={"n2": 1}))
    made.add(reserved("first", 2, {"n1": 2}, made))
    made.cycle()
    assert promised(made, "first") == {}
    made.state.places.set_node(node("n1", "r1", 2))

    made.add(asking("job", 2, ONE_RACK))

    assert not admitted(made.cycle())
    assert promised(made, "first") == {"n1": 2}


def test_a_promise_in_a_rack_stays_on_its_nodes_when_its_workload_is_seen_again():
    made = cluster(*nodes(r1={"n1": 2, "n2": 2}), levels=(BLOCK, RACK))
    made.add(asking("first", 2, ONE_RACK))
    made.cycle()
    before, version = promised(made, "first"), made.state.places.ledger.version
    held = PodDomains((BLOCK, RACK), ((("b", "r1"), 2),))
    seen = reserved("first", 2, {}, made)
    assert seen.reservation is not None
    (assigned,) = seen.reservation.pod_sets
    reservation = replace(seen.reservation, pod_sets=(replace(assigned, domains=held),))

    for priority in (1, 2):
        made.add(replace(seen, reservation=reservation, priority=priority))

    assert promised(made, "first") == before == {"n1": 2}
    assert made.state.places.ledger.version == version


def test_a_topology_that_comes_late_brings_back_what_was_assigned():
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}), levels=())
    made.add(reserved("first", 2, {"n2": 2}, made))
    made.cycle()
    made.state.set_topology("default", LEVELS, NOW_US)

    made.add(asking("job", 2, ONE_RACK))

    assert domains(made.cycle()) == {"n1": 2}
    assert promised(made, "first") == {"n2": 2}


# -------------------------------------------------------------------- topologies that change

JOB = WorkloadKey("default", "job")
SLICES_IN_RACKS = (Layer(BLOCK, 4), Layer(RACK, 2))


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize(
    "request_",
    [
        ONE_RACK,
        TopologyRequest(preferred=RACK),
        TopologyRequest(preferred=BLOCK, layers=(Layer(RACK, 2),)),
        TopologyRequest(layers=SLICES_IN_RACKS),
    ],
    ids=["required", "preferred", "slices", "slices of slices"],
)
def test_a_lost_host_has_no_replacement_where_the_level_of_the_request_is_gone(
    request_: TopologyRequest, hosts: int
):
    room = {1: {"n1": 4}, 2: {"n1": 3, "n2": 1}}[hosts]
    made = cluster(*nodes(r1=room))
    made.add(asking("job", 4, request_))
    assert len(domains(made.cycle())) == hosts
    made.state.places.set_node(node("n3", "r1", 4))
    made.state.set_topology("default", (HOSTNAME,), NOW_US)
    made.cycle()

    made.state.places.drop_node("n1")

    assert made.state.take_shaken() == (JOB,)
    assert [away.host for away in made.state.away_hosts(JOB)] == ["n1"]
    assert made.state.replace_hosts(JOB, ["n1"], NOW_US) is False


def test_of_two_flavors_the_topology_that_is_left_says_where_pods_are():
    cpu = ResourceName("cpu")
    assigned = model.PodSetAssignment(
        name=PodSetName("main"), count=1, flavors={GPU: FlavorName("b"), cpu: FlavorName("a")},
        usage={GPU: 1, cpu: 1}, domains=PodDomains((HOSTNAME,), ((("n1",), 1),)),
    )  # fmt: skip
    made = cluster(node("n1", "r1", 1, pool="b"), flavors={"a": "gone", "b": "default"})
    made.state.places.set_node(node("n2", "r1", 1))
    reservation = model.Reservation(cluster_queue=ClusterQueueName("q"), pod_sets=(assigned,))

    made.add(replace(asking("job", 1, ONE_RACK), reservation=reservation))

    assert promised(made, "job") == {"n1": 1}
    assert made.state.away_hosts(JOB) == ()


def held_in_racks(name: str, racks: Mapping[str, int], made: World) -> model.Workload:
    """A workload that was admitted while racks were the narrowest level."""
    of_hosts = reserved(name, sum(racks.values()), {}, made)
    assert of_hosts.reservation is not None
    (assigned,) = of_hosts.reservation.pod_sets
    held = PodDomains((RACK,), tuple(((rack,), pods) for rack, pods in racks.items()))
    reservation = replace(of_hosts.reservation, pod_sets=(replace(assigned, domains=held),))
    return replace(of_hosts, reservation=reservation)


@pytest.mark.parametrize("host", ["n1", "r1"], ids=["other name", "name of a host"])
def test_an_assignment_to_racks_is_not_read_as_hosts(host: str):
    made = cluster(*nodes(r1={"n0": 2}, r2={host: 2}), levels=(RACK,))
    made.add(held_in_racks("job", {"r1": 2}, made))
    made.cycle()
    made.state.drop_topology("default")
    made.cycle()

    made.state.set_topology("default", (RACK, HOSTNAME), NOW_US)
    made.cycle()

    assert promised(made, "job") == {"n0": 2}
    assert made.state.away_hosts(JOB) == ()
    assert made.state.replace_hosts(JOB, ["r1"], NOW_US) is True
    assert made.state.domains(JOB)[PodSetName("main")] == PodDomains((RACK,), ((("r1",), 2),))


def test_an_assignment_to_hosts_is_not_read_as_racks():
    made = cluster(*nodes(r1={"n1": 1, "n2": 1}, n1={"n3": 2}), levels=(RACK, HOSTNAME))
    made.add(reserved("job", 2, {"n1": 1, "n2": 1}, made))
    made.cycle()

    made.state.set_topology("default", (RACK,), NOW_US)
    made.cycle()
    assert promised(made, "job") == {"n1": 1, "n2": 1}
    made.state.places.drop_node("n2")

    assert [away.host for away in made.state.away_hosts(JOB)] == ["n2"]
    assert made.state.replace_hosts(JOB, ["n2"], NOW_US) is False


def test_room_on_a_host_stays_promised_once_the_flavor_selects_other_nodes():
    made = cluster(
        node("n1", "r1", 2),
        node("n2", "r1", 2, pool="b"),
        flavors={"a": "default", "c": "default"},
    )
    made.add(reserved("job", 1, {"n1": 1}, made))
    made.cycle()
    moved = {"a": "b", "c": "a"}
    for name, pool in moved.items():
        flavor = model.ResourceFlavor(
            name=FlavorName(name), node_labels={"pool": pool}, topology="default"
        )
        made.state.set_resource_flavor(flavor, NOW_US)
    made.cycle()

    assert promised(made, "job") == {"n1": 1}
    assert made.state.away_hosts(JOB) == ()

    made.add(asking("other", 2, TopologyRequest(required=HOSTNAME), created=1))
    assert domains(made.cycle(), "other") == {"n2": 2}
    made.add(asking("third", 2, TopologyRequest(required=HOSTNAME), created=2))
    assert not admitted(made.cycle())


@pytest.mark.parametrize(("is_for_a_time", "expected"), [(True, "n2"), (False, "n1")])
def test_a_host_whose_taint_is_tolerated_for_a_time_is_assigned_to_nobody(
    is_for_a_time: bool, expected: str
):
    tainted = replace(node("n1", "r1", 1), taints=(model.Taint(key="t", effect="NoExecute"),))
    made = cluster(tainted, node("n2", "r1", 2))
    toleration = model.Toleration(key="t", operator="Exists", is_for_a_time=is_for_a_time)
    job = asking("job", 1, ONE_RACK)
    (main,) = job.pod_sets
    made.add(replace(job, pod_sets=(replace(main, tolerations=(toleration,)),)))

    assert domains(made.cycle()) == {expected: 1}


ON_HOST = TopologyRequest(required=HOSTNAME)
BY_RACK = (RACK, HOSTNAME)


@pytest.mark.parametrize(
    ("before", "first", "after", "others_", "expected"),
    [
        pytest.param(BY_RACK, (1, ONE_RACK), (BLOCK, HOSTNAME), (2, 2), ["second"], id="renamed"),
        pytest.param(BY_RACK, (1, ON_HOST), (HOSTNAME,), (2, 2), ["second"], id="removed"),
        pytest.param(BY_RACK, (1, ON_HOST), LEVELS, (2, 1), ["second", "third"], id="added above"),
        pytest.param(
            (HOSTNAME,), (3, TopologyRequest(preferred=HOSTNAME)), BY_RACK, (1, 1), ["second"],
            id="added in between of pods that are together",
        ),
    ],
)  # fmt: skip
def test_levels_change_under_admitted_workloads(
    before: tuple[str, ...],
    first: tuple[int, TopologyRequest],
    after: tuple[str, ...],
    others_: tuple[int, int],
    expected: list[str],
):
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}), levels=before)
    made.add(asking("first", *first))
    made.cycle()
    held = promised(made, "first")
    assert sum(held.values()) == first[0]

    made.state.set_topology("default", after, NOW_US)
    made.clock += 60
    second, third = others_
    made.add(asking("second", second, ON_HOST, created=1))
    made.add(asking("third", third, ON_HOST, created=2))

    assert [*admitted(made.cycle()), *admitted(made.cycle())] == expected
    assert promised(made, "first") == held
    assert made.state.take_shaken() == ()


@pytest.mark.parametrize(
    ("before", "after", "is_first_in"),
    [((HOSTNAME,), BY_RACK, False), (BY_RACK, (HOSTNAME,), True)],
    ids=["comes", "goes"],
)
def test_who_asks_for_a_level_waits_until_it_is_there(
    before: tuple[str, ...], after: tuple[str, ...], is_first_in: bool
):
    made = cluster(*nodes(r1={"n1": 2}), levels=before)
    made.add(asking("first", 1, ONE_RACK))
    assert bool(admitted(made.cycle())) is is_first_in

    made.state.set_topology("default", after, NOW_US)
    made.clock += 60
    made.add(asking("second", 1, ONE_RACK, created=1))
    result = made.cycle()

    assert made.state.holds(WorkloadKey("default", "first"))
    assert ("second" in waits(result)) is is_first_in


def test_a_node_without_the_label_of_a_level_takes_nobody_until_it_has_one():
    zone = "zone"

    def in_zone(name: str, rack: str) -> Node:
        here = node(name, rack, 2)
        return replace(here, labels={**here.labels, zone: "z1"})

    made = cluster(in_zone("n1", "r1"), node("n2", "r2", 2), levels=BY_RACK)
    made.state.set_topology("default", (zone, *BY_RACK), NOW_US)
    made.add(asking("first", 2, ON_HOST), asking("second", 1, ON_HOST, created=1))
    assert [*admitted(made.cycle()), *admitted(made.cycle())] == ["first"]

    made.state.places.set_node(in_zone("n2", "r2"))
    made.clock += 60

    assert domains(made.cycle(), "second") == {"n2": 1}


def test_a_flavor_that_comes_back_counts_what_it_held():
    flavor = model.ResourceFlavor(
        name=FlavorName("a"), node_labels={"pool": "a"}, topology="default"
    )
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(asking("first", 2, ONE_RACK))
    made.cycle()
    made.state.drop_resource_flavor(flavor.name)
    made.add(asking("second", 1, ONE_RACK, created=1))
    assert not admitted(made.cycle())

    made.state.set_resource_flavor(flavor, NOW_US)
    made.clock += 60

    assert not admitted(made.cycle())
    assert promised(made, "first") == {"n1": 2}
    made.finish("first")
    made.clock += 60
    assert admitted(made.cycle()) == ["second"]


def test_who_ends_while_the_topology_is_gone_leaves_nothing_behind():
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(asking("first", 2, ONE_RACK))
    made.cycle()
    made.state.drop_topology("default")
    made.cycle()
    made.finish("first")

    made.state.set_topology("default", LEVELS, NOW_US)
    made.clock += 60
    made.add(asking("second", 2, ONE_RACK))

    assert domains(made.cycle(), "second") == {"n1": 2}


def test_a_flavor_that_takes_the_nodes_of_another_counts_what_is_promised_there():
    made = cluster(
        node("n1", "r1", 2),
        node("n2", "r1", 2, pool="b"),
        flavors={"a": "default", "b": "default"},
    )
    made.add(asking("first", 1, ON_HOST))
    made.cycle()
    assert promised(made, "first") == {"n1": 1}

    wide = model.ResourceFlavor(name=FlavorName("b"), node_labels={BLOCK: "b"}, topology="default")
    made.state.set_resource_flavor(wide, NOW_US)
    for created, (name, count) in enumerate([("second", 2), ("third", 1), ("fourth", 1)]):
        made.add(asking(name, count, ON_HOST, created=created + 1))

    assert [name for _ in range(3) for name in admitted(made.cycle())] == ["second", "third"]


def bound(host: str, gpus: int = 1, *, is_ending: bool = False) -> BoundPod:
    """A pod of others."""
    return BoundPod(host, {GPU: gpus, "pods": 1}, is_ending=is_ending)


def test_who_waits_for_a_domain_is_tried_again_when_a_pod_of_others_ends_and_not_before():
    made = cluster(*nodes(r1={"n1": 2}))
    made.state.places.set_pod("other", bound("n1"))
    made.add(asking("job", 2, ONE_RACK))
    assert admitted(made.cycle()) == []
    made.state.places.set_pod("other", bound("n1", is_ending=True))
    assert admitted(made.cycle()) == []

    made.state.places.drop_pod("other")

    assert domains(made.cycle()) == {"n1": 2}


@pytest.mark.parametrize("lacks", ["taint", "label", "selector"])
def test_who_waits_for_a_domain_is_tried_again_when_a_node_fits(lacks: str):
    good = node("n1", "r1", 2)
    good = replace(good, labels={**good.labels, "disk": "fast"})
    bad = {
        "taint": replace(good, taints=(CORDONED,)),
        "label": replace(good, labels={**good.labels, RACK: ""}),
        "selector": node("n1", "r1", 2),
    }[lacks]
    if lacks == "label":
        bad = replace(bad, labels={key: value for key, value in bad.labels.items() if value})
    made = cluster(bad)
    job = asking("job", 2, ONE_RACK)
    (main,) = job.pod_sets
    made.add(replace(job, pod_sets=(replace(main, node_selector={"disk": "fast"}),)))
    assert admitted(made.cycle()) == []

    made.state.places.set_node(good)

    assert domains(made.cycle()) == {"n1": 2}


def test_who_waits_for_a_level_is_tried_again_when_the_topology_has_it():
    made = cluster(*nodes(r1={"n1": 2}), levels=(BLOCK, HOSTNAME))
    made.add(asking("job", 2, ONE_RACK))
    assert admitted(made.cycle()) == []

    made.state.set_topology("default", LEVELS, NOW_US)

    assert domains(made.cycle()) == {"n1": 2}


@pytest.mark.parametrize("levels", [(BLOCK, HOSTNAME), ("row", HOSTNAME), (RACK, HOSTNAME)])
def test_what_is_assigned_is_held_when_a_level_goes_or_gets_another_name(levels: tuple[str, ...]):
    found = [
        replace(one, labels={**one.labels, "row": "x"}) for one in nodes(r1={"n1": 2, "n2": 2})
    ]
    made = cluster(*found)
    made.add(asking("job", 3, ONE_RACK))
    made.cycle()

    made.state.set_topology("default", levels, NOW_US)
    made.add(asking("large", 2, ANYWHERE, created=1), asking("small", 1, ANYWHERE, created=2))

    assert admitted(made.cycle()) == []
    assert sum(domains(made.cycle(), "small").values()) == 1


def test_a_workload_that_ends_while_its_topology_is_gone_leaves_nothing():
    made = cluster(*nodes(r1={"n1": 2}))
    made.add(asking("old", 2, ONE_RACK))
    made.cycle()
    made.state.drop_topology("default")
    made.finish("old")
    made.state.set_topology("default", LEVELS, NOW_US)
    made.add(asking("job", 2, ONE_RACK, created=1))

    assert domains(made.cycle()) == {"n1": 2}


def test_flavors_of_the_same_nodes_count_a_host_once():
    made = cluster(
        *[replace(one, labels={**one.labels, "pool": "a"}) for one in nodes(r1={"n1": 2})],
        flavors={"a": "default", "b": "default"},
    )
    second = model.ResourceFlavor(
        name=FlavorName("b"), node_labels={RACK: "r1"}, topology="default"
    )
    made.state.set_resource_flavor(second, NOW_US)
    made.add(asking("first", 2, ONE_RACK), asking("job", 1, ONE_RACK, created=1))
    assert admitted(made.cycle()) == ["first"]
    assert admitted(made.cycle()) == []

    made.finish("first")

    assert domains(made.cycle()) == {"n1": 1}


def test_a_host_with_less_than_its_pods_use_takes_nothing_from_the_others_of_its_rack():
    made = cluster(*nodes(r1={"n1": 4, "n2": 2}), levels=(BLOCK, RACK, HOSTNAME))
    made.state.places.set_pod("other", bound("n1", 4))
    made.state.places.set_node(node("n1", "r1", 1))
    made.add(asking("job", 2, ONE_RACK))

    assert domains(made.cycle()) == {"n2": 2}


def test_pods_that_request_nothing_get_a_domain():
    main = model.PodSet(
        name=PodSetName("main"), count=2, requests={GPU: 0}, needs=PodNeeds(), topology=ONE_RACK
    )
    made = cluster(*nodes(r1={"n1": 1}))
    made.add(waiting("job", "q", sets=(main,)))

    assert domains(made.cycle()) == {"n1": 2}


def test_for_a_preferred_rack_all_are_preempted_where_no_rack_has_room_for_all():
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}), quota=4, within=LOWER)
    for index in range(4):
        made.add(asking(f"low-{index}", 1, ANYWHERE, created=index))
        made.cycle()
    made.add(asking("job", 4, TopologyRequest(preferred=RACK), priority=9, created=9))

    assert len(evicted(made.cycle())) == 4
    made.finish(*(f"low-{index}" for index in range(4)))
    assert domains(made.cycle()) == {"n1": 2, "n2": 2}


def test_a_domain_is_taken_back_from_who_borrows_though_quota_is_left():
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 1}), quota=4, cohort="both", reclaim=ANY)
    made.state.set_cluster_queue(
        cluster_queue("other", groups=[group({"a": {GPU: (0,)}})], cohort="both"), NOW_US
    )
    key = LocalQueueKey("default", "other")
    made.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName("other")), NOW_US
    )
    borrower = replace(asking("borrower", 2, ONE_RACK), queue=key)
    made.add(borrower)
    assert admitted(made.cycle()) == ["borrower"]
    made.add(asking("job", 2, ONE_RACK, created=1))

    assert evicted(made.cycle()) == {"borrower": "InCohortReclamation"}
    made.finish("borrower")
    assert domains(made.cycle()) == {"n1": 2}


def pod_set(name: str, count: int, request: TopologyRequest, gpus: int = 1) -> model.PodSet:
    needs = PodNeeds(requests=((GPU, gpus),), devices=(GPU,)) if gpus else PodNeeds()
    return model.PodSet(
        name=PodSetName(name), count=count, requests={GPU: gpus} if gpus else {}, needs=needs,
        topology=request, group=request.group,
    )  # fmt: skip


def charged_anew(made: World, *sets: model.PodSet) -> WorkloadKey:
    """A workload with quota that was charged for pods which run, without domains."""
    assignments = tuple(
        model.PodSetAssignment(
            name=one.name,
            count=one.count,
            flavors={name: FlavorName("a") for name in one.requests},
            usage={name: one.count * amount for name, amount in one.requests.items()},
        )
        for one in sets
    )
    reservation = model.Reservation(cluster_queue=ClusterQueueName("q"), pod_sets=assignments)
    job = replace(asking("job", 1, ANYWHERE), pod_sets=sets, reservation=reservation)
    made.add(job)
    return job.workload_key


def told(made: World, key: WorkloadKey) -> dict[str, dict[str, int]]:
    """Hosts and their pods, by pod set."""
    workload = made.state.workload(key)
    assert workload is not None
    assert workload.reservation is not None
    return {
        one.name: {values[-1]: count for values, count in one.domains.counts}
        for one in workload.reservation.pod_sets
        if one.domains is not None
    }


@pytest.mark.parametrize(("hosts", "is_assigned"), [(("n1", "n2"), True), (("n1",), False)])
def test_pod_sets_that_get_domains_anew_are_beside_each_other(
    hosts: tuple[str, ...], is_assigned: bool
):
    made = cluster(*nodes(r1=dict.fromkeys(hosts, 2)))
    key = charged_anew(made, pod_set("first", 1, ANYWHERE, 2), pod_set("second", 1, ANYWHERE, 2))
    before = {name: dict(made.state.places.ledger.free(name)) for name in hosts}

    assert made.state.assign_domains(key, {}, NOW_US) is is_assigned

    assert told(made, key) == ({"first": {"n1": 1}, "second": {"n2": 1}} if is_assigned else {})
    if not is_assigned:
        assert {name: dict(made.state.places.ledger.free(name)) for name in hosts} == before


@pytest.mark.parametrize("gpus", [1, 0], ids=["a leader with a GPU", "a leader without"])
def test_a_leader_that_gets_a_domain_anew_is_in_the_rack_of_its_workers(gpus: int):
    made = cluster(*nodes(r1={"n1": 1}, r2={"n2": 2, "n3": 1}))
    request = TopologyRequest(required=RACK, group="g")
    workers = pod_set("workers", 2, request)
    key = charged_anew(made, pod_set("leader", 1, request, gpus), workers)

    assert made.state.assign_domains(key, {}, NOW_US)

    assert {**told(made, key)["workers"], **told(made, key)["leader"]}.keys() <= {"n2", "n3"}


def test_pods_that_are_told_a_host_and_are_on_none_yet_hold_it():
    made = cluster(*nodes(r1={"n1": 2, "n2": 2}))
    key = charged_anew(made, pod_set("main", 3, ANYWHERE))
    pods = {"main": [({HOSTNAME: "n1"}, ""), ({HOSTNAME: "n1"}, "")]}

    assert made.state.assign_domains(key, pods, NOW_US)

    assert told(made, key) == {"main": {"n1": 2, "n2": 1}}


def test_pods_that_are_in_no_domain_are_assigned_none():
    made = cluster(*nodes(r1={"n1": 2}))
    key = charged_anew(made, pod_set("main", 2, ANYWHERE))

    assert made.state.assign_domains(key, {"main": [({}, "x"), ({}, "")]}, NOW_US) is None
    assert told(made, key) == {}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (TopologyRequest(required=BLOCK), []),
        (TopologyRequest(layers=(Layer(BLOCK, 2),)), ["job"]),
    ],
)
def test_the_narrower_of_what_is_required_counts(request_: TopologyRequest, expected: list[str]):
    made = cluster(*nodes(r1={"n1": 2}, r2={"n2": 2}))
    job = asking("job", 4 if request_.required else 2, request_)
    (main,) = job.pod_sets
    assert main.needs is not None
    made.add(replace(job, pod_sets=(replace(main, needs=replace(main.needs, together=(RACK,))),)))

    assert admitted(made.cycle()) == expected


def test_who_took_victims_in_a_flavor_waits_in_its_domains_until_their_pods_have_left():
    """Their quota is free before the room of their domain is."""
    made = cluster(
        node("n1", "r1", 4),
        node("n2", "r2", 4, pool="b"),
        flavors={"a": "default", "b": "default"},
        quota=4,
        within=LOWER,
        scan=("MayStopSearch", "MayStopSearch"),
    )
    made.add(asking("lower", 4, ONE_RACK))
    assert domains(made.cycle(), "lower") == {"n1": 4}
    made.add(asking("high", 4, ONE_RACK, priority=9))
    assert list(evicted(made.cycle())) == ["lower"]
    made.finish("lower")
    key = WorkloadKey("default", "lower")
    made.state.places.set_pod(
        "p", BoundPod("n1", {GPU: 4, "pods": 4}, key, "main", is_leaving=True)
    )

    result = made.cycle()
    assert admitted(result) == []
    assert waits(result)["high"].reason == "TopologyPlacementFailed"
    made.state.places.set_node(node("n3", "r1", 0))
    assert admitted(made.cycle()) == []

    made.state.places.drop_pod("p")
    assert domains(made.cycle(), "high") == {"n1": 4}
