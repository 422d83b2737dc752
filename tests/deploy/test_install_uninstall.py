"""What is installed is accepted by a real API server, whichever way it gets there."""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography import x509

from admission.admin import manifests, rbac, visibility_manifests, webhook_certificate
from admission.base import names
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.installed import serving_certificate
from admission.kube.api import Api
from admission.kube.apply import Effect
from admission.run.connection import ApiServerTarget
from tests.clocks import FakeClock
from tests.controlplane import build, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import RestError
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.integration.installed import run_command

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]
SYSTEM = "gpu-admission-system"
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/{serving_certificate.SECRET}"
INJECT = "cert-manager.io/inject-ca-from"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{WEBHOOKS}/mutatingwebhookconfigurations/gpu-admission-mutating-webhook-configuration"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start() as started:
        started.api.post("/api/v1/namespaces", manifests.namespace(Settings()))
        yield started


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    client = ApiServerTarget(str(cluster.admin_kubeconfig)).connect(
        connections=1, timeout_seconds=30
    )
    yield client
    client.close()


def kubectl(cluster: Cluster, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [str(build.folder() / "kubectl"), f"--kubeconfig={cluster.admin_kubeconfig}", *arguments],
        input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


STRATEGIC = "application/strategic-merge-patch+json"


def install(cluster: Cluster, *arguments: str) -> dict[str, str]:
    """Effects by kind and name; with the modes of rendered manifests."""
    command = ("install", "--kubeconfig", str(cluster.admin_kubeconfig), "--mode", "warn")
    done = run_command(*command, "-o", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return {f"{one['kind']}/{one['name']}": one["effect"] for one in json.loads(done.stdout)}


def content(cluster: Cluster) -> dict[str, str]:
    data: dict[str, str] = cluster.api.get(SECRET)["data"]
    return data


def bundle(cluster: Cluster) -> str:
    text: str = cluster.api.get(MUTATING)["webhooks"][0]["clientConfig"].get("caBundle", "")
    return text


@pytest.mark.parametrize("folder", ["base", "cert-manager"])
def test_kubectl_builds_the_kustomization(cluster: Cluster, folder: str) -> None:
    built = list(yaml.safe_load_all(kubectl(cluster, "kustomize", f"{ROOT}/deploy/{folder}")))
    documents = manifests.base(Settings(), manifests.DEFAULT_IMAGE).values()
    added = {"base": 0, "cert-manager": 2 - len(rbac.certificates(SYSTEM))}[folder]
    assert len(built) == sum(len(part) for part in documents) + added
    injected = [one["kind"] for one in built if INJECT in one["metadata"].get("annotations", {})]
    kinds = {"CustomResourceDefinition", "MutatingWebhookConfiguration",
             "ValidatingWebhookConfiguration"}  # fmt: skip
    assert set(injected) == (kinds if added else set())
    rotates = {one["metadata"]["name"] for one in built} >= {rbac.CERTIFICATES_ROLE}
    assert rotates is (folder == "base")


def test_the_patch_for_tainted_nodes_in_the_readme_is_applied(
    cluster: Cluster, tmp_path: Path
) -> None:
    readme = (ROOT / "deploy" / "README.md").read_text()
    (shown,) = re.findall(r"```yaml\n# kustomization.yaml\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(shown)
    shutil.copytree(ROOT / "deploy" / "base", tmp_path / "deploy" / "base")
    built = yaml.safe_load_all(kubectl(cluster, "kustomize", str(tmp_path)))
    tolerated = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"].get("tolerations")
        for one in built
        if one["kind"] == "Deployment"
    }
    wanted = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert tolerated == {manifests.WEBHOOK: wanted, manifests.CONTROLLER: wanted}


def test_kubectl_builds_alerts_boards_and_monitors(cluster: Cluster) -> None:
    built = list(yaml.safe_load_all(kubectl(cluster, "kustomize", f"{ROOT}/deploy/observability")))
    found = {(one["kind"], one["metadata"]["name"]): one for one in built}
    assert found.keys() == {
        ("ConfigMap", "gpu-admission-boards"),
        ("PodMonitor", "gpu-admission-controller"),
        ("PrometheusRule", "gpu-admission"),
        ("ServiceMonitor", "gpu-admission-webhook"),
    }
    assert {one["metadata"]["namespace"] for one in built} == {SYSTEM}
    boards = found["ConfigMap", "gpu-admission-boards"]["data"]
    assert {json.loads(text)["uid"] for text in boards.values()} == {
        name.removesuffix(".json") for name in boards
    }


def test_the_api_server_accepts_every_document_of_the_base(cluster: Cluster) -> None:
    text = kubectl(cluster, "kustomize", f"{ROOT}/deploy/base")
    told = kubectl(
        cluster, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
        text=text,
    )  # fmt: skip
    assert len(told.splitlines()) == len(list(yaml.safe_load_all(text)))
    assert all("serverside-applied (server dry run)" in line for line in told.splitlines())


@pytest.mark.parametrize("name", [manifests.WEBHOOK, manifests.CONTROLLER])
def test_the_pods_may_run_in_our_own_restricted_namespace(cluster: Cluster, name: str) -> None:
    path = f"/api/v1/namespaces/{SYSTEM}/pods?dryRun=All"
    documents = manifests.base(Settings(), manifests.DEFAULT_IMAGE)
    (deployment,) = [
        one
        for part in documents.values()
        for one in part
        if one["kind"] == "Deployment" and one["metadata"]["name"] == name
    ]
    spec = deployment["spec"]["template"]["spec"]
    pod: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
    assert cluster.api.post(path, pod)["spec"]["priority"] > 10**9
    loose = {key: value for key, value in spec.items() if key != "securityContext"}
    with pytest.raises(RestError, match="violates PodSecurity"):
        cluster.api.post(path, {**pod, "spec": loose})


def test_installing_twice_changes_nothing_and_trusts_the_secrets_authority(
    cluster: Cluster,
) -> None:
    first = install(cluster)
    assert first[f"Secret/{serving_certificate.SECRET}"] == "created"
    assert first[f"Deployment/{manifests.WEBHOOK}"] == "created"
    assert bundle(cluster) == content(cluster)["ca.crt"]
    assert set(install(cluster).values()) == {"unchanged"}


def test_the_command_installs_what_the_base_holds_and_the_secret(cluster: Cluster) -> None:
    base = manifests.base(Settings(), manifests.DEFAULT_IMAGE)
    named = {f"{one['kind']}/{one['metadata']['name']}" for part in base.values() for one in part}
    assert install(cluster).keys() == named | {f"Secret/{serving_certificate.SECRET}"}


def test_the_certificate_names_the_service(cluster: Cluster) -> None:
    install(cluster)
    pem = base64.b64decode(content(cluster)["tls.crt"])
    hosts = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    found = hosts.value.get_values_for_type(x509.DNSName)
    assert f"gpu-admission-webhook.{SYSTEM}.svc" in found


def test_applying_the_base_after_the_command_keeps_the_authority(cluster: Cluster) -> None:
    install(cluster)
    kubectl(cluster, "apply", "--server-side", "-k", f"{ROOT}/deploy/base")
    assert bundle(cluster) == content(cluster)["ca.crt"]


def test_a_due_certificate_is_renewed_by_the_same_authority(cluster: Cluster, api: Api) -> None:
    install(cluster)
    before = content(cluster)
    clock = FakeClock(SystemClock().now() + timedelta(days=300))
    ensured = webhook_certificate.ensure(api, Settings(), clock)

    assert ensured.applied.effect is Effect.CONFIGURED
    after = content(cluster)
    assert after["tls.crt"] != before["tls.crt"]
    assert after["ca.crt"] == before["ca.crt"]


def test_a_secret_without_the_authoritys_key_is_only_read(cluster: Cluster, api: Api) -> None:
    install(cluster)
    cluster.api.patch(SECRET, {"data": {"ca.key": None}})
    version = cluster.api.get(SECRET)["metadata"]["resourceVersion"]
    clock = FakeClock(SystemClock().now() + timedelta(days=300))
    ensured = webhook_certificate.ensure(api, Settings(), clock)

    assert ensured.applied.effect is Effect.UNCHANGED
    assert base64.b64encode(ensured.authority).decode() == content(cluster)["ca.crt"]
    assert cluster.api.get(SECRET)["metadata"]["resourceVersion"] == version
    cluster.api.patch(SECRET, {"data": {"ca.crt": None}})
    with pytest.raises(webhook_certificate.SecretError, match=r"holds no ca\.crt"):
        webhook_certificate.ensure(api, Settings(), clock)
    cluster.api.delete(SECRET)


def test_who_waits_is_passed_on_on_request_only_and_with_our_authority(cluster: Cluster) -> None:
    install(cluster)
    path = "/apis/apiregistration.k8s.io/v1/apiservices"

    def ours() -> list[dict[str, Any]]:
        found = cluster.api.get(path)["items"]
        return [one for one in found if one["spec"].get("group") == names.VISIBILITY_GROUP]

    assert ours() == []
    assert install(cluster, "--visibility")[f"APIService/v1beta2.{names.VISIBILITY_GROUP}"] == (
        "created"
    )
    # The aggregator writes once into each whether it can be reached.
    waiting.until(
        lambda: all(one.get("status", {}).get("conditions") for one in ours()),
        what="conditions of the APIServices",
    )
    assert set(install(cluster, "--visibility").values()) == {"unchanged"}
    service = {"name": visibility_manifests.SERVICE, "namespace": SYSTEM, "port": 443}
    for one in ours():
        assert one["spec"]["service"] == service
        assert one["spec"]["caBundle"] == content(cluster)["ca.crt"]
    assert len(ours()) == 2
    pem = base64.b64decode(content(cluster)["tls.crt"])
    hosts = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert serving_certificate.visibility_host(SYSTEM) in hosts.value.get_values_for_type(
        x509.DNSName
    )
    changed = install(cluster, "--no-visibility")
    assert changed[f"APIService/v1beta2.{names.VISIBILITY_GROUP}"] == "deleted"
    assert ours() == []


PARTS: Final[dict[str, tuple[str, ...]]] = {
    "image": ("--image", "gpu-admission:of-ours"),
    "visibility": ("--visibility",),
    "bypass guard": ("--no-bypass-guard",),
    "older versions": ("--no-older-versions",),
}
AS_NEW: Final = (
    "--image", manifests.DEFAULT_IMAGE, "--no-visibility", "--bypass-guard", "--older-versions",
)  # fmt: skip


def parts(cluster: Cluster) -> tuple[str, int, int, list[str]]:
    """The image, how many APIServices and policies of ours there are, and the versions served."""
    deployment = cluster.api.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments")["items"][0]
    services = cluster.api.get("/apis/apiregistration.k8s.io/v1/apiservices")["items"]
    policies = cluster.api.get(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    )["items"]
    crd = cluster.api.get(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
    )
    return (
        deployment["spec"]["template"]["spec"]["containers"][0]["image"],
        sum(one["spec"].get("group") == names.VISIBILITY_GROUP for one in services),
        sum(one["metadata"]["name"].startswith("gpu-admission-bypass") for one in policies),
        [one["name"] for one in crd["spec"]["versions"] if one["served"]],
    )


@pytest.mark.parametrize("part", PARTS)
def test_who_installs_again_and_says_nothing_of_a_part_leaves_it(
    cluster: Cluster, part: str
) -> None:
    """As for a repair, by somebody who does not know how it was installed."""
    install(cluster, *AS_NEW)
    as_new = parts(cluster)
    install(cluster, *PARTS[part])
    chosen = parts(cluster)
    install(cluster)
    after = parts(cluster)
    broken = run_command("break-glass", "on", "--kubeconfig", str(cluster.admin_kubeconfig))
    install(cluster)
    after_broken_glass = parts(cluster)
    off = run_command("break-glass", "off", "--kubeconfig", str(cluster.admin_kubeconfig))
    install(cluster, *AS_NEW)
    assert (broken.returncode, off.returncode) == (0, 0), broken.stderr + off.stderr
    assert chosen == after == after_broken_glass
    assert chosen != as_new


def test_replicas_and_resources_that_an_administrator_has_set_stay(cluster: Cluster) -> None:
    install(cluster)
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{manifests.CONTROLLER}"
    (container,) = cluster.api.get(path)["spec"]["template"]["spec"]["containers"]
    larger = {"name": container["name"], "resources": {"limits": {"memory": "4Gi"}}}
    template = {"spec": {"containers": [larger]}}
    cluster.api.patch(path, {"spec": {"template": template}}, STRATEGIC)
    cluster.api.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    effects = install(cluster)
    assert effects[f"Deployment/{manifests.CONTROLLER}"] == "unchanged"
    spec = cluster.api.get(path)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 3
    assert container["resources"]["limits"]["memory"] == "4Gi"
    assert container["resources"]["requests"] == {"cpu": "200m", "memory": "256Mi"}


def test_a_configuration_reaches_the_pods_and_the_webhooks(
    cluster: Cluster, tmp_path: Path
) -> None:
    install(cluster)
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: config.gpu-admission.dev/v1alpha1\nkind: GpuConfiguration\n"
        "excludedNamespaces: [drivers]\n"
    )
    changed = install(cluster, "--config", str(file), "--image", "registry.example.com/gpu:1")
    assert changed[f"ConfigMap/{manifests.CONFIG_MAP}"] == "configured"
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{manifests.WEBHOOK}"
    (container,) = cluster.api.get(path)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/gpu:1"
    selector = cluster.api.get(MUTATING)["webhooks"][0]["namespaceSelector"]
    assert "drivers" in selector["matchExpressions"][0]["values"]


def test_uninstalling_leaves_nothing(cluster: Cluster) -> None:
    install(cluster, "--visibility")
    kubeconfig = str(cluster.admin_kubeconfig)
    done = run_command("uninstall", "--yes", "--kubeconfig", kubeconfig, "-o", "json")
    assert done.returncode == 0, done.stderr
    for path in (
        f"/apis/apps/v1/namespaces/{SYSTEM}/deployments",
        f"/apis/policy/v1/namespaces/{SYSTEM}/poddisruptionbudgets",
        f"/api/v1/namespaces/{SYSTEM}/secrets",
        f"/api/v1/namespaces/{SYSTEM}/services",
        f"/api/v1/namespaces/{SYSTEM}/serviceaccounts",
        f"{WEBHOOKS}/mutatingwebhookconfigurations",
        f"{WEBHOOKS}/validatingwebhookconfigurations",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ):
        assert cluster.api.get(path)["items"] == [], path
    services = cluster.api.get("/apis/apiregistration.k8s.io/v1/apiservices")["items"]
    assert [one for one in services if one["spec"].get("service")] == []
