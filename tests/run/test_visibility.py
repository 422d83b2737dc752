"""The visibility API over real TLS: certificates, who is believed, how many are served."""

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from admission.base.clock import SystemClock
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.config.addresses import Address
from admission.controller.queries import Answer, Counted, Reader
from admission.gpu.inventory import GpuNode, NodeStock
from admission.kube.errors import TransportError
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload
from admission.run import visibility
from admission.run.visibility import FrontProxies, VisibilityApiServer
from admission.scheduling.decisions import Wait
from admission.scheduling.overview import LocalOverview, Overview
from admission.scheduling.pending import PendingSnapshot
from admission.scheduling.reserving import ReservingWorkload
from certs import files
from tests.controlplane import waiting
from tests.controlplane.credentials import FRONT_PROXY, Credentials
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.serve.builders import Lines, line
from tests.serve.builders import waiting as waiting_workload

PATH = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/gpus/pendingworkloads"
HOST = "gpu-admission-visibility.gpu-admission-system.svc"


class Core:
    """Answers at once, in the thread that asks."""

    synced = True

    def __init__(self) -> None:
        found = line(waiting_workload("train"))
        self._lines = Lines({ClusterQueueName("gpus"): found})

    def ask(self, question: Callable[[Reader], Answer], _: float) -> Answer:
        return question(self)

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        return self._lines.line(queue)

    revision = 0

    def overview(self) -> Overview:
        raise NotImplementedError

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        raise NotImplementedError

    def judged(self, key: WorkloadKey) -> Wait | None:
        raise NotImplementedError

    def queues_of(self, workload: Workload) -> tuple[views.Object | None, views.Object | None]:
        raise NotImplementedError

    def waits(self, keys: Any) -> tuple[Wait | None, ...]:
        raise NotImplementedError

    def stock(self) -> tuple[NodeStock, ...]:
        raise NotImplementedError

    def gpu_nodes(self, names_: Any) -> tuple[GpuNode, ...]:
        raise NotImplementedError

    def local_queues(self) -> tuple[LocalOverview, ...]:
        raise NotImplementedError

    def counted(self) -> Counted:
        raise NotImplementedError

    def workloads(self, keys: Any) -> tuple[Workload | None, ...]:
        keys_: tuple[WorkloadKey, ...] = tuple(keys)
        return self._lines.workloads(keys_)


