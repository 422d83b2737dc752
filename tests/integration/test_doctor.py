"""The doctor finds faults on a real API server, one after the other, and nothing once mended."""

import base64
import dataclasses
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest

from admission.admin.doctor import checks, looking
from admission.admin.doctor.findings import Diagnosis, Severity
from admission.base import names
from admission.base.clock import SystemClock
from admission.installed.cabundles import MUTATING_NAME
from admission.run import connection
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_cohort, make_flavor, make_local_queue
from tests.clocks import FakeClock
from tests.controlplane import waiting
from tests.controlplane.nodes import make_gpu_node
from tests.controlplane.rest import JSON_PATCH, Json, RestError
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane

CORE = "/api/v1"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
DAEMON_SETS = "/apis/apps/v1/namespaces"
PRODUCT = "NVIDIA-A100-SXM4-80GB"
READY = {"type": "Ready", "status": "True"}


class Examined(Installed):
    """An installation that is looked at."""

    team: str = ""

    def diagnose(self, *, later: float = 0, kubeconfig: str = "") -> Diagnosis:
        """What the doctor finds, or would find so many seconds later."""
        target = connection.ApiServerTarget(kubeconfig or self.kubeconfig)
        with closing(target.connect(connections=1, timeout_seconds=30)) as api:
            picture = looking.look(api, None, SystemClock())
        if later:
            moment = picture.now + timedelta(seconds=later)
            picture = dataclasses.replace(picture, now=moment, here=moment)
        return checks.diagnose(picture)

    def add_node(self, name: str, **facts: Any) -> None:
        """A node that is Ready without anybody who keeps it so."""
        node = make_gpu_node(name, **facts)
        node["status"]["conditions"] = [READY]
        self.api.post(f"{CORE}/nodes", node)
        taints = [{"op": "replace", "path": "/spec/taints", "value": facts.get("taints", [])}]
        self.api.patch(f"{CORE}/nodes/{name}", taints, JSON_PATCH)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examined]:
    with snapshot.prepared(tmp_path_factory.mktemp("doctor"), Examined) as it:
        it.start()
        it.add_node("gpu-0")
        it.team = it.cluster.create_namespace("team")
        it.api.post(f"{KUEUE}/resourceflavors", make_flavor("a100", product=PRODUCT))
        it.add_cluster_queue("research", quota=8)
        it.add_local_queue(it.team, "research")
        it.wait_for_queue(it.team)
        yield it


@pytest.fixture(autouse=True)
def _healthy(system: Examined) -> Iterator[None]:
    """No fault stays behind, and none is found where there is none."""
    yield
    waiting.until(lambda: _found(system.diagnose()) == {}, what="nothing is found any more")


