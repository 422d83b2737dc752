"""What is read from an owner whose kind is a row: each rule holds for the sample of every row."""

import copy
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.base import names
from admission.objects import owner_rows, views
from admission.objects.workload import Workload
from admission.owners import integrations, lifecycle, row_owner
from admission.owners.injection import Injection, InjectionConflictError
from admission.owners.row_owner import RowDocument, RowOwner
from admission.owners.workload import MissingPriorityClassError, PriorityClasses
from tests.owners import samples
from tests.owners.samples import Sample

EVERY = pytest.mark.parametrize("sample", samples.ALL, ids=lambda one: one.row.kind)
(RAY_JOB,) = (one for one in owner_rows.ROWS if one.kind == "RayJob")
NONE = PriorityClasses(workload={}, pod={})
GIVEN = Injection(
    node_selector={"nvidia.com/gpu.product": "A100"},
    tolerations=(views.Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
    labels={names.PODSET_LABEL: "a", names.LOCAL_QUEUE_NAME_LABEL: "default"},
    annotations={names.WORKLOAD_ANNOTATION: "train"},
    gates=(names.TOPOLOGY_GATE,),
)


def stored(sample: Sample, **members: Any) -> dict[str, Any]:
    """A sample as an API server has it, suspended."""
    found = copy.deepcopy(sample.manifest)
    found["metadata"] |= {
        "namespace": "team-a",
        "uid": "11",
        "resourceVersion": "7",
        "labels": {names.QUEUE_LABEL: "default"},
        **members,
    }
    content = {"spec": found["spec"]}
    return apply(found, row_owner.hold(content, sample.row.suspend))


def apply(document: dict[str, Any], operations: Any) -> dict[str, Any]:
    patched: dict[str, Any] = jsonpatch.apply_patch(document, list(operations))
    return patched


def owner_of(sample: Sample, document: dict[str, Any]) -> RowOwner:
    found = msgspec.convert(document, RowDocument)
    return RowOwner(sample.row, row_owner.read(sample.row, found))


def started(sample: Sample, document: dict[str, Any]) -> dict[str, Any]:
    owner = owner_of(sample, document)
    patch = owner.start(Workload(), dict.fromkeys(sample.pod_sets, GIVEN))
    return apply(document, msgspec.json.decode(patch.body))


def made(sample: Sample, owner: RowOwner, classes: PriorityClasses = NONE) -> dict[str, Any]:
    return row_owner.build(sample.row, owner.view, owner.view.document, classes)


def view_of(document: dict[str, Any]) -> Workload:
    return msgspec.convert(document, Workload)


@EVERY
def test_its_workload_has_its_pod_sets_in_order(sample: Sample) -> None:
    workload = made(sample, owner_of(sample, stored(sample)))
    sets = workload["spec"]["podSets"]
    assert [(one["name"], one["count"]) for one in sets] == list(sample.pod_sets.items())
    kind = sample.row.kind
    assert workload["metadata"]["name"].startswith(f"{kind.lower()}-train-")
    (reference,) = workload["metadata"]["ownerReferences"]
    assert (reference["apiVersion"], reference["kind"]) == (sample.row.api_version, kind)
    assert reference["controller"] is True


@EVERY
def test_a_start_and_a_restore_leave_it_as_it_was(sample: Sample) -> None:
    before = stored(sample)
    running = started(sample, before)
    owner = owner_of(sample, running)
    assert not owner.is_held()
    assert owner.is_injected()
    held = apply(running, msgspec.json.decode(owner.suspend().body))
    owner = owner_of(sample, held)
    after = apply(held, msgspec.json.decode(owner.restore(None).body))
    assert not owner_of(sample, after).is_injected()
    after["metadata"] = {key: value for key, value in after["metadata"].items() if value}
    assert msgspec.json.encode(after, order="sorted") == msgspec.json.encode(
        before, order="sorted"
    )


def test_workers_of_an_mpijob_are_numbered_after_a_launcher_that_works() -> None:
    sample = next(one for one in samples.ALL if one.row.kind == "MPIJob")
    before = stored(sample)
    before["spec"]["runLauncherAsWorker"] = True
    domain = {
        "domainCount": 1,
        "valuesPerLevel": [{"universal": "n"}],
        "podCounts": {"universal": 1},
    }
    assigned = {"levels": ["host"], "slices": [domain]}
    admission = {
        "clusterQueue": "q",
        "podSetAssignments": [
            {"name": name, "count": 1, "topologyAssignment": assigned} for name in sample.pod_sets
        ],
    }
    workload = msgspec.convert({"status": {"admission": admission}}, Workload)
    patch = owner_of(sample, before).start(workload, dict.fromkeys(sample.pod_sets, GIVEN))
    running = owner_of(sample, apply(before, msgspec.json.decode(patch.body)))
    offsets = [
        one.template.metadata.annotation(names.POD_INDEX_OFFSET) for one in running.view.pod_sets
    ]
    assert offsets == ["", "1"]


def test_a_replica_type_that_an_mpijob_does_not_have_is_no_pod_set() -> None:
    """Its operator makes no pods of it."""
    sample = next(one for one in samples.ALL if one.row.kind == "MPIJob")
    before = stored(sample)
    replicas = before["spec"]["mpiReplicaSpecs"]
    replicas["Unknown"] = copy.deepcopy(replicas["Worker"])

    workload = made(sample, owner_of(sample, before))

    assert [one["name"] for one in workload["spec"]["podSets"]] == list(sample.pod_sets)


@EVERY
def test_each_template_gets_what_the_admission_gives(sample: Sample) -> None:
    owner = owner_of(sample, started(sample, stored(sample)))
    for one in owner.view.pod_sets:
        metadata, spec = one.template.metadata, one.template.spec
        assert (spec.node_selector or {})["nvidia.com/gpu.product"] == "A100"
        assert metadata.label(names.PODSET_LABEL) == "a"
        assert (spec.tolerations or ())[-1].key == "gpu"
        assert (spec.scheduling_gates or ())[-1].name == names.TOPOLOGY_GATE


@EVERY
def test_what_kueue_started_is_restored_from_the_workload(sample: Sample) -> None:
    before = stored(sample)
    workload = view_of(made(sample, owner_of(sample, before)))
    running = started(sample, before)
    del running["metadata"]["annotations"]
    owner = owner_of(sample, running)
    after = apply(running, msgspec.json.decode(owner.restore(workload).body))
    assert owner_of(sample, after).view.digest == owner_of(sample, before).view.digest


@EVERY
def test_a_contradiction_ends_the_start(sample: Sample) -> None:
    document = stored(sample)
    owner = owner_of(sample, document)
    path = f"{owner.view.pod_sets[0].path.pointer()}/spec/nodeSelector"
    other = {"nvidia.com/gpu.product": "T4"}
    clash = apply(document, [{"op": "add", "path": path, "value": other}])
    with pytest.raises(InjectionConflictError):
        started(sample, clash)


@EVERY
def test_its_status_tells_whether_it_is_ready_and_ended(sample: Sample) -> None:
    document = stored(sample)
    owner = owner_of(sample, document)
    assert not owner.is_ready()
    assert owner.finished() is None
    owner = owner_of(sample, document | {"status": sample.running})
    assert owner.is_ready()
    assert owner.is_active()
    reclaims = owner.reclaims()
    workload = view_of(made(sample, owner))
    found = {} if reclaims is None else dict(reclaims.reclaimable(workload))
    assert found == sample.reclaimable
    if sample.ended is not None:
        end = owner_of(sample, document | {"status": sample.ended}).finished()
        assert end is not None
        assert (end.reason, end.message) == ("Succeeded", sample.message)


@EVERY
def test_it_asks_for_others_when_a_count_or_template_changes(sample: Sample) -> None:
    document = stored(sample)
    owner = owner_of(sample, document)
    workload = view_of(made(sample, owner))
    assert not owner.asks_otherwise(workload)
    path = f"{owner.view.pod_sets[0].path.pointer()}/spec/containers/0/image"
    changed = apply(document, [{"op": "replace", "path": path, "value": "other"}])
    assert owner_of(sample, changed).has_other_pods(workload)
    assert not owner_of(sample, changed).has_other_count(workload)


@EVERY
def test_a_named_workload_with_other_pod_sets_is_not_adopted(sample: Sample) -> None:
    owner = owner_of(sample, stored(sample))
    document = made(sample, owner)
    row, view = sample.row, owner.view
    assert row_owner.adopt(row, view, view.document, document) is not None
    document["spec"]["podSets"][0]["count"] += 1
    assert row_owner.adopt(row, view, view.document, document) is None


@EVERY
def test_the_priority_class_is_that_of_the_first_template_that_has_one(sample: Sample) -> None:
    document = stored(sample)
    last = owner_of(sample, document).view.pod_sets[-1].path.pointer()
    operation = {"op": "add", "path": f"{last}/spec/priorityClassName", "value": "high"}
    owner = owner_of(sample, apply(document, [operation]))
    with pytest.raises(MissingPriorityClassError):
        made(sample, owner)
    metadata = views.ObjectMeta(name="high")
    classes = PriorityClasses(
        workload={}, pod={"high": views.PriorityClass(metadata=metadata, value=9)}
    )
    assert made(sample, owner, classes)["spec"]["priority"] == 9


@EVERY
def test_a_review_holds_it_and_reads_the_same_pod_sets(sample: Sample) -> None:
    (held,) = (one for one in integrations.DEFAULT.held if one.framework == sample.row.framework)
    reviewed = msgspec.convert(sample.manifest, held.document)
    found = {one.name: one.count for one in reviewed.templates()}
    assert found == sample.pod_sets
    after = msgspec.convert(apply(sample.manifest, reviewed.hold()), held.document)
    assert after.is_held()
    assert after.hold() == ()
    assert after.errors(None) == []


@EVERY
def test_a_quantity_with_a_fraction_is_read_and_written_as_text(sample: Sample) -> None:
    (held,) = (one for one in integrations.DEFAULT.held if one.framework == sample.row.framework)
    manifest = stored(sample)
    for one in owner_of(sample, manifest).view.pod_sets:
        path = f"{one.path.pointer()}/spec/containers/0/resources"
        resources = {"requests": {"cpu": 0.5, "memory": 1e9, "example.com/gpu": 1}}
        manifest = apply(manifest, [{"op": "add", "path": path, "value": resources}])
    written = {"cpu": "0.5", "memory": "1000000000.0", "example.com/gpu": 1}

    def requests(document: dict[str, Any]) -> list[Any]:
        reviewed = msgspec.convert(document, held.document)
        return [one.pod.spec.containers[0].requests for one in reviewed.templates()]

    assert requests(manifest) == [written] * len(sample.pod_sets)
    (*_, first) = made(sample, owner_of(sample, manifest))["spec"]["podSets"]
    assert first["template"]["spec"]["containers"][0]["resources"]["requests"] == written
    after = apply(manifest, msgspec.convert(manifest, held.document).hold())
    assert '"cpu":0.5' not in msgspec.json.encode(after).decode()
    assert msgspec.convert(after, held.document).hold() == ()
    assert requests(after) == requests(manifest)


@EVERY
def test_a_template_that_is_no_object_is_an_error_that_names_it(sample: Sample) -> None:
    (held,) = (one for one in integrations.DEFAULT.held if one.framework == sample.row.framework)
    listed, _ = next(row_owner.members(sample.row, sample.manifest))
    path = owner_of(sample, stored(sample)).view.pod_sets[0].path
    broken = apply(stored(sample), [{"op": "replace", "path": path.pointer(), "value": "x"}])
    with pytest.raises(msgspec.ValidationError, match=listed.template.split(".")[-1]):
        msgspec.convert(broken, held.document).templates()


def ray_job(**spec: Any) -> dict[str, Any]:
    sample = samples.of(RAY_JOB)
    found = stored(sample)
    found["spec"] |= spec
    if "submitterPodTemplate" not in spec:
        del found["spec"]["submitterPodTemplate"]
    return found


def test_a_submitter_without_a_template_is_counted_as_kuberay_makes_it() -> None:
    sample = samples.of(RAY_JOB)
    before = ray_job()
    submitter = made(sample, owner_of(sample, before))["spec"]["podSets"][-1]
    (container,) = submitter["template"]["spec"]["containers"]
    assert submitter["name"] == "submitter"
    assert container["image"] == "ray"
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}


