"""Pods of PodGroups of other schedulers on a whole cluster: all or nothing, in quota.

A stand-in for Volcano's controller makes the PodGroup and the pods of a Volcano Job, as the real
one does. Who runs is judged from the pods that the API server shows.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from admission.base import conditions, names
from admission.objects import gangs
from admission.objects.gangs import GangKind
from admission.owners import pod as pod_owner
from tests.builders.pods import make_pod
from tests.controlplane import programs, waiting
from tests.controlplane.rest import Rest, RestError
from tests.gpu import seeds
from tests.integration import kubelet, owner_crds, snapshot, teams
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

RACK = "example.com/rack"
VOLCANO = gangs.VOLCANO
HAS_NATIVE = programs.minor() >= (1, 36)
"""Whether the API server knows PodGroups."""
NATIVE_VERSION = "v1alpha2" if programs.minor() < (1, 37) else "v1beta1"
KINDS = [kind for kind in gangs.KINDS if HAS_NATIVE or kind is not gangs.NATIVE]
EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
needs_native = pytest.mark.skipif(not HAS_NATIVE, reason="the API server has no PodGroups")
VOLCANO_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    on = ["GenericWorkload", "TopologyAwareWorkloadScheduling"] if HAS_NATIVE else []
    if programs.minor() == (1, 36):
        on.append("GangScheduling")  # part of GenericWorkload from 1.37 on
    gates = [f"--feature-gates={','.join(f'{gate}=true' for gate in on)}"] if on else []
    served = [f"--runtime-config=scheduling.k8s.io/{NATIVE_VERSION}=true"] if on else []
    folder = tmp_path_factory.mktemp("gangs")
    with snapshot.prepared(folder, Installed, api_flags=(*gates, *served)) as it:
        cluster = it.cluster
        for kind in (gangs.VOLCANO, gangs.COSCHEDULING):
            owner_crds.install_kind(cluster, kind.group, kind.version, gangs.KIND, gangs.PLURAL)
        volcano = (cluster, VOLCANO.group, VOLCANO.version, "Queue", "queues", "Cluster")
        owner_crds.install_kind(*volcano)
        owner_crds.install_kind(cluster, "batch.volcano.sh", "v1alpha1", "Job", "jobs")
        owner_crds.install_kind(cluster, "kubeflow.org", "v1", "MXJob", "mxjobs")
        cluster.start_whole(scheduler_flags=tuple(gates))
        for index in range(16):
            labels = {"nvidia.com/gpu.product": "A100", RACK: f"rack-{index // 4}"}
            cluster.add_gpu_node(f"gpus-{index}", gpus=100, labels=labels)
        it.start()
        yield it


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    """One who may edit pods and everything of the other schedulers."""
    groups = {"batch.volcano.sh", "kubeflow.org", *(one.group for one in gangs.KINDS)}
    return teams.add_editor(system, *groups)


class Team(teams.Team):
    """A namespace with quota, and one who may edit gangs in it."""

    def podgroups(self, kind: GangKind) -> str:
        return f"/apis/{kind.group}/{version(kind)}/namespaces/{self.name}/podgroups"

    def gang(
        self, minimum: int, name: str = "gang", kind: GangKind = VOLCANO, **spec: Any
    ) -> Json:
        """Create a PodGroup, as a user does."""
        *path, last = kind.minimum.split(".")[1:]
        at = spec
        for step in path:
            at = at.setdefault(step, {})
        at[last] = minimum
        return self.editor.post(self.podgroups(kind), podgroup(kind, name, spec))

    def add(
        self,
        *pods: str,
        gang: str = "gang",
        kind: GangKind = VOLCANO,
        gpus: int = 1,
        labels: dict[str, str] | None = None,
        **more: Any,
    ) -> list[Json]:
        """Create pods that name a PodGroup, as a user does."""
        made = []
        for name in pods:
            limits = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
            pod = make_pod(name, limits=limits, labels=labels, restartPolicy="Never", **more)
            point_at(pod, kind, gang)
            made.append(self.editor.post(self.pods, pod))
        return made

    def racks(self, *pods: str) -> set[str]:
        """The racks of the nodes of pods that run."""
        nodes = {node["metadata"]["name"]: node for node in self.api.get("/api/v1/nodes")["items"]}
        listed = self.listed()
        return {
            nodes[listed[name]["spec"]["nodeName"]]["metadata"]["labels"][RACK] for name in pods
        }

    def wait_started(self, *pods: str) -> None:
        with self.showing():
            waiting.until(
                lambda: self.started() == set(pods), what=f"{', '.join(pods)} have started"
            )

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Have a failure show pods and Workloads, and the end of the log."""
        try:
            yield
        except TimeoutError as late:
            for thing in (*self.listed().values(), *self.api.get(self.workloads)["items"]):
                late.add_note(f"{thing['metadata']} {thing.get('status')}")
            late.add_note(self.system.log.read_text()[-8000:])
            raise

    def end(self, *pods: str, phase: str = "Succeeded") -> None:
        for name in pods:
            kubelet.say_phase(self.api, f"{self.pods}/{name}", phase)

    def pause(self) -> None:
        """Wait until everything was decided that could be decided so far."""
        other = self.system.add_team(1)
        for name in ("one", "two"):  # a second for each
            self.system.create_pod(other, name, gpus=1)
            self.system.wait_released(other, name)
            self.system.delete_pod(other, name)

    def workload(self, name: str = "gang", kind: GangKind = VOLCANO) -> Json | None:
        named = pod_owner.gang_name(gangs.Reference(kind, name))
        found = self.api.get(self.workloads)["items"]
        return next((one for one in found if one["metadata"]["name"] == named), None)

    def wait_told(self, pod: str, reason: str) -> str:
        def look() -> str | None:
            found = self.system.condition(self.name, pod)
            return found["message"] if found is not None and found["reason"] == reason else None

        with self.showing():
            return waiting.until(look, what=f"pod {pod} says {reason}")


