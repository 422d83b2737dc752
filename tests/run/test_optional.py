"""A kind that a cluster does not serve is asked for quietly, and followed once it is there."""

import queue
from dataclasses import replace
from typing import Any

from typing_extensions import override

from admission.base.clock import SystemClock
from admission.kube import errors, resources
from admission.kube.reflector import Reflector
from admission.objects import koordinator
from admission.run.watches import OptionalWatch
from admission.sandbox.store import Store
from tests.clocks import FakeClock
from tests.controlplane.waiting import PATIENCE_SECONDS

DEVICES: dict[str, Any] = {
    "metadata": {"name": "devices.scheduling.koordinator.sh"},
    "spec": {
        "group": "scheduling.koordinator.sh",
        "names": {"plural": "devices", "kind": "Device"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


ABSENT = "absent"


def watch_of(store: Store, seen: "queue.Queue[Any]") -> OptionalWatch:
    reflector = Reflector(
        store, resources.DEVICES, koordinator.KoordinatorDevice, seen.put, clock=SystemClock()
    )
    return OptionalWatch(store, [reflector], lambda: seen.put(ABSENT), SystemClock())


def test_of_a_kind_that_is_not_served_it_is_said_once_that_there_is_none() -> None:
    seen: queue.Queue[Any] = queue.Queue()
    watch = watch_of(Store(clock=SystemClock()), seen)
    assert watch.ask() is not None
    assert watch.ask() is not None

    assert watch.is_settled
    assert list(seen.queue) == [ABSENT]


class Away(Store):
    """A store that is out of reach."""

    @override
    def list(self, *args: Any, **options: Any) -> Any:
        raise errors.TransportError("refused")


def test_while_the_server_is_away_nothing_is_known_of_the_kind() -> None:
    seen: queue.Queue[Any] = queue.Queue()
    watch = watch_of(Away(clock=SystemClock()), seen)

    assert watch.ask() is not None
    assert not watch.is_settled
    assert seen.empty()


class Forbidding(Store):
    """A store that forbids all lists until it is told otherwise."""

    forbids = True

    @override
    def list(self, *args: Any, **options: Any) -> Any:
        if self.forbids:
            raise errors.ForbiddenError(403, "Forbidden", "no")
        return super().list(*args, **options)


def test_a_server_that_does_not_know_the_rights_yet_says_nothing_of_the_kind() -> None:
    seen: queue.Queue[Any] = queue.Queue()
    clock, has_rights = FakeClock(), False
    store = Forbidding(crds=[DEVICES], clock=clock)
    reflector = Reflector(
        store, resources.DEVICES, koordinator.KoordinatorDevice, seen.put, clock=clock
    )
    watch = OptionalWatch(store, [reflector], lambda: seen.put(ABSENT), clock, lambda: has_rights)
    for _ in range(30):  # however long it takes
        assert watch.ask() is not None
        clock.advance(2)
    assert not watch.is_settled
    has_rights = True
    assert watch.ask() is not None
    assert not watch.is_settled

    store.forbids = False

    assert watch.ask() is None
    assert seen.empty()


def test_what_stays_forbidden_is_absent() -> None:
    seen: queue.Queue[Any] = queue.Queue()
    clock = FakeClock()
    store = Forbidding(crds=[DEVICES], clock=clock)
    reflector = Reflector(
        store, resources.DEVICES, koordinator.KoordinatorDevice, seen.put, clock=clock
    )
    watch = OptionalWatch(store, [reflector], lambda: seen.put(ABSENT), clock)
    for _ in range(5):
        assert watch.ask() is not None
        assert not watch.is_settled
        clock.advance(2)

    assert watch.ask() is not None

    assert watch.is_settled
    assert list(seen.queue) == [ABSENT]


def test_a_served_kind_is_followed() -> None:
    seen: queue.Queue[Any] = queue.Queue()
    watch = watch_of(Store(crds=[DEVICES], clock=SystemClock()), seen)
    assert watch.ask() is None
    watch.start()
    assert seen.get(timeout=PATIENCE_SECONDS).items == ()
    watch.stop()


def test_the_first_version_that_is_served_is_followed() -> None:
    seen: queue.Queue[Any] = queue.Queue()
    store = Store(crds=[DEVICES], clock=SystemClock())
    versions = [replace(resources.DEVICES, version=name) for name in ("v1", "v1alpha1")]
    watch = OptionalWatch(
        store,
        [
            Reflector(store, one, koordinator.KoordinatorDevice, seen.put, clock=SystemClock())
            for one in versions
        ],
        lambda: seen.put(ABSENT),
        SystemClock(),
    )
    assert watch.ask() is None
    assert watch.reflector.resource == resources.DEVICES
    watch.start()
    assert seen.get(timeout=PATIENCE_SECONDS).items == ()
    watch.stop()