def test_a_submitter_without_a_template_has_one_only_while_it_runs() -> None:
    sample = samples.of(RAY_JOB)
    before = ray_job()
    running = started(sample, before)
    template = running["spec"]["submitterPodTemplate"]
    assert template["metadata"]["annotations"] == {names.WORKLOAD_ANNOTATION: "train"}
    owner = owner_of(sample, running)
    assert owner.view.digest == owner_of(sample, started(sample, before)).view.digest
    held = apply(running, msgspec.json.decode(owner.suspend().body))
    after = apply(held, msgspec.json.decode(owner_of(sample, held).restore(None).body))
    assert after["spec"] == before["spec"]
    held["spec"]["submitterPodTemplate"]["spec"]["containers"][0]["image"] = "other"
    after = apply(held, msgspec.json.decode(owner_of(sample, held).restore(None).body))
    kept = after["spec"]["submitterPodTemplate"]
    assert kept["spec"]["containers"][0]["image"] == "other"
    assert "metadata" not in kept


def test_without_a_submitter_job_there_is_no_pod_set_for_it() -> None:
    sample = samples.of(RAY_JOB)
    for mode in ("HTTPMode", "InteractiveMode", "SidecarMode"):
        asked = owner_of(sample, ray_job(submissionMode=mode)).view.pod_sets
        assert [one.name for one in asked] == ["head", "small-group"]


