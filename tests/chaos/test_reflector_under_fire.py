"""What the controller sees breaks in every way; its state is right again without a restart."""

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from tests.chaos import faults, invariants
from tests.chaos.flow import Stage
from tests.chaos.proxy import Json, Proxy
from tests.chaos.system import QUICK, System
from tests.controlplane import waiting
from tests.controlplane.rest import RestError

pytestmark = pytest.mark.controlplane

LIST = r"(pods|workloads)\?.*limit="
WATCH = r"(pods|workloads)\?.*watch="


@pytest.fixture(autouse=True)
def young(stage: Stage) -> None:
    """A new process: it has not been hurt, so that it is quick to try again."""
    stage.controller.kill()
    stage.controller.start()


def expire(proxy: Proxy) -> None:
    """Makes the controller list pods and Workloads anew."""
    for stream in proxy.streams(WATCH):
        stream.expire()


def break_off(proxy: Proxy) -> None:
    for stream in proxy.streams(WATCH):
        stream.reset()


def change_unseen(stage: Stage) -> None:
    """One pod goes and two come while the watches say nothing."""
    stage.create("first", 4)
    stage.system.until_released(stage.team, "first")
    for stream in stage.controller.proxy.streams(WATCH):
        stream.silence()
    stage.system.delete_pod(stage.team, "first")
    stage.create("second", 3)
    stage.create("third", 3)


def assert_right_again(stage: Stage) -> None:
    """One of the two new pods has quota, the other waits, and everything still moves."""
    world = invariants.await_all(stage.system.api)
    assert sum(invariants.usage_by_queue(world)[stage.team].values()) == 3
    (released,) = stage.system.released(stage.team)
    stage.system.delete_pod(stage.team, released)
    stage.system.until_released(stage.team, *({"second", "third"} - {released}))
    assert stage.controller.is_running


@pytest.mark.parametrize("hurt", [expire, break_off], ids=["410 Gone", "reset"])
def test_what_a_broken_watch_missed_is_found(stage: Stage, hurt: Callable[[Proxy], None]) -> None:
    change_unseen(stage)
    hurt(stage.controller.proxy)

    assert_right_again(stage)


def test_a_list_that_breaks_off_in_the_middle_is_repeated(stage: Stage) -> None:
    change_unseen(stage)
    rule = stage.controller.proxy.inject(faults.cut_in_the_middle, path=LIST, times=2)
    expire(stage.controller.proxy)
    rule.wait()

    assert_right_again(stage)


def test_a_list_that_takes_too_long_for_its_pages_is_taken_whole(stage: Stage) -> None:
    change_unseen(stage)
    rule = stage.controller.proxy.inject(faults.refuse(410), path=LIST, times=2)
    expire(stage.controller.proxy)
    rule.wait()

    assert_right_again(stage)


@pytest.mark.parametrize("status", [429, 500])
def test_a_server_that_sheds_load_is_asked_again_later(stage: Stage, status: int) -> None:
    change_unseen(stage)
    refusal = faults.refuse(status, retry_after=1)
    rules = [stage.controller.proxy.inject(refusal, path=path, times=2) for path in (LIST, WATCH)]
    rules.append(stage.controller.proxy.inject(refusal, method="POST|PUT|PATCH|DELETE", times=3))
    expire(stage.controller.proxy)
    for rule in rules:
        rule.wait()

    assert_right_again(stage)


def test_a_watch_that_goes_silent_is_noticed(system: System, stage: Stage) -> None:
    stage.controller.kill()
    silence = timedelta(seconds=10)  # a busy server answers a watch within it
    settings = QUICK.gpu.controller.model_copy(update={"watch_silence": silence})
    gpu = QUICK.gpu.model_copy(update={"controller": settings})
    impatient = QUICK.model_copy(update={"gpu": gpu})
    with system.controller("impatient", impatient) as controller:
        controller.start()
        change_unseen(Stage(system, controller, stage.team))
        assert_right_again(Stage(system, controller, stage.team))


def broken(pod: str) -> Callable[[Json], Json]:
    """Makes the Workload of a pod undecodable."""

    def rewrite(document: Json) -> Json:
        if document.get("metadata", {}).get("name", "").startswith(f"pod-{pod}-"):
            return {**document, "status": {"admission": "nobody can read this"}}
        return document

    return rewrite


