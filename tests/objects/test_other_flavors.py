"""Which pods a Workload says are in other flavors is what scheduling charges there."""

import msgspec
import pytest

from admission.base import names
from admission.base.names import FlavorName, PodSetName, ResourceName
from admission.objects import other_flavors, workload
from admission.scheduling.model import PodSetAssignment
from tests.builders.metadata import make_condition
from tests.builders.workloads import make_workload

SINCE, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
GPU, MEMORY = ResourceName(names.GPU_RESOURCE), ResourceName("memory")
PODS = (
    PodSetAssignment(
        name=PodSetName("main"),
        count=2,
        flavors={GPU: FlavorName("second"), MEMORY: FlavorName("second")},
        usage={GPU: 4, MEMORY: 2**31},
    ),
)


def elsewhere(annotations: object, since: str = SINCE) -> tuple[PodSetAssignment, ...]:
    """What scheduling reads of a Workload whose quota was reserved at a time."""
    made = make_workload(
        metadata={"name": "w", "namespace": "ml", "uid": "u", "annotations": annotations},
        status={
            "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main"}]},
            "conditions": [{**make_condition("QuotaReserved"), "lastTransitionTime": since}],
        },
    )
    reservation = workload.scheduling_value(msgspec.convert(made, workload.Workload)).reservation
    assert reservation is not None
    return reservation.elsewhere


def test_what_is_written_is_read():
    assert elsewhere(other_flavors.annotations(SINCE, PODS)) == PODS


def test_it_is_over_with_the_reservation_that_it_was_written_for():
    assert elsewhere(other_flavors.annotations(SINCE, PODS), since=LATER) == ()


def test_it_is_taken_off_where_all_pods_are_in_the_flavors_of_the_workload():
    assert other_flavors.annotations(SINCE, ()) == {names.IN_OTHER_FLAVORS: None}


def test_only_a_workload_whose_pods_ran_before_it_had_quota_can_say_it():
    written = {**other_flavors.annotations(SINCE, PODS)}
    del written[names.MADE_FOR_RUNNING]
    assert elsewhere(written) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [('"count":2', '"count":0'), ('"4"', '"four"'), ("{", "["), ('"pods":', '"pod":')],
)
def test_what_cannot_be_read_moves_nothing(before: str, after: str):
    written = other_flavors.annotations(SINCE, PODS)
    text = str(written[names.IN_OTHER_FLAVORS])
    assert before in text
    assert elsewhere({**written, names.IN_OTHER_FLAVORS: text.replace(before, after, 1)}) == ()
