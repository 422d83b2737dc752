"""Plenty of another resource, in a group of its own, changes no decision about the others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import FlavorName, ResourceName, WorkloadKey
from admission.scheduling import model
from admission.scheduling.places.model import BoundPod
from tests.builders.scheduling import ANY, LOWER, NEVER, NOW_US, cluster_queue, group, waiting
from tests.scheduling.test_nodes_decide import GPU, A, Cluster, asking, node
from tests.scheduling.worlds import admitted, evicted, world

PLENTY = 1_000
ANYWHERE = "any"
ZONES = ("za", "zb")


class Drawn(NamedTuple):
    """A workload.

    Attributes:
        gpus: of a pod.
        pods: how many.
        priority: its own.
        queue: the queue that it is in.
        has_more: its pods ask for the other resource, too.
    """

    gpus: int
    pods: int
    priority: int
    queue: str
    has_more: bool


WORKLOADS = st.lists(
    st.builds(
        Drawn,
        st.integers(1, 4),
        st.integers(1, 2),
        st.integers(0, 2),
        st.sampled_from(("q", "other")),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3)
QUOTAS = st.tuples(st.integers(0, 6), st.integers(0, 6))
ENDINGS = st.lists(st.integers(0, 5), max_size=4)


def workload(index: int, drawn: Drawn, more: ResourceName | None) -> model.Workload:
    plain = asking(
        f"w{index}", drawn.gpus, drawn.pods, queue=drawn.queue, priority=drawn.priority,
        created=index,
    )  # fmt: skip
    if more is None or not drawn.has_more:
        return plain
    (pods,) = plain.pod_sets
    assert pods.needs is not None
    needs = replace(pods.needs, requests=tuple(sorted((*pods.needs.requests, (more, 1)))))
    pods = replace(pods, requests={**pods.requests, more: 1}, needs=needs)
    return waiting(f"w{index}", drawn.queue, sets=(pods,), priority=drawn.priority, created=index)


def made(
    sizes: list[int], quotas: tuple[int, int], more: ResourceName | None, *, is_zoned: bool
) -> Cluster:
    """A cohort of two queues; another resource is in a flavor of all nodes, or of each zone.

    Nobody is preempted in zones: who of which zone leaves depends on the order of flavors.
    """
    names = ZONES if is_zoned else (ANYWHERE,)

    def groups(quota: int) -> list[model.ResourceGroup]:
        beside = [] if more is None else [group({name: {more: (PLENTY,)} for name in names})]
        return [group({"a": {GPU: (quota,)}}), *beside]

    within, reclaim = (NEVER, NEVER) if is_zoned else (LOWER, ANY)
    queues = (
        cluster_queue(name, groups=groups(quota), cohort="c", within=within, reclaim=reclaim)
        for name, quota in zip(("q", "other"), quotas, strict=True)
    )
    flavors = (
        model.ResourceFlavor(name=A, node_labels={"flavor": "a"}),
        model.ResourceFlavor(name=FlavorName(ANYWHERE)),
        *(model.ResourceFlavor(name=FlavorName(n), node_labels={"zone": n}) for n in ZONES),
    )
    hosts = {}
    for index, size in enumerate(sizes):
        host = node(f"n{index}", size, labels={"zone": ZONES[index % 2]})
        amounts: Mapping[str, int] = {**host.amounts, **({} if more is None else {more: PLENTY})}
        hosts[host.name] = replace(host, amounts=amounts)
    return Cluster(world(*flavors, *queues), hosts)


def history(
    sizes: list[int],
    quotas: tuple[int, int],
    drawn: list[Drawn],
    endings: list[int],
    more: ResourceName | None,
    *,
    is_zoned: bool = False,
) -> list[tuple[list[str], list[str]]]:
    """Who is admitted and preempted, in order, while workloads come and end.

    As many cycles follow each event as all heads need: equal ones are tried in one of them.
    """
    cluster, seen = made(sizes, quotas, more, is_zoned=is_zoned), []
    workloads = [workload(index, each, more) for index, each in enumerate(drawn)]
    running: list[str] = []
    for step in range(len(workloads) + len(endings)):
        if step < len(workloads):
            cluster.world.add(workloads[step])
        elif running:
            ended = running.pop(endings[step - len(workloads)] % len(running))
            cluster.finish(ended)
        idle = 0
        while idle <= len(workloads):
            result = cluster.world.cycle()
            for name in evicted(result):
                cluster.finish(name)
                running.remove(name)
                former = model.Eviction(reason="Preempted", since_us=NOW_US)
                cluster.world.add(replace(workloads[int(name[1:])], eviction=former))
            for admit in result.admitted:
                start(cluster, admit.workload.name, drawn[int(admit.workload.name[1:])].gpus)
                running.append(admit.workload.name)
            outcome = admitted(result), sorted(evicted(result))
            idle = 0 if any(outcome) else idle + 1
            seen += [outcome] if any(outcome) else []
    return seen


def start(cluster: Cluster, name: str, gpus: int) -> None:
    """Bind the pods of a workload to the places that it is promised."""
    for place in cluster.places.ledger.places(WorkloadKey("default", name)):
        for number in range(place.count):
            key, requests = WorkloadKey("default", name), {GPU: gpus, "pods": 1}
            pod = BoundPod(place.node, requests, key, "main")
            cluster.places.set_pod(f"{name}-{place.node}-{number}", pod)


@given(
    sizes=SIZES,
    quotas=QUOTAS,
    drawn=WORKLOADS,
    endings=ENDINGS,
    more=st.sampled_from(("cpu", "memory")),
)
def test_plenty_of_another_resource_in_a_flavor_of_its_own_changes_no_decision(
    sizes: list[int],
    quotas: tuple[int, int],
    drawn: list[Drawn],
    endings: list[int],
    more: str,
) -> None:
    """It is visited before GPUs or after them: Kueue's order goes by the hash of the name."""
    alone = history(sizes, quotas, drawn, endings, None)
    beside = history(sizes, quotas, drawn, endings, ResourceName(more))
    assert beside == alone


@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=3),
    quotas=QUOTAS,
    drawn=WORKLOADS,
    endings=ENDINGS,
    more=st.sampled_from(("cpu", "memory")),
)
def test_plenty_in_a_flavor_of_each_zone_changes_nothing_for_pods_of_a_gpu(
    sizes: list[int],
    quotas: tuple[int, int],
    drawn: list[Drawn],
    endings: list[int],
    more: str,
) -> None:
    """The flavor that is tried first may be that of a zone whose nodes are full.

    Each zone has a node: nodes of any size may come to a flavor that has none.
    """
    single = [each._replace(pods=1, gpus=1) for each in drawn]  # so every node is as good
    alone = history(sizes, quotas, single, endings, None, is_zoned=True)
    zoned = history(sizes, quotas, single, endings, ResourceName(more), is_zoned=True)
    assert [names for names, _ in zoned] == [names for names, _ in alone]
