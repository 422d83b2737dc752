"""GPUs asked for by claim, from the objects to the status of the queue."""

from typing import Any

import pytest

from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_one_currency import (
    GPU,
    MEMORY,
    MIG,
    SLICES,
    flavor,
    make_world,
    queue,
    totals,
    usage_of,
    why,
    why_in_full,
)
from tests.controller.world import World

API = "resource.k8s.io/v1"
PROFILE = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"


def request(device_class: str = "gpu.nvidia.com", **exactly: Any) -> dict[str, Any]:
    """One request of a claim; ``selector`` is a CEL expression."""
    selector = exactly.pop("selector", None)
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    found = {"allocationMode": "ExactCount", "count": 1, **exactly}
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, **selectors, **found}}


def claim(name: str, *requests: dict[str, Any], namespace: str = "ml") -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": list(requests or (request(),))}},
    }


def template(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    spec = claim(name, *requests)["spec"]
    metadata = {"name": name, "namespace": "ml"}
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": spec},
    }


def device_class(name: str, selector: str = "", **spec: Any) -> dict[str, Any]:
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {**selectors, **spec},
    }


def add_pod(made: World, name: str, **changes: Any) -> None:
    """A pod with claims ``from_template`` or ``by_name``."""
    fields = {"from_template": "resourceClaimTemplateName", "by_name": "resourceClaimName"}
    named = [(fields[how], changes.pop(how)) for how in fields if how in changes]
    claims = [{"name": f"c{index}", field: one} for index, (field, one) in enumerate(named)]
    spec = {"resourceClaims": claims}
    made.add_pod(name, **{"gpus": 0, **changes, "spec": spec})
    made.settle()


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ([request()], {GPU: "1"}),
        ([request(count=2)], {GPU: "2"}),
        ([request(), request(count=3)], {GPU: "4"}),
        ([request("vfio.gpu.nvidia.com")], {GPU: "1"}),
        ([request("mig.nvidia.com", selector=PROFILE, count=3)], {MIG: "3"}),
        ([request("answers")], {GPU: "1"}),
        ([request("small")], {MIG: "1"}),
        ([request("driver", selector=PROFILE)], {GPU: "1"}),
        ([request(selector=f"true // {PROFILE}", count=7)], {GPU: "7"}),
        ([request("driver", selector="device.attributes['a'].b == 'c'")], {GPU: "1"}),
        ([{"name": "any", "firstAvailable": [
            {"name": "a", "deviceClassName": "answers"},
            {"name": "b", "deviceClassName": "gpu.nvidia.com"},
        ]}], {GPU: "1"}),
        ([{"name": "old", "deviceClassName": "gpu.nvidia.com", "count": 2}], {GPU: "2"}),
    ],
)  # fmt: skip
def test_req_27_a_claim_made_from_a_template_counts_for_each_pod_as_the_device_plugins_name(
    asked: list[dict[str, Any]], used: dict[str, str]
):
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=8, mig=8),
        make_local_queue(),
        device_class("answers", extendedResourceName=GPU),
        device_class("small", "device.driver == 'gpu.nvidia.com' && " + PROFILE),
        device_class("driver", "device.driver == 'gpu.nvidia.com'"),
        template("gpu", *asked),
    )
    add_pod(made, "a", from_template="gpu")
    assert made.admitted() == {"a"}
    assert {r: n for r, n in usage_of(made, "a").items() if n != "0"} == used


def test_req_27_both_ways_to_ask_draw_on_one_budget():
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", memory="170Gi", slices=15),
        make_local_queue(),
        template("whole"),
        template("slice", request("mig.nvidia.com", selector=PROFILE)),
    )
    add_pod(made, "plugin", gpus=1)
    add_pod(made, "claim", from_template="whole")
    add_pod(made, "slice", from_template="slice")
    assert made.admitted() == {"plugin", "claim", "slice"}
    assert usage_of(made, "claim") == usage_of(made, "plugin") == {MEMORY: "80Gi", SLICES: "7"}
    assert totals(made, "gpus") == {"a100": {MEMORY: "170Gi", SLICES: "15"}}
    add_pod(made, "more", from_template="slice")
    assert "needs 10Gi GPU memory of a100, 0 free of 170Gi" in why(made, "more")


