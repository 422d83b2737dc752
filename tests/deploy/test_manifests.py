"""deploy/ is what the program writes, and what it writes fits together."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from packaging.requirements import Requirement

from admission.admin import manifests, modes, rbac, visibility_manifests
from admission.base import names
from admission.cli import main
from admission.config import reading
from admission.config.derived import Settings
from admission.config.gpu_configuration import Modes
from admission.config.kueue_configuration import Configuration
from admission.installed import serving_certificate

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "base"
CERT_MANAGER = ROOT / "deploy" / "cert-manager"
DEFAULTS = Settings()
QUOTA = Settings(kueue=Configuration(namespace="quota"))


def documents(settings: Settings = DEFAULTS) -> list[dict[str, Any]]:
    found = manifests.base(settings, manifests.DEFAULT_IMAGE)
    return [document for part in found.values() for document in part]


def of_kind(kind: str, settings: Settings = DEFAULTS) -> dict[str, dict[str, Any]]:
    found = [one for one in documents(settings) if one["kind"] == kind]
    return {one["metadata"]["name"]: one for one in found}


def containers() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pod and container of each Deployment."""
    pods = [one["spec"]["template"]["spec"] for one in of_kind("Deployment").values()]
    return [(pod, container) for pod in pods for container in pod["containers"]]


# -------------------------------------------------------------------------------------- files


def mode_of(settings: Settings) -> Modes:
    (found,) = of_kind("MutatingWebhookConfiguration", settings).values()
    text = found["metadata"]["annotations"][names.MODES]
    return Modes.model_validate_json(text, by_alias=False, by_name=True)


def test_the_base_warns_and_refuses_with_the_file_of_the_readme() -> None:
    readme = (ROOT / "deploy" / "README.md").read_text()
    (shown,) = re.findall(r"```yaml\n# modes.yaml\n(.*?)```", readme, re.DOTALL)
    assert mode_of(DEFAULTS) == modes.of("warn", DEFAULTS)
    assert mode_of(reading.read(shown, "README").settings) == modes.of("deny", DEFAULTS)


def test_the_committed_base_is_what_make_manifests_writes() -> None:
    committed = {path.name: path.read_text("utf-8") for path in BASE.iterdir()}
    written = manifests.files(DEFAULTS, manifests.DEFAULT_IMAGE)
    assert committed == written


def test_the_base_lists_every_file() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text("utf-8"))["resources"]
    assert {*listed, "kustomization.yaml"} == {path.name for path in BASE.iterdir()}


def test_the_stream_holds_the_namespace_first_and_the_webhooks_last() -> None:
    kinds = [one["kind"] for one in yaml.safe_load_all(manifests.stream(DEFAULTS, "image"))]
    assert kinds[0] == "Namespace"
    assert kinds[1] == "CustomResourceDefinition"
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert kinds.count("CustomResourceDefinition") == len(list(ROOT.glob("crds/*.yaml")))


def test_cert_manager_fills_the_secret_that_the_webhook_mounts() -> None:
    found = list(yaml.safe_load_all((CERT_MANAGER / "certificate.yaml").read_text("utf-8")))
    (certificate,) = [one for one in found if one["kind"] == "Certificate"]
    assert certificate["spec"]["secretName"] == serving_certificate.SECRET
    hosts = set(certificate["spec"]["dnsNames"])
    assert hosts <= set(serving_certificate.service_hosts(DEFAULTS))
    assert serving_certificate.visibility_host(DEFAULTS.namespace) in hosts
    name = f"{certificate['metadata']['namespace']}/{certificate['metadata']['name']}"
    injected = yaml.safe_load((CERT_MANAGER / "inject.yaml").read_text("utf-8"))
    assert injected["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": name}


def test_beside_cert_manager_the_controller_is_told_to_renew_nothing() -> None:
    patch = yaml.safe_load((CERT_MANAGER / "config.yaml").read_text("utf-8"))
    settings = Settings.model_validate({"kueue": {"internalCertManagement": {"enable": False}}})
    assert patch == manifests.config_map(settings)


# -------------------------------------------------------------------------------- coherence


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget"])
def test_a_selector_finds_the_pods_of_its_deployment(kind: str) -> None:
    deployments = of_kind("Deployment")
    for name, document in of_kind(kind).items():
        found = document["spec"]["selector"]
        selector = found.get("matchLabels", found)
        target = manifests.CONTROLLER if name == visibility_manifests.SERVICE else name
        labels = deployments[target]["spec"]["template"]["metadata"]["labels"]
        assert selector.items() <= labels.items()


def test_a_service_leads_to_a_port_of_its_pods() -> None:
    ports = {
        name: {port["name"] for port in pod["containers"][0]["ports"]}
        for name, one in of_kind("Deployment").items()
        for pod in [one["spec"]["template"]["spec"]]
    }
    services = {
        name: one["spec"]["ports"][0]["targetPort"] for name, one in of_kind("Service").items()
    }
    assert services[manifests.WEBHOOK] in ports[manifests.WEBHOOK]
    assert services[visibility_manifests.SERVICE] in ports[manifests.CONTROLLER]


