"""Certificates are renewed while pods are created, and every pod is reviewed.

The lifetimes are a minute, the API server is real, webhooks fail closed, and connections are TLS
with verification on both ways to us. The API server judges certificates by the machine's clock, so
that no other one can be used here; `tests.run.test_certificates` moves it.
"""

import base64
import http.client
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import pytest
import yaml
from typing_extensions import override

from admission.base import names
from admission.installed import cabundles
from certs import rotation
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import RestError
from tests.integration.installed import Installed
from tests.webhook.tls import served_chain

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly]

SYSTEM = names.SYSTEM_NAMESPACE
LIFETIMES = {"authorityLifetime": "2m", "servingLifetime": "1m"}
ROTATIONS = 2
_LATE = "context deadline exceeded"


class Rotating(Installed):
    """Runs everything with certificates of a minute."""

    @property
    def file(self) -> str:
        path = self.folder / "config.yaml"
        document = {
            "apiVersion": "config.gpu-admission.dev/v1alpha1",
            "kind": "GpuConfiguration",
            "certificates": LIFETIMES,
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)

    @override
    def install(self, *more: str) -> list[dict[str, Any]]:
        return super().install("--config", self.file, *more)

    @override
    def start(self, *more: str) -> None:
        super().start("--config", self.file, *more)

    def signer(self) -> str:
        """Who signed what the webhook serves on a new connection."""
        chain = served_chain(self.webhook_port)
        held = rotation.read({rotation.AUTHORITIES: self.bundle()})
        for one in held.authorities:
            if rotation.accepted_until(chain, one_pem(one)):
                return one.fingerprint
        return ""

    def connect(self, bundle: bytes) -> http.client.HTTPSConnection:
        """Connects as an API server with that caBundle does.

        Raises:
            ssl.SSLError: what is served is not trusted.
        """
        context = ssl.create_default_context(cadata=bundle.decode())
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.webhook_port, context=context, timeout=10
        )
        connection.connect()
        return connection

    def bundle(self) -> bytes:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        found = self.api.get(f"{path}/gpu-admission-mutating-webhook-configuration")
        return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])


def one_pem(authority: rotation.Authority) -> bytes:
    return rotation.Holding((authority,)).bundle()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotating]:
    with Cluster.start() as cluster:
        rotating = Rotating(cluster, tmp_path_factory.mktemp("rotating"))
        rotating.install("--visibility")
        try:
            rotating.start()
            yield rotating
        finally:
            rotating.stop()


class Stream:
    """Creates pods and reads a converted object, again and again, each on a new connection."""

    def __init__(self, system: Rotating, namespace: str) -> None:
        self.created = 0
        self.converted = 0
        self.refusals: list[str] = []
        """Refusals and failures, except answers that took longer than the API server waits."""
        self._system = system
        self._namespace = namespace
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(do,)) for do in (self._create, self._read)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def went_on(self) -> Callable[[], bool]:
        """Return what says whether pods were created and objects read since now."""
        created, converted = self.created, self.converted
        return lambda: self.created > created and self.converted > converted

    def _repeat(self, do: Any) -> None:
        while not self._stopping.wait(0.05):
            try:
                do()
            except RestError as refused:
                if _LATE not in refused.body:
                    self.refusals.append(f"{refused.status} {refused.body[:300]}")

    def _create(self) -> None:
        name = f"pod-{self.created}"
        made = self._system.api.post(
            f"/api/v1/namespaces/{self._namespace}/pods?dryRun=All",
            {
                "metadata": {"name": name},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "train",
                            "resources": {"limits": {names.GPU_RESOURCE: "1"}},
                        }
                    ]
                },
            },
        )
        assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
        self.created += 1

    def _read(self) -> None:
        """In the older version, which only the conversion webhook can make."""
        path = f"/apis/kueue.x-k8s.io/v1beta1/clusterqueues/{self._namespace}"
        assert self._system.api.get(path)["apiVersion"] == "kueue.x-k8s.io/v1beta1"
        self.converted += 1


def test_no_review_is_dropped_while_authorities_and_certificates_change(system: Rotating) -> None:
    team = system.add_team(quota=1)
    signers: list[str] = []
    bundles: list[frozenset[str]] = []

    def follows(count: int) -> bool:
        system.connect(system.bundle()).close()
        known = rotation.fingerprints(system.bundle())
        if not bundles or known != bundles[-1]:
            bundles.append(known)
        signer = system.signer()
        if signer and signer not in signers:
            signers.append(signer)
        return len(signers) > count

    kept = system.connect(system.bundle())
    assert answers(kept)
    first_socket = kept.sock
    with Stream(system, team) as stream:
        for count in range(ROTATIONS + 1):
            waiting.until(partial(follows, count), what=f"authority {count} signs")
            waiting.until(stream.went_on(), what="a review and a conversion after that")
        assert answers(kept)
        assert kept.sock is first_socket
    kept.close()
    assert stream.refusals == []
    assert all(len(known) >= 2 for known in bundles)
    # Who signs was known long before: in the first bundle that was seen after the one before.
    for number, signer in enumerate(signers[1:], 1):
        first = next(index for index, known in enumerate(bundles) if signer in known)
        assert signers[number - 1] in bundles[first]
    waiting.until(lambda: trusted_alike(system), what="the same caBundle everywhere")


def answers(connection: http.client.HTTPSConnection) -> bool:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    return answer.status == 200 and answer.read() == b"ok\n"


def trusted_alike(system: Rotating) -> bool:
    """Whether every object of the installation trusts the same authorities."""
    found = set()
    for resource, listed in cabundles.NAMES.items():
        for name in listed:
            document = system.api.get(resource.path(name=name))
            bundles = [bundle for _, bundle in cabundles.bundles_of(resource, document)]
            assert bundles, name
            found |= set(bundles)
    return len(found) == 1
