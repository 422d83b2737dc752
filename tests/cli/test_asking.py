"""``kubectl gpu top``, ``queue``, ``who``: for people, for programs, what they exit with."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from admission.answers.waiting import Place, Queue
from admission.base import names, patches
from admission.base.causes import QuotaInUse, QuotaTooSmall
from admission.cli import asking
from admission.cli import main as whole
from admission.cli import queue as queue_command
from admission.cli.kubectl import main
from admission.kube import resources
from admission.objects import crds
from admission.reasons import kueue
from admission.sandbox.store import Store
from tests.answers.clusters import GPU, gpu_node, holding, pod, queue, waiting
from tests.answers.rights import OfTeam
from tests.builders.cluster import make_namespace
from tests.builders.metadata import Document, make_condition
from tests.builders.queues import make_cohort, make_flavor, make_group, make_local_queue
from tests.cli.served import Served, served
from tests.clocks import FakeClock
from tests.controlplane import nodes

KINDS = {
    "ClusterQueue": resources.CLUSTER_QUEUES,
    "Cohort": resources.COHORTS,
    "LocalQueue": resources.LOCAL_QUEUES,
    "Node": resources.NODES,
    "Pod": resources.PODS,
    "ResourceFlavor": resources.RESOURCE_FLAVORS,
    "Workload": resources.WORKLOADS,
}
DOCUMENTS = [
    make_flavor("a100"),
    queue("research", 2, 4, pending=2),
    queue("prod", 8, 0),
    make_local_queue("research", "research"),
    make_local_queue("prod", "prod"),
    gpu_node("n1", 8),
    holding("w", "research", 4, annotations={names.REQUESTER: "ada"}),
    pod("p", "w", 4),
    waiting("soon", "research", 2, priority=5),
    waiting("late", "research", 1),
]


class World(Served):
    """A store with objects of Kueue's kinds."""

    def add(self, document: Document) -> None:
        resource = KINDS[document["kind"]]
        given = {"uid", "resourceVersion", "creationTimestamp", "ownerReferences"}
        metadata = {key: v for key, v in document["metadata"].items() if key not in given}
        made = self.store.create(resource, {**document, "metadata": metadata})
        if "status" in document:
            status = {**made, "status": document["status"]}
            self.store.replace(resource, status, subresource="status")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    clock = FakeClock()
    store = Store(clock=clock, crds=crds.documents())
    for namespace in ("ml", "team"):
        store.create(resources.NAMESPACES, make_namespace(namespace))
    folder = tmp_path_factory.mktemp("asking")
    with served(store, resources.BUILT_IN + resources.CUSTOM, folder) as kubeconfig:
        found = World(store, kubeconfig, clock=clock)
        for document in DOCUMENTS:
            found.add(document)
        yield found


def cells(line: str) -> list[str]:
    return line.split()


def test_top_shows_the_verdict_then_cohorts_queues_and_flavors(world: World) -> None:
    lines = world.lines("top")
    assert lines[0] == (
        f"{GPU}: 4 of 10 used, 8 exist and can be used, 3 asked for by waiting Workloads"
    )
    assert [cells(line) for line in lines[1:]] == [
        [
            "QUEUE",
            "FLAVOR",
            "NOMINAL",
            "USED",
            "BORROWED",
            "LENT",
            "RELEASING",
            "NO",
            "NODE",
            "PENDING",
        ],
        ["all/", "a100", "10", "4", "-", "-", "-", "-", "3"],
        ["prod", "a100", "8", "0", "-", "2", "-", "-", "-"],
        ["research", "a100", "2", "4", "2", "-", "-", "-", "3"],
        [],
        cells("FLAVOR NOMINAL USED RELEASING NO NODE REAL SICK OUTSIDE NODES"),
        ["a100", "10", "4", "-", "-", "8", "-", "-", "1"],
    ]


def test_top_shows_the_quota_of_a_cohort_alone_in_a_row_below_it(world: World) -> None:
    cohort = make_cohort("all", resourceGroups=[make_group({"a100": {GPU: 4}})])
    world.add(cohort)
    try:
        rows = [cells(line) for line in world.lines("top")[2:5]]
    finally:
        world.store.delete(resources.COHORTS, "all")
    assert rows == [
        ["all/", "a100", "14", "4", "-", "-", "-", "-", "3"],
        ["own", "quota", "a100", "4", "0", "-", "-", "-", "-", "-"],
        ["prod", "a100", "8", "0", "-", "-", "-", "-", "-"],
    ]


def test_gpus_that_pods_hold_outside_of_quota_are_told_by_top_and_who(world: World) -> None:
    stray = pod("notebook", "", 3)
    del stray["metadata"]["labels"]
    world.add(stray)
    try:
        top, everybody = world.lines("top"), world.lines("who")
        told = world.told("top")
    finally:
        world.store.delete(resources.PODS, "notebook", namespace="ml")
    assert top[0] == (
        f"{GPU}: 4 of 10 used, 8 exist and can be used, 3 more held outside of quota, 3 asked for "
        "by waiting Workloads"
    )
    assert cells(top[-1]) == ["a100", "10", "4", "-", "-", "8", "-", "3", "1"]
    assert told["outside"] == {GPU: "3"}
    assert everybody[0] == (
        f"everybody: 4 {GPU} held, 1 holder; 3 {GPU} held by 1 pod outside of quota"
    )
    rows = [cells(line) for line in everybody if "ml/" in line]
    assert [row[-1] for row in rows[:2]] == ["n1", "n1"], "what holds quota comes first"
    assert "ml/pod/notebook" in rows[1]


def test_top_of_one_queue_shows_it_alone(world: World) -> None:
    lines = world.lines("top", "prod")
    assert lines[0] == f"{GPU}: 0 of 8 used"  # its own quota, not that of all queues
    text = "\n".join(lines)
    assert "prod" in text
    assert "research" not in text
    assert "research" in "\n".join(world.lines("top", "all"))


