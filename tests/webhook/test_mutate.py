"""What creating a pod changes about it."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import fielderrors, names
from admission.base.namespaces import ManagedNamespaces
from admission.base.selectors import Requirement
from admission.objects import role_hash
from admission.webhook.queueing import ManagementState
from tests.builders.cluster import namespace_view
from tests.builders.pods import make_pod
from tests.webhook import builders
from tests.webhook.builders import apply, make_cluster, mutate

GATE = {"name": "kueue.x-k8s.io/admission"}
QUEUE = "kueue.x-k8s.io/queue-name"
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def role_hash_of(document: dict[str, Any]) -> str:
    return role_hash.of(builders.read(document).spec)


def test_a_gpu_pod_in_a_namespace_with_a_default_queue_is_queued_and_gated():
    pod = make_pod(gpus=2, tolerations=[{"key": "a", "operator": "Exists"}])
    outcome = mutate(pod, make_cluster("default"))
    expected = copy.deepcopy(pod)
    expected["metadata"]["labels"] = {QUEUE: "default", "kueue.x-k8s.io/managed": "true"}
    after = apply(outcome, pod)
    expected["metadata"]["annotations"] = {"kueue.x-k8s.io/role-hash": role_hash_of(after)}
    expected["spec"]["schedulingGates"] = [GATE]
    expected["spec"]["tolerations"].append(TOLERATION)
    assert after == expected
    assert outcome.standing is ManagementState.QUEUED
    assert "finalizers" not in expected["metadata"]


def test_req_26_what_kueue_has_marked_keeps_its_queue_and_is_gated_once():
    marks = {QUEUE: "team", "kueue.x-k8s.io/managed": "true"}
    pod = make_pod(gpus=2, labels=marks, schedulingGates=[{"name": "example.com/a"}, GATE])
    after = apply(mutate(pod, make_cluster("default", "team")), pod)
    assert after["metadata"]["labels"] == marks
    assert after["spec"]["schedulingGates"] == [{"name": "example.com/a"}, GATE]


def test_a_copy_of_a_pod_that_was_preempted_is_not_about_to_stop():
    marks = {names.STOPS_AT: "2026-03-01T12:00:00Z", "a": "b"}
    pod = make_pod(gpus=1, annotations=marks)
    after = apply(mutate(pod, make_cluster("default")), pod)
    assert names.STOPS_AT not in after["metadata"]["annotations"]
    assert after["metadata"]["annotations"]["a"] == "b"


def test_the_queue_label_alone_makes_any_pod_ours():
    pod = make_pod(labels={QUEUE: "batch"}, requests={"cpu": "1"})
    after = apply(mutate(pod, make_cluster("batch")), pod)
    assert after["spec"]["schedulingGates"] == [GATE]
    assert "tolerations" not in after["spec"]


@pytest.mark.parametrize(
    ("pod", "cluster", "standing"),
    [
        (make_pod(requests={"cpu": "1"}), make_cluster("default"), ManagementState.FREE),
        (make_pod(gpus=1), make_cluster("other"), ManagementState.UNMANAGED),
        (make_pod(requests={"nvidia.com/gpu": "0"}, limits={"nvidia.com/gpu": "0"}),
         make_cluster("default"), ManagementState.FREE),
        (make_pod(gpus=1, nodeName="node-1"), make_cluster("default"), ManagementState.UNMANAGED),
        (make_pod(labels={QUEUE: "default"}, nodeName="node-1"),
         make_cluster("default"), ManagementState.FREE),
        (make_pod(gpus=1, annotations={"kubernetes.io/config.mirror": "x"}),
         make_cluster("default", enforce=True), ManagementState.FREE),
    ],
    ids=[
        "no GPU, default queue", "GPU, no default queue", "zero GPUs", "GPU on a named node",
        "queue label on a named node", "mirror pod",
    ],
)  # fmt: skip
def test_other_pods_are_left_alone(pod, cluster, standing):
    outcome = mutate(pod, cluster)
    assert (outcome.operations, outcome.errors, outcome.standing) == ((), (), standing)


@pytest.mark.parametrize("enforce", [False, True])
@pytest.mark.parametrize("labels", [None, {QUEUE: "default"}], ids=["default queue", "queue"])
def test_a_mirror_pod_is_not_held_as_its_kubelet_runs_it_already(labels, enforce):
    mirror = {"kubernetes.io/config.mirror": "x"}
    pod = make_pod(gpus=1, labels=labels, annotations=mirror)
    outcome = mutate(pod, make_cluster("default", enforce=enforce))
    assert (outcome.operations, outcome.errors, outcome.standing) == ((), (), ManagementState.FREE)
    held = mutate(make_pod(gpus=1, labels=labels), make_cluster("default", enforce=enforce))
    assert held.standing is ManagementState.QUEUED


def test_an_excluded_namespace_is_never_ours():
    pod = make_pod(gpus=1, labels={QUEUE: "default"})
    outcome = mutate(pod, make_cluster("default"), namespace="kube-system")
    assert (outcome.operations, outcome.standing) == ((), ManagementState.FREE)


@pytest.mark.parametrize(
    ("labels", "standing"),
    [
        ({"team": "a"}, ManagementState.QUEUED),
        ({}, ManagementState.FREE),
        (None, ManagementState.QUEUED),
    ],
    ids=["chosen", "not chosen", "not seen yet"],
)
def test_a_namespace_is_ours_as_its_labels_say(labels, standing):
    seen = {} if labels is None else {"team-a": namespace_view(labels=labels)}
    cluster = replace(make_cluster("default"), namespaces=seen)
    rules = replace(
        builders.RULES, namespaces=ManagedNamespaces(requirements=(Requirement("team", "Exists"),))
    )
    pod = make_pod(gpus=1, labels={QUEUE: "default"})
    assert mutate(pod, cluster, rules=rules).standing is standing


@pytest.mark.parametrize(
    ("pod", "cluster", "standing"),
    [
        (make_pod(gpus=1), make_cluster("other"), ManagementState.IN_DOUBT),
        (make_pod(gpus=1), make_cluster("other", enforce=True), ManagementState.REFUSED),
        (make_pod(gpus=1), make_cluster("default"), ManagementState.QUEUED),
        (
            make_pod(resourceClaims=[{"name": "gpu"}]),
            make_cluster("other"),
            ManagementState.IN_DOUBT,
        ),
        (make_pod(requests={"cpu": "1"}), make_cluster("other"), ManagementState.FREE),
        (make_pod(gpus=1, nodeName="node-1"), make_cluster("other"), ManagementState.UNMANAGED),
    ],
    ids=["GPU", "GPU, enforced", "GPU, default queue", "claim", "no GPU", "GPU on a named node"],
)  # fmt: skip
def test_where_a_queue_is_required_gpu_pods_without_one_are_held(pod, cluster, standing):
    outcome = mutate(pod, cluster, rules=builders.QUEUE_REQUIRED)
    assert outcome.standing is standing


def test_a_pod_that_is_held_for_want_of_a_queue_is_gated_and_marked_and_has_none():
    pod = make_pod(gpus=1)
    outcome = mutate(pod, make_cluster("other"), rules=builders.QUEUE_REQUIRED)
    after = apply(outcome, pod)
    assert after["spec"]["schedulingGates"] == [GATE]
    assert after["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}


def test_req_27_a_resource_claim_is_held_in_doubt_where_gpus_go_through_a_queue():
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    pod = make_pod(resourceClaims=claims)
    assert mutate(pod, make_cluster("default")).standing is ManagementState.IN_DOUBT
    assert mutate(pod, make_cluster("other", enforce=True)).standing is ManagementState.IN_DOUBT
    assert mutate(pod, make_cluster("other")).standing is ManagementState.FREE
    labelled = make_pod(resourceClaims=claims, labels={QUEUE: "other"})
    assert mutate(labelled, make_cluster("other")).standing is ManagementState.QUEUED
    both = make_pod(gpus=1, resourceClaims=claims)
    assert mutate(both, make_cluster("default")).standing is ManagementState.QUEUED
    assert mutate(both, make_cluster("other", enforce=True)).standing is ManagementState.REFUSED


def test_req_27_the_implicit_name_of_a_class_of_gpus_is_a_wish_for_a_gpu():
    implicit = f"{names.IMPLICIT_CLASS_PREFIX}gpu.nvidia.com"
    amounts = {implicit: "1"}
    pod = make_pod(requests=amounts, limits=amounts)
    assert mutate(pod, make_cluster("default")).standing is ManagementState.QUEUED
    errors = mutate(make_pod(requests=amounts), make_cluster("default")).errors
    assert "Limit must be set" in fielderrors.aggregate(errors)


@pytest.mark.parametrize(
    "resource", ["deviceclass.resource.kubernetes.io/ours", "example.com/gold"]
)
def test_req_27_a_resource_that_a_device_class_may_answer_is_held_where_gpus_are(resource: str):
    amounts = {resource: "1"}
    pod = make_pod(requests=amounts, limits=amounts)
    assert mutate(pod, make_cluster("default")).standing is ManagementState.IN_DOUBT
    assert mutate(pod, make_cluster("other", enforce=True)).standing is ManagementState.IN_DOUBT
    assert mutate(pod, make_cluster("other")).standing is ManagementState.FREE
    free = make_pod(requests={resource: "0"}, limits={resource: "0"})
    assert mutate(free, make_cluster("default")).standing is ManagementState.FREE
    native = make_pod(requests={"hugepages-2Mi": "2Mi"}, limits={"hugepages-2Mi": "2Mi"})
    assert mutate(native, make_cluster("default")).standing is ManagementState.FREE


@pytest.mark.parametrize(
    "cluster",
    [
        make_cluster(synced=False),
        builders.Cluster(),
        make_cluster(created="2026-09-21T14:13:11Z"),
    ],
    ids=["cache not filled", "namespace unknown", "namespace 9 s old"],
)
def test_in_doubt_a_gpu_pod_is_held_without_a_queue(cluster):
    pod = make_pod(gpus=1)
    outcome = mutate(pod, cluster)
    after = apply(outcome, pod)
    assert outcome.standing is ManagementState.IN_DOUBT
    assert after["spec"]["schedulingGates"] == [GATE]
    assert after["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    assert mutate(make_pod(), cluster).standing is ManagementState.FREE


def test_an_enforced_namespace_refuses_gpus_outside_queues_and_names_its_queues():
    outcome = mutate(make_pod(gpus=1), make_cluster("batch", "night", enforce=True))
    assert outcome.standing is ManagementState.REFUSED
    assert outcome.operations == ()
    assert fielderrors.aggregate(outcome.errors) == (
        "metadata.labels[kueue.x-k8s.io/queue-name]: Required value: the pod asks for"
        " nvidia.com/gpu, so in namespace team-a (gpu-admission.dev/enforce=true) this label must"
        " name one of batch, night"
    )


def test_an_enforced_namespace_refuses_gpus_on_a_named_node():
    pod = make_pod(gpus=1, labels={QUEUE: "batch"}, nodeName="node-1")
    errors = mutate(pod, make_cluster("batch", enforce=True)).errors
    assert fielderrors.aggregate(errors) == (
        "spec.nodeName: Forbidden: the pod asks for nvidia.com/gpu, and with a node name it goes"
        " around the scheduler and so around quota; in namespace team-a"
        " (gpu-admission.dev/enforce=true) it must go through a queue: leave nodeName out, and set"
        " nodeSelector kubernetes.io/hostname: node-1"
    )


def test_a_pod_held_for_its_parent_gets_the_gate_but_no_managed_label():
    pod = make_pod(annotations={"kueue.x-k8s.io/pod-suspending-parent": "deployment"})
    outcome = mutate(pod, make_cluster("default", priority_classes=frozenset({"default"})))
    after = apply(outcome, pod)
    assert outcome.standing is ManagementState.SUSPENDED
    assert after["spec"]["schedulingGates"] == [GATE]
    assert "labels" not in after["metadata"]


def test_a_pod_held_for_its_parent_is_managed_where_it_names_a_queue():
    parent = {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}
    pod = make_pod(annotations=parent, labels={QUEUE: "batch"})
    outcome = mutate(pod, make_cluster("batch"))
    assert outcome.standing is ManagementState.SUSPENDED
    assert apply(outcome, pod)["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"


def test_a_default_priority_class_is_given_to_queued_pods_without_one():
    cluster = make_cluster("default", priority_classes=frozenset({"default"}))
    label = "kueue.x-k8s.io/priority-class"
    pod = make_pod(gpus=1)
    assert apply(mutate(pod, cluster), pod)["metadata"]["labels"][label] == "default"
    chosen = make_pod(gpus=1, labels={label: "high"})
    assert apply(mutate(chosen, cluster), chosen)["metadata"]["labels"][label] == "high"
    assert mutate(make_pod(), cluster).operations == ()


def test_a_pod_of_a_job_gets_no_default_priority_class():
    """Its Job is where a class belongs."""
    cluster = make_cluster("default", priority_classes=frozenset({"default"}))
    pod = make_pod(gpus=1)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    labels = apply(mutate(pod, cluster), pod)["metadata"]["labels"]
    assert labels == {QUEUE: "default", names.MANAGED_LABEL: "true"}


def test_a_pod_of_a_group_is_gated_and_gets_its_index_and_role():
    pod = make_pod(
        labels={QUEUE: "batch", "kueue.x-k8s.io/pod-group-name": "g", "idx": "3"},
        annotations={
            "kueue.x-k8s.io/pod-group-total-count": "4",
            "kueue.x-k8s.io/pod-group-pod-index-label": "idx",
            "kueue.x-k8s.io/role-hash": "main",
        },
    )
    after = apply(mutate(pod, make_cluster("batch")), pod)
    assert after["metadata"]["labels"]["kueue.x-k8s.io/pod-group-pod-index"] == "3"
    assert after["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] == "main"
    assert after["spec"]["schedulingGates"] == [GATE]


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"operator": "Exists"},
        TOLERATION,
    ],
    ids=["any effect", "everything", "the same"],
)
def test_a_pod_that_tolerates_gpu_nodes_already_gets_no_toleration(toleration):
    pod = make_pod(gpus=1, tolerations=[toleration])
    assert apply(mutate(pod, make_cluster("default")), pod)["spec"]["tolerations"] == [toleration]


maps = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from([QUEUE, names.MANAGED_LABEL, "a/b~c"]),
                    st.sampled_from(["", "default", "true", "x"])),
)  # fmt: skip


@given(labels=maps, annotations=maps, gpus=st.integers(0, 2), gated=st.booleans(),
       queues=st.sets(st.sampled_from(["default", "x"])))  # fmt: skip
def test_a_second_review_of_the_result_changes_nothing(labels, annotations, gpus, gated, queues):
    spec: Any = {"schedulingGates": [{"name": "example.com/wait"}]} if gated else {}
    pod = make_pod(labels=labels, annotations=annotations, gpus=gpus, **spec)
    before = copy.deepcopy(pod)
    cluster = make_cluster(*queues)
    after = apply(mutate(pod, cluster), pod)
    assert pod == before
    assert mutate(after, cluster).operations == ()
    foreign = [gate for gate in after["spec"].get("schedulingGates", []) if gate != GATE]
    assert foreign == spec.get("schedulingGates", [])


VOLCANO = {"scheduling.k8s.io/group-name": "gang"}
MARK = "gpu-admission.dev/pod-group"


def test_a_pod_of_a_podgroup_waits_until_the_controller_knows_its_queue():
    pod = make_pod(gpus=1, annotations=VOLCANO)
    outcome = mutate(pod, make_cluster("default"))
    after = apply(outcome, pod)
    assert outcome.standing is ManagementState.IN_DOUBT
    assert after["metadata"]["annotations"][MARK] == "podgroups.scheduling.volcano.sh/gang"
    assert QUEUE not in after["metadata"]["labels"]
    assert GATE in after["spec"]["schedulingGates"]


def test_a_pod_of_a_podgroup_keeps_the_queue_that_it_names():
    pod = make_pod(gpus=1, annotations=VOLCANO, labels={QUEUE: "batch"})
    outcome = mutate(pod, make_cluster("default", "batch"))
    assert outcome.standing is ManagementState.QUEUED
    assert MARK in apply(outcome, pod)["metadata"]["annotations"]


def test_a_group_of_kueue_wins_over_a_podgroup():
    group = {
        "kueue.x-k8s.io/pod-group-name": "g",
        "kueue.x-k8s.io/pod-group-total-count": "1",
    }
    pod = make_pod(gpus=1, annotations={**VOLCANO, **group})
    outcome = mutate(pod, make_cluster("default"))
    assert outcome.standing is ManagementState.QUEUED
    assert MARK not in apply(outcome, pod)["metadata"]["annotations"]


def test_a_pod_of_a_podgroup_where_no_queue_is_runs_as_any_other():
    pod = make_pod(gpus=1, annotations=VOLCANO)
    assert mutate(pod, make_cluster()).standing is ManagementState.UNMANAGED


def controlled(api_version: str, kind: str, **pod: Any) -> dict[str, Any]:
    """A GPU pod that an owner controls."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": True}
    return make_pod(gpus=1, metadata={"ownerReferences": [owner]}, **pod)


