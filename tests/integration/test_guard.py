"""The bypass guard on a real API server: denied, warned or audited, and in step with the rules."""

import copy
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admission.admin import bypass_policies, installation, webhooks
from admission.base import names
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.gpu import bypass_rules, resources
from admission.gpu.bypass_rules import Certainty
from admission.objects import crds
from admission.run import connection
from tests.builders.pods import make_pod, pod_with
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Rest, RestError
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane

POLICIES = "/apis/admissionregistration.k8s.io/v1"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
SETTINGS = Settings()
MANAGED = resources.managed(SETTINGS.gpu.managed_resources)
CONTROLLER = "system:serviceaccount:gpu-admission-system:gpu-admission-controller"
GPU = {"resources": {"limits": {names.GPU_RESOURCE: "1"}}}
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
CDI = {"nvidia.cdi.k8s.io/container.main": "management.nvidia.com/gpu=all"}
GATES = [{"name": names.ADMISSION_GATE}]
OWN = {names.ORIGINAL_RESOURCES: "{}", f"{names.MIG_PROFILE}.main": "1g.10gb"}

PREFIX = "with this prefix a key can become NVIDIA_VISIBLE_DEVICES"
FROM_ELSEWHERE = "from a ConfigMap or Secret may show GPUs"
SENTENCES = {
    "visible-devices": "shows GPUs beyond what the container asks for",
    "cdi-annotation": "injects GPUs into a container",
    "device-path": "gives access to GPU devices",
    "device-mount": "selects GPUs outside of any request",
    "node-name": bypass_rules.NODE_TEXT,
    "hidden-devices": "hides the GPUs that the container asks for",
    "legacy-image": "shows all GPUs to some images",
    "privileged": "sees every device of the node",
}


@dataclass(frozen=True)
class Answer:
    """What the API server says: status, body and Warning headers."""

    status: int
    body: Any
    warnings: list[str]

    def rules(self) -> set[str]:
        """The rules of the guard that the warnings or the refusal speak of."""
        text = " ".join([*self.warnings, str(self.body.get("message", ""))])
        text = text.replace(PREFIX, SENTENCES["visible-devices"])
        text = text.replace(FROM_ELSEWHERE, SENTENCES["visible-devices"])
        text = text.replace("may give access to", "gives access to")
        return {rule for rule, sentence in SENTENCES.items() if sentence in text}


class Guarded:
    """A cluster with the policies, and namespaces that choose differently."""

    def __init__(self, cluster: Cluster, audit_log: Path) -> None:
        self.cluster = cluster
        self.audit_log = audit_log
        self.spaces = {
            choice: cluster.create_namespace(
                choice, {names.BYPASS_LABEL: choice} if choice else {}
            )
            for choice in ("deny", "deny-strict", "warn", "audit", "other")
        }
        self.spaces["unsaid"] = cluster.create_namespace("unsaid")
        self.users: dict[str, Rest] = {}

    def client(self, user: str = "") -> Rest:
        """A client that may do everything under a user's name; the administrator's without."""
        if user == CONTROLLER and user not in self.users:
            self.users[user] = self.cluster.client(self.account())
        elif user and user not in self.users:
            kubeconfig = self.cluster.kubeconfig(user, ["system:masters"])
            self.users[user] = self.cluster.client(kubeconfig)
        return self.users.get(user, self.cluster.api)

    def account(self) -> Path:
        """A kubeconfig of the controller's service account, with more rights than it has."""
        namespace, name = CONTROLLER.split(":")[2:]
        api, rbac = self.cluster.api, "rbac.authorization.k8s.io"
        api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        api.post(
            f"/apis/{rbac}/v1/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
        )
        self.cluster.wait_for_roles()
        return self.cluster.account_kubeconfig(namespace, name)

    def send(
        self, method: str, path: str, body: Any, content_type: str = MERGE, user: str = ""
    ) -> Answer:
        client = self.client(user)
        connection = http.client.HTTPSConnection(
            "127.0.0.1",
            self.cluster.port,
            timeout=waiting.PATIENCE_SECONDS,
            context=client._context,
        )
        headers = {**client._headers, "Content-Type": content_type}
        try:
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            warnings = answer.headers.get_all("Warning") or []
            return Answer(answer.status, json.loads(answer.read()), warnings)
        finally:
            connection.close()

    def create(self, pod: dict[str, Any], choice: str, *, dry: bool = True) -> Answer:
        path = f"/api/v1/namespaces/{self.spaces[choice]}/pods"
        return self.send("POST", path + ("?dryRun=All" if dry else ""), pod, "application/json")

    def change(
        self, name: str, change: Any, choice: str, *, user: str = "", sub: str = ""
    ) -> Answer:
        path = f"/api/v1/namespaces/{self.spaces[choice]}/pods/{name}{sub}?dryRun=All"
        return self.send("PATCH", path, change, STRATEGIC if sub else MERGE, user)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("audit")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": '
                      '[{"level": "Metadata"}]}')  # fmt: skip
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
    with Cluster.start(api_flags=[*flags, "--audit-log-mode=blocking"]) as cluster:
        started = Guarded(cluster, log)
        for document in bypass_policies.documents(SETTINGS, users=["outside"]):
            plural = "validatingadmissionpolic"
            is_policy = document["kind"] == "ValidatingAdmissionPolicy"
            plural += "ies" if is_policy else "ybindings"
            cluster.api.patch(
                f"{POLICIES}/{plural}/{document['metadata']['name']}"
                "?fieldManager=test&fieldValidation=Strict&force=true",
                document,
                "application/apply-patch+yaml",
            )
        await_effect(started)
        yield started


