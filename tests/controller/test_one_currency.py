"""Whole GPUs, slices and shares on one budget, from ClusterQueue to status."""

from typing import Any

import pytest

from admission.base import conditions, names, patches
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue, own
from tests.controller.world import World

GPU, MEMORY, SLICES = names.GPU_RESOURCE, names.GPU_MEMORY, names.GPU_SLICES
MIG = "nvidia.com/mig-1g.10gb"
SHARED = names.GPU_SHARED_RESOURCE


def flavor(name: str, product: str, **marks: str) -> dict[str, Any]:
    return make_flavor(name, product=product, annotations=own(**marks))


def queue(name: str, *flavors: str, **quotas: Any) -> dict[str, Any]:
    """A ClusterQueue of one group; quotas by short name, the same in every flavor."""
    known = {"memory": MEMORY, "slices": SLICES, "gpu": GPU, "mig": MIG, "shared": SHARED}
    amounts = {known[key]: value for key, value in quotas.items() if key in known}
    spec = {key: value for key, value in quotas.items() if key not in known}
    return make_cluster_queue(name, quotas=dict.fromkeys(flavors, amounts), **spec)


def make_world(*documents: dict[str, Any]) -> World:
    made = World()
    made.add(make_namespace(), *documents)
    made.settle()
    return made


def add_pods(made: World, **amounts: tuple[str, int]) -> None:
    """Pods by name, one after the other, each with what it asks for."""
    for name, (resource, count) in amounts.items():
        made.add_pod(name, gpus=count, resource=resource)
        made.settle()


def usage_of(made: World, pod: str) -> dict[str, str]:
    """Resources that the assignment of a pod's Workload carries."""
    admission = made.workloads()[pod].status.admission
    assert admission is not None
    (assigned,) = admission.pod_set_assignments or ()
    return {name: str(value) for name, value in (assigned.resource_usage or {}).items()}


def totals(made: World, name: str) -> dict[str, dict[str, str]]:
    """What a ClusterQueue's status says is used, by flavor and resource."""
    made.pass_time(2)
    found = made.status_of(name)["flavorsUsage"]
    return {one["name"]: {r["name"]: r["total"] for r in one["resources"]} for one in found}


def why(made: World, pod: str) -> str:
    """What a waiting pod says."""
    made.pass_time(3)
    found = made.condition(pod)
    assert found is not None
    return found.message


def why_in_full(made: World, pod: str) -> str:
    """What the Workload of a waiting pod says, of every flavor."""
    made.pass_time(3)
    found = made.workloads()[pod].status.condition(conditions.QUOTA_RESERVED)
    assert found is not None
    return found.message


def test_whole_gpus_slices_and_shares_draw_on_one_budget():
    made = make_world(
        flavor("a100", "A100-80GB"),
        flavor("t4", "T4", sharing="time-slicing", replicas="4"),
        queue("gpus", "a100", "t4", memory="100Gi", slices=14),
        make_local_queue(),
    )
    add_pods(made, whole=(GPU, 1), slice=(MIG, 2), share=(SHARED, 2), more=(MIG, 1))
    assert made.admitted() == {"whole", "slice", "share"}
    assert usage_of(made, "whole") == {MEMORY: "80Gi", SLICES: "7"}
    assert usage_of(made, "slice") == {MEMORY: "20Gi", SLICES: "2"}
    assert usage_of(made, "share") == {MEMORY: "8Gi", SLICES: "4"}
    assert totals(made, "gpus") == {
        "a100": {MEMORY: "100Gi", SLICES: "9"},
        "t4": {MEMORY: "8Gi", SLICES: "4"},
    }
    assert "T4 has no such profile" in why_in_full(made, "more")


def test_the_same_name_costs_what_the_flavor_is_made_of():
    made = make_world(
        flavor("a100", "A100-80GB"),
        flavor("h100", "NVIDIA-H100-NVL"),
        queue("gpus", "a100", "h100", memory="100Gi", slices=14),
        make_local_queue(),
    )
    add_pods(made, first=(GPU, 1), second=(GPU, 1), third=(GPU, 1))
    assert made.admitted() == {"first", "second"}
    assert [usage_of(made, pod)[MEMORY] for pod in ("first", "second")] == ["80Gi", "94Gi"]


def test_the_dominant_resource_binds_and_devices_may_be_listed_beside():
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", memory="320Gi", slices=14, gpu=8),
        make_local_queue(),
    )
    add_pods(made, first=(GPU, 2), second=(GPU, 1))
    assert made.admitted() == {"first"}
    assert usage_of(made, "first") == {GPU: "2", MEMORY: "160Gi", SLICES: "14"}
    assert "needs 7 GPU slices of a100, 0 free" in why(made, "second")


def test_memory_is_borrowed_lent_and_taken_back_like_any_resource():
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", memory="80Gi", cohortName="all"),
        queue(
            "other", "a100", memory="80Gi", preemption={"reclaimWithinCohort": "Any"},
            cohortName="all",
        ),
        make_local_queue(),
        make_local_queue("team-b", "other"),
    )  # fmt: skip
    add_pods(made, own=(GPU, 1), borrowed=(MIG, 8))
    assert made.admitted() == {"own", "borrowed"}
    made.pass_time(2)
    (shown,) = made.status_of("gpus")["flavorsUsage"]
    assert shown["resources"] == [{"name": MEMORY, "total": "160Gi", "borrowed": "80Gi"}]
    made.add_pod("owner", queue="team-b", gpus=8, resource=MIG)
    made.settle()
    assert "owner" in made.admitted()
    assert totals(made, "gpus") == {"a100": {MEMORY: "80Gi"}}
    assert totals(made, "other") == {"a100": {MEMORY: "80Gi"}}


