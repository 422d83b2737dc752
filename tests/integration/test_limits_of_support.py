"""What is not understood is refused or warned about, as a client of a real API server meets it."""

import http.client
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from admission.base import conditions, names
from admission.gpu import foreign
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor
from tests.controlplane import waiting
from tests.integration import queued, snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

K = names.KUEUE_GROUP
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUED = {names.QUEUE_LABEL: "default"}


class Answer:
    """Status, body and warnings of a request."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.body: Any = json.loads(answer.read())
        # Each reads: 299 - "text"
        self.warnings = [
            json.loads(text.partition(" - ")[2])
            for text in answer.headers.get_all("Warning") or []
        ]

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class System(Installed):
    """An installation that is asked as kubectl asks."""

    def send(self, method: str, path: str, body: Any, kind: str = "application/json") -> Answer:
        client = self.cluster.api
        connection = http.client.HTTPSConnection(
            "127.0.0.1",
            self.cluster.port,
            timeout=waiting.PATIENCE_SECONDS,
            context=client._context,
        )
        try:
            headers = {**client._headers, "Content-Type": kind}
            connection.request(method, path, json.dumps(body), headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def create(self, path: str, body: Any, *, dry: bool = True) -> Answer:
        return self.send("POST", path + ("?dryRun=All" if dry else ""), body)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with snapshot.prepared(tmp_path_factory.mktemp("limits"), System) as it:
        add_kind(it, "kubeflow.org", "mxjobs", "MXJob")
        it.start()
        await_policies(it)
        yield it


@pytest.fixture(scope="module")
def team(system: System) -> str:
    return system.add_team(quota=4)


def add_kind(system: Installed, group: str, plural: str, kind: str) -> None:
    """A kind of somebody else, of any shape."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    system.api.post(
        CRDS,
        {
            "metadata": {
                "name": f"{plural}.{group}",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": group,
                "names": {"plural": plural, "kind": kind},
                "scope": "Namespaced",
                "versions": [version],
            },
        },
    )
    path = f"/apis/{group}/v1alpha2/namespaces/default/{plural}"
    waiting.until(lambda: system.api.answers(path), what=f"{plural} served")


def await_policies(system: System) -> None:
    """Waits until policies that are older than the last one are in effect."""
    path = f"{KUEUE}/clusterqueues"
    policy = {"migration": {"mode": "RetainFirstAdmission"}}
    queue = make_cluster_queue("try", quota=1, concurrentAdmissionPolicy=policy)
    waiting.until(
        lambda: any("Without effect" in one for one in system.create(path, queue).warnings),
        what="the warning policies in effect",
    )


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


# ----------------------------------------------------------------------------- refused, or warned


def test_a_required_topology_is_refused_and_a_preferred_one_warned_about(
    system: System, team: str
) -> None:
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    elastic = {names.ELASTIC_JOB: "true"}
    required = make_job(
        labels=QUEUED, annotations=elastic, pod={"annotations": {names.REQUIRED_TOPOLOGY: "rack"}}
    )
    refused = system.create(path, required)
    assert refused.status == 403
    assert "not supported where the number of pods may change" in refused.message
    preferred = make_job(
        labels=QUEUED, annotations=elastic, pod={"annotations": {names.PREFERRED_TOPOLOGY: "rack"}}
    )
    allowed = system.create(path, preferred)
    assert allowed.status == 201
    assert [one for one in allowed.warnings if "has no effect" in one]


def test_a_pod_waits_for_a_foreign_topology_gate(system: System, team: str) -> None:
    pod = make_pod("gated", gpus=1, labels=QUEUED, gates=[names.TOPOLOGY_GATE])
    answer = system.create(pods(team), pod, dry=False)
    assert [
        one for one in answer.warnings if "waits until another controller removes its gate" in one
    ]
    waiting.until(
        lambda: any(
            condition["reason"] == "GatedByOthers" and names.TOPOLOGY_GATE in condition["message"]
            for condition in system.pod(team, "gated")["status"].get("conditions", [])
            if "message" in condition and "reason" in condition
        ),
        what="the foreign gate named",
    )
    system.delete_pod(team, "gated")


