"""GPU requests are refused in the API server's words, and pods amount to what Kubernetes says."""

from typing import Any

import pytest

from admission.webhook import requests
from tests.builders.pods import make_pod
from tests.webhook import builders
from tests.webhook.builders import RULES, make_cluster, mutate

GPU = "nvidia.com/gpu"
RESOURCES = "spec.containers[0].resources"
NEGATIVE = "must be greater than or equal to 0"
NO_LIMIT = (
    "Limit must be set for non overcommitable resources; put nvidia.com/gpu into resources.limits,"
    " with the same amount"
)
INTEGER = (
    "must be an integer; for a part of a GPU set the annotation gpu-admission.dev/gpu-memory or"
    " gpu-admission.dev/mig-profile"
)
QUANTITY = "must be a Kubernetes quantity such as 1, 500m or 2Gi"


@pytest.mark.parametrize(
    ("wanted", "limits", "expected"),
    [
        ({GPU: "-1"}, {GPU: "-1"},
         [f'{RESOURCES}.limits[{GPU}]: Invalid value: "-1": {NEGATIVE}']),
        ({GPU: "500m"}, {GPU: "500m"},
         [f'{RESOURCES}.limits[{GPU}]: Invalid value: "500m": {INTEGER}']),
        ({GPU: "1"}, {},
         [f"{RESOURCES}.limits: Required value: {NO_LIMIT}"]),
        ({GPU: "1"}, {GPU: "2"},
         [f'{RESOURCES}.requests: Invalid value: "1": must be equal to {GPU} limit of 2']),
        ({}, {GPU: "1"}, []),
        ({GPU: "1"}, {GPU: "1000m"}, []),
        ({GPU: "lots"}, {GPU: "lots"},
         [f'{RESOURCES}.limits[{GPU}]: Invalid value: "lots": {QUANTITY}']),
    ],
    ids=["negative", "fractional", "no limit", "unequal", "no request", "equal", "no quantity"],
)  # fmt: skip
def test_gpu_requests_follow_the_rules_of_extended_resources(wanted, limits, expected):
    """Source: kubernetes pkg/apis/core/validation (ValidateResourceRequirements)."""
    pod = make_pod(requests=wanted, limits=limits)
    errors = mutate(pod, make_cluster("default")).errors
    assert [error.text() for error in errors] == expected


def test_an_unknown_mig_name_is_refused_with_the_rule():
    name = "nvidia.com/mig-1g"
    pod = make_pod(requests={name: "1"}, limits={name: "1"})
    errors = mutate(pod, make_cluster("default")).errors
    assert [error.text().partition(": ")[0] for error in errors] == [
        f"{RESOURCES}.limits[{name}]",
    ]  # fmt: skip


def test_other_resources_are_left_to_the_api_server():
    pod = make_pod(gpus=1, requests={"cpu": "2", "example.com/x": "1"}, limits={"cpu": "1"})
    assert mutate(pod, make_cluster("default")).errors == ()


def test_pods_outside_queues_are_left_to_the_api_server():
    assert mutate(make_pod(requests={GPU: "1"}), make_cluster("other")).errors == ()


def container(amount: int, **fields: Any) -> dict[str, Any]:
    stated = {GPU: str(amount), "cpu": f"{amount}"}
    return {"name": "c", "resources": {"limits": stated}, **fields}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("containers", "init", "amount"),
    [
        ([1, 2], [], 3),
        ([1], [container(4)], 4),
        ([1, 1], [container(1, **SIDECAR)], 3),
        ([1], [container(2, **SIDECAR), container(4)], 6),
        ([1], [container(4), container(2, **SIDECAR)], 4),
    ],
    ids=["sum", "largest init", "sidecar beside", "init beside sidecar", "init before sidecar"],
)
def test_a_pod_amounts_to_what_runs_together(containers, init, amount):
    """Source: Kubernetes KEP-753."""
    document = make_pod(containers=[container(n) for n in containers], initContainers=init)
    total = requests.total(builders.read(document))
    assert total == {GPU: amount, "cpu": amount * 1000}


def test_overhead_is_added_and_pod_level_requests_replace_the_sum():
    document = make_pod(
        gpus=1, requests={"cpu": "1"}, overhead={"cpu": "250m"},
        resources={"requests": {"cpu": "4"}},
    )  # fmt: skip
    assert requests.total(builders.read(document)) == {GPU: 1, "cpu": 4250}


def test_managed_names_count_init_containers_and_skip_zero():
    document = make_pod(
        requests={"nvidia.com/mig-1g.10gb": "0"},
        initContainers=[container(1), {"name": "n", "resources": {"limits": {"other": "1"}}}],
    )
    assert requests.managed_names(builders.read(document), RULES.managed) == (GPU,)