class Api:
    """Knows the front proxy, and lets everybody."""

    def __init__(self, authority: str) -> None:
        self.data: dict[str, str] | None = {
            "requestheader-client-ca-file": authority,
            "requestheader-allowed-names": json.dumps([FRONT_PROXY]),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
        }
        self.asked: list[Mapping[str, Any]] = []

    def get(self, _resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        assert (namespace, name) == ("kube-system", "extension-apiserver-authentication")
        if self.data is None:
            raise TransportError("down")
        return {"data": self.data}

    def create(self, _resource: Resource, obj: Mapping[str, Any], /) -> dict[str, Any]:
        self.asked.append(obj["spec"])
        return {"status": {"allowed": True}}


class Served:
    """A server and clients of it."""

    def __init__(self, folder: Path) -> None:
        self.credentials = Credentials(folder)
        self.directory = folder / "certs"
        self.api = Api(self.credentials.proxy_ca_file.read_text())
        self.server = VisibilityApiServer(
            Core().ask,
            self.api,  # type: ignore[arg-type]
            SystemClock(),
            "system",
        )
        self.port = 0

    def make_certificate(self) -> None:
        files.ensure(self.directory, [HOST], SystemClock().now())

    def start(self) -> None:
        self.port = self.server.start(Address("127.0.0.1", 0), self.directory)

    def get(
        self, *headers: tuple[str, str], pair: tuple[Path, Path] | None = None
    ) -> tuple[int, Any]:
        """Status and document; checks the certificate as an API server does."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        if pair is not None:
            context.load_cert_chain(*pair)
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        with raw, context.wrap_socket(raw, server_hostname=HOST) as secure:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
            secure.sendall(f"GET {PATH} HTTP/1.1\r\nHost: {HOST}\r\n{lines}\r\n".encode())
            # A response keeps its connection open until it is closed itself.
            with contextlib.closing(http.client.HTTPResponse(secure)) as answer:
                answer.begin()
                return answer.status, json.loads(answer.read())

    @property
    def proxy(self) -> tuple[Path, Path]:
        return self.credentials.proxy_certificate, self.credentials.proxy_key

    def is_believed(self) -> bool:
        """Whether the front proxy gets an answer."""
        try:
            return self.get(("X-Remote-User", "alice"), pair=self.proxy)[0] == 200
        except OSError:
            return False


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.server.stop()


@pytest.fixture
def running(served: Served) -> Served:
    served.make_certificate()
    served.start()
    waiting.until(served.is_believed, what="the front proxy believed")
    return served


def test_the_front_proxy_asks_in_the_name_of_its_user(running: Served) -> None:
    headers = [("X-Remote-User", "bob"), ("X-Remote-Group", "a,b"), ("X-Remote-Group", "c")]
    status, document = running.get(*headers, pair=running.proxy)
    assert (status, document["kind"]) == (200, "PendingWorkloadsSummary")
    assert running.api.asked[-1]["groups"] == ["a,b", "c", "system:authenticated"]


def test_without_the_proxys_certificate_headers_say_nothing(running: Served) -> None:
    for headers in ([], [("X-Remote-User", "bob")]):
        assert running.get(*headers)[0] == 401


def test_an_underscore_is_no_dash(running: Served) -> None:
    assert running.get(("X_Remote_User", "bob"), pair=running.proxy)[0] == 401


def test_a_certificate_of_another_authority_ends_the_handshake(running: Served) -> None:
    found = running.credentials
    with pytest.raises((ssl.SSLError, ConnectionError)):
        running.get(("X-Remote-User", "b"), pair=(found.server_certificate, found.server_key))


def test_a_certificate_that_comes_later_is_used(served: Served) -> None:
    served.start()
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS) as raw:
        assert raw.recv(1) == b""
    served.make_certificate()
    waiting.until(served.is_believed, what="an answer")


def test_what_is_known_of_the_front_proxy_outlives_an_api_server_that_is_down() -> None:
    api = Api("PEM")
    proxies = FrontProxies(api)  # type: ignore[arg-type]
    assert (proxies.authority(), proxies.read(), proxies.authority()) == ("", True, "PEM")
    api.data = None
    assert not proxies.read()
    assert proxies.authority() == "PEM"
    api.data = {"requestheader-client-ca-file": "NEW"}
    assert proxies.read()
    assert proxies.authority() == "NEW"
    api.data = {}
    assert proxies.read()
    assert proxies.current is None


def test_another_authority_of_the_front_proxy_is_believed_from_then_on(
    running: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Credentials(tmp_path_factory.mktemp("other"))
    assert running.api.data is not None
    running.api.data["requestheader-client-ca-file"] = other.proxy_ca_file.read_text()
    running.server.proxies.read()
    pair = (other.proxy_certificate, other.proxy_key)
    assert running.get(("X-Remote-User", "alice"), pair=pair)[0] == 200
    assert not running.is_believed()


def test_a_connection_too_many_takes_the_place_of_the_oldest(served: Served) -> None:
    served.make_certificate()
    with mock.patch.object(visibility, "MOST_AT_ONCE", 2):
        served.start()
    waiting.until(served.is_believed, what="an answer")
    address = ("127.0.0.1", served.port)
    with socket.create_connection(address, 20) as first, socket.create_connection(address):
        assert served.is_believed()
        assert first.recv(1) == b""
    waiting.until(served.is_believed, what="an answer")
