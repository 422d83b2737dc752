"""One operator on a cluster with gpu-admission, whose kubelets run nothing."""

import base64
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import yaml

from admission.base.clock import SystemClock
from certs import authority
from tests.controlplane import commands, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import Daemon, free_port
from tests.controlplane.rest import Json
from tests.integration.applied import APPLY
from tests.integration.installed import Installed, installed
from tests.interop import ray_dashboard
from tests.interop.modules import say
from tests.interop.operators import CERTIFICATES, Operator, Place, Program

FINISH: Final = "interop.test/finish"
"""Annotation of a pod that its kubelet ends as succeeded."""

PRODUCT: Final = "A100"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS: Final = "/apis/admissionregistration.k8s.io/v1"
_START_SECONDS: Final = 90


class Lab:
    """An operator that runs, and what tests do with it.

    Attributes:
        operator: which one.
        installed: gpu-admission on its cluster.
    """

    def __init__(self, operator: Operator, installed: Installed) -> None:
        self.operator = operator
        self.installed = installed
        self.api = installed.api
        self._cluster = installed.cluster
        self._asked = ExitStack()

    def start(self) -> None:
        """Start the operator and those that it needs, and return when all are ready."""
        operators = (*self.operator.beside, self.operator)
        issued = _issue_certificates(operators)
        for operator in operators:
            self._start(operator, issued)

    def _start(self, operator: Operator, issued: Mapping[str, bytes]) -> None:
        """Start an operator as its manifests do, and return when it is ready."""
        cluster = self._cluster
        self.api.post("/api/v1/namespaces", {"metadata": {"name": operator.namespace}})
        kubeconfig = self._account(operator)
        self._install_crds(operator)
        encoded = self._store_certificates(operator, issued)
        for name in operator.manifests:
            for document in yaml.safe_load_all((operator.module.source / name).read_text()):
                kind = f"{document['kind'].lower()}s"
                self.api.post(f"/apis/{document['apiVersion']}/{kind}", document)
        for program in operator.programs:
            place = Place(
                kubeconfig=kubeconfig,
                folder=cluster.folder,
                namespace=operator.namespace,
                health=free_port(),
                webhook=free_port(),
            )
            for document in operator.objects(place):
                path = f"/api/v1/namespaces/{operator.namespace}/{document['kind'].lower()}s"
                self.api.post(path, document)
            binary = operator.module.program(program.package)
            command = [str(binary), *program.flags(place)]
            daemon = cluster.add(f"operator-{binary.name}", command)
            environment = {"KUBECONFIG": str(kubeconfig), **operator.environment}
            if operator.asks_ray:
                environment["HTTP_PROXY"] = self._asked.enter_context(
                    ray_dashboard.proxy(self.pods)
                )
            daemon.start(environment)
            self._await_ready(operator, daemon, program, place)
            if operator.webhooks:
                self._register_webhooks(operator, place, encoded)

    def stop(self) -> None:
        """Stop what operators ask."""
        self._asked.close()

    def _account(self, operator: Operator) -> Path:
        """Make its service account, which may do everything; its kubeconfig."""
        namespace, name = operator.namespace, operator.account
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.api.post(accounts, {"metadata": {"name": name}})
        group = "rbac.authorization.k8s.io"
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        self.api.post(f"{_RBAC}/clusterrolebindings", binding)
        self._cluster.wait_for_roles()
        return self._cluster.account_kubeconfig(namespace, name)

    def _install_crds(self, operator: Operator) -> None:
        source = operator.module.source
        files = [one for pattern in operator.crds for one in sorted(source.glob(pattern))]
        assert files, f"{source} holds no {operator.crds}"
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for file in files:
            for document in yaml.load_all(file.read_text(), loader):
                if document and document["kind"] == "CustomResourceDefinition":
                    self._install_crd(document)

    def _install_crd(self, document: Json) -> None:
        name, spec = document["metadata"]["name"], document["spec"]
        document.pop("status", None)
        spec.pop("conversion", None)  # one version is stored and served
        annotations = document["metadata"].setdefault("annotations", {})
        annotations.setdefault("api-approved.kubernetes.io", "unapproved, for tests")
        query = "fieldManager=interop&force=true"
        self.api.patch(f"{_CRDS}/{name}?{query}", document, APPLY)
        served = next(one["name"] for one in spec["versions"] if one["served"])
        path = f"/apis/{spec['group']}/{served}/{spec['names']['plural']}"
        waiting.until(lambda: self.api.answers(path), what=f"{name} served")

    def _store_certificates(self, operator: Operator, issued: Mapping[str, bytes]) -> str:
        """Store the certificates in its namespace; that of the authority, encoded."""
        # An operator that renews them itself reads them here, and finds them valid.
        data = {name: base64.b64encode(one).decode() for name, one in issued.items()}
        metadata = {"name": f"{operator.service or 'none'}-webhook-cert"}
        path = f"/api/v1/namespaces/{operator.namespace}/secrets"
        self.api.post(path, {"metadata": metadata, "data": data})
        return data["ca.crt"]

    def _await_ready(
        self, operator: Operator, daemon: Daemon, program: Program, place: Place
    ) -> None:
        def ready() -> bool:
            probe = f"http://127.0.0.1:{place.health}"
            if program.probe and self.installed.probe(probe, program.probe) != 200:
                return False
            return not operator.webhooks or _listens(place.webhook)

        daemon.wait_until(ready, within_seconds=_START_SECONDS)

    def _register_webhooks(self, operator: Operator, place: Place, ca: str) -> None:
        """Have the API server ask the operator's webhooks, at their port on this machine."""
        text = (operator.module.source / operator.webhooks).read_text()
        for document in yaml.safe_load_all(text):
            document["metadata"]["name"] = f"{operator.account}-{document['kind'].lower()}"
            for webhook in document["webhooks"]:
                service = webhook["clientConfig"].pop("service")
                url = f"https://127.0.0.1:{place.webhook}{service['path']}"
                webhook["clientConfig"] = {"url": url, "caBundle": ca}
                if any("pods" in rule["resources"] for rule in webhook["rules"]):
                    named = {"key": operator.pods_with, "operator": "Exists"}
                    webhook["objectSelector"] = {"matchExpressions": [named]}
            self.api.post(f"{_REVIEWS}/{document['kind'].lower()}s", document)

    def add_team(self, gpus: int) -> str:
        """Make a namespace with a LocalQueue for some GPUs, and CPU and memory in plenty."""
        team = self.installed.add_team(gpus)
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{team}"
        (group,) = self.api.get(path)["spec"]["resourceGroups"]
        group["coveredResources"] += ["cpu", "memory"]
        for flavor in group["flavors"]:
            flavor["resources"] += [
                {"name": "cpu", "nominalQuota": "100"},
                {"name": "memory", "nominalQuota": "100Gi"},
            ]
        self.api.patch(path, {"spec": {"resourceGroups": [group]}})
        self.installed.wait_webhook()
        return team

    def pods(self, team: str) -> list[Json]:
        """The pods of a team that are not being deleted."""
        found = self.api.get(f"/api/v1/namespaces/{team}/pods")["items"]
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def tail(self) -> str:
        """The last lines of what the operator and gpu-admission logged."""
        logs = [self._cluster.logs[one] for one in self._cluster.logs if "operator" in one]
        texts = [(path, path.read_text(errors="replace")) for path in (*logs, self.installed.log)]
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(text.splitlines()[-25:]) for path, text in texts
        )


