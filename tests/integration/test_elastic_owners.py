"""Owners that change their size while they run, on a real API server: within quota, by slices.

A stand-in for the operator makes the pods, and deletes them, as the numbers in the owner say.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names
from admission.owners import row_owner
from tests.controlplane import waiting
from tests.controlplane.rest import JSON_PATCH, RestError
from tests.integration.applied import Json
from tests.integration.test_owners import Owners, System, serving

pytestmark = pytest.mark.controlplane

ELASTIC = {names.ELASTIC_JOB: "true"}
GATE = {"name": names.ELASTIC_JOB_GATE}
REPLICAS = {
    "PyTorchJob": "/spec/pytorchReplicaSpecs/Worker/replicas",
    "RayCluster": "/spec/workerGroupSpecs/0/replicas",
}
POD_SET = {"PyTorchJob": "worker", "RayCluster": "small"}
EVERY = pytest.mark.parametrize("kind", sorted(REPLICAS))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with serving(tmp_path_factory.mktemp("elastic")) as found:
        yield found


class Elastic(Owners):
    """Elastic owners of one kind, and the operator that makes their pods."""

    def __init__(self, system: System, kind: str, quota: int) -> None:
        super().__init__(system, kind, quota)
        self.pods = f"/api/v1/namespaces/{self.team}/pods"
        self.first = dict(self.sample.pod_sets)[POD_SET[kind]]

    def begin(self, **more: Any) -> Json:
        made = self.create(annotations=ELASTIC, **more)
        self.wait_started()
        self.work()
        return made

    def resize(self, by: int) -> None:
        """Have it ask for more pods than at its creation, as an autoscaler does."""
        change = [{"op": "replace", "path": REPLICAS[self.row.kind], "value": self.first + by}]
        self.editor.patch(f"{self.path}/train", change, JSON_PATCH)

    def work(self) -> None:
        """Make and delete pods, as its operator does; those that wait go first."""
        owner = self.get()
        there = self.api.get(self.pods)["items"]
        for at, (listed, member) in enumerate(row_owner.members(self.row, owner)):
            name = row_owner.name_of(listed, member)
            wanted = row_owner.product(row_owner.counts_of(listed, member))
            own = [one for one in there if one["metadata"]["labels"][names.PODSET_LABEL] == name]
            own.sort(key=lambda one: (is_gated(one), one["metadata"]["creationTimestamp"]))
            for one in own[wanted:]:
                self.system.maker(self.row).delete(f"{self.pods}/{one['metadata']['name']}")
            taken = {one["metadata"]["name"] for one in own}
            free = (f"{name}-{n}" for n in range(99) if f"{name}-{n}" not in taken)
            for _ in range(wanted - len(own)):
                self.make_pod(next(free), at)

    def released(self) -> int:
        return sum(not is_gated(one) for one in self.api.get(self.pods)["items"])

    def wait_released(self, count: int) -> None:
        waiting.until(lambda: self.released() == count, what=f"{count} pods were released")

    def slices(self) -> list[tuple[int, str]]:
        """Pods of each of its Workloads, and how it is with it."""
        found = []
        for one in self.api.get(self.workloads.path)["items"]:
            said = {c["type"]: c for c in one.get("status", {}).get("conditions", ())}
            states = [
                state
                for state in ("Finished", "Admitted")
                if said.get(state, {}).get("status") == "True"
            ]
            count = sum(each["count"] for each in one["spec"]["podSets"])
            found.append((count, (states or ["waits"])[0]))
        return sorted(found)

    def wait_slices(self, *wanted: tuple[int, str]) -> None:
        waiting.until(
            lambda: self.slices() == sorted(wanted), what=f"{wanted}, found {self.slices()}"
        )


def is_gated(pod: Json) -> bool:
    return GATE in pod["spec"].get("schedulingGates", ())


@EVERY
def test_it_grows_by_another_slice_within_quota_and_shrinks_in_place(
    system: System, kind: str
) -> None:
    owners = Elastic(system, kind, 0)
    size = owners.gpus
    owners = Elastic(system, kind, size + 2)
    made = owners.begin()
    assert all(GATE in one["spec"]["schedulingGates"] for one in owners.templates(made))
    owners.wait_released(size)
    owners.resize(2)
    owners.work()
    owners.wait_released(size + 2)
    owners.wait_slices((size, "Finished"), (size + 2, "Admitted"))
    owners.wait_used(size + 2)

    owners.resize(4)
    owners.work()
    owners.wait_slices((size, "Finished"), (size + 2, "Admitted"), (size + 4, "waits"))
    assert owners.released() == size + 2
    owners.resize(1)
    owners.work()
    owners.wait_slices((size, "Finished"), (size + 1, "Admitted"))
    waiting.until(lambda: owners.used() == size + 1, what="one gave its quota back")
    assert owners.released() == size + 1


@EVERY
def test_an_eviction_suspends_it_as_a_whole_and_it_asks_for_all_pods(
    system: System, kind: str
) -> None:
    size = Elastic(system, kind, 0).gpus
    owners = Elastic(system, kind, size + 1)
    owners.begin()
    owners.say(owners.sample.running)
    owners.wait_released(size)
    owners.resize(1)
    owners.work()
    owners.wait_released(size + 1)
    owners.wait_slices((size, "Finished"), (size + 1, "Admitted"))
    (present,) = [
        one["metadata"]["name"]
        for one in owners.api.get(owners.workloads.path)["items"]
        if names.SLICE_REPLACEMENT in one["metadata"]["annotations"]
    ]
    owners.workloads.patch(present, {"active": False})
    waiting.until(owners.is_suspended, what="suspended")
    for one in owners.api.get(owners.pods)["items"]:
        system.maker(owners.row).delete(f"{owners.pods}/{one['metadata']['name']}")
    owners.say(owners.sample.stopped)
    owners.wait_used(0)
    owners.workloads.patch(present, {"active": True})
    owners.wait_started()
    owners.work()
    owners.wait_released(size + 1)


@EVERY
def test_an_editor_starts_no_pod_that_is_not_charged(system: System, kind: str) -> None:
    size = Elastic(system, kind, 0).gpus
    owners = Elastic(system, kind, size)
    owners.begin()
    owners.wait_released(size)
    owners.resize(1)
    owners.work()
    owners.wait_slices((size, "Admitted"), (size + 1, "waits"))
    (waits,) = [one for one in owners.api.get(owners.pods)["items"] if is_gated(one)]
    own = f"{owners.pods}/{waits['metadata']['name']}"
    with pytest.raises(RestError) as refused:
        owners.editor.patch(own, {"spec": {"schedulingGates": None}})
    assert "Only the controller may take off the gate" in str(refused.value)
    templates = [f"{one.path.pointer()}/spec/schedulingGates" for one in asked(owners)]
    change = [{"op": "remove", "path": templates[-1]}]
    with pytest.raises(RestError) as refused:
        owners.editor.patch(f"{owners.path}/train", change, JSON_PATCH)
    assert refused.value.status == 403
    said = owners.refuses({"metadata": {"annotations": {names.ELASTIC_JOB: None}}})
    assert "field is immutable" in said
    forged = owners.make_pod("forged", by=owners.editor)
    assert is_gated(forged)
    assert names.PODSET_LABEL not in forged["metadata"].get("labels", {})
    assert owners.released() == size


@EVERY
def test_one_that_waits_keeps_its_gates_and_may_ask_for_more(system: System, kind: str) -> None:
    size = Elastic(system, kind, 0).gpus
    owners = Elastic(system, kind, size - 1)
    owners.create(annotations=ELASTIC)
    owners.wait_slices((size, "waits"))
    for one in asked(owners):
        change = [{"op": "remove", "path": f"{one.path.pointer()}/spec/schedulingGates"}]
        with pytest.raises(RestError) as refused:
            owners.editor.patch(f"{owners.path}/train", change, JSON_PATCH)
        assert f"must have {names.ELASTIC_JOB_GATE}" in str(refused.value)
    owners.resize(1)
    owners.wait_slices((size + 1, "waits"))
    assert owners.is_suspended()


@EVERY
def test_a_slice_that_somebody_else_makes_is_not_taken(system: System, kind: str) -> None:
    size = Elastic(system, kind, 0).gpus
    owners = Elastic(system, kind, size + 1)
    owners.begin()
    owners.wait_released(size)
    (first,) = owners.api.get(owners.workloads.path)["items"]
    forged = copy.deepcopy({key: first[key] for key in ("apiVersion", "kind", "spec")})
    metadata = first["metadata"]
    replaces = f"{metadata['namespace']}/{metadata['name']}"
    forged["metadata"] = {
        "name": "forged",
        "annotations": {names.ELASTIC_JOB: "true", names.SLICE_REPLACEMENT: replaces},
        "ownerReferences": metadata["ownerReferences"],
    }
    forged["spec"]["podSets"][-1]["count"] += 1
    owners.api.post(owners.workloads.path, forged)
    owners.wait_slices((size, "Admitted"))
    owners.wait_used(size)


def asked(owners: Owners) -> tuple[row_owner.OwnerPodSet, ...]:
    found = owners.get()
    content = {"metadata": {"name": "train"}, "spec": found["spec"]}
    return tuple(
        row_owner.asked_at(content, *one) for one in row_owner.members(owners.row, content)
    )


def test_a_raycluster_that_scales_by_itself_is_counted_with_its_autoscaler(
    system: System,
) -> None:
    owners = Elastic(system, "RayCluster", 8)
    owners.cover_cpu()
    manifest = owners.manifest()
    manifest["metadata"]["annotations"] = ELASTIC
    manifest["spec"]["enableInTreeAutoscaling"] = True
    system.editor.post(owners.path, manifest)
    owners.wait_started()
    (found,) = owners.api.get(owners.workloads.path)["items"]
    head = found["spec"]["podSets"][0]["template"]["spec"]
    (autoscaler,) = [one for one in head["containers"] if one["name"] == "autoscaler"]
    assert autoscaler["resources"]["requests"] == {"cpu": "500m", "memory": "512Mi"}
    owners.work()
    owners.wait_released(6)
    owners.resize(1)
    owners.work()
    owners.wait_released(7)
    said = owners.refuses({"spec": {"enableInTreeAutoscaling": False}})
    assert "was admitted with other pods" in said


@pytest.mark.parametrize("kind", ["TFJob", "JobSet", "AppWrapper"])
def test_other_kinds_do_not_change_their_size(system: System, kind: str) -> None:
    owners = Owners(system, kind, 100)
    with pytest.raises(RestError) as refused:
        owners.create(annotations=ELASTIC)
    assert "elastic job is not supported for" in str(refused.value)
    assert f"{owners.row.api_version}, Kind={kind}" in str(refused.value)


def elastic_policy(quota: int, system: System, least: int) -> Elastic:
    """An elastic PyTorchJob of a master and three workers, which starts with fewer."""
    owners = Elastic(system, "PyTorchJob", quota)
    manifest = owners.manifest()
    manifest["metadata"]["annotations"] = ELASTIC
    manifest["spec"]["elasticPolicy"] = {"minReplicas": least, "maxReplicas": 8}
    system.editor.post(owners.path, manifest)
    return owners


def set_quota(owners: Owners, gpus: int) -> None:
    path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{owners.team}"
    groups = owners.api.get(path)["spec"]["resourceGroups"]
    resource, *_ = groups[0]["flavors"][0]["resources"]
    resource["nominalQuota"] = str(gpus)
    owners.api.patch(path, {"spec": {"resourceGroups": groups}})


def test_a_pytorchjob_starts_with_its_least_number_and_grows_when_there_is_quota(
    system: System,
) -> None:
    owners = elastic_policy(3, system, least=2)
    owners.wait_started()
    owners.work()
    owners.wait_released(3)
    owners.wait_slices((3, "Admitted"), (4, "waits"))
    owners.wait_used(3)
    set_quota(owners, 4)
    owners.wait_released(4)
    owners.wait_slices((3, "Finished"), (4, "Admitted"))
    set_quota(owners, 6)
    owners.resize(2)
    owners.work()
    owners.wait_released(6)


def test_a_pytorchjob_whose_least_number_does_not_fit_waits_and_holds_nothing(
    system: System,
) -> None:
    owners = elastic_policy(2, system, least=2)
    owners.wait_slices((3, "waits"))
    assert owners.is_suspended()
    owners.wait_used(0)


def test_a_pytorchjob_that_was_evicted_asks_for_its_least_number_again(system: System) -> None:
    owners = elastic_policy(4, system, least=1)
    owners.wait_started()
    owners.work()
    owners.say(owners.sample.running)
    owners.wait_released(4)
    owners.wait_slices((2, "Finished"), (4, "Admitted"))
    (present,) = [
        one["metadata"]["name"]
        for one in owners.api.get(owners.workloads.path)["items"]
        if names.SLICE_REPLACEMENT in one["metadata"]["annotations"]
    ]
    owners.workloads.patch(present, {"active": False})
    waiting.until(owners.is_suspended, what="suspended")
    for one in owners.api.get(owners.pods)["items"]:
        system.maker(owners.row).delete(f"{owners.pods}/{one['metadata']['name']}")
    owners.say(owners.sample.stopped)
    owners.wait_used(0)
    set_quota(owners, 2)
    owners.workloads.patch(present, {"active": True})
    owners.wait_started()
    owners.work()
    owners.wait_released(2)
    owners.wait_used(2)


def test_a_pytorchjob_without_the_annotation_is_suspended_to_change_its_size(
    system: System,
) -> None:
    owners = Elastic(system, "PyTorchJob", 100)
    owners.create()
    owners.wait_started()
    with pytest.raises(RestError) as refused:
        owners.resize(1)
    assert "was admitted with other pods" in str(refused.value)
