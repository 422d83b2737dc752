"""Jobs that name their Workload: it is awaited, adopted, and ended where it does not match."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.api import Document
from admission.objects import batch
from admission.objects.workload import Workload
from admission.owners import batch_job
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.pods import queued_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.world import WORKLOAD_KIND, World, ready_world

NAMED = {names.PREBUILT_WORKLOAD: "wl"}
MISSING = "Stopped: the Workload that it names does not exist, so it has no quota"
NOT_FOUND = 'Prebuilt workload "ml/wl" not found'


def naming(name: str = "train", pods: int = 2, **changes: Any) -> Document:
    return queued_job(name, pods, **{"annotations": NAMED, **changes})


def prebuilt(name: str = "wl", pods: int = 2, **container: Any) -> Document:
    """A Workload that asks for what the Job does, but for the changes to its container."""
    asked = queued_job()["spec"]["template"]["spec"]
    asked = {**asked, "containers": [{**asked["containers"][0], **container}]}
    return make_workload(name, make_pod_set("main", pods, pod=asked))


def stored(world: World) -> dict[str, Workload]:
    found = world.store.list(resources.WORKLOADS, into=Workload).items
    return {one.metadata.name: one for one in found}


def read(world: World, name: str = "train") -> batch.Job:
    return world.store.get(resources.JOBS, name, "ml", into=batch.JobDocument).view()


def is_running(world: World, name: str = "train") -> bool:
    return not batch_job.is_suspended(read(world, name))


def told(world: World, reason: str, name: str = "train") -> list[str]:
    return [note for one, found, note in world.events.recorded if (one, found) == (name, reason)]


def controller(world: World, name: str = "wl") -> str:
    owner = stored(world)[name].metadata.controller()
    return owner.name if owner else ""


def finished(world: World, name: str = "wl") -> tuple[str, str] | None:
    found = stored(world)[name].status.condition("Finished")
    return (found.reason, found.message) if found else None


def change(world: World, name: str = "train", **members: Any) -> None:
    world.store.patch(resources.JOBS, name, patches.merge(members), "ml")
    world.settle()


def report(world: World, name: str = "train", **status: Any) -> None:
    """Says what the Job controller would."""
    patch = patches.merge({"status": status})
    world.store.patch(resources.JOBS, name, patch, "ml", subresource="status")
    world.settle()


def change_workload(world: World, name: str = "wl", **members: Any) -> None:
    world.store.patch(resources.WORKLOADS, name, patches.merge(members), "ml")
    world.settle()


def with_both(pods: int = 2, quota: int = 4, **container: Any) -> World:
    """The Workload is there, then the Job."""
    world = ready_world(quota=quota)
    world.add(prebuilt(**container), naming(pods=pods))
    world.settle()
    return world


def started() -> World:
    world = with_both()
    assert is_running(world)
    report(world, active=2, startTime="2026-01-01T00:00:00Z")
    return world


def used(world: World) -> str:
    world.pass_time(2)
    usage = world.status_of("gpus")["flavorsUsage"]
    return str(usage[0]["resources"][0]["total"])


OUT_OF_SYNC = ("OutOfSync", "The prebuilt workload is out of sync with its user job")

# -------------------------------------------------------------------------------------- absent


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_job_waits_for_the_workload_it_names_and_is_told_so_once(where: str) -> None:
    world = ready_world()
    document = queued_job()
    document["metadata"].setdefault(where, {}).update(NAMED)
    world.add(document)
    world.settle()
    world.pass_time(3)
    change(world, metadata={"labels": {"team": "red"}})
    assert not is_running(world)
    assert stored(world) == {}
    assert told(world, "PrebuiltWorkloadNotFound") == [NOT_FOUND]


def test_the_annotation_wins_over_the_label() -> None:
    world = ready_world()
    world.add(prebuilt("other"), naming(labels={names.PREBUILT_WORKLOAD: "other"}))
    world.settle()
    assert told(world, "PrebuiltWorkloadNotFound") == [NOT_FOUND]
    assert controller(world, "other") == ""


def test_a_job_that_runs_without_the_workload_it_names_is_stopped() -> None:
    world = ready_world()
    world.add(naming(suspend=False))
    world.settle()
    assert not is_running(world)
    assert told(world, "Stopped") == [MISSING]
    assert stored(world) == {}


def test_a_job_starts_with_a_workload_that_is_made_later() -> None:
    world = ready_world()
    world.add(naming())
    world.settle()
    world.add(prebuilt())
    world.settle()
    assert is_running(world)
    assert set(stored(world)) == {"wl"}


@pytest.mark.parametrize("is_running_before", [False, True], ids=["waiting", "running"])
def test_a_workload_that_another_controls_is_as_good_as_none(is_running_before: bool) -> None:
    world = ready_world()
    world.add(naming("first"))
    world.settle()
    world.add(prebuilt())
    world.settle()
    world.add(naming("train", suspend=not is_running_before))
    world.settle()
    assert controller(world) == "first"
    assert is_running(world, "first")
    assert not is_running(world)
    assert told(world, "PrebuiltWorkloadNotFound") == [
        f"{NOT_FOUND}: it is controlled by Job first"
    ]


def test_of_two_jobs_that_name_a_workload_one_gets_it() -> None:
    world = ready_world()
    world.add(naming("first"), naming("second"))
    world.settle()
    world.add(prebuilt())
    world.settle()
    assert sorted([is_running(world, "first"), is_running(world, "second")]) == [False, True]


def test_a_job_does_not_take_the_workload_of_a_pod() -> None:
    world = ready_world()
    world.add_pod("one", gpus=1)
    world.settle()
    (name,) = stored(world)
    world.add(queued_job(labels={names.PREBUILT_WORKLOAD: name}))
    world.settle()
    assert controller(world, name) == "one"
    assert not is_running(world)
    world.delete_pod("one")
    world.settle()
    assert stored(world) == {}


# ------------------------------------------------------------------------------------- adopted


def test_a_workload_is_adopted_with_one_write_and_its_spec_stays() -> None:
    world = ready_world(quota=1)
    world.add(prebuilt())
    world.settle()
    before = stored(world)["wl"].spec
    world.add(naming())
    world.settle()
    found, uid = stored(world)["wl"], read(world).metadata.uid
    owner = found.metadata.controller()
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Job", "train", uid)
    assert found.metadata.label(names.JOB_UID_LABEL) == uid
    assert found.spec == before
    adopting = [one for one in world.sent if one.operation is WritePurpose.ADOPT_WORKLOAD]
    assert len(adopting) == 1
    assert [one.operation for one in world.sent].count(WritePurpose.CREATE_WORKLOAD) == 0


def test_a_workload_that_was_made_in_its_jobs_name_is_compared_too() -> None:
    world = ready_world()
    world.add(naming())
    world.settle()
    document, uid = prebuilt(image="other"), read(world).metadata.uid
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    document["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    world.add(document)
    world.settle()
    assert finished(world) == OUT_OF_SYNC


def test_other_owners_of_a_workload_stay() -> None:
    world = ready_world()
    world.add_pod("maker", gpus=0)
    document, uid = prebuilt(), world.pod("maker").metadata.uid
    other = {"apiVersion": "v1", "kind": "Pod", "name": "maker", "uid": uid}
    document["metadata"]["ownerReferences"] = [other]
    world.add(document, naming())
    world.settle()
    owners = stored(world)["wl"].metadata.owner_references or ()
    assert [one.kind for one in owners] == ["Pod", "Job"]


def test_a_job_starts_with_what_the_flavor_of_its_prebuilt_workload_says() -> None:
    world = with_both()
    template = world.store.get(resources.JOBS, "train", "ml")["spec"]["template"]
    assert is_running(world)
    assert template["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "a100"}
    assert template["metadata"]["annotations"][names.WORKLOAD_ANNOTATION] == "wl"
    assert told(world, "Started") == ["Admitted by clusterQueue gpus"]
    assert told(world, "PrebuiltWorkloadNotFound") == []


def test_a_workload_without_queue_gets_that_of_its_job() -> None:
    world = ready_world()
    document = prebuilt()
    del document["spec"]["queueName"]
    world.add(document, naming())
    world.settle()
    assert stored(world)["wl"].spec.queue_name == "team-a"
    assert is_running(world)


def test_amounts_and_empty_members_may_be_written_otherwise() -> None:
    amounts = {names.GPU_RESOURCE: 1}
    world = with_both(resources={"requests": amounts, "limits": amounts}, env=[])
    assert finished(world) is None
    assert is_running(world)


def test_an_eviction_stops_the_job_and_restores_its_template() -> None:
    world = started()
    change_workload(world, spec={"active": False})
    assert not is_running(world)
    report(world, active=0)
    assert used(world) == "0"
    assert read(world).spec.template.spec.node_selector in (None, {})
    assert finished(world) is None
    change_workload(world, spec={"active": True})
    assert is_running(world)


@pytest.mark.parametrize(("kind", "reason"), [("Complete", "Succeeded"), ("Failed", "Failed")])
def test_an_ended_job_finishes_its_prebuilt_workload(kind: str, reason: str) -> None:
    world = started()
    report(world, active=0, conditions=[{"type": kind, "status": "True", "message": "over"}])
    assert finished(world) == (reason, "over")
    assert not stored(world)["wl"].metadata.finalizers
    assert used(world) == "0"


def test_a_deleted_job_takes_its_prebuilt_workload_along() -> None:
    world = started()
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()
    assert stored(world) == {}
    assert used(world) == "0"


def test_a_deleted_workload_stops_its_job_first_and_another_is_awaited() -> None:
    world = started()
    world.store.delete(resources.WORKLOADS, "wl", "ml")
    world.settle()
    assert not is_running(world)
    report(world, active=0)
    assert stored(world) == {}
    assert told(world, "Stopped") == [MISSING]
    assert told(world, "PrebuiltWorkloadNotFound") == [NOT_FOUND]
    world.add(prebuilt())
    world.settle()
    assert is_running(world)


def test_a_job_runs_on_while_workloads_vanish_as_a_kind() -> None:
    world = started()
    world.store.delete(resources.CRDS, WORKLOAD_KIND)
    world.unlisted.discard(resources.WORKLOADS)
    change_workload(world, metadata={"finalizers": None})
    world.store.delete(resources.WORKLOADS, "wl", "ml")
    world.settle()
    assert is_running(world)


def test_a_new_leader_goes_on_with_what_was_adopted() -> None:
    world = started().restarted()
    world.settle()
    assert is_running(world)
    assert {one.operation for one in world.sent} <= {WritePurpose.QUEUE_STATUS}


# -------------------------------------------------------------------------------- out of sync


@pytest.mark.parametrize(
    "document",
    [
        prebuilt(pods=3),
        prebuilt(image="other"),
        prebuilt(resources={"requests": {names.GPU_RESOURCE: "2"}}),
        make_workload("wl", make_pod_set(gpus=1), make_pod_set("second", gpus=1)),
        make_workload("wl", make_pod_set("workers", 2, gpus=1)),
    ],
    ids=["count", "image", "amount", "two pod sets", "name of the pod set"],
)
def test_a_workload_that_asks_otherwise_than_its_job_ends_and_stays(document: Document) -> None:
    world = ready_world()
    world.add(document)
    world.settle()
    before = stored(world)["wl"].spec
    world.add(naming())
    world.settle()
    world.pass_time(2)
    assert finished(world) == OUT_OF_SYNC
    assert stored(world)["wl"].spec == before
    assert controller(world) == "train"
    assert not is_running(world)
    assert set(stored(world)) == {"wl"}
    assert used(world) == "0"


def test_a_limit_on_the_running_time_that_the_job_has_not_is_out_of_sync() -> None:
    world = ready_world()
    document = prebuilt()
    document["spec"]["maximumExecutionTimeSeconds"] = 60
    world.add(document, naming())
    world.settle()
    assert finished(world) == OUT_OF_SYNC


def test_a_waiting_job_that_changes_leaves_its_prebuilt_workload_behind() -> None:
    world = with_both(quota=1)
    assert finished(world) is None
    change(world, spec={"parallelism": 1, "completions": 1})
    assert finished(world) == OUT_OF_SYNC
    assert not is_running(world)


def test_a_running_job_that_changes_its_count_is_stopped_for_want_of_a_workload() -> None:
    world = started()
    change(world, spec={"parallelism": 1})
    assert finished(world) == OUT_OF_SYNC
    assert not is_running(world)
    report(world, active=0)
    assert told(world, "Stopped") == [MISSING]
    assert told(world, "DeletedWorkload") == []
    assert set(stored(world)) == {"wl"}


def test_a_job_that_is_let_run_with_a_workload_out_of_sync_is_stopped() -> None:
    world = with_both(pods=3)
    change(world, spec={"suspend": False})
    assert not is_running(world)


# -------------------------------------------------------------------------- the name is changed


def test_a_job_that_comes_to_name_a_workload_gives_up_the_one_it_had() -> None:
    world = ready_world(quota=1)
    world.add(queued_job())
    world.settle()
    world.add(prebuilt())
    change(world, metadata={"annotations": NAMED})
    assert set(stored(world)) == {"wl"}
    assert controller(world) == "train"


def test_a_job_that_names_another_workload_gives_the_first_one_up() -> None:
    world = with_both(quota=1)
    world.add(prebuilt("second"))
    change(world, metadata={"annotations": {names.PREBUILT_WORKLOAD: "second"}})
    assert told(world, "DeletedWorkload") == ["Deleted not matching Workload: ml/wl"]
    assert set(stored(world)) == {"second"}
    assert controller(world, "second") == "train"


# ---------------------------------------------------------------------------------------- caps


def test_an_adopted_workload_counts_for_who_created_the_job() -> None:
    """Who made it is not known: made by hand it comes under the cap of nobody known."""
    world = World()
    caps = {names.MAX_PER_USER: f"{names.GPU_RESOURCE}=2"}
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(quota=8, annotations=caps),
        make_local_queue(),
        prebuilt(),
    )
    world.settle()
    assert stored(world)["wl"].status.is_true("Admitted")
    world.add(naming(annotations={**NAMED, names.REQUESTER: "ann"}))
    world.settle()
    assert is_running(world)
    assert stored(world)["wl"].metadata.annotation(names.REQUESTER) == "ann"
    by_nobody = queued_pod("by-nobody", gpus=2)
    for name, user in (("of-ann", "ann"), ("of-bob", "bob")):
        document = queued_pod(name, gpus=1, annotations={names.REQUESTER: user})
        world.store.create(resources.PODS, document, "ml")
    world.store.create(resources.PODS, by_nobody, "ml")
    world.pass_time(3)
    assert world.admitted() == {"of-bob", "by-nobody"}
    told = world.condition("of-ann")
    assert told is not None
    assert told.reason == "CapReached"
