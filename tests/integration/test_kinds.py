"""Every rule of Kueue's kinds as a client of a real API server meets it: status, path, message.

The cases are those of the unit tests. What the schema refuses is a 422 and never reaches the
webhook; what the webhook refuses is a 403 in its words.
"""

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.refusals import field_errors, words
from tests.controlplane.rest import Json, RestError
from tests.integration import snapshot
from tests.integration.installed import Installed
from tests.integration.reviewed import KINDS, Reviewed, collection, unreviewed
from tests.objects import mark_cases, queue_cases, workload_cases
from tests.objects.case import Case, Document, identified, pod_set, workload

pytestmark = pytest.mark.controlplane

ALL = queue_cases.CASES + workload_cases.CASES + mark_cases.MARKS
CASES = [case for case in ALL if not case.is_legacy]
LEGACY = {f"legacy-{number}": case for number, case in enumerate(ALL) if case.is_legacy}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    with snapshot.reviewed(tmp_path_factory.mktemp("reviewed")) as it:
        yield it


def denial(kind: str, text: str) -> str:
    return f'admission webhook "v{kind.lower()}.kb.io" denied the request: {text}'


def attempt(system: Reviewed, case: Case) -> None:
    """Does what the case says.

    Raises:
        RestError: it was refused.
    """
    if case.old is None:
        path = f"{collection(case.kind)}?dryRun=All"
        system.api.post(path, identified(case.kind, case.new))
        return
    store(system, case, case.old)
    change(system, case)


def store(system: Reviewed, case: Case, old: Document, name: str = "x") -> None:
    """Makes the object as it is before the change."""
    document = {**old, "metadata": {"name": name, **old.get("metadata", {})}}
    system.api.post(collection(case.kind), identified(case.kind, document))
    if old.get("status"):
        path = f"{collection(case.kind)}/{name}/status"
        system.api.patch(path, {"status": old["status"]})


def change(system: Reviewed, case: Case, name: str = "x") -> None:
    """Changes the object as the case says, and removes it."""
    path = f"{collection(case.kind)}/{name}"
    try:
        stored = system.api.get(path)
        part = "/status" if case.is_status else ""
        system.api.text("PUT", f"{path}{part}", changed(stored, case.new))
    finally:
        remove(system, case.kind, name)


def changed(stored: Json, new: Document) -> Json:
    kept = {key: stored[key] for key in ("apiVersion", "kind")}
    metadata = {**stored["metadata"], "annotations": {}, **new.get("metadata", {})}
    return {**kept, **copy.deepcopy(new), "metadata": metadata}


def remove(system: Reviewed, kind: str, name: str) -> None:
    path = f"{collection(kind)}/{name}"
    system.api.patch(path, {"metadata": {"finalizers": None}})
    system.api.delete(path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_client_is_told_the_rule(system: Reviewed, case: Case) -> None:
    check_answer(case, partial(attempt, system, case))


@pytest.fixture(scope="module")
def legacy(system: Reviewed) -> Reviewed:
    """The installation with objects that were stored before there were rules."""
    with unreviewed(system):
        for name, case in LEGACY.items():
            assert case.old is not None
            store(system, case, case.old, name)
    return system


@pytest.mark.parametrize("name", LEGACY, ids=[str(case) for case in LEGACY.values()])
def test_what_was_stored_before_the_rule_is_judged_as_the_rule_says(
    legacy: Reviewed, name: str
) -> None:
    case = LEGACY[name]
    check_answer(case, partial(change, legacy, case, name))


def check_answer(case: Case, attempting: Callable[[], None]) -> None:
    """Compares status, reason and message of the answer with those of the case."""
    if not case.message:
        attempting()
        return
    with pytest.raises(RestError) as caught:
        attempting()
    refused = caught.value
    if case.schema is not None:
        assert (refused.status, field_errors(refused)) == (
            422,
            {words(line) for line in case.schema},
        )
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


LEAST: dict[str, Document] = {
    "AdmissionCheck": {"spec": {"controllerName": "example.com/c"}},
    "Topology": {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}},
    "WorkloadPriorityClass": {"value": 1},
}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"ClusterQueue", "ResourceFlavor"}))
def test_other_kinds_get_no_finalizer(system: Reviewed, kind: str) -> None:
    document = identified(kind, LEAST.get(kind, {"spec": {}}))
    made = system.api.post(f"{collection(kind)}?dryRun=All", document)
    assert "finalizers" not in made["metadata"]


def test_the_smallest_number_of_pods_is_kept(system: Reviewed) -> None:
    document = identified("Workload", workload(pod_set(count=3, minCount=2)))
    made = system.api.post(f"{collection('Workload')}?dryRun=All", document)
    assert made["spec"]["podSets"][0]["minCount"] == 2


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
    cluster.wait_for_roles()
    account = cluster.account_kubeconfig(names.SYSTEM_NAMESPACE, "gpu-admission-controller")
    cluster.client(account).post(path, document)


JUDGED = ["ClusterQueue", "Cohort", "ResourceFlavor", "Workload"]


def test_while_nobody_judges_only_kinds_without_rules_are_written(system: Reviewed) -> None:
    system.stop()
    try:
        for kind in KINDS:
            document = identified(kind, LEAST.get(kind, {"spec": {}}))
            path = f"{collection(kind)}?dryRun=All"
            if kind not in JUDGED:
                system.api.post(path, document)
                continue
            with pytest.raises(RestError) as caught:
                system.api.post(path, document)
            told = json.loads(caught.value.body)
            assert (caught.value.status, told["reason"]) == (500, "InternalError")
            assert f"{kind.lower()}.kb.io" in told["message"]
    finally:
        system.start()


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
        waiting.until(partial(system.api.lacks, path), what=f"{path} gone")


def reason(queue: Json) -> str:
    conditions = queue.get("status", {}).get("conditions", [])
    return next((c["reason"] for c in conditions if c["type"] == "Active"), "")
