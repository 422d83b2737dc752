"""The place of Kueue is taken, and given back, on a real API server; nothing of Kueue's runs.

What Kueue's real manager does meanwhile is tried by ``make interop``. Here its objects stand as it
leaves them, and the command is killed again and again.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from admission.admin import holding, kueue_move
from admission.base import names
from admission.objects import crds, views
from admission.owners import pod as pod_owner
from admission.owners.workload import PriorityClasses
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_check, make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_admission
from tests.controlplane import features, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.rest import Rest
from tests.integration.applied import condition
from tests.integration.beside_kueue import (
    CRDS,
    DEPLOYMENTS,
    INJECTED,
    NAME,
    REVIEWS,
    Kueue,
    Served,
)
from tests.integration.installed import KUEUE, run_command

pytestmark = pytest.mark.controlplane

TEAM = "research"
QUEUED = {names.QUEUE_LABEL: "default"}
PODS = f"/api/v1/namespaces/{TEAM}/pods"
PLAIN = "/api/v1/namespaces/plain/pods"
WORKLOADS = f"{KUEUE}/namespaces/{TEAM}/workloads"
PRODUCT = "nvidia.com/gpu.product"
HOLD = ("--while-webhook-down", "hold")
HOLDS = f"{REVIEWS}/mutatingadmissionpolicies/{holding.PODS_POLICY}"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Cluster.start() as cluster:
        it = Served(cluster, tmp_path_factory.mktemp("kueue"))
        yield it
        it.stop()


class Work:
    """What Kueue made of three pods and a Job in a queue for two GPUs."""

    def __init__(self, api: Rest) -> None:
        self.api = api

    def create(self) -> None:
        """One pod runs, one has ended, one waits for two GPUs; a Job waits for two."""
        held = {"finalizers": [names.RESOURCE_IN_USE]}
        self.api.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        flavor = make_flavor("a100")
        flavor["metadata"] |= held
        queue = make_cluster_queue(TEAM, quota=2, flavors=("a100",))
        queue["metadata"] |= held
        self.api.post(f"{KUEUE}/resourceflavors", flavor)
        self.api.post(f"{KUEUE}/clusterqueues", queue)
        self.api.post(
            f"{KUEUE}/namespaces/{TEAM}/localqueues", make_local_queue("default", TEAM, TEAM)
        )
        self.pod("runs", 1, "Running")
        self.pod("ended", 1, "Succeeded")
        self.pod("waits", 2, "")
        job = make_job("job", 2, labels=QUEUED, gpus=1, suspend=True)
        self.api.post(f"/apis/batch/v1/namespaces/{TEAM}/jobs", job)

    def pod(self, name: str, gpus: int, phase: str) -> None:
        """Make a pod and its Workload as Kueue leaves them."""
        labels = {**QUEUED, names.MANAGED_LABEL: names.MANAGED_VALUE}
        document = make_pod(
            name, labels=labels, gpus=gpus, gates=(names.ADMISSION_GATE,), restartPolicy="Never",
            metadata={"finalizers": [names.KUEUE_POD_FINALIZER]},
        )  # fmt: skip
        made = self.api.post(f"{PODS}", document)
        view = msgspec.convert(made, views.Pod)
        whole = msgspec.convert(made, views.PodDocument)
        workload = pod_owner.build(view, whole, PriorityClasses(workload={}, pod={}))
        workload["metadata"]["finalizers"] = [names.RESOURCE_IN_USE]
        self.api.post(WORKLOADS, workload)
        if not phase:
            return
        conditions = [
            condition(kind, "True", kind, "said by Kueue")
            for kind in ("QuotaReserved", "Admitted")
        ]
        if phase == "Succeeded":
            conditions.append(condition("Finished", "True", "Succeeded", "said by Kueue"))
        path = f"{WORKLOADS}/{workload['metadata']['name']}/status"
        status = {"conditions": conditions, "admission": make_admission(TEAM, "a100", gpus)}
        self.api.patch(path, {"status": status})
        released = {
            "metadata": {"labels": {names.PODSET_LABEL: "main"}},
            "spec": {"schedulingGates": [], "nodeSelector": {PRODUCT: "A100"}},
        }
        self.api.patch(f"{PODS}/{name}", released)
        self.say(name, phase)

    def say(self, name: str, phase: str) -> None:
        """Say in what phase a pod is, as its kubelet does."""
        self.api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})

    def uids(self) -> dict[str, str]:
        """The UIDs of all objects of the team."""
        kinds = (PODS, WORKLOADS, f"/apis/batch/v1/namespaces/{TEAM}/jobs")
        return {
            f"{path}/{one['metadata']['name']}": one["metadata"]["uid"]
            for path in kinds
            for one in self.api.get(path)["items"]
        }

    def gates(self, name: str) -> list[str]:
        """The gates of a pod."""
        found = self.api.get(f"{PODS}/{name}")["spec"].get("schedulingGates") or ()
        return [one["name"] for one in found]


@pytest.fixture(scope="module")
def world(system: Served) -> Iterator[tuple[Served, Kueue, Work]]:
    """Kueue with work in it."""
    for document in crds.documents():
        system.api.post(CRDS, document)
    for plural in ("workloads", "clusterqueues", "localqueues", "resourceflavors"):
        waiting.until(
            lambda plural=plural: system.api.answers(f"{KUEUE}/{plural}"),  # type: ignore[misc]
            what=f"{plural} served",
        )
    kueue, work = Kueue(system), Work(system.api)
    kueue.install()
    work.create()
    yield system, kueue, work
    kueue.stop()


@features.needs_mutating_policies
@pytest.mark.timeout(900)  # on a busy machine
def test_kueues_place_is_taken_and_given_back_though_the_command_is_killed_on_the_way(
    world: tuple[Served, Kueue, Work],
) -> None:
    system, kueue, work = world
    api = system.api
    configurations = kueue.configurations()
    definitions = kueue.definitions()
    before = work.uids()

    plan = system.migrate()
    assert "\nKueue's place can be taken: everything" in plan, plan
    assert "1 hold quota and keep it, 1 wait and keep their place, 1 have ended" in plan
    assert "1 wait behind the gate and go on waiting, 3 have Kueue's finalizer" in plan
    assert kueue.configurations() == configurations, "the plan changes nothing"
    assert system.holders() == ("kueue-1", "")

    for step in ("review", "stop", "lead"):
        system.migrate("--apply", *HOLD, kill_after=step)
        kueues, ours = system.holders()
        assert kueue_move.HOLDER in {kueues, ours}, "one of both never decides"
        assert "the move is not at its end" in system.refusal("--finish")
        assert api.lacks(HOLDS), "nobody would let go yet what the API server holds"
    told = system.migrate("--apply", *HOLD)
    assert "done: gpu-admission decides" in told
    assert "nothing was admitted for" in told or "lead: done before" in told

    assert not api.lacks(HOLDS)
    assert kueue.configurations() == {}
    assert api.get(f"{DEPLOYMENTS}/{NAME}")["spec"]["replicas"] == 0
    kueues, ours = system.holders()
    assert kueues == kueue_move.HOLDER
    assert ours not in {"", kueue_move.HOLDER}
    converted = api.get(f"{CRDS}/workloads.kueue.x-k8s.io")
    assert converted["spec"]["conversion"]["webhook"]["clientConfig"]["url"] == (
        f"{system.webhook_url}/convert"
    )
    assert INJECTED not in converted["metadata"].get("annotations", {})
    assert api.answers(f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{TEAM}/workloads")
    for path in before:
        kept = api.get(path)["metadata"].get("finalizers", [])
        assert names.KUEUE_POD_FINALIZER not in kept, path

    # What ran holds one of two GPUs: nobody else may have two before it ends.
    assert work.gates("waits") == [names.ADMISSION_GATE]
    work.say("runs", "Succeeded")
    waiting.until(lambda: not work.gates("waits"), what="the pod that waited is released")
    after = work.uids()
    assert {key: after.get(key) for key in before} == before, "the same objects, all of them"

    # Kueue may be wanted back because nothing of ours works.
    system.stop()
    api.post("/api/v1/namespaces", {"metadata": {"name": "plain"}})
    waiting.until(
        lambda: api.post(f"{PLAIN}?dryRun=All", make_pod(gpus=1))["spec"].get("schedulingGates"),
        what="the API server holds pods",
    )
    for path in (PLAIN, PODS):
        api.post(path, make_pod("unreviewed", gpus=1))

    system.migrate("--undo", kill_after="hold")
    assert "the way back was begun" in system.refusal("--finish")
    assert "the way back was begun" in system.refusal("--apply")
    system.migrate("--undo", kill_after="start")
    back = system.migrate("--undo")
    assert "done: Kueue decides again" in back
    assert api.lacks(HOLDS)
    assert not api.get(f"{PLAIN}/unreviewed")["spec"].get("schedulingGates"), "Kueue never would"
    queued = api.get(f"{PODS}/unreviewed")
    assert queued["metadata"]["labels"].items() >= {**QUEUED, names.MANAGED_LABEL: "true"}.items()
    assert work.gates("unreviewed") == [names.ADMISSION_GATE]
    assert "there is nothing to finish" in system.refusal("--finish")
    assert "there is nothing to undo" in system.refusal("--undo")
    assert kueue.configurations() == configurations
    assert kueue.definitions() == definitions
    assert api.get(f"{DEPLOYMENTS}/{NAME}")["spec"]["replicas"] == 2
    assert system.holders()[0] == ""
    ours_left = [
        one["metadata"]["name"]
        for kind in ("mutating", "validating")
        for one in api.get(f"{REVIEWS}/{kind}webhookconfigurations")["items"]
    ]
    assert all(name.startswith("kueue-") for name in ours_left), ours_left


def test_our_namespace_is_never_the_one_of_kueue(
    world: tuple[Served, Kueue, Work], tmp_path: Path
) -> None:
    system, _, _ = world
    file = tmp_path / "kueue.yaml"
    file.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nnamespace: kueue-system\n"
    )
    done = run_command(
        "migrate", "kueue", "--apply", "--kubeconfig", system.kubeconfig, "--config", str(file)
    )
    assert done.returncode == 1
    assert "namespace: kueue-system is where Kueue is" in done.stderr


def test_what_would_have_no_effect_is_named_and_not_done(
    world: tuple[Served, Kueue, Work],
) -> None:
    system, _, _ = world
    api = system.api
    api.post(
        f"{KUEUE}/admissionchecks",
        make_check("remote", controller=names.MULTI_KUEUE),
    )
    api.post(
        f"{KUEUE}/clusterqueues",
        make_cluster_queue(
            "far",
            flavors=("a100",),
            admissionChecksStrategy={"admissionChecks": [{"name": "remote"}]},
        ),
    )
    told = system.migrate()
    assert "\nKueue's place can be taken, but 1 thing will have no effect here:" in told
    assert "ClusterQueue far: asks for the AdmissionCheck remote of MultiKueue" in told
    assert "--accept-unsupported" in system.refusal("--apply")
    assert json.loads(run_command(*system.command("-o", "json")[len(PROGRAM) :]).stdout)["found"][
        "unsupported"
    ]
