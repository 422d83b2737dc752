"""Reflectors and a real API server that restarts or hangs."""

from collections.abc import Callable
from typing import Any

import pytest

from admission.base.clock import SystemClock
from admission.kube import errors, resources
from admission.kube.client import Client
from admission.kube.reflector import Deleted, Reflector, Replaced
from admission.objects import views
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


class Copy:
    """The names that a reflector's changes leave."""

    def __init__(self, client: Client, watch_seconds: tuple[float, float] = (1, 2)) -> None:
        self.names: set[str] = set()
        self.reflector = Reflector(
            client,
            resources.CONFIG_MAPS,
            views.Object,
            self.apply,
            clock=SystemClock(),
            namespace="default",
            field_selector="metadata.name!=kube-root-ca.crt",
            watch_seconds=watch_seconds,
        )

    def apply(self, change: Any) -> None:
        if isinstance(change, Replaced):
            self.names = {item.metadata.name for item in change.items}
        elif isinstance(change, Deleted):
            self.names.discard(change.object.metadata.name)
        else:
            self.names.add(change.object.metadata.name)


def is_written(client: Client, act: Callable[[], object]) -> bool:
    try:
        act()
    except errors.AlreadyExistsError:
        return True
    except errors.KubeError:
        return False
    return True


def test_a_reflector_that_was_refused_many_times_is_up_to_date_soon_after_the_return(
    fresh_cluster: Callable[[], Cluster],
):
    """Also of a kind that has not changed for so long that the new server does not know when."""
    cluster = fresh_cluster()
    client = Client.connect(str(cluster.admin_kubeconfig), timeout_seconds=3)
    copy = Copy(client, watch_seconds=(300, 600))
    copy.reflector.start()
    waiting.until(lambda: copy.reflector.has_synced, what="a list")
    cluster.stop_apiserver()
    waiting.until(lambda: copy.reflector.failures >= 5, what="it is refused again and again")
    cluster.start_apiserver()

    def make() -> object:
        return client.create(resources.CONFIG_MAPS, {"metadata": {"name": "after"}}, "default")

    waiting.until(lambda: is_written(client, make), what="a write")
    waiting.until(lambda: copy.names == {"after"}, what="what came after")
    copy.reflector.stop()
    assert copy.reflector.join(waiting.PATIENCE_SECONDS)
    client.close()


def test_a_reflector_survives_a_restart_of_the_api_server(fresh_cluster: Callable[[], Cluster]):
    cluster = fresh_cluster()
    client = Client.connect(str(cluster.admin_kubeconfig), timeout_seconds=3)

    def make(name: str) -> object:
        return client.create(resources.CONFIG_MAPS, {"metadata": {"name": name}}, "default")

    copy = Copy(client)
    copy.reflector.start()
    make("before")
    waiting.until(lambda: copy.names == {"before"}, what="the first object")
    cluster.restart_apiserver()
    waiting.until(lambda: is_written(client, lambda: make("after")), what="a write")
    waiting.until(lambda: copy.names == {"before", "after"}, what="what came after")
    with cluster.paused("kube-apiserver"):
        waiting.until(lambda: copy.reflector.failures > 0, what="the hang to be noticed")
    waiting.until(lambda: is_written(client, lambda: make("later")), what="a write")
    waiting.until(lambda: copy.names == {"before", "after", "later"}, what="the last object")
    copy.reflector.stop()
    assert copy.reflector.join(waiting.PATIENCE_SECONDS)
    client.close()
