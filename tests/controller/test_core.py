"""What happens to pods, from creation to the end, whatever goes wrong in between."""

import pytest

from admission.base import names, patches
from admission.controller import core
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.reflector import Upserted
from admission.objects.workload import Workload
from tests.builders.cluster import make_namespace
from tests.builders.metadata import make_condition
from tests.builders.queues import make_class, make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_admission, make_pod_set, make_workload
from tests.controller.world import WORKLOAD_KIND, World, ready_world

STEPS = (WritePurpose.CREATE_WORKLOAD, WritePurpose.RESERVE_QUOTA, WritePurpose.START_OWNER)


def operations(world: World) -> list[WritePurpose]:
    return [
        write.operation for write in world.sent if write.operation is not WritePurpose.QUEUE_STATUS
    ]


def test_a_pod_within_quota_takes_three_writes_and_no_event() -> None:
    world = ready_world()
    world.add_pod("train", gpus=2)
    world.settle()

    assert operations(world) == list(STEPS)
    assert world.events.recorded == []


def test_a_pod_that_said_that_it_waits_is_told_once_that_it_started() -> None:
    world = ready_world(quota=1)
    world.add_pod("first", gpus=1)
    world.add_pod("second", gpus=1)
    world.settle()
    world.pass_time(2)
    world.set_phase("first", "Succeeded")
    world.settle()

    assert not world.is_gated("second")
    assert world.events.recorded == [("second", "Started", "Admitted by clusterQueue gpus")]


def test_a_pod_that_another_program_admits_is_told_that_it_started() -> None:
    world = ready_world(quota=0)
    world.add_pod("train", gpus=1)
    world.settle()
    name = world.workloads()["train"].metadata.name
    status = {
        "admission": make_admission(),
        "conditions": [make_condition("QuotaReserved"), make_condition("Admitted")],
    }
    world.store.patch(
        resources.WORKLOADS, name, patches.merge({"status": status}), "ml", subresource="status"
    )
    world.settle()

    assert ("train", "Started", "Admitted by clusterQueue gpus") in world.events.recorded


def test_a_foreign_label_on_a_workload_calls_for_no_turn_and_its_version_is_known() -> None:
    world = ready_world(quota=0)
    world.add(make_workload("train"))
    world.settle()
    world.pass_time(40)
    turns = world.core.step()
    assert turns is None or turns > 0
    change = patches.merge({"metadata": {"labels": {"example.com/team": "blue"}}})
    world.store.patch(resources.WORKLOADS, "train", change, "ml")
    found = world.store.get(resources.WORKLOADS, "train", "ml", into=Workload)
    world.sent.clear()
    world.core.receive(core.WatchMessage(resources.WORKLOADS, Upserted(found)))
    assert not world.parts.basis.turns.is_called
    assert world.parts.basis.workloads.get(found.key()) is found

    change = patches.merge({"metadata": {"labels": {names.JOB_UID_LABEL: "0"}}})
    world.store.patch(resources.WORKLOADS, "train", change, "ml")
    found = world.store.get(resources.WORKLOADS, "train", "ml", into=Workload)
    world.core.receive(core.WatchMessage(resources.WORKLOADS, Upserted(found)))
    assert world.parts.basis.turns.is_called


def test_an_admitted_pod_has_selector_and_toleration_of_its_flavor_and_no_finalizer() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    pod = world.pod("train")

    assert pod.spec.node_selector == {"nvidia.com/gpu.product": "a100"}
    assert pod.spec.tolerations is not None
    assert "nvidia.com/gpu" in {toleration.key for toleration in pod.spec.tolerations}
    assert not pod.metadata.finalizers
    assert not world.workloads()["train"].metadata.finalizers


def test_a_pod_that_is_admitted_at_once_gets_no_condition() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    world.pass_time(5)

    assert world.condition("train") is None


def test_a_pod_over_quota_stays_gated_and_says_why_after_a_second() -> None:
    world = ready_world(quota=4)
    world.add_pod("first", gpus=3)
    world.settle()
    world.add_pod("second", gpus=2)
    world.settle()

    assert world.is_gated("second")
    assert world.condition("second") is None
    world.pass_time(1)
    condition = world.condition("second")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "WaitingForQuota")
    assert (
        condition.message
        == "Waits: needs 2 a100, 1 free of 4; 1st in queue gpus; held by gpus (3)."
    )


