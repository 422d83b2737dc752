"""No text decides: with a word more in each of them everything is decided and coded as before."""

import functools
import inspect
import random
from collections.abc import Callable, Iterator
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from admission.answers import why
from admission.base import events, names, patches
from admission.base.conditions import Text
from admission.base.events import Event
from admission.kube import resources
from admission.reasons import added_conditions, kueue, sentences
from tests.builders.queues import make_class, make_cluster_queue, make_local_queue
from tests.controller.world import World, ready_world

MORE = " X"
HIGH = {names.PRIORITY_CLASS_LABEL: "high"}
WORDS = (kueue, added_conditions, sentences, events)
"""Modules with texts."""
PARTS = frozenset({"message", "refusal", "capped", "sentence"})
"""Functions that return a message without its reason."""


def altered(value: Any) -> Any:
    """Return a text with a word more at both ends."""
    match value:
        case Text():
            return Text(value.reason, altered(value.message))
        case Event():
            return value._replace(note=altered(value.note))
        case str():
            return f"{MORE} {value}{MORE}"
        case _:
            return value


def with_more(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def told(*args: Any, **named: Any) -> Any:
        return altered(function(*args, **named))

    return told


def alter(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Append a word to every text of a module, whoever asks for it."""
    for name, value in vars(module).items():
        if isinstance(value, Text):
            monkeypatch.setattr(module, name, altered(value))
        elif isinstance(value, MappingProxyType) and name in {"PREEMPTED_FOR", "PODS_READY"}:
            monkeypatch.setattr(module, name, {key: altered(text) for key, text in value.items()})
        elif inspect.isfunction(value) and value.__module__ == module.__name__:
            returns = inspect.signature(value).return_annotation
            if returns in {Text, Event} or name in PARTS:
                monkeypatch.setattr(module, name, with_more(value))


# ----------------------------------------------------------------------------------- the story


def story() -> Iterator[World]:
    """Yield a cluster in which much waits, is preempted and stopped; once after each step."""
    world = ready_world(quota=4, rng=random.Random(1))
    world.add(
        make_class("high", 100), make_cluster_queue("stopped", quota=4),
        make_local_queue("stopped", "stopped"),
    )  # fmt: skip
    spec = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    marks = {f"{names.OWN_DOMAIN}/preemption-notice": "20s"}
    change = patches.merge({"metadata": {"annotations": marks}, "spec": spec})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    stop = patches.merge({"spec": {"stopPolicy": "Hold"}})
    world.store.patch(resources.CLUSTER_QUEUES, "stopped", stop)
    for name in ("a", "b"):
        world.add_pod(name, gpus=2)
    world.settle()
    for name in ("a", "b"):
        world.set_phase(name, "Running")
    world.add_pod("late", gpus=1)
    world.add_pod("large", gpus=64)
    world.add_pod("lost", queue="nowhere")
    world.add_pod("held", queue="stopped")
    world.add_pod("picky", gpus=1, nodeSelector={names.GPU_PRODUCT_LABEL: "t4"})
    world.settle()
    world.pass_time(40)
    yield world
    world.add_pod("urgent", gpus=2, labels=HIGH)
    world.settle()
    world.pass_time(5)
    yield world
    world = world.restarted()
    world.settle()
    world.pass_time(5)
    yield world
    world.pass_time(40)
    yield world
    unbound = {"type": "PodScheduled", "status": "False", "message": "no node has room"}
    status = patches.merge({"status": {"phase": "Pending", "conditions": [unbound]}})
    world.store.patch(resources.PODS, "urgent", status, "ml", subresource="status")
    world.settle()
    world.pass_time(100)
    yield world
    world = world.restarted()
    world.pass_time(100)
    yield world


def codes(world: World) -> dict[str, Any]:
    """Return what is decided in a cluster, without its texts."""
    found: dict[str, Any] = {"admitted": sorted(world.admitted())}
    for resource in (resources.PODS, resources.WORKLOADS, resources.CLUSTER_QUEUES,
                     resources.LOCAL_QUEUES):  # fmt: skip
        for document in world.store.list(resource, into=dict).items:
            status = document.get("status", {})
            told = [(one["type"], one["status"], one.get("reason"), one.get("lastTransitionTime"))
                    for one in status.get("conditions", ())]  # fmt: skip
            rest = {key: value for key, value in status.items() if key != "conditions"}
            marks = document["metadata"].get("annotations")
            key = f"{resource.kind} {document['metadata']['name']}"
            found[key] = (told, rest, marks, document["spec"].get("schedulingGates"))
    found["events"] = [(name, reason) for name, reason, _ in world.events.recorded]
    found["sent"] = [write.operation for write in world.sent]
    return found


SHOWN = ("state", "reason", "next", "place", "waiting", "flavors", "quota", "clusterQueue")


def answers(world: World) -> dict[str, Any]:
    """Return what `kubectl gpu why -o json` says of each pod, without its texts."""
    pods = [one["metadata"]["name"] for one in world.store.list(resources.PODS, into=dict).items]
    documents = {pod: why.document(why.explain(world.store, "ml", pod)) for pod in pods}
    return {
        pod: {key: document[key] for key in SHOWN} | {"said": document["condition"]["reason"]}
        for pod, document in documents.items()
    }


def messages(world: World) -> list[str]:
    """Return the messages of all conditions of pods and Workloads."""
    return [
        condition["message"]
        for resource in (resources.PODS, resources.WORKLOADS)
        for document in world.store.list(resource, into=dict).items
        for condition in document.get("status", {}).get("conditions", ())
        if condition["type"] != "PodScheduled"
    ]


def test_codes_events_evictions_and_preemptions_are_the_same_whatever_the_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [(codes(world), answers(world)) for world in story()]
    assert {reason for decided, _ in before for _, reason in decided["events"]} > {
        "EvictedDueToPreempted", "PreemptionNotice", "ExceedsMaxQuota", "LocalQueueNotFound",
        "CannotRun",
    }  # fmt: skip
    with monkeypatch.context() as patched:
        for module in WORDS:
            alter(patched, module)
        for (decided, answered), world in zip(before, story(), strict=True):
            assert codes(world) == decided
            assert answers(world) == answered
            assert all(MORE in message for message in messages(world))