def test_a_submitter_beside_the_head_is_counted_with_it() -> None:
    sample = samples.of(RAY_JOB)
    document = ray_job(submissionMode="SidecarMode")
    head = made(sample, owner_of(sample, document))["spec"]["podSets"][0]
    found = [one["name"] for one in head["template"]["spec"]["containers"]]
    assert found == ["ray-head", "ray-job-submitter"]
    running = started(sample, document)
    containers = running["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"][
        "containers"
    ]
    assert [one["name"] for one in containers] == ["ray-head"]


def test_one_that_runs_in_the_pods_of_another_has_no_pod_sets() -> None:
    sample = samples.of(RAY_JOB)
    document = ray_job(clusterSelector={"ray.io/cluster": "shared"})
    owner = owner_of(sample, document)
    assert owner.pod_sets == ()
    assert lifecycle.next_step(owner, None).step is lifecycle.Step.NOTHING
    made_before = view_of(made(sample, owner_of(sample, ray_job())))
    step = lifecycle.next_step(owner, made_before).step
    assert step is lifecycle.Step.DELETE_WORKLOAD


@pytest.mark.parametrize(
    ("job", "result", "reason"),
    [
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "", "Succeeded"),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "", "Failed"),
        ({"jobDeploymentStatus": "Failed", "message": "lost"}, "lost", "Failed"),
        ({"jobDeploymentStatus": "ValidationFailed", "message": "no"}, "no", "Failed"),
    ],
)
def test_a_rayjob_has_ended_when_its_deployment_has(
    job: dict[str, Any], result: str, reason: str
) -> None:
    sample = samples.of(RAY_JOB)
    end = owner_of(sample, ray_job() | {"status": job}).finished()
    assert end is not None
    assert (end.reason, end.message or "") == (reason, result) or not result
    running = {"jobDeploymentStatus": "Running", "jobStatus": "SUCCEEDED"}
    assert owner_of(sample, ray_job() | {"status": running}).finished() is None
    changed = {"jobDeploymentStatus": "ValidationFailed", "rayClusterName": "train-x"}
    assert owner_of(sample, ray_job() | {"status": changed}).finished() is None


def test_no_two_rows_have_a_name_in_common() -> None:
    rows = owner_rows.ROWS
    for field in ("framework", "kind"):
        assert len({getattr(one, field) for one in rows}) == len(rows)
