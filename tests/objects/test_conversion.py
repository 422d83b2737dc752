"""Objects keep their meaning from one version to the other.

Source: kueue v1beta1 conversion (the rules of both directions, one case each). For every field of
every kind: `test_conversion_of_every_field.py`.
"""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.errors import InvalidValueError
from admission.objects import conversion, structural
from admission.objects.conversion import NEW, OLD
from tests.objects import schemas

KUEUE_SOURCE = "kueue.x-k8s.io/workloadpriorityclass"
POD_SOURCE = "scheduling.k8s.io/priorityclass"
KUEUE_REF = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_REF = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}


def up(kind: str, **parts: Any) -> dict[str, Any]:
    return changed(kind, OLD, NEW, parts)


def down(kind: str, **parts: Any) -> dict[str, Any]:
    return changed(kind, NEW, OLD, parts)


def changed(kind: str, source: str, target: str, parts: dict[str, Any]) -> dict[str, Any]:
    out = conversion.convert({"apiVersion": source, "kind": kind, **parts}, target)
    assert (out.pop("apiVersion"), out.pop("kind")) == (target, kind)
    return out


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"cohort": "a"}, {"cohortName": "a"}, id="cohort has a new name"),
        pytest.param(
            {
                "admissionChecks": ["b", "a"],
                "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]},
            },
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "b"}, {"name": "a"}]}},
            id="the plain list replaces the strategy and keeps its order",
        ),
        pytest.param(
            {"admissionChecks": ["b", "a", "b"]},
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "b"}, {"name": "a"}]}},
            id="a check that stands twice becomes one rule",
        ),
        pytest.param(
            {
                "admissionChecks": [],
                "admissionChecksStrategy": {
                    "admissionChecks": [{"name": "c", "onFlavors": ["f"]}]
                },
            },
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f"]}]}},
            id="an empty list leaves the strategy alone",
        ),
        pytest.param(
            {"admissionChecksStrategy": {}},
            {},
            id="an empty strategy, which v1beta2 refuses, goes",
        ),
        pytest.param(
            {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
            {
                "flavorFungibility": {
                    "whenCanBorrow": "MayStopSearch",
                    "whenCanPreempt": "MayStopSearch",
                }
            },
            id="the older words mean MayStopSearch",
        ),
        pytest.param(
            {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}, "stopPolicy": "Hold"},
            {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}, "stopPolicy": "Hold"},
            id="the rest is copied",
        ),
    ],
)
def test_cluster_queue_spec_up(spec: dict[str, Any], want: dict[str, Any]) -> None:
    assert up("ClusterQueue", spec=spec) == {"spec": want}


