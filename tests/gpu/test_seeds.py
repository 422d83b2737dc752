"""Manifests that users already write: valid ones pass as they are, traps are told."""

from typing import Any

import pytest
import yaml

from admission.base import quantity
from admission.gpu import (
    bypass_rules,
    capacity,
    migparted,
    pluginconfig,
    resources,
)
from admission.gpu.health import DeviceReading, HealthPolicy
from admission.gpu.nodes import NodeFacts
from admission.gpu.rewrite import ContainerRequest, Refusal, Rewrite
from admission.objects import limit_range as limits
from admission.objects import resource_quota
from admission.objects.limit_range import ParsedLimitRange
from tests.gpu import seeds
from tests.gpu.builders import CATALOGUE, GIB, GPU, SHARED, make_flavor, mig, run

MANAGED = resources.managed()
A100 = make_flavor("a100-80gb", "NVIDIA-A100-SXM4-80GB", "cpu", "memory", GPU)
SLICED = make_flavor("a100-mig", "NVIDIA-A100-SXM4-80GB", mig("1g.10gb"), mig("3g.40gb"))
TIMED = make_flavor("t4", "Tesla-T4", SHARED, sharing="time-slicing", replicas=4)


def amounts_of(part: dict[str, Any]) -> dict[str, int]:
    return {name: quantity.to_canonical(name, str(text)) for name, text in part.items()}


def containers_of(spec: dict[str, Any]) -> tuple[ContainerRequest, ...]:
    made = []
    for container in spec["containers"]:
        limit = amounts_of(container["resources"].get("limits", {}))
        request = amounts_of(container["resources"].get("requests", {}))
        made.append(
            ContainerRequest(name=container["name"], limits=limit, requests={**limit, **request})
        )
    return tuple(made)


def limit_range(document: dict[str, Any]) -> ParsedLimitRange:
    keys = {
        "min": "min_",
        "max": "max_",
        "default": "default",
        "defaultRequest": "default_request",
    }
    items = [
        limits.item(item["type"], **{keys[k]: v for k, v in item.items() if k != "type"})
        for item in document["spec"]["limits"]
    ]
    return ParsedLimitRange(name=document["metadata"]["name"], items=tuple(items))


@pytest.mark.parametrize(
    ("name", "flavors", "flavor", "changed"),
    [
        ("mig-inference-pod", (A100, SLICED), "a100-mig", {}),
        ("training-pod", (A100, SLICED), "a100-80gb", {}),
        ("gpu-affinity-test", (A100,), "a100-80gb", {}),
        ("llama2-training", (A100,), "a100-80gb", {}),
        ("mig-demo-pod", (A100, SLICED), "a100-mig", {}),
    ],
)
def test_seed_pods_pass_unchanged(name, flavors, flavor, changed):
    pod = seeds.named("pods", "Pod", name)
    result = run(*containers_of(pod["spec"]), flavors=flavors)
    assert isinstance(result, Rewrite)
    assert (result.flavor, {c.name: c.amounts for c in result.containers}) == (flavor, changed)
    assert bypass_rules.of_pod(pod, MANAGED) == ()


def test_trap_01_a_pod_for_renamed_shares_is_rewritten_and_told():
    pod = seeds.named("pods", "Pod", "inference-pod")
    result = run(*containers_of(pod["spec"]), flavors=(TIMED,))
    assert isinstance(result, Rewrite)
    assert dict(result.containers[0].amounts) == {SHARED: 1}
    assert "offers nvidia.com/gpu.shared, not nvidia.com/gpu" in result.warnings[0]


def test_trap_13_all_devices_by_environment():
    pod = seeds.named("pods", "Pod", "inference-pod")
    (finding,) = bypass_rules.of_pod(pod, MANAGED)
    assert finding.severity is bypass_rules.Certainty.BYPASS
    assert "beyond the request of the container" in finding.text
    del pod["spec"]["containers"][0]["resources"]
    (finding,) = bypass_rules.of_pod(pod, MANAGED)
    assert finding.severity is bypass_rules.Certainty.BYPASS


