"""The numbered GPU requirements that only a whole controller can meet."""

from admission.base import names, patches
from admission.kube import resources
from admission.kube.api import Document
from admission.objects.workload import Workload
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_check, make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.test_capacity import (
    GUARD,
    allocatable,
    bind,
    condition,
    make_world,
    node,
)
from tests.controller.world import World, ready_world

GPU = names.GPU_RESOURCE


def amounts(made: World) -> tuple[str, str, int, int]:
    """GPUs reserved and used, Workloads that wait and that are admitted, of the queue."""
    made.pass_time(2)
    status = made.status_of("gpus")
    reserved, used = (
        status[key][0]["resources"][0]["total"] for key in ("flavorsReservation", "flavorsUsage")
    )
    return reserved, used, status["pendingWorkloads"], status["admittedWorkloads"]


def is_running(made: World, name: str) -> bool:
    found: Document = made.store.get(resources.JOBS, name, "ml")
    return not found["spec"]["suspend"]


def is_admitted(made: World, name: str) -> bool:
    made.settle()
    found = made.store.get(resources.WORKLOADS, name, "ml", into=Workload)
    return found.status.is_true("Admitted")


# ------------------------------------------------------------------------------ 22: what counts


def test_req_22_ended_pods_free_quota_and_waiting_ones_hold_none():
    made = ready_world(quota=2)
    made.add_pod("first", gpus=2)
    made.settle()
    made.add_pod("second", gpus=2)
    assert amounts(made) == ("2", "2", 1, 1)
    made.set_phase("first", "Failed")
    assert amounts(made) == ("2", "2", 0, 1)
    assert not made.is_gated("second")
    made.set_phase("second", "Succeeded")
    assert amounts(made) == ("0", "0", 0, 0)


def test_req_22_quota_of_a_pod_that_is_not_admitted_yet_is_reserved_and_not_used():
    checks = {"admissionChecks": [{"name": "budget"}]}
    made = World()
    made.add(make_namespace(), make_flavor(), make_local_queue(), make_check())
    made.add(make_cluster_queue(quota=2, admissionChecksStrategy=checks))
    active = patches.merge({"status": {"conditions": [ACTIVE]}})
    made.store.patch(resources.ADMISSION_CHECKS, "budget", active, subresource="status")
    made.settle()
    made.add_pod("first", gpus=2)
    made.settle()
    assert made.is_gated("first")
    assert amounts(made) == ("2", "0", 0, 0)


