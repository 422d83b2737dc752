"""Kueue's metrics follow what happens, and the series of a queue go with it."""

import math
from itertools import count
from typing import Any

import msgspec
from prometheus_client import REGISTRY

from admission.base import patches
from admission.base.causes import Overtaken
from admission.base.names import ClusterQueueName, WorkloadKey
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import EvictionCount, SchedulingStats, Workload
from admission.scheduling import decisions, model
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_cohort, make_flavor, make_local_queue
from tests.controller.world import World

_NUMBERS = count()


def value(name: str, /, **labels: str) -> float:
    return (
        REGISTRY.get_sample_value(f"kueue_{name}", {"replica_role": "standalone", **labels}) or 0
    )


def world_with(quota: int) -> tuple[World, str]:
    """A queue of a name of its own: the registry is shared by all tests of the process."""
    name = f"queue-{next(_NUMBERS)}"
    world = World()
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(name, quota=quota),
        make_local_queue(queue=name),
    )
    world.settle()
    return world, name


def test_reservation_admission_and_end_are_counted_once() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.settle()
    world.set_phase("train", "Succeeded")
    world.settle()
    counted = {
        kind: value(f"{kind}_workloads_total", cluster_queue=queue, priority_class="")
        for kind in ("quota_reserved", "admitted", "finished")
    }

    assert counted == {"quota_reserved": 1, "admitted": 1, "finished": 1}
    waits = value("admission_wait_time_seconds_count", cluster_queue=queue, priority_class="")
    assert waits == 1


def test_execution_is_timed_of_what_was_admitted_only() -> None:
    world, queue = world_with(quota=2)
    ended = value("finished_workloads_total", cluster_queue="", priority_class="")
    timed = known("execution_time_seconds_count", cluster_queue="", priority_class="")
    team = {"name": "team-a", "namespace": "ml", "priority_class": ""}
    timed_of_team = value("local_queue_execution_time_seconds_count", **team)
    world.add_pod("runs", gpus=2)
    world.settle()
    world.add_pod("waits", gpus=2)
    world.pass_time(3)

    for name in ("waits", "runs"):
        set_status(world, name, condition={
            "type": "Finished", "status": "True", "reason": "Succeeded",
            "lastTransitionTime": "2026-01-01T00:05:00Z",
        })  # fmt: skip
        world.settle()

    assert value("finished_workloads_total", cluster_queue="", priority_class="") == ended + 1
    assert known("execution_time_seconds_count", cluster_queue="", priority_class="") == timed
    assert value("execution_time_seconds_count", cluster_queue=queue, priority_class="") == 1
    assert value("local_queue_execution_time_seconds_count", **team) == timed_of_team + 1


def test_a_restart_does_not_count_again() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.settle()
    world.restarted().settle()

    assert value("admitted_workloads_total", cluster_queue=queue, priority_class="") == 1


def test_gauges_show_who_waits_and_what_is_used() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("a", gpus=3)
    world.settle()
    world.add_pod("b", gpus=3)
    world.pass_time(3)

    assert value("pending_workloads", cluster_queue=queue, status="inadmissible") == 1
    team = {"name": "team-a", "namespace": "ml"}
    assert value("local_queue_pending_workloads", **team, status="inadmissible") == 1
    assert value("local_queue_pending_workloads", **team, status="active") == 0
    assert value("admitted_active_workloads", cluster_queue=queue) == 1
    assert value("cluster_queue_status", cluster_queue=queue, status="active") == 1
    amount = {"cohort": "", "cluster_queue": queue, "flavor": "a100", "resource": "nvidia.com/gpu"}
    assert value("cluster_queue_resource_usage", **amount) == 3
    assert value("cluster_queue_nominal_quota", **amount) == 4


def test_the_series_of_a_deleted_queue_are_removed() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("a")
    world.pass_time(2)
    world.set_phase("a", "Succeeded")  # a queue is held while it is used
    world.store.delete(resources.CLUSTER_QUEUES, queue)
    world.pass_time(2)
    labels = {"cluster_queue": queue, "replica_role": "standalone"}

    assert REGISTRY.get_sample_value("kueue_admitted_active_workloads", labels) is None


