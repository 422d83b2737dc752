"""LimitRanges and RuntimeClasses change what a waiting Workload asks for, never what one holds.

Source: kueue pkg/workload/resources.go (AdjustResources, ValidateLimitRange).
"""

from typing import Any

import msgspec
import pytest

from admission.base import names, patches
from admission.controller import core, watched
from admission.controller.devices import claims
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.reflector import Replaced
from admission.objects import pods, views
from admission.objects.workload import Workload
from admission.owners import integrations
from tests.builders.cluster import make_core_class, make_limit_range, make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.world import World, ready_world

ABOVE = (
    "resources didn't satisfy LimitRange constraints: "
    'spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: '
    "requests must not be above the limitRange max"
)


def cpu_world(quota: str = "10") -> World:
    """One team whose queue covers cpu and GPUs."""
    world = World()
    queue = make_cluster_queue()
    amounts = {"cpu": quota, names.GPU_RESOURCE: "8"}
    queue["spec"]["resourceGroups"] = [
        {
            "coveredResources": list(amounts),
            "flavors": [
                {
                    "name": "a100",
                    "resources": [{"name": n, "nominalQuota": q} for n, q in amounts.items()],
                }
            ],
        }
    ]
    world.add(make_namespace(), make_flavor(), queue, make_local_queue())
    world.settle()
    return world


def limit_range(name: str = "defaults", **item: Any) -> dict[str, Any]:
    return make_limit_range(name, {"type": "Container", **item}, namespace="ml")


def runtime_class(name: str, **overhead: str) -> dict[str, Any]:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": name,
        "overhead": {"podFixed": overhead},
    }


def workload(name: str, count: int = 1, **spec: Any) -> dict[str, Any]:
    """One made by hand: nobody has defaulted its containers."""
    pod = {"requests": spec.pop("asked", {}), **spec}
    return make_workload(name, make_pod_set("main", count, pod=pod))


def read(world: World, name: str) -> Workload:
    return world.store.get(resources.WORKLOADS, name, "ml", into=Workload)


def usage(world: World, name: str) -> dict[str, str]:
    """What a Workload holds; nothing while it waits."""
    admission = read(world, name).status.admission
    sets = (admission.pod_set_assignments or ()) if admission else ()
    return {r: str(v) for one in sets for r, v in (one.resource_usage or {}).items()}


def reason(world: World, name: str) -> tuple[str, str]:
    """Why it waits."""
    world.pass_time(3)
    found = read(world, name).status.condition("QuotaReserved")
    assert found is not None
    return found.reason, found.message


def test_a_hand_made_workload_is_charged_the_defaults_of_its_namespace() -> None:
    world = cpu_world()
    world.add(limit_range(defaultRequest={"cpu": "2"}))
    world.add(workload("defaulted", count=2), workload("asks", asked={"cpu": "1"}))
    world.settle()

    assert usage(world, "defaulted") == {"cpu": "4"}
    assert usage(world, "asks") == {"cpu": "1"}


def test_a_job_is_charged_the_defaults_of_its_namespace() -> None:
    world = cpu_world()
    world.add(limit_range(defaultRequest={"cpu": "2"}))
    world.add(queued_job(pods=2))
    world.settle()
    (found,) = world.workloads().values()

    assert usage(world, found.metadata.name) == {"cpu": "4", names.GPU_RESOURCE: "2"}


def test_the_overhead_of_a_runtime_class_is_charged_where_the_pod_names_none() -> None:
    world = cpu_world()
    world.add(runtime_class("kata", cpu="250m"))
    world.add(
        workload("by-class", asked={"cpu": "1"}, runtimeClassName="kata"),
        workload("own", asked={"cpu": "1"}, runtimeClassName="kata", overhead={"cpu": "500m"}),
        workload("unknown", asked={"cpu": "1"}, runtimeClassName="missing"),
    )
    world.settle()

    assert usage(world, "by-class") == {"cpu": "1250m"}
    assert usage(world, "own") == {"cpu": "1500m"}
    assert usage(world, "unknown") == {"cpu": "1"}


