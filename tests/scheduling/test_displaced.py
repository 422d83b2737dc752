"""Who leaves so that an admitted workload gets nodes again in place of those that it lost."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import ClusterQueueName, LocalQueueKey, PodSetName, WorkloadKey
from admission.scheduling import model
from admission.scheduling.decisions import CycleResult
from admission.scheduling.displaced import AGAIN_US
from admission.scheduling.model import Enforcement
from admission.scheduling.places.model import Place
from admission.scheduling.preemption import targets
from admission.scheduling.preemption.history import MOST
from tests.builders.scheduling import (
    ANY,
    LOWER,
    NEVER,
    NEWER,
    NOW_US,
    SECOND_US,
    cluster_queue,
    group,
)
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node
from tests.scheduling.worlds import admitted
from tests.scheduling.worlds import evicted as evicted_by_reason


def evicted(result: CycleResult) -> list[str]:
    return sorted(evicted_by_reason(result))


def hosts_of(made: Cluster, name: str) -> list[str]:
    pods = made.places.ledger._pods.by_key.values()
    return sorted(pod.node for pod in pods if pod.workload == ("default", name))


def fleet(*nodes: str, gpus: int = 1, reclaim: Any = ANY, **fields: Any) -> Cluster:
    """Nodes of the queue ``q`` with as much quota, and ``borrower``, which uses what is lent."""
    made = cluster(
        *(node(name, gpus) for name in nodes),
        quota={"a": gpus * len(nodes)},
        cohort="all",
        reclaim=reclaim,
        **fields,
    )
    add_queue(made, "borrower")
    return made


def add_queue(made: Cluster, name: str, nominal: int = 0, **fields: Any) -> None:
    groups = [group({"a": {GPU: (nominal,)}})]
    queue = cluster_queue(name, cohort="all", groups=groups, **fields)
    made.world.state.set_cluster_queue(queue, NOW_US)
    key = LocalQueueKey("default", name)
    made.world.state.set_local_queue(
        model.LocalQueue(key=key, cluster_queue=ClusterQueueName(name)), NOW_US
    )


def run(made: Cluster, name: str, gpus: int = 1, count: int = 1, **fields: Any) -> None:
    """A workload that is admitted, with pods on nodes that are free."""
    made.world.add(asking(name, gpus, count, **fields))
    result = made.cycle()
    assert admitted(result) == [name]
    if not result.admitted[0].places:
        bound = {pod.node for pod in made.places.ledger._pods.by_key.values()}
        made.bind(name, Place(PodSetName("main"), min(made.places.ledger.nodes.keys() - bound), 1))


def lose(made: Cluster, name: str) -> None:
    """A node that is gone with its pods."""
    ledger = made.places.ledger
    for uid in [uid for uid, pod in ledger._pods.by_key.items() if pod.node == name]:
        made.places.drop_pod(uid)
    made.places.drop_node(name)


def told_to_leave(made: Cluster, *names: str) -> None:
    """Their eviction is written."""
    for name in names:
        workload: Any = made.world.state.workload(WorkloadKey("default", name))
        made.world.add(
            replace(workload, eviction=model.Eviction(reason="Preempted", since_us=NOW_US))
        )


def displaced(**fields: Any) -> Cluster:
    """``own`` has lost its node; a borrower runs on the other one."""
    made = fleet("n1", "n2", **fields)
    run(made, "own")
    run(made, "borrows", queue="borrower")
    lose(made, *hosts_of(made, "own"))
    return made


def has_work(made: Cluster, after: int = 0) -> bool:
    return made.world.state.has_work(NOW_US + made.world.clock * SECOND_US + after)


def test_a_borrower_leaves_for_admitted_work_that_lost_its_node_though_nobody_waits():
    made = displaced()

    assert has_work(made)
    result = made.cycle()

    (eviction,) = result.evicted
    assert (eviction.workload.name, eviction.preemptor.name) == ("borrows", "own")
    assert (eviction.cluster_queue, eviction.preemptor_cluster_queue) == ("borrower", "q")
    assert eviction.why.cause == "InCohortReclamation"
    assert eviction.preempted_by.by("default/own") == 1
    assert (result.admitted, result.waiting) == ((), ())
    assert not has_work(made)


def test_it_gets_the_room_of_its_victim_before_whoever_waits():
    made = displaced()
    made.world.add(replace(asking("urgent", 1, queue="borrower"), priority=9))

    result = made.cycle()
    assert evicted(result) == ["borrows"]
    assert admitted(result) == []
    made.finish("borrows")

    assert admitted(made.cycle()) == []
    (place,) = made.places.ledger.places(WorkloadKey("default", "own"))
    assert made.places.ledger.nodes.keys() == {place.node}


def test_nobody_leaves_while_room_is_free():
    made = fleet("n1", "n2", "n3")
    run(made, "own")
    run(made, "borrows", queue="borrower")

    lose(made, *hosts_of(made, "own"))

    assert not has_work(made)
    assert made.cycle().evicted == ()


@pytest.mark.parametrize(
    "case",
    [
        {"reclaim": NEVER},
        {"reclaim": LOWER},
        {"placement": Enforcement.TELL},
        {"placement": Enforcement.OFF},
    ],
    ids=[
        "takes nothing back",
        "takes back from lower only",
        "nodes only tell",
        "nodes say nothing",
    ],
)
def test_nobody_leaves_where_it_could_take_nobody_if_it_waited(case: Any):
    assert displaced(**case).cycle().evicted == ()


def test_nobody_leaves_for_what_never_preempts():
    made = fleet("n1", "n2")
    made.world.add(replace(asking("own", 1), never_preempts=True))
    made.cycle()
    run(made, "borrows", queue="borrower")

    lose(made, *hosts_of(made, "own"))

    assert made.cycle().evicted == ()


def test_what_does_not_borrow_stays():
    made = fleet("n1", "n2")
    add_queue(made, "peer", 1)
    run(made, "own")
    run(made, "peers", queue="peer")

    lose(made, *hosts_of(made, "own"))

    assert made.cycle().evicted == ()


def test_lower_work_of_its_own_queue_leaves_where_that_is_its_policy():
    made = fleet("n1", "n2", within=LOWER)
    made.world.add(replace(asking("own", 1), priority=9))
    made.cycle()
    run(made, "lower")

    lose(made, *hosts_of(made, "own"))

    assert evicted(made.cycle()) == ["lower"]


@pytest.mark.parametrize("state", ["evicted", "its pod ends", "its pod ends without quota"])
def test_nobody_else_leaves_while_a_victim_ends(state: str):
    made = fleet("n1", "n2", "n3")
    run(made, "own")
    run(made, "borrows-1", queue="borrower")
    run(made, "borrows-2", queue="borrower")
    lose(made, *hosts_of(made, "own"))
    (victim,) = evicted(made.cycle())

    told_to_leave(made, victim)
    ((uid, pod),) = [
        (uid, pod)
        for uid, pod in made.places.ledger._pods.by_key.items()
        if pod.workload == ("default", victim)
    ]
    if state != "evicted":
        made.places.set_pod(uid, replace(pod, is_leaving=True, is_ending=True))
    if state == "its pod ends without quota":
        made.world.finish(victim)
    made.world.clock += AGAIN_US // SECOND_US

    assert made.cycle().evicted == ()
    made.places.drop_pod(uid)
    made.world.finish(victim)
    assert made.cycle().evicted == ()
    (place,) = made.places.ledger.places(WorkloadKey("default", "own"))
    assert place.node == pod.node


def test_as_many_leave_as_there_are_pods_without_a_node():
    made = fleet("n1", "n2", "n3", "n4", "n5")
    run(made, "own", count=2)
    hosts = hosts_of(made, "own")
    for index in range(3):
        run(made, f"borrows-{index}", queue="borrower")

    for host in hosts:
        lose(made, host)

    assert len(evicted(made.cycle())) == 2


def test_only_the_pods_that_lost_their_node_are_placed_anew():
    made = fleet("n1", "n2", "n3", gpus=2)
    run(made, "own", gpus=2, count=2)
    hosts = hosts_of(made, "own")
    run(made, "borrows", gpus=2, queue="borrower")

    lose(made, hosts[0])

    assert evicted(made.cycle()) == ["borrows"]


def test_two_that_lost_their_nodes_take_one_victim_each():
    made = fleet("n1", "n2", "n3", "n4", "n5")
    for name in ("own-1", "own-2"):
        run(made, name)
    hosts = hosts_of(made, "own-1") + hosts_of(made, "own-2")
    for index in range(3):
        run(made, f"borrows-{index}", queue="borrower")

    for host in hosts:
        lose(made, host)

    result = made.cycle()
    assert len({eviction.workload for eviction in result.evicted}) == 2
    assert {eviction.preemptor.name for eviction in result.evicted} == {"own-1", "own-2"}


def test_the_oldest_comes_first_where_there_is_one_victim_only():
    made = fleet("n1", "n2", "n3")
    for name in ("own-1", "own-2"):
        run(made, name)
    run(made, "borrows", queue="borrower")
    lose(made, *hosts_of(made, "own-2"))
    made.world.state.has_work(NOW_US)
    lose(made, *hosts_of(made, "own-1"))

    (eviction,) = made.cycle().evicted

    assert eviction.preemptor.name == "own-2"


def test_a_head_of_the_same_cycle_takes_another_victim():
    made = fleet("n1", "n2", "n3")
    run(made, "own")
    for index in range(2):
        run(made, f"borrows-{index}", queue="borrower")
    lose(made, *hosts_of(made, "own"))
    made.world.add(asking("head", 1))

    result = made.cycle()

    assert sorted(evicted(result)) == ["borrows-0", "borrows-1"]
    assert {eviction.preemptor.name for eviction in result.evicted} == {"own", "head"}


def test_a_pair_preempts_only_so_often():
    made = displaced()
    workload: Any = made.world.state.workload(WorkloadKey("default", "borrows"))
    past = model.PastPreemptions((("default/own", MOST),))
    made.world.add(replace(workload, preempted_by=past))

    assert made.cycle().evicted == ()


def test_pods_that_must_be_near_others_of_theirs_preempt_nobody():
    made = fleet("n1", "n2")
    made.world.add(asking("own", 1, needs={"apart": ("kubernetes.io/hostname",)}))
    made.cycle()
    run(made, "borrows", queue="borrower")

    lose(made, *hosts_of(made, "own"))

    assert made.cycle().evicted == ()


def test_a_changed_policy_is_seen_without_any_other_change():
    made = displaced(reclaim=NEVER)
    assert made.cycle().evicted == ()
    spec = made.world.state.forest.queues[ClusterQueueName("q")].spec
    policies = replace(spec.preemption, reclaim_within_cohort=ANY)
    made.world.state.set_cluster_queue(replace(spec, preemption=policies), NOW_US)

    assert evicted(made.cycle()) == ["borrows"]


def test_who_is_searched_in_vain_is_searched_again_after_a_while():
    made = displaced(reclaim=LOWER)
    assert made.cycle().evicted == ()
    assert not has_work(made, after=AGAIN_US - 3 * SECOND_US)
    assert has_work(made, after=AGAIN_US)


def test_nothing_is_decided_while_admission_is_paused():
    made = displaced()
    made.world.state.config = replace(made.world.state.config, paused=True)

    assert not has_work(made)


def test_it_comes_to_its_node_though_nobody_is_admitted_until_all_pods_run():
    made = displaced()
    made.world.state.config = replace(made.world.state.config, one_at_a_time=True)
    made.world.add(asking("next", 1))

    assert has_work(made)
    result = made.cycle()

    assert (evicted(result), admitted(result)) == (["borrows"], [])


def ending(made: Cluster, name: str, **fields: Any) -> str:
    """The pod of a workload is being deleted."""
    ((uid, pod),) = [
        (uid, pod)
        for uid, pod in made.places.ledger._pods.by_key.items()
        if pod.workload == ("default", name)
    ]
    made.places.set_pod(uid, replace(pod, **{"is_leaving": True, "is_ending": True, **fields}))
    return str(uid)


@pytest.mark.parametrize("older", ["lingers", "runs"])
def test_nobody_keeps_it_waiting_by_deleting_a_pod_with_a_long_grace_period(older: str):
    """Neither beside its victims nor as a victim: its eviction would change nothing."""
    made = fleet("n1", "n2", "n3")
    run(made, "own")
    for name in (older, *({"lingers", "runs"} - {older})):
        run(made, name, queue="borrower")
    ending(made, "lingers", is_leaving=False, is_ending=False, is_lingering=True)

    lose(made, *hosts_of(made, "own"))

    assert evicted(made.cycle()) == ["runs"]


def test_a_head_takes_nobody_whose_pod_lingers_on_the_node_that_it_needs():
    made = fleet("n1", "n2", gpus=2)
    for name in ("lingers", "runs"):
        run(made, name, gpus=2, queue="borrower")
    ending(made, "lingers", is_leaving=False, is_ending=False, is_lingering=True)
    made.world.add(asking("head", 2))

    assert evicted(made.cycle()) == ["runs"]


def linger(made: Cluster, *names: str) -> None:
    """Workloads were told to leave, and their pods have a long grace period by their own."""
    for name in names:
        told_to_leave(made, name)
        ending(made, name, is_leaving=False, is_lingering=True)


@pytest.mark.parametrize("who", ["head", "own"])
def test_no_other_is_stopped_while_the_pods_of_a_victim_linger(who: str):
    made = fleet("n1", "n2", "n3", "n4")
    if who == "own":
        run(made, "own")
    for name in ("v1", "v2", "v3"):
        run(made, name, queue="borrower")
    if who == "own":
        lose(made, *hosts_of(made, "own"))
    else:
        made.world.add(asking("first", 1))
        made.cycle()
        made.world.add(asking("head", 1))
    stopped = []
    for _ in range(4):
        victims = evicted(made.cycle())
        linger(made, *victims)
        stopped += victims
        made.world.clock += AGAIN_US // SECOND_US

    assert len(stopped) == 1


def test_what_was_told_to_leave_is_forgotten_with_its_last_pod():
    made = fleet("n1", "n2")
    run(made, "own")
    run(made, "borrows", queue="borrower")
    lose(made, *hosts_of(made, "own"))
    assert evicted(made.cycle()) == ["borrows"]
    told_to_leave(made, "borrows")
    uid = ending(made, "borrows", is_leaving=False, is_lingering=True)
    assert made.places.ledger._told_to_leave

    made.places.drop_pod(uid)
    made.world.finish("borrows")
    made.cycle()

    assert not made.places.ledger._told_to_leave


def test_the_room_of_a_victim_whose_pod_ends_counts_once():
    made = fleet("n1", "n2", gpus=4)
    run(made, "own", gpus=4)
    for index in range(2):
        run(made, f"borrows-{index}", gpus=2, queue="borrower")
    told_to_leave(made, "borrows-0")
    ending(made, "borrows-0")

    lose(made, *hosts_of(made, "own"))

    assert evicted(made.cycle()) == ["borrows-1"]


def test_a_pod_of_low_priority_that_ends_counts_once_where_the_scheduler_preempts():
    made = fleet("n1", gpus=4)
    made.pod("ends", "n1", {GPU: 2}, is_ending=True)
    made.pod("foreign", "n1", {GPU: 2})
    low = replace(made.places.ledger._pods["ends"], priority=0)
    made.places.set_pod("ends", low)
    made.places.set_pod("foreign", replace(low, priority=9, is_leaving=False, is_ending=False))
    (pod_set,) = asking("high", 4, needs={"priority": 5}).pod_sets
    want = made.places.want(pod_set, 1, ["a"], has_devices=True)
    assert want is not None

    with made.places.ledger.without_leaving():
        assert not made.places.ledger.fits_by_preemption(want)


def test_what_is_kept_for_somebody_who_waits_goes_to_it_first():
    made = fleet("n1", "n2", "n3")
    run(made, "own")
    for index in range(2):
        run(made, f"borrows-{index}", queue="borrower")
    made.world.add(asking("head", 1))
    (victim,) = evicted(made.cycle())
    told_to_leave(made, victim)
    uid = ending(made, victim)
    made.cycle()

    lose(made, *hosts_of(made, "own"))
    result = made.cycle()

    assert [eviction.preemptor.name for eviction in result.evicted] == ["head"]
    made.places.drop_pod(uid)
    made.world.finish(victim)
    made.cycle()
    assert made.places.ledger.places(WorkloadKey("default", "own"))


def test_a_search_in_vain_is_made_once_for_many_that_ask_the_same(monkeypatch: Any):
    made = fleet(*(f"n{index}" for index in range(8)), reclaim=LOWER)
    for index in range(6):
        run(made, f"own-{index}")
    run(made, "borrows", queue="borrower")
    for host in [hosts_of(made, f"own-{index}")[0] for index in range(6)]:
        lose(made, host)
    searched = []
    choose = targets.choose

    def counting(*args: Any) -> Any:
        searched.append(args)
        return choose(*args)

    monkeypatch.setattr(targets, "choose", counting)
    made.places.drop_node(min(made.places.ledger.nodes.keys() - set(hosts_of(made, "borrows"))))

    assert made.cycle().evicted == ()
    assert len(searched) == 1


def test_an_error_about_one_ends_the_search_for_it_alone(monkeypatch: Any):
    made = fleet("n1", "n2", "n3", "n4")
    run(made, "odd")
    run(made, "own", priority=1)
    for index in range(2):
        run(made, f"borrows-{index}", queue="borrower")
    choose = targets.choose

    def failing(snapshot: Any, preemptor: Any, need: Any) -> Any:
        victims = choose(snapshot, preemptor, need)
        if preemptor.key.name == "odd":
            snapshot.remove(victims[0].workload)
            raise ValueError("odd")
        return victims

    monkeypatch.setattr(targets, "choose", failing)
    for name in ("odd", "own"):
        lose(made, *hosts_of(made, name))
    ledger = made.places.ledger
    free = {name: dict(ledger.free(name)) for name in ledger.nodes}

    result = made.cycle()

    assert [(key.name, str(error)) for key, error in result.failed] == [("odd", "odd")]
    assert {eviction.preemptor.name for eviction in result.evicted} == {"own"}
    assert {name: dict(ledger.free(name)) for name in ledger.nodes} == free


def test_no_head_is_admitted_to_the_quota_of_a_victim_that_is_still_there():
    nodes = (node("large-1", 2), node("large-2", 2), node("small-1", 1), node("small-2", 1))
    made = cluster(*nodes, quota={"a": 4}, cohort="all", reclaim=ANY)
    add_queue(made, "borrower")
    add_queue(made, "peer", 1)
    run(made, "own", gpus=2)
    run(made, "borrows", gpus=2, queue="borrower")
    lose(made, *hosts_of(made, "own"))
    made.world.add(asking("head", 1), asking("other", 1, queue="peer"))

    result = made.cycle()

    assert evicted(result) == ["borrows"]
    assert len(admitted(result)) == 1, "4 of 5 GPUs are used until the victim is gone"


def test_an_error_about_what_it_needs_ends_the_search_for_one_alone(monkeypatch: Any):
    made = fleet("n1", "n2", "n3", "n4")
    run(made, "odd")
    run(made, "own", priority=1)
    for index in range(2):
        run(made, f"borrows-{index}", queue="borrower")
    for name in ("odd", "own"):
        lose(made, *hosts_of(made, name))
    made.world.state.has_work(NOW_US)
    judged = made.world.state._displaced_workload

    def failing(key: Any) -> Any:
        if key.name == "odd":
            raise ValueError("odd")
        return judged(key)

    monkeypatch.setattr(made.world.state, "_displaced_workload", failing)
    result = made.cycle()

    assert [(key.name, str(error)) for key, error in result.failed] == [("odd", "odd")]
    assert {eviction.preemptor.name for eviction in result.evicted} == {"own"}
    assert not has_work(made)


def test_who_waits_for_a_node_is_looked_at_again_whatever_else_loses_one():
    made = fleet("n1", "n2", "n3", reclaim=LOWER)
    run(made, "own")
    run(made, "apart", needs={"apart": ("kubernetes.io/hostname",)})
    run(made, "borrows", queue="borrower")
    lose(made, *hosts_of(made, "own"))
    assert made.cycle().evicted == ()

    lose(made, *hosts_of(made, "apart"))
    made.cycle()

    assert has_work(made, after=AGAIN_US)


def test_changes_of_a_pod_of_who_lacks_a_node_neither_start_nor_delay_a_search():
    made = fleet("n1", "n2", "n3", reclaim=LOWER)
    run(made, "own", count=2)
    run(made, "borrows", queue="borrower")
    lose(made, hosts_of(made, "own")[0])
    assert made.cycle().evicted == ()
    ((uid, pod),) = [
        (uid, pod)
        for uid, pod in made.places.ledger._pods.by_key.items()
        if pod.workload == ("default", "own")
    ]

    for priority in range(1, 25):
        made.places.set_pod(uid, replace(pod, priority=priority))
        assert not has_work(made), "nothing more is lacking"
        made.world.clock += 1

    assert has_work(made, after=AGAIN_US - 24 * SECOND_US)


def test_a_search_in_vain_for_a_newer_one_hides_no_victim_of_an_older_one():
    made = fleet("n1", "n2", "n3", within=NEWER)
    for created, name in enumerate(("old", "middle", "new")):
        run(made, name, created=created)
    lose(made, *hosts_of(made, "new"))
    assert made.cycle().evicted == ()

    lose(made, *hosts_of(made, "old"))
    made.world.clock += AGAIN_US // SECOND_US

    result = made.cycle()
    assert {eviction.preemptor.name for eviction in result.evicted} == {"old"}
    assert "middle" in evicted(result)


def test_it_is_known_for_whom_a_victim_left():
    made = displaced()
    made.cycle()

    (preemptor,) = made.world.state.preemptors_of(WorkloadKey("default", "borrows"))
    assert preemptor == (WorkloadKey("default", "own"), "q")
