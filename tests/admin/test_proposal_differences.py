"""What a proposed object would change of the one in the cluster, and what of it would stay."""

import copy
import functools
from typing import Any

import pytest

from admission.admin import proposal, proposal_differences
from admission.admin.proposal import Team
from admission.base import names
from admission.kube import apply
from admission.kube.api import Document
from admission.objects import crds
from admission.sandbox.store import Store
from tests.admin.node_table import GPU, TRAINING, gpu_node, supply

FLAVOR = "a100-80gb-training"
QUOTA = ("spec", "resourceGroups", 0, "flavors", 0, "resources", 0)
IN_QUOTA = f"spec.resourceGroups[{GPU}].flavors[{FLAVOR}].resources[{GPU}]"


@functools.cache
def documents() -> dict[str, Document]:
    """Return what is proposed for a node that only pods of one team tolerate, by kind."""
    whole = supply(gpu_node("gpu-0", taints=[TRAINING]))
    shares, left_over = proposal.shares(whole, [Team(name="red", namespaces=("red",))])
    objects = proposal.objects(whole, shares, left_over=left_over, missing={"red"})
    return {each.document["kind"]: each.document for each in reversed(objects)}


@functools.cache
def documents_in_store() -> dict[str, Document]:
    """Return them as the API server stores them, with all defaults."""
    store = Store(crds=crds.documents())
    in_order = reversed(documents().values())
    return {
        document["kind"]: store.create(
            apply.locate(document)[0],
            copy.deepcopy(document),
            document["metadata"].get("namespace", ""),
        )
        for document in in_order
    }


def proposed(kind: str) -> Document:
    return copy.deepcopy(documents()[kind])


def stored(kind: str) -> Document:
    return copy.deepcopy(documents_in_store()[kind])


def changed(kind: str, path: tuple[Any, ...], value: Any) -> Document:
    document = stored(kind)
    at: Any = document
    for key in path[:-1]:
        at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
    at[path[-1]] = value
    return document


@pytest.mark.parametrize("kind", ["ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue"])
def test_what_was_made_from_a_proposal_does_not_differ_from_it(kind: str) -> None:
    assert proposal_differences.compare(proposed(kind), stored(kind)) == ()


CHECKS = {"admissionChecks": [{"name": "budget"}]}
TOLERATION = {"key": "team", "operator": "Exists", "effect": "NoSchedule"}
TAKEN = [
    ("ClusterQueue", (*QUOTA, "lendingLimit"), 0, f"{IN_QUOTA}.lendingLimit: 0 in the cluster"),
    ("ClusterQueue", (*QUOTA, "borrowingLimit"), "2", f"{IN_QUOTA}.borrowingLimit: 2 in the"),
    (
        "ClusterQueue", ("spec", "namespaceSelector", "matchLabels"), {"a": "b"},
        "spec.namespaceSelector.matchLabels: {'a': 'b'} in the cluster",
    ),
    (
        "ResourceFlavor", ("spec", "nodeLabels", "pool"), "b",
        "spec.nodeLabels.pool: b in the cluster, none proposed",
    ),
    (
        "ResourceFlavor", ("spec", "nodeTaints", 0, "timeAdded"), "2026-01-01T00:00:00Z",
        "spec.nodeTaints[workload=training:NoSchedule].timeAdded: 2026-01-01T00:00:00Z in the",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "value", "text"), TAKEN)
def test_what_only_the_cluster_has_is_lost_in_what_is_replaced_as_a_whole(
    kind: str, path: tuple[Any, ...], value: Any, text: str
) -> None:
    (got,) = proposal_differences.compare(proposed(kind), changed(kind, path, value))
    assert (got.text.startswith(text), got.stays) == (True, False), got


STAYING = [
    ("ClusterQueue", ("spec", "stopPolicy"), "Hold"),
    ("ClusterQueue", ("spec", "queueingStrategy"), "StrictFIFO"),
    ("ClusterQueue", ("spec", "fairSharing"), {"weight": "2"}),
    ("ClusterQueue", ("spec", "admissionChecksStrategy"), CHECKS),
    ("ClusterQueue", ("spec", "flavorFungibility", "whenCanBorrow"), "TryNextFlavor"),
    ("ClusterQueue", ("spec", "preemption", "withinClusterQueue"), "LowerPriority"),
    ("ClusterQueue", ("metadata", "annotations", names.CAPACITY_GUARD), "enforce"),
    ("Cohort", ("spec", "parentName"), "all"),
    ("LocalQueue", ("spec", "stopPolicy"), "Hold"),
    ("ResourceFlavor", ("spec", "tolerations"), [TOLERATION]),
    ("ResourceFlavor", ("spec", "topologyName"), "racks"),
    ("ResourceFlavor", ("metadata", "annotations", names.PLACEMENT), "pack"),
]


@pytest.mark.parametrize(("kind", "path", "value"), STAYING)
def test_what_only_the_cluster_has_stays_beside_what_is_proposed(
    kind: str, path: tuple[Any, ...], value: Any
) -> None:
    (got,) = proposal_differences.compare(proposed(kind), changed(kind, path, value))
    name = ".".join(path)
    shown = f"{name}: {value} in the cluster, none proposed; it stays"
    assert (got.text, got.stays) == (shown, True)


def fields(manager: str, operation: str = "Apply") -> Document:
    tree: Document = {"f:spec": {"f:tolerations": {}}}
    return {"manager": manager, "operation": operation, "fieldsV1": tree}


@pytest.mark.parametrize(
    ("entries", "stays"),
    [
        ([fields(names.FIELD_MANAGER)], False),
        ([fields(names.FIELD_MANAGER), fields("kubectl-edit", "Update")], True),
        ([fields(names.FIELD_MANAGER, "Update")], True),
        ([fields("kubectl")], True),
    ],
)
def test_what_an_earlier_overwrite_alone_set_goes(entries: list[Document], stays: bool) -> None:
    present = changed("ResourceFlavor", ("spec", "tolerations"), [TOLERATION])
    present["metadata"]["managedFields"] = entries
    (got,) = proposal_differences.compare(proposed("ResourceFlavor"), present)
    assert got.stays is stays


def test_a_queue_without_selector_is_not_one_that_selects_everything() -> None:
    everybody = proposed("ClusterQueue")
    everybody["spec"]["namespaceSelector"] = {}
    present = copy.deepcopy(everybody)
    del present["spec"]["namespaceSelector"]
    (got,) = proposal_differences.compare(everybody, present)
    assert got.text == "spec.namespaceSelector: nothing in the cluster, {} proposed"


def test_taints_of_one_key_are_told_apart() -> None:
    both = [TRAINING, {**TRAINING, "effect": "NoExecute"}]
    present = changed("ResourceFlavor", ("spec", "nodeTaints"), both)
    (got,) = proposal_differences.compare(proposed("ResourceFlavor"), present)
    assert got.text == (
        "spec.nodeTaints[workload=training:NoExecute]: in the cluster, not proposed"
    )
