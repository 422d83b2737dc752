"""The chart is deploy/base with values: rendered by the real helm, and installed by it."""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.admin import chart, manifests, modes
from admission.admin.chart import CERT_MANAGER, OURS, ChartChoice
from admission.base import patches
from admission.base.clock import SystemClock
from admission.config import model, reading
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration
from admission.installed import serving_certificate
from admission.kube import resources
from admission.run.connection import ApiServerTarget
from certs import rotation
from certs.rotation import Lifetimes
from tests.config.test_settings import EVERYTHING
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.deploy import helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
SYSTEM = "gpu-admission-system"
INJECT = "cert-manager.io/inject-ca-from"
KEEP = "helm.sh/resource-policy"
HELMS = (
    "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version",
    "helm.sh/chart",
)  # fmt: skip
WHOLE = ("--set", "namespace.create=true")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Documents = dict[tuple[str, str, str], dict[str, Any]]


def by_identity(documents: Any) -> Documents:
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
        for one in documents
        if one
    }


def rendered(*arguments: str, namespace: str = SYSTEM) -> Documents:
    text = helm.template(CHART, *arguments, namespace=namespace)
    return by_identity(yaml.load_all(text, Loader=LOADER))


def expected(settings: Settings) -> Documents:
    parts = manifests.base(settings, manifests.DEFAULT_IMAGE).values()
    return by_identity(one for part in parts for one in part)


def without_helms(found: Documents) -> Documents:
    """Documents without the annotation by which Helm keeps CRDs, and without Helm's labels."""
    for document in found.values():
        labels = document["metadata"].get("labels", {})
        for key in HELMS:
            assert labels.pop(key)
        if not labels:
            document["metadata"].pop("labels", None)
    for (kind, _, _), document in found.items():
        if kind == "CustomResourceDefinition":
            annotations = document["metadata"]["annotations"]
            assert annotations.pop(KEEP) == "keep"
            if not annotations:
                del document["metadata"]["annotations"]
    return found


def test_the_committed_chart_is_what_make_manifests_writes() -> None:
    committed = {
        str(path.relative_to(CHART)): path.read_text("utf-8")
        for path in CHART.rglob("*")
        if path.is_file()
    }
    assert committed == chart.files(Settings())


def test_the_schema_of_the_values_knows_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))

    def check(value: Any, known: Mapping[str, Any]) -> None:
        if isinstance(value, dict) and "properties" in known:
            assert set(value) <= set(known["properties"])
            for key, inner in value.items():
                check(inner, known["properties"][key])

    check(values, schema)
    assert schema["properties"]["mode"]["enum"] == list(modes.MODES)
    choices = schema["properties"]["whileWebhookDown"]["enum"]
    assert choices == [chart.REFUSED, chart.HELD]


CHOICES: dict[str, dict[tuple[str, ...], list[str]]] = {
    "kueue": {
        ("resources", "quotaCheckStrategy"): ["BlockUndeclared", "IgnoreUndeclared"],
        ("waitForPodsReady", "requeuingStrategy", "timestamp"): ["Creation", "Eviction"],
    },
    "gpu": {
        ("admission",): ["Active", "Paused"],
        ("releaseOn",): ["PodEnd", "PodTerminating"],
        ("logLevel",): ["debug", "info", "warning", "error"],
    },
}


