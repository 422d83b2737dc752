"""What a user is told of a wait who may not read ClusterQueues."""

from typing import Any

import pytest
from typing_extensions import override

from admission.answers import why
from admission.answers.why import Answer, Numbers
from admission.base import conditions, names
from admission.kube import resources
from admission.kube.api import Page
from admission.kube.resources import Resource
from admission.objects import crds
from admission.reasons import reading
from admission.sandbox.store import Store
from tests.answers.rights import Lists, OfTeam, not_served, refused
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.metadata import Document, make_condition
from tests.builders.pods import make_pod
from tests.builders.queues import make_class, make_local_queue
from tests.builders.workloads import make_workload

GPU = names.GPU_RESOURCE
WAITS = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
    "flavor a100, 5 more needed"
)
SENTENCE = "Waits: needs 8 a100, 3 free of 16; about 40th in queue research; held by serving (9)."


class Team:
    """A namespace in which a Job waits, as a user of the team sees it."""

    def __init__(self, documents: list[Document]) -> None:
        self.store = Store(crds=documents)
        self.store.create(resources.NAMESPACES, make_namespace("ml"))
        self.store.create(resources.LOCAL_QUEUES, make_local_queue("default", "research", "ml"))
        self.say_of_queue(4)

    def say_of_queue(self, held: int) -> None:
        made = self.store.get(resources.LOCAL_QUEUES, "default", "ml")
        used = [{"name": "a100", "resources": [{"name": GPU, "total": str(held)}]}]
        status = {"pendingWorkloads": 1, "flavorsReservation": used}
        self.store.replace(
            resources.LOCAL_QUEUES, {**made, "status": status}, subresource="status"
        )

    def add_job(self, message: str = WAITS, reason: str = "WaitingForQuota") -> str:
        """Its uid."""
        labels = {names.QUEUE_LABEL: "default"}
        made = self.store.create(resources.JOBS, make_job("train", labels=labels), "ml")
        uid: str = made["metadata"]["uid"]
        self.add_workload(uid, message, reason)
        return uid

    def add_workload(self, uid: str, message: str, reason: str, name: str = "w") -> None:
        metadata = {"labels": {names.JOB_UID_LABEL: uid}}
        workload = make_workload(name, namespace="ml", queue="default", metadata=metadata)
        made = self.store.create(resources.WORKLOADS, workload)
        said = make_condition("QuotaReserved", "False", reason, message)
        requests = [{"name": "main", "resources": {GPU: "8"}}]
        status = {"conditions": [said], "resourceRequests": requests}
        self.store.replace(resources.WORKLOADS, {**made, "status": status}, subresource="status")

    def add_event(self, uid: str, note: str, at: str, reason: str = "WaitingForQuota") -> None:
        event = {
            "metadata": {"generateName": "e-", "namespace": "ml"},
            "regarding": {"kind": "Job", "name": "train", "namespace": "ml", "uid": uid},
            "reason": reason, "note": note, "type": "Warning", "eventTime": at,
        }  # fmt: skip
        self.store.create(resources.EVENTS, event)

    def ask(self, what: str = "job.batch/train", lists: Lists = not_served) -> Answer:
        api: Any = OfTeam(self.store, "ml", lists)
        return why.explain(api, "ml", what)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return crds.documents()


@pytest.fixture
def team(documents: list[Document]) -> Team:
    return Team(documents)


def at_place(number: int) -> Lists:
    """A list of a LocalQueue in which a Workload of the team is at a place, from 0."""

    def lists(resource: Resource, namespace: str) -> list[Document]:
        if not resource.plural.startswith("localqueues/default/"):
            raise refused(resource.plural)
        assert namespace == "ml"
        other = {"metadata": {"namespace": "ml", "name": "x"}, "positionInClusterQueue": 0}
        own = {"metadata": {"namespace": "ml", "name": "w"}, "positionInClusterQueue": number}
        return [other, own]

    return lists