def test_fields_of_queues_and_flavors_without_effect_are_told(system: System) -> None:
    name = "sliced"
    system.create(f"{KUEUE}/resourceflavors", make_flavor(name), dry=False)
    policy = {"migration": {"mode": "RetainFirstAdmission"}}
    queue = make_cluster_queue(name, quota=1, flavors=[name], concurrentAdmissionPolicy=policy)
    warnings = system.create(f"{KUEUE}/clusterqueues", queue, dry=False).warnings
    # The webhook may not have seen the flavor yet, and then warns about that, too.
    (warning,) = [each for each in warnings if not each.startswith("It admits nothing until")]
    assert "Without effect: spec.concurrentAdmissionPolicy is not supported" in warning
    status, reason, _ = queued.await_condition(
        system,
        queued.path("clusterqueues", name),
        conditions.SPEC_SUPPORTED,
        lambda told: "concurrentAdmissionPolicy" in told[2],
    )
    assert (status, reason) == ("False", "FieldsWithoutEffect")


# ----------------------------------------------------------------------------------------- too big


def test_a_pod_that_can_never_fit_is_told_at_creation_and_on_a_dry_run(
    system: System, team: str
) -> None:
    text = (
        f"Too big: asks 64 {team}, {team} can reach 4. Ask for at most 4, or have the quota raised"
    )
    pod = make_pod("huge", gpus=64)
    assert system.create(pods(team), pod, dry=True).warnings == [text]
    assert system.create(pods(team), pod, dry=False).warnings == [text]
    system.delete_pod(team, "huge")
    assert system.create(pods(team), make_pod(gpus=4)).warnings == []


def test_a_job_whose_pods_together_can_never_fit_is_told(system: System, team: str) -> None:
    job = make_job("j", 3, gpus=2)
    (warning,) = system.create(f"/apis/batch/v1/namespaces/{team}/jobs", job).warnings
    assert warning == (
        f"Too big: asks 6 {team}, {team} can reach 4. Run at most 2 of its 3 pods of 2 at a time,"
        " or have the quota raised"
    )


def test_a_pod_that_is_larger_than_every_node_is_told_until_a_larger_node_comes(
    system: System,
) -> None:
    team = system.cluster.create_namespace("team")
    flavor = f"{KUEUE}/resourceflavors/{team}"
    system.add_flavor(team, product=team)
    system.add_cluster_queue(team, quota=16, flavors=(team,))
    system.add_local_queue(team, team)
    system.wait_for_queue(team)
    assert system.create(pods(team), make_pod(gpus=16)).warnings == []
    for name, gpus in ((f"{team}-a", 4), (f"{team}-b", 8)):
        system.cluster.add_gpu_node(name, gpus=gpus, labels={names.GPU_PRODUCT_LABEL: team})
        text = (
            f"Too big: a pod asks 16 {team}, the largest node has {gpus}. Ask for at most {gpus}"
            " in one pod"
        )
        path, told = pods(team), [text]
        waiting.until(
            partial(_warns_of, system, path, make_pod(gpus=16), told),
            what=f"the warning about {gpus} GPUs",
        )
        assert system.create(pods(team), make_pod(gpus=gpus)).warnings == []
        annotations = system.api.get(flavor)["metadata"]["annotations"]
        assert f"nvidia.com/gpu={gpus}" in annotations[names.LARGEST_NODE]


def _warns_of(system: System, path: str, pod: Any, texts: list[str]) -> bool:
    return system.create(path, pod).warnings == texts


def test_a_pod_that_selects_no_flavor_of_its_queue_is_told(system: System) -> None:
    team = system.cluster.create_namespace("team")
    system.add_flavor(team, product=team)
    system.add_cluster_queue(team, quota=16, flavors=(team,))
    system.add_local_queue(team, team)
    system.wait_for_queue(team)
    pod = make_pod(gpus=1, nodeSelector={names.GPU_PRODUCT_LABEL: "other"})
    (warning,) = system.create(pods(team), pod).warnings
    assert warning == (
        f"Matches no flavor of queue {team}: {team} is on other nodes than the pod selects. Set"
        f" {names.GPU_PRODUCT_LABEL} to {team}"
    )


def test_what_a_cohort_could_lend_counts(system: System) -> None:
    team = system.add_team(quota=1, cohortName="lending")
    system.add_cluster_queue("lender", quota=9, flavors=(team,), cohortName="lending")
    system.wait_webhook()
    assert system.create(pods(team), make_pod(gpus=10)).warnings == []
    (warning,) = system.create(pods(team), make_pod(gpus=11)).warnings
    assert f"{team} can reach 10" in warning


