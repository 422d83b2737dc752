"""What a pod requests: sidecars, init containers, pod-level resources, overhead, defaults."""

from typing import Any

import pytest

from admission.base import pod_resources, quantity
from admission.base.pod_resources import Container, Pod

GIB = 2**30


def nanos(**amounts: Any) -> dict[str, int]:
    return {r.replace("_", "-"): quantity.parse_nano(str(v)) for r, v in amounts.items()}


def box(limits: dict[str, Any] | None = None, **amounts: Any) -> Container[int]:
    return Container(requests=nanos(**amounts), limits=nanos(**(limits or {})))


def init(**amounts: Any) -> Container[int]:
    return Container(is_init=True, requests=nanos(**amounts))


def sidecar(**amounts: Any) -> Container[int]:
    return Container(is_init=True, is_sidecar=True, requests=nanos(**amounts))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (Pod(containers=(box(cpu=1), box(cpu=2))), 3),
        (Pod(containers=(init(cpu=4), box(cpu=1))), 4),
        (Pod(containers=(sidecar(cpu=4), box(cpu=1))), 5),
        (
            Pod(
                containers=(init(cpu=4), sidecar(cpu=1), init(cpu=3), box(cpu=1), box(cpu=2)),
                overhead=nanos(cpu=1),
            ),
            5,
        ),
        (Pod(containers=(sidecar(cpu=2), init(cpu=4), box(cpu=1))), 6),
        (Pod(containers=(box(cpu=1),), pod_level=box(cpu=3), overhead=nanos(cpu=1)), 4),
        (Pod(containers=(box(cpu=4),), pod_level=box(cpu=3)), 3),
    ],
    ids=[
        "containers add up",
        "the largest init container counts",
        "a sidecar adds to the containers",
        "a sidecar counts for init containers after it, and overhead is added",
        "an init container runs beside the sidecars before it",
        "a pod-level request replaces the sum, and overhead is added",
        "a pod-level request replaces a larger sum, too",
    ],
)
def test_cpu_that_the_scheduler_reserves(pod, expected):
    """Source: KEP-753, KEP-2837."""
    assert pod_resources.requests(pod) == nanos(cpu=expected)


def test_a_pod_without_requests_requests_nothing():
    assert pod_resources.requests(Pod(containers=(box(), init()))) == {}


def test_pod_level_requests_decide_cpu_memory_and_huge_pages_only():
    asked = {"nvidia.com/gpu": 1, "memory": 1, "hugepages-2Mi": 1, "cpu": 1}
    level = dict.fromkeys(asked, 7)

    pod = Pod(containers=(Container(requests=asked),), pod_level=Container(requests=level))

    assert pod_resources.requests(pod) == {**level, "nvidia.com/gpu": 1}


def test_limit_ranger_takes_huge_pages_from_the_containers():
    """LimitRanger has a list of its own. Source: limitranger/admission.go."""
    asked = {"hugepages-2Mi": 1, "cpu": 1}
    pod = Pod(
        containers=(Container(requests=asked),),
        pod_level=Container(requests=dict.fromkeys(asked, 7)),
    )

    found = pod_resources.without_overhead(
        pod, lambda one: one.requests, pod_resources.is_pod_level_for_limit_range
    )

    assert found == {"hugepages-2Mi": 1, "cpu": 7}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (Pod(containers=(box({"cpu": 2, "memory": "1Gi"}, cpu=1),)), nanos(cpu=1, memory=GIB)),
        (
            Pod(containers=(box(cpu=1),), pod_level=box({"cpu": 4, "memory": "2Gi"})),
            nanos(cpu=1, memory=2 * GIB),
        ),
        (Pod(containers=(box({"cpu": 2}),), pod_level=box({"cpu": 4})), nanos(cpu=2)),
        (Pod(containers=(box(cpu=1),), pod_level=box({"cpu": 4}, cpu=3)), nanos(cpu=3)),
        (
            Pod(containers=(box(cpu=2, memory=GIB),), pod_level=box({"cpu": 4}, cpu=3)),
            nanos(cpu=3, memory=GIB),
        ),
        (
            Pod(
                containers=(box({"hugepages_2Mi": "4Mi"}, hugepages_2Mi="4Mi"),),
                pod_level=box({"hugepages_2Mi": "8Mi"}),
            ),
            nanos(hugepages_2Mi="8Mi"),
        ),
    ],
    ids=[
        "a missing request becomes the limit",
        "a missing pod-level request becomes what the containers request, else the limit",
        "the containers' own defaults come first",
        "a pod-level request stays",
        "resources of which the pod has no limit are summed up",
        "huge pages cannot be overcommitted: the pod-level limit decides",
    ],
)
def test_requests_after_the_defaults_of_the_api_server(pod, expected):
    """Source: kubernetes pkg/apis/core/v1/defaults.go (SetDefaults_Pod)."""
    assert pod_resources.requests(pod_resources.with_default_requests(pod)) == expected


def test_defaults_are_idempotent():
    pod = Pod(
        containers=(init(cpu=1), box({"cpu": 2, "memory": 1}, cpu=1)),
        pod_level=box({"cpu": 4, "memory": 3}),
    )

    once = pod_resources.with_default_requests(pod)

    assert pod_resources.with_default_requests(once) == once
