"""A whole system without a cluster: embedded store, real webhook over TLS, real controller.

The store plays the API server: it serves objects on a loopback port and sends every pod that is
created or changed to the webhook, as the installed configurations would have it, and puts it
before the rules of the bypass guard. Webhook and controller are the commands of this program in
processes of their own.
"""

import http.client
import json
import secrets
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.request import urlopen

import yaml

from admission.base import names
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.config.derived import Settings
from admission.kube import resources
from admission.objects import crds
from admission.sandbox import bypass_stand_in, callers
from admission.sandbox.embedded.reviews import WebhookCaller, WriteOperation
from admission.sandbox.rest import StoreServer
from admission.sandbox.store import Store
from certs import files

_HOST: Final = "127.0.0.1"
_READY_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.05
_REVIEW_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 15.0


class SandboxError(AdmissionError):
    """A process of the sandbox did not come up."""


class Sandbox:
    """Store, webhook and controller; use as a context manager.

    Attributes:
        store: the API server's part.
        kubeconfig: for programs that want to talk to it.
        warnings: what reviewers told whoever wrote, oldest first.
        webhook_url: where the webhook serves.
        metrics_url: where the controller serves its pages.
        dashboard_url: opens the dashboard in a browser; holds a token that is good in here only.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-admission-")
        folder = Path(self._folder.name)
        self._certificates = files.ensure(folder / "certs", [_HOST], clock.now())
        self._webhook_port, self._metrics_port = _free_port(), _free_port()
        self._dashboard_port, token = _free_port(), secrets.token_urlsafe(18)
        self.dashboard_url = f"http://{_HOST}:{self._dashboard_port}/login#token={token}"
        self.webhook_url = f"https://{_HOST}:{self._webhook_port}"
        self.metrics_url = f"http://{_HOST}:{self._metrics_port}"
        self.warnings: list[str] = []
        self.store = Store(crds=crds.documents(), clock=clock, warn=self.warnings.append)
        for document in crds.documents():
            self.store.create(resources.CRDS, document)
        self.store.create(resources.NAMESPACES, _NAMESPACE)
        self._server = StoreServer(
            self.store, resources.BUILT_IN + resources.CUSTOM, answers=callers.answers(token)
        )
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(_kubeconfig(self._server.url))
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = self._start()
        try:
            self._await_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.store.reviewers.extend(self._reviewers())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._server.stop()
        self._folder.cleanup()

    def has_ended(self) -> bool:
        """Return whether webhook and controller do not run, or no longer."""
        return self._process is None or self._process.poll() is not None

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "admission", "run", "--no-leader-election",
            "--kubeconfig", str(self.kubeconfig),
            "--bind", f"{_HOST}:{self._webhook_port}",
            "--cert-dir", str(self._certificates.ca.parent),
            "--metrics-bind", f"{_HOST}:{self._metrics_port}",
            "--dashboard-bind", f"{_HOST}:{self._dashboard_port}",
        ]  # fmt: skip
        with self.log.open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own

    def _await_ready(self) -> None:
        deadline = self._clock.monotonic() + _READY_SECONDS
        context = ssl.create_default_context(cafile=str(self._certificates.ca))
        urls = {self.webhook_url: context, self.metrics_url: None}
        for url, trust in urls.items():
            while not _is_ready(f"{url}/readyz", trust):
                if self._clock.monotonic() > deadline or self.has_ended():
                    raise SandboxError(
                        f"{url} is not ready; the processes say:\n{self.log.read_text()}"
                    )
                self._pause()

    def _pause(self) -> None:
        """Waits a moment, or less if the processes end."""
        if self._process is not None:
            try:
                self._process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                return

    def _reviewers(self) -> list[WebhookCaller]:
        caller = _WebhookCaller(self._webhook_port, str(self._certificates.ca))
        return [
            WebhookCaller(
                name="mpod.kb.io",
                resource=resources.PODS,
                operations=frozenset({WriteOperation.CREATE}),
                mutating=True,
                call=lambda review: caller.call("/mutate--v1-pod", review),
            ),
            WebhookCaller(
                name="vpod.kb.io",
                resource=resources.PODS,
                mutating=False,
                call=lambda review: caller.call("/validate--v1-pod", review),
            ),
            bypass_stand_in.reviewer(self.store, Settings()),
        ]


_NAMESPACE: Final[Mapping[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": names.SYSTEM_NAMESPACE},
}
"""Where the controller records how much GPU-time was used."""


class _WebhookCaller:
    """Posts reviews as the API server does: TLS, verified by our CA."""

    def __init__(self, port: int, ca: str) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=ca)

    def call(self, path: str, review: Mapping[str, Any]) -> Mapping[str, Any]:
        connection = http.client.HTTPSConnection(
            _HOST, self._port, timeout=_REVIEW_SECONDS, context=self._context
        )
        try:
            connection.request(
                "POST", path, json.dumps(review), {"Content-Type": "application/json"}
            )
            answer: Mapping[str, Any] = json.loads(connection.getresponse().read())
            return answer
        finally:
            connection.close()


def _is_ready(url: str, context: ssl.SSLContext | None) -> bool:
    try:
        with urlopen(url, timeout=1, context=context) as answer:  # noqa: S310 - our own URL
            return bool(answer.status == http.client.OK)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _kubeconfig(url: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "sandbox",
            "clusters": [{"name": "sandbox", "cluster": {"server": url}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "me"}}],
            # kubectl asks for a user name where a user has no credentials; nobody checks this one
            "users": [{"name": "me", "user": {"token": "sandbox"}}],
        }
    )
