"""The controller's account changes only those fields of pods and Jobs that the controller needs.

Each request is made with the account's own token on a real API server. What must pass is what the
controller's code composes, not a copy of it.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from admission.admin import manifests, rbac, scope, visibility_manifests, webhooks
from admission.base import conditions, names, patches
from admission.base.conditions import Text
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.installed import cabundles
from admission.kube import apply
from admission.objects import batch, crds, usage_record, views
from admission.objects.usage_record import Period, Record
from admission.objects.workload import PodSet, Workload, WorkloadSpec
from admission.owners import batch_job
from admission.owners import pod as pod_owner
from admission.owners.injection import Injection
from admission.run.connection import ApiServerTarget
from certs import rotation
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.controlplane import features, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import JSON_PATCH, MERGE, Rest, RestError

pytestmark = pytest.mark.controlplane

SYSTEM = names.SYSTEM_NAMESPACE
DRIVERS = "drivers"
SETTINGS = Settings(gpu=GpuConfiguration(excluded_namespaces=[DRIVERS, "kube-system"]))
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FOREIGN_GATE = "example.com/hold"
OURS = {names.MANAGED_LABEL: names.MANAGED_VALUE, names.QUEUE_LABEL: "default"}
GIVEN = Injection(
    node_selector={"nvidia.com/gpu.product": "A100"},
    tolerations=(views.Toleration(key="nvidia.com/gpu", operator="Exists"),),
    labels={names.PODSET_LABEL: "main", "example.com/by-a-check": "yes"},
    annotations={names.WORKLOAD_ANNOTATION: "w", "example.com/by-a-check": "yes"},
)


class Guarded:
    """A cluster with the account, its roles and its policies."""

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self.admin = cluster.api
        self.account = cluster.client(kubeconfig)
        self._kubeconfig = kubeconfig
        self.team = cluster.create_namespace("team")
        self._made = 0

    def account_target(self) -> ApiServerTarget:
        """How the program itself connects as the account."""
        return ApiServerTarget(str(self._kubeconfig))

    def pod(
        self,
        namespace: str,
        *,
        gates: tuple[str, ...] = (),
        managed: bool = True,
        labels: Mapping[str, str] = MappingProxyType({}),
        **spec: Any,
    ) -> str:
        """Creates a pod; its path."""
        self._made += 1
        name = f"pod-{self._made}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        labels = {"team": "a", **(OURS if managed else {}), **labels}
        self.admin.post(
            path, make_pod(name, labels=labels, annotations={"team": "a"}, gates=gates, **spec)
        )
        return f"{path}/{name}"

    def gated(self, namespace: str = "") -> str:
        return self.pod(namespace or self.team, gates=(names.ADMISSION_GATE, FOREIGN_GATE))

    def job(self, namespace: str = "", **labels: str) -> str:
        """Creates a suspended Job; its path."""
        self._made += 1
        name = f"job-{self._made}"
        path = f"/apis/batch/v1/namespaces/{namespace or self.team}/jobs"
        labels = labels or {names.QUEUE_LABEL: "default"}
        pod = {"labels": {"team": "a"}}
        self.admin.post(path, make_job(name, 3, labels=labels, pod=pod, suspend=True))
        return f"{path}/{name}"

    def send(self, path: str, patch: patches.Patch) -> Any:
        """Sends a patch of the program's as the account."""
        return self.account.patch(path, json.loads(patch.body), patch.type.value)

    def view(self, path: str) -> views.Pod:
        return msgspec.convert(self.admin.get(path), views.Pod)

    def job_view(self, path: str) -> batch.Job:
        return msgspec.convert(self.admin.get(path), batch.Job)

    def refuses(self, path: str, body: Any, content_type: str = MERGE) -> str:
        """Sends a patch that has to be refused; what the refusal says."""
        with pytest.raises(RestError) as refused:
            self.account.patch(path, body, content_type)
        assert refused.value.status == 403, refused.value.body
        return str(json.loads(refused.value.body)["message"])

    def refuses_deletion(self, path: str) -> str:
        with pytest.raises(RestError) as refused:
            self.account.delete(path)
        assert refused.value.status == 403, refused.value.body
        return str(json.loads(refused.value.body)["message"])


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with Cluster.start() as cluster:
        for name in (SYSTEM, DRIVERS):
            cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        target = ApiServerTarget(str(cluster.admin_kubeconfig))
        with closing(target.connect(connections=1, timeout_seconds=30)) as api:
            list(apply.apply_all(api, [*rbac.documents(), *scope.documents(SETTINGS)]))
        cluster.wait_for_roles()
        account = cluster.account_kubeconfig(SYSTEM, rbac.CONTROLLER_ACCOUNT)
        found = Guarded(cluster, account)
        pods = (found.pod("kube-system"), found.pod(found.team, managed=False))
        jobs = (found.job("kube-system"), found.job(team="a"))
        # The API server learns of each policy at a moment of its own.
        for path in (*pods, *jobs):
            tried = (
                ("PATCH", path, {"metadata": {"labels": {"a": "b"}, "finalizers": ["a/b"]}}),
                ("PATCH", f"{path}/status", {"metadata": {"labels": {"a": "b"}}}),
                ("DELETE", path, None),
            )
            for method, at, body in tried:
                waiting.until(
                    partial(_is_refused, found.account, method, at, body),
                    what=f"{method} {at} refused",
                )
        labelled = {"metadata": {"labels": {"a": "b"}}}
        path = f"/api/v1/namespaces/{found.team}"
        waiting.until(
            lambda: _is_refused(found.account, "PATCH", path, labelled), what=f"{path} protected"
        )
        yield found