def test_the_nodes_of_a_runtime_class_are_those_of_pods_made_from_a_template() -> None:
    world = World()
    product = "nvidia.com/gpu.product"
    world.add(
        make_namespace(),
        make_flavor("a100"),
        make_flavor("h100"),
        make_cluster_queue(flavors=("a100", "h100"), quota=2),
        make_local_queue(),
        {**runtime_class("on-h100"), "scheduling": {"nodeSelector": {product: "h100"}}},
    )
    world.add(queued_job(pods=2, pod={"runtimeClassName": "on-h100"}))
    world.settle()
    started = world.store.get(resources.JOBS, "train", "ml")["spec"]
    assert not started["suspend"]
    assert started["template"]["spec"]["nodeSelector"] == {product: "h100"}


@pytest.mark.parametrize(("policy", "stays"), [("Never", True), ("PreemptLowerPriority", False)])
@pytest.mark.parametrize("by", ["pod", "class"])
def test_pods_of_a_class_that_preempts_nobody_wait(policy: str, stays: bool, by: str) -> None:
    world = ready_world(quota=1)
    preemption = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": preemption}))
    said = {**make_core_class("polite", 1000), "preemptionPolicy": policy}
    world.store.create(resources.PRIORITY_CLASSES, said)
    world.add_pod("low")
    world.settle()
    assert not world.is_gated("low")
    spec: dict[str, Any] = {"priorityClassName": "polite", "priority": 1000}
    if by == "pod":
        spec["preemptionPolicy"] = policy
    world.add_pod("high", spec=spec)
    world.pass_time(3)
    assert ("low" in world.workloads()) is stays
    if stays:
        assert world.is_gated("high")
        world.set_phase("low", "Succeeded")
        world.settle()
        assert not world.is_gated("high")


def test_a_pod_is_charged_what_the_api_server_made_of_it_and_nothing_on_top() -> None:
    world = cpu_world()
    world.add(limit_range(defaultRequest={"cpu": "2"}), runtime_class("kata", cpu="1"))
    container = {
        "name": "main",
        "image": "x",
        "resources": {
            "requests": {"cpu": "2", names.GPU_RESOURCE: "1"},
            "limits": {names.GPU_RESOURCE: "1"},
        },
    }
    spec = {"containers": [container], "runtimeClassName": "kata", "overhead": {"cpu": "1"}}
    world.add_pod("train", spec=spec)
    world.settle()
    (found,) = world.workloads().values()

    assert usage(world, found.metadata.name) == {"cpu": "3", names.GPU_RESOURCE: "1"}


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (limit_range(defaultRequest={"cpu": "2"}), limit_range(defaultRequest={"cpu": "20"})),
        (runtime_class("kata", cpu="1"), runtime_class("kata", cpu="19")),
    ],
    ids=["LimitRange", "RuntimeClass"],
)
def test_a_waiting_workload_follows_a_change_and_an_admitted_one_keeps_what_it_holds(
    small: dict[str, Any], large: dict[str, Any]
) -> None:
    world = cpu_world()
    world.add(large)
    if large["kind"] == "RuntimeClass":
        world.add(limit_range(defaultRequest={"cpu": "1"}))
    world.add(workload("waiting", runtimeClassName="kata"))
    assert reason(world, "waiting")[0] == "ExceedsMaxQuota"

    replace(world, small)
    world.settle()
    assert usage(world, "waiting") == {"cpu": "2"}

    replace(world, large)
    world.settle()
    assert usage(world, "waiting") == {"cpu": "2"}
    world.add(workload("next", asked={"cpu": "8"}))
    world.settle()
    assert usage(world, "next") == {"cpu": "8"}


def replace(world: World, document: dict[str, Any]) -> None:
    resource = resources.of_kind(document["apiVersion"], document["kind"])
    assert resource is not None
    metadata = document["metadata"]
    changes = {k: v for k, v in document.items() if k in {"spec", "overhead"}}
    world.store.patch(
        resource, metadata["name"], patches.merge(changes), metadata.get("namespace", "")
    )


def test_the_end_of_a_limit_range_is_the_end_of_its_defaults() -> None:
    world = cpu_world(quota="1")
    world.add(limit_range(defaultRequest={"cpu": "2"}))
    world.add(workload("w", asked={names.GPU_RESOURCE: "1"}))
    assert reason(world, "w")[0] == "ExceedsMaxQuota"

    world.store.delete(resources.LIMIT_RANGES, "defaults", "ml")
    world.settle()
    assert usage(world, "w") == {names.GPU_RESOURCE: "1"}


