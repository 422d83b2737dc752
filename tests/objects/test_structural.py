"""Defaults, pruning and limits are those of an API server."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.objects import structural
from tests.objects import schemas

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


def completed(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    structural.prune(schemas.stored()[kind], document)
    structural.defaults(schemas.stored()[kind], document)
    return document


def errors(kind: str, document: dict[str, Any]) -> tuple[str, ...]:
    return structural.errors(schemas.stored()[kind], completed(kind, document))


def pod_set(**fields: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "c"}]}}, **fields}


def workload(*pod_sets: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"podSets": list(pod_sets), **spec}}


def test_an_empty_cluster_queue_spec_gets_every_default() -> None:
    assert completed("ClusterQueue", {"spec": {}}) == {
        "spec": {
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "flavorFungibility": {
                "whenCanBorrow": "MayStopSearch",
                "whenCanPreempt": "TryNextFlavor",
            },
            "preemption": {
                "reclaimWithinCohort": "Never",
                "withinClusterQueue": "Never",
                "borrowWithinCohort": {"policy": "Never"},
            },
        }
    }


def test_an_absent_spec_stays_absent() -> None:
    assert completed("ClusterQueue", {"metadata": {"name": "a"}}) == {"metadata": {"name": "a"}}


def test_a_weight_is_defaulted_only_inside_fair_sharing() -> None:
    assert completed("Cohort", {"spec": {"fairSharing": {}}}) == {
        "spec": {"fairSharing": {"weight": 1}}
    }


def test_a_pod_set_and_its_ports_get_defaults() -> None:
    ports = {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
    done = completed("Workload", {"spec": {"podSets": [{"template": {"spec": ports}}]}})
    (only,) = done["spec"]["podSets"]
    assert (done["spec"]["active"], only["name"], only["count"]) == (True, "main", 1)
    assert only["template"]["spec"]["containers"][0]["ports"][0]["protocol"] == "TCP"


def test_a_null_is_dropped_or_replaced_by_the_default() -> None:
    spec = {"active": None, "priority": None, "podSets": None}
    assert completed("Workload", {"spec": spec}) == {"spec": {"active": True}}


def test_unknown_fields_go_and_metadata_stays() -> None:
    document = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "a", "labels": {"any": "thing"}},
        "status": {},
        "spec": {"color": "red", "nodeLabels": {"any": "thing"}, "nodeTaints": [{"x": 1}]},
    }
    assert completed("ResourceFlavor", document) == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "a", "labels": {"any": "thing"}},
        "spec": {"nodeLabels": {"any": "thing"}, "nodeTaints": [{}]},
    }


def test_template_metadata_keeps_what_a_template_may_set() -> None:
    metadata = {"labels": {"a": "b"}, "uid": "1", "name": "n", "finalizers": ["f"]}
    done = completed("Workload", workload(pod_set(template={"metadata": metadata})))
    assert done["spec"]["podSets"][0]["template"] == {
        "metadata": {"labels": {"a": "b"}, "name": "n", "finalizers": ["f"]}
    }


@pytest.mark.parametrize(
    ("kind", "document", "want"),
    [
        pytest.param("WorkloadPriorityClass", {}, "value: Required value", id="required"),
        pytest.param(
            "WorkloadPriorityClass",
            {"value": "7"},
            'value: Invalid value: "string": value in body must be of type integer: "string"',
            id="type",
        ),
        pytest.param(
            "WorkloadPriorityClass",
            {"value": 2**31},
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32'
            " in value",
            id="range of the format",
        ),
        pytest.param(
            "WorkloadPriorityClass",
            {"value": 1, "description": "x" * 2049},
            "description: Too long: may not be more than 2048 bytes",
            id="too long",
        ),
        pytest.param(
            "ClusterQueue",
            {"spec": {"stopPolicy": "Stop"}},
            'spec.stopPolicy: Unsupported value: "Stop": supported values: "None", "Hold",'
            ' "HoldAndDrain"',
            id="enum",
        ),
        pytest.param(
            "ResourceFlavor",
            {"spec": {"nodeLabels": {str(n): "" for n in range(9)}}},
            "spec.nodeLabels: Too many: 9: must have at most 8 items",
            id="too many members",
        ),
        pytest.param(
            "ResourceFlavor",
            {"spec": {"tolerations": [{}] * 9}},
            "spec.tolerations: Too many: 9: must have at most 8 items",
            id="too many items",
        ),
        pytest.param(
            "Topology",
            {"spec": {"levels": []}},
            "spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items",
            id="too few items",
        ),
        pytest.param(
            "Workload",
            workload(pod_set(count=-1)),
            "spec.podSets[0].count: Invalid value: -1: spec.podSets[0].count in body should be"
            " greater than or equal to 0",
            id="minimum",
        ),
        pytest.param(
            "Workload",
            workload(pod_set(name="A")),
            'spec.podSets[0].name: Invalid value: "A": spec.podSets[0].name in body should match'
            f" '{NAME_PATTERN}'",
            id="pattern",
        ),
        pytest.param(
            "Workload",
            workload(pod_set(name="a\n")),
            'spec.podSets[0].name: Invalid value: "a\\n": spec.podSets[0].name in body should'
            f" match '{NAME_PATTERN}'",
            id="a pattern ends before a line feed",
        ),
        pytest.param(
            "Workload",
            workload(pod_set(), pod_set()),
            'spec.podSets[1]: Duplicate value: {"name":"main"}',
            id="two unnamed pod sets collide",
        ),
        pytest.param(
            "AdmissionCheck",
            {"spec": {"controllerName": ""}},
            'spec.controllerName: Invalid value: "": spec.controllerName in body should be at'
            " least 1 chars long",
            id="too short",
        ),
    ],
)
def test_a_broken_limit_is_told_in_the_api_servers_words(
    kind: str, document: dict[str, Any], want: str
) -> None:
    assert errors(kind, document) == (want,)


def test_a_value_of_a_set_may_not_stand_twice() -> None:
    check = {"name": "a", "onFlavors": ["x", "y", "x", "x"]}
    document = {"spec": {"admissionChecksStrategy": {"admissionChecks": [check]}}}
    assert errors("ClusterQueue", document) == (
        'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[2]: Duplicate value: "x"',
    )


def test_a_kind_is_compared_without_case() -> None:
    reference = {"apiGroup": "a.b", "kind": "ConfigMap", "name": "n"}
    document = {"spec": {"controllerName": "c", "parameters": reference}}
    assert errors("AdmissionCheck", document) == ()


def test_all_errors_are_told() -> None:
    document = workload(pod_set(count=-1), pod_set(name="b", minCount=0), queueName="X")
    assert [line.split(":")[0] for line in errors("Workload", document)] == [
        "spec.podSets[0].count",
        "spec.podSets[1].minCount",
        "spec.queueName",
    ]


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "queueName": st.sampled_from(["a", "A", "", None]),
        "active": st.sampled_from([True, None, 1]),
        "priority": st.sampled_from([1, 2**31, None, "x"]),
        "unknown": st.just({"a": 1}),
        "podSets": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {}, optional={"name": st.sampled_from(["a", None]), "count": st.integers(-1, 1)}
            ),
            max_size=3,
        ),
    },
)


@given(SPECS)
def test_defaulting_and_pruning_twice_is_like_once(spec: dict[str, Any]) -> None:
    once = completed("Workload", {"spec": spec})
    assert completed("Workload", copy.deepcopy(once)) == once


@given(SPECS)
def test_validation_changes_nothing(spec: dict[str, Any]) -> None:
    document = completed("Workload", {"spec": spec})
    before = copy.deepcopy(document)
    structural.errors(schemas.stored()["Workload"], document)
    assert document == before


def test_a_kind_that_keeps_unknown_fields_keeps_them_at_the_top_as_well() -> None:
    document = {"metadata": {"name": "a"}, "spec": {"any": [1]}}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    structural.prune(schema, document)
    assert document["spec"] == {"any": [1]}
