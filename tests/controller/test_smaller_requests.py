"""The smaller request of a next step would not wait."""

import pytest

from admission.answers import why
from admission.base import names
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import World


@pytest.mark.parametrize(
    ("cpu", "step"), [(100, "wait, or ask for at most 3 a100; "), (4, "wait, or ask for less; ")]
)
def test_an_amount_of_gpus_is_a_next_step_where_gpus_alone_are_lacking(
    cpu: int, step: str
) -> None:
    world = World()
    quotas = {"a100": {names.GPU_RESOURCE: 4, "cpu": cpu}}
    world.add(
        make_namespace(),
        make_flavor("a100"),
        make_cluster_queue(quotas=quotas),
        make_local_queue(),
    )
    world.settle()
    for name, gpus in (("first", 1), ("train", 4)):
        world.add_pod(name, gpus=gpus, requests={"cpu": "3"})
        world.settle()
    world.pass_time(90)
    answer = why.explain(world.store, "ml", "pod/train")
    assert answer.reason == "WaitingForQuota"
    assert answer.advice.startswith(step)
