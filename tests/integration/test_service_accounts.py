"""The controller and the webhook do their work as their own accounts, and can do nothing else.

The API server's audit log tells what each account asked for: nothing was forbidden, and what a
role grants without anybody asking is in a table with its reason.
"""

import http.client
import json
import signal
import ssl
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from typing_extensions import override

from admission.admin import rbac
from admission.base import names
from admission.controller.watched_owners.owner_writes import resource_of
from admission.controller.watched_owners.pod_groups import resources_of_gangs
from admission.installed import cabundles
from admission.kube import resources
from admission.objects import owner_rows
from admission.owners import integrations
from admission.owners.serving import LEADER_WORKER_SET
from tests.builders.jobs import make_job
from tests.controlplane import features, forked, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.rest import RestError
from tests.integration import owner_crds, snapshot
from tests.integration.installed import KUEUE, Installed
from tests.owners import samples

(JOB_SET,) = (one for one in owner_rows.ROWS if one.kind == "JobSet")
pytestmark = pytest.mark.controlplane

GPU = names.GPU_RESOURCE
SYSTEM = names.SYSTEM_NAMESPACE
CONTROLLER, WEBHOOK = rbac.CONTROLLER_ACCOUNT, rbac.WEBHOOK_ACCOUNT
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
MUTATING = f"{HOOKS}/gpu-admission-mutating-webhook-configuration"


class Request(NamedTuple):
    """What was asked for, as a rule of a role would grant it."""

    verb: str
    group: str
    resource: str