def _is_refused(account: Rest, method: str, path: str, body: Any) -> bool:
    try:
        account.text(method, f"{path}?dryRun=All", body, MERGE)
    except RestError as refused:
        return refused.status == 403
    return False


# ------------------------------------------------------------------------------- what passes


def test_a_gated_pod_is_released_with_what_its_flavors_and_checks_give(guarded: Guarded) -> None:
    path = guarded.gated()
    released = guarded.send(path, pod_owner.release(guarded.view(path), GIVEN))
    assert [gate["name"] for gate in released["spec"]["schedulingGates"]] == [FOREIGN_GATE]
    assert released["spec"]["nodeSelector"] == dict(GIVEN.node_selector)
    assert {"team", *GIVEN.labels} <= released["metadata"]["labels"].keys()
    assert {"team", *GIVEN.annotations} <= released["metadata"]["annotations"].keys()


def test_a_pod_with_very_many_gates_of_others_is_released(guarded: Guarded) -> None:
    others = tuple(f"example.com/hold-{number}" for number in range(2000))
    path = guarded.pod(guarded.team, gates=(*others[:1000], names.ADMISSION_GATE, *others[1000:]))
    released = guarded.send(path, pod_owner.release(guarded.view(path), GIVEN))
    assert tuple(gate["name"] for gate in released["spec"]["schedulingGates"]) == others


MANY = {f"example.com/{number}": "" for number in range(webhooks.MOST + 1)}


def test_a_pod_with_very_many_labels_is_released_and_deleted(guarded: Guarded) -> None:
    path = guarded.pod(guarded.team, gates=(names.ADMISSION_GATE,), labels=MANY)
    released = guarded.send(path, pod_owner.release(guarded.view(path), GIVEN))
    assert released["metadata"]["labels"].keys() > MANY.keys()
    guarded.account.delete(path, {"gracePeriodSeconds": 0})
    assert guarded.admin.lacks(path)


def test_a_pod_that_is_not_ours_after_all_is_let_go(guarded: Guarded) -> None:
    path = guarded.gated()
    let_go = guarded.send(path, pod_owner.let_go(guarded.view(path)))
    assert names.MANAGED_LABEL not in let_go["metadata"]["labels"]


def test_a_pod_that_waits_in_a_namespace_excluded_later_is_released(guarded: Guarded) -> None:
    path = guarded.gated(DRIVERS)
    guarded.send(path, pod_owner.release(guarded.view(path), GIVEN))
    assert "excluded" in guarded.refuses(path, {"metadata": {"labels": {"a": "b"}}})


def test_why_a_pod_waits_and_why_it_ends_is_written_into_its_status(guarded: Guarded) -> None:
    path = guarded.gated()
    for admitted, text in ((False, "no quota"), (False, "less quota"), (True, "")):
        patch = pod_owner.tell(guarded.view(path), Text("Any", text), NOW, admitted=admitted)
        assert patch is not None
        guarded.send(f"{path}/status", patch)
    target = pod_owner.termination(guarded.view(path), Text("NotAdmitted", "Any"), NOW)
    assert target is not None
    written = guarded.send(f"{path}/status", target)
    types = {one["type"] for one in written["status"]["conditions"]}
    assert types >= {conditions.POD_ADMITTED, "TerminationTarget"}