def test_every_one_of_equal_waiting_pods_has_the_reason_of_the_one_that_was_judged() -> None:
    world = ready_world(quota=1)
    for name in ("a", "b", "c"):
        world.add_pod(name, gpus=4)
    world.pass_time(3)
    reasons = {name: condition.reason for name in "abc" if (condition := world.condition(name))}

    assert reasons == dict.fromkeys("abc", "ExceedsMaxQuota")


def test_nothing_is_written_for_a_waiting_pod_while_nothing_changes() -> None:
    world = ready_world(quota=1)
    world.add_pod("big", gpus=4)
    world.pass_time(3)
    before = len(world.sent)
    world.pass_time(60)

    assert len(world.sent) == before


def test_quota_of_an_ended_pod_goes_to_the_next_one() -> None:
    world = ready_world(quota=4)
    world.add_pod("first", gpus=4)
    world.settle()
    world.add_pod("second", gpus=4)
    world.pass_time(2)
    world.set_phase("first", "Succeeded")
    world.settle()

    assert world.admitted() == {"first", "second"}
    condition = world.condition("second")
    assert condition is not None
    assert condition.status == "True"


def test_quota_of_a_deleted_pod_goes_to_the_next_one_and_its_workload_goes() -> None:
    world = ready_world(quota=4)
    world.add_pod("first", gpus=4)
    world.settle()
    world.add_pod("second", gpus=4)
    world.settle()
    world.delete_pod("first")
    world.settle()

    assert set(world.workloads()) == {"second"}
    assert world.admitted() == {"second"}


def test_higher_priority_goes_first_and_then_the_older() -> None:
    world = ready_world(quota=1)
    world.add_pod("holder")
    world.settle()
    world.add_pod("low", spec={"priority": 1})
    world.clock.advance(5)
    world.add_pod("high", spec={"priority": 9})
    world.settle()
    world.delete_pod("holder")
    world.settle()

    assert world.admitted() == {"high"}
    world.delete_pod("high")
    world.settle()
    assert world.admitted() == {"low"}


def test_a_workload_priority_class_counts_as_soon_as_it_exists() -> None:
    world = ready_world()
    world.add(make_class("low", 1))
    world.add_pod("train", labels={names.PRIORITY_CLASS_LABEL: "urgent"})
    world.settle()
    condition = world.condition("train")
    assert condition is not None
    assert condition.reason == "WorkloadPriorityClassNotFound"
    assert condition.message == (
        'Waits: WorkloadPriorityClass "urgent" not found; recreate the pod with one of low,'
        " or without the label kueue.x-k8s.io/priority-class; an administrator can create the"
        " class."
    )
    world.add(make_class("urgent", 7))
    world.settle()

    assert world.admitted() == {"train"}
    assert world.workloads()["train"].spec.priority == 7


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("local queue", "LocalQueueNotFound"),
        ("cluster queue", "ClusterQueueNotFound"),
        ("flavor", "ClusterQueueInactive"),
    ],
)
def test_what_is_missing_is_named_on_the_pod_and_its_arrival_repairs_all(
    missing: str, reason: str
) -> None:
    objects = {
        "flavor": make_flavor(),
        "cluster queue": make_cluster_queue(),
        "local queue": make_local_queue(),
    }
    late = objects.pop(missing)
    world = World()
    world.add(make_namespace(), *objects.values())
    world.add_pod("train")
    world.pass_time(2)
    condition = world.condition("train")

    assert condition is not None
    assert condition.reason == reason
    assert world.is_gated("train")
    world.add(late)
    world.settle()
    assert world.admitted() == {"train"}


def test_a_request_that_can_never_fit_says_so() -> None:
    world = ready_world(quota=4)
    world.add_pod("huge", gpus=5)
    world.pass_time(2)
    condition = world.condition("huge")

    assert condition is not None
    assert condition.reason == "ExceedsMaxQuota"


def test_borrowing_inside_a_cohort() -> None:
    world = World()
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue("mine", quota=2, cohortName="all"),
        make_cluster_queue("theirs", quota=4, cohortName="all"),
        make_local_queue("team-a", "mine"),
    )
    world.add_pod("train", gpus=5)
    world.settle()
    world.pass_time(2)

    assert world.admitted() == {"train"}
    usage = world.status_of("mine")["flavorsUsage"][0]["resources"][0]
    assert usage == {"name": names.GPU_RESOURCE, "total": "5", "borrowed": "3"}