def version(kind: GangKind) -> str:
    """The version that the cluster serves."""
    return NATIVE_VERSION if kind is gangs.NATIVE else kind.version


def podgroup(kind: GangKind, name: str, spec: Json, **metadata: Any) -> Json:
    """A PodGroup."""
    return {
        "apiVersion": f"{kind.group}/{version(kind)}",
        "kind": gangs.KIND,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def point_at(pod: Json, kind: GangKind, gang: str) -> None:
    """Have a pod name a PodGroup, as its author writes it."""
    metadata = pod["metadata"]
    if kind.annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), kind.annotations[0]: gang}
    elif kind.has_field:
        pod["spec"]["schedulingGroup"] = {"podGroupName": gang}
    else:
        metadata["labels"] = {**metadata.get("labels", {}), kind.labels[0]: gang}


@pytest.fixture
def team(system: Installed, editor: Rest) -> Team:
    return Team(system, editor)


def events(team: Team, name: str, reason: str) -> list[str]:
    """Notes of events about an object."""
    found = team.api.get("/apis/events.k8s.io/v1/events")["items"]
    return [
        one["note"] for one in found if (one["regarding"]["name"], one["reason"]) == (name, reason)
    ]


# ------------------------------------------------------------------------------ all or nothing


@EVERY
def test_a_gang_starts_whole_whatever_comes_first(
    system: Installed, editor: Rest, kind: GangKind
) -> None:
    team = Team(system, editor)
    team.add("a", "b", kind=kind)
    told = team.wait_told("a", "PodGroupNotFound")
    assert f"{kind.qualified} gang does not exist" in told
    team.gang(3, kind=kind)
    told = team.wait_told("a", "PodGroupIncomplete")
    assert f"2 of at least 3 pods of {kind.qualified} gang are there" in told
    assert team.started() == set()
    team.add("c", kind=kind)
    team.wait_started("a", "b", "c")


