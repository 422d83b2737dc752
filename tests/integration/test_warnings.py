"""Who creates something reads at once what will become of it, also in a dry run."""

from typing import Any

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod, template_of
from tests.builders.queues import make_cohort, make_local_queue
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

DRY_RUN = "?dryRun=All"
QUEUED = {names.QUEUE_LABEL: "default"}


@pytest.fixture(scope="module")
def system(whole_installation: Installed) -> Installed:
    return whole_installation


@pytest.fixture(scope="module")
def team(system: Installed) -> str:
    """A namespace with a queue of 4 GPUs in which nothing runs."""
    return system.add_team(4)


def deployment(gpus: int) -> Json:
    template = template_of(make_pod("", gpus=gpus, labels={"app": "web"}))
    template["metadata"] = {"labels": {"app": "web"}}
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "web", "labels": dict(QUEUED)}
    spec = {"replicas": 1, "selector": selector, "template": template,
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}  # fmt: skip
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def made(kind: str, gpus: int) -> Json:
    if kind == "pods":
        return make_pod("train", gpus=gpus, labels=QUEUED)
    if kind == "jobs":
        return make_job("train", 1, gpus=gpus, labels=QUEUED)
    return deployment(gpus)


GROUPS = {"pods": "/api/v1", "jobs": "/apis/batch/v1", "deployments": "/apis/apps/v1"}


def told(system: Installed, namespace: str, kind: str, document: Any, query: str = "") -> Any:
    """Create something and return the warnings about it."""
    return system.api.post_warned(
        f"{GROUPS[kind]}/namespaces/{namespace}/{kind}{query}", document
    )[1]


@pytest.mark.parametrize("kind", GROUPS)
def test_what_is_too_big_is_told_in_a_dry_run_too(system: Installed, team: str, kind: str) -> None:
    expected = (
        f"Too big: asks 9 {team}, {team} can reach 4. Ask for at most 4, or have the quota raised"
    )
    assert told(system, team, kind, made(kind, 9), DRY_RUN) == [expected]
    assert told(system, team, kind, made(kind, 4), DRY_RUN) == []
    assert told(system, team, kind, made(kind, 9)) == [expected]


@pytest.mark.parametrize("kind", GROUPS)
def test_a_misspelled_label_is_told_though_no_gpus_are_asked_for(
    system: Installed, team: str, kind: str
) -> None:
    document = made(kind, 0)
    key = "kueue.x-k8s.io/queue_name"
    document["metadata"] = {"name": "slip", "labels": {key: "default"}}
    assert told(system, team, kind, document, DRY_RUN) == [
        f"Without effect: label {key} is not known; did you mean {names.QUEUE_LABEL}?"
    ]


@pytest.mark.parametrize("kind", GROUPS)
def test_a_queue_that_does_not_exist_is_told_though_no_gpus_are_asked_for(
    system: Installed, team: str, kind: str
) -> None:
    document = made(kind, 0)
    document["metadata"] = {"name": "slip", "labels": {names.QUEUE_LABEL: "defualt"}}
    assert told(system, team, kind, document, DRY_RUN) == [
        (
            "Waits: LocalQueue defualt does not exist in its namespace. Set the label"
            f" {names.QUEUE_LABEL} to one of default, or have it created"
        )
    ]


@pytest.mark.parametrize("kind", GROUPS)
def test_a_namespace_without_queues_says_how_to_get_one(system: Installed, kind: str) -> None:
    namespace = system.cluster.create_namespace("bare")
    (text,) = told(system, namespace, kind, made(kind, 1), DRY_RUN)
    assert text == (
        "Waits: LocalQueue default does not exist in its namespace. Ask an administrator for a"
        " LocalQueue: there is none"
    )


def test_that_others_wait_is_told_from_the_status_of_the_queue(system: Installed) -> None:
    namespace = system.add_team(1)
    for name in ("a", "b", "c"):
        system.create_pod(namespace, name)
    path = f"{KUEUE}/clusterqueues/{namespace}"
    waiting.until(
        lambda: system.api.get(path).get("status", {}).get("pendingWorkloads") == 2,
        what="the status counts who waits",
    )
    system.wait_webhook()
    for kind in GROUPS:
        (text,) = told(system, namespace, kind, made(kind, 1), DRY_RUN)
        assert text == (
            f"May wait: less is free in ClusterQueue {namespace} than it asks for, and about 2"
            f" others wait. See: kubectl gpu queue {namespace}/default"
        )


