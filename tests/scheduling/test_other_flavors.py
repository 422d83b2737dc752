"""Pods that run in other flavors than their Workload has are charged there, and only there."""

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
from admission.scheduling import reserving
from admission.scheduling.model import PodSet, PodSetAssignment, Reservation, Workload

GPU = ResourceName("nvidia.com/gpu")
FIRST, SECOND = FlavorName("first"), FlavorName("second")
MAIN = PodSetName("main")


@pytest.mark.parametrize(
    ("reclaimable", "elsewhere", "charged"),
    [
        pytest.param(0, 0, (8, 0), id="all in one flavor"),
        pytest.param(0, 1, (6, 3), id="one costs more in the other flavor"),
        pytest.param(2, 1, (2, 3), id="two have ended"),
        pytest.param(2, 3, (0, 6), id="the Workload says of no more that they run elsewhere"),
        pytest.param(4, 2, (0, 0), id="all have ended"),
    ],
)
def test_a_pod_in_another_flavor_is_charged_there_and_only_there(
    reclaimable: int, elsewhere: int, charged: tuple[int, int]
):
    workload = Workload(
        key=WorkloadKey("ml", "w"),
        uid=Uid("u"),
        queue=LocalQueueKey("ml", "q"),
        pod_sets=(PodSet(name=MAIN, count=4, requests={GPU: 2}, reclaimable=reclaimable),),
    )
    assigned = PodSetAssignment(name=MAIN, count=4, flavors={GPU: FIRST}, usage={GPU: 8})
    part = PodSetAssignment(
        name=MAIN, count=elsewhere, flavors={GPU: SECOND}, usage={GPU: 3 * elsewhere}
    )
    reservation = Reservation(
        cluster_queue=ClusterQueueName("gpus"),
        pod_sets=(assigned,),
        elsewhere=(part,) if elsewhere else (),
    )
    usage = reserving.of(workload, reservation).usage
    in_flavors = tuple(usage.get(FlavorResource(name, GPU), 0) for name in (FIRST, SECOND))
    assert in_flavors == charged
