"""What is written into the status of queues and cohorts, and when it is written."""

import copy
from collections.abc import Mapping
from threading import Event
from typing import Any, Final

import msgspec
import pytest

from admission.base import names, patches, quantity
from admission.config.gpu_configuration import ControllerSettings
from admission.controller import core
from admission.controller.queues import queue_status_document
from admission.controller.writing.api_requests import WritePurpose
from admission.controller.writing.writer import Sender
from admission.kube import resources
from admission.objects import crds
from admission.objects.local_queue import LocalQueue
from admission.sandbox.store import Store
from admission.scheduling import model
from admission.scheduling.consumption import Consumption
from tests.builders.cluster import make_namespace
from tests.builders.queues import (
    cluster_queue_view,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
)
from tests.clocks import FakeClock
from tests.controller.world import World, ready_world

QUEUES, LOCALS, COHORTS = resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES, resources.COHORTS
FAIR = model.Config(fair_sharing=model.FairSharing())
MINUTE_US = 60 * 1_000_000
REMEMBERING = model.Config(
    admission_fair_sharing=model.AdmissionFairSharing(
        half_life_us=10 * MINUTE_US, sampling_us=5 * MINUTE_US
    )
)
BY_USAGE: Final[Mapping[str, Any]] = {
    "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}
}
LATER = "2026-01-01T00:05:00Z"


def status(world: World, resource: resources.Resource, name: str, ns: str = "") -> dict[str, Any]:
    found: dict[str, Any] = world.store.get(resource, name, ns).get("status", {})
    return found


def share(world: World, resource: resources.Resource, name: str) -> int | None:
    found: dict[str, int] = status(world, resource, name).get("fairSharing", {})
    return found.get("weightedShare")


def status_writes(world: World) -> list[str]:
    """Names of the objects whose status was written since the last call."""
    found = [write.name for write in world.sent if write.operation is WritePurpose.QUEUE_STATUS]
    world.sent.clear()
    return found


# ------------------------------------------------------------------------------- when written


def test_a_restart_writes_no_status_that_is_right_already() -> None:
    world = ready_world()
    world.add_pod("train")
    world.pass_time(3)

    again = world.restarted()
    again.pass_time(3)

    assert status_writes(again) == []


def test_a_status_that_somebody_overwrites_is_put_right() -> None:
    world = ready_world()
    world.add_pod("train")
    world.pass_time(3)
    foreign = patches.merge({"status": {"admittedWorkloads": 7, "flavorsUsage": None}})
    world.store.patch(QUEUES, "gpus", foreign, subresource="status")

    world.pass_time(3)

    assert world.status_of("gpus")["admittedWorkloads"] == 1
    assert world.status_of("gpus")["flavorsUsage"][0]["resources"][0]["total"] == "1"


def test_nothing_is_written_while_nothing_changes() -> None:
    world = ready_world()
    world.add_pod("train")
    world.pass_time(3)
    status_writes(world)

    world.pass_time(60)

    assert status_writes(world) == []


def test_a_burst_is_told_once_in_an_interval() -> None:
    world = ready_world(quota=50)
    world.pass_time(3)
    status_writes(world)
    for number in range(20):
        world.add_pod(f"pod-{number}")
        world.clock.advance(0.01)
        world.settle()

    assert sorted(status_writes(world)) == ["gpus", "team-a"]
    world.pass_time(1)
    assert sorted(status_writes(world)) == ["gpus", "team-a"]
    assert world.status_of("gpus")["admittedWorkloads"] == 20


def test_many_statuses_that_are_due_at_once_leave_room_for_other_writes() -> None:
    world = World()
    names_of_queues = [f"queue-{number:02}" for number in range(30)]
    world.add(
        make_namespace(), make_flavor(), *(make_cluster_queue(name) for name in names_of_queues)
    )
    world.observe()
    world.core.step()
    assert 0 < len(world._queue) <= ControllerSettings().writers / 2

    world.pass_time(1)
    assert all(world.status_of(name)["conditions"] for name in names_of_queues)


def test_the_reason_follows_when_one_of_two_blockers_goes() -> None:
    world = World()
    world.add(make_namespace(), make_cluster_queue(flavors=("a100", "h100")), make_local_queue())
    world.pass_time(2)
    assert said(world) == "references missing ResourceFlavor(s): a100,h100."

    world.add(make_flavor("a100"))
    world.pass_time(2)
    assert said(world) == "references missing ResourceFlavor(s): h100."


def said(world: World) -> str:
    (active,) = world.status_of("gpus")["conditions"]
    message: str = active["message"]
    return message.removeprefix("Can't admit new workloads: ")