def test_what_a_job_asks_and_what_is_free_follow_from_its_own_condition(team: Team) -> None:
    team.add_job()
    answer = team.ask()
    assert answer.message == "Waits: needs 8 a100, 3 free."
    assert answer.numbers == (Numbers(flavor="a100", resource=GPU, asks=8, free=3),)
    assert answer.notes == (
        "LocalQueue default holds 4 a100; 1 Workload waits in it",
        "start not known: your user may not read other queues and what runs in them",
        "what is free is as of the last update of its condition, and may be more or less now",
    )
    assert answer.advice == (
        "wait, or ask for at most 3 a100; what your team holds: kubectl gpu who -n ml"
    )


def test_where_the_queue_has_no_quota_of_a_flavor_nobody_is_told_to_ask_for_less(
    team: Team,
) -> None:
    never = (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
        "h100, previously considered podsets requests (0) + current podset request (1) > maximum "
        "capacity (0)"
    )
    team.add_job(never, "ExceedsMaxQuota")
    answer = team.ask()
    assert answer.message == "Too big: asks 1 h100, research can reach 0."
    assert answer.advice == (
        "ask for another flavor, of which research has quota, or have quota of this one added"
    )


def test_what_can_never_be_given_is_told_as_the_condition_has_it(team: Team) -> None:
    never = (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
        "a100, previously considered podsets requests (0) + current podset request (8) > maximum "
        "capacity (6)"
    )
    team.add_job(never, "ExceedsMaxQuota")
    answer = team.ask()
    assert answer.message == "Too big: asks 8 a100, research can reach 6."
    assert not any("start not known" in note for note in answer.notes)
    assert answer.numbers == (Numbers(flavor="a100", resource=GPU, asks=8, reach=6),)


def test_an_event_tells_that_no_node_is_as_large_as_one_pod_asks(team: Team) -> None:
    never = (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
        "a100, previously considered podsets requests (0) + current podset request (8) > maximum "
        "capacity (6)"
    )
    beyond = "Too big: a pod asks 8 a100, the largest node has 4."
    at = "2026-01-01T00:02:00.000000Z"
    team.add_event(team.add_job(never, "ExceedsMaxQuota"), beyond, at, "ExceedsLargestNode")
    answer = team.ask()
    assert (answer.reason, answer.message) == ("ExceedsLargestNode", beyond)
    assert answer.advice.startswith("create it again and ask for at most 4 in one pod")
    assert not any("event" in note for note in answer.notes)


def test_the_list_of_the_own_local_queue_tells_the_exact_place(team: Team) -> None:
    team.add_job()
    answer = team.ask(lists=at_place(11))
    assert (answer.place, answer.is_about) == (12, False)
    assert answer.message == "Waits: needs 8 a100, 3 free; 12th in queue research."


def test_a_job_is_told_what_its_last_event_said_as_long_as_its_condition_says_the_same(
    team: Team,
) -> None:
    uid = team.add_job()
    team.add_event(uid, SENTENCE.replace("40th", "50th"), "2026-01-01T00:01:00.000000Z")
    team.add_event(uid, SENTENCE, "2026-01-01T00:02:00.000000Z")
    answer = team.ask()
    assert (answer.message, answer.place, answer.is_about) == (SENTENCE, 40, True)
    assert answer.notes[-1] == (
        "what is free, its place and who holds the rest are as of 2026-01-01T00:02:00Z, when its"
        " event said so"
    )
    exact = team.ask(lists=at_place(11))
    assert (exact.place, exact.is_about) == (12, False)
    assert exact.message == SENTENCE.replace("about 40th", "12th")
    assert exact.notes[-1] == (
        "what is free and who holds the rest are as of 2026-01-01T00:02:00Z, when its event said"
        " so"
    )


def test_an_event_with_other_numbers_than_the_condition_tells_only_what_can_be_reached(
    team: Team,
) -> None:
    said = SENTENCE.replace("3 free", "30 free")
    team.add_event(team.add_job(), said, "2026-01-01T00:02:00.000000Z")
    answer = team.ask()
    assert (answer.place, answer.is_about) == (None, False)
    assert answer.message == "Waits: needs 8 a100, 3 free of 16."
    assert [(each.free, each.reach) for each in answer.numbers] == [(3, 16)]
    assert not any("event" in note for note in answer.notes)


