"""How Workloads are counted by what keeps them from running."""

import pytest

from admission.base.names import LocalQueueKey, WorkloadKey
from admission.controller.queues.queue_counts import QueueCounts, Unadmitted, WorkloadCounts
from admission.objects.workload import Workload
from tests.builders.metadata import make_condition
from tests.builders.workloads import workload_view

QUEUE, OTHER = LocalQueueKey("ml", "team-a"), LocalQueueKey("ml", "team-b")


def workload(name: str, queue: str = "team-a", **conditions: str) -> Workload:
    """A Workload with conditions, each as ``True`` or as the reason why not."""
    found = [
        make_condition(
            kind, "True" if said == "True" else "False", kind if said == "True" else said
        )
        for kind, said in conditions.items()
    ]
    return workload_view(name, queue=queue, status={"conditions": found})


@pytest.mark.parametrize(
    ("conditions", "reason", "cause"),
    [
        ({}, "NoReservation", "PendingEvaluation"),
        (
            {"QuotaReserved": "WaitingForQuota", "Admitted": "NoReservation"},
            "NoReservation",
            "WaitingForQuota",
        ),
        (
            {"QuotaReserved": "True", "Admitted": "UnsatisfiedAdmissionChecks"},
            "UnsatisfiedAdmissionChecks",
            "",
        ),
        ({"QuotaReserved": "Suspended"}, "NoReservation", "Suspended"),
        ({"Admitted": "NoReservation"}, "NoReservation", "PendingEvaluation"),
    ],
    ids=["new", "waiting", "with open checks", "suspended", "without reservation"],
)
def test_what_keeps_a_workload_from_running(
    conditions: dict[str, str], reason: str, cause: str
) -> None:
    census = QueueCounts()
    census.on_update(workload("one", **conditions))

    assert census.count([QUEUE]) == WorkloadCounts(0, {Unadmitted(reason, cause): 1})


def test_a_workload_is_counted_once_wherever_it_moves() -> None:
    census = QueueCounts()
    census.on_update(workload("one"))
    census.on_update(workload("one", "team-b"))
    assert census.count([QUEUE]).unadmitted == {}
    assert sum(census.count([OTHER]).unadmitted.values()) == 1

    census.on_update(workload("one", "team-b", QuotaReserved="True", Admitted="True"))
    assert census.count([QUEUE, OTHER]) == WorkloadCounts(0, {})

    ended = {"QuotaReserved": "True", "Admitted": "True", "Finished": "True"}
    census.on_update(workload("one", "team-b", **ended))
    assert census.count([OTHER]) == WorkloadCounts(1, {})

    census.on_delete(WorkloadKey("ml", "one"))
    assert census.count([OTHER]) == WorkloadCounts(0, {})


def test_only_queues_whose_numbers_differ_are_told() -> None:
    census = QueueCounts()
    census.on_update(workload("one"))
    assert census.take_changed() == {QUEUE}

    census.on_update(workload("one"))
    census.on_delete(WorkloadKey("ml", "unknown"))
    assert census.take_changed() == frozenset()

    census.on_update(workload("two", "team-b"))
    assert census.take_changed() == {OTHER}
