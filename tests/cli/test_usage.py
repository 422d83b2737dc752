"""``kubectl gpu usage``: sums for people and for programs, and since when they are complete."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from admission.admin import manifests
from admission.answers import cluster
from admission.answers import usage as usages
from admission.base import names
from admission.config.derived import Settings
from admission.kube import errors, resources
from admission.objects import crds, usage_record
from admission.objects.usage_record import Account, Period, Record, RecordedOwner, Runs
from admission.sandbox.store import Store
from tests.answers.clusters import holding, objects, pod, waiting
from tests.builders.cluster import make_namespace
from tests.builders.metadata import Document
from tests.cli.served import Served, served
from tests.clocks import START, FakeClock

SYSTEM = names.SYSTEM_NAMESPACE
NOW = int(START.timestamp())
HOUR = Period.HOUR.start_of(NOW)
GPU, MEMORY = names.GPU_RESOURCE, names.GPU_MEMORY
MIG = "nvidia.com/mig-1g.10gb"


def account(
    namespace: str, user: str = "ada", flavor: str = "a100", resource: str = GPU
) -> Account:
    return Account(namespace, f"of-{namespace}", "default", user, flavor, resource)


@dataclass(frozen=True)
class World(Served):
    """A store with records."""

    clock: FakeClock = field(default_factory=FakeClock, kw_only=True)
    command: ClassVar[tuple[str, ...]] = ("usage",)

    def add(self, record: Record, period: Period = Period.HOUR) -> None:
        document = usage_record.document(record, period, SYSTEM)
        self.store.create(resources.CONFIG_MAPS, document)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    store = Store(crds=crds.documents())
    store.create(resources.NAMESPACES, make_namespace(SYSTEM))
    with served(store, (*resources.BUILT_IN, *resources.CUSTOM), tmp_path) as kubeconfig:
        yield World(store, kubeconfig)


def test_who_may_not_read_the_records_is_told_which_role_lets_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise errors.ForbiddenError(403, "Forbidden", "configmaps is forbidden")

    monkeypatch.setattr(usages, "read", refuse)
    told = world.ask("-n", "research").stderr
    assert told.splitlines()[0] == (
        "error: you may not read who used how much GPU-time: the records of all teams are"
        f" ConfigMaps of namespace {SYSTEM}"
    )
    assert f"--role {names.USAGE_READER_ROLE}" in told
    assert told.endswith(
        "what you may ask: kubectl gpu usage --preempted -n research; kubectl gpu who -n "
        "research\n"
    )
    assert f"-n {SYSTEM}" in told
    rules = manifests.base(Settings(), manifests.DEFAULT_IMAGE)["rbac.yaml"]
    assert names.USAGE_READER_ROLE in {role["metadata"]["name"] for role in rules}


def test_an_empty_answer_about_preemption_says_how_far_back_deleted_work_is_known(
    world: World,
) -> None:
    told = world.ask("--preempted", "--since", "today").stdout
    assert told.startswith("Nothing preempted is known since ")
    assert "(of deleted workloads only the last hour is known)" in told.splitlines()[0]


def test_hours_are_shown_by_namespace_with_their_share(world: World) -> None:
    begin, until = HOUR - 3600, HOUR
    usage = {
        account("research"): 3 * 3600, account("research", "bob"): 1800,
        account("prod"): 1800, account("prod", resource=MIG): 360,
        account("prod", resource=MEMORY): 2**30 * 7200,
    }  # fmt: skip
    world.add(Record(begin=begin, until=until, usage=usage))
    since = usage_record.text_of(begin)
    result = world.ask("--since", "3h")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == (
        f"hours: 2.0 Gi {MEMORY}; 4.0 {GPU}; 0.1 {MIG}, from {since} "
        f"until {usage_record.text_of(until)}"
    )
    assert lines[1] == f"complete since {since}"
    shown = [line.split() for line in lines if line.startswith(("prod ", "research "))]
    assert ["research", GPU, "3.5", "88%"] in shown
    assert ["prod", MEMORY, "2.0", "Gi", "100%"] in shown


def test_holes_are_named_and_completeness_begins_after_the_last_one(world: World) -> None:
    world.add(Record(begin=HOUR - 7200, until=HOUR - 3600, holes=((HOUR - 7000, HOUR - 6900),)))
    world.add(Record(begin=HOUR - 3000, until=HOUR, usage={account("prod"): 10}))
    found = world.told()
    assert found["holes"] == [
        {"from": usage_record.text_of(begin), "until": usage_record.text_of(end)}
        for begin, end in ((HOUR - 7000, HOUR - 6900), (HOUR - 3600, HOUR - 3000))
    ]
    assert found["completeSince"] == usage_record.text_of(HOUR - 3000)
    said = world.ask().stdout
    assert f"complete since {usage_record.text_of(HOUR - 3000)}; what began and ended" in said


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (["user"], [{"user": "ada"}, {"user": "bob"}]),
        (["queue", "flavor"], [
            {"clusterQueue": "of-research", "flavor": "a100"},
            {"clusterQueue": "of-prod", "flavor": "l4"},
        ]),
        (["localqueue"], [{"localQueue": "default"}]),
    ],
)  # fmt: skip
def test_rows_are_summed_by_what_is_asked_for(
    world: World, by: list[str], expected: list[dict[str, str]]
) -> None:
    usage = {account("research"): 30, account("prod", "bob", "l4"): 20}
    world.add(Record(begin=HOUR, until=HOUR + 50, usage=usage))
    found = world.told(*(word for one in by for word in ("--by", one)))
    assert [
        {key: value for key, value in row.items() if key not in {"resource", "seconds"}}
        for row in found["usage"]
    ] == expected
    assert sum(int(row["seconds"]) for row in found["usage"]) == 50


def test_one_namespace_is_shown_where_it_is_asked_for(world: World) -> None:
    usage = {account("research"): 30, account("prod"): 20}
    runs = {
        RecordedOwner("prod", "Job", "train"): Runs(2, 100, 80),
        RecordedOwner("a", "Job", "b"): Runs(1, 1, 1),
    }
    world.add(Record(begin=HOUR, until=HOUR + 50, usage=usage, runs=runs))
    found = world.told("-n", "prod")
    assert [row["namespace"] for row in found["usage"]] == ["prod"]
    assert found["runs"] == [
        {"namespace": "prod", "kind": "Job", "name": "train", "count": 2, "seconds": 100,
         "longestSeconds": 80},
    ]  # fmt: skip
    lines = world.ask("-n", "prod", "--by", "owner").stdout.splitlines()
    assert lines[-1].split() == ["prod", "Job", "train", "2", "50s", "1m20s", "-", "-"]


def test_what_had_no_room_is_shown_as_others(world: World) -> None:
    rest = Account("", "", "", "", "a100", GPU)
    world.add(Record(begin=HOUR, until=HOUR + 50, usage={rest: 3600, account("prod"): 3600}))
    shown = [line.split() for line in world.ask().stdout.splitlines()]
    assert ["(others)", GPU, "1.0", "50%"] in shown


def test_a_record_that_cannot_be_read_is_named(world: World) -> None:
    world.add(Record(begin=HOUR, until=HOUR + 50))
    spoilt = usage_record.document(Record(begin=HOUR - 3600, until=HOUR), Period.HOUR, SYSTEM)
    world.store.create(resources.CONFIG_MAPS, {**spoilt, "data": {}})
    assert "is left out" in world.told()["missing"][0]
    assert "note: a record is left out" in world.ask().stdout


def test_without_records_the_next_step_is_said(world: World) -> None:
    result = world.ask("--since", "1h")
    assert result.exit_code == 1
    assert "no usage is recorded" in result.stderr
    assert "journal.enabled" in result.stderr


_API_VERSIONS = {"Job": "batch/v1", "Pod": "v1", "ReplicaSet": "apps/v1"}


def controlled(document: Document, kind: str, name: str) -> Document:
    """The same object, controlled by another one."""
    owner = {"apiVersion": _API_VERSIONS[kind], "kind": kind, "name": name, "uid": "o"}
    document["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return document


def test_by_owner_shows_what_still_runs_beside_what_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {RecordedOwner("ml", "Job", "train"): Runs(2, 100, 80)}
    world.add(Record(begin=HOUR, until=HOUR + 50, usage={account("ml"): 30}, runs=runs))
    world.clock.advance(7200)
    chat = pod("chat-7d9-x", "pod", 1)
    chat["metadata"]["labels"]["pod-template-hash"] = "7d9"
    held = objects(
        controlled(holding("train", "research", 2), "Job", "train"),
        controlled(holding("new", "research", 2), "Job", "new"),
        controlled(holding("pod", "research", 1), "Pod", "chat-7d9-x"),
        controlled(chat, "ReplicaSet", "chat-7d9"),
        controlled(waiting("late", "research", 2), "Job", "late"),
        queues=(),
    )
    monkeypatch.setattr(cluster, "read_holders", lambda *_: held)
    shown = [line.split() for line in world.lines("--by", "owner")]
    assert ["ml", "Job", "train", "2", "50s", "1m20s", "1", "2h"] in shown
    assert ["ml", "Job", "new", "0", "-", "-", "1", "2h"] in shown
    assert ["ml", "Deployment", "chat", "0", "-", "-", "1", "2h"] in shown
    assert not [line for line in shown if "late" in " ".join(line)]
    told = world.told("--by", "owner")["running"]
    assert {"namespace": "ml", "kind": "Job", "name": "new", "count": 1, "seconds": 7200,
            "longestSeconds": 7200} in told  # fmt: skip
    assert world.told()["running"] is None
    assert world.told("--by", "owner", "-n", "prod")["running"] == []


def test_what_still_runs_is_unknown_to_who_may_not_read_workloads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {RecordedOwner("ml", "Job", "train"): Runs(2, 100, 80)}
    world.add(Record(begin=HOUR, until=HOUR + 50, usage={account("ml"): 30}, runs=runs))
    refused = cluster.Objects(missing=("Workloads are not shown: you may not list them",))
    monkeypatch.setattr(cluster, "read_holders", lambda *_: refused)
    lines = world.lines("--by", "owner")
    assert lines[-1].split() == ["ml", "Job", "train", "2", "50s", "1m20s", "?", "?"]
    assert "note: not all is shown: your user may not list workloads" in lines
    assert world.told("--by", "owner")["running"] is None


@pytest.mark.parametrize(
    ("since", "begin"),
    [
        ("today", START + timedelta(days=3)),
        ("yesterday", START + timedelta(days=2)),
        ("24h", START + timedelta(days=2, hours=5)),
        ("2d", START + timedelta(days=1, hours=5)),
        ("2026-01-02", START + timedelta(days=1)),
        ("2026-01-02T05:00:00+02:00", START + timedelta(days=1, hours=3)),
    ],
)
def test_since_takes_days_dates_and_times(world: World, since: str, begin: datetime) -> None:
    """A record counts from its begin on, so the one before that moment is left out."""
    moment = int(begin.timestamp())
    world.add(Record(begin=moment - 3600, until=moment, usage={account("before"): 10}))
    world.add(Record(begin=moment, until=moment + 3600, usage={account("after"): 10}))
    world.clock.advance(timedelta(days=3, hours=5).total_seconds())
    found = world.told("--since", since)
    assert [row["namespace"] for row in found["usage"]] == ["after"]
    assert found["from"] == usage_record.text_of(moment)


def test_a_record_that_begins_before_what_was_asked_is_told_to_count_as_a_whole(
    world: World,
) -> None:
    world.add(Record(begin=HOUR, until=HOUR + 3600, usage={account("prod"): 10}))
    world.clock.advance(3600)
    (note,) = [line for line in world.lines("--since", "15m") if line.startswith("note: you")]
    since, begin = usage_record.text_of(HOUR + 2700), usage_record.text_of(HOUR)
    assert note == (
        f"note: you asked from {since} on; the record that contains that time is counted as a "
        f"whole, from {begin} on"
    )


@pytest.mark.parametrize("since", ["2026-13-01", "2027-01-01", "2026-01-01T05:00:00", "tomorrow"])
def test_what_is_no_time_of_the_past_is_refused(world: World, since: str) -> None:
    assert world.ask("--since", since).exit_code == 2


@pytest.mark.parametrize("since", ["7", "0s", "-1h", "1w"])
def test_a_time_without_unit_or_below_nothing_is_refused(world: World, since: str) -> None:
    assert world.ask("--since", since).exit_code == 2