# -------------------------------------------------------------------------------------- equal pods


def test_each_of_several_equal_pods_says_the_numbers(system: System) -> None:
    team = system.add_team(quota=2)
    system.create_pod(team, "running", gpus=2)
    system.wait_released(team, "running")  # of pods of one second any may be first
    for name in ("a", "b", "c"):
        system.create_pod(team, name, gpus=2)
    for name in ("a", "b", "c"):
        condition = system.wait_condition(team, name, "WaitingForQuota")
        needs, _, rest = condition["message"].partition("; ")
        assert needs == f"Waits: needs 2 {team}, 0 free of 2"
        assert f"held by {team} (2)" in rest

    def told() -> list[queued.Told]:
        found = system.api.get(queued.path("workloads", ns=team))["items"]
        said = (queued.condition(one, "QuotaReserved") for one in found)
        return [one for one in said if one is not None]

    waiting.until(lambda: len(told()) == 4, what="all Workloads say it, after their pods")
    assert all(status == "True" or "2 more needed" in message for status, _, message in told())


# ------------------------------------------------------------------------------------ queue labels


def make_app(kind: str, *, labels: dict[str, str], of_pods: dict[str, str]) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "a", **of_pods}},
        "spec": {"containers": [{"name": "main", "image": "serve"}]},
    }
    more = {"serviceName": "s"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "a", "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template, **more},
    }


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_queue_label_of_a_kind_that_is_served_is_not_warned_about(
    system: System, team: str, kind: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{team}/{kind.lower()}s"
    assert system.create(path, make_app(kind, labels=QUEUED, of_pods={})).warnings == []


def test_a_queue_label_of_a_kind_that_was_installed_later_is_warned_about(
    system: System, team: str
) -> None:
    path = f"/apis/kubeflow.org/v1alpha2/namespaces/{team}/mxjobs"
    application = {
        "apiVersion": "kubeflow.org/v1alpha2", "kind": "MXJob",
        "metadata": {"name": "s", "labels": QUEUED},
    }  # fmt: skip
    (warning,) = system.create(path, application).warnings
    assert "of a MXJob is not read, so its pods do not go through queue default" in warning
    owner = {"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "u", "controller": True}
    application["metadata"]["ownerReferences"] = [owner]  # type: ignore[index]
    assert system.create(path, application).warnings == []


# --------------------------------------------------------------------------------------- GPU names


EXAMPLES = [(row, name) for row in foreign.TABLE for name in row.examples]


@pytest.mark.parametrize(("row", "name"), EXAMPLES, ids=[name for _, name in EXAMPLES])
def test_a_gpu_in_words_of_others_is_warned_about(
    system: System, team: str, row: foreign.Foreign, name: str
) -> None:
    asking: dict[str, Any] = {"annotations" if row.is_annotation else "limits": {name: "1"}}
    (warning,) = system.create(pods(team), make_pod(**asking)).warnings
    what = f"annotation {name}" if row.is_annotation else f"{name} of container main"
    assert f"Outside quota: {what} ({row.vendor}: {row.unit})" in warning
    job = make_job("j", 1, pod=asking)
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    (of_job,) = system.create(path, job).warnings
    assert f"Outside quota: {what}" in of_job


def test_a_gpu_in_words_of_others_is_counted_where_the_pod_names_a_queue(
    system: System, team: str
) -> None:
    pod = make_pod(limits={"amd.com/gpu": "1"}, labels=QUEUED)
    warnings = system.create(pods(team), pod).warnings
    assert not [one for one in warnings if "Outside quota" in one]
    assert [one for one in warnings if "has no quota for amd.com/gpu" in one]


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "cpu", "rdma/hca", "nvidia.com/hostdev"])
def test_no_other_resource_is_warned_about(system: System, name: str) -> None:
    answer = system.create(pods("default"), make_pod(limits={name: "1"}))
    assert not [one for one in answer.warnings if "Outside quota" in one]


def test_with_the_webhook_away_it_is_warned_all_the_same(system: System, team: str) -> None:
    system.stop()
    try:
        answer = system.create(pods(team), make_pod(limits={"amd.com/gpu": "1"}))
        assert answer.status == 201
        assert len(answer.warnings) == 1
    finally:
        system.start()