def test_an_event_is_a_note_with_its_time_where_the_condition_has_no_numbers(team: Team) -> None:
    uid = team.add_job("The workload is waiting", "WaitingForQuota")
    team.add_event(uid, SENTENCE, "2026-01-01T00:02:00.000000Z")
    assert f"its event said at 2026-01-01T00:02:00Z: {SENTENCE}" in team.ask().notes


@pytest.mark.parametrize(
    ("sentence", "smaller"),
    [
        ("Waits: needs 8 a100, 3 free of 16; 1st in queue research.", "3 a100"),
        ("Waits: needs 8 a100, 0 free of 16.", ""),
        ("Waits: needs 8 GPUs; a100 3 free of 16, h100 1 free of 8.", "3 a100 or 1 h100"),
        (
            (
                "Waits: needs 16 a100, 1 free of 24; a request for at most 10 a100 would stop"
                " work of others that borrows."
            ),
            "10 a100, which stops work of others",
        ),
        ("Waits: needs 2 a100, 4 free of 8; queue research may borrow no a100.", ""),
    ],
)
def test_a_smaller_request_is_as_large_as_what_is_free(sentence: str, smaller: str) -> None:
    assert reading.smaller_request(sentence) == smaller


def test_an_event_tells_of_sick_gpus_what_the_condition_cannot(team: Team) -> None:
    missing = "Waits: needs 8 a100, 3 free of 8; 8 more promised, but sick or missing."
    at = "2026-01-01T00:02:00.000000Z"
    team.add_event(team.add_job(), missing, at, "CapacityMissing")
    answer = team.ask()
    assert (answer.reason, answer.message) == ("CapacityMissing", missing)


@pytest.mark.parametrize(
    ("at", "reason", "uid"),
    [
        ("2025-12-31T23:00:00.000000Z", "WaitingForQuota", ""),
        ("2026-01-01T00:02:00.000000Z", "PendingEvaluation", ""),
        ("2026-01-01T00:02:00.000000Z", "WaitingForQuota", "another"),
    ],
    ids=["before it waited", "for another reason", "of something else"],
)
def test_an_event_that_is_not_of_this_wait_tells_nothing(
    team: Team, at: str, reason: str, uid: str
) -> None:
    own = team.add_job()
    team.add_event(uid or own, SENTENCE, at, reason)
    answer = team.ask()
    assert answer.place is None
    assert not any("event" in one for one in answer.notes)


def pod_that_waits(team: Team, lists: Lists = not_served) -> Answer:
    """The answer for a pod whose own condition says a place."""
    own = make_condition(conditions.POD_ADMITTED, "False", "WaitingForQuota", SENTENCE)
    labels = {names.MANAGED_LABEL: "true", names.QUEUE_LABEL: "default"}
    made = team.store.create(resources.PODS, make_pod("p", namespace="ml", labels=labels))
    status = {**made, "status": {"conditions": [own]}}
    team.store.replace(resources.PODS, status, subresource="status")
    team.add_workload(made["metadata"]["uid"], WAITS, "WaitingForQuota")
    return team.ask("p", lists)


def test_a_pod_keeps_the_sentence_of_its_condition_and_its_place_is_about(team: Team) -> None:
    answer = pod_that_waits(team)
    assert (answer.message, answer.place, answer.is_about) == (SENTENCE, 40, True)
    assert [(one.asks, one.free) for one in answer.numbers] == [(8, 3)]
    assert team.ask("p", at_place(37)).place == 38


def test_what_is_free_is_not_told_where_several_pod_sets_share_it(team: Team) -> None:
    team.add_job()
    stored = team.store.get(resources.WORKLOADS, "w", "ml")
    requests = [{"name": name, "resources": {GPU: "4"}} for name in ("head", "workers")]
    stored["status"]["resourceRequests"] = requests
    team.store.replace(resources.WORKLOADS, stored, subresource="status")
    answer = team.ask()
    assert [(one.asks, one.free) for one in answer.numbers] == [(4, None), (4, None)]