def test_nothing_that_can_hold_up_the_cluster_is_in_the_base() -> None:
    """An APIService that cannot be reached keeps namespaces from being deleted."""
    assert of_kind("APIService") == {}


def test_an_api_service_trusts_the_authority_or_says_that_it_trusts_anybody() -> None:
    for authority, trust in (
        (b"PEM", {"caBundle": "UEVN"}),
        (b"", {"insecureSkipTLSVerify": True}),
    ):
        found = visibility_manifests.api_services("quota", 8082, authority)
        assert [one["metadata"]["name"] for one in found] == [
            "v1beta2.visibility.kueue.x-k8s.io", "v1beta1.visibility.kueue.x-k8s.io"
        ]  # fmt: skip
        for one in found:
            spec = one["spec"]
            assert trust.items() <= spec.items()
            assert ("caBundle" in spec) != ("insecureSkipTLSVerify" in spec)
            assert spec["service"] == {
                "namespace": "quota", "name": visibility_manifests.SERVICE, "port": 8082
            }  # fmt: skip
    assert serving_certificate.visibility_host("quota") in serving_certificate.service_hosts(QUOTA)


def test_every_argument_of_a_pod_is_one_of_its_command() -> None:
    for _, container in containers():
        command, *arguments = container["args"]
        known = main.main.get_command(click.Context(main.main), command)
        assert known is not None
        options = {name for one in known.params for name in one.opts}
        assert {one.partition("=")[0] for one in arguments} <= options
        assert isinstance(known, click.Command)


def test_the_configuration_in_the_cluster_is_the_installations() -> None:
    text = of_kind("ConfigMap")[manifests.CONFIG_MAP]["data"]["config.yaml"]
    effective = reading.read(text, "config.yaml")
    assert effective.settings == manifests.in_cluster(DEFAULTS)
    assert effective.unused == ()


def test_another_configuration_makes_other_pods() -> None:
    quota = {"kueue": {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}}}
    other = of_kind("Deployment", Settings.model_validate(quota))
    for name, document in of_kind("Deployment").items():
        hashes = [
            one["spec"]["template"]["metadata"]["annotations"]["gpu-admission.dev/config-hash"]
            for one in (document, other[name])
        ]
        assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("metrics", "health", "ports", "probed"),
    [
        ("127.0.0.1:8080", "", {"metrics": 8080}, "metrics"),
        ("0", "", {"metrics": 8080}, "metrics"),
        ("0", "[::1]:8081", {"health": 8081}, "health"),
        (
            "0.0.0.0:9090",
            "0.0.0.0:8081",
            {"metrics": 9090, "health": 8081},
            "health",
        ),
    ],
)
def test_probes_ask_where_the_controller_serves(
    metrics: str,
    health: str,
    ports: dict[str, int],
    probed: str,
) -> None:
    served = {
        "metrics": {"bindAddress": metrics},
        "health": {"healthProbeBindAddress": health},
    }
    settings = Settings.model_validate({"kueue": served})
    (_, _, deployment) = manifests.controller(settings, "image")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert found == {**ports, "visibility": 8082}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == probed
    inside = manifests.in_cluster(settings).kueue
    for address in (inside.metrics.address, inside.health.address):
        assert address is None or address.host == "0.0.0.0"


def test_another_namespace_is_everywhere() -> None:
    settings = QUOTA
    text = manifests.to_yaml(documents(settings))
    # As an excluded namespace it may still be named.
    for line in text.splitlines():
        assert not re.search(r"(namespace|name): gpu-admission-system", line)
    assert "system:serviceaccount:quota:" in text


# -------------------------------------------------------------------------------- restrictions


def test_pods_keep_to_the_restricted_standard() -> None:
    assert len(containers()) == 2
    for pod, container in containers():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_the_authoritys_key_stays_out_of_the_pod() -> None:
    secrets = [v["secret"] for pod, _ in containers() for v in pod["volumes"] if "secret" in v]
    assert len(secrets) == 2
    for secret in secrets:
        assert [one["key"] for one in secret["items"]] == ["ca.crt", "tls.crt", "tls.key"]


def test_the_controller_starts_without_a_certificate_and_the_webhook_waits_for_it() -> None:
    optional = {
        pod["containers"][0]["name"]: v["secret"].get("optional", False)
        for pod, _ in containers()
        for v in pod["volumes"]
        if "secret" in v
    }
    assert optional == {"webhook": False, "controller": True}


def test_nothing_secret_is_written() -> None:
    assert of_kind("Secret") == {}
    assert "PRIVATE KEY" not in manifests.stream(DEFAULTS, "image")


def test_two_pods_of_each_kind_and_one_may_be_away() -> None:
    for name, deployment in of_kind("Deployment").items():
        assert deployment["spec"]["replicas"] == 2
        assert of_kind("PodDisruptionBudget")[name]["spec"]["maxUnavailable"] == 1