def newer_store(clock: FakeClock) -> Store:
    """An API server with the schemas of a version that allows more."""
    documents = copy.deepcopy(crds.documents())
    for document in documents:
        for version in document["spec"]["versions"]:
            _loosen(version["schema"])
    return Store(crds=documents, clock=clock)


def _loosen(schema: Any) -> None:
    if isinstance(schema, dict):
        for rule in ("enum", "format", "pattern"):
            if not isinstance(schema.get(rule), dict):
                schema.pop(rule, None)
        for part in schema.values():
            _loosen(part)


def newer_world(config: model.Config | None = None) -> World:
    clock = FakeClock()
    world = World(newer_store(clock), clock, config)
    world.serve_workloads()
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(**BY_USAGE),
        make_local_queue(),
        make_local_queue("team-b"),
    )
    world.pass_time(2)
    return world


def _groups(quota: Any) -> dict[str, Any]:
    resource = {"name": names.GPU_RESOURCE, "nominalQuota": quota}
    flavors = [{"name": "a100", "resources": [resource]}]
    return {"resourceGroups": [{"coveredResources": [names.GPU_RESOURCE], "flavors": flavors}]}


@pytest.mark.parametrize(
    ("odd", "right", "why"),
    [
        (
            {"queueingStrategy": "Fastest"},
            {"queueingStrategy": "StrictFIFO"},
            "spec.queueingStrategy",
        ),
        (_groups("many"), _groups(4), "'many': flavor a100, nominalQuota: must be a Kubernetes"),
    ],
    ids=["strategy", "quota"],
)
def test_a_queue_that_cannot_be_read_says_so_and_admits_nothing(
    odd: dict[str, Any], right: dict[str, Any], why: str
) -> None:
    world = newer_world()
    world.add_pod("before")
    world.pass_time(2)
    world.store.patch(QUEUES, "gpus", patches.merge({"spec": odd}))
    world.add_pod("after")
    world.pass_time(2)

    (active,) = world.status_of("gpus")["conditions"]
    assert (active["status"], active["reason"]) == ("False", "Unknown")
    assert why in active["message"]
    assert world.status_of("gpus")["admittedWorkloads"] == 1
    assert world.admitted() == {"before"}

    world.store.patch(QUEUES, "gpus", patches.merge({"spec": right}))
    world.pass_time(2)
    assert world.admitted() == {"before", "after"}


# ------------------------------------------------------------------------------------- shares


def borrowing_world(config: model.Config | None = FAIR) -> World:
    """Two queues of 4 below the Cohort ``team``, below the Cohort ``pool`` with 2 more."""
    world = World(config=config)
    quota = [{"name": names.GPU_RESOURCE, "nominalQuota": 2}]
    group = {
        "coveredResources": [names.GPU_RESOURCE],
        "flavors": [{"name": "a100", "resources": quota}],
    }
    world.add(
        make_namespace(),
        make_flavor(),
        make_cohort("pool", resourceGroups=[group]),
        make_cohort("team", parentName="pool"),
        make_cluster_queue("gpus", cohortName="team"),
        make_cluster_queue("other", cohortName="team"),
        make_local_queue(),
    )
    world.pass_time(2)
    return world


def test_shares_of_queues_and_cohorts_are_written_with_fair_sharing() -> None:
    world = borrowing_world()
    world.add_pod("train", gpus=9)
    world.pass_time(2)

    # 5 more than its own 4, of the 10 that can be lent
    assert share(world, QUEUES, "gpus") == 500
    assert share(world, QUEUES, "other") == 0
    # 1 more than the 8 of its queues, of 10
    assert share(world, COHORTS, "team") == 100
    assert share(world, COHORTS, "pool") == 0


def test_no_share_is_written_without_fair_sharing_and_an_old_one_goes() -> None:
    world = borrowing_world()
    without = World(world.store, world.clock)
    without.pass_time(2)

    for resource, name in ((QUEUES, "gpus"), (COHORTS, "team"), (COHORTS, "pool")):
        assert share(without, resource, name) is None


def test_shares_in_the_whole_tree_follow_a_change_of_quota() -> None:
    world = borrowing_world()
    world.add_pod("train", gpus=9)
    world.pass_time(2)

    spec = make_cluster_queue("other", quota=14, cohortName="team")["spec"]
    world.store.patch(QUEUES, "other", patches.merge({"spec": spec}))
    world.pass_time(2)

    assert share(world, QUEUES, "gpus") == 250  # 5 of 20
    assert share(world, COHORTS, "team") == 0


