"""What the status of queues says."""

from dataclasses import replace

import pytest

from admission.base.names import ClusterQueueName, CohortName, LocalQueueKey, WorkloadKey
from admission.scheduling import model
from admission.scheduling.fairshare import Share
from admission.scheduling.state import SchedulerState
from tests.builders.scheduling import NOW_US, STD_CPU, cluster_queue, cohort, holding, waiting
from tests.scheduling.worlds import world

SOLO = ClusterQueueName("solo")
LOCAL = LocalQueueKey("default", "solo")
HOLD = model.StopPolicy.HOLD
CHECK = (model.AdmissionCheckRule(name="check"),)


def test_counters_and_usage_of_a_queue():
    waiting_for_checks = holding("b", "solo", 2)
    assert waiting_for_checks.reservation is not None
    reserved = replace(waiting_for_checks.reservation, admitted=False)
    made = world(
        cluster_queue("solo", 4, cohort="q"),
        cluster_queue("lender", 9, cohort="q"),
        holding("a", "solo", 3),
        replace(waiting_for_checks, reservation=reserved),
        waiting("c", "solo", 1),
        waiting("d", "solo", 99),
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
        (cluster_queue("solo", 1, stop_policy=HOLD), "Stopped", "is stopped."),
        (
            cluster_queue("solo", 1, stop_policy=HOLD, admission_checks=CHECK),
            "Stopped",
            "is stopped, references missing AdmissionCheck(s): check.",
        ),
        (
            cluster_queue("solo", 1, admission_checks=CHECK),
            "AdmissionCheckNotFound",
            "references missing AdmissionCheck(s): check.",
        ),
    ],
)
def test_why_a_queue_is_inactive(queue, reason, message):
    found = world(queue).state.cluster_queue_status(SOLO)

    assert not found.active
    assert (found.reason, found.message) == (reason, f"Can't admit new workloads: {message}")


MULTI, PROVISION = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"
CHECKS = {"mk-a": MULTI, "mk-b": MULTI, "prov": PROVISION}


@pytest.mark.parametrize(
    ("rules", "reason", "message"),
    [
        (
            {"mk-b": (), "mk-a": ()},
            "MultipleMultiKueueAdmissionChecks",
            (
                "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, "
                "found: mk-a,mk-b."
            ),
        ),
        (
            {"mk-a": ("other",)},
            "MultiKueueAdmissionCheckAppliedPerFlavor",
            "Cannot specify MultiKueue AdmissionCheck per flavor, found: mk-a.",
        ),
        ({"mk-a": (STD_CPU.flavor, "other")}, "Ready", ""),
        (
            {"prov": (), "mk-a": ()},
            "MultiKueueWithProvisioningRequest",
            (
                "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
                "found: mk-a, prov."
            ),
        ),
    ],
    ids=["two of MultiKueue", "for some flavors", "for all flavors", "with provisioning"],
)
def test_which_admission_checks_exclude_each_other(rules, reason, message):
    listed = tuple(
        model.AdmissionCheckRule(name=name, on_flavors=frozenset(flavors))
        for name, flavors in rules.items()
    )
    made = world(cluster_queue("solo", 1, admission_checks=listed))
    for name, controller in CHECKS.items():
        made.state.set_admission_check(name, active=True, controller=controller)

    found = made.state.cluster_queue_status(SOLO)

    assert found.reason == reason
    assert found.message == (
        f"Can't admit new workloads: {message}" if message else "Can admit new workloads"
    )


def test_a_queue_waits_for_the_topology_of_its_flavor():
    placed = model.ResourceFlavor(name=STD_CPU.flavor, topology="racks")
    made = world(cluster_queue("solo", 1))
    made.state.set_resource_flavor(placed)
    found = made.state.cluster_queue_status(SOLO)
    assert (found.reason, found.message) == (
        "TopologyNotFound",
        (
            'Can\'t admit new workloads: there is no Topology "racks" for TAS flavor '
            f'"{STD_CPU.flavor}".'
        ),
    )

    made.state.set_topology("racks")
    assert made.state.cluster_queue_status(SOLO).active
    made.state.drop_topology("racks")
    assert not made.state.cluster_queue_status(SOLO).active


def test_the_topology_does_not_matter_where_another_cluster_places_the_pods():
    rules = (model.AdmissionCheckRule(name="mk-a"),)
    made = world(cluster_queue("solo", 1, admission_checks=rules))
    made.state.set_resource_flavor(model.ResourceFlavor(name=STD_CPU.flavor, topology="racks"))
    made.state.set_admission_check("mk-a", active=True, controller=MULTI)

    assert made.state.cluster_queue_status(SOLO).active


def test_a_change_of_what_blocks_a_queue_is_told_though_it_stays_inactive():
    made = world(cluster_queue("solo", 1, admission_checks=CHECK), flavors=())
    made.cycle()
    made.state.take_changed()

    made.state.set_resource_flavor(model.ResourceFlavor(name=STD_CPU.flavor))
    made.cycle()

    assert made.state.take_changed().cluster_queues == {SOLO}