def test_a_pod_of_ours_is_deleted(guarded: Guarded) -> None:
    path = guarded.pod(guarded.team)
    guarded.account.delete(path, {"gracePeriodSeconds": 0})
    assert guarded.admin.lacks(path)


def test_a_job_is_started_stopped_reset_and_restored(guarded: Guarded) -> None:
    path = guarded.job()
    before = guarded.admin.get(path)["spec"]
    workload = Workload(
        metadata=views.ObjectMeta(name="w", namespace=guarded.team),
        spec=WorkloadSpec(
            pod_sets=(
                msgspec.convert(
                    {"name": "main", "count": 3, "template": before["template"]}, PodSet
                ),
            )
        ),
    )
    guarded.send(path, batch_job.start(guarded.job_view(path), workload, GIVEN))
    assert guarded.admin.get(path)["spec"]["suspend"] is False
    guarded.admin.patch(f"{path}/status", {"status": {"startTime": "2026-03-01T12:00:00Z"}})
    guarded.send(path, batch_job.stop(guarded.job_view(path)))
    guarded.send(f"{path}/status", batch_job.reset(guarded.job_view(path)))
    guarded.send(path, batch_job.restore(guarded.job_view(path), workload))
    after = guarded.admin.get(path)
    assert after["spec"] == before
    assert "startTime" not in after["status"]


def test_a_job_of_a_job_is_started_held_and_let_go(guarded: Guarded) -> None:
    path = guarded.job(**{names.HELD_WITH_PARENT: "true"})
    for label, suspend in (("false", False), ("true", True), (None, False)):
        metadata = {"labels": {names.HELD_WITH_PARENT: label}}
        changed = guarded.account.patch(path, {"metadata": metadata, "spec": {"suspend": suspend}})
        assert changed["spec"]["suspend"] is suspend
        assert changed["metadata"].get("labels", {}).get(names.HELD_WITH_PARENT) == label


def test_the_number_of_pods_of_a_job_follows_its_admission(guarded: Guarded) -> None:
    path = guarded.job()
    changed = guarded.account.patch(path, {"spec": {"parallelism": 2}})
    assert changed["spec"]["parallelism"] == 2


def test_a_job_of_a_queue_is_deleted_when_its_time_is_over(guarded: Guarded) -> None:
    path = guarded.job()
    guarded.account.delete(path, {"propagationPolicy": "Background"})
    assert guarded.admin.lacks(path)


# ------------------------------------------------------------------------------ what is refused

IMAGE = [{"name": "main", "image": "evil"}]
LARGER = [{"name": "main", "image": "train", "resources": {"requests": {"cpu": "1"}}}]
ONLY_B = [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
REQUIRED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ONLY_B}
    }
}
POD_CHANGES: dict[str, tuple[Any, str]] = {
    "image": ({"spec": {"containers": IMAGE}}, "nothing else of its spec"),
    "deadline": ({"spec": {"activeDeadlineSeconds": 5}}, "nothing else of its spec"),
    "affinity": (
        {"spec": {"affinity": REQUIRED}},
        "which nodes a pod prefers, not which it requires",
    ),
    "gate of others": (
        {"spec": {"schedulingGates": [{"name": names.ADMISSION_GATE}]}},
        "gates of others",
    ),
    "finalizer": ({"metadata": {"finalizers": ["example.com/hold"]}}, "no other metadata"),
    "owner": (
        {
            "metadata": {
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]
            }
        },
        "no other metadata",
    ),
    "label of others": ({"metadata": {"labels": {"team": "b"}}}, "labels of others"),
    "label of others removed": ({"metadata": {"labels": {"team": None}}}, "labels of others"),
    "annotation of others": (
        {"metadata": {"annotations": {"team": "b"}}},
        "annotations of others",
    ),
}


@pytest.mark.parametrize("change", POD_CHANGES)
def test_a_pod_keeps_what_is_not_the_controllers(guarded: Guarded, change: str) -> None:
    body, message = POD_CHANGES[change]
    path = guarded.gated()
    assert message in guarded.refuses(path, body)
    guarded.admin.patch(path, {"metadata": {"labels": {"by": "administrator"}}})


