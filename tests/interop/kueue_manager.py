"""Kueue's own manager on a test cluster, as its manifests run it: a Deployment with a leader.

Nothing runs containers here. For each pod of the Deployment a process of the real manager stands
in: it starts when the pod is bound, is told to end when the pod is to go, and the pod goes when
the process has ended.
"""

import base64
import http.client
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from admission.base.clock import SystemClock, to_wire
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import free_port
from tests.controlplane.rest import Json, RestError
from tests.integration.applied import APPLY
from tests.interop import lab
from tests.interop.kueuectl import MODULE
from tests.interop.modules import Module, say

PACKAGE: Final = "./cmd/kueue"
NAMESPACE: Final = "kueue-system"
NAME: Final = "kueue-controller-manager"

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS: Final = "/apis/admissionregistration.k8s.io/v1"
_LABELS: Final = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
_PROCESS: Final = "interop.test/process"
"""Finalizer of a pod whose process has not ended."""
_CONVERTED: Final = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
"""Source: kueue config/components/crd/kustomization.yaml."""
STRATEGIC: Final = "application/strategic-merge-patch+json"
_UNREVIEWED: Final = ("kube-system", NAMESPACE)


class Manager:
    """Kueue, installed and running.

    Attributes:
        cluster: where it runs.
        log: what its processes logged.
    """

    def __init__(self, cluster: Cluster, folder: Path, module: Module = MODULE) -> None:
        self.cluster = cluster
        self.log = folder / "kueue.log"
        self._api = cluster.api
        self._module = module
        self._program = module.program(PACKAGE)
        self._folder = folder
        self._webhook_port, self._health_port = free_port(), free_port()
        self._certificates = folder / "kueue-certs"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._restarts = 0

    @property
    def runs(self) -> int:
        """How many processes there are."""
        return sum(one.poll() is None for one in self._processes.values())

    def install(self) -> None:
        """Create what its manifests have, and wait until its webhooks answer."""
        self._register(self.install_kinds())
        self._api.post(
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            {
                "metadata": {"name": "kueue-manager-config"},
                "data": {"controller_manager_config.yaml": yaml.safe_dump(self._config())},
            },
        )
        self._api.post(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", _deployment())
        self._thread.start()
        self.wait_serving()

    def install_kinds(self) -> str:
        """Create its kinds and its account; return its authority, encoded."""
        self._api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._account()
        ca = self._issue()
        self._install_crds(ca)
        return ca

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        """One process runs inside the block, and nobody asks it for reviews.

        Its requests are not limited.
        """
        process = self._started({"clientConnection": {"qps": 1000, "burst": 2000}})
        try:
            waiting.until(self._serves, what="Kueue serves", within_seconds=60)
            waiting.until(self.leader, what="a leader of Kueue", within_seconds=60)
            yield process
        finally:
            _end(process)

    def wait_serving(self) -> None:
        """Wait until the API server asks its webhooks, and a replica leads."""
        waiting.until(self._is_asked, what="Kueue's webhooks answer", within_seconds=180)
        waiting.until(self.leader, what="a leader of Kueue", within_seconds=60)

    def leader(self) -> str:
        """Return who holds Kueue's Lease."""
        name = "c1f6bfd2.kueue.x-k8s.io"
        try:
            found = self._api.get(
                f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}"
            )
        except RestError:
            return ""
        return str(found["spec"].get("holderIdentity") or "")

    def stop(self) -> None:
        """End its processes, and play its kubelet no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for one in self._processes.values():
            _end(one)

    # ---------------------------------------------------------------------------- kubelet

    def _play(self) -> None:
        while not self._stopping.wait(0.2):
            try:
                self._look()
            except RestError as error:
                say(f"kubelet of Kueue: {error}")

    def _look(self) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        for pod in self._api.get(path)["items"]:
            metadata = pod["metadata"]
            name, process = metadata["name"], self._processes.get(metadata["name"])
            if "deletionTimestamp" in metadata:
                if process is not None:
                    _end(process)
                if metadata.get("finalizers"):
                    change: Json = {"metadata": {"finalizers": None}}
                    self._api.patch(f"{path}/{name}", change)
            elif pod["spec"].get("nodeName") and (process is None or process.poll() is not None):
                if process is not None:
                    self._restarts += 1
                    say(f"Kueue's process ended by itself with {process.poll()}")
                self._processes[name] = self._started()
            elif process is not None:
                self._tell(pod)

    def _tell(self, pod: Json) -> None:
        """Say whether a process serves, as the probe of a kubelet does."""
        said = {one["type"]: one["status"] for one in pod["status"].get("conditions") or ()}
        status = "True" if self._serves() else "False"
        if said.get("Ready") == status:
            return
        conditions = [
            {"type": kind, "status": status, "lastTransitionTime": to_wire(SystemClock().now())}
            for kind in ("Ready", "ContainersReady")
        ]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/status"
        self._api.patch(
            path, {"status": {"phase": "Running", "conditions": conditions}}, STRATEGIC
        )

    def _serves(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._health_port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _started(self, settings: Json | None = None) -> subprocess.Popen[bytes]:
        config = self._folder / "kueue.yaml"
        config.write_text(yaml.safe_dump({**self._config(), **(settings or {})}))
        command = [
            str(self._program), f"--config={config}", "--zap-log-level=2",
            "--feature-gates=VisibilityOnDemand=false",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "KUBECONFIG": str(self._kubeconfig)},
            )

    # ---------------------------------------------------------------------------- objects

    def _config(self) -> Json:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": self._webhook_port, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE},
            "internalCertManagement": {"enable": True},
            "integrations": {"frameworks": ["batch/job", "pod"]},
        }

    def _account(self) -> None:
        self._api.post(
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": NAME}}
        )
        group = "rbac.authorization.k8s.io"
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
        binding = {"metadata": {"name": NAME}, "roleRef": reference, "subjects": [subject]}
        self._api.post(f"{_RBAC}/clusterrolebindings", binding)
        self.cluster.wait_for_roles()
        self._kubeconfig = self.cluster.account_kubeconfig(NAMESPACE, NAME)

    def _issue(self) -> str:
        """Put certificates where the manager looks; the CA, encoded. It finds them valid."""
        content = _certificates()
        self._certificates.mkdir()
        for name, one in content.items():
            (self._certificates / name).write_bytes(one)
        data = {name: base64.b64encode(one).decode() for name, one in content.items()}
        self._api.post(
            f"/api/v1/namespaces/{NAMESPACE}/secrets",
            {"metadata": {"name": "kueue-webhook-server-cert"}, "data": data},
        )
        return data["ca.crt"]

    def _install_crds(self, ca: str) -> None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        served = []
        for file in sorted(self._module.source.glob("config/components/crd/bases/*.yaml")):
            (document,) = yaml.load_all(file.read_text(), loader)
            name, plural = document["metadata"]["name"], document["spec"]["names"]["plural"]
            document.pop("status", None)
            if plural in _CONVERTED:
                url = f"https://127.0.0.1:{self._webhook_port}/convert"
                document["spec"]["conversion"] = {
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"url": url, "caBundle": ca},
                        "conversionReviewVersions": ["v1"],
                    },
                }
            query = "fieldManager=kubectl&force=true"
            self._api.patch(f"{_CRDS}/{name}?{query}", document, APPLY)
            version = next(one["name"] for one in document["spec"]["versions"] if one["storage"])
            served.append(f"/apis/kueue.x-k8s.io/{version}/{plural}")
        for path in served:
            waiting.until(lambda path=path: self._api.answers(path), what=f"{path} served")  # type: ignore[misc]

    def _register(self, ca: str) -> None:
        text = (self._module.source / "config/components/webhook/manifests.yaml").read_text()
        for document in yaml.safe_load_all(text):
            kind = document["kind"]
            document["metadata"]["name"] = f"kueue-{document['metadata']['name']}"
            for webhook in document["webhooks"]:
                service = webhook["clientConfig"].pop("service")
                url = f"https://127.0.0.1:{self._webhook_port}{service['path']}"
                webhook["clientConfig"] = {"url": url, "caBundle": ca}
                if not any("kueue.x-k8s.io" in rule["apiGroups"] for rule in webhook["rules"]):
                    key = "kubernetes.io/metadata.name"
                    one = {"key": key, "operator": "NotIn", "values": list(_UNREVIEWED)}
                    webhook["namespaceSelector"] = {"matchExpressions": [one]}
            self._api.post(f"{_REVIEWS}/{kind.lower()}s", document)

    def _is_asked(self) -> bool:
        probe = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "try"},
            "spec": {},
        }
        path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues?dryRun=All"
        try:
            made = self._api.post(path, probe)
        except RestError:
            return False
        return bool(made["metadata"].get("finalizers"))


def _certificates() -> dict[str, bytes]:
    """What Kueue's rotator would make, and so leaves as it is, but also for this machine.

    Source: open-policy-agent/cert-controller pkg/rotator: RSA keys, and the name of the authority
    in its certificate.
    """
    now = SystemClock().now()
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kueue-ca")])
    ca_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    ca = (
        _builder(ca_name, ca_name, ca_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("kueue-ca")]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    host = f"kueue-webhook-service.{NAMESPACE}.svc"
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    hosts = [x509.DNSName(host), x509.IPAddress(ip_address("127.0.0.1"))]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    pair = (
        _builder(name, ca_name, key, now)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return {
        "tls.crt": pair.public_bytes(serialization.Encoding.PEM),
        "tls.key": _pem(key),
        "ca.crt": ca.public_bytes(serialization.Encoding.PEM),
        "ca.key": _pem(ca_key),
    }


def _builder(
    name: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
    )


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _deployment() -> Json:
    spec: dict[str, Any] = {
        "containers": [{"name": "manager", "image": "kueue"}],
        "volumes": [{"name": "manager-config", "configMap": {"name": "kueue-manager-config"}}],
        "terminationGracePeriodSeconds": 10,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "labels": _LABELS},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # one port for all
            "selector": {"matchLabels": {"control-plane": "controller-manager"}},
            "template": {
                "metadata": {"labels": _LABELS, "finalizers": [_PROCESS]},
                "spec": spec,
            },
        },
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stages(folder: Path) -> Path:
    """Write what kubelets do, apart from Kueue's own pods."""
    path = lab.stages(folder)
    documents = list(yaml.safe_load_all(path.read_text()))
    for one in documents:
        if one["metadata"]["name"] == "pod-ready":
            key = '.metadata.labels["control-plane"]'
            one["spec"]["selector"]["matchExpressions"] += [
                {"key": key, "operator": "DoesNotExist"}
            ]
    path.write_text(yaml.safe_dump_all(documents))
    return path


@contextmanager
def running(cluster: Cluster, folder: Path) -> Iterator[Manager]:
    """Install Kueue, and run it inside the block."""
    manager = Manager(cluster, folder)
    try:
        manager.install()
        yield manager
    finally:
        manager.stop()
