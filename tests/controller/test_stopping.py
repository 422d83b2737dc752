"""What is written about a pod that is stopped, and about its Workload, and in which order."""

from typing import Any

from admission.base import names, patches
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.kube import errors, resources
from admission.kube.api import Document
from admission.objects import views
from tests.controller.world import World, ready_world

ENDS = (
    WritePurpose.MARK_OWNER,
    WritePurpose.STOP_OWNER,
    WritePurpose.CLEAR_RESERVATION,
    WritePurpose.FINISH_WORKLOAD,
    WritePurpose.DELETE_WORKLOAD,
)
LASTING = ["example.com/kept"]


def running(world: World, name: str = "train", **metadata: Any) -> None:
    """Adds a pod that is admitted and runs."""
    world.add_pod(name, gpus=1)
    change = patches.merge({"metadata": metadata})
    world.store.patch(resources.PODS, name, change, "ml")
    world.settle()
    world.set_phase(name, "Running")
    world.settle()
    assert not world.is_gated(name)


def evict(world: World, name: str = "train", reason: str = "Preempted") -> None:
    found = world.workloads()[name]
    condition = {
        "type": "Evicted",
        "status": "True",
        "reason": reason,
        "message": "by a test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    stored = world.store.get(resources.WORKLOADS, found.metadata.name, "ml")
    conditions = [*stored["status"]["conditions"], condition]
    change = patches.merge({"status": {"conditions": conditions}})
    world.store.patch(resources.WORKLOADS, found.metadata.name, change, "ml", subresource="status")


def ends(world: World) -> list[WritePurpose]:
    """The writes with which pods are stopped and Workloads end, in order."""
    return [write.operation for write in world.sent if write.operation in ENDS]


def target(world: World, name: str = "train") -> views.PodCondition | None:
    found = world.pod(name).status.conditions or ()
    return next((one for one in found if one.type == "TerminationTarget"), None)


def said(workload: Document, kind: str) -> tuple[str, str, str]:
    found = next(c for c in workload["status"]["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def test_a_stopped_pod_says_why_before_it_is_deleted() -> None:
    world = ready_world()
    running(world, finalizers=LASTING)
    evict(world)
    world.settle()
    found = target(world)
    assert found is not None
    assert (found.status, found.reason) == ("True", "WorkloadEvictedDueToPreempted")
    assert found.message == "by a test"
    assert world.pod("train").metadata.deletion_timestamp
    assert ends(world)[:2] == [WritePurpose.MARK_OWNER, WritePurpose.STOP_OWNER]


def test_a_stop_costs_one_write_more_than_its_deletion() -> None:
    world = ready_world()
    running(world)
    evict(world)
    world.settle()
    assert ends(world) == [WritePurpose.MARK_OWNER, WritePurpose.STOP_OWNER]


def test_conditions_that_others_wrote_meanwhile_stay() -> None:
    world = ready_world()
    running(world, finalizers=LASTING)
    evict(world)
    world.observe()
    world.core.step()
    (mark,) = [write for write in world.queued if write.operation is WritePurpose.MARK_OWNER]
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "message": "by the kubelet"}
    change = patches.merge({"status": ready})
    world.store.patch(resources.PODS, "train", change, "ml", subresource="status")
    world.send(mark)
    kinds = {one.type for one in world.pod("train").status.conditions or ()}
    assert {"Ready", "TerminationTarget"} <= kinds
    assert world.pod("train").status.message == "by the kubelet"


def test_a_pod_on_which_nothing_can_be_written_is_deleted_all_the_same() -> None:
    world = ready_world()
    running(world)
    evict(world)
    sender = world._sender

    class Forbidding:
        def send(self, write: ApiRequest) -> Any:
            if write.operation is not WritePurpose.MARK_OWNER:
                return sender.send(write)
            return refused(write)

    world._sender = Forbidding()  # type: ignore[assignment]
    world.settle()
    world.pass_time(5)
    assert WritePurpose.STOP_OWNER in ends(world)
    assert ends(world).count(WritePurpose.MARK_OWNER) == 1


def refused(write: ApiRequest) -> Any:
    error = errors.make(403, "forbidden", reason="Forbidden")
    return RequestResult(request=write, result=Result.REFUSED, error=error)


def test_a_workload_gives_its_quota_back_before_it_ends_with_its_pod() -> None:
    world = ready_world()
    running(world, finalizers=LASTING)
    name = world.workloads()["train"].metadata.name
    evict(world)
    world.settle()
    found = world.store.get(resources.WORKLOADS, name, "ml")
    assert "admission" not in found["status"]
    assert said(found, "QuotaReserved") == ("False", "PendingEvaluation", "by a test")
    assert said(found, "Requeued") == ("False", "Preempted", "by a test")
    assert said(found, "Admitted")[:2] == ("False", "NoReservation")
    gone = "The workload's owner no longer exists"
    assert said(found, "Finished") == ("True", "OwnerNotFound", gone)
    assert ends(world)[2:] == [WritePurpose.CLEAR_RESERVATION, WritePurpose.FINISH_WORKLOAD]


def test_a_pod_that_a_user_deletes_ends_its_workload_at_once() -> None:
    world = ready_world()
    running(world, finalizers=LASTING)
    world.delete_pod("train")
    world.settle()
    assert ends(world) == [WritePurpose.FINISH_WORKLOAD]


def test_an_evicted_pod_that_was_not_released_is_tried_again() -> None:
    world = ready_world()
    world.add_pod("train", gpus=1)
    world.observe()
    world.core.step()
    world.send_one()  # the Workload
    world.core.step()
    world.send_one()  # the reservation
    evict(world)
    later = world.restarted()
    later.settle()
    assert ends(later) == [WritePurpose.CLEAR_RESERVATION]
    assert later.admitted() == {"train"}


def test_annotations_for_provisioning_requests_reach_the_workload() -> None:
    world = ready_world()
    key = "provreq.kueue.x-k8s.io/ValidUntilSeconds"
    world.add_pod("train", annotations={key: "0", "example.com/other": "1"})
    world.settle()
    assert world.workloads()["train"].metadata.annotations == {key: "0"}
    assert names.PROVISIONING_PREFIX in key
