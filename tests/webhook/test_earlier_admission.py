"""What an earlier admission left on a manifest is taken off when the object is created again."""

from typing import Any

import pytest

from admission.base import names
from admission.webhook import pod_review
from admission.webhook.queueing import ManagementState
from admission.webhook.review_context import Context
from tests.builders.pods import make_pod
from tests.webhook import builders
from tests.webhook.builders import apply, make_cluster, mutate, validate

LABELS = {
    names.PODSET_LABEL: "main",
    names.LOCAL_QUEUE_NAME_LABEL: "default",
    names.CLUSTER_QUEUE_NAME_LABEL: "gpus",
}
ANNOTATIONS = {names.WORKLOAD_ANNOTATION: "pod-exported-12345", names.STOPS_AT: "2026-01-01"}
GATE = {"name": names.ADMISSION_GATE}
MANAGED = {names.MANAGED_LABEL: "true"}


def exported(**spec: Any) -> dict[str, Any]:
    """A manifest of a pod that was admitted in another life."""
    own = {"app": "a", names.QUEUE_LABEL: "default", **MANAGED}
    return make_pod(
        gpus=1, labels={**own, **LABELS}, annotations={**ANNOTATIONS, "note": "n"}, **spec
    )


def test_the_marks_of_an_earlier_admission_are_dropped_from_a_new_pod():
    pod = exported()
    after = apply(mutate(pod, make_cluster("default")), pod)
    assert after["metadata"]["labels"] == {"app": "a", names.QUEUE_LABEL: "default", **MANAGED}
    assert not set(ANNOTATIONS) & set(after["metadata"]["annotations"])
    assert after["metadata"]["annotations"]["note"] == "n"
    assert after["spec"]["schedulingGates"] == [GATE]


@pytest.mark.parametrize("key", [*LABELS, *ANNOTATIONS, names.BEYOND_POD_GROUP, names.SLICE_NAME])
def test_each_mark_alone_is_dropped_and_the_pod_is_accepted(key: str):
    where = "labels" if key in LABELS else "annotations"
    pod = make_pod(gpus=1)
    pod["metadata"].setdefault(where, {})[key] = "old"
    cluster = make_cluster("default")
    after = apply(mutate(pod, cluster), pod)
    assert key not in after["metadata"][where]
    assert validate(after, cluster) == []


def test_a_pod_group_that_a_copy_no_longer_has_is_dropped():
    mark = "scheduling.x-k8s.io/podgroups/gone"
    pod = make_pod(gpus=1, annotations={names.POD_GROUP_OBJECT: mark})
    cluster = make_cluster("default")
    after = apply(mutate(pod, cluster), pod)
    assert names.POD_GROUP_OBJECT not in after["metadata"]["annotations"]
    assert validate(after, cluster) == []


def test_kueues_finalizer_is_taken_off_because_nobody_else_would():
    pod = make_pod(gpus=1)
    pod["metadata"]["finalizers"] = ["a/b", names.KUEUE_POD_FINALIZER, "c/d"]
    after = apply(mutate(pod, make_cluster("default")), pod)
    assert after["metadata"]["finalizers"] == ["a/b", "c/d"]


@pytest.mark.parametrize("labels", [{}, MANAGED])
@pytest.mark.parametrize("queues", [(), ("default",)])
def test_a_pod_that_needs_no_quota_is_not_held_by_a_gate_that_it_was_copied_with(labels, queues):
    gates = [{"name": "example.com/a"}, GATE]
    pod = make_pod(labels=labels, schedulingGates=gates, requests={"cpu": "1"})
    outcome = mutate(pod, make_cluster(*queues))
    after = apply(outcome, pod)
    assert outcome.standing is ManagementState.FREE
    assert after["spec"]["schedulingGates"] == [{"name": "example.com/a"}]
    assert names.MANAGED_LABEL not in after["metadata"].get("labels", {})


def test_pods_of_an_admitted_owner_keep_their_marks():
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pod = exported()
    pod["metadata"]["ownerReferences"] = [job]
    context = Context(
        namespace="team-a",
        now_us=builders.NOW_US,
        user="system:serviceaccount:kube-system:job-controller",
    )
    outcome = pod_review.mutate(
        builders.read(pod), context, builders.RULES, make_cluster("default")
    )
    assert outcome.standing is ManagementState.OF_JOB
    assert outcome.operations == ()