def await_effect(started: Guarded) -> None:
    """Waits until all policies and bindings are in effect.

    The API server learns of both in order and looks every second at all that it knows: what is
    older than a marker is in effect with it.
    """
    api, name = started.cluster.api, "marker"
    config_maps = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                   "resources": ["configmaps"]}  # fmt: skip
    policy = {
        "matchConstraints": {"resourceRules": [config_maps]},
        "validations": [{"expression": f"object.metadata.name != '{name}'"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for plural, spec in (
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ):
        api.post(f"{POLICIES}/{plural}", {"metadata": {"name": name}, "spec": spec})
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    waiting.until(
        lambda: (
            started.send("POST", path, {"metadata": {"name": name}}, "application/json").status
            == 422
        ),
        what="policies in effect",
    )


def debugger(**parts: Any) -> dict[str, Any]:
    return {"name": "debug", "image": "tools", **parts}


def mounting(path: str, host: str = "", **container: Any) -> dict[str, Any]:
    source = {"hostPath": {"path": host}} if host else {"emptyDir": {}}
    mounts = [{"name": "v", "mountPath": path}]
    return pod_with({**container, "volumeMounts": mounts}, volumes=[{"name": "v", **source}])


def by_key(source: str) -> dict[str, Any]:
    return {**by_field(), "valueFrom": {source: {"name": "c", "key": "k"}}}


def by_field(variable: str = "NVIDIA_VISIBLE_DEVICES") -> dict[str, Any]:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


CREATED: dict[str, dict[str, Any]] = {
    "a plain pod": make_pod(),
    "a GPU pod": pod_with(GPU),
    "a GPU pod of another scheduler": pod_with(GPU, schedulerName="volcano"),
    "all devices": pod_with({"env": [ALL]}),
    "all devices among other variables": pod_with({"env": [by_field("X"), ALL]}),
    "devices from elsewhere": pod_with({"env": [by_field("NVIDIA_VISIBLE_DEVICES")]}),
    "no devices": pod_with({"env": [{**ALL, "value": "void"}, {"name": "X"}]}),
    "none": pod_with({"env": [{**ALL, "value": "none"}]}),
    "empty": pod_with({"env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}),
    "another variable": pod_with({"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]}),
    "all devices beside a request": pod_with({**GPU, "env": [ALL]}),
    "all devices beside a slice": pod_with(
        {"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}, "env": [ALL]}
    ),
    "all devices beside a request of 0": pod_with(
        {"resources": {"limits": {names.GPU_RESOURCE: 0}}, "env": [ALL]}
    ),
    "all devices beside cpu": pod_with({"resources": {"limits": {"cpu": "1"}}, "env": [ALL]}),
    "all devices beside an implicit claim": pod_with(
        {
            "resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}},
            "env": [ALL],
        }
    ),
    "all devices beside a claim": pod_with(
        {"resources": {"claims": [{"name": "gpu"}]}, "env": [ALL]},
        resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}],
    ),
    "all devices in an init container": pod_with(
        GPU, initContainers=[{"name": "i", "image": "x", "env": [ALL]}]
    ),
    "CDI": make_pod(annotations=CDI),
    "CDI of one device": pod_with(
        GPU, annotations={"cdi.k8s.io/x": "k8s.device-plugin.nvidia.com/gpu=GPU-1"}
    ),
    "CDI of something else": make_pod(annotations={"cdi.k8s.io/x": "vendor.com/nic=1"}),
    "a device path": mounting("/x", "/dev/nvidia0"),
    "a device path in disguise": mounting("/x", "//dev/.//nvidia-caps/"),
    "a device path beside a request": mounting("/x", "/dev/nvidiactl", **GPU),
    "render nodes": mounting("/x", "/dev/dri/renderD128"),
    "a device path that is not mounted": make_pod(
        volumes=[{"name": "v", "hostPath": {"path": "/dev/nvidia0"}}]
    ),
    "another host path": mounting("/x", "/data/dev/nvidia0"),
    "all of /dev": mounting("/x", "/dev"),
    "a device list": mounting("/var/run/nvidia-container-devices/all"),
    "a device list in disguise": mounting("/var//run/./nvidia-container-devices"),
    "a device list from the root": mounting("./var/run/nvidia-container-devices/all"),
    "a device list by a relative path": mounting("var/run/nvidia-container-devices/0"),
    "a device list by way of another directory": mounting(
        "/var/run/x/../nvidia-container-devices/all"
    ),
    "a device list by a relative way": mounting("x/../var/run/./nvidia-container-devices"),
    "a way that leads out of a device list": mounting("/var/run/nvidia-container-devices/a/../b"),
    "a way to another directory": mounting("/var/run/../nvidia-container-devices-not"),
    "no device list": mounting("/var/run/nvidia-container-devices-not"),
    "a device path from the root": mounting("/x", "dev/nvidia0"),
    "a directory of devices from the root": mounting("/x", "./dev"),
    "the directory in which a container runtime runs": mounting("/x", "."),
    "a node": make_pod(nodeName="node-1"),
    "a node beside a request": pod_with(GPU, nodeName="node-1"),
    "a privileged container": pod_with({"securityContext": {"privileged": True}}),
    "everything at once": pod_with(
        {"env": [ALL]}, annotations=CDI, nodeName="n",
        initContainers=[{"name": "i", "image": "x", **GPU}],
    ),
    "our own annotations": pod_with(GPU, annotations=OWN),
    "the variable from the pod itself beside a request": pod_with({**GPU, "env": [by_field()]}),
    "the variable from a ConfigMap": pod_with({"env": [by_key("configMapKeyRef")]}),
    "the variable from a ConfigMap beside a request": pod_with(
        {**GPU, "env": [by_key("configMapKeyRef")]}
    ),
    "the variable from a Secret beside a request": pod_with(
        {**GPU, "env": [by_key("secretKeyRef")]}
    ),
    "no devices beside a request": pod_with({**GPU, "env": [{**ALL, "value": "void"}]}),
    "nothing beside a request": pod_with({**GPU, "env": [{"name": ALL["name"]}]}),
    "MIG devices to configure": pod_with(
        {**GPU, "env": [{"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"}]}
    ),
    "MIG devices to look at": pod_with(
        {"env": [{"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"}]}
    ),
    "all of a ConfigMap": pod_with({"envFrom": [{"configMapRef": {"name": "c"}}]}),
    "a ConfigMap with a prefix": pod_with(
        {"envFrom": [{"prefix": "NVIDIA_VISIBLE_", "configMapRef": {"name": "c"}}]}
    ),
    "a Secret with a prefix beside a request": pod_with(
        {**GPU, "envFrom": [{"prefix": "N", "secretRef": {"name": "c"}}]}
    ),
    "another prefix": pod_with({"envFrom": [{"prefix": "X_", "configMapRef": {"name": "c"}}]}),
    "a legacy image": pod_with({"env": [{"name": "CUDA_VERSION", "value": "8.0"}]}),
    "a legacy image that sees nothing": pod_with(
        {"env": [{"name": "CUDA_VERSION", "value": "8.0"}, {**ALL, "value": "void"}]}
    ),
    "a privileged container beside a request": pod_with(
        {**GPU, "securityContext": {"privileged": True}}
    ),
    "the root of the node": mounting("/x", "/"),
    "the root of the node in disguise": mounting("/x", "//./"),
    "a directory that holds one of devices": mounting("/x", "/var/lib/"),
    "a character device": mounting("/x", "/dev/char"),
    "descriptions of devices": mounting("/x", "/etc/cdi/x"),
    "no devices of the node": mounting("/x", "/developers"),
    "other files of the node": mounting("/x", "/var/log"),
}  # fmt: skip


@pytest.mark.parametrize("case", CREATED, ids=list(CREATED))
def test_the_policies_find_in_a_new_pod_what_bypasses(guarded: Guarded, case: str) -> None:
    pod = CREATED[case]
    found = bypass_rules.of_pod(pod, MANAGED)
    sure = {one.rule for one in found if one.severity is Certainty.BYPASS}
    maybe = {
        one.rule for one in found if one.severity is Certainty.SUSPICIOUS
    } & bypass_rules.STRICT
    told = {one.rule for one in found if one.rule in {"visible-devices", "hidden-devices"}}

    warned, denied = guarded.create(pod, "warn"), guarded.create(pod, "deny")

    assert (warned.status, warned.rules()) == (201, sure | told)
    assert len(warned.warnings) == len(sure | told)
    assert denied.status == (403 if sure else 201)
    assert guarded.create(pod, "deny-strict").status == (403 if sure | maybe else 201)
    if maybe and not sure:
        assert guarded.create(pod, "deny-strict").rules() & maybe


@pytest.mark.parametrize("kind", ["configmaps", "secrets"])
def test_a_key_that_shows_gpus_where_it_is_loaded_is_refused(guarded: Guarded, kind: str) -> None:
    path = f"/api/v1/namespaces/{guarded.spaces['deny']}/{kind}"
    other = {"metadata": {"name": f"sources-{kind}"}, "data": {"A": "YQ=="}}
    assert guarded.send("POST", path, other, "application/json").status == 201
    for name in bypass_rules.VARIABLES:
        holding = {"metadata": {"name": "holds"}, "data": {name: "YWxs"}}
        created = guarded.send("POST", path, holding, "application/json")
        changed = guarded.send("PATCH", f"{path}/sources-{kind}", {"data": {name: "YWxs"}})
        assert (created.status, changed.status) == (403, 403)
        assert f"data: {name}: shows GPUs to every container" in created.body["message"]


def test_a_key_that_stands_there_already_is_left_alone_until_it_changes(guarded: Guarded) -> None:
    space = guarded.cluster.create_namespace("late")
    path = f"/api/v1/namespaces/{space}/configmaps"
    holding = {"metadata": {"name": "old"}, "data": {ALL["name"]: "void"}}
    assert len(guarded.send("POST", path, holding, "application/json").warnings) == 1
    deny = {"metadata": {"labels": {names.BYPASS_LABEL: "deny"}}}
    guarded.send("PATCH", f"/api/v1/namespaces/{space}", deny)
    changed = {"data": {ALL["name"]: "all"}}
    waiting.until(
        lambda: guarded.send("PATCH", f"{path}/old?dryRun=All", changed).status == 403,
        what="the namespace's choice in effect",
    )
    assert guarded.send("PATCH", f"{path}/old", {"data": {"A": "b"}}).status == 200
    assert guarded.send("PATCH", f"{path}/old", {"data": {ALL["name"]: None}}).status == 200


def test_the_system_keeps_what_it_likes_in_excluded_namespaces(guarded: Guarded) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps?dryRun=All"
    holding = {"metadata": {"name": "c"}, "data": {ALL["name"]: "all"}}
    answer = guarded.send("POST", path, holding, "application/json")
    assert (answer.status, answer.warnings) == (201, [])


UPDATED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a label": ({"metadata": {"labels": {"a": "b"}}}, {}),
    "the gate taken off": ({"spec": {"schedulingGates": None}}, {}),
    "another gate taken off": ({"spec": {"schedulingGates": GATES}},
                               {"gates": [*GATES, {"name": "example.com/other"}]}),
    "CDI added": ({"metadata": {"annotations": CDI}}, {}),
    "CDI that was there": ({"metadata": {"labels": {"a": "b"}}}, {"annotations": CDI}),
}  # fmt: skip


@pytest.mark.parametrize("case", UPDATED, ids=list(UPDATED))
def test_the_policies_find_in_an_update_what_surely_bypasses(guarded: Guarded, case: str) -> None:
    change, parts = UPDATED[case]
    name = f"u-{list(UPDATED).index(case)}"
    annotations, gates = parts.get("annotations", {}), parts.get("gates", GATES)
    pod = pod_with(GPU, name=name, annotations=annotations, schedulingGates=gates)
    old = guarded.create(pod, "unsaid", dry=False).body

    answer = guarded.change(name, change, "unsaid", user="alice")

    found = bypass_rules.of_update(old, answer.body, MANAGED)
    assert (answer.status, answer.rules()) == (200, {one.rule for one in found})
    assert guarded.change(name, change, "unsaid", user="outside").warnings == []


@pytest.mark.parametrize("user", ["alice", "outside", CONTROLLER])
def test_only_the_controllers_user_writes_what_admission_checks_ask_for(
    guarded: Guarded, user: str
) -> None:
    name = f"checked-{len(user)}"
    guarded.create(pod_with(GPU, name=name, schedulingGates=GATES), "deny", dry=False)

    answer = guarded.change(name, {"metadata": {"annotations": CDI}}, "deny", user=user)

    assert answer.status == (403 if user == "alice" else 200)


def test_a_denial_says_what_to_do_instead(guarded: Guarded) -> None:
    answer = guarded.create(CREATED["all devices"], "deny")

    assert answer.status == 403
    assert answer.body["reason"] == "Forbidden"
    assert answer.body["message"].endswith(
        ": NVIDIA_VISIBLE_DEVICES of container main: shows GPUs beyond what the container asks"
        " for; remove it, and request GPUs in resources.limits"
    )


MIG = {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"}
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
OTHER = {"name": "OTHER", "value": "all"}


@pytest.mark.parametrize(
    ("containers", "named"),
    [
        ([{"env": [OTHER, MIG, VOID]}], ["NVIDIA_MIG_CONFIG_DEVICES of container c0"]),
        (
            [{"env": [ALL, MIG]}, {"env": [OTHER]}, {**GPU, "env": [by_field()]}],
            [
                "NVIDIA_VISIBLE_DEVICES of container c0",
                "NVIDIA_MIG_CONFIG_DEVICES of container c0",
                "NVIDIA_VISIBLE_DEVICES of container c2",
            ],
        ),
        (  # what a ConfigMap holds shows GPUs only where none are asked for
            [
                {"env": [by_key("configMapKeyRef")]},
                {**GPU, "env": [by_key("configMapKeyRef"), MIG]},
            ],
            [
                "NVIDIA_VISIBLE_DEVICES of container c0",
                "NVIDIA_MIG_CONFIG_DEVICES of container c1",
            ],
        ),
    ],
)
def test_a_denial_names_the_variables_that_each_container_has(
    guarded: Guarded, containers: list[dict[str, Any]], named: list[str]
) -> None:
    first, *others = ({"name": f"c{i}", "image": "x", **c} for i, c in enumerate(containers))
    for pod in (
        make_pod(containers=[first, *others]),
        make_pod(initContainers=[first], containers=[*others, {"name": "last", "image": "x"}]),
    ):
        message = guarded.create(pod, "deny").body["message"]
        told = message.partition(": shows GPUs")[0]
        assert sorted(told.rpartition(": ")[2].split(", ")) == sorted(named)


def test_a_pod_full_of_variables_is_refused_in_a_text_of_bounded_length(guarded: Guarded) -> None:
    containers = [
        {"name": f"c{i}", "image": "x", "env": [ALL] * webhooks.MOST, **GPU} for i in range(40)
    ]
    answer = guarded.create(make_pod(containers=containers), "deny")
    assert answer.status == 403, answer.body["message"][:2000]
    assert "GPUs beyond what the container asks for" in answer.body["message"]
    assert len(answer.body["message"]) < 6000


@pytest.mark.parametrize(
    ("choice", "status", "warned"),
    [("deny", 403, 0), ("warn", 201, 1), ("audit", 201, 0), ("other", 201, 1), ("unsaid", 201, 1)],
)
def test_the_namespace_chooses(guarded: Guarded, choice: str, status: int, warned: int) -> None:
    pod = pod_with({"env": [ALL]}, name=f"chosen-{choice}")

    answer = guarded.create(pod, choice)

    assert (answer.status, len(answer.warnings)) == (status, warned)
    for case in ("a plain pod", "a GPU pod", "a node", "no devices"):
        plain = guarded.create(CREATED[case], choice)
        assert (plain.status, plain.warnings) == (201, [])


def many(name: str = "example.com/n") -> list[dict[str, Any]]:
    return [{"name": f"{name}{index}"} for index in range(webhooks.MOST + 1)]


LARGE: dict[str, dict[str, Any]] = {
    "metadata.annotations": make_pod(annotations={one["name"]: "" for one in many()}),
    "spec.initContainers": make_pod(initContainers=[{**c, "image": "x"} for c in many("c")]),
    "spec.volumes": make_pod(volumes=[{**v, "emptyDir": {}} for v in many("v")]),
    "container main": pod_with({"env": many("E")}),
}


@pytest.mark.parametrize("what", LARGE)
def test_a_pod_with_more_of_anything_than_is_looked_through_is_objected_to_as_a_whole(
    guarded: Guarded, what: str
) -> None:
    pod = LARGE[what]
    refused, warned = guarded.create(pod, "deny"), guarded.create(pod, "warn")
    assert refused.status == 403
    assert f"too many to look through: {what}: at most 500" in refused.body["message"]
    assert warned.status == 201
    assert [f"too many to look through: {what}: " in text for text in warned.warnings] == [True]


def test_an_update_of_a_large_pod_is_objected_to_only_where_it_changes_annotations(
    guarded: Guarded,
) -> None:
    large = copy.deepcopy(LARGE["metadata.annotations"])
    large["metadata"]["name"] = "large"
    guarded.create(large, "unsaid", dry=False)
    label = {"metadata": {"labels": {"a": "b"}}}
    annotation = {"metadata": {"annotations": {"a": "b"}}}
    assert guarded.change("large", label, "unsaid").warnings == []
    (warning,) = guarded.change("large", annotation, "unsaid").warnings
    assert "too many to look through: metadata.annotations" in warning


@pytest.mark.parametrize(
    ("label", "value", "choices"),
    [
        (names.BYPASS_LABEL, "Deny", "deny, deny-strict, warn, audit"),
        (names.BYPASS_LABEL, "", "deny, deny-strict, warn, audit"),
        (names.ENFORCE_LABEL, "yes", "true, false"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(
    guarded: Guarded, label: str, value: str, choices: str
) -> None:
    path = "/api/v1/namespaces?dryRun=All"
    body = {"metadata": {"name": "misspelled", "labels": {label: value}}}
    answer = guarded.send("POST", path, body, "application/json")
    assert answer.status in {403, 422}
    assert f"metadata.labels[{label}]: supported values: {choices}" in answer.body["message"]


def test_a_namespace_without_choice_or_with_an_old_one_can_be_edited(guarded: Guarded) -> None:
    for choice in ("other", "unsaid", "deny"):
        path = f"/api/v1/namespaces/{guarded.spaces[choice]}?dryRun=All"
        assert guarded.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}).status == 200


@pytest.mark.parametrize("choice", ["deny", "warn", "audit"])
def test_every_choice_leaves_a_mark_in_the_audit_log(guarded: Guarded, choice: str) -> None:
    guarded.create(pod_with({"env": [ALL]}), choice)
    guarded.create(pod_with(GPU), choice)

    *_, bypassing, honest = audited(guarded.audit_log, guarded.spaces[choice])

    key = "validation.policy.admission.k8s.io/validation_failure"
    assert "shows GPUs beyond what the container asks for" in bypassing[key]
    assert key not in honest


def audited(log: Path, namespace: str) -> list[Mapping[str, str]]:
    """Annotations of each creation of a pod in a namespace, in the order of the log."""
    whole, _, _ = log.read_text().rpartition("\n")  # others may be writing a line
    events = (json.loads(line) for line in whole.splitlines())
    return [
        event.get("annotations", {})
        for event in events
        if (event["stage"], event["verb"]) == ("ResponseComplete", "create")
        and event["objectRef"]["resource"] == "pods"
        and event["objectRef"]["namespace"] == namespace
    ]


@pytest.mark.parametrize(
    ("container", "rules"),
    [
        (debugger(), set()),
        (debugger(env=[ALL]), {"visible-devices"}),
        (debugger(env=[{**ALL, "value": "none"}]), set()),
        (debugger(volumeMounts=[{"name": "v", "mountPath": "/x"}]), {"device-path"}),
    ],
    ids=["harmless", "all devices", "no devices", "a device path"],
)
def test_a_debugging_container_gets_no_gpus(
    guarded: Guarded, container: dict[str, Any], rules: set[str]
) -> None:
    volumes = [{"name": "v", "hostPath": {"path": "/dev/nvidia0"}}]
    guarded.create(make_pod("debugged", volumes=volumes), "deny", dry=False)

    change = {"spec": {"ephemeralContainers": [container]}}
    answer = guarded.change("debugged", change, "deny", sub="/ephemeralcontainers")

    assert (answer.status, answer.rules()) == (403 if rules else 200, rules)


def test_an_older_debugging_container_is_not_held_against_a_new_one(guarded: Guarded) -> None:
    name, path = "older", f"/api/v1/namespaces/{guarded.spaces['warn']}/pods/older"
    guarded.create(make_pod(name), "warn", dry=False)
    first = {"spec": {"ephemeralContainers": [debugger(env=[ALL])]}}
    assert guarded.send("PATCH", path + "/ephemeralcontainers", first, STRATEGIC).warnings

    second = {"spec": {"ephemeralContainers": [{**debugger(), "name": "second"}]}}
    answer = guarded.change(name, second, "warn", sub="/ephemeralcontainers")

    assert (answer.status, answer.warnings) == (200, [])


@pytest.mark.parametrize(("resource", "status"), [("cpu", 200), (names.GPU_RESOURCE, 422)])
def test_a_resize_changes_cpu_and_never_gpus(guarded: Guarded, resource: str, status: int) -> None:
    amounts = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", names.GPU_RESOURCE: "1"}}
    pod = pod_with({"resources": amounts}, name="resized")
    guarded.create(pod, "deny", dry=False)
    more = {"name": "main", "resources": {"requests": {resource: "2"}, "limits": {resource: "2"}}}

    answer = guarded.change("resized", {"spec": {"containers": [more]}}, "deny", sub="/resize")

    assert answer.status == status, answer.body


def test_a_node_may_show_its_own_static_pods(guarded: Guarded) -> None:
    kubeconfig = guarded.cluster.kubeconfig("system:node:n", ["system:nodes", "system:masters"])
    guarded.users["node"] = guarded.cluster.client(kubeconfig)
    path = f"/api/v1/namespaces/{guarded.spaces['deny']}/pods?dryRun=All"
    pod = CREATED["a node beside a request"]

    answers = [
        guarded.send("POST", path, pod, "application/json", user) for user in ("node", "alice")
    ]

    assert [answer.status for answer in answers] == [201, 403]


def test_the_gpu_operators_own_namespace_is_left_alone(guarded: Guarded) -> None:
    operator = "gpu-operator"
    guarded.cluster.api.post("/api/v1/namespaces", {"metadata": {"name": operator}})
    guarded.spaces["operator"] = operator

    for case in ("all devices", "a device path", "a node beside a request"):
        answer = guarded.create(CREATED[case], "operator")
        assert (answer.status, answer.warnings) == (201, [])


def test_install_puts_the_policies_in_and_takes_them_out(tmp_path: Path) -> None:
    with Cluster.start() as cluster:
        system = Installed(cluster, tmp_path)

        def install(*more: str) -> list[tuple[str, str]]:
            """Kind and effect of each of the guard's objects."""
            return [
                (change["kind"], change["effect"])
                for change in system.install(*more)
                if change["name"].startswith("gpu-admission-bypass")
            ]

        first, again = install(), install()
        update = cluster.api.get(
            f"{POLICIES}/validatingadmissionpolicies/{bypass_policies.UPDATE_POLICY}"
        )
        by_name = {one["name"]: one for one in update["spec"]["matchConditions"]}
        removed = install("--no-bypass-guard")
        left = cluster.api.get(f"{POLICIES}/validatingadmissionpolicybindings")["items"]

    assert first.count(("ValidatingAdmissionPolicy", "created")) == 9
    assert {effect for _, effect in first} == {"created"}
    assert {effect for _, effect in again} == {"unchanged"}
    assert CONTROLLER in by_name["not-by-the-controller"]["expression"]
    assert '"admin"' in by_name["not-by-the-controller"]["expression"]
    assert [effect for _, effect in removed] == ["deleted"] * len(first)
    assert not [one for one in left if "bypass" in one["metadata"]["name"]]


def allow(cluster: Cluster, user: str) -> None:
    """Let a user do everything that ``uninstall`` does, and not write the status of Workloads."""
    groups = ["", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
              "apps", "batch", "coordination.k8s.io", "networking.k8s.io", "policy",
              "rbac.authorization.k8s.io"]  # fmt: skip
    kinds = [crd["spec"]["names"]["plural"] for crd in crds.documents()]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    cluster.api.post(
        f"{rbac}/clusterroles",
        {
            "metadata": {"name": user},
            "rules": [
                {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": [names.KUEUE_GROUP], "resources": kinds, "verbs": ["*"]},
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]},  # owners of any kind
            ],
        },
    )
    subjects = [{"kind": "User", "name": user}]
    binding = {"metadata": {"name": user}, "roleRef": role, "subjects": subjects}
    cluster.api.post(f"{rbac}/clusterrolebindings", binding)
    cluster.wait_for_roles()


def test_uninstall_releases_pods_that_a_policy_would_have_kept(tmp_path: Path) -> None:
    with Cluster.start() as cluster:
        namespace = cluster.create_namespace("kept", {names.BYPASS_LABEL: "deny"})
        pod = make_pod("held", schedulingGates=GATES)
        pod["metadata"]["labels"] = {names.MANAGED_LABEL: names.MANAGED_VALUE}
        cluster.api.post(f"/api/v1/namespaces/{namespace}/pods", pod)
        system = Installed(cluster, tmp_path)
        system.install()
        for kind in ("mutating", "validating"):  # nobody answers for them here
            cluster.api.delete(f"{POLICIES}/{kind}webhookconfigurations")
        allow(cluster, "alice")
        kubeconfig = cluster.kubeconfig("alice")

        def can_release(client: Rest) -> bool:
            path = f"/api/v1/namespaces/{namespace}/pods/held?dryRun=All"
            try:
                client.patch(path, {"spec": {"schedulingGates": None}})
            except RestError:
                return False
            return True

        waiting.until(lambda: can_release(cluster.api), what="no webhook is called")
        alice = cluster.client(kubeconfig)
        waiting.until(lambda: not can_release(alice), what="the policy keeps the gate")
        api = connection.ApiServerTarget(str(kubeconfig)).connect(
            connections=1, timeout_seconds=30
        )
        with closing(api):
            changes = installation.uninstall(
                api, SETTINGS, SystemClock(), pause, release_pods=True
            )
            released = next(change for change in changes if change.kind == "Pod")

        assert (released.namespace, released.name) == (namespace, "held")
        assert not system.is_gated(namespace, "held")


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)