def test_what_could_not_be_read_names_the_roles_that_would_show_it(team: Team) -> None:
    def refuses(resource: Resource, _namespace: str) -> list[Document]:
        raise refused(resource.plural)

    team.add_job()
    queues, cohorts, place = team.ask(lists=refuses).missing
    shown = "are not shown: you may not list them; shown by ClusterRole gpu-admission"
    assert queues == f"ClusterQueues {shown}-clusterqueue-viewer-role"
    assert cohorts == f"Cohorts {shown}-cohort-viewer-role"
    assert place == (
        "The exact place is not shown: you may not read who waits in LocalQueue default; shown by"
        " ClusterRole gpu-admission-pending-workloads-lq-viewer-role"
    )


def test_the_document_marks_what_is_about_and_what_is_not_known(team: Team) -> None:
    found = why.document(pod_that_waits(team))
    assert (found["place"], found["placeIsAbout"]) == (40, True)
    assert found["quota"] == [
        {
            "flavor": "a100", "resource": GPU, "asks": "8", "free": "3", "reach": "16",
            "nominal": None, "heldBy": None,
        }
    ]  # fmt: skip


class WithoutReplicaSets(OfTeam):
    """A store as it is seen by who may not list ReplicaSets."""

    @override
    def list(self, resource: Resource, namespace: str = "", **more: Any) -> Page[Any]:
        if resource == resources.REPLICA_SETS:
            raise refused(resource.plural)
        return super().list(resource, namespace, **more)


def test_who_may_not_list_replica_sets_is_told_that_labels_decide(team: Team) -> None:
    chat = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": "chat"}}},
    }  # fmt: skip
    team.store.create(resources.DEPLOYMENTS, chat)
    pod = make_pod("chat-0", namespace="ml", labels={"app": "chat"})
    team.store.create(resources.PODS, pod)
    api: Any = WithoutReplicaSets(team.store, "ml")
    answer = why.explain(api, "ml", "deploy/chat")
    assert [one.name for one in answer.parts] == ["pod/chat-0"]
    assert any(one.endswith("you may not list ReplicaSets") for one in answer.missing)


def add_waiting_pods(team: Team, places: dict[str, str]) -> None:
    """A Deployment whose pods wait, each at the place that its condition says."""
    chat = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": "chat"}}},
    }  # fmt: skip
    team.store.create(resources.DEPLOYMENTS, chat)
    for name, place in places.items():
        own = make_condition(
            conditions.POD_ADMITTED,
            "False",
            "WaitingForQuota",
            SENTENCE.replace("about 40th", place),
        )
        labels = {names.MANAGED_LABEL: "true", names.QUEUE_LABEL: "default", "app": "chat"}
        pod = make_pod(name, namespace="ml", labels=labels)
        made = team.store.create(resources.PODS, pod)
        status = {**made, "status": {"conditions": [own]}}
        team.store.replace(resources.PODS, status, subresource="status")
        team.add_workload(made["metadata"]["uid"], WAITS, "WaitingForQuota", f"w-{name}")


def ask_without_replica_sets(team: Team, lists: Lists = not_served) -> Answer:
    api: Any = WithoutReplicaSets(team.store, "ml", lists)
    return why.explain(api, "ml", "deploy/chat")


@pytest.mark.parametrize(
    ("places", "words", "place"),
    [
        ({"a": "5th", "b": "1st", "c": "7th"}, "1st to 7th", 1),
        ({"a": "about 40th", "b": "9th"}, "about 9th to 40th", 9),
        ({"a": "3rd"}, "3rd", 3),
    ],
)
def test_a_deployment_says_the_first_and_the_last_place_of_its_pods(
    team: Team, places: dict[str, str], words: str, place: int
) -> None:
    add_waiting_pods(team, places)
    answer = ask_without_replica_sets(team)
    assert f"; {words} in queue research;" in answer.message
    assert answer.place == place