def test_nothing_is_taken_off_where_pods_are_not_managed():
    pod = exported(schedulingGates=[GATE])
    pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
    assert mutate(pod, make_cluster("default")).operations == ()


def test_cleaning_twice_equals_cleaning_once():
    pod = exported()
    pod["metadata"]["finalizers"] = [names.KUEUE_POD_FINALIZER]
    cluster = make_cluster("default")
    once = apply(mutate(pod, cluster), pod)
    assert mutate(once, cluster).operations == ()


def test_a_managed_label_that_no_admission_writes_is_told_to_its_author():
    pod = make_pod(labels={names.MANAGED_LABEL: "yes"})
    cluster = make_cluster("default")
    after = apply(mutate(pod, cluster), pod)
    assert after["metadata"]["labels"] == {names.MANAGED_LABEL: "yes"}
    assert "can only be 'true'" in str(validate(after, cluster))


# ------------------------------------------------------------------------------- updates


RELEASED_LABELS = {"app": "a", names.QUEUE_LABEL: "default", **MANAGED, **LABELS}


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return apply(pod_review.keep(builders.read(old), builders.read(new)), new)


def test_a_syncer_that_replaces_all_labels_and_annotations_loses_no_mark():
    old = make_pod(gpus=1, labels=RELEASED_LABELS, annotations={**ANNOTATIONS, "note": "n"})
    new = make_pod(gpus=1, labels={"app": "b"}, annotations={"other": "o"})
    after = changed(old, new)
    assert after["metadata"]["labels"] == {**RELEASED_LABELS, "app": "b"}
    assert after["metadata"]["annotations"] == {**ANNOTATIONS, "other": "o"}


def test_a_syncer_that_replaces_labels_and_gates_keeps_ours_and_takes_its_own():
    labels = {names.QUEUE_LABEL: "default", **MANAGED}
    gates = [{"name": "example.com/a"}, GATE, {"name": "example.com/b"}]
    old = make_pod(gpus=1, labels=labels, schedulingGates=gates)
    new = make_pod(gpus=1, labels={"app": "b"}, schedulingGates=[{"name": "example.com/b"}])
    after = changed(old, new)
    assert after["spec"]["schedulingGates"] == [GATE, {"name": "example.com/b"}]
    assert after["metadata"]["labels"] == {**labels, "app": "b"}


@pytest.mark.parametrize("key", sorted({names.QUEUE_LABEL, *MANAGED, *LABELS}))
def test_who_takes_off_one_of_several_marks_is_answered_by_the_rules(key: str):
    old = make_pod(gpus=1, labels=RELEASED_LABELS)
    kept = {name: text for name, text in RELEASED_LABELS.items() if name != key}
    assert changed(old, make_pod(gpus=1, labels=kept))["metadata"]["labels"] == kept


def test_who_takes_off_the_gate_alone_is_answered_by_the_policies():
    labels = {names.QUEUE_LABEL: "default", **MANAGED}
    old = make_pod(gpus=1, labels=labels, schedulingGates=[GATE])
    new = make_pod(gpus=1, labels=labels)
    assert pod_review.keep(builders.read(old), builders.read(new)).operations == ()


def test_a_manifest_of_kueue_that_is_applied_again_brings_nothing_back():
    old = make_pod()
    new = make_pod(labels=MANAGED, schedulingGates=[GATE, {"name": "example.com/b"}])
    new["metadata"]["finalizers"] = [names.KUEUE_POD_FINALIZER, "a/b"]
    after = changed(old, new)
    assert names.MANAGED_LABEL not in after["metadata"]["labels"]
    assert after["spec"]["schedulingGates"] == [{"name": "example.com/b"}]
    assert after["metadata"]["finalizers"] == ["a/b"]


def test_an_administrator_may_put_a_running_pod_into_a_queue():
    new = make_pod(labels=MANAGED, annotations={names.WORKLOAD_ANNOTATION: "pod-a-12345"})
    assert pod_review.keep(builders.read(make_pod()), builders.read(new)).operations == ()


def test_who_keeps_marks_by_an_update_is_told_which():
    old, new = make_pod(gpus=1, labels=RELEASED_LABELS), make_pod(gpus=1, labels={"app": "b"})
    (warning,) = pod_review.keep(builders.read(old), builders.read(new)).warnings
    assert warning.startswith("Kept as before: label kueue.x-k8s.io/cluster-queue-name, ")
