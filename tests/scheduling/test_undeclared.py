"""Resources that a ClusterQueue does not list: a request for them waits, or they are ignored."""

from typing import Any

import pytest

from admission.reasons import kueue
from admission.scheduling import model
from tests.builders.scheduling import cluster_queue, group, pod_set, waiting
from tests.scheduling.worlds import admitted, waits, world

GPU: dict[str, Any] = {"nvidia_com__gpu": 1}
NO_GPU = {"nvidia_com__gpu": 0}
IGNORING = model.Config(ignore_undeclared=True)


def asked(*requests: dict[str, Any], config: model.Config | None = None, cpu: int = 4) -> Any:
    """The cycle of a workload with a pod set for each of the requests."""
    sets = [pod_set(f"set-{number}", cpu=1, **one) for number, one in enumerate(requests)]
    return world(cluster_queue("q", cpu), waiting("new", "q", sets=sets), config=config).cycle()


def test_a_resource_that_the_queue_does_not_list_is_waited_for():
    message = kueue.message(waits(asked(GPU))["new"].why)
    assert message.endswith("resource nvidia.com/gpu unavailable in ClusterQueue")


def test_none_of_a_resource_needs_no_quota_for_it():
    assert admitted(asked(NO_GPU)) == ["new"]


@pytest.mark.parametrize("requests", [(GPU, NO_GPU), (NO_GPU, GPU)])
def test_each_pod_set_counts_on_its_own(requests):
    assert admitted(asked(*requests)) == []


@pytest.mark.parametrize("requests", [(GPU,), (NO_GPU,), (GPU, NO_GPU)])
def test_where_undeclared_resources_are_ignored_only_the_declared_ones_are_charged(requests):
    result = asked(*requests, config=IGNORING)
    assert admitted(result) == ["new"]
    (admission,) = result.admitted
    used = [dict(one.usage) for one in admission.pod_sets]
    assert used == [{"cpu": 1000}] * len(requests)


def test_where_undeclared_resources_are_ignored_the_declared_ones_still_limit():
    result = asked(GPU, GPU, config=IGNORING, cpu=1)
    assert "insufficient quota for cpu" in kueue.message(waits(result)["new"].why)


def test_flavors_of_two_groups_are_chosen_apart():
    groups = [group({"std": {"cpu": (4,)}}), group({"a100": {"nvidia.com/gpu": (2,)}})]
    made = world(
        cluster_queue("q", groups=groups),
        waiting("new", "q", sets=[pod_set(cpu=1, **GPU)]),
        flavors=("std", "a100"),
    )
    (admission,) = made.cycle().admitted
    assert dict(admission.pod_sets[0].flavors) == {"cpu": "std", "nvidia.com/gpu": "a100"}