def test_queue_shows_places_in_their_order(world: World) -> None:
    lines = world.lines("queue", "research")
    assert lines[0] == "queue research: 2 Workloads wait"
    rows = [cells(line) for line in lines[1:] if "OWNER" in line or "ml/workload/" in line]
    assert rows[0][:3] == ["PLACE", "ASKS", "OWNER"]
    assert [row[:4] for row in rows[1:]] == [
        ["1", "2", GPU, "ml/workload/soon"], ["2", "1", GPU, "ml/workload/late"],
    ]  # fmt: skip
    assert any(line.startswith("note: places follow priority and time") for line in lines)


@pytest.fixture
def other_team(world: World) -> Iterator[None]:
    """A Workload that holds quota and one that waits, of another namespace in the same queue."""
    kinds = {"Workload": resources.WORKLOADS, "LocalQueue": resources.LOCAL_QUEUES}
    documents = [
        make_local_queue("research", "research", "team"),
        holding("theirs", "research", 1),
        waiting("first", "research", 1, priority=9),
    ]
    for document in documents:
        document["metadata"]["namespace"] = "team"
        world.add(document)
    yield
    for document in documents:
        world.store.delete(kinds[document["kind"]], document["metadata"]["name"], "team")


@pytest.mark.usefixtures("other_team")
def test_with_a_namespace_and_no_name_only_what_is_in_it_is_shown(world: World) -> None:
    lines = world.lines("queue", "-n", "ml")
    assert lines[0] == "queue research: 2 Workloads of namespace ml wait"
    rows = [cells(line) for line in lines if "/workload/" in line]
    assert [(row[0], row[3]) for row in rows] == [
        ("2", "ml/workload/soon"), ("3", "ml/workload/late"),
    ]  # fmt: skip
    told = world.told("queue", "-n", "ml")["clusterQueues"]
    assert [(queue["namespace"], len(queue["waiting"])) for queue in told] == [("ml", 2)]
    assert world.lines("queue", "-n", "default") == ["Nobody waits in namespace default."]
    assert any("team/workload/first" in line for line in world.lines("queue"))
    assert any("team/workload/first" in line for line in world.lines("queue", "research"))

    lines = world.lines("who", "-n", "team")
    assert lines[0] == f"namespace team: 1 {GPU} held, 1 holder"
    told = world.told("who", "-n", "team")
    assert told["subject"] == {"kind": "namespace", "name": "team"}
    assert [holder["workload"] for holder in told["holders"]] == ["theirs"]
    assert world.lines("who", "-n", "default")[0] == "namespace default holds nothing"
    assert len(world.told("who", "research", "-n", "team")["holders"]) == 2

    queues = world.told("top", "-n", "team")["localQueues"]
    assert [(queue["namespace"], queue["name"]) for queue in queues] == [("team", "research")]
    assert world.lines("top", "-n", "team")[0].startswith("LocalQueue team/research holds")
    assert world.lines("top", "-n", "default")[0].startswith("There is no queue in namespace def")


def test_ages_follow_the_clock_that_the_command_was_called_with(world: World) -> None:
    """Two answers at one moment are equal, however long each of them takes."""
    later = FakeClock(world.clock.now() + timedelta(minutes=7))
    asked_later = World(world.store, world.kubeconfig, clock=later)
    for line in (("queue", "research"), ("who", "research")):
        (row, *_) = (row for row in asked_later.lines(*line) if "ml/workload/" in row)
        assert "7m" in cells(row)


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[World]:
    """A queue whose quota is held for at most twenty years, and two that wait for it."""
    store = Store(crds=crds.documents())
    store.create(resources.NAMESPACES, make_namespace("ml"))
    held = holding("w", "research", 2)
    held["spec"]["maximumExecutionTimeSeconds"] = 20 * 365 * 86_400
    said = ("WaitingForQuota", kueue.refusal(QuotaInUse(GPU, "a100", 2)))
    with served(store, resources.BUILT_IN + resources.CUSTOM, tmp_path) as kubeconfig:
        found = World(store, kubeconfig)
        for document in (
            make_flavor("a100"), queue("research", 2, 2, pending=2),
            make_local_queue("research", "research"), held,
        ):  # fmt: skip
            found.add(document)
        for priority, name in ((1, "soon"), (0, "late")):
            made = never(name, *said, gpus=2)
            made["spec"]["priority"] = priority
            found.add(made)
        yield found


def test_queue_says_why_nothing_is_known_of_when_they_start(timed: World) -> None:
    note = (
        "note: start not known: some of what holds their quota has no time limit: the label"
        " kueue.x-k8s.io/max-exec-time-seconds, or the annotation"
        " gpu-admission.dev/maximum-run-time of a queue"
    )
    assert note not in timed.lines("queue", "research")
    endless = patches.merge({"spec": {"maximumExecutionTimeSeconds": None}})
    timed.store.patch(resources.WORKLOADS, "w", endless, "ml")
    assert note in timed.lines("queue", "research")


def test_queue_says_once_that_a_member_may_not_read_what_tells_when_something_starts(
    timed: World, tmp_path: Path
) -> None:
    endless = patches.merge({"spec": {"maximumExecutionTimeSeconds": None}})
    timed.store.patch(resources.WORKLOADS, "w", endless, "ml")
    note = "note: not all is shown, nor when something starts: your user may not list "
    assert not any(line.startswith(note) for line in timed.lines("queue", "-n", "ml"))
    member: Any = OfTeam(timed.store, "ml")
    folder = tmp_path / "member"
    folder.mkdir()
    with served(member, resources.BUILT_IN + resources.CUSTOM, folder) as kubeconfig:
        lines = World(timed.store, kubeconfig).lines("queue", "-n", "ml")
    assert sum(line.startswith(note) for line in lines) == 1
    assert not any("time limit" in line for line in lines)