def test_req_27_the_implicit_name_of_a_class_costs_what_the_class_does():
    made = make_world(
        flavor("a100", "A100-80GB"), queue("gpus", "a100", gpu=3), make_local_queue()
    )
    add_pod(made, "a", gpus=2, resource="deviceclass.resource.kubernetes.io/gpu.nvidia.com")
    assert usage_of(made, "a") == {GPU: "2"}


OF_DRIVER = "device.driver == 'gpu.nvidia.com'"
SMALL = f"{OF_DRIVER} && {PROFILE}"


@pytest.mark.parametrize(
    ("resource", "classes", "used"),
    [
        ("deviceclass.resource.kubernetes.io/ours", [("ours", OF_DRIVER, "")], {GPU: "2"}),
        ("deviceclass.resource.kubernetes.io/ours", [("ours", SMALL, "")], {MIG: "2"}),
        ("example.com/gold", [("ours", OF_DRIVER, "example.com/gold")], {GPU: "2"}),
        ("example.com/small", [("ours", SMALL, "example.com/small")], {MIG: "2"}),
        ("example.com/gold", [
            ("ours", OF_DRIVER, "example.com/gold"),
            ("nics", "device.driver == 'nic.example.com'", "example.com/gold"),
        ], {GPU: "2"}),
    ],
)  # fmt: skip
def test_req_27_a_resource_that_a_class_answers_costs_what_the_class_does(
    resource: str, classes: list[tuple[str, str, str]], used: dict[str, str]
):
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=2, mig=2),
        make_local_queue(),
        *(
            device_class(name, selector, **({"extendedResourceName": answers} if answers else {}))
            for name, selector, answers in classes
        ),
    )
    add_pod(made, "a", gpus=2, resource=resource)
    assert {r: n for r, n in usage_of(made, "a").items() if n != "0"} == used
    add_pod(made, "b", gpus=1, resource=resource)
    assert made.admitted() == {"a"}


def test_req_27_a_resource_is_not_counted_whose_classes_cost_differently():
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=2, mig=2),
        make_local_queue(),
        device_class("large", OF_DRIVER, extendedResourceName="example.com/gold"),
        device_class("small", SMALL, extendedResourceName="example.com/gold"),
    )
    add_pod(made, "a", gpus=1, resource="example.com/gold")
    assert made.admitted() == set()
    said = "example.com/gold is answered by the DeviceClasses large, small, which cost differently"
    assert said in why_in_full(made, "a")


def test_req_27_a_class_that_comes_later_decides_what_waits_for_it():
    made = make_world(
        flavor("a100", "A100-80GB"), queue("gpus", "a100", gpu=2), make_local_queue()
    )
    add_pod(made, "a", gpus=1, resource="example.com/gold")
    assert made.admitted() == set()
    made.add(device_class("ours", OF_DRIVER, extendedResourceName="example.com/gold"))
    made.settle()
    assert usage_of(made, "a") == {GPU: "1"}


def test_req_27_admin_access_costs_nothing():
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=1),
        make_local_queue(),
        template("watch", request(adminAccess=True, allocationMode="All")),
    )
    add_pod(made, "monitor", from_template="watch")
    add_pod(made, "train", gpus=1)
    assert made.admitted() == {"monitor", "train"}
    assert totals(made, "gpus") == {"a100": {GPU: "1"}}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request("nic.example.com"), "DeviceClass nic.example.com is not known to hand out GPUs"),
        (request("mig.nvidia.com"), "needs a selector for device.attributes.profile"),
        (
            request("mig.nvidia.com", selector=f"true // {PROFILE}"),
            "must be one comparison such as device.attributes['gpu.nvidia.com'].profile",
        ),
        (request(allocationMode="All"), "asks for allocationMode All; only ExactCount"),
        (
            {"name": "any", "firstAvailable": [
                {"name": "a", "deviceClassName": "gpu.nvidia.com", "count": 1},
                {"name": "b", "deviceClassName": "gpu.nvidia.com", "count": 2},
            ]},
            "request any has alternatives with different costs",
        ),
    ],
)  # fmt: skip
def test_req_27_what_cannot_be_counted_waits_and_says_why(asked: dict[str, Any], said: str):
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=8),
        make_local_queue(),
        template("odd", asked),
    )
    add_pod(made, "a", from_template="odd")
    assert made.admitted() == set()
    assert why(made, "a").startswith("spec.resourceClaims[0]")
    assert said in why_in_full(made, "a")


