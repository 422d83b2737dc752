"""RayJobs and RayServices that may grow: how many pods their RayClusters say that they have."""

import copy
from typing import Any

import msgspec
import pytest

from admission.base import names
from admission.objects import owner_rows
from admission.objects.owner_rows import Row
from admission.objects.workload import Workload
from admission.owners import integrations, ray_growth, row_owner, slices
from admission.owners.framework import Secondary
from admission.owners.workload import PriorityClasses
from tests.owners import samples

ELASTIC = {names.ELASTIC_JOB: "true"}
AT = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
ROWS = {one.kind: one for one in owner_rows.ROWS if one.kind in AT}
WORKERS = {"RayJob": "small-group", "RayService": "workers"}
EVERY = pytest.mark.parametrize("kind", sorted(AT))


def reviewed(kind: str, annotations: dict[str, str] | None = None) -> Any:
    """A sample as its review sees it."""
    (held,) = (one for one in integrations.DEFAULT.held if one.kind.name == kind)
    return msgspec.convert(stored(kind, annotations or {}), held.document)


def stored(kind: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    found = copy.deepcopy(samples.of(ROWS[kind]).manifest)
    found["metadata"] |= {
        "namespace": "team-a",
        "uid": "11",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {names.QUEUE_LABEL: "default"},
        "annotations": annotations,
    }
    found["spec"][AT[kind]]["enableInTreeAutoscaling"] = True
    found["spec"] |= spec
    return found


def gated(kind: str, **spec: Any) -> dict[str, Any]:
    """An elastic one as the review leaves it, which was started."""
    found = stored(kind, ELASTIC, **spec)
    cluster = found["spec"][AT[kind]]
    for one in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        one["template"]["spec"]["schedulingGates"] = [{"name": names.ELASTIC_JOB_GATE}]
    return found


def cluster(name: str, workers: int, generation: int = 1) -> ray_growth.Cluster:
    """A RayCluster of every kind's worker group."""
    group = {"replicas": workers, "template": {"spec": {"containers": []}}}
    found = {
        "metadata": {"name": name, "uid": f"uid of {name}", "generation": generation},
        "spec": {
            "headGroupSpec": {"template": {"spec": {"containers": []}}},
            "workerGroupSpecs": [{**group, "groupName": one} for one in WORKERS.values()],
        },
    }
    document = msgspec.convert(found, row_owner.RowDocument)
    read = declared(ROWS["RayJob"]).read(document, None)
    assert isinstance(read, ray_growth.Cluster)
    return read


def declared(row: Row) -> Secondary[row_owner.RowView, ray_growth.RayDocument]:
    """The RayClusters that KubeRay makes of owners of a kind."""
    secondary = ray_growth.integration(row).secondary
    assert secondary is not None
    return secondary


def owner_of(
    row: Row, document: dict[str, Any], *clusters: ray_growth.Cluster
) -> ray_growth.RayOwner:
    owner = msgspec.convert(document, ray_growth.RayDocument)
    by_name = tuple(sorted(clusters, key=lambda cluster: cluster.metadata.name))
    return ray_growth.RayOwner(row, ray_growth.read(row, declared(row).joined(owner, by_name)))


def workload(owner: ray_growth.RayOwner) -> Workload:
    none = PriorityClasses(workload={}, pod={})
    made = row_owner.build(owner.row, owner.view, owner.view.document, none)
    return msgspec.convert(made, Workload)


@EVERY
def test_with_the_annotation_it_may_scale_by_itself_and_its_pods_wait(kind: str) -> None:
    before = reviewed(kind, ELASTIC)
    assert "schedulingGates" in str(before.errors(None))
    paths = [one["path"] for one in before.hold() if "schedulingGates" in one["path"]]
    assert len(paths) == 2
    assert all(f"/spec/{AT[kind]}/" in path for path in paths)  # no submitter is among them
    (held,) = (one for one in integrations.DEFAULT.held if one.kind.name == kind)
    assert msgspec.convert(gated(kind), held.document).errors(None) == []


@EVERY
def test_without_the_annotation_it_is_told_how_it_may_scale_by_itself(kind: str) -> None:
    (error,) = reviewed(kind).errors(None)
    assert error.path.text == f"spec.{AT[kind]}.enableInTreeAutoscaling"
    assert f'create it with the annotation {names.ELASTIC_JOB}: "true"' in error.detail


@EVERY
def test_its_head_is_counted_with_the_autoscaler(kind: str) -> None:
    head = workload(owner_of(ROWS[kind], gated(kind))).spec.pod_sets[0]  # type: ignore[index]
    found = [one.name for one in head.template.spec.containers]
    assert found == ["ray-head", "autoscaler"]


def test_a_submitter_beside_the_head_is_counted_besides_the_autoscaler() -> None:
    document = gated("RayJob", submissionMode="SidecarMode")
    head = workload(owner_of(ROWS["RayJob"], document)).spec.pod_sets[0]  # type: ignore[index]
    found = {one.name for one in head.template.spec.containers}
    assert found == {"ray-head", "autoscaler", "ray-job-submitter"}


def running(kind: str, active: str = "a", pending: str = "") -> dict[str, Any]:
    status = {
        "RayJob": {"rayClusterName": active},
        "RayService": {
            "activeServiceStatus": {"rayClusterName": active},
            "pendingServiceStatus": {"rayClusterName": pending},
        },
    }
    return gated(kind) | {"status": status[kind]}


@EVERY
@pytest.mark.parametrize("workers", [0, 1, 5])
def test_while_it_runs_its_raycluster_says_how_many_pods_it_has(kind: str, workers: int) -> None:
    owner = owner_of(ROWS[kind], running(kind), cluster("a", workers), cluster("forged", 99))
    asked = slices.asked(owner)
    assert asked[WORKERS[kind]] == workers
    assert asked["head"] == 1
    assert asked.get("submitter", 1) == 1
    assert slices.counts(workload(owner))[WORKERS[kind]] == 2


@EVERY
def test_before_there_is_a_raycluster_and_while_it_is_held_it_asks_for_its_own(kind: str) -> None:
    row = ROWS[kind]
    assert slices.asked(owner_of(row, running(kind)))[WORKERS[kind]] == 2
    held = running(kind)
    held["spec"]["suspend"] = True
    assert slices.asked(owner_of(row, held, cluster("a", 5)))[WORKERS[kind]] == 2


@EVERY
def test_without_the_annotation_its_raycluster_says_nothing(kind: str) -> None:
    plain = stored(kind, {}) | {"status": running(kind)["status"]}
    owner = owner_of(ROWS[kind], plain, cluster("a", 5))
    assert owner.grows() is None
    assert not owner.has_other_count(workload(owner))


def test_the_pods_of_both_rayclusters_count_while_a_rayservice_is_upgraded() -> None:
    row = ROWS["RayService"]
    both = owner_of(row, running("RayService", "a", "b"), cluster("a", 3), cluster("b", 2))
    assert slices.asked(both) == {"head": 2, "workers": 5}
    after = owner_of(row, running("RayService", "b"), cluster("a", 3), cluster("b", 2))
    assert slices.asked(after) == {"head": 1, "workers": 2}


@EVERY
def test_each_size_is_asked_for_by_a_workload_of_another_name(kind: str) -> None:
    row = ROWS[kind]
    sizes = [
        owner_of(row, running(kind, one.metadata.name), one).revision()
        for one in (cluster("a", 2), cluster("a", 3, generation=2), cluster("b", 2))
    ]
    assert len({*sizes, owner_of(row, running(kind)).revision()}) == 4
