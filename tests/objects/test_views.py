"""The views read fields that the schemas know, with types and defaults that agree."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import inspect

from admission.objects.admission_check import AdmissionCheck
from admission.objects.cluster_queue import ClusterQueue, FlavorFungibilitySpec, PreemptionSpec
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.views import Object
from admission.objects.workload import Workload, WorkloadStatus
from tests.objects import schemas

VIEWS: dict[str, type[Object]] = {
    "AdmissionCheck": AdmissionCheck,
    "ClusterQueue": ClusterQueue,
    "Cohort": Cohort,
    "LocalQueue": LocalQueue,
    "ResourceFlavor": ResourceFlavor,
    "Workload": Workload,
    "WorkloadPriorityClass": WorkloadPriorityClass,
}
SHARED = {"metadata"}  # a template's metadata is read by the view of a whole object's


class Members(NamedTuple):
    """What a view reads at a path, and what the schema has there."""

    path: str
    read: set[str]
    known: set[str]


def members(kind: inspect.Type, schema: dict[str, Any], path: str) -> Iterator[Members]:
    """Every object that a view reads, with all that is in it."""
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from members(member, schema, path)
    elif isinstance(kind, inspect.VarTupleType):
        yield from members(kind.item_type, schema.get("items", {}), f"{path}[]")
    elif isinstance(kind, inspect.StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        properties = schema.get("properties", {})
        yield Members(path, set(fields), set(properties))
        for name in fields.keys() & properties.keys() - SHARED:
            yield from members(fields[name], properties[name], f"{path}.{name}")


def unknown(kind: inspect.Type, schema: dict[str, Any], path: str) -> set[str]:
    """Paths that a view reads and the schema does not have."""
    found = members(kind, schema, path)
    return {f"{at}.{name}" for at, read, known in found for name in read - known - SHARED}


def unread(kind: inspect.Type, schema: dict[str, Any], path: str) -> set[str]:
    """Paths that a schema has and a view of what is around them does not read."""
    found = members(kind, schema, path)
    return {f"{at}.{name}" for at, read, known in found for name in known - read}


@pytest.mark.parametrize("kind", sorted(VIEWS))
def test_a_view_reads_only_fields_of_the_schema(kind: str) -> None:
    schema = schemas.stored()[kind]
    assert unknown(inspect.type_info(VIEWS[kind]), schema, "") == set()


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort", "LocalQueue"])
def test_a_status_that_is_replaced_is_known_whole(kind: str) -> None:
    status = schemas.stored()[kind]["properties"]["status"]
    assert unread(status_type(kind), status, ".status") == set()


def test_every_member_of_a_workloads_status_is_known_to_be_there() -> None:
    status = schemas.stored()["Workload"]["properties"]["status"]
    found = unread(status_type("Workload"), status, ".status")
    assert {path for path in found if path.count(".") == 2 or ".conditions" in path} == set()


def status_type(kind: str) -> inspect.Type:
    of_kind = inspect.type_info(VIEWS[kind])
    assert isinstance(of_kind, inspect.StructType)
    return next(field.type for field in of_kind.fields if field.name == "status")


def test_a_workloads_status_names_the_members_that_it_has() -> None:
    given = {"conditions": [], "clusterName": "here", "accumulatedPastExecutionTimeSeconds": 0}
    status = msgspec.convert(given, WorkloadStatus)
    assert set(status.members()) == set(given)


@pytest.mark.parametrize("kind", sorted(set(VIEWS) - {"WorkloadPriorityClass"}))
def test_a_view_reads_an_object_without_spec_and_status(kind: str) -> None:
    assert (
        msgspec.json.decode(b'{"metadata": {"name": "a"}}', type=VIEWS[kind]).metadata.name == "a"
    )


def test_defaults_of_views_are_those_of_the_api() -> None:
    decoded = msgspec.json.decode(b'{"spec": {}}', type=ClusterQueue).spec
    properties = schemas.stored()["ClusterQueue"]["properties"]["spec"]["properties"]
    assert decoded.queueing_strategy == properties["queueingStrategy"]["default"]
    assert decoded.stop_policy == properties["stopPolicy"]["default"]
    fungibility = properties["flavorFungibility"]["properties"]
    assert FlavorFungibilitySpec() == FlavorFungibilitySpec(
        when_can_borrow=fungibility["whenCanBorrow"]["default"],
        when_can_preempt=fungibility["whenCanPreempt"]["default"],
    )
    preemption = properties["preemption"]["properties"]
    assert PreemptionSpec() == PreemptionSpec(
        reclaim_within_cohort=preemption["reclaimWithinCohort"]["default"],
        within_cluster_queue=preemption["withinClusterQueue"]["default"],
    )
