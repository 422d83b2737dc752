"""What a TrainJob is given when it starts, as a patch of its runtime."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.base import names
from admission.objects import owner_rows
from admission.objects.workload import Workload
from admission.owners import train_job
from admission.owners.injection import Injection
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
        names.MADE_FOR: copy.deepcopy(JOB_SET.manifest["spec"]),
    }


def admitted(names_of_sets: Iterable[str], queue: str = "q", **first: Any) -> Workload:
    sets = [{"name": name, "count": 1} for name in names_of_sets]
    sets[0] |= first
    admission = {"clusterQueue": queue, "podSetAssignments": sets}
    return msgspec.convert({"status": {"admission": admission}}, Workload)


def prepared(document: dict[str, Any], workload: Workload, given: Injection) -> dict[str, Any]:
    """The TrainJob after the write that gives its pods what its admission gives."""
    injections = dict.fromkeys(owner(document).pod_sets, given)
    patch = owner(document).prepare(workload, injections)
    after: dict[str, Any] = jsonpatch.apply_patch(document, msgspec.json.decode(patch.body))
    return after


def test_a_trainjob_is_prepared_for_one_admission_of_the_pods_that_it_asks_for() -> None:
    document = held()
    workload = admitted(owner(document).pod_sets)
    assert not owner(document).is_prepared(workload)
    after = prepared(document, workload, MARKED)
    assert owner(after).is_prepared(workload)

    assert not owner(after).is_prepared(admitted(owner(after).pod_sets, "other"))
    asking_more, started = copy.deepcopy(after), copy.deepcopy(after)
    template = asking_more[names.MADE_FOR]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["containers"][0]["resources"] = {"limits": {names.GPU_RESOURCE: "8"}}
    assert not owner(asking_more).is_prepared(workload)
    started["metadata"]["annotations"] = {names.INJECTED: "{}"}
    assert not owner(started).is_prepared(workload)


def test_a_trainjob_stays_prepared_when_its_jobset_gets_what_it_was_given() -> None:
    document = held()
    workload = admitted(owner(document).pod_sets)
    given = replace(MARKED, node_selector={"zone": "a"}, gates=(names.TOPOLOGY_GATE,))
    after = prepared(document, workload, given)
    (ours,) = after["spec"]["runtimePatches"]
    changes = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    for job, change in zip(after[names.MADE_FOR]["replicatedJobs"], changes, strict=True):
        pod, patch = (one["template"]["spec"]["template"] for one in (job, change))
        pod["metadata"] = patch["metadata"]
        pod["spec"] |= patch["spec"]
    assert owner(after).is_prepared(workload)


def test_the_update_that_starts_a_trainjob_changes_no_patch_of_its_runtime() -> None:
    """The trainer v2.2.0 refuses one that does."""
    document = held()
    workload = admitted(owner(document).pod_sets)
    after = prepared(document, workload, MARKED)
    started = jsonpatch.apply_patch(
        after, msgspec.json.decode(owner(after).start(workload, {}).body)
    )
    assert started["spec"] == {**after["spec"], "suspend": False}


@pytest.mark.parametrize("text", ["{}", "unreadable"])
def test_a_trainjob_that_is_restored_does_not_say_any_more_that_it_was_started(text: str) -> None:
    """Else it would be prepared and restored without end."""
    document = held()
    workload = admitted(owner(document).pod_sets)
    after = prepared(document, workload, MARKED)
    after["metadata"]["annotations"] = {names.INJECTED: text}
    patch = owner(after).restore(workload)
    restored = jsonpatch.apply_patch(after, msgspec.json.decode(patch.body))
    assert not owner(restored).is_injected()
    assert owner(prepared(restored, workload, MARKED)).is_prepared(workload)


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
    after = prepared(document, workload, NOTHING)
    assert after["spec"]["suspend"] is True
    (ours,) = after["spec"]["runtimePatches"]
    jobs = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    gates = {
        job["name"]: job["template"]["spec"]["template"]["spec"].get("schedulingGates", [])
        for job in jobs
    }
    assert gates == {placed: [{"name": names.TOPOLOGY_GATE}], **{name: [] for name in others}}