def _issue_certificates(operators: Sequence[Operator]) -> dict[str, bytes]:
    """Put certificates where operators look for them, all in one place; what there is."""
    now = SystemClock().now()
    issuer = authority.issue_authority(now)
    services = [f"{one.service or 'none'}.{one.namespace}.svc" for one in operators]
    pair = authority.issue_serving(issuer, [*services, "127.0.0.1"], now)
    content = {
        "tls.crt": pair.certificate_pem(),
        "tls.key": pair.key_pem(),
        "ca.crt": issuer.certificate_pem(),
    }
    CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, one in content.items():
        (CERTIFICATES / name).write_bytes(one)
    return {**content, "ca.key": issuer.key_pem()}


def _listens(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


def stages(folder: Path) -> Path:
    """Write what kubelets do: pods succeed when an annotation says so, and run until then."""
    documents = list(yaml.safe_load_all(commands.STAGES.read_text()))
    for one in documents:
        if one["metadata"]["name"] == "pod-complete":
            *kept, _owner = one["spec"]["selector"]["matchExpressions"]
            told = {"key": f'.metadata.annotations["{FINISH}"]', "operator": "Exists"}
            one["spec"]["selector"]["matchExpressions"] = [*kept, told]
            del one["spec"]["delay"]
    path = folder / "stages.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


@contextmanager
def lab(operator: Operator, folder: Path) -> Iterator[Lab]:
    """Start a cluster with gpu-admission and an operator; stop all of it at the end."""
    for one in (*operator.beside, operator):
        for program in one.programs:
            one.module.program(program.package)
    say(f"{operator.name} {operator.module.version}: starting")
    with Cluster.start() as cluster:
        cluster.start_whole(stages(folder))
        labels: Mapping[str, str] = {"nvidia.com/gpu.product": PRODUCT}
        cluster.add_gpu_node("gpus", gpus=64, labels=labels)
        with installed(cluster, folder) as it:
            made = Lab(operator, it)
            try:
                made.start()
                yield made
            finally:
                made.stop()
