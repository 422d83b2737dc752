"""What the API server has of Kueue where nothing of Kueue's runs, and the command that moves."""

import subprocess
import threading
from typing import Final

from admission.base import names
from tests.builders.pods import make_pod
from tests.controlplane import forked
from tests.controlplane.forked import PROGRAM
from tests.controlplane.rest import Json, Rest, RestError
from tests.integration.installed import Installed, run_command

LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REVIEWS: Final = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/kueue-system/deployments"
NAME: Final = "kueue-controller-manager"
INJECTED: Final = "cert-manager.io/inject-ca-from"
LABELS: Final = {"control-plane": "controller-manager"}


class Kueue:
    """What the API server has of Kueue, and a stand-in for what runs its pods."""

    def __init__(self, system: Installed) -> None:
        self.api: Rest = system.api
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def install(self) -> None:
        """Do as `register`, and stand in for what runs its pods."""
        self.register()
        self._thread.start()

    def register(self) -> None:
        """Create its Deployment, Lease, webhook configurations, and conversion."""
        self.api.post("/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
        self.api.post(
            f"{LEASES}/kueue-system/leases",
            {
                "metadata": {"name": names.KUEUE_LEASE_NAME},
                "spec": {"holderIdentity": "kueue-1", "leaseDurationSeconds": 15},
            },
        )
        self.api.post(
            DEPLOYMENTS,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": NAME},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": LABELS},
                    "template": {
                        "metadata": {"labels": LABELS},
                        "spec": {"containers": [{"name": "manager", "image": "kueue"}]},
                    },
                },
            },
        )
        for kind in ("mutating", "validating"):
            self.api.post(f"{REVIEWS}/{kind}webhookconfigurations", _configuration(kind))
        for plural in ("workloads", "localqueues"):
            webhook = {
                "clientConfig": {
                    "service": {
                        "name": "kueue-webhook-service",
                        "namespace": "kueue-system",
                        "path": "/convert",
                    }
                },
                "conversionReviewVersions": ["v1"],
            }
            change = {
                "metadata": {"annotations": {INJECTED: "kueue-system/kueue-serving-cert"}},
                "spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}},
            }
            self.api.patch(f"{CRDS}/{plural}.kueue.x-k8s.io", change)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def configurations(self) -> Json:
        """Its webhooks, by configuration."""
        return {
            one["metadata"]["name"]: one["webhooks"]
            for kind in ("mutating", "validating")
            for one in self.api.get(f"{REVIEWS}/{kind}webhookconfigurations")["items"]
            if one["metadata"]["name"].startswith("kueue-")
        }

    def definitions(self) -> Json:
        """How its kinds are converted, and who writes the CA for that."""
        return {
            one["metadata"]["name"]: (
                one["spec"]["conversion"],
                one["metadata"].get("annotations", {}).get(INJECTED),
            )
            for one in self.api.get(CRDS)["items"]
        }

    def _play(self) -> None:
        """Have as many pods as the Deployment asks for, and say so."""
        while not self._stopping.wait(0.1):
            found = self.api.get(f"{DEPLOYMENTS}/{NAME}")
            wanted = found["spec"]["replicas"]
            pods = "/api/v1/namespaces/kueue-system/pods"
            for number in range(2):
                where = f"{pods}/manager-{number}"
                if number < wanted and self.api.lacks(where):
                    self.api.post(pods, make_pod(f"manager-{number}", labels=LABELS))
                elif number >= wanted and not self.api.lacks(where):
                    self.api.delete(where, {"gracePeriodSeconds": 0})
            status = {
                "observedGeneration": found["metadata"]["generation"],
                "replicas": wanted,
                "readyReplicas": wanted,
                "availableReplicas": wanted,
            }
            if found.get("status", {}) != status:
                self.api.patch(f"{DEPLOYMENTS}/{NAME}/status", {"status": status})


def _configuration(kind: str) -> Json:
    """Webhooks as Kueue's, which are asked about nothing: nobody answers."""
    rule = {
        "apiGroups": ["kueue.x-k8s.io"],
        "apiVersions": ["v1beta2"],
        "operations": ["CREATE"],
        "resources": ["workloads"],
    }
    service = {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/any"}
    return {
        "metadata": {"name": f"kueue-{kind}-webhook-configuration"},
        "webhooks": [
            {
                "name": "workload.kb.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {"service": service},
                "rules": [rule],
                "matchConditions": [{"name": "never", "expression": "false"}],
            }
        ],
    }


class Served(Installed):
    """Our processes, as candidates for the Lease."""

    def serve(self) -> None:
        if self.process is None:
            command = [
                *PROGRAM, "run", "--kubeconfig", self.kubeconfig,
                "--bind", f"127.0.0.1:{self.webhook_port}",
                "--cert-dir", str(self.certificates),
                "--metrics-bind", f"127.0.0.1:{self.metrics_port}", "--leader-election",
            ]  # fmt: skip
            with self.log.open("ab") as log:
                self.process = forked.start(command, stdout=log, stderr=log)

    def command(self, *arguments: str) -> list[str]:
        return [
            *PROGRAM, "migrate", "kueue", "--kubeconfig", self.kubeconfig, "--mode", "warn",
            "--webhook-url", self.webhook_url, "--cert-dir", str(self.certificates),
            "--backup", str(self.folder / "kueue.jsonl"), *arguments,
        ]  # fmt: skip

    def migrate(self, *arguments: str, kill_after: str = "") -> str:
        """Run the command; it is killed when it tells of that step."""
        told = []
        with subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told.append(line)
                if "start it now: gpu-admission run" in line:
                    self.serve()
                if kill_after and line.startswith(f"{kill_after}:") and "before" not in line:
                    process.kill()
        text = "".join(told)
        assert process.returncode == (-9 if kill_after else 0), text
        return text

    def refusal(self, *arguments: str) -> str:
        """Why the command does nothing."""
        done = run_command(*self.command(*arguments)[len(PROGRAM) :])
        assert done.returncode == 1, done.stdout
        return done.stderr

    def holder(self, namespace: str, name: str) -> str:
        """Who holds a Lease."""
        try:
            found = self.api.get(f"{LEASES}/{namespace}/leases/{name}")
        except RestError:
            return ""
        return str(found["spec"].get("holderIdentity") or "")

    def holders(self) -> tuple[str, str]:
        """Who holds Kueue's Lease, and who ours."""
        return (
            self.holder("kueue-system", names.KUEUE_LEASE_NAME),
            self.holder(names.SYSTEM_NAMESPACE, names.LEASE_NAME),
        )