def test_a_workload_outside_the_bounds_of_its_namespace_says_so_until_they_widen() -> None:
    world = cpu_world()
    world.add(workload("w", asked={"cpu": "4"}), limit_range(max={"cpu": "2"}))

    assert reason(world, "w") == ("Misconfigured", ABOVE)
    replace(world, limit_range(max={"cpu": "4"}))
    world.settle()
    assert usage(world, "w") == {"cpu": "4"}


def test_a_workload_behind_others_does_not_go_on_naming_bounds_that_were_lifted() -> None:
    world = cpu_world(quota="4")
    queue = world.store.get(resources.CLUSTER_QUEUES, "gpus")["spec"]
    world.store.patch(
        resources.CLUSTER_QUEUES,
        "gpus",
        patches.merge({"spec": {**queue, "queueingStrategy": "StrictFIFO"}}),
    )
    world.add(workload("holder", asked={"cpu": "1"}))
    world.settle()
    world.add(workload("first", asked={"cpu": "4"}))
    world.settle()
    world.clock.advance(1)
    world.add(limit_range(max={"cpu": "4"}), workload("second", asked={"cpu": "5"}))
    assert reason(world, "second")[0] == "Misconfigured"

    world.store.delete(resources.LIMIT_RANGES, "defaults", "ml")
    assert reason(world, "second")[0] == "PendingEvaluation"


def test_what_was_decided_before_a_change_stands_though_its_write_is_under_way() -> None:
    """The write carries no precondition on the LimitRange: it will be done."""
    world = cpu_world()
    world.add(limit_range(defaultRequest={"cpu": "6"}))
    world.settle()
    world.add(workload("early"))
    world.observe()
    world.core.step()
    assert [write.operation for write in world.queued] == [WritePurpose.RESERVE_QUOTA]
    replace(world, limit_range(defaultRequest={"cpu": "20"}))
    world.add(workload("late", asked={"cpu": "6"}))
    world.observe()
    world.core.step()
    assert len(world.queued) == 1

    world.settle()
    assert usage(world, "early") == {"cpu": "6"}
    assert usage(world, "late") == {}


def test_nothing_is_decided_before_it_is_known_which_limits_there_are() -> None:
    world = cpu_world()
    other = world.restarted()
    world.add(workload("w"))
    for resource, into in watched.WATCHED.items():
        page = other.store.list(resource, into=into)
        other.core.receive(core.WatchMessage(resource, Replaced(page.items)))
    assert not other.core.synced

    rows = watched.rows(integrations.DEFAULT)
    for resource in (resources.RUNTIME_CLASSES, *claims.WATCHED, *rows):
        assert not other.core.synced
        other.core.receive(core.WatchMessage(resource, Replaced(())))
    assert other.core.synced


def test_a_spec_is_read_once_however_often_the_status_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_: list[str] = []
    original = pods.read

    def counting(spec: views.PodSpec, path: str, *args: Any) -> Any:
        read_.append(path)
        return original(spec, path, *args)

    monkeypatch.setattr(pods, "read", counting)
    world = cpu_world()
    world.add(workload("w", asked={"cpu": "4"}))
    world.settle()
    assert usage(world, "w") == {"cpu": "4"}
    assert len(read_) == 1

    ready = {
        "type": "PodsReady",
        "status": "True",
        "reason": "Started",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    conditions = [
        *(read(world, "w").status.conditions or ()),
        msgspec.convert(ready, views.Condition),
    ]
    change = patches.merge({"status": {"conditions": msgspec.to_builtins(conditions)}})
    world.store.patch(resources.WORKLOADS, "w", change, "ml", subresource="status")
    world.settle()
    assert len(read_) == 1

    world.store.patch(resources.WORKLOADS, "w", patches.merge({"spec": {"priority": 1}}), "ml")
    world.settle()
    assert len(read_) == 1, "it asks for the same"
    world.add(workload("other", asked={"cpu": "5"}))
    world.settle()
    assert len(read_) == 2