def test_the_controller_cannot_reach_more_labels_than_are_compared(guarded: Guarded) -> None:
    path = guarded.gated()
    assert "labels of others" in guarded.refuses(path, {"metadata": {"labels": MANY}})


def test_a_running_pod_says_when_it_is_stopped_and_gets_its_labels_back(guarded: Guarded) -> None:
    path = guarded.pod(guarded.team)
    guarded.send(path, pod_owner.stops_at(guarded.view(path), "2026-03-01T12:05:00Z"))
    assert guarded.view(path).metadata.annotation(names.STOPS_AT) == "2026-03-01T12:05:00Z"
    guarded.admin.patch(path, {"metadata": {"labels": {names.MANAGED_LABEL: None}}})
    guarded.send(path, patches.merge({"metadata": {"labels": OURS}}))
    guarded.admin.patch(path, {"metadata": {"labels": MANY, "annotations": MANY}})
    many = guarded.view(path)
    guarded.refuses(path, json.loads(pod_owner.stops_at(many, "2026-03-01T12:06:00Z").body))


def test_a_pod_of_an_elastic_owner_is_released(guarded: Guarded) -> None:
    path = guarded.pod(guarded.team, gates=(names.ELASTIC_JOB_GATE, FOREIGN_GATE))
    guarded.send(path, pod_owner.release_elastic(guarded.view(path)))
    assert [one.name for one in guarded.view(path).spec.scheduling_gates or ()] == [FOREIGN_GATE]
    assert "gates of others" in guarded.refuses(path, {"spec": {"schedulingGates": []}})


def test_a_pod_that_an_elastic_owner_has_left_waits_by_itself_and_is_released(
    guarded: Guarded,
) -> None:
    path = guarded.pod(guarded.team, gates=(names.ELASTIC_JOB_GATE, FOREIGN_GATE))
    guarded.send(path, pod_owner.queue_singly(guarded.view(path), "default", {}, {}))
    guarded.send(path, pod_owner.release(guarded.view(path), GIVEN))
    spec = guarded.view(path).spec
    assert [one.name for one in spec.scheduling_gates or ()] == [FOREIGN_GATE]
    assert spec.node_selector == GIVEN.node_selector


def test_a_running_pod_is_not_changed(guarded: Guarded) -> None:
    toleration = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
    for body in (
        {"spec": {"tolerations": [toleration]}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        path = guarded.pod(guarded.team)
        assert "only while the gate" in guarded.refuses(path, body)


@pytest.mark.parametrize("namespace", ["kube-system", SYSTEM, DRIVERS])
def test_pods_of_excluded_namespaces_are_not_touched(guarded: Guarded, namespace: str) -> None:
    path = guarded.pod(namespace)
    condition = {"type": conditions.POD_ADMITTED, "status": "False"}
    for at, body in (
        (path, {"spec": {"containers": IMAGE}}),
        (path, {"metadata": {"labels": {"a": "b"}}}),
        (f"{path}/status", {"status": {"conditions": [condition]}}),
    ):
        assert "excluded namespace" in guarded.refuses(at, body)
    assert "excluded namespace" in guarded.refuses_deletion(path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"status": {"phase": "Succeeded"}}, "nothing else of it"),
        ({"status": {"podIP": "10.0.0.1"}}, "nothing else of it"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "nothing else of it"),
        ({"metadata": {"labels": {"a": "b"}}}, "no metadata"),
    ],
    ids=["phase", "address", "condition of others", "labels"],
)
def test_a_pods_status_keeps_what_the_kubelet_says(
    guarded: Guarded, body: Any, message: str
) -> None:
    assert message in guarded.refuses(f"{guarded.gated()}/status", body)


def test_conditions_of_others_are_not_removed(guarded: Guarded) -> None:
    path = guarded.gated()
    condition = {"type": "example.com/Any", "status": "True"}
    guarded.admin.patch(f"{path}/status", {"status": {"conditions": [condition]}})
    assert "nothing else" in guarded.refuses(f"{path}/status", {"status": {"conditions": []}})


def test_pods_of_others_with_very_many_labels_are_not_deleted(guarded: Guarded) -> None:
    path = guarded.pod(guarded.team, managed=False, labels=MANY)
    assert names.KUEUE_GROUP in guarded.refuses_deletion(path)