def _found(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Whatever is found, by check."""
    return {
        one.check: [f"{finding.kind} {finding.names}: {finding.what}" for finding in one.findings]
        for one in diagnosis.checked
        if one.findings
    }


Prepare = Callable[[Examined], Callable[[], object]]


def _posted(path: str, document: Json) -> Prepare:
    """Creates an object, and deletes it; ``TEAM`` in the path is the team's namespace."""

    def prepare(system: Examined) -> Callable[[], object]:
        at = path.replace("TEAM", system.team)
        system.api.post(at, document)
        at_once = {"gracePeriodSeconds": 0}
        return lambda: system.api.delete(f"{at}/{document['metadata']['name']}", at_once)

    return prepare


def _changed(path: str, change: list[Json]) -> Prepare:
    """Changes an object, and puts it back as it was."""

    def prepare(system: Examined) -> Callable[[], object]:
        at = path.replace("TEAM", system.team)
        before = system.api.get(at)
        system.api.patch(at, change, JSON_PATCH)

        def is_undone() -> bool:
            version = system.api.get(at)["metadata"]["resourceVersion"]
            before["metadata"]["resourceVersion"] = version
            try:
                system.api.text("PUT", at, before)
            except RestError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                return False  # the controller has mended it meanwhile
            return True

        return lambda: waiting.until(is_undone, what="it is as it was")

    return prepare


def _deleted(path: str) -> Prepare:
    """Deletes an object, and creates it again."""

    def prepare(system: Examined) -> Callable[[], object]:
        before = system.api.get(path)
        system.api.delete(path)
        for key in ("resourceVersion", "uid", "creationTimestamp"):
            before["metadata"].pop(key)
        return lambda: system.api.post(path.rpartition("/")[0], before)

    return prepare


def _node(name: str, **facts: Any) -> Prepare:
    def prepare(system: Examined) -> Callable[[], object]:
        system.add_node(name, **facts)
        return lambda: system.api.delete(f"{CORE}/nodes/{name}")

    return prepare


def _label(key: str, value: str) -> Json:
    path = f"/metadata/labels/{key.replace('/', '~1')}"
    return {"op": "add", "path": path, "value": value}


def _named(name: str, **members: Any) -> Json:
    return {"metadata": {"name": name}, **members}


GPU_0 = f"{CORE}/nodes/gpu-0"
RESEARCH = f"{KUEUE}/clusterqueues/research"
FLAVOR = f"{KUEUE}/resourceflavors/a100"
AT_HOME = f"{CORE}/namespaces/TEAM"
PLUGIN = {
    "selector": {"matchLabels": {"app": "plugin"}},
    "template": {
        "metadata": {"labels": {"app": "plugin"}},
        "spec": {
            "containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17"}],
            "volumes": [
                {"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}},
            ],
        },
    },
}
STRAY = make_pod("stray", gpus=2, nodeName="gpu-0")
FAULTS: dict[str, tuple[Prepare, str, str, str]] = {
    "the webhook configuration is gone": (
        _deleted(f"{REGISTRATION}/mutatingwebhookconfigurations/{MUTATING_NAME}"),
        "webhook-configurations", "without a scheduling gate", "gpu-admission install",
    ),
    "a webhook lets pods pass while it is down": (
        _changed(
            f"{REGISTRATION}/mutatingwebhookconfigurations/{MUTATING_NAME}",
            [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}],
        ),
        "webhook-configurations", "pass quota", "gpu-admission install",
    ),
    "a role is gone": (
        _deleted(f"{RBAC}/clusterroles/gpu-admission-webhook"),
        "rights", "lack its rights", "gpu-admission install",
    ),
    "a binding is gone": (
        _deleted(f"{RBAC}/clusterrolebindings/gpu-admission-controller"),
        "rights", "lack its rights", "gpu-admission install",
    ),
    "a policy is not in force": (
        _deleted(f"{REGISTRATION}/validatingadmissionpolicybindings/gpu-admission-protect-pods"),
        "policies", "counted by", "gpu-admission install",
    ),
    "the configuration cannot be read": (
        _posted(
            f"{CORE}/namespaces/{names.SYSTEM_NAMESPACE}/configmaps",
            _named("gpu-admission-config", data={"config.yaml": "kind: Nonsense"}),
        ),
        "configuration", "cannot be read", "gpu-admission config --config FILE",
    ),
    "nobody leads": (
        _posted(
            f"{LEASES}/{names.SYSTEM_NAMESPACE}/leases",
            _named(names.LEASE_NAME, spec={
                "holderIdentity": "gone", "leaseDurationSeconds": 15,
                "renewTime": "2026-01-01T00:00:00.000000Z",
            }),
        ),
        "leader", "no controller leads", "start the controller",
    ),
    "the visibility server is not reached": (
        _posted("/apis/apiregistration.k8s.io/v1/apiservices", _named(
            "v1beta2.visibility.kueue.x-k8s.io",
            spec={
                "group": "visibility.kueue.x-k8s.io", "version": "v1beta2",
                "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True,
                "service": {"name": "gone", "namespace": "default"},
            },
        )),
        "visibility", "no namespace of the cluster can be deleted", "--no-visibility",
    ),
    "Kueue is there": (
        _posted(f"{REGISTRATION}/validatingwebhookconfigurations", _named("kueue", webhooks=[{
            "name": "vworkload.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [{
                "apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["v1beta2"],
                "operations": ["DELETE"], "resources": ["topologies"],
            }],
        }])),
        "other-quota-systems", "granted twice", "coming-from",
    ),
    "a flavor is missing": (
        _posted(f"{KUEUE}/clusterqueues", make_cluster_queue("lost", quota=0, flavors=("gone",))),
        "queue-flavors", "until ResourceFlavor gone exists", "create it with spec.nodeLabels",
    ),
    "a ClusterQueue is held": (
        _changed(RESEARCH, [{"op": "replace", "path": "/spec/stopPolicy", "value": "Hold"}]),
        "queue-admits", "stopPolicy is Hold", "kubectl patch clusterqueue research",
    ),
    "a LocalQueue leads nowhere": (
        _posted(f"{KUEUE}/namespaces/TEAM/localqueues", make_local_queue("lost", "gone", "")),
        "local-queues", "until ClusterQueue gone exists", "create the ClusterQueue",
    ),
    "a ClusterQueue does not select the namespace": (
        _changed(RESEARCH, [{
            "op": "replace", "path": "/spec/namespaceSelector",
            "value": {"matchLabels": {"team": "other"}},
        }]),
        "local-queues", "does not select the namespace", "kubectl label namespace",
    ),
    "quota exceeds what exists": (
        _changed(RESEARCH, [{
            "op": "replace",
            "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", "value": "12",
        }]),
        "quota-capacity", "promise 12 nvidia.com/gpu of it, its nodes have 8", "nominalQuota",
    ),
    "a flavor selects no node": (
        _posted(f"{KUEUE}/resourceflavors", make_flavor("h100", product="NVIDIA-H100")),
        "flavor-nodes", "no node has its nodeLabels", "kubectl get nodes -L",
    ),
    "no flavor selects a node": (
        _node("t4-0", product="Tesla-T4"),
        "node-flavors", "no queue has quota for their GPUs", "create a ResourceFlavor",
    ),
    "a node has a taint that nobody tolerates": (
        _changed(GPU_0, [{"op": "add", "path": "/spec/taints", "value": [
            {"key": "workload", "value": "training", "effect": "NoSchedule"}]}]),
        "flavor-taints", "workload=training:NoSchedule", "spec.tolerations",
    ),
    "a flavor says another product": (
        _changed(FLAVOR, [{
            "op": "add", "path": "/metadata/annotations",
            "value": {"gpu-admission.dev/product": "T4"},
        }]),
        "flavor-annotations", "says T4", "kubectl edit resourceflavor a100",
    ),
    "a node does not answer": (
        _changed(f"{GPU_0}/status", [{"op": "replace", "path": "/status/conditions", "value": [
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
             "message": "Kubelet stopped posting node status."}]}]),
        "nodes-ready", "Kubelet stopped posting node status", "kubectl describe node gpu-0",
    ),
    "a MIG layout failed": (
        _changed(GPU_0, [_label(names.MIG_CONFIG_STATE_LABEL, "failed")]),
        "mig-layouts", "is failed", "MIG manager",
    ),
    "labels say more than there is": (
        _changed(GPU_0, [_label(names.GPU_COUNT_LABEL, "16")]),
        "node-labels", "says 16, the node has 8", "GPU feature discovery",
    ),
    "a variable shows GPUs": (
        _posted(f"{DAEMON_SETS}/TEAM/daemonsets", _named("plugin", spec=PLUGIN)),
        "visible-devices", "NVIDIA_VISIBLE_DEVICES", "volume-mounts",
    ),
    "a LimitRange gives every container GPUs": (
        _posted(f"{AT_HOME}/limitranges", _named("limits", spec={
            "limits": [{"type": "Container", "max": {"nvidia.com/gpu": "8"}}]})),
        "gpu-limits", "spec.limits[0]", "kubectl edit limitrange",
    ),
    "a ResourceQuota counts nothing": (
        _posted(f"{AT_HOME}/resourcequotas", _named("quota", spec={
            "hard": {"limits.nvidia.com/gpu": "8"}})),
        "gpu-limits", "never counted", "kubectl edit resourcequota",
    ),
    "a GPU pod runs outside every queue": (
        _posted(f"{CORE}/namespaces/default/pods", STRAY),
        "pods-outside", "2 nvidia.com/gpu outside every queue", "create one called default",
    ),
    "a node's clock is ahead": (
        _posted(f"{LEASES}/kube-node-lease/leases", _named("gpu-0", spec={
            "renewTime": "2099-01-01T00:00:00.000000Z"})),
        "clocks", "ahead of", "time server",
    ),
}  # fmt: skip


