"""``python -m tests.traces``: how much code a reader crosses to follow one thing.

Counted are modules and functions of `admission`, without the sandbox, that run while

* a pod goes from seen to released, in the controller;
* a Workload changes by nothing but a label: on receipt, and in the next turn of the loop;
* the quota of a ClusterQueue is edited: on receipt, and until nothing is left to do;
* the webhook answers a review of a GPU pod.

The store and the clock are those of the tests, so HTTP and threads are not counted.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import structlog

import admission
from admission.base import patches
from admission.controller import core
from admission.kube import resources
from admission.kube.reflector import Upserted
from admission.kube.resources import Resource
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue
from tests.controller.world import WATCHED, World, ready_world
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
        own = [one for one in functions if not one[0].startswith("sandbox/")]
        return Crossed(tuple(sorted({path for path, _ in own})), len(own))


def _ready() -> World:
    """A world with a queue, in which one pod was released already."""
    found = ready_world()
    found.add_pod("first", gpus=1)
    found.settle()
    return found


def _changed(
    found: World, resource: Resource, name: str, namespace: str, change: Any
) -> core.WatchMessage:
    """Changes an object; what its watch tells the core."""
    found.store.patch(resource, name, patches.merge(change), namespace)
    now = found.store.get(resource, name, namespace, into=WATCHED[resource])
    return core.WatchMessage(resource, Upserted(now))


def pod_released() -> dict[str, Crossed]:
    """Traces a pod from seen to released."""
    found, trace = _ready(), Trace()
    found.add_pod("train", gpus=1)
    with trace.recording():
        found.settle()
    assert not found.is_gated("train")
    return {"pod, seen to released": trace.crossed()}


def workload_labelled() -> dict[str, Crossed]:
    """Traces a change of a label that nothing depends on."""
    found, receipt, turn = _ready(), Trace(), Trace()
    name = found.workloads()["first"].metadata.name
    labels = {"metadata": {"labels": {"a": "b"}}}
    seen = _changed(found, resources.WORKLOADS, name, "ml", labels)
    with receipt.recording():
        found.core.receive(seen)
    with turn.recording():
        found.core.step()
    assert not found.queued
    return {
        "label of a Workload, on receipt": receipt.crossed(),
        "label of a Workload, next turn": turn.crossed(),
    }


def cluster_queue_edited() -> dict[str, Crossed]:
    """Traces a change of a quota."""
    found, receipt, turn = _ready(), Trace(), Trace()
    groups = make_cluster_queue(quota=8)["spec"]["resourceGroups"]
    change = {"spec": {"resourceGroups": groups}}
    seen = _changed(found, resources.CLUSTER_QUEUES, "gpus", "", change)
    with receipt.recording():
        found.core.receive(seen)
    with turn.recording():
        found.settle()
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


TRACES: tuple[Callable[[], dict[str, Crossed]], ...] = (
    pod_released,
    workload_labelled,
    cluster_queue_edited,
    pod_reviewed,
)


def main() -> None:
    """Prints a line for each trace."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON document with all modules")
    found = {name: one for trace in TRACES for name, one in trace().items()}
    if parser.parse_args().json:
        print(json.dumps({name: one._asdict() for name, one in found.items()}, indent=2))
        return
    for name, one in found.items():
        print(f"{name:40} {len(one.modules):4} modules {one.functions:5} functions")


if __name__ == "__main__":
    main()
