"""What all pods of a pod set need together counts once, however many they are."""

import pytest

from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.scheduling import podsets, reserving
from admission.scheduling.model import PodSet, PodSetAssignment, Reservation, Together, Workload

CPU, GPU = ResourceName("cpu"), ResourceName("nvidia.com/gpu")
A, B = FlavorName("a"), FlavorName("b")


def make_workload(**pod_set: object) -> Workload:
    made = PodSet(name=PodSetName("main"), **pod_set)  # type: ignore[arg-type]
    key = WorkloadKey("ml", "w")
    return Workload(
        key=key, uid=Uid("u"), queue=LocalQueueKey("ml", "q"), priority=0, pod_sets=(made,)
    )


def test_it_is_added_to_the_total_in_every_flavor():
    workload = make_workload(
        count=3,
        requests={CPU: 10, GPU: 1},
        requests_by_flavor={A: {GPU: 2}},
        together=(
            Together(key="a", requests={GPU: 4}, requests_by_flavor={B: {GPU: 6}}),
            Together(key="b", requests={GPU: 1}),
        ),
    )
    (demand,) = podsets.demands(workload)
    assert demand.requests == {CPU: 30, GPU: 8}
    assert [demand.in_flavor(one, GPU) for one in (A, B, FlavorName("c"))] == [11, 10, 8]
    assert [demand.in_flavor(one, CPU) for one in (A, B)] == [30, 30]


def test_fewer_pods_need_all_of_it():
    workload = make_workload(
        count=4,
        min_count=1,
        requests={GPU: 1},
        together=(Together(key="a", requests={GPU: 5, CPU: 1}),),
    )
    (demand,) = podsets.demands(workload)
    assert podsets.partial_steps((demand,)) == 3
    assert podsets.reduced((demand,), 3)[0].requests == {GPU: 6, CPU: 1}


def test_workloads_that_differ_in_it_are_not_equivalent():
    one, other = (
        make_workload(together=(Together(key="a", requests={GPU: amount}),)) for amount in (1, 2)
    )
    assert podsets.equivalence_key(one) != podsets.equivalence_key(other)


@pytest.mark.parametrize(("reclaimable", "used"), [(0, 8), (1, 7), (2, 6), (3, 0)])
def test_it_is_held_until_the_last_pod_has_ended(reclaimable: int, used: int):
    workload = make_workload(
        count=3, requests={GPU: 1}, reclaimable=reclaimable,
        together=(Together(key="a", requests={GPU: 4}, requests_by_flavor={A: {GPU: 5}}),),
    )  # fmt: skip
    assigned = PodSetAssignment(name=PodSetName("main"), count=3, flavors={GPU: A}, usage={GPU: 8})
    held = Reservation(cluster_queue=ClusterQueueName("gpus"), pod_sets=(assigned,))
    assert reserving.of(workload, held).usage == {FlavorResource(A, GPU): used}
    rest = {FlavorResource(A, GPU): 3 - reclaimable}
    assert reserving.of(workload, held, waived={"a"}).usage == rest