def test_pods_of_others_are_not_deleted(guarded: Guarded) -> None:
    path = guarded.pod(guarded.team, managed=False)
    assert names.KUEUE_GROUP in guarded.refuses_deletion(path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            {"spec": {"template": {"spec": {"containers": LARGER}}}},
            "nothing else of its spec",
            marks=features.needs_resizable_jobs,
        ),
        ({"spec": {"activeDeadlineSeconds": 5}}, "nothing else of its spec"),
        ({"spec": {"backoffLimit": 0}}, "nothing else of its spec"),
        ({"spec": {"template": {"spec": {"affinity": REQUIRED}}}}, "not which they require"),
        ({"metadata": {"finalizers": ["example.com/hold"]}}, "no other metadata"),
        ({"metadata": {"labels": {"project": None}}}, "labels of others"),
    ],
    ids=["resources", "deadline", "backoff", "affinity", "finalizer", "label"],
)
def test_a_job_keeps_what_is_not_the_controllers(
    guarded: Guarded, body: Any, message: str
) -> None:
    path = guarded.job(project="a")
    assert message in guarded.refuses(path, body)


@pytest.mark.parametrize("namespace", ["kube-system", SYSTEM, DRIVERS])
def test_jobs_of_excluded_namespaces_are_not_touched(guarded: Guarded, namespace: str) -> None:
    path = guarded.job(namespace)
    assert "excluded namespace" in guarded.refuses(path, {"spec": {"suspend": False}})
    assert "excluded namespace" in guarded.refuses(
        f"{path}/status", {"metadata": {"labels": {"a": "b"}}}
    )
    assert "excluded namespace" in guarded.refuses_deletion(path)


def test_a_jobs_status_keeps_its_counts_and_its_end(guarded: Guarded) -> None:
    path = guarded.job()
    for body in (
        {"status": {"active": 3}},
        {"status": {"startTime": "2026-03-01T12:00:00Z"}},
        {"metadata": {"labels": {"a": "b"}}},
    ):
        assert "the controller may" in guarded.refuses(f"{path}/status", body)


def test_jobs_without_a_queue_are_not_deleted(guarded: Guarded) -> None:
    assert names.QUEUE_LABEL in guarded.refuses_deletion(guarded.job(team="a"))


def test_of_a_namespace_only_one_label_is_changed(guarded: Guarded) -> None:
    path = f"/api/v1/namespaces/{guarded.team}"
    enforced = {"pod-security.kubernetes.io/enforce": "privileged"}
    for metadata in (
        {"labels": enforced},
        {"labels": {names.BYPASS_LABEL: "warn"}},
        {"labels": {names.HAS_QUEUE_LABEL: "true", names.ENFORCE_LABEL: "false"}},
        {"annotations": {names.HAS_QUEUE_LABEL: "true"}},
        {"finalizers": ["example.com/a"]},
    ):
        said = guarded.refuses(path, {"metadata": metadata})
        assert f"may change the label {names.HAS_QUEUE_LABEL} of a namespace" in said
    for value in ("true", None):
        marked = {"metadata": {"labels": {names.HAS_QUEUE_LABEL: value}}}
        found = guarded.account.patch(path, marked)["metadata"]["labels"]
        assert found.get(names.HAS_QUEUE_LABEL) == value


def test_of_config_maps_only_usage_records_are_written(guarded: Guarded) -> None:
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps"
    configuration = {"metadata": {"name": manifests.CONFIG_MAP}, "data": {"config.yaml": ""}}
    record = usage_record.document(Record(begin=0, until=9), Period.HOUR, SYSTEM)
    made = guarded.admin.post(path, configuration)
    own = f"{path}/{manifests.CONFIG_MAP}"
    waiting.until(
        partial(_is_refused, guarded.account, "DELETE", own, None), what=f"{own} protected"
    )
    for method, at, body in (
        ("PUT", own, made),
        ("DELETE", own, None),
        ("POST", path, {"metadata": {"name": "other"}}),
    ):
        with pytest.raises(RestError) as refused:
            guarded.account.text(method, at, body)
        assert "may write usage records" in str(refused.value.body)
    name = record["metadata"]["name"]
    guarded.account.text("PUT", f"{path}/{name}", guarded.account.post(path, record))
    guarded.account.delete(f"{path}/{name}")


