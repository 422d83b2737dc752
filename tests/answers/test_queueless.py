"""What waits and is in no queue is found by who asks what of a namespace waits."""

from pathlib import Path
from typing import Any

import pytest

from admission.answers import cluster, queueless, why
from admission.answers.cluster import Wanted
from admission.answers.queueless import Queueless
from admission.base import names
from admission.kube import resources
from admission.reasons import sentences
from admission.reasons.next_steps import Code
from tests.answers.rights import OfTeam
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.pods import queued_pod
from tests.builders.queues import make_class, make_cluster_queue, make_flavor, make_local_queue
from tests.cli.served import Served, served
from tests.controller.world import World, ready_world

CLASS, QUEUE = names.PRIORITY_CLASS_LABEL, names.QUEUE_LABEL


def job(name: str, **labels: str) -> dict[str, Any]:
    document = make_job(name, labels=labels)
    document["metadata"]["namespace"] = "ml"
    return document


@pytest.fixture
def world() -> World:
    """Work that names a queue or a class that does not exist, beside some that waits as usual."""
    made = ready_world(quota=1)
    made.add(make_class("high", 7))
    made.add_pod("runs")
    made.settle()
    made.add_pod("waits")
    made.add_pod("lost", queue="speach")
    made.add_pod("classless", labels={CLASS: "hig"})
    made.add(job("typo", **{QUEUE: "speach"}), job("rush", **{QUEUE: "team-a", CLASS: "hig"}))
    made.settle()
    made.pass_time(3)
    return made


def found(world: World, namespace: str = "ml") -> dict[str, Queueless]:
    read = cluster.relate(cluster.read(world.store, Wanted(namespace="ml")))
    return {each.owner: each for each in queueless.of(world.store, read, namespace, namespace)}


def test_what_names_a_queue_or_a_class_that_does_not_exist_is_found_with_its_reason(
    world: World,
) -> None:
    told = found(world)
    assert {owner: (each.local_queue, each.reason) for owner, each in told.items()} == {
        "Pod lost": ("speach", Code.LOCAL_QUEUE_NOT_FOUND),
        "Job typo": ("speach", Code.LOCAL_QUEUE_NOT_FOUND),
        "Pod classless": ("team-a", Code.PRIORITY_CLASS_NOT_FOUND),
        "Job rush": ("team-a", Code.PRIORITY_CLASS_NOT_FOUND),
    }
    assert told["Job typo"].message == "Waits: LocalQueue speach does not exist in its namespace."
    for owner in ("Pod classless", "Job rush"):
        assert 'WorkloadPriorityClass "hig" not found' in told[owner].message


def test_what_has_its_queue_and_class_by_now_is_found_no_more(world: World) -> None:
    world.add(make_class("hig", 1), make_local_queue("speach", "gpus"))
    world.settle()
    world.pass_time(3)
    assert found(world) == {}


def test_in_all_namespaces_only_workloads_are_looked_for(world: World) -> None:
    assert set(found(world, "")) == {"Pod lost", "Job typo"}


ENFORCED = {
    **make_namespace(),
    "metadata": {"name": "ml", "labels": {names.ENFORCE_LABEL: "true"}},
}
PAUSED = sentences.suspended_without_queue().message


@pytest.fixture
def queue_required() -> World:
    """Pods and Jobs without a queue, where GPU pods need one."""
    made = World()
    made.add(ENFORCED, make_flavor(), make_cluster_queue(), make_local_queue())
    made.settle()
    pod = queued_pod("held", gpus=2)
    del pod["metadata"]["labels"][QUEUE]
    pod["metadata"]["annotations"] = {names.REQUESTER: "ada@example.com"}
    made.store.create(resources.PODS, pod, "ml")
    made.pass_time(3)
    for name, gpus, more in (
        ("paused", 1, {}),
        ("on-cpus", 0, {}),
        ("part", 1, {"ownerReferences": [{"kind": "JobSet", "name": "x", "uid": "u",
                                          "apiVersion": "jobset.x-k8s.io/v1alpha2"}]}),
    ):  # fmt: skip
        document = make_job(name, pods=3, gpus=gpus, suspend=True)
        document["metadata"] |= {"namespace": "ml", **more}
        made.add(document)
    return made


