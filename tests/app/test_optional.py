"""A kind that a cluster does not serve is asked for quietly, and followed once it is there."""

import queue
from typing import Any

from admission.api import koordinator
from admission.app.optional import OptionalWatch
from admission.base.clock import SystemClock
from admission.kube import resources
from admission.kube.reflector import Reflector
from admission.kube.store import Store

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


def watch_of(store: Store, seen: "queue.Queue[Any]") -> OptionalWatch:
    reflector = Reflector(
        store, resources.DEVICES, koordinator.Device, seen.put, clock=SystemClock()
    )
    return OptionalWatch(store, reflector)


def test_a_missing_kind_is_no_error():
    seen: queue.Queue[Any] = queue.Queue()
    watch = watch_of(Store(clock=SystemClock()), seen)
    assert not watch.is_served()
    watch.start()
    watch.stop()
    assert seen.empty()


def test_a_served_kind_is_followed():
    seen: queue.Queue[Any] = queue.Queue()
    watch = watch_of(Store(crds=[DEVICES], clock=SystemClock()), seen)
    assert watch.is_served()
    watch.start()
    assert seen.get(timeout=10).items == ()
    watch.stop()