class Separate(Installed):
    """Runs webhook and controller as two processes, each with its account's kubeconfig."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self.audit = folder / "audit.log"
        self.logs = {name: folder / f"{name}.log" for name in ("controller", "webhook")}
        self._processes: list[forked.Process | subprocess.Popen[bytes]] = []

    @override
    def start(self, *more: str) -> None:
        file = self.folder / "config.yaml"
        file.write_text(yaml.safe_dump(self._configuration()))
        self.cluster.wait_for_roles()
        for name, account in (("webhook", WEBHOOK), ("controller", CONTROLLER)):
            kubeconfig = self.cluster.account_kubeconfig(SYSTEM, account)
            command = [*PROGRAM, name, "--config", str(file), "--kubeconfig", str(kubeconfig),
                       *more]  # fmt: skip
            with self.logs[name].open("ab") as log:
                self._processes.append(forked.start(command, stdout=log, stderr=log))
        ready = f"webhook and controller ready, see {self.folder}"
        waiting.until(self.is_ready, what=ready)
        self.wait_reviewed()

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "webhook": {
                "host": "127.0.0.1",
                "port": self.webhook_port,
                "certDir": str(self.certificates),
            },
            "metrics": {"bindAddress": f"127.0.0.1:{self.metrics_port}"},
            "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": self.visibility_port},
            "clientConnection": {"qps": 300},
            "fairSharing": {
                "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
            },
        }

    @override
    def is_ready(self) -> bool:
        assert all(process.poll() is None for process in self._processes), self.text()
        return super().is_ready()

    @override
    def stop(self) -> int:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(30) for process in self._processes]
        self._processes.clear()
        return max(codes, default=0)

    def text(self) -> str:
        """Everything both have logged."""
        return "".join(log.read_text() for log in self.logs.values() if log.exists())

    def entries(self, account: str) -> list[dict[str, Any]]:
        """What the audit log says of an account."""
        user = f"system:serviceaccount:{SYSTEM}:{account}"
        whole, _, _ = self.audit.read_text().rpartition("\n")  # the last line may be half written
        entries = map(json.loads, whole.splitlines())
        return [one for one in entries if one["user"]["username"] == user and _is_ours(one)]

    def asked(self, account: str) -> set[Request]:
        """Everything an account has asked for."""
        return {_request(one) for one in self.entries(account) if "objectRef" in one}


def _is_ours(entry: dict[str, Any]) -> bool:
    """Whether the program asked, and not a test that tries what the account may."""
    return bool(entry.get("userAgent") == names.FIELD_MANAGER)


def _request(entry: dict[str, Any]) -> Request:
    target = entry["objectRef"]
    parts = [target["resource"], *([target["subresource"]] if "subresource" in target else [])]
    return Request(entry["verb"], target.get("apiGroup", ""), "/".join(parts))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Separate]:
    folder = tmp_path_factory.mktemp("accounts")
    group = f"system:serviceaccounts:{SYSTEM}"
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "userGroups": [group]}, {"level": "None"}],
    }
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    flags = [
        f"--audit-policy-file={folder / 'policy.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        # Some distributions switch it on; it asks for a permission of its own.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    ]
    with snapshot.prepared(folder, Separate, api_flags=flags) as it:
        owner_crds.install(it.cluster, JOB_SET)
        it.start()
        it.add_flavor("any")
        it.add_cluster_queue("any", quota=1, flavors=("any",))
        add_rest(it)
        yield it


def add_rest(system: Separate) -> None:
    """Kinds of which something is written that pods do not need: finalizers, shares."""
    for plural, kind, spec in (
        ("admissionchecks", "AdmissionCheck", {"controllerName": "example.com/budget"}),
        ("topologies", "Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}),
        ("cohorts", "Cohort", {}),
    ):
        system.api.post(
            f"{KUEUE}/{plural}",
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": kind,
                "metadata": {"name": "any"},
                "spec": spec,
            },
        )


@pytest.fixture(scope="module")
def driven(system: Separate) -> Separate:
    """The system after pods went every way there is: admitted, waiting, ended, preempted."""
    for name, value in (("low", 1), ("high", 1000)):
        system.cluster.add_priority_class(name, value)
    team = system.add_team(quota=2, preemption={"withinClusterQueue": "LowerPriority"})
    system.create_pod(team, "first", gpus=2)
    system.wait_released(team, "first")
    system.create_pod(team, "second", gpus=2)
    system.wait_condition(team, "second")
    system.delete_pod(team, "first")
    system.wait_released(team, "second")
    system.delete_pod(team, "second")

    system.create_pod(team, "modest", gpus=2, priorityClassName="low")
    system.wait_released(team, "modest")
    system.create_pod(team, "urgent", gpus=2, priorityClassName="high")
    system.wait_released(team, "urgent")
    waiting.until(lambda: is_settled(system, team), what="queue status without pending")

    brief = system.add_team(quota=1)
    system.create_pod(brief, "brief", labels={names.MAX_EXEC_TIME_LABEL: "5"})
    waiting.until(lambda: has_run(system, brief), what="the end of the time limit")
    run_job(system)
    run_and_stop_owner(system)
    remove_queue(system, brief)
    waiting.until(lambda: ask_who_waits(system, team) == 403, what="a refusal to somebody")
    return system


def has_run(system: Separate, namespace: str) -> bool:
    """Whether the time limit of the one pod of a namespace has ended it.

    The limit counts from the whole second of the admission. Where the pod was not released within
    it, the Workload is deactivated all the same, and the pod waits until it is activated again.
    """
    pods = system.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    if pods and pods[0]["spec"].get("schedulingGates"):
        workloads = f"{KUEUE}/namespaces/{namespace}/workloads"
        for workload in system.api.get(workloads)["items"]:
            if workload["spec"].get("active") is False:
                again = {"spec": {"active": True}}
                system.api.patch(f"{workloads}/{workload['metadata']['name']}", again)
    return not pods


def ask_who_waits(system: Separate, queue: str) -> int:
    """Asks in the name of the webhook's account; the HTTP status."""
    kubeconfig = yaml.safe_load(
        system.cluster.account_kubeconfig(SYSTEM, WEBHOOK).read_text("utf-8")
    )
    context = ssl.create_default_context(cafile=str(system.certificates / "ca.crt"))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", system.visibility_port, context=context, timeout=waiting.PATIENCE_SECONDS
    )
    path = f"/apis/{names.VISIBILITY_GROUP}/v1beta2/clusterqueues/{queue}/pendingworkloads"
    token = kubeconfig["users"][0]["user"]["token"]
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def run_and_stop_owner(system: Separate) -> None:
    """An owner whose kind is a row is started, stopped, and is what it was."""
    team = system.add_team(quota=100)
    sample = samples.of(JOB_SET)
    path = f"/apis/{JOB_SET.api_version}/namespaces/{team}/{JOB_SET.plural}"
    before = system.api.post(path, sample.manifest)["spec"]
    one = f"{path}/{sample.manifest['metadata']['name']}"
    waiting.until(lambda: not system.api.get(one)["spec"]["suspend"], what="a JobSet that runs")
    workloads = f"{KUEUE}/namespaces/{team}/workloads"
    (workload,) = system.api.get(workloads)["items"]
    stop = {"spec": {"active": False}}
    system.api.patch(f"{workloads}/{workload['metadata']['name']}", stop)
    waiting.until(
        lambda: system.api.get(one)["spec"] == before,
        what="a JobSet that is what it was",
    )