def test_a_pod_that_is_held_until_it_has_a_queue_is_told_in_all_namespaces(
    queue_required: World,
) -> None:
    told = found(queue_required, "")
    assert set(told) == {"Pod held"}
    held = told["Pod held"]
    assert (held.namespace, held.requester, held.local_queue) == ("ml", "ada@example.com", "")
    assert (held.asks, held.reason) == ({names.GPU_RESOURCE: 2}, Code.QUEUE_REQUIRED)
    assert held.since


def test_of_one_namespace_suspended_jobs_with_gpus_and_without_a_queue_are_told_too(
    queue_required: World,
) -> None:
    told = found(queue_required)
    assert set(told) == {"Pod held", "Job paused"}
    assert told["Job paused"].asks == {names.GPU_RESOURCE: 3}
    assert told["Job paused"].message == PAUSED


def test_queue_shows_what_is_held_without_a_queue_with_its_amount_and_user(
    queue_required: World, tmp_path: Path
) -> None:
    kinds = (*resources.BUILT_IN, *resources.CUSTOM)
    with served(queue_required.store, kinds, tmp_path) as kubeconfig:
        asked = Served(queue_required.store, kubeconfig, clock=queue_required.clock)
        text = "\n".join(asked.lines("queue", columns=200))
        told = asked.told("queue")["inNoQueue"]
    assert "in no queue: 1 pod or owner waits" in text
    row = next(line for line in text.splitlines() if "ml/pod/held" in line)
    assert row.split() == [
        "2", names.GPU_RESOURCE, "ml/pod/held", "3s", "none", "ada@example.com",
    ]  # fmt: skip
    assert "next: what one of them waits for: kubectl gpu why pod/held -n ml" in text
    assert [(each["owner"], each["asks"]) for each in told] == [
        ("Pod held", {names.GPU_RESOURCE: "2"})
    ]


def test_a_suspended_job_with_gpus_and_without_a_queue_is_told_to_take_one(
    queue_required: World,
) -> None:
    answer = why.explain(queue_required.store, "ml", "job/paused")
    assert (answer.reason, answer.message) == (Code.QUEUE_REQUIRED, PAUSED)
    assert names.QUEUE_LABEL in answer.advice
    assert why.explain(queue_required.store, "ml", "job/on-cpus").reason == Code.NOT_MANAGED


def say_by_event(world: World, name: str) -> None:
    """Tell that a class is missing, as the controller does of what has no condition."""
    metadata = world.store.get(resources.JOBS, name, "ml")["metadata"]
    regarding = {"kind": "Job", "name": name, "namespace": "ml", "uid": metadata["uid"]}
    for reason, note in (
        ("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "hig" not found'),
        ("Started", "of something else"),
    ):
        event = {
            "metadata": {"generateName": "e-", "namespace": "ml"}, "regarding": regarding,
            "reason": reason, "note": note, "type": "Warning",
            "eventTime": "2026-01-01T00:02:00.000000Z",
        }  # fmt: skip
        world.store.create(resources.EVENTS, event)


@pytest.mark.parametrize("is_member", [False, True])
def test_queue_lists_what_is_in_no_queue_for_who_asks_about_a_namespace(
    world: World, tmp_path: Path, is_member: bool
) -> None:
    if is_member:  # who may not read classes
        say_by_event(world, "rush")
    api: Any = OfTeam(world.store, "ml") if is_member else world.store
    with served(api, (*resources.BUILT_IN, *resources.CUSTOM), tmp_path) as kubeconfig:
        asked = Served(world.store, kubeconfig, clock=world.clock)
        text = "\n".join(asked.lines("queue", "-n", "ml"))
        told = asked.told("queue", "-n", "ml")
    assert "in no queue: 4 pods and owners wait" in text
    assert "LocalQueue speach does not exist" in text
    assert "next: what one of them waits for: kubectl gpu why job/rush -n ml" in text
    assert "Nobody waits" not in text
    assert {each["owner"] for each in told["inNoQueue"]} == {
        "Pod lost", "Job typo", "Pod classless", "Job rush",
    }  # fmt: skip