@contextmanager
def _prepared(system: Examined, prepare: Prepare) -> Iterator[None]:
    undo = prepare(system)
    try:
        yield
    finally:
        undo()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_its_mend_named(system: Examined, fault: str) -> None:
    prepare, check, what, mend = FAULTS[fault]

    def told() -> list[str]:
        checked = {one.check: one.findings for one in system.diagnose().checked}
        return [one.mend for one in checked[check] if what in one.what]

    with _prepared(system, prepare):
        assert mend in waiting.until(told, what=fault)[0]


@pytest.mark.parametrize(
    "selector",
    [
        {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["other"]}
            ]
        },
        {"matchLabels": {"kubernetes.io/metadata.name": "other"}},
    ],
    ids=["expression", "label"],
)
def test_the_patch_that_is_printed_has_a_queue_select_the_namespace(
    system: Examined, selector: Json
) -> None:
    change = [{"op": "replace", "path": "/spec/namespaceSelector", "value": selector}]
    with _prepared(system, _changed(RESEARCH, change)):
        checked = {check.check: check.findings for check in system.diagnose().checked}
        (finding,) = checked["local-queues"]
        command = shlex.split(finding.mend)
        assert command[:5] == ["kubectl", "patch", "clusterqueue", "research", "--type=json"]
        system.api.patch(RESEARCH, json.loads(command[-1]), JSON_PATCH)
        assert "local-queues" not in _found(system.diagnose())


