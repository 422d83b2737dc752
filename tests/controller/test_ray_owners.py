"""Elastic RayJobs and RayServices on the embedded store: their RayClusters say their sizes."""

import copy
import random
from typing import Any

import pytest
from typing_extensions import override

from admission.base import names, patches
from admission.controller import watched
from admission.kube import resources
from admission.kube.api import Document
from admission.kube.reflector import Replaced
from admission.kube.resources import Resource
from admission.objects import crds, owner_rows
from admission.owners import integrations
from admission.sandbox.store import Store
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.clocks import FakeClock
from tests.controller.test_elastic_jobs import charged, told
from tests.controller.world import World
from tests.integration import owner_crds
from tests.owners import samples

AT = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
ROWS = {one.kind: one for one in owner_rows.ROWS if one.kind in {*AT, "RayCluster"}}
EVERY = pytest.mark.parametrize("kind", sorted(AT))
GATE = {"name": names.ELASTIC_JOB_GATE}
CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")

SERVED = (
    *crds.documents(),
    *(
        owner_crds.definition(one.group, one.version, one.kind, one.plural)
        for one in ROWS.values()
    ),
)


def resource_of(kind: str) -> Resource:
    row = ROWS[kind]
    return Resource(row.group, row.version, row.plural, row.kind)


class RayWorld(World):
    """A store that serves Ray's kinds."""

    def __init__(self, store: Store | None = None, clock: FakeClock | None = None) -> None:
        clock = clock or FakeClock()
        is_new = store is None
        store = store or Store(crds=SERVED, clock=clock)
        super().__init__(store, clock)
        if is_new:
            self.serve_workloads()

    @override
    def listed(self, resource: Resource, into: type[Any]) -> Replaced[Any]:
        if resource.group != "ray.io":
            return super().listed(resource, into)
        selector = watched.selectors(integrations.DEFAULT).get(resource, "")
        page = self.store.list(resource, label_selector=selector, into=into)
        return Replaced(page.items, page.undecodable, page.resource_version)

    @override
    def restarted(self) -> "RayWorld":
        return RayWorld(self.store, self.clock)


