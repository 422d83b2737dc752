"""Queues as the API server sends them become values of scheduling."""

# Plain text stands for typed names here.
# mypy: disable-error-code="arg-type,dict-item,index"

from typing import Any

import msgspec
import pytest

from admission.base.amount import UNLIMITED
from admission.base.errors import InvalidValueError
from admission.objects import cluster_queue as cluster_queues
from admission.objects import cohort, local_queue, resource_flavor, values
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import admission_document
from admission.scheduling import model
from admission.scheduling.decisions import Admit, PodSetAssignment


def cluster_queue(**spec: Any) -> model.ClusterQueue:
    document = {"metadata": {"name": "cq"}, "spec": spec}
    return cluster_queues.scheduling_value(msgspec.convert(document, ClusterQueue))


def group(**quota: Any) -> list[dict[str, Any]]:
    own = {"name": "cpu", "nominalQuota": "2", **quota}
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "std", "resources": [own]}]}]


def test_an_empty_spec_gets_the_defaults():
    assert cluster_queue() == model.ClusterQueue(name="cq")


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({}, model.ResourceQuota(nominal=2000)),
        ({"nominalQuota": 3}, model.ResourceQuota(nominal=3000)),
        ({"nominalQuota": "1E"}, model.ResourceQuota(nominal=UNLIMITED)),
        (
            {"borrowingLimit": "500m", "lendingLimit": "0"},
            model.ResourceQuota(nominal=2000, borrowing_limit=500, lending_limit=0),
        ),
    ],
)
def test_quota(quota, expected):
    (found,) = cluster_queue(resourceGroups=group(**quota)).resource_groups

    assert found.flavors[0].resources == {"cpu": expected}


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"cohortName": "all"}, "cohort", "all"),
        ({"queueingStrategy": "StrictFIFO"}, "queueing_strategy", "StrictFIFO"),
        ({"stopPolicy": "HoldAndDrain"}, "stop_policy", "HoldAndDrain"),
        ({"fairSharing": {"weight": "500m"}}, "fair_weight", 500_000_000),
        ({"namespaceSelector": {}}, "namespace_selector", model.Selector()),
        (
            {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
            "usage_based",
            True,
        ),
        (
            {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
            "fungibility",
            model.FlavorFungibility(when_can_borrow=model.SearchPolicy.TRY_NEXT),
        ),
        (
            {
                "preemption": {
                    "withinClusterQueue": "LowerPriority",
                    "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 5},
                }
            },
            "preemption",
            model.Preemption(
                within_cluster_queue=model.PreemptionPolicy.LOWER_PRIORITY,
                borrow_within_cohort=model.PreemptionPolicy.LOWER_PRIORITY,
                max_priority_threshold=5,
            ),
        ),
        (
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}]}},
            "admission_checks",
            (model.AdmissionCheckRule(name="a", on_flavors=frozenset({"f"})),),
        ),
    ],
)
def test_one_field(spec, field, value):
    assert getattr(cluster_queue(**spec), field) == value


def test_a_selector_tests_labels_and_compares_by_value():
    spec = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    found = cluster_queue(**spec).namespace_selector

    assert found is not None
    assert found({"team": "a"})
    assert not found({"team": "b"})
    assert found == cluster_queue(**spec).namespace_selector


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resourceGroups": group(nominalQuota="lots")}, "flavor std, nominalQuota"),
        ({"queueingStrategy": "Random"}, "spec.queueingStrategy"),
        ({"fairSharing": {"weight": "heavy"}}, "spec.fairSharing.weight"),
        ({"stopPolicy": "Perhaps"}, "spec.stopPolicy"),
    ],
)
def test_what_cannot_be_read_is_named(spec, field):
    with pytest.raises(InvalidValueError) as caught:
        cluster_queue(**spec)

    assert caught.value.rule.startswith(f"{field}: ")


def test_a_cohort():
    document = {
        "metadata": {"name": "c"},
        "spec": {"parentName": "p", "resourceGroups": group(), "fairSharing": {"weight": 2}},
    }

    found = cohort.scheduling_value(msgspec.convert(document, Cohort))

    assert (found.name, found.parent, found.fair_weight) == ("c", "p", 2 * 10**9)
    assert found.resource_groups[0].flavors[0].resources["cpu"].nominal == 2000


def test_a_local_queue():
    document = {
        "metadata": {"name": "q", "namespace": "ml", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"clusterQueue": "cq", "stopPolicy": "Hold"},
    }

    assert local_queue.scheduling_value(msgspec.convert(document, LocalQueue)) == model.LocalQueue(
        key=("ml", "q"), cluster_queue="cq", stop_policy=model.StopPolicy.HOLD, terminating=True
    )


def test_a_resource_flavor():
    document = {
        "metadata": {"name": "f"},
        "spec": {
            "nodeLabels": {"a": "b"},
            "nodeTaints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "topologyName": "t",
        },
    }

    assert resource_flavor.scheduling_value(
        msgspec.convert(document, ResourceFlavor)
    ) == model.ResourceFlavor(
        name="f",
        node_labels={"a": "b"},
        node_taints=(model.Taint(key="k", value="v", effect="NoSchedule"),),
        tolerations=(model.Toleration(key="k", operator="Exists"),),
        topology="t",
    )


def test_an_admission_goes_back_as_the_status_keeps_it():
    assigned = PodSetAssignment(name="main", count=2, flavors={"cpu": "std"}, usage={"cpu": 1500})
    bare = PodSetAssignment(name="bare", count=1)
    admit = Admit(workload=("ml", "w"), cluster_queue="cq", pod_sets=(assigned, bare))

    assert admission_document(admit) == {
        "clusterQueue": "cq",
        "podSetAssignments": [
            {
                "name": "main",
                "flavors": {"cpu": "std"},
                "resourceUsage": {"cpu": "1500m"},
                "count": 2,
            },
            {"name": "bare", "count": 1},
        ],
    }


def test_times_are_microseconds():
    found = values.microseconds("2026-01-01T12:00:00.25Z", "field")

    assert found == 1_767_268_800_250_000
    assert values.microseconds(None, "field") is None