def test_a_webhook_that_is_not_trusted_is_found_in_the_answer_and_in_the_configuration(
    system: Examined,
) -> None:
    path = f"{REGISTRATION}/mutatingwebhookconfigurations/{MUTATING_NAME}"
    bundle = base64.b64encode(system.cluster.ca_file.read_bytes()).decode()
    hooks = system.api.get(path)["webhooks"]
    change = [
        {"op": "replace", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": bundle}
        for at in range(len(hooks))
    ]

    def told() -> bool:
        system.api.patch(path, change, JSON_PATCH)  # the controller mends it now and then
        found = _found(system.diagnose())
        answers = found.get("webhook-answers", [""])[0]
        return "webhook-trust" in found and "does not trust its certificate" in answers

    with _prepared(system, _changed(path, change)):
        waiting.until(told, what="found twice")


def test_what_is_down_is_found_and_so_is_who_waits_for_it(system: Examined) -> None:
    system.add_cluster_queue("late", quota=0)
    system.create_pod(system.team, "held", gpus=100)
    system.wait_condition(system.team, "held")
    system.stop()
    try:
        lost = make_pod("lost", gates=[names.ADMISSION_GATE])
        system.unreviewed().post(f"{CORE}/namespaces/default/pods", lost)
        done = run_command("doctor", "--kubeconfig", system.kubeconfig)
        assert done.returncode == 1, done
        said = " ".join(done.stdout.split())
        assert said.startswith("1 error found by "), said
        assert "nothing listens there" in said
        assert "fix: start the webhook: gpu-admission run" in said
        assert "Could not check: webhook-trust: the webhook's URL cannot be reached" in said
        later = _found(system.diagnose(later=900))
        assert "('default/lost',)" in later["pods-held"][0]  # the other one says why it waits
    finally:
        system.start()
    system.delete_pod("default", "lost")
    system.delete_pod(system.team, "held")
    system.api.delete(f"{KUEUE}/clusterqueues/late")


def test_what_does_not_end_is_found_with_what_holds_it(system: Examined) -> None:
    at = f"{KUEUE}/cohorts"
    holder = "example.com/accounting"
    cohort = make_cohort("held")
    cohort["metadata"]["finalizers"] = [holder]
    system.api.post(at, cohort)
    system.api.delete(f"{at}/held")
    assert "terminating" not in _found(system.diagnose())
    later = _found(system.diagnose(later=900))
    system.api.patch(f"{at}/held", {"metadata": {"finalizers": None}})
    assert holder in later["terminating"][0]


def test_what_may_not_be_read_is_said_and_the_rest_is_checked(system: Examined) -> None:
    rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["*"], "verbs": ["list"]}
    subject = {"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    binding = _named("reader", subjects=[subject], roleRef=role)
    kubeconfig = str(system.cluster.kubeconfig("reader"))
    lost = make_cluster_queue("lost", quota=0, flavors=("gone",))
    with (
        _prepared(system, _posted(f"{RBAC}/clusterroles", _named("reader", rules=[rule]))),
        _prepared(system, _posted(f"{RBAC}/clusterrolebindings", binding)),
    ):
        system.cluster.wait_for_roles()
        done = run_command("doctor", "--kubeconfig", kubeconfig, "-o", "json")
        assert done.returncode == 3, done
        document = json.loads(done.stdout)
        assert document["findings"] == [], document
        blind = {one["check"]: one["why"] for one in document["notLooked"]}
        assert blind["flavor-nodes"] == "you may not list nodes"
        assert "queue-flavors" not in blind
        with _prepared(system, _posted(f"{KUEUE}/clusterqueues", lost)):
            done = run_command("doctor", "--kubeconfig", kubeconfig)
        assert done.returncode == 1, done
        assert "until ResourceFlavor gone exists" in " ".join(done.stdout.split())


def test_who_may_read_nothing_is_told_that_nothing_was_checked(system: Examined) -> None:
    done = run_command("doctor", "--kubeconfig", str(system.cluster.kubeconfig("nobody")))
    assert done.returncode == 3, done
    first, step, *rest = done.stdout.splitlines()
    assert first == (
        "Nothing was checked: doctor is for administrators; your user may read none of it."
    )
    assert step.startswith("next: why something of yours waits: kubectl gpu why NAME -n NAMESPACE")
    assert "Could not check" not in " ".join(rest)


def test_a_machine_whose_clock_is_wrong_is_told(system: Examined) -> None:
    target = connection.ApiServerTarget(system.kubeconfig)
    with closing(target.connect(connections=1, timeout_seconds=30)) as api:
        picture = looking.look(api, None, FakeClock())
    assert "behind" in _found(checks.diagnose(picture))["clocks"][0]


def test_nothing_is_stored_by_looking(system: Examined) -> None:
    before = system.api.get(f"{CORE}/pods")["items"]
    assert system.diagnose().of(Severity.ERROR) == ()
    assert system.api.get(f"{CORE}/pods")["items"] == before
