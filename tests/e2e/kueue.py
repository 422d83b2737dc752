"""Kueue as it is installed in a cluster: its manager's pods run as processes, as the chart's do.

What runs in them is a stand-in (`tests.e2e.kueue_process`); ``make interop`` has the real manager.
"""

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from admission.base import names
from admission.base.clock import SystemClock
from admission.objects import crds
from certs import files
from tests.controlplane import waiting
from tests.controlplane.kubelet import Kubelet, PodProcess
from tests.controlplane.rest import Json, RestError
from tests.e2e import kueue_process
from tests.e2e.charted import CONFIGURATIONS, CRDS, REGISTRATION, Charted
from tests.e2e.kueue_process import LEASE, NAMESPACE
from tests.integration.installed import KUEUE

NAME: Final = "kueue-controller-manager"
SERVICE: Final = "kueue-webhook-service"
SECRET: Final = "kueue-webhook-server-cert"
CONFIG_MAP: Final = "kueue-manager-config"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
REPLICAS: Final = 2
_LABELS: Final = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
_COMPONENT: Final = "manager"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_ROOT: Final = Path(__file__).parents[2]
_CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"
_CONVERTED: Final = ("workloads", "localqueues", "clusterqueues", "cohorts")


class Kueue:
    """Kueue, installed beside nothing of ours.

    Attributes:
        kubelet: runs its pods.
    """

    def __init__(self, system: Charted, kubelet: Kubelet) -> None:
        self.kubelet = kubelet
        self._api = system.api
        self._port = system.network.route(lambda: kubelet.endpoints(_COMPONENT, "review"))

    def install(self, team: str, folder: Path) -> None:
        """Create what its manifests have, and wait until it decides.

        Args:
            team: the namespace whose pods it holds.
            folder: for its certificates.
        """
        api = self._api
        for document in crds.documents():
            api.post(CRDS, document)
        host = f"{SERVICE}.{NAMESPACE}.svc"
        issued = files.ensure(folder, [host], SystemClock().now())
        data = {
            path.name: base64.b64encode(path.read_bytes()).decode()
            for path in (issued.ca, issued.certificate, issued.key)
        }
        self._account()
        core = f"/api/v1/namespaces/{NAMESPACE}"
        api.post(f"{core}/secrets", {"metadata": {"name": SECRET}, "data": data})
        config = {"controller_manager_config.yaml": yaml.safe_dump(_config())}
        api.post(f"{core}/configmaps", {"metadata": {"name": CONFIG_MAP}, "data": config})
        here = {"type": "ExternalName", "externalName": "127.0.0.1"}
        api.post(f"{core}/services", {"metadata": {"name": SERVICE}, "spec": here})
        api.post(DEPLOYMENT.rpartition("/")[0], _deployment())
        for kind in ("Mutating", "Validating"):
            path = f"{REGISTRATION}/{kind.lower()}webhookconfigurations"
            api.post(path, self._configuration(kind, team, data["ca.crt"]))
        for plural in _CONVERTED:
            conversion = {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": self._place("/convert", data["ca.crt"]),
                    "conversionReviewVersions": ["v1"],
                },
            }
            api.patch(f"{CRDS}/{plural}.kueue.x-k8s.io", {"spec": {"conversion": conversion}})
        for plural in ("workloads", "localqueues", "clusterqueues", "resourceflavors"):
            waiting.until(
                lambda plural=plural: api.answers(f"{KUEUE}/{plural}"),  # type: ignore[misc]
                what=f"{plural} served",
            )
        self.wait_leader()
        waiting.until(lambda: len(self.pods()) == REPLICAS, what="Kueue's pods are ready")

    def pods(self) -> list[PodProcess]:
        """Its pods that are ready."""
        return [one for one in self.kubelet.pods() if one.is_ready]

    def holder(self) -> str:
        """Who holds its Lease."""
        try:
            return str(self._api.get(LEASE)["spec"].get("holderIdentity") or "")
        except RestError:
            return ""

    def wait_leader(self) -> None:
        """Wait until one of its pods decides."""
        waiting.until(
            lambda: self.holder() in {one.name for one in self.kubelet.pods()},
            what="Kueue has a leader",
        )

    def configurations(self) -> dict[str, Any]:
        """Its webhooks by the name of their configuration."""
        return {
            one["metadata"]["name"]: one["webhooks"]
            for path in CONFIGURATIONS
            for one in self._api.get(path)["items"]
            if one["metadata"]["name"].startswith("kueue-")
        }

    def conversions(self) -> dict[str, Any]:
        """How each of its kinds is converted."""
        return {
            one["metadata"]["name"]: one["spec"]["conversion"]
            for one in self._api.get(CRDS)["items"]
        }

    def _account(self) -> None:
        api = self._api
        api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        api.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": NAME}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
        binding = {
            "metadata": {"name": "kueue-manager-rolebinding", "labels": _LABELS},
            "roleRef": {**role, "name": "cluster-admin"},
            "subjects": [subject],
        }
        api.post(f"{_RBAC}/clusterrolebindings", binding)

    def _place(self, path: str, ca: str) -> Json:
        service = {"name": SERVICE, "namespace": NAMESPACE, "path": path, "port": self._port}
        return {"service": service, "caBundle": ca}

    def _configuration(self, kind: str, team: str, ca: str) -> Json:
        """Webhooks about new pods of a team, and about new queues."""
        asked = (
            ("pod", "", "pods", "v1"),
            ("queue", names.KUEUE_GROUP, "clusterqueues", "v1beta2"),
        )
        webhooks = [
            {
                "name": f"{kind[0].lower()}{name}.kb.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": self._place(f"/{kind.lower()}-{name}", ca),
                "rules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": [version],
                        "operations": ["CREATE"],
                        "resources": [plural],
                    }
                ],
            }
            for name, group, plural, version in asked
        ]
        webhooks[0]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": team}}
        name = f"kueue-{kind.lower()}-webhook-configuration"
        return {"metadata": {"name": name}, "webhooks": webhooks}