def test_queue_estimates_when_somebody_starts_and_says_on_what_that_depends(timed: World) -> None:
    lines = timed.lines("queue", "research")
    rows = [cells(line) for line in lines[1:] if "OWNER" in line or "ml/workload/" in line]
    assert rows[0][:3] == ["PLACE", "STARTS", "ASKS"]
    assert (rows[1][1], rows[1][2][-1]) == ("within", "d")
    assert "within" not in rows[2]  # the first may run for ever
    assert any(line.startswith("note: the column STARTS is an estimate") for line in lines)
    (found,) = timed.told("queue", "research")["clusterQueues"]
    starts = {one["workload"]: one["estimatedStart"] for one in found["waiting"]}
    assert starts["soon"].startswith("204")
    assert starts["late"] is None


def test_queue_takes_a_local_queue_and_shows_all_without_a_name(world: World) -> None:
    assert world.lines("queue", "ml/research")[0] == "queue ml/research: 2 Workloads wait"
    assert world.lines("queue")[0] == "queue research: 2 Workloads wait"
    assert world.lines("queue", "prod") == ["queue prod: nobody waits"]


def test_queue_shows_the_first_ones_and_says_how_many_there_are(world: World) -> None:
    lines = world.lines("queue", "research", "--limit", "1")
    assert "and 1 more; all of them: --limit 0" in lines
    assert not any("ml/workload/late" in line for line in lines)


@pytest.mark.parametrize("name", ["n1", "research", "ml/research", "ada"])
def test_who_finds_holders_by_node_queue_and_user(world: World, name: str) -> None:
    lines = world.lines("who", name)
    (row,) = [cells(line) for line in lines if "ml/workload/w " in line]
    assert row[:5] == ["4", GPU if name == "n1" else "a100", "2", "ml/workload/w", "ada"]
    assert row[-1] == "n1"
    assert f"4 {GPU}" in lines[0]


def test_who_shows_of_a_cohort_what_all_queues_below_it_hold(world: World) -> None:
    nested = queue("nested", 1, 1, cohortName="inner")
    inner = make_cohort("inner", parentName="all")
    for document in (inner, nested, holding("deep", "nested", 1)):
        world.add(document)
    try:
        assert world.told("who", "all")["subject"] == {"kind": "cohort", "name": "all"}
        assert [one["workload"] for one in world.told("who", "all")["holders"]] == ["deep", "w"]
        lines = world.lines("who", "inner")
        assert lines[0] == f"cohort inner: 1 {GPU} held, 1 holder"
        world.add(queue("inner", 1, 0))
        assert world.told("who", "inner")["subject"]["kind"] == "queue"
        assert len(world.told("who", "inner", "--kind", "cohort")["holders"]) == 1
        world.store.delete(resources.CLUSTER_QUEUES, "inner")
    finally:
        world.store.delete(resources.WORKLOADS, "deep", namespace="ml")
        world.store.delete(resources.CLUSTER_QUEUES, "nested")
        world.store.delete(resources.COHORTS, "inner")


def test_who_without_a_name_shows_everybody_who_holds_quota(world: World) -> None:
    told = world.told("who")
    assert told["subject"] == {"kind": "all", "name": ""}
    assert [holder["workload"] for holder in told["holders"]] == ["w"]
    verdict, *_ = world.lines("who")
    assert verdict == "everybody: 4 nvidia.com/gpu held, 1 holder"
    result = world.ask("who", "--kind", "queue")
    assert result.exit_code == 2
    assert "--kind says what a name is: add the name" in result.output


def test_who_says_what_may_take_it_back(world: World) -> None:
    lines = world.lines("who", "research")
    start = lines.index("may be taken back")
    assert lines[start + 1 : start + 3] == [
        "  ml/workload/w: by Workloads of queue research with a priority above 0",
        "  ml/workload/w: by queue prod when it needs its own quota",
    ]


def test_who_shows_how_much_a_user_and_all_work_of_a_queue_may_hold(world: World) -> None:
    capped = queue("capped", 8, 1)
    capped["metadata"]["annotations"] = {names.MAX_PER_USER: f"{GPU}=2, memory=64Gi"}
    local = make_local_queue("capped", "capped", "ml")
    local["metadata"]["annotations"] = {names.MAX_IN_USE: f"{GPU}=3"}
    held_there = holding("mine", "capped", 1)
    held_there["spec"]["queueName"] = "capped"
    for document in (capped, local, held_there):
        world.add(document)
    of_queue = {
        "kind": "ClusterQueue", "queue": "capped", "annotation": "max-per-user",
        "amounts": {GPU: "2", "memory": "64Gi"},
    }  # fmt: skip
    of_local = {
        "kind": "LocalQueue", "queue": "ml/capped", "annotation": "max-in-use",
        "amounts": {GPU: "3"},
    }  # fmt: skip
    note = f"note: a user may hold at most 2 {GPU}, 64Gi memory in queue capped (max-per-user)"
    try:
        assert world.told("who", "capped")["caps"] == [of_queue]
        assert note in " ".join(" ".join(world.lines("who", "capped")).split())
        assert world.told("who", "ml/capped")["caps"] == [of_local, of_queue]
        text = f"all work together may hold at most 3 {GPU} in queue ml/capped (max-in-use)"
        assert text in " ".join(" ".join(world.lines("who", "ml/capped")).split())
        user = world.told("who", "ml/capped")["holders"][0]["requester"]
        assert world.told("who", "--kind", "user", user)["caps"] == [of_local, of_queue]
        assert world.told("who", "prod")["caps"] == []
    finally:
        world.store.delete(resources.WORKLOADS, "mine", namespace="ml")
        world.store.delete(resources.LOCAL_QUEUES, "capped", namespace="ml")
        world.store.delete(resources.CLUSTER_QUEUES, "capped")