def test_trap_05_a_slice_of_the_smaller_card():
    open_a100 = make_flavor("a100", "NVIDIA-A100-SXM4-80GB", "gpu-admission.dev/gpu-slices")
    pod = seeds.named("pods", "Pod", "mig-demo-pod")
    (container,) = pod["spec"]["containers"]
    container["resources"]["limits"] = {mig("1g.5gb"): 1}
    assert isinstance(run(*containers_of(pod["spec"]), flavors=(open_a100,)), Refusal)


def test_a_second_extended_resource_is_left_alone():
    job = seeds.named("services-and-gangs", "PyTorchJob", "distributed-training")
    spec = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    sliced = make_flavor("s", "A100-80GB", mig("1g.10gb"), profile="1g.10gb")
    result = run(*containers_of(spec), flavors=(sliced,), gang=True)
    assert isinstance(result, Rewrite)
    assert dict(result.containers[0].limits) == {
        "rdma/rdma_shared_device_a": 1,
        mig("1g.10gb"): 8,
    }
    assert "NVLink" in result.warnings[0]


def test_trap_08_the_seed_quota():
    quota = seeds.named("namespace-limits", "ResourceQuota", "gpu-quota")
    found = resource_quota.quota_traps(quota["spec"]["hard"])
    assert [finding.field for finding in found] == ["spec.hard[limits.nvidia.com/gpu]"]


def test_trap_09_and_11_the_seed_limit_range():
    document = seeds.named("namespace-limits", "LimitRange", "gpu-default-request")
    limited = limit_range(document)
    assert "T9" in [finding.rule for finding in limits.invalid(limited)]
    assert "T11" in [finding.rule for finding in limits.traps(limited)]


def test_trap_10_the_seed_maximum():
    limited = limit_range(seeds.named("namespace-limits", "LimitRange", "gpu-limit"))
    assert limits.invalid(limited) == ()
    (finding,) = limits.traps(limited)
    assert finding.rule == "T10"
    assert "requests 8" in finding.text


def readings(name: str) -> tuple[DeviceReading, ...]:
    device = seeds.named("nodes-and-devices", "Device", name)
    return tuple(
        DeviceReading(
            id=entry["id"],
            minor=entry["minor"],
            healthy=entry["health"],
            memory_bytes=quantity.to_canonical(
                "memory", entry["resources"]["koordinator.sh/gpu-memory"]
            ),
        )
        for entry in device["spec"]["devices"]
    )


@pytest.mark.parametrize(
    ("name", "units", "memory", "reason"),
    [
        ("node-gpu-1", 2, 32, "GPU 2 sick"),
        ("node-mixed-gpu", 2, 32, "GPUs of 2 kinds"),
    ],
)
def test_seed_nodes_count_what_is_healthy(name, units, memory, reason):
    devices = readings(name)
    node = NodeFacts(
        name=name,
        labels={"nvidia.com/gpu.product": "NVIDIA-Tesla-V100-SXM2-16GB"},
        allocatable={GPU: len(devices)},
        capacity={GPU: len(devices)},
        devices=devices,
    )
    found = capacity.of_node(node, CATALOGUE, HealthPolicy())
    assert (found.units, found.worth.memory_bytes) == ({GPU: units}, memory * GIB)
    assert reason in found.reasons[0]


@pytest.mark.parametrize(
    ("name", "strategy", "renamed", "replicas", "fails"),
    [
        ("any", "time-slicing", True, 4, False),
        ("inference", "time-slicing", True, 8, False),
        ("mps", "mps", False, 10, True),
    ],
)
def test_seed_sharing_configurations(name, strategy, renamed, replicas, fails):
    document = seeds.named("nodes-and-devices", "ConfigMap", "time-slicing-config")
    found = pluginconfig.read(yaml.safe_load(document["data"][name]))
    assert (found.strategy, found.renamed, found.replicas, found.fail_above_one) == (
        strategy,
        renamed,
        {GPU: replicas},
        fails,
    )


def test_trap_03_the_seed_mig_configuration():
    document = seeds.named("nodes-and-devices", "ConfigMap", "mig-parted-config")
    config = yaml.safe_load(document["data"]["config.yaml"])
    (finding,) = migparted.check(config, CATALOGUE, CATALOGUE.product("A100-80GB"))
    assert (finding.rule, finding.field) == ("T3", "mig-configs.all-3g.40gb[0].mig-devices")
    assert "{3g.40gb: 2} fits" in finding.text
