"""The whole system on a real API server: installed and run by its own commands."""

import http.client
import json
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from admission.admin import rbac
from admission.base import conditions, names
from tests.builders.pods import make_pod
from tests.builders.queues import make_class, make_cluster_queue, make_flavor, make_local_queue
from tests.controlplane import forked, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.moved_clock import MovedClock
from tests.controlplane.processes import free_port
from tests.controlplane.rest import Json, Rest, RestError

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


def run_command(
    *arguments: str, program: Sequence[str] = PROGRAM, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command of the program, or of another version of it, to its end."""
    return forked.run([*program, *arguments], cwd=folder)


class Installed:
    """A cluster with everything of ours in it.

    Attributes:
        program: how the program is started.
        program_folder: where it is started; another version of it runs from its own files.
        clock: what its processes go by from the next start on; None for the machine's.
    """

    program: Sequence[str] = PROGRAM
    program_folder: Path | None = None
    clock: MovedClock | None = None

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.folder = folder
        self.kubeconfig = str(cluster.admin_kubeconfig)
        self.use_webhook_port(free_port())
        self.metrics_port, self.visibility_port = free_port(), free_port()
        self.metrics_url = f"http://127.0.0.1:{self.metrics_port}"
        self.certificates = folder / "certs"
        self.log = folder / "run.log"
        self.process: forked.Process | subprocess.Popen[bytes] | None = None
        self.told = ""

    def use_webhook_port(self, port: int) -> None:
        """Serves reviews at a port, from the next start on."""
        self.webhook_port = port
        self.webhook_url = f"https://127.0.0.1:{port}"

    def install(self, *more: str) -> list[dict[str, Any]]:
        """Runs ``install``, with more arguments; what it changed. It refuses no bypass."""
        return self.install_as_new("--mode", "warn", *more)

    def install_as_new(self, *more: str) -> list[dict[str, Any]]:
        """Runs ``install`` as `install` does, with the mode that it chooses itself."""
        done = run_command(
            "install", "--kubeconfig", self.kubeconfig, "--webhook-url", self.webhook_url,
            "--cert-dir", str(self.certificates), "-o", "json", *more,
            program=self.program, folder=self.program_folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.told = done.stderr
        changes: list[dict[str, Any]] = json.loads(done.stdout)
        return changes

    def start(self, *more: str) -> None:
        """Starts webhook and controller, with more arguments; waits until both are ready."""
        command = [
            *self.program, "run", "--kubeconfig", self.kubeconfig,
            "--bind", f"127.0.0.1:{self.webhook_port}", "--cert-dir", str(self.certificates),
            "--metrics-bind", f"127.0.0.1:{self.metrics_port}", "--no-leader-election", *more,
        ]  # fmt: skip
        self._start(command)

    def _start(self, command: Sequence[str]) -> None:
        with self.log.open("ab") as log:
            self.process = forked.start(
                command, stdout=log, stderr=log, cwd=self.program_folder,
                clock=self.clock.path if self.clock else None,
            )  # fmt: skip
        ready = f"webhook and controller ready, see {self.log}"
        waiting.until(self.is_ready, what=ready)
        self.wait_reviewed()

    @contextmanager
    def running(self, *command: str) -> Iterator[None]:
        """Runs a command that serves as `start` does, and stops it at the end."""
        self._start(command)
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> int:
        """Ends both as a user does; the exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(waiting.PATIENCE_SECONDS)
        self.process = None
        return code

    def is_ready(self) -> bool:
        assert self.process is None or self.process.poll() is None, self.log.read_text()
        return all(
            self.probe(url, "/readyz") == 200 for url in (self.webhook_url, self.metrics_url)
        )

    def wait_reviewed(self) -> None:
        """Waits until the API server asks the webhook: it sees new configurations later."""
        waiting.until(self.is_mutated, what="mutating webhook configuration in effect")
        waiting.until(self.is_judged, what="validating webhook configuration in effect")

    def is_mutated(self) -> bool:
        """Whether the API server has new objects changed by the webhook."""
        try:
            made = self._try("ClusterQueue", {})
        except RestError:  # the kind is not served yet
            return False
        return names.RESOURCE_IN_USE in made["metadata"].get("finalizers", [])

    def is_judged(self) -> bool:
        """Whether the API server has new objects judged by the webhook."""
        try:
            self._try("Cohort", {"fairSharing": {"weight": -1}})
        except RestError as refused:
            return refused.status == 403
        return False

    def _try(self, kind: str, spec: Json) -> Json:
        """What the API server would store."""
        identity = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind}
        document = {**identity, "metadata": {"name": "try"}, "spec": spec}
        return self.api.post(f"{KUEUE}/{kind.lower()}s?dryRun=All", document)

    def probe(self, url: str, path: str) -> int:
        """HTTP status of a page; 0 where nobody answers."""
        status, _ = self.page(url, path)
        return status

    def page(self, url: str, path: str) -> tuple[int, str]:
        """Status and text of a page."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=str(self.certificates / "ca.crt"))
            connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=5, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    # ------------------------------------------------------------------------------ objects

    def add_flavor(self, name: str, product: str = "A100") -> None:
        self.api.post(f"{KUEUE}/resourceflavors", make_flavor(name, product=product))

    def add_cluster_queue(self, name: str, **queue: Any) -> None:
        """Create a ClusterQueue of `make_cluster_queue`."""
        self.api.post(f"{KUEUE}/clusterqueues", make_cluster_queue(name, **queue))

    def add_local_queue(self, namespace: str, cluster_queue: str, name: str = "default") -> None:
        self.api.post(
            f"{KUEUE}/namespaces/{namespace}/localqueues",
            make_local_queue(name, cluster_queue, namespace),
        )

    def add_classes(self, **values: int) -> None:
        """Create a WorkloadPriorityClass for each name."""
        for name, value in values.items():
            self.api.post(f"{KUEUE}/workloadpriorityclasses", make_class(name, value))

    def add_team(self, quota: int, **spec: Any) -> str:
        """A namespace with a default LocalQueue, a ClusterQueue and a flavor of its own."""
        namespace = self.cluster.create_namespace("team")
        self.add_flavor(namespace)
        self.add_cluster_queue(namespace, quota=quota, flavors=(namespace,), **spec)
        self.add_local_queue(namespace, namespace)
        self.wait_for_queue(namespace)
        return namespace

    def wait_for_queue(self, namespace: str, name: str = "default") -> None:
        """Waits until the LocalQueue says that it is ready, and the webhook knows it too."""
        self.wait_active(namespace, name)
        self.wait_webhook()

    def wait_active(self, namespace: str, name: str) -> None:
        """Waits until the LocalQueue says that it is ready; the webhook may not know it yet."""
        path = f"{KUEUE}/namespaces/{namespace}/localqueues/{name}"
        waiting.until(
            lambda: any(
                c["type"] == "Active" and c["status"] == "True"
                for c in self.api.get(path).get("status", {}).get("conditions", [])
            ),
            what=f"LocalQueue {namespace}/{name} active",
        )

    def wait_webhook(self) -> None:
        """Waits until reviews look up namespaces, flavors and queues as they are stored now."""
        queueing = ("resourceflavors", "clusterqueues", "localqueues")
        for path in ("/api/v1/namespaces", *(f"{KUEUE}/{plural}" for plural in queueing)):
            kind = path.rpartition("/")[2]
            stored = self.api.get(path)["items"]
            versions = (int(item["metadata"]["resourceVersion"]) for item in stored)
            newest = max(versions, default=0)
            waiting.until(
                partial(self._webhook_has, kind, newest),
                what=f"the webhook has seen version {newest} of {kind}",
            )

    def _webhook_has(self, kind: str, version: int) -> bool:
        """Whether the webhook took a change of a kind that is as new as that resourceVersion."""
        _, page = self.page(self.webhook_url, "/readyz?verbose")
        found = re.search(rf"^\[\+\]{kind}(?:\.\S+)?: .* version (\d+)$", page, re.MULTILINE)
        return found is not None and int(found[1]) >= version

    def create_pod(
        self, namespace: str, name: str, *, gpus: int | str | None = 1, **pod: Any
    ) -> Any:
        """Create a pod of `make_pod` as a user does; `gpus` None wants none."""
        limits = {} if gpus is None else {names.GPU_RESOURCE: str(gpus)}
        document = make_pod(name, limits=limits, **pod)
        return self.api.post(f"/api/v1/namespaces/{namespace}/pods", document)

    def pod(self, namespace: str, name: str) -> Any:
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def unreviewed(self) -> Rest:
        """A client with all rights whose requests nobody reviews: it has the controller's name."""
        user = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{rbac.CONTROLLER_ACCOUNT}"
        headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        cluster = self.cluster
        return Rest(cluster.port, cluster.ca_file, cluster.admin_token, headers=headers)

    def delete_pod(self, namespace: str, name: str) -> None:
        self.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})

    def is_gated(self, namespace: str, name: str) -> bool:
        return bool(self.pod(namespace, name)["spec"].get("schedulingGates"))

    def wait_released(self, namespace: str, name: str) -> Any:
        """Waits until a pod is released; the pod."""
        waiting.until(
            lambda: not self.is_gated(namespace, name), what=f"pod {namespace}/{name} released"
        )
        return self.pod(namespace, name)

    def condition(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Our condition on a pod."""
        found = self.pod(namespace, name).get("status", {}).get("conditions", [])
        return next((c for c in found if c["type"] == conditions.POD_ADMITTED), None)

    def wait_condition(
        self, namespace: str, name: str, reason: str = "", text: str = ""
    ) -> dict[str, Any]:
        """Waits until a pod says why it waits; the condition.

        The reason that a pod gives first may be another than the one that stays.

        Args:
            namespace: namespace of the pod.
            name: name of the pod.
            reason: the reason that is waited for; empty for any.
            text: what the message has to contain.
        """

        def look() -> dict[str, Any] | None:
            condition = self.condition(namespace, name)
            if condition is None or reason not in {"", condition["reason"]}:
                return None
            return condition if text in condition["message"] else None

        what = f"pod {namespace}/{name} says {reason} {text}".rstrip()
        try:
            return waiting.until(look, what=what)
        except TimeoutError as late:
            late.add_note(f"it says {self.condition(namespace, name)}")
            raise


@contextmanager
def installed(cluster: Cluster, folder: Path) -> Iterator[Installed]:
    """Installs and runs everything; stops the processes at the end."""
    system = Installed(cluster, folder)
    system.install()
    try:
        system.start()
        yield system
    finally:
        system.stop()
