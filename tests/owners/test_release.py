"""Releasing a pod takes our gate off and only ever adds to the pod."""

import json
from typing import Any

import msgspec
import pytest

from admission.base import names
from admission.objects import views
from admission.objects.resource_flavor import ResourceFlavor
from admission.owners import injection
from admission.owners import pod as pod_owner
from tests.builders.metadata import make_condition
from tests.builders.pods import pod_view
from tests.builders.workloads import make_admission, workload_of_pod

TOLERATION = views.Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")
A100 = msgspec.convert(
    {
        "metadata": {"name": "a100"},
        "spec": {
            "nodeLabels": {"nvidia.com/gpu.product": "A100"},
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
            ],
        },
    },
    ResourceFlavor,
)


def given(pod: views.Pod) -> injection.Injection:
    workload = workload_of_pod(pod, make_condition("Admitted", "True"), admission=make_admission())
    return injection.injection(workload, "main", {"a100": A100})


def patch(pod: views.Pod) -> Any:
    return json.loads(pod_owner.release(pod, given(pod)).body)


def test_selector_tolerations_labels_and_the_workloads_name_are_injected() -> None:
    pod = pod_view(version="7")

    assert patch(pod) == {
        "metadata": {
            "resourceVersion": "7",
            "uid": "uid-train",
            "labels": {
                names.PODSET_LABEL: "main",
                names.LOCAL_QUEUE_NAME_LABEL: "team-a",
                names.CLUSTER_QUEUE_NAME_LABEL: "gpus",
            },
            "annotations": {names.WORKLOAD_ANNOTATION: workload_of_pod(pod).metadata.name},
        },
        "spec": {
            "schedulingGates": [],
            "nodeSelector": {"nvidia.com/gpu.product": "A100"},
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
            ],
        },
    }


def test_gates_of_others_stay() -> None:
    gates = [{"name": names.ADMISSION_GATE}, {"name": "example.com/wait"}]

    changed = patch(pod_view(spec={"schedulingGates": gates}))

    assert changed["spec"]["schedulingGates"] == [{"name": "example.com/wait"}]


def test_kueues_topology_gate_goes_too_where_the_pod_was_taken_over_from_it() -> None:
    gates = [{"name": names.ADMISSION_GATE}, {"name": names.TOPOLOGY_GATE}]

    assert patch(pod_view(spec={"schedulingGates": gates}))["spec"]["schedulingGates"] == []


def test_a_topology_gate_with_which_the_pod_was_created_stays() -> None:
    gates = [{"name": names.ADMISSION_GATE}, {"name": names.TOPOLOGY_GATE}]
    pod = pod_view(
        spec={"schedulingGates": gates}, annotations={names.FOREIGN_TOPOLOGY_GATE: "true"}
    )

    assert patch(pod)["spec"]["schedulingGates"] == [{"name": names.TOPOLOGY_GATE}]


def test_tolerations_of_the_pod_stay_first_and_none_is_repeated() -> None:
    own = [
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute",
         "tolerationSeconds": 0},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]  # fmt: skip

    assert "tolerations" not in patch(pod_view(spec={"tolerations": own}))["spec"]
    assert patch(pod_view(spec={"tolerations": own[:1]}))["spec"]["tolerations"] == own


def test_what_the_pod_has_already_is_not_sent_again() -> None:
    selector = {"nvidia.com/gpu.product": "A100"}

    assert "nodeSelector" not in patch(pod_view(spec={"nodeSelector": selector}))["spec"]


def test_a_selector_with_another_value_is_a_conflict_and_no_clobber() -> None:
    pod = pod_view(spec={"nodeSelector": {"nvidia.com/gpu.product": "H100"}})

    with pytest.raises(injection.InjectionConflictError, match="conflict for nodeSelector"):
        pod_owner.release(pod, given(pod))


def test_a_queue_name_that_is_no_label_value_is_left_out() -> None:
    pod = pod_view()
    workload = workload_of_pod(pod, admission=make_admission(cluster_queue="a" * 64))

    injected = injection.injection(workload, "main", {"a100": A100})

    assert names.CLUSTER_QUEUE_NAME_LABEL not in injected.labels


def test_an_unknown_flavor_is_an_error() -> None:
    workload = workload_of_pod(pod_view(), admission=make_admission(flavor="gone"))

    with pytest.raises(KeyError):
        injection.injection(workload, "main", {})
