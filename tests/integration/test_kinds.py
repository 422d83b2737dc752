"""Every rule of Kueue's kinds as a client of a real API server meets it: status, path, message.

The cases are those of the unit tests. What the schema refuses is a 422 and never reaches the
webhook; what the webhook refuses is a 403 in its words.
"""

import copy
import json
from collections.abc import Iterator
from functools import partial

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, RestError
from tests.integration.installed import Installed
from tests.integration.reviewed import Reviewed, collection, reviewed
from tests.policy.kinds import mark_cases, queue_cases, workload_cases
from tests.policy.kinds.case import Case, Document, identified, workload

pytestmark = pytest.mark.controlplane

ALL = queue_cases.CASES + workload_cases.CASES + mark_cases.MARKS
CASES = [case for case in ALL if case.reaches]
NOT_CHECKED = "some validation rules were not checked because the object was invalid"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    with (
        Cluster.start() as cluster,
        reviewed(cluster, tmp_path_factory.mktemp("reviewed")) as it,
    ):
        yield it


def denial(kind: str, text: str) -> str:
    return f'admission webhook "v{kind.lower()}.kb.io" denied the request: {text}'


def attempt(system: Reviewed, case: Case) -> None:
    """Does what the case says.

    Raises:
        RestError: it was refused.
    """
    api, path = system.api, f"{collection(case.kind)}/x"
    if case.old is None:
        api.post(f"{collection(case.kind)}?dryRun=All", identified(case.kind, case.new))
        return
    api.post(collection(case.kind), identified(case.kind, case.old))
    try:
        if case.old.get("status"):
            api.patch(f"{path}/status", {"status": case.old["status"]})
        stored = api.get(path)
        api.text("PUT", f"{path}{'/status' if case.is_status else ''}", changed(stored, case.new))
    finally:
        remove(system, case.kind)


def changed(stored: Json, new: Document) -> Json:
    kept = {key: stored[key] for key in ("apiVersion", "kind")}
    metadata = {**stored["metadata"], "annotations": {}, **new.get("metadata", {})}
    return {**kept, **copy.deepcopy(new), "metadata": metadata}


def remove(system: Reviewed, kind: str) -> None:
    path = f"{collection(kind)}/x"
    system.api.patch(path, {"metadata": {"finalizers": None}})
    system.api.delete(path)


def causes(refused: RestError) -> set[str]:
    details = json.loads(refused.body)["details"]
    lines = {f"{cause['field']}: {cause['message']}" for cause in details["causes"]}
    return {line for line in lines if NOT_CHECKED not in line}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_client_is_told_the_rule(system: Reviewed, case: Case) -> None:
    if not case.message:
        attempt(system, case)
        return
    with pytest.raises(RestError) as caught:
        attempt(system, case)
    refused = caught.value
    if case.schema is not None:
        assert (refused.status, causes(refused)) == (422, set(case.schema))
        return
    told = json.loads(refused.body)
    want = (403, "Forbidden", denial(case.kind, case.message))
    assert (refused.status, told["reason"], told["message"]) == want


@pytest.mark.parametrize("kind", ["ClusterQueue", "ResourceFlavor"])
def test_a_new_object_gets_the_finalizer(system: Reviewed, kind: str) -> None:
    made = system.api.post(f"{collection(kind)}?dryRun=All", identified(kind, {"spec": {}}))
    assert made["metadata"]["finalizers"] == [names.RESOURCE_IN_USE]


@pytest.mark.parametrize("kind", ["ClusterQueue", "ResourceFlavor"])
def test_finalizers_that_stand_there_are_kept(system: Reviewed, kind: str) -> None:
    for given in (["example.com/a"], [names.RESOURCE_IN_USE]):
        document = identified(kind, {"metadata": {"finalizers": given}, "spec": {}})
        made = system.api.post(f"{collection(kind)}?dryRun=All", document)
        want = list(dict.fromkeys([*given, names.RESOURCE_IN_USE]))
        assert made["metadata"]["finalizers"] == want


@pytest.mark.parametrize("kind", ["Cohort", "Workload"])
def test_other_kinds_get_no_finalizer(system: Reviewed, kind: str) -> None:
    made = system.api.post(f"{collection(kind)}?dryRun=All", identified(kind, {"spec": {}}))
    assert "finalizers" not in made["metadata"]


def test_what_the_schema_refuses_is_told_by_the_schema_though_the_webhook_sees_it_first(
    system: Reviewed,
) -> None:
    document = identified("ClusterQueue", {"spec": {"queueingStrategy": 5}})
    with pytest.raises(RestError) as caught:
        system.api.post(collection("ClusterQueue"), document)
    assert caught.value.status == 422


def test_the_controllers_account_writes_workloads_without_a_review(system: Reviewed) -> None:
    document = identified("Workload", workload(annotations={workload_cases.GATED: "acme"}))
    path = f"{collection('Workload')}?dryRun=All"
    with pytest.raises(RestError):
        system.api.post(path, document)
    cluster = system.cluster
    account = cluster.account_kubeconfig(names.SYSTEM_NAMESPACE, "gpu-admission-controller")
    cluster.client(account).post(path, document)


def test_what_is_in_use_is_held_and_then_let_go(system: Reviewed) -> None:
    """The last test: the controller runs, too, from here on."""
    system.stop()
    Installed.start(system)
    team = system.add_team(quota=4)
    flavor, queue = (
        f"{collection('ResourceFlavor')}/{team}",
        f"{collection('ClusterQueue')}/{team}",
    )
    system.create_pod(team, "runs")
    system.wait_released(team, "runs")

    for path in (flavor, queue):
        assert system.api.delete(path)["metadata"]["deletionTimestamp"]
    waiting.until(lambda: reason(system.api.get(queue)) == "Terminating", what="queue terminating")
    system.create_pod(team, "late")
    assert system.wait_condition(team, "late")["status"] == "False"
    assert system.is_gated(team, "late")
    assert system.api.answers(flavor)

    system.delete_pod(team, "runs")
    for path in (queue, flavor):
        waiting.until(partial(is_gone, system, path), what=f"{path} gone")


def is_gone(system: Reviewed, path: str) -> bool:
    return not system.api.answers(path)


def reason(queue: Json) -> str:
    conditions = queue.get("status", {}).get("conditions", [])
    return next((c["reason"] for c in conditions if c["type"] == "Active"), "")
