"""What the command asks the API server: little, and nothing of the whole cluster twice."""

from typing import Any

import pytest

from admission.answers import why
from admission.base import patches
from admission.kube import resources
from admission.reasons import sentences
from tests.builders.queues import make_cluster_queue
from tests.controller.world import World, ready_world

MOST = 5
"""Requests of `kubectl gpu why POD`."""


class Asked:
    """The API server, and what it was asked."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.requests: list[str] = []

    def get(self, resource: Any, *args: Any, **named: Any) -> Any:
        self.requests.append(f"get {resource.plural}")
        return self._api.get(resource, *args, **named)

    def list(self, resource: Any, *args: Any, **named: Any) -> Any:
        namespaces = [*args[:1], named.get("namespace")]
        where = "one namespace" if any(namespaces) else "the cluster"
        self.requests.append(f"list {resource.plural} of {where}")
        return self._api.list(resource, *args, **named)


def make_world(*, in_cohort: bool) -> World:
    """A queue in which two pods run and others wait, that say why."""
    world = ready_world(quota=4)
    if in_cohort:
        change = patches.merge({"spec": {"cohortName": "all"}})
        world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
        world.add(make_cluster_queue("lender", quota=2, cohortName="all"))
    for name, gpus in (("a", 2), ("b", 2), ("late", 4), ("later", 3), ("large", 64)):
        world.add_pod(name, gpus=gpus)
    world.settle()
    world.pass_time(40)
    return world


@pytest.mark.parametrize("in_cohort", [False, True], ids=["alone", "in a cohort"])
@pytest.mark.parametrize("pod", ["a", "late", "later", "large"])
def test_a_pod_is_explained_with_few_requests(pod: str, in_cohort: bool) -> None:
    world = make_world(in_cohort=in_cohort)
    api: Any = Asked(world.store)
    answer = why.explain(api, "ml", f"pod/{pod}")
    assert answer.message
    assert len(api.requests) <= MOST, api.requests
    assert len(set(api.requests)) == len(api.requests)
    assert not {"list workloads of the cluster", "list pods of the cluster"} & {*api.requests}


def test_the_place_of_a_pod_is_the_one_that_its_condition_says() -> None:
    world = make_world(in_cohort=False)
    places = {}
    for pod in ("late", "later"):
        answer = why.explain(world.store, "ml", f"pod/{pod}")
        assert (answer.is_about, answer.waiting) == (True, 3)
        assert f"{sentences.exact_place(answer.place or 0)} in queue gpus" in answer.message
        places[pod] = answer.place
    assert len({*places.values()} & {1, 2, 3}) == len(places)
