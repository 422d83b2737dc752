"""Jobs and pods in domains of a topology, on the embedded store."""

from typing import Any

from admission.base import names, patches
from admission.kube import resources
from admission.kube.api import Document
from admission.objects.workload import Workload
from tests.builders.cluster import make_node
from tests.builders.jobs import queued_job
from tests.builders.metadata import make_metadata
from tests.builders.pods import make_pod
from tests.controller.test_elastic_jobs import JobController
from tests.controller.test_preemption_notice import ShownOwner
from tests.controller.world import World, ready_world

HOST, RACK = "kubernetes.io/hostname", "example.com/rack"
REQUIRED = {names.REQUIRED_TOPOLOGY: RACK}


def racks(quota: int = 16, **nodes_of: int) -> World:
    """A world whose flavor has a topology: racks of so many nodes with 2 GPUs each."""
    world = ready_world(quota=quota)
    levels = [{"nodeLabel": RACK}, {"nodeLabel": HOST}]
    world.add(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Topology",
            "metadata": make_metadata("racks"),
            "spec": {"levels": levels},
        }
    )
    flavor = world.store.get(resources.RESOURCE_FLAVORS, "a100")
    labels = {**flavor["spec"].get("nodeLabels", {}), "pool": "a"}
    spec = {"nodeLabels": labels, "topologyName": "racks"}
    world.store.patch(resources.RESOURCE_FLAVORS, "a100", patches.merge({"spec": spec}))
    for rack, count in nodes_of.items():
        for index in range(count):
            add_node(world, f"{rack}-{index}", rack, labels)
    world.settle()
    return world


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
