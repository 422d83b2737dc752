"""``kubectl gpu why``: where a pod stands, for people and for programs, and what it exits with."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from admission.answers import why
from admission.base import causes, conditions, names, patches
from admission.base.names import FlavorName, PodSetName
from admission.cli.kubectl import main
from admission.kube import resources
from admission.objects import crds
from admission.reasons import kueue, sentences
from admission.sandbox.store import Store
from tests.answers.rights import OfTeam
from tests.builders.cluster import make_namespace, make_node
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_workload
from tests.cli.served import KUBECONFIG, Served, served

TIME = "2026-01-02T03:04:05Z"
AGE, AGED = "AGE", re.compile(r"(?<=for )\d+d$", re.MULTILINE)
RESERVED = "Quota reserved in ClusterQueue cq"


class World(Served):
    """A store with a queue in the namespace ``team``."""

    command: ClassVar[tuple[str, ...]] = ("why",)

    def add_pod(self, name: str, *conditions: dict[str, str], **metadata: Any) -> str:
        """Its uid."""
        pod = make_pod(name, namespace="team", metadata=metadata)
        made = self.store.create(resources.PODS, pod)
        if conditions:
            status = {**made, "status": {"conditions": list(conditions)}}
            self.store.replace(resources.PODS, status, subresource="status")
        uid: str = made["metadata"]["uid"]
        return uid

    def add_workload(
        self, name: str, uid: str, *conditions: dict[str, str], **status: Any
    ) -> None:
        metadata = {"labels": {names.JOB_UID_LABEL: uid}}
        workload = make_workload(name, namespace="team", queue="lq", metadata=metadata)
        made = self.store.create(resources.WORKLOADS, workload)
        document = {**made, "status": {"conditions": list(conditions), **status}}
        self.store.replace(resources.WORKLOADS, document, subresource="status")


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return crds.documents()


@pytest.fixture
def world(tmp_path: Path, documents: list[dict[str, Any]]) -> Iterator[World]:
    store = Store(crds=documents)
    store.create(resources.NAMESPACES, make_namespace("team"))
    store.create(resources.LOCAL_QUEUES, make_local_queue("lq", "cq", "team"))
    with served(store, resources.BUILT_IN + resources.CUSTOM, tmp_path) as kubeconfig:
        yield World(store, kubeconfig)


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": TIME,
    }  # fmt: skip


ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "flavors": {"nvidia.com/gpu": "a100"}}],
}
ADMITTED = condition("Admitted", "True", "Admitted", "The workload is admitted")
HOLDS = condition("QuotaReserved", "True", "QuotaReserved", RESERVED)
SUBJECT = {"kind": "Pod", "namespace": "team", "name": "p"}
OURS = {names.MANAGED_LABEL: "true", names.QUEUE_LABEL: "lq"}


def test_a_waiting_pod_is_told_what_its_own_condition_says(world: World) -> None:
    own = condition(conditions.POD_ADMITTED, "False", "WaitingForQuota", "1 more GPU needed")
    uid = world.add_pod("p", own, labels=OURS)
    world.add_workload("w", uid, condition("QuotaReserved", "False", "WaitingForQuota", "short"))

    result = world.ask("p")

    assert (result.exit_code, result.stderr) == (0, "")
    assert AGED.sub(AGE, result.stdout).splitlines() == [
        "1 more GPU needed.",
        "  pod       team/p",
        f"  state     waiting for {AGE}",
        "  queue     lq -> cq",
        "  workload  w",
        "next: wait, or ask for less; who holds it: kubectl gpu who cq -n team",
    ]


def test_an_admitted_pod_is_told_its_flavors(world: World) -> None:
    uid = world.add_pod("p", labels=OURS)
    world.add_workload("w", uid, HOLDS, ADMITTED, admission=ADMISSION)
    assert world.told("p") == {
        "apiVersion": "gpu-admission.dev/v1",
        "kind": "Reason",
        "subject": {"kind": "Pod", "namespace": "team", "name": "p"},
        "state": "admitted",
        "reason": "Admitted",
        "message": "Admitted by ClusterQueue cq on a100.",
        "next": "",
        "since": TIME,
        "localQueue": "lq",
        "clusterQueue": "cq",
        "workload": "w",
        "flavors": {"nvidia.com/gpu": "a100"},
        "nodes": {},
        "place": None,
        "placeIsAbout": False,
        "waiting": None,
        "quota": [],
        "parts": [],
        "notes": [],
        "condition": {"reason": "Admitted", "message": "The workload is admitted"},
        "missing": [],
    }
    assert "  flavors   nvidia.com/gpu on a100" in world.ask("p").stdout.splitlines()


def test_a_pod_of_an_admitted_job_is_told_of_the_jobs_workload(world: World) -> None:
    """Such a pod is not marked as managed: it is counted with its Job."""
    world.add_pod("p", annotations={names.WORKLOAD_ANNOTATION: "of-the-job"})
    world.add_workload("of-the-job", "uid-of-the-job", HOLDS, ADMITTED, admission=ADMISSION)
    answer = world.told("p")
    assert (answer["state"], answer["workload"]) == ("admitted", "of-the-job")
    assert (answer["localQueue"], answer["clusterQueue"]) == ("lq", "cq")


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ((HOLDS,), "quota reserved"),
        ((HOLDS, ADMITTED), "admitted"),
        ((condition("Evicted", "True", "Preempted", "by another"),), "evicted"),
        ((HOLDS, ADMITTED, condition("Finished", "True", "Succeeded", "done")), "finished"),
        ((), "waiting"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_state_is_that_of_the_workload(
    world: World, conditions: tuple[dict[str, str], ...], state: str
) -> None:
    uid = world.add_pod("p", labels=OURS)
    world.add_workload("w", uid, *conditions)
    assert world.told("p")["state"] == state


def test_a_preempted_pod_that_still_runs_is_told_when_it_is_stopped(world: World) -> None:
    uid = world.add_pod("p", labels=OURS)
    notice = condition("gpu-admission.dev/PreemptionNotice", "True", "Preempted", "at 14:05")
    world.add_workload("w", uid, condition("Evicted", "True", "Preempted", "by x"), notice)
    assert (world.told("p")["state"], world.told("p")["message"]) == ("evicted", "at 14:05.")


@pytest.mark.parametrize(
    ("labels", "notes"),
    [
        ({}, []),
        (
            {names.QUEUE_LABEL: "lq"},
            ["it was created while its namespace was excluded or the webhook was not installed"],
        ),
    ],
    ids=["without a queue", "with a queue"],
)
def test_a_pod_outside_every_queue_is_told_how_to_get_into_one(
    world: World, labels: dict[str, str], notes: list[str]
) -> None:
    world.add_pod("p", labels=labels)
    answer = world.told("p")
    assert (answer["state"], answer["reason"]) == ("not managed", "NotManaged")
    assert answer["next"].startswith("to put it in a queue, create it anew with the label")
    assert answer["notes"] == notes


def test_what_asks_for_a_gpu_by_a_wrong_name_is_told_the_right_one(world: World) -> None:
    resources_ = {"resources": {"limits": {"nvidia.com/gpus": "1"}}}
    pod = make_pod("typo", namespace="team", container=resources_)
    world.store.create(resources.PODS, pod)
    job = make_job("typos", pod={"container": resources_})
    world.store.create(resources.JOBS, job, "team")
    for name in ("typo", "typos"):
        answer = world.told(name)
        assert (answer["state"], answer["reason"]) == ("not managed", "ResourceMisspelled")
        assert answer["message"] == (
            "Never starts as it is: nvidia.com/gpus is misspelled: a GPU is nvidia.com/gpu."
        )
        assert answer["next"] == "ask for nvidia.com/gpu, and create it anew"


def test_next_steps_are_for_the_cluster_that_was_typed(world: World) -> None:
    world.add_pod("p", labels=OURS)
    typed = ["--kubeconfig", str(world.kubeconfig), "--context", "here"]
    options = " ".join(typed)
    told = world.ask("gone", *typed)
    assert told.stderr.splitlines()[-1] == (
        f"hint: see those there are: kubectl get pods,jobs,workloads -n team {options}; what is "
        f"gone may still be in the events: kubectl get events -n team {options}"
    )
    own = condition(conditions.POD_ADMITTED, "False", "PendingEvaluation", "")
    world.add_pod("q", own, labels=OURS)
    step = world.told("q", *typed)["next"]
    assert step.endswith(f" {options}")
    assert f"next: {step}" in world.ask("q", *typed).stdout.splitlines()


A100 = {"resources": {"limits": {"nvidia.com/a100": "1"}}}


@pytest.fixture
def offering(world: World) -> World:
    """A node with GPUs, a queue of them, and a pod and a Job that ask for something else."""
    world.store.create(resources.NODES, make_node("n1", units={"nvidia.com/gpu": 8}))
    world.store.create(resources.CLUSTER_QUEUES, make_cluster_queue("cq"))
    pod = make_pod("product", namespace="team", container=A100)
    world.store.create(resources.PODS, pod)
    world.store.create(resources.JOBS, make_job("products", pod={"container": A100}), "team")
    return world


@pytest.mark.parametrize("name", ["product", "products"])
def test_what_asks_for_what_nothing_offers_is_told_what_there_is(
    offering: World, name: str
) -> None:
    answer = offering.told(name)
    assert answer["reason"] == "ResourceNotOffered"
    assert answer["message"] == (
        "Waits: no node and no queue offers nvidia.com/a100; there are: nvidia.com/gpu."
    )
    assert answer["next"].startswith("ask for one that there is, and create it anew")


def add_active_job(world: World, node: str = "") -> None:
    """A Job of products without a queue, whose one pod may be on a node."""
    job = make_job("active", pod={"container": A100})
    made = world.store.create(resources.JOBS, job, "team")
    status = {**made, "status": {"active": 1, "ready": 0}}
    world.store.replace(resources.JOBS, status, subresource="status")
    pod = make_pod("active-0", namespace="team", container=A100)
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "active", "controller": True,
         "uid": made["metadata"]["uid"]}
    ]  # fmt: skip
    pod["spec"]["nodeName"] = node
    world.store.create(resources.PODS, pod)


def test_a_job_whose_pods_wait_for_what_nothing_offers_is_told_so(offering: World) -> None:
    add_active_job(offering)
    assert offering.told("job/active")["reason"] == "ResourceNotOffered"


def test_a_suspended_job_is_told_that_nothing_offers_what_it_asks_for(offering: World) -> None:
    job = make_job("suspended", pod={"container": A100}, suspend=True)
    offering.store.create(resources.JOBS, job, "team")
    assert offering.told("job/suspended")["reason"] == "ResourceNotOffered"


def test_a_job_whose_pods_run_is_not_said_to_wait_for_what_nothing_offers(
    offering: World,
) -> None:
    add_active_job(offering, "n9")
    assert offering.told("job/active")["reason"] == "NotManaged"


def test_what_asks_for_what_a_node_offers_is_told_of_its_queue(offering: World) -> None:
    node = make_node("n2", units={"nvidia.com/a100": 1})
    offering.store.create(resources.NODES, node)
    assert offering.told("product")["reason"] == "NotManaged"


def test_who_may_not_read_nodes_is_told_that_they_are_not_known(offering: World) -> None:
    member: Any = OfTeam(offering.store, "team")
    assert why.explain(member, "team", "pod/product").message == (
        "Waits: no queue of its namespace has quota for nvidia.com/a100; there are: none of GPUs;"
        " whether a node offers it is not known to your user."
    )


def test_a_pod_that_the_controller_has_not_seen_is_told_to_look_at_it(world: World) -> None:
    world.add_pod("p", labels=OURS)
    answer = world.told("p")
    assert (answer["state"], answer["localQueue"]) == ("without Workload", "lq")
    assert answer["next"].startswith("ask an administrator whether the controller runs")


def test_the_namespace_is_that_of_the_context_unless_one_is_named(world: World) -> None:
    world.add_pod("p", labels=OURS)
    assert world.told("p")["subject"] == world.told("p", "-n", "team")["subject"] == SUBJECT
    other = world.ask("p", "--context", "there")
    assert (other.exit_code, other.stdout) == (1, "")
    assert "there is a Pod of that name elsewhere: -n team; see" in other.stderr
    gone = world.ask("gone", "--context", "there")
    assert "hint: see those there are: kubectl get pods,jobs,workloads -n default" in gone.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("gone",), "error: no pod 'gone' in namespace"),
        (("p", "--context", "nowhere"), "error: no access to an API server from"),
    ],
    ids=["no such pod", "no such context"],
)
def test_without_an_answer_it_exits_with_1(
    world: World, arguments: tuple[str, ...], error: str
) -> None:
    result = world.ask(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert error in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("gone",), "NotFound", "no pod 'gone' in namespace team"),
        (("pod/gone",), "NotFound", 'pods "gone" not found in namespace team'),
        (("cohort/all",), "UnknownKind", "a Cohort neither waits nor admits"),
        (("p", "--context", "nowhere"), "InvalidKubeconfig", "no access to an API server"),
    ],
    ids=["nothing of the name", "no such pod", "a kind that does not wait", "no such context"],
)
def test_an_error_is_a_document_where_json_is_asked_for(
    world: World, arguments: tuple[str, ...], code: str, message: str
) -> None:
    result = world.ask(*arguments, "-o", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found.keys() == {"apiVersion", "kind", "code", "message", "next"}
    assert (found["apiVersion"], found["kind"], found["code"]) == (
        "gpu-admission.dev/v1", "Error", code,
    )  # fmt: skip
    assert found["message"].startswith(message)
    assert found["next"]
    assert result.stderr.startswith(f"error: {message}")


@pytest.mark.parametrize("what", ["trian-0", "pod/train-O", "job/trian"])
def test_a_mistyped_name_is_answered_with_similar_ones(world: World, what: str) -> None:
    world.add_pod("train-0", labels=OURS)
    add_job(world)
    meant = "train" if what.startswith("job") else "train-0"
    hint = world.ask(what).stderr.splitlines()[1]
    assert hint.startswith(f"hint: did you mean {meant}")
    assert "did you mean" not in world.ask("nothing-alike").stderr


def test_a_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "gone")
    result = CliRunner().invoke(main, ["why", "p", "--kubeconfig", path])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no kubeconfig: ")


def test_a_server_that_does_not_answer_is_an_error(world: World) -> None:
    world.kubeconfig.write_text(KUBECONFIG.format(url="http://127.0.0.1:9"))
    result = world.ask("p")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "arguments", [["why"], ["why", "p", "-o", "xml"], ["why", "p", "q"], ["wy"]], ids=" ".join
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["why", "--help"], ["why", "-h"]])
def test_help_shows_examples_and_exit_codes(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: kubectl gpu")
    assert "kubectl gpu why train-0 -n research" in result.stdout
    assert "  1  no answer" in result.stdout


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("kubectl gpu, version ")


# ----------------------------------------------------------------------- owners, queues, numbers


def add_queue(world: World, **status: Any) -> None:
    """The ClusterQueue of the LocalQueue, with 16 of the flavor ``a100``."""
    world.store.create(resources.CLUSTER_QUEUES, make_cluster_queue("cq", quota=16))
    made = world.store.get(resources.CLUSTER_QUEUES, "cq")
    world.store.replace(resources.CLUSTER_QUEUES, {**made, "status": status}, subresource="status")


def used(amount: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "a100",
            "resources": [{"name": "nvidia.com/gpu", "total": amount, "borrowed": "0"}],
        }
    ]


def add_job(world: World, **labels: str) -> str:
    made = world.store.create(resources.JOBS, make_job("train", labels=labels), "team")
    uid: str = made["metadata"]["uid"]
    return uid


WAITS = condition(
    "QuotaReserved",
    "False",
    "WaitingForQuota",
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
    "flavor a100, 5 more needed",
)
REQUESTS = [{"name": "main", "resources": {"nvidia.com/gpu": "8"}}]


def test_a_job_without_a_condition_is_told_the_numbers_of_its_queue(world: World) -> None:
    add_queue(world, flavorsReservation=used("13"), pendingWorkloads=1)
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    world.add_workload("job-train", uid, WAITS, resourceRequests=REQUESTS)
    answer = world.told("job/train")
    assert answer["message"] == (
        "Waits: needs 8 a100, 3 free of 16; 1st in queue cq; held by cq (13)."
    )
    assert answer["quota"] == [
        {
            "flavor": "a100", "resource": "nvidia.com/gpu", "asks": "8", "free": "3",
            "reach": "16", "nominal": "16",
            "heldBy": [{"clusterQueue": "cq", "amount": "13"}],
        }
    ]  # fmt: skip
    assert (answer["place"], answer["waiting"]) == (1, 1)
    assert answer["condition"]["message"] == WAITS["message"]


def test_what_is_next_in_its_queue_is_told_so_and_of_nobody_before_it(world: World) -> None:
    add_queue(world, flavorsReservation=used("13"), pendingWorkloads=2)
    world.add_workload("job-train", add_job(world, **{names.QUEUE_LABEL: "lq"}))
    world.add_workload("other", "another")
    goes_first = patches.merge({"spec": {"priority": 1}})
    world.store.patch(resources.WORKLOADS, "job-train", goes_first, "team")
    answer = world.told("job/train")
    assert answer["message"] == "Waits: its queue looks at it next; 1st in queue cq."
    assert (answer["next"], answer["place"]) == ("wait", 1)
    answer = world.told("workload/other")
    assert answer["message"] == "Waits: its queue looks at others first; 2nd in queue cq."
    assert answer["next"] == "wait; who is before it: kubectl gpu queue cq -n team"


@pytest.mark.parametrize(
    ("held", "who"),
    [
        ({"cq": 13}, "cq"),
        ({"cq": 13, "maps": 2}, "cq"),  # what others give back is not enough
        ({"maps": 13}, "maps"),
        ({"cq": 4, "maps": 9}, "all"),
        ({"maps": 9, "speech": 4}, "all"),
    ],
    ids=str,
)
def test_the_next_step_names_the_queue_or_the_cohort_that_holds_what_is_lacking(
    world: World, held: dict[str, int], who: str
) -> None:
    for name in ("cq", "maps", "speech"):
        queue = make_cluster_queue(name, quota=16 if name == "cq" else 0, cohortName="all")
        made = world.store.create(resources.CLUSTER_QUEUES, queue)
        status = {"flavorsReservation": used(str(held.get(name, 0)))}
        document = {**made, "status": status}
        world.store.replace(resources.CLUSTER_QUEUES, document, subresource="status")
    own = condition(conditions.POD_ADMITTED, "False", "WaitingForQuota", "Waits: needs 8 a100.")
    uid = world.add_pod("p", own, labels=OURS)
    world.add_workload("w", uid, WAITS, resourceRequests=REQUESTS)
    assert world.told("p")["next"].endswith(f"kubectl gpu who {who} -n team")


@pytest.mark.parametrize(
    "refused",
    [
        causes.OtherNodes("t4"),
        causes.UntoleratedTaint("t4", "gpu", "t4", "NoSchedule"),
        causes.FlavorMissing("t4"),
    ],
)
def test_flavors_whose_nodes_do_not_take_the_pods_are_not_among_the_numbers(
    world: World, refused: causes.Refusal
) -> None:
    queue = make_cluster_queue("cq", quota=16, flavors=("a100", "t4", "h100"))
    made = world.store.create(resources.CLUSTER_QUEUES, queue)
    status = {"flavorsReservation": used("13"), "pendingWorkloads": 1}
    world.store.replace(resources.CLUSTER_QUEUES, {**made, "status": status}, subresource="status")
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    short = causes.QuotaInUse("nvidia.com/gpu", "a100", 5)
    main, other = (
        causes.RefusedPodSet("main", (short, refused)),
        causes.RefusedPodSet("other", (short,)),
    )
    message = kueue.message(
        causes.NoFlavor(conditions.WaitReason.WAITING_FOR_QUOTA, (main, other))
    )
    world.add_workload("job-train", uid, {**WAITS, "message": message}, resourceRequests=REQUESTS)
    found = [(one["flavor"], one["free"]) for one in world.told("job/train")["quota"]]
    assert found == [("a100", "3"), ("h100", "16")]  # h100 was not tried


def test_what_kueue_says_is_shown_where_it_is_asked_for(world: World) -> None:
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    world.add_workload("job-train", uid, WAITS)
    assert "couldn't assign flavors" not in world.ask("train").stdout
    wide = world.ask("train", "-o", "wide").stdout
    assert f"  kueue     WaitingForQuota: {WAITS['message']}" in wide
    assert "  reason    WaitingForQuota" in wide


def test_no_line_is_wider_than_the_terminal(world: World) -> None:
    add_queue(world, flavorsReservation=used("13"), pendingWorkloads=1)
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    world.add_workload("job-train", uid, WAITS, resourceRequests=REQUESTS)
    lines = world.lines("train", "-o", "wide", columns=60)
    assert len(lines) > 10
    assert max(map(len, lines)) <= 60


def controlled_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
    """The ownerReferences of what a controller makes for an object."""
    known = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return [{"apiVersion": "apps/v1", "kind": owner["kind"], "controller": True, **known}]


def make_deployment(world: World, replicas: int, name: str = "chat") -> list[dict[str, Any]]:
    """The ownerReferences of the pods of a Deployment whose pods have the label ``app: chat``."""
    selector = {"matchLabels": {"app": "chat"}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"selector": selector, "replicas": replicas},
    }
    owner = world.store.create(resources.DEPLOYMENTS, deployment)
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-5f", "namespace": "team", "labels": {"app": "chat"},
            "ownerReferences": controlled_by({**owner, "kind": "Deployment"}),
        },
        "spec": {"selector": selector, "replicas": replicas},
    }  # fmt: skip
    made = world.store.create(resources.REPLICA_SETS, replica_set)
    return controlled_by({**made, "kind": "ReplicaSet"})


def test_a_deployment_lists_its_pods_and_says_why_the_first_waits(world: World) -> None:
    metadata = {"labels": {**OURS, "app": "chat"}, "ownerReferences": make_deployment(world, 2)}
    first = world.add_pod("chat-0", **metadata)
    world.add_workload("w-0", first, HOLDS, ADMITTED, admission=ADMISSION)
    own = condition(conditions.POD_ADMITTED, "False", "WaitingForQuota", "Waits: needs 1 a100.")
    second = world.add_pod("chat-1", own, **metadata)
    world.add_workload("w-1", second, WAITS)
    answer = world.told("deploy/chat")
    assert answer["subject"] == {"kind": "Deployment", "namespace": "team", "name": "chat"}
    assert answer["message"] == "1 of 2 pods waits: needs 1 a100."
    assert [(one["name"], one["state"]) for one in answer["parts"]] == [
        ("pod/chat-0", "admitted"),
        ("pod/chat-1", "waiting"),
    ]


def test_pods_of_another_deployment_with_the_same_labels_are_not_counted(world: World) -> None:
    labels = {**OURS, "app": "chat"}
    uid = world.add_pod("chat-0", labels=labels, ownerReferences=make_deployment(world, 1))
    world.add_workload("w-0", uid, HOLDS, ADMITTED, admission=ADMISSION)
    own = condition(conditions.POD_ADMITTED, "False", "WaitingForQuota", "Waits: needs 1 a100.")
    copied = make_deployment(world, 1, "copy")
    other = world.add_pod("copy-0", own, labels=labels, ownerReferences=copied)
    world.add_workload("w-1", other, WAITS)
    world.add_pod("by-hand", own, labels=labels)
    for asked, pod, state in [("chat", "chat-0", "admitted"), ("copy", "copy-0", "waiting")]:
        for kind, name in (("deploy", asked), ("rs", f"{asked}-5f")):
            answer = world.told(f"{kind}/{name}")
            parts = [(one["name"], one["state"]) for one in answer["parts"]]
            assert (answer["state"], parts) == (state, [(f"pod/{pod}", state)])


def add_deployment(world: World, *nodes: str, are_ready: bool) -> None:
    """A Deployment with an admitted pod on each node; the nodes are ready or not."""
    metadata = {"ownerReferences": make_deployment(world, len(nodes))}
    labels = {**OURS, "app": "chat"}
    for number, node in enumerate(nodes):
        name = f"chat-{number}"
        pod = make_pod(name, namespace="team", labels=labels, metadata=metadata, nodeName=node)
        uid = world.store.create(resources.PODS, pod)["metadata"]["uid"]
        counts = causes.MemberCounts(1, 1, 1, 0, lost_nodes=(node,))
        text = kueue.pods_ready(conditions.PodsReadyReason.STARTED)
        if not are_ready:
            reason = conditions.PodsReadyReason.WAIT_FOR_START
            text = kueue.pods_ready(reason, sentences.missing(counts))
        told = condition(conditions.PODS_READY, str(are_ready), *text)
        world.add_workload(f"w-{number}", uid, HOLDS, ADMITTED, told, admission=ADMISSION)


def test_the_pods_of_a_deployment_are_counted_together_with_all_their_nodes(world: World) -> None:
    add_deployment(world, "gpu-1", "gpu-0", are_ready=False)
    answer = world.told("deploy/chat")
    assert answer["reason"] == "PodsNotRunning"
    assert answer["message"] == (
        "Admitted, but 0 of 2 pods are ready: nodes gpu-0, gpu-1 are not ready."
    )
    assert answer["nodes"] == {"gpu-0": 1, "gpu-1": 1}


def test_a_deployment_that_runs_names_how_many_pods_are_on_which_nodes(world: World) -> None:
    add_deployment(world, "gpu-0", "gpu-1", "gpu-0", are_ready=True)
    lines = world.ask("deploy/chat").stdout.splitlines()
    assert lines[0] == "Admitted by ClusterQueue cq on a100."
    assert "  nodes       3 pods on gpu-0, gpu-1" in lines


def test_a_deployment_names_every_flavor_that_its_pods_are_on(world: World) -> None:
    metadata = {"labels": {**OURS, "app": "chat"}, "ownerReferences": make_deployment(world, 3)}
    for number, flavor in enumerate(("l4", "a100", "l4")):
        uid = world.add_pod(f"chat-{number}", **metadata)
        parts = [{"name": "main", "flavors": {"nvidia.com/gpu": flavor, "cpu": "any"}}]
        admission = {"clusterQueue": "cq", "podSetAssignments": parts}
        world.add_workload(f"w-{number}", uid, HOLDS, ADMITTED, admission=admission)
    lines = world.ask("deploy/chat").stdout.splitlines()
    assert lines[0] == "Admitted by ClusterQueue cq on a100, any, l4."
    assert "  flavors     cpu on any, nvidia.com/gpu on l4 and a100" in lines
    assert world.told("deploy/chat")["flavors"] == {"cpu": "any", "nvidia.com/gpu": "l4, a100"}


def test_a_workload_names_the_flavors_of_all_its_pod_sets(world: World) -> None:
    uid = world.add_pod("p", labels=OURS)
    parts = [
        {"name": name, "flavors": {"nvidia.com/gpu": flavor}}
        for name, flavor in (("lead", "l4"), ("work", "a100"))
    ]
    admission = {"clusterQueue": "cq", "podSetAssignments": parts}
    world.add_workload("w", uid, HOLDS, ADMITTED, admission=admission)
    assert world.told("p")["message"] == "Admitted by ClusterQueue cq on l4, a100."
    assert world.told("p")["flavors"] == {"nvidia.com/gpu": "l4, a100"}


@pytest.mark.parametrize(
    ("labels", "state", "reason"),
    [
        ({}, "not managed", "NotManaged"),
        ({names.QUEUE_LABEL: "lq"}, "without Workload", "NoWorkload"),
    ],
    ids=["without a queue", "in a queue"],
)
def test_a_job_without_a_workload_is_told_whether_it_is_in_a_queue(
    world: World, labels: dict[str, str], state: str, reason: str
) -> None:
    add_job(world, **labels)
    answer = world.told("train")
    assert (answer["state"], answer["reason"]) == (state, reason)


def test_an_evicted_workload_is_told_when_it_is_tried_again(world: World) -> None:
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    late = condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout x")
    world.add_workload("w", uid, late, requeueState={"count": 1, "requeueAt": TIME})
    answer = world.told("train")
    assert (answer["reason"], answer["message"]) == (
        "WaitingForRetry",
        f"Waits: it is tried again at {TIME}; Exceeded the PodsReady timeout x.",
    )


def test_a_preempted_job_that_waits_again_is_told_whose_queue_took_its_quota(
    world: World,
) -> None:
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    cause = conditions.PreemptionReason.IN_COHORT_RECLAMATION
    lost = kueue.message(causes.Preempted(cause, "u", "j", "/all/maps", "/all/speech"))
    again = condition("QuotaReserved", "False", "Suspended", "The ClusterQueue is stopped")
    world.add_workload("w", uid, condition("Evicted", "True", "Preempted", lost), again)
    answer = world.told("train")
    assert answer["state"] == "evicted"
    assert answer["notes"] == [
        "Lost its quota to a workload of queue maps; why: reclamation within the cohort"
    ]


def test_a_pod_that_was_charged_while_it_ran_is_told_so(world: World) -> None:
    uid = world.add_pod("p", labels=OURS)
    world.add_workload("w", uid, HOLDS, ADMITTED, admission=ADMISSION)
    made = world.store.get(resources.WORKLOADS, "w", "team")
    made["metadata"].setdefault("annotations", {})[names.MADE_FOR_RUNNING] = "x"
    world.store.replace(resources.WORKLOADS, made)
    assert world.told("p")["reason"] == "ChargedWhileRunning"


def test_a_queue_that_promises_more_than_there_is_says_so(world: World) -> None:
    short = condition(
        conditions.CAPACITY_SUFFICIENT, "False", "QuotaExceedsCapacity", "promises 16, 8 exist"
    )
    active = condition("Active", "True", "Ready", "Can admit new workloads")
    add_queue(world, conditions=[active, short])
    answer = world.told("clusterqueue/cq")
    assert (answer["state"], answer["message"]) == ("active", "Admits workloads.")
    assert answer["notes"] == ["promises 16, 8 exist"]


SHORT = (
    "nvidia.com/gpu in flavor a100: quota promises 16, 8 exist (8 healthy, 8 sick); n2: not Ready"
)


@pytest.mark.parametrize(
    ("flavor", "notes"),
    [("a100", [f"GPUs cannot be used or are missing: {SHORT}"]), ("h100", [])],
    ids=["of its flavor", "of another flavor"],
)
def test_what_waits_is_told_which_nodes_of_its_flavor_are_sick(
    world: World, flavor: str, notes: list[str]
) -> None:
    told = SHORT.replace("flavor a100", f"flavor {flavor}")
    short = condition(conditions.CAPACITY_SUFFICIENT, "False", "QuotaExceedsCapacity", told)
    add_queue(world, flavorsReservation=used("13"), pendingWorkloads=1, conditions=[short])
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    world.add_workload("job-train", uid, WAITS, resourceRequests=REQUESTS)
    assert world.told("train")["notes"] == notes


KEPT = (
    "All GPUs that the nominal quota promises exist; nvidia.com/gpu in flavor a100: 8 held by "
    "running pods on sick GPUs or on nodes that take no new pods, and no longer count when these "
    "pods end"
)
ON_SICK = (
    "8 of 8 nvidia.com/gpu of flavor a100 are sick: 8 on n2 (condition XIDErrors=True since "
    f"{TIME}); nothing new starts on them until they are well; what the node says: kubectl "
    "describe node n2"
)


def add_sick_node(world: World, flavor: str = "a100") -> None:
    """The node of a flavor, with 8 GPUs that are sick."""
    world.store.create(resources.RESOURCE_FLAVORS, make_flavor(flavor, node_labels={"pool": "a"}))
    node = make_node("n2", {"pool": "a"}, {names.GPU_RESOURCE: 8})
    errors = {"type": "XIDErrors", "status": "True", "lastTransitionTime": TIME}
    node["status"]["conditions"].append(errors)
    world.store.create(resources.NODES, node)


@pytest.mark.parametrize(
    ("status", "stated"), [("False", SHORT), ("True", KEPT)], ids=["idle", "held by a pod"]
)
def test_what_waits_is_told_of_a_sick_gpu_how_many_where_since_when_and_what_to_do(
    world: World, status: str, stated: str
) -> None:
    told = condition(conditions.CAPACITY_SUFFICIENT, status, "Capacity", stated)
    add_queue(world, flavorsReservation=used("13"), pendingWorkloads=1, conditions=[told])
    add_sick_node(world)
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    world.add_workload("job-train", uid, WAITS, resourceRequests=REQUESTS)
    assert world.told("train")["notes"] == [ON_SICK]


def test_the_sick_gpu_of_a_flavor_that_it_does_not_wait_for_is_not_told(world: World) -> None:
    told = condition(conditions.CAPACITY_SUFFICIENT, "False", "Capacity", SHORT)
    add_queue(world, flavorsReservation=used("13"), pendingWorkloads=1, conditions=[told])
    add_sick_node(world, "h100")
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    world.add_workload("job-train", uid, WAITS, resourceRequests=REQUESTS)
    assert ON_SICK not in world.told("train")["notes"]


def test_what_has_quota_and_no_node_is_told_of_the_sick_gpu(world: World) -> None:
    add_queue(world, pendingWorkloads=1)
    add_sick_node(world)
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    no_place = causes.NoPlace(
        flavors=(FlavorName("a100"),), pod_set=PodSetName("main"), count=1, fitting=0,
        resource=names.GPU_RESOURCE, asks=8, free=0, refusals=(("sick", 1),),
    )  # fmt: skip
    refused = causes.RefusedPodSet(PodSetName("main"), (no_place,))
    no_node = causes.NoFlavor(conditions.WaitReason.WAITING_FOR_NODE, (refused,))
    waits = condition("QuotaReserved", "False", "WaitingForNode", kueue.message(no_node))
    world.add_workload("job-train", uid, waits, resourceRequests=REQUESTS)
    answer = world.told("train")
    assert (answer["reason"], answer["notes"]) == ("WaitingForNode", [ON_SICK])


def test_what_is_admitted_and_has_no_node_is_told_of_the_sick_gpu(world: World) -> None:
    add_queue(world, flavorsReservation=used("8"))
    add_sick_node(world)
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    counts = causes.MemberCounts(asked=1, created=1, scheduled=0, ready=0)
    reason = conditions.PodsReadyReason.WAIT_FOR_START
    ready = condition("PodsReady", "False", *kueue.pods_ready(reason, sentences.missing(counts)))
    world.add_workload("job-train", uid, HOLDS, ADMITTED, ready, admission=ADMISSION)
    answer = world.told("train")
    assert (answer["reason"], answer["notes"]) == ("PodsNotRunning", [ON_SICK])


def cordon(world: World, *, is_sick: bool) -> None:
    """The node of a flavor, with 8 GPUs, is cordoned; else it is well, or sick, too."""
    add_sick_node(world)
    node = world.store.get(resources.NODES, "n2")
    node["spec"] = {"unschedulable": True}
    world.store.replace(resources.NODES, node)
    if not is_sick:
        node = world.store.get(resources.NODES, "n2")
        node["status"]["conditions"] = [condition("Ready", "True", "KubeletReady", "")]
        world.store.replace(resources.NODES, node, subresource="status")


@pytest.mark.parametrize("is_sick", [True, False])
def test_gpus_of_a_node_that_is_only_cordoned_are_not_called_sick(
    world: World, *, is_sick: bool
) -> None:
    add_queue(world, flavorsReservation=used("8"))
    cordon(world, is_sick=is_sick)
    uid = add_job(world, **{names.QUEUE_LABEL: "lq"})
    counts = causes.MemberCounts(asked=1, created=1, scheduled=0, ready=0)
    reason = conditions.PodsReadyReason.WAIT_FOR_START
    ready = condition("PodsReady", "False", *kueue.pods_ready(reason, sentences.missing(counts)))
    world.add_workload("job-train", uid, HOLDS, ADMITTED, ready, admission=ADMISSION)
    assert any("sick" in note for note in world.told("train")["notes"]) == is_sick


@pytest.mark.parametrize(
    ("text", "state", "reason", "message"),
    [
        (kueue.CAN_SUBMIT, "active", "QueueReady",
         "Admits workloads through ClusterQueue cq."),
        (kueue.LOCAL_QUEUE_STOPPED, "inactive", "LocalQueueStopped",
         "Admits nothing: it is stopped."),
        (kueue.CLUSTER_QUEUE_MISSING, "inactive", "ClusterQueueNotFound",
         "Admits nothing: ClusterQueue cq does not exist."),
        (kueue.CLUSTER_QUEUE_INACTIVE, "inactive", "ClusterQueueInactive",
         "Admits nothing: ClusterQueue cq admits nothing at present."),
    ],
    ids=["it admits", "it is stopped", "no ClusterQueue", "the ClusterQueue is stopped"],
)  # fmt: skip
def test_a_local_queue_is_told_whether_it_admits_what_it_holds_and_who_waits(
    world: World, text: conditions.Text, state: str, reason: str, message: str
) -> None:
    stopped = condition("Active", "False", "Stopped", "Can't admit new workloads: is stopped.")
    add_queue(world, conditions=[stopped])
    made = world.store.get(resources.LOCAL_QUEUES, "lq", "team")
    said = condition("Active", "True" if state == "active" else "False", *text)
    status = {"conditions": [said], "pendingWorkloads": 2, "flavorsReservation": [
        {"name": "a100", "resources": [{"name": "nvidia.com/gpu", "total": "4"}]},
    ]}  # fmt: skip
    world.store.replace(resources.LOCAL_QUEUES, {**made, "status": status}, subresource="status")
    answer = world.told("lq/lq")
    assert (answer["state"], answer["reason"], answer["message"]) == (state, reason, message)
    assert (answer["clusterQueue"], answer["waiting"]) == ("cq", 2)
    assert answer["notes"][0] == "LocalQueue lq holds 4 a100; 2 Workloads wait in it"
    behind = ["Admits nothing: it is stopped."] if reason == "ClusterQueueInactive" else []
    assert answer["notes"][1:] == behind
    assert "  queue       lq -> cq, 2 Workloads wait" in world.ask("lq").stdout.splitlines()
