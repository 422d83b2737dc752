"""``python -m tests.traces``: how much code a reader crosses to follow one thing.

Counted are modules and functions of `admission`, without the sandbox, that run while

* a pod goes from seen to released, in the controller;
* a Workload changes by nothing but a label: on receipt, and in the next turn of the loop;
* the quota of a ClusterQueue is edited: on receipt, and until nothing is left to do;
* the webhook answers a review of a GPU pod.

The store and the clock are those of the tests, so HTTP and threads are not counted.

Counted are also the dictionaries, sets and lists below the core in which a running pod stands, by
itself or by its Workload: a fact is kept once, and each further container has to be kept equal.
What a `Table` keeps equal by itself, its declared indexes and tallies, is counted apart.
"""

import argparse
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import structlog

import admission
from admission.base import patches
from admission.base.tables import Index, Tally, UniqueIndex
from admission.controller import core
from admission.kube import resources
from admission.kube.reflector import Upserted
from admission.kube.resources import Resource
from tests.builders.cluster import make_node
from tests.builders.pods import group_pod, make_pod
from tests.builders.queues import make_cluster_queue
from tests.controller.world import WATCHED, CountedWorld, World, ready_world
from tests.webhook import reviews

_ROOT = Path(admission.__file__).parent


class Crossed(NamedTuple):
    """What was crossed.

    Attributes:
        modules: paths below `admission`.
        functions: their code, by module.
    """

    modules: tuple[str, ...]
    functions: int