def test_what_takes_back_its_own_quota_is_not_said_to_wait_for_a_larger_one(
    system: Installed,
) -> None:
    """In a queue where those that fit go past those that do not."""
    spec: Any = {"preemption": {"reclaimWithinCohort": "Any"}}
    owner = system.add_team(4, cohortName="lending", **spec)
    borrower = system.cluster.create_namespace("team")
    system.add_cluster_queue(borrower, quota=4, flavors=(owner,), cohortName="lending", **spec)
    system.add_local_queue(borrower, borrower)
    system.wait_for_queue(borrower)
    system.create_pod(borrower, "borrows", gpus=8)
    system.wait_released(borrower, "borrows")

    def used() -> list[str]:
        status = system.api.get(f"{KUEUE}/clusterqueues/{borrower}")["status"]
        flavors = status.get("flavorsUsage") or ()
        return [resource["total"] for flavor in flavors for resource in flavor["resources"]]

    waiting.until(lambda: used() == ["8"], what="the status counts what is borrowed")
    larger = made("jobs", 6)
    larger["metadata"]["name"] = "larger"
    told(system, owner, "jobs", larger)
    path = f"{KUEUE}/clusterqueues/{owner}"
    waiting.until(
        lambda: system.api.get(path).get("status", {}).get("pendingWorkloads") == 1,
        what="the status counts who waits",
    )
    system.wait_webhook()
    (text,) = told(system, owner, "jobs", made("jobs", 4))
    assert text == (
        "Starts once running work of others is stopped, which borrows from its queue, unless 1"
        f" other that waits takes it first. See: kubectl gpu queue {owner}/default"
    )
    job = f"/apis/batch/v1/namespaces/{owner}/jobs/train"
    waiting.until(lambda: not system.api.get(job)["spec"]["suspend"], what="it starts")


def test_a_queue_that_is_hardly_meant_is_created_with_a_warning(system: Installed) -> None:
    namespace = system.add_team(1)
    system.wait_webhook()
    local = make_local_queue("lost", "nowhere", namespace)
    path = f"{KUEUE}/namespaces/{namespace}/localqueues"
    (text,) = system.api.post_warned(f"{path}{DRY_RUN}", local)[1]
    assert text.startswith("Its pods wait until ClusterQueue nowhere exists. Create the ")
    local = make_local_queue("capped", namespace, namespace)
    local["metadata"]["annotations"] = {f"{names.OWN_DOMAIN}/max-in-uze": "gpu=1"}
    (text,) = system.api.post_warned(f"{path}{DRY_RUN}", local)[1]
    assert text.endswith(f"Did you mean {names.MAX_IN_USE}?")
    cohort = make_cohort("loop", parentName="loop")
    (text,) = system.api.post_warned(f"{KUEUE}/cohorts{DRY_RUN}", cohort)[1]
    assert "its Cohorts form a cycle (loop -> loop)" in text


@pytest.mark.parametrize("kind", GROUPS)
def test_a_slip_in_the_label_of_a_queue_is_told_of_what_is_in_no_queue(
    system: Installed, kind: str
) -> None:
    namespace = system.cluster.create_namespace("slip")
    document = made(kind, 1)
    slip = f"{names.QUEUE_LABEL.rpartition('-')[0]}"
    document["metadata"]["labels"] = {slip: "research"}
    document["metadata"]["annotations"] = {names.FLAVOR_PRODUCT: "H100"}
    texts = told(system, namespace, kind, document, DRY_RUN)
    assert texts[:2] == [
        f"Without effect: label {slip} is not known; did you mean {names.QUEUE_LABEL}?",
        f"Without effect: {names.FLAVOR_PRODUCT} belongs on a ResourceFlavor",
    ]
    # A pod may be held until it is known whether there is a queue.
    assert kind == "pods" or texts[2:]
    assert all(text.startswith("No queue: ") for text in texts[2:])


def test_a_request_without_a_limit_is_refused_with_what_to_write(
    system: Installed, team: str
) -> None:
    pod = make_pod("a", requests={names.GPU_RESOURCE: 1}, labels=QUEUED)
    with pytest.raises(RestError, match=r"put nvidia\.com/gpu into resources.limits, with"):
        told(system, team, "pods", pod, DRY_RUN)
