"""What a TrainJob is given when it starts, as a patch of its runtime."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.base import names
from admission.base.patches import Patch
from admission.objects import owner_rows, views
from admission.objects.workload import Workload
from admission.owners import integrations, train_job
from admission.owners.injection import Injection
from admission.owners.row_owner import RowDocument
from admission.owners.train_job import TrainJobDocument, TrainJobOwner
from tests.owners import samples

(JOB_SET,) = (sample for sample in samples.ALL if sample.row.kind == "JobSet")


NOTHING = Injection(node_selector={}, tolerations=(), labels={}, annotations={})
MARKED = replace(NOTHING, annotations={names.WORKLOAD_ANNOTATION: "trainjob-train"})


def owner(document: dict[str, Any]) -> TrainJobOwner:
    view = train_job.read(owner_rows.TRAIN_JOB, msgspec.convert(document, TrainJobDocument))
    return TrainJobOwner(owner_rows.TRAIN_JOB, view)


def held() -> dict[str, Any]:
    return {
        "metadata": {"name": "train", "namespace": "ml", "uid": "11", "resourceVersion": "7"},
        "spec": {"runtimeRef": {"name": "torch"}, "suspend": True},
        names.MADE_FOR: {**copy.deepcopy(JOB_SET.manifest["spec"]), "suspend": True},
    }


def admitted(names_of_sets: Iterable[str], queue: str = "q", **first: Any) -> Workload:
    sets = [{"name": name, "count": 1} for name in names_of_sets]
    sets[0] |= first
    admission = {"clusterQueue": queue, "podSetAssignments": sets}
    return msgspec.convert({"status": {"admission": admission}}, Workload)


def patched(document: dict[str, Any], patch: Patch | None) -> dict[str, Any]:
    """The TrainJob after a write."""
    assert patch is not None
    after: dict[str, Any] = jsonpatch.apply_patch(document, msgspec.json.decode(patch.body))
    return after


def prepared(document: dict[str, Any], given: Injection) -> dict[str, Any]:
    """The TrainJob after the write that gives its pods what its admission gives."""
    return patched(document, preparation(document, given))


def preparation(document: dict[str, Any], given: Injection) -> Patch | None:
    it = owner(document)
    return it.preparation(admitted(it.pod_sets), dict.fromkeys(it.pod_sets, given))


GIVEN = replace(
    MARKED,
    node_selector={"zone": "a"},
    tolerations=(views.Toleration(key="gpu", operator="Exists"),),
    gates=(names.TOPOLOGY_GATE,),
)


@pytest.mark.parametrize("time", [{}, {"time": "2026-01-01T00:00:00Z"}])
def test_a_trainjob_is_prepared_when_its_patch_gives_just_what_its_admission_gives(
    time: dict[str, str],
) -> None:
    """The trainer notes the time of a patch, and leaves out what is empty."""
    after = prepared(held(), GIVEN)
    (ours,) = after["spec"]["runtimePatches"]
    ours |= time
    for job in ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
        metadata = job["template"]["spec"]["template"]["metadata"]
        metadata.pop("labels")
        metadata["creationTimestamp"] = None
    assert preparation(after, GIVEN) is None
    assert preparation(after, replace(GIVEN, node_selector={"zone": "b"})) is not None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec/nodeSelector", {"zone": "b"}),
        ("spec/tolerations", [{"operator": "Exists"}]),
        ("spec/schedulingGates", []),
        ("spec/containers", [{"name": "c", "resources": {"limits": {"cpu": "9"}}}]),
    ],
)
def test_what_somebody_else_wrote_into_the_patch_is_written_over_before_the_start(
    path: str, value: Any
) -> None:
    after = prepared(held(), GIVEN)
    at = "/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/replicatedJobs/0"
    operation = {"op": "add", "path": f"{at}/template/spec/template/{path}", "value": value}
    forged = jsonpatch.apply_patch(after, [operation])
    assert prepared(forged, GIVEN) == after


class Joined:
    """A TrainJob with what was seen of its JobSet."""

    def __init__(self) -> None:
        self.document = held()
        self.made = self.document.pop(names.MADE_FOR)
        (row,) = (one for one in integrations.DEFAULT.integrations if one.kind.name == "TrainJob")
        self.integration = row
        self.seen: Any = None
        self.see()

    def see(self) -> None:
        """See the JobSet as it is."""
        assert self.integration.secondary is not None
        metadata = {"name": "train", "namespace": "ml", "uid": "s"}
        document = msgspec.convert({"metadata": metadata, "spec": self.made}, RowDocument)
        self.seen = self.integration.secondary.read(document, self.seen)

    @property
    def owner(self) -> TrainJobOwner:
        assert self.integration.secondary is not None
        document = msgspec.convert(self.document, TrainJobDocument)
        joined = self.integration.secondary.joined(document, (self.seen,))
        found = self.integration.owner(self.integration.view(joined))
        assert isinstance(found, TrainJobOwner)
        return found

    def prepare(self) -> None:
        it = self.owner
        injections = dict.fromkeys(it.pod_sets, GIVEN)
        patch = it.preparation(admitted(it.pod_sets), injections)
        self.document = patched(self.document, patch)

    def restore(self) -> None:
        self.document = patched(self.document, self.owner.restore(None))

    def apply(self) -> None:
        """Have the JobSet get what our patch gives, as the trainer does, and see it."""
        (ours,) = self.document["spec"]["runtimePatches"]
        changes = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        for job, change in zip(self.made["replicatedJobs"], changes, strict=True):
            pod, patch = (one["template"]["spec"]["template"] for one in (job, change))
            metadata = pod.setdefault("metadata", {})
            for member, entries in patch["metadata"].items():
                metadata[member] = {**metadata.get(member, {}), **entries}
            selector = {
                **pod["spec"].get("nodeSelector", {}),
                **patch.get("spec", {}).get("nodeSelector", {}),
            }
            pod["spec"] |= {**patch.get("spec", {}), "nodeSelector": selector}
        self.see()


def test_a_held_trainjob_asks_for_what_its_jobset_asked_for_before_its_admission() -> None:
    it = Joined()
    plain = it.owner.view.digest
    it.prepare()
    assert not it.owner.is_restored_first()
    it.made = copy.deepcopy(it.made)
    it.apply()
    assert it.owner.view.digest == plain
    assert not it.owner.is_restored_first()
    assert not it.owner.is_active()
    injections = dict.fromkeys(it.owner.pod_sets, GIVEN)
    assert it.owner.preparation(admitted(it.owner.pod_sets), injections) is None


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "main", "image": "other"}]},
        {"runtimeClassName": "nvidia"},
        {"nodeSelector": {"zone": "b"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"priorityClassName": "high"},
    ],
)
def test_a_runtime_that_changes_before_the_start_is_read_without_what_was_given(
    change: dict[str, Any],
) -> None:
    it = Joined()
    it.prepare()
    it.made = copy.deepcopy(it.made)
    it.apply()
    it.made = copy.deepcopy(it.made)
    it.made["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= change
    it.see()
    assert it.owner.is_restored_first()


def test_a_trainjob_that_was_restored_waits_until_its_jobset_follows() -> None:
    it = Joined()
    plain, digest = copy.deepcopy(it.made), it.owner.view.digest
    it.prepare()
    it.made = copy.deepcopy(it.made)
    it.apply()
    it.restore()
    assert it.owner.is_active()
    it.made = plain
    it.apply()
    assert not it.owner.is_active()
    assert not it.owner.is_restored_first()
    assert it.owner.view.digest == digest


def test_a_trainjob_that_was_stopped_waits_until_its_jobset_is_suspended() -> None:
    """Only then the JobSet has what else changed in that update."""
    it = Joined()
    it.prepare()
    it.made = copy.deepcopy(it.made)
    it.apply()
    assert not it.owner.is_active()
    it.made = {**it.made, "suspend": False}
    it.see()
    assert it.owner.is_active()


def test_a_jobset_that_was_not_seen_before_its_admission_is_restored_first() -> None:
    """The controller started in between."""
    it = Joined()
    it.prepare()
    it.made = copy.deepcopy(it.made)
    it.seen = None
    it.apply()
    assert it.owner.is_restored_first()
    it.restore()
    assert it.owner.is_active()
    assert it.owner.pod_sets


def test_the_update_that_starts_a_trainjob_changes_no_patch_of_its_runtime() -> None:
    """The trainer v2.2.0 refuses one that does."""
    after = prepared(held(), MARKED)
    started = patched(after, owner(after).start(admitted(owner(after).pod_sets), {}))
    assert started["spec"] == {**after["spec"], "suspend": False}


def test_pods_of_a_trainjob_wait_until_each_is_told_its_domain() -> None:
    """Only pod sets with domains get the gate; the JobSet numbers the pods."""
    document = held()
    domain = {
        "domainCount": 1,
        "valuesPerLevel": [{"universal": "n"}],
        "podCounts": {"universal": 1},
    }
    placed, *others = owner(document).pod_sets
    topology = {"levels": ["host"], "slices": [domain]}
    workload = admitted([placed, *others], topologyAssignment=topology)
    injections = dict.fromkeys([placed, *others], NOTHING)
    after = patched(document, owner(document).preparation(workload, injections))
    assert after["spec"]["suspend"] is True
    (ours,) = after["spec"]["runtimePatches"]
    jobs = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    gates = {
        job["name"]: job["template"]["spec"]["template"]["spec"].get("schedulingGates", [])
        for job in jobs
    }
    assert gates == {placed: [{"name": names.TOPOLOGY_GATE}], **{name: [] for name in others}}
