"""Who waits for quota that preempted pods hold until they have ended is told so at once.

No kubelet is there, so a pod that is bound and deleted ends when the test says so.
"""

import json
import re
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner

from admission.base import names
from admission.cli.kubectl import main
from admission.reasons.next_steps import Code
from tests.builders.jobs import make_job
from tests.controlplane import waiting
from tests.integration import teams
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

GRACE_SECONDS = 600
RECLAIMS: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "Any"}}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    installation.cluster.add_gpu_node("n0", gpus=100, labels={names.GPU_PRODUCT_LABEL: "A100"})
    return installation


def add_borrower(system: Installed, owner: str, pods: int) -> str:
    """A team that has borrowed all quota of another one for pods that run on a node."""
    borrower = system.cluster.create_namespace("borrower")
    system.add_cluster_queue(borrower, quota=0, flavors=(owner,), cohortName=owner, **RECLAIMS)
    system.add_local_queue(borrower, borrower)
    system.wait_for_queue(borrower)
    for number in range(pods):
        name = f"victim-{number}"
        system.create_pod(borrower, name, gpus=4, terminationGracePeriodSeconds=GRACE_SECONDS)
        system.wait_released(borrower, name)
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n0"}}
        system.api.post(f"/api/v1/namespaces/{borrower}/pods/{name}/binding", binding)
    return borrower


READS = [
    {"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list"]}
    for groups in (["", "batch", "events.k8s.io"], ["kueue.x-k8s.io"])
]