@pytest.mark.parametrize(
    ("reference", "document"),
    [({"from_template": "late"}, template("late")), ({"by_name": "late"}, claim("late"))],
)
def test_a_claim_that_is_missing_is_named_and_its_arrival_repairs_it(
    reference: dict[str, str], document: dict[str, Any]
):
    made = make_world(
        flavor("a100", "A100-80GB"), queue("gpus", "a100", gpu=1), make_local_queue()
    )
    add_pod(made, "a", **reference)
    assert f"{document['kind']} late not found in namespace ml" in why(made, "a")
    made.add(document)
    made.settle()
    assert made.admitted() == {"a"}


def test_a_class_that_becomes_known_repairs_what_waits_for_it():
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=1),
        make_local_queue(),
        template("gpu", request("ours")),
    )
    add_pod(made, "a", from_template="gpu")
    assert "DeviceClass ours is not known" in why(made, "a")
    made.add(device_class("ours", "device.driver == 'gpu.nvidia.com'"))
    made.settle()
    assert made.admitted() == {"a"}


def test_what_is_held_stays_when_template_and_claim_are_gone():
    made = make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=2),
        make_local_queue(),
        template("gpu"),
        claim("named"),
    )
    add_pod(made, "a", from_template="gpu", by_name="named")
    for kind, name in (
        (resources.RESOURCE_CLAIM_TEMPLATES, "gpu"),
        (resources.RESOURCE_CLAIMS, "named"),
    ):
        made.store.delete(kind, name, "ml")
    made.settle()
    assert totals(made, "gpus") == {"a100": {GPU: "2"}}
    again = made.restarted()
    again.settle()
    assert totals(again, "gpus") == {"a100": {GPU: "2"}}


def test_a_class_that_the_configuration_maps_is_counted_as_it_says():
    made = World(device_classes={"nic.example.com": "example.com/nics"})
    nic = "device.driver == 'nic.example.com'"
    made.add(device_class("nic.example.com", nic, extendedResourceName="example.com/nic"))
    document = make_cluster_queue(quota=1)
    (group,) = document["spec"]["resourceGroups"]
    group["coveredResources"].append("example.com/nics")
    group["flavors"][0]["resources"].append({"name": "example.com/nics", "nominalQuota": 4})
    nics = template("nics", request("nic.example.com", count=3))
    made.add(make_namespace(), make_flavor(), document, make_local_queue(), nics)
    add_pod(made, "a", from_template="nics")
    assert usage_of(made, "a")["example.com/nics"] == "3"
    add_pod(made, "b", from_template="nics")
    assert "needs 3 example.com/nics of a100, 1 free of 4" in why(made, "b")
    add_pod(made, "c", gpus=2, resource="example.com/nic")
    assert "needs 2 example.com/nics of a100, 1 free of 4" in why(made, "c")


def test_names_are_those_of_the_namespace():
    made = make_world(
        make_namespace("other"),
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=1),
        make_local_queue(),
        claim("mine", namespace="other"),
    )
    add_pod(made, "a", by_name="mine")
    assert "not found in namespace ml" in why(made, "a")


# ------------------------------------------------------------------------------- shared claims


def sharing_world(quota: int = 1, **claims: int) -> World:
    """A queue of so many GPUs, and ResourceClaims by name with their counts."""
    return make_world(
        flavor("a100", "A100-80GB"),
        queue("gpus", "a100", gpu=quota),
        make_local_queue(),
        *(claim(name, request(count=count)) for name, count in claims.items()),
    )


def test_req_27_a_claim_that_pods_share_counts_once():
    made = sharing_world(quota=1, shared=1)
    for name in "abc":
        add_pod(made, name, by_name="shared")
    assert made.admitted() == {"a", "b", "c"}
    assert totals(made, "gpus") == {"a100": {GPU: "1"}}
    assert {usage_of(made, name)[GPU] for name in "abc"} == {"1"}
    add_pod(made, "d", gpus=1)
    assert "needs 1 a100, 0 free" in why(made, "d")