def test_shares_follow_a_queue_that_moves_to_another_cohort() -> None:
    world = borrowing_world()
    world.add(make_cohort("elsewhere", parentName="pool"))
    world.add_pod("train", gpus=9)
    world.pass_time(2)

    world.store.patch(QUEUES, "gpus", patches.merge({"spec": {"cohortName": "elsewhere"}}))
    world.pass_time(2)

    assert share(world, COHORTS, "team") == 0
    assert share(world, COHORTS, "elsewhere") == 500  # 5 more than its 4, of 10


# ------------------------------------------------------------------------------------ in use


def usage(world: World, name: str = "gpus") -> dict[str, str]:
    found = world.status_of(name)["flavorsUsage"]
    return {one["name"]: one["resources"][0]["total"] for one in found}


def test_the_gpus_of_a_queue_are_told_in_one_text_for_lists() -> None:
    world = World()
    slices = "nvidia.com/mig-1g.10gb"
    quota = {
        "a100": {names.GPU_RESOURCE: 8, slices: 7}, "h100": {names.GPU_RESOURCE: 4, slices: 0}
    }  # fmt: skip
    world.add(make_namespace(), make_flavor(), make_flavor("h100"), make_local_queue())
    world.add(make_cluster_queue(quotas=quota))
    world.pass_time(2)
    assert world.status_of("gpus")["gpus"] == "0 of 12, 0 of 7 mig-1g.10gb"
    world.add_pod("train", gpus=3)
    world.pass_time(2)
    assert world.status_of("gpus")["gpus"] == "3 of 12, 0 of 7 mig-1g.10gb"


def test_a_queue_without_quota_of_gpus_tells_none() -> None:
    assert queue_status_document.gpus(cluster_queue_view({"any": {"cpu": 4}}), {}) is None


def test_a_flavor_taken_out_of_the_spec_is_shown_while_it_is_used() -> None:
    world = World()
    world.add(
        make_namespace(),
        make_flavor(),
        make_flavor("h100"),
        make_cluster_queue(),
        make_local_queue(),
    )
    world.add_pod("train", gpus=3)
    world.pass_time(2)
    spec = make_cluster_queue(flavors=("h100",))["spec"]

    world.store.patch(QUEUES, "gpus", patches.merge({"spec": spec}))
    world.pass_time(2)
    assert usage(world) == {"h100": "0", "a100": "3"}

    world.set_phase("train", "Succeeded")
    world.pass_time(2)
    assert usage(world) == {"h100": "0"}


def test_a_local_queue_without_cluster_queue_shows_no_flavors_any_more() -> None:
    world = ready_world()
    world.pass_time(2)
    assert status(world, LOCALS, "team-a", "ml")["flavorsUsage"]

    world.store.delete(QUEUES, "gpus")
    world.pass_time(2)

    found = status(world, LOCALS, "team-a", "ml")
    assert found.keys() & {"flavorsUsage", "flavorsReservation"} == set()
    assert (found["pendingWorkloads"], found["admittedWorkloads"]) == (0, 0)


def test_a_local_queue_tells_the_nominal_quota_of_its_cluster_queue_and_follows_it() -> None:
    def nominal() -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = status(world, LOCALS, "team-a", "ml").get("nominalQuota", [])
        return told

    world = ready_world(quota=4)
    world.pass_time(2)
    assert nominal() == [
        {"name": "a100", "resources": [{"name": names.GPU_RESOURCE, "total": "4"}]}
    ]

    spec = make_cluster_queue(quota=6)["spec"]
    world.store.patch(QUEUES, "gpus", patches.merge({"spec": spec}))
    world.pass_time(2)
    assert nominal()[0]["resources"] == [{"name": names.GPU_RESOURCE, "total": "6"}]

    world.store.delete(QUEUES, "gpus")
    world.pass_time(2)
    assert nominal() == []


def test_a_local_queue_tells_the_cap_of_its_cluster_queue_and_follows_it() -> None:
    def cap() -> dict[str, str] | None:
        member: dict[str, str] | None = status(world, LOCALS, "team-a", "ml").get(
            "clusterQueueMaxPerUser"
        )
        return member

    def annotate(text: str | None) -> None:
        annotations = {names.MAX_PER_USER: text}
        world.store.patch(
            QUEUES, "gpus", patches.merge({"metadata": {"annotations": annotations}})
        )
        world.pass_time(2)

    world = ready_world(quota=4)
    world.pass_time(2)
    assert cap() is None
    annotate(f"{names.GPU_RESOURCE}=2")
    assert cap() == {names.GPU_RESOURCE: "2"}
    annotate(f"{names.GPU_RESOURCE}=3")
    assert cap() == {names.GPU_RESOURCE: "3"}
    annotate(None)
    assert cap() is None