def test_cluster_queue_spec_down() -> None:
    strategy = {"admissionChecks": [{"name": "c"}]}
    spec = {
        "cohortName": "a",
        "admissionChecksStrategy": strategy,
        "concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch"},
    }
    assert down("ClusterQueue", spec=spec) == {
        "spec": {
            "cohort": "a",
            "admissionChecksStrategy": strategy,
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch"},
        }
    }


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort"])
def test_queue_statuses_lose_what_v1beta2_does_not_have(kind: str) -> None:
    status = {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": {}}}
    assert up(kind, status=status) == {"status": {"fairSharing": {"weightedShare": 1}}}


def test_pending_workloads_of_the_status_go() -> None:
    status = {"pendingWorkloads": 1, "pendingWorkloadsStatus": {"lastChangeTime": "t"}}
    assert up("ClusterQueue", status=status) == {"status": {"pendingWorkloads": 1}}


def test_local_queue_status_in_both_directions() -> None:
    fair = {"weightedShare": 0, "admissionFairSharingStatus": {"lastUpdate": "t"}}
    old = {"flavorUsage": [{"name": "f"}], "flavors": [{"name": "f"}], "fairSharing": fair}
    new = {"flavorsUsage": [{"name": "f"}], "fairSharing": fair}
    assert up("LocalQueue", status=old) == {"status": new}
    assert down("LocalQueue", status=new) == {
        "status": {"flavorUsage": [{"name": "f"}], "fairSharing": fair}
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            {"priorityClassName": "high", "priorityClassSource": KUEUE_SOURCE},
            {"priorityClassRef": KUEUE_REF},
            id="a class for quota",
        ),
        pytest.param(
            {"priorityClassName": "high", "priorityClassSource": POD_SOURCE},
            {"priorityClassRef": POD_REF},
            id="a class for pods",
        ),
        pytest.param({"priorityClassSource": ""}, {}, id="none"),
    ],
)
def test_the_priority_class_in_both_directions(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert up("Workload", spec={"priority": 1, **old}) == {"spec": {"priority": 1, **new}}
    assert down("Workload", spec={"priority": 1, **new}) == {"spec": {"priority": 1, **old}}


def test_a_class_without_a_source_is_lost_and_the_priority_stays() -> None:
    spec = {"priority": 1, "priorityClassName": "high", "priorityClassSource": ""}
    assert up("Workload", spec=spec) == {"spec": {"priority": 1}}


def test_a_misspelled_field_is_spelled_right() -> None:
    old = {"accumulatedPastExexcutionTimeSeconds": 7}
    new = {"accumulatedPastExecutionTimeSeconds": 7}
    assert up("Workload", status=old) == {"status": new}
    assert down("Workload", status=new) == {"status": old}


def test_a_workload_loses_what_v1beta1_does_not_have() -> None:
    request = {"required": "rack", "podsetSliceRequiredTopologyConstraints": [{"size": 1}]}
    spec = {
        "preemptionGates": [{"name": "g"}],
        "podSets": [{"name": "main", "topologyRequest": request}],
    }
    assert down("Workload", spec=spec, status={"preemptionGates": []}) == {
        "spec": {
            "priorityClassSource": "",
            "podSets": [{"name": "main", "topologyRequest": {"required": "rack"}}],
        },
        "status": {},
    }


@pytest.mark.parametrize("kind", ["ResourceFlavor", "Topology", "AdmissionCheck"])
def test_kinds_without_rules_only_change_their_version(kind: str) -> None:
    assert up(kind, spec={"any": 1}) == down(kind, spec={"any": 1}) == {"spec": {"any": 1}}


def test_the_same_version_changes_nothing() -> None:
    document = {"apiVersion": NEW, "kind": "ClusterQueue", "spec": {"cohort": "kept"}}
    assert conversion.convert(document, NEW) == document


@pytest.mark.parametrize(
    ("source", "target"), [("kueue.x-k8s.io/v1alpha1", NEW), (NEW, "v1"), ("", NEW)]
)
def test_an_unknown_version_is_refused(source: str, target: str) -> None:
    with pytest.raises(InvalidValueError, match=r"must be .*/v1beta1 or .*/v1beta2"):
        conversion.convert({"apiVersion": source, "kind": "Cohort"}, target)


SAMPLES = st.fixed_dictionaries(
    {"apiVersion": st.just(NEW), "metadata": st.just({"name": "a"})},
    optional={
        "kind": st.sampled_from(["ClusterQueue", "Cohort", "LocalQueue", "Workload"]),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "cohortName": st.sampled_from(["a", "b"]),
                "flavorFungibility": st.just({"whenCanBorrow": "MayStopSearch"}),
                "admissionChecksStrategy": st.just({"admissionChecks": [{"name": "c"}]}),
                "priorityClassRef": st.sampled_from([KUEUE_REF, POD_REF]),
                "podSets": st.just([{"name": "main", "topologyRequest": {"required": "x"}}]),
            },
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "conditions": st.just([{"type": "Active"}]),
                "fairSharing": st.just({"weightedShare": 3}),
                "flavorsUsage": st.just([{"name": "f"}]),
                "accumulatedPastExecutionTimeSeconds": st.integers(0, 9),
            },
        ),
    },
)


@given(SAMPLES)
def test_what_both_versions_can_say_survives_the_way_there_and_back(
    document: dict[str, Any],
) -> None:
    before = copy.deepcopy(document)
    there = conversion.convert(document, OLD)
    assert conversion.convert(there, NEW) == before
    assert document == before


TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}
QUOTA = [
    {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
    }
]
FULL_OLD = [
    {
        "kind": "ClusterQueue",
        "spec": {
            "cohort": "a",
            "resourceGroups": QUOTA,
            "admissionChecks": ["c"],
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        },
        "status": {"pendingWorkloadsStatus": {"lastChangeTime": "2026-01-02T03:04:05Z"}},
    },
    {"kind": "Cohort", "spec": {"parentName": "a", "resourceGroups": QUOTA}},
    {
        "kind": "LocalQueue",
        "spec": {"clusterQueue": "a"},
        "status": {"flavors": [{"name": "f"}], "flavorUsage": [{"name": "f", "resources": []}]},
    },
    {
        "kind": "Workload",
        "spec": {
            "podSets": [{"name": "main", "count": 2, "template": TEMPLATE}],
            "priority": 1,
            "priorityClassName": "high",
            "priorityClassSource": POD_SOURCE,
        },
        "status": {
            "accumulatedPastExexcutionTimeSeconds": 1,
            "admission": {
                "clusterQueue": "a",
                "podSetAssignments": [
                    {
                        "name": "main",
                        "topologyAssignment": {
                            "levels": ["rack"],
                            "domains": [{"values": ["a"], "count": 1}],
                        },
                    }
                ],
            },
        },
    },
]


def problems(document: dict[str, Any], version: str) -> tuple[str, ...]:
    """What the version's schema does not know or refuses."""
    schema = schemas.of_version(version)[document["kind"]]
    pruned = copy.deepcopy(document)
    structural.prune(schema, pruned)
    assert pruned == document
    return structural.errors(schema, document)


@pytest.mark.parametrize("full", FULL_OLD, ids=lambda document: document["kind"])
def test_a_converted_object_is_one_of_its_version(full: dict[str, Any]) -> None:
    old = {"apiVersion": OLD, "metadata": {"name": "a"}, **full}
    assert problems(old, "v1beta1") == ()
    new = conversion.convert(old, NEW)
    assert problems(new, "v1beta2") == ()
    again = conversion.convert(new, OLD)
    assert problems(again, "v1beta1") == ()
    assert conversion.convert(again, NEW) == new


def review(*objects: Any, desired: str = OLD) -> dict[str, Any]:
    request = {"uid": "u", "desiredAPIVersion": desired, "objects": list(objects)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": request,
    }


def test_a_review_is_answered_with_all_objects_in_order() -> None:
    objects = [
        {"apiVersion": NEW, "kind": "ClusterQueue", "spec": {"cohortName": name}}
        for name in ("b", "a")
    ]
    assert conversion.answer(review(*objects))["response"] == {
        "uid": "u",
        "result": {"status": "Success"},
        "convertedObjects": [
            {"apiVersion": OLD, "kind": "ClusterQueue", "spec": {"cohort": name}}
            for name in ("b", "a")
        ],
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}},
            "Pod n/p: 'v1': must be kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2",
            id="another group",
        ),
        pytest.param(
            {
                "apiVersion": NEW,
                "kind": "Workload",
                "metadata": {"name": "w"},
                "status": {
                    "admission": {"podSetAssignments": [{"topologyAssignment": {"slices": [{}]}}]}
                },
            },
            "Workload w: a field is missing or has the wrong type: 'domainCount'",
            id="a slice without its fields",
        ),
        pytest.param(
            7,
            "an object that is not a JSON object: a field is missing or has the wrong type:"
            " 'int' object is not iterable",
            id="a number",
        ),
    ],
)
def test_a_failure_names_the_object(document: Any, message: str) -> None:
    response = conversion.answer(review(document))["response"]
    assert response == {"uid": "u", "result": {"status": "Failure", "message": message}}


@pytest.mark.parametrize("body", [{}, {"kind": "AdmissionReview"}, {"kind": "ConversionReview"}])
def test_another_body_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="must be a ConversionReview with a request"):
        conversion.answer(body)