def test_places_of_a_deployment_are_exact_where_they_are_served(team: Team) -> None:
    def lists(resource: Resource, namespace: str) -> list[Document]:
        if not resource.plural.startswith("localqueues/default/"):
            raise refused(resource.plural)
        return [
            {"metadata": {"namespace": namespace, "name": name}, "positionInClusterQueue": number}
            for name, number in (("w-a", 12), ("w-b", 2))
        ]

    add_waiting_pods(team, {"a": "5th", "b": "9th"})
    answer = ask_without_replica_sets(team, lists)
    assert "; 3rd to 13th in queue research;" in answer.message
    assert (answer.place, answer.is_about) == (3, False)


NOT_FOUND = 'WorkloadPriorityClass "nope" not found'


def make_job_of_class(team: Team, name: str = "nope") -> str:
    """Its uid; the controller has made no Workload for it."""
    labels = {names.QUEUE_LABEL: "default", names.PRIORITY_CLASS_LABEL: name}
    made = team.store.create(resources.JOBS, make_job("train", labels=labels), "ml")
    uid: str = made["metadata"]["uid"]
    return uid


def test_a_job_whose_class_does_not_exist_says_so_and_which_there_are(team: Team) -> None:
    make_job_of_class(team)
    for name in ("low", "high"):
        team.store.create(resources.WORKLOAD_PRIORITY_CLASSES, make_class(name, 1))
    answer = why.explain(team.store, "ml", "job.batch/train")
    assert (answer.reason, answer.message) == (
        conditions.PRIORITY_CLASS_NOT_FOUND,
        f"Waits: {NOT_FOUND}.",
    )
    assert answer.notes == ("WorkloadPriorityClasses that exist: high, low",)
    assert answer.advice.startswith("name a class that exists")


def test_who_may_not_read_classes_is_told_by_the_event(team: Team) -> None:
    uid = make_job_of_class(team)
    at = "2026-01-01T00:02:00.000000Z"
    note = f"{NOT_FOUND}; the cluster has high, low"
    team.add_event(uid, note, at, conditions.PRIORITY_CLASS_NOT_FOUND)
    answer = team.ask()
    assert answer.message == f"Waits: {note}."
    (missing,) = answer.missing
    assert missing == (
        "The classes that exist are not shown: you may not list WorkloadPriorityClasses; shown by"
        " ClusterRole gpu-admission-workloadpriorityclass-viewer-role"
    )


def test_an_event_about_a_class_that_exists_by_now_tells_nothing(team: Team) -> None:
    uid = make_job_of_class(team)
    at = "2026-01-01T00:02:00.000000Z"
    note = f"{NOT_FOUND}; the cluster has none"
    team.add_event(uid, note, at, conditions.PRIORITY_CLASS_NOT_FOUND)
    team.store.create(resources.WORKLOAD_PRIORITY_CLASSES, make_class("nope", 1))
    answer = why.explain(team.store, "ml", "job.batch/train")
    assert answer.reason == "NoWorkload"


@pytest.mark.parametrize(
    ("reason", "note"),
    [
        (conditions.PRIORITY_CLASS_NOT_FOUND, 'PriorityClass "nope" not found'),
        (conditions.PREBUILT_NOT_FOUND, 'Prebuilt workload "ml/made" not found'),
    ],
)
def test_an_event_tells_what_else_a_job_without_workload_lacks(
    team: Team, reason: str, note: str
) -> None:
    labels = {names.QUEUE_LABEL: "default"}
    made = team.store.create(resources.JOBS, make_job("train", labels=labels), "ml")
    team.add_event(made["metadata"]["uid"], note, "2026-01-01T00:02:00.000000Z", reason)
    assert note in team.ask().message


def test_a_waiting_job_that_names_a_missing_class_says_that_its_priority_stays(team: Team) -> None:
    uid = make_job_of_class(team)
    team.add_workload(uid, WAITS, "WaitingForQuota")
    answer = why.explain(team.store, "ml", "job.batch/train")
    assert answer.notes[:2] == (
        f"Without effect: {NOT_FOUND}, so its priority stays as it was",
        "WorkloadPriorityClasses that exist: none",
    )