def test_a_member_sees_the_caps_before_they_hold_work(world: World, team: World) -> None:
    """Who may not read ClusterQueues has the cap of theirs from the status of the LocalQueue."""
    capped = queue("capped", 8, 0)
    capped["metadata"]["annotations"] = {names.MAX_PER_USER: f"{GPU}=2"}
    local = make_local_queue("capped", "capped", "ml")
    local["metadata"]["annotations"] = {names.MAX_IN_USE: f"{GPU}=3"}
    local["status"] = {"clusterQueueMaxPerUser": {GPU: "2"}}
    for document in (capped, local):
        world.add(document)
    of_queue = {
        "kind": "ClusterQueue", "queue": "capped", "annotation": "max-per-user",
        "amounts": {GPU: "2"},
    }  # fmt: skip
    of_local = {
        "kind": "LocalQueue", "queue": "ml/capped", "annotation": "max-in-use",
        "amounts": {GPU: "3"},
    }  # fmt: skip
    notes = [
        f"note: all work together may hold at most 3 {GPU} in queue ml/capped (max-in-use)",
        f"note: a user may hold at most 2 {GPU} in queue capped (max-per-user)",
    ]
    try:
        for person in (team, world):
            for line in (
                ("queue", "ml/capped"), ("who", "ml/capped"), ("top", "ml/capped"),
                ("top", "-n", "ml"),
            ):  # fmt: skip
                lines = person.lines(*line)
                assert [text for text in lines if "at most" in text] == notes, line
            (answer,) = person.told("queue", "ml/capped")["clusterQueues"]
            assert answer["caps"] == [of_local, of_queue]
            assert person.told("who", "ml/capped")["caps"] == [of_local, of_queue]
            (answer,) = person.told("top", "ml/capped")["localQueues"]
            assert answer["caps"] == [of_local, of_queue]
        (answer,) = world.told("queue", "capped")["clusterQueues"]
        assert answer["caps"] == [of_queue]
        assert notes[1] in world.lines("queue", "capped")
    finally:
        world.store.delete(resources.LOCAL_QUEUES, "capped", namespace="ml")
        world.store.delete(resources.CLUSTER_QUEUES, "capped")


def test_who_names_what_is_borrowed_though_no_gpu_is(world: World) -> None:
    thrifty = queue("thrifty", 8, 1)
    quotas = thrifty["spec"]["resourceGroups"][0]
    quotas["coveredResources"].append("cpu")
    quotas["flavors"][0]["resources"].append({"name": "cpu", "nominalQuota": 1})
    thrifty["status"]["flavorsReservation"][0]["resources"].append(
        {"name": "cpu", "total": "4", "borrowed": "3"}
    )
    greedy = holding("greedy", "thrifty", 1)
    assignment = greedy["status"]["admission"]["podSetAssignments"][0]
    assignment["flavors"]["cpu"] = "a100"
    assignment["resourceUsage"]["cpu"] = "4"
    for document in (thrifty, greedy):
        world.add(document)
    try:
        (row,) = [cells(line) for line in world.lines("who", "thrifty") if "greedy " in line]
        assert row[:4] == ["1", "a100", "3", "cpu"]
    finally:
        world.store.delete(resources.WORKLOADS, "greedy", namespace="ml")
        world.store.delete(resources.CLUSTER_QUEUES, "thrifty")


def test_who_says_of_a_node_how_many_gpus_it_has_and_not_what_they_are_worth(
    world: World,
) -> None:
    node = nodes.make_gpu_node("labelled", gpus=8)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    world.store.create(resources.NODES, node)
    (first, *_) = world.lines("who", "labelled")
    assert first == "node labelled: nothing held of 8 nvidia.com/gpu, 0 holders"


def test_who_says_that_the_single_gpu_of_a_pod_is_not_known(world: World) -> None:
    lines = world.lines("who", "n1/0")
    assert any("which GPU of a node a pod has is decided on the node" in line for line in lines)


@pytest.mark.parametrize("columns", [24, 40, 60, 80, 100])
@pytest.mark.parametrize(
    "command", [("top",), ("queue",), ("who", "n1"), ("who", "research")], ids=" ".join
)
def test_no_line_is_wider_than_the_terminal(
    world: World, command: tuple[str, ...], columns: int
) -> None:
    lines = world.lines(*command, columns=columns)
    assert [line for line in lines if len(line) > columns] == []


def test_columns_that_find_no_room_are_named(world: World) -> None:
    text = " ".join(world.lines("top", columns=60))
    assert "not shown for lack of room: borrowed, lent" in text


