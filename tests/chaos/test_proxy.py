"""The proxy does what tests believe it does."""

from collections.abc import Iterator

import pytest

from tests.chaos import faults
from tests.chaos.proxy import Proxy
from tests.chaos.system import System
from tests.controlplane import waiting
from tests.controlplane.rest import Rest, RestError

pytestmark = pytest.mark.controlplane

NODES = "/api/v1/nodes"


@pytest.fixture
def proxy(system: System) -> Iterator[Proxy]:
    with Proxy(system.cluster.port, system.cluster.folder) as one:
        yield one
    assert not one.unexpected


@pytest.fixture
def client(system: System, proxy: Proxy) -> Rest:
    return Rest(proxy.port, system.cluster.ca_file, system.cluster.admin_token)


@pytest.fixture
def namespace(system: System) -> str:
    return system.cluster.create_namespace("proxy")


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


def names_in(system: System, namespace: str) -> set[str]:
    found = system.api.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    return {one["metadata"]["name"] for one in found}


def test_without_faults_everything_passes(system: System, client: Rest, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    client.post(path, config_map("a"))

    assert names_in(system, namespace) == {"a"}
    assert client.get(path)["kind"] == "ConfigMapList"


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [(faults.lose_request, False), (faults.lose_answer, True)],
    ids=["lost request", "lost answer"],
)
def test_a_lost_write_gets_no_answer_and_arrives_or_not(
    system: System, proxy: Proxy, client: Rest, namespace: str, fault: faults.Fault, arrives: bool
) -> None:
    proxy.inject(fault, method="POST", path="configmaps")
    with pytest.raises(OSError, match=r"reset|EOF|closed"):
        client.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("a"))

    assert names_in(system, namespace) == ({"a"} if arrives else set())
    assert [seen.method for seen in proxy.writes] == ["POST"] * arrives


def test_a_refusal_carries_status_and_comes_as_often_as_asked(proxy: Proxy, client: Rest) -> None:
    # Longer than the client waits by itself.
    proxy.inject(faults.refuse(429, retry_after=30), path=NODES, times=2, skip=1)
    statuses = []
    for _ in range(4):
        try:
            client.get(NODES)
            statuses.append(200)
        except RestError as refused:
            statuses.append(refused.status)

    assert statuses == [200, 429, 429, 200]


def test_an_answer_breaks_off_in_the_middle(proxy: Proxy, client: Rest) -> None:
    proxy.inject(faults.cut_in_the_middle, path="/api/v1/namespaces")
    with pytest.raises(OSError, match=r"IncompleteRead|reset|EOF"):
        client.get("/api/v1/namespaces")


def test_while_down_nobody_is_served_and_afterwards_everybody(proxy: Proxy, client: Rest) -> None:
    with proxy.down(), pytest.raises(OSError, match=r"reset|EOF|closed"):
        client.get(NODES)

    assert client.answers(NODES)


def test_a_held_request_arrives_when_it_is_told_to(
    system: System, proxy: Proxy, client: Rest, namespace: str
) -> None:
    hold = faults.Hold(after=False)
    hold.free(arrives=True)
    proxy.inject(hold, method="POST")
    with pytest.raises(OSError, match=r"reset|EOF|closed"):
        client.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("late"))

    waiting.until(lambda: names_in(system, namespace) == {"late"}, what="the write arrived")