@EVERY
def test_of_two_gangs_on_quota_for_one_the_second_waits_whole(
    system: Installed, editor: Rest, kind: GangKind
) -> None:
    team = Team(system, editor)
    for name in ("x", "y"):
        team.gang(4, name, kind)
        team.add(*(f"{name}{at}" for at in range(4)), gang=name, kind=kind)
    waiting.until(lambda: len(team.started()) == 4, what="one gang has started")
    first, second = ("x", "y") if "x0" in team.started() else ("y", "x")
    team.pause()
    assert team.started() == {f"{first}{at}" for at in range(4)}
    team.wait_told(f"{second}3", "WaitingForQuota")
    team.end(*(f"{first}{at}" for at in range(4)))
    waiting.until(lambda: len(team.started()) == 8, what="the other has started")


def test_more_than_the_minimum_start_as_quota_allows(team: Team) -> None:
    team.gang(2)
    team.add("a", "b", "c", "d", "e")
    waiting.until(lambda: len(team.started()) == 4, what="four have started")
    (last,) = set(team.listed()) - team.started()
    team.wait_told(last, "WaitingForQuota")
    team.end(min(team.started()))
    waiting.until(lambda: len(team.started()) == 5, what="the last has started")


@EVERY
def test_pods_beyond_the_minimum_come_and_go_one_by_one_and_stop_with_the_others(
    system: Installed, editor: Rest, kind: GangKind
) -> None:
    team = Team(system, editor)
    team.gang(2, kind=kind)
    team.add("a", "b", kind=kind)
    team.wait_started("a", "b")
    team.add("c", "d", kind=kind)
    team.wait_started("a", "b", "c", "d")
    team.add("e", kind=kind)
    team.wait_told("e", "WaitingForQuota")
    for change in ({names.BEYOND_POD_GROUP: None}, {names.BEYOND_POD_GROUP: "other"}):
        with pytest.raises(RestError) as refused:
            team.editor.patch(f"{team.pods}/e", {"metadata": {"annotations": change}})
        assert "Only the controller may change annotations" in str(refused.value)
    team.editor.delete(f"{team.pods}/c")
    team.wait_started("a", "b", "d", "e")
    team.add("f", kind=kind)
    team.wait_told("f", "WaitingForQuota")
    own = f"{team.workloads}/{pod_owner.gang_name(gangs.Reference(kind, 'gang'))}"
    team.api.patch(own, {"spec": {"active": False}})
    waiting.until(lambda: set(team.listed()) == {"f"}, what="all that ran were stopped")
    team.pause()
    assert team.started() == set()
    team.add("g", kind=kind)
    team.api.patch(own, {"spec": {"active": True}})
    team.wait_started("f", "g")


@needs_native
def test_pods_of_a_native_podgroup_run_under_gang_scheduling(team: Team) -> None:
    team.gang(2, kind=gangs.NATIVE)
    team.add("a", "b", kind=gangs.NATIVE)
    team.wait_started("a", "b")
    waiting.until(
        lambda: all(one["status"]["phase"] == "Running" for one in team.listed().values()),
        what="the scheduler has bound both",
    )


@needs_native
def test_a_native_podgroup_of_one_rack_waits_until_a_rack_takes_all_its_pods(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor, quota=1000)
    constraints: Json = {"topology": [{"key": RACK}]}
    team.gang(5, kind=gangs.NATIVE, schedulingConstraints=constraints)
    pods = [f"pod-{index}" for index in range(5)]
    team.add(*pods[:4], kind=gangs.NATIVE, gpus=60)  # one on each node of a rack
    team.add(pods[4], kind=gangs.NATIVE, gpus=41)
    said = team.wait_told(pods[0], "WaitingForNode")
    assert "not for all of them at once with the same example.com/rack" in said

    team.gang(2, "small", kind=gangs.NATIVE, schedulingConstraints=constraints)
    team.add("a", gang="small", kind=gangs.NATIVE, gpus=60)
    team.add("b", gang="small", kind=gangs.NATIVE, gpus=41)
    team.wait_running("a", "b")
    (rack,) = team.racks("a", "b")
    larger = "rack-0" if rack != "rack-0" else "rack-1"

    labels = {"nvidia.com/gpu.product": "A100", RACK: larger}
    team.system.cluster.add_gpu_node("more", gpus=100, labels=labels)
    try:
        team.wait_running("a", "b", *pods)
        assert team.racks(*pods) == {larger}
    finally:
        team.api.delete("/api/v1/nodes/more")


