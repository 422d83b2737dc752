"""GPUs that a DRA driver publishes, as capacity: from slices and claims to who is admitted."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.kube import resources
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controller import test_claims
from tests.controller.test_capacity import add, condition, guarded, make_world, node
from tests.controller.test_one_currency import GPU, MEMORY, MIG, queue
from tests.controller.world import World

NAME = "NVIDIA A100-SXM4-80GB"
DRIVER = "gpu.nvidia.com"


def counters(gpu: int, taken: range) -> dict[str, Any]:
    amounts = {f"memory-slice-{index}": {"value": "1"} for index in taken}
    return {"counterSet": f"gpu-{gpu}-counter-set", "counters": amounts}


def device(name: str, gpu: int, taken: range, profile: str = "") -> dict[str, Any]:
    kind = {"type": {"string": "mig"}, "profile": {"string": profile}}
    return {
        "name": name,
        "attributes": {
            **(kind if profile else {"type": {"string": "gpu"}}),
            "productName": {"string": NAME},
            "index": {"int": gpu},
        },
        "capacity": {"memory": {"value": "80Gi"}},
        "consumesCounters": [counters(gpu, taken)],
    }


def resource_slice(
    name: str = "n0-gpu", node: str = "n0", gpus: int = 1, *, driver: str = DRIVER, **pool: int
) -> dict[str, Any]:
    """GPUs that can be cut into 1g.10gb, or used for passthrough."""
    devices = []
    for gpu in range(gpus):
        devices.append(device(f"gpu-{gpu}", gpu, range(8)))
        devices += [
            device(f"gpu-{gpu}-mig-{i}", gpu, range(i, i + 1), "1g.10gb") for i in range(7)
        ]
        passthrough = device(f"gpu-vfio-{gpu}", gpu, range(8))
        passthrough["attributes"]["type"]["string"] = "vfio"
        devices.append(passthrough)
    shared = [{"name": c["counterSet"], "counters": c["counters"]}
              for c in (counters(gpu, range(8)) for gpu in range(gpus))]  # fmt: skip
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1, **pool},
            "devices": devices,
            "sharedCounters": shared,
        },
    }


def bare_node(name: str = "n0") -> dict[str, Any]:
    """A node whose GPUs no device plugin offers."""
    return node(name)


def given(made: World, name: str, *devices: str, node: str = "n0") -> None:
    """The scheduler gives a claim its devices."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": d} for d in devices]
    status = {"allocation": {"devices": {"results": results}} if devices else None}
    made.store.patch(resources.RESOURCE_CLAIMS, name, patches.merge({"status": status}), "ml")
    made.settle()


def dra_world(quota: int = 8, gpus: int = 2, *documents: dict[str, Any]) -> World:
    made = make_world(
        bare_node(),
        guarded(make_cluster_queue(quota=quota)),
        make_local_queue(),
        resource_slice(gpus=gpus),
        *documents,
    )
    made.settle()
    return made


@pytest.mark.parametrize("order", [("node", "slice"), ("slice", "node")])
def test_req_28_published_gpus_are_the_capacity_of_a_node_without_a_device_plugin(
    order: tuple[str, str],
):
    documents = {"node": bare_node(), "slice": resource_slice(gpus=2)}
    made = make_world(guarded(make_cluster_queue(quota=8)), make_local_queue())
    for kind in order:
        made.add(documents[kind])
        made.settle()
    add(made, *"abc")
    assert made.admitted() == {"a", "b"}
    assert "quota promises 8, 2 exist (2 healthy)" in condition(made)[1]


def test_req_28_a_gpu_that_can_be_cut_is_counted_once_in_memory_and_in_full_by_name():
    made = make_world(
        bare_node(), resource_slice(), guarded(queue("gpus", "a100", memory="1Ti")),
        guarded(queue("slices", "a100", mig=9)),
    )  # fmt: skip
    assert "gpu-memory in flavor a100: quota promises 1Ti, 80Gi exist" in condition(made)[1]
    assert f"{MIG} in flavor a100: quota promises 9, 7 exist" in condition(made, "slices")[1]


def test_req_11_a_tainted_gpu_shrinks_what_the_next_pod_gets():
    made = dra_world(quota=8, gpus=2)
    add(made, "a")
    sick = resource_slice(gpus=2, generation=2)
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
    sick["spec"]["devices"][0]["taints"] = [taint]
    made.store.patch(resources.RESOURCE_SLICES, "n0-gpu", patches.merge({"spec": sick["spec"]}))
    made.settle()
    add(made, "b")
    assert made.admitted() == {"a"}
    assert "1 healthy, 1 sick" in condition(made)[1]


