"""Worked examples of how the heads of one cycle affect each other, amounts in cores."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.conditions import WaitReason
from admission.base.names import CohortName, FlavorName, ResourceName
from admission.reasons import kueue, sentences
from admission.reasons.next_steps import Code
from admission.scheduling.model import ClusterQueue, Cohort
from tests.builders.scheduling import (
    ANY,
    CPU,
    LOWER,
    Quota,
    cluster_queue,
    group,
    holding,
    pod_set,
    waiting,
)
from tests.scheduling.worlds import admitted, evicted, flavors_of, waits, world

GPU_MEMORY = ResourceName("gpu-memory")
NO_LONGER_FITS = "Workload no longer fits after processing another workload"
DEFERRED = (
    "Workload has overlapping preemption targets with another workload, but will fit after "
    "these preemptions complete"
)


def test_borrowers_come_last():
    made = world(
        *(cluster_queue(name, 4, cohort="q") for name in ("amber", "beryl", "coral")),
        waiting("a-big", "amber", 7, priority=100),
        waiting("b-ok", "beryl", 4, priority=1, created=-10),
        waiting("c-ok", "coral", 3, priority=1, created=-20),
    )

    result = made.cycle()

    assert admitted(result) == ["c-ok", "b-ok"]
    assert kueue.message(waits(result)["a-big"].why) == NO_LONGER_FITS
    assert made.active("amber") == ["a-big"]


def test_a_queue_that_holds_more_than_its_quota_has_no_less_than_nothing_left():
    made = world(
        cluster_queue("amber", 4),
        holding("a0", "amber", 6, priority=9),
        waiting("a1", "amber", 3),
    )

    wait = waits(made.cycle())["a1"]

    assert kueue.message(wait.why).endswith("in flavor std, 3 more needed")
    assert [shortage.available for shortage in wait.shortages] == [0]


def test_a_blocked_preemptor_keeps_its_nominal_quota_from_those_after_it():
    made = world(
        cluster_queue("amber", 6, cohort="q", within=LOWER, reclaim=LOWER),
        cluster_queue("beryl", 4, cohort="q"),
        holding("b0", "beryl", 7, priority=9),
        waiting("a1", "amber", 5, priority=5, created=-50),
        waiting("b1", "beryl", 3, priority=5, created=-40),
    )

    result = made.cycle()

    assert admitted(result) == []
    assert kueue.message(waits(result)["a1"].why).endswith("2 more needed")
    assert kueue.message(waits(result)["b1"].why) == NO_LONGER_FITS
    assert made.active("amber") == []


@pytest.mark.parametrize(
    ("reclaim", "expected"), [(LOWER, []), (ANY, ["c1"])], ids=["it waits", "it can reclaim later"]
)
def test_what_a_borrowing_preemptor_keeps_depends_on_reclaim(reclaim, expected):
    made = world(
        cluster_queue("amber", 6, cohort="q", reclaim=reclaim),
        cluster_queue("beryl", 4, cohort="q"),
        cluster_queue("coral", 0, cohort="q"),
        holding("a0", "amber", 6, priority=9),
        waiting("a1", "amber", 5, priority=5, created=-50),
        waiting("c1", "coral", 3, priority=1, created=-40),
    )

    assert admitted(made.cycle()) == expected


def test_a_queue_above_its_borrowing_limit_keeps_nothing_back():
    made = world(
        cluster_queue("amber", 4, 1, cohort="q", reclaim=LOWER),
        cluster_queue("beryl", 6, cohort="q"),
        holding("a0", "amber", 6, priority=9),
        waiting("a1", "amber", 3, priority=5, created=-50),
        waiting("b1", "beryl", 4, created=-40),
    )

    assert admitted(made.cycle()) == ["b1"]


@pytest.mark.parametrize(
    ("limit", "taken", "request_of_next", "expected"),
    [(2, 0, 4, ["next"]), (2, 0, 5, []), (4, 3, 1, []), (None, 3, 1, [])],
    ids=[
        "of 3 it keeps the 1 that it may borrow",
        "no more than the rest is left",
        "it keeps all 3 as it may borrow them",
        "it keeps all 3 without a limit",
    ],
)
def test_a_blocked_preemptor_keeps_back_no_more_than_it_may_borrow(
    limit, taken, request_of_next, expected
):
    made = world(
        cluster_queue("amber", 4, limit, cohort="q", within=LOWER),
        cluster_queue("beryl", 6, cohort="q"),
        cluster_queue("coral", 0, cohort="q"),
        holding("runs", "amber", 5, priority=9),
        holding("other", "beryl", taken, priority=9),
        waiting("blocked", "amber", 3, priority=5, created=-50),
        waiting("next", "coral", request_of_next, priority=1, created=-40),
    )

    assert admitted(made.cycle()) == expected


def test_whoever_needs_the_same_victim_is_deferred():
    made = world(
        cluster_queue("amber", 3, cohort="q", reclaim=ANY),
        cluster_queue("beryl", 3, cohort="q", reclaim=ANY),
        cluster_queue("coral", 0, cohort="q"),
        holding("c0", "coral", 6),
        waiting("a1", "amber", 3, priority=5),
        waiting("b1", "beryl", 3, priority=4),
    )

    result = made.cycle()

    assert evicted(result) == {"c0": "InCohortReclamation"}
    assert kueue.message(waits(result)["b1"].why) == DEFERRED
    assert waits(result)["b1"].reason == "WaitingForPreemptedWorkloads"


def test_other_victims_are_found_when_the_first_are_claimed():
    made = world(
        cluster_queue("amber", 3, cohort="q", reclaim=ANY),
        cluster_queue("beryl", 3, cohort="q", reclaim=ANY),
        cluster_queue("coral", 0, cohort="q"),
        holding("c0", "coral", 3, reserved=-50),
        holding("c1", "coral", 3, reserved=-10),
        waiting("a1", "amber", 3, priority=5),
        waiting("b1", "beryl", 2, priority=4),
    )

    result = made.cycle()

    assert [(e.preemptor.name, e.workload.name) for e in result.evicted] == [
        ("a1", "c1"),
        ("b1", "c0"),
    ]


def test_equal_workloads_are_parked_by_one_evaluation():
    made = world(
        cluster_queue("solo", 4),
        waiting("big1", "solo", 5, created=-50),
        waiting("big2", "solo", 5, created=-40),
        waiting("big3", "solo", 5, priority=-1),
        waiting("small", "solo", 1, priority=-2),
    )

    tried = [[*waits(result), *admitted(result)] for result in (made.cycle() for _ in range(3))]

    assert tried == [["big1"], ["big3"], ["small"]]
    assert made.active("solo") == []


def test_a_strict_queue_is_blocked_by_its_head():
    made = world(
        cluster_queue("solo", 4, strict=True),
        waiting("big", "solo", 5),
        waiting("small", "solo", 1, priority=-2),
    )

    tried = [[*waits(result), *admitted(result)] for result in (made.cycle() for _ in range(3))]

    assert tried == [["big"]] * 3


MPI = (pod_set("launcher", cpu=1), pod_set("workers", count=10, least=3, cpu="1500m"))


def test_partial_admission_leaves_out_as_few_pods_as_possible():
    result = world(cluster_queue("solo", 11), waiting("mpi", "solo", sets=MPI)).cycle()

    (admit,) = result.admitted

    assert [(one.name, one.count, one.usage[CPU]) for one in admit.pod_sets] == [
        ("launcher", 1, 1000),
        ("workers", 6, 9000),
    ]


def test_a_failed_partial_admission_reports_the_whole_request():
    result = world(cluster_queue("solo", 5), waiting("mpi", "solo", sets=MPI)).cycle()

    assert kueue.message(waits(result)["mpi"].why).endswith(
        "(1) + current podset request (15) > maximum capacity (5)"
    )


def test_flavors_not_yet_looked_at_are_tried_in_the_next_cycle():
    groups = [
        group({"f1": {"cpu": (4,)}, "f2": {"cpu": (4,)}}),
        group({"g1": {"nvidia.com/gpu": (2,)}}),
    ]
    both = [pod_set(cpu=1, nvidia_com__gpu=2)]
    made = world(
        cluster_queue("amber", groups=groups),
        holding("old", "amber", priority=9, usage={("g1", "nvidia.com/gpu"): 2}),
        waiting("new", "amber", priority=1, sets=both),
        flavors=("f1", "f2", "g1"),
    )

    states = []
    for _ in range(2):
        made.cycle()
        states.append(made.active("amber"))

    assert states == [["new"], []]


def test_the_first_resource_group_that_fails_is_the_one_reported():
    groups = [
        group({"std": {"cpu": (4,), "memory": ("4Gi",)}}),
        group({"acc": {"nvidia.com/gpu": (2,)}}),
    ]
    big = [pod_set(cpu=5, memory="5Gi", nvidia_com__gpu=3)]

    result = world(
        cluster_queue("amber", groups=groups),
        waiting("new", "amber", sets=big),
        flavors=("std", "acc"),
    ).cycle()

    message = kueue.message(waits(result)["new"].why)
    assert "cpu" in message
    assert "memory" in message
    assert "nvidia.com/gpu" not in message


def test_amounts_are_printed_in_the_unit_of_their_resource():
    resources = {"memory": ("1536Mi",), "ephemeral-storage": ("1G",), "example.com/gpu": (2000,)}
    asked = [pod_set(count=3, memory="513Mi", example_com__gpu=1000, ephemeral_storage="400M")]

    result = world(
        cluster_queue("amber", groups=[group({"std": resources})]),
        waiting("new", "amber", sets=asked),
    ).cycle()

    message = kueue.message(waits(result)["new"].why)
    for asked_for, capacity in (("1539Mi", "1536Mi"), ("1171875Ki", "1G"), ("3k", "2k")):
        assert f"request ({asked_for}) > maximum capacity ({capacity})" in message


NEAR_FAR = {"near": {"cpu": (0,)}, "far": {"cpu": (0,)}}


def two(cohort: str | None, first: Quota, second: Quota, **more: Any) -> ClusterQueue:
    groups = [group({"fast": {"cpu": first}, "slow": {"cpu": second}})]
    return cluster_queue("amber", cohort=cohort, groups=groups, **more)


def lender(flavor: str, cpu: int) -> ClusterQueue:
    return cluster_queue("beryl", cohort="q", groups=[group({flavor: {"cpu": (cpu,)}})])


FAST_USED = holding("old", "amber", usage={("fast", "cpu"): 3})
STOP, NEXT = "MayStopSearch", "TryNextFlavor"


@pytest.mark.parametrize(
    ("objects", "cpu", "flavor", "borrowing"),
    [
        pytest.param(
            (two("q", (4,), (4,), scan=(STOP, NEXT)), lender("fast", 4), FAST_USED),
            2, "fast", 1, id="a scan may stop at a flavor that borrows",
        ),
        pytest.param(
            (two("q", (4,), (4,), scan=(NEXT, NEXT)), lender("fast", 4), FAST_USED),
            2, "slow", 0, id="a scan goes on to a flavor that need not borrow",
        ),
        pytest.param(
            (two("q", (4,), (2,), within=LOWER, scan=(NEXT, NEXT)), lender("slow", 4), FAST_USED),
            4, "slow", 1, id="borrowing is preferred to preemption",
        ),
    ],
)  # fmt: skip
def test_which_flavor_is_taken(objects, cpu, flavor, borrowing):
    result = world(
        *objects, waiting("new", "amber", cpu, priority=5), flavors=("fast", "slow")
    ).cycle()

    assert flavors_of(result) == {"new": flavor}
    assert [one.borrowing for one in result.admitted] == [borrowing]


@pytest.mark.parametrize(
    ("objects", "cpu"),
    [
        pytest.param(
            (two(None, (4,), (4,), within=LOWER, scan=(STOP, STOP)), FAST_USED),
            2, id="a scan may stop at a flavor that preempts, although another is free",
        ),
        pytest.param(
            (
                two("q", (4,), (2,), within=LOWER,
                    scan=(NEXT, NEXT, "PreemptionOverBorrowing")),
                lender("slow", 4), FAST_USED,
            ),
            4, id="preemption can be preferred to borrowing",
        ),
    ],
)  # fmt: skip
def test_which_flavor_is_made_free(objects, cpu):
    result = world(
        *objects, waiting("new", "amber", cpu, priority=5), flavors=("fast", "slow")
    ).cycle()

    assert evicted(result) == {"old": "InClusterQueue"}


def test_the_flavor_at_which_a_scan_stops_is_taken_even_if_an_earlier_one_was_better():
    made = world(
        two("q", (2,), (4,), within=LOWER, scan=(NEXT, STOP)),
        lender("fast", 4),
        holding("old", "amber", usage={("slow", "cpu"): 4}),
        waiting("new", "amber", 3, priority=5),
        flavors=("fast", "slow"),
    )

    assert evicted(made.cycle()) == {"old": "InClusterQueue"}


def test_a_flavor_that_was_tried_before_is_told_when_the_others_do_not_match():
    """The second scan goes on after the flavor in which another workload was faster."""
    only_fast = replace(pod_set(cpu=4), unsuited={FlavorName("slow"): "slow is elsewhere"})
    made = world(
        two("q", (0,), (4,), scan=(STOP, STOP)),
        lender("fast", 4),
        waiting("new", "amber", sets=[only_fast]),
        waiting("own", "beryl", 4),
        flavors=("fast", "slow"),
    )
    first = made.cycle()
    assert (admitted(first), kueue.message(waits(first)["new"].why)) == (["own"], NO_LONGER_FITS)

    told = waits(made.cycle())["new"]

    assert told.reason == WaitReason.NO_MATCHING_FLAVOR, "as Kueue says it, of the last scan"
    assert sentences.waiting(told.why, told.cluster_queue, shortages=told.shortages) == (
        Code.WAITING_FOR_QUOTA, "Waits: needs 4 cpu of fast, 0 free of 4; held by beryl (4)."
    )  # fmt: skip
    assert [(one.flavor, one.requested, one.available) for one in told.shortages] == [
        ("fast", 4000, 0)
    ]


def test_a_flavor_without_victims_never_ends_a_scan():
    made = world(
        two("q", (4,), (0,), within=LOWER, scan=(NEXT, STOP)),
        lender("slow", 4),
        holding("old", "amber", priority=9, usage={("fast", "cpu"): 4}),
        waiting("new", "amber", 3, priority=1),
        flavors=("fast", "slow"),
    )

    assert flavors_of(made.cycle()) == {"new": "slow"}


def test_quota_nearer_in_the_hierarchy_is_preferred():
    team = Cohort(
        name=CohortName("team"),
        parent=CohortName("root"),
        resource_groups=(group({"far": {"cpu": (4,)}}),),
    )
    root = Cohort(name=CohortName("root"), resource_groups=(group({"near": {"cpu": (4,)}}),))
    made = world(
        root, team,
        cluster_queue("t1", cohort="team", groups=[group(NEAR_FAR)], scan=(NEXT, NEXT)),
        waiting("new", "t1", 2), flavors=("near", "far"),
    )  # fmt: skip

    assert flavors_of(made.cycle()) == {"new": "far"}


def test_a_wait_carries_the_numbers_behind_it():
    made = world(
        cluster_queue("amber", 6, cohort="q"),
        cluster_queue("beryl", 10, cohort="q"),
        holding("a", "amber", 2),
        holding("b", "beryl", 9),
        waiting("new", "amber", 7),
    )

    (shortage,) = waits(made.cycle())["new"].shortages

    assert (shortage.requested, shortage.available, shortage.missing) == (7000, 5000, 2000)
    assert (shortage.nominal, shortage.limit) == (6000, 16000)
    assert shortage.holders == (("beryl", 9000), ("amber", 2000))


def test_a_wait_tells_how_much_is_used_by_those_that_it_does_not_name():
    names_ = [f"q{number}" for number in range(8)]
    made = world(
        cluster_queue("amber", 0, cohort="q"),
        *(cluster_queue(name, 10, cohort="q") for name in names_),
        *(holding(name, name, 10 - number) for number, name in enumerate(names_)),
        waiting("new", "amber", 70),
    )

    (shortage,) = waits(made.cycle())["new"].shortages

    assert [name for name, _ in shortage.holders] == names_[:5]
    assert shortage.unnamed == (3, 5000 + 4000 + 3000)


def test_what_is_held_back_for_who_waits_is_not_told_as_held():
    made = world(
        cluster_queue("amber", 6, cohort="q"),
        cluster_queue("beryl", 6, cohort="q"),
        holding("a", "amber", 3),
        holding("b", "beryl", 9),
        waiting("new", "amber", 3),
    )

    (shortage,) = waits(made.cycle())["new"].shortages

    assert (shortage.requested, shortage.available) == (3000, 0)
    assert shortage.holders == (("beryl", 9000), ("amber", 3000))


def test_a_demand_may_depend_on_the_flavor():
    memory = {"big": {"gpu-memory": (160,)}, "small": {"gpu-memory": (160,)}}
    slices = pod_set(count=2)
    asked = replace(
        slices,
        requests={GPU_MEMORY: 80},
        requests_by_flavor={FlavorName("small"): {GPU_MEMORY: 40}},
    )
    made = world(
        cluster_queue("amber", groups=[group(memory)]),
        holding("old", "amber", usage={("big", "gpu-memory"): 1}),
        waiting("new", "amber", sets=[asked]),
        flavors=("big", "small"),
    )

    (admit,) = made.cycle().admitted

    assert admit.pod_sets[0].flavors == {GPU_MEMORY: "small"}
    assert admit.pod_sets[0].usage == {GPU_MEMORY: 80}


def test_a_request_beyond_64_bits_is_said_in_words():
    groups = [group({"std": {"memory": (8,)}})]
    made = world(
        cluster_queue("solo", groups=groups), waiting("huge", "solo", sets=[pod_set(memory="10E")])
    )

    (wait,) = waits(made.cycle()).values()

    assert "current podset request (an unlimited amount) > maximum capacity (8)" in kueue.message(
        wait.why
    )