def _config() -> Json:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "webhook": {"port": 9443, "certDir": _CERTIFICATES},
        "leaderElection": {"leaderElect": True},
    }


def _deployment() -> Json:
    probe = {
        "httpGet": {"path": "/readyz", "port": "health", "scheme": "HTTP"},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
        "failureThreshold": 60,
    }
    container = {
        "name": "manager",
        "image": "registry.example.com/kueue:v0.19.0",
        "args": ["--config", "/config/controller_manager_config.yaml"],
        "ports": [
            {"name": "review", "containerPort": 9443},
            {"name": "health", "containerPort": 8081},
        ],
        "volumeMounts": [
            {"name": "manager-config", "mountPath": "/config"},
            {"name": "cert", "mountPath": _CERTIFICATES},
        ],
        "startupProbe": probe,
        "readinessProbe": probe,
        "livenessProbe": probe,
    }
    volumes = [
        {"name": "manager-config", "configMap": {"name": CONFIG_MAP}},
        {"name": "cert", "secret": {"secretName": SECRET}},
    ]
    selected = {"control-plane": "controller-manager"}
    labels = {**_LABELS, "app.kubernetes.io/component": _COMPONENT}
    return {
        "metadata": {"name": NAME, "labels": _LABELS},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": selected},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": NAME,
                    "containers": [container],
                    "volumes": volumes,
                    "terminationGracePeriodSeconds": 10,
                },
            },
        },
    }


@contextmanager
def running(system: Charted, team: str, folder: Path) -> Iterator[Kueue]:
    """Install Kueue, which holds the pods of a team, and run it inside the block."""
    starts = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); "
    starts += f"from {kueue_process.__name__} import main; main()"
    program = (sys.executable, "-c", starts)
    with Kubelet(system.cluster, system.network, NAMESPACE, program) as kubelet:
        it = Kueue(system, kubelet)
        it.install(team, folder)
        yield it
        assert not kubelet.problems, kubelet.problems