def test_queue_status_counts_who_waits_and_who_holds_quota() -> None:
    world = ready_world(quota=4)
    world.add_pod("a", gpus=3)
    world.settle()
    world.add_pod("b", gpus=3)
    world.pass_time(3)
    status = world.status_of("gpus")

    assert status["conditions"][0]["type"] == "Active"
    assert status["conditions"][0]["status"] == "True"
    assert (status["pendingWorkloads"], status["admittedWorkloads"]) == (1, 1)
    assert status["flavorsReservation"][0]["resources"][0]["total"] == "3"


@pytest.mark.parametrize("steps", range(4))
def test_a_restart_after_any_write_ends_in_the_same_state(steps: int) -> None:
    world = ready_world(quota=4)
    world.add_pod("train", gpus=4)
    world.observe()
    world.core.step()
    for _ in range(steps):
        world.send_one()
        world.core.step()
    later = world.restarted()
    later.settle()
    later.add_pod("second", gpus=1)
    later.settle()

    assert later.admitted() == {"train"}
    assert len(later.workloads()) == 2
    later.delete_pod("train")
    later.settle()
    assert later.admitted() == {"second"}


def test_a_pod_that_vanished_while_nobody_looked_gives_its_quota_back() -> None:
    world = ready_world(quota=4)
    world.add_pod("gone", gpus=4)
    world.settle()
    world.delete_pod("gone")
    later = world.restarted()
    later.add_pod("next", gpus=4)
    later.settle()

    assert later.admitted() == {"next"}
    assert set(later.workloads()) == {"next"}


def test_a_workload_that_changed_meanwhile_is_written_again_for_its_new_version() -> None:
    world = ready_world()
    world.add_pod("train")
    world.observe()
    world.core.step()
    world.send_one()  # Workload created
    world.core.step()  # quota decided, write open
    key = next(iter(world.workloads().values())).metadata
    touched = patches.merge({"metadata": {"labels": {"touched": "yes"}}})
    world.store.patch(resources.WORKLOADS, key.name, touched, key.namespace)
    world.settle()

    assert world.admitted() == {"train"}
    assert operations(world).count(WritePurpose.RESERVE_QUOTA) == 2


def test_a_workload_deleted_by_someone_else_is_made_again_for_a_waiting_pod() -> None:
    world = ready_world(quota=1)
    world.add_pod("train", gpus=4)
    world.settle()
    metadata = world.workloads()["train"].metadata
    world.store.delete(resources.WORKLOADS, metadata.name, metadata.namespace)
    world.settle()

    assert world.workloads()["train"].metadata.uid != metadata.uid


def test_a_running_pod_whose_workload_is_deleted_gets_another_and_runs_on() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    metadata = world.workloads()["train"].metadata
    world.store.delete(resources.WORKLOADS, metadata.name, metadata.namespace)
    world.settle()

    assert world.admitted() == {"train"}
    assert world.workloads()["train"].metadata.uid != metadata.uid
    assert [name for name, reason, _ in world.events.recorded if reason == "Charged"] == ["train"]


def test_a_workload_made_by_hand_is_admitted() -> None:
    world = ready_world()
    world.add(make_workload("by-hand", make_pod_set("main", 2, gpus=2)))
    world.settle()
    found = world.store.get(resources.WORKLOADS, "by-hand", "ml", into=Workload)

    assert found.status.is_true("Admitted")


def test_a_pod_that_contradicts_its_flavor_is_not_released() -> None:
    world = ready_world()
    world.add_pod("train")
    world.observe()
    world.core.step()
    world.send_one()
    world.core.step()
    world.send_one()
    world.core.step()  # the release is decided, its write open
    contradicting = patches.merge({"spec": {"nodeSelector": {"nvidia.com/gpu.product": "h100"}}})
    world.store.patch(resources.PODS, "train", contradicting, "ml")
    world.settle()

    assert world.is_gated("train")
    status = world.workloads()["train"].status
    assert status.admission is None
    assert not status.is_true("Finished")


def test_an_uninstallation_under_a_running_controller_stops_nothing() -> None:
    """All Workloads vanish with their kind; what runs must run on."""
    world = ready_world()
    world.add_pod("train")
    world.settle()
    world.store.delete(resources.CRDS, WORKLOAD_KIND)
    metadata = world.workloads()["train"].metadata
    world.store.delete(resources.WORKLOADS, metadata.name, metadata.namespace)
    world.settle()
    world.pass_time(70)
    assert world.admitted() == {"train"}

    world.serve_workloads()
    world.pass_time(31)
    assert world.admitted() == {"train"}
    assert world.workloads()["train"].status.is_true("Admitted")