def test_req_27_a_shared_claim_counts_until_the_last_pod_has_ended():
    made = sharing_world(quota=1, shared=1)
    for name in "ab":
        add_pod(made, name, by_name="shared")
    add_pod(made, "next", gpus=1)
    made.delete_pod("a")
    made.settle()
    assert totals(made, "gpus") == {"a100": {GPU: "1"}}
    assert made.admitted() == {"b"}
    again = made.restarted()
    again.settle()
    assert totals(again, "gpus") == {"a100": {GPU: "1"}}
    made.set_phase("b", "Succeeded")
    made.settle()
    assert made.admitted() == {"b", "next"}


def test_req_27_pods_that_wait_for_the_same_claim_need_it_once():
    made = sharing_world(quota=2, shared=2)
    add_pod(made, "before", gpus=1)
    for name in "ab":
        add_pod(made, name, by_name="shared")
    assert "needs 2 a100, 1 free" in why(made, "a")
    made.delete_pod("before")
    made.settle()
    assert made.admitted() == {"a", "b"}
    assert totals(made, "gpus") == {"a100": {GPU: "2"}}


def test_req_27_a_shared_claim_is_used_in_the_flavor_that_holds_it():
    made = make_world(
        flavor("first", "A100-80GB"),
        flavor("second", "NVIDIA-H100-NVL"),
        queue("gpus", "first", "second", memory="94Gi"),
        make_local_queue(),
        claim("shared"),
        template("own"),
    )
    add_pod(made, "early", gpus=1)
    add_pod(made, "a", by_name="shared")
    made.delete_pod("early")
    made.settle()
    add_pod(made, "b", by_name="shared")
    assert made.admitted() == {"a", "b"}
    assert usage_of(made, "a") == usage_of(made, "b") == {MEMORY: "94Gi"}
    assert totals(made, "gpus") == {"first": {MEMORY: "0"}, "second": {MEMORY: "94Gi"}}
    add_pod(made, "both", by_name="shared", from_template="own")
    said = why_in_full(made, "both")
    assert "ResourceClaim ml/shared is held in flavor second" in said


def test_req_27_all_pods_of_a_job_share_a_claim_once_and_have_one_of_a_template_each():
    made = sharing_world(quota=5, shared=2)
    claims = [
        {"name": "shared", "resourceClaimName": "shared"},
        {"name": "own", "resourceClaimTemplateName": "own"},
    ]
    container = {"name": "main", "image": "train"}
    pod = {"resourceClaims": claims, "containers": [container]}
    made.add(template("own"), queued_job(pods=3, pod=pod))
    made.settle()
    assert totals(made, "gpus") == {"a100": {GPU: "5"}}
    add_pod(made, "late", by_name="shared")
    assert "late" in made.admitted()
    assert totals(made, "gpus") == {"a100": {GPU: "5"}}


@pytest.mark.parametrize("cohort", ["", "both"])
def test_req_27_a_sharer_needs_room_in_its_own_queue(cohort: str):
    """A charge that moved with the claim filled a full queue again and again."""
    common: dict[str, Any] = {"cohortName": cohort} if cohort else {}
    made = make_world(
        flavor("a100", "A100-80GB"),
        *(queue(name, "a100", gpu=4, **common) for name in ("left", "right")),
        *(make_local_queue(name, name) for name in ("left", "right")),
        claim("shared", request(count=4)),
    )
    add_pod(made, "maker", by_name="shared", queue="left")
    add_pod(made, "full", gpus=4, queue="right")
    add_pod(made, "sharer", by_name="shared", queue="right")
    assert made.admitted() == {"maker", "full"}
    made.delete_pod("full")
    made.settle()
    assert made.admitted() == {"maker", "sharer"}
    add_pod(made, "second", by_name="shared", queue="right")
    made.delete_pod("maker")
    made.settle()
    assert made.admitted() == {"sharer", "second"}
    assert totals(made, "left") == {"a100": {GPU: "0"}}
    assert totals(made, "right") == {"a100": {GPU: "4"}}
    add_pod(made, "more", gpus=1, queue="right")
    assert made.admitted() == {"sharer", "second"} | ({"more"} if cohort else set())