@pytest.mark.parametrize("part", CHOICES)
def test_the_schema_of_the_values_has_the_choices_of_the_configuration(part: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    for path, declared in CHOICES[part].items():
        below = schema["properties"]["config"]["properties"][part]
        for name in path:
            below = below["properties"][name]
        assert [one for one in below["enum"] if one is not None] == declared


def wrong(value: Any, known: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of a document that a schema does not allow, as far as our schemas go."""
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    declared = known.get("type", [])
    for name in [declared] if isinstance(declared, str) else declared:
        number = (int,) if name == "integer" else (int, float)
        if isinstance(value, types.get(name, number)) and (
            name == "boolean" or not isinstance(value, bool)
        ):
            break
    else:
        if declared:
            yield path
    if "enum" in known and value not in known["enum"]:
        yield path
    if isinstance(value, int) and value < known.get("minimum", value):
        yield path
    if isinstance(value, int) and value > known.get("maximum", value):
        yield path
    if isinstance(value, dict):
        members, others = known.get("properties", {}), known.get("additionalProperties", {})
        for name, member in value.items():
            below = f"{path}.{name}"
            if name not in members and others is False:
                yield below
            elif members.get(name, others) is not True:
                yield from wrong(member, members.get(name, others), below)
    if isinstance(value, list):
        for index, member in enumerate(value):
            yield from wrong(member, known.get("items", {}), f"{path}[{index}]")


@pytest.mark.parametrize("number", [0, 1], ids=["kueue", "gpu"])
def test_the_schema_of_the_configuration_takes_a_file_that_sets_every_field(number: int) -> None:
    known = model.schema((Configuration, GpuConfiguration)[number])
    document = EVERYTHING[number]
    assert list(wrong(document, known)) == []
    assert list(wrong(dict.fromkeys(document), known)) == []  # null is absent


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"journal": {"retentoin": "4d"}}, ".journal.retentoin"),
        ({"controller": {"writers": 0}}, ".controller.writers"),
        ({"controller": {"writers": "many"}}, ".controller.writers"),
        ({"lostNodeAfter": 5}, ".lostNodeAfter"),
        ({"admission": "Stopped"}, ".admission"),
        ({"journal": {"enabled": "yes"}}, ".journal.enabled"),
        ({"products": [{"id": 4}]}, ".products[0].id"),
    ],
)
def test_the_schema_of_the_configuration_refuses(document: Any, path: str) -> None:
    assert list(wrong(document, model.schema(GpuConfiguration))) == [path]


def test_what_the_values_say_of_containers_is_what_the_templates_say() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    for component, made in (
        ("webhook", manifests.webhook), ("controller", manifests.controller)
    ):  # fmt: skip
        deployment = made(Settings(), manifests.DEFAULT_IMAGE)[-1]["spec"]
        (container,) = deployment["template"]["spec"]["containers"]
        assert values[component]["resources"] == container["resources"]
        assert values[component]["replicas"] == deployment["replicas"]


OPEN = {
    "kueue": {
        "leaderElection": {"leaseDuration": "20s"},
        "resources": {"quotaCheckStrategy": "IgnoreUndeclared"},
        "waitForPodsReady": {"timeout": "5m"},
        "objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}},
        "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
        "admissionFairSharing": {"usageHalfLifeTime": "1h", "usageSamplingInterval": "1m"},
    },
    "gpu": {
        "admission": "Paused",
        "releaseOn": "PodTerminating",
        "logLevel": "debug",
        "lostNodeAfter": "6m",
        "notReadyAfter": "31m",
        "keepForReplacement": "2m",
        "maxStopsPerMinute": 21,
        "tolerationKey": "example.com/gpu",
        "products": [{"id": "X9", "memoryGb": 24}],
        "health": {"label": "gpu-state"},
        "certificates": {"servingLifetime": "4000h"},
        "placement": "Tell",
        "journal": {"enabled": False, "retention": "100h"},
        "tracing": {"endpoint": "http://collector:4318/v1/traces"},
        "whileGatedByOthers": "Admit",
    },
}


def test_a_field_of_the_configuration_that_a_value_may_change_changes_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    for part, fields in OPEN.items():
        allowed = schema["properties"]["config"]["properties"][part]["properties"]
        assert set(fields) == set(allowed)
    before, changed = expected(Settings()), expected(Settings.model_validate(OPEN))
    assert before.keys() == changed.keys()
    assert {key for key in before if before[key] != changed[key]} == {
        ("ConfigMap", SYSTEM, manifests.CONFIG_MAP),
        ("Deployment", SYSTEM, manifests.WEBHOOK),
        ("Deployment", SYSTEM, manifests.CONTROLLER),
    }


# ------------------------------------------------------------------------------- the real helm


@pytest.mark.controlplane
def test_helm_finds_nothing_wrong() -> None:
    done = helm.run("lint", "--strict", str(CHART), "-n", SYSTEM)
    assert done.returncode == 0, done.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


@pytest.mark.controlplane
def test_the_default_values_are_the_base_and_the_first_certificate() -> None:
    found = rendered(*WHOLE)
    secret = found.pop(("Secret", SYSTEM, serving_certificate.SECRET))
    assert "pre-install" in secret["metadata"]["annotations"]["helm.sh/hook"]
    assert without_helms(found) == expected(Settings())


@pytest.mark.controlplane
def test_where_helm_makes_the_namespace_it_is_no_document() -> None:
    assert ("Namespace", "", SYSTEM) not in rendered()


@pytest.mark.controlplane
@pytest.mark.parametrize("mode", ["audit", "deny", "deny-everywhere", "deny-strict"])
def test_each_mode_is_what_the_command_would_install(mode: str) -> None:
    settings = chart.chosen(Settings(), ChartChoice(mode, OURS))
    found = rendered(*WHOLE, "--set", f"mode={mode},certificates.source=existing")
    assert without_helms(found) == expected(settings)


@pytest.mark.controlplane
def test_where_the_api_server_holds_pods_it_is_what_the_command_would_install() -> None:
    settings = chart.chosen(Settings(), ChartChoice("deny", OURS, chart.HELD))
    values = "mode=deny,certificates.source=existing,whileWebhookDown=hold"
    found = rendered(*WHOLE, "--set", values)
    assert ("MutatingAdmissionPolicy", "", "gpu-admission-hold-pods") in found
    assert without_helms(found) == expected(settings)


@pytest.mark.controlplane
def test_with_cert_manager_it_is_what_the_kustomization_for_it_holds() -> None:
    settings = chart.chosen(Settings(), ChartChoice("warn", CERT_MANAGER))
    found = rendered(*WHOLE, "--set", f"certificates.source={CERT_MANAGER}")
    file = (ROOT / "deploy/cert-manager/certificate.yaml").read_text("utf-8")
    for identity, document in by_identity(yaml.safe_load_all(file)).items():
        (made,) = without_helms({identity: found.pop(identity)}).values()
        if identity[0] == "Certificate":
            hosts = set(document["spec"].pop("dnsNames"))
            assert hosts <= set(made["spec"].pop("dnsNames"))
        assert made == document
    for (kind, _, _), document in found.items():
        annotations = document["metadata"].get("annotations", {})
        injected = annotations.pop(INJECT, None)
        is_injected = kind in {"CustomResourceDefinition", "MutatingWebhookConfiguration",
                               "ValidatingWebhookConfiguration"}  # fmt: skip
        assert injected == (f"{SYSTEM}/{manifests.WEBHOOK}" if is_injected else None)
        if is_injected and not annotations:
            del document["metadata"]["annotations"]
    assert without_helms(found) == expected(settings)


@pytest.mark.controlplane
def test_the_namespace_is_that_of_the_release() -> None:
    found = rendered(*WHOLE, "--set", "certificates.source=existing", namespace="quota")
    there = expected(Settings(kueue=Configuration(namespace="quota")))
    assert found.keys() == there.keys()
    assert not any(SYSTEM in json.dumps(one) for one in found.values())


def deployments(*arguments: str) -> dict[str, dict[str, Any]]:
    found = rendered(*arguments)
    return {name: one["spec"] for (kind, _, name), one in found.items() if kind == "Deployment"}


@pytest.mark.controlplane
def test_values_reach_the_deployments() -> None:
    found = deployments(
        "--set", "image.repository=registry.example.com/ga,image.tag=v2,webhook.replicas=3",
        "--set", "nodeSelector.pool=system,controller.nodeSelector.pool=control",
        "--set", "tolerations[0].key=system,tolerations[0].operator=Exists",
        "--set", "controller.resources.limits.memory=4Gi,imagePullSecrets[0].name=pull",
        "--set", "podAnnotations.team=platform,priorityClassName=high",
    )  # fmt: skip
    webhook, controller = found[manifests.WEBHOOK], found[manifests.CONTROLLER]
    assert (webhook["replicas"], controller["replicas"]) == (3, 2)
    pods = {name: one["template"]["spec"] for name, one in found.items()}
    for pod in pods.values():
        assert pod["containers"][0]["image"] == "registry.example.com/ga:v2"
        assert pod["tolerations"] == [{"key": "system", "operator": "Exists"}]
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
        assert pod["priorityClassName"] == "high"
    assert pods[manifests.WEBHOOK]["nodeSelector"] == {"pool": "system"}
    assert pods[manifests.CONTROLLER]["nodeSelector"] == {"pool": "control"}
    limits = pods[manifests.CONTROLLER]["containers"][0]["resources"]["limits"]
    assert limits == {"memory": "4Gi"}
    assert webhook["template"]["metadata"]["annotations"]["team"] == "platform"


@pytest.mark.controlplane
def test_each_toggle_reaches_the_containers_and_nothing_else() -> None:
    found = deployments(
        "--set", "image.pullPolicy=Always,webhook.hostNetwork=true,webhook.logLevel=debug",
        "--set", "controller.extraArgs[0]=--log-level=error,controller.extraEnv[0].name=A",
        "--set", "controller.extraEnv[0].value=b,dashboard.enabled=true",
    )  # fmt: skip
    before = deployments()
    webhook, controller = (
        found[name]["template"]["spec"] for name in (manifests.WEBHOOK, manifests.CONTROLLER)
    )
    assert (webhook.pop("hostNetwork"), webhook.pop("dnsPolicy")) == (
        True, "ClusterFirstWithHostNet"
    )  # fmt: skip
    for pod in (webhook, controller):
        assert pod["containers"][0].pop("imagePullPolicy") == "Always"
    assert webhook["containers"][0]["args"].pop() == "--log-level=debug"
    assert controller["containers"][0]["args"].pop() == "--log-level=error"
    assert controller["containers"][0]["args"].pop() == "--dashboard-bind=127.0.0.1:8083"
    assert controller["containers"][0].pop("env") == [{"name": "A", "value": "b"}]
    assert found == before


@pytest.mark.controlplane
def test_time_out_labels_and_annotations_of_accounts_are_values() -> None:
    found = rendered(
        *WHOLE, "--set", "webhook.timeoutSeconds=9,commonLabels.team=platform",
        "--set", "controller.serviceAccount.annotations.role=reader",
    )  # fmt: skip
    times = {
        one.get("timeoutSeconds")
        for document in found.values()
        for one in document.get("webhooks", ())
    }
    assert times == {2, 9}
    assert {one["metadata"]["labels"]["team"] for one in found.values() if "Secret" not in one[
        "kind"]} == {"platform"}  # fmt: skip
    account = found["ServiceAccount", SYSTEM, manifests.CONTROLLER]["metadata"]
    assert account["annotations"] == {"role": "reader"}


@pytest.mark.controlplane
def test_the_dashboard_gets_a_service_a_policy_and_an_ingress() -> None:
    before = rendered()
    found = rendered(
        "--set", "dashboard.enabled=true,dashboard.service.enabled=true,dashboard.port=9000",
        "--set", "dashboard.ingress.enabled=true,dashboard.ingress.host=gpus.example.com",
        "--set", "dashboard.service.from[0].namespaceSelector.matchLabels.name=ingress",
    )  # fmt: skip
    name = "gpu-admission-dashboard"
    assert {key for key in found if key not in before} == {
        (kind, SYSTEM, name) for kind in ("Service", "NetworkPolicy", "Ingress")
    }
    assert found["Service", SYSTEM, name]["spec"]["ports"][0]["targetPort"] == 9000
    (rule,) = found["NetworkPolicy", SYSTEM, name]["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]
    (container,) = found["Deployment", SYSTEM, manifests.CONTROLLER]["spec"]["template"]["spec"][
        "containers"
    ]
    assert "--dashboard-bind=0.0.0.0:9000" in container["args"]


@pytest.mark.controlplane
def test_policies_of_the_network_and_monitors_are_toggles() -> None:
    before = rendered().keys()
    without = rendered("--set", "networkPolicy.enabled=false").keys()
    assert {kind for kind, _, _ in before - without} == {"NetworkPolicy"}
    more = rendered("--set", "monitoring.enabled=true,monitoring.labels.release=prometheus")
    file = (ROOT / "deploy/observability/monitors.yaml").read_text("utf-8")
    monitors = by_identity(yaml.safe_load_all(file))
    assert more.keys() - before == monitors.keys()
    for key, one in monitors.items():
        assert more[key]["spec"] == one["spec"]
        assert more[key]["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.controlplane
def test_rules_and_boards_are_toggles_and_those_of_the_other_ways_to_install() -> None:
    before = rendered().keys()
    more = rendered(
        "--set", "monitoring.rules.enabled=true,monitoring.labels.release=prometheus",
        "--set", "monitoring.boards.enabled=true",
        "--set", "monitoring.boards.annotations.grafana_folder=GPUs",
    )  # fmt: skip
    rules = ("PrometheusRule", SYSTEM, "gpu-admission")
    boards = ("ConfigMap", SYSTEM, "gpu-admission-boards")
    assert more.keys() - before == {rules, boards}
    assert more[rules]["metadata"]["labels"]["release"] == "prometheus"
    folder = ROOT / "deploy/observability"
    (wrapped,) = yaml.safe_load_all((folder / "prometheus-rule.yaml").read_text("utf-8"))
    assert more[rules]["spec"] == wrapped["spec"]
    assert more[boards]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert more[boards]["metadata"]["annotations"] == {"grafana_folder": "GPUs"}
    found = {name: json.loads(text) for name, text in more[boards]["data"].items()}
    paths = (folder / "boards").iterdir()
    assert found == {path.name: json.loads(path.read_text("utf-8")) for path in paths}


def test_the_page_of_the_chart_has_every_value() -> None:
    text = (CHART / "values.yaml").read_text("utf-8")

    def paths(value: Any, above: str = "") -> Iterator[str]:
        if not isinstance(value, dict) or not value:
            yield above
            return
        for key, inner in value.items():
            yield from paths(inner, f"{above}.{key}" if above else key)

    told = {one.path: one for one in chart.described(text)}
    every = set(paths(yaml.safe_load(text)))
    assert every <= told.keys()
    page = (CHART / "README.md").read_text("utf-8")
    assert [path for path in every if f"| `{path}` |" not in page] == []


@pytest.mark.controlplane
def test_a_digest_wins_over_the_tag() -> None:
    digest = f"sha256:{'a' * 64}"
    found = deployments("--set", f"image.digest={digest},image.tag=v2")
    (container,) = found[manifests.WEBHOOK]["template"]["spec"]["containers"]
    assert container["image"] == f"gpu-admission@{digest}"


@pytest.mark.controlplane
def test_fields_of_the_configuration_reach_the_file_and_make_other_pods(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": OPEN}), "utf-8")
    found = rendered("-f", str(values))
    text = found["ConfigMap", SYSTEM, manifests.CONFIG_MAP]["data"]["config.yaml"]
    said = reading.read(text, "config.yaml").settings
    assert said == manifests.in_cluster(Settings.model_validate(OPEN))
    before, after = (
        one[manifests.WEBHOOK]["template"]["metadata"]["annotations"]
        for one in (deployments(), deployments("-f", str(values)))
    )
    assert before != after


@pytest.mark.controlplane
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("mode=strict", "mode"),
        ("config.gpu.managedResources[0]=amd.com/gpu", "managedResources"),
        ("config.gpu.maxStopsPerMinute=-1", "maxStopsPerMinute"),
        ("config.gpu.journal.retentoin=100h", "retentoin"),
        ("config.gpu.placement=Enforced", "placement"),
        ("config.kueue.waitForPodsReady.timeout=5", "timeout"),
        ("config.kueue.leaderElection.leaderElect=maybe", "leaderElect"),
        ("monitoring.rules.enabled=yes", "enabled"),
        ("certificates.source=letsencrypt", "source"),
        ("image.digest=latest", "digest"),
        ("replicas=3", "replicas"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("webhook.timeoutSeconds=31", "timeoutSeconds"),
        ("controller.logLevel=loud", "logLevel"),
        ("dashboard.service.enabled=true", "needs dashboard.enabled"),
        ("dashboard.ingress.enabled=true", "needs dashboard.service.enabled"),
    ],
)
def test_a_value_that_means_nothing_is_refused(value: str, said: str) -> None:
    done = helm.run("template", "release", str(CHART), "--kube-version", "1.36.0", "--set", value)
    assert done.returncode != 0
    assert said in done.stderr


# ------------------------------------------------------------------------------------ installed


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start() as started:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        namespace = {"metadata": {"name": SYSTEM, "labels": labels}}
        started.api.post("/api/v1/namespaces", namespace)
        for kind in OF_PROMETHEUS:
            started.api.post(CRDS, bare_crd(kind))
        for kind in OF_PROMETHEUS:
            path = f"/apis/monitoring.coreos.com/v1/{kind.lower()}s"
            waiting.until(partial(started.api.answers, path), what=f"{kind} served")
        yield started


def bare_crd(kind: str) -> dict[str, Any]:
    """A kind of the Prometheus Operator, with any fields."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}
    }  # fmt: skip
    group = "monitoring.coreos.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
        },
    }  # fmt: skip


