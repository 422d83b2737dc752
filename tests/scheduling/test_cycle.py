"""Worked examples of how the heads of one cycle affect each other, amounts in cores."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import CohortName, FlavorName, ResourceName
from admission.scheduling.model import ClusterQueue, Cohort
from tests.scheduling.worlds import (
    ANY,
    CPU,
    LOWER,
    Quota,
    admitted,
    cq,
    evicted,
    flavors_of,
    group,
    held,
    pods,
    waits,
    want,
    world,
)

GPU_MEMORY = ResourceName("gpu-memory")
NO_LONGER_FITS = "Workload no longer fits after processing another workload"
DEFERRED = (
    "Workload has overlapping preemption targets with another workload, but will fit after "
    "these preemptions complete"
)


def test_borrowers_come_last():
    made = world(
        *(cq(name, 4, cohort="q") for name in ("amber", "beryl", "coral")),
        want("a-big", "amber", 7, p=100),
        want("b-ok", "beryl", 4, p=1, t=-10),
        want("c-ok", "coral", 3, p=1, t=-20),
    )

    result = made.cycle()

    assert admitted(result) == ["c-ok", "b-ok"]
    assert waits(result)["a-big"].message == NO_LONGER_FITS
    assert made.active("amber") == ["a-big"]


def test_a_blocked_preemptor_keeps_its_nominal_quota_from_those_after_it():
    made = world(
        cq("amber", 6, cohort="q", within=LOWER, reclaim=LOWER),
        cq("beryl", 4, cohort="q"),
        held("b0", "beryl", 7, p=9),
        want("a1", "amber", 5, p=5, t=-50),
        want("b1", "beryl", 3, p=5, t=-40),
    )

    result = made.cycle()

    assert admitted(result) == []
    assert waits(result)["a1"].message.endswith("2 more needed")
    assert waits(result)["b1"].message == NO_LONGER_FITS
    assert made.active("amber") == []


@pytest.mark.parametrize(
    ("reclaim", "expected"), [(LOWER, []), (ANY, ["c1"])], ids=["it waits", "it can reclaim later"]
)
def test_what_a_borrowing_preemptor_keeps_depends_on_reclaim(reclaim, expected):
    made = world(
        cq("amber", 6, cohort="q", reclaim=reclaim),
        cq("beryl", 4, cohort="q"),
        cq("coral", 0, cohort="q"),
        held("a0", "amber", 6, p=9),
        want("a1", "amber", 5, p=5, t=-50),
        want("c1", "coral", 3, p=1, t=-40),
    )

    assert admitted(made.cycle()) == expected


def test_a_queue_above_its_borrowing_limit_keeps_nothing_back():
    made = world(
        cq("amber", 4, 1, cohort="q", reclaim=LOWER),
        cq("beryl", 6, cohort="q"),
        held("a0", "amber", 6, p=9),
        want("a1", "amber", 3, p=5, t=-50),
        want("b1", "beryl", 4, t=-40),
    )

    assert admitted(made.cycle()) == ["b1"]


def test_whoever_needs_the_same_victim_is_deferred():
    made = world(
        cq("amber", 3, cohort="q", reclaim=ANY),
        cq("beryl", 3, cohort="q", reclaim=ANY),
        cq("coral", 0, cohort="q"),
        held("c0", "coral", 6),
        want("a1", "amber", 3, p=5),
        want("b1", "beryl", 3, p=4),
    )

    result = made.cycle()

    assert evicted(result) == {"c0": "InCohortReclamation"}
    assert waits(result)["b1"].message == DEFERRED
    assert waits(result)["b1"].reason == "WaitingForPreemptedWorkloads"


def test_other_victims_are_found_when_the_first_are_claimed():
    made = world(
        cq("amber", 3, cohort="q", reclaim=ANY),
        cq("beryl", 3, cohort="q", reclaim=ANY),
        cq("coral", 0, cohort="q"),
        held("c0", "coral", 3, r=-50),
        held("c1", "coral", 3, r=-10),
        want("a1", "amber", 3, p=5),
        want("b1", "beryl", 2, p=4),
    )

    result = made.cycle()

    assert [(e.preemptor.name, e.workload.name) for e in result.evicted] == [
        ("a1", "c1"),
        ("b1", "c0"),
    ]


def test_equal_workloads_are_parked_by_one_evaluation():
    made = world(
        cq("solo", 4),
        want("big1", "solo", 5, t=-50),
        want("big2", "solo", 5, t=-40),
        want("big3", "solo", 5, p=-1),
        want("small", "solo", 1, p=-2),
    )

    tried = [[*waits(result), *admitted(result)] for result in (made.cycle() for _ in range(3))]

    assert tried == [["big1"], ["big3"], ["small"]]
    assert made.active("solo") == []


def test_a_strict_queue_is_blocked_by_its_head():
    made = world(
        cq("solo", 4, strict=True), want("big", "solo", 5), want("small", "solo", 1, p=-2)
    )

    tried = [[*waits(result), *admitted(result)] for result in (made.cycle() for _ in range(3))]

    assert tried == [["big"]] * 3


MPI = (pods("launcher", cpu=1), pods("workers", count=10, least=3, cpu="1500m"))


def test_partial_admission_leaves_out_as_few_pods_as_possible():
    result = world(cq("solo", 11), want("mpi", "solo", sets=MPI)).cycle()

    (admit,) = result.admitted

    assert [(one.name, one.count, one.usage[CPU]) for one in admit.pod_sets] == [
        ("launcher", 1, 1000),
        ("workers", 6, 9000),
    ]


def test_a_failed_partial_admission_reports_the_whole_request():
    result = world(cq("solo", 5), want("mpi", "solo", sets=MPI)).cycle()

    assert waits(result)["mpi"].message.endswith(
        "(1) + current podset request (15) > maximum capacity (5)"
    )


def test_flavors_not_yet_looked_at_are_tried_in_the_next_cycle():
    groups = [
        group({"f1": {"cpu": (4,)}, "f2": {"cpu": (4,)}}),
        group({"g1": {"nvidia.com/gpu": (2,)}}),
    ]
    both = [pods(cpu=1, nvidia_com__gpu=2)]
    made = world(
        cq("amber", groups=groups),
        held("old", "amber", p=9, usage={("g1", "nvidia.com/gpu"): 2}),
        want("new", "amber", p=1, sets=both),
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
    big = [pods(cpu=5, memory="5Gi", nvidia_com__gpu=3)]

    result = world(
        cq("amber", groups=groups), want("new", "amber", sets=big), flavors=("std", "acc")
    ).cycle()

    message = waits(result)["new"].message
    assert "cpu" in message
    assert "memory" in message
    assert "nvidia.com/gpu" not in message


def test_amounts_are_printed_in_the_unit_of_their_resource():
    resources = {"memory": ("1536Mi",), "ephemeral-storage": ("1G",), "example.com/gpu": (2000,)}
    asked = [pods(count=3, memory="513Mi", example_com__gpu=1000, ephemeral_storage="400M")]

    result = world(
        cq("amber", groups=[group({"std": resources})]), want("new", "amber", sets=asked)
    ).cycle()

    message = waits(result)["new"].message
    for asked_for, capacity in (("1539Mi", "1536Mi"), ("1171875Ki", "1G"), ("3k", "2k")):
        assert f"request ({asked_for}) > maximum capacity ({capacity})" in message


NEAR_FAR = {"near": {"cpu": (0,)}, "far": {"cpu": (0,)}}


def two(cohort: str | None, first: Quota, second: Quota, **more: Any) -> ClusterQueue:
    groups = [group({"fast": {"cpu": first}, "slow": {"cpu": second}})]
    return cq("amber", cohort=cohort, groups=groups, **more)


def lender(flavor: str, cpu: int) -> ClusterQueue:
    return cq("beryl", cohort="q", groups=[group({flavor: {"cpu": (cpu,)}})])


FAST_USED = held("old", "amber", usage={("fast", "cpu"): 3})
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
    result = world(*objects, want("new", "amber", cpu, p=5), flavors=("fast", "slow")).cycle()

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
    result = world(*objects, want("new", "amber", cpu, p=5), flavors=("fast", "slow")).cycle()

    assert evicted(result) == {"old": "InClusterQueue"}


def test_the_flavor_at_which_a_scan_stops_is_taken_even_if_an_earlier_one_was_better():
    made = world(
        two("q", (2,), (4,), within=LOWER, scan=(NEXT, STOP)),
        lender("fast", 4),
        held("old", "amber", usage={("slow", "cpu"): 4}),
        want("new", "amber", 3, p=5),
        flavors=("fast", "slow"),
    )

    assert evicted(made.cycle()) == {"old": "InClusterQueue"}


def test_a_flavor_without_victims_never_ends_a_scan():
    made = world(
        two("q", (4,), (0,), within=LOWER, scan=(NEXT, STOP)),
        lender("slow", 4),
        held("old", "amber", p=9, usage={("fast", "cpu"): 4}),
        want("new", "amber", 3, p=1),
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
        root, team, cq("t1", cohort="team", groups=[group(NEAR_FAR)], scan=(NEXT, NEXT)),
        want("new", "t1", 2), flavors=("near", "far"),
    )  # fmt: skip

    assert flavors_of(made.cycle()) == {"new": "far"}


def test_a_wait_carries_the_numbers_behind_it():
    made = world(
        cq("amber", 6, cohort="q"),
        cq("beryl", 10, cohort="q"),
        held("a", "amber", 2),
        held("b", "beryl", 9),
        want("new", "amber", 7),
    )

    (shortage,) = waits(made.cycle())["new"].shortages

    assert (shortage.requested, shortage.available, shortage.missing) == (7000, 5000, 2000)
    assert (shortage.nominal, shortage.limit) == (6000, 16000)
    assert shortage.holders == (("beryl", 9000), ("amber", 2000))


def test_what_is_held_back_for_who_waits_is_not_told_as_held():
    made = world(
        cq("amber", 6, cohort="q"),
        cq("beryl", 6, cohort="q"),
        held("a", "amber", 3),
        held("b", "beryl", 9),
        want("new", "amber", 3),
    )

    (shortage,) = waits(made.cycle())["new"].shortages

    assert (shortage.requested, shortage.available) == (3000, 0)
    assert shortage.holders == (("beryl", 9000), ("amber", 3000))


def test_a_demand_may_depend_on_the_flavor():
    memory = {"big": {"gpu-memory": (160,)}, "small": {"gpu-memory": (160,)}}
    slices = pods(count=2)
    asked = replace(
        slices,
        requests={GPU_MEMORY: 80},
        requests_by_flavor={FlavorName("small"): {GPU_MEMORY: 40}},
    )
    made = world(
        cq("amber", groups=[group(memory)]),
        held("old", "amber", usage={("big", "gpu-memory"): 1}),
        want("new", "amber", sets=[asked]),
        flavors=("big", "small"),
    )

    (admit,) = made.cycle().admitted

    assert admit.pod_sets[0].flavors == {GPU_MEMORY: "small"}
    assert admit.pod_sets[0].usage == {GPU_MEMORY: 80}


def test_a_request_beyond_64_bits_is_said_in_words():
    groups = [group({"std": {"memory": (8,)}})]
    made = world(cq("solo", groups=groups), want("huge", "solo", sets=[pods(memory="10E")]))

    (wait,) = waits(made.cycle()).values()

    assert "current podset request (an unlimited amount) > maximum capacity (8)" in wait.message