@needs_native
def test_pods_of_a_native_podgroup_that_is_no_gang_start_one_by_one(team: Team) -> None:
    basic: Json = {"schedulingPolicy": {"basic": {}}}
    path = team.podgroups(gangs.NATIVE)
    team.editor.post(path, podgroup(gangs.NATIVE, "loose", basic))
    team.add("a", gang="loose", kind=gangs.NATIVE, gpus=4)
    team.wait_started("a")
    team.add("b", gang="loose", kind=gangs.NATIVE)
    team.wait_told("b", "WaitingForQuota")
    team.end("a")
    team.wait_started("a", "b")
    assert team.workload("loose", gangs.NATIVE) is None


# ----------------------------------------------------------------------------------- the seeds


def seed(kind: str) -> Json:
    """The manifest of the seeds of a kind."""
    return next(one for one in seeds.load("services-and-gangs") if one["kind"] == kind)


def test_the_podgroup_of_the_seeds_starts_its_four_pods_at_once(team: Team) -> None:
    """Its queue is called as a LocalQueue of the namespace."""
    team.system.add_local_queue(team.name, team.name, "training")
    team.system.wait_for_queue(team.name, "training")
    manifest = seed("PodGroup")
    stored = team.editor.post(team.podgroups(VOLCANO), manifest)
    assert stored["spec"] == manifest["spec"]
    gang = manifest["metadata"]["name"]
    team.add("a", "b", "c", gang=gang)
    team.wait_told("a", "PodGroupIncomplete")
    assert team.started() == set()
    team.add("d", gang=gang)
    team.wait_started("a", "b", "c", "d")
    made = team.workload(gang)
    assert made is not None
    assert made["spec"]["queueName"] == "training"


def run_volcano_job(team: Team, job: Json) -> list[str]:
    """Make the PodGroup and the pods of a Volcano Job as its controller does; the pods' names."""
    metadata, spec = job["metadata"], job["spec"]
    gang = f"{metadata['name']}-{metadata['uid']}"
    said = {"minMember": spec["minAvailable"], "queue": spec.get("queue", "default")}
    labels = metadata.get("labels", {})
    team.api.post(team.podgroups(VOLCANO), podgroup(VOLCANO, gang, said, labels=labels))
    made = []
    for task in spec["tasks"]:
        for at in range(task["replicas"]):
            pod = copy.deepcopy(task["template"])
            pod["metadata"] = {
                **pod.get("metadata", {}),
                "name": f"{metadata['name']}-{task['name']}-{at}",
                "ownerReferences": [
                    {
                        "apiVersion": job["apiVersion"],
                        "kind": "Job",
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                        "controller": True,
                    }
                ],
            }
            pod["spec"]["schedulerName"] = spec.get("schedulerName", "volcano")
            own = {"volcano.sh/job-name": metadata["name"]}
            pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **own}
            point_at(pod, VOLCANO, gang)
            made.append(team.api.post(team.pods, pod)["metadata"]["name"])
    return made


@pytest.mark.parametrize("quota", [64, 63])
def test_the_volcano_job_of_the_seeds_starts_all_eight_workers_or_none(
    system: Installed, editor: Rest, quota: int
) -> None:
    team = Team(system, editor, quota)
    covered = {"cpu": "1000", "memory": "8Ti"}
    own = f"{KUEUE}/clusterqueues/{team.name}"
    groups = team.api.get(own)["spec"]["resourceGroups"]
    groups[0]["coveredResources"] += sorted(covered)
    for name, amount in sorted(covered.items()):
        groups[0]["flavors"][0]["resources"].append({"name": name, "nominalQuota": amount})
    team.api.patch(own, {"spec": {"resourceGroups": groups}})
    if not system.api.answers(f"{VOLCANO_QUEUES}/training-queue"):
        system.api.post(VOLCANO_QUEUES, seed("Queue"))
    manifest = seed("Job")
    jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{team.name}/jobs"
    stored = editor.post(jobs, manifest)
    pods = run_volcano_job(team, stored)
    if quota == 64:
        team.wait_started(*pods)
        assert team.workload(f"llm-training-{stored['metadata']['uid']}") is not None
    else:
        told = waiting.until(
            lambda: (
                found
                if (found := system.condition(team.name, pods[0]))
                and not found["reason"].startswith("PodGroup")
                else None
            ),
            what="the first worker says what its group waits for",
        )
        assert told["message"].startswith("Too big: asks 64 ")
        team.pause()
        assert team.started() == set()