TOGGLES = (
    (
        "image.pullPolicy=Always,commonLabels.team=platform,networkPolicy.enabled=false,"
        "dashboard.enabled=true,webhook.serviceAccount.annotations.role=reader"
    ),
    (
        "dashboard.enabled=true,dashboard.service.enabled=true,dashboard.ingress.enabled=true,"
        "dashboard.ingress.host=gpus.example.com,whileWebhookDown=hold,mode=deny"
    ),
    (
        "webhook.hostNetwork=true,controller.hostNetwork=true,webhook.timeoutSeconds=10,"
        "webhook.logLevel=debug,controller.extraArgs[0]=--log-level=error,"
        "controller.extraEnv[0].name=A,config.gpu.releaseOn=PodTerminating"
    ),
    "monitoring.enabled=true,monitoring.labels.release=prometheus",
    "monitoring.rules.enabled=true,monitoring.rules.labels.release=prometheus",
    "monitoring.boards.enabled=true,monitoring.boards.annotations.grafana_folder=GPUs",
    "monitoring.enabled=true,monitoring.rules.enabled=true,monitoring.boards.enabled=true",
)
"""An installation is made with each, and each is put on one by ``helm upgrade``."""
WITHOUT_CRDS = "crds.install=false"
"""Not put on one that is rolled back: Helm looks for what it kept as if it had deleted it."""
NO_TOGGLE = {"namespace.create"}
"""``helm install`` needs the namespace to be there before."""
OF_PROMETHEUS = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"
CRD = "clusterqueues.kueue.x-k8s.io"
_LARGEST_SECRET = 2**20


