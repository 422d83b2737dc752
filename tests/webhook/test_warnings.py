"""What kubectl prints when something is created: each situation, for every kind of work."""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient

from admission.base import names
from admission.kube import resources
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.sandbox.embedded.reviews import WebhookCaller, WriteOperation
from admission.sandbox.store import Store
from admission.webhook.admission_warnings import LONGEST
from admission.webhook.decoding import GroupVersionKind
from tests.builders.cluster import namespace_view
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod, template_of
from tests.builders.queues import flavor_view, make_cluster_queue, make_local_queue
from tests.owners import samples
from tests.webhook import reviews

GPU, MIG = names.GPU_RESOURCE, "nvidia.com/mig-1g.10gb"
LABEL = names.QUEUE_LABEL
OLD = "2025-01-01T00:00:00Z"
VERDICTS = (
    "Too big: ",
    "Rewritten: ",
    "May wait:",
    "No queue: ",
    "Waits: ",
    "Never starts as it is: ",
    "Too many: ",
    "Check the unit: ",
    "Sees one: ",
)
Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is created where, and what is said of it.

    Attributes:
        gpus: that each pod asks for.
        memory: that each pod asks for; empty for none.
        profile: that its annotation wishes for.
        queue: the LocalQueue that it names; empty for none.
        local_queues: those that there are.
        quota: of the ClusterQueue.
        annotations: of the LocalQueues.
        pending: how many Workloads wait in the ClusterQueue.
        reserved: what is reserved of its quota.
        said: parts of one warning; none where nothing is said.
    """

    gpus: int = 1
    memory: str = ""
    profile: str = ""
    queue: str = "team"
    local_queues: tuple[str, ...] = ("team",)
    quota: int = 100
    annotations: Mapping[str, str] = field(default_factory=dict)
    pending: int = 0
    reserved: int = 0
    said: tuple[str, ...] = ()


SITUATIONS = {
    "fits": Situation(),
    "too big": Situation(
        gpus=999, quota=16,
        said=("Too big: ", "gpus can reach 16. "),
    ),
    "over a cap": Situation(
        gpus=9, annotations={names.MAX_PER_USER: f"{GPU}=8"},
        said=("Too big: asks ", "a user may hold at most 8 in queue team (max-per-user)"),
    ),
    "rewritten": Situation(
        profile="1g.10gb", said=("Rewritten: ", f"1 {MIG} instead of 1 {GPU}"),
    ),
    "memory without a unit": Situation(
        memory="64", said=("Check the unit: container ", "64 memory is less than 1Mi"),
    ),
    "others wait, but for more than is free": Situation(pending=37),
    "others wait": Situation(
        pending=37, reserved=100,
        said=(
            "May wait: less is free in ClusterQueue gpus than it asks for, and about 40 others ",
            "wait. See: kubectl gpu queue team-a/team",
        ),
    ),
    "nobody waits, and nothing is free": Situation(
        reserved=100,
        said=("May wait: less is free in ClusterQueue gpus than it asks for. See: kubectl gpu ",),
    ),
    "a queue that is not there": Situation(
        queue="x", local_queues=("a", "b"),
        said=("Waits: LocalQueue x does not exist in its namespace. ", "to one of a, b"),
    ),
    "a queue that is not there beside many": Situation(
        queue="reserch", local_queues=(*"abcdef", "research"),
        said=("Waits: LocalQueue reserch does not exist", "to one of research, a, b, c, d, ..., "),
    ),
    "a queue that is not there, nor another": Situation(
        queue="x", local_queues=(),
        said=("Waits: LocalQueue x does not exist", "Ask an administrator for a LocalQueue"),
    ),
    "no queue named": Situation(
        queue="", local_queues=("a", "b"),
        said=(f"No queue: it takes {GPU} outside every queue. ", f"{LABEL} to one of a, b"),
    ),
    "no queue in the namespace": Situation(
        queue="", local_queues=(),
        said=("No queue: namespace team-a has none", "Ask an administrator for a LocalQueue"),
    ),
}  # fmt: skip


def serving(api_version: str, kind: str, spec: Document) -> Document:
    metadata = {"name": "web", "namespace": "team-a"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def app(kind: str) -> Document:
    template = {"metadata": {"labels": {"app": "web"}}, **template_of(make_pod(""))}
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    more = {"strategy": strategy} if kind == "Deployment" else {"serviceName": "web"}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": 1, "selector": selector, "template": template, **more}
    return serving("apps/v1", kind, spec)


def leader_worker_set() -> Document:
    template = {"workerTemplate": template_of(make_pod("")), "size": 2}
    return serving(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": template}
    )


def volcano_job() -> Document:
    tasks = [{"name": "main", "replicas": 1, "template": template_of(make_pod(""))}]
    return serving("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 1, "tasks": tasks})


KINDS: dict[str, Document] = {
    "Pod": make_pod("train", namespace="team-a"),
    "Job": make_job("train", 1, namespace="team-a"),
    "Deployment": app("Deployment"),
    "StatefulSet": app("StatefulSet"),
    "LeaderWorkerSet": leader_worker_set(),
    "Volcano Job": volcano_job(),
    **{one.row.kind: one.manifest for one in samples.ALL},
}


def pod_templates(found: Any) -> Iterator[tuple[Document, Document]]:
    """Yield what holds the metadata of pods, and their spec, wherever they stand."""
    if isinstance(found, list):
        for one in found:
            yield from pod_templates(one)
    elif isinstance(found, dict):
        spec = found.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield found, spec
        else:
            for one in found.values():
                yield from pod_templates(one)


def created(kind: str, situation: Situation) -> Document:
    document = copy.deepcopy(KINDS[kind])
    for holder, spec in pod_templates(document):
        limits = {GPU: str(situation.gpus)}
        if situation.memory:
            limits["memory"] = situation.memory
        spec["containers"][0]["resources"] = {"limits": limits, "requests": dict(limits)}
        if situation.profile:
            metadata = holder.setdefault("metadata", {})
            metadata.setdefault("annotations", {})[names.MIG_PROFILE] = situation.profile
    document["metadata"]["namespace"] = "team-a"
    document["metadata"].pop("labels", None)
    if situation.queue:
        document["metadata"]["labels"] = {LABEL: situation.queue}
    return document


def webhook(situation: Situation) -> FlaskClient:
    """The webhook of a cluster with one ClusterQueue, and LocalQueues of it."""
    cache = reviews.make_knowledge()
    cache.replace(resources.NAMESPACES, [])  # another creation time alone is no news
    cache.upsert(resources.NAMESPACES, namespace_view(created=OLD))
    flavor = (
        flavor_view("a", "A100-SXM4-80GB", mig_profile="1g.10gb")
        if situation.profile
        else flavor_view("a", "A100-SXM4-80GB")
    )
    cache.upsert(resources.RESOURCE_FLAVORS, flavor)
    name = MIG if situation.profile else GPU
    reserved = [{"name": name, "total": str(situation.reserved)}]
    status = {
        "pendingWorkloads": situation.pending,
        "flavorsReservation": [{"name": "a", "resources": reserved}],
    }
    queue = make_cluster_queue(quotas={"a": {name: situation.quota}}, status=status)
    cache.upsert(resources.CLUSTER_QUEUES, msgspec.convert(queue, ClusterQueue))
    for one in situation.local_queues:
        local = make_local_queue(one, namespace="team-a")
        local["metadata"]["annotations"] = dict(situation.annotations)
        cache.upsert(resources.LOCAL_QUEUES, msgspec.convert(local, LocalQueue))
    return reviews.make_app(cache).test_client()


def gvk(document: Document) -> GroupVersionKind:
    group, _, version = document["apiVersion"].rpartition("/")
    return GroupVersionKind(group, version, document["kind"])


def said(client: FlaskClient, document: Document) -> list[str]:
    kind = gvk(document)
    names_ = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    review = reviews.make_review(document, kind=names_, dryRun=True)
    answer = reviews.post(client, kind.mutate_path(), review)["response"]
    assert answer["allowed"], answer
    return [str(one) for one in answer.get("warnings", [])]


def check(found: list[str], situation: Situation) -> None:
    ours = [text for text in found if text.startswith(VERDICTS)]
    assert all(len(text) <= LONGEST for text in found)
    if situation.said:
        matching = [text for text in ours if all(part in text for part in situation.said)]
        assert matching, found
        assert matching[0].startswith(situation.said[0])
    else:
        assert not ours


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_told_the_same(kind: str, situation: str) -> None:
    one = SITUATIONS[situation]
    check(said(webhook(one), created(kind, one)), one)


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Pod"])
def test_a_queue_of_a_pod_template_that_is_not_there_is_told_with_and_without_gpus(
    kind: str, gpus: int
) -> None:
    """The pods name the queue, and nobody reads the warnings about them."""
    one = Situation(gpus=gpus, queue="", local_queues=("archive", "research"))
    document = created(kind, one)
    templates = [holder for holder, _ in pod_templates(document)]
    for holder in templates:
        metadata = holder.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), LABEL: "reserch"}
        if not gpus:
            holder["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    texts = said(webhook(one), document)
    assert texts == [
        (
            "Waits: LocalQueue reserch does not exist in its namespace. Set the label "
            f"{LABEL} to one of research, archive, or have it created"
        )
    ]
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "u", "controller": True}
    ]
    assert said(webhook(one), document) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Pod"])
def test_a_misspelled_key_of_a_pod_template_is_told_though_it_asks_for_no_gpus(kind: str) -> None:
    one = Situation(queue="")
    document = created(kind, one)
    for holder, spec in pod_templates(document):
        spec["containers"][0]["resources"] = {}
        metadata = holder.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), "kueue.x-k8s.io/queue": "team"}
    (text,) = said(webhook(one), document)
    assert (
        text == f"Without effect: label kueue.x-k8s.io/queue is not known; did you mean {LABEL}?"
    )


IN_STORE = {"Pod": resources.PODS, "Job": resources.JOBS, "Deployment": resources.DEPLOYMENTS}


@pytest.mark.parametrize("dry_run", [False, True], ids=["create", "dry run"])
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", IN_STORE)
def test_who_creates_it_on_the_embedded_server_reads_it(
    kind: str, situation: str, dry_run: bool
) -> None:
    one, document = SITUATIONS[situation], created(kind, SITUATIONS[situation])
    client = webhook(one)

    def call(review: Mapping[str, Any]) -> Document:
        body = json.dumps(review).encode()
        return reviews.post(client, gvk(document).mutate_path(), body)

    found: list[str] = []
    store = Store(
        reviewers=[
            WebhookCaller(
                name="ours", resource=IN_STORE[kind], mutating=True, call=call,
                operations=frozenset({WriteOperation.CREATE}),
            )
        ],
        warn=found.append,
    )  # fmt: skip
    store.create(resources.NAMESPACES, {"metadata": {"name": "team-a"}})
    api = store.dry_run() if dry_run else store
    api.create(IN_STORE[kind], document, "team-a")
    check(found, one)


def test_what_a_controller_makes_is_not_warned_about() -> None:
    one = SITUATIONS["no queue named"]
    document = created("Pod", one)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    document["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    assert said(webhook(one), document) == []


def test_what_may_wait_ends_with_a_whole_command_also_where_names_are_long() -> None:
    name = "team-" + "n" * 50
    situation = Situation(pending=37, reserved=100, queue=name, local_queues=(name,))
    (text,) = said(webhook(situation), created("Pod", situation))
    assert text.endswith(f"See: kubectl gpu queue team-a/{name}")


@pytest.mark.parametrize(
    ("pending", "shown"),
    [
        (1, "1 other waits"),
        (10, "about 10 others wait"),
        (11, "about 10 others wait"),
        (96, "about 100 others wait"),
        (149, "about 100 others wait"),
        (1280, "about 1300 others wait"),
    ],
)
def test_how_many_wait_is_told_as_exactly_as_it_stays(pending: int, shown: str) -> None:
    one = Situation(pending=pending, reserved=100)
    (text,) = said(webhook(one), created("Pod", one))
    assert text.startswith(
        f"May wait: less is free in ClusterQueue gpus than it asks for, and {shown}. See"
    )


def test_pods_of_an_owner_that_serves_which_no_flavor_can_hold_are_told_before_they_come() -> None:
    one = Situation(profile="7g.80gb")
    (text,) = said(webhook(one), created("Deployment", one))
    assert text.startswith("Its pods will be refused: spec.template.")