def test_a_flavor_whose_nodes_do_not_offer_the_name_is_ruled_out_with_the_reason():
    made = make_world(
        flavor("slices", "A100-80GB", mig_profile="1g.10gb"),
        queue("gpus", "slices", memory="800Gi"),
        make_local_queue(),
    )
    add_pods(made, whole=(GPU, 1), slice=(MIG, 1))
    assert made.admitted() == {"slice"}
    assert "flavor slices offers nvidia.com/mig-1g.10gb, not nvidia.com/gpu" in why(made, "whole")


def test_a_changed_product_or_coverage_counts_waiting_pods_anew():
    made = make_world(
        flavor("gpus", "A100-80GB"), queue("gpus", "gpus", memory="40Gi"), make_local_queue()
    )
    add_pods(made, whole=(GPU, 1))
    assert made.admitted() == set()
    annotate = patches.merge({"metadata": {"annotations": {names.FLAVOR_PRODUCT: "A100-40GB"}}})
    made.store.patch(resources.RESOURCE_FLAVORS, "gpus", annotate)
    made.settle()
    assert made.admitted() == {"whole"}
    add_pods(made, slice=(MIG, 1))
    assert "needs 10Gi GPU memory of gpus, 0 free" in why(made, "slice")
    spec = queue("gpus", "gpus", slices=8)["spec"]
    made.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": spec}))
    made.settle()
    assert made.admitted() == {"whole", "slice"}


def test_memory_listed_later_counts_what_is_held_already():
    made = make_world(
        flavor("a100", "A100-80GB"), queue("gpus", "a100", gpu=8), make_local_queue()
    )
    add_pods(made, first=(GPU, 2))
    assert usage_of(made, "first") == {GPU: "2"}
    spec = queue("gpus", "a100", gpu=8, memory="200Gi")["spec"]
    made.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": spec}))
    made.settle()
    assert totals(made, "gpus") == {"a100": {GPU: "2", MEMORY: "160Gi"}}
    add_pods(made, second=(GPU, 1))
    assert made.admitted() == {"first"}
    again = made.restarted()
    again.settle()
    assert again.admitted() == {"first"}
    made.delete_pod("first")
    made.settle()
    assert made.admitted() == {"second"}


def test_a_restart_and_objects_in_any_order_count_the_same():
    made = make_world(
        flavor("a100", "A100-80GB"), queue("gpus", "a100", memory="100Gi"), make_local_queue()
    )
    add_pods(made, whole=(GPU, 1), slice=(MIG, 3))
    again = made.restarted()
    again.settle()
    assert again.admitted() == {"whole"}
    assert totals(again, "gpus") == {"a100": {MEMORY: "80Gi"}}


def test_a_flavor_without_known_product_says_what_to_set():
    made = make_world(
        flavor("odd", "RTX-9999"), queue("gpus", "odd", memory="1Ti"), make_local_queue()
    )
    add_pods(made, whole=(GPU, 1))
    assert f"set its annotation {names.FLAVOR_PRODUCT}" in why(made, "whole")


def costs(made: World, name: str) -> tuple[str, str]:
    """Status and text of the condition about costs; empty where there is none."""
    made.pass_time(2)
    found = made.status_of(name).get("conditions", [])
    return next(
        ((c["status"], c["message"]) for c in found if c["type"] == conditions.COSTS_EXACT),
        ("", ""),
    )


def test_req_02_a_queue_says_which_of_its_costs_are_assumed():
    made = make_world(
        flavor("any", ""),
        queue("gpus", "any", memory="1Ti", mig=8),
        queue("devices", "any", mig=8),
        make_local_queue(),
    )
    status, text = costs(made, "gpus")
    assert (status, text.partition(" over ")[0]) == (
        "False",
        "flavor any: 1g.10gb is counted at its highest cost",
    )
    assert text.endswith("because the flavor names no product")
    assert costs(made, "devices") == ("", "")
    named = patches.merge({"metadata": {"annotations": {names.FLAVOR_PRODUCT: "A100-80GB"}}})
    made.store.patch(resources.RESOURCE_FLAVORS, "any", named)
    made.settle()
    assert costs(made, "gpus") == ("True", "The products of all flavors are known")
    spec = queue("gpus", "any", mig=8)["spec"]
    made.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": spec}))
    made.settle()
    assert costs(made, "gpus") == ("", "")


@pytest.mark.parametrize("name", ["nvidia.com/mig-1g.11gb", "nvidia.com/mig-1c.2g.20gb"])
def test_req_01_a_name_that_no_product_has_is_never_free(name: str):
    made = make_world(
        flavor("a100", "A100-80GB"), queue("gpus", "a100", memory="1Ti"), make_local_queue()
    )
    add_pods(made, odd=(name, 1))
    assert made.admitted() == set()
    assert "flavor a100" in why(made, "odd")
