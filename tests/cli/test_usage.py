"""``kubectl gpu usage``: sums for people and for programs, and since when they are complete."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from admission.admin import manifests
from admission.answers import cluster
from admission.answers import usage as usages
from admission.base import names
from admission.config.derived import Settings
from admission.kube import errors, resources
from admission.kube.api import Api, Page
from admission.objects import crds, usage_record
from admission.objects.usage_record import (
    Account,
    OwnerAccount,
    Period,
    Record,
    RecordedOwner,
    Runs,
)
from admission.sandbox.store import Store
from admission.serve.usage_records import UsageRecords
from tests.answers.clusters import holding, objects, pod, waiting
from tests.builders.cluster import make_namespace
from tests.builders.metadata import Document, make_condition, make_metadata
from tests.cli.served import Served, served
from tests.clocks import START, FakeClock

SYSTEM = names.SYSTEM_NAMESPACE
NOW = int(START.timestamp())
HOUR = Period.HOUR.start_of(NOW)
GPU, MEMORY = names.GPU_RESOURCE, names.GPU_MEMORY
MIG = "nvidia.com/mig-1g.10gb"
BY_ADA = {names.REQUESTER: "ada"}


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


def refuse_records(monkeypatch: pytest.MonkeyPatch, of_namespace: int = 404) -> None:
    """Refuse the records of all, and those of a namespace with a status."""

    def refuse(_: Api, __: str, resource: Any = resources.CONFIG_MAPS) -> None:
        status = 403 if resource == resources.CONFIG_MAPS else of_namespace
        reasons = {403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}
        raise errors.make(status, f"{resource.plural}: no", reason=reasons[status])

    monkeypatch.setattr(usages, "read", refuse)


class OfMember(Store):
    """Shows the records of all to nobody, and the rows of a namespace by the visibility API."""

    @override
    def list(self, resource: Any, namespace: str = "", **more: Any) -> Any:
        if resource == resources.CONFIG_MAPS:
            raise errors.make(403, "configmaps is forbidden", reason="Forbidden")
        if resource != resources.USAGE_RECORDS:
            return super().list(resource, namespace, **more)
        whole: Any = super()
        page = UsageRecords(whole, SYSTEM).page(namespace, "v1beta2", 1, more["continue_"])
        token = page["metadata"].get("continue", "")
        return Page(items=tuple(page["items"]), resource_version="1", continue_=token)


@pytest.fixture
def of_member(tmp_path: Path) -> Iterator[World]:
    store = OfMember(crds=crds.documents(), clock=FakeClock(datetime.fromtimestamp(0, UTC)))
    for name in (SYSTEM, "team"):
        store.create(resources.NAMESPACES, make_namespace(name))
    kinds = (*resources.BUILT_IN, *resources.CUSTOM, resources.USAGE_RECORDS)
    with served(store, kinds, tmp_path) as kubeconfig:
        yield World(store, kubeconfig)


def test_a_member_sees_the_recorded_hours_of_the_own_namespace_and_of_no_other(
    of_member: World,
) -> None:
    for begin in (HOUR - 3600, HOUR):
        owners = {
            OwnerAccount("team", "Job", "deleted", GPU): 3600,
            OwnerAccount("prod", "Job", "secret", GPU): 3600,
        }
        usage = {account("team"): 3600, account("prod", "eve"): 3600}
        end = begin + 3600
        of_member.add(
            Record(begin=begin, until=end, usage=usage, owners=owners, owners_from=begin)
        )
    of_member.clock.advance(3600)
    since = usage_record.text_of(HOUR - 3600)
    lines = of_member.lines("--since", since, "--by", "owner")
    until = usage_record.text_of(HOUR + 3600)
    assert lines[0] == f"hours: 2.0 {GPU} of namespace team, from {since} until {until}"
    assert lines[1] == f"complete since {since}"
    assert lines[-1].split()[:4] == ["team", "Job", "deleted", "2.0"]
    assert not [line for line in lines if line.startswith("note: ")]
    told = of_member.told("--since", since, "--by", "user")
    assert told["source"] == "records"
    assert told["missing"] == []
    assert [(row["user"], row["seconds"]) for row in told["usage"]] == [("ada", "7200")]
    assert "secret" not in str(told)
    assert "eve" not in str(told)


def test_a_member_is_told_that_the_smallest_amounts_of_all_are_not_counted(
    of_member: World,
) -> None:
    rest = Account("", "", "", "", "a100", GPU)
    of_member.add(Record(begin=HOUR, until=HOUR + 50, usage={rest: 7200, account("team"): 3600}))
    told = of_member.told()
    assert [row["seconds"] for row in told["usage"]] == ["3600"]
    assert [text for text in told["missing"] if "smallest amounts" in text] == told["missing"]
    assert len(told["missing"]) == 1


@pytest.mark.parametrize(
    ("status", "step"),
    [
        (404, "gpu-admission install --visibility"),
        (403, f"-n ml --clusterrole {names.USAGE_VIEWER_ROLE}"),
        (503, "try again, it answered: gpuusagerecords: no"),
    ],
)
def test_a_member_without_records_is_told_what_is_missing_and_what_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch, status: int, step: str
) -> None:
    refuse_records(monkeypatch, status)
    told = world.told("-n", "ml")
    assert told["source"] == "Workloads"
    assert [text for text in told["missing"] if step in text] == told["missing"]
    assert len(told["missing"]) == 1
    assert step in " ".join(line.strip() for line in world.lines("-n", "ml", columns=400))


def test_a_member_of_whose_time_nothing_is_recorded_sees_the_workloads(of_member: World) -> None:
    of_member.add(Record(begin=HOUR - 7200, until=HOUR - 3700, usage={account("team"): 10}))
    told = of_member.told("--since", "1h")
    assert told["source"] == "Workloads"
    assert "there is no record of that time" in told["missing"][0]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1, "<0.01"), (17, "<0.01"), (18, "0.01"), (359, "0.10"), (360, "0.1"), (3600, "1.0")],
)
def test_what_was_used_is_never_shown_as_nothing(world: World, seconds: int, shown: str) -> None:
    usage = {account("ml"): seconds, account("prod"): 10**6}
    owners = {OwnerAccount("ml", "Job", "short", GPU): seconds}
    world.add(Record(begin=HOUR, until=HOUR + 50, usage=usage, owners=owners, owners_from=HOUR))
    rows = [line.split() for line in world.lines() if line.startswith("ml ")]
    assert rows == [["ml", GPU, shown, "<1%"]]
    owner = [line.split()[3] for line in world.lines("--by", "owner") if "short" in line]
    assert owner == [shown]


def test_who_may_read_neither_records_nor_workloads_is_told_which_role_lets_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_records(monkeypatch)
    refused = cluster.Objects(missing=("Workloads are not shown: you may not list them",))
    monkeypatch.setattr(cluster, "read_holders", lambda *_, **__: refused)
    told = world.ask("-n", "research").stderr
    assert told.splitlines()[0] == (
        "error: you may not read who used how much GPU-time: the records of all teams are"
        f" ConfigMaps of namespace {SYSTEM}, and you may not list Workloads of namespace research"
    )
    assert "gpu-admission install --visibility" in told
    assert told.endswith(
        "what you may ask: kubectl gpu usage --preempted -n research; kubectl gpu who -n "
        "research\n"
    )
    rules = manifests.base(Settings(), manifests.DEFAULT_IMAGE)["rbac.yaml"]
    roles = {names.USAGE_READER_ROLE, names.USAGE_VIEWER_ROLE}
    assert roles <= {role["metadata"]["name"] for role in rules}


def finished(document: Document, seconds: int) -> Document:
    """The same Workload, finished so long after the beginning."""
    moment = usage_record.text_of(NOW + seconds)
    document["status"]["conditions"].append(
        {**make_condition("Finished"), "lastTransitionTime": moment}
    )
    return document


def test_a_member_sees_the_hours_of_the_workloads_of_the_own_namespace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_records(monkeypatch)
    world.clock.advance(7200)
    shared = finished(controlled(holding("part", "research", 4), "Job", "part"), 3600)
    shared["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    held = objects(
        controlled(holding("runs", "research", 2, annotations=BY_ADA), "Job", "runs"),
        finished(controlled(holding("ended", "research", 1), "Job", "ended"), 3600),
        shared,
        waiting("late", "research", 2),
        queues=(),
    )
    read_from: list[tuple[str, bool]] = []

    def read_holders(_: Api, namespace: str, *, is_alone: bool = False) -> cluster.Objects:
        read_from.append((namespace, is_alone))
        return held

    monkeypatch.setattr(cluster, "read_holders", read_holders)
    begin, until = usage_record.text_of(NOW), usage_record.text_of(NOW + 7200)
    lines = world.lines("-n", "ml", "--since", begin, "--by", "owner")
    assert lines[0] == (
        f"hours: 5.0 {GPU}, from {begin} until {until}, of the Workloads of namespace ml that are "
        "still there"
    )
    assert lines[1].startswith("not complete: ")
    assert [line.split()[:4] for line in lines if line.startswith("ml ")] == [
        ["ml", "Job", "runs", "4.0"], ["ml", "Job", "ended", "1.0"], ["ml", "Job", "part", "?"],
    ]  # fmt: skip
    assert any("hours of 1 Workload are not counted" in line for line in lines)
    assert read_from == [("ml", True)]
    told = world.told("-n", "ml", "--since", begin, "--by", "user")
    assert told["source"] == "Workloads"
    assert told["completeSince"] == until
    assert {row["user"]: row["seconds"] for row in told["usage"]} == {
        "ada": "14400",
        names.UNKNOWN_REQUESTER: "3600",
    }


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
    assert lines[-1].split() == ["prod", "Job", "train", "?", "2", "50s", "1m20s", "-", "-"]


def test_by_owner_shows_the_hours_of_each_owner_largest_first(world: World) -> None:
    owners = {
        OwnerAccount("ml", "Job", "train", GPU): 2 * 3600,
        OwnerAccount("ml", "Job", "train", MIG): 3600,
        OwnerAccount("ml", "Deployment", "chat", GPU): 9 * 3600,
        OwnerAccount("prod", "Job", "", GPU): 3600,
    }
    world.add(Record(begin=HOUR, until=HOUR + 50, owners=owners, owners_from=HOUR))
    shown = [
        line.split() for line in world.lines("--by", "owner") if "Job" in line or "De" in line
    ]
    rest = ["0", "-", "-", "-", "-"]
    assert shown == [
        ["ml", "Deployment", "chat", "9.0", *rest],
        ["ml", "Job", "train", "2.0,", "1.0", "mig-1g.10gb", *rest],
        ["prod", "Job", "(others)", "1.0", *rest],
    ]
    told = world.told("--by", "owner", "-n", "prod")
    assert told["ownersSince"] == usage_record.text_of(HOUR)
    assert told["owners"] == [
        {"namespace": "prod", "kind": "Job", "name": "", "resource": GPU, "seconds": "3600"}
    ]


def test_hours_of_owners_that_an_earlier_version_did_not_record_are_unknown(world: World) -> None:
    runs = {RecordedOwner("ml", "Job", "early"): Runs(1, 60, 60)}
    owners = {OwnerAccount("ml", "Job", "late", GPU): 3600}
    world.add(Record(begin=HOUR - 3600, until=HOUR, runs=runs))
    world.add(Record(begin=HOUR, until=HOUR + 50, owners=owners, owners_from=HOUR))
    lines = world.lines("--by", "owner")
    since = usage_record.text_of(HOUR)
    assert f"note: hours of owners count from {since} on; run times from earlier" in lines
    shown = {line.split()[2]: line.split()[3] for line in lines if " Job " in line}
    assert shown == {"late": "1.0", "early": "?"}
    assert world.told("--by", "owner")["ownersSince"] == since


@pytest.mark.parametrize("dimension", ["user", "queue", "localqueue", "flavor"])
def test_owners_are_not_told_apart_by_what_is_not_recorded_of_them(
    world: World, dimension: str
) -> None:
    result = world.ask("--by", dimension, "--by", "owner")
    assert result.exit_code == 2
    assert f"--by owner cannot be combined with --by {dimension}" in result.stderr


def test_owners_are_shown_with_their_namespace(world: World) -> None:
    owners = {OwnerAccount("ml", "Job", "train", GPU): 3600}
    world.add(Record(begin=HOUR, until=HOUR + 50, owners=owners, owners_from=HOUR))
    asked = world.ask("--by", "owner", "--by", "namespace")
    assert asked.stdout.splitlines()[-1].split()[:4] == ["ml", "Job", "train", "1.0"]


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
    assert f"no usage is recorded: namespace {SYSTEM} has no records" in result.stderr
    assert "a minute after it has started" in result.stderr


def test_who_asks_for_a_time_without_records_is_told_of_which_time_there_are_some(
    world: World,
) -> None:
    world.add(Record(begin=HOUR - 7200, until=HOUR - 3700))
    result = world.ask("--since", "1h")
    begin, end = (usage_record.text_of(HOUR - seconds) for seconds in (7200, 3700))
    assert result.exit_code == 1
    assert f"the records of namespace {SYSTEM} are from {begin} to {end}" in result.stderr
    assert world.ask("--since", begin).exit_code == 0


@pytest.mark.parametrize("has_records", [False, True])
def test_the_setting_that_switches_records_off_is_named(world: World, has_records: bool) -> None:
    settings = (
        f"apiVersion: {names.CONFIG_API_VERSION}\nkind: GpuConfiguration\n"
        "journal: {enabled: false}\n"
    )
    metadata = make_metadata(manifests.CONFIG_MAP, SYSTEM)
    document = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"config.yaml": settings},
    }  # fmt: skip
    world.store.create(resources.CONFIG_MAPS, document)
    if has_records:
        world.add(Record(begin=HOUR - 7200, until=HOUR - 3700))
    result = world.ask("--since", "1h")
    off = f"journal.enabled is false in ConfigMap {SYSTEM}/{manifests.CONFIG_MAP}"
    assert off in result.stderr


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
    monkeypatch.setattr(cluster, "read_holders", lambda *_, **__: held)
    shown = [line.split() for line in world.lines("--by", "owner")]
    assert ["ml", "Job", "train", "?", "2", "50s", "1m20s", "1", "2h"] in shown
    assert ["ml", "Job", "new", "?", "0", "-", "-", "1", "2h"] in shown
    assert ["ml", "Deployment", "chat", "?", "0", "-", "-", "1", "2h"] in shown
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
    monkeypatch.setattr(cluster, "read_holders", lambda *_, **__: refused)
    lines = world.lines("--by", "owner")
    assert lines[-1].split() == ["ml", "Job", "train", "?", "2", "50s", "1m20s", "?", "?"]
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


def test_of_a_namespace_that_is_read_alone_no_other_one_is_asked_for() -> None:
    asked_for: list[str] = []

    class Watched(Store):
        @override
        def list(self, resource: Any, namespace: str = "", **more: Any) -> Any:
            asked_for.append(namespace)
            return super().list(resource, namespace, **more)

    cluster.read_holders(Watched(crds=crds.documents()), "ml", is_alone=True)
    assert asked_for == ["ml", "ml"]