class Ray:
    """An elastic owner as the review leaves it, and what KubeRay makes of it."""

    def __init__(self, kind: str, quota: int) -> None:
        self.kind, self.at = kind, AT[kind]
        self.world: World = RayWorld()
        self.world.add(
            make_namespace(), make_flavor(), make_cluster_queue(quota=quota), make_local_queue()
        )
        found = copy.deepcopy(samples.of(ROWS[kind]).manifest)
        found["metadata"] |= {
            "namespace": "ml",
            "labels": {names.QUEUE_LABEL: "team-a"},
            "annotations": {names.ELASTIC_JOB: "true"},
        }
        found["spec"]["suspend"] = True
        found["spec"].pop("submitterPodTemplate", None)
        if kind == "RayJob":
            found["spec"]["submissionMode"] = "HTTPMode"
        spec = found["spec"][self.at]
        for one in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            (container,) = one["template"]["spec"]["containers"]
            container["resources"] = {
                "requests": {names.GPU_RESOURCE: 1},
                "limits": {names.GPU_RESOURCE: 1},
            }
            one["template"]["spec"]["schedulingGates"] = [GATE]
        self.world.store.create(resource_of(kind), found, "ml")

    def begin(self) -> None:
        """Let it start, and make its first RayCluster and its pods."""
        self.world.settle()
        assert self.get()["spec"]["suspend"] is False
        self.make("a")
        self.say("a")
        self.work()

    def get(self) -> Document:
        return self.world.store.get(resource_of(self.kind), "train", "ml")

    def make(self, name: str) -> None:
        owner = self.get()
        reference = {"apiVersion": "ray.io/v1", "kind": self.kind, "name": "train"}
        metadata = {
            "name": name,
            "namespace": "ml",
            "labels": {"ray.io/originated-from-crd": self.kind},
            "ownerReferences": [
                {**reference, "uid": owner["metadata"]["uid"], "controller": True}
            ],
        }
        found = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
        self.world.store.create(CLUSTERS, {**found, "spec": owner["spec"][self.at]}, "ml")

    def say(self, active: str, pending: str = "") -> None:
        """Say which RayClusters there are."""
        status: dict[str, Any] = {
            "RayJob": {"rayClusterName": active},
            "RayService": {
                "activeServiceStatus": {"rayClusterName": active},
                "pendingServiceStatus": {"rayClusterName": pending},
            },
        }
        change = patches.merge({"status": status[self.kind]})
        resource = resource_of(self.kind)
        self.world.store.patch(resource, "train", change, "ml", subresource="status")

    def scale(self, workers: int, name: str = "a", least: int = 0) -> None:
        """Have a RayCluster ask for so many workers."""
        (group,) = self.world.store.get(CLUSTERS, name, "ml")["spec"]["workerGroupSpecs"]
        sizes = {"replicas": workers, "minReplicas": least}
        change = patches.merge({"spec": {"workerGroupSpecs": [{**group, **sizes}]}})
        self.world.store.patch(CLUSTERS, name, change, "ml")

    def work(self) -> None:
        """Make and delete pods as the RayClusters say; those that wait go first."""
        known = self.world.store.list(CLUSTERS, into=dict).items
        for cluster in known:
            (group,) = cluster["spec"]["workerGroupSpecs"]
            head = cluster["spec"]["headGroupSpec"]["template"]
            workers = max(group["replicas"], group["minReplicas"])
            self._have(cluster, "head", head, 1)
            self._have(cluster, "worker", group["template"], workers)
        there = {one["metadata"]["name"] for one in known}
        for pod in self.pods():
            if pod["metadata"]["name"].split("-")[0] not in there:
                self.world.delete_pod(pod["metadata"]["name"])
        self.world.settle()

    def _have(self, cluster: Document, role: str, template: Document, count: int) -> None:
        prefix = f"{cluster['metadata']['name']}-{role}-"
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": cluster["metadata"]["name"],
            "uid": cluster["metadata"]["uid"],
            "controller": True,
        }
        there = [one for one in self.pods() if one["metadata"]["name"].startswith(prefix)]
        there.sort(key=lambda one: (bool(one["spec"].get("schedulingGates")), number(one)))
        for one in there[count:]:
            self.world.delete_pod(one["metadata"]["name"])
        first = max(map(number, there), default=-1) + 1
        for at in range(first, first + count - len(there)):
            metadata = {**template["metadata"], "name": f"{prefix}{at}", "namespace": "ml"}
            metadata["ownerReferences"] = [owner]
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            self.world.store.create(resources.PODS, {**pod, "spec": template["spec"]}, "ml")

    def pods(self) -> list[Document]:
        return list(self.world.store.list(resources.PODS, into=dict).items)

    def released(self) -> int:
        """Pods that were let start; each has a GPU."""
        return sum(not one["spec"].get("schedulingGates") for one in self.pods())


def number(pod: Document) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def begun(kind: str, quota: int) -> Ray:
    ray = Ray(kind, quota)
    ray.begin()
    assert ray.released() == 3
    return ray


@EVERY
def test_it_grows_within_quota_waits_beyond_it_and_gives_quota_back(kind: str) -> None:
    ray = begun(kind, quota=6)
    ray.scale(5)
    ray.work()
    assert (ray.released(), told(ray.world)) == (6, [(3, "Finished"), (6, "Admitted")])
    ray.scale(9)
    ray.work()
    assert (ray.released(), charged(ray.world)) == (6, 6)
    assert sorted(told(ray.world)) == [(3, "Finished"), (6, "Admitted"), (10, "waits")]
    ray.scale(1)
    ray.work()
    assert (ray.released(), charged(ray.world)) == (2, 2)
    assert sorted(told(ray.world)) == [(2, "Admitted"), (3, "Finished")]


def test_another_leader_goes_on_wherever_the_first_one_ended() -> None:
    for steps in range(12):
        ray = begun("RayJob", quota=6)
        ray.scale(5)
        ray.world.observe()
        ray.world.core.step()
        for _ in range(steps):
            if ray.world.send_one() is None:
                break
            ray.world.core.step()
            assert charged(ray.world) <= 6
        ray.world = ray.world.restarted()
        ray.work()
        assert told(ray.world) == [(3, "Finished"), (6, "Admitted")], steps
        assert (ray.released(), charged(ray.world)) == (6, 6), steps


@EVERY
def test_the_order_in_which_owner_and_raycluster_are_seen_does_not_matter(kind: str) -> None:
    ray = begun(kind, quota=6)
    ray.scale(5)
    ray.work()
    standby = ray.world.restarted()
    cluster = ray_resource(kind)
    for one in (cluster, resource_of(kind)):
        standby.unlisted.add(one)
        standby.observe()
        standby.core.step()
        assert told(standby) == [(3, "Finished"), (6, "Admitted")]
        standby.unlisted.clear()
        standby.settle()
        assert told(standby) == [(3, "Finished"), (6, "Admitted")]
        standby = ray.world.restarted()


