"""Quota of pods that have succeeded is given back only where nothing runs them again (ADR 0116).

The fields are those of JobSet's API: jobset api/jobset/v1alpha2/jobset_types.go.
"""

import copy
from typing import Any

import msgspec
import pytest

from admission.base import names
from admission.objects import owner_rows
from admission.objects.workload import Workload
from admission.owners import train_job
from admission.owners.row_owner import RowOwner
from admission.owners.train_job import TrainJobDocument, TrainJobOwner
from tests.owners import samples
from tests.owners.test_rows import made, owner_of, started, stored, view_of

(SAMPLE,) = (one for one in samples.ALL if one.row.kind == "JobSet")
NOTHING: dict[str, int] = {}


def policy(most: int, *actions: str) -> dict[str, Any]:
    rules = [{"name": f"rule{at}", "action": action} for at, action in enumerate(actions)]
    return {"maxRestarts": most, **({"rules": rules} if rules else {})}


def job_set(
    failures: dict[str, Any] | None = None,
    *,
    restarts: int = 0,
    failed: int = 0,
    ttl: bool = False,
) -> RowOwner:
    """A JobSet of which one replica of three pods has succeeded, and goes on with the others."""
    document = stored(SAMPLE)
    if failures is not None:
        document["spec"]["failurePolicy"] = failures
    if ttl:
        document["spec"]["replicatedJobs"][1]["template"]["spec"]["ttlSecondsAfterFinished"] = 0
    document["status"] = {**copy.deepcopy(SAMPLE.running), "restarts": restarts}
    document["status"]["replicatedJobsStatus"][0]["failed"] = failed
    return owner_of(SAMPLE, document)


ALL_ENDED = {
    "it has no failure policy": job_set(),
    "it may never restart": job_set(policy(0)),
    "a restart is impossible whatever failed": job_set(policy(0), failed=1),
    "its rules make it fail": job_set(policy(0, "FailJobSet", "RestartJobSet")),
    "it has restarted as often as it may": job_set(policy(2), restarts=2),
    "it has restarted oftener than it may": job_set(policy(2, "RestartJobSet"), restarts=3),
}
SOME_RUN_AGAIN = {
    "it may restart": job_set(policy(1)),
    "it may restart once more": job_set(policy(2, "FailJobSet"), restarts=1),
    "a rule restarts it without end": job_set(
        policy(0, "RestartJobSetAndIgnoreMaxRestarts"), restarts=2
    ),
    "a rule restarts Jobs": job_set(policy(0, "RestartJob")),
    "a rule does what is not known": job_set(policy(0, "Other")),
    "its last restart is under way": job_set(policy(1), restarts=1, failed=1),
    "its Jobs are deleted when they have ended, and made anew": job_set(ttl=True),
}


@pytest.mark.parametrize("case", ALL_ENDED)
def test_a_jobset_gives_back_quota_of_replicas_that_never_run_again_as(case: str) -> None:
    owner = ALL_ENDED[case]
    assert owner.reclaimable(view_of(made(SAMPLE, owner))) == {"workers": 3}


@pytest.mark.parametrize("case", SOME_RUN_AGAIN)
def test_a_jobset_keeps_quota_of_replicas_that_may_run_again_as(case: str) -> None:
    owner = SOME_RUN_AGAIN[case]
    workload = view_of(made(SAMPLE, owner))
    assert owner.reclaimable(workload) == NOTHING
    assert owner.pods_ended(workload) == {"workers": 3}


@pytest.mark.parametrize(("most", "pods"), [(0, 3), (1, 6)])
def test_a_jobset_without_its_workload_is_charged_for_pods_that_may_run_again(
    most: int, pods: int
) -> None:
    document = started(SAMPLE, stored(SAMPLE))
    document["spec"] |= {"suspend": False, "failurePolicy": policy(most)}
    document["status"] = SAMPLE.running
    name = workload_name(document)
    for job in document["spec"]["replicatedJobs"]:
        metadata = job["template"]["spec"]["template"]["metadata"]
        metadata["annotations"][names.WORKLOAD_ANNOTATION] = name
    charged = owner_of(SAMPLE, document).let_go()
    assert charged is not None
    counts = {one.name: one.count for one in charged.spec.pod_sets or ()}
    assert counts == {"driver": 1, "workers": pods}


def workload_name(document: dict[str, Any]) -> str:
    owner = owner_of(SAMPLE, document)
    return owner.kind.key_of(owner.view).name


@pytest.mark.parametrize(
    ("failures", "reclaimable"),
    [(None, {"workers": 3}), (policy(0), {"workers": 3}), (policy(1), NOTHING)],
)
def test_a_trainjob_gives_back_quota_as_its_jobset_says(
    failures: dict[str, Any] | None, reclaimable: dict[str, int]
) -> None:
    """Its own status does not say how often its JobSet has restarted."""
    document = {
        "metadata": {"name": "train", "namespace": "ml", "uid": "11"},
        "spec": {"runtimeRef": {"name": "torch"}},
        "status": {"jobsStatus": SAMPLE.running["replicatedJobsStatus"], "restarts": 7},
        names.MADE_FOR: {**copy.deepcopy(SAMPLE.manifest["spec"]), "failurePolicy": failures},
    }
    row = owner_rows.TRAIN_JOB
    view = train_job.read(row, msgspec.convert(document, TrainJobDocument))
    owner = TrainJobOwner(row, view)
    workload = msgspec.convert(
        {"spec": {"podSets": made(SAMPLE, owner_of(SAMPLE, stored(SAMPLE)))["spec"]["podSets"]}},
        Workload,
    )
    assert owner.reclaimable(workload) == reclaimable