def viewer(system: Installed, namespace: str) -> str:
    """The kubeconfig of a user who may read what is in one namespace."""
    user = f"viewer-of-{namespace}"
    system.api.post(
        f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "viewer"}, "rules": READS}
    )
    binding = {
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "User", "name": user}],
    }
    system.api.post(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    found = system.cluster.kubeconfig(user)
    client = system.cluster.client(found)
    waiting.until(
        lambda: client.answers(f"/api/v1/namespaces/{namespace}/pods"), what=f"{user} may read"
    )
    return str(found)


def why(namespace: str, what: str, kubeconfig: str) -> dict[str, Any]:
    command = ["why", what, "-n", namespace, "-o", "json", "--kubeconfig", kubeconfig]
    answer: dict[str, Any] = json.loads(CliRunner().invoke(main, command).stdout)
    return answer


@pytest.mark.parametrize("kind", ["pod", "job"])
def test_who_waits_for_preempted_pods_is_told_how_much_they_hold_and_until_when(
    system: Installed, kind: str
) -> None:
    """An administrator reads which pods these are; a member of the team that waits does not."""
    owner = system.add_team(8, **RECLAIMS)
    system.api.patch(f"{KUEUE}/clusterqueues/{owner}", {"spec": {"cohortName": owner}})
    borrower = add_borrower(system, owner, pods=2)
    member = viewer(system, owner)
    if kind == "pod":
        system.create_pod(owner, "train", gpus=8)
    else:
        job = make_job("train", 2, gpus=4, labels={names.QUEUE_LABEL: "default"})
        system.api.post(f"/apis/batch/v1/namespaces/{owner}/jobs", job)
    ends = re.compile(
        rf"; 2 pods that are ending hold 8 {owner} until \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC at"
        r" the latest\."
    )

    def told(kubeconfig: str) -> dict[str, Any] | None:
        answer = why(owner, f"{kind}/train", kubeconfig)
        return answer if ends.search(answer["message"]) else None

    for kubeconfig in (member, system.kubeconfig):
        answer = waiting.until(partial(told, kubeconfig), what="it is told what ends")
        assert answer["reason"] in {Code.WAITING_FOR_PREEMPTED, Code.WAITING_FOR_QUOTA}
        text = json.dumps(answer)
        assert ("victim-0" in text) is (kubeconfig == system.kubeconfig)
        assert (borrower in text) is (kubeconfig == system.kubeconfig)
    for number in range(2):
        system.delete_pod(borrower, f"victim-{number}")
    waiting.until(
        lambda: why(owner, f"{kind}/train", member)["state"] == "admitted",
        what="it has the quota once the pods have ended",
    )


def test_a_job_that_was_preempted_tells_its_team_what_is_free_beside_what_it_needs(
    whole_installation: Installed,
) -> None:
    """Its condition Evicted says nothing of quota; that of its reservation does."""
    system = whole_installation
    system.cluster.add_gpu_node("ending", gpus=8, labels={names.GPU_PRODUCT_LABEL: "A100"})
    team = teams.Team(system, system.api, 8, preemption={"withinClusterQueue": "LowerPriority"})
    system.add_classes(urgent=1000)
    member = viewer(system, team.name)
    pod = {"annotations": {"controlplane.test/run-for": "1h"}}
    job = make_job("train", 2, gpus=4, labels={names.QUEUE_LABEL: "default"}, pod=pod)
    system.api.post(f"/apis/batch/v1/namespaces/{team.name}/jobs", job)
    waiting.until(lambda: len(team.started()) == 2, what="the Job runs")
    system.create_pod(team.name, "urgent", gpus=4, labels={names.PRIORITY_CLASS_LABEL: "urgent"})
    system.wait_released(team.name, "urgent")

    def judged() -> dict[str, Any] | None:
        answer = why(team.name, "job.batch/train", member)
        return answer if answer["reason"] == Code.WAITING_FOR_QUOTA else None

    answer = waiting.until(judged, what="the Job waits for quota")
    assert answer["message"].startswith(f"Waits: needs 8 {team.name}, 4 free")
    (quota,) = answer["quota"]
    assert (quota["asks"], quota["free"]) == ("8", "4")


def evict(system: Installed, namespace: str, pod: str) -> None:
    """Evict a pod as a drain of its node does."""
    eviction = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }  # fmt: skip
    system.api.post(f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", eviction)


def test_what_a_drain_takes_from_a_node_says_so_and_whether_it_comes_back(
    whole_installation: Installed,
) -> None:
    """A pod without an owner is gone for good; a Job gets another pod after a pause."""
    system = whole_installation
    system.cluster.add_gpu_node("drained", gpus=8, labels={names.GPU_PRODUCT_LABEL: "A100"})
    team = teams.Team(system, system.api, 8)
    member = viewer(system, team.name)
    pod = {"annotations": {"controlplane.test/run-for": "1h"}}
    job = make_job("train", 1, gpus=4, labels={names.QUEUE_LABEL: "default"}, pod=pod)
    job["spec"]["podReplacementPolicy"] = "Failed"
    system.api.post(f"/apis/batch/v1/namespaces/{team.name}/jobs", job)
    system.create_pod(team.name, "alone", gpus=4)
    waiting.until(
        lambda: len(team.listed()) == 2 and team.running(*team.listed()), what="both run"
    )
    nodes = {name: one["spec"]["nodeName"] for name, one in team.listed().items()}
    (of_the_job,) = set(nodes) - {"alone"}
    path = f"{team.pods}/{of_the_job}"
    finalizers = system.api.get(path)["metadata"]["finalizers"]
    system.api.patch(path, {"metadata": {"finalizers": [*finalizers, "example.com/hold"]}})
    for name in nodes:
        evict(system, team.name, name)

    def left(pod: str) -> str:
        return f"left node {nodes[pod]}: it was evicted, as kubectl drain does"

    def of_job() -> bool:
        answer = why(team.name, "job.batch/train", member)
        message = answer.get("message", "")
        return left(of_the_job) in message and "its controller makes new ones" in message

    waiting.until(of_job, what="the Job says that its pods left, and that others come")
    gone = waiting.until(
        lambda: why(team.name, "pod/alone", member).get("message"), what="the answer"
    )
    assert gone.startswith("pod alone is gone; it was told at ")
    assert f": It {left('alone')}" in gone
    system.api.patch(path, {"metadata": {"finalizers": finalizers}})
    waiting.until(
        lambda: why(team.name, "job.batch/train", member)["reason"] == Code.ADMITTED,
        what="the Job has a pod again",
    )
