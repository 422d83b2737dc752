"""Roles of people on a real API server: an administrator, a team's user and others.

The controller-manager fills the aggregated roles, Kubernetes' own ones among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from typing_extensions import override

from admission.admin import rbac
from admission.base import names
from admission.kube import resources
from admission.objects import crds
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Rest, RestError

pytestmark = pytest.mark.controlplane

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
VISIBILITY = f"/apis/{names.VISIBILITY_GROUP}/v1beta2"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
TEAM, OTHER = "team", "other"
DRY = "?dryRun=All"

# User: role, and the namespace in which it is bound; everywhere when empty.
USERS = {
    "batch-admin": ("gpu-admission-batch-admin-role", ""),
    "batch-user": ("gpu-admission-batch-user-role", TEAM),
    "admin": ("admin", TEAM),
    "edit": ("edit", TEAM),
    "view": ("view", TEAM),
    "view-all": ("view", ""),
    "queue-viewer": ("gpu-admission-clusterqueue-viewer-role", ""),
    "nobody": None,
}


@dataclass(frozen=True)
class Deed:
    """One request, and which of the users may do it; all others may not."""

    method: str
    path: str
    users: frozenset[str]
    body: Any = None

    @override
    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def deed(method: str, path: str, *users: str, body: Any = None) -> Deed:
    return Deed(method, path, frozenset(users), body)


LOCAL = f"{KUEUE}/namespaces/{TEAM}/localqueues"
ELSEWHERE = f"{KUEUE}/namespaces/{OTHER}/localqueues"
WORKLOADS = f"{KUEUE}/namespaces/{TEAM}/workloads"
JOBS = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
IN_TEAM = ("batch-admin", "batch-user", "admin", "edit", "view", "view-all")
LABELS = {"metadata": {"labels": {"a": "b"}}}
NAMED: dict[str, Any] = {"metadata": {"name": "new"}}
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train"}]}
JOB = NAMED | {"spec": {"template": {"spec": POD}}}

DEEDS = [
    # What belongs to the cluster.
    deed("POST", f"{KUEUE}/clusterqueues{DRY}", "batch-admin", body=NAMED),
    deed("PATCH", f"{KUEUE}/clusterqueues/gpus{DRY}", "batch-admin", body=LABELS),
    deed("DELETE", f"{KUEUE}/clusterqueues/gpus{DRY}", "batch-admin"),
    deed("GET", f"{KUEUE}/clusterqueues", "batch-admin", "queue-viewer"),
    deed("GET", f"{KUEUE}/clusterqueues/gpus/status", "batch-admin", "queue-viewer"),
    deed("PATCH", f"{KUEUE}/clusterqueues/gpus/status{DRY}", body={"status": {}}),
    deed("POST", f"{KUEUE}/resourceflavors{DRY}", "batch-admin", body=NAMED),
    deed("PATCH", f"{KUEUE}/resourceflavors/a100{DRY}", "batch-admin", body=LABELS),
    deed("GET", f"{KUEUE}/resourceflavors", "batch-admin"),
    deed("POST", f"{KUEUE}/cohorts{DRY}", "batch-admin", body=NAMED),
    deed("GET", f"{KUEUE}/cohorts", "batch-admin"),
    deed("POST", f"{KUEUE}/topologies{DRY}", "batch-admin",
         body=NAMED | {"spec": {"levels": [{"nodeLabel": "rack"}]}}),
    deed("GET", f"{KUEUE}/topologies", "batch-admin"),
    deed("GET", f"{KUEUE}/admissionchecks"),
    deed("GET", f"{KUEUE}/workloadpriorityclasses", "batch-admin", "view-all"),
    deed("GET", f"{KUEUE}/workloads", "batch-admin", "view-all"),
    # What belongs to a team.
    deed("POST", f"{LOCAL}{DRY}", "batch-admin", body=NAMED | {"spec": {"clusterQueue": "gpus"}}),
    deed("PATCH", f"{LOCAL}/default{DRY}", "batch-admin", body=LABELS),
    deed("DELETE", f"{LOCAL}/default{DRY}", "batch-admin"),
    deed("GET", LOCAL, *IN_TEAM),
    deed("GET", f"{LOCAL}/default/status", *IN_TEAM),
    deed("GET", ELSEWHERE, "batch-admin", "view-all"),
    deed("GET", WORKLOADS, *IN_TEAM),
    deed("GET", f"{WORKLOADS}/train/status", *IN_TEAM),
    deed("PATCH", f"{WORKLOADS}/train{DRY}", "batch-admin", body={"spec": {"active": False}}),
    deed("DELETE", f"{WORKLOADS}/train{DRY}", "batch-admin"),
    deed("PATCH", f"{WORKLOADS}/train/status{DRY}", body={"status": {}}),
    # Who was preempted too often (ADR 0011).
    deed("PATCH", f"{WORKLOADS}/train{DRY}", "batch-admin",
         body={"metadata": {"annotations": {names.PREEMPTED_BY: None}}}),
    deed("PATCH", f"{WORKLOADS}/train/status{DRY}", body={"status": {"schedulingStats": None}}),
    deed("POST", f"{JOBS}{DRY}", "batch-admin", "batch-user", "admin", "edit", body=JOB),
    deed("GET", JOBS, *IN_TEAM),
    # Who waits.
    deed("GET", f"{VISIBILITY}/clusterqueues/gpus/pendingworkloads", "batch-admin", "view-all"),
    deed("GET", f"{VISIBILITY}/namespaces/{TEAM}/localqueues/default/pendingworkloads", *IN_TEAM),
    deed("GET", f"{VISIBILITY}/namespaces/{OTHER}/localqueues/default/pendingworkloads",
         "batch-admin", "view-all"),
    # Who used how much.
    deed("GET", f"{VISIBILITY}/namespaces/{TEAM}/gpuusagerecords", *IN_TEAM),
    deed("GET", f"{VISIBILITY}/namespaces/{OTHER}/gpuusagerecords", "batch-admin", "view-all"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start() as started:
        started.start_whole()
        for document in (*crds.documents(), *rbac.documents()):
            create(started.api, document)
        for document in crds.documents():
            waiting.until(partial(served, started.api, document), what="kinds that are served")
        for name in (TEAM, OTHER):
            started.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        add_objects(started.api)
        for user, bound in USERS.items():
            if bound is not None:
                bind(started.api, user, *bound)
        waiting.until(lambda: is_aggregated(started.api), what="aggregated roles")
        started.wait_for_roles()
        yield started


def create(api: Rest, document: dict[str, Any]) -> None:
    resource = resources.of_kind(document["apiVersion"], document["kind"])
    assert resource is not None
    namespace = document["metadata"].get("namespace", "")
    if resource is resources.SERVICE_ACCOUNTS or namespace == names.SYSTEM_NAMESPACE:
        return
    api.post(resource.path(namespace), document)


def served(api: Rest, crd: dict[str, Any]) -> bool:
    spec = crd["spec"]
    return all(
        api.answers(f"/apis/{spec['group']}/{one['name']}/{spec['names']['plural']}")
        for one in spec["versions"]
        if one["served"]
    )


def add_objects(api: Rest) -> None:
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": POD}}]
    for path, fields in (
        (f"{KUEUE}/clusterqueues", {"metadata": {"name": "gpus"}}),
        (f"{KUEUE}/resourceflavors", {"metadata": {"name": "a100"}}),
        (LOCAL, {"metadata": {"name": "default"}, "spec": {"clusterQueue": "gpus"}}),
        (ELSEWHERE, {"metadata": {"name": "default"}, "spec": {"clusterQueue": "gpus"}}),
        (WORKLOADS, {"metadata": {"name": "train"}, "spec": {"podSets": pod_sets}}),
    ):
        api.post(path, whole(path, fields))


def bind(api: Rest, user: str, role: str, namespace: str) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    scope = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
    binding = {
        "metadata": {"name": f"test-{user}"},
        "roleRef": reference,
        "subjects": [{"kind": "User", "name": user}],
    }
    api.post(f"{ROLES}/{scope}", binding)


def is_aggregated(api: Rest) -> bool:
    """Whether the controller-manager has put into each role the rules of all that it selects."""
    roles = api.get(f"{ROLES}/clusterroles")["items"]
    return all(
        rule in (role.get("rules") or ())
        for role in roles
        for selector in role.get("aggregationRule", {}).get("clusterRoleSelectors", ())
        for part in roles
        if selector["matchLabels"].items() <= part["metadata"].get("labels", {}).items()
        for rule in part.get("rules") or ()
    )


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("wanted", DEEDS, ids=str)
def test_a_user_may_do_what_the_role_says_and_nothing_else(
    clients: dict[str, Rest], wanted: Deed, user: str
) -> None:
    assert may(clients[user], wanted) is (user in wanted.users)


def may(client: Rest, wanted: Deed) -> bool:
    """Whether a request is let through; what it comes to is not the roles' affair."""
    is_patch = wanted.method == "PATCH"
    kind = "application/merge-patch+json" if is_patch else "application/json"
    body = wanted.body
    if wanted.method == "POST":
        body = whole(wanted.path, body)
    try:
        client.text(wanted.method, wanted.path, body, kind)
    except RestError as error:
        status = error.status
    else:
        status = 200
    # No APIService is installed here: who may read the lists finds nothing there.
    assert status in {403, 404 if VISIBILITY in wanted.path else 200}
    return status != 403


def whole(path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """An object with its kind, as the path of its collection says."""
    collection = path.partition("?")[0]
    plural = collection.rpartition("/")[2]
    known = [one for one in (*resources.BUILT_IN, *resources.CUSTOM) if one.plural == plural]
    version = "/".join(collection.split("/")[2:4])
    return {"apiVersion": version, "kind": known[0].kind, **fields}


@pytest.fixture(scope="module")
def clients(cluster: Cluster) -> dict[str, Rest]:
    return {user: cluster.client(cluster.kubeconfig(user)) for user in USERS}


def test_the_table_says_something_about_every_user() -> None:
    allowed = set().union(*(one.users for one in DEEDS))
    assert allowed == USERS.keys() - {"nobody"}
