"""What holds in namespaces that choose nothing, on a real API server, for one who may edit."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.admin import bypass_policies, manifests
from admission.base import names
from admission.gpu import bypass_rules
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, Rest
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane

POLICIES = "/apis/admissionregistration.k8s.io/v1"
HOOK = f"{POLICIES}/mutatingwebhookconfigurations/gpu-admission-mutating-webhook-configuration"
ALL = {"env": [{"name": bypass_rules.VISIBLE_DEVICES, "value": "all"}]}
GPU = {"resources": {"limits": {names.GPU_RESOURCE: "1"}}}
FAIR = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
EVERYTHING = ["create", "delete", "get", "list", "patch", "update", "watch"]
EDIT = {
    "metadata": {"name": "test-editor"},
    "rules": [
        {
            "apiGroups": ["", "apps", "batch"],
            "resources": [
                "configmaps",
                "cronjobs",
                "daemonsets",
                "deployments",
                "jobs",
                "persistentvolumeclaims",
                "pods",
                "replicasets",
                "secrets",
                "services",
                "statefulsets",
            ],
            "verbs": EVERYTHING,
        }
    ],
}
"""What the role ``edit`` may write; no controller puts that role together here."""
MODES = {
    "withQueue": {"bypass": "deny", "enforce": True},
    "withoutQueue": {"bypass": "warn", "enforce": False},
}


@dataclass(frozen=True)
class System:
    """A new installation without a choice, and one with the role ``edit`` in every namespace."""

    installed: Installed
    editor: Rest
    told: str

    def space(self, *, queue: str = "", **labels: str) -> str:
        """A namespace with a LocalQueue of this name, if it is given."""
        keys = {f"{names.OWN_DOMAIN}/{key}": value for key, value in labels.items()}
        namespace = self.installed.cluster.create_namespace("space", keys)
        if queue:
            self.installed.add_local_queue(namespace, "shared", queue)
            self.installed.wait_for_queue(namespace, queue)
            self.wait_marked(namespace)
        return namespace

    def wait_marked(self, namespace: str, *, marked: bool = True) -> None:
        def is_so() -> bool:
            found = self.installed.api.get(f"/api/v1/namespaces/{namespace}")
            return (names.HAS_QUEUE_LABEL in found["metadata"]["labels"]) == marked

        waiting.until(is_so, what=f"namespace {namespace} marked: {marked}")

    def refused(self, namespace: str, container: Json, kind: str) -> str:
        """What is said once it is refused; a pod of a young namespace is held in doubt."""

        def look() -> str:
            status, message, _ = self.create(namespace, container, kind)
            return message if status == 403 else ""

        what = f"{kind} refused in {namespace}"
        return waiting.until(look, what=what)

    def create(
        self, namespace: str, container: Json, kind: str = "pods", **metadata: Any
    ) -> tuple[int, str, list[str]]:
        """Status, message and warnings of a dry-run creation by the editor."""
        pod = {"containers": [{"name": "main", "image": "train", **container}]}
        document = {"metadata": {"name": "try", **metadata}, "spec": pod}
        group = "/api/v1"
        if kind == "jobs":
            group = "/apis/batch/v1"
            document["spec"] = {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
        client = self.editor
        connection = http.client.HTTPSConnection(
            "127.0.0.1",
            self.installed.cluster.port,
            timeout=waiting.PATIENCE_SECONDS,
            context=client._context,
        )
        try:
            connection.request(
                "POST",
                f"{group}/namespaces/{namespace}/{kind}?dryRun=All",
                json.dumps(document),
                {**client._headers, "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            body = json.loads(answer.read())
            warnings = answer.headers.get_all("Warning") or []
            return answer.status, body.get("message", ""), warnings
        finally:
            connection.close()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with Cluster.start() as cluster:
        started = Installed(cluster, tmp_path_factory.mktemp("modes"))
        started.install_as_new()
        told = started.told
        rbac, group = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
        cluster.api.post(f"{rbac}/clusterroles", EDIT)
        cluster.api.post(
            f"{rbac}/clusterrolebindings",
            {
                "metadata": {"name": "test-editor"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "test-editor"},
                "subjects": [{"kind": "User", "name": "editor"}],
            },
        )
        cluster.wait_for_roles()
        file = started.folder / "config.yaml"
        file.write_text(yaml.safe_dump(configuration(MODES)))
        started.start("--config", str(file))
        try:
            started.add_flavor("shared")
            started.add_cluster_queue("shared", quota=4, flavors=("shared",))
            found = System(started, cluster.client(cluster.kubeconfig("editor")), told)
            probe = found.space(queue="research")
            waiting.until(
                lambda: "shows GPUs beyond" in found.create(probe, ALL)[1], what="modes in effect"
            )
            yield found
        finally:
            started.stop()


def configuration(modes: Json) -> Json:
    return {
        "apiVersion": names.CONFIG_API_VERSION,
        "kind": "GpuConfiguration",
        "modes": modes,
    }


def test_a_new_installation_without_a_terminal_says_that_it_denies_where_there_is_a_queue(
    system: System,
) -> None:
    assert "mode deny: in namespaces with a LocalQueue, refuse pods that reach" in system.told
    assert "start the program with a --config file that contains" in system.told
    (shown,) = yaml.safe_load_all(system.told[system.told.index("apiVersion") :])
    assert shown["modes"] == MODES


def test_where_there_is_a_queue_a_bypass_is_refused_and_elsewhere_warned_about(
    system: System,
) -> None:
    queued, free = system.space(queue="research"), system.space()
    status, message, _ = system.create(queued, ALL)
    assert status == 403
    assert "shows GPUs beyond what the container asks for" in message
    status, _, warnings = system.create(free, ALL)
    assert status == 201
    assert any("shows GPUs beyond" in text for text in warnings)


def test_a_request_is_no_excuse_for_seeing_the_whole_node(system: System) -> None:
    labels = {names.QUEUE_LABEL: "research"}
    queued = system.space(queue="research")
    assert system.create(queued, GPU, labels=labels)[0] == 201
    assert system.create(queued, {**GPU, **ALL}, labels=labels)[0] == 403


@pytest.mark.parametrize("kind", ["pods", "jobs"])
def test_where_there_is_a_queue_gpus_need_one(system: System, kind: str) -> None:
    queued, free = system.space(queue="research"), system.space()
    message = system.refused(queued, GPU, kind)
    assert f"so in namespace {queued} (where queues are enforced by default)" in message
    assert "must name one of research" in message
    labels = {names.QUEUE_LABEL: "research"}
    assert system.create(queued, GPU, kind, labels=labels)[0] == 201
    assert system.create(free, GPU, kind)[0] == 201


@pytest.mark.parametrize(
    ("labels", "statuses"),
    [
        ({"bypass": "warn"}, (201, 403)),
        ({"bypass": "audit", "enforce": "false"}, (201, 201)),
        ({"enforce": "false"}, (403, 201)),
    ],
)
def test_a_namespace_opts_out_by_its_labels(
    system: System, labels: dict[str, str], statuses: tuple[int, int]
) -> None:
    namespace = system.space(queue="research", **labels)
    assert (system.create(namespace, ALL)[0], system.create(namespace, GPU, "jobs")[0]) == statuses


def test_a_namespace_opts_in_by_its_labels(system: System) -> None:
    namespace = system.space(bypass="deny-strict", enforce="true")
    privileged = {"securityContext": {"privileged": True}}
    assert system.create(namespace, privileged)[0] == 403
    assert f"({names.ENFORCE_LABEL}=true)" in system.refused(namespace, GPU, "jobs")
    assert system.create(system.space(queue="research"), privileged)[0] == 201


def test_who_may_edit_cannot_say_that_there_is_no_queue(system: System) -> None:
    namespace = system.space(queue="research")
    without = {"metadata": {"labels": {names.HAS_QUEUE_LABEL: None, names.BYPASS_LABEL: "warn"}}}
    with pytest.raises(Exception, match="403"):
        system.editor.patch(f"/api/v1/namespaces/{namespace}", without)


def test_a_namespace_that_loses_its_last_queue_is_warned_again(system: System) -> None:
    namespace = system.space(queue="research")
    system.installed.api.delete(f"{KUEUE}/namespaces/{namespace}/localqueues/research")
    system.wait_marked(namespace, marked=False)
    waiting.until(lambda: system.create(namespace, ALL)[0] == 201, what="warnings only")


def test_the_label_that_says_so_comes_back(system: System) -> None:
    namespace = system.space(queue="research")
    without = {"metadata": {"labels": {names.HAS_QUEUE_LABEL: None}}}
    system.installed.api.patch(f"/api/v1/namespaces/{namespace}", without)
    system.wait_marked(namespace)


def test_gpu_pods_without_a_gate_are_refused_by_the_api_server_itself(tmp_path: Path) -> None:
    """Where the webhook is not asked, or knows nothing of the mode."""
    with Cluster.start() as cluster:
        system = Installed(cluster, tmp_path)
        marked = cluster.create_namespace("marked", {names.HAS_QUEUE_LABEL: "true"})
        system.install_as_new()
        for kind in ("mutating", "validating"):
            cluster.api.delete(f"{POLICIES}/{kind}webhookconfigurations")
        client = System(system, cluster.client(cluster.kubeconfig("u", ["system:masters"])), "")
        waiting.until(lambda: client.create(marked, GPU)[0] == 403, what="the policy in effect")
        _, message, _ = client.create(marked, GPU)
        assert "the namespace enforces queues, so a pod that asks for GPUs is held" in message
        assert client.create(marked, {})[0] == 201
        zero = {"resources": {"limits": {names.GPU_RESOURCE: 0}}}
        assert client.create(marked, zero)[0] == 201
        assert client.create(cluster.create_namespace("free"), GPU)[0] == 201


# ------------------------------------------------------------------------------- installations


def bindings(cluster: Cluster) -> dict[str, list[str]]:
    """The actions of the bindings of one policy, by name."""
    found = cluster.api.get(f"{POLICIES}/validatingadmissionpolicybindings")["items"]
    return {
        one["metadata"]["name"].removeprefix(f"{bypass_policies.CREATE_POLICY}-"): one["spec"][
            "validationActions"
        ]
        for one in found
        if one["spec"]["policyName"] == bypass_policies.CREATE_POLICY
    }


def test_a_later_install_keeps_the_mode_unless_told(tmp_path: Path) -> None:
    with Cluster.start() as cluster:
        system = Installed(cluster, tmp_path)
        system.install_as_new("--mode", "deny-strict")
        assert "mode deny-strict" in system.told
        first = bindings(cluster)
        again = system.install_as_new()
        assert {one["effect"] for one in again} == {"unchanged"}
        assert "mode: as installed before" in system.told
        assert bindings(cluster) == first
        assert sorted(first) == ["audit", "deny", "deny-with-queue", "warn", "warn-without-queue"]

        changes = system.install_as_new("--mode", "warn")
        deleted = {one["name"] for one in changes if one["effect"] == "deleted"}
        assert f"{bypass_policies.CREATE_POLICY}-deny-with-queue" in deleted
        assert sorted(bindings(cluster)) == ["audit", "deny", "warn"]

        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(configuration({"withoutQueue": {"bypass": "audit"}})))
        system.install_as_new("--config", str(file))
        found = sorted(bindings(cluster))
        assert found == ["audit", "audit-without-queue", "deny", "warn", "warn-with-queue"]
        both = run_command(
            "install", "--kubeconfig", system.kubeconfig, "--config", str(file), "--mode", "warn"
        )
        assert both.returncode == 2
        assert "has modes, too; leave one out" in both.stderr

        marked = cluster.create_namespace("marked", {names.HAS_QUEUE_LABEL: "true"})
        done = run_command("uninstall", "--yes", "--kubeconfig", system.kubeconfig, "-o", "json")
        assert done.returncode == 0, done.stderr
        assert bindings(cluster) == {}
        labels = cluster.api.get(f"/api/v1/namespaces/{marked}")["metadata"]["labels"]
        assert names.HAS_QUEUE_LABEL not in labels


def test_fair_sharing_stays_as_installed_before_unless_told(tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{manifests.CONFIG_MAP}"
    fair, plain = tmp_path / "fair.yaml", tmp_path / "plain.yaml"
    fair.write_text(f"{FAIR}fairSharing: {{}}\n")
    plain.write_text(FAIR)
    with Cluster.start() as cluster:
        command = ["install", "--kubeconfig", str(cluster.admin_kubeconfig), "--image", "r/i:1"]

        told: list[str] = []

        def is_fair(*more: str) -> bool:
            done = run_command(*command, *more)
            assert done.returncode == 0, done.stderr
            told[:] = done.stderr.splitlines()
            return "fairSharing" in cluster.api.get(path)["data"]["config.yaml"]

        assert is_fair("--fair-sharing")
        assert is_fair()
        assert not is_fair("--config", str(plain)), "a file says what is so"
        assert any(line.startswith("  fairSharing: ") for line in told)
        assert any(line.endswith(" -> nothing") for line in told)

        cluster.api.patch(path, {"data": {"config.yaml": f"{FAIR}fromALaterVersion: true\n"}})
        unread = run_command(*command)
        both = run_command(*command, "--config", str(fair), "--no-fair-sharing")
        outside = run_command(
            *command[:3], "--webhook-url", "https://127.0.0.1:1", "--fair-sharing"
        )
    assert (unread.returncode, both.returncode, outside.returncode) == (2, 2, 2)
    assert "fromALaterVersion" in unread.stderr
    assert "say with --config FILE what it is to be" in unread.stderr
    assert "has fairSharing, too; leave one out" in both.stderr
    assert "put fairSharing: {} into the file" in outside.stderr


def test_an_installation_that_is_older_than_modes_goes_on_to_warn(tmp_path: Path) -> None:
    with Cluster.start() as cluster:
        system = Installed(cluster, tmp_path)
        system.install_as_new("--mode", "warn")
        older = {"metadata": {"annotations": {names.MODES: None}}}
        cluster.api.patch(HOOK, older)
        system.install_as_new()
        assert "mode: as installed before" in system.told
        assert sorted(bindings(cluster)) == ["audit", "deny", "warn"]


def daemon_set(name: str, image: str, path: str) -> Json:
    labels = {"app": name}
    volume = {"name": "registry", "hostPath": {"path": path}}
    pod = {"containers": [{"name": "main", "image": image}], "volumes": [volume]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


PLUGINS = "/var/lib/kubelet/device-plugins"


def test_gpu_operators_are_found_and_left_alone(tmp_path: Path) -> None:
    with Cluster.start() as cluster:
        system = Installed(cluster, tmp_path)
        spaces = {
            name: cluster.create_namespace(name)
            for name in ("accelerators", "drivers", "network", "tenant", "policy")
        }
        for space, name, image, path in (
            ("accelerators", "nvidia-device-plugin-daemonset", "plugin", PLUGINS),
            ("drivers", "kubelet-plugin", "registry/k8s-dra-driver-gpu:v1",
             "/var/lib/kubelet/plugins_registry/"),
            ("network", "sriov-device-plugin", "sriov", PLUGINS),
            ("network", "nvidia-exporter", "nvidia/dcgm", "/var/log"),
            ("tenant", "nvidia-plugin", "nvidia", PLUGINS),
        ):  # fmt: skip
            path_ = f"/apis/apps/v1/namespaces/{spaces[space]}/daemonsets"
            cluster.api.post(path_, daemon_set(name, image, path))
        add_cluster_policy(cluster, spaces["policy"])
        system.install_as_new("--mode", "deny-everywhere")
        for kind in ("mutating", "validating"):  # nobody answers for them here
            cluster.api.delete(f"{POLICIES}/{kind}webhookconfigurations")
        waiting.until(
            lambda: cluster.api.answers(f"{KUEUE}/localqueues"), what="LocalQueues served"
        )
        system.add_local_queue(spaces["tenant"], "none")
        system.install_as_new("--mode", "deny-everywhere")

        told = system.told
        sign = "DaemonSet nvidia-device-plugin-daemonset"
        found = f"excluded: namespace {spaces['accelerators']}: {sign} belongs to a GPU operator"
        assert found in told
        assert f"excluded: namespace {spaces['drivers']}: DaemonSet kubelet-plugin" in told
        assert f"excluded: namespace {spaces['policy']}: ClusterPolicy cluster-policy" in told
        assert f"not excluded: namespace {spaces['tenant']}: DaemonSet nvidia-plugin" in told
        assert spaces["network"] not in told
        policy = cluster.api.get(
            f"{POLICIES}/validatingadmissionpolicies/{bypass_policies.CREATE_POLICY}"
        )
        (excluded,) = [
            one["expression"]
            for one in policy["spec"]["matchConditions"]
            if one["name"] == "not-in-an-excluded-namespace"
        ]
        left_out = {name for name, space in spaces.items() if f'"{space}"' in excluded}
        assert left_out == {"accelerators", "drivers", "policy"}


def add_cluster_policy(cluster: Cluster, namespace: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "clusterpolicies.nvidia.com"},
            "spec": {
                "group": "nvidia.com",
                "scope": "Cluster",
                "names": {"kind": "ClusterPolicy", "plural": "clusterpolicies"},
                "versions": [{"name": "v1", "served": True, "storage": True,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        },
    )  # fmt: skip
    path = "/apis/nvidia.com/v1/clusterpolicies"
    waiting.until(lambda: cluster.api.answers(path), what="ClusterPolicies served")
    status = {"namespace": namespace, "state": "ready"}
    identity = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"}
    cluster.api.post(path, {**identity, "metadata": {"name": "cluster-policy"}, "status": status})