def test_every_switch_of_the_values_is_tried_on_an_installation() -> None:
    def switches(value: Any, above: str = "") -> Iterator[tuple[str, bool]]:
        for key, inner in value.items() if isinstance(value, dict) else ():
            path = f"{above}.{key}" if above else key
            if isinstance(inner, bool):
                yield path, inner
            yield from switches(inner, path)

    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    tried = {one for toggle in (*TOGGLES, WITHOUT_CRDS) for one in toggle.split(",")}
    turned = {(path, f"{path}={str(not on).lower()}") for path, on in switches(values)}
    assert {path for path, setting in turned if setting not in tried} == NO_TOGGLE


@pytest.mark.controlplane
def test_helm_installs_upgrades_and_leaves_the_queues(cluster: Cluster) -> None:
    of = ("-n", SYSTEM, "--kubeconfig", str(cluster.admin_kubeconfig))
    installed = helm.run("install", "ga", str(CHART), *of)
    assert installed.returncode == 0, installed.stderr
    assert "gpu-admission init" in installed.stdout  # the notes say what to do next

    content = secret(cluster, serving_certificate.SECRET)
    held = rotation.read(content)
    assert held.issuer() is not None
    settings = Settings()
    lifetimes = Lifetimes()
    hosts = serving_certificate.service_hosts(settings)
    renewed = rotation.renew(held, hosts, SystemClock().now(), lifetimes)
    assert renewed.serving == held.serving  # good as it is
    assert set(held.authorities) <= set(renewed.authorities)
    assert held.authorities[0].key is not None

    stored = secret(cluster, "sh.helm.release.v1.ga.v1")["release"]
    assert len(stored) < _LARGEST_SECRET // 2
    assert b"gpu-admission" in gzip.decompress(base64.b64decode(stored))

    authority = base64.b64encode(content["ca.crt"]).decode()
    trust(cluster, authority)
    upgraded = helm.run("upgrade", "ga", str(CHART), *of, "--set", "webhook.replicas=3")
    assert upgraded.returncode == 0, upgraded.stderr
    assert trusted(cluster) == authority  # what the leader writes is left alone
    assert secret(cluster, serving_certificate.SECRET) == content
    for toggle in TOGGLES:
        done = helm.run("upgrade", "ga", str(CHART), *of, "--set", toggle)
        assert done.returncode == 0, (toggle, done.stderr)
    for kind in OF_PROMETHEUS:
        assert cluster.api.get(f"/apis/monitoring.coreos.com/v1/{kind.lower()}s")["items"], kind
    boards = cluster.api.get(f"/api/v1/namespaces/{SYSTEM}/configmaps/gpu-admission-boards")
    assert boards["data"].keys() == {
        path.name for path in (CHART / "observability/boards").iterdir()
    }
    back = helm.run("rollback", "ga", "1", *of)
    assert back.returncode == 0, back.stderr
    assert secret(cluster, serving_certificate.SECRET) == content

    gone = helm.run("uninstall", "ga", *of)
    assert gone.returncode == 0, gone.stderr
    left = {one["metadata"]["name"] for one in cluster.api.get(CRDS)["items"]}
    assert CRD in left