ACTIVE = {
    "type": "Active",
    "status": "True",
    "reason": "Active",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


# --------------------------------------------------------------------------------- 24, 25: gangs


def test_req_24_a_job_is_one_gang_by_its_uid_with_the_size_it_says():
    made = ready_world(quota=8)
    made.add(queued_job("train", pods=3))
    made.settle()
    before = made.workloads()["train"]
    assert [one.count for one in before.spec.pod_sets or ()] == [3]

    made.store.delete(resources.JOBS, "train", "ml")
    made.settle()
    made.add(queued_job("train", pods=2))
    made.settle()
    after = made.workloads()["train"]
    assert [one.count for one in after.spec.pod_sets or ()] == [2]
    assert after.metadata.label(names.JOB_UID_LABEL) != before.metadata.label(names.JOB_UID_LABEL)


def test_req_25_a_gang_starts_whole_or_not_at_all():
    made = ready_world(quota=4)
    made.add(queued_job("large", pods=5), queued_job("fits", pods=4))
    made.settle()
    assert (is_running(made, "large"), is_running(made, "fits")) == (False, True)
    assert amounts(made)[:2] == ("4", "4")


def test_req_25_roles_are_counted_by_their_own_templates_and_admitted_together():
    made = ready_world(quota=8)
    made.add(
        make_workload("uneven", make_pod_set("driver", gpus=1), make_pod_set("worker", 2, gpus=4))
    )
    assert not is_admitted(made, "uneven")
    made.add(
        make_workload("even", make_pod_set("driver", gpus=2), make_pod_set("worker", 2, gpus=3))
    )
    assert is_admitted(made, "even")
    assert amounts(made)[:2] == ("8", "8")


def test_req_25_an_elastic_job_starts_with_its_least():
    made = ready_world(quota=3)
    made.add(queued_job("elastic", pods=5, annotations={names.JOB_MIN_PARALLELISM: "2"}))
    made.settle()
    assert is_running(made, "elastic")
    assert amounts(made)[1] == "3"


# ---------------------------------------------------------------------- 26: what Kueue has charged


def test_req_26_the_pods_of_a_job_with_quota_are_not_charged_again():
    made = ready_world(quota=2)
    made.add(queued_job("train", pods=2))
    made.settle()
    template = made.store.get(resources.JOBS, "train", "ml")["spec"]["template"]["metadata"]
    for index in range(2):
        pod = make_pod(f"train-{index}", metadata=template, gpus=1)
        made.store.create(resources.PODS, pod, "ml")
    assert amounts(made) == ("2", "2", 0, 1)
    assert set(made.workloads()) == {"train"}


# ------------------------------------------------------------------------------ 29: live changes


def test_req_29_a_relabelled_node_changes_what_the_next_pod_gets():
    made = make_world(
        node("n0", gpu=1), node("n1", gpu=1, labels={names.GPU_PRODUCT_LABEL: "Tesla-T4"}),
        {**make_cluster_queue(quota=2), "metadata": {"name": "gpus", "annotations": GUARD}},
        make_local_queue(),
    )  # fmt: skip
    made.add_pod("first", gpus=1)
    made.settle()
    made.add_pod("second", gpus=1)
    made.settle()
    assert made.admitted() == {"first"}

    product = made.store.get(resources.NODES, "n0")["metadata"]["labels"][names.GPU_PRODUCT_LABEL]
    relabel = patches.merge({"metadata": {"labels": {names.GPU_PRODUCT_LABEL: product}}})
    made.store.patch(resources.NODES, "n1", relabel)
    made.settle()
    assert made.admitted() == {"first", "second"}


def test_req_29_a_node_whose_gpus_are_cut_anew_offers_nothing_until_that_is_done():
    made = make_world(
        node("n0", gpu=2),
        {**make_cluster_queue(quota=2), "metadata": {"name": "gpus", "annotations": GUARD}},
        make_local_queue(),
    )
    said = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "pending"}
    made.store.patch(resources.NODES, "n0", patches.merge({"metadata": {"labels": said}}))
    made.settle()
    made.add_pod("first", gpus=1)
    made.settle()
    assert made.is_gated("first")
    done = {"nvidia.com/mig.config.state": "success"}
    made.store.patch(resources.NODES, "n0", patches.merge({"metadata": {"labels": done}}))
    made.settle()
    assert not made.is_gated("first")


def test_req_29_reductions_below_use_evict_nobody_and_are_reported():
    made = make_world(node("n0", gpu=4), make_cluster_queue(quota=4), make_local_queue())
    for pod in "abcd":
        made.add_pod(pod, gpus=1)
        made.settle()
        bind(made, pod, "n0")
    less = make_cluster_queue(quota=2)["spec"]
    made.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": less}))
    made.settle()
    assert made.admitted() == set("abcd")
    assert amounts(made)[1] == "4", "over quota is shown, not taken"
    made.add_pod("next", gpus=1)
    made.settle()
    made.delete_pod("a")
    made.settle()
    assert made.is_gated("next"), "three are held, two are promised"

    more = make_cluster_queue(quota=4)["spec"]
    made.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": more}))
    made.settle()
    assert not made.is_gated("next")
    allocatable(made, "n0", 1)
    assert made.admitted() == {"b", "c", "d", "next"}
    assert (
        "quota promises 4, 3 exist (1 healthy, 2 held by running pods on sick GPUs or on"
        in (condition(made)[1])
    )
