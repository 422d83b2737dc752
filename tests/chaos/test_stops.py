"""What the logs say of who stopped what, and whether it was decided."""

import json

import pytest

from admission.base import names
from tests.chaos import stops
from tests.controlplane.rest import Json

STOPPED = {"uid-1": "pod ml/a was stopped (second 3.0) "}


def deletion(uid: str, at: str, workload: str = "gang") -> str:
    annotations = {names.WORKLOAD_ANNOTATION: workload}
    pod = {"metadata": {"namespace": "ml", "name": "a", "uid": uid, "annotations": annotations}}
    return json.dumps(
        {
            "verb": "delete",
            "objectRef": {"resource": "pods"},
            "requestObject": {"preconditions": {"uid": uid}},
            "responseObject": pod,
            "requestReceivedTimestamp": at,
        }
    )


def log(event: str, at: str, **more: str) -> str:
    record: Json = {"event": event, "namespace": "ml", "workload": "gang", "timestamp": at}
    return json.dumps(record | more)


@pytest.mark.parametrize(
    ("logs", "is_decided"),
    [
        pytest.param([], False, id="nothing is logged"),
        pytest.param([log("workload evicted", "T1")], True, id="its Workload was evicted"),
        pytest.param([log("workload evicted", "T3")], False, id="it was evicted afterwards"),
        pytest.param(
            [log("workload admitted", "T1.5"), log("workload evicted", "T1")],
            False,
            id="it was admitted again before",
        ),
        pytest.param(
            [log("workload evicted", "T1", workload="another")], False, id="another was evicted"
        ),
        pytest.param(
            [log("workload evicted", "T1", workload="of-its-own", pod="a")],
            True,
            id="that of the pod itself was evicted",
        ),
    ],
)
def test_a_pod_that_the_controller_deletes_is_decided_by_the_eviction_before(
    logs: list[str], is_decided: bool
) -> None:
    assert (stops.undecided(STOPPED, [deletion("uid-1", "T2")], logs) == []) is is_decided


def test_what_somebody_else_stopped_is_nobodys_fault() -> None:
    assert stops.undecided(STOPPED, [deletion("uid-2", "T2"), '{"half'], []) == []


def test_a_job_that_is_suspended_is_decided_by_the_eviction_of_its_workload() -> None:
    job = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"suspend": True}}
    audit = [
        json.dumps(
            {
                "verb": "patch",
                "objectRef": {"resource": "jobs"},
                "responseObject": job,
                "requestReceivedTimestamp": "T2",
            }
        )
    ]
    stopped = {"u@7": "Job ml/train was suspended with 1 pods running (second 3.0)"}
    assert stops.undecided(stopped, audit, []) == list(stopped.values())
    assert stops.undecided(stopped, audit, [log("workload evicted", "T1", job="train")]) == []
