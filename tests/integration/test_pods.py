"""Every rule of Kueue's pod webhook as a client of a real API server meets it."""

import copy
import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names
from tests.builders.pods import make_pod
from tests.controlplane import waiting
from tests.controlplane.rest import Json, Rest, RestError
from tests.integration import snapshot
from tests.integration.installed import KUEUE
from tests.integration.reviewed import Reviewed, collection
from tests.objects.case import Case, Document, identified
from tests.webhook import pod_cases

pytestmark = pytest.mark.controlplane

K = names.KUEUE_GROUP
GATE = {"name": names.ADMISSION_GATE}
PLAIN, QUEUED = "plain", "queued"
"""A namespace without a LocalQueue, and one with a LocalQueue named ``default``."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    with snapshot.reviewed(tmp_path_factory.mktemp("pods")) as it:
        for namespace in (PLAIN, QUEUED):
            it.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        it.add_local_queue(QUEUED, "cq")
        it.api.post(
            collection("WorkloadPriorityClass"),
            identified("WorkloadPriorityClass", {"metadata": {"name": "default"}, "value": 1}),
        )
        waiting.until(lambda: is_known(it), what="the webhook knows the queue and the class")
        yield it


def is_known(system: Reviewed) -> bool:
    labels = create(system, QUEUED, make_pod(gpus=1), dry=True)["metadata"].get("labels", {})
    return {names.QUEUE_LABEL, names.PRIORITY_CLASS_LABEL} <= set(labels)


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def create(
    system: Reviewed, namespace: str, pod: Document, *, dry: bool = False, by: Rest | None = None
) -> Json:
    metadata = {k: v for k, v in pod["metadata"].items() if k not in {"uid", "namespace"}}
    query = "?dryRun=All" if dry else ""
    body = {**pod, "metadata": metadata}
    return (by or system.api).post(f"{pods(namespace)}{query}", body)


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_pod_with_very_many_annotations_is_held_if_it_asks_for_gpus(
    system: Reviewed, gpus: int
) -> None:
    annotations = {f"example.com/{number}": "" for number in range(5000)}
    created = create(system, QUEUED, make_pod(gpus=gpus, annotations=annotations), dry=True)
    assert (GATE in created["spec"].get("schedulingGates", [])) == (gpus > 0)
    assert annotations.keys() <= created["metadata"]["annotations"].keys()


def attempt(system: Reviewed, case: Case) -> None:
    """Does what the case says.

    Raises:
        RestError: it was refused.
    """
    namespace = QUEUED if case.has_default_queue else PLAIN
    if case.old is None:
        create(system, namespace, case.new, dry=True)
        return
    path = f"{pods(namespace)}/{case.old['metadata']['name']}"
    # As it was admitted: a review would take the marks of an admission off a new pod.
    create(system, namespace, case.old, by=system.unreviewed())
    try:
        system.api.patch(f"{path}/status", {"status": {"phase": case.old["status"]["phase"]}})
        system.api.text("PUT", path, changed(system.api.get(path), case.old, case.new))
    finally:
        system.api.delete(path, {"gracePeriodSeconds": 0})


def changed(stored: Json, old: Document, new: Document) -> Json:
    """What is stored, with the labels, annotations and gates that differ between the two."""
    after = copy.deepcopy(stored)
    for member in ("labels", "annotations"):
        before, now = (one["metadata"].get(member, {}) for one in (old, new))
        kept = {k: v for k, v in stored["metadata"].get(member, {}).items() if k not in before}
        after["metadata"][member] = {**kept, **now}
    after["spec"]["schedulingGates"] = new["spec"].get("schedulingGates", [])
    return after


# A pod that was stored before its rule, or whose mark a review takes off, cannot be made here.
@pytest.mark.parametrize("case", [one for one in pod_cases.CASES if not one.is_legacy], ids=str)
def test_a_client_is_told_the_rule(system: Reviewed, case: Case) -> None:
    if not case.message:
        attempt(system, case)
        return
    with pytest.raises(RestError) as caught:
        attempt(system, case)
    told = json.loads(caught.value.body)
    want = f'admission webhook "vpod.kb.io" denied the request: {case.message}'
    assert (caught.value.status, told["reason"], told["message"]) == (403, "Forbidden", want)


# ----------------------------------------------------------------------- what a new pod is given


def made(system: Reviewed, namespace: str = QUEUED, **pod: Any) -> Json:
    return create(system, namespace, make_pod(**pod), dry=True)


def test_a_gpu_pod_gets_the_default_queue_and_class_the_mark_the_gate_and_its_role(
    system: Reviewed,
) -> None:
    pod = made(system, gpus=1)
    labels = pod["metadata"]["labels"]
    assert labels == {
        names.QUEUE_LABEL: "default",
        names.PRIORITY_CLASS_LABEL: "default",
        names.MANAGED_LABEL: "true",
    }
    assert pod["spec"]["schedulingGates"] == [GATE]
    assert len(pod["metadata"]["annotations"][names.ROLE_HASH]) == 8
    assert "finalizers" not in pod["metadata"]


def test_what_a_pod_says_itself_is_kept(system: Reviewed) -> None:
    said = {names.QUEUE_LABEL: "other", names.PRIORITY_CLASS_LABEL: "high"}
    pod = made(system, gpus=1, labels=said, annotations={names.ROLE_HASH: "main"})
    assert pod["metadata"]["labels"].items() >= said.items()
    assert pod["metadata"]["annotations"][names.ROLE_HASH] == "main"


def test_a_pod_held_for_its_parent_gets_the_gate_but_neither_queue_nor_mark(
    system: Reviewed,
) -> None:
    pod = made(system, annotations={names.POD_SUSPENDING_PARENT: "deployment"})
    assert pod["spec"]["schedulingGates"] == [GATE]
    assert "labels" not in pod["metadata"]


def test_the_index_of_a_group_is_copied_from_the_label_that_the_annotation_names(
    system: Reviewed,
) -> None:
    pod = made(
        system,
        labels={names.QUEUE_LABEL: "default", "idx": "3"},
        annotations={f"{K}/pod-group-pod-index-label": "idx"},
    )
    assert pod["metadata"]["labels"][names.POD_GROUP_POD_INDEX_LABEL] == "3"


def test_the_queue_label_alone_makes_a_pod_wait(system: Reviewed) -> None:
    pod = made(system, PLAIN, labels={names.QUEUE_LABEL: "anywhere"})
    assert pod["spec"]["schedulingGates"] == [GATE]
    assert pod["metadata"]["labels"][names.MANAGED_LABEL] == "true"


def test_a_pod_that_wants_no_gpu_gets_nothing(system: Reviewed) -> None:
    pod = made(system)
    assert "schedulingGates" not in pod["spec"]
    assert not pod["metadata"].keys() & {"labels", "annotations"}


def test_a_pod_of_a_job_that_is_marked_as_managed_is_warned_about(system: Reviewed) -> None:
    pod = make_pod(labels={names.MANAGED_LABEL: "true", names.QUEUE_LABEL: "default"})
    pod["metadata"] = {
        "name": "p", "labels": pod["metadata"]["labels"],
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
        ],
    }  # fmt: skip
    cluster = system.cluster
    request = urllib.request.Request(
        f"{cluster.url}{pods(PLAIN)}?dryRun=All",
        json.dumps(pod).encode(),
        {"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"},
    )
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    with urllib.request.urlopen(request, context=context) as answer:
        warnings = answer.headers.get_all("Warning")
    assert (
        "299 - \"pod owner is managed by kueue, label 'kueue.x-k8s.io/managed=true' might lead to"
        ' unexpected behaviour"'
    ) in warnings


def test_only_queues_and_classes_named_default_are_given(system: Reviewed) -> None:
    pod = made(system, PLAIN, gpus=1)
    assert names.QUEUE_LABEL not in pod["metadata"].get("labels", {})
    assert system.api.get(f"{KUEUE}/namespaces/{PLAIN}/localqueues")["items"] == []