def test_of_more_flavors_than_the_schema_allows_those_in_use_are_shown() -> None:
    flavors = tuple(f"flavor-{number:02}" for number in range(70))
    world = World()
    world.add(make_namespace(), *(make_flavor(name) for name in flavors), make_local_queue())
    groups = make_cluster_queue(flavors=flavors[:64])["spec"]["resourceGroups"]
    more = make_cluster_queue(flavors=flavors[64:])["spec"]["resourceGroups"][0]
    for one in more["flavors"]:
        one["resources"][0]["name"] = "example.com/other"
    more["coveredResources"] = ["example.com/other"]
    world.add(make_cluster_queue(resourceGroups=[*groups, more]))
    world.add_pod(
        "train",
        spec={
            "containers": [
                {
                    "name": "main",
                    "image": "train",
                    "resources": {"limits": {"example.com/other": "1"}},
                }
            ]
        },
    )
    world.pass_time(2)

    shown = usage(world)
    assert len(shown) == 64
    assert shown["flavor-64"] == "1"


# --------------------------------------------------------------------------------- past usage


def past(world: World, name: str = "team-a") -> dict[str, Any]:
    fair = status(world, LOCALS, name, "ml").get("fairSharing", {})
    found: dict[str, Any] = fair.get("admissionFairSharingStatus", {})
    return found


def remembering_world() -> World:
    world = World(config=REMEMBERING)
    world.add(
        make_namespace(), make_flavor(), make_cluster_queue(quota=1, **BY_USAGE),
        make_local_queue(), make_local_queue("team-b"),
    )  # fmt: skip
    world.pass_time(2)
    return world


def test_past_usage_is_written_with_the_admission_that_causes_it() -> None:
    world = remembering_world()
    assert past(world)["consumedResources"] == {names.GPU_RESOURCE: "0"}
    status_writes(world)

    world.add_pod("train")
    world.pass_time(2)

    assert past(world)["consumedResources"] == {names.GPU_RESOURCE: "292893218n"}
    assert status_writes(world).count("team-a") == 1


@pytest.mark.parametrize(
    ("written", "nanos"),
    [("-3", 0), ("-1n", 0), ("0", 0), ("250m", 250_000_000)],
    ids=["negative", "negative by the least amount", "none", "some"],
)
def test_a_negative_past_usage_in_a_status_reads_as_none(written: str, nanos: int) -> None:
    consumed = {names.GPU_RESOURCE: written}
    fair = {"consumedResources": consumed, "lastUpdate": "1970-01-01T00:00:01Z"}
    document = make_local_queue()
    document["status"] = {"fairSharing": {"admissionFairSharingStatus": fair}}
    past_usage = queue_status_document.consumption_of(msgspec.convert(document, LocalQueue))
    resource = names.ResourceName(names.GPU_RESOURCE)
    assert past_usage == Consumption(consumed={resource: nanos}, updated_us=1_000_000)


def test_past_usage_is_written_once_in_a_sampling_interval() -> None:
    world = remembering_world()
    world.add_pod("train")
    world.pass_time(3)
    status_writes(world)

    world.pass_time(15 * 60)

    assert status_writes(world).count("team-a") == 3
    # what runs is approached by half of the rest in each half life
    consumed = int(past(world)["consumedResources"][names.GPU_RESOURCE].removesuffix("n"))
    assert 700_000_000 < consumed < 800_000_000


def test_a_queue_that_used_nothing_is_not_rewritten_as_time_passes() -> None:
    world = remembering_world()
    status_writes(world)

    world.pass_time(15 * 60)

    assert status_writes(world) == []


def test_a_queue_that_used_nothing_lists_the_resources_of_its_cluster_queue() -> None:
    world = remembering_world()
    group = {"coveredResources": ["cpu"], "flavors": [
        {"name": "plain", "resources": [{"name": "cpu", "nominalQuota": 8}]}
    ]}  # fmt: skip
    world.add(make_flavor("plain"))
    spec = world.store.get(QUEUES, "gpus")["spec"]
    change = patches.merge({"spec": {"resourceGroups": [*spec["resourceGroups"], group]}})
    world.store.patch(QUEUES, "gpus", change)
    world.pass_time(6 * 60)

    assert past(world)["consumedResources"] == {"cpu": "0", names.GPU_RESOURCE: "0"}

    status_writes(world)
    world.pass_time(15 * 60)
    again = world.restarted()
    again.pass_time(15 * 60)
    assert status_writes(world) == status_writes(again) == []