class Trace:
    """Collects the code that runs inside `recording`."""

    def __init__(self) -> None:
        """Prepare an empty trace."""
        self._codes: set[CodeType] = set()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Collect everything that this thread calls."""

        def called(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                self._codes.add(frame.f_code)

        sys.setprofile(called)
        try:
            yield
        finally:
            sys.setprofile(None)

    def crossed(self) -> Crossed:
        """Return what of `admission` ran; code outside functions is not counted."""
        functions = [
            (Path(code.co_filename).relative_to(_ROOT).as_posix(), code)
            for code in self._codes
            if Path(code.co_filename).is_relative_to(_ROOT) and code.co_name != "<module>"
        ]
        counted = [path for path, _ in functions if not path.startswith("sandbox/")]
        return Crossed(tuple(sorted(set(counted))), len(counted))


def _ready() -> World:
    """A world with a queue, in which one pod was released already."""
    world = ready_world(world_type=CountedWorld)
    world.add_pod("first", gpus=1)
    world.settle()
    return world


def _changed(
    world: World, resource: Resource, name: str, namespace: str, change: Any
) -> core.WatchMessage:
    """Changes an object; what its watch tells the core."""
    world.store.patch(resource, name, patches.merge(change), namespace)
    now = world.store.get(resource, name, namespace, into=WATCHED[resource])
    return core.WatchMessage(resource, Upserted(now))


def pod_released() -> dict[str, Crossed]:
    """Traces a pod from seen to released."""
    world, trace = _ready(), Trace()
    world.add_pod("train", gpus=1)
    with trace.recording():
        world.settle()
    assert not world.is_gated("train")
    return {"pod, seen to released": trace.crossed()}


def workload_labelled() -> dict[str, Crossed]:
    """Traces a change of a label that nothing depends on."""
    world, receipt, turn = _ready(), Trace(), Trace()
    name = world.workloads()["first"].metadata.name
    labels = {"metadata": {"labels": {"a": "b"}}}
    seen = _changed(world, resources.WORKLOADS, name, "ml", labels)
    with receipt.recording():
        world.core.receive(seen)
    with turn.recording():
        world.core.step()
    assert not world.queued
    return {
        "label of a Workload, on receipt": receipt.crossed(),
        "label of a Workload, next turn": turn.crossed(),
    }


def cluster_queue_edited() -> dict[str, Crossed]:
    """Traces a change of a quota."""
    world, receipt, turn = _ready(), Trace(), Trace()
    groups = make_cluster_queue(quota=8)["spec"]["resourceGroups"]
    change = {"spec": {"resourceGroups": groups}}
    seen = _changed(world, resources.CLUSTER_QUEUES, "gpus", "", change)
    with receipt.recording():
        world.core.receive(seen)
    with turn.recording():
        world.settle()
    return {
        "quota of a ClusterQueue, on receipt": receipt.crossed(),
        "quota of a ClusterQueue, until settled": turn.crossed(),
    }


def pod_reviewed() -> dict[str, Crossed]:
    """Traces a review."""
    client = reviews.make_app().test_client()
    review = reviews.make_review(make_pod("train", gpus=1))
    reviews.post(client, "/mutate--v1-pod", review)
    trace = Trace()
    with trace.recording():
        answer = reviews.post(client, "/mutate--v1-pod", review)
    assert reviews.patch_of(answer)
    return {"review of a pod": trace.crossed()}


class Stored(NamedTuple):
    """Where an object stands below the core.

    Attributes:
        by_hand: containers that the code around them keeps up to date, as paths.
        indexes: declared indexes of tables.
    """

    by_hand: tuple[str, ...]
    indexes: tuple[str, ...]


def containers(core_: object, identities: frozenset[str]) -> Stored:
    """Return the containers below a core in which an object stands.

    Args:
        core_: where to look.
        identities: UIDs and names that no other object has.
    """
    by_hand: list[str] = []
    indexes: list[str] = []
    seen: set[int] = set()
    to_visit: deque[tuple[str, Any]] = deque([("core", core_)])
    while to_visit:
        path, value = to_visit.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Index):
            if any(
                _names(key, identities) for group in value.groups() for key in value.keys(group)
            ):
                indexes.append(path)
        elif isinstance(value, Tally | UniqueIndex):
            if any(_names(group, identities) for group in value.groups()):
                indexes.append(path)
        elif isinstance(value, dict):
            if any(_names(member, identities) for pair in value.items() for member in pair):
                by_hand.append(path)
            to_visit.extend((f"{path}[]", member) for member in value.values())
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            if not isinstance(value, tuple) and any(_names(each, identities) for each in value):
                by_hand.append(path)
            to_visit.extend((f"{path}[]", member) for member in value)
        elif _is_searched(value):
            to_visit.extend((f"{path}.{name}", member) for name, member in _attributes(value))
    return Stored(tuple(by_hand), tuple(indexes))


_NOT_SEARCHED = tuple(f"admission.{package}" for package in ("objects", "sandbox", "config"))


def _is_searched(value: object) -> bool:
    module = type(value).__module__
    return module.startswith("admission.") and not module.startswith(_NOT_SEARCHED)


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    names = list(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        slots: Iterable[str] = getattr(base, "__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    for name in names:
        if hasattr(value, name):
            yield name, getattr(value, name)


def _names(member: Any, identities: frozenset[str]) -> bool:
    """Whether a member of a container is an object, its name or a key made of that."""
    if isinstance(member, str) and member in identities:
        return True
    if isinstance(member, tuple) and any(isinstance(m, str) and m in identities for m in member):
        return True
    return getattr(getattr(member, "metadata", None), "uid", "") in identities


def stores() -> dict[str, Stored]:
    """Returns the containers of a running pod, and of one that belongs to a group."""
    world = ready_world(quota=8, world_type=CountedWorld)
    world.add(make_node("n1"))
    world.add_pod("train", gpus=1)
    for name in ("first", "second"):
        world.store.create(resources.PODS, group_pod(name, "gang", 2), "ml")
    world.settle()
    world.clock.advance(3)
    world.settle()
    for name in ("train", "first", "second"):
        bind = patches.merge({"spec": {"nodeName": "n1"}})
        world.store.patch(resources.PODS, name, bind, "ml")
    world.settle()
    workload = world.workloads()["train"].metadata
    return {
        "running pod and its Workload": containers(
            world.core,
            frozenset({world.pod("train").metadata.uid, workload.name, workload.uid}),
        ),
        "pod of a group and its Workload": containers(
            world.core, frozenset({world.pod("first").metadata.uid, "gang"})
        ),
    }


TRACES: tuple[Callable[[], dict[str, Crossed]], ...] = (
    pod_released,
    workload_labelled,
    cluster_queue_edited,
    pod_reviewed,
)


def main() -> None:
    """Prints a line for each trace, and for each pod."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON document with all names")
    options = parser.parse_args()
    crossed = {name: figures for trace in TRACES for name, figures in trace().items()}
    stored = stores()
    if options.json:
        document = {name: figures._asdict() for name, figures in crossed.items()}
        document |= {name: places._asdict() for name, places in stored.items()}
        print(json.dumps(document, indent=2))
        return
    for name, figures in crossed.items():
        print(f"{name:40} {len(figures.modules):4} modules {figures.functions:5} functions")
    for name, places in stored.items():
        by_hand, indexes = map(len, places)
        print(f"{name:40} {by_hand:4} containers {indexes:4} declared indexes")


if __name__ == "__main__":
    main()
