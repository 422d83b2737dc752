"""Plays the scenario in a sandbox and tells, moment by moment, what is to be seen."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from admission.base import clock as clocks
from admission.base import names, patches
from admission.base.clock import Clock
from admission.kube import errors, resources
from admission.kube.api import Document
from admission.sandbox.demo import display_state, scenario
from admission.sandbox.demo.display_state import DisplayState, QueueSight, Sight
from admission.sandbox.demo.kubelet import Kubelet
from admission.sandbox.demo.scenario import DemoEvent, DemoPod
from admission.sandbox.store import Store
from admission.sandbox.system import Sandbox

_TICK_SECONDS: Final = 0.1
_LIMIT_SECONDS: Final = 25.0
_NODES_SECONDS: Final = 15.0
"""Most that is waited for until flavors say how large their nodes are."""
_LONGER: Final = 10
"""Pods of a demo that is kept run so many times longer."""


@dataclass(frozen=True, slots=True)
class DemoMoment:
    """What is to be seen, and when.

    Attributes:
        seconds: since the first pod.
        sights: all pods.
        warnings: what the webhook said to whoever created a pod, newest last.
        events: what else happened, newest last: pods that come or are refused, nodes.
        refused: how many pods were refused.
        queues: all ClusterQueues.
    """

    seconds: float
    sights: tuple[Sight, ...]
    warnings: tuple[str, ...]
    events: tuple[str, ...] = ()
    refused: int = 0
    queues: tuple[QueueSight, ...] = ()


def play(sandbox: Sandbox, clock: Clock) -> Iterator[DemoMoment]:
    """Create the queues, and play once; the last moment is when nothing more can happen."""
    for document in scenario.objects():
        resource = resources.of_kind(document["apiVersion"], document["kind"])
        assert resource is not None, document
        sandbox.store.create(resource, document, document["metadata"].get("namespace", ""))
    _await_node_sizes(sandbox.store, clock)
    yield from _played(sandbox, clock)


def go_on(sandbox: Sandbox, clock: Clock) -> None:
    """Play again and again in the same queues, until the processes end or somebody interrupts.

    Pods run longer than the first time, and the GPU is sick for longer, so that there is time to
    ask why one waits.
    """
    while not sandbox.has_ended():
        clear(sandbox.store)
        for _ in _played(sandbox, clock, longer=_LONGER):
            if sandbox.has_ended():
                return


def clear(store: Store) -> None:
    """Delete the pods of the demo; those of whoever tries it out stay."""
    for pod in filter(display_state.is_of_demo, store.list(resources.PODS).items):
        metadata = pod["metadata"]
        store.delete(resources.PODS, metadata["name"], metadata["namespace"])


def _played(sandbox: Sandbox, clock: Clock, *, longer: int = 1) -> Iterator[DemoMoment]:
    """Create, run and end the pods; they run so many times longer than the scenario says."""
    store = sandbox.store
    run_seconds = {(pod.namespace, pod.name): pod.run_seconds * longer for pod in scenario.PODS}
    kubelet = Kubelet(store, run_seconds)
    start = clock.monotonic()
    coming = sorted(enumerate(scenario.PODS), key=lambda pod: pod[1].at_seconds)
    ahead, events = list(scenario.EVENTS), list[str]()
    warnings: list[str] = []
    refused = 0
    while True:
        seconds = clock.monotonic() - start
        while coming and coming[0][1].at_seconds <= seconds:
            order, pod = coming.pop(0)
            events.append(f"{pod.namespace}/{pod.name} comes: {pod.about}")
            sandbox.warnings.clear()
            try:
                store.create(resources.PODS, _numbered(pod, order), pod.namespace)
            except errors.ForbiddenError as refusal:
                refused += 1
                why = str(refusal).partition(": ")[2]  # behind who refused it
                events.append(f"{pod.namespace}/{pod.name} is refused: {why}")
            warnings += [f"{pod.namespace}/{pod.name}: {text}" for text in sandbox.warnings]
        while ahead and ahead[0].due_seconds(longer) <= seconds:
            events.append(_happen(store, ahead.pop(0), clock))
        kubelet.tick(clock.monotonic())
        sights = tuple(display_state.look(store))
        queues = tuple(display_state.look_at_queues(store))
        yield DemoMoment(seconds, sights, tuple(warnings), tuple(events), refused, queues)
        if (not coming and _is_over(sights)) or seconds > _LIMIT_SECONDS * longer:
            return
        time.sleep(_TICK_SECONDS)


def _await_node_sizes(store: Store, clock: Clock) -> None:
    """Wait until each flavor says how large its nodes are: pods are judged by that, too."""
    give_up = clock.monotonic() + _NODES_SECONDS
    while clock.monotonic() < give_up:
        flavors = store.list(resources.RESOURCE_FLAVORS).items
        if all(names.LARGEST_NODE in (f["metadata"].get("annotations") or {}) for f in flavors):
            return
        time.sleep(_TICK_SECONDS)


def _numbered(pod: DemoPod, order: int) -> Document:
    document = pod.document()
    document["metadata"]["annotations"][names.DEMO_ORDER] = str(order)
    return document


def _happen(store: Store, event: DemoEvent, clock: Clock) -> str:
    """Lets a node report something else; what is told of it."""
    conditions = event.conditions(clocks.to_wire(clock.now()))
    change = patches.merge({"status": {"conditions": conditions}})
    store.patch(resources.NODES, event.node, change, subresource="status")
    return event.text


_OWN: Final = frozenset(f"{pod.namespace}/{pod.name}" for pod in scenario.PODS)


def _is_over(sights: tuple[Sight, ...]) -> bool:
    """Return whether all of the demo's pods have ended but the one that never fits.

    That one knows why it waits.
    """
    return all(
        sight_.why
        if sight_.pod.endswith(f"/{scenario.NEVER_FITS}")
        else sight_.state is DisplayState.DONE
        for sight_ in sights
        if sight_.pod in _OWN
    )
