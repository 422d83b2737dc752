"""The checker finds what it is there to find."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from admission.base import conditions, names
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.chaos import invariants
from tests.chaos.invariants import Json, World

GPU = names.GPU_RESOURCE


def cluster_queue(name: str, quota: int, *, used: int = 0, pending: int = 0, **more: Any) -> Json:
    limits = tuple(more.pop(key, None) for key in ("borrowingLimit", "lendingLimit"))
    usage = [{"name": "a100", "resources": [{"name": GPU, "total": str(used)}]}]
    status = {"flavorsUsage": usage, "pendingWorkloads": pending}
    return make_cluster_queue(name, quota=(str(quota), *limits), status=status, **more)


def workload(pod: str, gpus: int, *true: str, queue: str = "main") -> Json:
    assignment = {"flavors": {GPU: "a100"}, "resourceUsage": {GPU: str(gpus)}}
    admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
    owner = {"kind": "Pod", "uid": pod, "controller": True}
    return make_workload(
        f"pod-{pod}",
        make_pod_set(gpus=gpus),
        namespace="team",
        queue=queue,
        metadata={"ownerReferences": [owner]},
        status={
            "conditions": [{"type": kind, "status": "True"} for kind in true],
            **({"admission": admission} if "QuotaReserved" in true else {}),
        },
    )


def pod(name: str, *, gated: bool = False, waits: bool = False) -> Json:
    said = {"type": conditions.POD_ADMITTED, "status": "False", "message": "short of 1"}
    return make_pod(
        name,
        namespace="team",
        metadata={"uid": name},
        gates=[names.ADMISSION_GATE] if gated else [],
        nodeName="" if gated else "node-0",
        status={"conditions": [said] if waits else []},
    )


SURGES = conditions.USES_SURGE_QUOTA
ADMITTED = ("QuotaReserved", "Admitted")
GOOD = World(
    cluster_queues={"main": cluster_queue("main", 4, used=3, pending=1)},
    cohorts={},
    local_queues={("team", "main"): make_local_queue("main", "main", "team")},
    workloads=(workload("runs", 3, *ADMITTED), workload("waits", 2)),
    pods=(pod("runs"), pod("waits", gated=True, waits=True)),
    now=datetime(2026, 1, 1, tzinfo=UTC),
)


def of_cohort(*queues: Json, cohorts: dict[str, Json] | None = None) -> World:
    """Queues of one cohort, each named after the only pod in it."""
    return replace(
        GOOD, cluster_queues={q["metadata"]["name"]: q for q in queues}, cohorts=cohorts or {}
    )


def test_a_world_in_order_is_in_order() -> None:
    assert invariants.unsafe(GOOD) == []
    assert invariants.unsettled(GOOD) == []


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (replace(GOOD, workloads=(workload("runs", 5, *ADMITTED),)), "5 of .* used, 4 allowed"),
        (
            replace(GOOD, workloads=(workload("a", 3, *ADMITTED), workload("b", 2, *ADMITTED))),
            "5 of .* used, 4 allowed",
        ),
        (
            replace(GOOD, workloads=(workload("runs", 1, *ADMITTED, SURGES),)),
            "1 of .* surges, 0 allowed",
        ),
        (replace(GOOD, workloads=(workload("runs", 3),)), "was never admitted"),
        (
            replace(GOOD, workloads=(workload("runs", 1, *ADMITTED), workload("runs", 1))),
            "2 Workloads",
        ),
        (
            replace(
                of_cohort(
                    cluster_queue("main", 4, cohortName="all", borrowingLimit="1"),
                    cluster_queue("rich", 9, cohortName="all"),
                ),
                workloads=(workload("runs", 6, *ADMITTED),),
            ),
            "6 of .* used, 5 allowed",
        ),
        (
            replace(
                of_cohort(
                    cluster_queue("main", 4, cohortName="all"),
                    cluster_queue("mean", 4, cohortName="all", lendingLimit="1"),
                ),
                workloads=(workload("runs", 6, *ADMITTED),),
            ),
            "cohort all: 6 of .* taken, 5 there",
        ),
        (
            replace(
                of_cohort(
                    cluster_queue("main", 4, cohortName="low"),
                    cluster_queue("other", 1, cohortName="high"),
                    cohorts={"low": {"spec": {"parentName": "high"}}},
                ),
                workloads=(workload("runs", 6, *ADMITTED),),
            ),
            "cohort high: 6 of .* taken, 5 there",
        ),
    ],
    ids=["one", "sum", "surge", "no quota", "twice", "borrowing", "lending", "tree"],
)
def test_what_may_never_be_is_found(world: World, said: str) -> None:
    (found,) = invariants.unsafe(world)
    assert re.search(said, found)


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (replace(GOOD, pods=GOOD.pods[1:]), "pod-runs has no pod"),
        (replace(GOOD, pods=(*GOOD.pods, pod("new", gated=True))), "team/new has no Workload"),
        (
            replace(GOOD, pods=(pod("runs", gated=True), GOOD.pods[1])),
            "gated though its Workload is admitted",
        ),
        (
            replace(
                GOOD, workloads=(workload("runs", 3, *ADMITTED, "Evicted"), *GOOD.workloads[1:])
            ),
            "runs though its Workload is not admitted or evicted",
        ),
        (
            replace(GOOD, pods=(GOOD.pods[0], pod("waits", gated=True))),
            "waits does not say why",
        ),
        (
            replace(GOOD, pods=(pod("runs", waits=True), GOOD.pods[1])),
            "runs and says that it waits",
        ),
        (
            replace(GOOD, cluster_queues={"main": cluster_queue("main", 4, used=4, pending=1)}),
            "shows .*: 4}, held are .*: 3}",
        ),
        (
            replace(GOOD, cluster_queues={"main": cluster_queue("main", 4, used=3)}),
            "shows 0 pending, there are 1",
        ),
        (
            replace(GOOD, cluster_queues={"main": cluster_queue("main", 5, used=3, pending=1)}),
            "waits though a100 has room",
        ),
    ],
    ids=[
        "orphan",
        "no Workload",
        "gated",
        "evicted",
        "no reason",
        "stale reason",
        "double count",
        "pending",
        "idle quota",
    ],
)
def test_what_must_come_true_is_found(world: World, said: str) -> None:
    assert invariants.unsafe(world) == []
    (found,) = invariants.unsettled(world)
    assert re.search(said, found)


def test_a_late_reservation_is_borne_until_its_pod_starts() -> None:
    late = (*GOOD.workloads[:1], workload("late", 3, *ADMITTED))
    waiting = replace(GOOD, workloads=late, pods=(GOOD.pods[0], pod("late", gated=True)))
    started = replace(waiting, pods=(GOOD.pods[0], pod("late")))

    assert invariants.unsafe(waiting)
    assert not invariants.overrun(waiting)
    assert invariants.overrun(started)