def ray_resource(kind: str) -> Resource:
    found = {
        "RayJob": resources.CLUSTERS_OF_RAY_JOBS,
        "RayService": resources.CLUSTERS_OF_RAY_SERVICES,
    }
    return found[kind]


def test_a_rayjob_that_is_retried_grows_again_with_its_next_raycluster() -> None:
    ray = begun("RayJob", quota=6)
    ray.scale(3)
    ray.work()
    assert ray.released() == 4
    ray.world.store.delete(CLUSTERS, "a", "ml")
    ray.say("")
    ray.work()
    assert (ray.released(), charged(ray.world)) == (0, 3)
    ray.make("b")
    ray.say("b")
    ray.work()
    ray.scale(3, "b")
    ray.work()
    assert (ray.released(), charged(ray.world)) == (4, 4)
    assert told(ray.world) == [(3, "Finished"), (3, "Finished"), (4, "Admitted")]


def test_both_rayclusters_of_an_upgrade_count_until_the_first_is_not_named_any_more() -> None:
    ray = begun("RayService", quota=5)
    ray.make("b")
    ray.say("a", "b")
    ray.work()
    assert ray.released() == 3
    assert told(ray.world) == [(3, "Admitted"), (6, "waits")]
    ray.scale(1)
    ray.work()
    assert (ray.released(), charged(ray.world)) == (5, 5)
    ray.say("b")
    ray.world.store.delete(CLUSTERS, "a", "ml")
    ray.work()
    assert (ray.released(), charged(ray.world)) == (3, 3)


@EVERY
def test_pods_of_a_raycluster_that_is_not_seen_any_more_stay_charged(kind: str) -> None:
    ray = begun(kind, quota=6)
    ray.scale(5)
    ray.work()
    change = patches.merge({"metadata": {"labels": None}})
    ray.world.store.patch(CLUSTERS, "a", change, "ml")
    ray.world.settle()
    assert told(ray.world) == [(3, "Finished"), (3, "Admitted")]
    assert (ray.released(), charged(ray.world)) == (6, 6)


@EVERY
def test_workers_below_their_least_number_are_asked_for_as_kuberay_makes_them(kind: str) -> None:
    ray = begun(kind, quota=4)
    ray.scale(1, least=4)
    ray.work()
    assert (ray.released(), charged(ray.world)) == (3, 3)
    assert told(ray.world) == [(3, "Admitted"), (5, "waits")]
    ray.scale(1, least=3)
    ray.work()
    assert (ray.released(), charged(ray.world)) == (4, 4)


def attack(ray: Ray, rng: random.Random) -> None:
    """Something that one may do who may edit everything in the namespace, or KubeRay does."""
    store, name = ray.world.store, rng.choice(("a", "forged"))
    names_of = [one["metadata"]["name"] for one in store.list(CLUSTERS, into=dict).items]
    match rng.randrange(7):
        case 0 if name in names_of:
            ray.scale(rng.randrange(9), name, rng.randrange(9))
        case 1 if name in names_of:
            labels = rng.choice((None, {"ray.io/originated-from-crd": ray.kind}))
            store.patch(CLUSTERS, name, patches.merge({"metadata": {"labels": labels}}), "ml")
        case 2 if "forged" not in names_of:
            ray.make("forged")
        case 3:
            ray.say(rng.choice(("a", "forged", "")), rng.choice(("", "a", "forged")))
        case 4:
            found = store.list(resources.WORKLOADS, into=dict).items
            one = rng.choice(found)["metadata"]["name"]
            store.delete(resources.WORKLOADS, one, "ml")
        case 5:
            ray.world.add_pod(f"other-{rng.randrange(10**9)}")
        case _:
            ray.work()


@pytest.mark.parametrize("seed", range(8))
@EVERY
def test_whatever_an_editor_changes_no_more_pods_start_than_there_is_quota_for(
    kind: str, seed: int
) -> None:
    ray, rng = begun(kind, quota=6), random.Random(seed)
    for _ in range(25):
        attack(ray, rng)
        ray.world.settle()
        assert ray.released() <= 6
        assert charged(ray.world) >= ray.released()
    ray.world.pass_time(5)
    assert charged(ray.world) == ray.released() <= 6