def test_pods_of_a_controller_of_training_that_is_not_served_are_a_group():
    pod = controlled("kubeflow.org/v1", "MXJob")
    outcome = mutate(pod, make_cluster("default"))
    assert outcome.standing is ManagementState.QUEUED
    after = apply(outcome, pod)
    assert after["metadata"]["annotations"][MARK] == "mxjob.kubeflow.org/o/u"
    again = mutate(after, make_cluster("default"))
    assert apply(again, after) == after


def test_pods_of_other_controllers_are_no_group():
    for api_version, kind in (("kubeflow.org/v1", "PyTorchJob"), ("apps/v1", "ReplicaSet")):
        pod = controlled(api_version, kind)
        after = apply(mutate(pod, make_cluster("default")), pod)
        assert MARK not in after["metadata"]["annotations"]


# --------------------------------------------------------- what the API server has held before


def held_by_the_api_server(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod after the policy of `admission.admin.holding`."""
    after = copy.deepcopy(pod)
    metadata, spec = after["metadata"], after["spec"]
    gates = spec.setdefault("schedulingGates", [])
    labels = metadata.setdefault("labels", {})
    added = []
    if GATE not in gates:
        gates.append(GATE)
        added.append("gate")
    if names.MANAGED_LABEL not in labels:
        labels[names.MANAGED_LABEL] = "true"
        added.append("label")
    mark = ",".join(added) or "nothing"
    metadata.setdefault("annotations", {})[names.UNREVIEWED] = mark
    return after


@pytest.mark.parametrize("queues", [("default",), ()], ids=["with a queue", "without"])
@pytest.mark.parametrize(
    "pod",
    [
        make_pod(gpus=1),
        make_pod(gpus=1, gates=("example.com/a",), labels={"a": "b"}, annotations={"c": "d"}),
        make_pod(gpus=1, gates=(GATE["name"], "example.com/a")),
        make_pod(gpus=1, labels={names.MANAGED_LABEL: "true"}),
        make_pod(labels={QUEUE: "default"}),
        make_pod(annotations={names.POD_SUSPENDING_PARENT: "parent"}),
    ],
)
def test_a_pod_that_the_api_server_held_is_after_its_review_as_any_other(
    pod: dict[str, Any], queues: tuple[str, ...]
) -> None:
    cluster = make_cluster(*queues)
    expected = apply(mutate(pod, cluster), pod)
    held = held_by_the_api_server(pod)

    after = apply(mutate(held, cluster), held)

    for field in ("labels", "annotations"):  # what is empty is not stored
        for metadata in (after["metadata"], expected["metadata"]):
            if not metadata.get(field):
                metadata.pop(field, None)
    if not expected["spec"].get("schedulingGates"):
        expected["spec"].pop("schedulingGates", None)
    assert after == expected