def test_sums_of_a_cohort_count_the_whole_subtree():
    made = world(
        cohort("pool", 2),
        cohort("team", parent="pool"),
        cluster_queue("solo", 4, cohort="team"),
        cluster_queue("other", 3, cohort="pool"),
        holding("a", "solo", 5),
        holding("b", "other", 1),
    )
    found = made.state.cohort_status(CohortName("pool"))

    assert found is not None
    assert (found.parent, found.root, found.admitted) == ("", "pool", 2)
    assert found.quota == {STD_CPU: 9000}
    assert found.reservation == {STD_CPU: 6000}
    team = made.state.cohort_status(CohortName("team"))
    assert team is not None
    assert (team.parent, team.root, team.admitted) == ("pool", "pool", 1)


def test_a_moved_queue_changes_what_is_above_its_old_and_its_new_place():
    made = world(
        cluster_queue("solo", 4, cohort="old"),
        cohort("new", parent="top"),
        holding("a", "solo", 5),
    )
    made.state.take_changed()

    made.state.set_cluster_queue(cluster_queue("solo", 4, cohort="new"))

    assert made.state.take_changed().cohorts == {"old", "new", "top"}


def test_a_terminating_queue_says_so_first():
    found = world(cluster_queue("solo", 1, stop_policy=HOLD, terminating=True)).state

    assert found.cluster_queue_status(SOLO).message == (
        "Can't admit new workloads; clusterQueue is terminating"
    )


def test_a_queue_waits_for_its_flavors_and_checks():
    made = world(
        cluster_queue("solo", 4, admission_checks=CHECK), waiting("new", "solo", 1), flavors=()
    )
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
    made = world(*([cluster_queue("solo", 1)] if present else []))
    made.state.set_local_queue(model.LocalQueue(key=LOCAL, cluster_queue=SOLO, **local))

    found = made.state.local_queue_status(LOCAL)

    assert (found.active, found.reason) == (reason == "Ready", reason)


def test_a_local_queue_of_an_inactive_queue():
    made = world(cluster_queue("solo", 1, stop_policy=HOLD))

    assert made.state.local_queue_status(LOCAL).reason == "ClusterQueueIsInactive"


def test_shares_are_shown_with_fair_sharing_only():
    made = world(
        cluster_queue("solo", 4, cohort="q"),
        cluster_queue("lender", 8, cohort="q"),
        holding("a", "solo", 5),
        config=model.Config(fair_sharing=model.FairSharing()),
    )

    assert made.state.cluster_queue_status(SOLO).weighted_share == Share(True, 1000 / 12, 1, "cpu")
    cohort_status = made.state.cohort_status(CohortName("q"))
    assert cohort_status is not None
    assert cohort_status.weighted_share == Share()


def test_a_queue_that_nobody_uses_is_told_of_when_it_is_first_seen():
    state = SchedulerState()
    state.set_cluster_queue(cluster_queue("solo", 4))

    assert state.take_changed().cluster_queues == {SOLO}


def test_changes_are_told_once():
    made = world(cohort("q"), cluster_queue("solo", 4, cohort="q"), waiting("new", "solo", 1))
    made.cycle()

    changed = made.state.take_changed()

    assert changed.cluster_queues == {SOLO}
    assert changed.local_queues == {LOCAL}
    assert changed.cohorts == {"q"}
    assert made.state.take_changed().cluster_queues == frozenset()


def test_usage_outlives_its_queue():
    made = world(cluster_queue("solo", 4), holding("a", "solo", 3))

    made.state.drop_cluster_queue(SOLO)
    made.state.set_cluster_queue(cluster_queue("solo", 5))

    assert made.state.cluster_queue_status(SOLO).reservation == {STD_CPU: 3000}
    made.state.drop_workload(WorkloadKey("default", "a"), NOW_US)
    assert made.state.cluster_queue_status(SOLO).reservation == {STD_CPU: 0}


def test_a_queue_that_is_inactive_for_another_reason_has_changed():
    state = world(cluster_queue("solo", 1, admission_checks=CHECK)).state
    state.has_work(NOW_US)
    state.take_changed()
    state.set_admission_check("check", active=False)
    state.has_work(NOW_US)
    assert SOLO in state.take_changed().cluster_queues
    assert state.cluster_queue_status(SOLO).reason == "AdmissionCheckInactive"


def test_a_queue_tells_since_when_the_one_waits_that_has_waited_longest() -> None:
    made = world(
        cluster_queue("solo", 4),
        waiting("large", "solo", 99, created=-60),
        waiting("late", "solo", 99, created=-5, priority=9),
        waiting("fits", "solo", 1, created=-90),
    )

    def ago() -> int | None:
        oldest_us = made.state.cluster_queue_status(SOLO).oldest_us
        return None if oldest_us is None else (NOW_US - oldest_us) // 1_000_000

    assert ago() == 90
    for _ in range(3):
        made.cycle()
    assert ago() == 60  # those that do not fit are parked, and wait still
    made.finish("large")
    assert ago() == 5
    made.finish("late")
    assert ago() is None


def test_since_when_the_oldest_waits_is_right_after_many_changes() -> None:
    made = world(cluster_queue("solo", 0), waiting("first", "solo", 1, created=-60))
    for round_ in range(100):
        made.state.set_workload(waiting("other", "solo", 1 + round_, created=-round_))
    found = made.state.cluster_queue_status(SOLO)
    assert found.oldest_us == NOW_US - 99_000_000
    assert found.pending == 2
