"""What is recorded of real decisions: a core on an embedded store, and a clock that is set."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from admission.answers import usage
from admission.base import names
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.gpu_configuration import JournalSettings as Settings
from admission.controller.journal import UsageJournal
from admission.kube import errors, resources
from admission.objects import usage_record
from admission.objects.usage_record import (
    Account,
    OwnerAccount,
    Period,
    Record,
    RecordedOwner,
    Runs,
)
from tests.builders.cluster import make_namespace
from tests.controller.world import World, ready_world

SYSTEM = names.SYSTEM_NAMESPACE
SETTINGS = Settings(interval=timedelta(seconds=10))


def recording_late(world: World, settings: Settings = SETTINGS) -> UsageJournal:
    """The journal of a world that knows everything, and has not begun to record."""
    world.settle()
    return UsageJournal(
        world.store, lambda ask: ask(world.core.counting), SYSTEM, settings, world.clock,
        lambda: True,
    )  # fmt: skip


def recording(world: World, settings: Settings = SETTINGS) -> UsageJournal:
    """The journal of a world that has begun to count now."""
    if (
        world.store.list(resources.NAMESPACES, field_selector=f"metadata.name={SYSTEM}").items
        == ()
    ):
        world.store.create(resources.NAMESPACES, make_namespace(SYSTEM))
    journal = recording_late(world, settings)
    assert journal.step()
    return journal


def records(world: World) -> tuple[Record, ...]:
    found, unreadable = usage.read(world.store, SYSTEM)
    assert unreadable == ()
    return found


def seconds(world: World) -> Mapping[Account, int]:
    return usage_record.merged(records(world)).usage


def account(**more: str) -> Account:
    whole = {
        "namespace": "ml", "cluster_queue": "gpus", "local_queue": "team-a",
        "user": "unknown", "flavor": "a100", "resource": names.GPU_RESOURCE, **more,
    }  # fmt: skip
    return Account(**whole)


def names_of_records(world: World) -> list[str]:
    page = world.store.list(resources.CONFIG_MAPS, SYSTEM, label_selector=names.USAGE_LABEL)
    return [one["metadata"]["name"] for one in page.items]


def test_quota_counts_from_its_reservation_to_its_release():
    world = ready_world()
    journal = recording(world)
    world.clock.advance(7)
    world.add_pod("train", gpus=3)
    world.settle()
    world.clock.advance(40)
    journal.step()
    assert seconds(world) == {account(): 3 * 30}

    world.set_phase("train", "Succeeded")
    world.settle()
    world.clock.advance(100)
    journal.step()
    assert seconds(world) == {account(): 3 * 40}
    (found,) = records(world)
    assert found.runs == {RecordedOwner("ml", "Pod", "train"): Runs(1, 40, 40)}
    assert found.holes == ()


def test_pods_of_a_deployment_are_one_owner():
    world = ready_world()
    journal = recording(world)
    replica_set = world.store.create(
        resources.REPLICA_SETS,
        {"metadata": {"name": "serve-5d", "namespace": "ml"}, "spec": {"replicas": 2}},
    )
    of_replica_set = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serve-5d",
        "uid": replica_set["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    for name in ("serve-5d-a", "serve-5d-b"):
        world.add_pod(
            name, gpus=1, labels={"pod-template-hash": "5d"},
            metadata={"ownerReferences": [of_replica_set]},
        )  # fmt: skip
    world.settle()
    world.clock.advance(40)
    for name in ("serve-5d-a", "serve-5d-b"):
        world.delete_pod(name)
    world.settle()
    world.clock.advance(100)
    journal.step()
    (found,) = records(world)
    assert found.runs == {RecordedOwner("ml", "Deployment", "serve"): Runs(2, 80, 40)}
    assert found.owners == {OwnerAccount("ml", "Deployment", "serve", account().resource): 80}
    assert found.owners_from == found.begin


def test_what_still_runs_counts_for_its_owner():
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=3)
    world.settle()
    world.clock.advance(100)
    journal.step()
    (found,) = records(world)
    train = OwnerAccount("ml", "Pod", "train", account().resource)
    assert found.owners == {train: 3 * (found.until - found.begin)}
    assert found.owners[train] == seconds(world)[account()]


def test_what_waits_is_not_counted():
    world = ready_world(quota=2)
    journal = recording(world)
    for name in ("first", "second"):
        world.add_pod(name, gpus=2)
    world.settle()
    world.clock.advance(60)
    journal.step()
    assert seconds(world) == {account(): 2 * 50}


def test_a_reservation_that_is_decided_and_not_written_is_not_counted():
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=1)
    world.observe()
    world.core.step()
    world.send_one()
    world.core.step()
    assert [one.operation.name for one in world.queued] == ["RESERVE_QUOTA"]
    world.clock.advance(60)
    journal.step()
    assert seconds(world) == {}


def test_another_controller_counts_from_where_the_record_ends():
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=1)
    world.settle()
    world.clock.advance(100)
    journal.step()
    world.clock.advance(50)
    other = world.restarted()
    again = recording(other)
    world.clock.advance(100)
    again.step()
    (found,) = records(other)
    assert found.usage == {account(): found.until - found.begin}
    assert found.holes == ((found.begin + 90, found.begin + 150),)


def test_what_ended_while_nobody_looked_is_counted_as_its_workload_tells():
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=2)
    world.settle()
    world.clock.advance(20)
    journal.step()
    world.clock.advance(30)
    world.set_phase("train", "Succeeded")
    world.settle()
    world.clock.advance(30)
    again = recording(world.restarted())
    world.clock.advance(30)
    again.step()
    assert seconds(world) == {account(): 2 * 50}
    assert records(world)[0].runs == {RecordedOwner("ml", "Pod", "train"): Runs(1, 50, 50)}


def test_what_ended_is_counted_once_though_an_answer_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=1)
    world.settle()
    world.clock.advance(20)
    journal.step()
    world.clock.advance(2 * 3600)
    world.set_phase("train", "Succeeded")
    world.settle()
    world.clock.advance(3600)
    again = recording_late(world.restarted())
    replace = world.store.replace

    def lost(*args: Any, **more: Any) -> Any:
        replace(*args, **more)
        raise errors.TransportError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "replace", lost)
        with pytest.raises(errors.TransportError) as caught:
            again.step()
    again.failed(caught.value)
    world.clock.advance(60)
    again.step()
    assert seconds(world) == {account(): 2 * 3600 + 20}


def test_users_are_not_recorded_where_that_is_switched_off():
    world = ready_world(gpu=GpuConfiguration(journal=Settings(users=False)))
    journal = recording(world)
    world.add_pod("train", gpus=1)
    world.settle()
    world.clock.advance(60)
    journal.step()
    assert set(seconds(world)) == {account(user="")}


def test_nothing_is_counted_where_the_journal_is_switched_off():
    world = ready_world(gpu=GpuConfiguration(journal=Settings(enabled=False)))
    assert world.core.counting.resume(None) is None
    assert world.state.take_touched() == set()


def test_each_hour_has_a_record_and_old_ones_become_days():
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=1)
    world.settle()
    begin = int(world.clock.now().timestamp())
    for _ in range(80):
        world.clock.advance(3600)
        journal.step()
    found = names_of_records(world)
    days = [one for one in found if one.count("-") == 4]
    assert days == ["gpu-usage-2026-01-01"]
    assert len(found) - len(days) == 80 - 24
    whole = usage_record.merged(records(world))
    assert whole.usage == {account(): whole.until - begin}
    assert whole.holes == ()


def test_records_of_days_are_deleted_after_their_retention():
    world = ready_world()
    journal = recording(
        world, Settings(interval=timedelta(seconds=10), retention=timedelta(days=3))
    )
    for _ in range(24 * 6):
        world.clock.advance(3600)
        journal.step()
    days = [one for one in names_of_records(world) if one.count("-") == 4]
    assert days == ["gpu-usage-2026-01-04"]


def test_hours_beside_the_record_of_their_day_are_not_counted_twice():
    world = ready_world()
    recording(world)
    day = int(world.clock.now().timestamp())
    one = Record(begin=day, until=day + 3600, usage={account(): 5})
    for period in Period:
        document = usage_record.document(one, period, SYSTEM)
        world.store.create(resources.CONFIG_MAPS, document)
    assert seconds(world) == {account(): 5}


@pytest.mark.parametrize("is_written", [True, False])
def test_an_answer_that_was_lost_counts_nothing_twice(
    is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=1)
    world.settle()
    world.clock.advance(60)
    create = world.store.create

    def lost(*args: Any, **more: Any) -> Any:
        if is_written:
            create(*args, **more)
        raise errors.TransportError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "create", lost)
        with pytest.raises(errors.TransportError) as caught:
            journal.step()
        journal.failed(caught.value)
    world.clock.advance(40)
    journal.step()
    assert seconds(world) == {account(): 90}


def test_a_record_that_somebody_spoilt_is_replaced_by_what_was_counted_since():
    world = ready_world()
    journal = recording(world)
    world.add_pod("train", gpus=1)
    world.settle()
    world.clock.advance(60)
    journal.step()
    (name,) = names_of_records(world)
    there = world.store.get(resources.CONFIG_MAPS, name, SYSTEM)
    world.store.replace(resources.CONFIG_MAPS, {**there, "data": {"record.json": "{}"}})
    world.clock.advance(60)
    with pytest.raises(errors.ConflictError) as caught:
        journal.step()
    journal.failed(caught.value)
    journal.step()
    world.clock.advance(60)
    journal.step()
    (found,) = records(world)
    assert found.usage == {account(): found.until - found.begin}
