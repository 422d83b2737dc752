"""What a TrainJob is given when it starts, as a patch of its runtime."""

import copy

import jsonpatch
import msgspec

from admission.base import names
from admission.objects import owner_rows
from admission.objects.workload import Workload
from admission.owners import train_job
from admission.owners.injection import Injection
from admission.owners.train_job import TrainJobDocument, TrainJobOwner
from tests.owners import samples

(JOB_SET,) = (sample for sample in samples.ALL if sample.row.kind == "JobSet")


def test_pods_of_a_trainjob_wait_until_each_is_told_its_domain() -> None:
    """Only pod sets with domains get the gate; the JobSet numbers the pods."""
    document = {
        "metadata": {"name": "train", "namespace": "ml", "uid": "11", "resourceVersion": "7"},
        "spec": {"runtimeRef": {"name": "torch"}, "suspend": True},
        names.MADE_FOR: copy.deepcopy(JOB_SET.manifest["spec"]),
    }
    row = owner_rows.TRAIN_JOB
    view = train_job.read(row, msgspec.convert(document, TrainJobDocument))
    domain = {
        "domainCount": 1,
        "valuesPerLevel": [{"universal": "n"}],
        "podCounts": {"universal": 1},
    }
    placed, *others = (pod_set.name for pod_set in view.pod_sets)
    admission = {
        "clusterQueue": "q",
        "podSetAssignments": [
            {
                "name": placed,
                "count": 1,
                "topologyAssignment": {"levels": ["host"], "slices": [domain]},
            },
            *({"name": name, "count": 1} for name in others),
        ],
    }
    workload = msgspec.convert({"status": {"admission": admission}}, Workload)

    nothing = Injection(node_selector={}, tolerations=(), labels={}, annotations={})
    given = {pod_set.name: nothing for pod_set in view.pod_sets}
    patch = TrainJobOwner(row, view).start(workload, given)

    started = jsonpatch.apply_patch(document, msgspec.json.decode(patch.body))
    (ours,) = started["spec"]["runtimePatches"]
    jobs = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    gates = {
        job["name"]: job["template"]["spec"]["template"]["spec"].get("schedulingGates", [])
        for job in jobs
    }
    assert gates == {placed: [{"name": names.TOPOLOGY_GATE}], **{name: [] for name in others}}
