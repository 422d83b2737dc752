"""Releasing a pod takes our gate off and only ever adds to the pod."""

import inspect
import json
from datetime import UTC, datetime
from typing import Any, get_type_hints

import msgspec
import pytest

from admission.base import names, patches
from admission.base.conditions import Text
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


WAITS = pod_view(version="7", annotations={names.BEYOND_POD_GROUP: "gang"})
AT = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = Text("ByTest", "by a test")
OF_THIS_VERSION: dict[str, patches.Patch | None] = {
    "release": pod_owner.release(WAITS, given(WAITS)),
    "release_into": pod_owner.release_into(WAITS, given(WAITS)),
    "release_elastic": pod_owner.release_elastic(WAITS),
    "release_to": pod_owner.release_to(WAITS, {"kubernetes.io/hostname": "n1"}),
    "let_go": pod_owner.let_go(WAITS),
    "let_run": pod_owner.let_run(WAITS, "2026-01-01T00:00:00Z", None),
    "charge_to": pod_owner.charge_to(WAITS, "team-a", "gpus"),
    "queue_singly": pod_owner.queue_singly(WAITS, "team-a", {}, {}),
    "put_in_queue": pod_owner.put_in_queue(WAITS, "team-a"),
    "leave_podgroup": pod_owner.leave_podgroup(WAITS, {"a": "b"}, is_beyond=True),
    "return_to_podgroup": pod_owner.return_to_podgroup(WAITS),
    "tell": pod_owner.tell(WAITS, TEXT, AT, admitted=False),
    "complete": pod_owner.complete(WAITS, {"a": "b"}),
}
OF_ANY_VERSION: dict[str, patches.Patch | None] = {
    "termination": pod_owner.termination(WAITS, TEXT, AT),
    "stops_at": pod_owner.stops_at(WAITS, "2026-01-01T00:00:00Z"),
    "say_unreviewed": pod_owner.say_unreviewed(WAITS, TEXT, AT),
}
"""Patches that leave everything else as it is, so that no kubelet makes them fail."""


def values(patch: patches.Patch) -> dict[str, str]:
    """Return uid and version that a patch is bound to."""
    body = json.loads(patch.body)
    if patch.type is patches.PatchType.JSON:
        tests = {one["path"]: one["value"] for one in body if one["op"] == "test"}
        body = {"metadata": {path.removeprefix("/metadata/"): tests[path] for path in tests}}
    return {key: body["metadata"][key] for key in ("uid", "resourceVersion")
            if key in body["metadata"]}  # fmt: skip


@pytest.mark.parametrize("made", OF_THIS_VERSION)
def test_a_pod_that_changed_since_it_was_seen_is_not_changed_by(made: str) -> None:
    patch = OF_THIS_VERSION[made]
    assert patch is not None
    assert values(patch) == {"uid": "uid-train", "resourceVersion": "7"}


@pytest.mark.parametrize("made", OF_ANY_VERSION)
def test_another_pod_of_the_same_name_is_not_changed_by(made: str) -> None:
    patch = OF_ANY_VERSION[made]
    assert patch is not None
    assert values(patch) == {"uid": "uid-train"}


def test_every_patch_of_a_pod_is_bound_to_the_pod_that_was_seen() -> None:
    returned = {
        name: get_type_hints(function).get("return")
        for name, function in inspect.getmembers(pod_owner, inspect.isfunction)
        if function.__module__ == pod_owner.__name__
    }
    kinds = (patches.Patch, patches.Patch | None)
    made = {name for name, kind in returned.items() if kind in kinds}
    assert made == {*OF_THIS_VERSION, *OF_ANY_VERSION}