def test_a_pool_is_read_when_all_its_slices_are_there_and_only_in_its_newest_form():
    made = dra_world(quota=8, gpus=2)
    part = resource_slice("n0-more", gpus=1, generation=2, resourceSliceCount=2)
    made.add(part)
    made.settle()
    assert "2 exist" in condition(made)[1]
    part["metadata"]["name"] = "n0-rest"
    part["spec"]["devices"] = [device("gpu-9", 9, range(0))]
    part["spec"]["sharedCounters"] = []
    made.add(part)
    made.settle()
    assert "2 exist" in condition(made)[1]
    for old in ("n0-gpu", "n0-rest", "n0-more"):
        made.store.delete(resources.RESOURCE_SLICES, old)
        made.settle()
    made.pass_time(400)
    assert "0 exist" in condition(made)[1]


def test_slices_of_other_drivers_and_of_no_node_are_no_gpus():
    made = dra_world(quota=8, gpus=2)
    made.add(resource_slice("nics", driver="nic.example.com", gpus=4))
    fabric = resource_slice("fabric", gpus=4)
    del fabric["spec"]["nodeName"]
    made.add(fabric)
    made.settle()
    assert "2 exist" in condition(made)[1]


def add_holder(made: World, claim: str) -> None:
    """A pod on the node that no queue admitted, with a claim."""
    claims = [{"name": "gpu", "resourceClaimName": claim}]
    pod = make_pod(f"with-{claim}", nodeName="n0", resourceClaims=claims)
    made.store.create(resources.PODS, pod, "ml")
    made.settle()


def test_what_claims_of_others_hold_is_not_there_for_ours():
    made = dra_world(8, 2, test_claims.claim("theirs"), test_claims.claim("ours"))
    add_holder(made, "theirs")
    given(made, "theirs", "gpu-0-mig-3")
    given(made, "ours", "gpu-1")
    assert "quota promises 8, 1 exist" in condition(made)[1]
    add(made, *"ab")
    assert made.admitted() == {"a", "with-theirs"}
    given(made, "theirs")
    assert "quota promises 8, 2 exist" in condition(made)[1]


def test_req_28_what_is_free_follows_from_the_counters_of_what_is_held():
    made = make_world(
        bare_node(), resource_slice(gpus=2), queue("gpus", "a100", memory="1Ti", mig=20, gpu=9),
        make_local_queue(), test_claims.claim("a"),
    )  # fmt: skip
    given(made, "a", "gpu-0-mig-0", "gpu-0-mig-1")
    made.pass_time(6)
    capacity = made.parts.quota.inventory._capacities.capacity("a100")
    assert (capacity.free[GPU], capacity.free[MIG]) == (1, 12)
    assert (capacity.real[GPU], capacity.real[MIG]) == (2, 14)
    assert capacity.free[MEMORY] == (160 - 20) * 2**30
    given(made, "a")
    assert made.parts.quota.inventory._capacities.capacity("a100").free[MIG] == 14


def test_admin_access_holds_nothing():
    made = dra_world(8, 2, test_claims.claim("watch"))
    add_holder(made, "watch")
    results = [{"driver": DRIVER, "pool": "n0", "device": "gpu-0", "adminAccess": True}]
    status = {"allocation": {"devices": {"results": results}}}
    made.store.patch(resources.RESOURCE_CLAIMS, "watch", patches.merge({"status": status}), "ml")
    made.settle()
    assert "2 exist" in condition(made)[1]


def test_pods_without_a_queue_hold_the_claims_that_they_name_and_those_that_were_made_for_them():
    claimed = ("named", "made", "extended", "of-job")
    made = dra_world(4, 4, *map(test_claims.claim, claimed))
    status = {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    }
    of_job = {names.PODSET_LABEL: "main"}
    for name, labels, claim in (("theirs", {}, "named"), ("job", of_job, "of-job")):
        claims = [{"name": "a", "resourceClaimName": claim}]
        document = make_pod(name, labels=labels, nodeName="n0", resourceClaims=claims)
        made.store.create(resources.PODS, document, "ml")
    made.store.patch(
        resources.PODS, "theirs", patches.merge({"status": status}), "ml", subresource="status"
    )
    made.settle()
    for index, name in enumerate(claimed):
        given(made, name, f"gpu-{index}")
    assert "quota promises 4, 1 exist" in condition(made)[1]
