"""Jobs and pods in domains of a topology, on the embedded store."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.api import Document
from admission.objects.workload import Workload, assigned_domains
from tests.builders.cluster import make_node
from tests.builders.jobs import queued_job
from tests.builders.metadata import make_metadata
from tests.builders.pods import make_pod
from tests.controller.test_elastic_jobs import JobController
from tests.controller.test_preemption_notice import ShownOwner
from tests.controller.world import World, ready_world

HOST, RACK = "kubernetes.io/hostname", "example.com/rack"
REQUIRED = {names.REQUIRED_TOPOLOGY: RACK}


def racks(quota: int = 16, levels: tuple[str, ...] = (RACK, HOST), **nodes_of: int) -> World:
    """A world whose flavor has a topology: racks of so many nodes with 2 GPUs each."""
    world = ready_world(quota=quota)
    add_topology(world, *levels)
    flavor = world.store.get(resources.RESOURCE_FLAVORS, "a100")
    labels = {**flavor["spec"].get("nodeLabels", {}), "pool": "a"}
    spec = {"nodeLabels": labels, "topologyName": "racks"}
    world.store.patch(resources.RESOURCE_FLAVORS, "a100", patches.merge({"spec": spec}))
    for rack, count in nodes_of.items():
        for index in range(count):
            add_node(world, f"{rack}-{index}", rack, labels)
    world.settle()
    return world


def add_topology(world: World, *levels: str) -> None:
    world.add(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Topology",
            "metadata": make_metadata("racks"),
            "spec": {"levels": [{"nodeLabel": level} for level in levels]},
        }
    )


def add_node(world: World, name: str, rack: str, labels: dict[str, str]) -> None:
    units = {names.GPU_RESOURCE: 2, "pods": 110, "cpu": 64, "memory": "256Gi"}
    world.add(make_node(name, {**labels, HOST: name, RACK: rack}, units))


def near(name: str, pods: int, **more: Any) -> Document:
    """An Indexed Job that asks for one rack."""
    job = queued_job(name, pods, completionMode="Indexed", **more)
    job["spec"]["template"]["metadata"].setdefault("annotations", {}).update(REQUIRED)
    return job


def stored(world: World, name: str) -> Document:
    return world.store.get(resources.JOBS, name, "ml")


def nodes_of(jobs: JobController) -> list[str]:
    """The hosts that pods select; empty for one that waits."""
    return [
        ""
        if pod["spec"].get("schedulingGates")
        else (pod["spec"].get("nodeSelector") or {}).get(HOST, "")
        for pod in jobs.pods()
    ]


def workload(world: World) -> Workload:
    (only,) = world.store.list(resources.WORKLOADS, into=Workload).items
    return only


def assignment(world: World) -> Any:
    document = world.store.list(resources.WORKLOADS, into=dict).items[0]
    (assigned,) = document["status"]["admission"]["podSetAssignments"]
    return assigned.get("topologyAssignment")


def test_a_job_is_admitted_to_one_rack_and_each_pod_is_told_its_node() -> None:
    world = racks(r0=1, r1=2)
    world.add(near("train", 3))
    world.settle()

    assert stored(world, "train")["spec"]["suspend"] is False
    gates = stored(world, "train")["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == [{"name": names.TOPOLOGY_GATE}]
    assert assignment(world) == {
        "levels": [HOST],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"individual": {"prefix": "r1-", "roots": ["0", "1"]}}],
                "podCounts": {"individual": [2, 1]},
            }
        ],
    }

    jobs = JobController(world)
    jobs.work()

    assert nodes_of(jobs) == ["r1-0", "r1-0", "r1-1"]


def test_a_job_that_is_stopped_loses_the_gate() -> None:
    world = racks(r0=2)
    world.add(near("train", 2))
    world.settle()
    jobs = JobController(world)
    jobs.work()

    held = {"spec": {"active": False}}
    world.store.patch(
        resources.WORKLOADS, workload(world).metadata.name, patches.merge(held), "ml"
    )
    world.settle()
    jobs.work()
    world.pass_time(2)

    template = stored(world, "train")["spec"]["template"]
    assert not template["spec"].get("schedulingGates")
    assert names.WORKLOAD_ANNOTATION not in template["metadata"].get("annotations", {})


def test_who_fits_in_no_rack_waits_with_the_words_of_kueue() -> None:
    world = racks(r0=2, r1=1)
    world.add(near("train", 5))
    world.settle()
    world.pass_time(2)

    condition = workload(world).status.condition("QuotaReserved")

    assert stored(world, "train")["spec"]["suspend"] is True
    assert condition is not None
    assert condition.reason == "TopologyPlacementFailed"
    assert condition.message == (
        "couldn't assign flavors to pod set main:"
        ' topology "racks" allows to fit only 4 out of 5 pod(s)'
    )


def test_a_pod_is_released_to_its_node() -> None:
    world = racks(r0=1)
    world.add_pod("train", annotations=REQUIRED)
    world.settle()

    assert not world.is_gated("train")
    assert (world.pod("train").spec.node_selector or {})[HOST] == "r0-0"


def test_a_pod_with_the_gate_of_owners_that_grow_is_released_to_its_node() -> None:
    world = racks(r0=1)
    gates = [{"name": names.ADMISSION_GATE}, {"name": names.ELASTIC_JOB_GATE}]
    world.add_pod("train", annotations=REQUIRED, schedulingGates=gates)
    world.settle()

    assert not world.pod("train").spec.scheduling_gates
    assert (world.pod("train").spec.node_selector or {})[HOST] == "r0-0"


def test_a_leader_that_takes_over_goes_on_with_the_assignment() -> None:
    world = racks(r0=2)
    world.add(near("train", 3))
    world.settle()
    world = world.restarted()
    world.settle()

    world.add(near("second", 2))
    world.settle()
    jobs = JobController(world)
    jobs.work()

    assert stored(world, "second")["spec"]["suspend"] is True
    assert nodes_of(jobs) == ["r0-0", "r0-0", "r0-1"]


def test_pods_of_a_group_are_released_to_one_rack_by_their_index() -> None:
    world = racks(r0=1, r1=2)
    for index in range(3):
        world.add_pod(
            f"p{index}",
            labels={
                names.QUEUE_LABEL: "team-a",
                names.POD_GROUP_NAME: "g",
                names.POD_GROUP_POD_INDEX_LABEL: str(index),
            },
            annotations={names.POD_GROUP_TOTAL_COUNT: "3", **REQUIRED},
        )
    world.pass_time(3)

    hosts = [(world.pod(f"p{index}").spec.node_selector or {}).get(HOST) for index in range(3)]
    assert hosts == ["r1-0", "r1-0", "r1-1"]


def test_a_job_whose_pods_select_another_node_gives_its_quota_back() -> None:
    world = racks(r0=2)
    world.add(near("train", 2))
    world.settle()
    jobs = JobController(world)
    job = stored(world, "train")
    job["spec"]["template"]["spec"]["nodeSelector"] = {HOST: "elsewhere"}
    jobs._make(job)
    world.settle()

    condition = workload(world).status.condition("Evicted")

    assert condition is not None
    assert "elsewhere" in condition.message


def test_a_pod_gets_its_domain_when_the_pod_that_holds_it_ends() -> None:
    world = racks(r0=1)
    world.add(near("train", 2))
    world.settle()
    jobs = JobController(world)
    jobs.work()
    jobs._make(stored(world, "train"))
    world.settle()
    assert nodes_of(jobs) == ["r0-0", "r0-0", ""]

    world.delete_pod("train-001")
    world.settle()

    assert nodes_of(jobs) == ["r0-0", "r0-0"]


def templates(owner: ShownOwner) -> list[Document]:
    """The pod templates of a JobSet."""
    jobs = owner.document["spec"]["replicatedJobs"]
    return [one["template"]["spec"]["template"] for one in jobs]


def make_pods(world: World, owner: ShownOwner) -> None:
    """The pods of a JobSet, the last ranks first."""
    driver, workers = templates(owner)
    ranks = [(1, 1), (1, 0), (0, 1), (0, 0)]
    for template, replica, index in ((driver, 0, 0), *((workers, *rank) for rank in ranks)):
        labels = {
            "jobset.sigs.k8s.io/job-index": str(replica),
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        name = f"{template['metadata']['labels'][names.PODSET_LABEL]}-{replica}-{index}"
        pod = make_pod(name, namespace="ml", labels=labels | template["metadata"]["labels"])
        pod["metadata"]["annotations"] = template["metadata"]["annotations"]
        world.add({**pod, "spec": template["spec"]})
    world.settle()


def test_the_pods_of_a_jobset_are_told_their_domains_by_replica_and_index() -> None:
    world = racks(r0=1, r1=2)
    owner = ShownOwner(world)
    before = templates(owner)[1]["spec"]
    before.setdefault("nodeSelector", {}).pop("disk", None)
    before["tolerations"] = []
    metadata = templates(owner)[1].setdefault("metadata", {})
    metadata["annotations"] = dict(REQUIRED)
    owner.show()
    world.settle()

    assert owner.runs()
    gates = [one["spec"].get("schedulingGates") for one in templates(owner)]
    assert gates == [None, [{"name": names.TOPOLOGY_GATE}]]  # the driver needs no flavor
    make_pods(world, owner)

    told = {
        pod["metadata"]["name"]: (pod["spec"].get("nodeSelector") or {}).get(HOST)
        for pod in world.store.list(resources.PODS, into=dict).items
    }
    assert told == {
        "driver-0-0": None,
        "workers-0-0": "r1-0",
        "workers-0-1": "r1-0",
        "workers-1-0": "r1-1",
        "workers-1-1": "r1-1",
    }
    sets = world.store.list(resources.WORKLOADS, into=dict).items[0]["spec"]["podSets"]
    assert [one["topologyRequest"] for one in sets] == [
        {
            "podIndexLabel": "batch.kubernetes.io/job-completion-index",
            "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
            "subGroupCount": 1,
        },
        {
            "required": RACK,
            "podIndexLabel": "batch.kubernetes.io/job-completion-index",
            "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
            "subGroupCount": 2,
        },
    ]


def test_a_driver_without_devices_in_the_group_of_its_workers_is_told_a_domain_too() -> None:
    world = racks(r0=1, r1=2)
    owner = ShownOwner(world)
    for template in templates(owner):
        template["spec"].setdefault("nodeSelector", {}).pop("disk", None)
        template["spec"]["tolerations"] = []
        metadata = template.setdefault("metadata", {})
        metadata["annotations"] = {**REQUIRED, names.PODSET_GROUP_NAME: "g"}
    owner.show()
    world.settle()

    assert owner.runs()
    gates = [one["spec"].get("schedulingGates") for one in templates(owner)]
    assert gates == [[{"name": names.TOPOLOGY_GATE}]] * 2
    make_pods(world, owner)
    world.settle()

    told = [
        (pod["spec"].get("nodeSelector") or {}).get(HOST)
        for pod in world.store.list(resources.PODS, into=dict).items
        if pod["metadata"]["name"].startswith("driver")
    ]
    assert told in (["r1-0"], ["r1-1"])
    (workload,) = world.store.list(resources.WORKLOADS, into=dict).items
    driver, workers = workload["status"]["admission"]["podSetAssignments"]
    assert driver["flavors"] == workers["flavors"] == {names.GPU_RESOURCE: "a100"}
    assert driver["resourceUsage"] == {names.GPU_RESOURCE: "0"}


def test_a_job_that_asks_for_a_rack_and_for_no_device_is_told_why_it_waits() -> None:
    world = racks(r0=1)
    world.add(near("train", 1, gpus=0))
    world.settle()
    world.pass_time(2)

    condition = workload(world).status.condition("QuotaReserved")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "NoMatchingFlavor")
    assert "no TAS flavor assigned" in condition.message
    assert stored(world, "train")["spec"]["suspend"]


# ------------------------------------------------------------------------------------ lost hosts


def bind(world: World, jobs: JobController) -> None:
    """Let the scheduler and kubelets do their work: each pod runs on the host it was told."""
    for pod in jobs.pods():
        if not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName"):
            name, host = pod["metadata"]["name"], pod["spec"]["nodeSelector"][HOST]
            bound = {"spec": {"nodeName": host}}
            world.store.patch(resources.PODS, name, patches.merge(bound), "ml")
            world.set_phase(name, "Running")
    world.settle()


def running_job(pods: int = 3, **nodes_of: int) -> tuple[World, JobController]:
    """A Job of which all pods run in one rack."""
    world = racks(levels=(RACK, HOST), **nodes_of)
    world.add(near("train", pods))
    world.settle()
    jobs = JobController(world)
    jobs.work()
    bind(world, jobs)
    return world, jobs


def lose_node(world: World, name: str) -> None:
    world.store.delete(resources.NODES, name)
    world.settle()


def taint(world: World, name: str) -> None:
    changes = {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
    world.store.patch(resources.NODES, name, patches.merge(changes))
    world.settle()


def set_ready(world: World, name: str, status: str) -> None:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    changes = patches.merge({"status": {"conditions": [ready]}})
    world.store.patch(resources.NODES, name, changes, subresource="status")
    world.settle()


def delete_pods_on(world: World, jobs: JobController, node: str) -> None:
    for pod in jobs.pods():
        if pod["spec"].get("nodeName") == node:
            world.delete_pod(pod["metadata"]["name"])
    world.settle()


def assigned(world: World) -> dict[str, int]:
    """The hosts of the Workload, with how many pods go there."""
    domains = assigned_domains(workload(world), "main")
    return {} if domains is None else {values[-1]: count for values, count in domains.counts}


def test_a_node_that_is_gone_is_replaced_and_new_pods_go_there() -> None:
    world, jobs = running_job(r0=1, r1=3)
    assert assigned(world) == {"r1-0": 2, "r1-1": 1}

    lose_node(world, "r1-0")
    delete_pods_on(world, jobs, "r1-0")
    jobs.work()

    assert assigned(world) == {"r1-1": 1, "r1-2": 2}
    assert sorted(nodes_of(jobs)) == ["r1-1", "r1-2", "r1-2"]


def test_a_node_that_is_not_ready_is_replaced_once_its_pods_are_gone() -> None:
    world, jobs = running_job(r1=3)

    set_ready(world, "r1-0", "Unknown")
    world.pass_time(600)
    assert assigned(world) == {"r1-0": 2, "r1-1": 1}

    delete_pods_on(world, jobs, "r1-0")
    assert assigned(world) == {"r1-1": 1, "r1-2": 2}


def test_a_node_that_is_ready_again_before_its_pods_are_gone_stays() -> None:
    world, jobs = running_job(r1=3)
    set_ready(world, "r1-0", "Unknown")

    set_ready(world, "r1-0", "True")
    delete_pods_on(world, jobs, "r1-0")
    jobs.work()

    assert assigned(world) == {"r1-0": 2, "r1-1": 1}
    assert sorted(nodes_of(jobs)) == ["r1-0", "r1-0", "r1-1"]


def test_a_node_whose_taint_pods_do_not_tolerate_is_replaced_once_they_are_gone() -> None:
    world, jobs = running_job(r1=3)

    taint(world, "r1-1")
    assert assigned(world) == {"r1-0": 2, "r1-1": 1}
    delete_pods_on(world, jobs, "r1-1")

    assert assigned(world) == {"r1-0": 2, "r1-2": 1}


def tolerating(pods: int, seconds: int | None, **nodes_of: int) -> tuple[World, JobController]:
    """A Job that runs in one rack and tolerates `taint`, for so many seconds or for ever."""
    world = racks(levels=(RACK, HOST), **nodes_of)
    job = near("train", pods)
    toleration: Document = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds
    job["spec"]["template"]["spec"]["tolerations"] = [toleration]
    world.add(job)
    world.settle()
    jobs = JobController(world)
    jobs.work()
    bind(world, jobs)
    return world, jobs


def test_a_taint_that_is_tolerated_for_a_time_is_replaced_once_its_pods_are_gone() -> None:
    world, jobs = tolerating(3, 30, r1=3)

    taint(world, "r1-0")
    assert assigned(world) == {"r1-0": 2, "r1-1": 1}
    delete_pods_on(world, jobs, "r1-0")
    jobs.work()

    assert assigned(world) == {"r1-1": 1, "r1-2": 2}
    assert sorted(nodes_of(jobs)) == ["r1-1", "r1-2", "r1-2"]


def test_a_taint_that_is_tolerated_for_ever_takes_no_host() -> None:
    world, jobs = tolerating(3, None, r1=3)

    taint(world, "r1-0")
    delete_pods_on(world, jobs, "r1-0")
    jobs.work()

    assert assigned(world) == {"r1-0": 2, "r1-1": 1}
    assert sorted(nodes_of(jobs)) == ["r1-0", "r1-0", "r1-1"]


def test_a_workload_without_a_replacement_in_its_rack_is_evicted_as_in_kueue() -> None:
    world, _ = running_job(r0=2, r1=1)
    assert assigned(world) == {"r0-0": 2, "r0-1": 1}

    lose_node(world, "r0-0")

    condition = workload(world).status.condition("Evicted")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "NodeFailures")
    assert condition.message == (
        "Workload was evicted as there was no replacement for unhealthy node(s): r0-0"
    )


def test_hosts_that_are_lost_at_once_are_replaced_together() -> None:
    world, _ = running_job(r1=4)

    world.store.delete(resources.NODES, "r1-0")
    world.store.delete(resources.NODES, "r1-1")
    world.settle()

    assert assigned(world) == {"r1-2": 2, "r1-3": 1}


def test_a_pod_that_was_told_a_lost_host_makes_way_for_one_that_can_start() -> None:
    world = racks(r1=3)
    world.add(near("train", 3))
    world.settle()
    jobs = JobController(world)
    jobs.work()
    assert nodes_of(jobs) == ["r1-0", "r1-0", "r1-1"]

    lose_node(world, "r1-1")
    jobs.work()

    assert assigned(world) == {"r1-0": 2, "r1-2": 1}
    assert sorted(nodes_of(jobs)) == ["r1-0", "r1-0", "r1-2"]


def test_a_replacement_is_kept_for_its_workload_while_pods_end_on_the_lost_node() -> None:
    world, _ = running_job(r1=3)

    lose_node(world, "r1-0")
    assert assigned(world) == {"r1-1": 1, "r1-2": 2}
    world.add(near("other", 2))
    world.settle()

    assert stored(world, "other")["spec"]["suspend"] is True


def test_a_leader_that_takes_over_replaces_a_host_that_was_lost_before() -> None:
    world, _ = running_job(r1=3)
    world.store.delete(resources.NODES, "r1-0")

    world = world.restarted()
    world.settle()

    assert assigned(world) == {"r1-1": 1, "r1-2": 2}


def test_a_replacement_that_is_not_written_is_decided_again() -> None:
    world, _ = running_job(r1=3)
    world.store.delete(resources.NODES, "r1-0")
    world.observe()
    world.core.step()
    (write,) = (one for one in world.queued if one.operation is WritePurpose.REPLACE_HOSTS)
    note = patches.merge({"metadata": {"annotations": {"note": "x"}}})
    world.store.patch(resources.WORKLOADS, write.name, note, "ml")

    world.settle()

    replacements = [one for one in world.sent if one.operation is WritePurpose.REPLACE_HOSTS]
    assert len(replacements) == 2
    assert assigned(world) == {"r1-1": 1, "r1-2": 2}


def test_a_workload_whose_level_is_gone_is_evicted_when_it_loses_a_host() -> None:
    world, _ = running_job(r1=3)
    assert assigned(world) == {"r1-0": 2, "r1-1": 1}
    levels = {"spec": {"levels": [{"nodeLabel": HOST}]}}
    world.store.patch(resources.TOPOLOGIES, "racks", patches.merge(levels))
    world.settle()
    assert workload(world).status.is_true("Admitted")

    lose_node(world, "r1-0")

    condition = workload(world).status.condition("Evicted")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "NodeFailures")


def test_an_assignment_to_racks_is_not_read_as_hosts() -> None:
    world = racks(levels=(RACK,), r0=1, r1=1)
    world.add(near("train", 2))
    world.settle()
    jobs = JobController(world)
    jobs.work()
    before = assignment(world)
    assert before["levels"] == [RACK]
    for pod in jobs.pods():
        bound = {"spec": {"nodeName": "r0-0"}}
        world.store.patch(resources.PODS, pod["metadata"]["name"], patches.merge(bound), "ml")
        world.set_phase(pod["metadata"]["name"], "Running")
    world.settle()

    finalizers = {"metadata": {"finalizers": None}}
    world.store.patch(resources.TOPOLOGIES, "racks", patches.merge(finalizers))
    world.store.delete(resources.TOPOLOGIES, "racks")
    add_topology(world, RACK, HOST)
    world.settle()
    world.pass_time(5)

    assert assignment(world) == before
    assert not workload(world).status.is_true("Evicted")


def add_member(world: World, name: str, index: int) -> None:
    labels = {
        names.QUEUE_LABEL: "team-a",
        names.POD_GROUP_NAME: "g",
        names.POD_GROUP_POD_INDEX_LABEL: str(index),
    }
    annotations = {names.POD_GROUP_TOTAL_COUNT: "3", **REQUIRED}
    world.add_pod(name, labels=labels, annotations=annotations)


def host(world: World, name: str) -> str:
    return (world.pod(name).spec.node_selector or {}).get(HOST, "")


def running_group(**nodes_of: int) -> World:
    """A pod group whose members run in one rack."""
    world = racks(levels=(RACK, HOST), **nodes_of)
    for index in range(3):
        add_member(world, f"p{index}", index)
    world.pass_time(3)
    for name in ("p0", "p1", "p2"):
        bound = {"spec": {"nodeName": host(world, name)}}
        world.store.patch(resources.PODS, name, patches.merge(bound), "ml")
        world.set_phase(name, "Running")
    world.settle()
    return world


@pytest.mark.parametrize("is_node_first", [True, False], ids=["node first", "pods first"])
def test_a_lost_host_of_a_group_is_replaced_whatever_is_seen_first(is_node_first: bool) -> None:
    world = running_group(r1=3)
    assert [host(world, name) for name in ("p0", "p1", "p2")] == ["r1-0", "r1-0", "r1-1"]

    if is_node_first:
        set_ready(world, "r1-0", "Unknown")
    for name in ("p0", "p1"):
        world.set_phase(name, "Failed")
    world.settle()
    if not is_node_first:
        set_ready(world, "r1-0", "Unknown")
    for index in range(2):
        add_member(world, f"next-{index}", index)
    world.pass_time(3)

    assert [host(world, name) for name in ("next-0", "next-1")] == ["r1-2", "r1-2"]


def test_a_single_pod_keeps_its_host_when_that_is_lost() -> None:
    world = racks(r0=1, r1=1)
    world.add_pod("train", annotations=REQUIRED)
    world.settle()
    told = host(world, "train")

    lose_node(world, told)
    world.pass_time(60)

    status = workload(world).status
    assert host(world, "train") == told
    assert status.is_true("Admitted")
    assert not status.is_true("Evicted")


def test_a_workload_that_was_evicted_for_a_lost_host_starts_in_another_rack() -> None:
    world, jobs = running_job(r0=2)
    labels = world.store.get(resources.NODES, "r0-0")["metadata"]["labels"]
    for index in range(2):
        add_node(world, f"r1-{index}", "r1", labels)
    world.settle()

    lose_node(world, "r0-0")
    jobs.work()
    for pod in jobs.pods():
        world.delete_pod(pod["metadata"]["name"])
    world.pass_time(5)

    assert assigned(world) == {"r1-0": 2, "r1-1": 1}


def lose_workload(world: World) -> None:
    """The Workload is gone, as all are when their kind is deleted."""
    name = workload(world).metadata.name
    gone = patches.merge({"metadata": {"finalizers": None}})
    world.store.patch(resources.WORKLOADS, name, gone, "ml")
    world.store.delete(resources.WORKLOADS, name, "ml")
    world.settle()


@pytest.mark.parametrize("run", [0, 2])
def test_pods_are_told_their_domains_though_the_workload_was_made_anew(run: int) -> None:
    """Those that run already stay, and the others get hosts of the same rack."""
    world = racks(r0=1, r1=3)
    world.add(near("train", 3))
    world.settle()
    jobs = JobController(world)
    if run:
        jobs.work()
        bind(world, jobs)
        assert nodes_of(jobs) == ["r1-0", "r1-0", "r1-1"]
        delete_pods_on(world, jobs, "r1-1")

    lose_workload(world)
    jobs.work()
    world.pass_time(2)

    assert sum(assigned(world).values()) == 3
    hosts = nodes_of(jobs)
    assert len(hosts) == 3
    assert {host[:2] for host in hosts} == {"r1"}
    assert hosts.count("r1-0") == 2


def test_a_job_without_room_for_its_waiting_pods_waits_anew_once_its_workload_is_gone() -> None:
    world = racks(r0=2)
    world.add(near("train", 3))
    world.settle()
    for name in ("r0-0", "r0-1"):
        foreign = make_pod(name, gpus=1, nodeName=name)
        foreign["metadata"]["namespace"] = "kube-system"
        foreign["spec"]["schedulingGates"] = []
        world.add(foreign)
    world.settle()

    lose_workload(world)
    JobController(world).work()
    world.pass_time(5)

    assert stored(world, "train")["spec"]["suspend"] is True
    evicted = workload(world).status.condition("Evicted")
    assert evicted is not None
    assert evicted.reason == "NodeFailures"
    assert "made anew" in evicted.message


def test_a_member_in_place_of_another_is_told_the_rack_though_the_workload_was_made_anew() -> None:
    world = running_group(r0=1, r1=3)
    assert [host(world, name) for name in ("p0", "p1", "p2")] == ["r1-0", "r1-0", "r1-1"]

    lose_workload(world)
    world.set_phase("p2", "Failed")
    add_member(world, "next", 2)
    world.pass_time(3)

    assert host(world, "next") in {"r1-1", "r1-2"}
    assert assigned_of_group(world) == {"r1"}


def assigned_of_group(world: World) -> set[str]:
    """The racks of the hosts that are assigned to the pod sets of the only Workload."""
    view = workload(world)
    domains = [assigned_domains(view, pod_set.name) for pod_set in view.spec.pod_sets or ()]
    return {values[-1][:2] for one in domains if one is not None for values, _ in one.counts}


def test_jobs_whose_workloads_are_made_anew_at_once_get_different_hosts() -> None:
    world = racks(r0=2)
    for name in ("train", "other"):
        world.add(near(name, 1, gpus=2))
    world.settle()
    for document in world.store.list(resources.WORKLOADS, into=Workload).items:
        gone = patches.merge({"metadata": {"finalizers": None}})
        world.store.patch(resources.WORKLOADS, document.metadata.name, gone, "ml")
        world.store.delete(resources.WORKLOADS, document.metadata.name, "ml")
    world.settle()
    jobs = [JobController(world), JobController(world, "other")]
    for controller in jobs:
        controller.work()
    world.pass_time(2)

    assert sorted(host for controller in jobs for host in nodes_of(controller)) == ["r0-0", "r0-1"]


def set_topology(world: World, name: str | None) -> None:
    change = patches.merge({"spec": {"topologyName": name}})
    world.store.patch(resources.RESOURCE_FLAVORS, "a100", change)
    world.settle()


def test_pods_that_started_without_a_topology_stay_when_their_workload_is_made_anew() -> None:
    world = racks(r0=2)
    set_topology(world, None)
    world.add(queued_job("train", 2))
    world.settle()
    jobs = JobController(world)
    jobs.work()
    pods = [pod["metadata"]["name"] for pod in jobs.pods()]
    set_topology(world, "racks")

    lose_workload(world)
    for _ in range(3):
        jobs.work()
        world.pass_time(5)

    assert [pod["metadata"]["name"] for pod in jobs.pods()] == pods


def test_pods_without_a_domain_beside_others_that_run_get_one_once_there_is_room() -> None:
    world, jobs = running_job(r1=2)
    delete_pods_on(world, jobs, "r1-1")
    for name in ("first", "second"):
        foreign = make_pod(name, gpus=1, nodeName="r1-1")
        foreign["metadata"]["namespace"] = "kube-system"
        foreign["spec"]["schedulingGates"] = []
        world.add(foreign)
    world.settle()
    lose_workload(world)
    jobs.work()
    world.pass_time(5)
    assert nodes_of(jobs).count("") == 1
    assert not workload(world).status.is_true("Evicted")

    world.store.delete(resources.PODS, "first", "kube-system")
    world.settle()
    jobs.work()

    assert sorted(nodes_of(jobs)) == ["r1-0", "r1-0", "r1-1"]
