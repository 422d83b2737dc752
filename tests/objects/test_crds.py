"""The YAML in crds/ says what the models say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.objects import crds

FOLDER = Path(__file__).parents[2] / "crds"
CONVERSION = crds.ConversionConfig(
    client_config={"url": "https://127.0.0.1:9443/convert", "caBundle": "Y2E="}
)
CONVERTED = {"ClusterQueue", "Cohort", "LocalQueue", "Workload"}


def by_kind(conversion: crds.ConversionConfig | None = None) -> dict[str, dict[str, Any]]:
    return {d["spec"]["names"]["kind"]: d["spec"] for d in crds.documents(conversion)}


def version_names(spec: dict[str, Any]) -> list[str]:
    return [version["name"] for version in spec["versions"]]


def nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema and everything below it."""
    below = list(schema.get("properties", {}).values())
    below += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [schema, *(node for child in below for node in nodes(child))]


def all_nodes() -> list[dict[str, Any]]:
    return [
        node
        for document in crds.documents(CONVERSION)
        for version in document["spec"]["versions"]
        for node in nodes(version["schema"]["openAPIV3Schema"])
    ]


def test_committed_files_are_what_make_crds_writes() -> None:
    committed = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.yaml")}
    assert committed == {crds.file_name(d): crds.to_yaml(d) for d in crds.documents()}


def test_the_files_parse_back_to_the_documents() -> None:
    for document in crds.documents():
        assert yaml.safe_load(crds.to_yaml(document)) == document


@pytest.mark.parametrize("conversion", [None, CONVERSION])
def test_a_caller_may_change_documents_that_no_other_caller_gets(
    conversion: crds.ConversionConfig | None,
) -> None:
    before = [crds.to_yaml(document) for document in crds.documents(conversion)]
    for document in crds.documents(conversion):
        for version in document["spec"]["versions"]:
            for node in nodes(version["schema"]["openAPIV3Schema"]):
                node.clear()
        document["spec"].clear()
    assert [crds.to_yaml(document) for document in crds.documents(conversion)] == before


def test_no_object_comes_near_the_size_limit_of_the_store() -> None:
    sizes = {d["metadata"]["name"]: len(crds.to_yaml(d)) for d in crds.documents(CONVERSION)}
    assert max(sizes.values()) < 600_000


def test_every_map_key_is_required_or_has_a_default() -> None:
    for node in all_nodes():
        for key in node.get("x-kubernetes-list-map-keys", ()):
            items = node["items"]
            assert key in items.get("required", ()) or "default" in items["properties"][key]


def test_every_default_has_the_type_of_its_field() -> None:
    kinds: dict[str, type] = {"string": str, "boolean": bool, "integer": int, "object": dict}
    for node in all_nodes():
        if "default" in node and "type" in node:
            assert isinstance(node["default"], kinds[node["type"]]), node


def test_patterns_use_what_go_and_python_share() -> None:
    for pattern in {node["pattern"] for node in all_nodes() if "pattern" in node}:
        re.compile(pattern.replace("(?i)", ""))
        assert not re.search(r"\(\?[=!<P]|\\[0-9]", pattern), pattern


@pytest.mark.parametrize("kind", sorted(CONVERTED))
def test_a_kind_that_needs_conversion_has_one_version_without_a_webhook(kind: str) -> None:
    spec = by_kind()[kind]
    assert version_names(spec) == ["v1beta2"]
    assert "conversion" not in spec


def test_exactly_one_version_is_stored() -> None:
    for conversion in (None, CONVERSION):
        for spec in by_kind(conversion).values():
            stored = [version["name"] for version in spec["versions"] if version["storage"]]
            assert stored == ["v1beta2"]


@pytest.mark.parametrize(
    ("kind", "short", "scope", "has_status"),
    [
        ("AdmissionCheck", ["ac"], "Cluster", True),
        ("ClusterQueue", ["cq"], "Cluster", True),
        ("Cohort", ["co"], "Cluster", True),
        ("LocalQueue", ["queue", "queues", "lq"], "Namespaced", True),
        ("ResourceFlavor", ["flavor", "flavors", "rf"], "Cluster", False),
        ("Topology", ["topo"], "Cluster", False),
        ("Workload", ["kwl", "kueueworkload", "kueueworkloads"], "Namespaced", True),
        ("WorkloadPriorityClass", ["wpc"], "Cluster", False),
    ],
)
def test_names_scope_and_subresources(
    kind: str, short: list[str], scope: str, has_status: bool
) -> None:
    spec = by_kind()[kind]
    assert (spec["names"]["shortNames"], spec["scope"]) == (short, scope)
    assert all(("subresources" in version) == has_status for version in spec["versions"])


def test_only_workloads_can_be_selected_by_their_cluster_queue() -> None:
    fields = {
        kind: [field["jsonPath"] for field in spec["versions"][0].get("selectableFields", ())]
        for kind, spec in by_kind().items()
    }
    assert {kind: paths for kind, paths in fields.items() if paths} == {
        "Workload": [".status.admission.clusterQueue"]
    }


def test_a_cluster_queue_shows_its_columns() -> None:
    columns = by_kind()["ClusterQueue"]["versions"][0]["additionalPrinterColumns"]
    assert [(c["name"], c["jsonPath"], c.get("priority", 0)) for c in columns] == [
        ("Cohort", ".spec.cohortName", 0),
        ("Strategy", ".spec.queueingStrategy", 1),
        ("Pending Workloads", ".status.pendingWorkloads", 0),
        ("Admitted Workloads", ".status.admittedWorkloads", 1),
        ("GPUs", ".status.gpus", 0),
        ("Active", ".status.conditions[?(@.type=='Active')].status", 0),
    ]


def test_a_column_that_kueue_does_not_have_is_shown_in_wide_output_only() -> None:
    for kind in ("LocalQueue", "Workload"):
        (version,) = by_kind()[kind]["versions"]
        last = version["additionalPrinterColumns"][-1]
        assert (last["name"] in {"Active", "Reason"}, last["priority"]) == (True, 1)


def test_a_deprecated_version_warns() -> None:
    for spec in by_kind(CONVERSION).values():
        older, newer = spec["versions"]
        assert (older["name"], older["deprecated"], older["deprecationWarning"]) == (
            "v1beta1",
            True,
            "This version is deprecated. Use v1beta2 instead.",
        )
        assert not newer.keys() & {"deprecated", "deprecationWarning"}


@pytest.mark.parametrize("kind", sorted(CONVERTED))
def test_a_conversion_webhook_brings_the_older_version(kind: str) -> None:
    spec = by_kind(CONVERSION)[kind]
    assert version_names(spec) == ["v1beta1", "v1beta2"]
    assert spec["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://127.0.0.1:9443/convert", "caBundle": "Y2E="},
            "conversionReviewVersions": ["v1"],
        },
    }


@pytest.mark.parametrize("kind", sorted(set(by_kind()) - CONVERTED))
def test_the_other_kinds_are_served_in_both_versions_without_a_webhook(kind: str) -> None:
    for conversion in (None, CONVERSION):
        spec = by_kind(conversion)[kind]
        assert version_names(spec) == ["v1beta1", "v1beta2"]
        assert "conversion" not in spec


def test_columns_of_the_older_cluster_queue_read_its_own_fields() -> None:
    older = by_kind(CONVERSION)["ClusterQueue"]["versions"][0]
    assert older["additionalPrinterColumns"][0]["jsonPath"] == ".spec.cohort"
