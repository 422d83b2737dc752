"""What Kueue serves and this program does not is refused or warned about at creation."""

from typing import Any

import msgspec
import pytest

from admission.base import names
from admission.owners.batch_job_review import ReviewedJob
from admission.webhook import owner_review, pod_review, topology, unserved
from admission.webhook.review_context import Context
from tests.builders.pods import make_pod
from tests.webhook.builders import NOW_US, RULES, apply, make_cluster, mutate, read

K = names.KUEUE_GROUP
GATES = [{"name": names.ADMISSION_GATE}]
QUEUED = {names.QUEUE_LABEL: "default"}
CONTEXT = Context(namespace="team-a", now_us=NOW_US)


def judged(pod: dict[str, Any], old: dict[str, Any] | None = None) -> pod_review.ReviewOutcome:
    before = None if old is None else read(old)
    return pod_review.validate(before, read(pod), CONTEXT, RULES, make_cluster("default"))


def judged_job(template: dict[str, Any], **labels: str) -> pod_review.ReviewOutcome:
    metadata = {"name": "j", "namespace": "team-a", "labels": labels}
    spec = {"template": template, "suspend": True}
    job = msgspec.convert({"metadata": metadata, "spec": spec}, ReviewedJob)
    return owner_review.validate(None, job, CONTEXT, RULES, make_cluster("default"))


@pytest.mark.parametrize("key", unserved.REFUSED_TOPOLOGY)
def test_a_required_topology_is_refused_of_a_job_that_may_grow(key: str) -> None:
    value = '[{"topology":"rack","size":1}]' if key.endswith("constraints") else "rack"
    asks = {key: value}
    if key == names.SLICE_REQUIRED_TOPOLOGY:
        asks[names.PODSET_SLICE_SIZE] = "1"
    labels = QUEUED | {names.POD_GROUP_NAME: "g"}
    in_group = asks | {names.POD_GROUP_TOTAL_COUNT: "1"}
    member = make_pod(labels=labels, annotations=in_group, schedulingGates=GATES)
    assert [one for one in judged(member).errors if "Forbidden: topology" in one.text()] == []
    elastic = {"spec": {"schedulingGates": [{"name": names.ELASTIC_JOB_GATE}]}}
    template: dict[str, Any] = {"metadata": {"annotations": asks}}
    (of_job,) = judged_job(template | elastic, **QUEUED).errors
    assert of_job.path.text == f"spec.template.metadata.annotations[{key}]"
    assert "not supported where the number of pods may change" in of_job.text()
    assert judged_job(template, **QUEUED).errors == ()
    assert judged(make_pod(labels=QUEUED, annotations=asks, schedulingGates=GATES)).errors == ()
    assert judged_job(template).errors == ()
    assert judged(make_pod(annotations=asks)).errors == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [(names.PREFERRED_TOPOLOGY, "rack"), (names.UNCONSTRAINED_TOPOLOGY, "true")],
)
def test_a_topology_that_may_be_left_out_is_warned_about_there(key: str, value: str) -> None:
    pod = make_pod(labels=QUEUED, annotations={key: value}, schedulingGates=GATES)
    outcome = judged(pod)
    assert (outcome.errors, outcome.warnings) == ((), ())
    elastic = {"spec": {"schedulingGates": [{"name": names.ELASTIC_JOB_GATE}]}}
    template: dict[str, Any] = {"metadata": {"annotations": {key: value}}}
    (of_job,) = judged_job(template | elastic, **QUEUED).warnings
    assert of_job.startswith(f"spec.template.metadata.annotations[{key}] has no effect")
    assert judged_job(template, **QUEUED).warnings == ()


def test_every_topology_annotation_is_refused_or_warned_about() -> None:
    found = {*unserved.REFUSED_TOPOLOGY, *unserved.WARNED_TOPOLOGY}
    assert found == set(topology.KEYS)


def test_a_topology_gate_at_creation_is_told_and_remembered_as_anothers() -> None:
    """Kueue puts one on each of its pods; those were not created under this program."""
    gates = [{"name": names.TOPOLOGY_GATE}]
    pod = make_pod(labels=QUEUED, schedulingGates=gates)
    after = apply(mutate(pod, make_cluster("default")), pod)
    assert after["metadata"]["annotations"][names.FOREIGN_TOPOLOGY_GATE] == "true"
    assert after["spec"]["schedulingGates"] == [*gates, *GATES]
    (warning,) = judged(after).warnings
    assert "waits until another controller removes its gate kueue.x-k8s.io/topology" in warning