@pytest.mark.controlplane
@pytest.mark.parametrize("toggle", [*TOGGLES, WITHOUT_CRDS])
def test_helm_installs_with_each_toggle(cluster: Cluster, toggle: str) -> None:
    of = ("-n", SYSTEM, "--kubeconfig", str(cluster.admin_kubeconfig))
    installed = helm.run("install", "ga", str(CHART), *of, "--set", toggle)
    assert installed.returncode == 0, installed.stderr
    deployments_ = cluster.api.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments")["items"]
    names = {one["metadata"]["name"] for one in deployments_}
    assert names == {manifests.WEBHOOK, manifests.CONTROLLER}
    gone = helm.run("uninstall", "ga", *of, "--wait")
    assert gone.returncode == 0, gone.stderr


def trust(cluster: Cluster, bundle: str) -> None:
    """Write a caBundle as the leader does."""
    api = ApiServerTarget(str(cluster.admin_kubeconfig)).connect(connections=1, timeout_seconds=30)
    config = {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}
    with closing(api):
        api.patch(resources.CRDS, CRD, patches.merge({"spec": config}))


def trusted(cluster: Cluster) -> str:
    spec = cluster.api.get(f"{CRDS}/{CRD}")["spec"]
    return str(spec["conversion"]["webhook"]["clientConfig"]["caBundle"])


def secret(cluster: Cluster, name: str) -> dict[str, bytes]:
    data = cluster.api.get(f"{SECRETS}/{name}")["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}