def test_an_object_that_nobody_can_read_does_not_stop_the_others(stage: Stage) -> None:
    stage.controller.proxy.rewrite = broken("sick")
    stage.create("sick", 1)
    stage.create("well", 1)
    stage.system.wait_released(stage.team, "well")
    stage.controller.proxy.rewrite = None
    expire(stage.controller.proxy)

    stage.system.until_released(stage.team, "sick", "well")
    invariants.await_all(stage.system.api)


def test_quota_of_a_workload_that_nobody_can_read_any_more_is_not_given_away(
    stage: Stage,
) -> None:
    stage.create("first", 3)
    stage.system.until_released(stage.team, "first")
    stage.controller.proxy.rewrite = broken("first")
    lists = stage.controller.proxy.inject(lambda e: e.relay(), path=LIST, times=2)
    expire(stage.controller.proxy)
    lists.wait()
    stage.create("second", 3)
    stage.system.wait_condition(stage.team, "second")
    assert stage.system.released(stage.team) == {"first"}
    stage.controller.proxy.rewrite = None
    expire(stage.controller.proxy)

    invariants.await_all(stage.system.api)
    stage.system.delete_pod(stage.team, "first")
    stage.system.until_released(stage.team, "second")


def test_a_workload_that_goes_while_nobody_can_read_it_gives_its_quota_back(
    stage: Stage,
) -> None:
    stage.create("first", 3)
    stage.system.until_released(stage.team, "first")
    workload = stage.workload("first")
    stage.controller.proxy.rewrite = broken("first")
    stage.system.delete_pod(stage.team, "first")
    with suppress(RestError):  # unless the controller was first, which knows it from before
        stage.system.api.delete(workload)
    stage.create("second", 3)

    stage.system.until_released(stage.team, "second")
    invariants.await_all(stage.system.api)


def test_while_the_api_server_is_away_nothing_is_lost(stage: Stage) -> None:
    stage.create("first", 4)
    stage.system.until_released(stage.team, "first")
    with stage.controller.proxy.down():
        stage.system.delete_pod(stage.team, "first")
        stage.create("second", 3)
        stage.create("third", 3)

    assert_right_again(stage)


def create_in_spite_of_everything(stage: Stage, name: str) -> None:
    """Creates a pod of one GPU, however often that takes."""

    def created() -> bool:
        with suppress(OSError, RestError):
            stage.create(name, 1)
        path = f"/api/v1/namespaces/{stage.team}/pods/{name}"
        return stage.system.api.answers(path)

    waiting.until(created, what=f"pod {name} created")


def test_the_api_server_restarts_in_the_middle_of_everything(stage: Stage) -> None:
    pods = [f"pod{number}" for number in range(10)]
    for name in pods[:5]:
        create_in_spite_of_everything(stage, name)
    stage.system.cluster.stop_apiserver()
    stage.system.cluster.start_apiserver()
    for name in pods[5:]:
        create_in_spite_of_everything(stage, name)

    world = invariants.await_all(stage.system.api)
    assert sum(invariants.usage_by_queue(world)[stage.team].values()) == 4
    for name in stage.system.released(stage.team):
        stage.system.delete_pod(stage.team, name)
    waiting.until(lambda: len(stage.system.released(stage.team)) == 4, what="four others run")
    assert stage.controller.is_running


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_a_storm_of_faults_quota_is_never_given_twice(stage: Stage, seed: int) -> None:
    rng = random.Random(seed)
    proxy = stage.controller.proxy
    proxy.inject(faults.Storm(rng, 0.3), method="POST|PUT|PATCH|DELETE", times=None)
    for number in range(12):
        stage.create(f"pod{number}", rng.randint(1, 4))
        if rng.random() < 0.3:
            for name in sorted(stage.system.released(stage.team))[:1]:
                stage.system.delete_pod(stage.team, name)
        if rng.random() < 0.2:
            rng.choice([expire, break_off])(proxy)
        assert not invariants.unsafe(invariants.read(stage.system.api))
    proxy.heal()

    invariants.await_all(stage.system.api)
    assert stage.controller.is_running
