"""An installation on a real API server in which only the webhook runs: nobody else writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from typing_extensions import override

from admission.installed import cabundles
from admission.objects import kinds
from tests.controlplane import forked, waiting
from tests.controlplane.forked import PROGRAM
from tests.controlplane.rest import RestError
from tests.integration.installed import Installed

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
KINDS = {kind.name: kind for kind in kinds.KINDS}


def collection(kind: str, version: str = "v1beta2") -> str:
    """Path of the objects of a kind, in the namespace ``default`` if it has one."""
    namespace = "/namespaces/default" if KINDS[kind].namespaced else ""
    return f"/apis/kueue.x-k8s.io/{version}{namespace}/{KINDS[kind].plural}"


class Reviewed(Installed):
    """An installation in which only the webhook runs, so that nobody else writes."""

    @override
    def start(self, *more: str) -> None:
        command = [
            *PROGRAM, "webhook", "--kubeconfig", self.kubeconfig,
            "--bind", f"127.0.0.1:{self.webhook_port}", "--cert-dir", str(self.certificates),
            *more,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = forked.start(command, stdout=log, stderr=log)
        waiting.until(
            lambda: self.probe(self.webhook_url, "/readyz") == 200,
            what=f"webhook ready, see {self.log}",
        )
        self.wait_reviewed()


def is_served(system: Installed) -> bool:
    """Whether the API server answers for every kind; after a CRD changes it pauses."""
    versions = ("v1beta1", "v1beta2")
    return all(system.api.answers(collection(kind, one)) for kind in KINDS for one in versions)


def is_discovered(system: Installed) -> bool:
    """Whether clients find every kind in both versions; discovery follows what is served."""
    found = system.cluster.kinds("kueue.x-k8s.io")
    return found == {version: set(KINDS) for version in ("v1beta1", "v1beta2")}


def wait_documented(system: Installed) -> None:
    """Waits until every kind is in the published schemas, which are put together later."""
    for version in ("v1beta1", "v1beta2"):
        waiting.until(partial(_is_documented, system, version), what=f"OpenAPI of {version}")


def _is_documented(system: Installed, version: str) -> bool:
    try:
        document = system.api.get(f"/openapi/v3/apis/kueue.x-k8s.io/{version}")
    except RestError:
        return False
    found = set(document["components"]["schemas"])
    return found >= {f"io.x-k8s.kueue.{version}.{kind}" for kind in KINDS}


@contextmanager
def unreviewed(system: Reviewed) -> Iterator[None]:
    """Inside the block nothing is judged, as before our installation."""
    system.api.delete(f"{CONFIGURATIONS}/{cabundles.VALIDATING_NAME}")
    waiting.until(lambda: not system.is_judged(), what="nothing is judged")
    try:
        yield
    finally:
        system.install()
        system.wait_reviewed()