def test_each_answers_in_json(world: World) -> None:
    assert world.told("top")["kind"] == "QuotaUse"
    found = world.told("queue", "research")
    assert [one["workload"] for one in found["clusterQueues"][0]["waiting"]] == ["soon", "late"]
    who = world.told("who", "ada")
    assert who["subject"] == {"kind": "user", "name": "ada"}
    assert who["holders"][0]["held"][0]["borrowed"] == "2"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("top", "gone"), "there is no ClusterQueue and no Cohort 'gone'", "kubectl get"),
        (("queue", "gone"), "there is no queue 'gone'", "kubectl get clusterqueues"),
        (("who", "gone"), "'gone' is no node, queue, cohort or user", "kubectl gpu top"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_name_of_nothing_exits_with_1_and_says_what_to_do_next(
    world: World, arguments: tuple[str, ...], error: str, hint: str
) -> None:
    result = world.ask(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert error in result.stderr
    assert hint in result.stderr


def test_a_name_with_two_meanings_is_asked_about(world: World) -> None:
    world.add(queue("ada", 1, 0))
    try:
        result = world.ask("who", "ada")
        assert result.exit_code == 1
        assert "say which is meant: --kind queue or --kind user" in result.stderr
        assert world.told("who", "ada", "--kind", "queue")["holders"] == []
    finally:
        world.store.delete(resources.CLUSTER_QUEUES, "ada")


def test_who_knows_a_cluster_queue_that_only_a_local_queue_names(world: World) -> None:
    world.add(make_local_queue("behind", "unread"))
    try:
        assert world.told("who", "unread")["subject"] == {"kind": "queue", "name": "unread"}
    finally:
        world.store.delete(resources.LOCAL_QUEUES, "behind", namespace="ml")


@pytest.mark.parametrize("command", ["top", "queue", "who"])
def test_they_are_commands_of_both_programs_with_examples_and_exit_codes(command: str) -> None:
    for program in (main, whole.main):
        result = CliRunner().invoke(program, [command, "--help"])
        assert result.exit_code == 0
        assert f"kubectl gpu {command}" in result.stdout
        assert "Exit codes:" in result.stdout


def test_a_mistyped_queue_is_answered_with_similar_ones(world: World) -> None:
    for command in ("top", "queue", "who"):
        hint = world.ask(command, "reserch").stderr.splitlines()[1]
        assert hint.startswith("hint: did you mean research"), command
    assert world.ask("who", "nn1").stderr.splitlines()[1].startswith("hint: did you mean n1? ")


@pytest.mark.parametrize("command", ["top", "queue", "who"])
def test_an_error_is_a_document_where_json_is_asked_for(world: World, command: str) -> None:
    result = world.ask(command, "gone", "-o", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["kind"], found["code"]) == (1, "Error", "NotFound")
    assert result.stderr.startswith(f"error: {found['message']}")


TOO_BIG = kueue.refusal(QuotaTooSmall(GPU, "a100", 0, 64, 10))
GUARDED = kueue.refusal(QuotaTooSmall(GPU, "a100", 0, 9, 8))


def never(name: str, reason: str, message: str, gpus: int = 1) -> Document:
    made = waiting(name, "research", gpus)
    made["status"]["conditions"] = [make_condition("QuotaReserved", "False", reason, message)]
    made["metadata"]["annotations"] = {names.REQUESTER: "bob"}
    return made


@pytest.mark.parametrize(
    ("reason", "message", "is_never"),
    [
        ("ExceedsMaxQuota", TOO_BIG, True),
        ("ExceedsMaxQuota", GUARDED, False),
        ("NoMatchingFlavor", "flavor a100 doesn't match node affinity", True),
        ("WaitingForQuota", "resource cpu unavailable in ClusterQueue", True),
        ("WaitingForQuota", kueue.refusal(QuotaInUse(GPU, "a100", 2)), False),
    ],
    ids=["too big", "too big while GPUs are sick", "no flavor", "no quota for cpu", "it waits"],
)
def test_what_never_starts_as_it_is_is_marked(
    world: World, reason: str, message: str, is_never: bool
) -> None:
    world.add(never("big", reason, message))
    try:
        lines = world.lines("queue", "research")
        at = next(at for at, line in enumerate(lines) if "ml/workload/big" in line)
        row = cells(lines[at])
        assert ("never" in row[:2]) is is_never
        assert ("1 of them never starts as it is" in lines[0]) is is_never
        (found,) = world.told("queue", "research")["clusterQueues"]
        marks = {one["workload"]: one["neverStarts"] for one in found["waiting"]}
        assert marks == {"soon": False, "late": False, "big": is_never}
        note = "note: ml/workload/big waits and never starts as it is: "
        assert any(one.startswith(note) for one in world.lines("who", "research")) is is_never
        for name in ("research", "all"):
            told = [one["workload"] for one in world.told("who", name)["neverStart"]]
            assert told == ["big"] * is_never
    finally:
        world.store.delete(resources.WORKLOADS, "big", "ml")


def test_what_never_starts_is_told_once_per_cause_and_counted_by_top(world: World) -> None:
    for number in range(4):
        world.add(never(f"big-{number}", "ExceedsMaxQuota", TOO_BIG))
    try:
        notes = [line for line in world.lines("who", columns=300) if "never start" in line]
        verdict, *_ = world.lines("top", columns=300)
    finally:
        for number in range(4):
            world.store.delete(resources.WORKLOADS, f"big-{number}", "ml")
    (note,) = notes
    assert note.startswith(
        "note: 4 wait and never start as they are (ml/workload/big-0, ml/workload/big-1, "
        "ml/workload/big-2 and 1 more): "
    )
    asked, of_never = verdict.split(", ")[-2:]
    assert asked.endswith(" asked for by waiting Workloads")
    assert of_never.endswith(" of these by some that never start")
    assert int(of_never.split()[0]) == int(asked.split()[0]) - 3


def test_who_has_no_place_comes_after_those_that_have_one(world: World) -> None:
    first = never("big", "ExceedsMaxQuota", TOO_BIG)
    first["spec"]["priority"] = 100
    world.add(first)
    try:
        lines = world.lines("queue", "research")
    finally:
        world.store.delete(resources.WORKLOADS, "big", "ml")
    places = [cells(line)[0] for line in lines if "ml/" in line and cells(line)[0] != "next:"]
    assert places == ["1", "2", "-"]


def test_amounts_of_different_times_are_told_to_who_may_not_read_what_is_free() -> None:
    rows = tuple(
        waits_in("ml", name, place=place, reason="WaitingForQuota")
        for place, name in enumerate(("soon", "late"), 1)
    )
    note = "note: what each one needs is as of when it was last tried"
    for is_current, count in ((False, 2), (True, 2), (False, 1)):
        queue_ = Queue(name="research", waiting=rows[:count], exact=False, is_current=is_current)
        showing = queue_command._Showing({}, FakeClock().now(), every=False, unlimited=frozenset())
        lines = queue_command._lines(queue_, 20, 300, showing)
        is_told = any(line.startswith(note) for line in lines)
        assert is_told is (not is_current and count > 1)


def waits_in(namespace: str, name: str, *, place: int, reason: str) -> Place:
    return Place(
        place=place, local_place=place, namespace=namespace, workload=name, owner="",
        requester="", local_queue="research", priority=0, since="", asks={GPU: 1}, lowest={},
        message="Waits: needs 1 a100, 0 free.", reason=reason,
    )  # fmt: skip


WIDTHS = [80, 120]


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_number_of_gpus_is_never_cut_off(world: World, columns: int) -> None:
    """A request that also names cpu and memory, of an owner with a long name."""
    message = kueue.refusal(QuotaInUse(GPU, "a100", 2))
    made = never("pod-a-very-long-name-of-some-training-run-7f3a9", "WaitingForQuota", message)
    made["status"]["resourceRequests"] = [
        {"name": "main", "resources": {"cpu": "128", "memory": "2048Gi", GPU: "16"}}
    ]
    world.add(made)
    try:
        lines = world.lines("queue", "research", columns=columns)
        at = next(at for at, line in enumerate(lines) if f"16 {GPU}" in line)
        assert "cpu" not in lines[at]
        assert lines[at + 1].startswith("    Too big: asks 16 a100")
        every = world.lines("queue", "research", "--all-resources")
        assert any(f"16 {GPU}, 128 cpu, 2Ti memory" in line for line in every)
        held = world.lines("who", "research", columns=columns)
        assert held[1].startswith("HOLDS")
        assert held[2].startswith("4 a100 ")
    finally:
        world.store.delete(resources.WORKLOADS, made["metadata"]["name"], "ml")


def test_what_is_not_known_is_told_as_unknown(world: World, team: World) -> None:
    """Who may not read ClusterQueues cannot know what is borrowed, nor what will be free."""
    assert not any("BORROWED" in line for line in team.lines("who", "research", "-n", "ml"))
    lines = team.lines("who", "research", "-n", "ml", "-o", "wide")
    row = next(cells(line) for line in lines if "ml/workload/w" in line)
    assert row[:3] == ["4", "a100", "?"]
    (holder,) = team.told("who", "research", "-n", "ml")["holders"]
    assert holder["held"][0]["borrowed"] is None


@pytest.fixture
def team(world: World, tmp_path: Path) -> Iterator[World]:
    """The same as a user of the team ``ml`` sees it."""
    restricted: Any = OfTeam(world.store, "ml")
    with served(restricted, resources.BUILT_IN + resources.CUSTOM, tmp_path) as kubeconfig:
        yield World(world.store, kubeconfig, clock=world.clock)


NO_FREE = "note: not all is shown, nor what is free: your user may not list clusterqueues"
TRY = "whether a Job would wait: kubectl apply --dry-run=server -f FILE"


def test_top_shows_a_team_what_its_local_queues_say(world: World, team: World) -> None:
    stored = world.store.get(resources.LOCAL_QUEUES, "research", "ml")

    def of(amount: str) -> list[Document]:
        return [{"name": "a100", "resources": [{"name": GPU, "total": amount}]}]

    status = {
        "pendingWorkloads": 2, "flavorsReservation": of("4"), "flavorsUsage": of("3"),
        "nominalQuota": of("2"),
    }  # fmt: skip
    world.store.replace(resources.LOCAL_QUEUES, {**stored, "status": status}, subresource="status")
    lines = team.lines("top", "-n", "ml")
    assert lines[0] == f"{GPU}: 4 used in 2 LocalQueues, 3 asked for by waiting Workloads"
    assert [cells(line) for line in lines[1:3]] == [
        ["LOCALQUEUE", "CLUSTERQUEUE", "FLAVOR", "NOMINAL", "USED", "ADMITTED", "PENDING"],
        ["ml/research", "research", "a100", "2", "4", "3", "3"],
    ]
    notes = [line for line in lines if line.startswith("note: ")]
    borrowed, refused = notes
    assert borrowed == (
        "note: at least 2 of the 4 a100 in use in queue research are borrowed: work that holds "
        "them may be stopped"
    )
    assert refused == (
        f"{NO_FREE}; shown by ClusterRole gpu-admission-clusterqueue-viewer-role; {TRY}"
    ), "what is outside of the namespace was not asked for"
    for line in (("who", "-n", "ml"), ("why", "workload/w", "-n", "ml")):
        assert borrowed in team.lines(*line)
    of_team = [line for line in team.lines("who", "-n", "ml") if line.startswith(NO_FREE)]
    assert [line.endswith(TRY) for line in of_team] == [True]
    who = world.lines("who", "-n", "ml")
    assert borrowed not in who
    for shown in (*who, *world.lines("top", "-n", "ml")):
        assert not shown.startswith(NO_FREE)
    assert team.lines("top", "research", "-n", "ml")[1:3] == lines[1:3]
    (found,) = (
        one for one in team.told("top", "-n", "ml")["localQueues"] if one["name"] == "research"
    )
    assert found["used"] == [
        {"flavor": "a100", "resource": GPU, "nominal": "2", "used": "4", "admitted": "3"}
    ]


def test_why_names_to_a_team_the_roles_that_would_show_more_in_one_note(
    world: World, team: World
) -> None:
    short = kueue.refusal(QuotaInUse(GPU, "a100", 2))
    world.add(never("small", "WaitingForQuota", short))
    stored = world.store.get(resources.LOCAL_QUEUES, "research", "ml")
    nominal = [{"name": "a100", "resources": [{"name": GPU, "total": "2"}]}]
    status = {**stored.get("status", {}), "nominalQuota": nominal}
    world.store.replace(resources.LOCAL_QUEUES, {**stored, "status": status}, subresource="status")
    try:
        lines = team.lines("why", "workload/small", "-n", "ml")
    finally:
        world.store.delete(resources.WORKLOADS, "small", "ml")
    assert cells(lines[5]) == ["FLAVOR", "RESOURCE", "ASKS", "FREE", "OWN"]
    assert cells(lines[6]) == ["a100", GPU, "1", "0", "2"]
    assert lines[-2] == (
        "note: not all is shown, nor when it starts: your user may not list clusterqueues, "
        "cohorts; shown by ClusterRoles gpu-admission-clusterqueue-viewer-role, "
        "gpu-admission-cohort-viewer-role"
    )
    assert not any("start not known" in line for line in lines)


def test_what_may_not_be_read_is_one_note() -> None:
    missing = (
        "ClusterQueues are not shown: you may not list them; shown by ClusterRole r",
        "Pods are not shown outside namespace ml: you may not list them",
        "Cohorts are not shown: you may not list them",
        "Its nodes are not shown: you may not list pods of ml",
        "LocalQueues are not shown: you may not list them, nor those of namespace ml",
        "The exact place is not shown: you may not read who waits in LocalQueue default",
        "Workload ml/w is left out: it has no name",
    )
    assert asking.not_shown(missing, 500) == [
        "note: Workload ml/w is left out: it has no name",
        (
            "note: not all is shown: your user may not list clusterqueues, cohorts, pods of ml, "
            "localqueues, nor pods outside namespace ml, nor read who waits in LocalQueue default;"
            " shown by ClusterRole r"
        ),
    ]
    assert asking.not_shown((), 500, unknown="what is free", step="try it") == [
        "note: what is free is not known to your user; try it"
    ]
    assert asking.not_shown(missing[1:2], 500) == [
        "note: not all is shown: your user may not list pods outside namespace ml"
    ]
    assert asking.not_shown(missing[1:2], 500, only="ml") == []


def test_a_name_is_not_broken_at_a_hyphen() -> None:
    name = "gpu-admission-clusterqueue-viewer-role"
    lines = asking.not_shown((f"Workload {name}",), 45)
    assert len(lines) == 2
    assert lines[1].split()[0] == name


def test_what_users_write_moves_no_cursor_and_adds_no_line(world: World) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07eve\r\nqueue research: nobody waits\x9b31m\u202egnp"
    world.add(holding("hostile", "prod", 1, annotations={names.REQUESTER: hostile}))
    try:
        for asked in (("who", "prod"), ("who", hostile, "--kind", "user")):
            for columns in (0, 200):
                text = world.ask(*asked, columns=columns, color=True).stdout
                assert "eve" in text
                assert all(one.isprintable() for one in text.splitlines())
                assert "queue research: nobody waits" not in text.splitlines()
    finally:
        world.store.delete(resources.WORKLOADS, "hostile", "ml")


def test_a_local_queue_is_read_in_the_namespace_that_is_typed(world: World, team: World) -> None:
    """The context has another namespace, and the user may not read all of them."""
    assert team.told("who", "ml/research")["subject"] == {"kind": "queue", "name": "ml/research"}
    assert [one["workload"] for one in team.told("who", "ml/research")["holders"]] == ["w"]
    for asked in (team, world):
        (found,) = asked.told("top", "ml/research")["localQueues"]
        assert (found["namespace"], found["name"]) == ("ml", "research")
    for command in ("who", "top", "queue"):
        line = (command, "ml/research", "-n", "team")
        assert team.lines(*line) == team.lines(command, "ml/research")


@pytest.mark.parametrize(
    ("command", "step"),
    [
        ("top", "its queues: kubectl get localqueues"),
        ("queue", "its queues: kubectl get localqueues"),
        ("who", "who holds what there: kubectl gpu who"),
    ],
)
def test_who_may_not_read_all_is_told_to_name_the_namespace(
    team: World, command: str, step: str
) -> None:
    result = team.ask(command, "research")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"hint: name yours: kubectl gpu {command} research -n NAMESPACE; "
        f"you may not read all namespaces, nor team of your context; see {step}"
        " -n NAMESPACE"
    )


def test_a_team_finds_a_node_by_the_pods_that_it_may_read(team: World) -> None:
    lines = team.lines("who", "n1", "-n", "ml")
    assert lines[0] == f"node n1: 4 {GPU} held in namespace ml, 1 holder"
    assert cells(lines[2])[:2] == ["4", GPU]
    assert cells(lines[2])[-1] == "n1"
    assert team.lines("who", "n1/0", "-n", "ml")[:3] == lines[:3]
    assert any(line.startswith("note: ") and "nodes" in line for line in lines)
    assert team.told("who", "n1", "-n", "ml")["subject"] == {"kind": "node", "name": "n1"}


def test_a_node_and_a_gpu_of_it_are_looked_for_in_the_namespace_of_the_context(
    world: World, team: World
) -> None:
    """A member of the team types no -n: the context names the namespace, as for kubectl."""
    text = team.kubeconfig.read_text().replace("namespace: team}", "namespace: ml}")
    team.kubeconfig.write_text(text)
    with_option = team.lines("who", "n1", "-n", "ml")
    assert team.lines("who", "n1") == with_option
    assert team.lines("who", "n1/0")[:3] == with_option[:3]
    assert team.told("who", "n1/0")["subject"]["kind"] == "node"
    assert team.told("who", "ml/research")["subject"]["kind"] == "queue"
    error, *_, hint = team.ask("who", "n9/0").stderr.splitlines()
    assert error.endswith("is no node, queue, cohort or user that holds something in namespace ml")
    assert hint == (
        "hint: name yours: kubectl gpu who n9/0 -n NAMESPACE; "
        "you may not read all namespaces, and only ml was read; see who holds "
        "what there: kubectl gpu who -n NAMESPACE"
    )


def test_who_tells_a_team_that_does_not_know_a_name_what_there_is(team: World) -> None:
    hint = team.ask("who", "n9", "-n", "ml").stderr.splitlines()[-1]
    assert hint == (
        "hint: you may read only namespace ml; see who holds what there: kubectl gpu who -n ml"
    )


@pytest.mark.parametrize("name", ["job-w", "w", "ml/job-w", "job/job-w", "ml/job/job-w"])
def test_who_leads_from_the_name_of_an_owner_to_why(world: World, name: str) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job-w", "uid": "u"}
    references = patches.merge({"metadata": {"ownerReferences": [owner]}})
    world.store.patch(resources.WORKLOADS, "w", references, "ml")
    try:
        result = world.ask("who", name)
    finally:
        nothing = patches.merge({"metadata": {"ownerReferences": None}})
        world.store.patch(resources.WORKLOADS, "w", nothing, "ml")
    assert result.exit_code == 1
    hint = result.stderr.splitlines()[-1]
    assert hint.startswith("hint: where it stands: kubectl gpu why job/job-w -n ml")


@pytest.mark.parametrize(
    ("name", "headline"),
    [
        ("research", f"queue research: 4 {GPU} held in namespace ml, 1 holder"),
        ("ada", f"user ada: 4 {GPU} held in namespace ml, 1 holder"),
        ("ml/research", f"queue ml/research: 4 {GPU} held, 1 holder"),
    ],
)
def test_who_says_in_its_first_line_that_it_read_one_namespace(
    team: World, name: str, headline: str
) -> None:
    assert team.lines("who", name, "-n", "ml")[0] == headline


def test_who_says_of_what_holds_nothing_where_it_looked(world: World, team: World) -> None:
    world.add(make_local_queue("behind", "prod"))
    try:
        assert team.lines("who", "prod", "-n", "ml")[0] == (
            "queue prod holds nothing in namespace ml"
        )
    finally:
        world.store.delete(resources.LOCAL_QUEUES, "behind", namespace="ml")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("who", "nobody holds quota"), ("queue", "nobody waits"), ("top", "there is no queue"),
    ],
)  # fmt: skip
def test_who_may_not_read_all_namespaces_is_told_so_first(
    world: World, team: World, tmp_path: Path, command: str, answer: str
) -> None:
    step = f"kubectl gpu {command} -n NAMESPACE"
    other: Any = OfTeam(world.store, "team")
    with served(other, resources.BUILT_IN + resources.CUSTOM, tmp_path) as kubeconfig:
        lines = World(world.store, kubeconfig, clock=world.clock).lines(command)
    line = f"You may not read all namespaces; in namespace team {answer}."
    assert lines == [f"{line} Another one: {step}"]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ((), "you may not read all namespaces, nor namespace team"),
        (("-n", "default"), "you may not read namespace default"),
    ],
)
@pytest.mark.parametrize("command", ["who", "queue", "top", "usage --preempted"])
def test_where_nothing_may_be_read_there_is_no_answer_and_the_exit_code_says_so(
    team: World, command: str, typed: tuple[str, ...], message: str
) -> None:
    words = command.split(" ")
    result = team.ask(*words, *typed)
    hint = f"hint: name yours: kubectl gpu {command} -n NAMESPACE"
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [f"error: {message}", hint]
    told = team.ask(*words, *typed, "-o", "json")
    assert (told.exit_code, json.loads(told.stdout)["code"]) == (1, "Forbidden")