def test_no_role_of_the_program_uses_wildcards_or_reads_other_secrets_than_its_own() -> None:
    for document in rbac.documents():
        for rule in document.get("rules", ()):
            parts = ("apiGroups", "resources", "verbs", "nonResourceURLs")
            assert "*" not in [name for part in parts for name in rule.get(part, ())]
            if "secrets" in rule.get("resources", ()):
                assert document["kind"] == "Role"
                assert rule["resourceNames"] == [serving_certificate.SECRET]


# --------------------------------------------------------------------------------------- image


def pins(lock: Path) -> dict[str, str]:
    text = lock.read_text("utf-8")
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE))


def test_the_image_holds_the_tested_versions_and_no_tools_of_development() -> None:
    image, tested = pins(ROOT / "deploy/requirements.lock"), pins(ROOT / "requirements.lock")
    assert image.items() <= tested.items()
    assert not image.keys() & {"pytest", "mypy", "ruff", "hypothesis", "uv", "setuptools"}


def test_every_pin_of_the_image_has_a_hash() -> None:
    text = (ROOT / "deploy/requirements.lock").read_text("utf-8")
    entries = re.findall(r"^[A-Za-z0-9._-]+==(?:.*\\\n)*.*$", text, re.MULTILINE)
    assert len(entries) == len(pins(ROOT / "deploy/requirements.lock"))
    assert [one for one in entries if "--hash=sha256:" not in one] == []


def test_what_builds_the_image_is_pinned_by_hash_as_it_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [line for line in (ROOT / "deploy/build.in").read_text("utf-8").splitlines()
              if not line.startswith("#")]  # fmt: skip
    assert wanted == project["build-system"]["requires"]
    built, tested = pins(ROOT / "deploy/build.lock"), pins(ROOT / "requirements.lock")
    assert built.keys() == {Requirement(one).name for one in wanted}
    assert built.items() <= tested.items()
    assert "--hash=sha256:" in (ROOT / "deploy/build.lock").read_text("utf-8")
    installs = re.findall(r"pip install [^\\]*", (ROOT / "deploy/Dockerfile").read_text("utf-8"))
    for one in installs:
        assert "--require-hashes" in one or "--no-deps dist/" in one


def test_the_image_has_a_pinned_base_and_does_not_run_as_root() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    bases = re.findall(r"^FROM (.+?)(?: AS \w+)?$", text, re.MULTILINE)
    assert bases == ["${BASE}", "scratch", "${BASE}"]
    assert re.findall(r"^ARG (.*)$", text, re.MULTILINE) == ["BASE", "BASE"]  # no default
    assert 'case "$BASE" in *@sha256:*)' in text
    user = containers()[0][0]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in text


def test_the_sbom_names_every_package_of_the_image() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "deploy/sbom.py")], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "gpu-admission"
    listed = {one["purl"] for one in found["components"]}
    image = pins(ROOT / "deploy/requirements.lock")
    assert {f"pkg:pypi/{name}@{version}" for name, version in image.items()} <= listed
    assert len(listed) == len(found["components"])
    again = subprocess.run(
        [sys.executable, str(ROOT / "deploy/sbom.py")], capture_output=True, text=True, check=True
    )
    assert again.stdout == done.stdout


def policies(settings: Settings) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in manifests.network_policies(settings)}


def test_only_the_ports_of_the_program_are_open_and_metrics_to_labelled_namespaces() -> None:
    webhook = policies(DEFAULTS)[manifests.WEBHOOK]
    assert webhook["ingress"] == [{"ports": [{"port": 9443, "protocol": "TCP"}]}]
    lists, metrics = policies(DEFAULTS)[manifests.CONTROLLER]["ingress"]
    assert lists == {"ports": [{"port": 8082, "protocol": "TCP"}]}
    assert metrics == {
        "ports": [{"port": 8080, "protocol": "TCP"}],
        "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
    }


def test_a_network_policy_chooses_the_pods_of_its_deployment_and_leaves_their_egress_free() -> (
    None
):
    deployments = {name: one["spec"] for name, one in of_kind("Deployment").items()}
    for name, policy in policies(DEFAULTS).items():
        assert policy["podSelector"] == deployments[name]["selector"]
        assert policy["policyTypes"] == ["Ingress"]
        ports = deployments[name]["template"]["spec"]["containers"][0]["ports"]
        open_ports = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
        assert open_ports == {port["containerPort"] for port in ports}


def test_a_webhook_that_asks_for_certificates_is_probed_on_a_port_without() -> None:
    webhook = {"clientAuthority": "/ca/ca.crt"}
    settings = Settings.model_validate({"gpu": {"webhook": webhook}})
    _, _, deployment = manifests.webhook(settings, manifests.DEFAULT_IMAGE)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probe = {"path": "/readyz", "port": "health", "scheme": "HTTP"}
    assert container["readinessProbe"]["httpGet"] == probe
    assert {"name": "health", "containerPort": 8081, "protocol": "TCP"} in container["ports"]