def test_preemptions_are_counted_by_who_preempted() -> None:
    world, queue = world_with(quota=2)
    world.store.delete(resources.CLUSTER_QUEUES, queue)
    world.settle()
    world.add(
        make_cluster_queue(queue, quota=2, preemption={"withinClusterQueue": "LowerPriority"})
    )
    world.add_pod("low", gpus=2, spec={"priority": 1})
    world.settle()
    world.add_pod("high", gpus=2, spec={"priority": 9})
    world.pass_time(3)
    counted = value(
        "preempted_workloads_total", preempting_cluster_queue=queue, reason="InClusterQueue"
    )

    assert counted == 1
    evicted = {"cluster_queue": queue, "reason": "Preempted", "underlying_cause": ""}
    assert value("evicted_workloads_total", priority_class="", **evicted) == 1


GPU = {"flavor": "a100", "resource": "nvidia.com/gpu"}
SIMPLE = {"replica_role": "standalone"}


def known(name: str, /, **labels: str) -> float | None:
    """Like `value`, but None where there is no such series."""
    return REGISTRY.get_sample_value(f"kueue_{name}", {**SIMPLE, **labels})


def set_status(world: World, pod: str, **members: Any) -> None:
    """Changes the status of a pod's Workload as another controller does."""
    workload = world.workloads()[pod]
    found = world.store.get(resources.WORKLOADS, workload.metadata.name, "ml")["status"]
    new = members.pop("condition", None)
    if new is not None:
        others = [one for one in found["conditions"] if one["type"] != new["type"]]
        members["conditions"] = [*others, {"message": "", **new}]
    world.store.patch(
        resources.WORKLOADS,
        workload.metadata.name,
        patches.merge({"status": members}),
        "ml",
        subresource="status",
    )


def test_pods_that_become_ready_are_timed_once() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.settle()
    ready = {"type": "PodsReady", "status": "True", "reason": "Started"}
    for moment, reason in (("2026-01-01T00:00:30Z", "Started"), ("2026-01-01T00:01:30Z", "Again")):
        set_status(world, "train", condition={**ready, "status": "False", "reason": "Wait",
                                              "lastTransitionTime": moment})  # fmt: skip
        world.settle()
        set_status(
            world, "train", condition={**ready, "reason": reason, "lastTransitionTime": moment}
        )
        world.settle()

    labels = {"cluster_queue": queue, "priority_class": ""}
    assert value("ready_wait_time_seconds_sum", **labels) == 30
    assert value("admitted_until_ready_wait_time_seconds_sum", **labels) == 30
    assert value("ready_wait_time_seconds_count", **labels) == 1