def test_the_order_of_teams_is_the_same_after_a_restart() -> None:
    world = remembering_world()
    world.add_pod("a-first")
    world.pass_time(3)
    for name, team in (("a-second", "team-a"), ("b-first", "team-b")):
        world.add_pod(name, labels={names.QUEUE_LABEL: team})
        world.pass_time(3)

    again = world.restarted()
    again.pass_time(1)
    again.set_phase("a-first", "Succeeded")
    again.pass_time(3)

    assert again.admitted() == {"a-first", "b-first"}
    assert past(again)["consumedResources"] == past(world)["consumedResources"]


def test_a_local_queue_that_cannot_be_read_says_so_and_admits_nothing() -> None:
    world = newer_world()
    world.add_pod("before")
    world.pass_time(2)
    world.store.patch(LOCALS, "team-a", patches.merge({"spec": {"stopPolicy": "Later"}}), "ml")
    world.add_pod("after")
    world.pass_time(2)

    (active,) = status(world, LOCALS, "team-a", "ml")["conditions"]
    assert (active["status"], active["reason"]) == ("False", "Unknown")
    assert "spec.stopPolicy" in active["message"]
    assert world.admitted() == {"before"}

    world.store.patch(LOCALS, "team-a", patches.merge({"spec": {"stopPolicy": "None"}}), "ml")
    world.pass_time(2)
    assert world.admitted() == {"before", "after"}


def test_a_standby_takes_past_usage_from_the_status_and_not_from_what_it_reckoned() -> None:
    world = remembering_world()
    standby = Standby(world.store, world.clock, world.config)
    world.add_pod("train", gpus=1)
    for _ in range(4):
        world.pass_time(6 * 60)
        standby.observe()
        assert standby.core.step() is None  # it decides nothing
    told = past(world)

    standby.core.receive(core.LeaderStarted())
    standby.settle()

    assert past(standby) == told
    standby.pass_time(3 * 60)
    assert nanos(past(standby)) > nanos(told)
    assert status_writes(standby) == ["team-a"]


class Standby(World):
    """A controller that does not lead until it is told to."""

    leads = False


def nanos(told: dict[str, Any]) -> int:
    return quantity.parse_nano(told["consumedResources"][names.GPU_RESOURCE])


def test_past_usage_that_cannot_be_read_is_reckoned_anew() -> None:
    world = newer_world(REMEMBERING)
    world.add_pod("train")
    world.pass_time(3)
    stored = world.store.get(LOCALS, "team-a", "ml")
    stored["status"]["fairSharing"]["admissionFairSharingStatus"]["lastUpdate"] = "yesterday"
    changed = patches.merge({"status": stored["status"]})
    world.store.patch(LOCALS, "team-a", changed, "ml", subresource="status")

    again = world.restarted()
    again.pass_time(3)

    assert past(again)["lastUpdate"].startswith("2026-01-01T00:00:")


def test_past_usage_goes_where_it_is_not_configured() -> None:
    world = remembering_world()
    without = World(world.store, world.clock)
    without.pass_time(2)

    assert "fairSharing" not in status(without, LOCALS, "team-a", "ml")


def test_past_usage_of_a_stopped_queue_stays_as_it_was_told() -> None:
    world = remembering_world()
    world.add_pod("train")
    world.pass_time(3)
    told = past(world)
    world.store.patch(LOCALS, "team-a", patches.merge({"spec": {"stopPolicy": "Hold"}}), "ml")

    world.pass_time(6 * 60)

    assert past(world) == told


def test_the_answer_to_a_write_does_not_bring_a_deleted_object_back() -> None:
    world = ready_world()
    world.pass_time(2)
    world.store.delete(resources.RESOURCE_FLAVORS, "a100")
    world.store.delete(QUEUES, "gpus")  # free: its finalizer comes off, and it is gone
    world.observe()
    world.core.step()
    (write,) = [one for one in world._queue if one.name == "gpus"]
    outcome = Sender(world.store, world.clock, Event()).send(write)
    world.observe()  # the watch is faster than the answer
    world._queue.remove(write)
    world.core.receive(outcome)
    world.core.step()

    # no queue lists the flavor any more, so it is let go
    assert [one.name for one in world._queue if one.operation is WritePurpose.KEEP_METADATA] == [
        "a100"
    ]


@pytest.mark.parametrize("name", ["gpus", "team-a"])
def test_no_status_is_written_for_a_queue_that_is_gone(name: str) -> None:
    world = ready_world()
    world.pass_time(2)
    status_writes(world)
    world.store.delete(*((QUEUES, name) if name == "gpus" else (LOCALS, name, "ml")))

    world.pass_time(3)

    assert name not in status_writes(world)
