"""What the status of queues says."""

from dataclasses import replace

import pytest

from admission.base.names import ClusterQueueName, CohortName, LocalQueueKey, WorkloadKey
from admission.engine import model
from admission.state.world import State
from tests.engine.worlds import (
    NOW_US,
    STD_CPU,
    cohort,
    cq,
    held,
    want,
    world,
)

SOLO = ClusterQueueName("solo")
LOCAL = LocalQueueKey("default", "solo")
HOLD = model.StopPolicy.HOLD
CHECK = (model.AdmissionCheckRule(name="check"),)


def test_counters_and_usage_of_a_queue():
    waiting_for_checks = held("b", "solo", 2)
    assert waiting_for_checks.reservation is not None
    reserved = replace(waiting_for_checks.reservation, admitted=False)
    made = world(
        cq("solo", 4, cohort="q"),
        cq("lender", 9, cohort="q"),
        held("a", "solo", 3),
        replace(waiting_for_checks, reservation=reserved),
        want("c", "solo", 1),
        want("d", "solo", 99),
    )
    made.state.forest.refresh()

    found = made.state.cluster_queue_status(SOLO)

    assert (found.pending, found.reserving, found.admitted) == (2, 2, 1)
    assert found.reservation == {STD_CPU: 5000}
    assert found.borrowed_reservation == {STD_CPU: 1000}
    assert found.usage == {STD_CPU: 3000}
    assert found.borrowed_usage == {STD_CPU: 0}
    assert found.weighted_share is None
    assert (found.active, found.reason, found.message) == (
        True,
        "Ready",
        "Can admit new workloads",
    )
    local = made.state.local_queue_status(LOCAL)
    assert (local.pending, local.reserving, local.admitted) == (2, 2, 1)
    assert local.reservation == {STD_CPU: 5000}


@pytest.mark.parametrize(
    ("queue", "reason", "message"),
    [
        (cq("solo", 1, stop_policy=HOLD), "Stopped", "is stopped."),
        (
            cq("solo", 1, stop_policy=HOLD, admission_checks=CHECK),
            "Stopped",
            "is stopped, references missing AdmissionCheck(s): check.",
        ),
        (
            cq("solo", 1, admission_checks=CHECK),
            "AdmissionCheckNotFound",
            "references missing AdmissionCheck(s): check.",
        ),
    ],
)
def test_why_a_queue_is_inactive(queue, reason, message):
    found = world(queue).state.cluster_queue_status(SOLO)

    assert not found.active
    assert (found.reason, found.message) == (reason, f"Can't admit new workloads: {message}")


def test_a_terminating_queue_says_so_first():
    found = world(cq("solo", 1, stop_policy=HOLD, terminating=True)).state

    assert found.cluster_queue_status(SOLO).message == (
        "Can't admit new workloads; clusterQueue is terminating"
    )


def test_a_queue_waits_for_its_flavors_and_checks():
    made = world(cq("solo", 4, admission_checks=CHECK), want("new", "solo", 1), flavors=())
    assert made.state.cluster_queue_status(SOLO).reason == "FlavorNotFound"

    made.state.set_resource_flavor(model.ResourceFlavor(name=STD_CPU.flavor))
    made.state.set_admission_check("check", active=False)
    assert made.state.cluster_queue_status(SOLO).reason == "AdmissionCheckInactive"
    assert not made.cycle().admitted

    made.state.set_admission_check("check", active=True)
    (admit,) = made.cycle().admitted
    assert admit.checks == ("check",)
    status = made.state.cluster_queue_status(SOLO)
    assert (status.reserving, status.admitted) == (1, 0)


@pytest.mark.parametrize(
    ("local", "present", "reason"),
    [
        ({"stop_policy": HOLD}, True, "Stopped"),
        ({}, False, "ClusterQueueDoesNotExist"),
        ({}, True, "Ready"),
    ],
)
def test_a_local_queue(local, present, reason):
    made = world(*([cq("solo", 1)] if present else []))
    made.state.set_local_queue(model.LocalQueue(key=LOCAL, cluster_queue=SOLO, **local))

    found = made.state.local_queue_status(LOCAL)

    assert (found.active, found.reason) == (reason == "Ready", reason)


def test_a_local_queue_of_an_inactive_queue():
    made = world(cq("solo", 1, stop_policy=HOLD))

    assert made.state.local_queue_status(LOCAL).reason == "ClusterQueueIsInactive"


def test_shares_are_shown_with_fair_sharing_only():
    made = world(
        cq("solo", 4, cohort="q"),
        cq("lender", 8, cohort="q"),
        held("a", "solo", 5),
        config=model.Config(fair_sharing=model.FairSharing()),
    )

    assert made.state.cluster_queue_status(SOLO).weighted_share == 84
    assert made.state.cohort_share(CohortName("q")) == 0


def test_a_queue_that_nobody_uses_is_told_of_when_it_is_first_seen():
    state = State()
    state.set_cluster_queue(cq("solo", 4))

    assert state.take_changed().cluster_queues == {SOLO}


def test_changes_are_told_once():
    made = world(cohort("q"), cq("solo", 4, cohort="q"), want("new", "solo", 1))
    made.cycle()

    changed = made.state.take_changed()

    assert changed.cluster_queues == {SOLO}
    assert changed.local_queues == {LOCAL}
    assert changed.cohorts == {"q"}
    assert made.state.take_changed().cluster_queues == frozenset()


def test_usage_outlives_its_queue():
    made = world(cq("solo", 4), held("a", "solo", 3))

    made.state.drop_cluster_queue(SOLO)
    made.state.set_cluster_queue(cq("solo", 5))

    assert made.state.cluster_queue_status(SOLO).reservation == {STD_CPU: 3000}
    made.state.drop_workload(WorkloadKey("default", "a"), NOW_US)
    assert made.state.cluster_queue_status(SOLO).reservation == {STD_CPU: 0}