def test_an_eviction_is_counted_by_queue_and_local_queue_and_once_per_workload() -> None:
    world, queue = world_with(quota=2)
    change = patches.merge({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    world.store.patch(resources.CLUSTER_QUEUES, queue, change)
    world.add_pod("low", gpus=2, spec={"priority": 1})
    world.settle()
    before = value("local_queue_evicted_workloads_total", **evicted_in("team-a"))
    world.add_pod("high", gpus=2, spec={"priority": 9})
    world.pass_time(3)

    why = {"reason": "Preempted", "underlying_cause": "", "priority_class": ""}
    assert value("evicted_workloads_once_total", cluster_queue=queue, **why) == 1
    after = value("local_queue_evicted_workloads_total", **evicted_in("team-a"))
    assert after - before == 1
    latency = value(
        "workload_eviction_latency_seconds_count", cluster_queue=queue, reason="Preempted"
    )
    assert latency == 1


def evicted_in(local: str) -> dict[str, str]:
    return {
        "name": local, "namespace": "ml", "reason": "Preempted", "underlying_cause": "",
        "priority_class": "",
    }  # fmt: skip


def test_a_second_eviction_for_the_same_reason_is_not_a_first_one() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.settle()
    (workload,) = world.workloads().values()

    def evicted(count: int, *, true: bool) -> Workload:
        why = EvictionCount(reason="AdmissionCheck", count=count)
        condition = views.Condition(
            type="Evicted", status="True" if true else "False", reason="AdmissionCheck"
        )
        status = msgspec.structs.replace(
            workload.status,
            conditions=(condition,),
            scheduling_stats=SchedulingStats(evictions=(why,)),
        )
        return msgspec.structs.replace(workload, status=status)

    accounting = KueueMetrics()
    accounting.observe(workload, evicted(1, true=True))
    accounting.observe(evicted(1, true=False), evicted(2, true=True))

    why = {"reason": "AdmissionCheck", "underlying_cause": "", "priority_class": ""}
    assert value("evicted_workloads_total", cluster_queue=queue, **why) == 2
    assert value("evicted_workloads_once_total", cluster_queue=queue, **why) == 1


def test_creation_of_a_workload_and_removal_of_the_gate_are_timed() -> None:
    created = value("workload_creation_latency_seconds_count", job_kind="Pod")
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.settle()

    assert value("workload_creation_latency_seconds_count", job_kind="Pod") == created + 1
    gate = {"name": "kueue.x-k8s.io/admission", "is_group": "false", "cluster_queue": queue}
    assert value("pod_scheduling_gate_removal_seconds_count", **gate) == 1


def test_who_is_not_admitted_is_counted_by_reason_until_it_is() -> None:
    world, queue = world_with(quota=2)
    world.add_pod("runs", gpus=2)
    world.settle()
    world.add_pod("waits", gpus=1)
    world.pass_time(3)
    why = {"reason": "NoReservation", "underlying_cause": "WaitingForQuota"}
    local = {"name": "team-a", "namespace": "ml", "cluster_queue": queue}
    assert value("unadmitted_workloads", cluster_queue=queue, **why) == 1
    assert value("local_queue_unadmitted_workloads", **local, **why) == 1

    world.set_phase("runs", "Succeeded")
    world.pass_time(3)

    assert known("unadmitted_workloads", cluster_queue=queue, **why) is None
    assert value("finished_workloads", cluster_queue=queue) == 1
    assert value("local_queue_finished_workloads", name="team-a", namespace="ml") == 1
    assert world.admitted() == {"runs", "waits"}


def test_what_waits_is_shown_by_resource_and_in_groups_of_equals() -> None:
    world, queue = world_with(quota=2)
    for name, gpus in (("a", 3), ("b", 3), ("c", 4)):
        world.add_pod(name, gpus=gpus)
    world.pass_time(3)

    pending = {"cluster_queue": queue, "resource": "nvidia.com/gpu"}
    assert value("cluster_queue_resource_pending", **pending) == 10
    assert value("pending_scheduling_hashes", cluster_queue=queue, status="inadmissible") == 2


def test_limits_that_are_not_set_are_infinite_and_series_of_a_lost_flavor_end() -> None:
    world, queue = world_with(quota=4)
    world.add(make_flavor("h100"))
    world.pass_time(2)
    labels = {"cohort": "", "cluster_queue": queue}
    assert value("cluster_queue_borrowing_limit", **labels, **GPU) == math.inf
    assert value("cluster_queue_lending_limit", **labels, **GPU) == math.inf

    spec = make_cluster_queue(flavors=("h100",))["spec"]
    world.store.patch(resources.CLUSTER_QUEUES, queue, patches.merge({"spec": spec}))
    world.pass_time(2)

    assert known("cluster_queue_nominal_quota", **labels, **GPU) is None
    h100 = {**GPU, "flavor": "h100"}
    assert known("cluster_queue_nominal_quota", **labels, **h100) == 4


def test_cohorts_show_the_sums_of_their_subtree_and_where_they_hang() -> None:
    world, queue = world_with(quota=4)
    pool, team = f"{queue}-pool", f"{queue}-team"
    world.add(make_cohort(team, parentName=pool))
    change = patches.merge({"spec": {"cohortName": team}})
    world.store.patch(resources.CLUSTER_QUEUES, queue, change)
    world.settle()
    world.add_pod("train", gpus=3)
    world.pass_time(2)

    place = {"cluster_queue": queue, "parent_cohort": team, "root_cohort": pool}
    assert known("cluster_queue_info", **place) == 1
    assert known("cohort_info", cohort=team, parent_cohort=pool, root_cohort=pool) == 1
    for name in (team, pool):
        assert known("cohort_subtree_quota", cohort=name, **GPU) == 4
        assert known("cohort_subtree_resource_reservations", cohort=name, **GPU) == 3
        assert known("cohort_subtree_admitted_active_workloads", cohort=name) == 1
        counted = {"cohort": name, "priority_class": ""}
        assert value("cohort_subtree_admitted_workloads_total", **counted) == 1


def test_series_of_a_cohort_that_is_gone_are_removed() -> None:
    world, queue = world_with(quota=4)
    change = patches.merge({"spec": {"cohortName": f"{queue}-pool"}})
    world.store.patch(resources.CLUSTER_QUEUES, queue, change)
    world.pass_time(2)
    assert known("cohort_subtree_quota", cohort=f"{queue}-pool", **GPU) == 4

    change = patches.merge({"spec": {"cohortName": None}})
    world.store.patch(resources.CLUSTER_QUEUES, queue, change)
    world.pass_time(2)

    assert known("cohort_subtree_quota", cohort=f"{queue}-pool", **GPU) is None


def test_shares_in_metrics_are_not_rounded() -> None:
    world = World(config=model.Config(fair_sharing=model.FairSharing()))
    queue = f"queue-{next(_NUMBERS)}"
    pool, root = f"{queue}-pool", f"{queue}-root"
    world.add(
        make_namespace(),
        make_flavor(),
        make_cohort(pool, parentName=root),
        make_local_queue(queue=queue),
    )
    world.add(make_cluster_queue(queue, quota=4, cohortName=pool))
    world.add(make_cluster_queue(f"{queue}-lender", quota=2, cohortName=root))
    world.settle()
    world.add_pod("train", gpus=5)
    world.pass_time(2)

    shown = world.store.get(resources.CLUSTER_QUEUES, queue)["status"]["fairSharing"]
    assert shown == {"weightedShare": 167}
    labels = {"cluster_queue": queue, "cohort": pool}
    assert known("cluster_queue_weighted_share", **labels) == 1000 / 6
    assert known("cohort_weighted_share", cohort=pool) == 1000 / 6


def test_an_endless_share_is_no_number() -> None:
    world = World(config=model.Config(fair_sharing=model.FairSharing()))
    queue = f"queue-{next(_NUMBERS)}"
    weightless = make_cluster_queue(queue, cohortName=f"{queue}-pool", fairSharing={"weight": "0"})
    lender = make_cluster_queue(f"{queue}-lender", cohortName=f"{queue}-pool")
    world.add(make_namespace(), make_flavor(), weightless, lender, make_local_queue(queue=queue))
    world.settle()
    world.add_pod("train", gpus=5)
    world.pass_time(2)

    pool = {"cohort": f"{queue}-pool"}
    assert math.isnan(known("cluster_queue_weighted_share", cluster_queue=queue, **pool) or 0)
    assert known("cluster_queue_weighted_share", cluster_queue=f"{queue}-lender", **pool) == 0


def test_counters_of_a_deleted_queue_are_removed_too() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.pass_time(2)
    world.set_phase("train", "Succeeded")
    world.pass_time(2)
    labels = {"cluster_queue": queue, "priority_class": ""}
    assert known("admitted_workloads_total", **labels) == 1

    world.store.delete(resources.CLUSTER_QUEUES, queue)
    world.pass_time(2)

    assert known("admitted_workloads_total", **labels) is None
    assert known("admission_wait_time_seconds_count", **labels) is None


def test_a_process_counts_as_follower_until_it_leads() -> None:
    accounting = KueueMetrics("follower")
    assert accounting.role == "follower"
    accounting.lead()
    assert accounting.role == "leader"

    alone = KueueMetrics("standalone")
    alone.lead()
    assert alone.role == "standalone"


def test_victims_chosen_anew_and_those_passed_over_are_counted_by_cycle() -> None:
    queue = ClusterQueueName(f"queue-{next(_NUMBERS)}")
    wait = decisions.Wait(
        workload=WorkloadKey("ml", "late"),
        cluster_queue=queue,
        why=Overtaken(takes_victims=True),
    )
    again = ((queue, decisions.Recomputation.SKIPPED),)
    accounting = KueueMetrics()
    accounting.cycle(decisions.CycleResult(waiting=(wait,), recomputed=again))
    recomputed = value(
        "preemption_target_recomputations_total", cluster_queue=queue, result="skipped"
    )
    assert recomputed == 1
    assert known("admission_cycle_preemption_skips", cluster_queue=queue) == 1

    accounting.cycle(decisions.CycleResult())
    assert known("admission_cycle_preemption_skips", cluster_queue=queue) == 0