def test_tasks_without_gpus_are_of_the_gang_of_a_volcano_job(team: Team) -> None:
    manifest = copy.deepcopy(seed("Job"))
    (workers,) = manifest["spec"]["tasks"]
    container = workers["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {names.GPU_RESOURCE: "1"}}
    workers["replicas"] = 2
    master = copy.deepcopy(workers) | {"name": "master", "replicas": 1}
    del master["template"]["spec"]["containers"][0]["resources"]
    manifest["spec"] |= {"tasks": [master, workers], "minAvailable": 3}
    jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{team.name}/jobs"
    stored = team.editor.post(jobs, manifest)
    assert stored["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    pods = run_volcano_job(team, stored)
    team.wait_started(*pods)
    made = team.workload(f"llm-training-{stored['metadata']['uid']}")
    assert made is not None
    assert sorted(one["count"] for one in made["spec"]["podSets"]) == [1, 2]


def test_the_capability_of_a_volcano_queue_is_told_of(team: Team) -> None:
    name = f"q-{team.name}"
    manifest = {**seed("Queue"), "metadata": {"name": name}}
    team.api.post(VOLCANO_QUEUES, manifest)
    team.system.add_local_queue(team.name, team.name, name)
    team.system.wait_for_queue(team.name, name)
    team.gang(1, queue=name)
    team.add("a")
    team.wait_started("a")
    waiting.until(lambda: events(team, name, "CapabilityNotSupported"), what="told on the Queue")


# -------------------------------------------------------------------- pods of one controller


def train(team: Team, name: str, *pods: str, gpus: int = 4, owner: Json | None = None) -> Json:
    """Make pods of an object of a training kind that is not served, as its controller does."""
    kind = {"apiVersion": "kubeflow.org/v1", "kind": "MXJob"}
    path = f"/apis/kubeflow.org/v1/namespaces/{team.name}/mxjobs"
    made = owner or team.editor.post(path, {**kind, "metadata": {"name": name}, "spec": {}})
    reference = {**kind, "name": name, "uid": made["metadata"]["uid"], "controller": True}
    for one in pods:
        limits = {names.GPU_RESOURCE: str(gpus)}
        metadata = {"ownerReferences": [reference]}
        pod = make_pod(one, limits=limits, metadata=metadata, restartPolicy="Never")
        team.api.post(team.pods, pod)
    return made


def test_two_trainings_that_nobody_labelled_do_not_run_half_each(
    system: Installed, editor: Rest
) -> None:
    """Each has four workers of four GPUs, and there are 24 GPUs."""
    team = Team(system, editor, 24)
    owners = {name: train(team, name) for name in ("x", "y")}
    for at in range(4):  # one after the other, as two controllers do
        for name, owner in owners.items():
            train(team, name, f"{name}{at}", owner=owner)
    waiting.until(lambda: len(team.started()) == 4, what="one has started")
    first, second = ("x", "y") if "x0" in team.started() else ("y", "x")
    team.pause()
    assert team.started() == {f"{first}{at}" for at in range(4)}
    team.wait_told(f"{second}3", "WaitingForQuota")
    train(team, first, "late", owner=owners[first])
    waiting.until(lambda: "late" in team.started(), what="what comes later is admitted by itself")
    team.end("late", *(f"{first}{at}" for at in range(4)))
    waiting.until(lambda: len(team.started()) == 9, what="the other has started")


# ------------------------------------------------------------------------------------ attacks


def test_a_queue_of_volcano_that_is_no_localqueue_is_told_of(team: Team) -> None:
    team.gang(1, queue="elsewhere")
    team.add("a")
    team.wait_started("a")
    told = waiting.until(
        lambda: events(team, "gang", "QueueNotSupported"), what="told on the PodGroup"
    )
    assert any("LocalQueue default" in one for one in told)


def test_an_editor_gets_no_pod_unpaid_by_changing_the_podgroup(team: Team) -> None:
    team.gang(4)
    team.add("a", "b", "c", "d")
    team.wait_started("a", "b", "c", "d")
    team.add("e")
    team.editor.patch(f"{team.podgroups(VOLCANO)}/gang", {"spec": {"minMember": 1}})
    team.pause()
    assert team.started() == {"a", "b", "c", "d"}
    team.editor.delete(f"{team.podgroups(VOLCANO)}/gang")
    team.pause()
    assert team.started() == {"a", "b", "c", "d"}


def test_an_editor_moves_no_pod_to_another_group(team: Team) -> None:
    team.gang(2)
    team.add("a")
    for mark in ("podgroups.scheduling.volcano.sh/other", None):
        change = {"metadata": {"annotations": {names.POD_GROUP_OBJECT: mark}}}
        with pytest.raises(RestError) as refused:
            team.editor.patch(f"{team.pods}/a", change)
        assert "Only the controller may change annotations" in str(refused.value)
    key = VOLCANO.annotations[0]
    team.editor.patch(f"{team.pods}/a", {"metadata": {"annotations": {key: "other"}}})
    team.gang(1, "other")
    team.pause()
    assert team.started() == set()
    team.add("b")
    team.wait_started("a", "b")


def test_an_editor_writes_no_mark_of_a_podgroup(team: Team) -> None:
    for mark in (names.POD_GROUP_OBJECT, names.BEYOND_POD_GROUP):
        pod = make_pod("a", gpus=1, annotations={mark: "podgroups.scheduling.volcano.sh/other"})
        made = team.editor.post(f"{team.pods}?dryRun=All", pod)
        assert mark not in made["metadata"].get("annotations", {})
    key = VOLCANO.annotations[0]
    with pytest.raises(RestError) as refused:
        team.editor.post(team.pods, make_pod("a", gpus=1, annotations={key: "No Name"}))
    assert key in str(refused.value)


def test_an_unmanaged_namespace_is_not_looked_at(system: Installed, editor: Rest) -> None:
    team = Team(system, editor)
    team.name = "kube-system"
    team.pods = "/api/v1/namespaces/kube-system/pods"
    (made,) = team.add("gang-probe", gang="none")
    assert not made["spec"].get("schedulingGates")
    assert names.POD_GROUP_OBJECT not in made["metadata"]["annotations"]
    team.editor.delete(f"{team.pods}/gang-probe", {"gracePeriodSeconds": 0})


def test_a_pod_of_a_gang_without_queue_does_not_run_where_one_is_required(
    system: Installed, editor: Rest
) -> None:
    """Without a default LocalQueue and with a PodGroup that names no queue of the namespace."""
    team = Team(system, editor)
    system.api.delete(f"{KUEUE}/namespaces/{team.name}/localqueues/default")
    system.add_local_queue(team.name, team.name, "other")
    system.wait_for_queue(team.name, "other")
    label = {"metadata": {"labels": {names.ENFORCE_LABEL: "true"}}}
    system.api.patch(f"/api/v1/namespaces/{team.name}", label)
    system.wait_webhook()
    team.gang(1, queue="elsewhere")
    team.add("a")
    told = team.wait_told("a", "QueueRequired")
    assert team.name in told
    assert team.started() == set()


def test_a_gang_is_over_when_its_pods_are_and_gives_its_quota_back(team: Team) -> None:
    team.gang(2)
    team.add("a", "b", gpus=2)
    team.wait_started("a", "b")
    team.end("a", phase="Failed")
    team.end("b")

    def is_over() -> bool:
        found = (team.workload() or {}).get("status", {}).get("conditions", [])
        return any((c["type"], c["status"]) == (conditions.FINISHED, "True") for c in found)

    waiting.until(is_over, what="its Workload is finished")
    team.gang(1, "next")
    team.add("c", gang="next", gpus=4)
    waiting.until(lambda: "c" in team.started(), what="the next gang has started")