def run_job(system: Separate) -> None:
    """A suspended Job gets quota and may start."""
    team = system.add_team(quota=1)
    jobs = f"/apis/batch/v1/namespaces/{team}/jobs"
    labels = {names.QUEUE_LABEL: "default"}
    system.api.post(jobs, make_job("job", 1, gpus=1, labels=labels, suspend=True))
    waiting.until(
        lambda: not system.api.get(f"{jobs}/job")["spec"]["suspend"], what="a Job that may start"
    )


def remove_queue(system: Separate, team: str) -> None:
    """Nothing holds a ClusterQueue and a flavor that nobody uses."""
    for path in (f"{KUEUE}/clusterqueues/{team}", f"{KUEUE}/resourceflavors/{team}"):
        system.api.delete(path)
        waiting.until(partial(system.api.lacks, path), what=f"{path} gone")


def is_settled(system: Separate, team: str) -> bool:
    """Whether the queue's status tells of the last preemption."""
    status = system.api.get(f"{KUEUE}/clusterqueues/{team}").get("status", {})
    return bool(status.get("pendingWorkloads") == 0 and status.get("admittedWorkloads") == 1)


# ------------------------------------------------------------------------- what they can do


@pytest.mark.parametrize("account", [CONTROLLER, WEBHOOK])
def test_nothing_that_is_asked_for_is_forbidden(driven: Separate, account: str) -> None:
    refused = [
        f"{one['verb']} {one['requestURI']}"
        for one in driven.entries(account)
        if one.get("responseStatus", {}).get("code") in {401, 403}
    ]
    assert driven.entries(account)
    assert refused == []
    assert "forbidden" not in driven.text().lower()


def test_the_controller_holds_the_lease(driven: Separate) -> None:
    lease = driven.api.get(f"{LEASES}/{names.LEASE_NAME}")
    assert lease["spec"]["holderIdentity"]


def test_every_line_of_the_log_is_one_object(driven: Separate) -> None:
    lines = [json.loads(line) for line in driven.text().splitlines()]
    assert "review_denied" in {line["event"] for line in lines}  # of a worker of the webhook
    assert {"component", "level", "timestamp"} <= set.intersection(*map(set, lines))


def test_what_has_no_effect_in_the_file_is_named_once_by_each_process(driven: Separate) -> None:
    for log in driven.logs.values():
        lines = [json.loads(one) for one in log.read_text().splitlines()]
        (said,) = [one for one in lines if one["event"] == "fields without effect"]
        (field,) = said["fields"]
        assert field.startswith("clientConnection.qps (GpuConfiguration.controller.writers limits")