def test_nobody_elses_writes_are_limited(guarded: Guarded) -> None:
    for path in (guarded.pod("kube-system"), guarded.gated()):
        patch = [{"op": "replace", "path": "/spec/containers/0/image", "value": "newer"}]
        changed = guarded.admin.patch(path, patch, JSON_PATCH)
        assert changed["spec"]["containers"][0]["image"] == "newer"
        guarded.admin.delete(path, {"gracePeriodSeconds": 0})


# ------------------------------------------------------------------------------- certificates

HOOKS = "/apis/admissionregistration.k8s.io/v1"
NEW_BUNDLE = base64.b64encode(rotation.renew(
    rotation.Holding(), ("localhost",), NOW, rotation.Lifetimes()
).bundle()).decode()  # fmt: skip


@pytest.fixture(scope="module")
def leading(guarded: Guarded) -> dict[str, str]:
    """Objects with a caBundle, as an installation in the cluster has them; their paths."""
    place = {**manifests.service_reference(SETTINGS), "caBundle": NEW_BUNDLE}
    documents = [
        *manifests.webhook_configurations(place, SETTINGS),
        *crds.documents(manifests.conversion(place)),
        *visibility_manifests.api_services(SYSTEM, 443, b"PEM"),
    ]
    listed = {}
    for document in documents:
        resource, name, _ = apply.locate(document)
        if name in cabundles.NAMES.get(resource, ()):
            # Nothing answers as our webhook here, so the configurations are not to be asked.
            for webhook in document.get("webhooks", ()):
                webhook["rules"] = []
            guarded.admin.post(resource.path(), document)
            listed[name] = resource.path(name=name)
    assert listed.keys() == {name for names_ in cabundles.NAMES.values() for name in names_}
    change = {"metadata": {"labels": {"a": "b"}}}
    for path in listed.values():
        waiting.until(
            partial(_is_refused, guarded.account, "PATCH", path, change), what=f"{path} guarded"
        )
    return listed


def test_the_controller_writes_each_ca_bundle(guarded: Guarded, leading: dict[str, str]) -> None:
    with closing(guarded.account_target().connect(connections=1, timeout_seconds=30)) as api:
        found = list(cabundles.trusting(api))
        assert {one.name for one in found} == leading.keys()
        for one in found:
            changes = [
                {"op": "add", "path": pointer, "value": NEW_BUNDLE} for pointer in one.bundles
            ]
            api.patch(one.resource, one.name, patches.json_patch(changes))
        written = {bundle for one in cabundles.trusting(api) for bundle in one.bundles.values()}
    assert written == {base64.b64decode(NEW_BUNDLE)}


def changes_of(document: Any) -> Iterator[tuple[str, Any]]:
    """JSON pointers into an object, and values that nobody but an administrator may give them."""
    yield "/metadata/annotations", {"a": "b"}
    if "webhooks" in document:
        yield "/webhooks/0/failurePolicy", "Ignore"
        yield "/webhooks/0/clientConfig/service/name", "elsewhere"
        yield (
            "/webhooks/0/rules",
            [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}],
        )
        yield "/webhooks", []
        yield "/webhooks", document["webhooks"][:1]
        yield "/webhooks/-", {**document["webhooks"][0], "name": "more.example.com"}
    elif document["kind"] == "CustomResourceDefinition":
        yield "/spec/conversion/webhook/clientConfig/service/name", "elsewhere"
        yield "/spec/conversion", {"strategy": "None"}
        yield "/spec/names/categories", ["all"]
        yield "/spec/versions/1/served", False
    else:
        yield "/spec/service/name", "elsewhere"
        yield "/spec/groupPriorityMinimum", 1


def test_the_controller_changes_nothing_else_of_what_leads_to_us(
    guarded: Guarded, leading: dict[str, str]
) -> None:
    tried = 0
    for path in leading.values():
        for pointer, value in changes_of(guarded.admin.get(path)):
            patch = [{"op": "add", "path": pointer, "value": value}]
            said = guarded.refuses(path, patch, JSON_PATCH)
            assert "the controller may change" in said, (path, pointer, said)
            tried += 1
    assert tried > 25


def test_other_objects_with_a_ca_bundle_are_out_of_reach(guarded: Guarded) -> None:
    for path in (
        f"{HOOKS}/mutatingwebhookconfigurations/other",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/other.example.com",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
        f"/api/v1/namespaces/{SYSTEM}/secrets/other",
    ):
        assert "cannot patch resource" in guarded.refuses(path, {"metadata": {}})