def test_no_hint_names_a_namespace_that_may_not_be_read(team: World) -> None:
    for line in (
        ("queue", "research", "-n", "default"), ("who", "n9", "-n", "default"),
        ("why", "clusterqueue/research"), ("why", "node/n1", "-n", "default"),
        ("why", "cronjob/tick"), ("why", "job/train"), ("why", "train"),
    ):  # fmt: skip
        result = team.ask(*line)
        hint = result.stderr.splitlines()[-1]
        assert result.exit_code == 1
        assert "-n NAMESPACE" in hint, line
        assert "-n default" not in hint, line
        assert "-n team" not in hint, line


ROBOT = "system:serviceaccount:ml:ci"


@pytest.mark.parametrize(
    ("typed", "user"), [("ci", ROBOT), (ROBOT, ROBOT), ("eve", "eve@example.com")]
)
def test_a_user_is_found_by_what_people_call_them(world: World, typed: str, user: str) -> None:
    world.add(holding("theirs", "prod", 1, annotations={names.REQUESTER: user}))
    try:
        assert world.told("who", typed)["subject"] == {"kind": "user", "name": user}
        assert world.lines("who", typed)[0] == f"user {user}: 1 {GPU} held, 1 holder"
    finally:
        world.store.delete(resources.WORKLOADS, "theirs", namespace="ml")


def test_a_short_name_of_several_users_is_asked_about(world: World) -> None:
    users = (ROBOT, "system:serviceaccount:other:ci")
    for number, user in enumerate(users):
        world.add(holding(f"of-{number}", "prod", 1, annotations={names.REQUESTER: user}))
    try:
        result = world.ask("who", "ci")
        assert result.exit_code == 1
        assert "'ci' may be any of system:serviceaccount:ml:ci, system:servic" in result.stderr
        assert "name the user in full" in result.stderr
    finally:
        for number in range(len(users)):
            world.store.delete(resources.WORKLOADS, f"of-{number}", namespace="ml")