OWNERS = (*owner_rows.ROWS, *owner_rows.MODULES)
AFTER_CONFLICT = "a write that met a conflict reads the object"
DEVICES = "scheduling.koordinator.sh"
UNASKED = {
    CONTROLLER: {
        **{
            Request(verb, one.group, one.plural): "the kind is not served here"
            for one in OWNERS
            if one != JOB_SET
            for verb in ("get", "patch", "watch")
        },
        **{
            Request("watch", one.group, one.plural): "the kind is not served here"
            for one in (
                *resources_of_gangs(),
                resources.VOLCANO_QUEUES,
                resource_of(LEADER_WORKER_SET.kind),
            )
        },
        Request("get", JOB_SET.group, JOB_SET.plural): AFTER_CONFLICT,
        **{
            Request("update", one.group, f"{one.plural}/finalizers"): (
                "asked by an admission plugin, not by us"
            )
            for one in OWNERS
        },
        Request("get", names.KUEUE_GROUP, "admissionchecks"): AFTER_CONFLICT,
        Request("get", names.KUEUE_GROUP, "clusterqueues"): AFTER_CONFLICT,
        Request("get", names.KUEUE_GROUP, "cohorts"): AFTER_CONFLICT,
        Request("get", names.KUEUE_GROUP, "topologies"): AFTER_CONFLICT,
        Request("get", names.KUEUE_GROUP, "localqueues"): AFTER_CONFLICT,
        Request("get", names.KUEUE_GROUP, "workloads"): AFTER_CONFLICT,
        Request("get", "", "pods"): AFTER_CONFLICT,
        Request("get", names.KUEUE_GROUP, "resourceflavors"): AFTER_CONFLICT,
        Request("get", "batch", "jobs"): AFTER_CONFLICT,
        Request("delete", "batch", "jobs"): "where objectRetentionPolicies say so",
        Request("patch", "batch", "jobs/status"): "a stopped Job that had started",
        Request("update", "batch", "jobs/finalizers"): "asked by an admission plugin, not by us",
        Request("patch", "events.k8s.io", "events"): "an event that repeats is counted",
        Request("update", "", "pods/finalizers"): "asked by an admission plugin, not by us",
        Request("get", "apiextensions.k8s.io", "customresourcedefinitions"): (
            "before a pod is stopped whose Workload is gone"
        ),
        Request("get", "", "secrets"): "where the webhook runs in the cluster",
        Request("patch", "", "secrets"): "where the webhook runs in the cluster",
        **{
            Request("patch", one.group, one.plural): "where a CA is new" for one in cabundles.NAMES
        },
        **{
            Request(verb, "", "configmaps"): "usage is recorded once a minute"
            for verb in ("create", "delete", "get", "update")
        },
        **(
            {}
            if features.SERVES_CLAIMS
            else {
                Request("watch", resource.group, resource.plural): "the kind is not served here"
                for resource in (
                    resources.DEVICE_CLASSES,
                    resources.RESOURCE_CLAIMS,
                    resources.RESOURCE_CLAIM_TEMPLATES,
                    resources.RESOURCE_SLICES,
                )
            }
        ),
        Request("list", "coordination.k8s.io", "leases"): "while another one leads",
        Request("watch", "coordination.k8s.io", "leases"): "while another one leads",
        Request("list", DEVICES, "devices"): "where the kind is served",
        Request("watch", DEVICES, "devices"): "where the kind is served",
    },
    WEBHOOK: {
        Request("watch", one.kind.group, one.kind.plural): "the kind is not served here"
        for one in integrations.DEFAULT.checked
        if one.kind.name != JOB_SET.kind
    },
}
"""What a role grants and an undisturbed run need not ask for."""


ROLES_OF = {CONTROLLER: {CONTROLLER, rbac.CERTIFICATES_ROLE}, WEBHOOK: {WEBHOOK}}
ELSEWHERE = {
    CONTROLLER: {Request("get", "", "configmaps"): "extension-apiserver-authentication-reader"},
    WEBHOOK: {},
}
"""What roles of Kubernetes' own grant, to which an account is bound."""


@pytest.mark.parametrize("account", [CONTROLLER, WEBHOOK])
def test_a_role_grants_what_is_asked_for_and_no_more(driven: Separate, account: str) -> None:
    granted = {
        Request(verb, group, resource)
        for document in rbac.documents()
        if document["metadata"]["name"] in ROLES_OF[account]
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    needed = granted - UNASKED[account].keys() | ELSEWHERE[account].keys()
    missing: set[Request] = set()

    def all_asked() -> bool:
        missing.clear()
        missing.update(needed - driven.asked(account))
        return not missing

    try:
        waiting.until(all_asked)
    except TimeoutError:
        pytest.fail(f"{account} did not ask for {sorted(missing)}")
    asked = driven.asked(account)
    bound = {
        document["roleRef"]["name"]
        for document in rbac.documents()
        if document["kind"] == "RoleBinding"
        and any(one["name"] == account for one in document["subjects"])
    }
    assert bound >= set(ELSEWHERE[account].values())
    assert ELSEWHERE[account].keys() <= asked
    asked -= ELSEWHERE[account].keys()
    assert asked <= granted
    assert granted - asked - UNASKED[account].keys() == set()
    assert UNASKED[account].keys() <= granted


def test_creating_a_workload_needs_the_finalizers_of_its_pod(driven: Separate) -> None:
    """The rule that nobody asks for by itself is not superfluous."""
    team = driven.add_team(quota=1)
    pod = driven.create_pod(team, "owner")
    path = f"{KUEUE}/namespaces/{team}/workloads"
    owner = {
        "apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": pod["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    metadata = {"name": "owned", "namespace": team, "ownerReferences": [owner]}
    workload = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata}
    role = next(
        d for d in rbac.documents() if d["metadata"]["name"] == CONTROLLER and "rules" in d
    )
    rules = [rule for rule in role["rules"] if "pods/finalizers" not in rule["resources"]]
    driven.api.post(f"{ROLES}/clusterroles", {"metadata": {"name": "lesser"}, "rules": rules})
    driven.api.post(
        f"{ROLES}/clusterrolebindings",
        {
            "metadata": {"name": "lesser"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "lesser"},
            "subjects": [{"kind": "User", "name": "lesser"}],
        },
    )  # fmt: skip
    driven.cluster.wait_for_roles()
    lesser = driven.cluster.client(driven.cluster.kubeconfig("lesser"))
    with pytest.raises(RestError, match="blockOwnerDeletion"):
        lesser.post(path, workload)


# ---------------------------------------------------------------------- what they cannot do

POD = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
QUEUE = f"{KUEUE}/clusterqueues/any"
LEVELS = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
PARAMETERS = {"apiGroup": "example.com", "kind": "Budget", "name": "small"}
Case = tuple[str, str, Any]
NEITHER: list[Case] = [
    ("POST", "/api/v1/namespaces/default/pods", POD),
    ("POST", f"/api/v1/namespaces/{SYSTEM}/pods", POD),
    ("POST", "/api/v1/namespaces/default/pods/x/exec?command=id", None),
    ("POST", "/api/v1/namespaces/default/pods/x/binding", {}),
    ("GET", "/api/v1/secrets", None),
    ("GET", f"/api/v1/namespaces/{SYSTEM}/secrets", None),
    ("GET", f"/api/v1/namespaces/{SYSTEM}/secrets/other", None),
    ("PATCH", f"/api/v1/namespaces/{SYSTEM}/configmaps/gpu-admission-config", {"data": {}}),
    ("GET", "/api/v1/namespaces/default/configmaps", None),
    ("GET", "/api/v1/namespaces/kube-system/configmaps", None),
    ("GET", "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt", None),
    ("DELETE", "/api/v1/nodes/any", None),
    ("PATCH", "/api/v1/nodes/any", {"spec": {"unschedulable": True}}),
    ("DELETE", "/api/v1/namespaces/default", None),
    ("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}}),
    ("PATCH", f"{QUEUE}?dryRun=All", {"spec": {"stopPolicy": "Hold"}}),
    ("DELETE", QUEUE, None),
    ("PATCH", f"{KUEUE}/admissionchecks/any?dryRun=All", {"spec": {"parameters": PARAMETERS}}),
    ("PATCH", f"{KUEUE}/topologies/any?dryRun=All", {"spec": {"levels": LEVELS}}),
    ("DELETE", f"{KUEUE}/topologies/any", None),
    ("POST", f"{KUEUE}/clusterqueues", {"metadata": {"name": "mine"}}),
    ("PATCH", f"{KUEUE}/namespaces/default/localqueues/any", {"spec": {}}),
    ("PATCH", MUTATING, {"webhooks": []}),
    ("DELETE", MUTATING, None),
    ("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.{KUEUE}", None),
    ("PATCH", f"{ROLES}/clusterroles/{CONTROLLER}", {"rules": []}),
    ("POST", f"{ROLES}/clusterrolebindings", {"metadata": {"name": "mine"}}),
    ("POST", f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{CONTROLLER}/token", {}),
    ("GET", f"{LEASES}/other", None),
    ("DELETE", f"{LEASES}/{names.LEASE_NAME}", None),
    ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", {}),
    ("DELETE", "/api/v1/namespaces/default/events/any", None),
]
WEBHOOK_ONLY: list[Case] = [
    ("GET", f"/api/v1/namespaces/{SYSTEM}/secrets/gpu-admission-webhook-tls", None),
    ("PATCH", QUEUE, {"spec": {"cohortName": "mine"}}),
    ("PATCH", f"{KUEUE}/resourceflavors/any", {"spec": {"nodeLabels": {"a": "b"}}}),
    ("PATCH", f"{KUEUE}/namespaces/default/workloads/any", {"spec": {"priority": 9}}),
    ("GET", "/api/v1/pods", None),
    ("GET", "/api/v1/nodes", None),
    ("PATCH", "/api/v1/namespaces/default/pods/any", {"spec": {"schedulingGates": []}}),
    ("GET", f"{KUEUE}/workloads", None),
    ("PATCH", f"{KUEUE}/namespaces/default/workloads/any/status", {"status": {}}),
    ("PATCH", f"{QUEUE}/status", {"status": {}}),
    ("GET", f"{LEASES}/{names.LEASE_NAME}", None),
    ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", {}),
]
CONTROLLER_ONLY: list[Case] = [("GET", "/api/v1/resourcequotas", None)]
FORBIDDEN = [
    (account, method, path, body)
    for account, more in ((CONTROLLER, CONTROLLER_ONLY), (WEBHOOK, WEBHOOK_ONLY))
    for method, path, body in (*NEITHER, *more)
]


@pytest.mark.parametrize(
    ("account", "method", "path", "body"),
    FORBIDDEN,
    ids=[f"{account}-{method} {path}" for account, method, path, _ in FORBIDDEN],
)
def test_an_account_is_refused(
    accounts: dict[str, Path], system: Separate, account: str, method: str, path: str, body: Any
) -> None:
    client = system.cluster.client(accounts[account])
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    with pytest.raises(RestError) as refused:
        client.text(method, path, body, kind)
    assert refused.value.status == 403, refused.value.body


@pytest.fixture(scope="module")
def accounts(system: Separate) -> dict[str, Path]:
    """Kubeconfigs with a token of each account."""
    return {
        account: system.cluster.account_kubeconfig(SYSTEM, account)
        for account in (CONTROLLER, WEBHOOK)
    }


@pytest.fixture(scope="module")
def without_roles(system: Separate) -> Path:
    """A kubeconfig of an account that has what every service account has."""
    document = {"metadata": {"name": "without-roles"}}
    system.cluster.api.post(f"/api/v1/namespaces/{SYSTEM}/serviceaccounts", document)
    return system.cluster.account_kubeconfig(SYSTEM, "without-roles")


@pytest.mark.parametrize("account", [CONTROLLER, WEBHOOK])
def test_an_account_has_its_own_roles_and_what_everybody_has(
    system: Separate, accounts: dict[str, Path], without_roles: Path, account: str
) -> None:
    roles = ROLES_OF[account] | ({rbac.METRICS_AUTH} if account == WEBHOOK else set())
    granted = {
        json.dumps({"resourceNames": [], **rule}, sort_keys=True)
        for document in rbac.documents()
        if document["metadata"]["name"] in roles
        for rule in document.get("rules", ())
    }
    assert rules(system, accounts[account]) - rules(system, without_roles) == granted


def rules(system: Separate, kubeconfig: Path) -> set[str]:
    """What the API server says may be done in our own namespace."""
    answer = system.cluster.client(kubeconfig).post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": SYSTEM},
        },
    )
    return {
        json.dumps({"resourceNames": [], **rule}, sort_keys=True)
        for rule in answer["status"]["resourceRules"]
    }
